/* tls_early.c -- early data of a client that comes back (0-RTT, RFC 8446 2.3).
 *
 * The client's request comes with its first flight, and our answer leaves before its last one: between the two the
 * layer gives and takes plaintext already, and the handshake's rest is done while it decrypts.  A third that copied the
 * first flight may send it again, to us or to another node, and is answered again; what may be answered then is
 * the answerer's to judge (conn_secure.early).  We remember no tickets, so that nothing is kept and nodes
 * exchange nothing: the library refuses early data with a ticket's age that is wrong, by ten seconds with OpenSSL.
 *
 * OpenSSL has calls of its own for early data.  AWS-LC's usual ones give and take it, and it is not taken there. */
#include "daemon/tls/tls_lib.h"
#include "daemon/tls/tls_priv.h"

#ifdef OPENSSL_IS_AWSLC

bool
tls_early_prepare(SSL_CTX *ctx)
{
    (void)ctx;
    return false;
}

int
tls_early_handshake(struct tls *t)
{
    (void)t;
    TUNREACHABLE("none is awaited");
}

int
tls_early_read(struct tls *t, char *to, int room)
{
    (void)t, (void)to, (void)room;
    TUNREACHABLE("none is awaited");
}

int
tls_early_write(struct tls *t, struct slice plain)
{
    (void)t, (void)plain;
    TUNREACHABLE("none is awaited");
}

#else

/* The client's last flight has come. */
static int
early_complete(struct tls *t)
{
    t->early = TLS_EARLY_NONE;
    if (t->secure.early != NULL)
        *t->secure.early = false;
    return tls_lib_send_tickets(t->ssl);
}

bool
tls_early_prepare(SSL_CTX *ctx)
{
    SSL_CTX_set_max_early_data(ctx, TLS_EARLY_MAX);
    SSL_CTX_set_recv_max_early_data(ctx, TLS_EARLY_MAX);
    /* Else a ticket would be one of a list of ours, and good once. */
    SSL_CTX_set_options(ctx, SSL_OP_NO_ANTI_REPLAY);
    return true;
}

int
tls_early_handshake(struct tls *t)
{
    char *p = &t->early_byte;
    size_t n = 0;

    tassert(t->early == TLS_EARLY_AWAITED);
    /* There is no call that only says whether some comes: one byte is taken, and given back by the first read. */
    switch (SSL_read_early_data(t->ssl, p, 1, &n)) {
    case SSL_READ_EARLY_DATA_SUCCESS:
        t->early = TLS_EARLY_READS;
        t->early_held = true;
        return 1;
    case SSL_READ_EARLY_DATA_FINISH:
        t->early = TLS_EARLY_NONE;
        return SSL_do_handshake(t->ssl);
    default:
        return 0;
    }
}

int
tls_early_read(struct tls *t, char *to, int room)
{
    size_t n = 0;
    int rc;

    tassert(room > 0 && t->early != TLS_EARLY_AWAITED);
    if (t->early_held) {
        t->early_held = false;
        *to = t->early_byte;
        return 1;
    }
    if (t->early == TLS_EARLY_READS) {
        rc = SSL_read_early_data(t->ssl, to, (size_t)room, &n);
        if (rc != SSL_READ_EARLY_DATA_FINISH)
            return rc == SSL_READ_EARLY_DATA_SUCCESS ? (int)n : 0;
        t->early = TLS_EARLY_OVER;
    }
    rc = SSL_do_handshake(t->ssl);
    if (rc == 1)
        rc = early_complete(t);
    return rc == 1 ? SSL_read(t->ssl, to, room) : rc;
}

int
tls_early_write(struct tls *t, struct slice plain)
{
    size_t n = 0;

    return SSL_write_early_data(t->ssl, plain.ptr, plain.len, &n) == 1 ? (int)n : 0;
}

#endif
