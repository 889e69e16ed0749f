/* backends_tls.c -- TLS to backends. */
#include "daemon/backends_tls.h"

#include "conf/conf.h"
#include "daemon/base/tassert.h"
#include "daemon/origin/director.h"
#include "daemon/tls/tls.h"

/* Set once at the start, before there are workers: the registry's callbacks below have no
 * context of their own. */
static unsigned backends_loops;

/* A maker for each backend, with a context for each loop: so loops share no OpenSSL object, and
 * a session is only resumed with the backend that gave it (tls/README 8). */
static int
backends_tls_open(
    struct secure_client **out, const struct conf_backend *conf, char *why, size_t why_len)
{
    const struct tls_client_conf how = {.verify = conf->tls.verify != 0,
        .ca = conf->tls.ca,
        .sni = conf->tls.sni,
        .name = conf->tls.name,
        .certificate = conf->tls.certificate,
        .key = conf->tls.key,
        .loops = backends_loops};

    tassert(conf->tls.said);
    return tls_client_open(out, &how, why, why_len);
}

/* False makes a reload open the client anew, although the configuration's text is the same: the
 * files may have been renewed in place. */
static bool
backends_tls_is_current(const struct secure_client *c, const struct conf_backend *conf)
{
    const char *const files[TLS_CLIENT_FILES] = {
        conf->tls.ca, conf->tls.certificate, conf->tls.key};

    return tls_client_is_current(c, files);
}

const struct backend_secure *
backends_tls(unsigned loops)
{
    static const struct backend_secure secure = {
        backends_tls_open, backends_tls_is_current, tls_client_close};

    backends_loops = loops;
    return &secure;
}
