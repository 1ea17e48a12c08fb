/*
 * job-answers.c - see job-answers.h. The requests are found in what the client sent as the server
 * must find them: a put's body is skipped by its length.
 */
#include "fuzz/job-answers.h"
#include "fuzz/fuzz.h"
#include "proto/beanstalk.h"

#define TOKEN_MAX (UINT64_C(9007199254740991))
#define BATCH_MAX (UINT32_C(16) << 20)

/* ---- requests ------------------------------------------------------------------------------- */

struct asked {
    enum bs_parsed parsed; /* PARSED; MORE: there is no further answer; else what is wrong */
    struct bs_request req;
    bool too_big;  /* its body is skipped */
    bool has_crlf; /* after the body */
    bool last;     /* the server closes after the answer */
};

static bool has_body(const struct bs_request *req)
{
    return req->verb == BS_VERB_PUT || req->verb == BS_VERB_PUT_INTO ||
           req->verb == BS_VERB_PUT_BATCH;
}

static void take_body(struct bytes *sent, struct asked *a)
{
    size_t len = a->req.body_len;
    uint32_t most = a->req.verb == BS_VERB_PUT_BATCH ? BATCH_MAX : JOB_SIZE_MAX;
    if (sent->len < len + 2) {
        a->parsed = BS_MORE;
        return;
    }
    a->too_big = len > most;
    a->has_crlf = memcmp(sent->data + len, "\r\n", 2) == 0;
    a->last = !a->too_big && !a->has_crlf;
    (void)bytes_take(sent, len + 2);
}

/* Takes the rest of a line that is too long. */
static enum bs_parsed take_rest(struct bytes *sent)
{
    bool ended = false;
    for (size_t used = 1; !ended && used > 0;) {
        ended = bs_skip_line(sent->data, sent->len, &used);
        (void)bytes_take(sent, used);
    }
    return ended ? BS_TOO_LONG : BS_MORE;
}

static void next_request(struct bytes *sent, struct asked *a)
{
    size_t used;
    *a = (struct asked){.last = false};
    a->parsed = bs_parse_request(sent->data, sent->len, &a->req, &used);
    (void)bytes_take(sent, used);
    if (a->parsed == BS_PARSED && has_body(&a->req))
        take_body(sent, a);
    else if (a->parsed == BS_TOO_LONG)
        a->parsed = take_rest(sent);
    else if (a->parsed == BS_BAD_FORMAT_CLOSE)
        a->last = true;
    else if (a->parsed == BS_WEB || (a->parsed == BS_PARSED && a->req.verb == BS_VERB_QUIT))
        a->parsed = BS_MORE; /* it closes without an answer */
}

/* ---- which answers a verb may have ---------------------------------------------------------- */

#define ONE(name)  (UINT64_C(1) << BS_ANSWER_##name)
#define PUT_ERRORS (ONE(EXPECTED_CRLF) | ONE(JOB_TOO_BIG) | ONE(DRAINING) | ONE(OUT_OF_MEMORY))
#define NEW_ERRORS (PUT_ERRORS | ONE(READ_ONLY) | ONE(TUBE_FULL))
#define WAITED     (ONE(TIMED_OUT) | ONE(OUT_OF_MEMORY))

static const uint64_t answers_of[BS_VERB_COUNT] = {
    [BS_VERB_PUT] = ONE(INSERTED) | PUT_ERRORS,
    [BS_VERB_PUT_INTO] = ONE(INSERTED) | ONE(DUPLICATE) | NEW_ERRORS,
    [BS_VERB_PUT_BATCH] = ONE(OK) | ONE(BAD_FORMAT) | NEW_ERRORS,
    [BS_VERB_RESERVE] = ONE(RESERVED) | ONE(DEADLINE_SOON) | WAITED,
    [BS_VERB_RESERVE_WITH_TIMEOUT] = ONE(RESERVED) | ONE(DEADLINE_SOON) | WAITED,
    [BS_VERB_RESERVE_JOB] = ONE(RESERVED) | ONE(NOT_FOUND),
    [BS_VERB_CLAIM] = ONE(CLAIMED) | ONE(READ_ONLY) | WAITED,
    [BS_VERB_READY] = ONE(OK) | WAITED,
    [BS_VERB_DELETE] = ONE(DELETED) | ONE(NOT_FOUND),
    [BS_VERB_ACK] = ONE(DELETED) | ONE(NOT_FOUND),
    [BS_VERB_RELEASE] = ONE(RELEASED) | ONE(BURIED) | ONE(NOT_FOUND),
    [BS_VERB_NACK] = ONE(RELEASED) | ONE(BURIED) | ONE(NOT_FOUND),
    [BS_VERB_BURY] = ONE(BURIED) | ONE(NOT_FOUND),
    [BS_VERB_TOUCH] = ONE(TOUCHED) | ONE(NOT_FOUND),
    [BS_VERB_RENEW] = ONE(TOUCHED) | ONE(NOT_FOUND),
    [BS_VERB_USE] = ONE(USING) | ONE(OUT_OF_MEMORY),
    [BS_VERB_WATCH] = ONE(WATCHING) | ONE(OUT_OF_MEMORY),
    [BS_VERB_IGNORE] = ONE(WATCHING) | ONE(NOT_IGNORED),
    [BS_VERB_KICK] = ONE(KICKED),
    [BS_VERB_KICK_JOB] = ONE(JOB_KICKED) | ONE(NOT_FOUND),
    [BS_VERB_PEEK] = ONE(FOUND) | ONE(NOT_FOUND),
    [BS_VERB_PEEK_READY] = ONE(FOUND) | ONE(NOT_FOUND),
    [BS_VERB_PEEK_DELAYED] = ONE(FOUND) | ONE(NOT_FOUND),
    [BS_VERB_PEEK_BURIED] = ONE(FOUND) | ONE(NOT_FOUND),
    [BS_VERB_STATS] = ONE(OK) | ONE(OUT_OF_MEMORY),
    [BS_VERB_STATS_JOB] = ONE(OK) | ONE(OUT_OF_MEMORY) | ONE(NOT_FOUND),
    [BS_VERB_STATS_TUBE] = ONE(OK) | ONE(OUT_OF_MEMORY) | ONE(NOT_FOUND),
    [BS_VERB_LIST_TUBES] = ONE(OK) | ONE(OUT_OF_MEMORY),
    [BS_VERB_LIST_TUBES_WATCHED] = ONE(OK) | ONE(OUT_OF_MEMORY),
    [BS_VERB_LIST_TUBE_USED] = ONE(USING),
    [BS_VERB_PAUSE_TUBE] = ONE(PAUSED) | ONE(NOT_FOUND),
    [BS_VERB_TUBE] = ONE(OK) | ONE(NOT_FOUND) | ONE(OUT_OF_MEMORY),
    [BS_VERB_LIST_JOBS] = ONE(LISTED) | ONE(NOT_FOUND) | ONE(OUT_OF_MEMORY),
    [BS_VERB_CLEAR] = ONE(CLEARED) | ONE(NOT_FOUND) | ONE(READ_ONLY) | ONE(OUT_OF_MEMORY),
};

static uint64_t answers_to(const struct asked *a)
{
    if (a->parsed == BS_UNKNOWN_COMMAND)
        return ONE(UNKNOWN_COMMAND);
    if (a->parsed != BS_PARSED)
        return ONE(BAD_FORMAT);
    if (!has_body(&a->req))
        return answers_of[a->req.verb];
    if (a->too_big)
        return ONE(JOB_TOO_BIG);
    if (!a->has_crlf)
        return ONE(EXPECTED_CRLF);
    uint64_t all = answers_of[a->req.verb];
    return a->req.verb == BS_VERB_PUT_BATCH ? all : all & ~(ONE(EXPECTED_CRLF) | ONE(JOB_TOO_BIG));
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Takes an answer and its body. Returns false at the end, or when it is not complete. */
static bool next_answer(struct bytes *got, bool cut, struct bs_reply *reply_r, struct bytes *body_r)
{
    size_t used;
    if (got->len == 0)
        return false;
    enum bs_parsed parsed = bs_parse_reply(got->data, got->len, reply_r, &used);
    CHECK(parsed == BS_PARSED || (parsed == BS_MORE && cut));
    if (parsed == BS_MORE)
        return false;
    (void)bytes_take(got, used);
    *body_r = bytes_at(got->data, reply_r->body_len);
    if (!reply_r->has_body)
        return true;
    CHECK(got->len >= (size_t)reply_r->body_len + 2 || cut);
    if (got->len < (size_t)reply_r->body_len + 2)
        return false;
    CHECK(memcmp(got->data + reply_r->body_len, "\r\n", 2) == 0);
    (void)bytes_take(got, (size_t)reply_r->body_len + 2);
    return true;
}

static void check_text(struct bytes text, const struct bs_request *req)
{
    struct bs_entry entry;
    struct bs_reply item;
    uint64_t count = 0, id = 0;
    CHECK(text.len >= sizeof(BS_TEXT_START) - 1 && text.data[text.len - 1] == '\n');
    for (; bs_next_entry(&text, &entry); count++) {
        if (req->verb != BS_VERB_PUT_BATCH)
            continue;
        CHECK(bs_parse_reply_line(entry.value, &item));
        CHECK(item.answer == BS_ANSWER_INSERTED || item.answer == BS_ANSWER_DUPLICATE);
        CHECK(item.answer == BS_ANSWER_DUPLICATE || item.id > id);
        id = item.answer == BS_ANSWER_INSERTED ? item.id : id;
    }
    CHECK(text.len == 0);
    CHECK(req->verb != BS_VERB_PUT_BATCH || count == req->count);
    CHECK(req->verb != BS_VERB_READY || (count > 0 && count <= req->count));
}

/* Checks the jobs behind CLAIMED and LISTED. Returns false at the end of what was got. */
static bool check_jobs(struct bytes *got, bool cut, const struct bs_reply *head,
                       const struct bs_request *req)
{
    struct bs_reply job;
    struct bytes body;
    uint64_t after = req->id;
    CHECK(head->count <= req->count);
    for (uint64_t n = 0; n < head->count; n++) {
        bool is = next_answer(got, cut, &job, &body);
        CHECK(is || cut);
        if (!is)
            return false;
        if (head->answer == BS_ANSWER_CLAIMED) {
            CHECK(job.answer == BS_ANSWER_CLAIMED_JOB && job.try > 0);
            CHECK(job.token > 0 && job.token <= TOKEN_MAX);
            continue;
        }
        CHECK(job.answer == BS_ANSWER_LISTED_JOB && job.id > after);
        CHECK(job.state == req->state || req->state == BS_STATE_ALL ||
              (req->state == BS_STATE_BURIED && job.state == BS_STATE_ABANDONED));
        after = job.id;
    }
    CHECK(head->answer == BS_ANSWER_CLAIMED || head->next == 0 || head->next == after);
    return true;
}

static bool names_a_job(enum bs_verb verb)
{
    return verb == BS_VERB_PEEK || verb == BS_VERB_RESERVE_JOB;
}

void job_answers_check(struct bytes sent, struct bytes got, bool cut)
{
    struct asked a = {.last = false};
    struct bs_reply reply;
    struct bytes body;
    uint64_t inserted = 0;
    while (next_answer(&got, cut, &reply, &body)) {
        CHECK(!a.last);
        next_request(&sent, &a);
        CHECK(a.parsed != BS_MORE);
        CHECK(answers_to(&a) >> reply.answer & 1);
        if (a.parsed != BS_PARSED)
            continue;
        if (reply.answer == BS_ANSWER_OK)
            check_text(body, &a.req);
        if ((reply.answer == BS_ANSWER_CLAIMED || reply.answer == BS_ANSWER_LISTED) &&
            !check_jobs(&got, cut, &reply, &a.req))
            return;
        if (reply.answer == BS_ANSWER_INSERTED) {
            CHECK(reply.id > inserted);
            inserted = reply.id;
        }
        CHECK(reply.answer == BS_ANSWER_NOT_FOUND || !names_a_job(a.req.verb) ||
              reply.id == a.req.id);
        CHECK(reply.answer != BS_ANSWER_KICKED || reply.count <= a.req.count);
    }
}

uint64_t job_answers_token(struct bytes got)
{
    struct bs_reply reply;
    struct bytes body;
    uint64_t token = 0;
    while (next_answer(&got, true, &reply, &body))
        token = reply.answer == BS_ANSWER_CLAIMED_JOB ? reply.token : token;
    return token;
}
