/*
 * wire.c - see wire.h.
 *
 * The wire's timer does what can't be done at once: it runs in this iteration to write what was
 * sent and to say that the wire broke inside wire_send or wire_open, and in the next iteration to
 * read on what TLS has decrypted already, which no event reports.
 *
 * In each call the owner may close the wire and open it again: `life` changes when it is closed, so
 * that nobody goes on with a connection that is over.
 */
#include "cluster/wire.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* An empty queue keeps this much memory at most. */
#define QUEUE_KEPT ((size_t)64 * 1024)

enum state {
    CLOSED,
    OPENING,
    OPEN,
    BROKEN, /* nothing is left; the timer will call `closed` */
};

struct wire {
    struct reactor *reactor;
    const struct wire_calls *calls;
    void *arg;
    enum state state;
    unsigned life;     /* number of times that it was closed */
    struct dial *dial; /* OPENING */
    struct stream stream;
    struct loop_io io;
    unsigned reading, writing; /* what a read, a write waits for (LOOP_); 0: no write waits */
    struct timer timer;
    bool in_timer;
    bool flush_due; /* the timer must write */
    bool more;      /* the timer must read on, after the iteration of more_ns */
    int64_t more_ns;
    struct text queue; /* the bytes from `written` on were not written yet */
    size_t written, queue_max;
    char reason[DIAL_REASON_SIZE]; /* BROKEN */
};

/* ---- the timer ------------------------------------------------------------------------------- */

static int64_t now_ns(const struct wire *w)
{
    return w->reactor->now.mono_ns;
}

/* When the timer has something to do. */
static int64_t due_ns(const struct wire *w)
{
    if (w->state == BROKEN || w->flush_due)
        return now_ns(w);
    return w->more ? w->more_ns + 1 : DEADLINE_NONE;
}

/* Sets the timer, unless it runs now: then it looks again when it ends. */
static void set_timer(struct wire *w)
{
    if (!w->in_timer && due_ns(w) != DEADLINE_NONE)
        reactor_set_timer(w->reactor, &w->timer, due_ns(w));
}

static void flush_later(struct wire *w)
{
    if (w->flush_due || w->state != OPEN || w->writing || wire_queued(w) == 0)
        return;
    w->flush_due = true;
    set_timer(w);
}

static void read_on_later(struct wire *w)
{
    w->more = true;
    w->more_ns = now_ns(w);
    set_timer(w);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Gives back all that a connection has. */
static void drop(struct wire *w, enum state next)
{
    dial_cancel(&w->dial);
    loop_io_remove(w->reactor->loop, &w->io);
    stream_close(&w->stream);
    text_free(&w->queue);
    w->written = 0;
    w->reading = LOOP_READ;
    w->writing = 0;
    w->flush_due = w->more = false;
    w->state = next;
    w->life++;
}

/* Closes the wire and says why; in the reactor's calls. */
static void fail(struct wire *w, const char *reason)
{
    drop(w, CLOSED);
    w->calls->closed(w->arg, reason);
}

/* Closes the wire; the timer says why. */
static void PRINTF_LIKE(2, 3) fail_later(struct wire *w, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(w->reason, sizeof(w->reason), format, values);
    va_end(values);
    drop(w, BROKEN);
    set_timer(w);
}

/* Closes the wire because a read or write failed; in the reactor's calls. */
static void fail_by(struct wire *w, ssize_t result)
{
    char reason[DIAL_REASON_SIZE];
    const char *why = stream_why(&w->stream);
    if (result == STREAM_END)
        why = "the server closed the connection";
    else if (result == STREAM_RESET)
        why = "the server reset the connection";
    else if (result == STREAM_VANISHED)
        why = "the server can't be reached any more";
    else if (!why)
        why = "the connection failed";
    snprintf(reason, sizeof(reason), "%s%s", result == STREAM_ERROR && w->stream.tls ? "TLS: " : "",
             why);
    fail(w, reason);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Watches for what reads and writes wait for. */
static void watch(struct wire *w)
{
    if (w->state == OPEN && !loop_io_want(w->reactor->loop, &w->io, w->reading | w->writing))
        fail(w, "no memory");
}

static bool is_pause(ssize_t result)
{
    return result == STREAM_AGAIN || result == STREAM_CROSSED;
}

/* After a read, TLS may be able to write what waited for input. */
static void write_after_read(struct wire *w)
{
    if (w->writing == LOOP_READ) {
        w->flush_due = true;
        set_timer(w);
    }
}

/* Reads for this iteration. Returns false when the connection is over. */
static bool read_some(struct wire *w)
{
    uint8_t piece[WIRE_PIECE_MAX];
    unsigned life = w->life;
    size_t total = 0;
    bool more = true;
    w->more = false;
    w->reading = LOOP_READ;
    while (more && total < WIRE_ITERATION_MAX) {
        ssize_t n = stream_read(&w->stream, piece, sizeof(piece));
        if (is_pause(n)) {
            w->reading = n == STREAM_CROSSED ? LOOP_WRITE : LOOP_READ;
            more = false;
            break;
        }
        if (n <= 0) {
            fail_by(w, n);
            return false;
        }
        total += (size_t)n;
        more = w->stream.tls ? stream_has_more(&w->stream) : (size_t)n == sizeof(piece);
        w->calls->received(w->arg, bytes_at(piece, (size_t)n));
        if (w->life != life)
            return false;
    }
    if (more && w->stream.tls)
        read_on_later(w); /* of a plain stream the loop reports it */
    write_after_read(w);
    return true;
}

/* Writes the queue, in one call. Returns false when the connection is over. */
static bool write_some(struct wire *w)
{
    w->flush_due = false;
    w->writing = 0;
    if (wire_queued(w) == 0)
        return true;
    struct iovec all = {.iov_base = w->queue.data + w->written, .iov_len = wire_queued(w)};
    ssize_t n = stream_write(&w->stream, &all, 1);
    if (n < 0 && !is_pause(n)) {
        /* What the server said last may be unread, and says more than this. */
        if (read_some(w))
            fail_by(w, n);
        return false;
    }
    w->written += n > 0 ? (size_t)n : 0;
    if (wire_queued(w) > 0) {
        w->writing = n == STREAM_CROSSED ? LOOP_READ : LOOP_WRITE;
        return true;
    }
    w->written = 0;
    if (w->queue.room > QUEUE_KEPT)
        text_free(&w->queue);
    else
        text_clear(&w->queue);
    return true;
}

static void on_ready(struct loop_io *io, unsigned what)
{
    struct wire *w = container_of(io, struct wire, io);
    bool reads = what & w->reading, writes = what & w->writing;
    if ((!writes || write_some(w)) && (!reads || read_some(w)))
        watch(w);
}

static int64_t on_time(struct timer *timer, struct moment now)
{
    struct wire *w = container_of(timer, struct wire, timer);
    bool reads = w->more && now.mono_ns > w->more_ns;
    w->in_timer = true;
    if (w->state == BROKEN) {
        w->state = CLOSED;
        w->calls->closed(w->arg, w->reason);
    } else if ((!w->flush_due || write_some(w)) && (!reads || read_some(w))) {
        watch(w);
    }
    w->in_timer = false;
    int64_t at_ns = due_ns(w);
    return at_ns > now.mono_ns ? at_ns : now.mono_ns + 1;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_dialed(void *arg, struct stream *stream, const char *reason)
{
    struct wire *w = arg;
    unsigned life = w->life;
    w->dial = NULL;
    if (stream)
        w->stream = *stream;
    if (!stream || !loop_io_add(w->reactor->loop, &w->io, w->stream.fd, LOOP_READ, on_ready)) {
        fail(w, stream ? "no memory" : reason);
        return;
    }
    w->state = OPEN;
    w->calls->opened(w->arg);
    if (w->life != life)
        return;
    flush_later(w);
    if (w->stream.tls) /* bytes may have come with the handshake */
        read_on_later(w);
}

struct wire *wire_new(struct reactor *reactor, size_t queue_max, const struct wire_calls *calls,
                      void *arg)
{
    struct wire *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->timer.run = on_time;
    if (!reactor_add_timer(reactor, &w->timer, DEADLINE_NONE)) {
        free(w);
        return NULL;
    }
    w->reactor = reactor;
    w->queue_max = queue_max;
    w->calls = calls;
    w->arg = arg;
    w->stream.fd = -1;
    w->reading = LOOP_READ;
    return w;
}

void wire_free(struct wire **wire)
{
    struct wire *w = *wire;
    *wire = NULL;
    if (!w)
        return;
    wire_close(w);
    reactor_remove_timer(w->reactor, &w->timer);
    free(w);
}

void wire_open(struct wire *w, const struct dial_target *target, int64_t limit_ns)
{
    CHECK(w->state == CLOSED);
    w->state = OPENING;
    w->dial = dial_start(w->reactor, target, limit_ns, on_dialed, w);
    if (!w->dial)
        fail_later(w, "no memory");
}

void wire_close(struct wire *w)
{
    if (w->state != CLOSED)
        drop(w, CLOSED);
}

void wire_send(struct wire *w, struct bytes bytes)
{
    if ((w->state != OPENING && w->state != OPEN) || bytes.len == 0)
        return;
    if (bytes.len > w->queue_max || wire_queued(w) > w->queue_max - bytes.len) {
        fail_later(w, "more than %zu bytes wait for the server to read them", w->queue_max);
        return;
    }
    if (w->written > 0 && w->written >= wire_queued(w)) { /* as much is free as must be moved */
        w->queue.len -= w->written;
        memcpy(w->queue.data, w->queue.data + w->written, w->queue.len);
        w->written = 0;
    }
    text_add(&w->queue, bytes.data, bytes.len);
    if (w->queue.failed)
        fail_later(w, "no memory");
    else
        flush_later(w);
}

size_t wire_queued(const struct wire *w)
{
    return w->queue.len - w->written;
}
