/* vcl_code.h -- the compact form of a policy, and what compiler and machine agree on.
 *
 * A stack machine.  Every value is typed at load, so instructions do not look at types.  A sub's
 * code ends in RETURN or RET on every path.  The compiler proves the depth of the stack and of
 * calls: the machine checks neither, but in slow-check builds.  For vcl-lite/ only.
 */
#ifndef TARN_VCL_CODE_H
#define TARN_VCL_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/regex.h"
#include "daemon/base/span.h"
#include "vcl-lite/vcl.h"

struct acl;

/* One instruction.  What a, b and c mean stands in the row. */
struct vcl_insn {
    uint8_t op; /* enum vcl_op */
    uint8_t a;
    uint16_t b;
    uint32_t c;
};
_Static_assert(sizeof(struct vcl_insn) == 8, "one load");

/* clang-format off */
/*    op, values taken from the stack (-1: as the row says), given, what it does */
#define VCL_OP_TABLE(X)                                                                            \
    /* values */                                                                                   \
    X(CONST,      0, 1, "push consts[c]")                                                          \
    X(BACKEND,    0, 1, "push the backend bound as number c")                                      \
    X(STORAGE,    0, 1, "push the storage bound as number c")                                      \
    X(OBJECT,     0, 1, "push object c, as .p; fails when it was not made")                        \
    X(GET,        0, 1, "push variable b")                                                         \
    X(GET_STORAGE,0, 1, "push variable b of storage c")                                            \
    X(NOW,        0, 1, "push run->now_s")                                                         \
    X(FIELD,      0, 1, "push the value of field names[c] of message a (enum vcl_http)")           \
    X(POP,        1, 0, "drop one")                                                                \
    /* conversions */                                                                              \
    X(INT_STR,    1, 1, "INT or BYTES to STRING, %d")                                              \
    X(REAL_STR,   1, 1, "REAL or DURATION to STRING, %.3f")                                        \
    X(TIME_STR,   1, 1, "TIME to STRING, an HTTP date")                                            \
    X(BOOL_STR,   1, 1, "BOOL to STRING, true or false")                                           \
    X(IP_STR,     1, 1, "IP to STRING, without port; NULL: unset")                                 \
    X(BACKEND_STR,1, 1, "BACKEND to STRING, its name; NULL: unset")                                \
    X(STORAGE_STR,1, 1, "STEVEDORE to STRING, its name; NULL: unset")                              \
    X(INT_REAL,   1, 1, "INT to REAL")                                                             \
    X(STR_BOOL,   1, 1, "is the STRING set?")                                                      \
    X(INT_BOOL,   1, 1, "INT != 0")                                                                \
    X(REAL_BOOL,  1, 1, "DURATION > 0")                                                            \
    X(PTR_BOOL,   1, 1, "BACKEND, IP ... != NULL")                                                 \
    X(EMPTY,      1, 1, "an unset STRING becomes an empty one")                                    \
    X(CONCAT,    -1, 1, "b STRINGs into one, unset ones as empty; never unset")                    \
    X(LOWER,      1, 1, "STRING in lower case (ASCII)")                                            \
    X(UPPER,      1, 1, "STRING in upper case (ASCII)")                                            \
    X(RESOLVE,    1, 1, "BACKEND: the one that it chooses now, if it is a director")               \
    /* arithmetic */                                                                               \
    X(ADD_INT,    2, 1, "fails outside of the range of INT, as do the next")                       \
    X(SUB_INT,    2, 1, "the lower minus the upper")                                               \
    X(MUL_INT,    2, 1, "the product")                                                             \
    X(DIV_INT,    2, 1, "fails when divided by 0")                                                 \
    X(MOD_INT,    2, 1, "as DIV_INT")                                                              \
    X(NEG_INT,    1, 1, "with the other sign")                                                     \
    X(ADD_REAL,   2, 1, "REAL, DURATION, TIME; fails when the result is not finite")               \
    X(SUB_REAL,   2, 1, "the lower minus the upper")                                               \
    X(MUL_REAL,   2, 1, "the product")                                                             \
    X(DIV_REAL,   2, 1, "fails when divided by 0")                                                 \
    X(NEG_REAL,   1, 1, "with the other sign")                                                     \
    X(ROUND_BYTES,1, 1, "REAL to BYTES, rounded")                                                  \
    /* comparison: a is enum vcl_cmp */                                                            \
    X(CMP_INT,    2, 1, "INT, BYTES, BOOL")                                                        \
    X(CMP_REAL,   2, 1, "REAL, DURATION, TIME")                                                    \
    X(CMP_STR,    2, 1, "single STRINGs: an unset one equals nothing")                             \
    X(CMP_IP,     2, 1, "EQ or NE; port and all but the address do not count")                     \
    X(CMP_PTR,    2, 1, "EQ or NE")                                                                \
    X(MATCH,      1, 1, "STRING ~ regexes[c]; unset as empty")                                     \
    X(MATCH_ACL,  1, 1, "IP ~ acls[c]")                                                            \
    X(NOT,        1, 1, "BOOL, the other one")                                                     \
    /* the way */                                                                                  \
    X(JUMP,       0, 0, "to c")                                                                    \
    X(JUMP_IF,    1, 0, "to c, if the BOOL is true")                                               \
    X(JUMP_UNLESS,1, 0, "to c, if it is false")                                                    \
    X(CALL,       0, 0, "the sub at c; a and b: its longest path, for the step budget")            \
    X(RET,        0, 0, "back to the caller; at the top: the sub ended without return")            \
    X(RETURN,    -1, 0, "action a; b: what is on the stack, enum vcl_return; c: how many")         \
    X(TRACE,      0, 0, "remember place c")                                                        \
    /* effects */                                                                                  \
    X(SET,        1, 0, "variable b")                                                              \
    X(UNSET,      0, 0, "variable b")                                                              \
    X(SET_FIELD,  1, 0, "field names[c] of message a; unset as empty")                             \
    X(UNSET_FIELD,0, 0, "field names[c] of message a")                                             \
    X(SET_BODY,  -1, 0, "c STRINGs are the body b, or, with a, are added to it")                   \
    X(HASH_DATA,  1, 0, "STRING: adds it to the key; unset as empty")                              \
    X(BAN,        1, 0, "STRING: a ban expression; a wrong one is not a failure")                  \
    /* functions: arguments in the order of their declaration, absent ones as zeros; c has a bit  \
     * for each that is there */                                                                  \
    X(FUNC,      -1, 1, "function b of VCL_FUNC_TABLE, a arguments; VOID gives nothing")           \
    X(METHOD,    -1, 1, "the object, then a arguments: method b; VOID gives nothing")              \
    X(NEW,       -1, 0, "a arguments: object c & 0xffff of kind b; c >> 16: arguments present")    \
    X(REGSUB,     2, 1, "STRING, replacement: regexes[c]; a: all of them (regsuball)")             \
    /* several in one, for what policies do most */                                               \
    X(JUMP_IF_FIELD,     0, 0, "to c, if field names[b] of message a is there")                    \
    X(JUMP_UNLESS_FIELD, 0, 0, "to c, if it is not")                                               \
    X(JUMP_IF_METHOD,    0, 0, "GET req.method, CONST, CMP_STR, JUMP_x: to c, if its number is a") \
    X(JUMP_UNLESS_METHOD,0, 0, "as above: to c, if it is another")                                 \
    X(FIELD_MATCH_JUMP,0, 1, "FIELD, MATCH, JUMP_x; b: 1, if it jumps on a match")                 \
    X(JUMP_IF_REQ,     0, 0, "JUMP_IF_FIELD of the request; a: the host's number of the name")     \
    X(JUMP_UNLESS_REQ, 0, 0, "JUMP_UNLESS_FIELD of the request, as above")
/* clang-format on */

enum vcl_op {
#define X(op, takes, gives, doc) VCL_OP_##op,
    VCL_OP_TABLE(X)
#undef X
    VCL_OP_COUNT
};

enum vcl_cmp {
    VCL_CMP_EQ,
    VCL_CMP_NE,
    VCL_CMP_LT,
    VCL_CMP_GT,
    VCL_CMP_LE,
    VCL_CMP_GE
};

/* RETURN: what was pushed, in this order. */
enum vcl_return {
    VCL_RETURN_STATUS = 1,   /* INT */
    VCL_RETURN_REASON = 2,   /* STRING; fail("...") has it too */
    VCL_RETURN_DURATION = 4, /* DURATION */
    VCL_RETURN_LABEL = 8,    /* INT: number of the label */
};

enum {
    VCL_STACK_MAX = 256, /* values; the compiler refuses what needs more */
    VCL_CALLS_MAX = 64,  /* subs within subs */
    VCL_ARGS_MAX = 12,   /* of a function */
};

/* Of a CALL: instructions of the longest path through its sub.  24 bits, which is beyond
 * VCL_STEPS_MAX: a sub that needs more is at that limit's far side in any case. */
#define VCL_CALL_STEPS_MAX 0xffffffu
_Static_assert(VCL_STEPS_MAX < VCL_CALL_STEPS_MAX, "a call that is cut is refused");

static inline uint32_t
vcl_call_steps(const struct vcl_insn *call)
{
    return (uint32_t)call->a << 16 | call->b;
}

/* A sub of the text, or one that the language calls. */
struct vcl_code_sub {
    const char *name;
    uint32_t entry;   /* in code; UINT32_MAX: not there */
    uint32_t quiet;   /* the same without traces; UINT32_MAX: not there */
    uint32_t longest; /* instructions of its longest path, calls included; saturates */
    bool trivial;     /* only returns `action`, which is what the core would do */
    enum vcl_action action;
    uint16_t touches; /* bit of enum vcl_http: fields read, set or unset, calls included */
};

struct vcl_object {
    const char *name;
    unsigned kind; /* enum vcl_object_kind */
    void *made;    /* by the host; NULL: not yet */
};

#define VCL_MAGIC OBJ_TAG('v', 'c', 'l', '.')
struct vcl {
    uint32_t magic;
    struct arena_box *memory;    /* everything below lies in it; vcl.c's own */
    const struct vcl_insn *code; /* all subs, then all of them without their traces */
    uint32_t ncode, nquiet;      /* of each part */
    const struct vcl_value *consts;
    uint32_t nconsts;
    const struct vcl_name *names;
    struct regex *const *regexes;
    unsigned nregexes;
    struct acl *const *acls;
    unsigned nacls;
    struct vcl_code_sub subs[VCL_SUB_COUNT];
    const struct vcl_place *places;
    unsigned nplaces;
    struct vcl_backend_decl *decls;
    unsigned ndecls;
    const char **backend_names; /* those declared first, then those of the configuration */
    const void **backends;      /* bound */
    unsigned nbackends;
    int default_backend;
    const char **storage_names;
    const void **storages;
    unsigned nstorages;
    const char **label_names;
    unsigned nlabels;
    struct vcl_object *objects;
    unsigned nobjects;
    bool hashes_as_builtin, reads_hits, reads_tls;
    unsigned stack_max;
};

#endif
