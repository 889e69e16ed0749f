/* cert_pem.h -- blocks of a PEM file (RFC 7468), with the line where each begins.
 *
 * Text around blocks is skipped, as openssl x509 -text and PKCS#12 write some.  Nothing is copied: a block
 * borrows the text that is scanned.
 *
 * Threads: any.  Errors: TERR_SYNTAX, with a place and a reason.  Source: a file that an operator, or a program
 * of his, wrote; not trusted to be whole.
 */
#ifndef TARN_CERT_PEM_H
#define TARN_CERT_PEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/span.h"

struct pem_scan {
    const char *at, *end;
    unsigned line; /* of `at`, from 1 */
};

struct pem_block {
    struct slice label; /* "CERTIFICATE" */
    struct slice body;  /* base64 and white space */
    unsigned line;      /* of its BEGIN */
    unsigned body_line;
    bool is_encrypted; /* by a password, in either of the two ways that there are */
};

struct pem_fault {
    unsigned line;   /* 0: none in particular */
    const char *why; /* static */
};

void pem_scan_init(struct pem_scan *s, struct slice text);
/* 1: *out is the next block; 0: there is none; TERR_SYNTAX: it has no end. */
int pem_next(struct pem_scan *s, struct pem_block *out, struct pem_fault *fault);

/* The most bytes that pem_decode() writes. */
static inline size_t
pem_room(const struct pem_block *b)
{
    return b->body.len / 4 * 3 + 3;
}

/* How many bytes it is in DER; TERR_SYNTAX.  `out` has pem_room(). */
long pem_decode(const struct pem_block *b, uint8_t *out, struct pem_fault *fault);

bool pem_is_certificate(
    const struct pem_block *b); /* "TRUSTED CERTIFICATE" is none: it has more behind it */
bool pem_is_key(const struct pem_block *b);

#endif
