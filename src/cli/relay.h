/*
 * relay.h - passes on what a command writes to its standard output, line by line, to ours, except
 * for the lines that the caller takes.
 *
 * Several commands may write at once: a line of up to RELAY_SIZE bytes stays in one piece. When
 * nobody reads our output, we read no more of theirs, and go on with everything else.
 */
#ifndef CLI_RELAY_H
#define CLI_RELAY_H

#include "base/bytes.h"
#include "cli/loop.h"

/* Writing as many bytes to a pipe that poll calls ready does not block. */
#define RELAY_SIZE 4096

/* Zero-initialise, then set take and owner. */
struct relay {
    /* Called with each line, without its end, or with the first RELAY_SIZE bytes of a longer one.
       Returns true to keep the line from our output; it then gets the other parts of the line too,
       the last one with `is_last`, perhaps empty. It may not close the relay. NULL: all lines are
       passed on. */
    bool (*take)(void *owner, struct bytes part, bool is_last);
    void *owner;
    /* private to relay.c */
    struct loop *loop; /* NULL: closed */
    int fd;
    struct watch in, out;
    uint8_t data[RELAY_SIZE];
    size_t len, passed; /* bytes in data, and how many of them we pass on */
    enum { LINE_BEGINS, LINE_PASSES, LINE_IS_TAKEN } line; /* the line of the next byte */
    bool is_at_end;
};

/* Reads from `fd`, which does not block, and closes it at its end. The relay must be closed. */
void relay_open(struct relay *relay, struct loop *loop, int fd);

/* Passes on what has arrived, as far as our output takes it now, and closes `fd`. Harmless for a
   closed relay. */
void relay_close(struct relay *relay);

#endif
