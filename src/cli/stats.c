/*
 * stats.c - `counterctl stats`: the statistics of both protocols.
 *
 * Asks each protocol at its own port. An address with a port (or a unix socket) belongs to one
 * protocol, so only that one is asked.
 */
#include "base/number.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/print.h"

#include <string.h>

/* The most lines of an answer; a server that sends more speaks another protocol. */
#define LINES_MAX 1000

/* The largest number to print as a JSON number; larger ones become strings. */
#define NUMBER_MAX UINT64_C(999999999999999999)

struct stats {
    struct client client;
    json_t *json; /* NULL: print rows */
    struct table table;
};

/* Adds a name and a value; JSON gets numbers as numbers. */
static void add(struct stats *stats, struct bytes name, struct bytes value)
{
    struct text key = {0};
    uint64_t number;
    if (!stats->json) {
        table_take(&stats->table, json_make({"name", json_name(name)}, {"value", json_name(value)}),
                   false);
        return;
    }
    text_add_name(&key, name);
    json_object_set_new(stats->json, text_str(&key),
                        number_parse(value, NUMBER_MAX, &number) ? json_count(number)
                                                                 : json_name(value));
    text_free(&key);
}

/* ---- binary ---------------------------------------------------------------------------------- */

static enum status ask_binary_stats(struct stats *stats)
{
    struct ctr_request request = {.opcode = CTR_STATS};
    struct answer reply;
    enum status status = ask_binary(&stats->client, &request, &reply);
    if (status == STATUS_OK && reply.binary.status != CTR_STATUS_SUCCESS)
        status = answer_refused(&stats->client, &reply, "stats");
    if (status == STATUS_OK) {
        struct bytes name, value;
        while (ctr_reply_stat(&reply.body, &name, &value))
            add(stats, name, value);
        if (reply.body.len > 0)
            status = complain_as(STATUS_PROTOCOL, "%s: the statistics are malformed",
                                 stats->client.where);
    }
    return status;
}

/* ---- text ------------------------------------------------------------------------------------ */

static enum status ask_text_stats(struct stats *stats)
{
    struct pc_request request = {.verb = PC_STATS, .subject = bytes_of("FULL")};
    struct answer answer;
    ask_text(&stats->client, &request, 0, NULL, NULL);
    for (size_t lines = 0;; lines++) {
        enum status status =
            client_hear(&stats->client, stats->client.options->io_timeout_ns, &answer);
        struct bytes line = answer.line;
        if (status != STATUS_OK || line.len == 0) /* an empty line is the last */
            return status;
        const uint8_t *colon = memmem(line.data, line.len, ": ", 2);
        if (!colon || lines >= LINES_MAX)
            return complain_as(STATUS_PROTOCOL,
                               "%s: the answer is not one to STATS FULL of the text protocol",
                               stats->client.where);
        size_t len = (size_t)(colon - line.data);
        add(stats, bytes_at(line.data, len), bytes_at(colon + 2, line.len - len - 2));
    }
}

/* ---- both ------------------------------------------------------------------------------------ */

struct protocol_stats {
    const char *name;
    const struct protocol *protocol;
    enum status (*ask)(struct stats *stats);
};

static const struct protocol_stats protocols[] = {
    {"counter", &protocol_binary, ask_binary_stats},
    {"poolcounter", &protocol_text, ask_text_stats},
};

static void print_rows(const char *name, const struct table *table, bool *is_first)
{
    if (table->rows == 0)
        return;
    if (!*is_first)
        putchar('\n');
    *is_first = false;
    printf("%s\n", name);
    table_print(table, "  ");
}

/* Asks one protocol. Adds the result to the JSON `all`, or prints it if `all` is NULL. */
static enum status tell(const struct protocol_stats *protocol, struct invocation *invocation,
                        json_t *all, bool *is_first)
{
    static const struct column columns[] = {
        {"NAME", 'l', "{name}"}, {"VALUE", 'l', "{value}"}, {NULL}};
    struct stats stats = {.json = all ? json_object() : NULL, .table = {.columns = columns}};
    enum status status = client_open(&stats.client, protocol->protocol, invocation);
    if (status == STATUS_OK)
        status = protocol->ask(&stats);
    client_close(&stats.client);
    if (!all)
        print_rows(protocol->name, &stats.table, is_first);
    else if (status == STATUS_OK)
        json_object_set_new(all, protocol->name, json_incref(stats.json));
    json_decref(stats.json);
    table_free(&stats.table);
    return status;
}

int do_stats(struct invocation *invocation)
{
    const struct options *options = &invocation->options;
    struct server server;
    if (!server_find(options, &server))
        return STATUS_USAGE;
    bool is_one = options->text || server.is_unix || server.port;
    json_t *all = options->json ? json_object() : NULL;
    bool is_first = true, any = false;
    enum status worst = STATUS_OK;
    for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
        if (is_one && i != (options->text ? 1 : 0))
            continue;
        enum status status = tell(&protocols[i], invocation, all, &is_first);
        any |= status == STATUS_OK;
        /* A protocol that is not served is no failure if the other one answers. */
        if (status != STATUS_OK && worst != STATUS_PROTOCOL)
            worst = status;
    }
    if (all && any)
        json_line(json_incref(all));
    json_decref(all);
    return any && worst == STATUS_UNAVAILABLE ? STATUS_OK : (int)worst;
}
