/* ctl_main.c -- tarnctl: the command line.
 *
 *   tarnctl [OPTIONS] COMMAND [ARGUMENTS]
 *
 * Options may stand anywhere.  getopt(3) takes them all into struct ctl, the rest are words, in
 * their order; the
 * longest name of ctl_table.h that they begin with is the command, and the words behind it are
 * its arguments.  Only then is it known which options fit: main_run() refuses the others.
 *
 * Options beat the environment (TARN_ADMIN, TARN_TOKEN), which beats the defaults.
 */
#include <curl/curl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ctl/ctl_commands.h"

enum {
    /* In a command's name: "vcl load". */
    WORDS_MAX = 3
};

enum {
    /* Above all characters: getopt_long(3) returns letters and these from one range. */
    OPTION_SOFT = 256,
    OPTION_USE,
    OPTION_LIMIT,
    OPTION_LIVE,
    OPTION_EVERY,
    OPTION_COUNT,
    OPTION_TAG,
    OPTION_URL,
    OPTION_STATUS,
    OPTION_CLIENT,
    OPTION_FORMAT,
    OPTION_HIT,
    OPTION_MISS,
    OPTION_ALL,
    OPTION_FOLLOW,
    OPTION_WAIT,
    OPTION_TIMEOUT,
    OPTION_LOCAL,
    OPTION_TO,
    OPTION_RATE,
    OPTION_CONCURRENCY,
    OPTION_TOKEN_FILE
};

static const struct option main_options[] = {
    {"admin", required_argument, NULL, 'a'},
    {"token-file", required_argument, NULL, OPTION_TOKEN_FILE},
    {"json", no_argument, NULL, 'j'},
    {"soft", no_argument, NULL, OPTION_SOFT},
    {"use", no_argument, NULL, OPTION_USE},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"live", no_argument, NULL, OPTION_LIVE},
    {"every", required_argument, NULL, OPTION_EVERY},
    {"count", required_argument, NULL, OPTION_COUNT},
    {"tag", required_argument, NULL, OPTION_TAG},
    {"url", required_argument, NULL, OPTION_URL},
    {"status", required_argument, NULL, OPTION_STATUS},
    {"client", required_argument, NULL, OPTION_CLIENT},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"hit", no_argument, NULL, OPTION_HIT},
    {"miss", no_argument, NULL, OPTION_MISS},
    {"all", no_argument, NULL, OPTION_ALL},
    {"follow", no_argument, NULL, OPTION_FOLLOW},
    {"wait", optional_argument, NULL, OPTION_WAIT},
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"local", no_argument, NULL, OPTION_LOCAL},
    {"to", required_argument, NULL, OPTION_TO},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"concurrency", required_argument, NULL, OPTION_CONCURRENCY},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int
main_wrong(const char *what, const char *arg)
{
    ctl_say("%s %s; tarnctl --help lists the commands", what, arg);
    return CTL_USAGE;
}

/* How many of the words are the command's name; 0: another command. */
static int
command_matches(const struct ctl_command *cmd, const char *const *words, int n)
{
    const char *rest = cmd->name;

    for (int i = 0; i < n && i < WORDS_MAX; i++) {
        size_t len = strlen(words[i]);

        if (strncmp(rest, words[i], len) != 0)
            return 0;
        if (rest[len] == '\0')
            return i + 1;
        /* Words match whole: "ban" is not "bans". */
        if (rest[len] != ' ')
            return 0;
        rest += len + 1;
    }
    return 0;
}

/* The one with the longest name: `ban list` is not `ban` of "list". */
const struct ctl_command *
ctl_find(const char *const *words, int n, int *used)
{
    const struct ctl_command *found = NULL;

    *used = 0;
    for (size_t i = 0; i < ctl_ncommands; i++) {
        int m = command_matches(&ctl_commands[i], words, n);

        if (m > *used) {
            found = &ctl_commands[i];
            *used = m;
        }
    }
    return found;
}

/* `vcl` alone, or `vcl lod`: what begins with the same word. */
int
ctl_unknown(const char *const *words)
{
    size_t len = strlen(words[0]);
    bool any = false;

    for (size_t i = 0; i < ctl_ncommands; i++)
        /* The forms of the word are the answer: "vcl" alone is not far from right. */
        if (strncmp(ctl_commands[i].name, words[0], len) == 0 && ctl_commands[i].name[len] == ' ') {
            fputs(any ? "         " : "tarnctl: ", stderr);
            ctl_usage(stderr, &ctl_commands[i]);
            any = true;
        }
    return any ? CTL_USAGE : main_wrong("there is no command", words[0]);
}

/* The line of a file. */
static int
main_token(struct ctl *c, const char *file)
{
    struct span text;
    int rc = ctl_slurp(file, &text);

    if (rc != CTL_DONE)
        return rc;
    /* Editors end a file with a line's end. */
    while (text.len > 0 && (text.ptr[text.len - 1] == '\n' || text.ptr[text.len - 1] == '\r'))
        text.len--;
    if (text.len == 0 || text.len >= sizeof(c->token_read)) {
        ctl_say("%s: a token has 1 to %zu bytes", file, sizeof(c->token_read) - 1);
        rc = CTL_USAGE;
    } else {
        /* From a file and not from an argument, which ps(1) shows to all users. */
        memcpy(c->token_read, text.ptr, text.len);
        c->token_read[text.len] = '\0';
        c->token = c->token_read;
    }
    free(text.ptr);
    return rc;
}

/* Of `log`, `warm` and what a fleet shares.  Whether it is one.  Pairs of an option and its place: a switch of
 * thirteen more cases would be longer and say less. */
static bool
main_log_option(struct ctl *c, int opt)
{
    const struct {
        int opt;
        const char **text;
        bool *flag;
    } options[] = {{OPTION_TAG, &c->tag, NULL}, {OPTION_URL, &c->url, NULL},
        {OPTION_STATUS, &c->status, NULL}, {OPTION_CLIENT, &c->client, NULL},
        {OPTION_TO, &c->to, NULL}, {OPTION_RATE, &c->rate, NULL},
        {OPTION_CONCURRENCY, &c->concurrency, NULL}, {OPTION_FORMAT, &c->format, NULL},
        {OPTION_HIT, NULL, &c->hit}, {OPTION_MISS, NULL, &c->miss}, {OPTION_ALL, NULL, &c->all},
        {OPTION_FOLLOW, NULL, &c->follow}, {OPTION_TIMEOUT, &c->timeout, NULL},
        {OPTION_LOCAL, NULL, &c->local}};

    for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (options[i].opt != opt)
            continue;
        if (options[i].text != NULL)
            *options[i].text = optarg;
        else
            *options[i].flag = true;
        return true;
    }
    return false;
}

/* `log --wait` has no value; `purge --wait all` has one, which getopt(3) cannot know.  `command` is the
 * first word in front of it, or NULL. */
static void
main_wait(struct ctl *c, const char *command, char **argv)
{
    c->wait = true;
    c->wait_for = optarg;
    if (optarg == NULL && command != NULL && strcmp(command, "log") != 0 && argv[optind] != NULL)
        c->wait_for = argv[optind++];
}

/* -1: go on; else the exit status. */
static int
main_option(struct ctl *c, int opt, bool *help)
{
    switch (opt) {
    case 'a':
        c->admin = optarg;
        return -1;
    case 'j':
        c->json = true;
        return -1;
    case 'h':
        *help = true;
        return -1;
    case 'V':
        printf("tarnctl " TARN_VERSION "\n%s\n", curl_version());
        return CTL_DONE;
    case OPTION_SOFT:
        c->soft = true;
        return -1;
    case OPTION_USE:
        c->use = true;
        return -1;
    case OPTION_LIMIT:
        c->limit = optarg;
        return -1;
    case OPTION_LIVE:
        c->live = true;
        return -1;
    case OPTION_EVERY:
        c->every = optarg;
        return -1;
    case OPTION_COUNT:
        c->count = optarg;
        return -1;
    case OPTION_TOKEN_FILE: {
        int rc = main_token(c, optarg);

        return rc == CTL_DONE ? -1 : rc;
    }
    default:
        return main_log_option(c, opt) ? -1 : CTL_USAGE;
    }
}

/* Is an option that was given one of the command's?  Its arguments say so, or its help. */
static bool
main_has(const struct ctl_command *cmd, bool given, const char *option)
{
    /* The help is the list of what a command takes, so the two cannot disagree. */
    if (!given || strstr(cmd->args, option) != NULL || strstr(cmd->more, option) != NULL)
        return true;
    ctl_say("tarnctl %s has no %s: tarnctl %s %s", cmd->name, option, cmd->name, cmd->args);
    return false;
}

/* A new option needs a line here, or commands that do not know it accept it silently. */
static int
main_run(struct ctl *c, const char *const *words, int n)
{
    const struct ctl_command *cmd;
    int used;

    cmd = ctl_find(words, n, &used);
    if (cmd == NULL)
        return ctl_unknown(words);
    c->args = words + used;
    c->nargs = n - used;
    if (c->nargs < cmd->least || c->nargs > cmd->most) {
        fputs("tarnctl: ", stderr);
        ctl_usage(stderr, cmd);
        return CTL_USAGE;
    }
    /* getopt(3) knows all options, and a command only some: one that it ignored would mislead. */
    if (!main_has(cmd, c->soft, "--soft") || !main_has(cmd, c->use, "--use") ||
        !main_has(cmd, c->limit != NULL, "--limit") || !main_has(cmd, c->live, "--live") ||
        !main_has(cmd, c->every != NULL, "--every") || !main_has(cmd, c->count != NULL, "--count"))
        return CTL_USAGE;
    if (!main_has(cmd, c->tag != NULL, "--tag") || !main_has(cmd, c->url != NULL, "--url") ||
        !main_has(cmd, c->status != NULL, "--status") ||
        !main_has(cmd, c->client != NULL, "--client") ||
        !main_has(cmd, c->format != NULL, "--format") || !main_has(cmd, c->hit, "--hit") ||
        !main_has(cmd, c->miss, "--miss") || !main_has(cmd, c->all, "--all") ||
        !main_has(cmd, c->to != NULL, "--to") || !main_has(cmd, c->rate != NULL, "--rate") ||
        !main_has(cmd, c->concurrency != NULL, "--concurrency") ||
        !main_has(cmd, c->follow, "--follow") || !main_has(cmd, c->wait, "--wait") ||
        !main_has(cmd, c->wait_for != NULL, "--wait all|log") ||
        !main_has(cmd, c->timeout != NULL, "--timeout") || !main_has(cmd, c->local, "--local"))
        return CTL_USAGE;
    return cmd->run(c);
}

/* stdout is buffered: what could not be written is known only now. */
static int
main_flushed(int rc)
{
    /* A full disk must not look like success. */
    if (fflush(stdout) == 0)
        return rc;
    ctl_say("standard output: cannot be written");
    return CTL_USAGE;
}

static int
main_words(struct ctl *c, const char *const *words, int n, bool help)
{
    int rc;

    /* Before the number of words is judged: `tarnctl ban --help` has no expression. */
    if (help)
        return ctl_help_on(words, n);
    if (n == 0) {
        ctl_help_all();
        return CTL_USAGE;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return CTL_UNREACHABLE;
    rc = main_run(c, words, n);
    curl_global_cleanup();
    return rc;
}

int
main(int argc, char **argv)
{
    const char *admin = getenv("TARN_ADMIN");
    struct ctl c = {.admin = admin != NULL && admin[0] != '\0' ? admin : CTL_ADMIN,
        .token = getenv("TARN_TOKEN")};
    const char **words = calloc((size_t)argc + 1, sizeof(*words));
    bool help = false;
    int opt, n = 0, rc = -1;

    if (words == NULL) {
        ctl_say("out of memory");
        return CTL_REFUSED;
    }
    /* "-": GNU's getopt_long(3) gives words as the option 1, so that options may stand between them. */
    while (rc < 0 && (opt = getopt_long(argc, argv, "-a:jhV", main_options, NULL)) != -1) {
        if (opt == 1)
            words[n++] = optarg;
        else if (opt == OPTION_WAIT)
            main_wait(&c, words[0], argv);
        else
            rc = main_option(&c, opt, &help);
    }
    for (; rc < 0 && optind < argc; optind++) /* behind "--" */
        words[n++] = argv[optind];
    if (rc < 0)
        rc = main_words(&c, words, n, help);
    free(words);
    return main_flushed(rc);
}
