/* cert_table_test.c -- which files of a directory are certificates, which name each serves, and what is said of
 * those that are bad. */
#include "t/unit/cert_fixture.h"

TEST(cert_table, each_usual_layout_of_a_directory_is_found)
{
    struct cert_table *t;

    certs_open();
    put_pem("one.pem", "DNS:one.example");
    put_pair("two.crt", "two.key", "DNS:two.example");
    put_pair("three.cer", "three.key", "DNS:three.example");
    put_pair("four.pem", "four.key", "DNS:four.example");
    put_pair("lego.example.crt", "lego.example.key", "DNS:lego.example");
    put_pair("lego.example.issuer.crt", NULL, "DNS:no.example");
    put_text("lego.example.json", "{}");
    CHECK_EQ(0, mkdir(in("archive"), 0700));
    CHECK_EQ(0, mkdir(in("live.example"), 0700));
    put_pair("archive/fullchain3.pem", "archive/privkey3.pem", "DNS:bot.example");
    CHECK_EQ(0, symlink("../archive/fullchain3.pem", in("live.example/fullchain.pem")));
    CHECK_EQ(0, symlink("../archive/privkey3.pem", in("live.example/privkey.pem")));
    put_pair("live.example/cert.pem", NULL, "DNS:no.example");
    put_pair(".hidden.pem", NULL, "DNS:no.example");
    put_pair("old.pem.bak", NULL, "DNS:no.example");
    put_text("README", "what certbot writes");
    t = load(NULL, 0);
    CHECK_EQ(6, cert_table_count(t));
    CHECK_EQ(0, certs.report.nerrors);
    CHECK(said(false, "archive/fullchain.pem", "certbot"));
    CHECK_STR("one.pem", served(t, "one.example", CERT_ECDSA));
    CHECK_STR("two.crt", served(t, "two.example", CERT_ECDSA));
    CHECK_STR("three.cer", served(t, "three.example", CERT_ECDSA));
    CHECK_STR("four.pem", served(t, "four.example", CERT_ECDSA));
    CHECK_STR("lego.example.crt", served(t, "lego.example", CERT_ECDSA));
    CHECK_STR("live.example/fullchain.pem", served(t, "bot.example", CERT_ECDSA));
    CHECK_STR("four.pem",
        served(t, "no.example", CERT_ECDSA)); /* the first by name: none is called default */
    cert_table_unref(&t);
    certs_close();
}

TEST(cert_table, a_folder_of_certbots_may_be_the_directory)
{
    struct cert_table *t;

    certs_open();
    put_pair("fullchain.pem", "privkey.pem", "DNS:bot.example");
    put_pair("cert.pem", NULL, "DNS:bot.example");
    make_file(in("chain.pem"), (X509 *[]){certs.ca, NULL}, NULL, 0644);
    t = load(NULL, 0);
    CHECK_EQ(1, cert_table_count(t));
    CHECK_EQ(0, certs.report.nerrors);
    CHECK_STR("fullchain.pem", served(t, "bot.example", CERT_ECDSA));
    cert_table_unref(&t);
    certs_close();
}

TEST(cert_table, an_exact_name_comes_before_a_wildcard_before_the_default)
{
    struct cert_table *t;

    certs_open();
    put_pem("a.pem", "DNS:a.example");
    put_pem("default.pem", "DNS:d.example");
    put_pem("wild.pem", "DNS:*.w.example");
    put_pem("exact.pem", "DNS:x.w.example");
    t = load(NULL, 0);
    CHECK_STR("default.pem", t->entries[0]->certificate + strlen(certs.path) + 1);
    CHECK_STR("a.pem", served(t, "a.example", CERT_ECDSA));
    CHECK_STR("exact.pem", served(t, "x.w.example", CERT_ECDSA));
    CHECK_STR("wild.pem", served(t, "y.w.example", CERT_ECDSA));
    CHECK_STR("default.pem", served(t, "w.example", CERT_ECDSA));     /* no label */
    CHECK_STR("default.pem", served(t, "z.y.w.example", CERT_ECDSA)); /* two */
    CHECK_STR("default.pem", served(t, "", CERT_ECDSA));
    CHECK_STR("", served(t, "", CERT_RSA));
    cert_table_unref(&t);
    certs_close();
}

TEST(cert_table, two_kinds_of_key_stand_side_by_side_and_of_one_the_later_expiry_wins)
{
    struct cert_table *t;
    const char *soonest;

    certs_open();
    put_pem_of("a-rsa.pem", "DNS:a.example,DNS:only.example", certs.rsa, 30);
    put_pem_of("b-short.pem", "DNS:a.example,DNS:b.example", certs.ec, 10);
    put_pem_of("c-long.pem", "DNS:a.example", certs.ec2, 80);
    put_pem_of("d-equal.pem", "DNS:e.example", certs.ec, 50);
    put_pem_of("e-equal.pem", "DNS:e.example", certs.ec, 50);
    t = load(NULL, 0);
    CHECK_STR("a-rsa.pem", served(t, "a.example", CERT_RSA));
    CHECK_STR("c-long.pem", served(t, "a.example", CERT_ECDSA));
    CHECK_STR("b-short.pem", served(t, "b.example", CERT_ECDSA));
    CHECK_STR("", served(t, "only.example", CERT_ECDSA));
    CHECK(said(false, "b-short.pem", "a.example is served from"));
    CHECK(said(false, "b-short.pem", "c-long.pem"));
    /* The default, a-rsa.pem, has an ECDSA neighbour for its first name. */
    CHECK_STR("a-rsa.pem", served(t, "none.example", CERT_RSA));
    CHECK_STR("c-long.pem", served(t, "none.example", CERT_ECDSA));
    CHECK_EQ(0, certs.report.nerrors);
    (void)cert_table_soonest_expiry(t, &soonest);
    CHECK_STR(in("b-short.pem"), soonest);
    cert_table_unref(&t);
    certs_close();
}

TEST(cert_table, a_list_of_pairs_is_loaded_and_its_first_is_the_default)
{
    struct cert_pair pairs[3];
    struct cert_spec spec = {.pairs = pairs, .npairs = 2, .directory = NULL};
    struct cert_table *t = NULL;

    certs_open();
    put_pair("z.crt", "z.key", "DNS:z.example");
    put_pem("b.pem", "DNS:b.example");
    pairs[0] = (struct cert_pair){strdup(in("z.crt")), strdup(in("z.key"))};
    pairs[1] = (struct cert_pair){strdup(in("b.pem")), strdup(in("b.pem"))};
    pairs[2] = (struct cert_pair){strdup(in("none.pem")), NULL};
    CHECK_EQ(0, cert_table_load(&t, &spec, NULL, &certs.report));
    CHECK_STR("z.crt", served(t, "none.example", CERT_ECDSA));
    CHECK_STR("b.pem", served(t, "b.example", CERT_ECDSA));
    cert_table_unref(&t);
    spec.npairs = 3; /* what is listed must be there */
    CHECK_EQ(TERR_CONFIG, cert_table_load(&t, &spec, NULL, &certs.report));
    CHECK(said(true, "none.pem", "no such file"));
    /* Beside a directory the list is first. */
    spec.npairs = 1;
    spec.directory = certs.path;
    cert_report_free(&certs.report);
    CHECK_EQ(0, cert_table_load(&t, &spec, NULL, &certs.report));
    CHECK_STR("z.crt", served(t, "none.example", CERT_ECDSA));
    CHECK_EQ(0, certs.report.nerrors + certs.report.nremarks); /* z.crt twice is no remark */
    cert_table_unref(&t);
    for (unsigned i = 0; i < 3; i++) {
        free((void *)(uintptr_t)pairs[i].certificate);
        free((void *)(uintptr_t)pairs[i].key);
    }
    certs_close();
}

static void
put_cert(const char *name, const struct cert_wish *wish)
{
    X509 *cert = make_cert(wish);

    make_file(in(name), (X509 *[]){cert, NULL}, wish->key, 0640);
    X509_free(cert);
}

/* What is bad is named by file and reason, and what is good is served. */
TEST(cert_table, each_bad_file_is_named_with_what_would_be_right)
{
    EVP_PKEY *short_rsa = make_rsa(1024), *k1 = make_ec("secp256k1");
    struct cert_table *t;
    X509 *cert;
    struct span der;
    FILE *f;

    certs_open();
    put_pem("good.pem", "DNS:good.example");
    put_pair("nokey.crt", NULL, "DNS:nokey.example");
    put_pair("nokey2.pem", NULL, "DNS:nokey.example");
    make_file(in("nocert.key"), (X509 *[]){NULL}, certs.ec, 0640);
    make_file(in("keyonly.pem"), (X509 *[]){NULL}, certs.ec, 0640);
    put_text("empty.pem", "");
    put_text("cut.pem", "\n\n-----BEGIN CERTIFICATE-----\nMIIB\n");
    put_text("wrong.pem", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
                          "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n");
    put_cert("short.pem", &(struct cert_wish){.cn = "s.example", .key = short_rsa});
    put_cert("curve.pem", &(struct cert_wish){.cn = "c.example", .key = k1});
    put_cert(
        "sha1.pem", &(struct cert_wish){.cn = "h.example", .key = certs.ec, .digest = EVP_sha1()});
    put_pem("open.pem", "DNS:open.example");
    CHECK_EQ(0, chmod(in("open.pem"), 0644));
    put_pair("open2.crt", "open2.key", "DNS:open.example");
    CHECK_EQ(0, chmod(in("open2.key"), 0604));
    CHECK_EQ(0, mkfifo(in("fifo.pem"), 0600));
    CHECK_EQ(0, symlink("nowhere", in("dangling.pem")));
    cert = leaf("DNS:der.example", certs.ec, 90);
    der = make_der(cert);
    f = fopen(in("der.crt"), "w");
    CHECK(f != NULL && fwrite(der.ptr, 1, der.len, f) == der.len && fclose(f) == 0);
    make_file(in("der.key"), (X509 *[]){NULL}, certs.ec, 0640);
    free(der.ptr);
    X509_free(cert);

    t = load(NULL, 0);
    CHECK_EQ(1, cert_table_count(t));
    CHECK(said(true, "nokey.crt", "NAME.key beside it"));
    CHECK(said(true, "nokey2.pem", "NAME.key beside it"));
    CHECK(said(true, "nocert.key", "nocert.crt"));
    CHECK(said(true, "keyonly.pem", "BEGIN CERTIFICATE"));
    CHECK(said(true, "empty.pem", "BEGIN CERTIFICATE"));
    CHECK(said(true, "cut.pem", "cut short"));
    CHECK(said(true, "wrong.pem", "not a certificate"));
    CHECK(said(true, "short.pem", "2048"));
    CHECK(said(true, "curve.pem", "P-256"));
    CHECK(said(true, "sha1.pem", "SHA-256"));
    CHECK(said(true, "open.pem", "chmod 0640"));
    CHECK(said(true, "open2.key", "chmod 0640"));
    CHECK(said(true, "fifo.pem", "regular"));
    CHECK(said(true, "dangling.pem", "no such file"));
    CHECK(said(true, "der.crt", "openssl x509 -inform der"));
    CHECK_EQ(15, certs.report.nerrors);
    for (unsigned i = 0; i < certs.report.nrows; i++) {
        if (strcmp(certs.report.rows[i].file, in("cut.pem")) == 0)
            CHECK_EQ(3, certs.report.rows[i].line);
    }
    cert_table_unref(&t);
    EVP_PKEY_free(short_rsa);
    EVP_PKEY_free(k1);
    certs_close();
}

TEST(cert_table, what_is_odd_and_can_be_served_is_a_remark)
{
    static const struct slice names[] = {
        SLICE_LIT("ok.example"), SLICE_LIT("no\0.example"), {"", 0}};
    struct cert_table *t;

    certs_open();
    put_cert("nul.pem", &(struct cert_wish){.names = names, .key = certs.ec});
    put_pem_of("over.pem", "DNS:over.example", certs.ec, -1);
    put_cert("early.pem", &(struct cert_wish){.cn = "early.example",
                              .key = certs.ec,
                              .from_s = time(NULL) + 86400,
                              .until_s = time(NULL) + 2 * 86400});
    put_pem("group.pem", "DNS:group.example");
    CHECK_EQ(0, chmod(in("group.pem"), 0660)); /* its group may do as it likes */
    t = load(NULL, 0);
    CHECK_EQ(4, cert_table_count(t));
    CHECK_EQ(0, certs.report.nerrors);
    CHECK_EQ(3, certs.report.nremarks);
    CHECK(said(false, "nul.pem", "1 of its names"));
    CHECK(said(false, "over.pem", "expired at "));
    CHECK(said(false, "early.pem", "valid from "));
    cert_table_unref(&t);
    certs_close();
}

TEST(cert_table, a_directory_with_nothing_or_that_is_not_there_is_an_error)
{
    struct cert_spec spec = {.directory = "/nonexistent/certs"};
    struct cert_table *t = NULL;

    certs_open();
    load(NULL, TERR_CONFIG);
    CHECK_EQ(1, certs.report.nerrors);
    CHECK(strstr(certs.report.rows[0].why, "NAME.pem") != NULL);
    put_text("bad.pem", "bad");
    load(NULL, TERR_CONFIG);
    CHECK(said(true, "bad.pem", "BEGIN CERTIFICATE"));
    cert_report_free(&certs.report);
    CHECK_EQ(TERR_CONFIG, cert_table_load(&t, &spec, NULL, &certs.report));
    CHECK_STR("/nonexistent/certs", certs.report.rows[0].file);
    certs_close();
}

/* The first certificate of an ACME client: its challenge is answered before there is one. */
TEST(cert_table, an_acme_clients_directory_may_be_empty_until_a_reload_finds_a_certificate)
{
    struct cert_spec spec = {.directory = "/nonexistent/certs", .may_be_empty = true};
    struct cert_table *empty = NULL, *t = NULL;
    const char *file;

    certs_open();
    CHECK_EQ(0, cert_table_load(&empty, &spec, NULL, &certs.report));
    CHECK_EQ(0, certs.report.nerrors);
    CHECK_STR("/nonexistent/certs", certs.report.rows[0].file);
    cert_table_unref(&empty);
    spec.directory = certs.path;
    CHECK_EQ(0, cert_table_load(&empty, &spec, NULL, &certs.report));
    CHECK_EQ(0, certs.report.nerrors);
    CHECK_EQ(0, cert_table_count(empty));
    CHECK_STR("", served(empty, "a.example", CERT_ECDSA));
    CHECK_STR("", served(empty, "", CERT_ECDSA));
    CHECK_EQ(INT64_MAX, cert_table_soonest_expiry(empty, &file));
    CHECK_STR("", file);
    put_pem("a.pem", "DNS:a.example");
    CHECK_EQ(0, cert_table_load(&t, &spec, empty, &certs.report));
    CHECK_STR("a.pem", served(t, "a.example", CERT_ECDSA));
    cert_table_unref(&t);
    cert_table_unref(&empty);
    certs_close();
}

TEST(cert_table, a_reload_takes_over_what_has_not_changed_and_keeps_what_is_bad_now)
{
    struct cert_table *t, *again, *third;
    struct cert_entry *same, *changed, *bad;

    certs_open();
    put_pem("same.pem", "DNS:same.example");
    put_pem("changed.pem", "DNS:changed.example");
    put_pem("bad.pem", "DNS:bad.example");
    put_pair("mode.crt", "mode.key", "DNS:mode.example");
    put_pem("gone.pem", "DNS:gone.example");
    t = load(NULL, 0);
    same = cert_table_by_path(t, in("same.pem"));
    changed = cert_table_by_path(t, in("changed.pem"));
    bad = cert_table_by_path(t, in("bad.pem"));
    put_pem("changed.pem", "DNS:changed.example,DNS:more.example");
    put_text("bad.pem", "-----BEGIN CERTIFICATE-----\n");
    CHECK_EQ(0, chmod(in("mode.key"), 0644));
    CHECK_EQ(0, unlink(in("gone.pem")));
    put_pem("new.pem", "DNS:new.example");

    again = load(t, 0);
    CHECK_EQ(5, cert_table_count(again));
    CHECK(cert_table_by_path(again, in("same.pem")) == same);
    CHECK(cert_table_by_path(again, in("changed.pem")) != changed);
    CHECK(cert_table_by_path(again, in("bad.pem")) == bad);
    CHECK(cert_table_by_path(again, in("gone.pem")) == NULL);
    CHECK_STR("changed.pem", served(again, "more.example", CERT_ECDSA));
    CHECK_STR("bad.pem", served(again, "bad.example", CERT_ECDSA));
    CHECK_STR("mode.crt", served(again, "mode.example", CERT_ECDSA));
    CHECK_EQ(2, certs.report.nerrors);
    CHECK(said(true, "bad.pem", "cut short"));
    CHECK(said(true, "mode.key", "chmod 0640"));
    CHECK_EQ(1, again->nchanges);
    CHECK_EQ(2, again->nkept);
    cert_table_unref(&t); /* what was taken over stays */

    put_pem("bad.pem", "DNS:bad.example");
    CHECK_EQ(0, chmod(in("mode.key"), 0640));
    third = load(again, 0);
    CHECK_EQ(0, certs.report.nerrors);
    CHECK_EQ(0, third->nkept);
    CHECK(cert_table_by_path(third, in("same.pem")) == same);
    CHECK(cert_table_by_path(third, in("bad.pem")) != bad);
    cert_table_unref(&again);
    /* And a directory that is empty for a moment ends nothing. */
    CHECK_EQ(0, nftw(certs.path, certs_unlink, 8, FTW_DEPTH | FTW_PHYS));
    load(third, TERR_CONFIG);
    CHECK_EQ(0, mkdir(certs.path, 0700));
    load(third, TERR_CONFIG);
    cert_table_unref(&third);
    certs_close();
}

TEST(cert_table, a_report_is_bounded_and_counts_the_others)
{
    struct cert_table *t;
    char name[32];

    certs_open();
    put_pem("good.pem", "DNS:good.example");
    for (unsigned i = 0; i < CERT_REPORT_ROWS_MAX + 50; i++) {
        snprintf(name, sizeof(name), "bad%03u.pem", i);
        put_text(name, "bad");
    }
    t = load(NULL, 0);
    CHECK_EQ(CERT_REPORT_ROWS_MAX, certs.report.nrows);
    CHECK_EQ(CERT_REPORT_ROWS_MAX + 50, certs.report.nerrors);
    cert_table_unref(&t);
    certs_close();
}

TEST(cert_table, a_check_parses_all_and_says_what_loading_cannot_see)
{
    struct cert_table *t;

    certs_open();
    put_pem("good.pem", "DNS:good.example");
    put_pair("other.crt", "other.key", "DNS:other.example");
    make_file(in("other.key"), (X509 *[]){NULL}, certs.ec2, 0640);
    put_pair("locked.crt", "locked.key", "DNS:locked.example");
    make_encrypted_key(in("locked.key"), certs.ec);
    put_pair("broken.crt", "broken.key", "DNS:broken.example");
    put_text("broken.key", "\n-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n");
    put_pair("nothing.crt", "nothing.key", "DNS:nothing.example");
    put_text("nothing.key", "");
    t = load(NULL, 0);
    CHECK_EQ(5, cert_table_count(t));
    CHECK_EQ(4, cert_table_check(t, time(NULL), &certs.report));
    CHECK(said(true, "other.key", "key of another certificate"));
    CHECK(said(true, "locked.key", "openssl pkey"));
    CHECK(said(true, "broken.key", "damaged"));
    CHECK(said(true, "nothing.key", "BEGIN PRIVATE KEY"));
    CHECK_EQ(4, certs.report.nerrors);
    cert_table_unref(&t);
    certs_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(cert_table, each_usual_layout_of_a_directory_is_found),
        TEST_ENTRY(cert_table, a_folder_of_certbots_may_be_the_directory),
        TEST_ENTRY(cert_table, an_exact_name_comes_before_a_wildcard_before_the_default),
        TEST_ENTRY(
            cert_table, two_kinds_of_key_stand_side_by_side_and_of_one_the_later_expiry_wins),
        TEST_ENTRY(cert_table, a_list_of_pairs_is_loaded_and_its_first_is_the_default),
        TEST_ENTRY(cert_table, each_bad_file_is_named_with_what_would_be_right),
        TEST_ENTRY(cert_table, what_is_odd_and_can_be_served_is_a_remark),
        TEST_ENTRY(cert_table, a_directory_with_nothing_or_that_is_not_there_is_an_error),
        TEST_ENTRY(
            cert_table, an_acme_clients_directory_may_be_empty_until_a_reload_finds_a_certificate),
        TEST_ENTRY(cert_table, a_reload_takes_over_what_has_not_changed_and_keeps_what_is_bad_now),
        TEST_ENTRY(cert_table, a_report_is_bounded_and_counts_the_others),
        TEST_ENTRY(cert_table, a_check_parses_all_and_says_what_loading_cannot_see),
    };

    return cmocka_run_group_tests(tests, certs_make, certs_free);
}
