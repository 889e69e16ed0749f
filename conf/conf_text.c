/* conf_text.c -- texts with a grammar: names, tokens, hosts, paths, one of a few words. */
#include "conf/conf_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/access_pattern.h"
#include "daemon/base/obj.h"
#include "daemon/base/syslog_to.h"
#include "daemon/base/terr.h"

#define ALNUM          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define TOKEN_CHARS    ALNUM "!#$%&'*+-.^_`|~" /* RFC 9110 5.6.2 */
#define REG_NAME_CHARS ALNUM "-._~%!$&'()+,;=" /* RFC 3986 3.2.2, less the '*' */
#define NAME_CHARS     ALNUM "-_"
#define LABEL_CHARS    ALNUM ".-_"

/* The words of each type that is one of a few; CONF_TYPE_TABLE says them to people. */
static const char *const *const text_words[] = {
#define WORDS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }
    [CONF_TYPE_LEVEL] = WORDS("error", "warn", "info", "debug"),
    [CONF_TYPE_FORMAT] = WORDS("combined", "json"),
    [CONF_TYPE_ENGINE] = WORDS("malloc", "synth", "fault"),
    [CONF_TYPE_EVICTION] = WORDS("s3-fifo", "lru", "sieve"),
    [CONF_TYPE_FORWARDED] = WORDS("x-forwarded-for", "forwarded", "both", "none"),
    [CONF_TYPE_COOKIES] = WORDS("never", "public", "always"),
    [CONF_TYPE_CHOICE] = WORDS("refuse", "accept"),
    [CONF_TYPE_PROFILE] = WORDS("intermediate", "modern"),
    [CONF_TYPE_CLIENTAUTH] = WORDS("off", "optional", "required"),
    [CONF_TYPE_CHALLENGE] = WORDS("http-01", "tls-alpn-01"),
    [CONF_TYPE_KEYTYPE] = WORDS("ecdsa", "rsa"),
    [CONF_TYPE_SECURED] = WORDS("off", "https"),
    [CONF_TYPE_PROXIED] = WORDS("off", "required"),
    [CONF_TYPE_TABLE] = WORDS("any", "set", "map", "prefix", "address", "vector"),
    [CONF_TYPE_DIRECTOR] = WORDS("round_robin", "random", "least_connections", "hash", "fallback"),
#undef WORDS
};

/* How many bytes at the front are among these. */
static size_t
text_span(struct slice s, const char *chars)
{
    size_t i = 0;

    while (i < s.len && s.ptr[i] != '\0' && strchr(chars, s.ptr[i]) != NULL)
        i++;
    return i;
}

bool
conf_name_ok(struct slice name)
{
    return name.len > 0 && name.len <= CONF_NAME_MAX && text_span(name, NAME_CHARS) == name.len &&
           (isalpha((unsigned char)name.ptr[0]) || name.ptr[0] == '_');
}

/* The first byte outside least..most, or -1: control characters would end up in messages.  The text
 * of an error is printed on terminals. */
static int
text_outside(struct slice s, unsigned char least, unsigned char most)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];

        if (c < least || c > most || c == 0x7f)
            return c;
    }
    return -1;
}

/* Length of the host at the front of an authority: a name, or [v6].  0: there is no host.  Names
 * are not resolved and not judged further: RFC 3986 allows more than DNS. */
static size_t
text_host_len(struct slice s)
{
    size_t len;

    if (s.len == 0 || s.ptr[0] != '[')
        return text_span(s, REG_NAME_CHARS);
    s = slice_of(s.ptr + 1, s.len - 1);
    len = text_span(s, "0123456789abcdefABCDEF:.");
    /* At least "::" and its bracket. */
    return len > 1 && len < s.len && s.ptr[len] == ']' ? len + 2 : 0;
}

static bool
text_is_port(struct slice s) /* ":8080" */
{
    return s.len > 1 && s.len <= 6 && s.ptr[0] == ':' &&
           text_span(slice_of(s.ptr + 1, s.len - 1), "0123456789") == s.len - 1;
}

/* Each of these is NULL, or says what is wrong. */
static const char *
text_wrong_host(struct slice s)
{
    bool below = s.len > 2 && s.ptr[0] == '*' && s.ptr[1] == '.';
    size_t len;

    /* The rest is judged as a name. */
    if (below)
        s = slice_of(s.ptr + 2, s.len - 2);
    if (memchr(s.ptr, '*', s.len) != NULL)
        return "has a wildcard that is not its first label: *.example.com stands for every name "
               "below example.com";
    len = text_host_len(s);
    /* Said for itself: a Host field with a port is what one has before one's eyes. */
    if (len > 0 && len < s.len && text_is_port(slice_of(s.ptr + len, s.len - len)))
        return "has a port: a route matches the host name alone, on any port";
    return len == 0 || len < s.len ? "is not a host name, as in img.example.com" : NULL;
}

static const char *
text_wrong_authority(struct slice s)
{
    size_t len = text_host_len(s);

    if (len > 0 && (len == s.len || text_is_port(slice_of(s.ptr + len, s.len - len))))
        return NULL;
    return "is not a host name, or a host name and a port, as in www.example.com:8080";
}

/* A path is compared byte by byte with what a request has, so it must be in the form in which
 * requests come. */
static const char *
text_wrong_prefix(struct slice s)
{
    /* Patterns of nginx and HAProxy: here they would match nothing, silently. */
    if (s.len > 0 && strchr("*^~.", s.ptr[0]) != NULL)
        return "is a pattern: a path is a prefix that begins with '/', as in /img/; for endings, "
               "as "
               "in *.css, write a policy";
    if (s.ptr[0] != '/')
        return "does not begin with '/'";
    if (text_outside(s, 0x21, 0x7e) >= 0)
        return "has a character that a URL writes percent-encoded, as in %20";
    if (memchr(s.ptr, '*', s.len) != NULL)
        return "has a '*': a path is a prefix, not a pattern; /img/ is all below it, and a '*' of "
               "a "
               "URL is %2A";
    return s.ptr[text_span(s, TOKEN_CHARS "/:@(),;=[]")] == '\0'
               ? NULL
               : "has a character that no path has: it ends where '?' or '#' would stand";
}

static const char *
text_wrong_target(struct slice s)
{
    if (s.ptr[0] != '/')
        return "does not begin with '/'";
    if (text_outside(s, 0x21, 0x7e) >= 0)
        return "has a character that a URL writes percent-encoded, as in %20";
    /* Nor is one of these in a URL; and a pattern stands between quotes (RFC 9842 2.1). */
    if (memchr(s.ptr, '"', s.len) != NULL || memchr(s.ptr, '\\', s.len) != NULL)
        return "has a character that a URL writes percent-encoded, as in %22";
    /* RFC 9110 7.1: a fragment is not sent. */
    return memchr(s.ptr, '#', s.len) == NULL ? NULL : "has a fragment, which no request carries";
}

static const char *
text_wrong_ascii(struct slice s)
{
    if (text_outside(s, 0x20, 0x7e) >= 0)
        return "has a character that is not printable ASCII";
    /* A field's value would lose it on the way (RFC 9110 5.5). */
    if (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[s.len - 1] == ' '))
        return "has a space at an end";
    return NULL;
}

/* NULL, or what is wrong.  Also for names that are no value of a key (rules_wrong_name). */
const char *
conf_text_wrong(enum conf_type type, struct slice s)
{
    if (s.len == 0) /* where it may be empty, that is the default */
        return NULL;
    if (type == CONF_TYPE_TOKEN)
        return text_span(s, TOKEN_CHARS) == s.len
                   ? NULL
                   : "is not a token: letters, digits and !#$%&'*+-.^_`|~ only";
    if (type == CONF_TYPE_NAME)
        return conf_name_ok(s) ? NULL
                               : "is not a name: a letter or _, then letters, digits, - and _";
    if (type == CONF_TYPE_LABEL)
        return text_span(s, LABEL_CHARS) == s.len
                   ? NULL
                   : "has a character that is no letter, no digit and none of . _ -";
    if (type == CONF_TYPE_ASCII)
        return text_wrong_ascii(s);
    if (type == CONF_TYPE_HOST)
        return text_wrong_host(s);
    if (type == CONF_TYPE_AUTHORITY)
        return text_wrong_authority(s);
    if (type == CONF_TYPE_TARGET)
        return text_wrong_target(s);
    if (type == CONF_TYPE_PREFIX)
        return text_wrong_prefix(s);
    return text_outside(s, 0x20, 0xff) >= 0 ? "has a control character" : NULL;
}

/* In `why`, when it is there. */
static const char *
text_wrong_output(enum conf_type type, struct slice s, char *why, size_t why_size)
{
    struct syslog_to syslog;
    int err = syslog_to_parse(&syslog, s, why, why_size);

    if (err == TERR_CONFIG)
        return why;
    return err == TERR_NOTFOUND && type == CONF_TYPE_SYSLOG && s.len > 0
               ? "is not syslog:FACILITY, as in syslog:daemon"
               : NULL;
}

static const char *
text_wrong_pattern(struct slice s, char *why, size_t why_size)
{
    struct access_pattern pattern;

    return access_pattern_parse(&pattern, s, why, why_size) == 0 ? NULL : why;
}

/* The value is the static text of the word, not a copy of what the file has. */
bool
conf_word_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to)
{
    struct conf_guess guess = {.meant = n->text};
    const char *const *word;

    tassert(key->type < ARRAY_LEN(text_words));
    word = text_words[key->type];
    tassert(word != NULL);
    for (; *word != NULL; word++) {
        if (slice_eq(n->text, slice_str(*word))) {
            *to = *word;
            return true;
        }
        /* The nearest of all is named, if it is near. */
        conf_guess_try(&guess, *word);
    }
    if (guess.best != NULL)
        conf_fail_value(cx, key, n, "is unknown; did you mean '%s'?", guess.best);
    else
        conf_fail_value(cx, key, n, "is unknown: it is %s", conf_type_what(key->type));
    return false;
}

bool
conf_text_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to)
{
    struct slice s = n->text;
    char why[1024], *copy;
    const char *wrong;

    /* A format of one's own has a field in it; without one it is the name of a known one. */
    if (key->type == CONF_TYPE_FORMAT && memchr(s.ptr, '$', s.len) == NULL)
        return conf_word_read(cx, key, n, to);
    wrong = key->type == CONF_TYPE_FORMAT ? text_wrong_pattern(s, why, sizeof(why))
                                          : conf_text_wrong(key->type, s);
    if (wrong == NULL && (key->type == CONF_TYPE_OUTPUT || key->type == CONF_TYPE_SYSLOG))
        wrong = text_wrong_output(key->type, s, why, sizeof(why));
    if (wrong != NULL) {
        conf_fail_value(cx, key, n, "%s", wrong);
        return false;
    }
    tassert(key->least >= 0);
    tassert(key->most >= key->least);
    /* Behind the grammar: its message says more. */
    if (s.len < (size_t)key->least || s.len > (size_t)key->most) {
        conf_fail_value(cx, key, n, "has %zu bytes: %lld to %lld are possible", s.len,
            (long long)key->least, (long long)key->most);
        return false;
    }
    copy = conf_alloc(cx, cx->keep, s.len + 1, 1);
    if (copy == NULL)
        return false;
    for (size_t i = 0; i < s.len; i++) /* a host is compared with one in lower case */
        copy[i] = key->type == CONF_TYPE_HOST ? (char)tolower((unsigned char)s.ptr[i]) : s.ptr[i];
    *to = copy;
    return true;
}

/* One word of them: it would be two with a space, and end a list with a comma. */
static bool
words_read_one(struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, char **at,
    const char *end)
{
    if (n->kind != YNODE_TEXT || ynode_is_null(n)) {
        conf_fail(cx, n, "%s: each of the list must be a text", key->name);
        return false;
    }
    if (n->text.len == 0 || text_outside(n->text, 0x21, 0x7e) >= 0 ||
        memchr(n->text.ptr, ',', n->text.len) != NULL) {
        conf_fail_value(cx, key, n, "is not one word: it has no space, no comma, ASCII only");
        return false;
    }
    tassert(*at <= end);
    if (n->text.len + 1 > (size_t)(end - *at)) {
        conf_fail(cx, n, "%s has more than %lld bytes", key->name, (long long)key->most);
        return false;
    }
    memcpy(*at, n->text.ptr, n->text.len);
    *at += n->text.len;
    /* One text with spaces: readers of the parameter split it again, and a report shows it as it
     * is. */
    *(*at)++ = ' ';
    return true;
}

/*    resolver: [192.0.2.1, 192.0.2.2]   ->   "192.0.2.1 192.0.2.2" */
bool
conf_words_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, const char **to)
{
    char *text = conf_alloc(cx, cx->keep, (size_t)key->most + 1, 1), *at = text;
    bool good = true;

    if (text == NULL)
        return false;
    if (n->kind == YNODE_TEXT && n->text.len > 0)
        good = words_read_one(cx, key, n, &at, text + key->most);
    for (const struct ynode *c = n->kind == YNODE_LIST ? n->children : NULL; c != NULL; c = c->next)
        good = words_read_one(cx, key, c, &at, text + key->most) && good;
    tassert(at <= text + key->most); /* a NUL is behind, whatever was copied */
    /* The last space is where the NUL belongs. */
    if (at > text)
        at[-1] = '\0';
    *to = text;
    return good;
}

/* *to is a backend's number, or nbackends and a director's number. */
bool
conf_backend_read(
    struct conf_cx *cx, const struct conf_key *key, const struct ynode *n, unsigned *to)
{
    const struct conf *conf = cx->conf;
    struct conf_guess guess = {.meant = n->text};

    if (n->text.len == 0 && !key->required)
        return true; /* not said */
    for (unsigned i = 0; i < conf->nbackends; i++) {
        if (slice_eq(n->text, slice_str(conf->backends[i].name))) {
            *to = i;
            return true;
        }
        conf_guess_try(&guess, conf->backends[i].name);
    }
    for (unsigned i = 0; i < conf->ndirectors; i++) {
        if (slice_eq(n->text, slice_str(conf->directors[i].name))) {
            /* One numbering for both: see snapshot_nth(). */
            *to = conf->nbackends + i;
            return true;
        }
        conf_guess_try(&guess, conf->directors[i].name);
    }
    /* The name may stand in what could not be read. */
    if (cx->backends_cut)
        return false;
    if (cx->directors != NULL && ynode_get(cx->directors, n->text.ptr) != NULL)
        conf_fail_value(cx, key, n, "is no director that stands above: change their order");
    else if (guess.best != NULL)
        conf_fail_value(cx, key, n, "is not among the backends; did you mean '%s'?", guess.best);
    else if (conf->nbackends > 0)
        conf_fail_value(
            cx, key, n, "is not among the backends: the first is '%s'", conf->backends[0].name);
    else
        conf_fail_value(cx, key, n, "is not among the backends: there are none");
    return false;
}
