/*
 * node_wrong.c - names with a key that another program has written. A queue of another type stops
 * no other name: the op that finds it is answered WRONGTYPE. Units change all the same.
 *
 * Until the key is right, acquisitions of the name are answered without the engine: strict ones are
 * refused, loose ones are left to the table, as when patience is over. Waits with a place keep it,
 * and are not asserted. Each beat tries the name; once that works, the node opens anew, which tells
 * the engine all.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdio.h>

bool node_is_wrong(const redisReply *reply)
{
    return reply_error_is(reply, "WRONGTYPE");
}

static void say(struct node *node)
{
    if (node->wrong_said_ns && node->now_ns - node->wrong_said_ns < NODE_SAY_AGAIN_NS)
        return;
    node->wrong_said_ns = node->now_ns;
    node_log(node, NODE_LOG_ERROR,
             "cluster: the engine's key %s is not what nodes write: another program has written "
             "it. Delete it. Until then acquisitions of its name are refused (strict), or admitted "
             "by this node alone (loose). Names with such a key: %llu",
             node->counts.wrong_key, (unsigned long long)node->counts.wrong_names);
}

static void answer_wrong(struct node *node, struct node_name *name)
{
    for (struct node_request *request = name->first, *next; request; request = next) {
        next = request->same_name;
        if (REQUEST_STATE(request) == REQUEST_TODO || REQUEST_STATE(request) == REQUEST_PLACED ||
            REQUEST_STATE(request) == REQUEST_WAITING)
            node_request_wrong(node, request);
    }
}

void node_answer_all_wrong(struct node *node)
{
    for (struct node_name *name = node->first_name; name; name = name->next)
        if (name->wrong)
            answer_wrong(node, name);
}

bool node_note_wrong(struct node *node, struct bytes name, const redisReply *reply)
{
    static const size_t word = sizeof("WRONGTYPE ") - 1;
    struct node_name *entry = node_name_get(node, name);
    if (!entry)
        return node_no_memory(node);
    if (!entry->wrong) {
        entry->wrong = true;
        node->counts.wrong_names++;
        struct bytes key =
            reply->len > word ? bytes_at(reply->str + word, reply->len - word) : bytes_of("?");
        bytes_visible(key, node->counts.wrong_key, sizeof(node->counts.wrong_key));
        answer_wrong(node, entry);
    }
    say(node);
    return true;
}

bool node_has_wrong(struct node *node, struct bytes name)
{
    if (!node->counts.wrong_names)
        return false;
    const struct node_name *entry = node_name_find(node, name);
    return entry && entry->wrong;
}

void node_request_wrong(struct node *node, struct node_request *request)
{
    if (request->cancelled)
        request_finish(node, request, NODE_CANCELLED);
    else if (!request->strict)
        request_finish(node, request, NODE_ALONE);
    else if (request->seq > 1)
        request_set(node, request, REQUEST_PLACED);
    else
        request_finish(node, request, NODE_ENGINE_AWAY);
}

void node_try_wrong(struct node *node)
{
    if (!node->counts.wrong_names || node->leaving)
        return;
    for (struct node_name *name = node->first_name; name; name = name->next)
        if (name->wrong)
            node_try(node, name);
    say(node);
}

static void forget(struct node *node, struct node_name *name)
{
    name->wrong = false;
    if (--node->counts.wrong_names == 0)
        node->wrong_said_ns = 0;
}

void node_wrong_over(struct node *node, struct node_name *name)
{
    forget(node, name);
    node_name_release(node, name);
    node_lose(node, NODE_LOSS_LEDGER,
              "a key of a shared name that another program had written is right again");
}

void node_forget_wrong(struct node *node)
{
    for (struct node_name *name = node->first_name, *next; name; name = next) {
        next = name->next;
        if (!name->wrong)
            continue;
        forget(node, name);
        node_name_release(node, name);
    }
}
