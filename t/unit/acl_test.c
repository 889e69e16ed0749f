/* acl_test.c -- the radix tree says what a list, read from end to end, says. */
#include "vcl-lite/acl.h"

#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "t/unit/test.h"

static struct vcl_ip
acl_v4(unsigned a, unsigned b, unsigned c, unsigned d)
{
    return (struct vcl_ip){
        .addr = {[10] = 0xff, 0xff, (uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d}, .is_v4 = true};
}

TEST(acl, an_empty_list_holds_nobody)
{
    struct acl *a = acl_new("nobody", false);
    struct vcl_ip ip = acl_v4(127, 0, 0, 1);

    CHECK(!acl_match(a, &ip));
    CHECK_STR("nobody", acl_name(a));
    CHECK(!acl_logs(a));
    acl_free(&a);
    CHECK(a == NULL);
    acl_free(&a);
}

TEST(acl, the_longest_prefix_decides)
{
    struct acl *a = acl_new("lan", true);
    struct vcl_ip net = acl_v4(10, 0, 0, 0), host = acl_v4(10, 0, 0, 5),
                  other = acl_v4(11, 0, 0, 1);
    struct vcl_ip neighbour = acl_v4(10, 0, 0, 4), all = acl_v4(0, 0, 0, 0);

    CHECK(acl_logs(a));
    CHECK_EQ(0, acl_add(a, &host, 32, true));
    CHECK_EQ(0, acl_add(a, &net, 8, false));
    CHECK_EQ(TERR_EXISTS, acl_add(a, &neighbour, 8, true)); /* the same 8 bits */
    CHECK(acl_match(a, &net));
    CHECK(!acl_match(a, &host));
    CHECK(acl_match(a, &neighbour));
    CHECK(!acl_match(a, &other));
    CHECK_EQ(0, acl_add(a, &all, 0, false));
    CHECK(acl_match(a, &other));
    CHECK(!acl_match(a, &host));
    acl_free(&a);
}

TEST(acl, families_are_apart)
{
    struct acl *a = acl_new("all6", false);
    struct vcl_ip none = {.is_v4 = false}, four = acl_v4(1, 2, 3, 4);

    CHECK_EQ(0, acl_add(a, &none, 0, false));
    CHECK(acl_match(a, &none));
    CHECK(!acl_match(a, &four));
    acl_free(&a);
}

/* --- against a list --- */

struct acl_entry {
    struct vcl_ip ip;
    unsigned bits; /* of all 128 */
    bool negated;
};

/* Few different bytes, so that prefixes nest. */
static struct vcl_ip
acl_random_ip(bool v4)
{
    struct vcl_ip ip = {.is_v4 = v4};

    if (v4)
        memset(ip.addr + 10, 0xff, 2);
    for (unsigned i = v4 ? 12 : 0; i < 16; i++)
        ip.addr[i] = random() % 3 == 0 ? (uint8_t)(1u << random() % 8) : 0;
    return ip;
}

static bool
acl_same_bits(const struct vcl_ip *a, const struct vcl_ip *b, unsigned bits)
{
    for (unsigned i = 0; i < bits; i++) {
        if (((a->addr[i / 8] ^ b->addr[i / 8]) >> (7 - i % 8)) & 1)
            return false;
    }
    return a->is_v4 == b->is_v4;
}

static bool
acl_list_match(const struct acl_entry *list, unsigned n, const struct vcl_ip *ip)
{
    const struct acl_entry *best = NULL;

    for (unsigned i = 0; i < n; i++) {
        if (acl_same_bits(&list[i].ip, ip, list[i].bits) &&
            (best == NULL || list[i].bits > best->bits))
            best = &list[i];
    }
    return best != NULL && !best->negated;
}

TEST(acl, answers_as_a_list_does)
{
    srandom(4);
    for (unsigned round = 0; round < 300; round++) {
        struct acl *a = acl_new("random", false);
        struct acl_entry list[60];
        unsigned n = 0;

        for (unsigned i = 0; i < ARRAY_LEN(list); i++) {
            bool v4 = random() % 2 == 0, there = false;
            struct acl_entry e = {acl_random_ip(v4), 0, random() % 3 == 0};
            unsigned bits = (unsigned)random() % (v4 ? 33 : 129);

            e.bits = bits + (v4 ? 96 : 0);
            for (unsigned j = 0; j < n; j++)
                there |= list[j].bits == e.bits && acl_same_bits(&list[j].ip, &e.ip, e.bits);
            CHECK_EQ(there ? TERR_EXISTS : 0, acl_add(a, &e.ip, bits, e.negated));
            if (!there)
                list[n++] = e;
        }
        for (unsigned i = 0; i < 300; i++) {
            struct vcl_ip ip = acl_random_ip(random() % 2);

            CHECK_EQ(acl_list_match(list, n, &ip), acl_match(a, &ip));
        }
        for (unsigned i = 0; i < n; i++)
            CHECK_EQ(acl_list_match(list, n, &list[i].ip), acl_match(a, &list[i].ip));
        acl_free(&a);
    }
}

TEST_MAIN(TEST_ENTRY(acl, an_empty_list_holds_nobody), TEST_ENTRY(acl, the_longest_prefix_decides),
    TEST_ENTRY(acl, families_are_apart), TEST_ENTRY(acl, answers_as_a_list_does))
