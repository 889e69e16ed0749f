/* cert_entry.c -- reads what a table must know of a certificate.
 *
 * No OpenSSL here: to parse 50,000 certificates by it would take 40 s and half a gigabyte.  What is read by hand is
 * only its names, its dates and its kind of key; whether it can be used is found out when it is (cert_keys.c). */
#include "daemon/tls/cert_entry.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/tls/cert_pem.h"

/* What is found in the certificate's file. */
struct entry_scan {
    struct pem_block leaf;
    bool has_leaf, has_key;
    unsigned key_line;
};

/* By stat() alone, so that a reload of 50,000 unchanged files reads none of them.  A staple is part of it: the
 * response is read with its certificate. */
bool
cert_entry_is_of(const struct cert_entry *e, const struct cert_files *f)
{
    struct cert_file_id certificate, key = {.inode = 0}, ocsp = {.inode = 0};

    OBJ_CHECK(e, CERT_ENTRY_MAGIC);
    if ((f->key == NULL) != (e->key == NULL) || (f->key != NULL && strcmp(f->key, e->key) != 0))
        return false;
    if (cert_file_stat(f->certificate, &certificate) != 0 ||
        (f->key != NULL && cert_file_stat(f->key, &key) != 0))
        return false;
    if (f->ocsp != NULL)
        (void)cert_file_stat(f->ocsp, &ocsp);
    return cert_file_same(&certificate, &e->certificate_id) && cert_file_same(&key, &e->key_id) &&
           cert_file_same(&ocsp, &e->ocsp_id);
}

static int
entry_scan(struct entry_scan *out, const char *path, struct slice text, struct cert_report *report)
{
    struct pem_scan scan;
    struct pem_block block;
    struct pem_fault fault;
    int rc;

    *out = (struct entry_scan){.has_leaf = false};
    pem_scan_init(&scan, text);
    /* To the end of the file, though the leaf is mostly first: the key may be anywhere, and a file that was cut short
     * shall be refused when it is loaded, not at the first handshake. */
    while ((rc = pem_next(&scan, &block, &fault)) == 1) {
        if (pem_is_certificate(&block) && !out->has_leaf) {
            out->leaf = block;
            out->has_leaf = true;
        } else if (pem_is_key(&block) && !out->has_key) {
            out->has_key = true;
            out->key_line = block.line;
        }
    }
    if (rc < 0) {
        cert_report_add(report, true, path, fault.line, "%s", fault.why);
        return TERR_CONFIG;
    }
    if (out->has_leaf)
        return 0;
    /* A SEQUENCE with a length of more than one byte, as every certificate is. */
    if (text.len > 1 && text.ptr[0] == 0x30 && (text.ptr[1] & 0x80) != 0)
        cert_report_add(report, true, path, 0,
            "is DER, and must be PEM: openssl x509 -inform der -in FILE -out FILE.pem");
    else
        cert_report_add(report, true, path, 0, "has no block -----BEGIN CERTIFICATE-----");
    return TERR_CONFIG;
}

/* Is the key where it should be, and private?  *id is that of a file of its own. */
static int
entry_key(const struct cert_files *f, const struct entry_scan *scan,
    const struct cert_file_id *certificate, struct cert_file_id *id, struct cert_report *report)
{
    int err;

    *id = (struct cert_file_id){.inode = 0};
    if (f->key == NULL && !scan->has_key) {
        cert_report_add(report, true, f->certificate, 0,
            "has a certificate and no key: the key belongs behind it, or into a file NAME.key "
            "beside it");
        return TERR_CONFIG;
    }
    /* Also where the key's file is another one: the key that lies here is open to all just the same. */
    if (scan->has_key && !cert_file_is_private(certificate, f->certificate, report))
        return TERR_CONFIG;
    if (f->key == NULL)
        return 0;
    /* Asked of the system and not opened: the key is read when a handshake needs it. */
    err = cert_file_stat(f->key, id);
    if (err != 0)
        cert_file_say(report, f->key, err);
    return err == 0 && cert_file_is_private(id, f->key, report) ? 0 : TERR_CONFIG;
}

/* The DER goes where the text has been: it is shorter, and each byte is written behind where it is read. */
static int
entry_facts(struct cert_facts *facts, const char *path, const struct pem_block *leaf, uint8_t *der,
    struct cert_report *report)
{
    struct pem_fault fault = {leaf->line, NULL};
    /* `fault.why` is NULL until something is wrong, whichever of the three finds it. */
    long n = pem_decode(leaf, der, &fault);

    if (n >= 0 && cert_facts_read(facts, slice_of((char *)der, (size_t)n), &fault.why) == 0)
        fault.why = cert_facts_misfit(facts);
    if (fault.why == NULL)
        return 0;
    cert_report_add(report, true, path, fault.line, "%s", fault.why);
    return TERR_CONFIG;
}

/* NULL stays NULL: there is no such file. */
static char *
entry_put(char **at, const char *text)
{
    size_t len = text != NULL ? strlen(text) + 1 : 0;
    char *put = *at;

    if (text == NULL)
        return NULL;
    memcpy(put, text, len);
    *at += len;
    return put;
}

/* One piece of memory: 50,000 of them are to cost little. */
struct cert_entry *
cert_entry_new(const struct cert_files *f, struct slice names)
{
    size_t size = sizeof(struct cert_entry) + names.len + strlen(f->certificate) + 1;
    struct cert_entry *e;
    char *at;

    size += (f->key != NULL ? strlen(f->key) + 1 : 0) + (f->ocsp != NULL ? strlen(f->ocsp) + 1 : 0);
    e = malloc(size);
    if (e == NULL)
        return NULL;
    /* Without the texts, which are behind it, and which no byte of this touches. */
    *e = (struct cert_entry){.magic = CERT_ENTRY_MAGIC, .state = CERT_UNPARSED};
    atomic_init(&e->refs, 1);
    list_init(&e->lru);
    list_init(&e->waiting);
    at = (char *)(e + 1);
    e->names = slice_of(at, names.len);
    memcpy(at, names.ptr, names.len);
    at += names.len;
    e->certificate = entry_put(&at, f->certificate);
    e->key = entry_put(&at, f->key);
    e->ocsp = entry_put(&at, f->ocsp);
    tassert(at == (char *)e + size);
    return e;
}

static void
entry_remark(const struct cert_entry *e, unsigned nbad, const struct cert_entry_load *load)
{
    char day[32];
    struct tm tm;
    time_t at;

    /* A remark: browsers ignore such names, too, and the others serve. */
    if (nbad > 0)
        cert_report_add(load->report, false, e->certificate, 0,
            "%u of its names are no host names, and are left out", nbad);
    /* Said, and served: to a client an expired certificate and none look alike, and an operator's clock may be wrong. */
    if (e->not_after_s < load->now_s || e->not_before_s > load->now_s) {
        bool is_over = e->not_after_s < load->now_s;

        at = (time_t)(is_over ? e->not_after_s : e->not_before_s);
        if (gmtime_r(&at, &tm) == NULL || strftime(day, sizeof(day), "%F %T UTC", &tm) == 0)
            day[0] = '\0';
        cert_report_add(load->report, false, e->certificate, 0,
            is_over ? "expired at %s: it is served, and clients refuse it until it is renewed"
                    : "is valid from %s on: it is served, and clients refuse it until then",
            day);
    }
}

/* The names' room is on the stack: a certificate of 2,000 names has no more than fits. */
static int
entry_make(struct cert_entry **out, const struct cert_files *f, const struct cert_facts *facts,
    const struct cert_entry_load *load)
{
    char names[65536];
    unsigned nnames, nbad;
    struct cert_entry *e;
    size_t len = cert_facts_names(facts, names, sizeof(names), &nnames, &nbad);

    e = cert_entry_new(f, slice_of(names, len));
    if (e == NULL)
        return TERR_NOMEM;
    e->nnames = nnames;
    e->kind = facts->kind;
    e->key_bits = facts->key_bits;
    e->not_before_s = facts->not_before_s;
    e->not_after_s = facts->not_after_s;
    cert_name_show(facts->issuer, e->issuer);
    entry_remark(e, nbad, load);
    *out = e;
    return 0;
}

int
cert_entry_read(
    struct cert_entry **out, const struct cert_files *f, const struct cert_entry_load *load)
{
    struct cert_file_id certificate, key, ocsp = {.inode = 0};
    struct entry_scan scan;
    struct cert_facts facts;
    struct slice text;
    int rc = cert_file_read(f->certificate, load->buffer, &text, &certificate, load->report);

    if (rc == 0)
        rc = entry_scan(&scan, f->certificate, text, load->report);
    if (rc == 0)
        rc = entry_key(f, &scan, &certificate, &key, load->report);
    if (rc == 0)
        rc = entry_facts(
            &facts, f->certificate, &scan.leaf, (uint8_t *)load->buffer->bytes, load->report);
    if (rc == 0)
        rc = entry_make(out, f, &facts, load);
    if (rc != 0)
        return rc == TERR_NOMEM ? rc : TERR_CONFIG;
    if (f->ocsp != NULL)
        (void)cert_file_stat(f->ocsp, &ocsp);
    (*out)->certificate_id = certificate;
    (*out)->key_id = key;
    (*out)->ocsp_id = ocsp;
    return 0;
}

/* Each name has a byte of length in front: names are compared whole, and none is searched in another. */
bool
cert_entry_has(const struct cert_entry *e, struct slice name)
{
    const char *at = e->names.ptr, *end = at + e->names.len;

    while (at < end) {
        size_t len = (uint8_t)*at;

        if (len == name.len && memcmp(at + 1, name.ptr, len) == 0)
            return true;
        at += len + 1;
    }
    return false;
}

void
cert_entry_ref(struct cert_entry *e)
{
    OBJ_CHECK(e, CERT_ENTRY_MAGIC);
    atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
}

void
cert_entry_unref(struct cert_entry **ep)
{
    struct cert_entry *e;

    OBJ_TAKE(e, ep, CERT_ENTRY_MAGIC);
    if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* The store has forgotten it: keys are freed under its lock, and here there may be none. */
    tassert(e->keys == NULL && list_empty(&e->lru) && list_empty(&e->waiting));
    free(e->error);
    OBJ_FREE(e);
}
