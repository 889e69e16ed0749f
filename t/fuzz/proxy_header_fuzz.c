/* proxy_header_fuzz.c -- a PROXY header: byte by byte the same, and written again the same.
 *
 * The input is what a connection begins with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"
#include "daemon/http/conn_server.h"
#include "daemon/net/proxy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_MAX = PROXY_HEADER_MAX + 64
};

/* In memory of exactly that size: the sanitizer sees a byte too far. */
static int
fuzz_parse(const uint8_t *data, size_t size, struct proxy_header *out)
{
    static char text[CONN_SECURE_TEXT];
    static struct conn_secure secure;
    char *exact = malloc(size > 0 ? size : 1);
    int n;

    tassert(exact != NULL);
    memcpy(exact, data, size);
    n = proxy_header_parse(exact, size, out);
    out->secure = n > 0 && proxy_header_secure(out, &secure, text) ? &secure : NULL;
    free(exact);
    out->tlvs = slice_of(NULL, 0);
    tassert(n == TERR_SYNTAX || (n >= 0 && (size_t)n <= size));
    tassert(n > 0 || n == TERR_SYNTAX || !out->has_addresses);
    return n;
}

/* What is told has addresses, and both versions tell it as it was. */
/* All of it is written, or nothing. */
static bool
fuzz_fits(const struct conn_secure *s)
{
    return s == NULL ||
           strlen(s->version) + strlen(s->cipher) + strlen(s->server_name) + strlen(s->protocol) <=
               600;
}

static void
fuzz_secure_again(const struct conn_secure *was, const struct proxy_header *ph)
{
    char text[CONN_SECURE_TEXT];
    struct conn_secure now;

    tassert(proxy_header_secure(ph, &now, text) == (was != NULL));
    if (was == NULL)
        return;
    tassert(strcmp(was->version, now.version) == 0 && strcmp(was->cipher, now.cipher) == 0);
    tassert(strcmp(was->server_name, now.server_name) == 0);
    tassert(strcmp(was->protocol, now.protocol) == 0);
    tassert(strcmp(was->client_subject, now.client_subject) == 0);
}

static void
fuzz_again(const struct proxy_header *ph)
{
    struct proxy_header again;
    char text[PROXY_HEADER_WRITE_MAX];
    bool nobody = address_is_unix(ph->src) || address_is_unix(ph->dst); /* "::" */

    for (unsigned version = 1; version <= 2; version++) {
        size_t len = proxy_header_write(text, version, ph);

        tassert(proxy_header_parse(text, len, &again) == (int)len);
        tassert(again.has_addresses == !nobody);
        if (!again.has_addresses)
            continue;
        tassert(memcmp(again.src, ph->src, 16) == 0 && memcmp(again.dst, ph->dst, 16) == 0);
        tassert(again.src_port == ph->src_port && again.dst_port == ph->dst_port);
        if (version == 2 && fuzz_fits(ph->secure))
            fuzz_secure_again(ph->secure, &again);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxy_header ph, part;
    size_t most = size < FUZZ_MAX ? size : FUZZ_MAX, cuts;
    int n = fuzz_parse(data, most, &ph), before = 0;

    cuts = n > 0 ? (size_t)n : most;
    for (size_t len = 0; len < cuts; len += len < 256 ? 1 : 61) {
        int rc = fuzz_parse(data, len, &part);

        tassert(rc == 0 || (rc == n && rc == TERR_SYNTAX));
        tassert(before == 0 || rc == before); /* once it is none it stays none */
        before = rc;
    }
    tassert(before == 0 || n == before);
    if (n > 0 && ph.has_addresses)
        fuzz_again(&ph);
    return 0;
}
