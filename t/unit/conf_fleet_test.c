/* conf_fleet_test.c -- the section fleet: read, compared, and refused, and its password, which nothing shows. */
#include "t/unit/conf_fixture.h"

#include <netdb.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf_compare.h"
#include "conf/conf_keys_table.h"

#define FLEET(text) BACKEND "fleet: {name: shop, " text "}\n"
#define NODE(text)  FLEET("node: a, " text)
#define ENGINE(url) NODE("engine: '" url "'")
#define NOT_HERE(before)                                                                          \
    before "passwords do not stand in the configuration: write it into a file, and name that in " \
           "`password_file`\n"

/* No name has an address, and files are read. */
static int
no_name(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    (void)host, (void)service, (void)hints, (void)out;
    return EAI_NONAME;
}

TEST(conf_fleet, without_the_section_there_is_none)
{
    const struct conf *c = load(BACKEND);

    CHECK(!c->fleet.said);
    CHECK_EQ(0, c->fleet.nengines);
    CHECK_STR("", c->fleet.name);
    CHECK_STR("", c->fleet.node);
    CHECK_STR("", c->fleet.password);
    CHECK_STR("tarn", c->fleet.key_prefix);
    conf_free(&c);
}

TEST(conf_fleet, a_name_and_an_engine_have_all_defaults)
{
    const struct conf *c = load(BACKEND "fleet: {name: shop, engine: 'redis://127.0.0.1'}\n");
    const struct conf_fleet *f = &c->fleet;
    char host[256] = "";

    CHECK_EQ(0, gethostname(host, sizeof(host) - 1));
    CHECK(f->said);
    CHECK_STR("shop", f->name);
    CHECK_STR(host, f->node);
    CHECK_STR("redis://127.0.0.1", f->engine);
    CHECK_EQ(1, f->nengines);
    CHECK_STR("redis://127.0.0.1", f->engines[0].address.text);
    CHECK_STR("127.0.0.1:6379", f->engines[0].text);
    CHECK_STR("127.0.0.1", f->engines[0].host);
    CHECK_STR("6379", f->engines[0].port);
    CHECK_EQ(6379, f->engines[0].address.port);
    CHECK_EQ(1, f->engines[0].address.naddrs);
    CHECK(!f->engines[0].secure && !f->tls.said);
    CHECK_STR("", f->engines[0].user);
    CHECK_EQ(0, f->engines[0].db);
    CHECK_STR("", f->sentinel);
    CHECK_STR("", f->password_file);
    CHECK_STR("", f->state);
    CHECK_STR("", f->password);
    CHECK_EQ(30000, f->max_blind);
    CHECK_EQ(2000, f->wait);
    CHECK_STR("tarn", f->key_prefix);
    CHECK_EQ(1000000, f->log_entries);
    CHECK_EQ(128 << 20, f->log_bytes);
    CHECK_EQ(3600000, f->log_age);
    conf_free(&c);
}

TEST(conf_fleet, every_key_is_read)
{
    const struct conf *c =
        load(NODE("engine: ['REDISS://me@a.test/7', 'rediss://me@[::1]:1/7'], sentinel: my.master, "
                  "password_file: /x, tls: {ca: /ca.pem, name: b.test}, max_blind: 1s, wait: 10ms, "
                  "key_prefix: t-1, log_entries: 1000, log_bytes: 1MiB, log_age: 1m"));
    const struct conf_fleet *f = &c->fleet;

    CHECK_STR("a", f->node);
    CHECK_STR("REDISS://me@a.test/7 rediss://me@[::1]:1/7", f->engine);
    CHECK_EQ(2, f->nengines);
    CHECK_STR("my.master", f->sentinel);
    CHECK_STR("a.test:26379", f->engines[0].text);
    CHECK_STR("[::1]:1", f->engines[1].text);
    CHECK_STR("::1", f->engines[1].host);
    CHECK_EQ(0, f->engines[0].address.naddrs); /* no name is asked for */
    CHECK_EQ(1, f->engines[1].address.naddrs);
    CHECK(f->engines[0].secure && f->engines[1].secure && f->tls.said);
    CHECK_STR("a.test", f->engines[0].sni);
    CHECK_STR("", f->engines[1].sni);
    CHECK_STR("b.test", f->engines[0].verify_name);
    CHECK_STR("b.test", f->engines[1].verify_name);
    CHECK_STR("me", f->engines[1].user);
    CHECK_EQ(7, f->engines[1].db);
    CHECK_STR("/ca.pem", f->tls.ca);
    CHECK_STR("/x", f->password_file);
    CHECK_STR("", f->password); /* of a text no file is read */
    CHECK_EQ(1000, f->max_blind);
    CHECK_EQ(10, f->wait);
    CHECK_STR("t-1", f->key_prefix);
    CHECK_EQ(1000, f->log_entries);
    CHECK_EQ(1 << 20, f->log_bytes);
    CHECK_EQ(60000, f->log_age);
    conf_free(&c);
}

TEST(conf_fleet, an_engine_is_a_port_or_a_socket)
{
    const struct conf *c = load(ENGINE("unix:/run/a@b:c"));
    const struct conf_engine *e = &c->fleet.engines[0];

    CHECK(e->address.is_unix && !e->secure);
    CHECK_STR("/run/a@b:c", e->address.path);
    CHECK_STR("unix:/run/a@b:c", e->text);
    CHECK_STR("", e->host);
    CHECK_STR("", e->port);
    CHECK_STR("", e->user);
    conf_free(&c);
    c = load(ENGINE("redis://[::1]/1048576"));
    CHECK_STR("[::1]:6379", c->fleet.engines[0].text);
    CHECK_EQ(1048576, c->fleet.engines[0].db);
    conf_free(&c);
    c = load(ENGINE("redis://e.test:7/"));
    CHECK_STR("e.test:7", c->fleet.engines[0].text);
    CHECK_STR("7", c->fleet.engines[0].port);
    CHECK_EQ(0, c->fleet.engines[0].db);
    conf_free(&c);
}

TEST(conf_fleet, tls_follows_from_the_scheme)
{
    const struct conf *c = load(ENGINE("rediss://e.test"));

    CHECK(c->fleet.tls.said && c->fleet.tls.verify);
    CHECK_STR("e.test", c->fleet.engines[0].sni);
    CHECK_STR("e.test", c->fleet.engines[0].verify_name);
    conf_free(&c);
    c = load(NODE("engine: 'rediss://127.0.0.1', tls: on"));
    CHECK_STR("", c->fleet.engines[0].sni); /* RFC 6066 3: no address */
    CHECK_STR("127.0.0.1", c->fleet.engines[0].verify_name);
    conf_free(&c);
    c = load(NODE("engine: 'rediss://e.test', tls: {verify: off, sni: s.test}"));
    CHECK_STR("s.test", c->fleet.engines[0].sni);
    CHECK_STR("", c->fleet.engines[0].verify_name);
    conf_free(&c);
    c = load(NODE("engine: 'redis://e.test', tls: ''"));
    CHECK(!c->fleet.tls.said);
    conf_free(&c);
    expect_errors(NODE("engine: 'redis://e.test', tls: on"),
        "2:61 tls is for an engine that begins with rediss://, and 'redis://e.test' does not\n");
    expect_errors(NODE("engine: 'rediss://e.test', tls: off"),
        "2:62 tls: off, but the engine begins with rediss://: write redis:// or on\n");
    expect_errors(NODE("engine: 'rediss://e.test', tls: {key: /k}"),
        "2:68 key 'key' is that of a certificate: name its file in 'certificate'\n");
}

TEST(conf_fleet, a_name_without_address_is_handled_as_a_backends)
{
    const char *with = ENGINE("redis://none.test") "parameters: {dns_required: on}\n";
    struct conf_source src = {.name = "t.yaml", .text = slice_str(with), .resolve = no_name};
    const struct conf *c = load_with(ENGINE("redis://none.test"), no_name);
    struct conf_error *errors;

    CHECK_EQ(0, c->fleet.engines[0].address.naddrs);
    CHECK_STR("Name or service not known", c->fleet.engines[0].address.unresolved);
    conf_free(&c);
    CHECK_EQ(TERR_CONFIG, conf_load_source(&c, &src, &errors));
    CHECK_STR("engine: 'none.test:6379' cannot be resolved: host 'none.test': Name or service not "
              "known; with `dns_required: off` tarnd starts without it",
        errors->message);
    CHECK_EQ(38, errors->column);
    conf_errors_free(&errors);
}

TEST(conf_fleet, each_mistake_of_a_url_is_named)
{
    static const struct {
        const char *url, *want;
    } wrong[] = {
        {"127.0.0.1:6379", "has no scheme: write redis://host:6379, rediss://host:6379 for TLS, or "
                           "unix:/path"},
        {"http://a:1", "begins with http://: write redis://host:6379, rediss://host:6379 for TLS, "
                       "or unix:/path"},
        {"unix:///a", "begins with unix://: write redis://host:6379, rediss://host:6379 for TLS, "
                      "or unix:/path"},
        {"ab://h", "begins with ab://: write redis://host:6379, rediss://host:6379 for TLS, or "
                   "unix:/path"},
        {"valkey://a", "begins with valkey://: write redis://, for a Valkey server, too"},
        {"valkeys://a", "begins with valkeys://: write rediss://, for a Valkey server, too"},
        {"redis://@a", "has no user before the @: leave out the @"},
        {"redis://a%20b@h", "has a user with a character that is no letter, no digit and none of "
                            "-._~!$&'()*+=;"},
        {"redis://h/x", "has a db that is no number, as in redis://host:6379/0"},
        {"redis://h/-1", "has a db that is no number, as in redis://host:6379/0"},
        {"redis://h/1048577", "has a db above 1048576"},
        {"redis://h/99999999999999999999", "has a db above 1048576"},
        {"redis://h/1?x", "has something behind the number of the db: redis://host:6379/0 is all "
                          "of it"},
        {"redis://h?db=1", "has a ? or #: redis://host:6379/0 is all of it"},
        {"unix:run/a", "needs an absolute path, as in unix:/run/tarn.sock"},
    };
    char yaml[512], want[512];

    for (unsigned i = 0; i < ARRAY_LEN(wrong); i++) {
        snprintf(yaml, sizeof(yaml), FLEET("node: a, engine: \"%s\""), wrong[i].url);
        snprintf(want, sizeof(want), "2:38 engine: '%s' %s\n", wrong[i].url, wrong[i].want);
        expect_errors(yaml, want);
    }
    expect_errors(ENGINE("redis://h:0"),
        "2:38 engine: 'h:0' has port 0: only a listener can take a free port\n");
    expect_errors(
        ENGINE("redis://h:"), "2:38 engine: 'h:' has no port behind the colon, as in host:8080\n");
    expect_errors(ENGINE("redis://h:65536"), "2:38 engine: 'h:65536' has a port above 65535\n");
    expect_errors(ENGINE("redis://"),
        "2:38 engine: ':6379' has no host before the colon, as in 127.0.0.1:8080\n");
    expect_errors(ENGINE("redis://::1"),
        "2:38 engine: '::1' is an IPv6 address without brackets: write it as in \"[::1]:8080\"\n");
    expect_errors(
        ENGINE("redis://a b"), "2:38 engine: 'a b:6379' has a space or control character\n");
    expect_errors(ENGINE("redis://*"),
        "2:38 engine: '*:6379' means any address, which only a listener can have\n");
    /* With Sentinels, too. */
    expect_errors(NODE("sentinel: m, engine: ['redis://h/x', 'unix:/run/s']"),
        "2:52 engine: 'redis://h/x' has a db that is no number, as in redis://host:6379/0\n"
        "2:67 engine: 'unix:/run/s' is a Unix socket: with `sentinel` it must be the address of a "
        "Sentinel, as in redis://host:26379\n");
}

TEST(conf_fleet, a_list_is_of_one_engine)
{
    const struct conf *c = load(NODE("engine: ['redis://a', 'redis://b', 'redis://c', 'redis://d', "
                                     "'redis://e', 'redis://f', 'redis://g', 'redis://h']"));

    CHECK_EQ(8, c->fleet.nengines);
    conf_free(&c);
    expect_errors(NODE("engine: []"), "2:38 engine: a list of 0: 1 to 8 are possible\n");
    expect_errors(NODE("engine: [a, a, a, a, a, a, a, a, a]"),
        "2:38 engine: a list of 9: 1 to 8 are possible\n");
    expect_errors(NODE("engine: ['redis://a', {}, '']"),
        "2:52 engine: each of the list must be a URL, as in redis://host:6379\n"
        "2:56 engine: each of the list must be a URL, as in redis://host:6379\n");
    expect_errors(NODE("engine: {host: a}"),
        "2:38 engine must not be a map: give it a URL, or a list of them, as in "
        "[redis://10.0.0.1:6379, redis://10.0.0.2:6379]\n");
    expect_errors(NODE("engine: ['redis://a', 'rediss://b', 'unix:/c']"),
        "2:52 engine: 'rediss://b' has another scheme than 'redis://a': one scheme for all\n"
        "2:66 engine: 'unix:/c' has another scheme than 'redis://a': one scheme for all\n");
    expect_errors(NODE("engine: ['redis://u@a/1', 'redis://u@b', 'redis://a/1']"),
        "2:56 engine: 'redis://u@b' has another user or db than 'redis://u@a/1': the same for all\n"
        "2:71 engine: 'redis://a/1' has another user or db than 'redis://u@a/1': the same for all\n"
        "2:71 engine: 'a:6379' stands twice: remove one\n");
}

TEST(conf_fleet, names_and_bounds_have_their_errors)
{
    expect_errors(BACKEND "fleet: {}\n", "2:1 section 'fleet' has no 'name': give it one\n"
                                         "2:1 section 'fleet' has no 'engine': give it one\n");
    expect_errors(BACKEND "fleet: on\n", "2:8 section 'fleet' must be a map, not text ('on')\n");
    expect_errors(BACKEND "fleet: {name: 'a b', node: a/b, engine: 'redis://a', sentinel: 'a:b'}\n",
        "2:15 name: 'a b' has a character that is no letter, no digit and none of . _ -\n"
        "2:28 node: 'a/b' has a character that is no letter, no digit and none of . _ -\n"
        "2:64 sentinel: 'a:b' has a character that is no letter, no digit and none of . _ -\n");
    expect_errors(BACKEND "fleet: {name: '', node: a, engine: 'redis://a', key_prefix: ''}\n",
        "2:15 name: '' has 0 bytes: 1 to 64 are possible\n"
        "2:61 key_prefix: '' has 0 bytes: 1 to 64 are possible\n");
    expect_errors(NODE("engine: 'redis://a', max_blind: 500ms, wait: 61s, log_entries: 999, "
                       "log_age: 31d"),
        "2:62 max_blind: '500ms' is too small: the least is 1s\n"
        "2:75 wait: '61s' is too large: the most is 1m\n"
        "2:93 log_entries: '999' is too small: the least is 1000\n"
        "2:107 log_age: '31d' is too large: the most is 30d\n");
    expect_errors(NODE("engine: 'redis://a', max_blnd: 1s, xyzzy: [b]"),
        "2:51 unknown key 'max_blnd' in section 'fleet'; did you mean 'max_blind'?\n"
        "2:65 unknown key 'xyzzy' in section 'fleet'; it takes: name, node, engine, sentinel, "
        "state, password_file, tls, max_blind, wait, peers, address, peer_timeout, session_secret, "
        "key_prefix, "
        "log_entries, log_bytes, log_age\n");
}

#define PEERED(listen, more) \
    "listen: [{address: '127.0.0.1:8080'}, {" listen "}]\n" NODE("engine: 'redis://a', " more)

TEST(conf_fleet, peers_need_a_listener_and_an_address)
{
    const struct conf *c = load(PEERED("address: '10.0.0.1:8089', peers: on", "peers: engine"));

    CHECK_STR(c->fleet.address, "10.0.0.1:8089");
    CHECK(c->has_peers && c->listens[1].peers && !c->listens[0].peers);
    CHECK_EQ(c->fleet.peer_timeout, 500);
    conf_free(&c);
    c = load(PEERED("address: '*:8089', peers: on", "peers: engine, address: 'a.test:8089'"));
    CHECK_STR(c->fleet.address, "a.test:8089");
    conf_free(&c);
    c = load(NODE("engine: 'redis://a'"));
    CHECK_STR(c->fleet.peers, "off");
    conf_free(&c);
    expect_errors(NODE("engine: 'redis://a', peers: engine"),
        "2:58 peers: no listener has `peers: on`: the other nodes need an address of this one, as "
        "in "
        "`listen: [..., { address: \"10.0.0.1:8089\", peers: on }]`\n");
    expect_errors(NODE("engine: 'redis://a', peers: all"),
        "2:58 peers: 'all' is none of: off, engine, dns:NAME, or a list of addresses as in "
        "[10.0.0.1:8089, 10.0.0.2:8089]\n");
    expect_errors(NODE("engine: 'redis://a', peers: ['10.0.0.1:8089', '10.0.0.2']"),
        "2:58 peers: '10.0.0.2' is none of: off, engine, dns:NAME, or a list of addresses as in "
        "[10.0.0.1:8089, 10.0.0.2:8089]\n");
    expect_errors(NODE("engine: 'redis://a', peers: 'dns:tarn.internal:8089'"),
        "2:58 peers: 'dns:tarn.internal:8089' is none of: off, engine, dns:NAME, or a list of "
        "addresses "
        "as in [10.0.0.1:8089, 10.0.0.2:8089]\n");
    expect_errors(NODE("engine: 'redis://a', peers: 'dns:'"),
        "2:58 peers: 'dns:' is none of: off, engine, dns:NAME, or a list of addresses as in "
        "[10.0.0.1:8089, 10.0.0.2:8089]\n");
    c = load(
        PEERED("address: '10.0.0.1:8089', peers: on", "peers: ['10.0.0.1:8089', 'b.test:8089']"));
    CHECK_STR(c->fleet.peers, "10.0.0.1:8089 b.test:8089");
    conf_free(&c);
    c = load(PEERED("address: '10.0.0.1:8089', peers: on", "peers: 'dns:tarn.internal'"));
    CHECK_STR(c->fleet.peers, "dns:tarn.internal");
    conf_free(&c);
}

TEST(conf_fleet, an_address_for_peers_is_one_that_they_can_reach)
{
    static const char *const bad[] = {"*:8089", "0.0.0.0:8089", "a.test", ":8089", "a.test:0",
        "a.test:65536", "a.test:80x", "a b:80", "\xc3\xbc.test:80"};

    for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
        char text[400], message[400];

        snprintf(text, sizeof(text),
            PEERED("address: '*:8089', peers: on", "peers: engine, address: '%s'"), bad[i]);
        snprintf(message, sizeof(message),
            "3:75 address: it must be the host:port at which the other nodes reach the listener on "
            "'*:8089', "
            "as in 10.0.0.1:8089\n");
        expect_errors(text, message);
    }
    expect_errors(PEERED("address: '*:8089', peers: on", "peers: engine"),
        "3:8 address: it is missing: the host:port at which the other nodes reach the listener on "
        "'*:8089', as in 10.0.0.1:8089\n");
    expect_errors(PEERED("address: '10.0.0.1:8089', peers: on", "max_blind: 2s"),
        "3:8 peers: it is off, and the listener on '10.0.0.1:8089' is for peers: write `peers: "
        "engine` here, or remove `peers` there\n");
    expect_errors("listen: [{address: '10.0.0.1:8089', peers: on}]\n" BACKEND,
        "1:9 a listener has `peers`, and there is no section 'fleet': only nodes of a fleet ask "
        "there\n");
}

TEST(conf_fleet, the_stream_is_longer_than_a_node_may_be_blind)
{
    const struct conf *c = load(NODE("engine: 'redis://a', max_blind: 30m"));

    CHECK_EQ(c->fleet.log_age, 2 * c->fleet.max_blind);
    conf_free(&c);
    expect_errors(NODE("engine: 'redis://a', max_blind: 40m"),
        "2:62 log_age: 1h is less than twice max_blind, which is 40m: 80m at least, or a smaller "
        "max_blind\n");
    expect_errors(NODE("engine: 'redis://a', max_blind: 40s, log_age: 79s"),
        "2:76 log_age: 79s is less than twice max_blind, which is 40s: 80s at least, or a smaller "
        "max_blind\n");
}

/* ---- passwords ---- */

static char secret_path[] = "/tmp/tarn-fleet-XXXXXX";

static void
secret_write(const char *text, size_t len, mode_t mode)
{
    FILE *f = fopen(secret_path, "w");

    CHECK(f != NULL);
    CHECK_EQ(len, fwrite(text, 1, len, f));
    CHECK_EQ(0, fclose(f));
    CHECK_EQ(0, chmod(secret_path, mode));
}

static const char *
secret_yaml(void)
{
    static char yaml[512];

    snprintf(
        yaml, sizeof(yaml), NODE("engine: 'redis://127.0.0.1', password_file: %s"), secret_path);
    return yaml;
}

static void
secret_refused(const char *before, const char *after)
{
    struct conf_source src = {
        .name = "t.yaml", .text = slice_str(secret_yaml()), .resolve = no_name};
    const struct conf *c = NULL;
    struct conf_error *errors;
    char message[512];

    CHECK_EQ(TERR_CONFIG, conf_load_source(&c, &src, &errors));
    snprintf(message, sizeof(message), "password_file: %s%s%s", before, secret_path, after);
    CHECK_STR(message, errors->message);
    CHECK_EQ(2, errors->line);
    CHECK_EQ(74, errors->column);
    CHECK(errors->next == NULL);
    conf_errors_free(&errors);
}

TEST(conf_fleet, a_password_is_what_its_file_has)
{
    char most[1025];
    const struct conf *c;

    memset(most, 'x', 1024);
    most[1024] = '\n';
    secret_write("hunter2\n", 8, 0640);
    c = load_with(secret_yaml(), no_name);
    CHECK_STR("hunter2", c->fleet.password);
    CHECK_STR(secret_path, c->fleet.password_file);
    conf_free(&c);
    secret_write(" a b ", 5, 0600);
    c = load_with(secret_yaml(), no_name);
    CHECK_STR(" a b ", c->fleet.password);
    conf_free(&c);
    secret_write(most, 1025, 0600);
    c = load_with(secret_yaml(), no_name);
    CHECK_EQ(1024, strlen(c->fleet.password));
    conf_free(&c);
}

TEST(conf_fleet, a_file_that_is_no_password_is_refused)
{
    static const char empty[] = " is empty: write the password into it, or leave "
                                "out `password_file`";
    static const char two[] = " has a line end in the password: only one newline "
                              "at the end may be there";
    char much[1026];

    memset(much, 'x', sizeof(much));
    secret_write("", 0, 0600);
    secret_refused("", empty);
    secret_write("\n", 1, 0600);
    secret_refused("", empty);
    secret_write("a\n\n", 3, 0600);
    secret_refused("", two);
    secret_write("a\r\n", 3, 0600);
    secret_refused("", two);
    secret_write("a\0b\n", 4, 0600);
    secret_refused("", " has a NUL in it: it must be text");
    secret_write(much, 1025, 0600);
    secret_refused("", " has more than 1024 bytes");
    secret_write(much, 1026, 0600);
    secret_refused("", " has more than 1024 bytes");
    secret_write("a", 1, 0644);
    secret_refused("", " has a password, and every user may read or write it: chmod "
                       "0640, with the group of tarnd's user");
    CHECK_EQ(0, unlink(secret_path));
    secret_refused("cannot read ", ": No such file or directory");
    CHECK_EQ(0, mkdir(secret_path, 0700));
    secret_refused("", " is no regular file");
    CHECK_EQ(0, rmdir(secret_path));
}

/* Neither in a message, nor in the line that is shown with it. */
static void
expect_hidden(const char *yaml, const char *want)
{
    const struct conf *c = NULL;
    struct conf_error *errors;
    struct memo *m = memo_new();

    CHECK_EQ(TERR_CONFIG, conf_load_text(&c, "t.yaml", yaml, strlen(yaml), &errors));
    conf_errors_print(errors, "t.yaml", &m->sink);
    CHECK(strstr(m->text, "nter") == NULL);
    for (const struct conf_error *e = errors; e != NULL; e = e->next)
        CHECK(strstr(e->text, "nter") == NULL && strstr(e->source, "nter") == NULL);
    CHECK_STR(want, errors->message);
    conf_errors_free(&errors);
    free(m);
}

TEST(conf_fleet, a_password_in_a_url_is_refused_and_not_shown)
{
    static const char want[] = "engine: passwords do not stand in the configuration: write it into "
                               "a file, and name that in `password_file`";

    char yaml[1024];

    expect_errors(ENGINE("redis://me:hunter2@h"), NOT_HERE("2:38 engine: "));
    expect_hidden(ENGINE("redis://me:hunter2@h"), want);
    expect_hidden(ENGINE("redis://:hu/nt@er2@h:6379/1"), want);
    expect_hidden(ENGINE("me:hunter2@h:6379"), want);
    expect_hidden(ENGINE("http://me:hunter2@h"), want);
    expect_hidden(NODE("engine: \"redis://:\\x68unter2@h\", wat: 1"), want);
    expect_hidden(NODE("engine: [a, 'redis://:hunter2@h', 'redis://:s\303\274nter2@h']"),
        "engine: 'a' has no scheme: write redis://host:6379, rediss://host:6379 for TLS, or "
        "unix:/path");
    expect_hidden(NODE("engine: ['redis://:hunter2@h', a, a, a, a, a, a, a, a]"),
        "engine: a list of 9: 1 to 8 are possible");
    snprintf(yaml, sizeof(yaml), NODE("engine: 'redis://:hunter2@%0600d'"), 1);
    expect_hidden(yaml, "engine: a URL of 617 bytes: 512 are possible");
    expect_hidden(NODE("engine: 'redis://h', password: hunter2"),
        "password: passwords do not stand in the configuration: write it into a file, and name "
        "that in `password_file`");
}

/* ---- reload ---- */

struct told {
    char text[2048];
    size_t len;
};

static void
told_each(void *ctx, const struct conf_change *c)
{
    struct told *t = ctx;

    t->len += (size_t)snprintf(t->text + t->len, sizeof(t->text) - t->len, "%s%s: '%s' '%s'\n",
        c->live ? "" : "! ", c->what, c->from, c->to);
}

static void
expect_changes(const char *old, const char *next, const char *want)
{
    const struct conf *a = load(old), *b = load(next);
    struct told t = {.len = 0};

    conf_compare(a, b, told_each, &t);
    CHECK_STR(want, t.text);
    conf_free(&a);
    conf_free(&b);
}

TEST(conf_fleet, a_changed_fleet_needs_a_restart)
{
    const char *plain = ENGINE("redis://h");

    expect_changes(plain, plain, "");
    expect_changes(plain, NODE("engine: ['redis://h'], max_blind: 30s, tls: off"), "");
    expect_changes(BACKEND, plain, "! fleet: '' 'new'\n");
    expect_changes(plain, BACKEND, "! fleet: 'there' 'gone'\n");
    expect_changes(plain,
        BACKEND "fleet: {name: b, node: c, engine: 'rediss://h/1', sentinel: m, password_file: /p, "
                "max_blind: 1s, wait: 1s, key_prefix: t, log_entries: 2000, log_bytes: 2MiB, "
                "log_age: 2h}",
        "! fleet.name: 'shop' 'b'\n! fleet.node: 'a' 'c'\n"
        "! fleet.engine: 'redis://h' 'rediss://h/1'\n! fleet.sentinel: '' 'm'\n"
        "! fleet.password_file: '' '/p'\n! fleet.tls: '' ''\n! fleet.max_blind: '30s' '1s'\n"
        "! fleet.wait: '2s' '1s'\n! fleet.key_prefix: 'tarn' 't'\n"
        "! fleet.log_entries: '1000000' '2000'\n! fleet.log_bytes: '128MiB' '2MiB'\n"
        "! fleet.log_age: '1h' '2h'\n");
}

TEST(conf_fleet, a_changed_password_is_a_change_and_not_shown)
{
    const struct conf *a, *b;
    struct told t = {.len = 0};

    secret_write("old", 3, 0600);
    a = load_with(secret_yaml(), no_name);
    secret_write("new\n", 4, 0600);
    b = load_with(secret_yaml(), no_name);
    CHECK_EQ(1, conf_compare(a, b, told_each, &t));
    CHECK_STR("! fleet.password_file: '' ''\n", t.text);
    conf_free(&a);
    conf_free(&b);
    CHECK_EQ(0, unlink(secret_path));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {TEST_ENTRY(conf_fleet, without_the_section_there_is_none),
        TEST_ENTRY(conf_fleet, a_name_and_an_engine_have_all_defaults),
        TEST_ENTRY(conf_fleet, every_key_is_read),
        TEST_ENTRY(conf_fleet, an_engine_is_a_port_or_a_socket),
        TEST_ENTRY(conf_fleet, tls_follows_from_the_scheme),
        TEST_ENTRY(conf_fleet, a_name_without_address_is_handled_as_a_backends),
        TEST_ENTRY(conf_fleet, each_mistake_of_a_url_is_named),
        TEST_ENTRY(conf_fleet, a_list_is_of_one_engine),
        TEST_ENTRY(conf_fleet, names_and_bounds_have_their_errors),
        TEST_ENTRY(conf_fleet, peers_need_a_listener_and_an_address),
        TEST_ENTRY(conf_fleet, an_address_for_peers_is_one_that_they_can_reach),
        TEST_ENTRY(conf_fleet, the_stream_is_longer_than_a_node_may_be_blind),
        TEST_ENTRY(conf_fleet, a_password_is_what_its_file_has),
        TEST_ENTRY(conf_fleet, a_file_that_is_no_password_is_refused),
        TEST_ENTRY(conf_fleet, a_password_in_a_url_is_refused_and_not_shown),
        TEST_ENTRY(conf_fleet, a_changed_fleet_needs_a_restart),
        TEST_ENTRY(conf_fleet, a_changed_password_is_a_change_and_not_shown)};
    int fd = mkstemp(secret_path);

    if (fd < 0)
        return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
