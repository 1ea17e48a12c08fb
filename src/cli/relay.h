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
    /* Called with each line, without its end. Returns true to keep it from our output. It may not
       close the relay. NULL: all lines are passed on. */
    bool (*take)(void *owner, struct bytes line);
    void *owner;
    /* private to relay.c */
    struct loop *loop; /* NULL: closed */
    int fd;
    struct watch in, out;
    uint8_t data[RELAY_SIZE];
    size_t len, passed; /* bytes in data, and how many of them we pass on */
    bool is_amid;       /* the next byte belongs to a line that was passed on in part */
    bool is_at_end;
};

/* Reads from `fd`, which does not block, and closes it at its end. The relay must be closed. */
void relay_open(struct relay *relay, struct loop *loop, int fd);

/* Passes on what has arrived, as far as our output takes it now, and closes `fd`. Harmless for a
   closed relay. */
void relay_close(struct relay *relay);

#endif
