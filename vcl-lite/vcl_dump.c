/* vcl_dump.c -- a policy's code as text: one instruction a line, with what its numbers mean.
 *
 *     vcl_recv: longest 60, touches 0x1
 *         0 TRACE                0     0       0  vcl_recv policy.vcl:4:5-7
 *         1 FIELD_MATCH_JUMP     0     0       0
 *         2 MATCH                0     0       0
 *         3 JUMP_UNLESS          0     0       9  to 9
 *
 * Place, instruction, a, b, c, and what the numbers mean.  For developers and tests: no operator
 * sees it.
 */
#include "vcl-lite/vcl_dump.h"

#include <stdio.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/tassert.h"
#include "vcl-lite/vcl_code.h"
#include "vcl-lite/vcl_func_table.h"

static const char *const dump_ops[] = {
#define X(op, takes, gives, doc) [VCL_OP_##op] = #op,
    VCL_OP_TABLE(X)
#undef X
};

static const char *const dump_funcs[] = {
#define X(id, module, name, result, args, where, how, doc) [VCL_FN_##id] = module "." name,
    VCL_FUNC_TABLE(X)
#undef X
};

static const char *const dump_methods[] = {
#define X(id, kinds, name, result, args, where, doc) [VCL_METHOD_##id] = name,
    VCL_METHOD_TABLE(X)
#undef X
};

static const char *const dump_http[VCL_HTTP_COUNT] = {
    "req", "req_top", "bereq", "beresp", "resp", "obj", "obj_stale"};
static const char *const dump_cmp[] = {"==", "!=", "<", ">", "<=", ">="};

/* A constant may be a string or not: its type is known where it is used only.  Without a length it
 * is shown as either number. */
static void
dump_const(const struct vcl_value *v, char *out, size_t size)
{
    /* Enough to know it by. */
    int len = v->len < 40 ? (int)v->len : 40;

    if (v->len > 0)
        snprintf(out, size, "\"%.*s\"", len, v->s);
    else
        snprintf(out, size, "%lld or %g", (long long)v->i, v->r);
    for (char *p = out; *p != '\0'; p++)
        /* An instruction is a line. */
        if (*p == '\n')
            *p = ' ';
}

static void
dump_field(const struct vcl *v, unsigned http, uint32_t name, char *out, size_t size)
{
    /* The name is no text with a NUL. */
    snprintf(out, size, "%s.http.%.*s", dump_http[http], (int)v->names[name].text.len,
        v->names[name].text.ptr);
}

/* What a, b and c mean. */
static void
dump_operands(const struct vcl *v, const struct vcl_insn *in, char *out, size_t size)
{
    int used;

    /* Most instructions have nothing to add. */
    out[0] = '\0';
    switch (in->op) {
    case VCL_OP_CONST:
        dump_const(&v->consts[in->c], out, size);
        break;
    case VCL_OP_BACKEND:
        snprintf(out, size, "%s", v->backend_names[in->c]);
        break;
    case VCL_OP_GET:
    case VCL_OP_GET_STORAGE:
    case VCL_OP_SET:
    case VCL_OP_UNSET:
    case VCL_OP_SET_BODY:
        snprintf(out, size, "%s", vcl_var_name((enum vcl_var)in->b));
        break;
    case VCL_OP_FIELD:
    case VCL_OP_SET_FIELD:
    case VCL_OP_UNSET_FIELD:
        dump_field(v, in->a, in->c, out, size);
        break;
    case VCL_OP_JUMP_IF_FIELD:
    case VCL_OP_JUMP_UNLESS_FIELD:
        dump_field(v, in->a, in->b, out, size);
        used = (int)strlen(out);
        snprintf(out + used, size - (size_t)used, " to %u", in->c);
        break;
    /* The message is not in it: that is what makes it shorter. */
    case VCL_OP_JUMP_IF_REQ:
    case VCL_OP_JUMP_UNLESS_REQ:
        dump_field(v, VCL_HTTP_REQ, in->b, out, size);
        used = (int)strlen(out);
        snprintf(out + used, size - (size_t)used, " to %u", in->c);
        break;
    case VCL_OP_JUMP:
    case VCL_OP_JUMP_IF:
    case VCL_OP_JUMP_UNLESS:
    case VCL_OP_JUMP_IF_METHOD:
    case VCL_OP_JUMP_UNLESS_METHOD:
    case VCL_OP_CALL:
        snprintf(out, size, "to %u", in->c);
        break;
    case VCL_OP_CMP_INT:
    case VCL_OP_CMP_REAL:
    case VCL_OP_CMP_STR:
    case VCL_OP_CMP_IP:
    case VCL_OP_CMP_PTR:
        snprintf(out, size, "%s", dump_cmp[in->a]);
        break;
    case VCL_OP_RETURN:
        snprintf(out, size, "%s", vcl_action_name((enum vcl_action)in->a));
        break;
    case VCL_OP_FUNC:
        snprintf(out, size, "%s", dump_funcs[in->b]);
        break;
    case VCL_OP_METHOD:
        snprintf(out, size, ".%s", dump_methods[in->b]);
        break;
    case VCL_OP_TRACE:
        snprintf(out, size, "%s %s:%u:%u-%u", v->places[in->c].sub, v->places[in->c].file,
            v->places[in->c].line, v->places[in->c].column, v->places[in->c].last_line);
        break;
    default:
        break;
    }
}

static void
dump_entries(
    const struct vcl *v, uint32_t at, void (*write)(void *ctx, const char *text), void *ctx)
{
    char line[200];

    for (unsigned i = 0; i < VCL_SUB_COUNT; i++) {
        /* Several subs may begin at one place, where they have the same code. */
        if (v->subs[i].entry != at)
            continue;
        snprintf(line, sizeof(line), "%s: longest %u, touches %#x%s%s\n", v->subs[i].name,
            v->subs[i].longest, (unsigned)v->subs[i].touches, v->subs[i].trivial ? ", only " : "",
            v->subs[i].trivial ? vcl_action_name(v->subs[i].action) : "");
        write(ctx, line);
    }
}

void
vcl_dump(const struct vcl *v, void (*write)(void *ctx, const char *text), void *ctx)
{
    char line[400], operands[256];

    OBJ_CHECK(v, VCL_MAGIC);
    for (uint32_t i = 0; i < v->ncode; i++) {
        const struct vcl_insn *in = &v->code[i];

        /* In front of the instruction, as a label. */
        dump_entries(v, i, write, ctx);
        dump_operands(v, in, operands, sizeof(operands));
        snprintf(line, sizeof(line), "%5u %-18s %3u %5u %7u  %s\n", i, dump_ops[in->op],
            (unsigned)in->a, (unsigned)in->b, in->c, operands);
        write(ctx, line);
    }
}
