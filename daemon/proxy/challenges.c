/* challenges.c -- answers to ACME CAs that other nodes of the fleet gave us. */
#include "daemon/proxy/challenges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"

struct challenge {
    unsigned name_len, text_len; /* name_len 0: the place is free */
    char name[CHALLENGE_NAME_MAX];
    char *text; /* owned; overwritten before it is freed, for it may have a key */
};

#define CHALLENGES_MAGIC OBJ_TAG('c', 'h', 'a', 'l')
struct challenges {
    uint32_t magic;
    pthread_mutex_t lock;
    struct challenge all[CHALLENGES_MAX];
};

struct challenges *
challenges_new(void)
{
    struct challenges *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->magic = CHALLENGES_MAGIC;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

static void
challenge_forget(struct challenge *at)
{
    if (at->text != NULL)
        explicit_bzero(at->text, at->text_len);
    free(at->text);
    *at = (struct challenge){.name_len = 0};
}

void
challenges_free(struct challenges **cp)
{
    struct challenges *c;

    OBJ_TAKE(c, cp, CHALLENGES_MAGIC);
    for (unsigned i = 0; i < CHALLENGES_MAX; i++)
        challenge_forget(&c->all[i]);
    pthread_mutex_destroy(&c->lock);
    OBJ_FREE(c);
}

bool
challenge_is_token(struct slice token)
{
    for (size_t i = 0; i < token.len; i++) {
        char c = token.ptr[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '-' || c == '_'))
            return false;
    }
    return token.len > 0 && token.len <= CHALLENGE_TOKEN_MAX;
}

bool
challenge_is_name(struct slice name)
{
    const size_t front = sizeof(CHALLENGE_TLS) - 1;

    if (name.len <= front || memcmp(name.ptr, CHALLENGE_TLS, front) != 0)
        return challenge_is_token(name);
    for (size_t i = front; i < name.len; i++) {
        char c = name.ptr[i];

        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
            return false;
    }
    return name.len <= CHALLENGE_NAME_MAX;
}

/* Under the lock. */
static struct challenge *
challenges_place(struct challenges *c, struct slice name)
{
    for (unsigned i = 0; i < CHALLENGES_MAX; i++)
        if (slice_eq(slice_of(c->all[i].name, c->all[i].name_len), name))
            return &c->all[i];
    return NULL;
}

/* Under the lock. */
static bool
challenges_put(struct challenges *c, struct slice name, struct slice text)
{
    struct challenge *at = challenges_place(c, name);
    char *copy = malloc(text.len);

    if (at == NULL)
        at = challenges_place(c, slice_of("", 0));
    if (at == NULL || copy == NULL) {
        free(copy);
        return false;
    }
    memcpy(copy, text.ptr, text.len);
    challenge_forget(at);
    *at = (struct challenge){
        .name_len = (unsigned)name.len, .text_len = (unsigned)text.len, .text = copy};
    memcpy(at->name, name.ptr, name.len);
    return true;
}

bool
challenges_set(struct challenges *c, struct slice name, struct slice text)
{
    struct challenge *at;
    bool done = true;

    OBJ_CHECK(c, CHALLENGES_MAGIC);
    if (!challenge_is_name(name) || text.len > CHALLENGE_TEXT_MAX)
        return false;
    pthread_mutex_lock(&c->lock);
    if (text.len > 0)
        done = challenges_put(c, name, text);
    else if ((at = challenges_place(c, name)) != NULL)
        challenge_forget(at);
    pthread_mutex_unlock(&c->lock);
    return done;
}

size_t
challenges_find(struct challenges *c, struct slice name, char out[CHALLENGE_TEXT_MAX])
{
    const struct challenge *at;
    size_t len = 0;

    OBJ_CHECK(c, CHALLENGES_MAGIC);
    if (name.len == 0)
        return 0;
    pthread_mutex_lock(&c->lock);
    at = challenges_place(c, name);
    if (at != NULL) {
        len = at->text_len;
        memcpy(out, at->text, len);
    }
    pthread_mutex_unlock(&c->lock);
    return len;
}
