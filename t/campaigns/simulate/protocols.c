/*
 * protocols.c - the functions in the services' rows, wrapped: each asks the model before and after
 * it calls the real one. A row is constant; the service points to a changed copy of it.
 *
 * Parsing must change nothing, so each request is parsed twice. Prefetching must not matter, so
 * some prefetches are skipped and others done twice.
 */
#include "t/campaigns/simulate/inside.h"

static struct replaced {
    const struct service_row *real;
    struct service_row is; /* has this file's functions */
} text, binary;

static const struct protocol_row *real_of(const struct client *c)
{
    return &(c->text ? &text : &binary)->real->protocol;
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
    real_of(c)->open(conn);
}

/* True if the first request in `len` bytes is complete enough to answer it. */
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

/* Notes that a part of a request has arrived. */
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

static bool ends_connection(const struct request *r)
{
    return r->kind == BINARY_BAD_MAGIC || r->kind == TEXT_TOO_LONG;
}

/* Parses twice; the results must be equal. */
static enum parsed parse_twice(struct conn *conn, const uint8_t *data, size_t len, void *request,
                               size_t *used_r)
{
    const struct protocol *protocol = conn_protocol(conn);
    const struct client *c = client_of(conn);
    static _Alignas(16) uint8_t other[PROTOCOL_REQUEST_MAX], session[4096];
    size_t used = *used_r, session_size = protocol->session_size;
    CHECK(session_size <= sizeof(session));
    memcpy(session, conn_session(conn), session_size);
    in_server = true;
    enum parsed first = real_of(c)->parse(conn, data, len, other, &used);
    enum parsed parsed = real_of(c)->parse(conn, data, len, request, used_r);
    in_server = false;
    EXPECT(first == parsed && used == *used_r, "parsed again it is another request");
    EXPECT(memcmp(session, conn_session(conn), session_size) == 0, "parsing changed the session");
    EXPECT(queued(&c->said) == 0, "parsing was answered");
    return parsed;
}

static enum parsed parse(struct conn *conn, const uint8_t *data, size_t len, void *request,
                         size_t *used_r)
{
    struct client *c = client_of(conn);
    EXPECT(!c->over && !c->dump);
    if (c->batch_over)
        c->parsed = 0;
    c->batch_over = false;
    EXPECT(c->head + c->parsed != c->tail, "there is no request");
    const struct request *r = &c->requests[(c->head + c->parsed) % DEPTH];
    bool whole = is_whole(r, len), last = ends_connection(r);
    enum parsed parsed = parse_twice(conn, data, len, request, used_r);
    if (parsed == PARSED_MORE) {
        EXPECT(!whole, "of %u bytes only %zu are there", r->len, len);
        EXPECT(*used_r == 0 || (*used_r > len && *used_r <= r->len), "%zu bytes are not enough",
               *used_r);
        if (c->parsed == 0)
            note_partial(c);
        return parsed;
    }
    EXPECT(whole || r->kind == TEXT_TOO_LONG); /* it may be too long or not */
    EXPECT(parsed == (last ? PARSED_LAST : PARSED));
    EXPECT(*used_r == (last ? len : r->len));
    c->parsed++;
    EXPECT(c->parsed <= PROTOCOL_BATCH);
    return parsed;
}

static enum parsed on_parse(struct conn *conn, const uint8_t *data, size_t len, void *request,
                            size_t *used_r)
{
    in_server = false;
    enum parsed parsed = parse(conn, data, len, request, used_r);
    in_server = true;
    return parsed;
}

static void on_prefetch(struct conn *conn, void *requests, unsigned count)
{
    in_server = false;
    const struct client *c = client_of(conn);
    EXPECT(!c->batch_over && count == c->parsed);
    unsigned times = one_in(8) ? 0 : one_in(8) ? 2 : 1;
    in_server = true;
    while (times-- > 0)
        real_of(c)->prefetch(conn, requests, count);
}

static enum served serve(struct conn *conn, const void *request)
{
    struct client *c = client_of(conn);
    EXPECT(!c->over && !c->dump);
    EXPECT(c->parsed > 0, "there is no request");
    const struct request *r = &c->requests[c->head % DEPTH];
    learn_of_dropped();
    begin_answer(c);
    unsigned long faults_before = refusals();
    if (r->kind == TEXT_QUIT)
        model_quit(&model, &c->has);
    enum pc_reply released = c->text ? give_back(c, r) : PC_REPLY_COUNT;
    enum ctr_status status = c->text ? CTR_STATUS_SUCCESS : give_back_units(c, r);
    in_server = true;
    enum served how = real_of(c)->serve(conn, request);
    in_server = false;
    if (r->kind == BINARY_BAD_MAGIC) {
        expect_bytes(unchecked(c), queued(&c->said)); /* it echoes what had arrived */
        EXPECT(queued(&c->said) > CTR_HEADER && unchecked(c)[2] == CTR_STATUS_INVALID);
    } else if (c->text) {
        expect_text(c, r, released, faults_before);
    } else {
        expect_binary(c, r, status, faults_before);
    }
    end_answer(c);
    EXPECT(how == (ends_connection(r) || r->kind == TEXT_QUIT ? SERVED_LAST
                   : c->dump                                  ? SERVED_PIECES
                                                              : SERVED));
    c->partial = false;
    c->batch_over = true;
    c->parsed--;
    c->head++;
    served++;
    return how;
}

static enum served on_serve(struct conn *conn, const void *request)
{
    in_server = false;
    enum served how = serve(conn, request);
    in_server = true;
    return how;
}

static void on_expire(struct conn *conn, unsigned which)
{
    in_server = false;
    EXPECT(which == 0);
    struct client *c = client_of(conn);
    EXPECT(worker_now(conn_worker(conn)).mono_ns >= c->deadline_ns, "a timeout is early");
    begin_answer(c);
    if (c->has.wait.state == WAIT_WAITING) {
        model_cancel(&model, &c->has.wait);
        expect_word(PC_REPLY_TIMEOUT);
    } else {
        expect_word(model_note_word(&model, &c->has));
    }
    in_server = true;
    real_of(c)->expire(conn, which);
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
    model_client_close(&model, &c->has);
    in_server = true;
    real_of(c)->close(conn);
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
    /* Letters arrive in the order in which they were sent. */
    uint64_t *told = &w->mail_decided[c->has.wait.name];
    EXPECT(!w->in_bell || c->has.wait.decided > *told);
    if (w->in_bell)
        *told = c->has.wait.decided;
    bool outer = answer.to == c;
    if (!outer)
        EXPECT(queued(&c->said) == 0);
    enum pc_reply word = model_note_word(&model, &c->has);
    struct bytes line = pc_reply_line(word);
    in_server = true;
    text.real->verdict(conn, waiter);
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

/* Checks one reply of a Dump. Returns true for the last one. */
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
    bool over = real_of(c)->resume(conn), last = false;
    in_server = false;
    EXPECT(c->dump);
    learn_of_dropped();
    while (queued(&c->said) > 0) {
        struct ctr_reply reply;
        size_t used;
        EXPECT(!last && ctr_parse_reply(unchecked(c), queued(&c->said), &reply, &used) == CTR_OK);
        last = look_at_dump(c, &reply);
        c->said.begin += used;
    }
    EXPECT(last == over);
    if (over) {
        free(c->dump);
        c->dump = NULL;
    }
    in_server = true;
    return over;
}

static void replace(struct service *service, struct replaced *row)
{
    row->real = service->row;
    memcpy(&row->is, row->real, sizeof(row->is));
    struct protocol_row *p = &row->is.protocol;
    p->open = on_open;
    p->parse = on_parse;
    p->prefetch = on_prefetch;
    p->serve = on_serve;
    p->close = on_close;
    if (p->resume)
        p->resume = on_resume;
    if (p->expire)
        p->expire = on_expire;
    if (row->is.verdict)
        row->is.verdict = on_verdict;
    service->row = &row->is;
    service->protocol.row = p;
}

void replace_protocols(void)
{
    replace(services->services[0], &text);
    replace(services->services[1], &binary);
}
