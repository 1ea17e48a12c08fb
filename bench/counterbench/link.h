/*
 * link.h - one connection to the target, and its requests in flight.
 *
 * A link belongs to one driver (a thread), which alone touches it. Requests are composed into a
 * buffer that the driver's links share; what a role asks while it is called goes out in one call.
 * What the kernel does not take is kept by the link until it does; likewise the beginning of an
 * answer that came cut in two. Both are rare. While much is kept, nothing new is begun: a deep
 * pipeline of long requests would else take any amount of memory, and time to fill.
 *
 * A link may be asked at once after link_open: a socket that is not connected yet takes the bytes
 * when it is.
 */
#ifndef COUNTERBENCH_LINK_H
#define COUNTERBENCH_LINK_H

#include "bench/counterbench/protocol.h"

#include <openssl/types.h>

struct driver;
struct role;

/* A request that is not answered yet. */
struct flight {
    int64_t start_ns; /* when it was, or was meant to be, sent */
    uint32_t name;
    uint8_t ask; /* enum ask */
};

/* So many bytes unsent are much. */
#define LINK_UNSENT_MAX ((size_t)1 << 20)

enum link_state { LINK_CLOSED, LINK_CONNECTING, LINK_UP };

struct link {
    struct driver *driver;
    const struct role *role;
    const struct language *language;
    const struct target *target;
    SSL *tls;
    struct flight *flights; /* a ring of driver->run->plan.flights */
    uint64_t random;        /* state of its own sequence */
    int64_t begun_ns;       /* of the operation, where its role wants to know */
    uint32_t name;          /* of the operation, likewise */
    uint32_t number;        /* among all links of the run */
    uint32_t first, count;  /* of the flights */
    uint32_t operations;    /* under way */
    uint32_t held_back;     /* that may begin when less is unsent */
    uint32_t generation;    /* counts how often it was closed */
    int fd;
    int error;      /* errno of a send that failed; the next receive tells it */
    uint32_t armed; /* what epoll watches it for; 0: it does not */
    enum link_state state;
    bool is_greeting; /* its first answer is not the role's */
    bool is_dead;     /* was lost, and is not to be opened again */
    uint8_t *in;      /* the beginning of an answer */
    size_t in_len, in_room;
    uint8_t *out; /* what was not taken: out_len bytes from out_sent on */
    size_t out_len, out_sent, out_room;
};

/* Begins to connect a closed link. False: it could not, and was counted as lost. */
bool link_open(struct link *link) MUST_USE;

/* Asks about name `number`. There is room for the flight: that is the role's to see to. */
void link_ask(struct link *link, enum ask ask, uint32_t number, int64_t start_ns);

/* Whether so much is unsent that nothing more is to be begun. */
static inline bool link_is_full(const struct link *link)
{
    return link->out_len >= LINK_UNSENT_MAX;
}

/* Sends what was asked of the link that was asked last. */
void link_flush(struct driver *driver);

/* Does what its descriptor is ready for. */
void link_handle(struct link *link, uint32_t events);

/* Ends it in order. What is in flight is forgotten. */
void link_close(struct link *link);

/* A number below `bound`, of the link's own sequence. */
static inline uint32_t link_random(struct link *link, uint32_t bound)
{
    link->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = link->random;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((x ^ x >> 31) >> 32) * bound >> 32);
}

#endif
