/*
 * batch.c - `counterctl batch`: executes commands of the binary protocol from standard input, over
 * one connection, which holds what they acquire. For each input line it prints
 * one line, without delay.
 *
 * Blanks separate words. In a name, blanks, controls and backslashes are escaped, as in our output
 * (text.h). We watch the connection while we wait for input: with the connection, all that it held
 * is lost.
 */
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/print.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The longest line: a name with every byte escaped, and the other words. */
#define LINE_MAX_LEN ((size_t)4 * CTR_NAME_MAX + 256)
#define READ_SIZE    65536
#define WORDS_MAX    4

struct batch {
    const struct options *options;
    struct client client;
    struct text input; /* bytes read and not yet executed */
    size_t number;     /* line number */
    bool is_skipping;  /* skipping the rest of a line that is too long */
    bool any_no, any_error;
};

/* ---- answers --------------------------------------------------------------------------------- */

/* Answers that the line is wrong. */
PRINTF_LIKE(2, 3)
static void answer_error(struct batch *batch, const char *format, ...)
{
    struct text why = {0};
    va_list values;
    va_start(values, format);
    text_vadd_shown(&why, format, values);
    va_end(values);
    batch->any_error = true;
    if (batch->options->json)
        json_print({"ok", json_false()}, {"status", json_string("error")},
                   {"line", json_count(batch->number)}, {"message", json_string(text_str(&why))});
    else
        printf("error line %zu: %s\n", batch->number, text_str(&why));
    text_free(&why);
}

/* The statistics of a reply. */
static json_t *stats_of(struct bytes body)
{
    struct bytes name, value;
    json_t *stats = json_object();
    while (ctr_reply_stat(&body, &name, &value)) {
        struct text key = {0};
        text_add_name(&key, name);
        json_object_set_new(stats, text_str(&key), json_name(value));
        text_free(&key);
    }
    return stats;
}

static void print_stats(struct bytes body)
{
    struct bytes name, value;
    struct text text = {0};
    while (ctr_reply_stat(&body, &name, &value)) {
        text_addf(&text, " ");
        text_add_name(&text, name);
        text_addf(&text, "=");
        text_add_name(&text, value);
    }
    fputs(text_str(&text), stdout);
    text_free(&text);
}

static void answer_json(const char *word, const struct ctr_request *request,
                        const struct answer *reply)
{
    uint32_t units;
    struct bytes name = request->name;
    bool is_ok = reply->binary.status == CTR_STATUS_SUCCESS;
    bool has_units = ctr_reply_number(&reply->binary, &units);
    json_print(
        {"ok", json_boolean(is_ok)}, {"command", json_string(word)},
        {"status", json_string(answer_word(reply))},
        {"name", name.len > 0 ? json_name(name) : NULL},
        {"id", name.len > 0 ? json_id(name) : NULL},
        {"units", has_units ? json_count(units) : NULL},
        {"stats", is_ok && request->opcode == CTR_STATS ? stats_of(reply->binary.body) : NULL});
}

static void say_answer(struct batch *batch, const char *word, const struct ctr_request *request,
                       const struct answer *reply)
{
    uint32_t units;
    bool is_ok = reply->binary.status == CTR_STATUS_SUCCESS;
    const char *why = ctr_status_text(reply->binary.status);
    batch->any_no |= !is_ok;
    if (batch->options->json) {
        answer_json(word, request, reply);
        return;
    }
    fputs(is_ok ? "ok" : "no ", stdout);
    if (!is_ok)
        fputs(*why ? why : "unknown status", stdout);
    else if (ctr_reply_number(&reply->binary, &units))
        printf(" %u", units);
    else if (request->opcode == CTR_STATS)
        print_stats(reply->binary.body);
    putchar('\n');
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A command of a batch, and the positions of its words. */
struct batch_command {
    const char *word;
    uint8_t opcode;
    size_t arguments;
    const char *usage;
};

static const struct batch_command batch_commands[] = {
    {"acquire", CTR_ACQUIRE, 3, "acquire NAME UNITS MAX"},
    {"release", CTR_RELEASE, 2, "release NAME UNITS"},
    {"get", CTR_GET, 1, "get NAME"},
    {"stats", CTR_STATS, 0, "stats"},
    {"noop", CTR_NOOP, 0, "noop"},
};

static const struct batch_command *find_command(struct bytes word)
{
    for (size_t i = 0; i < ARRAY_SIZE(batch_commands); i++)
        if (bytes_equal(word, bytes_of(batch_commands[i].word)))
            return &batch_commands[i];
    return NULL;
}

/* Splits a line at blanks. Returns the number of words; keeps only the first WORDS_MAX + 1. */
static size_t split(struct bytes line, struct bytes *words)
{
    size_t count = 0;
    for (size_t i = 0; i < line.len;) {
        if (line.data[i] == ' ' || line.data[i] == '\t') {
            i++;
            continue;
        }
        size_t start = i;
        while (i < line.len && line.data[i] != ' ' && line.data[i] != '\t')
            i++;
        if (count <= WORDS_MAX)
            words[count] = bytes_at(line.data + start, i - start);
        count++;
    }
    return count;
}

/* Makes a request from the words of a line. Returns false after answering that the line is wrong.
 */
static bool make_request(struct batch *batch, const struct batch_command *command,
                         const struct bytes *words, struct text *name, struct ctr_request *request)
{
    struct text reason = {0};
    *request = (struct ctr_request){.opcode = command->opcode};
    if (command->arguments > 0 &&
        !parse_name((const char *)words[1].data, words[1].len, true, name, &reason)) {
        answer_error(batch, "the name is wrong: %s", text_str(&reason));
        text_free(&reason);
        return false;
    }
    request->name = command->arguments > 0 ? text_bytes(name) : (struct bytes){0};
    uint32_t least = command->opcode == CTR_ACQUIRE ? 1 : 0;
    if (command->arguments > 1 && !parse_number(words[2], least, UINT32_MAX, &request->units)) {
        answer_error(batch, "UNITS is not a whole number from %u to %u", least, UINT32_MAX);
        return false;
    }
    if (command->arguments > 2 &&
        !parse_number(words[3], request->units, UINT32_MAX, &request->maximum)) {
        answer_error(batch, "MAX is not a whole number from UNITS to %u", UINT32_MAX);
        return false;
    }
    return true;
}

/* Executes one line. Any status but STATUS_OK ends the batch. */
static enum status execute(struct batch *batch, struct bytes line)
{
    struct bytes words[WORDS_MAX + 1];
    batch->number++;
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    size_t count = split(line, words);
    if (count == 0 || words[0].data[0] == '#')
        return STATUS_OK;
    const struct batch_command *command = find_command(words[0]);
    enum status status = STATUS_OK;
    if (!command) {
        struct text shown = {0};
        text_add_name(&shown, bytes_at(words[0].data, words[0].len < 100 ? words[0].len : 100));
        answer_error(batch,
                     "no such command: \"%s\"; acquire, release, get, stats and "
                     "noop are",
                     text_str(&shown));
        text_free(&shown);
    } else if (count != command->arguments + 1) {
        answer_error(batch, "not of the form \"%s\"", command->usage);
    } else {
        struct text name = {0};
        struct ctr_request request;
        struct answer reply;
        bool good = make_request(batch, command, words, &name, &request);
        if (good)
            status = ask_binary(&batch->client, &request, &reply);
        if (good && status == STATUS_OK)
            say_answer(batch, command->word, &request, &reply);
        text_free(&name);
    }
    return print_end(status);
}

/* Executes all complete lines of the input; at its end also the last, incomplete one. */
static enum status execute_lines(struct batch *batch, bool is_end)
{
    size_t at = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && at < batch->input.len) {
        const uint8_t *line = (const uint8_t *)batch->input.data + at;
        const uint8_t *end = memchr(line, '\n', batch->input.len - at);
        size_t len = end ? (size_t)(end - line) : batch->input.len - at;
        if (!end && !is_end && len <= LINE_MAX_LEN && !batch->is_skipping)
            break;
        at += len + (end ? 1 : 0);
        if (!batch->is_skipping && len > LINE_MAX_LEN) {
            batch->number++;
            answer_error(batch, "it is longer than %zu bytes", LINE_MAX_LEN);
            status = print_end(STATUS_OK);
        } else if (!batch->is_skipping) {
            status = execute(batch, bytes_at(line, len));
        }
        /* No line end yet: the next bytes belong to the same line. */
        batch->is_skipping = !end && (batch->is_skipping || len > LINE_MAX_LEN);
    }
    memmove(batch->input.data, batch->input.data + at, batch->input.len - at);
    batch->input.len -= at;
    return status;
}

/* ---- input ----------------------------------------------------------------------------------- */

/* Reads once. STATUS_OK: *is_end_r is true at the end of the input. */
static enum status read_input(struct batch *batch, bool *is_end_r)
{
    static char data[READ_SIZE];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return STATUS_OK;
    if (n < 0)
        return complain_as(STATUS_OUTPUT, "can't read standard input: %s", strerrordesc_np(errno));
    *is_end_r = n == 0;
    text_add(&batch->input, data, (size_t)n);
    return STATUS_OK;
}

static bool on_notice(void *owner, const struct answer *answer)
{
    const struct client *client = owner;
    (void)answer;
    complain("%s: the server sent an answer without a request", client->where);
    loop_end(client->loop, STATUS_PROTOCOL);
    return true;
}

/* Waits for input; fails when the connection is lost meanwhile. */
static enum status wait_input(struct batch *batch)
{
    batch->client.on_end = client_lost;
    batch->client.on_notice = on_notice;
    enum status status = client_wait_input(&batch->client, STDIN_FILENO);
    batch->client.on_end = NULL;
    batch->client.on_notice = NULL;
    return status;
}

static enum status execute_input(struct batch *batch)
{
    bool is_end = false;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !is_end) {
        status = wait_input(batch);
        if (status == STATUS_OK)
            status = read_input(batch, &is_end);
        if (status == STATUS_OK)
            status = execute_lines(batch, is_end);
    }
    return status;
}

int do_batch(struct invocation *invocation)
{
    struct batch batch = {.options = &invocation->options};
    enum status status = client_open(&batch.client, &protocol_binary, invocation);
    batch.client.owner = &batch.client;
    if (status == STATUS_OK)
        status = execute_input(&batch);
    client_finish(&batch.client);
    text_free(&batch.input);
    if (status != STATUS_OK)
        return (int)status;
    return batch.any_error ? STATUS_USAGE : batch.any_no ? STATUS_NO : STATUS_OK;
}
