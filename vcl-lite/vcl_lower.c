/* vcl_lower.c -- code of what was checked.
 *
 * A sub's code is made callees first, with jumps to labels; vcl_lower_tidy.c shortens it, proves
 * its depth, and it goes behind the policy's code.  A sub that is called from one place is written
 * where it is called; its bare return is a jump behind it.
 */
#include "vcl-lite/vcl_sema.h"

#include <string.h>

#include "daemon/base/tassert.h"

enum {
    LOWER_INLINE_MAX = 6
}; /* instructions that are worth writing at each call */

/* A body that is being written: a sub, or one within it. */
struct lower_body {
    const struct sema_sub *sub;
    uint32_t end; /* label of what follows an inlined one; UINT32_MAX: RET */
};

static void lower_list(struct lower *l, const struct lower_body *in, struct ast_stmt *stmt);

/* --- writing --- */

/* One more instruction of the sub that is being written.  Without memory it does nothing:
 * cx->nomem is set, and the load fails as a whole. */
static void
lower_emit(struct lower *l, unsigned op, unsigned a, unsigned b, uint32_t c)
{
    struct vcl_insn *code =
        sema_grow(l->s, l->code, l->ncode, &l->code_room, sizeof(struct vcl_insn));

    if (code == NULL)
        return;
    l->code = code;
    /* Bounds that the checker has kept: a number that was cut would be another field, or another
     * place. */
    tassert(op < VCL_OP_COUNT && a <= UINT8_MAX && b <= UINT16_MAX);
    code[l->ncode++] =
        (struct vcl_insn){.op = (uint8_t)op, .a = (uint8_t)a, .b = (uint16_t)b, .c = c};
}

/* A place that is not known yet: jumps name the label, lower_put says where it is, and
 * tidy_resolve puts that into the jumps. */
static uint32_t
lower_label(struct lower *l)
{
    uint32_t *labels = sema_grow(l->s, l->labels, l->nlabels, &l->labels_room, sizeof(uint32_t));

    if (labels == NULL)
        return 0;
    l->labels = labels;
    /* Not put yet: tidy_resolve() asserts that each is. */
    labels[l->nlabels] = UINT32_MAX;
    return l->nlabels++;
}

static void
lower_put(struct lower *l, uint32_t label)
{
    /* Without memory there was no label. */
    if (label < l->nlabels)
        l->labels[label] = l->ncode;
}

/* --- places --- */

/* Remembers that lines `from` to `to` ran. */
static void
lower_trace(struct lower *l, const struct sema_sub *sub, struct vcl_pos from, struct vcl_pos to)
{
    struct vcl_place place = {.sub = sub->name};
    struct vcl_pos end = {.file = to.file, .off = to.off + (to.len > 0 ? to.len - 1 : 0)};
    unsigned column;
    uint32_t n;

    /* The tree and its files go with the load. */
    place.file = vcl_copy(
        l->s->cx, l->s->cx->keep, (struct slice){from.file->name, strlen(from.file->name)});
    vcl_pos_place(from, &place.line, &place.column);
    place.last_line = place.line;
    /* A body that an include ends in lies in two files: the first line alone is told then. */
    if (from.file == to.file)
        vcl_pos_place(end, &place.last_line, &column);
    n = sema_place(l->s, &place);
    if (n != UINT32_MAX)
        lower_emit(l, VCL_OP_TRACE, 0, 0, n);
}

static const struct ast_stmt *
lower_last(const struct ast_stmt *stmt)
{
    while (stmt->next != NULL)
        stmt = stmt->next;
    return stmt;
}

/* --- expressions --- */

static void lower_jump(struct lower *l, const struct sema_node *n, bool when, uint32_t label);

/* A condition used as a value: true or false on the stack. */
static void
lower_condition(struct lower *l, const struct sema_node *n)
{
    struct sema_node yes = {.op = VCL_OP_CONST, .type = VCL_TYPE_BOOL, .value.i = 1};
    struct sema_node no = {.op = VCL_OP_CONST, .type = VCL_TYPE_BOOL, .value.i = 0};
    uint32_t wrong = lower_label(l), end = lower_label(l);

    /* One of two constants: the depth of the stack is the same on both ways (README 6). */
    lower_jump(l, n, false, wrong);
    lower_emit(l, VCL_OP_CONST, 0, 0, sema_const(l->s, &yes));
    lower_emit(l, VCL_OP_JUMP, 0, 0, end);
    lower_put(l, wrong);
    lower_emit(l, VCL_OP_CONST, 0, 0, sema_const(l->s, &no));
    lower_put(l, end);
}

static void
lower_node(struct lower *l, const struct sema_node *n)
{
    uint32_t c = n->c;
    uint16_t b = n->b;

    /* These have no instruction: they are jumps. */
    if (n->op == SEMA_AND || n->op == SEMA_OR) {
        lower_condition(l, n);
        return;
    }
    /* Operands first, the operation behind them: that is the order of a stack. */
    for (unsigned i = 0; i < n->nkids; i++)
        lower_node(l, n->kids[i]);
    /* What the code touches is collected on the way, for vcl_touches. */
    if (n->op == VCL_OP_CONST) {
        c = sema_const(l->s, n);
        l->touches |= n->touches;
    } else if (n->op == VCL_OP_CONCAT) {
        b = (uint16_t)n->nkids;
    } else if (n->op == VCL_OP_FIELD) {
        l->touches |= 1u << n->a;
    } else if (n->op == VCL_OP_GET &&
               (n->b == VCL_VAR_OBJ_HITS || n->b == VCL_VAR_OBJ_STALE_HITS)) {
        l->s->reads_hits = true;
    } else if (n->op == VCL_OP_GET && n->b >= VCL_VAR_CLIENT_TLS_VERSION &&
               n->b <= VCL_VAR_CLIENT_CERT_FINGERPRINT) {
        l->s->reads_tls = true;
    }
    lower_emit(l, n->op, n->a, b, c);
}

/* Is a field there?  One instruction, when its number fits. */
static bool
lower_jump_field(struct lower *l, const struct sema_node *n, bool when, uint32_t label)
{
    const struct sema_node *field = n->op == VCL_OP_STR_BOOL ? n->kids[0] : NULL;

    /* Else the name's number is in `c`, which the jump needs. */
    if (field == NULL || field->op != VCL_OP_FIELD || field->c > UINT16_MAX)
        return false;
    l->touches |= 1u << field->a;
    lower_emit(
        l, when ? VCL_OP_JUMP_IF_FIELD : VCL_OP_JUMP_UNLESS_FIELD, field->a, field->c, label);
    return true;
}

/* To the label when the condition is `when`; else on. */
static void
lower_jump(struct lower *l, const struct sema_node *n, bool when, uint32_t label)
{
    uint32_t past;

    if (n->op == VCL_OP_NOT) {
        /* A negation costs nothing: it turns the jump around. */
        lower_jump(l, n->kids[0], !when, label);
    } else if (n->op == VCL_OP_CONST) {
        /* Else never: the code goes on, without a test. */
        if ((n->value.i != 0) == when)
            lower_emit(l, VCL_OP_JUMP, 0, 0, label);
    } else if (n->op == (when ? SEMA_OR : SEMA_AND)) { /* either decides */
        lower_jump(l, n->kids[0], when, label);
        lower_jump(l, n->kids[1], when, label);
    } else if (n->op == SEMA_OR || n->op == SEMA_AND) { /* both are needed */
        past = lower_label(l);
        lower_jump(l, n->kids[0], !when, past);
        lower_jump(l, n->kids[1], when, label);
        lower_put(l, past);
    } else if (!lower_jump_field(l, n, when, label)) {
        lower_node(l, n);
        lower_emit(l, when ? VCL_OP_JUMP_IF : VCL_OP_JUMP_UNLESS, 0, 0, label);
    }
}

/* --- statements --- */

/* The strings of a body: each part by itself, nothing is put together. */
static void
lower_body_set(struct lower *l, const struct sema_node *n, enum vcl_var var, bool append)
{
    unsigned parts = n->op == VCL_OP_CONCAT ? n->nkids : 1;

    if (n->op == VCL_OP_CONCAT)
        for (unsigned i = 0; i < parts; i++)
            lower_node(l, n->kids[i]);
    else
        lower_node(l, n);
    lower_emit(l, VCL_OP_SET_BODY, append, var, parts);
}

static void
lower_set(struct lower *l, const struct ast_stmt *stmt)
{
    enum vcl_var var = sema_var(l->s, stmt->var);
    const struct sema_node *n = stmt->expr->what;
    int http = sema_var_http(var);

    /* The load has warned that it has no effect here, so there is no code. */
    if (sema_var_inert(var) != NULL)
        return;
    if (sema_var_type(var) == VCL_TYPE_BODY) {
        lower_body_set(l, n, var, stmt->op == AST_ASSIGN_ADD);
        return;
    }
    lower_node(l, n);
    if (http < 0) {
        lower_emit(l, VCL_OP_SET, 0, var, 0);
        return;
    }
    l->touches |= 1u << http;
    lower_emit(l, VCL_OP_SET_FIELD, (unsigned)http, 0, sema_field(l->s, stmt->var, var));
}

static void
lower_unset(struct lower *l, const struct ast_stmt *stmt)
{
    enum vcl_var var = sema_var(l->s, stmt->var);
    int http = sema_var_http(var);

    if (sema_var_inert(var) != NULL)
        return;
    if (http < 0) {
        lower_emit(l, VCL_OP_UNSET, 0, var, 0);
        return;
    }
    l->touches |= 1u << http;
    lower_emit(l, VCL_OP_UNSET_FIELD, (unsigned)http, 0, sema_field(l->s, stmt->var, var));
}

static void
lower_return(struct lower *l, const struct lower_body *in, const struct ast_stmt *stmt)
{
    static const unsigned given[][2] = {
        [VCL_ACT_SYNTH] = {VCL_RETURN_STATUS, VCL_RETURN_REASON},
        [VCL_ACT_ERROR] = {VCL_RETURN_STATUS, VCL_RETURN_REASON},
        [VCL_ACT_PASS] = {VCL_RETURN_DURATION, 0},
        [VCL_ACT_VCL] = {VCL_RETURN_LABEL, 0},
        [VCL_ACT_FAIL] = {VCL_RETURN_REASON, 0},
    };
    enum vcl_action a;
    unsigned mask = 0, i = 0;

    if (stmt->name.len == 0) {
        /* A bare return leaves the sub, not the run; an inlined sub is left by a jump behind it. */
        if (in->end == UINT32_MAX)
            lower_emit(l, VCL_OP_RET, 0, 0, 0);
        else
            lower_emit(l, VCL_OP_JUMP, 0, 0, in->end);
        return;
    }
    a = sema_action(stmt->name);
    /* In front of the arguments: where they fail, this line is named. */
    lower_trace(l, in->sub, stmt->pos, stmt->pos);
    for (const struct ast_arg *arg = stmt->args; arg != NULL; arg = arg->next) {
        lower_node(l, arg->value->what);
        /* Which values are on the stack: the machine cannot tell a status from a reason. */
        mask |= given[a][i++];
    }
    /* Behind its arguments: from here nothing of this run is left to do. */
    lower_emit(l, VCL_OP_RETURN, a, mask, i);
}

/* Is this block one return, which leaves a trace of its own? */
static bool
lower_is_return(const struct ast_stmt *stmt)
{
    return stmt != NULL && stmt->kind == AST_RETURN;
}

/* A trace for the branch as a whole: the log then shows which lines ran. */
static void
lower_branch(struct lower *l, const struct lower_body *in, struct ast_stmt *body)
{
    if (body != NULL && !lower_is_return(body))
        lower_trace(l, in->sub, body->pos, lower_last(body)->pos);
    lower_list(l, in, body);
}

/* A chain of else-ifs is walked, not recursed into: only nesting uses the C stack. */
static void
lower_if(struct lower *l, const struct lower_body *in, const struct ast_stmt *stmt)
{
    uint32_t end = lower_label(l);

    for (;;) {
        uint32_t next = lower_label(l);

        lower_jump(l, stmt->expr->what, false, next);
        lower_branch(l, in, stmt->body);
        /* The last branch runs into what follows. */
        if (stmt->otherwise != NULL)
            lower_emit(l, VCL_OP_JUMP, 0, 0, end);
        lower_put(l, next);
        if (stmt->otherwise == NULL || stmt->otherwise->kind != AST_IF ||
            stmt->otherwise->next != NULL)
            break;
        stmt = stmt->otherwise;
    }
    if (stmt->otherwise != NULL)
        lower_branch(l, in, stmt->otherwise);
    lower_put(l, end);
}

static void
lower_defs(struct lower *l, const struct lower_body *in)
{
    for (unsigned i = 0; i < in->sub->ndefs; i++) {
        const struct ast_sub *def = in->sub->defs[i];

        /* What the builtin's hooks do without returning is not worth a line of a log. */
        if (def->body != NULL && !lower_is_return(def->body) &&
            (!def->pos.file->builtin || in->sub->vcl >= 0))
            lower_trace(l, in->sub, def->body->pos, lower_last(def->body)->pos);
        lower_list(l, in, def->body);
    }
}

static void lower_sub(struct sema *s, struct sema_sub *sub);

/* Short code that may stand at each call: no jumps, no calls, and back at the end. */
static bool
lower_is_short(const struct sema *s, const struct sema_sub *sub)
{
    /* Behind it the next sub's code begins: the bound is on its length. */
    for (uint32_t i = sub->entry; i < s->ncode && i - sub->entry <= LOWER_INLINE_MAX; i++) {
        if (s->code[i].op == VCL_OP_RET)
            return true;
        /* Their places are in the code that is copied from. */
        if (lower_is_jump(s->code[i].op) || s->code[i].op == VCL_OP_CALL ||
            s->code[i].op == VCL_OP_RETURN)
            return false;
    }
    return false;
}

/* The code that was made already, up to its end: made anew at each call, subs that call a short one
 * twice, which calls one twice, would take all day. */
static void
lower_copy(struct lower *l, const struct sema_sub *sub)
{
    const struct sema *s = l->s;

    for (uint32_t i = sub->entry; s->code[i].op != VCL_OP_RET; i++)
        lower_emit(l, s->code[i].op, s->code[i].a, s->code[i].b, s->code[i].c);
}

static void
lower_call(struct lower *l, const struct ast_stmt *stmt)
{
    struct sema_sub *sub = sema_sub_find(l->s, stmt->name);
    struct lower_body in = {.sub = sub};
    uint32_t steps;

    /* Callees first: their length and depth are needed here.  It ends, as no sub calls itself. */
    if (sub->sites > 1 && !sub->lowered)
        lower_sub(l->s, sub);
    if (sub->sites > 1)
        /* Of a sub that is written here it is collected on the way. */
        l->touches |= sub->touches;
    if (sub->sites > 1 && lower_is_short(l->s, sub)) {
        lower_copy(l, sub);
        return;
    }
    if (sub->sites > 1) {
        if (sub->depth + 1 > l->depth)
            l->depth = sub->depth + 1;
        /* What it may cost goes along for vcl_count(). */
        steps = sub->longest < VCL_CALL_STEPS_MAX ? sub->longest : VCL_CALL_STEPS_MAX;
        lower_emit(l, VCL_OP_CALL, steps >> 16, steps & UINT16_MAX, sub->entry);
        return;
    }
    /* One place calls it: written here, it costs no call. */
    in.end = lower_label(l);
    lower_defs(l, &in);
    lower_put(l, in.end);
}

static void
lower_expr(struct lower *l, const struct ast_stmt *stmt)
{
    const struct sema_node *n = stmt->expr->what;

    lower_node(l, n);
    /* A value that is not wanted must not stay on the stack. */
    if (n->type != VCL_TYPE_VOID)
        lower_emit(l, VCL_OP_POP, 0, 0, 0);
}

/* synthetic("...") adds to resp.body in vcl_synth, to beresp.body in vcl_backend_error. */
static void
lower_synthetic(struct lower *l, const struct lower_body *in, const struct ast_stmt *stmt)
{
    unsigned by = in->sub->called_by;

    /* There is one code for the sub, and the body is another in each. */
    if ((by & VCL_IN(SYNTH)) != 0 && (by & VCL_IN(BACKEND_ERROR)) != 0) {
        vcl_fail(l->s->cx, stmt->pos, "write one sub for each, with set resp.body, set beresp.body",
            "synthetic() in a sub that both vcl_synth and vcl_backend_error call");
        return;
    }
    lower_body_set(l, stmt->expr->what,
        (by & VCL_IN(SYNTH)) != 0 ? VCL_VAR_RESP_BODY : VCL_VAR_BERESP_BODY, true);
}

static void
lower_one(struct lower *l, const struct lower_body *in, struct ast_stmt *stmt)
{
    switch (stmt->kind) {
    case AST_BLOCK:
        lower_list(l, in, stmt->body);
        break;
    case AST_SET:
        lower_set(l, stmt);
        break;
    case AST_UNSET:
        lower_unset(l, stmt);
        break;
    case AST_CALL_SUB:
        lower_call(l, stmt);
        break;
    case AST_IF:
        lower_if(l, in, stmt);
        break;
    case AST_RETURN:
        lower_return(l, in, stmt);
        break;
    case AST_HASH_DATA:
        lower_node(l, stmt->expr->what);
        lower_emit(l, VCL_OP_HASH_DATA, 0, 0, 0);
        break;
    case AST_BAN:
        lower_node(l, stmt->expr->what);
        lower_emit(l, VCL_OP_BAN, 0, 0, 0);
        break;
    case AST_SYNTHETIC:
        lower_synthetic(l, in, stmt);
        break;
    case AST_NEW:
        lower_node(l, stmt->expr->what);
        break;
    case AST_EXPR:
        lower_expr(l, stmt);
        break;
    }
}

static void
lower_list(struct lower *l, const struct lower_body *in, struct ast_stmt *stmt)
{
    for (; stmt != NULL && !l->s->cx->nomem; stmt = stmt->next) {
        lower_one(l, in, stmt);
        if (stmt->kind == AST_RETURN)
            break; /* what stands behind is never reached */
    }
}

/* --- subs --- */

/* The sub's code goes behind what is there; its jumps become places there. */
static void
lower_append(struct lower *l)
{
    struct sema *s = l->s;

    l->sub->entry = s->ncode;
    for (unsigned i = 0; i < l->ncode; i++) {
        struct vcl_insn *code = sema_grow(s, s->code, s->ncode, &s->code_room, sizeof(*code));

        if (code == NULL)
            return;
        s->code = code;
        code[s->ncode] = l->code[i];
        /* Jumps count from the sub's own beginning until here. */
        if (lower_is_jump(l->code[i].op))
            code[s->ncode].c += l->sub->entry;
        s->ncode++;
    }
}

static void
lower_sub(struct sema *s, struct sema_sub *sub)
{
    struct lower l = {.s = s, .sub = sub};
    struct lower_body in = {.sub = sub, .end = UINT32_MAX};
    unsigned stack;

    sub->lowered = true;
    lower_defs(&l, &in);
    lower_emit(&l, VCL_OP_RET, 0, 0, 0);
    /* The code may have holes, about which the proofs below would be wrong. */
    if (s->cx->nomem || s->cx->nerrors > 0)
        return;
    lower_tidy(&l);
    stack = lower_stack(&l);
    if (stack > s->stack_max)
        s->stack_max = stack;
    if (stack > VCL_STACK_MAX)
        vcl_fail(s->cx, sub->pos, NULL, "sub '%s' has an expression with more than %d parts",
            sub->name, VCL_STACK_MAX);
    sub->longest = lower_longest(&l);
    sub->depth = l.depth;
    sub->touches = l.touches;
    /* Last: the proofs above do not know fused instructions. */
    lower_fuse(&l);
    lower_append(&l);
}

/* Does it nothing but return the action by which the core goes on?  Then it need not be run. */
static void
lower_trivial(const struct sema *s, unsigned sub, struct vcl_code_sub *out)
{
    static const uint8_t goes_on[] = {
#define X(id, name, actions, goes_on, doc) [VCL_SUB_##id] = VCL_ACT_##goes_on,
        VCL_SUB_TABLE(X)
#undef X
    };
    uint32_t i = out->entry;

    /* A trace alone is no reason to run it. */
    while (s->code[i].op == VCL_OP_TRACE)
        i++;
    out->action = s->code[i].op == VCL_OP_RETURN ? (enum vcl_action)s->code[i].a : VCL_ACT_NONE;
    out->trivial = out->action != VCL_ACT_NONE && out->action == goes_on[sub];
}

static void
lower_count_sites(struct sema *s)
{
    for (const struct sema_sub *sub = s->subs; sub != NULL; sub = sub->next) {
        /* It never runs: its calls make no code necessary. */
        if (sub->called_by == 0)
            continue;
        for (struct sema_call *call = sub->calls; call != NULL; call = call->next)
            call->sub->sites += call->sub->vcl >= 0 ? 2 : 1; /* vcl_* subs have code of their own */
    }
}

/* All code once more, without its traces: it runs while no reader wants the lines (vcl_run).  A jump
 * to a trace goes to what follows it; behind the last trace of a sub there is always a return. */
static void
lower_quiet(struct sema *s)
{
    const unsigned end = s->ncode;
    uint32_t *moved = vcl_alloc(s->cx, s->cx->scratch, (end + 1) * sizeof(uint32_t));
    uint32_t at = end;

    if (moved == NULL)
        return;
    for (unsigned i = 0; i < end; i++) {
        moved[i] = at;
        at += s->code[i].op != VCL_OP_TRACE;
    }
    for (unsigned i = 0; i < end; i++) {
        struct vcl_insn in = s->code[i], *code;

        if (in.op == VCL_OP_TRACE)
            continue;
        tassert(s->ncode == moved[i]);
        code = sema_grow(s, s->code, s->ncode, &s->code_room, sizeof(*code));
        if (code == NULL)
            return;
        if (lower_is_jump(in.op) || in.op == VCL_OP_CALL)
            in.c = moved[in.c];
        s->code = code;
        code[s->ncode++] = in;
    }
    s->nquiet = s->ncode - end;
    s->ncode = end;
    for (struct sema_sub *sub = s->subs; sub != NULL; sub = sub->next)
        if (sub->vcl >= 0)
            s->cx->vcl->subs[sub->vcl].quiet = moved[sub->entry];
}

void
lower_policy(struct sema *s)
{
    struct vcl_code_sub *out;

    lower_count_sites(s);
    for (struct sema_sub *sub = s->subs; sub != NULL && !s->cx->nomem; sub = sub->next)
        if (sub->vcl >= 0 && !sub->lowered)
            /* What is called by these is made on the way; what is not called is not made. */
            lower_sub(s, sub);
    if (s->cx->nomem || s->cx->nerrors > 0)
        return;
    for (struct sema_sub *sub = s->subs; sub != NULL; sub = sub->next) {
        if (sub->vcl < 0)
            continue;
        out = &s->cx->vcl->subs[sub->vcl];
        out->entry = sub->entry;
        out->longest = sub->longest;
        out->touches = (uint16_t)sub->touches;
        lower_trivial(s, (unsigned)sub->vcl, out);
        /* A policy that could never finish is refused at the load, not at a request. */
        if (sub->longest > VCL_STEPS_MAX)
            vcl_fail(
                s->cx, sub->pos, NULL, "%s may take more than %d steps", sub->name, VCL_STEPS_MAX);
        if (sub->depth > VCL_CALLS_MAX)
            vcl_fail(s->cx, sub->pos, NULL, "%s has more than %d subs within each other", sub->name,
                VCL_CALLS_MAX);
    }
    lower_quiet(s);
}
