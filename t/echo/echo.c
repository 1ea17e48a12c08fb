/*
 * echo.c - a protocol to learn from. A client gets its lines back, and after every eighth an event.
 * The resource's thread (on_upstream to on_line) writes lines to a file and says hello over TLS.
 */
#include "base/log.h"
#include "base/option.h"
#include "net/dial.h"
#include "service/monitor.h"
#include "service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_ROOM 512u /* bytes; a longer line counts as several */

struct echo_settings {
    char *folder;           /* of the files "lines" and "ca.pem" */
    uint16_t upstream_port; /* on this machine; 0: there is no upstream */
};

/* A line on its way: to the resource's thread, and back to its connection. */
struct line {
    struct message message;
    uint32_t number; /* of the pending answer */
    uint32_t len;
    char text[];
};

struct echo {
    struct resource resource; /* first */
    const struct echo_settings *settings;
    const char *writes[2];
    tally lines;        /* written */
    struct timer timer; /* this and what follows is the thread's */
    struct mail_list waiting;
    int file; /* -1: could not be opened */
    struct dial *dial;
    struct stream upstream;
    struct loop_io io;
};

/* In the thread of a connection's worker: these functions, up to on_restore. */
static enum parsed on_parse(struct conn *conn, const uint8_t *data, size_t len, void *request,
                            size_t *used_r)
{
    (void)conn;
    const uint8_t *end = memchr(data, '\n', len < LINE_ROOM ? len : LINE_ROOM);
    *used_r = end ? (size_t)(end - data) + 1 : len < LINE_ROOM ? 0 : LINE_ROOM;
    *(struct bytes *)request = bytes_at(data, *used_r);
    return *used_r ? PARSED : PARSED_MORE;
}

static void say_event(struct conn *conn)
{
    char text[48];
    unsigned long long lines = service_answered(service_of(conn));
    int len = snprintf(text, sizeof(text), "event %llu lines\n", lines);
    if (!conn_interject(conn, text, (size_t)len, LINE_ROOM))
        log_debug("echo: a client does not read"); /* when it does, this is called again */
}

static void on_written(struct mail *mail, void *worker)
{
    struct line *line = container_of(mail, struct line, message.mail);
    struct conn *conn = conn_by_tag(worker, line->message.to); /* NULL: it has gone */
    if (conn) {
        conn_answer(conn, line->number);
        conn_reply(conn, line->text, line->len);
        service_count(conn, 0, 0);
        if (service_answered(service_of(conn)) % 8 == 0)
            say_event(conn);
        conn_answered(conn);
    }
    free(line);
}

static void on_line(struct mail *mail, void *reactor);

static enum served on_serve(struct conn *conn, const void *request)
{
    const struct bytes *text = request;
    struct line *line = malloc(sizeof(*line) + text->len);
    if (!line || !conn_pend(conn, &line->number)) {
        free(line);
        conn_close(conn, CLOSE_MEMORY);
        return SERVED_LAST;
    }
    line->message = (struct message){.mail.deliver = on_line, .to = conn_tag(conn)};
    line->len = (uint32_t)text->len;
    memcpy(line->text, text->data, text->len);
    reactor_post(&services_resource(service_of(conn)->services, "echo")->thread,
                 &line->message.mail);
    return SERVED_PENDING_NEXT;
}

/* A connection has no state of its own, and when it is saved, `pause` has had all lines answered.
 */
static void on_open_or_close(struct conn *conn)
{
    (void)conn;
}

static void on_save(struct conn *conn, struct record_writer *w)
{
    (void)w;
    CHECK(conn_pending(conn) == 0);
}

static bool on_restore(struct conn *conn, struct record_reader *r)
{
    (void)r;
    return conn_pending(conn) == 0;
}

static void on_upstream(struct loop_io *io, unsigned what)
{
    (void)what;
    struct echo *e = container_of(io, struct echo, io);
    char text[64];
    ssize_t n = stream_read(&e->upstream, text, sizeof(text));
    if (n == STREAM_AGAIN)
        return;
    log_info("echo: the upstream says: %.*s", n > 0 ? (int)n : 0, text);
    loop_io_remove(e->resource.thread.loop, io);
    stream_close(&e->upstream);
}

static void on_dialed(void *arg, struct stream *stream, const char *reason)
{
    struct echo *e = arg;
    struct iovec hello = {.iov_base = (char[]){"hello\n"}, .iov_len = 6};
    e->dial = NULL;
    if (stream)
        e->upstream = *stream;
    if (!stream || stream_write(&e->upstream, &hello, 1) < 0 ||
        !loop_io_add(e->resource.thread.loop, &e->io, e->upstream.fd, LOOP_READ, on_upstream))
        log_error("echo: upstream: %s", stream ? "it takes no hello" : reason);
}

/* In the resource's thread. */
static void write_all(struct reactor *thread, void *arg)
{
    struct echo *e = arg;
    (void)thread;
    for (struct mail *mail; (mail = mail_list_take(&e->waiting));) {
        struct line *line = container_of(mail, struct line, message.mail);
        if (write(e->file, line->text, line->len) > 0)
            tally_add(&e->lines, 1);
        line->message.mail.deliver = on_written;
        conn_post(e->resource.services->server, &line->message);
    }
}

static int64_t on_time(struct timer *timer, struct moment now)
{
    struct echo *e = container_of(timer, struct echo, timer);
    (void)now;
    write_all(&e->resource.thread, e);
    return DEADLINE_NONE;
}

static int64_t on_started(struct timer *timer, struct moment now)
{
    struct echo *e = container_of(timer, struct echo, timer);
    struct dial_target to = {.host = "127.0.0.1", .port = e->settings->upstream_port};
    char path[512], reason[TLS_REASON_SIZE] = "no memory";
    snprintf(path, sizeof(path), "%s/lines", e->settings->folder);
    e->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (e->file < 0)
        log_error("echo: %s: %s", path, strerrordesc_np(errno));
    snprintf(path, sizeof(path), "%s/ca.pem", e->settings->folder);
    to.transport = TRANSPORT_TLS;
    to.tls = to.port ? tls_client_new(&(struct tls_client_config){.ca = path}, NULL, reason) : NULL;
    if (to.tls)
        e->dial = dial_start(&e->resource.thread, &to, 5 * NS_PER_S, on_dialed, e);
    if (to.port && !e->dial)
        log_error("echo: upstream: %s", reason);
    tls_free(&to.tls);
    timer->run = on_time;
    return now.mono_ns + 1; /* lines may have come before */
}

static void on_line(struct mail *mail, void *reactor)
{
    struct resource *r = container_of(reactor, struct resource, thread);
    struct echo *e = container_of(r, struct echo, resource);
    if (!e->waiting.first)
        reactor_set_timer(reactor, &e->timer, r->thread.now.mono_ns + 10 * NS_PER_MS);
    mail_list_add(&e->waiting, mail);
}

static bool pause_resource(struct resource *r, int64_t until_ns)
{
    (void)until_ns;
    reactor_ask(&r->thread, write_all, container_of(r, struct echo, resource));
    return true;
}

static bool start(struct resource *r, const void *settings, struct moment now)
{
    struct echo *e = container_of(r, struct echo, resource);
    e->settings = settings;
    e->writes[0] = e->settings->folder;
    r->sandbox = (struct sandbox){.name = "echo", .connects = true, .writes = e->writes};
    e->file = e->upstream.fd = -1;
    e->timer.run = on_started;
    mail_list_init(&e->waiting);
    return reactor_add_timer(&r->thread, &e->timer, now.mono_ns);
}

static void end(struct resource *r)
{
    struct echo *e = container_of(r, struct echo, resource);
    reactor_remove_timer(&r->thread, &e->timer);
    dial_cancel(&e->dial);
    loop_io_remove(r->thread.loop, &e->io);
    stream_close(&e->upstream);
    close(e->file);
}

/* For the admin's thread: the metric and the route. */
static void read_lines(struct services *services, struct moment now, void *reading)
{
    (void)now;
    struct resource *r = services_resource(services, "echo");
    *(uint64_t *)reading = tally_get(&container_of(r, struct echo, resource)->lines);
}

static void get_lines(const struct route_request *r)
{
    struct json_text json = json_text_begin();
    uint64_t lines;
    read_lines(r->services, clock_now(), &lines);
    json_text_number(&json, "lines", lines);
    http_answer_json(r->http, 200, &json);
}

/* clang-format off */
static const char *const verbs[] = {"line", NULL}, *const outcomes[] = {"echoed", NULL};
const struct service_row echo_row = {
    .protocol = { .name = "echo", .request_size = sizeof(struct bytes), .pending_max = 32,
        .input_end = INPUT_END_SERVED, .parse = on_parse, .serve = on_serve, .room = say_event,
        .open = on_open_or_close, .close = on_open_or_close, .save = on_save,
        .restore = on_restore },
    .request_max = LINE_ROOM, .verbs = verbs, .outcomes = outcomes };
static const struct metric_row metrics[] = { { "counterd_echo_lines_total", METRIC_COUNTER,
    "Lines that were written to the file.", "", 1, .size = sizeof(uint64_t) }, {0} };
static const struct route_row routes[] = { { HTTP_GET, "/api/v1/echo", get_lines, false }, {0} };
static const struct monitor monitor = { read_lines, sizeof(uint64_t), metrics, routes, NULL };
const struct resource_row echo_resource_row = { .name = "echo", .size = sizeof(struct echo),
    .threaded = true, .start = start, .pause = pause_resource, .monitor = &monitor, .end = end };
static const struct option_row rows[] = {
    { .key = "folder", OPTION_IS_STRING(struct echo_settings, folder), .default_text = ".",
      .unit = "", .help = "folder of the files lines (written) and ca.pem (of the upstream)" },
    { .key = "upstream_port", OPTION_IS_PORT(struct echo_settings, upstream_port),
      .default_text = "0", .unit = "", .help = "of a server on this machine; 0: none" },
};
static const struct option_group own = { .prefix = "echo", .rows = rows,
    .count = ARRAY_SIZE(rows), .size = sizeof(struct echo_settings) };
const struct option_protocol echo_options = { .name = "echo", .title = "echo",
    .help = "serve the echo protocol", .enable = "true", .port = "7533",
    .trial_send = "echo hello", .trial_show = "", .own = &own };
