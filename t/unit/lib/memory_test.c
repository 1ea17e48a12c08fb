/*
 * memory_test.c - memory of libcounter: everything may be freed at any time and in any order,
 * whatever the server does, while memory is refused now and then, and the call says so. Nothing is
 * left over.
 */
#include "t/unit/engine/faults.h"
#include "t/unit/lib/peer.h"
#include "t/unit/random.h"
#include "t/unit/unit.h"

enum { PLACES = 12, STEPS = 20000 };

static struct peer peer;
static struct rng rng;
static counter_client *client; /* whose operations begin */
static unsigned one_in;        /* allocations, fails; 0: none does */
static bool is_calm;           /* the server answers, and nothing is closed */

/* ---- operations ------------------------------------------------------------------------------ */

enum what {
    LOCK,
    USUAL_LOCK,
    UNITS,
    MEMBER,
    USAGE,
    PUT,
    PUT_MANY,
    CLAIM,
    TUBE,
    READY,
    LIST_JOBS,
    CLEAR,
    DELETE,
    KICK,
    WHATS,
    GIVE_BACK
};

/* Begins an operation about these names. */
static counter_op *begin_what(enum what what, struct counter_bytes name, struct counter_bytes tube)
{
    struct counter_lock_args lock = COUNTER_LOCK_ARGS;
    struct counter_units_args units = COUNTER_UNITS_ARGS;
    struct counter_member_args member = COUNTER_MEMBER_ARGS;
    struct counter_put_args put = COUNTER_PUT_ARGS;
    struct counter_claim_args claim = COUNTER_CLAIM_ARGS;
    struct counter_new_job jobs[20];
    struct counter_bytes body = counter_str("body"), tubes[2] = {tube, counter_str("u")};
    struct counter_pair attrs[2] = {{counter_str("size"), counter_str("80")},
                                    {counter_str("type"), counter_str("a")}};
    struct counter_pair settings[2] = {{counter_str("limit"), counter_str("5")},
                                       {counter_str("read_only"), counter_str("we move")}};
    switch (what) {
    case LOCK:
        lock.shared = true;
        lock.timeout = 3;
        return counter_lock(client, name, &lock);
    case USUAL_LOCK:
        return counter_lock(client, name, NULL);
    case UNITS:
        units.count = 2;
        units.limit = 3;
        return counter_units(client, name, &units);
    case MEMBER:
        member.count = 3;
        member.attrs = attrs;
        member.attr_count = 2;
        member.by = counter_str("test");
        if (is_calm || rng_one_in(&rng, 2))
            name = counter_str("gpu"); /* of which the peer has members */
        return counter_member(client, name, &member);
    case USAGE:
        return counter_usage(client, name);
    case PUT:
        put.key = counter_str("key");
        put.root = counter_str("root");
        put.root_at = put.at = 1000.5;
        return counter_put(client, tube, body, &put);
    case PUT_MANY:
        for (size_t i = 0; i < 20; i++)
            jobs[i] = (struct counter_new_job){body, NULL};
        return counter_put_many(client, tube, jobs, 20);
    case CLAIM:
        claim.count = 4;
        return counter_claim(client, tubes, 2, &claim);
    case TUBE:
        return counter_tube(client, tube, settings, 2);
    case READY:
        return counter_ready(client, counter_str("*"), NULL);
    case LIST_JOBS:
        return counter_list_jobs(client, tube, "ready");
    case CLEAR:
        return counter_clear(client, tube, "all");
    case DELETE:
        return counter_delete(client, 7);
    default:
        return counter_kick(client, 7);
    }
}

static counter_op *end_of_job(counter_job *job, unsigned how)
{
    return how == 0   ? counter_ack(job)
           : how == 1 ? counter_nack(job, 2.5)
           : how == 2 ? counter_bury(job)
                      : counter_renew(job);
}

/* ---- any order ------------------------------------------------------------------------------- */

static counter_client *clients[2]; /* the second one has another server, which listens nowhere */
static char two_servers[256];
static counter_op *ops[PLACES];
static enum what begun[PLACES];
static counter_hold *holds[PLACES];
static counter_job *jobs[PLACES];
static counter_link *links[PLACES];
static unsigned ended[COUNTER_UNSUPPORTED + 1];

static bool dice(void)
{
    return one_in > 0 && rng_one_in(&rng, one_in);
}

/* libcounter alone uses it, so faults.h lacks it. */
char *__wrap_strndup(const char *text, size_t most);

char *__wrap_strndup(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    char *copy = __wrap_calloc(1, len + 1);
    return copy ? memcpy(copy, text, len) : NULL;
}

static bool has_memory(int status)
{
    return status != COUNTER_NO_MEMORY || one_in > 0;
}

/* Keeps what an operation gave, or some of it. */
static void take(counter_op *op, enum what made)
{
    size_t place = rng_below(&rng, PLACES), taken = 0;
    counter_hold *hold = counter_take_hold(op);
    counter_job *job;
    REQUIRE((hold != NULL) == (made <= MEMBER));
    counter_hold_free(holds[place]);
    holds[place] = hold;
    for (; (job = counter_take_job(op)) != NULL; taken++) {
        place = rng_below(&rng, PLACES);
        counter_job_free(jobs[place]);
        jobs[place] = job;
        if (rng_one_in(&rng, 8))
            return;
    }
    REQUIRE(made == GIVE_BACK || taken == (made == CLAIM ? 4 : 0));
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
        const struct counter_error *error = counter_op_error(ops[place]);
        REQUIRE(error->status == status && has_memory(status));
        REQUIRE(!is_calm || begun[place] == GIVE_BACK || status == COUNTER_OK ||
                status == COUNTER_USAGE || status == COUNTER_NO_MEMORY);
        REQUIRE(status != COUNTER_NO_MEMORY || error->server[0] == '\0');
        ended[status]++;
        if (status == COUNTER_OK)
            take(ops[place], begun[place]);
        begun[place] = GIVE_BACK; /* nothing is to come */
        if (rng_one_in(&rng, 2))
            free_op(place);
        return;
    }
}

static void begin(size_t place)
{
    static const char *const names[] = {"a", "b b", "gpu", "", "t", "x\ny"};
    const char *name = names[rng_below(&rng, 6)];
    const char *tube = !is_calm && rng_one_in(&rng, 3) ? name : "t";
    client = clients[rng_below(&rng, 2)];
    if (!ops[place] && client) {
        begun[place] = rng_below(&rng, WHATS);
        ops[place] = begin_what(begun[place], counter_str(name), counter_str(tube));
        REQUIRE(ops[place] || one_in > 0);
    }
}

/* Gives something back, or begins to. */
static void give_back(size_t place, size_t other)
{
    if (ops[place])
        return;
    begun[place] = GIVE_BACK;
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

/* Calls that end at once. */
static void call_at_once(counter_client *own)
{
    static const char *const servers[3] = {"a:7531", "b:7531", "c:7531"};
    struct sockaddr_storage at = {.ss_family = AF_INET};
    size_t order[3];
    int status = counter_servers_for(counter_str("page 1"), servers, 3, order);
    REQUIRE(has_memory(status));
    REQUIRE(status == COUNTER_OK ? order[0] == 1 && order[1] == 0 && order[2] == 2
                                 : status == COUNTER_NO_MEMORY);
    ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    status = own ? counter_set_addresses(own, 0, &at, 1) : COUNTER_OK;
    if (own && status == COUNTER_OK)
        status = counter_resolve(own);
    REQUIRE(status == COUNTER_OK || (status == COUNTER_NO_MEMORY && has_memory(status)));
}

static void happen(void)
{
    size_t place = rng_below(&rng, PLACES), other = rng_below(&rng, PLACES);
    unsigned chance = is_calm ? 3 + rng_below(&rng, 37) : rng_below(&rng, 40);
    if (chance == 0) {
        peer_cut_all(&peer);
    } else if (chance == 1) {
        peer.is_silent = rng_one_in(&rng, 3);
    } else if (chance == 2) {
        counter_close(clients[place % 2]);
        clients[place % 2] = NULL;
    } else if (chance < 5) {
        struct counter_error error = COUNTER_ERROR;
        if (!clients[place % 2])
            clients[place % 2] = counter_open(place % 2 ? two_servers : peer.url, &error);
        REQUIRE(error.status == COUNTER_OK ||
                (error.status == COUNTER_NO_MEMORY && has_memory(error.status)));
    } else if (chance < 7) {
        free_one(place);
    } else if (chance == 7) {
        if (holds[place])
            (void)counter_hold_check(holds[place]);
        if (!is_calm && clients[other % 2] && rng_one_in(&rng, 10))
            counter_forked(clients[other % 2]); /* does what it says in any process */
    } else if (chance == 8) {
        while (clients[place % 2] && counter_next_event(clients[place % 2]))
            ;
    } else if (chance == 9) {
        talk(place);
    } else if (chance == 10) {
        call_at_once(clients[place % 2]);
    } else if (chance < 16) {
        begin(place);
    } else if (chance < 19) {
        give_back(place, other);
    } else {
        step(place);
    }
}

static void play_at_random(unsigned refuse_one_in, bool calm)
{
    unsigned text, binary, jobs_port;
    peer_open(&peer, "&idle=2&down_seconds=0");
    ck_assert_int_eq(
        sscanf(peer.url, "counter://127.0.0.1:%u?binary=%u&jobs=%u", &text, &binary, &jobs_port),
        3);
    snprintf(two_servers, sizeof(two_servers),
             "counter://127.0.0.2:%u,127.0.0.1:%u?binary=%u&jobs=127.0.0.1:%u&down_seconds=0", text,
             text, binary, jobs_port);
    rng = rng_start("libcounter's order", random_seed());
    fault_counting = true;
    fault_pieces = 0;
    one_in = refuse_one_in;
    is_calm = calm;
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
    ck_assert_int_eq(fault_pieces, 0);
    while (peer_open_conns(&peer) > 0)
        peer_turn(&peer);
    peer_close(&peer);
}

TEST(objects_are_freed_in_any_order)
{
    play_at_random(0, false);
    play_at_random(60, false);
    play_at_random(8, false);
    play_at_random(30, true);
    ck_assert(ended[COUNTER_OK] > 0 && ended[COUNTER_USAGE] > 0);
}
END_TEST

UNIT_MAIN("libcounter's memory")
