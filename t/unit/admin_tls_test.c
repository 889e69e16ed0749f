/* admin_tls_test.c -- what the admin listener says of certificates. */
#include "t/unit/admin_fixture.h"

#define H " HTTP/1.1\nHost: localhost:6082"

TEST(admin, certificates_are_told_in_figures)
{
    struct ask *a;
    json_t *o, *list;

    world_open("{}");
    a = ask_new("GET /metrics" H, NULL);
    ask_run(a);
#define L "{listener=\"a\\\"b\",address=\"127.0.0.1:443\"} "
    CHECK(strstr(a->out, "\ntarn_tls_certificates" L "2\n") != NULL);
    CHECK(strstr(a->out, "\ntarn_tls_certificates_parsed" L "1\n") != NULL);
    CHECK(strstr(a->out, "\ntarn_tls_certificate_expiry_seconds" L "-7\n") != NULL);
    CHECK(strstr(a->out, "\ntarn_tls_certificate_parse_failures_total" L "4\n") != NULL);
    CHECK(strstr(a->out, "\ntarn_tls_reload_failures_total" L "6\n") != NULL);
#undef L
    /* Without a certificate there is no date. */
    CHECK(strstr(a->out, "tarn_tls_certificate_expiry_seconds{listener=\"new\"") == NULL);
    CHECK(strstr(a->out, "tarn_tls_certificates{listener=\"new\"") != NULL);
    ask_free(&a);
    o = answer("GET /v1/tls/summary" H, NULL, 200);
    list = json_object_get(o, "listeners");
    CHECK_EQ(2, json_array_size(list));
    CHECK_STR(
        "/c/?.pem", json_string_value(json_object_get(json_array_get(list, 0), "soonest_file")));
    CHECK(json_is_null(json_object_get(json_array_get(list, 1), "soonest")));
    json_decref(o);
    o = answer("GET /v1/tls?limit=17" H, NULL, 200);
    list = json_object_get(o, "listeners");
    CHECK_EQ(17, json_integer_value(json_object_get(json_array_get(list, 0), "most")));
    json_decref(o);
    json_decref(answer("GET /v1/tls?limit=0" H, NULL, 400));
    expect("POST /v1/tls/reload" H, NULL, 422, "error", "bad");
    world_close();
}

TEST_MAIN(TEST_ENTRY(admin, certificates_are_told_in_figures))
