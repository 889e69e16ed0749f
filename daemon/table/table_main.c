/* table_main.c -- tarn-table: writes tables, and shows them. */
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/slurp.h"
#include "daemon/base/terr.h"
#include "daemon/table/table_guard.h"
#include "daemon/table/table_read.h"
#include "daemon/table/table_write.h"

enum {
    EXIT_USAGE = 2, /* the command line */
    EXIT_BUSY = 3,  /* another writer has the table */
    EXIT_GAVE_UP = 4,
    GRACE_MS_MAX = 3600 * 1000,
    PATH_BYTES = 4096,
};

struct main_args {
    const char *dir, *name, *file;
    enum table_kind kind;
    unsigned grace_ms;
    char path[PATH_BYTES];
};

static const char main_usage[] =
    "tarn-table -- tables that tarnd's policies read, in shared memory\n"
    "\n"
    "    tarn-table [OPTIONS] load NAME FILE   replace the table by the entries of FILE\n"
    "    tarn-table [OPTIONS] show NAME        its entries, as load reads them\n"
    "    tarn-table [OPTIONS] get NAME KEY     the value of KEY, as a policy would get it\n"
    "    tarn-table [OPTIONS] stat NAME        its files and their state\n"
    "    tarn-table [OPTIONS] remove NAME      its files\n"
    "\n"
    "A table NAME is three files, DIR/NAME.state, DIR/NAME.0 and DIR/NAME.1.  `load` fills the "
    "one\n"
    "of the last two that is not in use, and switches: a reader sees the old entries or\n"
    "the new ones, and never some of each.  A tarnd that has NAME in `tables` of its "
    "configuration\n"
    "uses them from its next request on; the first ones within a second.\n"
    "\n"
    "OPTIONS\n"
    "    -d, --dir DIR     directory of tables; default: " TABLE_DIR "\n"
    "    -k, --kind KIND   of `load`; default: the table's present kind, else map:\n"
    "        set           keys, found exactly\n"
    "        map           keys with values, found exactly\n"
    "        prefix        the longest key that the searched one begins with\n"
    "        address       networks, 192.0.2.0/24 or 2001:db8::/32: the smallest around an "
    "address\n"
    "        vector        keys with numbers, found exactly\n"
    "    -g, --grace MS    how long `load` waits for a reader that does not leave the older copy;\n"
    "                      then it counts as dead.  Default: 1000\n"
    "    -G, --group GROUP of new files of `load` by root; tarnd's user must be a member of it.\n"
    "                      Default: their directory's if it has the setgid bit, else yours\n"
    "    -h, --help        this text\n"
    "    -V, --version     the version\n"
    "\n"
    "FILE, or - for standard input, has an entry a line: a key without white space and, behind\n"
    "white space, its value to the end of the line.  Empty lines, and those that begin with #, "
    "are\n"
    "skipped.  A key twice is an error, and after an error the table is as it was.\n"
    "\n"
    "EXIT STATUS\n"
    "    0   done\n"
    "    1   not done: standard error says why.  Of `get`: the key is not there\n"
    "    2   the command line is wrong\n"
    "    3   another writer has the table\n"
    "    4   done, but a reader was given up: it died, or needed more than the grace period\n"
    "\n"
    "EXAMPLES\n"
    "    tarn-table --kind address load blocked networks.txt\n"
    "    printf '/old /new\\n' | tarn-table --kind prefix load moved -\n"
    "    tarn-table get moved /old/page\n";

__attribute__((format(printf, 1, 2))) static void
main_say(const char *fmt, ...)
{
    va_list ap;

    fputs("tarn-table: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

static int
main_wrong(const char *what, const char *arg)
{
    main_say("%s%s%s; tarn-table --help", what, arg[0] != '\0' ? ": " : "", arg);
    return EXIT_USAGE;
}

/* --- load --- */

/* The line of entry `number`: comments do not count. */
static unsigned long
main_line_of(const struct span *text, size_t number)
{
    unsigned long line = 0;
    const char *p = text->ptr, *end = p + text->len;

    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));

        line++;
        stop = stop != NULL ? stop : end;
        while (p < stop && (*p == ' ' || *p == '\t' || *p == '\r'))
            p++;
        /* As table_builder_add_text() skips them. */
        if (p < stop && *p != '#' && number-- == 0)
            break;
        p = stop + 1;
    }
    return line;
}

/* The image is the caller's when 0 is returned; else it has been said why, with the line in the
 * file. */
static int
main_build(const struct main_args *a, const struct span *text, struct table_image *out)
{
    struct table_builder *b;
    unsigned long line = 0;
    char why[TABLE_WHY_MAX] = "";
    size_t again = 0;
    int err = table_builder_new(&b, a->kind);

    if (err == 0) {
        err = table_builder_add_text(b, slice_of(text->ptr, text->len), &line, why, sizeof(why));
        if (err != 0)
            main_say("%s:%lu: %s", a->file, line, why);
        else
            err = table_builder_finish(b, out, &again);
        table_builder_free(&b);
        if (err == TERR_EXISTS)
            main_say("%s:%lu: this key was there before", a->file, main_line_of(text, again));
        /* It has been said, with its line. */
        if (err == TERR_EXISTS || why[0] != '\0')
            return err;
    }
    if (err != 0)
        main_say("%s: %s", a->file, terr_text(err));
    return err;
}

/* What it was. */
static enum table_kind
main_kind_now(const char *path)
{
    struct table_reader *r;
    enum table_kind kind = TABLE_MAP;
    const struct table_view *v;

    /* Only its kind is wanted: a checksum over all of it would take longer than the rest. */
    if (table_reader_new(&r, path, TABLE_ANY, TABLE_UNCHECKED) != 0)
        return kind;
    v = table_enter(r);
    if (v != NULL)
        kind = v->kind;
    table_leave(r);
    table_reader_free(&r);
    return kind;
}

static int
main_write(const struct main_args *a, const struct table_image *image)
{
    struct table_writer *w;
    char why[TABLE_WHY_MAX] = "";
    int err = table_writer_open(&w, a->path, a->grace_ms, why, sizeof(why));

    if (err == 0) {
        err = table_write(w, image, why, sizeof(why));
        table_writer_close(&w);
    }
    if (err < 0)
        main_say("%s", why);
    else if (err > 0)
        main_say("%s: a reader had not left after %u ms and was given up", a->name, a->grace_ms);
    /* A reader that was given up is no failure, but a script may want to know. */
    return err == 0 ? 0 : err > 0 ? EXIT_GAVE_UP : err == TERR_BUSY ? EXIT_BUSY : 1;
}

/* The file is read whole before the table is opened: a pipe that ends early changes nothing. */
static int
main_load(struct main_args *a)
{
    struct table_image image;
    struct span text;
    int err = slurp_file(a->file, &text), status = 1;

    if (err != 0)
        main_say("%s: %s", a->file, strerror(err));
    /* A table keeps its kind, so that cron jobs need not repeat it. */
    if (a->kind == TABLE_ANY)
        a->kind = main_kind_now(a->path);
    if (err == 0 && main_build(a, &text, &image) == 0) {
        status = main_write(a, &image);
        free(image.base);
    }
    free(text.ptr);
    return status;
}

/* --- show, get, stat --- */

static void
main_print_value(enum table_kind kind, struct slice value)
{
    if (kind != TABLE_VECTOR && value.len > 0)
        fwrite(value.ptr, 1, value.len, stdout);
    for (size_t i = 0; kind == TABLE_VECTOR && i + sizeof(float) <= value.len; i += sizeof(float)) {
        float f;

        memcpy(&f, value.ptr + i, sizeof(f));
        /* Nine digits: it reads back as the same float. */
        printf("%s%.9g", i > 0 ? " " : "", (double)f);
    }
    putchar('\n');
}

/* As `load` takes it. */
static void
main_print(enum table_kind kind, struct slice key, struct slice value)
{
    fwrite(key.ptr, 1, key.len, stdout);
    if (value.len > 0)
        putchar(' ');
    main_print_value(kind, value);
}

/* A copy: while we print, the writer may go on. */
static int
main_take(const struct main_args *a, struct table_view *out)
{
    struct table_reader *r;
    const struct table_view *v;
    struct table_seen seen;
    void *mem = NULL;
    int err = table_reader_new(&r, a->path, TABLE_ANY, TABLE_CHECKED);

    if (err != 0) {
        main_say("%s: %s", a->path, terr_text(err));
        return 1;
    }
    v = table_enter(r);
    table_reader_seen(r, &seen);
    if (v == NULL)
        main_say("%s: %s", a->name, seen.why);
    else if ((mem = malloc(v->bytes)) == NULL)
        main_say("%s", terr_text(TERR_NOMEM));
    if (mem != NULL) {
        memcpy(mem, v->base, v->bytes);
        *out = *v;
        out->base = mem;
    }
    /* The copy may be of two versions: better none than that. */
    if (table_leave(r) != 0 && mem != NULL) {
        main_say("%s: the writer overtook this reader; try again", a->name);
        free(mem);
        mem = NULL;
    }
    table_reader_free(&r);
    return mem != NULL ? 0 : 1;
}

/* What is printed is what `load` reads, so a table can be copied or edited through a pipe. */
static int
main_show(struct main_args *a)
{
    struct slice key, value;
    struct table_view v;
    uint64_t at = 0;

    if (main_take(a, &v) != 0)
        return 1;
    printf("# %s: %s, version %llu, %llu entries\n", a->name, table_kind_name(v.kind),
        (unsigned long long)v.generation, (unsigned long long)v.entries);
    while (table_view_next(&v, &at, &key, &value))
        main_print(v.kind, key, value);
    free((void *)(uintptr_t)v.base);
    return 0;
}

static int
main_get(struct main_args *a)
{
    struct slice key = slice_str(a->file), value;
    struct table_view v;
    bool found;

    if (main_take(a, &v) != 0)
        return 1;
    found = table_view_find(&v, key, &value);
    if (found)
        main_print_value(v.kind, value);
    free((void *)(uintptr_t)v.base);
    return found ? 0 : 1;
}

static void
main_stat_view(const struct table_view *v)
{
    time_t made = (time_t)(v->made_ms / 1000);
    char when[32];
    struct tm tm;

    gmtime_r(&made, &tm);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
    printf("kind: %s\nversion: %llu\nentries: %llu\nbytes: %llu\nmade: %s\n",
        table_kind_name(v->kind), (unsigned long long)v->generation, (unsigned long long)v->entries,
        (unsigned long long)v->bytes, when);
}

/* Exit status 1 where no good version is in use: for a check by cron or a monitor. */
static int
main_stat(struct main_args *a)
{
    static const char *const words[] = {"missing", "empty", "ok", "refused"};
    struct table_reader *r;
    struct table_seen seen;
    const struct table_view *v;
    int err = table_reader_new(&r, a->path, TABLE_ANY, TABLE_CHECKED);

    if (err != 0) {
        main_say("%s: %s", a->path, terr_text(err));
        return 1;
    }
    v = table_enter(r);
    table_reader_seen(r, &seen);
    printf("name: %s\npath: %s\nstate: %s%s%s\n", a->name, a->path, words[seen.status],
        seen.status == TABLE_OK ? "" : ": ", seen.status == TABLE_OK ? "" : seen.why);
    if (v != NULL)
        main_stat_view(v);
    table_leave(r);
    table_reader_free(&r);
    return seen.status == TABLE_OK ? 0 : 1;
}

static int
main_remove(struct main_args *a)
{
    struct table_writer *w;
    char why[TABLE_WHY_MAX] = "", state[PATH_BYTES + 8];
    int err;

    snprintf(state, sizeof(state), "%s.state", a->path);
    /* table_writer_open() would make a new one. */
    if (access(state, F_OK) != 0) {
        main_say("%s: %s", state, strerror(errno));
        return 1;
    }
    err = table_writer_open(&w, a->path, a->grace_ms, why, sizeof(why));
    if (err == 0)
        err = table_writer_remove(&w);
    if (err != 0)
        main_say("%s", why[0] != '\0' ? why : terr_text(err));
    return err == 0 ? 0 : err == TERR_BUSY ? EXIT_BUSY : 1;
}

/* --- the command line --- */

static const struct {
    const char *name;
    int args;
    int (*run)(struct main_args *a);
} main_commands[] = {
    {"load", 2, main_load},
    {"show", 1, main_show},
    {"get", 2, main_get},
    {"stat", 1, main_stat},
    {"remove", 1, main_remove},
};

/* A name is a file's: it must not lead elsewhere. */
static int
main_run(struct main_args *a, char **argv, int argc)
{
    if (argc == 0)
        return main_wrong("a command is missing", "");
    for (size_t i = 0; i < sizeof(main_commands) / sizeof(main_commands[0]); i++) {
        if (strcmp(main_commands[i].name, argv[0]) != 0)
            continue;
        if (argc - 1 != main_commands[i].args)
            return main_wrong(main_commands[i].args == 1 ? "it takes one name"
                                                         : "it takes a name and one thing more",
                argv[0]);
        a->name = argv[1];
        a->file = argc > 2 ? argv[2] : "";
        /* A name in the directory, never a path out of it. */
        if (a->name[0] == '\0' || strchr(a->name, '/') != NULL)
            return main_wrong("a table's name has no /, and is not empty", a->name);
        if (snprintf(a->path, sizeof(a->path), "%s/%s", a->dir, a->name) >= (int)sizeof(a->path))
            return main_wrong("the path is too long", a->name);
        return main_commands[i].run(a);
    }
    return main_wrong("no such command", argv[0]);
}

static bool
main_grace(const char *text, unsigned *out)
{
    char *end;
    unsigned long ms = strtoul(text, &end, 10);

    *out = (unsigned)ms;
    /* strtoul(3) takes a minus, and wraps. */
    return end != text && *end == '\0' && text[0] != '-' && ms <= GRACE_MS_MAX;
}

/* What is made from now on is the group's: at no time does a file belong to another. */
static bool
main_become_group(const char *name)
{
    const struct group *gr = getgrnam(name);
    unsigned long number;
    char *end;

    number = strtoul(name, &end, 10);
    /* A number will do, too: in a container the name may be unknown. */
    if (gr == NULL && (end == name || *end != '\0')) {
        main_say("--group: there is no group '%s'", name);
        return false;
    }
    if (setegid(gr != NULL ? gr->gr_gid : (gid_t)number) == 0)
        return true;
    main_say("--group %s: %s; root may, and members with sg(1)", name, strerror(errno));
    return false;
}

int
main(int argc, char **argv)
{
    static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
        {"kind", required_argument, NULL, 'k'}, {"grace", required_argument, NULL, 'g'},
        {"group", required_argument, NULL, 'G'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    static struct main_args a = {.dir = TABLE_DIR, .kind = TABLE_ANY, .grace_ms = TABLE_GRACE_MS};
    int c;

    while ((c = getopt_long(argc, argv, "d:k:g:G:hV", options, NULL)) != -1) {
        switch (c) {
        case 'd':
            a.dir = optarg;
            break;
        case 'k':
            a.kind = table_kind_find(optarg);
            if (a.kind == TABLE_ANY)
                return main_wrong("--kind is set, map, prefix, address or vector, not", optarg);
            break;
        case 'g':
            if (!main_grace(optarg, &a.grace_ms))
                return main_wrong("--grace is a number of milliseconds up to an hour, not", optarg);
            break;
        /* Before the command: files are made with it. */
        case 'G':
            if (!main_become_group(optarg))
                return 1;
            break;
        case 'h':
            fputs(main_usage, stdout);
            return 0;
        case 'V':
            puts("tarn-table " TARN_VERSION);
            return 0;
        default:
            fputs("tarn-table --help\n", stderr);
            return EXIT_USAGE;
        }
    }
    /* For a table that is truncated while it is shown. */
    table_guard_install();
    c = main_run(&a, argv + optind, argc - optind);
    /* A full disk behind > must not look like success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        main_say("standard output: %s", strerror(errno));
        return 1;
    }
    return c;
}
