/* traffic.c -- what a loop's traffic takes from the heap, charged to the store that bounds it. */
#include "daemon/traffic.h"

#include "daemon/base/obj.h"
#include "daemon/base/usage.h"
#include "storage/storage.h"

static const enum charge traffic_leaf[USAGE_KINDS] = {
    [USAGE_READ] = CHARGE_READ,
    [USAGE_ARENA] = CHARGE_ARENA,
    [USAGE_CONN] = CHARGE_CONN,
    [USAGE_INCOMING] = CHARGE_INCOMING,
    [USAGE_REQUEST] = CHARGE_REQUEST,
};

/* Each loop keeps what it has told: the store knows sums only, and gets differences. */
void
traffic_charge(struct storage *s, struct usage *told, const struct usage *now)
{
    _Static_assert(ARRAY_LEN(traffic_leaf) == USAGE_KINDS, "each kind has its leaf");

    for (unsigned i = 0; i < USAGE_KINDS; i++)
        storage_charge(s, traffic_leaf[i], told->bytes[i], now->bytes[i]);
    *told = *now;
}

/* Before storage_close(), which asserts that all was given back. */
void
traffic_uncharge(struct storage *s, struct usage *told)
{
    static const struct usage nothing;

    traffic_charge(s, told, &nothing);
}

void
traffic_charge_tls(struct storage *s, uint64_t *told, uint64_t now)
{
    storage_charge(s, CHARGE_TLS, *told, now);
    *told = now;
}
