/*
 * unit.h - the frame of a unit test program: its tests, run by Check, reported as TAP.
 *
 * Each test runs in its own process, so that an abort, a leak or a sanitizer's report fails only
 * that test. A program consists of TEST(name) { ... }, or TEST_ABORTS(name) for one that must end
 * by abort(), and of UNIT_MAIN("suite"), which runs all of them in their order.
 */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>

struct unit_test {
    const TTest *const *test; /* a test's name is a pointer to this in Check */
    int signal;
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
        static struct unit_test test = {.test = &(name), .signal = (by)};                          \
        *unit_end = &test;                                                                         \
        unit_end = &test.next;                                                                     \
    }                                                                                              \
    START_TEST(name)
#define TEST(name)        UNIT_TEST(name, 0)
#define TEST_ABORTS(name) UNIT_TEST(name, SIGABRT)

static inline int unit_run_suite(Suite *s)
{
    SRunner *runner = srunner_create(s);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

static inline int unit_run_all(const char *suite)
{
    Suite *s = suite_create(suite);
    for (const struct unit_test *test = unit_first; test; test = test->next) {
        TCase *c = tcase_create(suite);
        tcase_set_timeout(c, UNIT_TIMEOUT_S);
        if (test->signal)
            tcase_add_test_raise_signal(c, *test->test, test->signal);
        else
            tcase_add_test(c, *test->test);
        suite_add_tcase(s, c);
    }
    return unit_run_suite(s);
}

/* The number of open descriptors of this process. */
static inline unsigned open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    ck_assert(dir != NULL);
    unsigned count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 3; /* ".", "..", and the descriptor of the listing */
}

#define UNIT_MAIN(suite)                                                                           \
    int main(void)                                                                                 \
    {                                                                                              \
        return unit_run_all(suite);                                                                \
    }

#endif
