/*
 * counter.h - the binary counter protocol of yrmcds's counter extension, both directions (spec:
 * counter.md).
 *
 * A message is a header of 12 bytes and a body. Requests begin with 0x90, replies with 0x91. All
 * integers are big-endian. A reply repeats the request's `opaque` bytes.
 */
#ifndef PROTO_COUNTER_H
#define PROTO_COUNTER_H

#include "proto/wire.h"

#define CTR_MAGIC_REQUEST 0x90
#define CTR_MAGIC_REPLY   0x91
#define CTR_HEADER        12
#define CTR_NAME_MAX      65535
#define CTR_BODY_MAX      65545 /* an Acquire with the longest name: 10 + 65,535 */

/* Opcodes: name, number, word in statistics. One row each. */
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

/* Statuses: name, number, error text. One row each. */
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

/* A request. Fields that the opcode does not use are zero. */
struct ctr_request {
    uint8_t opcode; /* one of enum ctr_opcode, or an unknown one */
    uint8_t opaque[4];
    uint32_t units;    /* Acquire: at least 1; Release: may be 0 */
    uint32_t maximum;  /* Acquire: at least `units` */
    struct bytes name; /* Get, Acquire, Release: 1 to 65,535 bytes */
};

enum ctr_parsed {
    CTR_OK,       /* a whole request (or reply) */
    CTR_MORE,     /* the message is not complete */
    CTR_BAD_ARGS, /* a whole request with wrong arguments: answer 0x04, keep the connection */
    CTR_UNKNOWN,  /* a whole request with an unknown opcode: answer 0x81, keep the connection */
    CTR_TOO_LONG, /* the header has a body length above CTR_BODY_MAX: answer 0x04, then close */
    CTR_BAD_MAGIC /* the first byte is wrong: answer 0x04, then close */
};

/*
 * Parses the request at the start of `data` (`len` bytes).
 *
 * *used_r: for OK, BAD_ARGS and UNKNOWN, the length of the request. For MORE, the minimum length of
 * the whole message: 12 until the header is complete, then header and body. Else 0.
 *
 * *req_r: for OK, complete (name points into `data`). For every other result except MORE, only
 * `opcode` and `opaque`, which the answer needs. For BAD_MAGIC, those of their bytes that have
 * arrived; the rest is 0.
 *
 * BAD_MAGIC is returned after the first byte, TOO_LONG after the header, without waiting for more.
 * Flags and reserved bytes are ignored; so are a body of Noop, Stats and Dump, and bytes after the
 * name. BAD_ARGS: name length 0, a body too short for its fields or its name, Acquire of 0 units or
 * of more units than the maximum.
 */
enum ctr_parsed ctr_parse_request(const uint8_t *data, size_t len, struct ctr_request *req_r,
                                  size_t *used_r);

/*
 * Writes `req` into `to` (`room` bytes). Returns the length; 0 when it does not fit, the name is
 * too long, or the opcode is unknown. Arguments are not checked otherwise: a server may refuse
 * them. Fields that the opcode does not use are not written.
 */
size_t ctr_compose_request(const struct ctr_request *req, uint8_t *to, size_t room);

/* The text of an error status; "" for success and unknown statuses. */
const char *ctr_status_text(uint8_t status);

/*
 * Buffer size that suffices for any reply without a name: header and the longest error text or
 * number.
 */
#define CTR_REPLY_ROOM 64

/*
 * Writes an error reply with its text, or a success reply without a body. `to` must have at least
 * CTR_REPLY_ROOM bytes. Returns the length.
 */
size_t ctr_compose_status(uint8_t opcode, const uint8_t opaque[4], enum ctr_status status,
                          uint8_t *to);

/*
 * Writes the reply to an Acquire while the server is shutting down and waits for its clients to
 * release: NOT_AVAILABLE with the text CTR_SHUTTING_DOWN. `to` and the return value are as above.
 */
#define CTR_SHUTTING_DOWN "Shutting down"
size_t ctr_compose_shutting_down(uint8_t opcode, const uint8_t opaque[4], uint8_t *to);

/* Writes the success reply of Get or Acquire; its body is one number. As above. */
size_t ctr_compose_number(uint8_t opcode, const uint8_t opaque[4], uint32_t number, uint8_t *to);

/* Writes a header only; the caller writes a body of `body_len` bytes after it. As above. */
size_t ctr_compose_header(uint8_t opcode, const uint8_t opaque[4], enum ctr_status status,
                          uint32_t body_len, uint8_t *to);

/* Length of one Dump reply for a name of `name_len` bytes. */
#define CTR_DUMP_LEN(name_len) ((size_t)CTR_HEADER + 10 + (name_len))

/*
 * Writes one Dump reply into `to`, which must have at least CTR_DUMP_LEN(name.len) bytes. name.len
 * is at most CTR_NAME_MAX. Returns the length. To end a Dump, send ctr_compose_status with success.
 */
size_t ctr_compose_dump(const uint8_t opaque[4], uint32_t consumption, uint32_t peak,
                        struct bytes name, uint8_t *to);

/*
 * Writes one name-value pair of a Stats body to `to` (`room` bytes). Returns the length; 0 when it
 * does not fit or one of the strings is longer than 65,535 bytes.
 */
size_t ctr_compose_stat(const char *name, const char *value, uint8_t *to, size_t room);

/* A reply, as parsed by a client. */
struct ctr_reply {
    uint8_t opcode;
    uint8_t status;
    uint8_t opaque[4];
    struct bytes body;
};

/* Maximum length of a reply body that a client accepts: 16 MiB. */
#define CTR_REPLY_BODY_MAX (16u << 20)

/*
 * Parses the reply at the start of `data`. Like ctr_parse_request, but never returns BAD_ARGS or
 * UNKNOWN, and TOO_LONG means a body above CTR_REPLY_BODY_MAX. The body points into `data`; it is
 * empty unless the result is OK.
 */
enum ctr_parsed ctr_parse_reply(const uint8_t *data, size_t len, struct ctr_reply *reply_r,
                                size_t *used_r);

/*
 * Reads the number in a success reply to Get or Acquire. Returns false for any other status or
 * body.
 */
bool ctr_reply_number(const struct ctr_reply *reply, uint32_t *number_r);

/*
 * Reads one Dump reply. Returns false for any other status or body (an empty body ends the Dump).
 */
bool ctr_reply_dump(const struct ctr_reply *reply, uint32_t *consumption_r, uint32_t *peak_r,
                    struct bytes *name_r);

/*
 * Takes the next name-value pair from *body, a Stats body. Returns false at the end (body->len 0)
 * or when the body is malformed (body->len not 0).
 */
bool ctr_reply_stat(struct bytes *body, struct bytes *name_r, struct bytes *value_r);

#endif
