/*
 * client_test.c - what stories cannot show of libcounter: events that nobody pulls, structs of
 * other sizes, addresses, sockets of operations, and signals.
 */
#include "t/unit/lib/peer.h"
#include "t/unit/unit.h"

#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
#include <sys/wait.h>

static struct peer peer;
static counter_client *client;

static void start(const char *more)
{
    peer_open(&peer, more);
    client = peer_client(&peer);
}

static void finish(void)
{
    counter_close(client);
    peer_close(&peer);
}

static counter_hold *locked(const char *name)
{
    return peer_hold(&peer, counter_lock(client, counter_str(name), NULL));
}

/* ---- events ---------------------------------------------------------------------------------- */

TEST(the_last_64_events_are_kept)
{
    start("");
    peer_end(&peer, counter_put(client, counter_str("first"), counter_str("x"), NULL));
    while (counter_next_event(client))
        ;
    for (int i = 0; i < 70; i++) {
        char tube[16];
        snprintf(tube, sizeof(tube), "t%d", i);
        ck_assert_int_eq(
            peer_end(&peer, counter_put(client, counter_str(tube), counter_str("x"), NULL)),
            COUNTER_OK);
    }
    for (int i = 6; i < 70; i++) {
        char tube[16];
        snprintf(tube, sizeof(tube), "t%d", i);
        const struct counter_event *event = counter_next_event(client);
        ck_assert_ptr_nonnull(event);
        ck_assert_str_eq(event->kind, "put");
        ck_assert_str_eq(event->name, tube);
        ck_assert_str_eq(event->result, "inserted");
        ck_assert_uint_eq(event->size, sizeof(*event));
    }
    ck_assert_ptr_null(counter_next_event(client));
    finish();
}
END_TEST

/* ---- statuses and structs -------------------------------------------------------------------- */

/* A program of an older version knows less of the struct, one of a newer version more. */
TEST(errors_of_other_sizes_are_filled_as_far_as_they_go)
{
    struct {
        struct counter_error error;
        char behind[64];
    } newer = {.error = COUNTER_ERROR}, older = newer;
    newer.error.size = sizeof(newer);
    memset(newer.behind, 'x', sizeof(newer.behind));
    ck_assert_ptr_null(counter_open("http://h", &newer.error));
    ck_assert_int_eq(newer.error.status, COUNTER_USAGE);
    ck_assert_uint_gt(strlen(newer.error.reason), 0);
    ck_assert_uint_eq(newer.error.size, sizeof(newer));
    older.error.size = offsetof(struct counter_error, reason);
    memset(older.error.reason, 'x', sizeof(older.error.reason));
    ck_assert_ptr_null(counter_open("http://h", &older.error));
    ck_assert_int_eq(older.error.status, COUNTER_USAGE);
    for (size_t i = 0; i < sizeof(older.error.reason); i++)
        ck_assert_int_eq(older.error.reason[i], 'x');
    ck_assert_ptr_null(counter_open("http://h", NULL));
}
END_TEST

TEST(arguments_of_other_sizes_mean_what_they_have)
{
    start("");
    struct {
        struct counter_lock_args args;
        char behind[64];
    } given = {.args = COUNTER_LOCK_ARGS};
    given.args.workers = 2;
    given.args.queue = 7;
    given.args.timeout = 0;
    given.args.shared = true;
    given.args.size =
        offsetof(struct counter_lock_args, shared); /* such a program has no `shared` */
    counter_hold_free(peer_hold(&peer, counter_lock(client, counter_str("k"), &given.args)));
    ck_assert_ptr_nonnull(strstr(peer.heard, "ACQ4ME k 2 7 "));
    given.args.size = offsetof(struct counter_lock_args, queue); /* nor a queue, nor a timeout */
    counter_hold_free(peer_hold(&peer, counter_lock(client, counter_str("k"), &given.args)));
    ck_assert_ptr_nonnull(strstr(peer.heard, "ACQ4ME k 2 102 "));
    given.args.size = sizeof(given); /* a later version has more */
    counter_hold_free(peer_hold(&peer, counter_lock(client, counter_str("k"), &given.args)));
    ck_assert_ptr_nonnull(strstr(peer.heard, "ACQ4ANY k 2 7 "));
    given.args.size = 1;
    ck_assert_int_eq(peer_end(&peer, counter_lock(client, counter_str("k"), &given.args)),
                     COUNTER_USAGE);
    finish();
}
END_TEST

TEST(messages_of_other_sizes_are_filled_as_far_as_they_go)
{
    start("");
    counter_link *link = counter_link_open(client, COUNTER_JOBS, 0);
    const char *request = "tube default\r\ntube default\r\n";
    ck_assert_int_eq(counter_link_say(link, request, strlen(request)), COUNTER_OK);
    struct counter_message message = COUNTER_MESSAGE;
    message.size = offsetof(struct counter_message, body);
    message.body = counter_str("untouched");
    for (int n = 0; n < 2; n++) {
        int status;
        while ((status = counter_link_next(link, &message)) == COUNTER_AGAIN) {
            ck_assert_int_le(counter_link_step(link), COUNTER_AGAIN);
            peer_turn(&peer);
        }
        ck_assert_int_eq(status, COUNTER_OK);
        ck_assert(memcmp(message.line.data, "OK ", 3) == 0);
        if (n == 0)
            ck_assert_str_eq(message.body.data, "untouched");
        else
            ck_assert(memcmp(message.body.data, "---\nname", 8) == 0);
        message.size = sizeof(message);
    }
    counter_link_free(link);
    finish();
}
END_TEST

/* ---- addresses ------------------------------------------------------------------------------- */

TEST(addresses_can_be_given)
{
    struct counter_error error = COUNTER_ERROR;
    start("");
    unsigned port;
    char url[128];
    ck_assert(sscanf(peer.url, "counter://127.0.0.1:%u?", &port) == 1);
    snprintf(url, sizeof(url), "counter://no-such.invalid:%u", port);
    counter_client *named = counter_open(url, &error);
    ck_assert_ptr_nonnull(named);
    counter_op *op = counter_lock(named, counter_str("k"), NULL);
    ck_assert_int_eq(peer_run(&peer, op), COUNTER_UNREACHABLE); /* a step asks nobody */
    ck_assert(!counter_op_error(op)->sent);
    ck_assert_uint_gt(strlen(counter_op_error(op)->reason), 0);
    counter_op_free(op);

    struct sockaddr_storage at[2] = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&at[1];
    struct sockaddr_in6 *nobody = (struct sockaddr_in6 *)&at[0]; /* no test listens there */
    nobody->sin6_family = AF_INET6;
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:127.0.0.254", &nobody->sin6_addr), 1);
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(counter_set_addresses(named, 1, at, 2), COUNTER_USAGE);
    ck_assert_int_eq(counter_set_addresses(named, 0, at, 0), COUNTER_USAGE);
    ck_assert_int_eq(counter_set_addresses(named, 0, at, 2), COUNTER_OK);
    counter_hold *hold = NULL; /* the server is down for a while, but there is no other */
    hold = peer_hold(&peer, counter_lock(named, counter_str("k"), NULL));
    at[0].ss_family = AF_UNIX;
    ck_assert_int_eq(counter_set_addresses(named, 0, at, 2), COUNTER_USAGE);
    ck_assert_int_eq(peer_end(&peer, counter_release(hold, true)),
                     COUNTER_OK); /* nothing changed */
    counter_close(named);
    finish();
}
END_TEST

/* ---- sockets of operations ------------------------------------------------------------------- */

TEST(the_serial_number_changes_with_the_socket)
{
    start("&idle=0");
    uint64_t serials[3];
    peer.is_silent = true;
    counter_op *op = counter_lock(client, counter_str("k"), NULL);
    for (unsigned i = 0; i < 2; i++) {
        while (peer.accepted < i + 1 || peer.heard_len == 0) {
            ck_assert_int_eq(counter_step(op), COUNTER_AGAIN);
            peer_turn(&peer);
        }
        serials[i] = counter_fd_serial(op);
        ck_assert_int_ge(counter_fd(op), 0);
        ck_assert_int_eq(counter_step(op), COUNTER_AGAIN);
        ck_assert_uint_eq(counter_fd_serial(op), serials[i]);
        ck_assert_int_eq(counter_events(op) & POLLIN, POLLIN);
        ck_assert_int_ge(counter_wait_ms(op), 0);
        peer.heard_len = 0;
        if (i == 0)
            peer_cut_all(&peer); /* so it asks again, on a socket that often has the same number */
        else
            peer.is_silent = false;
    }
    ck_assert_uint_ne(serials[0], serials[1]);
    peer_line(&peer, &peer.conns[0], "ACQ4ME k"); /* the answer that is due */
    peer_ran(&peer, op);
    counter_hold_free(counter_take_hold(op));
    counter_op_free(op);
    op = counter_usage(client, counter_str("k"));
    ck_assert_int_eq(counter_step(op), COUNTER_AGAIN);
    serials[2] = counter_fd_serial(op);
    ck_assert_uint_ne(serials[1], serials[2]);
    counter_op_free(op);
    finish();
}
END_TEST

TEST(the_end_of_a_hold_makes_its_descriptor_readable)
{
    start("");
    counter_hold *hold = locked("k");
    struct pollfd fd = {.fd = counter_hold_fd(hold), .events = POLLIN};
    ck_assert_int_ge(fd.fd, 0);
    ck_assert_int_eq(poll(&fd, 1, 0), 0);
    ck_assert_int_eq(counter_hold_check(hold), COUNTER_OK);
    peer_cut_all(&peer);
    ck_assert_int_eq(poll(&fd, 1, 60000), 1);
    ck_assert_int_eq(counter_hold_check(hold), COUNTER_LOST);
    ck_assert_int_eq(counter_hold_check(hold), COUNTER_LOST);
    ck_assert_int_eq(counter_hold_fd(hold), -1);
    ck_assert_int_eq(peer_end(&peer, counter_release(hold, true)), COUNTER_LOST);
    finish();
}
END_TEST

/* ---- signals --------------------------------------------------------------------------------- */

static void on_alarm(int number)
{
    (void)number;
}

TEST(signals_end_no_wait)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* without SA_RESTART */
    struct itimerval often = {.it_interval = {.tv_usec = 10000}, .it_value = {.tv_usec = 10000}};
    start("");
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        for (time_t until = time(NULL) + PEER_DEADLINE_S; time(NULL) < until;) {
            usleep(200000); /* so the answers take longer than some alarms */
            peer_turn(&peer);
        }
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    counter_op *op = counter_lock(client, counter_str("k"), NULL);
    ck_assert_int_eq(counter_run(op), COUNTER_OK);
    counter_op_free(op);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    finish();
}
END_TEST

/* ---- the jobs of a claim --------------------------------------------------------------------- */

TEST(requests_of_the_jobs_of_a_claim_go_in_the_order_of_the_calls)
{
    struct counter_bytes tube = counter_str("t");
    struct counter_claim_args args = COUNTER_CLAIM_ARGS;
    start("");
    args.count = 4;
    counter_op *claim = peer_ran(&peer, counter_claim(client, &tube, 1, &args));
    counter_job *jobs[4];
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_nonnull(jobs[i] = counter_take_job(claim));
    ck_assert_ptr_null(counter_take_job(claim));
    counter_op_free(claim);
    peer.heard_len = 0;
    counter_op *ops[5] = {counter_ack(jobs[2]), counter_renew(jobs[0]), counter_nack(jobs[1], 5),
                          counter_ack(jobs[3]), counter_ack(jobs[0])};
    counter_op_free(ops[3]); /* forgets that job */
    ck_assert_int_eq(peer_end(&peer, ops[4]),
                     COUNTER_OK); /* the last one first: the others go before it */
    ck_assert_int_eq(peer_end(&peer, ops[2]), COUNTER_OK);
    ck_assert_int_eq(peer_end(&peer, ops[1]), COUNTER_OK);
    ck_assert_int_eq(peer_end(&peer, ops[0]), COUNTER_OK);
    ck_assert_str_eq(peer.heard, "ack 9 99|renew 7 99|nack 8 99 5|ack 7 99|");
    ck_assert_uint_eq(peer.accepted, 1);
    finish();
}
END_TEST

UNIT_MAIN("libcounter")
