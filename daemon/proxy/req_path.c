/* req_path.c -- paths as backends may read them, for limits and routes: what is keyed and forwarded is the
 * path as it is written. */
#include "daemon/base/hex.h"
#include "daemon/proxy/req_priv.h"

/* How many bytes of the path at `at` stand for `c`: itself, or encoded; 0: they do not. */
static size_t
path_stands_for(struct slice path, size_t at, char c)
{
    if (at >= path.len)
        return 0;
    if (path.ptr[at] == c)
        return 1;
    return path.ptr[at] == '%' && path.len - at >= 3 &&
                   hex_digit(path.ptr[at + 1]) << 4 == (c & 0xf0) &&
                   hex_digit(path.ptr[at + 2]) == (c & 0x0f)
               ? 3
               : 0;
}

/* The next byte of the path, decoded once; how many it is written with. */
static size_t
path_byte(struct slice path, size_t at, char *c)
{
    int high, low;

    *c = path.ptr[at];
    if (*c != '%' || path.len - at < 3)
        return 1;
    high = hex_digit(path.ptr[at + 1]);
    low = hex_digit(path.ptr[at + 2]);
    if (high < 0 || low < 0)
        return 1;
    *c = (char)(high << 4 | low);
    return 3;
}

/* /%6cogin is /login (RFC 3986 6.2.2.2), to backends too, and to most so is //login: no request
 * goes uncounted by that spelling. */
bool
req_path_begins(struct slice path, const char *prefix)
{
    struct slice rest = slice_str(prefix);
    size_t at = 0, n;

    while (rest.len > 0) {
        char c;
        size_t written = path_byte(rest, 0, &c); /* /caf%C3%A9 in the file is decoded, too */

        /* %2F in the file is data and no separator (RFC 3986 2.2): it matches as it is written. */
        if (c == '/' && written > 1) {
            c = '%';
            written = 1;
        }
        n = path_stands_for(path, at, c);
        if (n == 0)
            return false;
        at += n;
        tassert_slow(at <= path.len);
        rest = slice_of(rest.ptr + written, rest.len - written);
        if (c != '/')
            continue;
        while ((n = path_stands_for(path, at, '/')) > 0)
            at += n;
        while (rest.len > 0 && *rest.ptr == '/')
            rest = slice_of(rest.ptr + 1, rest.len - 1);
    }
    return true;
}

/* Few paths have anything that a normal form would change, except what req_path_begins() reads. */
bool
req_path_is_plain(struct slice path)
{
    const char *mark = memchr(path.ptr, '?', path.len);
    size_t len = mark != NULL ? (size_t)(mark - path.ptr) : path.len;

    return memchr(path.ptr, '%', len) == NULL && memchr(path.ptr, ';', len) == NULL &&
           memmem(path.ptr, len, "/.", 2) == NULL;
}

/* The path as backends read it (RFC 3986 6.2.2): decoded, without empty segments, without parameters,
 * dot segments resolved, no query.  `out` has room for path.len + 2. */
struct slice
req_path_normal(struct slice path, char *out)
{
    const char *mark = memchr(path.ptr, '?', path.len);
    size_t len = 0, begin = 0, n; /* begin: of the segment that is written, behind its / */
    bool skips = false;
    char c = '/';

    if (mark != NULL)
        path.len = (size_t)(mark - path.ptr);
    out[len++] = '/';
    begin = len;
    /* One round more than there are bytes: the end closes the last segment, as a slash does. */
    for (size_t at = 0; at <= path.len; at += n) {
        n = at < path.len ? path_byte(path, at, &c) : 1;
        if (at < path.len && c != '/') {
            skips = skips || c == ';';
            if (!skips)
                out[len++] = c;
            continue;
        }
        skips = false;
        if (len - begin == 1 && out[begin] == '.') {
            len = begin;
        } else if (len - begin == 2 && memcmp(out + begin, "..", 2) == 0) {
            /* Back behind the slash of the segment before; the root has none before it. */
            len = begin > 1 ? begin - 1 : begin;
            while (len > 1 && out[len - 1] != '/')
                len--;
        } else if (len > begin && at < path.len) {
            out[len++] = '/';
        }
        begin = len;
    }
    tassert_slow(len >= 1);
    tassert(len <= path.len + 2); /* the room that callers make */
    return slice_of(out, len);
}
