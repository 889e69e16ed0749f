/* rep_esi.h -- a page that is put together of a stored one and the responses to its includes.
 *
 *   page      a source of leases: the stored page's text, and between it the bodies of its includes
 *   include   a request of its own; its response is collected by reference (esi_include.c)
 *   tree      all includes for one request of a client, of any level: what they may take together
 *
 * The page is read ahead, so that its includes are under way together; they are sent in order.
 *
 * Threads: one loop's.  Errors: TERR_*.
 */
#ifndef TARN_REP_ESI_H
#define TARN_REP_ESI_H

#include "conf/conf.h"
#include "daemon/http/exchange.h"
#include "daemon/proxy/rep_reader.h"

struct proxy;

/* Of a client's request, in its page. */
struct esi_tree {
    unsigned includes; /* asked for, all levels */
    uint64_t bytes;    /* of their bodies */
};

struct esi_page_spec {
    struct proxy *proxy;
    struct exchange *x; /* that the page answers; it outlives the page */
    bool raw;           /* as it came from the origin */
};

/* From the first byte on, before anything is read.  0 or TERR_NOMEM. */
int rep_esi(struct rep_reader *rd, const struct esi_page_spec *spec);

/* The path that an include's URL means on a page, in `out`, where page.len + url.len + 1 is room for any: its length,
 * and *authority becomes another one if the URL names that; TERR_SYNTAX: no request can ask for it; TERR_LIMIT. */
int esi_resolve(struct slice *authority, struct slice page, struct slice url, struct span out);

#endif
