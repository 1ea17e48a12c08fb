/*
 * conn_state.c - one connection's identity, states and end (conn.h). input.c reads, output.c
 * writes.
 *
 * Reading states, and the event that causes each transition:
 *
 *     HANDSHAKE -> OPEN       TLS is set up
 *     OPEN      -> PENDING    an answer comes later, and the next request must wait for it
 *               -> PIECES     an answer continues in pieces
 *               -> FULL       half of the output limit is queued
 *               -> ENDED      the client sends nothing more; its requests are still served
 *     PENDING   -> OPEN       answers came
 *     PIECES    -> OPEN       the answer is complete
 *     FULL      -> OPEN       the client has read enough
 *     any but DISCARD -> DISCARD   the last answer is queued; no more requests are served
 *     any             -> CLOSED
 *
 * Only conn_move changes this state. A connection is served from OPEN to ENDED; when it leaves
 * these states, conn_move calls the protocol's `close`.
 *
 * The writing state changes between OPEN and BLOCKED or CROSSED. It is SHUT after the last answer,
 * and FAILED when there is no memory.
 */
#include "net/worker_internal.h"

#include "base/log.h"
#include "base/number.h"
#include "net/address.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- words ----------------------------------------------------------------------------------- */

static const char *const close_words[] = {
#define ROW(name, word) word,
    CLOSE_REASONS(ROW)
#undef ROW
};

const char *protocol_close_word(const struct protocol_row *row, unsigned reason)
{
    if (reason < ARRAY_SIZE(close_words))
        return close_words[reason];
    if (!row->ends)
        return NULL;
    for (unsigned i = 0; i < CLOSE_OWN_MAX && row->ends[i]; i++) {
        if (i == reason - CLOSE_OWN)
            return row->ends[i];
    }
    return NULL;
}

const char *transport_word(enum transport transport)
{
    static const char *const words[] = {
        [TRANSPORT_TCP] = "tcp", [TRANSPORT_TLS] = "tls", [TRANSPORT_UNIX] = "unix"};
    CHECK(transport < ARRAY_SIZE(words));
    return words[transport];
}

/* ---- identity -------------------------------------------------------------------------------- */

_Static_assert(offsetof(struct conn, worker) == offsetof(struct conn_head, worker) &&
                   offsetof(struct conn, protocol) == offsetof(struct conn_head, protocol),
               "CONN_HEAD comes first");

void *conn_session(struct conn *conn)
{
    return conn->session;
}

uint32_t conn_id(const struct conn *conn)
{
    return (conn->worker->number << 24 | conn->slot) + 1;
}

uint64_t conn_tag(const struct conn *conn)
{
    return conn_tag_of(conn->worker, conn->slot, conn->generation);
}

unsigned conn_tag_worker(uint64_t tag)
{
    return (unsigned)(tag >> 56);
}

struct conn *conn_find(struct worker *worker, uint64_t tag)
{
    uint32_t slot = (uint32_t)(tag >> 32) & 0xffffff;
    if (conn_tag_worker(tag) != worker->number || slot >= worker->slot_count)
        return NULL;
    const struct slot *s = &worker->slots[slot];
    return s->generation == (uint32_t)tag ? s->conn : NULL;
}

static struct conn *if_served(struct conn *conn)
{
    return conn && conn_is_served(conn) ? conn : NULL;
}

struct conn *conn_by_tag(struct worker *worker, uint64_t tag)
{
    return if_served(conn_find(worker, tag));
}

unsigned conn_id_worker(uint32_t id)
{
    return (id - 1) >> 24;
}

struct conn *conn_by_id(struct worker *worker, uint32_t id)
{
    uint32_t slot = (id - 1) & (CONN_ID_SECOND - 1);
    if (id == 0 || conn_id_worker(id) != worker->number || slot >= worker->slot_count)
        return NULL;
    return if_served(worker->slots[slot].conn);
}

void conn_tag_text(uint64_t tag, char *to)
{
    snprintf(to, CONN_TAG_TEXT, "%u.%" PRIu32 ".%" PRIu32, conn_tag_worker(tag),
             (uint32_t)(tag >> 32) & 0xffffff, (uint32_t)tag);
}

/* Parses a number up to `max` that ends before the byte `end`. Moves *text past both. */
static bool parse_number(const char **text, uint32_t max, char end, uint64_t *number_r)
{
    const char *stop = strchrnul(*text, end);
    struct bytes digits = bytes_at(*text, (size_t)(stop - *text));
    if (*stop != end || !number_parse_plain(digits, max, number_r))
        return false;
    *text = stop + 1;
    return true;
}

bool conn_tag_parse(const char *text, uint64_t *tag_r)
{
    uint64_t worker, slot, generation;
    if (!parse_number(&text, WORKERS_MAX - 1, '.', &worker) ||
        !parse_number(&text, 0xffffff, '.', &slot) ||
        !parse_number(&text, UINT32_MAX, '\0', &generation))
        return false;
    *tag_r = worker << 56 | slot << 32 | generation;
    return true;
}

/* ---- the peer -------------------------------------------------------------------------------- */

enum transport conn_transport(const struct conn *conn)
{
    return (enum transport)conn->stream.transport;
}

/* The peer's address; its family is AF_UNSPEC when the peer has gone. */
static void peer_address(const struct conn *conn, struct sockaddr_storage *sa_r)
{
    socklen_t len = sizeof(*sa_r);
    *sa_r = (struct sockaddr_storage){.ss_family = AF_UNSPEC};
    if (getpeername(conn->stream.fd, (struct sockaddr *)sa_r, &len) != 0)
        sa_r->ss_family = AF_UNSPEC;
}

void conn_peer_text(const struct conn *conn, char *to)
{
    struct sockaddr_storage sa;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    peer_address(conn, &sa);
    if (sa.ss_family == AF_INET || sa.ss_family == AF_INET6)
        address_text((struct sockaddr *)&sa, to, CONN_PEER_TEXT);
    else if (sa.ss_family == AF_UNIX &&
             getsockopt(conn->stream.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        snprintf(to, CONN_PEER_TEXT, "unix pid %ld uid %lu", (long)peer.pid,
                 (unsigned long)peer.uid);
    else
        snprintf(to, CONN_PEER_TEXT, "?");
}

bool conn_peer_in(const struct conn *conn, const struct access_network *list, size_t count)
{
    struct sockaddr_storage sa;
    peer_address(conn, &sa);
    if (sa.ss_family == AF_UNIX)
        return true;
    bool known = sa.ss_family == AF_INET || sa.ss_family == AF_INET6;
    return known && count > 0 && access_allows(list, count, (struct sockaddr *)&sa);
}

void conn_describe(struct conn *conn, struct conn_info *info_r)
{
    int64_t now_ns = worker_mono_ns(conn->worker);
    int64_t age = (uint32_t)((uint32_t)(now_ns >> CONN_OPENED_SHIFT) - conn->opened);
    *info_r = (struct conn_info){
        .tag = conn_tag(conn),
        .protocol = conn->protocol,
        .transport = conn_transport(conn),
        .opened_ns = ((now_ns >> CONN_OPENED_SHIFT) - age) * (INT64_C(1) << CONN_OPENED_SHIFT),
        .queued = conn->out_bytes,
    };
    conn_peer_text(conn, info_r->peer);
    if (conn_is_served(conn) && conn->protocol->row->describe)
        conn->protocol->row->describe(conn, info_r);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The session's size, rounded up so that the deadlines and the extension after it are aligned. */
static size_t session_room(const struct protocol *protocol)
{
    return (protocol->session_size + 7) & ~(size_t)7;
}

static size_t deadlines_offset(const struct protocol *protocol)
{
    return offsetof(struct conn, session) + session_room(protocol);
}

/* The size of a connection of this protocol, in bytes. */
static size_t conn_size(const struct protocol *protocol)
{
    size_t size = deadlines_offset(protocol) + protocol->row->deadlines * sizeof(struct deadline);
    if (protocol_is_extended(protocol->row))
        size += sizeof(struct conn_extension);
    else if (protocol->row->extends_later)
        size += sizeof(struct conn_extension *);
    return size < sizeof(struct conn) ? sizeof(struct conn) : size;
}

unsigned conn_deadline_count(const struct protocol *protocol)
{
    return 2 + protocol->row->deadlines;
}

struct deadline *conn_session_deadline(struct conn *conn, unsigned which)
{
    CHECK(which < conn->protocol->row->deadlines);
    char *first = (char *)conn + deadlines_offset(conn->protocol);
    return (struct deadline *)(void *)first + which;
}

/* The bytes after the session's deadlines: the extension, or the pointer to it. */
static void *extension_place(const struct conn *conn)
{
    const struct protocol *protocol = conn->protocol;
    const char *at = (const char *)conn + deadlines_offset(protocol) +
                     protocol->row->deadlines * sizeof(struct deadline);
    return unconst(at);
}

static __attribute__((noinline)) struct conn_extension *extension_apart(const struct conn *conn)
{
    CHECK(conn->extended & EXTENDED_APART);
    return *(struct conn_extension **)extension_place(conn);
}

struct conn_extension *conn_extension(const struct conn *conn)
{
    if (likely(conn->extended & EXTENDED_INSIDE))
        return extension_place(conn);
    return extension_apart(conn);
}

bool conn_extend(struct conn *conn)
{
    const struct protocol_row *row = conn->protocol->row;
    if (conn->extended)
        return true;
    CHECK(row->extends_later && !protocol_is_extended(row));
    struct conn_extension *extension = calloc(1, sizeof(*extension));
    if (!extension)
        return false;
    extension->queued = conn->out_bytes;
    *(struct conn_extension **)extension_place(conn) = extension;
    conn->extended = EXTENDED_APART;
    return true;
}

/* Frees the extension with all that it owns. */
static void free_extension(struct conn *conn)
{
    struct conn_extension *extension = conn_extension(conn);
    free(extension->held);
    if (conn->extended & EXTENDED_APART)
        free(extension);
}

struct conn *conn_new(struct worker *worker, struct protocol *protocol, struct stream stream)
{
    struct conn *conn = calloc(1, conn_size(protocol));
    if (!conn)
        return NULL;
    conn->worker = worker;
    conn->protocol = protocol;
    conn->stream = stream;
    conn->reading = stream.transport == TRANSPORT_TLS ? READING_HANDSHAKE : READING_OPEN;
    conn->extended = protocol_is_extended(protocol->row) ? EXTENDED_INSIDE : 0;
    conn->opened = (uint32_t)(worker_mono_ns(worker) >> CONN_OPENED_SHIFT);
    conn->read_deadline.kind = DEADLINE_READ;
    conn->write_deadline.kind = DEADLINE_WRITE;
    for (unsigned i = 0; i < protocol->row->deadlines; i++) {
        struct deadline *d = conn_session_deadline(conn, i);
        size_t offset = (size_t)((char *)d - (char *)conn);
        d->kind = DEADLINE_SESSION | (uint32_t)offset << KIND_BITS;
    }
    return conn;
}

void conn_free(struct conn *conn)
{
    CHECK(conn->reading == READING_CLOSED);
    conn_drop_output(conn);
    if (conn->extended)
        free_extension(conn);
    if (conn->in)
        conn_drop_input(conn);
    free(conn);
}

/* ---- requests that the service keeps --------------------------------------------------------- */

bool conn_hold(struct conn *conn, size_t bytes)
{
    enum close_reason why;
    if (!claim_memory(conn, bytes, &why))
        return false;
    conn_extension(conn)->held_bytes += bytes;
    return true;
}

void conn_unhold(struct conn *conn, size_t bytes)
{
    struct conn_extension *extension = conn_extension(conn);
    CHECK(bytes <= extension->held_bytes);
    extension->held_bytes -= bytes;
    claim_less(conn, bytes);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

void conn_expire_in(struct conn *conn, unsigned which, int64_t wait_ns)
{
    deadline_set(conn_deadlines(conn), conn_session_deadline(conn, which),
                 clock_mono_ns() + wait_ns);
}

void conn_clear_deadline(struct conn *conn, unsigned which)
{
    deadline_clear(conn_deadlines(conn), conn_session_deadline(conn, which));
}

bool conn_expires(const struct conn *conn, unsigned which)
{
    return deadline_is_set(conn_session_deadline(unconst(conn), which));
}

bool conn_in_pieces(const struct conn *conn)
{
    return conn->reading == READING_PIECES;
}

/* Handles a passed deadline of a request, a handshake, output or lingering. */
static void io_deadline_passed(struct conn *conn, enum close_reason reason)
{
    if (conn->reading == READING_DISCARD)
        conn_close(conn, conn->reason);
    else if (conn->reading == READING_HANDSHAKE)
        conn_handshake_failed(conn, "it took too long", false);
    else
        conn_close(conn, reason);
}

void conn_deadline_passed(struct deadline *d)
{
    struct conn *conn;
    switch (d->kind & KIND_MASK) {
    case DEADLINE_READ:
        io_deadline_passed(container_of(d, struct conn, read_deadline), CLOSE_REQUEST_TIMEOUT);
        break;
    case DEADLINE_WRITE:
        io_deadline_passed(container_of(d, struct conn, write_deadline), CLOSE_WRITE_TIMEOUT);
        break;
    default:
        conn = (struct conn *)(void *)((char *)d - (d->kind >> KIND_BITS));
        conn->protocol->row->expire(conn, (unsigned)(d - conn_session_deadline(conn, 0)));
    }
}

/* ---- catch-up -------------------------------------------------------------------------------- */

void conn_catch_up(struct conn *conn)
{
    bool sends_last = conn->reading == READING_DISCARD && conn->writing != WRITING_SHUT;
    if (!conn_is_served(conn) && !sends_last)
        return;
    if (!conn->behind)
        atomic_fetch_add_explicit(&conn->worker->behind, 1, memory_order_relaxed);
    conn->behind = true;
    if (conn->input == INPUT_DRY)
        conn->input = INPUT_MORE; /* only a read shows if there is more input */
    worker_flush_later(conn->worker, conn);
}

void conn_caught_up(struct conn *conn)
{
    if (conn->behind)
        atomic_fetch_sub_explicit(&conn->worker->behind, 1, memory_order_release);
    conn->behind = false;
}

/* ---- states ---------------------------------------------------------------------------------- */

#define TO(name) (1u << READING_##name)

static const uint16_t transitions[READING_COUNT] = {
    [READING_HANDSHAKE] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_OPEN] = TO(PENDING) | TO(PIECES) | TO(FULL) | TO(ENDED) | TO(DISCARD) | TO(CLOSED),
    [READING_PENDING] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_PIECES] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_FULL] = TO(OPEN) | TO(DISCARD) | TO(CLOSED),
    [READING_ENDED] = TO(DISCARD) | TO(CLOSED),
    [READING_DISCARD] = TO(CLOSED),
};

/* So much a connection gives back when it closes, as many others may in the same iteration; and in
 * each iteration after that. */
#define GIVE_BACK_FIRST 32
#define GIVE_BACK_STEP  512

/*
 * Ends service for this client: frees what it holds, and clears its deadlines and pending answers.
 */
static void stop_serving(struct conn *conn)
{
    conn->protocol->row->close(conn);
    for (unsigned i = 0; i < conn->protocol->row->deadlines; i++)
        conn_clear_deadline(conn, i);
    deadline_clear(conn_deadlines(conn), &conn->read_deadline);
    conn->unserved = false;
    if (conn->extended)
        conn_drop_extension(conn);
    if (conn->protocol->row->give_back && !conn->protocol->row->give_back(conn, GIVE_BACK_FIRST)) {
        worker_again_later(conn->worker, conn);
        conn->ending = true;
    }
}

bool conn_gave_back(struct conn *conn)
{
    if (likely(!conn->ending))
        return true;
    conn->ending = !conn->protocol->row->give_back(conn, GIVE_BACK_STEP);
    if (!conn->ending && conn->reading == READING_CLOSED)
        worker_give_slot(conn->worker, conn->slot);
    return !conn->ending;
}

void conn_move(struct conn *conn, enum conn_reading to)
{
    enum conn_reading from = conn->reading;
    CHECK(transitions[from] & (1u << to));
    if (from == READING_HANDSHAKE)
        claim_end(conn->worker, &conn->claim);
    if (conn_is_served(conn) && to >= READING_DISCARD)
        stop_serving(conn);
    conn->reading = (uint8_t)to;
}

void conn_open(struct conn *conn)
{
    if (conn->reading == READING_HANDSHAKE)
        conn_move(conn, READING_OPEN);
    conn->protocol->row->open(conn);
}

void conn_close(struct conn *conn, unsigned reason)
{
    if (conn->reading == READING_CLOSED)
        return;
    if (log_enabled(LOG_LEVEL_DEBUG))
        log_debug("%s: connection %u closed: %s", conn->protocol->row->name, conn_id(conn),
                  protocol_close_word(conn->protocol->row, reason));
    conn_move(conn, READING_CLOSED);
    deadline_clear(conn_deadlines(conn), &conn->read_deadline);
    deadline_clear(conn_deadlines(conn), &conn->write_deadline);
    loop_io_remove(conn->worker->reactor.loop, &conn->io);
    stream_close(&conn->stream);
    claim_end(conn->worker, &conn->claim);
    conn_caught_up(conn);
    worker_conn_closed(conn->worker, conn, reason);
}

void conn_finish(struct conn *conn, unsigned reason)
{
    if (!conn_is_served(conn) || !conn_may_finish(conn))
        return;
    conn_move(conn, READING_DISCARD);
    conn->reason = (uint8_t)reason;
    worker_flush_later(conn->worker, conn);
}
