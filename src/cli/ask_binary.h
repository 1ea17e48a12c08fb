/*
 * ask_binary.h - a client of the binary counter protocol: requests out, replies in (client.h).
 */
#ifndef CLI_ASK_BINARY_H
#define CLI_ASK_BINARY_H

#include "cli/client.h"
#include "proto/counter.h"

extern const struct protocol protocol_binary;

/* Asks; the request can be composed. on_answer gets each reply as a struct ctr_reply, valid while
   it runs. Each has to come within options->io_timeout_ns. */
void ask_binary(struct client *client, const struct ctr_request *request, answer_handler *on_answer,
                void *owner);

/* As a step: the one reply, valid until the next step. As client_wait: STATUS_OK whatever the
   reply's status. */
enum status ask_binary_wait(struct client *client, const struct ctr_request *request,
                            struct ctr_reply *reply_r) MUST_USE;

/* Says that the server refused, and returns the exit status of that: of a reply's status. */
enum status ask_refused(const struct client *client, const char *what,
                        const struct ctr_reply *reply);

/* The exit status that goes with a reply's status. */
enum status ask_status_of(uint8_t reply_status);

/* The word of a reply's status for scripts: "not_found"; "unknown" where it has none. */
const char *ask_status_word(uint8_t reply_status);

#endif
