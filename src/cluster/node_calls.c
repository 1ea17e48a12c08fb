/*
 * node_calls.c - requests go to the engine in calls: what arrives while a call is under way goes
 * together in the next. A second call is sent before the first is answered only when it is full.
 *
 * An op of a call points to its request, which is on `sent` until the answer, or to its name, which
 * has a pin (`tries_sent`). A call without acquisitions goes by `give`, which a full engine
 * accepts.
 *
 * Threads: one uses a node.
 */
#include "cluster/node_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- calls ----------------------------------------------------------------------------------- */

struct node_call *node_call_take(struct node *node)
{
    for (size_t i = 0; i < ARRAY_SIZE(node->calls); i++) {
        struct node_call *call = &node->calls[i];
        if (call->used)
            continue;
        call->used = true;
        call->again = false;
        call->count = 0;
        call->bytes = 0;
        node->calls_used++;
        return call;
    }
    CHECK(!"a free call");
    return NULL;
}

void node_call_free(struct node *node, struct node_call *call)
{
    call->used = false;
    node->calls_used--;
    node->ahead -= call->bytes;
}

static void op_unpin(struct node *node, const struct node_op_sent *op)
{
    if (op->kind == OP_TRY)
        op->name->tries_sent--;
    else if (op->kind == OP_UNITS || op->kind == OP_LESS)
        op->name->pins--;
    else
        return;
    node_name_release(node, op->name);
}

void node_calls_lost(struct node *node)
{
    for (size_t i = 0; i < ARRAY_SIZE(node->calls) && node->calls_used; i++) {
        struct node_call *call = &node->calls[i];
        if (!call->used)
            continue;
        for (unsigned op = 0; op < call->count; op++)
            op_unpin(node, &call->ops[op]);
        node_call_free(node, call);
    }
    while (node->tries) {
        struct node_name *name = node->tries;
        node->tries = name->try_next;
        name->try_queued = false;
        node_name_release(node, name);
    }
    node->last_try = NULL;
    node->tries_bytes = 0;
}

int64_t node_calls_since_ns(const struct node *node)
{
    int64_t since_ns = INT64_MAX;
    for (size_t i = 0; i < ARRAY_SIZE(node->calls); i++)
        if (node->calls[i].used && node->calls[i].sent_ns < since_ns)
            since_ns = node->calls[i].sent_ns;
    return since_ns;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* The bytes of an op without its name, at most: five arguments, the longest of which are a class
 * with a maxqueue, and an id. */
#define OP_BYTES 256u

/* Adds the class of a request (`ms1/5`), with the text `behind` it. */
static void add_class(struct command *c, const struct node_request *request, const char *behind)
{
    static const char kinds[] = {[NODE_WAIT_NO] = 'n', [NODE_WAIT_ANY] = 'a', [NODE_WAIT_ME] = 'm'};
    char *to = command_room(c);
    snprintf(to, sizeof(c->numbers[0]), "%c%c%u/%u%s", kinds[request->wait],
             request->strict ? 's' : 'l', request->units, request->limit, behind);
    command_str(c, to);
}

static void add_acquire(struct command *c, const struct node_request *request)
{
    char most[16];
    snprintf(most, sizeof(most), "/%u", request->state & REQUEST_ADMITTED ? 0 : request->queue_max);
    add_class(c, request, most);
    command_number(c, request->id);
}

bool node_op_fits(const struct node_call *call, const struct command *c, struct bytes name)
{
    return call->count < NODE_CALL_OPS && c->bytes + name.len + OP_BYTES <= NODE_CALL_BYTES;
}

void node_op_add(struct node_call *call, struct command *c, const struct node_op_sent *op)
{
    static const char *const words[] = {
        [OP_ACQUIRE] = "a", [OP_RELEASE] = "r", [OP_GIVE] = "b", [OP_CANCEL] = "c",
        [OP_GET] = "g",     [OP_HOLDERS] = "h", [OP_TRY] = "t",  [OP_UNITS] = "s",
        [OP_LESS] = "b",    [OP_WAIT] = "w"};
    const struct node_request *request = op->request;
    struct bytes name = node_op_name(op);
    CHECK(call->count < NODE_CALL_OPS);
    call->ops[call->count++] = *op;
    bool by_end = op->kind == OP_RELEASE && request->by_end;
    command_str(c, by_end ? "b" : words[op->kind]);
    command_add(c, name.data, name.len);
    switch (op->kind) {
    case OP_ACQUIRE:
        add_acquire(c, request);
        break;
    case OP_RELEASE:
    case OP_GIVE:
        command_number(c, request->units);
        break;
    case OP_CANCEL:
    case OP_WAIT:
        add_class(c, request, "");
        command_number(c, request->id);
        if (op->kind == OP_WAIT)
            command_number(c, request->seq);
        break;
    case OP_UNITS:
        CHECK(op->name);
        command_number(c, op->name->units - op->name->told);
        break;
    case OP_LESS:
        CHECK(op->name);
        command_number(c, op->name->told - op->name->units);
        break;
    case OP_GET:
    case OP_HOLDERS:
    case OP_TRY:
        break;
    }
}

static enum node_op_kind kind_of(const struct node_request *request)
{
    return REQUEST_STATE(request) == REQUEST_CANCEL_TODO ? OP_CANCEL
           : REQUEST_STATE(request) == REQUEST_GIVE_TODO ? OP_GIVE
                                                         : (enum node_op_kind)request->op;
}

/* ---- hand overs ------------------------------------------------------------------------------ */

void node_try(struct node *node, struct node_name *name)
{
    if (name->try_queued)
        return;
    name->try_queued = true;
    name->try_next = NULL;
    *(node->tries ? &node->last_try->try_next : &node->tries) = name;
    node->last_try = name;
    node->tries_bytes += sizeof(*name) + name->len;
}

void node_try_all(struct node *node, bool strict, bool loose)
{
    for (struct node_name *name = node->first_name; name; name = name->next) {
        bool waits = false;
        for (struct node_request *request = name->first; request && !waits;
             request = request->same_name)
            waits = REQUEST_STATE(request) == REQUEST_WAITING && (request->strict ? strict : loose);
        if (waits)
            node_try(node, name);
    }
}

bool node_try_listed(struct node *node, const redisReply *names)
{
    /* What is left out is listed again by a beat. */
    for (size_t i = 0; i < names->elements && node->tries_bytes < NODE_TRIES_MAX; i++) {
        struct bytes name;
        if (!reply_text(names->element[i], &name) || name.len == 0 || name.len > UINT16_MAX)
            return false;
        struct node_name *entry = node_name_get(node, name);
        if (!entry)
            return node_no_memory(node);
        node_try(node, entry);
    }
    return true;
}

static void add_tries(struct node *node, struct node_call *call, struct command *c)
{
    while (node->tries && node_op_fits(call, c, name_bytes(node->tries))) {
        struct node_name *name = node->tries;
        node->tries = name->try_next;
        node->tries_bytes -= sizeof(*name) + name->len;
        name->try_queued = false;
        name->tries_sent++;
        node_op_add(call, c, &(struct node_op_sent){.kind = OP_TRY, .name = name});
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Could a call be full? It counts names only up to what makes one. */
static bool is_full(const struct node *node)
{
    size_t bytes = 0;
    unsigned count = 0;
    for (const struct node_name *name = node->tries; name; name = name->try_next) {
        bytes += name->len + 64;
        if (++count >= NODE_CALL_OPS || bytes >= NODE_CALL_BYTES)
            return true;
    }
    if (count + node->todo.count >= NODE_CALL_OPS)
        return true;
    for (const struct node_request *request = node->todo.first; request; request = request->next) {
        bytes += request->name.len + 128;
        if (bytes >= NODE_CALL_BYTES)
            return true;
    }
    return false;
}

static bool send_call(struct node *node)
{
    struct command *c = node_script(node, CLUSTER_SCRIPT_CALL);
    struct node_call *call = node_call_take(node);
    bool acquires = false;
    call->sent_ns = node->now_ns;
    add_tries(node, call, c);
    for (struct node_request *request = node->todo.first, *next;
         request && node_op_fits(call, c, request->name); request = next) {
        next = request->next;
        struct node_op_sent op = {.kind = kind_of(request), .request = request};
        acquires = acquires || op.kind == OP_ACQUIRE;
        node_op_add(call, c, &op);
        request_set(node, request, REQUEST_STATE(request) - REQUEST_TODO + REQUEST_SENT);
    }
    if (!acquires) {
        c->args[1] = node->shas[CLUSTER_SCRIPT_GIVE];
        c->lens[1] = strlen(node->shas[CLUSTER_SCRIPT_GIVE]);
    }
    node->counts.calls++;
    node->counts.ops += call->count;
    return node_send(node, PENDING_CALL, (unsigned)(call - node->calls));
}

void node_calls_send(struct node *node)
{
    while (node->phase == PHASE_LIVE && (node->todo.count || node->tries)) {
        if (node->calls_used >= NODE_CALLS_MAX || (node->calls_used && !is_full(node)))
            return;
        if (!send_call(node))
            return;
    }
}

/* The engine is full: acquisitions are refused, and all else goes again by `give`. */
static void call_again(struct node *node, struct node_call *call)
{
    struct command *c = node_script(node, CLUSTER_SCRIPT_GIVE);
    struct node_call before = *call;
    call->count = 0;
    call->again = true;
    for (unsigned i = 0; i < before.count; i++)
        if (before.ops[i].kind != OP_ACQUIRE)
            node_op_add(call, c, &before.ops[i]);
    for (unsigned i = 0; i < before.count; i++) {
        struct node_request *request = before.ops[i].request;
        if (before.ops[i].kind == OP_ACQUIRE)
            request_finish(node, request, request->cancelled ? NODE_CANCELLED : NODE_ENGINE_FULL);
    }
    if (call->count == 0)
        node_call_free(node, call);
    else
        node_send(node, PENDING_CALL, (unsigned)(call - node->calls));
}

/* ---- answers --------------------------------------------------------------------------------- */

static bool on_acquire(struct node *node, struct node_request *request, int64_t answer)
{
    bool early = request->state & REQUEST_EARLY;
    if (answer == 1 || early)
        request_granted(node, request);
    else if (answer == 0 && request->wait == NODE_WAIT_NO)
        request_finish(node, request, NODE_BUSY);
    else if (answer == -1)
        request_finish(node, request, request->cancelled ? NODE_CANCELLED : NODE_QUEUE_FULL);
    else if (answer > 1 && answer <= (int64_t)NODE_SEQ_MAX && request->wait != NODE_WAIT_NO)
        request_queued(node, request, (uint64_t)answer);
    else
        return false;
    return true;
}

/* Units went back. 2: more than the script does at once; the rest by `t`. */
static bool on_release(struct node *node, struct node_request *request, int64_t answer)
{
    /* Loose units of a name with a wrong key may have been admitted by this node alone. */
    if (answer == -2 && !request->strict && node_has_wrong(node, request->name))
        answer = 1;
    if (answer == -2) {
        node_log(
            node, NODE_LOG_ERROR,
            "cluster: the engine had fewer units than this node gave back; this node opens anew");
        return node_lose(node, NODE_LOSS_LEDGER, "units and the engine's count differ");
    }
    if (answer != 1 && answer != 2)
        return false;
    if (answer == 2) {
        struct node_name *name = node_name_get(node, request->name);
        if (!name)
            return node_no_memory(node);
        node_try(node, name);
    }
    request_finish(node, request, request->op == NODE_RELEASE ? NODE_RELEASED : NODE_CANCELLED);
    return true;
}

static bool on_get(struct node *node, struct node_request *request, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 ||
        !reply_decimal(reply->element[0], &request->count_units) ||
        !reply_decimal(reply->element[1], &request->count_waits))
        return false;
    request_finish(node, request, NODE_COUNTED);
    return true;
}

static bool on_holders(struct node *node, struct node_request *request, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 3)
        return false;
    size_t count = reply->elements / 3;
    struct node_share *shares = calloc(count ? count : 1, sizeof(*shares));
    request->count_units = request->count_waits = 0; /* a wrong answer before may have added */
    for (size_t i = 0; shares && i < count; i++) {
        redisReply *const *at = &reply->element[3 * i];
        if (!reply_copy(at[0], shares[i].node, sizeof(shares[i].node)) ||
            !reply_decimal(at[1], &shares[i].units) || !reply_decimal(at[2], &shares[i].waits)) {
            free(shares);
            return false;
        }
        request->count_units += shares[i].units;
        request->count_waits += shares[i].waits;
    }
    request->shares = shares;
    request->share_count = shares ? count : 0;
    request_finish(node, request, shares ? NODE_COUNTED : NODE_NO_MEMORY);
    return true;
}

static bool on_cancel(struct node *node, struct node_request *request, int64_t answer)
{
    if (answer != 0 && answer != 1)
        return false;
    request_finish(node, request, ask_end(request));
    return true;
}

static bool on_try(struct node *node, struct node_name *name, const redisReply *reply)
{
    int64_t answer;
    bool good = reply_number(reply, &answer) && (answer == 1 || answer == 2);
    name->tries_sent--;
    if (good && name->wrong) {
        node_wrong_over(node, name);
        return true;
    }
    if (answer == 2)
        node_try(node, name);
    node_name_release(node, name);
    return good;
}

/* A key of the op's name is of another type: units have changed, queues have not. */
static bool on_wrong(struct node *node, const struct node_op_sent *op, const redisReply *reply)
{
    struct node_request *request = op->request;
    if (op->kind == OP_TRY) {
        op->name->tries_sent--;
        if (!op->name->first && !op->name->wrong) { /* of other nodes */
            node_name_release(node, op->name);
            return true;
        }
    }
    /* The engine can't say DONE to anybody; this node does to its own, as when it is alone. */
    if (op->kind == OP_RELEASE && !request->by_end)
        node_done(node, request->name, UINT64_MAX);
    if (!node_note_wrong(node, node_op_name(op), reply))
        return true;
    if (op->kind == OP_ACQUIRE)
        node_request_wrong(node, request);
    else if (op->kind == OP_RELEASE)
        request_finish(node, request, NODE_RELEASED);
    else if (op->kind == OP_GET || op->kind == OP_HOLDERS)
        request_finish(node, request, NODE_ALONE);
    else if (op->kind != OP_TRY)
        request_finish(node, request, ask_end(request));
    return true;
}

/* Handles the answer of one op; false: it makes no sense. The engine may be lost then. */
static bool on_op(struct node *node, const struct node_op_sent *op, const redisReply *reply)
{
    int64_t answer = 0;
    if (node_is_wrong(reply))
        return on_wrong(node, op, reply);
    if (op->kind == OP_GET)
        return on_get(node, op->request, reply);
    if (op->kind == OP_HOLDERS)
        return on_holders(node, op->request, reply);
    if (op->kind == OP_TRY)
        return on_try(node, op->name, reply);
    if (!reply_number(reply, &answer))
        return false;
    switch (op->kind) {
    case OP_ACQUIRE:
        return on_acquire(node, op->request, answer);
    case OP_RELEASE:
    case OP_GIVE:
        return on_release(node, op->request, answer);
    case OP_CANCEL:
        return on_cancel(node, op->request, answer);
    default:
        return false;
    }
}

bool node_on_call(struct node *node, const redisReply *reply)
{
    struct node_call *call = &node->calls[node->answered.detail];
    if (reply_error_is(reply, "OOM") && !call->again) {
        call_again(node, call);
        return true;
    }
    if (reply->type == REDIS_REPLY_ERROR)
        return node_error_reply(node, reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != call->count)
        return false;
    node->counts.round_trips++;
    node->counts.round_trip_ns += (uint64_t)(node->now_ns - node->answered.sent_ns);
    uint32_t connection = node->connection;
    /* The call is taken from its slot first: what is lost on the way must not be unpinned twice. */
    for (unsigned i = 0; i < call->count; i++) {
        struct node_op_sent op = call->ops[i];
        call->ops[i] = (struct node_op_sent){.kind = OP_GET};
        if (!on_op(node, &op, reply->element[i]) || connection != node->connection)
            return connection != node->connection;
    }
    node_call_free(node, call);
    return true;
}
