/* acme_read_test.c -- names of the command line, and what a CA answers. */
#include "t/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "daemon/acme/acme_names.h"
#include "daemon/acme/acme_read.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

/* ---- names ---- */

/* "" or why not. */
static const char *
named(struct acme_settings *set, const char *arg)
{
    static struct acme_fail fail;

    acme_fail_init(&fail);
    if (acme_names_add(set, arg, &fail) == 0)
        fail.text[0] = '\0';
    return fail.text;
}

TEST(names, each_argument_is_a_certificate_called_by_its_first_name)
{
    struct acme_settings set = {.nwanted = 0};

    CHECK_STR("", named(&set, "Example.COM,www.example.com"));
    CHECK_STR("", named(&set, "xn--bcher-kva.example"));
    CHECK_STR("", named(&set, "www.example.com,example.com"));
    CHECK_EQ(3, set.nwanted);
    CHECK_EQ(2, set.wanted[0].nnames);
    CHECK_STR("example.com", set.wanted[0].names[0]);
    CHECK(strstr(named(&set, "example.com"), "would be one file") != NULL);
    CHECK_EQ(3, set.nwanted);
    acme_names_fini(&set);
}

TEST(names, what_is_no_name_of_a_host_is_refused_with_what_would_be_right)
{
    static const struct {
        const char *arg, *says;
    } rows[] = {{"", "empty label"}, {"a.test,", "empty label"}, {".a.test", "empty label"},
        {"a.test.", "empty label"}, {"a..test", "empty label"}, {"*.a.test", "dns-01"},
        {"192.0.2.1", "no DNS name"}, {"2001:db8::1", "no DNS name"}, {"a_b.test", "a-z, 0-9"},
        {"../etc", "empty label"}, {"a/b", "a-z, 0-9"}, {"b\xc3\xbc.test", "A-label"},
        {"-a.test", "begins or ends with -"}, {"a-.test", "begins or ends with -"},
        {"a.test,b.test,A.test", "is there twice"}, {"a b", "a-z, 0-9"}, {"a\x1b[2J", "\"a?[2j\""}};
    struct acme_settings set = {.nwanted = 0};
    char many[ACME_NAMES_MAX * 8 + 16] = "", longest[300] = "";

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strstr(named(&set, rows[i].arg), rows[i].says) == NULL)
            fail_msg("%s: %s", rows[i].arg, named(&set, rows[i].arg));
    for (unsigned i = 0; i <= ACME_NAMES_MAX; i++)
        sprintf(many + strlen(many), "%sn%u.x", i > 0 ? "," : "", i);
    CHECK(strstr(named(&set, many), "100 names at most") != NULL);
    memset(longest, 'a', 64);
    CHECK(strstr(named(&set, longest), "more than 63") != NULL);
    for (unsigned i = 0; i < 251; i++)
        longest[i] = i % 2 == 0 ? 'a' : '.';
    CHECK(strstr(named(&set, longest), "longer than 250") != NULL);
    longest[249] = '\0';
    CHECK_STR("", named(&set, longest));
    CHECK_EQ(1, set.nwanted);
    acme_names_fini(&set);
}

/* ---- what a CA answers ---- */

static json_t *
json(const char *text)
{
    json_t *v = json_loads(text, 0, NULL);

    CHECK(v != NULL);
    return v;
}

#define DIRECTORY                                                          \
    "\"newNonce\":\"https://ca.test/n\",\"newAccount\":\"https://ca.test/" \
    "a\",\"newOrder\":\"https://ca.test/o\""

TEST(answer, a_directory_needs_https_urls)
{
    static const struct {
        const char *text;
        int err;
    } rows[] = {{"{" DIRECTORY "}", 0}, {"{}", TERR_SYNTAX}, {"{\"newNonce\":1}", TERR_SYNTAX},
        {"{\"newNonce\":\"http://ca.test/n\",\"newAccount\":\"https://x\",\"newOrder\":\"https://"
         "x\"}",
            TERR_SYNTAX},
        {"{" DIRECTORY ",\"renewalInfo\":\"file:///etc/passwd\"}", TERR_SYNTAX},
        {"{" DIRECTORY ",\"renewalInfo\":\"https://ca.test/\\u0007\"}", TERR_SYNTAX},
        {"{" DIRECTORY ",\"meta\":7}", 0}};
    struct acme_urls urls;
    struct acme_fail fail;
    json_t *v;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        acme_fail_init(&fail);
        v = json(rows[i].text);
        CHECK_EQ(rows[i].err, acme_read_directory(v, &urls, &fail));
        CHECK_EQ(rows[i].err == 0, fail.text[0] == '\0');
        json_decref(v);
    }
    v = json("{" DIRECTORY ",\"renewalInfo\":\"https://ca.test/r\",\"meta\":{\"termsOfService\":"
             "\"https://ca.test/t\\n\",\"externalAccountRequired\":true}}");
    CHECK_EQ(0, acme_read_directory(v, &urls, &fail));
    CHECK_STR("https://ca.test/t?", urls.terms);
    CHECK_STR("https://ca.test/r", urls.renewal_info);
    CHECK(urls.binding_required);
    json_decref(v);
}

TEST(answer, an_order_and_its_bounds)
{
    struct acme_order_view o;
    struct acme_fail fail;
    json_t *v, *list;

    acme_fail_init(&fail);
    v = json("{\"status\":\"valid\",\"authorizations\":[\"https://ca.test/1\"],\"finalize\":"
             "\"https://ca.test/f\",\"certificate\":\"https://ca.test/c\"}");
    CHECK_EQ(0, acme_read_order(v, &o, &fail));
    CHECK_EQ(ACME_VALID, o.status);
    CHECK_STR("https://ca.test/c", o.certificate);
    list = json_object_get(v, "authorizations");
    for (unsigned i = 0; i < ACME_NAMES_MAX; i++)
        json_array_append_new(list, json_string("https://ca.test/1"));
    CHECK_EQ(TERR_SYNTAX, acme_read_order(v, &o, &fail)); /* 101 */
    json_array_remove(list, 0);
    CHECK_EQ(0, acme_read_order(v, &o, &fail));
    CHECK_EQ(ACME_NAMES_MAX, o.nauthorizations);
    json_object_set_new(v, "status", json_string("odd"));
    CHECK_EQ(TERR_SYNTAX, acme_read_order(v, &o, &fail));
    json_decref(v);
}

#define AUTHZ(token)                                                                   \
    "{\"status\":\"pending\",\"identifier\":{\"type\":\"dns\",\"value\":\"a.test\"},"  \
    "\"challenges\":["                                                                 \
    "{\"type\":\"dns-01\",\"url\":7},{\"type\":\"http-01\",\"url\":\"https://ca.test/" \
    "c\",\"status\":"                                                                  \
    "\"pending\",\"token\":\"" token "\"}]}"

TEST(answer, a_token_is_a_files_name_and_never_a_path)
{
    static const struct {
        const char *text;
        int err;
    } rows[] = {{AUTHZ("abc-_9"), 0}, {AUTHZ("../../certs/a"), TERR_SYNTAX},
        {AUTHZ(""), TERR_SYNTAX}, {AUTHZ("a/b"), TERR_SYNTAX}, {AUTHZ("."), TERR_SYNTAX},
        {AUTHZ("a\\u0000b"), TERR_SYNTAX},
        {"{\"status\":\"pending\",\"identifier\":{\"type\":\"ip\",\"value\":\"192.0.2.1\"}}",
            TERR_SYNTAX},
        {"{\"status\":\"pending\"}", TERR_SYNTAX}};
    char token[ACME_TOKEN_MAX + 2];
    struct acme_authz_view a;
    struct acme_fail fail;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *v = json_loads(rows[i].text, JSON_ALLOW_NUL, NULL);

        /* A text with NUL cannot reach us: jansson refuses it. */
        acme_fail_init(&fail);
        if (strstr(rows[i].text, "\\u0000") == NULL)
            CHECK_EQ(rows[i].err, acme_read_authz(v, ACME_HTTP_01, &a, &fail));
        else
            CHECK(json_loads(rows[i].text, 0, NULL) == NULL);
        json_decref(v);
    }
    memset(token, 'a', sizeof(token));
    token[ACME_TOKEN_MAX + 1] = '\0';
    CHECK(!acme_token_ok(token));
    token[ACME_TOKEN_MAX] = '\0';
    CHECK(acme_token_ok(token));
}

TEST(answer, a_challenge_of_another_kind_is_none)
{
    struct acme_authz_view a;
    struct acme_fail fail;
    json_t *v = json(AUTHZ("abc"));

    acme_fail_init(&fail);
    CHECK_EQ(0, acme_read_authz(v, ACME_TLS_ALPN_01, &a, &fail));
    CHECK(a.url == NULL);
    CHECK_EQ(0, acme_read_authz(v, ACME_HTTP_01, &a, &fail));
    CHECK_STR("https://ca.test/c", a.url);
    json_decref(v);
}

TEST(answer, a_window_begins_before_it_ends)
{
    static const struct {
        const char *start, *end;
        int err;
    } rows[] = {{"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", 0},
        {"2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z", TERR_SYNTAX},
        {"2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", TERR_SYNTAX},
        {"soon", "2026-01-01T00:00:00Z", TERR_SYNTAX}};
    struct acme_fail fail;
    int64_t start, end;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *v =
            json_pack("{s{ssss}}", "suggestedWindow", "start", rows[i].start, "end", rows[i].end);

        acme_fail_init(&fail);
        CHECK_EQ(rows[i].err, acme_read_window(v, &start, &end, &fail));
        json_decref(v);
    }
}

TEST_MAIN(TEST_ENTRY(names, each_argument_is_a_certificate_called_by_its_first_name),
    TEST_ENTRY(names, what_is_no_name_of_a_host_is_refused_with_what_would_be_right),
    TEST_ENTRY(answer, a_directory_needs_https_urls), TEST_ENTRY(answer, an_order_and_its_bounds),
    TEST_ENTRY(answer, a_token_is_a_files_name_and_never_a_path),
    TEST_ENTRY(answer, a_challenge_of_another_kind_is_none),
    TEST_ENTRY(answer, a_window_begins_before_it_ends))
