/* cdn_loop.c -- has this request been here before?
 *
 * CDN-Loop (RFC 8586) and Via name each hop that a request has passed.  Our own name in it means
 * that a backend leads back to us.  Counting errs on the side of a loop: a client that writes
 * our name into a request harms its own request alone, a loop that is overlooked takes every
 * connection.
 */
#include "daemon/http/cdn_loop.h"

#include <string.h>

#include "daemon/http/token.h"

static struct slice
cdn_loop_skip_ows(struct slice s)
{
    while (s.len > 0 && (*s.ptr == ' ' || *s.ptr == '\t'))
        s = slice_of(s.ptr + 1, s.len - 1);
    return s;
}

/* Up to the first byte that no token has. */
static struct slice
cdn_loop_word(struct slice s)
{
    size_t len = 0;

    while (len < s.len && http_char_is(s.ptr[len], HTTP_C_TCHAR))
        len++;
    return slice_of(s.ptr, len);
}

/* The next member, and what stands behind its comma; false: there is none. */
static bool
cdn_loop_next(struct slice *rest, struct slice *member)
{
    const char *comma;

    if (rest->len == 0)
        return false;
    /* Behind each comma, in quotes too (invariant 21): not http_cut(). */
    comma = memchr(rest->ptr, ',', rest->len);
    *member = slice_of(rest->ptr, comma == NULL ? rest->len : (size_t)(comma - rest->ptr));
    *rest = slice_of(rest->ptr + member->len, rest->len - member->len);
    if (comma != NULL)
        *rest = slice_of(rest->ptr + 1, rest->len - 1);
    *member = cdn_loop_skip_ows(*member);
    return true;
}

/* A cdn-id ends with the member, or where its parameters begin; a host may have a port. */
static bool
cdn_loop_is_named(struct slice member, struct slice id)
{
    struct slice word = cdn_loop_word(member);
    struct slice behind = slice_of(member.ptr + word.len, member.len - word.len);

    /* Behind a colon stands a port: another host's name that begins like ours. */
    return slice_eq_nocase(word, id) && (behind.len == 0 || *behind.ptr != ':');
}

unsigned
cdn_loop_count(const struct http_message *h, struct slice id)
{
    const struct http_field *f = NULL;
    unsigned n = 0;

    while ((f = http_find(h, HTTP_F_CDN_LOOP, f)) != NULL) {
        struct slice rest = http_value(h, f), member;

        while (cdn_loop_next(&rest, &member))
            n += cdn_loop_is_named(member, id);
    }
    return n;
}

bool
cdn_loop_is_last(const struct http_message *h, struct slice id)
{
    const struct http_field *f = NULL;
    bool last = false;

    while ((f = http_find(h, HTTP_F_CDN_LOOP, f)) != NULL) {
        struct slice rest = http_value(h, f), member;

        while (cdn_loop_next(&rest, &member))
            last = cdn_loop_is_named(member, id);
    }
    return last;
}

unsigned
cdn_loop_count_via(const struct http_message *h, struct slice pseudonym)
{
    const struct http_field *f = NULL;
    unsigned n = 0;

    while ((f = http_find(h, HTTP_F_VIA, f)) != NULL) {
        struct slice rest = http_value(h, f), member;

        while (cdn_loop_next(&rest, &member)) {
            const char *space = memchr(member.ptr, ' ', member.len); /* behind "1.1", "HTTP/1.1" */
            size_t at = space == NULL ? member.len : (size_t)(space - member.ptr);

            member = cdn_loop_skip_ows(slice_of(member.ptr + at, member.len - at));
            n += cdn_loop_is_named(member, pseudonym);
        }
    }
    return n;
}

/* What came goes on as it came, also what is malformed: hops behind us count their own names in it
 * (RFC 8586 2).  .ptr NULL: no memory. */
struct slice
cdn_loop_extend(const struct http_message *h, struct slice id, struct arena *arena)
{
    const struct http_field *f = NULL;
    size_t len = id.len;
    char *out, *p;

    if (id.len == 0)
        return slice_of("", 0);
    if (!http_has(h, HTTP_F_CDN_LOOP))
        return id;
    while ((f = http_find(h, HTTP_F_CDN_LOOP, f)) != NULL)
        len += f->value_len + 2u;
    p = out = arena_alloc(arena, len);
    if (out == NULL)
        return slice_of(NULL, 0);
    while ((f = http_find(h, HTTP_F_CDN_LOOP, f)) != NULL) {
        if (f->value_len == 0)
            continue;
        memcpy(p, http_value(h, f).ptr, f->value_len);
        memcpy(p + f->value_len, ", ", 2);
        p += f->value_len + 2;
    }
    memcpy(p, id.ptr, id.len);
    return slice_of(out, (size_t)(p - out) + id.len);
}
