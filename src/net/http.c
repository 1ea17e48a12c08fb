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
 * A pending answer (http_pend) has a tag, which the letter with the answer names: its place, and a
 * serial number that is used once. Letters go through a box that lives as long as the server and
 * every pending answer. The box's lock covers only its list and the flag that it is open.
 *
 * evhttp aborts the process when bytes arrive while a handler's answer is missing. So a connection
 * is not read while HANDLING; poll shows whether its client has gone.
 */
#include "net/http.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/number.h"
#include "net/http_memory.h"
#include "net/thread.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LISTENERS_MAX 64

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

enum phase { READING, HANDLING, WRITING };

/* The letters to one server, from any thread. */
struct box {
    pthread_mutex_t lock; /* protects the rest; no other lock is taken under it */
    unsigned users;       /* the server and each pending answer */
    bool open;            /* the server's thread runs */
    int bell_fd;          /* the server's, while it is open */
    struct mail_list letters;
};

struct http_pending {
    struct box *box;
    uint64_t tag;
};

/* A connection and its present request. */
struct http_request {
    struct http *http;
    struct bufferevent *bev; /* NULL: this place is free */
    enum phase phase;
    bool refused;               /* evhttp has refused a request: the connection ends with that */
    int64_t since_ns;           /* start of the phase */
    struct evhttp_request *req; /* only while HANDLING */
    char peer[80];

    /* Only when it is answered in steps. */
    void (*step)(void *job, struct http_request *request);
    void (*end)(void *job);
    void *job;

    /* When it is answered by letter: its tag, and until when. 0: it is not. */
    uint64_t tag;
    int64_t until_ns;
};

struct http {
    struct http_config config;
    struct event_base *base;
    struct evhttp *server;
    struct event *bell, *seconds, *retry;
    int bell_fd;
    struct thread thread;
    _Atomic bool stopping; /* the thread must sleep */
    bool ending;           /* the thread goes to sleep: no new request is handled. The thread's */
    bool second_over; /* a second has passed since pending answers were checked. The thread's */
    bool paused;      /* not accepting: all places are taken, or no descriptors are free */
    bool starved;     /* descriptors or memory ran out; false again at the next retry */

    struct evconnlistener *doors[LISTENERS_MAX];
    size_t door_count;

    uint64_t met[HTTP_LIMITS];
    unsigned handling;                 /* requests that are being answered in steps */
    unsigned pending;                  /* requests that a letter answers */
    uint64_t serial;                   /* of the last tag */
    struct http_request *delivered_to; /* the request that the present letter answers, or NULL */
    struct box *box;
    struct http_request clients[HTTP_CONNECTIONS_MAX];
};

/* The server of this thread; evhttp gives its own argument to a listener's error callback. */
static _Thread_local struct http *here;

/* ---- accepting ----------------------------------------------------------------------------- */

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

/* ---- closing ------------------------------------------------------------------------------- */

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

/* The answer is no longer pending. */
static void end_pending(struct http_request *client)
{
    if (client->tag == 0)
        return;
    client->tag = 0;
    client->http->pending--;
}

/* Makes evhttp close a connection that is too slow or has got its last answer. */
static void give_up(struct http_request *client)
{
    bufferevent_trigger_event(client->bev, BEV_EVENT_READING | BEV_EVENT_TIMEOUT, 0);
    CHECK(has_ended(client));
    bury(client);
}

/* True when the client has closed at least its sending side while its request is handled. */
static bool has_left(const struct http_request *client)
{
    struct pollfd p = {.fd = bufferevent_getfd(client->bev), .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0;
}

static void drop(struct http_request *client)
{
    struct evhttp_connection *evcon = evhttp_request_get_connection(client->req);
    end_job(client);
    end_pending(client);
    evhttp_connection_free(evcon);
    bury(client);
}

/* ---- a full house --------------------------------------------------------------------------- */

/* True when a client waits to be accepted. */
static bool somebody_waits(const struct http *http)
{
    struct pollfd doors[LISTENERS_MAX];
    for (size_t i = 0; i < http->door_count; i++)
        doors[i] = (struct pollfd){.fd = evconnlistener_get_fd(http->doors[i]), .events = POLLIN};
    return poll(doors, http->door_count, 0) > 0;
}

/* True when a client waits until a connection ends. */
static bool is_crowded(struct http *http)
{
    return http->paused && !free_place(http) && somebody_waits(http);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Called when the kernel has the whole answer. */
static void on_sent(struct evhttp_request *req, void *arg)
{
    (void)req;
    struct http_request *client = arg;
    client->phase = READING;
    client->since_ns = clock_mono_ns();
}

static void set_default(struct evkeyvalq *headers, const char *name, const char *value)
{
    if (!evhttp_find_header(headers, name))
        evhttp_add_header(headers, name, value);
}

/* Sends the answer and frees `body`; NULL: there was no memory for it. */
static void send_body(struct http_request *client, int status, const char *type,
                      struct evbuffer *body)
{
    struct evhttp_request *req = client->req;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
    CHECK(client->phase == HANDLING);
    end_pending(client);
    client->phase = WRITING;
    client->since_ns = clock_mono_ns();
    client->req = NULL;
    char len[24];
    snprintf(len, sizeof(len), "%zu", body ? evbuffer_get_length(body) : 0);
    if (status != 304) {
        set_default(headers, "Content-Type", type);
        set_default(headers, "Content-Length", len);
    }
    set_default(headers, "Cache-Control", "no-store");
    set_default(headers, "X-Content-Type-Options", "nosniff");
    bool makes_place = is_crowded(client->http);
    client->http->met[HTTP_LIMIT_CROWDED] += makes_place;
    if (!body || makes_place)
        set_default(headers, "Connection", "close");
    if (body && (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD || status == 304))
        evbuffer_drain(body, evbuffer_get_length(body));
    evhttp_request_set_on_complete_cb(req, on_sent, client);
    /* evhttp's time limit counts from the cached time: the handler may have taken longer. */
    (void)event_base_update_cache_time(client->http->base);
    evhttp_send_reply(req, status, NULL, body);
    if (body)
        evbuffer_free(body);
}

static void free_body(const void *data, size_t len, void *arg)
{
    (void)data;
    (void)len;
    free(arg);
}

void http_answer(struct http_request *request, int status, const char *type, char *body, size_t len)
{
    static const char no_memory[] = "{\"error\":{\"status\":503,\"reason\":\"no memory\"}}\n";
    if (!body) {
        http_answer_static(request, 503, "application/json", no_memory, sizeof(no_memory) - 1);
        return;
    }
    struct evbuffer *buffer = evbuffer_new();
    if (buffer && len > 0 && evbuffer_add_reference(buffer, body, len, free_body, body) != 0) {
        evbuffer_free(buffer);
        buffer = NULL;
    }
    if (!buffer || len == 0)
        free(body);
    send_body(request, buffer ? status : 503, type, buffer);
}

void http_answer_static(struct http_request *request, int status, const char *type,
                        const void *body, size_t len)
{
    struct evbuffer *buffer = evbuffer_new();
    if (buffer && len > 0 && evbuffer_add_reference(buffer, body, len, NULL, NULL) != 0) {
        evbuffer_free(buffer);
        buffer = NULL;
    }
    send_body(request, buffer ? status : 503, type, buffer);
}

void http_answer_json(struct http_request *request, int status, struct json_text *json)
{
    size_t len;
    text_add(&json->text, "}\n", 2);
    char *body = text_take(&json->text, &len);
    http_answer(request, status, "application/json", body, len);
}

/* The largest body of an error: each byte of the reason may need five. */
#define ERROR_SIZE (HTTP_REASON_SIZE * 5 + 64)

/* Writes the body of an error and returns its length. */
static size_t write_error(char *to, int status, const char *reason)
{
    size_t len = (size_t)snprintf(to, 64, "{\"error\":{\"status\":%d,\"reason\":\"", status);
    for (const char *p = reason; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            len += (size_t)sprintf(to + len, "\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            len += (size_t)sprintf(to + len, "\\\\x%02x", c);
        else
            to[len++] = (char)c;
    }
    return len + (size_t)sprintf(to + len, "\"}}\n");
}

void http_error(struct http_request *request, int status, const char *format, ...)
{
    char reason[HTTP_REASON_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    char *body = malloc(ERROR_SIZE);
    size_t len = body ? write_error(body, status, reason) : 0;
    http_answer(request, status, "application/json", body, len);
}

/* The reason for a request that evhttp itself has refused. */
static const char *refusal(int status)
{
    switch (status) {
    case 413:
        return "the request is too large: at most 8192 bytes of headers and 4096 of body";
    case 417:
        return "the only Expect header supported is \"Expect: 100-continue\"";
    case 501:
        return "unknown method: use GET, HEAD or POST";
    default:
        return "not an HTTP request, or more than 8192 bytes of headers";
    }
}

/* Replaces an error page that evhttp has put into the output. */
static void exchange_error_page(struct http_request *client)
{
    struct evbuffer *output = bufferevent_get_output(client->bev);
    char line[48] = {0}; /* "HTTP/1.1 400 ", or another version that the client sent */
    /* After the first answer evhttp freezes the start of the buffer, so that only the socket takes
     * from it. */
    evbuffer_unfreeze(output, 1);
    ev_ssize_t copied = evbuffer_copyout(output, line, sizeof(line) - 1);
    evbuffer_freeze(output, 1);
    const char *blank = strchr(line, ' ');
    if (copied <= 0 || strncmp(line, "HTTP/", 5) != 0 || !blank)
        return;
    struct bytes in = bytes_of(blank + 1);
    uint64_t code;
    if (!number_take(&in, 999, &code) || code < 400)
        return;
    int status = (int)code;
    client->phase = WRITING;
    client->refused = true;
    client->since_ns = clock_mono_ns();
    char body[ERROR_SIZE];
    size_t len = write_error(body, status, refusal(status));
    const char *phrase = status == 413   ? "Request Entity Too Large"
                         : status == 417 ? "Expectation Failed"
                         : status == 501 ? "Not Implemented"
                                         : "Bad Request";
    evbuffer_unfreeze(output, 1);
    evbuffer_drain(output, evbuffer_get_length(output));
    evbuffer_freeze(output, 1);
    evbuffer_add_printf(output,
                        "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\nCache-Control: no-store\r\n"
                        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                        status, phrase, len);
    evbuffer_add(output, body, len);
}

/*
 * True when a refused client has got its last answer and the connection is still open. That happens
 * after CONNECT: evhttp does not close the connection, but parses the following bytes as requests.
 * Its error page for those may already be in the output.
 */
static bool is_told_its_last(const struct http_request *client)
{
    struct evbuffer *output = bufferevent_get_output(client->bev);
    char begin[128] = {0};
    if (!client->refused || client->phase == HANDLING)
        return false;
    evbuffer_unfreeze(output, 1);
    ev_ssize_t copied = evbuffer_copyout(output, begin, sizeof(begin) - 1);
    evbuffer_freeze(output, 1);
    return copied <= 0 ||
           (strncmp(begin, "HTTP/", 5) == 0 && strstr(begin, "\r\nContent-Type: text/html\r\n"));
}

/* ---- requests ------------------------------------------------------------------------------ */

enum http_method http_method(const struct http_request *request)
{
    switch (evhttp_request_get_command(request->req)) {
    case EVHTTP_REQ_GET:
        return HTTP_GET;
    case EVHTTP_REQ_HEAD:
        return HTTP_HEAD;
    case EVHTTP_REQ_POST:
        return HTTP_POST;
    default:
        return HTTP_OTHER;
    }
}

const char *http_path(const struct http_request *request)
{
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request->req));
    return path ? path : "";
}

const char *http_query(const struct http_request *request)
{
    return evhttp_uri_get_query(evhttp_request_get_evhttp_uri(request->req));
}

const char *http_asked(const struct http_request *request, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(request->req), name);
}

bool http_is_local(const struct http_request *request)
{
    struct sockaddr sa = {0};
    socklen_t len = sizeof(sa);
    return getsockname(bufferevent_getfd(request->bev), &sa, &len) == 0 && sa.sa_family == AF_UNIX;
}

const char *http_peer(struct http_request *request)
{
    char *address;
    uint16_t port;
    evhttp_connection_get_peer(evhttp_request_get_connection(request->req), &address, &port);
    snprintf(request->peer, sizeof(request->peer), strchr(address, ':') ? "[%s]:%u" : "%s:%u",
             address, port);
    return request->peer;
}

void http_set_header(struct http_request *request, const char *name, const char *value)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(request->req);
    evhttp_remove_header(headers, name);
    evhttp_add_header(headers, name, value);
}

void http_later(struct http_request *request, void (*step)(void *job, struct http_request *request),
                void (*end)(void *job), void *job)
{
    CHECK(request->phase == HANDLING && !request->step);
    request->step = step;
    request->end = end;
    request->job = job;
    request->http->handling++;
}

/* ---- answers by letter --------------------------------------------------------------------- */

static struct box *box_new(int bell_fd)
{
    struct box *box = calloc(1, sizeof(*box));
    if (!box)
        return NULL;
    CHECK(pthread_mutex_init(&box->lock, NULL) == 0);
    mail_list_init(&box->letters);
    box->users = 1;
    box->bell_fd = bell_fd;
    return box;
}

static void box_lock(struct box *box)
{
    CHECK(pthread_mutex_lock(&box->lock) == 0);
}

static void box_unlock(struct box *box)
{
    CHECK(pthread_mutex_unlock(&box->lock) == 0);
}

/* Removes one user; the last one frees the box. */
static void box_leave(struct box *box)
{
    box_lock(box);
    bool last = --box->users == 0;
    box_unlock(box);
    if (!last)
        return;
    CHECK(pthread_mutex_destroy(&box->lock) == 0);
    free(box);
}

static void box_set_open(struct box *box, bool open)
{
    box_lock(box);
    box->open = open;
    box_unlock(box);
}

/* True: the request is answered, or has steps or a pending answer. */
static bool has_answer(const struct http_request *client)
{
    return client->phase != HANDLING || client->step || client->tag != 0;
}

static void deliver_letters(struct http *http)
{
    struct mail_list letters;
    struct mail *mail;
    mail_list_init(&letters);
    box_lock(http->box);
    while ((mail = mail_list_take(&http->box->letters)) != NULL)
        mail_list_add(&letters, mail);
    box_unlock(http->box);
    while ((mail = mail_list_take(&letters)) != NULL) {
        http->delivered_to = NULL;
        mail->deliver(mail, http);
        CHECK(!http->delivered_to || has_answer(http->delivered_to));
    }
}

static void refuse_at_end(struct http_request *request)
{
    http_error(request, 503, "the server ends or is being upgraded: ask again");
}

struct http_pending *http_pend(struct http_request *request, int64_t limit_ns)
{
    struct http *http = request->http;
    CHECK(request->phase == HANDLING && !request->step && request->tag == 0);
    CHECK(limit_ns >= NS_PER_S);
    if (http->ending) {
        refuse_at_end(request);
        return NULL;
    }
    if (http->pending == HTTP_PENDING_MAX) {
        http_error(request, 503, "%d requests wait for an answer already: ask again later",
                   HTTP_PENDING_MAX);
        http->met[HTTP_LIMIT_PENDING]++;
        return NULL;
    }
    struct http_pending *pending = malloc(sizeof(*pending));
    if (!pending) {
        http_answer(request, 503, "application/json", NULL, 0);
        return NULL;
    }
    request->tag = ++http->serial * HTTP_CONNECTIONS_MAX + (uint64_t)(request - http->clients);
    request->until_ns = clock_mono_ns() + limit_ns;
    http->pending++;
    *pending = (struct http_pending){.box = http->box, .tag = request->tag};
    box_lock(http->box);
    http->box->users++;
    box_unlock(http->box);
    return pending;
}

bool http_post(struct http_pending **pending, struct letter *letter)
{
    struct box *box = (*pending)->box;
    letter->to = (*pending)->tag;
    free(*pending);
    *pending = NULL;
    box_lock(box);
    bool open = box->open;
    if (open) {
        uint64_t one = 1;
        bool first = !box->letters.first;
        mail_list_add(&box->letters, &letter->mail);
        CHECK(!first || write(box->bell_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
    }
    box_unlock(box);
    box_leave(box);
    return open;
}

struct http_request *http_by_tag(struct http *http, uint64_t tag)
{
    struct http_request *client = &http->clients[tag % HTTP_CONNECTIONS_MAX];
    if (client->tag != tag)
        return NULL;
    if (has_left(client)) {
        drop(client);
        return NULL;
    }
    end_pending(client);
    http->delivered_to = client;
    return client;
}

/* Drops requests of clients that have gone, and answers those whose time limit has passed. */
static void look_at_pending(struct http *http)
{
    int64_t now_ns = clock_mono_ns();
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX && http->pending > 0; i++) {
        struct http_request *client = &http->clients[i];
        if (client->tag == 0)
            continue;
        if (has_left(client)) {
            drop(client);
        } else if (now_ns >= client->until_ns) {
            http_error(client, 504, "no answer came in time: ask again later");
            http->met[HTTP_LIMIT_ANSWER]++;
        }
    }
}

/* The thread ends: delivers the letters that have come, and refuses the other pending requests. */
static void refuse_pending(struct http *http)
{
    http->ending = true;
    box_set_open(http->box, false);
    bool any = http->pending > 0;
    deliver_letters(http);
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX && http->pending > 0; i++) {
        if (http->clients[i].tag != 0)
            refuse_at_end(&http->clients[i]);
    }
    if (any)
        event_base_loop(http->base, EVLOOP_ONCE | EVLOOP_NONBLOCK); /* writes these answers */
    http->ending = false;
}

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
        refuse_at_end(client); /* a handler might wait for the thread that waits for this one */
    else
        http->config.handle(http->config.arg, client);
    CHECK(has_answer(client));
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void take_steps(struct http *http)
{
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX && http->handling > 0; i++) {
        struct http_request *client = &http->clients[i];
        if (!client->step)
            continue;
        if (has_left(client)) {
            drop(client);
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
            exchange_error_page(client);
        if (is_late(client, now_ns))
            http->met[HTTP_LIMIT_LATE]++;
        else if (!is_told_its_last(client))
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
    deliver_letters(http);
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
            look_at_pending(http);
        http->second_over = false;
    }
    refuse_pending(http);
}

/* ---- life ---------------------------------------------------------------------------------- */

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
    http->box = http->bell_fd < 0 ? NULL : box_new(http->bell_fd);
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
    CHECK(http->config.listener_count <= LISTENERS_MAX);
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
    return thread_make(&http->thread, http->config.name, http->config.confine, &thread_serves, run,
                       http);
}

void http_resume(struct http *http)
{
    box_set_open(http->box, true);
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
    *http = NULL;
    http_pause(h);
    thread_end(&h->thread);
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
        box_leave(h->box);
    if (h->bell_fd >= 0)
        close(h->bell_fd);
    free(h);
}
