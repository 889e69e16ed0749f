/* address_test.c -- network addresses as text. */
#include "daemon/base/obj.h"
#include "t/unit/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/address.h"

/* As libc writes it. */
static void
expect_as_libc(const char *text)
{
    uint8_t addr[16] = {[10] = 0xff, [11] = 0xff};
    char got[ADDRESS_TEXT_MAX];

    CHECK_EQ(1, inet_pton(AF_INET, text, addr + 12));
    address_text(addr, got);
    CHECK_STR(text, got);
}

TEST(address, each_byte_of_an_ipv4_address_is_written_as_libc_does)
{
    char text[32];

    for (unsigned i = 0; i < 256; i++) {
        snprintf(text, sizeof(text), "%u.%u.%u.%u", i, 255 - i, i / 2, i ^ 0x55);
        expect_as_libc(text);
    }
}

TEST(address, other_addresses_have_their_own_forms)
{
    uint8_t addr[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
    char got[ADDRESS_TEXT_MAX];

    address_text(addr, got);
    CHECK_STR("2001:db8::1", got);
    memset(addr, 0, sizeof(addr));
    address_text(addr, got);
    CHECK_STR("unix", got);
}

static bool
splits(const char *text, const char *host, unsigned port)
{
    struct slice got;
    uint16_t n;

    return address_host_port(slice_str(text), &got, &n) && slice_eq(got, slice_str(host)) &&
           n == port;
}

TEST(address, a_host_and_its_port_are_two)
{
    static const char *const bad[] = {
        "", ":", "a", "a:", ":80", "a:0", "a:65536", "a:99999999999", "a:8x", "a:-1", "a: 1"};
    struct slice host;
    uint16_t port;

    CHECK(splits("10.0.0.1:8089", "10.0.0.1", 8089));
    CHECK(splits("[::1]:1", "::1", 1));
    CHECK(splits("a.test:65535", "a.test", 65535));
    CHECK(splits("[]:5", "[]", 5));
    for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!address_host_port(slice_str(bad[i]), &host, &port));
}

TEST_MAIN(TEST_ENTRY(address, each_byte_of_an_ipv4_address_is_written_as_libc_does),
    TEST_ENTRY(address, other_addresses_have_their_own_forms),
    TEST_ENTRY(address, a_host_and_its_port_are_two))
