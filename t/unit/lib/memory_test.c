/*
 * memory_test.c - memory of libcounter: each piece that it takes is refused once, and the call says
 * so; and everything may be freed at any time and in any order, whatever the server does, while
 * memory is refused now and then. Nothing is left over.
 */
#include "t/unit/lib/faults.h"
#include "t/unit/lib/peer.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

enum { PLACES = 12, STEPS = 6000 };

static struct peer peer;
static struct rng rng;
static counter_client *client; /* whose operations begin */
static const char *name_now, *tube_now;

/* ---- operations -------------------------------------------------------------------------- */

static struct counter_bytes name(void)
{
    return counter_str(name_now);
}

static counter_op *lock(void)
{
    struct counter_lock_args args = COUNTER_LOCK_ARGS;
    args.shared = true;
    args.timeout = 3;
    return counter_lock(client, name(), &args);
}

static counter_op *usual_lock(void)
{
    return counter_lock(client, name(), NULL);
}

static counter_op *units(void)
{
    struct counter_units_args args = COUNTER_UNITS_ARGS;
    args.count = 2;
    args.limit = 3;
    return counter_units(client, name(), &args);
}

static counter_op *member(void)
{
    struct counter_pair attrs[2] = {{counter_str("size"), counter_str("80")},
                                    {counter_str("type"), counter_str("a")}};
    struct counter_member_args args = COUNTER_MEMBER_ARGS;
    args.count = 3;
    args.attrs = attrs;
    args.attr_count = 2;
    args.by = counter_str("test");
    return counter_member(client, name(), &args);
}

static counter_op *usage(void)
{
    return counter_usage(client, name());
}

static counter_op *put(void)
{
    struct counter_put_args args = COUNTER_PUT_ARGS;
    args.key = counter_str("key");
    args.root = counter_str("root");
    args.root_at = args.at = 1000.5;
    return counter_put(client, counter_str(tube_now), counter_str("body"), &args);
}

static counter_op *put_many(void)
{
    struct counter_new_job jobs[20];
    for (size_t i = 0; i < 20; i++)
        jobs[i] = (struct counter_new_job){counter_str("body"), NULL};
    return counter_put_many(client, counter_str(tube_now), jobs, 20);
}

static counter_op *claim(void)
{
    struct counter_bytes tubes[2] = {counter_str(tube_now), counter_str("u")};
    struct counter_claim_args args = COUNTER_CLAIM_ARGS;
    args.count = 4;
    return counter_claim(client, tubes, 2, &args);
}

static counter_op *tube(void)
{
    struct counter_pair settings[2] = {{counter_str("limit"), counter_str("5")},
                                       {counter_str("read_only"), counter_str("we move")}};
    return counter_tube(client, counter_str(tube_now), settings, 2);
}

static counter_op *ready(void)
{
    return counter_ready(client, counter_str("*"), NULL);
}

static counter_op *list_jobs(void)
{
    return counter_list_jobs(client, counter_str(tube_now), "ready");
}

static counter_op *clear(void)
{
    return counter_clear(client, counter_str(tube_now), "all");
}

static counter_op *delete (void)
{
    return counter_delete(client, 7);
}

static counter_op *kick(void)
{
    return counter_kick(client, 7);
}

static counter_op *(*const begins[])(void) = {
    lock,  usual_lock, units, member,    usage, put,    put_many, claim,
    claim, tube,       ready, list_jobs, clear, delete, kick,
};

static counter_op *end_of_job(counter_job *job, unsigned how)
{
    return how == 0   ? counter_ack(job)
           : how == 1 ? counter_nack(job, 2.5)
           : how == 2 ? counter_bury(job)
                      : counter_renew(job);
}

/* ---- each piece is refused --------------------------------------------------------------- */

/* Check's own assertions allocate, so they are left alone until nothing is refused any more. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fault_countdown = 0;                                                                   \
            ck_abort_msg("%s", #condition);                                                        \
        }                                                                                          \
    } while (0)

/* Runs an operation. Returns false, with nothing left of it, when memory was refused. */
static bool ran(counter_op **op)
{
    int status = *op ? peer_run(&peer, *op) : COUNTER_NO_MEMORY;
    if (status == COUNTER_OK)
        return true;
    MUST(status == COUNTER_NO_MEMORY && faults > 0);
    if (*op) {
        MUST(counter_op_error(*op)->status == COUNTER_NO_MEMORY);
        MUST(counter_op_error(*op)->server[0] == '\0');
    }
    counter_op_free(*op);
    *op = NULL;
    return false;
}

/* An operation of which no result is wanted. */
static void end(counter_op *op)
{
    if (ran(&op))
        counter_op_free(op);
}

/* Begins an operation, and gives back whatever it gave, jobs in all ways. */
static void run_through(counter_op *(*begin)(void))
{
    name_now = begin == member ? "gpu" : "page 1";
    counter_op *op = begin();
    counter_job *got[4] = {NULL};
    if (!ran(&op))
        return;
    counter_hold *hold = counter_take_hold(op);
    for (unsigned i = 0; i < 4; i++)
        got[i] = counter_take_job(op);
    while (counter_next_row(op))
        ;
    counter_op_free(op);
    MUST(!hold || counter_hold_check(hold) == COUNTER_OK);
    MUST(hold || (begin != units && begin != member && begin != lock && begin != usual_lock));
    MUST((got[3] != NULL) == (begin == claim));
    if (hold)
        end(counter_release(hold, begin != member));
    for (unsigned i = 4; i-- > 0 && got[i];)
        end(end_of_job(got[i], i));
    counter_job_free(got[3]);
}

/* Connections that ended and were used again, and events. */
static void again(void)
{
    run_through(usage);
    run_through(usual_lock);
    peer_cut_all(&peer);
    run_through(usual_lock);
    run_through(usage);
    while (counter_next_event(client))
        ;
}

static bool is_refused(int status)
{
    return status == COUNTER_NO_MEMORY && faults > 0;
}

static void low(void)
{
    counter_link *link = counter_link_open(client, COUNTER_JOBS, 0);
    struct counter_message message = COUNTER_MESSAGE;
    int status = COUNTER_NO_MEMORY;
    if (link && (status = counter_link_say(link, "tube default\r\n", 14)) == COUNTER_OK)
        while ((status = counter_link_next(link, &message)) == COUNTER_AGAIN) {
            (void)counter_link_step(link);
            peer_turn(&peer);
        }
    MUST(status == COUNTER_OK || is_refused(status));
    counter_link_free(link);
}

static void addresses(void)
{
    struct sockaddr_storage at = {.ss_family = AF_INET};
    ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int status = counter_set_addresses(client, 0, &at, 1);
    MUST(status == COUNTER_OK || is_refused(status));
    status = counter_resolve(client);
    MUST(status == COUNTER_OK || is_refused(status));
    run_through(usual_lock);
}

static void many_servers(void)
{
    const char *texts[3] = {"a:7531", "b:7531", "c:7531"};
    size_t order[3];
    int status = counter_servers_for(counter_str("page 1"), texts, 3, order);
    MUST(status == COUNTER_OK ? order[0] == 1 && order[1] == 0 && order[2] == 2
                              : is_refused(status));
}

/* One of them listens nowhere. */
static void next_server(void)
{
    counter_client *usual = client;
    unsigned port = 0;
    char url[128];
    MUST(sscanf(peer.url, "counter://127.0.0.1:%u", &port) == 1);
    snprintf(url, sizeof(url), "counter://127.0.0.2:%u,127.0.0.1:%u?io_timeout=60", port, port);
    client = counter_open(url, NULL);
    MUST(client || faults > 0);
    if (client)
        run_through(usual_lock);
    counter_close(client);
    client = usual;
}

static void (*const others[])(void) = {again, low, addresses, many_servers, next_server};

/* Plays a scenario in which allocation number n fails. Returns whether there was one. */
static bool play(size_t scenario, unsigned long n)
{
    struct counter_error error = COUNTER_ERROR;
    long pieces = fault_pieces;
    faults = 0;
    fault_countdown = n;
    client = counter_open(peer.url, &error);
    if (!client)
        MUST(error.status == COUNTER_NO_MEMORY);
    else if (scenario < sizeof(others) / sizeof(*others))
        others[scenario]();
    else
        run_through(begins[scenario - sizeof(others) / sizeof(*others)]);
    counter_close(client);
    fault_countdown = 0;
    ck_assert_msg(fault_pieces == pieces, "%ld pieces are left over after failure %lu of %zu",
                  fault_pieces - pieces, n, scenario);
    while (peer_open_conns(&peer) > 0)
        peer_turn(&peer);
    return faults > 0;
}

TEST(each_piece_of_memory_can_be_refused)
{
    tube_now = "t";
    peer_open(&peer, "");
    for (size_t i = 0; i < (sizeof(others) + sizeof(begins)) / sizeof(*others); i++) {
        unsigned long n = 0;
        while (play(i, ++n))
            ck_assert_uint_lt(n, 10000);
        ck_assert_msg(n > 3, "link with --wrap");
    }
    peer_close(&peer);
}
END_TEST

/* ---- any order --------------------------------------------------------------------------- */

static unsigned one_in; /* allocations, fails; 0: none does */
static counter_client *clients[2];
static counter_op *ops[PLACES];
static counter_hold *holds[PLACES];
static counter_job *jobs[PLACES];
static counter_link *links[PLACES];
static unsigned ended[COUNTER_UNSUPPORTED + 1];

static bool dice(void)
{
    return one_in > 0 && rng_one_in(&rng, one_in);
}

/* What an operation gave, or not all of it. */
static void take(counter_op *op)
{
    size_t place = rng_below(&rng, PLACES);
    if (!holds[place])
        holds[place] = counter_take_hold(op);
    for (place = 0; place < PLACES; place++)
        if (!jobs[place])
            jobs[place] = counter_take_job(op);
    if (rng_one_in(&rng, 2))
        while (counter_next_row(op))
            ;
}

static void free_op(size_t place)
{
    counter_op_free(ops[place]);
    ops[place] = NULL;
}

static void step(size_t place)
{
    for (unsigned i = 0; ops[place] && i < 1 + rng_below(&rng, 6); i++) {
        int status = counter_step(ops[place]);
        REQUIRE(counter_fd(ops[place]) >= -1 && counter_wait_ms(ops[place]) >= -1);
        peer_turn(&peer);
        if (status == COUNTER_AGAIN)
            continue;
        REQUIRE(counter_op_error(ops[place])->status == status);
        ended[status]++;
        if (status == COUNTER_OK)
            take(ops[place]);
        if (rng_one_in(&rng, 2))
            free_op(place);
        return;
    }
}

static void begin(size_t place)
{
    static const char *const names[] = {"a", "b b", "gpu", "", "t", "x\ny"};
    client = clients[rng_below(&rng, 2)];
    name_now = names[rng_below(&rng, 6)];
    tube_now = rng_one_in(&rng, 3) ? name_now : "t";
    if (!ops[place] && client)
        ops[place] = begins[rng_below(&rng, sizeof(begins) / sizeof(*begins))]();
}

/* Gives something back, or begins to. */
static void give_back(size_t place, size_t other)
{
    if (ops[place])
        return;
    if (rng_one_in(&rng, 2)) {
        ops[place] = counter_release(holds[other], rng_one_in(&rng, 2));
        holds[other] = NULL;
        return;
    }
    unsigned how = rng_below(&rng, 5);
    ops[place] = end_of_job(jobs[other], how);
    if (how < 3)
        jobs[other] = NULL;
}

static void talk(size_t place)
{
    struct counter_message message = COUNTER_MESSAGE;
    counter_client *own = clients[rng_below(&rng, 2)];
    if (!links[place] && own)
        links[place] = counter_link_open(own, (enum counter_protocol)rng_below(&rng, 4), 0);
    if (!links[place])
        return;
    (void)counter_link_say(links[place], "TAKE gpu 1 count=2\r\n", 20);
    for (unsigned i = 0; i < rng_below(&rng, 5); i++) {
        (void)counter_link_step(links[place]);
        peer_turn(&peer);
        while (counter_link_next(links[place], &message) == COUNTER_OK)
            ;
    }
    if (rng_one_in(&rng, 4))
        counter_link_finish(links[place]);
}

static void free_one(size_t place)
{
    switch (rng_below(&rng, 4)) {
    case 0:
        free_op(place);
        break;
    case 1:
        counter_hold_free(holds[place]);
        holds[place] = NULL;
        break;
    case 2:
        counter_job_free(jobs[place]);
        jobs[place] = NULL;
        break;
    default:
        counter_link_free(links[place]);
        links[place] = NULL;
        break;
    }
}

static void happen(void)
{
    size_t place = rng_below(&rng, PLACES), other = rng_below(&rng, PLACES);
    unsigned chance = rng_below(&rng, 40);
    if (chance == 0) {
        peer_cut_all(&peer);
    } else if (chance == 1) {
        peer.is_silent = rng_one_in(&rng, 3);
    } else if (chance == 2) {
        counter_close(clients[place % 2]);
        clients[place % 2] = NULL;
    } else if (chance < 5) {
        if (!clients[place % 2])
            clients[place % 2] = counter_open(peer.url, NULL);
    } else if (chance < 7) {
        free_one(place);
    } else if (chance == 7) {
        if (holds[place])
            (void)counter_hold_check(holds[place]);
        if (clients[other % 2] && rng_one_in(&rng, 10))
            counter_forked(clients[other % 2]); /* does what it says in any process */
    } else if (chance == 8) {
        while (clients[place % 2] && counter_next_event(clients[place % 2]))
            ;
    } else if (chance < 11) {
        talk(place);
    } else if (chance < 16) {
        begin(place);
    } else if (chance < 19) {
        give_back(place, other);
    } else {
        step(place);
    }
}

static void play_at_random(unsigned refuse_one_in)
{
    peer_open(&peer, "&idle=2&down_seconds=0");
    rng = rng_start("libcounter's order", random_seed());
    long pieces = fault_pieces;
    memset(ended, 0, sizeof(ended));
    one_in = refuse_one_in;
    fault_dice = dice;
    for (unsigned long n = 0; n < env_number("T_MODEL_STEPS", STEPS); n++) {
        if (rng_one_in(&rng, 50))
            peer.heard_len = 0;
        happen();
    }
    for (size_t n = 0; n < 200 * PLACES; n++)
        free_one(rng_below(&rng, PLACES));
    for (size_t i = 0; i < 2; i++) {
        counter_close(clients[i]);
        clients[i] = NULL;
    }
    fault_dice = NULL;
    ck_assert_int_eq(fault_pieces - pieces, 0);
    ck_assert_uint_gt(ended[COUNTER_OK], 0);
    ck_assert_uint_gt(ended[COUNTER_USAGE], 0);
    ck_assert(ended[COUNTER_NO_MEMORY] == 0 || refuse_one_in > 0);
    while (peer_open_conns(&peer) > 0)
        peer_turn(&peer);
    peer_close(&peer);
}

TEST(objects_are_freed_in_any_order)
{
    play_at_random(0);
    play_at_random(60);
}
END_TEST

UNIT_MAIN("libcounter's memory")
