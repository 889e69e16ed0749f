/* vcl_code_test.c -- what the compiler makes of policies: code, its proofs, and the reference. */
#include "vcl-lite/vcl_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"
#include "t/unit/test.h"
#include "vcl-lite/vcl_doc.h"
#include "vcl-lite/vcl_dump.h"
#include "vcl-lite/vcl_sema.h"

enum {
    TEXT_MAX = 256 * 1024
};

struct memo {
    char text[TEXT_MAX];
    size_t len;
};

static void
memo_write(void *ctx, const char *text)
{
    struct memo *m = ctx;
    size_t len = strlen(text);

    tassert(m->len + len < sizeof(m->text));
    memcpy(m->text + m->len, text, len + 1);
    m->len += len;
}

static unsigned
field_id(void *ctx, struct slice name)
{
    (void)ctx;
    return (unsigned)name.len;
}

/* As long as their names: no two of the same length are asked about in one test. */
static unsigned
method_id(void *ctx, struct slice name)
{
    (void)ctx;
    return (unsigned)name.len;
}

static int
read_file(
    void *ctx, const char *name, const char *from, struct span *out, char **path, const char **why)
{
    (void)ctx;
    (void)name;
    (void)from;
    (void)out;
    (void)path;
    *why = "there are no files";
    return -1;
}

static bool
has_none(void *ctx, struct slice name)
{
    (void)ctx;
    (void)name;
    return false;
}

/* Compiled, or NULL; the caller frees it. */
static struct vcl *
compile(const char *body)
{
    static const struct vcl_loader loader = {.field_id = field_id,
        .method_id = method_id,
        .read_file = read_file,
        .has_backend = has_none,
        .has_storage = has_none,
        .has_label = has_none};
    char text[4096];
    struct vcl_source src = {.name = "t.vcl"};
    struct vcl_error *errors = NULL;
    struct vcl *v = NULL;

    snprintf(text, sizeof(text), "vcl 4.1; import std; backend be none; %s", body);
    src.text = slice_str(text);
    vcl_compile(&v, &src, &loader, &errors);
    vcl_errors_free(&errors);
    return v;
}

/* How many instructions of this kind a sub has, until its last RETURN or the next sub. */
static unsigned
count(const struct vcl *v, enum vcl_sub sub, enum vcl_op op)
{
    uint32_t end = v->ncode;
    unsigned n = 0;

    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        if (v->subs[i].entry > v->subs[sub].entry && v->subs[i].entry < end)
            end = v->subs[i].entry;
    for (uint32_t i = v->subs[sub].entry; i < end; i++)
        n += v->code[i].op == op;
    return n;
}

/* --- the builtin policy --- */

TEST(code, builtin_subs_that_only_return_are_trivial)
{
    struct vcl *v = compile("");
    enum vcl_action a = VCL_ACT_NONE;

    CHECK(vcl_is_trivial(v, VCL_SUB_HIT, &a));
    CHECK_EQ(VCL_ACT_DELIVER, a);
    CHECK(vcl_is_trivial(v, VCL_SUB_MISS, &a));
    CHECK_EQ(VCL_ACT_FETCH, a);
    CHECK(vcl_is_trivial(v, VCL_SUB_DELIVER, &a));
    CHECK(!vcl_is_trivial(v, VCL_SUB_RECV, &a));
    CHECK(!vcl_is_trivial(v, VCL_SUB_HASH, &a));
    CHECK(vcl_hashes_as_builtin(v));
    CHECK(!vcl_reads_hits(v));
    vcl_free(&v);
}

/* Each row of the table of subs with each of its actions that need no argument. */
TEST(code, a_sub_is_trivial_only_by_the_action_by_which_the_core_goes_on)
{
    static const struct {
        unsigned actions, goes_on;
    } subs[] = {
#define X(id, name, actions, goes_on, doc) [VCL_SUB_##id] = {actions, VCL_ACT_##goes_on},
        VCL_SUB_TABLE(X)
#undef X
    };

    for (unsigned sub = 0; sub < VCL_SUB_COUNT; sub++) {
        for (unsigned act = VCL_ACT_NONE + 1; act < VCL_ACT_COUNT; act++) {
            const unsigned with_arguments = VCL_DO(SYNTH) | VCL_DO(VCL);
            enum vcl_action only;
            char text[120];
            struct vcl *v;

            if ((subs[sub].actions & ~with_arguments & 1u << act) == 0)
                continue;
            snprintf(text, sizeof(text), "sub %s { return (%s); }", vcl_sub_name((enum vcl_sub)sub),
                vcl_action_name((enum vcl_action)act));
            v = compile(text);
            CHECK_EQ(act == subs[sub].goes_on, vcl_is_trivial(v, (enum vcl_sub)sub, &only));
            CHECK_EQ(act, only);
            vcl_free(&v);
        }
    }
}

TEST(code, hooks_of_the_builtin_are_written_where_they_are_called)
{
    struct vcl *v = compile("");

    CHECK_EQ(0, count(v, VCL_SUB_RECV, VCL_OP_CALL));
    CHECK_EQ(0, count(v, VCL_SUB_HASH, VCL_OP_CALL));
    CHECK_EQ(5, count(v, VCL_SUB_BACKEND_RESPONSE, VCL_OP_CALL)); /* vcl_beresp_hitmiss */
    vcl_free(&v);
}

TEST(code, touches_are_told_with_those_of_called_subs)
{
    struct vcl *v = compile("sub f { std.collect(resp.http.a); set resp.http.b = \"1\"; }"
                            "sub vcl_deliver { call f; call f; }");

    CHECK(vcl_touches(v, VCL_SUB_DELIVER, VCL_HTTP_RESP));
    CHECK(!vcl_touches(v, VCL_SUB_DELIVER, VCL_HTTP_REQ));
    CHECK(vcl_touches(v, VCL_SUB_RECV, VCL_HTTP_REQ));
    CHECK(vcl_touches(v, VCL_SUB_BACKEND_RESPONSE, VCL_HTTP_BERESP));
    CHECK(!vcl_touches(v, VCL_SUB_HIT, VCL_HTTP_OBJ));
    vcl_free(&v);
}

TEST(code, a_hook_of_the_text_ends_what_the_builtin_would_do)
{
    struct vcl *v = compile("sub vcl_builtin_hash { hash_data(req.url); return (lookup); }"
                            "sub vcl_deliver { set resp.http.x = obj.hits; }");

    CHECK(!vcl_hashes_as_builtin(v));
    CHECK(vcl_reads_hits(v));
    CHECK_EQ(1, count(v, VCL_SUB_HASH, VCL_OP_HASH_DATA));
    vcl_free(&v);
}

/* --- expressions and conditions --- */

TEST(code, what_is_known_at_load_is_computed)
{
    struct vcl *v = compile("sub vcl_deliver { set resp.http.x = \"a\" + 1 + {\"b\"} + (2 + 3);"
                            "  if (1 + 1 == 3 || false) { } return (deliver); }");
    const struct vcl_insn *code = &v->code[v->subs[VCL_SUB_DELIVER].entry];

    CHECK_EQ(VCL_OP_TRACE, code[0].op);
    CHECK_EQ(VCL_OP_CONST, code[1].op);
    CHECK(slice_eq(
        slice_str("a1b5"), (struct slice){v->consts[code[1].c].s, v->consts[code[1].c].len}));
    CHECK_EQ(VCL_OP_SET_FIELD, code[2].op);
    CHECK_EQ(0, count(v, VCL_SUB_DELIVER, VCL_OP_CONCAT));
    CHECK_EQ(0, count(v, VCL_SUB_DELIVER, VCL_OP_ADD_INT));
    vcl_free(&v);
}

TEST(code, conditions_are_jumps)
{
    struct vcl *v = compile("sub vcl_deliver { if (!(resp.http.a && !resp.http.b) || resp.http.c) {"
                            "  set resp.http.x = \"1\"; } }");

    CHECK_EQ(0, count(v, VCL_SUB_DELIVER, VCL_OP_NOT));
    CHECK_EQ(0, count(v, VCL_SUB_DELIVER, VCL_OP_STR_BOOL));
    CHECK_EQ(0, count(v, VCL_SUB_DELIVER, VCL_OP_JUMP));
    CHECK_EQ(3, count(v, VCL_SUB_DELIVER, VCL_OP_JUMP_IF_FIELD) +
                    count(v, VCL_SUB_DELIVER, VCL_OP_JUMP_UNLESS_FIELD));
    vcl_free(&v);
}

TEST(code, a_body_is_set_in_parts)
{
    struct vcl *v = compile("sub vcl_synth { set resp.body = \"a\" + resp.status + \"b\";"
                            "  set resp.body += \"c\" + \"d\"; return (deliver); }");
    const struct vcl_insn *code = &v->code[v->subs[VCL_SUB_SYNTH].entry];

    CHECK_EQ(0, count(v, VCL_SUB_SYNTH, VCL_OP_CONCAT));
    CHECK_EQ(VCL_OP_SET_BODY, code[5].op);
    CHECK_EQ(3, code[5].c);
    CHECK_EQ(0, code[5].a);
    CHECK_EQ(VCL_OP_SET_BODY, code[7].op);
    CHECK_EQ(1, code[7].c);
    CHECK_EQ(1, code[7].a);
    vcl_free(&v);
}

TEST(code, a_variable_without_its_feature_makes_no_code)
{
    struct vcl *v = compile("sub vcl_backend_fetch { set bereq.filters = \"gzip\"; }");

    CHECK(v != NULL);
    for (uint32_t i = 0; i < v->ncode; i++)
        CHECK(v->code[i].op != VCL_OP_SET || v->code[i].b != VCL_VAR_BEREQ_FILTERS);
    vcl_free(&v);
}

/* --- bounds --- */

/* sub s0 { } sub s1 { call s0; call s0; } ...: twice as long each. */
static char *
doubling_subs(unsigned n, const char *recv)
{
    char *text = calloc(1, 4096);
    size_t len = 0;

    len += (size_t)snprintf(
        text + len, 4096 - len, "sub s0 { if (req.url == \"/\") { set req.http.a = \"1\"; } }");
    for (unsigned i = 1; i < n; i++)
        len += (size_t)snprintf(
            text + len, 4096 - len, " sub s%u { call s%u; call s%u; }", i, i - 1, i - 1);
    snprintf(text + len, 4096 - len, " sub vcl_recv { %s }", recv);
    return text;
}

TEST(code, a_path_that_is_too_long_is_refused)
{
    char *text = doubling_subs(12, "call s11;");
    struct vcl *v = compile(text);

    CHECK(v != NULL);
    CHECK(v->subs[VCL_SUB_RECV].longest > 2048 * 6);
    vcl_free(&v);
    free(text);
    text = doubling_subs(24, "call s23;");
    v = compile(text);
    CHECK(v == NULL);
    free(text);
}

/* A call says how long its sub is, also where 16 bits are too few for that. */
TEST(code, a_path_within_the_limit_is_counted_exactly_at_each_call)
{
    char *text = doubling_subs(13, "if (req.http.x) { call big; } else { call big; } }"
                                   "sub big { call s12; call s11;");
    struct vcl *v = compile(text);
    uint32_t called = 0;

    CHECK(v != NULL);
    for (uint32_t i = v->subs[VCL_SUB_RECV].entry; called == 0 && i < v->ncode; i++)
        called = v->code[i].op == VCL_OP_CALL ? vcl_call_steps(&v->code[i]) : 0;
    CHECK(called > UINT16_MAX);
    CHECK(called < v->subs[VCL_SUB_RECV].longest);
    CHECK(v->subs[VCL_SUB_RECV].longest <= VCL_STEPS_MAX);
    vcl_free(&v);
    free(text);
    text = doubling_subs(13, "call big; call big; } sub big { call s12; call s11;");
    v = compile(text);
    CHECK(v == NULL);
    free(text);
}

TEST(code, jumps_go_forward_and_stay_within)
{
    struct vcl *v =
        compile("sub vcl_recv { if (req.http.a) { return (pass); } elseif (req.http.b) {"
                "  set req.http.c = req.http.d && req.http.e; } else { return (pipe); } }");

    for (uint32_t i = 0; i < v->ncode; i++) {
        unsigned op = v->code[i].op;

        if (op == VCL_OP_JUMP || op == VCL_OP_JUMP_IF || op == VCL_OP_JUMP_UNLESS ||
            op == VCL_OP_JUMP_IF_FIELD || op == VCL_OP_JUMP_UNLESS_FIELD)
            CHECK(v->code[i].c > i && v->code[i].c < v->ncode);
        else if (op == VCL_OP_CALL)
            CHECK(v->code[i].c < v->ncode);
    }
    CHECK(v->stack_max >= 2 && v->stack_max <= VCL_STACK_MAX);
    vcl_free(&v);
}

/* What runs while no reader wants the lines. */
TEST(code, without_traces_it_is_the_same_code)
{
    struct vcl *v = compile("sub s { if (req.http.a) { return (pass); } set req.http.b = \"1\"; }"
                            "sub vcl_recv { call s; if (req.method == \"GET\") { call s; }"
                            "  elseif (req.url ~ \"x\") { return (pipe); } }");
    uint32_t at = v->ncode, moved[4096];
    unsigned ncalls = 0;

    CHECK(v->ncode < ARRAY_LEN(moved));
    for (uint32_t i = 0; i < v->ncode; i++) {
        moved[i] = at;
        at += v->code[i].op != VCL_OP_TRACE;
    }
    CHECK_EQ(v->ncode + v->nquiet, at);
    CHECK(v->nquiet < v->ncode);
    for (uint32_t i = 0; i < v->ncode; i++) {
        const struct vcl_insn *in = &v->code[i], *quiet = &v->code[moved[i]];
        bool goes = lower_is_jump(in->op) || in->op == VCL_OP_CALL;

        if (in->op == VCL_OP_TRACE)
            continue;
        CHECK_EQ(in->op, quiet->op);
        CHECK(in->a == quiet->a && in->b == quiet->b);
        CHECK_EQ(goes ? moved[in->c] : in->c, quiet->c);
        ncalls += in->op == VCL_OP_CALL;
    }
    CHECK(ncalls >= 2);
    for (unsigned i = 0; i < VCL_SUB_COUNT; i++)
        CHECK_EQ(moved[v->subs[i].entry], v->subs[i].quiet);
    vcl_free(&v);
}

TEST(code, a_method_is_compared_by_number_in_one_step)
{
    struct vcl *v = compile("sub vcl_deliver { if (req.method == \"GET\") { return (restart); }"
                            "  if (req.method != \"HEAD\" && req.method == \"x\") {"
                            "    return (restart); } }");

    CHECK_EQ(2, count(v, VCL_SUB_DELIVER, VCL_OP_JUMP_UNLESS_METHOD)); /* not ==: past the body */
    CHECK_EQ(1, count(v, VCL_SUB_DELIVER, VCL_OP_JUMP_IF_METHOD));
    for (uint32_t i = v->subs[VCL_SUB_DELIVER].entry; i < v->ncode; i++)
        if (v->code[i].op == VCL_OP_JUMP_IF_METHOD || v->code[i].op == VCL_OP_JUMP_UNLESS_METHOD) {
            CHECK_EQ(v->code[i].c, v->code[i + 3].c);
            CHECK(v->code[i].a > 0);
        }
    vcl_free(&v);
}

/* --- documentation --- */

TEST(code, every_instruction_can_be_dumped)
{
    struct memo *m = calloc(1, sizeof(*m));
    struct vcl *v = compile("");

    vcl_dump(v, memo_write, m);
    CHECK(strstr(m->text, "vcl_recv: longest") != NULL);
    CHECK(strstr(m->text, "SET_BODY") != NULL);
    CHECK(strstr(m->text, "req.http.host") != NULL);
    vcl_free(&v);
    free(m);
}

TEST(code, reference_is_what_the_generator_prints)
{
    struct memo *m = calloc(1, sizeof(*m));
    char *text = calloc(1, TEXT_MAX);
    FILE *file = fopen("vcl-lite/README.md", "rb"); /* tests run in the root of the sources */
    ;
    char *begin, *end;

    CHECK(file != NULL);
    CHECK(fread(text, 1, TEXT_MAX - 1, file) > 0);
    fclose(file);
    begin = strstr(text, VCL_DOC_BEGIN);
    end = strstr(text, VCL_DOC_END);
    CHECK(begin != NULL && end != NULL);
    *end = '\0';
    vcl_doc_reference(memo_write, m);
    CHECK_STR(m->text, begin + strlen(VCL_DOC_BEGIN));
    free(text);
    free(m);
}

TEST_MAIN(TEST_ENTRY(code, builtin_subs_that_only_return_are_trivial),
    TEST_ENTRY(code, a_sub_is_trivial_only_by_the_action_by_which_the_core_goes_on),
    TEST_ENTRY(code, hooks_of_the_builtin_are_written_where_they_are_called),
    TEST_ENTRY(code, touches_are_told_with_those_of_called_subs),
    TEST_ENTRY(code, a_hook_of_the_text_ends_what_the_builtin_would_do),
    TEST_ENTRY(code, what_is_known_at_load_is_computed), TEST_ENTRY(code, conditions_are_jumps),
    TEST_ENTRY(code, a_body_is_set_in_parts),
    TEST_ENTRY(code, a_variable_without_its_feature_makes_no_code),
    TEST_ENTRY(code, a_path_that_is_too_long_is_refused),
    TEST_ENTRY(code, a_path_within_the_limit_is_counted_exactly_at_each_call),
    TEST_ENTRY(code, jumps_go_forward_and_stay_within),
    TEST_ENTRY(code, without_traces_it_is_the_same_code),
    TEST_ENTRY(code, a_method_is_compared_by_number_in_one_step),
    TEST_ENTRY(code, every_instruction_can_be_dumped),
    TEST_ENTRY(code, reference_is_what_the_generator_prints))
