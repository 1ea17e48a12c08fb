/*
 * protocol.h - the protocols of targets: how to compose a request and to judge an answer.
 *
 * What all requests of a run share is fixed before the run (limits, timeouts, length of names). So
 * the protocol's codec composes each kind of request once; a request is a copy with the digits of
 * its name filled in. In the same way the expected answer is compared as a whole, and only other
 * answers are parsed. The load tool must be cheaper than the server it measures. Requests for
 * members of pools and for jobs alone are composed one by one (ASKS_COMPOSED): they say what an
 * answer has said.
 */
#ifndef COUNTERBENCH_PROTOCOL_H
#define COUNTERBENCH_PROTOCOL_H

#include "base/bytes.h"
#include "bench/counterbench/names.h"

#include <string.h>

/* Kinds of requests. */
enum ask {
    ASK_ACQUIRE, /* a unit, without waiting */
    ASK_RELEASE, /* give the unit back */
    ASK_WAIT,    /* a unit, waiting for it (ACQ4ME) */
    ASK_SHARE,   /* a unit, or DONE when another client has done the work (ACQ4ANY) */
    ASK_GET,     /* number of units in use */
    ASK_DUMP,    /* all names; the answer comes in parts */
    ASK_WAITING, /* number of waiting clients */
    ASK_HELLO,   /* does it answer; the first request of a connection, if it has one */
    ASK_TAKE,    /* a member of a pool, waiting for it */
    ASK_RETURN,  /* give the member back */
    ASK_MAKE,    /* make an empty pool */
    ASK_UNMAKE,  /* end it, if it is there */
    ASK_MEMBER,  /* add a member to it */
    ASK_TUBE,    /* use and watch a tube, and no other */
    ASK_PUT,     /* put a job into it */
    ASK_BATCH,   /* put several jobs into it, all or none */
    ASK_RESERVE, /* take a job from it, waiting for one */
    ASK_DELETE,  /* delete the job */
    ASK_STOCK,   /* put the units of a name where clients take them from */
    ASK_COUNT
};

#define ASK_BIT(ask) (1u << (ask))

/* Those of pools, and of jobs. */
#define ASKS_OF_POOLS                                                                              \
    (ASK_BIT(ASK_TAKE) | ASK_BIT(ASK_RETURN) | ASK_BIT(ASK_MAKE) | ASK_BIT(ASK_UNMAKE) |           \
     ASK_BIT(ASK_MEMBER))
#define ASKS_OF_JOBS                                                                               \
    (ASK_BIT(ASK_TUBE) | ASK_BIT(ASK_PUT) | ASK_BIT(ASK_BATCH) | ASK_BIT(ASK_RESERVE) |            \
     ASK_BIT(ASK_DELETE))

/* Those that may wait for their answer. */
#define ASKS_WAITING                                                                               \
    (ASK_BIT(ASK_WAIT) | ASK_BIT(ASK_SHARE) | ASK_BIT(ASK_TAKE) | ASK_BIT(ASK_RESERVE))

/* Those that are composed anew each time. */
#define ASKS_COMPOSED (ASKS_OF_POOLS | ASKS_OF_JOBS)

/* The result of judging an answer. */
enum heard {
    HEARD_MORE,  /* incomplete */
    HEARD_PART,  /* one of several parts; more follow */
    HEARD_YES,   /* success: the unit, the unit given back, a number */
    HEARD_DONE,  /* another client has done the work */
    HEARD_NO,    /* a regular refusal: no unit now, queue full, timed out */
    HEARD_WRONG, /* an error, or an answer to something else */
    HEARD_BROKEN /* not an answer; the start of the next one is unknown */
};

/* What all requests of a run share. */
struct terms {
    uint32_t units, limit; /* units asked for, and the limit of units in use */
    uint32_t queue;        /* how many clients may hold a unit or wait for one */
    int64_t timeout_ns;    /* limit of waiting */
    uint32_t body;         /* bytes of a job's body, at least STAMP_LENGTH */
    uint32_t jobs;         /* in a batch */
};

struct request {
    enum ask ask;
    struct bytes name;
    struct terms terms;
    struct bytes member; /* MEMBER: its name; RETURN: what the answer to TAKE has said, or empty:
                            what was taken last; DELETE: what the answer to RESERVE has said */
    uint32_t client;     /* TAKE, RETURN, TUBE, RESERVE, DELETE: the client */
    int64_t stamp_ns;    /* PUT, BATCH: a time, at least 0, that begins each job's body */
};

/* The digits of a time at the start of a job's body. */
#define STAMP_LENGTH 20

/* Buffer size for the text of an answer in an error message. */
#define SAID_ROOM 120

struct protocol {
    const char *name;
    uint16_t port; /* default port */
    unsigned asks; /* ASK_BIT of each kind it has */
    const char *help;
    /* Writes a request. 0: it does not fit, or the protocol lacks it. */
    size_t (*compose)(const struct request *request, uint8_t *to, size_t room);
    /*
     * Judges the answer at the start of `data`. *used_r is its length, 0 for MORE and BROKEN.
     * `said` (SAID_ROOM bytes) gets the answer's text for WRONG and BROKEN, the number for WAITING,
     * what RETURN needs for TAKE, the stamp and after a space what DELETE needs for RESERVE.
     */
    enum heard (*hear)(enum ask ask, const uint8_t *data, size_t len, size_t *used_r, char *said);
    struct bytes hopes[ASK_COUNT]; /* the answer of success for one unit, if there is just one */
    bool is_echo; /* an answer is as long as its request; its bytes do not matter */
};

extern const struct protocol *const protocols[]; /* NULL after the last */
extern const struct protocol protocol_text, protocol_binary, protocol_echo_text,
    protocol_echo_binary, protocol_redis_incr, protocol_redis_lua, protocol_redis_pool,
    protocol_redis_tokens, protocol_redis_jobs, protocol_memcached, protocol_beanstalk,
    protocol_jobs;

/* Writes `said`: escapes bytes that are unsafe on a terminal, and cuts to SAID_ROOM. */
void protocol_say(char *said, const void *data, size_t len);

/* Writes the body of a job: a stamp of STAMP_LENGTH digits, and letters up to `len` bytes. */
void protocol_write_body(int64_t stamp_ns, uint8_t *to, size_t len);

/* ---- the requests of a run ------------------------------------------------------------------- */

/* One kind of request, complete except for the name. */
struct form {
    uint8_t *bytes;
    size_t len;
    size_t name_end;   /* end of the name; 0: no name */
    struct bytes hope; /* empty: there are several */
};

struct language {
    const struct protocol *protocol;
    size_t name_length;
    struct form forms[ASK_COUNT];
};

/* Makes the forms of all requests of the protocol but ASKS_COMPOSED; `terms` for each kind. Returns
   false without memory. */
bool language_make(struct language *language, const struct protocol *protocol, size_t name_length,
                   const struct terms terms[ASK_COUNT]) MUST_USE;
void language_free(struct language *language);

/* Writes a request about name `number` to `to` (forms[ask].len bytes). Returns its length. */
static inline size_t language_ask(const struct language *language, enum ask ask, uint32_t number,
                                  uint8_t *to)
{
    const struct form *form = &language->forms[ask];
    memcpy(to, form->bytes, form->len);
    if (form->name_end > 0)
        names_write_digits(number, to + form->name_end, language->name_length);
    return form->len;
}

/* Judges the answer to a request, like the protocol's `hear`. */
static inline enum heard language_hear(const struct language *language, enum ask ask,
                                       const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    const struct form *form = &language->forms[ask];
    if (form->hope.len > 0 && len >= form->hope.len &&
        memcmp(data, form->hope.data, form->hope.len) == 0) {
        *used_r = form->hope.len;
        return HEARD_YES;
    }
    if (language->protocol->is_echo) {
        *used_r = len < form->len ? 0 : form->len;
        return len < form->len ? HEARD_MORE : HEARD_YES;
    }
    return language->protocol->hear(ask, data, len, used_r, said);
}

#endif
