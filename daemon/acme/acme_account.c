/* acme_account.c -- the account: its key, and its URL at each CA.
 *
 * account.json has, by the URL of a CA's directory, the account's URL, the contact, and the thumbprint of the
 * key that it is for: to go from staging to production and back asks no new account each time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "daemon/acme/acme_client.h"
#include "daemon/acme/acme_jws.h"
#include "daemon/base/terr.h"

#define KEY_FILE     "account.key"
#define ACCOUNT_FILE "account.json"

/* P-256 whatever --key says: that is for certificates, and every CA takes ES256 (RFC 8555 6.2). */
static int
account_new_key(struct acme_client *c, struct acme_fail *f)
{
    struct span pem = {NULL, 0};
    int err = acme_key_new(ACME_ECDSA, &c->key, f);

    if (err == 0 && acme_key_pem(c->key, &pem) != 0)
        err = acme_fail(f, TERR_NOMEM, "out of memory");
    /* On disk before the CA hears of it: an account that we lost the key of could neither be used nor closed. */
    if (err == 0)
        err = acme_dir_write(c->dir, KEY_FILE, slice_of(pem.ptr, pem.len), f);
    acme_key_forget(&pem);
    return err;
}

static int
account_key(struct acme_client *c, struct acme_fail *f)
{
    enum acme_key_kind kind;
    struct span pem;
    int err = acme_dir_read(c->dir, KEY_FILE, &pem, f);

    if (err == TERR_NOTFOUND)
        return account_new_key(c, f);
    if (err != 0)
        return err;
    c->key = acme_key_read(slice_of(pem.ptr, pem.len));
    acme_key_forget(&pem);
    /* Never replaced by itself: the key is the account, with its limits and authorizations, and a backup may
     * have it. */
    if (c->key == NULL || !acme_key_kind(c->key, &kind) || kind != ACME_ECDSA)
        return acme_fail(f, TERR_CORRUPT,
            "%s/" KEY_FILE
            " is no P-256 key in PEM without a password; put the right one back, or remove "
            "it with " ACCOUNT_FILE ": another account will be made",
            c->dir->path);
    return 0;
}

/* All accounts; an empty object where the file is not there, or is no JSON: accounts are asked for again. */
static int
account_read(const struct acme_client *c, json_t **out, struct acme_fail *f)
{
    char why[128];
    struct span text;
    int err = acme_dir_read(c->dir, ACCOUNT_FILE, &text, f);

    *out = NULL;
    if (err != 0 && err != TERR_NOTFOUND)
        return err;
    if (err == 0)
        *out = json_parse(slice_of(text.ptr, text.len), why, sizeof(why));
    free(text.ptr);
    /* Nothing is lost by that: newAccount finds the account of a key that the CA knows (RFC 8555 7.3.1). */
    if (!json_is_object(*out)) {
        json_decref(*out);
        *out = json_object();
    }
    return 0;
}

static int
account_write(const struct acme_client *c, json_t *all, const char *thumb, struct acme_fail *f)
{
    json_t *one = json_pack("{ssss}", "url", c->kid, "key", thumb);
    char *text;
    int err;

    /* As it was given to the CA, to see a change of it.  Another CA's account stays as it is. */
    json_put_text(one, "email", c->set->email);
    json_put(all, c->set->directory, one);
    text = json_print(all);
    if (text == NULL)
        return acme_fail(f, TERR_NOMEM, "out of memory");
    err = acme_dir_write(c->dir, ACCOUNT_FILE, slice_str(text), f);
    free(text);
    return err;
}

/* May one be made?  What the CA asks for must be there. */
static int
account_consent(const struct acme_client *c, struct acme_fail *f)
{
    /* RFC 8555 7.3.3. The operator agrees, and not this program for him: the URL is shown, which is all it can do. */
    if (c->urls.terms[0] != '\0' && !c->set->agree_tos)
        return acme_fail(f, TERR_DENIED,
            "the CA has terms of service; read %s and, if you agree, give --agree-tos, or "
            "`agree_tos: on` in the configuration",
            c->urls.terms);
    /* Before it is asked: the CA's own refusal (externalAccountRequired) does not say where to get a key. */
    if (c->urls.binding_required && c->set->eab_kid == NULL)
        return acme_fail(f, TERR_DENIED,
            "this CA gives accounts to its customers only; give --eab-kid and --eab-key-file as it "
            "gave "
            "them to you");
    return 0;
}

/* An empty list removes the contact (RFC 8555 7.3.2); to leave it out would keep it. */
static json_t *
account_contact(const struct acme_client *c)
{
    char *mail = NULL;
    json_t *list = json_array();

    if (c->set->email != NULL && asprintf(&mail, "mailto:%s", c->set->email) >= 0)
        json_array_append_new(list, json_string(mail));
    free(mail);
    return list;
}

/* RFC 8555 7.3: the same request finds an account that the key has already. */
static int
account_ask(struct acme_client *c, struct acme_fail *f)
{
    json_t *payload = json_object(), *binding;
    struct acme_answer a;
    int err = account_consent(c, f);

    if (c->set->agree_tos)
        json_put(payload, "termsOfServiceAgreed", json_true());
    /* Optional (RFC 8555 7.3). */
    if (c->set->email != NULL)
        json_put(payload, "contact", account_contact(c));
    if (err == 0 && c->set->eab_kid != NULL) {
        binding = acme_jws_binding(c->key, c->set->eab_kid,
            slice_of((const char *)c->set->eab_key, c->set->eab_key_bytes), c->urls.new_account);
        json_put(payload, "externalAccountBinding", binding);
    }
    /* Without a kid the request is signed with the key in it, as newAccount has to be (RFC 8555 6.2). */
    c->kid[0] = '\0';
    if (err == 0)
        err = acme_client_post(c, c->urls.new_account, payload, &a, f);
    json_decref(payload);
    if (err != 0)
        return err;
    acme_answer_fini(&a);
    if (a.location[0] == '\0')
        return acme_fail(f, TERR_UPSTREAM,
            "the CA answers newAccount without a Location field that is an https:// URL");
    memcpy(c->kid, a.location, sizeof(c->kid));
    return 0;
}

/* The contact is another one than the CA has (RFC 8555 7.3.2): written down by the caller only if the CA took it. */
static int
account_update(struct acme_client *c, struct acme_fail *f)
{
    json_t *payload = json_pack("{so}", "contact", account_contact(c));
    struct acme_answer a;
    int err = acme_client_post(c, c->kid, payload, &a, f);

    json_decref(payload);
    if (err == 0)
        acme_answer_fini(&a);
    return err;
}

static bool
account_same(const json_t *one, const char *member, const char *text)
{
    const char *had = json_string_value(json_object_get(one, member));

    return had == NULL || text == NULL ? had == text : strcmp(had, text) == 0;
}

/* Takes all. */
static int
account_use(struct acme_client *c, json_t *all, struct acme_fail *f)
{
    const json_t *one = json_object_get(all, c->set->directory);
    const char *url = json_string_value(json_object_get(one, "url"));
    char thumb[ACME_THUMB_SIZE];
    bool known, changed;
    int err = acme_key_thumb(c->key, thumb);

    if (err != 0)
        acme_fail(f, err, "the key has no thumbprint: %s", acme_key_why());
    /* By the thumbprint: a key that was put back from elsewhere has another account. */
    known = err == 0 && url != NULL && conf_acme_url_ok(url) && account_same(one, "key", thumb);
    changed = !known || !account_same(one, "email", c->set->email);
    if (err == 0 && known)
        memcpy(c->kid, url, strlen(url) + 1);
    if (err == 0 && changed)
        err = known ? account_update(c, f) : account_ask(c, f);
    if (err == 0 && changed)
        err = account_write(c, all, thumb, f);
    json_decref(all);
    return err;
}

int
acme_account_ready(struct acme_client *c, struct acme_fail *f)
{
    json_t *all = NULL;
    int err = c->key != NULL ? 0 : account_key(c, f);

    if (err != 0) { /* a key that is not on disk is no account's */
        EVP_PKEY_free(c->key);
        c->key = NULL;
    }
    /* Once a pass: all orders of it are the same account's. */
    if (err == 0 && c->kid[0] != '\0')
        return 0;
    if (err == 0)
        err = account_read(c, &all, f);
    if (err == 0)
        err = account_use(c, all, f);
    if (err != 0) {
        c->kid[0] = '\0';
        acme_fail_in(f, "account");
    }
    return err;
}

/* The CA does not know it any more, as Pebble and staging environments do after a restart: the next order asks
 * anew. */
void
acme_account_forget(struct acme_client *c)
{
    struct acme_fail unused;
    json_t *all;
    char *text;

    c->kid[0] = '\0';
    /* Where it cannot be written the next pass finds the same error, and comes here again. */
    acme_fail_init(&unused);
    if (account_read(c, &all, &unused) != 0)
        return;
    json_object_del(all, c->set->directory);
    text = json_print(all);
    if (text != NULL)
        acme_dir_write(c->dir, ACCOUNT_FILE, slice_str(text), &unused);
    free(text);
    json_decref(all);
}
