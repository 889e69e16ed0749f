/* fake_vcl_host.h -- a world for the machine of vcl-lite: messages and variables in memory.
 *
 * What a policy does stands in `log`, a line each.  Everything lies in the struct; strings that a
 * run makes lie in its arena until fake_vcl_fini().
 */
#ifndef TARN_FAKE_VCL_HOST_H
#define TARN_FAKE_VCL_HOST_H

#include "daemon/base/arena.h"
#include "vcl-lite/vcl.h"

enum {
    FAKE_FIELDS_MAX = 32,
    FAKE_LOG_MAX = 8192,
};

struct fake_field {
    struct slice name, value;
};

struct fake_vcl {
    struct vcl_run run;
    struct arena_pool pool;
    struct arena arena;
    struct fake_field fields[VCL_HTTP_COUNT][FAKE_FIELDS_MAX];
    unsigned nfields[VCL_HTTP_COUNT];
    struct vcl_value vars[VCL_VAR_COUNT];
    struct vcl_value given; /* by functions and methods */
    struct vcl_cookies *cookies;
    bool quiet; /* no lines are wanted of runs */
    int refuse; /* what every function of the host returns; 0: it works */
    uint64_t seed;
    char log[FAKE_LOG_MAX];
    size_t log_len;
};

void fake_vcl_init(struct fake_vcl *f, const struct vcl *v);
void fake_vcl_fini(struct fake_vcl *f);
/* Borrows both. */
void fake_vcl_field(struct fake_vcl *f, enum vcl_http http, const char *name, const char *value);
/* The first field of the name; .ptr NULL: none. */
struct slice fake_vcl_value(const struct fake_vcl *f, enum vcl_http http, const char *name);
/* Empties the log, then runs. */
enum vcl_action fake_vcl_run(struct fake_vcl *f, enum vcl_sub sub);

/* A load that needs nothing: fields have no numbers, a backend `default` is there. */
extern const struct vcl_loader fake_vcl_loader;
/* Compiles, and prints what is wrong; NULL then.  Backends are bound to their numbers. */
struct vcl *fake_vcl_compile(const char *text, bool without_builtin);

#endif
