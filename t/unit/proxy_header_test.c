/* proxy_header_test.c -- the PROXY protocol's header, both versions, good and bad. */
#include "t/unit/test.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/address.h"
#include "daemon/base/terr.h"
#include "daemon/http/conn_server.h"
#include "daemon/net/proxy_header.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

/* 192.0.2.1:56324 to 198.51.100.7:443. */
#define V2_BLOCK4 "\xc0\x00\x02\x01\xc6\x33\x64\x07\xdc\x04\x01\xbb"
static const char v2_tcp4[] = SIGNATURE "\x21\x11\x00\x0c" V2_BLOCK4;

static int
parse(const char *text, struct proxy_header *out)
{
    return proxy_header_parse(text, strlen(text), out);
}

static void
check_addresses(const struct proxy_header *ph, const char *src, unsigned src_port, const char *dst,
    unsigned dst_port)
{
    char text[ADDRESS_TEXT_MAX];

    CHECK(ph->has_addresses);
    address_text(ph->src, text);
    CHECK_STR(src, text);
    address_text(ph->dst, text);
    CHECK_STR(dst, text);
    CHECK_EQ(src_port, ph->src_port);
    CHECK_EQ(dst_port, ph->dst_port);
}

TEST(proxy_header, of_version_1_is_one_line)
{
    static const char tcp4[] = "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n";
    static const char tcp6[] = "PROXY TCP6 2001:db8::1 2001:db8::2 65535 0\r\nGET / HTTP/1.1\r\n";
    struct proxy_header ph;

    CHECK_EQ(sizeof(tcp4) - 1, parse(tcp4, &ph));
    check_addresses(&ph, "192.0.2.1", 56324, "198.51.100.7", 443);
    CHECK_EQ(strchr(tcp6, '\n') + 1 - tcp6, parse(tcp6, &ph));
    check_addresses(&ph, "2001:db8::1", 65535, "2001:db8::2", 0);
    CHECK_EQ(15, parse("PROXY UNKNOWN\r\n", &ph));
    CHECK(!ph.has_addresses);
    CHECK_EQ(31, parse("PROXY UNKNOWN whatever :: 1 2\r\n", &ph));
    CHECK(!ph.has_addresses);
}

TEST(proxy_header, of_version_1_is_read_strictly)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\n",
        "PROXY\r\n",
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 \r\n",
        "proxy TCP4 192.0.2.1 198.51.100.7 1 2\r\n",
        "PROXY tcp4 192.0.2.1 198.51.100.7 1 2\r\n",
        "PROXY TCP5 192.0.2.1 198.51.100.7 1 2\r\n",
        "PROXY  TCP4 192.0.2.1 198.51.100.7 1 2\r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.7 1 2\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 1\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 01 2\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 1 -2\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 1 2\n",
        "PROXY TCP4 192.0.2.1 198.51.100.7 1 2\r\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.7 1 2\r\n",
        "PROXY TCP4 192.0.2.256 198.51.100.7 1 2\r\n",
        "PROXY TCP4 ::1 ::2 1 2\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.7 1 2\r\n",
        "PROXY TCP6 ::1 ::12345 1 2\r\n",
        ("PROXY UNKNOWN 0123456789012345678901234567890123456789012345678901234567890123456789"
         "012345678901234567890123456789\r\n"),
    };
    struct proxy_header ph;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (parse(bad[i], &ph) != TERR_SYNTAX)
            fail_msg("taken: %s", bad[i]);
        CHECK(!ph.has_addresses);
    }
}

TEST(proxy_header, of_version_2_is_binary)
{
    static const char tcp6[] = SIGNATURE "\x21\x21\x00\x24"
                                         "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"
                                         "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02"
                                         "\x00\x50\xff\xff";
    static const char local[] = SIGNATURE "\x20\x00\x00\x03\x04\x00\x09";
    static const char unspec[] = SIGNATURE "\x21\x00\x00\x00GET";
    static const char udp[] = SIGNATURE "\x21\x12\x00\x0c" V2_BLOCK4;
    static const char tlvs[] = SIGNATURE "\x21\x11\x00\x14" V2_BLOCK4 "\x04\x00\x00\x01\x00\x02h1";
    struct proxy_header ph;

    CHECK_EQ(sizeof(v2_tcp4) - 1, proxy_header_parse(v2_tcp4, sizeof(v2_tcp4) - 1, &ph));
    check_addresses(&ph, "192.0.2.1", 56324, "198.51.100.7", 443);
    CHECK_EQ(sizeof(tcp6) - 1, proxy_header_parse(tcp6, sizeof(tcp6) - 1, &ph));
    check_addresses(&ph, "2001:db8::1", 80, "2001:db8::2", 65535);
    CHECK_EQ(19, proxy_header_parse(local, sizeof(local) - 1, &ph));
    CHECK(!ph.has_addresses);
    CHECK_EQ(16, proxy_header_parse(unspec, sizeof(unspec) - 1, &ph));
    CHECK(!ph.has_addresses);
    CHECK_EQ(28, proxy_header_parse(udp, sizeof(udp) - 1, &ph));
    CHECK(!ph.has_addresses);
    CHECK_EQ(36, proxy_header_parse(tlvs, sizeof(tlvs) - 1, &ph));
    CHECK(ph.has_addresses);
}

TEST(proxy_header, of_version_2_is_read_strictly)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
#define BAD(literal) {literal, sizeof(literal) - 1}
        BAD("\r\n\r\n\0\r\nQUIT\r"),
        BAD(SIGNATURE "\x11"),
        BAD(SIGNATURE "\x22"),
        BAD(SIGNATURE "\x21\x10\x00\x0c" V2_BLOCK4),
        BAD(SIGNATURE "\x21\x13\x00\x0c" V2_BLOCK4),
        BAD(SIGNATURE "\x21\x41\x00\x0c" V2_BLOCK4),
        BAD(SIGNATURE "\x21\x11\x00\x0b" V2_BLOCK4),
        BAD(SIGNATURE "\x21\x21\x00\x0c" V2_BLOCK4),
        BAD(SIGNATURE "\x21\x11\xff\xff"),
        BAD(SIGNATURE "\x21\x11\x00\x0d" V2_BLOCK4 "\x04"),
        BAD(SIGNATURE "\x21\x11\x00\x0f" V2_BLOCK4 "\x04\x00\x01"),
        BAD(SIGNATURE "\x21\x11\x00\x12" V2_BLOCK4 "\x03\x00\x03\x00\x00\x00"),
        BAD(SIGNATURE "\x21\x11\x00\x13" V2_BLOCK4 "\x03\x00\x04\x00\x00\x00\x00"),
#undef BAD
    };
    struct proxy_header ph;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (proxy_header_parse(bad[i].bytes, bad[i].len, &ph) != TERR_SYNTAX)
            fail_msg("taken: number %zu", i);
        CHECK(!ph.has_addresses);
    }
}

/* RFC 3720 B.4's polynomial, by another way: long division of the bits, most significant first. */
static uint32_t
crc_slowly(const uint8_t *p, size_t len)
{
    uint32_t rest = 0, out = 0;

    for (size_t i = 0; i < (len + 4) * 8; i++) {
        unsigned bit = i / 8 < len ? p[i / 8] >> i % 8 & 1u : 0;
        bool top;

        bit ^= i < 32; /* it begins with ones */
        top = rest >> 31 != 0;
        rest = rest << 1 | bit;
        if (top)
            rest ^= UINT32_C(0x1edc6f41);
    }
    for (unsigned i = 0; i < 32; i++)
        out |= (rest >> i & 1u) << (31 - i);
    return ~out;
}

TEST(proxy_header, has_the_checksum_that_it_says)
{
    uint8_t check[] = "123456789";
    uint8_t text[] = SIGNATURE "\x21\x11\x00\x13" V2_BLOCK4 "\x03\x00\x04\x00\x00\x00\x00";
    size_t len = sizeof(text) - 1;
    uint32_t crc = crc_slowly(text, len);
    struct proxy_header ph;

    CHECK_EQ(UINT32_C(0xe3069283), crc_slowly(check, 9)); /* known of CRC-32C */
    for (unsigned i = 0; i < 4; i++)
        text[len - 4 + i] = (uint8_t)(crc >> (24 - 8 * i));
    CHECK_EQ(len, proxy_header_parse((const char *)text, len, &ph));
    for (size_t at = 16; at < len; at++) {
        if (at == len - 7)
            continue; /* its type: then there is no checksum */
        text[at] ^= 1;
        CHECK_EQ(TERR_SYNTAX, proxy_header_parse((const char *)text, len, &ph));
        text[at] ^= 1;
    }
}

TEST(proxy_header, is_known_for_none_at_its_first_wrong_byte)
{
    struct proxy_header ph;

    CHECK_EQ(0, proxy_header_parse("", 0, &ph));
    CHECK_EQ(TERR_SYNTAX, proxy_header_parse("G", 1, &ph));
    CHECK_EQ(TERR_SYNTAX, proxy_header_parse("PU", 2, &ph));
    CHECK_EQ(TERR_SYNTAX, proxy_header_parse("\r\n\r\nG", 5, &ph));
    for (size_t len = 0; len < sizeof(v2_tcp4) - 1; len++)
        CHECK_EQ(0, proxy_header_parse(v2_tcp4, len, &ph));
}

/* Behind the addresses, 20 bytes of TLVs and SSL's own. */
static int
parse_tlvs(const char *tlvs, size_t len, struct proxy_header *ph)
{
    static char bytes[PROXY_HEADER_MAX];

    memcpy(bytes, v2_tcp4, sizeof(v2_tcp4) - 1);
    memcpy(bytes + sizeof(v2_tcp4) - 1, tlvs, len);
    bytes[14] = (char)((12 + len) >> 8);
    bytes[15] = (char)(12 + len);
    return proxy_header_parse(bytes, sizeof(v2_tcp4) - 1 + len, ph);
}
#define PARSE_TLVS(text, ph) parse_tlvs(text, sizeof(text) - 1, ph)

TEST(proxy_header, of_version_2_says_how_the_client_came_by_tls)
{
    struct proxy_header ph;
    struct conn_secure s;
    char text[CONN_SECURE_TEXT];

    /* As HAProxy's send-proxy-v2-ssl-cn: flags of a certificate that was verified. */
    CHECK(PARSE_TLVS("\x01\x00\x08http/1.1"
                     "\x02\x00\x06"
                     "A.test"
                     "\x20\x00\x25\x07\x00\x00\x00\x00"
                     "\x21\x00\x07TLSv1.3"
                     "\x22\x00\x0aj\xc3\xb6, joe# "
                     "\x23\x00\x06"
                     "CIPHER",
              &ph) > 0);
    CHECK(proxy_header_secure(&ph, &s, text));
    CHECK_STR("TLSv1.3", s.version);
    CHECK_STR("CIPHER", s.cipher);
    CHECK_STR("a.test", s.server_name);
    CHECK_STR("http/1.1", s.protocol);
    CHECK_STR("CN=j\xc3\xb6\\, joe#\\ ", s.client_subject);
    CHECK_STR("", s.client_issuer);
    CHECK(!s.resumed);
    /* verify is not 0; no certificate; the session's. */
    CHECK(PARSE_TLVS("\x20\x00\x0b\x07\x00\x00\x00\x01\x22\x00\x03joe", &ph) > 0);
    CHECK(proxy_header_secure(&ph, &s, text));
    CHECK_STR("", s.client_subject);
    CHECK(PARSE_TLVS("\x20\x00\x0b\x01\x00\x00\x00\x00\x22\x00\x03joe", &ph) > 0);
    CHECK(proxy_header_secure(&ph, &s, text));
    CHECK_STR("", s.client_subject);
    CHECK(PARSE_TLVS("\x20\x00\x0b\x05\x00\x00\x00\x00\x22\x00\x03joe", &ph) > 0);
    CHECK(proxy_header_secure(&ph, &s, text));
    CHECK_STR("CN=joe", s.client_subject);
    CHECK(s.resumed);
    /* Not by TLS, although there is a TLV; and none. */
    CHECK(PARSE_TLVS("\x20\x00\x05\x00\x00\x00\x00\x00", &ph) > 0);
    CHECK(!proxy_header_secure(&ph, &s, text));
    CHECK(PARSE_TLVS("\x02\x00\x01"
                     "a",
              &ph) > 0);
    CHECK(!proxy_header_secure(&ph, &s, text));
    CHECK(proxy_header_parse(v2_tcp4, sizeof(v2_tcp4) - 1, &ph) > 0);
    CHECK(!proxy_header_secure(&ph, &s, text));
}

TEST(proxy_header, tlvs_of_tls_that_lie_are_refused_or_left_out)
{
    static char longest[3 + 256] = "\x02\x01\x00";
    struct proxy_header ph;
    struct conn_secure s;
    char text[CONN_SECURE_TEXT], all[sizeof(longest) + 8];

    CHECK_EQ(TERR_SYNTAX, PARSE_TLVS("\x20\x00\x04\x01\x00\x00\x00", &ph));
    CHECK_EQ(TERR_SYNTAX, PARSE_TLVS("\x20\x00\x07\x01\x00\x00\x00\x00\x21\x00", &ph));
    CHECK_EQ(TERR_SYNTAX, PARSE_TLVS("\x20\x00\x09\x01\x00\x00\x00\x00\x21\x00\x02T", &ph));
    CHECK_EQ(TERR_SYNTAX, PARSE_TLVS("\x20\x00\x09\x01\x00\x00\x00\x00", &ph));
    CHECK(PARSE_TLVS("\x02\x00\x03"
                     "a\0b"
                     "\x20\x00\x0a\x07\x00\x00\x00\x00\x22\x00\x02\njo",
              &ph) < 0);
    CHECK(PARSE_TLVS("\x02\x00\x03"
                     "a\0b"
                     "\x20\x00\x0b\x07\x00\x00\x00\x00\x22\x00\x03\njo",
              &ph) > 0);
    CHECK(proxy_header_secure(&ph, &s, text));
    CHECK_STR("", s.server_name);
    CHECK_STR("", s.client_subject);
    memset(longest + 3, 'a', 256);
    memcpy(all, longest, sizeof(longest));
    memcpy(all + sizeof(longest), "\x20\x00\x05\x01\x00\x00\x00\x00", 8);
    CHECK(parse_tlvs(all, sizeof(all), &ph) > 0);
    CHECK(proxy_header_secure(&ph, &s, text));
    CHECK_STR("", s.server_name);
}

TEST(proxy_header, of_version_2_is_written_with_what_tls_said)
{
    static char name[256], big[1000];
    struct conn_secure s = {.version = "TLSv1.2",
        .cipher = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        .server_name = "a.test",
        .protocol = "http/1.1",
        .client_subject = "O=a\\, CN\\=x,CN=j\\, \\C3\\B6\\\"+OU=y",
        .client_issuer = "CN=ca",
        .client_serial = "01",
        .client_fingerprint = "ff",
        .resumed = true};
    struct proxy_header ph, again;
    struct conn_secure read;
    char out[PROXY_HEADER_WRITE_MAX], text[CONN_SECURE_TEXT];
    size_t len;

    CHECK(proxy_header_parse(v2_tcp4, sizeof(v2_tcp4) - 1, &ph) > 0);
    ph.secure = &s;
    len = proxy_header_write(out, 2, &ph);
    CHECK_EQ(len, proxy_header_parse(out, len, &again));
    CHECK(proxy_header_secure(&again, &read, text));
    CHECK_STR(s.version, read.version);
    CHECK_STR(s.cipher, read.cipher);
    CHECK_STR(s.server_name, read.server_name);
    CHECK_STR(s.protocol, read.protocol);
    CHECK_STR("CN=j\\, \xc3\xb6\\\"", read.client_subject);
    CHECK(read.resumed);
    /* Without a certificate; without anything; the longest. */
    s.client_subject = s.client_fingerprint = "";
    len = proxy_header_write(out, 2, &ph);
    CHECK(proxy_header_parse(out, len, &again) > 0 && proxy_header_secure(&again, &read, text));
    CHECK_STR("", read.client_subject);
    CHECK(!read.resumed);
    memset(name, 'n', 255);
    memset(big, 'b', sizeof(big) - 1);
    s.server_name = s.cipher = name;
    s.client_subject = big;
    memcpy(big, "CN=", 3);
    s.protocol = s.version = "";
    len = proxy_header_write(out, 2, &ph);
    CHECK(len <= sizeof(out));
    CHECK(proxy_header_parse(out, len, &again) > 0 && proxy_header_secure(&again, &read, text));
    CHECK_STR(name, read.server_name);
    /* What cannot fit is not said: the addresses are. */
    s.version = big;
    len = proxy_header_write(out, 2, &ph);
    CHECK_EQ(28, len);
    /* Version 1 has no room for it. */
    s.version = "TLSv1.2";
    len = proxy_header_write(out, 1, &ph);
    CHECK_MEM("PROXY TCP4 ", out, 11);
    CHECK(memchr(out, 'n', len) == NULL);
}

TEST(proxy_header, is_written_as_it_is_read)
{
    static const char *const lines[] = {
        "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n",
        "PROXY TCP6 2001:db8::1 2001:db8::2 1 2\r\n",
        ("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"
         " 65535 65535\r\n"),
        "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n",
    };
    struct proxy_header ph, again;
    char out[PROXY_HEADER_WRITE_MAX];
    size_t len;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        CHECK(parse(lines[i], &ph) > 0);
        len = proxy_header_write(out, 1, &ph);
        CHECK_EQ(strlen(lines[i]), len);
        CHECK_MEM(lines[i], out, len);
        len = proxy_header_write(out, 2, &ph);
        CHECK_EQ(len, proxy_header_parse(out, len, &again));
        CHECK(again.has_addresses);
        CHECK_MEM(ph.src, again.src, 16);
        CHECK_MEM(ph.dst, again.dst, 16);
        CHECK_EQ(ph.src_port, again.src_port);
        CHECK_EQ(ph.dst_port, again.dst_port);
    }
}

TEST(proxy_header, tells_nothing_where_there_is_nothing_to_tell)
{
    const struct proxy_header unix_client = {
        .has_addresses = true, .dst = {[10] = 0xff, [11] = 0xff, 1}};
    struct proxy_header ph;
    char out[PROXY_HEADER_WRITE_MAX];

    CHECK_EQ(15, proxy_header_write(out, 1, NULL));
    CHECK_MEM("PROXY UNKNOWN\r\n", out, 15);
    CHECK_EQ(15, proxy_header_write(out, 1, &unix_client));
    CHECK_EQ(16, proxy_header_write(out, 2, NULL));
    CHECK_MEM(SIGNATURE "\x20\x00\x00\x00", out, 16);
    CHECK_EQ(16, proxy_header_write(out, 2, &unix_client));
    CHECK_MEM(SIGNATURE "\x21\x00\x00\x00", out, 16);
    CHECK_EQ(16, proxy_header_parse(out, 16, &ph));
    CHECK(!ph.has_addresses);
}

TEST(address, is_in_a_network_whose_bits_it_begins_with)
{
    static const struct {
        const char *net, *in, *out;
    } rows[] = {
        {"10.0.0.0/8", "10.255.0.1", "11.0.0.0"},
        {"192.0.2.128/25", "192.0.2.255", "192.0.2.127"},
        {"192.0.2.1", "192.0.2.1", "192.0.2.2"},
        {"0.0.0.0/0", "255.255.255.255", "2001:db8::1"},
        {"2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"},
        {"::ffff:10.0.0.0/104", "10.1.2.3", "11.1.2.3"},
    };
    static const char *const bad[] = {"", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "/8",
        "10.0.0/8", "2001:db8::/129", "2001:db8::1/64", "10.0.0.0/+8", "10.0.0.0/8 ", "localhost",
        "unix/8"};
    struct address_net net;
    struct address_nets nets = {&net, 1};
    uint8_t addr[16];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK(address_read_net(rows[i].net, strlen(rows[i].net), &net));
        CHECK(address_read(rows[i].in, strlen(rows[i].in), addr));
        CHECK(address_in(&nets, addr));
        CHECK(address_read(rows[i].out, strlen(rows[i].out), addr));
        CHECK(!address_in(&nets, addr));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (address_read_net(bad[i], strlen(bad[i]), &net))
            fail_msg("taken: %s", bad[i]);
    CHECK(address_read_net("unix", 4, &net));
    CHECK(!address_in(&nets, addr));
    memset(addr, 0, sizeof(addr));
    CHECK(address_in(&nets, addr));
}

TEST_MAIN(TEST_ENTRY(proxy_header, of_version_1_is_one_line),
    TEST_ENTRY(proxy_header, of_version_1_is_read_strictly),
    TEST_ENTRY(proxy_header, of_version_2_is_binary),
    TEST_ENTRY(proxy_header, of_version_2_is_read_strictly),
    TEST_ENTRY(proxy_header, has_the_checksum_that_it_says),
    TEST_ENTRY(proxy_header, is_known_for_none_at_its_first_wrong_byte),
    TEST_ENTRY(proxy_header, of_version_2_says_how_the_client_came_by_tls),
    TEST_ENTRY(proxy_header, tlvs_of_tls_that_lie_are_refused_or_left_out),
    TEST_ENTRY(proxy_header, of_version_2_is_written_with_what_tls_said),
    TEST_ENTRY(proxy_header, is_written_as_it_is_read),
    TEST_ENTRY(proxy_header, tells_nothing_where_there_is_nothing_to_tell),
    TEST_ENTRY(address, is_in_a_network_whose_bits_it_begins_with))
