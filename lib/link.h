/*
 * link.h - one connection to a server over TCP, TLS or a unix socket, without waiting: it connects,
 * sends, and takes lines and bodies from what has come. The public counter_link is this; here is
 * what calls need beyond it.
 *
 * A link begins, is up, and ends. It ends by itself when the server closes it, at one of its
 * deadlines, or when its bytes are outside the protocol; its socket is then closed, and what had
 * come whole before may still be taken (but nothing after COUNTER_MALFORMED). Deadlines are looked
 * at in counter_link_step, which reads first.
 *
 * How to ask: counter_link_say the request, then, until it has an answer: counter_link_step,
 * link_line (also while the step is COUNTER_AGAIN: a refusal may come before all is sent), wait.
 * Once the step is COUNTER_OK, set expect_by.
 */
#ifndef LIB_LINK_H
#define LIB_LINK_H

#include "base/text.h"
#include "lib/settings.h"

#define LINK_NO_DEADLINE INT64_MAX

enum link_state { LINK_BEGUN, LINK_CONNECTING, LINK_SHAKING, LINK_UP, LINK_FINISHING, LINK_ENDED };

struct counter_link {
    struct settings *settings;
    struct counter_link *next, **at; /* in the list of the settings */
    enum counter_protocol protocol;
    size_t server;
    enum link_state state;
    int fd; /* -1: none */
    uint64_t serial;
    struct tls_side *tls;            /* NULL: plain */
    short read_events, write_events; /* poll's, for what reading and writing wait for */

    size_t address;                 /* of the host: the one to try next */
    int64_t connect_by, address_by; /* of all addresses; of this one, or when to try it again */

    struct text out;
    size_t sent;       /* bytes of it that the system has */
    int64_t send_by;   /* deadline of the next bytes of it */
    size_t send_mark;  /* so many must be sent before it is set anew */
    int send_error;    /* no more can be sent, but reading goes on */
    int64_t finish_by; /* of LINK_FINISHING */

    uint8_t *in;
    size_t in_len, in_room, taken;
    size_t wanted;     /* length of the message that is awaited, as far as it is known */
    int64_t expect_by; /* of the first byte of the next line; link_take ends it */
    int64_t part_by;   /* of the message that has begun, or of its next chunk */
    size_t part_mark;  /* so many bytes must be there before it is set anew */
    bool has_more;     /* TLS has bytes that poll does not tell of */

    bool was_up;
    bool is_late;      /* one of our deadlines was over */
    bool is_our_fault; /* it did not connect: too many open files, no memory for a socket */
    bool has_sent;     /* a byte was given to the system since the request began */
    bool is_abandoned; /* it is that of the parent process */
    struct counter_error error;
};

/* Makes a link to server number `server` of the protocol, with a reference to the settings. It
   begins to connect at its first step, which begins connect_timeout. NULL: no memory. A server that
   does not exist is COUNTER_USAGE at the first step. */
counter_link *link_open(struct settings *settings, enum counter_protocol protocol, size_t server);

/*
 * The next line, without its end: COUNTER_OK. COUNTER_AGAIN: it is not whole. COUNTER_MALFORMED: it
 * is longer than `max` bytes, or a line of jobs ends without CR; the link has ended. Else why the
 * link has ended. Valid until the next call for the link but counter_link_say. A line must be whole
 * io_timeout after link_line has met its first bytes.
 */
int link_line(counter_link *link, size_t max, struct bytes *line_r);

/* The next `size` bytes, alike. They must be whole in io_timeout, which begins at the first call
   and anew with each 64 KiB. Nothing is allocated before it comes. */
int link_exactly(counter_link *link, size_t size, struct bytes *bytes_r);

/* io_timeout begins anew with so many bytes that are sent, or of a body that comes. */
#define LINK_CHUNK 65536

/* What has been read and not been taken; data NULL: nothing. Valid until the next step. */
struct bytes link_unread(const counter_link *link);

/*
 * For message.c: what is awaited, of `size` bytes as far as is known, is not whole. Begins
 * io_timeout for `part` more bytes, unless that runs; without `has_begun` it has none yet. Returns
 * COUNTER_AGAIN, or why the link has ended.
 */
int link_lack(counter_link *link, size_t size, size_t part, bool has_begun);

/* Takes so many of the unread bytes, and returns where they are. Ends all deadlines of reading. */
const uint8_t *link_take(counter_link *link, size_t size);

/* Ends a link whose server has said what it must not. Quotes the answer. Returns COUNTER_MALFORMED.
 */
int link_malformed(counter_link *link, struct bytes answer, const char *reason);

/* It may be given back: it is up, all is sent, and nothing is unread. Does not look at the socket.
 */
bool link_is_idle(const counter_link *link);

/* It is idle still, and the socket has nothing for us above TLS. Never waits. */
bool link_is_fresh(counter_link *link);

/* In the child of a fork: closes our copies of all sockets of these settings without a goodbye. The
   links end as COUNTER_LOST, and must be freed still. */
void settings_forked(struct settings *settings);

#endif
