/* message_out.c -- fields that are made of several. */
#include "daemon/http/message_out.h"

enum {
    VERSION_NAME = sizeof("HTTP/") - 1 /* without it HTTP is meant (RFC 9110 7.6.3) */
};

/* The way of the last message, and ours (RFC 9110 7.6.3). */
void
message_out_via(struct message_out *o, const struct http_message *from, struct slice pseudonym)
{
    const struct http_field *f = NULL;
    struct slice version;

    if (pseudonym.len == 0)
        return;
    tassert_slow(http_value_ok(pseudonym));
    message_out_open(o, HTTP_F_VIA, SLICE_LIT("Via"));
    while ((f = http_find(from, HTTP_F_VIA, f)) != NULL) {
        /* An empty one would leave ", ," behind. */
        if (f->drop || f->value_len == 0)
            continue;
        message_out_put(o, http_value(from, f));
        MESSAGE_OUT_LIT(o, ", ");
    }
    /* The version of the message that was received, not of the one that is sent. */
    version = http_version_text(from);
    message_out_put(o, slice_of(version.ptr + VERSION_NAME, version.len - VERSION_NAME));
    MESSAGE_OUT_LIT(o, " ");
    message_out_put(o, pseudonym);
    message_out_close(o);
}
