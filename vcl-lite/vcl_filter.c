/* vcl_filter.c -- names of the filters of a body. */
#include "vcl-lite/vcl_filter.h"

#include <string.h>

#include "daemon/base/tassert.h"

enum {
    FILTERS_BERESP = VCL_FILTER_GUNZIP | VCL_FILTER_ESI | VCL_FILTER_GZIP | VCL_FILTER_TEST,
    FILTERS_RESP = VCL_FILTER_ESI | VCL_FILTER_GUNZIP | VCL_FILTER_RANGE,
};

static const struct {
    const char *name;
    unsigned is;
} filter_names[] = {
    {"gunzip", VCL_FILTER_GUNZIP},
    {"esi", VCL_FILTER_ESI},
    {"esi_gzip", VCL_FILTER_ESI | VCL_FILTER_GZIP},
    {"gzip", VCL_FILTER_GZIP},
    {"range", VCL_FILTER_RANGE},
    {"testgunzip", VCL_FILTER_TEST},
};
#define FILTER_NAMES (sizeof(filter_names) / sizeof(filter_names[0]))

bool
vcl_is_filters(enum vcl_var var)
{
    return var == VCL_VAR_BERESP_FILTERS || var == VCL_VAR_RESP_FILTERS;
}

/* 0: it is none of `known`. */
static unsigned
filter_named(unsigned known, struct slice name)
{
    for (size_t i = 0; i < FILTER_NAMES; i++) {
        const char *is = filter_names[i].name;

        if ((filter_names[i].is & known) != 0 && strlen(is) == name.len &&
            memcmp(is, name.ptr, name.len) == 0)
            return filter_names[i].is;
    }
    return 0;
}

int
vcl_filters(enum vcl_var var, struct slice list, struct slice *bad)
{
    const unsigned known = var == VCL_VAR_BERESP_FILTERS ? FILTERS_BERESP : FILTERS_RESP;
    size_t at = 0;
    unsigned all = 0;

    tassert(vcl_is_filters(var));
    while (at < list.len) {
        size_t from = at;
        unsigned one;

        while (at < list.len && list.ptr[at] != ' ' && list.ptr[at] != '\t')
            at++;
        if (at > from) {
            *bad = slice_of(list.ptr + from, at - from);
            one = filter_named(known, *bad);
            if (one == 0)
                return -1;
            all |= one;
        }
        at++;
    }
    return (int)all;
}

const char *
vcl_filters_text(unsigned filters)
{
    static const char *const texts[] = {
        "",
        "gunzip",
        "esi",
        "gunzip esi",
        "gzip",
        "gunzip gzip",
        "esi gzip",
        "gunzip esi gzip",
        "range",
        "gunzip range",
        "esi range",
        "gunzip esi range",
    };

    tassert(filters < sizeof(texts) / sizeof(texts[0]));
    return texts[filters];
}

const char *
vcl_filters_known(enum vcl_var var)
{
    tassert(vcl_is_filters(var));
    return var == VCL_VAR_BERESP_FILTERS ? "gunzip, esi, esi_gzip, gzip, testgunzip"
                                         : "esi, gunzip, range";
}
