/*
 * ask_binary.h - the client of the binary counter protocol: sends requests, reads replies
 * (client.h).
 */
#ifndef CLI_ASK_BINARY_H
#define CLI_ASK_BINARY_H

#include "cli/client.h"
#include "proto/counter.h"

extern const struct protocol protocol_binary;

/* Sends a request, which must be valid. Calls on_answer with each reply as a struct ctr_reply,
   valid during the callback. Each reply must arrive within options->io_timeout_ns. */
void ask_binary(struct client *client, const struct ctr_request *request, answer_handler *on_answer,
                void *owner);

/* Step: sends a request and waits for its one reply, which is valid until the next step. Returns
   as client_wait does: STATUS_OK even if the reply's status is an error. */
enum status ask_binary_wait(struct client *client, const struct ctr_request *request,
                            struct ctr_reply *reply_r) MUST_USE;

/* Prints that the server refused, and returns the exit status for the reply's status. */
enum status ask_refused(const struct client *client, const char *what,
                        const struct ctr_reply *reply);

/* The exit status for a reply's status. */
enum status ask_status_of(uint8_t reply_status);

/* The word of a reply's status for scripts, such as "not_found"; "unknown" for an unknown status.
 */
const char *ask_status_word(uint8_t reply_status);

#endif
