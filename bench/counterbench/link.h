/*
 * link.h - one connection to the target, and its requests in flight.
 *
 * A link belongs to one driver; only the driver's thread touches it. All links of a driver compose
 * requests into one shared buffer; what a role asks during one call goes out in one send. The link
 * keeps bytes that the kernel does not take, and the start of an answer that arrived in pieces.
 * Both are rare. A link with many unsent bytes starts nothing new: a deep pipeline of long requests
 * could otherwise fill any amount of memory.
 *
 * A role may ask right after link_open: the requests go out when the socket is connected.
 */
#ifndef COUNTERBENCH_LINK_H
#define COUNTERBENCH_LINK_H

#include "bench/counterbench/protocol.h"

#include <openssl/types.h>

struct driver;
struct role;

/* An unanswered request. */
struct flight {
    int64_t start_ns; /* actual or scheduled time of sending */
    uint32_t name;
    uint8_t ask; /* enum ask */
};

/* A link with more unsent bytes than this is full. */
#define LINK_UNSENT_MAX ((size_t)1 << 20)

enum link_state { LINK_CLOSED, LINK_CONNECTING, LINK_UP };

struct link {
    struct driver *driver;
    const struct role *role;
    const struct language *language;
    const struct target *target;
    SSL *tls;
    struct flight *flights; /* a ring of driver->run->plan.flights */
    uint64_t random;        /* state of the link's own random numbers */
    int64_t begun_ns;       /* start of the operation, for the role */
    uint32_t name;          /* name of the operation, for the role */
    uint32_t number;        /* among all links of the run */
    uint32_t first, count;  /* of the flights */
    uint32_t operations;    /* pending */
    uint32_t held_back;     /* operations that wait until the link is not full */
    uint32_t generation;    /* number of times closed */
    int fd;
    int error;      /* errno of a failed send; the next receive reports it */
    uint32_t armed; /* epoll events; 0: not watched */
    enum link_state state;
    bool is_greeting; /* the first answer does not go to the role */
    bool is_dead;     /* lost, and stays closed */
    uint8_t *in;      /* the start of an answer */
    size_t in_len, in_room;
    uint8_t *out; /* unsent: out_len bytes from out_sent on */
    size_t out_len, out_sent, out_room;
};

/* Starts to connect a closed link. Returns false on failure, after counting the link as lost. */
bool link_open(struct link *link) MUST_USE;

/* Sends a request about name `number`. The role must know that there is room for it in flight. */
void link_ask(struct link *link, enum ask ask, uint32_t number, int64_t start_ns);

/* Sends a request of ASKS_COMPOSED about name `number` and a member or job. Names have at most
   LINK_NAME_MAX bytes, because a client's list in Redis has them, too. */
#define LINK_REQUEST_MAX ((size_t)62 << 10)
#define LINK_NAME_MAX    100
void link_ask_composed(struct link *link, enum ask ask, uint32_t number, struct bytes member,
                       int64_t start_ns);

/* Makes the requests of many names, `step` apart from link->name on and below `end`, as far as
   `most` may be in flight: `ask` makes one. Returns false when all are answered. */
bool link_fill(struct link *link, uint32_t step, uint32_t end, uint32_t most,
               void (*ask)(struct link *link));

/* True when too much is unsent to start anything new. */
static inline bool link_is_full(const struct link *link)
{
    return link->out_len >= LINK_UNSENT_MAX;
}

/* Sends the composed requests of driver->out_link. */
void link_flush(struct driver *driver);

/* Handles the epoll events of the link. */
void link_handle(struct link *link, uint32_t events);

/* Closes the link in order, and forgets requests in flight. */
void link_close(struct link *link);

/* A random number below `bound`, from the link's own sequence. */
static inline uint32_t link_random(struct link *link, uint32_t bound)
{
    link->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = link->random;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((x ^ x >> 31) >> 32) * bound >> 32);
}

#endif
