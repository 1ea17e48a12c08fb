/* admission_test.c - which connections may come in, asked directly: the order of the reasons, what
 * is counted, and that a refusal leaves nothing counted. */
#include "net/worker_internal.h"

#include "t/unit/net/secure.h"

static struct server server;
static const struct protocol_row row = {.name = "admitted"};
static struct protocol protocol = {.row = &row};

static struct worker *begin(const struct snapshot_config *config)
{
    struct snapshot *snapshot = snapshot_new(config);
    ck_assert(snapshot != NULL);
    server_set_snapshot(&server, snapshot);
    server.workers[0] = worker_new(&server, 0);
    server.count = 1;
    ck_assert(server.workers[0] != NULL);
    return server.workers[0];
}

/* Nothing is counted any more. */
static void end(void)
{
    ck_assert_uint_eq(atomic_load(&protocol.connections), 0);
    ck_assert_uint_eq(atomic_load(&server.handshakes), 0);
    ck_assert_uint_eq(server.sources.count, 0);
    worker_drain(server.workers[0]);
    worker_free(&server.workers[0]);
    server_free_snapshot(&server);
}

static struct access_network network(const char *text)
{
    struct access_network network;
    ck_assert(access_parse(text, strlen(text), &network));
    return network;
}

static struct sockaddr_in address(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4711)};
    ck_assert(inet_pton(AF_INET, text, &in.sin_addr) == 1);
    return in;
}

/* A connection that asks to come in. */
struct guest {
    struct stream stream;
    int client;
    uint32_t source;
};

/* `from`: NULL: its address is not asked for. */
static bool enter(struct worker *worker, struct guest *guest, const char *from)
{
    struct sockaddr_in in = address(from ? from : "127.0.0.1");
    *guest = (struct guest){.source = UINT32_MAX};
    guest->stream.fd = local_pair(SOCK_STREAM, &guest->client);
    return admission_enter(worker, &protocol, &guest->stream, from ? (struct sockaddr *)&in : NULL,
                           &guest->source);
}

/* It ends, as its worker would have it. */
static void leave(struct guest *guest)
{
    source_leave(&server.sources, guest->source);
    atomic_fetch_sub(&protocol.connections, 1);
    stream_close(&guest->stream);
    close(guest->client);
}

/* It was closed, and counted by its reason alone. */
static void expect_refused(struct guest *guest, enum close_reason reason, uint64_t count)
{
    ck_assert_int_eq(guest->stream.fd, -1);
    ck_assert_uint_eq(atomic_load(&protocol.closed[reason]), count);
    expect_end(guest->client);
    close(guest->client);
}

TEST(address_that_is_not_allowed_is_denied_first)
{
    struct access_network allow = network("192.0.2.0/24");
    struct snapshot_config config = {.limits = toy_limits(), .allow = &allow, .allow_count = 1};
    config.limits.per_source = 1;
    struct worker *worker = begin(&config);
    struct guest guest, other;
    ck_assert(admission_asks_address(worker));
    atomic_store(&protocol.max_connections, 1);
    ck_assert(enter(worker, &guest, "192.0.2.1"));
    ck_assert(!enter(worker, &other, "198.51.100.1")); /* its number and address were too many */
    expect_refused(&other, CLOSE_DENIED, 1);
    ck_assert_uint_eq(atomic_load(&protocol.closed[CLOSE_SOURCE]), 0);
    ck_assert_uint_eq(atomic_load(&protocol.closed[CLOSE_REFUSED]), 0);
    leave(&guest);
    ck_assert(enter(worker, &guest, NULL)); /* a unix socket's */
    leave(&guest);
    end();
}

TEST(connections_of_one_address_are_limited_before_those_of_all)
{
    struct snapshot_config config = {.limits = toy_limits()};
    config.limits.per_source = 2;
    struct worker *worker = begin(&config);
    struct guest guests[3], other;
    ck_assert(admission_asks_address(worker));
    atomic_store(&protocol.max_connections, 2);
    ck_assert(enter(worker, &guests[0], "192.0.2.1") && enter(worker, &guests[1], "192.0.2.1"));
    ck_assert_uint_ne(guests[0].source, 0);
    ck_assert(!enter(worker, &other, "192.0.2.1"));
    expect_refused(&other, CLOSE_SOURCE, 1);
    ck_assert(!enter(worker, &other, "192.0.2.2"));
    expect_refused(&other, CLOSE_REFUSED, 1);
    ck_assert_uint_eq(server.sources.count, 1); /* that of the refused is given back */
    ck_assert_uint_eq(atomic_load(&protocol.connections), 2);
    leave(&guests[0]);
    ck_assert(enter(worker, &guests[2], "192.0.2.1"));
    leave(&guests[1]);
    leave(&guests[2]);
    end();
}

TEST(connection_whose_handshake_may_not_begin_is_counted_as_made_and_ended)
{
    struct snapshot_config config = {.limits = toy_limits()};
    config.limits.per_source = 1;
    struct worker *worker = begin(&config);
    struct guest guest;
    for (unsigned i = 1; i <= 3; i++) {
        ck_assert(enter(worker, &guest, "192.0.2.1"));
        ck_assert(!admission_handshake(worker, &protocol, 0, guest.stream.fd, &guest.source));
        admission_leave(worker, &protocol, &guest.stream, guest.source);
        expect_refused(&guest, CLOSE_HANDSHAKE, i);
        ck_assert_uint_eq(atomic_load(&protocol.connections_made), i);
    }
    end();
}

UNIT_MAIN("admission")
