/* admin_test.c -- the admin listener's answers. */
#include "t/unit/admin_fixture.h"

#define H " HTTP/1.1\nHost: localhost:6082"

TEST(admin, a_path_that_is_not_there_is_answered_with_those_that_are)
{
    json_t *o;
    unsigned n = 0;

    world_open("{}");
    o = answer("GET /v1/nothing" H, NULL, 404);
    CHECK_STR("there is nothing here", json_string_value(json_object_get(o, "error")));
#define X(method, path, handler, asks, doc) n++;
    ADMIN_ROUTE_TABLE(X)
#undef X
    CHECK_EQ(n, json_array_size(json_object_get(o, "routes")));
    json_decref(o);
    o = answer("GET /v1" H, NULL, 200);
    CHECK_EQ(n, json_array_size(json_object_get(o, "routes")));
    json_decref(o);
    json_decref(answer("GET /v1/status/" H, NULL, 404));
    json_decref(answer("GET /v1/policies/" H, NULL, 404));
    json_decref(answer("PUT /v1/backends//health" H, "{}", 404));
    json_decref(answer("PUT /v1/backends/o/health/" H, "{}", 404));
    json_decref(answer("PUT /v1/parameters/%0a" H, "{}", 404));
    json_decref(answer("PUT /v1/parameters/%4" H, "{}", 404));
    json_decref(answer("PUT /v1/parameters/%" H, "{}", 404));
    json_decref(answer("PUT /v1/parameters/%zz" H, "{}", 404));
    expect("GET /v1/why?url=http://a/%62%20&header=A:%20b" H, NULL, 200, "url", "http://a/b ");
    expect("GET /v1/why?header=A:%20b&url=/c" H, NULL, 200, "A", "b");
    expect("GET /v1/why?url=/c" H, NULL, 200, "url", "http://127.0.0.1:4711/c");
    expect("GET /v1/why?url=http://x/no" H, NULL, 400, "error", "no such url");
    expect("GET /v1/why" H, NULL, 400, "error", "say which url");
    expect("GET /v1/why?url=%6" H, NULL, 400, "error",
        "a % in the query has no two hexadecimal digits");
    expect("GET /v1/why?url=/&header=A" H, NULL, 400, "error",
        "'A' is no field: a name, a colon, a value");
    world_close();
}

TEST(admin, a_method_that_a_path_does_not_take_is_told_those_it_does)
{
    static const char *const rows[][2] = {
        {"DELETE /v1/status" H, "\r\nAllow: GET, HEAD\r\n"},
        {"BREW /v1/bans" H, "\r\nAllow: GET, HEAD, POST\r\n"},
        {"GET /v1/policies/active" H, "\r\nAllow: PUT, DELETE\r\n"},
    };

    world_open("{}");
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct ask *a = ask_new(rows[i][0], NULL);

        ask_run(a);
        CHECK_EQ(405, a->status);
        CHECK(strstr(a->block, rows[i][1]) != NULL);
        json_decref(ask_json(a));
        ask_free(&a);
    }
    world_close();
}

TEST(admin, head_has_the_length_of_get_and_no_body)
{
    struct ask *a;

    world_open("{}");
    a = ask_new("HEAD /v1/status?x" H, NULL);
    ask_run(a);
    CHECK_EQ(200, a->status);
    CHECK(a->bodyless);
    CHECK_EQ(0, a->out_len);
    ask_free(&a);
    world_close();
}

TEST(admin, status_says_what_is_bound_and_in_use)
{
    json_t *o, *listen;

    world_open("{}");
    o = answer("GET /v1/status" H, NULL, 200);
    CHECK_STR("running", json_string_value(json_object_get(o, "state")));
    CHECK_STR("boot", json_string_value(json_object_get(o, "policy")));
    CHECK_EQ(2, json_integer_value(json_object_get(o, "workers")));
    CHECK_EQ(7, json_integer_value(json_object_get(o, "connections")));
    listen = json_array_get(json_object_get(o, "listen"), 0);
    CHECK_STR("127.0.0.1:4711", json_string_value(json_object_get(listen, "address")));
    CHECK_STR("listen0", json_string_value(json_object_get(listen, "name")));
    json_decref(o);
    expect("GET /healthz" H, NULL, 200, "state", "running");
    expect("GET /readyz" H, NULL, 200, "state", "running");
    world.draining = true;
    expect("GET /healthz" H, NULL, 200, "state", "draining");
    expect("GET /readyz" H, NULL, 503, "state", "draining");
    world_close();
}

/* Who asks here comes by a Unix socket whose peer is not known. */
TEST(admin, who_may_look_need_not_be_allowed_to_change)
{
    static const struct {
        const char *allow;
        unsigned get, put;
    } rows[] = {
        {"{allow: {read: [unix]}}", 200, 403},
        {"{allow: {write: [unix]}}", 200, 400},
        {"{allow: {read: [10.0.0.0/8], write: ['user:0']}}", 403, 403},
        {"{allow: {}}", 403, 403},
        {"{}", 200, 400},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        world_open(rows[i].allow);
        json_decref(answer("GET /healthz" H, NULL, 200));
        json_decref(answer("GET /v1/status" H, NULL, rows[i].get));
        json_decref(answer("PUT /v1/parameters/max_restarts" H, "{}", rows[i].put));
        world_close();
    }
    world_open("{allow: {read: [unix]}}");
    expect("POST /v1/stop" H, NULL, 403, "error", "allow.write does not have unix");
    CHECK_EQ(0, world.stops);
    world_close();
}

TEST(admin, without_the_token_nothing_but_health_is_told)
{
    static const char *const wrong[] = {
        "GET /v1/status" H,
        "GET /v1/status" H "\nAuthorization: Bearer",
        "GET /v1/status" H "\nAuthorization: Bearer " TOKEN "f",
        "GET /v1/status" H "\nAuthorization: Bearer 0123456789abcde",
        "GET /v1/status" H "\nAuthorization: Bearer 0123456789abcdeF",
        "GET /v1/status" H "\nAuthorization: Basic " TOKEN,
        "GET /v1/status" H "\nAuthorization: Bearer " TOKEN "\nAuthorization: Bearer " TOKEN,
        "GET /v1/nothing" H,
        "GET /healthz/" H,
        "GET /v1/top" H,
    };

    world_open("{address: '127.0.0.1:0', token: " TOKEN "}");
    for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
        struct ask *a = ask_new(wrong[i], "never read");

        ask_run(a);
        CHECK_EQ(401, a->status);
        CHECK_EQ(0, a->body_at);
        CHECK(strstr(a->block, "\r\nWWW-Authenticate: Bearer realm=") != NULL);
        json_decref(ask_json(a));
        ask_free(&a);
    }
    json_decref(answer("GET /v1/status" H "\nAuthorization: Bearer " TOKEN, NULL, 200));
    json_decref(answer("GET /v1/status" H "\nAuthorization: bearer   " TOKEN, NULL, 200));
    json_decref(answer("GET /healthz" H, NULL, 200));
    json_decref(answer("GET /readyz" H, NULL, 200));
    world_close();
}

TEST(admin, another_sites_page_may_ask_nothing)
{
    world_open("{}");
    expect("POST /v1/stop" H "\nSec-Fetch-Site: cross-site", NULL, 403, "error",
        "another site's page may not ask this");
    json_decref(answer("GET /v1/status" H "\nSec-Fetch-Site: same-site", NULL, 403));
    json_decref(answer("GET /v1/status" H "\nSec-Fetch-Site: same-origin", NULL, 200));
    json_decref(answer("GET /v1/status" H "\nSec-Fetch-Site: none", NULL, 200));
    CHECK_EQ(0, world.stops);
    world_close();
}

/* DNS rebinding: the page's origin is its own name, which points here now; only Host tells. */
TEST(admin, dns_rebinding_is_refused_by_host_and_origin)
{
    static const struct {
        const char *fields;
        unsigned status;
    } rows[] = {
        {"Host: localhost", 200},
        {"Host: LOCALHOST.:6082", 200},
        {"Host: 127.0.0.1:6082", 200},
        {"Host: 192.0.2.1", 200},
        {"Host: [::1]:6082", 200},
        {"Host: tarn", 200},
        {"Host: ops.example.com:6082", 200},
        {"Host: intern", 200},
        {"Host: evil.test", 403},
        {"Host: evil.test:6082", 403},
        {"Host: localhost.evil.test", 403},
        {"Host: xlocalhost", 403},
        {"Host: 127.0.0.1.evil.test", 403},
        {"Host: ops.example.com.evil.test", 403},
        {"Host: ops.example", 403},
        {"Host: localhost:6082\nOrigin: http://localhost:6082", 200},
        {"Host: localhost\nOrigin: http://localhost:80", 200},
        {"Host: localhost\nOrigin: https://localhost", 200},
        {"Host: localhost:6082\nOrigin: http://localhost:6083", 403},
        {"Host: localhost:6082\nOrigin: http://evil.test", 403},
        {"Host: localhost:6082\nOrigin: null", 403},
        {"Host: localhost:6082\nOrigin: http://localhost:6082\nOrigin: http://evil.test", 403},
    };

    world_open("{names: [ops.example.com, intern]}");
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        char head[256];
        struct ask *a;

        snprintf(
            head, sizeof(head), "PUT /v1/parameters/max_restarts HTTP/1.1\n%s", rows[i].fields);
        a = ask_new(head, "{\"value\": 2}");
        ask_run(a);
        if (a->status != rows[i].status)
            print_error("%s: %u %s\n", rows[i].fields, a->status, a->out);
        CHECK_EQ(rows[i].status, a->status);
        CHECK_EQ(rows[i].status == 200, a->peer.admitted);
        ask_free(&a);
        snprintf(head, sizeof(head), "GET /healthz HTTP/1.1\n%s", rows[i].fields);
        json_decref(answer(head, NULL, 200));
    }
    CHECK_EQ(11, world.sets);
    world_close();
    world_open("{address: '127.0.0.1:0', token: " TOKEN "}");
    json_decref(answer(
        "GET /v1/status HTTP/1.1\nHost: evil.test\nAuthorization: Bearer " TOKEN, NULL, 200));
    json_decref(answer("GET /v1/status HTTP/1.1\nHost: a.test\nOrigin: http://evil.test\n"
                       "Authorization: Bearer " TOKEN,
        NULL, 403));
    world_close();
}

/* What has not shown the token has one request for its connection. */
TEST(admin, a_connection_without_the_token_ends_with_its_answer)
{
    static const struct {
        const char *head;
        unsigned status;
        bool stays;
    } rows[] = {
        {"GET /healthz" H, 200, false},
        {"GET /v1/status" H, 401, false},
        {"GET /v1/status" H "\nAuthorization: Bearer 0123456789abcdeg", 401, false},
        {"GET /healthz" H "\nAuthorization: Bearer " TOKEN, 200, true},
        {"GET /v1/status" H "\nAuthorization: Bearer " TOKEN, 200, true},
    };

    world_open("{address: '127.0.0.1:0', token: " TOKEN "}");
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct ask *a = ask_new(rows[i].head, NULL);

        ask_run(a);
        CHECK_EQ(rows[i].status, a->status);
        CHECK_EQ(rows[i].stays, a->peer.admitted);
        CHECK_EQ(rows[i].stays, !a->close);
        ask_free(&a);
    }
    world_close();
}

TEST(admin, the_page_comes_without_the_token_and_runs_nothing_but_its_own_script)
{
    char nonce[2][64] = {"", ""}, mark[160];

    world_open("{address: '127.0.0.1:0', token: " TOKEN "}");
    for (unsigned i = 0; i < 2; i++) {
        struct ask *a = ask_new("GET /" H "\nSec-Fetch-Site: cross-site", NULL);
        const char *csp;

        ask_run(a);
        CHECK_EQ(200, a->status);
        CHECK(strstr(a->block, "\r\nContent-Type: text/html; charset=utf-8\r\n") != NULL);
        csp =
            strstr(a->block, "\r\nContent-Security-Policy: default-src 'none'; style-src 'nonce-");
        CHECK(csp != NULL);
        CHECK_EQ(1, sscanf(strstr(csp, "script-src"), "script-src 'nonce-%32[0-9a-f]'", nonce[i]));
        snprintf(mark, sizeof(mark), "<script nonce=\"%s\">", nonce[i]);
        CHECK(strstr(a->out, mark) != NULL);
        snprintf(mark, sizeof(mark), "<style nonce=\"%s\">", nonce[i]);
        CHECK(strstr(a->out, mark) != NULL);
        CHECK(strstr(a->out, "@NONCE@") == NULL);
        CHECK(strstr(a->out, " style=\"") == NULL); /* it would be refused */
        CHECK(strstr(a->out, "</html>\n") != NULL);
        ask_free(&a);
    }
    CHECK_EQ(32, strlen(nonce[0]));
    CHECK(strcmp(nonce[0], nonce[1]) != 0);
    world_close();
}

TEST(admin, a_body_that_is_not_what_is_wanted_is_told_why)
{
    static const char *const rows[][2] = {
        {"", "the body is not JSON: line 1, column 0: '[' or '{' expected near "
             "end of file"},
        {"{", "the body is not JSON: line 1, column 1: string or '}' expected "
              "near end of file"},
        {"[]", "the body is not a JSON object"},
        {"{}", "the body has no member 'name'"},
        {"{\"name\": 1}", "the member 'name' must be text"},
        {"{\"name\": \"a\", \"nmae\": 1}", "unknown member 'nmae'"},
        {"{\"name\": \"a\", \"name\": \"b\"}",
            "the body is not JSON: line 1, column 20: duplicate object key near "
            "'\"name\"'"},
        {"{\"name\": \"\\u0000\"}", "the body is not JSON: line 1, column 17: "
                                    "\\u0000 is not allowed without "
                                    "JSON_ALLOW_NUL near '\"\\u0000\"'"},
    };

    world_open("{}");
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++)
        expect("PUT /v1/policies/active" H, rows[i][0], 400, "error", rows[i][1]);
    CHECK_STR("", said.used);
    world_close();
}

/* What was meant for the body does not go unheard. */
TEST(admin, a_change_takes_no_query_but_its_own)
{
    world_open("{}");
    expect(
        "POST /v1/purge?wait=all" H, "{\"url\": \"/\"}", 400, "hint", "in the body: see GET /v1");
    expect("PUT /v1/policies/active?name=a" H, "{\"name\": \"b\"}", 400, "error",
        "this takes nothing in the query, which is 'name=a'");
    CHECK_STR("", said.used);
    json_decref(answer("GET /v1/status?_=1" H, NULL, 200));
    world_close();
}

TEST(admin, a_body_has_a_bound)
{
    struct ask *a;

    world_open("{}");
    a = ask_new("PUT /v1/policies/big" H, "");
    a->body = NULL; /* blanks */
    a->body_len = ADMIN_BODY_MAX;
    ask_run(a);
    CHECK_EQ(201, a->status);
    ask_free(&a);
    a = ask_new("PUT /v1/policies/big" H, "");
    a->body = NULL;
    a->body_len = ADMIN_BODY_MAX + 1;
    ask_run(a);
    CHECK_EQ(413, a->status);
    CHECK(a->close);
    ask_free(&a);
    a = ask_new("PUT /v1/policies/big" H, "x");
    a->x.body_length = ADMIN_BODY_MAX + 1;
    ask_run(a);
    CHECK_EQ(413, a->status);
    CHECK_EQ(0, a->body_at); /* not even asked for */
    ask_free(&a);
    world_close();
}

TEST(admin, what_came_malformed_is_answered_and_the_connection_ends)
{
    struct ask *a;

    world_open("{token: " TOKEN "}");
    a = ask_new("GET / HTTP/1.1", NULL);
    a->x.err = TERR_SYNTAX;
    ask_run(a);
    CHECK_EQ(400, a->status);
    CHECK(a->close);
    json_decref(ask_json(a));
    ask_free(&a);
    world_close();
}

TEST(admin, a_slow_client_is_waited_for_and_one_that_left_is_forgotten)
{
    struct ask *a;

    world_open("{}");
    a = ask_new("PUT /v1/policies/p" H, "vcl 4.1; backend default none;");
    a->pieces = 1;
    a->takes = 3;
    ask_run(a);
    CHECK_EQ(201, a->status);
    CHECK_STR("p:vcl 4.1; backend default none;", said.loaded);
    json_decref(ask_json(a));
    ask_free(&a);

    a = ask_new("PUT /v1/policies/p" H, "vcl 4.1;"); /* gone in the midst of its request */
    a->pieces = 1;
    admin_start(world.admin, &a->x);
    CHECK(!a->released);
    a->x.gone = true;
    a->x.task->run(a->x.task);
    CHECK(a->released && a->status == 0);
    ask_free(&a);

    a = ask_new("GET /v1/status" H, NULL); /* and of its answer */
    a->takes = 1;
    admin_start(world.admin, &a->x);
    CHECK(!a->released && a->status == 200);
    a->x.gone = true;
    a->x.task->run(a->x.task);
    CHECK(a->released);
    ask_free(&a);
    world_close();
}

TEST(admin, a_policy_is_loaded_or_every_error_is_told)
{
    json_t *o, *e;

    world_open("{}");
    o = answer("PUT /v1/policies/site-1" H, "vcl 4.1;", 201);
    CHECK_STR("site-1", json_string_value(json_object_get(o, "name")));
    CHECK_EQ(1, json_array_size(json_object_get(o, "warnings")));
    CHECK_STR("site-1:vcl 4.1;", said.loaded);
    json_decref(o);
    said.err = TERR_CONFIG;
    o = answer("PUT /v1/policies/site-2" H, "vcl 4.1", 422);
    CHECK_STR("the policy has 1 error", json_string_value(json_object_get(o, "error")));
    e = json_array_get(json_object_get(o, "errors"), 0);
    CHECK_EQ(3, json_integer_value(json_object_get(e, "line")));
    CHECK_EQ(7, json_integer_value(json_object_get(e, "column")));
    CHECK_STR("expected ';'", json_string_value(json_object_get(e, "message")));
    CHECK_STR("end it with ';'", json_string_value(json_object_get(e, "hint")));
    CHECK_STR("? oops", json_string_value(json_object_get(e, "source"))); /* not UTF-8 */
    CHECK_EQ(1, json_array_size(json_object_get(o, "warnings")));
    json_decref(o);
    said.err = TERR_EXISTS;
    expect("PUT /v1/policies/site-1" H, "x", 409, "hint",
        "give it another name, or DELETE the old one first");
    said.err = TERR_SYNTAX;
    expect("PUT /v1/policies/1" H, "x", 400, "error", "'1' is no name");
    said.err = TERR_NOMEM;
    expect("PUT /v1/policies/a" H, "x", 503, "error", "a: out of memory");
    said.err = 0;
    expect("PUT /v1/policies/a" H, "", 400, "error", "the body is empty");
    expect("PUT /v1/policies/a" H, NULL, 400, "error", "the body is empty");
    world_close();
}

TEST(admin, policies_are_used_labelled_and_forgotten)
{
    json_t *o, *list;

    world_open("{}");
    o = answer("GET /v1/policies" H, NULL, 200);
    list = json_object_get(o, "policies");
    CHECK_EQ(2, json_array_size(list));
    CHECK_STR("active", json_string_value(json_object_get(json_array_get(list, 0), "state")));
    CHECK_STR("boot", json_string_value(json_object_get(json_array_get(list, 1), "label_of")));
    json_decref(o);
    expect("PUT /v1/policies/active" H, "{\"name\": \"a\"}", 200, "active", "a");
    CHECK_STR("a", said.used);
    expect("PUT /v1/labels/l%6F" H, "{\"name\": \"a\"}", 200, "label", "lo");
    CHECK_STR("lo=a", said.labelled);
    expect("DELETE /v1/labels/lo" H, NULL, 200, "discarded", "lo");
    expect("DELETE /v1/policies/a" H, NULL, 200, "discarded", "a");
    said.err = TERR_NOTFOUND;
    expect("DELETE /v1/policies/b" H, NULL, 404, "error", "no policy or label is named 'b'");
    expect(
        "PUT /v1/labels/l" H, "{\"name\": \"b\"}", 404, "error", "no policy or label is named 'b'");
    said.err = TERR_BUSY;
    expect("DELETE /v1/policies/a" H, NULL, 409, "error", "'a' is in use, or labelled");
    world_close();
}

TEST(admin, a_backends_health_is_shown_and_set)
{
    json_t *o, *b;

    world_open("{}");
    o = answer("GET /v1/backends" H, NULL, 200);
    b = json_array_get(json_object_get(o, "backends"), 0);
    CHECK_STR("o", json_string_value(json_object_get(b, "name")));
    CHECK_STR("127.0.0.1:9", json_string_value(json_object_get(b, "address")));
    CHECK_STR("auto", json_string_value(json_object_get(b, "health")));
    CHECK(json_is_true(json_object_get(b, "healthy")));
    CHECK(json_is_false(json_object_get(b, "ejected")));
    CHECK(json_is_integer(json_object_get(b, "number")));
    CHECK_EQ(0, json_integer_value(json_object_get(b, "load")));
    CHECK(json_is_null(json_object_get(b, "probe")));
    CHECK_STR("127.0.0.1", json_string_value(json_array_get(json_object_get(b, "addresses"), 0)));
    CHECK_EQ(0, json_array_size(json_object_get(o, "directors")));
    json_decref(o);
    o = answer("PUT /v1/backends/o/health" H, "{\"health\": \"sick\"}", 200);
    CHECK_STR("sick", json_string_value(json_object_get(o, "health")));
    CHECK(json_is_false(json_object_get(o, "healthy")));
    json_decref(o);
    expect("PUT /v1/backends/p/health" H, "{\"health\": \"sick\"}", 404, "error",
        "no backend is named 'p'");
    expect("PUT /v1/backends/o/health" H, "{\"health\": \"ill\"}", 400, "error",
        "'ill' is no state of a backend");
    world_close();
}

TEST(admin, parameters_are_shown_and_those_that_can_are_changed)
{
    json_t *o;

    world_open("{}");
    o = answer("GET /v1/parameters" H, NULL, 200);
    CHECK(json_array_size(json_object_get(o, "parameters")) > 30);
    json_decref(o);
    expect("PUT /v1/parameters/default_ttl" H, "{\"value\": \"2m\"}", 200, "value", "2m");
    CHECK_EQ(120000, world.params.default_ttl);
    expect("PUT /v1/parameters/max_restarts" H, "{\"value\": 7}", 200, "value", "7");
    expect("PUT /v1/parameters/http_cache_status" H, "{\"value\": false}", 200, "value", "off");
    CHECK_EQ(3, world.sets);
    expect("PUT /v1/parameters/max_restarts" H, "{\"value\": 7.5}", 400, "error",
        "max_restarts: '7.5' is not a whole number");
    expect("PUT /v1/parameters/default_ttl" H, "{\"value\": 2}", 400, "error",
        "default_ttl: '2' has no unit: write 2s for seconds or 2ms for "
        "milliseconds");
    expect("PUT /v1/parameters/default_ttl" H, "{\"value\": null}", 400, "error",
        "the member 'value' must be text, a number or a switch");
    expect(
        "PUT /v1/parameters/default_ttl" H, "{}", 400, "error", "the body has no member 'value'");
    expect("PUT /v1/parameters/listen_depth" H, "{\"value\": 1}", 409, "error",
        "listen_depth needs a restart");
    expect("PUT /v1/parameters/nothing" H, "{\"value\": 1}", 404, "error",
        "no parameter is named 'nothing'");
    CHECK_EQ(3, world.sets);
    world_close();
}

/* Counts how many lines of `text` begin with `start`. */
static unsigned
lines_with(const char *text, const char *start)
{
    unsigned n = 0;

    for (const char *p = text; (p = strstr(p, start)) != NULL; p += strlen(start))
        n += p == text || p[-1] == '\n';
    return n;
}

TEST(admin, memory_is_a_tree_of_what_is_charged)
{
    json_int_t total, heads;
    json_t *o;

    world_open("{}");
    storage_charge(world.storage, CHARGE_HEAD, 0, 700);
    o = answer("GET /v1/memory" H, NULL, 200);
    CHECK_EQ(0, json_unpack(o, "{s:{s:I, s:{s:{s:{s:I}}}}}", "total", "bytes", &total, "parts",
                    "content", "parts", "heads", &heads));
    json_decref(o);
    o = answer("GET /v1/counters" H, NULL, 200);
    CHECK_EQ(700, heads);
    CHECK_EQ(total, json_integer_value(json_object_get(o, "storage.used")));
    CHECK_EQ(total, json_integer_value(json_object_get(o, "memory.total")));
    CHECK_EQ(700, json_integer_value(json_object_get(o, "memory.content")));
    storage_charge(world.storage, CHARGE_HEAD, 700, 0);
    json_decref(o);
    world_close();
}

/* tarn_NAME, with a unit or not, with _total or not: as many samples as there should be of a name. */
static unsigned
samples_of(const char *text, const char *name)
{
    static const char *const ends[] = {" ", "_bytes ", "_total "};
    char line[160];
    unsigned n = 0;

    for (unsigned i = 0; i < ARRAY_LEN(ends); i++) {
        snprintf(line, sizeof(line), "tarn_%s%s", name, ends[i]);
        for (char *p = line; *p != '\0'; p++)
            *p = *p == '.' ? '_' : *p;
        n += lines_with(text, line);
    }
    return n;
}

TEST(admin, every_number_has_one_name_in_both_forms)
{
    struct ask *a;
    const char *name;
    json_t *o, *value;

    world_open("{}");
    counter_add(counters_worker(world.counters, 0), COUNTER_req_hit, 41);
    o = answer("GET /v1/counters" H, NULL, 200);
    CHECK_EQ(41, json_integer_value(json_object_get(o, "req.hit")));
    CHECK_EQ(1 << 20, json_integer_value(json_object_get(o, "storage.size")));
    a = ask_new("GET /metrics" H, NULL);
    ask_run(a);
    CHECK_EQ(200, a->status);
    CHECK(strstr(a->block, "\r\nContent-Type: text/plain; version=0.0.4") != NULL);
    CHECK(strstr(a->out, "\n# TYPE tarn_req_hit_total counter\ntarn_req_hit_total 41\n") != NULL);
    CHECK(strstr(a->out, "\n# TYPE tarn_storage_size_bytes gauge\n"
                         "tarn_storage_size_bytes 1048576\n") != NULL);
    json_object_foreach(o, name,
        value) if (strncmp(name, "memory.", 7) != 0 && strncmp(name, "responses.", 10) != 0)
        CHECK_EQ(1, samples_of(a->out, name));
    CHECK_EQ(11, lines_with(a->out, "tarn_responses_total{status_class=\"5xx\",result=\""));
    CHECK_EQ(1, lines_with(a->out, "tarn_memory_bytes{branch=\"content\",part=\"bodies\"} "));
    CHECK_EQ(lines_with(a->out, "# HELP "), lines_with(a->out, "# TYPE "));
    json_decref(o);
    ask_free(&a);
    world_close();
}

TEST(admin, durations_are_told_as_quantiles_and_as_cumulative_buckets)
{
    struct latency_set *set;
    json_int_t n, p50, from, to;
    struct ask *a;
    json_t *o;

    world_open("{}");
    set = latency_worker(world.latency, 1);
    for (unsigned i = 0; i < 100; i++)
        latency_add(&set->row[LATENCY_hit], 100);
    latency_add(&set->row[LATENCY_miss], 70000000);
    latency_tell(&set->row[LATENCY_lag], 2000);
    o = answer("GET /v1/latency" H, NULL, 200);
    CHECK_EQ(0, json_unpack(o, "{s:{s:{s:I, s:I, s:[[I,I]]}}}", "requests", "hit", "count", &n,
                    "p50_us", &p50, "buckets", &from, &to));
    CHECK_EQ(100, n);
    CHECK(p50 >= 96 && p50 < 112);
    CHECK_EQ(96, from);
    CHECK_EQ(112, to);
    CHECK_EQ(2, json_array_size(json_object_get(o, "lag")));
    CHECK_EQ(2000, json_integer_value(
                       json_object_get(json_array_get(json_object_get(o, "lag"), 1), "max_us")));
    json_decref(o);
    a = ask_new("GET /metrics" H, NULL);
    ask_run(a);
#define D "\ntarn_request_duration_seconds"
    CHECK(strstr(a->out, D "_bucket{result=\"hit\",le=\"0.000064\"} 0" D
                           "_bucket{result=\"hit\",le=\"0.000128\"} 100\n") != NULL);
    CHECK(strstr(a->out,
              D "_bucket{result=\"miss\",le=\"67.108864\"} 0" D
                "_bucket{result=\"miss\",le=\"+Inf\"} 1" D "_sum{result=\"miss\"} 70.000000" D
                "_count{result=\"miss\"} 1\n") != NULL);
#undef D
    CHECK(strstr(a->out, "\ntarn_worker_loop_lag_max_seconds{worker=\"1\"} 0.002000\n") != NULL);
    ask_free(&a);
    world_close();
}

static void
log_some(unsigned worker, const char *line, unsigned status, unsigned n)
{
    struct shmlog_req r = {.ids = {1, 0},
        .fixed = {.start_ms = world.loop.clock.wall_ms,
            .status = (uint16_t)status,
            .body_bytes = 100,
            .duration_us = 50,
            .flags = SHMLOG_REQ_HIT},
        .line = slice_str(line),
        .host = SLICE_LIT("h")};

    for (unsigned i = 0; i < n; i++)
        shmlog_req(world.logs[worker], &r);
}

static void
world_second(unsigned seconds)
{
    world.loop.clock.mono_ms += 1000 * (uint64_t)seconds;
    world.loop.clock.wall_ms += 1000 * (int64_t)seconds;
    timer_wheel_run(&world.loop.wheel, world.loop.clock.mono_ms);
    world_turn();
}

static double
top_real(const json_t *o, unsigned i, const char *member)
{
    return json_number_value(json_object_get(json_array_get(json_object_get(o, "top"), i), member));
}

TEST(admin, what_lies_back_counts_less_and_a_watch_ends_a_minute_after_the_last_question)
{
    json_t *o;

    world_open("{}");
    json_decref(answer("GET /v1/top" H, NULL, 200));
    log_some(0, "GET /a", 200, 60);
    log_some(1, "GET /b", 200, 20);
    world_second(1);
    o = answer("GET /v1/top" H, NULL, 200);
    CHECK_EQ(2, json_array_size(json_object_get(o, "top")));
    CHECK(top_real(o, 0, "requests_s") > 59 && top_real(o, 0, "requests_s") < 61);
    CHECK(top_real(o, 1, "bytes_s") > 1990 && top_real(o, 1, "bytes_s") < 2010);
    CHECK(top_real(o, 0, "share") > 0.749 && top_real(o, 0, "share") < 0.751);
    json_decref(o);
    world_second(30);
    log_some(1, "GET /b", 200, 30);
    world_second(1);
    o = answer("GET /v1/top?limit=1" H, NULL, 200);
    CHECK_EQ(
        1, json_array_size(json_object_get(o, "top"))); /* 20 x 0.36 + 30 is more than 60 x 0.36 */
    CHECK(top_real(o, 0, "share") > 0.6);
    json_decref(o);
    world_second(61);
    o = answer("GET /v1/top" H, NULL, 200); /* and another begins */
    CHECK_EQ(0, json_array_size(json_object_get(o, "top")));
    json_decref(o);
    world_close();
}

TEST(admin, a_log_that_is_faster_than_the_observer_is_told_as_a_sample)
{
    json_t *o;

    world_open("{}");
    json_decref(answer("GET /v1/top" H, NULL, 200));
    log_some(0, "GET /a", 200, 3000); /* several times the ring */
    world_second(1);
    o = answer("GET /v1/top" H, NULL, 200);
    CHECK(json_number_value(json_object_get(o, "seen")) > 0.02);
    CHECK(json_number_value(json_object_get(o, "seen")) < 0.5);
    CHECK(top_real(o, 0, "requests_s") > 2900 && top_real(o, 0, "requests_s") < 3100);
    json_decref(o);
    log_some(1, "GET /c", 503, 1);
    o = answer("GET /v1/errors" H, NULL, 200);
    CHECK_EQ(503, json_integer_value(
                      json_object_get(json_array_get(json_object_get(o, "errors"), 0), "status")));
    json_decref(o);
    world_close();
}

TEST(admin, the_index_is_shown_and_a_page_is_asked_for_properly)
{
    const char *limits = "limit must be a whole number from 1 to 1000";
    const char *cursors = "after must be a hexadecimal number from 0 to ffffffffffffffff";
    json_t *o;

    world_open("{}");
    rcu_join();
    o = answer("GET /v1/index" H, NULL, 200);
    CHECK_EQ(32, json_integer_value(json_object_get(o, "buckets")));
    CHECK_EQ(9, json_array_size(json_object_get(json_object_get(o, "occupancy"), "buckets")));
    CHECK(json_is_null(json_object_get(o, "negative"))); /* none is configured */
    json_decref(o);
    json_decref(answer("GET /v1/index/dump?limit=1000&after=8000000000000000" H, NULL, 200));
    expect("GET /v1/index/dump?limit=0" H, NULL, 400, "error", limits);
    expect("GET /v1/index/dump?limit=99999999999999999999999" H, NULL, 400, "error", limits);
    expect("GET /v1/index/dump?limit=1&after" H, NULL, 400, "error", cursors);
    expect("GET /v1/index/dump?after=x" H, NULL, 400, "error", cursors);
    expect("GET /v1/index/dump?a=1" H, NULL, 400, "error", "unknown argument 'a' in the query");
    rcu_leave();
    world_close();
}

TEST(admin, stop_is_answered_before_it_stops)
{
    struct ask *a;

    world_open("{}");
    json_decref(answer("GET /v1/stop" H, NULL, 405));
    a = ask_new("POST /v1/stop" H, NULL);
    admin_start(world.admin, &a->x);
    CHECK_EQ(200, a->status);
    CHECK_EQ(0, world.stops);
    a->x.done = true;
    a->x.task->run(a->x.task);
    CHECK(a->released);
    CHECK_EQ(1, world.stops);
    ask_free(&a);
    world_close();
}

TEST(admin, drain_is_answered_before_it_drains)
{
    struct ask *a;

    world_open("{}");
    a = ask_new("POST /v1/drain" H, NULL);
    admin_start(world.admin, &a->x);
    CHECK_EQ(200, a->status);
    CHECK_EQ(0, world.drains);
    a->x.done = true;
    a->x.task->run(a->x.task);
    CHECK_EQ(1, world.drains);
    CHECK_EQ(0, world.stops);
    ask_free(&a);
    world_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_ENTRY(admin, a_path_that_is_not_there_is_answered_with_those_that_are),
        TEST_ENTRY(admin, a_method_that_a_path_does_not_take_is_told_those_it_does),
        TEST_ENTRY(admin, head_has_the_length_of_get_and_no_body),
        TEST_ENTRY(admin, status_says_what_is_bound_and_in_use),
        TEST_ENTRY(admin, who_may_look_need_not_be_allowed_to_change),
        TEST_ENTRY(admin, without_the_token_nothing_but_health_is_told),
        TEST_ENTRY(admin, dns_rebinding_is_refused_by_host_and_origin),
        TEST_ENTRY(admin, a_connection_without_the_token_ends_with_its_answer),
        TEST_ENTRY(admin, another_sites_page_may_ask_nothing),
        TEST_ENTRY(admin, the_page_comes_without_the_token_and_runs_nothing_but_its_own_script),
        TEST_ENTRY(admin, a_body_that_is_not_what_is_wanted_is_told_why),
        TEST_ENTRY(admin, a_change_takes_no_query_but_its_own),
        TEST_ENTRY(admin, a_body_has_a_bound),
        TEST_ENTRY(admin, what_came_malformed_is_answered_and_the_connection_ends),
        TEST_ENTRY(admin, a_slow_client_is_waited_for_and_one_that_left_is_forgotten),
        TEST_ENTRY(admin, a_policy_is_loaded_or_every_error_is_told),
        TEST_ENTRY(admin, policies_are_used_labelled_and_forgotten),
        TEST_ENTRY(admin, a_backends_health_is_shown_and_set),
        TEST_ENTRY(admin, parameters_are_shown_and_those_that_can_are_changed),
        TEST_ENTRY(admin, memory_is_a_tree_of_what_is_charged),
        TEST_ENTRY(admin, every_number_has_one_name_in_both_forms),
        TEST_ENTRY(
            admin, what_lies_back_counts_less_and_a_watch_ends_a_minute_after_the_last_question),
        TEST_ENTRY(admin, a_log_that_is_faster_than_the_observer_is_told_as_a_sample),
        TEST_ENTRY(admin, durations_are_told_as_quantiles_and_as_cumulative_buckets),
        TEST_ENTRY(admin, the_index_is_shown_and_a_page_is_asked_for_properly),
        TEST_ENTRY(admin, stop_is_answered_before_it_stops),
        TEST_ENTRY(admin, drain_is_answered_before_it_drains),
    };

    rcu_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
