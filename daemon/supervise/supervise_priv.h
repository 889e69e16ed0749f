/* supervise_priv.h -- what the files of the supervisor share. */
#ifndef TARN_SUPERVISE_PRIV_H
#define TARN_SUPERVISE_PRIV_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/net/inherit.h"
#include "daemon/supervise/supervise.h"

enum {
    SUPERVISE_CHILDREN = 8,           /* one serves, one starts, the others retire */
    SUPERVISE_TURN_MS = 1000,         /* at most, between two looks at the clock */
    SUPERVISE_START_MS = 60000,       /* for a child to become ready; the first has no limit */
    SUPERVISE_CALM_MS = 60000,        /* one that ran for this long: its crash is the first again */
    SUPERVISE_ABORT_MS = 5000,        /* to die of SIGABRT and leave a core; then SIGKILL */
    SUPERVISE_WATCHDOG_MS = 30000,    /* until a child's first beat says otherwise */
    SUPERVISE_WATCHDOG_MIN_MS = 3000, /* beats come once a second, and machines are busy */
    SUPERVISE_BACKOFF_MS = 100,       /* before the second start in a row; then it doubles */
    SUPERVISE_BACKOFF_MAX_MS = 30000,
    SUPERVISE_REAP_MS = 5000,    /* at the end, for memory reapers (reaper.h) */
    SUPERVISE_TEXT_MAX = 120000, /* bytes of a variable: the kernel's MAX_ARG_STRLEN is 128 KiB */
};

enum child_role {
    CHILD_STARTING, /* not ready yet */
    CHILD_SERVING,  /* one at most */
    CHILD_RETIRING, /* finishes what it has */
};

/* An address, and what keeps it. */
struct inherited {
    struct inherited *next;
    struct listen_sockets sockets;
    char *address; /* as configured; "-": known by its sockets alone */
};

struct child {
    pid_t pid; /* 0: this place is free */
    int fd;    /* our end of its channel; -1: it has closed its own */
    enum child_role role;
    bool upgrade; /* of another binary than we are */
    bool aborted; /* we have made it end */
    uint64_t started_ms, ready_ms;
    int64_t watchdog_ms; /* 0: it may be silent */
    uint64_t silent_ms;
    char words[128];             /* its last */
    struct inherited *inherited; /* STARTING: what it listens on */
};

struct supervisor {
    char **argv;
    const char *conf;
    char *program; /* what a new binary is looked for under */
    int signals;
    struct child children[SUPERVISE_CHILDREN];
    struct inherited *inherited;
    pid_t checker; /* asks a new binary whether it would run; 0: none */
    uint64_t now_ms, restart_ms, check_until_ms;
    unsigned crashes; /* in a row */
    bool ready_said, stopping, ended, exec_due;
    bool hup_due, usr1_due; /* came while a child started; it gets them when it is ready */
    int status;
};

/* supervise.c */
/* Milliseconds between the n-th crash in a row, from 1 on, and the next start. */
uint64_t supervise_backoff_ms(unsigned crashes);
struct child *supervise_find(struct supervisor *s, enum child_role role);

/* supervise_child.c */
/* A tarnd of `program`, or, NULL, of the binary that we are.  False, and the log says why. */
bool child_start(struct supervisor *s, const char *program);
/* Before an execv(2): shall this program have them? */
void child_pass_fd(int fd, bool pass);
/* Signals are for the supervisor to read; a program that it starts gets them as any does. */
void child_reset_signals(void);
/* Kills it if it has been silent for too long, or does not become ready. */
void child_watch(struct supervisor *s, struct child *c, uint64_t elapsed_ms);
/* It has ended. */
void child_forget(struct child *c);
/* "was killed by signal 9 (Killed)" */
void child_how(int status, char *text, size_t room);

/* supervise_inherited.c */
/* Takes the descriptors. */
void inherited_add(
    struct inherited **list, const struct listen_sockets *sockets, const char *address);
/* The first of that address goes, and its file if it is a Unix socket of ours. */
void inherited_drop(struct inherited **list, const char *address);
/* All descriptors are closed.  With `remove` Unix sockets that are ours and not in `kept` lose
 * their files. */
void inherited_release(struct inherited **list, const struct inherited *kept, bool remove);
void inherited_close(const struct listen_sockets *sockets);
/* Lines as of inherit_print, each behind `prefix`; false: no room. */
bool inherited_print(const struct inherited *list, const char *prefix, char *to, size_t room);
void inherited_pass(const struct inherited *list, bool pass);

/* supervise_upgrade.c */
/* SIGUSR2: asks the new binary whether it would run. */
void upgrade_begin(struct supervisor *s);
/* The answer, as a status of waitpid(2). */
void upgrade_on_checked(struct supervisor *s, int status);
void upgrade_watch(struct supervisor *s);
/* Becomes the new binary.  Returns only when that did not work; then everything is as it was. */
void upgrade_exec(struct supervisor *s);
/* Goes on where the supervisor before us was, if the environment says so.  TERR_CONFIG. */
int upgrade_adopt(struct supervisor *s);

#endif
