/* admission_test.c - which connections may come in, asked directly: the order of the reasons, what
 * is counted, and that a refusal leaves nothing counted. */
#include "net/admission.h"

#include "t/unit/net/secure.h"

static struct server server;
static const struct protocol_row row = {.name = "admitted"};
static struct protocol protocol = {.row = &row};

static struct worker *begin(const struct rules_config *config)
{
    struct rules *rules = rules_new(config);
    ck_assert(rules != NULL);
    server_set_rules(&server, rules);
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
    ck_assert_uint_eq(sources_count(&server.sources), 0);
    worker_drain(server.workers[0]);
    worker_free(&server.workers[0]);
    server_free_rules(&server);
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
    struct rules_config config = {.limits = toy_limits(), .allow = &allow, .allow_count = 1};
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
    struct rules_config config = {.limits = toy_limits()};
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
    ck_assert_uint_eq(sources_count(&server.sources), 1); /* that of the refused is given back */
    ck_assert_uint_eq(atomic_load(&protocol.connections), 2);
    leave(&guests[0]);
    ck_assert(enter(worker, &guests[2], "192.0.2.1"));
    leave(&guests[1]);
    leave(&guests[2]);
    end();
}

/* A handshake from 192.0.2.`number`. */
static struct claim *shake(struct worker *worker, unsigned number)
{
    char text[32];
    snprintf(text, sizeof(text), "192.0.2.%u", number);
    struct sockaddr_in in = address(text);
    uint32_t source = source_enter(&server.sources, (struct sockaddr *)&in, UINT32_MAX);
    struct claim *claim = admission_handshake(worker, &protocol, number, -1, &source);
    source_leave(&server.sources, source); /* its guest stays */
    return claim;
}

TEST(handshakes_are_limited_and_need_a_certificate)
{
    struct pki pki;
    pki_make(&pki);
    struct rules_config config = {.limits = toy_limits(),
                                  .tls = pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2)};
    config.limits.handshakes = 4;
    struct worker *worker = begin(&config);
    struct guest guests[6] = {0};
    struct claim *claims[ARRAY_SIZE(guests)];
    for (unsigned i = 0; i < ARRAY_SIZE(guests); i++) {
        char text[32];
        snprintf(text, sizeof(text), "192.0.2.%u", i);
        struct sockaddr_in in = address(text);
        guests[i].stream.fd = local_pair(SOCK_STREAM, &guests[i].client);
        guests[i].source = source_enter(&server.sources, (struct sockaddr *)&in, UINT32_MAX);
        atomic_fetch_add(&protocol.connections, 1);
    }
    for (unsigned i = 0; i < 4; i++) {
        struct conn heard = {.worker = worker, .claim = claims[i] = shake(worker, i)};
        ck_assert(claims[i] != NULL);
        claim_heard(&heard);
    }
    ck_assert(!shake(worker, 4));
    ck_assert(!shake(worker, 0)); /* it has its quarter */
    ck_assert_uint_eq(atomic_load(&server.handshakes), 4);
    claim_end(worker, &claims[0]);
    ck_assert(!shake(worker, 1));
    claims[0] = shake(worker, 0);
    ck_assert(claims[0] != NULL);
    for (unsigned i = 0; i < 4; i++)
        claim_end(worker, &claims[i]);
    uint32_t unknown = 0; /* it is asked for, and counted */
    claims[0] = admission_handshake(worker, &protocol, 1, guests[0].stream.fd, &unknown);
    ck_assert(claims[0] && unknown);
    ck_assert_uint_eq(sources_count(&server.sources), ARRAY_SIZE(guests) + 1);
    claim_end(worker, &claims[0]);
    source_leave(&server.sources, unknown);
    for (unsigned i = 0; i < ARRAY_SIZE(guests); i++)
        leave(&guests[i]);
    ck_assert_uint_eq(atomic_load(&server.handshakes), 0);
    end();
    worker = begin(&(struct rules_config){.limits = toy_limits()}); /* none to show */
    ck_assert(!admission_handshake(worker, &protocol, 0, -1, &unknown));
    end();
    pki_remove(&pki);
}

TEST(oldest_silent_handshake_goes_of_the_source_with_a_quarter_or_of_all)
{
    enum { ALL = 12, QUARTER = ALL / 4 };
    struct pki pki;
    pki_make(&pki);
    struct rules_config config = {.limits = toy_limits(),
                                  .tls = pki_tls(&pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2)};
    config.limits.handshakes = ALL;
    struct worker *worker = begin(&config);
    struct claim *claims[ALL], *newer;
    uint32_t sources[ALL];
    for (unsigned i = 0; i < ALL; i++) { /* each source is held, whatever becomes of its claims */
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000200 + i)};
        sources[i] = source_enter(&server.sources, (struct sockaddr *)&in, UINT32_MAX);
    }
    for (unsigned i = 0; i < ALL; i++)
        ck_assert((claims[i] = shake(worker, i / QUARTER)) != NULL);
    struct conn heard = {.worker = worker, .claim = claims[0]};
    claim_heard(&heard);
    newer = shake(worker, 0); /* instead of number 1, the oldest of its source that is silent */
    ck_assert(newer && atomic_load(&server.handshakes) == ALL);
    claims[1] = newer;
    newer = shake(worker, 11); /* instead of number 2, the oldest of all */
    ck_assert(newer && atomic_load(&server.handshakes) == ALL);
    claims[2] = newer;
    for (unsigned i = 0; i < ALL; i++) {
        heard.claim = claims[i];
        claim_heard(&heard);
    }
    ck_assert(!shake(worker, 11) && !shake(worker, 0));
    for (unsigned i = 0; i < ALL; i++)
        claim_end(worker, &claims[i]);
    for (unsigned i = 0; i < ALL; i++)
        source_leave(&server.sources, sources[i]);
    end();
    pki_remove(&pki);
}

TEST(connection_whose_handshake_may_not_begin_is_counted_as_made_and_ended)
{
    struct rules_config config = {.limits = toy_limits()};
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
