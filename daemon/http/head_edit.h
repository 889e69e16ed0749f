/* head_edit.h -- a head that can be changed: the copy that a policy works on.
 *
 * Bytes and fields lie in an arena.  What was read from it before stays readable as long as the
 * arena: a change appends, and a full buffer is left for a larger one, never overwritten.
 *
 * Threads: none of its own.  Errors: TERR_NOMEM; TERR_HEADTOOBIG: more fields, or more bytes, than
 * a head can have; nothing has changed then.
 */
#ifndef TARN_HEAD_EDIT_H
#define TARN_HEAD_EDIT_H

#include "daemon/base/arena.h"
#include "daemon/http/head.h"

struct head_edit {
    struct http_head head; /* to be read as any other */
    struct arena *arena;   /* borrowed */
    uint32_t used, room;   /* bytes at head.base */
    uint16_t fields_most;  /* fields it may grow to */
};

/* A copy of `from`, of at most fields_max fields. */
int head_edit_init(
    struct head_edit *e, const struct http_head *from, struct arena *arena, unsigned fields_max);
/* An empty response. */
int head_edit_response(struct head_edit *e, unsigned status, struct slice reason,
    struct arena *arena, unsigned fields_max);

/* One field of this name with this value, where the first one was, else at the end.  `id` as
 * http_field_id() has it.  Name and value are valid (http_token_ok, http_value_ok). */
int head_edit_set(
    struct head_edit *e, struct slice name, enum http_field_id id, struct slice value);
/* One more. */
int head_edit_add(
    struct head_edit *e, struct slice name, enum http_field_id id, struct slice value);
/* All of this name; returns how many there were. */
unsigned head_edit_unset(struct head_edit *e, struct slice name, enum http_field_id id);

int head_edit_method(struct head_edit *e, struct slice method); /* a token */
int head_edit_path(struct head_edit *e, struct slice path);     /* see http_path_ok() */
int head_edit_reason(struct head_edit *e, struct slice reason);

#endif
