/* vcl_lower_tidy.c -- shorter code, and what is proven of it.
 *
 * Every jump goes forward: the language has no loops.  So one pass from the end finds the longest
 * path, and one from the start the depth of the stack.
 */
#include "vcl-lite/vcl_sema.h"

#include <string.h>

#include "daemon/base/tassert.h"

static const struct {
    int8_t takes, gives;
} tidy_ops[] = {
#define X(op, takes, gives, doc) [VCL_OP_##op] = {takes, gives},
    VCL_OP_TABLE(X)
#undef X
};

bool
lower_is_jump(unsigned op)
{
    return op == VCL_OP_JUMP || op == VCL_OP_JUMP_IF || op == VCL_OP_JUMP_UNLESS ||
           op == VCL_OP_JUMP_IF_FIELD || op == VCL_OP_JUMP_UNLESS_FIELD ||
           op == VCL_OP_JUMP_IF_REQ || op == VCL_OP_JUMP_UNLESS_REQ ||
           op == VCL_OP_JUMP_IF_METHOD || op == VCL_OP_JUMP_UNLESS_METHOD;
}

/* Nothing that follows it is reached from it. */
static bool
tidy_ends(unsigned op)
{
    return op == VCL_OP_JUMP || op == VCL_OP_RET || op == VCL_OP_RETURN;
}

/* Labels become numbers of instructions. */
static void
tidy_resolve(struct lower *l)
{
    for (unsigned i = 0; i < l->ncode; i++) {
        if (!lower_is_jump(l->code[i].op))
            continue;
        tassert(l->code[i].c < l->nlabels);
        l->code[i].c = l->labels[l->code[i].c];
        tassert(l->code[i].c > i && l->code[i].c < l->ncode);
    }
}

/* A jump to a jump goes where that goes; a jump to the end is the end. */
static void
tidy_thread(struct lower *l)
{
    for (unsigned i = l->ncode; i-- > 0;) {
        struct vcl_insn *jump = &l->code[i];
        const struct vcl_insn *to;

        if (!lower_is_jump(jump->op))
            continue;
        to = &l->code[jump->c];
        if (to->op == VCL_OP_JUMP)
            jump->c = to->c;
        else if (jump->op == VCL_OP_JUMP &&
                 (to->op == VCL_OP_RET || (to->op == VCL_OP_RETURN && to->b == 0)))
            *jump = *to;
    }
}

/* VCL_OP_COUNT: none.  JUMP_IF_REQ and its like are made by lower_fuse, behind this. */
static unsigned
tidy_opposite(unsigned op)
{
    switch (op) {
    case VCL_OP_JUMP_IF:
        return VCL_OP_JUMP_UNLESS;
    case VCL_OP_JUMP_UNLESS:
        return VCL_OP_JUMP_IF;
    case VCL_OP_JUMP_IF_FIELD:
        return VCL_OP_JUMP_UNLESS_FIELD;
    case VCL_OP_JUMP_UNLESS_FIELD:
        return VCL_OP_JUMP_IF_FIELD;
    default:
        return VCL_OP_COUNT;
    }
}

/* A jump over a jump is the opposite one. */
static void
tidy_invert(struct lower *l)
{
    for (unsigned i = 0; i + 1 < l->ncode; i++) {
        struct vcl_insn *in = &l->code[i];

        if (tidy_opposite(in->op) == VCL_OP_COUNT || in->c != i + 2 ||
            l->code[i + 1].op != VCL_OP_JUMP)
            continue;
        in->op = (uint8_t)tidy_opposite(in->op);
        in->c = l->code[i + 1].c;
        l->code[i + 1].c = i + 2; /* goes nowhere now; jumps to it jump on, see thread */
    }
}

/* Does the second place lie within the first? */
static bool
tidy_covers(const struct vcl_place *first, const struct vcl_place *second)
{
    return strcmp(first->sub, second->sub) == 0 && strcmp(first->file, second->file) == 0 &&
           first->line <= second->line && second->last_line <= first->last_line;
}

/* Is this a second trace of what the one before it says?  `reached` by jumps it is needed. */
static bool
tidy_is_told(const struct lower *l, unsigned i, const bool *target)
{
    const struct vcl_place *places = l->s->places;

    return i > 0 && !target[i] && l->code[i].op == VCL_OP_TRACE &&
           l->code[i - 1].op == VCL_OP_TRACE &&
           tidy_covers(&places[l->code[i - 1].c], &places[l->code[i].c]);
}

/* Marks what is reached, and what is jumped to; both are zeroed. */
static void
tidy_reach(const struct lower *l, bool *reached, bool *target)
{
    reached[0] = true;
    for (unsigned i = 0; i < l->ncode; i++) { /* forward jumps only: one pass */
        if (!reached[i])
            continue;
        if (lower_is_jump(l->code[i].op)) {
            reached[l->code[i].c] = true;
            target[l->code[i].c] = true;
        }
        if (!tidy_ends(l->code[i].op))
            reached[i + 1] = true;
    }
}

/* Drops what is not reached, and jumps to what follows.  False: nothing was dropped, or no
 * memory. */
static bool
tidy_drop(struct lower *l)
{
    bool *keep = vcl_alloc(l->s->cx, l->s->cx->scratch, (l->ncode + 1) * sizeof(bool));
    bool *target = vcl_alloc(l->s->cx, l->s->cx->scratch, (l->ncode + 1) * sizeof(bool));
    uint32_t *moved = vcl_alloc(l->s->cx, l->s->cx->scratch, (l->ncode + 1) * sizeof(uint32_t));
    unsigned n = 0;

    if (keep == NULL || target == NULL || moved == NULL)
        return false;
    tidy_reach(l, keep, target);
    /* A trace that is jumped to stays: another way leads to it, on which its lines were not
     * logged. */
    for (unsigned i = 0; i < l->ncode; i++) {
        if (keep[i] && l->code[i].op == VCL_OP_JUMP && l->code[i].c == i + 1)
            keep[i] = false;
        if (tidy_is_told(l, i, target))
            keep[i] = false;
        moved[i] = n;
        n += keep[i];
    }
    for (unsigned i = 0; i < l->ncode; i++) {
        if (!keep[i])
            continue;
        if (lower_is_jump(l->code[i].op))
            l->code[i].c = moved[l->code[i].c];
        l->code[moved[i]] = l->code[i];
    }
    if (n == l->ncode)
        return false;
    l->ncode = n;
    return true;
}

/* Leaves code without labels: from here on a jump has the number of its target. */
void
lower_tidy(struct lower *l)
{
    bool again = true;

    tidy_resolve(l);
    /* Each pass may open the way for another.  Eight are a bound for the load's time: what is left
     * is longer, not wrong. */
    for (unsigned pass = 0; again && pass < 8; pass++) {
        tidy_thread(l);
        tidy_invert(l);
        again = tidy_drop(l);
    }
}

static unsigned
tidy_takes(const struct vcl_insn *in)
{
    switch (in->op) {
    case VCL_OP_CONCAT:
        return in->b;
    case VCL_OP_RETURN:
    case VCL_OP_SET_BODY:
        return in->c;
    case VCL_OP_FUNC:
    case VCL_OP_NEW:
        return in->a;
    case VCL_OP_METHOD:
        return in->a + 1u;
    default:
        tassert(tidy_ops[in->op].takes >= 0);
        return (unsigned)tidy_ops[in->op].takes;
    }
}

static unsigned
tidy_gives(const struct vcl_insn *in)
{
    static const uint8_t funcs[] = {
#define X(id, module, name, result, args, where, how, doc) \
    [VCL_FN_##id] = VCL_TYPE_##result != VCL_TYPE_VOID,
        VCL_FUNC_TABLE(X)
#undef X
    };
    static const uint8_t methods[] = {
#define X(id, kinds, name, result, args, where, doc) \
    [VCL_METHOD_##id] = VCL_TYPE_##result != VCL_TYPE_VOID,
        VCL_METHOD_TABLE(X)
#undef X
    };

    if (in->op == VCL_OP_FUNC)
        return funcs[in->b];
    if (in->op == VCL_OP_METHOD)
        return methods[in->b];
    return (unsigned)tidy_ops[in->op].gives;
}

/* The most values that the code can have on the stack; the machine does not test it (vcl_loop).
 * Each way to an instruction must bring the same depth. */
unsigned
lower_stack(struct lower *l)
{
    /* depth before each instruction, plus 1; 0: not reached yet */
    unsigned *depth = vcl_alloc(l->s->cx, l->s->cx->scratch, (l->ncode + 1) * sizeof(unsigned));
    unsigned most = 0, after;

    if (depth == NULL)
        return 0;
    depth[0] = 1;
    for (unsigned i = 0; i < l->ncode; i++) {
        const struct vcl_insn *in = &l->code[i];

        tassert(depth[i] > tidy_takes(in));
        after = depth[i] - tidy_takes(in) + tidy_gives(in);
        if (after - 1 > most)
            most = after - 1;
        if (lower_is_jump(in->op)) {
            tassert(depth[in->c] == 0 || depth[in->c] == after); /* the same on all ways */
            depth[in->c] = after;
        }
        if (tidy_ends(in->op)) {
            tassert(in->op == VCL_OP_JUMP || after == 1);
            continue;
        }
        tassert(in->op != VCL_OP_CALL || after == 1);
        tassert(depth[i + 1] == 0 || depth[i + 1] == after);
        depth[i + 1] = after;
    }
    return most;
}

/* Saturates: calls of calls double the length each time, and a sum that wraps would pass the
 * limit. */
static uint32_t
tidy_add(uint32_t x, uint32_t y)
{
    return x > UINT32_MAX - y ? UINT32_MAX : x + y;
}

/* Instructions on the longest way through the sub, its callees included.  From the end, as jumps
 * only go forward. */
uint32_t
lower_longest(const struct lower *l)
{
    uint32_t *longest = vcl_alloc(l->s->cx, l->s->cx->scratch, (l->ncode + 1) * sizeof(uint32_t));

    if (longest == NULL)
        return 0;
    for (unsigned i = l->ncode; i-- > 0;) {
        const struct vcl_insn *in = &l->code[i];
        uint32_t on = tidy_ends(in->op) ? 0 : longest[i + 1];

        if (lower_is_jump(in->op) && longest[in->c] > on)
            on = longest[in->c];
        if (in->op == VCL_OP_CALL)
            on = tidy_add(on, vcl_call_steps(in));
        longest[i] = tidy_add(on, 1);
    }
    return longest[0];
}
