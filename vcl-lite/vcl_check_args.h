/* vcl_check_args.h -- arguments of functions, as vcl_func_table.h writes them.
 *
 * For vcl-lite/ only: the checker, and what generates the reference.
 */
#ifndef TARN_VCL_CHECK_ARGS_H
#define TARN_VCL_CHECK_ARGS_H

#include "vcl-lite/vcl_sema.h"

struct vcl_arg {
    enum vcl_type type;
    struct slice name;
    bool optional;
    struct slice otherwise; /* what it is when it is not given; .ptr NULL: it is absent then */
    struct slice words;     /* ENUM: separated by commas */
};

/* How many. */
unsigned vcl_args_parse(const char *row, struct vcl_arg args[VCL_ARGS_MAX]);
/* Which word of an ENUM; -1: none. */
int vcl_arg_word(const struct vcl_arg *arg, struct slice word);

#endif
