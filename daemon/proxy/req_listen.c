/* req_listen.c -- what a listener answers by itself, before any route: challenges of ACME, and the way to
 * https.
 *
 * Both are routes that no file has: the rest of the way is that of a route with a redirect or with a page. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/base/terr.h"
#include "daemon/http/uri.h"
#include "daemon/proxy/challenges.h"
#include "daemon/proxy/req_priv.h"

#define LISTEN_ROUTE                                                                  \
    .host = "", .path = "", .backend = CONF_NO_BACKEND, .acts = true, .ttl.text = "", \
    .grace.text = ""

static const struct conf_route listen_to_https = {
    LISTEN_ROUTE, .redirect = {
                      .text = "https",
                      .to = "https://$host$request_uri",
                      .status = 301,
                      .unless_https = true,
                  }};
static const struct conf_route listen_challenge = {LISTEN_ROUTE};

/* The last part of the path, if it can be the name of a file of an ACME client's. */
static struct slice
listen_token(const struct req *r)
{
    struct slice path = http_path(r->head), token;
    size_t front = sizeof(CHALLENGE_PATH) - 1;

    if (path.len <= front || path.len > front + CHALLENGE_TOKEN_MAX ||
        memcmp(path.ptr, CHALLENGE_PATH, front) != 0)
        return slice_of(NULL, 0);
    token = slice_of(path.ptr + front, path.len - front);
    return challenge_is_token(token) ? token : slice_of(NULL, 0);
}

/* A few hundred bytes of a file that an ACME client wrote a moment ago: read where we are, for a thread that
 * reads it costs more, and only who asks below CHALLENGE_PATH pays. */
static struct slice
listen_read(struct req *r, const struct conf_acme *acme, struct slice token)
{
    bool ours = acme->webroot[0] == '\0';
    char path[4200], text[CHALLENGE_TEXT_MAX];
    ssize_t n = -1;
    int fd, len = snprintf(path, sizeof(path), "%s%s%.*s", ours ? acme->state : acme->webroot,
                ours ? "/challenges/http-01/" : CHALLENGE_PATH, (int)token.len, token.ptr);

    tassert(token.len <= CHALLENGE_TOKEN_MAX);
    tassert(memchr(token.ptr, '/', token.len) == NULL); /* no file but one of that directory */
    if (len < 0 || len >= (int)sizeof(path))
        return slice_of(NULL, 0);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return slice_of(NULL, 0);
    n = read(fd, text, sizeof(text));
    close(fd);
    return n > 0 ? arena_copy(&r->x->arena, slice_of(text, (size_t)n)) : slice_of(NULL, 0);
}

/* On every listener: a CA asks on port 80, which another program may send on to any. */
static struct slice
listen_find_challenge(struct req *r, const struct conf *conf)
{
    struct slice token = listen_token(r), found = {NULL, 0};
    char text[CHALLENGE_TEXT_MAX];

    for (unsigned i = 0; i < conf->nlistens && token.len > 0 && found.len == 0; i++)
        if (conf->listens[i].tls.acme.said)
            found = listen_read(r, &conf->listens[i].tls.acme, token);
    if (token.len > 0 && found.len == 0 && r->proxy->challenges != NULL)
        found = slice_of(text, challenges_find(r->proxy->challenges, token, text));
    return found.ptr == text ? arena_copy(&r->x->arena, found) : found;
}

const struct conf_route *
req_listener_route(struct req *r, const struct conf *conf, struct conf_page *page)
{
    *page = (struct conf_page){.plain = true};
    if (!conf->listens_act)
        return NULL;
    page->body = listen_find_challenge(r, conf);
    if (page->body.len > 0)
        return &listen_challenge;
    return r->x->conn->listener->to_https && r->x->scheme != HTTP_SCHEME_HTTPS ? &listen_to_https
                                                                               : NULL;
}
