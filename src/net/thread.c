/* thread.c - see thread.h. */
#include "net/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

const struct sandbox thread_serves = {.name = "serving", .accepts = true};

/* Lives on the stack of thread_make. The new thread must not use it once it sleeps. */
struct beginning {
    struct thread *thread;
    const char *name;
    sandbox_fn *sandbox;
    const struct sandbox *to;
    int error; /* from `sandbox` */
};

static void await(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        CHECK(errno == EINTR);
}

static void *begin(void *arg)
{
    struct beginning *beginning = arg;
    struct thread *thread = beginning->thread;
    char name[16]; /* the kernel's limit */
    snprintf(name, sizeof(name), "%s", beginning->name);
    pthread_setname_np(pthread_self(), name);
    if (beginning->sandbox && !beginning->sandbox(beginning->to))
        beginning->error = errno;
    for (;;) {
        CHECK(sem_post(&thread->asleep) == 0);
        await(&thread->go);
        if (thread->ends)
            return NULL;
        thread->run(thread->arg);
    }
}

static void destroy(struct thread *thread)
{
    CHECK(sem_destroy(&thread->go) == 0 && sem_destroy(&thread->asleep) == 0);
    *thread = (struct thread){0};
}

bool thread_make(struct thread *thread_r, const char *name, sandbox_fn *sandbox,
                 const struct sandbox *to, void (*run)(void *arg), void *arg)
{
    struct beginning beginning = {.thread = thread_r, .name = name, .sandbox = sandbox, .to = to};
    sigset_t all, before;
    *thread_r = (struct thread){.run = run, .arg = arg};
    CHECK(sem_init(&thread_r->go, 0, 0) == 0 && sem_init(&thread_r->asleep, 0, 0) == 0);
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    int error = pthread_create(&thread_r->id, NULL, begin, &beginning);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (error == 0) {
        thread_r->exists = true;
        await(&thread_r->asleep);
        error = beginning.error;
        if (error)
            thread_end(thread_r);
    } else {
        destroy(thread_r);
    }
    errno = error;
    return error == 0;
}

void thread_resume(struct thread *thread)
{
    CHECK(thread->exists && !thread->runs);
    thread->runs = true;
    CHECK(sem_post(&thread->go) == 0);
}

void thread_rest(struct thread *thread)
{
    if (!thread->runs)
        return;
    await(&thread->asleep);
    thread->runs = false;
}

void thread_end(struct thread *thread)
{
    if (!thread->exists)
        return;
    thread_rest(thread);
    thread->ends = true;
    CHECK(sem_post(&thread->go) == 0);
    CHECK(pthread_join(thread->id, NULL) == 0);
    destroy(thread);
}
