/* log_filter_test.c -- which requests and records a filter takes, and what is wrong with one. */
#include "t/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/shm/log_filter.h"

static struct shmlog_req
some_req(void)
{
    return (struct shmlog_req){
        .fixed = {.status = 404,
            .flags = SHMLOG_REQ_MISS,
            .addr = {[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 7}},
        .line = SLICE_LIT("GET /a/b.css?x=1"),
        .host = SLICE_LIT("www.example.com"),
    };
}

/* Does one condition take the request above? */
static bool
takes(const char *name, const char *text)
{
    struct shmlog_req r = some_req();
    struct log_filter f = {.url = NULL};
    char why[256] = "";
    bool taken;

    CHECK_EQ(0, log_filter_add(&f, name, text, why, sizeof(why)));
    CHECK(f.by_request);
    taken = log_filter_takes(&f, &r);
    log_filter_fini(&f);
    return taken;
}

TEST(log_filter, conditions_choose)
{
    static const struct {
        const char *name, *text;
        bool takes;
    } rows[] = {{"url", "/a/b", true}, {"url", "example.com/a", true}, {"url", "/c.css", false},
        {"url", "/\\.css\\?/", true}, {"url", "/^www/", true}, {"url", "/^/a/", true},
        {"url", "/^/b/", false}, {"status", "404", true}, {"status", "4xx", true},
        {"status", "4XX", true}, {"status", "400-404", true}, {"status", "405-599", false},
        {"status", "200,404", true}, {"status", "5xx,200", false}, {"client", "192.0.2.7", true},
        {"client", "192.0.2.6", false}, {"client", "192.0.2.4/30", true},
        {"client", "192.0.2.8/29", false}, {"client", "0.0.0.0/0", true}, {"client", "::/0", true},
        {"client", "2001:db8::/32", false}, {"client", "unix", false}, {"cache", "miss", true},
        {"cache", "hit", false}, {"cache", "hit,miss", true},
        {"cache", "hit-for-miss,pass", false}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (takes(rows[i].name, rows[i].text) != rows[i].takes)
            fail_msg("%s %s", rows[i].name, rows[i].text);
}

TEST(log_filter, all_conditions_must_hold)
{
    struct shmlog_req r = some_req();
    struct log_filter f = {.url = NULL};
    char why[256];

    CHECK(log_filter_takes(&f, &r) && !f.by_request);
    CHECK_EQ(0, log_filter_add(&f, "status", "404", why, sizeof(why)));
    CHECK_EQ(0, log_filter_add(&f, "cache", "miss", why, sizeof(why)));
    CHECK(log_filter_takes(&f, &r));
    CHECK_EQ(0, log_filter_add(&f, "url", "nowhere", why, sizeof(why)));
    CHECK(!log_filter_takes(&f, &r));
}

/* Of two the first, or the last, would be left out without a word. */
TEST(log_filter, a_second_url_or_client_is_refused)
{
    static const struct {
        const char *name, *first, *second;
    } rows[] = {
        {"url", "/\\.css/", "nowhere"}, {"url", "nowhere", "/a/"}, {"client", "unix", "192.0.2.7"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct log_filter f = {.url = NULL};
        char why[256] = "";

        CHECK_EQ(0, log_filter_add(&f, rows[i].name, rows[i].first, why, sizeof(why)));
        CHECK_EQ(TERR_CONFIG, log_filter_add(&f, rows[i].name, rows[i].second, why, sizeof(why)));
        CHECK(strstr(why, "once") != NULL);
        log_filter_fini(&f);
    }
}

TEST(log_filter, a_unix_socket_is_an_address_of_its_own)
{
    struct shmlog_req r = some_req();
    struct log_filter f = {.url = NULL};
    char why[256];

    CHECK_EQ(0, log_filter_add(&f, "client", "unix", why, sizeof(why)));
    CHECK(!log_filter_takes(&f, &r));
    memset(r.fixed.addr, 0, sizeof(r.fixed.addr));
    CHECK(log_filter_takes(&f, &r));
}

TEST(log_filter, tags_are_chosen_by_name)
{
    struct log_filter f = {.url = NULL};
    char why[256];

    CHECK(log_filter_takes_tag(&f, SHMLOG_ReqURL) && log_filter_takes_tag(&f, 60000));
    CHECK_EQ(0, log_filter_add(&f, "tag", "requrl,VCL_Log", why, sizeof(why)));
    CHECK(log_filter_takes_tag(&f, SHMLOG_ReqURL) && log_filter_takes_tag(&f, SHMLOG_VCL_Log));
    CHECK(!log_filter_takes_tag(&f, SHMLOG_ReqHeader) && !log_filter_takes_tag(&f, 60000));
    CHECK(!f.by_request);
}

TEST(log_filter, what_is_wrong_is_told)
{
    static const struct {
        const char *name, *text, *why;
    } rows[] = {{"status", "", "as in 404"}, {"status", "40x", "as in 404"},
        {"status", "4040", "as in 404"}, {"status", "500-400", "as in 404"},
        {"status", "404,", "'' is no status"}, {"status", "200,9xx", "'9xx' is no status"},
        {"status", "0xx", "1xx to 5xx"}, {"status", "600", "100 to 599"},
        {"status", "99", "100 to 599"}, {"status", "500-999", "100 to 599"},
        {"status", "099-200", "100 to 599"}, {"client", "192.0.2", "192.0.2.0/24"},
        {"client", "192.0.2.0/33", "192.0.2.0/24"}, {"client", "::/129", "192.0.2.0/24"},
        {"client", "unix/3", "or unix"}, {"client", "1.2.3.4/", "or unix"},
        {"client", "1.2.3.4/x", "or unix"}, {"url", "/a(/", "at character"},
        {"tag", "ReqHedder", "no tag is called 'ReqHedder'"}, {"cache", "passed", "pass, pipe"},
        {"status", "200,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx,2xx",
            "at most 16"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct log_filter f = {.url = NULL};
        char why[256] = "";

        CHECK_EQ(TERR_CONFIG, log_filter_add(&f, rows[i].name, rows[i].text, why, sizeof(why)));
        if (strstr(why, rows[i].why) == NULL)
            fail_msg("%s %s: %s", rows[i].name, rows[i].text, why);
        log_filter_fini(&f);
    }
    CHECK_EQ(TERR_NOTFOUND,
        log_filter_add(&(struct log_filter){.url = NULL}, "size", "1", (char[8]){""}, 8));
}

TEST_MAIN(TEST_ENTRY(log_filter, conditions_choose),
    TEST_ENTRY(log_filter, all_conditions_must_hold),
    TEST_ENTRY(log_filter, a_second_url_or_client_is_refused),
    TEST_ENTRY(log_filter, a_unix_socket_is_an_address_of_its_own),
    TEST_ENTRY(log_filter, tags_are_chosen_by_name), TEST_ENTRY(log_filter, what_is_wrong_is_told))
