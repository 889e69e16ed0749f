/* http_codings_test.c -- what clients take, by Accept-Encoding. */
#include "t/unit/test.h"

#include <stdio.h>

#include "t/unit/head_build.h"

#include "daemon/http/codings.h"
#include "daemon/http/message_edit.h"

static unsigned
takes(const char *fields)
{
    struct head_build b;
    char text[256];

    snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s\n", fields);
    return http_codings(head_build(&b, text));
}

TEST(codings, that_a_client_takes_are_a_subset_of_br_and_gzip)
{
    CHECK_EQ(0, takes("X: y"));
    CHECK_EQ(0, takes("Accept-Encoding: identity, deflate, zstd"));
    CHECK_EQ(HTTP_TAKES_GZIP, takes("Accept-Encoding: deflate, GZip"));
    CHECK_EQ(HTTP_TAKES_GZIP, takes("Accept-Encoding: x-gzip;q=0.001"));
    CHECK_EQ(HTTP_TAKES_GZIP | HTTP_TAKES_BR, takes("Accept-Encoding: gzip, deflate, br, zstd"));
    CHECK_EQ(HTTP_TAKES_GZIP | HTTP_TAKES_BR, takes("Accept-Encoding: br\nAccept-Encoding: gzip"));
    CHECK_EQ(HTTP_TAKES_BR, takes("Accept-Encoding: gzip;q=0, br"));
    CHECK_EQ(HTTP_TAKES_BR, takes("Accept-Encoding: gzip; Q=0.000 , br ; q=1.0"));
    CHECK_EQ(HTTP_TAKES_BR, takes("Accept-Encoding: *, gzip;q=0"));
    CHECK_EQ(0, takes("Accept-Encoding: *;q=0"));
    CHECK_EQ(HTTP_TAKES_GZIP, takes("Accept-Encoding: *;q=0, gzip"));
    CHECK_EQ(0, takes("Accept-Encoding: gzip;q=, br;q=x, xgzip, gzipx"));
}

static unsigned
forms(const char *fields)
{
    struct head_build b;
    char text[256];
    struct http_message *h;
    unsigned found;

    snprintf(text, sizeof(text), "GET / HTTP/1.1\n%s\n", fields);
    h = head_build(&b, text);
    found = http_forms(h);
    CHECK_EQ(found, http_forms(h)); /* remembered, or found anew */
    return found & ~(unsigned)HTTP_FORMS_KNOWN;
}

TEST(codings, a_form_is_one_that_the_client_takes_with_no_less_weight_than_gzip)
{
    const unsigned gzip = HTTP_FORM_GZIP, br = HTTP_FORM_BR, zstd = HTTP_FORM_ZSTD;

    CHECK_EQ(0, forms("X: y"));
    CHECK_EQ(0, forms("Accept-Encoding: identity"));
    CHECK_EQ(gzip, forms("Accept-Encoding: gzip, deflate"));
    CHECK_EQ(gzip | br | zstd, forms("Accept-Encoding: gzip, deflate, br, zstd"));
    CHECK_EQ(gzip | br | zstd, forms("Accept-Encoding: *"));
    CHECK_EQ(gzip, forms("Accept-Encoding: gzip, br;q=0.9, zstd;q=0.999"));
    CHECK_EQ(gzip | br, forms("Accept-Encoding: gzip;q=0.5, br;q=0.500, zstd;q=0.4"));
    CHECK_EQ(br, forms("Accept-Encoding: br"));
    CHECK_EQ(br, forms("Accept-Encoding: br;q=0.001, gzip;q=0"));
    CHECK_EQ(zstd, forms("Accept-Encoding: *;q=0, zstd"));
    CHECK_EQ(br | zstd, forms("Accept-Encoding: *;q=0.1, gzip;q=0"));
    CHECK_EQ(gzip, forms("Accept-Encoding: gzip\nAccept-Encoding: br;q=0.2"));
    CHECK_EQ(0, forms("Accept-Encoding: br;q=0, br, gzip;q=2x, zstd;q=1.2345"));
}

TEST(codings, forms_are_found_again_when_the_policy_changes_the_field)
{
    struct head_build b;
    struct message_edit e;
    struct arena_pool pool;
    struct arena arena;
    struct http_message *h = head_build(&b, "GET / HTTP/1.1\nAccept-Encoding: br\n");
    const struct slice name = SLICE_LIT("Accept-Encoding");

    arena_pool_init(&pool, 4, NULL);
    arena_init(&arena, &pool);
    h->forms = (uint8_t)(http_forms(h) & 15u);
    CHECK_EQ(0, message_edit_init(&e, h, &arena, 64));
    CHECK_EQ(HTTP_FORM_BR | HTTP_FORMS_KNOWN, http_forms(&e.head));
    CHECK_EQ(0, message_edit_set(&e, name, HTTP_F_ACCEPT_ENCODING, SLICE_LIT("gzip")));
    CHECK_EQ(HTTP_FORM_GZIP | HTTP_FORMS_KNOWN, http_forms(&e.head));
    CHECK_EQ(1, message_edit_unset(&e, name, HTTP_F_ACCEPT_ENCODING));
    CHECK_EQ(HTTP_FORMS_KNOWN, http_forms(&e.head));
    CHECK_EQ(0, message_edit_add(&e, name, HTTP_F_ACCEPT_ENCODING, SLICE_LIT("zstd")));
    CHECK_EQ(HTTP_FORM_ZSTD | HTTP_FORMS_KNOWN, http_forms(&e.head));
    arena_fini(&arena);
    arena_pool_fini(&pool);
}

TEST_MAIN(TEST_ENTRY(codings, that_a_client_takes_are_a_subset_of_br_and_gzip),
    TEST_ENTRY(codings, a_form_is_one_that_the_client_takes_with_no_less_weight_than_gzip),
    TEST_ENTRY(codings, forms_are_found_again_when_the_policy_changes_the_field))
