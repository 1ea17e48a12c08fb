/*
 * node_sentinel.c - the majority of the Sentinels: which engine they name.
 *
 * All are asked in rounds: to find the engine, before each `open`, and for each `ready` and beat,
 * after it was sent. Only answers of the last round count. Wires stay open between rounds; one that
 * failed is opened again with the next round.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdio.h>
#include <stdlib.h>

static void request_one(struct node *node, unsigned i)
{
    struct sentinel *s = &node->sentinels[i];
    node_command(node, "SENTINEL", "get-master-addr-by-name", node->url->service, NULL);
    if (node_send_on(node, NODE_SENTINEL + i)) {
        s->rounds[s->asked] = node->round;
        s->sent_ns[s->asked++] = node->now_ns;
    }
}

/* A Sentinel that does not answer in time gets a new wire with the next round. */
static bool is_slow(const struct node *node, const struct sentinel *s)
{
    return s->asked == NODE_ROUNDS_MAX ||
           (s->asked && node->now_ns - s->sent_ns[0] >= node_answer_limit(node));
}

void node_round(struct node *node, enum round_purpose purpose)
{
    node->purpose = purpose;
    if (++node->round == 0)
        node->round = 1;
    for (unsigned i = 0; i < node->url->count; i++) {
        struct node_wire_state *w = &node->wires[NODE_SENTINEL + i];
        struct sentinel *s = &node->sentinels[i];
        s->voted = 0;
        if (w->open && is_slow(node, s)) {
            node_wire_close(node, NODE_SENTINEL + i);
            s->asked = 0;
        }
        if (w->open)
            request_one(node, i);
        if (!w->asked)
            node_wire_open(node, NODE_SENTINEL + i);
    }
}

void node_sentinel_opened(struct node *node, unsigned wire)
{
    node->sentinels[wire - NODE_SENTINEL].asked = 0;
    request_one(node, wire - NODE_SENTINEL);
}

void node_sentinel_closed(struct node *node, unsigned wire, const char *reason)
{
    struct sentinel *s = &node->sentinels[wire - NODE_SENTINEL];
    s->asked = 0;
    bytes_visible(bytes_of(reason), s->why, sizeof(s->why));
}

void node_sentinel_why(const struct node *node, char *why, size_t size)
{
    const struct url *url = node->url;
    unsigned i = 0;
    while (i < url->count && node->sentinels[i].voted == node->round)
        i++;
    int len = snprintf(why, size, "no majority of the Sentinels names one engine");
    if (i == url->count)
        return;
    /* The first that did not vote stands for all, so that the reason stays the same. */
    char host[URL_HOST_SIZE + 16];
    const char *what = node->sentinels[i].why[0] ? node->sentinels[i].why : "no answer";
    url_host_text(&url->hosts[i], host, sizeof(host));
    bool has_host = strncmp(what, host, strlen(host)) == 0;
    snprintf(why + len, size - (size_t)len, "; %s%s%s", has_host ? "" : host, has_host ? "" : ": ",
             what);
}

void node_sentinels_close(struct node *node)
{
    for (unsigned i = 0; i < NODE_SENTINELS_MAX; i++) {
        node_wire_close(node, NODE_SENTINEL + i);
        node->sentinels[i].asked = 0;
    }
    node->purpose = ROUND_NONE;
}

static bool same_host(const struct url_host *a, const struct url_host *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Does a majority name this engine in the present round? */
static bool has_majority(const struct node *node, const struct url_host *engine)
{
    unsigned votes = 0;
    for (unsigned i = 0; i < node->url->count; i++) {
        const struct sentinel *s = &node->sentinels[i];
        votes += s->voted == node->round && same_host(&s->vote, engine);
    }
    return votes > node->url->count / 2;
}

/* A majority names this engine. */
static void agreed(struct node *node, const struct url_host *engine)
{
    enum round_purpose purpose = node->purpose;
    bool awaited = purpose == ROUND_FIND ? node->phase == PHASE_FINDING
                   : purpose == ROUND_OPEN
                       ? node->phase == PHASE_MAJORITY
                       : node->phase == PHASE_READYING || node->phase == PHASE_LIVE;
    if (!awaited)
        return;
    node->purpose = ROUND_NONE;
    if (purpose == ROUND_FIND) {
        node->engine = *engine;
        node_connect_engine(node);
    } else if (!same_host(engine, &node->engine)) {
        node_lose(node, NODE_LOSS_SENTINEL, "the Sentinels name another engine");
    } else if (purpose == ROUND_OPEN) {
        node_send_open(node);
    } else {
        node_renew_agreed(node);
    }
}

/* Reads [host, port]; false: no vote. */
static bool read_vote(struct sentinel *s, const redisReply *reply)
{
    uint64_t port;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !reply_copy(reply->element[0], s->vote.host, sizeof(s->vote.host)) || !s->vote.host[0] ||
        !reply_decimal(reply->element[1], &port) || port == 0 || port > UINT16_MAX)
        return false;
    s->vote.port = (uint16_t)port;
    return true;
}

void node_on_sentinel(struct node *node, unsigned wire, const redisReply *reply)
{
    struct sentinel *s = &node->sentinels[wire - NODE_SENTINEL];
    if (!s->asked) {
        node_wire_close(node, wire);
        return;
    }
    uint32_t round = s->rounds[0];
    s->asked--;
    memmove(&s->rounds[0], &s->rounds[1], s->asked * sizeof(s->rounds[0]));
    memmove(&s->sent_ns[0], &s->sent_ns[1], s->asked * sizeof(s->sent_ns[0]));
    if (reply->type == REDIS_REPLY_ERROR)
        reply_error_text(reply, s->why, sizeof(s->why));
    else if (reply->type == REDIS_REPLY_NIL)
        snprintf(s->why, sizeof(s->why), "it does not know the service of cluster.engine");
    if (round != node->round || node->purpose == ROUND_NONE)
        return;
    if (read_vote(s, reply)) {
        s->voted = round;
        s->why[0] = '\0';
        if (has_majority(node, &s->vote))
            agreed(node, &s->vote);
    }
}
