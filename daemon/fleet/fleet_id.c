/* fleet_id.c -- ids and tokens as text. */
#include "daemon/fleet/fleet_id.h"

#include "daemon/base/hex.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool
fleet_number_parse(struct slice text, uint64_t *out)
{
    uint64_t n = 0;

    if (text.len == 0 || text.len > 20)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)text.ptr[i] - '0';

        if (digit > 9 || n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

int64_t
fleet_number_near(struct slice text)
{
    const int64_t most = INT64_C(1) << 53;
    int64_t n = strtoll(text.ptr, NULL, 10);

    return n > most ? most : n < -most ? -most : n;
}

bool
fleet_id_parse(struct slice text, struct fleet_id *out)
{
    const char *dash = text.len > 0 ? memchr(text.ptr, '-', text.len) : NULL;
    struct fleet_id id;
    size_t at;

    if (dash == NULL)
        return false;
    at = (size_t)(dash - text.ptr);
    if (!fleet_number_parse(slice_of(text.ptr, at), &id.ms) ||
        !fleet_number_parse(slice_of(dash + 1, text.len - at - 1), &id.seq))
        return false;
    *out = id;
    return true;
}

struct slice
fleet_id_text(struct fleet_id id, char text[FLEET_ID_TEXT_MAX])
{
    int n = snprintf(text, FLEET_ID_TEXT_MAX, "%" PRIu64 "-%" PRIu64, id.ms, id.seq);

    return slice_of(text, (size_t)n);
}

bool
fleet_token_parse(struct slice text, struct fleet_token *out)
{
    const char *dot = text.len > 0 ? memchr(text.ptr, '.', text.len) : NULL;
    size_t at = dot != NULL ? (size_t)(dot - text.ptr) : 0;
    struct fleet_id id;
    uint8_t engine[4];

    if (dot == NULL || text.len - at != 1 + 2 * sizeof(engine) ||
        !fleet_id_parse(slice_of(text.ptr, at), &id) || fleet_id_is_none(id) ||
        !hex_take(engine, slice_of(dot + 1, 2 * sizeof(engine))))
        return false;
    out->id = id;
    out->engine = (uint32_t)engine[0] << 24 | (uint32_t)engine[1] << 16 | (uint32_t)engine[2] << 8 |
                  engine[3];
    return true;
}

struct slice
fleet_token_text(struct fleet_token token, char text[FLEET_TOKEN_TEXT_MAX])
{
    struct slice id = fleet_id_text(token.id, text);
    int n = snprintf(text + id.len, FLEET_TOKEN_TEXT_MAX - id.len, ".%08" PRIx32, token.engine);

    return slice_of(text, id.len + (size_t)n);
}
