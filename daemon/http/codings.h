/* codings.h -- Accept-Encoding: the content codings that a client takes (RFC 9110 12.5.3).
 *
 * Two questions.  What it takes at all is asked where a response depends on it (vary.h, forward.h).  In which
 * form a stored body may be given to it is asked for each hit: `forms`, found once for each message, or once
 * for each block of fields that a protocol remembers (h1_memo.h).
 *
 * Threads: any; the last answer is remembered for each thread.
 */
#ifndef TARN_CODINGS_H
#define TARN_CODINGS_H

#include "daemon/http/message.h"

/* What a client takes: bits.  A response that varies by Accept-Encoding is told apart by these. */
enum http_codings {
    HTTP_TAKES_GZIP = 1,
    HTTP_TAKES_BR = 2,
};

unsigned http_codings(const struct http_message *req);
/* What to send as Accept-Encoding: "br, gzip", "br", "gzip", or empty for nothing. */
struct slice http_codings_text(unsigned takes);

/* Forms of a body: bits of http_message.forms.  gzip: the client takes it.  br, zstd: it takes it, and gzip
 * with no greater weight. */
enum http_forms {
    HTTP_FORM_GZIP = 1,
    HTTP_FORM_BR = 2,
    HTTP_FORM_ZSTD = 4,
    HTTP_FORM_DCZ = 7,    /* no bit: for those who have its dictionary (dictionary_available()) */
    HTTP_FORMS_KNOWN = 8, /* of a message: they were found */
};

/* Zstandard by a dictionary (RFC 9842 5), by name: "*" is no dictionary. */
bool http_takes_dcz(const struct http_message *req);

unsigned http_forms_find(const struct http_message *req);

static inline unsigned
http_forms(const struct http_message *req)
{
    return __builtin_expect((req->forms & HTTP_FORMS_KNOWN) != 0, 1) ? req->forms
                                                                     : http_forms_find(req);
}

#endif
