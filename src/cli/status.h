/*
 * status.h - exit statuses of counterctl; numbers of sysexits.h where it has one.
 *
 * `run` passes on the status of its command, so these are numbers that commands seldom use. The
 * manual lists all of them; a test compares the two.
 */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

/* One row each: name, number, meaning (for people). */
#define STATUSES(ROW)                                                                              \
    ROW(OK, 0, "done")                                                                             \
    ROW(NO, 1,                                                                                     \
        "the server answered no: there is no such name, connection, pool, member, job, tube or "   \
        "units")                                                                                   \
    ROW(USAGE, 64, "the command line, or a line of a batch, is wrong")                             \
    ROW(DATA, 65, "jobs were left out, because the server cannot read them")                       \
    ROW(NO_INPUT, 66, "a file that was named can't be read")                                       \
    ROW(UNAVAILABLE, 69, "no server answers, it can't be trusted, or the queue is full")           \
    ROW(INTERNAL, 70, "no memory, or a bug of counterctl")                                         \
    ROW(SYSTEM, 71, "the system refused something, such as another process")                       \
    ROW(OUTPUT, 74, "standard output or input failed")                                             \
    ROW(TEMPORARY, 75, "timed out, or not available now: try again later")                         \
    ROW(PROTOCOL, 76, "the server answered what its protocol does not have")                       \
    ROW(DENIED, 77, "the admin token is missing or wrong, or this host may not do that")           \
    ROW(CONFIG, 78,                                                                                \
        "the server's configuration is wrong and was not loaded; or no upgrade was made")          \
    ROW(LOST, 79, "what it held was lost: the connection ended, or a member was taken away")       \
    ROW(NOT_EXECUTABLE, 126, "the command can't be executed")                                      \
    ROW(NOT_FOUND, 127, "the command was not found")                                               \
    ROW(SIGNAL, 128, "plus N: a signal N ended the command, or a wait for the server")

enum status {
#define ROW(name, number, meaning) STATUS_##name = (number),
    STATUSES(ROW)
#undef ROW
};

#endif
