/* thread_test.c - threads confine themselves first, or do not start. */
#include "net/thread.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int order; /* calls so far, one digit each */
static pthread_t confined_in;

static const struct confinement narrow = {.name = "narrow"};

static bool confine(const struct confinement *to)
{
    ck_assert_ptr_eq(to, &narrow);
    order = order * 10 + 1;
    confined_in = pthread_self();
    return true;
}

static bool refuse(const struct confinement *to)
{
    ck_assert_ptr_eq(to, &narrow);
    errno = EPERM;
    return false;
}

static void *run(void *arg)
{
    sigset_t blocked;
    char name[16] = "";
    order = order * 10 + 2;
    ck_assert(!arg || pthread_equal(confined_in, pthread_self()));
    ck_assert(pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0);
    ck_assert(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGHUP));
    ck_assert(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
    ck_assert_str_eq(name, "a thread");
    return &order;
}

TEST(a_thread_confines_itself_first)
{
    pthread_t thread;
    void *result;
    ck_assert(thread_start(&thread, "a thread", confine, &narrow, run, &order));
    int begun = order;
    /* The thread confines itself before thread_start returns. */
    ck_assert(begun == 1 || begun == 12);
    ck_assert(pthread_join(thread, &result) == 0);
    ck_assert_int_eq(order, 12);
    ck_assert_ptr_eq(result, &order);
}

TEST(what_cannot_be_confined_does_not_run)
{
    pthread_t thread;
    ck_assert(!thread_start(&thread, "a thread", refuse, &narrow, run, NULL));
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(order, 0);
}

TEST(there_may_be_nothing_to_confine)
{
    pthread_t thread;
    ck_assert(thread_start(&thread, "a thread", NULL, NULL, run, NULL));
    ck_assert(pthread_join(thread, NULL) == 0);
    ck_assert_int_eq(order, 2);
}

static const struct unit_test tests[] = {
    UNIT(a_thread_confines_itself_first),
    UNIT(what_cannot_be_confined_does_not_run),
    UNIT(there_may_be_nothing_to_confine),
};

UNIT_MAIN("net/thread", tests)
