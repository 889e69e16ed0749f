# embed.cmake -- IN, a text, as a C array in OUT: cmake -DIN=... -DOUT=... -P embed.cmake
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
get_filename_component(name ${IN} NAME)
file(WRITE ${OUT} "/* ${name}, embedded by the build. */
#include \"vcl-lite/vcl_priv.h\"

const char vcl_builtin_text[] = {
${hex}0x00};
const size_t vcl_builtin_len = sizeof(vcl_builtin_text) - 1;
")
