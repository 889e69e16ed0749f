/* hop_test.c -- the field by which a node of a fleet asks another, and the answer's. */
#include "daemon/proxy/hop.h"

#include <string.h>

#include "daemon/base/hex.h"
#include "daemon/base/obj.h"
#include "daemon/http/message_out.h"
#include "daemon/tls/digest.h"
#include "t/unit/test.h"

static struct peers_set
secrets(unsigned n)
{
    struct peers_set set = {.nsecrets = n};

    memset(set.secrets[0], 7, PEERS_SECRET);
    memset(set.secrets[1], 9, PEERS_SECRET);
    return set;
}

static const struct hop_question asked = {.fleet = {"shop", 4},
    .from = {"a", 1},
    .to = {"b", 1},
    .wants = {0xfedcba9876543210, 1795878041345, 3},
    .policy = 0x0123456789abcdef,
    .scheme = HTTP_SCHEME_HTTPS,
    .client = {"2001:db8::1", 11},
    .identity = {"joe", 3},
    .backend = {"images", 6},
    .key = {"\"x\0y", 4},
    .background = true};

/* A GET with this field `times` times, and another one. */
static struct http_message
message_with(struct arena *a, const char *host, const char *path, struct slice field,
    unsigned times, const char *name, const char *value)
{
    struct http_message m = {.base = NULL};
    struct message_out o = {.full = false};

    CHECK_EQ(0, message_out_begin(&o, &m, a, 8192, 8));
    message_out_request(&o, HTTP_M_GET, SLICE_LIT("GET"), slice_str(path), slice_str(host));
    if (name != NULL)
        message_out_field(&o, http_field_id(name, strlen(name)), slice_str(name), slice_str(value));
    for (unsigned i = 0; i < times; i++)
        message_out_field(&o, HTTP_F_OTHER, HOP_FIELD, field);
    message_out_field(&o, HTTP_F_COOKIE, SLICE_LIT("Cookie"), SLICE_LIT("behind=it"));
    CHECK_EQ(0, message_out_end(&o));
    return m;
}

static struct http_message
message(struct arena *a, const char *host, const char *path, struct slice field, unsigned times)
{
    return message_with(a, host, path, field, times, "Accept", "text/html");
}

/* As it is asked with such a message. */
static struct slice
signed_field(const struct peers_set *set, const char *host, const char *path, struct arena *a)
{
    struct slice field = hop_ask(&asked, a);
    struct http_message m;

    CHECK(field.ptr != NULL);
    m = message(a, host, path, field, 1);
    CHECK_EQ(0, hop_sign(&m, set));
    return http_value(&m, http_find_name(&m, HOP_FIELD, NULL));
}

TEST(hop, a_question_is_read_as_it_was_asked)
{
    struct arena_pool pool;
    struct arena a;
    struct peers_set set = secrets(1);
    struct hop_question q;
    struct hop_seal seal;
    struct http_message m;
    struct slice field, key;

    arena_pool_init(&pool, 4, NULL);
    arena_init(&a, &pool);
    field = signed_field(&set, "a.test", "/x?y", &a);
    m = message(&a, "a.test", "/x?y", field, 1);
    CHECK_EQ(HOP_GOOD, hop_read(&q, &seal, &set, &m));
    hop_keep_signed(&m);
    CHECK_EQ(1, m.nfields);
    CHECK(http_has(&m, HTTP_F_ACCEPT) && !http_has(&m, HTTP_F_COOKIE));
    CHECK(
        slice_eq(q.fleet, asked.fleet) && slice_eq(q.from, asked.from) && slice_eq(q.to, asked.to));
    CHECK(slice_eq(q.backend, asked.backend) && slice_eq(q.client, asked.client));
    CHECK(slice_eq(hop_unhexed(q.identity, &a), asked.identity));
    CHECK_EQ(asked.wants.engine, q.wants.engine);
    CHECK_EQ(asked.wants.ms, q.wants.ms);
    CHECK_EQ(asked.wants.seq, q.wants.seq);
    CHECK_EQ(asked.policy, q.policy);
    CHECK_EQ(HTTP_SCHEME_HTTPS, q.scheme);
    CHECK(q.background);
    CHECK(memcmp(seal.code, field.ptr + field.len - sizeof(seal.code), sizeof(seal.code)) == 0);
    CHECK(memcmp(seal.secret, set.secrets[0], PEERS_SECRET) == 0);
    key = hop_unhexed(q.key, &a);
    CHECK(slice_eq(key, asked.key));
    CHECK(hop_unhexed(SLICE_LIT("0g"), &a).ptr == NULL);
    CHECK(hop_unhexed(SLICE_LIT("123"), &a).ptr == NULL);
    arena_fini(&a);
    arena_pool_fini(&pool);
}

/* Each byte of it, the host, the path, another secret: none of them passes. */
TEST(hop, what_is_changed_on_its_way_is_not_signed)
{
    struct arena_pool pool;
    struct arena a;
    struct peers_set set = secrets(1), next = secrets(2), other = secrets(1);
    struct hop_question q;
    struct hop_seal seal;
    struct http_message m;
    static const struct {
        const char *name, *value;
        enum hop_refusal verdict;
    } fields[] = {{"Accept", "text/html", HOP_GOOD}, {"accept", "  text/html ", HOP_GOOD},
        {"Accept", "text/htm", HOP_UNSIGNED}, {"Accept", "text/html, x", HOP_UNSIGNED},
        {"Accepta", "text/html", HOP_UNSIGNED}, {"Cookie", "a=b", HOP_UNSIGNED},
        {NULL, NULL, HOP_UNSIGNED}, {"Connection", "close", HOP_UNSIGNED}};
    struct slice field;
    char text[1024];

    arena_pool_init(&pool, 4, NULL);
    arena_init(&a, &pool);
    field = signed_field(&set, "a.test", "/x", &a);
    CHECK(field.len < sizeof(text));
    for (size_t i = 0; i < field.len; i++) {
        memcpy(text, field.ptr, field.len);
        text[i] = text[i] == '0' ? '1' : '0';
        m = message(&a, "a.test", "/x", slice_of(text, field.len), 1);
        CHECK(hop_read(&q, &seal, &set, &m) != HOP_GOOD);
        m = message(&a, "a.test", "/x", slice_of(field.ptr, i), 1);
        CHECK(hop_read(&q, &seal, &set, &m) != HOP_GOOD);
    }
    m = message(&a, "b.test", "/x", field, 1);
    CHECK_EQ(HOP_UNSIGNED, hop_read(&q, &seal, &set, &m));
    m = message(&a, "a.test", "/y", field, 1);
    CHECK_EQ(HOP_UNSIGNED, hop_read(&q, &seal, &set, &m));
    /* Nor another field, or one less; what is of the connection, and how a name is written, is the wire's. */
    for (unsigned i = 0; i < ARRAY_LEN(fields); i++) {
        m = message_with(&a, "a.test", "/x", field, 1, fields[i].name, fields[i].value);
        CHECK_EQ(fields[i].verdict, hop_read(&q, &seal, &set, &m));
    }
    m = message(&a, "a.test", "/x", field, 2);
    CHECK_EQ(HOP_MALFORMED, hop_read(&q, &seal, &set, &m));
    m = message(&a, "a.test", "/x", field, 0);
    CHECK_EQ(HOP_MALFORMED, hop_read(&q, &seal, &set, &m));
    m = message(&a, "a.test", "/x", SLICE_LIT("2 shop a b"), 1);
    CHECK_EQ(HOP_VERSION, hop_read(&q, &seal, &set, &m));
    /* The secret of before is good while there is a newer one. */
    memcpy(next.secrets[1], set.secrets[0], PEERS_SECRET);
    memset(next.secrets[0], 1, PEERS_SECRET);
    m = message(&a, "a.test", "/x", field, 1);
    CHECK_EQ(HOP_GOOD, hop_read(&q, &seal, &next, &m));
    memset(other.secrets[0], 1, PEERS_SECRET);
    CHECK_EQ(HOP_UNSIGNED, hop_read(&q, &seal, &other, &m));
    arena_fini(&a);
    arena_pool_fini(&pool);
}

static struct http_message
answer(struct arena *a, struct slice field)
{
    struct http_message m = {.base = NULL};
    struct message_out o = {.full = false};

    CHECK_EQ(0, message_out_begin(&o, &m, a, 4096, 2));
    message_out_status(&o, 200, SLICE_LIT("OK"));
    message_out_field(&o, HTTP_F_OTHER, HOP_FIELD, field);
    CHECK_EQ(0, message_out_end(&o));
    return m;
}

/* With the code that the owner of this text would give it. */
static struct slice
sealed(const char *front, const struct hop_seal *seal, struct arena *a)
{
    const size_t len = strlen(front), code_len = sizeof(seal->code);
    char *text = arena_alloc(a, len + 1 + code_len), asked_and_said[1024];
    uint8_t code[PEERS_CODE];

    CHECK(text != NULL && code_len + len < sizeof(asked_and_said));
    memcpy(asked_and_said, seal->code, code_len);
    memcpy(asked_and_said + code_len, front, len);
    CHECK(digest_hmac(slice_of((const char *)seal->secret, PEERS_SECRET),
        slice_of(asked_and_said, code_len + len), code));
    memcpy(text, front, len);
    text[len] = ' ';
    hex_put(text + len + 1, code, sizeof(code));
    return slice_of(text, len + 1 + code_len);
}

static const struct hop_said good = {.verdict = {.storable = true,
                                         .origin = FRESH_FROM_S_MAXAGE,
                                         .ttl_ms = -5,
                                         .age_ms = 7000,
                                         .grace_ms = 10,
                                         .error_ms = 20,
                                         .keep_ms = 30,
                                         .stale_if_error_ms = -1,
                                         .must_revalidate = true},
    .failed = true};

/* A question as it went, and what the node that was asked knows of it. */
static struct http_message
question(const struct peers_set *set, const char *path, struct hop_seal *seal, struct arena *a)
{
    struct slice field = signed_field(set, "a.test", path, a);
    struct http_message m = message(a, "a.test", path, field, 1);
    struct hop_question q;

    CHECK_EQ(HOP_GOOD, hop_read(&q, seal, set, &m));
    return m;
}

TEST(hop, an_answer_has_the_times_that_are_left)
{
    static const char *const bad[] = {"", "1", "1 b 1 2 3 4 5 6 s stored",
        "1 b 1 -2 3 4 5 6 s stored max-age", "1 b 1 2 4 3 5 6 s stored max-age",
        "1 b 1 2 3 4 3 6 s stored max-age", "1 b x 2 3 4 5 6 s stored max-age",
        "1 b 9223372036854775807 2 3 4 5 6 s stored max-age", "2 b 1 2 3 4 5 6 s stored max-age",
        "1 c 1 2 3 4 5 6 s stored max-age", "1 b 1 2 3 4 5 6 s stored max-age more"};
    struct peers_set set = secrets(1);
    struct arena_pool pool;
    struct arena a;
    struct hop_said said;
    struct hop_seal seal;
    struct http_message ask, m;
    char text[HOP_ANSWER_MAX];

    arena_pool_init(&pool, 4, NULL);
    arena_init(&a, &pool);
    ask = question(&set, "/x", &seal, &a);
    m = answer(&a, slice_of(text, hop_answer(text, "b", &good, &seal)));
    CHECK(hop_read_answer(&said, &set, SLICE_LIT("b"), &ask, &m));
    CHECK(said.failed);
    CHECK(said.verdict.storable && said.verdict.must_revalidate && !said.verdict.no_cache);
    CHECK_EQ(FRESH_FROM_S_MAXAGE, said.verdict.origin);
    CHECK_EQ(FRESH_REFUSE_NONE, said.verdict.refusal);
    CHECK_EQ(-5, said.verdict.ttl_ms);
    CHECK_EQ(7000, said.verdict.age_ms);
    CHECK_EQ(6995, said.verdict.lifetime_ms);
    CHECK_EQ(10, said.verdict.grace_ms);
    CHECK_EQ(20, said.verdict.error_ms);
    CHECK_EQ(30, said.verdict.keep_ms);
    CHECK_EQ(-1, said.verdict.stale_if_error_ms);
    m = answer(&a, sealed("1 b 1 2 3 4 5 6 - newer-refusal newer-origin", &seal, &a));
    CHECK(hop_read_answer(&said, &set, SLICE_LIT("b"), &ask, &m));
    CHECK(!said.failed && !said.verdict.storable && said.verdict.refusal == FRESH_REFUSE_POLICY);
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        m = answer(&a, sealed(bad[i], &seal, &a));
        CHECK(!hop_read_answer(&said, &set, SLICE_LIT("b"), &ask, &m));
    }
    arena_fini(&a);
    arena_pool_fini(&pool);
}

/* By one without the secret, to another question, changed on its way: it is no answer. */
TEST(hop, an_answer_is_that_of_a_node_of_the_fleet_to_this_question)
{
    struct peers_set set = secrets(1), other = secrets(2), next = secrets(2);
    struct arena_pool pool;
    struct arena a;
    struct hop_said said;
    struct hop_seal seal, others;
    struct http_message ask, asks_else, m;
    char text[HOP_ANSWER_MAX];
    size_t len;

    arena_pool_init(&pool, 4, NULL);
    arena_init(&a, &pool);
    ask = question(&set, "/x", &seal, &a);
    asks_else = question(&set, "/y", &others, &a);
    len = hop_answer(text, "b", &good, &seal);
    for (size_t i = 0; i < len; i++) {
        char was = text[i];

        text[i] = was == '0' ? '1' : '0';
        m = answer(&a, slice_of(text, len));
        CHECK(!hop_read_answer(&said, &set, SLICE_LIT("b"), &ask, &m));
        text[i] = was;
        m = answer(&a, slice_of(text, i));
        CHECK(!hop_read_answer(&said, &set, SLICE_LIT("b"), &ask, &m));
    }
    m = answer(&a, slice_of(text, len));
    CHECK(hop_read_answer(&said, &set, SLICE_LIT("b"), &ask, &m));
    CHECK(!hop_read_failed(&set, SLICE_LIT("b"), &ask, &m));
    CHECK(!hop_read_answer(&said, &set, SLICE_LIT("b"), &asks_else, &m));
    memset(other.secrets, 1, sizeof(other.secrets));
    CHECK(!hop_read_answer(&said, &other, SLICE_LIT("b"), &ask, &m));
    memcpy(next.secrets[1], set.secrets[0], PEERS_SECRET);
    CHECK(hop_read_answer(&said, &next, SLICE_LIT("b"), &ask, &m));
    /* The origin's error is said in the same way. */
    len = hop_failed(text, "b", &seal);
    m = answer(&a, slice_of(text, len));
    CHECK(hop_read_failed(&set, SLICE_LIT("b"), &ask, &m));
    CHECK(!hop_read_answer(&said, &set, SLICE_LIT("b"), &ask, &m));
    CHECK(!hop_read_failed(&set, SLICE_LIT("c"), &ask, &m));
    CHECK(!hop_read_failed(&set, SLICE_LIT("b"), &asks_else, &m));
    m = answer(&a, slice_of(text, len - sizeof(seal.code) - 1));
    CHECK(!hop_read_failed(&set, SLICE_LIT("b"), &ask, &m));
    m = answer(&a, sealed("1 b fails", &seal, &a));
    CHECK(!hop_read_failed(&set, SLICE_LIT("b"), &ask, &m));
    arena_fini(&a);
    arena_pool_fini(&pool);
}

TEST(peers, a_place_lacks_what_is_behind_it_or_of_another_engine)
{
    const struct peers_place at = {5, 10, 3};

    CHECK(!peers_place_lacks(at, at));
    CHECK(!peers_place_lacks(at, ((struct peers_place){5, 10, 2})));
    CHECK(!peers_place_lacks(at, ((struct peers_place){5, 9, 99})));
    CHECK(peers_place_lacks(at, ((struct peers_place){5, 10, 4})));
    CHECK(peers_place_lacks(at, ((struct peers_place){5, 11, 0})));
    CHECK(peers_place_lacks(at, ((struct peers_place){6, 1, 0})));
    CHECK(peers_place_lacks(((struct peers_place){0, 10, 3}), ((struct peers_place){0, 1, 0})));
}

TEST_MAIN(TEST_ENTRY(hop, a_question_is_read_as_it_was_asked),
    TEST_ENTRY(hop, what_is_changed_on_its_way_is_not_signed),
    TEST_ENTRY(hop, an_answer_has_the_times_that_are_left),
    TEST_ENTRY(hop, an_answer_is_that_of_a_node_of_the_fleet_to_this_question),
    TEST_ENTRY(peers, a_place_lacks_what_is_behind_it_or_of_another_engine))
