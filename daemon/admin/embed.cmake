# embed.cmake -- cmake -DIN=FILE -DSTYLE=FILE -DOUT=FILE.c -DNAME=SYMBOL -P embed.cmake: a file's bytes as a C
# array, with those of STYLE in place of @STYLE@.
file(READ ${IN} hex HEX)
file(READ ${STYLE} style HEX)
string(REPLACE "405354594c4540" "${style}" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "extern const unsigned char ${NAME}[];\nconst unsigned char ${NAME}[] = {\n${bytes}0};\n")
