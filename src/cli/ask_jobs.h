/*
 * ask_jobs.h - the client of job queues (proto/beanstalk.h): sends requests with their bodies,
 * reads answers with theirs.
 *
 * The server may be counterd, or a plain beanstalkd, which knows the published verbs only. It would
 * run the body of a put-into as commands. So a caller of our own verbs first asks for a kind
 * (ask_jobs_kind), once for each connection.
 *
 * Answers come in the order of the requests. Behind a CLAIMED or LISTED come as many jobs:
 * on_answer gets each of them as a further part.
 */
#ifndef CLI_ASK_JOBS_H
#define CLI_ASK_JOBS_H

#include "cli/client.h"
#include "proto/beanstalk.h"

/* The largest body that any server takes. */
#define ASK_JOBS_BODY_MAX (64u << 20)

/* What is accepted as the list of all tubes, and as a dictionary, in bytes. */
#define ASK_JOBS_LIST_MAX       (256u << 20)
#define ASK_JOBS_DICTIONARY_MAX (64u << 10)

/* A part of an answer; valid during the callback. */
struct jobs_answer {
    struct bs_reply reply;
    struct bytes line; /* without its end */
    struct bytes body; /* without its end; len 0 when there is none */
};

extern const struct protocol protocol_jobs;

/* Sends a request, which must be valid, and the body of a put; for other verbs `body` is empty.
   Sets request->body_len. Calls on_answer with each part as a struct jobs_answer. */
void ask_jobs(struct client *client, struct bs_request *request, struct bytes body,
              int64_t timeout_ns, answer_handler *on_answer, void *owner);

/* Step: sends a request without a body, and waits for the one part of its answer, which is valid
   until the next step. Returns as client_wait does. */
enum status ask_jobs_wait(struct client *client, struct bs_request *request,
                          struct jobs_answer *answer_r) MUST_USE;

/* Sends the request whose answer tells a counterd from a plain beanstalkd (ask_jobs_is_plain). It
   changes nothing. */
void ask_jobs_kind(struct client *client, answer_handler *on_answer, void *owner);

/* For the answer to ask_jobs_kind: true for a server without our verbs. */
bool ask_jobs_is_plain(const struct jobs_answer *answer);

/* The value of a key in the dictionary of a body; empty if it is not there. */
struct bytes ask_jobs_value(struct bytes dictionary, const char *key);

/* The same as a number; 0 if it is not there or no number. */
uint64_t ask_jobs_number(struct bytes dictionary, const char *key);

/* True if the text may be the name of a tube; else prints that it is none. `who` is the command. */
bool ask_jobs_check_tube(const char *who, const char *given);

/* Adds what an answer means, for people. */
void ask_jobs_explain(struct text *to, const struct jobs_answer *answer);

/* The exit status for a refusal; STATUS_PROTOCOL for an answer that is none. */
enum status ask_jobs_status(const struct jobs_answer *answer);

/* Prints that the server has refused a request, and why; `what` names the request. Returns the exit
   status. */
enum status ask_jobs_refused(const struct client *client, const char *what,
                             const struct jobs_answer *answer);

#endif
