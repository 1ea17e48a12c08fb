/*
 * answer.h - what answers mean: for people, for scripts, and as an exit status.
 */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "cli/client.h"

struct invocation;

/* The exit status for a refusal; STATUS_PROTOCOL for an answer that is none. For a reply of the
   binary protocol that is no refusal: STATUS_OK. */
enum status answer_status(const struct answer *answer);

/* The word of a binary reply's status in JSON, such as "not_found"; "unknown" for others. */
const char *answer_word(const struct answer *answer);

/* Adds what an answer means, for people. */
void answer_explain(struct text *to, const struct answer *answer);

/* Prints that the server has refused a request, and why. The rest, as printf, names the request.
   Returns answer_status. */
enum status answer_refused(const struct client *client, const struct answer *answer,
                           const char *format, ...) PRINTF_LIKE(3, 4);

/*
 * Job queues: the server may be counterd, or a plain beanstalkd, which knows the published verbs
 * only. It would run the body of a put-into as commands. So a caller of our own verbs first sends
 * this request, which changes nothing, once for each connection; its answer tells.
 */
struct bs_request kind_request(void);
bool answer_is_plain(const struct answer *answer);

/* Step: client_open with the command's options, and asks for the kind. */
enum status open_jobs(struct client *client, const struct protocol *protocol,
                      struct invocation *invocation, bool *is_plain_r) MUST_USE;

/* The value of a key in a dictionary; empty if it is not there. As a number: 0 if it is none. */
struct bytes dictionary_value(struct bytes dictionary, const char *key);
uint64_t dictionary_number(struct bytes dictionary, const char *key);

/* True if the text may be the name of a tube; else prints that it is none. `who` is the command. */
bool check_tube(const char *who, const char *given);

#endif
