/* message_edit.h -- a head that can be changed: the copy that a policy works on.
 *
 * Bytes and fields lie in an arena.  What was read from it before stays readable as long as the
 * arena: a change appends, and a full buffer is left for a larger one, never overwritten.
 *
 * Threads: none of its own.  Errors: TERR_NOMEM; TERR_HEADTOOBIG: more fields, or more bytes, than
 * a head can have; nothing has changed then.
 */
#ifndef TARN_MESSAGE_EDIT_H
#define TARN_MESSAGE_EDIT_H

#include "daemon/base/arena.h"
#include "daemon/http/message.h"

struct message_edit {
    struct http_message head; /* to be read as any other */
    struct arena *arena;      /* borrowed */
    uint32_t used, room;      /* bytes at head.base */
    uint16_t fields_most;     /* fields it may grow to */
};

/* A copy of `from`, of at most fields_max fields. */
int message_edit_init(struct message_edit *e, const struct http_message *from, struct arena *arena,
    unsigned fields_max);
/* An empty response. */
int message_edit_response(struct message_edit *e, unsigned status, struct slice reason,
    struct arena *arena, unsigned fields_max);

/* One field of this name with this value, where the first one was, else at the end.  `id` as
 * http_field_id() has it.  Name and value are valid (http_token_ok, http_value_ok). */
int message_edit_set(
    struct message_edit *e, struct slice name, enum http_field_id id, struct slice value);
/* One more. */
int message_edit_add(
    struct message_edit *e, struct slice name, enum http_field_id id, struct slice value);
/* All of this name; returns how many there were. */
unsigned message_edit_unset(struct message_edit *e, struct slice name, enum http_field_id id);

int message_edit_method(struct message_edit *e, struct slice method); /* a token */
int message_edit_path(struct message_edit *e, struct slice path);     /* see http_path_ok() */
int message_edit_reason(struct message_edit *e, struct slice reason);

#endif
