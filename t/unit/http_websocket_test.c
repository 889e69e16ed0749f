/* http_websocket_test.c -- the fields of WebSocket's handshake. */
#include "t/unit/test.h"

#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/http/websocket.h"

static const char *
answered(const char *key)
{
    static char text[WEBSOCKET_ACCEPT_LEN + 1];

    return websocket_accept(slice_str(key), text) ? text : "no key";
}

/* RFC 6455 1.3; the others by Python's hashlib. */
TEST(websocket, keys_are_answered_as_others_answer_them)
{
    CHECK_STR("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", answered("dGhlIHNhbXBsZSBub25jZQ=="));
    CHECK_STR("ICX+Yqv66kxgM0FcWaLWlFLwTAI=", answered("AAAAAAAAAAAAAAAAAAAAAA=="));
    CHECK_STR("XXpj4jYzLM2yUE0C7TIgMwTQh2g=", answered("/////////////////////w=="));
    CHECK_STR("no key", answered("x"));
    CHECK_STR("no key", answered("dGhlIHNhbXBsZSBub25jZQ==="));
}

TEST(websocket, keys_are_sixteen_bytes_and_each_another)
{
    char keys[64][WEBSOCKET_KEY_LEN];

    for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
        CHECK(websocket_key(keys[i]));
        CHECK(memcmp(keys[i] + WEBSOCKET_KEY_LEN - 2, "==", 2) == 0);
        CHECK(strchr("AQgw", keys[i][WEBSOCKET_KEY_LEN - 3]) != NULL); /* four bits are left over */
        for (unsigned k = 0; k < WEBSOCKET_KEY_LEN - 2; k++)
            CHECK(strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
                      keys[i][k]) != NULL);
        for (unsigned k = 0; k < i; k++)
            CHECK(memcmp(keys[i], keys[k], WEBSOCKET_KEY_LEN) != 0);
    }
}

TEST_MAIN(TEST_ENTRY(websocket, keys_are_answered_as_others_answer_them),
    TEST_ENTRY(websocket, keys_are_sixteen_bytes_and_each_another))
