/* syslog_to.h -- where lines for a syslog daemon go, as configurations say it.
 *
 *     syslog:local6                      the machine's own: /dev/log
 *     syslog:daemon@/run/log.sock        a Unix socket
 *     syslog:local0@192.0.2.1:514        UDP; an IPv6 address stands in [ ]
 *
 * Threads: any.
 */
#ifndef TARN_SYSLOG_TO_H
#define TARN_SYSLOG_TO_H

#include <sys/socket.h>
#include <time.h>

#include "daemon/base/span.h"

enum {
    SYSLOG_HEAD_MAX = 512
};

enum syslog_severity { /* RFC 5424 6.2.1, table 2 */
    SYSLOG_SEVERITY_ERROR = 3,
    SYSLOG_SEVERITY_WARN = 4,
    SYSLOG_SEVERITY_INFO = 6,
    SYSLOG_SEVERITY_DEBUG = 7,
};

struct syslog_to {
    unsigned facility; /* RFC 5424 6.2.1, table 1 */
    struct sockaddr_storage addr;
    socklen_t addr_len;
};

/* 0; TERR_NOTFOUND: it does not begin as they do; TERR_CONFIG: it does, and `why` says what is
 * wrong with it. */
int syslog_to_parse(struct syslog_to *out, struct slice text, char *why, size_t why_size);
/* What stands before a line: for a Unix socket as syslog(3) writes it (RFC 3164 4.1, without a
 * host), over UDP as RFC 5424 6.2 has it, with `what` as MSGID.  Returns its length. */
size_t syslog_to_head(char head[SYSLOG_HEAD_MAX], const struct syslog_to *to,
    enum syslog_severity severity, const char *what, time_t now);

#endif
