/*
 * counter.h - the binary counter protocol of yrmcds's counter extension, both directions
 * (spec: counter.md).
 *
 * A message is a header of 12 bytes and a body. Requests begin with 0x90, replies with 0x91. All
 * integers are big-endian; `opaque` is carried as it is.
 */
#ifndef PROTO_COUNTER_H
#define PROTO_COUNTER_H

#include "proto/wire.h"

#define CTR_MAGIC_REQUEST 0x90
#define CTR_MAGIC_REPLY   0x91
#define CTR_HEADER        12
#define CTR_NAME_MAX      65535
#define CTR_BODY_MAX      65545 /* an Acquire of the longest name: 10 + 65,535 */

/* Opcodes: name, number, the word in statistics. One row each. */
#define CTR_OPCODES(ROW)                                                                           \
    ROW(NOOP, 0x00, "noop")                                                                        \
    ROW(GET, 0x01, "get")                                                                          \
    ROW(ACQUIRE, 0x02, "acquire")                                                                  \
    ROW(RELEASE, 0x03, "release")                                                                  \
    ROW(STATS, 0x10, "stats")                                                                      \
    ROW(DUMP, 0x11, "dump")

enum ctr_opcode {
#define ROW(name, number, word) CTR_##name = (number),
    CTR_OPCODES(ROW)
#undef ROW
};

/* Statuses: name, number, the text that goes with it. One row each. */
#define CTR_STATUSES(ROW)                                                                          \
    ROW(SUCCESS, 0x00, "")                                                                         \
    ROW(NOT_FOUND, 0x01, "Not found")                                                              \
    ROW(INVALID, 0x04, "Invalid arguments")                                                        \
    ROW(NOT_AVAILABLE, 0x21, "Resource not available")                                             \
    ROW(NOT_ACQUIRED, 0x22, "Not acquired")                                                        \
    ROW(UNKNOWN_COMMAND, 0x81, "Unknown command")                                                  \
    ROW(OUT_OF_MEMORY, 0x82, "Out of memory")

enum ctr_status {
#define ROW(name, number, text) CTR_STATUS_##name = (number),
    CTR_STATUSES(ROW)
#undef ROW
};

/* A request. Fields that an opcode does not use are zero. */
struct ctr_request {
    uint8_t opcode; /* one of enum ctr_opcode, or any other byte where it is unknown */
    uint8_t opaque[4];
    uint32_t units;    /* Acquire: at least 1; Release: may be 0 */
    uint32_t maximum;  /* Acquire: at least `units` */
    struct bytes name; /* Get, Acquire, Release: 1 to 65,535 bytes */
};

enum ctr_parsed {
    CTR_OK,       /* a whole request (or reply) */
    CTR_MORE,     /* not all of it is here yet */
    CTR_BAD_ARGS, /* a whole request with wrong arguments: answer 0x04, the connection stays */
    CTR_UNKNOWN,  /* a whole request of an unknown opcode: answer 0x81, the connection stays */
    CTR_TOO_LONG, /* a body longer than CTR_BODY_MAX is announced: answer 0x04, then close */
    CTR_BAD_MAGIC /* no message begins here: answer 0x04, then close */
};

/*
 * Parses the request at the start of `data` (`len` bytes).
 * *used_r: the bytes it took for OK, BAD_ARGS and UNKNOWN; for MORE the least number of bytes that
 * the whole message has (12 until the header is complete, then header and body); else 0.
 * *req_r: all of it for OK (name points into `data`); `opcode` and `opaque`, for the answer's sake,
 * for every result but MORE (BAD_MAGIC: what of them has arrived, the rest 0). BAD_MAGIC is told
 * from the first byte, TOO_LONG from the header: both without waiting for more.
 * Flags and reserved bytes are ignored, and so are a body on Noop, Stats and Dump and bytes after
 * the name. BAD_ARGS: name length 0, a body too short for its fields or its name, Acquire of 0
 * units or of more units than the maximum.
 */
enum ctr_parsed ctr_parse_request(const uint8_t *data, size_t len, struct ctr_request *req_r,
                                  size_t *used_r);

/*
 * Writes `req` into `to` (`room` bytes). Returns its length; 0 where it does not fit, the name is
 * too long, or the opcode is unknown. Arguments that a server refuses are written as they are;
 * fields that the opcode does not use are not written.
 */
size_t ctr_compose_request(const struct ctr_request *req, uint8_t *to, size_t room);

/* The text that goes with an error status; "" for success and for unknown statuses. */
const char *ctr_status_text(uint8_t status);

/* Room for any reply without a name: header and the longest error text or number. */
#define CTR_REPLY_ROOM 64

/*
 * Writes the reply to `req` of an error status, with its text, or of success without a body.
 * `to` has at least CTR_REPLY_ROOM bytes. Returns its length.
 */
size_t ctr_compose_status(uint8_t opcode, const uint8_t opaque[4], enum ctr_status status,
                          uint8_t *to);

/*
 * Writes the reply to an Acquire while the server waits for its clients to release before it ends:
 * NOT_AVAILABLE, with CTR_SHUTTING_DOWN as its text. As above.
 */
#define CTR_SHUTTING_DOWN "Shutting down"
size_t ctr_compose_shutting_down(uint8_t opcode, const uint8_t opaque[4], uint8_t *to);

/* Writes the successful reply of Get and Acquire, whose body is one number. As above. */
size_t ctr_compose_number(uint8_t opcode, const uint8_t opaque[4], uint32_t number, uint8_t *to);

/* Writes a header alone: a reply whose body of `body_len` bytes the caller writes after it. */
size_t ctr_compose_header(uint8_t opcode, const uint8_t opaque[4], enum ctr_status status,
                          uint32_t body_len, uint8_t *to);

/* How long one reply of Dump is for a name of `name_len` bytes. */
#define CTR_DUMP_LEN(name_len) ((size_t)CTR_HEADER + 10 + (name_len))

/*
 * Writes one reply of Dump into `to`, which has at least CTR_DUMP_LEN(name.len) bytes; name.len is
 * at most CTR_NAME_MAX. Returns its length. The reply that ends a Dump is ctr_compose_status of
 * success.
 */
size_t ctr_compose_dump(const uint8_t opaque[4], uint32_t consumption, uint32_t peak,
                        struct bytes name, uint8_t *to);

/*
 * Appends one name-value pair of a Stats body at `to` (`room` bytes); returns its length, 0 where
 * it does not fit or one of them (C strings) is longer than 65,535 bytes.
 */
size_t ctr_compose_stat(const char *name, const char *value, uint8_t *to, size_t room);

/* A reply as a client sees it. */
struct ctr_reply {
    uint8_t opcode;
    uint8_t status;
    uint8_t opaque[4];
    struct bytes body;
};

/* The longest reply body that a client accepts: 16 MiB. */
#define CTR_REPLY_BODY_MAX (16u << 20)

/*
 * Parses the reply at the start of `data`. As ctr_parse_request, but never BAD_ARGS or UNKNOWN, and
 * TOO_LONG is above CTR_REPLY_BODY_MAX. The body points into `data`; it is empty where not OK.
 */
enum ctr_parsed ctr_parse_reply(const uint8_t *data, size_t len, struct ctr_reply *reply_r,
                                size_t *used_r);

/* Reads the number of a successful Get or Acquire reply; false for any other status or body. */
bool ctr_reply_number(const struct ctr_reply *reply, uint32_t *number_r);

/* Reads one reply of Dump; false for any other status or body (an empty body ends the Dump). */
bool ctr_reply_dump(const struct ctr_reply *reply, uint32_t *consumption_r, uint32_t *peak_r,
                    struct bytes *name_r);

/*
 * Takes the next name-value pair of a Stats body from *body. True: there was one. False: the body
 * is at its end (body->len 0) or malformed (body->len not 0).
 */
bool ctr_reply_stat(struct bytes *body, struct bytes *name_r, struct bytes *value_r);

#endif
