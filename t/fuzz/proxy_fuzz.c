/* proxy_fuzz.c -- a script of clients, origins and time against a whole worker.
 *
 *     variant flags OP... 0xFF client 1 0xFF client 2 0xFF answer 0xFF answer ...
 *
 * `variant` chooses a configuration (proxy_world.c).  Behind the script stand the bytes that the
 * two clients send and the answers of origins, in the order in which requests reach them,
 * whatever the connection; 0xFE as an answer's last byte: the origin closes behind it.  The ops
 * are in fuzz_op() below; other bytes mean nothing.  The loop turns until nothing happens after
 * each op; but once if '-' stood before it, and not at all behind '+'.  When the script ends, what is left of everything is delivered, and then
 * time passes until nobody is left: by deadlines alone, so what hangs is found.
 *
 * What was sent is judged by proxy_judge.c; what is left over, by the modules as they close.
 */
#include <stdint.h>
#include <string.h>

#include "daemon/base/tassert.h"
#include "t/fuzz/proxy_judge.h"
#include "t/fuzz/proxy_net.h"
#include "t/fuzz/proxy_strict.h"
#include "t/fuzz/proxy_world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_BYTES_MAX = 64 * 1024,
    FUZZ_OPS_MAX = 256,
    FUZZ_ROUNDS_MAX = 400,     /* of delivery: an answer for each of many requests */
    FUZZ_DEADLINES_MAX = 4000, /* until the last deadline has passed */
    FUZZ_SEPARATOR = 0xff,
    FUZZ_ENDS = 0xfe,
};

enum fuzz_flag {
    FUZZ_CLIENTS_END = 2, /* clients end their side when they have sent all */
};

static struct fuzz {
    struct slice script;
    struct slice client[WIRE_CLIENTS]; /* not sent yet */
    struct slice answers;              /* not given yet: sections */
    unsigned flags;
} fuzz;

/* Up to the next separator; `rest` goes behind it. */
static struct slice
fuzz_section(struct slice *rest)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, FUZZ_SEPARATOR, rest->len) : NULL;
    struct slice s = *rest;

    if (end == NULL) {
        *rest = slice_of(rest->ptr + rest->len, 0);
        return s;
    }
    s.len = (size_t)(end - rest->ptr);
    *rest = slice_of(end + 1, rest->len - s.len - 1);
    return s;
}

/* ---- Origins ---- */

/* Reads on in what the origin was sent: how many requests is that? */
static void
fuzz_count_asked(struct wire *w)
{
    static struct arena_pool pool;
    struct strict_message m;
    struct arena arena;
    enum strict_result rc;

    arena_init(&arena, &pool);
    do {
        rc = strict_request(
            slice_of(w->out.ptr + w->asked_at, w->out.len - w->asked_at), STRICT_OURS, &arena, &m);
        if (rc == STRICT_WHOLE) {
            w->asked_at += m.used;
            w->nasked++;
        }
    } while (rc == STRICT_WHOLE);
    w->asking = m.has_head;
    arena_fini(&arena);
}

static void
fuzz_bind(struct wire *w)
{
    w->answer = fuzz_section(&fuzz.answers);
    w->nbound++;
    w->answer_ends =
        w->answer.len > 0 && (unsigned char)w->answer.ptr[w->answer.len - 1] == FUZZ_ENDS;
    if (w->answer_ends)
        w->answer.len--;
}

/* At most `max` bytes of what it answers; true: something was sent. */
static bool
fuzz_answer(struct wire *w, size_t max)
{
    struct slice now;

    if (w->stream == NULL || w->in_end != 0)
        return false;
    fuzz_count_asked(w);
    if (w->answer.len == 0 && w->nbound < w->nasked + w->asking && fuzz.answers.len > 0)
        fuzz_bind(w);
    now = slice_of(w->answer.ptr, w->answer.len < max ? w->answer.len : max);
    wire_send(w, now);
    w->answer = slice_of(w->answer.ptr + now.len, w->answer.len - now.len);
    if (w->answer.len == 0 && w->answer_ends)
        wire_end(w);
    return now.len > 0 || (w->answer.len == 0 && w->answer_ends);
}

/* The newest or oldest connection to an origin that is open; NULL: none. */
static struct wire *
fuzz_origin(bool newest)
{
    struct wire *found = NULL;

    for (unsigned i = WIRE_CLIENTS; i < wires.n; i++) {
        if (wires.wire[i].stream == NULL)
            continue;
        found = &wires.wire[i];
        if (!newest)
            break;
    }
    return found;
}

/* ---- Ops ---- */

static size_t
fuzz_amount(unsigned n)
{
    return n == 0 ? WIRE_ROOM_ALL : n < 128 ? n : (size_t)(n - 127) * 64;
}

static bool
fuzz_client_sends(unsigned client, size_t max)
{
    struct slice *left = &fuzz.client[client];
    struct slice now = slice_of(left->ptr, left->len < max ? left->len : max);

    wire_send(&wires.wire[client], now);
    *left = slice_of(left->ptr + now.len, left->len - now.len);
    return now.len > 0;
}

static void
fuzz_rooms(size_t room)
{
    wires.origin_room = room;
    for (unsigned i = WIRE_CLIENTS; i < wires.n; i++)
        wires.wire[i].room = room;
}

static void
fuzz_on_origin(char op, struct wire *w, size_t amount)
{
    if (w == NULL)
        return;
    switch (op) {
    case 'o':
        fuzz_answer(w, amount);
        break;
    case 'u':
        if (w->answer.len == 0)
            fuzz_bind(w);
        fuzz_answer(w, amount);
        break;
    case 'e':
        wire_end(w);
        break;
    case 'r':
        wire_break(w);
        break;
    default:
        TUNREACHABLE("op");
    }
}

/* One op, and the byte behind it. */
static void
fuzz_op(char op, unsigned n)
{
    switch (op) {
    case 'a': /* n: client 1 sends so much */
    case 'b': /* client 2 does */
        fuzz_client_sends((unsigned)(op - 'a'), fuzz_amount(n));
        break;
    case 'A': /* client 1 ends its side */
    case 'B':
        wire_end(&wires.wire[op - 'A']);
        break;
    case 'c': /* client 1 breaks the connection */
    case 'd':
        wire_break(&wires.wire[op - 'c']);
        break;
    case 'w': /* n: client 1 takes so much from now on */
    case 'x':
        wires.wire[op - 'w'].room = n == 255 ? 0 : fuzz_amount(n);
        break;
    case 'v': /* n: each origin takes so much */
        fuzz_rooms(n == 255 ? 0 : fuzz_amount(n));
        break;
    case 'o': /* n: the newest origin connection answers so much of its answer */
    case 'u': /* n: it does, even if nothing was asked */
    case 'e': /* it ends its side */
    case 'r': /* it breaks */
        fuzz_on_origin(op, fuzz_origin(true), fuzz_amount(n));
        break;
    case 'O': /* the same for the oldest one */
    case 'U':
    case 'E':
    case 'R':
        fuzz_on_origin((char)(op | 0x20), fuzz_origin(false), fuzz_amount(n));
        break;
    case 'n': /* n: how the next connect to an origin ends */
        wires.next_connect = (enum wire_connect)(n % 4);
        break;
    case 't': /* n: so much time passes */
        world_advance(n < 128 ? n * 100 : (n - 127) * 10000);
        break;
    case 'D': /* SIGTERM */
        world_drain();
        break;
    default:
        break;
    }
}

static bool
fuzz_has_operand(char op)
{
    return op != '\0' && strchr("abwxvouOUnt", op) != NULL;
}

static void
fuzz_run_script(void)
{
    struct slice s = fuzz.script;

    for (unsigned ops = 0; s.len > 0 && ops < FUZZ_OPS_MAX; ops++) {
        char how = s.ptr[0];
        size_t used = how == '+' || how == '-' ? 2 : 1;
        char op;

        if (s.len < used)
            return;
        op = s.ptr[used - 1];
        if (fuzz_has_operand(op) && s.len > used) {
            fuzz_op(op, (unsigned char)s.ptr[used]);
            used++;
        } else {
            fuzz_op(op, 0);
        }
        s = slice_of(s.ptr + used, s.len - used);
        if (how == '-')
            world_turn();
        else if (how != '+')
            world_settle();
    }
}

/* ---- The end ---- */

static bool
fuzz_deliver(void)
{
    bool any = false;

    for (unsigned i = 0; i < WIRE_CLIENTS; i++) {
        bool sent = fuzz_client_sends(i, WIRE_ROOM_ALL);

        if ((fuzz.flags & FUZZ_CLIENTS_END) != 0)
            wire_end(&wires.wire[i]);
        if (sent)
            world_settle();
        any = any || sent;
    }
    for (unsigned i = WIRE_CLIENTS; i < wires.n; i++) {
        bool sent = fuzz_answer(&wires.wire[i], WIRE_ROOM_ALL);

        if (sent)
            world_settle();
        any = any || sent;
    }
    return any;
}

static void
fuzz_finish(void)
{
    unsigned rounds = 0;

    for (unsigned i = 0; i < WIRE_CLIENTS; i++)
        wires.wire[i].room = WIRE_ROOM_ALL;
    fuzz_rooms(WIRE_ROOM_ALL);
    world_settle();
    while (rounds < FUZZ_ROUNDS_MAX && fuzz_deliver())
        rounds++;
    world_settle();
    for (rounds = 0; !world_is_idle(); rounds++) {
        tassert(rounds < FUZZ_DEADLINES_MAX);
        tassert(world_advance_to_deadline()); /* else somebody waits for nothing */
        world_settle();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = slice_of((const char *)data, size);

    if (size < 2 || size > FUZZ_BYTES_MAX)
        return 0;
    rest = slice_of(rest.ptr + 2, rest.len - 2);
    fuzz = (struct fuzz){.flags = data[1]};
    fuzz.script = fuzz_section(&rest);
    for (unsigned i = 0; i < WIRE_CLIENTS; i++)
        fuzz.client[i] = fuzz_section(&rest);
    fuzz.answers = rest;
    world_open(data[0] % world_variants());
    fuzz_run_script();
    fuzz_finish();
    world_close();
    judge_wires(!world_changes_host());
    wires_close();
    return 0;
}
