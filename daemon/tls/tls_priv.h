/* tls_priv.h -- what the files of tls/ share. */
#ifndef TARN_TLS_PRIV_H
#define TARN_TLS_PRIV_H

#include <openssl/ssl.h>

#include "daemon/base/list.h"
#include "daemon/base/loop.h"
#include "daemon/base/obj.h"
#include "daemon/tls/cert_file.h"
#include "daemon/tls/tls.h"
#include "daemon/tls/tls_secret.h"

#define TLS_SERVER_MAGIC OBJ_TAG('t', 'l', 's', 's')
struct tls_server {
    uint32_t magic;
    struct secure_server secure;
    struct cert_store *certs;
    struct tls_tickets *tickets;
    bool http2, early_data;
    unsigned loops;
    SSL_CTX *ctx[]; /* one a loop */
};

/* What a backend's connections have in common.  Counted: one for its owner, one for each layer. */
#define TLS_CLIENT_MAGIC OBJ_TAG('t', 'l', 's', 'c')
struct tls_client {
    uint32_t magic;
    struct secure_client secure;
    _Atomic unsigned refs;
    SSL_CTX *ctx;
    char *sni, *name;
    struct cert_file_id files[TLS_CLIENT_FILES]; /* as they were when they were read */
    bool verify;
    unsigned loops;
    SSL_SESSION *sessions[]; /* of each loop, by its thread alone: the last one that was given */
};

enum tls_early {
    TLS_EARLY_NONE,    /* there is none, or it has been read and the handshake is complete */
    TLS_EARLY_AWAITED, /* the client's first flight may have some */
    TLS_EARLY_READS,   /* it has */
    TLS_EARLY_OVER,    /* all of it has been read; the client's last flight is still to come */
};

/* One connection's. */
#define TLS_MAGIC OBJ_TAG('t', 'l', 's', ' ')
struct tls {
    uint32_t magic;
    struct secure secure;
    struct tls_server *server; /* NULL: we are the client */
    struct tls_client *client; /* held; NULL: we are the server */
    struct loop *loop;
    SSL *ssl;              /* NULL: suspended */
    struct tls_wait *wait; /* for a certificate; NULL: it does not wait */
    char *said;            /* `why`, where it names names; or NULL */
    const char *why;       /* of a failure; a text that stays; NULL: there is none, or OpenSSL's */
    unsigned long err;     /* OpenSSL's, of a failure */
    union {
        struct list link; /* among those of the thread that may be suspended, or of none */
        struct {
            void *bytes; /* its state, with its secrets; OPENSSL_free() */
            size_t len;
        } suspended;
    };
    char first[5]; /* what a client begins with: the head of a record, or a method of HTTP */
    unsigned char nfirst;
    int16_t ended;             /* 0, or what decrypt() has met behind its last bytes */
    unsigned char key_updates; /* of the peer's, that data has not paid for */
    bool used;                 /* since it was last looked at (tls_suspend.c) */
    uint16_t unpaid;           /* bytes of data that do not pay for one yet */
    unsigned quiet : 7;        /* rounds without use */
    unsigned patience : 3;     /* it is suspended after 2^patience of them */
    bool acme : 1;             /* the client asks for the answer to a challenge of ACME */
    bool early_held : 1;       /* its first byte is here */
    uint8_t early;             /* enum tls_early */
    char early_byte;
};
_Static_assert(sizeof(struct tls) <= 128, "a size class of jemalloc's");

/* tls_fail.c.  What the thread's last failed call says; its error queue is empty behind it.  With a file the system's
 * reason, where that cannot be read.  Valid until the thread's next call. */
const char *tls_fail_reason(const char *file);
/* "WHAT: REASON"; TERR_CONFIG. */
int tls_fail(char *why, size_t why_len, const char *what);
int tls_fail_file(char *why, size_t why_len, const char *file);

/* tls_client.c */
void tls_client_drop(struct tls_client *c);
/* Of a layer that failed: what of the certificate was not right; NULL: it was another thing. */
char *tls_client_why(const struct tls_client *c, const SSL *ssl);

/* tls_layer.c */
int tls_layer_connect(struct secure_client *secure, struct loop *l, struct secure **out);
int tls_layer_accept(struct secure_server *secure, struct loop *l, struct secure **out);
/* For each context: what a connection's layer needs of it. */
void tls_layer_prepare(SSL_CTX *ctx);
/* The same, of a listener that answers challenges of ACME. */
void tls_layer_prepare_acme(SSL_CTX *ctx);

/* A new SSL gets the thread's BIO, which is there. */
void tls_layer_set_bio(struct tls *t);

/* For a callback of OpenSSL's: the layer that it was called for. */
struct tls *tls_current(const SSL *ssl);

/* tls_memory.c.  A thread that keeps blocks ready for records, and gives them back before it ends. */
void tls_memory_enter(void);
void tls_memory_leave(void);
/* Has OpenSSL been refused memory on this thread, since it was asked last?  It may have done
 * without, and left an error behind nevertheless. */
bool tls_memory_refused(void);

/* tls_suspend.c.  Its handshake is complete: without traffic it may be suspended from now on. */
void tls_suspend_watch(struct tls *t);
/* Before its SSL goes.  If it is suspended, there is none. */
void tls_suspend_forget(struct tls *t);
/* The slow half of tls_ready(). */
bool tls_restore(struct tls *t);

/* Before a call of OpenSSL's behind the handshake.  False: it was suspended, and there is no memory. */
static inline bool
tls_ready(struct tls *t)
{
#ifdef OPENSSL_IS_AWSLC
    t->used = true;
    return __builtin_expect(t->ssl != NULL, 1) || tls_restore(t);
#else
    (void)t;
    return true;
#endif
}

/* tls_early.c: as the calls of OpenSSL that they stand for, to be judged alike. */
enum {
    TLS_EARLY_MAX = 16384, /* bytes of early data, of one connection */
};
/* False: this library takes none. */
bool tls_early_prepare(SSL_CTX *ctx);
/* 1: complete, or early data has come. */
int tls_early_handshake(struct tls *t);
/* Unless it is NONE: what is read, and written. */
int tls_early_read(struct tls *t, char *to, int room);
int tls_early_write(struct tls *t, struct slice plain);

/* tls_tickets.c */
enum {
    TICKET_NAME = 16,
};
/* Of four hours. */
struct ticket_key {
    unsigned char name[TICKET_NAME]; /* stands in front of each ticket (RFC 5077 4) */
    unsigned char aes[32], mac[32];
};

void tls_tickets_use(struct tls_tickets *t, SSL_CTX *ctx);
/* A copy of the key of this name, or of the one that seals now.  -1: there is none, 0: it is good, 1: it is good, and
 * the ticket shall be replaced. */
int tls_tickets_find(struct tls_tickets *t, const unsigned char *name, struct ticket_key *out);

#endif
