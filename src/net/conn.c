/*
 * conn.c - one connection's life: reading, taking requests, replying, finishing (see conn.h).
 *
 * Fairness: a turn deals with at most TURN_REQUESTS requests; what is left waits in the worker's
 * list until the other connections had theirs; so do bytes of which nothing more will be told
 * (`more`): because a TLS stream holds them already, or because the loop tells once only.
 * Back-pressure: while more than half of the output limit is queued no request is looked at and
 * nothing is read, so what one client can queue is bounded by that half and its last answer.
 */
#include "net/private.h"

#include "base/log.h"
#include "net/address.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define TURN_REQUESTS 128

/* A peer that was answered for the last time may talk on for so long and so much. */
#define LINGER_NS    (2 * NS_PER_S)
#define LINGER_BYTES (1u << 20)

#define FLUSH_PIECES 16

const char *close_reason_word(enum close_reason reason)
{
    static const char *const words[] = {
#define ROW(name, word) word,
        CLOSE_REASONS(ROW)
#undef ROW
    };
    CHECK(reason < CLOSE_REASON_COUNT);
    return words[reason];
}

const char *transport_word(enum transport transport)
{
    static const char *const words[] = {
        [TRANSPORT_TCP] = "tcp", [TRANSPORT_TLS] = "tls", [TRANSPORT_UNIX] = "unix"};
    CHECK(transport < ARRAY_SIZE(words));
    return words[transport];
}

void *conn_session(struct conn *conn)
{
    return conn->session;
}

const struct protocol *conn_protocol(const struct conn *conn)
{
    return conn->protocol;
}

struct worker *conn_worker(const struct conn *conn)
{
    return conn->worker;
}

uint32_t conn_id(const struct conn *conn)
{
    return (conn->worker->number << 24 | conn->slot) + 1;
}

uint64_t conn_tag(const struct conn *conn)
{
    return (uint64_t)conn->worker->number << 56 | (uint64_t)conn->slot << 32 | conn->generation;
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

static struct conn *if_open(struct conn *conn)
{
    return conn && conn->state == CONN_OPEN ? conn : NULL;
}

struct conn *conn_by_tag(struct worker *worker, uint64_t tag)
{
    return if_open(conn_find(worker, tag));
}

unsigned conn_id_worker(uint32_t id)
{
    return (id - 1) >> 24;
}

struct conn *conn_by_id(struct worker *worker, uint32_t id)
{
    uint32_t slot = (id - 1) & 0xffffff;
    if (id == 0 || conn_id_worker(id) != worker->number || slot >= worker->slot_count)
        return NULL;
    return if_open(worker->slots[slot].conn);
}

/* ---- what operators see ------------------------------------------------------------------- */

void conn_tag_text(uint64_t tag, char *to)
{
    snprintf(to, CONN_TAG_TEXT, "%u.%" PRIu32 ".%" PRIu32, conn_tag_worker(tag),
             (uint32_t)(tag >> 32) & 0xffffff, (uint32_t)tag);
}

/* Reads a number up to `max` as printf writes it, ended by `end`, over which *text goes on. */
static bool parse_number(const char **text, uint32_t max, char end, uint64_t *number_r)
{
    const char *at = *text;
    uint64_t number = 0;
    while (*at >= '0' && *at <= '9') {
        number = number * 10 + (uint64_t)(*at - '0');
        at++;
        if (number > max)
            return false;
    }
    if (at == *text || *at != end || (**text == '0' && at > *text + 1))
        return false;
    *text = at + 1;
    *number_r = number;
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

/* Writes who the peer of a socket is, to `to` of CONN_PEER_TEXT bytes. */
static void peer_text(int fd, char *to)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(sa), size = sizeof(struct ucred);
    struct ucred peer;
    if (getpeername(fd, (struct sockaddr *)&sa, &len) == 0 && sa.ss_family != AF_UNIX)
        address_text((struct sockaddr *)&sa, to, CONN_PEER_TEXT);
    else if (sa.ss_family == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0)
        snprintf(to, CONN_PEER_TEXT, "unix pid %ld uid %lu", (long)peer.pid,
                 (unsigned long)peer.uid);
    else
        snprintf(to, CONN_PEER_TEXT, "?");
}

void conn_describe(struct conn *conn, struct conn_info *info_r)
{
    uint32_t now = (uint32_t)(conn->worker->now.mono_ns >> CONN_OPENED_SHIFT);
    int64_t age = (uint32_t)(now - conn->opened);
    *info_r = (struct conn_info){
        .tag = conn_tag(conn),
        .protocol = conn->protocol,
        .transport = (enum transport)conn->stream.transport,
        .opened_ns = ((conn->worker->now.mono_ns >> CONN_OPENED_SHIFT) - age) *
                     (INT64_C(1) << CONN_OPENED_SHIFT),
        .queued = conn->out_bytes,
    };
    peer_text(conn->stream.fd, info_r->peer);
    if (conn->state == CONN_OPEN && conn->protocol->describe)
        conn->protocol->describe(conn, info_r);
}

void conn_kill(struct conn *conn)
{
    conn_close(conn, CLOSE_KILLED);
}

/* What this worker measures of the connection's protocol; NULL: nothing. */
static struct traffic *traffic_of(const struct conn *conn)
{
    struct traffic *all = conn->protocol->traffic;
    return all ? &all[conn->worker->number] : NULL;
}

/* Counts requests that were dealt with; how long that took shows when the turn ends. */
static void count_requests(struct conn *conn, unsigned count)
{
    struct traffic *traffic = traffic_of(conn);
    if (!traffic || count == 0)
        return;
    tally_add(&traffic->requests, count);
    if (!traffic->unanswered) {
        traffic->unanswered_next = conn->worker->unanswered;
        conn->worker->unanswered = traffic;
    }
    traffic->unanswered += count;
}

/* Why a connection ends whose stream answered `n`. */
static enum close_reason reason_of(ssize_t n)
{
    return n == STREAM_END        ? CLOSE_PEER
           : n == STREAM_RESET    ? CLOSE_RESET
           : n == STREAM_VANISHED ? CLOSE_VANISHED
                                  : CLOSE_ERROR;
}

/* ---- replies ----------------------------------------------------------------------------- */

static struct chunk *chunk_with_room(struct conn *conn, size_t size)
{
    struct chunk *last = conn->out_last;
    if (last && last->room - last->end >= size)
        return last;
    /* Whose requests are dealt with may get many answers more in this turn. */
    bool may_grow = last || conn == conn->worker->turn;
    struct chunk *chunk = worker_chunk_take(conn->worker, may_grow ? CHUNK_LARGE_ROOM : size);
    if (!chunk)
        return NULL;
    if (last)
        last->next = chunk;
    else
        conn->out_first = chunk;
    conn->out_last = chunk;
    return chunk;
}

/*
 * Its replies are to be sent. Whose requests are dealt with comes last, when that is over
 * (end_turn): whoever was woken by them hears of it first.
 */
static inline void send_later(struct conn *conn)
{
    if (conn != conn->worker->turn)
        worker_flush_later(conn->worker, conn);
}

static void begin_turn(struct conn *conn)
{
    conn->worker->turn = conn;
}

static void end_turn(struct conn *conn)
{
    conn->worker->turn = NULL;
    if (conn->out_bytes > 0 || conn->doomed)
        worker_flush_later(conn->worker, conn);
}

void *conn_reply_room(struct conn *conn, size_t size)
{
    CHECK(size <= CONN_REPLY_MAX);
    struct chunk *chunk = conn->doomed ? NULL : chunk_with_room(conn, size);
    if (chunk)
        return chunk->data + chunk->end;
    conn->doomed = true;
    send_later(conn);
    return conn->worker->scratch + WORKER_SCRATCH - CONN_REPLY_MAX;
}

void conn_replied(struct conn *conn, size_t len)
{
    if (conn->doomed)
        return;
    struct chunk *chunk = conn->out_last;
    CHECK(len <= chunk->room - chunk->end);
    chunk->end += (uint32_t)len;
    conn->out_bytes += (uint32_t)len;
    send_later(conn);
}

void conn_reply(struct conn *conn, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        size_t part = len < CONN_REPLY_MAX ? len : CONN_REPLY_MAX;
        memcpy(conn_reply_room(conn, part), at, part);
        conn_replied(conn, part);
        at += part;
        len -= part;
    }
}

bool conn_is_full(const struct conn *conn)
{
    return conn->out_bytes >= conn->worker->rules->limits.output_buffer / 2;
}

size_t conn_space(const struct conn *conn)
{
    size_t limit = conn->worker->rules->limits.output_buffer;
    return conn->out_bytes < limit ? limit - conn->out_bytes : 0;
}

static void handshake_failed(struct conn *conn, const char *why, bool told);

/* ---- deadlines --------------------------------------------------------------------------- */

void conn_expire_in(struct conn *conn, int64_t wait_ns)
{
    deadline_set(&conn->worker->deadlines, &conn->session_deadline, clock_mono_ns() + wait_ns);
}

void conn_clear_deadline(struct conn *conn)
{
    deadline_clear(&conn->worker->deadlines, &conn->session_deadline);
}

bool conn_expires(const struct conn *conn)
{
    return deadline_is_set(&conn->session_deadline);
}

bool conn_is_paused(const struct conn *conn)
{
    return conn->paused;
}

void conn_deadline_passed(struct conn *conn, enum deadline_kind kind)
{
    if (kind == DEADLINE_SESSION)
        conn->protocol->expire(conn);
    else if (conn->state == CONN_FINISHING)
        conn_close(conn, conn->reason);
    else if (conn->state == CONN_HANDSHAKING)
        handshake_failed(conn, "it took too long", false);
    else
        conn_close(conn, kind == DEADLINE_READ ? CLOSE_REQUEST_TIMEOUT : CLOSE_WRITE_TIMEOUT);
}

/* ---- catching up --------------------------------------------------------------------------- */

void conn_catch_up(struct conn *conn)
{
    if (conn->state != CONN_OPEN && (conn->state != CONN_FINISHING || conn->lingering))
        return;
    if (!conn->behind)
        atomic_fetch_add_explicit(&conn->worker->behind, 1, memory_order_relaxed);
    conn->behind = true;
    conn->more = true; /* only reading shows whether there is */
    worker_flush_later(conn->worker, conn);
}

static void caught_up(struct conn *conn)
{
    if (conn->behind)
        atomic_fetch_sub_explicit(&conn->worker->behind, 1, memory_order_release);
    conn->behind = false;
}

/* ---- ending ------------------------------------------------------------------------------ */

/*
 * Every change of state but the first: from HANDSHAKING to OPEN, or from any to a later one. Who
 * leaves OPEN is a client no more: what it has goes back.
 */
static void move_to(struct conn *conn, enum conn_state to)
{
    if (conn->state == CONN_HANDSHAKING)
        atomic_fetch_sub_explicit(&conn->worker->server->handshakes, 1, memory_order_relaxed);
    if (conn->state == CONN_OPEN) {
        conn->protocol->close(conn);
        conn_clear_deadline(conn);
        deadline_clear(&conn->worker->deadlines, &conn->read_deadline);
        conn->paused = conn->stalled = false;
    }
    conn->state = (uint8_t)to;
}

void conn_close(struct conn *conn, enum close_reason reason)
{
    if (conn->state == CONN_CLOSED)
        return;
    if (log_enabled(LOG_LEVEL_DEBUG))
        log_debug("%s: connection %u closed: %s", conn->protocol->name, conn_id(conn),
                  close_reason_word(reason));
    move_to(conn, CONN_CLOSED);
    deadline_clear(&conn->worker->deadlines, &conn->read_deadline);
    deadline_clear(&conn->worker->deadlines, &conn->write_deadline);
    loop_io_remove(conn->worker->loop, &conn->io);
    stream_close(&conn->stream);
    caught_up(conn);
    worker_conn_closed(conn->worker, conn, reason);
}

void conn_finish(struct conn *conn, enum close_reason reason)
{
    if (conn->state != CONN_OPEN)
        return;
    move_to(conn, CONN_FINISHING);
    conn->reason = (uint8_t)reason;
    worker_flush_later(conn->worker, conn);
}

void conn_free(struct conn *conn)
{
    CHECK(conn->state == CONN_CLOSED);
    while (conn->out_first) {
        struct chunk *chunk = conn->out_first;
        conn->out_first = chunk->next;
        worker_chunk_give(conn->worker, chunk);
    }
    free(conn->in);
    free(conn);
}

/* ---- writing ----------------------------------------------------------------------------- */

/*
 * How it watches for bytes to read. A plain TCP stream is told only once of what came, and whether
 * it was the last: asking the kernel for each of them a second time, to hear that all has been
 * read, costs 4 % of a request. With TLS, which reads as it likes, and from a unix socket, whose
 * reads may end early where descriptors were sent, it is told until all has been read.
 */
static unsigned reading(const struct conn *conn)
{
    if (conn->stream.transport == TRANSPORT_TCP)
        return LOOP_READ | LOOP_GONE | LOOP_MARK | LOOP_ONCE;
    return conn->read_crossed ? LOOP_WRITE : LOOP_READ;
}

/* Watches for what the connection can use now. */
static void watch(struct conn *conn)
{
    unsigned wanted = 0;
    if (conn->state == CONN_OPEN ? !conn->paused && !conn->stalled && !conn_is_full(conn)
                                 : conn->lingering)
        wanted |= reading(conn);
    else if (conn->state == CONN_OPEN && conn->out_bytes > 0)
        wanted |= LOOP_GONE;
    /* Told again and again: a write may also have failed for want of memory, and nobody would tell
     * of that once it is there. */
    if (conn->out_bytes > 0)
        wanted = (wanted & ~LOOP_ONCE) | (conn->write_crossed ? LOOP_READ : LOOP_WRITE);
    if (!loop_io_want(conn->worker->loop, &conn->io, wanted))
        conn_close(conn, CLOSE_MEMORY);
}

/* Drops what was sent. */
static void sent(struct conn *conn, size_t len)
{
    conn->out_bytes -= (uint32_t)len;
    while (len > 0) {
        struct chunk *chunk = conn->out_first;
        CHECK(chunk);
        size_t here = chunk->end - chunk->begin;
        if (len < here) {
            chunk->begin += (uint32_t)len;
            return;
        }
        len -= here;
        conn->out_first = chunk->next;
        if (!conn->out_first)
            conn->out_last = NULL;
        worker_chunk_give(conn->worker, chunk);
    }
}

/* Writes what the socket takes. False: the connection was closed. */
static bool write_out(struct conn *conn)
{
    bool progress = false;
    struct traffic *traffic = traffic_of(conn);
    while (conn->out_bytes > 0) {
        struct iovec pieces[FLUSH_PIECES];
        int count = 0;
        size_t all = 0;
        for (struct chunk *c = conn->out_first; c && count < FLUSH_PIECES; c = c->next) {
            pieces[count].iov_base = c->data + c->begin;
            pieces[count].iov_len = c->end - c->begin;
            all += c->end - c->begin;
            count++;
        }
        ssize_t n = stream_write(&conn->stream, pieces, count);
        conn->write_crossed = n == STREAM_CROSSED;
        if (n == STREAM_AGAIN || n == STREAM_CROSSED)
            break;
        if (n < 0) {
            atomic_fetch_add_explicit(&conn->protocol->send_errors, 1, memory_order_relaxed);
            conn_close(conn, conn->state == CONN_OPEN ? reason_of(n) : conn->reason);
            return false;
        }
        progress = true;
        if (traffic)
            tally_add(&traffic->sent, (uint64_t)n);
        sent(conn, (size_t)n);
        if ((size_t)n < all)
            break;
    }
    struct deadlines *ds = &conn->worker->deadlines;
    if (conn->out_bytes == 0)
        deadline_clear(ds, &conn->write_deadline);
    else if (progress || !deadline_is_set(&conn->write_deadline))
        deadline_set(ds, &conn->write_deadline,
                     conn->worker->now.mono_ns + conn->worker->rules->limits.write_timeout_ns);
    return true;
}

/* The last answer is out: lets the peer read it before the socket goes, which could destroy it. */
static void linger(struct conn *conn)
{
    if (conn->lingering)
        return;
    conn->lingering = true;
    stream_finish(&conn->stream);
    deadline_set(&conn->worker->deadlines, &conn->read_deadline,
                 conn->worker->now.mono_ns + LINGER_NS);
    conn->in_end = 0; /* counts what it says from here on */
}

void conn_flush(struct conn *conn)
{
    if (conn->state == CONN_CLOSED)
        return;
    if (conn->state == CONN_OPEN &&
        atomic_load_explicit(&conn->worker->server->ending, memory_order_relaxed))
        return; /* it is about to be closed */
    if (conn->doomed) {
        conn_close(conn, CLOSE_MEMORY);
        return;
    }
    if (!write_out(conn))
        return;
    if (conn->state == CONN_FINISHING && conn->out_bytes == 0)
        linger(conn);
    bool goes_on = (conn->paused || conn->stalled || conn->more) && !conn_is_full(conn);
    if (goes_on)
        worker_again_later(conn->worker, conn);
    if (!goes_on || conn->state != CONN_OPEN)
        caught_up(conn);
    watch(conn);
}

/* ---- TLS handshakes ------------------------------------------------------------------------ */

/*
 * Ends a connection whose handshake failed. Where it was `told` why, it gets to read that, as with
 * any last answer.
 */
static void handshake_failed(struct conn *conn, const char *why, bool told)
{
    if (log_enabled(LOG_LEVEL_DEBUG)) {
        char peer[CONN_PEER_TEXT];
        peer_text(conn->stream.fd, peer);
        log_debug("%s: TLS handshake with %s failed: %s", conn->protocol->name, peer, why);
    }
    if (!told) {
        conn_close(conn, CLOSE_HANDSHAKE);
        return;
    }
    move_to(conn, CONN_FINISHING);
    conn->reason = CLOSE_HANDSHAKE;
    linger(conn);
    watch(conn);
}

/* Goes on with the handshake; where it is over, the connection is open. */
static void shake_hands(struct conn *conn)
{
    const char *why = NULL;
    ssize_t n = stream_handshake(&conn->stream, &why);
    if (n == STREAM_AGAIN || n == STREAM_CROSSED) {
        if (!loop_io_want(conn->worker->loop, &conn->io,
                          n == STREAM_AGAIN ? LOOP_READ : LOOP_WRITE))
            conn_close(conn, CLOSE_MEMORY);
        return;
    }
    if (n != 1) {
        handshake_failed(conn, why, n == STREAM_ERROR);
        return;
    }
    deadline_clear(&conn->worker->deadlines, &conn->read_deadline);
    move_to(conn, CONN_OPEN);
    conn_open(conn);
    conn->more = stream_has_more(&conn->stream); /* what came along with its last bytes */
    worker_flush_later(conn->worker, conn);      /* watches, and reads that */
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Keeps what is left of `data`, which may lie in the connection's own buffer. False: no memory. */
static bool keep_rest(struct conn *conn, const uint8_t *data, size_t len, size_t room)
{
    if (len == 0) {
        free(conn->in);
        conn->in = NULL;
        conn->in_begin = conn->in_end = conn->in_room = 0;
        return true;
    }
    bool own = conn->in && data >= conn->in && data <= conn->in + conn->in_room;
    if (own && room <= len) {
        conn->in_begin = (uint32_t)(data - conn->in); /* more is not to be read now */
        return true;
    }
    if (own && room <= conn->in_room) {
        memmove(conn->in, data, len);
    } else {
        uint8_t *in = malloc(room > len ? room : len);
        if (!in)
            return false;
        memcpy(in, data, len);
        free(conn->in);
        conn->in = in;
        conn->in_room = (uint32_t)(room > len ? room : len);
    }
    conn->in_begin = 0;
    conn->in_end = (uint32_t)len;
    return true;
}

/* How much room an unfinished request of `have` bytes gets; `need` as the parser said. */
static size_t room_for(const struct conn *conn, size_t have, size_t need)
{
    size_t max = conn->protocol->request_max;
    CHECK(have < max && need <= max);
    size_t want = need > have ? need : max;
    size_t step = have * 2 > 256 ? have * 2 : 256; /* an announcement alone gets no memory */
    return step < want ? step : want;
}

static void take_requests(struct conn *conn, const uint8_t *data, size_t len)
{
    size_t done = 0, need = 0;
    bool more = false;
    conn->stalled = false;
    unsigned dealt = 0, foreseen = 0;
    begin_turn(conn);
    while (conn->state == CONN_OPEN && done < len && !more) {
        if (conn->paused || dealt == TURN_REQUESTS || conn_is_full(conn)) {
            conn->stalled = true;
            break;
        }
        if (dealt % CONN_FORESIGHT == 1 && conn->protocol->foresee)
            foreseen = conn->protocol->foresee(conn, data + done, len - done);
        size_t used = 0;
        enum consumed consumed;
        if (foreseen > 0) {
            foreseen--;
            consumed = conn->protocol->consume_foreseen(conn, &used);
        } else {
            consumed = conn->protocol->consume(conn, data + done, len - done, &used);
        }
        dealt++;
        switch (consumed) {
        case CONSUMED_PAUSED:
            conn->paused = true;
            __attribute__((fallthrough));
        case CONSUMED_ONE:
            CHECK(used > 0 && used <= len - done);
            done += used;
            break;
        case CONSUMED_MORE:
            need = used;
            more = true;
            dealt--;
            break;
        case CONSUMED_LAST:
            CHECK(conn->state != CONN_OPEN);
            break;
        }
    }
    end_turn(conn);
    count_requests(conn, dealt);
    if (conn->state != CONN_OPEN)
        return;
    struct deadlines *ds = &conn->worker->deadlines;
    size_t rest = len - done;
    if (!keep_rest(conn, data + done, rest, more ? room_for(conn, rest, need) : 0)) {
        conn_close(conn, CLOSE_MEMORY);
        return;
    }
    if (!more)
        deadline_clear(ds, &conn->read_deadline);
    else if (done > 0 || !deadline_is_set(&conn->read_deadline))
        deadline_set(ds, &conn->read_deadline,
                     conn->worker->now.mono_ns + conn->worker->rules->limits.request_timeout_ns);
    /* Where the output is full, it is draining that goes on with the rest. */
    if ((conn->paused || conn->stalled) && !conn_is_full(conn))
        worker_again_later(conn->worker, conn);
    if (conn->paused || conn->stalled || conn_is_full(conn))
        worker_flush_later(conn->worker, conn);
}

/* Reads into `to`; notes how to go on. */
static ssize_t read_stream(struct conn *conn, void *to, size_t room)
{
    ssize_t n = stream_read(&conn->stream, to, room);
    if (conn->stream.tls) {
        conn->read_crossed = n == STREAM_CROSSED;
        conn->more = n > 0 && stream_has_more(&conn->stream);
        if (conn->more)
            worker_again_later(conn->worker, conn);
        if (n == STREAM_CROSSED) {
            worker_flush_later(conn->worker, conn); /* watches for the other */
            return STREAM_AGAIN;
        }
    } else {
        conn->more = n == (ssize_t)room || (conn->read_on && n > 0);
        if (n == STREAM_AGAIN)
            conn->read_on = false;
        if (conn->more)
            worker_again_later(conn->worker, conn);
    }
    struct traffic *traffic = traffic_of(conn);
    if (traffic && n > 0)
        tally_add(&traffic->received, (uint64_t)n);
    return n;
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
    if (n == STREAM_AGAIN)
        return;
    if (n <= 0) {
        conn_close(conn, reason_of(n));
    } else if (conn->in) {
        conn->in_end += (uint32_t)n;
        take_requests(conn, conn->in + conn->in_begin, conn->in_end - conn->in_begin);
    } else {
        take_requests(conn, to, (size_t)n);
    }
}

/* Reads and throws away, until the peer has closed or said too much. */
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
 * Whether it is to be told something yet, because so many were woken that not all could be told in
 * one turn. Then its requests wait: else it could get their answers before those hear whom they
 * wake.
 */
static bool waits_to_be_told(const struct conn *conn)
{
    return conn->in_flush_list;
}

void conn_continue(struct conn *conn)
{
    if (waits_to_be_told(conn)) {
        worker_again_later(conn->worker, conn);
        return;
    }
    if (conn->lingering && conn->more && conn->state == CONN_FINISHING)
        read_away(conn);
    if (conn->state != CONN_OPEN || conn_is_full(conn))
        return;
    if (conn->paused) {
        begin_turn(conn);
        conn->paused = !conn->protocol->resume(conn);
        end_turn(conn);
        worker_flush_later(conn->worker, conn);
        if (conn->paused || conn->state != CONN_OPEN)
            return;
    }
    if (conn->stalled)
        take_requests(conn, conn->in + conn->in_begin, conn->in_end - conn->in_begin);
    else if (conn->more)
        read_in(conn);
    worker_flush_later(conn->worker, conn); /* where nothing is to be sent: watches again */
}

static void on_io(struct loop_io *io, unsigned what)
{
    struct conn *conn = container_of(io, struct conn, io);
    struct worker *worker = conn->worker;
    if (what & (LOOP_GONE | LOOP_MARK))
        conn->read_on = true;
    if (waits_to_be_told(conn)) {
        conn->more = true; /* looked at when it has been told */
        return;
    }
    if (conn->state == CONN_HANDSHAKING) {
        shake_hands(conn);
        worker_flush(worker);
        return;
    }
    if (conn->read_crossed && what & LOOP_WRITE)
        what |= LOOP_READ;
    if (conn->write_crossed && what & LOOP_READ)
        what |= LOOP_WRITE;
    if (what & LOOP_WRITE)
        conn_flush(conn);
    if (what & LOOP_GONE && !(what & LOOP_READ))
        conn_close(conn, CLOSE_PEER); /* it is not read from, so its end would not be either */
    if (what & LOOP_READ && conn->state == CONN_OPEN && !conn->paused && !conn->stalled)
        read_in(conn);
    else if (what & LOOP_READ && conn->lingering && conn->state == CONN_FINISHING)
        read_away(conn);
    else if (what & LOOP_READ)
        conn->more = true; /* read when it can be */
    worker_flush(worker);
}

bool conn_begin(struct conn *conn)
{
    return loop_io_add(conn->worker->loop, &conn->io, conn->stream.fd, reading(conn), on_io);
}

void conn_rejoin(struct conn *conn)
{
    CHECK(loop_io_add(conn->worker->loop, &conn->io, conn->stream.fd, 0, on_io));
}

void conn_open(struct conn *conn)
{
    conn->state = CONN_OPEN;
    conn->protocol->open(conn);
}
