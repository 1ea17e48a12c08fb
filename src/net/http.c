/*
 * http.c - the HTTP server on libevent's evhttp (see http.h).
 *
 * evhttp owns a connection from accept on, and does not report when it closes one. So we hold an
 * extra reference to each connection's bufferevent, which evhttp gets from new_bufferevent. When
 * evhttp closes the connection it removes its callbacks, and we close the socket. After each
 * iteration of the loop we check all connections (64 at most). Those that evhttp has closed are
 * buried. Slow ones get a timeout event, on which evhttp closes them. If evhttp has put an HTML
 * error page into the output, it is replaced by JSON; the page is not sent before the next
 * iteration, so there is time for that.
 *
 * A connection is in one of three phases:
 *
 *     READING -> HANDLING (on_request) -> WRITING (send_body) -> READING (on_sent)
 *
 * evhttp aborts the process when bytes arrive while a handler's answer is missing. So a connection
 * is not read while HANDLING; poll shows whether its client has gone.
 */
#include "base/lock.h"
#include "base/log.h"
#include "net/http_internal.h"
#include "net/http_memory.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* How often a server that has paused tries to accept again. */
static const struct timeval retry_interval = {.tv_usec = 100000L};
static const struct timeval second = {.tv_sec = 1};

/*
 * The kernel's send buffer of a connection; the rest of an answer waits in this process. The
 * kernel's memory for sockets is limited, and slow HTTP clients must not use up what the workers
 * need.
 */
#define SEND_BUFFER (64 * 1024)

/* Maximum number of bytes that are discarded before a connection is closed: see bury. */
#define DRAIN_MAX ((size_t)64 * 1024)

/* The server of this thread; evhttp gives its own argument to a listener's error callback. */
static _Thread_local struct http *here;

/* ---- accepting ------------------------------------------------------------------------------- */

static void set_paused(struct http *http, bool paused)
{
    if (http->paused == paused)
        return;
    http->paused = paused;
    for (size_t i = 0; i < http->door_count; i++) {
        if (paused)
            evconnlistener_disable(http->doors[i]);
        else
            evconnlistener_enable(http->doors[i]);
    }
    if (paused)
        event_add(http->retry, &retry_interval);
}

static struct http_request *free_place(struct http *http)
{
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        if (!http->clients[i].bev)
            return &http->clients[i];
    }
    return NULL;
}

/* Called by evhttp when it has accepted a connection. Returns NULL when there is no memory. */
static struct bufferevent *new_bufferevent(struct event_base *base, void *arg)
{
    struct http *http = arg;
    struct http_request *client = free_place(http);
    CHECK(client); /* without a free place the server does not accept */
    struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!bev)
        return NULL;
    bufferevent_incref(bev);
    bufferevent_setwatermark(bev, EV_READ, 0, HTTP_INPUT_MAX);
    *client = (struct http_request){.http = http, .bev = bev, .since_ns = clock_mono_ns()};
    http->starved = http->starved || http_memory_is_short();
    if (!free_place(http) || http->starved)
        set_paused(http, true);
    return bev;
}

static void on_accept_error(struct evconnlistener *door, void *arg)
{
    (void)door;
    (void)arg;
    static struct log_limit limit;
    log_warning_limited(&limit, "%s: can't accept a connection: %s", here->config.name,
                        strerrordesc_np(errno));
    here->starved = true;
    set_paused(here, true);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct http *http = arg;
    http->starved = false;
    if (http->paused)
        event_add(http->retry, &retry_interval); /* look_at_clients decides */
}

const char *http_limit_word(enum http_limit limit)
{
    static const char *const words[] = {"late", "crowded", "pending", "answer"};
    _Static_assert(ARRAY_SIZE(words) == HTTP_LIMITS, "a word each");
    return words[limit];
}

uint64_t http_met(const struct http *http, enum http_limit limit)
{
    return http->met[limit];
}

unsigned http_connections(const struct http *http)
{
    unsigned count = 0;
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        count += http->clients[i].bev != NULL;
    return count;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* True when evhttp has closed the connection. */
static bool has_ended(const struct http_request *client)
{
    bufferevent_event_cb on_event;
    bufferevent_getcb(client->bev, NULL, NULL, &on_event, NULL);
    return !on_event;
}

/* Frees the place of a closed connection, and closes its socket. */
static void bury(struct http_request *client)
{
    int fd = bufferevent_getfd(client->bev);
    if (fd < 0) {
        bufferevent_free(client->bev); /* evhttp had no memory to take it */
    } else {
        /*
         * Closing with unread bytes would reset the connection before the client reads its answer.
         */
        char bytes[4096];
        for (size_t drained = 0; drained < DRAIN_MAX; drained += sizeof(bytes)) {
            if (recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) <= 0)
                break;
        }
    }
    bufferevent_decref(client->bev);
    *client = (struct http_request){0};
}

/* Ends the job of a request that is answered in steps. */
static void end_job(struct http_request *client)
{
    if (!client->step)
        return;
    client->step = NULL;
    client->http->handling--;
    client->end(client->job);
}

/* Makes evhttp close a connection that is too slow or has got its last answer. */
static void give_up(struct http_request *client)
{
    bufferevent_trigger_event(client->bev, BEV_EVENT_READING | BEV_EVENT_TIMEOUT, 0);
    CHECK(has_ended(client));
    bury(client);
}

bool http_has_left(const struct http_request *client)
{
    struct pollfd p = {.fd = bufferevent_getfd(client->bev), .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

void http_drop(struct http_request *client)
{
    struct evhttp_connection *evcon = evhttp_request_get_connection(client->req);
    end_job(client);
    http_end_pending(client);
    evhttp_connection_free(evcon);
    bury(client);
}

/* ---- a full house ---------------------------------------------------------------------------- */

/* True when a client waits to be accepted. */
static bool somebody_waits(const struct http *http)
{
    struct pollfd doors[HTTP_LISTENERS_MAX];
    for (size_t i = 0; i < http->door_count; i++)
        doors[i] = (struct pollfd){.fd = evconnlistener_get_fd(http->doors[i]), .events = POLLIN};
    return poll(doors, http->door_count, 0) > 0;
}

bool http_is_crowded(struct http *http)
{
    return http->paused && !free_place(http) && somebody_waits(http);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Called when evhttp has read a request. */
static void on_request(struct evhttp_request *req, void *arg)
{
    struct http *http = arg;
    struct bufferevent *bev = evhttp_connection_get_bufferevent(evhttp_request_get_connection(req));
    struct http_request *client = http->clients;
    while (client < http->clients + HTTP_CONNECTIONS_MAX && client->bev != bev)
        client++;
    if (client == http->clients + HTTP_CONNECTIONS_MAX) {
        evhttp_send_error(req, 503, NULL); /* new_bufferevent had no memory */
        return;
    }
    bufferevent_disable(bev, EV_READ);
    client->req = req;
    client->phase = HANDLING;
    client->since_ns = clock_mono_ns();
    if (http->ending)
        http_refuse_at_end(
            client); /* a handler might wait for the thread that waits for this one */
    else
        http->config.handle(http->config.arg, client);
    CHECK(http_has_answer(client));
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void take_steps(struct http *http)
{
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX && http->handling > 0; i++) {
        struct http_request *client = &http->clients[i];
        if (!client->step)
            continue;
        if (http_has_left(client)) {
            http_drop(client);
            continue;
        }
        client->step(client->job, client);
        lock_give_way();
        if (client->phase != HANDLING)
            end_job(client);
    }
}

/* True when the client has sent bytes that we have not read: then the server is slow, not the
 * client. */
static bool has_sent(const struct http_request *client)
{
    int bytes = 0;
    return client->phase == READING &&
           ioctl(bufferevent_getfd(client->bev), FIONREAD, &bytes) == 0 && bytes > 0;
}

/*
 * The client that has been idle longest while all places are taken; NULL when none may be closed.
 */
static struct http_request *slowest(struct http *http, int64_t now_ns)
{
    struct http_request *oldest = NULL;
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        struct http_request *client = &http->clients[i];
        if (client->phase != HANDLING && now_ns - client->since_ns >= HTTP_CROWDED_NS &&
            (!oldest || client->since_ns < oldest->since_ns) && !has_sent(client))
            oldest = client;
    }
    return oldest;
}

static bool is_late(const struct http_request *client, int64_t now_ns)
{
    return client->phase != HANDLING && now_ns - client->since_ns >= HTTP_PATIENCE_NS;
}

/* Checks all connections between two iterations of the loop. */
static void look_at_clients(struct http *http)
{
    int64_t now_ns = clock_mono_ns();
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        struct http_request *client = &http->clients[i];
        if (!client->bev)
            continue;
        if (has_ended(client)) {
            http->met[HTTP_LIMIT_LATE] +=
                is_late(client, now_ns); /* evhttp looks at the time, too */
            bury(client);
            continue;
        }
        if (client->phase == READING)
            http_exchange_error_page(client);
        if (is_late(client, now_ns))
            http->met[HTTP_LIMIT_LATE]++;
        else if (!http_is_told_its_last(client))
            continue;
        give_up(client);
    }
    if (!http->paused || http->starved)
        return;
    if (!free_place(http)) {
        struct http_request *client = somebody_waits(http) ? slowest(http, now_ns) : NULL;
        if (!client)
            return;
        http->met[HTTP_LIMIT_CROWDED]++;
        give_up(client);
    }
    set_paused(http, false);
}

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct http *http = arg;
    uint64_t rings;
    CHECK(read(fd, &rings, sizeof(rings)) == (ssize_t)sizeof(rings));
    http_deliver_messages(http);
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct http *http = arg;
    http->second_over = true;
    if (http->config.every_second)
        http->config.every_second(http->config.arg);
}

static void run(void *arg)
{
    struct http *http = arg;
    here = http;
    while (!atomic_load(&http->stopping)) {
        event_base_loop(http->base, http->handling ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE);
        take_steps(http);
        look_at_clients(http);
        if (http->second_over)
            http_look_at_pending(http);
        http->second_over = false;
    }
    http_refuse_pending(http);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Logs a message of libevent; clients can cause some of them. */
static void log_event(int severity, const char *text)
{
    static struct log_limit limit;
    if (severity >= EVENT_LOG_ERR)
        log_error("libevent: %s", text);
    else if (severity == EVENT_LOG_WARN)
        log_warning_limited(&limit, "libevent: %s", text);
    else
        log_debug("libevent: %s", text);
}

static bool make_server(struct http *http)
{
    struct event_config *config = event_config_new();
    if (!config)
        return false;
    if (event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0)
        http->base = event_base_new_with_config(config);
    event_config_free(config);
    http->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    http->box = http->bell_fd < 0 ? NULL : http_box_new(http->bell_fd);
    if (!http->base || !http->box)
        return false;
    http->server = evhttp_new(http->base);
    http->bell = event_new(http->base, http->bell_fd, EV_READ | EV_PERSIST, on_bell, http);
    http->seconds = event_new(http->base, -1, EV_PERSIST, on_second, http);
    http->retry = event_new(http->base, -1, 0, on_retry, http);
    if (!http->server || !http->bell || !http->seconds || !http->retry ||
        event_add(http->bell, NULL) != 0 || event_add(http->seconds, &second) != 0)
        return false;
    evhttp_set_max_headers_size(http->server, HTTP_HEADERS_MAX);
    evhttp_set_max_body_size(http->server, HTTP_BODY_MAX);
    evhttp_set_timeout(http->server, (int)(HTTP_PATIENCE_NS / NS_PER_S));
    evhttp_set_allowed_methods(http->server, (1 << 9) - 1); /* all; handlers answer 405 */
    evhttp_set_gencb(http->server, on_request, http);
    evhttp_set_bevcb(http->server, new_bufferevent, http);
    return true;
}

/* Makes evhttp accept on each listener. Returns false when there is no memory. */
static bool open_doors(struct http *http)
{
    int size = SEND_BUFFER; /* accepted sockets inherit it */
    CHECK(http->config.listener_count <= HTTP_LISTENERS_MAX);
    for (size_t i = 0; i < http->config.listener_count; i++) {
        int fd = http->config.listeners[i].fd;
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        struct evconnlistener *door =
            evconnlistener_new(http->base, NULL, NULL, LEV_OPT_CLOSE_ON_EXEC, 0, fd);
        if (!door)
            return false;
        evconnlistener_set_error_cb(door, on_accept_error);
        if (!evhttp_bind_listener(http->server, door)) {
            evconnlistener_free(door);
            return false;
        }
        http->doors[http->door_count++] = door;
    }
    return true;
}

struct http *http_new(const struct http_config *config, char *reason_r)
{
    event_set_mem_functions(http_memory_take, http_memory_resize, http_memory_give);
    event_set_log_callback(log_event); /* otherwise libevent prints everything */
    struct http *http = calloc(1, sizeof(*http));
    snprintf(reason_r, HTTP_REASON_SIZE, "no memory or descriptors for a server: %s",
             strerrordesc_np(errno));
    if (http) {
        http->config = *config;
        http->bell_fd = -1;
        if (make_server(http) && open_doors(http))
            return http;
    }
    http_free(&http);
    return NULL;
}

bool http_prepare(struct http *http)
{
    CHECK(!http->thread.exists);
    return thread_make(&http->thread, http->config.name, http->config.sandbox, &thread_serves, run,
                       http);
}

void http_resume(struct http *http)
{
    http_box_set_open(http->box, true);
    thread_resume(&http->thread);
}

void http_pause(struct http *http)
{
    uint64_t one = 1;
    if (!http->thread.runs)
        return;
    atomic_store(&http->stopping, true);
    CHECK(write(http->bell_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    thread_rest(&http->thread);
    atomic_store(&http->stopping, false);
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

void http_free(struct http **http)
{
    struct http *h = *http;
    if (!h)
        return;
    http_pause(h);
    thread_end(&h->thread);
    *http = NULL; /* not before: the thread reads it */
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        end_job(&h->clients[i]);
    if (h->server)
        evhttp_free(h->server); /* closes connections */
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        if (h->clients[i].bev)
            bury(&h->clients[i]);
    }
    free_event(h->bell);
    free_event(h->seconds);
    free_event(h->retry);
    if (h->base)
        event_base_free(h->base);
    if (h->box)
        http_box_leave(h->box);
    if (h->bell_fd >= 0)
        close(h->bell_fd);
    free(h);
}
