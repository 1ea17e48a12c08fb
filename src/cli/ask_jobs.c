/*
 * ask_jobs.c - the client of job queues (ask_jobs.h).
 */
#include "cli/ask_jobs.h"

#include "base/number.h"
#include "cli/print.h"

/* ---- requests ---------------------------------------------------------------------------- */

/* The most bytes that are accepted as the body of this answer. */
static uint32_t body_max(const struct client *client, enum bs_answer answer)
{
    if (answer != BS_ANSWER_OK)
        return ASK_JOBS_BODY_MAX;
    bool is_list = client->count > 0 && client->asks[0].kind == BS_VERB_LIST_TUBES;
    return is_list ? ASK_JOBS_LIST_MAX : ASK_JOBS_DICTIONARY_MAX;
}

static size_t take_answer(struct client *client, struct bytes data)
{
    struct jobs_answer answer = {0};
    size_t used;
    enum bs_parsed parsed = bs_parse_reply(data.data, data.len, &answer.reply, &used);
    /* Lines of other protocols end without a carriage return: they would never be complete. */
    if (parsed == BS_MORE && !memchr(data.data, '\n', data.len))
        return 0;
    if (parsed != BS_PARSED)
        return client_refuse(client);
    answer.line = bytes_at(data.data, used - 2);
    if (answer.reply.has_body) {
        size_t len = answer.reply.body_len;
        if (len > body_max(client, answer.reply.answer))
            return client_refuse_as(client, "its answer announces more bytes than any server's");
        if (data.len - used < len + 2)
            return 0;
        answer.body = bytes_at(data.data + used, len);
        if (memcmp(data.data + used + len, "\r\n", 2) != 0)
            return client_refuse(client);
        used += len + 2;
    }
    if (client->count > 0)
        client_answer(client, &answer);
    return used;
}

const struct protocol protocol_jobs = {.name = "protocol of job queues",
                                       .port = PORT_JOBS,
                                       .parts_max = BS_COUNT_MAX + 1, /* of list-jobs */
                                       .take = take_answer};

void ask_jobs(struct client *client, struct bs_request *request, struct bytes body,
              int64_t timeout_ns, answer_handler *on_answer, void *owner)
{
    static uint8_t line[BS_NEW_LINE_MAX];
    bool has_body = request->verb == BS_VERB_PUT || request->verb == BS_VERB_PUT_INTO;
    CHECK(body.len <= ASK_JOBS_BODY_MAX && (has_body || body.len == 0));
    request->body_len = (uint32_t)body.len;
    size_t len = bs_compose_request(request, line, sizeof line);
    CHECK(len > 0);
    client_ask(client,
               (struct ask){.on_answer = on_answer,
                            .owner = owner,
                            .timeout_ns = timeout_ns,
                            .kind = (uint8_t)request->verb},
               line, len);
    if (has_body && client->link.state == LINK_UP)
        link_send(&client->link, body.data, body.len);
    if (has_body && client->link.state == LINK_UP)
        link_send(&client->link, "\r\n", 2);
}

enum status ask_jobs_wait(struct client *client, struct bs_request *request,
                          struct jobs_answer *answer_r)
{
    ask_jobs(client, request, (struct bytes){0}, client->link.options->io_timeout_ns, client_keep,
             client_expect(client, answer_r, sizeof *answer_r));
    return client_wait(client);
}

void ask_jobs_kind(struct client *client, answer_handler *on_answer, void *owner)
{
    struct bs_request request = {.verb = BS_VERB_TUBE, .tube = bytes_of("default")};
    ask_jobs(client, &request, (struct bytes){0}, client->link.options->io_timeout_ns, on_answer,
             owner);
}

bool ask_jobs_is_plain(const struct jobs_answer *answer)
{
    return answer->reply.answer == BS_ANSWER_UNKNOWN_COMMAND;
}

/* ---- dictionaries ------------------------------------------------------------------------ */

struct bytes ask_jobs_value(struct bytes dictionary, const char *key)
{
    struct bs_entry entry;
    while (bs_next_entry(&dictionary, &entry))
        if (bytes_equal(entry.key, bytes_of(key)))
            return entry.value;
    return (struct bytes){0};
}

uint64_t ask_jobs_number(struct bytes dictionary, const char *key)
{
    uint64_t number;
    return number_parse(ask_jobs_value(dictionary, key), UINT64_MAX, &number) ? number : 0;
}

/* ---- words and refusals ------------------------------------------------------------------ */

bool ask_jobs_check_tube(const char *who, const char *given)
{
    if (bs_is_tube_name(bytes_of(given)))
        return true;
    struct text shown = {0};
    text_add_shown(&shown, given);
    complain("%s: \"%.*s\" is not the name of a tube: 1 to %d of A-Z a-z 0-9 - + / ; . $ _ ( ), "
             "the first of them no dash",
             who, 100, text_str(&shown), BS_TUBE_MAX);
    text_free(&shown);
    return false;
}

/* The exit status for each refusal, and what it means for people. */
static const struct meaning {
    enum bs_answer answer;
    enum status status;
    const char *text;
} meanings[] = {
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
    {BS_ANSWER_UNKNOWN_COMMAND, STATUS_NO,
     "it does not know this request: is it a beanstalkd, or too old?"},
};

void ask_jobs_explain(struct text *to, const struct jobs_answer *answer)
{
    if (answer->reply.answer == BS_ANSWER_READ_ONLY) {
        text_addf(to, "the tube is read-only: ");
        text_add_name(to, answer->reply.reason);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
        if (meanings[i].answer == answer->reply.answer) {
            text_addf(to, "%s", meanings[i].text);
            return;
        }
    }
    text_add_name(to, bytes_at(answer->line.data, answer->line.len < 200 ? answer->line.len : 200));
}

enum status ask_jobs_status(const struct jobs_answer *answer)
{
    if (answer->reply.answer == BS_ANSWER_READ_ONLY)
        return STATUS_UNAVAILABLE;
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (meanings[i].answer == answer->reply.answer)
            return meanings[i].status;
    return STATUS_PROTOCOL;
}

enum status ask_jobs_refused(const struct client *client, const char *what,
                             const struct jobs_answer *answer)
{
    struct text said = {0};
    ask_jobs_explain(&said, answer);
    complain("%s: %s answers: %s", what, client->link.where, text_str(&said));
    text_free(&said);
    return ask_jobs_status(answer);
}
