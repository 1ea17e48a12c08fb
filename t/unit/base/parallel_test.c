/* parallel_test.c - several threads do each piece of work once; one thread does them all. */
#include "base/parallel.h"

#include "base/check.h"
#include "t/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { PIECES = 200 };

struct monitor {
    _Atomic unsigned times[PIECES];
    _Atomic unsigned elsewhere, unblocked; /* calls in other threads; and with signals unblocked */
    _Atomic unsigned waiting;
    unsigned meet; /* the first calls wait until so many threads have one */
    pthread_t caller;
};

static void look(void *arg, unsigned number)
{
    struct monitor *seen = arg;
    sigset_t blocked;
    seen->times[number]++;
    seen->waiting++;
    while (seen->waiting < seen->meet)
        continue;
    if (pthread_equal(pthread_self(), seen->caller))
        return;
    seen->elsewhere++;
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    seen->unblocked += sigismember(&blocked, SIGTERM) != 1;
}

static void check_once(const struct monitor *seen, unsigned pieces)
{
    for (unsigned i = 0; i < PIECES; i++)
        ck_assert_uint_eq(seen->times[i], i < pieces);
}

TEST(threads_do_each_piece_once)
{
    struct monitor seen = {.caller = pthread_self(), .meet = 4};
    run_parallel(4, PIECES, look, &seen);
    check_once(&seen, PIECES);
    ck_assert_uint_ge(seen.elsewhere, 3);
    ck_assert_uint_eq(seen.unblocked, 0);
}

TEST(there_may_be_fewer_pieces_than_threads)
{
    struct monitor one = {.caller = pthread_self()}, none = {.caller = pthread_self()};
    run_parallel(100, 1, look, &one);
    check_once(&one, 1);
    ck_assert_uint_eq(one.elsewhere, 0);
    run_parallel(100, 0, look, &none);
    check_once(&none, 0);
}

UNIT_MAIN("base/parallel")
