/*
 * service.c - tests the whole services: several clients send any bytes in any pieces, read slowly
 * and disconnect, while time passes. Engine, worker and connections are the real ones, on a
 * simulated network, loop and clock (t/campaigns/simulate/fake.h). The server stays from one input
 * to the next, because making one takes longer than most inputs; not that of jobs.
 *
 * Clients 0, 1 and 3 may change pools, client 2 may only join members. In what clients of jobs
 * send, the byte 1 stands for the last token that the sender was given, or the next client that was
 * given any.
 *
 * An input is a list of steps, each a byte and its arguments (see `step`). Promises: every answer
 * is well-formed; binary answers have opcode and opaque of the requests, in order; there are no
 * more answers than requests to locks; the fences and the ids of jobs that a client gets rise; all
 * invariants of the table, the pools and the jobs hold; when the clients have gone, nothing is
 * held, waited for or open.
 *
 * There are three programs of it. Their names choose the protocols of their clients.
 */
#include "base/log.h"
#include "fuzz/fuzz.h"
#include "proto/beanstalk.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "proto/pools.h"
#include "service/beanstalk.h"
#include "service/job_session.h"
#include "service/pools.h"
#include "t/campaigns/simulate/fake.h"
#include "t/models/jobs_check.h"
#include "t/models/pools_check.h"
#include "t/unit/serving.h"
#include "t/vectors/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>

#define CLIENTS    4
#define MAX_LINE   ((size_t)512)
#define INTERVAL_S 60

/* Either all clients are clients of jobs, or none is. */
static const struct kind {
    const char *program, *clients[CLIENTS];
} kinds[] = {{"text-service", {"poolcounter", "poolcounter", "poolcounter", "counter"}},
             {"binary-service", {"counter", "counter", "counter", "poolcounter"}},
             {"job-service", {"jobs", "jobs", "jobs", "jobs"}}};
static const struct kind *kind; /* of this program */

/* Limits that inputs reach. */
static const struct pools_settings pools_settings = {
    .operators = {.count = 2, .at = {{AF_INET, 31, {10, 0, 0, 0}}, {AF_INET, 32, {10, 0, 0, 3}}}},
    .suppliers = {.count = 1, .at = {{AF_INET, 32, {10, 0, 0, 2}}}},
    .max = 5,
    .max_members = 8,
    .max_watchers = 2,
    .max_taken = 5,
};

static const struct job_settings_of_protocol job_settings = {.max_job_size = 100};
static struct tubes_settings tubes_settings;

static struct server server;
static struct services *services; /* NULL: there is no server */

/* A client, the bytes that it has received, and those that it has sent on its connection. */
struct client {
    struct fake_peer peer;
    struct protocol *protocol; /* NULL: it has not connected */
    struct input_bytes {
        uint8_t *at;
        size_t len, room;
    } got, sent;
    bool cut; /* answers may be incomplete */
};
static struct client clients[CLIENTS];

static bool is_open(const struct client *c)
{
    return c->protocol && !c->peer.closed;
}

static void add(struct input_bytes *to, const uint8_t *bytes, size_t len)
{
    if (to->len + len > to->room) {
        to->room = (to->len + len) * 2;
        to->at = realloc(to->at, to->room);
        CHECK(to->at);
    }
    if (len > 0)
        memcpy(to->at + to->len, bytes, len);
    to->len += len;
}

static void on_received(struct fake_peer *peer, const uint8_t *bytes, size_t len, bool first,
                        bool last)
{
    (void)first;
    (void)last;
    add(&container_of(peer, struct client, peer)->got, bytes, len);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Number of lines sent, up to and including one that is too long. */
static size_t count_lines(const struct input_bytes *s)
{
    size_t count = 0, used = 0;
    struct pc_request request;
    for (size_t at = 0; at < s->len; at += used, count++) {
        enum pc_parsed parsed =
            pc_parse_request(s->at + at, s->len - at, MAX_LINE, &request, &used);
        if (parsed == PC_MORE)
            break;
        if (parsed == PC_LINE_TOO_LONG)
            return count + 1;
    }
    return count;
}

/* Checks a line that is no reply of fixed text of the PoolCounter protocol. Returns true if it
 * answers a request by itself. `fence_r` is the last that the client got. */
static bool check_line(struct bytes line, uint64_t *fence_r)
{
    struct pc_stats stats = {0};
    struct pool_answer answer;
    pool_parse_reply(line, &answer);
    if (answer.reply == POOL_REPLY_OTHER)
        CHECK(stats_parse_line(line, &stats));
    if (answer.reply == POOL_REPLY_TAKEN) {
        CHECK(answer.taken.fence > *fence_r);
        *fence_r = answer.taken.fence;
    }
    return answer.reply <= POOL_REPLY_BAD_VALUE && answer.reply != POOL_REPLY_END;
}

static void check_text(const struct client *c)
{
    size_t answers = 0, used = 0;
    uint64_t fence = 0;
    for (size_t at = 0; at < c->got.len; at += used) {
        enum pc_reply reply;
        struct bytes line;
        enum pc_parsed parsed =
            pc_parse_reply(c->got.at + at, c->got.len - at, POOLS_REPLY_ROOM, &reply, &line, &used);
        if (parsed == PC_MORE && c->cut)
            break;
        CHECK(parsed == PC_OK);
        answers += reply != PC_REPLY_OTHER || check_line(line, &fence);
    }
    CHECK(answers <= count_lines(&c->sent));
}

/* Parses the request at *at and moves *at behind it. MORE: there is no whole request. */
static enum ctr_parsed next_request(const struct input_bytes *s, size_t *at,
                                    struct ctr_request *request_r)
{
    size_t used = 0;
    enum ctr_parsed parsed = ctr_parse_request(s->at + *at, s->len - *at, request_r, &used);
    *at += parsed == CTR_MORE ? 0 : used;
    return parsed;
}

/*
 * True when a reply has the opcode and opaque of its request. For BAD_MAGIC (`begun`), the reply
 * comes after the first byte and has 0 for bytes that had not arrived.
 */
static bool is_reply_to(const struct ctr_reply *reply, const struct ctr_request *request,
                        bool begun)
{
    bool same = reply->opcode == request->opcode || (begun && reply->opcode == 0);
    for (size_t i = 0; i < sizeof(reply->opaque); i++)
        same &= reply->opaque[i] == request->opaque[i] || (begun && reply->opaque[i] == 0);
    return same;
}

static void check_binary(const struct client *c)
{
    size_t used = 0, asked = 0;
    struct ctr_request request = {0};
    enum ctr_parsed was = CTR_MORE;
    bool dumping = false;
    for (size_t at = 0; at < c->got.len; at += used) {
        struct ctr_reply reply;
        enum ctr_parsed parsed = ctr_parse_reply(c->got.at + at, c->got.len - at, &reply, &used);
        if (parsed == CTR_MORE && c->cut)
            break;
        CHECK(parsed == CTR_OK && reply.body.data == c->got.at + at + CTR_HEADER);
        if (!dumping)
            was = next_request(&c->sent, &asked, &request);
        CHECK(was != CTR_MORE && is_reply_to(&reply, &request, was == CTR_BAD_MAGIC));
        dumping =
            request.opcode == CTR_DUMP && reply.status == CTR_STATUS_SUCCESS && reply.body.len > 0;
    }
}

/* Checks what a client of jobs was answered. Returns the token of its last claimed job; 0: none. */
static uint64_t check_jobs(const struct client *c)
{
    struct bytes got = bytes_at(c->got.at, c->got.len);
    uint64_t inserted = 0, token = 0;
    struct bs_reply reply;
    for (size_t used; got.len > 0; (void)bytes_take(&got, used)) {
        enum bs_parsed parsed = bs_parse_reply(got.data, got.len, &reply, &used);
        CHECK(parsed == BS_PARSED || (parsed == BS_MORE && c->cut));
        size_t body = parsed == BS_PARSED && reply.has_body ? (size_t)reply.body_len + 2 : 0;
        CHECK(got.len - used >= body || c->cut);
        if (parsed == BS_MORE || got.len - used < body)
            break;
        CHECK(body == 0 || memcmp(got.data + used + body - 2, "\r\n", 2) == 0);
        used += body;
        if (reply.answer == BS_ANSWER_INSERTED) {
            CHECK(reply.id > inserted);
            inserted = reply.id;
        }
        if (reply.answer == BS_ANSWER_CLAIMED_JOB) {
            CHECK(reply.try > 0 && reply.token > 0 && reply.token <= UINT64_C(9007199254740991));
            token = reply.token;
        }
    }
    return token;
}

/* Checks all answers to a client before they are discarded. */
static void check_answers(struct client *c)
{
    if (!c->protocol)
        return;
    if (strcmp(c->protocol->row->name, "jobs") == 0)
        (void)check_jobs(c);
    else if (strcmp(c->protocol->row->name, "counter") == 0)
        check_binary(c);
    else
        check_text(c);
    c->got.len = c->sent.len = 0;
    c->cut = false;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Instead of the C library's (--wrap), so that an input always gives the same result. */
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags)
{
    (void)flags;
    memset(to, 7, len);
    return (ssize_t)len;
}

static bool has_jobs(void)
{
    return strcmp(kind->clients[0], "jobs") == 0;
}

/* Makes it, for an input of this size. */
static void make_server(size_t size)
{
    for (kind = kinds; strcmp(kind->program, program_invocation_short_name) != 0; kind++)
        CHECK(kind + 1 < kinds + ARRAY_SIZE(kinds));
    if (has_jobs()) {
        fake_now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1700000000};
        fake_unix_ns = 0;
    }
    fake_hooks.received = on_received;
    log_set_level(LOG_LEVEL_ERROR);
    tubes_settings.defaults = job_default_settings;
    tubes_settings.memory_limit = size % 4 == 0 ? 6000 : 1 << 20; /* a few jobs; enough */
    const struct snapshot_config snapshot = {.limits = {.output_buffer = 4096,
                                                        .request_timeout_ns = 30 * NS_PER_S,
                                                        .write_timeout_ns = 30 * NS_PER_S}};
    const struct serving_config config = {.table = {.buckets = 64,
                                                    .memory_limit = (size_t)16 << 20,
                                                    .stats_interval_s = INTERVAL_S,
                                                    .hash_key = {.k0 = 1, .k1 = 2}},
                                          .poolcounter_max_locks = 3,
                                          .poolcounter_max_line = MAX_LINE,
                                          .pools = &pools_settings,
                                          .jobs = &job_settings,
                                          .tubes = &tubes_settings};
    services = serving_make(&server, 1, &snapshot, &config);
}

static struct loop *loop_of_server(void)
{
    return worker_reactor(server.workers[0])->loop;
}

static void run(void)
{
    while (fake_turn(loop_of_server()))
        continue;
}

/* Deadlines on the way fire in order. */
static void advance(int64_t ns)
{
    int64_t end_ns = fake_now.mono_ns + ns;
    run();
    for (int64_t next_ns; (next_ns = loop_of_server()->timer_at_ns) <= end_ns; run())
        fake_pass_time(next_ns - fake_now.mono_ns);
    fake_pass_time(end_ns - fake_now.mono_ns);
    run();
}

static void connect_client(struct client *c, unsigned i)
{
    check_answers(c);
    free(c->peer.input);
    c->peer = (struct fake_peer){
        .fd = c->peer.fd, .address = 0x0a000000 + i, .window = SIZE_MAX}; /* 10.0.0.i */
    c->protocol = services_protocol(services, kind->clients[i]);
    worker_begin_iteration(server.workers[0]);
    atomic_fetch_add(&c->protocol->connections, 1);
    CHECK(worker_open(server.workers[0], c->protocol, (struct stream){.fd = c->peer.fd}, 0));
    (void)worker_end_iteration(server.workers[0]);
}

static bool note_name(void *arg, const struct pool_entry *entry)
{
    struct bytes *name = arg;
    static uint8_t at[POOL_NAME_MAX];
    memcpy(at, entry->name.data, entry->name.len);
    *name = bytes_at(at, entry->name.len);
    return true;
}

/* Nothing of any pool is held or awaited any more: drops all pools. */
static void drop_pools(void)
{
    struct pools *pools = pools_of(services);
    struct bytes all = bytes_at(NULL, 0), name;
    struct pools_sums sums;
    pools_sums(pools, &sums);
    CHECK(sums.held == 0 && sums.waiting == 0);
    while (name.len = 0, pools_list(pools, all, all, 1, note_name, &name, fake_now), name.len > 0) {
        struct pool_outbox none;
        pool_outbox_init(&none);
        CHECK(pool_drop(pools, name, true, fake_now, &none) == POOL_OK);
        CHECK(!none.clients.first && !none.woken.first);
    }
}

/* All clients go: nothing may be held, waited for or open then. */
static void drain(void)
{
    for (unsigned i = 0; i < CLIENTS; i++)
        clients[i].peer.broken = clients[i].peer.news = clients[i].protocol != NULL;
    run();
    for (unsigned i = 0; i < CLIENTS; i++) {
        CHECK(!is_open(&clients[i]));
        clients[i].protocol = NULL;
    }
    drop_pools();
    struct moment later = fake_now;
    later.unix_s += 2 * (int64_t)INTERVAL_S;
    struct table_walk walk = {0};
    uint64_t collected = 0;
    while (!table_collect(services->table, &walk, later, 1000, &collected))
        continue;
    struct table_stats stats;
    table_get_stats(services->table, later, &stats);
    CHECK(stats.names == 0 && stats.waiting == 0 && stats.holdings == 0 && stats.units == 0);
    for (unsigned i = 0; i < services_count(services); i++)
        CHECK(service_waiting(services_at(services, i)) == 0);
    CHECK(worker_connections(server.workers[0]) == 0);
    jobs_check(jobs_of(services), fake_now);
    fake_now.unix_s += 2 * (int64_t)INTERVAL_S;
    fake_peers_leave();
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void send_bytes(unsigned i, const uint8_t *bytes, size_t len)
{
    struct client *c = &clients[i];
    if (!is_open(c))
        connect_client(c, i);
    add(&c->sent, bytes, len);
    fake_peer_send(&c->peer, bytes, len);
}

static void send_some(unsigned i, const uint8_t *bytes, size_t len)
{
    char text[32];
    const uint8_t *mark;
    while (has_jobs() && len > 0 && (mark = memchr(bytes, 1, len)) != NULL) {
        size_t before = (size_t)(mark - bytes);
        uint64_t token = 0;
        for (unsigned n = 0; n < CLIENTS && token == 0; n++)
            token = check_jobs(&clients[(i + n) % CLIENTS]);
        snprintf(text, sizeof(text), "%" PRIu64, token);
        send_bytes(i, bytes, before);
        send_bytes(i, (const uint8_t *)text, strlen(text));
        bytes += before + 1;
        len -= before + 1;
    }
    send_bytes(i, bytes, len);
}

static void end_sending(unsigned i, uint8_t how)
{
    struct fake_peer *peer = &clients[i].peer;
    if (!is_open(&clients[i]))
        return;
    if (how & 1)
        peer->broken = clients[i].cut = true;
    peer->stubborn = how & 2;
    peer->ended = peer->ended || !(how & 2);
    peer->news = true;
}

static void set_window(unsigned i, uint8_t window)
{
    struct fake_peer *peer = &clients[i].peer;
    if (!is_open(&clients[i]))
        return;
    clients[i].cut = true;
    peer->window = window == 255 ? SIZE_MAX : window;
    peer->news = true;
}

/*
 * Runs one step. Bits 0 and 1 choose the client, bits 2 to 4 the action. If bit 7 is set, the
 * server gets only one iteration before the next step.
 */
static void step(struct input *in)
{
    uint8_t what = input_byte(in);
    unsigned i = what & 3;
    size_t len;
    const uint8_t *bytes;
    switch (what >> 2 & 7) {
    case 0: /* send all remaining bytes */
        bytes = input_bytes(in, in->left, &len);
        send_some(i, bytes, len);
        break;
    case 1: /* shut down sending, disconnect, or refuse to close */
        end_sending(i, input_byte(in));
        break;
    case 2: /* change how many bytes the client accepts */
        set_window(i, input_byte(in));
        break;
    case 3: /* let time pass, up to 2^36 ns, with jobs 2^42 ns */
        advance((int64_t)1 << (input_byte(in) % (has_jobs() ? 43 : 37)));
        break;
    default: /* send some bytes */
        bytes = input_bytes(in, input_byte(in), &len);
        send_some(i, bytes, len);
        break;
    }
    if (what & 128)
        (void)fake_turn(loop_of_server());
    else
        run();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    if (!services)
        make_server(size);
    for (unsigned i = 0; i < CLIENTS; i++)
        fake_peer_join(&clients[i].peer);
    while (in.left > 0)
        step(&in);
    run();
    table_check(services->table); /* also checks what the previous input left */
    pools_check(pools_of(services), fake_now);
    jobs_check(jobs_of(services), fake_now);
    for (unsigned i = 0; i < CLIENTS; i++)
        check_answers(&clients[i]);
    drain();
    if (has_jobs()) /* jobs outlive their clients, and ids go on */
        serving_free(&server, &services);
    return 0;
}
