/*
 * http.c - calls to the admin interface (http.h).
 */
#include "cli/http.h"

#include "base/clock.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/server.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct http {
    CURLM *multi;
    struct loop *loop;
    struct timer timer; /* libcurl's timer */
    struct server server;
    char where[SERVER_TEXT];
    char token[HTTP_TOKEN_MAX + 1]; /* "": no token */
    int64_t io_timeout_ns;
    long connect_ms;
};

/* ---- address --------------------------------------------------------------------------------- */

/* Finds where the interface is: by itself, or at the server's host. Prints what is wrong. */
static bool find_server(const struct options *options, struct server *server)
{
    const char *variable = getenv("COUNTER_ADMIN"); /* NOLINT(concurrency-mt-unsafe): one thread */
    if ((options->admin && *options->admin) || (!options->admin && variable && *variable))
        return server_read("--admin", options->admin, "COUNTER_ADMIN", "", server);
    if (!server_find(options, server))
        return false;
    if (server->is_unix)
        *server = (struct server){.place = "127.0.0.1"};
    server->port = 0;
    return true;
}

static long whole_ms(int64_t ns)
{
    int64_t ms = (ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms > INT32_MAX / 4 ? INT32_MAX / 4 : (long)ms;
}

/* ---- libcurl in the loop --------------------------------------------------------------------- */

/* A socket of libcurl. */
struct http_socket {
    struct http *http;
    struct watch watch;
};

static bool ask_again(struct http_call *call, CURLcode result);
static void finish(struct http_call *call, CURLcode result);

/* Tells libcurl that a socket is ready, and reports finished calls. */
static void go_on(struct http *http, curl_socket_t fd)
{
    int running, in_queue;
    curl_multi_socket_action(http->multi, fd, 0, &running);
    while (!loop_is_over(http->loop)) {
        struct http_call *call = NULL;
        CURLMsg *message = curl_multi_info_read(http->multi, &in_queue);
        if (!message)
            return;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        CURLcode result = message->data.result;
        if (ask_again(call, result))
            continue;
        finish(call, result);
        call->on_done(call->owner);
    }
    timer_set(http->loop, &http->timer, 0); /* others may be finished, too */
}

static void on_ready(void *owner, short revents)
{
    const struct http_socket *one = owner;
    (void)revents;
    go_on(one->http, one->watch.fd);
}

static void on_due(void *http)
{
    go_on(http, CURL_SOCKET_TIMEOUT);
}

/* libcurl wants to wait for a socket, or stops waiting. */
static int want_socket(CURL *easy, curl_socket_t fd, int what, void *owner, void *of_socket)
{
    struct http *http = owner;
    struct http_socket *one = of_socket ? of_socket : allocate(sizeof *one);
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        watch_clear(http->loop, &one->watch);
        free(one);
        return 0;
    }
    one->http = http;
    one->watch.on_ready = on_ready;
    one->watch.owner = one;
    watch_set(http->loop, &one->watch, fd,
              (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0)));
    curl_multi_assign(http->multi, fd, one);
    return 0;
}

/* libcurl asks for a call after `ms`. */
static int want_timer(CURLM *multi, long ms, void *owner)
{
    struct http *http = owner;
    (void)multi;
    if (ms < 0)
        timer_clear(http->loop, &http->timer);
    else
        timer_set(http->loop, &http->timer, clock_mono_ns() + ms * NS_PER_MS);
    return 0;
}

struct http *http_of(struct invocation *invocation)
{
    const struct options *options = &invocation->options;
    struct server server;
    if (invocation->http || !find_server(options, &server))
        return invocation->http;
    struct http *http = allocate(sizeof *http);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(http->multi = curl_multi_init()))
        out_of_memory();
    http->loop = &invocation->loop;
    http->timer = (struct timer){.on_due = on_due, .owner = http};
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, want_socket);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, want_timer);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    http->server = server;
    server_text(&server, PORT_ADMIN, http->where);
    http->connect_ms = whole_ms(options->connect_timeout_ns);
    http->io_timeout_ns = options->io_timeout_ns;
    invocation->http = http;
    return http;
}

void http_free(struct http **http)
{
    if (!*http)
        return;
    curl_multi_cleanup((*http)->multi);
    timer_clear((*http)->loop, &(*http)->timer);
    curl_global_cleanup();
    explicit_bzero((*http)->token, sizeof(*http)->token);
    free(*http);
    *http = NULL;
}

const char *http_where(const struct http *http)
{
    return http->where;
}

/* ---- the token ------------------------------------------------------------------------------- */

/* Takes a token from a text without its line end. Returns false for an invalid token. */
static bool set_token(struct http *http, const char *text, const char *from)
{
    size_t len = strcspn(text, "\r\n");
    bool good = len > 0 && len <= HTTP_TOKEN_MAX;
    for (size_t i = 0; i < len; i++)
        good &= text[i] > ' ' && text[i] < 0x7f;
    if (!good)
        return complain("%s: a token is 1 to %d visible ASCII characters in one line", from,
                        HTTP_TOKEN_MAX);
    memcpy(http->token, text, len);
    http->token[len] = '\0';
    return true;
}

static enum status read_token_file(struct http *http, const char *path)
{
    char text[HTTP_TOKEN_MAX + 2];
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0) {
        complain("--token-file %s: %s", path, strerrordesc_np(errno));
        if (fd >= 0)
            close(fd);
        return STATUS_NO_INPUT;
    }
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && (about.st_mode & S_IROTH))
        complain("--token-file %s: every user of this machine can read it; run chmod o-r on it",
                 path);
    close(fd);
    text[n] = '\0';
    bool good = set_token(http, text, path);
    explicit_bzero(text, sizeof text);
    return good ? STATUS_OK : STATUS_USAGE;
}

/* Takes the token that the options name, if they do. Prints what is wrong. */
static enum status read_token(struct http *http, const struct options *options)
{
    if (options->token_file)
        return read_token_file(http, options->token_file);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    const char *token = getenv("COUNTER_ADMIN_TOKEN");
    if (!token || !*token)
        return STATUS_OK;
    return set_token(http, token, "$COUNTER_ADMIN_TOKEN") ? STATUS_OK : STATUS_USAGE;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The connection is there, and the request goes out. The time for the answer begins with the first
   one, also when it is made again. */
static int await_answer(void *arg, char *address, char *own_address, int port, int own_port)
{
    struct http_call *call = arg;
    (void)address;
    (void)own_address;
    (void)port;
    (void)own_port;
    if (!call->is_again)
        timer_set(call->http->loop, &call->due, clock_mono_ns() + call->http->io_timeout_ns);
    return CURL_PREREQFUNC_OK;
}

static void on_answer_due(void *arg)
{
    struct http_call *call = arg;
    curl_multi_remove_handle(call->http->multi, call->easy);
    text_addf(&call->failure, "no answer in time (--io-timeout)");
    call->is_done = true;
    call->on_done(call->owner);
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *call = arg;
    size_t len = size * count;
    if (len > HTTP_ANSWER_MAX - call->body.len)
        return 0; /* ends the call */
    text_add(&call->body, data, len);
    return len;
}

static size_t take_head(char *data, size_t size, size_t count, void *arg)
{
    struct http_call *call = arg;
    (void)data;
    if (size * count > HTTP_HEAD_MAX - call->head)
        return 0; /* ends the call */
    call->head += size * count;
    return size * count;
}

static void set_url(const struct http *http, CURL *easy, const char *path)
{
    struct text url = {0};
    const struct server *server = &http->server;
    text_addf(&url, "http://%s%s", server->is_unix ? "localhost" : http->where, path);
    curl_easy_setopt(easy, CURLOPT_URL, text_str(&url));
    if (server->is_unix && server->place[0] == '@')
        curl_easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, server->place + 1);
    else if (server->is_unix)
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, server->place);
    text_free(&url);
}

/* Makes it a POST. Only calls that change something carry the token. */
static void set_post(const struct http *http, struct http_call *call)
{
    struct curl_slist *headers = NULL;
    if (*http->token) {
        struct text header = {0};
        text_addf(&header, "Authorization: Bearer %s", http->token);
        headers = curl_slist_append(NULL, text_str(&header));
        if (!headers)
            out_of_memory();
        explicit_bzero(header.data, header.len);
        text_free(&header);
    }
    call->headers = headers;
    curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(call->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, "");
}

void http_begin(struct http *http, struct http_call *call, const char *path, bool is_post,
                void (*on_done)(void *owner), void *owner)
{
    *call = (struct http_call){.on_done = on_done,
                               .owner = owner,
                               .http = http,
                               .is_post = is_post,
                               .due = {.on_due = on_answer_due, .owner = call},
                               .easy = curl_easy_init()};
    CURL *easy = call->easy;
    if (!easy)
        out_of_memory();
    set_url(http, easy, path);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "counterctl");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, http->connect_ms);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, await_answer);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_head);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    if (is_post)
        set_post(http, call);
    if (curl_multi_add_handle(http->multi, easy) != CURLM_OK)
        out_of_memory();
}

/* Writes why there is no answer, or the server's text from an error answer. */
static void explain(struct http_call *call, CURLcode result)
{
    if (result == CURLE_WRITE_ERROR) {
        text_addf(&call->failure, "its answer is longer than %zu MiB, or its head than %zu KiB",
                  HTTP_ANSWER_MAX >> 20, HTTP_HEAD_MAX >> 10);
    } else if (result == CURLE_OPERATION_TIMEDOUT) {
        text_addf(&call->failure, "it does not answer in time (--connect-timeout)");
    } else if (result != CURLE_OK) {
        text_add_shown(&call->failure, curl_easy_strerror(result));
    } else if (!call->answer) {
        text_addf(&call->failure, "it answers %ld without JSON (is this the admin port?)",
                  call->code);
    } else if (call->code >= 300) {
        text_add_shown(&call->failure, json_text_at(call->answer, "error.reason", "no reason"));
        text_addf(&call->failure, " (%ld)", call->code);
    }
}

/* The server may be about to be upgraded, which ends its connections: a GET is made again, once, if
   nothing of its answer has come. Returns false when it is not. */
static bool ask_again(struct http_call *call, CURLcode result)
{
    if (call->is_post || call->is_again || call->head > 0 ||
        (result != CURLE_RECV_ERROR && result != CURLE_GOT_NOTHING))
        return false;
    call->is_again = true;
    curl_multi_remove_handle(call->http->multi, call->easy);
    return curl_multi_add_handle(call->http->multi, call->easy) == CURLM_OK;
}

static void finish(struct http_call *call, CURLcode result)
{
    call->is_done = true;
    timer_clear(call->http->loop, &call->due);
    if (result == CURLE_OK) {
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &call->code);
        call->answer = json_loadb(text_str(&call->body), call->body.len,
                                  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (!json_is_object(call->answer)) {
            json_decref(call->answer);
            call->answer = NULL;
        }
    }
    explain(call, result);
}

void http_call_free(struct http_call *call)
{
    if (call->easy) {
        timer_clear(call->http->loop, &call->due);
        curl_multi_remove_handle(call->http->multi, call->easy);
        curl_easy_cleanup(call->easy);
    }
    curl_slist_free_all(call->headers);
    json_decref(call->answer);
    text_free(&call->failure);
    text_free(&call->body);
    *call = (struct http_call){0};
}

/* The exit status for an HTTP status. */
static enum status status_of_code(long code)
{
    switch (code) {
    case 400:
        return STATUS_USAGE;
    case 401:
    case 403:
        return STATUS_DENIED;
    case 404:
        return STATUS_NO;
    case 409:
        return STATUS_CONFIG;
    default:
        return code >= 500 ? STATUS_UNAVAILABLE : STATUS_PROTOCOL;
    }
}

enum status http_status(const struct http_call *call, bool complains)
{
    if (call->answer && call->code < 300)
        return STATUS_OK;
    if (complains)
        complain("admin interface at %s: %s", call->http->where, text_str(&call->failure));
    if (call->code == 401 && complains && !*call->http->token)
        complain("give the admin token with --token-file or $COUNTER_ADMIN_TOKEN");
    if (call->code == 0)
        return STATUS_UNAVAILABLE;
    return call->answer ? status_of_code(call->code) : STATUS_PROTOCOL;
}

static void end_step(void *loop)
{
    loop_end(loop, STATUS_OK);
}

void http_run(struct http *http, struct http_call *call, const char *path, bool is_post)
{
    http_begin(http, call, path, is_post, end_step, http->loop);
    loop_run(http->loop);
}

enum status http_ask(struct invocation *invocation, const char *path, bool is_post,
                     json_t **answer_r)
{
    struct http *http = http_of(invocation);
    struct http_call call = {0};
    enum status status = STATUS_USAGE;
    if (http)
        status = is_post ? read_token(http, &invocation->options) : STATUS_OK;
    if (status == STATUS_OK) {
        http_run(http, &call, path, is_post);
        status = http_status(&call, true);
    }
    *answer_r = json_incref(call.answer);
    http_call_free(&call);
    return status;
}

enum status http_show(struct invocation *invocation, struct text *path, bool is_post,
                      void (*print)(const json_t *answer))
{
    json_t *answer;
    enum status status = http_ask(invocation, text_str(path), is_post, &answer);
    if (answer && invocation->options.json)
        json_line(json_incref(answer));
    else if (status == STATUS_OK)
        print(answer);
    json_decref(answer);
    text_free(path);
    return status;
}
