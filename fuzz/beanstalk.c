/*
 * beanstalk.c - tests the codec of job queues: requests, records, answers, lists and dictionaries.
 *
 * The first byte chooses among them. The rest is what a peer sends, or the parts of a message to
 * compose. Requests come in parts of the size of the second byte.
 *
 * Promises: however a stream is cut, its lines are parsed to the same; a parsed message has only
 * words of its line, within their bounds; composing it gives a line that is parsed to the same
 * message; composing any request gives nothing or a line that is parsed to the same request; a
 * composed line never exceeds its buffer.
 */
#include "proto/beanstalk.h"
#include "fuzz/fuzz.h"

/* More than composing a parsed message can add: decimals of two times. */
#define ADDED 16

/* ---- Comparing ------------------------------------------------------------------------------ */

static bool same(struct bytes a, struct bytes b)
{
    return same_bytes(a.data, a.len, b.data, b.len);
}

static bool same_options(const struct bs_put_options *a, const struct bs_put_options *b)
{
    return same(a->key, b->key) && same(a->root, b->root) && a->at_ms == b->at_ms &&
           a->root_ms == b->root_ms && a->tries == b->tries && a->has_at == b->has_at &&
           a->has_tries == b->has_tries && a->at_whole == b->at_whole &&
           a->root_whole == b->root_whole;
}

static bool same_own(const struct bs_request *a, const struct bs_request *b)
{
    const struct bs_settings *s = &a->settings, *t = &b->settings;
    switch (a->verb) {
    case BS_VERB_TUBE:
        return s->given == t->given && s->order == t->order && s->claim == t->claim &&
               s->tries == t->tries && s->limit == t->limit && s->prune_s == t->prune_s &&
               s->remember_s == t->remember_s && same(s->read_only, t->read_only);
    case BS_VERB_CLAIM:
        return same(a->tubes, b->tubes);
    case BS_VERB_READY:
        return same(a->ready.after, b->ready.after) && a->ready.prefix == b->ready.prefix;
    default:
        return same_options(&a->options, &b->options);
    }
}

static bool same_request(const struct bs_request *a, const struct bs_request *b)
{
    return a->verb == b->verb && a->state == b->state && a->pri == b->pri &&
           a->delay_s == b->delay_s && a->ttr_s == b->ttr_s && a->body_len == b->body_len &&
           a->seconds == b->seconds && a->count == b->count && a->id == b->id &&
           a->token == b->token && same(a->tube, b->tube) && same_own(a, b);
}

/* ---- Bounds --------------------------------------------------------------------------------- */

/* Checks that a word lies in the line. */
static void check_word(struct bytes line, struct bytes word, size_t max)
{
    CHECK(word.len <= max);
    if (word.len == 0)
        return;
    CHECK(word.data >= line.data && word.len <= line.len);
    CHECK((size_t)(word.data - line.data) <= line.len - word.len);
}

static void check_name(struct bytes line, struct bytes word, size_t max)
{
    static const char name_bytes[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+/;.$_()";
    check_word(line, word, max);
    for (size_t i = 0; i < word.len; i++)
        CHECK(word.data[i] && strchr(name_bytes, word.data[i]));
}

static void check_options(struct bytes line, const struct bs_put_options *options)
{
    check_name(line, options->key, BS_KEY_MAX);
    check_name(line, options->root, BS_KEY_MAX);
    CHECK(options->at_ms >= 0 && options->at_ms <= BS_TIME_MAX_MS);
    CHECK(options->root_ms >= 0 && options->root_ms <= BS_TIME_MAX_MS);
    CHECK(!options->at_whole || options->at_ms % 1000 == 0);
    CHECK(!options->root_whole || options->root_ms % 1000 == 0);
}

static void check_settings(struct bytes line, const struct bs_settings *settings)
{
    CHECK(settings->given < 128 && settings->order <= BS_ORDER_RANDOM);
    CHECK(settings->claim <= BS_CLAIM_LEASE && settings->remember_s <= BS_REMEMBER_MAX);
    check_word(line, settings->read_only, BS_REASON_MAX);
    for (size_t i = 0; i < settings->read_only.len; i++) {
        uint8_t byte = settings->read_only.data[i];
        CHECK(byte >= 32 && byte <= 126 && byte != '"' && byte != '\\');
    }
}

static void check_tubes(struct bytes line, struct bytes tubes)
{
    check_word(line, tubes, BS_NEW_LINE_MAX);
    size_t len = 0;
    for (struct bytes name; bs_next_tube(&tubes, &name); len += name.len + 1) {
        CHECK(bs_is_tube_name(name));
        check_name(line, name, BS_TUBE_MAX);
    }
    CHECK(tubes.len == 0);
}

static void check_request(struct bytes line, const struct bs_request *req)
{
    CHECK((size_t)req->verb < BS_VERB_COUNT && req->state < BS_STATE_COUNT);
    check_name(line, req->tube, BS_TUBE_MAX);
    CHECK(req->tube.len == 0 || bs_is_tube_name(req->tube));
    switch (req->verb) {
    case BS_VERB_TUBE:
        check_settings(line, &req->settings);
        break;
    case BS_VERB_CLAIM:
        CHECK(req->count >= 1 && req->count <= BS_COUNT_MAX);
        check_tubes(line, req->tubes);
        break;
    case BS_VERB_READY:
        CHECK(req->count >= 1 && req->count <= BS_COUNT_MAX);
        check_name(line, req->ready.after, BS_TUBE_MAX);
        break;
    case BS_VERB_PUT_BATCH:
    case BS_VERB_LIST_JOBS:
        CHECK(req->count >= 1 && req->count <= BS_COUNT_MAX);
        break;
    case BS_VERB_RESERVE_WITH_TIMEOUT:
        CHECK(req->seconds <= BS_WAIT_MAX);
        break;
    default:
        check_options(line, &req->options);
    }
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Composes a request in a buffer of any size and of exactly the length. Checks that it is parsed
 * again. Returns the length. */
static size_t check_composed(const struct bs_request *req, size_t room)
{
    uint8_t *to = malloc(room);
    CHECK(to);
    size_t len = bs_compose_request(req, to, room), used;
    CHECK(len <= room);
    if (len > 0) {
        struct bs_request again;
        CHECK(len <= BS_NEW_LINE_MAX && to[len - 2] == '\r' && to[len - 1] == '\n');
        CHECK(bs_parse_request(to, len, &again, &used) == BS_PARSED && used == len);
        CHECK(same_request(req, &again));
        check_request(bytes_at(to, len), &again);
        uint8_t *tight = malloc(len);
        CHECK(tight);
        CHECK(bs_compose_request(req, tight, len) == len && memcmp(to, tight, len) == 0);
        CHECK(bs_compose_request(req, tight, len - 1) == 0);
        free(tight);
    }
    free(to);
    return len;
}

/* What a stream gave: a letter for each line, and where it ended. */
struct seen {
    size_t count;
    size_t ends[4096];
    char letters[4096];
};

static void see(struct seen *seen, char letter, size_t end)
{
    CHECK(seen->count < sizeof(seen->letters));
    seen->ends[seen->count] = end;
    seen->letters[seen->count++] = letter;
}

/* Takes what `part`, which begins at `at` of the stream, has at its front. Returns false when it
 * needs more, or the connection ends. */
static bool take_line(struct bytes part, size_t at, bool *skipping, struct seen *seen,
                      size_t *used_r)
{
    struct bs_request req;
    if (*skipping) {
        bool ended = bs_skip_line(part.data, part.len, used_r);
        CHECK(*used_r <= part.len && (ended || part.len - *used_r <= 1));
        *skipping = !ended;
        if (ended)
            see(seen, 'b', at + *used_r);
        return ended;
    }
    enum bs_parsed parsed = bs_parse_request(part.data, part.len, &req, used_r);
    CHECK(*used_r <= part.len && (*used_r == 0) == (parsed == BS_MORE));
    switch (parsed) {
    case BS_MORE:
        CHECK(part.len < BS_NEW_LINE_MAX);
        return false;
    case BS_TOO_LONG:
        *skipping = true;
        return true;
    case BS_WEB:
    case BS_BAD_FORMAT_CLOSE:
        see(seen, parsed == BS_WEB ? 'w' : 'c', 0);
        return false;
    case BS_PARSED:
        check_request(part, &req);
        CHECK(check_composed(&req, *used_r + ADDED) > 0);
        see(seen, 'p', at + *used_r);
        return true;
    case BS_BAD_FORMAT:
    case BS_UNKNOWN_COMMAND:
        see(seen, parsed == BS_BAD_FORMAT ? 'b' : 'u', at + *used_r);
        return true;
    }
    return false;
}

static void feed(struct bytes stream, size_t step, struct seen *seen)
{
    size_t at = 0, have = 0;
    bool skipping = false;
    seen->count = 0;
    while (have < stream.len) {
        have = stream.len - have < step ? stream.len : have + step;
        for (bool again = true; again && at < have;) {
            size_t used, count = seen->count;
            uint8_t *part = exact_copy(stream.data + at, have - at);
            again = take_line(bytes_at(part, have - at), at, &skipping, seen, &used);
            free(part);
            at += used;
            if (seen->count > count && strchr("cw", seen->letters[count]))
                return;
        }
    }
}

static void check_requests(struct input *in)
{
    static struct seen whole, cut;
    size_t step = (size_t)input_byte(in) + 1;
    struct bytes stream = bytes_at(in->at, in->left < 4000 ? in->left : 4000);
    feed(stream, stream.len + 1, &whole);
    feed(stream, step, &cut);
    CHECK(whole.count == cut.count && memcmp(whole.letters, cut.letters, cut.count) == 0);
    CHECK(memcmp(whole.ends, cut.ends, cut.count * sizeof(cut.ends[0])) == 0);
}

/* ---- Records -------------------------------------------------------------------------------- */

static void check_records(struct input *in)
{
    struct bs_record record, again;
    for (size_t used; in->left > 0; (void)input_bytes(in, used, &used)) {
        uint8_t *exact = exact_copy(in->at, in->left);
        enum bs_parsed parsed = bs_parse_record(exact, in->left, &record, &used);
        CHECK(used <= in->left);
        if (parsed == BS_PARSED) {
            uint8_t to[BS_NEW_LINE_MAX + ADDED];
            size_t len = bs_compose_record(&record, to, sizeof(to)), again_used;
            check_options(bytes_at(exact, in->left), &record.options);
            CHECK(len > 0 && len <= used + ADDED);
            CHECK(bs_parse_record(to, len, &again, &again_used) == BS_PARSED && again_used == len);
            CHECK(record.pri == again.pri && record.delay_s == again.delay_s &&
                  record.ttr_s == again.ttr_s && record.body_len == again.body_len &&
                  same_options(&record.options, &again.options));
            CHECK(bs_compose_record(&record, to, len - 1) == 0);
        } else {
            CHECK(parsed == BS_BAD_FORMAT || (parsed == BS_MORE && used == 0));
        }
        free(exact);
        if (used == 0)
            break;
    }
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void check_reply(struct bytes line, const struct bs_reply *reply)
{
    CHECK((size_t)reply->answer < BS_ANSWER_COUNT && reply->state < BS_STATE_ALL);
    check_name(line, reply->tube, BS_TUBE_MAX);
    check_word(line, reply->reason, BS_REPLY_ROOM);
    CHECK(reply->has_body || reply->body_len == 0);
    uint8_t to[BS_REPLY_ROOM];
    struct bs_reply again;
    size_t len = bs_compose_reply(reply, to, sizeof(to)), used;
    CHECK(len > 0 && bs_compose_reply(reply, to, len - 1) == 0);
    CHECK(bs_compose_reply(reply, to, len) == len);
    CHECK(bs_parse_reply(to, len, &again, &used) == BS_PARSED && used == len);
    CHECK(reply->answer == again.answer && reply->has_body == again.has_body &&
          reply->state == again.state && reply->body_len == again.body_len &&
          reply->id == again.id && reply->count == again.count && reply->next == again.next &&
          reply->token == again.token && reply->try == again.try && same(reply->tube, again.tube) &&
          same(reply->reason, again.reason));
}

static void check_replies(struct input *in)
{
    for (size_t used; in->left > 0; (void)input_bytes(in, used, &used)) {
        struct bs_reply reply;
        uint8_t *exact = exact_copy(in->at, in->left);
        enum bs_parsed parsed = bs_parse_reply(exact, in->left, &reply, &used);
        CHECK(used <= in->left);
        if (parsed == BS_PARSED)
            check_reply(bytes_at(exact, used), &reply);
        else
            CHECK(parsed == BS_BAD_FORMAT || (parsed == BS_MORE && used == 0));
        /* A part of it is incomplete, and nothing else. */
        if (used > 0) {
            struct bs_reply ignored;
            size_t ignored_used;
            CHECK(bs_parse_reply(exact, used - 1, &ignored, &ignored_used) == BS_MORE);
        }
        free(exact);
        if (used == 0)
            break;
    }
}

/* ---- Lists and dictionaries ----------------------------------------------------------------- */

static void check_entries(struct input *in)
{
    uint8_t *exact = exact_copy(in->at, in->left);
    struct bytes text = bytes_at(exact, in->left);
    struct bs_entry entry;
    while (bs_next_entry(&text, &entry)) {
        check_word(bytes_at(exact, in->left), entry.key, in->left);
        check_word(bytes_at(exact, in->left), entry.value, in->left);
    }
    CHECK(text.len <= in->left);
    free(exact);
}

/* What is composed of any bytes is one entry again. */
static void compose_entries(struct input *in)
{
    uint8_t to[1024];
    struct bs_entry entry;
    uint64_t number = input_number(in, 8);
    struct bytes value = bytes_at(in->at, in->left < 900 ? in->left : 900), text;
    size_t len = bs_compose_quoted("key", value, to, sizeof(to));
    text = bytes_at(to, len);
    CHECK(len == value.len + 8 && bs_next_entry(&text, &entry) && text.len == 0);
    CHECK(same(entry.key, bytes_of("key")) && entry.value.len == value.len);
    CHECK(bs_compose_quoted("key", value, to, len - 1) == 0);
    len = bs_compose_string("key", value, to, sizeof(to));
    text = bytes_at(to, len);
    CHECK(bs_next_entry(&text, &entry) && text.len == 0 && entry.value.len == value.len);
    CHECK(bs_compose_string("key", value, to, len - 1) == 0);
    len = bs_compose_micros("key", number, to, BS_ENTRY_ROOM);
    text = bytes_at(to, len);
    CHECK(len > 0 && bs_next_entry(&text, &entry) && text.len == 0);
    if (!bs_is_tube_name(value))
        return;
    len = bs_compose_ready(value, number, to, BS_ENTRY_ROOM);
    text = bytes_at(to, len);
    CHECK(len > 0 && bs_next_entry(&text, &entry) && text.len == 0 && same(entry.key, value));
    len = bs_compose_item(value, to, BS_ENTRY_ROOM);
    text = bytes_at(to, len);
    CHECK(len > 0 && bs_next_entry(&text, &entry) && text.len == 0 && same(entry.value, value));
}

/* ---- Composing ------------------------------------------------------------------------------ */

static struct bytes any_bytes(struct input *in)
{
    size_t len;
    const uint8_t *at = input_bytes(in, input_byte(in), &len);
    return bytes_at(at, len);
}

static void any_options(struct input *in, struct bs_put_options *options)
{
    unsigned flags = input_byte(in);
    options->has_at = flags & 1;
    options->has_tries = flags & 2;
    options->at_whole = flags & 4;
    options->root_whole = flags & 8;
    options->at_ms = flags & 16 ? (int64_t)input_number(in, 6) : 0;
    options->root_ms = flags & 32 ? (int64_t)input_number(in, 8) : 0;
    options->tries = flags & 64 ? (uint32_t)input_number(in, 4) : 0;
    options->key = any_bytes(in);
    options->root = any_bytes(in);
}

static void any_settings(struct input *in, struct bs_settings *settings)
{
    settings->given = input_byte(in);
    settings->order = (enum bs_order)(input_byte(in) % 4);
    settings->claim = (enum bs_claim)(input_byte(in) % 3);
    settings->tries = input_byte(in);
    settings->limit = input_byte(in);
    settings->prune_s = input_byte(in);
    settings->remember_s = (uint32_t)input_number(in, 4);
    settings->read_only = any_bytes(in);
}

/* Most fields are zero, as most verbs want them: a bit for each says which are not. */
static void compose_any_request(struct input *in)
{
    struct bs_request req = {.verb = (enum bs_verb)(input_byte(in) % (BS_VERB_COUNT + 1))};
    unsigned flags = (unsigned)input_number(in, 2);
    req.state = flags & 1 ? (enum bs_state)(input_byte(in) % (BS_STATE_COUNT + 1)) : BS_STATE_NONE;
    req.pri = flags & 2 ? (uint32_t)input_number(in, 4) : 0;
    req.delay_s = flags & 4 ? (uint32_t)input_number(in, 4) : 0;
    req.ttr_s = flags & 8 ? (uint32_t)input_number(in, 4) : 0;
    req.body_len = flags & 16 ? (uint32_t)input_number(in, 4) : 0;
    req.seconds = flags & 32 ? (uint32_t)input_number(in, 4) : 0;
    req.count = flags & 64 ? (uint32_t)input_number(in, 2) : 0;
    req.id = flags & 128 ? input_number(in, 8) : 0;
    req.token = flags & 256 ? input_number(in, 8) : 0;
    if (flags & 512)
        req.tube = any_bytes(in);
    if (req.verb == BS_VERB_TUBE)
        any_settings(in, &req.settings);
    else if (req.verb == BS_VERB_CLAIM)
        req.tubes = any_bytes(in);
    else if (req.verb == BS_VERB_READY) {
        req.ready.prefix = flags & 1024;
        req.ready.after = any_bytes(in);
    } else if (flags & 2048)
        any_options(in, &req.options);
    (void)check_composed(&req, 1024);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    switch (input_byte(&in) % 6) {
    case 0:
        check_requests(&in);
        break;
    case 1:
        check_records(&in);
        break;
    case 2:
        check_replies(&in);
        break;
    case 3:
        check_entries(&in);
        break;
    case 4:
        compose_entries(&in);
        break;
    default:
        compose_any_request(&in);
    }
    return 0;
}
