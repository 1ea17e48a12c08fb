/*
 * pools.c - tests the codec of the pool verbs: requests, replies, lines of members files.
 *
 * The first byte chooses among them. The rest is lines, or the parts of a message to compose.
 *
 * Promises: the text protocol knows none of these verbs; a parsed message has only words of the
 * line, within their bounds; composing it gives a line that is parsed to the same message;
 * superfluous words are refused; composing any request gives nothing or a line that is parsed to
 * the same request; a composed line never exceeds its buffer.
 */
#include "proto/pools.h"
#include "fuzz/fuzz.h"
#include "proto/poolcounter.h"

/* More than composing a parsed message can add: "0." before a fraction, ".000", "note=". */
#define ADDED 64

/* ---- Comparing ------------------------------------------------------------------------------ */

static bool same(struct bytes a, struct bytes b)
{
    return same_bytes(a.data, a.len, b.data, b.len);
}

static bool same_pairs(const struct pool_pair *a, const struct pool_pair *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!same(a[i].key, b[i].key) || !same(a[i].value, b[i].value))
            return false;
    }
    return true;
}

static bool same_request(const struct pool_request *a, const struct pool_request *b)
{
    if (a->target_count != b->target_count || a->pair_count != b->pair_count)
        return false;
    for (size_t i = 0; i < a->target_count; i++) {
        if (!same(a->targets[i], b->targets[i]))
            return false;
    }
    return a->verb == b->verb && a->take_for == b->take_for && a->count == b->count &&
           a->timeout_ns == b->timeout_ns && same(a->group, b->group) && same(a->by, b->by) &&
           a->has_fence == b->has_fence && a->fence == b->fence && a->failed == b->failed &&
           a->now == b->now && a->mine == b->mine && a->has_value == b->has_value &&
           a->has_note == b->has_note && a->has_state == b->has_state && a->init == b->init &&
           a->max == b->max && same(a->pool, b->pool) && same(a->member, b->member) &&
           same(a->value, b->value) && same(a->note, b->note) && same(a->state, b->state) &&
           same_pairs(a->pairs, b->pairs, a->pair_count);
}

/* ---- Bounds --------------------------------------------------------------------------------- */

/* Checks a word of a line: its place, its length and its bytes. */
static void check_word(struct bytes line, struct bytes word, size_t min, size_t max)
{
    CHECK(word.len >= min && word.len <= max);
    if (word.len == 0)
        return;
    CHECK(word.data >= line.data && word.len <= line.len);
    CHECK((size_t)(word.data - line.data) <= line.len - word.len);
    for (size_t i = 0; i < word.len; i++)
        CHECK(word.data[i] != ' ' && word.data[i] != '\r' && word.data[i] != '\n' && word.data[i]);
}

static void check_pool_name(struct bytes line, struct bytes name)
{
    check_word(line, name, 1, POOLS_NAME_MAX);
    CHECK(name.data[0] != '@' && name.data[0] != '*' && !memchr(name.data, ',', name.len));
}

static void check_pairs(struct bytes line, const struct pool_pair *pairs, size_t count, size_t max,
                        bool are_attributes)
{
    CHECK(count <= max);
    for (size_t i = 0; i < count; i++) {
        check_word(line, pairs[i].key, 1, are_attributes ? POOLS_KEY_MAX : SIZE_MAX);
        check_word(line, pairs[i].value, 0, are_attributes ? POOLS_ATTR_MAX : SIZE_MAX);
        for (size_t k = 0; k < i; k++)
            CHECK(!same(pairs[i].key, pairs[k].key));
        for (size_t k = 0; are_attributes && k < pairs[i].key.len; k++)
            CHECK(strchr("abcdefghijklmnopqrstuvwxyz_0123456789", pairs[i].key.data[k]));
    }
}

static void check_take(struct bytes line, const struct pool_request *req)
{
    CHECK((req->target_count == 0) == (req->group.len > 0));
    CHECK(req->target_count <= POOLS_TARGETS_MAX);
    CHECK(req->count >= 1 && req->count <= POOLS_COUNT_MAX);
    CHECK(req->timeout_ns >= 0 && req->timeout_ns <= POOLS_TIMEOUT_MAX_NS);
    CHECK(req->member.len == 0 || (req->count == 1 && req->target_count == 1));
    if (req->group.len > 0)
        check_pool_name(line, req->group);
    for (size_t i = 0; i < req->target_count; i++) {
        check_pool_name(line, req->targets[i]);
        for (size_t k = 0; k < i; k++)
            CHECK(!same(req->targets[i], req->targets[k]));
    }
    check_word(line, req->member, 0, POOLS_NAME_MAX);
    check_word(line, req->by, 0, POOLS_BY_MAX);
    check_pairs(line, req->pairs, req->pair_count, POOLS_WITH_MAX, true);
}

static void check_request(struct bytes line, const struct pool_request *req)
{
    CHECK((size_t)req->verb < POOL_VERB_COUNT && req->init <= req->max);
    bool has_options = req->verb == POOL_VERB_POOL_ADD || req->verb == POOL_VERB_POOL_SET;
    if (req->verb == POOL_VERB_TAKE)
        check_take(line, req);
    else
        check_pairs(line, req->pairs, req->pair_count,
                    has_options ? POOLS_OPTIONS_MAX : POOLS_ATTRS_MAX, !has_options);
    if (req->pool.len > 0)
        check_pool_name(line, req->pool);
    check_word(line, req->member, 0, POOLS_NAME_MAX);
    check_word(line, req->value, 0, POOLS_VALUE_MAX);
    check_word(line, req->note, 0, POOLS_NOTE_MAX);
    check_word(line, req->state, 0, SIZE_MAX);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* Composes a request in a buffer of any size and of exactly the length. Checks that it is parsed
 * again. Returns the length. */
static size_t check_composed(const struct pool_request *req, size_t room)
{
    uint8_t *to = malloc(room);
    CHECK(to);
    size_t len = pool_compose_request(req, to, room);
    CHECK(len <= room);
    if (len > 0) {
        struct pool_request again;
        CHECK(to[len - 1] == '\n');
        CHECK(pool_parse_request(bytes_at(to, len - 1), &again) == POOL_PARSED);
        CHECK(same_request(req, &again));
        check_request(bytes_at(to, len - 1), &again);
        uint8_t *tight = malloc(len);
        CHECK(tight);
        CHECK(pool_compose_request(req, tight, len) == len && memcmp(to, tight, len) == 0);
        CHECK(pool_compose_request(req, tight, len - 1) == 0);
        free(tight);
    }
    free(to);
    return len;
}

/* Parses a line with more bytes after it. */
static enum pool_parsed parse_with(struct bytes line, const char *more)
{
    size_t len = line.len + strlen(more);
    uint8_t *longer = malloc(len);
    CHECK(longer);
    memcpy(longer, line.data, line.len);
    memcpy(longer + line.len, more, strlen(more));
    struct pool_request ignored;
    enum pool_parsed parsed = pool_parse_request(bytes_at(longer, len), &ignored);
    free(longer);
    return parsed;
}

static void check_request_line(struct bytes line)
{
    struct pool_request req;
    enum pool_parsed parsed = pool_parse_request(line, &req);
    if (parsed != POOL_BAD_COMMAND) {
        uint8_t *ended = malloc(line.len + 1);
        CHECK(ended);
        memcpy(ended, line.data, line.len);
        ended[line.len] = '\n';
        struct pc_request ignored;
        size_t used;
        CHECK(pc_parse_request(ended, line.len + 1, line.len, &ignored, &used) == PC_BAD_COMMAND);
        free(ended);
    }
    if (parsed != POOL_PARSED)
        return;
    check_request(line, &req);
    CHECK(parse_with(line, "  ") == POOL_PARSED);
    /* No verb has two more words without "=" at its end. */
    CHECK(parse_with(line, " x x") == POOL_BAD_SYNTAX);
    CHECK(parse_with(line, " \r") == POOL_BAD_SYNTAX);
    CHECK(check_composed(&req, line.len + ADDED) > 0);
}

static size_t compose_answer(const struct pool_answer *answer, uint8_t *to, size_t room)
{
    switch (answer->reply) {
    case POOL_REPLY_BAD_VALUE:
        return pool_compose_bad_value(answer->bad_value, to, room);
    case POOL_REPLY_TAKEN:
        return pool_compose_taken(&answer->taken, to, room);
    case POOL_REPLY_WANT:
        return pool_compose_want(&answer->want, to, room);
    case POOL_REPLY_STOP:
        return pool_compose_stop(&answer->stop, to, room);
    case POOL_REPLY_LOST:
        return pool_compose_lost(answer->lost, to, room);
    case POOL_REPLY_EVENT:
        return pool_compose_event(&answer->event, to, room);
    case POOL_REPLY_POOL:
        return pool_compose_pool(&answer->pool, to, room);
    case POOL_REPLY_MEMBER:
        return pool_compose_member(&answer->member, to, room);
    default:
        return pool_compose_waiter(&answer->waiter, to, room);
    }
}

/* Composes a reply in a buffer of exactly its length. The caller frees it. */
static uint8_t *compose_exact(const struct pool_answer *answer, size_t room, size_t *len_r)
{
    uint8_t *to = malloc(room);
    CHECK(to);
    *len_r = compose_answer(answer, to, room);
    CHECK(*len_r > 0 && *len_r <= room && to[*len_r - 1] == '\n');
    uint8_t *tight = malloc(*len_r);
    CHECK(tight);
    CHECK(compose_answer(answer, tight, *len_r) == *len_r && memcmp(to, tight, *len_r) == 0);
    CHECK(compose_answer(answer, tight, *len_r - 1) == 0);
    free(tight);
    return to;
}

/* What a reply says must be what its composed line says: both are composed to the same line. */
static void check_reply_line(struct bytes line)
{
    struct pool_answer answer, again;
    pool_parse_reply(line, &answer);
    if (answer.reply < POOL_REPLY_FIXED) {
        struct bytes text = pool_reply_line(answer.reply);
        CHECK(text.len > 0 && text.len - 1 <= line.len);
        CHECK(memcmp(text.data, line.data, text.len - 1) == 0);
        return;
    }
    if (answer.reply == POOL_REPLY_OTHER)
        return;
    size_t len, again_len;
    uint8_t *composed = compose_exact(&answer, line.len + ADDED, &len);
    uint8_t *alone = exact_copy(composed, len - 1);
    pool_parse_reply(bytes_at(alone, len - 1), &again);
    CHECK(again.reply == answer.reply);
    uint8_t *composed_again = compose_exact(&again, len + ADDED, &again_len);
    CHECK(same_bytes(composed, len, composed_again, again_len));
    free(composed_again);
    free(alone);
    free(composed);
}

static void check_member_line(struct bytes line)
{
    struct pool_member_line member;
    if (!pool_parse_member(line, &member))
        return;
    check_word(line, member.name, 1, POOLS_NAME_MAX);
    check_word(line, member.value, 0, POOLS_VALUE_MAX);
    check_word(line, member.note, 0, POOLS_NOTE_MAX);
    check_pairs(line, member.attrs, member.attr_count, POOLS_ATTRS_MAX, true);
    /* Without what only files have, the member could be added by a request. */
    struct pool_request add = {.verb = POOL_VERB_MEMBER_ADD,
                               .pool = bytes_of("p"),
                               .member = member.name,
                               .value = member.value,
                               .pair_count = member.attr_count};
    memcpy(add.pairs, member.attrs, member.attr_count * sizeof(member.attrs[0]));
    CHECK(check_composed(&add, line.len + ADDED) > 0);
}

/* Checks each line of the input, in memory of exactly its size. */
static void check_lines(struct input *in, void (*check)(struct bytes line))
{
    while (in->left > 0) {
        const uint8_t *end = memchr(in->at, '\n', in->left);
        size_t len;
        const uint8_t *line = input_bytes(in, end ? (size_t)(end - in->at) : in->left, &len);
        uint8_t *alone = exact_copy(line, len);
        check(bytes_at(alone, len));
        free(alone);
        if (end)
            (void)input_byte(in);
    }
}

/* ---- Any parts ------------------------------------------------------------------------------ */

static struct bytes any_bytes(struct input *in)
{
    struct bytes any = {0};
    any.data = input_bytes(in, input_byte(in), &any.len);
    return any;
}

static size_t any_pairs(struct input *in, struct pool_pair *pairs, size_t max)
{
    size_t count = input_byte(in) % (max + 1);
    for (size_t i = 0; i < count; i++) {
        pairs[i].key = any_bytes(in);
        pairs[i].value = any_bytes(in);
    }
    return count;
}

/* Composes any request; the parser could not have produced most of them. */
static void compose_any_request(struct input *in)
{
    struct pool_request req = {.verb = (enum pool_verb)(input_byte(in) % (POOL_VERB_COUNT + 1))};
    unsigned fields = input_byte(in), flags = input_byte(in);
    size_t room = in->left + 512;
    req.count = req.verb == POOL_VERB_TAKE ? 1 + input_byte(in) % 65 : 0;
    req.take_for = (enum pool_take_for)(flags % 4);
    req.now = flags & 4;
    req.mine = flags & 8;
    req.failed = flags & 16;
    if (fields & 1)
        req.pool = any_bytes(in);
    if (fields & 2)
        req.member = any_bytes(in);
    if ((req.has_value = flags & 32) || fields & 4)
        req.value = any_bytes(in);
    if ((req.has_note = flags & 64))
        req.note = any_bytes(in);
    if ((req.has_state = flags & 128))
        req.state = any_bytes(in);
    if (fields & 8)
        req.by = any_bytes(in);
    if ((req.has_fence = fields & 16))
        req.fence = input_number(in, 8);
    if (fields & 32)
        req.timeout_ns = (int64_t)input_number(in, 8);
    if (fields & 64) {
        req.init = (uint32_t)input_number(in, 4);
        req.max = (uint32_t)input_number(in, 4);
    }
    if (fields & 128)
        req.group = any_bytes(in);
    req.target_count = input_byte(in) % (POOLS_TARGETS_MAX + 1);
    for (size_t i = 0; i < req.target_count; i++)
        req.targets[i] = any_bytes(in);
    req.pair_count = any_pairs(in, req.pairs, POOLS_OPTIONS_MAX);
    (void)check_composed(&req, room);
}

static void any_taken(struct input *in, struct pool_taken_reply *taken)
{
    taken->fence = input_number(in, 8);
    taken->pool = any_bytes(in);
    taken->member = any_bytes(in);
    taken->value = any_bytes(in);
    taken->attr_count = any_pairs(in, taken->attrs, POOLS_ATTRS_MAX);
}

static void any_event(struct input *in, struct pool_event_reply *event)
{
    event->fence = input_number(in, 8);
    event->pool = any_bytes(in);
    event->member = any_bytes(in);
    event->from = any_bytes(in);
    event->to = any_bytes(in);
    event->why = any_bytes(in);
    event->conn = any_bytes(in);
    event->by = any_bytes(in);
}

static void any_pool(struct input *in, struct pool_pool_reply *pool)
{
    unsigned flags = input_byte(in);
    pool->draining = flags & 1;
    pool->has_want = flags & 2;
    pool->want = pool->members = pool->waiting = (uint32_t)input_number(in, 4);
    pool->name = any_bytes(in);
    pool->kind = any_bytes(in);
    pool->group = any_bytes(in);
    pool->option_count = any_pairs(in, pool->options, POOLS_OPTIONS_MAX);
}

static void any_member(struct input *in, struct pool_member_reply *member)
{
    member->since_ns = (int64_t)input_number(in, 8);
    member->fence = member->takes = member->fails = input_number(in, 8);
    member->name = any_bytes(in);
    member->state = any_bytes(in);
    member->holder = any_bytes(in);
    member->then = any_bytes(in);
    member->by = any_bytes(in);
    member->note = any_bytes(in);
    member->attr_count = any_pairs(in, member->attrs, POOLS_ATTRS_MAX);
}

static void any_waiter(struct input *in, struct pool_waiter_reply *waiter)
{
    waiter->since_ns = (int64_t)input_number(in, 8);
    waiter->timeout_ns = (int64_t)(input_number(in, 8) % POOLS_TIMEOUT_MAX_NS);
    waiter->count = (uint32_t)input_number(in, 4);
    waiter->take_for = (enum pool_take_for)(input_byte(in) % 3);
    waiter->client = any_bytes(in);
    waiter->member = any_bytes(in);
    waiter->by = any_bytes(in);
    waiter->with_count = any_pairs(in, waiter->with, POOLS_WITH_MAX);
}

/* Composes any reply. The server checks the parts before; here only the length is promised. */
static void compose_any_reply(struct input *in)
{
    struct pool_answer answer;
    memset(&answer, 0, sizeof(answer));
    answer.reply = POOL_REPLY_BAD_VALUE +
                   (enum pool_reply)(input_byte(in) % (POOL_REPLY_OTHER - POOL_REPLY_BAD_VALUE));
    size_t room = in->left + 1024;
    switch (answer.reply) {
    case POOL_REPLY_BAD_VALUE:
        answer.bad_value = any_bytes(in);
        break;
    case POOL_REPLY_TAKEN:
        any_taken(in, &answer.taken);
        break;
    case POOL_REPLY_WANT:
        answer.want.want = (uint32_t)input_number(in, 4);
        answer.want.pool = any_bytes(in);
        break;
    case POOL_REPLY_STOP:
        answer.stop.pool = any_bytes(in);
        answer.stop.member = any_bytes(in);
        answer.stop.why = any_bytes(in);
        break;
    case POOL_REPLY_LOST:
        answer.lost = input_number(in, 8);
        break;
    case POOL_REPLY_EVENT:
        any_event(in, &answer.event);
        break;
    case POOL_REPLY_POOL:
        any_pool(in, &answer.pool);
        break;
    case POOL_REPLY_MEMBER:
        any_member(in, &answer.member);
        break;
    default:
        any_waiter(in, &answer.waiter);
    }
    size_t len;
    uint8_t *line = compose_exact(&answer, room, &len);
    struct pool_answer ignored;
    pool_parse_reply(bytes_at(line, len - 1), &ignored);
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    switch (input_byte(&in) % 5) {
    case 0:
        check_lines(&in, check_request_line);
        break;
    case 1:
        check_lines(&in, check_reply_line);
        break;
    case 2:
        check_lines(&in, check_member_line);
        break;
    case 3:
        compose_any_request(&in);
        break;
    default:
        compose_any_reply(&in);
    }
    return 0;
}
