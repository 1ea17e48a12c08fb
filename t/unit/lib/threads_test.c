/* threads_test.c - clients of several threads share nothing. */
#include "t/unit/lib/peer.h"
#include "t/unit/unit.h"

#include <pthread.h>

enum { THREADS = 3, TURNS = 40 };

static void *work(void *arg)
{
    struct peer *peer = arg;
    struct counter_bytes tube = counter_str("t");
    const char *servers[2] = {"a", "b"};
    size_t order[2];
    peer_open(peer, "");
    for (int i = 0; i < TURNS; i++) {
        counter_client *client = peer_client(peer);
        counter_hold *hold = peer_hold(peer, counter_lock(client, counter_str("k"), NULL));
        ck_assert_int_eq(counter_hold_check(hold), COUNTER_OK);
        ck_assert_int_eq(peer_end(peer, counter_release(hold, true)), COUNTER_OK);
        ck_assert_int_eq(peer_end(peer, counter_usage(client, counter_str("k"))), COUNTER_OK);
        ck_assert_int_eq(peer_end(peer, counter_put(client, tube, counter_str("x"), NULL)),
                         COUNTER_OK);
        counter_op *claim = peer_ran(peer, counter_claim(client, &tube, 1, NULL));
        ck_assert_int_eq(peer_end(peer, counter_ack(counter_take_job(claim))), COUNTER_OK);
        counter_op_free(claim);
        ck_assert_int_eq(counter_servers_for(tube, servers, 2, order), COUNTER_OK);
        ck_assert_int_eq(counter_resolve(client), COUNTER_OK);
        while (counter_next_event(client))
            ;
        counter_close(client);
    }
    peer_close(peer);
    return NULL;
}

TEST(clients_of_threads_share_nothing)
{
    static struct peer peers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &peers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST

static const struct unit_test tests[] = {UNIT(clients_of_threads_share_nothing)};
UNIT_MAIN("libcounter in threads", tests)
