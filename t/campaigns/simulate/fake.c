/* fake.c - loops, streams and clocks under the control of a program (see fake.h). */
#include "t/campaigns/simulate/fake.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

struct fake_hooks fake_hooks;

/* ---- clocks ---------------------------------------------------------------------------------- */

struct moment fake_now = {.mono_ns = 0, .unix_s = 1700000000};
int64_t fake_unix_ns;

void fake_pass_time(int64_t ns)
{
    fake_unix_ns += ns;
    fake_now.unix_s += fake_unix_ns / NS_PER_S;
    fake_unix_ns %= NS_PER_S;
    fake_now.mono_ns += ns;
}

struct moment clock_now(void)
{
    return fake_now;
}

int64_t clock_mono_ns(void)
{
    return fake_now.mono_ns;
}

int64_t clock_unix_ns(void)
{
    return fake_now.unix_s * NS_PER_S + fake_unix_ns;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static struct fake_peer **peers;
static int peer_count, peer_room;

void fake_peer_join(struct fake_peer *peer)
{
    if (peer_count == peer_room) {
        peer_room = peer_room ? peer_room * 2 : 64;
        peers = realloc(peers, (size_t)peer_room * sizeof(struct fake_peer *));
        CHECK(peers);
    }
    peer->fd = peer_count;
    peers[peer_count++] = peer;
}

void fake_peers_leave(void)
{
    for (int i = 0; i < peer_count; i++) {
        free(peers[i]->input);
        peers[i]->input = NULL;
    }
    free(peers);
    peers = NULL;
    peer_count = peer_room = 0;
}

int __wrap_getpeername(int fd, struct sockaddr *restrict sa, socklen_t *restrict len);
int __wrap_getpeername(int fd, struct sockaddr *restrict sa, socklen_t *restrict len)
{
    CHECK(fd >= 0 && fd < peer_count && *len >= sizeof(struct sockaddr_in));
    uint32_t address = peers[fd]->address ? peers[fd]->address : INADDR_LOOPBACK;
    *(struct sockaddr_in *)(void *)sa = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)(40000 + fd)),
        .sin_addr = {.s_addr = htonl(address)},
    };
    *len = sizeof(struct sockaddr_in);
    return 0;
}

int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
    (void)fd;
    (void)what;
    return 0;
}

void fake_peer_send(struct fake_peer *peer, const void *bytes, size_t len)
{
    size_t end = peer->input_begin + peer->input_len;
    if (end + len > peer->input_room) {
        peer->input_room = (end + len) * 2;
        peer->input = realloc(peer->input, peer->input_room);
        CHECK(peer->input);
    }
    if (len)
        memcpy(peer->input + end, bytes, len);
    peer->input_len += len;
    peer->news = true;
}

unsigned fake_peer_ready(const struct fake_peer *peer)
{
    unsigned ready = 0;
    if (!peer->io || (peer->io->wanted & LOOP_ONCE && !peer->news))
        return 0;
    if (peer->input_len > peer->taken || peer->ended || peer->broken)
        ready |= LOOP_READ;
    if (peer->window || peer->broken)
        ready |= LOOP_WRITE;
    if (peer->ended || peer->broken)
        ready |= LOOP_GONE;
    return ready & peer->io->wanted;
}

void fake_peer_tell(struct fake_peer *peer, unsigned ready)
{
    peer->news = false;
    peer->io->fn(peer->io, ready);
}

static void stir(struct fake_peer *peer)
{
    peer->news = true;
    if (fake_hooks.stirred)
        fake_hooks.stirred(peer);
}

/* ---- loops ----------------------------------------------------------------------------------- */

struct loop *loop_new(const struct loop_handlers *handlers)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    if (loop)
        *loop = (struct loop){.handlers = *handlers, .timer_at_ns = INT64_MAX};
    return loop;
}

void loop_free(struct loop **loop)
{
    free(*loop);
    *loop = NULL;
}

void loop_run(struct loop *loop)
{
    (void)loop;
    CHECK(false); /* the program itself calls the handlers */
}

void loop_stop(struct loop *loop)
{
    (void)loop;
}

void loop_ring(struct loop *loop)
{
    loop->rung = true;
}

void loop_timer_at(struct loop *loop, int64_t at_ns)
{
    loop->timer_at_ns = at_ns;
}

void loop_busy_poll(struct loop *loop, int64_t busy_ns)
{
    (void)loop;
    (void)busy_ns;
}

void loop_soon(struct loop *loop)
{
    loop->soon = true;
}

bool loop_io_add(struct loop *loop, struct loop_io *io, int fd, unsigned wanted, loop_io_fn *fn)
{
    if (fake_hooks.refuses && fake_hooks.refuses())
        return false;
    *io = (struct loop_io){.fn = fn, .fd = fd, .wanted = wanted};
    peers[fd]->io = io;
    peers[fd]->loop = loop;
    stir(peers[fd]);
    return true;
}

bool loop_io_want(struct loop *loop, struct loop_io *io, unsigned wanted)
{
    (void)loop;
    if (io->wanted == wanted)
        return true;
    /* A descriptor that is already watched needs no memory. */
    if (!io->wanted && fake_hooks.refuses && fake_hooks.refuses())
        return false;
    io->wanted = wanted;
    stir(peers[io->fd]);
    return true;
}

void loop_io_remove(struct loop *loop, struct loop_io *io)
{
    (void)loop;
    if (io->fn)
        peers[io->fd]->io = NULL;
    io->fn = NULL;
}

bool fake_turn(struct loop *loop)
{
    const struct loop_handlers *h = &loop->handlers;
    bool any = loop->soon, soon = loop->soon;
    loop->soon = false;
    (void)h->begin(h->arg);
    for (int fd = 0; fd < peer_count; fd++) {
        struct fake_peer *peer =
            peers[fd]->fd == fd ? peers[fd] : NULL; /* it may have joined again */
        unsigned ready = peer && peer->loop == loop ? fake_peer_ready(peer) : 0;
        any = any || ready;
        if (ready)
            fake_peer_tell(peer, ready);
    }
    if (loop->rung) {
        loop->rung = false;
        h->bell(h->arg);
        any = true;
    }
    if (loop->timer_at_ns <= fake_now.mono_ns) {
        loop->timer_at_ns = INT64_MAX;
        h->timer(h->arg);
        any = true;
    }
    if (soon)
        h->soon(h->arg);
    (void)h->end(h->arg);
    return any || loop->soon;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* What the program lets a call do: a number of bytes, or a result. */
static ssize_t allowed(struct fake_peer *peer, bool writes, size_t len)
{
    ssize_t n = fake_hooks.call ? fake_hooks.call(peer, writes, len) : (ssize_t)len;
    return peer->broken ? STREAM_RESET : n;
}

ssize_t stream_read(struct stream *stream, void *to, size_t room)
{
    struct fake_peer *peer = peers[stream->fd];
    ssize_t most = allowed(peer, false, room);
    if (most < (ssize_t)room)
        peer->news = true; /* the rest arrives later */
    if (most < 0)
        return most;
    size_t whole = peer->input_len - peer->sealed;
    peer->taken = peer->sealed;
    if (!whole)
        return peer->ended ? STREAM_END : STREAM_AGAIN;
    size_t n = whole < (size_t)most ? whole : (size_t)most;
    memcpy(to, peer->input + peer->input_begin, n);
    peer->input_len -= n;
    peer->input_begin = peer->input_len ? peer->input_begin + n : 0;
    return (ssize_t)n;
}

ssize_t stream_write(struct stream *stream, struct iovec *pieces, int count)
{
    struct fake_peer *peer = peers[stream->fd];
    ssize_t most = allowed(peer, true, SIZE_MAX / 2);
    if (most < 0)
        return most;
    size_t written = 0, left = peer->window < (size_t)most ? peer->window : (size_t)most;
    for (int i = 0; i < count && left > 0; i++) {
        size_t n = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        left -= n;
        if (peer->window != SIZE_MAX)
            peer->window -= n;
        if (fake_hooks.received)
            fake_hooks.received(peer, pieces[i].iov_base, n, written == 0,
                                i == count - 1 || left == 0);
        written += n;
    }
    return written ? (ssize_t)written : STREAM_AGAIN;
}

/* TLS is a handshake of so many bytes as the peer says, and records that may have no end yet. */
bool stream_secure(struct stream *stream, struct tls *tls)
{
    stream->tls = (struct tls_stream *)(void *)tls;
    return true;
}

bool stream_secure_client(struct stream *stream, struct tls *tls, const char *host)
{
    (void)stream;
    (void)tls;
    (void)host;
    return false;
}

uint64_t fake_shakes;

ssize_t stream_handshake(struct stream *stream, const char **why_r)
{
    struct fake_peer *peer = peers[stream->fd];
    *why_r = "the peer has gone";
    fake_shakes++;
    if (peer->broken)
        return STREAM_RESET;
    if (!peer->input_len)
        return peer->ended ? STREAM_END : STREAM_AGAIN;
    peer->input_begin++;
    peer->input_len--;
    return --peer->shakes ? STREAM_AGAIN : 1;
}

const char *stream_why(const struct stream *stream)
{
    (void)stream;
    return NULL;
}

bool stream_is_slow(const struct stream *stream)
{
    (void)stream;
    return false;
}

bool stream_in_record(const struct stream *stream)
{
    return peers[stream->fd]->taken > 0;
}

bool stream_has_more(const struct stream *stream)
{
    (void)stream;
    return false;
}

/* A peer closes when it reads the end, unless it is stubborn. */
void stream_finish(struct stream *stream)
{
    struct fake_peer *peer = peers[stream->fd];
    peer->ended = peer->ended || !peer->stubborn;
    stir(peer);
}

void stream_close(struct stream *stream)
{
    if (stream->fd < 0)
        return;
    struct fake_peer *peer = peers[stream->fd];
    stream->fd = -1;
    peer->closed = true;
    if (fake_hooks.closed)
        fake_hooks.closed(peer);
}
