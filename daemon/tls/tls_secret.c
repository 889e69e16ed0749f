/* tls_secret.c -- the secret of a day, and its file.
 *
 * Each day's secret follows from the one before by a hash, and none from the one behind: today's file opens no ticket
 * of yesterday.  Nodes that were given one file on any day agree on every later one without a word. */
#include "daemon/tls/tls_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/hex.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

#define SECRET_MAGIC "tarn-session-secret "
#define SECRET_LINES SECRET_MAGIC "1\nday %s\nsecret "
#define SECRET_NEW   ".new" /* behind its name, while it is written */

/* Seeds are of the first one, for every node begins to count here.  Who advances a secret of the first to the last
 * one spends 20 ms. */
#define SECRET_DAY_FIRST INT64_C(20454) /* 2026-01-01 */
#define SECRET_DAY_LAST  INT64_C(73048) /* 2169-12-31 */

int64_t
tls_secret_day(int64_t now_s)
{
    return (now_s / TLS_TICKET_PERIOD_S - 1) / TLS_TICKET_DAY_PERIODS;
}

void
tls_secret_date(int64_t day, char out[32])
{
    /* A day of a file that is damaged may be any number: gmtime_r() refuses some. */
    time_t at = (time_t)(day * 86400);
    struct tm tm;

    if (gmtime_r(&at, &tm) == NULL || strftime(out, 32, "%Y-%m-%d", &tm) == 0)
        snprintf(out, 32, "day %lld", (long long)day);
}

/* ---- what is derived ---- */

/* HKDF-Expand with one block (RFC 5869 2.3): `info` is purpose and number, the 1 is the block's. */
bool
tls_secret_derive(
    const struct tls_secret *s, const char *purpose, int64_t number, unsigned char *out, size_t len)
{
    unsigned char info[32] = {0}, block[EVP_MAX_MD_SIZE];
    size_t n = strlen(purpose);
    bool good;

    tassert(n + 9 <= sizeof(info) && len <= TLS_SECRET);
    memcpy(info, purpose, n);
    for (unsigned i = 0; i < 8; i++)
        info[n + i] = (unsigned char)((uint64_t)number >> (56 - 8 * i));
    info[n + 8] = 1;
    /* Without the step "extract": the secret is uniform already. */
    good = HMAC(EVP_sha256(), s->bytes, TLS_SECRET, info, n + 9, block, NULL) != NULL;
    if (good)
        memcpy(out, block, len);
    OPENSSL_cleanse(block, sizeof(block));
    return good;
}

bool
tls_secret_seed(const void *seed, size_t len, struct tls_secret *out)
{
    /* Hashed, so that a seed of any length is a secret of ours, and a seed of 32 bytes is not itself the first day's. */
    tassert(len >= TLS_SECRET);
    out->day = SECRET_DAY_FIRST;
    return EVP_Digest(seed, len, out->bytes, NULL, EVP_sha256(), NULL) == 1;
}

/* Forward only.  *s is as it was where memory fails: half a step would be a secret that no other node has. */
bool
tls_secret_advance(struct tls_secret *s, int64_t day)
{
    struct tls_secret next = *s;
    bool good = true;

    while (next.day < day && good) {
        good = tls_secret_derive(&next, "day", next.day + 1, next.bytes, sizeof(next.bytes));
        next.day++;
    }
    if (good)
        *s = next;
    OPENSSL_cleanse(&next, sizeof(next));
    return good;
}

bool
tls_secret_same(const struct tls_secret *a, const struct tls_secret *b)
{
    struct tls_secret x = *a, y = *b;
    bool same = tls_secret_advance(&x, y.day) && tls_secret_advance(&y, x.day) &&
                /* In time that does not depend on where they differ. */
                CRYPTO_memcmp(x.bytes, y.bytes, sizeof(x.bytes)) == 0;

    OPENSSL_cleanse(&x, sizeof(x));
    OPENSSL_cleanse(&y, sizeof(y));
    return same;
}

/* ---- text ---- */

size_t
tls_secret_print(const struct tls_secret *s, char out[TLS_SECRET_TEXT])
{
    char date[32];
    int n;

    tls_secret_date(s->day, date);
    n = snprintf(out, TLS_SECRET_TEXT, SECRET_LINES, date);
    tassert(n + 2 * TLS_SECRET + 2 <= TLS_SECRET_TEXT);
    hex_put(out + n, s->bytes, TLS_SECRET);
    n += 2 * TLS_SECRET;
    out[n++] = '\n';
    out[n] = '\0';
    return (size_t)n;
}

/* `text` is that of a file, with a NUL behind it.  Leaves what stands where day and secret should. */
static void
secret_scan(const char *text, struct tls_secret *out)
{
    struct tm tm = {.tm_mday = 0};
    int at = 0;

    if (sscanf(text, SECRET_MAGIC "1 day %4d-%2d-%2d secret %n", &tm.tm_year, &tm.tm_mon,
            &tm.tm_mday, &at) != 3)
        return;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    out->day = (int64_t)timegm(&tm) / 86400;
    for (unsigned i = 0; i < TLS_SECRET && at > 0; i++) {
        char digits[3] = {0};

        memcpy(digits, text + at + 2 * (size_t)i, strnlen(text + at + 2 * (size_t)i, 2));
        out->bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
        if (digits[1] == '\0')
            return; /* nothing may be read behind the end */
    }
}

/* A text is good if it is what we would write: so no other form of it is. */
static int
secret_parse_text(struct slice text, struct tls_secret *out, char *why, size_t why_len)
{
    char copy[TLS_SECRET_TEXT] = {0}, again[TLS_SECRET_TEXT];
    bool same = false;

    *out = (struct tls_secret){.day = 0};
    if (text.len < sizeof(copy)) {
        memcpy(copy, text.ptr, text.len);
        secret_scan(copy, out);
        same = out->day >= SECRET_DAY_FIRST && out->day <= SECRET_DAY_LAST &&
               slice_eq(text, slice_of(again, tls_secret_print(out, again)));
    }
    OPENSSL_cleanse(copy, sizeof(copy));
    OPENSSL_cleanse(again, sizeof(again));
    if (same)
        return 0;
    snprintf(why, why_len,
        "session_secret: it is not whole, or of a newer version: it begins as tarnd writes it, and "
        "has to "
        "go on with a day and a secret.  Copy that of another node, or make a new one, as by "
        "`openssl rand 32`");
    return TERR_CONFIG;
}

int
tls_secret_parse(struct slice text, struct tls_secret *out, char *why, size_t why_len)
{
    const struct slice magic = SLICE_LIT(SECRET_MAGIC);

    if (text.len >= magic.len && slice_eq(slice_of(text.ptr, magic.len), magic))
        return secret_parse_text(text, out, why, why_len);
    /* Any random bytes are a seed, also 32 that happen to be text; that they are random cannot be seen. */
    if (text.len < TLS_SECRET || text.len > TLS_SECRET_SEED_MAX) {
        snprintf(why, why_len,
            "session_secret: it has %zu bytes: %d to %d random ones are needed, as from `openssl "
            "rand 32`",
            text.len, TLS_SECRET, TLS_SECRET_SEED_MAX);
        return TERR_CONFIG;
    }
    return tls_secret_seed(text.ptr, text.len, out) ? 0 : TERR_NOMEM;
}

/* ---- files ---- */

/* 0, or TERR_CONFIG.  `text` has room for one byte more than there may be.
 * Not by stdio, which would keep a copy of the secret in its buffer. */
static int
secret_read_fd(int fd, struct span *text, char *why, size_t why_len)
{
    struct stat st;
    size_t room = text->len;
    ssize_t n = 1;

    text->len = 0;
    if (fstat(fd, &st) != 0)
        goto fail;
    if (!S_ISREG(st.st_mode)) {
        snprintf(why, why_len, "session_secret: it is no regular file");
        return TERR_CONFIG;
    }
    if ((st.st_mode & (S_IROTH | S_IWOTH)) != 0) {
        snprintf(why, why_len,
            "session_secret: every user may read or write it: chmod 0600, and let tarnd's user own "
            "it");
        return TERR_CONFIG;
    }
    while (n > 0 && text->len < room) {
        n = read(fd, text->ptr + text->len, room - text->len);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n < 0)
            goto fail;
        else
            text->len += (size_t)n;
    }
    return 0;
fail:
    snprintf(why, why_len, "session_secret: %s", strerror(errno));
    return TERR_CONFIG;
}

static int
secret_load(int fd, struct tls_secret *out, char *why, size_t why_len)
{
    char bytes[TLS_SECRET_SEED_MAX + 1];
    struct span text = {bytes, sizeof(bytes)};
    int err = secret_read_fd(fd, &text, why, why_len);

    if (err == 0)
        err = tls_secret_parse(slice_of(bytes, text.len), out, why, why_len);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    return err;
}

int
tls_secret_read(const char *file, struct tls_secret *out, char *why, size_t why_len)
{
    /* O_NONBLOCK: a FIFO by that name would wait for its writer. */
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;

    if (fd < 0) {
        snprintf(why, why_len, "session_secret: %s", strerror(errno));
        return TERR_CONFIG;
    }
    err = secret_load(fd, out, why, why_len);
    close(fd);
    return err;
}

/* The name itself must reach the disk, too. */
static int
secret_sync_directory(const char *file)
{
    char at[PATH_MAX];
    const char *slash = strrchr(file, '/');
    int fd, rc;

    tassert(slash != NULL); /* it comes from realpath(3) */
    snprintf(at, sizeof(at), "%.*s", (int)(slash - file) + 1, file);
    fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    rc = fsync(fd);
    close(fd);
    return rc;
}

/* Under the lock.  The owner stays; another one's file is replaced by root alone.  0, or -1 with an errno. */
static int
secret_replace(const char *file, uid_t owner, struct slice text)
{
    char made[PATH_MAX + sizeof(SECRET_NEW)];
    int fd, err = 0;

    snprintf(made, sizeof(made), "%s" SECRET_NEW, file);
    unlink(made); /* what a process has left that was killed */
    fd = open(made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    errno =
        0; /* write() leaves it when it takes less than all, and the unlink() above mostly fails */
    if (write(fd, text.ptr, text.len) != (ssize_t)text.len)
        err = errno != 0 ? errno : ENOSPC;
    else if (fchmod(fd, 0600) != 0 || (owner != geteuid() && fchown(fd, owner, (gid_t)-1) != 0) ||
             fsync(fd) != 0)
        err = errno;
    close(fd);
    if (err == 0 && rename(made, file) != 0)
        err = errno;
    if (err == 0)
        return secret_sync_directory(file);
    /* The old file is as it was, and is tried again with the next tick. */
    unlink(made);
    errno = err;
    return -1;
}

/* The file is locked, and is `fd`. */
static int
secret_renew_locked(int fd, const char *file, uid_t owner, int64_t day, char *why, size_t why_len)
{
    char text[TLS_SECRET_TEXT];
    struct tls_secret s;
    /* Read under the lock, and not what this process knows: an operator's new file is advanced, never overwritten. */
    int err = secret_load(fd, &s, why, why_len);

    if (err == 0 && s.day >= day) {
        OPENSSL_cleanse(&s, sizeof(s));
        return 0;
    }
    if (err == 0 && !tls_secret_advance(&s, day))
        err = TERR_NOMEM;
    errno = 0;
    if (err == 0 && secret_replace(file, owner, slice_of(text, tls_secret_print(&s, text))) != 0) {
        snprintf(why, why_len, "%s", strerror(errno));
        err = TERR_DENIED;
    }
    OPENSSL_cleanse(&s, sizeof(s));
    OPENSSL_cleanse(text, sizeof(text));
    return err != 0 ? err : 1;
}

/* Locks the file.  Is it still the one of this name, and may we replace it? */
static int
secret_lock(int fd, const char *file, uid_t *owner, char *why, size_t why_len)
{
    struct stat st, now;

    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return TERR_AGAIN;
        snprintf(why, why_len, "it cannot be locked: %s", strerror(errno));
        return TERR_DENIED;
    }
    /* The lock is the file's and not the name's: another process may have replaced it while we waited to open it. */
    if (fstat(fd, &st) != 0 || stat(file, &now) != 0 || st.st_ino != now.st_ino ||
        st.st_dev != now.st_dev)
        return TERR_AGAIN; /* another process was faster */
    *owner = st.st_uid;
    if (st.st_uid == geteuid() || geteuid() == 0)
        return 0;
    snprintf(why, why_len, "it belongs to another user");
    return TERR_DENIED;
}

int
tls_secret_renew(const char *file, int64_t day, char *why, size_t why_len)
{
    char *real = realpath(file, NULL); /* a link stays one */
    int fd = real != NULL ? open(real, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1, rc = TERR_DENIED;
    uid_t owner;

    if (fd < 0) {
        snprintf(why, why_len, "%s", strerror(errno));
    } else {
        rc = secret_lock(fd, real, &owner, why, why_len);
        if (rc == 0)
            rc = secret_renew_locked(fd, real, owner, day, why, why_len);
        close(fd); /* and with it the lock goes */
    }
    free(real);
    return rc;
}
