/*
 * unit.h - the frame of a unit test program: its tests, run by Check, reported as TAP.
 *
 * Each test runs in its own process, so that an abort, a leak or a sanitizer's report fails only
 * that test. A program consists of TEST(name) { ... }, or TEST_ABORTS(name) for one that must end
 * by abort(), and of UNIT_MAIN("suite"), which runs all of them in their order. Some programs still
 * have a table of rows UNIT(name) or UNIT_ABORTS(name), and UNIT_MAIN("suite", table).
 */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <signal.h>
#include <stdlib.h>

struct unit_test {
    const TTest *const *test; /* a test's name is a pointer to this in Check */
    int signal;
    double timeout_s;
    struct unit_test *next;
};

/* All tests of the program. */
static struct unit_test *unit_first;
__attribute__((unused)) static struct unit_test **unit_end = &unit_first;

/* The default time limit of one test. It only ends hangs; sanitizers on a busy machine are slow. */
#define UNIT_TIMEOUT_S 300.0

#define UNIT_TEST(name, by)                                                                        \
    static const TTest *name;                                                                      \
    __attribute__((constructor)) static void unit_add_##name(void)                                 \
    {                                                                                              \
        static struct unit_test test = {                                                           \
            .test = &(name), .signal = (by), .timeout_s = UNIT_TIMEOUT_S};                         \
        *unit_end = &test;                                                                         \
        unit_end = &test.next;                                                                     \
    }                                                                                              \
    START_TEST(name)
#define TEST(name)        UNIT_TEST(name, 0)
#define TEST_ABORTS(name) UNIT_TEST(name, SIGABRT)
#define UNIT(name)                                                                                 \
    {                                                                                              \
        .test = &(name), .signal = 0, .timeout_s = UNIT_TIMEOUT_S                                  \
    }
#define UNIT_ABORTS(name)                                                                          \
    {                                                                                              \
        .test = &(name), .signal = SIGABRT, .timeout_s = UNIT_TIMEOUT_S                            \
    }

static inline void unit_add(Suite *s, const char *suite, const struct unit_test *test)
{
    TCase *c = tcase_create(suite);
    tcase_set_timeout(c, test->timeout_s);
    if (test->signal)
        tcase_add_test_raise_signal(c, *test->test, test->signal);
    else
        tcase_add_test(c, *test->test);
    suite_add_tcase(s, c);
}

static inline int unit_run_suite(Suite *s)
{
    SRunner *runner = srunner_create(s);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline int unit_run(const char *suite, const struct unit_test *tests, size_t count)
{
    Suite *s = suite_create(suite);
    for (size_t i = 0; i < count; i++)
        unit_add(s, suite, &tests[i]);
    return unit_run_suite(s);
}

static inline int unit_run_all(const char *suite)
{
    Suite *s = suite_create(suite);
    for (const struct unit_test *test = unit_first; test; test = test->next)
        unit_add(s, suite, test);
    return unit_run_suite(s);
}

#define UNIT_MAIN_ALL(suite)                                                                       \
    int main(void)                                                                                 \
    {                                                                                              \
        return unit_run_all(suite);                                                                \
    }
#define UNIT_MAIN_TABLE(suite, tests)                                                              \
    int main(void)                                                                                 \
    {                                                                                              \
        return unit_run(suite, tests, sizeof(tests) / sizeof((tests)[0]));                         \
    }
#define UNIT_MAIN_OF(a, b, main, ...) main
#define UNIT_MAIN(...)                                                                             \
    UNIT_MAIN_OF(__VA_ARGS__, UNIT_MAIN_TABLE, UNIT_MAIN_ALL, )                                    \
    (__VA_ARGS__)

#endif
