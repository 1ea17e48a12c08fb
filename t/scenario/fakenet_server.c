/* fakenet_server.c - the server of fakenet (fakenet.h): its settings, start, upgrades and end. */
#include "t/models/jobs_check.h"
#include "t/scenario/fakenet.h"

#include "base/record.h"
#include "jobs/jobs.h"
#include "net/carry.h"
#include "net/worker_internal.h"
#include "t/models/pools_check.h"
#include "t/unit/engine/faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- settings -------------------------------------------------------------------------------- */

static const struct {
    const char *key;
    uint64_t usual;
} argument_rows[ARGUMENTS] = {
#define ROW(name, key, usual) [name] = {key, usual},
    ARGUMENT_ROWS(ROW)
#undef ROW
};

uint64_t arguments[ARGUMENTS];
/* The networks of `operators=` and `suppliers=`: one each. */
static struct pools_settings pools_settings;
static struct tubes_settings tubes_settings;
static struct job_settings_of_protocol job_settings;

/* ---- memory ---------------------------------------------------------------------------------- */

struct rng rng;
bool in_server;
uint64_t allocations;
static uint64_t refused_allocation; /* the number of the one that fails; 0: none does */
static bool upgraded;               /* the state was read by another server */

static bool refuse_memory(void)
{
    if (!in_server || ++allocations != refused_allocation)
        return false;
    printf("refused\n");
    return true;
}

struct server server;
struct services *services;

struct loop *loop_of(unsigned worker)
{
    return worker_reactor(server.workers[worker])->loop;
}

/* ---- servers --------------------------------------------------------------------------------- */

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
    for (size_t i = 0; i < ARGUMENTS; i++) {
        size_t len = strlen(argument_rows[i].key);
        if (strncmp(text, argument_rows[i].key, len) == 0 && text[len] == '=') {
            arguments[i] = strtoull(text + len + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

/* The fake network needs no TLS context, but rules have one. */
void __wrap_tls_free(struct tls **tls);
void __wrap_tls_free(struct tls **tls)
{
    *tls = NULL;
}

/* Makes rules. NULL: there is no memory. */
static struct snapshot *make_snapshot(void)
{
    static char context;
    return snapshot_new(&(struct snapshot_config){
        .limits =
            {
                .output_buffer = arguments[OUTPUT_BUFFER],
                .unfinished = arguments[UNFINISHED],
                .handshakes = (uint32_t)arguments[HANDSHAKES],
                .handshake_timeout_ns = 10 * NS_PER_S,
                .request_timeout_ns = (int64_t)arguments[REQUEST_TIMEOUT] * NS_PER_S,
                .write_timeout_ns = (int64_t)arguments[WRITE_TIMEOUT] * NS_PER_S,
            },
        .tls = (struct tls *)(void *)&context,
    });
}

/* Tells the tubes, or the pools, their settings. */
static void set_all(bool again)
{
    tubes_options.changed(services, NULL, again ? &tubes_settings : NULL, &tubes_settings);
    if (again)
        pools_options.changed(services, NULL, &pools_settings, &pools_settings);
}

/* Makes workers and services. Returns false if there was no memory. */
static bool make(unsigned workers)
{
    struct serving_config config = {
        .table =
            {
                .buckets = arguments[BUCKETS],
                .memory_limit = arguments[MEMORY_LIMIT],
                .stats_interval_s = (uint32_t)arguments[STATS_INTERVAL],
                .hash_key = {.k0 = 1, .k1 = 2},
            },
        .counter_max_connections = (uint32_t)arguments[MAX_CONNECTIONS],
        .poolcounter_max_connections = (uint32_t)arguments[MAX_CONNECTIONS],
        .poolcounter_max_locks = (uint32_t)arguments[MAX_LOCKS],
        .poolcounter_max_line = arguments[MAX_LINE],
        .pools = &pools_settings,
        .jobs = &job_settings,
        .tubes = &tubes_settings,
    };
    struct snapshot *snapshot = make_snapshot();
    if (!snapshot)
        return false;
    server_set_snapshot(&server, snapshot);
    for (; server.count < workers; server.count++) {
        server.workers[server.count] = worker_new(&server, server.count);
        if (!server.workers[server.count])
            return false;
    }
    services = serving_services(&config, &server, worker_now(server.workers[0]));
    return services != NULL;
}

static uint64_t table_memory(void)
{
    struct table_stats stats;
    table_get_stats(services->table, fake_now, &stats);
    return stats.memory;
}

static uint64_t memory_at_start; /* of the table */

/* Starts a server. Its settings were taken before. */
static const char *start(const struct fake_hooks *hooks)
{
    struct option_check of_tubes = {.is = &tubes_settings};
    fake_hooks = *hooks;
    fake_hooks.refuses = fault_now;
    fake_now = (struct moment){.mono_ns = (int64_t)arguments[MONO], .unix_s = 1700000000};
    fake_unix_ns = 0;
    rng = (struct rng){.state = arguments[SEED]};
    if (pools_settings.operators.count == 0)
        CHECK(take_network("127.0.0.0/8", &pools_settings.operators));
    pools_settings.max = (uint32_t)arguments[POOLS_MAX];
    pools_settings.max_members = (uint32_t)arguments[POOLS_MAX_MEMBERS];
    pools_settings.max_watchers = (uint32_t)arguments[POOLS_MAX_WATCHERS];
    pools_settings.max_taken = (uint32_t)arguments[POOLS_MAX_TAKEN];
    job_settings.max_job_size = arguments[MAX_JOB_SIZE];
    tubes_settings.memory_limit = arguments[JOBS_MEMORY];
    fault_dice = refuse_memory;
    allocations = 0;
    upgraded = false;
    refused_allocation = arguments[REFUSE_START];
    in_server = true;
    bool made = make((unsigned)arguments[WORKERS]);
    in_server = false;
    if (arguments[REFUSE_START])
        printf("info allocations %" PRIu64 "\n", allocations);
    allocations = 0;
    refused_allocation = arguments[REFUSE];
    if (!made)
        return "it does not start";
    CHECK(tubes_options.check(&of_tubes));
    set_all(false);
    memory_at_start = table_memory();
    return NULL;
}

const char *server_start(char **save, const struct fake_hooks *hooks)
{
    if (services)
        return "a server runs";
    fault_counting = true;
    fault_pieces = 0;
    for (size_t i = 0; i < ARGUMENTS; i++)
        arguments[i] = argument_rows[i].usual;
    pools_settings = (struct pools_settings){0};
    for (const char *word; (word = strtok_r(NULL, " \n", save)) != NULL;) {
        if (!take_argument(word))
            return "start: no such key";
    }
    return start(hooks);
}

void server_check(void)
{
    table_check(services->table);
    pools_check(pools_of(services), worker_now(server.workers[0]));
    jobs_check(jobs_of(services), worker_now(server.workers[0]));
}

/* Frees workers and services, also if some could not be made. */
static void free_server(void)
{
    for (unsigned i = 0; i < server.count; i++)
        worker_drain(server.workers[i]);
    if (services)
        services_free(&services);
    while (server.count > 0)
        worker_free(&server.workers[--server.count]);
    server_free_snapshot(&server);
    server = (struct server){0};
}

const char *server_see_memory_back(void)
{
    struct pools_sums pools;
    struct table_walk walk = {0};
    uint64_t collected;
    pools_sums(pools_of(services), &pools);
    if (pools.pools > 0 || upgraded)
        return NULL; /* pools have counters of their own */
    fake_pass_time(3 * (int64_t)arguments[STATS_INTERVAL] * NS_PER_S);
    for (unsigned sweeps = 0; sweeps < 3; sweeps++) {
        walk = (struct table_walk){0};
        while (!table_collect(services->table, &walk, fake_now, 10000, &collected))
            continue;
    }
    table_trim(services->table);
    return table_memory() == memory_at_start ? NULL : "the table has not got its memory back";
}

/* ---- upgrades -------------------------------------------------------------------------------- */

static struct protocol *protocol_named(void *arg, const char *name)
{
    (void)arg;
    return services_protocol(services, name);
}

/* Writes the state, as daemon/upgrade.c does. Returns the file's descriptor. */
static int save(void)
{
    static struct record_writer writer;
    int fd = memfd_create("fakenet", MFD_CLOEXEC);
    CHECK(fd >= 0 && services_pause(services, DEADLINE_NONE));
    record_writer_init(&writer, fd);
    services_save(services, fake_now, &writer);
    server_save(&server, &writer);
    CHECK(record_finish(&writer));
    return fd;
}

/* Forgets the old server, whose connections go on without it. */
static void abandon(void)
{
    server_end(&server);
    for (unsigned i = 0; i < server.count; i++) {
        for (uint32_t slot = 0; slot < worker_slots(server.workers[i]); slot++) {
            struct conn *conn = worker_conn_at(server.workers[i], slot);
            if (!conn)
                continue;
            loop_io_remove(loop_of(i), &conn->io);
            conn->stream.fd = -1;
            conn_close(conn, CLOSE_KILLED);
        }
    }
    free_server();
}

/* Reads the state. Returns false if it was refused. */
static bool restore(struct record_reader *r)
{
    struct carry carry = {.server = &server, .protocol = protocol_named};
    struct record_reader section;
    uint32_t kind;
    while (record_enter(r, &kind, &section)) {
        if (!carry_restore(&carry, kind, &section) &&
            !services_restore(services, fake_now, kind, &section))
            record_unknown(&section, kind);
    }
    if (!record_ok(r))
        return false;
    carry_done(&carry);
    return services_restore_done(services, r);
}

const char *server_upgrade(unsigned workers)
{
    struct record_reader r;
    bool drains = atomic_load(&services->draining);
    if (workers == 0 || workers > WORKERS_MAX)
        return "upgrade WORKERS";
    upgraded = true;
    int fd = save();
    abandon();
    CHECK(make(workers) && record_map(&r, fd));
    (void)close(fd);
    set_all(false);
    bool restored = restore(&r);
    record_unmap(&r);
    services_resume(services);
    services_drain(services, drains);
    return restored ? NULL : r.why;
}

const char *server_reload(void)
{
    struct snapshot *snapshot = make_snapshot();
    CHECK(snapshot);
    server_set_snapshot(&server, snapshot);
    set_all(true);
    return NULL;
}

void server_gone(void)
{
    free_server();
    free(tubes_settings.tube_defaults);
    tubes_settings = (struct tubes_settings){0};
}

bool server_leaks(void)
{
    return fault_pieces != 0;
}
