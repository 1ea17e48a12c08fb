/*
 * ask_text.c - the client of the text protocol (ask_text.h).
 */
#include "cli/ask_text.h"

static size_t take_line(struct client *client, struct bytes data)
{
    struct text_line line;
    size_t used;
    enum pc_parsed parsed =
        pc_parse_reply(data.data, data.len, ASK_LINE_MAX, &line.reply, &line.line, &used);
    if (parsed == PC_MORE)
        return 0;
    if (parsed != PC_OK)
        return client_refuse(client);
    bool is_notice = client->on_notice && client->on_notice(client->owner, line.line);
    if (!is_notice && client->count > 0)
        client_answer(client, &line);
    return used;
}

const struct protocol protocol_text = {
    .name = "text protocol", .port = PORT_TEXT, .parts_max = ASK_PARTS_MAX, .take = take_line};

void ask_text(struct client *client, const struct pc_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner)
{
    /* 256 bytes are enough for verb, numbers and blanks. */
    static uint8_t line[PC_KEY_MAX + 256];
    size_t len = pc_compose_request(request, line, sizeof line);
    CHECK(len > 0);
    client_ask(client,
               (struct ask){.on_answer = on_answer, .owner = owner, .timeout_ns = timeout_ns}, line,
               len);
}

enum status ask_text_wait(struct client *client, const struct pc_request *request,
                          int64_t timeout_ns, struct text_line *line_r)
{
    ask_text(client, request, timeout_ns, client_keep,
             client_expect(client, line_r, sizeof *line_r));
    return client_wait(client);
}
