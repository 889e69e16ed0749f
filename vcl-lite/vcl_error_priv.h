/* vcl_error_priv.h -- the line table of a file, made when the file is opened. */
#ifndef TARN_VCL_ERROR_PRIV_H
#define TARN_VCL_ERROR_PRIV_H

#include "daemon/base/span.h"

struct vcl_cx;
struct vcl_lines;

/* In cx->scratch; NULL: cx->nomem is set. */
struct vcl_lines *vcl_lines_new(struct vcl_cx *cx, struct slice text);

/* A text that is wrong is known in part only, so warnings would be guesses. */
void vcl_errors_drop_warnings(struct vcl_cx *cx);

#endif
