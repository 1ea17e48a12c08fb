/*
 * fake.h - a network, loops and clocks without a kernel, moved by a test program.
 *
 * fake.c replaces net/loop.c, net/stream.c and base/clock.c: it defines their functions, so the
 * linker omits the real ones. With --wrap=getpeername,--wrap=fcntl peers have addresses, and their
 * descriptors are open. Only the program makes anything happen: it puts bytes into a peer's
 * input, calls the handlers of a loop, moves the clock. So a run is the same each time. There may
 * be several loops; all run in one thread.
 */
#ifndef FAKE_H
#define FAKE_H

#include "base/clock.h"
#include "net/loop.h"
#include "net/stream.h"

/* The current time. */
extern struct moment fake_now;
extern int64_t fake_unix_ns; /* nanoseconds of the current second of the wall clock */
/* Advances both clocks. */
void fake_pass_time(int64_t ns);

/* The loop, as far as the program may look. */
struct loop {
    struct loop_handlers handlers;
    int64_t timer_at_ns;
    bool soon, rung;
};

/* One iteration: handles everything that is ready, once. Returns false when the loop would sleep.
 */
bool fake_turn(struct loop *loop);

/* The client's end of a connection. Streams find it by its number, which replaces the descriptor.
 */
struct fake_peer {
    int fd;
    uint32_t address;   /* its IPv4 address; 0: 127.0.0.1. Its port is 40000 and `fd` */
    struct loop *loop;  /* of the worker that watched it last */
    struct loop_io *io; /* set while the server watches it */
    uint8_t *input;     /* sent, but not read yet */
    size_t input_begin, input_len, input_room;
    size_t window; /* number of bytes that it still accepts; SIZE_MAX: any number */
    size_t sealed; /* so many of the last bytes of its input are of a TLS record without an end, */
    size_t taken;  /* and so many of these the server has taken */
    unsigned shakes; /* bytes that begin its input and are a TLS handshake, a message each */
    bool ended;      /* sends nothing after its input */
    bool broken;     /* the connection is reset */
    bool stubborn;   /* does not close after the server's last bytes */
    bool closed;     /* closed by the server */
    bool news;       /* something has happened since the last notification */
};

/* Calls of stream_handshake, so far. */
extern uint64_t fake_shakes;

/* Callbacks of the program; each may be NULL. */
struct fake_hooks {
    /* The peer receives one piece of a write; `first` and `last` mark the ends of the write. */
    void (*received)(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first,
                     bool last);
    void (*closed)(struct fake_peer *peer);
    /* The peer may be ready now, because the server watches for something else. */
    void (*stirred)(struct fake_peer *peer);
    /* True if the kernel has no memory to watch a descriptor. */
    bool (*refuses)(void);
    /* Before each read (of so much room) and write: returns how many bytes it may move, or a result
     * of stream.h. */
    ssize_t (*call)(struct fake_peer *peer, bool writes, size_t len);
};
extern struct fake_hooks fake_hooks;

/* Makes a peer reachable, and sets its `fd`. The caller owns its memory, which must be zeroed. */
void fake_peer_join(struct fake_peer *peer);
/* Forgets all peers, and frees their input. */
void fake_peers_leave(void);

/* The peer sends bytes. */
void fake_peer_send(struct fake_peer *peer, const void *bytes, size_t len);
/* Returns the events that are ready, of those the server watches for (LOOP_...). */
unsigned fake_peer_ready(const struct fake_peer *peer);
/* Notifies the server, which then handles the events. */
void fake_peer_tell(struct fake_peer *peer, unsigned ready);

#endif
