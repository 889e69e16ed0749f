/* regex.c -- regular expressions: PCRE2 with its JIT. */
#include "daemon/base/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <pthread.h>
#include <stdio.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

enum {
    REGEX_JIT_STACK_MIN = 32 * 1024,
    REGEX_JIT_STACK_MAX = 512 * 1024, /* grown to on demand; beyond it a match is TERR_LIMIT */
    /* KiB, of the interpreter, which works where there is no JIT. */
    REGEX_HEAP_LIMIT = 1024,
};

#define REGEX_MAGIC OBJ_TAG('r', 'g', 'e', 'x')
struct regex {
    uint32_t magic;
    bool jit;
    /* What spares a call: of a subject that can match the least length, a lower bound; and the bytes
     * that a match can begin with, 1 each. */
    uint32_t min_len;
    bool knows_first;
    /* They are one run of ASCII, as [A-Z]: eight at a time.  `above` + a byte reaches 128 from the first
     * of them on, `below` - a byte stays at 128 up to the last. */
    bool first_is_run;
    uint64_t above, below;
    uint8_t first[UINT8_MAX + 1];
    pcre2_code *code;
};

/* --- what a thread needs to match --- */

struct regex_thread {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static __thread struct regex_thread *regex_here;
static pthread_key_t regex_key;
static pthread_once_t regex_once = PTHREAD_ONCE_INIT;
static bool regex_key_made;

/* At the thread's end, by the key's destructor: at no other time is it known that no match
 * follows. */
static void
regex_thread_free(void *arg)
{
    struct regex_thread *t = arg;

    pcre2_match_data_free(t->data);
    pcre2_match_context_free(t->context);
    pcre2_jit_stack_free(t->stack);
    free(t);
    regex_here = NULL;
}

static void
regex_make_key(void)
{
    regex_key_made = pthread_key_create(&regex_key, regex_thread_free) == 0;
}

static struct regex_thread *
regex_thread_new(void)
{
    struct regex_thread *t;

    /* The key is there for its destructor alone: a thread finds its own by `regex_here`. */
    pthread_once(&regex_once, regex_make_key);
    t = regex_key_made ? calloc(1, sizeof(*t)) : NULL;
    if (t == NULL)
        return NULL;
    t->data = pcre2_match_data_create(REGEX_GROUPS_MAX, NULL);
    t->context = pcre2_match_context_create(NULL);
    t->stack = pcre2_jit_stack_create(REGEX_JIT_STACK_MIN, REGEX_JIT_STACK_MAX, NULL);
    if (t->data == NULL || t->context == NULL || t->stack == NULL ||
        pthread_setspecific(regex_key, t) != 0) {
        regex_thread_free(t);
        return NULL;
    }
    pcre2_jit_stack_assign(t->context, NULL, t->stack);
    /* Of the context, and so for each pattern: no text of a client can hold a worker. */
    pcre2_set_match_limit(t->context, REGEX_MATCH_LIMIT);
    pcre2_set_depth_limit(t->context, REGEX_DEPTH_LIMIT);
    pcre2_set_heap_limit(t->context, REGEX_HEAP_LIMIT);
    regex_here = t;
    return t;
}

/* --- compiling --- */

/* As Varnish: bytes, not UTF-8; a newline is LF whatever this PCRE2 was built with. */
static int
regex_compile_code(struct slice pattern, pcre2_code **out, int *why, size_t *at)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);

    *at = 0;
    if (context == NULL)
        return TERR_NOMEM;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    /* NEVER_UTF: a pattern that begins with (*UTF) would refuse subjects that are not UTF-8. */
    *out = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, PCRE2_NEVER_UTF, why, at, context);
    pcre2_compile_context_free(context);
    if (*out != NULL)
        return 0;
    return *why == PCRE2_ERROR_HEAP_FAILED ? TERR_NOMEM : TERR_SYNTAX;
}

/* False is no error: the interpreter gives the same answers, and is slower. */
static bool
regex_jit(pcre2_code *code)
{
    size_t size = 0;

    /* Where memory must not be executable it fails: then the interpreter works. */
    return pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0 &&
           pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &size) == 0 && size > 0;
}

#define REGEX_EACH(byte) (UINT64_C(0x0101010101010101) * (uint64_t)(byte))

static void
regex_learn_run(struct regex *re)
{
    unsigned from = 0, to;

    while (from <= UINT8_MAX && re->first[from] == 0)
        from++;
    for (to = from; to <= UINT8_MAX && re->first[to] != 0;)
        to++;
    /* One run of ASCII and nothing behind it, or the test of eight bytes does not hold. */
    if (from == to || to > 128 || memchr(re->first + to, 1, UINT8_MAX + 1 - to) != NULL)
        return;
    re->first_is_run = true;
    re->above = REGEX_EACH(128 - from);
    re->below = REGEX_EACH(127 + to);
}

static void
regex_learn_first(struct regex *re)
{
    const uint8_t *bits = NULL;

    re->knows_first =
        pcre2_pattern_info(re->code, PCRE2_INFO_FIRSTBITMAP, &bits) == 0 && bits != NULL;
    for (unsigned c = 0; re->knows_first && c <= UINT8_MAX; c++)
        re->first[c] = bits[c / 8] >> c % 8 & 1;
    if (re->knows_first)
        regex_learn_run(re);
}

/* Mostly at a load, on the management thread.  What comes out is never changed, so every worker
 * matches by it without a lock. */
int
regex_compile(struct regex **out, struct slice pattern, char *why, size_t why_size, size_t *at)
{
    struct regex *re = calloc(1, sizeof(*re));
    int err, reason = 0;

    if (re == NULL)
        return TERR_NOMEM;
    if (pattern.ptr == NULL)
        pattern.ptr = "";
    err = regex_compile_code(pattern, &re->code, &reason, at);
    if (err < 0) {
        /* Of the other error there is no text. */
        if (err == TERR_SYNTAX)
            pcre2_get_error_message(reason, (PCRE2_UCHAR *)why, why_size);
        free(re);
        return err;
    }
    re->magic = REGEX_MAGIC;
    re->jit = regex_jit(re->code);
    if (pcre2_pattern_info(re->code, PCRE2_INFO_MINLENGTH, &re->min_len) != 0)
        re->min_len = 0;
    regex_learn_first(re);
    *out = re;
    return 0;
}

void
regex_free(struct regex **rp)
{
    struct regex *re;

    if (*rp == NULL)
        return;
    OBJ_TAKE(re, rp, REGEX_MAGIC);
    /* And with it the code of the JIT. */
    pcre2_code_free(re->code);
    OBJ_FREE(re);
}

/* --- matching --- */

/* 1, and how many groups in *rc (0: more than there is room for); 0; or TERR_*. */
static int
regex_ask(const struct regex *re, struct slice s, size_t from, uint32_t options, int *rc)
{
    struct regex_thread *t = regex_here != NULL ? regex_here : regex_thread_new();
    PCRE2_SPTR text = (PCRE2_SPTR)s.ptr;

    if (t == NULL)
        return TERR_NOMEM;
    /* Straight into the code: pcre2_match() would check its arguments each time. */
    if (re->jit)
        *rc = pcre2_jit_match(re->code, text, s.len, from, options, t->data, t->context);
    else
        *rc = pcre2_match(re->code, text, s.len, from, options, t->data, t->context);
    if (*rc >= 0)
        return 1;
    if (*rc == PCRE2_ERROR_NOMATCH)
        return 0;
    /* Everything else is a limit, or the stack of the JIT: a match that was not finished has no
     * answer. */
    return *rc == PCRE2_ERROR_NOMEMORY ? TERR_NOMEM : TERR_LIMIT;
}

/* Is one of the eight in the run?  By bytes that do not carry into each other (Hacker's Delight 6-1). */
static inline bool
regex_word_has_run(const struct regex *re, const char *p)
{
    uint64_t word, low;

    memcpy(&word, p, sizeof(word));
    low = word & REGEX_EACH(0x7f);
    return ((low + re->above) & (re->below - low) & ~word & REGEX_EACH(0x80)) != 0;
}

/* len >= 8: the last word overlaps the one before. */
static bool
regex_has_run(const struct regex *re, const char *p, size_t len)
{
    const char *last = p + len - 8;

    for (; p < last; p += 8)
        if (regex_word_has_run(re, p))
            return true;
    return regex_word_has_run(re, last);
}

/* Is there a place in the subject, from `from` on, where a match could begin?  What builtin.vcl asks
 * of each Host, [[:upper:]], is answered here. */
static inline bool
regex_may_match(const struct regex *re, struct slice s, size_t from)
{
    /* The run first: where one of its bytes is, PCRE2 looks at the length itself. */
    if (re->first_is_run && s.len - from >= 8)
        return regex_has_run(re, s.ptr + from, s.len - from);
    /* PCRE2 gives a lower bound; 0 where it knows none. */
    if (s.len - from < re->min_len)
        return false;
    if (!re->knows_first)
        return true;
    for (; s.len - from >= 4; from += 4) { /* four at a time: it is asked of every request */
        const uint8_t *p = (const uint8_t *)s.ptr + from;

        if ((re->first[p[0]] | re->first[p[1]] | re->first[p[2]] | re->first[p[3]]) != 0)
            return true;
    }
    for (; from < s.len; from++) {
        if (re->first[(uint8_t)s.ptr[from]] != 0)
            return true;
    }
    return false;
}

int
regex_match(const struct regex *re, struct slice subject)
{
    int rc;

    OBJ_CHECK(re, REGEX_MAGIC);
    if (subject.ptr == NULL)
        subject.ptr = "";
    if (!regex_may_match(re, subject, 0))
        return 0;
    return regex_ask(re, subject, 0, 0, &rc);
}

/* The places of the last match.  \K can put its begin anywhere: it is kept within what was
 * searched, so that a caller that searches again behind it makes progress.
 * `groups` refers to the subject, not to memory of PCRE2: it is good as long as that is. */
static unsigned
regex_places(struct slice s, size_t from, int rc, struct slice groups[REGEX_GROUPS_MAX])
{
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(regex_here->data);
    unsigned n = rc == 0 ? REGEX_GROUPS_MAX : (unsigned)rc;

    for (unsigned i = 0; i < n; i++) {
        size_t begin = at[2 * i], end = at[2 * i + 1];

        /* A group that took no part: unset, and not empty. */
        if (begin == PCRE2_UNSET) {
            groups[i] = slice_of(NULL, 0);
            continue;
        }
        if (i == 0 && begin < from)
            begin = from;
        groups[i] = slice_of(s.ptr + begin, end > begin ? end - begin : 0);
    }
    return n;
}

static int
regex_find(const struct regex *re, struct slice subject, size_t from, uint32_t options,
    struct slice groups[REGEX_GROUPS_MAX], unsigned *n)
{
    int rc, err;

    OBJ_CHECK(re, REGEX_MAGIC);
    tassert(from <= subject.len);
    if (subject.ptr == NULL)
        subject.ptr = "";
    *n = 0;
    if (!regex_may_match(re, subject, from))
        return 0;
    err = regex_ask(re, subject, from, options, &rc);
    if (err == 1)
        /* At once: the thread's match data is that of its last match. */
        *n = regex_places(subject, from, rc, groups);
    return err;
}

int
regex_groups(const struct regex *re, struct slice subject, size_t from,
    struct slice groups[REGEX_GROUPS_MAX], unsigned *n)
{
    return regex_find(re, subject, from, 0, groups, n);
}

int
regex_groups_nonempty(const struct regex *re, struct slice subject, size_t from,
    struct slice groups[REGEX_GROUPS_MAX], unsigned *n)
{
    return regex_find(re, subject, from, PCRE2_NOTEMPTY, groups, n);
}

static char regex_version_text[32];

/* PCRE2 says "10.42 2022-12-11". */
static void
regex_make_version(void)
{
    char text[256] = "";

    pcre2_config(PCRE2_CONFIG_VERSION, text);
    snprintf(regex_version_text, sizeof(regex_version_text), "%.*s", (int)strcspn(text, " "), text);
}

const char *
regex_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, regex_make_version);
    return regex_version_text;
}
