/* descriptor_race_test.c -- numbers of descriptors go from thread to thread as the kernel reuses them. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>
#include <uv.h>

static atomic_int closed_fd = -1;

static void *
close_one(void *arg)
{
    uv_loop_t loop;
    uv_pipe_t pipe;
    int fd = eventfd(0, EFD_CLOEXEC);

    (void)arg;
    assert_true(fd >= 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_pipe_init(&loop, &pipe, 0), 0);
    assert_int_equal(uv_pipe_open(&pipe, fd), 0);
    uv_close((uv_handle_t *)&pipe, NULL);
    /* Nothing but the kernel says to the other thread that it is closed. */
    atomic_store_explicit(&closed_fd, fd, memory_order_relaxed);
    while (atomic_load_explicit(&closed_fd, memory_order_relaxed) != -1)
        usleep(1000);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return NULL;
}

static void
a_number_that_libuv_closed_is_free_for_other_threads(void **state)
{
    pthread_t t;
    int fd, again;

    (void)state;
    assert_int_equal(pthread_create(&t, NULL, close_one, NULL), 0);
    while ((fd = atomic_load_explicit(&closed_fd, memory_order_relaxed)) < 0)
        usleep(1000);
    again = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(again, fd);
    assert_int_equal(close(again), 0);
    atomic_store_explicit(&closed_fd, -1, memory_order_relaxed);
    pthread_join(t, NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_that_libuv_closed_is_free_for_other_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
