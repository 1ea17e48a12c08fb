/*
 * carry.c - pauses workers; saves and restores their connections (see carry.h).
 *
 * base/record.md describes the section of a connection, and the older section of version 1, which
 * can still be read. States, transports and close reasons are stored as words, not as our numbers.
 *
 * Input that was received but not served is parsed again after the restore, even when the old
 * process knew that it was incomplete. So the limits of the new process apply, and no parser state
 * is saved. Pending answers are saved with their connection: the protocol's session says what each
 * one waits for, and `restore` asks for it again.
 */
#include "net/carry.h"

#include "net/worker_internal.h"

#include "base/log.h"
#include "base/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Flags of a connection; base/record.md fixes the values. */
#define FLAG_MORE   1u /* there may be more input, and the loop does not report it again */
#define FLAG_DRAIN  2u /* as MORE, but a short read does not mean that all was read */
#define FLAG_SOURCE 4u /* the connection is counted for its address */
#define FLAG_GONE   8u /* the client has closed its sending side */
#define FLAGS_KNOWN 15u

/* Flags and states of version 1. */
#define V1_PAUSED      1u
#define V1_LINGERING   2u
#define V1_MORE        4u
#define V1_READ_ON     8u
#define V1_SOURCE      16u
#define V1_FLAGS_KNOWN 31u
enum { V1_HANDSHAKING, V1_OPEN, V1_FINISHING };

#define PROTOCOL_NAME_MAX 31

/* The first iterations of all workers end within this time. */
#define MOMENT_NS (5 * NS_PER_S)

/* A connection's phase, as stored in the record: its word, and its states. */
enum phase {
    PHASE_HANDSHAKE,
    PHASE_OPEN,
    PHASE_PENDING,
    PHASE_PIECES,
    PHASE_ENDED,
    PHASE_LAST, /* its last answer is queued */
    PHASE_SHUT, /* its last answer was written; the peer may still read it */
    PHASE_COUNT,
};
static const struct {
    const char *word;
    enum conn_reading reading;
    enum conn_writing writing; /* of READING_DISCARD */
} phases[PHASE_COUNT] = {
    {"handshake", READING_HANDSHAKE, WRITING_OPEN}, {"open", READING_OPEN, WRITING_OPEN},
    {"pending", READING_PENDING, WRITING_OPEN},     {"pieces", READING_PIECES, WRITING_OPEN},
    {"ended", READING_ENDED, WRITING_OPEN},         {"last", READING_DISCARD, WRITING_OPEN},
    {"shut", READING_DISCARD, WRITING_SHUT},
};

/* ---- all connections ------------------------------------------------------------------------- */

/* Calls `visit` for every open connection of the server. */
static void each_conn(const struct server *server, void (*visit)(struct conn *conn, void *arg),
                      void *arg)
{
    for (unsigned i = 0; i < server->count; i++) {
        struct worker *worker = server->workers[i];
        for (uint32_t slot = 0; slot < worker->slot_count; slot++) {
            if (worker->slots[slot].conn)
                visit(worker->slots[slot].conn, arg);
        }
    }
}

static void allow_until(struct conn *conn, struct deadline *d, int64_t at_ns)
{
    struct deadlines *ds = conn_deadlines(conn);
    if (deadline_is_set(d) && deadline_at(ds, d) < at_ns)
        deadline_set(ds, d, at_ns);
}

static void allow_conn(struct conn *conn, void *arg)
{
    const int64_t *at_ns = arg;
    allow_until(conn, &conn->read_deadline, *at_ns);
    allow_until(conn, &conn->write_deadline, *at_ns);
}

/* Gives connections more time if a deadline passed while the workers were paused. The peer may have
 * acted in time; the workers' first iterations will read what it sent. */
static void allow_moment(const struct server *server)
{
    int64_t at_ns = clock_mono_ns() + MOMENT_NS;
    each_conn(server, allow_conn, &at_ns);
}

/* ---- pausing --------------------------------------------------------------------------------- */

bool server_flush_paused(struct server *server)
{
    bool any = false;
    for (unsigned i = 0; i < server->count; i++)
        any = worker_flush_paused(server->workers[i]) || any;
    return any;
}

void server_pause(struct server *server)
{
    for (unsigned i = 0; i < server->count; i++)
        reactor_stop(worker_reactor(server->workers[i]));
    for (unsigned i = 0; i < server->count; i++)
        reactor_rest(worker_reactor(server->workers[i]));
    while (server_flush_paused(server))
        continue;
}

void server_resume(struct server *server)
{
    allow_moment(server);
    for (unsigned i = 0; i < server->count; i++) {
        loop_soon(server->workers[i]->reactor.loop); /* to write output queued since */
        reactor_resume(worker_reactor(server->workers[i]));
    }
}

/* ---- all connections, paused ----------------------------------------------------------------- */

static bool is_tls(const struct conn *conn)
{
    return conn->stream.transport == TRANSPORT_TLS;
}

struct keeping {
    bool keep;
    bool failed;
};

static void keep_descriptor(struct conn *conn, void *arg)
{
    struct keeping *keeping = arg;
    if (fcntl(conn->stream.fd, F_SETFD, keeping->keep ? 0 : FD_CLOEXEC) != 0)
        keeping->failed = true;
}

bool server_keep_descriptors(const struct server *server, bool keep)
{
    struct keeping keeping = {.keep = keep};
    each_conn(server, keep_descriptor, &keeping);
    return !keeping.failed;
}

static void say_goodbye(struct conn *conn, void *arg)
{
    (void)arg;
    if (is_tls(conn))
        stream_finish(&conn->stream);
}

void server_say_goodbye(const struct server *server)
{
    each_conn(server, say_goodbye, NULL);
}

static void close_tls(struct conn *conn, void *arg)
{
    uint32_t *closed = arg;
    if (!is_tls(conn))
        return;
    conn_close(conn, CLOSE_UPGRADE);
    ++*closed;
}

uint32_t server_close_tls(struct server *server)
{
    uint32_t closed = 0;
    each_conn(server, close_tls, &closed);
    return closed;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void save_chunks(const struct chunk_list *list, struct record_writer *w)
{
    uint32_t pieces = 0;
    for (const struct chunk *c = list->first; c; c = c->next)
        pieces++;
    record_put_u32(w, pieces);
    for (const struct chunk *c = list->first; c; c = c->next)
        record_put_bytes(w, chunk_unwritten(c), c->end - c->begin);
}

static enum phase phase_of(const struct conn *conn)
{
    if (conn->reading == READING_DISCARD)
        return conn->writing == WRITING_SHUT ? PHASE_SHUT : PHASE_LAST;
    enum phase phase = PHASE_HANDSHAKE;
    while (phase < PHASE_LAST && phases[phase].reading != conn->reading)
        phase++;
    return phase < PHASE_LAST ? phase : PHASE_OPEN; /* FULL follows from the queued output */
}

static unsigned flags_of(const struct conn *conn)
{
    return (conn->input == INPUT_MORE ? FLAG_MORE : 0) |
           (conn->input == INPUT_DRAIN ? FLAG_DRAIN : 0) | (conn->source ? FLAG_SOURCE : 0) |
           (conn->gone ? FLAG_GONE : 0);
}

/* Saves pending answers, output that waits behind an answer in pieces, and the mark of
 * conn_check_output. */
static void save_extension(const struct conn *conn, struct record_writer *w)
{
    const struct conn_extension *extension = conn_extension(conn);
    static const struct chunk_list none;
    record_put_u8(w, extension->wait_for_all);
    record_put_u32(w, conn->pending);
    for (uint32_t i = 0; i < conn->pending; i++) {
        const struct held_answer *held = conn_held_answer(conn, extension->oldest + i);
        bool kept = i > 0 && held;
        record_put_u8(w, kept && held->complete);
        record_put_u8(w, kept && held->checks);
        record_put_u32(w, kept && held->checks ? held->check_at : 0);
        save_chunks(kept ? &held->out : &none, w);
    }
    save_chunks(&extension->after, w);
    record_put_u8(w, extension->checks);
    record_put_i64(w, conn_position_save(conn, extension->check_at));
    record_put_u32(w, extension->part_bytes);
    record_put_u8(w, extension->wants_room);
    record_put_u64(w, extension->room_at);
}

static void save_conn(struct conn *conn, void *arg)
{
    struct record_writer *w = arg;
    const struct deadlines *ds = conn_deadlines(conn);
    const struct protocol_row *row = conn->protocol->row;
    CHECK(conn->writing != WRITING_FAILED && !conn->in_flush_list);
    bool served = conn_is_served(conn), has_input = served && conn->in;
    record_begin(w, CARRY_CONN);
    record_put_text(w, row->name);
    record_put_u32(w, conn->worker->number);
    record_put_u32(w, conn->slot);
    record_put_u32(w, (uint32_t)conn->stream.fd);
    record_put_text(w, transport_word(conn_transport(conn)));
    record_put_text(w, phases[phase_of(conn)].word);
    record_put_text(w, protocol_close_word(row, conn->reason));
    record_put_u8(w, (uint8_t)flags_of(conn));
    record_put_u32(w, conn->opened);
    record_put_i64(w, deadline_at(ds, &conn->read_deadline));
    record_put_i64(w, deadline_at(ds, &conn->write_deadline));
    record_put_u8(w, (uint8_t)row->deadlines);
    for (unsigned i = 0; i < row->deadlines; i++)
        record_put_i64(w, deadline_at(ds, conn_session_deadline(conn, i)));
    record_put_u32(w, conn->writing == WRITING_SHUT ? conn->in_end : 0);
    record_put_bytes(w, has_input ? conn->in + conn->in_begin : NULL,
                     has_input ? conn->in_end - conn->in_begin : 0);
    save_chunks(&conn->out, w);
    record_put_u8(w, conn->extended != 0);
    if (conn->extended)
        save_extension(conn, w);
    if (served)
        row->save(conn, w);
    record_end(w);
}

void server_save(const struct server *server, struct record_writer *w)
{
    record_begin(w, CARRY_WORKERS);
    record_put_u32(w, server->count);
    for (unsigned i = 0; i < server->count; i++) {
        const struct worker *worker = server->workers[i];
        record_put_u32(w, worker->slot_count);
        for (uint32_t slot = 0; slot < worker->slot_count; slot++)
            record_put_u32(w, worker->slots[slot].generation);
    }
    record_end(w);
    each_conn(server, save_conn, w);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool restore_workers(struct carry *carry, struct record_reader *r)
{
    struct server *server = carry->server;
    uint32_t count = record_get_u32(r);
    if (carry->begun || count == 0 || count > WORKERS_MAX)
        record_refuse(r, "the number of workers is out of range");
    carry->begun = server->restores = true;
    carry->same_places = count == server->count;
    for (uint32_t i = 0; i < count && record_ok(r); i++) {
        uint32_t slots = record_get_u32(r);
        const uint8_t *generations = record_take(r, (size_t)slots * 4);
        if (!generations || !carry->same_places)
            continue;
        if (!worker_place_slots(server->workers[i], slots))
            record_refuse(r, "no memory for the workers' connections");
        for (uint32_t slot = 0; slot < slots && record_ok(r); slot++) {
            memcpy(&server->workers[i]->slots[slot].generation, generations + (size_t)slot * 4, 4);
            server->workers[i]->slots[slot].generation =
                le32toh(server->workers[i]->slots[slot].generation);
        }
    }
    record_leave(r);
    return record_ok(r);
}

/* The part of a connection's section before the session. */
struct carried {
    struct protocol *protocol;
    uint32_t worker, slot, opened, thrown_away;
    int fd;
    unsigned transport, reason, flags;
    enum phase phase;
    int64_t read_at, write_at;
    unsigned deadlines;
    int64_t session_at[CARRY_DEADLINES_MAX];
    const void *in;
    size_t in_len;
};

static struct protocol *read_protocol(const struct carry *carry, struct record_reader *r)
{
    char name[PROTOCOL_NAME_MAX + 1] = "";
    const void *text;
    size_t len = record_get_bytes(r, &text);
    if (len <= PROTOCOL_NAME_MAX)
        memcpy(name, text, len);
    struct protocol *protocol = carry->protocol(carry->arg, name);
    if (!protocol || !protocol->row->restore)
        record_refuse(r, "a connection has an unknown protocol");
    return protocol;
}

/* Reads a word and returns its index in the list that `word` gives: word(arg, 0), word(arg, 1) and
 * so on, then NULL. For an unknown word, fails the record and returns 0. */
static unsigned read_word(struct record_reader *r, const char *(*word)(const void *arg, unsigned i),
                          const void *arg)
{
    const void *text;
    size_t len = record_get_bytes(r, &text);
    const char *known;
    for (unsigned i = 0; record_ok(r) && (known = word(arg, i)) != NULL; i++) {
        if (strlen(known) == len && memcmp(known, text, len) == 0)
            return i;
    }
    record_refuse(r, "a connection's state has an unknown word");
    return 0;
}

static const char *transport_at(const void *arg, unsigned i)
{
    (void)arg;
    return i <= TRANSPORT_UNIX ? transport_word((enum transport)i) : NULL;
}

static const char *phase_at(const void *arg, unsigned i)
{
    (void)arg;
    return i < PHASE_COUNT ? phases[i].word : NULL;
}

static const char *close_word_at(const void *arg, unsigned i)
{
    return protocol_close_word(arg, i);
}

static bool is_served_phase(enum phase phase)
{
    return phase > PHASE_HANDSHAKE && phase < PHASE_LAST;
}

/* True when the fields of this connection do not contradict each other. */
static bool is_possible(const struct carried *c)
{
    bool served = is_served_phase(c->phase);
    bool has_deadline = false;
    for (unsigned i = 0; i < c->deadlines; i++)
        has_deadline = has_deadline || c->session_at[i] != DEADLINE_NONE;
    return (c->flags & ~FLAGS_KNOWN) == 0 &&
           (c->phase != PHASE_HANDSHAKE || c->transport == TRANSPORT_TLS) &&
           (served || !has_deadline) && c->in_len <= CARRY_INPUT_MAX && (served || c->in_len == 0);
}

static void read_carried(const struct carry *carry, struct record_reader *r, struct carried *c)
{
    *c = (struct carried){.protocol = read_protocol(carry, r)};
    if (!c->protocol)
        return; /* the record was refused */
    c->worker = record_get_u32(r);
    c->slot = record_get_u32(r);
    c->fd = (int)record_get_u32(r);
    c->transport = read_word(r, transport_at, NULL);
    c->phase = (enum phase)read_word(r, phase_at, NULL);
    c->reason = read_word(r, close_word_at, c->protocol->row);
    c->flags = record_get_u8(r);
    c->opened = record_get_u32(r);
    c->read_at = record_get_i64(r);
    c->write_at = record_get_i64(r);
    c->deadlines = record_get_u8(r);
    if (c->deadlines != c->protocol->row->deadlines || c->deadlines > CARRY_DEADLINES_MAX)
        record_refuse(r, "a connection has the wrong number of deadlines");
    for (unsigned i = 0; i < c->deadlines && record_ok(r); i++)
        c->session_at[i] = record_get_i64(r);
    c->thrown_away = record_get_u32(r);
    c->in_len = record_get_bytes(r, &c->in);
}

/* Reads the same part in the format of version 1. */
static void read_carried_v1(const struct carry *carry, struct record_reader *r, struct carried *c)
{
    *c = (struct carried){.protocol = read_protocol(carry, r)};
    if (!c->protocol)
        return; /* the record was refused */
    c->worker = record_get_u32(r);
    c->slot = record_get_u32(r);
    c->fd = (int)record_get_u32(r);
    c->transport = record_get_u8(r);
    unsigned state = record_get_u8(r);
    c->reason = record_get_u8(r);
    unsigned flags = record_get_u8(r);
    c->opened = record_get_u32(r);
    c->read_at = record_get_i64(r);
    c->write_at = record_get_i64(r);
    int64_t session_at = record_get_i64(r);
    c->thrown_away = record_get_u32(r);
    c->in_len = record_get_bytes(r, &c->in);
    c->deadlines = c->protocol->row->deadlines;
    for (unsigned i = 0; i < c->deadlines && i < CARRY_DEADLINES_MAX; i++)
        c->session_at[i] = i == 0 ? session_at : DEADLINE_NONE;
    c->phase = state == V1_HANDSHAKING                         ? PHASE_HANDSHAKE
               : state == V1_FINISHING && flags & V1_LINGERING ? PHASE_SHUT
               : state == V1_FINISHING                         ? PHASE_LAST
               : flags & V1_PAUSED                             ? PHASE_PIECES
                                                               : PHASE_OPEN;
    c->flags = (flags & V1_READ_ON ? FLAG_DRAIN
                : flags & V1_MORE  ? FLAG_MORE
                                   : 0) |
               (flags & V1_SOURCE ? FLAG_SOURCE : 0);
    if (state > V1_FINISHING || c->transport > TRANSPORT_UNIX || c->reason > CLOSE_UPGRADE ||
        flags & ~V1_FLAGS_KNOWN || (state != V1_OPEN && flags & V1_PAUSED) ||
        (state != V1_FINISHING && flags & V1_LINGERING) || c->deadlines > CARRY_DEADLINES_MAX ||
        (c->deadlines == 0 && session_at != DEADLINE_NONE))
        record_refuse(r, "a connection's state contradicts itself");
}

/* Chooses the worker and slot for a connection. Returns NULL when the slot is taken or does not
 * exist, or when there is no memory. */
static struct worker *place(const struct carry *carry, const struct carried *c, uint32_t *slot_r)
{
    const struct server *server = carry->server;
    if (carry->same_places) {
        struct worker *worker = c->worker < server->count ? server->workers[c->worker] : NULL;
        bool is_free = worker && c->slot < worker->slot_count && !worker->slots[c->slot].conn;
        *slot_r = c->slot;
        return is_free ? worker : NULL;
    }
    struct worker *fewest = server->workers[0];
    for (unsigned i = 1; i < server->count; i++) {
        if (worker_connections(server->workers[i]) < worker_connections(fewest))
            fewest = server->workers[i];
    }
    *slot_r = worker_take_slot(fewest);
    if (*slot_r == UINT32_MAX)
        return NULL;
    fewest->slots[*slot_r].generation++;
    return fewest;
}

static void set_deadline(struct conn *conn, struct deadline *d, int64_t at_ns)
{
    if (at_ns != DEADLINE_NONE)
        deadline_set(conn_deadlines(conn), d, at_ns);
}

/* Makes the connection, without session, output and input. Returns NULL when there is no memory or
 * the slot is not free. */
static struct conn *make_conn(const struct carry *carry, const struct carried *c)
{
    uint32_t slot;
    struct worker *worker = place(carry, c, &slot);
    struct stream stream = {.fd = c->fd, .transport = (uint8_t)c->transport};
    struct conn *conn = worker ? conn_new(worker, c->protocol, stream) : NULL;
    if (!conn || !deadlines_reserve(&worker->reactor.deadlines, conn_deadline_count(c->protocol))) {
        free(conn);
        return NULL;
    }
    conn->slot = slot;
    conn->generation = worker->slots[slot].generation;
    conn->opened = c->opened;
    conn->reading = (uint8_t)phases[c->phase].reading;
    conn->writing = (uint8_t)phases[c->phase].writing;
    conn->reason = (uint8_t)c->reason;
    conn->input = c->flags & FLAG_DRAIN  ? INPUT_DRAIN
                  : c->flags & FLAG_MORE ? INPUT_MORE
                                         : INPUT_DRY;
    conn->gone = (c->flags & FLAG_GONE) != 0;
    set_deadline(conn, &conn->read_deadline, c->read_at);
    set_deadline(conn, &conn->write_deadline, c->write_at);
    for (unsigned i = 0; i < c->deadlines; i++)
        set_deadline(conn, conn_session_deadline(conn, i), c->session_at[i]);
    conn_rejoin(conn);
    worker->slots[slot].conn = conn;
    atomic_fetch_add_explicit(&worker->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->protocol->connections, 1, memory_order_relaxed);
    return conn;
}

/* Restores input that was not served; the worker parses it in its first iteration. */
static void restore_input(struct conn *conn, const struct carried *c, struct record_reader *r)
{
    if (conn->writing == WRITING_SHUT)
        conn->in_end = c->thrown_away;
    if (c->in_len == 0)
        return;
    if (!conn_take_input(conn, c->in, c->in_len, c->in_len)) {
        record_refuse(r, "no memory for the input of clients");
        return;
    }
    conn->unserved = true;
}

/* Reads pieces of output and queues them as answers. */
static void restore_output(struct conn *conn, struct record_reader *r)
{
    uint32_t pieces = record_get_u32(r);
    for (uint32_t i = 0; i < pieces && record_ok(r); i++) {
        const void *data;
        size_t len = record_get_bytes(r, &data);
        if (len > UINT32_MAX / 2 - conn->out_bytes) {
            record_refuse(r, "a connection has too much output");
            return;
        }
        conn_reply(conn, data, len);
    }
    if (conn->writing == WRITING_FAILED)
        record_refuse(r, "no memory for answers to clients");
}

/* The answers get the numbers 0, 1, 2 and so on. */
static void restore_answers(struct conn *conn, struct record_reader *r)
{
    uint32_t pending = record_get_u32(r), number;
    if (pending > conn->protocol->row->pending_max)
        record_refuse(r, "a connection has too many pending answers");
    for (uint32_t i = 0; i < pending && record_ok(r); i++) {
        if (!conn_pend(conn, &number)) {
            record_refuse(r, "no memory for pending answers");
            return;
        }
        bool complete = record_get_bool(r), checks = record_get_bool(r);
        uint32_t check_at = record_get_u32(r);
        conn_answer(conn, number);
        if (conn->aside) {
            conn_held_answer(conn, number)->checks = checks;
            conn_held_answer(conn, number)->check_at = check_at;
        }
        restore_output(conn, r);
        if (complete && i > 0)
            conn_answered(conn);
        conn->aside = false;
    }
    conn->worker->pending_conn = NULL; /* no request is being served */
}

static void restore_extension(struct conn *conn, struct record_reader *r)
{
    struct conn_extension *extension = conn_extension(conn);
    extension->wait_for_all = record_get_bool(r);
    restore_answers(conn, r);
    uint32_t after = record_get_u32(r);
    for (uint32_t i = 0; i < after && record_ok(r); i++) {
        const void *data;
        size_t len = record_get_bytes(r, &data);
        if (!conn_interject(conn, data, len, SIZE_MAX))
            record_refuse(r, "no memory for answers to clients");
    }
    extension->checks = record_get_bool(r);
    extension->check_at = conn_position_restore(conn, record_get_i64(r));
    extension->part_bytes = record_get_u32(r);
    extension->wants_room = record_get_bool(r);
    extension->room_at = record_get_u64(r);
    if (record_ok(r) && conn->reading == READING_PENDING && conn->pending == 0)
        record_refuse(r, "a connection waits, but no answer is pending");
    const struct protocol_row *row = conn->protocol->row;
    if ((extension->checks && !row->may_write) || (extension->wants_room && !row->room))
        record_refuse(r, "a connection needs what its protocol no longer has");
}

/* Keeps a connection that was in its TLS handshake, to be closed; its protocol never knew it. */
static void keep_handshake(struct carry *carry, const struct carried *c, struct record_reader *r)
{
    /* Grows at powers of two. */
    uint32_t count = carry->handshakes;
    if ((count & (count - 1)) == 0) {
        int *fds = reallocarray(carry->handshake_fds, count ? 2 * (size_t)count : 1, sizeof(*fds));
        if (!fds) {
            record_refuse(r, "no memory for connections in a handshake");
            return;
        }
        carry->handshake_fds = fds;
    }
    atomic_fetch_add_explicit(&c->protocol->closed[CLOSE_UPGRADE], 1, memory_order_relaxed);
    carry->handshake_fds[carry->handshakes++] = c->fd;
}

void carry_drop_handshakes(struct carry *carry)
{
    for (uint32_t i = 0; i < carry->handshakes; i++) {
        if (carry->handshake_fds[i] >= 0)
            close(carry->handshake_fds[i]);
    }
    free(carry->handshake_fds);
    carry->handshake_fds = NULL;
}

static bool restore_conn(struct carry *carry, struct record_reader *r, bool v1)
{
    struct carried c;
    (v1 ? read_carried_v1 : read_carried)(carry, r, &c);
    if (record_ok(r) && !is_possible(&c))
        record_refuse(r, "a connection's state contradicts itself");
    if (record_ok(r) && !carry->begun)
        record_refuse(r, "a connection comes before the workers");
    if (!record_ok(r))
        return false;
    if (carry->dry_run) {
        c.fd = -1;
    } else if (fcntl(c.fd, F_GETFD) < 0) {
        record_refuse(r, "a connection's descriptor is not open");
        return false;
    }
    carry->carried++;
    if (c.phase == PHASE_HANDSHAKE) {
        keep_handshake(carry, &c, r);
        return record_ok(r);
    }
    /* Until it is a connection, the descriptor stays open for the old program. */
    struct conn *conn = make_conn(carry, &c);
    if (!conn || (!carry->dry_run && fcntl(c.fd, F_SETFD, FD_CLOEXEC) != 0)) {
        record_refuse(r, "a connection's slot is taken or missing, or there is no memory for it");
        return false;
    }
    if (c.flags & FLAG_SOURCE && !carry->dry_run)
        conn->source = source_enter_peer(&conn->worker->server->sources, conn->stream.fd);
    restore_input(conn, &c, r);
    restore_output(conn, r);
    bool extended = !v1 && record_get_bool(r);
    if (extended && conn->protocol->row->extends_later && !conn_extend(conn))
        record_refuse(r, "no memory for a connection");
    else if (extended != (conn->extended != 0) && !v1)
        record_refuse(r, "a connection's protocol has changed");
    else if (extended)
        restore_extension(conn, r);
    if (record_ok(r) && conn_is_served(conn) && !conn->protocol->row->restore(conn, r))
        record_refuse(r, "a connection's session is not valid");
    record_leave(r);
    worker_flush_later(conn->worker, conn); /* the first iteration watches, writes, reads */
    loop_soon(conn->worker->reactor.loop);
    return record_ok(r);
}

bool carry_restore(struct carry *carry, uint32_t kind, struct record_reader *section)
{
    switch (kind) {
    case CARRY_WORKERS:
        return restore_workers(carry, section);
    case CARRY_CONN:
        return restore_conn(carry, section, false);
    case CARRY_CONN_V1:
        return restore_conn(carry, section, true);
    default:
        return false;
    }
}

void carry_done(const struct carry *carry)
{
    for (unsigned i = 0; i < carry->server->count; i++)
        worker_chain_free_slots(carry->server->workers[i]);
    carry->server->restores = false;
    allow_moment(carry->server);
}
