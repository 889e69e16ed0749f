/* acme_problem_table.h -- the problem types of ACME (RFC 8555 6.7, RFC 8739, RFC 9773), and what would
 * be right, as the operator reads it.
 */
#ifndef TARN_ACME_PROBLEM_TABLE_H
#define TARN_ACME_PROBLEM_TABLE_H

/* clang-format off */
#define ACME_PROBLEM_TABLE(X)                                                                         \
    X("accountDoesNotExist", "the CA does not know this account; the next pass makes another")        \
    X("alreadyReplaced", "another order has replaced this certificate already")                       \
    X("badCSR", "try --key ecdsa or --key rsa, and names that the CA accepts")                        \
    X("badNonce", "the CA refuses each nonce that it gives; its servers disagree, try again later")   \
    X("badPublicKey", "remove account.key and account.json of the state directory: the CA refuses that key") \
    X("badSignatureAlgorithm", "the CA must accept ES256")                                            \
    X("caa", "a CAA record in DNS forbids this CA; allow it, or remove the record")                   \
    X("connection", "the CA's servers must reach this name from the internet, port 80 for http-01, port 443 for tls-alpn-01") \
    X("dns", "this name needs an A or AAAA record that leads to this server, and name servers that answer") \
    X("externalAccountRequired", "this CA wants --eab-kid and --eab-key-file; it gives both to its customers") \
    X("incorrectResponse", "another server answers for this name, or tarnd does not read this state directory") \
    X("invalidContact", "--email must be one address that exists")                                    \
    X("malformed", "the CA does not understand this request; is --directory that of an ACME CA (RFC 8555)?") \
    X("orderNotReady", "the CA has not seen all challenges; try again later")                         \
    X("rateLimited", "wait; tarn-acme does not ask again before the time that the CA names, and --staging has other limits") \
    X("rejectedIdentifier", "the CA gives no certificate for this name; leave it out")                \
    X("serverInternal", "a fault of the CA; try again later")                                         \
    X("tls", "on port 443 tarnd must offer acme-tls/1 from this state directory, and nothing may end TLS in front of it") \
    X("unauthorized", "the CA got another answer than ours: the name must lead to this server, and tarnd must read this state directory") \
    X("unsupportedContact", "--email must be one address, as admin@example.com")                      \
    X("unsupportedIdentifier", "the CA gives certificates for DNS names only of forms it knows; leave this name out") \
    X("userActionRequired", "the CA wants consent to new terms: read them, and give --agree-tos")
/* clang-format on */

#endif
