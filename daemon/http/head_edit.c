/* head_edit.c -- changing a head without moving what was read from it. */
#include "daemon/http/head_edit.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

enum {
    EDIT_SPARE_BYTES = 512, /* for the first few changes */
    EDIT_SPARE_FIELDS = 12,
};

static char *
head_edit_bytes(const struct head_edit *e)
{
    return (char *)(uintptr_t)e->head.base; /* ours, so it may be written */
}

static int
head_edit_room(struct head_edit *e, uint32_t fields, uint32_t bytes)
{
    struct http_head *h = &e->head;
    struct http_field *f = arena_alloc(e->arena, fields * sizeof(*f));
    char *base = arena_alloc(e->arena, bytes);

    if (f == NULL || base == NULL)
        return TERR_NOMEM;
    h->fields = f;
    h->max_fields = (uint16_t)fields;
    h->base = base;
    e->room = bytes;
    return 0;
}

int
head_edit_init(
    struct head_edit *e, const struct http_head *from, struct arena *arena, unsigned fields_max)
{
    uint32_t fields = from->nfields + EDIT_SPARE_FIELDS;
    uint32_t bytes = from->len + EDIT_SPARE_BYTES;
    struct head_edit new = {.head = *from, .arena = arena, .used = from->len};

    new.fields_most = (uint16_t)(fields_max > from->nfields ? fields_max : from->nfields);
    if (head_edit_room(&new, fields, bytes) != 0)
        return TERR_NOMEM;
    memcpy(head_edit_bytes(&new), from->base, from->len);
    memcpy(new.head.fields, from->fields, from->nfields * sizeof(*from->fields));
    *e = new;
    return 0;
}

int
head_edit_response(struct head_edit *e, unsigned status, struct slice reason, struct arena *arena,
    unsigned fields_max)
{
    struct head_edit new = {.head = {.status = (uint16_t)status, .minor = 1},
        .arena = arena,
        .fields_most = (uint16_t)fields_max};

    if (head_edit_room(&new, EDIT_SPARE_FIELDS, EDIT_SPARE_BYTES) != 0)
        return TERR_NOMEM;
    *e = new;
    return head_edit_reason(e, reason);
}

/* A piece that is still in use, into the new buffer. */
static void
head_edit_move(const char *from, char *to, uint32_t *used, uint16_t *off, uint16_t len)
{
    memcpy(to + *used, from + *off, len);
    *off = (uint16_t)*used;
    *used += len;
}

/* A larger buffer, with what is in use alone. */
static int
head_edit_grow(struct head_edit *e, size_t more)
{
    struct http_head *h = &e->head;
    const char *from = h->base;
    size_t live = (size_t)h->method_len + h->target_len + h->path_len + h->host_len + h->reason_len;
    uint32_t used = 0, room;
    char *to;

    for (unsigned i = 0; i < h->nfields; i++)
        live += (size_t)h->fields[i].name_len + h->fields[i].value_len;
    if (live + more > LIMIT_HEAD_BYTES)
        return TERR_HEADTOOBIG;
    room = (uint32_t)(2 * (live + more));
    if (room > LIMIT_HEAD_BYTES)
        room = LIMIT_HEAD_BYTES;
    to = arena_alloc(e->arena, room);
    if (to == NULL)
        return TERR_NOMEM;
    head_edit_move(from, to, &used, &h->method_off, h->method_len);
    head_edit_move(from, to, &used, &h->target_off, h->target_len);
    head_edit_move(from, to, &used, &h->path_off, h->path_len);
    head_edit_move(from, to, &used, &h->host_off, h->host_len);
    head_edit_move(from, to, &used, &h->reason_off, h->reason_len);
    for (unsigned i = 0; i < h->nfields; i++) {
        head_edit_move(from, to, &used, &h->fields[i].name_off, h->fields[i].name_len);
        head_edit_move(from, to, &used, &h->fields[i].value_off, h->fields[i].value_len);
    }
    h->base = to;
    h->len = (uint16_t)used;
    e->used = used;
    e->room = room;
    return 0;
}

/* There are `more` bytes of room behind what is used. */
static int
head_edit_reserve(struct head_edit *e, size_t more)
{
    return more <= e->room - e->used ? 0 : head_edit_grow(e, more);
}

/* Reserved already. */
static void
head_edit_put(struct head_edit *e, struct slice s, uint16_t *off, uint16_t *len)
{
    tassert(s.len <= e->room - e->used);
    if (s.len > 0)
        memcpy(head_edit_bytes(e) + e->used, s.ptr, s.len);
    *off = (uint16_t)e->used;
    *len = (uint16_t)s.len;
    e->used += (uint32_t)s.len;
    e->head.len = (uint16_t)e->used;
}

static int
head_edit_room_field(struct head_edit *e)
{
    struct http_head *h = &e->head;
    unsigned max = h->max_fields * 2u;
    struct http_field *fields;

    if (h->nfields < h->max_fields && h->nfields < e->fields_most)
        return 0;
    if (h->nfields >= e->fields_most)
        return TERR_HEADTOOBIG;
    fields = arena_alloc(e->arena, max * sizeof(*fields));
    if (fields == NULL)
        return TERR_NOMEM;
    memcpy(fields, h->fields, h->nfields * sizeof(*fields));
    h->fields = fields;
    h->max_fields = (uint16_t)max;
    return 0;
}

static bool
head_edit_is(
    const struct http_head *h, const struct http_field *f, struct slice name, enum http_field_id id)
{
    if (id != HTTP_F_OTHER)
        return f->id == id;
    return f->id == HTTP_F_OTHER && slice_eq_nocase(http_name(h, f), name);
}

unsigned
head_edit_unset(struct head_edit *e, struct slice name, enum http_field_id id)
{
    struct http_head *h = &e->head;
    unsigned kept = 0, had = h->nfields;

    if (id != HTTP_F_OTHER && !http_has(h, id))
        return 0;
    for (unsigned i = 0; i < had; i++)
        if (!head_edit_is(h, &h->fields[i], name, id))
            h->fields[kept++] = h->fields[i];
    h->nfields = (uint16_t)kept;
    if (id != HTTP_F_OTHER)
        h->present &= ~HTTP_BIT(id);
    if (id == HTTP_F_HOST)
        h->host_len = 0;
    return had - kept;
}

/* A request's authority is what its Host says. */
static void
head_edit_note(struct http_head *h, const struct http_field *f)
{
    if (f->id != HTTP_F_OTHER)
        h->present |= HTTP_BIT(f->id);
    if (f->id == HTTP_F_HOST) {
        h->host_off = f->value_off;
        h->host_len = f->value_len;
    }
}

int
head_edit_add(struct head_edit *e, struct slice name, enum http_field_id id, struct slice value)
{
    struct http_head *h = &e->head;
    int err = head_edit_room_field(e);
    struct http_field *f;

    if (err == 0 && (name.len > LIMIT_HEAD_BYTES || value.len > LIMIT_HEAD_BYTES))
        err = TERR_HEADTOOBIG;
    if (err == 0)
        err = head_edit_reserve(e, name.len + value.len);
    if (err != 0)
        return err;
    f = &h->fields[h->nfields++];
    *f = (struct http_field){.id = (uint8_t)id, .said = true};
    head_edit_put(e, name, &f->name_off, &f->name_len);
    head_edit_put(e, value, &f->value_off, &f->value_len);
    head_edit_note(h, f);
    return 0;
}

int
head_edit_set(struct head_edit *e, struct slice name, enum http_field_id id, struct slice value)
{
    struct http_head *h = &e->head;
    struct http_field *f = NULL;
    unsigned kept = 0;
    int err;

    if (value.len > LIMIT_HEAD_BYTES)
        return TERR_HEADTOOBIG;
    if (id != HTTP_F_OTHER && !http_has(h, id))
        return head_edit_add(e, name, id, value);
    err = head_edit_reserve(e, value.len);
    if (err != 0)
        return err;
    for (unsigned i = 0; i < h->nfields; i++) {
        bool is = head_edit_is(h, &h->fields[i], name, id);

        if (is && f != NULL)
            continue;
        h->fields[kept] = h->fields[i];
        if (is)
            f = &h->fields[kept];
        kept++;
    }
    h->nfields = (uint16_t)kept;
    if (f == NULL)
        return head_edit_add(e, name, id, value);
    head_edit_put(e, value, &f->value_off, &f->value_len);
    f->drop = false;
    f->said = true;
    head_edit_note(h, f);
    return 0;
}

static int
head_edit_text(struct head_edit *e, struct slice text, uint16_t *off, uint16_t *len)
{
    int err = text.len > LIMIT_HEAD_BYTES ? TERR_HEADTOOBIG : head_edit_reserve(e, text.len);

    if (err == 0)
        head_edit_put(e, text, off, len);
    return err;
}

int
head_edit_method(struct head_edit *e, struct slice method)
{
    int err = head_edit_text(e, method, &e->head.method_off, &e->head.method_len);

    if (err == 0)
        e->head.method = (uint8_t)http_method_id(method);
    return err;
}

int
head_edit_path(struct head_edit *e, struct slice path)
{
    return head_edit_text(e, path, &e->head.path_off, &e->head.path_len);
}

int
head_edit_reason(struct head_edit *e, struct slice reason)
{
    return head_edit_text(e, reason, &e->head.reason_off, &e->head.reason_len);
}
