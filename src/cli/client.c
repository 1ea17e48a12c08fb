/*
 * client.c - a connection and its unanswered requests (client.h).
 */
#include "cli/client.h"

#include "base/clock.h"
#include "cli/command.h"
#include "cli/print.h"
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

const struct protocol protocol_text = {COUNTER_TEXT, "text protocol", PORT_TEXT, CLIENT_BODY_MAX,
                                       10000000},
                      protocol_binary = {COUNTER_BINARY, "binary counter protocol", PORT_BINARY,
                                         CLIENT_BODY_MAX, UINT64_C(1) << 30},
                      protocol_jobs = {COUNTER_JOBS, "protocol of job queues", PORT_JOBS,
                                       CLIENT_BODY_MAX, BS_COUNT_MAX + 1}, /* of list-jobs */
    protocol_tubes = {COUNTER_JOBS, "protocol of job queues", PORT_JOBS, 4 * CLIENT_BODY_MAX,
                      BS_COUNT_MAX + 1};

/* How long find_opener gives the same. */
#define OPENER_NS (5 * NS_PER_S)

/* ---- the end --------------------------------------------------------------------------------- */

void client_complain(const struct client *client)
{
    complain(client->was_up ? "%s: %s" : "can't connect to %s: %s", client->where, client->reason);
}

void client_lost(void *owner, enum status status)
{
    const struct client *client = owner;
    (void)status;
    complain("%s: %s: the server frees what this command held", client->where, client->reason);
    loop_end(client->loop, STATUS_LOST);
}

/* Closes the connection, and drops the unanswered requests. */
static void hang_up(struct client *client)
{
    if (client->state == CLIENT_CLOSED)
        return;
    client->state = CLIENT_CLOSED;
    client->count = 0;
    watch_clear(client->loop, &client->watch);
    timer_clear(client->loop, &client->timer);
    timer_clear(client->loop, &client->due);
    counter_link_free(client->link);
    client->link = NULL;
    if (client->looking >= 0)
        close(client->looking);
    client->looking = -1;
}

void client_close(struct client *client)
{
    hang_up(client);
    free(client->asks);
    client->asks = NULL;
    client->room = 0;
}

/* Closes the connection for this reason, in which libcounter's names of options become ours; and
   calls on_end or prints why. */
static void fail(struct client *client, enum status status, const char *why)
{
    static const char *const names[][2] = {{"connect_timeout", "--connect-timeout"},
                                           {"io_timeout", "--io-timeout"},
                                           {"tls_name", "--tls-name"},
                                           {"tls_cert", "--cert"},
                                           {"tls_key", "--key"},
                                           {"tls_ca", "--ca"}};
    struct text reason = {0};
    for (const char *at = why; *at;) {
        size_t i = at == why || strchr(" (", at[-1]) ? 0 : ARRAY_SIZE(names);
        while (i < ARRAY_SIZE(names) && strncmp(at, names[i][0], strlen(names[i][0])) != 0)
            i++;
        if (i < ARRAY_SIZE(names))
            text_addf(&reason, "%s", names[i][1]);
        else
            text_add(&reason, at, 1);
        at += i < ARRAY_SIZE(names) ? strlen(names[i][0]) : 1;
    }
    snprintf(client->reason, sizeof client->reason, "%s", text_str(&reason));
    text_free(&reason);
    hang_up(client);
    if (client->on_end) {
        client->on_end(client->owner, status);
        return;
    }
    client_complain(client);
    loop_end(client->loop, (int)status);
}

/* The same for an error of libcounter. */
static void fail_as(struct client *client, const struct counter_error *error)
{
    if (error->status == COUNTER_NO_MEMORY)
        out_of_memory();
    fail(client, error->status == COUNTER_MALFORMED ? STATUS_PROTOCOL : STATUS_UNAVAILABLE,
         error->reason);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Sets the timer for the next part of the oldest request's answer. */
static void time_first(struct client *client)
{
    if (client->count > 0 && client->asks[0].timeout_ns != SECONDS_NONE)
        timer_set(client->loop, &client->due, client->asks[0].due_ns);
    else
        timer_clear(client->loop, &client->due);
}

/* The oldest request has timed out, or the lookup. */
static void on_due(void *owner)
{
    struct client *client = owner;
    fail(client, STATUS_UNAVAILABLE,
         client->link ? "no answer in time (io_timeout)"
                      : "its address was not found in time (connect_timeout)");
}

/* Passes a part of an answer to the oldest request. */
static void take_part(struct client *client, const struct answer *answer)
{
    struct ask *first = client->asks;
    bool is_last = first->on_answer(first->owner, answer);
    if (client->count == 0) /* a callback has closed the client */
        return;
    if (is_last) {
        memmove(client->asks, client->asks + 1, --client->count * sizeof *client->asks);
        client->parts = 0;
    }
    first = client->asks; /* a callback may have moved them */
    if (!is_last && first->timeout_ns == SECONDS_NONE)
        first->timeout_ns = client->options->io_timeout_ns;
    if (client->count > 0)
        first->due_ns = clock_mono_ns() + first->timeout_ns;
    time_first(client);
}

bool ignore_answer(void *owner, const struct answer *answer)
{
    (void)owner;
    (void)answer;
    return true;
}

/* Reads a message. Returns false when it is none of the protocol. */
static bool read_message(const struct client *client, const struct counter_message *message,
                         struct answer *answer)
{
    static const uint8_t opaque[4]; /* all requests have the same */
    size_t used;
    switch (client->protocol->wire) {
    case COUNTER_JOBS:
        return bs_parse_reply_line(answer->line, &answer->jobs);
    case COUNTER_BINARY: /* the body is behind the header */
        return ctr_parse_reply(message->line.data, message->line.len + message->body.len,
                               &answer->binary, &used) == CTR_OK &&
               (!client->heard || (answer->binary.opcode == client->opcode &&
                                   memcmp(answer->binary.opaque, opaque, sizeof opaque) == 0));
    default:
        if (answer->line.len > 0 && answer->line.data[answer->line.len - 1] == '\r')
            answer->line.len--;
        answer->text = PC_REPLY_OTHER;
        for (int reply = 0; reply < PC_REPLY_COUNT; reply++) {
            struct bytes line = pc_reply_line((enum pc_reply)reply);
            if (line.len > 0 && bytes_equal(answer->line, bytes_at(line.data, line.len - 1)))
                answer->text = (enum pc_reply)reply;
        }
        pool_parse_reply(answer->line, &answer->pool);
        return true;
    }
}

static void take(struct client *client, const struct counter_message *message)
{
    struct answer answer = {.protocol = client->protocol,
                            .line = bytes_at(message->line.data, message->line.len),
                            .body = bytes_at(message->body.data, message->body.len)};
    if (client->count == 0 && !client->heard && !client->on_notice)
        return;
    if (!read_message(client, message, &answer)) {
        char why[100];
        snprintf(why, sizeof why, "the answer is not of the %s (is this the right port?)",
                 client->protocol->name);
        fail(client, STATUS_PROTOCOL, why);
    } else if (client->on_notice && client->on_notice(client->owner, &answer)) {
        return;
    } else if (++client->parts > client->protocol->parts_max) {
        fail(client, STATUS_PROTOCOL, "its answer does not end");
    } else if (client->heard) {
        *client->heard = answer;
        client->heard = NULL;
        loop_end(client->loop, STATUS_OK);
    } else if (client->count > 0) {
        take_part(client, &answer);
    }
}

/* Takes what has come, until the loop is over: what the owner gave for later answers may be gone
   then. */
static void take_all(struct client *client)
{
    int status = COUNTER_OK;
    while (status == COUNTER_OK && client->state == CLIENT_UP && !loop_is_over(client->loop)) {
        struct counter_message message = COUNTER_MESSAGE;
        status = counter_link_next(client->link, &message);
        if (status == COUNTER_OK)
            take(client, &message);
        else if (status != COUNTER_AGAIN)
            fail_as(client, counter_link_error(client->link));
    }
}

/* ---- looking up a host ----------------------------------------------------------------------- */

/* The C library's resolver blocks, so it runs in a thread of its own. That thread can't be stopped:
   a caller that gives up closes the descriptor and leaves it running. */
struct lookup {
    const char *fault; /* why there is no address; NULL: there are */
    size_t count;
    struct sockaddr_storage at[16];
    /* private to the thread */
    int to; /* write end of the pipe */
    char host[];
};

static void *look_up(void *arg)
{
    struct lookup *lookup = arg;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int to = lookup->to, error = getaddrinfo(lookup->host, NULL, &hints, &found);
    if (error)
        lookup->fault = error == EAI_SYSTEM ? strerrordesc_np(errno) : gai_strerror(error);
    for (const struct addrinfo *at = found; at && lookup->count < ARRAY_SIZE(lookup->at);
         at = at->ai_next)
        memcpy(&lookup->at[lookup->count++], at->ai_addr, at->ai_addrlen);
    if (found)
        freeaddrinfo(found);
    if (write(to, &lookup, sizeof(struct lookup *)) < 0) /* the caller has given up */
        free(lookup);
    close(to);
    return NULL;
}

/* Starts a lookup. Returns a descriptor that becomes readable when it is over; -1: no memory,
   descriptor or thread. */
static int start_lookup(const char *host)
{
    int ends[2];
    size_t len = strlen(host) + 1;
    struct lookup *lookup = calloc(1, sizeof *lookup + len);
    if (!lookup || pipe2(ends, O_CLOEXEC) != 0) {
        free(lookup);
        return -1;
    }
    lookup->to = ends[1];
    memcpy(lookup->host, host, len);
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* the thread takes no signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, look_up, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        pthread_detach(thread);
        return ends[0];
    }
    free(lookup);
    close(ends[0]);
    close(ends[1]);
    return -1;
}

/* Takes the result of a lookup that is over, and closes the descriptor. The caller frees it. */
static struct lookup *take_lookup(int fd)
{
    struct lookup *lookup;
    CHECK(read(fd, &lookup, sizeof(struct lookup *)) == (ssize_t)sizeof(struct lookup *));
    close(fd);
    return lookup;
}

/* ---- the link -------------------------------------------------------------------------------- */

/* Waits for what the link waits for. What is left when the loop is over is taken when it runs
   again. */
static void await(struct client *client)
{
    int fd = counter_link_fd(client->link), ms = counter_link_wait_ms(client->link);
    if (fd >= 0)
        watch_set(client->loop, &client->watch, fd, counter_link_events(client->link));
    else
        watch_clear(client->loop, &client->watch);
    if (loop_is_over(client->loop))
        timer_set(client->loop, &client->timer, 0);
    else if (ms >= 0)
        timer_set(client->loop, &client->timer, clock_mono_ns() + ms * NS_PER_MS);
    else
        timer_clear(client->loop, &client->timer);
}

static void proceed(struct client *client)
{
    int status = counter_link_step(client->link);
    if (client->state == CLIENT_BEGUN && status == COUNTER_OK) {
        client->state = CLIENT_UP;
        client->was_up = true;
        time_first(client);
        if (client->on_up)
            client->on_up(client->owner);
        else
            loop_end(client->loop, STATUS_OK);
    } else if (client->state == CLIENT_BEGUN && status != COUNTER_AGAIN) {
        fail_as(client, counter_link_error(client->link));
    }
    take_all(client);
    if (client->link)
        await(client);
}

/*
 * The client of libcounter for this server. A new one reads the files of TLS; that takes tens of
 * milliseconds, so all connections share it. But files may be renewed: it is used for some time
 * only. NULL: *error says why.
 */
static counter_client *find_opener(const struct client *client, struct counter_error *error)
{
    static struct opener {
        struct text url;
        counter_client *client;
        int64_t until_ns;
    } openers[COUNTER_RAW];
    struct opener *opener = &openers[client->protocol->wire];
    struct text url = {0};
    server_add_url(&url, &client->server, client->protocol->port, client->options);
    text_addf(&url, "&max_body=%u", client->protocol->body_max);
    if (opener->client && clock_mono_ns() < opener->until_ns &&
        bytes_equal(text_bytes(&url), text_bytes(&opener->url))) {
        text_free(&url);
        return opener->client;
    }
    counter_close(opener->client); /* its links live on */
    text_free(&opener->url);
    *opener = (struct opener){.url = url, .client = counter_open(text_str(&url), error)};
    opener->until_ns = clock_mono_ns() + OPENER_NS;
    return opener->client;
}

/* Connects; `found`: to the addresses that a lookup has found. */
static void connect_to(struct client *client, const struct lookup *found)
{
    struct counter_error error = COUNTER_ERROR;
    counter_client *opener = find_opener(client, &error);
    if (!opener) {
        fail_as(client, &error);
        return;
    }
    if (!found || counter_set_addresses(opener, 0, found->at, found->count) == COUNTER_OK)
        client->link = counter_link_open(opener, client->protocol->wire, 0);
    if (!client->link)
        out_of_memory();
    proceed(client);
}

/* Begins to connect; the name of a host is looked up before. */
static void begin(struct client *client)
{
    if (!client->server.is_name) {
        connect_to(client, NULL);
    } else if ((client->looking = start_lookup(client->server.place)) >= 0) {
        watch_set(client->loop, &client->watch, client->looking, POLLIN);
        timer_set(client->loop, &client->due,
                  clock_mono_ns() + client->options->connect_timeout_ns);
    } else {
        fail(client, STATUS_UNAVAILABLE, "can't look up its address: no memory or descriptor");
    }
}

static void on_ready(void *owner, short revents)
{
    struct client *client = owner;
    (void)revents;
    if (client->link) {
        proceed(client);
        return;
    }
    struct lookup *found = take_lookup(client->looking);
    client->looking = -1;
    watch_clear(client->loop, &client->watch);
    timer_clear(client->loop, &client->due); /* to connect has its own time */
    if (found->fault)
        fail(client, STATUS_UNAVAILABLE, found->fault);
    else
        connect_to(client, found);
    free(found);
}

static void on_time(void *owner)
{
    struct client *client = owner;
    if (client->link)
        proceed(client);
    else
        begin(client);
}

/* ---- the connection -------------------------------------------------------------------------- */

enum status client_begin(struct client *client, const struct protocol *protocol, struct loop *loop,
                         const struct options *options, void (*on_up)(void *owner),
                         void (*on_end)(void *owner, enum status status), void *owner)
{
    client_close(client);
    *client = (struct client){.loop = loop,
                              .options = options,
                              .protocol = protocol,
                              .on_up = on_up,
                              .on_end = on_end,
                              .owner = owner,
                              .looking = -1,
                              .watch = {.on_ready = on_ready, .owner = client},
                              .timer = {.on_due = on_time, .owner = client},
                              .due = {.on_due = on_due, .owner = client}};
    if (!server_find(options, &client->server))
        return STATUS_USAGE;
    if (client->server.is_unix && options->tls)
        return complain_as(STATUS_USAGE, "--tls: a unix socket has no TLS; leave --tls out");
    server_text(&client->server, protocol->port, client->where);
    client->state = CLIENT_BEGUN;
    timer_set(loop, &client->timer, 0); /* the loop does the rest, because it may run callbacks */
    return STATUS_OK;
}

enum status client_open(struct client *client, const struct protocol *protocol,
                        struct invocation *invocation)
{
    enum status status =
        client_begin(client, protocol, &invocation->loop, &invocation->options, NULL, NULL, NULL);
    return status == STATUS_OK ? client_wait(client) : status;
}

enum status client_wait(struct client *client)
{
    int status = loop_run(client->loop);
    if (status != STATUS_OK)
        client_close(client);
    return (enum status)status;
}

static void on_input(void *loop, short revents)
{
    (void)revents;
    loop_end(loop, STATUS_OK);
}

enum status client_wait_input(struct client *client, int fd)
{
    struct watch input = {.on_ready = on_input, .owner = client->loop};
    struct loop *loop = client->loop;
    watch_set(loop, &input, fd, POLLIN);
    enum status status = client_wait(client);
    watch_clear(loop, &input);
    return status;
}

enum status client_hear(struct client *client, int64_t timeout_ns, struct answer *answer_r)
{
    struct counter_message message = COUNTER_MESSAGE;
    enum status status = STATUS_OK;
    client->heard = answer_r;
    /* Without callbacks, what has come needs no loop. */
    while (client->heard && client->state == CLIENT_UP && !client->on_notice && !client->on_end &&
           counter_link_next(client->link, &message) == COUNTER_OK)
        take(client, &message);
    if (client->heard && client->state == CLIENT_CLOSED) {
        status = STATUS_PROTOCOL; /* take has said why */
    } else if (client->heard) {
        if (timeout_ns != SECONDS_NONE)
            timer_set(client->loop, &client->due, clock_mono_ns() + timeout_ns);
        status = client_wait(client);
    }
    client->heard = NULL;
    timer_clear(client->loop, &client->due);
    return status;
}

/* An on_end callback for a caller that waits for the end. */
static void finished(void *owner, enum status status)
{
    struct client *client = owner;
    loop_end(client->loop, (int)status);
}

void client_finish(struct client *client)
{
    if (client->state == CLIENT_UP) {
        client->count = 0;
        time_first(client);
        client->on_notice = NULL;
        client->on_end = finished;
        client->owner = client;
        counter_link_finish(client->link);
        await(client);
        loop_run(client->loop);
    }
    client_close(client);
}

/* Drops all other lines, because BYE may overtake the answer of a wait. */
static bool is_no_bye(void *owner, const struct answer *answer)
{
    (void)owner;
    return answer->pool.reply != POOL_REPLY_BYE;
}

bool client_quit(struct client *client)
{
    struct pool_request quit = {.verb = POOL_VERB_QUIT};
    struct answer bye;
    bool is_said = false;
    if (client->state == CLIENT_UP) {
        signals_handle(NULL, NULL); /* another one ends this wait */
        client->count = 0;          /* nobody waits for their answers */
        client->owner = client;
        client->on_notice = is_no_bye;
        client->on_end = finished;
        ask_pool(client, &quit, 0, NULL, NULL);
        is_said = client_hear(client, NS_PER_S, &bye) == STATUS_OK;
    }
    client_close(client);
    return is_said;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void say(struct client *client, const void *data, size_t len)
{
    if (client->link && counter_link_say(client->link, data, len) == COUNTER_NO_MEMORY)
        out_of_memory();
}

static void ask(struct client *client, const void *request, size_t len, int64_t timeout_ns,
                answer_handler *on_answer, void *owner)
{
    CHECK(client->state == CLIENT_UP && len > 0);
    if (on_answer)
        client->asks = array_grow(client->asks, client->count, &client->room, sizeof *client->asks);
    if (on_answer)
        client->asks[client->count++] = (struct ask){.on_answer = on_answer,
                                                     .owner = owner,
                                                     .timeout_ns = timeout_ns,
                                                     .due_ns = clock_mono_ns() + timeout_ns};
    else
        client->parts = 0;
    time_first(client);
    say(client, request, len);
    await(client);
}

void ask_text(struct client *client, const struct pc_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner)
{
    uint8_t line[PC_KEY_MAX + 256]; /* enough for verb, numbers and blanks, too */
    size_t len = pc_compose_request(request, line, sizeof line);
    ask(client, line, len, timeout_ns, on_answer, owner);
}

void ask_pool(struct client *client, const struct pool_request *request, int64_t timeout_ns,
              answer_handler *on_answer, void *owner)
{
    uint8_t line[POOLS_REQUEST_ROOM];
    size_t len = pool_compose_request(request, line, sizeof line);
    ask(client, line, len, timeout_ns, on_answer, owner);
}

enum status ask_binary(struct client *client, const struct ctr_request *request,
                       struct answer *answer_r)
{
    static uint8_t message[CTR_HEADER + CTR_BODY_MAX];
    client->opcode = request->opcode;
    size_t len = ctr_compose_request(request, message, sizeof message);
    ask(client, message, len, 0, NULL, NULL);
    return client_hear(client, client->options->io_timeout_ns, answer_r);
}

void ask_jobs(struct client *client, struct bs_request *request, struct bytes body,
              int64_t timeout_ns, answer_handler *on_answer, void *owner)
{
    uint8_t line[BS_NEW_LINE_MAX];
    bool has_body = request->verb == BS_VERB_PUT || request->verb == BS_VERB_PUT_INTO;
    CHECK(body.len <= CLIENT_BODY_MAX && (has_body || body.len == 0));
    request->body_len = (uint32_t)body.len;
    ask(client, line, bs_compose_request(request, line, sizeof line), timeout_ns, on_answer, owner);
    if (has_body) {
        say(client, body.data, body.len);
        say(client, "\r\n", 2);
    }
}
