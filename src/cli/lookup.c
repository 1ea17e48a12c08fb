/*
 * lookup.c - finds a host's addresses (lookup.h).
 */
#include "cli/lookup.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Belongs to the thread. */
struct lookup {
    counter_client *client;
    int to; /* write end of the pipe */
};

static void *look_up(void *arg)
{
    struct lookup lookup = *(struct lookup *)arg;
    free(arg);
    (void)counter_resolve(lookup.client); /* its error comes again with the connection */
    if (write(lookup.to, "", 1) < 0)      /* the caller has given up */
        counter_close(lookup.client);
    close(lookup.to);
    return NULL;
}

int lookup_start(counter_client *client)
{
    int ends[2];
    struct lookup *lookup = malloc(sizeof *lookup);
    if (!lookup || pipe2(ends, O_CLOEXEC) != 0) {
        free(lookup);
        return -1;
    }
    *lookup = (struct lookup){.client = client, .to = ends[1]};
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

void lookup_take(int fd)
{
    char byte;
    (void)!read(fd, &byte, 1); /* behind all that the thread did */
    close(fd);
}
