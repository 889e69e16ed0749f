/* conf_fixture.h -- what the tests of the configuration share. */
#ifndef TARN_CONF_FIXTURE_H
#define TARN_CONF_FIXTURE_H

#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"

#define BACKEND "backends: {o: {address: '127.0.0.1:80'}}\n"

/* A sink that remembers. */
struct memo {
    struct conf_sink sink;
    char text[131072];
    size_t len;
};

static inline void
memo_write(struct conf_sink *sink, const char *text)
{
    struct memo *m = container_of(sink, struct memo, sink);
    size_t len = strlen(text);

    assert_true(m->len + len < sizeof(m->text));
    memcpy(m->text + m->len, text, len + 1);
    m->len += len;
}

static inline struct memo *
memo_new(void)
{
    struct memo *m = calloc(1, sizeof(*m));

    m->sink.write = memo_write;
    return m;
}

/* One "LINE:COLUMN MESSAGE" a line. */
static inline void
expect_errors(const char *yaml, const char *want)
{
    const struct conf *conf = NULL;
    struct conf_error *errors;
    char got[16384] = "";
    size_t len = 0;

    CHECK_EQ(TERR_CONFIG, conf_load_text(&conf, "t.yaml", yaml, strlen(yaml), &errors));
    CHECK(conf == NULL);
    for (const struct conf_error *e = errors; e != NULL; e = e->next)
        len += (size_t)snprintf(
            got + len, sizeof(got) - len, "%u:%u %s\n", e->line, e->column, e->message);
    conf_errors_free(&errors);
    CHECK(errors == NULL);
    CHECK_STR(want, got);
}

static inline const struct conf *
load_with(const char *yaml, conf_resolve_f *resolve)
{
    struct conf_source src = {.name = "t.yaml", .text = slice_str(yaml), .resolve = resolve};
    const struct conf *conf = NULL;
    struct conf_error *errors;
    int err = conf_load_source(&conf, &src, &errors);

    if (errors != NULL)
        print_error("%u:%u %s\n", errors->line, errors->column, errors->message);
    conf_errors_free(&errors);
    CHECK_EQ(0, err);
    return conf;
}

static inline const struct conf *
load(const char *yaml)
{
    return load_with(yaml, NULL);
}

#endif
