/*
 * requests.c - plays a fixed script of requests to the real services, engine, connections, worker
 * and event loop over real sockets. counts.py has callgrind count the instructions.
 *
 * One thread does all the work, and nothing is random: the clients act when the worker is idle, so
 * every run makes the same wake-ups for the same requests. For that the program replaces three
 * things of the kernel: waiting (epoll_wait and epoll_pwait2 let the clients act first), time
 * (clock_gettime adds a microsecond at each call) and random bytes. Hash key and names are fixed. A
 * second thread does nothing; with it the C library's functions cost more, as in the daemon.
 *
 * callgrind selects functions by name, so these names begin with `counts_`. It counts in
 * counts_serve and counts_use_engine, but not in counts_await, which they call. Each count begins
 * with counts_begin and ends with counts_end. Standard output says what each count is.
 */
#include "bench/counts/later.h"

#include "net/listener.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "service/job_session.h"
#include "service/pool_options.h"
#include "service/pools.h"
#include "t/unit/serving.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- the server -------------------------------------------------------------------------- */

static struct server server;
static struct services *services;
static struct listener listeners[4];
static struct acceptor *acceptor;

enum language { TEXT, BINARY, LATER, JOBS };

/* Jobs begin with this id: all have as many digits. */
#define FIRST_JOB 10000
#define ID_LEN    5

static void set_up(void)
{
    const struct rules_config rules_config = {
        .limits = {.output_buffer = 262144,
                   .request_timeout_ns = 30 * NS_PER_S,
                   .write_timeout_ns = 30 * NS_PER_S},
    };
    static const struct job_settings_of_protocol jobs = {.max_job_size = 65536};
    const struct serving_config config = {
        .jobs = &jobs,
        .table = {.buckets = 100000,
                  .memory_limit = (size_t)1 << 30,
                  .stats_interval_s = 86400,
                  .hash_key = {.k0 = 1, .k1 = 2}},
        .poolcounter_max_locks = 4,
        .poolcounter_max_line = 8192,
    };
    struct sockaddr_in any_port = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    services = serving_make(&server, 1, &rules_config, &config);
    struct protocol *const protocols[] = {
        [TEXT] = services_protocol(services, "poolcounter"),
        [BINARY] = services_protocol(services, "counter"),
        [LATER] = &later_protocol,
        [JOBS] = services_protocol(services, "jobs"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(listeners); i++)
        CHECK(listener_open(&listeners[i], protocols[i], (struct sockaddr *)&any_port,
                            sizeof(any_port), false));
    acceptor = acceptor_new(server.workers[0], listeners, ARRAY_SIZE(listeners));
    CHECK(acceptor);
    while (jobs_take_id(jobs_of(services)) < FIRST_JOB - 1)
        ;
}

static void tear_down(void)
{
    acceptor_free(&acceptor);
    for (size_t i = 0; i < ARRAY_SIZE(listeners); i++)
        listener_close(&listeners[i]);
    serving_free(&server, &services);
}

/* ---- clients ----------------------------------------------------------------------------- */

#define CLIENTS     100
#define CLIENT_ROOM 4096

/* A client, the bytes to send and those it must get as the answer; ANY_BYTE stands for any. */
#define ANY_BYTE 1
struct client {
    int fd;
    uint8_t out[CLIENT_ROOM], answer[CLIENT_ROOM], got[CLIENT_ROOM];
    size_t out_len, answer_len, answered;
};

static struct client clients[CLIENTS];

/* Readable descriptors of the server that it has not been notified of. */
static int due;

static void client_open(struct client *c, enum language language)
{
    struct sockaddr_in to;
    socklen_t len = sizeof(to);
    CHECK(getsockname(listeners[language].fd, (struct sockaddr *)&to, &len) == 0);
    *c = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    CHECK(c->fd >= 0 && connect(c->fd, (struct sockaddr *)&to, len) == 0);
    due = 1;
}

static void client_close(struct client *c)
{
    close(c->fd);
    due++;
}

static void client_send(struct client *c)
{
    CHECK(send(c->fd, c->out, c->out_len, MSG_NOSIGNAL) == (ssize_t)c->out_len);
    c->out_len = 0;
    due++;
}

/* Receives. Returns true when all expected bytes have arrived. */
static bool client_is_answered(struct client *c)
{
    while (c->answered < c->answer_len) {
        ssize_t n = recv(c->fd, c->got + c->answered, CLIENT_ROOM - c->answered, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return false;
        CHECK(n > 0 && c->answered + (size_t)n <= c->answer_len);
        for (size_t end = c->answered + (size_t)n; c->answered < end; c->answered++) {
            uint8_t expected = c->answer[c->answered];
            CHECK(expected == ANY_BYTE || expected == c->got[c->answered]);
        }
    }
    c->answered = c->answer_len = 0;
    return true;
}

/* ---- requests and their answers ---------------------------------------------------------- */

#define NAMES    1000
#define NAME_LEN 24

static char names[NAMES][NAME_LEN + 1];

static void make_names(void)
{
    for (unsigned i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof(names[i]), "a_name_of_24_bytes,_%04u", i % 10000);
}

static struct bytes name_of(unsigned i)
{
    return (struct bytes){.data = (uint8_t *)names[i % NAMES], .len = NAME_LEN};
}

static void await_text(struct client *c, enum pc_reply word)
{
    struct bytes line = pc_reply_line(word);
    memcpy(c->answer + c->answer_len, line.data, line.len);
    c->answer_len += line.len;
}

static void put_text(struct client *c, const struct pc_request *req)
{
    size_t len = pc_compose_request(req, c->out + c->out_len, CLIENT_ROOM - c->out_len);
    CHECK(len > 0);
    c->out_len += len;
}

/* ACQ4*, with the numbers that MediaWiki uses. */
static void put_lock(struct client *c, enum pc_verb verb, unsigned name, uint32_t workers,
                     int64_t timeout_ns)
{
    const struct pc_request req = {.verb = verb,
                                   .key = name_of(name),
                                   .workers = workers,
                                   .maxqueue = 1000,
                                   .timeout_ns = timeout_ns};
    put_text(c, &req);
}

static void put_unlock(struct client *c, unsigned name)
{
    const struct pc_request req = {.verb = PC_RELEASE, .key = name_of(name)};
    put_text(c, &req);
    await_text(c, PC_REPLY_RELEASED);
}

static void put_binary(struct client *c, enum ctr_opcode opcode, unsigned name)
{
    struct ctr_request req = {
        .opcode = (uint8_t)opcode, .opaque = {1, 2, 3, 4}, .name = name_of(name)};
    req.units = opcode == CTR_GET ? 0 : 1;
    req.maximum = opcode == CTR_ACQUIRE ? 10 : 0;
    size_t len = ctr_compose_request(&req, c->out + c->out_len, CLIENT_ROOM - c->out_len);
    CHECK(len > 0);
    c->out_len += len;
    uint8_t *to = c->answer + c->answer_len;
    c->answer_len += opcode == CTR_RELEASE
                         ? ctr_compose_status(req.opcode, req.opaque, CTR_STATUS_SUCCESS, to)
                         : ctr_compose_number(req.opcode, req.opaque, 1, to);
}

/* Takes one unit of an uncontended name. */
static void put_acquire(struct client *c, enum language language, unsigned name)
{
    if (language == BINARY) {
        put_binary(c, CTR_ACQUIRE, name);
    } else {
        put_lock(c, PC_ACQ4ME, name, 10, 15 * NS_PER_S);
        await_text(c, PC_REPLY_LOCKED);
    }
}

static void put_release(struct client *c, enum language language, unsigned name)
{
    if (language == BINARY)
        put_binary(c, CTR_RELEASE, name);
    else
        put_unlock(c, name);
}

/* ---- the script -------------------------------------------------------------------------- */

/*
 * The counts, one row each: name, language, number of connected clients, number of steps to warm up
 * and then to count, and the units to divide the cost by. A step is all that the clients do before
 * the server acts.
 */
struct count {
    const char *name;
    enum language language;
    unsigned clients, rounds, units;
    const char *unit;
    unsigned depth; /* requests in flight per connection */
    void (*prepare)(const struct count *count);
    void (*steps[3])(const struct count *count, unsigned round);
    struct plan {
        unsigned members;
        enum pool_order order;
        unsigned suppliers; /* of a joined pool: they have joined the members; 0: a static one */
        unsigned waiters;   /* more of them, younger than the clients that wait */
    } pool;                 /* its pool, if it has one */
};

static void acquire_each(const struct count *count, unsigned round)
{
    for (unsigned i = 0; i < count->clients; i++) {
        put_acquire(&clients[i], count->language, round * count->clients + i);
        client_send(&clients[i]);
    }
}

static void release_each(const struct count *count, unsigned round)
{
    for (unsigned i = 0; i < count->clients; i++) {
        put_release(&clients[i], count->language, round * count->clients + i);
        client_send(&clients[i]);
    }
}

static void pipeline_pairs(const struct count *count, unsigned round)
{
    for (unsigned i = 0; i < count->depth / 2; i++) {
        unsigned name = round * count->depth / 2 + i;
        put_acquire(&clients[0], count->language, name);
        put_release(&clients[0], count->language, name);
    }
    client_send(&clients[0]);
}

/* Client 0 holds what the others request. */
static void hold(const struct count *count)
{
    put_acquire(&clients[0], count->language, 0);
    client_send(&clients[0]);
}

static void get(const struct count *count, unsigned round)
{
    (void)count;
    (void)round;
    put_binary(&clients[1], CTR_GET, 0);
    client_send(&clients[1]);
}

static void be_refused(const struct count *count, unsigned round)
{
    (void)count;
    (void)round;
    put_lock(&clients[1], PC_ACQ4ME, 0, 1, 0);
    await_text(&clients[1], PC_REPLY_TIMEOUT);
    client_send(&clients[1]);
}

/* All clients queue for one lock; the first holds it. */
static void queue_up(const struct count *count)
{
    for (unsigned i = 0; i < count->clients; i++) {
        put_lock(&clients[i], PC_ACQ4ME, 0, 1, 60 * NS_PER_S);
        client_send(&clients[i]);
    }
    await_text(&clients[0], PC_REPLY_LOCKED);
}

static void hand_over(const struct count *count, unsigned round)
{
    struct client *c = &clients[round % count->clients];
    put_unlock(c, 0);
    await_text(&clients[(round + 1) % count->clients], PC_REPLY_LOCKED);
    client_send(c);
}

static void queue_again(const struct count *count, unsigned round)
{
    struct client *c = &clients[round % count->clients];
    put_lock(c, PC_ACQ4ME, 0, 1, 60 * NS_PER_S);
    client_send(c);
}

static void begin_work(const struct count *count, unsigned round)
{
    (void)round;
    hold(count);
}

static void await_work(const struct count *count, unsigned round)
{
    (void)round;
    for (unsigned i = 1; i < count->clients; i++) {
        put_lock(&clients[i], PC_ACQ4ANY, 0, 1, 60 * NS_PER_S);
        client_send(&clients[i]);
    }
}

static void end_work(const struct count *count, unsigned round)
{
    (void)round;
    put_unlock(&clients[0], 0);
    for (unsigned i = 1; i < count->clients; i++)
        await_text(&clients[i], PC_REPLY_DONE);
    client_send(&clients[0]);
}

/* A client that connects for every lock. Its first request is already on its way at accept. */
static void come(const struct count *count, unsigned round)
{
    client_open(&clients[0], count->language);
    put_acquire(&clients[0], count->language, round);
    client_send(&clients[0]);
    due = 1; /* the listener; the server does not know the connection yet */
}

static void work(const struct count *count, unsigned round)
{
    put_release(&clients[0], count->language, round);
    client_send(&clients[0]);
}

static void go(const struct count *count, unsigned round)
{
    (void)count;
    (void)round;
    client_close(&clients[0]);
}

static void ask_deep(const struct count *count, unsigned round)
{
    (void)round;
    for (unsigned i = 0; i < count->depth; i++) {
        static const uint8_t text[LATER_LEN] = "a line\n";
        memcpy(clients[0].out + clients[0].out_len, text, LATER_LEN);
        clients[0].out_len += LATER_LEN;
    }
    client_send(&clients[0]);
}

static void answer_deep(const struct count *count, unsigned round)
{
    (void)round;
    CHECK(later_answer(server.workers[0]) == count->depth);
    memset(clients[0].answer, 0, CLIENT_ROOM);
    for (unsigned i = 0; i < count->depth; i++)
        memcpy(clients[0].answer + (size_t)i * LATER_LEN, "a line\n", LATER_LEN);
    clients[0].answer_len = count->depth * LATER_LEN;
    due = 1; /* the mailbox */
}

/* ---- pools ------------------------------------------------------------------------------- */

#define POOL        "databases"
#define MEMBER      "db_000000"
#define MEMBER_ADDR "10.0.0.7:5432"
#define FENCE_LEN   16 /* the clock gives numbers of 16 digits */
#define TAKEN       "TAKEN " POOL " "
#define FENCE_AT    (sizeof(TAKEN) + sizeof(MEMBER) - 1)

/* Clients of the pools without connections: suppliers, then waiters. */
static struct pool_client *others[200000];
static unsigned other_count;

static bool ignore_want(void *owner, struct bytes pool, uint32_t want)
{
    (void)owner;
    (void)pool;
    (void)want;
    return true;
}

/* What has happened so far is for clients without connections. */
static void read_others(struct pool_effects *effects)
{
    static const struct pool_reader reader = {.want = ignore_want};
    struct pool_effects none;
    for (struct mail *mail; (mail = mail_list_take(&effects->clients)) != NULL;) {
        struct pool_client *client = pool_client_of(mail);
        pool_effects_init(&none);
        CHECK(pool_client_letter(client));
        pool_client_read(client, &reader, 0, worker_now(server.workers[0]), &none);
        CHECK(!none.clients.first && !none.woken.first);
    }
    CHECK(!effects->woken.first);
}

static struct pool_client *other_client(void)
{
    static uint32_t id = 0x10000000; /* more than a connection has */
    id++;
    CHECK(other_count < ARRAY_SIZE(others));
    struct pool_client *client = pool_client_new(pools_of(services), id, id, others);
    CHECK(client);
    others[other_count++] = client;
    return client;
}

static void add_members(const struct count *count, struct pool_effects *effects)
{
    struct pools *pools = pools_of(services);
    struct moment now = worker_now(server.workers[0]);
    for (unsigned i = 0; i < count->pool.members; i++) {
        char name[sizeof(MEMBER)];
        snprintf(name, sizeof(name), "db_%06u", i % 1000000);
        struct pool_new_member member = {
            .pool = bytes_of(POOL), .name = bytes_of(name), .value = bytes_of(MEMBER_ADDR)};
        if (count->pool.suppliers == 0)
            CHECK(pool_member_add(pools, &member, now, effects) == POOL_OK);
        else
            CHECK(pool_join(others[i % count->pool.suppliers], &member, now, effects) == POOL_OK);
    }
}

/* Makes the pool of a count. */
static void make_pool(const struct count *count)
{
    static const struct pools_limits limits = {
        .pools_max = 1, .members_max = 100000, .taken_max = 1};
    struct pools *pools = pools_of(services);
    struct moment now = worker_now(server.workers[0]);
    struct pool_options options;
    struct pool_effects effects;
    pool_effects_init(&effects);
    pools_set_limits(pools, &limits, now, &effects);
    pool_options_init(&options);
    options.kind = count->pool.suppliers > 0 ? POOL_JOINED : POOL_STATIC;
    options.order = count->pool.order;
    options.queue_max = UINT32_MAX;
    CHECK(pool_add(pools, bytes_of(POOL), &options, false, now, &effects) == POOL_OK);
    pool_options_free(&options);
    for (unsigned i = 0; i < count->pool.suppliers; i++) {
        uint32_t most = count->pool.members / count->pool.suppliers;
        CHECK(pool_supply(other_client(), bytes_of(POOL), most, most, now, &effects) == POOL_OK);
    }
    add_members(count, &effects);
    read_others(&effects);
}

/* Ends the pool. All connections have closed. */
static void end_pool(void)
{
    struct moment now = worker_now(server.workers[0]);
    struct pool_effects effects;
    pool_effects_init(&effects);
    while (other_count > 0)
        pool_client_end(others[--other_count], POOL_END_QUIT, NULL, now, &effects);
    CHECK(pool_drop(pools_of(services), bytes_of(POOL), true, now, &effects) == POOL_OK);
    CHECK(!effects.clients.first && !effects.woken.first);
}

static void put_line(struct client *c, const char *line)
{
    size_t len = strlen(line);
    CHECK(len < CLIENT_ROOM - c->out_len);
    memcpy(c->out + c->out_len, line, len);
    c->out_len += len;
}

static void await_line(struct client *c, const char *line)
{
    size_t len = strlen(line);
    CHECK(len < CLIENT_ROOM - c->answer_len);
    memcpy(c->answer + c->answer_len, line, len);
    c->answer_len += len;
}

static void await_taken(struct client *c)
{
    char *line = (char *)c->answer + c->answer_len;
    await_line(c, TAKEN MEMBER " 0000000000000000 " MEMBER_ADDR "\n");
    memset(line + sizeof(TAKEN) - 1, ANY_BYTE, sizeof(MEMBER) - 1);
    memset(line + FENCE_AT, ANY_BYTE, FENCE_LEN);
}

static void put_take(struct client *c)
{
    put_line(c, "TAKE " POOL " 15\n");
}

/* Returns what the client's last answer has given. */
static void put_return(struct client *c)
{
    char line[64];
    snprintf(line, sizeof(line), "RETURN %.*s\n", FENCE_LEN, (const char *)c->got + FENCE_AT);
    put_line(c, line);
    await_line(c, "RETURNED\n");
}

static void take_each(const struct count *count, unsigned round)
{
    (void)round;
    for (unsigned i = 0; i < count->clients; i++) {
        put_take(&clients[i]);
        await_taken(&clients[i]);
        client_send(&clients[i]);
    }
}

static void return_each(const struct count *count, unsigned round)
{
    (void)round;
    for (unsigned i = 0; i < count->clients; i++) {
        put_return(&clients[i]);
        client_send(&clients[i]);
    }
}

static void pipeline_takes(const struct count *count, unsigned round)
{
    struct client *c = &clients[0];
    (void)round;
    for (unsigned i = 0; i < count->depth / 2; i++) {
        put_take(c);
        await_taken(c);
        put_line(c, "RETURN\n");
        await_line(c, "RETURNED\n");
    }
    client_send(c);
}

/* Client 0 takes the only member. */
static void take_all(const struct count *count)
{
    make_pool(count);
    put_take(&clients[0]);
    await_taken(&clients[0]);
    client_send(&clients[0]);
}

static void find_none(const struct count *count, unsigned round)
{
    (void)count;
    (void)round;
    put_line(&clients[1], "TAKE " POOL " 0\n");
    await_line(&clients[1], "TIMEOUT\n");
    client_send(&clients[1]);
}

/* All clients wait for the only member, which the first gets. */
static void wait_in_turn(const struct count *count)
{
    make_pool(count);
    for (unsigned i = 0; i < count->clients; i++) {
        put_take(&clients[i]);
        client_send(&clients[i]);
    }
    await_taken(&clients[0]);
}

static void add_waiters(const struct count *count)
{
    struct moment now = worker_now(server.workers[0]);
    const struct bytes pool = bytes_of(POOL);
    const struct pool_take take = {
        .targets = &pool, .target_count = 1, .count = 1, .timeout_ns = 60 * NS_PER_S};
    struct pool_effects effects;
    pool_effects_init(&effects);
    for (unsigned i = 0; i < count->pool.waiters; i++)
        CHECK(pool_take(other_client(), &take, NULL, 0, now, &effects) == POOL_WAITS);
    CHECK(!effects.clients.first);
}

static void pass_on(const struct count *count, unsigned round)
{
    struct client *c = &clients[round % count->clients];
    if (round == 0)
        add_waiters(count);
    put_return(c);
    await_taken(&clients[(round + 1) % count->clients]);
    client_send(c);
}

static void wait_again(const struct count *count, unsigned round)
{
    struct client *c = &clients[round % count->clients];
    put_take(c);
    client_send(c);
}

/* ---- jobs -------------------------------------------------------------------------------- */

#define ANY_ID   "\1\1\1\1\1" /* ID_LEN times ANY_BYTE */
#define BODY     "The body of a job, whose length is that of 64 bytes as in bench."
#define RESERVED "RESERVED " ANY_ID " 64\r\n" BODY "\r\n"
_Static_assert(sizeof(BODY) == 64 + 1, "its length is in the lines");

/* Each client has its own tube. */
static void make_tubes(const struct count *count)
{
    for (unsigned i = 0; i < count->clients; i++) {
        char line[96];
        snprintf(line, sizeof(line), "use tube_%02u\r\nwatch tube_%02u\r\nignore default\r\n", i,
                 i);
        put_line(&clients[i], line);
        snprintf(line, sizeof(line), "USING tube_%02u\r\nWATCHING 2\r\nWATCHING 1\r\n", i);
        await_line(&clients[i], line);
        client_send(&clients[i]);
    }
}

/* As many at once as the depth, of each client. */
static void put_jobs(const struct count *count, unsigned round)
{
    (void)round;
    for (unsigned i = 0; i < count->clients; i++) {
        for (unsigned n = 0; n < count->depth; n++) {
            put_line(&clients[i], "put 0 0 60 64\r\n" BODY "\r\n");
            await_line(&clients[i], "INSERTED " ANY_ID "\r\n");
        }
        client_send(&clients[i]);
    }
}

static void reserve_jobs(const struct count *count, unsigned round)
{
    (void)round;
    for (unsigned i = 0; i < count->clients; i++) {
        for (unsigned n = 0; n < count->depth; n++) {
            put_line(&clients[i], "reserve\r\n");
            await_line(&clients[i], RESERVED);
        }
        client_send(&clients[i]);
    }
}

/* Deletes what the client's last answers have given. */
static void delete_jobs(const struct count *count, unsigned round)
{
    (void)round;
    for (unsigned i = 0; i < count->clients; i++) {
        const uint8_t *job = clients[i].got + strlen("RESERVED ");
        for (unsigned n = 0; n < count->depth; n++, job += sizeof(RESERVED) - 1) {
            char line[32];
            snprintf(line, sizeof(line), "delete %.*s\r\n", ID_LEN, (const char *)job);
            put_line(&clients[i], line);
            await_line(&clients[i], "DELETED\r\n");
        }
        client_send(&clients[i]);
    }
}

/* ---- a store of jobs that keeps nothing -------------------------------------------------------
 */

static enum job_store_status keep_put(struct job_store *store, const struct job_record *job,
                                      struct bytes body)
{
    (void)store, (void)job, (void)body;
    return JOB_STORE_OK;
}

static enum job_store_status keep_removal(struct job_store *store, uint64_t id)
{
    (void)store, (void)id;
    return JOB_STORE_OK;
}

static enum job_store_status begin_nothing(struct job_store *store)
{
    (void)store;
    return JOB_STORE_OK;
}

static enum job_store_status commit_nothing(struct job_store *store, int64_t mono_ns)
{
    (void)store, (void)mono_ns;
    return JOB_STORE_OK;
}

static const struct job_store_kind keeps_nothing = {
    .begin = begin_nothing,
    .commit = commit_nothing,
    .put = keep_put,
    .remove = keep_removal,
};

static bool store_rings;

static void ring_store(void *arg)
{
    (void)arg;
    store_rings = true;
}

/* Jobs have that store from now on, and do what its thread would. */
static void make_kept_tubes(const struct count *count)
{
    struct jobs *jobs = jobs_of(services);
    if (!jobs_has_store(jobs))
        CHECK(jobs_use_store(jobs, ring_store, NULL));
    make_tubes(count);
}

static void commit_jobs(void)
{
    struct jobs *jobs = jobs_of(services);
    struct job_store store = {.does = &keeps_nothing};
    struct job_op_list list;
    struct jobs_effects effects;
    struct mail *mail;
    const struct moment now = clock_now();
    store_rings = false;
    if (!jobs_take_ops(jobs, &list, 1000, 1000000))
        return;
    job_ops_read(jobs, &store, &list, 0);
    job_ops_committed(&list, job_ops_write(&store, &list, now.mono_ns, false), false);
    jobs_effects_init(&effects);
    jobs_settle(jobs, &list, now, &effects);
    CHECK(!effects.letters.first && effects.done.first);
    while ((mail = mail_list_take(&effects.done)) != NULL)
        conn_post_late(&server, container_of(mail, struct letter, mail));
    jobs_set_timer(services);
    due++; /* the mailbox */
}

/* A client waits for a job, which another one puts. */
static void wait_for_job(const struct count *count, unsigned round)
{
    (void)round;
    (void)count;
    put_line(&clients[1], "reserve\r\n");
    client_send(&clients[1]);
}

static void put_for_waiter(const struct count *count, unsigned round)
{
    (void)count;
    (void)round;
    put_line(&clients[0], "put 0 0 60 64\r\n" BODY "\r\n");
    await_line(&clients[0], "INSERTED " ANY_ID "\r\n");
    await_line(&clients[1], RESERVED);
    client_send(&clients[0]);
}

static void delete_of_waiter(const struct count *count, unsigned round)
{
    char line[32];
    (void)count;
    (void)round;
    snprintf(line, sizeof(line), "delete %.*s\r\n", ID_LEN,
             (const char *)clients[1].got + strlen("RESERVED "));
    put_line(&clients[1], line);
    await_line(&clients[1], "DELETED\r\n");
    client_send(&clients[1]);
}

/* clang-format off */
static const struct count counts[] = {
    {"text-pair", TEXT, 1, 1000, 1000, "pair", 1, .steps = {acquire_each, release_each}},
    {"text-pair-50", TEXT, 50, 40, 2000, "pair", 1, .steps = {acquire_each, release_each}},
    {"text-pair-deep", TEXT, 1, 100, 1600, "pair", 32, .steps = {pipeline_pairs}},
    {"text-refusal", TEXT, 2, 1000, 1000, "request", 1, .prepare = hold, .steps = {be_refused}},
    {"text-handover", TEXT, 100, 1000, 1000, "hand-over", 1,
     .prepare = queue_up, .steps = {hand_over, queue_again}},
    {"text-herd", TEXT, 100, 20, 20 * 99, "waiter", 1,
     .steps = {begin_work, await_work, end_work}},
    {"text-churn", TEXT, 0, 250, 250, "cycle", 1, .steps = {come, work, go}},
    {"binary-pair", BINARY, 1, 1000, 1000, "pair", 1, .steps = {acquire_each, release_each}},
    {"binary-pair-50", BINARY, 50, 40, 2000, "pair", 1, .steps = {acquire_each, release_each}},
    {"binary-pair-deep", BINARY, 1, 100, 1600, "pair", 32, .steps = {pipeline_pairs}},
    {"binary-get", BINARY, 2, 1000, 1000, "request", 1, .prepare = hold, .steps = {get}},
    {"pending-1", LATER, 1, 1000, 1000, "request", 1, .steps = {ask_deep, answer_deep}},
    {"pending-32", LATER, 1, 100, 3200, "request", 32, .steps = {ask_deep, answer_deep}},
    {"take-pair", TEXT, 1, 1000, 1000, "pair", 1,
     make_pool, {take_each, return_each}, {10, POOL_LIFO, 0, 0}},
    {"take-pair-50", TEXT, 50, 40, 2000, "pair", 1,
     make_pool, {take_each, return_each}, {50, POOL_LIFO, 0, 0}},
    {"take-pair-deep", TEXT, 1, 100, 1600, "pair", 32,
     make_pool, {pipeline_takes}, {10, POOL_LIFO, 0, 0}},
    {"take-pair-1e3", TEXT, 1, 1000, 1000, "pair", 1,
     make_pool, {take_each, return_each}, {1000, POOL_LIFO, 0, 0}},
    {"take-pair-1e5", TEXT, 1, 1000, 1000, "pair", 1,
     make_pool, {take_each, return_each}, {100000, POOL_LIFO, 0, 0}},
    {"take-random-1e5", TEXT, 1, 1000, 1000, "pair", 1,
     make_pool, {take_each, return_each}, {100000, POOL_RANDOM, 0, 0}},
    {"take-joined", TEXT, 1, 1000, 1000, "pair", 1,
     make_pool, {take_each, return_each}, {10, POOL_LIFO, 2, 0}},
    {"take-joined-1e3", TEXT, 1, 1000, 1000, "pair", 1,
     make_pool, {take_each, return_each}, {1000, POOL_LIFO, 1000, 0}},
    {"take-refusal", TEXT, 2, 1000, 1000, "request", 1,
     take_all, {find_none}, {1, POOL_LIFO, 0, 0}},
    {"take-handover", TEXT, 100, 1000, 1000, "hand-over", 1,
     wait_in_turn, {pass_on, wait_again}, {1, POOL_LIFO, 0, 0}},
    {"take-handover-10", TEXT, 11, 1000, 1000, "hand-over", 1,
     wait_in_turn, {pass_on, wait_again}, {1, POOL_LIFO, 0, 0}},
    {"take-handover-1e3", TEXT, 100, 49, 49, "hand-over", 1,
     wait_in_turn, {pass_on, wait_again}, {1, POOL_LIFO, 0, 1000}},
    {"take-handover-1e5", TEXT, 100, 49, 49, "hand-over", 1,
     wait_in_turn, {pass_on, wait_again}, {1, POOL_LIFO, 0, 100000}},
    {"job", JOBS, 1, 500, 500, "job", 1,
     make_tubes, .steps = {put_jobs, reserve_jobs, delete_jobs}},
    {"job-50", JOBS, 50, 20, 1000, "job", 1,
     make_tubes, .steps = {put_jobs, reserve_jobs, delete_jobs}},
    {"job-deep", JOBS, 1, 40, 1280, "job", 32,
     make_tubes, .steps = {put_jobs, reserve_jobs, delete_jobs}},
    {"job-handover", JOBS, 2, 500, 500, "job", 1,
     .steps = {wait_for_job, put_for_waiter, delete_of_waiter}},
    /* With a store from here on. */
    {"job-kept", JOBS, 1, 500, 500, "job", 1,
     make_kept_tubes, .steps = {put_jobs, reserve_jobs, delete_jobs}},
    {"job-kept-50", JOBS, 50, 20, 1000, "job", 1,
     make_kept_tubes, .steps = {put_jobs, reserve_jobs, delete_jobs}},
    {"job-kept-deep", JOBS, 1, 40, 1280, "job", 32,
     make_kept_tubes, .steps = {put_jobs, reserve_jobs, delete_jobs}},
};
/* clang-format on */

/* The count that is being played. */
static const struct count *playing;
static unsigned round_now, step_now;
static enum { CONNECTING, PREPARING, PLAYING, ENDING } phase;

/* Marks for callgrind. They differ, so that the compiler does not merge them. */
static volatile bool counting;

__attribute__((noinline)) static void counts_begin(void)
{
    counting = true;
}

__attribute__((noinline)) static void counts_end(void)
{
    counting = false;
}

static void take_step(void)
{
    if (step_now == 0 && round_now == playing->rounds)
        counts_begin();
    playing->steps[step_now](playing, round_now);
    step_now++;
    if (step_now == ARRAY_SIZE(playing->steps) || !playing->steps[step_now]) {
        step_now = 0;
        round_now++;
    }
}

/* Does the next action of the clients. Returns false at the end of the script. */
static bool act(void)
{
    if (phase == CONNECTING) {
        phase = PREPARING;
        for (unsigned i = 0; i < playing->clients; i++)
            client_open(&clients[i], playing->language);
    } else if (phase == PREPARING) {
        phase = PLAYING;
        if (playing->prepare)
            playing->prepare(playing);
    } else if (phase == PLAYING && round_now < 2 * playing->rounds) {
        take_step();
    } else if (phase == PLAYING) {
        counts_end();
        phase = ENDING;
        for (unsigned i = 0; i < playing->clients; i++)
            client_close(&clients[i]);
    } else {
        return false;
    }
    return true;
}

/* ---- in place of the kernel -------------------------------------------------------------- */

#define PATIENCE_MS 10000 /* limit for the loopback network to deliver */

int clock_gettime(clockid_t clock, struct timespec *now_r)
{
    static struct timespec now = {.tv_sec = 1000};
    now.tv_nsec += 1000;
    if (now.tv_nsec >= NS_PER_S)
        now = (struct timespec){.tv_sec = now.tv_sec + 1};
    *now_r = now;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        now_r->tv_sec += 1700000000;
    return 0;
}

ssize_t getrandom(void *to, size_t len, unsigned flags)
{
    (void)flags;
    memset(to, 7, len);
    return (ssize_t)len;
}

static bool all_are_answered(void)
{
    bool all = true;
    for (unsigned i = 0; i < CLIENTS; i++)
        all = client_is_answered(&clients[i]) && all;
    return all;
}

/* Events that the kernel has reported and that we have not passed to the server. */
static struct epoll_event ready[2 * CLIENTS];
static int ready_count;

/* Polls the kernel, which may report a descriptor once or repeatedly. */
static void look(int epoll_fd, int wait_ms)
{
    struct epoll_event now[ARRAY_SIZE(ready)];
    int n = epoll_pwait(epoll_fd, now, ARRAY_SIZE(now), wait_ms, NULL);
    for (int i = 0; i < n; i++) {
        int at = 0;
        while (at < ready_count && ready[at].data.u64 != now[i].data.u64)
            at++;
        CHECK(at < (int)ARRAY_SIZE(ready));
        ready_count += at == ready_count;
        ready[at] = now[i];
    }
}

/* Lets clients act until the server has something to do and all bytes that they sent have arrived;
   or until the script is over. */
static void let_clients_act(int epoll_fd)
{
    for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms++) {
        look(epoll_fd, waited_ms ? 1 : 0);
        if (ready_count > 0 && ready_count >= due) {
            due = 0;
            return;
        }
        if (due > 0 || !all_are_answered())
            continue;
        waited_ms = -1;
        if (!act()) {
            loop_stop(worker_reactor(server.workers[0])->loop);
            return;
        }
    }
    CHECK(false); /* the network has lost something */
}

__attribute__((noinline)) static int counts_await(int epoll_fd, struct epoll_event *events,
                                                  int room)
{
    if (ready_count == 0)
        let_clients_act(epoll_fd);
    int n = ready_count < room ? ready_count : room;
    ready_count -= n;
    memcpy(events, ready, (size_t)n * sizeof(*events));
    memmove(ready, ready + n, (size_t)ready_count * sizeof(*ready));
    return n;
}

/* Asks the kernel outside the counted functions. Another system call is counted instead; it costs
   as much until it enters the kernel. */
static int await_events(int epoll_fd, struct epoll_event *events, int room)
{
    if (store_rings && ready_count == 0)
        commit_jobs();
    poll(NULL, 0, 0);
    return counts_await(epoll_fd, events, room);
}

int epoll_wait(int epoll_fd, struct epoll_event *events, int room, int timeout_ms)
{
    (void)timeout_ms;
    return await_events(epoll_fd, events, room);
}

int epoll_pwait2(int epoll_fd, struct epoll_event *events, int room, const struct timespec *timeout,
                 const sigset_t *mask)
{
    (void)timeout;
    (void)mask;
    return await_events(epoll_fd, events, room);
}

/* ---- running ----------------------------------------------------------------------------- */

__attribute__((noinline)) static void counts_serve(void)
{
    loop_run(worker_reactor(server.workers[0])->loop);
}

static void say(const char *name, unsigned units, const char *unit)
{
    printf("count %s %u %s\n", name, units, unit);
}

static void play(const struct count *count)
{
    say(count->name, count->units, count->unit);
    playing = count;
    round_now = step_now = 0;
    phase = CONNECTING;
    counts_serve();
    if (count->pool.members > 0)
        end_pool();
}

__attribute__((noinline)) static void counts_use_engine(struct holder *holder, unsigned pairs)
{
    verdicts out;
    struct histogram holds;
    const struct moment now = {.mono_ns = NS_PER_S, .unix_s = 1700000000};
    memset(&holds, 0, sizeof(holds));
    mail_list_init(&out);
    for (unsigned i = 0; i < pairs; i++) {
        struct bytes name = name_of(i);
        struct acquire a = {.name = {.data = name.data, .len = name.len},
                            .units = 1,
                            .limit = 10,
                            .wait = WAIT_NO,
                            .keep = true};
        CHECK(table_acquire(services->table, holder, &a, now, NULL, NULL) == TABLE_OK);
        struct release r = {.name = a.name, .units = 1};
        CHECK(table_release(services->table, holder, &r, now, &holds, &out) == TABLE_OK);
    }
}

static void count_engine(void)
{
    struct holder holder;
    holder_init(&holder, 1, 1);
    counts_use_engine(&holder, NAMES);
    say("engine-pair", NAMES, "pair");
    counts_begin();
    counts_use_engine(&holder, NAMES);
    counts_end();
}

static void *do_nothing(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return NULL;
}

/* Some distributions' compilers do this by default. */
#ifdef __PIE__
#define ADDS_PIE " -fpie"
#else
#define ADDS_PIE ""
#endif
#ifdef __SSP_STRONG__
#define ADDS_SSP " -fstack-protector-strong"
#else
#define ADDS_SSP ""
#endif
#ifdef __CET__
#define ADDS_CET " -fcf-protection"
#else
#define ADDS_CET ""
#endif
#ifdef _FORTIFY_SOURCE
#define ADDS_FORTIFY " -D_FORTIFY_SOURCE"
#else
#define ADDS_FORTIFY ""
#endif
#define COMPILER_ADDS ADDS_PIE ADDS_SSP ADDS_CET ADDS_FORTIFY

int main(void)
{
#ifdef __clang__
    printf("compiler %s\n", __VERSION__);
#else
    printf("compiler gcc %s\n", __VERSION__);
#endif
    printf("flags %s\nlibc %s\n", BUILT_WITH COMPILER_ADDS, gnu_get_libc_version());
    pthread_t idle;
    CHECK(pthread_create(&idle, NULL, do_nothing, NULL) == 0);
    make_names();
    set_up();
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        play(&counts[i]);
    count_engine();
    tear_down();
    CHECK(pthread_cancel(idle) == 0 && pthread_join(idle, NULL) == 0);
    return 0;
}
