/*
 * output.c - collects answers, keeps them in order, and writes them.
 *
 * A connection's output is a list of chunks, always in the right order. Answers to pending requests
 * and to the requests after them are kept in separate lists (struct held_answer) until all earlier
 * answers are complete. Interjections (conn_interject) are put into the output between two answers;
 * during an answer in pieces they wait until its end.
 *
 * Nothing is written immediately. A connection with new output joins the worker's flush list, and
 * is flushed after the event. The connection whose requests are being served joins last. So a
 * client that is woken by a request is notified before the sender of that request gets its answer.
 */
#include "net/worker_internal.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

/* A peer has this much time to read the last answer. */
#define LINGER_NS (2 * NS_PER_S)

#define FLUSH_PIECES 16

/* A mark behind all positions. */
#define CHECK_ALWAYS ((uint64_t)INT64_MAX / 2)

/* ---- chunks ---------------------------------------------------------------------------------- */

static inline void add_chunk(struct chunk_list *list, struct chunk *chunk)
{
    if (list->last)
        list->last->next = chunk;
    else
        list->first = chunk;
    list->last = chunk;
}

/* Returns a chunk at the end of `list` with room for `size` bytes; NULL when there is no memory. */
static inline struct chunk *chunk_with_room(struct conn *conn, struct chunk_list *list, size_t size)
{
    struct chunk *last = list->last;
    if (last && last->room - last->end >= size)
        return last;
    /* A connection that is being served may get many more answers in this iteration. */
    bool may_grow = last || conn == conn->worker->serving;
    struct chunk *chunk = worker_chunk_take(conn->worker, may_grow ? CHUNK_LARGE_ROOM : size);
    if (chunk)
        add_chunk(list, chunk);
    return chunk;
}

static void drop_chunks(struct conn *conn, struct chunk_list *list)
{
    while (list->first) {
        struct chunk *chunk = list->first;
        list->first = chunk->next;
        conn->out_bytes -= chunk->end - chunk->begin;
        worker_chunk_give(conn->worker, chunk);
    }
    list->last = NULL;
}

/* The number of bytes in a list of chunks. */
static size_t chunk_bytes(const struct chunk_list *list)
{
    size_t bytes = 0;
    for (const struct chunk *c = list->first; c; c = c->next)
        bytes += c->end - c->begin;
    return bytes;
}

/* Moves a kept list to the end of the output. */
static void append_kept(struct conn *conn, struct chunk_list *kept)
{
    if (!kept->first)
        return;
    conn_extension(conn)->queued += chunk_bytes(kept);
    if (conn->out.last)
        conn->out.last->next = kept->first;
    else
        conn->out.first = kept->first;
    conn->out.last = kept->last;
    *kept = (struct chunk_list){NULL, NULL};
}

void conn_drop_output(struct conn *conn)
{
    drop_chunks(conn, &conn->out);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Kept answers have a place by number. The number of places is a power of two, so that numbers may
 * wrap at 2^32. This is that number, less one. */
static uint32_t held_mask(const struct conn *conn)
{
    return UINT32_MAX >> __builtin_clz((conn->protocol->row->pending_max - 1) | 1);
}

static struct held_answer *held_at(const struct conn *conn, uint32_t number)
{
    return &conn_extension(conn)->held[number & held_mask(conn)];
}

struct held_answer *conn_held_answer(const struct conn *conn, uint32_t number)
{
    return conn_extension(conn)->held ? held_at(conn, number) : NULL;
}

/* The list for the answer that is being written now. */
static struct chunk_list *reply_list(struct conn *conn)
{
    return conn->aside ? &held_at(conn, conn_extension(conn)->current)->out : &conn->out;
}

/* Notes new output. A connection that is being served joins the flush list later, in
 * conn_end_serving. */
static inline void flush_later(struct conn *conn)
{
    if (conn != conn->worker->serving)
        worker_flush_later(conn->worker, conn);
}

/* Notes that there is no memory for an answer; the connection closes when it is flushed. */
static void fail(struct conn *conn)
{
    conn->writing = WRITING_FAILED;
    worker_flush_later(conn->worker, conn);
}

/* conn_reply_room when the last chunk has no room. */
static __attribute__((noinline)) void *new_room(struct conn *conn, size_t size)
{
    CHECK(size <= CONN_REPLY_MAX);
    struct chunk *chunk = NULL;
    if (likely(conn->writing != WRITING_FAILED))
        chunk = chunk_with_room(conn, reply_list(conn), size);
    if (likely(chunk))
        return chunk->data + chunk->end;
    fail(conn);
    return conn->worker->scratch + WORKER_SCRATCH - CONN_REPLY_MAX;
}

void *conn_reply_room(struct conn *conn, size_t size)
{
    struct chunk *last = conn->out.last;
    if (unlikely(conn->aside || conn->writing == WRITING_FAILED))
        return new_room(conn, size);
    if (!last && conn == conn->worker->serving) {
        struct chunk *chunk = worker_chunk_take(conn->worker, CHUNK_LARGE_ROOM);
        conn->out = (struct chunk_list){chunk, chunk};
        if (likely(chunk))
            return chunk->data;
    } else if (last && last->room - last->end >= size) {
        return last->data + last->end;
    }
    return new_room(conn, size);
}

/* Counts `len` bytes that were written after the end of a chunk. */
static inline void extend_chunk(struct conn *conn, struct chunk *chunk, size_t len)
{
    CHECK(len <= chunk->room - chunk->end);
    chunk->end += (uint32_t)len;
    conn->out_bytes += (uint32_t)len;
}

/* conn_replied for the rare cases: an extension, or no memory. */
static __attribute__((noinline)) void replied_extended(struct conn *conn, size_t len)
{
    if (conn->writing == WRITING_FAILED)
        return;
    extend_chunk(conn, reply_list(conn)->last, len);
    if (!conn->aside)
        conn_extension(conn)->queued += len;
    flush_later(conn);
}

void conn_replied(struct conn *conn, size_t len)
{
    if (unlikely(conn->extended || conn->writing == WRITING_FAILED)) {
        if (conn->extended)
            replied_extended(conn, len);
        return;
    }
    extend_chunk(conn, conn->out.last, len);
    flush_later(conn);
}

/* Copies bytes to the end of a list. */
static void add_bytes(struct conn *conn, struct chunk_list *list, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        size_t part = len < CONN_REPLY_MAX ? len : CONN_REPLY_MAX;
        struct chunk *chunk = chunk_with_room(conn, list, part);
        if (!chunk) {
            fail(conn);
            return;
        }
        memcpy(chunk->data + chunk->end, at, part);
        extend_chunk(conn, chunk, part);
        if (list == &conn->out && conn->extended)
            conn_extension(conn)->queued += part;
        at += part;
        len -= part;
    }
    flush_later(conn);
}

void conn_reply(struct conn *conn, const void *data, size_t len)
{
    if (likely(conn->writing != WRITING_FAILED))
        add_bytes(conn, reply_list(conn), data, len);
}

void conn_reply_shared(struct conn *conn, const void *bytes, size_t len,
                       void (*drop)(const void *bytes))
{
    bool failed = conn->writing == WRITING_FAILED;
    struct chunk *chunk = NULL;
    if (!failed && len > CONN_REPLY_MAX)
        chunk = worker_chunk_share(conn->worker, bytes, len, drop);
    if (!chunk) { /* it is short, or a copy may find memory */
        conn_reply(conn, bytes, len);
        drop(bytes);
        return;
    }
    struct chunk_list *list = reply_list(conn);
    add_chunk(list, chunk);
    conn->out_bytes += (uint32_t)len;
    if (list == &conn->out && conn->extended)
        conn_extension(conn)->queued += len;
    flush_later(conn);
}

bool conn_is_full(const struct conn *conn)
{
    return conn_over_half(conn);
}

size_t conn_output_limit(const struct conn *conn)
{
    return conn->worker->snapshot->limits.output_buffer;
}

size_t conn_space(const struct conn *conn)
{
    size_t limit = conn_output_limit(conn);
    return conn->out_bytes < limit ? limit - conn->out_bytes : 0;
}

/* ---- pending answers ------------------------------------------------------------------------- */

/* Makes sure that an answer can be kept. Returns false when there is no memory. */
static bool reserve_held(struct conn *conn, struct conn_extension *extension)
{
    unsigned max = conn->protocol->row->pending_max;
    CHECK(conn->pending < max && max <= PROTOCOL_PENDING_MAX);
    if (!extension->held && conn->pending > 0)
        extension->held = calloc((size_t)held_mask(conn) + 1, sizeof(*extension->held));
    if (!extension->held)
        return conn->pending == 0;
    *held_at(conn, extension->next) = (struct held_answer){.complete = false};
    return true;
}

bool conn_pend(struct conn *conn, uint32_t *number_r)
{
    struct conn_extension *extension = conn_extension(conn);
    if (!conn->aside && !reserve_held(conn, extension)) /* else conn_answer_next did */
        return false;
    *number_r = extension->next++;
    conn->pending++;
    conn->worker->pending_conn = conn;
    return true;
}

unsigned conn_pending(const struct conn *conn)
{
    return conn->pending;
}

void conn_answer_next(struct conn *conn)
{
    struct conn_extension *extension = conn_extension(conn);
    if (!reserve_held(conn, extension)) {
        fail(conn);
        return;
    }
    extension->current = extension->next;
    conn->aside = true;
    conn->worker->pending_conn = conn;
}

void conn_answer_served(struct conn *conn, bool answered)
{
    struct conn_extension *extension = conn_extension(conn);
    conn->aside = false;
    if (!answered)
        return;
    CHECK(extension->current == extension->next);
    held_at(conn, extension->next)->complete = true;
    extension->next++;
    conn->pending++;
    if (conn->pending == conn->protocol->row->pending_max) {
        extension->wait_for_all = false;
        conn_move(conn, READING_PENDING);
    }
}

void conn_answer(struct conn *conn, uint32_t number)
{
    struct conn_extension *extension = conn_extension(conn);
    CHECK(!conn->aside && number - extension->oldest < conn->pending);
    extension->current = number;
    conn->aside = number != extension->oldest;
}

/* All answers before a kept one are complete: moves the kept answer to the output. */
static void append_held(struct conn *conn, struct conn_extension *extension,
                        struct held_answer *held)
{
    if (held->checks) {
        extension->check_at = extension->queued + held->check_at;
        extension->checks = true;
    }
    append_kept(conn, &held->out);
}

/* The oldest answer is complete. Moves on to the next answer, and moves kept answers to the output
 * until one is incomplete. */
static void advance(struct conn *conn, struct conn_extension *extension)
{
    bool complete;
    do {
        extension->oldest++;
        conn->pending--;
        complete = false;
        if (conn->pending > 0) {
            struct held_answer *held = held_at(conn, extension->oldest);
            append_held(conn, extension, held);
            complete = held->complete;
        }
    } while (complete);
    flush_later(conn);
}

void conn_answered(struct conn *conn)
{
    struct conn_extension *extension = conn_extension(conn);
    if (conn->aside) {
        conn->aside = false;
        held_at(conn, extension->current)->complete = true;
        return;
    }
    advance(conn, extension);
    if (conn->reading == READING_PENDING && (conn->pending == 0 || !extension->wait_for_all)) {
        conn_move(conn, READING_OPEN);
        worker_flush_later(conn->worker, conn); /* to watch, and to serve what is here */
    }
}

void conn_drop_extension(struct conn *conn)
{
    struct conn_extension *extension = conn_extension(conn);
    if (conn->aside) /* the answer that is being made, maybe of a request that has no number yet */
        drop_chunks(conn, &held_at(conn, extension->current)->out);
    for (uint32_t n = extension->oldest; extension->held && n != extension->next; n++)
        drop_chunks(conn, &held_at(conn, n)->out);
    extension->oldest = extension->next;
    conn->pending = 0;
    conn->aside = false;
    append_kept(conn, &extension->after);
    extension->wants_room = extension->checks = false;
    conn_unhold(conn, extension->held_bytes);
}

/* ---- interjections --------------------------------------------------------------------------- */

bool conn_interject(struct conn *conn, const void *data, size_t len, size_t unsent_max)
{
    struct conn_extension *extension = conn_extension(conn);
    if (conn->writing == WRITING_FAILED)
        return true; /* the connection is about to close */
    if (conn->out_bytes >= unsent_max) {
        extension->wants_room = true;
        extension->room_at = unsent_max / 2;
        return false;
    }
    bool within = conn->reading == READING_PIECES;
    add_bytes(conn, within ? &extension->after : &conn->out, data, len);
    return true;
}

bool conn_only_after_pieces(const struct conn *conn)
{
    return conn->reading == READING_PIECES && conn->extended &&
           conn->out_bytes - chunk_bytes(&conn_extension(conn)->after) <
               conn_output_limit(conn) / 2;
}

void conn_pieces_done(struct conn *conn)
{
    conn_move(conn, READING_OPEN);
    if (conn->extended)
        append_kept(conn, &conn_extension(conn)->after);
}

/* ---- positions ------------------------------------------------------------------------------- */

uint64_t conn_output_end(const struct conn *conn)
{
    return conn_extension(conn)->queued;
}

bool conn_was_written(const struct conn *conn, uint64_t position)
{
    /* A restored position of a byte that was written before is below 0, as an unsigned number. */
    return (int64_t)(conn_extension(conn)->written - position) > 0;
}

int64_t conn_position_save(const struct conn *conn, uint64_t position)
{
    return (int64_t)(position - conn_extension(conn)->written);
}

uint64_t conn_position_restore(const struct conn *conn, int64_t saved)
{
    return conn_extension(conn)->written + (uint64_t)saved;
}

void conn_check_output(struct conn *conn)
{
    struct conn_extension *extension = conn_extension(conn);
    if (conn->aside) {
        struct held_answer *held = held_at(conn, extension->current);
        held->check_at = (uint32_t)chunk_bytes(&held->out);
        held->checks = true;
        return;
    }
    /* What comes behind an answer in pieces has no position yet. */
    extension->check_at = conn->reading == READING_PIECES ? CHECK_ALWAYS : extension->queued;
    extension->checks = true;
}

/*
 * Asks the protocol if a marked answer comes next. Returns false when it has closed the connection.
 */
static bool may_write(struct conn *conn)
{
    if (!conn_extension(conn)->checks || conn->protocol->row->may_write(conn))
        return true;
    CHECK(conn->reading == READING_CLOSED);
    return false;
}

bool conn_may_finish(struct conn *conn)
{
    return !conn->extended || may_write(conn);
}

/* Counts bytes that were written. */
static void note_written(struct conn *conn, size_t len)
{
    struct conn_extension *extension = conn_extension(conn);
    extension->written += len;
    if (extension->written > extension->check_at)
        extension->checks = false;
}

/* ---- writing --------------------------------------------------------------------------------- */

enum close_reason conn_reason_of(ssize_t n)
{
    return n == STREAM_END        ? CLOSE_PEER
           : n == STREAM_RESET    ? CLOSE_RESET
           : n == STREAM_VANISHED ? CLOSE_VANISHED
           : n == STREAM_FLOODED  ? CLOSE_RECORDS
                                  : CLOSE_ERROR;
}

/* Removes bytes that were written from the output. */
static void drop_written(struct conn *conn, size_t len)
{
    conn->out_bytes -= (uint32_t)len;
    while (len > 0) {
        struct chunk *chunk = conn->out.first;
        CHECK(chunk);
        size_t here = chunk->end - chunk->begin;
        if (len < here) {
            chunk->begin += (uint32_t)len;
            return;
        }
        len -= here;
        conn->out.first = chunk->next;
        if (!conn->out.first)
            conn->out.last = NULL;
        worker_chunk_give(conn->worker, chunk);
    }
}

/* Writes one round of chunks. Sets *blocked_r when the socket did not take all of them. Returns the
 * number of bytes, or a negative number after closing the connection. */
static inline __attribute__((always_inline)) ssize_t write_round(struct conn *conn, bool *blocked_r)
{
    struct iovec pieces[FLUSH_PIECES];
    int count = 0;
    size_t all = 0;
    for (struct chunk *c = conn->out.first; c && count < FLUSH_PIECES; c = c->next) {
        pieces[count].iov_base = unconst(chunk_unwritten(c));
        pieces[count].iov_len = c->end - c->begin;
        all += c->end - c->begin;
        count++;
    }
    ssize_t n = stream_write(&conn->stream, pieces, count);
    if (n == STREAM_AGAIN || n == STREAM_CROSSED) {
        conn->writing = n == STREAM_CROSSED ? WRITING_CROSSED : WRITING_BLOCKED;
        *blocked_r = true;
        return 0;
    }
    if (n < 0) {
        atomic_fetch_add_explicit(&conn->protocol->send_errors, 1, memory_order_relaxed);
        conn_close(conn, conn_is_served(conn) ? conn_reason_of(n) : conn->reason);
        return -1;
    }
    *blocked_r = (size_t)n < all;
    conn->writing = *blocked_r ? WRITING_BLOCKED : WRITING_OPEN;
    return n;
}

/* Writes as much as the socket takes. Returns false after closing the connection. */
static bool write_out(struct conn *conn)
{
    bool progress = false, blocked = false;
    struct traffic *traffic = conn_traffic(conn);
    while (conn->out.first && !blocked) {
        if (unlikely(conn->extended) && !may_write(conn))
            return false;
        ssize_t n = write_round(conn, &blocked);
        if (n < 0)
            return false;
        if (n == 0)
            break;
        progress = true;
        if (traffic)
            tally_add(&traffic->sent, (uint64_t)n);
        if (unlikely(conn->extended))
            note_written(conn, (size_t)n);
        drop_written(conn, (size_t)n);
    }
    struct deadlines *ds = conn_deadlines(conn);
    if (!conn->out.first && !deadline_is_set(&conn->write_deadline))
        return true;
    if (!conn->out.first)
        deadline_clear(ds, &conn->write_deadline);
    else if (progress || !deadline_is_set(&conn->write_deadline))
        deadline_set(ds, &conn->write_deadline,
                     worker_mono_ns(conn->worker) +
                         conn->worker->snapshot->limits.write_timeout_ns);
    return true;
}

/* After the last answer: shuts down our side, and gives the peer time to read. */
static void conn_linger(struct conn *conn)
{
    if (conn->writing == WRITING_SHUT)
        return;
    conn->writing = WRITING_SHUT;
    stream_finish(&conn->stream);
    deadline_set(conn_deadlines(conn), &conn->read_deadline,
                 worker_mono_ns(conn->worker) + LINGER_NS);
    conn->in_end = 0; /* from here on counts discarded input */
}

/* Calls the protocol's `room` if it is waiting for room and there is enough. */
static void offer_room(struct conn *conn)
{
    struct conn_extension *extension = conn_extension(conn);
    if (!extension->wants_room || conn->out_bytes > extension->room_at || !conn_is_served(conn))
        return;
    extension->wants_room = false;
    conn->protocol->row->room(conn);
}

void conn_flush(struct conn *conn)
{
    if (conn->reading == READING_CLOSED)
        return;
    if (conn_is_served(conn) && server_is_ending(conn->worker->server))
        return; /* it is about to be closed */
    if (conn->writing == WRITING_FAILED) {
        conn_close(conn, CLOSE_MEMORY);
        return;
    }
    if (!write_out(conn))
        return;
    if (unlikely(conn->extended))
        offer_room(conn);
    if (conn->reading == READING_DISCARD && conn->out_bytes == 0)
        conn_linger(conn);
    if (conn->reading == READING_FULL && !conn_over_half(conn))
        conn_move(conn, READING_OPEN);
    if (conn->reading == READING_ENDED && conn->out_bytes == 0 && conn->pending == 0) {
        conn_close(conn, CLOSE_PEER);
        return;
    }
    bool goes_on = conn_has_work(conn);
    if (goes_on)
        worker_again_later(conn->worker, conn);
    if (unlikely(conn->behind) && conn->pending == 0 && (!goes_on || !conn_is_served(conn)))
        conn_caught_up(conn);
    conn_watch(conn);
}

/* ---- handshakes ------------------------------------------------------------------------------ */

void conn_handshake_failed(struct conn *conn, const char *why, bool told)
{
    if (log_enabled(LOG_LEVEL_DEBUG)) {
        char peer[CONN_PEER_TEXT];
        conn_peer_text(conn, peer);
        log_debug("%s: TLS handshake with %s failed: %s", conn->protocol->row->name, peer, why);
    }
    if (!told) {
        conn_close(conn, CLOSE_HANDSHAKE);
        return;
    }
    conn_move(conn, READING_DISCARD);
    conn->reason = CLOSE_HANDSHAKE;
    conn_linger(conn);
    conn_watch(conn);
}
