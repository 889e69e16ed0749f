/* base_test.c -- what everything else stands on: tasks, inboxes, waiters, errors, lists
 * and tagged objects, on one thread with a hand-run loop. */
#include "t/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/address.h"
#include "daemon/base/list.h"
#include "daemon/base/obj.h"
#include "daemon/base/span.h"
#include "daemon/base/terr.h"
#include "daemon/base/usage.h"
#include "daemon/base/waiter.h"

/* Does `bug` end the process by abort()?  In a child, so that the test lives. */
static bool
base_dies(void (*bug)(void))
{
    pid_t pid;
    int status;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(2);
        bug();
        _exit(0);
    }
    CHECK(pid > 0);
    CHECK_EQ(pid, waitpid(pid, &status, 0));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* ---- lists ---- */

struct item {
    struct list link;
    int n;
};

static unsigned
list_digits(struct list *l)
{
    struct list *m, *tmp;
    unsigned digits = 0, back = 0, scale = 1;

    LIST_FOREACH_SAFE(m, tmp, l)
    digits = digits * 10 + (unsigned)container_of(m, struct item, link)->n;
    for (m = l->prev; m != l; m = m->prev, scale *= 10)
        back += (unsigned)container_of(m, struct item, link)->n * scale;
    CHECK_EQ(digits, back); /* the same way round in both directions */
    return digits;
}

TEST(list, keeps_order_at_both_ends)
{
    struct item a = {.n = 1}, b = {.n = 2}, c = {.n = 3};
    struct list l;

    list_init(&l);
    CHECK(list_empty(&l));
    list_add_tail(&l, &b.link);
    list_add_tail(&l, &c.link);
    list_add_head(&l, &a.link);
    CHECK_EQ(123, list_digits(&l));
    list_del(&b.link);
    list_del(&b.link); /* twice is harmless */
    CHECK_EQ(13, list_digits(&l));
    list_del(&a.link);
    list_del(&c.link);
    CHECK(list_empty(&l));
}

TEST(list, splice_moves_all_to_the_end_and_empties_the_source)
{
    struct item a = {.n = 1}, b = {.n = 2}, c = {.n = 3};
    struct list to, from;

    list_init(&to);
    list_init(&from);
    list_splice(&to, &from);
    CHECK(list_empty(&to) && list_empty(&from));
    list_add_tail(&from, &a.link);
    list_splice(&to, &from);
    CHECK(list_empty(&from));
    list_add_tail(&from, &b.link);
    list_add_tail(&from, &c.link);
    list_splice(&to, &from);
    CHECK(list_empty(&from));
    CHECK_EQ(123, list_digits(&to));
}

TEST(list, a_walk_survives_the_removal_of_its_member)
{
    struct item items[5];
    struct list l, *m, *tmp;

    list_init(&l);
    for (int i = 0; i < 5; i++) {
        items[i].n = i + 1;
        list_add_tail(&l, &items[i].link);
    }
    LIST_FOREACH_SAFE(m, tmp, &l)
    {
        if (container_of(m, struct item, link)->n % 2 == 1)
            list_del(m);
    }
    CHECK_EQ(24, list_digits(&l));
}

/* ---- tagged objects ---- */

#define THING_MAGIC OBJ_TAG('t', 'h', 'n', 'g')
struct thing {
    uint32_t magic;
};

static struct thing *
thing_new(void)
{
    struct thing *t = malloc(sizeof(*t));

    tassert(t != NULL);
    t->magic = THING_MAGIC;
    return t;
}

static void
thing_poisoned(void)
{
    struct thing t = {.magic = THING_MAGIC};

    OBJ_BURY(&t);
    OBJ_CHECK(&t, THING_MAGIC);
}

static void
thing_other(void)
{
    struct thing t = {.magic = OBJ_TAG('o', 't', 'h', 'r')};

    OBJ_CHECK(&t, THING_MAGIC);
}

static void
thing_absent(void)
{
    struct thing *t = NULL, *to;

    OBJ_TAKE(to, &t, THING_MAGIC);
    (void)to;
}

TEST(obj, a_tag_reads_as_its_letters_in_memory)
{
    uint32_t tag = OBJ_TAG('r', 'e', 'q', '.');

    CHECK_MEM("req.", &tag, 4);
}

TEST(obj, ownership_moves_and_leaves_null)
{
    struct thing *t = thing_new(), *to = NULL;

    OBJ_CHECK(t, THING_MAGIC);
    OBJ_TAKE(to, &t, THING_MAGIC);
    CHECK(t == NULL && to != NULL);
    OBJ_FREE(to);
    CHECK(to == NULL);
}

TEST(obj, a_dead_a_foreign_and_a_missing_object_end_the_process)
{
    CHECK(base_dies(thing_poisoned));
    CHECK(base_dies(thing_other));
    CHECK(base_dies(thing_absent));
}

/* ---- errors ---- */

TEST(terr, every_error_has_a_name_a_text_and_sane_statuses)
{
    for (int err = -1; err >= -(int)TERR_COUNT; err--) {
        int client = terr_http(err, TERR_SIDE_CLIENT), origin = terr_http(err, TERR_SIDE_ORIGIN);

        CHECK(terr_name(err)[0] != '\0' && terr_text(err)[0] != '\0');
        CHECK(client == 0 || (client >= 400 && client <= 599));
        CHECK(origin == 0 || (origin >= 500 && origin <= 599));
        CHECK((client == 0) == (origin == 0));
        for (int other = -1; other > err; other--)
            assert_string_not_equal(terr_name(err), terr_name(other));
    }
    CHECK_STR("OK", terr_name(TERR_OK));
    CHECK_STR("FRAMING", terr_name(TERR_FRAMING));
}

TEST(terr, who_erred_decides_the_status)
{
    CHECK_EQ(400, terr_http(TERR_FRAMING, TERR_SIDE_CLIENT));
    CHECK_EQ(502, terr_http(TERR_FRAMING, TERR_SIDE_ORIGIN));
    CHECK_EQ(505, terr_http(TERR_VERSION, TERR_SIDE_CLIENT));
    CHECK_EQ(431, terr_http(TERR_HEADTOOBIG, TERR_SIDE_CLIENT));
    CHECK_EQ(408, terr_http(TERR_TIMEDOUT, TERR_SIDE_CLIENT));
    CHECK_EQ(504, terr_http(TERR_TIMEDOUT, TERR_SIDE_ORIGIN));
}

TEST(terr, system_errors_are_translated_and_the_unknown_is_io)
{
    CHECK_EQ(TERR_OK, terr_from_errno(0));
    CHECK_EQ(TERR_REFUSED, terr_from_errno(-ECONNREFUSED));
    CHECK_EQ(TERR_REFUSED, terr_from_errno(-ENOENT));
    CHECK_EQ(TERR_UNREACH, terr_from_errno(-ENETUNREACH));
    CHECK_EQ(TERR_TIMEDOUT, terr_from_errno(-ETIMEDOUT));
    CHECK_EQ(TERR_LIMIT, terr_from_errno(-EMFILE));
    CHECK_EQ(TERR_CLOSED, terr_from_errno(-EPIPE));
    CHECK_EQ(TERR_IO, terr_from_errno(-EDOM));
    CHECK_EQ(TERR_IO, terr_from_errno(-4095)); /* libuv's own, as UV_EOF */
}

static void
terr_of_a_count(void)
{
    (void)terr_name(1);
}

static void
terr_of_no_row(void)
{
    (void)terr_text(-1 - (int)TERR_COUNT);
}

TEST(terr, what_is_no_error_has_no_row)
{
    CHECK(base_dies(terr_of_a_count));
    CHECK(base_dies(terr_of_no_row));
}

/* ---- slices ---- */

TEST(span, equality_looks_at_bytes_and_empty_slices_need_no_pointer)
{
    CHECK(slice_eq(SLICE_LIT("abc"), slice_str("abc")));
    CHECK(!slice_eq(SLICE_LIT("abc"), SLICE_LIT("abC")));
    CHECK(!slice_eq(SLICE_LIT("abc"), SLICE_LIT("ab")));
    CHECK(slice_eq(slice_of(NULL, 0), SLICE_LIT("")));
    CHECK(slice_eq_nocase(SLICE_LIT("ChunkED"), SLICE_LIT("chunked")));
    CHECK(!slice_eq_nocase(SLICE_LIT("a@"), SLICE_LIT("a`"))); /* only letters fold */
    CHECK(slice_eq_nocase(slice_of(NULL, 0), SLICE_LIT("")));
}

/* ---- usage ---- */

TEST(usage, what_is_taken_is_counted_by_kind_until_it_goes_back)
{
    struct usage u = {.bytes = {0}};
    char *a = usage_alloc(&u, USAGE_READ, 1000), *b = usage_calloc(&u, USAGE_CONN, 100);
    uint64_t read = u.bytes[USAGE_READ];

    CHECK(a != NULL && b != NULL);
    CHECK(read >= 1000);
    CHECK(u.bytes[USAGE_CONN] >= 100);
    CHECK_EQ(0, b[99]);
    a = usage_realloc(&u, USAGE_READ, a, 5000);
    CHECK(u.bytes[USAGE_READ] >= 5000);
    usage_free(&u, USAGE_READ, a);
    usage_free(&u, USAGE_READ, NULL);
    CHECK_EQ(0, u.bytes[USAGE_READ]);
    usage_free(&u, USAGE_CONN, b);
    CHECK_EQ(0, u.bytes[USAGE_CONN]);
    usage_free(NULL, USAGE_CONN, usage_alloc(NULL, USAGE_CONN, 10)); /* nobody counts */
}

static void
teller_on_run(struct task *t)
{
    (void)t;
}

TEST(usage, who_tells_the_store_is_woken_when_much_was_taken)
{
    struct task_queue q;
    struct task teller;
    struct usage u = {.teller = &teller};
    void *p;

    task_queue_init(&q);
    task_init(&teller, &q, teller_on_run);
    usage_free(&u, USAGE_READ, usage_alloc(&u, USAGE_READ, USAGE_TELL / 2));
    CHECK(!task_is_queued(&teller));
    p = usage_alloc(&u, USAGE_READ, USAGE_TELL / 2);
    CHECK(task_is_queued(&teller));
    CHECK_EQ(0, u.taken);
    task_cancel(&teller);
    usage_free(&u, USAGE_READ, p);
}

/* ---- tasks ---- */

struct job {
    struct task task;
    int n;
    struct task *wakes, *cancels;
};

static unsigned job_log; /* the digits of those that ran, in order */

static void
job_run(struct task *t)
{
    struct job *j = container_of(t, struct job, task);

    job_log = job_log * 10 + (unsigned)j->n;
    if (j->wakes != NULL)
        task_wake(j->wakes);
    if (j->cancels != NULL)
        task_cancel(j->cancels);
}

static void
job_init(struct job *j, struct task_queue *q, int n)
{
    *j = (struct job){.n = n};
    task_init(&j->task, q, job_run);
}

TEST(task, runs_once_in_the_order_of_the_first_wake)
{
    struct task_queue q;
    struct job a, b;

    job_log = 0;
    task_queue_init(&q);
    job_init(&a, &q, 1);
    job_init(&b, &q, 2);
    CHECK(!task_queue_run(&q, 10));
    task_wake(&b.task);
    task_wake(&a.task);
    task_wake(&b.task);
    CHECK(!task_queue_run(&q, 10));
    CHECK_EQ(21, job_log);
    CHECK(!task_is_queued(&a.task) && !task_is_queued(&b.task));
}

TEST(task, those_woken_meanwhile_run_in_the_same_turn_up_to_the_bound)
{
    struct task_queue q;
    struct job a, b;

    job_log = 0;
    task_queue_init(&q);
    job_init(&a, &q, 1);
    job_init(&b, &q, 2);
    a.wakes = &b.task;
    b.wakes = &a.task; /* for ever */
    task_wake(&a.task);
    CHECK(task_queue_run(&q, 5));
    CHECK_EQ(12121, job_log);
    CHECK(task_queue_run(&q, 0));
    CHECK_EQ(12121, job_log);
    b.wakes = NULL;
    CHECK(!task_queue_run(&q, 1));
    CHECK_EQ(121212, job_log);
}

TEST(task, may_wake_itself)
{
    struct task_queue q;
    struct job a;

    job_log = 0;
    task_queue_init(&q);
    job_init(&a, &q, 1);
    a.wakes = &a.task;
    task_wake(&a.task);
    CHECK(task_queue_run(&q, 3));
    CHECK_EQ(111, job_log);
    task_cancel(&a.task);
    CHECK(!task_queue_run(&q, 3));
    CHECK_EQ(111, job_log);
}

TEST(task, a_cancelled_one_does_not_run_and_can_be_woken_again)
{
    struct task_queue q;
    struct job a, b;

    job_log = 0;
    task_queue_init(&q);
    job_init(&a, &q, 1);
    job_init(&b, &q, 2);
    a.cancels = &b.task; /* due in the same turn */
    task_wake(&a.task);
    task_wake(&b.task);
    CHECK(!task_queue_run(&q, 10));
    CHECK_EQ(1, job_log);
    task_cancel(&b.task); /* not queued: nothing */
    task_wake(&b.task);
    CHECK(!task_queue_run(&q, 10));
    CHECK_EQ(12, job_log);
}

static void
job_run_and_free(struct task *t)
{
    free(container_of(t, struct job, task));
    job_log++;
}

TEST(task, may_free_itself)
{
    struct task_queue q;
    struct job *j;

    job_log = 0;
    task_queue_init(&q);
    for (int i = 0; i < 3; i++) {
        j = malloc(sizeof(*j));
        CHECK(j != NULL);
        job_init(j, &q, 1);
        j->task.run = job_run_and_free;
        task_wake(&j->task);
    }
    CHECK(!task_queue_run(&q, 10));
    CHECK_EQ(3, job_log);
}

/* ---- inboxes: this thread plays the home loop while inbox_here says so ---- */

struct letter {
    struct post post;
    int n;
    struct inbox *answer_to; /* where it is sent again, once */
};

static unsigned letter_log, wakes_seen;

static void
on_wake(struct inbox *in)
{
    (void)in;
    wakes_seen++;
}

static void
letter_land(struct post *p)
{
    struct letter *l = container_of(p, struct letter, post);
    struct inbox *to = l->answer_to;

    letter_log = letter_log * 10 + (unsigned)l->n;
    l->answer_to = NULL;
    if (to != NULL)
        inbox_send(to, p);
}

static void
inbox_fixture(struct inbox *in, struct letter *letters, int n)
{
    letter_log = wakes_seen = 0;
    inbox_here = NULL;
    inbox_init(in, on_wake);
    for (int i = 0; i < n; i++)
        letters[i] = (struct letter){.post.land = letter_land, .n = i + 1};
}

TEST(inbox, posts_land_in_order_and_only_the_first_wakes)
{
    struct inbox in;
    struct letter l[3];

    inbox_fixture(&in, l, 3);
    CHECK_EQ(0, inbox_drain(&in));
    for (int i = 0; i < 3; i++)
        inbox_send(&in, &l[i].post);
    CHECK_EQ(1, wakes_seen);
    CHECK_EQ(0, letter_log);
    CHECK_EQ(3, inbox_drain(&in));
    CHECK_EQ(123, letter_log);
    CHECK_EQ(0, inbox_drain(&in));
    inbox_send(&in, &l[1].post); /* a landed post may travel again, and wakes again */
    CHECK_EQ(2, wakes_seen);
    CHECK_EQ(1, inbox_drain(&in));
    CHECK_EQ(1232, letter_log);
    CHECK_EQ(4, atomic_load(&in.posts));
    CHECK_EQ(2, atomic_load(&in.wakeups));
}

TEST(inbox, a_post_to_ones_own_loop_lands_at_once)
{
    struct inbox in;
    struct letter l[1];

    inbox_fixture(&in, l, 1);
    inbox_here = &in;
    inbox_send(&in, &l[0].post);
    CHECK_EQ(1, letter_log);
    CHECK_EQ(0, wakes_seen);
    CHECK_EQ(0, atomic_load(&in.posts)); /* counts those from other threads */
    CHECK_EQ(0, inbox_drain(&in));
    inbox_here = NULL;
}

TEST(inbox, a_post_may_be_sent_again_while_it_lands)
{
    struct inbox in;
    struct letter l[2];

    inbox_fixture(&in, l, 2);
    l[0].answer_to = &in;
    inbox_send(&in, &l[0].post);
    inbox_send(&in, &l[1].post);
    CHECK_EQ(2, inbox_drain(&in)); /* as from another loop: it waits for the next drain */
    CHECK_EQ(12, letter_log);
    CHECK_EQ(2, wakes_seen);
    CHECK_EQ(1, inbox_drain(&in));
    CHECK_EQ(121, letter_log);
}

/* ---- waiters ---- */

struct waiter_fixture {
    struct task_queue queue;
    struct inbox home;
    struct job job;
    struct waiter waiter;
    struct list waiting; /* as a party keeps them */
};

static void
waiter_fixture_open(struct waiter_fixture *f)
{
    job_log = wakes_seen = 0;
    inbox_here = NULL;
    task_queue_init(&f->queue);
    inbox_init(&f->home, on_wake);
    job_init(&f->job, &f->queue, 1);
    waiter_init(&f->waiter, &f->job.task, &f->home);
    list_init(&f->waiting);
}

TEST(waiter, is_idle_then_armed_then_posted_then_idle)
{
    struct waiter_fixture f;

    waiter_fixture_open(&f);
    CHECK_EQ(WAITER_IDLE, waiter_state(&f.waiter));
    CHECK(!waiter_pending(&f.waiter));
    waiter_arm(&f.waiter, &f.waiting);
    CHECK_EQ(WAITER_ARMED, waiter_state(&f.waiter));
    waiter_notify(&f.waiter);
    CHECK_EQ(WAITER_POSTED, waiter_state(&f.waiter));
    CHECK(waiter_pending(&f.waiter) && list_empty(&f.waiting));
    CHECK(!task_is_queued(&f.job.task)); /* not before it lands */
    CHECK_EQ(1, inbox_drain(&f.home));
    CHECK(!waiter_pending(&f.waiter));
    CHECK(!task_queue_run(&f.queue, 10));
    CHECK_EQ(1, job_log);
}

TEST(waiter, on_its_own_loop_a_notification_lands_at_once)
{
    struct waiter_fixture f;

    waiter_fixture_open(&f);
    inbox_here = &f.home;
    waiter_arm(&f.waiter, &f.waiting);
    waiter_notify(&f.waiter);
    CHECK(!waiter_pending(&f.waiter));
    CHECK(task_is_queued(&f.job.task));
    CHECK_EQ(0, job_log); /* the task runs in its own place, never inside the notifier */
    CHECK(!task_queue_run(&f.queue, 10));
    CHECK_EQ(1, job_log);
    inbox_here = NULL;
}

TEST(waiter, a_disarmed_one_is_forgotten_and_can_be_armed_again)
{
    struct waiter_fixture f;

    waiter_fixture_open(&f);
    waiter_arm(&f.waiter, &f.waiting);
    waiter_disarm(&f.waiter);
    CHECK(!waiter_pending(&f.waiter) && list_empty(&f.waiting));
    CHECK_EQ(0, waiter_notify_all(&f.waiting));
    CHECK_EQ(0, inbox_drain(&f.home));
    waiter_arm(&f.waiter, &f.waiting);
    CHECK_EQ(1, waiter_notify_all(&f.waiting));
    CHECK_EQ(1, inbox_drain(&f.home));
}

TEST(waiter, all_that_wait_are_notified_in_order_with_one_wakeup)
{
    struct waiter_fixture f;
    struct job jobs[4];
    struct waiter w[4];

    waiter_fixture_open(&f);
    for (int i = 0; i < 4; i++) {
        job_init(&jobs[i], &f.queue, i + 1);
        waiter_init(&w[i], &jobs[i].task, &f.home);
        waiter_arm(&w[i], &f.waiting);
    }
    waiter_disarm(&w[2]);
    CHECK_EQ(3, waiter_notify_all(&f.waiting));
    CHECK_EQ(1, wakes_seen);
    CHECK_EQ(3, inbox_drain(&f.home));
    CHECK(!task_queue_run(&f.queue, 10));
    CHECK_EQ(124, job_log);
}

static void
waiter_armed_twice(void)
{
    struct waiter_fixture f;

    waiter_fixture_open(&f);
    waiter_arm(&f.waiter, &f.waiting);
    waiter_arm(&f.waiter, &f.waiting);
}

static void
waiter_disarmed_while_posted(void)
{
    struct waiter_fixture f;

    waiter_fixture_open(&f);
    waiter_arm(&f.waiter, &f.waiting);
    waiter_notify(&f.waiter);
    waiter_disarm(&f.waiter);
}

static void
waiter_notified_while_idle(void)
{
    struct waiter_fixture f;

    waiter_fixture_open(&f);
    waiter_notify(&f.waiter);
}

TEST(waiter, steps_that_its_states_do_not_allow_end_the_process)
{
    CHECK(base_dies(waiter_armed_twice));
    CHECK(base_dies(waiter_disarmed_while_posted));
    CHECK(base_dies(waiter_notified_while_idle));
}

TEST(address, is_written_as_people_do)
{
    static const struct {
        uint8_t addr[16];
        const char *text;
    } rows[] = {
        {{0}, "unix"},
        {{[10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 255}, "192.0.2.255"},
        {{[10] = 0xff, [11] = 0xff}, "0.0.0.0"},
        {{[0] = 0x20, [1] = 1, [2] = 0x0d, [3] = 0xb8, [15] = 1}, "2001:db8::1"},
        {{[15] = 1}, "::1"},
    };
    char text[ADDRESS_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        address_text(rows[i].addr, text);
        CHECK_STR(rows[i].text, text);
        CHECK_EQ(i == 0, address_is_unix(rows[i].addr));
    }
}

TEST_MAIN(TEST_ENTRY(list, keeps_order_at_both_ends), TEST_ENTRY(address, is_written_as_people_do),
    TEST_ENTRY(list, splice_moves_all_to_the_end_and_empties_the_source),
    TEST_ENTRY(list, a_walk_survives_the_removal_of_its_member),
    TEST_ENTRY(obj, a_tag_reads_as_its_letters_in_memory),
    TEST_ENTRY(obj, ownership_moves_and_leaves_null),
    TEST_ENTRY(obj, a_dead_a_foreign_and_a_missing_object_end_the_process),
    TEST_ENTRY(terr, every_error_has_a_name_a_text_and_sane_statuses),
    TEST_ENTRY(terr, who_erred_decides_the_status),
    TEST_ENTRY(terr, system_errors_are_translated_and_the_unknown_is_io),
    TEST_ENTRY(terr, what_is_no_error_has_no_row),
    TEST_ENTRY(span, equality_looks_at_bytes_and_empty_slices_need_no_pointer),
    TEST_ENTRY(usage, what_is_taken_is_counted_by_kind_until_it_goes_back),
    TEST_ENTRY(usage, who_tells_the_store_is_woken_when_much_was_taken),
    TEST_ENTRY(task, runs_once_in_the_order_of_the_first_wake),
    TEST_ENTRY(task, those_woken_meanwhile_run_in_the_same_turn_up_to_the_bound),
    TEST_ENTRY(task, may_wake_itself),
    TEST_ENTRY(task, a_cancelled_one_does_not_run_and_can_be_woken_again),
    TEST_ENTRY(task, may_free_itself),
    TEST_ENTRY(inbox, posts_land_in_order_and_only_the_first_wakes),
    TEST_ENTRY(inbox, a_post_to_ones_own_loop_lands_at_once),
    TEST_ENTRY(inbox, a_post_may_be_sent_again_while_it_lands),
    TEST_ENTRY(waiter, is_idle_then_armed_then_posted_then_idle),
    TEST_ENTRY(waiter, on_its_own_loop_a_notification_lands_at_once),
    TEST_ENTRY(waiter, a_disarmed_one_is_forgotten_and_can_be_armed_again),
    TEST_ENTRY(waiter, all_that_wait_are_notified_in_order_with_one_wakeup),
    TEST_ENTRY(waiter, steps_that_its_states_do_not_allow_end_the_process))
