/*
 * carry.c - parking workers, and writing and reading what their connections are (see carry.h).
 *
 * A connection's section, in this order: the protocol's name; u32 worker, slot, descriptor; u8
 * transport, state, reason and flags; u32 when it was opened; i64 its three deadlines; u32 bytes
 * thrown away while it lingers; bytes received and not dealt with; u32 number of pieces of output,
 * and each piece's bytes; then, while it is open, what its protocol makes of its session.
 *
 * What was received is looked at anew by the process that reads it, whether it had been found to be
 * unfinished or not: so its limits hold, and nothing of a parser's state has to be carried.
 */
#include "net/carry.h"

#include "net/private.h"

#include "base/log.h"
#include "base/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In a connection's flags. */
#define FLAG_PAUSED    1u
#define FLAG_LINGERING 2u
#define FLAG_MORE      4u
#define FLAG_READ_ON   8u
#define FLAG_SOURCE    16u /* it is counted by its address */
#define FLAGS_KNOWN    31u

#define PROTOCOL_NAME_MAX 31

/* In so long the workers' first turns are over. */
#define MOMENT_NS NS_PER_S

/* ---- all connections ----------------------------------------------------------------------- */

/* Calls `visit` for every connection of the server that is not closed. */
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
    struct deadlines *ds = &conn->worker->deadlines;
    if (deadline_is_set(d) && deadline_at(ds, d) < at_ns)
        deadline_set(ds, d, at_ns);
}

static void allow_conn(struct conn *conn, void *arg)
{
    const int64_t *at_ns = arg;
    allow_until(conn, &conn->read_deadline, *at_ns);
    allow_until(conn, &conn->write_deadline, *at_ns);
}

/*
 * Peers whose time to send or to take was up while nobody looked may have done so in time: that
 * shows in the workers' first turns, and until then none of them is given up.
 */
static void allow_moment(const struct server *server)
{
    int64_t at_ns = clock_mono_ns() + MOMENT_NS;
    each_conn(server, allow_conn, &at_ns);
}

/* ---- parking ------------------------------------------------------------------------------- */

static void on_park(struct mail *mail, void *reader)
{
    (void)mail;
    struct worker *worker = reader;
    loop_stop(worker->loop);
}

/* Delivers letters and sends what is queued, until none of the workers has anything to do. */
static void settle_all(struct server *server)
{
    bool busy;
    do {
        busy = false;
        for (unsigned i = 0; i < server->count; i++)
            busy = worker_settle_parked(server->workers[i]) || busy;
    } while (busy);
}

void server_park(struct server *server)
{
    for (unsigned i = 0; i < server->count; i++) {
        struct worker *worker = server->workers[i];
        worker->stop.deliver = on_park;
        worker_post(worker, &worker->stop);
    }
    for (unsigned i = 0; i < server->count; i++) {
        worker_join(server->workers[i]);
        server->workers[i]->started = false;
    }
    settle_all(server);
}

bool server_unpark(struct server *server)
{
    allow_moment(server);
    for (unsigned i = 0; i < server->count; i++) {
        loop_soon(server->workers[i]->loop); /* sends what was queued meanwhile */
        if (!worker_start(server->workers[i]))
            return false;
    }
    return true;
}

/* ---- all connections, parked ---------------------------------------------------------------- */

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

/* ---- writing ------------------------------------------------------------------------------- */

static void save_output(const struct conn *conn, struct record_writer *w)
{
    uint32_t pieces = 0;
    for (const struct chunk *c = conn->out_first; c; c = c->next)
        pieces++;
    record_put_u32(w, pieces);
    for (const struct chunk *c = conn->out_first; c; c = c->next)
        record_put_bytes(w, c->data + c->begin, c->end - c->begin);
}

static void save_conn(struct conn *conn, void *arg)
{
    struct record_writer *w = arg;
    const struct deadlines *ds = &conn->worker->deadlines;
    CHECK(!conn->doomed && !conn->in_flush_list);
    bool has_input = conn->state == CONN_OPEN && conn->in;
    record_begin(w, CARRY_CONN);
    record_put_bytes(w, conn->protocol->name, strlen(conn->protocol->name));
    record_put_u32(w, conn->worker->number);
    record_put_u32(w, conn->slot);
    record_put_u32(w, (uint32_t)conn->stream.fd);
    record_put_u8(w, conn->stream.transport);
    record_put_u8(w, conn->state);
    record_put_u8(w, conn->reason);
    record_put_u8(w,
                  (uint8_t)((conn->paused ? FLAG_PAUSED : 0) |
                            (conn->lingering ? FLAG_LINGERING : 0) | (conn->more ? FLAG_MORE : 0) |
                            (conn->read_on ? FLAG_READ_ON : 0) | (conn->source ? FLAG_SOURCE : 0)));
    record_put_u32(w, conn->opened);
    record_put_i64(w, deadline_at(ds, &conn->read_deadline));
    record_put_i64(w, deadline_at(ds, &conn->write_deadline));
    record_put_i64(w, deadline_at(ds, &conn->session_deadline));
    record_put_u32(w, conn->lingering ? conn->in_end : 0);
    record_put_bytes(w, has_input ? conn->in + conn->in_begin : NULL,
                     has_input ? conn->in_end - conn->in_begin : 0);
    save_output(conn, w);
    if (conn->state == CONN_OPEN)
        conn->protocol->save(conn, w);
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

/* ---- reading ------------------------------------------------------------------------------- */

static bool restore_workers(struct carry *carry, struct record_reader *r)
{
    struct server *server = carry->server;
    uint32_t count = record_get_u32(r);
    if (carry->begun || count == 0 || count > WORKERS_MAX)
        record_refuse(r, "there can't be so many workers");
    carry->begun = true;
    carry->same_places = count == server->count;
    for (uint32_t i = 0; i < count && record_ok(r); i++) {
        uint32_t slots = record_get_u32(r);
        const uint8_t *generations = record_take(r, (size_t)slots * 4);
        if (!generations || !carry->same_places)
            continue;
        if (!worker_place_slots(server->workers[i], slots))
            record_refuse(r, "there is no memory for the workers' connections");
        for (uint32_t slot = 0; slot < slots && record_ok(r); slot++) {
            memcpy(&server->workers[i]->slots[slot].generation, generations + (size_t)slot * 4, 4);
            server->workers[i]->slots[slot].generation =
                le32toh(server->workers[i]->slots[slot].generation);
        }
    }
    record_leave(r);
    return record_ok(r);
}

/* What stands before the session in a connection's section. */
struct carried {
    struct protocol *protocol;
    uint32_t worker, slot, opened, thrown_away;
    int fd;
    uint8_t transport, state, reason, flags;
    int64_t read_at, write_at, session_at;
    const void *in;
    size_t in_len;
    uint32_t pieces;
};

static struct protocol *read_protocol(const struct carry *carry, struct record_reader *r)
{
    char name[PROTOCOL_NAME_MAX + 1] = "";
    const void *text;
    size_t len = record_get_bytes(r, &text);
    if (len <= PROTOCOL_NAME_MAX)
        memcpy(name, text, len);
    struct protocol *protocol = carry->protocol(carry->arg, name);
    if (!protocol || !protocol->restore)
        record_refuse(r, "a connection is of a protocol that is not known");
    return protocol;
}

/* Whether a connection can be so. */
static bool is_possible(const struct carried *c)
{
    bool open = c->state == CONN_OPEN, finishing = c->state == CONN_FINISHING;
    bool handshaking = c->state == CONN_HANDSHAKING && c->transport == TRANSPORT_TLS;
    return c->transport <= TRANSPORT_UNIX && c->reason < CLOSE_REASON_COUNT &&
           (c->flags & ~FLAGS_KNOWN) == 0 && (open || finishing || handshaking) &&
           (open || c->session_at == DEADLINE_NONE) && (open || !(c->flags & FLAG_PAUSED)) &&
           (finishing || !(c->flags & FLAG_LINGERING)) && c->in_len <= CARRY_INPUT_MAX &&
           (open || c->in_len == 0);
}

static void read_carried(const struct carry *carry, struct record_reader *r, struct carried *c)
{
    *c = (struct carried){.protocol = read_protocol(carry, r)};
    c->worker = record_get_u32(r);
    c->slot = record_get_u32(r);
    c->fd = (int)record_get_u32(r);
    c->transport = record_get_u8(r);
    c->state = record_get_u8(r);
    c->reason = record_get_u8(r);
    c->flags = record_get_u8(r);
    c->opened = record_get_u32(r);
    c->read_at = record_get_i64(r);
    c->write_at = record_get_i64(r);
    c->session_at = record_get_i64(r);
    c->thrown_away = record_get_u32(r);
    c->in_len = record_get_bytes(r, &c->in);
    c->pieces = record_get_u32(r);
    if (record_ok(r) && !is_possible(c))
        record_refuse(r, "a connection's state contradicts itself");
    if (carry->rehearse)
        c->fd = -1;
}

/* Where a connection goes: NULL: the place is taken or not there, or there is no memory. */
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

static void set_deadline(struct conn *conn, struct deadline *d, enum deadline_kind kind,
                         int64_t at_ns)
{
    d->kind = kind;
    if (at_ns != DEADLINE_NONE)
        deadline_set(&conn->worker->deadlines, d, at_ns);
}

/* Makes the connection, without its session, its output and what was received. NULL: no memory or
 * no such place. */
static struct conn *make_conn(const struct carry *carry, const struct carried *c)
{
    uint32_t slot;
    struct worker *worker = place(carry, c, &slot);
    struct conn *conn = worker ? calloc(1, sizeof(*conn) + c->protocol->session_size) : NULL;
    if (!conn || !deadlines_reserve(&worker->deadlines, CONN_DEADLINES)) {
        free(conn);
        return NULL;
    }
    conn->worker = worker;
    conn->protocol = c->protocol;
    conn->stream = (struct stream){.fd = c->fd, .transport = c->transport};
    conn->slot = slot;
    conn->generation = worker->slots[slot].generation;
    conn->opened = c->opened;
    conn->state = c->state;
    conn->reason = c->reason;
    conn->paused = c->flags & FLAG_PAUSED;
    conn->lingering = (c->flags & FLAG_LINGERING) != 0;
    conn->more = (c->flags & FLAG_MORE) != 0;
    conn->read_on = (c->flags & FLAG_READ_ON) != 0;
    set_deadline(conn, &conn->read_deadline, DEADLINE_READ, c->read_at);
    set_deadline(conn, &conn->write_deadline, DEADLINE_WRITE, c->write_at);
    set_deadline(conn, &conn->session_deadline, DEADLINE_SESSION, c->session_at);
    conn_rejoin(conn);
    worker->slots[slot].conn = conn;
    atomic_fetch_add_explicit(&worker->connections, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->protocol->connections, 1, memory_order_relaxed);
    return conn;
}

/* Counts it by its address again. */
static void find_source(struct conn *conn)
{
    struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(from);
    if (getpeername(conn->stream.fd, (struct sockaddr *)&from, &len) != 0 ||
        (from.ss_family != AF_INET && from.ss_family != AF_INET6))
        return; /* it has gone, which will show */
    uint32_t source =
        source_enter(&conn->worker->server->sources, (struct sockaddr *)&from, UINT32_MAX);
    conn->source = source == SOURCE_FULL || source == SOURCE_NO_MEMORY ? 0 : source;
}

/* What was received and not dealt with: looked at in the worker's first turn. */
static void restore_input(struct conn *conn, const struct carried *c, struct record_reader *r)
{
    if (conn->lingering)
        conn->in_end = c->thrown_away;
    if (c->in_len == 0)
        return;
    conn->in = malloc(c->in_len);
    if (!conn->in) {
        record_refuse(r, "there is no memory for what clients have sent");
        return;
    }
    memcpy(conn->in, c->in, c->in_len);
    conn->in_end = conn->in_room = (uint32_t)c->in_len;
    conn->stalled = true;
}

static void restore_output(struct conn *conn, uint32_t pieces, struct record_reader *r)
{
    for (uint32_t i = 0; i < pieces && record_ok(r); i++) {
        const void *data;
        size_t len = record_get_bytes(r, &data);
        if (len > UINT32_MAX / 2 - conn->out_bytes) {
            record_refuse(r, "a connection has more output than can be");
            return;
        }
        conn_reply(conn, data, len);
    }
    if (conn->doomed)
        record_refuse(r, "there is no memory for what clients are to be sent");
}

static bool restore_conn(struct carry *carry, struct record_reader *r)
{
    struct carried c;
    read_carried(carry, r, &c);
    if (record_ok(r) && !carry->begun)
        record_refuse(r, "connections come before their workers");
    if (!record_ok(r))
        return false;
    if (!carry->rehearse && fcntl(c.fd, F_SETFD, FD_CLOEXEC) != 0) {
        record_refuse(r, "a connection's descriptor is not open");
        return false;
    }
    carry->carried++;
    if (c.state == CONN_HANDSHAKING) {
        atomic_fetch_add_explicit(&c.protocol->closed[CLOSE_UPGRADE], 1, memory_order_relaxed);
        if (c.fd >= 0)
            close(c.fd);
        carry->handshakes++;
        return true;
    }
    struct conn *conn = make_conn(carry, &c);
    if (!conn) {
        record_refuse(r, "a connection has no place, or there is no memory for it");
        return false;
    }
    if (c.flags & FLAG_SOURCE && !carry->rehearse)
        find_source(conn);
    restore_input(conn, &c, r);
    restore_output(conn, c.pieces, r);
    if (record_ok(r) && conn->state == CONN_OPEN && !conn->protocol->restore(conn, r))
        record_refuse(r, "a connection's session can't be so");
    record_leave(r);
    worker_flush_later(conn->worker, conn); /* in the first turn: watches, sends, goes on */
    loop_soon(conn->worker->loop);
    return record_ok(r);
}

bool carry_restore(struct carry *carry, uint32_t kind, struct record_reader *section)
{
    switch (kind) {
    case CARRY_WORKERS:
        return restore_workers(carry, section);
    case CARRY_CONN:
        return restore_conn(carry, section);
    default:
        return false;
    }
}

void carry_done(const struct carry *carry)
{
    for (unsigned i = 0; i < carry->server->count; i++)
        worker_chain_free_slots(carry->server->workers[i]);
    allow_moment(carry->server);
}
