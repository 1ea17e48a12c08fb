/* commit_world.c - see commit_world.h. */
#include "t/unit/jobs/commit_world.h"
#include "t/models/jobs_check.h"

#include "t/unit/jobs/commit_promises.h"
#include "t/unit/jobs/commit_rig.h"
#include "t/unit/random.h"

#include <stdlib.h>
#include <string.h>

static const struct world_plan *plan;
static struct rng *rng;
static struct jobs_client *clients[CLIENTS];
static struct {
    bool is, ends, claims; /* ends: its time is over */
} waits[CLIENTS];
static struct ask *asks[ASKS];
static size_t ask_count;
static uint64_t damaged; /* of the changes that the store has: all that fails is this row */

static bool one_in(uint32_t n)
{
    return rng_one_in(rng, n);
}

static uint32_t below(uint32_t n)
{
    return rng_below(rng, n);
}

static int client_number(const struct jobs_client *client)
{
    for (unsigned n = 0; n < CLIENTS; n++) {
        if (clients[n] == client && client)
            return (int)n;
    }
    return -1;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void may_change(struct ask *ask)
{
    for (size_t n = 0; n < ask->op.count; n++)
        promises[ask->puts[n].id].may_change = true;
    if (ask->op.act.id)
        promises[ask->op.act.id].may_change = true;
    if (ask->op.kind != JOB_OP_CLEAR)
        return;
    for (uint64_t id = 1; id <= last_id; id++)
        promises[id].may_change |= promises[id].tube == tube_number(ask->op.tube);
}

static void answered_put(struct ask *ask)
{
    for (size_t n = 0; n < ask->op.count; n++) {
        struct promise *p = promise_of(ask->puts[n].id);
        bool dropped = (p->keyed || p->root) && ask->duplicates[n].is;
        bool stored = ask->status == JOBS_OK && !dropped;
        REQUIRE(stored || p->keyed || ask->status != JOBS_OK ||
                p->root_ms < newest_roots[p->tube][p->root]);
        REQUIRE(p->fate == ASKED);
        p->fate = stored ? THERE : NEVER;
    }
}

static void answered_change(struct ask *ask)
{
    struct promise *p = promise_of(ask->op.act.id);
    enum job_verb verb = ask->op.act.verb;
    bool by_token = verb == JOB_ACK || verb == JOB_NACK || verb == JOB_RENEW;
    if (ask->status != JOBS_OK && ask->status != JOBS_BURIED)
        return;
    REQUIRE(p->fate == THERE);
    REQUIRE(!by_token || (ask->good && ask->op.act.token == p->token));
    switch (verb) {
    case JOB_DELETE:
        REQUIRE(!p->live || p->until_ns <= rig.now.mono_ns ||
                p->holder == client_number(ask->op.act.client) || ask->orphan);
        p->fate = GONE;
        break;
    case JOB_ACK:
        p->fate = GONE;
        break;
    case JOB_TOUCH:
    case JOB_RENEW:
        /* A touch may be answered before its client has read that it was given the job. */
        if (by_token || p->holder == client_number(ask->op.act.client))
            p->until_ns = rig.now.mono_ns + TTR_S * NS_PER_S;
        break;
    case JOB_RESERVE:
        given(&ask->view, ask->orphan ? -1 : client_number(ask->op.act.client));
        p->live = p->live && (!ask->orphan || p->tube == LEASE);
        break;
    case JOB_KICK:
        break;
    default:
        p->live = false;
    }
}

static void answered(struct ask *ask)
{
    REQUIRE(ask->status != JOBS_COMMITS);
    if (damaged && ask->op.act.id != damaged && ask->status == JOBS_IO)
        REQUIRE(ask->op.kind == JOB_OP_PUT); /* of which it is the twin */
    if (damaged && ask->op.act.id != damaged && plan->memory == 0)
        REQUIRE(ask->status != JOBS_NO_MEMORY);
    if ((ask->status == JOBS_NO_MEMORY || ask->status == JOBS_IO) && rig.last_failed)
        may_change(ask);
    switch (ask->op.kind) {
    case JOB_OP_PUT:
        answered_put(ask);
        break;
    case JOB_OP_CLEAR:
        check_world();
        end_clears(ask, ask->status == JOBS_OK);
        break;
    case JOB_OP_READ:
        if (ask->status == JOBS_OK && ask->view.body)
            check_body(ask->view.id, ask->view.body);
        break;
    case JOB_OP_KICK:
    case JOB_OP_PAUSE:
    case JOB_OP_SET_TUBE:
        break;
    default:
        answered_change(ask);
    }
}

static void read_messages(void)
{
    struct job_view view;
    for (unsigned n = 0; n < CLIENTS; n++) {
        while (clients[n] && rig_hears(clients[n])) {
            REQUIRE(waits[n].is);
            struct job_views *claimed;
            bool refused = jobs_was_refused(clients[n]);
            if (jobs_read(clients[n], &view)) {
                given(&view, (int)n);
                waits[n].is = false;
            } else if ((claimed = jobs_take_claimed(clients[n])) != NULL) {
                for (size_t i = 0; i < claimed->count; i++)
                    given(&claimed->at[i], (int)n);
                job_views_free(rig.jobs, &claimed);
                waits[n].is = false;
            } else if (waits[n].ends || refused) {
                waits[n].is = !jobs_end_wait(clients[n]);
            }
        }
    }
}

/* The request that was answered first; ask_count: none. */
static size_t first_answer(void)
{
    size_t first = ask_count;
    for (size_t n = 0; n < ask_count; n++) {
        if (asks[n]->done && (first == ask_count || asks[n]->answer < asks[first]->answer))
            first = n;
    }
    return first;
}

/* Reads what has come: answers, then messages. */
static void hear(void)
{
    size_t n;
    while ((n = first_answer()) < ask_count) {
        struct ask *ask = asks[n];
        if (ask->status == JOBS_WAITS && !ask->orphan) {
            ask_submit(ask);
            continue;
        }
        asks[n] = asks[--ask_count];
        answered(ask);
        ask_free(&ask);
    }
    read_messages();
    check_world();
}

static void submit(struct ask *ask)
{
    ask_submit(ask);
    REQUIRE(ask_count < ASKS);
    asks[ask_count++] = ask;
    hear();
}

/* ---- the store's thread ---------------------------------------------------------------------- */

static void step_store(void)
{
    uint64_t now = plan->damaged ? plan->damaged() : 0;
    if (!rig.has_list) {
        damaged = now;
        (void)rig_take();
    } else if (!rig.written) {
        uint64_t commits = rig.commits;
        damaged = now == damaged ? now : 0;
        rig_write();
        for (uint64_t id = 1; id <= last_id && commits < rig.commits && !rig.last_failed; id++)
            promises[id].may_change = false;
    } else {
        rig_settle();
        hear();
        (void)rig.store->does->tend(rig.store, rig.now.mono_ns);
    }
}

static void run_due(void)
{
    struct jobs_outbox outbox;
    jobs_outbox_init(&outbox);
    jobs_run(rig.jobs, rig.now, &outbox);
    rig_send(&outbox);
    jobs_check(rig.jobs, rig.now);
    hear();
}

static void settle_all(void)
{
    unsigned rounds = 0;
    do {
        while (rig.has_list || jobs_has_ops(rig.jobs)) {
            step_store();
            REQUIRE(++rounds < 10000);
        }
        run_due();
    } while (jobs_has_ops(rig.jobs));
}

/* ---- clients --------------------------------------------------------------------------------- */

/* A client that does not wait; NULL: none. */
static struct jobs_client *any_client(void)
{
    unsigned n = below(CLIENTS);
    return waits[n].is ? NULL : clients[n];
}

uint64_t world_id(void)
{
    uint64_t id = last_id;
    if (last_id == 0)
        return 1;
    for (unsigned n = 0; n < 20; n++) {
        id = last_id - below((uint32_t)(last_id < 40 ? last_id : 40));
        if (promises[id].fate == THERE)
            break;
    }
    return id;
}

static void new_client(unsigned n)
{
    uint32_t count;
    unsigned refused = 0;
    clients[n] = jobs_client_new(rig.jobs, n, NULL);
    waits[n].is = waits[n].ends = false;
    if (!clients[n])
        return;
    for (unsigned i = 1; i < TUBES; i++)
        refused += jobs_watch(clients[n], bytes_of(tube_names[i]), &count) != JOBS_OK;
    refused += jobs_use(clients[n], bytes_of(tube_names[below(TUBES)])) != JOBS_OK;
    REQUIRE(refused == 0 || plan->memory > 0);
}

static void end_client(unsigned n)
{
    if (!clients[n])
        return;
    for (uint64_t id = 1; id <= last_id; id++) {
        if (promises[id].holder == (int)n && promises[id].tube != LEASE)
            promises[id].live = false;
        if (promises[id].holder == (int)n)
            promises[id].holder = -1;
    }
    waits[n].is = false;
    struct jobs_client *client = clients[n];
    clients[n] = NULL;
    for (size_t i = 0; i < ask_count; i++) { /* who asked is not there when it is answered */
        if (asks[i]->op.act.client == client)
            asks[i]->orphan = true;
    }
    rig_end(&client);
    hear();
}

static bool add_put(struct ask *ask, unsigned tube)
{
    uint64_t id = jobs_take_ids(rig.jobs, 1);
    struct promise *p = promise_of(id);
    REQUIRE(id > last_id);
    last_id = id;
    struct job_body *body = job_body_new(rig.jobs, JOBS_PUTS, body_len(id));
    if (!body)
        return false;
    for (uint32_t n = 0; n < body->len; n++)
        body->bytes[n] = body_byte(id, n);
    struct job_put *put = &ask->puts[ask->op.count];
    ask_tube(ask, tube_names[tube]);
    *put = (struct job_put){.tube = ask->op.tube,
                            .id = id,
                            .pri = below(3),
                            .delay_s = one_in(4) ? 1 + below(50) : 0,
                            .ttr_s = TTR_S,
                            .tries = one_in(6) ? 1 + below(2) : JOB_TRIES_OF_TUBE,
                            .duplicate_r = &ask->duplicates[ask->op.count],
                            .body = body};
    ask->op.count++;
    *p = (struct promise){
        .fate = ASKED, .tube = (uint8_t)tube, .batch = (uint32_t)ask->puts[0].id, .holder = -1};
    int64_t wall_ms = rig_wall_ns() / NS_PER_MS;
    if (one_in(3)) {
        char key[] = {'k', (char)('0' + below(3)), '\0'};
        ask_key(ask, key, wall_ms - below(100000));
        p->keyed = true;
    }
    if (one_in(6)) {
        p->root = (uint8_t)(1 + below(2));
        p->root_ms = wall_ms + 50000 - below(100000); /* many are ahead of the clock */
        char root[] = {'r', (char)('0' + p->root), '\0'};
        ask_root(ask, root, p->root_ms);
        if (p->root_ms > newest_roots[tube][p->root])
            newest_roots[tube][p->root] = p->root_ms;
    }
    return true;
}

static void do_put(void)
{
    struct jobs_client *client = any_client();
    unsigned tube = below(TUBES), count = one_in(3) ? 1 + below(RIG_PUTS) : 1;
    if (!client)
        return;
    struct ask *ask = ask_new(client, JOB_OP_PUT);
    while (count-- > 0 && add_put(ask, tube))
        continue;
    if (ask->op.count > 0)
        submit(ask);
    else
        ask_free(&ask);
}

static void do_act(void)
{
    static const enum job_verb verbs[] = {JOB_DELETE, JOB_RELEASE, JOB_BURY,    JOB_TOUCH,
                                          JOB_ACK,    JOB_NACK,    JOB_RENEW,   JOB_DELETE,
                                          JOB_KICK,   JOB_RESERVE, JOB_RELEASE, JOB_ACK};
    struct jobs_client *client = any_client();
    uint64_t id = world_id();
    struct promise *p = &promises[id];
    if (p->live && p->holder >= 0 && !one_in(4) && !waits[p->holder].is)
        client = clients[p->holder];
    if (!client)
        return;
    struct ask *ask = ask_act(client, verbs[below(ARRAY_SIZE(verbs))], id);
    ask->op.act.token = one_in(4) ? p->old[below(TOKENS)] : p->token;
    /* A last try whose connection has ended is good until it is abandoned in the store. */
    ask->good = (p->live || p->last_state == JOB_RESERVED) && ask->op.act.token == p->token;
    ask->op.act.pri = below(3);
    ask->op.act.delay_s = one_in(2) ? below(30) : 0;
    submit(ask);
}

static void do_wait(void)
{
    unsigned n = below(CLIENTS);
    int64_t timeout_ns = one_in(2) ? 0 : JOBS_FOREVER;
    char reason[JOBS_READ_ONLY_MAX + 1];
    struct job_view views[3];
    size_t count = 1;
    enum jobs_status status;
    if (!clients[n])
        return;
    if (waits[n].is) {
        waits[n].ends = true;
        waits[n].is = !jobs_end_wait(clients[n]);
        return;
    }
    if (one_in(2)) {
        status = jobs_reserve(clients[n], timeout_ns, views, rig.now);
    } else {
        struct bytes tubes[2] = {bytes_of(tube_names[below(TUBES)]),
                                 bytes_of(tube_names[below(TUBES)])};
        const struct job_claim_request request = {.tubes = tubes,
                                                  .tube_count = below(3),
                                                  .count = 1 + below(3),
                                                  .timeout_ns = timeout_ns,
                                                  .answer_max = 1500};
        status = jobs_claim(clients[n], &request, views, &count, reason, rig.now);
    }
    for (size_t i = 0; i < count && status == JOBS_OK; i++)
        given(&views[i], (int)n);
    waits[n].is = status == JOBS_WAITS;
    waits[n].ends = timeout_ns == 0;
    hear();
}

static void do_tube(void)
{
    static const enum job_op_kind kinds[] = {JOB_OP_PAUSE, JOB_OP_KICK, JOB_OP_CLEAR,
                                             JOB_OP_SET_TUBE, JOB_OP_KICK};
    enum job_op_kind kind = kinds[below(ARRAY_SIZE(kinds))];
    struct jobs_client *client = any_client();
    unsigned tube = below(TUBES), state = one_in(2) ? JOB_RESERVED : below(JOBS_ALL + 1);
    if (!client || (kind == JOB_OP_CLEAR && state != JOB_RESERVED && !one_in(3)))
        return;
    struct ask *ask = ask_new(kind == JOB_OP_CLEAR ? NULL : client, kind);
    ask_tube(ask, tube_names[tube]);
    ask->op.seconds = one_in(2) ? 0 : 1 + below(20);
    ask->kick.left = below(11);
    ask->op.state = state;
    ask->settings =
        (struct job_settings){.given = 1u << JOB_SETTING_ORDER | 1u << JOB_SETTING_LIMIT,
                              .is[JOB_SETTING_ORDER] = below(3),
                              .is[JOB_SETTING_LIMIT] = one_in(3) ? 1 + below(40) : 0};
    if (kind == JOB_OP_CLEAR)
        begin_clear(ask);
    submit(ask);
}

static void do_read(void)
{
    struct ask *ask = ask_new(NULL, JOB_OP_READ);
    uint64_t id = world_id();
    if (jobs_peek(rig.jobs, id, &ask->view) != JOBS_OK || ask->view.body) {
        if (ask->view.body)
            check_body(id, ask->view.body);
        ask_free(&ask);
        return;
    }
    ask->op.view_count = 1;
    submit(ask);
}

/* ---- ends of the process --------------------------------------------------------------------- */

static void open_again(void)
{
    for (uint64_t id = 1; id <= last_id; id++)
        promises[id].damaged = false;
    while (rig_open() != JOB_STORE_OK)
        plan->mend(); /* a store that cannot be read is no start */
}

/* What is there after the start decides what was not known. */
static void learn(void)
{
    struct job_view view;
    for (uint64_t id = 1; id <= last_id; id++) {
        struct promise *p = &promises[id];
        bool found = jobs_peek(rig.jobs, id, &view) == JOBS_OK;
        if (found)
            job_body_drop(rig.jobs, &view.body);
        p->live = false; /* a lease may go on; its token is good */
        if (p->fate == UNKNOWN || p->may_change) {
            const struct promise *first = &promises[p->batch];
            bool plain = !p->keyed && !p->root && !first->keyed && !first->root;
            if (plain && first->fate != GONE && p->fate != THERE && first < p &&
                p->may_change == first->may_change && p->last_state == JOB_STATES)
                REQUIRE(found == (first->fate == THERE));
            p->fate = found ? THERE : GONE;
        }
        p->may_change = false;
    }
    check_world();
}

static void crash(bool powerless)
{
    if (powerless && plan->cut)
        plan->cut();
    for (size_t n = 0; n < ask_count; n++) {
        for (size_t i = 0; i < asks[n]->op.count; i++) {
            promises[asks[n]->puts[i].id].fate = UNKNOWN;
            promises[asks[n]->puts[i].id].last_state = JOB_STATES;
        }
        if (asks[n]->op.act.id)
            promises[asks[n]->op.act.id].may_change = true;
        if (asks[n]->op.kind == JOB_OP_CLEAR)
            may_change(asks[n]);
    }
    end_clears(NULL, false);
    for (unsigned n = 0; n < CLIENTS; n++) {
        waits[n].is = false;
        if (clients[n])
            rig_end(&clients[n]);
    }
    rig_crash(asks, ask_count);
    for (size_t n = 0; n < ask_count; n++) {
        for (size_t i = 0; i < asks[n]->op.count; i++)
            REQUIRE(asks[n]->puts[i].body == NULL);
        free(asks[n]);
    }
    ask_count = 0;
    if (plan->restart)
        plan->restart();
    open_again();
    uint64_t next = jobs_take_ids(rig.jobs, 1);
    for (uint64_t id = next; id <= last_id; id++) /* nobody was told these */
        if (promises[id].fate != NEVER && promises[id].fate != UNKNOWN)
            ck_abort_msg("id %" PRIu64 ", fate %d, comes again after %" PRIu64, id,
                         promises[id].fate, next);
    last_id = next;
    promises[next] = (struct promise){.fate = NEVER, .holder = -1};
    learn();
    for (unsigned n = 0; n < CLIENTS; n++)
        new_client(n);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void step(void)
{
    unsigned what = below(100);
    if (ask_count + 1 >= ASKS || what < 35)
        step_store();
    else if (what < 50)
        do_put();
    else if (what < 65)
        do_act();
    else if (what < 80)
        do_wait();
    else if (what < 84)
        do_tube();
    else if (what < 87)
        do_read();
    else if (what < 91)
        rig_pass_ns(one_in(8) ? 70 * NS_PER_S : one_in(2) ? NS_PER_S : below(1000000));
    else if (what < 96)
        run_due();
    else if (what < 98) {
        unsigned n = below(CLIENTS);
        end_client(n);
        new_client(n);
    } else if (plan->spoil && one_in(2))
        plan->spoil(rng);
    else
        plan->mend();
    if ((plan->crash_one_in && one_in(plan->crash_one_in)) || (plan->is_cut && plan->is_cut()))
        crash(one_in(2));
}

static void set_up(unsigned tube, unsigned which, struct job_settings settings)
{
    struct ask *ask = ask_new(NULL, JOB_OP_SET_TUBE);
    ask_tube(ask, tube_names[tube]);
    ask->settings = settings;
    ask->settings.given = which;
    submit(ask);
    settle_all();
}

/* Deletes everything, and sees that nothing is left. */
static void finish(void)
{
    struct jobs_stats stats;
    unsigned rounds = 0;
    if (plan->is_cut && plan->is_cut())
        crash(true);
    jobs_set_memory_limit(rig.jobs, UINT64_MAX);
    plan->mend();
    for (unsigned n = 0; n < CLIENTS; n++)
        end_client(n);
    do {
        rig_pass(70);
        settle_all();
        for (uint64_t id = 1; id <= last_id; id++) {
            if (promises[id].fate != THERE)
                continue;
            submit(ask_act(NULL, JOB_DELETE, id));
            settle_all();
        }
        jobs_get_stats(rig.jobs, &stats);
        REQUIRE(++rounds < 20);
    } while (stats.states[JOB_READY] + stats.states[JOB_RESERVED] + stats.states[JOB_DELAYED] +
                 stats.states[JOB_BURIED] + stats.states[JOB_ABANDONED] >
             0);
    for (unsigned n = 0; n < TUBES; n++)
        set_up(n, (1u << JOB_SETTINGS) - 1, job_default_settings);
    rig_pass(70);
    settle_all();
    jobs_get_stats(rig.jobs, &stats);
    if (stats.memory != rig.empty)
        ck_abort_msg("%" PRIu64 " bytes are left", stats.memory - rig.empty);
    rig_close();
}

void world_run(const struct world_plan *of, struct rng *random)
{
    plan = of;
    rng = random;
    memset(promises, 0, sizeof(promises));
    memset(newest_roots, 0, sizeof(newest_roots));
    last_id = 0;
    ask_count = 0;
    damaged = 0;
    rig_many_watches = one_in(2) ? 1 : TUBES;
    rig_log_bytes = 4096u << below(8);
    rig_begin(plan->kind, plan->path);
    rig.on_damage = note_damage;
    set_up(TRIES, 1u << JOB_SETTING_TRIES | 1u << JOB_SETTING_PRUNE,
           (struct job_settings){.is[JOB_SETTING_TRIES] = 2, .is[JOB_SETTING_PRUNE] = 200});
    set_up(LEASE, 1u << JOB_SETTING_CLAIM,
           (struct job_settings){.is[JOB_SETTING_CLAIM] = JOB_CLAIM_LEASE});
    if (plan->memory > 0)
        rig.config.memory_limit = plan->memory;
    if (plan->memory > 0)
        jobs_set_memory_limit(rig.jobs, plan->memory);
    for (unsigned n = 0; n < CLIENTS; n++)
        new_client(n);
    plan->begin();
    for (unsigned n = 0; n < plan->steps; n++)
        step();
    finish();
}
