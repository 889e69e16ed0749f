/* log_format.c -- names and documentation of tags and kinds. */
#include "daemon/shm/log_format.h"

static const struct {
    const char *name, *doc;
    enum shmlog_payload payload;
} shmlog_tags[] = {{"?", "not a tag of this version", SHMLOG_PAYLOAD_TEXT},
#define X(name, payload, when, doc) {#name, doc, SHMLOG_PAYLOAD_##payload},
    SHMLOG_TABLE(X)
#undef X
};

const char *
shmlog_tag_name(unsigned tag)
{
    return shmlog_tags[tag < SHMLOG_TAG_COUNT ? tag : 0].name;
}

enum shmlog_payload
shmlog_tag_payload(unsigned tag)
{
    return shmlog_tags[tag < SHMLOG_TAG_COUNT ? tag : 0].payload;
}

const char *
shmlog_tag_doc(unsigned tag)
{
    return shmlog_tags[tag < SHMLOG_TAG_COUNT ? tag : 0].doc;
}

const char *
shmlog_kind_name(unsigned kind)
{
    static const char *const names[] = {"?",
#define X(name, doc) #name,
        SHMLOG_KIND_TABLE(X)
#undef X
    };
    return names[kind < SHMLOG_KIND_COUNT ? kind : 0];
}
