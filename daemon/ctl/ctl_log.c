/* ctl_log.c -- `tarnctl log`: what the workers' rings in shared memory say, as it comes.
 *
 * tarnd is asked once, over its admin listener, where its rings are and how many workers write.
 * From then on only shared memory is read: the workers neither wait for this reader nor know how
 * far it is.  A reader that is too slow is overtaken, and counts what it lost
 * (log_count_missed).
 *
 *   log_session        one tarnd after another, with --wait
 *     log_read_all     rounds over the rings of one tarnd, until it is gone
 *       log_follow     up to LOG_CHUNKS_TURN chunks of one ring
 *         log_show     a chunk: as lines, as records, or into groups (ctl_log_group.c)
 *
 * A chunk is copied out and then checked to be whole, so nothing that is printed was half
 * overwritten.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/ctl/ctl_commands.h"
#include "daemon/ctl/ctl_log_group.h"
#include "daemon/log/access_format.h"
#include "daemon/shm/backend_names_view.h"
#include "daemon/shm/log_filter.h"
#include "daemon/shm/log_read.h"

enum {
    LOG_CHUNKS_TURN = 256, /* of one ring before the next ring's turn */
    /* The pause grows from one to the other while nothing comes, and starts again with the first
     * record. */
    LOG_NAP_MIN_MS = 1,
    LOG_NAP_MAX_MS = 20,
    LOG_LOOK_MS = 1000, /* between looks at tarnd, and reports of loss */
    LOG_WAIT_MS = 500,  /* between questions to one that is not there */
    LOG_OUT_BUF = 65536,
};

enum log_style {
    LOG_GROUPS,
    LOG_LINES, /* access log, as run->format has it */
    LOG_RAW
};

struct log_ring {
    struct shmlog_reader *reader; /* owned; NULL: not open */
    uint64_t held;                /* --all: bytes that were there at the beginning, not yet read */
    bool ended;                   /* --all: all of that was read */
    uint64_t missed, missed_reqs; /* that were counted already */
};

struct log_run {
    struct ctl *c;
    enum log_style style;
    enum access_format format;
    bool dump;     /* what is held, and no more */
    uint64_t left; /* to be shown; UINT64_MAX: no end */
    struct log_filter filter;
    struct log_groups *groups; /* owned */
    /* of this tarnd */
    char first[4096]; /* path of its first ring */
    ino_t inode;
    pid_t pid;
    unsigned nrings;
    struct log_ring rings[LIMIT_WORKERS];
    struct backend_names_view *names; /* owned; NULL: numbers are shown */
    /* loss, in all, and what was said of it */
    uint64_t missed, missed_reqs, said;
    bool corrupt;    /* said so already */
    bool out_failed; /* what we print is not read any more */
    int rc;          /* what went wrong here, or CTL_DONE */
    uint64_t looked_ms, read_ms;
    char line[ACCESS_LINE_MAX];
};

static volatile sig_atomic_t log_stop;

static void
log_on_signal(int sig)
{
    (void)sig;
    /* Noted only: the loop prints what it has, and ends. */
    log_stop = 1;
}

static uint64_t
log_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void
log_nap(unsigned ms)
{
    struct timespec nap = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&nap, NULL); /* a signal ends it */
}

/* ---- the rings of a tarnd ---- */

/* Copes with rings that are half open: log_open_ring() leaves `reader` NULL when it fails. */
static void
log_close_rings(struct log_run *run)
{
    for (unsigned i = 0; i < run->nrings; i++)
        if (run->rings[i].reader != NULL)
            shmlog_reader_close(&run->rings[i].reader);
    run->nrings = 0;
    if (run->names != NULL)
        backend_names_view_close(&run->names);
}

static int
log_say_closed(const char *path, int err)
{
    ctl_say("%s: %s", path, err == TERR_IO ? strerror(errno) : terr_text(err));
    fprintf(stderr, "    hint: tarnctl log reads shared memory: it runs on tarnd's own machine, in "
                    "the same container, and as a user with read access to it\n");
    return CTL_UNREACHABLE;
}

/* Asks for the details; without them every request still shows as a line.  An attached reader is
 * counted in the ring, and workers write details of requests only while there is one.  That
 * costs them time, so --format json and combined, which need none, do not attach. */
static void
log_attach(struct log_run *run)
{
    int err = 0;

    for (unsigned i = 0; i < run->nrings && err == 0; i++)
        err = shmlog_attach(run->rings[i].reader);
    /* All or none: details of some workers alone would look as if the others had nothing to say. */
    for (unsigned i = 0; i < run->nrings && err != 0; i++)
        shmlog_detach(run->rings[i].reader);
    if (err == TERR_LIMIT)
        ctl_say(
            "%d readers are attached already: requests show without details", SHMLOG_READERS_MAX);
    else if (err != 0)
        ctl_say("%s may not be written by this user: requests show without details", run->first);
}

/* Which tarnd the path belongs to is known by the inode of the first ring: a new process makes
 * new files. */
static int
log_open_ring(struct log_run *run, const char *dir, unsigned i, enum shmlog_from from)
{
    struct log_ring *ring = &run->rings[i];
    char path[4096];
    struct stat st;
    int err, n = snprintf(path, sizeof(path), "%s/log.%u", dir, i);

    *ring = (struct log_ring){.reader = NULL};
    if (n < 0 || (size_t)n >= sizeof(path))
        return log_say_closed(dir, TERR_INVALID);
    if (i == 0) {
        memcpy(run->first, path, sizeof(path));
        /* By this a tarnd that was started anew is told from the one before. */
        run->inode = stat(path, &st) == 0 ? st.st_ino : 0;
    }
    err = shmlog_reader_open(&ring->reader, path, from);
    if (err != 0)
        return log_say_closed(path, err);
    /* What lies there now: --all ends behind it, though workers go on writing. */
    ring->held = shmlog_behind(ring->reader);
    return CTL_DONE;
}

/* Without them, as of a tarnd that is older, numbers are shown. */
static void
log_open_names(struct log_run *run, const char *dir)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s/backends", dir);

    if (n > 0 && (size_t)n < sizeof(path) && backend_names_view_open(&run->names, path) != 0)
        run->names = NULL;
}

/* Where tarnd says that they are.  `oldest` after a restart: the new process has begun to write
 * before this reader found it, and nothing of that should be missed. */
static int
log_open_rings(struct log_run *run, bool oldest)
{
    enum shmlog_from from = oldest || run->c->all ? SHMLOG_FROM_OLDEST : SHMLOG_FROM_NOW;
    json_t *o;
    int rc = ctl_ask(run->c, "GET", "/v1/status", NULL, &o);
    const char *dir = json_string_value(json_object_get(o, "shm_dir"));
    json_int_t workers = json_integer_value(json_object_get(o, "workers"));

    run->pid = (pid_t)json_integer_value(json_object_get(o, "pid"));
    if (rc == CTL_DONE && (dir == NULL || workers < 1 || workers > LIMIT_WORKERS)) {
        ctl_say("%s does not say where its log is: is it of another version?", run->c->admin);
        rc = CTL_UNREACHABLE;
    }
    for (unsigned i = 0; rc == CTL_DONE && i < (unsigned)workers; i++) {
        rc = log_open_ring(run, dir, i, from);
        run->nrings = i + 1;
    }
    if (rc == CTL_DONE)
        log_open_names(run, dir);
    json_decref(o);
    if (rc != CTL_DONE)
        log_close_rings(run);
    else if (run->style != LOG_LINES && !run->dump)
        log_attach(run);
    run->looked_ms = run->read_ms = log_now_ms();
    return rc;
}

/* NULL while it is the tarnd that we read; else what became of it.  Its process may not be ours to
 * see (another pid namespace): it is asked itself when nothing comes. */
static const char *
log_is_gone(struct log_run *run, uint64_t now_ms)
{
    struct stat st;
    const char *gone = NULL;
    json_t *o = NULL;

    if (stat(run->first, &st) != 0)
        return "tarnd has ended";
    if (st.st_ino != run->inode)
        return "tarnd was restarted";
    if (now_ms - run->read_ms < 2 * LOG_LOOK_MS || kill(run->pid, 0) == 0 || errno != ESRCH)
        return NULL;
    run->c->quiet = true;
    if (ctl_ask(run->c, "GET", "/v1/status", NULL, &o) != CTL_DONE)
        gone = "tarnd has ended";
    else if (json_integer_value(json_object_get(o, "pid")) != run->pid)
        gone = "tarnd was restarted";
    run->c->quiet = false;
    json_decref(o);
    return gone;
}

/* --wait: until one answers. */
static int
log_await(struct log_run *run, bool oldest)
{
    int rc = CTL_UNREACHABLE;

    while (!log_stop && rc == CTL_UNREACHABLE) {
        /* Before the first question, too: a tarnd that ends still answers for a moment. */
        log_nap(LOG_WAIT_MS);
        run->c->quiet = true;
        rc = log_open_rings(run, oldest);
        run->c->quiet = false;
    }
    return log_stop ? CTL_DONE : rc;
}

/* ---- what they say ---- */

/* A request's line is made of its Req record, which is written when it has ended.  Other records
 * are passed over. */
static unsigned
log_show_lines(struct log_run *run, struct shmlog_view *view)
{
    struct shmlog_rec rec;
    struct shmlog_req req;
    unsigned n = 0;

    while (shmlog_record_next(view, &rec))
        if (shmlog_rec_req(&rec, view, &req) && log_filter_takes(&run->filter, &req)) {
            fwrite(run->line, 1, access_format_named(run->line, run->format, &req, run->names),
                stdout);
            n++;
        }
    return n;
}

static unsigned
log_show_raw(struct log_run *run, struct shmlog_view *view)
{
    struct shmlog_rec rec;
    unsigned n = 0;

    /* --count counts records here, and a chunk has many. */
    while (n < run->left && shmlog_record_next(view, &rec))
        if (log_filter_takes_tag(&run->filter, rec.tag)) {
            log_print_record(view, &rec, run->names, run->line);
            n++;
        }
    return n;
}

static void
log_count(struct log_run *run, unsigned shown)
{
    if (run->left != UINT64_MAX)
        run->left -= shown < run->left ? shown : run->left;
}

/* The reader's counters are sums since it was opened; here the difference is added to the run's,
 * for several rings have one report. */
static void
log_count_missed(struct log_run *run, struct log_ring *ring, uint32_t worker)
{
    uint64_t missed = shmlog_missed(ring->reader), reqs = shmlog_missed_reqs(ring->reader);

    if (missed == ring->missed)
        return;
    run->missed += missed - ring->missed;
    run->missed_reqs += reqs - ring->missed_reqs;
    ring->missed = missed;
    ring->missed_reqs = reqs;
    if (run->groups != NULL)
        /* Requests under way may lack a part: their group says so. */
        log_groups_tear(run->groups, worker);
}

static void
log_show(struct log_run *run, struct shmlog_view *view, uint64_t now_ms)
{
    unsigned shown = 0;

    if (run->style == LOG_LINES)
        shown = log_show_lines(run, view);
    else if (run->style == LOG_RAW)
        shown = log_show_raw(run, view);
    else
        shown = log_groups_take(run->groups, view, now_ms);
    log_count(run, shown);
}

/* Some of what a ring has.  Returns whether there was anything.  Bounded, so that a busy worker
 * does not keep the others' records from the screen.  With --all alone the end is not "nothing
 * came", for a busy worker never stops, but the number of bytes that were there when the ring
 * was opened. */
static bool
log_follow(struct log_run *run, unsigned i, uint64_t now_ms)
{
    struct log_ring *ring = &run->rings[i];
    struct shmlog_view view;
    unsigned n = 0;
    int got = 0;

    while (n < LOG_CHUNKS_TURN && run->left > 0 && !ring->ended) {
        uint64_t bytes;

        got = shmlog_next(ring->reader, &view);
        /* Also when nothing came: the reader may have been overtaken. */
        log_count_missed(run, ring, i);
        if (got <= 0)
            break;
        bytes = sizeof(struct shmlog_chunk) + view.rest.len;
        ring->held -= bytes < ring->held ? bytes : ring->held;
        ring->ended = run->dump && ring->held == 0;
        log_show(run, &view, now_ms);
        n++;
    }
    if (got < 0 && !run->corrupt) {
        ctl_say("the log of worker %u is damaged: records are lost", i);
        run->corrupt = true;
    }
    /* Fewer bytes than there were: the ring was overrun meanwhile. */
    if (run->dump && got <= 0)
        ring->ended = true;
    return n > 0;
}

/* Groups are flushed once a round and not once a chunk, because that walks all of them. */
static bool
log_round(struct log_run *run, uint64_t now_ms)
{
    bool any = false;

    for (unsigned i = 0; i < run->nrings; i++)
        any |= log_follow(run, i, now_ms);
    if (run->groups != NULL && run->left > 0)
        log_count(run, log_groups_flush(run->groups, now_ms, false, run->left));
    if (any)
        run->read_ms = now_ms;
    return any;
}

/* --all without --follow: every ring has reached what it had at the beginning. */
static bool
log_dumped(const struct log_run *run)
{
    bool all = run->dump;

    for (unsigned i = 0; i < run->nrings; i++)
        all = all && run->rings[i].ended;
    return all;
}

static void
log_say_missed(struct log_run *run)
{
    if (run->missed == run->said)
        return;
    ctl_say("%" PRIu64 " pieces of the log were lost so far, with %" PRIu64 " whole requests among "
            "them: they came faster than they were read (log_ring holds more when it is larger)",
        run->missed, run->missed_reqs);
    run->said = run->missed;
}

/* The reader of what we print may have left: that is a normal end.  `tarnctl log | head` closes
 * the pipe: poll(2) tells that from a full disk, which is an error.  Standard output becomes
 * /dev/null afterwards, as exit(3) writes the buffer once more. */
static void
log_flush(struct log_run *run)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    int fd;

    if (run->out_failed || (fflush(stdout) == 0 && !ferror(stdout)))
        return;
    if (poll(&out, 1, 0) != 1 || (out.revents & (POLLERR | POLLHUP)) == 0) {
        ctl_say("standard output: cannot be written");
        run->rc = CTL_USAGE;
    }
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        dup2(fd, STDOUT_FILENO); /* for what is still in the buffer */
    clearerr(stdout);
    run->out_failed = true;
    log_stop = 1;
}

/* Until the operator stops it, enough was shown, or tarnd has gone.  Its rings still lie in our
 * memory then, and are read to their end.  NULL, or what became of it. */
static const char *
log_read_all(struct log_run *run)
{
    const char *gone = NULL;
    unsigned nap_ms = LOG_NAP_MIN_MS;
    bool any = true;

    while (!log_stop && run->left > 0 && !log_dumped(run) && (gone == NULL || any)) {
        uint64_t now_ms = log_now_ms();

        any = log_round(run, now_ms);
        /* While there is more to read, the buffer saves system calls. */
        if (!any || ferror(stdout))
            log_flush(run);
        if (gone == NULL && now_ms - run->looked_ms >= LOG_LOOK_MS) {
            log_say_missed(run);
            gone = log_is_gone(run, now_ms);
            run->looked_ms = now_ms;
            /* One round more: what was written last has not been read yet. */
            any |= gone != NULL;
        }
        nap_ms = any ? LOG_NAP_MIN_MS : nap_ms * 2 < LOG_NAP_MAX_MS ? nap_ms * 2 : LOG_NAP_MAX_MS;
        if (!any)
            log_nap(nap_ms);
    }
    if (run->groups != NULL && run->left > 0)
        log_count(run, log_groups_flush(run->groups, 0, true, run->left));
    return gone;
}

/* ---- the command ---- */

/* --json is short for --format json. */
static int
log_set_style(struct log_run *run)
{
    struct ctl *c = run->c;

    run->style = LOG_GROUPS;
    if (c->format == NULL && !c->json)
        return CTL_DONE;
    if (c->format == NULL || access_format_parse(&run->format, c->format) == 0) {
        run->style = LOG_LINES;
        if (c->format == NULL)
            run->format = ACCESS_FORMAT_JSON;
    } else if (strcmp(c->format, "raw") == 0) {
        run->style = LOG_RAW;
    } else if (strcmp(c->format, "groups") != 0) {
        ctl_say("--format %s: groups, combined, json or raw", c->format);
        return CTL_USAGE;
    }
    return CTL_DONE;
}

/* What there is to choose among. */
static void
log_say_tags(void)
{
    for (unsigned tag = 1; tag < SHMLOG_TAG_COUNT; tag++)
        fprintf(stderr, "    %-15s %s\n", shmlog_tag_name(tag), shmlog_tag_doc(tag));
}

/* All of them must hold for a request to be shown; --tag is of records instead, and chooses what
 * is shown of a request. */
static int
log_set_filter(struct log_run *run)
{
    struct ctl *c = run->c;
    const struct {
        const char *name, *text;
    } options[] = {{"tag", c->tag}, {"url", c->url}, {"status", c->status}, {"client", c->client},
        {"cache", c->hit ? "hit" : NULL}, {"cache", c->miss ? "miss" : NULL}};
    char why[256];

    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        if (options[i].text == NULL ||
            log_filter_add(&run->filter, options[i].name, options[i].text, why, sizeof(why)) == 0)
            continue;
        ctl_say("--%s %s: %s", options[i].name, options[i].text, why);
        if (options[i].text == c->tag)
            log_say_tags();
        return CTL_USAGE;
    }
    return CTL_DONE;
}

/* Refuses what would silently show nothing: raw records have no request to filter by, and lines
 * have no tags. */
static int
log_options(struct log_run *run)
{
    struct ctl *c = run->c;
    char *end = NULL;
    int rc = log_set_style(run);

    c->json = false; /* what is printed is no answer of tarnd's */
    run->dump = c->all && !c->follow;
    run->left = UINT64_MAX;
    if (rc == CTL_DONE && c->count != NULL) {
        run->left = strtoull(c->count, &end, 10);
        if (c->count[0] < '0' || c->count[0] > '9' || *end != '\0' || run->left == 0) {
            ctl_say("--count %s: a number of requests, from 1", c->count);
            rc = CTL_USAGE;
        }
    }
    if (rc == CTL_DONE)
        rc = log_set_filter(run);
    if (rc == CTL_DONE && run->style == LOG_RAW && run->filter.by_request) {
        ctl_say("--format raw shows records as they come, before their request is over: only --tag "
                "chooses among them");
        rc = CTL_USAGE;
    }
    if (rc == CTL_DONE && run->style == LOG_LINES && run->filter.by_tag) {
        ctl_say("--tag chooses among records: it goes with --format groups or raw");
        rc = CTL_USAGE;
    }
    return rc;
}

static void
log_catch_signals(void)
{
    struct sigaction on = {.sa_handler = log_on_signal}, ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGINT, &on, NULL);
    sigaction(SIGTERM, &on, NULL);
    /* So a closed pipe is an error of write(2), and the readers are closed in order. */
    sigaction(SIGPIPE, &ignore, NULL);
}

/* Without --wait the end of tarnd is the end of the command, with CTL_UNREACHABLE, so that a
 * script sees it.  With --wait the loop begins anew with the next tarnd. */
static int
log_session(struct log_run *run)
{
    const char *gone = NULL;
    int rc = log_open_rings(run, false);

    if (rc == CTL_UNREACHABLE && run->c->wait)
        rc = log_await(run, true);
    while (rc == CTL_DONE && !log_stop) {
        gone = log_read_all(run);
        log_say_missed(run);
        if (gone == NULL)
            break;
        log_flush(run);
        ctl_say("%s", gone);
        rc = CTL_UNREACHABLE;
        if (!run->c->wait)
            break;
        log_close_rings(run);
        /* Another tarnd, other rings. */
        run->missed = run->missed_reqs = run->said = 0;
        rc = log_await(run, true);
    }
    log_flush(run);
    return run->rc != CTL_DONE ? run->rc : rc;
}

/* Options are judged before anything is opened.  The filter goes last but one: groups borrow it. */
int
ctl_log(struct ctl *c)
{
    struct log_run *run = calloc(1, sizeof(*run));
    int rc = CTL_REFUSED;

    if (run == NULL) {
        ctl_say("out of memory");
        return rc;
    }
    run->c = c;
    rc = log_options(run);
    if (rc == CTL_DONE && run->style == LOG_GROUPS) {
        run->groups = log_groups_new(&run->filter);
        rc = run->groups == NULL ? CTL_REFUSED : CTL_DONE;
    }
    if (rc == CTL_DONE) {
        /* On a terminal a line is wanted when it comes. */
        if (!isatty(STDOUT_FILENO))
            setvbuf(stdout, NULL, _IOFBF, LOG_OUT_BUF);
        log_catch_signals();
        rc = log_session(run);
        log_close_rings(run);
    }
    log_filter_fini(&run->filter);
    if (run->groups != NULL)
        log_groups_free(&run->groups);
    free(run);
    return rc;
}
