/*
 * lookup.c - finding a host's addresses (lookup.h).
 */
#include "cli/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lookup {
    char *host, *port;
    int done_fd;         /* made readable when all is there */
    atomic_bool is_done; /* the thread has written the next two, and looks at them no more */
    int error;
    struct addrinfo *list;
    atomic_int owners; /* who waits, and the thread */
};

static void give_up(struct lookup *lookup)
{
    if (atomic_fetch_sub(&lookup->owners, 1) > 1)
        return;
    if (lookup->list)
        freeaddrinfo(lookup->list);
    if (lookup->done_fd >= 0)
        close(lookup->done_fd);
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}

static void *look_up(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    lookup->error = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->list);
    if (lookup->error)
        lookup->list = NULL;
    atomic_store(&lookup->is_done, true);
    CHECK(eventfd_write(lookup->done_fd, 1) == 0);
    give_up(lookup);
    return NULL;
}

/* Starts the thread, which takes no signals. 0, or an errno. */
static int start_thread(struct lookup *lookup)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_detach(thread);
    return error;
}

struct lookup *lookup_start(const char *host, const char *port)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return NULL;
    atomic_init(&lookup->owners, 1);
    lookup->host = strdup(host);
    lookup->port = strdup(port);
    lookup->done_fd = eventfd(0, EFD_CLOEXEC);
    int error = errno;
    if (lookup->host && lookup->port && lookup->done_fd >= 0) {
        atomic_store(&lookup->owners, 2);
        error = start_thread(lookup);
        if (error == 0)
            return lookup;
        atomic_store(&lookup->owners, 1);
    }
    give_up(lookup);
    errno = error;
    return NULL;
}

int lookup_fd(const struct lookup *lookup)
{
    return lookup->done_fd;
}

int lookup_take(struct lookup *lookup, struct addrinfo **list_r)
{
    CHECK(atomic_load(&lookup->is_done));
    *list_r = lookup->list;
    lookup->list = NULL;
    return lookup->error;
}

void lookup_free(struct lookup **lookup)
{
    if (*lookup)
        give_up(*lookup);
    *lookup = NULL;
}
