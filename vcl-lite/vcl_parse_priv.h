/* vcl_parse_priv.h -- what lexer, includes and parser share.
 *
 *   token    a word, number, string or sign of one file
 *   tokens   those of a file and, in the place of each include, those of the file included
 */
#ifndef TARN_VCL_PARSE_PRIV_H
#define TARN_VCL_PARSE_PRIV_H

#include "vcl-lite/vcl_priv.h"

enum vcl_token_kind {
    TOK_END,
    TOK_BAD, /* reported already */
    TOK_ID,
    TOK_INT,
    TOK_REAL,
    TOK_STRING,
    TOK_LPAREN,
    TOK_RPAREN,
    TOK_LBRACE,
    TOK_RBRACE,
    TOK_SEMICOLON,
    TOK_COMMA,
    TOK_DOT,
    TOK_PLUS,
    TOK_MINUS,
    TOK_STAR,
    TOK_SLASH,
    TOK_PERCENT,
    TOK_ASSIGN,
    TOK_ASSIGN_ADD,
    TOK_ASSIGN_SUB,
    TOK_ASSIGN_MUL,
    TOK_ASSIGN_DIV,
    TOK_EQ,
    TOK_NE,
    TOK_LT,
    TOK_GT,
    TOK_LE,
    TOK_GE,
    TOK_MATCH,
    TOK_NOMATCH,
    TOK_NOT,
    TOK_AND,
    TOK_OR,
};

struct vcl_token {
    const struct vcl_file *file;
    uint32_t off, len;
    uint8_t kind;  /* enum vcl_token_kind */
    uint8_t quote; /* STRING: bytes of the quotes, on each side */
};

struct vcl_tokens {
    struct vcl_token *at; /* malloc'ed */
    size_t n, room;
};

struct vcl_lexer {
    struct vcl_cx *cx;
    const struct vcl_file *file;
    uint32_t at;
    uint32_t line_end; /* of the line last asked for */
    uint32_t told;     /* end of the last line with a wrong sign: one is reported of each */
    uint32_t unclosed; /* end of the last line in which a wrong quote has no partner */
};

/* vcl_lex.c: the next token; END is given again and again. */
void vcl_lex(struct vcl_lexer *lx, struct vcl_token *t);
struct slice vcl_token_text(const struct vcl_token *t); /* a string's without its quotes */
struct vcl_pos vcl_token_pos(const struct vcl_token *t);
bool vcl_token_is(const struct vcl_token *t, const char *word);
/* In any case: true, false, none. */
bool vcl_token_is_nocase(const struct vcl_token *t, const char *word);

/* vcl_include.c: the tokens of a text and of all that it includes, an END behind them.  They are
 * the caller's to free(), also when something was wrong. */
void vcl_tokens_read(
    struct vcl_cx *cx, struct slice text, const char *name, bool builtin, struct vcl_tokens *out);

/* --- the parser --- */

struct vcl_parser {
    struct vcl_cx *cx;
    const struct vcl_token *t;    /* the next one */
    const struct vcl_token *prev; /* the one before; NULL: none */
    unsigned nest;                /* blocks and parentheses that are open */
    unsigned depth;               /* of statements, else-ifs included */
    bool builtin;
    bool unwinding;              /* a } is missing, and reported: all blocks end here */
    unsigned surplus;            /* } that may come later for them, and close nothing */
    const struct vcl_token *sub; /* name of the one that is parsed */
    struct ast_import **imports; /* where the next goes */
    struct ast_acl **acls;
    struct ast_decl **probes, **backends;
    struct ast_sub **subs;
    struct ast_unused **unused;
};

void vcl_next(struct vcl_parser *p);
static inline bool
vcl_at(const struct vcl_parser *p, enum vcl_token_kind kind)
{
    return p->t->kind == (uint8_t)kind;
}
/* Takes a token of this kind, if it is the next. */
bool vcl_accept(struct vcl_parser *p, enum vcl_token_kind kind);
/* As above, else fails: "WHAT expected, not ...". */
bool vcl_expect(struct vcl_parser *p, enum vcl_token_kind kind, const char *what);
/* A ';', which is said to be missing behind the token before it. */
bool vcl_expect_semicolon(struct vcl_parser *p, const char *after);
/* A name; .ptr NULL: there is none, and that is reported. */
struct slice vcl_expect_name(struct vcl_parser *p, const char *what, struct vcl_pos *pos);
/* Fails at the next token, unless the lexer has reported it already. */
void vcl_fail_here(struct vcl_parser *p, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* How a message names the next token: 'x', or the end of the file. */
const char *vcl_here(struct vcl_parser *p);
/* From the beginning of `first` to the last token taken. */
struct vcl_pos vcl_span(const struct vcl_parser *p, const struct vcl_token *first);
/* One deeper; false: too deep, and reported. */
bool vcl_nest(struct vcl_parser *p);
/* Skips what is between { and its }, the next token being {. */
void vcl_skip_braces(struct vcl_parser *p);
bool vcl_on_next_line(const struct vcl_parser *p); /* a line ends before the next token */

/* vcl_parse_expr.c: NULL: it is wrong, and reported. */
struct ast_expr *vcl_parse_expr(struct vcl_parser *p);
/* req.http.x, std.log: names and their dots; AST_NAME or AST_VAR. */
struct ast_expr *vcl_parse_path(struct vcl_parser *p);
/* What begins with a name, with the calls behind it. */
struct ast_expr *vcl_parse_postfix(struct vcl_parser *p);
/* Behind the "(" up to and with the ")". */
bool vcl_parse_args(struct vcl_parser *p, struct ast_arg **out, const char *what);
/* A number with its unit. */
bool vcl_parse_number(struct vcl_parser *p, struct ast_number *out);
/* vcl_parse_stmt.c: does the next token begin a statement on a line of its own? */
bool vcl_starts_stmt(const struct vcl_parser *p);
/* { ... }.  *out may be half of it when something was wrong. */
void vcl_parse_block(struct vcl_parser *p, struct ast_stmt **out);
/* vcl_parse_top.c: a file's declarations up to its end. */
void vcl_parse_file(struct vcl_parser *p);
/* vcl_parse_attr.c: acl, probe and backend; the word itself was taken. */
void vcl_parse_acl(struct vcl_parser *p);
void vcl_parse_decl(struct vcl_parser *p, bool is_probe);

#endif
