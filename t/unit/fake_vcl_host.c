/* fake_vcl_host.c -- a world for the machine of vcl-lite: messages and variables in memory. */
#include "t/unit/fake_vcl_host.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

static struct fake_vcl *
fake_of(struct vcl_run *r)
{
    return container_of(r, struct fake_vcl, run);
}

static int fake_log(struct fake_vcl *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int
fake_log(struct fake_vcl *f, const char *fmt, ...)
{
    size_t room = sizeof(f->log) - f->log_len;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(f->log + f->log_len, room, fmt, ap);
    va_end(ap);
    f->log_len += (size_t)n < room ? (size_t)n : room - 1;
    return f->refuse;
}

/* --- variables --- */

static int
fake_get(struct vcl_run *r, enum vcl_var var, struct vcl_value *out)
{
    *out = fake_of(r)->vars[var];
    return fake_of(r)->refuse;
}

static int
fake_set(struct vcl_run *r, enum vcl_var var, const struct vcl_value *v)
{
    fake_of(r)->vars[var] = *v;
    return fake_log(fake_of(r), "set %s\n", vcl_var_name(var));
}

static int
fake_unset(struct vcl_run *r, enum vcl_var var)
{
    return fake_log(fake_of(r), "unset %s\n", vcl_var_name(var));
}

static int
fake_get_storage(struct vcl_run *r, enum vcl_var var, const void *storage, struct vcl_value *out)
{
    (void)storage;
    return fake_get(r, var, out);
}

/* --- fields --- */

static struct slice
fake_nth_field(struct vcl_run *r, enum vcl_http http, const struct vcl_name *name, unsigned n)
{
    struct fake_vcl *f = fake_of(r);

    for (unsigned i = 0; i < f->nfields[http]; i++) {
        if (slice_eq_nocase(f->fields[http][i].name, name->text) && n-- == 0)
            return f->fields[http][i].value;
    }
    return slice_of(NULL, 0);
}

static struct slice
fake_field(struct vcl_run *r, enum vcl_http http, const struct vcl_name *name)
{
    return fake_nth_field(r, http, name, 0);
}

static void
fake_drop(struct fake_vcl *f, enum vcl_http http, struct slice name)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < f->nfields[http]; i++) {
        if (!slice_eq_nocase(f->fields[http][i].name, name))
            f->fields[http][kept++] = f->fields[http][i];
    }
    f->nfields[http] = kept;
}

static int
fake_set_field(
    struct vcl_run *r, enum vcl_http http, const struct vcl_name *name, struct slice value)
{
    struct fake_vcl *f = fake_of(r);

    fake_drop(f, http, name->text);
    if (f->nfields[http] == FAKE_FIELDS_MAX)
        return TERR_LIMIT;
    f->fields[http][f->nfields[http]++] = (struct fake_field){name->text, value};
    return fake_log(
        f, "%.*s: %.*s\n", (int)name->text.len, name->text.ptr, (int)value.len, value.ptr);
}

static int
fake_unset_field(struct vcl_run *r, enum vcl_http http, const struct vcl_name *name)
{
    fake_drop(fake_of(r), http, name->text);
    return fake_log(fake_of(r), "unset %.*s\n", (int)name->text.len, name->text.ptr);
}

/* --- effects --- */

static int
fake_set_body(
    struct vcl_run *r, enum vcl_var var, const struct slice *parts, unsigned n, bool append)
{
    fake_log(fake_of(r), "%s %s", vcl_var_name(var), append ? "+=" : "=");
    for (unsigned i = 0; i < n; i++)
        fake_log(fake_of(r), " [%.*s]", (int)parts[i].len, parts[i].ptr);
    return fake_log(fake_of(r), "\n");
}

static int
fake_hash_data(struct vcl_run *r, struct slice data)
{
    if (data.ptr == NULL)
        return fake_log(fake_of(r), "hash unset\n");
    return fake_log(fake_of(r), "hash %.*s\n", (int)data.len, data.ptr);
}

static int
fake_ban(struct vcl_run *r, struct slice expression, bool *ok)
{
    *ok = expression.len > 0;
    return fake_log(fake_of(r), "ban %.*s\n", (int)expression.len, expression.ptr);
}

static int
fake_call(struct vcl_run *r, unsigned fn, const struct vcl_value *args, unsigned present,
    struct vcl_value *out)
{
    (void)args;
    *out = fake_of(r)->given;
    return fake_log(fake_of(r), "call %u with %#x\n", fn, present);
}

static int
fake_object_new(struct vcl_run *r, unsigned kind, const char *name, const struct vcl_value *args,
    unsigned present, void **out)
{
    (void)args;
    *out = r;
    return fake_log(fake_of(r), "new %s of %u with %#x\n", name, kind, present);
}

static int
fake_method(struct vcl_run *r, void *object, unsigned method, const struct vcl_value *args,
    unsigned present, struct vcl_value *out)
{
    (void)object;
    (void)args;
    *out = fake_of(r)->given;
    return fake_log(fake_of(r), "method %u with %#x\n", method, present);
}

static struct slice
fake_name(const void *thing)
{
    (void)thing;
    return SLICE_LIT("its_name");
}

/* xorshift64* */
static uint64_t
fake_random(struct vcl_run *r)
{
    uint64_t *x = &fake_of(r)->seed;

    *x ^= *x >> 12;
    *x ^= *x << 25;
    *x ^= *x >> 27;
    return *x * UINT64_C(2685821657736338717);
}

static const void *
fake_resolve_now(struct vcl_run *r, const void *backend)
{
    (void)r;
    return backend;
}

static struct vcl_cookies **
fake_cookies(struct vcl_run *r)
{
    return &fake_of(r)->cookies;
}

const struct vcl_host fake_host = {
    .get = fake_get,
    .set = fake_set,
    .unset = fake_unset,
    .get_storage = fake_get_storage,
    .field = fake_field,
    .set_field = fake_set_field,
    .unset_field = fake_unset_field,
    .nth_field = fake_nth_field,
    .set_body = fake_set_body,
    .hash_data = fake_hash_data,
    .ban = fake_ban,
    .call = fake_call,
    .object_new = fake_object_new,
    .method = fake_method,
    .resolve = fake_resolve_now,
    .cookies = fake_cookies,
    .backend_name = fake_name,
    .storage_name = fake_name,
};

void
fake_vcl_init(struct fake_vcl *f, const struct vcl *v)
{
    memset(f, 0, sizeof(*f));
    arena_pool_init(&f->pool, 8, NULL);
    arena_init(&f->arena, &f->pool);
    f->seed = 4;
    f->run = (struct vcl_run){
        .vcl = v,
        .host = &fake_host,
        .arena = &f->arena,
        .now_s = 784111777,
        .random = fake_random,
    };
}

void
fake_vcl_fini(struct fake_vcl *f)
{
    arena_fini(&f->arena);
    arena_pool_fini(&f->pool);
}

void
fake_vcl_field(struct fake_vcl *f, enum vcl_http http, const char *name, const char *value)
{
    f->fields[http][f->nfields[http]++] = (struct fake_field){slice_str(name), slice_str(value)};
}

struct slice
fake_vcl_value(const struct fake_vcl *f, enum vcl_http http, const char *name)
{
    for (unsigned i = 0; i < f->nfields[http]; i++) {
        if (slice_eq_nocase(f->fields[http][i].name, slice_str(name)))
            return f->fields[http][i].value;
    }
    return slice_of(NULL, 0);
}

enum vcl_action
fake_vcl_run(struct fake_vcl *f, enum vcl_sub sub)
{
    f->log_len = 0;
    f->log[0] = '\0';
    f->run.ntrace = f->quiet ? VCL_TRACE_MAX : 0;
    return vcl_run(&f->run, sub);
}

/* --- loading --- */

static unsigned
fake_field_id(void *ctx, struct slice name)
{
    (void)ctx;
    (void)name;
    return 0;
}

static bool
fake_has(void *ctx, struct slice name)
{
    (void)ctx;
    return slice_eq(name, SLICE_LIT("default")) || slice_eq(name, SLICE_LIT("other"));
}

static unsigned
fake_resolve(void *ctx, const char *host, struct vcl_ip *out, unsigned max)
{
    (void)ctx;
    (void)max;
    *out = (struct vcl_ip){.addr = {[10] = 0xff, 0xff}, .port = 80};
    if (inet_pton(AF_INET, host, out->addr + 12) == 1) {
        out->is_v4 = true;
        return 1;
    }
    return inet_pton(AF_INET6, host, out->addr) == 1;
}

const struct vcl_loader fake_vcl_loader = {
    .resolve = fake_resolve,
    .field_id = fake_field_id,
    .has_backend = fake_has,
    .has_storage = fake_has,
    .has_label = fake_has,
};

static void
fake_print(void *ctx, const char *text)
{
    fputs(text, ctx);
}

struct vcl *
fake_vcl_compile(const char *text, bool without_builtin)
{
    struct vcl_source src = {
        .name = "test.vcl", .text = slice_str(text), .without_builtin = without_builtin};
    struct vcl_error *errors = NULL;
    struct vcl *v = NULL;

    if (vcl_compile(&v, &src, &fake_vcl_loader, &errors) < 0)
        vcl_errors_print(errors, fake_print, stderr);
    vcl_errors_free(&errors);
    for (unsigned i = 0; v != NULL && i < vcl_backends(v); i++)
        vcl_bind_backend(v, i, "backend");
    for (unsigned i = 0; v != NULL && i < vcl_storages(v); i++)
        vcl_bind_storage(v, i, "storage");
    return v;
}
