/*
 * protocol.h - the languages that targets speak: how each asks, and how it hears an answer.
 *
 * A row knows how to compose each kind of request and to judge an answer. What the requests of a
 * run have in common is fixed before it (limits, timeouts, the length of names), so each kind is
 * composed once, by the protocol's codec, and a request is a copy of that with the digits of its
 * name put in; likewise the answer that one hopes for is compared as a whole, and only others are
 * parsed. The load tool must be cheaper than the server it measures.
 */
#ifndef COUNTERBENCH_PROTOCOL_H
#define COUNTERBENCH_PROTOCOL_H

#include "base/bytes.h"
#include "bench/counterbench/names.h"

#include <string.h>

/* Kinds of requests. */
enum ask {
    ASK_ACQUIRE, /* a unit, if there is one at once */
    ASK_RELEASE, /* the unit given back */
    ASK_WAIT,    /* a unit, and wait for it (ACQ4ME) */
    ASK_SHARE,   /* a unit, or to hear that another has done the work (ACQ4ANY) */
    ASK_GET,     /* how many units are in use */
    ASK_DUMP,    /* all names; the answer comes in parts */
    ASK_WAITING, /* how many wait; the answer is that number */
    ASK_HELLO,   /* whether it is there; what a connection begins with, where it has one */
    ASK_COUNT
};

#define ASK_BIT(ask) (1u << (ask))

/* How an answer turned out. */
enum heard {
    HEARD_MORE,  /* it is not whole yet */
    HEARD_PART,  /* one of several parts; more follow */
    HEARD_YES,   /* what one hopes for: the unit, the unit given back, a number */
    HEARD_DONE,  /* another has done the work */
    HEARD_NO,    /* refused in order: no unit now, the queue is full, timed out */
    HEARD_WRONG, /* an error, or an answer to something else */
    HEARD_BROKEN /* no answer at all; where the next one begins can't be told */
};

/* What the requests of a run have in common. */
struct terms {
    uint32_t units, limit; /* of how many units in use */
    uint32_t queue;        /* how many may have or await one */
    int64_t timeout_ns;    /* of those that wait */
};

struct request {
    enum ask ask;
    struct bytes name;
    struct terms terms;
};

/* Room for the text of an answer, as a complaint shows it. */
#define SAID_ROOM 120

struct protocol {
    const char *name;
    uint16_t port; /* where an address names none */
    unsigned asks; /* ASK_BIT of each kind it has */
    const char *help;
    /* Writes a request; 0: it does not fit, or the protocol can't say it. */
    size_t (*compose)(const struct request *request, uint8_t *to, size_t room);
    /*
     * Judges the answer at the start of `data`. *used_r is its length, 0 for MORE and BROKEN. Of
     * WRONG and BROKEN `said` (SAID_ROOM bytes) tells what came, of WAITING the number.
     */
    enum heard (*hear)(enum ask ask, const uint8_t *data, size_t len, size_t *used_r, char *said);
    /* Writes the one answer that is hoped for, where there is just one; 0: there are several. */
    size_t (*hope)(enum ask ask, uint32_t units, uint8_t *to, size_t room);
    bool is_echo; /* the answer is as long as the request, whatever it says */
};

/* The row at an index; NULL: there are no more. And the row of a name; NULL: there is none. */
const struct protocol *protocol_at(size_t index);
const struct protocol *protocol_named(const char *name);

extern const struct protocol protocol_text, protocol_binary, protocol_echo_text,
    protocol_echo_binary, protocol_redis_incr, protocol_redis_lua, protocol_memcached;

/* For `said`: bytes that no terminal would take for itself, cut to what fits. */
void protocol_say(char *said, const void *data, size_t len);

/* ---- the requests of a run ------------------------------------------------------------------ */

/* One kind of request, ready but for its name. */
struct form {
    uint8_t *bytes;
    size_t len;
    size_t name_end; /* where the name ends; 0: it has none */
    uint8_t hope[32];
    size_t hope_len;
};

struct language {
    const struct protocol *protocol;
    size_t name_length;
    struct form forms[ASK_COUNT];
};

/* Makes the forms of all that the protocol can ask, `terms` for each kind. False: no memory. */
bool language_make(struct language *language, const struct protocol *protocol, size_t name_length,
                   const struct terms terms[ASK_COUNT]) MUST_USE;
void language_free(struct language *language);

/* Writes a request about name `number`; `to` has room for forms[ask].len. Returns its length. */
static inline size_t language_ask(const struct language *language, enum ask ask, uint32_t number,
                                  uint8_t *to)
{
    const struct form *form = &language->forms[ask];
    memcpy(to, form->bytes, form->len);
    if (form->name_end > 0)
        names_write_digits(number, to + form->name_end, language->name_length);
    return form->len;
}

/* Judges the answer to a request; as the protocol's `hear`. */
static inline enum heard language_hear(const struct language *language, enum ask ask,
                                       const uint8_t *data, size_t len, size_t *used_r, char *said)
{
    const struct form *form = &language->forms[ask];
    if (form->hope_len > 0 && len >= form->hope_len &&
        memcmp(data, form->hope, form->hope_len) == 0) {
        *used_r = form->hope_len;
        return HEARD_YES;
    }
    if (language->protocol->is_echo) {
        *used_r = len < form->len ? 0 : form->len;
        return len < form->len ? HEARD_MORE : HEARD_YES;
    }
    return language->protocol->hear(ask, data, len, used_r, said);
}

#endif
