/* thread.c - see thread.h. */
#include "net/thread.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

const struct confinement thread_serves = {.name = "serving", .accepts = true};

/* Lives on the stack of thread_start. The new thread must not use it after posting `ready`. */
struct beginning {
    const char *name;
    confine_fn *confine;
    const struct confinement *to;
    void *(*run)(void *arg);
    void *arg;
    int error; /* from `confine` */
    sem_t ready;
};

static void *begin(void *arg)
{
    struct beginning *beginning = arg;
    void *(*run)(void *) = beginning->run;
    void *run_arg = beginning->arg;
    char name[16]; /* the kernel's limit */
    snprintf(name, sizeof(name), "%s", beginning->name);
    pthread_setname_np(pthread_self(), name);
    if (beginning->confine && !beginning->confine(beginning->to))
        beginning->error = errno;
    bool confined = beginning->error == 0;
    CHECK(sem_post(&beginning->ready) == 0);
    return confined ? run(run_arg) : NULL;
}

bool thread_start(pthread_t *thread_r, const char *name, confine_fn *confine,
                  const struct confinement *to, void *(*run)(void *arg), void *arg)
{
    struct beginning beginning = {
        .name = name, .confine = confine, .to = to, .run = run, .arg = arg};
    sigset_t all, before;
    CHECK(sem_init(&beginning.ready, 0, 0) == 0);
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    int error = pthread_create(thread_r, NULL, begin, &beginning);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (error == 0) {
        while (sem_wait(&beginning.ready) != 0)
            CHECK(errno == EINTR);
        error = beginning.error;
        if (error)
            CHECK(pthread_join(*thread_r, NULL) == 0);
    }
    CHECK(sem_destroy(&beginning.ready) == 0);
    errno = error;
    return error == 0;
}
