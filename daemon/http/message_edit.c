/* message_edit.c -- changing a head without moving what was read from it. */
#include "daemon/http/message_edit.h"

#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

enum {
    EDIT_SPARE_BYTES = 512, /* for the first few changes */
    EDIT_SPARE_FIELDS = 12,
};

static char *
message_edit_bytes(const struct message_edit *e)
{
    /* struct http_message has it const: heads that were received are shared. */
    return (char *)(uintptr_t)e->head.base; /* ours, so it may be written */
}

/* Both pieces or none is used: on TERR_NOMEM the caller gives nothing back, for the arena has
 * it. */
static int
message_edit_room(struct message_edit *e, uint32_t fields, uint32_t bytes)
{
    struct http_message *h = &e->head;
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
message_edit_init(struct message_edit *e, const struct http_message *from, struct arena *arena,
    unsigned fields_max)
{
    uint32_t fields = from->nfields + EDIT_SPARE_FIELDS;
    /* No more than offsets reach, as message_edit_grow(). */
    uint32_t bytes = from->len < LIMIT_HEAD_BYTES - EDIT_SPARE_BYTES ? from->len + EDIT_SPARE_BYTES
                                                                     : LIMIT_HEAD_BYTES;
    struct message_edit new = {.head = *from, .arena = arena, .used = from->len};

    /* A head that came with more than the limit keeps what it has: the limit is for what is
     * added. */
    new.fields_most = (uint16_t)(fields_max > from->nfields ? fields_max : from->nfields);
    if (message_edit_room(&new, fields, bytes) != 0)
        return TERR_NOMEM;
    memcpy(message_edit_bytes(&new), from->base, from->len);
    memcpy(new.head.fields, from->fields, from->nfields * sizeof(*from->fields));
    /* Behind all that may fail. */
    *e = new;
    return 0;
}

int
message_edit_response(struct message_edit *e, unsigned status, struct slice reason,
    struct arena *arena, unsigned fields_max)
{
    struct message_edit new = {
        .head = {.status = (uint16_t)status, .version_major = 1, .version_minor = 1},
        .arena = arena,
        .fields_most = (uint16_t)fields_max};

    if (message_edit_room(&new, EDIT_SPARE_FIELDS, EDIT_SPARE_BYTES) != 0)
        return TERR_NOMEM;
    *e = new;
    return message_edit_reason(e, reason);
}

/* A piece that is still in use, into the new buffer. */
static void
message_edit_move(const char *from, char *to, uint32_t *used, uint16_t *off, uint16_t len)
{
    memcpy(to + *used, from + *off, len);
    *off = (uint16_t)*used;
    *used += len;
}

/* A larger buffer, with what is in use alone. */
static int
message_edit_grow(struct message_edit *e, size_t more)
{
    struct http_message *h = &e->head;
    const char *from = h->base;
    size_t live =
        (size_t)h->method_len + h->target_len + h->path_len + h->authority_len + h->reason_len;
    uint32_t used = 0, room;
    char *to;

    /* What was unset or replaced is left behind: a policy that sets one field over and over needs
     * no more room for it. */
    for (unsigned i = 0; i < h->nfields; i++)
        live += (size_t)h->fields[i].name_len + h->fields[i].value_len;
    /* Before anything moves (invariant 18). */
    if (live + more > LIMIT_HEAD_BYTES)
        return TERR_HEADTOOBIG;
    /* Twice, so that a policy that appends often copies seldom; offsets are 16 bits, hence the
     * bound. */
    room = (uint32_t)(2 * (live + more));
    if (room > LIMIT_HEAD_BYTES)
        room = LIMIT_HEAD_BYTES;
    to = arena_alloc(e->arena, room);
    if (to == NULL)
        return TERR_NOMEM;
    message_edit_move(from, to, &used, &h->method_off, h->method_len);
    message_edit_move(from, to, &used, &h->target_off, h->target_len);
    message_edit_move(from, to, &used, &h->path_off, h->path_len);
    message_edit_move(from, to, &used, &h->authority_off, h->authority_len);
    message_edit_move(from, to, &used, &h->reason_off, h->reason_len);
    for (unsigned i = 0; i < h->nfields; i++) {
        message_edit_move(from, to, &used, &h->fields[i].name_off, h->fields[i].name_len);
        message_edit_move(from, to, &used, &h->fields[i].value_off, h->fields[i].value_len);
    }
    /* The old buffer stays in the arena: slices that were read point into it (invariant 18). */
    h->base = to;
    h->len = (uint16_t)used;
    e->used = used;
    e->room = room;
    return 0;
}

/* There are `more` bytes of room behind what is used. */
static int
message_edit_reserve(struct message_edit *e, size_t more)
{
    return more <= e->room - e->used ? 0 : message_edit_grow(e, more);
}

/* Reserved already. */
static void
message_edit_put(struct message_edit *e, struct slice s, uint16_t *off, uint16_t *len)
{
    tassert(s.len <= e->room - e->used);
    tassert(e->room <= LIMIT_HEAD_BYTES);
    if (s.len > 0)
        memcpy(message_edit_bytes(e) + e->used, s.ptr, s.len);
    *off = (uint16_t)e->used;
    *len = (uint16_t)s.len;
    e->used += (uint32_t)s.len;
    e->head.len = (uint16_t)e->used;
}

/* The old array stays in the arena, for what points into it. */
static int
message_edit_room_field(struct message_edit *e)
{
    struct http_message *h = &e->head;
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
message_edit_is(const struct http_message *h, const struct http_field *f, struct slice name,
    enum http_field_id id)
{
    if (id != HTTP_F_OTHER)
        return f->id == id;
    return f->id == HTTP_F_OTHER && slice_eq_nocase(http_name(h, f), name);
}

unsigned
message_edit_unset(struct message_edit *e, struct slice name, enum http_field_id id)
{
    struct http_message *h = &e->head;
    unsigned kept = 0, had = h->nfields;

    /* A bit for each known name: most that are unset are not there. */
    if (id != HTTP_F_OTHER && !http_has(h, id))
        return 0;
    for (unsigned i = 0; i < had; i++)
        if (!message_edit_is(h, &h->fields[i], name, id))
            /* In place, and their bytes stay: what was read of them is still readable. */
            h->fields[kept++] = h->fields[i];
    h->nfields = (uint16_t)kept;
    h->forms = 0;
    if (id != HTTP_F_OTHER)
        h->present &= ~HTTP_BIT(id);
    /* As message_edit_note() sets it. */
    if (id == HTTP_F_HOST)
        h->authority_len = 0;
    return had - kept;
}

/* A request's authority is what its Host says. */
static void
message_edit_note(struct http_message *h, const struct http_field *f)
{
    if (f->id != HTTP_F_OTHER)
        h->present |= HTTP_BIT(f->id);
    h->forms = 0;
    if (f->id == HTTP_F_HOST) {
        h->authority_off = f->value_off;
        h->authority_len = f->value_len;
    }
}

int
message_edit_add(
    struct message_edit *e, struct slice name, enum http_field_id id, struct slice value)
{
    struct http_message *h = &e->head;
    int err = message_edit_room_field(e);
    struct http_field *f;

    /* Each on its own, before they are added up. */
    if (err == 0 && (name.len > LIMIT_HEAD_BYTES || value.len > LIMIT_HEAD_BYTES))
        err = TERR_HEADTOOBIG;
    if (err == 0)
        err = message_edit_reserve(e, name.len + value.len);
    if (err != 0)
        return err;
    /* Room for the field and for its bytes is there: from here on nothing fails. */
    f = &h->fields[h->nfields++];
    *f = (struct http_field){.id = (uint8_t)id, .said = true};
    message_edit_put(e, name, &f->name_off, &f->name_len);
    message_edit_put(e, value, &f->value_off, &f->value_len);
    message_edit_note(h, f);
    return 0;
}

int
message_edit_set(
    struct message_edit *e, struct slice name, enum http_field_id id, struct slice value)
{
    struct http_message *h = &e->head;
    struct http_field *f = NULL;
    unsigned kept = 0;
    int err;

    if (value.len > LIMIT_HEAD_BYTES)
        return TERR_HEADTOOBIG;
    if (id != HTTP_F_OTHER && !http_has(h, id))
        return message_edit_add(e, name, id, value);
    /* Before anything changes: an error leaves the head as it was (invariant 18). */
    err = message_edit_reserve(e, value.len);
    if (err != 0)
        return err;
    for (unsigned i = 0; i < h->nfields; i++) {
        bool is = message_edit_is(h, &h->fields[i], name, id);

        if (is && f != NULL)
            continue;
        /* The first of the name keeps its place in the head, and its spelling. */
        h->fields[kept] = h->fields[i];
        if (is)
            f = &h->fields[kept];
        kept++;
    }
    h->nfields = (uint16_t)kept;
    if (f == NULL)
        return message_edit_add(e, name, id, value);
    /* The old value's bytes stay where they are: what a policy has read still points at them. */
    message_edit_put(e, value, &f->value_off, &f->value_len);
    /* Connection may have nominated the old one; this is a policy's. */
    f->drop = false;
    f->said = true;
    message_edit_note(h, f);
    return 0;
}

static int
message_edit_text(struct message_edit *e, struct slice text, uint16_t *off, uint16_t *len)
{
    int err = text.len > LIMIT_HEAD_BYTES ? TERR_HEADTOOBIG : message_edit_reserve(e, text.len);

    if (err == 0)
        message_edit_put(e, text, off, len);
    return err;
}

int
message_edit_method(struct message_edit *e, struct slice method)
{
    int err = message_edit_text(e, method, &e->head.method_off, &e->head.method_len);

    if (err == 0)
        /* The number goes with the text: the code asks the number. */
        e->head.method = (uint8_t)http_method_id(method);
    return err;
}

int
message_edit_path(struct message_edit *e, struct slice path)
{
    return message_edit_text(e, path, &e->head.path_off, &e->head.path_len);
}

int
message_edit_reason(struct message_edit *e, struct slice reason)
{
    return message_edit_text(e, reason, &e->head.reason_off, &e->head.reason_len);
}
