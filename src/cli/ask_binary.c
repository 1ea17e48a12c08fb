/*
 * ask_binary.c - the client of the binary counter protocol (ask_binary.h).
 */
#include "cli/ask_binary.h"

#include "cli/print.h"

#include <string.h>

/* The most names of a dump. */
#define DUMP_MAX (UINT64_C(1) << 30)

/* ---- requests ---------------------------------------------------------------------------- */

static size_t take_reply(struct client *client, struct bytes data)
{
    static const uint8_t opaque[4]; /* all requests have the same */
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

const struct protocol protocol_binary = {.name = "binary counter protocol",
                                         .port = PORT_BINARY,
                                         .parts_max = DUMP_MAX,
                                         .take = take_reply};

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

/* ---- replies ----------------------------------------------------------------------------- */

/* The exit status for each status of a reply, and its word in JSON. */
static const struct meaning {
    uint8_t reply_status;
    enum status status;
    const char *word;
} meanings[] = {
    {CTR_STATUS_SUCCESS, STATUS_OK, "success"},
    {CTR_STATUS_NOT_FOUND, STATUS_NO, "not_found"},
    {CTR_STATUS_NOT_ACQUIRED, STATUS_NO, "not_acquired"},
    {CTR_STATUS_INVALID, STATUS_USAGE, "invalid"},
    {CTR_STATUS_NOT_AVAILABLE, STATUS_TEMPORARY, "not_available"},
    {CTR_STATUS_OUT_OF_MEMORY, STATUS_UNAVAILABLE, "out_of_memory"},
    {CTR_STATUS_UNKNOWN_COMMAND, STATUS_PROTOCOL, "unknown_command"},
};

static const struct meaning *meaning_of(uint8_t reply_status)
{
    static const struct meaning unknown = {0, STATUS_PROTOCOL, "unknown"};
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (meanings[i].reply_status == reply_status)
            return &meanings[i];
    return &unknown;
}

enum status ask_status_of(uint8_t reply_status)
{
    return meaning_of(reply_status)->status;
}

const char *ask_status_word(uint8_t reply_status)
{
    return meaning_of(reply_status)->word;
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
