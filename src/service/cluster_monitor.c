/*
 * cluster_monitor.c - what people see of the cluster: metrics, statistics, and GET /api/v1/cluster.
 *
 * Most comes from the snapshot that the cluster's thread makes. The holders of a name on all nodes
 * are asked of the engine, by a request that answers an HTTP request.
 */
#include "base/number.h"
#include "net/query.h"
#include "service/cluster.h"
#include "service/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A question to the engine is answered within this time, or its client gets a 504. */
#define REQUEST_LIMIT_NS (10 * NS_PER_S)

static const char *const result_words[] = {
    [NODE_GRANTED] = "granted",
    [NODE_DONE] = "done",
    [NODE_BUSY] = "busy",
    [NODE_QUEUE_FULL] = "queue_full",
    [NODE_RELEASED] = "released",
    [NODE_COUNTED] = "counted",
    [NODE_CANCELLED] = "cancelled",
    [NODE_ALONE] = "alone",
    [NODE_ENGINE_AWAY] = "engine_away",
    [NODE_ENGINE_FULL] = "engine_full",
    [NODE_NO_MEMORY] = "no_memory",
};

/* ---- metrics --------------------------------------------------------------------------------- */

struct reading {
    struct node_stats node;
    bool on, is[NODE_LEAVING + 1]; /* is: in this state */
    uint64_t nodes;
    int64_t lease_left_ns;
    uint64_t requests[ARRAY_SIZE(result_words)];
    uint64_t lease_lost;
};

static void read_cluster(struct services *services, struct moment now, void *to)
{
    struct cluster *c = cluster_of(services);
    struct reading *reading = to;
    *reading = (struct reading){.on = c != NULL};
    if (!c)
        return;
    lock_acquire(&c->lock);
    reading->node = c->snapshot.node;
    reading->nodes = c->snapshot.peer_count;
    lock_release(&c->lock);
    reading->is[reading->node.state] = true;
    int64_t end_ns = atomic_load_explicit(&c->lease_end_ns, memory_order_relaxed);
    reading->lease_left_ns = end_ns > now.mono_ns ? end_ns - now.mono_ns : 0;
    for (unsigned i = 0; i < services->server->count; i++) {
        for (unsigned n = 0; n < ARRAY_SIZE(reading->requests); n++)
            reading->requests[n] += tally_get(&c->views[i].requests[n]);
        reading->lease_lost += tally_get(&c->views[i].lease_lost);
    }
}

static const char *result_word(unsigned result)
{
    return result_words[result];
}

#define OF(member) METRIC_OF(struct reading, member), .when = offsetof(struct reading, on)
#define BY(member, word)                                                                           \
    METRIC_BY(struct reading, member, word), .when = offsetof(struct reading, on)

static const struct metric_row metrics[] = {
    {"counterd_cluster_live", METRIC_GAUGE, "1: the engine has this node's session.", "", 1,
     OF(is[NODE_LIVE])},
    {"counterd_cluster_state", METRIC_GAUGE, "1 for the state that the node is in.", "state",
     NODE_LEAVING + 1, BY(is, node_state_word)},
    {"counterd_cluster_grace", METRIC_GAUGE,
     "1: nothing strict is granted, because the engine has begun anew.", "", 1, OF(node.grace)},
    {"counterd_cluster_lease_left_seconds", METRIC_GAUGE,
     "How long strict names may still be granted without an answer of the engine.", "", 1,
     .kind = METRIC_IS_NS, OF(lease_left_ns)},
    {"counterd_cluster_nodes", METRIC_GAUGE,
     "Sessions of all nodes that the engine knew when this node looked last.", "", 1, OF(nodes)},
    {"counterd_cluster_asks", METRIC_GAUGE, "Requests that the node has.", "", 1,
     OF(node.requests)},
    {"counterd_cluster_waits", METRIC_GAUGE, "Of these, those that wait for units.", "", 1,
     OF(node.waits)},
    {"counterd_cluster_answers_total", METRIC_COUNTER,
     "Requests for shared names that were answered, by result.", "result", ARRAY_SIZE(result_words),
     BY(requests, result_word)},
    {"counterd_cluster_beats_total", METRIC_COUNTER, "Beats that the engine has confirmed.", "", 1,
     OF(node.beats)},
    {"counterd_cluster_calls_total", METRIC_COUNTER, "Calls of the engine with requests.", "", 1,
     OF(node.calls)},
    {"counterd_cluster_ops_total", METRIC_COUNTER, "Requests in these calls.", "", 1, OF(node.ops)},
    {"counterd_cluster_round_trip_seconds_total", METRIC_COUNTER,
     "Sum of the times that the engine took to answer calls.", "", 1, .kind = METRIC_IS_NS,
     OF(node.round_trip_ns)},
    {"counterd_cluster_losses_total", METRIC_COUNTER,
     "Times that the engine or the session was lost, by why.", "why", NODE_LOSS_COUNT,
     BY(node.losses, node_loss_word)},
    {"counterd_cluster_asserted_total", METRIC_COUNTER,
     "Names and waits that were told to an engine again.", "", 1, OF(node.asserted)},
    {"counterd_cluster_reaped_total", METRIC_COUNTER,
     "Sessions of nodes that had gone whose units were freed by this node.", "", 1,
     OF(node.reaped)},
    {"counterd_cluster_leases_lost_total", METRIC_COUNTER, "Leases that were not renewed in time.",
     "", 1, OF(node.leases_lost)},
    {"counterd_cluster_closed_total", METRIC_COUNTER,
     "Connections that were closed because of that.", "", 1, OF(lease_lost)},
    {0},
};

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_string(struct json_text *to, const char *key, const char *text)
{
    json_text_string(to, key, bytes_of(text));
}

/* What one answer shows: copies, so that no lock is held while it is written. */
struct view {
    const struct cluster *cluster; /* what of it is constant */
    struct moment now;
    struct reading reading;
    struct node_peer *peers; /* the caller frees them, and the patterns */
    size_t peer_count;
    struct patterns *patterns;
    int64_t patience_ns;
};

/* A beat renews nine tenths of a lease. */
static int64_t since_beat_ns(const struct view *view)
{
    int64_t left_ns = view->reading.lease_left_ns;
    return left_ns > 0 ? view->cluster->settings->lease_ns / 10 * 9 - left_ns : -1;
}

static double in_seconds(int64_t ns)
{
    return ns < 0 ? -1 : (double)ns / (double)NS_PER_S;
}

static bool has_other_patterns(const struct view *view, const struct node_peer *peer)
{
    return *peer->digest && strcmp(peer->digest, patterns_digest(view->patterns)) != 0;
}

/* What is set in a way that is not best. */
static void put_advice(struct json_text *to, const struct view *view)
{
    const struct url *url = &view->cluster->url;
    char line[320];
    json_text_open(to, "advice", '[');
    if (url->kind == URL_SENTINEL && url->count % 2 == 0)
        put_string(to, NULL,
                   "cluster.engine has an even number of Sentinels: use an odd one, all of them");
    if (view->reading.node.stops_on_save)
        put_string(
            to, NULL,
            "the engine saves snapshots, and takes no writes when one fails: set 'save \"\"' or "
            "'stop-writes-on-bgsave-error no' there");
    if (view->reading.node.wrong_names) {
        snprintf(line, sizeof(line),
                 "the engine's key %s is not what nodes write: delete it (names with such a key: "
                 "%llu)",
                 view->reading.node.wrong_key, (unsigned long long)view->reading.node.wrong_names);
        put_string(to, NULL, line);
    }
    for (size_t i = 0; i < view->peer_count; i++) {
        const struct node_peer *peer = &view->peers[i];
        if (strcmp(peer->state, "ended") == 0 || !has_other_patterns(view, peer))
            continue;
        snprintf(line, sizeof(line),
                 "node %s has other patterns: set cluster.strict and cluster.loose to the same on "
                 "all nodes",
                 peer->node);
        put_string(to, NULL, line);
    }
    json_text_close(to, ']');
}

static void put_counts(struct json_text *to, const struct reading *reading)
{
    const struct node_stats *node = &reading->node;
    json_text_number(to, "requests", node->requests);
    json_text_number(to, "waits", node->waits);
    json_text_number(to, "beats", node->beats);
    json_text_number(to, "calls", node->calls);
    json_text_number(to, "ops", node->ops);
    json_text_real(to, "round_trip",
                   node->round_trips > 0
                       ? (double)node->round_trip_ns / (double)node->round_trips / (double)NS_PER_S
                       : 0);
    json_text_number(to, "asserted", node->asserted);
    json_text_number(to, "reaped", node->reaped);
    json_text_number(to, "leases_lost", node->leases_lost);
    json_text_number(to, "connections_closed", reading->lease_lost);
    json_text_open(to, "reconnects", '{');
    for (enum node_loss i = 0; i < NODE_LOSS_COUNT; i++)
        json_text_number(to, node_loss_word(i), node->losses[i]);
    json_text_close(to, '}');
}

static void put_peer(struct json_text *to, const struct view *view, const struct node_peer *peer)
{
    bool is_this =
        strcmp(peer->node, view->cluster->node_name) == 0 && strcmp(peer->state, "ended") != 0;
    int64_t age_ns = is_this              ? since_beat_ns(view)
                     : peer->heard_ns > 0 ? view->now.mono_ns - peer->heard_ns
                                          : -1;
    json_text_open(to, NULL, '{');
    put_string(to, "node", peer->node);
    put_string(to, "session", peer->session);
    put_string(to, "state", peer->state);
    json_text_bool(to, "this", is_this);
    json_text_bool(to, "same_patterns", !has_other_patterns(view, peer));
    json_text_number(to, "beat", peer->beat);
    json_text_real(to, "beat_age", in_seconds(age_ns));
    json_text_number(to, "names", peer->names);
    json_text_number(to, "waits", peer->waits);
    json_text_real(to, "units", peer->units == UINT64_MAX ? -1 : (double)peer->units);
    json_text_close(to, '}');
}

/* False: no memory. */
static bool take_view(struct cluster *c, struct view *view_r)
{
    *view_r = (struct view){.cluster = c, .now = clock_now()};
    read_cluster(c->resource.services, view_r->now, &view_r->reading);
    lock_acquire(&c->lock);
    view_r->peer_count = c->snapshot.peer_count;
    view_r->peers = malloc((view_r->peer_count + 1) * sizeof(*view_r->peers));
    if (view_r->peers && view_r->peer_count > 0)
        memcpy(view_r->peers, c->snapshot.peers, view_r->peer_count * sizeof(*view_r->peers));
    view_r->patterns = patterns_share(c->patterns);
    view_r->patience_ns = c->patience_ns;
    lock_release(&c->lock);
    return view_r->peers != NULL;
}

static void put_settings(struct json_text *to, const struct view *view)
{
    const struct cluster_settings *settings = view->cluster->settings;
    json_text_real(to, "lease", in_seconds(settings->lease_ns));
    json_text_real(to, "patience", in_seconds(view->patience_ns));
    put_string(to, "prefix", cluster_text(settings->prefix));
    json_text_readable(to, "strict", bytes_of(patterns_list(view->patterns, PATTERNS_STRICT)));
    json_text_readable(to, "loose", bytes_of(patterns_list(view->patterns, PATTERNS_LOOSE)));
}

static void put_reason(struct json_text *to, const struct view *view,
                       const struct node_reason *reason)
{
    put_string(to, "reason", reason->text);
    json_text_real(to, "reason_age",
                   reason->times ? in_seconds(view->now.mono_ns - reason->since_ns) : 0);
    json_text_number(to, "reason_times", reason->times);
}

static void put_reasons(struct json_text *to, const struct view *view)
{
    static const struct node_reason none = {0};
    const struct node_stats *node = &view->reading.node;
    const struct node_reason *now = node->reasons_count ? &node->reasons[0] : &none;
    put_string(to, "refused", node->state == NODE_REFUSED ? now->text : "");
    put_reason(to, view, now);
    json_text_open(to, "reasons_before", '[');
    for (unsigned i = 1; i < node->reasons_count; i++) {
        json_text_open(to, NULL, '{');
        put_reason(to, view, &node->reasons[i]);
        json_text_close(to, '}');
    }
    json_text_close(to, ']');
}

static void put_node(struct json_text *to, const struct view *view)
{
    const struct node_stats *node = &view->reading.node;
    put_string(to, "node", view->cluster->node_name);
    put_string(to, "state", node_state_word(node->state));
    put_string(to, "session", node->session);
    put_string(to, "term", node->term);
    put_string(to, "engine", node->engine);
    put_reasons(to, view);
    put_advice(to, view);
    json_text_bool(to, "grace", node->grace);
    json_text_real(to, "lease_left", in_seconds(view->reading.lease_left_ns));
    json_text_open(to, "nodes", '[');
    for (size_t i = 0; i < view->peer_count; i++)
        put_peer(to, view, &view->peers[i]);
    json_text_close(to, ']');
}

static void put_name(struct json_text *to, const struct node_request *request,
                     enum patterns_class class)
{
    static const char *const words[] = {
        [PATTERNS_OWN] = "own", [PATTERNS_STRICT] = "strict", [PATTERNS_LOOSE] = "loose"};
    json_text_open(to, "name", '{');
    json_text_readable(to, "name", request->name);
    put_string(to, "class", words[class]);
    json_text_open(to, "nodes", '[');
    for (size_t i = 0; i < request->share_count; i++) {
        json_text_open(to, NULL, '{');
        put_string(to, "node", request->shares[i].node);
        json_text_number(to, "units", request->shares[i].units);
        json_text_number(to, "waits", request->shares[i].waits);
        json_text_close(to, '}');
    }
    json_text_close(to, ']');
    json_text_number(to, "units", request->count_units);
    json_text_number(to, "waits", request->count_waits);
    json_text_close(to, '}');
}

/* Answers with the state, and with the holders of a name if `request` is not NULL. */
static void answer_state(struct services *services, struct http_request *http,
                         const struct node_request *request)
{
    struct json_text json = json_text_begin();
    struct view view;
    json_text_bool(&json, "enabled", true);
    bool taken = take_view(cluster_of(services), &view);
    if (taken) {
        put_settings(&json, &view);
        put_node(&json, &view);
        put_counts(&json, &view.reading);
        if (request)
            put_name(&json, request, patterns_class(view.patterns, request->name));
    }
    patterns_free(&view.patterns);
    free(view.peers);
    if (taken)
        http_answer_json(http, 200, &json);
    else
        http_error(http, 503, "no memory");
    text_free(&json.text);
}

/* ---- holders of a name ----------------------------------------------------------------------- */

/* A question for the holders of a name on all nodes. */
struct question {
    struct message message; /* first */
    struct http_pending *pending;
    struct arbiter_request request; /* last: its name is behind it */
};

static void free_question(struct question *question)
{
    free(question->request.request.shares);
    free(question);
}

static void answer_holders(const struct arbiter_request *request, struct http_request *http)
{
    if (request->request.result == NODE_COUNTED)
        answer_state(request->cluster->resource.services, http, &request->request);
    else
        http_error(http, 503,
                   "the engine is away, and it alone knows what each node has of the name");
}

/* The answer has come. In the server's thread. */
static void on_known(struct mail *mail, void *server)
{
    struct question *question = container_of(mail, struct question, message.mail);
    struct http_request *http = http_by_tag(server, question->message.to);
    if (http)
        answer_holders(&question->request, http);
    free_question(question);
}

/* The node has answered. In the cluster's thread. */
static void on_holders(struct cluster *c, struct arbiter_request *request)
{
    struct question *question = container_of(request, struct question, request);
    (void)c;
    question->message.mail.deliver = on_known;
    if (!http_post(&question->pending, &question->message))
        free_question(question);
}

static struct question *make_question(struct cluster *c, struct bytes name)
{
    struct question *question = calloc(1, sizeof(*question) + name.len);
    if (!question)
        return NULL;
    struct arbiter_request *request = &question->request;
    memcpy(request->name, name.data, name.len);
    request->cluster = c;
    request->answered = on_holders;
    request->request.op = NODE_HOLDERS;
    request->request.name = bytes_at(request->name, name.len);
    return question;
}

static void ask_holders(struct cluster *c, struct http_request *http, struct bytes name)
{
    lock_acquire(&c->lock);
    enum patterns_class class = patterns_class(c->patterns, name);
    lock_release(&c->lock);
    if (class == PATTERNS_OWN) {
        http_error(http, 404,
                   "the name is not shared: no pattern of cluster.strict or cluster.loose has it");
        return;
    }
    struct question *question = make_question(c, name);
    if (!question) {
        http_error(http, 503, "no memory");
        return;
    }
    question->pending = http_pend(http, REQUEST_LIMIT_NS);
    if (!question->pending)
        free_question(question);
    else
        cluster_ask(c, &question->request);
}

static void get_cluster(const struct route_request *r)
{
    static const char *const names[] = {"name", NULL};
    struct cluster *c = cluster_of(r->services);
    uint8_t name[HTTP_HEADERS_MAX];
    struct query query;
    size_t len = 0;
    if (!query_read(&query, r->http, names) || !query_bytes(&query, 0, name, &len))
        return;
    if (!c) {
        struct json_text json = json_text_begin();
        json_text_bool(&json, "enabled", false);
        http_answer_json(r->http, 200, &json);
    } else if (len > 0) {
        ask_holders(c, r->http, bytes_at(name, len));
    } else {
        answer_state(r->services, r->http, NULL);
    }
}

static void add_statistics(struct services *services, struct moment now, struct json_text *to)
{
    struct reading r;
    read_cluster(services, now, &r);
    json_text_bool(to, "enabled", r.on);
    put_string(to, "state", node_state_word(r.node.state));
    json_text_bool(to, "grace", r.node.grace);
    json_text_number(to, "asks", r.node.requests);
    json_text_number(to, "waits", r.node.waits);
    json_text_number(to, "calls", r.node.calls);
    json_text_number(to, "ops", r.node.ops);
    json_text_number(to, "closed", r.lease_lost);
}

static const struct route_row routes[] = {
    {HTTP_GET, "/api/v1/cluster", get_cluster, false},
    {0},
};

const struct monitor cluster_monitor = {
    .read = read_cluster,
    .reading_size = sizeof(struct reading),
    .metrics = metrics,
    .routes = routes,
    .statistics = add_statistics,
};
