/* cert_pem.c -- a PEM file, line by line (RFC 7468).
 *
 * OpenSSL's reader knows no line numbers, copies a key's text into buffers of its own, and cannot say that a file was cut
 * short.  Here each error has its line, and nothing is copied. */
#include "daemon/tls/cert_pem.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

static const char pem_begin[] = "-----BEGIN ", pem_end[] = "-----END ", pem_dashes[] = "-----";

void
pem_scan_init(struct pem_scan *s, struct slice text)
{
    *s = (struct pem_scan){text.ptr, text.ptr + text.len, 1};
}

/* The next line without its end, and without blanks behind it.  False: there is none. */
static bool
pem_line(struct pem_scan *s, struct slice *out)
{
    size_t left = (size_t)(s->end - s->at);
    const char *nl;

    if (left == 0)
        return false;
    nl = memchr(s->at, '\n', left);
    *out = slice_of(s->at, nl != NULL ? (size_t)(nl - s->at) : left);
    s->at = nl != NULL ? nl + 1 : s->end;
    s->line++;
    /* Files come from Windows, and from mails that were copied by hand. */
    while (out->len > 0 && (out->ptr[out->len - 1] == '\r' || out->ptr[out->len - 1] == ' ' ||
                               out->ptr[out->len - 1] == '\t'))
        out->len--;
    return true;
}

static bool
pem_starts(struct slice line, const char *with, size_t len)
{
    return line.len >= len && memcmp(line.ptr, with, len) == 0;
}

/* Of `-----BEGIN LABEL-----` the label.  False: the line is something else. */
static bool
pem_label(struct slice line, const char *with, size_t with_len, struct slice *label)
{
    size_t dashes = sizeof(pem_dashes) - 1;

    /* Both runs of dashes: text in front of a block may begin a line with some (RFC 7468 2). */
    if (!pem_starts(line, with, with_len) || line.len < with_len + dashes ||
        memcmp(line.ptr + line.len - dashes, pem_dashes, dashes) != 0)
        return false;
    *label = slice_of(line.ptr + with_len, line.len - with_len - dashes);
    return true;
}

/* Fields as of RFC 1421 stand in front of a key that openssl encrypted in its old form. */
static void
pem_fields(struct pem_block *b)
{
    struct pem_scan s = {b->body.ptr, b->body.ptr + b->body.len, b->body_line};
    struct slice line;

    while (pem_line(&s, &line)) {
        if (line.len > 0 && memchr(line.ptr, ':', line.len) == NULL)
            break; /* what is behind an empty line, or base64 at once */
        if (pem_starts(line, "Proc-Type:", 10) &&
            memmem(line.ptr, line.len, "ENCRYPTED", 9) != NULL)
            b->is_encrypted = true;
        b->body = slice_of(s.at, (size_t)(s.end - s.at));
        b->body_line = s.line;
    }
}

int
pem_next(struct pem_scan *s, struct pem_block *out, struct pem_fault *fault)
{
    struct slice line, label;
    const char *body;
    unsigned begins;

    for (;;) {
        if (!pem_line(s, &line))
            return 0;
        if (pem_label(line, pem_begin, sizeof(pem_begin) - 1, &out->label))
            break;
    }
    /* Its own line: the scanner is behind it. */
    begins = s->line - 1;
    body = s->at;
    out->line = begins;
    out->body_line = s->line;
    for (;;) {
        const char *at = s->at;

        /* A second BEGIN, too: else the block would swallow the next one, and end by that one's END. */
        if (!pem_line(s, &line) || pem_starts(line, pem_begin, sizeof(pem_begin) - 1)) {
            *fault =
                (struct pem_fault){begins, "the block has no END line: the file was cut short"};
            return TERR_SYNTAX;
        }
        if (!pem_label(line, pem_end, sizeof(pem_end) - 1, &label))
            continue;
        if (!slice_eq(label, out->label)) {
            *fault = (struct pem_fault){s->line - 1, "END names another kind of block than BEGIN"};
            return TERR_SYNTAX;
        }
        out->body = slice_of(body, (size_t)(at - body));
        break;
    }
    /* PKCS #8 says it by the label, OpenSSL's older form by a field inside (pem_fields). */
    out->is_encrypted = slice_eq(out->label, SLICE_LIT("ENCRYPTED PRIVATE KEY"));
    pem_fields(out);
    return 1;
}

enum {
    PEM_BLANK = 64,
    PEM_PAD,
    PEM_WRONG
};

/* The alphabet of RFC 4648 4; white space may be anywhere, as OpenSSL takes it. */
static unsigned
pem_digit(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26u;
    if (c >= '0' && c <= '9')
        return c - '0' + 52u;
    if (c == '+' || c == '/')
        return c == '+' ? 62 : 63;
    if (c == '=')
        return PEM_PAD;
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' ? PEM_BLANK : PEM_WRONG;
}

long
pem_decode(const struct pem_block *b, uint8_t *out, struct pem_fault *fault)
{
    /* Branches by a key's bytes: a process that could time this could read the file. */
    unsigned line = b->body_line, digits = 0, pads = 0;
    uint32_t bits = 0;
    size_t n = 0;

    for (size_t i = 0; i < b->body.len; i++) {
        unsigned char c = (unsigned char)b->body.ptr[i];
        unsigned d = pem_digit(c);

        line += c == '\n';
        if (d == PEM_BLANK)
            continue;
        if (d == PEM_WRONG || (d != PEM_PAD && pads > 0)) {
            *fault = (struct pem_fault){line, "a character here is none of base64"};
            return TERR_SYNTAX;
        }
        pads += d == PEM_PAD;
        bits = bits << 6 | (d == PEM_PAD ? 0 : d);
        if (++digits % 4 != 0)
            continue;
        out[n++] = (uint8_t)(bits >> 16);
        out[n++] = (uint8_t)(bits >> 8);
        out[n++] = (uint8_t)bits;
    }
    /* Bits behind the last byte may be anything: OpenSSL takes them, and DER has its own length. */
    if (digits % 4 != 0 || pads > 2 || digits == 0) {
        *fault = (struct pem_fault){
            b->line, "the base64 is not whole: the file was cut short or edited"};
        return TERR_SYNTAX;
    }
    tassert(n <= pem_room(b));
    return (long)(n - pads);
}

bool
pem_is_certificate(const struct pem_block *b)
{
    return slice_eq(b->label, SLICE_LIT("CERTIFICATE")) ||
           slice_eq(b->label, SLICE_LIT("X509 CERTIFICATE"));
}

bool
pem_is_key(const struct pem_block *b)
{
    /* RSA, EC, ENCRYPTED or nothing stands in front (RFC 7468 10, 11; RFC 5915 4). */
    static const struct slice suffix = {"PRIVATE KEY", 11};

    return b->label.len >= suffix.len &&
           memcmp(b->label.ptr + b->label.len - suffix.len, suffix.ptr, suffix.len) == 0;
}
