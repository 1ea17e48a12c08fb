/* worker_test.c - workers: messages, timers, the clock of an iteration, stopping and what is left.
 */
#include "net/worker.h"

#include "t/unit/net/toy.h"

#include <sched.h>

/* ---- messages -------------------------------------------------------------------------------- */

enum { SENDERS = 4, MESSAGES = 5000 };

struct numbered {
    struct mail mail;
    unsigned sender, number;
    struct worker *to;
};

static unsigned next_number[SENDERS]; /* owned by the reader */
static _Atomic unsigned delivered;

static void read_numbered(struct mail *mail, void *reader)
{
    const struct numbered *message = container_of(mail, struct numbered, mail);
    CHECK(reader == message->to);
    CHECK(message->number == next_number[message->sender]);
    next_number[message->sender]++;
    atomic_fetch_add(&delivered, 1);
}

static void *send_numbered(void *arg)
{
    struct numbered *messages = arg;
    for (unsigned i = 0; i < MESSAGES; i++) {
        reactor_post(worker_reactor(messages[i].to), &messages[i].mail);
        if (i % 64 == 0)
            sched_yield();
    }
    return NULL;
}

/* Messages from all senders to `to`. */
static struct numbered *write_messages(struct worker *to)
{
    struct numbered *messages = calloc((size_t)SENDERS * MESSAGES, sizeof(*messages));
    ck_assert(messages != NULL);
    for (unsigned i = 0; i < SENDERS * MESSAGES; i++)
        messages[i] = (struct numbered){.mail.deliver = read_numbered,
                                        .sender = i / MESSAGES,
                                        .number = i % MESSAGES,
                                        .to = to};
    return messages;
}

/* Some messages arrive before the worker ends, and the rest are drained; the order holds for all.
 */
TEST(messages_that_come_while_a_worker_ends_arrive_or_are_drained)
{
    struct toy_server s;
    toy_start(&s, 1, toy_limits());
    struct numbered *messages = write_messages(s.server.workers[0]);
    pthread_t threads[SENDERS];
    for (unsigned i = 0; i < SENDERS; i++)
        ck_assert(pthread_create(&threads[i], NULL, send_numbered, messages + i * MESSAGES) == 0);
    WAIT_UNTIL(atomic_load(&delivered) > 0);
    worker_stop(s.server.workers[0]);
    for (unsigned i = 0; i < SENDERS; i++)
        ck_assert(pthread_join(threads[i], NULL) == 0);
    reactor_join(worker_reactor(s.server.workers[0]));
    worker_drain(s.server.workers[0]);
    ck_assert_uint_eq(atomic_load(&delivered), SENDERS * MESSAGES);
    toy_free(&s);
    free(messages);
}

/* ---- catching up ----------------------------------------------------------------------------- */

enum { LISTENERS = 450, REQUESTS = 1000 };

/* A message that notifies a listener in another worker. */
struct telling {
    struct mail mail;
    uint64_t tag;
};
static struct telling tellings[LISTENERS];

static void tell_listener(struct mail *mail, void *reader)
{
    const struct telling *telling = container_of(mail, struct telling, mail);
    struct conn *conn = conn_by_tag(reader, telling->tag);
    CHECK(conn);
    if (telling == tellings)
        pause_ns(5 * NS_PER_MS); /* meanwhile the sender continues */
    conn_reply(conn, "told\n", 5);
}

static void tell_all_on_demand(struct conn *conn, const char *line)
{
    if (strcmp(line, "etell") != 0)
        return;
    pause_ns(10 * NS_PER_MS); /* meanwhile the other worker finishes its work */
    for (size_t i = 0; i < LISTENERS; i++)
        reactor_post(worker_reactor(worker_server(conn_worker(conn))->workers[1]),
                     &tellings[i].mail);
}

/* A message that blocks its reader for a while. */
struct holdup {
    struct mail mail;
    _Atomic bool begun, over;
};

static void hold_up(struct mail *mail, void *reader)
{
    (void)reader;
    struct holdup *holdup = container_of(mail, struct holdup, mail);
    atomic_store(&holdup->begun, true);
    while (!atomic_load(&holdup->over))
        sched_yield();
}

static void begin_holdup(struct holdup *holdup, struct worker *worker)
{
    holdup->mail.deliver = hold_up;
    reactor_post(worker_reactor(worker), &holdup->mail);
    WAIT_UNTIL(atomic_load(&holdup->begun));
}

/* Requires that exactly `len` bytes have arrived. */
static void expect_arrived(int fd, ssize_t len)
{
    static char got[64 * 1024];
    ck_assert_int_eq(recv(fd, got, sizeof(got), MSG_DONTWAIT), len);
}

/* Local sockets deliver at once, so all that one end has sent is there for the other. */
TEST(server_has_caught_up_when_all_that_had_arrived_is_answered_and_told_to_others)
{
    struct toy_server s;
    toy_make(&s, 2, toy_limits());
    s.toy.seen = tell_all_on_demand;
    toy_run(&s);
    int listeners[LISTENERS], dumper = connect_local(&s, 0), teller = connect_local(&s, 0);
    for (int i = 0; i < LISTENERS; i++) {
        listeners[i] = connect_local(&s, 1);
        tellings[i] =
            (struct telling){.mail.deliver = tell_listener, .tag = atomic_load(&s.toy.last_tag)};
    }
    char requests[REQUESTS * 6 + 1];
    for (size_t i = 0; i < REQUESTS; i++)
        memcpy(requests + i * 6, i == REQUESTS - 1 ? "etell\n" : "etalk\n", 7);
    for (int round = 0; round < 20; round++) {
        struct catch_up catch_up = {0};
        struct holdup holdup = {.begun = false};
        begin_holdup(&holdup, s.server.workers[1]);
        for (int i = 0; i < LISTENERS; i++)
            send_text(listeners[i], "ehere\n");
        send_text(dumper, "d1000\n");
        send_text(teller, requests);
        atomic_store(&holdup.over, true);
        WAIT_UNTIL(server_catch_up(&s.server, &catch_up));
        for (int i = 0; i < LISTENERS; i++)
            expect_arrived(listeners[i], 5 + 5);
        expect_arrived(teller, REQUESTS * 5);
        expect_arrived(dumper, 10 * 2 + 90 * 3 + 900 * 4 + 4);
    }
    for (int i = 0; i < LISTENERS; i++)
        close(listeners[i]);
    close(teller);
    close(dumper);
    toy_stop(&s);
}

static _Atomic bool talked_enough;

static void *talk(void *arg)
{
    const int *fd = arg;
    while (!atomic_load(&talked_enough)) {
        send_text(*fd, "eon\neand on\n");
        expect(*fd, "on\nand on\n");
    }
    return NULL;
}

TEST(catching_up_waits_for_nobody_who_does_not_read_or_goes_on_talking)
{
    struct toy_server s;
    struct catch_up catch_up = {0};
    pthread_t talking;
    toy_start(&s, 2, toy_limits());
    int deaf = connect_local(&s, 0), dumper = connect_tcp(&s, 0), ending = connect_local(&s, 1);
    int half = connect_tcp(&s, 1), talker = connect_local(&s, 0);
    for (int i = 0; i < 100; i++)
        send_text(deaf, "b300000\n");
    send_text(dumper, "d100000000\nebehind\n");
    send_text(ending, "b300000\nf\n");
    send_text(half, "etwelve ");
    ck_assert(pthread_create(&talking, NULL, talk, &talker) == 0);
    WAIT_UNTIL(server_catch_up(&s.server, &catch_up));
    ck_assert(server_catch_up(&s.server, &catch_up));
    atomic_store(&talked_enough, true);
    ck_assert(pthread_join(talking, NULL) == 0);
    send_text(half, "bytes.\n");
    expect(half, "twelve bytes.\n");
    expect_pattern(ending, 300000);
    expect(ending, "bye\n");
    int all[] = {deaf, dumper, ending, half, talker};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        close(all[i]);
    toy_stop(&s);
}

/* ---- notices of a free descriptor ------------------------------------------------------------ */

static _Atomic unsigned freed;

static void on_freed(void *arg)
{
    CHECK(arg == &freed);
    atomic_fetch_add(&freed, 1);
}

static void await_fd(struct worker *worker, void *arg)
{
    worker_await_fd(worker, arg ? on_freed : NULL, arg);
}

TEST(close_of_a_connection_is_told_once_to_who_awaits_it)
{
    struct toy_server s;
    toy_start(&s, 1, toy_limits());
    int clients[4];
    for (int i = 0; i < 4; i++)
        clients[i] = connect_local(&s, 0);
    for (unsigned i = 0; i < 4; i++) {
        if (i != 1) /* each request gives only one notice */
            in_worker(&s, 0, await_fd, &freed);
        if (i == 3)
            in_worker(&s, 0, await_fd, NULL);
        close(clients[i]);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == i + 1);
        WAIT_UNTIL(worker_connections(s.server.workers[0]) == 3 - i);
    }
    toy_stop(&s);
    ck_assert_uint_eq(atomic_load(&freed), 2);
}

UNIT_MAIN("net/worker")
