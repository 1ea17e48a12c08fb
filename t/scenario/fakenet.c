/*
 * fakenet.c - the daemon without a network: the real services, engine, workers and connections, on
 * a loop, streams and a clock (t/campaigns/simulate/fake.h) that a script controls.
 *
 * There is one thread, and nothing happens without a command, so a run is the same each time.
 * Commands come on standard input, one in each line:
 *
 *     start [KEY=VALUE...]     starts a server; the keys are those of ARGUMENT_ROWS
 *     open NAME text|binary|jobs [ADDRESS] [SHAKES]
 *                              a client connects, from an IPv4 address (127.0.0.1); over TLS, its
 *                              first SHAKES bytes are the handshake
 *     send NAME HEX            it sends bytes
 *     part NAME HEX            likewise, and they are a part of a TLS record that never ends
 *     eof NAME                 it shuts down its sending side
 *     reset NAME               its connection breaks
 *     window NAME N|all        it accepts only N more bytes
 *     stubborn NAME            it will not close after the server's last bytes
 *     advance NANOSECONDS      advances both clocks; deadlines on the way fire in order
 *     jump NANOSECONDS         advances both clocks at once, as for a stopped process
 *     unix SECONDS             sets the wall clock
 *     drain on|off             begins and ends a drain
 *     hold on|off              from `on` to `off` the server does nothing; then it does all at once
 *     counts PROTOCOL          prints the protocol's counters, as lines `count ...`
 *     upgrade WORKERS          another server takes over the state and the connections
 *     reload                   the server gets its settings again
 *     finish                   all clients leave; nothing may be left of them, nor of the server
 *
 * After each command come the events that it caused, `recv NAME HEX` and `closed NAME REASON`, and
 * then `ok`, or `error TEXT` for an invalid command.
 *
 * These keys of `start` make trouble, as `seed` chooses it:
 *
 *     workers=N    so many workers take turns; they share the clients
 *     split=N      what a client sends arrives in pieces of at most N bytes
 *     short=N      reads and writes move at most N bytes, or none
 *     slow=N       a client reads only when the server has nothing else to do: N bytes, then more
 *     amid=N       before one in N of those pieces and reads, and of the steps of an answer in
 *                  pieces, another server takes over
 *     refuse=N     allocation N gets no memory (event `refused`); `refuse_start`: of the start
 *     break=N      read or write N finds the connection broken (event `broke NAME`)
 *
 * `finish` tells how many allocations and calls there were: `info allocations 12`, `info calls 3`.
 */
#include "t/scenario/fakenet.h"

#include "net/listener.h"
#include "net/worker_internal.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clients --------------------------------------------------------------------------------- */

struct client {
    struct fake_peer peer; /* its descriptor is the client's number */
    struct client *next;
    char name[64];
    unsigned kind; /* of `kinds` */
    bool slow;
    size_t gulp; /* what it reads next, if it is slow */
};

static struct client **clients;
static int client_count;
static struct client *closing_order;

/* Up to this many reads and writes of a command are cut; the others are whole. */
#define CUT_MOST 2000
static unsigned cut;
static uint64_t calls;

/* How often a worker passed to another connection to write to it in this iteration; and at most, if
 * no client is slow (net/worker.c). */
static unsigned written;
static const struct fake_peer *last_written;
#define WRITTEN_MOST 512

/* Decides what a read or write may do (fake_hooks). */
static ssize_t on_call(struct fake_peer *peer, bool writes, size_t len)
{
    if (writes && peer != last_written) {
        written++;
        last_written = peer;
    }
    if (++calls == arguments[BREAK]) {
        printf("broke %s\n", clients[peer->fd]->name);
        peer->broken = true;
    }
    if (!arguments[SHORT] || ++cut > CUT_MOST)
        return (ssize_t)len;
    uint64_t most = rng_below(&rng, (uint32_t)arguments[SHORT] + 1);
    return most == 0 ? STREAM_AGAIN : most < len ? (ssize_t)most : (ssize_t)len;
}

/* ---- budget ---------------------------------------------------------------------------------- */

/* What a story may cost: steps (base/steps.h) for each byte that clients send or receive, and bytes
 * that each visit of the engines is worth, and that are free. Stories need at most 51 of the steps.
 * Neither what passing time causes counts, nor a story in trouble. */
enum { STEPS_OF_BYTE = 120, BYTES_OF_VISIT = 20, BYTES_FREE = 2000 };

static uint64_t traffic, work; /* bytes and steps, since the start */
static bool time_passes;

static void work_begins(void)
{
    steps_begin(STEPS_LOOP);
}

static void work_ends(void)
{
#ifdef COUNT_STEPS
    if (!time_passes)
        work += steps_done.steps - steps_at_begin[STEPS_LOOP].steps;
#endif
}

static const char *judge_work(void)
{
    static char why[100];
    struct pools_sums pools;
    struct jobs_stats jobs;
    pools_sums(pools_of(services), &pools);
    jobs_get_stats(jobs_of(services), &jobs);
    uint64_t bytes = traffic + BYTES_OF_VISIT * (pools.visited + jobs.visits) + BYTES_FREE;
    if (arguments[SEED] || work <= STEPS_OF_BYTE * bytes)
        return NULL;
    snprintf(why, sizeof(why), "%" PRIu64 " steps for %" PRIu64 " bytes", work, bytes);
    return why;
}

/* ---- iterations ------------------------------------------------------------------------------ */

static bool holds;

/* One iteration of a worker: handles everything that is ready, once. Returns false if nothing was.
 */
static bool turn(struct loop *loop)
{
    in_server = true;
    work_begins();
    uint64_t shakes = fake_shakes;
    written = 0;
    last_written = NULL;
    bool any = fake_turn(loop);
    CHECK(fake_shakes <= shakes + 1); /* one handshake goes on in an iteration */
    CHECK(written <= WRITTEN_MOST || arguments[SHORT] || arguments[SLOW]);
    work_ends();
    in_server = false;
    return any;
}

/* So many upgrades come amid a command. */
#define MOVES_MOST 10
static unsigned moves;

/* At times another server takes over, in the midst of a command. */
static void upgrade_amid(void)
{
    if (arguments[AMID] && rng_one_in(&rng, (uint32_t)arguments[AMID]) && ++moves <= MOVES_MOST)
        CHECK(!server_upgrade(server.count));
}

static bool answers_in_pieces(void)
{
    for (unsigned i = 0; i < server.count; i++) {
        for (uint32_t slot = 0; slot < worker_slots(server.workers[i]); slot++) {
            const struct conn *conn = worker_conn_at(server.workers[i], slot);
            if (conn && conn_in_pieces(conn))
                return true;
        }
    }
    return false;
}

/* Slow clients that the server waits for read a little, and more the next time. Returns false if
 * there are none. */
static bool read_slowly(void)
{
    bool any = false;
    for (int i = 0; i < client_count; i++) {
        struct client *c = clients[i];
        if (!c->slow || !c->peer.io || !(c->peer.io->wanted & LOOP_WRITE))
            continue;
        c->peer.window = c->gulp;
        c->gulp *= 2;
        any = true;
    }
    return any;
}

/* The clock stands still for so many turns without a read or write. */
#define TURNS_AT_ONCE 100

static void run_until_quiet(void)
{
    unsigned idle = 0, next = 0;
    uint64_t turns = 0, called = calls;
    for (int i = 0; i < client_count; i++)
        clients[i]->gulp = arguments[SLOW];
    while (idle < server.count) {
        next = server.count > 1 ? (next + 1 + rng_below(&rng, 2)) % server.count : 0;
        idle = turn(loop_of(next)) ? 0 : idle + 1;
        if (arguments[AMID] && idle == 0 && answers_in_pieces())
            upgrade_amid();
        turns = calls == called ? turns + 1 : 0;
        called = calls;
        if (turns > TURNS_AT_ONCE)
            fake_pass_time(1);      /* work in steps goes on when the clock has moved */
        if (idle >= server.count) { /* it may have looked at one of them twice */
            for (unsigned i = 0; i < server.count; i++)
                idle = turn(loop_of(i)) ? 0 : idle;
        }
        if (idle >= server.count && read_slowly()) {
            upgrade_amid();
            idle = 0;
        }
    }
}

static int64_t next_timer_ns(void)
{
    int64_t at_ns = INT64_MAX;
    for (unsigned i = 0; i < server.count; i++)
        at_ns = loop_of(i)->timer_at_ns < at_ns ? loop_of(i)->timer_at_ns : at_ns;
    return at_ns;
}

static void advance(int64_t ns)
{
    int64_t end_ns = fake_now.mono_ns + ns;
    run_until_quiet();
    time_passes = true;
    while (next_timer_ns() <= end_ns) {
        fake_pass_time(next_timer_ns() - fake_now.mono_ns);
        run_until_quiet();
    }
    fake_pass_time(end_ns - fake_now.mono_ns);
    run_until_quiet();
    time_passes = false;
}

/* ---- output to clients ----------------------------------------------------------------------- */

/* Prints what a client receives at once, in the order in which the server writes. */
static void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first,
                        bool last)
{
    traffic += len;
    if (first)
        printf("recv %s ", clients[peer->fd]->name);
    for (size_t i = 0; i < len; i++) {
        putchar("0123456789abcdef"[bytes[i] >> 4]);
        putchar("0123456789abcdef"[bytes[i] & 15]);
    }
    if (last)
        printf("\n");
}

static void on_closed(struct fake_peer *peer)
{
    struct client *c = clients[peer->fd];
    c->next = NULL;
    struct client **last = &closing_order;
    while (*last)
        last = &(*last)->next;
    *last = c;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The kinds of clients, and their protocols. */
static const char *const kinds[][2] = {
    {"text", "poolcounter"}, {"binary", "counter"}, {"jobs", "jobs"}};

static struct protocol *protocol_of(unsigned kind)
{
    return services_protocol(services, kinds[kind][1]);
}

/* Closes by reason that were told. */
static uint64_t told[ARRAY_SIZE(kinds)][CLOSE_MAX];

/* Returns the reason counted since the last close was printed. */
static const char *reason_of(unsigned kind)
{
    const struct protocol *protocol = protocol_of(kind);
    for (unsigned i = 0; i < CLOSE_MAX; i++) {
        if (told[kind][i] < atomic_load(&protocol->closed[i])) {
            told[kind][i]++;
            return protocol_close_word(protocol->row, i);
        }
    }
    return "unopened";
}

static void tell_events(void)
{
    for (struct client *c = closing_order; c; c = c->next)
        printf("closed %s %s\n", c->name, reason_of(c->kind));
    closing_order = NULL;
}

/* ---- commands -------------------------------------------------------------------------------- */

static struct client *find(const char *name)
{
    for (int i = client_count; name && i > 0; i--) {
        if (strcmp(clients[i - 1]->name, name) == 0)
            return clients[i - 1];
    }
    return NULL;
}

static const char *do_open(const char *name, const char *kind, const char *from, const char *shakes)
{
    struct in_addr address;
    unsigned k = 0;
    while (kind && k < ARRAY_SIZE(kinds) && strcmp(kind, kinds[k][0]) != 0)
        k++;
    if (!kind || k == ARRAY_SIZE(kinds) || strlen(name) >= sizeof(clients[0]->name) ||
        inet_pton(AF_INET, from ? from : "127.0.0.1", &address) != 1)
        return "open NAME text|binary|jobs [ADDRESS] [SHAKES]";
    struct client *c = calloc(1, sizeof(*c));
    clients = realloc(clients, (size_t)(client_count + 1) * sizeof(struct client *));
    CHECK(c && clients);
    strcpy(c->name, name);
    c->kind = k;
    c->peer.address = ntohl(address.s_addr);
    c->slow = arguments[SLOW] != 0;
    c->peer.window = c->slow ? 0 : SIZE_MAX;
    clients[client_count++] = c;
    fake_peer_join(&c->peer);
    c->peer.shakes = shakes ? (unsigned)strtoul(shakes, NULL, 10) : 0;
    struct stream stream = {.fd = c->peer.fd, .transport = shakes ? TRANSPORT_TLS : TRANSPORT_TCP};
    struct worker *worker = server.workers[(unsigned)c->peer.fd % server.count];
    struct protocol *protocol = protocol_of(k);
    in_server = true;
    worker_begin_iteration(worker);
    uint32_t open_now = atomic_fetch_add(&protocol->connections, 1) + 1;
    if (protocol->max_connections && open_now > protocol->max_connections) {
        atomic_fetch_sub(&protocol->connections, 1); /* as listener.c does */
        atomic_fetch_add(&protocol->closed[CLOSE_REFUSED], 1);
        stream_close(&stream);
    } else {
        (void)worker_open(worker, protocol, stream, 0);
    }
    (void)worker_end_iteration(worker);
    in_server = false;
    return NULL;
}

/* The value of a hexadecimal digit; -1: it is none. */
static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char *do_send(struct client *c, const char *hex)
{
    if (!c || !hex || strlen(hex) % 2)
        return "send NAME HEX";
    size_t len = strlen(hex) / 2;
    uint8_t *bytes = malloc(len + 1);
    CHECK(bytes);
    for (size_t i = 0; i < len; i++) {
        int high = digit_of(hex[2 * i]), low = digit_of(hex[2 * i + 1]);
        if (high < 0 || low < 0) {
            free(bytes);
            return "not hexadecimal";
        }
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    traffic += len;
    size_t longest = holds || !arguments[SPLIT] ? len : arguments[SPLIT];
    longest = longest < len / 1000 ? len / 1000 : longest;
    for (size_t at = 0, n; at < len; at += n) {
        n = longest < len - at ? 1 + rng_below(&rng, (uint32_t)longest) : len - at;
        fake_peer_send(&c->peer, bytes + at, n);
        if (!holds)
            run_until_quiet();
        if (at + n < len)
            upgrade_amid();
    }
    free(bytes);
    return NULL;
}

/* Prints sums of durations in milliseconds, rounded, because the table keeps time in steps. */
static void tell_histogram(const char *what, const char *how, const struct buckets_sum *sum)
{
    if (buckets_sum_count(sum))
        printf("count %s%s%s %" PRIu64 " %" PRIu64 "ms\n", what, *how ? " " : "", how,
               buckets_sum_count(sum),
               (uint64_t)((sum->sum_ns + (duration)NS_PER_MS / 2) / (duration)NS_PER_MS));
}

/* Prints the counters of a protocol that are not 0. */
static const char *tell_counts(const char *name)
{
    struct protocol *protocol = services_protocol(services, name);
    if (!protocol)
        return "counts PROTOCOL";
    const struct service *s = protocol->service;
    for (unsigned v = 0; v < s->verbs; v++) {
        for (unsigned o = 0; o < s->outcomes; o++) {
            if (service_requests(s, v, o))
                printf("count %s %s %" PRIu64 "\n", s->row->verbs[v], s->row->outcomes[o],
                       service_requests(s, v, o));
        }
    }
    if (service_waiting(s))
        printf("count waiting %" PRIu64 "\n", service_waiting(s));
    struct buckets_sum sum;
    for (unsigned i = 0; i < WAITED_COUNT; i++) {
        service_waits(s, (enum waited)i, &sum);
        tell_histogram("waits", waited_word((enum waited)i), &sum);
    }
    service_holds(s, &sum);
    tell_histogram("holds", "", &sum);
    return NULL;
}

static const char *start(char **save)
{
    static const struct fake_hooks hooks = {
        .received = on_received, .closed = on_closed, .call = on_call};
    calls = traffic = work = 0;
    return server_start(save, &hooks);
}

/* Expects that nothing is left of the clients. */
static const char *see_all_free(void)
{
    struct table_stats stats;
    struct pools_sums pools;
    table_get_stats(services->table, fake_now, &stats);
    pools_sums(pools_of(services), &pools);
    for (int i = 0; i < client_count; i++) {
        if (!clients[i]->peer.closed)
            return "a connection is still open";
    }
    for (unsigned kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
        if (atomic_load(&protocol_of(kind)->connections) > 0)
            return "a connection is still counted";
        if (service_waiting(protocol_of(kind)->service) > 0)
            return "a wait is still counted";
    }
    if (stats.units || stats.waiting || stats.holdings)
        return "something is still held";
    return pools.held || pools.waiting ? "a member is still held" : server_see_memory_back();
}

static const char *do_finish(void)
{
    const char *wrong = NULL;
    if (services) {
        wrong = judge_work();
        for (int i = 0; i < client_count; i++)
            clients[i]->peer.broken = clients[i]->peer.news = true;
        holds = false;
        run_until_quiet();
        server_check();
        wrong = wrong ? wrong : see_all_free();
        printf("info allocations %" PRIu64 "\ninfo calls %" PRIu64 "\n", allocations, calls);
    }
    server_gone();
    fake_peers_leave();
    for (int i = 0; i < client_count; i++)
        free(clients[i]);
    free(clients);
    clients = NULL;
    client_count = 0;
    closing_order = NULL;
    memset(told, 0, sizeof(told));
    return wrong ? wrong : server_leaks() ? "memory was not freed" : NULL;
}

/* ---- command line ---------------------------------------------------------------------------- */

/* Executes a command for one client. Returns NULL, or an error text. */
static const char *do_to_client(struct client *c, const char *verb, const char *second)
{
    c->peer.news = true;
    if (strcmp(verb, "send") == 0)
        return do_send(c, second);
    if (strcmp(verb, "part") == 0) {
        c->peer.sealed = c->peer.input_len + (second ? strlen(second) / 2 : 0);
        return do_send(c, second);
    }
    if (strcmp(verb, "eof") == 0)
        c->peer.ended = true;
    else if (strcmp(verb, "reset") == 0)
        c->peer.broken = true;
    else if (strcmp(verb, "stubborn") == 0)
        c->peer.stubborn = true;
    else if (strcmp(verb, "window") == 0 && second) {
        c->peer.window = strcmp(second, "all") == 0 ? SIZE_MAX : strtoull(second, NULL, 10);
        c->slow = false;
    } else
        return "no such command";
    return NULL;
}

/* Executes a command. Returns NULL, or an error text. */
static const char *carry_out(char *line)
{
    char *save = NULL;
    cut = moves = 0;
    const char *verb = strtok_r(line, " \n", &save);
    if (!verb)
        return "no command";
    if (strcmp(verb, "start") == 0)
        return start(&save);
    if (strcmp(verb, "finish") == 0)
        return do_finish();
    if (!services)
        return "no server runs";
    if (strcmp(verb, "reload") == 0)
        return server_reload();
    const char *first = strtok_r(NULL, " \n", &save);
    const char *second = strtok_r(NULL, " \n", &save);
    if (!first)
        return "a command and its arguments";
    if (strcmp(verb, "open") == 0) {
        const char *from = strtok_r(NULL, " \n", &save);
        return do_open(first, second, from, strtok_r(NULL, " \n", &save));
    }
    if (strcmp(verb, "upgrade") == 0)
        return server_upgrade((unsigned)strtoul(first, NULL, 10));
    if (strcmp(verb, "advance") == 0) {
        advance(strtoll(first, NULL, 10));
        return NULL;
    }
    if (strcmp(verb, "jump") == 0) {
        run_until_quiet();
        fake_pass_time(strtoll(first, NULL, 10));
        return NULL;
    }
    if (strcmp(verb, "unix") == 0) {
        fake_now.unix_s = strtoll(first, NULL, 10);
        fake_unix_ns = 0;
        return NULL;
    }
    if (strcmp(verb, "drain") == 0) {
        services_drain(services, strcmp(first, "on") == 0);
        return NULL;
    }
    if (strcmp(verb, "hold") == 0) {
        holds = strcmp(first, "on") == 0;
        return NULL;
    }
    if (strcmp(verb, "counts") == 0)
        return tell_counts(first);
    struct client *c = find(first);
    return c ? do_to_client(c, verb, second) : "no such client";
}

int main(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        const char *wrong = carry_out(line);
        if (services && !holds && !wrong)
            run_until_quiet();
        if (services && !wrong)
            server_check();
        tell_events();
        if (wrong)
            printf("error %s\n", wrong);
        else
            printf("ok\n");
        fflush(stdout);
    }
    free(line);
    return 0;
}
