/* conf_copy.c -- a backend's settings, copied into one block of memory. */
#include "conf/conf_copy.h"

#include <stdlib.h>
#include <string.h>

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

/* The struct, its addresses, their lengths, then text: each begins aligned. */
struct conf_backend *
conf_backend_copy(const struct conf_backend *conf)
{
    const struct conf_address *from = &conf->address;
    const char *name = conf_text_or_empty(conf->name), *text = conf_text_or_empty(from->text);
    const char *path = conf_text_or_empty(from->path), *host = conf_text_or_empty(from->host);
    const char *header = conf_text_or_empty(conf->host_header);
    /* Measured before: one block is freed by one free(), whatever has been made of it. */
    size_t addrs = from->naddrs * sizeof(from->addrs[0]);
    size_t lens = from->naddrs * sizeof(from->addr_lens[0]);
    size_t texts = strlen(name) + strlen(text) + strlen(path) + strlen(host) + strlen(header) + 5;
    struct conf_backend *c;
    struct conf_block block;
    char *at;

    _Static_assert(sizeof(struct conf_backend) % _Alignof(struct sockaddr_storage) == 0,
        "addresses follow the struct");
    tassert(from->naddrs == 0 || !from->is_unix);
    tassert(from->naddrs == 0 || from->addrs != NULL);
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
    c->name = conf_block_text(&block, name);
    c->address.text = conf_block_text(&block, text);
    c->address.path = conf_block_text(&block, path);
    c->address.host = conf_block_text(&block, host);
    c->address.unresolved = NULL; /* whether it has addresses now, names.c knows */
    c->host_header = conf_block_text(&block, header);
    tassert(block.next == block.end);
    return c;
}
