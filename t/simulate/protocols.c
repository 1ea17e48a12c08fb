/*
 * protocols.c - the functions of `struct protocol`, with the model before and after them: each asks
 * the model, and then calls the real one.
 */
#include "t/simulate/inside.h"

static struct real {
    struct protocol is; /* as it was */
    void (*verdict)(struct conn *conn, struct waiter *waiter);
} text, binary;

static const struct real *real_of(const struct client *c)
{
    return c->text ? &text : &binary;
}

static void on_open(struct conn *conn)
{
    uint64_t tag = conn_tag(conn);
    uint32_t slot = (uint32_t)(tag >> 32) & 0xffffff;
    struct crew *w = &crew[conn_tag_worker(tag)];
    struct client *c = opening;
    in_server = false;
    if (slot >= w->slots) {
        unsigned slots = slot * 2 + 64;
        w->by_slot = realloc(w->by_slot, slots * sizeof(struct client *));
        CHECK(w->by_slot);
        memset(w->by_slot + w->slots, 0, (slots - w->slots) * sizeof(struct client *));
        w->slots = slots;
    }
    w->by_slot[slot] = c;
    c->conn = conn;
    c->tag = tag;
    c->opened = true;
    in_server = true;
    real_of(c)->is.open(conn);
}

/* Whether the first request in `len` bytes is all there, as far as it takes to answer it. */
static bool is_whole(const struct request *r, size_t len)
{
    switch (r->kind) {
    case BINARY_BAD_MAGIC:
        return true;
    case TEXT_TOO_LONG:
        return len > LINE_MAX + 1; /* the last byte may be the first one of the line's end */
    default:
        return len >= r->len;
    }
}

/* A request has arrived in part. */
static void note_partial(struct client *c)
{
    int64_t now_ns = worker_now(crew[c->worker].worker).mono_ns;
    if (!c->partial)
        c->partial_ns = now_ns;
    if (!c->partial || c->was_full)
        c->partial_again_ns = now_ns;
    c->was_full = false;
    c->partial = true;
}

static enum consumed consume(struct conn *conn, const uint8_t *data, size_t len, bool foreseen,
                             size_t *used_r)
{
    struct client *c = client_of(conn);
    EXPECT(!c->over && !c->dump);
    EXPECT(c->head != c->tail, "there is no request");
    const struct request *r = &c->requests[c->head % DEPTH];
    const struct real *real = real_of(c);
    bool whole = foreseen || is_whole(r, len);
    if (!whole && r->kind != TEXT_TOO_LONG) {
        in_server = true;
        enum consumed more = real->is.consume(conn, data, len, used_r);
        in_server = false;
        EXPECT(more == CONSUMED_MORE && c->unchecked == 0, "of %u bytes only %zu are there", r->len,
               len);
        note_partial(c);
        return more;
    }
    begin_answer(c);
    unsigned long faults_before = refusals();
    enum pc_reply released = c->text ? give_back(c, r) : PC_REPLY_COUNT;
    enum ctr_status status = c->text ? CTR_STATUS_SUCCESS : give_back_units(c, r);
    in_server = true;
    enum consumed got = foreseen ? real->is.consume_foreseen(conn, used_r)
                                 : real->is.consume(conn, data, len, used_r);
    in_server = false;
    if (got == CONSUMED_MORE) { /* too long, but not certainly */
        EXPECT(!whole);
        answer.to = NULL;
        note_partial(c);
        return got;
    }
    if (r->kind == BINARY_BAD_MAGIC) {
        expect_bytes(unchecked(c), c->unchecked); /* what it echoes depends on what is there */
        EXPECT(c->unchecked > CTR_HEADER && unchecked(c)[2] == CTR_STATUS_INVALID);
    } else if (c->text) {
        expect_text(c, r, released, faults_before);
    } else {
        expect_binary(c, r, status, faults_before);
    }
    end_answer(c);
    bool last = r->kind == BINARY_BAD_MAGIC || r->kind == TEXT_TOO_LONG;
    EXPECT(got == (last ? CONSUMED_LAST : c->dump ? CONSUMED_PAUSED : CONSUMED_ONE));
    EXPECT(last || *used_r == r->len);
    c->partial = false;
    c->head++;
    served++;
    return got;
}

static enum consumed on_consume(struct conn *conn, const uint8_t *data, size_t len, size_t *used_r)
{
    in_server = false;
    enum consumed got = consume(conn, data, len, false, used_r);
    in_server = true;
    return got;
}

static enum consumed on_consume_foreseen(struct conn *conn, size_t *used_r)
{
    in_server = false;
    enum consumed got = consume(conn, NULL, 0, true, used_r);
    in_server = true;
    return got;
}

static void on_expire(struct conn *conn)
{
    in_server = false;
    struct client *c = client_of(conn);
    EXPECT(c->has.wait.state != WAIT_NONE);
    EXPECT(worker_now(conn_worker(conn)).mono_ns >= c->has.wait.deadline_ns, "a timeout is early");
    begin_answer(c);
    if (c->has.wait.state == WAIT_WAITING) {
        model_cancel(&model, &c->has);
        expect_word(PC_REPLY_TIMEOUT);
    } else {
        expect_word(model_note_word(&model, &c->has));
    }
    in_server = true;
    real_of(c)->is.expire(conn);
    in_server = false;
    end_answer(c);
    in_server = true;
}

static void on_close(struct conn *conn)
{
    in_server = false;
    struct client *c = client_of(conn);
    EXPECT(!c->over);
    c->over = true;
    free(c->dump);
    c->dump = NULL;
    model_close(&model, &c->has);
    in_server = true;
    real_of(c)->is.close(conn);
}

static void on_verdict(struct conn *conn, struct waiter *waiter)
{
    in_server = false;
    struct client *c = client_of(conn);
    struct crew *w = &crew[c->worker];
    enum model_wait_state state = c->has.wait.state;
    EXPECT(state == WAIT_GRANTED || state == WAIT_DONE, "client %d: it is not its turn",
           c->peer.fd);
    EXPECT(waiter->state == (state == WAIT_GRANTED ? WAITER_GRANTED : WAITER_DONE));
    /* Letters come in the order in which they were sent. */
    uint64_t *told = &w->mail_decided[c->has.wait.name];
    EXPECT(!w->in_bell || c->has.wait.decided > *told);
    if (w->in_bell)
        *told = c->has.wait.decided;
    bool outer = answer.to == c;
    if (!outer)
        EXPECT(c->unchecked == 0);
    enum pc_reply word = model_note_word(&model, &c->has);
    struct bytes line = pc_reply_line(word);
    in_server = true;
    text.verdict(conn, waiter);
    in_server = false;
    if (outer)
        expect_word(word);
    else
        compare_answer(c, line.data, line.len);
    in_server = true;
}

static unsigned name_number(struct bytes name)
{
    for (unsigned n = 0; n < mix.names; n++) {
        if (name.len == mix.name[n].len && memcmp(name.data, mix.name[n].data, name.len) == 0)
            return n;
    }
    EXPECT(false, "a name nobody has said");
    return 0;
}

/* One reply of a Dump; true: its last. */
static bool look_at_dump(struct client *c, const struct ctr_reply *reply)
{
    uint32_t consumption, peak;
    struct bytes name;
    EXPECT(reply->opcode == CTR_DUMP && memcmp(reply->opaque, c->dump->opaque, 4) == 0);
    if (reply->body.len == 0) {
        for (unsigned n = 0; n < mix.names; n++) {
            bool all_along = c->dump->life[n] && model_exists(&model, n) &&
                             model.names[n].life == c->dump->life[n];
            EXPECT(!all_along || c->dump->seen[n], "a Dump left out name %u", n);
        }
        return true;
    }
    EXPECT(ctr_reply_dump(reply, &consumption, &peak, &name));
    unsigned n = name_number(name);
    EXPECT(model_exists(&model, n) && model.names[n].consumption == consumption);
    EXPECT(model_peak(&model, n) == peak, "%u, not %u", peak, model_peak(&model, n));
    EXPECT(!c->dump->seen[n] || model.names[n].life != c->dump->life[n], "twice");
    c->dump->seen[n] = true;
    return false;
}

static bool on_resume(struct conn *conn)
{
    struct client *c = client_of(conn);
    bool over = real_of(c)->is.resume(conn), last = false;
    in_server = false;
    EXPECT(c->dump);
    while (c->unchecked > 0) {
        struct ctr_reply reply;
        size_t used;
        EXPECT(!last && ctr_parse_reply(unchecked(c), c->unchecked, &reply, &used) == CTR_OK);
        last = look_at_dump(c, &reply);
        c->unchecked -= used;
    }
    EXPECT(last == over);
    if (over) {
        free(c->dump);
        c->dump = NULL;
    }
    in_server = true;
    return over;
}

static void replace(struct service *service, struct real *real)
{
    struct protocol *p = &service->protocol;
    *real = (struct real){.verdict = service->verdict};
    memcpy(&real->is, p, sizeof(*p));
    p->open = on_open;
    p->consume = on_consume;
    p->consume_foreseen = on_consume_foreseen;
    p->close = on_close;
    if (p->resume)
        p->resume = on_resume;
    if (p->expire)
        p->expire = on_expire;
    if (service->verdict)
        service->verdict = on_verdict;
}

void replace_protocols(void)
{
    replace(services->services[0], &text);
    replace(services->services[1], &binary);
}
