/* vcl_ast.h -- a policy as it was written: what the parser makes and the checker reads.
 *
 * Everything lies in the compile's arena and goes with it.  Lists are in the order of the text.
 * Names and string literals are slices of the files' text, or of the arena when a literal was put
 * together.  For vcl-lite/ only.
 */
#ifndef TARN_VCL_AST_H
#define TARN_VCL_AST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "vcl-lite/vcl.h"

/* One file of the load: the text, an include, or builtin.vcl. */
struct vcl_file {
    const char *name;
    struct slice text;
    bool builtin;
    struct vcl_lines *lines; /* where its lines begin: vcl_error.c's */
    struct vcl_file *next;
};

/* Where something stands: bytes of a file. */
struct vcl_pos {
    const struct vcl_file *file;
    uint32_t off, len;
};

enum ast_expr_kind {
    AST_STRING,  /* text: the literal's bytes, or several joined by the lexer */
    AST_NUMBER,  /* number */
    AST_BOOL,    /* yes */
    AST_NAME,    /* text: one word without a dot: a backend, acl, probe, label, storage, enum */
    AST_VAR,     /* text: with dots, without spaces: "req.url", "req.http.x-y"; "req.http." and
                  * field when the field's name is quoted */
    AST_CALL,    /* a function or method: text (before the dot; .ptr NULL: there is none, as in
                  * regsub), member, args */
    AST_POSTFIX, /* .lower() .upper() .resolve(): left, text */
    AST_NOT,     /* left */
    AST_NEG,     /* left */
    AST_BINARY,  /* op, left, right */
};

enum ast_op {
    AST_OP_OR,
    AST_OP_AND,
    AST_OP_EQ,
    AST_OP_NE,
    AST_OP_LT,
    AST_OP_GT,
    AST_OP_LE,
    AST_OP_GE,
    AST_OP_MATCH,   /* ~ */
    AST_OP_NOMATCH, /* !~ */
    AST_OP_ADD,
    AST_OP_SUB,
    AST_OP_MUL,
    AST_OP_DIV,
    AST_OP_MOD,
};

/* A number as written, checked for range by the parser. */
struct ast_number {
    enum vcl_type type; /* INT, REAL, DURATION or BYTES, by its unit */
    int64_t i;          /* INT, BYTES */
    double r;           /* REAL, DURATION (seconds) */
};

struct ast_expr {
    enum ast_expr_kind kind;
    struct vcl_pos pos; /* all of it */
    struct slice text;
    struct slice member; /* CALL */
    struct slice field;  /* VAR: a quoted header name; else .ptr NULL */
    unsigned depth;      /* of the tree below, itself included: at most VCL_DEPTH_MAX */
    struct ast_number number;
    bool yes;
    bool parens; /* stood in parentheses */
    enum ast_op op;
    struct vcl_pos op_pos;
    struct ast_expr *left, *right;
    struct ast_arg *args;
    /* the checker's */
    enum vcl_type type;
    const void *what;
};

struct ast_arg {
    struct slice name; /* .ptr NULL: by position */
    struct vcl_pos pos;
    struct ast_expr *value;
    struct ast_arg *next;
};

enum ast_stmt_kind {
    AST_BLOCK,     /* body */
    AST_SET,       /* var, op, expr */
    AST_UNSET,     /* var */
    AST_CALL_SUB,  /* name */
    AST_IF,        /* expr, body, otherwise (a statement list: else, or one AST_IF) */
    AST_RETURN,    /* name (empty: bare return), args */
    AST_HASH_DATA, /* expr */
    AST_BAN,       /* expr */
    AST_SYNTHETIC, /* expr */
    AST_NEW,       /* name, expr (an AST_CALL) */
    AST_EXPR,      /* expr: a call; its value, if any, is dropped */
};

enum ast_assign {
    AST_ASSIGN,
    AST_ASSIGN_ADD,
    AST_ASSIGN_SUB,
    AST_ASSIGN_MUL,
    AST_ASSIGN_DIV,
};

struct ast_stmt {
    enum ast_stmt_kind kind;
    struct vcl_pos pos;   /* its first line counts for the trace */
    struct ast_expr *var; /* SET, UNSET: an AST_VAR */
    enum ast_assign op;
    struct ast_expr *expr;
    struct slice name;
    struct vcl_pos name_pos;
    struct ast_arg *args;
    bool has_args; /* RETURN: parentheses behind the action */
    struct ast_stmt *body, *otherwise;
    struct ast_stmt *next;
};

/* One definition; several of one vcl_* sub are concatenated by the checker, builtin.vcl's last. */
struct ast_sub {
    struct slice name;
    struct vcl_pos pos;
    struct ast_stmt *body;
    struct ast_sub *next;
};

struct ast_import {
    struct slice name;
    struct vcl_pos pos;
    struct ast_import *next;
};

struct ast_unused {
    struct slice name;
    struct vcl_pos pos;
    struct ast_unused *next;
};

struct ast_acl_entry {
    bool negated;
    bool optional; /* in parentheses: may not resolve */
    struct slice address;
    int mask; /* -1: none */
    struct vcl_pos pos;
    struct ast_acl_entry *next;
};
struct ast_acl {
    struct slice name;
    struct vcl_pos pos;
    bool log, pedantic, fold, table; /* +log -pedantic ...; pedantic unless it is said */
    struct ast_acl_entry *entries;
    bool used; /* the checker's */
    struct ast_acl *next;
};

enum ast_attr_kind {
    AST_ATTR_STRINGS, /* one or more literals: list */
    AST_ATTR_NUMBER,
    AST_ATTR_BOOL,
    AST_ATTR_NAME,  /* a word: another probe, a backend */
    AST_ATTR_BLOCK, /* { .url = ...; }: attrs */
};
struct ast_string {
    struct slice text;
    struct ast_string *next;
};
struct ast_attr {
    struct slice name; /* without the dot */
    struct vcl_pos pos, value_pos;
    bool broken; /* its value is wrong, and reported */
    enum ast_attr_kind kind;
    struct ast_string *strings;
    struct ast_number number;
    bool yes;
    struct slice word;
    struct ast_attr *attrs;
    struct ast_attr *next;
};
/* probe NAME {...} and backend NAME {...} or backend NAME none; */
struct ast_decl {
    struct slice name;
    struct vcl_pos pos;
    bool none;
    bool broken; /* reported already: nothing more needs to be said about it */
    struct ast_attr *attrs;
    bool used; /* the checker's */
    struct ast_decl *next;
};

struct ast {
    struct vcl_file *files;
    int version; /* 40 or 41, of the first file */
    struct ast_import *imports;
    struct ast_acl *acls;
    struct ast_decl *probes, *backends;
    struct ast_sub *subs;
    struct ast_unused *unused;
};

#endif
