/*
 * client_test.c - connections in the loop: requests in flight, lines that are no answers, several
 * connections beside each other, and every end. The server is a part of the test, in the same loop.
 */
#include "base/clock.h"
#include "cli/answer.h"
#include "cli/child.h"
#include "cli/signals.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENTS 20

/* A server that answers every line from a client with its text, in slices of `slice` bytes. */
struct peer {
    struct loop *loop;
    struct watch door;
    const char *says;
    size_t slice;
    bool closes; /* after the text */
    struct conn {
        struct peer *server;
        struct watch watch;
        struct timer timer;
        size_t said;
    } conns[CLIENTS];
    size_t count;
};

static void say_more(void *owner)
{
    struct conn *conn = owner;
    struct peer *server = conn->server;
    size_t left = strlen(server->says) - conn->said;
    size_t len = left < server->slice ? left : server->slice;
    ck_assert_int_eq((int)send(conn->watch.fd, server->says + conn->said, len, MSG_NOSIGNAL),
                     (int)len);
    conn->said += len;
    if (len < left)
        timer_set(server->loop, &conn->timer, 0);
    else if (server->closes)
        shutdown(conn->watch.fd, SHUT_WR);
}

static void listen_to(void *owner, short revents)
{
    struct conn *conn = owner;
    char data[4096];
    (void)revents;
    ssize_t n = read(conn->watch.fd, data, sizeof data);
    if (n <= 0) {
        watch_clear(conn->server->loop, &conn->watch);
        timer_clear(conn->server->loop, &conn->timer);
        close(conn->watch.fd);
    } else if (conn->said == 0) {
        timer_set(conn->server->loop, &conn->timer, 0);
    }
}

static void accept_one(void *owner, short revents)
{
    struct peer *server = owner;
    struct conn *conn = &server->conns[server->count++];
    (void)revents;
    *conn = (struct conn){.server = server,
                          .watch = {.on_ready = listen_to, .owner = conn},
                          .timer = {.on_due = say_more, .owner = conn}};
    int fd = accept(server->door.fd, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    watch_set(server->loop, &conn->watch, fd, POLLIN);
}

static char where[64];

static struct options begin(struct peer *server, struct loop *loop, const char *says)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct options options;
    options_init(&options);
    options.server = where;
    snprintf(where, sizeof where, "unix:@counterctl-client-test-%d", (int)getpid());
    size_t len = strlen(where + 6);
    memcpy(at.sun_path + 1, where + 6, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, size), 0);
    ck_assert_int_eq(listen(fd, CLIENTS), 0);
    *server = (struct peer){.loop = loop,
                            .says = says,
                            .slice = 4096,
                            .door = {.on_ready = accept_one, .owner = server}};
    watch_set(loop, &server->door, fd, POLLIN);
    return options;
}

static void end(struct peer *server)
{
    for (size_t i = 0; i < server->count; i++) {
        if (server->conns[i].watch.place)
            close(server->conns[i].watch.fd);
        watch_clear(server->loop, &server->conns[i].watch);
        timer_clear(server->loop, &server->conns[i].timer);
    }
    watch_clear(server->loop, &server->door);
    close(server->door.fd);
    loop_free(server->loop);
}

/* Records what a client reads, in order: answers as they are, notices in brackets. */
struct heard {
    struct client client;
    char text[256];
    size_t until; /* after this many messages, ends the loop or closes the client */
    size_t count;
    size_t *pending;    /* clients still reading; the last one ends the loop. NULL: any one does */
    bool closes, steps; /* steps: each message ends the loop */
    int ended;          /* the exit status at the end; -1 before */
};

static bool hear(struct heard *heard, struct bytes line, const char *before, const char *after)
{
    size_t len = strlen(heard->text);
    snprintf(heard->text + len, sizeof heard->text - len, "%s%.*s%s ", before, (int)line.len,
             (const char *)line.data, after);
    ck_assert(!loop_is_over(heard->client.loop));
    if (heard->steps)
        loop_end(heard->client.loop, STATUS_OK);
    if (++heard->count == heard->until) {
        if (!heard->pending || --*heard->pending == 0)
            loop_end(heard->client.loop, STATUS_OK);
        if (heard->closes)
            client_close(&heard->client);
    }
    return true;
}

static bool hear_answer(void *owner, const struct answer *answer)
{
    return hear(owner, answer->line, "", "");
}

/* The notices of pools. */
static bool hear_notice(void *owner, const struct answer *answer)
{
    return (bytes_begin_with(answer->line, bytes_of("WANT")) ||
            bytes_begin_with(answer->line, bytes_of("STOP"))) &&
           hear(owner, answer->line, "[", "]");
}

static void note_end(void *owner, enum status status)
{
    struct heard *heard = owner;
    heard->ended = (int)status;
    loop_end(heard->client.loop, STATUS_OK);
}

static void ask_twice(struct heard *heard)
{
    struct pc_request request = {.verb = PC_STATS};
    ask_text(&heard->client, &request, SECONDS_NONE, hear_answer, heard);
    ask_text(&heard->client, &request, 1000 * NS_PER_S, hear_answer, heard);
}

static void ask_when_up(void *owner)
{
    ask_twice(owner);
}

static enum status open_client(struct client *client, const struct protocol *protocol,
                               struct loop *loop, const struct options *options)
{
    ck_assert_int_eq(client_begin(client, protocol, loop, options, NULL, NULL, NULL), STATUS_OK);
    return client_wait(client);
}

static void connect_to(struct heard *heard, struct loop *loop, const struct options *options)
{
    *heard = (struct heard){.ended = -1};
    ck_assert_int_eq(
        client_begin(&heard->client, &protocol_text, loop, options, ask_when_up, note_end, heard),
        STATUS_OK);
    heard->client.on_notice = hear_notice;
}

TEST(lines_that_are_no_answers_come_between_them)
{
    static const char says[] = "WANT p 2\nLOCKED\nSTOP p m cull\r\nWANT p 1\nTIMEOUT\nSTOP p n x\n";
    for (size_t slice = 1; slice <= sizeof says; slice++) {
        struct loop loop = {0};
        struct peer server;
        struct heard heard;
        struct options options = begin(&server, &loop, says);
        server.slice = slice;
        connect_to(&heard, &loop, &options);
        heard.until = 6;
        ck_assert_int_eq(loop_run(&loop), STATUS_OK);
        ck_assert_str_eq(heard.text, "[WANT p 2] LOCKED [STOP p m cull] [WANT p 1] TIMEOUT "
                                     "[STOP p n x] ");
        ck_assert_int_eq(heard.ended, -1);
        client_close(&heard.client);
        end(&server);
    }
}
END_TEST

TEST(without_notices_what_was_not_asked_for_is_dropped)
{
    struct loop loop = {0};
    struct peer server;
    struct heard heard;
    struct options options = begin(&server, &loop, "a\nb\nc\nd\n");
    server.closes = true;
    connect_to(&heard, &loop, &options);
    heard.client.on_notice = NULL;
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_str_eq(heard.text, "a b ");
    ck_assert_int_eq(heard.ended, STATUS_UNAVAILABLE);
    ck_assert_str_eq(heard.client.reason, "the server closed the connection");
    client_close(&heard.client);
    end(&server);
}
END_TEST

TEST(a_callback_may_close_it)
{
    for (size_t until = 1; until <= 3; until++) {
        struct loop loop = {0};
        struct peer server;
        struct heard heard;
        struct options options = begin(&server, &loop, "a\nWANT\nb\nSTOP p\n");
        connect_to(&heard, &loop, &options);
        heard.until = until;
        heard.closes = true;
        ck_assert_int_eq(loop_run(&loop), STATUS_OK);
        ck_assert_uint_eq(heard.count, until);
        ck_assert_int_eq(heard.ended, -1);
        client_close(&heard.client);
        end(&server);
    }
}
END_TEST

/* A small supplier: each has a connection and a command. The last one to end ends the loop. */
struct supplied {
    struct heard heard;
    struct child child;
    int how;
};

static void note_command(void *owner, int how)
{
    struct supplied *one = owner;
    one->how = how;
    if (--*one->heard.pending == 0)
        loop_end(one->heard.client.loop, STATUS_OK);
}

TEST(many_connections_and_commands_in_one_loop)
{
    static struct supplied all[CLIENTS];
    struct loop loop = {0};
    struct peer server;
    struct options options = begin(&server, &loop, "x\nSTOP p m y\ny\n");
    size_t pending = 2 * (size_t)CLIENTS;
    server.slice = 3;
    signals_start();
    ck_assert_int_eq(signals_begin(&loop), STATUS_OK);
    for (int i = 0; i < CLIENTS; i++) {
        char program[] = "sh", option[] = "-c", script[32];
        char *argv[] = {program, option, script, NULL};
        snprintf(script, sizeof script, "exit %d", i);
        connect_to(&all[i].heard, &loop, &options);
        all[i].heard.until = 3;
        all[i].heard.pending = &pending;
        all[i].child =
            (struct child){.on_end = note_command, .owner = &all[i], .death_signal = SIGTERM};
        ck_assert_int_eq(child_start(&all[i].child, &loop, argv), STATUS_OK);
    }
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    for (int i = 0; i < CLIENTS; i++) {
        ck_assert_str_eq(all[i].heard.text, "x [STOP p m y] y ");
        ck_assert_int_eq(all[i].heard.ended, -1);
        ck_assert_int_eq(child_status(all[i].how), i);
        client_close(&all[i].heard.client);
    }
    signals_handle(NULL, NULL);
    end(&server);
}
END_TEST

TEST(what_is_not_of_the_protocol_ends_it)
{
    struct loop loop = {0};
    struct peer server;
    struct heard heard;
    char *says = malloc(131072);
    memset(says, 'x', 131072 - 1);
    says[131072 - 1] = '\0';
    struct options options = begin(&server, &loop, says);
    connect_to(&heard, &loop, &options);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_eq(heard.ended, STATUS_PROTOCOL);
    ck_assert_str_eq(heard.client.reason,
                     "the answer is not of the text protocol (is this the right port?)");
    client_close(&heard.client);
    end(&server);
    free(says);
}
END_TEST

TEST(each_answer_has_its_time)
{
    struct loop loop = {0};
    struct peer server;
    struct heard heard;
    struct pc_request request = {.verb = PC_STATS};
    struct options options = begin(&server, &loop, "only one\n");
    connect_to(&heard, &loop, &options);
    heard.client.on_up = NULL; /* like a step */
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ask_text(&heard.client, &request, SECONDS_NONE, hear_answer, &heard);
    ask_text(&heard.client, &request, NS_PER_MS, hear_answer, &heard);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_str_eq(heard.text, "only one ");
    ck_assert_int_eq(heard.ended, STATUS_UNAVAILABLE);
    ck_assert_str_eq(heard.client.reason, "no answer in time (--io-timeout)");
    client_close(&heard.client);
    end(&server);
}
END_TEST

TEST(it_can_be_begun_again)
{
    struct loop loop = {0};
    struct peer server;
    struct heard heard;
    struct options options = begin(&server, &loop, "a\nb\n");
    server.closes = true;
    for (int i = 0; i < 3; i++) {
        connect_to(&heard, &loop, &options);
        ck_assert_int_eq(loop_run(&loop), STATUS_OK);
        ck_assert_str_eq(heard.text, "a b ");
        ck_assert_int_eq(heard.ended, STATUS_UNAVAILABLE);
        client_close(&heard.client);
        client_close(&heard.client);
    }
    end(&server);
}
END_TEST

TEST(work_in_steps)
{
    struct loop loop = {0};
    struct peer server;
    struct client client = {0};
    struct answer answer;
    struct pc_request request = {.verb = PC_STATS};
    struct options options = begin(&server, &loop, "LOCKED\n");
    ck_assert_int_eq(open_client(&client, &protocol_text, &loop, &options), STATUS_OK);
    ask_text(&client, &request, SECONDS_NONE, NULL, NULL);
    ck_assert_int_eq(client_hear(&client, SECONDS_NONE, &answer), STATUS_OK);
    ck_assert_int_eq(answer.text, PC_REPLY_LOCKED);
    ck_assert_uint_eq(answer.line.len, 6);
    ck_assert_mem_eq(answer.line.data, "LOCKED", 6);
    client_finish(&client);
    ck_assert_uint_eq(server.count, 1);
    end(&server);
}
END_TEST

/* Parts of answers are heard one by one; notices between them are called back. */
TEST(answers_are_heard_in_steps)
{
    static const char *const lines[] = {"a", "b", "c"};
    for (size_t slice = 1; slice <= 16; slice += 15) {
        struct loop loop = {0};
        struct peer server;
        struct heard heard = {0};
        struct answer answer;
        struct pc_request request = {.verb = PC_STATS};
        struct options options = begin(&server, &loop, "a\nWANT p\nb\nc\n");
        server.closes = true;
        server.slice = slice;
        ck_assert_int_eq(open_client(&heard.client, &protocol_text, &loop, &options), STATUS_OK);
        heard.client.owner = &heard;
        heard.client.on_notice = hear_notice;
        ask_text(&heard.client, &request, 0, NULL, NULL);
        for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
            ck_assert_int_eq(client_hear(&heard.client, 1000 * NS_PER_S, &answer), STATUS_OK);
            ck_assert(bytes_equal(answer.line, bytes_of(lines[i])));
        }
        ck_assert_str_eq(heard.text, "[WANT p] ");
        ck_assert_int_eq(client_hear(&heard.client, SECONDS_NONE, &answer), STATUS_UNAVAILABLE);
        ck_assert_str_eq(heard.client.reason, "the server closed the connection");
        client_close(&heard.client);
        end(&server);
    }
}
END_TEST

/* Records the exit statuses of refusals. */
struct refused {
    struct client client;
    enum status statuses[3];
    size_t count;
};

static bool hear_refusal(void *owner, const struct answer *answer)
{
    struct refused *refused = owner;
    refused->statuses[refused->count++] = answer_refused(&refused->client, answer, "x");
    if (refused->count == ARRAY_SIZE(refused->statuses))
        loop_end(refused->client.loop, STATUS_OK);
    return true;
}

TEST(refusals_of_pools)
{
    struct loop loop = {0};
    struct peer server;
    struct refused refused = {0};
    struct pool_request request = {.verb = POOL_VERB_RETURN, .has_fence = true, .fence = 7};
    struct options options = begin(&server, &loop, "GONE\nERROR BAD_VALUE max\nLOCKED\n");
    ck_assert_int_eq(open_client(&refused.client, &protocol_text, &loop, &options), STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(refused.statuses); i++)
        ask_pool(&refused.client, &request, SECONDS_NONE, hear_refusal, &refused);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_eq(refused.statuses[0], STATUS_LOST);
    ck_assert_int_eq(refused.statuses[1], STATUS_USAGE);
    ck_assert_int_eq(refused.statuses[2], STATUS_PROTOCOL);
    client_close(&refused.client);
    end(&server);
}
END_TEST

/* The answer of the wait never comes, or comes when nobody wants it. */
TEST(quit_ends_what_waits)
{
    static const struct {
        const char *says;
        bool is_said;
    } rows[] = {{"BYE\n", true},
                {"TAKEN p m 7 -\nWANT p 1\nBYE\n", true},
                {"TIMEOUT\n", false},
                {"BYEBYE\n", false}};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct loop loop = {0};
        struct peer server;
        struct heard heard;
        struct pool_request take = {.verb = POOL_VERB_TAKE,
                                    .count = 1,
                                    .timeout_ns = NS_PER_S,
                                    .targets = {bytes_of("p")},
                                    .target_count = 1};
        struct options options = begin(&server, &loop, rows[i].says);
        server.closes = true;
        heard = (struct heard){0};
        ck_assert_int_eq(open_client(&heard.client, &protocol_text, &loop, &options), STATUS_OK);
        ask_pool(&heard.client, &take, SECONDS_NONE, hear_answer, &heard);
        ck_assert(client_quit(&heard.client) == rows[i].is_said);
        ck_assert_str_eq(heard.text, "");
        ck_assert_int_eq(heard.client.state, CLIENT_CLOSED);
        ck_assert(!client_quit(&heard.client));
        end(&server);
    }
}
END_TEST

TEST(replies_of_the_binary_protocol)
{
    struct loop loop = {0};
    struct peer server;
    struct client client = {0};
    struct answer reply;
    struct ctr_request request = {.opcode = CTR_NOOP};
    struct options options = begin(&server, &loop, "x is no magic");
    ck_assert_int_eq(open_client(&client, &protocol_binary, &loop, &options), STATUS_OK);
    ck_assert_int_eq(ask_binary(&client, &request, &reply), STATUS_PROTOCOL);
    client_close(&client);
    end(&server);
}
END_TEST

/* Hears an answer of job queues: its line, and its body between marks. */
static bool hear_jobs(void *owner, const struct answer *answer)
{
    char said[200];
    int len =
        snprintf(said, sizeof said, "%.*s", (int)answer->line.len, (const char *)answer->line.data);
    if (answer->jobs.has_body)
        len += snprintf(said + len, sizeof said - (size_t)len, "<%.*s>", (int)answer->body.len,
                        (const char *)answer->body.data);
    return hear(owner, bytes_at(said, (size_t)len), "", "") &&
           answer->jobs.answer != BS_ANSWER_CLAIMED;
}

static void ask_jobs_when_up(void *owner)
{
    struct heard *heard = owner;
    struct bs_request claim = {.verb = BS_VERB_CLAIM, .count = 1, .tubes = bytes_of("t")};
    struct bs_request put = {.verb = BS_VERB_PUT_INTO, .tube = bytes_of("t"), .ttr_s = 1};
    ask_jobs(&heard->client, &claim, (struct bytes){0}, SECONDS_NONE, hear_jobs, heard);
    ask_jobs(&heard->client, &put, bytes_of("body"), SECONDS_NONE, hear_jobs, heard);
    ck_assert_uint_eq(put.body_len, 4);
}

static int hear_all_jobs(const char *says, size_t slice, struct heard *heard)
{
    struct loop loop = {0};
    struct peer server;
    struct options options = begin(&server, &loop, says);
    server.slice = slice;
    server.closes = true;
    *heard = (struct heard){.ended = -1};
    ck_assert_int_eq(client_begin(&heard->client, &protocol_jobs, &loop, &options, ask_jobs_when_up,
                                  note_end, heard),
                     STATUS_OK);
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    client_close(&heard->client);
    end(&server);
    return heard->ended;
}

TEST(answers_of_job_queues_have_bodies)
{
    static const char says[] = "CLAIMED 1\r\nRESERVED 7 4 9 t 1\r\na\r\nb\r\nINSERTED 8\r\n";
    struct heard heard;
    for (size_t slice = 1; slice <= sizeof says; slice++) {
        ck_assert_int_eq(hear_all_jobs(says, slice, &heard), STATUS_UNAVAILABLE);
        ck_assert_str_eq(heard.text, "CLAIMED 1 RESERVED 7 4 9 t 1<a\r\nb> INSERTED 8 ");
    }
}
END_TEST

TEST(what_is_not_of_job_queues_ends_it)
{
    static const char *const says[] = {"nonsense\r\n", "CLAIMED 1\n", "RESERVED 7 1\r\nabc",
                                       "RESERVED 7\r\n", "ERROR BAD_COMMAND\n"};
    struct heard heard;
    for (size_t i = 0; i < ARRAY_SIZE(says); i++) {
        ck_assert_int_eq(hear_all_jobs(says[i], 1, &heard), STATUS_PROTOCOL);
        ck_assert_str_eq(heard.text, "");
    }
}
END_TEST

/* All four lines come with one read, and the end of the connection with the next. */
TEST(after_the_end_of_the_loop_nobody_is_called_before_it_runs_again)
{
    struct loop loop = {0};
    struct peer server;
    struct heard heard;
    char seen[4][64] = {"a ", "a [STOP p] ", "a [STOP p] b ", "a [STOP p] b [WANT p 1] "};
    struct options options = begin(&server, &loop, "a\nSTOP p\nb\nWANT p 1\n");
    server.closes = true;
    connect_to(&heard, &loop, &options);
    heard.steps = true;
    for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
        ck_assert_int_eq(loop_run(&loop), STATUS_OK);
        ck_assert_str_eq(heard.text, seen[i]);
        ck_assert_int_eq(heard.ended, -1);
    }
    ck_assert_int_eq(loop_run(&loop), STATUS_OK);
    ck_assert_int_eq(heard.ended, STATUS_UNAVAILABLE);
    client_close(&heard.client);
    end(&server);
}
END_TEST

TEST(a_wait_without_limit_ends_with_the_first_byte_of_the_answer)
{
    static const struct {
        const char *says, *heard, *why;
    } rows[] = {
        {"CLAIM", "", "its answer has begun, and was not whole in time (--io-timeout)"},
        {"CLAIMED 1\r\n", "CLAIMED 1 ", "no answer in time (--io-timeout)"},
        {"CLAIMED 1\r\nRESERVED 7 4 9 t 1\r\nab", "CLAIMED 1 ", "no answer in time (--io-timeout)"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct loop loop = {0};
        struct peer server;
        struct heard heard = {.ended = -1};
        struct options options = begin(&server, &loop, rows[i].says);
        options.io_timeout_ns = NS_PER_S / 10;
        ck_assert_int_eq(client_begin(&heard.client, &protocol_jobs, &loop, &options,
                                      ask_jobs_when_up, note_end, &heard),
                         STATUS_OK);
        ck_assert_int_eq(loop_run(&loop), STATUS_OK);
        ck_assert_str_eq(heard.text, rows[i].heard);
        ck_assert_int_eq(heard.ended, STATUS_UNAVAILABLE);
        ck_assert_str_eq(heard.client.reason, rows[i].why);
        client_close(&heard.client);
        end(&server);
    }
}
END_TEST

TEST(no_answer_has_more_bytes_or_parts_than_any_server_sends)
{
    static const char *const says[] = {"RESERVED 7 67108865\r\nx",
                                       "RESERVED 7 4294967295 9 t 1\r\nx", "OK 67108865\r\nx"};
    struct heard heard;
    for (size_t i = 0; i < ARRAY_SIZE(says); i++) {
        ck_assert_int_eq(hear_all_jobs(says[i], 4096, &heard), STATUS_PROTOCOL);
        ck_assert_str_eq(heard.client.reason, "its answer announces more bytes than any server's");
    }
    struct text endless = {0};
    for (size_t i = 0; i <= BS_COUNT_MAX + 1; i++)
        text_addf(&endless, "CLAIMED 1\r\n");
    ck_assert_int_eq(hear_all_jobs(text_str(&endless), 4096, &heard), STATUS_PROTOCOL);
    ck_assert_str_eq(heard.client.reason, "its answer does not end");
    ck_assert_uint_eq(heard.count, BS_COUNT_MAX + 1);
    text_free(&endless);
}
END_TEST

/* Each host has two addresses, which take their time. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **list_r)
{
    static struct sockaddr_in at[2];
    static struct addrinfo list[2];
    (void)name;
    (void)service;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    for (size_t i = 0; i < 2; i++) {
        at[i] = (struct sockaddr_in){.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 - (in_addr_t)i)};
        list[i] = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_addr = (struct sockaddr *)&at[i],
                                    .ai_addrlen = sizeof at[i],
                                    .ai_next = i == 0 ? &list[1] : NULL};
    }
    usleep(300000);
    *list_r = list;
    return 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

/* Listens on 127.0.0.N; port 0: any. Returns the socket. */
static int listen_at(in_addr_t n, uint16_t *port, int queue)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(*port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + n)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, size), 0);
    ck_assert_int_eq(listen(fd, queue), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* The first address is silent, because its queue is full. On a machine that stands still another
   try has to show it. */
TEST(a_slow_lookup_leaves_its_time_to_each_address)
{
    uint16_t port = 0;
    int good = listen_at(1, &port, 64), silent = listen_at(2, &port, 0);
    int filler = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    ck_assert_int_eq(connect(filler, (struct sockaddr *)&to, sizeof to), 0);
    struct loop loop = {0};
    struct client client = {0};
    struct options options;
    char server[16];
    options_init(&options);
    snprintf(server, sizeof server, "two:%u", port);
    options.server = server;
    options.connect_timeout_ns = 400 * NS_PER_MS;
    enum status status = STATUS_UNAVAILABLE;
    for (int i = 0; i < 20 && status != STATUS_OK; i++) {
        client_close(&client);
        status = open_client(&client, &protocol_text, &loop, &options);
    }
    ck_assert_int_eq(status, STATUS_OK);
    client_close(&client);
    loop_free(&loop);
    close(filler);
    close(silent);
    close(good);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(lines_that_are_no_answers_come_between_them),
    UNIT(without_notices_what_was_not_asked_for_is_dropped),
    UNIT(a_callback_may_close_it),
    UNIT(many_connections_and_commands_in_one_loop),
    UNIT(what_is_not_of_the_protocol_ends_it),
    UNIT(each_answer_has_its_time),
    UNIT(it_can_be_begun_again),
    UNIT(work_in_steps),
    UNIT(answers_are_heard_in_steps),
    UNIT(refusals_of_pools),
    UNIT(quit_ends_what_waits),
    UNIT(replies_of_the_binary_protocol),
    UNIT(answers_of_job_queues_have_bodies),
    UNIT(what_is_not_of_job_queues_ends_it),
    UNIT(after_the_end_of_the_loop_nobody_is_called_before_it_runs_again),
    UNIT(a_wait_without_limit_ends_with_the_first_byte_of_the_answer),
    UNIT(no_answer_has_more_bytes_or_parts_than_any_server_sends),
    UNIT(a_slow_lookup_leaves_its_time_to_each_address),
};

UNIT_MAIN("cli/client", tests)
