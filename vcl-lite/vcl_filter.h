/* vcl_filter.h -- the filters of a body, by Varnish's names: the values of beresp.filters and resp.filters.
 *
 * Source: vcl-var(7) of Varnish 7.1.  In Varnish they run in the order of the list; here their order is
 * fixed, and the list says which there are.  Thread-safe: nothing is kept.
 */
#ifndef TARN_VCL_FILTER_H
#define TARN_VCL_FILTER_H

#include "vcl-lite/vcl.h"

enum vcl_filter {
    VCL_FILTER_GUNZIP = 1,
    VCL_FILTER_ESI =
        2, /* with VCL_FILTER_GZIP: the page is packed for those who take it, Varnish's esi_gzip */
    VCL_FILTER_GZIP = 4,
    VCL_FILTER_RANGE = 8,
    /* testgunzip does nothing: a packed body is not looked into before it must be unpacked. */
    VCL_FILTER_TEST = 16,
};

/* beresp.filters or resp.filters? */
bool vcl_is_filters(enum vcl_var var);
/* The bits of a list of this variable, with blanks between the names.  -1: `bad`, which points into the list, cannot
 * stand in it. */
int vcl_filters(enum vcl_var var, struct slice list, struct slice *bad);
/* The list of these bits, as it is read of a variable.  Static. */
const char *vcl_filters_text(unsigned filters);
/* "esi, gunzip, range", for an error.  Static. */
const char *vcl_filters_known(enum vcl_var var);

#endif
