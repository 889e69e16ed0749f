/* main.c -- the command line. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/hash.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/confine/core_dump.h"
#include "daemon/h1/h1_parse.h"
#include "daemon/net/netloop.h"
#include "daemon/policy/policies.h"
#include "daemon/ports.h"
#include "daemon/server.h"
#include "daemon/supervise/supervise.h"
#include "daemon/tls/tls.h"
#include "daemon/tls_check.h"
#include "storage/storage.h"

/* Read by jemalloc when the process starts, for what is not in a store: requests and
 * connections come and go in thousands, and what they leave goes back soon.  And for stores: slabs
 * of four pages for classes that would have one of few pieces, with 128 bytes of books. */
extern const char *malloc_conf;
const char *malloc_conf = "narenas:4,dirty_decay_ms:1000,muzzy_decay_ms:0,"
                          "slab_sizes:512-512:4|1024-1024:4|2048-2048:4";

static void
main_help(FILE *to)
{
    fputs(
        "Usage: tarnd [-t] [-S] -c FILE\n"
        "HTTP caching reverse proxy.\n"
        "\n"
        "  -c, --config FILE  configuration to run with (YAML)\n"
        "  -S, --supervise    run tarnd as a child: start another when it crashes or\n"
        "                     hangs, and a new binary without refusing a connection\n"
        "  -t, --test         check the configuration, its policy, and the certificates and keys\n"
        "                     that it names, report every error, and exit\n"
        "  -h, --help         this text\n"
        "  -V, --version      version of tarnd and of the libraries in use\n"
        "\n"
        "When every listener accepts, one line is printed: tarnd: ready ADDRESS...\n"
        "\n"
        "Signals:\n"
        "  SIGTERM, SIGINT    finish requests in flight within drain_timeout, then exit;\n"
        "                     a second one ends it at once\n"
        "  SIGHUP             read the configuration and its policy anew; the cache stays, and\n"
        "                     after an error nothing changes (see the error log)\n"
        "  SIGUSR1            open the access log anew, after it was renamed\n"
        "  SIGUSR2            with --supervise: switch to the binary that is installed now,\n"
        "                     with the current configuration; the old tarnd finishes its\n"
        "                     requests in flight\n"
        "\n"
        "With --supervise signals go to the parent, which prints the ready line, once.\n"
        "\n"
        "Exit status: 0 after a drain or a good check, 1 when it cannot run, 2 for an error on\n"
        "the command line, in the configuration or in its policy.\n",
        to);
}

static void
main_version(void)
{
    printf("tarnd " TARN_VERSION "\n"
           "libuv %s, llhttp %s, %s, libyaml %s, xxHash %s, liburcu " TARN_URCU_VERSION
           " (qsbr), %s\n",
        net_uv_version(), h1_llhttp_version(), storage_allocator(), conf_yaml_version(),
        hash_version(), tls_library_version());
}

/* Errors go to stderr as they are found: there is no error log before server_run(). */
static void
main_write(struct conf_sink *sink, const char *text)
{
    (void)sink;
    fputs(text, stderr);
}

static int
main_load(const struct conf **conf, const char *path)
{
    struct conf_error *errors = NULL;
    struct conf_sink sink = {.write = main_write};
    int err = conf_load(conf, path, &errors);

    if (err == 0)
        return 0;
    if (errors != NULL) {
        unsigned n = conf_errors_print(errors, path, &sink);

        fprintf(stderr, "tarnd: %s: %u error%s\n", path, n, n == 1 ? "" : "s");
        conf_errors_free(&errors);
        /* Without an error in the list it is memory, or the like: there is no place to show. */
    } else {
        fprintf(stderr, "tarnd: %s: %s\n", path, terr_text(err));
    }
    return 2;
}

static void
main_write_policy(void *ctx, const char *text)
{
    (void)ctx;
    fputs(text, stderr);
}

/* The policy that the configuration names, if it does, and whether its listeners can be had; all that
 * is wrong is said.
 * From what the file says itself to what the machine has: a policy with mistakes makes what
 * follows meaningless. */
static int
main_check(const struct conf *conf)
{
    unsigned n = conf->vcl[0] != '\0' ? policies_check(conf, main_write_policy, NULL) : 0;

    if (n > 0)
        fprintf(stderr, "tarnd: %s: %u error%s\n", conf->vcl, n, n == 1 ? "" : "s");
    if (n > 0)
        return 2;
    core_dump_set(conf->params.core_dumps); /* keys are read */
    n = tls_check(conf);
    if (n > 0)
        fprintf(stderr, "tarnd: %s: %u error%s in what its TLS needs\n", conf->path, n,
            n == 1 ? "" : "s");
    if (n > 0)
        return 2;
    /* Behind the policy: its mistakes are the file's own, and a port may be in use by what it
     * replaces. */
    n = ports_check(conf);
    if (n > 0)
        fprintf(stderr, "tarnd: %s: %u address%s in use\n", conf->path, n, n == 1 ? "" : "es");
    return n > 0 ? 2 : 0;
}

/* A name without address is no mistake of the file: it may be read before its network is up. */
static void
main_say_ok(const struct conf *conf)
{
    /* So a glob that matched nothing does not go unnoticed. */
    if (conf->nincluded > 0)
        printf("tarnd: %s: ok, with %u included file%s\n", conf->path, conf->nincluded,
            conf->nincluded == 1 ? "" : "s");
    else
        printf("tarnd: %s: ok\n", conf->path);
    for (unsigned i = 0; i < conf->nbackends; i++)
        if (conf->backends[i].address.unresolved != NULL)
            fprintf(stderr, "tarnd: warning: backend '%s': '%s' cannot be resolved now: %s\n",
                conf->backends[i].name, conf->backends[i].address.host,
                conf->backends[i].address.unresolved);
    tls_check_warn(conf);
}

/* Descriptors 0 to 2 are what they are for, or nothing: what we open next is none of them. */
static void
main_fill_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        /* Nothing can be said: descriptor 2 may be the one that is missing. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            _exit(1);
}

struct main_args {
    const char *path; /* of the configuration */
    bool test, supervise;
};

/* -1: go on; else the exit status.
 * Arguments that are left over are refused: "tarnd tarn.yaml" would otherwise start with no
 * configuration. */
static int
main_read_args(struct main_args *args, int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"supervise", no_argument, NULL, 'S'},
        {"test", no_argument, NULL, 't'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "c:SthV", options, NULL)) != -1) {
        switch (c) {
        case 'c':
            args->path = optarg;
            break;
        case 'S':
            args->supervise = true;
            break;
        case 't':
            args->test = true;
            break;
        case 'h':
            main_help(stdout);
            return 0;
        case 'V':
            main_version();
            return 0;
        /* getopt_long(3) has said what is wrong. */
        default:
            fputs("Try tarnd --help.\n", stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "tarnd: unexpected argument '%s'.  Try tarnd --help.\n", argv[optind]);
        return 2;
    }
    if (args->path == NULL) {
        fputs("tarnd: no configuration: say -c FILE.  Try tarnd --help.\n", stderr);
        return 2;
    }
    return -1;
}

int
main(int argc, char **argv)
{
    struct main_args args = {0};
    const struct conf *conf;
    int status;

    main_fill_descriptors(); /* before anything opens a file */
    status = main_read_args(&args, argc, argv);
    if (status >= 0)
        return status;
    /* Before the file is read: each child reads it for itself. */
    if (args.supervise && !args.test)
        return supervise_run(argv, args.path);
    /* With -t: a running supervisor asks a newer binary whether it could follow. */
    if (args.supervise && !supervise_understands()) {
        fputs("tarnd: the supervisor that runs is too different: restart it\n", stderr);
        return 2;
    }
    /* Every mistake is said before anything of the process is changed. */
    status = main_load(&conf, args.path);
    if (status != 0)
        return status;
    if (!args.test)
        status = server_run(conf);
    else if ((status = main_check(conf)) == 0)
        main_say_ok(conf);
    conf_free(&conf);
    return status;
}
