/* conf_env.c -- ${NAME} and ${NAME:-default} in values of the file.
 *
 *    address: "${BACKEND:-127.0.0.1}:9000"     token: ${TARN_TOKEN}
 *
 * Expanded when the tree is made, value by value, so no variable can add a key, a list or a
 * comment: its text stays one text, whatever is in it.
 */
#include <string.h>

#include "conf/conf_priv.h"
#include "daemon/base/obj.h"

#define ENV_NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

enum {
    ENV_VALUE_MAX = 64 * 1024, /* bytes of a value, expanded */
};

/* Where the text is copied to; the first pass counts only. */
struct env_out {
    char *to; /* NULL: count */
    size_t len;
};

static void
env_put(struct env_out *out, const char *text, size_t len)
{
    if (out->to != NULL)
        memcpy(out->to + out->len, text, len);
    out->len += len;
}

/* `at` is behind "${".  Returns what follows the '}', or NULL: reported. */
static const char *
env_one(
    struct conf_cx *cx, const struct ynode *n, const char *at, const char *end, struct env_out *out)
{
    size_t len = strspn(at, ENV_NAME_CHARS);
    const char *close = memchr(at, '}', (size_t)(end - at)), *value;
    char name[CONF_QUOTE_BYTES];

    tassert(at <= end); /* the node's text ends in a NUL, so strspn() stays in it */
    conf_quote(name, slice_of(at, len));
    if (close == NULL || len == 0 || (at[0] >= '0' && at[0] <= '9') ||
        (at + len != close && strncmp(at + len, ":-", 2) != 0)) {
        conf_fail(cx, n,
            "'${' begins a variable of the environment: write ${NAME}, "
            "${NAME:-default}, or $${ for the text itself");
        return NULL;
    }
    value = len < sizeof(name) && cx->env != NULL ? cx->env(name) : NULL;
    if (at + len != close) { /* as in a shell: an empty one has the default, too */
        if (value == NULL || value[0] == '\0')
            env_put(out, at + len + 2, (size_t)(close - at) - len - 2);
        else
            env_put(out, value, strlen(value));
    } else if (value != NULL) {
        env_put(out, value, strlen(value));
    } else {
        conf_fail(cx, n,
            "${%s}: the environment has no variable %s: set it where tarnd is started, or write "
            "${%s:-default}",
            name, name, name);
        return NULL;
    }
    return close + 1;
}

/* Runs twice: to count, and to copy into memory of that size.  Errors can come in the first pass
 * only. */
static bool
env_pass(struct conf_cx *cx, const struct ynode *n, struct env_out *out)
{
    const char *at = n->text.ptr, *end = at + n->text.len, *var;

    for (; (var = memmem(at, (size_t)(end - at), "${", 2)) != NULL;) {
        /* Within what has not been copied yet: the $ of a variable before is not meant. */
        if (var > at && var[-1] == '$') { /* $${ */
            env_put(out, at, (size_t)(var - at) - 1);
            env_put(out, "${", 2);
            at = var + 2;
            continue;
        }
        env_put(out, at, (size_t)(var - at));
        at = env_one(cx, n, var + 2, end, out);
        if (at == NULL)
            return false;
        tassert(at <= end);
    }
    env_put(out, at, (size_t)(end - at));
    return true;
}

void
conf_env_expand(struct conf_cx *cx, struct ynode *n)
{
    struct env_out out = {.to = NULL};
    size_t counted;

    if (n->kind != YNODE_TEXT || memmem(n->text.ptr, n->text.len, "${", 2) == NULL)
        return;
    if (!env_pass(cx, n, &out)) {
        n->kind = YNODE_BAD;
        return;
    }
    if (out.len > ENV_VALUE_MAX) {
        conf_fail(cx, n, "the value has more than %d bytes with its variables", ENV_VALUE_MAX);
        n->kind = YNODE_BAD;
        return;
    }
    out.to = conf_alloc(cx, cx->scratch, out.len + 1, 1);
    if (out.to == NULL)
        return;
    counted = out.len;
    out.len = 0;
    env_pass(cx, n, &out);
    tassert(out.len == counted); /* no thread changes the environment between the passes */
    n->text = slice_of(out.to, out.len);
    n->quoted = true; /* an empty one is an empty text, and not nothing */
}
