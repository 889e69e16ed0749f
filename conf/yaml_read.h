/* yaml_read.h -- YAML text as a tree of nodes that know their place.
 *
 * Only yaml_read.c knows libyaml.  A node is text, a list or a map; what Tarn does not take
 * from YAML (anchors, aliases, tags, several documents) is an error here, once for all.
 *
 *   cut  a node that the syntax broke inside of or right behind: what seems to be missing
 *        from it may stand in the part that was not read
 */
#ifndef TARN_YAML_READ_H
#define TARN_YAML_READ_H

#include <stdbool.h>

#include "daemon/base/span.h"

struct conf_cx;
struct conf_file;

enum ynode_kind {
    YNODE_TEXT,
    YNODE_LIST,
    YNODE_MAP,
    YNODE_BAD, /* an error was reported for it: say no more */
};

struct ynode {
    enum ynode_kind kind;
    unsigned line, column;        /* from 1 */
    const struct conf_file *file; /* NULL: the one that includes others */
    bool quoted;
    bool cut;
    unsigned nchildren;
    struct slice text;              /* TEXT; NUL behind it */
    const struct ynode *key;        /* set in a map's child */
    struct ynode *children, **tail; /* LIST, MAP: in the order of the file */
    struct ynode *next;
};

/* The root, in cx's scratch memory; NULL: nothing could be read, and cx knows why.  An included file
 * may be empty: NULL, too. */
struct ynode *yaml_read(struct conf_cx *cx);

/* Plain ~, null or nothing at all. */
bool ynode_is_null(const struct ynode *n);
/* NULL: no such key, or not a map. */
const struct ynode *ynode_get(const struct ynode *map, const char *key);

#endif
