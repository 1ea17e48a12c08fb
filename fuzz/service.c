/*
 * service.c - tests the whole services: several clients send any bytes in any pieces, read slowly
 * and disconnect, while time passes. Engine and connections are the real ones (world.h).
 *
 * Clients 0, 1 and 3 may change pools, client 2 may only join members. In what clients of jobs
 * send, the byte 1 stands for the last token that the sender was given, or the next client that was
 * given any.
 *
 * An input is a list of steps, each a byte and its arguments (see `step`). Promises: every answer
 * is well-formed; binary answers have opcode and opaque of the requests, in order; there are no
 * more answers than requests; the fences that a client gets rise; answers of jobs are of a kind
 * that their requests have, in order; all invariants of the table, the pools and the jobs hold;
 * when the clients have gone, nothing is held, waited for or open.
 */
#include "fuzz/service.h"
#include "fuzz/job-answers.h"
#include "fuzz/world.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "proto/pools.h"
#include "service/job_session.h"
#include "service/jobs.h"
#include "service/pools.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_LINE ((size_t)512)

/* Limits that inputs reach. */
static const struct pools_settings pools_settings = {
    .operators = {.count = 2, .at = {{AF_INET, 31, {10, 0, 0, 0}}, {AF_INET, 32, {10, 0, 0, 3}}}},
    .suppliers = {.count = 1, .at = {{AF_INET, 32, {10, 0, 0, 2}}}},
    .max = 5,
    .max_members = 8,
    .max_watchers = 2,
    .max_taken = 5,
};

static const struct job_settings_of_protocol job_settings = {.max_job_size = JOB_SIZE_MAX};
static struct tubes_settings tubes_settings;

static struct world *world;

/* Bytes that a client has sent on its connection. `cut`: answers may be incomplete. */
struct sent {
    uint8_t *bytes;
    size_t len, room;
    bool cut;
};

static struct sent sent[SERVICE_CLIENTS];

static bool is_open(unsigned i)
{
    return world->clients[i].protocol && !world->clients[i].peer.closed;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Number of lines sent, up to and including one that is too long. */
static size_t count_lines(const struct sent *s)
{
    size_t count = 0, used = 0;
    struct pc_request request;
    for (size_t at = 0; at < s->len; at += used, count++) {
        enum pc_parsed parsed =
            pc_parse_request(s->bytes + at, s->len - at, MAX_LINE, &request, &used);
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
    struct pc_stats stats;
    struct pool_answer answer;
    pool_parse_reply(line, &answer);
    if (answer.reply == POOL_REPLY_OTHER)
        CHECK(pc_parse_stats_line(line, &stats));
    if (answer.reply == POOL_REPLY_TAKEN) {
        CHECK(answer.taken.fence > *fence_r);
        *fence_r = answer.taken.fence;
    }
    return answer.reply <= POOL_REPLY_BAD_VALUE && answer.reply != POOL_REPLY_END;
}

static void check_text(const struct world_client *c, const struct sent *s)
{
    size_t answers = 0, used = 0;
    uint64_t fence = 0;
    for (size_t at = 0; at < c->got_len; at += used) {
        enum pc_reply reply;
        struct bytes line;
        enum pc_parsed parsed =
            pc_parse_reply(c->got + at, c->got_len - at, POOLS_REPLY_ROOM, &reply, &line, &used);
        if (parsed == PC_MORE && s->cut)
            break;
        CHECK(parsed == PC_OK);
        answers += reply != PC_REPLY_OTHER || check_line(line, &fence);
    }
    CHECK(answers <= count_lines(s));
}

/* Parses the request at *at and moves *at behind it. MORE: there is no whole request. */
static enum ctr_parsed next_request(const struct sent *s, size_t *at, struct ctr_request *request_r)
{
    size_t used = 0;
    enum ctr_parsed parsed = ctr_parse_request(s->bytes + *at, s->len - *at, request_r, &used);
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

static void check_binary(const struct world_client *c, const struct sent *s)
{
    size_t used = 0, asked = 0;
    struct ctr_request request = {0};
    enum ctr_parsed was = CTR_MORE;
    bool dumping = false;
    for (size_t at = 0; at < c->got_len; at += used) {
        struct ctr_reply reply;
        enum ctr_parsed parsed = ctr_parse_reply(c->got + at, c->got_len - at, &reply, &used);
        if (parsed == CTR_MORE && s->cut)
            break;
        CHECK(parsed == CTR_OK && reply.body.data == c->got + at + CTR_HEADER);
        if (!dumping)
            was = next_request(s, &asked, &request);
        CHECK(was != CTR_MORE && is_reply_to(&reply, &request, was == CTR_BAD_MAGIC));
        dumping =
            request.opcode == CTR_DUMP && reply.status == CTR_STATUS_SUCCESS && reply.body.len > 0;
    }
}

/* Checks all answers to client `i` before they are discarded. */
static void check_answers(unsigned i)
{
    const struct world_client *c = &world->clients[i];
    if (!c->protocol)
        return;
    if (strcmp(c->protocol->row->name, "jobs") == 0)
        job_answers_check(bytes_at(sent[i].bytes, sent[i].len), bytes_at(c->got, c->got_len),
                          sent[i].cut);
    else if (strcmp(c->protocol->row->name, "counter") == 0)
        check_binary(c, &sent[i]);
    else
        check_text(c, &sent[i]);
    sent[i].len = 0;
    sent[i].cut = false;
}

/* ---- steps --------------------------------------------------------------------------------- */

static void send_bytes(unsigned i, const uint8_t *bytes, size_t len)
{
    struct sent *s = &sent[i];
    if (!is_open(i)) {
        check_answers(i);
        (void)world_open(world, i, service_clients[i]);
    }
    if (s->len + len > s->room) {
        s->room = (s->len + len) * 2;
        s->bytes = realloc(s->bytes, s->room);
        CHECK(s->bytes);
    }
    if (len > 0)
        memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    world_send(world, i, bytes, len);
}

static bool has_jobs(void)
{
    return strcmp(service_clients[0], "jobs") == 0;
}

/* The last token that client `i` was given, or the next one that was given any; as text. */
static void write_token(unsigned i, char text_r[32])
{
    uint64_t token = 0;
    for (unsigned n = 0; n < SERVICE_CLIENTS && token == 0; n++) {
        const struct world_client *c = &world->clients[(i + n) % SERVICE_CLIENTS];
        if (c->protocol)
            token = job_answers_token(bytes_at(c->got, c->got_len));
    }
    snprintf(text_r, 32, "%" PRIu64, token);
}

static void send_some(unsigned i, const uint8_t *bytes, size_t len)
{
    char token[32];
    const uint8_t *mark;
    while (has_jobs() && len > 0 && (mark = memchr(bytes, 1, len)) != NULL) {
        size_t before = (size_t)(mark - bytes);
        write_token(i, token);
        send_bytes(i, bytes, before);
        send_bytes(i, (const uint8_t *)token, strlen(token));
        bytes += before + 1;
        len -= before + 1;
    }
    send_bytes(i, bytes, len);
}

static void end_sending(unsigned i, uint8_t how)
{
    struct fake_peer *peer = &world->clients[i].peer;
    if (!is_open(i))
        return;
    if (how & 1)
        peer->broken = sent[i].cut = true;
    peer->stubborn = how & 2;
    peer->ended = peer->ended || !(how & 2);
    peer->news = true;
}

static void set_window(unsigned i, uint8_t window)
{
    struct fake_peer *peer = &world->clients[i].peer;
    if (!is_open(i))
        return;
    sent[i].cut = true;
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
        world_advance(&world, 1, (int64_t)1 << (input_byte(in) % (has_jobs() ? 43 : 37)));
        break;
    default: /* send some bytes */
        bytes = input_bytes(in, input_byte(in), &len);
        send_some(i, bytes, len);
        break;
    }
    if (what & 128)
        (void)world_turn(world);
    else
        world_run(world);
}

/* For an input of this size. */
static void make_world(size_t size)
{
    if (has_jobs()) {
        fake_now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1700000000};
        fake_unix_ns = 0;
    }
    tubes_settings.defaults = job_default_settings;
    tubes_settings.memory_limit = size % 4 == 0 ? 6000 : 1 << 20; /* a few jobs; enough */
    world = world_new(&(struct world_config){.max_locks = 3,
                                             .max_line = MAX_LINE,
                                             .output_buffer = 4096,
                                             .pools = &pools_settings,
                                             .jobs = &job_settings,
                                             .tubes = &tubes_settings});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    if (!world)
        make_world(size);
    while (in.left > 0)
        step(&in);
    world_run(world);
    table_check(world->services->table); /* also checks what the previous input left */
    pools_check(pools_of(world->services), fake_now);
    jobs_check(jobs_of(world->services), fake_now);
    for (unsigned i = 0; i < SERVICE_CLIENTS; i++)
        check_answers(i);
    world_drain(world);
    jobs_check(jobs_of(world->services), fake_now);
    worlds_drained();
    if (has_jobs()) /* jobs outlive their clients, and ids go on */
        world_free(&world);
    return 0;
}
