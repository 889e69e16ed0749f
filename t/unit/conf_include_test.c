/* conf_include_test.c -- a configuration of several files. */
#include "t/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "t/unit/conf_fixture.h"

#define LISTEN "listen: [{address: '127.0.0.1:0'}]\n"

/* A directory with files; `cd` into it, so that messages name them as they are written here. */
struct place {
    char dir[48], back[4096];
};

static struct place
place_open(void)
{
    struct place p = {
        .dir = "/tmp/tarn-include-[x]-XXXXXX"}; /* no pattern, whatever it looks like */

    CHECK(mkdtemp(p.dir) != NULL);
    CHECK(getcwd(p.back, sizeof(p.back)) != NULL);
    CHECK_EQ(0, chdir(p.dir));
    CHECK_EQ(0, mkdir("conf.d", 0755));
    return p;
}

static void
place_close(struct place *p)
{
    char command[128];

    CHECK_EQ(0, chdir(p->back));
    snprintf(command, sizeof(command), "rm -r '%s'", p->dir);
    CHECK_EQ(0, system(command));
}

static void
put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    CHECK(f != NULL && fputs(text, f) >= 0);
    fclose(f);
}

/* The snapshot, or NULL and what is printed in `said`. */
static const struct conf *
read_file(const char *path, char *said, size_t size)
{
    const struct conf *conf = NULL;
    struct conf_error *errors;
    struct memo *m = memo_new();
    int err = conf_load(&conf, path, &errors);

    for (struct conf_error *e = errors; e != NULL; e = e->next) {
        free(e->source); /* only the first lines */
        e->source = NULL;
    }
    conf_errors_print(errors, path, &m->sink);
    snprintf(said, size, "%s", m->text);
    conf_errors_free(&errors);
    free(m);
    CHECK((err == 0) == (conf != NULL));
    return conf;
}

static void
expect_said(const char *want)
{
    char said[4096];
    const struct conf *conf = read_file("t.yaml", said, sizeof(said));

    conf_free(&conf);
    CHECK_STR(want, said);
}

TEST(conf_include, lists_follow_each_other_and_maps_become_one_in_the_order_of_names)
{
    struct place p = place_open();
    const struct conf *c;
    char said[4096], path[256];

    put("t.yaml", LISTEN BACKEND "include: conf.d/*.yaml\nroutes: [{path: /a, backend: o}]\n"
                                 "trusted_proxies: [10.0.0.1]\nparameters: {default_ttl: 1s}\n");
    put("conf.d/20.yaml", "routes: [{path: /c, backend: n}]\nparameters: {default_keep: 3s}\n"
                          "listen: [{address: '127.0.0.2:0'}]\nlimits: [{rate: 5}]\n");
    put("conf.d/10.yaml",
        "routes: [{path: /b, backend: n}]\nbackends: {n: {address: '127.0.0.1:81'}}\n"
        "trusted_proxies: [10.0.0.2]\nparameters: {default_grace: 2s}\n");
    put("conf.d/30.yaml", "# nothing\n");
    put("conf.d/40.yml", "nonsense: 1\n"); /* does not match */
    put("conf.d/.50.yaml", "nonsense: 1\n");
    snprintf(path, sizeof(path), "%s/t.yaml", p.dir);
    for (unsigned i = 0; i < 2; i++) {
        c = read_file(i == 0 ? "t.yaml" : path, said, sizeof(said));
        CHECK_STR("", said);
        CHECK_EQ(3, c->nincluded);
        CHECK_EQ(2, c->nbackends);
        CHECK_EQ(3, c->nroutes);
        CHECK_STR("/a", c->routes[0].path);
        CHECK_STR("/b", c->routes[1].path);
        CHECK_STR("/c", c->routes[2].path);
        CHECK_EQ(2, c->nlistens);
        CHECK(c->listens[0].file == NULL);
        CHECK(strstr(c->listens[1].file, "conf.d/20.yaml") != NULL);
        CHECK_EQ(2, c->trusted_proxies.set.n);
        CHECK_EQ(1, c->nlimits);
        CHECK_EQ(1000, c->params.default_ttl);
        CHECK_EQ(2000, c->params.default_grace);
        CHECK_EQ(3000, c->params.default_keep);
        conf_free(&c);
    }
    place_close(&p);
}

TEST(conf_include, a_glob_without_a_match_is_none_and_a_missing_file_is_an_error)
{
    struct place p = place_open();

    put("t.yaml", BACKEND "include: [conf.d/*.yaml, nowhere/*.yaml]\n");
    expect_said("");
    put("t.yaml", "include: [more.yaml, conf.d]\n");
    expect_said("t.yaml:1:11: include: cannot read more.yaml: No such file or directory\n"
                "t.yaml:1:22: include: cannot read conf.d: Is a directory\n");
    CHECK_EQ(0, mkfifo("fifo", 0600));
    put("t.yaml", BACKEND "include: fifo\n");
    expect_said("t.yaml:2:10: include: cannot read fifo: it is no regular file\n");
    put("t.yaml", BACKEND "include: ''\n");
    expect_said("");
    put("t.yaml", BACKEND "include: {}\n");
    expect_said("t.yaml:2:10: include must not be a map: give it a list of words without a space "
                "in them, as in [one, two]\n");
    place_close(&p);
}

TEST(conf_include, what_stands_twice_names_both_places)
{
    struct place p = place_open();

    put("t.yaml", BACKEND "include: conf.d/*.yaml\nworkers: 1\nparameters: {default_ttl: 1s}\n");
    put("conf.d/a.yaml", "backends: {o: {address: '127.0.0.1:81'}}\nworkers: 2\n");
    put("conf.d/b.yaml", "vcl: a.vcl\nparameters:\n  default_ttl: 2s\n");
    put("conf.d/c.yaml", "vcl: b.vcl\nbackends: [o]\n");
    put("conf.d/a.vcl", "vcl 4.1;\n");
    expect_said("conf.d/a.yaml:1:12: duplicate key 'o', first in t.yaml:1:12: remove one\n"
                "conf.d/a.yaml:2:1: duplicate key 'workers', first in t.yaml:3:1: remove one\n"
                "conf.d/b.yaml:3:3: duplicate key 'default_ttl', first in t.yaml:4:14: remove one\n"
                "conf.d/c.yaml:1:1: duplicate key 'vcl', first in conf.d/b.yaml:1:1: remove one\n"
                "conf.d/c.yaml:2:1: duplicate key 'backends', first in t.yaml:1:1: remove one\n");
    place_close(&p);
}

TEST(conf_include, mistakes_are_said_with_their_file)
{
    struct place p = place_open();

    put("t.yaml", BACKEND "include: [conf.d/*.yaml]\nworkers: 0\n");
    put("conf.d/a.yaml",
        "routes:\n  - {path: /x, backend: p}\n  - {path: y, backend: o}\nfoo: 1\n");
    put("conf.d/b.yaml", "parameters:\n  default_ttl: ${TARN_NOT_THERE}\n");
    put("conf.d/c.yaml", "include: more.yaml\n");
    put("conf.d/d.yaml", "- a\n");
    expect_said(
        "t.yaml:3:10: workers: '0' is too small: the least is 1\n"
        "conf.d/a.yaml:3:12: path: 'y' does not begin with '/'\n"
        "conf.d/a.yaml:4:1: unknown section 'foo'; there are: listen, workers, trusted_proxies, "
        "storage, probes, backends, directors, routes, limits, include, vcl, index, "
        "negative_cache, compress, esi, tables, fleet, admin, parameters\n"
        "conf.d/b.yaml:2:16: ${TARN_NOT_THERE}: the environment has no variable TARN_NOT_THERE: "
        "set it where tarnd is started, or write ${TARN_NOT_THERE:-default}\n"
        "conf.d/c.yaml:1:1: an included file includes no others: name them in t.yaml\n"
        "conf.d/d.yaml:1:1: an included file must be a map, not a list\n");
    place_close(&p);
}

TEST(conf_include, broken_syntax_of_one_file_makes_nothing_missing)
{
    struct place p = place_open();

    put("t.yaml", "include: [conf.d/*.yaml]\nroutes: [{path: /x, backend: p}]\n");
    put("conf.d/a.yaml", "backends: {p: {\n");
    expect_said(
        "conf.d/a.yaml:2:1: YAML syntax: did not find expected node content while parsing a "
        "flow node: a comma or a closing bracket is missing\n");
    place_close(&p);
}

TEST(conf_include, a_file_is_read_once)
{
    struct place p = place_open();

    put("t.yaml", BACKEND "include: ['*.yaml', conf.d/a.yaml, conf.d/*.yaml]\n");
    put("conf.d/a.yaml", "routes: [{path: /x, backend: o}]\n");
    CHECK_EQ(0, symlink("a.yaml", "conf.d/b.yaml"));
    expect_said(
        "t.yaml:2:11: include: t.yaml is this file itself: name others\n"
        "t.yaml:2:36: include: conf.d/a.yaml is read already, as conf.d/a.yaml: name it once\n"
        "t.yaml:2:36: include: conf.d/b.yaml is read already, as conf.d/a.yaml: name it "
        "once\n");
    place_close(&p);
}

TEST(conf_include, paths_begin_at_the_file_that_names_them)
{
    struct place p = place_open();
    const struct conf *c;
    char said[4096], path[256], want[256];

    put("t.yaml", BACKEND "include: conf.d/a.yaml\n");
    put("conf.d/a.yaml", "vcl: p.vcl\nroutes: [{path: /x, backend: o, error_page: sorry.html}]\n");
    expect_said("conf.d/a.yaml:1:6: vcl: the policy's file conf.d/p.vcl cannot be read: No such "
                "file or directory\n"
                "conf.d/a.yaml:2:45: error_page: cannot read conf.d/sorry.html: No such file or "
                "directory\n");
    put("conf.d/p.vcl", "vcl 4.1;\n");
    put("conf.d/sorry.html", "sorry");
    snprintf(path, sizeof(path), "%s/t.yaml", p.dir);
    snprintf(want, sizeof(want), "%s/conf.d/p.vcl", p.dir);
    c = read_file(path, said, sizeof(said));
    CHECK_STR("", said);
    CHECK_STR(want, c->vcl);
    conf_free(&c);
    place_close(&p);
}

TEST(conf_include, a_text_that_is_no_file_includes_none)
{
    expect_errors(BACKEND "include: conf.d/*.yaml\n",
        "2:10 include: this configuration is no file, so there is nothing beside it\n");
}

TEST_MAIN(
    TEST_ENTRY(conf_include, lists_follow_each_other_and_maps_become_one_in_the_order_of_names),
    TEST_ENTRY(conf_include, a_glob_without_a_match_is_none_and_a_missing_file_is_an_error),
    TEST_ENTRY(conf_include, what_stands_twice_names_both_places),
    TEST_ENTRY(conf_include, mistakes_are_said_with_their_file),
    TEST_ENTRY(conf_include, broken_syntax_of_one_file_makes_nothing_missing),
    TEST_ENTRY(conf_include, a_file_is_read_once),
    TEST_ENTRY(conf_include, paths_begin_at_the_file_that_names_them),
    TEST_ENTRY(conf_include, a_text_that_is_no_file_includes_none))
