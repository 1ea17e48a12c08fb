/*
 * input.c - reads from connections, parses their requests and has them served. protocol.h lists the
 * ways to answer a request.
 *
 * Fairness: an iteration serves at most REQUESTS_MAX requests of one connection, and only one that
 * is dear (conn_dear). The rest waits in the worker's list until the other connections have been
 * served. The same list is used for bytes that the loop does not report again (conn->input): bytes
 * inside a TLS stream, and bytes of a socket that is reported only once. Slow TLS streams are only
 * read from there.
 *
 * Back-pressure: while more than half of the output limit is queued, no request is served and
 * nothing is read. So the queue of one client never exceeds that half plus one answer.
 *
 * A waiting connection (PENDING, PIECES, FULL) stays watched, so the worker notices when the client
 * goes. A TCP socket is reported once, and keeping its watch needs no system call. For other
 * sockets LOOP_READ is removed from the watch when bytes come. So an idle wait does not wake the
 * thread.
 */
#include "net/worker_internal.h"

#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 128

/* The connection closes when the client sends more than this after its last answer. */
#define LINGER_BYTES (1u << 20)

/* ---- watching -------------------------------------------------------------------------------- */

/* True when the connection may read now. */
static bool reads(const struct conn *conn)
{
    if (conn->reading == READING_DISCARD)
        return conn->writing == WRITING_SHUT;
    return conn->reading == READING_OPEN && !conn->unserved;
}

/*
 * The flags for watching a connection that the loop reports only once; 0 for other transports.
 * Plain TCP is reported once, together with the end of input. That saves a second read, which would
 * only find that no data is left, and costs 4 % of a request. TLS reads in its own way, and a read
 * from a unix socket may end early when descriptors were sent; both are reported until everything
 * is read.
 */
static unsigned reported_once(const struct conn *conn)
{
    return conn->stream.transport == TRANSPORT_TCP ? LOOP_READ | LOOP_GONE | LOOP_MARK | LOOP_ONCE
                                                   : 0;
}

static unsigned reading_wanted(const struct conn *conn)
{
    if (conn->stream.transport == TRANSPORT_TCP)
        return reported_once(conn);
    return conn->input == INPUT_CROSSED ? LOOP_WRITE : LOOP_READ;
}

/* The flag that reports the client's end, if it is not known yet. */
static unsigned end_wanted(const struct conn *conn)
{
    return conn_is_served(conn) && !conn->gone ? LOOP_GONE : 0;
}

/* True: the end may have been reported, and is not read before an answer comes. */
static bool may_miss_end(const struct conn *conn)
{
    return conn->reading == READING_PENDING && conn->input == INPUT_DRAIN;
}

void conn_watch(struct conn *conn)
{
    unsigned wanted;
    if (conn->out.first) {
        /* Without LOOP_ONCE, so that the loop reports again: a write may have failed for lack of
         * memory, and the kernel sends no event when memory is free again. */
        wanted = reads(conn) ? reading_wanted(conn) & ~LOOP_ONCE : end_wanted(conn);
        wanted |= conn->writing == WRITING_CROSSED ? LOOP_READ : LOOP_WRITE;
    } else if (reads(conn)) {
        wanted = reading_wanted(conn);
    } else if (conn_is_served(conn) && reported_once(conn) && !may_miss_end(conn)) {
        wanted = reported_once(conn);
    } else if (conn_is_served(conn) && conn->input == INPUT_DRY) {
        wanted = LOOP_READ | end_wanted(conn);
    } else {
        wanted = end_wanted(conn);
    }
    if (!loop_io_want(conn->worker->reactor.loop, &conn->io, wanted))
        conn_close(conn, CLOSE_MEMORY);
}

/* ---- buffers --------------------------------------------------------------------------------- */

void conn_drop_input(struct conn *conn)
{
    claim_less(conn, claim_of(conn->in_room));
    free(conn->in);
    conn->in = NULL;
    conn->in_begin = conn->in_end = conn->in_room = 0;
}

bool conn_take_input(struct conn *conn, const uint8_t *data, size_t len, size_t room)
{
    room = room > len ? room : len;
    enum close_reason why;
    if (!claim_memory(conn, claim_of(room), &why)) {
        conn->reason = why;
        return false;
    }
    uint8_t *in = malloc(room);
    if (!in) {
        claim_less(conn, claim_of(room));
        conn->reason = CLOSE_MEMORY;
        return false;
    }
    memcpy(in, data, len);
    conn_drop_input(conn);
    conn->in = in;
    conn->in_end = (uint32_t)len;
    conn->in_room = (uint32_t)room;
    return true;
}

/* Keeps the unserved rest `data`, which may lie in the connection's own buffer, with `room` bytes
 * for it. Returns as conn_take_input. */
static bool keep_rest(struct conn *conn, const uint8_t *data, size_t len, size_t room)
{
    if (len == 0) {
        if (conn->in)
            conn_drop_input(conn);
        return true;
    }
    bool own = conn->in && data >= conn->in && data <= conn->in + conn->in_room;
    if (own && room <= len) {
        conn->in_begin = (uint32_t)(data - conn->in); /* no reading until this is served */
        return true;
    }
    if (own && room <= conn->in_room) {
        memmove(conn->in, data, len);
    } else if (!conn_take_input(conn, data, len, room)) {
        return false;
    }
    conn->in_begin = 0;
    conn->in_end = (uint32_t)len;
    return true;
}

/* The size of the buffer for an unfinished request: `have` bytes are here, and the parser needs
 * `need`. */
static size_t room_for(const struct conn *conn, size_t have, size_t need)
{
    size_t max = conn->protocol->request_max;
    CHECK(have < max && need <= max);
    size_t want = need > have ? need : max;
    size_t step = have < CLAIM_FREE ? CLAIM_FREE : have * 2; /* not what was announced */
    return step < want ? step : want;
}

/* Restarts the deadline of an unfinished request. */
static void conn_renew_request(struct conn *conn)
{
    if (conn->extended)
        conn_extension(conn)->part_bytes = 0;
    deadline_set(conn_deadlines(conn), &conn->read_deadline,
                 worker_mono_ns(conn->worker) + conn->worker->snapshot->limits.request_timeout_ns);
}

/* Claims the library's buffer while it has a part of a record. Returns false when the connection
 * has to go, for *why_r. */
static __attribute__((noinline)) bool claim_record(struct conn *conn, enum close_reason *why_r)
{
    bool inside = stream_in_record(&conn->stream);
    if (inside == conn->in_record)
        return true;
    if (inside && !claim_memory(conn, STREAM_RECORD_ROOM, why_r))
        return false;
    if (!inside)
        claim_less(conn, STREAM_RECORD_ROOM);
    conn->in_record = inside;
    return true;
}

/* Between requests: a part of a record has the time of a request. */
static __attribute__((noinline)) void time_record(struct conn *conn)
{
    if (conn->in_record && !deadline_is_set(&conn->read_deadline)) {
        conn_renew_request(conn);
        conn->times_record = true;
    } else if (!conn->in_record && conn->times_record) {
        deadline_clear(conn_deadlines(conn), &conn->read_deadline);
        conn->times_record = false;
    }
}

/* TLS: after requests were served. `complete`: no request is unfinished. */
static __attribute__((noinline)) void served_record(struct conn *conn, bool complete)
{
    conn->times_record = false; /* a deadline that is set is a request's */
    if (complete && conn->reading == READING_OPEN)
        time_record(conn);
    else if (conn->in_record && conn->reading != READING_OPEN && conn->input == INPUT_DRY)
        conn->input = INPUT_MORE; /* looks at the record when it reads again */
}

/* Counts served requests. The worker measures their time at the end of the iteration. */
static void count_requests(struct conn *conn, unsigned count)
{
    struct traffic *traffic = conn_traffic(conn);
    if (!traffic || count == 0)
        return;
    tally_add(&traffic->requests, count);
    if (!traffic->unanswered) {
        traffic->unanswered_next = conn->worker->unanswered;
        conn->worker->unanswered = traffic;
    }
    traffic->unanswered += count;
}

/* ---- serving --------------------------------------------------------------------------------- */

/* What was served of the bytes of one read. */
struct intake {
    size_t done;     /* bytes served */
    unsigned served; /* requests served */
    bool dear;       /* one of them was dear */
    bool in_parts;   /* the bytes up to `done` end inside a request that is served in parts */
    bool stepped;    /* enough parts came to extend the request's deadline */
};

/*
 * Parses up to one batch of requests and stores the length of each in `used`. Returns their number.
 * Returns 0 when the first request is incomplete; *need_r is then its minimum length in bytes (0:
 * unknown).
 */
static inline unsigned parse_batch(struct conn *conn, const struct protocol_row *row,
                                   const uint8_t *data, size_t len, size_t *used, size_t *need_r)
{
    uint8_t *request = conn->worker->batch;
    unsigned count = 0;
    for (;;) {
        used[count] = 0;
        enum parsed parsed = row->parse(conn, data, len, request, &used[count]);
        if (parsed == PARSED_MORE) {
            *need_r = used[count];
            break;
        }
        CHECK(used[count] - 1 < len); /* from 1 to len */
        data += used[count];
        len -= used[count];
        count++;
        if (len == 0 || parsed == PARSED_LAST || count == PROTOCOL_BATCH)
            break;
        request += row->request_size;
    }
    if (count > 1 && row->prefetch)
        row->prefetch(conn, conn->worker->batch, count);
    return count;
}

/* Counts the bytes of a part. Enough of them extend the request's deadline. */
static void take_part(struct conn *conn, struct intake *intake, size_t used)
{
    struct conn_extension *extension = conn_extension(conn);
    intake->in_parts = true;
    extension->part_bytes += (uint32_t)used;
    if (extension->part_bytes >= conn->protocol->row->part_step)
        intake->stepped = true;
}

/* Stops serving requests until pending answers are complete: all of them, or any one. */
static void wait_for_answers(struct conn *conn, bool for_all)
{
    CHECK(conn->pending > 0);
    conn_extension(conn)->wait_for_all = for_all;
    conn_move(conn, READING_PENDING);
}

/*
 * Handles the result of serving a request of `used` bytes, for all results except a plain SERVED.
 */
static void note_served(struct conn *conn, struct intake *intake, enum served how, size_t used)
{
    conn->worker->pending_conn = NULL;
    intake->dear = conn->dear;
    conn->dear = false;
    if (conn->aside)
        conn_answer_served(conn, how == SERVED);
    if (how != SERVED_LATER)
        intake->done += used;
    if (how != SERVED_LATER && how != SERVED_PART)
        intake->served++;
    switch (how) {
    case SERVED:
        break;
    case SERVED_PART:
        take_part(conn, intake, used);
        break;
    case SERVED_PENDING:
    case SERVED_LATER:
        wait_for_answers(conn, true);
        break;
    case SERVED_PENDING_NEXT:
        if (conn->pending == conn->protocol->row->pending_max)
            wait_for_answers(conn, false);
        break;
    case SERVED_PIECES:
        CHECK(conn->pending == 0);
        conn_move(conn, READING_PIECES);
        break;
    case SERVED_LAST:
        CHECK(!conn_is_served(conn));
        break;
    }
}

/* True when the connection may serve another request in this iteration. */
static inline bool serves_on(const struct conn *conn, const struct intake *intake)
{
    return conn->reading == READING_OPEN && intake->served < REQUESTS_MAX && !intake->dear &&
           !conn_over_half(conn);
}

/* Serves the `count` requests of a batch. May stop early; the rest is then parsed again later. */
static inline void serve_batch(struct conn *conn, const struct protocol_row *row,
                               const size_t *used, unsigned count, struct intake *intake)
{
    const uint8_t *request = conn->worker->batch;
    unsigned i = 0;
    do {
        intake->in_parts = false;
        if (unlikely(conn->pending))
            conn_answer_next(conn);
        enum served how = row->serve(conn, request);
        if (likely(how == SERVED && !conn->aside && !conn->dear)) {
            intake->done += used[i];
            intake->served++;
        } else {
            note_served(conn, intake, how, used[i]);
        }
        request += row->request_size;
    } while (++i < count && serves_on(conn, intake));
}

/* Serves as much of `data` as possible and keeps the rest. */
static void serve_input(struct conn *conn, const uint8_t *data, size_t len)
{
    const struct protocol_row *row = conn->protocol->row;
    struct intake intake = {.done = 0};
    size_t used[PROTOCOL_BATCH], need = 0;
    bool cut = false; /* the request at intake.done is incomplete */
    conn->unserved = false;
    conn_begin_serving(conn);
    while (intake.done < len && serves_on(conn, &intake)) {
        unsigned count = parse_batch(conn, row, data + intake.done, len - intake.done, used, &need);
        cut = count == 0;
        if (cut)
            break;
        serve_batch(conn, row, used, count, &intake);
    }
    conn_end_serving(conn);
    count_requests(conn, intake.served);
    if (!conn_is_served(conn))
        return;
    if (conn->reading == READING_OPEN && conn_over_half(conn)) {
        conn_move(conn, READING_FULL);
        atomic_fetch_add_explicit(&conn->protocol->outputs_full, 1, memory_order_relaxed);
    }
    size_t rest = len - intake.done;
    if (rest > 0 || conn->in) {
        conn->unserved = rest > 0 && !cut;
        if (!keep_rest(conn, data + intake.done, rest, cut ? room_for(conn, rest, need) : 0)) {
            conn_close(conn, conn->reason);
            return;
        }
    }
    bool complete = !cut && !intake.in_parts;
    if (unlikely(complete && deadline_is_set(&conn->read_deadline)))
        deadline_clear(conn_deadlines(conn), &conn->read_deadline);
    else if (unlikely(!complete) &&
             (intake.served > 0 || intake.stepped || !deadline_is_set(&conn->read_deadline)))
        conn_renew_request(conn);
    if (unlikely(conn->stream.tls != NULL))
        served_record(conn, complete);
    if (unlikely(conn->unserved || conn->reading != READING_OPEN))
        worker_flush_later(conn->worker, conn); /* goes on with what is left */
}

void conn_dear(struct conn *conn)
{
    conn->dear = true;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads into `to`, and notes in conn->input whether more can be read. */
static ssize_t read_stream(struct conn *conn, void *to, size_t room)
{
    ssize_t n = stream_read(&conn->stream, to, room);
    if (conn->stream.tls) {
        bool more = n > 0 && stream_has_more(&conn->stream);
        conn->input = n == STREAM_CROSSED ? INPUT_CROSSED : more ? INPUT_MORE : INPUT_DRY;
        if (n == STREAM_CROSSED) {
            worker_flush_later(conn->worker, conn); /* changes the watch to the other direction */
            return STREAM_AGAIN;
        }
    } else if (n == STREAM_AGAIN) {
        conn->input = INPUT_DRY;
    } else if (conn->input != INPUT_DRAIN) {
        conn->input = n == (ssize_t)room ? INPUT_MORE : INPUT_DRY;
    }
    if (n <= 0)
        return n;
    if (conn->input == INPUT_MORE || conn->input == INPUT_DRAIN)
        worker_again_later(conn->worker, conn);
    struct traffic *traffic = conn_traffic(conn);
    if (traffic)
        tally_add(&traffic->received, (uint64_t)n);
    return n;
}

/* Notes that the client sends nothing more, even if input is still unread. */
static void note_gone(struct conn *conn)
{
    if (conn->gone)
        return;
    conn->gone = true;
    if (conn->protocol->row->ended)
        conn->protocol->row->ended(conn);
}

/* Handles the end of the input; all complete requests before it have been served. */
static void end_input(struct conn *conn)
{
    if (conn->protocol->row->input_end == INPUT_END_CLOSES) {
        conn_close(conn, CLOSE_PEER);
        return;
    }
    conn_drop_input(conn); /* an incomplete request */
    deadline_clear(conn_deadlines(conn), &conn->read_deadline);
    note_gone(conn);
    if (conn->reading == READING_OPEN)
        conn_move(conn, READING_ENDED);
    worker_flush_later(conn->worker, conn);
}

static void read_in(struct conn *conn)
{
    uint8_t *to = conn->worker->input;
    size_t room = WORKER_INPUT;
    if (conn->in) {
        to = conn->in + conn->in_end;
        room = conn->in_room - conn->in_end;
    }
    ssize_t n = read_stream(conn, to, room);
    enum close_reason why;
    if (unlikely(conn->stream.tls != NULL) && (n > 0 || n == STREAM_AGAIN) &&
        !claim_record(conn, &why)) {
        conn_close(conn, why);
        return;
    }
    if (n == STREAM_AGAIN) {
        time_record(conn);
        return;
    }
    if (n == STREAM_END) {
        end_input(conn);
    } else if (n < 0) {
        conn_close(conn, conn_reason_of(n));
    } else if (conn->in) {
        conn->in_end += (uint32_t)n;
        serve_input(conn, conn->in + conn->in_begin, conn->in_end - conn->in_begin);
    } else {
        serve_input(conn, to, (size_t)n);
    }
}

/* Reads and discards, until the peer closes or has sent too much. */
static void read_away(struct conn *conn)
{
    ssize_t n = read_stream(conn, conn->worker->input, WORKER_INPUT);
    if (n == STREAM_AGAIN)
        return;
    if (n > 0)
        conn->in_end += (uint32_t)n;
    if (n <= 0 || conn->in_end > LINGER_BYTES)
        conn_close(conn, conn->reason);
}

/*
 * Continues an answer in pieces. Returns true when it is complete and the next request may be read.
 */
static bool resume(struct conn *conn)
{
    conn_begin_serving(conn);
    bool complete = conn->protocol->row->resume(conn);
    if (complete && conn->reading == READING_PIECES)
        conn_pieces_done(conn);
    conn_end_serving(conn);
    worker_flush_later(conn->worker, conn);
    return conn->reading == READING_OPEN;
}

void conn_continue(struct conn *conn)
{
    if (conn->in_flush_list) { /* write its own answers first */
        worker_again_later(conn->worker, conn);
        return;
    }
    if (!conn_has_work(conn))
        return;
    if (conn->reading == READING_DISCARD) {
        read_away(conn);
        return;
    }
    if (conn->reading == READING_PIECES && !resume(conn))
        return;
    if (conn->unserved)
        serve_input(conn, conn->in + conn->in_begin, conn->in_end - conn->in_begin);
    else if (conn->input == INPUT_MORE || conn->input == INPUT_DRAIN)
        read_in(conn);
    worker_flush_later(conn->worker, conn); /* updates the watch, also when nothing is queued */
}

/* ---- TLS handshakes -------------------------------------------------------------------------- */

void conn_shake_hands(struct conn *conn)
{
    const char *why = NULL;
    ssize_t n = stream_handshake(&conn->stream, &why);
    if (n == STREAM_AGAIN || n == STREAM_CROSSED) {
        if (!loop_io_want(conn->worker->reactor.loop, &conn->io,
                          n == STREAM_AGAIN ? LOOP_READ : LOOP_WRITE))
            conn_close(conn, CLOSE_MEMORY);
        return;
    }
    if (n != 1) {
        conn_handshake_failed(conn, why, n == STREAM_ERROR);
        return;
    }
    deadline_clear(conn_deadlines(conn), &conn->read_deadline);
    conn_open(conn);
    if (stream_has_more(&conn->stream)) /* bytes that came with the handshake's end */
        conn->input = INPUT_MORE;
    worker_flush_later(conn->worker, conn); /* updates the watch, and reads those bytes */
}

/* Bytes for the handshake came: continues it now, or when it is its turn. */
static void on_handshake(struct conn *conn)
{
    claim_heard(conn);
    if (worker_may_shake(conn->worker, conn))
        conn_shake_hands(conn);
    else
        CHECK(loop_io_want(conn->worker->reactor.loop, &conn->io, 0)); /* needs no memory */
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The loop reports that the client closed its side, while we do not read from the connection. */
static void on_gone(struct conn *conn)
{
    if (conn->protocol->row->input_end == INPUT_END_SERVED) {
        note_gone(conn);
        worker_flush_later(conn->worker, conn); /* watches for the end no more */
    } else if (conn->reading == READING_PENDING || conn->out.first) {
        conn_close(conn, CLOSE_PEER);
    }
}

static void on_io(struct loop_io *io, unsigned what)
{
    struct conn *conn = container_of(io, struct conn, io);
    struct worker *worker = conn->worker;
    if (unlikely(what & (LOOP_GONE | LOOP_MARK)) && conn->input != INPUT_CROSSED)
        conn->input = INPUT_DRAIN;
    if (conn->in_flush_list) { /* write its own answers first; then it reads */
        if (conn->input == INPUT_DRY)
            conn->input = INPUT_MORE;
        return;
    }
    if (conn->reading == READING_HANDSHAKE) {
        if (!conn->in_again_list)
            on_handshake(conn);
        worker_flush(worker);
        return;
    }
    if (conn->input == INPUT_CROSSED && what & LOOP_WRITE)
        what |= LOOP_READ;
    if (conn->writing == WRITING_CROSSED && what & LOOP_READ)
        what |= LOOP_WRITE;
    if (what & LOOP_WRITE)
        conn_flush(conn);
    if (unlikely(what & LOOP_GONE)) {
        if (reads(conn))
            what |= LOOP_READ;
        else if (conn_is_served(conn))
            on_gone(conn);
    }
    if (what & LOOP_READ && reads(conn)) {
        if (conn->reading == READING_DISCARD) {
            read_away(conn);
        } else if (unlikely(conn->stream.tls != NULL) && stream_is_slow(&conn->stream)) {
            conn->input = INPUT_MORE;
            worker_again_later(worker, conn);
        } else {
            read_in(conn);
        }
    } else if (what & LOOP_READ && conn->input == INPUT_DRY) {
        conn->input = INPUT_MORE; /* read it when reading is possible again */
        if (conn_is_served(conn) && !reported_once(conn))
            worker_flush_later(worker, conn); /* from now on watches for the end only */
    }
    worker_flush(worker);
}

bool conn_begin(struct conn *conn)
{
    return loop_io_add(conn->worker->reactor.loop, &conn->io, conn->stream.fd, reading_wanted(conn),
                       on_io);
}

void conn_rejoin(struct conn *conn)
{
    CHECK(loop_io_add(conn->worker->reactor.loop, &conn->io, conn->stream.fd, 0, on_io));
}
