/* listener_test.c - accepting, the distribution of connections over workers, and rules that change
 * meanwhile. */
#include "net/listener.h"

#include "base/log.h"
#include "net/rules.h"
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
    char where[64];
    in_port_t port = make_listening(&s, 1);
    toy_run(&s);
    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    ck_assert_str_eq(s.listener.where, where);
    ck_assert(fcntl(s.listener.fd, F_GETFL) & O_NONBLOCK);
    ck_assert(fcntl(s.listener.fd, F_GETFD) & FD_CLOEXEC);
    int client = connect_port(port);
    uint64_t tag = ask_names(client).tag;
    in_worker(&s, 0, look_at_options, &tag);
    close(client);
    toy_stop(&s);
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

    /* It tries again at intervals. */
    for (uint64_t looks = 1; looks <= 5; looks++) {
        WAIT_UNTIL(atomic_load(&s.protocol.accept_errors) >= looks);
        ck_assert_int_ge(clock_mono_ns() - began_ns, (int64_t)(looks - 1) * RETRY_NS);
    }
    ck_assert_uint_eq(served(clients), SPARE);
    ck_assert_uint_eq(worker_connections(s.server.workers[0]), SPARE);

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

/* ---- rules that change ---------------------------------------------------------------------- */

static void set_rules(struct toy_server *s, struct server_limits limits, const char *allowed)
{
    struct access_network network;
    ck_assert(!allowed || access_parse(allowed, strlen(allowed), &network));
    struct rules_config config = {
        .limits = limits, .allow = &network, .allow_count = allowed != NULL};
    struct rules *rules = rules_new(&config);
    ck_assert(rules != NULL);
    server_set_rules(&s->server, rules);
}

static struct talker {
    pthread_t thread;
    in_port_t port;
    unsigned rounds;
} talkers[4];
static _Atomic bool over;

/* Comes, asks for large answers and leaves, again and again. */
static void *talk(void *arg)
{
    struct talker *t = arg;
    for (; !atomic_load(&over); t->rounds++) {
        static const char requests[] = "ehi\nb40000\nd500\neunfinished";
        char bytes[4096];
        int fd = connect_port(t->port);
        (void)!send(fd, requests, strlen(requests), MSG_NOSIGNAL);
        ssize_t n = 1;
        for (size_t got = 0; got < 40000 && n > 0; got += (size_t)n) /* or it is not let in */
            n = receive(fd, bytes, sizeof(bytes));
        close(fd);
    }
    return NULL;
}

TEST(rules_are_swapped_thousands_of_times_under_load)
{
    static const char *const networks[] = {NULL, "127.0.0.0/8", "10.0.0.0/8"};
    struct toy_server s;
    in_port_t port = make_listening(&s, 3);
    toy_run(&s);
    for (size_t i = 0; i < ARRAY_SIZE(talkers); i++) {
        talkers[i].port = port;
        ck_assert(pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]) == 0);
    }
    for (unsigned i = 0; i < 3000; i++) {
        struct server_limits limits = toy_limits();
        limits.output_buffer = i % 3 ? 16 * 1024 : 256 * 1024;
        limits.per_source = i % 5;
        limits.request_timeout_ns = i % 7 ? 1000 * NS_PER_S : NS_PER_MS;
        set_rules(&s, limits, networks[i / 16 % 3]);
        if (i % 16 == 0)
            pause_ns(NS_PER_MS);
    }
    set_rules(&s, toy_limits(), NULL);
    server_barrier(&s.server);
    atomic_store(&over, true);
    for (size_t i = 0; i < ARRAY_SIZE(talkers); i++) {
        ck_assert(pthread_join(talkers[i].thread, NULL) == 0);
        ck_assert_uint_gt(talkers[i].rounds, 0);
    }
    int client = connect_port(port);
    (void)ask_names(client);
    close(client);
    toy_stop(&s);
}

UNIT_MAIN("net/listener")
