/*
 * ask.h - one request and its answer, in each of the two protocols.
 */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "cli/client.h"
#include "cli/signals.h"
#include "cli/status.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"

/* The longest line of an answer of the text protocol that is taken. */
#define ASK_LINE_MAX 65536

/*
 * Connects as client_open. STATUS_OK, or it said why not: STATUS_UNAVAILABLE, STATUS_USAGE for a
 * wrong address. Where the wait was interrupted, STATUS_SIGNAL without a word: the caller knows
 * what to do. Whatever the result, client_close is due.
 */
enum status ask_open(struct client *client, const struct options *options, uint16_t port,
                     int interrupt) MUST_USE;

/* The same, ended by signals only; then the status is STATUS_SIGNAL + N. */
enum status ask_open_until(struct client *client, const struct options *options, uint16_t port,
                           struct signals *signals) MUST_USE;

/*
 * After a step: whether it was interrupted by nothing that ends us, and is to be repeated. Where it
 * was interrupted for good, *status becomes STATUS_SIGNAL + N.
 */
bool ask_again(struct signals *signals, enum status *status) MUST_USE;

/* Sends a request. STATUS_OK or STATUS_UNAVAILABLE (said). */
enum status ask_send(struct client *client, const struct ctr_request *request) MUST_USE;

/*
 * Takes the next reply, which has to be of `request`; it points into the client's data and is valid
 * until the next step. STATUS_OK whatever the reply's status; STATUS_UNAVAILABLE or STATUS_PROTOCOL
 * (said); STATUS_SIGNAL as above.
 */
enum status ask_reply(struct client *client, const struct ctr_request *request,
                      struct ctr_reply *reply_r) MUST_USE;

/* Both. */
enum status ask_binary(struct client *client, const struct ctr_request *request,
                       struct ctr_reply *reply_r) MUST_USE;

/* Says that the server refused, and returns the exit status of that: of a reply's status. */
enum status ask_refused(const struct client *client, const char *what,
                        const struct ctr_reply *reply);

/* The exit status that goes with a reply's status. */
enum status ask_status_of(uint8_t reply_status);

/* The word of a reply's status for scripts: "not_found"; "unknown" where it has none. */
const char *ask_status_word(uint8_t reply_status);

/* Sends a request of the text protocol that can be composed. As ask_send. */
enum status ask_send_line(struct client *client, const struct pc_request *request) MUST_USE;

/*
 * Takes the next line of an answer, waiting until the deadline (monotonic; negative: none). As
 * ask_reply. The line is valid until the next step.
 */
enum status ask_line(struct client *client, int64_t deadline_ns, enum pc_reply *reply_r,
                     struct bytes *line_r) MUST_USE;

/* Says why a step ended, and returns the exit status of that. CLIENT_INTERRUPTED: as above. */
enum status ask_complain(const struct client *client, enum client_end end);

#endif
