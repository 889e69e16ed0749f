/* challenges.c -- answers to ACME CAs that other nodes of the fleet gave us. */
#include "daemon/proxy/challenges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/obj.h"

struct challenge {
    unsigned token_len, text_len; /* token_len 0: the place is free */
    char token[CHALLENGE_TOKEN_MAX], text[CHALLENGE_TEXT_MAX];
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

void
challenges_free(struct challenges **cp)
{
    struct challenges *c;

    OBJ_TAKE(c, cp, CHALLENGES_MAGIC);
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

/* Under the lock. */
static struct challenge *
challenges_place(struct challenges *c, struct slice token)
{
    for (unsigned i = 0; i < CHALLENGES_MAX; i++)
        if (slice_eq(slice_of(c->all[i].token, c->all[i].token_len), token))
            return &c->all[i];
    return NULL;
}

bool
challenges_set(struct challenges *c, struct slice token, struct slice text)
{
    struct challenge *at;

    OBJ_CHECK(c, CHALLENGES_MAGIC);
    if (!challenge_is_token(token) || text.len > CHALLENGE_TEXT_MAX)
        return false;
    pthread_mutex_lock(&c->lock);
    at = challenges_place(c, token);
    if (at == NULL && text.len > 0)
        at = challenges_place(c, slice_of("", 0));
    if (at != NULL) {
        at->token_len = text.len > 0 ? (unsigned)token.len : 0;
        at->text_len = (unsigned)text.len;
        memcpy(at->token, token.ptr, token.len);
        if (text.len > 0)
            memcpy(at->text, text.ptr, text.len);
    }
    pthread_mutex_unlock(&c->lock);
    return at != NULL || text.len == 0;
}

size_t
challenges_find(struct challenges *c, struct slice token, char out[CHALLENGE_TEXT_MAX])
{
    const struct challenge *at;
    size_t len = 0;

    OBJ_CHECK(c, CHALLENGES_MAGIC);
    if (token.len == 0)
        return 0;
    pthread_mutex_lock(&c->lock);
    at = challenges_place(c, token);
    if (at != NULL) {
        len = at->text_len;
        memcpy(out, at->text, len);
    }
    pthread_mutex_unlock(&c->lock);
    return len;
}
