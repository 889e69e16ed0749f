/* vcl_run_fuzz.c -- policies that a generator writes, compiled and run on a hostile world.
 *
 * The input's bytes choose what stands in the policy, then what the host answers.  Whatever that
 * is: no crash, no leak, the budgets hold, and a sub returns what it may.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "t/unit/fake_vcl_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    GEN_TEXT_MAX = 24 * 1024,
    GEN_DEPTH_MAX = 5,
};

/* A policy being written. */
static struct gen {
    const uint8_t *p, *end;
    char text[GEN_TEXT_MAX];
    size_t len;
    unsigned depth;
    enum vcl_sub sub; /* that of the language which is written, and calls the others */
    bool may_call;
} gen;

/* 0 to sides - 1; 0 when the input is used up, which ends every choice. */
static unsigned
pick(unsigned sides)
{
    return gen.p == gen.end ? 0 : *gen.p++ % sides;
}

static void __attribute__((format(printf, 1, 2))) put(const char *fmt, ...)
{
    size_t room = sizeof(gen.text) - gen.len;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(gen.text + gen.len, room, fmt, ap);
    va_end(ap);
    gen.len += (size_t)n < room ? (size_t)n : room - 1;
}

#define PUT_ONE(list) put("%s", (list)[pick(ARRAY_LEN(list))])

static const char *const gen_fields[] = {"a", "b", "Cookie", "Host", "X-Y", "\"q.r\""};
static const char *const gen_texts[] = {"", "a", "/x?b=2&a=1&&c", "12", "-3.5", "10s", "1.5k",
    "Sun, 06 Nov 1994 08:49:37 GMT", "1.2.3.4:80", "[::1]", "\\0\\1\\&\\", "\t",
    "aaaaaaaaaaaaaaaa"};
static const char *const gen_patterns[] = {"", "a", "^a", "a$", "^$", "[[:upper:]]", "(a+)+$",
    "(?i)\\.(png|jpg)$", "(a)|(b)", "x*", "\\b|b", "a\\Kb", "^/(a|b)/", "(?=a)", "[^a-z]"};
static const char *const gen_ints[] = {"0", "1", "7", "200", "999999999999999"};
static const char *const gen_durations[] = {"0s", "1ms", "9999y", "param.default_ttl"};
static const char *const gen_reals[] = {"0.0", "1.5", "999999999999.999", "-0.001"};

static void gen_expr_string(void);
static void gen_expr_int(void);
static void gen_expr_real(void);
static void gen_expr_duration(void);
static void gen_expr_bool(void);

static bool
gen_is_deep(void)
{
    return gen.depth >= GEN_DEPTH_MAX;
}

/* What each of the subs may name. */
static const struct gen_sub {
    enum vcl_sub id;
    const char *name, *messages[2], *returns[2], *status, *integer, *duration;
} gen_subs[] = {
    /* clang-format off */
    {VCL_SUB_RECV, "vcl_recv", {"req", "req"}, {"hash", "pass"}, NULL, "req.restarts", "req.grace"},
    {VCL_SUB_HASH, "vcl_hash", {"req", "req"}, {"lookup", "lookup"}, NULL, "req.xid", "req.grace"},
    {VCL_SUB_HIT, "vcl_hit", {"req", "obj"}, {"deliver", "pass"}, NULL, "obj.hits", "obj.ttl"},
    {VCL_SUB_DELIVER, "vcl_deliver", {"req", "resp"}, {"deliver", "restart"}, "resp.status",
        "resp.status", "obj.age"},
    {VCL_SUB_SYNTH, "vcl_synth", {"req", "resp"}, {"deliver", "restart"}, "resp.status",
        "resp.status", "req.max_age"},
    {VCL_SUB_BACKEND_RESPONSE, "vcl_backend_response", {"bereq", "beresp"}, {"deliver", "retry"},
        "beresp.status", "bereq.retries", "beresp.ttl"},
    {VCL_SUB_BACKEND_ERROR, "vcl_backend_error", {"bereq", "beresp"}, {"deliver", "abandon"},
        "beresp.status", "beresp.status", "beresp.keep"},
    /* clang-format on */
};
static const struct gen_sub *gen_in;

static bool
gen_is_backend(void)
{
    return gen.sub >= VCL_SUB_BACKEND_FETCH && gen.sub <= VCL_SUB_BACKEND_ERROR;
}

static void
gen_field(void)
{
    put("%s.http.", gen_in->messages[pick(2)]);
    PUT_ONE(gen_fields);
}

/* One that can be set. */
static void
gen_target(void)
{
    put("%s.http.", gen_in->messages[gen.sub == VCL_SUB_HIT ? 0 : pick(2)]);
    PUT_ONE(gen_fields);
}

static void
gen_expr_time(void)
{
    switch (gen_is_deep() ? 0 : pick(4)) {
    case 1:
        put("std.time(");
        gen_expr_string();
        put(", now)");
        break;
    case 2:
        put("(now + ");
        gen_expr_duration();
        put(")");
        break;
    case 3:
        put("std.time(real=");
        gen_expr_real();
        put(")");
        break;
    default:
        put("now");
    }
}

static void
gen_expr_duration(void)
{
    gen.depth++;
    switch (gen_is_deep() ? 0 : pick(6)) {
    case 1:
        put("std.duration(");
        gen_expr_string();
        put(", 1s)");
        break;
    case 2:
        put("(");
        gen_expr_duration();
        put(" * ");
        gen_expr_real();
        put(")");
        break;
    case 3:
        put("(now - ");
        gen_expr_time();
        put(")");
        break;
    case 4:
        put("%s", gen_in->duration);
        break;
    default:
        PUT_ONE(gen_durations);
    }
    gen.depth--;
}

static void
gen_expr_real(void)
{
    static const char *const ops[] = {"+", "-", "*", "/"};

    gen.depth++;
    switch (gen_is_deep() ? 0 : pick(5)) {
    case 1:
        put("(");
        gen_expr_real();
        put(" %s ", ops[pick(4)]);
        gen_expr_real();
        put(")");
        break;
    case 2:
        put("std.real(");
        gen_expr_string();
        put(", 2.5)");
        break;
    case 3:
        put("std.random(");
        gen_expr_real();
        put(", 3.0)");
        break;
    case 4:
        put("std.real(integer=");
        gen_expr_int();
        put(")");
        break;
    default:
        PUT_ONE(gen_reals);
    }
    gen.depth--;
}

static void
gen_expr_int(void)
{
    static const char *const ops[] = {"+", "-", "*", "/", "%"};

    gen.depth++;
    switch (gen_is_deep() ? 0 : pick(7)) {
    case 1:
        put("(");
        gen_expr_int();
        put(" %s ", ops[pick(5)]);
        gen_expr_int();
        put(")");
        break;
    case 2:
        put("std.integer(");
        gen_expr_string();
        put(pick(2) ? ", 5)" : ")");
        break;
    case 3:
        put("std.integer(real=");
        gen_expr_real();
        put(")");
        break;
    case 4:
        put("std.port(std.ip(");
        gen_expr_string();
        put(", \"1.1.1.1\"))");
        break;
    case 5:
        put("%s", gen_in->integer);
        break;
    default:
        PUT_ONE(gen_ints);
    }
    gen.depth--;
}

static void
gen_function_of_string(void)
{
    static const char *const names[] = {"std.tolower(", "std.toupper(", "std.querysort("};

    switch (pick(5)) {
    case 0:
        put("std.strstr(");
        gen_expr_string();
        put(", ");
        gen_expr_string();
        put(")");
        break;
    case 1:
        put("std.strftime(");
        gen_expr_time();
        put(", ");
        gen_expr_string();
        put(")");
        break;
    case 2:
        put(pick(2) ? "regsub(" : "regsuball(");
        gen_expr_string();
        put(", \"");
        PUT_ONE(gen_patterns);
        put("\", ");
        gen_expr_string();
        put(")");
        break;
    default:
        PUT_ONE(names);
        gen_expr_string();
        put(")");
    }
}

static void
gen_expr_string(void)
{
    gen.depth++;
    switch (gen_is_deep() ? pick(2) : pick(10)) {
    case 0:
        put("{\"");
        PUT_ONE(gen_texts);
        put("\"}");
        break;
    case 1:
    case 2:
        gen_field();
        break;
    case 3:
    case 4:
        put("(");
        gen_expr_string();
        put(" + ");
        gen_expr_string();
        put(")");
        break;
    case 5:
        put("(\"\" + ");
        gen_expr_int();
        put(")");
        break;
    case 6:
        put("(\"\" + ");
        gen_expr_real();
        put(")");
        break;
    case 7:
        put("(\"\" + ");
        gen_expr_time();
        put(")");
        break;
    default:
        gen_function_of_string();
    }
    gen.depth--;
}

static void
gen_expr_bool(void)
{
    static const char *const cmps[] = {"==", "!=", "<", ">", "<=", ">="};

    gen.depth++;
    switch (gen_is_deep() ? 0 : pick(9)) {
    case 1:
        gen_expr_string();
        put(" %s ", cmps[pick(2)]);
        gen_expr_string();
        break;
    case 2:
        gen_expr_string();
        put(pick(2) ? " ~ \"" : " !~ \"");
        PUT_ONE(gen_patterns);
        put("\"");
        break;
    case 3:
        gen_expr_int();
        put(" %s ", cmps[pick(6)]);
        gen_expr_int();
        break;
    case 4:
        gen_expr_real();
        put(" %s ", cmps[pick(6)]);
        gen_expr_real();
        break;
    case 5:
        put("(");
        gen_expr_bool();
        put(pick(2) ? " && " : " || ");
        gen_expr_bool();
        put(")");
        break;
    case 6:
        put("!(");
        gen_expr_bool();
        put(")");
        break;
    case 7:
        put(pick(2) ? "client.ip ~ near" : "std.ip(req.http.a, \"1.1.1.1\") ~ near");
        break;
    case 8:
        put("std.fnmatch(");
        gen_expr_string();
        put(", ");
        gen_expr_string();
        put(", pathname=%s)", pick(2) ? "true" : "false");
        break;
    default:
        gen_field();
    }
    gen.depth--;
}

static bool
gen_may_synth(void)
{
    return !gen_is_backend() && gen.sub != VCL_SUB_HASH && gen.sub != VCL_SUB_SYNTH;
}

static void
gen_return(void)
{
    switch (pick(4)) {
    case 0:
        if (gen_may_synth()) {
            put("return (synth(200 + ");
            gen_expr_int();
            put(", ");
            gen_expr_string();
            put("));");
            break;
        }
        /* fall through */
    case 1:
        put("return (fail(");
        gen_expr_string();
        put("));");
        break;
    default:
        put("return (%s);", gen_in->returns[pick(2)]);
    }
}

static void gen_block(void);

static void
gen_set(void)
{
    switch (pick(6)) {
    case 0:
        put("set %s.grace = ", gen_is_backend() ? "beresp" : "req");
        gen_expr_duration();
        break;
    case 1:
        if (gen_in->status != NULL) {
            put("set %s = 200 + ", gen_in->status);
            gen_expr_int();
            break;
        }
        /* fall through */
    case 2:
        put("set %s.url = ", gen_is_backend() ? "bereq" : "req");
        gen_expr_string();
        break;
    default:
        put("set ");
        gen_target();
        put(pick(4) ? " = " : " += ");
        gen_expr_string();
    }
    put(";");
}

/* What only some of the subs have. */
static void
gen_special(void)
{
    switch ((unsigned)gen.sub) {
    case VCL_SUB_HASH:
        put("hash_data(");
        break;
    case VCL_SUB_SYNTH:
        put("synthetic(");
        break;
    case VCL_SUB_RECV:
        put("ban(");
        break;
    default:
        put("std.log(");
    }
    gen_expr_string();
    put(");");
}

static void
gen_stmt(void)
{
    switch (pick(11)) {
    case 0:
        gen_return();
        break;
    case 1:
    case 2:
        put("if (");
        gen_expr_bool();
        put(") ");
        gen_block();
        if (pick(2)) {
            put(" else ");
            gen_block();
        }
        break;
    case 3:
        put("unset ");
        gen_target();
        put(";");
        break;
    case 4:
        put("std.collect(");
        gen_target();
        put(", \"; \");");
        break;
    case 5:
        put("%s", !gen.may_call ? "" : pick(2) ? "call one;" : "call two;");
        break;
    case 6:
        gen_special();
        break;
    default:
        gen_set();
    }
    put("\n");
}

static void
gen_block(void)
{
    put("{\n");
    gen.depth++;
    for (unsigned n = gen_is_deep() ? 1 : 1 + pick(5); n > 0; n--)
        gen_stmt();
    gen.depth--;
    put("}\n");
}

/* One sub of the language, and two that it may call. */
static void
gen_policy(void)
{
    gen_in = &gen_subs[pick(ARRAY_LEN(gen_subs))];
    gen.len = gen.depth = 0;
    gen.sub = gen_in->id;
    gen.may_call = false;
    put("vcl 4.1;\nimport std;\nimport directors;\nbackend default { .host = \"127.0.0.1\"; }\n"
        "acl near { \"127.0.0.0\"/8; ! \"127.0.0.9\"; \"::1\"; }\n"
        "sub vcl_init { new rr = directors.round_robin(); rr.add_backend(default); }\n");
    put("sub two ");
    gen_block();
    put("sub one { call two; call two; ");
    gen_stmt();
    put("}\nsub %s ", gen_in->name);
    gen.may_call = true;
    gen_block();
}

/* --- the world --- */

static struct slice
hostile_bytes(void)
{
    size_t len = pick(40), left = (size_t)(gen.end - gen.p);

    len = len < left ? len : left;
    gen.p += len;
    return slice_of((const char *)gen.p - len, len);
}

static struct vcl_value
hostile_value(enum vcl_type type)
{
    static const struct vcl_ip ip = {.addr = {[10] = 0xff, 0xff, 127, 0, 0, 9}, .is_v4 = true};
    static const double reals[] = {0, -1, 1e300, 1e-300, 120, -1e300};
    static const int64_t ints[] = {0, 1, -1, INT64_MAX, INT64_MIN, 200};
    struct slice s;

    switch ((unsigned)type) {
    case VCL_TYPE_STRING:
        s = hostile_bytes();
        return pick(4) == 0 ? (struct vcl_value){.s = NULL}
                            : (struct vcl_value){.s = s.ptr, .len = s.len};
    case VCL_TYPE_REAL:
    case VCL_TYPE_DURATION:
    case VCL_TYPE_TIME:
        return (struct vcl_value){.r = reals[pick(ARRAY_LEN(reals))]};
    case VCL_TYPE_IP:
        return (struct vcl_value){.ip = pick(2) ? &ip : NULL};
    case VCL_TYPE_BACKEND:
    case VCL_TYPE_STEVEDORE:
        return (struct vcl_value){.p = pick(2) ? "thing" : NULL};
    case VCL_TYPE_BOOL:
        return (struct vcl_value){.i = pick(2)};
    default:
        return (struct vcl_value){.i = ints[pick(ARRAY_LEN(ints))]};
    }
}

static void
hostile_world(struct fake_vcl *f)
{
    static const enum vcl_type types[] = {
#define X(id, name, type, read, write, unset, flags, doc) VCL_TYPE_##type,
        VCL_VAR_TABLE(X)
#undef X
    };
    static const char *const names[] = {"a", "b", "cookie", "host", "x-y", "q.r"};

    for (unsigned i = 0; i < VCL_VAR_COUNT; i++)
        f->vars[i] = hostile_value(types[i]);
    for (unsigned http = 0; http < VCL_HTTP_COUNT; http++) {
        for (unsigned n = pick(8); n > 0; n--) {
            f->fields[http][f->nfields[http]++] =
                (struct fake_field){slice_str(names[pick(6)]), hostile_bytes()};
        }
    }
}

static const unsigned may_return[] = {
#define X(id, name, actions, doc) (actions) | VCL_DO(FAIL) | VCL_DO(NONE),
    VCL_SUB_TABLE(X)
#undef X
};

static void
run_all(const struct vcl *v)
{
    static struct fake_vcl f;

    for (unsigned sub = 0; sub < VCL_SUB_COUNT; sub++) {
        enum vcl_action a;

        fake_vcl_init(&f, v);
        hostile_world(&f);
        f.run.now_s = pick(2) ? 1e9 : 1e300;
        a = fake_vcl_run(&f, (enum vcl_sub)sub);
        tassert((may_return[sub] & 1u << a) != 0);
        tassert((a == VCL_ACT_FAIL) == (f.run.why != NULL));
        tassert(f.run.workspace <= VCL_WORKSPACE_MAX && f.run.ntrace <= VCL_TRACE_MAX);
        tassert(f.run.why == NULL || strlen(f.run.why) < 300);
        for (unsigned i = 0; i < f.run.ntrace; i++) {
            struct vcl_place place;

            vcl_place(v, f.run.trace[i], &place);
            tassert(place.line > 0 && place.sub != NULL);
        }
        fake_vcl_fini(&f);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct vcl_error *errors = NULL;
    struct vcl_source src = {.name = "fuzz.vcl"};
    struct vcl *v = NULL;

    gen.p = data;
    gen.end = data + size;
    gen_policy();
    src.text = slice_of(gen.text, gen.len);
    src.without_builtin = pick(2);
    if (getenv("VCL_RUN_FUZZ_SHOW") != NULL)
        fputs(gen.text, stderr);
    if (vcl_compile(&v, &src, &fake_vcl_loader, &errors) == 0) {
        for (unsigned i = 0; i < vcl_backends(v); i++)
            vcl_bind_backend(v, i, "backend");
        run_all(v);
    }
    vcl_errors_free(&errors);
    vcl_free(&v);
    return 0;
}
