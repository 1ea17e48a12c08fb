/*
 * answer.c - what answers mean (answer.h).
 */
#include "cli/answer.h"

#include "base/number.h"
#include "cli/command.h"
#include "cli/print.h"

/* The exit status for an answer, and what it means for people; of the binary protocol: for scripts.
 */
struct meaning {
    int answer;
    enum status status;
    const char *text;
};

static const struct meaning pool_meanings[] = {
    {POOL_REPLY_RETURNED, STATUS_PROTOCOL, "returned"},
    {POOL_REPLY_JOINED, STATUS_PROTOCOL, "joined"},
    {POOL_REPLY_OK, STATUS_PROTOCOL, "ok"},
    {POOL_REPLY_BYE, STATUS_PROTOCOL, "bye"},
    {POOL_REPLY_GONE, STATUS_LOST, "it was taken away meanwhile"},
    {POOL_REPLY_NOT_TAKEN, STATUS_LOST, "this connection does not hold it"},
    {POOL_REPLY_TIMEOUT, STATUS_TEMPORARY, "no member that fits is free"},
    {POOL_REPLY_QUEUE_FULL, STATUS_UNAVAILABLE, "the queue is full (option queue_max of the pool)"},
    {POOL_REPLY_SHUTTING_DOWN, STATUS_UNAVAILABLE, "it is shutting down"},
    {POOL_REPLY_OUT_OF_MEMORY, STATUS_UNAVAILABLE,
     "it has no memory (option counter.memory_limit of the server)"},
    {POOL_REPLY_TOO_MANY, STATUS_UNAVAILABLE,
     "that is more than it allows (options pools.* of the server)"},
    {POOL_REPLY_POOL_FULL, STATUS_UNAVAILABLE,
     "the pool is full (its option max, or pools.max_members of the server)"},
    {POOL_REPLY_DENIED, STATUS_DENIED,
     "this host may not do that (options pools.operators and pools.suppliers of the server)"},
    {POOL_REPLY_NO_POOL, STATUS_NO, "there is no such pool"},
    {POOL_REPLY_NO_MEMBER, STATUS_NO, "there is no such member"},
    {POOL_REPLY_WRONG_KIND, STATUS_NO, "that can't be done with a pool of this kind"},
    {POOL_REPLY_EXISTS, STATUS_NO, "the name is in use"},
    {POOL_REPLY_LINE_TOO_LONG, STATUS_USAGE,
     "the request is too long (option poolcounter.max_line of the server)"},
    {POOL_REPLY_BAD_VALUE, STATUS_USAGE, NULL},
    {POOL_REPLY_BAD_COMMAND, STATUS_PROTOCOL, "it knows nothing of pools: is it too old?"},
};

static const struct meaning jobs_meanings[] = {
    {BS_ANSWER_NOT_FOUND, STATUS_NO, "there is no such job or tube, or another client has the job"},
    {BS_ANSWER_TIMED_OUT, STATUS_TEMPORARY, "no job is ready"},
    {BS_ANSWER_DEADLINE_SOON, STATUS_TEMPORARY, "a job's time is nearly over"},
    {BS_ANSWER_JOB_TOO_BIG, STATUS_NO,
     "the job is too big (option jobs.max_job_size of the server; beanstalkd: -z)"},
    {BS_ANSWER_DRAINING, STATUS_UNAVAILABLE, "it takes no new jobs now; try again later"},
    {BS_ANSWER_TUBE_FULL, STATUS_UNAVAILABLE,
     "the tube is full (its setting limit); wait until jobs are done, or raise the limit"},
    {BS_ANSWER_OUT_OF_MEMORY, STATUS_UNAVAILABLE,
     "it has no memory or no room on its disk; nothing was changed"},
    {BS_ANSWER_PUT_BURIED, STATUS_UNAVAILABLE,
     "it has no memory: the job is stored, but buried; kick it later"},
    {BS_ANSWER_INTERNAL_ERROR, STATUS_UNAVAILABLE, "it has failed; its log says why"},
    {BS_ANSWER_READ_ONLY, STATUS_UNAVAILABLE, NULL},
    {BS_ANSWER_UNKNOWN_COMMAND, STATUS_NO,
     "it does not know this request: is it a beanstalkd, or too old?"},
};

static const struct meaning binary_meanings[] = {
    {CTR_STATUS_SUCCESS, STATUS_OK, "success"},
    {CTR_STATUS_NOT_FOUND, STATUS_NO, "not_found"},
    {CTR_STATUS_NOT_ACQUIRED, STATUS_NO, "not_acquired"},
    {CTR_STATUS_INVALID, STATUS_USAGE, "invalid"},
    {CTR_STATUS_NOT_AVAILABLE, STATUS_TEMPORARY, "not_available"},
    {CTR_STATUS_OUT_OF_MEMORY, STATUS_UNAVAILABLE, "out_of_memory"},
    {CTR_STATUS_UNKNOWN_COMMAND, STATUS_PROTOCOL, "unknown_command"},
};

static const struct {
    const struct meaning *rows;
    size_t count;
} meanings[] = {[COUNTER_TEXT] = {pool_meanings, ARRAY_SIZE(pool_meanings)},
                [COUNTER_BINARY] = {binary_meanings, ARRAY_SIZE(binary_meanings)},
                [COUNTER_JOBS] = {jobs_meanings, ARRAY_SIZE(jobs_meanings)}};

static const struct meaning *meaning_of(const struct answer *answer)
{
    static const struct meaning unknown = {0, STATUS_PROTOCOL, NULL};
    enum counter_protocol wire = answer->protocol->wire;
    int is = wire == COUNTER_BINARY ? (int)answer->binary.status
             : wire == COUNTER_JOBS ? (int)answer->jobs.answer
                                    : (int)answer->pool.reply;
    for (size_t i = 0; i < meanings[wire].count; i++)
        if (meanings[wire].rows[i].answer == is)
            return &meanings[wire].rows[i];
    return &unknown;
}

enum status answer_status(const struct answer *answer)
{
    return meaning_of(answer)->status;
}

const char *answer_word(const struct answer *answer)
{
    const char *word = meaning_of(answer)->text;
    return word ? word : "unknown";
}

void answer_explain(struct text *to, const struct answer *answer)
{
    enum counter_protocol wire = answer->protocol->wire;
    const char *text =
        wire == COUNTER_BINARY ? ctr_status_text(answer->binary.status) : meaning_of(answer)->text;
    if (wire == COUNTER_BINARY && !*text) {
        text_addf(to, "an unknown status, 0x%02x", answer->binary.status);
    } else if (text) {
        text_addf(to, "%s", text);
    } else if (wire == COUNTER_JOBS && answer->jobs.answer == BS_ANSWER_READ_ONLY) {
        text_addf(to, "the tube is read-only: ");
        text_add_name(to, answer->jobs.reason);
    } else if (wire == COUNTER_TEXT && answer->pool.reply == POOL_REPLY_BAD_VALUE) {
        text_addf(to, "the value of ");
        text_add_name(to, answer->pool.bad_value);
        text_addf(to, " is wrong, or the pool has no such option");
    } else {
        text_add_name(to,
                      bytes_at(answer->line.data, answer->line.len < 200 ? answer->line.len : 200));
    }
}

enum status answer_refused(const struct client *client, const struct answer *answer,
                           const char *format, ...)
{
    struct text said = {0};
    va_list values;
    va_start(values, format);
    text_vaddf(&said, format, values);
    va_end(values);
    text_addf(&said, ": %s answers: ", client->where);
    answer_explain(&said, answer);
    complain("%s", text_str(&said));
    text_free(&said);
    return answer_status(answer);
}

/* ---- job queues ------------------------------------------------------------------------------ */

struct bs_request kind_request(void)
{
    return (struct bs_request){.verb = BS_VERB_TUBE, .tube = bytes_of("default")};
}

bool answer_is_plain(const struct answer *answer)
{
    return answer->jobs.answer == BS_ANSWER_UNKNOWN_COMMAND;
}

enum status open_jobs(struct client *client, const struct protocol *protocol,
                      struct invocation *invocation, bool *is_plain_r)
{
    struct bs_request request = kind_request();
    struct answer answer;
    enum status status = client_open(client, protocol, invocation);
    if (status == STATUS_OK) {
        ask_jobs(client, &request, (struct bytes){0}, 0, NULL, NULL);
        status = client_hear(client, client->options->io_timeout_ns, &answer);
    }
    *is_plain_r = status == STATUS_OK && answer_is_plain(&answer);
    return status;
}

struct bytes dictionary_value(struct bytes dictionary, const char *key)
{
    struct bs_entry entry;
    while (bs_next_entry(&dictionary, &entry))
        if (bytes_equal(entry.key, bytes_of(key)))
            return entry.value;
    return (struct bytes){0};
}

uint64_t dictionary_number(struct bytes dictionary, const char *key)
{
    uint64_t number;
    return number_parse(dictionary_value(dictionary, key), UINT64_MAX, &number) ? number : 0;
}

bool check_tube(const char *who, const char *given)
{
    if (bs_is_tube_name(bytes_of(given)))
        return true;
    return complain(
        "%s: \"%.*s\" is not the name of a tube: 1 to %d of A-Z a-z 0-9 - + / ; . $ _ ( ), "
        "the first of them no dash",
        who, 100, given, BS_TUBE_MAX);
}
