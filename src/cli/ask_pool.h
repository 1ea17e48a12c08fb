/*
 * ask_pool.h - the client of pools: the text protocol (ask_text.h) with the verbs of pools.
 *
 * Answers come in the order of the requests, except that of a TAKE that waits: it comes when the
 * wait is over, behind the answers of later requests. So while a TAKE waits, send nothing but
 * ask_pool_quit over that connection; use several connections for several waits.
 *
 * WANT, STOP, EVENT and LOST are no answers. A caller that has asked for them takes them with
 * client->on_notice, which gets each line; ask_pool_is_notice tells them apart.
 */
#ifndef CLI_ASK_POOL_H
#define CLI_ASK_POOL_H

#include "cli/client.h"
#include "proto/pools.h"

/* One line of an answer. */
struct pool_line {
    struct bytes line; /* without its end; valid during the callback, as all in `answer` */
    struct pool_answer answer;
};

extern const struct protocol protocol_pool;

/* Sends a request, which must be valid. Calls on_answer with each line as a struct pool_line. */
void ask_pool(struct client *client, const struct pool_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner);

/* Step: sends a request and waits for its one line, which is valid until the next step. Returns as
   client_wait does. */
enum status ask_pool_wait(struct client *client, const struct pool_request *request,
                          int64_t timeout_ns, struct pool_line *line_r) MUST_USE;

/* True for a line that comes between answers: WANT, STOP, EVENT, LOST. */
bool ask_pool_is_notice(struct bytes line);

/* Sets the word by= of a TAKE, which shows people the client: USER@HOST:COMMAND, the command's file
   name without its folder, with "_" for bytes that such a word can't have. */
void ask_pool_by(struct text *by_r, const char *command);

/*
 * Step: sends QUIT, waits up to a second for BYE or a signal, and closes the connection.
 * The server ends what waits, and takes back what is held as returned ok. What else arrives is
 * dropped. Returns true if the server said BYE. For a connection that is not up it only closes.
 */
bool ask_pool_quit(struct client *client);

/*
 * Prints that the server has refused a request, and why; `what` names the request. Returns the
 * exit status.
 */
enum status ask_pool_refused(const struct client *client, const char *what,
                             const struct pool_line *line);

/* Adds what a reply means, for people. */
void ask_pool_explain(struct text *to, const struct pool_line *line);

/* The exit status for a reply. */
enum status ask_pool_status(enum pool_reply reply);

#endif
