/*
 * lookup.c - finds a host's addresses (lookup.h).
 */
#include "cli/lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *look_up(void *arg)
{
    struct lookup *lookup = arg;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int to = lookup->to, error = getaddrinfo(lookup->host, NULL, &hints, &found);
    if (error)
        lookup->fault = error == EAI_SYSTEM ? strerrordesc_np(errno) : gai_strerror(error);
    for (const struct addrinfo *at = found; at && lookup->count < ARRAY_SIZE(lookup->at);
         at = at->ai_next)
        memcpy(&lookup->at[lookup->count++], at->ai_addr, at->ai_addrlen);
    if (found)
        freeaddrinfo(found);
    if (write(to, &lookup, sizeof(struct lookup *)) < 0) /* the caller has given up */
        free(lookup);
    close(to);
    return NULL;
}

int lookup_start(const char *host)
{
    int ends[2];
    size_t len = strlen(host) + 1;
    struct lookup *lookup = calloc(1, sizeof *lookup + len);
    if (!lookup || pipe2(ends, O_CLOEXEC) != 0) {
        free(lookup);
        return -1;
    }
    lookup->to = ends[1];
    memcpy(lookup->host, host, len);
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* the thread takes no signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_detach(thread);
        return ends[0];
    }
    free(lookup);
    close(ends[0]);
    close(ends[1]);
    return -1;
}

struct lookup *lookup_take(int fd)
{
    struct lookup *lookup;
    CHECK(read(fd, &lookup, sizeof(struct lookup *)) == (ssize_t)sizeof(struct lookup *));
    close(fd);
    return lookup;
}
