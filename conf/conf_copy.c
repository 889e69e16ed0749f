/* conf_copy.c -- a backend's settings, copied into one block of memory.
 *
 * A backend outlives the snapshot that named it while requests still use it; the copy is one
 * block, freed by free(3).
 */
#include "conf/conf_copy.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"

struct conf_block {
    char *next, *end;
};

static const char *
conf_block_text(struct conf_block *block, const char *text)
{
    size_t len = strlen(text) + 1;
    char *to = block->next;

    tassert(len <= (size_t)(block->end - to));
    memcpy(to, text, len);
    block->next += len;
    return to;
}

/* A declaration of a policy leaves texts out; the copy has none that is NULL. */
static const char *
conf_text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* Every text that a backend has. */
static const size_t conf_copy_texts[] = {
    offsetof(struct conf_backend, name),
    offsetof(struct conf_backend, address.text),
    offsetof(struct conf_backend, address.path),
    offsetof(struct conf_backend, address.host),
    offsetof(struct conf_backend, host_header),
    offsetof(struct conf_backend, tls.text),
    offsetof(struct conf_backend, tls.ca),
    offsetof(struct conf_backend, tls.sni),
    offsetof(struct conf_backend, tls.name),
    offsetof(struct conf_backend, tls.certificate),
    offsetof(struct conf_backend, tls.key),
};

static const char *const *
conf_copy_text(const struct conf_backend *conf, size_t i)
{
    return (const char *const *)(const void *)((const char *)conf + conf_copy_texts[i]);
}

/* The struct, its addresses, their lengths, then text: each begins aligned. */
struct conf_backend *
conf_backend_copy(const struct conf_backend *conf)
{
    const struct conf_address *from = &conf->address;
    struct conf_backend *c;
    /* Measured before: one block is freed by one free(), whatever has been made of it. */
    size_t addrs = from->naddrs * sizeof(from->addrs[0]);
    size_t lens = from->naddrs * sizeof(from->addr_lens[0]);
    size_t texts = 0;
    struct conf_block block;
    char *at;

    _Static_assert(sizeof(struct conf_backend) % _Alignof(struct sockaddr_storage) == 0,
        "addresses follow the struct");
    tassert(from->naddrs == 0 || !from->is_unix);
    tassert(from->naddrs == 0 || from->addrs != NULL);
    for (size_t i = 0; i < ARRAY_LEN(conf_copy_texts); i++)
        texts += strlen(conf_text_or_empty(*conf_copy_text(conf, i))) + 1;
    c = malloc(sizeof(*c) + addrs + lens + texts);
    if (c == NULL)
        return NULL;
    *c = *conf;
    c->probe = NULL; /* it was read when the probe was made */
    at = (char *)(c + 1);
    c->address.addrs = (struct sockaddr_storage *)(void *)at;
    c->address.addr_lens = (socklen_t *)(void *)(at + addrs);
    /* memcpy(3) of NULL is undefined, even for no bytes. */
    if (from->naddrs > 0) {
        memcpy(c->address.addrs, from->addrs, addrs);
        memcpy(c->address.addr_lens, from->addr_lens, lens);
    }
    block = (struct conf_block){at + addrs + lens, at + addrs + lens + texts};
    for (size_t i = 0; i < ARRAY_LEN(conf_copy_texts); i++) {
        const char **to = (const char **)(uintptr_t)conf_copy_text(c, i);

        *to = conf_block_text(&block, conf_text_or_empty(*to));
    }
    c->address.unresolved = NULL; /* whether it has addresses now, names.c knows */
    tassert(block.next == block.end);
    return c;
}
