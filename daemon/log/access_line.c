/* access_line.c -- the fields of a format of one's own. */
#include "daemon/log/access_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "daemon/log/access_format_priv.h"

_Static_assert(ACCESS_FIELD_TEXT == 4 * SHMLOG_TEXT_MAX, "a text with every byte escaped");
_Static_assert(ACCESS_PATTERN_LINE_MAX <= ACCESS_LINE_MAX, "a line fits its buffer");
_Static_assert(4 * BACKEND_NAME_MAX <= 1024, "a name fits its field");
#define X(name, most, doc) \
    _Static_assert(4 * (most) <= ACCESS_FIELD_NAME, "what TLS said of " #name " fits its field");
SHMLOG_TLS_TABLE(X)
#undef X

/* "-" as in other logs: an empty field would move those behind it. */
static char *
line_text(char *to, struct slice s)
{
    return s.ptr == NULL || s.len == 0 ? stpcpy(to, "-") : access_escape(to, s);
}

static char *
line_number(char *to, uint64_t n)
{
    return to + sprintf(to, "%" PRIu64, n);
}

static char *
line_backend(char *to, const struct shmlog_req_fixed *f, const struct backend_names_view *names)
{
    char name[BACKEND_NAME_MAX];
    size_t n;

    if (f->backend == 0)
        return stpcpy(to, "-");
    /* As in access_json_backend(): the name that it had then. */
    n = names != NULL ? backend_names_view_get(names, f->backend - 1u, f->start_ms, name) : 0;
    return n > 0 ? line_text(to, slice_of(name, n)) : line_number(to, f->backend - 1u);
}

static char *
line_when(char *to, enum access_field field, int64_t start_ms)
{
    char *end;

    if (field == ACCESS_FIELD_time_local)
        return access_time_local(to, start_ms);
    if (field == ACCESS_FIELD_msec)
        /* nginx's msec: seconds with three digits. */
        return start_ms < 0
                   ? stpcpy(to, "-")
                   : to + sprintf(to, "%" PRId64 ".%03d", start_ms / 1000, (int)(start_ms % 1000));
    end = access_time_utc(to, start_ms);
    return end != NULL ? end : stpcpy(to, "-");
}

/* Method, target and version: of what was not a request there is the line alone. */
static char *
line_request(char *to, enum access_field field, const struct shmlog_req *r)
{
    struct slice method, url;

    access_request_split(r, &method, &url);
    /* NULL, and so "-", where the line was no request. */
    if (field == ACCESS_FIELD_request_method)
        return line_text(to, method);
    if (field == ACCESS_FIELD_request_uri)
        return line_text(to, url);
    return stpcpy(to, method.ptr == NULL ? "-" : shmlog_version_text(r->fixed.version));
}

static char *
line_seconds(char *to, uint32_t us)
{
    /* Three digits, as nginx has them: programs that read its logs read these. */
    return to + sprintf(to, "%" PRIu32 ".%03" PRIu32, us / 1000000, us / 1000 % 1000);
}

static char *
line_word(char *to, const char *word)
{
    return stpcpy(to, word != NULL ? word : "-");
}

static char *
line_tls(char *to, enum access_field field, const struct shmlog_req *r)
{
    static const enum shmlog_tls texts[] = {
        [0] = SHMLOG_TLS_version,
        [ACCESS_FIELD_ssl_cipher - ACCESS_FIELD_ssl_protocol] = SHMLOG_TLS_cipher,
        [ACCESS_FIELD_ssl_session_reused - ACCESS_FIELD_ssl_protocol] = SHMLOG_TLS_reused,
        [ACCESS_FIELD_ssl_server_name - ACCESS_FIELD_ssl_protocol] = SHMLOG_TLS_server_name,
        [ACCESS_FIELD_ssl_client_s_dn - ACCESS_FIELD_ssl_protocol] = SHMLOG_TLS_client_subject,
        [ACCESS_FIELD_ssl_client_i_dn - ACCESS_FIELD_ssl_protocol] = SHMLOG_TLS_client_issuer,
        [ACCESS_FIELD_ssl_client_serial - ACCESS_FIELD_ssl_protocol] = SHMLOG_TLS_client_serial,
        [ACCESS_FIELD_ssl_client_fingerprint - ACCESS_FIELD_ssl_protocol] =
            SHMLOG_TLS_client_fingerprint,
    };

    return line_text(to, shmlog_req_tls(r, texts[field - ACCESS_FIELD_ssl_protocol]));
}

/* Names and forms are nginx's where it has the field, so a log_format of there can be taken
 * over. */
static char *
line_field(char *to, enum access_field field, const struct shmlog_req *r,
    const struct backend_names_view *names)
{
    const struct shmlog_req_fixed *f = &r->fixed;

    switch (field) {
    case ACCESS_FIELD_remote_addr:
        return to + access_client_text(to, f);
    case ACCESS_FIELD_remote_port:
        return line_number(to, f->port);
    case ACCESS_FIELD_time_local:
    case ACCESS_FIELD_time_iso8601:
    case ACCESS_FIELD_msec:
        return line_when(to, field, f->start_ms);
    case ACCESS_FIELD_request:
        return access_request(to, r);
    case ACCESS_FIELD_request_method:
    case ACCESS_FIELD_request_uri:
    case ACCESS_FIELD_server_protocol:
        return line_request(to, field, r);
    case ACCESS_FIELD_host:
    /* nginx's names beside ours: a format of there works here. */
    case ACCESS_FIELD_http_host:
        return line_text(to, r->host);
    case ACCESS_FIELD_referer:
    case ACCESS_FIELD_http_referer:
        return line_text(to, r->referer);
    case ACCESS_FIELD_user_agent:
    case ACCESS_FIELD_http_user_agent:
        return line_text(to, r->agent);
    case ACCESS_FIELD_request_length:
        return line_number(to, f->bytes_in);
    case ACCESS_FIELD_status:
        return line_number(to, f->status);
    case ACCESS_FIELD_bytes_sent:
        return line_number(to, f->head_bytes + f->body_bytes);
    case ACCESS_FIELD_body_bytes_sent:
        return line_number(to, f->body_bytes);
    case ACCESS_FIELD_request_time:
        return line_seconds(to, f->duration_us);
    case ACCESS_FIELD_time:
        return line_number(to, f->duration_us);
    case ACCESS_FIELD_ttfb:
        return line_number(to, f->ttfb_us);
    case ACCESS_FIELD_cache:
        return line_word(to, access_cache_word(f->flags));
    case ACCESS_FIELD_backend:
        return line_backend(to, f, names);
    case ACCESS_FIELD_request_id:
        return to + sprintf(to, "%016" PRIx64, r->ids.xid);
    case ACCESS_FIELD_request_completion:
        return stpcpy(to, f->flags & SHMLOG_REQ_TRUNCATED ? "-" : "OK");
    case ACCESS_FIELD_esi_level:
        return line_number(to, shmlog_level(f->flags));
    case ACCESS_FIELD_esi_parent:
        if (shmlog_level(f->flags) == 0)
            return line_word(to, NULL);
        return to + sprintf(to, "%016" PRIx64, r->ids.parent_xid);
    case ACCESS_FIELD_scheme:
        return stpcpy(to, access_scheme(f));
    case ACCESS_FIELD_https:
        return stpcpy(to, f->flags & SHMLOG_REQ_HTTPS ? "on" : "-");
    case ACCESS_FIELD_ssl_early_data:
        return line_word(to, f->flags & SHMLOG_REQ_EARLY ? "1" : NULL);
    case ACCESS_FIELD_ssl_protocol:
    case ACCESS_FIELD_ssl_cipher:
    case ACCESS_FIELD_ssl_session_reused:
    case ACCESS_FIELD_ssl_server_name:
    case ACCESS_FIELD_ssl_client_s_dn:
    case ACCESS_FIELD_ssl_client_i_dn:
    case ACCESS_FIELD_ssl_client_serial:
    case ACCESS_FIELD_ssl_client_fingerprint:
        return line_tls(to, field, r);
    case ACCESS_FIELD_COUNT:
        break;
    }
    TUNREACHABLE("a field of the table");
}

/* `pattern` was checked when it was parsed: the longest line that its pieces can make fits
 * ACCESS_LINE_MAX. */
size_t
access_line(char *buf, const struct access_pattern *pattern, const struct shmlog_req *r,
    const struct backend_names_view *names)
{
    char *to = buf;

    for (unsigned i = 0; i < pattern->n; i++) {
        const struct access_piece *p = &pattern->pieces[i];

        to = p->field == ACCESS_FIELD_COUNT ? mempcpy(to, p->text.ptr, p->text.len)
                                            : line_field(to, p->field, r, names);
    }
    /* No text can end the line before: access_escape() leaves no control character. */
    *to++ = '\n';
    tassert(to - buf <= ACCESS_LINE_MAX);
    return (size_t)(to - buf);
}
