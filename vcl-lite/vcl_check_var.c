/* vcl_check_var.c -- what a name stands for: variables, header fields, backends, acls, storages. */
#include "vcl-lite/vcl_sema.h"

#include <string.h>

#include "daemon/base/tassert.h"

/* Also for uses that are right: which sub calls this one is known only when all bodies are read. */
void
sema_use(
    struct sema *s, enum sema_use_kind kind, struct vcl_pos pos, const char *what, unsigned where)
{
    struct sema_use *use;

    /* Nothing to judge. */
    if (where == VCL_ALL)
        return;
    use = vcl_alloc(s->cx, s->cx->scratch, sizeof(*use));
    if (use == NULL)
        return;
    *use = (struct sema_use){
        .kind = kind, .pos = pos, .what = what, .where = where, .next = s->now->uses};
    s->now->uses = use;
}

static bool
sema_is_field_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

uint32_t
sema_field(struct sema *s, const struct ast_expr *e, enum vcl_var var)
{
    size_t family = strlen(vcl_var_name(var));
    struct slice name = e->field;

    if (name.ptr == NULL)
        name = (struct slice){e->text.ptr + family, e->text.len - family};
    /* "req.http." and nothing behind it. */
    if (name.len == 0) {
        vcl_fail(s->cx, e->pos, NULL, "a header field's name is missing");
        return UINT32_MAX;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!sema_is_field_char(name.ptr[i])) { /* RFC 9110 5.6.2 */
            vcl_fail(s->cx, e->pos, NULL, "'%.*s' cannot be the name of a header field",
                (int)name.len, name.ptr);
            return UINT32_MAX;
        }
    }
    return sema_name(s, name);
}

/* storage.NAME.used_space */
static struct sema_node *
sema_read_storage(struct sema *s, const struct ast_expr *e, enum vcl_var var)
{
    const char *from = e->text.ptr + strlen("storage.");
    const char *end = memchr(from, '.', (size_t)(e->text.ptr + e->text.len - from));
    struct sema_node *n = sema_node(s, VCL_OP_GET_STORAGE, sema_var_type(var), e->pos);
    struct slice name;
    int number;

    tassert(end != NULL || from > e->text.ptr + e->text.len);
    if (n == NULL || end == NULL)
        return NULL;
    name = (struct slice){from, (size_t)(end - from)};
    number = vcl_storage_number(s->cx, name);
    if (number < 0) {
        vcl_fail(s->cx, e->pos, NULL, "there is no storage '%.*s'", (int)name.len, name.ptr);
        return NULL;
    }
    n->b = (uint16_t)var;
    n->c = (uint32_t)number;
    return n;
}

/* The three of a family with a name in the middle. */
static bool
sema_is_storage(enum vcl_var var)
{
    return var == VCL_VAR_STORAGE_FREE_SPACE || var == VCL_VAR_STORAGE_USED_SPACE ||
           var == VCL_VAR_STORAGE_HAPPY;
}

/* As it is shown: families with the field's name behind. */
const char *
sema_shown(struct sema *s, const struct ast_expr *e)
{
    /* As it stands in the text, so that it is found there. */
    if (e->field.ptr != NULL)
        return vcl_text(
            s->cx, "%.*s\"%.*s\"", (int)e->text.len, e->text.ptr, (int)e->field.len, e->field.ptr);
    return vcl_text(s->cx, "%.*s", (int)e->text.len, e->text.ptr);
}

struct sema_node *
sema_read(struct sema *s, struct ast_expr *e, enum vcl_var var)
{
    enum vcl_type type = sema_var_type(var);
    unsigned where = sema_var_where(var, SEMA_READ);
    struct sema_node *n;

    if (where == 0) {
        vcl_fail(s->cx, e->pos, NULL, "'%s' cannot be read", sema_shown(s, e));
        return NULL;
    }
    sema_use(s, SEMA_READ, e->pos, sema_shown(s, e), where);
    /* The run's own: no call of the host. */
    if (var == VCL_VAR_NOW)
        return sema_node(s, VCL_OP_NOW, VCL_TYPE_TIME, e->pos);
    if (sema_is_storage(var))
        return sema_read_storage(s, e, var);
    if (type == VCL_TYPE_HEADER) {
        n = sema_node(s, VCL_OP_FIELD, VCL_TYPE_STRING, e->pos);
        if (n == NULL)
            return NULL;
        n->a = (uint8_t)sema_var_http(var);
        n->c = sema_field(s, e, var);
        return n->c == UINT32_MAX ? NULL : n;
    }
    if (type == VCL_TYPE_HTTP) {
        n = sema_const_int(s, VCL_TYPE_HTTP, sema_var_http(var), e->pos);
        if (n != NULL)
            /* A function that gets the message may do anything with it. */
            n->touches = 1u << n->value.i;
        return n;
    }
    n = sema_node(s, VCL_OP_GET, type, e->pos);
    if (n != NULL)
        n->b = (uint16_t)var;
    return n;
}

/* storage.NAME as a value */
static struct sema_node *
sema_storage(struct sema *s, const struct ast_expr *e)
{
    static const char family[] = "storage.";
    struct slice name = {e->text.ptr + sizeof(family) - 1, e->text.len - sizeof(family) + 1};
    struct sema_node *n;
    /* Numbered when first named: the host binds those alone. */
    int number = vcl_storage_number(s->cx, name);

    if (number < 0) {
        vcl_fail(s->cx, e->pos, NULL, "there is no storage '%.*s'", (int)name.len, name.ptr);
        return NULL;
    }
    n = sema_node(s, VCL_OP_STORAGE, VCL_TYPE_STEVEDORE, e->pos);
    if (n != NULL)
        n->c = (uint32_t)number;
    return n;
}

static bool
sema_names_storage(struct slice text)
{
    static const char family[] = "storage.";

    return text.len >= sizeof(family) && memcmp(text.ptr, family, sizeof(family) - 1) == 0 &&
           memchr(text.ptr + sizeof(family) - 1, '.', text.len - sizeof(family) + 1) == NULL;
}

struct sema_node *
sema_variable(struct sema *s, struct ast_expr *e)
{
    enum vcl_var var;

    /* First: storage.NAME is no row of the table. */
    if (sema_names_storage(e->text))
        return sema_storage(s, e);
    var = sema_var(s, e);
    return var == VCL_VAR_COUNT ? NULL : sema_read(s, e, var);
}

/* A word without a dot: now, req, a backend, an acl.  Marks what it names as used, so that
 * vcl_declare_unused() does not warn. */
struct sema_node *
sema_word(struct sema *s, struct ast_expr *e, enum vcl_type want)
{
    struct vcl_guess guess = {.meant = e->text};
    struct sema_node *n;
    int number;

    /* Words that are variables without a dot; no declaration may have these names. */
    if (sema_is(e->text, "now") || sema_is(e->text, "req") || sema_is(e->text, "bereq") ||
        sema_is(e->text, "beresp") || sema_is(e->text, "resp"))
        return sema_variable(s, e);
    /* Where an acl is wanted, a backend of that name is not meant, and must not be marked as
     * used. */
    number = want == VCL_TYPE_ACL ? -1 : vcl_backend_number(s->cx, e->text);
    if (number >= 0) {
        n = sema_node(s, VCL_OP_BACKEND, VCL_TYPE_BACKEND, e->pos);
        if (n != NULL)
            n->c = (uint32_t)number;
        return n;
    }
    /* Behind the backends: no name is both. */
    number = vcl_acl_number(s->cx, e->text);
    if (number >= 0)
        return sema_const_int(s, VCL_TYPE_ACL, number, e->pos);
    for (struct ast_decl *d = s->cx->ast.backends; d != NULL; d = d->next)
        vcl_guess_try(&guess, vcl_text(s->cx, "%.*s", (int)d->name.len, d->name.ptr));
    for (struct ast_acl *a = s->cx->ast.acls; a != NULL; a = a->next)
        vcl_guess_try(&guess, vcl_text(s->cx, "%.*s", (int)a->name.len, a->name.ptr));
    vcl_fail(s->cx, e->pos, vcl_guess_hint(s->cx, &guess), "there is no %s '%.*s'",
        want == VCL_TYPE_BACKEND ? "backend"
        : want == VCL_TYPE_ACL   ? "acl"
                                 : "backend, acl or other thing",
        (int)e->text.len, e->text.ptr);
    return NULL;
}
