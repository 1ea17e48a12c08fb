/*
 * answers.c - the model's answers to requests, before or after the real service handles them.
 */
#include "t/campaigns/simulate/inside.h"

void begin_answer(struct client *c)
{
    CHECK(!answer.to);
    answer.to = c;
    answer.len = 0;
}

void end_answer(struct client *c)
{
    answer.to = NULL;
    compare_answer(c, answer.bytes, answer.len);
}

static enum pc_reply word_of_acquire(struct client *c, const struct request *r, bool no_memory)
{
    const struct model_acquire a = {
        .name = r->name,
        .units = 1,
        .limit = r->limit,
        .queue_max = r->queue_max,
        .wait = r->timeout_ns == 0 ? WAIT_NO
                : r->any           ? WAIT_ANY
                                   : WAIT_ME,
        .no_memory = no_memory,
    };
    enum pc_reply word = model_lock(&model, &c->has, &a);
    if (word == PC_REPLY_COUNT) {
        c->deadline_ns = fake_now.mono_ns + r->timeout_ns;
        result->waits++;
    }
    return word;
}

static enum ctr_status status_of(enum table_status status)
{
    switch (status) {
    case TABLE_OK:
        return CTR_STATUS_SUCCESS;
    case TABLE_BUSY:
        return CTR_STATUS_NOT_AVAILABLE;
    case TABLE_NOT_FOUND:
        return CTR_STATUS_NOT_FOUND;
    case TABLE_NOT_HELD:
        return CTR_STATUS_NOT_ACQUIRED;
    case TABLE_NO_MEMORY:
        return CTR_STATUS_OUT_OF_MEMORY;
    default:
        CHECK(false);
    }
    return CTR_STATUS_SUCCESS;
}

static void expect_status(const struct request *r, uint8_t opcode, enum ctr_status status)
{
    uint8_t bytes[CTR_REPLY_ROOM];
    expect_bytes(bytes, ctr_compose_status(opcode, r->opaque, status, bytes));
}

static void expect_number(const struct request *r, uint8_t opcode, uint32_t number)
{
    uint8_t bytes[CTR_REPLY_ROOM];
    expect_bytes(bytes, ctr_compose_number(opcode, r->opaque, number, bytes));
}

/* Expects the real reply as it is, after the caller has checked it. */
static void take_as_answer(const struct client *c)
{
    answer.len = 0;
    expect_bytes(unchecked(c), queued(&c->said));
}

static void look_at_text_stats(const struct client *c)
{
    char text[64];
    snprintf(text, sizeof(text), "waiting_workers: %" PRIu64 "\n", model.waiting + model.untold);
    EXPECT(queued(&c->said) >= strlen(text) && memcmp(unchecked(c), text, strlen(text)) == 0,
           "%.*s instead of %s", (int)queued(&c->said), (const char *)unchecked(c), text);
    take_as_answer(c);
}

static void look_at_binary_stats(const struct client *c, const struct request *r)
{
    struct ctr_reply reply;
    size_t used;
    EXPECT(ctr_parse_reply(unchecked(c), queued(&c->said), &reply, &used) == CTR_OK);
    EXPECT(used == queued(&c->said) && reply.opcode == CTR_STATS && reply.status == 0 &&
           memcmp(reply.opaque, r->opaque, 4) == 0);
    struct bytes body = reply.body, name, value;
    unsigned seen = 0;
    while (ctr_reply_stat(&body, &name, &value)) {
        char text[32] = "";
        CHECK(value.len < sizeof(text));
        memcpy(text, value.data, value.len);
        uint64_t number = strtoull(text, NULL, 10);
        if (name.len == 10 && memcmp(name.data, "held_units", 10) == 0 && ++seen)
            EXPECT(number == model.units);
        if (name.len == 7 && memcmp(name.data, "waiters", 7) == 0 && ++seen)
            EXPECT(number == model.waiting);
    }
    EXPECT(body.len == 0 && seen == 2);
    take_as_answer(c);
}

/* Expects that a Dump begins, or an error if there was no memory for it. */
static void begin_dump(struct client *c, const struct request *r)
{
    if (queued(&c->said)) {
        EXPECT(refusals() > 0);
        expect_status(r, CTR_DUMP, CTR_STATUS_OUT_OF_MEMORY);
        result->out_of_memory++;
        return;
    }
    c->dump = calloc(1, sizeof(*c->dump));
    CHECK(c->dump);
    memcpy(c->dump->opaque, r->opaque, 4);
    for (unsigned n = 0; n < mix.names; n++)
        c->dump->life[n] = model_exists(&model, n) ? model.names[n].life : 0;
}

enum pc_reply give_back(struct client *c, const struct request *r)
{
    if (r->kind != TEXT_RELEASE && r->kind != TEXT_RELEASE_KEY)
        return PC_REPLY_COUNT;
    struct model_words words =
        model_unlock_name(&model, &c->has, r->kind == TEXT_RELEASE ? MODEL_NEWEST : r->name);
    if (words.count > 1)
        expect_word(words.word[0]);
    return words.word[words.count - 1];
}

void expect_text(struct client *c, const struct request *r, enum pc_reply released,
                 unsigned long faults_before)
{
    enum pc_reply word = PC_REPLY_COUNT;
    switch (r->kind) {
    case TEXT_ACQUIRE: {
        struct bytes line = pc_reply_line(PC_REPLY_OUT_OF_MEMORY);
        bool none = was_replied(c, line.data, line.len);
        if (draining) {
            word = PC_REPLY_SHUTTING_DOWN;
            break;
        }
        EXPECT(!none || may_lack_memory(faults_before));
        result->out_of_memory += none;
        word = word_of_acquire(c, r, none);
        EXPECT(!none || word == PC_REPLY_OUT_OF_MEMORY);
        break;
    }
    case TEXT_RELEASE:
    case TEXT_RELEASE_KEY:
        word = released;
        break;
    case TEXT_STATS:
        look_at_text_stats(c);
        return;
    case TEXT_BAD:
        word = PC_REPLY_BAD_SYNTAX;
        break;
    case TEXT_TOO_LONG:
        word = PC_REPLY_LINE_TOO_LONG;
        break;
    case TEXT_QUIT:
        expect_bytes("BYE\n", 4);
        return;
    default:
        CHECK(false);
    }
    if (word != PC_REPLY_COUNT)
        expect_word(word);
}

enum ctr_status give_back_units(struct client *c, const struct request *r)
{
    if (r->kind != BINARY_RELEASE)
        return CTR_STATUS_SUCCESS;
    return status_of(model_release(&model, &c->has.holder, r->name, r->units));
}

static void expect_binary_acquire(struct client *c, const struct request *r,
                                  unsigned long faults_before)
{
    uint8_t bytes[CTR_REPLY_ROOM];
    size_t len = ctr_compose_status(CTR_ACQUIRE, r->opaque, CTR_STATUS_OUT_OF_MEMORY, bytes);
    const struct model_acquire a = {
        .name = r->name,
        .units = r->units,
        .limit = r->limit,
        .wait = WAIT_NO,
        .keep = true,
        .no_memory = was_replied(c, bytes, len),
    };
    EXPECT(!a.no_memory || may_lack_memory(faults_before));
    result->out_of_memory += a.no_memory;
    enum table_status status = model_acquire(&model, &c->has.holder, &a, NULL);
    EXPECT(!a.no_memory || status == TABLE_NO_MEMORY);
    if (status == TABLE_OK)
        expect_number(r, CTR_ACQUIRE, r->units);
    else
        expect_status(r, CTR_ACQUIRE, status_of(status));
}

void expect_binary(struct client *c, const struct request *r, enum ctr_status released,
                   unsigned long faults_before)
{
    uint8_t bytes[CTR_REPLY_ROOM];
    switch (r->kind) {
    case BINARY_NOOP:
        expect_status(r, CTR_NOOP, CTR_STATUS_SUCCESS);
        break;
    case BINARY_GET:
        if (model_exists(&model, r->name))
            expect_number(r, CTR_GET, model.names[r->name].consumption);
        else
            expect_status(r, CTR_GET, CTR_STATUS_NOT_FOUND);
        break;
    case BINARY_ACQUIRE:
        if (draining)
            expect_bytes(bytes, ctr_compose_shutting_down(CTR_ACQUIRE, r->opaque, bytes));
        else
            expect_binary_acquire(c, r, faults_before);
        break;
    case BINARY_RELEASE:
        expect_status(r, CTR_RELEASE, released);
        break;
    case BINARY_STATS:
        look_at_binary_stats(c, r);
        break;
    case BINARY_DUMP:
        begin_dump(c, r);
        break;
    case BINARY_BAD:
        expect_status(r, CTR_ACQUIRE, CTR_STATUS_INVALID);
        break;
    case BINARY_UNKNOWN:
        expect_status(r, 0x77, CTR_STATUS_UNKNOWN_COMMAND);
        break;
    default:
        CHECK(false);
    }
}
