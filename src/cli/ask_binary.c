/*
 * ask_binary.c - a client of the binary counter protocol (ask_binary.h).
 */
#include "cli/ask_binary.h"

#include "cli/print.h"

#include <string.h>

/* ---- requests ---------------------------------------------------------------------------- */

static size_t take_reply(struct client *client, struct bytes data)
{
    static const uint8_t opaque[4]; /* of all requests */
    struct ctr_reply reply;
    size_t used;
    if (client->count == 0) {
        client->on_notice(client->owner, data);
        return data.len;
    }
    enum ctr_parsed parsed = ctr_parse_reply(data.data, data.len, &reply, &used);
    if (parsed == CTR_MORE)
        return 0;
    if (parsed != CTR_OK || reply.opcode != client->asks[0].kind ||
        memcmp(reply.opaque, opaque, sizeof opaque) != 0)
        return client_refuse(client);
    client_answer(client, &reply);
    return used;
}

const struct protocol protocol_binary = {
    .name = "binary counter protocol", .port = PORT_BINARY, .take = take_reply};

void ask_binary(struct client *client, const struct ctr_request *request, answer_handler *on_answer,
                void *owner)
{
    static uint8_t message[CTR_HEADER + CTR_BODY_MAX];
    size_t len = ctr_compose_request(request, message, sizeof message);
    CHECK(len > 0);
    client_ask(client,
               (struct ask){.on_answer = on_answer,
                            .owner = owner,
                            .timeout_ns = client->link.options->io_timeout_ns,
                            .kind = request->opcode},
               message, len);
}

enum status ask_binary_wait(struct client *client, const struct ctr_request *request,
                            struct ctr_reply *reply_r)
{
    ask_binary(client, request, client_keep, client_expect(client, reply_r, sizeof *reply_r));
    return client_wait(client);
}

/* ---- what replies mean ------------------------------------------------------------------- */

enum status ask_status_of(uint8_t reply_status)
{
    switch (reply_status) {
    case CTR_STATUS_SUCCESS:
        return STATUS_OK;
    case CTR_STATUS_NOT_FOUND:
    case CTR_STATUS_NOT_ACQUIRED:
        return STATUS_NO;
    case CTR_STATUS_INVALID:
        return STATUS_USAGE;
    case CTR_STATUS_NOT_AVAILABLE:
        return STATUS_TEMPORARY;
    case CTR_STATUS_OUT_OF_MEMORY:
        return STATUS_UNAVAILABLE;
    default:
        return STATUS_PROTOCOL;
    }
}

const char *ask_status_word(uint8_t reply_status)
{
    switch (reply_status) {
    case CTR_STATUS_SUCCESS:
        return "success";
    case CTR_STATUS_NOT_FOUND:
        return "not_found";
    case CTR_STATUS_NOT_ACQUIRED:
        return "not_acquired";
    case CTR_STATUS_INVALID:
        return "invalid";
    case CTR_STATUS_NOT_AVAILABLE:
        return "not_available";
    case CTR_STATUS_OUT_OF_MEMORY:
        return "out_of_memory";
    case CTR_STATUS_UNKNOWN_COMMAND:
        return "unknown_command";
    default:
        return "unknown";
    }
}

enum status ask_refused(const struct client *client, const char *what,
                        const struct ctr_reply *reply)
{
    const char *text = ctr_status_text(reply->status);
    if (*text)
        complain("%s: %s answers: %s", what, client->link.where, text);
    else
        complain("%s: %s answers with an unknown status, 0x%02x", what, client->link.where,
                 reply->status);
    return ask_status_of(reply->status);
}
