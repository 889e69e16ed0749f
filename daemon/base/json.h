/* json.h -- the only home of jansson: trees of JSON values, read and written.
 *
 * Jansson's own names are used as they are; here is what they lack.  A tree that could not be
 * made is NULL, and so is what contains it: printing it reports the error.
 *
 * Threads: a tree is one thread's.  Off the path of requests.
 */
#ifndef TARN_JSON_H
#define TARN_JSON_H

#include <jansson.h>
#include <stddef.h>

#include "daemon/base/span.h"

/* The value that is the whole text.  The caller owns it and gives it to json_decref().  NULL: it is
 * not JSON, and `why` says where and what; or memory is out. */
json_t *json_parse(struct slice text, char *why, size_t why_size);
/* As indented text with a line end, which the caller frees.  NULL: no memory, or v is NULL. */
char *json_print(const json_t *v);

/* Text that may not be UTF-8: what is not ASCII in it shows as '?' then. */
json_t *json_any_text(struct slice text);
/* Into an object; a value that could not be made is left out, as memory is. */
void json_put(json_t *object, const char *key, json_t *value);         /* takes value */
void json_put_text(json_t *object, const char *key, const char *text); /* NULL: null */

#endif
