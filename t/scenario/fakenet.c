/*
 * fakenet.c - the daemon without a network: the real services, engine, workers and connections, on
 * a loop, streams and a clock (t/campaigns/simulate/fake.h) that a script controls.
 *
 * There is one worker and one thread, and nothing happens without a command, so a run is the same
 * each time. Commands come on standard input, one in each line:
 *
 *     open NAME text|binary|jobs [ADDRESS]
 *                              a client connects, from an IPv4 address (127.0.0.1)
 *     send NAME HEX            it sends bytes
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
 *
 * After each command come the events that it caused, `recv NAME HEX` and `closed NAME REASON`, and
 * then `ok`, or `error TEXT` for an invalid command. Arguments are KEY=VALUE settings (see
 * `arguments`).
 */
#include "jobs/jobs.h"
#include "net/listener.h"
#include "service/job_session.h"
#include "service/pools.h"
#include "t/campaigns/simulate/fake.h"
#include "t/unit/serving.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clients ----------------------------------------------------------------------------- */

struct client {
    struct fake_peer peer; /* its descriptor is the client's number */
    struct client *next;
    char name[64];
    struct protocol *protocol;
    struct in_addr address;
};

static struct client **clients;
static int client_count;
static struct client *closing_order;

/* Instead of the C library's: the linker's --wrap. A client's port is its number, from 40000 on. */
int __wrap_getpeername(int fd, struct sockaddr *restrict sa, socklen_t *restrict len);
int __wrap_getpeername(int fd, struct sockaddr *restrict sa, socklen_t *restrict len)
{
    CHECK(fd >= 0 && fd < client_count && *len >= sizeof(struct sockaddr_in));
    *(struct sockaddr_in *)(void *)sa = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)(40000 + fd)),
        .sin_addr = clients[fd]->address,
    };
    *len = sizeof(struct sockaddr_in);
    return 0;
}

/* ---- iterations -------------------------------------------------------------------------- */

static struct server server;
static struct loop *the_loop;
static bool holds;

/* One iteration: handles everything that is ready, once. Returns false if nothing was. */
static bool turn(void)
{
    const struct loop_handlers *h = &the_loop->handlers;
    bool any = false, soon = the_loop->soon;
    the_loop->soon = false;
    (void)h->begin(h->arg);
    for (int i = 0; i < client_count; i++) {
        unsigned ready = fake_peer_ready(&clients[i]->peer);
        if (ready) {
            fake_peer_tell(&clients[i]->peer, ready);
            any = true;
        }
    }
    if (the_loop->rung) {
        the_loop->rung = false;
        h->bell(h->arg);
        any = true;
    }
    if (the_loop->timer_at_ns <= fake_now.mono_ns) {
        the_loop->timer_at_ns = INT64_MAX;
        h->timer(h->arg);
        any = true;
    }
    if (soon) {
        h->soon(h->arg);
        any = true;
    }
    (void)h->end(h->arg);
    return any || the_loop->soon;
}

static void run_until_quiet(void)
{
    while (turn())
        continue;
}

static void pass_time(int64_t ns)
{
    fake_pass_time(ns);
}

static void advance(int64_t ns)
{
    int64_t end_ns = fake_now.mono_ns + ns;
    run_until_quiet();
    while (the_loop->timer_at_ns <= end_ns) {
        pass_time(the_loop->timer_at_ns - fake_now.mono_ns);
        run_until_quiet();
    }
    pass_time(end_ns - fake_now.mono_ns);
    run_until_quiet();
}

/* ---- output to clients ------------------------------------------------------------------- */

/* Prints what a client receives at once, in the order in which the server writes. */
static void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first,
                        bool last)
{
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

/* ---- events ------------------------------------------------------------------------------ */

/* Returns the reason counted since the last close was printed. */
static const char *reason_of(struct protocol *protocol)
{
    static struct {
        const struct protocol *protocol;
        uint64_t closed[CLOSE_MAX];
    } told[3];
    size_t of = 0;
    while (told[of].protocol && told[of].protocol != protocol)
        of++;
    CHECK(of < ARRAY_SIZE(told));
    told[of].protocol = protocol;
    uint64_t *seen = told[of].closed;
    for (unsigned i = 0; i < CLOSE_MAX; i++) {
        if (seen[i] < atomic_load(&protocol->closed[i])) {
            seen[i]++;
            return protocol_close_word(protocol->row, i);
        }
    }
    return "unopened";
}

static void tell_events(void)
{
    for (struct client *c = closing_order; c; c = c->next)
        printf("closed %s %s\n", c->name, reason_of(c->protocol));
    closing_order = NULL;
}

/* ---- commands ---------------------------------------------------------------------------- */

static struct services *services;

static struct client *find(const char *name)
{
    for (int i = client_count; name && i > 0; i--) {
        if (strcmp(clients[i - 1]->name, name) == 0)
            return clients[i - 1];
    }
    return NULL;
}

/* The protocol of a kind of clients; NULL: there is no such kind. */
static struct protocol *protocol_of(const char *kind)
{
    static const char *const kinds[][2] = {
        {"text", "poolcounter"}, {"binary", "counter"}, {"jobs", "jobs"}};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (strcmp(kind, kinds[i][0]) == 0)
            return services_protocol(services, kinds[i][1]);
    }
    return NULL;
}

static const char *do_open(const char *name, const char *kind, const char *from)
{
    struct in_addr address;
    struct protocol *protocol = kind ? protocol_of(kind) : NULL;
    if (!name || !protocol || strlen(name) >= sizeof(clients[0]->name) ||
        inet_pton(AF_INET, from ? from : "127.0.0.1", &address) != 1)
        return "open NAME text|binary|jobs [ADDRESS]";
    struct client *c = calloc(1, sizeof(*c));
    clients = realloc(clients, (size_t)(client_count + 1) * sizeof(struct client *));
    CHECK(c && clients);
    strcpy(c->name, name);
    c->protocol = protocol;
    c->address = address;
    c->peer.window = SIZE_MAX;
    clients[client_count++] = c;
    fake_peer_join(&c->peer);
    struct stream stream = {.fd = c->peer.fd};
    worker_begin_iteration(server.workers[0]);
    uint32_t open_now = atomic_fetch_add(&protocol->connections, 1) + 1;
    if (protocol->max_connections && open_now > protocol->max_connections) {
        atomic_fetch_sub(&protocol->connections, 1); /* as listener.c does */
        atomic_fetch_add(&protocol->closed[CLOSE_REFUSED], 1);
        stream_close(&stream);
    } else {
        (void)worker_open(server.workers[0], protocol, stream, 0);
    }
    (void)worker_end_iteration(server.workers[0]);
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
    fake_peer_send(&c->peer, bytes, len);
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
    const struct protocol *protocol = services_protocol(services, name);
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

/* Executes a command. Returns NULL, or an error text. */
static const char *carry_out(char *line)
{
    char *save = NULL;
    const char *verb = strtok_r(line, " \n", &save);
    const char *first = strtok_r(NULL, " \n", &save);
    const char *second = strtok_r(NULL, " \n", &save);
    if (!verb || !first)
        return "a command and its arguments";
    if (strcmp(verb, "open") == 0)
        return do_open(first, second, strtok_r(NULL, " \n", &save));
    if (strcmp(verb, "advance") == 0) {
        advance(strtoll(first, NULL, 10));
        return NULL;
    }
    if (strcmp(verb, "jump") == 0) {
        run_until_quiet();
        pass_time(strtoll(first, NULL, 10));
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
    if (!c)
        return "no such client";
    c->peer.news = true;
    if (strcmp(verb, "send") == 0)
        return do_send(c, second);
    if (strcmp(verb, "eof") == 0)
        c->peer.ended = true;
    else if (strcmp(verb, "reset") == 0)
        c->peer.broken = true;
    else if (strcmp(verb, "stubborn") == 0)
        c->peer.stubborn = true;
    else if (strcmp(verb, "window") == 0 && second)
        c->peer.window = strcmp(second, "all") == 0 ? SIZE_MAX : strtoull(second, NULL, 10);
    else
        return "no such command";
    return NULL;
}

/* ---- settings ---------------------------------------------------------------------------- */

struct argument {
    const char *key;
    uint64_t value;
};

static struct argument arguments[] = {
    {"stats_interval", 86400},   {"buckets", 1000},
    {"memory_limit", 64 << 20},  {"max_locks", 4},
    {"max_line", 8192},          {"max_connections", 0},
    {"output_buffer", 262144},   {"request_timeout", 30},
    {"write_timeout", 30},       {"mono", 0},
    {"pools_max", 1000},         {"pools_max_members", 10000},
    {"pools_max_watchers", 100}, {"pools_max_taken", 64},
    {"max_job_size", 1 << 20},   {"jobs_memory", 64 << 20},
};

/* The networks of `operators=` and `suppliers=`: one each. */
static struct pools_settings pools_settings;
static struct tubes_settings tubes_settings;

static uint64_t value_of(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
        if (strcmp(arguments[i].key, key) == 0)
            return arguments[i].value;
    }
    CHECK(false);
    return 0;
}

static bool take_network(const char *text, struct access_networks *networks)
{
    networks->count = 1;
    return access_parse(text, strlen(text), &networks->at[0]);
}

/* Takes settings of tubes, with commas between them. */
static bool take_defaults(const char *text)
{
    char *with_spaces = strdup(text);
    CHECK(with_spaces);
    for (char *at = with_spaces; (at = strchr(at, ',')) != NULL;)
        *at = ' ';
    free(tubes_settings.tube_defaults);
    tubes_settings.tube_defaults = with_spaces;
    return true;
}

static bool take_argument(const char *text)
{
    static const char operators[] = "operators=", suppliers[] = "suppliers=",
                      defaults[] = "tube_defaults=";
    if (strncmp(text, defaults, strlen(defaults)) == 0)
        return take_defaults(text + strlen(defaults));
    if (strncmp(text, operators, strlen(operators)) == 0)
        return take_network(text + strlen(operators), &pools_settings.operators);
    if (strncmp(text, suppliers, strlen(suppliers)) == 0)
        return take_network(text + strlen(suppliers), &pools_settings.suppliers);
    for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
        size_t len = strlen(arguments[i].key);
        if (strncmp(text, arguments[i].key, len) == 0 && text[len] == '=') {
            arguments[i].value = strtoull(text + len + 1, NULL, 10);
            return true;
        }
    }
    fprintf(stderr, "fakenet: unknown argument %s\n", text);
    return false;
}

static void start(void)
{
    fake_hooks = (struct fake_hooks){.received = on_received, .closed = on_closed};
    fake_now.mono_ns = (int64_t)value_of("mono");
    struct rules_config rules_config = {
        .limits =
            {
                .output_buffer = value_of("output_buffer"),
                .request_timeout_ns = (int64_t)value_of("request_timeout") * NS_PER_S,
                .write_timeout_ns = (int64_t)value_of("write_timeout") * NS_PER_S,
            },
    };
    if (pools_settings.operators.count == 0)
        CHECK(take_network("127.0.0.0/8", &pools_settings.operators));
    pools_settings.max = (uint32_t)value_of("pools_max");
    pools_settings.max_members = (uint32_t)value_of("pools_max_members");
    pools_settings.max_watchers = (uint32_t)value_of("pools_max_watchers");
    pools_settings.max_taken = (uint32_t)value_of("pools_max_taken");
    static struct job_settings_of_protocol job_settings;
    job_settings.max_job_size = value_of("max_job_size");
    tubes_settings.memory_limit = value_of("jobs_memory");
    struct serving_config config = {
        .table =
            {
                .buckets = value_of("buckets"),
                .memory_limit = value_of("memory_limit"),
                .stats_interval_s = (uint32_t)value_of("stats_interval"),
                .hash_key = {.k0 = 1, .k1 = 2},
            },
        .counter_max_connections = (uint32_t)value_of("max_connections"),
        .poolcounter_max_connections = (uint32_t)value_of("max_connections"),
        .poolcounter_max_locks = (uint32_t)value_of("max_locks"),
        .poolcounter_max_line = value_of("max_line"),
        .pools = &pools_settings,
        .jobs = &job_settings,
        .tubes = &tubes_settings,
    };
    services = serving_make(&server, 1, &rules_config, &config);
    the_loop = worker_reactor(server.workers[0])->loop;
    struct option_check check = {.is = &tubes_settings};
    CHECK(tubes_options.check(&check));
    tubes_options.changed(services, NULL, NULL, &tubes_settings);
}

static void check(void)
{
    table_check(services->table);
    pools_check(pools_of(services), worker_now(server.workers[0]));
    jobs_check(jobs_of(services), worker_now(server.workers[0]));
}

static void end(void)
{
    for (int i = 0; i < client_count; i++)
        clients[i]->peer.broken = clients[i]->peer.news = true;
    run_until_quiet();
    for (int i = 0; i < client_count; i++)
        CHECK(clients[i]->peer.closed);
    check();
    serving_free(&server, &services);
    free(tubes_settings.tube_defaults);
    fake_peers_leave();
    for (int i = 0; i < client_count; i++)
        free(clients[i]);
    free(clients);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!take_argument(argv[i]))
            return 2;
    }
    start();
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        const char *wrong = carry_out(line);
        if (!holds)
            run_until_quiet();
        check();
        tell_events();
        if (wrong)
            printf("error %s\n", wrong);
        else
            printf("ok\n");
        fflush(stdout);
    }
    free(line);
    end();
    return 0;
}
