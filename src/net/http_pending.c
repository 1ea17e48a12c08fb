/*
 * http_pending.c - answers that another thread gives by message; see http_pend in http.h.
 *
 * A pending answer (http_pend) has a tag, which the message with the answer names: its place, and a
 * serial number that is used once. Messages go through a box that lives as long as the server and
 * every pending answer. The box's lock covers only its list and the flag that it is open.
 */
#include "net/http_internal.h"

#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

void http_end_pending(struct http_request *client)
{
    if (client->tag == 0)
        return;
    client->tag = 0;
    client->http->pending--;
}

struct http_box *http_box_new(int bell_fd)
{
    struct http_box *box = calloc(1, sizeof(*box));
    if (!box)
        return NULL;
    CHECK(pthread_mutex_init(&box->lock, NULL) == 0);
    mail_list_init(&box->messages);
    box->users = 1;
    box->bell_fd = bell_fd;
    return box;
}

static void box_lock(struct http_box *box)
{
    CHECK(pthread_mutex_lock(&box->lock) == 0);
}

static void box_unlock(struct http_box *box)
{
    CHECK(pthread_mutex_unlock(&box->lock) == 0);
}

void http_box_leave(struct http_box *box)
{
    box_lock(box);
    bool last = --box->users == 0;
    box_unlock(box);
    if (!last)
        return;
    CHECK(pthread_mutex_destroy(&box->lock) == 0);
    free(box);
}

void http_box_set_open(struct http_box *box, bool open)
{
    box_lock(box);
    box->open = open;
    box_unlock(box);
}

bool http_has_answer(const struct http_request *client)
{
    return client->phase != HANDLING || client->step || client->tag != 0;
}

void http_deliver_messages(struct http *http)
{
    struct mail_list messages;
    struct mail *mail;
    mail_list_init(&messages);
    box_lock(http->box);
    while ((mail = mail_list_take(&http->box->messages)) != NULL)
        mail_list_add(&messages, mail);
    box_unlock(http->box);
    while ((mail = mail_list_take(&messages)) != NULL) {
        http->delivered_to = NULL;
        mail->deliver(mail, http);
        CHECK(!http->delivered_to || http_has_answer(http->delivered_to));
    }
}

void http_refuse_at_end(struct http_request *request)
{
    http_error(request, 503, "the server ends or is being upgraded: ask again");
}

struct http_pending *http_pend(struct http_request *request, int64_t limit_ns)
{
    struct http *http = request->http;
    CHECK(request->phase == HANDLING && !request->step && request->tag == 0);
    CHECK(limit_ns >= NS_PER_S);
    if (http->ending) {
        http_refuse_at_end(request);
        return NULL;
    }
    if (http->pending == HTTP_PENDING_MAX) {
        http_error(request, 503, "%d requests wait for an answer already: ask again later",
                   HTTP_PENDING_MAX);
        http->met[HTTP_LIMIT_PENDING]++;
        return NULL;
    }
    struct http_pending *pending = malloc(sizeof(*pending));
    if (!pending) {
        http_answer(request, 503, "application/json", NULL, 0);
        return NULL;
    }
    request->tag = ++http->serial * HTTP_CONNECTIONS_MAX + (uint64_t)(request - http->clients);
    request->until_ns = clock_mono_ns() + limit_ns;
    http->pending++;
    *pending = (struct http_pending){.box = http->box, .tag = request->tag};
    box_lock(http->box);
    http->box->users++;
    box_unlock(http->box);
    return pending;
}

bool http_post(struct http_pending **pending, struct message *message)
{
    struct http_box *box = (*pending)->box;
    message->to = (*pending)->tag;
    free(*pending);
    *pending = NULL;
    box_lock(box);
    bool open = box->open;
    if (open) {
        uint64_t one = 1;
        bool first = !box->messages.first;
        mail_list_add(&box->messages, &message->mail);
        CHECK(!first || write(box->bell_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    }
    box_unlock(box);
    http_box_leave(box);
    return open;
}

struct http_request *http_by_tag(struct http *http, uint64_t tag)
{
    struct http_request *client = &http->clients[tag % HTTP_CONNECTIONS_MAX];
    if (client->tag != tag)
        return NULL;
    if (http_has_left(client)) {
        http_drop(client);
        return NULL;
    }
    http_end_pending(client);
    http->delivered_to = client;
    return client;
}

void http_look_at_pending(struct http *http)
{
    int64_t now_ns = clock_mono_ns();
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX && http->pending > 0; i++) {
        struct http_request *client = &http->clients[i];
        if (client->tag == 0)
            continue;
        if (http_has_left(client)) {
            http_drop(client);
        } else if (now_ns >= client->until_ns) {
            http_error(client, 504, "no answer came in time: ask again later");
            http->met[HTTP_LIMIT_ANSWER]++;
        }
    }
}

void http_refuse_pending(struct http *http)
{
    http->ending = true;
    http_box_set_open(http->box, false);
    bool any = http->pending > 0;
    http_deliver_messages(http);
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX && http->pending > 0; i++) {
        if (http->clients[i].tag != 0)
            http_refuse_at_end(&http->clients[i]);
    }
    if (any)
        event_base_loop(http->base, EVLOOP_ONCE | EVLOOP_NONBLOCK); /* writes these answers */
    http->ending = false;
}
