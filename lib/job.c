/* job.c - calls of jobs: claim, and what gives a job back. */
#include "lib/args.h"
#include "lib/claim.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Claim ----------------------------------------------------------------------------------- */

/* Is the tube one of those that were asked for? Their names stand behind the time. */
static bool is_claimed(const struct counter_op *op, struct bytes tube)
{
    struct bytes rest =
        bytes_at(op->text.data + op->time_at + 1, op->text_len - op->time_at - strlen(" \r\n"));
    bool found = false;
    while (!found && rest.len > 0)
        found = bytes_equal(answer_word(&rest, ' '), tube);
    return found;
}

static int take_job(struct counter_op *op, const struct answer *answer)
{
    const struct bytes *words = answer->words;
    struct bytes tube = words[4];
    uint64_t id, token, tries;
    if (!answer_number(words[1], 1, ANSWER_NUMBER_MAX, &id) ||
        !answer_number(words[3], 1, ANSWER_NUMBER_MAX, &token) ||
        !answer_number(words[5], 1, UINT32_MAX, &tries) || !is_claimed(op, tube))
        return op_malformed(op, answer->line);
    struct counter_job *job = malloc(sizeof(*job) + tube.len + answer->body.len);
    if (!job)
        return op_no_memory(op);
    *job = (struct counter_job){
        .view = {.size = sizeof(job->view),
                 .id = id,
                 .token = token,
                 .tube = {job->texts, tube.len},
                 .body = {job->texts + tube.len, answer->body.len},
                 .tries = (uint32_t)tries,
                 .server = op->point->server},
        .refs = 1,
    };
    memcpy(job->texts, tube.data, tube.len);
    memcpy(job->texts + tube.len, answer->body.data, answer->body.len);
    *op->jobs_end = job;
    op->jobs_end = &job->next;
    return COUNTER_OK;
}

static int take_claim(struct counter_op *op, const struct answer *answer)
{
    static const struct good reserved[] = {{"RESERVED", 6}, {NULL, 0}};
    if (op->taken == 1) {
        if (bytes_equal(answer->words[0], bytes_of("TIMED_OUT")))
            return COUNTER_OK;
        if (!answer_number(answer->words[1], 1, op->count, &op->announced))
            return op_malformed(op, answer->line);
        op->good = reserved;
        op->refusals = 0;
        return COUNTER_AGAIN;
    }
    int status = take_job(op, answer);
    if (status != COUNTER_OK || op->taken <= op->announced)
        return status != COUNTER_OK ? status : COUNTER_AGAIN;
    struct claim *claim = calloc(1, sizeof(*claim));
    if (!claim)
        return op_no_memory(op);
    claim->client = client_hold(op->client);
    claim->forks = op->client->forks;
    for (struct counter_job *job = op->jobs; job; job = job->next) {
        job->claim = claim;
        claim->jobs++;
    }
    op->keep = &claim->wire;
    return COUNTER_OK;
}

static const struct call claim_call = CALL(JOBS, OP_AGAIN | OP_TELLS_S, SAYS_ANY | SAYS_READ_ONLY,
                                           take_claim, .good = {{"CLAIMED", 2}, {"TIMED_OUT", 1}});

counter_op *counter_claim(counter_client *client, const struct counter_bytes *tubes, size_t count,
                          const struct counter_claim_args *args)
{
    struct counter_claim_args all = COUNTER_CLAIM_ARGS;
    struct counter_op *op =
        op_new(client, &claim_call, count > 0 ? tubes[0] : counter_bytes_at("", 0));
    if (!op || !ARGS_TAKE(op, all, args) || !op_seconds(op, args->timeout, &op->timeout_ns))
        return op;
    if (args->count < 1 || args->count > 1000)
        return op_usage(op, "count: 1 to 1,000 jobs can be claimed at once");
    op->count = args->count;
    text_addf(&op->text, "claim %u ", args->count);
    op->time_at = op->text.len;
    for (size_t i = 0; i < count; i++) {
        if (!args_is_tube(op, tubes[i]))
            return op;
        text_add(&op->text, " ", 1);
        text_add(&op->text, tubes[i].data, tubes[i].len);
        if (op->text.len - op->target_len > 8000)
            return op_usage(op, "the line of a claim has 8,000 bytes at most: claim fewer tubes");
    }
    if (count == 0)
        return op_usage(op, "claim needs one tube or more");
    text_add(&op->text, "\r\n", 2);
    return op_ready(op);
}

counter_job *counter_take_job(counter_op *op)
{
    struct counter_job *job = op->state == OP_ENDED && op->status == COUNTER_OK ? op->jobs : NULL;
    if (job)
        op->jobs = job->next;
    return job;
}

/* ---- What gives a job back ------------------------------------------------------------------- */

static const struct call ack_call, nack_call, bury_call, renew_call;

/* The request of a call for a job, which stands in the turns of its claim. `delay`: of a nack. */
static struct counter_op *job_op(struct counter_job *job, const struct call *call, double delay)
{
    uint32_t seconds;
    if (!job)
        return NULL;
    const struct counter_job_view *view = &job->view;
    struct counter_op *op = op_new(job->claim->client, call, view->tube);
    if (!op && (call->flags & OP_ENDS_JOB))
        counter_job_free(job);
    if (!op)
        return NULL;
    op->job = job;
    job->refs += call->flags & OP_ENDS_JOB ? 0 : 1;
    op->server = view->server;
    if (!args_round_up(op, delay, "delay: 0 to 4,294,967,295 s are allowed", &seconds))
        return op;
    text_addf(&op->text, "%s %llu", call == &bury_call ? "stats-job" : call->name,
              (unsigned long long)view->id);
    if (call != &bury_call)
        text_addf(&op->text, " %llu", (unsigned long long)view->token);
    if (call == &nack_call)
        text_addf(&op->text, " %u", seconds);
    text_add(&op->text, "\r\n", 2);
    if (op_ready(op)->state == OP_ENDED)
        return op;
    op->claim = job->claim;
    op->own = &op->claim->wire;
    struct counter_op **at = &op->claim->first;
    while (*at)
        at = &(*at)->next;
    *at = op;
    return op;
}

static bool job_begin(struct counter_op *op)
{
    if (claim_is_foreign(op->claim))
        return op_fail(op, COUNTER_LOST, "the job is the parent process's");
    return true;
}

/* The priority that stats-job tells. */
static bool find_priority(struct bytes text, uint64_t *priority_r)
{
    struct entry entry;
    bool found = false;
    if (!answer_start(&text))
        return false;
    while (answer_entry(&text, &entry)) {
        if (entry.is_number && bytes_equal(entry.key, bytes_of("pri"))) {
            *priority_r = entry.number;
            found = true;
        }
    }
    return found && text.len == 0;
}

static int take_job_answer(struct counter_op *op, const struct answer *answer)
{
    static const struct good buried[] = {{"BURIED", 1}, {"NOT_FOUND", 1}, {NULL, 0}};
    if (bytes_equal(answer->words[0], bytes_of("NOT_FOUND"))) {
        bool earlier = op->error.status == COUNTER_UNANSWERED;
        op->result = failure_set(
            &op->error, earlier ? COUNTER_UNANSWERED : COUNTER_LOST,
            earlier ? "the job is reserved no more: the first request, which was not answered, may "
                      "have done it"
                    : "the job is reserved no more");
        op->error.sent = earlier;
        failure_answer(&op->error, answer->line);
        failure_place(&op->error, op->server, op_target(op));
        return COUNTER_OK;
    }
    if (op->call == &bury_call && op->taken == 1) {
        uint64_t priority;
        char line[64];
        if (!find_priority(answer->body, &priority))
            return op_malformed(op, answer->body);
        int len = snprintf(line, sizeof(line), "bury %llu %llu\r\n",
                           (unsigned long long)op->job->view.id, (unsigned long long)priority);
        op->good = buried;
        op->state = OP_SENDS;
        return counter_link_say(op->wire->link, line, (size_t)len) == COUNTER_NO_MEMORY
                   ? op_no_memory(op)
                   : COUNTER_AGAIN;
    }
    if (op->call == &nack_call) /* the first row needs no memory */
        op_add_row(op)->number = bytes_equal(answer->words[0], bytes_of("BURIED"));
    return COUNTER_OK;
}

static void job_ended(struct counter_op *op)
{
    struct counter_job *job = op->job;
    struct bytes tube = op_target(op);
    const char *server = op->server;
    if ((op->flags & OP_OWN_ONLY) && op->status == COUNTER_UNREACHABLE)
        op->status = op->error.status = COUNTER_LOST;
    if ((op->flags & OP_ENDS_JOB) && job->claim)
        job_leave(job, op->status == COUNTER_OK);
    if (op->status == COUNTER_LOST && !job->view.is_lost) {
        job->view.is_lost = true;
        client_tell(op->client, "lost", server, &tube, 0, NULL, COUNTER_OK);
        client_tell(op->client, "job", server, &tube, 0, "lost", COUNTER_OK);
    }
    if ((op->flags & OP_ENDS_JOB) && op->status != COUNTER_LOST && op->status != COUNTER_USAGE)
        client_tell(op->client, "job", server, &tube, 0, op->call->name, op->status);
}

#define JOB_CALL(word, has, ...)                                                                   \
    CALL(JOBS, OP_LIVES_ON | (has), SAYS_ANY, take_job_answer, .name = (word),                     \
         .good = {__VA_ARGS__, {"NOT_FOUND", 1}}, .begin = job_begin, .ended = job_ended)

static const struct call ack_call =
    JOB_CALL("ack", OP_AGAIN | OP_SILENT | OP_ENDS_JOB, {"DELETED", 1});
static const struct call nack_call = JOB_CALL("nack", OP_ENDS_JOB, {"RELEASED", 1}, {"BURIED", 1});
static const struct call bury_call = JOB_CALL("bury", OP_ENDS_JOB | OP_OWN_ONLY, {"OK", 2});
static const struct call renew_call = JOB_CALL("renew", OP_AGAIN | OP_SILENT, {"TOUCHED", 1});

counter_op *counter_ack(counter_job *job)
{
    return job_op(job, &ack_call, 0);
}

counter_op *counter_nack(counter_job *job, double delay)
{
    return job_op(job, &nack_call, delay);
}

counter_op *counter_bury(counter_job *job)
{
    return job_op(job, &bury_call, 0);
}

counter_op *counter_renew(counter_job *job)
{
    return job_op(job, &renew_call, 0);
}
