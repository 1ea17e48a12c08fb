/* parallel.c - see parallel.h. */
#include "base/parallel.h"

#include "base/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

/* Maximum number of threads besides the calling one. */
#define HELPERS_MAX 63

struct work {
    void (*piece)(void *arg, unsigned number);
    void *arg;
    unsigned pieces;
    _Atomic unsigned next; /* the first piece that nobody has taken */
};

static void *do_pieces(void *arg)
{
    struct work *work = arg;
    for (unsigned n;
         (n = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed)) < work->pieces;)
        work->piece(work->arg, n);
    return NULL;
}

void run_parallel(unsigned threads, unsigned pieces, void (*piece)(void *arg, unsigned number),
                  void *arg)
{
    struct work work = {.piece = piece, .arg = arg, .pieces = pieces};
    pthread_t helpers[HELPERS_MAX];
    unsigned count = 0;
    sigset_t all, before;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    while (count < HELPERS_MAX && count + 1 < threads && count + 1 < pieces &&
           pthread_create(&helpers[count], NULL, do_pieces, &work) == 0)
        count++;
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    do_pieces(&work);
    while (count > 0)
        CHECK(pthread_join(helpers[--count], NULL) == 0);
}
