/* conf_content.c -- is what decides what an object is the same in two files?
 *
 * A number over the sections that say where responses come from and what becomes of them on their way into the cache.
 * It is over what the file says, its variables and included files in place, and not over what that means: `60s` is
 * another text than `1m`.  Comments, white space and quotes do not count. */
#include "conf/conf_priv.h"
#include "daemon/base/hash.h"

static uint64_t
content_add(uint64_t digest, uint64_t more)
{
    const uint64_t both[2] = {digest, more};

    return hash_plain(both, sizeof(both));
}

/* In the order of the file: of backends, routes and members the order means something. */
static uint64_t
content_of(const struct ynode *n)
{
    uint64_t digest = ynode_is_null(n) ? UINT64_MAX : (uint64_t)n->kind; /* ~ is no text */

    if (n->kind == YNODE_TEXT)
        return content_add(digest, hash_plain(n->text.ptr, n->text.len));
    for (const struct ynode *c = n->children; c != NULL; c = c->next) {
        if (c->key != NULL)
            digest = content_add(digest, hash_plain(c->key->text.ptr, c->key->text.len));
        digest = content_add(digest, content_of(c)); /* as deep as CONF_DEPTH_MAX */
    }
    return content_add(digest, n->nchildren);
}

uint64_t
conf_content(const struct ynode *root)
{
    static const char *const sections[] = {"backends", "directors", "routes", "compress", "esi"};
    uint64_t digest = 0;

    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        const struct ynode *n = ynode_get(root, sections[i]);

        digest = content_add(digest, n != NULL ? content_of(n) : 0);
    }
    return digest;
}
