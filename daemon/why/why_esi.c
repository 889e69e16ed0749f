/* why_esi.c -- a page that would be put together: what each of its includes would come to. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/terr.h"
#include "daemon/esi/esi_record.h"
#include "daemon/proxy/rep_esi.h"
#include "daemon/why/why_priv.h"
#include "storage/lease.h"
#include "storage/storage.h"

struct why_page {
    struct why *y;
    struct why_tree *tree;
    json_t *list;
    struct esi_decoder decoder;
};

static void
esi_say_more(struct why *y, const json_t *answer, unsigned depth)
{
    const json_t *list = json_object_get(answer, "includes");
    size_t n = json_array_size(list);

    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i);
        const json_t *url = json_object_get(one, "url"), *now = json_object_get(one, "now");

        why_say(y, "%*s%s: %s", (int)(2 * depth), "", url != NULL ? json_string_value(url) : "",
            now != NULL ? json_string_value(now) : "");
        esi_say_more(y, one, depth + 1);
    }
}

/* The absolute URL that an include's would be requested by.  NULL: it is none, or no memory. */
static char *
esi_absolute(const struct why *y, struct slice url)
{
    const struct http_message *page = y->r->head;
    struct slice authority = http_host(page), prefix = http_scheme_prefix(y->r->x->scheme);
    size_t max = http_path(page).len + url.len + 2, at;
    char *path = malloc(max), *out = NULL;
    int n = path == NULL ? TERR_NOMEM
                         : esi_resolve(&authority, http_path(page), url, (struct span){path, max});

    if (n > 0 && (out = malloc(prefix.len + authority.len + (size_t)n + 1)) != NULL) {
        memcpy(out, prefix.ptr, prefix.len);
        at = prefix.len;
        memcpy(out + at, authority.ptr, authority.len);
        at += authority.len;
        memcpy(out + at, path, (size_t)n);
        out[at + (size_t)n] = '\0';
    }
    free(path);
    return out;
}

static void
esi_ask(struct why_page *p, const struct esi_include *what)
{
    struct why_tree inner = *p->tree;
    char *url = esi_absolute(p->y, what->src);
    json_t *answer = NULL;
    const char *why;

    inner.level++;
    if (p->tree->left == 0 || inner.level > WHY_LEVELS_MAX) {
        answer = json_object();
        json_put_text(answer, "now", inner.level > WHY_LEVELS_MAX ? "too deep" : "too many");
    } else if (url != NULL) {
        inner.left--;
        if (why_ask(p->y->ps, slice_str(url), &inner, &answer, &why) != 0)
            answer = NULL;
        p->tree->left = inner.left;
    }
    if (answer == NULL) {
        answer = json_object();
        json_put_text(answer, "now", "no request can be made for it");
    }
    if (json_object_get(answer, "url") == NULL)
        json_put(answer, "url", json_any_text(url != NULL ? slice_str(url) : what->src));
    json_put(answer, "src", json_any_text(what->src));
    json_array_append_new(p->list, answer);
    free(url);
}

static int
esi_on_extent(void *ctx, const char *ptr, size_t len)
{
    struct why_page *p = ctx;
    struct slice in = slice_of(ptr, len);
    struct esi_event ev = {.what = ESI_TEXT};

    while (ev.what != ESI_NOTHING) {
        if (!esi_decode(&p->decoder, &in, &ev))
            return EINVAL;
        if (ev.what == ESI_INCLUDE)
            esi_ask(p, &ev.include);
    }
    return 0;
}

json_t *
why_includes(struct why *y, struct why_tree *tree)
{
    struct why_page *p = malloc(sizeof(*p));
    struct stobj *body = entry_part(y->page, 0).body;
    json_t *list = json_array();

    if (p != NULL) {
        p->y = y;
        p->tree = tree;
        p->list = list;
        esi_decode_init(&p->decoder);
        if (stobj_state(body) == STOBJ_SETTLED) /* else it comes, and nothing here may wait */
            lease_each(body, 0, LEASE_TO_END, NULL, NULL, esi_on_extent, p);
        free(p);
    }
    if (tree->level == 0) {
        json_t *answer = json_object();

        why_say(y, "It is a page with ESI: it is put together with %zu includes.",
            json_array_size(list));
        json_put(answer, "includes", json_incref(list));
        esi_say_more(y, answer, 1);
        json_decref(answer);
    }
    return list;
}
