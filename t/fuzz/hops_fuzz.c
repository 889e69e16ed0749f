/* hops_fuzz.c -- X-Forwarded-For and Forwarded of a trusted proxy.
 *
 * The input is the value of the one, a newline, and that of the other.  What must hold: the peer
 * is the last, everybody but the first is trusted, and what somebody wrote in front of the
 * client's own address changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "daemon/http/hops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_VALUE_MAX = 2000
};

static const struct address_net ours = {.addr = {[10] = 0xff, [11] = 0xff, [12] = 10}, .bits = 104};
static const struct address_nets trusted = {&ours, 1};
static const uint8_t peer[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1};

/* In memory of exactly that size. */
static void
fuzz_hops(const char *front, struct slice value, enum http_field_id id, struct hops *out)
{
    size_t len = strlen(front) + value.len;
    char *exact = malloc(len + 1);
    struct http_field field = {.id = (uint8_t)id, .value_len = (uint16_t)len};
    struct http_message h = {
        .fields = &field, .nfields = 1, .max_fields = 1, .present = HTTP_BIT(id)};

    tassert(exact != NULL);
    memcpy(exact, front, strlen(front));
    memcpy(exact + strlen(front), value.ptr, value.len);
    exact = realloc(exact, len > 0 ? len : 1);
    tassert(exact != NULL);
    h.base = exact;
    hops_of_request(&h, id, &trusted, peer, out);
    free(exact);
    tassert(out->n >= 1 && out->n <= HOPS_MAX);
    tassert(memcmp(out->addr[out->n - 1], peer, sizeof(peer)) == 0);
    for (unsigned i = 1; i < out->n; i++)
        tassert(address_in(&trusted, out->addr[i]));
}

static void
fuzz_field(struct slice value, enum http_field_id id, const char *front)
{
    struct hops as_is, more;

    if (value.len > FUZZ_VALUE_MAX)
        value.len = FUZZ_VALUE_MAX;
    fuzz_hops("", value, id, &as_is);
    fuzz_hops(front, value, id, &more);
    if (address_in(&trusted, as_is.addr[0]))
        return; /* it may have gone on */
    tassert(more.n == as_is.n);
    tassert(memcmp(more.addr, as_is.addr, as_is.n * sizeof(as_is.addr[0])) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size > 0 ? (const char *)memchr(text, '\n', size) : NULL;
    size_t len = end != NULL ? (size_t)(end - text) : size;

    if (size == 0)
        return 0;
    fuzz_field(slice_of(text, len), HTTP_F_X_FORWARDED_FOR, "\"6.6.6.6, ");
    if (end != NULL)
        fuzz_field(slice_of(end + 1, size - len - 1), HTTP_F_FORWARDED, "for=\"6.6.6.6, ");
    return 0;
}
