/* cert_fuzz.c -- a certificate's file: blocks, base64, DER, names.
 *
 * The input is a PEM file; what has no block in it is taken for the DER of a certificate. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/tls/cert_index.h"
#include "daemon/tls/cert_pem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char fuzz_names[65536];

/* What is in normal form already stays as it is. */
static void
fuzz_name(struct slice name)
{
    char again[CERT_NAME_MAX];

    tassert(name.len > 0 && name.len < CERT_NAME_MAX);
    tassert(memchr(name.ptr, '\0', name.len) == NULL && memchr(name.ptr, '/', name.len) == NULL);
    if (memchr(name.ptr, ':', name.len) != NULL)
        return; /* an address of IPv6 */
    tassert(cert_name_fold(name, again) == name.len && memcmp(again, name.ptr, name.len) == 0);
}

static void
fuzz_der(const uint8_t *der, size_t len)
{
    struct cert_facts facts;
    struct slice names;
    char shown[CERT_ISSUER_MAX];
    const char *why = NULL;
    unsigned nnames, nbad, seen = 0;
    size_t room = sizeof(fuzz_names);

    if (cert_facts_read(&facts, slice_of((const char *)der, len), &why) != 0) {
        tassert(why != NULL);
        return;
    }
    tassert(facts.kind != CERT_RSA || facts.key_bits > 0);
    (void)cert_facts_misfit(&facts);
    cert_name_show(facts.issuer, shown);
    tassert(strlen(shown) < sizeof(shown));
    names = slice_of(fuzz_names, cert_facts_names(&facts, fuzz_names, room, &nnames, &nbad));
    tassert(names.len <= room && nnames <= CERT_NAMES_MAX);
    for (; names.len > 0; seen++) {
        size_t n = (uint8_t)names.ptr[0];

        tassert(n < names.len);
        fuzz_name(slice_of(names.ptr + 1, n));
        names = slice_of(names.ptr + 1 + n, names.len - 1 - n);
    }
    tassert(seen == nnames);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pem_scan scan;
    struct pem_block block;
    struct pem_fault fault = {0, NULL};
    unsigned blocks = 0, line = 0;
    int rc;

    pem_scan_init(&scan, slice_of((const char *)data, size));
    while ((rc = pem_next(&scan, &block, &fault)) == 1) {
        uint8_t *der = malloc(pem_room(&block));
        long n;

        tassert(der != NULL);
        tassert(block.line > line && block.body_line > block.line);
        line = block.line;
        blocks++;
        n = pem_decode(&block, der, &fault);
        tassert(n != 0 || block.body.len > 0);
        if (n >= 0)
            fuzz_der(der, (size_t)n);
        else
            tassert(n == TERR_SYNTAX && fault.why != NULL && fault.line >= block.line);
        free(der);
    }
    tassert(rc == 0 || (fault.why != NULL && fault.line > 0));
    if (blocks == 0)
        fuzz_der(data, size);
    return 0;
}
