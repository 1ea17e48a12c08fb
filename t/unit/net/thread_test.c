/* thread_test.c - threads sandbox themselves first, or are not made; paused ones go on. */
#include "net/thread.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int order; /* calls so far, one digit each */
static pthread_t sandboxed_in;

static const struct sandbox narrow = {.name = "narrow"};

static bool enter(const struct sandbox *to)
{
    ck_assert_ptr_eq(to, &narrow);
    order = order * 10 + 1;
    sandboxed_in = pthread_self();
    return true;
}

static bool refuse(const struct sandbox *to)
{
    ck_assert_ptr_eq(to, &narrow);
    errno = EPERM;
    return false;
}

static void run(void *arg)
{
    sigset_t blocked;
    char name[16] = "";
    order = order * 10 + 2;
    ck_assert(!arg || pthread_equal(sandboxed_in, pthread_self()));
    ck_assert(pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0);
    ck_assert(sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGHUP));
    ck_assert(pthread_getname_np(pthread_self(), name, sizeof name) == 0);
    ck_assert_str_eq(name, "a thread");
}

TEST(a_thread_is_sandboxed_first)
{
    struct thread thread;
    ck_assert(thread_make(&thread, "a thread", enter, &narrow, run, &order));
    ck_assert_int_eq(order, 1); /* it sleeps */
    thread_resume(&thread);
    thread_end(&thread);
    ck_assert_int_eq(order, 12);
    ck_assert(!thread.exists);
}

TEST(what_cannot_be_sandboxed_does_not_run)
{
    struct thread thread;
    ck_assert(!thread_make(&thread, "a thread", refuse, &narrow, run, NULL));
    ck_assert_int_eq(errno, EPERM);
    ck_assert_int_eq(order, 0);
    ck_assert(!thread.exists);
    thread_end(&thread);
}

TEST(there_may_be_no_sandbox_and_nothing_to_run)
{
    struct thread thread;
    for (int runs = 0; runs < 2; runs++) {
        ck_assert(thread_make(&thread, "a thread", NULL, NULL, run, NULL));
        if (runs) {
            thread_resume(&thread);
            thread_rest(&thread);
        }
        ck_assert_int_eq(order, runs ? 2 : 0);
        thread_end(&thread);
        thread_end(&thread);
    }
}

/* Allows no further thread, also to root, whom RLIMIT_NPROC does not bind: a stack has more than
 * all addresses. */
static void allow_no_thread(void)
{
    pthread_attr_t attributes;
    ck_assert(pthread_attr_init(&attributes) == 0);
    ck_assert(pthread_attr_setstacksize(&attributes, (size_t)1 << 47) == 0);
    ck_assert(pthread_setattr_default_np(&attributes) == 0);
    ck_assert(pthread_attr_destroy(&attributes) == 0);
}

TEST(a_paused_thread_goes_on_when_none_can_be_made)
{
    struct thread thread, other;
    ck_assert(thread_make(&thread, "a thread", enter, &narrow, run, &order));
    thread_resume(&thread);
    thread_rest(&thread);
    allow_no_thread();
    ck_assert(!thread_make(&other, "other", NULL, NULL, run, NULL));
    for (int i = 0; i < 3; i++) {
        thread_resume(&thread);
        thread_rest(&thread);
        thread_rest(&thread); /* nothing to wait for */
    }
    ck_assert_int_eq(order, 12222);
    thread_end(&thread);
}

UNIT_MAIN("net/thread")
