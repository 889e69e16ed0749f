/* policy_load.c -- from a text to a policy that can be run: compiled, its backends made, vcl_init
 * run. */
#include <glob.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "daemon/base/terr.h"
#include "daemon/origin/probe.h"
#include "daemon/policy/policies_priv.h"

/* Names that are not absolute are sought in vcl_path, else beside the file that includes them. */
static char *
policy_path(const struct conf *conf, bool sent, const char *name, const char *from)
{
    const char *dir = conf->params.vcl_path, *slash = strrchr(from, '/');
    char *out = NULL;
    int n;

    /* So its includes are found as those of the configuration's own policy are. */
    if (dir[0] == '\0' && slash == NULL && sent) { /* it came without a directory of its own */
        from = conf->vcl;
        slash = strrchr(from, '/');
    }
    if (name[0] == '/' || (dir[0] == '\0' && slash == NULL))
        return strdup(name);
    /* A name that begins with "./" is beside the file that includes it, whatever vcl_path is, as
     * in Varnish. */
    if (dir[0] != '\0' && strncmp(name, "./", 2) != 0)
        n = asprintf(&out, "%s/%s", dir, name);
    else if (slash != NULL)
        n = asprintf(&out, "%.*s/%s", (int)(slash - from), from, name);
    else
        return strdup(name);
    return n < 0 ? NULL : out;
}

static unsigned
loader_field_id(void *ctx, struct slice name)
{
    (void)ctx;
    return http_field_id(name.ptr, name.len);
}

static unsigned
loader_method_id(void *ctx, struct slice name)
{
    (void)ctx;
    return http_method_id(name);
}

/* For vcl_compile, on the management thread.  A reload that replays a source reads no file: the
 * policy is compiled from what was read at its load.  0, and *out and *path are the caller's. */
static int
loader_read_file(
    void *ctx, const char *name, const char *from, struct span *out, char **path, const char **why)
{
    struct policies *ps = ctx;
    const struct policy_dirs dirs = {.conf = policies_conf(ps), .all = !ps->sent};
    int err;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    tassert(ps->replayed == NULL || ps->recorded == NULL);
    if (ps->replayed != NULL)
        return policy_source_read(ps->replayed, name, from, out, path, why);
    *path = policy_path(policies_conf(ps), ps->sent, name, from);
    if (*path == NULL)
        return TERR_NOMEM;
    err = policy_slurp(&dirs, *path, POLICY_FILE_MAX, out, why);
    if (err == 0 && ps->recorded != NULL &&
        /* In the record before the compiler sees it: what was compiled can be replayed. */
        policy_source_add_file(ps->recorded, name, from, *path, slice_of(out->ptr, out->len)) !=
            0) {
        free(out->ptr);
        *why = terr_text(TERR_NOMEM);
        err = TERR_NOMEM;
    }
    if (err != 0) {
        free(*path);
        *path = NULL;
    }
    return err;
}

static void
loader_forget(char ***out, unsigned *n)
{
    while (*n > 0)
        free((*out)[--*n]);
    free(*out);
    *out = NULL;
}

/* glob(3), but the first `dir` bytes are meant as they are written: those of the directory that the
 * policy lies in, which may have a [ in its name. */
static int
loader_glob_in(const char *path, size_t dir, glob_t *out)
{
    char *quoted = malloc(dir + strlen(path) + 1), *p = quoted;
    int rc;

    tassert(dir <= strlen(path));
    if (quoted == NULL)
        return GLOB_NOSPACE;
    for (size_t i = 0; i < dir; i++) {
        if (strchr("*?[\\", path[i]) != NULL)
            *p++ = '\\';
        *p++ = path[i];
    }
    strcpy(p, path + dir);
    rc = glob(quoted, 0, NULL, out);
    free(quoted);
    return rc;
}

/* The names of a glob, in the order of glob(3); the caller frees them.  A name that a text that
 * was sent may not read is left out: an error would disclose that the file exists. */
static int
loader_find(struct policies *ps, const char *pattern, const char *from, char ***out, unsigned *n)
{
    /* Not `all`: only a text that was sent is asked about. */
    const struct policy_dirs dirs = {.conf = policies_conf(ps), .all = false};
    const char *why;
    char *path = policy_path(policies_conf(ps), ps->sent, pattern, from);
    size_t dir = path != NULL ? strlen(path) - strlen(pattern) : 0;
    glob_t g;
    bool whole;
    int rc;

    if (path == NULL)
        return TERR_NOMEM;
    rc = loader_glob_in(path, dir, &g);
    free(path);
    *out = NULL;
    *n = 0;
    if (rc == GLOB_NOMATCH)
        return 0;
    if (rc != 0)
        return rc == GLOB_NOSPACE ? TERR_NOMEM : TERR_IO;
    *out = calloc(g.gl_pathc + 1, sizeof(**out));
    whole = *out != NULL;
    for (size_t i = 0; whole && i < g.gl_pathc; i++) {
        tassert(strlen(g.gl_pathv[i]) >= dir); /* glob(3) gives what is quoted as it is */
        if (ps->sent && !policy_may_read(&dirs, g.gl_pathv[i], &why))
            continue;
        /* It goes through policy_path() as one that an include says: without what that puts in
         * front. */
        (*out)[*n] = strdup(g.gl_pathv[i] + dir);
        whole = (*out)[*n] != NULL;
        *n += whole;
    }
    globfree(&g);
    if (whole)
        return 0;
    /* All or none: a policy without one of its files would load, and decide otherwise. */
    loader_forget(out, n);
    return TERR_NOMEM;
}

static int
loader_glob(void *ctx, const char *pattern, const char *from, char ***out, unsigned *n)
{
    struct policies *ps = ctx;
    int err;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    if (ps->replayed != NULL)
        return policy_source_glob(ps->replayed, pattern, from, out, n);
    err = loader_find(ps, pattern, from, out, n);
    if (err != 0 || ps->recorded == NULL)
        return err;
    err = policy_source_add_glob(ps->recorded, pattern, from, *out, *n);
    /* A source without this glob could not be replayed, so the load fails, and the names go
     * back. */
    if (err != 0)
        loader_forget(out, n);
    return err;
}

struct policy_reader
policy_reader(struct policies *ps)
{
    return (struct policy_reader){.ctx = ps, .read_file = loader_read_file, .glob = loader_glob};
}

/* As acls compare: IPv4 is ::ffff:a.b.c.d.  The port stays 0, as an acl has none. */
static void
loader_say_ip(const struct sockaddr *sa, struct vcl_ip *out)
{
    /* Compared as bytes: nothing of it may stay undefined. */
    memset(out, 0, sizeof(*out));
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

        out->is_v4 = true;
        out->addr[10] = out->addr[11] = 0xff;
        memcpy(out->addr + 12, &in->sin_addr, 4);
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

        memcpy(out->addr, &in6->sin6_addr, 16);
    }
}

/* Blocks while the name is asked for: the management thread may. */
static unsigned
loader_resolve(void *ctx, const char *host, struct vcl_ip *out, unsigned max)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *list = NULL;
    unsigned n = 0;

    (void)ctx;
    /* 0 addresses: the compiler says what that means for an acl. */
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return 0;
    for (const struct addrinfo *ai = list; ai != NULL && n < max; ai = ai->ai_next)
        if (ai->ai_family == AF_INET || ai->ai_family == AF_INET6)
            loader_say_ip(ai->ai_addr, &out[n++]);
    freeaddrinfo(list);
    tassert(n <= max);
    return n;
}

/* In the snapshot that the policy will hold, not in the one of workers: a reload compiles against
 * the configuration to come. */
static bool
loader_has_backend(void *ctx, struct slice name)
{
    const struct policies *ps = ctx;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    return snapshot_find(ps->snapshot, name) != NULL;
}

/* Tarn has one store, and policies call it storage.main. */
static bool
loader_has_storage(void *ctx, struct slice name)
{
    (void)ctx;
    return slice_eq(name, SLICE_LIT("main"));
}

/* Only labels that exist now: policies_unlabel then refuses to remove one that a loaded policy
 * names. */
static bool
loader_has_label(void *ctx, struct slice name)
{
    const struct policies *ps = ctx;

    OBJ_CHECK(ps, POLICIES_MAGIC);
    for (const struct policy_tag *t = ps->labels; t != NULL; t = t->next)
        if (slice_eq(slice_str(t->name), name))
            return true;
    return false;
}

static const char *
loader_table(void *ctx, unsigned n)
{
    const struct conf *conf = policies_conf(ctx);

    return n < conf->ntables ? conf->tables[n].name : NULL;
}

static struct vcl_loader
policy_loader(struct policies *ps)
{
    return (struct vcl_loader){
        .ctx = ps,
        .field_id = loader_field_id,
        .method_id = loader_method_id,
        .read_file = loader_read_file,
        .glob = loader_glob,
        .resolve = loader_resolve,
        .has_backend = loader_has_backend,
        .has_storage = loader_has_storage,
        .has_label = loader_has_label,
        .table = loader_table,
        .backend_needed = policies_conf(ps)->nbackends == 0,
    };
}

/* --- backends --- */

/* An error that the compiler could not see. */
static int
policy_refuse(
    struct vcl_error **errors, const char *file, unsigned line, const char *what, const char *why)
{
    /* The precisions below bound what a text can put here: 300 + 2 + 250 and the NUL fit. */
    char message[600];

    snprintf(message, sizeof(message), "%.300s: %.250s", what, why);
    /* Without memory for the message that is the reason: a load never fails without one. */
    return vcl_error_add(errors, file, line, message) == 0 ? TERR_CONFIG : TERR_NOMEM;
}

/* Seconds to milliseconds; below 0: the declaration says nothing.  What is less than 1 ms is 1,
 * never 0. */
static int64_t
policy_timeout(double seconds, int64_t param_ms)
{
    return seconds < 0 ? param_ms : seconds * 1000 < 1 ? 1 : policy_ms(seconds);
}

/* What a conf_address points to, on the stack of policy_make_backend: backend_admit copies it. */
struct policy_addresses {
    struct sockaddr_storage addrs[16];
    socklen_t lens[16];
    char text[300];
};

static uint16_t
policy_port(const struct sockaddr *sa)
{
    return ntohs(sa->sa_family == AF_INET
                     ? ((const struct sockaddr_in *)(const void *)sa)->sin_port
                     : ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port);
}

/* host and port, resolved now; 0, or what getaddrinfo(3) says. */
static const char *
policy_resolve(
    const struct vcl_backend_decl *d, struct conf_address *out, struct policy_addresses *a)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *list = NULL;
    int rc = getaddrinfo(d->host, d->port, &hints, &list);

    /* Once more without the host: the port, which may be a service's name, has to be known when
     * addresses come. */
    if (rc != 0 && getaddrinfo(NULL, d->port, &hints, &list) == 0) {
        out->port = policy_port(list->ai_addr); /* its addresses may come later */
        freeaddrinfo(list);
    }
    if (rc != 0)
        return gai_strerror(rc);
    for (const struct addrinfo *ai = list; ai != NULL && out->naddrs < 16; ai = ai->ai_next) {
        if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
            continue;
        tassert(ai->ai_addrlen <= sizeof(a->addrs[0]));
        memcpy(&a->addrs[out->naddrs], ai->ai_addr, ai->ai_addrlen);
        a->lens[out->naddrs++] = ai->ai_addrlen;
    }
    freeaddrinfo(list);
    return out->naddrs > 0 ? NULL : "no address";
}

static struct probe_conf
policy_probe(const struct vcl_probe_decl *d)
{
    return (struct probe_conf){
        .url = d->url,
        .request = d->request,
        .interval_ms = policy_ms(d->interval_s),
        .timeout_ms = policy_ms(d->timeout_s),
        .window = (unsigned)d->window,
        .threshold = (unsigned)d->threshold,
        .initial = d->initial < 0 ? UINT32_MAX : (unsigned)d->initial,
        .expected_response = (unsigned)d->expected_response,
        .expect_close = d->expect_close,
    };
}

/* Where the declaration points to; the address borrows what `a` has.  NULL, or why there is no address
 * now. */
static const char *
policy_locate(
    const struct vcl_backend_decl *d, struct conf_address *out, struct policy_addresses *a)
{
    const char *why = NULL;

    out->addrs = a->addrs;
    out->addr_lens = a->lens;
    out->text = a->text;
    if (d->path != NULL) {
        out->is_unix = true;
        out->path = d->path;
        out->host = "";
        snprintf(a->text, sizeof(a->text), "unix:%.250s", d->path);
    } else {
        why = policy_resolve(d, out, a);
        out->host = d->host;
        out->path = "";
        snprintf(a->text, sizeof(a->text), "%.200s:%.16s", d->host, d->port);
    }
    return why;
}

/* A name without addresses may get them later, unless the operator demands them at once; four
 * numbers never will. */
static bool
policy_needs_address(const struct conf_params *params, const struct vcl_backend_decl *d)
{
    return params->dns_required || strspn(d->host, "0123456789.") == strlen(d->host);
}

/* Requests to a listener of this process come back to it, again and again. */
static int
policy_check_loop(const struct policy *pol, const struct vcl_backend_decl *d,
    const struct conf_address *address, struct vcl_error **errors)
{
    const struct conf_listen *own = conf_listener_at(snapshot_conf(pol->snapshot), address);
    char loop[250];

    if (own == NULL)
        return 0;
    snprintf(loop, sizeof(loop),
        "it is the listener '%.64s' of this tarnd, so its requests would loop: write the address "
        "of the site itself",
        own->name);
    return policy_refuse(errors, d->file, d->line, address->text, loop);
}

/* What the declaration leaves out has the configuration's parameters for a default. */
static struct conf_backend
policy_backend_conf(const struct conf_params *params, const struct vcl_backend_decl *d)
{
    return (struct conf_backend){
        .name = d->name,
        .host_header = d->host_header != NULL ? d->host_header
                       : d->host != NULL      ? d->host
                                              : "0.0.0.0", /* a Unix socket; as Varnish */
        .host_if_none = true,
        .connect_timeout = policy_timeout(d->connect_timeout_s, params->connect_timeout),
        .first_byte_timeout = policy_timeout(d->first_byte_timeout_s, params->first_byte_timeout),
        .between_bytes_timeout =
            policy_timeout(d->between_bytes_timeout_s, params->between_bytes_timeout),
        .idle_timeout = params->backend_idle_timeout,
        .dns_ttl = params->dns_ttl,
        .max_connections = d->max_connections,
        .queue_max = d->wait_limit,
        .queue_timeout =
            d->max_connections > 0 && d->wait_limit > 0 ? policy_ms(d->wait_timeout_s) : 0,
        /* The language has no word for it. */
        .max_idle = 64,
        .proxy_header = d->proxy_header,
    };
}

static int
policy_make_backend(struct policy *pol, const struct vcl_backend_decl *d, struct director **out,
    struct vcl_error **errors)
{
    const struct conf_params *params = &snapshot_conf(pol->snapshot)->params;
    struct conf_backend c = policy_backend_conf(params, d);
    struct policy_addresses a;
    struct probe_conf probe;
    const char *why;
    char full[160], wrong[PROBE_WHY_MAX];
    int err;

    tassert((d->path == NULL) != (d->host == NULL)); /* one of them: the checker has seen to it */
    /* The policy's name comes first: two policies may declare the same backend, and each one is
     * counted and logged by itself. */
    snprintf(full, sizeof(full), "%.64s.%.80s", pol->name, d->name);
    why = policy_locate(d, &c.address, &a);
    if (why != NULL && policy_needs_address(params, d))
        return policy_refuse(errors, d->file, d->line, d->host, why);
    c.address.unresolved = why;
    err = policy_check_loop(pol, d, &c.address, errors);
    if (err != 0)
        return err;
    if (d->probe != NULL)
        probe = policy_probe(d->probe);
    if (d->probe != NULL && d->probe->request != NULL &&
        probe_request_check(d->probe->request, wrong) != 0)
        return policy_refuse(errors, d->file, d->line, "probe", wrong);
    return backend_new(
        out, pol->policies->registry, &c, d->probe != NULL ? &probe : NULL, d->name, full);
}

/* Goes on after a wrong declaration, so that one load reports all of them, but not without memory.
 * What was made is in pol->held, and policy_free gives it back. */
static int
policy_make_backends(struct policy *pol, struct vcl_error **errors)
{
    const struct vcl_backend_decl *decls;
    unsigned ndecls = vcl_backend_decls(pol->vcl, &decls);
    int result = 0;

    tassert(ndecls <= vcl_backends(pol->vcl)); /* the declared ones come first */
    tassert(pol->nheld == 0);                  /* what vcl_init makes comes behind them */
    for (unsigned i = 0; i < ndecls; i++) {
        struct director *d;
        int err;

        if (decls[i].none) { /* as Varnish: a BACKEND that is NULL */
            vcl_bind_backend(pol->vcl, i, NULL);
            continue;
        }
        err = policy_make_backend(pol, &decls[i], &d, errors);

        if (err == 0)
            /* Held before it is bound: policy_hold() drops it if it fails. */
            err = policy_hold(pol, d);
        if (err == 0)
            vcl_bind_backend(pol->vcl, i, d);
        else if (err != TERR_CONFIG)
            return err;
        else
            result = err;
    }
    /* Those of the configuration are borrowed: pol->snapshot holds them as long as the policy
     * lives. */
    for (unsigned i = ndecls; i < vcl_backends(pol->vcl); i++)
        vcl_bind_backend(
            pol->vcl, i, snapshot_find(pol->snapshot, slice_str(vcl_backend_name(pol->vcl, i))));
    return result;
}

static void
policy_choose_default(struct policy *pol)
{
    const struct conf *conf = snapshot_conf(pol->snapshot);
    int n = vcl_default_backend(pol->vcl);

    /* A policy that declares backends keeps Varnish's rule, its first one (proxy/README 23). */
    pol->by_routes = n < 0;
    if (n >= 0)
        pol->default_backend =
            (struct director *)(uintptr_t)vcl_backend_bound(pol->vcl, (unsigned)n);
    else if (conf->default_backend != CONF_NO_BACKEND)
        pol->default_backend = snapshot_nth(pol->snapshot, conf->default_backend);
}

/* What can be known of it without running it. */
static void
policy_survey(struct policy *pol)
{
    tassert(pol->trivial == 0); /* once, before it is published */
    for (unsigned sub = 0; sub < VCL_SUB_COUNT; sub++) {
        enum vcl_action act;

        if (!vcl_is_trivial(pol->vcl, (enum vcl_sub)sub, &act))
            continue;
        /* So a request leaves out the run: builtin.vcl's vcl_hit does nothing but deliver. */
        pol->trivial |= 1u << sub;
        pol->action[sub] = (uint8_t)act;
    }
    pol->hashes_as_builtin = vcl_hashes_as_builtin(pol->vcl);
    pol->keeps_key = !pol->hashes_as_builtin || vcl_calls(pol->vcl, VCL_FN_PURGE_HARD) ||
                     vcl_calls(pol->vcl, VCL_FN_PURGE_SOFT);
    pol->reads_hits = vcl_reads_hits(pol->vcl);
    pol->keeps_body = vcl_calls(pol->vcl, VCL_FN_STD_CACHE_REQ_BODY);
}

/* What it asks for and the configuration does not have. */
static int
policy_check_conf(struct policy *pol, struct vcl_error **errors)
{
    struct vcl_place at;

    if (snapshot_conf(pol->snapshot)->negative.entries > 0 ||
        !vcl_calls_at(pol->vcl, VCL_FN_TARN_NEGATIVE, &at))
        return 0;
    return policy_refuse(errors, at.file, at.line, "tarn.negative() needs a negative cache",
        "add a section `negative_cache: {}` to the configuration, and start tarnd again");
}

/* Runs vcl_init.  An error is reported at the last line that ran. */
static int
policy_init(struct policy *pol, struct vcl_error **errors)
{
    struct vcl_place at = {.file = pol->file, .line = 1};
    struct vcl_run run;

    if (policy_run_init(pol, VCL_SUB_INIT, &run))
        return 0;
    tassert(run.ntrace <= VCL_TRACE_MAX);
    /* Without a trace the file's first line: an error needs a place. */
    if (run.ntrace > 0)
        vcl_place(pol->vcl, run.trace[run.ntrace - 1], &at);
    return policy_refuse(
        errors, at.file, at.line, "vcl_init failed", run.why != NULL ? run.why : "return(fail)");
}

void
policy_free(struct policy **pp)
{
    struct policy *pol;

    OBJ_TAKE(pol, pp, POLICY_MAGIC);
    /* vcl_fini comes before the objects go, since it may use them. */
    if (pol->vcl != NULL && pol->begun) {
        struct vcl_run run;

        policy_run_init(pol, VCL_SUB_FINI, &run);
    }
    policy_free_objects(pol);
    policy_free_files(pol);
    if (pol->vcl != NULL)
        vcl_free(&pol->vcl);
    /* Behind the objects: its directors may have backends of the configuration for members. */
    snapshot_drop(&pol->snapshot);
    policy_source_drop(&pol->source);
    free((char *)(uintptr_t)pol->init_why);
    free((char *)(uintptr_t)pol->name);
    free((char *)(uintptr_t)pol->file);
    OBJ_FREE(pol);
}

/* Where the text came from stays with the policy, and with it each file that compiling reads: a
 * reload compiles the same source again (policies_reload.c), even when a file has changed since. */
static int
policy_compile(struct policy *pol, struct slice text, struct vcl_error **errors)
{
    struct policies *ps = pol->policies;
    struct vcl_loader loader = policy_loader(ps);
    struct vcl_source src = {.name = pol->file, .text = text};
    int err;

    tassert(pol->source == NULL);
    tassert(ps->recorded == NULL); /* one load at a time: the management thread's */
    pol->source = ps->replayed != NULL ? policy_source_hold(ps->replayed)
                                       : policy_source_new(pol->file, text, ps->sent);
    if (pol->source == NULL)
        return TERR_NOMEM;
    pol->sent = policy_source_is_sent(pol->source);
    ps->recorded = ps->replayed != NULL ? NULL : pol->source;
    err = vcl_compile(&pol->vcl, &src, &loader, errors);
    ps->recorded = NULL;
    tassert((err == 0) == (pol->vcl != NULL));
    pol->digest =
        policy_source_digest(pol->source); /* behind the compiler, which reads its includes */
    return err;
}

/* What is compiled gets its backends and stores, and its vcl_init runs. */
static int
policy_bind(struct policy *pol, struct vcl_error **errors)
{
    int err = policy_check_conf(pol, errors);

    tassert(!pol->begun); /* vcl_fini follows vcl_init, and only then */
    /* Before vcl_init, which puts them into directors. */
    if (err == 0)
        err = policy_make_backends(pol, errors);
    if (err != 0)
        return err;
    for (unsigned i = 0; i < vcl_storages(pol->vcl); i++)
        vcl_bind_storage(pol->vcl, i, pol->policies->storage);
    policy_choose_default(pol);
    policy_survey(pol);
    pol->begun = true;
    return policy_init(pol, errors);
}

int
policy_new(struct policy **out, struct policies *ps, const char *name, const char *file,
    struct slice text, struct vcl_error **errors)
{
    struct policy *pol = calloc(1, sizeof(*pol));
    struct timespec now;
    int err;

    if (pol == NULL)
        return TERR_NOMEM;
    pol->magic = POLICY_MAGIC;
    pol->policies = ps;
    /* Before compiling, which asks it for names. */
    pol->snapshot = snapshot_hold(ps->snapshot);
    atomic_init(&pol->refs, 1);
    pol->name = strdup(name);
    pol->file = strdup(file);
    clock_gettime(CLOCK_REALTIME, &now);
    pol->loaded_s = (double)now.tv_sec;
    err = pol->name == NULL || pol->file == NULL ? TERR_NOMEM : policy_compile(pol, text, errors);
    if (err == 0)
        err = policy_bind(pol, errors);
    if (err != 0) {
        policy_free(&pol);
        return err;
    }
    *out = pol;
    return 0;
}

unsigned
policies_check(const struct conf *conf, void (*write)(void *ctx, const char *text), void *ctx)
{
    struct vcl_error *errors = NULL;
    struct policies *ps = NULL;
    struct registry *registry = NULL;
    const char *why = "";
    unsigned n = 0;
    int err = registry_open(&registry, conf);

    /* Without a cache and a store: the check changes nothing that a running tarnd uses. */
    if (err == 0)
        err = policies_open(&ps, registry, NULL, NULL);
    if (err == 0)
        /* With vcl_init: some mistakes show only there. */
        err = policies_load_file(ps, "boot", conf->vcl, &errors, &why);
    n = vcl_errors_print(errors, write, ctx);
    /* Never silent: a check that fails says at least one thing. */
    if (err != 0 && n == 0) {
        write(ctx, conf->vcl);
        write(ctx, ": ");
        write(ctx, err == TERR_NOTFOUND ? why : terr_text(err));
        write(ctx, "\n");
        n = 1;
    }
    vcl_errors_free(&errors);
    if (ps != NULL)
        policies_close(&ps);
    if (registry != NULL)
        registry_close(&registry);
    return n;
}
