/*
 * rules_test.c - rules that change while workers run, the clients that they admit, and what
 * operators see of connections.
 */
#include "net/rules.h"

#include "t/unit/net/secure.h"

#include <inttypes.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/un.h>

/* ---- helpers ------------------------------------------------------------------------------- */

static in_port_t port_of(const struct listener *l)
{
    struct sockaddr_in in;
    socklen_t len = sizeof(in);
    ck_assert(getsockname(l->fd, (struct sockaddr *)&in, &len) == 0);
    return ntohs(in.sin_port);
}

/* Makes a server listen on 127.0.0.1 or on all addresses of both families; it does not run yet. */
static void listen_there(struct toy_server *s, bool everywhere, bool tls)
{
    struct sockaddr_in in = loopback(0);
    if (everywhere) {
        /* An inherited socket can accept both families; one that the server opens itself cannot. */
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
        int off = 0, fd = socket(AF_INET6, SOCK_STREAM, 0);
        ck_assert(fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
                  bind(fd, (struct sockaddr *)&in6, sizeof(in6)) == 0 && listen(fd, 100) == 0);
        ck_assert(listener_adopt(&s->listener, &s->protocol, fd, tls));
    } else {
        ck_assert(
            listener_open(&s->listener, &s->protocol, (struct sockaddr *)&in, sizeof(in), tls));
    }
    for (unsigned i = 0; i < s->server.count; i++) {
        s->acceptors[i] = acceptor_new(s->server.workers[i], &s->listener, 1);
        ck_assert(s->acceptors[i] != NULL);
    }
}

/* A client with this source address, one of 127.x.y.z. */
static int connect_from(const struct toy_server *s, const char *from)
{
    struct sockaddr_in in = {.sin_family = AF_INET}, to = loopback(port_of(&s->listener));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(fd >= 0 && inet_pton(AF_INET, from, &in.sin_addr) == 1);
    ck_assert(bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0 &&
              connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

/* A client from ::1; -1 if this machine has no IPv6. */
static int connect_v6(const struct toy_server *s)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                              .sin6_port = htons(port_of(&s->listener))};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        return -1;
    return fd;
}

static void expect_served(int fd)
{
    send_text(fd, "ein\n");
    expect(fd, "in\n");
}

/* The server has closed without sending anything; a client that sent something gets a reset. */
static void expect_turned_away(int fd)
{
    char byte;
    ck_assert_int_le(receive(fd, &byte, 1), 0);
    close(fd);
}

static void set_rules(struct toy_server *s, struct server_limits limits, const char *networks)
{
    struct access_network list[8];
    size_t count = 0;
    for (const char *at = networks; *at;) {
        size_t len = strcspn(at, " ");
        ck_assert(access_parse(at, len, &list[count++]));
        at += len + (at[len] != '\0');
    }
    struct rules_config config = {.limits = limits, .allow = list, .allow_count = count};
    struct rules *rules = rules_new(&config);
    ck_assert(rules != NULL);
    server_set_rules(&s->server, rules);
}

static void nothing(struct worker *worker, void *arg)
{
    (void)worker;
    (void)arg;
}

/* Waits until all workers have the newest rules, because letters arrive in order. */
static void await_rules(struct toy_server *s)
{
    for (unsigned i = 0; i < s->server.count; i++)
        in_worker(s, i, nothing, NULL);
}

/* ---- admission ------------------------------------------------------------------------------- */

TEST(connections_of_one_address_are_limited_over_all_workers)
{
    enum { LIMIT = 6, OTHERS = 20 };
    struct toy_server s;
    struct server_limits limits = toy_limits();
    limits.per_source = LIMIT;
    toy_make(&s, 4, limits);
    listen_there(&s, false, false);
    toy_run(&s);
    int clients[LIMIT], others[OTHERS];
    for (int i = 0; i < LIMIT; i++) {
        clients[i] = connect_from(&s, "127.0.0.1");
        expect_served(clients[i]);
    }
    for (unsigned i = 0; i < 20; i++) {
        expect_turned_away(connect_from(&s, "127.0.0.1"));
        WAIT_UNTIL(toy_closed(&s, CLOSE_SOURCE) == i + 1);
    }
    for (int i = 0; i < OTHERS; i++) { /* each address has its own count */
        char from[32];
        snprintf(from, sizeof(from), "127.0.1.%d", i / 2);
        others[i] = connect_from(&s, from);
        expect_served(others[i]);
    }
    ck_assert_uint_eq(sources_count(&s.server.sources), 1 + OTHERS / 2);
    /* When one leaves, another can come. */
    close(clients[0]);
    WAIT_UNTIL(atomic_load(&s.protocol.connections) == LIMIT + OTHERS - 1);
    clients[0] = connect_from(&s, "127.0.0.1");
    expect_served(clients[0]);
    expect_turned_away(connect_from(&s, "127.0.0.1"));
    for (int i = 0; i < OTHERS; i++)
        close(others[i]);
    WAIT_UNTIL(atomic_load(&s.protocol.connections) == LIMIT);
    ck_assert_uint_eq(sources_count(&s.server.sources), 1);
    /* Without a limit no connection is counted; those admitted then stay uncounted. */
    limits.per_source = 0;
    set_rules(&s, limits, "");
    await_rules(&s);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = connect_from(&s, "127.0.0.1");
        expect_served(others[i]);
    }
    limits.per_source = LIMIT + 1;
    set_rules(&s, limits, "");
    await_rules(&s);
    int one_more = connect_from(&s, "127.0.0.1");
    expect_served(one_more);
    expect_turned_away(connect_from(&s, "127.0.0.1"));
    for (int i = 0; i < LIMIT; i++)
        close(clients[i]);
    for (int i = 0; i < OTHERS; i++)
        close(others[i]);
    close(one_more);
    toy_stop(&s); /* checks that no address is counted any more */
}

/* The same for a connection closed because of its handshake. */
TEST(source_is_free_again_after_a_failed_handshake)
{
    struct pki pki;
    pki_make(&pki);
    struct toy_server s;
    struct server_limits limits = toy_limits();
    limits.per_source = 1;
    limits.handshakes = 1;
    toy_make(&s, 1, limits);
    s.secure = true;
    listen_there(&s, false, true);
    secure_rules(&s, limits, pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    toy_run(&s);
    int idle = connect_from(&s, "127.0.0.9");
    WAIT_UNTIL(atomic_load(&s.server.handshakes) == 1);
    send_bytes(idle, "\x16", 1); /* it is not silent */
    for (unsigned i = 0; i < 3; i++)
        server_barrier(&s.server);
    for (unsigned i = 0; i < 10; i++) {
        expect_turned_away(connect_from(&s, "127.0.0.1"));
        WAIT_UNTIL(toy_closed(&s, CLOSE_HANDSHAKE) == i + 1);
    }
    ck_assert_uint_eq(sources_count(&s.server.sources), 1);
    close(idle);
    WAIT_UNTIL(atomic_load(&s.server.handshakes) == 0);
    struct secure_client c = client_new(connect_from(&s, "127.0.0.1"), TLS1_3_VERSION);
    ck_assert_int_eq(SSL_do_handshake(c.ssl), 1);
    client_send(&c, "ein\n");
    client_expect(&c, "in\n");
    expect_turned_away(connect_from(&s, "127.0.0.1"));
    client_free(&c);
    toy_stop(&s);
    pki_remove(&pki);
}

/* ---- rules that change ------------------------------------------------------------------------
 */

struct talker {
    struct toy_server *server;
    pthread_t thread;
    _Atomic bool over;
    unsigned number;
    unsigned rounds;
};

/* Connects, asks for large answers and leaves, again and again. */
static void *talk(void *arg)
{
    struct talker *t = arg;
    while (!atomic_load(&t->over)) {
        char from[32];
        snprintf(from, sizeof(from), "127.0.0.%u", t->number + 1);
        int fd = connect_from(t->server, from);
        const char *requests = "ehi\nb40000\nd500\neunfinished";
        (void)!send(fd, requests, strlen(requests), MSG_NOSIGNAL);
        char bytes[4096];
        size_t got = 0;
        while (got < 40000) { /* the server may refuse or close the connection */
            ssize_t n = receive(fd, bytes, sizeof(bytes));
            if (n <= 0)
                break;
            got += (size_t)n;
        }
        close(fd);
        t->rounds++;
    }
    return NULL;
}

TEST(rules_are_swapped_thousands_of_times_under_load)
{
    enum { TALKERS = 4, SWAPS = 3000 };
    static const char *const networks[] = {"", "127.0.0.0/8", "127.0.0.2 127.0.0.3", "::1"};
    struct toy_server s;
    struct talker talkers[TALKERS];
    toy_make(&s, 3, toy_limits());
    listen_there(&s, false, false);
    toy_run(&s);
    for (unsigned i = 0; i < TALKERS; i++) {
        talkers[i] = (struct talker){.server = &s, .number = i};
        ck_assert(pthread_create(&talkers[i].thread, NULL, talk, &talkers[i]) == 0);
    }
    for (unsigned i = 0; i < SWAPS; i++) {
        struct server_limits limits = toy_limits();
        limits.output_buffer = i % 3 ? 16 * 1024 : 256 * 1024;
        limits.per_source = i % 5;
        limits.request_timeout_ns = i % 7 ? 1000 * NS_PER_S : NS_PER_MS;
        set_rules(&s, limits, networks[i / 16 % 4]);
        if (i % 16 == 0)
            pause_ns(NS_PER_MS);
    }
    set_rules(&s, toy_limits(), "");
    await_rules(&s);
    for (unsigned i = 0; i < TALKERS; i++) {
        atomic_store(&talkers[i].over, true);
        ck_assert(pthread_join(talkers[i].thread, NULL) == 0);
        ck_assert_uint_gt(talkers[i].rounds, 0);
    }
    int client = connect_from(&s, "127.0.0.1");
    expect_served(client);
    close(client);
    toy_stop(&s);
}

/* ---- inspection ------------------------------------------------------------------------------ */

struct look {
    struct conn_info infos[16];
    unsigned count;
};

static void look_at_any(struct worker *worker, void *arg)
{
    struct look *look = arg;
    look->count = 0;
    for (uint32_t i = 0; i < worker_slots(worker); i++) {
        struct conn *conn = worker_conn_at(worker, i);
        if (conn && look->count < ARRAY_SIZE(look->infos))
            conn_describe(conn, &look->infos[look->count++]);
    }
}

/*
 * Checks that each of the test's connections is open and found by its id and its tag, and that
 * other ids and tags find nothing.
 */
static void look_at_all(struct worker *worker, void *arg)
{
    look_at_any(worker, arg);
    for (uint32_t i = 0; i < worker_slots(worker); i++) {
        struct conn *conn = worker_conn_at(worker, i);
        CHECK(!conn || conn_by_id(worker, conn_id(conn)) == conn);
        CHECK(!conn || conn_by_tag(worker, conn_tag(conn)) == conn);
        CHECK(!conn || conn_find(worker, conn_tag(conn)) == conn);
        CHECK(!conn || !conn_find(worker, conn_tag(conn) + 1));
        CHECK(!conn || conn_id_worker(conn_id(conn)) == worker_number(worker));
        CHECK(!conn || conn_by_id(worker, conn_id(conn) + CONN_ID_SECOND) == conn);
        CHECK(!conn || conn_id_worker(conn_id(conn) + CONN_ID_SECOND) == worker_number(worker));
        CHECK(!conn || conn_id_first(conn_id(conn) + CONN_ID_SECOND) == conn_id(conn));
        CHECK(!conn || conn_id_first(conn_id(conn)) == conn_id(conn));
    }
    CHECK(!worker_conn_at(worker, worker_slots(worker)));
    CHECK(!conn_by_id(worker, 0));
    CHECK(!conn_by_id(worker, worker_slots(worker) + 1 + (worker_number(worker) << 24)));
    CHECK(!conn_by_id(worker, 1 + ((worker_number(worker) + 1) << 24)));
    CHECK(!conn_by_id(worker, 1 + ((worker_number(worker) + 1) << 24) + CONN_ID_SECOND));
}

static void describe_toy(struct conn *conn, struct conn_info *info)
{
    const struct toy_session *session = conn_session(conn);
    CHECK(session->open);
    info->holds = 3;
    info->waits = 1;
}

TEST(connections_are_described)
{
    struct toy_server s;
    struct look look;
    toy_make(&s, 2, toy_limits());
    s.row.describe = describe_toy;
    listen_there(&s, true, false);
    struct moment before = clock_now();
    toy_run(&s);
    int local, plain = connect_from(&s, "127.0.0.7"), six = connect_v6(&s);
    expect_served(plain);
    if (six >= 0)
        expect_served(six);
    int fd = local_pair(SOCK_STREAM, &local);
    struct toy_opening opening = {.protocol = &s.protocol, .fd = fd, .transport = TRANSPORT_UNIX};
    in_worker(&s, 1, toy_open_there, &opening);
    send_text(local, "b1000000\n");
    WAIT_UNTIL(atomic_load(&s.toy.queued_max) >= 1000000);
    char expected[3][CONN_PEER_TEXT];
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    ck_assert(getsockname(plain, (struct sockaddr *)&sa, &len) == 0);
    snprintf(expected[0], CONN_PEER_TEXT, "127.0.0.7:%u",
             ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port));
    snprintf(expected[1], CONN_PEER_TEXT, "unix pid %ld uid %lu", (long)getpid(),
             (unsigned long)getuid());
    expected[2][0] = '\0';
    if (six >= 0) {
        len = sizeof(sa);
        ck_assert(getsockname(six, (struct sockaddr *)&sa, &len) == 0);
        snprintf(expected[2], CONN_PEER_TEXT, "[::1]:%u",
                 ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port));
    }
    unsigned found = 0;
    for (unsigned w = 0; w < 2; w++) {
        in_worker(&s, w, look_at_all, &look);
        for (unsigned i = 0; i < look.count; i++) {
            const struct conn_info *info = &look.infos[i];
            bool is_local = strcmp(info->peer, expected[1]) == 0;
            ck_assert_msg(is_local || strcmp(info->peer, expected[0]) == 0 ||
                              strcmp(info->peer, expected[2]) == 0,
                          "%s", info->peer);
            ck_assert_int_eq(info->transport, is_local ? TRANSPORT_UNIX : TRANSPORT_TCP);
            ck_assert_ptr_eq(info->protocol, &s.protocol);
            ck_assert_uint_eq(conn_tag_worker(info->tag), w);
            ck_assert_int_ge(info->opened_ns, before.mono_ns - (INT64_C(1) << 24));
            ck_assert_int_le(info->opened_ns, clock_mono_ns());
            ck_assert((info->queued > 0) == is_local);
            ck_assert_uint_eq(info->holds, 3);
            ck_assert_uint_eq(info->waits, 1);
            found++;
        }
    }
    ck_assert_uint_eq(found, 2 + (six >= 0));
    close(plain);
    close(local);
    if (six >= 0)
        close(six);
    toy_stop(&s);
}

TEST(traffic_is_measured_for_each_worker)
{
    enum { REQUESTS = 300 };
    static struct traffic traffic[2];
    struct toy_server s;
    struct buckets_sum sum = {0};
    toy_make(&s, 2, toy_limits());
    s.protocol.traffic = traffic;
    toy_run(&s);
    int client = connect_local(&s, 1);
    for (int i = 0; i < REQUESTS / 2; i++) {
        send_text(client, "eab\necd\n"); /* 8 bytes, answered by 6 */
        expect(client, "ab\ncd\n");
    }
    send_text(client, "eunfinished"); /* read, but not a complete request */
    wait_taken(client);
    in_worker(&s, 1, nothing, NULL);
    ck_assert_uint_eq(tally_get(&traffic[1].requests), REQUESTS);
    ck_assert_uint_eq(tally_get(&traffic[1].received), REQUESTS * 4 + 11);
    ck_assert_uint_eq(tally_get(&traffic[1].sent), REQUESTS * 3);
    buckets_sum_up(&sum, &traffic[1].answers.buckets);
    ck_assert_uint_eq(buckets_sum_count(&sum), REQUESTS);
    ck_assert(sum.sum_ns > 0);
    ck_assert_uint_eq(traffic[1].unanswered, 0);
    /* A connection's last request counts, and one whose answer is under way. */
    send_text(client, "\nd1000\n");
    expect(client, "unfinished\n0\n1\n");
    int last = connect_local(&s, 1);
    send_text(last, "f\n");
    expect(last, "bye\n");
    expect_end(last);
    in_worker(&s, 1, nothing, NULL);
    ck_assert_uint_eq(tally_get(&traffic[1].requests), REQUESTS + 3);
    ck_assert_uint_eq(tally_get(&traffic[0].requests), 0);
    ck_assert_uint_eq(tally_get(&traffic[0].received), 0);
    ck_assert_uint_eq(tally_get(&traffic[0].sent), 0);
    close(client);
    close(last);
    toy_stop(&s);
}

/* ---- out of descriptors, with TLS --------------------------------------------------------------
 */

TEST(without_descriptors_tls_clients_wait_and_are_served_later)
{
    enum { DESCRIPTORS = 120, WAITING = 8 };
    struct pki pki;
    pki_make(&pki);
    struct toy_server s;
    struct rlimit limit;
    toy_make(&s, 1, toy_limits());
    s.secure = true;
    listen_there(&s, false, true);
    secure_rules(&s, toy_limits(), pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
    struct secure_client clients[WAITING];
    for (int i = 0; i < WAITING; i++)
        clients[i] = client_new(connect_from(&s, "127.0.0.1"), TLS1_3_VERSION);
    ck_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = DESCRIPTORS;
    ck_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int fds[DESCRIPTORS + 1], count = 0;
    while ((fds[count] = dup(0)) >= 0)
        count++;
    toy_run(&s);
    WAIT_UNTIL(atomic_load(&s.protocol.accept_errors) >= 2);
    ck_assert_uint_eq(atomic_load(&s.server.handshakes), 0);
    while (count > 0)
        close(fds[--count]);
    for (int i = 0; i < WAITING; i++) {
        ck_assert_int_eq(SSL_do_handshake(clients[i].ssl), 1);
        client_send(&clients[i], "ein\n");
        client_expect(&clients[i], "in\n");
        client_free(&clients[i]);
    }
    toy_stop(&s);
    pki_remove(&pki);
}

static const struct unit_test tests[] = {
    UNIT(connections_of_one_address_are_limited_over_all_workers),
    UNIT(source_is_free_again_after_a_failed_handshake),
    UNIT(rules_are_swapped_thousands_of_times_under_load),
    UNIT(connections_are_described),
    UNIT(traffic_is_measured_for_each_worker),
    UNIT(without_descriptors_tls_clients_wait_and_are_served_later),
};

UNIT_MAIN("net/rules", tests)
