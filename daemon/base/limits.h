/* limits.h -- bounds that are not for the operator to set, each with its reason.
 * What an operator may set stands in conf/conf_table.h. */
#ifndef TARN_LIMITS_H
#define TARN_LIMITS_H

enum {
    LIMIT_TASKS_PER_TURN = 4096,   /* then the loop polls once, so that no socket starves */
    LIMIT_REQ_STEPS = 1024,        /* restarts included (at most 100); more is a loop of ours */
    LIMIT_FETCH_STEPS = 1024,      /* as above, with retries */
    LIMIT_WORKERS = 256,           /* per-worker arrays are this long */
    LIMIT_FIELDS = 256,            /* the most http_max_hdr can be set to */
    LIMIT_HEAD_BYTES = 65535,      /* offsets into a head are 16 bits */
    LIMIT_INTERIM = 16,            /* 1xx responses before the final one */
    LIMIT_CHUNK_EXT_LINE = 4096,   /* chunk extension bytes on one line (CVE-2023-39326) */
    LIMIT_CHUNK_EXT_BODY = 16384,  /* and in one body: only attackers use them */
    LIMIT_DRAIN_BODY = 65536,      /* of an unread request body, so that its connection lives */
    LIMIT_LEADING_CRLF = 4,        /* RFC 9112 2.2 says at least one; clients send one */
    LIMIT_READ_SLAB = 65536,       /* what a loop reads into before it hands the bytes out */
    LIMIT_READ_SLABS = 32,         /* 2 MiB a loop; a connection that finds none is read later */
    LIMIT_READ_MIN = 4096,         /* least room for a read; less left: a new slab */
    LIMIT_UNSENT_BYTES = 65536,    /* handed to the kernel's queue behind a full socket */
    LIMIT_WRITE_IOV = 64,          /* buffers in one sendmsg */
    LIMIT_QUEUE_IOV = 4,           /* buffers in one uv_write: more would make libuv allocate */
    LIMIT_PIPELINE_BATCH = 32,     /* answers gathered before they are written */
    LIMIT_LISTEN_SOCKETS = 128,    /* of one address; one message carries 253 descriptors */
    LIMIT_LEASES = 7,              /* extents taken in one batch: a request fits 1 KiB */
    LIMIT_VARIANTS = 64,           /* responses under one key (Vary); the oldest leaves */
    LIMIT_LOOKUP_RETRIES = 8,      /* lock-free looks at the index before it is locked */
    LIMIT_CONN_REQUESTS_TURN = 64, /* pipelined requests one connection answers in a turn */
};

#endif
