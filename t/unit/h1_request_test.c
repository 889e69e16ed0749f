/* h1_request_test.c -- what an origin is sent by HTTP/1: the request line, Host, framing, chunks. */
#include "t/unit/test.h"

#include <stdio.h>

#include "daemon/base/obj.h"
#include "daemon/base/terr.h"
#include "daemon/h1/h1_conf.h"
#include "daemon/h1/h1_origin.h"
#include "t/unit/fake_stream.h"
#include "t/unit/request_text.h"

static const struct h1_conf conf = {.fields_max = 20, .resp_field_max = 200, .resp_head_max = 400};

/* PUT /p of host "h", with a field. */
#define BYTES "PUT/phA: 1\r\n"
static const struct http_message put = {.base = BYTES,
    .fields = (struct http_field[]){{6, 1, 9, 1, HTTP_F_OTHER, false, false}},
    .nfields = 1,
    .len = sizeof(BYTES) - 1,
    .method = HTTP_M_PUT,
    .method_len = 3,
    .path_off = 3,
    .path_len = 2,
    .authority_off = 5,
    .authority_len = 1,
    .lines_off = 6,
    .version_major = 1,
    .version_minor = 1};
#define LINE "PUT /p HTTP/1.1\r\nHost: h\r\nA: 1\r\n"

struct asking {
    struct loop loop;
    struct task task;
    struct stream *s;
    struct origin_exchange *x;
    unsigned runs;
};

static void
asking_run(struct task *t)
{
    container_of(t, struct asking, task)->runs++;
}

static void
asking_open(struct asking *a, struct origin_request *r, const char *preface)
{
    const struct origin_protocol h1 = h1_origin_protocol(&conf);
    const struct origin_target target = {
        .to = &(struct stream_target){.path = ""}, .preface = slice_str(preface)};

    *a = (struct asking){.runs = 0};
    fake_loop_open(&a->loop);
    task_init(&a->task, &a->loop.tasks, asking_run);
    CHECK_EQ(0, h1.open(&a->x, &a->loop, &h1, &target));
    a->x->task = &a->task;
    a->s = fake_newest;
    fake_connect(a->s, 0);
    fake_run(&a->loop);
    r->head = &put;
    a->x->ops->begin(a->x, r);
}

static void
asking_close(struct asking *a)
{
    a->x->ops->close(&a->x);
    task_cancel(&a->task);
    fake_loop_close(&a->loop);
}

static int
asking_send(struct asking *a, const char *bytes, unsigned flags)
{
    struct iovec iov = {(void *)(uintptr_t)bytes, strlen(bytes)};

    return a->x->ops->send(a->x, &iov, iov.iov_len > 0, flags);
}

/* The head of a request, and of the bytes what is framed of them. */
static void
heads(struct origin_request r, const char *preface, const char *want)
{
    struct asking a;

    asking_open(&a, &r, preface);
    CHECK_EQ(0, asking_send(&a, "", 0));
    CHECK_STR(want, fake_got(a.s));
    CHECK_EQ(1, fake_packets(a.s));
    asking_close(&a);
}

TEST(h1_request, framing_and_the_connections_options_are_written_here)
{
    heads((struct origin_request){.has_body = false}, "", LINE "\r\n");
    heads((struct origin_request){.close = true}, "", LINE "Connection: close\r\n\r\n");
    heads((struct origin_request){.has_body = true}, "", LINE "Content-Length: 0\r\n\r\n");
    heads((struct origin_request){.has_body = true, .body_length = UINT64_MAX - 1}, "",
        LINE "Content-Length: 18446744073709551614\r\n\r\n");
    heads((struct origin_request){.has_body = true, .body_length = ORIGIN_LENGTH_UNKNOWN}, "",
        LINE "Transfer-Encoding: chunked\r\n\r\n");
    heads((struct origin_request){.close = true, .upgrade = SLICE_LIT("websocket")}, "",
        LINE "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    heads((struct origin_request){.has_body = false}, "PROXY UNKNOWN\r\n",
        "PROXY UNKNOWN\r\n" LINE "\r\n");
}

/* A body in two pieces and its end, of which the peer takes `step` bytes at a time. */
static void
bodies(uint64_t length, size_t step, const char *want)
{
    struct origin_request r = {.has_body = true, .body_length = length};
    struct asking a;
    uint64_t sent = 0;

    asking_open(&a, &r, "");
    fake_take(a.s, step);
    CHECK_EQ(0, asking_send(&a, "hello ", ORIGIN_MORE));
    for (unsigned i = 0; i < 3; i++) {
        const char *bytes = i == 0 ? "world" : "";

        while (a.x->ops->sending(a.x)) {
            if (i < 2)
                CHECK_EQ(TERR_AGAIN, asking_send(&a, bytes, i == 1 ? ORIGIN_END : 0));
            CHECK(a.x->sent >= sent);
            sent = a.x->sent;
            fake_take(a.s, step);
            fake_run(&a.loop);
        }
        if (i < 2)
            CHECK_EQ(0, asking_send(&a, bytes, i == 1 ? ORIGIN_END : 0));
    }
    CHECK_STR(want, fake_got(a.s));
    CHECK_EQ(strlen(want), a.x->sent);
    asking_close(&a);
}

TEST(h1_request, a_body_is_chunked_when_its_length_is_not_known_however_slowly_it_goes)
{
    for (size_t step = 1; step < 140; step += step < 20 ? 1 : 30) {
        bodies(ORIGIN_LENGTH_UNKNOWN, step,
            LINE "Transfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n");
        bodies(11, step, LINE "Content-Length: 11\r\n\r\nhello world");
    }
}

TEST(h1_request, a_body_that_breaks_off_is_never_ended)
{
    struct origin_request r = {.has_body = true, .body_length = ORIGIN_LENGTH_UNKNOWN};
    struct asking a;

    asking_open(&a, &r, "");
    CHECK_EQ(0, asking_send(&a, "hello", 0));
    fake_arrive(a.s, "HTTP/1.1 204 X\r\n\r\n", sizeof("HTTP/1.1 204 X\r\n\r\n") - 1);
    fake_run(&a.loop);
    CHECK_STR(LINE "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", fake_got(a.s));
    CHECK(!a.x->ops->reusable(a.x));
    asking_close(&a);
}

/* A reset is met by the write first: the user, which waits for a response that may have come before,
 * goes on to send. */
TEST(h1_request, a_write_that_fails_before_the_end_is_read_fails_each_send)
{
    struct origin_request r = {.has_body = false};
    const struct http_message *head;
    struct asking a;

    asking_open(&a, &r, "");
    fake_refuse(a.s, TERR_CLOSED);
    CHECK_EQ(TERR_CLOSED, asking_send(&a, "", ORIGIN_END));
    CHECK_EQ(TERR_AGAIN, a.x->ops->head(a.x, &head));
    CHECK_EQ(TERR_CLOSED, asking_send(&a, "", ORIGIN_END));
    CHECK(!a.x->ops->sending(a.x));
    fake_end(a.s, TERR_CLOSED);
    fake_run(&a.loop);
    CHECK_EQ(TERR_CLOSED, asking_send(&a, "", ORIGIN_END));
    CHECK_EQ(TERR_CLOSED, a.x->ops->head(a.x, &head));
    asking_close(&a);
}

TEST_MAIN(TEST_ENTRY(h1_request, framing_and_the_connections_options_are_written_here),
    TEST_ENTRY(h1_request, a_body_is_chunked_when_its_length_is_not_known_however_slowly_it_goes),
    TEST_ENTRY(h1_request, a_body_that_breaks_off_is_never_ended),
    TEST_ENTRY(h1_request, a_write_that_fails_before_the_end_is_read_fails_each_send))
