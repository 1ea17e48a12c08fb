/*
 * requests.c - plays a fixed script of requests to the real services, engine, connections, worker
 * and event loop over real sockets. counts.py has callgrind count the instructions.
 *
 * One thread does all the work, and nothing is random: the clients act when the worker is idle, so
 * every run makes the same wake-ups for the same requests (the table `counts`). For that the
 * program replaces three things of the kernel: waiting (epoll_wait and epoll_pwait2 let the clients
 * act first), time (clock_gettime adds a microsecond at each call) and random bytes. Hash key and
 * names are fixed. A second thread does nothing; with it the C library's functions cost more, as in
 * the daemon.
 *
 * callgrind selects functions by name, so these names begin with `counts_`. It counts in
 * counts_serve, but not in counts_await, which it calls. Each count begins
 * with counts_begin and ends with counts_end. Standard output says what each count is.
 */
#include "net/listener.h"
#include "proto/counter.h"
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

/* ---- the server ------------------------------------------------------------------------------ */

static struct server server;
static struct services *services;
static struct listener listeners[3];
static struct acceptor *acceptor;

enum language { TEXT, BINARY, JOBS };

/* Jobs begin with this id: all have as many digits. */
#define FIRST_JOB 10000
#define ID_LEN    5

static void set_up(void)
{
    const struct snapshot_config snapshot_config = {
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
    services = serving_make(&server, 1, &snapshot_config, &config);
    struct protocol *const protocols[] = {
        [TEXT] = services_protocol(services, "poolcounter"),
        [BINARY] = services_protocol(services, "counter"),
        [JOBS] = services_protocol(services, "jobs"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(listeners); i++)
        CHECK(listener_open(&listeners[i], protocols[i], (struct sockaddr *)&any_port,
                            sizeof(any_port), false));
    acceptor = acceptor_new(server.workers[0], listeners, ARRAY_SIZE(listeners));
    CHECK(acceptor);
    while (jobs_take_ids(jobs_of(services), 1) < FIRST_JOB - 1)
        ;
}

static void tear_down(void)
{
    acceptor_free(&acceptor);
    for (size_t i = 0; i < ARRAY_SIZE(listeners); i++)
        listener_close(&listeners[i]);
    serving_free(&server, &services);
}

/* ---- clients --------------------------------------------------------------------------------- */

#define CLIENTS     100
#define CLIENT_ROOM 4096

/* A client, the bytes to send and those it must get as the answer; ANY_BYTE stands for any. */
#define ANY_BYTE '?'
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

/* ---- requests -------------------------------------------------------------------------------- */

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

/* ---- the script ------------------------------------------------------------------------------ */

/* Whose turn it is: all clients, one of them, or the one of this round and the next. */
enum who { EACH, FIRST, SECOND, REST, TURN, NEXT };

/*
 * What clients send, and what they are then to get; NULL: nothing. In what is sent %n is a name of
 * its own, %0 the first name, %i the client's number, and %f and %j are the fence and the number of
 * the job that the client's last answer had.
 */
struct act {
    enum who who;
    const char *ask, *answer; /* in binary: a (acquire), r (release) or g (get) */
};

/*
 * The counts, one row each: name, language, number of connected clients, number of steps to warm up
 * and then to count, and the units to divide the cost by. A step is all that the clients do before
 * the server acts.
 */
struct count {
    const char *name;
    enum language language;
    unsigned clients; /* 0: one connects in the first step of each round, and closes in the last */
    unsigned rounds, units;
    const char *unit;
    unsigned depth;   /* how often each client asks at once */
    unsigned members; /* of the pool that it has; 0: none */
    bool keeps_jobs;  /* with a store, also in all counts behind it */
    struct act prepare[2], steps[3][2];
};

#define POOL        "databases"
#define MEMBER      "db_000000"
#define MEMBER_ADDR "10.0.0.7:5432"
#define FENCE_LEN   16 /* the clock gives numbers of 16 digits */
#define TAKEN       "TAKEN " POOL " ????????? ???????????????? " MEMBER_ADDR "\n"
#define FENCE_AT    (sizeof("TAKEN " POOL " " MEMBER " ") - 1)
#define BODY        "The body of a job, whose length is that of 64 bytes as in bench."
#define RESERVED    "RESERVED ????? 64\r\n" BODY "\r\n"
_Static_assert(sizeof(BODY) == 64 + 1, "its length is in the lines");

static void add(uint8_t *to, size_t *len, const void *data, size_t size)
{
    CHECK(size <= CLIENT_ROOM - *len);
    memcpy(to + *len, data, size);
    *len += size;
}

/* Adds to what a client sends. `number`: of the name; `place`: of the request among its own. */
static void put_line(struct client *c, const char *ask, unsigned number, unsigned place)
{
    for (; *ask; ask++) {
        char client[3];
        if (*ask != '%') {
            add(c->out, &c->out_len, ask, 1);
            continue;
        }
        ask++;
        if (*ask == 'i')
            snprintf(client, sizeof(client), "%02u", (unsigned)(c - clients) % 100);
        if (*ask == 'i')
            add(c->out, &c->out_len, client, 2);
        else if (*ask == 'f')
            add(c->out, &c->out_len, c->got + FENCE_AT, FENCE_LEN);
        else if (*ask == 'j')
            add(c->out, &c->out_len, c->got + place * (sizeof(RESERVED) - 1) + strlen("RESERVED "),
                ID_LEN);
        else
            add(c->out, &c->out_len, name_of(*ask == '0' ? 0 : number).data, NAME_LEN);
    }
}

static void do_act(const struct count *count, const struct act *act, unsigned round, unsigned depth)
{
    unsigned all = count->clients > 0 ? count->clients : 1;
    unsigned from = act->who == SECOND || act->who == REST ? 1
                    : act->who == TURN                     ? round % all
                    : act->who == NEXT                     ? (round + 1) % all
                                                           : 0;
    unsigned until = act->who == EACH || act->who == REST ? all : from + 1;
    for (unsigned i = from; i < until; i++) {
        for (unsigned n = 0; n < depth; n++) {
            unsigned number = (round * all + i) * depth + n;
            if (act->ask && count->language == BINARY)
                for (const char *word = act->ask; *word; word++)
                    put_binary(&clients[i],
                               *word == 'a'   ? CTR_ACQUIRE
                               : *word == 'r' ? CTR_RELEASE
                                              : CTR_GET,
                               *word == 'g' ? 0 : number);
            else if (act->ask)
                put_line(&clients[i], act->ask, number, n);
            if (act->answer)
                add(clients[i].answer, &clients[i].answer_len, act->answer, strlen(act->answer));
        }
        if (act->ask)
            client_send(&clients[i]);
    }
}

static void do_acts(const struct count *count, const struct act acts[2], unsigned round,
                    unsigned depth)
{
    for (unsigned i = 0; i < 2; i++)
        if (acts[i].ask || acts[i].answer)
            do_act(count, &acts[i], round, depth);
}

/* Makes the pool of a count. */
static void make_pool(const struct count *count)
{
    static const struct pools_limits limits = {.pools_max = 1, .members_max = 100, .taken_max = 1};
    struct pools *pools = pools_of(services);
    struct moment now = worker_now(server.workers[0]);
    struct pool_options options;
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    pools_set_limits(pools, &limits, now, &outbox);
    pool_options_init(&options);
    options.order = POOL_LIFO;
    options.queue_max = UINT32_MAX;
    CHECK(pool_add(pools, bytes_of(POOL), &options, false, now, &outbox) == POOL_OK);
    pool_options_free(&options);
    for (unsigned i = 0; i < count->members; i++) {
        char name[sizeof(MEMBER)];
        snprintf(name, sizeof(name), "db_%06u", i % 1000000);
        struct pool_new_member member = {
            .pool = bytes_of(POOL), .name = bytes_of(name), .value = bytes_of(MEMBER_ADDR)};
        CHECK(pool_member_add(pools, &member, now, &outbox) == POOL_OK);
    }
    CHECK(!outbox.clients.first && !outbox.woken.first);
}

/* Ends the pool. All connections have closed. */
static void end_pool(void)
{
    struct pool_outbox outbox;
    pool_outbox_init(&outbox);
    CHECK(pool_drop(pools_of(services), bytes_of(POOL), true, worker_now(server.workers[0]),
                    &outbox) == POOL_OK);
    CHECK(!outbox.clients.first && !outbox.woken.first);
}

/* ---- a store of jobs that keeps nothing ------------------------------------------------------ */

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
    .begin = begin_nothing, .commit = commit_nothing, .put = keep_put, .remove = keep_removal};

static bool store_rings;

static void ring_store(void *arg)
{
    (void)arg;
    store_rings = true;
}

/* Jobs have that store from now on; commit_jobs does what its thread would. */
static void keep_jobs(void)
{
    struct jobs *jobs = jobs_of(services);
    if (!jobs_has_store(jobs))
        CHECK(jobs_use_store(jobs, ring_store, NULL));
}

static void commit_jobs(void)
{
    struct jobs *jobs = jobs_of(services);
    struct job_store store = {.does = &keeps_nothing};
    struct job_op_list list;
    struct jobs_outbox outbox;
    struct mail *mail;
    const struct moment now = clock_now();
    store_rings = false;
    if (!jobs_take_ops(jobs, &list, 1000, 1000000))
        return;
    job_ops_read(jobs, &store, &list, 0);
    job_ops_committed(&list, job_ops_write(&store, &list, now.mono_ns, false), false);
    jobs_outbox_init(&outbox);
    jobs_settle(jobs, &list, now, &outbox);
    CHECK(!outbox.messages.first && outbox.done.first);
    while ((mail = mail_list_take(&outbox.done)) != NULL)
        conn_post_late(&server, container_of(mail, struct message, mail));
    jobs_set_timer(services);
    due++; /* the mailbox */
}

#define LOCK     "ACQ4ME %n 10 1000 15\n"
#define UNLOCK   "RELEASE %n\n"
#define WAIT     "ACQ4ME %0 1 1000 60\n"
#define TAKE     "TAKE " POOL " 15\n"
#define PUT      "put 0 0 60 64\r\n" BODY "\r\n"
#define INSERTED "INSERTED ?????\r\n"

/* clang-format off */
#define LOCKS   {{{EACH, LOCK, "LOCKED\n"}}, {{EACH, UNLOCK, "RELEASED\n"}}}
#define UNITS   {{{EACH, "a"}}, {{EACH, "r"}}}
#define MEMBERS {{{EACH, TAKE, TAKEN}}, {{EACH, "RETURN %f\n", "RETURNED\n"}}}
/* Each client has its own tube. */
#define TUBES   {{EACH, "use tube_%i\r\nwatch tube_%i\r\nignore default\r\n",                      \
                 "USING tube_??\r\nWATCHING 2\r\nWATCHING 1\r\n"}}
#define WORK    {{{EACH, PUT, INSERTED}}, {{EACH, "reserve\r\n", RESERVED}},                        \
                 {{EACH, "delete %j\r\n", "DELETED\r\n"}}}

static const struct count counts[] = {
    {"text-pair", TEXT, 1, 1000, 1000, "pair", 1, .steps = LOCKS},
    {"text-pair-50", TEXT, 50, 40, 2000, "pair", 1, .steps = LOCKS},
    {"text-pair-deep", TEXT, 1, 100, 1600, "pair", 16,
     .steps = {{{EACH, LOCK UNLOCK, "LOCKED\nRELEASED\n"}}}},
    {"text-refusal", TEXT, 2, 1000, 1000, "request", 1,
     .prepare = {{FIRST, "ACQ4ME %0 10 1000 15\n", "LOCKED\n"}},
     .steps = {{{SECOND, "ACQ4ME %0 1 1000 0\n", "TIMEOUT\n"}}}},
    {"text-handover", TEXT, 100, 1000, 1000, "hand-over", 1,
     .prepare = {{EACH, WAIT}, {FIRST, NULL, "LOCKED\n"}},
     .steps = {{{TURN, "RELEASE %0\n", "RELEASED\n"}, {NEXT, NULL, "LOCKED\n"}}, {{TURN, WAIT}}}},
    {"text-herd", TEXT, 100, 20, 20 * 99, "waiter", 1,
     .steps = {{{FIRST, "ACQ4ME %0 10 1000 15\n", "LOCKED\n"}}, {{REST, "ACQ4ANY %0 1 1000 60\n"}},
               {{FIRST, "RELEASE %0\n", "RELEASED\n"}, {REST, NULL, "DONE\n"}}}},
    {"text-churn", TEXT, 0, 250, 250, "cycle", 1, .steps = LOCKS},
    {"binary-pair", BINARY, 1, 1000, 1000, "pair", 1, .steps = UNITS},
    {"binary-pair-50", BINARY, 50, 40, 2000, "pair", 1, .steps = UNITS},
    {"binary-pair-deep", BINARY, 1, 100, 1600, "pair", 16, .steps = {{{EACH, "ar"}}}},
    {"binary-get", BINARY, 2, 1000, 1000, "request", 1,
     .prepare = {{FIRST, "a"}}, .steps = {{{SECOND, "g"}}}},
    {"take-pair", TEXT, 1, 1000, 1000, "pair", 1, .members = 10, .steps = MEMBERS},
    {"take-pair-50", TEXT, 50, 40, 2000, "pair", 1, .members = 50, .steps = MEMBERS},
    {"take-pair-deep", TEXT, 1, 100, 1600, "pair", 16, .members = 10,
     .steps = {{{EACH, TAKE "RETURN\n", TAKEN "RETURNED\n"}}}},
    {"take-refusal", TEXT, 2, 1000, 1000, "request", 1, .members = 1,
     .prepare = {{FIRST, TAKE, TAKEN}}, .steps = {{{SECOND, "TAKE " POOL " 0\n", "TIMEOUT\n"}}}},
    {"take-handover", TEXT, 100, 1000, 1000, "hand-over", 1, .members = 1,
     .prepare = {{EACH, TAKE}, {FIRST, NULL, TAKEN}},
     .steps = {{{TURN, "RETURN %f\n", "RETURNED\n"}, {NEXT, NULL, TAKEN}}, {{TURN, TAKE}}}},
    {"job", JOBS, 1, 500, 500, "job", 1, .prepare = TUBES, .steps = WORK},
    {"job-50", JOBS, 50, 20, 1000, "job", 1, .prepare = TUBES, .steps = WORK},
    {"job-deep", JOBS, 1, 40, 1280, "job", 32, .prepare = TUBES, .steps = WORK},
    {"job-handover", JOBS, 2, 500, 500, "job", 1,
     .steps = {{{SECOND, "reserve\r\n"}}, {{FIRST, PUT, INSERTED}, {SECOND, NULL, RESERVED}},
               {{SECOND, "delete %j\r\n", "DELETED\r\n"}}}},
    {"job-kept", JOBS, 1, 500, 500, "job", 1, 0, true, TUBES, WORK},
    {"job-kept-50", JOBS, 50, 20, 1000, "job", 1, 0, true, TUBES, WORK},
    {"job-kept-deep", JOBS, 1, 40, 1280, "job", 32, 0, true, TUBES, WORK},
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

static unsigned steps_of(const struct count *count)
{
    unsigned steps = count->clients == 0; /* which closes */
    for (unsigned i = 0; i < ARRAY_SIZE(count->steps); i++)
        steps += count->steps[i][0].ask != NULL;
    return steps;
}

static void take_step(void)
{
    if (step_now == 0 && round_now == playing->rounds)
        counts_begin();
    if (playing->clients == 0 && step_now == 0)
        client_open(&clients[0], playing->language);
    const struct act *acts = playing->steps[step_now];
    if (acts->ask || acts->answer)
        do_acts(playing, acts, round_now, playing->depth);
    else
        client_close(&clients[0]);
    if (playing->clients == 0 && step_now == 0)
        due = 1; /* the listener; the server does not know the connection yet */
    step_now++;
    if (step_now == steps_of(playing)) {
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
        if (playing->keeps_jobs)
            keep_jobs();
        if (playing->members > 0)
            make_pool(playing);
        do_acts(playing, playing->prepare, 0, 1);
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

/* ---- in place of the kernel ------------------------------------------------------------------ */

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

/* ---- running --------------------------------------------------------------------------------- */

__attribute__((noinline)) static void counts_serve(void)
{
    loop_run(worker_reactor(server.workers[0])->loop);
}

static void play(const struct count *count)
{
    printf("count %s %u %s\n", count->name, count->units, count->unit);
    playing = count;
    round_now = step_now = 0;
    phase = CONNECTING;
    counts_serve();
    if (count->members > 0)
        end_pool();
}

static void *do_nothing(void *arg)
{
    (void)arg;
    for (;;)
        pause();
    return NULL;
}

/* Some distributions' compilers add flags by default. */
static const char flags[] = "flags " BUILT_WITH
#ifdef __PIE__
                            " -fpie"
#endif
#ifdef __SSP_STRONG__
                            " -fstack-protector-strong"
#endif
#ifdef __CET__
                            " -fcf-protection"
#endif
#ifdef _FORTIFY_SOURCE
                            " -D_FORTIFY_SOURCE"
#endif
    ;

int main(void)
{
#ifdef __clang__
    printf("compiler %s\n", __VERSION__);
#else
    printf("compiler gcc %s\n", __VERSION__);
#endif
    printf("%s\nlibc %s\n", flags, gnu_get_libc_version());
    pthread_t idle;
    CHECK(pthread_create(&idle, NULL, do_nothing, NULL) == 0);
    make_names();
    set_up();
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        play(&counts[i]);
    tear_down();
    CHECK(pthread_cancel(idle) == 0 && pthread_join(idle, NULL) == 0);
    return 0;
}
