/*
 * node_stats.c - what people see of a node and of its peers, and what an upgrade carries.
 *
 * Threads: one uses a node.
 */
#include "base/record.h"
#include "cluster/node_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- words ----------------------------------------------------------------------------------- */

const char *node_state_word(enum node_state state)
{
    static const char *const words[] = {
        [NODE_AWAY] = "away",       [NODE_CONNECTING] = "connecting",
        [NODE_OPENING] = "opening", [NODE_REFUSED] = "refused",
        [NODE_LIVE] = "live",       [NODE_LEAVING] = "leaving"};
    return words[state];
}

const char *node_loss_word(enum node_loss loss)
{
    static const char *const words[] = {
#define ROW(name, word) [NODE_LOSS_##name] = (word),
        NODE_LOSSES(ROW)
#undef ROW
    };
    return words[loss];
}

static enum node_state state_of(const struct node *node)
{
    if (node->leaving)
        return NODE_LEAVING;
    if (node->phase == PHASE_LIVE)
        return NODE_LIVE;
    if (node->reasons_count && node->reasons[0].refuses && node->phase < PHASE_REPORTING)
        return NODE_REFUSED;
    if (node->phase <= PHASE_BACKOFF || node->phase == PHASE_LEFT)
        return NODE_AWAY;
    return node->phase < PHASE_HELD ? NODE_CONNECTING : NODE_OPENING;
}

/* ---- this node ------------------------------------------------------------------------------- */

static void engine_text(const struct node *node, char *to, size_t size)
{
    const struct url_host *host = node_is_sentinel(node) ? &node->engine : &node->url->hosts[0];
    if (host->host[0])
        url_host_text(host, to, size);
    else
        snprintf(to, size, "%s", node->url->path); /* empty, but of a unix socket */
}

void node_look(const struct node *node, struct node_stats *seen_r)
{
    *seen_r = node->counts;
    seen_r->state = state_of(node);
    snprintf(seen_r->session, sizeof(seen_r->session), "%s", node->session);
    snprintf(seen_r->term, sizeof(seen_r->term), "%s", node->term);
    engine_text(node, seen_r->engine, sizeof(seen_r->engine));
    seen_r->reasons_count = node->phase == PHASE_LIVE ? 0 : node->reasons_count;
    memcpy(seen_r->reasons, node->reasons, sizeof(seen_r->reasons));
    seen_r->stops_on_save = node->advised[NODE_ADVISED_SAVE] && node->advised[NODE_ADVISED_STOP];
    seen_r->grace = node->grace;
    seen_r->requests = node->todo.count + node->sent.count + node->waits.count;
    seen_r->waits = node->waits.count;
}

/* ---- peers ----------------------------------------------------------------------------------- */

void node_forget_peers(struct node *node)
{
    free(node->peers);
    node->peers = NULL;
    node->peers_count = 0;
}

/* Takes over what each beat since the last look has shown. */
static void take_beat(const struct node *node, struct node_peer *peer)
{
    for (size_t i = 0; i < node->watched_count; i++) {
        const struct watched *watched = &node->watched[i];
        if (strcmp(watched->session, peer->session) != 0)
            continue;
        peer->beat = watched->beat;
        peer->heard_ns = watched->since_ns;
    }
}

const struct node_peer *node_peers(const struct node *node, size_t *count_r)
{
    for (size_t i = 0; i < node->peers_count; i++)
        take_beat(node, &node->peers[i]);
    *count_r = node->peers_count;
    return node->peers;
}

static uint64_t number_or_0(const redisReply *reply)
{
    uint64_t number;
    return reply_decimal(reply, &number) ? number : 0;
}

/* S, node, state, beat, digest, names with units, names with waits, units, lease, reaped. */
static bool read_peer(const struct node *node, const redisReply *row, struct node_peer *peer)
{
    *peer = (struct node_peer){0};
    if (row->type != REDIS_REPLY_ARRAY || row->elements < 8 ||
        !reply_copy(row->element[0], peer->session, sizeof(peer->session)))
        return false;
    /* What another program wrote may not fit: then it is not shown. */
    if (!reply_copy(row->element[1], peer->node, sizeof(peer->node)))
        peer->node[0] = '\0';
    if (!reply_copy(row->element[2], peer->state, sizeof(peer->state)))
        peer->state[0] = '\0';
    if (!reply_copy(row->element[4], peer->digest, sizeof(peer->digest)))
        peer->digest[0] = '\0';
    peer->beat = number_or_0(row->element[3]);
    peer->names = number_or_0(row->element[5]);
    peer->waits = number_or_0(row->element[6]);
    if (!reply_decimal(row->element[7], &peer->units))
        peer->units = UINT64_MAX; /* not known */
    take_beat(node, peer);
    return true;
}

/* Names in the log the nodes whose patterns are others, once. */
static void compare_patterns(struct node *node)
{
    const char *own = patterns_digest(node->patterns);
    char names[sizeof(node->patterns_differ)] = "";
    size_t len = 0;
    for (size_t i = 0; i < node->peers_count; i++) {
        const struct node_peer *peer = &node->peers[i];
        if (strcmp(peer->state, "live") != 0 || !peer->digest[0] || strcmp(peer->digest, own) == 0)
            continue;
        if (len + strlen(peer->node) + 3 > sizeof(names))
            break;
        len +=
            (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", len ? ", " : "", peer->node);
    }
    if (len && strcmp(names, node->patterns_differ) != 0)
        node_log(
            node, NODE_LOG_WARNING,
            "cluster: these nodes have other patterns in cluster.strict and cluster.loose: %s; set "
            "the same on all nodes",
            names);
    memcpy(node->patterns_differ, names, sizeof(names));
}

bool node_on_look(struct node *node, const redisReply *reply)
{
    size_t count = reply->elements < NODE_SESSIONS_MAX ? reply->elements : NODE_SESSIONS_MAX;
    struct node_peer *peers =
        reply->type == REDIS_REPLY_ARRAY && reply->elements <= NODE_ELEMENTS_MAX
            ? calloc(count + 1, sizeof(*peers))
            : NULL;
    if (!peers)
        return false;
    node_forget_peers(node);
    node->peers = peers;
    for (size_t i = 0; i < count; i++)
        if (read_peer(node, reply->element[i], &peers[node->peers_count]))
            node->peers_count++;
    compare_patterns(node);
    return true;
}

/* ---- upgrades -------------------------------------------------------------------------------- */

#define LONG_AGO_NS INT64_C(1)

/*
 * As values of the caller's section: last, the session that `open` accepted last, term (each as
 * bytes), the lease's end (long ago if strict holders are not closed yet: the next process closes
 * them before it opens), seq, since when there is no engine (-1: there was one until now).
 */
void node_save(const struct node *node, struct record_writer *w)
{
    record_put_text(w, node->last);
    record_put_text(w, node->opened);
    record_put_text(w, node->term);
    record_put_i64(w, node->strict_closing ? LONG_AGO_NS : node->lease_end_ns);
    record_put_u64(w, node->seq);
    record_put_i64(w, node->lost_known ? node->lost_ns : -1);
}

static void get_text(struct record_reader *r, char *to, size_t size)
{
    record_get_text(r, to, size, "a text of the cluster is too long");
}

bool node_restore(struct node *node, struct record_reader *r)
{
    get_text(r, node->last, sizeof(node->last));
    get_text(r, node->opened, sizeof(node->opened));
    get_text(r, node->term, sizeof(node->term));
    node->lease_end_ns = record_get_i64(r);
    node->seq = record_get_u64(r);
    node->lost_ns = record_get_i64(r);
    node->lost_known = node->lost_ns >= 0;
    if (!record_ok(r))
        return false;
    node->strict_held = node->last[0] != '\0';
    struct ended item = {.beat = ENDED_KNOWN, .confirmed = true};
    memcpy(item.session, node->opened, sizeof(item.session));
    return !item.session[0] || ended_add(&node->over, &item);
}
