# embed.cmake -- cmake -DIN=FILE -DOUT=FILE.c -DNAME=SYMBOL -P embed.cmake: a file's bytes as a C array.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "extern const unsigned char ${NAME}[];\nconst unsigned char ${NAME}[] = {\n${bytes}0};\n")
