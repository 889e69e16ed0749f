/* h2_memo_test.c -- field blocks known again: what is said of one is what decoding it gave. */
#include "t/unit/test.h"

#include <nghttp2/nghttp2.h>

#include "daemon/h2/h2_memo.h"

static uint64_t seed = 1;

static unsigned
below(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

static nghttp2_hd_deflater *deflater;

/* Only read from. */
static nghttp2_nv
field_of(const char *name, const char *value)
{
    nghttp2_nv nv = {.namelen = strlen(name), .valuelen = strlen(value)};

    memcpy(&nv.name, &name, sizeof(name));
    memcpy(&nv.value, &value, sizeof(value));
    return nv;
}

/* A block of a request as nghttp2's clients write it. */
static size_t
block_of(const char *path, const char *name, const char *value, uint8_t *out, size_t room)
{
    nghttp2_nv nv[] = {field_of(":method", "GET"), field_of(":path", path),
        field_of(":scheme", "http"), field_of(":authority", "a.test"), field_of(name, value)};
    ssize_t n = nghttp2_hd_deflate_hd(deflater, out, room, nv, sizeof(nv) / sizeof(nv[0]));

    CHECK(n > 0);
    return (size_t)n;
}

static void
a_string_of_short_codes_is_read_as_nghttp2_wrote_it(void **state)
{
    /* RFC 7541 B: these have codes of more than eight bits. */
    static const char longer[] = "!\"#$'()+<>?@[\\]^`{|}~\x80\xff";
    unsigned refused = 0;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        char path[80], got[200];
        uint8_t block[300];
        unsigned len = 2 + below(sizeof(path) - 3); /* "/" is in the static table */
        struct h2_scan scan;
        int n;

        path[0] = '/';
        for (unsigned k = 1; k < len; k++)
            path[k] = (char)(i % 4 == 0 ? 1 + below(255) : 33 + below(94));
        path[len] = '\0';
        CHECK(h2_scan((char *)block, block_of(path, "a", "b", block, sizeof(block)), &scan));
        CHECK(scan.path.ptr != NULL);
        if (!scan.path_is_huffman) {
            CHECK_EQ(len, scan.path.len);
            continue;
        }
        n = h2_huffman_short(scan.path, got);
        if (n < 0) {
            bool has_longer = false;

            for (unsigned k = 0; k < len; k++)
                has_longer = has_longer || path[k] < 32 || strchr(longer, path[k]) != NULL;
            CHECK(has_longer);
            refused++;
            continue;
        }
        CHECK_EQ(len, n);
        CHECK(memcmp(path, got, len) == 0);
    }
    CHECK(refused > 1000 && refused < 19000);
}

static void
padding_that_is_none_is_refused(void **state)
{
    char got[16];

    (void)state;
    CHECK_EQ(1, h2_huffman_short(slice_of("\x1f", 1), got)); /* 'a', and 111 */
    CHECK(got[0] == 'a');
    CHECK_EQ(-1, h2_huffman_short(slice_of("\x18", 1), got));     /* 000 */
    CHECK_EQ(-1, h2_huffman_short(slice_of("\x1f\xff", 2), got)); /* eleven ones */
    CHECK_EQ(0, h2_huffman_short(slice_of("", 0), got));
}

static void
a_block_that_ends_inside_is_not_whole(void **state)
{
    uint8_t block[300];
    struct h2_scan scan;
    size_t len = block_of("/some/path", "user-agent", "an agent", block, sizeof(block));
    unsigned whole = 0;

    (void)state;
    for (size_t n = 0; n < len; n++)
        whole += h2_scan((char *)block, n, &scan);
    CHECK(whole >= 1 && whole <= 6); /* between two fields */
    CHECK(h2_scan((char *)block, len, &scan));
    /* RFC 7541 5.1: a number that does not end, and one that is too large */
    CHECK(!h2_scan("\xff\x80\x80\x80\x80\x80\x80\x01", 8, &scan));
    CHECK(!h2_scan("\x7f\xff\xff\xff\xff\xff\xff\xff", 8, &scan));
    CHECK(!h2_scan("\x04\xff\xff\xff\xff\x0f/", 7, &scan));
}

/* The path is a reference then, and nothing of the block differs. */
static void
a_path_of_the_static_table_is_known_too(void **state)
{
    struct h2_memo *memo = h2_memo_new();
    struct http_field fields[8] = {{0}}, more[8];
    struct http_message m = {.base = "/", .fields = fields, .nfields = 1, .target_len = 1};
    char found[H2_MEMO_TEXT];
    struct http_message other = {.fields = more, .max_fields = 8};
    struct h2_priority p = {0};
    uint8_t block[300];
    struct h2_scan scan;
    size_t len = block_of("/", "user-agent", "agent", block, sizeof(block));

    (void)state;
    len = block_of("/", "user-agent", "agent", block, sizeof(block));
    CHECK(h2_scan((char *)block, len, &scan));
    CHECK(scan.path.ptr == NULL);
    h2_memo_note(memo, 1, &scan, 1, &m, p);
    h2_memo_note(memo, 1, &scan, 1, &m, p);
    CHECK_EQ(1, h2_memo_find(memo, 1, &scan, found, &other, &p));
    CHECK_EQ(1, other.target_len);
    CHECK(found[other.target_off] == '/');
    h2_memo_free(&memo);
}

static void
set_head(struct http_message *m, struct http_field *fields, char *text)
{
    memset(m, 0, sizeof(*m));
    m->base = text;
    m->fields = fields;
    m->max_fields = 8;
}

static void
a_block_is_known_from_the_third_time_on_in_its_state_alone(void **state)
{
    struct h2_memo *memo = h2_memo_new();
    struct http_field fields[8] = {{.name_off = 1, .name_len = 2, .value_off = 3, .value_len = 4}};
    char text[H2_MEMO_TEXT] = "text of the head", found[H2_MEMO_TEXT];
    struct http_field more[8];
    struct http_message m, other;
    struct h2_priority p = {.urgency = 5, .incremental = true}, q = {0};
    uint8_t first[300], block[300];
    struct h2_scan scan;
    uint64_t last = 0, now;
    size_t len;

    (void)state;
    CHECK(memo != NULL);
    set_head(&m, fields, text);
    m.nfields = 1;
    m.method = HTTP_M_GET;
    len = block_of("/one", "user-agent", "agent", first, sizeof(first));
    CHECK(h2_scan((char *)first, len, &scan));
    CHECK(scan.changes);
    now = h2_memo_next(memo, 0, scan.block, &last);
    CHECK(now != 0);
    CHECK_EQ(now, h2_memo_next(memo, 0, scan.block, &last)); /* another connection */
    CHECK(h2_memo_next(memo, now, scan.block, &last) != now);
    set_head(&other, more, found);
    for (unsigned i = 0; i < 3; i++) {
        len = block_of(
            i == 2 ? "/another/path" : "/two", "user-agent", "agent", block, sizeof(block));
        CHECK(h2_scan((char *)block, len, &scan));
        CHECK(!scan.changes);
        if (i < 2) {
            CHECK_EQ(0, h2_memo_find(memo, now, &scan, found, &other, &q));
            h2_memo_note(memo, now, &scan, 16, &m, p);
        }
    }
    CHECK_EQ(0, h2_memo_find(memo, now + 100, &scan, found, &other, &q));
    CHECK_EQ(16, h2_memo_find(memo, now, &scan, found, &other, &q));
    CHECK(memcmp(found, text, 16) == 0);
    CHECK_EQ(1, other.nfields);
    CHECK_EQ(4, other.fields[0].value_len);
    CHECK_EQ(5, q.urgency);
    CHECK(q.incremental);
    other.max_fields = 0; /* a smaller limit than when it was kept */
    CHECK_EQ(0, h2_memo_find(memo, now, &scan, found, &other, &q));
    h2_memo_free(&memo);
}

static void
what_concerns_one_message_is_not_kept(void **state)
{
    struct h2_memo *memo = h2_memo_new();
    struct http_field fields[8];
    char text[16] = "";
    struct http_message m;
    uint8_t block[300];
    struct h2_scan scan;
    struct h2_priority p = {0};
    size_t len;

    (void)state;
    set_head(&m, fields, text);
    m.present = HTTP_BIT(HTTP_F_CONTENT_LENGTH);
    block_of("/one", "user-agent", "agent", block, sizeof(block));
    len = block_of("/two", "user-agent", "agent", block, sizeof(block));
    CHECK(h2_scan((char *)block, len, &scan));
    for (unsigned i = 0; i < 3; i++)
        h2_memo_note(memo, 1, &scan, 10, &m, p);
    CHECK_EQ(0, h2_memo_find(memo, 1, &scan, text, &m, &p));
    h2_memo_free(&memo);
}

static int
setup(void **state)
{
    (void)state;
    return nghttp2_hd_deflate_new(&deflater, 4096);
}

static int
teardown(void **state)
{
    (void)state;
    nghttp2_hd_deflate_del(deflater);
    return 0;
}

#define WITH_DEFLATER(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DEFLATER(a_string_of_short_codes_is_read_as_nghttp2_wrote_it),
        WITH_DEFLATER(padding_that_is_none_is_refused),
        WITH_DEFLATER(a_block_that_ends_inside_is_not_whole),
        WITH_DEFLATER(a_block_is_known_from_the_third_time_on_in_its_state_alone),
        WITH_DEFLATER(a_path_of_the_static_table_is_known_too),
        WITH_DEFLATER(what_concerns_one_message_is_not_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
