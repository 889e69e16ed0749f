/* acme_option_table.h -- the command line of tarn-acme: options, exit status, examples.  Its help is made of
 * these rows, and the manual page is checked against that help.
 */
#ifndef TARN_ACME_OPTION_TABLE_H
#define TARN_ACME_OPTION_TABLE_H

/* clang-format off */
/* Name in C, letter or 0, long option, its argument or NULL, what it is. */
#define ACME_OPTION_TABLE(X)                                                                          \
    X(CONFIG, 'C', "config", "FILE", "tarnd's configuration, for all that the command line does not say.  Without\n" \
      "a NAME by default /etc/tarn/tarn.yaml, else none")                                              \
    X(STATE, 's', "state", "DIR", "the state directory, of mode 0700; made if it is not there.\n"          \
      "Default: /var/lib/tarn/acme")                                                                  \
    X(DIRECTORY, 'd', "directory", "URL", "the CA's directory.  Default: Let's Encrypt, production")  \
    X(STAGING, 0, "staging", NULL, "Let's Encrypt's staging: no client trusts its certificates, and its\n" \
      "limits are wide.  To be tried first")                                                          \
    X(EMAIL, 'm', "email", "ADDR", "where the CA may write to about the account")                     \
    X(AGREE, 0, "agree-tos", NULL, "you agree to the CA's terms of service")                          \
    X(CHALLENGE, 'c', "challenge", "KIND", "http-01 (port 80) or tls-alpn-01 (port 443).  Default: http-01") \
    X(KEY, 'k', "key", "KIND", "of the certificates: ecdsa (P-256) or rsa (2048 bits).  Default: ecdsa") \
    X(RENEW, 0, "renew-before", "DAYS", "renew so many days before the end, or earlier where the CA suggests it\n" \
      "(RFC 9773).  Default: when a third of the life is left, or as the CA suggests")                \
    X(HOOK, 0, "hook", "COMMAND", "run by /bin/sh after certificates have changed.  TARN_ACME_CERTIFICATES has\n" \
      "their names, TARN_ACME_STATE the directory")                                                   \
    X(CA, 0, "ca", "FILE", "CAs, in PEM, that the CA's own server is checked by.  Default: the system's") \
    X(EAB_KID, 0, "eab-kid", "ID", "external account binding: the key's id, as the CA gave it to you") \
    X(EAB_KEY, 0, "eab-key-file", "FILE", "and a file of mode 0600 with the key, in base64url")       \
    X(ONCE, '1', "once", NULL, "one pass, and end.  Default: look again when something is due")       \
    X(RETRY, 0, "retry", NULL, "do not wait after earlier failures")                                  \
    X(DRY, 'n', "dry-run", NULL, "write nothing and order nothing: say what would be done")           \
    X(HELP, 'h', "help", NULL, "this text")                                                           \
    X(VERSION, 'V', "version", NULL, "the version")

#define ACME_EXIT_TABLE(X)                                                                            \
    X(DONE, "every certificate is fresh")                                                             \
    X(FAILED, "a certificate that is due could not be had, or the hook failed; the others were done")  \
    X(USAGE, "the command line or the configuration is wrong")                                                             \
    X(BUSY, "another tarn-acme has the state directory")                                              \
    X(STATE, "the state directory cannot be used: its owner, its mode, the disk")
/* clang-format on */

#endif
