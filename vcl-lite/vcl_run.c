/* vcl_run.c -- the machine that runs a policy.
 *
 * A stack machine: each instruction takes its operands from the stack and leaves its result
 * there.  A run cannot take for ever: jumps go forward only, calls do not recurse, and the
 * longest path through the code is known at the load (vcl_lower_tidy.c).  So the loop has no
 * test of stack or place, and one of length at outermost calls only (vcl_count).
 *
 * Everything that a policy does to the world goes through struct vcl_host.  A run may not block;
 * what it allocates lies in the request's arena and is bounded by VCL_WORKSPACE_MAX.
 *
 * Threads: a policy is run by all workers at once; all that changes is in struct vcl_run.
 */
#include "vcl-lite/vcl_machine.h"

#include <stdarg.h>
#include <stdio.h>

#include "daemon/base/obj.h"
#include "vcl-lite/acl.h"

#define VCL_ALWAYS_INLINE static inline __attribute__((always_inline))

/* --- failing --- */

/* Notes why the run fails, and returns the error to pass on.  `why` is static or lives as long as
 * the run's memory.  The first reason is kept: later ones follow from it. */
int
vcl_run_fail(struct vcl_run *r, const char *why)
{
    if (r->why == NULL)
        r->why = why;
    return TERR_POLICY;
}

int
vcl_run_failf(struct vcl_run *r, const char *fmt, ...)
{
    char text[256];
    struct slice copy;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    copy = arena_copy(r->arena, slice_str(text));
    /* The reason must outlive this call. */
    return vcl_run_fail(r, copy.ptr != NULL ? copy.ptr : "out of memory");
}

/* Memory for strings of this run, which goes with the arena of its owner.  The bound is per run,
 * so that a policy cannot fill memory with one request. */
char *
vcl_run_alloc(struct vcl_run *r, size_t size)
{
    char *p;

    /* Subtracted, not added: a huge size would wrap around. */
    if (size > VCL_WORKSPACE_MAX || r->workspace > VCL_WORKSPACE_MAX - size) {
        vcl_run_fail(r, "workspace overflow: too many bytes of strings were made");
        return NULL;
    }
    p = arena_alloc(r->arena, size);
    if (p == NULL) {
        vcl_run_fail(r, "out of memory");
        return NULL;
    }
    r->workspace += size;
    return p;
}

/* The host refused, and perhaps said why. */
int
vcl_host_said(struct vcl_run *r, int err)
{
    if (err < 0 && r->why == NULL)
        r->why = terr_text(err);
    return err;
}

/* --- matching --- */

/* 1, 0 or TERR_*. */
VCL_ALWAYS_INLINE int
vcl_match(struct vcl_run *r, uint32_t n, const struct vcl_value *v)
{
    int rc = regex_match(r->vcl->regexes[n], vcl_value_slice(v));

    if (rc < 0)
        vcl_run_fail(r, "a regular expression took too long: its match limit was reached");
    return rc;
}

/* --- effects --- */

/* Lines of a message's head: what they may hold is the language's business, as the host does not
 * see what a text was made of. */
static bool
vcl_is_head_line(unsigned var)
{
    switch (var) {
    case VCL_VAR_REQ_METHOD:
    case VCL_VAR_REQ_URL:
    case VCL_VAR_REQ_PROTO:
    case VCL_VAR_BEREQ_METHOD:
    case VCL_VAR_BEREQ_URL:
    case VCL_VAR_BEREQ_PROTO:
    case VCL_VAR_BERESP_PROTO:
    case VCL_VAR_BERESP_REASON:
    case VCL_VAR_RESP_PROTO:
    case VCL_VAR_RESP_REASON:
        return true;
    default:
        return false;
    }
}

static int
vcl_set(struct vcl_run *r, unsigned var, const struct vcl_value *v)
{
    if (vcl_is_head_line(var)) {
        /* An empty method or url would make a request line that no server reads. */
        if (v->len == 0)
            return vcl_run_failf(r, "%s was set to an empty string", vcl_var_name(var));
        if (!vcl_is_printable(vcl_value_slice(v)))
            return vcl_run_failf(
                r, "%s was set to a text with control characters", vcl_var_name(var));
    }
    return r->host->set(r, (enum vcl_var)var, v);
}

/* Control characters would end the field, and begin one of the text's own (RFC 9110 5.5). */
static int
vcl_set_field(struct vcl_run *r, struct vcl_insn in, const struct vcl_value *v)
{
    const struct vcl_name *name = &r->vcl->names[in.c];
    struct slice value = vcl_value_slice(v);

    /* Unset becomes empty, as in Varnish: unsetting a field has a statement of its own. */
    if (value.ptr == NULL)
        value = slice_of("", 0);
    if (!vcl_is_printable(value))
        return vcl_run_failf(r, "field '%.*s' was set to a text with control characters",
            (int)name->text.len, name->text.ptr);
    return r->host->set_field(r, (enum vcl_http)in.a, name, value);
}

static int
vcl_set_body(struct vcl_run *r, struct vcl_insn in, const struct vcl_value *v)
{
    struct slice parts[VCL_STACK_MAX];
    unsigned n = 0;

    tassert(in.c <= VCL_STACK_MAX);
    /* Unset and empty parts have nothing to send, and need no place in the host's list. */
    for (unsigned i = 0; i < in.c; i++) {
        if (v[i].len > 0)
            parts[n++] = vcl_value_slice(&v[i]);
    }
    return r->host->set_body(r, (enum vcl_var)in.b, parts, n, in.a != 0);
}

static int
vcl_ban(struct vcl_run *r, const struct vcl_value *v)
{
    bool ok = true; /* a wrong expression bans nothing, and is reported by std.ban_error() */

    /* An unset text is an empty one: the host says that it is no expression. */
    return r->host->ban(r, v->s == NULL ? slice_of("", 0) : vcl_value_slice(v), &ok);
}

/* What takes values and gives none.  `v`: the first of them. */
static int
vcl_effect(struct vcl_run *r, struct vcl_insn in, const struct vcl_value *v)
{
    int err;

    switch ((unsigned)in.op) {
    case VCL_OP_SET:
        err = vcl_set(r, in.b, v);
        break;
    case VCL_OP_UNSET:
        err = r->host->unset(r, (enum vcl_var)in.b);
        break;
    case VCL_OP_SET_FIELD:
        err = vcl_set_field(r, in, v);
        break;
    case VCL_OP_UNSET_FIELD:
        err = r->host->unset_field(r, (enum vcl_http)in.a, &r->vcl->names[in.c]);
        break;
    case VCL_OP_HASH_DATA:
        err = r->host->hash_data(r, vcl_value_slice(v));
        break;
    case VCL_OP_BAN:
        err = vcl_ban(r, v);
        break;
    default:
        TUNREACHABLE("not an effect");
    }
    return vcl_host_said(r, err);
}

/* --- calls of functions and objects --- */

/* What is in the rows. */
static const struct {
    uint8_t result, how;
} vcl_funcs[] = {
#define X(id, module, name, result, args, where, how, doc) {VCL_TYPE_##result, how},
    VCL_FUNC_TABLE(X)
#undef X
};

static const uint8_t vcl_method_results[] = {
#define X(id, kinds, name, result, args, where, doc) VCL_TYPE_##result,
    VCL_METHOD_TABLE(X)
#undef X
};

/* `args` are the row's, with zeros for those that were not given; in.c has a bit for each that
 * was. */
static int
vcl_func(struct vcl_run *r, struct vcl_insn in, const struct vcl_value *args, struct vcl_value *out)
{
    /* All of it: some fill only a part, and what they leave out means unset. */
    *out = (struct vcl_value){.len = 0};
    /* What depends on its arguments alone is computed here; everything else is the host's. */
    if (vcl_funcs[in.b].how == VCL_PURE)
        return vcl_std_call(r, in.b, args, in.c, out);
    return vcl_host_said(r, r->host->call(r, in.b, args, in.c, out));
}

static int
vcl_method(
    struct vcl_run *r, struct vcl_insn in, const struct vcl_value *args, struct vcl_value *out)
{
    void *object;

    memcpy(&object, &args[0].p, sizeof(object)); /* the host made it, and may change it */
    *out = (struct vcl_value){.len = 0};
    return vcl_host_said(r, r->host->method(r, object, in.b, args + 1, in.c, out));
}

/* In vcl_init alone.  The instruction has the object's number in the low half of c, and in the
 * high half which arguments were given. */
static int
vcl_new(struct vcl_run *r, struct vcl_insn in, const struct vcl_value *args)
{
    /* The one place where a run writes into a policy: vcl_init runs before any other thread sees
     * it. */
    struct vcl_object *o = &r->vcl->objects[in.c & 0xffff];

    return vcl_host_said(r, r->host->object_new(r, in.b, o->name, args, in.c >> 16, &o->made));
}

/* An object that vcl_init did not make is an error here, not NULL for the host to trip over. */
static int
vcl_object_get(struct vcl_run *r, uint32_t n, struct vcl_value *out)
{
    const struct vcl_object *o = &r->vcl->objects[n];

    /* Also NULL: the caller looks at the error first. */
    out->p = o->made;
    if (o->made == NULL)
        return vcl_run_failf(r, "'%s' was not made: vcl_init did not get there", o->name);
    return 0;
}

/* --- returning --- */

/* varnish(7), vcl-step: the last three digits are sent, so X must be 1 to 9. */
static int
vcl_return_status(struct vcl_run *r, int64_t status)
{
    if (status < 100 || status > 65535 || (uint32_t)status % 1000 < 100)
        return vcl_run_failf(r,
            "status %lld: it must be 100 to 65535, and its last three digits at least 100",
            (long long)status);
    r->status = (uint16_t)status;
    return 0;
}

/* What return() took with it, from the first value on. */
static int
vcl_return(struct vcl_run *r, struct vcl_insn in, const struct vcl_value *v)
{
    if ((in.b & VCL_RETURN_STATUS) != 0 && vcl_return_status(r, v++->i) < 0)
        return TERR_POLICY;
    if ((in.b & VCL_RETURN_REASON) != 0) {
        r->reason = vcl_value_slice(v++);
        /* It becomes the reason phrase of the status line: a line break there would end the
         * line. */
        if (!vcl_is_printable(r->reason))
            return vcl_run_fail(r, "the reason in return() has control characters");
    }
    if ((in.b & VCL_RETURN_DURATION) != 0)
        /* In the order in which lower_return() put them. */
        r->duration_s = v++->r;
    if ((in.b & VCL_RETURN_LABEL) != 0)
        r->label = (unsigned)v->i;
    /* Above all others were only noted: the core reads them when the run is over. */
    if (in.a != VCL_ACT_FAIL)
        return 0;
    if (r->reason.len == 0)
        return vcl_run_fail(r, "return (fail)");
    return vcl_run_failf(
        r, "%.*s", (int)(r->reason.len < 200 ? r->reason.len : 200), r->reason.ptr);
}

/* --- the loop --- */

VCL_ALWAYS_INLINE bool
vcl_compare_i(unsigned cmp, int64_t a, int64_t b)
{
    switch (cmp) {
    case VCL_CMP_EQ:
        return a == b;
    case VCL_CMP_NE:
        return a != b;
    case VCL_CMP_LT:
        return a < b;
    case VCL_CMP_GT:
        return a > b;
    case VCL_CMP_LE:
        return a <= b;
    default:
        return a >= b;
    }
}

/* Names of methods are what is compared most: 2 to 4 bytes cost two loads of each and no call. */
VCL_ALWAYS_INLINE bool
vcl_same_bytes(const char *a, const char *b, size_t len)
{
    uint16_t first[2], last[2];

    if (len - 2 > 2)
        return memcmp(a, b, len) == 0;
    memcpy(&first[0], a, 2);
    memcpy(&first[1], b, 2);
    memcpy(&last[0], a + len - 2, 2);
    memcpy(&last[1], b + len - 2, 2);
    return first[0] == first[1] && last[0] == last[1];
}

/* An unset string equals nothing, not even another unset one. */
VCL_ALWAYS_INLINE bool
vcl_compare_s(unsigned cmp, const struct vcl_value *a, const struct vcl_value *b)
{
    /* Equality first: it is asked most, and lengths decide most of it. */
    if (cmp <= VCL_CMP_NE) {
        bool same =
            a->len == b->len && a->s != NULL && b->s != NULL && vcl_same_bytes(a->s, b->s, a->len);

        return same == (cmp == VCL_CMP_EQ);
    }
    return vcl_compare_i(cmp, vcl_compare_strings(vcl_value_slice(a), vcl_value_slice(b)), 0);
}

VCL_ALWAYS_INLINE struct vcl_value
vcl_field(struct vcl_run *r, unsigned http, const struct vcl_name *name)
{
    return vcl_value_string(r->host->field(r, (enum vcl_http)http, name));
}

/* Is the request's field there?  Mostly the machine can tell by itself. */
VCL_ALWAYS_INLINE bool
vcl_has_req(struct vcl_run *r, const struct vcl_insn *in)
{
    if (__builtin_expect((r->known >> in->a & 1) != 0, 1))
        return (*r->present >> in->a & 1) != 0;
    return r->host->field(r, VCL_HTTP_REQ, &r->vcl->names[in->b]).ptr != NULL;
}

/* The code has no loops, but subs that call subs twice, which call subs twice, are as good.  `steps`
 * has what the callee itself calls, so only the outermost calls count. */
VCL_ALWAYS_INLINE int
vcl_count(struct vcl_run *r, unsigned steps)
{
    /* By the length of the longest path, at each call: no instruction counts by itself. */
    r->steps += steps;
    if (r->steps <= VCL_STEPS_MAX)
        return 0;
    return vcl_run_fail(r, "step limit: too many instructions in one run");
}

/* Each value is 16 bytes, so a full stack is 4 KiB.  `sp` is where the next value goes. */
struct vcl_frame {
    struct vcl_value stack[VCL_STACK_MAX];
    struct vcl_value given; /* by a function */
    const struct vcl_insn *calls[VCL_CALLS_MAX];
};

#define NEED(e)                  \
    do {                         \
        if ((e) < 0)             \
            return VCL_ACT_FAIL; \
    } while (0)

/* On to the instruction at `pc`: each has a jump of its own, as a switch would make them share one
 * that first looks whether there is such an instruction. */
#define NEXT()                                                        \
    do {                                                              \
        in = pc++;                                                    \
        tassert_slow(sp >= f.stack && sp <= f.stack + VCL_STACK_MAX); \
        tassert_slow(in >= v->code);                                  \
        tassert_slow(in < v->code + v->ncode + v->nquiet);            \
        tassert_slow(in->op < VCL_OP_COUNT);                          \
        goto *labels[in->op];                                         \
    } while (0)

/* Runs from `pc` on.  Everything that is not one line has a function of its own above, or in
 * vcl_value.c: what is left is a table. */
static enum vcl_action
vcl_loop(struct vcl_run *r, const struct vcl_insn *pc)
{
    static const void *const labels[] = {
#define X(code, takes, gives, doc) &&DO_##code,
        VCL_OP_TABLE(X)
#undef X
    };
    struct vcl_frame f;
    const struct vcl *v = r->vcl;
    struct vcl_value *sp = f.stack;
    const struct vcl_insn **calls = f.calls, *in;
    int rc;

    NEXT();
DO_CONST:
    /* No test whether the stack has room: lower_stack has proven the depth for each sub. */
    *sp++ = v->consts[in->c];
    NEXT();
DO_BACKEND:
    sp++->p = v->backends[in->c];
    NEXT();
DO_STORAGE:
    sp++->p = v->storages[in->c];
    NEXT();
DO_OBJECT:
    NEED(vcl_object_get(r, in->c, sp++));
    NEXT();
DO_GET:
    NEED(vcl_host_said(r, r->host->get(r, (enum vcl_var)in->b, sp++)));
    NEXT();
DO_GET_STORAGE:
    NEED(vcl_host_said(r, r->host->get_storage(r, (enum vcl_var)in->b, v->storages[in->c], sp++)));
    NEXT();
DO_NOW:
    sp++->r = r->now_s;
    NEXT();
DO_FIELD:
    *sp++ = vcl_field(r, in->a, &v->names[in->c]);
    NEXT();
DO_POP:
    sp--;
    NEXT();
DO_INT_STR:
DO_REAL_STR:
DO_TIME_STR:
DO_BOOL_STR:
DO_IP_STR:
DO_BACKEND_STR:
DO_STORAGE_STR:
DO_LOWER:
DO_UPPER:
DO_NEG_INT:
DO_NEG_REAL:
DO_ROUND_BYTES:
    NEED(vcl_convert(r, in->op, sp - 1));
    NEXT();
DO_INT_REAL:
    sp[-1].r = (double)sp[-1].i;
    NEXT();
DO_STR_BOOL:
DO_PTR_BOOL:
    sp[-1].i = sp[-1].p != NULL;
    NEXT();
DO_INT_BOOL:
    sp[-1].i = sp[-1].i != 0;
    NEXT();
DO_REAL_BOOL:
    sp[-1].i = sp[-1].r > 0;
    NEXT();
/* For comparisons of several parts: see sema_cmp_strings(). */
DO_EMPTY:
    if (sp[-1].s == NULL)
        sp[-1] = vcl_value_string(slice_of("", 0));
    NEXT();
DO_CONCAT:
    sp -= in->b;
    NEED(vcl_concat(r, sp, in->b, sp));
    sp++;
    NEXT();
DO_ADD_INT:
DO_SUB_INT:
DO_MUL_INT:
DO_DIV_INT:
DO_MOD_INT:
    sp--;
    NEED(vcl_arith_int(r, in->op, &sp[-1].i, sp->i));
    NEXT();
DO_ADD_REAL:
DO_SUB_REAL:
DO_MUL_REAL:
DO_DIV_REAL:
    sp--;
    NEED(vcl_arith_real(r, in->op, &sp[-1].r, sp->r));
    NEXT();
DO_CMP_INT:
    sp--;
    sp[-1].i = vcl_compare_i(in->a, sp[-1].i, sp->i);
    NEXT();
DO_CMP_REAL:
    sp--;
    sp[-1].i = vcl_compare_real((enum vcl_cmp)in->a, sp[-1].r, sp->r);
    NEXT();
DO_CMP_STR:
    sp--;
    sp[-1].i = vcl_compare_s(in->a, &sp[-1], sp);
    NEXT();
DO_CMP_IP:
    sp--;
    sp[-1].i = vcl_compare_ip(sp[-1].ip, sp->ip) == (in->a == VCL_CMP_EQ);
    NEXT();
DO_CMP_PTR:
    sp--;
    sp[-1].i = (sp[-1].p == sp->p) == (in->a == VCL_CMP_EQ);
    NEXT();
DO_MATCH:
    NEED(rc = vcl_match(r, in->c, sp - 1));
    sp[-1].i = rc;
    NEXT();
DO_MATCH_ACL:
    sp[-1].i = sp[-1].ip != NULL && acl_match(v->acls[in->c], sp[-1].ip);
    NEXT();
DO_NOT:
    sp[-1].i = sp[-1].i == 0;
    NEXT();
/* `none` is no director. */
DO_RESOLVE:
    if (sp[-1].p != NULL)
        sp[-1].p = r->host->resolve(r, sp[-1].p);
    NEXT();
DO_JUMP:
    pc = v->code + in->c;
    NEXT();
DO_JUMP_IF:
    if ((--sp)->i != 0)
        pc = v->code + in->c;
    NEXT();
DO_JUMP_UNLESS:
    if ((--sp)->i == 0)
        pc = v->code + in->c;
    NEXT();
DO_CALL:
    /* The depth of calls is bounded at load (VCL_CALLS_MAX), since no sub can call itself. */
    NEED(calls == f.calls ? vcl_count(r, vcl_call_steps(in)) : 0);
    tassert_slow(calls < f.calls + VCL_CALLS_MAX);
    *calls++ = pc;
    pc = v->code + in->c;
    NEXT();
/* Without a call the vcl_* sub itself ended, without an action. */
DO_RET:
    if (calls == f.calls)
        return VCL_ACT_NONE;
    pc = *--calls;
    NEXT();
/* The usual return takes nothing along. */
DO_RETURN:
    if (in->b == 0 && in->a != VCL_ACT_FAIL)
        return (enum vcl_action)in->a;
    NEED(vcl_return(r, *in, sp - in->c));
    return (enum vcl_action)in->a;
/* What does not fit is left out: a log that is cut is better than a run that fails. */
DO_TRACE:
    if (r->ntrace < VCL_TRACE_MAX)
        r->trace[r->ntrace++] = (uint16_t)in->c;
    NEXT();
DO_SET:
DO_SET_FIELD:
DO_HASH_DATA:
DO_BAN:
    NEED(vcl_effect(r, *in, --sp));
    NEXT();
DO_UNSET:
DO_UNSET_FIELD:
    NEED(vcl_effect(r, *in, sp));
    NEXT();
DO_SET_BODY:
    sp -= in->c;
    NEED(vcl_host_said(r, vcl_set_body(r, *in, sp)));
    NEXT();
/* The result goes over the arguments, so it is made beside the stack. */
DO_FUNC:
    sp -= in->a;
    NEED(vcl_func(r, *in, sp, &f.given));
    if (vcl_funcs[in->b].result != VCL_TYPE_VOID)
        *sp++ = f.given;
    NEXT();
DO_METHOD:
    sp -= in->a + 1;
    NEED(vcl_method(r, *in, sp, &f.given));
    if (vcl_method_results[in->b] != VCL_TYPE_VOID)
        *sp++ = f.given;
    NEXT();
DO_NEW:
    sp -= in->a;
    NEED(vcl_new(r, *in, sp));
    NEXT();
DO_REGSUB:
    sp--;
    NEED(vcl_regsub(
        r, v->regexes[in->c], in->a != 0, vcl_value_slice(&sp[-1]), vcl_value_slice(sp), &sp[-1]));
    NEXT();
DO_JUMP_IF_FIELD:
    if (r->host->field(r, (enum vcl_http)in->a, &v->names[in->b]).ptr != NULL)
        pc = v->code + in->c;
    NEXT();
DO_JUMP_UNLESS_FIELD:
    if (r->host->field(r, (enum vcl_http)in->a, &v->names[in->b]).ptr == NULL)
        pc = v->code + in->c;
    NEXT();
DO_JUMP_IF_REQ:
    if (vcl_has_req(r, in))
        pc = v->code + in->c;
    NEXT();
DO_JUMP_UNLESS_REQ:
    if (!vcl_has_req(r, in))
        pc = v->code + in->c;
    NEXT();
/* Behind the group, or to c. */
DO_JUMP_IF_METHOD:
    pc = r->method == in->a ? v->code + in->c : in + 4;
    NEXT();
DO_JUMP_UNLESS_METHOD:
    pc = r->method != in->a ? v->code + in->c : in + 4;
    NEXT();
DO_FIELD_MATCH_JUMP:
    *sp = vcl_field(r, in->a, &v->names[in->c]);
    NEED(rc = vcl_match(r, in[1].c, sp));
    pc = rc == in->b ? v->code + in[2].c : in + 3;
    NEXT();
}
#undef NEED
#undef NEXT

/* VCL_ACT_FAIL has its reason in r->why.  VCL_ACT_NONE: no sub of that name, or it ended without
 * return. */
enum vcl_action
vcl_run(struct vcl_run *r, enum vcl_sub sub)
{
    const struct vcl *v = r->vcl;
    enum vcl_action action;
    uint32_t entry;

    OBJ_CHECK(v, VCL_MAGIC);
    tassert(v->stack_max <= VCL_STACK_MAX);
    /* The owner uses one vcl_run again and again: nothing of the last run may show. */
    r->sub = sub;
    r->status = 0;
    r->reason.ptr = NULL;
    r->reason.len = 0;
    r->duration_s = -1;
    r->why = NULL;
    r->steps = 0;
    r->workspace = 0;
    entry = r->ntrace < VCL_TRACE_MAX ? v->subs[sub].entry : v->subs[sub].quiet;
    if (entry == UINT32_MAX)
        return VCL_ACT_NONE;
    action = vcl_loop(r, v->code + entry);
    /* A failure always has a reason, for the log. */
    tassert((action == VCL_ACT_FAIL) == (r->why != NULL));
    return action;
}
