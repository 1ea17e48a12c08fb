/* pool_world.c - see pool_world.h. */
#include "t/unit/engine/pool_world.h"

#include "engine/pool_inside.h"
#include "engine/state.h"
#include "t/unit/engine/faults.h"
#include "t/unit/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define INTERVAL 100L
enum { OTHERS = 2, LETTERS = 3 * M_CLIENTS };

/* Sections of a record, beside those of the table and the pools. */
enum { SECTION_OTHERS = 0x7001, SECTION_CLIENT };

static struct world_config config;
static struct table *table;
static struct pools *pools;
static struct mail *letters[LETTERS];
static unsigned letter_count;
static struct pool_effects effects;
static uint64_t next_tag, position;
static uint32_t next_id;
static unsigned late_holds; /* that the log was told of */
static struct holder others[OTHERS];
static uint32_t other_units[OTHERS][M_POOLS];

static struct rng *const rng = &model_random;

static uint32_t below(uint32_t bound)
{
    return rng_below(rng, bound);
}

static bool one_in(uint32_t n)
{
    return rng_one_in(rng, n);
}

void model_fails(const char *what)
{
    ck_abort_msg("%s", what);
}

static void hear_late(void *arg, const struct pool_event *event, int64_t held_ns)
{
    (void)arg;
    AGREE(event->late && held_ns > 0);
    late_holds += !is_deaf;
}

static const struct pool_hooks hooks = {hear_event, hear_late};

/* ---- letters ------------------------------------------------------------------------------- */

static bool has_letter(const struct pool_client *client)
{
    for (unsigned n = 0; n < letter_count; n++) {
        if (pool_client_of(letters[n]) == client)
            return true;
    }
    return false;
}

/* Keeps the letters of a call; the observer reads at once. */
static void collect_letters(void)
{
    struct mail *mail;
    while ((mail = mail_list_take(&effects.clients)) != NULL) {
        struct pool_client *client = pool_client_of(mail);
        AGREE(!has_letter(client));
        if (client == observer.real) {
            AGREE(pool_client_letter(client));
            hear_as(&observer);
            pool_client_read(client, &hearer, 0, model_now, &effects);
            continue;
        }
        AGREE(letter_count < LETTERS);
        letters[letter_count++] = mail;
    }
    AGREE(mail_list_take(&effects.woken) == NULL);
}

static void check_letters(void)
{
    for (int c = 0; c < M_CLIENTS; c++)
        AGREE(!sides[c].real || !model_has_news(c) || has_letter(sides[c].real));
}

/* What a call has done is as the model says. */
static void done(void)
{
    fault_dice = NULL;
    collect_letters();
    model_done();
    AGREE(late_holds == 0 || model_timely);
    late_holds = 0;
    check_letters();
}

/* ---- steps --------------------------------------------------------------------------------- */

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

static int random_pool(void)
{
    return (int)below(config.pools);
}

/* Mostly one that is there. */
static int some_pool(void)
{
    int p = random_pool();
    for (unsigned n = 0; n < config.pools && !model_pools[p].there && !one_in(20); n++)
        p = (p + 1) % (int)config.pools;
    return p;
}

static int random_member(void)
{
    return (int)below(config.members);
}

/* Mostly one that is there. */
static int some_member(int p)
{
    int i = random_member();
    for (unsigned n = 0; n < config.members && !model_pools[p].members[i].there && !one_in(20); n++)
        i = (i + 1) % (int)config.members;
    return i;
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

static void add_pool(int p, const struct pool_options *o, bool of_file)
{
    DOING("pool add %d kind %u max %u order %u", p, o->kind, o->max, o->order);
    faults_begin();
    enum pool_status status = pool_add(pools, pool_at(p), o, of_file, model_now, &effects);
    if (failed(status))
        return;
    AGREE(status == model_pool_add(p, o, of_file));
}

static void step_pool_add(void)
{
    int p = random_pool();
    struct pool_options o = random_pool_options(below(2), config.members);
    add_pool(p, &o, one_in(3));
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
    faults_begin();
    enum pool_status status = pool_set(pools, pool_at(p), &o, of_file, model_now, &effects);
    if (failed(status))
        return;
    AGREE(status == model_pool_set(p, &o, of_file));
}

static void step_pool_drop(void)
{
    int p = random_pool();
    bool at_once = one_in(2);
    DOING("pool drop %d%s", p, at_once ? " now" : "");
    faults_begin();
    enum pool_status status = pool_drop(pools, pool_at(p), at_once, model_now, &effects);
    fault_dice = NULL;
    AGREE(status == model_pool_drop(p, at_once));
}

static struct pool_attribute attribute_room[M_MEMBERS][M_KEYS];

/* A new member, for the model and for the engine. */
static struct m_new_member random_new(int p, int i, struct pool_new_member *real_r)
{
    struct pool_attribute *at = attribute_room[i];
    struct m_new_member new = {.pool = p, .member = i, .value = below(4)};
    *real_r = (struct pool_new_member){
        .pool = pool_at(p), .name = member_at(i), .value = text_at(new.value), .attributes = at};
    for (int k = 0; k < M_KEYS; k++) {
        new.attributes[k] = below(M_VALUES);
        if (new.attributes[k] > 0 || one_in(4))
            at[real_r->attribute_count++] = (struct pool_attribute){
                bytes_of(attribute_keys[k]), bytes_of(attribute_values[new.attributes[k]])};
    }
    return new;
}

static void step_member_add(void)
{
    struct pool_new_member real;
    struct m_new_member new = random_new(some_pool(), random_member(), &real);
    if (one_in(5)) {
        real.down = new.down = true;
        new.note = below(3);
        real.note = text_at(new.note);
    }
    DOING("member add %d %d%s", new.pool, new.member, new.down ? " down" : "");
    faults_begin();
    enum pool_status status = pool_member_add(pools, &real, model_now, &effects);
    if (failed(status))
        return;
    AGREE(status == model_member_add(&new));
}

static void join(int c, int p, int i)
{
    struct pool_new_member real;
    struct m_new_member new = random_new(p, i, &real);
    DOING("client %d joins %d %d", c, p, i);
    faults_begin();
    enum pool_status status = pool_join(sides[c].real, &real, model_now, &effects);
    if (failed(status))
        return;
    AGREE(status == model_join(c, &new));
}

static void step_join(void)
{
    int c = some_client();
    if (c != M_NOBODY)
        join(c, some_pool(), random_member());
}

static void step_member_set(void)
{
    static const enum pool_state states[] = {MEMBER_FREE, MEMBER_DOWN, MEMBER_DIRTY, MEMBER_GONE};
    int p = some_pool();
    struct m_change change = {.pool = p, .member = some_member(p), .now = one_in(2)};
    struct pool_attribute at[M_KEYS];
    struct pool_member_change real = {
        .pool = pool_at(p), .name = member_at(change.member), .attributes = at, .now = change.now};
    for (int k = 0; k < M_KEYS; k++) {
        change.sets[k] = one_in(4);
        change.attributes[k] = below(M_VALUES);
        if (change.sets[k])
            at[real.attribute_count++] = (struct pool_attribute){
                bytes_of(attribute_keys[k]), bytes_of(attribute_values[change.attributes[k]])};
    }
    real.sets_value = change.sets_value = one_in(4);
    real.sets_note = change.sets_note = one_in(4);
    real.sets_state = change.sets_state = !one_in(3);
    real.value = text_at(change.value = below(4));
    real.note = text_at(change.note = below(3));
    real.state = change.state = states[one_in(20) ? 3 : below(3)];
    DOING("member set %d %d%s%s%s", p, change.member, change.sets_state ? " state=" : "",
          change.sets_state ? pool_state_word(change.state) : "", change.now ? " now" : "");
    faults_begin();
    enum pool_status status = pool_member_set(pools, &real, model_now, &effects);
    if (failed(status))
        return;
    AGREE(status == model_member_set(&change));
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
                         member_at(i), at_once, model_now, &effects);
    fault_dice = NULL;
    AGREE(status == model_member_drop(c, own_only, p, i, at_once));
}

static void step_declare(void)
{
    int p = some_pool();
    struct pool_new_member real[M_MEMBERS];
    struct m_new_member new[M_MEMBERS];
    unsigned count = 0;
    struct pool_changes changes;
    if (!model_pools[p].there || model_pools[p].draining ||
        model_pools[p].options.kind != POOL_STATIC)
        return;
    for (int i = 0; i < (int)config.members; i++) {
        if (one_in(2))
            continue;
        new[count] = random_new(p, i, &real[count]);
        if (one_in(4))
            real[count].down = new[count].down = true;
        count++;
    }
    DOING("declare %u members of %d", count, p);
    faults_begin();
    enum pool_status status =
        pool_declare(pools, pool_at(p), real, count, &changes, model_now, &effects);
    bool again = failed(status);
    if (again) /* what was done stays, and the rest follows */
        status = pool_declare(pools, pool_at(p), real, count, &changes, model_now, &effects);
    AGREE(status == POOL_OK);
    struct pool_changes expected = model_declare(p, new, count);
    AGREE(again || memcmp(&changes, &expected, sizeof(changes)) == 0);
}

static void step_supply(void)
{
    int c = some_client(), p = some_pool();
    uint32_t init = below(3), max = one_in(10) ? UINT32_MAX - below(3) : init + below(5);
    if (c == M_NOBODY)
        return;
    if (one_in(5))
        init = max = 0;
    DOING("client %d supplies %d: %u to %u", c, p, init, max);
    faults_begin();
    enum pool_status status =
        pool_supply(sides[c].real, pool_at(p), init, max, model_now, &effects);
    if (failed(status))
        return;
    AGREE(status == model_supply(c, p, init, max));
}

static void step_watch(void)
{
    int c = some_client(), p = one_in(3) ? M_NOBODY : some_pool();
    bool mine = one_in(2);
    if (c == M_NOBODY)
        return;
    DOING("client %d watches %d", c, p);
    faults_begin();
    enum pool_status status =
        pool_watch(sides[c].real, p == M_NOBODY ? bytes_of("*") : pool_at(p), mine);
    if (failed(status))
        return;
    AGREE(status == model_watch(c, p, mine));
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
    pool_client_read(sides[c].real, &hearer, at, model_now, &effects);
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

/* A letter arrives. */
static void deliver(unsigned n)
{
    struct pool_client *client = pool_client_of(letters[n]);
    letters[n] = letters[--letter_count];
    int c = 0;
    while (c < M_CLIENTS && sides[c].real != client)
        c++;
    AGREE(pool_client_letter(client) == (c < M_CLIENTS));
    if (c < M_CLIENTS)
        read_client(c);
}

static void step_letter(void)
{
    DOING("a letter arrives");
    if (letter_count > 0)
        deliver(below(letter_count));
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

static struct pool_attribute with_room[M_KEYS];
static struct bytes target_room[M_TARGETS];

/* A random request, for the model and for the engine. */
static struct m_take random_take(struct pool_take *real_r)
{
    struct m_take take = {.ask = {.count = 1, .member = M_NOBODY, .by = one_in(2) ? 0 : below(4)}};
    take.ask.what = one_in(4) ? POOL_FOR_CLEAN : one_in(5) ? POOL_FOR_CHECK : POOL_FOR_USE;
    take.timeout_ns = one_in(3) ? 0 : 1 + below(1000);
    *real_r = (struct pool_take){.targets = target_room, .with = with_room};
    if (one_in(5)) {
        take.group = group_names[1 + below(2)];
        target_room[real_r->target_count++] = bytes_of(take.group);
    } else {
        unsigned count = one_in(3) ? 1 + below(M_TARGETS) : 1;
        for (unsigned n = 0; n < count; n++) {
            int p = some_pool();
            bool twice = false;
            for (unsigned k = 0; k < take.target_count; k++)
                twice = twice || take.targets[k] == p;
            if (twice)
                continue;
            take.targets[take.target_count++] = p;
            target_room[real_r->target_count++] = pool_at(p);
        }
    }
    if (one_in(3))
        take.ask.count = 1 + below(4);
    for (int k = 0; k < M_KEYS; k++) {
        take.ask.with[k] = one_in(8) ? (int)below(M_VALUES) : M_NOBODY;
        if (take.ask.with[k] != M_NOBODY)
            with_room[real_r->with_count++] = (struct pool_attribute){
                bytes_of(attribute_keys[k]), bytes_of(attribute_values[take.ask.with[k]])};
    }
    if (take.target_count == 1 && take.ask.count == 1 && one_in(5)) {
        take.ask.member = some_member(take.targets[0]);
        real_r->member = member_at(take.ask.member);
    }
    real_r->group = take.group != NULL;
    real_r->count = take.ask.count;
    real_r->what = take.ask.what;
    real_r->by = text_at(take.ask.by);
    real_r->timeout_ns = take.timeout_ns;
    return take;
}

static void take_as(int c, const struct m_take *take, const struct pool_take *real)
{
    uint64_t at = next_position();
    DOING("client %d takes %u for %s of %s%d (%u targets), member %d%s", c, take->ask.count,
          pool_for_word(take->ask.what), take->group ? take->group : "", take->targets[0],
          take->target_count, take->ask.member, take->timeout_ns ? ", waits" : "");
    hear_as(&sides[c]);
    faults_begin();
    enum pool_status status = pool_take(sides[c].real, real, &hearer, at, model_now, &effects);
    if (failed(status)) {
        AGREE(heard.order[0] == '\0');
        return;
    }
    AGREE(status == model_take(c, take, at));
    compare_taken(c, status == POOL_OK ? take->ask.count : 0);
}

static void step_take(void)
{
    int c = some_client();
    struct pool_take real;
    struct m_take take = random_take(&real);
    if (c == M_NOBODY || model_clients[c].wait.state == M_IN_LINE)
        return;
    if (model_clients[c].wait.state != M_NO_WAIT) {
        read_client(c);
        done();
    }
    take_as(c, &take, &real);
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
    enum pool_status status = pool_return(sides[c].real, fence, ok, model_now, &effects);
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
    bool ended = pool_end_wait(sides[c].real, timed_out, model_now, &effects);
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
                    &effects);
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
        sides[c].owner = &sides[c];
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
    int p = random_pool();
    DOING("others use the counter of %d", p);
    if (other_units[k][p] > 0 && one_in(2)) {
        struct release r = {.name = bytes_of(pool_counters[p]), .units = other_units[k][p]};
        AGREE(table_release(table, &others[k], &r, model_now, NULL, &effects.woken) == TABLE_OK);
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
        pools_run(pools, model_now, &effects);
        fault_dice = NULL;
    }
    model_run();
    bool idle = false;
    for (int p = 0; p < (int)config.pools; p++) {
        for (int i = 0; i < (int)config.members; i++)
            idle = idle || model_is_idle(p, i);
    }
    AGREE(!idle || pools_next_ns(pools) <= model_now.mono_ns + NS_PER_S);
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
    pools_set_limits(pools, &model_limits, model_now, &effects);
}

static const struct {
    unsigned times; /* in a thousand */
    void (*step)(void);
} steps[] = {
    {300, step_take},    {190, step_return},    {130, step_letter},     {30, step_read},
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

/* ---- upgrades ------------------------------------------------------------------------------ */

/* All that a new process has. */
struct restored {
    struct table *table;
    struct pools *pools;
    struct pool_client *clients[M_CLIENTS + 1]; /* the last one is the observer's */
    struct holder others[OTHERS];
    bool table_is_whole;
};

static int64_t save_position(void *owner, uint64_t at)
{
    (void)owner;
    return (int64_t)at;
}

static uint64_t restore_position(void *owner, int64_t saved)
{
    (void)owner;
    return (uint64_t)saved;
}

/* Every client reads all its news, as before an upgrade. */
static void read_all(void)
{
    while (letter_count > 0) {
        deliver(0);
        done();
    }
}

static struct record_writer writer;

static void save_client(uint32_t number, const struct pool_client *client)
{
    record_begin(&writer, SECTION_CLIENT);
    record_put_u32(&writer, number);
    pool_client_save(client, &writer, save_position);
    record_end(&writer);
}

uint8_t *world_save(size_t *len_r, size_t *pools_at_r)
{
    read_all();
    int fd = memfd_create("pools", MFD_CLOEXEC);
    AGREE(fd >= 0);
    record_writer_init(&writer, fd);
    table_save(table, model_now, &writer);
    record_begin(&writer, SECTION_OTHERS);
    for (unsigned k = 0; k < OTHERS; k++)
        holder_save(table, &others[k], &writer);
    record_end(&writer);
    *pools_at_r = (size_t)writer.flushed + writer.used;
    pools_save(pools, model_now, &writer);
    for (uint32_t c = 0; c < M_CLIENTS; c++) {
        if (sides[c].real)
            save_client(c, sides[c].real);
    }
    save_client(M_CLIENTS, observer.real);
    AGREE(record_finish(&writer));
    off_t len = lseek(fd, 0, SEEK_END);
    AGREE(len > 0);
    *len_r = (size_t)len;
    uint8_t *bytes = malloc(*len_r);
    AGREE(bytes && pread(fd, bytes, *len_r, 0) == len);
    AGREE(close(fd) == 0);
    return bytes;
}

static struct table *new_table(void)
{
    return table_new(&(struct table_config){
        .buckets = below(300),
        .memory_limit = (size_t)4 << 20,
        .stats_interval_s = INTERVAL,
        .hash_key = {.k0 = rng_next(rng), .k1 = rng_next(rng)},
    });
}

static struct pools *new_pools(struct table *of, const struct pools_limits *limits,
                               uint64_t first_fence)
{
    struct pools_config pools_config = {
        .table = of,
        .limits = *limits,
        .first_fence = first_fence,
        .seed = rng_next(rng),
        .hooks = &hooks,
    };
    return pools_new(&pools_config);
}

/* Opens the next section, which must be of this kind. */
static bool enter(struct record_reader *r, uint32_t kind, struct record_reader *section)
{
    uint32_t got;
    if (!record_enter(r, &got, section)) {
        record_refuse(r, "a section is missing");
        return false;
    }
    if (got != kind)
        record_refuse(section, "another section was expected");
    return got == kind;
}

/* Reads the clients; each connection comes once. */
static bool restore_clients(struct restored *to, struct record_reader *r)
{
    struct record_reader section;
    while (record_left(r)) {
        if (!enter(r, SECTION_CLIENT, &section))
            return false;
        uint32_t c = record_get_u32(&section);
        if (c > M_CLIENTS || to->clients[c]) {
            record_refuse(r, "a connection is there twice");
            return false;
        }
        struct side *side = c == M_CLIENTS ? &observer : &sides[c];
        to->clients[c] =
            pool_client_restore(to->pools, next_id++, ++next_tag, side, &section, restore_position);
        record_leave(&section);
        if (!to->clients[c] || !record_ok(&section))
            return false;
    }
    return record_ok(r);
}

static bool restore_all(struct restored *to, struct record_reader *r, struct pool_effects *caused)
{
    struct record_reader section;
    if (!enter(r, STATE_TABLE, &section) || !table_restore(to->table, model_now, 1, &section))
        return false;
    if (!enter(r, SECTION_OTHERS, &section))
        return false;
    for (unsigned k = 0; k < OTHERS; k++) {
        holder_init(&to->others[k], next_id++, k);
        if (!holder_restore(to->table, &to->others[k], &section))
            return false;
    }
    if (!enter(r, POOLS_STATE, &section) || !pools_restore(to->pools, model_now, &section) ||
        !restore_clients(to, r) || !table_restore_done(to->table, r))
        return false;
    to->table_is_whole = true;
    if (!is_deaf) {
        pools = to->pools;
        compare_with(to->table, pools);
    }
    return pools_restore_done(to->pools, model_now, caused, r);
}

/* Ends the pools of the old process, which nobody hears. */
static void forget(struct restored *old)
{
    struct pool_effects none;
    pool_effects_init(&none);
    is_deaf = true;
    for (unsigned c = 0; c <= M_CLIENTS; c++) {
        if (old->clients[c])
            pool_client_end(old->clients[c], POOL_END_QUIT, NULL, model_now, &none);
    }
    for (struct mail *mail; (mail = mail_list_take(&none.clients)) != NULL;)
        AGREE(!pool_client_letter(pool_client_of(mail)));
    pools_free(&old->pools);
    for (unsigned k = 0; k < OTHERS; k++)
        table_close(old->table, &old->others[k], model_now, NULL, &none.woken);
    table_free(&old->table);
    is_deaf = false;
}

/* The model goes on with the new connections. */
static void adopt(const struct restored *new)
{
    table = new->table;
    memcpy(others, new->others, sizeof(others));
    for (uint32_t c = 0; c < M_CLIENTS; c++) {
        sides[c].real = new->clients[c];
        if (sides[c].real)
            model_clients[c].tag = sides[c].tag = pool_client_tag(sides[c].real);
    }
    observer.real = new->clients[M_CLIENTS];
    observer.tag = pool_client_tag(observer.real);
    model_upgrade();
}

void world_upgrade(void)
{
    size_t len, pools_at;
    struct restored old = {.table = table, .pools = pools}, new = {0};
    uint8_t *record = world_save(&len, &pools_at);
    DOING("an upgrade");
    for (unsigned c = 0; c < M_CLIENTS; c++)
        old.clients[c] = sides[c].real;
    old.clients[M_CLIENTS] = observer.real;
    memcpy(old.others, others, sizeof(others));
    new.table = new_table();
    AGREE(new.table);
    new.pools = new_pools(new.table, &model_limits, 1);
    AGREE(new.pools);
    struct record_reader r;
    record_reader_init(&r, record, len);
    if (!restore_all(&new, &r, &effects))
        ck_abort_msg("step %" PRIu64 ": not restored: %s", model_step, r.why);
    adopt(&new);
    done();
    forget(&old);
    free(record);
    compare_all();
    table_check(table);
}

/* ---- damaged records ----------------------------------------------------------------------- */

static void ignore_taken(void *owner, const struct pool_taken *taken)
{
    (void)owner;
    (void)taken;
}

static void ignore_refused(void *owner, enum pool_status why)
{
    (void)owner;
    (void)why;
}

static void ignore_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    (void)owner;
    (void)pool;
    (void)member;
    (void)why;
}

static bool ignore_want(void *owner, struct bytes pool, uint32_t want)
{
    (void)owner;
    (void)pool;
    (void)want;
    return true;
}

static bool ignore_events(void *owner)
{
    (void)owner;
    return true;
}

static const struct pool_reader ignorer = {ignore_taken, ignore_refused, ignore_stop, ignore_want,
                                           ignore_events};

static bool was_written(void *owner, uint64_t at)
{
    (void)owner;
    return at % 2 == 0;
}

static void read_letters(struct pool_effects *all, struct moment now)
{
    for (struct mail *mail; (mail = mail_list_take(&all->clients)) != NULL;) {
        struct pool_client *client = pool_client_of(mail);
        if (pool_client_letter(client))
            pool_client_read(client, &ignorer, 1, now, all);
    }
}

/* One call, whatever it does. */
static void try_call(struct restored *in, struct pool_client *client, struct moment now,
                     struct pool_effects *all)
{
    struct pool_take take;
    struct pool_options o;
    struct pool_new_member new;
    struct pool_member_change change = {.pool = pool_at(random_pool()),
                                        .name = member_at(random_member()),
                                        .sets_state = true,
                                        .state = MEMBER_FREE,
                                        .now = one_in(2)};
    switch (below(8)) {
    case 0:
    case 1:
        (void)random_take(&take);
        if (pool_client_looks(client)) {
            (void)!pool_take_on(client, &ignorer, 1, now, all);
            break;
        }
        if (pool_client_waits(client)) {
            pool_client_read(client, &ignorer, 1, now, all);
            if (pool_client_waits(client))
                (void)!pool_end_wait(client, true, now, all);
        }
        if (!pool_client_waits(client))
            (void)!pool_take(client, &take, &ignorer, 1, now, all);
        break;
    case 2:
    case 3:
        (void)!pool_return(client, 0, one_in(2), now, all);
        break;
    case 4:
        for (unsigned n = 0; n < 20 && pools_next_ns(in->pools) <= now.mono_ns; n++)
            pools_run(in->pools, now, all);
        break;
    case 5:
        (void)!pool_member_set(in->pools, &change, now, all);
        break;
    case 6:
        o = random_pool_options(below(2), config.members);
        (void)!pool_set(in->pools, pool_at(random_pool()), &o, one_in(2), now, all);
        break;
    case 7:
        (void)random_new(random_pool(), random_member(), &new);
        (void)!pool_join(client, &new, now, all);
        (void)!pool_member_drop(in->pools, client, one_in(2), new.pool, member_at(random_member()),
                                one_in(2), now, all);
        break;
    default:
        break;
    }
}

/* Uses restored pools, and ends their clients. */
static void try_calls(struct restored *in, struct pool_effects *all)
{
    struct moment now = model_now;
    for (unsigned n = 0; n < 60; n++) {
        struct pool_client *client = in->clients[below(M_CLIENTS + 1)];
        now.mono_ns += below((uint32_t)NS_PER_S);
        if (client)
            try_call(in, client, now, all);
        if (one_in(3))
            read_letters(all, now);
    }
    read_letters(all, now);
    for (unsigned c = 0; c <= M_CLIENTS; c++) {
        if (in->clients[c])
            pool_client_end(in->clients[c], one_in(2) ? POOL_END_QUIT : POOL_END_CRASH, was_written,
                            now, all);
        in->clients[c] = NULL;
        read_letters(all, now);
    }
    struct pools_sums sums;
    pools_sums(in->pools, &sums);
    AGREE(sums.held == 0 && sums.waiting == 0);
}

/* Tables that cannot be freed, because the units of their holders were not given back. */
enum { LOST = 10000 };
static struct table *lost_tables[LOST];
static unsigned lost_count;

bool world_try(const uint8_t *record, size_t len, const char **why_r)
{
    struct restored new = {.table = new_table()};
    struct record_reader r;
    struct pool_effects caused;
    AGREE(new.table);
    new.pools = new_pools(new.table, &model_limits, 1);
    AGREE(new.pools);
    record_reader_init(&r, record, len);
    is_deaf = true;
    pool_effects_init(&caused);
    bool restored = restore_all(&new, &r, &caused), whole = new.table_is_whole;
    *why_r = r.why;
    if (restored) {
        try_calls(&new, &caused);
        for (unsigned k = 0; k < OTHERS; k++)
            table_close(new.table, &new.others[k], model_now, NULL, &caused.woken);
    }
    pools_free(&new.pools);
    if (restored)
        table_check(new.table);
    if (restored || !whole)
        table_free(&new.table);
    else
        lost_tables[lost_count++ % LOST] = new.table; /* the process would have ended */
    is_deaf = false;
    return restored;
}

/* ---- beginning and end --------------------------------------------------------------------- */

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
    compare_faulty = config.faulty;
    struct pools_limits limits = {M_POOLS, M_MEMBERS, M_CLIENTS, M_TAKEN};
    uint64_t first_fence = UINT64_C(1700000000000000) + below(1000);
    model_now = (struct moment){.mono_ns = NS_PER_S, .unix_s = 1000 * INTERVAL};
    table = new_table();
    AGREE(table != NULL);
    model_start(&limits, first_fence);
    pools = new_pools(table, &limits, first_fence);
    AGREE(pools != NULL);
    compare_with(table, pools);
    pool_effects_init(&effects);
    memset(other_units, 0, sizeof(other_units));
    next_tag = 1000;
    next_id = 1;
    position = 1000;
    letter_count = 0;
    for (unsigned k = 0; k < OTHERS; k++)
        holder_init(&others[k], next_id++, k);
    observer.tag = next_tag;
    observer.owner = &observer;
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
    while (letter_count > 0)
        deliver(below(letter_count));
    for (int p = 0; p < M_POOLS; p++) {
        AGREE(held_by(M_NOBODY, p) == 0 && model_waiting(p, true, true) == 0);
        for (unsigned k = 0; k < OTHERS; k++)
            other_units[k][p] = 0;
        units_of_others[p] = 0;
    }
    for (unsigned k = 0; k < OTHERS; k++)
        table_close(table, &others[k], model_now, NULL, &effects.woken);
    compare_all();
    struct table_stats stats;
    table_get_stats(table, model_now, &stats);
    AGREE(stats.units == 0 && stats.holdings == 0 && stats.waiting == 0);
    hear_as(&observer);
    pool_client_end(observer.real, POOL_END_CRASH, is_written, model_now, &effects);
    if (one_in(2)) {
        for (int p = 0; p < M_POOLS; p++)
            (void)!pool_drop(pools, pool_at(p), one_in(2), model_now, &effects);
        struct pools_sums sums;
        pools_sums(pools, &sums);
        AGREE(sums.pools == 0 && sums.members == 0);
    }
    pools_free(&pools);
    table_check(table);
    table_free(&table);
}

/* ---- a case of its own --------------------------------------------------------------------- */

/* What each call of a case ends with. */
static void compare_case(void)
{
    done();
    compare_all();
}

/* A client takes so many members of the first pool, or this one (M_NOBODY: any). */
static void take_of_first(int c, uint32_t count, int i, int64_t timeout_ns)
{
    const struct m_ask any = {.with = {M_NOBODY, M_NOBODY, M_NOBODY}, .count = count, .member = i};
    struct m_take take = {.target_count = 1, .ask = any, .timeout_ns = timeout_ns};
    struct bytes pool = pool_at(0);
    struct pool_take real = {
        .targets = &pool, .target_count = 1, .count = count, .timeout_ns = timeout_ns};
    if (i != M_NOBODY)
        real.member = member_at(i);
    take_as(c, &take, &real);
    compare_case();
}

void world_overdue(bool in_line)
{
    enum { OWNER, CLOSER, NEWCOMER, CLIENTS };
    const struct world_config small = {.pools = 1, .members = 5, .clients = CLIENTS, .checks = 1};
    const struct pool_options o = {
        .kind = POOL_JOINED, .order = POOL_FIFO, .queue_max = 2, .max_lifetime_ns = 10};
    world_start(&small);
    add_pool(0, &o, false);
    compare_case();
    for (int c = 0; c < CLIENTS; c++) {
        begin_client(c);
        compare_case();
    }
    for (int i = 0; i < 4; i++) {
        join(OWNER, 0, i);
        compare_case();
        model_now.mono_ns++;
    }
    take_of_first(OWNER, 1, 3, 0);
    take_of_first(CLOSER, 4, M_NOBODY, NS_PER_S); /* closes 0, 1 and 2, as there are four */
    if (in_line)
        take_of_first(NEWCOMER, 1, M_NOBODY, NS_PER_S);
    model_now.mono_ns += 7; /* the lifetimes of 0 and 1 are over, and no timer has run */
    if (in_line)
        join(OWNER, 0, 4);
    else
        take_of_first(NEWCOMER, 1, M_NOBODY, 0);
    compare_case();
    AGREE(model_pools[0].members[in_line ? 4 : 2].holder == NEWCOMER);
    world_end();
}

unsigned long world_faults(void)
{
    return faults;
}
