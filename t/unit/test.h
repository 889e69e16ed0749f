/* test.h -- cmocka, in the shape of Tarn's tests: a name is a sentence.
 *
 *     TEST(cache, second_miss_waits) { CHECK_EQ(CACHE_QUEUED, ...); }
 *     TEST_MAIN(TEST_ENTRY(cache, second_miss_waits))
 */
#ifndef TARN_TEST_H
#define TARN_TEST_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#define TEST(module, sentence) \
    static void module##__##sentence(void **state __attribute__((unused)))

/* clang-format off */
#define TEST_ENTRY(module, sentence) \
    {#module ": " #sentence, module##__##sentence, NULL, NULL, NULL}
/* clang-format on */

#define TEST_MAIN(...)                                    \
    int main(void)                                        \
    {                                                     \
        const struct CMUnitTest tests[] = {__VA_ARGS__};  \
        return cmocka_run_group_tests(tests, NULL, NULL); \
    }

#define CHECK(e)                  assert_true(e)
#define CHECK_EQ(want, got)       assert_int_equal((long long)(want), (long long)(got))
#define CHECK_STR(want, got)      assert_string_equal(want, got)
#define CHECK_MEM(want, got, len) assert_memory_equal(want, got, len)

#endif
