/*
 * splits.c - the same bytes, cut anywhere, must give the same answers.
 *
 *     splits [--streams N] [--seed N] [--protocol text|binary] [--only I]
 *
 * Two worlds (fuzz/world.h) run the same story: other clients hold and wait; a client connects,
 * sends a stream of requests, many of them broken, while time passes, and disconnects. In one world
 * each part of the stream arrives at once. In the other it is cut at random places, with some
 * iterations of the server, or none, between the pieces. All bytes that clients receive, and the
 * reason of the close, must be the same. The statistics must be the same too, because everything
 * before was.
 *
 * The program reports in TAP. Its defaults are short enough for a test.
 *
 * The seed and the number of a stream determine it, so --only I repeats one of them (except for
 * statistics in its answers). One difference is allowed: bytes that are no binary request are
 * answered at their first byte, with the bytes of opcode and opaque that had arrived by then.
 */
#include "fuzz/world.h"
#include "proto/counter.h"
#include "proto/poolcounter.h"
#include "service/pools.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* ---- chance -------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t next(void)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint32_t below(uint32_t bound)
{
    return (uint32_t)((next() >> 32) * bound >> 32);
}

/* ---- streams ------------------------------------------------------------------------------- */

#define STREAM_MAX ((size_t)16 * 1024)
#define PARTS_MAX  4
#define LINE_MAX   ((size_t)200)

/* A stream in parts; time passes between them. */
static struct stream_bytes {
    uint8_t bytes[STREAM_MAX];
    size_t len;
    size_t part_ends[PARTS_MAX];
    int64_t pauses_ns[PARTS_MAX]; /* after each part */
    unsigned parts;
} stream;

static void put(const void *bytes, size_t len)
{
    if (len > STREAM_MAX - stream.len)
        len = STREAM_MAX - stream.len;
    memcpy(stream.bytes + stream.len, bytes, len);
    stream.len += len;
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

static const char *one_of(const char *const *words, uint32_t count)
{
    return words[below(count)];
}

#define ONE_OF(...)                                                                                \
    one_of((const char *const[]){__VA_ARGS__}, ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

/* A request of the pools. None whose own effects come as lines between its answers: where these
 * are depends on what has arrived. */
static void put_pool_request(void)
{
    char line[256];
    switch (below(8)) {
    default:
        snprintf(line, sizeof(line), "TAKE %s%s%s", ONE_OF("p", "p", "p,q", "q", "@g", "nobody"),
                 ONE_OF("", "", " 0", " 0.5", " 20"),
                 ONE_OF("", "", " count=2", " with=k=1", " member=b", " for=check by=me",
                        " for=clean", " count=x"));
        put_text(line);
        break;
    case 0:
    case 1:
    case 2:
        put_text(ONE_OF("RETURN", "RETURN", "RETURN fail", "RETURN 1", "RETURN x"));
        break;
    case 3:
        put_text(ONE_OF("POOL LIST", "POOL SHOW p", "POOL SHOW q", "POOL", "POOL SHOW",
                        "POOL LIST p p", "POOL ADD p", "POOL ADD q max=x", "POOL SET p kind=joined",
                        "MEMBER ADD p a", "MEMBER SET p a note=x", "MEMBER SET p a state=x",
                        "JOIN p m", "SUPPLY q 2 1", "SUPPLY p 1 2", "WATCH", "WATCH nobody"));
        break;
    case 4:
        put_text(below(8) ? "" : "QUIT");
        break;
    }
}

/* A line of the text protocol; mostly a request. */
static void put_line(void)
{
    char line[256];
    switch (below(24)) {
    default:
        snprintf(line, sizeof(line), "%s %s %s %s %s", ONE_OF("ACQ4ME", "ACQ4ANY"),
                 ONE_OF("k", "k", "l", "a-long-name-of-36-bytes-and-then-some"),
                 ONE_OF("1", "2", "3"), ONE_OF("1", "2", "9"), ONE_OF("0", "0.5", "1", "20"));
        put_text(line);
        break;
    case 0:
    case 1:
    case 2:
    case 3:
        put_text(ONE_OF("RELEASE", "RELEASE k", "RELEASE l", "RELEASE nobody"));
        break;
    case 4:
        put_text(
            ONE_OF("STATS", "STATS FULL", "STATS uptime", "STATS processing_workers", "STATS x"));
        break;
    case 5:
        put_text(ONE_OF("", " ", "ACQ4ME", "ACQ4ME k", "ACQ4ME k 0 1", "acq4me k 1 1 1", "RELEASES",
                        "\r", "ACQ4ME k 4294967296 1", "ACQ4ANY  k  1  9  x"));
        break;
    case 6: /* rarely: around the longest allowed line */
        memset(line, 'x', sizeof(line));
        put(line, below(4) ? below(40) : LINE_MAX - 2 + below(4));
        break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
    case 12:
        put_pool_request();
        break;
    }
    put_text(below(4) ? "\n" : "\r\n");
}

/* A message of the binary protocol; mostly a request. */
static void put_message(void)
{
    static const uint8_t opcodes[] = {CTR_NOOP,    CTR_GET,     CTR_GET,     CTR_ACQUIRE,
                                      CTR_ACQUIRE, CTR_ACQUIRE, CTR_RELEASE, CTR_RELEASE,
                                      CTR_STATS,   CTR_DUMP};
    uint8_t message[1024];
    const char *name = ONE_OF("k", "k", "l", "a-long-name-of-36-bytes-and-then-some");
    struct ctr_request request = {.opcode = opcodes[below(ARRAY_SIZE(opcodes))],
                                  .units = below(3),
                                  .maximum = below(4),
                                  .name = {(const uint8_t *)name, strlen(name)}};
    uint32_t opaque = (uint32_t)next();
    memcpy(request.opaque, &opaque, sizeof(request.opaque));
    size_t len = ctr_compose_request(&request, message, sizeof(message));
    switch (below(24)) {
    case 0: /* extra bytes after the body */
        message[7] = (uint8_t)(message[7] + 5);
        memset(message + len, 'x', 5);
        len += 5;
        break;
    case 1: /* another opcode */
        message[1] = (uint8_t)next();
        break;
    case 2: /* a byte of the body */
        message[CTR_HEADER - 1 + below((uint32_t)(len - CTR_HEADER + 1))] ^=
            (uint8_t)(1 + below(255));
        break;
    case 3: /* any byte, rarely: most such messages end the stream */
        if (below(4) == 0)
            message[below((uint32_t)len)] = (uint8_t)next();
        break;
    default:
        break;
    }
    put(message, len);
}

static void make_stream(bool text)
{
    stream.len = 0;
    stream.parts = 1 + below(PARTS_MAX);
    for (unsigned p = 0; p < stream.parts; p++) {
        unsigned requests = below(8) ? below(8) : below(60);
        while (requests-- > 0) {
            if (text)
                put_line();
            else
                put_message();
        }
        if (below(4) == 0) /* end the part in the middle of a request */
            stream.len -= below((uint32_t)(stream.len < 12 ? stream.len : 12) + 1);
        if (p > 0 && stream.len < stream.part_ends[p - 1])
            stream.len = stream.part_ends[p - 1];
        stream.part_ends[p] = stream.len;
        stream.pauses_ns[p] = below(2) ? 0 : (int64_t)below(2000) * NS_PER_MS * (below(8) ? 1 : 20);
    }
}

/* ---- the two worlds ------------------------------------------------------------------------ */

enum { CLIENT, HOLDER, WAITER, COUNTER, PLAYERS };

static struct world *worlds[2]; /* 0: whole parts, 1: cut */

static void both_run(void)
{
    world_run(worlds[0]);
    world_run(worlds[1]);
}

static void both_send(unsigned i, const void *bytes, size_t len)
{
    for (unsigned w = 0; w < 2; w++)
        world_send(worlds[w], i, bytes, len);
    both_run();
}

static void open_players(bool text)
{
    for (unsigned w = 0; w < 2; w++) {
        world_open(worlds[w], HOLDER, "poolcounter");
        world_open(worlds[w], WAITER, "poolcounter");
        world_open(worlds[w], COUNTER, "counter");
        world_open(worlds[w], CLIENT, text ? "poolcounter" : "counter");
    }
    static const char holds[] = "ACQ4ME l 2 9 0\n";
    static const char pools[] = "POOL ADD p group=g on_fail=down\nMEMBER ADD p a x k=1\n"
                                "MEMBER ADD p b\nPOOL ADD q group=g on_return=dirty\n"
                                "MEMBER ADD q b\nWATCH *\n";
    uint8_t acquire[64];
    struct ctr_request request = {
        .opcode = CTR_ACQUIRE, .units = 1, .maximum = 9, .name = {(const uint8_t *)"k", 1}};
    if (below(2))
        both_send(HOLDER, holds, sizeof(holds) - 1);
    if (below(2))
        both_send(COUNTER, acquire, ctr_compose_request(&request, acquire, sizeof(acquire)));
    if (text)
        both_send(HOLDER, pools, sizeof(pools) - 1);
}

/* A waiter for what the client or another one may hold. */
static void send_waiter(void)
{
    const char *line = ONE_OF("", "ACQ4ANY k 1 9 30\n", "ACQ4ME k 1 9 30\n", "TAKE p,q 30\n",
                              "TAKE p 30 count=2\n", "TAKE q 30 for=clean\n");
    both_send(WAITER, line, strlen(line));
}

static bool is_open(unsigned w)
{
    return !worlds[w]->clients[CLIENT].peer.closed;
}

/* Sends a part as a whole to one world, and in pieces to the other. */
static void send_part(const uint8_t *bytes, size_t len, bool tell)
{
    if (is_open(0) && len > 0)
        world_send(worlds[0], CLIENT, bytes, len);
    world_run(worlds[0]);
    uint32_t longest = below(3) ? 1 + below(40) : 1 + below(3);
    for (size_t at = 0, n; at < len && is_open(1); at += n) {
        n = 1 + below(longest);
        n = n < len - at ? n : len - at;
        if (tell)
            printf("#   %zu bytes at %zu\n", n, at);
        world_send(worlds[1], CLIENT, bytes + at, n);
        switch (below(4)) {
        case 0:
            break;
        case 1:
            (void)world_turn(worlds[1]);
            break;
        default:
            world_run(worlds[1]);
        }
    }
    world_run(worlds[1]);
}

/* ---- answers ------------------------------------------------------------------------------- */

static uint64_t closes[2][CLOSE_MAX];

/* True if connections ended for the same reasons in both worlds so far. */
static bool same_closes(const char *protocol)
{
    bool same = true;
    for (unsigned i = 0; i < CLOSE_MAX; i++) {
        for (unsigned w = 0; w < 2; w++)
            closes[w][i] =
                atomic_load(&services_protocol(worlds[w]->services, protocol)->closed[i]);
        same &= closes[0][i] == closes[1][i];
    }
    return same;
}

/* Clears the bytes in the answer to a non-request that depend on how much of it had arrived. */
static void blank_begun(struct world_client *c)
{
    struct ctr_request request;
    struct ctr_reply reply;
    size_t used = 0, at;
    enum ctr_parsed parsed = CTR_OK;
    for (at = 0; at < stream.len; at += used) {
        parsed = ctr_parse_request(stream.bytes + at, stream.len - at, &request, &used);
        if (parsed == CTR_MORE || parsed == CTR_BAD_MAGIC || parsed == CTR_TOO_LONG)
            break;
    }
    if (parsed != CTR_BAD_MAGIC)
        return;
    size_t last = c->got_len;
    for (at = 0; at < c->got_len; at += used) {
        if (ctr_parse_reply(c->got + at, c->got_len - at, &reply, &used) != CTR_OK)
            return;
        last = at;
    }
    if (last == c->got_len || !c->peer.closed)
        return;
    c->got[last + 1] = 0;
    memset(c->got + last + 8, 0, 4);
}

static void print_bytes(const char *what, const uint8_t *bytes, size_t len)
{
    printf("# %s: ", what);
    for (size_t i = 0; i < len; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

/* Compares the bytes that each client received in both worlds. */
static bool same_answers(bool text)
{
    static const char *const players[] = {"the client", "a holder", "a waiter", "a counter"};
    bool same = true;
    for (unsigned i = 0; i < PLAYERS; i++) {
        struct world_client *a = &worlds[0]->clients[i], *b = &worlds[1]->clients[i];
        if (i == CLIENT && !text) {
            blank_begun(a);
            blank_begun(b);
        }
        if (a->peer.closed == b->peer.closed && a->got_len == b->got_len &&
            (a->got_len == 0 || memcmp(a->got, b->got, a->got_len) == 0))
            continue;
        printf("# %s was told otherwise:\n", players[i]);
        print_bytes(a->peer.closed ? "whole, then closed" : "whole", a->got, a->got_len);
        print_bytes(b->peer.closed ? "cut, then closed" : "cut", b->got, b->got_len);
        same = false;
    }
    if (!same_closes("poolcounter") || !same_closes("counter")) {
        printf("# the connections were closed for other reasons\n");
        same = false;
    }
    return same;
}

/* ---- streams, one after the other ---------------------------------------------------------- */

/* After this many streams, checks the invariants of the whole table. */
#define CHECK_EVERY 64

static uint64_t bytes_sent, answers_bytes;

static bool run_stream(bool text, uint64_t seed, uint64_t number, bool tell)
{
    state = seed ^ (number * 2 + text) * UINT64_C(0xd1342543de82ef95);
    (void)next();
    make_stream(text);
    open_players(text);
    size_t at = 0;
    for (unsigned p = 0; p < stream.parts; p++) {
        if (tell)
            print_bytes("part", stream.bytes + at, stream.part_ends[p] - at);
        send_part(stream.bytes + at, stream.part_ends[p] - at, tell);
        at = stream.part_ends[p];
        if (p == 0)
            send_waiter();
        world_advance(worlds, 2, stream.pauses_ns[p]);
    }
    bool same = same_answers(text);
    bytes_sent += stream.len;
    answers_bytes += worlds[0]->clients[CLIENT].got_len;
    for (unsigned w = 0; w < 2; w++) {
        if (number % CHECK_EVERY == 0) {
            table_check(worlds[w]->services->table);
            pools_check(pools_of(worlds[w]->services), fake_now);
        }
        world_drain(worlds[w]);
    }
    worlds_drained();
    if (!same) {
        print_bytes("the stream", stream.bytes, stream.len);
        printf("# %s stream %" PRIu64 ": again with --protocol %s --seed %" PRIu64
               " --only %" PRIu64 "\n",
               text ? "text" : "binary", number, text ? "text" : "binary", seed, number);
    }
    return same;
}

static bool run_protocol(bool text, uint64_t seed, uint64_t first, uint64_t streams, bool tell)
{
    static const struct pools_settings pools = {
        .operators = {.count = 1, .at = {{AF_INET, 8, {10}}}},
        .max = 9,
        .max_members = 9,
        .max_watchers = 9,
        .max_taken = 3,
    };
    for (unsigned w = 0; w < 2; w++)
        worlds[w] = world_new(&(struct world_config){
            .max_locks = 3,
            .max_line = LINE_MAX,
            .output_buffer = 32768, /* a watcher loses no events, however few pieces there are */
            .pools = &pools});
    uint64_t different = 0, done = 0;
    bytes_sent = answers_bytes = 0;
    for (; done < streams && different == 0; done++)
        different += !run_stream(text, seed, first + done, tell);
    for (unsigned w = 0; w < 2; w++)
        world_free(&worlds[w]);
    printf("# %s: %" PRIu64 " streams, %" PRIu64 " bytes, %" PRIu64 " bytes of answers, %" PRIu64
           " different (--seed %" PRIu64 ")\n",
           text ? "text" : "binary", done, bytes_sent, answers_bytes, different, seed);
    fflush(stdout);
    return different == 0;
}

static void usage(void)
{
    printf("splits [--streams N] [--seed N] [--protocol text|binary] [--only I]\n"
           "  --streams N   for each protocol (2000; ./dev torture splits: 1000000)\n"
           "  --only I      stream number I alone, with its cuts\n");
}

int main(int argc, char **argv)
{
    uint64_t streams = 2000, seed = 0, first = 0;
    bool seeded = false, tell = false;
    const char *protocol = NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--streams") == 0) {
            streams = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 10);
            seeded = true;
        } else if (strcmp(argv[i], "--protocol") == 0 &&
                   (strcmp(value, "text") == 0 || strcmp(value, "binary") == 0)) {
            protocol = value;
        } else if (strcmp(argv[i], "--only") == 0) {
            first = strtoull(value, NULL, 10);
            streams = 1;
            tell = true;
        } else {
            usage();
            return strcmp(argv[i], "-h") == 0 ? 0 : 2;
        }
        i++;
    }
    if (!seeded && getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        return 1;
    seed = seeded ? seed : seed >> 32;
    printf("# --seed %" PRIu64 "\n", seed);
    bool good = true;
    unsigned count = 0;
    for (unsigned text = 2; text-- > 0;) {
        if (protocol && (strcmp(protocol, "text") == 0) != text)
            continue;
        bool same = run_protocol(text, seed, first, streams, tell);
        printf("%s %u - splits: %s: the same answers\n", same ? "ok" : "not ok", ++count,
               text ? "text" : "binary");
        good &= same;
    }
    printf("1..%u\n", count);
    return good ? 0 : 1;
}
