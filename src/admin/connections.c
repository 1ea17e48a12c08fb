/* connections.c - the list of all connections, and the ending of one. */
#include "admin/client.h"
#include "base/log.h"
#include "base/number.h"
#include "net/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT   100
#define CONNECTIONS_MAX 1000

void client_describe(struct conn *conn, struct conn_info *info_r, unsigned *looks_r)
{
    conn_describe(conn, info_r);
    *looks_r += 1 + (unsigned)((info_r->holds + info_r->waits) / 4);
}

void client_add(struct json_text *to, const struct conn_info *info)
{
    char tag[CONN_TAG_TEXT];
    conn_tag_text(info->tag, tag);
    json_words(to, "connection", tag);
    json_words(to, "protocol", info->protocol->row->name);
    json_words(to, "client", info->peer);
    json_words(to, "transport", transport_word(info->transport));
}

/* ---- the list -------------------------------------------------------------------------------- */

struct connections_job {
    struct admin *admin;
    const struct protocol *protocol; /* NULL: of all */
    unsigned worker;                 /* where to go on: the worker, */
    uint32_t slot;                   /* and its slot */
    size_t limit, count;
    struct conn_info found[];
};

/* Looks at the next slots of a worker; in its thread. */
static void look(struct worker *worker, void *arg)
{
    struct connections_job *job = arg;
    uint32_t slots = worker_slots(worker);
    for (unsigned looks = 0;
         looks < CLIENT_PIECE && job->slot < slots && job->count < job->limit;) {
        struct conn *conn = worker_conn_at(worker, job->slot++);
        if (conn && (!job->protocol || conn_protocol(conn) == job->protocol))
            client_describe(conn, &job->found[job->count++], &looks);
        else
            looks++;
    }
    if (job->slot >= slots) {
        job->worker++;
        job->slot = 0;
    }
}

static void add_connection(struct json_text *to, const struct conn_info *info, int64_t now_ns)
{
    json_text_open(to, NULL, '{');
    client_add(to, info);
    json_decimal(to, "opened", clock_unix_of(info->opened_ns));
    json_decimal(to, "age_seconds",
                 now_ns > info->opened_ns ? clock_seconds(now_ns - info->opened_ns) : 0);
    json_text_number(to, "queued_bytes", info->queued);
    json_text_number(to, "holds", info->holds);
    json_text_number(to, "waits", info->waits);
    json_text_close(to, '}');
}

static void take_piece(void *arg, struct http_request *request)
{
    struct connections_job *job = arg;
    const struct server *server = job->admin->config.server;
    if (job->worker < server->count)
        worker_ask(server->workers[job->worker], look, job);
    bool over = job->worker >= server->count;
    if (!over && job->count < job->limit)
        return;
    struct json_text json = json_text_begin();
    char cursor[32];
    int64_t now_ns = clock_mono_ns();
    snprintf(cursor, sizeof(cursor), "%u.%u", job->worker, job->slot);
    json_text_open(&json, "connections", '[');
    for (size_t i = 0; i < job->count; i++)
        add_connection(&json, &job->found[i], now_ns);
    json_text_close(&json, ']');
    json_words(&json, "cursor", over ? NULL : cursor);
    http_answer_json(request, 200, &json);
}

/* Reads where to go on. False: that is no cursor of ours. */
static bool read_cursor(struct bytes in, struct connections_job *job)
{
    const struct server *server = job->admin->config.server;
    uint64_t worker, slot;
    if (!number_take(&in, server->count - 1, &worker) || !bytes_take_text(&in, ".") ||
        !number_parse(in, UINT32_MAX, &slot))
        return false;
    job->worker = (unsigned)worker;
    job->slot = (uint32_t)slot;
    return true;
}

void get_connections(const struct route_request *r)
{
    enum { PROTOCOL, LIMIT, CURSOR };
    static const char *const names[] = {"protocol", "limit", "cursor", NULL};
    const struct services *services = r->services;
    const char *protocols[SERVICES_MAX + 1] = {NULL};
    for (unsigned i = 0; i < services_count(services); i++)
        protocols[i] = service_name(services_at(services, i));
    struct query query;
    unsigned limit = LIMIT_DEFAULT, protocol = SERVICES_MAX;
    if (!query_read(&query, r->http, names) ||
        !query_word(&query, PROTOCOL, protocols, &protocol) ||
        !query_number(&query, LIMIT, 1, CONNECTIONS_MAX, &limit))
        return;
    struct connections_job *job = route_alloc(r, sizeof(*job) + limit * sizeof(job->found[0]));
    if (!job)
        return;
    job->admin = r->admin;
    job->limit = limit;
    if (protocol < SERVICES_MAX)
        job->protocol = &services_at(services, protocol)->protocol;
    struct bytes cursor = query.values[CURSOR];
    bool good = query_cursor(&query, CURSOR, !cursor.data || read_cursor(cursor, job));
    route_steps(r, good, take_piece, free, job);
}

/* ---- ending one ------------------------------------------------------------------------------ */

struct killing {
    uint64_t tag;
    bool done;
    struct conn_info info;
};

static void kill_there(struct worker *worker, void *arg)
{
    struct killing *killing = arg;
    struct conn *conn = conn_find(worker, killing->tag);
    if (!conn)
        return;
    conn_describe(conn, &killing->info);
    conn_close(conn, CLOSE_KILLED);
    killing->done = true;
}

void kill_connection(const struct route_request *r)
{
    const struct server *server = r->admin->config.server;
    char text[CONN_TAG_TEXT];
    struct killing killing = {0};
    if (!query_none(r->http))
        return;
    snprintf(text, sizeof(text), "%.*s", (int)r->slug.len, (const char *)r->slug.data);
    if (r->slug.len >= sizeof(text) || !conn_tag_parse(text, &killing.tag)) {
        http_error(r->http, 400,
                   "\"%.*s\" names no connection: \"0.12.3\" would (worker, place, generation), as "
                   "/api/v1/connections shows it",
                   r->slug.len < 40 ? (int)r->slug.len : 40, (const char *)r->slug.data);
        return;
    }
    if (conn_tag_worker(killing.tag) < server->count)
        worker_ask(server->workers[conn_tag_worker(killing.tag)], kill_there, &killing);
    if (!killing.done) {
        http_error(r->http, 404, "there is no connection %s (any more)", text);
        return;
    }
    log_info("admin: %s has ended connection %s of %s (%s)", http_peer(r->http), text,
             killing.info.peer, killing.info.protocol->row->name);
    struct json_text json = json_text_begin();
    json_words(&json, "killed", text);
    http_answer_json(r->http, 200, &json);
}
