/* jobs.c - the codec of job queues (proto/beanstalk.h): requests, records, answers, entries. */
#include "proto/beanstalk.h"
#include "t/vectors/vectors.h"

#include <stdio.h>

static const char *const results[] = {
    [BS_PARSED] = PARSED,
    [BS_MORE] = MORE,
    [BS_BAD_FORMAT] = "BAD_FORMAT",
    [BS_BAD_FORMAT_CLOSE] = "CLOSE",
    [BS_UNKNOWN_COMMAND] = "UNKNOWN_COMMAND",
    [BS_TOO_LONG] = DROPPED,
    [BS_WEB] = "WEB",
};

#define ROW(name, word) #name,
static const char *const states[] = {"NONE", BS_STATES(ROW) NULL};
#undef ROW

/* ---- Requests -------------------------------------------------------------------------------- */

/* Goes through the names of a claim, which must be all of its text. */
static void check_tubes(struct bytes tubes)
{
    size_t left = tubes.len;
    for (struct bytes name; bs_next_tube(&tubes, &name); left -= left > 0) {
        if (!bs_is_tube_name(name))
            fail("a claim names no tube");
        left -= name.len;
    }
    if (left > 0 || tubes.len > 0)
        fail("%zu bytes of a claim are no names", left);
}

static const char *parse_request(struct stream *stream, const uint8_t *data, size_t len,
                                 struct message *message, size_t *used_r)
{
    struct bs_request *req = (void *)message->body;
    if (stream->skipping) {
        stream->skipping = !bs_skip_line(data, len, used_r);
        return stream->skipping ? DROPPED : results[BS_BAD_FORMAT];
    }
    enum bs_parsed parsed = bs_parse_request(data, len, req, used_r);
    stream->skipping = parsed == BS_TOO_LONG;
    message->kind = req->verb;
    if (parsed == BS_PARSED && req->verb == BS_VERB_CLAIM)
        check_tubes(req->tubes);
    if (parsed == BS_PARSED && req->tube.len > 0 && !bs_is_tube_name(req->tube))
        fail("a tube has a name that none may have");
    return results[parsed];
}

static size_t compose_request(const struct message *message, uint8_t *to, size_t room)
{
    struct bs_request req = *(const struct bs_request *)(const void *)message->body;
    req.verb = (enum bs_verb)message->kind;
    return bs_compose_request(&req, to, room);
}

static const char *const orders[] = {"priority", "fifo", "random", NULL};
static const char *const claims[] = {"connection", "lease", NULL};

#define OPTIONS(of)                                                                                \
    FIELD(BYTES, of, options.key), FIELD(FLAG, of, options.has_at),                                \
        FIELD(NUMBER, of, options.at_ms), FIELD(FLAG, of, options.at_whole),                       \
        FIELD(BYTES, of, options.root), FIELD(NUMBER, of, options.root_ms),                        \
        FIELD(FLAG, of, options.root_whole), FIELD(FLAG, of, options.has_tries),                   \
        FIELD(NUMBER, of, options.tries)

static const struct field *request_fields(size_t kind)
{
    static const struct field options[] = {OPTIONS(struct bs_request), {0}};
    static const struct field settings[] = {FIELD(NUMBER, struct bs_request, settings.given),
                                            WORDS(struct bs_request, settings.order, orders),
                                            WORDS(struct bs_request, settings.claim, claims),
                                            FIELD(NUMBER, struct bs_request, settings.tries),
                                            FIELD(NUMBER, struct bs_request, settings.limit),
                                            FIELD(NUMBER, struct bs_request, settings.prune_s),
                                            FIELD(NUMBER, struct bs_request, settings.remember_s),
                                            FIELD(BYTES, struct bs_request, settings.read_only),
                                            {0}};
    static const struct field tubes[] = {FIELD(BYTES, struct bs_request, tubes), {0}};
    static const struct field ready[] = {FIELD(FLAG, struct bs_request, ready.prefix),
                                         FIELD(BYTES, struct bs_request, ready.after),
                                         {0}};
    return kind == BS_VERB_TUBE    ? settings
           : kind == BS_VERB_CLAIM ? tubes
           : kind == BS_VERB_READY ? ready
                                   : options;
}

const struct codec jobs_request = {
    .name = "jobs.request",
#define ROW(name, word) #name,
    .kinds = (const char *const[]){BS_VERBS(ROW)},
#undef ROW
    .kind_count = BS_VERB_COUNT,
    .fields = (const struct field[]){WORDS(struct bs_request, state, states),
                                     FIELD(NUMBER, struct bs_request, pri),
                                     FIELD(NUMBER, struct bs_request, delay_s),
                                     FIELD(NUMBER, struct bs_request, ttr_s),
                                     FIELD(NUMBER, struct bs_request, body_len),
                                     FIELD(NUMBER, struct bs_request, seconds),
                                     FIELD(NUMBER, struct bs_request, count),
                                     FIELD(NUMBER, struct bs_request, id),
                                     FIELD(NUMBER, struct bs_request, token),
                                     FIELD(BYTES, struct bs_request, tube),
                                     {0}},
    .own_fields = request_fields,
    .parse = parse_request,
    .compose = compose_request,
};

/* ---- Records --------------------------------------------------------------------------------- */

/* A line that is too long has no end that anybody could find. */
static const char *result_of(enum bs_parsed parsed, size_t used)
{
    return parsed == BS_BAD_FORMAT && used == 0 ? "TOO_LONG" : results[parsed];
}

static const char *parse_record(struct stream *stream, const uint8_t *data, size_t len,
                                struct message *message, size_t *used_r)
{
    (void)stream;
    message->kind = 0;
    enum bs_parsed parsed = bs_parse_record(data, len, (void *)message->body, used_r);
    return result_of(parsed, *used_r);
}

static size_t compose_record(const struct message *message, uint8_t *to, size_t room)
{
    return message->kind == 0 ? bs_compose_record((const void *)message->body, to, room) : 0;
}

const struct codec jobs_record = {
    .name = "jobs.record",
    .kinds = (const char *const[]){"RECORD"},
    .kind_count = 1,
    .fields = (const struct field[]){FIELD(NUMBER, struct bs_request, pri),
                                     FIELD(NUMBER, struct bs_request, delay_s),
                                     FIELD(NUMBER, struct bs_request, ttr_s),
                                     FIELD(NUMBER, struct bs_request, body_len),
                                     OPTIONS(struct bs_request),
                                     {0}},
    .parse = parse_record,
    .compose = compose_record,
};

/* ---- Answers --------------------------------------------------------------------------------- */

static const char *parse_reply(struct stream *stream, const uint8_t *data, size_t len,
                               struct message *message, size_t *used_r)
{
    (void)stream;
    struct bs_reply *reply = (void *)message->body;
    enum bs_parsed parsed = bs_parse_reply(data, len, reply, used_r);
    message->kind = reply->answer;
    return result_of(parsed, *used_r);
}

static size_t compose_reply(const struct message *message, uint8_t *to, size_t room)
{
    struct bs_reply reply = *(const struct bs_reply *)(const void *)message->body;
    reply.answer = (enum bs_answer)message->kind;
    size_t len = bs_compose_reply(&reply, to, room);
    struct bytes line = bs_answer_line(reply.answer);
    if (line.len > 0 && len > 0 && !bytes_equal(line, bytes_at(to, len)))
        fail("the answer has two lines");
    return len;
}

const struct codec jobs_reply = {
    .name = "jobs.reply",
#define ROW(name, word) #name,
    .kinds = (const char *const[]){BS_ANSWERS(ROW) "INSERTED", "RESERVED", "CLAIMED_JOB", "FOUND",
                                   "LISTED_JOB", "UNREADABLE_JOB", "OK", "USING", "WATCHING",
                                   "KICKED", "DUPLICATE", "CLAIMED", "LISTED", "CLEARED",
                                   "READ_ONLY", "PUT_BURIED"},
#undef ROW
    .kind_count = BS_ANSWER_COUNT,
    .fields = (const struct field[]){FIELD(FLAG, struct bs_reply, has_body),
                                     WORDS(struct bs_reply, state, states),
                                     FIELD(NUMBER, struct bs_reply, body_len),
                                     FIELD(NUMBER, struct bs_reply, id),
                                     FIELD(NUMBER, struct bs_reply, count),
                                     FIELD(NUMBER, struct bs_reply, next),
                                     FIELD(NUMBER, struct bs_reply, token),
                                     FIELD(NUMBER, struct bs_reply, try),
                                     FIELD(BYTES, struct bs_reply, tube),
                                     FIELD(BYTES, struct bs_reply, reason),
                                     {0}},
    .parse = parse_reply,
    .compose = compose_reply,
    .takes_any_parts = true,
};

/* ---- Lists and dictionaries ------------------------------------------------------------------ */

enum { ENTRY, ITEM, INSERTED, DUPLICATE, COUNT, MICROS, WORD, STRING, QUOTED, READY_TUBE };

struct entry {
    struct bytes key, value;
    uint64_t number;
};

/* What is taken of a text; the "---" before an entry is part of it. */
static const char *parse_entry(struct stream *stream, const uint8_t *data, size_t len,
                               struct message *message, size_t *used_r)
{
    (void)stream;
    struct bytes text = bytes_at(data, len);
    struct bs_entry entry;
    bool is_entry = bs_next_entry(&text, &entry);
    message->kind = ENTRY;
    memset(message->body, 0, sizeof(message->body));
    if (is_entry)
        *(struct entry *)(void *)message->body = (struct entry){entry.key, entry.value, 0};
    if (text.len > 0 && text.data + text.len != data + len)
        fail("the rest is not behind the entry");
    *used_r = is_entry || text.len == 0 ? len - text.len : len;
    return is_entry ? PARSED : text.len > 0 ? "WRONG" : "END";
}

static size_t compose_entry(const struct message *message, uint8_t *to, size_t room)
{
    const struct entry *entry = (const void *)message->body;
    char key[BS_TUBE_MAX + 1];
    snprintf(key, sizeof(key), "%.*s", (int)entry->key.len, (const char *)entry->key.data);
    switch (message->kind) {
    case ITEM:
        return bs_compose_item(entry->value, to, room);
    case INSERTED:
    case DUPLICATE:
        return bs_compose_item_put(message->kind == INSERTED ? BS_ANSWER_INSERTED
                                                             : BS_ANSWER_DUPLICATE,
                                   entry->number, to, room);
    case COUNT:
        return bs_compose_number(key, entry->number, to, room);
    case MICROS:
        return bs_compose_micros(key, entry->number, to, room);
    case WORD:
        return bs_compose_word(key, entry->value, to, room);
    case STRING:
        return bs_compose_string(key, entry->value, to, room);
    case QUOTED:
        return bs_compose_quoted(key, entry->value, to, room);
    case READY_TUBE:
        return bs_compose_ready(entry->key, entry->number, to, room);
    default:
        return 0;
    }
}

static bool is_for_reading(const struct message *message)
{
    return message->kind == ENTRY;
}

const struct codec jobs_entry = {
    .name = "jobs.entry",
    .kinds = (const char *const[]){"ENTRY", "ITEM", "INSERTED", "DUPLICATE", "NUMBER", "MICROS",
                                   "WORD", "STRING", "QUOTED", "READY"},
    .kind_count = READY_TUBE + 1,
    .rooms = (const size_t[READY_TUBE + 1]){[INSERTED] = BS_ENTRY_ROOM,
                                            [DUPLICATE] = BS_ENTRY_ROOM,
                                            [COUNT] = BS_ENTRY_ROOM,
                                            [MICROS] = BS_ENTRY_ROOM,
                                            [READY_TUBE] = BS_ENTRY_ROOM},
    .fields = (const struct field[]){FIELD(BYTES, struct entry, key),
                                     FIELD(BYTES, struct entry, value),
                                     FIELD(NUMBER, struct entry, number),
                                     {0}},
    .parse = parse_entry,
    .compose = compose_entry,
    .is_for_reading = is_for_reading,
    .is_whole = true,
    .takes_any_parts = true,
};

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *parse_name(struct stream *stream, const uint8_t *data, size_t len,
                              struct message *message, size_t *used_r)
{
    (void)stream;
    message->kind = 0;
    *used_r = len;
    return bs_is_tube_name(bytes_at(data, len)) ? PARSED : "WRONG";
}

const struct codec jobs_name = {
    .name = "jobs.name",
    .kinds = (const char *const[]){"NAME"},
    .kind_count = 1,
    .parse = parse_name,
    .is_whole = true,
};
