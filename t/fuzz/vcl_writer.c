/* vcl_writer.c -- policies from bytes, by the tables of the language.
 *
 * What stands in a row of the tables is written in each of the subs that may have it: variables,
 * functions, methods, actions.  Nearly all that is written loads; what does not is no loss, as
 * vcl_fuzz.c has the rest.
 */
#include "t/fuzz/vcl_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/obj.h"

enum {
    WRITER_TEXT_MAX = 24 * 1024,
    WRITER_DEPTH_MAX = 5,
};

const uint8_t *writer_next, *writer_end;

/* A policy being written. */
static struct writer {
    char text[WRITER_TEXT_MAX];
    size_t len;
    unsigned depth;
    enum vcl_sub sub; /* that of the language which is written, and calls the others */
    bool may_call;
} writer;

unsigned
writer_pick(unsigned sides)
{
    return writer_next == writer_end ? 0 : *writer_next++ % sides;
}

static void put(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void
put(const char *fmt, ...)
{
    size_t room = sizeof(writer.text) - writer.len;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(writer.text + writer.len, room, fmt, ap);
    va_end(ap);
    writer.len += (size_t)n < room ? (size_t)n : room - 1;
}

#define PUT_ONE(list) put("%s", (list)[writer_pick(ARRAY_LEN(list))])

static bool
writer_is_deep(void)
{
    return writer.depth >= WRITER_DEPTH_MAX;
}

static bool
writer_in(unsigned where)
{
    return (where >> writer.sub & 1) != 0;
}

/* --- the rows --- */

static const struct writer_var {
    const char *name;
    enum vcl_type type;
    unsigned read, write, unset, flags;
} writer_vars[] = {
#define X(id, name, type, read, write, unset, flags, doc) \
    {name, VCL_TYPE_##type, read, write, unset, flags},
    VCL_VAR_TABLE(X)
#undef X
};

static const struct {
    const char *module, *name;
    enum vcl_type result;
    const char *args;
    unsigned where;
} writer_funcs[] = {
#define X(id, module, name, result, args, where, how, doc) \
    {module, name, VCL_TYPE_##result, args, where},
    VCL_FUNC_TABLE(X)
#undef X
};

static const struct {
    unsigned kinds;
    const char *name;
    enum vcl_type result;
    const char *args;
    unsigned where;
} writer_methods[] = {
#define X(id, kinds, name, result, args, where, doc) {kinds, name, VCL_TYPE_##result, args, where},
    VCL_METHOD_TABLE(X)
#undef X
};

static const struct {
    const char *name, *args;
} writer_objects[] = {
#define X(id, module, name, args, doc) {name, args},
    VCL_OBJECT_TABLE(X)
#undef X
};

static const char *const writer_types[] = {
#define X(id, name, doc) name,
    VCL_TYPE_TABLE(X)
#undef X
};

static const struct {
    const char *name;
    unsigned actions;
} writer_subs[] = {
#define X(id, name, actions, goes_on, doc) {name, actions},
    VCL_SUB_TABLE(X)
#undef X
};

/* --- words --- */

static const char *const writer_fields[] = {
    "a", "b", "Cookie", "Host", "X-Y", "\"q.r\"", "Accept-Encoding", "If-None-Match"};
static const char *const writer_texts[] = {"", "a", "/x?b=2&a=1&&c", "12", "-3.5", "10s", "1.5k",
    "Sun, 06 Nov 1994 08:49:37 GMT", "1.2.3.4:80", "[::1]", "\\0\\1\\&\\", "\t", "aaaaaaaaaaaaaaaa",
    "1994-11-06T08:49:37Z", "784111777.5", "[!a-c]*?\\*[[:alpha:]]", "*/.a*",
    "%Y-%m-%d %% %Q %H:%M:%S %Z", "true", "%5B*", "a=1; b=2;cc=3 ;;a= 4;=x;b", "a, cc,,b", "GET",
    "gzip, br;q=0", "obj.age > 1d"};
static const char *const writer_patterns[] = {"", "a", "^a", "a$", "^$", "[[:upper:]]", "(a+)+$",
    "(?i)\\.(png|jpg)$", "(a)|(b)", "x*", "\\b|b", "a\\Kb", "^/(a|b)/", "(?=a)", "[^a-z]",
    "^(?:GET|HEAD)$", "(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)"};
static const char *const writer_constants[][5] = {
    [VCL_TYPE_INT] = {"0", "1", "7", "200", "999999999999999"},
    [VCL_TYPE_REAL] = {"0.0", "1.5", "999999999999.999", "0.001", "2.25"},
    [VCL_TYPE_BOOL] = {"false", "true", "(!false)", "false", "true"},
    [VCL_TYPE_DURATION] = {"0s", "1ms", "9999y", "param.default_ttl", "1.5h"},
    [VCL_TYPE_TIME] = {"now", "now", "(now + 9999y)", "(now - 9999y)", "now"},
    [VCL_TYPE_BYTES] = {"0B", "1KB", "1.5MB", "9999TB", "10B"},
    [VCL_TYPE_BACKEND] = {"default", "other", "nobody", "default", "other"},
    [VCL_TYPE_STEVEDORE] = {"storage.default", "storage.other", "storage.default",
        "storage.default", "storage.other"},
    [VCL_TYPE_IP] = {"\"192.0.2.1\"", "\"::1\"", "\"10.0.0.1\"", "\"127.0.0.9\"",
        "\"255.255.255.255\""},
};

/* --- expressions --- */

static void writer_typed(enum vcl_type type);

/* The next word of a row's arguments; *args moves on. */
static struct slice
writer_word(const char **args, const char *stop)
{
    size_t len = strcspn(*args, stop);
    struct slice word = slice_of(*args, len);

    *args += len;
    return word;
}

static enum vcl_type
writer_type(struct slice name)
{
    for (unsigned i = 0; i < ARRAY_LEN(writer_types); i++)
        if (slice_eq(name, slice_str(writer_types[i])))
            return (enum vcl_type)i;
    return VCL_TYPE_VOID;
}

/* "{a,b,c}": one of them. */
static void
writer_enum(const char **args)
{
    const char *from = *args + 2, *end = strchr(from, '}');
    struct slice word = {NULL, 0};

    for (unsigned n = writer_pick(4); from < end; from += word.len + 1) {
        word = slice_of(from, strcspn(from, ",}"));
        if (n-- == 0)
            break;
    }
    *args = end + 1;
    put("%.*s", (int)word.len, word.ptr);
}

/* All arguments of a row: those that must be there, and some of the others, by name. */
static void
writer_args(const char *args)
{
    bool first = true;

    put("(");
    while (*args != '\0') {
        bool optional = *args == '[', left_out = optional && writer_pick(3) == 0;
        struct slice type, name;
        const char *words, *behind;

        args += optional;
        type = writer_word(&args, " ");
        words = args;
        behind = *words == ' ' && words[1] == '{' ? strchr(words, '}') + 2 : words + 1;
        name = writer_word(&behind, "=],");
        args = behind + strcspn(behind, optional ? "]" : ",");
        args += strspn(args, "], ");
        if (left_out)
            continue;
        put("%s", first ? "" : ", ");
        if (optional)
            put("%.*s = ", (int)name.len, name.ptr);
        first = false;
        if (slice_eq(type, slice_str("ENUM")))
            writer_enum(&words);
        else
            writer_typed(writer_type(type));
    }
    put(")");
}

/* A variable of this type that may be `read` (or set) here: the next one from where a byte says. */
static const struct writer_var *
writer_var(enum vcl_type type, bool write)
{
    unsigned n = ARRAY_LEN(writer_vars), at = writer_pick(n);

    for (unsigned i = 0; i < n; i++, at = (at + 1) % n) {
        const struct writer_var *v = &writer_vars[at];

        if ((type == VCL_TYPE_VOID || v->type == type) && (v->flags & VCL_V40) == 0 &&
            writer_in(write ? v->write : v->read) && !(write && (v->flags & VCL_W40) != 0))
            return v;
    }
    return NULL;
}

static void
writer_put_var(const struct writer_var *v)
{
    if (strncmp(v->name, "storage.", 8) == 0) {
        put("storage.default.%s", v->name + 8);
        return;
    }
    put("%s", v->name);
    if (v->type == VCL_TYPE_HEADER)
        PUT_ONE(writer_fields);
}

static void
writer_text(void)
{
    put("{\"");
    PUT_ONE(writer_texts);
    put("\"}");
}

static void
writer_constant(enum vcl_type type)
{
    if (type == VCL_TYPE_STRING || type == VCL_TYPE_HEADER)
        writer_text();
    else
        PUT_ONE(writer_constants[type]);
}

static void
writer_read(enum vcl_type type)
{
    const struct writer_var *v =
        writer_var(type == VCL_TYPE_STRING && writer_pick(3) > 0 ? VCL_TYPE_HEADER : type, false);

    if (v == NULL)
        writer_constant(type);
    else
        writer_put_var(v);
}

/* A function that gives this. */
static bool
writer_func(enum vcl_type type)
{
    unsigned n = ARRAY_LEN(writer_funcs), at = writer_pick(n);

    for (unsigned i = 0; i < n; i++, at = (at + 1) % n) {
        if (writer_funcs[at].result != type || !writer_in(writer_funcs[at].where))
            continue;
        put("%s.%s", writer_funcs[at].module, writer_funcs[at].name);
        writer_args(writer_funcs[at].args);
        return true;
    }
    return false;
}

/* A method that gives this, of one of the objects o0 to o4. */
static bool
writer_method(enum vcl_type type)
{
    unsigned n = ARRAY_LEN(writer_methods), at = writer_pick(n);

    for (unsigned i = 0; i < n; i++, at = (at + 1) % n) {
        unsigned kind = writer_pick(VCL_OBJECT_COUNT);

        if (writer_methods[at].result != type || !writer_in(writer_methods[at].where))
            continue;
        while ((writer_methods[at].kinds >> kind & 1) == 0)
            kind = (kind + 1) % VCL_OBJECT_COUNT;
        put("o%u.%s", kind, writer_methods[at].name);
        writer_args(writer_methods[at].args);
        return true;
    }
    return false;
}

/* Conversions that have exactly one source, as they must. */
static void
writer_converted(enum vcl_type type)
{
    static const enum vcl_type sources[] = {VCL_TYPE_STRING, VCL_TYPE_REAL, VCL_TYPE_INT};
    static const char *const names[] = {"s", "real", "integer"};
    unsigned from = writer_pick(3);

    if (type == sources[from])
        from = 0;
    put("std.%s(%s = ",
        type == VCL_TYPE_INT        ? "integer"
        : type == VCL_TYPE_REAL     ? "real"
        : type == VCL_TYPE_DURATION ? "duration"
        : type == VCL_TYPE_BYTES    ? "bytes"
                                    : "time",
        names[from]);
    writer_typed(sources[from]);
    if (writer_pick(4) > 0) {
        put(", fallback = ");
        writer_typed(type);
    }
    put(")");
}

static void
writer_two(enum vcl_type left, const char *op, enum vcl_type right)
{
    put("(");
    writer_typed(left);
    put(" %s ", op);
    writer_typed(right);
    put(")");
}

static void
writer_computed(enum vcl_type type)
{
    static const char *const ops[] = {"+", "-", "*", "/", "%"};

    switch ((unsigned)type) {
    case VCL_TYPE_INT:
        writer_two(VCL_TYPE_INT, ops[writer_pick(5)], VCL_TYPE_INT);
        break;
    case VCL_TYPE_REAL:
        writer_two(
            VCL_TYPE_REAL, ops[writer_pick(4)], writer_pick(3) == 2 ? VCL_TYPE_INT : VCL_TYPE_REAL);
        break;
    case VCL_TYPE_DURATION:
        if (writer_pick(2))
            writer_two(VCL_TYPE_DURATION, ops[2 + writer_pick(2)],
                writer_pick(3) == 2 ? VCL_TYPE_INT : VCL_TYPE_REAL);
        else
            writer_two(VCL_TYPE_TIME, "-", VCL_TYPE_TIME);
        break;
    case VCL_TYPE_TIME:
        writer_two(VCL_TYPE_TIME, ops[writer_pick(2)], VCL_TYPE_DURATION);
        break;
    case VCL_TYPE_BYTES:
        if (writer_pick(2))
            writer_two(VCL_TYPE_BYTES, ops[2 + writer_pick(2)], VCL_TYPE_REAL);
        else
            writer_two(VCL_TYPE_BYTES, ops[writer_pick(2)], VCL_TYPE_BYTES);
        break;
    default:
        writer_constant(type);
    }
}

static void
writer_number(enum vcl_type type)
{
    switch (writer_is_deep() ? 0 : writer_pick(6)) {
    case 1:
        writer_read(type);
        break;
    case 2:
        writer_computed(type);
        break;
    case 3:
        writer_converted(type);
        break;
    case 4:
        if (!writer_func(type))
            writer_constant(type);
        break;
    case 5:
        put(type == VCL_TYPE_INT || type == VCL_TYPE_REAL || type == VCL_TYPE_DURATION ? "-("
                                                                                       : "(");
        writer_typed(type);
        put(")");
        break;
    default:
        writer_constant(type);
    }
}

static void
writer_regsub(void)
{
    put(writer_pick(2) ? "regsub(" : "regsuball(");
    writer_typed(VCL_TYPE_STRING);
    put(", {\"");
    PUT_ONE(writer_patterns);
    put("\"}, ");
    writer_typed(VCL_TYPE_STRING);
    put(")");
}

/* What is made a string of. */
static void
writer_joined(void)
{
    static const enum vcl_type types[] = {VCL_TYPE_INT, VCL_TYPE_REAL, VCL_TYPE_TIME,
        VCL_TYPE_DURATION, VCL_TYPE_BOOL, VCL_TYPE_IP, VCL_TYPE_BACKEND, VCL_TYPE_STEVEDORE,
        VCL_TYPE_BYTES};

    writer_two(VCL_TYPE_STRING, "+", types[writer_pick(ARRAY_LEN(types))]);
}

static void
writer_string(void)
{
    switch (writer_is_deep() ? writer_pick(2) : writer_pick(9)) {
    case 0:
        writer_text();
        break;
    case 1:
    case 2:
        writer_read(VCL_TYPE_STRING);
        break;
    case 3:
    case 4:
        writer_two(VCL_TYPE_STRING, "+", VCL_TYPE_STRING);
        break;
    case 5:
        writer_joined();
        break;
    case 6:
        writer_regsub();
        break;
    default:
        writer_func(VCL_TYPE_STRING);
        put("%s", (const char *[]){"", "", ".lower()", ".upper()"}[writer_pick(4)]);
    }
}

static void
writer_compared(void)
{
    static const char *const cmps[] = {"==", "!=", "<", ">", "<=", ">="};
    static const enum vcl_type types[] = {VCL_TYPE_STRING, VCL_TYPE_INT, VCL_TYPE_REAL,
        VCL_TYPE_DURATION, VCL_TYPE_TIME, VCL_TYPE_BYTES, VCL_TYPE_IP, VCL_TYPE_BACKEND,
        VCL_TYPE_STEVEDORE, VCL_TYPE_INT};
    unsigned type = writer_pick(ARRAY_LEN(types));
    const char *cmp = cmps[writer_pick(type < 6 ? 6 : 2)];

    if (types[type] == VCL_TYPE_IP && writer_in(VCL_CLIENT | VCL_BACKEND)) {
        put("(std.ip(");
        writer_typed(VCL_TYPE_STRING);
        put(", \"1.1.1.1\") %s client.ip)", cmp);
        return;
    }
    writer_two(types[type], cmp, types[type]);
}

static void
writer_matched(void)
{
    put("(");
    writer_typed(VCL_TYPE_STRING);
    put(writer_pick(2) ? " ~ {\"" : " !~ {\"");
    PUT_ONE(writer_patterns);
    put("\"})");
}

/* What most policies ask. */
static void
writer_truth(void)
{
    static const struct {
        unsigned where;
        const char *text;
    } truths[] = {{VCL_CLIENT | VCL_BACKEND, "client.ip ~ near"},
        {VCL_CLIENT, "std.ip(req.http.a, \"::1\") ~ near"}, {VCL_CLIENT, "req.method == \"GET\""},
        {VCL_CLIENT, "req.method != \"PUT\""}, {VCL_CLIENT, "req.url ~ \"^/a\""},
        {VCL_CLIENT, "req.http.host ~ \"a\""}, {VCL_BACKEND, "bereq.http.host !~ \"a\""}};
    unsigned i = writer_pick(ARRAY_LEN(truths));

    put("%s", writer_in(truths[i].where) ? truths[i].text : "server.identity");
}

static void
writer_bool(void)
{
    static const enum vcl_type types[] = {
        VCL_TYPE_INT, VCL_TYPE_DURATION, VCL_TYPE_BACKEND, VCL_TYPE_STRING};

    switch (writer_is_deep() ? 0 : writer_pick(11)) {
    case 10:
        writer_read(types[writer_pick(ARRAY_LEN(types))]);
        break;
    case 1:
    case 2:
        writer_compared();
        break;
    case 3:
        writer_matched();
        break;
    case 4:
        writer_two(VCL_TYPE_BOOL, writer_pick(2) ? "&&" : "||", VCL_TYPE_BOOL);
        break;
    case 5:
        put("!(");
        writer_bool();
        put(")");
        break;
    case 6:
        writer_truth();
        break;
    case 7:
        if (!writer_func(VCL_TYPE_BOOL))
            put("true");
        break;
    case 8:
        writer_read(VCL_TYPE_BOOL);
        break;
    case 9:
        writer_constant(VCL_TYPE_BOOL);
        break;
    default:
        writer_read(VCL_TYPE_HEADER);
    }
}

/* IP, BACKEND, STEVEDORE */
static void
writer_thing(enum vcl_type type)
{
    switch (writer_is_deep() ? 0 : writer_pick(4)) {
    case 1:
        writer_read(type);
        break;
    case 2:
        if (!writer_method(type))
            writer_read(type);
        else if (type == VCL_TYPE_BACKEND && writer_pick(3) == 2)
            put(".resolve()");
        break;
    case 3:
        if (!writer_func(type))
            writer_read(type);
        break;
    default:
        writer_constant(type);
    }
}

static void
writer_typed(enum vcl_type type)
{
    static const char *const messages[] = {"req", "bereq", "resp", "beresp"};
    const struct writer_var *v;

    writer.depth++;
    switch ((unsigned)type) {
    case VCL_TYPE_STRING:
        writer_string();
        break;
    case VCL_TYPE_BOOL:
        writer_bool();
        break;
    case VCL_TYPE_IP:
    case VCL_TYPE_BACKEND:
    case VCL_TYPE_STEVEDORE:
        writer_thing(type);
        break;
    case VCL_TYPE_REGEX:
        put("{\"");
        PUT_ONE(writer_patterns);
        put("\"}");
        break;
    case VCL_TYPE_HEADER:
    case VCL_TYPE_HTTP:
        v = writer_var(type, type == VCL_TYPE_HEADER);
        if (v == NULL)
            put("%s", messages[writer_pick(4)]);
        else
            writer_put_var(v);
        break;
    default:
        writer_number(type);
    }
    writer.depth--;
}

/* --- statements --- */

static void writer_block(void);

static void
writer_return(void)
{
    static const char *const names[] = {
#define X(id, name, doc) name,
        VCL_ACTION_TABLE(X)
#undef X
    };
    unsigned action = writer_pick(VCL_ACT_COUNT), actions = writer_subs[writer.sub].actions;

    while ((actions >> action & 1) == 0)
        action = (action + 1) % VCL_ACT_COUNT;
    put("return (%s", names[action]);
    if (action == VCL_ACT_SYNTH || action == VCL_ACT_ERROR) {
        put("(200 + ");
        writer_typed(VCL_TYPE_INT);
        put(", ");
        writer_typed(VCL_TYPE_STRING);
        put(")");
    } else if (action == VCL_ACT_VCL) {
        put("(default)");
    } else if (action == VCL_ACT_PASS && writer.sub == VCL_SUB_BACKEND_RESPONSE) {
        put("(");
        writer_typed(VCL_TYPE_DURATION);
        put(")");
    } else if (action == VCL_ACT_FAIL && writer_pick(2)) {
        put("(");
        writer_typed(VCL_TYPE_STRING);
        put(")");
    }
    put(");");
}

static void
writer_set(void)
{
    const struct writer_var *v = writer_var(writer_pick(3) ? VCL_TYPE_VOID : VCL_TYPE_HEADER, true);
    enum vcl_type type;

    if (v == NULL)
        return;
    type = v->type == VCL_TYPE_HEADER || v->type == VCL_TYPE_BODY ? VCL_TYPE_STRING : v->type;
    put("set ");
    writer_put_var(v);
    put(type == VCL_TYPE_STRING && writer_pick(4) == 3 ? " += " : " = ");
    writer_typed(type);
    put(";");
}

static void
writer_unset(void)
{
    unsigned n = ARRAY_LEN(writer_vars), at = writer_pick(n);

    for (unsigned i = 0; i < n; i++, at = (at + 1) % n) {
        if ((writer_vars[at].flags & VCL_V40) != 0 || !writer_in(writer_vars[at].unset))
            continue;
        put("unset ");
        writer_put_var(&writer_vars[at]);
        put(";");
        return;
    }
}

/* What only some of the subs have. */
static void
writer_special(void)
{
    switch ((unsigned)writer.sub) {
    case VCL_SUB_HASH:
        put("hash_data(");
        break;
    case VCL_SUB_SYNTH:
    case VCL_SUB_BACKEND_ERROR:
        put("synthetic(");
        break;
    case VCL_SUB_RECV:
    case VCL_SUB_DELIVER:
    case VCL_SUB_BACKEND_RESPONSE:
        put("ban(");
        break;
    default:
        put("std.log(");
    }
    writer_typed(VCL_TYPE_STRING);
    put(");");
}

/* A function or a method for what it does; some give a value, which is thrown away. */
static void
writer_called(void)
{
    static const enum vcl_type types[] = {
        VCL_TYPE_VOID, VCL_TYPE_VOID, VCL_TYPE_BOOL, VCL_TYPE_INT};
    enum vcl_type type = types[writer_pick(ARRAY_LEN(types))];

    if (writer_pick(2) ? writer_method(type) || writer_func(type)
                       : writer_func(type) || writer_method(type))
        put(";");
}

static void
writer_if(void)
{
    put("if (");
    writer_typed(VCL_TYPE_BOOL);
    put(") ");
    writer_block();
    if (writer_pick(4) == 3) {
        put(" elseif (");
        writer_typed(VCL_TYPE_BOOL);
        put(") ");
        writer_block();
    }
    if (writer_pick(2)) {
        put(" else ");
        writer_block();
    }
}

static void
writer_stmt(void)
{
    static const char *const calls[] = {"call one;", "call two;", "call few;", "call loud;"};

    switch (writer_pick(11)) {
    case 0:
        writer_return();
        break;
    case 1:
    case 2:
        writer_if();
        break;
    case 3:
        writer_unset();
        break;
    case 4:
        writer_called();
        break;
    case 5:
        if (writer.may_call)
            PUT_ONE(calls);
        break;
    case 6:
        writer_special();
        break;
    default:
        writer_set();
    }
    put("\n");
}

static void
writer_block(void)
{
    put("{\n");
    writer.depth++;
    for (unsigned n = writer_is_deep() ? 1 : 1 + writer_pick(5); n > 0; n--)
        writer_stmt();
    writer.depth--;
    put("}\n");
}

/* One of each kind, with two backends, perhaps changed again. */
static void
writer_init(void)
{
    put("sub vcl_init {\n");
    writer.sub = VCL_SUB_INIT;
    for (unsigned i = 0; i < VCL_OBJECT_COUNT; i++) {
        put("new o%u = directors.%s", i, writer_objects[i].name);
        writer_args(writer_objects[i].args);
        put(";\no%u.add_backend(default); o%u.add_backend(o0.backend());\n", i, i);
    }
    for (unsigned n = writer_pick(4); n > 0; n--)
        if (writer_method(writer_pick(2) ? VCL_TYPE_BOOL : VCL_TYPE_VOID))
            put(";\n");
    put("}\n");
}

struct slice
writer_policy(enum vcl_sub *sub)
{
    unsigned first = writer_pick(VCL_SUB_COUNT);

    writer.len = writer.depth = 0;
    writer.may_call = false;
    put("vcl 4.1;\nimport std;\nimport cookie;\nimport directors;\nimport purge;\n"
        "backend default { .host = \"127.0.0.1\"; }\nbackend nobody none;\n"
        "acl near { \"127.0.0.0\"/8; ! \"127.0.0.9\"; \"::1\"; }\n");
    writer_init();
    writer.sub = (enum vcl_sub)first;
    put("sub two ");
    writer_block();
    put("sub few { call two; if (server.identity) { return; } std.log(\"few\"); }\n");
    put("sub loud { std.log(\"loud\"); std.log(\"er\"); }\n");
    put("sub one { call two; call few; call loud; call few; ");
    writer_stmt();
    put("}\nsub %s ", writer_subs[first].name);
    writer.may_call = true;
    writer_block();
    *sub = writer.sub;
    return slice_of(writer.text, writer.len);
}
