/* esi_parse.c -- the language, byte by byte.
 *
 * Each byte is given to the function of the state, which says what it makes of it and of those that were not
 * decided before it. */
#include "daemon/esi/esi_parse.h"

#include "daemon/base/tassert.h"

enum esi_state {
    ESI_S_BEGIN,    /* white space only, so far */
    ESI_S_OFF,      /* a page without ESI */
    ESI_S_TEXT,     /* between tags */
    ESI_S_TAG,      /* `hold`, and what is not decided of the input, begin a tag */
    ESI_S_SKIP,     /* to the end of a tag of others */
    ESI_S_COMMENT,  /* to -->; `tail`: dashes */
    ESI_S_CDATA,    /* to ]]> */
    ESI_S_CLOSE,    /* of <!--esi: perhaps --> */
    ESI_S_NAME,     /* behind <esi: */
    ESI_S_END_NAME, /* behind </esi: */
    ESI_S_DROP,     /* to the end of an element of ours without a further meaning */
    ESI_S_ATTRS,
    ESI_S_SLASH, /* one that closes the element: > follows */
    ESI_S_ATTR_NAME,
    ESI_S_VALUE_FIRST,
    ESI_S_VALUE,
};

/* Of a byte, and those that are not decided in front of it. */
enum esi_verdict {
    ESI_V_OPEN,  /* not decided either */
    ESI_V_TEXT,  /* all of them are text; or markup, within <esi:remove> */
    ESI_V_MARK,  /* markup */
    ESI_V_AGAIN, /* those in front are text, and the byte is looked at again */
    ESI_V_FIRST, /* the first of those in front is text, and the byte is looked at again */
};

void
esi_parse_init(struct esi_parser *p)
{
    memset(p, 0, offsetof(struct esi_parser, hold));
}

static bool
esi_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static enum esi_verdict
esi_wrong(struct esi_parser *p, char c, const char *why)
{
    p->errors++;
    if (p->why == NULL)
        p->why = why;
    p->state = c == '>' ? ESI_S_TEXT : ESI_S_DROP;
    return ESI_V_MARK;
}

/* ---- entities ---- */

/* As far as Varnish decodes them.  Returns the new length. */
static uint16_t
esi_decode_entities(char *text, uint16_t len)
{
    static const struct {
        const char *name;
        char byte;
    } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    uint16_t to = 0;

    for (uint16_t i = 0; i < len;) {
        unsigned e = 0;

        while (e < 5 && (strlen(entities[e].name) > (size_t)(len - i) ||
                            memcmp(text + i, entities[e].name, strlen(entities[e].name)) != 0))
            e++;
        text[to++] = e < 5 ? entities[e].byte : text[i];
        i = (uint16_t)(i + (e < 5 ? strlen(entities[e].name) : 1));
    }
    return to;
}

/* ---- elements ---- */

/* The '>' of a start tag. */
static enum esi_verdict
esi_element_ends(struct esi_parser *p)
{
    p->state = ESI_S_TEXT;
    if (p->removes) {
        p->removing = !p->closes;
        return ESI_V_MARK;
    }
    if (!p->has_src)
        return esi_wrong(p, '>', "an include without src");
    p->nsrc = esi_decode_entities(p->src, p->nsrc);
    p->nalt = esi_decode_entities(p->alt, p->nalt);
    p->due = true;
    return ESI_V_MARK;
}

static bool
esi_is_name(const struct esi_parser *p, const char *name)
{
    return p->nname == strlen(name) && memcmp(p->name, name, p->nname) == 0;
}

/* Names longer than those of interest are all the same. */
static void
esi_name_add(struct esi_parser *p, char c)
{
    if (p->nname < ESI_NAME_MAX)
        p->name[p->nname++] = c;
}

/* XML 1.0 2.3; of bytes above ASCII, all. */
static bool
esi_starts_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (unsigned char)c >= 0x80;
}

static enum esi_verdict
esi_do_attrs(struct esi_parser *p, char c)
{
    if (c == '>')
        return esi_element_ends(p);
    if (c == '/') {
        p->state = ESI_S_SLASH;
    } else if (!esi_is_space(c)) {
        if (!esi_starts_name(c))
            return esi_wrong(p, c, "an attribute without a name");
        p->nname = 0;
        p->state = ESI_S_ATTR_NAME;
        return ESI_V_AGAIN;
    }
    return ESI_V_MARK;
}

/* The byte behind the name of <esi:name. */
static enum esi_verdict
esi_name_ends(struct esi_parser *p, char c)
{
    bool include = esi_is_name(p, "include");

    p->state = c == '>' ? ESI_S_TEXT : ESI_S_DROP;
    if (esi_is_name(p, "comment"))
        return ESI_V_MARK;
    p->removes = esi_is_name(p, "remove");
    if (!include && !p->removes)
        return esi_wrong(p, c, "an unknown element");
    if (p->removing) /* it is removed itself */
        return ESI_V_MARK;
    p->closes = p->has_src = p->has_alt = false;
    p->nsrc = p->nalt = p->nonerror = 0;
    p->state = ESI_S_ATTRS;
    return esi_do_attrs(p, c);
}

static enum esi_verdict
esi_do_name(struct esi_parser *p, char c)
{
    if (c == '>' || c == '/' || esi_is_space(c))
        return esi_name_ends(p, c);
    esi_name_add(p, c);
    return ESI_V_MARK;
}

static enum esi_verdict
esi_do_end_name(struct esi_parser *p, char c)
{
    if (c != '>' && c != '/' && !esi_is_space(c)) {
        esi_name_add(p, c);
        return ESI_V_MARK;
    }
    /* What stands between here and the '>' is dropped all the same. */
    if (c != '/' && esi_is_name(p, "remove"))
        p->removing = false;
    p->state = c == '>' ? ESI_S_TEXT : ESI_S_DROP;
    return ESI_V_MARK;
}

/* ---- attributes ---- */

static enum esi_verdict
esi_attr_begins(struct esi_parser *p, char c)
{
    p->attr = esi_is_name(p, "src")       ? ESI_ATTR_SRC
              : esi_is_name(p, "alt")     ? ESI_ATTR_ALT
              : esi_is_name(p, "onerror") ? ESI_ATTR_ONERROR
                                          : ESI_ATTR_OTHER;
    if (p->removes)
        p->attr = ESI_ATTR_OTHER;
    if (c != '=') {
        if (p->attr == ESI_ATTR_SRC || p->attr == ESI_ATTR_ALT)
            return esi_wrong(p, c, "an attribute without a value");
        p->state = ESI_S_ATTRS;
        return esi_do_attrs(p, c);
    }
    if (p->attr == ESI_ATTR_SRC && p->has_src)
        return esi_wrong(p, c, "an include with two src");
    if (p->attr == ESI_ATTR_ALT && p->has_alt)
        p->attr = ESI_ATTR_OTHER; /* the first one counts */
    p->has_src = p->has_src || p->attr == ESI_ATTR_SRC;
    p->has_alt = p->has_alt || p->attr == ESI_ATTR_ALT;
    p->state = ESI_S_VALUE_FIRST;
    return ESI_V_MARK;
}

static enum esi_verdict
esi_do_attr_name(struct esi_parser *p, char c)
{
    if (c == '=' || c == '>' || c == '/' || esi_is_space(c))
        return esi_attr_begins(p, c);
    esi_name_add(p, c);
    return ESI_V_MARK;
}

static enum esi_verdict
esi_value_add(struct esi_parser *p, char c)
{
    uint16_t *n = p->attr == ESI_ATTR_SRC ? &p->nsrc : &p->nalt;
    char *to = p->attr == ESI_ATTR_SRC ? p->src : p->alt;

    if (p->attr == ESI_ATTR_ONERROR) {
        if (p->nonerror < ESI_ONERROR_MAX)
            p->onerror[p->nonerror++] = c;
        return ESI_V_MARK;
    }
    if (p->attr == ESI_ATTR_OTHER)
        return ESI_V_MARK;
    if (*n == ESI_URL_MAX)
        return esi_wrong(p, c, "a URL that is too long");
    if (esi_is_space(c) && p->attr == ESI_ATTR_SRC)
        return esi_wrong(p, c, "white space in src");
    to[(*n)++] = c;
    return ESI_V_MARK;
}

static enum esi_verdict
esi_do_value_first(struct esi_parser *p, char c)
{
    if (c == '>' || esi_is_space(c))
        return esi_wrong(p, c, "an attribute without a value");
    p->state = ESI_S_VALUE;
    p->quote = c == '"' || c == '\'' ? c : '\0';
    return p->quote != '\0' ? ESI_V_MARK : esi_value_add(p, c);
}

static enum esi_verdict
esi_value_ends(struct esi_parser *p)
{
    if (p->attr == ESI_ATTR_SRC && p->nsrc == 0)
        return esi_wrong(p, '\0', "an include with an empty src");
    p->state = ESI_S_ATTRS;
    return ESI_V_MARK;
}

static enum esi_verdict
esi_do_value(struct esi_parser *p, char c)
{
    if (c == '>') /* in quotes, too: as Varnish */
        return esi_wrong(p, c, "a value that is not ended");
    if (p->quote != '\0' ? c == p->quote : esi_is_space(c))
        return esi_value_ends(p);
    return esi_value_add(p, c);
}

static enum esi_verdict
esi_do_slash(struct esi_parser *p, char c)
{
    if (c != '>')
        return esi_wrong(p, c, "a slash within an element");
    p->closes = true;
    return esi_element_ends(p);
}

/* ---- between elements ---- */

/* A mark of the order of bytes, in UTF-8, does not count. */
static enum esi_verdict
esi_do_begin(struct esi_parser *p, char c)
{
    static const char mark[] = "\xef\xbb\xbf";

    if (p->tail < 3 && c == mark[p->tail] && (p->tail > 0 || !p->bom)) {
        p->tail++;
        return ESI_V_TEXT;
    }
    p->bom = true; /* it stands in front of everything, or nowhere */
    if (p->tail == 1 || p->tail == 2) {
        p->state = ESI_S_OFF;
    } else if (c == '<') {
        p->state = ESI_S_TEXT;
        return ESI_V_AGAIN;
    } else if (!esi_is_space(c)) {
        p->state = ESI_S_OFF;
    }
    return ESI_V_TEXT;
}

static enum esi_verdict
esi_do_text(struct esi_parser *p, char c)
{
    if (c == '<')
        p->state = ESI_S_TAG;
    else if (c == '-' && p->commented)
        p->state = ESI_S_CLOSE;
    else
        return ESI_V_TEXT;
    p->tail = 1;
    p->starts = ESI_STARTS_ALL;
    return ESI_V_OPEN;
}

/* Two dashes, and more dashes, may be followed by '>'. */
static enum esi_verdict
esi_do_close(struct esi_parser *p, char c)
{
    if (c == '-' && p->tail == 1) {
        p->tail = 2;
        return ESI_V_OPEN;
    }
    if (c == '-') {
        p->tail = 1;
        return ESI_V_FIRST;
    }
    p->state = ESI_S_TEXT;
    if (c != '>' || p->tail < 2)
        return ESI_V_AGAIN;
    p->commented = false;
    return ESI_V_MARK;
}

/* What a tag may begin with that is of interest. */
static const struct {
    const char *text;
    enum esi_state state;
} esi_starts[] = {
    {"<esi:", ESI_S_NAME},
    {"</esi:", ESI_S_END_NAME},
    {"<![CDATA[", ESI_S_CDATA},
    {"<!--esi", ESI_S_TEXT},
};
enum {
    ESI_STARTS = sizeof(esi_starts) / sizeof(esi_starts[0]),
    ESI_DASHES_AT = 4, /* behind <!-- */
};
_Static_assert(ESI_STARTS_ALL == (1 << ESI_STARTS) - 1, "a bit for each");

/* One of them is complete. */
static enum esi_verdict
esi_tag_begins(struct esi_parser *p, enum esi_state state)
{
    p->state = (uint8_t)state;
    p->nname = p->tail = 0;
    if (state == ESI_S_CDATA)
        return ESI_V_TEXT;
    p->commented = p->commented || state == ESI_S_TEXT;
    return ESI_V_MARK;
}

/* `tail` bytes of it came: they begin the texts that have a bit in `starts`. */
static enum esi_verdict
esi_do_tag(struct esi_parser *p, char c)
{
    unsigned left = 0;

    for (unsigned i = 0; i < ESI_STARTS; i++) {
        const char *text = esi_starts[i].text;

        if ((p->starts >> i & 1) == 0 || text[p->tail] != c)
            continue;
        if (text[p->tail + 1] == '\0')
            return esi_tag_begins(p, esi_starts[i].state);
        left |= 1u << i;
    }
    if (left == 0) {
        /* Only the last has four bytes before it turns out to be another one: a comment like any. */
        p->state = p->tail >= ESI_DASHES_AT && p->starts == 1 << (ESI_STARTS - 1) ? ESI_S_COMMENT
                                                                                  : ESI_S_SKIP;
        p->tail = 0;
        return ESI_V_AGAIN;
    }
    p->starts = (uint8_t)left;
    p->tail++;
    return ESI_V_OPEN;
}

/* To `end` twice and '>'; in between anything. */
static enum esi_verdict
esi_do_until(struct esi_parser *p, char c, char end)
{
    if (c == end)
        p->tail = p->tail < 2 ? (uint8_t)(p->tail + 1) : 2;
    else if (c == '>' && p->tail == 2)
        p->state = ESI_S_TEXT;
    else
        p->tail = 0;
    return ESI_V_TEXT;
}

static enum esi_verdict
esi_step(struct esi_parser *p, char c)
{
    switch ((enum esi_state)p->state) {
    case ESI_S_BEGIN:
        return esi_do_begin(p, c);
    case ESI_S_OFF:
        return ESI_V_TEXT;
    case ESI_S_TEXT:
        return esi_do_text(p, c);
    case ESI_S_TAG:
        return esi_do_tag(p, c);
    case ESI_S_SKIP:
        p->state = c == '>' ? ESI_S_TEXT : ESI_S_SKIP;
        return ESI_V_TEXT;
    case ESI_S_DROP:
        p->state = c == '>' ? ESI_S_TEXT : ESI_S_DROP;
        return ESI_V_MARK;
    case ESI_S_COMMENT:
        return esi_do_until(p, c, '-');
    case ESI_S_CDATA:
        return esi_do_until(p, c, ']');
    case ESI_S_CLOSE:
        return esi_do_close(p, c);
    case ESI_S_NAME:
        return esi_do_name(p, c);
    case ESI_S_END_NAME:
        return esi_do_end_name(p, c);
    case ESI_S_ATTRS:
        return esi_do_attrs(p, c);
    case ESI_S_SLASH:
        return esi_do_slash(p, c);
    case ESI_S_ATTR_NAME:
        return esi_do_attr_name(p, c);
    case ESI_S_VALUE_FIRST:
        return esi_do_value_first(p, c);
    case ESI_S_VALUE:
        return esi_do_value(p, c);
    }
    TUNREACHABLE("state of the ESI parser");
}

/* ---- runs ---- */

/* How many bytes of `in` are surely text, without a look at each? */
static size_t
esi_plain(const struct esi_parser *p, struct slice in)
{
    const char *stop;

    if (p->state == ESI_S_OFF)
        return in.len;
    if ((p->state != ESI_S_TEXT || p->commented) && p->state != ESI_S_SKIP)
        return 0;
    stop = memchr(in.ptr, p->state == ESI_S_TEXT ? '<' : '>', in.len);
    return stop == NULL ? in.len : (size_t)(stop - in.ptr);
}

static uint8_t
esi_kind(const struct esi_parser *p, enum esi_verdict v)
{
    return v == ESI_V_MARK || p->removing ? ESI_MARKUP : ESI_TEXT;
}

/* The run at the beginning of the input. */
static void
esi_emit(struct esi_parser *p, struct slice *in, struct esi_event *e)
{
    tassert(p->ahead > 0 && p->ahead <= in->len && p->nhold == 0);
    e->what = (enum esi_what)p->kind;
    e->run = slice_of(in->ptr, p->ahead);
    *in = slice_of(in->ptr + p->ahead, in->len - p->ahead);
    p->ahead = 0;
}

/* What was held of pieces before: the first `n` bytes of it are decided. */
static void
esi_emit_held(struct esi_parser *p, size_t n, uint8_t kind, struct esi_event *e)
{
    tassert(n > 0 && n <= p->nhold);
    /* Where some are held still, all are the same byte: none has to be moved. */
    tassert(n == p->nhold || p->hold[0] == p->hold[n]);
    p->nhold = (uint8_t)(p->nhold - n);
    e->what = (enum esi_what)kind;
    e->run = slice_of(p->hold, n);
}

static void
esi_emit_include(struct esi_parser *p, struct esi_event *e)
{
    p->due = false;
    e->what = ESI_INCLUDE;
    e->include = (struct esi_include){slice_of(p->src, p->nsrc), slice_of(p->alt, p->nalt),
        p->nonerror == 8 && memcmp(p->onerror, "continue", 8) == 0};
}

/* Looks at the byte at `at`, or at many at once, and moves it on.  How many are decided, and their kind; those that
 * are held are among them. */
static size_t
esi_look(struct esi_parser *p, struct slice in, size_t *at, uint8_t *kind)
{
    size_t open = p->nhold + (*at - p->ahead), n = 0;
    enum esi_verdict v = ESI_V_TEXT;

    if (open == 0)
        n = esi_plain(p, slice_of(in.ptr + *at, in.len - *at));
    if (n == 0) {
        uint8_t removed = esi_kind(p, ESI_V_TEXT);

        v = esi_step(p, in.ptr[*at]);
        *at += v != ESI_V_AGAIN && v != ESI_V_FIRST;
        /* The byte that ends the removing is no text. */
        *kind = v == ESI_V_MARK ? ESI_MARKUP : removed;
        return v == ESI_V_OPEN ? 0 : v == ESI_V_FIRST ? 1 : v == ESI_V_AGAIN ? open : open + 1;
    }
    *at += n;
    *kind = esi_kind(p, v);
    return n;
}

/* The end of the input: bytes that are not decided are kept. */
static void
esi_keep_open(struct esi_parser *p, struct slice *in, bool ends, struct esi_event *e)
{
    tassert(p->ahead == 0 && p->nhold + in->len <= ESI_HOLD_MAX);
    if (in->len > 0) {
        memcpy(p->hold + p->nhold, in->ptr, in->len);
        p->nhold = (uint8_t)(p->nhold + in->len);
        *in = slice_of(in->ptr + in->len, 0);
    }
    p->open = 0;
    if (ends && p->nhold > 0)
        esi_emit_held(p, p->nhold, esi_kind(p, ESI_V_TEXT), e);
}

void
esi_parse_next(struct esi_parser *p, struct slice *in, bool ends, struct esi_event *e)
{
    size_t at = p->ahead + p->open;
    uint8_t kind = 0;

    tassert(at <= in->len);
    e->what = ESI_NOTHING;
    if (p->due && p->ahead == 0) {
        esi_emit_include(p, e);
        return;
    }
    while (at < in->len && e->what == ESI_NOTHING) {
        size_t n = esi_look(p, *in, &at, &kind), held = n < p->nhold ? n : p->nhold;

        p->open = at - p->ahead;
        if (n == 0)
            continue;
        if (held > 0)
            esi_emit_held(p, held, kind, e);
        else if (p->ahead > 0 && p->kind != kind)
            esi_emit(p, in, e);
        p->kind = kind;
        p->ahead += n - held;
        /* What was emitted is not part of the input any more. */
        at = e->what == ESI_NOTHING || held > 0 ? at : at - e->run.len;
        p->open = at - p->ahead;
        if (p->due && e->what == ESI_NOTHING)
            esi_emit(p, in, e);
    }
    if (e->what != ESI_NOTHING)
        return;
    if (p->ahead > 0)
        esi_emit(p, in, e);
    else
        esi_keep_open(p, in, ends, e);
}
