/*
 * client.c - a connection and its unanswered requests (client.h).
 */
#include "cli/client.h"

#include "base/clock.h"
#include "cli/print.h"

#include <stdlib.h>
#include <string.h>

/* ---- the connection ---------------------------------------------------------------------- */

bool client_address(const struct options *options, struct address *address_r)
{
    char reason[ADDRESS_REASON_SIZE];
    const char *from = "--server", *text = options->server;
    if (!text) {
        from = "$COUNTER_SERVER";
        text = getenv("COUNTER_SERVER"); /* NOLINT(concurrency-mt-unsafe): one thread */
    }
    if (!text || !*text)
        text = "127.0.0.1";
    if (address_parse(text, address_r, reason))
        return true;
    complain("%s: %s", from, reason);
    return false;
}

void client_complain(const struct client *client)
{
    complain(client->was_up ? "%s: %s" : "can't connect to %s: %s", client->link.where,
             client->link.reason);
}

void client_lost(void *owner, enum status status)
{
    const struct client *client = owner;
    (void)status;
    complain("%s: %s: the server frees what this command held", client->link.where,
             client->link.reason);
    loop_end(client->link.loop, STATUS_LOST);
}

/* Closes the connection, and calls on_end or prints why. */
static void end(struct client *client, enum status status)
{
    link_close(&client->link);
    timer_clear(client->link.loop, &client->timer);
    timer_clear(client->link.loop, &client->whole);
    client->count = 0;
    if (client->on_end) {
        client->on_end(client->owner, status);
        return;
    }
    client_complain(client);
    loop_end(client->link.loop, (int)status);
}

size_t client_refuse_as(struct client *client, const char *why)
{
    snprintf(client->link.reason, sizeof client->link.reason, "%s", why);
    end(client, STATUS_PROTOCOL);
    return 0;
}

size_t client_refuse(struct client *client)
{
    char why[LINK_REASON_SIZE];
    snprintf(why, sizeof why, "the answer is not of the %s (is this the right port?)",
             client->protocol->name);
    return client_refuse_as(client, why);
}

static void on_up(void *owner)
{
    struct client *client = owner;
    client->was_up = true;
    if (client->on_up)
        client->on_up(client->owner);
    else
        loop_end(client->link.loop, STATUS_OK);
}

static size_t take(void *owner, struct bytes data)
{
    struct client *client = owner;
    bool is_of_use = client->count > 0 || client->on_notice;
    size_t used = is_of_use ? client->protocol->take(client, data) : data.len;
    if (client->link.state != LINK_UP)
        return used;
    if (used > 0)
        timer_clear(client->link.loop, &client->whole);
    else if (!timer_is_set(&client->whole))
        timer_set(client->link.loop, &client->whole,
                  clock_mono_ns() + client->link.options->io_timeout_ns);
    return used;
}

static void on_end(void *owner)
{
    end(owner, STATUS_UNAVAILABLE);
}

/* The oldest request has timed out. */
static void on_due(void *owner)
{
    struct client *client = owner;
    snprintf(client->link.reason, sizeof client->link.reason, "no answer in time (--io-timeout)");
    end(client, STATUS_UNAVAILABLE);
}

/* A message has begun, and does not end. */
static void on_not_whole(void *owner)
{
    struct client *client = owner;
    snprintf(client->link.reason, sizeof client->link.reason,
             "its answer has begun, and was not whole in time (--io-timeout)");
    end(client, STATUS_UNAVAILABLE);
}

enum status client_begin(struct client *client, const struct protocol *protocol, struct loop *loop,
                         const struct options *options)
{
    static const struct link_calls calls = {.on_up = on_up, .take = take, .on_end = on_end};
    struct address address;
    *client = (struct client){.link = {.calls = &calls, .owner = client},
                              .protocol = protocol,
                              .timer = {.on_due = on_due, .owner = client},
                              .whole = {.on_due = on_not_whole, .owner = client}};
    if (!client_address(options, &address))
        return STATUS_USAGE;
    if (address.is_unix && options->tls) {
        complain("--tls: a unix socket has no TLS; leave --tls out");
        return STATUS_USAGE;
    }
    link_open(&client->link, loop, &address, options, protocol->port);
    return STATUS_OK;
}

enum status client_open(struct client *client, const struct protocol *protocol, struct loop *loop,
                        const struct options *options)
{
    enum status status = client_begin(client, protocol, loop, options);
    return status == STATUS_OK ? client_wait(client) : status;
}

void client_close(struct client *client)
{
    if (client->link.loop) {
        timer_clear(client->link.loop, &client->timer);
        timer_clear(client->link.loop, &client->whole);
    }
    link_close(&client->link);
    free(client->asks);
    client->asks = NULL;
    client->count = client->room = 0;
}

/* An on_end callback for a caller that waits for the end. */
static void finished(void *owner, enum status status)
{
    struct client *client = owner;
    (void)status;
    loop_end(client->link.loop, STATUS_OK);
}

void client_finish(struct client *client)
{
    if (client->link.state == LINK_UP) {
        timer_clear(client->link.loop, &client->timer);
        timer_clear(client->link.loop, &client->whole);
        client->on_end = finished;
        client->owner = client;
        link_finish(&client->link);
        loop_run(client->link.loop);
    }
    client_close(client);
}

void *client_expect(struct client *client, void *answer, size_t size)
{
    client->answer = answer;
    client->answer_size = size;
    return client;
}

bool client_keep(void *owner, const void *answer)
{
    const struct client *client = owner;
    memcpy(client->answer, answer, client->answer_size);
    loop_end(client->link.loop, STATUS_OK);
    return true;
}

enum status client_wait(struct client *client)
{
    int status = loop_run(client->link.loop);
    if (status != STATUS_OK)
        client_close(client);
    return (enum status)status;
}

/* ---- requests ---------------------------------------------------------------------------- */

/* Sets the timer for the next part of the oldest request's answer. */
static void time_first(struct client *client)
{
    if (client->count > 0 && client->asks[0].timeout_ns != SECONDS_NONE)
        timer_set(client->link.loop, &client->timer, client->asks[0].due_ns);
    else
        timer_clear(client->link.loop, &client->timer);
}

void client_ask(struct client *client, struct ask ask, const void *request, size_t len)
{
    if (client->count == client->room) {
        client->room = client->room ? 2 * client->room : 4;
        client->asks = reallocarray(client->asks, client->room, sizeof *client->asks);
        if (!client->asks)
            out_of_memory();
    }
    ask.due_ns = clock_mono_ns() + ask.timeout_ns;
    client->asks[client->count++] = ask;
    time_first(client);
    link_send(&client->link, request, len);
}

void client_answer(struct client *client, const void *answer)
{
    struct ask *first = client->asks;
    if (++first->parts > client->protocol->parts_max) {
        (void)client_refuse_as(client, "its answer does not end");
        return;
    }
    bool is_last = first->on_answer(first->owner, answer);
    if (client->count == 0) /* a callback has closed the client */
        return;
    if (is_last)
        memmove(client->asks, client->asks + 1, --client->count * sizeof *client->asks);
    first = client->asks; /* a callback may have moved them */
    if (!is_last && first->timeout_ns == SECONDS_NONE)
        first->timeout_ns = client->link.options->io_timeout_ns;
    if (client->count > 0)
        first->due_ns = clock_mono_ns() + first->timeout_ns;
    time_first(client);
}
