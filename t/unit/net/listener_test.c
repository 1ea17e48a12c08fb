/* listener_test.c - listening, accepting, and the distribution of connections over workers. */
#include "net/listener.h"

#include "base/log.h"
#include "t/unit/net/toy.h"

#include <netinet/tcp.h>
#include <sys/resource.h>

/* ---- listening ----------------------------------------------------------------------------- */

static bool open_v4(struct listener *l, struct protocol *protocol, in_port_t port)
{
    struct sockaddr_in in = loopback(port);
    return listener_open(l, protocol, (struct sockaddr *)&in, sizeof(in), false);
}

static in_port_t port_of(const struct listener *l)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    ck_assert(getsockname(l->fd, (struct sockaddr *)&sa, &len) == 0);
    /* The port is at the same offset for both families. */
    return ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port);
}

static int connect_port(in_port_t port)
{
    struct sockaddr_in in = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(fd >= 0 && connect(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
    return fd;
}

TEST(port_0_is_any_port_and_told)
{
    struct protocol protocol = {.row = &toy_row};
    struct listener a, b;
    char where[64];
    ck_assert(open_v4(&a, &protocol, 0));
    ck_assert(open_v4(&b, &protocol, 0));
    ck_assert_uint_ne(port_of(&a), 0);
    ck_assert_uint_ne(port_of(&a), port_of(&b));
    ck_assert_ptr_eq(a.protocol, &protocol);
    snprintf(where, sizeof(where), "127.0.0.1:%u", port_of(&a));
    ck_assert_str_eq(a.where, where);
    close(connect_port(port_of(&a)));
    listener_close(&a);
    ck_assert_int_eq(a.fd, -1);
    listener_close(&a);
    listener_close(&b);
}

TEST(port_in_use_is_an_error_that_names_it)
{
    struct protocol protocol = {.row = &toy_row};
    struct listener first, second;
    ck_assert(open_v4(&first, &protocol, 0));
    in_port_t port = port_of(&first);
    ck_assert(!open_v4(&second, &protocol, port));
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert_int_eq(second.fd, -1);
    ck_assert_str_eq(second.where, first.where);
    listener_close(&second);
}

/* ---- accepting ----------------------------------------------------------------------------- */

/* Makes a server that listens, whose workers do not run yet; returns its port. */
static in_port_t make_listening(struct toy_server *s, unsigned count)
{
    toy_make(s, count, toy_limits());
    ck_assert(open_v4(&s->listener, &s->protocol, 0));
    for (unsigned i = 0; i < count; i++) {
        s->acceptors[i] = acceptor_new(s->server.workers[i], &s->listener, 1);
        ck_assert(s->acceptors[i] != NULL);
    }
    return port_of(&s->listener);
}

static in_port_t start_listening(struct toy_server *s, unsigned count)
{
    in_port_t port = make_listening(s, count);
    toy_run(s);
    return port;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);
    CHECK(getsockopt(fd, level, name, &value, &len) == 0);
    return value;
}

static void look_at_options(struct worker *worker, void *arg)
{
    const uint64_t *tag = arg;
    const struct conn *conn = conn_by_tag(worker, *tag);
    CHECK(conn);
    int fd = conn->stream.fd;
    CHECK(option(fd, IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) == 15);
    CHECK(option(fd, IPPROTO_TCP, TCP_KEEPINTVL) == 5);
    CHECK(option(fd, IPPROTO_TCP, TCP_KEEPCNT) == 3);
    CHECK(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) == 30000);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

TEST(accepted_socket_has_the_options_that_clients_rely_on)
{
    struct toy_server s;
    in_port_t port = start_listening(&s, 1);
    ck_assert(fcntl(s.listener.fd, F_GETFL) & O_NONBLOCK);
    ck_assert(fcntl(s.listener.fd, F_GETFD) & FD_CLOEXEC);
    int client = connect_port(port);
    uint64_t tag = ask_names(client).tag;
    in_worker(&s, 0, look_at_options, &tag);
    close(client);
    toy_stop(&s);
}

TEST(connections_beyond_the_limit_are_closed_at_once_and_counted)
{
    enum { LIMIT = 5, MORE = 20 };
    struct toy_server s;
    in_port_t port = make_listening(&s, 2);
    s.protocol.max_connections = LIMIT;
    toy_run(&s);
    int clients[LIMIT], refused[MORE];
    for (int i = 0; i < LIMIT; i++) {
        clients[i] = connect_port(port);
        (void)ask_names(clients[i]);
    }
    for (unsigned i = 0; i < MORE; i++) {
        refused[i] = connect_port(port);
        expect_end(refused[i]);
        WAIT_UNTIL(toy_closed(&s, CLOSE_REFUSED) == i + 1);
        close(refused[i]);
    }
    ck_assert_uint_eq(atomic_load(&s.protocol.connections), LIMIT);
    ck_assert_uint_eq(atomic_load(&s.protocol.connections_made), LIMIT);
    ck_assert_uint_eq(atomic_load(&s.protocol.accept_errors), 0);
    for (int i = 0; i < LIMIT; i++) /* the clients admitted before are still served */
        (void)ask_names(clients[i]);
    close(clients[0]);
    WAIT_UNTIL(atomic_load(&s.protocol.connections) == LIMIT - 1);
    clients[0] = connect_port(port);
    (void)ask_names(clients[0]);
    for (int i = 0; i < LIMIT; i++)
        close(clients[i]);
    toy_stop(&s);
    ck_assert_uint_eq(toy_closed(&s, CLOSE_REFUSED), MORE);
}

/* ---- out of descriptors --------------------------------------------------------------------- */

enum { DESCRIPTORS = 200, WAITING = 10, SPARE = 4 };
#define RETRY_NS (100 * NS_PER_MS)

/* Uses up descriptors until SPARE are left; writes them to fds, with -1 after the last. */
static void use_up(int *fds)
{
    struct rlimit limit;
    ck_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = DESCRIPTORS;
    ck_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int count = 0;
    while ((fds[count] = dup(0)) >= 0)
        ck_assert_int_lt(++count, DESCRIPTORS);
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_ge(count, SPARE + 1);
    for (int i = 0; i < SPARE; i++) {
        close(fds[--count]);
        fds[count] = -1;
    }
}

/* The processor time that the worker's thread has used. */
static int64_t cpu_time_ns(const struct worker *worker)
{
    clockid_t id;
    struct timespec used;
    ck_assert(pthread_getcpuclockid(worker->reactor.thread.id, &id) == 0 &&
              clock_gettime(id, &used) == 0);
    return used.tv_sec * NS_PER_S + used.tv_nsec;
}

/* The number of clients that have an answer to read. */
static unsigned served(const int *clients)
{
    unsigned count = 0;
    for (int i = 0; i < WAITING; i++) {
        char byte;
        count += recv(clients[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
    }
    return count;
}

TEST(without_descriptors_it_waits_without_spinning_and_goes_on_when_one_is_free)
{
    struct toy_server s;
    int fds[DESCRIPTORS + 1], clients[WAITING];
    in_port_t port = make_listening(&s, 1);
    for (int i = 0; i < WAITING; i++) {
        clients[i] = connect_port(port);
        send_text(clients[i], "ehi\n");
    }
    use_up(fds);
    int64_t began_ns = clock_mono_ns();
    toy_run(&s);
    WAIT_UNTIL(served(clients) == SPARE);

    /* The worker retries at intervals: each attempt but the first comes after RETRY_NS. */
    for (uint64_t looks = 1; looks <= 5; looks++) {
        WAIT_UNTIL(atomic_load(&s.protocol.accept_errors) >= looks);
        ck_assert_int_ge(clock_mono_ns() - began_ns, (int64_t)(looks - 1) * RETRY_NS);
    }
    ck_assert_uint_eq(served(clients), SPARE);
    ck_assert_uint_eq(worker_connections(s.server.workers[0]), SPARE);
    int64_t looks_ns = clock_mono_ns() - began_ns;
    ck_assert_uint_le(atomic_load(&s.protocol.accept_errors), (uint64_t)(looks_ns / RETRY_NS) + 1);
    ck_assert_int_lt(cpu_time_ns(s.server.workers[0]), looks_ns / 2);

    /* Meanwhile the worker serves the clients that it has. */
    for (int i = 0, found = 0; i < WAITING && !found; i++) {
        char byte;
        if (recv(clients[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1) {
            expect(clients[i], "hi\n");
            send_text(clients[i], "estill\nehi\n");
            expect(clients[i], "still\n");
            found = 1;
        }
    }

    /* It accepts one more client for each that ends, and for each descriptor freed elsewhere. */
    WAIT_UNTIL(served(clients) == SPARE);
    int gone = 0;
    for (int i = 0; i < WAITING && !gone; i++) {
        char byte;
        if (recv(clients[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1) {
            /* The client's own descriptor stays open. */
            ck_assert(shutdown(clients[i], SHUT_WR) == 0);
            gone = 1;
        }
    }
    WAIT_UNTIL(served(clients) == SPARE + 1);
    close(fds[0]);
    WAIT_UNTIL(served(clients) == SPARE + 2);
    ck_assert_uint_eq(worker_connections(s.server.workers[0]), SPARE + 1);
    for (int i = 1; fds[i] >= 0; i++)
        close(fds[i]);
    WAIT_UNTIL(served(clients) == WAITING);
    int late = connect_port(port); /* afterwards it accepts as before */
    (void)ask_names(late);
    close(late);
    for (int i = 0; i < WAITING; i++)
        close(clients[i]);
    toy_stop(&s);
    ck_assert_uint_eq(atomic_load(&s.protocol.connections_made), WAITING + 1);
}

/* Another process shuts the socket down: accepting fails at once, every time. Only this
 * listener rests. */
TEST(listener_whose_accepts_keep_failing_rests)
{
    struct toy_server s;
    struct listener listeners[2];
    toy_make(&s, 1, toy_limits());
    ck_assert(open_v4(&listeners[0], &s.protocol, 0) && open_v4(&listeners[1], &s.protocol, 0));
    s.acceptors[0] = acceptor_new(s.server.workers[0], listeners, 2);
    ck_assert(s.acceptors[0] != NULL);
    toy_run(&s);
    int64_t began_ns = clock_mono_ns();
    ck_assert(shutdown(listeners[0].fd, SHUT_RDWR) == 0);
    for (uint64_t looks = 1; looks <= 5; looks++) {
        WAIT_UNTIL(atomic_load(&s.protocol.accept_errors) >= looks);
        ck_assert_int_ge(clock_mono_ns() - began_ns, (int64_t)(looks - 1) * RETRY_NS);
        int client = connect_port(port_of(&listeners[1]));
        (void)ask_names(client);
        close(client);
    }
    struct log_counts counts;
    log_get_counts(&counts);
    ck_assert_uint_eq(counts.lines[LOG_LEVEL_WARNING], 1); /* said once */
    ck_assert_uint_eq(counts.left_out, 0);
    toy_stop(&s);
    listener_close(&listeners[0]);
    listener_close(&listeners[1]);
}

/* ---- spreading ------------------------------------------------------------------------------ */

enum { LONG_LIVED = 100 };

static void expect_spread(struct toy_server *s, uint32_t beyond)
{
    uint32_t least = UINT32_MAX, most = 0, all = 0;
    for (unsigned i = 0; i < s->server.count; i++) {
        uint32_t n = worker_connections(s->server.workers[i]);
        least = n < least ? n : least;
        most = n > most ? n : most;
        all += n;
    }
    ck_assert_uint_eq(all, LONG_LIVED);
    ck_assert_msg(most <= least + least / 8 + 3 + beyond, "from %u to %u", least, most);
}

/*
 * A worker keeps a connection that it accepted if it has at most 2 and an eighth more than the
 * worker with the fewest. So no worker gets more than 3 and an eighth beyond the fewest.
 */
static void one_after_the_other(unsigned workers)
{
    struct toy_server s;
    in_port_t port = start_listening(&s, workers);
    int clients[LONG_LIVED];
    for (int i = 0; i < LONG_LIVED; i++) {
        clients[i] = connect_port(port);
        (void)ask_names(clients[i]);
    }
    expect_spread(&s, 0);
    for (int i = 0; i < LONG_LIVED; i++) { /* no connection is lost */
        send_text(clients[i], "ehi\n");
        expect(clients[i], "hi\n");
        close(clients[i]);
    }
    toy_stop(&s);
    ck_assert_uint_eq(atomic_load(&s.protocol.connections_made), LONG_LIVED);
    ck_assert_uint_eq(atomic_load(&s.protocol.accept_errors), 0);
}

TEST(long_lived_connections_are_spread_evenly_over_four_workers)
{
    one_after_the_other(4);
}

/* The shares hold even if one worker accepts everything. */
TEST(worker_that_accepts_all_keeps_its_share)
{
    for (unsigned workers = 1; workers <= TOY_WORKERS; workers++) {
        struct toy_server s;
        toy_make(&s, workers, toy_limits());
        ck_assert(open_v4(&s.listener, &s.protocol, 0));
        s.acceptors[0] = acceptor_new(s.server.workers[0], &s.listener, 1);
        ck_assert(s.acceptors[0] != NULL);
        toy_run(&s);
        int clients[LONG_LIVED];
        for (int i = 0; i < LONG_LIVED; i++) {
            clients[i] = connect_port(port_of(&s.listener));
            (void)ask_names(clients[i]);
        }
        expect_spread(&s, 0);
        for (int i = 0; i < LONG_LIVED; i++)
            close(clients[i]);
        toy_stop(&s);
    }
}

/*
 * All connect at once, as after a restart. Workers that decide at the same moment may each have one
 * more.
 */
static void all_at_once(unsigned workers)
{
    struct toy_server s;
    in_port_t port = make_listening(&s, workers);
    int clients[LONG_LIVED];
    for (int i = 0; i < LONG_LIVED; i++) {
        clients[i] = connect_port(port);
        send_text(clients[i], "ehi\n");
    }
    toy_run(&s);
    for (int i = 0; i < LONG_LIVED; i++)
        expect(clients[i], "hi\n");
    expect_spread(&s, workers);
    for (int i = 0; i < LONG_LIVED; i++)
        close(clients[i]);
    toy_stop(&s);
    ck_assert_uint_eq(atomic_load(&s.protocol.connections_made), LONG_LIVED);
}

TEST(connections_that_come_all_at_once_are_spread_evenly)
{
    all_at_once(2);
    all_at_once(4);
}

TEST(connections_on_their_way_to_a_worker_that_ends_are_closed)
{
    for (int round = 0; round < 20; round++) {
        struct toy_server s;
        in_port_t port = make_listening(&s, 4);
        int clients[LONG_LIVED];
        for (int i = 0; i < LONG_LIVED; i++)
            clients[i] = connect_port(port);
        toy_run(&s);
        WAIT_UNTIL(atomic_load(&s.toy.opened) > (unsigned)round);
        toy_stop(&s); /* checks that the counts balance */
        for (int i = 0; i < LONG_LIVED; i++) {
            char byte;
            ck_assert(receive(clients[i], &byte, 1) <= 0);
            close(clients[i]);
        }
    }
}

static const struct unit_test tests[] = {
    UNIT(port_0_is_any_port_and_told),
    UNIT(port_in_use_is_an_error_that_names_it),
    UNIT(accepted_socket_has_the_options_that_clients_rely_on),
    UNIT(connections_beyond_the_limit_are_closed_at_once_and_counted),
    UNIT(listener_whose_accepts_keep_failing_rests),
    UNIT(without_descriptors_it_waits_without_spinning_and_goes_on_when_one_is_free),
    UNIT(long_lived_connections_are_spread_evenly_over_four_workers),
    UNIT(worker_that_accepts_all_keeps_its_share),
    UNIT(connections_that_come_all_at_once_are_spread_evenly),
    UNIT(connections_on_their_way_to_a_worker_that_ends_are_closed),
};

UNIT_MAIN("net/listener", tests)
