/* http_answer.c - requests as handlers see them, and answers; see http.h and http_internal.h. */
#include "base/number.h"
#include "net/http_internal.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers --------------------------------------------------------------------------------- */

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
    http_end_pending(client);
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
    bool makes_place = http_is_crowded(client->http);
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

static void free_body(const void *data, size_t len, void *owned)
{
    (void)data;
    (void)len;
    free(owned);
}

/* Answers with a body that is freed when it was sent, if it is `owned`. */
static void answer(struct http_request *request, int status, const char *type, const void *body,
                   size_t len, void *owned)
{
    struct evbuffer *buffer = evbuffer_new();
    if (buffer && len > 0 &&
        evbuffer_add_reference(buffer, body, len, owned ? free_body : NULL, owned) != 0) {
        evbuffer_free(buffer);
        buffer = NULL;
    }
    if (!buffer || len == 0)
        free(owned);
    send_body(request, buffer ? status : 503, type, buffer);
}

void http_answer(struct http_request *request, int status, const char *type, char *body, size_t len)
{
    static const char no_memory[] = "{\"error\":{\"status\":503,\"reason\":\"no memory\"}}\n";
    if (body)
        answer(request, status, type, body, len, body);
    else
        answer(request, 503, "application/json", no_memory, sizeof(no_memory) - 1, NULL);
}

void http_answer_static(struct http_request *request, int status, const char *type,
                        const void *body, size_t len)
{
    answer(request, status, type, body, len, NULL);
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

/* What is said of requests that evhttp itself has refused; the last row is of all other ones. */
static const struct refusal {
    int status;
    const char *phrase, *reason;
} refusals[] = {
    {413, "Request Entity Too Large",
     "the request is too large: at most 8192 bytes of headers and 4096 of body"},
    {417, "Expectation Failed", "the only Expect header supported is \"Expect: 100-continue\""},
    {501, "Not Implemented", "unknown method: use GET, HEAD or POST"},
    {0, "Bad Request", "not an HTTP request, or more than 8192 bytes of headers"},
};

/* Copies the beginning of the output as text. Returns false when there is none. */
static bool peek(struct evbuffer *output, char *to, size_t size)
{
    memset(to, 0, size);
    /* After the first answer evhttp freezes the start of the buffer, so that only the socket takes
     * from it. */
    evbuffer_unfreeze(output, 1);
    ev_ssize_t copied = evbuffer_copyout(output, to, size - 1);
    evbuffer_freeze(output, 1);
    return copied > 0;
}

void http_exchange_error_page(struct http_request *client)
{
    struct evbuffer *output = bufferevent_get_output(client->bev);
    char line[48]; /* "HTTP/1.1 400 ", or another version that the client sent */
    bool any = peek(output, line, sizeof(line));
    const char *blank = strchr(line, ' ');
    if (!any || strncmp(line, "HTTP/", 5) != 0 || !blank)
        return;
    struct bytes in = bytes_of(blank + 1);
    uint64_t code;
    if (!number_take(&in, 999, &code) || code < 400)
        return;
    int status = (int)code;
    const struct refusal *refusal = refusals;
    while (refusal->status && refusal->status != status)
        refusal++;
    client->phase = WRITING;
    client->refused = true;
    client->since_ns = clock_mono_ns();
    char body[ERROR_SIZE];
    size_t len = write_error(body, status, refusal->reason);
    evbuffer_unfreeze(output, 1);
    evbuffer_drain(output, evbuffer_get_length(output));
    evbuffer_freeze(output, 1);
    evbuffer_add_printf(output,
                        "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\nCache-Control: no-store\r\n"
                        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                        status, refusal->phrase, len);
    evbuffer_add(output, body, len);
}

bool http_is_told_its_last(const struct http_request *client)
{
    char begin[128];
    if (!client->refused || client->phase == HANDLING)
        return false;
    return !peek(bufferevent_get_output(client->bev), begin, sizeof(begin)) ||
           (strncmp(begin, "HTTP/", 5) == 0 && strstr(begin, "\r\nContent-Type: text/html\r\n"));
}

/* ---- requests -------------------------------------------------------------------------------- */

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
