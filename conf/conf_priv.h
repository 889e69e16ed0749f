/* conf_priv.h -- what the files of the loader share.  For conf/ only.
 *
 *   cx    one load: what it reads, where it allocates, what it found wrong
 *   key   one row of a table: how a value is read, bounded, stored and documented
 */
#ifndef TARN_CONF_PRIV_H
#define TARN_CONF_PRIV_H

#include <sys/types.h>

#include "conf/conf.h"
#include "conf/conf_keys_table.h"
#include "conf/conf_tls_table.h"
#include "conf/yaml_read.h"
#include "daemon/base/arena.h"
#include "daemon/base/limits.h"

enum {
    CONF_FILE_MAX = 4 * 1024 * 1024, /* bytes; a larger one is not a configuration */
    CONF_ENTRIES_MAX = 10000,        /* of a list or map: duplicates are sought pairwise */
    CONF_DEPTH_MAX = 16,             /* the deepest that means anything is 4 */
    CONF_ERRORS_MAX = 500,           /* more are of no use */
    CONF_ADDRS_MAX = 64,             /* of one name */
    CONF_QUOTE_BYTES = 64,           /* of a file's text repeated in a message, with NUL */
};

/* One that is included. */
struct conf_file {
    const char *path;  /* in `keep` */
    struct slice text; /* in `scratch` */
    dev_t dev;
    ino_t ino;
    unsigned nth; /* from 1, as they are read; the file that includes is 0 */
    struct conf_file *next;
};

/* A backend's name without addresses: a mistake only with dns_required, which stands further down. */
struct conf_unresolved {
    const struct conf_key *key;
    const struct ynode *node;
    const char *host, *why;
    struct conf_unresolved *next;
};

/* What stands there is a secret: no error shows the rest of that line. */
struct conf_hidden {
    unsigned nth, line, column; /* as in struct conf_error */
    struct conf_hidden *next;
};

struct conf_cx {
    struct slice text;       /* borrowed: the file, or the included one that is being read */
    struct conf_file *file;  /* the included one that is being read; NULL: none */
    struct conf_file *files; /* all included ones */
    bool includes;           /* other files may be read */
    struct arena *keep;      /* what the snapshot points to */
    struct arena *scratch;   /* what goes when the load is over */
    struct conf *conf;       /* being built */
    conf_resolve_f *resolve;
    const struct conf_memory *memory;
    int (*readable)(const char *path);
    const char *(*env)(const char *name);
    struct conf_error *errors; /* by place */
    unsigned nerrors;
    bool nomem;        /* an allocation failed: the result is TERR_NOMEM, whatever else */
    bool backends_cut; /* the list of backends is not whole: an unknown one may be known */
    bool probes_cut;   /* as above */
    struct conf_unresolved *unresolved;
    struct conf_hidden *hidden;
    bool resolver_silent;          /* a name server did not answer: no more names are asked for */
    const struct ynode *directors; /* while they are read: which names stand below */
};

enum conf_type {
#define X(type, kind, form, doc) CONF_TYPE_##type,
    CONF_TYPE_TABLE(X)
#undef X
};

struct conf_key {
    const char *name;
    enum conf_type type;
    bool required;
    size_t offset;        /* of its member in what the section reads into */
    int64_t def;          /* numbers */
    const char *def_text; /* texts */
    int64_t least, most;
    const char *doc;
};

struct conf_section {
    const char *name;
    const struct conf_key *keys;
    unsigned nkeys;
    /* n is NULL when the section is absent, and of any kind but BAD else. */
    void (*read)(struct conf_cx *cx, const struct ynode *n);
    const char *doc;
};

/* A map that is the value of a key, with keys of its own. */
struct conf_part {
    enum conf_type type;         /* of the key */
    const char *title;           /* for people */
    struct conf_section section; /* its name stands in messages; nothing reads it by itself */
};

enum conf_part_id {
#define X(type, name, title, rows, doc) CONF_PART_##type,
    CONF_PART_TABLE(X)
#undef X
    CONF_PARTS
};

/* conf_tls.c */
extern const struct conf_part conf_parts[CONF_PARTS];
/* conf_doc.c.  NULL: values of that type are no such maps. */
const struct conf_part *conf_part_find(enum conf_type type);

/* conf_sections.c; ends with a row without name. */
extern const struct conf_section conf_sections[];
/* Of those that there are. */
const struct conf_section *conf_section_find(const char *name);
/* A map that has a name: checks the name, and reads it. */
void conf_read_item(struct conf_cx *cx, const struct conf_section *sec, const struct ynode *c,
    const char *kind, void *item);
/* A map of names to maps: checks the names, and reads each into its element of `items`. */
void conf_read_named(
    struct conf_cx *cx, const struct ynode *n, const char *kind, void *items, size_t item_size);
/* Fills cx->conf from the tree; root may be NULL. */
void conf_build(struct conf_cx *cx, const struct ynode *root);

/* conf_check.c: asserts what holds of a snapshot that was loaded without an error. */
void conf_check(const struct conf *c);

/* conf_errors.c.  Text is what the file says there; the message is printf's. */
void conf_fail(struct conf_cx *cx, const struct ynode *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void conf_fail_place(
    struct conf_cx *cx, unsigned line, unsigned column, struct slice text, const char *message);
/* Lines that are shown with errors end where this node begins: a secret stands there. */
void conf_hide(struct conf_cx *cx, const struct ynode *n);
/* Copies at most CONF_QUOTE_BYTES - 1 bytes, printable, with ... where it was cut. */
const char *conf_quote(char buf[static CONF_QUOTE_BYTES], struct slice text);
/* The line without its end; empty if there is none. */
struct slice conf_source_line(struct slice text, unsigned line);
/* Gives every error its line of the file. */
void conf_errors_attach(struct conf_cx *cx);

/* conf_cx.c: memory, zeroed.  NULL: cx->nomem is set. */
void *conf_alloc(struct conf_cx *cx, struct arena *from, size_t n, size_t size);
const char *conf_copy(struct conf_cx *cx, struct slice text);
/* The file that a node stands in. */
const char *conf_file_of(const struct conf_cx *cx, const struct ynode *at);
/* A path that stands in a file: relative to that file's directory, wherever tarnd was started. */
const char *conf_beside(struct conf_cx *cx, const struct ynode *at, const char *path);

/* conf_keys.c: a map read by its table.  `what` is "listener", "backend 'a'". */
void conf_keys_default(const struct conf_key *keys, unsigned nkeys, void *to);
void conf_keys_read(struct conf_cx *cx, const struct conf_section *sec, const struct ynode *n,
    const char *what, void *to);
/* Reports unless n is of this kind. */
bool conf_kind_check(
    struct conf_cx *cx, const struct ynode *n, enum ynode_kind want, const char *what);

/* The nearest of the names tried, if it is near enough to be what was meant. */
struct conf_guess {
    struct slice meant;
    const char *best;
    unsigned distance;
};
void conf_guess_try(struct conf_guess *g, const char *name);
unsigned conf_distance(struct slice a, struct slice b); /* Damerau-Levenshtein */

/* conf_value.c: one value.  False: reported, and *to keeps its default. */
bool conf_value_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, void *to);
/* What such a value is, as a message says it: "a whole number". */
const char *conf_type_what(enum conf_type type);
/* Is it of a route, and read by conf_rule_read? */
bool conf_type_is_rule(enum conf_type type);
/* A number as the file would have it, shortest exact unit. */
const char *conf_value_format(enum conf_type type, int64_t value, char *buf, size_t len);
/* "KEY: 'TEXT' " and the rest. */
void conf_fail_value(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* conf_params.c: is such a value an int64_t?  May this row of the parameters change when the file is read
 * anew? */
bool conf_type_is_number(enum conf_type type);
bool conf_param_key_is_reloaded(const struct conf_key *key);

/* conf_doc.c: a piece of less than 1,024 bytes. */
void conf_doc_print(struct conf_sink *to, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* conf_text.c: texts with a grammar; one of a few words.  As conf_value_read. */
bool conf_text_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to);
bool conf_word_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to);
bool conf_backend_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, unsigned *to);
bool conf_name_ok(struct slice name);
/* NULL, or what is wrong with such a text. */
const char *conf_text_wrong(enum conf_type type, struct slice s);

/* conf_routes.c.  Finish: when everything else of the file is known. */
void conf_routes_read(struct conf_cx *cx, const struct ynode *n);
void conf_routes_finish(struct conf_cx *cx, const struct ynode *root);
/* conf_rules.c: what a route does.  As conf_value_read; `n` is not null. */
bool conf_rule_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, void *to);
/* A file that a key names, from the directory on of the file that `at` stands in. */
bool conf_file_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *at,
    const char *name, size_t most, struct slice *out);
/* conf_auth.c */
bool conf_auth_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_auth *to);
bool conf_auth_same(const struct conf_auth *a, const struct conf_auth *b);
/* conf_tls.c: what a listener says of TLS, and parts of it.  As conf_value_read. */
/* True: it was one that the admin listener cannot have, and that has been said. */
bool conf_admin_refuse_key(struct conf_cx *cx, const char *section, const struct ynode *key);
bool conf_tls_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_tls *to);
bool conf_certificates_read(
    struct conf_cx *cx, const struct ynode *n, struct conf_certificates *to);
bool conf_tls_same(const struct conf_tls *a, const struct conf_tls *b);
bool conf_backend_tls_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    struct conf_backend_tls *to);
/* When all of the backend is known. */
void conf_backend_tls_finish(
    struct conf_cx *cx, const struct ynode *at, struct conf_backend *backend);
/* conf_acme.c.  As conf_value_read. */
bool conf_acme_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_acme *to);
bool conf_acme_names_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to);
bool conf_acme_same(const struct conf_acme *a, const struct conf_acme *b);
/* The nth listener beside those before it; `tls` is its own. */
void conf_acme_finish(struct conf_cx *cx, const struct ynode *tls, unsigned nth);
bool conf_rule_same(enum conf_type type, const void *a, const void *b);

/* conf_origins.c: probes and directors. */
void conf_probes_read(struct conf_cx *cx, const struct ynode *n);
bool conf_probe_read(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n,
    const struct conf_probe **to);

/* conf_allow.c: of the parameters: users and groups that there are, modes that make sense. */
void conf_shm_check(struct conf_cx *cx, const struct ynode *params);
/* conf_text.c: a list, or one text: words with one space between them. */
bool conf_words_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to);
bool conf_lines_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to);
void conf_directors_read(struct conf_cx *cx, const struct ynode *n);
bool conf_members_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_members *to);
/* on, off, true or false, in any case.  False: none of them. */
bool conf_bool_of(struct slice text, int64_t *to);
/* conf_compress.c: formats and media types, each a list or one.  As conf_value_read. */
bool conf_codings_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, int64_t *to);
bool conf_media_types_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to);
/* As conf_value_format. */
const char *conf_codings_format(int64_t bits, char *buf, size_t len);
/* The section: on, off or a map; `n` is not NULL, and defaults are set.  Finish: when routes and section
 * have been read. */
void conf_compress_read(struct conf_cx *cx, const struct ynode *n);
void conf_compress_finish(struct conf *conf);
/* conf_nets.c: a list of them, or one.  As conf_value_read. */
bool conf_nets_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_nets *to);

/* conf_fleet.c.  The section: its defaults are set, and `n` is not NULL. */
void conf_fleet_read(struct conf_cx *cx, const struct conf_section *sec, const struct ynode *n);
/* As conf_value_read: one URL, or a list of them; conf_fleet_read judges what is in each. */
bool conf_engines_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to);
/* True: it was a password beside the engine, and that has been said. */
bool conf_fleet_refuse_key(struct conf_cx *cx, const char *section, const struct ynode *n);
/* conf_tls.c: when all of the engines is known; `at` is the section. */
void conf_fleet_tls_finish(struct conf_cx *cx, const struct ynode *at, struct conf_fleet *fleet);

/* conf_allow.c: as conf_value_read. */
bool conf_allow_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_allow *to);

/* conf_content.c: conf->content.  Of a file without an error. */
uint64_t conf_content(const struct ynode *root);

/* conf_include.c: what `include` names joins the tree; root may be NULL. */
void conf_include(struct conf_cx *cx, struct ynode *root);

/* conf_env.c: a value's ${NAME} and ${NAME:-default}; what cannot be is reported, and n is BAD. */
void conf_env_expand(struct conf_cx *cx, struct ynode *n);

/* conf_mistakes.c.  Text where a listener, or a list of them, belongs; `what` is such a thing. */
void conf_listen_refuse_text(struct conf_cx *cx, const struct ynode *n, const char *what);
/* Text where a backend's map belongs: reported, and the node is BAD. */
void conf_backend_check_text(struct conf_cx *cx, struct ynode *c);
/* Is there one to ask at all?  Do the stores fit into memory?  Is there a policy's file? */
void conf_default_check(struct conf_cx *cx, const struct ynode *root);
void conf_memory_check(struct conf_cx *cx, const struct ynode *n);
void conf_vcl_check(struct conf_cx *cx, const struct ynode *n);
/* conf_loops.c.  Which backends are listeners of the same file? */
void conf_loops_check(struct conf_cx *cx, const struct ynode *root);

/* conf_address.c.  With dns_required: which names have no address. */
void conf_names_check(struct conf_cx *cx);
/* Of the parameters: name servers are given by address. */
void conf_resolver_check(struct conf_cx *cx, const struct ynode *params);
bool conf_address_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, struct conf_address *to);

#endif
