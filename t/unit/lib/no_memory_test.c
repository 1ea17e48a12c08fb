/*
 * no_memory_test.c - each piece of memory that libcounter takes is refused once: the call says so,
 * nothing is lost or left over, and everything can still be freed.
 */
#include "t/unit/lib/faults.h"
#include "t/unit/lib/peer.h"
#include "t/unit/unit.h"

/* Check's own assertions allocate, so they are left alone until nothing is refused any more. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fault_countdown = 0;                                                                   \
            ck_abort_msg("%s", #condition);                                                        \
        }                                                                                          \
    } while (0)

static struct peer peer;
static counter_client *client;

/* Runs an operation. Returns false, with nothing left of it, when memory was refused. */
static bool ran(counter_op **op)
{
    if (!*op) {
        MUST(faults > 0);
        return false;
    }
    int status = peer_run(&peer, *op);
    if (status == COUNTER_OK)
        return true;
    MUST(status == COUNTER_NO_MEMORY && faults > 0);
    MUST(counter_op_error(*op)->status == COUNTER_NO_MEMORY);
    MUST(counter_op_error(*op)->server[0] == '\0');
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

static void end_hold(counter_op *op, bool ok)
{
    if (!ran(&op))
        return;
    counter_hold *hold = counter_take_hold(op);
    MUST(hold);
    MUST(counter_hold_check(hold) == COUNTER_OK);
    counter_op_free(op);
    end(counter_release(hold, ok));
}

static void lock(void)
{
    end_hold(counter_lock(client, counter_str("page 1"), NULL), true);
}

static void units(void)
{
    struct counter_units_args args = COUNTER_UNITS_ARGS;
    args.count = 2;
    args.limit = 3;
    end_hold(counter_units(client, counter_str("k"), &args), true);
}

static void member(void)
{
    struct counter_pair attrs[2] = {{counter_str("size"), counter_str("80")},
                                    {counter_str("type"), counter_str("a")}};
    struct counter_member_args args = COUNTER_MEMBER_ARGS;
    args.count = 3;
    args.attrs = attrs;
    args.attr_count = 2;
    args.by = counter_str("test");
    end_hold(counter_member(client, counter_str("gpu"), &args), false);
}

static void usage(void)
{
    end(counter_usage(client, counter_str("k")));
}

static void put(void)
{
    struct counter_put_args args = COUNTER_PUT_ARGS;
    args.key = counter_str("key");
    args.root = counter_str("root");
    args.root_at = args.at = 1000.5;
    end(counter_put(client, counter_str("t"), counter_str("body"), &args));
}

static void put_many(void)
{
    struct counter_new_job jobs[20];
    for (size_t i = 0; i < 20; i++)
        jobs[i] = (struct counter_new_job){counter_str("body"), NULL};
    end(counter_put_many(client, counter_str("t"), jobs, 20));
}

static void claim(void)
{
    struct counter_bytes tubes[2] = {counter_str("t"), counter_str("u")};
    struct counter_claim_args args = COUNTER_CLAIM_ARGS;
    args.count = 4;
    counter_op *op = counter_claim(client, tubes, 2, &args);
    if (!ran(&op))
        return;
    counter_job *jobs[4];
    for (int i = 0; i < 4; i++)
        MUST((jobs[i] = counter_take_job(op)));
    counter_op_free(op);
    end(counter_renew(jobs[3]));
    end(counter_ack(jobs[0]));
    end(counter_nack(jobs[1], 2.5));
    end(counter_bury(jobs[2]));
    counter_job_free(jobs[3]);
}

static void tube(void)
{
    struct counter_pair settings[2] = {{counter_str("limit"), counter_str("5")},
                                       {counter_str("read_only"), counter_str("we move")}};
    end(counter_tube(client, counter_str("t"), settings, 2));
}

static void ready(void)
{
    end(counter_ready(client, counter_str("*"), NULL));
}

static void list_jobs(void)
{
    counter_op *op = counter_list_jobs(client, counter_str("t"), "ready");
    if (!ran(&op))
        return;
    MUST(counter_next_row(op));
    MUST(!counter_next_row(op));
    end(op);
}

static void small(void)
{
    end(counter_clear(client, counter_str("t"), "all"));
    end(counter_delete(client, 7));
    end(counter_kick(client, 7));
}

/* Connections that ended and were used again, and events. */
static void again(void)
{
    usage();
    lock();
    peer_cut_all(&peer);
    lock();
    usage();
    while (counter_next_event(client))
        ;
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
    MUST(status == COUNTER_OK || (status == COUNTER_NO_MEMORY && faults > 0));
    counter_link_free(link);
}

static void addresses(void)
{
    struct sockaddr_storage at = {.ss_family = AF_INET};
    ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int status = counter_set_addresses(client, 0, &at, 1);
    MUST(status == COUNTER_OK || (status == COUNTER_NO_MEMORY && faults > 0));
    status = counter_resolve(client);
    MUST(status == COUNTER_OK || (status == COUNTER_NO_MEMORY && faults > 0));
    lock();
}

static void many_servers(void)
{
    const char *texts[3] = {"a:7531", "b:7531", "c:7531"};
    size_t order[3];
    int status = counter_servers_for(counter_str("page 1"), texts, 3, order);
    MUST(status == COUNTER_OK ? order[0] == 1 && order[1] == 0 && order[2] == 2
                              : status == COUNTER_NO_MEMORY && faults > 0);
}

static void (*const scenarios[])(void) = {lock,     units, member, usage,     put,
                                          put_many, claim, tube,   ready,     list_jobs,
                                          small,    again, low,    addresses, many_servers};

/* Plays a scenario in which allocation number n fails. Returns whether there was one. */
static bool play(void (*scenario)(void), unsigned long n)
{
    struct counter_error error = COUNTER_ERROR;
    long pieces = fault_pieces;
    faults = 0;
    fault_countdown = n;
    client = counter_open(peer.url, &error);
    if (client) {
        scenario();
        counter_close(client);
    } else {
        MUST(error.status == COUNTER_NO_MEMORY);
    }
    fault_countdown = 0;
    ck_assert_msg(fault_pieces == pieces,
                  "%ld pieces are left over after the failure of number %lu", fault_pieces - pieces,
                  n);
    while (peer_open_conns(&peer) > 0)
        peer_turn(&peer);
    return faults > 0;
}

TEST(each_piece_of_memory_can_be_refused)
{
    peer_open(&peer, "");
    unsigned long n = 0;
    while (play(scenarios[_i], ++n))
        ck_assert_uint_lt(n, 10000);
    ck_assert_msg(n > 3, "link with lib_fault_wraps");
    peer_close(&peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libcounter without memory");
    TCase *cases = tcase_create("calls");
    tcase_set_timeout(cases, UNIT_TIMEOUT_S);
    tcase_add_loop_test(cases, each_piece_of_memory_can_be_refused, 0,
                        sizeof(scenarios) / sizeof(scenarios[0]));
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
