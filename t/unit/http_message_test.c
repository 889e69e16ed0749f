/* http_message_test.c -- names to numbers, and finding fields. */
#include "t/unit/test.h"

#include <ctype.h>
#include <stdio.h>

#include "t/unit/head_build.h"

TEST(head, every_name_of_the_table_is_found_in_any_case)
{
    char name[64];
    unsigned id;
    size_t i, len;

    for (id = 1; id < HTTP_F_COUNT; id++) {
        snprintf(name, sizeof(name), "%s", http_field_name((enum http_field_id)id));
        len = strlen(name);
        CHECK_EQ(id, http_field_id(name, len));
        for (i = 0; i < len; i++)
            name[i] = (char)toupper((unsigned char)name[i]);
        CHECK_EQ(id, http_field_id(name, len));
        for (i = 0; i < len; i++)
            name[i] = (char)tolower((unsigned char)name[i]);
        CHECK_EQ(id, http_field_id(name, len));
    }
}

TEST(head, a_name_with_any_other_byte_is_another_name)
{
    char name[64];
    unsigned id, c;
    size_t i, len;

    for (id = 1; id < HTTP_F_COUNT; id++) {
        len = strlen(http_field_name((enum http_field_id)id));
        for (i = 0; i < len; i++) {
            for (c = 0; c < 256; c++) {
                memcpy(name, http_field_name((enum http_field_id)id), len);
                if (tolower((int)c) == tolower((unsigned char)name[i]))
                    continue;
                name[i] = (char)c;
                CHECK(http_field_id(name, len) != id);
            }
        }
    }
    CHECK_EQ(HTTP_F_OTHER, http_field_id("", 0));
    CHECK_EQ(HTTP_F_OTHER, http_field_id("x", 1));
    CHECK_EQ(HTTP_F_OTHER, http_field_id("Transfer_Encoding", 17));
    memset(name, 'a', sizeof(name));
    CHECK_EQ(HTTP_F_OTHER, http_field_id(name, sizeof(name)));
}

TEST(head, methods_are_case_sensitive)
{
    unsigned m;

    for (m = 1; m < HTTP_M_COUNT; m++)
        CHECK_EQ(m, http_method_id(slice_str(http_method_name((enum http_method)m))));
    CHECK_EQ(HTTP_M_OTHER, http_method_id(SLICE_LIT("gET")));
    CHECK_EQ(HTTP_M_OTHER, http_method_id(SLICE_LIT("")));
    CHECK(http_method_is_safe(HTTP_M_HEAD) && !http_method_is_safe(HTTP_M_POST));
    CHECK(http_method_is_idempotent(HTTP_M_PUT) && !http_method_is_idempotent(HTTP_M_PATCH));
}

TEST(head, fields_are_found_in_order_and_only_a_single_one_is_got)
{
    struct head_build b;
    struct http_message *h =
        head_build(&b, "GET / HTTP/1.1\nVary: a\nFoo: 1\nvary: b\nfOO: 2\nAge: 3\n");
    const struct http_field *f;

    f = http_find(h, HTTP_F_VARY, NULL);
    CHECK(slice_eq(http_value(h, f), SLICE_LIT("a")));
    f = http_find(h, HTTP_F_VARY, f);
    CHECK(slice_eq(http_value(h, f), SLICE_LIT("b")));
    CHECK(http_find(h, HTTP_F_VARY, f) == NULL);
    f = http_find_name(h, SLICE_LIT("FOO"), NULL);
    CHECK(slice_eq(http_value(h, f), SLICE_LIT("1")));
    f = http_find_name(h, SLICE_LIT("FOO"), f);
    CHECK(slice_eq(http_value(h, f), SLICE_LIT("2")));
    CHECK(http_find_name(h, SLICE_LIT("AGE"), NULL) == http_find(h, HTTP_F_AGE, NULL));
    CHECK(http_get_one(h, HTTP_F_VARY).ptr == NULL);
    CHECK(http_get_one(h, HTTP_F_DATE).ptr == NULL);
    CHECK(slice_eq(http_get_one(h, HTTP_F_AGE), SLICE_LIT("3")));
}

TEST(head, reasons_are_those_of_the_registry)
{
    CHECK_STR("Continue", http_reason(100));
    CHECK_STR("OK", http_reason(200));
    CHECK_STR("IM Used", http_reason(226));
    CHECK_STR("Permanent Redirect", http_reason(308));
    CHECK_STR("Misdirected Request", http_reason(421));
    CHECK_STR("Unavailable For Legal Reasons", http_reason(451));
    CHECK_STR("Network Authentication Required", http_reason(511));
    CHECK_STR("Unknown", http_reason(0));
    CHECK_STR("Unknown", http_reason(418));
    CHECK_STR("Unknown", http_reason(599));
    CHECK_STR("Unknown", http_reason(65535));
}

TEST_MAIN(TEST_ENTRY(head, every_name_of_the_table_is_found_in_any_case),
    TEST_ENTRY(head, a_name_with_any_other_byte_is_another_name),
    TEST_ENTRY(head, methods_are_case_sensitive),
    TEST_ENTRY(head, fields_are_found_in_order_and_only_a_single_one_is_got),
    TEST_ENTRY(head, reasons_are_those_of_the_registry))
