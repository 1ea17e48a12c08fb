/*
 * node_messages.c - what comes by subscription: the confirmation, and the messages G, D and B of
 * this session. A message may come before the answer of the command that caused it.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_inside.h"

/* Takes the bytes up to the next space; false: there is none. */
static bool take_word(struct bytes *from, struct bytes *word_r)
{
    const uint8_t *space = from->len ? memchr(from->data, ' ', from->len) : NULL;
    if (!space)
        return false;
    *word_r = bytes_at(from->data, (size_t)(space - from->data));
    *from = bytes_at(space + 1, from->len - word_r->len - 1);
    return true;
}

static bool take_number(struct bytes *from, uint64_t *number_r)
{
    struct bytes word;
    return take_word(from, &word) && bytes_decimal(word, number_r);
}

/* G <id> <units> <name>: units for a wait. */
static bool on_granted(struct node *node, struct bytes rest)
{
    uint64_t id, units;
    if (!take_number(&rest, &id) || !take_number(&rest, &units) || units == 0 ||
        units > UINT32_MAX || rest.len == 0 || rest.len > UINT16_MAX)
        return false;
    struct node_ask *ask = node_ask_find(node, id);
    if (ask && (ask->op != NODE_ACQUIRE || !bytes_equal(ask->name, rest) || ask->units != units))
        return false;
    unsigned state = ask ? ASK_STATE(ask) : ASK_NEW;
    if (state == ASK_WAITING)
        ask_granted(node, ask);
    else if (state == ASK_SENT)
        ask->state |= ASK_EARLY;
    else
        node_give_back(node, rest, (uint32_t)units, id);
    return true;
}

/* D <seq> <name>: waits of ACQ4ANY up to seq are done. */
static bool on_done(struct node *node, struct bytes rest)
{
    uint64_t seq;
    if (!take_number(&rest, &seq) || seq == 0 || seq > NODE_SEQ_MAX || rest.len == 0)
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
    struct bytes word;
    if (!take_word(&payload, &word) || word.len != 1)
        return false;
    switch (word.data[0]) {
    case 'G':
        return on_granted(node, payload);
    case 'D':
        return on_done(node, payload);
    case 'B':
        return bytes_decimal(payload, &node->beat_heard);
    default:
        return false;
    }
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
