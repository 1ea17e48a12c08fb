/* pools_world.c - see pools_world.h. */
#include "t/models/pools_world.h"

#include "t/unit/engine/faults.h"
#include "t/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGES = 3 * M_CLIENTS, INTERVAL = 100 };

struct world_config config;
struct table *table;
struct pools *pools;
struct pool_outbox outbox;
struct holder others[OTHERS];
uint32_t next_id;
uint64_t next_tag;

static struct mail *messages[MESSAGES];
static unsigned message_count;
static uint64_t position;
static unsigned late_holds; /* that the log was told of */
static uint32_t other_units[OTHERS][M_POOLS];

static void hear_late(void *arg, const struct pool_event *event, int64_t held_ns)
{
    (void)arg;
    AGREE(event->late && held_ns > 0);
    late_holds += !is_deaf;
}

const struct pool_hooks hooks = {hear_event, hear_late};

/* ---- messages -------------------------------------------------------------------------------- */

static bool has_message(const struct pool_client *client)
{
    for (unsigned n = 0; n < message_count; n++) {
        if (pool_client_of(messages[n]) == client)
            return true;
    }
    return false;
}

/* Keeps the messages of a call; the observer reads at once. */
static void collect_messages(void)
{
    struct mail *mail;
    while ((mail = mail_list_take(&outbox.clients)) != NULL) {
        struct pool_client *client = pool_client_of(mail);
        AGREE(!has_message(client));
        if (client == observer.real) {
            AGREE(pool_client_message(client));
            hear_as(&observer);
            pool_client_read(client, &hearer, 0, model_now, &outbox);
            continue;
        }
        AGREE(message_count < MESSAGES);
        messages[message_count++] = mail;
    }
    AGREE(mail_list_take(&outbox.woken) == NULL);
}

static void check_messages(void)
{
    for (int c = 0; c < M_CLIENTS; c++)
        AGREE(!sides[c].real || !model_has_news(c) || has_message(sides[c].real));
}

/* What a call has done is as the model says. */
void done(void)
{
    fault_dice = NULL;
    collect_messages();
    model_done();
    AGREE(late_holds == 0 || model_timely);
    late_holds = 0;
    check_messages();
}

/* ---- steps ----------------------------------------------------------------------------------- */

#define DOING(...) ((void)snprintf(model_doing, sizeof(model_doing), __VA_ARGS__))

static bool dice(void)
{
    return one_in(10);
}

static unsigned long faults_before;

/* From now on, allocations may fail. */
static void faults_begin(void)
{
    faults_before = faults;
    if (config.faulty)
        fault_dice = dice;
}

/* True if the call has failed for want of memory, so that nothing may have changed. */
static bool failed(enum pool_status status)
{
    fault_dice = NULL;
    if (status != POOL_NO_MEMORY)
        return false;
    AGREE(faults > faults_before);
    return true;
}

static int some_client(void)
{
    int c = (int)below(config.clients);
    for (unsigned n = 0; n < config.clients; n++) {
        if (sides[c].real)
            return c;
        c = (c + 1) % (int)config.clients;
    }
    return M_NOBODY;
}

/* Makes a call and the model's; the engine may lack memory, and then nothing has changed. */
#define BOTH(real_call, model_call)                                                                \
    do {                                                                                           \
        faults_begin();                                                                            \
        enum pool_status status = real_call;                                                       \
        if (!failed(status))                                                                       \
            AGREE(status == model_call);                                                           \
    } while (0)

static void step_pool_add(void)
{
    int p = (int)below(config.pools);
    struct pool_options o = random_pool_options(below(2), config.members);
    bool of_file = one_in(3);
    DOING("pool add %d kind %u max %u order %u", p, o.kind, o.max, o.order);
    BOTH(pool_add(pools, pool_at(p), &o, of_file, model_now, &outbox),
         model_pool_add(p, &o, of_file));
}

static void step_pool_set(void)
{
    int p = some_pool();
    struct pool_options o = random_pool_options(model_pools[p].options.kind, config.members);
    if (one_in(2) && model_pools[p].there) { /* only one option is new */
        struct pool_options was = model_pools[p].options;
        unsigned which = below(8);
        was.max = which == 0 ? o.max : was.max;
        was.order = which == 1 ? o.order : was.order;
        was.queue_max = which == 2 ? o.queue_max : was.queue_max;
        was.overtakes = which == 3 ? o.overtakes : was.overtakes;
        was.max_lifetime_ns = which == 4 ? o.max_lifetime_ns : was.max_lifetime_ns;
        was.lifetime_jitter_ns = which == 4 ? o.lifetime_jitter_ns : was.lifetime_jitter_ns;
        was.min_free = which == 5 ? o.min_free : was.min_free;
        was.hold_max_ns = which == 6 ? o.hold_max_ns : was.hold_max_ns;
        was.cull_after_ns = which == 7 ? o.cull_after_ns : was.cull_after_ns;
        o = was;
    }
    bool of_file = one_in(4);
    if (one_in(50))
        o.kind = !o.kind;
    DOING("pool set %d max %u order %u queue %u overtakes %u%s", p, o.max, o.order, o.queue_max,
          o.overtakes, of_file ? " by the file" : "");
    BOTH(pool_set(pools, pool_at(p), &o, of_file, model_now, &outbox),
         model_pool_set(p, &o, of_file));
}

static void step_pool_drop(void)
{
    int p = (int)below(config.pools);
    bool at_once = one_in(2);
    DOING("pool drop %d%s", p, at_once ? " now" : "");
    faults_begin();
    enum pool_status status = pool_drop(pools, pool_at(p), at_once, model_now, &outbox);
    fault_dice = NULL;
    AGREE(status == model_pool_drop(p, at_once));
}

/* A new member, as the engine gets it. */
static struct pool_new_member real_new(const struct m_new_member *new, struct pool_attribute *at)
{
    return (struct pool_new_member){
        .pool = pool_at(new->pool),
        .name = member_at(new->member),
        .value = text_at(new->value),
        .note = text_at(new->note),
        .attributes = at,
        .attribute_count = put_attributes(new->sets, new->attributes, at),
        .down = new->down,
    };
}

static void step_member_add(void)
{
    struct pool_attribute at[M_KEYS];
    struct m_new_member new = random_new(some_pool());
    new.down = one_in(5);
    new.note = new.down ? below(3) : 0;
    struct pool_new_member real = real_new(&new, at);
    DOING("member add %d %d%s", new.pool, new.member, new.down ? " down" : "");
    BOTH(pool_member_add(pools, &real, model_now, &outbox), model_member_add(&new));
}

static void step_join(void)
{
    int c = some_client();
    struct pool_attribute at[M_KEYS];
    struct m_new_member new = random_new(some_pool());
    struct pool_new_member real = real_new(&new, at);
    DOING("client %d joins %d %d", c, new.pool, new.member);
    if (c != M_NOBODY)
        BOTH(pool_join(sides[c].real, &real, model_now, &outbox), model_join(c, &new));
}

static void step_member_set(void)
{
    struct pool_attribute at[M_KEYS];
    struct m_change change = random_change();
    struct pool_member_change real = {
        .pool = pool_at(change.pool),
        .name = member_at(change.member),
        .attributes = at,
        .attribute_count = put_attributes(change.sets, change.attributes, at),
        .sets_value = change.sets_value,
        .sets_note = change.sets_note,
        .sets_state = change.sets_state,
        .value = text_at(change.value),
        .note = text_at(change.note),
        .state = change.state,
        .now = change.now,
    };
    DOING("member set %d %d%s%s%s", change.pool, change.member, change.sets_state ? " state=" : "",
          change.sets_state ? pool_state_word(change.state) : "", change.now ? " now" : "");
    BOTH(pool_member_set(pools, &real, model_now, &outbox), model_member_set(&change));
}

static void step_member_drop(void)
{
    int p = some_pool(), i = some_member(p), c = one_in(2) ? some_client() : M_NOBODY;
    const struct m_member *m = &model_pools[p].members[i];
    bool own_only = one_in(3), at_once = one_in(2);
    if (m->there && m->joiner != M_NOBODY && one_in(2))
        c = m->joiner;
    DOING("client %d drops member %d %d%s", c, p, i, at_once ? " now" : "");
    faults_begin();
    enum pool_status status =
        pool_member_drop(pools, c == M_NOBODY ? NULL : sides[c].real, own_only, pool_at(p),
                         member_at(i), at_once, model_now, &outbox);
    fault_dice = NULL;
    AGREE(status == model_member_drop(c, own_only, p, i, at_once));
}

static void step_declare(void)
{
    int p = some_pool();
    struct pool_new_member real[M_MEMBERS];
    struct m_new_member new[M_MEMBERS];
    static struct pool_attribute at[M_MEMBERS][M_KEYS];
    unsigned count = 0;
    struct pool_changes changes;
    if (!model_pools[p].there || model_pools[p].draining ||
        model_pools[p].options.kind != POOL_STATIC)
        return;
    for (int i = 0; i < (int)config.members; i++) {
        if (one_in(2))
            continue;
        new[count] = random_new(p);
        new[count].member = i;
        new[count].down = one_in(4);
        real[count] = real_new(&new[count], at[count]);
        count++;
    }
    DOING("declare %u members of %d", count, p);
    if (model_waiting(p, true, true) == 0) /* else the model would have to hand on in between */
        faults_begin();
    enum pool_status status =
        pool_declare(pools, pool_at(p), real, count, &changes, model_now, &outbox);
    bool again = failed(status);
    if (again) /* what was done stays, and the rest follows */
        status = pool_declare(pools, pool_at(p), real, count, &changes, model_now, &outbox);
    AGREE(status == POOL_OK);
    struct pool_changes expected = model_declare(p, new, count);
    AGREE(again || memcmp(&changes, &expected, sizeof(changes)) == 0);
}

static void step_supply(void)
{
    int c = some_client(), p = some_pool();
    uint32_t init, max;
    random_supply(&init, &max);
    DOING("client %d supplies %d: %u to %u", c, p, init, max);
    if (c != M_NOBODY)
        BOTH(pool_supply(sides[c].real, pool_at(p), init, max, model_now, &outbox),
             model_supply(c, p, init, max));
}

static void step_watch(void)
{
    int c = some_client(), p = one_in(3) ? M_NOBODY : some_pool();
    bool mine = one_in(2);
    DOING("client %d watches %d", c, p);
    if (c != M_NOBODY)
        BOTH(pool_watch(sides[c].real, p == M_NOBODY ? bytes_of("*") : pool_at(p), mine),
             model_watch(c, p, mine));
}

/* Where the next line of a client goes. */
static uint64_t next_position(void)
{
    position += below(5);
    return one_in(6) ? POOL_POSITION_LATER : position;
}

static void read_client(int c)
{
    struct m_news news;
    uint64_t at = next_position();
    DOING("client %d reads", c);
    hear_as(&sides[c]);
    faults_begin();
    pool_client_read(sides[c].real, &hearer, at, model_now, &outbox);
    fault_dice = NULL;
    model_read(c, at, &news);
    compare_news(c, &news, true);
}

static void step_read(void)
{
    int c = some_client();
    if (c != M_NOBODY)
        read_client(c);
}

/* A message arrives. */
static void deliver(unsigned n)
{
    struct pool_client *client = pool_client_of(messages[n]);
    messages[n] = messages[--message_count];
    int c = 0;
    while (c < M_CLIENTS && sides[c].real != client)
        c++;
    AGREE(pool_client_message(client) == (c < M_CLIENTS));
    if (c < M_CLIENTS)
        read_client(c);
}

static void step_message(void)
{
    DOING("a message arrives");
    if (message_count > 0)
        deliver(below(message_count));
}

static void step_position(void)
{
    int c = some_client();
    if (c == M_NOBODY)
        return;
    struct m_client *client = &model_clients[c];
    DOING("client %d has written its answer", c);
    position += below(5);
    pool_client_position(sides[c].real, position);
    for (unsigned k = 0; k < client->hold_count; k++) {
        if (client->holds[k].position == POOL_POSITION_LATER)
            client->holds[k].position = position;
    }
}

struct pool_take real_take(const struct m_take *take)
{
    static struct pool_attribute with[M_KEYS];
    static struct bytes targets[M_TARGETS];
    struct pool_take real = {
        .targets = targets,
        .target_count = take->target_count,
        .group = take->group != NULL,
        .count = take->ask.count,
        .what = take->ask.what,
        .by = text_at(take->ask.by),
        .with = with,
        .timeout_ns = take->timeout_ns,
    };
    if (take->group)
        targets[real.target_count++] = bytes_of(take->group);
    for (unsigned n = 0; n < take->target_count; n++)
        targets[n] = pool_at(take->targets[n]);
    for (int k = 0; k < M_KEYS; k++) {
        if (take->ask.with[k] != M_NOBODY)
            with[real.with_count++] = (struct pool_attribute){
                bytes_of(attribute_keys[k]), bytes_of(attribute_values[take->ask.with[k]])};
    }
    if (take->ask.member != M_NOBODY)
        real.member = member_at(take->ask.member);
    return real;
}

static void step_take(void)
{
    int c = some_client();
    struct m_take take = random_take(one_in(3) ? 0 : 1 + below(1000));
    struct pool_take real = real_take(&take);
    if (c == M_NOBODY || model_clients[c].wait.state == M_IN_LINE)
        return;
    if (model_clients[c].wait.state != M_NO_WAIT) {
        read_client(c);
        done();
    }
    uint64_t at = next_position();
    DOING("client %d takes %u for %s of %s%d (%u targets), member %d%s", c, take.ask.count,
          pool_for_word(take.ask.what), take.group ? take.group : "", take.targets[0],
          take.target_count, take.ask.member, take.timeout_ns ? ", waits" : "");
    hear_as(&sides[c]);
    faults_begin();
    enum pool_status status = pool_take(sides[c].real, &real, &hearer, at, model_now, &outbox);
    if (failed(status)) {
        AGREE(heard.order[0] == '\0');
        return;
    }
    AGREE(status == model_take(c, &take, at));
    compare_taken(c, status == POOL_OK ? take.ask.count : 0);
}

static void step_return(void)
{
    int c = some_client();
    for (unsigned n = 0; n < config.clients && c != M_NOBODY && !model_clients[c].hold_count; n++)
        c = some_client();
    if (c == M_NOBODY)
        return;
    const struct m_client *client = &model_clients[c];
    uint64_t fence = 0;
    bool ok = !one_in(3);
    if (client->hold_count > 0 && one_in(2))
        fence = client->holds[below(client->hold_count)].fence;
    else if (one_in(10))
        fence = model_fence - below(3);
    DOING("client %d returns %" PRIu64 " %s", c, fence, ok ? "ok" : "fail");
    faults_begin();
    enum pool_status status = pool_return(sides[c].real, fence, ok, model_now, &outbox);
    fault_dice = NULL;
    AGREE(status == model_return(c, fence, ok));
}

static void step_end_wait(void)
{
    int c = some_client();
    for (unsigned n = 0;
         n < config.clients && c != M_NOBODY && model_clients[c].wait.state == M_NO_WAIT; n++)
        c = some_client();
    if (c == M_NOBODY || model_clients[c].wait.state == M_NO_WAIT)
        return;
    bool timed_out = one_in(2);
    DOING("client %d ends its wait", c);
    faults_begin();
    bool ended = pool_end_wait(sides[c].real, timed_out, model_now, &outbox);
    fault_dice = NULL;
    AGREE(ended == model_end_wait(c, timed_out));
}

static uint64_t cut; /* output before it was written */

static bool is_written(void *owner, uint64_t at)
{
    AGREE(owner == heard.side);
    return at < cut;
}

static void end_client(int c)
{
    bool quits = one_in(2);
    cut = one_in(2) ? position + 1 : position - below(10);
    DOING("client %d %s", c, quits ? "quits" : "crashes");
    hear_as(&sides[c]);
    faults_begin();
    pool_client_end(sides[c].real, quits ? POOL_END_QUIT : POOL_END_CRASH, is_written, model_now,
                    &outbox);
    fault_dice = NULL;
    sides[c].real = NULL;
    model_client_end(c, quits, cut);
}

static void begin_client(int c)
{
    DOING("client %d begins", c);
    next_tag++;
    faults_begin();
    sides[c].real = pool_client_new(pools, next_id++, next_tag, &sides[c]);
    fault_dice = NULL;
    AGREE(sides[c].real || faults > faults_before);
    if (sides[c].real) {
        sides[c].tag = next_tag;
        model_client_new(c, next_tag);
    }
}

static void step_client(void)
{
    int c = (int)below(config.clients);
    if (!sides[c].real)
        begin_client(c);
    else if (one_in(3))
        end_client(c);
}

/* Others acquire and release units of the same counters. */
static void step_others(void)
{
    unsigned k = below(OTHERS);
    int p = (int)below(config.pools);
    DOING("others use the counter of %d", p);
    if (other_units[k][p] > 0 && one_in(2)) {
        struct release r = {.name = bytes_of(pool_counters[p]), .units = other_units[k][p]};
        AGREE(table_release(table, &others[k], &r, model_now, NULL, &outbox.woken) == TABLE_OK);
        units_of_others[p] -= other_units[k][p];
        other_units[k][p] = 0;
        return;
    }
    uint32_t consumption = 0;
    (void)!table_get(table, bytes_of(pool_counters[p]), model_now, &consumption);
    struct acquire a = {.name = bytes_of(pool_counters[p]),
                        .units = 1 + below(3),
                        .limit = UINT32_MAX,
                        .keep = one_in(2)};
    if (config.full_sums)
        a.units = UINT32_MAX - consumption - below(3);
    if (a.units == 0 || a.units > UINT32_MAX - consumption)
        return;
    AGREE(table_acquire(table, &others[k], &a, model_now, NULL, NULL) == TABLE_OK);
    other_units[k][p] += a.units;
    units_of_others[p] += a.units;
}

static void run(void)
{
    unsigned times = 0;
    DOING("time %" PRId64 " has come", model_now.mono_ns);
    while (pools_next_ns(pools) <= model_now.mono_ns) {
        AGREE(++times < 1000);
        faults_begin();
        pools_run(pools, model_now, &outbox);
        fault_dice = NULL;
    }
    model_run();
    model_now.mono_ns -= NS_PER_S; /* within a second of its time a member is culled */
    for (int p = 0; p < (int)config.pools; p++) {
        for (int i = 0; i < (int)config.members; i++)
            AGREE(!model_is_idle(p, i));
    }
    model_now.mono_ns += NS_PER_S;
}

static void step_time(void)
{
    int64_t next_ns = pools_next_ns(pools);
    if (one_in(3) && next_ns != INT64_MAX && next_ns > model_now.mono_ns)
        model_now.mono_ns = next_ns - one_in(2);
    else if (one_in(4))
        model_now.mono_ns += (int64_t)below(60) * NS_PER_S;
    else
        model_now.mono_ns += below((uint32_t)NS_PER_S);
    if (one_in(10))
        model_now.unix_s += below(INTERVAL);
    if (!one_in(5))
        run();
}

static void step_limits(void)
{
    DOING("other limits");
    model_limits.members_max = 1 + below(config.members + 2);
    model_limits.taken_max = 1 + below(M_TAKEN);
    model_limits.pools_max = 1 + below(M_POOLS);
    model_limits.watchers_max = 1 + below(5);
    pools_set_limits(pools, &model_limits, model_now, &outbox);
}

static const struct {
    unsigned times; /* in a thousand */
    void (*step)(void);
} steps[] = {
    {300, step_take},    {190, step_return},    {130, step_message},    {30, step_read},
    {30, step_end_wait}, {60, step_client},     {70, step_time},        {40, step_member_add},
    {50, step_join},     {30, step_member_set}, {20, step_member_drop}, {10, step_supply},
    {10, step_pool_add}, {8, step_pool_set},    {2, step_pool_drop},    {6, step_watch},
    {2, step_declare},   {5, step_others},      {5, step_position},     {2, step_limits},
};

void world_step(void)
{
    uint32_t what = below(1000), k = 0;
    model_timely = false;
    while (k + 1 < ARRAY_SIZE(steps) && what >= steps[k].times)
        what -= steps[k++].times;
    if (one_in(3))
        model_now.mono_ns += below((uint32_t)NS_PER_MS * 100);
    steps[k].step();
    done();
    if (config.full_sums)
        compare_note_sums();
    if (config.checks < 2 || one_in(config.checks))
        compare_all();
    if (one_in(50))
        table_check(table);
    model_step++;
}

/* Every client reads all its news, as before an upgrade. */
void world_read_all(void)
{
    while (message_count > 0) {
        deliver(0);
        done();
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

struct table *new_table(void)
{
    return table_new(&(struct table_config){
        .buckets = below(300),
        .memory_limit = (size_t)4 << 20,
        .stats_interval_s = INTERVAL,
        .hash_key = {.k0 = rng_next(&model_random), .k1 = rng_next(&model_random)},
    });
}

struct pools *new_pools(struct table *of, const struct pools_limits *limits, uint64_t first_fence)
{
    struct pools_config pools_config = {
        .table = of,
        .limits = *limits,
        .first_fence = first_fence,
        .seed = rng_next(&model_random),
        .hooks = &hooks,
    };
    return pools_new(&pools_config);
}

struct world_config world_random(void)
{
    bool large = one_in(4);
    return (struct world_config){
        .pools = large ? M_POOLS : 1 + below(3),
        .members = large ? M_MEMBERS : 1 + below(6),
        .clients = large ? M_CLIENTS : 2 + below(6),
        .full_sums = one_in(10),
        .checks = large ? 10 : 1,
    };
}

void world_start(const struct world_config *new_config)
{
    config = *new_config;
    compare_make_names();
    compare_start();
    struct pools_limits limits = {M_POOLS, M_MEMBERS, M_CLIENTS, M_TAKEN};
    uint64_t first_fence = UINT64_C(1700000000000000) + below(1000);
    model_now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1000 * INTERVAL};
    table = new_table();
    AGREE(table != NULL);
    model_start(&limits, first_fence);
    pools = new_pools(table, &limits, first_fence);
    AGREE(pools != NULL);
    last_event = 0;
    pool_outbox_init(&outbox);
    memset(other_units, 0, sizeof(other_units));
    next_tag = 1000;
    next_id = 1;
    position = 1000;
    message_count = 0;
    for (unsigned k = 0; k < OTHERS; k++)
        holder_init(&others[k], next_id++, k);
    observer.tag = next_tag;
    observer.real = pool_client_new(pools, next_id++, next_tag, &observer);
    AGREE(observer.real && pool_watch(observer.real, bytes_of("*"), false) == POOL_OK);
}

void world_end(void)
{
    model_timely = false;
    for (int c; (c = some_client()) != M_NOBODY;) {
        end_client(c);
        done();
        compare_all();
    }
    while (message_count > 0)
        deliver(below(message_count));
    for (int p = 0; p < M_POOLS; p++) {
        AGREE(held_by(M_NOBODY, p) == 0 && model_waiting(p, true, true) == 0);
        for (unsigned k = 0; k < OTHERS; k++)
            other_units[k][p] = 0;
        units_of_others[p] = 0;
    }
    for (unsigned k = 0; k < OTHERS; k++)
        table_close(table, &others[k], model_now, NULL, &outbox.woken);
    compare_all();
    struct table_stats stats;
    table_get_stats(table, model_now, &stats);
    AGREE(stats.units == 0 && stats.holdings == 0 && stats.waiting == 0);
    hear_as(&observer);
    pool_client_end(observer.real, POOL_END_CRASH, is_written, model_now, &outbox);
    if (one_in(2)) {
        for (int p = 0; p < M_POOLS; p++)
            (void)!pool_drop(pools, pool_at(p), one_in(2), model_now, &outbox);
        struct pools_sums sums;
        pools_sums(pools, &sums);
        AGREE(sums.pools == 0 && sums.members == 0);
    }
    pools_free(&pools);
    table_check(table);
    table_free(&table);
}

unsigned long world_faults(void)
{
    return faults;
}
