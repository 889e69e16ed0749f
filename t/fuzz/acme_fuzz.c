/* acme_fuzz.c -- what a CA answers: JSON of each resource, chains, times, key authorizations.
 *
 * The first byte says what the others are.  What must hold: it is refused with a reason, or what was read keeps
 * the bounds that acme_read.h and acme_cert.h promise. */
#include <stdlib.h>

#include "daemon/acme/acme_b64.h"
#include "daemon/acme/acme_cert.h"
#include "daemon/acme/acme_read.h"
#include "daemon/acme/acme_time.h"
#include "daemon/base/tassert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_MAX = 64 << 10,
};

static void
fuzz_printable(const char *text, size_t room)
{
    tassert(strlen(text) < room);
    for (; *text != '\0'; text++)
        tassert(*text >= ' ' && *text <= '~');
}

static void
fuzz_problem(const struct acme_problem *p)
{
    struct acme_fail f;

    fuzz_printable(p->type, sizeof(p->type));
    fuzz_printable(p->detail, sizeof(p->detail));
    acme_fail_init(&f);
    tassert(acme_problem_fail(&f, p, 400) < 0);
    fuzz_printable(f.text, sizeof(f.text));
}

static void
fuzz_directory(const json_t *v)
{
    struct acme_urls u;
    struct acme_fail f;

    acme_fail_init(&f);
    if (acme_read_directory(v, &u, &f) != 0) {
        fuzz_printable(f.text, sizeof(f.text));
        tassert(f.text[0] != '\0');
        return;
    }
    tassert(conf_acme_url_ok(u.new_nonce) && conf_acme_url_ok(u.new_account) &&
            conf_acme_url_ok(u.new_order));
    tassert(u.renewal_info[0] == '\0' || conf_acme_url_ok(u.renewal_info));
    fuzz_printable(u.terms, sizeof(u.terms));
}

static void
fuzz_order(const json_t *v)
{
    struct acme_order_view o;
    struct acme_fail f;

    acme_fail_init(&f);
    if (acme_read_order(v, &o, &f) != 0) {
        tassert(f.text[0] != '\0');
        return;
    }
    tassert(o.nauthorizations >= 1 && o.nauthorizations <= ACME_NAMES_MAX);
    for (unsigned i = 0; i < o.nauthorizations; i++)
        tassert(conf_acme_url_ok(o.authorizations[i]));
    tassert(
        conf_acme_url_ok(o.finalize) && (o.certificate == NULL || conf_acme_url_ok(o.certificate)));
    fuzz_problem(&o.error);
}

static void
fuzz_authz(const json_t *v, enum acme_challenge kind)
{
    struct acme_authz_view a;
    struct acme_fail f;

    acme_fail_init(&f);
    if (acme_read_authz(v, kind, &a, &f) != 0) {
        tassert(f.text[0] != '\0');
        return;
    }
    tassert(a.name != NULL);
    if (a.url != NULL) /* a token is the name of a file */
        tassert(
            conf_acme_url_ok(a.url) && acme_token_ok(a.token) && strpbrk(a.token, "/.") == NULL);
    fuzz_problem(&a.error);
}

static void
fuzz_window(const json_t *v)
{
    struct acme_fail f;
    int64_t start, end, at;

    acme_fail_init(&f);
    if (acme_read_window(v, &start, &end, &f) != 0)
        return;
    tassert(start < end);
    at = acme_choose(start, end, UINT32_MAX);
    tassert(at >= start && at < end);
}

static void
fuzz_json(uint8_t kind, struct slice text)
{
    struct acme_problem p;
    char why[192];
    json_t *v = json_parse(text, why, sizeof(why));

    if (v == NULL)
        return;
    acme_problem_read(v, &p);
    fuzz_problem(&p);
    if (kind == 'd')
        fuzz_directory(v);
    else if (kind == 'o')
        fuzz_order(v);
    else if (kind == 'h' || kind == 't')
        fuzz_authz(v, kind == 'h' ? ACME_HTTP_01 : ACME_TLS_ALPN_01);
    else
        fuzz_window(v);
    json_decref(v);
}

static void
fuzz_chain(struct slice pem, bool keys_too)
{
    static const char *names[] = {"example.com"};
    const struct acme_wanted w = {names, 1};
    struct acme_chain c;
    struct acme_leaf leaf;
    struct acme_fail f;
    const char *why = NULL;
    EVP_PKEY *key;

    acme_fail_init(&f);
    if (acme_chain_read(pem, keys_too, &c, &f) != 0) {
        tassert(f.text[0] != '\0');
        return;
    }
    tassert(c.n >= 1 && c.n <= ACME_CHAIN_MAX);
    if (acme_leaf_read(&c, &leaf, &f) == 0)
        tassert(strlen(leaf.certid) < sizeof(leaf.certid));
    if (!acme_leaf_has_names(&c, &w, &why)) {
        tassert(why != NULL);
        fuzz_printable(why, ACME_TEXT_MAX);
    }
    key = acme_key_read(pem);
    if (key != NULL) {
        acme_fail_init(&f);
        if (acme_chain_judge(&c, key, &w, 0, &f) != 0)
            fuzz_printable(f.text, sizeof(f.text));
    }
    EVP_PKEY_free(key);
    acme_chain_fini(&c);
}

static void
fuzz_texts(struct slice text)
{
    char out[256], again[ACME_B64_SIZE(sizeof(out))], stamp[ACME_STAMP_SIZE];
    int64_t s = acme_retry_after(text, 1767225600), back;
    int n = acme_b64_read(text, out, sizeof(out));

    tassert(s >= -1 && s <= ACME_RETRY_MOST_S);
    if (n >= 0) { /* one text has one meaning, and back */
        acme_b64_put(again, out, (size_t)n);
        tassert(slice_eq(slice_str(again), text));
    }
    if (acme_stamp_read(text, &s) == 0) {
        acme_stamp(stamp, s);
        if (strcmp(stamp, "never") != 0)
            tassert(acme_stamp_read(slice_str(stamp), &back) == 0 && back == s);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text;
    char *copy;

    if (size < 1 || size > FUZZ_MAX)
        return 0;
    copy = malloc(size);
    tassert(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    text = slice_of(copy, size - 1);
    if (data[0] == 'c' || data[0] == 'k')
        fuzz_chain(text, data[0] == 'k');
    else if (data[0] == 's')
        fuzz_texts(text);
    else
        fuzz_json(data[0], text);
    free(copy);
    return 0;
}
