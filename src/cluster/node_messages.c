/*
 * node_messages.c - what comes by subscription: the confirmation, and the messages G, D and B of
 * this session. A message may come before the answer of the command that caused it.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

/* Takes a number and the space behind it. */
static bool take_number(struct bytes *from, uint64_t max, uint64_t *number_r)
{
    return number_take(from, max, number_r) && bytes_take_text(from, " ");
}

/* G <id> <units> <name>: units for a wait. */
static bool on_granted(struct node *node, struct bytes rest)
{
    uint64_t id, units;
    if (!take_number(&rest, UINT64_MAX, &id) || !take_number(&rest, UINT32_MAX, &units) ||
        units == 0 || rest.len == 0 || rest.len > UINT16_MAX)
        return false;
    struct node_request *request = node_request_find(node, id);
    if (request && (request->op != NODE_ACQUIRE || !bytes_equal(request->name, rest) ||
                    request->units != units))
        return false;
    unsigned state = request ? REQUEST_STATE(request) : REQUEST_NEW;
    if (state == REQUEST_WAITING)
        request_granted(node, request);
    else if (state == REQUEST_SENT)
        request->state |= REQUEST_EARLY;
    else
        node_give_back(node, rest, (uint32_t)units, id);
    return true;
}

/* D <seq> <name>: waits of ACQ4ANY up to seq are done. */
static bool on_done(struct node *node, struct bytes rest)
{
    uint64_t seq;
    if (!take_number(&rest, NODE_SEQ_MAX, &seq) || seq == 0 || rest.len == 0)
        return false;
    if (seq > node->seq)
        node->seq = seq;
    struct node_name *name = node_name_find(node, rest);
    if (!name)
        return true;
    if (name->first && seq > name->done_seq)
        name->done_seq = seq;
    node_done(node, rest, seq);
    return true;
}

static bool on_payload(struct node *node, struct bytes payload)
{
    if (bytes_take_text(&payload, "G "))
        return on_granted(node, payload);
    if (bytes_take_text(&payload, "D "))
        return on_done(node, payload);
    return bytes_take_text(&payload, "B ") && number_parse(payload, UINT64_MAX, &node->beat_heard);
}

bool node_on_message(struct node *node, const redisReply *reply)
{
    struct bytes kind, payload;
    if (node->auth_awaited) {
        node->auth_awaited = false;
        return node_on_auth(node, reply);
    }
    if (reply->type == REDIS_REPLY_ERROR)
        return node_error_reply(node, reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        !reply_text(reply->element[0], &kind))
        return node_odd(node, "the subscription");
    if (bytes_equal(kind, bytes_of("subscribe")))
        return node_subscribed(node);
    return bytes_equal(kind, bytes_of("message")) && node_is_open(node) &&
           reply_text(reply->element[2], &payload) && on_payload(node, payload);
}
