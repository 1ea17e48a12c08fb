/* client.c - see client.h. */
#include "lib/client.h"

#include "base/clock.h"

#include <ctype.h>
#include <stdlib.h>

/* ---- Opening and closing --------------------------------------------------------------------- */

counter_client *counter_open(const char *url, struct counter_error *error)
{
    struct counter_client *client = calloc(1, sizeof(*client));
    if (!client) {
        failure_no_memory(error);
        return NULL;
    }
    *client = (struct counter_client){.refs = 1, .error = COUNTER_ERROR};
    client->settings = settings_read(url, &client->error);
    if (!client->settings) {
        failure_give(error, &client->error);
        free(client);
        return NULL;
    }
    return client;
}

struct counter_client *client_hold(struct counter_client *client)
{
    client->refs++;
    return client;
}

static void drop_idle(struct counter_client *client)
{
    for (size_t i = 0; i < COUNTER_RAW; i++) {
        for (size_t k = 0; k < client->of[i].count; k++) {
            struct point *point = &client->of[i].points[k];
            for (struct wire *wire; (wire = point->idle);) {
                point->idle = wire->older;
                wire_drop(wire);
            }
        }
    }
}

void client_drop(struct counter_client *client)
{
    if (--client->refs > 0)
        return;
    for (size_t i = 0; i < COUNTER_RAW; i++)
        free(client->of[i].points);
    settings_drop(client->settings);
    free(client);
}

void counter_close(counter_client *client)
{
    if (!client)
        return;
    client->is_closed = true;
    drop_idle(client);
    client_drop(client);
}

void counter_forked(counter_client *client)
{
    client->forks++;
    settings_forked(client->settings);
    drop_idle(client);
}

int counter_resolve(counter_client *client)
{
    return settings_resolve(client->settings);
}

int counter_set_addresses(counter_client *client, size_t server,
                          const struct sockaddr_storage *addresses, size_t n)
{
    return settings_set_addresses(client->settings, server, addresses, n);
}

counter_link *counter_link_open(counter_client *client, enum counter_protocol protocol,
                                size_t server)
{
    return client->is_closed ? NULL : link_open(client->settings, protocol, server);
}

/* ---- Servers --------------------------------------------------------------------------------- */

struct point *client_points(struct counter_client *client, enum counter_protocol protocol,
                            size_t *count_r)
{
    struct point *points = client->of[protocol].points;
    size_t count = client->of[protocol].count;
    if (!points) {
        count = settings_servers(client->settings, protocol, &client->error);
        if (count == 0)
            return NULL;
        points = calloc(count, sizeof(*points));
        if (!points) {
            failure_no_memory(&client->error);
            return NULL;
        }
        for (size_t i = 0; i < count; i++)
            points[i] = (struct point){.client = client,
                                       .server = settings_server(client->settings, protocol, i),
                                       .protocol = protocol,
                                       .number = i};
        client->of[protocol].points = points;
        client->of[protocol].count = count;
    }
    *count_r = count;
    return points;
}

size_t *client_order(const struct point *points, size_t count, struct bytes name, int64_t now_ns)
{
    size_t n = 0, *all = calloc(2 * count, sizeof(*all));
    const char **texts = calloc(count, sizeof(*texts));
    for (size_t i = 0; texts && i < count; i++)
        texts[i] = points[i].server;
    if (!all || !texts ||
        counter_servers_for(counter_bytes_at(name.data, name.len), texts, count, all + count) !=
            COUNTER_OK) {
        free(all);
        all = NULL;
    }
    free(texts);
    for (int down = 0; all && down <= 1; down++) {
        for (size_t i = count; i < 2 * count; i++) {
            if ((now_ns < points[all[i]].down_until_ns) == down)
                all[n++] = all[i];
        }
    }
    return all;
}

void point_set_down(struct point *point)
{
    struct counter_client *client = point->client;
    bool was_down = point->down_until_ns != 0;
    point->down_until_ns = clock_mono_ns() + client->settings->down_ns;
    if (!was_down)
        client_tell(client, "down", point->server, NULL, 0, NULL, client->error.status);
}

void point_set_up(struct point *point)
{
    point->down_until_ns = 0;
    client_tell(point->client, "up", point->server, NULL, 0, NULL, COUNTER_OK);
}

/* ---- Connections ----------------------------------------------------------------------------- */

struct wire *wire_open(struct point *point)
{
    struct wire *wire = calloc(1, sizeof(*wire));
    if (!wire)
        return NULL;
    wire->point = point;
    wire->link = link_open(point->client->settings, point->protocol, point->number);
    if (wire->link)
        return wire;
    free(wire);
    return NULL;
}

void wire_drop(struct wire *wire)
{
    if (!wire)
        return;
    if (wire->was_up && !wire->link->is_abandoned)
        client_tell(wire->point->client, "disconnect", wire->point->server, NULL, 0, NULL,
                    COUNTER_OK);
    counter_link_free(wire->link);
    free(wire);
}

struct wire *wire_take(struct point *point)
{
    struct wire *wire;
    int64_t oldest_ns = point->idle ? clock_mono_ns() - point->client->settings->idle_ns : 0;
    while ((wire = point->idle)) {
        point->idle = wire->older;
        if (wire->since_ns >= oldest_ns && link_is_fresh(wire->link))
            break;
        wire_drop(wire);
    }
    return wire;
}

void wire_give(struct wire *wire)
{
    if (!wire)
        return;
    struct point *point = wire->point;
    const struct settings *settings = point->client->settings;
    if (point->client->is_closed || wire->is_partial || !link_is_idle(wire->link)) {
        wire_drop(wire);
        return;
    }
    int64_t now_ns = wire->since_ns = clock_mono_ns();
    wire->older = point->idle;
    point->idle = wire;
    struct wire **at = &point->idle;
    for (size_t i = 0; *at; i++) { /* the rest of the list, from the first that may not stay */
        if (i < settings->idle && now_ns - (*at)->since_ns <= settings->idle_ns) {
            at = &(*at)->older;
            continue;
        }
        struct wire *old = *at;
        *at = old->older;
        wire_drop(old);
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

void client_tell(struct counter_client *client, const char *kind, const char *server,
                 const struct bytes *name, int64_t since_ns, const char *result, int status)
{
    if (client->event_count == CLIENT_EVENTS) {
        client->event_first = (client->event_first + 1) % CLIENT_EVENTS;
        client->event_count--;
    }
    struct kept_event *event =
        &client->events[(client->event_first + client->event_count++) % CLIENT_EVENTS];
    event->kind = kind;
    event->server = server;
    event->result = result;
    event->status = status;
    event->seconds = since_ns == 0 ? -1 : (double)(clock_mono_ns() - since_ns) / (double)NS_PER_S;
    event->has_name = name != NULL;
    event->name_len = 0;
    if (name) {
        event->name_len =
            (uint8_t)(name->len < FAILURE_QUOTED_MAX ? name->len : FAILURE_QUOTED_MAX);
        memcpy(event->name, name->data, event->name_len);
    }
}

const struct counter_event *counter_next_event(counter_client *client)
{
    if (client->event_count == 0)
        return NULL;
    const struct kept_event *event = &client->events[client->event_first];
    client->event_first = (client->event_first + 1) % CLIENT_EVENTS;
    client->event_count--;
    const char *result = event->result;
    if (!result && event->status != COUNTER_OK) { /* the name of the error, in lower case */
        const char *name = counter_status_name(event->status);
        size_t len = strnlen(name, sizeof(client->shown_result) - 1);
        for (size_t i = 0; i < len; i++)
            client->shown_result[i] = (char)tolower((unsigned char)name[i]);
        client->shown_result[len] = '\0';
        result = client->shown_result;
    }
    failure_quote(client->shown_name, sizeof(client->shown_name),
                  bytes_at(event->name, event->name_len));
    client->shown = (struct counter_event){
        .size = sizeof(client->shown),
        .kind = event->kind,
        .server = event->server,
        .name = event->has_name ? client->shown_name : NULL,
        .seconds = event->seconds,
        .result = result,
        .status = event->status,
    };
    return &client->shown;
}
