/* vcl_lower_fuse.c -- what policies do most, in one step.
 *
 * The first instruction of a group gets an op that does all of the group's work and looks at the
 * others for their operands.  They stay where they are, so every jump still finds what it did, and
 * what was proven of stack and length still holds.
 */
#include "vcl-lite/vcl_sema.h"

static bool
fuse_is_jump_on_value(unsigned op)
{
    return op == VCL_OP_JUMP_IF || op == VCL_OP_JUMP_UNLESS;
}

/* req.method == "GET": GET, CONST, CMP_STR, JUMP_IF.  Which way it jumps is known here, so the machine
 * compares once. */
static void
fuse_method(struct lower *l, struct vcl_insn *in)
{
    const struct vcl_loader *loader = l->s->cx->loader;
    const struct vcl_value *name;
    unsigned id;

    if ((in->b != VCL_VAR_REQ_METHOD && in->b != VCL_VAR_BEREQ_METHOD) ||
        in[1].op != VCL_OP_CONST || in[2].op != VCL_OP_CMP_STR || in[2].a > VCL_CMP_NE ||
        !fuse_is_jump_on_value(in[3].op) || loader->method_id == NULL)
        return;
    name = &l->s->consts[in[1].c];
    id = loader->method_id(loader->ctx, slice_of(name->s, name->len));
    if (id == 0 || id > UINT8_MAX)
        return;
    in->op = (in[2].a == VCL_CMP_EQ) == (in[3].op == VCL_OP_JUMP_IF) ? VCL_OP_JUMP_IF_METHOD
                                                                     : VCL_OP_JUMP_UNLESS_METHOD;
    in->a = (uint8_t)id;
    in->c = in[3].c;
}

/* req.http.host ~ "...": FIELD, MATCH, JUMP_IF. */
static void
fuse_match(struct vcl_insn *in)
{
    if (in[1].op != VCL_OP_MATCH || !fuse_is_jump_on_value(in[2].op))
        return;
    in->op = VCL_OP_FIELD_MATCH_JUMP;
    in->b = in[2].op == VCL_OP_JUMP_IF;
}

/* Whether a field of the request is there: mostly one bit tells. */
static void
fuse_field(struct lower *l, struct vcl_insn *in)
{
    unsigned id = l->s->names[in->b].id;

    if (in->a != VCL_HTTP_REQ || id == 0 || id > 63)
        return;
    in->op = in->op == VCL_OP_JUMP_IF_FIELD ? VCL_OP_JUMP_IF_REQ : VCL_OP_JUMP_UNLESS_REQ;
    in->a = (uint8_t)id;
}

void
lower_fuse(struct lower *l)
{
    for (unsigned i = 0; i + 3 < l->ncode; i++) {
        if (l->code[i].op == VCL_OP_GET)
            fuse_method(l, &l->code[i]);
        else if (l->code[i].op == VCL_OP_FIELD)
            fuse_match(&l->code[i]);
        else if (l->code[i].op == VCL_OP_JUMP_IF_FIELD || l->code[i].op == VCL_OP_JUMP_UNLESS_FIELD)
            fuse_field(l, &l->code[i]);
    }
}
