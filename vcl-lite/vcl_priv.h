/* vcl_priv.h -- what the files of the compiler share: one load, from text to code.
 *
 *   cx      one load: its arenas, its errors, the tree
 *
 *   vcl.c parses (vcl_lex.c, vcl_parse.c), then makes declarations (vcl_decl.c), then code
 *   (vcl_check*.c, vcl_lower*.c).  Each goes on after an error, so that all of them are reported.
 */
#ifndef TARN_VCL_PRIV_H
#define TARN_VCL_PRIV_H

#include "daemon/base/arena.h"
#include "vcl-lite/vcl_ast.h"
#include "vcl-lite/vcl_code.h"

enum {
    VCL_TEXT_MAX = 4 * 1024 * 1024, /* bytes of all files together */
    VCL_FILES_MAX = 1000,           /* includes */
    VCL_NEST_MAX = 100,             /* blocks and parentheses within each other */
    VCL_DEPTH_MAX = 2000,           /* of the tree: what walks it may recurse.  An else-if is one */
    VCL_ERRORS_MAX = 100,           /* more are of no use; "and more" is said */
};

struct vcl_cx {
    const struct vcl_loader *loader;
    struct arena *scratch; /* the tree, messages: goes when the load is over */
    struct arena *keep;    /* the policy's: strings, names, code */
    struct ast ast;
    struct vcl_error *errors; /* malloc'ed; in the order of files and places at the end */
    unsigned nerrors, nwarnings;
    bool nomem;              /* an allocation failed: the result is TERR_NOMEM */
    struct vcl *vcl;         /* being built */
    struct vcl_scope *scope; /* names of declarations: vcl_decl.c's */
};

/* Reports; the hint may be NULL.  Same place and message twice is reported once. */
void vcl_fail(struct vcl_cx *cx, struct vcl_pos at, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void vcl_warn(struct vcl_cx *cx, struct vcl_pos at, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Line and column, from 1, in characters. */
void vcl_pos_place(struct vcl_pos at, unsigned *line, unsigned *column);
/* Zeroed; NULL: cx->nomem is set. */
void *vcl_alloc(struct vcl_cx *cx, struct arena *from, size_t size);
const char *vcl_copy(struct vcl_cx *cx, struct arena *to, struct slice text); /* with NUL */
/* printf into scratch, for hints. */
const char *vcl_text(struct vcl_cx *cx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "did you mean": offer names, then ask. */
struct vcl_guess {
    struct slice meant;
    const char *best;
    unsigned distance, tries;
};
void vcl_guess_try(struct vcl_guess *g, const char *name);
const char *vcl_guess_hint(struct vcl_cx *cx, const struct vcl_guess *g); /* NULL: none is near */

/* vcl_parse.c: the text, its includes, and builtin.vcl behind them, into cx->ast. */
void vcl_parse(struct vcl_cx *cx, const struct vcl_source *src);
/* vcl_decl.c: backends, probes, acls of the tree into cx->vcl, and the numbers by which code names
 * them.  -1: there is none of that name. */
void vcl_declare(struct vcl_cx *cx);
int vcl_backend_number(struct vcl_cx *cx, struct slice name); /* YAML's are added when asked for */
int vcl_acl_number(struct vcl_cx *cx, struct slice name);
int vcl_storage_number(struct vcl_cx *cx, struct slice name);
int vcl_label_number(struct vcl_cx *cx, struct slice name);
/* Is there `unused NAME;`? */
bool vcl_said_unused(struct vcl_cx *cx, struct slice name);
/* What was declared, is not used, and is not said to be `unused`: a warning each.  After the code
 * was made. */
void vcl_declare_unused(struct vcl_cx *cx);
/* vcl_check.c: types, access, calls; and code, when nothing was wrong. */
void vcl_make_code(struct vcl_cx *cx);

/* vcl_removed.c: what a name of older VCL, or of Varnish alone, is now; NULL: never heard of it. */
enum vcl_removed_kind {
    VCL_REMOVED_VAR,    /* req.backend */
    VCL_REMOVED_ACTION, /* return (hit_for_pass) */
    VCL_REMOVED_SUB,    /* vcl_fetch */
    VCL_REMOVED_WORD,   /* a statement: remove, error */
    VCL_REMOVED_MODULE, /* import blob */
    VCL_REMOVED_FUNC,   /* std.blobread(); of an object, its method's name alone: remove_backend */
};
const char *vcl_removed(enum vcl_removed_kind kind, struct slice name);

/* builtin.vcl, built into the program. */
extern const char vcl_builtin_text[];
extern const size_t vcl_builtin_len;

#endif
