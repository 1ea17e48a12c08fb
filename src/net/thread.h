/*
 * thread.h - threads that can be paused, and what each may ask of the kernel.
 *
 * A thread is made asleep. It runs when it is resumed, sleeps again when its function returns, and
 * so on until it is ended. Only making a thread can fail: a paused thread always goes on.
 */
#ifndef NET_THREAD_H
#define NET_THREAD_H

#include "base/check.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

/* The rights of a thread beyond the common ones: to read, write and close open descriptors, to
 * wait, to allocate memory and to read the clock. Must live as long as the thread. */
struct sandbox {
    const char *name; /* the thread's name in messages: "job store" */
    bool accepts;     /* may accept connections on open listeners */
    bool connects;    /* may connect over IP and unix sockets, and query name servers */
    /*
     * May read these files, and these folders with everything below; NULL after the last. NULL:
     * none. The rights are granted for the folder of a file, so the thread can also read a file
     * that was replaced or that a symbolic link points to. A path that does not exist when the
     * thread starts is left out.
     */
    const char *const *reads;
    /* May make, read, write, lock, rename and remove files below these folders, which must exist
     * when the thread starts. */
    const char *const *writes;
};

/* For threads that serve clients: the workers and the admin interface. */
extern const struct sandbox thread_serves;

/* Sandboxes the calling thread until it ends. Returns false with errno. */
typedef bool sandbox_fn(const struct sandbox *to);

/* Belongs to the thread that makes it; zero: there is none. */
struct thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
    bool exists, runs; /* runs: resumed, and not known to sleep again */
    bool ends;         /* read by the thread when it wakes */
    sem_t go;          /* posted to wake it */
    sem_t asleep;      /* posted when it goes to sleep */
};

/*
 * Makes a thread with all signals blocked, named `name` (at most 15 bytes). The thread first calls
 * `sandbox` with `to` (NULL: skipped), then sleeps. Each time it is resumed, it calls `run` with
 * `arg`. Returns when the thread is sandboxed. Returns false with errno when the thread could not
 * be made or `sandbox` failed; there is no thread then.
 */
bool thread_make(struct thread *thread_r, const char *name, sandbox_fn *sandbox,
                 const struct sandbox *to, void (*run)(void *arg), void *arg) MUST_USE;

/* Wakes a thread that sleeps: it calls `run`. */
void thread_resume(struct thread *thread);
/* Waits until `run` has returned and the thread sleeps, if it was resumed. */
void thread_rest(struct thread *thread);
/* The same, then ends the thread. Harmless when there is none. */
void thread_end(struct thread *thread);

#endif
