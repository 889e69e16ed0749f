/* admin_page.c -- the page: what tarnd does, shown in a browser.
 *
 * One document without outside assets.  Its style and its script are allowed by a nonce that is drawn
 * for each answer, and nothing else is: what a log line or a backend's name may hold does not run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/admin/admin_priv.h"
#include "daemon/base/hex.h"

extern const unsigned char admin_page_html[]; /* made of page.html; ends in NUL */

#define PAGE_MARK "@NONCE@"
enum {
    PAGE_NONCE_BYTES = 16,
};

/* Hexadecimal.  False: the system has no randomness now. */
static bool
page_nonce(char nonce[2 * PAGE_NONCE_BYTES + 1])
{
    unsigned char drawn[PAGE_NONCE_BYTES];

    /* It would block at an early boot, and with it the management loop (invariant 2). */
    if (getrandom(drawn, sizeof(drawn), GRND_NONBLOCK) != (ssize_t)sizeof(drawn))
        return false;
    hex_put(nonce, drawn, sizeof(drawn));
    nonce[2 * PAGE_NONCE_BYTES] = '\0';
    return true;
}

/* The page with the nonce for each mark.  Freed by the caller; NULL: no memory.
 * open_memstream(3) grows as needed; its text is the call's from admin_do_page() on, and freed
 * when it was sent. */
static char *
page_with(const char *nonce)
{
    const char *from = (const char *)admin_page_html, *mark;
    char *text = NULL;
    size_t len;
    FILE *to = open_memstream(&text, &len);

    if (to == NULL)
        return NULL;
    while ((mark = strstr(from, PAGE_MARK)) != NULL) {
        fwrite(from, 1, (size_t)(mark - from), to);
        fputs(nonce, to);
        from = mark + strlen(PAGE_MARK);
    }
    fputs(from, to);
    if (fclose(to) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* A new nonce for each answer, or a script that learned one could write it into what it injects.
 * no-store (admin_head) keeps a cache from answering with an old one. */
void
admin_do_page(struct admin_call *c)
{
    char nonce[2 * PAGE_NONCE_BYTES + 1];
    char *text = page_nonce(nonce) ? page_with(nonce) : NULL;
    int n;

    if (text == NULL) {
        admin_fail_terr(c, TERR_NOMEM, "page");
        return;
    }
    /* frame-ancestors: another site cannot lay the page under its own and have its buttons
     * clicked. */
    n = snprintf(c->page_rules, sizeof(c->page_rules),
        "default-src 'none'; style-src 'nonce-%s'; script-src 'nonce-%s'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
        nonce, nonce);
    tassert(n > 0 && (size_t)n < sizeof(c->page_rules));
    c->status = 200;
    c->text = text;
    c->type = "text/html; charset=utf-8";
}
