/* codings.c -- Accept-Encoding. */
#include "daemon/http/codings.h"

#include "daemon/base/tassert.h"
#include "daemon/http/token.h"

enum {
    WEIGHT_ONE = 1000, /* q=1, in thousandths */
    WEIGHT_UNSAID = -1,
};

/* Of each coding that matters here. */
enum coding {
    CODING_GZIP,
    CODING_BR,
    CODING_ZSTD,
    CODING_ANY, /* "*" */
    CODING_DCZ,
    CODING_OTHER
};

/* "0.5" in thousandths.  What is no weight is 0: a client that we do not understand gets what every client
 * can read. */
static int
coding_weight_of(struct slice text)
{
    static const int place[] = {0, 0, 100, 10, 1};
    int weight;

    if (text.len == 0 || text.len > 5 || (text.ptr[0] != '0' && text.ptr[0] != '1') ||
        (text.len > 1 && text.ptr[1] != '.'))
        return 0;
    weight = (text.ptr[0] - '0') * WEIGHT_ONE;
    for (size_t i = 2; i < text.len; i++) {
        if (!http_char_is(text.ptr[i], HTTP_C_DIGIT))
            return 0;
        weight += (text.ptr[i] - '0') * place[i];
    }
    return weight < WEIGHT_ONE ? weight : WEIGHT_ONE;
}

/* `parameters` is what follows the first ";". */
static int
coding_weight(struct slice parameters)
{
    while (parameters.ptr != NULL) {
        struct slice p = http_cut(&parameters, ';');

        if (p.len >= 2 && (p.ptr[0] | 0x20) == 'q' && p.ptr[1] == '=')
            return coding_weight_of(slice_of(p.ptr + 2, p.len - 2));
    }
    return WEIGHT_ONE;
}

/* RFC 9110 8.4.1.3: gzip has two names. */
static enum coding
coding_of(struct slice name)
{
    if (slice_eq_nocase(name, SLICE_LIT("gzip")) || slice_eq_nocase(name, SLICE_LIT("x-gzip")))
        return CODING_GZIP;
    if (slice_eq_nocase(name, SLICE_LIT("br")))
        return CODING_BR;
    if (slice_eq_nocase(name, SLICE_LIT("zstd")))
        return CODING_ZSTD;
    if (slice_eq_nocase(name, SLICE_LIT("dcz")))
        return CODING_DCZ;
    return slice_eq(name, SLICE_LIT("*")) ? CODING_ANY : CODING_OTHER;
}

/* A coding with a name keeps its weight beside a "*"; named twice, it is refused if one of them does. */
static void
coding_note(int weight[static CODING_OTHER], enum coding which, int q)
{
    int *w = &weight[which];

    *w = *w == 0 || q == 0 ? 0 : q > *w ? q : *w;
}

/* Nominated fields do not reach the origin, so they count for nothing here either. */
static void
coding_weights(const struct http_message *req, int weight[static CODING_OTHER])
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice member;

    for (unsigned i = 0; i < CODING_OTHER; i++)
        weight[i] = WEIGHT_UNSAID;
    while ((f = http_find(req, HTTP_F_ACCEPT_ENCODING, f)) != NULL) {
        if (f->drop)
            continue;
        http_list_init(&it, http_value(req, f));
        while (http_list_next(&it, &member)) {
            struct slice name = http_cut(&member, ';');
            enum coding which = coding_of(name);

            if (which != CODING_OTHER)
                coding_note(weight, which, coding_weight(member));
        }
    }
    for (unsigned i = 0; i < CODING_ANY; i++)
        if (weight[i] == WEIGHT_UNSAID)
            weight[i] = weight[CODING_ANY] == WEIGHT_UNSAID ? 0 : weight[CODING_ANY];
}

unsigned
http_codings(const struct http_message *req)
{
    int weight[CODING_OTHER];

    if (!http_has(req, HTTP_F_ACCEPT_ENCODING))
        return 0;
    coding_weights(req, weight);
    return (weight[CODING_GZIP] > 0 ? HTTP_TAKES_GZIP : 0u) |
           (weight[CODING_BR] > 0 ? HTTP_TAKES_BR : 0u);
}

bool
http_takes_dcz(const struct http_message *req)
{
    int weight[CODING_OTHER];

    coding_weights(req, weight);
    return weight[CODING_DCZ] > 0;
}

struct slice
http_codings_text(unsigned takes)
{
    switch (takes) {
    case HTTP_TAKES_BR | HTTP_TAKES_GZIP:
        return SLICE_LIT("br, gzip");
    case HTTP_TAKES_BR:
        return SLICE_LIT("br");
    case HTTP_TAKES_GZIP:
        return SLICE_LIT("gzip");
    default:
        tassert(takes == 0);
        return SLICE_LIT("");
    }
}

static unsigned
forms_of(const struct http_message *req)
{
    int weight[CODING_OTHER], gzip;

    coding_weights(req, weight);
    gzip = weight[CODING_GZIP];
    return HTTP_FORMS_KNOWN | (gzip > 0 ? HTTP_FORM_GZIP : 0u) |
           (weight[CODING_BR] > 0 && weight[CODING_BR] >= gzip ? HTTP_FORM_BR : 0u) |
           (weight[CODING_ZSTD] > 0 && weight[CODING_ZSTD] >= gzip ? HTTP_FORM_ZSTD : 0u);
}

/* Clients say the same thing again and again. */
static _Thread_local struct {
    uint8_t len, forms;
    char text[62];
} forms_last;

unsigned
http_forms_find(const struct http_message *req)
{
    const struct http_field *f = http_find(req, HTTP_F_ACCEPT_ENCODING, NULL);
    struct slice value;

    if (f == NULL)
        return HTTP_FORMS_KNOWN;
    value = http_value(req, f);
    if (f->drop || value.len == 0 || value.len > sizeof(forms_last.text) ||
        http_find(req, HTTP_F_ACCEPT_ENCODING, f) != NULL)
        return forms_of(req);
    if (value.len == forms_last.len && memcmp(value.ptr, forms_last.text, value.len) == 0)
        return forms_last.forms;
    forms_last.forms = (uint8_t)forms_of(req);
    forms_last.len = (uint8_t)value.len;
    memcpy(forms_last.text, value.ptr, value.len);
    return forms_last.forms;
}
