/* acme_cli.c -- the command line of tarn-acme.
 *
 * Options are noted as they come.  What depends on others (the configuration, the CA, the key of an external
 * account) is settled when all are known, so that their order means nothing.  Texts stay in argv. */
#include "daemon/acme/acme_cli.h"

#include <curl/curl.h>
#include <errno.h>
#include <getopt.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/acme/acme_b64.h"
#include "daemon/acme/acme_conf.h"
#include "daemon/acme/acme_names.h"
#include "daemon/acme/acme_option_table.h"
#include "daemon/acme/acme_read.h"
#include "daemon/base/obj.h"

enum {
    DAYS_MAX = 365,
    HELP_WIDTH = 22,
    LETTERS_MAX = 64,
};

enum cli_option {
    CLI_OPTION_FIRST = 256, /* behind every letter: getopt_long() returns both */
#define X(id, letter, name, arg, what) OPTION_##id,
    ACME_OPTION_TABLE(X)
#undef X
};

static const struct cli_row {
    int id, letter;
    const char *name, *arg, *what;
} cli_rows[] = {
#define X(id, letter, name, arg, what) {OPTION_##id, letter, name, arg, what},
    ACME_OPTION_TABLE(X)
#undef X
};

/* ---- help ---- */

static void
help_line(const char *left, const char *what)
{
    const char *end;

    for (; (end = strchr(what, '\n')) != NULL; what = end + 1, left = "")
        printf("    %-*s  %.*s\n", HELP_WIDTH, left, (int)(end - what), what);
    printf("    %-*s  %s\n", HELP_WIDTH, left, what);
}

/* Made of the tables that options and statuses are read by: what is missing here does not exist. */
static void
cli_help(void)
{
    puts("tarn-acme -- get certificates from a CA by ACME (RFC 8555), and keep them fresh\n\n"
         "    tarn-acme [OPTIONS] [--config FILE]\n"
         "    tarn-acme [OPTIONS] NAME[,NAME...]...\n\n"
         "Without a NAME everything comes from tarnd's configuration: `acme` of its listeners; "
         "options go\n"
         "before it.  Each argument is one certificate, for the names in it.  It lies in "
         "DIR/certs/NAME.pem, by\n"
         "its first name: the chain, then the key, for tarnd to read.  Proofs lie in "
         "DIR/challenges, where tarnd\n"
         "serves them from.  Run it as the user of tarnd, or as root: it becomes the owner of "
         "DIR.\n\n"
         "OPTIONS");
    for (size_t i = 0; i < ARRAY_LEN(cli_rows); i++) {
        const struct cli_row *r = &cli_rows[i];
        char left[64], letter[8] = "";

        if (r->letter != 0)
            snprintf(letter, sizeof(letter), "-%c, ", r->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, r->name, r->arg != NULL ? " " : "",
            r->arg != NULL ? r->arg : "");
        help_line(left, r->what);
    }
    puts("\nEXIT STATUS");
#define X(status, what) printf("    %d   %s\n", ACME_##status, what);
    ACME_EXIT_TABLE(X)
#undef X
    puts(
        "\nEXAMPLES\n"
        "    tarn-acme --config " ACME_CONFIG " --once\n"
        "    tarn-acme --state /var/lib/tarn/acme --staging --agree-tos --once example.com\n"
        "    tarn-acme --state /var/lib/tarn/acme --email admin@example.com --agree-tos --once \\\n"
        "        --hook 'tarnctl tls reload' example.com,www.example.com shop.example.com");
}

/* ---- the command line ---- */

__attribute__((format(printf, 1, 2))) static int
cli_wrong(const char *fmt, ...)
{
    char text[ACME_TEXT_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    acme_say("%s; tarn-acme --help", text);
    return ACME_USAGE;
}

/* What is said once, and settled when all of it is known. */
struct cli {
    const char *config, *eab_key_file; /* NULL: not said */
    struct acme_said said;
    bool help;
};

/* -1: go on; else the exit status, as of all that take an option's argument. */
static int
cli_one_of(const char *option, const char *const two[2], unsigned *out)
{
    for (*out = 0; *out < 2; ++*out)
        if (strcmp(optarg, two[*out]) == 0)
            return -1;
    return cli_wrong("--%s %s: %s or %s would be right", option, optarg, two[0], two[1]);
}

static int
cli_url(struct acme_settings *set)
{
    if (!conf_acme_url_ok(optarg))
        return cli_wrong(
            "--directory %s: an https:// URL would be right, as " CONF_ACME_STAGING, optarg);
    set->directory = optarg;
    return -1;
}

static int
cli_email(struct acme_settings *set)
{
    if (!conf_acme_email_ok(optarg))
        return cli_wrong("--email %s: one address would be right, as admin@example.com", optarg);
    set->email = optarg;
    return -1;
}

static int
cli_days(struct acme_settings *set)
{
    char *end;
    unsigned long n = strtoul(optarg, &end, 10);

    /* strtoul() takes a sign and white space, and makes a large number of -1. */
    if (*end != '\0' || optarg[0] < '0' || optarg[0] > '9' || n < 1 || n > DAYS_MAX)
        return cli_wrong("--renew-before %s: days, 1 to %d, would be right", optarg, DAYS_MAX);
    set->renew_before_days = (unsigned)n;
    return -1;
}

/* Reads the file at once: its owner may be root, and the process another user soon.
 * A file and no option: every user can read the arguments of every process. */
static int
cli_eab_key(struct acme_settings *set, const char *path)
{
    /* Longer than a key of the most bytes in base64url: what is cut here is refused there, and never half a key. */
    char text[ACME_EAB_MAX * 2];
    struct stat st;
    FILE *file = fopen(path, "re");
    size_t n = 0;
    int got;

    if (file == NULL || fstat(fileno(file), &st) != 0) {
        cli_wrong("--eab-key-file %s: %s", path, strerror(errno));
        if (file != NULL)
            fclose(file);
        return ACME_USAGE;
    }
    n = fread(text, 1, sizeof(text), file);
    fclose(file);
    if ((st.st_mode & 077) != 0) {
        OPENSSL_cleanse(text, sizeof(text));
        return cli_wrong(
            "--eab-key-file %s: mode %04o, so other users can read the key; 0600 would be right",
            path, (unsigned)(st.st_mode & 07777));
    }
    /* CAs show it padded and not, and an editor ends the line. */
    while (n > 0 && strchr("= \t\r\n", text[n - 1]) != NULL)
        n--;
    got = acme_b64_read(slice_of(text, n), set->eab_key, sizeof(set->eab_key));
    OPENSSL_cleanse(text, sizeof(text));
    if (got <= 0)
        return cli_wrong(
            "--eab-key-file %s: the key in base64url, and nothing else, would be right", path);
    set->eab_key_bytes = (unsigned)got;
    return -1;
}

/* Those that are flags or plain texts.  Whether it is one. */
static bool
cli_plain(struct acme_settings *set, int id, struct cli *cli)
{
    const struct {
        int id;
        const char **text;
        bool *flag;
    } plain[] = {{OPTION_CONFIG, &cli->config, NULL}, {OPTION_STATE, &set->state, NULL},
        {OPTION_HOOK, &set->hook, NULL}, {OPTION_CA, &set->ca, NULL},
        {OPTION_EAB_KID, &set->eab_kid, NULL}, {OPTION_EAB_KEY, &cli->eab_key_file, NULL},
        {OPTION_AGREE, NULL, &set->agree_tos}, {OPTION_ONCE, NULL, &set->once},
        {OPTION_RETRY, NULL, &set->retry}, {OPTION_DRY, NULL, &set->dry_run},
        {OPTION_STAGING, NULL, &cli->said.staging}, {OPTION_HELP, NULL, &cli->help}};

    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        if (plain[i].id != id)
            continue;
        if (plain[i].text != NULL)
            *plain[i].text = optarg;
        else
            *plain[i].flag = true;
        return true;
    }
    return false;
}

static int
cli_option(struct acme_settings *set, int id, struct cli *cli)
{
    unsigned n;
    int rc = -1;

    if (cli_plain(set, id, cli))
        return -1;
    switch (id) {
    case OPTION_DIRECTORY:
        return cli_url(set);
    case OPTION_EMAIL:
        return cli_email(set);
    case OPTION_RENEW:
        return cli_days(set);
    case OPTION_CHALLENGE:
        rc = cli_one_of("challenge", (const char *const[2]){"http-01", "tls-alpn-01"}, &n);
        set->challenge = n == 0 ? ACME_HTTP_01 : ACME_TLS_ALPN_01;
        cli->said.challenge = true;
        return rc;
    case OPTION_KEY:
        rc = cli_one_of("key", (const char *const[2]){"ecdsa", "rsa"}, &n);
        set->key = n == 0 ? ACME_ECDSA : ACME_RSA;
        cli->said.key = true;
        return rc;
    case OPTION_VERSION:
        printf("tarn-acme " TARN_VERSION "\n%s\n%s\n", curl_version(),
            OpenSSL_version(OPENSSL_VERSION));
        return ACME_DONE;
    default:
        return ACME_USAGE; /* getopt has said why */
    }
}

/* From the configuration, what is not said here: where it is named, and where no name is. */
static int
cli_configure(struct acme_settings *set, struct cli *cli, bool names)
{
    const char *path = cli->config != NULL ? cli->config : ACME_CONFIG;
    const struct conf_acme *acme;
    enum acme_exit rc;

    /* Only where nothing was named: a file that --config names and that is not there is the loader's to report. */
    if (cli->config == NULL && access(path, F_OK) != 0)
        return cli_wrong("no NAME, and no configuration: there is no " ACME_CONFIG
                         "; --config FILE, or names, as example.com,www.example.com");
    rc = acme_conf_read(set, path, &cli->said, names, &acme);
    if (rc != ACME_DONE)
        return (int)rc;
    if (acme != NULL && set->eab_kid == NULL && acme->eab_kid[0] != '\0')
        set->eab_kid = acme->eab_kid;
    if (acme != NULL && cli->eab_key_file == NULL && acme->eab_key_file[0] != '\0')
        cli->eab_key_file = acme->eab_key_file;
    if (names && acme == NULL) { /* no mistake: the timer of the package runs on every machine */
        acme_report("%s: no listener has `acme`, so there is nothing to do", path);
        return ACME_DONE;
    }
    return -1;
}

/* What belongs together, and the names. */
/* The command line goes before the file in each setting, and before that nothing of it is looked at. */
static int
cli_settle(struct acme_settings *set, struct cli *cli, char **args, int n)
{
    struct acme_fail f;
    int rc = -1;

    acme_fail_init(&f);
    if (cli->said.staging && set->directory != NULL &&
        strcmp(set->directory, CONF_ACME_STAGING) != 0)
        return cli_wrong("--staging is Let's Encrypt's; with --directory leave it out");
    if (cli->config != NULL || n == 0)
        rc = cli_configure(set, cli, n == 0);
    if (rc != -1)
        return rc;
    if (set->state == NULL)
        set->state = CONF_ACME_STATE;
    if (set->directory == NULL)
        set->directory = cli->said.staging ? CONF_ACME_STAGING : CONF_ACME_PRODUCTION;
    /* Behind the configuration, which may name it. */
    if (cli->eab_key_file != NULL)
        rc = cli_eab_key(set, cli->eab_key_file);
    if (rc == -1 && (set->eab_kid == NULL) != (set->eab_key_bytes == 0))
        rc = cli_wrong("--eab-kid and --eab-key-file belong together");
    for (int i = 0; i < n && rc == -1; i++)
        if (acme_names_add(set, args[i], &f) != 0)
            rc = cli_wrong("%s", f.text);
    return rc;
}

/* Getopt's tables, of the rows. */
static void
cli_tables(struct option longs[static ARRAY_LEN(cli_rows) + 1], char letters[static LETTERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(cli_rows); i++) {
        const struct cli_row *r = &cli_rows[i];

        longs[i] =
            (struct option){r->name, r->arg != NULL ? required_argument : no_argument, NULL, r->id};
        if (r->letter != 0)
            letters[n++] = (char)r->letter;
        if (r->letter != 0 && r->arg != NULL)
            letters[n++] = ':';
    }
    letters[n] = '\0';
    longs[ARRAY_LEN(cli_rows)] = (struct option){NULL, 0, NULL, 0};
}

int
acme_cli_read(struct acme_settings *set, int argc, char **argv)
{
    struct option longs[ARRAY_LEN(cli_rows) + 1];
    char letters[LETTERS_MAX];
    struct cli cli = {.config = NULL};
    int opt, rc;

    cli_tables(longs, letters);
    while ((opt = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        for (size_t i = 0; i < ARRAY_LEN(cli_rows); i++)
            if (cli_rows[i].letter == opt)
                opt = cli_rows[i].id;
        rc = cli_option(set, opt, &cli);
        if (rc == ACME_USAGE && opt == '?')
            return cli_wrong("that is no option of tarn-acme");
        if (rc != -1)
            return rc;
    }
    /* Behind all options: `--help` beside a wrong one still says what is wrong with that. */
    if (cli.help) {
        cli_help();
        return ACME_DONE;
    }
    return cli_settle(set, &cli, argv + optind, argc - optind);
}

void
acme_cli_fini(struct acme_settings *set)
{
    OPENSSL_cleanse(set->eab_key, sizeof(set->eab_key));
    acme_names_fini(set);
    conf_free(&set->conf);
}
