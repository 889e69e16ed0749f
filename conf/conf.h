/* conf.h -- the configuration as an immutable, typed snapshot.
 *
 * conf_load() reads a YAML file and returns either a whole snapshot or every error in the
 * file, each with its place.  Nothing is half-applied.  All strings belong to the snapshot.
 *
 * Threads: a snapshot never changes, so any thread may read it until conf_free().
 */
#ifndef TARN_CONF_H
#define TARN_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "conf/conf_table.h"
#include "daemon/base/address.h"
#include "daemon/base/span.h"

struct addrinfo;
struct conf;
struct conf_memory;

/* An address as written, and resolved when the file was loaded. */
struct conf_address {
    const char *text;               /* as written */
    bool is_unix;                   /* then path; else the addresses */
    const char *path;               /* unix: without the prefix */
    struct sockaddr_storage *addrs; /* a name may have several; in the resolver's order */
    socklen_t *addr_lens;
    unsigned naddrs;        /* 0: unix, or a backend's name that is not resolved (yet) */
    const char *host;       /* host part as written, without brackets; unix: "" */
    uint16_t port;          /* 0: unix, or a listener that takes a free one */
    bool is_https;          /* a backend's, written as https://host */
    const char *unresolved; /* why a backend's name could not be resolved; else NULL */
};

/* A list of networks. */
struct conf_nets {
    const char *text; /* "" */
    struct address_nets set;
};

/* A certificate, with its chain, and its key. */
struct conf_tls_pair {
    const char *certificate, *key; /* files; key "": it is in the certificate's */
};

struct conf_certificates {
    const char *directory;       /* "": a list, or none */
    struct conf_tls_pair *pairs; /* the first is for names that none has */
    unsigned n;
};

#define CONF_ACME_PRODUCTION "https://acme-v02.api.letsencrypt.org/directory"
#define CONF_ACME_STAGING    "https://acme-staging-v02.api.letsencrypt.org/directory"
#define CONF_ACME_STATE      "/var/lib/tarn/acme"

enum {
    CONF_ACME_NAMES_MAX = 100, /* of one certificate: Let's Encrypt's own limit */
    CONF_ACME_NAME_MAX =
        250, /* DNS has 253 (RFC 1035 2.3.4); NAME.pem must be a file's name, of 255 */
    CONF_ACME_URL_MAX = 2048, /* with its NUL */
};

/* Where certificates come from by themselves (RFC 8555). */
struct conf_acme {
    const char *text; /* "" */
    bool said;        /* else all is "" and 0 */
    const char
        *names; /* certificates with a space between them, each its names with commas; lower case */
    const char *email, *directory; /* directory: with `staging` that one's */
    int64_t agree_tos, staging;
    const char *challenge; /* "http-01", "tls-alpn-01" */
    const char
        *webroot;      /* another client leaves its proofs below it; "": tarn-acme is the client */
    const char *state; /* directory of the account, certificates and challenges */
    const char *key_type;               /* "ecdsa", "rsa" */
    int64_t renew_before;               /* ms; 0: not said */
    const char *hook, *ca;              /* "": none; the system's */
    const char *eab_kid, *eab_key_file; /* "": none */
};

/* Why no certificate is made for a name in lower case; NULL: nothing is wrong with it. */
const char *conf_acme_name_wrong(const char *name);
/* One address that an account may have as its contact (RFC 8555 7.3: no hfields, no second one). */
bool conf_acme_email_ok(const char *email);
/* https, and nothing that would break a header or a log line. */
bool conf_acme_url_ok(const char *url);

/* What a listener says of TLS; where it says nothing, all but `text` is 0. */
struct conf_tls {
    const char *text; /* "" */
    bool said;
    struct conf_certificates certificates;
    const char *profile;     /* "intermediate", "modern" */
    const char *client_auth; /* "off", "optional", "required" */
    const char *client_ca;   /* file; "" */
    /* File with the secret of session tickets, which each day's takes the place of; "": one of this process. */
    const char *session_secret;
    int64_t early_data; /* 0-RTT is accepted; requests in it are answered from the cache, or 425 */
    bool http2;         /* as the listener says it: not one of its own keys */
    struct conf_acme acme;
};

/* conf_listen.h2c */
enum {
    CONF_H2C_OFF,
    CONF_H2C_ON,   /* clients may begin with HTTP/2 */
    CONF_H2C_ONLY, /* they must */
};

struct conf_listen {
    const char *file;      /* an included one; NULL: the configuration's own */
    unsigned line, column; /* of its address in the file; 0: it stands in none */
    const char *name;      /* optional; else "listen0", ... */
    struct conf_address address;
    const char *proxy_protocol; /* "off", "required" */
    struct conf_nets trusted;   /* clients that may send a PROXY header; none: all */
    int64_t mode;               /* of a Unix socket's file */
    const char *user, *group;   /* its file's owner; "": as it comes */
    int64_t max_req_body;       /* bytes; 0: as the parameter */
    struct conf_tls tls;
    int64_t http2;        /* with `tls`: may be agreed on; without, it says nothing */
    int64_t h2c;          /* without `tls`: CONF_H2C_OFF, CONF_H2C_ON or CONF_H2C_ONLY */
    const char *redirect; /* "off"; "https": every request, to its URL with https:// */
    int64_t peers;        /* nodes of the fleet alone come in here */
};

struct conf_storage {
    const char *name;
    const char *engine;   /* "malloc", "synth", "fault" */
    uint64_t size;        /* bytes, never 0 */
    const char *eviction; /* "s3-fifo", "lru", "sieve" */
    const char *fault;    /* engine fault: what to do, see storage/engine_fault.c; else "" */
};

/* How a backend is spoken to by TLS; where it is not, all but `text` is 0. */
struct conf_backend_tls {
    const char *text; /* "" */
    bool said;
    int64_t verify;          /* its certificate, against `ca` and `name` */
    const char *ca;          /* file; "": the system's */
    const char *sni;         /* sent as server name; "": none */
    const char *name;        /* that the certificate must be for; "": any */
    const char *certificate; /* file of ours; "": none */
    const char *key;         /* file; "": it is in the certificate's */
};

/* How a backend is asked whether it is well. */
struct conf_probe {
    const char *name;          /* "": one backend's own */
    const char *url;           /* path, and perhaps a query */
    const char *request;       /* whole, with its blank line; "": GET url */
    int64_t interval, timeout; /* ms */
    int64_t window;            /* results that count, 1 to 64 */
    int64_t threshold;         /* of these must be good, or it is sick */
    int64_t initial;           /* good ones that it begins with */
    bool initial_said;         /* by the file; else it counts as well until it was asked */
    int64_t expected_status;
    int64_t expect_close; /* must the answer end with the connection? */
};

struct conf_backend {
    const char *name;
    struct conf_address address;
    const char *host_header;       /* what is sent as Host; "": the client's */
    bool host_if_none;             /* a policy's: only for requests that have no Host */
    int64_t connect_timeout;       /* ms; defaults to the parameter of that name */
    int64_t first_byte_timeout;    /* ms */
    int64_t between_bytes_timeout; /* ms */
    int64_t idle_timeout;          /* ms; default: backend_idle_timeout */
    int64_t max_connections;       /* all workers; 0: no limit */
    int64_t queue_timeout;         /* ms; how long a fetch waits for one of these; 0: it does not */
    int64_t queue_max;             /* fetches of one worker that wait */
    int64_t max_idle;              /* idle connections kept by each worker */
    int64_t dns_ttl;               /* ms; how long a name's addresses hold; 0: for ever */
    int64_t eject_after;           /* failures in a row; 0: never */
    int64_t eject_for;             /* ms, the first time */
    int64_t slow_start;            /* ms; 0: at once */
    struct conf_backend_tls tls;
    int64_t proxy_header;           /* version of the PROXY header that begins each; 0: none */
    const struct conf_probe *probe; /* NULL: none; a policy's probe stands elsewhere */
};

/* Of a director. */
struct conf_member {
    unsigned backend; /* as in a route; a director stands above the one that it is in */
    int64_t weight;
};

struct conf_members {
    struct conf_member *list;
    unsigned n;
};

struct conf_director {
    const char *name; /* no backend has it */
    const char *type; /* "round_robin", "random", "least_connections", "hash", "fallback" */
    struct conf_members backends; /* at least one */
    int64_t balance_factor;       /* hash: percent of the average load; 0: no bound */
    int64_t sticky;               /* fallback: stay with the one that works */
};

/* Values that are lists or maps; `text` is "" and all else 0 where the file says nothing. */
struct conf_time {
    const char *text;
    bool said;
    int64_t ms;
};

struct conf_switch {
    const char *text;
    bool said, on, all; /* all: on, and more than by default */
};

struct conf_names {
    const char *text;
    bool all;                /* true: whatever its name */
    const char *const *list; /* with *, which stands for any bytes */
    unsigned n;
};

struct conf_field {
    const char *name, *value; /* value "": of one that is removed */
};

/* Header fields of a message: removed, then replaced, then added. */
struct conf_fields {
    const char *text;
    struct conf_field *unset, *set, *add;
    unsigned nunset, nset, nadd;
};

struct conf_redirect {
    const char *text;
    const char *to;    /* with $host, $uri, $request_uri; NULL: none */
    int64_t status;    /* 301, 302, 303, 307 or 308 */
    bool unless_https; /* it would be the request's own address */
};

/* What a visitor reads instead of a page of ours. */
struct conf_page {
    const char *text;
    struct slice body; /* .ptr NULL: none */
    bool plain;        /* text/plain, else text/html */
    uint16_t *status;  /* none: 500 to 599 */
    unsigned n;
};

struct conf_user {
    const char *name, *hash;
};

/* Which users may ask: names and passwords of RFC 7617. */
struct conf_auth {
    const char *text, *realm;
    int64_t forward; /* Authorization goes on to the backend */
    bool said;
    struct conf_user *users; /* sorted by name */
    unsigned n;
};

struct conf_route {
    const char *host; /* lower case, no port; "*.example.com": any name below; "": any */
    const char *path; /* prefix; "": any */
    unsigned backend; /* index into conf->backends, or behind these into conf->directors;
                         CONF_NO_BACKEND: none, for a redirect */
    int64_t pipe;     /* may a client upgrade its connection? */
    /* Actions.  `acts`: at least one of them is there. */
    struct conf_time ttl, grace;
    int64_t pass;
    struct conf_names strip_cookies, strip_query, methods;
    struct conf_fields request_headers, response_headers;
    struct conf_redirect redirect;
    struct conf_names rate; /* names of limits */
    uint64_t limits;        /* these: a bit for each of conf->limits */
    struct conf_page error_page;
    struct conf_auth basic_auth;
    const char *dictionary;      /* a pattern of paths; "": none */
    int64_t esi;                 /* no action: responses are processed */
    struct conf_switch compress; /* no action; conf_compress_extent() says what it comes to */
    bool acts;
};

/* Does a host without port, in any case, match the host of a route or limit?  "" matches any. */
bool conf_host_matches(const char *pattern, struct slice host);
/* NULL: there is none of that name. */
const struct conf_table *conf_find_table(const struct conf *conf, const char *name);
/* The hash of a user's password; NULL: there is no such user. */
const char *conf_auth_find(const struct conf_auth *auth, struct slice user);
/* Is it one of them? */
bool conf_names_match(const struct conf_names *names, struct slice name);

/* How often a client may ask. */
struct conf_limit {
    const char *name;  /* "": for all that match; else for routes that name it */
    const char *host;  /* as of a route */
    const char *path;  /* prefix; "": any */
    int64_t rate, per; /* requests, ms */
    int64_t burst;     /* at once; 0: rate */
    struct conf_nets except;
};

#define CONF_INDEX_SLOT_BYTES UINT64_C(8) /* what a slot takes; asserted where it is made */
struct conf_index {
    int64_t bits;  /* log2 of the number of slots; 0: auto, by the storage size */
    int64_t slots; /* of a bucket: 4 or 8 */
};

#define CONF_NEGATIVE_ENTRY_BYTES 32 /* of the main storage, each */
#define CONF_LIMIT_KEY_BYTES      8  /* of the main storage, each of limit_keys */

/* Names that do not exist. */
struct conf_negative {
    int64_t entries; /* 0: there is no such cache */
    int64_t ttl;     /* ms; 0: only what a policy asks for */
};

/* What the includes for one request of a client may take together. */
struct conf_esi {
    int64_t depth, includes;
    int64_t timeout; /* ms */
    int64_t bytes;
};

/* Formats of compression: bits. */
enum conf_compress_format {
    CONF_COMPRESS_GZIP = 1, /* always: it is made while a body arrives, and the others of it */
    CONF_COMPRESS_BR = 2,
    CONF_COMPRESS_ZSTD = 4,
};

/* Which responses are compressed as they arrive.  Where the file says nothing, all but `on` have their
 * defaults: a route may be on by itself. */
struct conf_compress {
    bool on;                /* for routes that do not say it, and for requests without a route */
    int64_t formats;        /* enum conf_compress_format */
    const char *types;      /* words with a space between them, lower case; a subtype may be * */
    int64_t min_size;       /* bytes of a body */
    int64_t states;         /* bodies that a worker compresses at the same time */
    int64_t background_cpu; /* percent of a processor, for br and zstd; 0: none */
};

enum conf_compress_extent {
    CONF_COMPRESS_OFF,
    CONF_COMPRESS_ON,  /* what shows nothing of one client */
    CONF_COMPRESS_ALL, /* that, too */
};
/* What is compressed on this route?  NULL: for a request that no route matches. */
enum conf_compress_extent conf_compress_extent(
    const struct conf *conf, const struct conf_route *route);
/* Is the media type of a Content-Type among them?  Parameters behind it do not count, nor does case. */
bool conf_compress_has_type(const struct conf_compress *compress, struct slice content_type);

struct conf_table {
    const char *name;
    const char *path; /* without .state, .0, .1 */
    const char *kind; /* "any", "set", "map", "prefix", "address", "vector" */
    int64_t check;    /* hash each new version? */
};

enum conf_peer_kind {
    CONF_PEER_NET,
    CONF_PEER_USER, /* of a client on a Unix socket, as the kernel says */
    CONF_PEER_GROUP,
};

struct conf_peer {
    enum conf_peer_kind kind;
    bool known; /* the system has such a user or group */
    uint32_t id;
    struct address_net net;
};

struct conf_peers {
    struct conf_peer *list;
    unsigned n;
};

/* Which clients may read, and which may write, through the admin listener. */
struct conf_allow {
    const char *text;              /* "" */
    bool said;                     /* else every client that can connect */
    struct conf_peers read, write; /* a client that may write may read */
};

/* The admin listener: its address, and which clients may use it. */
struct conf_admin {
    struct conf_address address;
    const char *token; /* "": none is asked for, and then the address is a Unix socket */
    int64_t mode;      /* as of a listener */
    const char *user, *group;
    struct conf_allow allow;
    const char *names; /* that Host may have without a token; words with a space between them */
};

enum {
    CONF_ENGINES_MAX = 8, /* each is tried */
};

/* One address of a fleet's engine, or of a Sentinel. */
struct conf_engine {
    struct conf_address address; /* .text: the URL; of a name as that of a backend */
    const char *text;            /* for messages: "host:port", "[v6]:port", "unix:/path" */
    const char *host, *port;     /* its parts, without brackets; unix: "" */
    bool secure;                 /* rediss:// */
    const char *sni;             /* secure: sent as server name; "": none */
    const char *verify_name; /* secure: that the certificate must be for; "": it is not verified */
    const char *user;        /* "": none */
    int64_t db;
};

/* Nodes that share their invalidations.  Not `said`: no fleet, and texts are "" or their defaults. */
struct conf_fleet {
    bool said;
    const char *name, *node; /* node: the host's name where the file says nothing */
    const char *engine;      /* the URLs, with a space between them */
    struct conf_engine engines[CONF_ENGINES_MAX]; /* scheme, user and db are alike in all */
    unsigned nengines;
    const char *sentinel; /* "": none; else `engines` are Sentinels, and it names the master */
    const char *state;    /* a file; "": none */
    const char *password_file;
    const char *password;        /* "": none.  Stands in no message, report or document */
    struct conf_backend_tls tls; /* said: the engines are `secure`.  sni, name: as the file says */
    int64_t max_blind, wait;     /* ms */
    const char *
        peers; /* "off"; "engine": misses go to the node that owns the key; "dns:NAME", or addresses with a
                        * space between them: the same, and nodes are asked there alone */
    const char *address;    /* host:port of this node for its peers; "" without `peers` */
    int64_t peer_timeout;   /* ms */
    int64_t session_secret; /* of tickets: the fleet's */
    const char *key_prefix;
    int64_t log_entries, log_bytes, log_age; /* log_age: ms, at least twice max_blind */
};

/* One member a parameter: int64_t in the row's unit, or const char *. */
struct conf_params {
#define CONF_CTYPE_MS                        int64_t
#define CONF_CTYPE_BYTES                     int64_t
#define CONF_CTYPE_COUNT                     int64_t
#define CONF_CTYPE_BOOL                      int64_t
#define CONF_CTYPE_POW2                      int64_t
#define CONF_CTYPE_MODE                      int64_t
#define CONF_CTYPE_TEXT                      const char *
#define CONF_CTYPE_ASCII                     const char *
#define CONF_CTYPE_TOKEN                     const char *
#define CONF_CTYPE_PERCENT                   int64_t
#define CONF_CTYPE_COOKIES                   const char *
#define CONF_CTYPE_CHOICE                    const char *
#define CONF_CTYPE_LEVEL                     const char *
#define CONF_CTYPE_FORMAT                    const char *
#define CONF_CTYPE_OUTPUT                    const char *
#define CONF_CTYPE_SYSLOG                    const char *
#define CONF_CTYPE_FORWARDED                 const char *
#define CONF_CTYPE_WORDS                     const char *
#define X(name, type, def, least, most, doc) CONF_CTYPE_##type name;
    CONF_PARAM_TABLE(X)
#undef X
    /* default_ttl, default_grace were given: by the file, or since then by an operator. */
    bool ttl_said, grace_said;
    bool heuristic_said; /* heuristic_fraction or heuristic_max, likewise */
};

struct conf {
    const char *path;
    const char *include; /* names of files; what they say is in here */
    unsigned nincluded;  /* files that were read for that */
    struct conf_listen *listens;
    unsigned nlistens;
    bool listens_act; /* at least one redirects to https, or has ACME */
    bool has_peers;   /* at least one is for the nodes of the fleet */
    int64_t workers;  /* 0: auto, one per CPU that may be used */
    struct conf_nets trusted_proxies;
    struct conf_storage *storages;
    unsigned nstorages;
    struct conf_probe *probes; /* those with names */
    unsigned nprobes;
    struct conf_backend *backends;
    unsigned nbackends; /* 0 only with a policy */
    struct conf_director *directors;
    unsigned ndirectors;
    struct conf_route *routes; /* in order; the first that matches serves */
    unsigned nroutes;
    bool routes_act;           /* at least one has an action */
    struct conf_limit *limits; /* all that match count */
    unsigned nlimits;
    unsigned default_backend; /* as in a route, when none matches; CONF_NO_BACKEND: answer 503 */
    const char *vcl;          /* the policy's file, as open(2) takes it; "": none */
    struct conf_index index;
    struct conf_negative negative;
    struct conf_compress compress;
    bool compresses; /* it is on, or at least one route is */
    struct conf_esi esi;
    bool has_esi; /* of at least one route */
    struct conf_table *tables;
    unsigned ntables;
    struct conf_fleet fleet;
    const struct conf_admin *admin; /* NULL: no admin listener */
    struct conf_params params;
    bool ttl_said;   /* default_ttl stands in the file */
    bool grace_said; /* default_grace does */
    /* Of backends, directors, routes, compress and esi as the file says them: the same in every process that has the
     * same there. */
    uint64_t content;
};

#define CONF_NO_BACKEND UINT32_MAX

struct conf_error {
    char *file;            /* an included one; NULL: the file itself */
    unsigned nth;          /* of the included files; 0: the file itself */
    unsigned line, column; /* from 1, in characters; 0: the file as a whole */
    char *text;            /* the offending text, shortened */
    char *message;         /* what is wrong, and what would be right */
    char *source;          /* the line of the file, printable; NULL where line is 0 */
    struct conf_error *next;
};

/* 0 and a snapshot, owned by the caller, in *out; or TERR_CONFIG, and every error in *errors,
 * in the order of their places (freed with conf_errors_free); or TERR_NOMEM and no errors.
 * Blocks while it resolves names. */
int conf_load(const struct conf **out, const char *path, struct conf_error **errors);
/* As conf_load, for a program that does not serve: it resolves no names, and looks neither at memory nor at
 * the policy's file. */
int conf_load_quick(const struct conf **out, const char *path, struct conf_error **errors);
/* As conf_load, for text that did not come from a file; `name` stands in messages.  Resolves
 * no names: numeric addresses have their naddrs, names have naddrs 0. */
int conf_load_text(const struct conf **out, const char *name, const char *text, size_t len,
    struct conf_error **errors);

/* Answers as getaddrinfo(3) does, with memory for freeaddrinfo(3). */
typedef int conf_resolve_f(
    const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out);

/* As conf_load, but everything that would touch the world is passed in. */
struct conf_source {
    const char *name;                     /* stands in messages, and is the snapshot's path */
    struct slice text;                    /* borrowed for the call */
    conf_resolve_f *resolve;              /* NULL: names are not resolved */
    const struct conf_memory *memory;     /* NULL: not known; see conf_memory.h */
    int (*readable)(const char *path);    /* of the policy's file: 0 or an errno; or NULL */
    bool includes;                        /* may other files be read? */
    const char *(*env)(const char *name); /* ${NAME}; NULL: no variable is set */
};
int conf_load_source(
    const struct conf **out, const struct conf_source *src, struct conf_error **errors);

/* What other nodes of a fleet may say: can a node have this name, and be reached at this address?  The address: a host and
 * a port, neither of them any. */
bool conf_fleet_node_ok(struct slice name);
bool conf_fleet_address_ok(struct slice text);

/* The one that responses go to: the one named main, else the first. */
const struct conf_storage *conf_main_storage(const struct conf *conf);

/* Bytes of a store of this size that its tables may take: index, negative cache, limits.  A file is
 * checked by it before tarnd starts or reloads, and the tables of now when a reload makes it smaller. */
uint64_t conf_tables_most(uint64_t store_bytes);

/* The listener that a connection to `to` reaches, whatever names and interfaces lead there; NULL: none
 * of this configuration.  Asks the kernel for the addresses of this machine where a listener has any. */
const struct conf_listen *conf_listener_at(const struct conf *conf, const struct conf_address *to);

/* Does each of its connections begin with a PROXY header? */
bool conf_listen_is_proxied(const struct conf_listen *l);

/* Takes *cp and *errors, and sets them to NULL; NULL is fine. */
void conf_free(const struct conf **cp);
void conf_errors_free(struct conf_error **errors);

/* Prints errors as `FILE:LINE:COLUMN: message` with the line and a caret; returns how many. */
struct conf_sink {
    void (*write)(struct conf_sink *s, const char *text);
};
unsigned conf_errors_print(const struct conf_error *errors, const char *path, struct conf_sink *to);

/* Of libyaml, as linked. */
const char *conf_yaml_version(void);

#endif
