/* cert_fixture.h -- a directory of certificates, for tests of tables and stores: keys and an authority that are made
 * once, and short ways to write files. */
#ifndef TARN_CERT_FIXTURE_H
#define TARN_CERT_FIXTURE_H

#include "t/unit/test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/hash.h"
#include "daemon/base/terr.h"
#include "daemon/tls/cert_table_priv.h"
#include "t/unit/cert_make.h"

struct cert_dir_fixture {
    char path[64];
    EVP_PKEY *ec, *ec2, *rsa, *ca_key;
    X509 *ca;
    struct cert_report report;
};

static struct cert_dir_fixture certs;

static inline int
certs_make(void **state)
{
    (void)state;
    hash_secret_fix(7);
    certs.ec = make_ec("P-256");
    certs.ec2 = make_ec("P-384");
    certs.rsa = make_rsa(2048);
    certs.ca_key = make_ec("P-256");
    certs.ca =
        make_cert(&(struct cert_wish){.cn = "An authority", .key = certs.ca_key, .is_ca = 1});
    return 0;
}

static inline int
certs_free(void **state)
{
    (void)state;
    EVP_PKEY_free(certs.ec);
    EVP_PKEY_free(certs.ec2);
    EVP_PKEY_free(certs.rsa);
    EVP_PKEY_free(certs.ca_key);
    X509_free(certs.ca);
    return 0;
}

static inline int
certs_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void
certs_open(void)
{
    strcpy(certs.path, "/tmp/tarn-certs-XXXXXX");
    CHECK(mkdtemp(certs.path) != NULL);
}

static inline void
certs_close(void)
{
    cert_report_free(&certs.report);
    CHECK_EQ(0, nftw(certs.path, certs_unlink, 8, FTW_DEPTH | FTW_PHYS));
}

/* A path in the directory; four of them stay valid at once. */
static inline const char *
in(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", certs.path, name);
    return path;
}

/* A leaf of the authority's for these names, good for so many days. */
static inline X509 *
leaf(const char *san, EVP_PKEY *key, int days)
{
    return make_cert(&(struct cert_wish){.cn = "Leaf",
        .san = san,
        .key = key,
        .issuer = certs.ca,
        .issuer_key = certs.ca_key,
        .from_s = time(NULL) - 2 * 86400,
        .until_s = time(NULL) + (int64_t)days * 86400});
}

/* NAME as chain and key. */
static inline void
put_pem_of(const char *name, const char *san, EVP_PKEY *key, int days)
{
    X509 *cert = leaf(san, key, days);

    make_file(in(name), (X509 *[]){cert, certs.ca, NULL}, key, 0640);
    X509_free(cert);
}

static inline void
put_pem(const char *name, const char *san)
{
    put_pem_of(name, san, certs.ec, 90);
}

/* A chain, and a key in its own file; `key_name` NULL: no key. */
static inline void
put_pair(const char *name, const char *key_name, const char *san)
{
    X509 *cert = leaf(san, certs.ec, 90);

    make_file(in(name), (X509 *[]){cert, certs.ca, NULL}, NULL, 0644);
    if (key_name != NULL)
        make_file(in(key_name), (X509 *[]){NULL}, certs.ec, 0640);
    X509_free(cert);
}

static inline void
put_text(const char *name, const char *text)
{
    FILE *f = fopen(in(name), "w");

    CHECK(f != NULL);
    fputs(text, f);
    CHECK_EQ(0, fclose(f));
    CHECK_EQ(0, chmod(in(name), 0640));
}

static inline struct cert_table *
load(const struct cert_table *before, int want_rc)
{
    struct cert_spec spec = {.directory = certs.path};
    struct cert_table *t = NULL;

    cert_report_free(&certs.report);
    CHECK_EQ(want_rc, cert_table_load(&t, &spec, before, &certs.report));
    CHECK((want_rc == 0) == (t != NULL));
    return t;
}

/* Which file's certificate of that kind answers for the name; "": none. */
static inline const char *
served(const struct cert_table *t, const char *name, enum cert_kind kind)
{
    const struct cert_slot *s = cert_table_find(t, slice_str(name));

    return s->entry[kind] == 0
               ? ""
               : t->entries[s->entry[kind] - 1]->certificate + strlen(certs.path) + 1;
}

/* Is there such a row, of that file (in the directory), with that text in it? */
static inline bool
said(bool is_error, const char *file, const char *text)
{
    for (unsigned i = 0; i < certs.report.nrows; i++) {
        const struct cert_report_row *r = &certs.report.rows[i];

        if (r->is_error == is_error && strcmp(r->file, in(file)) == 0 &&
            strstr(r->why, text) != NULL)
            return true;
    }
    for (unsigned i = 0; i < certs.report.nrows; i++)
        print_message("%s:%u: %s%s\n", certs.report.rows[i].file, certs.report.rows[i].line,
            certs.report.rows[i].is_error ? "" : "(remark) ", certs.report.rows[i].why);
    return false;
}

#endif
