/* hold.c - see hold.h. */
#include "lib/hold.h"

#include "proto/counter.h"

#include <stdlib.h>

bool hold_add_name(struct text *text, struct counter_bytes name)
{
    const uint8_t *at = name.data;
    size_t before = text->len;
    for (size_t i = 0, from = 0; i <= name.len; i++) {
        if (i < name.len && (at[i] == '\r' || at[i] == '\n' || at[i] == '\0'))
            return false;
        if (i < name.len && at[i] != ' ')
            continue;
        text_add(text, at + from, i - from);
        if (i < name.len)
            text_add(text, "%20", 3);
        from = i + 1;
    }
    return text->failed || (text->len > before && text->len - before <= 4096);
}

int hold_grant(struct counter_op *op, const struct call *release, struct bytes sent)
{
    struct bytes target = op_target(op);
    struct counter_hold *hold = calloc(1, sizeof(*hold) + target.len + sent.len);
    if (!hold)
        return op_no_memory(op);
    hold->client = client_hold(op->client);
    hold->release = release;
    hold->server = op->point->server;
    hold->since_ns = clock_mono_ns();
    hold->target_len = target.len;
    hold->sent = bytes_at(hold->texts + target.len, sent.len);
    memcpy(hold->texts, target.data, target.len);
    if (sent.len > 0)
        memcpy(hold->texts + target.len, sent.data, sent.len);
    op->hold = hold;
    op->keep = &hold->wire;
    return COUNTER_OK;
}

counter_hold *counter_take_hold(counter_op *op)
{
    if (!(op->flags & OP_ACQUIRES) || op->state != OP_ENDED || op->status != COUNTER_OK)
        return NULL;
    struct counter_hold *hold = op->hold;
    op->hold = NULL;
    return hold;
}

const struct counter_member *counter_hold_member(const counter_hold *hold, size_t index)
{
    return index < hold->member_count ? &hold->members[index] : NULL;
}

bool counter_hold_is_done(const counter_hold *hold)
{
    return hold->is_done;
}

const char *counter_hold_server(const counter_hold *hold)
{
    return hold->server;
}

int counter_hold_fd(const counter_hold *hold)
{
    return hold->wire ? counter_link_fd(hold->wire->link) : -1;
}

static struct bytes target_of(const struct counter_hold *hold)
{
    return bytes_at(hold->texts, hold->target_len);
}

static void note_loss(struct counter_hold *hold, int status)
{
    struct bytes target = target_of(hold);
    wire_drop(hold->wire);
    hold->wire = NULL;
    if (!hold->is_lost)
        client_tell(hold->client, "lost", hold->server, &target, 0, NULL, status);
    hold->is_lost = true;
}

int counter_hold_check(counter_hold *hold)
{
    if (hold->wire && !link_is_fresh(hold->wire->link))
        note_loss(hold, COUNTER_OK);
    return hold->is_lost ? COUNTER_LOST : COUNTER_OK;
}

void counter_hold_free(counter_hold *hold)
{
    if (!hold)
        return;
    struct counter_client *client = hold->client;
    wire_drop(hold->wire);
    free(hold->members);
    free(hold);
    client_drop(client);
}

/* ---- Release --------------------------------------------------------------------------------- */

counter_op *counter_release(counter_hold *hold, bool ok)
{
    if (!hold)
        return NULL;
    struct bytes target = target_of(hold);
    struct counter_op *op =
        op_new(hold->client, hold->release, counter_bytes_at(target.data, target.len));
    if (!op) {
        counter_hold_free(hold);
        return NULL;
    }
    op->hold = hold;
    op->own = &hold->wire;
    op->server = hold->server;
    op->count = hold->member_count;
    hold->release_ok = ok;
    if (hold->release == &release_lock) {
        text_addf(&op->text, "RELEASE %.*s\n", (int)hold->sent.len, (const char *)hold->sent.data);
    } else if (hold->release == &release_units) {
        struct ctr_request request = {
            .opcode = CTR_RELEASE, .opaque = OP_OPAQUE, .units = hold->count, .name = hold->sent};
        uint8_t bytes[4096 + 32];
        text_add(&op->text, bytes, ctr_compose_request(&request, bytes, sizeof(bytes)));
        op->opcode = CTR_RELEASE;
    }
    for (size_t i = 0; i < hold->member_count; i++)
        text_addf(&op->text, "RETURN %llu %s\n", (unsigned long long)hold->members[i].fence,
                  ok ? "ok" : "fail");
    return op_ready(op);
}

static bool release_begin(struct counter_op *op)
{
    struct counter_hold *hold = op->hold;
    if (hold->is_done) {
        op_end(op, COUNTER_OK);
        return false;
    }
    if (!hold->wire)
        return op_fail(op, COUNTER_LOST, "the connection of the hold has ended");
    if (hold->is_shared && !hold->release_ok && link_is_fresh(hold->wire->link)) {
        op_end(op, COUNTER_OK);
        return false;
    }
    return true;
}

/* The first answer that is not as it should be is kept, until the last one has come. */
static int take_release(struct counter_op *op, const struct answer *answer)
{
    static const char *const good[] = {"RELEASED", "RETURNED"};
    bool is_good = op->call->protocol == COUNTER_BINARY && answer->code == 0;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        is_good |= bytes_equal(answer->words[0], bytes_of(good[i]));
    if (!is_good && op->result == COUNTER_OK) {
        op->result = failure_set(&op->error, COUNTER_LOST, "the server had taken it away");
        op->error.sent = true;
        if (op->call->protocol == COUNTER_BINARY)
            answer_code(answer->code, answer->body, &op->error);
        else
            failure_answer(&op->error, answer->line);
        failure_place(&op->error, op->server, op_target(op));
    }
    return op->taken < op->count ? COUNTER_AGAIN : COUNTER_OK;
}

static void release_ended(struct counter_op *op)
{
    struct counter_hold *hold = op->hold;
    struct bytes target = target_of(hold);
    if (hold->is_done)
        return;
    if (op->status == COUNTER_UNREACHABLE || (op->status == COUNTER_UNANSWERED && op->was_cut))
        op->status = op->error.status = COUNTER_LOST;
    if (op->status == COUNTER_OK && (hold->release_ok || !hold->is_shared))
        wire_give(hold->wire);
    else
        wire_drop(hold->wire);
    hold->wire = NULL;
    if (op->status == COUNTER_LOST)
        note_loss(hold, COUNTER_LOST);
    client_tell(op->client, "held", hold->server, &target, hold->since_ns,
                op->status == COUNTER_OK ? "released" : NULL, op->status);
}

const struct call release_lock = CALL(TEXT, OP_OWN_ONLY | OP_LIVES_ON, SAYS_ANY, take_release,
                                      .good = {{"RELEASED", 1}, {"NOT_LOCKED", 1}},
                                      .begin = release_begin, .ended = release_ended);

const struct call release_members = CALL(TEXT, OP_OWN_ONLY | OP_LIVES_ON, SAYS_ANY, take_release,
                                         .good = {{"RETURNED", 1}, {"GONE", 1}, {"NOT_TAKEN", 1}},
                                         .begin = release_begin, .ended = release_ended);

const struct call release_units = CALL(BINARY, OP_OWN_ONLY | OP_LIVES_ON, 0, take_release,
                                       .known = {CTR_STATUS_NOT_FOUND, CTR_STATUS_NOT_ACQUIRED},
                                       .begin = release_begin, .ended = release_ended);
