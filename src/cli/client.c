/*
 * client.c - one connection to a server (client.h).
 */
#include "cli/client.h"

#include "base/clock.h"
#include "cli/lookup.h"
#include "cli/print.h"
#include "cli/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How much one read asks for. */
#define READ_SIZE 65536

/* How long a server may take to close what we have closed. */
#define FINISH_NS NS_PER_S

static enum client_end fail(struct client *client, enum client_end end, const char *format, ...)
    PRINTF_LIKE(3, 4);

static enum client_end fail(struct client *client, enum client_end end, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(client->reason, sizeof client->reason, format, values);
    va_end(values);
    return end;
}

/* ---- waiting ----------------------------------------------------------------------------- */

/* What is left until the deadline, in whole milliseconds for poll; -1: there is none. */
static int left_ms(int64_t deadline_ns)
{
    if (deadline_ns < 0)
        return -1;
    int64_t left = deadline_ns - clock_mono_ns();
    if (left <= 0)
        return 0;
    left = (left + NS_PER_MS - 1) / NS_PER_MS;
    return left > 1000000 ? 1000000 : (int)left;
}

/* Waits until `fd` is ready for `events` or broken, or `interrupt` (-1: none) can be read. */
static enum client_end wait_ready(struct client *client, int fd, short events, int interrupt,
                                  int64_t deadline_ns)
{
    struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = interrupt, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, 2, left_ms(deadline_ns)); /* passes over an interrupt of -1 */
        if (ready < 0 && errno != EINTR)
            return fail(client, CLIENT_CLOSED, "can't wait for it: %s", strerrordesc_np(errno));
        if (ready > 0 && fds[1].revents)
            return CLIENT_INTERRUPTED;
        if (ready > 0)
            return CLIENT_OK;
        if (ready == 0 && deadline_ns >= 0 && clock_mono_ns() >= deadline_ns)
            return CLIENT_TIMED_OUT;
    }
}

/* ---- connecting -------------------------------------------------------------------------- */

bool client_address(const struct options *options, struct address *address_r)
{
    char reason[ADDRESS_REASON_SIZE];
    const char *from = "--server", *text = options->server;
    if (!text) {
        from = "$COUNTER_SERVER";
        text = getenv("COUNTER_SERVER"); /* NOLINT(concurrency-mt-unsafe): one thread */
    }
    if (!text || !*text)
        text = "127.0.0.1";
    if (address_parse(text, address_r, reason))
        return true;
    complain("%s: %s", from, reason);
    return false;
}

/* Until the other side is connected or the attempt has failed. */
static enum client_end finish_connect(struct client *client, int64_t deadline_ns)
{
    enum client_end end = wait_ready(client, client->fd, POLLOUT, client->interrupt, deadline_ns);
    if (end == CLIENT_TIMED_OUT)
        return fail(client, end, "it does not answer in time (--connect-timeout)");
    if (end != CLIENT_OK)
        return end;
    int error = 0;
    socklen_t len = sizeof error;
    getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error)
        return fail(client, CLIENT_FAILED, "%s", strerrordesc_np(error));
    return CLIENT_OK;
}

static void close_socket(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

/* One attempt to connect. */
static enum client_end connect_to(struct client *client, const struct sockaddr *to, socklen_t len,
                                  int64_t deadline_ns)
{
    client->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (client->fd < 0)
        return fail(client, CLIENT_FAILED, "no socket: %s", strerrordesc_np(errno));
    enum client_end end = CLIENT_OK;
    if (connect(client->fd, to, len) != 0) {
        if (errno == EINPROGRESS)
            end = finish_connect(client, deadline_ns);
        else
            end = fail(client, CLIENT_FAILED, "%s", strerrordesc_np(errno));
    }
    if (end != CLIENT_OK)
        close_socket(client);
    return end;
}

/* Small messages go at once, and a server that has vanished is noticed within half a minute. */
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

static enum client_end connect_unix(struct client *client, const struct address *address,
                                    int64_t deadline_ns)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(address->path);
    memcpy(to.sun_path + address->is_abstract, address->path,
           len < sizeof to.sun_path - 1 ? len : sizeof to.sun_path - 1);
    /* An abstract name has no NUL at its end; a path has. */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    return connect_to(client, (struct sockaddr *)&to, size, deadline_ns);
}

/* Finds the addresses of a name. */
static enum client_end look_up(struct client *client, const char *host, const char *port,
                               int64_t deadline_ns, struct addrinfo **list_r)
{
    struct lookup *lookup = lookup_start(host, port);
    if (!lookup)
        return fail(client, CLIENT_FAILED, "can't look it up: %s", strerrordesc_np(errno));
    enum client_end end =
        wait_ready(client, lookup_fd(lookup), POLLIN, client->interrupt, deadline_ns);
    int error = end == CLIENT_OK ? lookup_take(lookup, list_r) : 0;
    lookup_free(&lookup);
    if (end == CLIENT_TIMED_OUT)
        return fail(client, end, "its address was not found in time (--connect-timeout)");
    if (error)
        return fail(client, CLIENT_FAILED, "%s", gai_strerror(error));
    return end;
}

/* Finds the addresses of a host; numeric ones need no search. */
static enum client_end find_addresses(struct client *client, const char *host, const char *port,
                                      int64_t deadline_ns, struct addrinfo **list_r)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    *list_r = NULL;
    if (getaddrinfo(host, port, &hints, list_r) == 0)
        return CLIENT_OK;
    return look_up(client, host, port, deadline_ns, list_r);
}

/* Tries each address of the host; each may take its share of the time that is left. */
static enum client_end connect_tcp(struct client *client, const char *host, uint16_t port,
                                   int64_t deadline_ns)
{
    char port_text[8];
    snprintf(port_text, sizeof port_text, "%u", port);
    struct addrinfo *list, *at;
    enum client_end end = find_addresses(client, host, port_text, deadline_ns, &list);
    if (end != CLIENT_OK)
        return end;
    int left = 0;
    for (at = list; at; at = at->ai_next)
        left++;
    end = CLIENT_FAILED;
    for (at = list; at && end != CLIENT_OK && end != CLIENT_INTERRUPTED; at = at->ai_next) {
        int64_t now = clock_mono_ns();
        int64_t share = deadline_ns > now ? (deadline_ns - now) / left-- : 0;
        end = connect_to(client, at->ai_addr, at->ai_addrlen, now + share);
    }
    freeaddrinfo(list);
    if (end == CLIENT_OK)
        tune_tcp(client->fd);
    return end;
}

static enum client_end shake_hands(struct client *client, int64_t deadline_ns)
{
    for (;;) {
        ERR_clear_error();
        int result = SSL_do_handshake(client->ssl);
        if (result == 1)
            return CLIENT_OK;
        short events = tls_wants(client, result);
        if (!events) {
            tls_explain_handshake(client);
            return CLIENT_FAILED;
        }
        enum client_end end =
            wait_ready(client, client->fd, events, client->interrupt, deadline_ns);
        if (end == CLIENT_TIMED_OUT)
            return fail(client, end,
                        "the TLS handshake took too long (--connect-timeout; does it speak TLS "
                        "there?)");
        if (end != CLIENT_OK)
            return end;
    }
}

enum client_end client_open(struct client *client, const struct address *address,
                            const struct options *options, uint16_t port, int interrupt)
{
    *client =
        (struct client){.fd = -1, .interrupt = interrupt, .io_timeout_ns = options->io_timeout_ns};
    address_text(address, port, client->where);
    int64_t deadline = clock_mono_ns() + options->connect_timeout_ns;
    enum client_end end;
    if (address->is_unix)
        end = connect_unix(client, address, deadline);
    else
        end = connect_tcp(client, address->host, address->port ? address->port : port, deadline);
    if (end != CLIENT_OK || !options->tls)
        return end;
    if (!tls_start(client, options, address->host))
        return CLIENT_FAILED;
    return shake_hands(client, deadline);
}

void client_close(struct client *client)
{
    tls_end(client);
    close_socket(client);
    free(client->data);
    client->data = NULL;
    client->start = client->len = client->room = 0;
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* One write. Returns its bytes; 0: wait for *events_r; -1: the connection is broken. */
static ssize_t write_some(struct client *client, const void *data, size_t len, short *events_r)
{
    *events_r = POLLOUT;
    if (!client->ssl) {
        ssize_t n = send(client->fd, data, len, MSG_NOSIGNAL);
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
    }
    size_t n = 0;
    ERR_clear_error();
    int result = SSL_write_ex(client->ssl, data, len, &n);
    if (result == 1)
        return (ssize_t)n;
    *events_r = tls_wants(client, result);
    return *events_r ? 0 : -1;
}

enum client_end client_send(struct client *client, const void *data, size_t len)
{
    int64_t deadline = clock_mono_ns() + client->io_timeout_ns;
    const uint8_t *at = data;
    while (len > 0) {
        short events;
        ssize_t n = write_some(client, at, len, &events);
        if (n < 0)
            return fail(client, CLIENT_CLOSED, "the connection broke");
        at += n;
        len -= (size_t)n;
        if (n > 0)
            continue;
        enum client_end end = wait_ready(client, client->fd, events, -1, deadline);
        if (end == CLIENT_TIMED_OUT)
            return fail(client, end, "it takes no more bytes (--io-timeout)");
        if (end != CLIENT_OK)
            return end;
    }
    return CLIENT_OK;
}

/* Makes room for one more read behind what is there. */
static void make_room(struct client *client)
{
    if (client->start > 0 && (client->len == 0 || client->start >= client->room / 2)) {
        memmove(client->data, client->data + client->start, client->len);
        client->start = 0;
    }
    size_t need = client->start + client->len + READ_SIZE;
    if (need <= client->room)
        return;
    size_t room = client->room * 2 > need ? client->room * 2 : need;
    uint8_t *data = realloc(client->data, room);
    if (!data)
        out_of_memory();
    client->data = data;
    client->room = room;
}

/* One read of at most READ_SIZE. Returns as write_some; an end in order is CLOSED, too. */
static enum client_end read_some(struct client *client, short *events_r)
{
    uint8_t *to = client->data + client->start + client->len;
    *events_r = POLLIN;
    if (!client->ssl) {
        ssize_t n = recv(client->fd, to, READ_SIZE, 0);
        if (n > 0)
            client->len += (size_t)n;
        else if (n == 0)
            return fail(client, CLIENT_CLOSED, "the server closed the connection");
        else if (errno != EAGAIN && errno != EINTR)
            return fail(client, CLIENT_CLOSED, "%s", strerrordesc_np(errno));
        return n > 0 ? CLIENT_OK : CLIENT_TIMED_OUT;
    }
    size_t n = 0;
    ERR_clear_error();
    int result = SSL_read_ex(client->ssl, to, READ_SIZE, &n);
    client->len += n;
    if (result == 1)
        return CLIENT_OK;
    *events_r = tls_wants(client, result);
    if (*events_r)
        return CLIENT_TIMED_OUT;
    unsigned long error = ERR_peek_last_error();
    const char *detail = error ? ERR_reason_error_string(error) : NULL;
    return fail(client, CLIENT_CLOSED, "the server closed the connection%s%s", detail ? ": " : "",
                detail ? detail : "");
}

enum client_end client_fill(struct client *client, int64_t deadline_ns)
{
    make_room(client);
    for (;;) {
        short events;
        enum client_end end = read_some(client, &events);
        if (end != CLIENT_TIMED_OUT)
            return end;
        end = wait_ready(client, client->fd, events, client->interrupt, deadline_ns);
        if (end == CLIENT_TIMED_OUT)
            return fail(client, end, "no answer in time");
        if (end != CLIENT_OK)
            return end;
    }
}

struct bytes client_data(const struct client *client)
{
    return client->data ? bytes_at(client->data + client->start, client->len) : bytes_of("");
}

void client_take(struct client *client, size_t len)
{
    CHECK(len <= client->len);
    client->start += len;
    client->len -= len;
    if (client->len == 0)
        client->start = 0;
}

bool client_has_pending(const struct client *client)
{
    return client->len > 0 || (client->ssl && SSL_pending(client->ssl) > 0);
}

void client_finish(struct client *client)
{
    int64_t deadline = clock_mono_ns() + FINISH_NS;
    client->interrupt = -1;
    if (client->fd >= 0) {
        if (client->ssl)
            (void)SSL_shutdown(client->ssl);
        shutdown(client->fd, SHUT_WR);
        while (client_fill(client, deadline) == CLIENT_OK)
            client_take(client, client->len);
    }
    client_close(client);
}
