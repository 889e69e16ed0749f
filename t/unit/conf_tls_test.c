/* conf_tls_test.c -- TLS of listeners and of backends, as a file says it: read, compared, and refused. */
#include "t/unit/conf_fixture.h"

#include "conf/conf_compare.h"
#include "conf/conf_keys_table.h"

#define LISTEN(text)  BACKEND "listen: [{address: '127.0.0.1:443', " text "}]\n"
#define ORIGIN(text)  "backends: {o: {" text "}}\n"
#define SECURED(text) ORIGIN("address: '127.0.0.1:443', tls: " text)

TEST(conf_tls, one_line_is_a_directory_of_certificates)
{
    const struct conf *c = load(LISTEN("tls: /etc/tls"));
    const struct conf_tls *tls = &c->listens[0].tls;

    CHECK(tls->said && !tls->acme.said && !c->listens_act);
    CHECK_STR("/etc/tls", tls->certificates.directory);
    CHECK_EQ(0, tls->certificates.n);
    CHECK_STR("intermediate", tls->profile);
    CHECK_STR("off", tls->client_auth);
    CHECK_STR("", tls->client_ca);
    CHECK_STR("", tls->session_secret);
    conf_free(&c);
    c = load(LISTEN("tls: ''"));
    CHECK(!c->listens[0].tls.said);
    conf_free(&c);
}

TEST(conf_tls, certificates_may_be_a_list_of_files)
{
    const struct conf *c = load(LISTEN(
        "tls: {certificates: [/a.pem, {certificate: /b.crt, key: /b.key}], profile: modern}"));
    const struct conf_tls *tls = &c->listens[0].tls;

    CHECK_STR("", tls->certificates.directory);
    CHECK_EQ(2, tls->certificates.n);
    CHECK_STR("/a.pem", tls->certificates.pairs[0].certificate);
    CHECK_STR("", tls->certificates.pairs[0].key);
    CHECK_STR("/b.crt", tls->certificates.pairs[1].certificate);
    CHECK_STR("/b.key", tls->certificates.pairs[1].key);
    CHECK_STR("modern", tls->profile);
    conf_free(&c);
}

TEST(conf_tls, acme_needs_names_alone)
{
    const struct conf *c = load(LISTEN("tls: {acme: {names: [a.test, b.test]}}"));
    const struct conf_acme *acme = &c->listens[0].tls.acme;

    CHECK(acme->said && c->listens_act);
    CHECK_STR("a.test b.test", acme->names);
    CHECK_STR("https://acme-v02.api.letsencrypt.org/directory", acme->directory);
    CHECK_STR("/var/lib/tarn/acme", acme->state);
    CHECK_STR("http-01", acme->challenge);
    CHECK_STR("", acme->email);
    conf_free(&c);
}

TEST(conf_tls, acme_has_what_tarn_acme_takes_on_its_command_line)
{
    const struct conf *c = load(LISTEN(
        "tls: {acme: {names: ['Shop.test', 'a.test,www.A.test'], email: me@a.test, agree_tos: on, "
        "staging: on, challenge: tls-alpn-01, state: /acme, key_type: rsa, renew_before: 45d, "
        "hook: "
        "'true', ca: /ca.pem, eab_kid: k, eab_key_file: /eab}}"));
    const struct conf_acme *acme = &c->listens[0].tls.acme;

    CHECK_STR("shop.test a.test,www.a.test", acme->names);
    CHECK_STR("me@a.test", acme->email);
    CHECK(acme->agree_tos && acme->staging);
    CHECK_STR(CONF_ACME_STAGING, acme->directory);
    CHECK_STR("tls-alpn-01", acme->challenge);
    CHECK_STR("/acme", acme->state);
    CHECK_STR("rsa", acme->key_type);
    CHECK_EQ(INT64_C(45) * 24 * 3600 * 1000, acme->renew_before);
    CHECK_STR("true", acme->hook);
    CHECK_STR("/ca.pem", acme->ca);
    CHECK_STR("k", acme->eab_kid);
    CHECK_STR("/eab", acme->eab_key_file);
    conf_free(&c);
}

#define ACME(text) LISTEN("tls: {acme: {" text "}}")

TEST(conf_tls, what_acme_says_is_checked)
{
    char names[100 * 9 + 1] = "", text[1200];

    expect_errors(ACME("email: a@b"),
        "2:43 acme has no 'names': give it the names of hosts, as in names: [www.example.com]; "
        "or 'webroot', where another ACME client leaves its proofs\n");
    expect_errors(ACME("names: []"),
        "2:43 acme has no 'names': give it the names of hosts, as in names: [www.example.com]; "
        "or 'webroot', where another ACME client leaves its proofs\n");
    expect_errors(ACME("names: ['*.a.test']"),
        "2:58 names: '*.a.test' is a wildcard, which needs the challenge dns-01; name each host\n");
    expect_errors(ACME("names: [b.test, 192.0.2.1, 'a.test,a_b']"),
        "2:66 names: '192.0.2.1' is no DNS name; certificates for addresses are not made\n"
        "2:77 names: 'a_b' has a letter that no host's name has; a-z, 0-9, - and . would be "
        "right\n");
    expect_errors(ACME("names: ['a.test,']"),
        "2:58 names: '' has an empty label; www.example.com would be right\n");
    expect_errors(
        ACME("names: ['']"), "2:58 names: '' has an empty label; www.example.com would be right\n");
    expect_errors(ACME("names: ['a.test, b.test']"),
        "2:58 names: ' b.test' has a letter that no "
        "host's name has; a-z, 0-9, - and . would be right\n");
    expect_errors(ACME("names: [{a: b}]"), "2:58 names: each of the list must be a text\n");
    expect_errors(ACME("names: ['a.test,A.test']"), "2:58 names: 'a.test' is there twice\n");
    expect_errors(ACME("names: [a.test, 'a.test,b.test']"),
        "2:66 names: 'a.test,b.test' begins with a name that another certificate begins with\n");
    for (unsigned i = 0; i < 100; i++)
        snprintf(names + i * 9, 10, "n%02u.test,", i % 100);
    snprintf(text, sizeof(text), LISTEN("tls: {acme: {names: ['%sx.test']}}"), names);
    expect_errors(
        text, "2:58 names: 'x.test' is one too many: a certificate has 100 names at most\n");
    expect_errors(ACME("names: a.test, email: 'a@b,c@d'"),
        "2:72 email: 'a@b,c@d' is not one address, as in admin@example.com\n");
    expect_errors(ACME("names: a.test, staging: on, directory: 'https://ca.test/dir'"),
        "2:74 staging is a directory of Let's Encrypt's: remove it, or 'directory'\n");
    expect_errors(ACME("names: a.test, webroot: /w"),
        "2:74 webroot is for another ACME client, and 'names' are for tarn-acme: remove one of "
        "them\n");
    expect_errors(ACME("webroot: /w"),
        "2:42 tls has no certificate: with a `webroot` of acme name the directory that its client "
        "keeps them in in `certificates`, as /etc/letsencrypt/live\n");
    expect_errors(ACME("names: a.test, eab_kid: k"),
        "2:74 eab_kid and eab_key_file belong together: the CA gave you both\n");
}

TEST(conf_tls, http2_is_of_tls_and_h2c_of_a_plain_listener)
{
    const struct conf *c = load(LISTEN("tls: /a, http2: on"));

    CHECK(c->listens[0].http2 && c->listens[0].tls.http2 && !c->listens[0].h2c);
    conf_free(&c);
    c = load(LISTEN("tls: /a, http2: off, h2c: off"));
    CHECK(!c->listens[0].http2 && !c->listens[0].tls.http2);
    conf_free(&c);
    c = load(LISTEN("h2c: on, http2: off, tls: ''"));
    CHECK_EQ(CONF_H2C_ON, c->listens[0].h2c);
    CHECK(!c->listens[0].tls.http2);
    conf_free(&c);
    c = load(LISTEN("h2c: Only"));
    CHECK_EQ(CONF_H2C_ONLY, c->listens[0].h2c);
    conf_free(&c);
    c = load(LISTEN("tls: /a"));
    CHECK(c->listens[0].tls.http2);
    CHECK(!c->listens[0].h2c);
    conf_free(&c);
    c = load(LISTEN("http2: on, tls: ''")); /* its default, where it means nothing */
    CHECK(!c->listens[0].tls.http2);
    conf_free(&c);
    expect_errors(LISTEN("h2c: on, tls: /a"),
        "2:42 h2c is HTTP/2 without TLS, and this listener has tls: for HTTP/2 with TLS: `http2: "
        "on`\n");
    expect_errors(LISTEN("h2c: only, tls: /a"),
        "2:42 h2c is HTTP/2 without TLS, and this listener has tls: for HTTP/2 with TLS: `http2: "
        "on`\n");
    expect_errors(LISTEN("http2: only, h2c: 1"),
        "2:44 http2: 'only' is not on, off, true or false\n"
        "2:55 h2c: '1' is not on, off, only, true or false\n");
    /* A tls with a mistake is one. */
    expect_errors(LISTEN("http2: on, tls: {certificates: []}"),
        "2:68 certificates: an empty list has no certificate: give it a certificate\n");
    expect_errors(BACKEND "admin: {http2: on, h2c: on}\n",
        "2:9 key 'http2' is for 'listen': the admin listener speaks HTTP/1.1: remove it\n"
        "2:20 key 'h2c' is for 'listen': the admin listener speaks HTTP/1.1: remove it\n");
}

#define TWO(a, b)                                                           \
    BACKEND "listen:\n- {address: '127.0.0.1:443', tls: {acme: {" a "}}}\n" \
            "- {address: '127.0.0.1:444', tls: {acme: {" b "}}}\n"

TEST(conf_tls, listeners_with_one_state_directory_have_one_account)
{
    const struct conf *c = load(TWO("names: [a.test, b.test]", "names: [b.test, c.test]"));

    CHECK_STR("b.test c.test", c->listens[1].tls.acme.names);
    conf_free(&c);
    c = load(TWO("names: a.test", "names: 'a.test,b.test', email: a@b, state: /other"));
    conf_free(&c);
    expect_errors(TWO("names: a.test, email: a@b", "names: a.test, challenge: tls-alpn-01"),
        "4:42 email: listener 'listen0' has another one, and both have the state directory "
        "/var/lib/tarn/acme, so one account: write the same, or another 'state'\n"
        "4:69 challenge: listener 'listen0' has another one, and both have the state directory "
        "/var/lib/tarn/acme, so one account: write the same, or another 'state'\n");
    expect_errors(TWO("names: a.test", "names: [b.test, 'a.test,b.test']"),
        "4:50 names: the certificate 'a.test,b.test' has other names at listener 'listen0': they "
        "would be one file\n");
}

TEST(conf_tls, what_a_listener_says_is_checked)
{
    expect_errors(LISTEN("tls: {}"),
        "2:42 tls has no certificate: name a directory or a list in `certificates`, or give it "
        "`acme: { names: [www.example.com] }`\n");
    expect_errors(LISTEN("tls: {certificates: []}"),
        "2:57 certificates: an empty list has no certificate: give it a certificate\n");
    expect_errors(LISTEN("tls: {certificates: [{key: /a}]}"),
        "2:58 a certificate has no 'certificate': give it one\n");
    expect_errors(LISTEN("tls: {certificates: /a, profile: old}"),
        "2:70 profile: 'old' is unknown: it is intermediate or modern\n");
    expect_errors(LISTEN("tls: {certificates: /a, client_auth: required}"),
        "2:74 client_auth: 'required' needs `client_ca`, the file with the CA certificates that "
        "clients' certificates are issued by\n");
    expect_errors(LISTEN("tls: {certificates: /a, client_ca: /b}"),
        "2:72 client_ca is not used: it needs `client_auth: optional` or `client_auth: "
        "required`\n");
    expect_errors(LISTEN("tls: {certificate: /a}"),
        "2:43 unknown key 'certificate' in tls; did you mean 'certificates'?\n");
    expect_errors(LISTEN("tls: {acme: {names: [a.test], directory: 'http://a/'}}"),
        "2:78 directory: 'http://a/' is not the https:// URL of an ACME directory\n");
    expect_errors(LISTEN("tls: {acme: {names: [a.test], challenge: dns-01}}"),
        "2:78 challenge: 'dns-01' is unknown: it is http-01 or tls-alpn-01\n");
    expect_errors(LISTEN("tls: /a, redirect: https"),
        "2:56 key 'redirect' is for a listener without 'tls': "
        "what comes in here is https already\n");
    expect_errors(BACKEND "tls: {certificates: /a}\n",
        "2:1 section 'tls' is a key of a listener: write `listen: [ { address: \"*:443\", tls: { "
        "certificates: DIRECTORY } } ]`\n");
}

TEST(conf_tls, a_redirecting_listener_acts)
{
    const struct conf *c = load(LISTEN("redirect: https"));

    CHECK(c->listens_act);
    CHECK_STR("https", c->listens[0].redirect);
    conf_free(&c);
    c = load(LISTEN("redirect: off"));
    CHECK(!c->listens_act);
    conf_free(&c);
}

TEST(conf_tls, https_in_front_of_an_address_is_tls_with_verification)
{
    const struct conf *c = load(ORIGIN("address: 'https://127.0.0.1'"));
    const struct conf_backend *b = &c->backends[0];

    CHECK(b->tls.said && b->address.is_https);
    CHECK_EQ(1, b->tls.verify);
    CHECK_EQ(443, b->address.port);
    CHECK_STR("127.0.0.1", b->address.host);
    CHECK_STR("https://127.0.0.1", b->address.text);
    CHECK_STR("", b->tls.sni); /* an address is no server name */
    CHECK_STR("127.0.0.1", b->tls.name);
    conf_free(&c);
    c = load(ORIGIN("address: 'https://[::1]:8443/', tls: {sni: A.test}"));
    b = &c->backends[0];
    CHECK_EQ(8443, b->address.port);
    CHECK_STR("a.test", b->tls.sni);
    CHECK_STR("a.test", b->tls.name);
    conf_free(&c);
    c = load(ORIGIN("address: 'https://localhost:8443', tls: {name: b.test, ca: /ca}"));
    b = &c->backends[0];
    CHECK_STR("localhost", b->tls.sni);
    CHECK_STR("b.test", b->tls.name);
    CHECK_STR("/ca", b->tls.ca);
    conf_free(&c);
}

TEST(conf_tls, what_a_backend_says_is_checked)
{
    expect_errors(SECURED("maybe"), "1:47 tls: 'maybe' is not on, off, true or false\n");
    expect_errors(SECURED("{verify: off, ca: /a}"),
        "1:56 verify: with off neither 'ca' nor 'name' is looked at: remove them, or this\n");
    expect_errors(SECURED("{key: /a}"),
        "1:53 key 'key' is that of a certificate: name its file in 'certificate'\n");
    expect_errors(ORIGIN("address: 'https://127.0.0.1', tls: off"),
        "1:51 tls: off, but the address begins with https://: remove one of them\n");
    expect_errors(ORIGIN("address: 'unix:/a', tls: on"),
        "1:41 tls: it is not known for which name the certificate must be: give it 'name'\n");
}

TEST(conf_tls, every_difference_makes_another_backend)
{
    static const char *const rows[] = {SECURED("on"), SECURED("off"), SECURED("{verify: off}"),
        SECURED("{ca: /a}"), SECURED("{sni: a.test}"), SECURED("{name: a.test}"),
        SECURED("{certificate: /a}"), SECURED("{certificate: /a, key: /b}")};

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        for (unsigned j = 0; j < ARRAY_LEN(rows); j++) {
            const struct conf *a = load(rows[i]), *b = load(rows[j]);

            CHECK_EQ(i == j, conf_backend_same(&a->backends[0], &b->backends[0]));
            conf_free(&a);
            conf_free(&b);
        }
}

TEST(conf_tls, every_difference_makes_another_listener)
{
    static const char *const rows[] = {LISTEN("tls: /a"), LISTEN("redirect: off"),
        LISTEN("redirect: https"), LISTEN("tls: /b"), LISTEN("tls: {certificates: [/a]}"),
        LISTEN("tls: {certificates: [{certificate: /a, key: /b}]}"),
        LISTEN("tls: {certificates: /a, profile: modern}"),
        LISTEN("tls: {certificates: /a, client_auth: optional, client_ca: /c}"),
        LISTEN("tls: {certificates: /a, client_auth: required, client_ca: /c}"),
        LISTEN("tls: {certificates: /a, client_auth: required, client_ca: /d}"),
        LISTEN("tls: {certificates: /a, session_secret: /s}"),
        LISTEN("tls: {certificates: /a, acme: {names: [a.test]}}"),
        LISTEN("tls: {certificates: /a, acme: {names: [a.test], state: /s}}"),
        LISTEN("tls: {certificates: /a, acme: {webroot: /w}}"),
        LISTEN("tls: {certificates: /a, acme: {names: [a.test], agree_tos: on}}")};

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        for (unsigned j = 0; j < ARRAY_LEN(rows); j++) {
            const struct conf *a = load(rows[i]), *b = load(rows[j]);

            CHECK_EQ(i == j, conf_listen_same(&a->listens[0], &b->listens[0]));
            conf_free(&a);
            conf_free(&b);
        }
}

TEST_MAIN(TEST_ENTRY(conf_tls, http2_is_of_tls_and_h2c_of_a_plain_listener),
    TEST_ENTRY(conf_tls, one_line_is_a_directory_of_certificates),
    TEST_ENTRY(conf_tls, certificates_may_be_a_list_of_files),
    TEST_ENTRY(conf_tls, acme_needs_names_alone),
    TEST_ENTRY(conf_tls, acme_has_what_tarn_acme_takes_on_its_command_line),
    TEST_ENTRY(conf_tls, what_acme_says_is_checked),
    TEST_ENTRY(conf_tls, listeners_with_one_state_directory_have_one_account),
    TEST_ENTRY(conf_tls, what_a_listener_says_is_checked),
    TEST_ENTRY(conf_tls, a_redirecting_listener_acts),
    TEST_ENTRY(conf_tls, https_in_front_of_an_address_is_tls_with_verification),
    TEST_ENTRY(conf_tls, what_a_backend_says_is_checked),
    TEST_ENTRY(conf_tls, every_difference_makes_another_backend),
    TEST_ENTRY(conf_tls, every_difference_makes_another_listener))
