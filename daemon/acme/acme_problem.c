/* acme_problem.c -- problem documents (RFC 9457): what a CA says of an error, in words that an operator can act on. */
#include "daemon/acme/acme_problem.h"

#include <stdio.h>
#include <string.h>

#include "daemon/acme/acme_problem_table.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define PROBLEM_URN "urn:ietf:params:acme:error:"

enum {
    SUBPROBLEMS_SHOWN = 3, /* one is the reason, a CA lists one for each name */
};

static const struct {
    const char *type, *advice;
} problem_types[] = {
#define X(type, advice) {type, advice},
    ACME_PROBLEM_TABLE(X)
#undef X
};

/* The name and the detail of those that speak of one identifier (RFC 8555 6.7.1). */
static void
problem_add_parts(const json_t *v, struct acme_problem *out)
{
    const json_t *parts = json_object_get(v, "subproblems");

    for (size_t i = 0; i < json_array_size(parts) && i < SUBPROBLEMS_SHOWN; i++) {
        const json_t *part = json_array_get(parts, i);
        const char *detail = json_string_value(json_object_get(part, "detail"));
        const char *name =
            json_string_value(json_object_get(json_object_get(part, "identifier"), "value"));
        size_t len = strlen(out->detail);
        char text[sizeof(out->detail)];

        if (detail == NULL)
            continue;
        snprintf(text, sizeof(text), " [%.253s: %.200s]", name != NULL ? name : "-", detail);
        /* Behind the detail: a CA that refuses one of twenty names says which one here alone. */
        acme_printable(out->detail + len, sizeof(out->detail) - len, text);
    }
}

void
acme_problem_read(const json_t *v, struct acme_problem *out)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const char *detail = json_string_value(json_object_get(v, "detail"));

    *out = (struct acme_problem){.type = ""};
    /* Older CAs write the prefix in other cases; a type without it is shown as it is.  about:blank says no more than
     * the status does (RFC 9457 4.2.1). */
    if (type != NULL && strncasecmp(type, PROBLEM_URN, strlen(PROBLEM_URN)) == 0)
        type += strlen(PROBLEM_URN);
    if (type != NULL && strcmp(type, "about:blank") != 0)
        acme_printable(out->type, sizeof(out->type), type);
    if (detail != NULL)
        acme_printable(out->detail, sizeof(out->detail), detail);
    problem_add_parts(v, out);
}

/* NULL: no advice is better than a guess. */
const char *
acme_problem_advice(const char *type)
{
    for (size_t i = 0; i < ARRAY_LEN(problem_types); i++)
        if (strcmp(problem_types[i].type, type) == 0)
            return problem_types[i].advice;
    return NULL;
}

int
acme_problem_fail(struct acme_fail *f, const struct acme_problem *p, long status)
{
    const char *advice = acme_problem_advice(p->type);
    char http[32] = "";

    if (status != 0)
        snprintf(http, sizeof(http), "HTTP %ld, ", status);
    /* The first: acme_run.c acts on accountDoesNotExist, and what follows it is a consequence. */
    if (f->type[0] == '\0')
        snprintf(f->type, sizeof(f->type), "%s", p->type);
    return acme_fail(f, TERR_UPSTREAM, "the CA answers %s%s: %s%s%s", http,
        p->type[0] != '\0' ? p->type : "no problem type",
        p->detail[0] != '\0' ? p->detail : "no detail", advice != NULL ? "; " : "",
        advice != NULL ? advice : "");
}
