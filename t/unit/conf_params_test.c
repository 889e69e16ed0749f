/* conf_params_test.c -- the policy's file, the admin listener, and parameters that change. */
#include "t/unit/conf_fixture.h"

#include "conf/conf_params.h"

static const struct conf *
load_as(const char *name, const char *yaml)
{
    struct conf_source src = {.name = name, .text = slice_str(yaml)};
    const struct conf *conf = NULL;
    struct conf_error *errors;

    CHECK_EQ(0, conf_load_source(&conf, &src, &errors));
    return conf;
}

static void
expect_vcl(const char *name, const char *yaml, const char *want)
{
    const struct conf *c = load_as(name, yaml);

    CHECK_STR(want, c->vcl);
    conf_free(&c);
}

TEST(conf, the_policys_file_is_sought_from_the_configurations_directory_on)
{
    expect_vcl("tarn.yaml", BACKEND, "");
    expect_vcl("tarn.yaml", BACKEND "vcl: ''", "");
    expect_vcl("tarn.yaml", BACKEND "vcl: site.vcl", "site.vcl");
    expect_vcl("/etc/tarn/tarn.yaml", BACKEND "vcl: site.vcl", "/etc/tarn/site.vcl");
    expect_vcl("conf/a/tarn.yaml", BACKEND "vcl: ../b/site.vcl", "conf/a/../b/site.vcl");
    expect_vcl("/etc/tarn/tarn.yaml", BACKEND "vcl: /srv/site.vcl", "/srv/site.vcl");
    expect_vcl("/tarn.yaml", BACKEND "vcl: site.vcl", "/site.vcl");
    expect_errors(BACKEND "vcl: [a]", "2:6 vcl must not be a list: give it text\n");
    expect_errors(BACKEND "vcl:", "2:1 vcl has no value: give it text\n");
}

TEST(conf, with_a_policy_there_may_be_no_backends)
{
    const struct conf *c = load("vcl: site.vcl");

    CHECK_EQ(0, c->nbackends);
    CHECK_EQ(CONF_NO_BACKEND, c->default_backend);
    conf_free(&c);
    expect_errors("vcl: site.vcl\nroutes: [{backend: o}]",
        "2:20 backend: 'o' is not among the backends: there are none\n");
    expect_errors("vcl: ''", "0:0 no backends: at least one is needed, as in "
                             "`backends: { origin: { address: 127.0.0.1:9000 } }`\n");
    expect_errors("vcl: site.vcl\nbackends: {}",
        "2:11 section 'backends' is empty: at least one is needed\n");
}

TEST(conf, an_admin_listener_is_there_when_its_section_is)
{
    const struct conf *c = load(BACKEND);

    CHECK(c->admin == NULL);
    conf_free(&c);
    c = load(BACKEND "admin: {}");
    CHECK(c->admin->address.is_unix);
    CHECK_STR("/run/tarn/admin.sock", c->admin->address.path);
    CHECK_STR("unix:/run/tarn/admin.sock", c->admin->address.text);
    CHECK_STR("", c->admin->token);
    conf_free(&c);
    c = load(BACKEND "admin: {address: '127.0.0.1:0', token: 0123456789abcdef}");
    CHECK_EQ(1, c->admin->address.naddrs);
    CHECK_STR("0123456789abcdef", c->admin->token);
    conf_free(&c);
    c = load(BACKEND "admin: {address: 'unix:/tmp/a', token: 'abc/def+ghi=jkl='}");
    CHECK_STR("/tmp/a", c->admin->address.path);
    CHECK_STR("abc/def+ghi=jkl=", c->admin->token);
    conf_free(&c);
}

TEST(conf, an_admin_listener_that_anybody_can_reach_needs_a_token)
{
    expect_errors(BACKEND "admin: {address: '*:6082'}",
        "2:18 '*:6082' is open to every client that can connect: add a 'token' of at least 16 "
        "characters, or use unix:/path\n");
    expect_errors(BACKEND "admin: {address: '*:6082', token: ''}",
        "2:35 the token is empty: it needs at least 16 characters\n");
    expect_errors(BACKEND "admin: {token: 0123456789abcde}",
        "2:16 the token has 15 characters: it needs at least 16\n");
    expect_errors(BACKEND "admin: {token: 0123456789 abcdef}",
        "2:16 the token has a space in it, which Authorization cannot carry\n");
    expect_errors(BACKEND "admin: {adress: '*:6082'}",
        "2:9 unknown key 'adress' in section 'admin'; did you mean 'address'?\n");
    expect_errors(BACKEND "admin: yes", "2:8 section 'admin' must be a map, not text ('yes')\n");
    expect_errors(
        BACKEND "admin:", "2:1 section 'admin' has no value: give it a map, or remove it\n");
}

TEST(conf, what_the_file_says_of_ttl_and_grace_is_remembered)
{
    const struct conf *c = load(BACKEND "parameters: {default_ttl: 0s}");

    CHECK(c->ttl_said && c->params.ttl_said && !c->grace_said && !c->params.grace_said);
    conf_free(&c);
    c = load(BACKEND "parameters: {default_grace: 10s}");
    CHECK(!c->ttl_said && !c->params.ttl_said && c->grace_said && c->params.grace_said);
    conf_free(&c);
}

TEST(conf, every_parameter_can_be_looked_at)
{
    const struct conf *c = load(BACKEND "parameters: {default_ttl: 90s, http_via: edge}");
    struct conf_param p;
    unsigned live = 0;

    for (unsigned i = 0; i < conf_params_count(); i++) {
        conf_param_see(&c->params, i, &p);
        CHECK_EQ(i, conf_param_find(slice_str(p.name)));
        CHECK(p.doc[0] != '\0' && p.type[0] != '\0' && p.value != NULL && p.def != NULL);
        live += p.live;
    }
    CHECK(live > 20 && live < conf_params_count());
    conf_param_see(&c->params, (unsigned)conf_param_find(SLICE_LIT("default_ttl")), &p);
    CHECK_STR("90s", p.value);
    CHECK_STR("0s", p.def);
    CHECK_STR("10y", p.most);
    CHECK(p.live);
    conf_param_see(&c->params, (unsigned)conf_param_find(SLICE_LIT("http_via")), &p);
    CHECK_STR("edge", p.value);
    CHECK_STR("tarn", p.def);
    CHECK(!p.live);
    CHECK_EQ(TERR_NOTFOUND, conf_param_find(SLICE_LIT("default_tt")));
    conf_free(&c);
}

static void
expect_set(struct conf_params *p, const char *name, const char *value, const char *want)
{
    char why[256] = "";
    int err = conf_param_set(
        p, (unsigned)conf_param_find(slice_str(name)), slice_str(value), why, sizeof(why));

    CHECK_EQ(want[0] != '\0' ? TERR_CONFIG : 0, err);
    CHECK_STR(want, why);
}

TEST(conf, a_parameter_takes_a_new_value_as_the_file_would)
{
    const struct conf *c = load(BACKEND);
    struct conf_params p = c->params;

    expect_set(&p, "default_ttl", "2m", "");
    CHECK_EQ(120000, p.default_ttl);
    CHECK(p.ttl_said && !p.grace_said);
    CHECK(!p.heuristic_said);
    expect_set(&p, "heuristic_fraction", "5%", "");
    CHECK_EQ(5, p.heuristic_fraction);
    CHECK(p.heuristic_said);
    expect_set(&p, "store_set_cookie", "public", "");
    CHECK_STR("public", p.store_set_cookie);
    expect_set(&p, "store_set_cookie", "no",
        "store_set_cookie: 'no' is unknown: it is never, public or always");
    expect_set(&p, "default_ttl", "2",
        "default_ttl: '2' has no unit: write 2s for seconds or 2ms for milliseconds");
    expect_set(&p, "default_ttl", "",
        "default_ttl: '' is not a time: a number and ms, s, m, h, d, w or y, as in 3500ms, 3.5s "
        "or 2h");
    CHECK_EQ(120000, p.default_ttl);
    expect_set(&p, "max_restarts", "11", "max_restarts: '11' is too large: the most is 10");
    expect_set(&p, "http_cache_status", "off", "");
    CHECK_EQ(0, p.http_cache_status);
    expect_set(&p, "log_level", "debug", "");
    CHECK_STR("debug", p.log_level);
    expect_set(&p, "log_level", "loud",
        "log_level: 'loud' is unknown: it is error, warn, info or "
        "debug");
    CHECK_STR("debug", p.log_level);
    conf_free(&c);
}

TEST_MAIN(TEST_ENTRY(conf, the_policys_file_is_sought_from_the_configurations_directory_on),
    TEST_ENTRY(conf, with_a_policy_there_may_be_no_backends),
    TEST_ENTRY(conf, an_admin_listener_is_there_when_its_section_is),
    TEST_ENTRY(conf, an_admin_listener_that_anybody_can_reach_needs_a_token),
    TEST_ENTRY(conf, what_the_file_says_of_ttl_and_grace_is_remembered),
    TEST_ENTRY(conf, every_parameter_can_be_looked_at),
    TEST_ENTRY(conf, a_parameter_takes_a_new_value_as_the_file_would))
