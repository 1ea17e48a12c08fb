/* answer.c - see answer.h. */
#include "lib/answer.h"

#include "base/number.h"
#include "proto/beanstalk.h"
#include "proto/counter.h"

#include <stdio.h>

/* What a server says that does not do what it was asked: one or two words. */
static const struct {
    const char *text;
    unsigned by; /* who may be told it */
    int status;
} refused[] = {
    {"TIMEOUT", SAYS_TIMEOUT, COUNTER_BUSY},
    {"QUEUE_FULL", SAYS_TIMEOUT, COUNTER_QUEUE_FULL},
    {"LOCK_HELD", SAYS_LOCK_HELD, COUNTER_TOO_MANY},
    {"NOT_FOUND", SAYS_NOT_FOUND, COUNTER_NOT_FOUND},
    {"READ_ONLY", SAYS_READ_ONLY, COUNTER_READ_ONLY},
    {"TUBE_FULL", SAYS_PUT, COUNTER_QUEUE_FULL},
    {"JOB_TOO_BIG", SAYS_PUT, COUNTER_TOO_BIG},
    {"DRAINING", SAYS_PUT, COUNTER_DRAINING},
    {"ERROR BAD_SYNTAX", SAYS_ANY, COUNTER_USAGE},
    {"ERROR LINE_TOO_LONG", SAYS_ANY, COUNTER_USAGE},
    {"BAD_FORMAT", SAYS_ANY, COUNTER_USAGE},
    {"ERROR BAD_COMMAND", SAYS_ANY, COUNTER_UNSUPPORTED},
    {"UNKNOWN_COMMAND", SAYS_ANY, COUNTER_UNSUPPORTED},
    {"ERROR SHUTTING_DOWN", SAYS_ANY, COUNTER_DRAINING},
    {"ERROR DENIED", SAYS_ANY, COUNTER_DENIED},
    {"ERROR NO_POOL", SAYS_ANY, COUNTER_NOT_FOUND},
    {"ERROR NO_MEMBER", SAYS_ANY, COUNTER_NOT_FOUND},
    {"ERROR WRONG_KIND", SAYS_ANY, COUNTER_WRONG},
    {"ERROR BAD_VALUE", SAYS_ANY, COUNTER_WRONG},
    {"ERROR TOO_MANY", SAYS_ANY, COUNTER_TOO_MANY},
    {"ERROR OUT_OF_MEMORY", SAYS_ANY, COUNTER_NO_MEMORY},
    {"OUT_OF_MEMORY", SAYS_ANY, COUNTER_NO_MEMORY},
    {"ERROR ENGINE_AWAY", SAYS_ANY, COUNTER_ENGINE_AWAY},
    {"ERROR ENGINE_FULL", SAYS_ANY, COUNTER_ENGINE_AWAY},
    {"ERROR INTERNAL_ERROR", SAYS_ANY, COUNTER_UNANSWERED},
    {"INTERNAL_ERROR", SAYS_ANY, COUNTER_UNANSWERED},
};

static int refuse(struct counter_error *error, int status, struct bytes answer)
{
    failure_set(error, status, "the server refused it");
    failure_answer(error, answer);
    error->sent = true;
    return status;
}

int answer_malformed(struct counter_error *error, struct bytes what, const char *reason)
{
    failure_set(error, COUNTER_MALFORMED, "%s", reason);
    failure_answer(error, what);
    error->sent = true;
    return COUNTER_MALFORMED;
}

struct bytes answer_word(struct bytes *rest, char end)
{
    const uint8_t *found = rest->len > 0 ? memchr(rest->data, end, rest->len) : NULL;
    struct bytes word = bytes_at(rest->data, found ? (size_t)(found - rest->data) : rest->len);
    (void)bytes_take(rest, word.len + (found ? 1 : 0));
    return word;
}

/* Does the line begin with this word, or these words? */
static bool says(struct bytes line, const char *text)
{
    return bytes_take_text(&line, text) && (line.len == 0 || line.data[0] == ' ');
}

int answer_split(struct bytes line, const struct good *good, unsigned refusals,
                 struct answer *answer_r, struct counter_error *error)
{
    *answer_r = (struct answer){.line = line};
    while (good->word && !says(line, good->word))
        good++;
    if (good->word) {
        unsigned count = 0;
        for (struct bytes rest = line; rest.len > 0 && count < ANSWER_WORDS; count++)
            answer_r->words[count] = answer_word(&rest, ' ');
        if (count >= good->least)
            return COUNTER_OK;
    } else if (refusals != 0) {
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
            if ((refused[i].by & refusals) && says(line, refused[i].text))
                return refuse(error, refused[i].status, line);
        }
    }
    return answer_malformed(error, line, "the server's answer is outside the protocol");
}

bool answer_body(const struct answer *answer, uint64_t max_body, size_t *size_r,
                 struct counter_error *error)
{
    bool is_ok = says(answer->line, "OK");
    uint64_t size = 0;
    *size_r = SIZE_MAX;
    if (!is_ok && !says(answer->line, "RESERVED") && !says(answer->line, "FOUND"))
        return true;
    struct bytes word = answer->words[is_ok ? 1 : 2];
    if (!answer_number(word, 0, is_ok ? ANSWER_OK_MAX : max_body, &size)) {
        answer_malformed(error, answer->line,
                         "the server announced a body that is too long: for "
                         "longer bodies of jobs, set max_body");
        return false;
    }
    *size_r = (size_t)size;
    return true;
}

void answer_code(uint8_t code, struct bytes body, struct counter_error *error)
{
    char said[FAILURE_QUOTED_MAX];
    int len = snprintf(said, sizeof(said), "0x%02x %.*s", code, body.len < 64 ? (int)body.len : 64,
                       (const char *)body.data);
    failure_answer(error, bytes_at(said, (size_t)len));
}

int answer_refused(uint8_t code, struct bytes body, struct counter_error *error)
{
    static const struct {
        uint8_t code;
        int status;
    } statuses[] = {{CTR_STATUS_INVALID, COUNTER_USAGE},
                    {CTR_STATUS_NOT_AVAILABLE, COUNTER_BUSY},
                    {CTR_STATUS_UNKNOWN_COMMAND, COUNTER_UNSUPPORTED},
                    {CTR_STATUS_OUT_OF_MEMORY, COUNTER_NO_MEMORY}};
    int status = COUNTER_MALFORMED;
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
        if (statuses[i].code == code)
            status = statuses[i].status;
    }
    failure_set(error, status, "the server refused it");
    answer_code(code, body, error);
    error->sent = true;
    return status;
}

bool answer_number(struct bytes word, uint64_t low, uint64_t top, uint64_t *value_r)
{
    return word.len <= 19 && number_parse(word, top, value_r) && *value_r >= low;
}

bool answer_start(struct bytes *text)
{
    return bytes_take_text(text, BS_TEXT_START);
}

bool answer_entry(struct bytes *text, struct entry *entry_r)
{
    struct bs_entry found;
    if (text->len == 0 || !bs_next_entry(text, &found))
        return false;
    *entry_r = (struct entry){.key = found.key, .value = found.value};
    bool is_quoted = found.value.len > 0 && found.value.data[-1] == '"';
    entry_r->is_number =
        !is_quoted && answer_number(found.value, 0, ANSWER_NUMBER_MAX, &entry_r->number);
    return true;
}
