/* vcl.h -- policy in vcl-lite: a true subset of VCL 4.1, compiled at load, run by a small machine.
 *
 *   vcl        one compiled policy: immutable code, constants, tables; any thread may run it
 *   sub        vcl_recv ... vcl_fini, each the concatenation of its definitions, builtin last
 *   run        one execution of one sub for one request or fetch; memory of its owner
 *   host       the program around it: gives variables, header fields, backends (struct vcl_host)
 *   action     what a sub returned
 *
 * Text in, verdict out: no I/O, no threads, no clock here; whatever touches the world is asked of
 * the host.  Meaning is that of Varnish's VCL 4.1 (vcl(7), vcl-var(7), vcl-step(7)).
 *
 * Threads: vcl_compile, vcl_bind_* and vcl_free: one, the management thread.  A vcl that was bound
 * never changes; runs may go on in any number of threads at once.
 * Errors: TERR_*; what is wrong in a text is a list of struct vcl_error.
 */
#ifndef TARN_VCL_H
#define TARN_VCL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/span.h"
#include "vcl-lite/vcl_table.h"
#include "vcl-lite/vcl_var_table.h"

struct arena;
struct vcl;
struct vcl_run;

enum vcl_type {
#define X(id, name, doc) VCL_TYPE_##id,
    VCL_TYPE_TABLE(X)
#undef X
};

/* Order matters: a mask of subs has a bit for each. */
enum vcl_sub {
#define X(id, name, actions, goes_on, doc) VCL_SUB_##id,
    VCL_SUB_TABLE(X)
#undef X
    VCL_SUB_COUNT
};

enum vcl_action {
#define X(id, name, doc) VCL_ACT_##id,
    VCL_ACTION_TABLE(X)
#undef X
    VCL_ACT_COUNT
};

enum vcl_var {
#define X(id, name, type, read, write, unset, flags, doc) VCL_VAR_##id,
    VCL_VAR_TABLE(X)
#undef X
    VCL_VAR_COUNT
};

/* The message that header fields are of. */
enum vcl_http {
    VCL_HTTP_REQ,
    VCL_HTTP_REQ_TOP,
    VCL_HTTP_BEREQ,
    VCL_HTTP_BERESP,
    VCL_HTTP_RESP,
    VCL_HTTP_OBJ,
    VCL_HTTP_OBJ_STALE,
    VCL_HTTP_COUNT
};

/* An address, as acl and std.ip see it. */
struct vcl_ip {
    uint8_t addr[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t port;    /* host byte order; 0: none */
    bool is_v4;
};

/* A value; its type is known where it is used.
 *   STRING             s, len; s NULL: unset (len 0 then).  Not NUL-terminated
 *   INT BYTES BOOL     i
 *   REAL DURATION TIME r, seconds; TIME since 1970
 *   IP                 ip; NULL: none
 *   BACKEND STEVEDORE  p, the host's; NULL: none
 * Bytes that a value points to stay until the run's memory goes. */
struct vcl_value {
    union {
        int64_t i;
        double r;
        const char *s;
        const void *p;
        const struct vcl_ip *ip;
    };
    size_t len;
};

/* A header field's name, resolved at load. */
struct vcl_name {
    struct slice text;
    unsigned id; /* the host's number for it; 0: it has none */
};

/* --- loading --- */

struct vcl_error {
    const char *file;
    unsigned line, column; /* from 1, in characters */
    unsigned width;        /* characters that the carets mark, at least 1 */
    char *message;         /* what is wrong */
    char *hint;            /* what would be right; NULL: the message says it */
    char *source;          /* the line, printable */
    bool is_warning;
    struct vcl_error *next;
};
/* One more behind them, that the host found; its strings are copied.  0 or TERR_NOMEM. */
int vcl_error_add(struct vcl_error **errors, const char *file, unsigned line, const char *message);
/* Takes *ep and sets it to NULL; NULL is fine. */
void vcl_errors_free(struct vcl_error **ep);
/* `FILE:LINE:COLUMN: error: message`, the line, carets, `hint: ...`; returns how many errors. */
unsigned vcl_errors_print(
    const struct vcl_error *errors, void (*write)(void *ctx, const char *text), void *ctx);

/* What a load needs of the world. */
struct vcl_loader {
    void *ctx;
    /* The host's number of a header field's name; 0: none. */
    unsigned (*field_id)(void *ctx, struct slice name);
    /* The host's number of a method; 0: none.  NULL: it numbers none. */
    unsigned (*method_id)(void *ctx, struct slice name);
    /* Reads an include: `name` as written, `from` the file that says so.  0 and malloc'ed bytes in
     * *out with the full path in *path (malloc'ed); or TERR_*, and *why says why (static). */
    int (*read_file)(void *ctx, const char *name, const char *from, struct span *out, char **path,
        const char **why);
    /* include "+glob": the names, in order; NULL: not supported. */
    int (*glob)(void *ctx, const char *pattern, const char *from, char ***out, unsigned *n);
    /* Numeric, or by name (NULL: names are not resolved).  How many of max; 0: none. */
    unsigned (*resolve)(void *ctx, const char *host, struct vcl_ip *out, unsigned max);
    /* What a policy may name without declaring it. */
    bool (*has_backend)(void *ctx, struct slice name); /* of the configuration */
    bool (*has_storage)(void *ctx, struct slice name);
    bool (*has_label)(void *ctx, struct slice name);
    /* The n-th table of the configuration; NULL: there are no more.  Itself NULL: not known. */
    const char *(*table)(void *ctx, unsigned n);
    bool backend_needed; /* no backend is configured: the text must declare one */
};

struct vcl_source {
    const char *name;     /* of the file, stands in messages */
    struct slice text;    /* borrowed for the call */
    bool without_builtin; /* tests only */
};

/* 0 and a policy in *out, to be bound, with warnings in *errors; TERR_CONFIG and everything that
 * is wrong in *errors; TERR_NOMEM. */
int vcl_compile(struct vcl **out, const struct vcl_source *src, const struct vcl_loader *loader,
    struct vcl_error **errors);
/* No run of it is left.  Takes *vp. */
void vcl_free(struct vcl **vp);

/* What the host must make of it after the load, before the first run. */
struct vcl_probe_decl {
    const char *name;          /* NULL: written inside the backend */
    const char *url, *request; /* one is NULL */
    double interval_s, timeout_s;
    int64_t window, threshold, initial, expected_response; /* initial -1: threshold - 1 */
    bool expect_close;
};
struct vcl_backend_decl {
    const char *name;
    bool none;                      /* backend NAME none; */
    const char *host, *port, *path; /* host and port, or the path of a Unix socket */
    const char *host_header;        /* NULL: host */
    double connect_timeout_s, first_byte_timeout_s, between_bytes_timeout_s; /* -1: default */
    int64_t max_connections;                                                 /* 0: no limit */
    int64_t wait_limit;    /* fetches of a worker that wait for one of these; 0: none */
    double wait_timeout_s; /* for how long */
    int64_t proxy_header;  /* 0: none */
    const struct vcl_probe_decl *probe; /* NULL: none */
    const char *file;                   /* where it is declared */
    unsigned line;
};
unsigned vcl_backend_decls(const struct vcl *v, const struct vcl_backend_decl **out);
/* BACKEND values of the code: those declared, then those of the configuration that it names.
 * Bind all before the first run. */
unsigned vcl_backends(const struct vcl *v);
const char *vcl_backend_name(const struct vcl *v, unsigned n);
void vcl_bind_backend(struct vcl *v, unsigned n, const void *backend);
const void *vcl_backend_bound(const struct vcl *v, unsigned n);
/* The backend of requests that were given none: `default`, else the first declared; its number, or
 * -1: none is declared. */
int vcl_default_backend(const struct vcl *v);
/* Storages and labels that it names. */
unsigned vcl_storages(const struct vcl *v);
void vcl_bind_storage(struct vcl *v, unsigned n, const void *storage);
unsigned vcl_labels(const struct vcl *v);
const char *vcl_label_name(const struct vcl *v, unsigned n);
/* Objects made by `new`: what object_new gave, in order, for the host to free.  NULL: not made. */
void *vcl_object(const struct vcl *v, unsigned n, unsigned *kind); /* enum vcl_object_kind */

/* --- running --- */

/* Does this sub, whatever the request is, nothing but return the action by which the core goes on
 * (VCL_SUB_TABLE)?  Then it need not be run.  Any other action is not trivial, however short the sub. */
bool vcl_is_trivial(const struct vcl *v, enum vcl_sub sub, enum vcl_action *out);
/* vcl_hash is the builtin one: hash_data(req.url), hash_data(req.http.host). */
bool vcl_hashes_as_builtin(const struct vcl *v);
/* Does any sub read obj.hits or obj.last_hit? */
bool vcl_reads_hits(const struct vcl *v);
/* Does any sub read a variable of client.tls or client.cert? */
bool vcl_reads_tls(const struct vcl *v);
/* Is this function (enum vcl_func) called anywhere? */
bool vcl_calls(const struct vcl *v, unsigned fn);
/* Are these bytes, as a whole, a constant of the policy's text?  They live as long as it. */
bool vcl_is_literal(const struct vcl *v, struct slice text);
/* Does this sub, or what it calls, touch this message's fields at all? */
bool vcl_touches(const struct vcl *v, enum vcl_sub sub, enum vcl_http http);

enum {
    VCL_TRACE_MAX = 120,    /* places remembered of one run */
    VCL_STEPS_MAX = 100000, /* instructions of one run; more than any policy written by hand */
    VCL_WORKSPACE_MAX = 256 * 1024, /* bytes of strings made in one run */
};

/* What a run asks of the world.  Each returns 0, or TERR_*: the run fails (return(fail)), and
 * run->why says why (a literal, or in the run's arena). */
struct vcl_host {
    int (*get)(struct vcl_run *r, enum vcl_var var, struct vcl_value *out);
    int (*set)(struct vcl_run *r, enum vcl_var var, const struct vcl_value *v);
    int (*unset)(struct vcl_run *r, enum vcl_var var);
    /* storage.<name>.free_space and the like. */
    int (*get_storage)(
        struct vcl_run *r, enum vcl_var var, const void *storage, struct vcl_value *out);
    /* Of several fields of a name, the first.  .ptr NULL: there is none. */
    struct slice (*field)(struct vcl_run *r, enum vcl_http http, const struct vcl_name *name);
    /* `value` may lie anywhere in the run's memory; it is valid (no CTL).  Replaces all of the name. */
    int (*set_field)(
        struct vcl_run *r, enum vcl_http http, const struct vcl_name *name, struct slice value);
    int (*unset_field)(struct vcl_run *r, enum vcl_http http, const struct vcl_name *name);
    /* The n-th field (from 0) of a name, for std.collect; .ptr NULL: no more. */
    struct slice (*nth_field)(
        struct vcl_run *r, enum vcl_http http, const struct vcl_name *name, unsigned n);
    /* resp.body and beresp.body: by reference; literals live as long as the policy, other parts as
     * long as the run's arena. */
    int (*set_body)(
        struct vcl_run *r, enum vcl_var var, const struct slice *parts, unsigned n, bool append);
    int (*hash_data)(struct vcl_run *r, struct slice data);
    /* ban(): a wrong expression is not a failure of the run: std.ban_error tells.  *ok. */
    int (*ban)(struct vcl_run *r, struct slice expression, bool *ok);
    /* Functions that need the world: enum vcl_host_fn in vcl_func_table.h.  Absent optional
     * arguments have their bit clear in `present`. */
    int (*call)(struct vcl_run *r, unsigned fn, const struct vcl_value *args, unsigned present,
        struct vcl_value *out);
    /* new NAME = module.kind(...), in vcl_init. */
    int (*object_new)(struct vcl_run *r, unsigned kind, const char *name,
        const struct vcl_value *args, unsigned present, void **out);
    /* Methods of objects: enum vcl_method. */
    int (*method)(struct vcl_run *r, void *object, unsigned method, const struct vcl_value *args,
        unsigned present, struct vcl_value *out);
    /* What a director chooses now; a backend is itself.  NULL: none is healthy. */
    const void *(*resolve)(struct vcl_run *r, const void *backend);
    /* Where the request or fetch keeps the cookies of `import cookie`: NULL there at first, and the
     * run's arena has the rest. */
    struct vcl_cookies **(*cookies)(struct vcl_run *r);
    struct slice (*backend_name)(const void *backend);
    struct slice (*storage_name)(const void *storage);
};

struct vcl_run {
    const struct vcl *vcl;
    const struct vcl_host *host;
    void *ctx;           /* the host's */
    struct arena *arena; /* for strings that are made */
    double now_s;        /* `now`: constant within one run */
    /* What the machine may look at by itself, kept true by the host as things are set: the number of
     * req.method and bereq.method (0: it has none), and which fields of the request are there, by
     * the host's numbers below 64, as far as `known` has a bit for them (never for 0). */
    unsigned method;
    uint64_t known;
    const uint64_t *present;
    uint64_t (*random)(struct vcl_run *r);
    /* what the machine counts, and what came of it: side by side, as a run begins with zeros there */
    size_t workspace;    /* bytes made so far */
    struct slice reason; /* SYNTH, ERROR, FAIL; .ptr NULL: not said */
    const char *why;     /* it failed: why; NULL else */
    unsigned steps;
    uint16_t status; /* SYNTH, ERROR; 0: not said */
    enum vcl_sub sub;
    double duration_s; /* PASS(d) of vcl_backend_response; -1: not said */
    unsigned label;    /* VCL: number of the label */
    /* where it was: numbers of places, see vcl_place() */
    unsigned ntrace;
    uint16_t trace[VCL_TRACE_MAX];
};

/* Runs one sub.  VCL_ACT_FAIL when it failed; r->why says why, and the last place where.
 * r->trace continues what was there (set ntrace to 0 first, or to VCL_TRACE_MAX: no lines are
 * wanted, and the code without traces runs). */
enum vcl_action vcl_run(struct vcl_run *r, enum vcl_sub sub);

/* A place of the trace: which sub, file, and lines from ... to ran. */
struct vcl_place {
    const char *sub; /* as in the text: "vcl_recv", "my_sub" */
    const char *file;
    unsigned line, column, last_line;
};
void vcl_place(const struct vcl *v, unsigned n, struct vcl_place *out);
/* Is the function called, and among which lines for the first time? */
bool vcl_calls_at(const struct vcl *v, unsigned fn, struct vcl_place *out);

const char *vcl_sub_name(enum vcl_sub sub);
const char *vcl_action_name(enum vcl_action a);
const char *vcl_var_name(enum vcl_var var);

/* enum vcl_func, enum vcl_object_kind, enum vcl_method: the rows of its tables. */
#include "vcl-lite/vcl_func_table.h"

#endif
