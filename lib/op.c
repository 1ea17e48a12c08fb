/* op.c - see op.h. */
#include "lib/op.h"

#include "lib/claim.h"
#include "proto/counter.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static const struct good hello_good[] = {{"OK", 2}, {NULL, 0}};

/* ---- Making ---------------------------------------------------------------------------------- */

struct counter_op *op_new(struct counter_client *client, const struct call *call,
                          struct counter_bytes target)
{
    struct counter_op *op = calloc(1, sizeof(*op));
    if (!op)
        return NULL;
    op->client = client_hold(client);
    op->call = call;
    op->flags = call->flags;
    op->forks = client->forks;
    op->error.size = sizeof(op->error);
    op->rows = &op->one;
    op->row_room = 1;
    op->jobs_end = &op->jobs;
    text_add(&op->text, target.data, target.len);
    op->target_len = op->text.len;
    return op;
}

struct bytes op_target(const struct counter_op *op)
{
    return bytes_at(op->text.data, op->target_len);
}

bool op_fail(struct counter_op *op, int status, const char *reason)
{
    failure_set(&op->error, status, "%s", reason);
    failure_place(&op->error, op->server, op_target(op));
    op_end(op, status);
    return false;
}

struct counter_op *op_usage(struct counter_op *op, const char *reason)
{
    failure_set(&op->error, COUNTER_USAGE, "%s", reason);
    failure_place(&op->error, NULL, op_target(op));
    op->status = COUNTER_USAGE;
    op->state = OP_ENDED;
    return op;
}

struct counter_op *op_ready(struct counter_op *op)
{
    op->text_len = op->text.len;
    if (op->text.failed && op->state != OP_ENDED) {
        op->status = failure_no_memory(&op->error);
        op->state = OP_ENDED;
    }
    return op;
}

bool op_seconds(struct counter_op *op, double seconds, int64_t *ns_r)
{
    bool is_good = seconds >= 0 && seconds <= 1e6;
    if (is_good)
        *ns_r = (int64_t)(seconds * 1e9 + 0.5);
    else
        op_usage(op, "timeout: seconds from 0 to 1,000,000 are allowed");
    return is_good;
}

/* ---- Results --------------------------------------------------------------------------------- */

struct counter_row *op_add_row(struct counter_op *op)
{
    if (op->row_count == op->row_room) {
        struct counter_row *old = op->rows == &op->one ? NULL : op->rows;
        struct counter_row *rows = realloc(old, 2 * op->row_room * sizeof(*rows));
        if (!rows)
            return NULL;
        if (!old)
            rows[0] = op->one;
        op->rows = rows;
        op->row_room *= 2;
    }
    struct counter_row *row = &op->rows[op->row_count++];
    *row = (struct counter_row){0};
    return row;
}

const struct counter_row *counter_next_row(counter_op *op)
{
    bool has_more =
        op->state == OP_ENDED && op->status == COUNTER_OK && op->row_next < op->row_count;
    return has_more ? &op->rows[op->row_next++] : NULL;
}

/* Forgets what a failed attempt, or the page before, has brought. */
static void forget_results(struct counter_op *op)
{
    op->keep = NULL;
    op->row_count = op->row_next = op->taken = op->awaited = 0;
    op->following = 0;
    text_clear(&op->found);
    if (op->flags & OP_ACQUIRES) {
        counter_hold_free(op->hold);
        op->hold = NULL;
    }
    for (struct counter_job *job; (job = op->jobs);) {
        op->jobs = job->next;
        counter_job_free(job);
    }
    op->jobs_end = &op->jobs;
}

int op_malformed(struct counter_op *op, struct bytes what)
{
    return answer_malformed(&op->client->error, what,
                            "the server's answer is outside the protocol");
}

int op_no_memory(struct counter_op *op)
{
    return failure_no_memory(&op->client->error);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* It is no longer in the turns, if it was: the next one has its turn. */
static void end_turn(struct counter_op *op)
{
    struct claim *claim = op->claim;
    if (!claim)
        return;
    struct counter_op **at = &claim->first;
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    op->claim = NULL;
    op->own = NULL;
    claim_close_if_over(claim);
}

void op_end(struct counter_op *op, int status)
{
    struct bytes target = op_target(op);
    op->state = OP_ENDED;
    op->status = status;
    if (status == COUNTER_OK && op->error.status != COUNTER_OK)
        op->error = (struct counter_error)COUNTER_ERROR;
    if (op->call->ended)
        op->call->ended(op);
    const char *server = op->point ? op->point->server : "";
    if (op->flags & OP_ACQUIRES)
        client_tell(op->client, "wait", server, &target, op->begun_ns,
                    op->status != COUNTER_OK         ? NULL
                    : counter_hold_is_done(op->hold) ? "done"
                                                     : "locked",
                    op->status);
    else if ((op->flags & OP_PUTS) && op->status == COUNTER_OK)
        client_tell(op->client, "put", server, &target, 0,
                    op->rows[0].is_duplicate && op->row_count == 1 ? "duplicate" : "inserted",
                    COUNTER_OK);
    end_turn(op);
}

/* The server may have acted on the attempt. */
static bool has_sent(const struct counter_op *op)
{
    bool is_question = op->is_hello && (op->flags & OP_BODY); /* the request comes behind it */
    return op->wire && op->wire->link->has_sent && !is_question;
}

/* The connection of the attempt: to be used again after a refusal, else closed. */
static void leave_wire(struct counter_op *op, bool is_good)
{
    struct wire *wire = op->wire;
    op->wire = NULL;
    if (wire && op->own && wire == *op->own) {
        if (is_good)
            return;
        *op->own = NULL;
    }
    if (is_good)
        wire_give(wire);
    else
        wire_drop(wire);
}

/* It gives back what is held. That goes on at a server that is down for new requests. */
static bool is_release(const struct counter_op *op)
{
    return op->own && op->hold;
}

/* The attempt has failed as client->error says: ends, or makes another one. Returns true. */
static bool fail_attempt(struct counter_op *op)
{
    struct counter_error *now = &op->client->error;
    struct point *point = op->point;
    bool is_refused = counter_is_refused(now->status) && now->answer[0];
    bool was_cut = op->was_cut, was_unanswered = op->error.status == COUNTER_UNANSWERED;
    if (now->status == COUNTER_NO_MEMORY && !is_refused)
        now->sent = was_unanswered || has_sent(op);
    else
        failure_place(now, point ? point->server : op->server, op_target(op));
    leave_wire(op, is_refused);
    forget_results(op);
    op->state = OP_PICKS;
    if (now->status == COUNTER_UNREACHABLE && op->is_idle && !(op->flags & OP_OWN_ONLY))
        return true;
    if (point && strstr(now->answer, "SHUTTING_DOWN"))
        point_set_down(point);
    else if (point && is_refused && point->down_until_ns != 0 && !is_release(op))
        point_set_up(point);
    bool again = now->status == COUNTER_UNREACHABLE || now->status == COUNTER_DRAINING ||
                 (now->status == COUNTER_UNANSWERED && (op->flags & OP_AGAIN) &&
                  (was_cut || (op->flags & OP_SILENT)));
    if (!again || (op->flags & OP_OWN_ONLY)) {
        if ((op->flags & OP_SILENT) && was_unanswered && is_refused)
            memcpy(op->error.answer, now->answer, sizeof(now->answer)); /* it may have been done */
        else
            op->error = *now;
        op_end(op, op->error.status);
        return true;
    }
    op->attempt++;
    if (op->error.status == COUNTER_OK || now->status == COUNTER_UNANSWERED ||
        op->error.status == COUNTER_UNREACHABLE)
        op->error = *now;
    size_t most = op->point_count;
    if ((op->flags & OP_AGAIN) && op->error.status == COUNTER_UNANSWERED)
        most++;
    struct bytes target = op_target(op);
    if (op->attempt >= most)
        op_end(op, op->error.status);
    else
        client_tell(op->client, "retry", op->point->server, &target, 0, NULL, now->status);
    return true;
}

/* The link has ended: says why in client->error. Returns its status. */
static int link_failed(struct counter_op *op)
{
    struct counter_error *now = &op->client->error;
    const counter_link *link = op->wire->link;
    const struct counter_error *why = counter_link_error(link);
    bool is_late = link->is_late;
    if (why->status == COUNTER_MALFORMED || why->status == COUNTER_NO_MEMORY) {
        *now = *why;
        now->sent = true;
        return now->status;
    }
    bool sent = has_sent(op);
    failure_set(now, sent ? COUNTER_UNANSWERED : COUNTER_UNREACHABLE, "%s%s%s",
                is_late ? "no answer came in time" : "the connection ended before an answer came",
                why->reason[0] ? ": " : "", why->reason);
    now->sent = sent;
    op->was_cut = !is_late;
    return now->status;
}

/* ---- An attempt ------------------------------------------------------------------------------ */

/* Each returns false when it has to wait. */

static bool begin(struct counter_op *op)
{
    struct counter_client *client = op->client;
    op->begun_ns = clock_mono_ns();
    if (op->call->begin && !op->call->begin(op))
        return true;
    op->state = OP_PICKS;
    if (op->flags & OP_OWN_ONLY)
        return true;
    op->points = client_points(client, op->call->protocol, &op->point_count);
    if (op->points && op->point_count > 1) {
        free(op->order);
        op->order = client_order(op->points, op->point_count, op_target(op), op->begun_ns);
        if (!op->order)
            op_no_memory(op);
    }
    if (!op->points || (op->point_count > 1 && !op->order)) {
        op->error = client->error;
        failure_place(&op->error, NULL, op_target(op));
        op_end(op, op->error.status);
    }
    return true;
}

/* What is left of the timeout. */
static void tell_rest(struct counter_op *op, int64_t now_ns)
{
    int64_t rest_ns = op->begun_ns + op->timeout_ns - now_ns;
    op->told_ns = rest_ns > 0 ? rest_ns : 0;
}

static bool pick(struct counter_op *op)
{
    struct wire *wire = NULL;
    op->was_cut = false;
    if (op->own && !op->own_tried) {
        op->own_tried = true;
        if (*op->own && !link_is_fresh((*op->own)->link)) {
            wire_drop(*op->own);
            *op->own = NULL;
        }
        wire = *op->own;
    }
    if (wire) {
        op->point = wire->point;
    } else if (op->flags & OP_OWN_ONLY) {
        op->is_idle = false;
        failure_set(&op->client->error, COUNTER_UNREACHABLE, "the connection has ended");
        return fail_attempt(op);
    } else {
        op->point = &op->points[op->order ? op->order[op->attempt % op->point_count] : 0];
        wire = wire_take(op->point);
    }
    op->is_idle = wire != NULL;
    op->state = OP_SAYS;
    if (wire && op->attempt == 0) {
        op->told_ns = op->timeout_ns;
    } else {
        op->connect_ns = clock_mono_ns();
        tell_rest(op, op->connect_ns);
    }
    if (!wire) {
        struct settings *settings = op->client->settings;
        if (op->point->down_until_ns != 0) /* others pass by meanwhile */
            op->point->down_until_ns = op->connect_ns + settings->down_ns;
        wire = wire_open(op->point);
        if (!wire) {
            op_no_memory(op);
            return fail_attempt(op);
        }
        op->state = OP_CONNECTS;
        if (op->may_wait) /* what it finds, and what not, the link will meet */
            (void)settings_look_up(settings, op->point->protocol, op->point->number);
    }
    op->wire = wire;
    return true;
}

static bool fail_connect(struct counter_op *op, int status)
{
    struct counter_error *now = &op->client->error;
    struct point *point = op->point;
    const counter_link *link = op->wire->link;
    const char *reason = counter_link_error(link)->reason;
    bool is_ours = link->is_our_fault;
    char where[SETTINGS_WHERE];
    if (status != COUNTER_UNREACHABLE) {
        *now = *counter_link_error(link);
        return fail_attempt(op);
    }
    failure_set(now, COUNTER_UNREACHABLE, "no connection to %s: %s",
                settings_where(op->client->settings, point->protocol, point->number, where),
                reason);
    if (!is_ours)
        point_set_down(point);
    return fail_attempt(op);
}

static bool connect_link(struct counter_op *op)
{
    int status = counter_link_step(op->wire->link);
    if (status == COUNTER_AGAIN)
        return false;
    if (status != COUNTER_OK)
        return fail_connect(op, status);
    op->wire->was_up = true;
    client_tell(op->client, "connect", op->point->server, NULL, op->connect_ns, NULL, COUNTER_OK);
    tell_rest(op, clock_mono_ns());
    op->state = OP_SAYS;
    return true;
}

static int64_t whole_seconds(int64_t ns)
{
    return (ns + NS_PER_S - 1) / NS_PER_S;
}

/* By when the answer must begin. */
static void expect(struct counter_op *op, bool is_first)
{
    int64_t wait_ns = 0;
    if (is_first && (op->flags & OP_TELLS_S))
        wait_ns = whole_seconds(op->told_ns) * NS_PER_S;
    else if (is_first && (op->flags & OP_TELLS_MS))
        wait_ns = op->told_ns;
    op->wire->link->expect_by = clock_mono_ns() + wait_ns + op->client->settings->io_ns;
}

/* Adds bytes to what is sent. False: no memory. */
static bool put(struct counter_op *op, const void *data, size_t len)
{
    return counter_link_say(op->wire->link, data, len) == COUNTER_OK;
}

static bool put_request(struct counter_op *op)
{
    char time[32] = "";
    long long ms = op->told_ns / NS_PER_MS;
    size_t from = op->target_len, time_at = op->time_at > 0 ? op->time_at : from;
    if (op->flags & OP_TELLS_S)
        (void)snprintf(time, sizeof(time), "%lld", (long long)whole_seconds(op->told_ns));
    else if (op->flags & OP_TELLS_MS)
        (void)snprintf(time, sizeof(time), "%lld.%03d", ms / 1000, (int)(ms % 1000));
    return put(op, op->text.data + from, time_at - from) && put(op, time, strlen(time)) &&
           put(op, op->text.data + time_at, op->text_len - time_at) &&
           (!op->has_body || (put(op, op->body.data, op->body.len) && put(op, "\r\n", 2)));
}

static bool say(struct counter_op *op)
{
    struct wire *wire = op->wire;
    wire->link->has_sent = false;
    op->is_hello = op->call->protocol == COUNTER_JOBS && !wire->is_checked;
    wire->is_partial = op->is_hello;
    op->awaited = 0;
    op->good = op->is_hello ? hello_good : op->call->good;
    op->refusals = op->is_hello ? SAYS_ANY : op->call->refusals;
    op->state = OP_SENDS;
    if ((!op->is_hello || put(op, "tube default\r\n", 14)) &&
        ((op->is_hello && (op->flags & OP_BODY)) || put_request(op)))
        return true;
    op_no_memory(op);
    return fail_attempt(op);
}

static bool send_all(struct counter_op *op)
{
    int status = counter_link_step(op->wire->link);
    if (status == COUNTER_AGAIN && link_unread(op->wire->link).len == 0)
        return false;
    if (status != COUNTER_OK) /* what the server says before it has all is no answer to all */
        op->wire->is_partial = true;
    expect(op, !op->is_hello);
    op->just_sent = status == COUNTER_OK;
    op->state = OP_HEARS;
    return true;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* What came of looking for bytes, as read_answer returns it. */
static int looked(struct counter_op *op, int status)
{
    return status == COUNTER_OK || status == COUNTER_AGAIN ? status : link_failed(op);
}

static int read_binary(struct counter_op *op, struct answer *answer)
{
    struct bytes bytes = {0};
    counter_link *link = op->wire->link;
    int status = COUNTER_OK;
    if (op->awaited == 0) {
        status = looked(op, link_exactly(link, CTR_HEADER, &bytes));
        if (status != COUNTER_OK)
            return status;
        const uint8_t *at = bytes.data;
        uint32_t len = wire_load_u32(at + 4);
        if (at[0] != CTR_MAGIC_REPLY || at[1] != op->opcode || len > CTR_BODY_MAX ||
            memcmp(at + 8, OP_OPAQUE, 4) != 0)
            return op_malformed(op, bytes);
        op->code = at[2];
        op->awaited = (size_t)len + 1;
        bytes = bytes_at(NULL, 0);
    }
    if (op->awaited > 1)
        status = looked(op, link_exactly(link, op->awaited - 1, &bytes));
    if (status != COUNTER_OK)
        return status;
    op->awaited = 0;
    *answer = (struct answer){.body = bytes, .code = op->code};
    if (op->code == 0 || op->code == op->call->known[0] || op->code == op->call->known[1])
        return COUNTER_OK;
    return answer_refused(op->code, bytes, &op->client->error);
}

static int read_text(struct counter_op *op, struct answer *answer)
{
    struct counter_error *error = &op->client->error;
    counter_link *link = op->wire->link;
    struct bytes bytes;
    if (op->awaited == 0) {
        bool is_jobs = op->call->protocol == COUNTER_JOBS;
        size_t size, max = is_jobs ? ANSWER_LINE_JOBS : ANSWER_LINE_TEXT;
        int status = looked(op, link_line(link, max, &bytes));
        if (status == COUNTER_OK)
            status = answer_split(bytes, op->good, op->refusals, answer, error);
        if (status != COUNTER_OK)
            return status;
        if (!is_jobs)
            return COUNTER_OK;
        if (!answer_body(answer, op->client->settings->max_body, &size, error))
            return COUNTER_MALFORMED;
        if (size == SIZE_MAX)
            return COUNTER_OK;
        op->awaited = size + 2;
        op->text.len = op->text_len;
        text_add(&op->text, bytes.data, bytes.len);
        if (op->text.failed)
            return op_no_memory(op);
    }
    int status = looked(op, link_exactly(link, op->awaited, &bytes));
    if (status != COUNTER_OK)
        return status;
    op->awaited = 0;
    struct bytes end = bytes_at(bytes.data + bytes.len - 2, 2);
    if (!bytes_equal(end, bytes_of("\r\n")))
        return op_malformed(op, end);
    struct bytes line = bytes_at(op->text.data + op->text_len, op->text.len - op->text_len);
    status = answer_split(line, op->good, op->refusals, answer, error);
    answer->body = bytes_at(bytes.data, bytes.len - 2);
    return status;
}

static int read_answer(struct counter_op *op, struct answer *answer)
{
    return op->call->protocol == COUNTER_BINARY ? read_binary(op, answer) : read_text(op, answer);
}

/* All answers were taken. */
static bool succeed(struct counter_op *op)
{
    struct wire *wire = op->wire;
    if (!is_release(op) && link_unread(wire->link).len > 0) {
        answer_malformed(&op->client->error, bytes_at(NULL, 0),
                         "the server sent more than the answer");
        return fail_attempt(op);
    }
    if (op->point->down_until_ns != 0 && !is_release(op))
        point_set_up(op->point);
    op->wire = NULL;
    if (op->keep)
        *op->keep = wire;
    else if (!op->own || wire != *op->own)
        wire_give(wire);
    op_end(op, op->result);
    return true;
}

static bool hear(struct counter_op *op)
{
    struct answer answer;
    int status = read_answer(op, &answer);
    if (status == COUNTER_AGAIN && !op->just_sent) {
        (void)counter_link_step(op->wire->link); /* an end is met when what came before is used */
        status = read_answer(op, &answer);
    }
    op->just_sent = false;
    if (status == COUNTER_AGAIN)
        return false;
    if (status != COUNTER_OK)
        return fail_attempt(op);
    if (op->is_hello) {
        op->is_hello = false;
        op->wire->is_checked = true;
        op->wire->is_partial = false;
        op->good = op->call->good;
        op->refusals = op->call->refusals;
        if (op->flags & OP_BODY)
            op->state = OP_SAYS;
        else
            expect(op, true);
        return true;
    }
    op->taken++;
    status = op->call->take(op, &answer);
    if (status == COUNTER_OK)
        return succeed(op);
    if (status != COUNTER_AGAIN)
        return fail_attempt(op);
    if (op->state == OP_HEARS)
        expect(op, false);
    return true;
}

/* ---- Stepping -------------------------------------------------------------------------------- */

static int advance(struct counter_op *op)
{
    static bool (*const steps[])(struct counter_op * op) = {
        [OP_BEGINS] = begin, [OP_PICKS] = pick,     [OP_CONNECTS] = connect_link,
        [OP_SAYS] = say,     [OP_SENDS] = send_all, [OP_HEARS] = hear,
    };
    bool is_foreign = op->forks != op->client->forks;
    if (op->state != OP_ENDED &&
        (is_foreign || (op->client->is_closed && !(op->flags & OP_LIVES_ON)))) {
        leave_wire(op, false);
        forget_results(op);
        op_fail(op, is_foreign ? COUNTER_LOST : COUNTER_USAGE,
                is_foreign ? "the operation is the parent process's" : "the client is closed");
    }
    while (op->state != OP_ENDED) {
        op->client->error.server[0] = op->client->error.target[0] = '\0';
        if (!steps[op->state](op))
            return COUNTER_AGAIN;
    }
    return op->status;
}

/* The operation that has to go on before this one can: itself, or the first in its turn. */
static struct counter_op *first_of(const struct counter_op *op)
{
    return op->state != OP_ENDED && op->claim ? op->claim->first : unconst(op);
}

static int step(struct counter_op *op, bool may_wait)
{
    int status;
    struct counter_op *first;
    do {
        if (op->state == OP_ENDED && op->status == COUNTER_OK && op->row_next == op->row_count &&
            op->following != 0) { /* the next page of a list, also behind an empty one */
            op->after = op->following;
            op->attempt = 0;
            forget_results(op);
            op->state = OP_BEGINS;
        }
        first = first_of(op);
        first->may_wait = may_wait;
        status = advance(first);
    } while ((first != op && status != COUNTER_AGAIN) ||
             (status == COUNTER_OK && op->row_count == 0 && op->following != 0));
    return status;
}

int counter_step(counter_op *op)
{
    return step(op, false);
}

int counter_fd(const counter_op *op)
{
    const struct counter_op *first = first_of(op);
    return first->wire ? counter_link_fd(first->wire->link) : -1;
}

short counter_events(const counter_op *op)
{
    const struct counter_op *first = first_of(op);
    if (!first->wire)
        return 0;
    return counter_link_events(first->wire->link);
}

uint64_t counter_fd_serial(const counter_op *op)
{
    const struct counter_op *first = first_of(op);
    return first->wire ? counter_link_fd_serial(first->wire->link) : 0;
}

int counter_wait_ms(const counter_op *op)
{
    const struct counter_op *first = first_of(op);
    return first->wire ? counter_link_wait_ms(first->wire->link) : 0;
}

int counter_run(counter_op *op)
{
    int status;
    while ((status = step(op, true)) == COUNTER_AGAIN) {
        struct pollfd wait = {.fd = counter_fd(op), .events = counter_events(op)};
        (void)poll(&wait, 1, counter_wait_ms(op));
    }
    return status;
}

const struct counter_error *counter_op_error(const counter_op *op)
{
    return &op->error;
}

void counter_op_free(counter_op *op)
{
    if (!op)
        return;
    struct counter_client *client = op->client;
    leave_wire(op, false);
    forget_results(op);
    end_turn(op);
    counter_hold_free(op->hold);
    if (op->flags & OP_ENDS_JOB)
        counter_job_free(op->job);
    else if (op->job)
        job_let_go(op->job);
    if (op->rows != &op->one)
        free(op->rows);
    text_free(&op->found);
    text_free(&op->text);
    free(op->order);
    free(op);
    client_drop(client);
}
