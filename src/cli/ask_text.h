/*
 * ask_text.h - the client of the text protocol: sends requests, reads lines of answers (client.h).
 *
 * Answers arrive in the order of the requests. Lines that belong to no answer may come in between;
 * client->on_notice recognizes them. It gets each line without its end.
 */
#ifndef CLI_ASK_TEXT_H
#define CLI_ASK_TEXT_H

#include "cli/client.h"
#include "proto/poolcounter.h"

/* The longest line that the client accepts. */
#define ASK_LINE_MAX 65536

/* The most lines of an answer that it accepts. */
#define ASK_PARTS_MAX 10000000

/* One line of an answer. */
struct text_line {
    enum pc_reply reply;
    struct bytes line; /* valid during the callback */
};

extern const struct protocol protocol_text;

/* Sends a request, which must be valid. Calls on_answer with each line as a struct text_line. */
void ask_text(struct client *client, const struct pc_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner);

/* Step: sends a request and waits for its one line, which is valid until the next step. Returns as
   client_wait does. */
enum status ask_text_wait(struct client *client, const struct pc_request *request,
                          int64_t timeout_ns, struct text_line *line_r) MUST_USE;

#endif
