/*
 * ask.c - one request and its answer (ask.h).
 */
#include "cli/ask.h"

#include "base/clock.h"
#include "cli/print.h"

#include <string.h>

enum status ask_complain(const struct client *client, enum client_end end)
{
    switch (end) {
    case CLIENT_OK:
        return STATUS_OK;
    case CLIENT_INTERRUPTED:
        return STATUS_SIGNAL;
    case CLIENT_FAILED:
        complain("can't connect to %s: %s", client->where, client->reason);
        return STATUS_UNAVAILABLE;
    case CLIENT_TIMED_OUT:
    case CLIENT_CLOSED:
        complain("%s: %s", client->where, client->reason);
        return STATUS_UNAVAILABLE;
    }
    return STATUS_INTERNAL;
}

enum status ask_open(struct client *client, const struct options *options, uint16_t port,
                     int interrupt)
{
    struct address address;
    *client = (struct client){.fd = -1};
    if (!client_address(options, &address))
        return STATUS_USAGE;
    if (address.is_unix && options->tls) {
        complain("--tls: a unix socket speaks no TLS; leave it out");
        return STATUS_USAGE;
    }
    enum client_end end = client_open(client, &address, options, port, interrupt);
    /* That it did not answer in time, while connecting, is a failure to connect. */
    return ask_complain(client, end == CLIENT_TIMED_OUT ? CLIENT_FAILED : end);
}

bool ask_again(struct signals *signals, enum status *status)
{
    if (*status != STATUS_SIGNAL)
        return false;
    int number = signals_end_of_wait(signals);
    *status = (enum status)(STATUS_SIGNAL + number);
    return number == 0;
}

enum status ask_open_until(struct client *client, const struct options *options, uint16_t port,
                           struct signals *signals)
{
    enum status status;
    do {
        status = ask_open(client, options, port, signals->fd);
        if (status == STATUS_SIGNAL)
            client_close(client);
    } while (ask_again(signals, &status));
    return status;
}

static enum status send_composed(struct client *client, const uint8_t *message, size_t len)
{
    CHECK(len > 0);
    return ask_complain(client, client_send(client, message, len));
}

/* --- Binary ---------------------------------------------------------------------------------- */

enum status ask_send(struct client *client, const struct ctr_request *request)
{
    static uint8_t message[CTR_HEADER + CTR_BODY_MAX];
    return send_composed(client, message, ctr_compose_request(request, message, sizeof message));
}

static enum status complain_malformed(const struct client *client)
{
    complain("%s: the answer is not of the binary counter protocol (is this the right port?)",
             client->where);
    return STATUS_PROTOCOL;
}

enum status ask_reply(struct client *client, const struct ctr_request *request,
                      struct ctr_reply *reply_r)
{
    int64_t deadline = clock_mono_ns() + client->io_timeout_ns;
    for (;;) {
        struct bytes data = client_data(client);
        size_t used;
        enum ctr_parsed parsed =
            data.len > 0 ? ctr_parse_reply(data.data, data.len, reply_r, &used) : CTR_MORE;
        if (parsed == CTR_OK) {
            client_take(client, used);
            if (reply_r->opcode != request->opcode ||
                memcmp(reply_r->opaque, request->opaque, sizeof request->opaque) != 0)
                return complain_malformed(client);
            return STATUS_OK;
        }
        if (parsed != CTR_MORE)
            return complain_malformed(client);
        enum client_end end = client_fill(client, deadline);
        if (end != CLIENT_OK)
            return ask_complain(client, end);
    }
}

enum status ask_binary(struct client *client, const struct ctr_request *request,
                       struct ctr_reply *reply_r)
{
    enum status status = ask_send(client, request);
    return status == STATUS_OK ? ask_reply(client, request, reply_r) : status;
}

/* What each status of a reply means to us: the exit status, and its word in JSON. */
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
        complain("%s: %s answers: %s", what, client->where, text);
    else
        complain("%s: %s answers with an unknown status, 0x%02x", what, client->where,
                 reply->status);
    return ask_status_of(reply->status);
}

/* --- Text ------------------------------------------------------------------------------------ */

enum status ask_send_line(struct client *client, const struct pc_request *request)
{
    /* Verb, numbers and blanks take less than the rest of it. */
    static uint8_t line[PC_KEY_MAX + 256];
    return send_composed(client, line, pc_compose_request(request, line, sizeof line));
}

enum status ask_line(struct client *client, int64_t deadline_ns, enum pc_reply *reply_r,
                     struct bytes *line_r)
{
    for (;;) {
        struct bytes data = client_data(client);
        size_t used;
        enum pc_parsed parsed =
            pc_parse_reply(data.data, data.len, ASK_LINE_MAX, reply_r, line_r, &used);
        if (parsed == PC_OK) {
            client_take(client, used);
            return STATUS_OK;
        }
        if (parsed != PC_MORE) {
            complain("%s: the answer is not of the text protocol (is this the right port?)",
                     client->where);
            return STATUS_PROTOCOL;
        }
        enum client_end end = client_fill(client, deadline_ns);
        if (end != CLIENT_OK)
            return ask_complain(client, end);
    }
}
