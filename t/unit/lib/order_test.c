/*
 * order_test.c - everything may be freed at any time and in any order, whatever the server does and
 * although memory is refused now and then: a random program, for sanitizers to watch.
 */
#include "t/unit/lib/faults.h"
#include "t/unit/lib/peer.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

enum { PLACES = 12, STEPS = 6000 };

static struct peer peer;
static struct rng rng;
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

static struct counter_bytes name(void)
{
    static const char *const names[] = {"a", "b b", "gpu", "", "t", "x\ny"};
    return counter_str(names[rng_below(&rng, 6)]);
}

static counter_op *lock(counter_client *client)
{
    struct counter_lock_args args = COUNTER_LOCK_ARGS;
    args.shared = rng_one_in(&rng, 3);
    args.timeout = rng_below(&rng, 5);
    return counter_lock(client, name(), rng_one_in(&rng, 2) ? &args : NULL);
}

static counter_op *ask(counter_client *client)
{
    static const struct counter_new_job new_jobs[3] = {{.body = {"x", 1}}, {.body = {"", 0}}};
    struct counter_units_args units = COUNTER_UNITS_ARGS;
    struct counter_member_args member = COUNTER_MEMBER_ARGS;
    struct counter_claim_args claim = COUNTER_CLAIM_ARGS;
    struct counter_bytes tubes[2] = {counter_str("t"), name()};
    claim.count = member.count = 1 + rng_below(&rng, 4);
    switch (rng_below(&rng, 12)) {
    case 0:
    case 1:
        return lock(client);
    case 2:
        return counter_units(client, name(), &units);
    case 3:
        return counter_usage(client, name());
    case 4:
        return counter_member(client, name(), &member);
    case 5:
        return counter_put(client, name(), counter_str("body"), NULL);
    case 6:
        return counter_put_many(client, name(), new_jobs, 3);
    case 7:
        return counter_tube(client, name(), NULL, 0);
    case 8:
        return counter_ready(client, counter_str("*"), NULL);
    case 9:
        return counter_list_jobs(client, name(), "ready");
    default:
        return counter_claim(client, tubes, 1 + rng_below(&rng, 2), &claim);
    }
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

static void step(size_t place)
{
    if (!ops[place])
        return;
    for (unsigned i = 0; i < 1 + rng_below(&rng, 6); i++) {
        int status = counter_step(ops[place]);
        REQUIRE(counter_fd(ops[place]) >= -1 && counter_wait_ms(ops[place]) >= -1);
        peer_turn(&peer);
        if (status == COUNTER_AGAIN)
            continue;
        REQUIRE(counter_op_error(ops[place])->status == status);
        ended[status]++;
        if (status == COUNTER_OK)
            take(ops[place]);
        if (rng_one_in(&rng, 2)) {
            counter_op_free(ops[place]);
            ops[place] = NULL;
        }
        return;
    }
}

static void begin(size_t place)
{
    counter_client *client = clients[rng_below(&rng, 2)];
    if (!ops[place] && client)
        ops[place] = ask(client);
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
    counter_job *job = jobs[other];
    unsigned how = rng_below(&rng, 5);
    ops[place] = how == 0   ? counter_ack(job)
                 : how == 1 ? counter_nack(job, 1.5)
                 : how == 2 ? counter_bury(job)
                            : counter_renew(job);
    if (how < 3)
        jobs[other] = NULL;
}

static void talk(size_t place)
{
    struct counter_message message = COUNTER_MESSAGE;
    counter_client *client = clients[rng_below(&rng, 2)];
    if (!links[place] && client)
        links[place] = counter_link_open(client, (enum counter_protocol)rng_below(&rng, 4), 0);
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
        counter_op_free(ops[place]);
        ops[place] = NULL;
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
    switch (rng_below(&rng, 40)) {
    case 0:
        peer_cut_all(&peer);
        break;
    case 1:
        peer.is_silent = rng_one_in(&rng, 3);
        break;
    case 2:
        counter_close(clients[place % 2]);
        clients[place % 2] = NULL;
        break;
    case 3:
    case 4:
        if (!clients[place % 2])
            clients[place % 2] = counter_open(peer.url, NULL);
        break;
    case 5:
    case 6:
        free_one(place);
        break;
    case 7:
        if (holds[place])
            (void)counter_hold_check(holds[place]);
        if (clients[other % 2] && rng_one_in(&rng, 10))
            counter_forked(clients[other % 2]); /* does what it says in any process */
        break;
    case 8:
        while (clients[place % 2] && counter_next_event(clients[place % 2]))
            ;
        break;
    case 9:
    case 10:
        talk(place);
        break;
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
        begin(place);
        break;
    case 16:
    case 17:
    case 18:
        give_back(place, other);
        break;
    default:
        step(place);
        break;
    }
}

static void free_all(void)
{
    for (size_t n = 0; n < 200 * PLACES; n++)
        free_one(rng_below(&rng, PLACES));
    for (size_t place = 0; place < PLACES; place++) {
        counter_op_free(ops[place]);
        counter_job_free(jobs[place]);
        counter_hold_free(holds[place]);
        counter_link_free(links[place]);
    }
    for (size_t i = 0; i < 2; i++)
        counter_close(clients[i]);
}

TEST(objects_are_freed_in_any_order)
{
    rng = rng_start("libcounter's order", random_seed());
    peer_open(&peer, "&idle=2&down_seconds=0");
    long pieces = fault_pieces;
    fault_dice = dice;
    one_in = _i == 0 ? 0 : 60;
    for (unsigned long n = 0; n < env_number("T_MODEL_STEPS", STEPS); n++) {
        if (rng_one_in(&rng, 50))
            peer.heard_len = 0;
        happen();
    }
    free_all();
    fault_dice = NULL;
    ck_assert_int_eq(fault_pieces - pieces, 0);
    ck_assert_uint_gt(ended[COUNTER_OK], 0);
    ck_assert_uint_gt(ended[COUNTER_USAGE], 0);
    if (_i > 0)
        ck_assert_uint_gt(ended[COUNTER_NO_MEMORY], 0);
    while (peer_open_conns(&peer) > 0)
        peer_turn(&peer);
    peer_close(&peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libcounter in any order");
    TCase *cases = tcase_create("order");
    tcase_set_timeout(cases, UNIT_TIMEOUT_S);
    tcase_add_loop_test(cases, objects_are_freed_in_any_order, 0, 2);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
