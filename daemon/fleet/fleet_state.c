/* fleet_state.c -- "tarn-fleet 1 FLEET NODE EPOCH POSITION", and blanks up to the size of a line. */
#include "daemon/fleet/fleet_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf/conf.h"
#include "daemon/base/tassert.h"
#include "daemon/base/terr.h"

enum {
    STATE_LINE = 256, /* bytes, always as many: a shorter line leaves nothing of a longer one */
};

/* The next word of a line that has one blank between two. */
static struct slice
state_word(struct slice *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, ' ', rest->len) : NULL;
    struct slice word = slice_of(rest->ptr, end != NULL ? (size_t)(end - rest->ptr) : rest->len);

    *rest = end != NULL ? slice_of(end + 1, rest->len - word.len - 1) : slice_of("", 0);
    return word;
}

bool
fleet_state_parse(struct slice text, const struct conf_fleet *conf, struct fleet_state_line *out)
{
    const char *end = text.len > 0 ? memchr(text.ptr, '\n', text.len) : NULL;
    struct slice rest, epoch;
    struct fleet_id id;

    if (end == NULL)
        return false;
    rest = slice_of(text.ptr, (size_t)(end - text.ptr));
    while (rest.len > 0 && rest.ptr[rest.len - 1] == ' ')
        rest.len--;
    if (!slice_eq(state_word(&rest), SLICE_LIT("tarn-fleet")) ||
        !slice_eq(state_word(&rest), SLICE_LIT("1")) ||
        !slice_eq(state_word(&rest), slice_str(conf->name)) ||
        !slice_eq(state_word(&rest), slice_str(conf->node)))
        return false;
    epoch = state_word(&rest);
    if (epoch.len != FLEET_STATE_EPOCH_MAX - 1 || !fleet_id_parse(rest, &id))
        return false;
    memcpy(out->epoch, epoch.ptr, epoch.len);
    out->epoch[epoch.len] = '\0';
    out->position = id;
    return true;
}

int
fleet_state_open(
    const struct conf_fleet *conf, struct fleet_state_line *out, char *why, size_t why_size)
{
    int fd = open(conf->state, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    char text[STATE_LINE + 1];
    ssize_t n;

    *out = (struct fleet_state_line){.position = {0, 0}};
    if (fd < 0) {
        snprintf(why, why_size, "%s", strerror(errno));
        return terr_from_errno(-errno);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        snprintf(why, why_size, "%s",
            errno == EWOULDBLOCK ? "another tarnd has it open" : strerror(errno));
        close(fd);
        return TERR_AGAIN;
    }
    n = pread(fd, text, sizeof(text), 0);
    if (n > 0)
        fleet_state_parse(slice_of(text, (size_t)n), conf, out);
    return fd;
}

int
fleet_state_write(int fd, const struct conf_fleet *conf, const struct fleet_state_line *line)
{
    char text[STATE_LINE + 1], id[FLEET_ID_TEXT_MAX];
    int n = snprintf(text, sizeof(text), "tarn-fleet 1 %s %s %s %s", conf->name, conf->node,
        line->epoch, fleet_id_text(line->position, id).ptr);

    tassert(n > 0 && n < STATE_LINE); /* names have 64 bytes at most */
    memset(text + n, ' ', (size_t)(STATE_LINE - n));
    text[STATE_LINE - 1] = '\n';
    return pwrite(fd, text, STATE_LINE, 0) == STATE_LINE ? 0 : TERR_IO;
}
