/*
 * ask_text.h - a client of the text protocol: requests out, lines of answers in (client.h).
 *
 * Answers come in the order of the requests. Lines that are no answers may come between them; they
 * are told from answers by client->on_notice, which gets each line without its end.
 */
#ifndef CLI_ASK_TEXT_H
#define CLI_ASK_TEXT_H

#include "cli/client.h"
#include "proto/poolcounter.h"

/* The longest line of an answer that is taken. */
#define ASK_LINE_MAX 65536

/* A part of an answer. */
struct text_line {
    enum pc_reply reply;
    struct bytes line; /* valid while the callback runs */
};

extern const struct protocol protocol_text;

/* Asks; the request can be composed. on_answer gets each line as a struct text_line. */
void ask_text(struct client *client, const struct pc_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner);

/* As a step: the line that is the answer, valid until the next step. As client_wait. */
enum status ask_text_wait(struct client *client, const struct pc_request *request,
                          int64_t timeout_ns, struct text_line *line_r) MUST_USE;

#endif
