/* acme_order.h -- one certificate from the CA: order, challenges, finalize, download (RFC 8555 7.4).
 *
 * Threads: one.  Blocks, for as long as the CA checks the names: some minutes at most.
 */
#ifndef TARN_ACME_ORDER_H
#define TARN_ACME_ORDER_H

#include "daemon/acme/acme_cert.h"
#include "daemon/acme/acme_client.h"

/* Gets a certificate and writes it to certs/NAME.pem when it has been judged good.  `replaces`: the certID of
 * the one before; "": none.  0, or why not, and then the file is as it was. */
int acme_order_run(
    struct acme_client *c, const struct acme_wanted *w, const char *replaces, struct acme_fail *f);
/* certs/NAME.pem */
void acme_order_file(char *out, size_t size, const struct acme_wanted *w);

#endif
