/*
 * lookup.c - finds a host's addresses (lookup.h).
 */
#include "cli/lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Belongs to the thread. */
struct lookup {
    char *host, *port;
    int to; /* write end of the pipe */
};

/* The result, as sent through the pipe. */
struct found {
    int error;
    struct addrinfo *list;
};

static void lookup_free(struct lookup *lookup)
{
    close(lookup->to);
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}

static void *look_up(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct found found = {0};
    found.error = getaddrinfo(lookup->host, lookup->port, &hints, &found.list);
    if (write(lookup->to, &found, sizeof found) < 0 && !found.error) /* the caller has given up */
        freeaddrinfo(found.list);
    lookup_free(lookup);
    return NULL;
}

int lookup_start(const char *host, const char *port)
{
    int ends[2];
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup || pipe2(ends, O_CLOEXEC) != 0) {
        free(lookup);
        return -1;
    }
    *lookup = (struct lookup){.host = strdup(host), .port = strdup(port), .to = ends[1]};
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* the thread takes no signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error =
        lookup->host && lookup->port ? pthread_create(&thread, NULL, look_up, lookup) : ENOMEM;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_detach(thread);
        return ends[0];
    }
    lookup_free(lookup);
    close(ends[0]);
    errno = error;
    return -1;
}

int lookup_take(int fd, struct addrinfo **list_r)
{
    struct found found;
    if (read(fd, &found, sizeof found) != (ssize_t)sizeof found)
        return EAI_SYSTEM;
    *list_r = found.error ? NULL : found.list;
    return found.error;
}
