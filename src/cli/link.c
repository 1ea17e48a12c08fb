/*
 * link.c - one connection to a server (link.h).
 */
#include "cli/link.h"

#include "base/clock.h"
#include "cli/lookup.h"
#include "cli/tls.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The size of one read. */
#define READ_SIZE 65536

/* How long we wait for the server to close a connection that we have closed. */
#define FINISH_NS NS_PER_S

static void give_reason(struct link *link, const char *format, ...) PRINTF_LIKE(2, 3);

static void give_reason(struct link *link, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(link->reason, sizeof link->reason, format, values);
    va_end(values);
}

/* ---- end --------------------------------------------------------------------------------- */

static void close_fd(struct link *link)
{
    watch_clear(link->loop, &link->watch);
    tls_end(link);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

void link_close(struct link *link)
{
    if (link->state == LINK_CLOSED)
        return;
    link->state = LINK_CLOSED;
    timer_clear(link->loop, &link->timer);
    timer_clear(link->loop, &link->rest);
    close_fd(link);
    if (link->found)
        freeaddrinfo(link->found);
    text_free(&link->in);
    text_free(&link->out);
}

/* Closes the link with its reason set. The caller must not use the link afterwards: on_end may have
   opened it again or freed it. */
static void end(struct link *link)
{
    link_close(link);
    link->calls->on_end(link->owner);
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* Waits for what reading needs, and for what writing needs if bytes are unsent. */
static void wait_for_bytes(struct link *link)
{
    short events = link->read_events;
    if (link->out.len > 0)
        events = (short)(events | link->write_events);
    watch_set(link->loop, &link->watch, link->fd, events);
}

/* Writes once. Returns the bytes written; 0: would block; -1: the connection broke. */
static ssize_t write_some(struct link *link, const void *data, size_t len)
{
    size_t n = 0;
    if (!link->ssl) {
        ssize_t sent = send(link->fd, data, len, MSG_NOSIGNAL);
        return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
    }
    ERR_clear_error();
    int result = SSL_write_ex(link->ssl, data, len, &n);
    if (result == 1)
        return (ssize_t)n;
    link->write_events = tls_wants(link, result);
    return link->write_events ? 0 : -1;
}

/* Sends as much as possible. Returns false when the connection broke. */
static bool flush(struct link *link)
{
    ssize_t n = 1;
    while (link->sent < link->out.len && n > 0) {
        n = write_some(link, link->out.data + link->sent, link->out.len - link->sent);
        if (n > 0)
            link->sent += (size_t)n;
    }
    if (n < 0)
        give_reason(link, "the connection broke");
    if (link->out.len > 0 && link->sent == link->out.len) {
        text_clear(&link->out);
        link->sent = 0;
        timer_clear(link->loop, &link->timer);
    }
    return n >= 0;
}

/* Appends one read to the unread bytes. Returns false when the connection has ended. */
static bool read_some(struct link *link)
{
    static char data[READ_SIZE];
    size_t len = 0;
    if (link->taken > 0)
        memmove(link->in.data, link->in.data + link->taken, link->in.len -= link->taken);
    link->taken = 0;
    if (!link->ssl) {
        ssize_t n = recv(link->fd, data, sizeof data, 0);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            give_reason(link, "%s", strerrordesc_np(errno));
        else if (n == 0)
            give_reason(link, "the server closed the connection");
        else
            text_add(&link->in, data, n > 0 ? (size_t)n : 0);
        return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    }
    ERR_clear_error();
    int result = SSL_read_ex(link->ssl, data, sizeof data, &len);
    text_add(&link->in, data, len);
    link->read_events = POLLIN;
    if (result != 1)
        link->read_events = tls_wants(link, result);
    if (link->read_events)
        return true;
    unsigned long error = ERR_peek_last_error();
    const char *detail = error ? ERR_reason_error_string(error) : NULL;
    give_reason(link, "the server closed the connection%s%s", detail ? ": " : "",
                detail ? detail : "");
    return false;
}

/*
 * Passes on all complete messages. A call may close the link, or end the loop: then nobody is
 * called before the next loop_run, because what the owner gave for later answers may be gone.
 */
static void take_messages(struct link *link)
{
    size_t used = 1;
    while (link->state == LINK_UP && link->taken < link->in.len && used > 0) {
        if (loop_is_over(link->loop)) {
            timer_set(link->loop, &link->rest, 0);
            return;
        }
        struct bytes data = {.data = (const uint8_t *)link->in.data + link->taken,
                             .len = link->in.len - link->taken};
        used = link->calls->take(link->owner, data);
        if (link->state == LINK_UP)
            link->taken += used;
    }
}

/* Passes on what was read before the loop was over. */
static void take_rest(void *owner)
{
    take_messages(owner);
}

static void move_bytes(struct link *link)
{
    if (timer_is_set(&link->rest)) { /* it comes before what can be read now, and before an end */
        timer_clear(link->loop, &link->rest);
        take_rest(link);
        return;
    }
    bool is_fine = flush(link) && read_some(link);
    if (link->state == LINK_FINISHING)
        text_clear(&link->in);
    if (is_fine) {
        wait_for_bytes(link);
        take_messages(link);
    } else {
        end(link);
    }
}

void link_send(struct link *link, const void *data, size_t len)
{
    CHECK(link->state == LINK_UP);
    if (link->out.len == 0)
        timer_set(link->loop, &link->timer, clock_mono_ns() + link->options->io_timeout_ns);
    text_add(&link->out, data, len);
    wait_for_bytes(link);
}

void link_finish(struct link *link)
{
    CHECK(link->state == LINK_UP);
    link->state = LINK_FINISHING;
    timer_clear(link->loop, &link->rest);
    text_clear(&link->out);
    link->sent = 0;
    if (link->ssl)
        (void)SSL_shutdown(link->ssl);
    shutdown(link->fd, SHUT_WR);
    timer_set(link->loop, &link->timer, clock_mono_ns() + FINISH_NS);
    wait_for_bytes(link);
}

/* ---- connecting -------------------------------------------------------------------------- */

static void go_up(struct link *link)
{
    link->state = LINK_UP;
    link->read_events = POLLIN;
    link->write_events = POLLOUT;
    timer_clear(link->loop, &link->timer);
    wait_for_bytes(link);
    link->calls->on_up(link->owner);
}

static void shake_hands(struct link *link)
{
    ERR_clear_error();
    int result = SSL_do_handshake(link->ssl);
    short events = tls_wants(link, result);
    if (result == 1) {
        go_up(link);
    } else if (events) {
        watch_set(link->loop, &link->watch, link->fd, events);
    } else {
        tls_explain_handshake(link);
        end(link);
    }
}

/* Sends small messages at once, and notices a vanished server within half a minute. */
static void tune_tcp(int fd)
{
    int on = 1, idle_s = 10, interval_s = 5, probes = 3;
    unsigned unacknowledged_ms = 25000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

/* The socket is connected. */
static void connected(struct link *link)
{
    if (!link->address.is_unix)
        tune_tcp(link->fd);
    if (!link->options->tls) {
        go_up(link);
        return;
    }
    link->state = LINK_SHAKING;
    timer_set(link->loop, &link->timer, link->connect_by_ns);
    if (tls_start(link, link->options, link->address.host))
        shake_hands(link);
    else
        end(link);
}

/* Starts one attempt to connect. Returns 0, or errno: EINPROGRESS when it continues. */
static int connect_to(struct link *link, const struct sockaddr *to, socklen_t len)
{
    link->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd < 0) {
        give_reason(link, "no socket: %s", strerrordesc_np(errno));
        return errno;
    }
    int error = connect(link->fd, to, len) == 0 ? 0 : errno;
    if (error)
        give_reason(link, "%s", strerrordesc_np(error));
    return error;
}

/* Tries the host's next address; each may use its share of the time left. */
static void connect_next(struct link *link)
{
    int error = -1;
    while (link->next && error != 0 && error != EINPROGRESS) {
        const struct addrinfo *at = link->next;
        int64_t now = clock_mono_ns(), left = 0;
        for (const struct addrinfo *one = at; one; one = one->ai_next)
            left++;
        close_fd(link);
        link->next = at->ai_next;
        timer_set(link->loop, &link->timer, now + (link->connect_by_ns - now) / left);
        error = connect_to(link, at->ai_addr, at->ai_addrlen);
    }
    if (error == EINPROGRESS)
        watch_set(link->loop, &link->watch, link->fd, POLLOUT);
    else if (error == 0)
        connected(link);
    else
        end(link);
}

/* An attempt to connect has succeeded or failed. */
static void look_at_connect(struct link *link)
{
    int error = 0;
    socklen_t len = sizeof error;
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error == 0) {
        connected(link);
        return;
    }
    give_reason(link, "%s", strerrordesc_np(error));
    connect_next(link);
}

/* Connects to the path; there is no other address to try. */
static void connect_unix(struct link *link)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(link->address.path);
    memcpy(to.sun_path + link->address.is_abstract, link->address.path,
           len < sizeof to.sun_path - 1 ? len : sizeof to.sun_path - 1);
    /* A path has a NUL at its end, an abstract name has none. */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    if (connect_to(link, (struct sockaddr *)&to, size) == 0)
        connected(link);
    else
        end(link);
}

/* The lookup has found the host's addresses, or failed. */
static void found(struct link *link, int error)
{
    link->next = link->found;
    link->state = LINK_CONNECTING;
    if (error)
        give_reason(link, "%s", gai_strerror(error));
    connect_next(link); /* reports the error if there is no address */
}

/* Looks up the host's addresses; numeric ones need no lookup. */
static void find_addresses(struct link *link)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    char port[8];
    snprintf(port, sizeof port, "%u", link->address.port);
    if (getaddrinfo(link->address.host, port, &hints, &link->found) == 0) {
        found(link, 0);
        return;
    }
    link->fd = lookup_start(link->address.host, port);
    if (link->fd < 0) {
        give_reason(link, "can't look up its address: %s", strerrordesc_np(errno));
        end(link);
        return;
    }
    link->state = LINK_LOOKING;
    timer_set(link->loop, &link->timer, link->connect_by_ns);
    watch_set(link->loop, &link->watch, link->fd, POLLIN);
}

/* ---- callbacks --------------------------------------------------------------------------- */

static void on_ready(void *owner, short revents)
{
    struct link *link = owner;
    (void)revents;
    if (link->state == LINK_LOOKING) {
        found(link, lookup_take(link->fd, &link->found));
    } else if (link->state == LINK_CONNECTING) {
        look_at_connect(link);
    } else if (link->state == LINK_SHAKING) {
        shake_hands(link);
    } else {
        move_bytes(link);
    }
}

/* The state has timed out, or sending in it. */
static void on_due(void *owner)
{
    static const char *const reasons[] = {
        [LINK_LOOKING] = "its address was not found in time (--connect-timeout)",
        [LINK_CONNECTING] = "it does not answer in time (--connect-timeout)",
        [LINK_SHAKING] =
            "the TLS handshake took too long (--connect-timeout; does it speak TLS there?)",
        [LINK_UP] = "it takes no more bytes (--io-timeout)",
        [LINK_FINISHING] = "it does not close the connection",
    };
    struct link *link = owner;
    if (link->state == LINK_BEGUN) {
        if (link->address.is_unix)
            connect_unix(link);
        else
            find_addresses(link);
        return;
    }
    give_reason(link, "%s", reasons[link->state]);
    if (link->state == LINK_CONNECTING)
        connect_next(link);
    else
        end(link);
}

void link_open(struct link *link, struct loop *loop, const struct address *address,
               const struct options *options, uint16_t port)
{
    CHECK(link->state == LINK_CLOSED);
    int64_t now = clock_mono_ns();
    *link = (struct link){.state = LINK_BEGUN,
                          .calls = link->calls,
                          .owner = link->owner,
                          .loop = loop,
                          .options = options,
                          .watch = {.on_ready = on_ready, .owner = link},
                          .timer = {.on_due = on_due, .owner = link},
                          .rest = {.on_due = take_rest, .owner = link},
                          .connect_by_ns = now + options->connect_timeout_ns,
                          .address = *address,
                          .fd = -1};
    address_text(address, port, link->where);
    if (!link->address.port)
        link->address.port = port;
    timer_set(loop, &link->timer, now); /* the loop does the rest, because it may run callbacks */
}
