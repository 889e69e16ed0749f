/* vcl_sema.h -- what the checker and the lowering share: subs, uses, typed expressions.
 *
 *   node    a checked expression: an instruction and what it takes from the stack, conversions
 *           written out; a condition is a node of type BOOL
 *   use     something that may stand in some of the vcl_* subs only: a variable, an action
 *   sub     all definitions of one name
 *
 * vcl_check*.c makes nodes and uses and reports errors; vcl_lower*.c makes code of the nodes, when
 * nothing was wrong.  For vcl-lite/ only.
 */
#ifndef TARN_VCL_SEMA_H
#define TARN_VCL_SEMA_H

#include "vcl-lite/vcl_func_table.h"
#include "vcl-lite/vcl_priv.h"

/* A node's op is an enum vcl_op, or one of these, which become jumps. */
enum {
    SEMA_AND = VCL_OP_COUNT,
    SEMA_OR
};

struct sema_node {
    unsigned op;
    uint8_t a;
    uint16_t b;
    uint32_t c;
    enum vcl_type type;
    struct vcl_pos pos;
    struct vcl_value value; /* CONST */
    unsigned touches;       /* CONST: bit of the enum vcl_http that it names */
    unsigned nkids;
    struct sema_node **kids;
};

enum sema_use_kind {
    SEMA_READ,
    SEMA_SET,
    SEMA_UNSET,
    SEMA_RETURN,
    SEMA_STATEMENT, /* a function, a method, hash_data ... */
};

struct sema_use {
    enum sema_use_kind kind;
    struct vcl_pos pos;
    const char *what; /* "obj.hits", "lookup", "std.rfc_ttl()" */
    unsigned where;   /* mask of enum vcl_sub */
    struct sema_use *next;
};

struct sema_call {
    struct sema_sub *sub;
    struct vcl_pos pos;
    struct sema_call *next;
};

struct sema_sub {
    const char *name;
    struct vcl_pos pos; /* of its first definition's name */
    int vcl;            /* enum vcl_sub; -1: called only */
    bool hook;          /* builtin.vcl has it */
    bool by_user;       /* the text defines it, or adds to it */
    bool by_builtin;
    unsigned called_by; /* mask of the vcl_* subs that reach it */
    enum {
        SEMA_NEW,
        SEMA_OPEN,
        SEMA_DONE
    } walk;
    struct ast_sub **defs; /* in the order in which they run */
    unsigned ndefs;
    struct sema_sub *beside; /* in the same bucket */
    struct sema_use *uses;
    struct sema_call *calls;
    /* the lowering's */
    unsigned sites; /* calls in subs that are reached */
    bool lowered;
    uint32_t entry, longest;
    unsigned depth; /* of calls */
    unsigned touches;
    struct sema_sub *next;
};

/* An object that `new` makes. */
struct sema_object {
    struct slice name;
    struct vcl_pos pos;
    enum vcl_object_kind kind;
    struct sema_object *next;
};

struct sema_slot {
    uint32_t hash, number; /* UINT32_MAX: free */
};

/* Numbers by the hash of what they stand for: a load's time grows with its text, no faster. */
struct sema_index {
    struct sema_slot *slots;
    unsigned n, room; /* a power of two; 0: none yet */
};

struct sema {
    struct vcl_cx *cx;
    struct sema_sub *subs;     /* in the order of the text */
    struct sema_sub *now;      /* being checked */
    struct sema_sub **buckets; /* of subs, by name */
    unsigned nbuckets;         /* a power of two; 0: none yet */
    struct sema_object *objects;
    unsigned nobjects;
    /* tables of the policy, in scratch until they are whole */
    struct vcl_value *consts;
    unsigned nconsts, consts_room;
    struct vcl_name *names;
    unsigned nnames, names_room;
    struct regex **regexes;
    struct slice *patterns;
    unsigned nregexes, regexes_room, patterns_room;
    struct sema_index const_index, name_index, regex_index;
    struct vcl_place *places;
    unsigned nplaces, places_room;
    struct vcl_insn *code;
    unsigned ncode, code_room;
    unsigned nquiet; /* behind those: the same without traces */
    unsigned stack_max;
    bool reads_hits, reads_tls;
};

/* --- vcl_check_names.c: words of the language --- */

bool sema_is(struct slice s, const char *word);
/* How each is written. */
const char *sema_type_name(enum vcl_type type);
/* The row of a variable; VCL_VAR_COUNT: there is none, which was reported. */
enum vcl_var sema_var(struct sema *s, const struct ast_expr *e);
enum vcl_type sema_var_type(enum vcl_var var);
unsigned sema_var_flags(enum vcl_var var);
/* What Tarn does instead of what setting it would mean; NULL: setting it works. */
const char *sema_var_inert(enum vcl_var var);
unsigned sema_var_where(enum vcl_var var, enum sema_use_kind kind);
/* The message of a family of fields like "req.http.", or that "req" is; -1: no message. */
int sema_var_http(enum vcl_var var);
/* "vcl_recv, vcl_hash", in scratch. */
const char *sema_sub_list(struct sema *s, unsigned where);
/* VCL_ACT_COUNT: there is none of that name. */
enum vcl_action sema_action(struct slice name);
unsigned sema_action_where(enum vcl_action a);
unsigned sema_sub_actions(enum vcl_sub sub);
/* --- vcl_check_tables.c: numbers of names, patterns, constants --- */

enum {
    SEMA_OBJECTS_MAX = 1000, /* of `new`: each is looked for among all, and has 16 bits */
};

uint32_t sema_hash(const void *bytes, size_t len);

/* UINT32_MAX: no memory, or a bad pattern, reported at `at`. */
uint32_t sema_name(struct sema *s, struct slice name);
uint32_t sema_regex(struct sema *s, struct slice pattern, struct vcl_pos at);
uint32_t sema_const(struct sema *s, const struct sema_node *n);
uint32_t sema_place(struct sema *s, const struct vcl_place *place);
/* Room for one more of `size` bytes; the items, perhaps elsewhere.  NULL: no memory. */
void *sema_grow(struct sema *s, void *items, unsigned n, unsigned *room, size_t size);

/* --- vcl_check_node.c --- */

struct sema_node *sema_node(struct sema *s, unsigned op, enum vcl_type type, struct vcl_pos pos);
/* With what they take from the stack; NULL when one of those is. */
struct sema_node *sema_node1(
    struct sema *s, unsigned op, enum vcl_type type, struct sema_node *kid);
struct sema_node *sema_node2(struct sema *s, unsigned op, enum vcl_type type,
    struct sema_node *left, struct sema_node *right);
struct sema_node *sema_const_int(struct sema *s, enum vcl_type type, int64_t i, struct vcl_pos pos);
struct sema_node *sema_const_real(struct sema *s, enum vcl_type type, double r, struct vcl_pos pos);
struct sema_node *sema_const_string(struct sema *s, struct slice text, struct vcl_pos pos);
bool sema_is_const(const struct sema_node *n);
bool sema_is_const_string(const struct sema_node *n); /* and set */
struct sema_node *sema_concat(struct sema *s, struct sema_node *left, struct sema_node *right);
/* NULL: not possible, reported at `at`. */
struct sema_node *sema_convert(
    struct sema *s, struct sema_node *n, enum vcl_type want, struct vcl_pos at);
/* An address written as a constant string, resolved now. */
struct sema_node *sema_to_ip(struct sema *s, struct sema_node *n);

/* --- vcl_check_var.c --- */

/* A name with dots; a word without. */
struct sema_node *sema_variable(struct sema *s, struct ast_expr *e);
struct sema_node *sema_word(struct sema *s, struct ast_expr *e, enum vcl_type want);
/* The value of a variable as it is read. */
struct sema_node *sema_read(struct sema *s, struct ast_expr *e, enum vcl_var var);
/* The field that a variable like req.http.x names; UINT32_MAX: reported. */
uint32_t sema_field(struct sema *s, const struct ast_expr *e, enum vcl_var var);
/* As it is shown: "req.http.x". */
const char *sema_shown(struct sema *s, const struct ast_expr *e);
void sema_use(
    struct sema *s, enum sema_use_kind kind, struct vcl_pos pos, const char *what, unsigned where);

/* --- vcl_check_expr.c --- */

/* NULL: it is wrong, which was reported, or memory is out.  want VOID: any type will do; else it
 * is of that type when it comes back. */
struct sema_node *sema_expr(struct sema *s, struct ast_expr *e, enum vcl_type want);
/* An operator of two numbers, for `set x += y` too.  NULL: there is no such one. */
struct sema_node *sema_arithmetic(
    struct sema *s, enum ast_op op, struct sema_node *left, struct sema_node *right);

/* --- vcl_check_call.c --- */

struct sema_node *sema_call(struct sema *s, struct ast_expr *e);
struct sema_node *sema_new(struct sema *s, struct ast_stmt *stmt);
/* Modules that are imported must exist. */
void sema_imports(struct sema *s);

/* --- vcl_check_stmt.c --- */

/* Checks a sub's definitions; nodes are left in the `what` of expressions. */
void sema_body(struct sema *s, struct sema_sub *sub);
struct sema_sub *sema_sub_find(struct sema *s, struct slice name);

/* --- vcl_check_graph.c --- */

/* Which sub calls which: no circles, and every use is at home in all that reach it. */
void sema_graph(struct sema *s);

/* --- vcl_lower.c --- */

/* Code of everything that is reached, into s->code and cx->vcl. */
void lower_policy(struct sema *s);

/* --- vcl_lower_tidy.c --- */

/* A sub's code while it is made: jumps go to labels. */
struct lower {
    struct sema *s;
    struct vcl_insn *code;
    unsigned ncode, code_room;
    uint32_t *labels; /* by number: the instruction; UINT32_MAX: not placed yet */
    unsigned nlabels, labels_room;
    struct sema_sub *sub; /* the code is of this one */
    unsigned touches;
    unsigned depth; /* of calls below */
};

bool lower_is_jump(unsigned op);
/* Jumps to jumps, code that is never reached; then labels become places within the code. */
void lower_tidy(struct lower *l);
/* Values on the stack, at most; and instructions on the longest path.  Jumps go forward only. */
unsigned lower_stack(struct lower *l);
uint32_t lower_longest(const struct lower *l);
/* vcl_lower_fuse.c: the last step. */
void lower_fuse(struct lower *l);

#endif
