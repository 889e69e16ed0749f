/* vcl_run_fuzz.c -- policies that vcl_writer.c makes of bytes, compiled and run on a hostile world.
 *
 * The input's bytes choose what stands in the policy, then what the host answers: nothing, too much,
 * binary, errors.  Whatever that is: no crash, no leak, the budgets hold, a sub returns what it may,
 * and the host is never given a text with control characters for a head.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "t/fuzz/vcl_writer.h"
#include "t/unit/fake_vcl_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    WORLD_BIG = 64 * 1024,
    WORLD_RUNS_MAX = 40, /* of subs, with restarts and retries */
    WORLD_FIELD_IDS = 5, /* numbers of fields; above them, none */
};

static char world_big[WORLD_BIG];
static struct vcl_host world_host; /* the fake one's, but for what is here */
static const struct vcl_host *world_fake;
static uint64_t world_present; /* fields by number, which the machine looks at by itself */

/* --- hostile values --- */

static struct slice
world_bytes(void)
{
    size_t len = writer_pick(40), left = (size_t)(writer_end - writer_next);

    len = len < left ? len : left;
    writer_next += len;
    return slice_of((const char *)writer_next - len, len);
}

static struct slice
world_string(void)
{
    static const char *const texts[] = {
        "GET", "HTTP/1.1", "200", "/a?b=c&a=b", "1.5s", "a\r\nb: c"};

    switch (writer_pick(8)) {
    case 1:
        return slice_of(NULL, 0);
    case 2:
        return slice_of("", 0);
    case 3:
        return slice_of(world_big, WORLD_BIG);
    case 4:
        return slice_of(world_big, 1 + writer_pick(255) * 16);
    case 5:
        return slice_str(texts[writer_pick(ARRAY_LEN(texts))]);
    default:
        return world_bytes();
    }
}

static struct vcl_value
world_value(enum vcl_type type)
{
    static const struct vcl_ip ips[] = {{.addr = {[10] = 0xff, 0xff, 127, 0, 0, 9}, .is_v4 = true},
        {.addr = {[15] = 1}, .port = 65535}, {.addr = {[0] = 0xff, [15] = 0xff}}};
    static const double reals[] = {0, -1, 1e300, 1e-300, 120, -1e300, 784111777, 999999999999.9994};
    static const int64_t ints[] = {0, 1, -1, INT64_MAX, INT64_MIN, 200, 999999999999999};
    struct slice s;

    switch ((unsigned)type) {
    case VCL_TYPE_STRING:
        s = world_string();
        return (struct vcl_value){.s = s.ptr, .len = s.len};
    case VCL_TYPE_REAL:
    case VCL_TYPE_DURATION:
    case VCL_TYPE_TIME:
        return (struct vcl_value){.r = reals[writer_pick(ARRAY_LEN(reals))]};
    case VCL_TYPE_IP:
        return (struct vcl_value){.ip = writer_pick(4) == 3 ? NULL : &ips[writer_pick(3)]};
    case VCL_TYPE_BACKEND:
    case VCL_TYPE_STEVEDORE:
        return (struct vcl_value){.p = writer_pick(2) ? "thing" : NULL};
    case VCL_TYPE_BOOL:
        return (struct vcl_value){.i = writer_pick(2)};
    default:
        return (struct vcl_value){.i = ints[writer_pick(ARRAY_LEN(ints))]};
    }
}

/* --- a host that refuses, and that checks what it is given --- */

static int
world_err(struct vcl_run *r)
{
    static const int errs[] = {TERR_NOMEM, TERR_LIMIT, TERR_POLICY};

    if (writer_pick(24) != 23)
        return 0;
    if (writer_pick(2))
        r->why = "the host does not like it";
    return errs[writer_pick(ARRAY_LEN(errs))];
}

static void
world_check_text(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        tassert((uint8_t)text.ptr[i] >= 0x20 ? text.ptr[i] != 0x7f : text.ptr[i] == '\t');
}

static int
world_get(struct vcl_run *r, enum vcl_var var, struct vcl_value *out)
{
    int err = world_err(r);

    return err < 0 ? err : world_fake->get(r, var, out);
}

static int
world_set(struct vcl_run *r, enum vcl_var var, const struct vcl_value *v)
{
    int err = world_err(r);

    switch ((unsigned)var) {
    case VCL_VAR_REQ_METHOD:
    case VCL_VAR_REQ_URL:
    case VCL_VAR_BEREQ_METHOD:
    case VCL_VAR_BEREQ_URL:
    case VCL_VAR_BERESP_REASON:
    case VCL_VAR_RESP_REASON:
        tassert(v->len > 0);
        world_check_text(slice_of(v->s, v->len));
        break;
    default:
        break;
    }
    return err < 0 ? err : world_fake->set(r, var, v);
}

static int
world_set_field(
    struct vcl_run *r, enum vcl_http http, const struct vcl_name *name, struct slice value)
{
    int err = world_err(r);

    tassert(value.ptr != NULL);
    world_check_text(value);
    return err < 0 ? err : world_fake->set_field(r, http, name, value);
}

static int
world_ban(struct vcl_run *r, struct slice expression, bool *ok)
{
    int err = world_err(r);

    tassert(expression.ptr != NULL);
    *ok = writer_pick(2);
    return err;
}

static int
world_call(struct vcl_run *r, unsigned fn, const struct vcl_value *args, unsigned present,
    struct vcl_value *out)
{
    static const enum vcl_type results[] = {
#define X(id, module, name, result, args, where, how, doc) VCL_TYPE_##result,
        VCL_FUNC_TABLE(X)
#undef X
    };
    int err = world_err(r);

    tassert(fn < VCL_FN_COUNT && (present == 0 || args != NULL));
    *out = world_value(results[fn]);
    return err;
}

static int
world_object_new(struct vcl_run *r, unsigned kind, const char *name, const struct vcl_value *args,
    unsigned present, void **out)
{
    int err = world_err(r);

    tassert(kind < VCL_OBJECT_COUNT && name[0] != '\0' && (present == 0 || args != NULL));
    *out = err < 0 ? NULL : world_big;
    return err;
}

static int
world_method(struct vcl_run *r, void *object, unsigned method, const struct vcl_value *args,
    unsigned present, struct vcl_value *out)
{
    static const enum vcl_type results[] = {
#define X(id, kinds, name, result, args, where, doc) VCL_TYPE_##result,
        VCL_METHOD_TABLE(X)
#undef X
    };
    int err = world_err(r);

    tassert(object == world_big && method < VCL_METHOD_COUNT && (present == 0 || args != NULL));
    *out = world_value(results[method]);
    return err;
}

static const void *
world_resolve(struct vcl_run *r, const void *backend)
{
    (void)r;
    tassert(backend != NULL);
    return writer_pick(2) ? NULL : backend;
}

static struct slice
world_name(const void *thing)
{
    tassert(thing != NULL);
    return world_string();
}

static void
world_open(const struct vcl_host *fake)
{
    world_fake = fake;
    world_host = *fake;
    world_host.get = world_get;
    world_host.set = world_set;
    world_host.set_field = world_set_field;
    world_host.ban = world_ban;
    world_host.call = world_call;
    world_host.object_new = world_object_new;
    world_host.method = world_method;
    world_host.resolve = world_resolve;
    world_host.backend_name = world_host.storage_name = world_name;
    memset(world_big, 'a', sizeof(world_big));
    world_big[300] = '\x01'; /* beyond this, no head */
}

static unsigned
world_field_id(void *ctx, struct slice name)
{
    (void)ctx;
    return name.len % WORLD_FIELD_IDS;
}

static unsigned
world_method_id(void *ctx, struct slice name)
{
    (void)ctx;
    return (unsigned)name.len % 4;
}

/* --- running --- */

static void
world_fill(struct fake_vcl *f)
{
    static const enum vcl_type types[] = {
#define X(id, name, type, read, write, unset, flags, doc) VCL_TYPE_##type,
        VCL_VAR_TABLE(X)
#undef X
    };
    static const char *const names[] = {"a", "b", "cookie", "host", "x-y", "q.r"};

    for (unsigned i = 0; i < VCL_VAR_COUNT; i++)
        f->vars[i] = world_value(types[i]);
    for (unsigned http = 0; http < VCL_HTTP_COUNT; http++) {
        f->nfields[http] = 0;
        for (unsigned n = writer_pick(8); n > 0; n--) {
            f->fields[http][f->nfields[http]++] =
                (struct fake_field){slice_str(names[writer_pick(6)]), world_string()};
        }
    }
    f->run.method = writer_pick(4);
    f->run.known = writer_pick(1u << WORLD_FIELD_IDS) & ~UINT64_C(1);
    world_present = writer_pick(1u << WORLD_FIELD_IDS);
    f->run.present = &world_present;
}

static void
world_check_run(const struct vcl *v, const struct vcl_run *r, enum vcl_sub sub, enum vcl_action a)
{
    static const unsigned may_return[] = {
#define X(id, name, actions, goes_on, doc) (actions) | VCL_DO(FAIL) | VCL_DO(NONE),
        VCL_SUB_TABLE(X)
#undef X
    };

    tassert((may_return[sub] & 1u << a) != 0);
    tassert((a == VCL_ACT_FAIL) == (r->why != NULL));
    tassert(r->workspace <= VCL_WORKSPACE_MAX && r->ntrace <= VCL_TRACE_MAX);
    tassert(r->why == NULL || strlen(r->why) < 300);
    if (a == VCL_ACT_SYNTH || (a == VCL_ACT_ERROR && r->status != 0))
        tassert(r->status >= 100 && r->status % 1000 >= 100);
    world_check_text(a == VCL_ACT_FAIL ? slice_of(NULL, 0) : r->reason);
    for (unsigned i = 0; i < r->ntrace && r->ntrace < VCL_TRACE_MAX; i++) {
        struct vcl_place place;

        vcl_place(v, r->trace[i], &place);
        tassert(place.line > 0 && place.sub != NULL);
    }
}

static enum vcl_action
world_run(struct fake_vcl *f, const struct vcl *v, enum vcl_sub sub)
{
    enum vcl_action a, only;

    f->quiet = !f->quiet; /* by turns the code without traces */
    a = fake_vcl_run(f, sub);
    world_check_run(v, &f->run, sub, a);
    if (vcl_is_trivial(v, sub, &only))
        tassert(a == only);
    (void)vcl_touches(v, sub, VCL_HTTP_REQ);
    (void)vcl_calls(v, VCL_FN_STD_LOG);
    (void)(vcl_hashes_as_builtin(v) && vcl_reads_hits(v));
    (void)vcl_is_literal(v, f->run.reason);
    return a;
}

/* Each sub, vcl_init first and vcl_fini last as in life, in a world that goes on; the one that was
 * written again after a restart or a retry. */
static void
world_run_all(const struct vcl *v, enum vcl_sub written)
{
    static struct fake_vcl f;
    unsigned runs = 0;

    fake_vcl_init(&f, v);
    world_open(f.run.host);
    f.run.host = &world_host;
    f.run.now_s = writer_pick(2) ? 1e300 : 1e9;
    world_fill(&f);
    world_run(&f, v, VCL_SUB_INIT);
    for (unsigned i = 0; i < VCL_SUB_COUNT && runs < WORLD_RUNS_MAX; i++, runs++) {
        enum vcl_action a;

        if (writer_next < writer_end && writer_pick(4) == 3)
            world_fill(&f);
        a = world_run(&f, v, (enum vcl_sub)i);
        if (a == VCL_ACT_RESTART || a == VCL_ACT_RETRY || i == (unsigned)written) {
            f.run.now_s += 1;
            world_fill(&f);
            world_run(&f, v, written);
        }
    }
    fake_vcl_fini(&f);
}

static void
world_print(void *ctx, const char *text)
{
    fputs(text, ctx);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool show = getenv("VCL_RUN_FUZZ_SHOW") != NULL;
    struct vcl_loader loader = fake_vcl_loader;
    struct vcl_source src = {.name = "fuzz.vcl"};
    struct vcl_error *errors = NULL;
    struct vcl *v = NULL;
    enum vcl_sub sub;

    loader.field_id = world_field_id;
    loader.method_id = world_method_id;
    writer_next = data;
    writer_end = data + size;
    src.without_builtin = writer_pick(2) == 0;
    src.text = writer_policy(&sub);
    if (show)
        fwrite(src.text.ptr, 1, src.text.len, stderr);
    if (vcl_compile(&v, &src, &loader, &errors) == 0) {
        for (unsigned i = 0; i < vcl_backends(v); i++)
            vcl_bind_backend(v, i, "backend");
        for (unsigned i = 0; i < vcl_storages(v); i++)
            vcl_bind_storage(v, i, writer_pick(8) == 7 ? NULL : "storage");
        world_run_all(v, sub);
    }
    if (show)
        vcl_errors_print(errors, world_print, stderr);
    vcl_errors_free(&errors);
    vcl_free(&v);
    return 0;
}
