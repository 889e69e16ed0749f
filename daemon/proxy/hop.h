/* hop.h -- the field by which one node of a fleet asks another, and is answered.
 *
 *   Tarn-Peer: 1 FLEET FROM TO ENGINE MS SEQ POLICY SCHEME CLIENT IDENTITY BACKEND KEY FLAGS CODE
 *   Tarn-Peer: 1 NODE TTL AGE GRACE ERROR KEEP IF-ERROR FLAGS REFUSAL ORIGIN CODE
 *   Tarn-Peer: 1 NODE failed CODE
 *
 * in a question, in its answer, and where the origin has failed the owner; where that does not answer it otherwise, its response has no such
 * field.  What the question asks for is decided
 * where the client is (vcl_recv, vcl_hash, the route's rules); what becomes of the response is decided by the owner
 * (vcl_backend_*): neither is decided twice.  CODE is an HMAC-SHA-256 of what stands before it, method, host, path and
 * the fields in front of this one but those of the connection, in hexadecimal: what is asked once can be asked again,
 * and nothing else.  What a proxy between nodes puts behind it means nothing.  An answer's CODE is one of the question's
 * and of what stands before it: only a node of the fleet can give one, and to this question alone.  Times: ms.
 *
 * Threads: none of their own.
 */
#ifndef TARN_HOP_H
#define TARN_HOP_H

#include "daemon/http/forward.h"
#include "daemon/http/freshness.h"
#include "daemon/http/message.h"
#include "daemon/http/uri.h"
#include "daemon/origin/peers.h"

#define HOP_FIELD FORWARD_PEER

enum {
    HOP_KEY_MAX = 1500, /* bytes of a policy's key; a longer one is asked of the origin */
};

/* Slices with .len 0 say nothing. */
struct hop_question {
    struct slice fleet, from, to;
    struct peers_place wants;
    uint64_t policy; /* policy_rules() of the asking node */
    enum http_scheme scheme;
    struct slice client;  /* its address */
    struct slice backend; /* that the policy named */
    /* client.identity, and the key that a policy made: in a question that was read hexadecimal. */
    struct slice identity, key;
    bool background; /* no client waits for it: what is stored there is served meanwhile */
};

/* Of a question: its answer's code is made with both. */
struct hop_seal {
    uint8_t secret[PEERS_SECRET];
    char code[2 * PEERS_CODE];
};

/* What an answer says of its response. */
struct hop_said {
    struct fresh_verdict verdict;
    bool
        failed; /* it stands in for an answer of the origin: stale, or what a policy made of the error */
};

/* The field, without its code; in the arena; .ptr NULL: no memory. */
struct slice hop_ask(const struct hop_question *q, struct arena *a);
/* Puts the code into the field of a message that was built.  0 or TERR_HEADTOOBIG. */
int hop_sign(struct http_message *m, const struct peers_set *set);
enum hop_refusal {
    HOP_GOOD,
    HOP_MALFORMED, /* no field, two, or not of this form */
    HOP_VERSION,
    HOP_UNSIGNED, /* its code is another one: who asks has another secret, or none */
};
/* *out borrows from the message; *seal does not. */
enum hop_refusal hop_read(struct hop_question *out, struct hop_seal *seal,
    const struct peers_set *set, const struct http_message *m);
/* Of one that is HOP_GOOD: leaves what is signed.  What was read goes on to borrow from it. */
void hop_keep_signed(struct http_message *m);
/* As it was before it was hexadecimal; .ptr NULL: it is none, or no memory. */
struct slice hop_unhexed(struct slice hex, struct arena *a);

enum {
    HOP_ANSWER_MAX = 400
};
/* Its length; 0: it cannot be signed. */
size_t hop_answer(char out[static HOP_ANSWER_MAX], const char *node, const struct hop_said *said,
    const struct hop_seal *seal);
/* The same, of a 502 or 504: the origin's, and not this node's. */
size_t hop_failed(char out[static HOP_ANSWER_MAX], const char *node, const struct hop_seal *seal);
bool hop_read_failed(const struct peers_set *set, struct slice node,
    const struct http_message *question, const struct http_message *m);
/* `question` as it was signed, and the node that it was for.  False: it is no answer to that. */
bool hop_read_answer(struct hop_said *out, const struct peers_set *set, struct slice node,
    const struct http_message *question, const struct http_message *m);

#endif
