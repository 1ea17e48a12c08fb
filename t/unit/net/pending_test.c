/* pending_test.c - answers that come later: their order, what waits for them, and clients that go
 * meanwhile. */
#include "t/unit/net/late.h"

#include "t/unit/random.h"

enum { PENDING = 32 };

static const enum transport transports[] = {TRANSPORT_TCP, TRANSPORT_TLS, TRANSPORT_UNIX};

/* A server of one worker with TLS, not running. */
static void make(struct toy_server *s, struct pki *pki, enum input_end input_end)
{
    late_make(s, 1, PENDING, toy_limits());
    s->row.input_end = input_end;
    pki_make(pki);
    s->secure = true;
    secure_rules(s, toy_limits(), pki_tls(pki, "server", TLS_VERIFY_OFF, TLS_VERSION_1_2));
}

static void stop(struct toy_server *s, struct pki *pki)
{
    toy_stop(s);
    pki_remove(pki);
}

static uint64_t closed_in_all(struct toy_server *s)
{
    uint64_t closed = 0;
    for (unsigned i = 0; i < CLOSE_MAX; i++)
        closed += toy_closed(s, i);
    return closed;
}

/* Returns when the worker has handled all that has arrived so far. */
static void catch_up(struct toy_server *s)
{
    server_barrier(&s->server);
    server_barrier(&s->server);
}

/* ---- order --------------------------------------------------------------------------------- */

static void shuffle(struct rng *rng, unsigned *order, unsigned count)
{
    for (unsigned i = count; i > 1; i--) {
        unsigned j = rng_below(rng, i), other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}

/* What is expected of one request. */
struct expected {
    size_t pattern; /* bytes, before the text */
    char text[24];
};

/* Sends as many requests as may be pending, one in `now_in` of which is answered at once, and has
 * the others answered, the last one first or at random. Answers have all sizes. */
static void answer_in_order(struct toy_server *s, int client, struct rng *rng, unsigned now_in,
                            bool in_reverse)
{
    struct expected expected[PENDING];
    unsigned order[PENDING], later = 0, first = atomic_load(&late.count);
    for (unsigned i = 0; i < PENDING; i++) {
        struct expected *e = &expected[i];
        *e = (struct expected){.pattern = rng_one_in(rng, 4) ? 1 + rng_below(rng, 40000) : 0};
        bool now = rng_one_in(rng, now_in);
        char line[64];
        if (now && e->pattern > 0) {
            snprintf(line, sizeof(line), "b%zu\n", e->pattern);
        } else {
            snprintf(e->text, sizeof(e->text), "%u", i);
            snprintf(line, sizeof(line), "%c%s\n", now ? 'e' : 'p', e->text);
        }
        if (!now) {
            late.errands[first + later].pattern = e->pattern;
            order[later] = later;
            later++;
        }
        send_text(client, line);
    }
    if (!in_reverse)
        shuffle(rng, order, later);
    for (unsigned i = 0; i < later; i++)
        late_answer(s, first + order[in_reverse ? later - 1 - i : i]);
    for (unsigned i = 0; i < PENDING; i++) {
        expect_pattern(client, expected[i].pattern);
        if (expected[i].text[0]) {
            expect(client, expected[i].text);
            expect(client, "\n");
        }
    }
    expect_quiet(client);
}

TEST(answers_leave_in_the_order_of_their_requests)
{
    struct toy_server s;
    struct rng rng = rng_start("the order of answers", random_seed());
    struct server_limits limits = toy_limits();
    limits.output_buffer = 4u << 20;
    late_make(&s, 1, PENDING, limits);
    toy_run(&s);
    int client = connect_local(&s, 0);
    for (int round = 0; round < 60; round++)
        answer_in_order(&s, client, &rng, round % 3 ? 3 : UINT32_MAX, round % 2);
    close(client);
    toy_stop(&s);
}
END_TEST

TEST(letters_sent_while_their_connection_serves_come_afterwards)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_tcp(&s, 0);
    send_text(client, "pone\na0\nelast\n");
    expect(client, "one\nasked\nlast\n");
    send_text(client, "sself\neafter\n");
    expect(client, "self\nafter\n");
    send_text(client, "ptwo\nsthree\n");
    late_answer(&s, 2);
    expect(client, "two\nthree\n");
    close(client);
    toy_stop(&s);
}
END_TEST

TEST(answers_without_bytes_keep_their_places)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_tcp(&s, 0);
    send_text(client, "p\np\npthird\np\nefifth\n");
    for (unsigned i = 4; i > 0; i--)
        late_answer(&s, i - 1);
    expect(client, "third\nfifth\n");
    send_text(client, "enow\n");
    expect(client, "now\n");
    close(client);
    toy_stop(&s);
}
END_TEST

/* Numbers go round after 2^32 requests, whatever the protocol's limit is. */
static void begin_near_the_end(struct worker *worker, void *arg)
{
    struct conn_extension *extension = conn_extension(worker_conn_at(worker, 0));
    (void)arg;
    extension->oldest = extension->next = UINT32_MAX - 2;
}

TEST(order_holds_where_the_numbers_of_requests_go_round)
{
    for (unsigned max = 5; max < 9; max++) {
        struct toy_server s;
        late_make(&s, 1, max, toy_limits());
        toy_run(&s);
        int client = connect_tcp(&s, 0);
        in_worker(&s, 0, begin_near_the_end, NULL);
        unsigned first = atomic_load(&late.count);
        send_text(client, "p0\np1\np2\np3\np4\n");
        for (unsigned i = 5; i > 0; i--)
            late_answer(&s, first + i - 1);
        expect(client, "0\n1\n2\n3\n4\n");
        close(client);
        toy_stop(&s);
    }
}
END_TEST

/* ---- what waits ---------------------------------------------------------------------------- */

TEST(request_beyond_the_limit_waits_for_the_oldest_answer)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_tcp(&s, 0);
    for (unsigned i = 0; i < PENDING + 2; i++)
        send_text(client, "px\n");
    WAIT_UNTIL(atomic_load(&late.count) == PENDING);
    for (unsigned i = PENDING; i > 1; i--) { /* all but the oldest */
        late_answer(&s, i - 1);
        catch_up(&s);
        ck_assert_uint_eq(atomic_load(&late.count), PENDING);
        expect_quiet(client);
    }
    late_answer(&s, 0);
    WAIT_UNTIL(atomic_load(&late.count) == PENDING + 2);
    for (unsigned i = 0; i < PENDING; i++)
        expect(client, "x\n");
    late_answer(&s, PENDING);
    late_answer(&s, PENDING + 1);
    expect(client, "x\nx\n");
    close(client);
    toy_stop(&s);
}
END_TEST

TEST(answers_at_once_behind_pending_ones_count_too)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_tcp(&s, 0);
    send_text(client, "pfirst\n");
    for (unsigned i = 1; i < PENDING; i++)
        send_text(client, "ebehind\n");
    send_text(client, "plast\n");
    WAIT_UNTIL(atomic_load(&s.toy.requests) == PENDING - 1);
    catch_up(&s);
    ck_assert_uint_eq(atomic_load(&late.count), 1);
    expect_quiet(client);
    late_answer(&s, 0);
    expect(client, "first\n");
    for (unsigned i = 1; i < PENDING; i++)
        expect(client, "behind\n");
    late_answer(&s, 1);
    expect(client, "last\n");
    close(client);
    toy_stop(&s);
}
END_TEST

TEST(request_waits_where_the_one_before_it_says_so)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_local(&s, 0);
    for (unsigned i = 0; i < 100; i++) {
        send_text(client, "wwaited for\npx\nebehind\n");
        WAIT_UNTIL(atomic_load(&late.count) == 2 * i + 1);
        catch_up(&s);
        ck_assert_uint_eq(atomic_load(&late.count), 2 * i + 1);
        late_answer(&s, 2 * i);
        expect(client, "waited for\n");
        late_answer(&s, 2 * i + 1);
        expect(client, "x\nbehind\n");
    }
    close(client);
    toy_stop(&s);
}
END_TEST

TEST(request_that_is_put_off_is_served_once_no_answer_is_pending)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_tcp(&s, 0);
    send_text(client, "pa\npb\nl\npc\n");
    WAIT_UNTIL(atomic_load(&late.deferred) == 1);
    late_answer(&s, 0);
    expect(client, "a\n");
    catch_up(&s);
    ck_assert_uint_eq(atomic_load(&late.deferred), 1);
    ck_assert_uint_eq(atomic_load(&late.count), 2);
    late_answer(&s, 1);
    expect(client, "b\nlater\n");
    late_answer(&s, 2);
    expect(client, "c\n");
    ck_assert_uint_eq(atomic_load(&late.deferred), 1);
    close(client);
    toy_stop(&s);
}
END_TEST

/* ---- waiting wakes nobody ------------------------------------------------------------------- */

TEST(pending_answer_causes_no_wakeups)
{
    struct toy_server s;
    struct pki pki;
    struct late_count count;
    make(&s, &pki, INPUT_END_CLOSES);
    late_count_iterations(&s, 0, &count);
    toy_run(&s);
    for (unsigned i = 0; i < 2 * ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i / 2], &c);
        late_send(&c, i % 2 ? "wx\nebehind\n" : "px\n"); /* also with bytes unread */
        WAIT_UNTIL(atomic_load(&late.count) == i + 1);
        late_expect_asleep(&count);
        if (i % 2)
            late_send(&c, "emore\n");
        late_expect_asleep(&count);
        late_answer(&s, i);
        late_expect(&c, i % 2 ? "x\nbehind\nmore\n" : "x\n");
        late_free(&c);
    }
    stop(&s, &pki);
}
END_TEST

TEST(client_that_sends_no_more_causes_no_wakeups_while_it_is_served)
{
    struct toy_server s;
    struct pki pki;
    struct late_count count;
    make(&s, &pki, INPUT_END_SERVED);
    late_count_iterations(&s, 0, &count);
    toy_run(&s);
    for (unsigned i = 0; i < 2 * ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i / 2], &c);
        late_send(&c, i % 2 ? "wx\nebehind\n" : "px\n");
        WAIT_UNTIL(atomic_load(&late.count) == i + 1);
        late_shut(&c);
        WAIT_UNTIL(atomic_load(&late.ends) == i + 1);
        late_expect_asleep(&count);
        late_answer(&s, i);
        late_expect(&c, i % 2 ? "x\nbehind\n" : "x\n");
        late_expect_end(&c);
        late_free(&c);
        WAIT_UNTIL(closed_in_all(&s) == i + 1);
    }
    ck_assert_uint_eq(atomic_load(&late.ends), 2 * ARRAY_SIZE(transports));
    stop(&s, &pki);
}
END_TEST

TEST(client_that_has_gone_causes_no_wakeups_where_its_end_is_served)
{
    struct toy_server s;
    struct pki pki;
    struct late_count count;
    make(&s, &pki, INPUT_END_SERVED);
    late_count_iterations(&s, 0, &count);
    toy_run(&s);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i], &c);
        late_send(&c, "wx\nebehind\n");
        WAIT_UNTIL(atomic_load(&late.count) == i + 1);
        late_free(&c);
        late_expect_asleep(&count);
        late_answer(&s, i);
        WAIT_UNTIL(closed_in_all(&s) == i + 1);
    }
    stop(&s, &pki);
}
END_TEST

/* ---- clients that go ------------------------------------------------------------------------ */

TEST(client_that_goes_is_noticed_while_its_bytes_lie_unread)
{
    struct toy_server s;
    struct pki pki;
    make(&s, &pki, INPUT_END_CLOSES);
    toy_run(&s);
    char *bytes = calloc(1, 100001); /* more than is read at once */
    ck_assert(bytes != NULL);
    for (size_t i = 0; i < 100000; i++)
        bytes[i] = i % 2 ? '\n' : 'l';
    static void (*const go[])(struct late_client *) = {late_free, late_reset};
    unsigned gone = 0;
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        for (unsigned how = 0; how < 4; how++) {
            struct late_client c;
            late_connect(&s, 0, transports[i], &c);
            set_buffer(c.fd, SO_SNDBUF, 1 << 20);
            late_send(&c, how / 2 ? "wx\n" : "wx\nebehind\n");
            WAIT_UNTIL(atomic_load(&late.count) == gone + 1);
            if (how / 2)
                late_send(&c, bytes);
            go[how % 2](&c);
            gone++;
            WAIT_UNTIL(closed_in_all(&s) == gone);
            late_answer(&s, gone - 1);
            WAIT_UNTIL(atomic_load(&late.errands[gone - 1].undone) == 1);
        }
    }
    ck_assert_uint_eq(toy_closed(&s, CLOSE_PEER) + toy_closed(&s, CLOSE_RESET), gone);
    free(bytes);
    stop(&s, &pki);
}
END_TEST

TEST(half_close_is_noticed_too)
{
    struct toy_server s;
    struct pki pki;
    make(&s, &pki, INPUT_END_CLOSES);
    toy_run(&s);
    for (unsigned i = 0; i < ARRAY_SIZE(transports); i++) {
        struct late_client c;
        late_connect(&s, 0, transports[i], &c);
        late_send(&c, "wx\nebehind\n");
        WAIT_UNTIL(atomic_load(&late.count) == i + 1);
        late_shut(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == i + 1);
        late_free(&c);
    }
    stop(&s, &pki);
}
END_TEST

/* The worker learns of the request and of the end at once, and from the request that it must wait.
 * Where many requests come before that one, the end is known before it. */
TEST(end_that_comes_with_the_request_is_noticed)
{
    static const enum transport plain[] = {TRANSPORT_TCP, TRANSPORT_UNIX};
    static const enum input_end means[] = {INPUT_END_CLOSES, INPUT_END_SERVED};
    for (unsigned i = 0; i < 8; i++) {
        struct toy_server s;
        struct late_client c;
        unsigned requests = i / 4 ? 300 : 0;
        late_make(&s, 1, PENDING, toy_limits());
        s.row.input_end = means[i % 2];
        toy_run(&s);
        int fd = late_pair(plain[i / 2 % 2], &c), there;
        char bytes[1024] = "";
        for (unsigned k = 0; k < requests; k++)
            memcpy(bytes + (size_t)k * 2, "e\n", 3);
        memcpy(bytes + (size_t)requests * 2, "wx\nebehind\n", 12);
        late_send(&c, bytes);
        late_shut(&c);
        WAIT_UNTIL(ioctl(fd, FIONREAD, &there) == 0 && there == (int)requests * 2 + 11);
        ck_assert(wait_ready(fd, POLLRDHUP, clock_mono_ns() + PATIENCE_NS));
        late_give(&s, 0, c.transport, fd);
        for (unsigned k = 0; k < requests; k++)
            late_expect(&c, "\n");
        if (i % 2) {
            WAIT_UNTIL(atomic_load(&late.ends) == i / 2 + 1);
            late_answer(&s, i);
            late_expect(&c, "x\nbehind\n");
        }
        late_expect_end(&c);
        late_free(&c);
        WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == 1);
        toy_stop(&s);
    }
}
END_TEST

/* ---- letters that find nobody --------------------------------------------------------------- */

TEST(letters_for_a_connection_that_has_gone_are_undone_once)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_tcp(&s, 0), other;
    for (unsigned i = 0; i < PENDING; i++)
        send_text(client, "px\n");
    WAIT_UNTIL(atomic_load(&late.count) == PENDING);
    late_answer(&s, 3); /* it is kept, and freed */
    catch_up(&s);
    close(client);
    WAIT_UNTIL(toy_closed(&s, CLOSE_PEER) == 1);
    other = connect_tcp(&s, 0); /* in the same slot */
    send_text(other, "py\n");
    WAIT_UNTIL(atomic_load(&late.count) == PENDING + 1);
    for (unsigned i = 0; i < PENDING; i++) {
        if (i != 3)
            late_answer(&s, i);
    }
    catch_up(&s);
    for (unsigned i = 0; i < PENDING; i++) {
        ck_assert_uint_eq(atomic_load(&late.errands[i].answered), i == 3);
        ck_assert_uint_eq(atomic_load(&late.errands[i].undone), i != 3);
    }
    expect_quiet(other);
    late_answer(&s, PENDING);
    expect(other, "y\n");
    close(other);
    toy_stop(&s);
}
END_TEST

TEST(letters_for_a_connection_that_finishes_are_undone_once)
{
    struct toy_server s;
    struct server_limits limits = toy_limits();
    limits.output_buffer = 4u << 20;
    late_make(&s, 1, PENDING, limits);
    toy_run(&s);
    int client = connect_local(&s, 0);
    send_text(client, "b1000000\npx\npy\nez\nf\n");
    WAIT_UNTIL(atomic_load(&s.toy.ended) == 1);
    ck_assert_uint_eq(atomic_load(&s.protocol.connections), 1);
    late_answer(&s, 1);
    late_answer(&s, 0);
    catch_up(&s);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(atomic_load(&late.errands[i].answered), 0);
        ck_assert_uint_eq(atomic_load(&late.errands[i].undone), 1);
    }
    expect_pattern(client, 1000000);
    expect_end(client); /* what had to follow other answers is not sent without them */
    close(client);
    WAIT_UNTIL(toy_closed(&s, CLOSE_PROTOCOL) == 1);
    toy_stop(&s);
}
END_TEST

TEST(connection_that_is_closed_while_it_serves_behind_pending_answers_ends)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_local(&s, 0);
    send_text(client, "px\npy\nez\nk\n");
    WAIT_UNTIL(toy_closed(&s, LATE_BORED) == 1);
    expect_end(client);
    close(client);
    toy_stop(&s);
}
END_TEST

TEST(letters_that_are_left_when_workers_end_are_undone_once)
{
    struct toy_server s;
    late_make(&s, 1, PENDING, toy_limits());
    toy_run(&s);
    int client = connect_tcp(&s, 0);
    send_text(client, "px\npy\n");
    WAIT_UNTIL(atomic_load(&late.count) == 2);
    worker_stop(s.server.workers[0]);
    worker_join(s.server.workers[0]);
    late_answer(&s, 0);
    late_answer(&s, 1);
    ck_assert_uint_eq(atomic_load(&late.errands[0].undone), 0);
    worker_drain(s.server.workers[0]);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(atomic_load(&late.errands[i].undone), 1);
        ck_assert_uint_eq(atomic_load(&late.errands[i].answered), 0);
    }
    expect_end(client);
    close(client);
    toy_free(&s);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(answers_leave_in_the_order_of_their_requests),
    UNIT(letters_sent_while_their_connection_serves_come_afterwards),
    UNIT(answers_without_bytes_keep_their_places),
    UNIT(order_holds_where_the_numbers_of_requests_go_round),
    UNIT(request_beyond_the_limit_waits_for_the_oldest_answer),
    UNIT(answers_at_once_behind_pending_ones_count_too),
    UNIT(request_waits_where_the_one_before_it_says_so),
    UNIT(request_that_is_put_off_is_served_once_no_answer_is_pending),
    UNIT(pending_answer_causes_no_wakeups),
    UNIT(client_that_sends_no_more_causes_no_wakeups_while_it_is_served),
    UNIT(client_that_has_gone_causes_no_wakeups_where_its_end_is_served),
    UNIT(client_that_goes_is_noticed_while_its_bytes_lie_unread),
    UNIT(half_close_is_noticed_too),
    UNIT(end_that_comes_with_the_request_is_noticed),
    UNIT(letters_for_a_connection_that_has_gone_are_undone_once),
    UNIT(letters_for_a_connection_that_finishes_are_undone_once),
    UNIT(connection_that_is_closed_while_it_serves_behind_pending_answers_ends),
    UNIT(letters_that_are_left_when_workers_end_are_undone_once),
};

UNIT_MAIN("pending", tests)
