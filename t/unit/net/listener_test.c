/* listener_test.c - accepting, and the distribution of connections over workers. */
#include "net/listener.h"

#include "t/unit/net/toy.h"

#include <netinet/tcp.h>

/* ---- listening ------------------------------------------------------------------------------- */

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

/* ---- accepting ------------------------------------------------------------------------------- */

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

/* ---- spreading ------------------------------------------------------------------------------- */

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

UNIT_MAIN("net/listener")
