/*
 * unit.h - the frame of a unit test program: a table of tests, run by Check, reported as TAP.
 *
 * Each test runs in its own process, so that an abort, a leak or a sanitizer's report fails only
 * that test. A program consists of functions made with TEST(name) { ... }, a table of rows
 * UNIT(name) or UNIT_ABORTS(name), and UNIT_MAIN("suite", table).
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
};

/* The default time limit of one test. It only ends hangs; sanitizers on a busy machine are slow. */
#define UNIT_TIMEOUT_S 300.0

#define TEST(name) START_TEST(name)
#define UNIT(name)                                                                                 \
    {                                                                                              \
        .test = &(name), .signal = 0, .timeout_s = UNIT_TIMEOUT_S                                  \
    }
#define UNIT_ABORTS(name)                                                                          \
    {                                                                                              \
        .test = &(name), .signal = SIGABRT, .timeout_s = UNIT_TIMEOUT_S                            \
    }

static inline int unit_run(const char *suite, const struct unit_test *tests, size_t count)
{
    Suite *s = suite_create(suite);
    for (size_t i = 0; i < count; i++) {
        TCase *c = tcase_create(suite);
        tcase_set_timeout(c, tests[i].timeout_s);
        if (tests[i].signal)
            tcase_add_test_raise_signal(c, *tests[i].test, tests[i].signal);
        else
            tcase_add_test(c, *tests[i].test);
        suite_add_tcase(s, c);
    }
    SRunner *runner = srunner_create(s);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#define UNIT_MAIN(suite, tests)                                                                    \
    int main(void)                                                                                 \
    {                                                                                              \
        return unit_run(suite, tests, sizeof(tests) / sizeof((tests)[0]));                         \
    }

#endif
