/* dictionary.c -- Available-Dictionary and Use-As-Dictionary, structured fields (RFC 8941). */
#include "daemon/http/dictionary.h"

#include "daemon/http/base64.h"
#include "daemon/http/codings.h"
#include "daemon/http/token.h"

/* ":base64:", with parameters or without (RFC 8941 3.3.5). */
static bool
dictionary_hash(struct slice value, uint8_t hash[DICTIONARY_HASH_LEN])
{
    uint8_t bytes[DICTIONARY_HASH_LEN + 1];
    struct slice item = http_cut(&value, ';');

    if (item.len < 2 || item.ptr[0] != ':' || item.ptr[item.len - 1] != ':')
        return false;
    item = slice_of(item.ptr + 1, item.len - 2);
    if (base64_decode(item, (struct span){(char *)bytes, sizeof(bytes)}) != DICTIONARY_HASH_LEN)
        return false;
    memcpy(hash, bytes, DICTIONARY_HASH_LEN);
    return true;
}

bool
dictionary_available(const struct http_message *req, uint8_t hash[DICTIONARY_HASH_LEN])
{
    const struct http_field *f;

    if (!http_has(req, HTTP_F_AVAILABLE_DICTIONARY))
        return false;
    f = http_find(req, HTTP_F_AVAILABLE_DICTIONARY, NULL);
    return f != NULL && !f->drop && http_find(req, HTTP_F_AVAILABLE_DICTIONARY, f) == NULL &&
           dictionary_hash(http_value(req, f), hash) && http_takes_dcz(req);
}

/* One member of the dictionary (RFC 8941 3.2) as a name and its value, without parameters. */
static struct slice
dictionary_member(struct slice member, struct slice *value)
{
    struct slice item = http_cut(&member, ';');
    struct slice name = http_cut(&item, '=');

    *value = item.ptr != NULL ? http_trim(item) : slice_of("", 0);
    return name;
}

bool
dictionary_is_offered(const struct http_message *resp)
{
    const struct http_field *f = NULL;
    struct http_list_iter it;
    struct slice member, value;
    bool matches = false, raw = true;

    while ((f = http_find_name(resp, SLICE_LIT("Use-As-Dictionary"), f)) != NULL) {
        http_list_init(&it, http_value(resp, f));
        while (http_list_next(&it, &member)) {
            struct slice name = dictionary_member(member, &value);

            if (slice_eq(name, SLICE_LIT("match")))
                matches = value.len > 2 && value.ptr[0] == '"';
            else if (slice_eq(name, SLICE_LIT("type")))
                raw = slice_eq(value, SLICE_LIT("raw"));
        }
    }
    return matches && raw;
}
