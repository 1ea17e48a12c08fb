/*
 * status.h - exit statuses of counterctl; numbers of sysexits.h where it has one.
 *
 * `run` passes on the status of its command, so these are numbers that commands seldom use. The
 * manual lists all of them; a test compares the two.
 */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

enum status {
    STATUS_OK = 0, /* done */
    STATUS_NO = 1, /* the server answered no: there is no such name, connection, pool, member, job,
                      tube or units */
    STATUS_USAGE = 64,       /* the command line, or a line of a batch, is wrong */
    STATUS_DATA = 65,        /* jobs were left out, because the server cannot read them */
    STATUS_NO_INPUT = 66,    /* a file that was named can't be read */
    STATUS_UNAVAILABLE = 69, /* no server answers, it can't be trusted, or the queue is full */
    STATUS_INTERNAL = 70,    /* no memory, or a bug of counterctl */
    STATUS_SYSTEM = 71,      /* the system refused something, such as another process */
    STATUS_OUTPUT = 74,      /* standard output or input failed */
    STATUS_TEMPORARY = 75,   /* timed out, or not available now: try again later */
    STATUS_PROTOCOL = 76,    /* the server answered what its protocol does not have */
    STATUS_DENIED = 77,      /* the admin token is missing or wrong, or this host may not do that */
    STATUS_CONFIG = 78, /* the configuration is wrong and was not loaded; or no upgrade was made */
    STATUS_LOST = 79, /* what it held was lost: the connection ended, or a member was taken away */
    STATUS_NOT_EXECUTABLE = 126, /* the command can't be executed */
    STATUS_NOT_FOUND = 127,      /* the command was not found */
    STATUS_SIGNAL = 128 /* plus N: a signal N ended the command, or a wait for the server */
};

#endif
