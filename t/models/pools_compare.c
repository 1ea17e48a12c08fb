/* pools_compare.c - the engine's pools beside their model (pools_world.h). */
#include "engine/pool_internal.h"
#include "t/models/pools_check.h"
#include "t/models/pools_world.h"

#include <stdio.h>
#include <string.h>

#define LONG_NAME                                                                                  \
    "gpu_______________________________________________________________________________________"   \
    "__________________________________________________________________________________________"   \
    "__________________________________________________________________________"

struct rng model_random;
uint64_t units_of_others[M_POOLS];
struct side sides[M_CLIENTS], observer;
const char *const group_names[3] = {NULL, "g", "g2"};
const char *const attribute_keys[M_KEYS] = {"arch", "mem", "zone"};
const char *const attribute_values[M_VALUES] = {"", "a", "b\xff"};
char pool_counters[M_POOLS][300];

static const char *const pool_names[M_POOLS] = {"\x01", "db", "db_1", LONG_NAME, "x:y", "\xff\xfe"};
static char member_names[M_MEMBERS][8];
static char texts[9][16]; /* values, notes, `by`; texts[0] is none */
uint64_t last_event;
static bool may_owe[M_POOLS]; /* some holds of the pool may not be in its counter */

int client_number(const void *owner)
{
    const struct side *side = owner;
    AGREE(side >= sides && side < sides + M_CLIENTS && side->real);
    return (int)(side - sides);
}

/* ---- names ----------------------------------------------------------------------------------- */

void compare_make_names(void)
{
    for (int i = 0; i < M_MEMBERS; i++)
        memcpy(member_names[i], (char[4]){'m', (char)('0' + i / 10), (char)('0' + i % 10)}, 4);
    for (unsigned n = 1; n < ARRAY_SIZE(texts); n++)
        snprintf(texts[n], sizeof(texts[n]), "text%u", n % 100);
    for (int p = 0; p < M_POOLS; p++)
        snprintf(pool_counters[p], sizeof(pool_counters[p]), "pool:%s", pool_names[p]);
}

struct bytes pool_at(int p)
{
    return bytes_of(pool_names[p]);
}

struct bytes member_at(int i)
{
    return bytes_of(member_names[i]);
}

/* A text as the engine gets it. */
struct bytes text_at(unsigned number)
{
    return number == 0 ? bytes_at(NULL, 0) : bytes_of(texts[number]);
}

int pool_number(struct bytes name)
{
    for (int p = 0; p < M_POOLS; p++) {
        if (bytes_equal(name, pool_at(p)))
            return p;
    }
    AGREE(!"a pool of this name");
    return M_NOBODY;
}

int member_number(struct bytes name)
{
    for (int i = 0; i < M_MEMBERS; i++) {
        if (bytes_equal(name, member_at(i)))
            return i;
    }
    AGREE(!"a member of this name");
    return M_NOBODY;
}

unsigned text_number(struct bytes text)
{
    for (unsigned n = 1; n < ARRAY_SIZE(texts); n++) {
        if (bytes_equal(text, bytes_of(texts[n])))
            return n;
    }
    AGREE(text.len == 0);
    return 0;
}

void read_attributes(const struct pool_attribute *at, size_t count, unsigned *values_r)
{
    memset(values_r, 0, M_KEYS * sizeof(*values_r));
    for (size_t n = 0; n < count; n++) {
        int k = 0;
        while (k < M_KEYS && !bytes_equal(at[n].key, bytes_of(attribute_keys[k])))
            k++;
        AGREE(k < M_KEYS && values_r[k] == 0);
        for (unsigned v = 1; v < M_VALUES; v++) {
            if (bytes_equal(at[n].value, bytes_of(attribute_values[v])))
                values_r[k] = v;
        }
        AGREE(values_r[k] > 0);
    }
}

size_t put_attributes(const bool *sets, const unsigned *values, struct pool_attribute *at)
{
    size_t count = 0;
    for (int k = 0; k < M_KEYS; k++) {
        if (sets[k])
            at[count++] = (struct pool_attribute){bytes_of(attribute_keys[k]),
                                                  bytes_of(attribute_values[values[k]])};
    }
    return count;
}

static bool same_attributes(const unsigned *a, const unsigned *b)
{
    return memcmp(a, b, M_KEYS * sizeof(*a)) == 0;
}

/* ---- requests by chance ---------------------------------------------------------------------- */

int some_pool(void)
{
    int p = (int)below(config.pools);
    for (unsigned n = 0; n < config.pools && !model_pools[p].there && !one_in(20); n++)
        p = (p + 1) % (int)config.pools;
    return p;
}

int some_member(int p)
{
    int i = (int)below(config.members);
    for (unsigned n = 0; n < config.members && !model_pools[p].members[i].there && !one_in(20); n++)
        i = (i + 1) % (int)config.members;
    return i;
}

struct m_take random_take(int64_t timeout_ns)
{
    struct m_take take = {.ask = {.count = one_in(3) ? 1 + below(4) : 1, .member = M_NOBODY},
                          .timeout_ns = timeout_ns};
    take.ask.by = one_in(2) ? 0 : below(4);
    take.ask.what = one_in(4) ? POOL_FOR_CLEAN : one_in(5) ? POOL_FOR_CHECK : POOL_FOR_USE;
    if (one_in(5))
        take.group = group_names[1 + below(2)];
    for (unsigned count = take.group  ? 0
                          : one_in(3) ? 1 + below(M_TARGETS)
                                      : 1;
         count > 0; count--) {
        int p = some_pool();
        bool twice = false;
        for (unsigned k = 0; k < take.target_count; k++)
            twice = twice || take.targets[k] == p;
        if (!twice)
            take.targets[take.target_count++] = p;
    }
    for (int k = 0; k < M_KEYS; k++)
        take.ask.with[k] = one_in(8) ? (int)below(M_VALUES) : M_NOBODY;
    if (take.target_count == 1 && take.ask.count == 1 && one_in(5))
        take.ask.member = some_member(take.targets[0]);
    return take;
}

struct m_new_member random_new(int p)
{
    struct m_new_member new = {.pool = p, .member = (int)below(config.members), .value = below(4)};
    for (int k = 0; k < M_KEYS; k++) {
        new.attributes[k] = below(M_VALUES);
        new.sets[k] = new.attributes[k] > 0 || one_in(4);
    }
    return new;
}

struct m_change random_change(void)
{
    static const enum pool_state states[] = {MEMBER_FREE, MEMBER_DOWN, MEMBER_DIRTY, MEMBER_GONE};
    struct m_change change = {
        .pool = some_pool(),
        .now = one_in(2),
        .sets_value = one_in(4),
        .sets_note = one_in(4),
        .sets_state = !one_in(3),
        .value = below(4),
        .note = below(3),
        .state = states[one_in(20) ? 3 : below(3)],
    };
    change.member = some_member(change.pool);
    for (int k = 0; k < M_KEYS; k++) {
        change.sets[k] = one_in(4);
        change.attributes[k] = below(M_VALUES);
    }
    return change;
}

void random_supply(uint32_t *init_r, uint32_t *max_r)
{
    *init_r = below(3);
    *max_r = one_in(10) ? UINT32_MAX - below(3) : *init_r + below(5);
    if (one_in(5))
        *init_r = *max_r = 0;
}

static int64_t random_time(void)
{
    return one_in(3) ? 0 : (int64_t)(1 + below(40)) * NS_PER_S / 2 + below(1000);
}

struct pool_options random_pool_options(unsigned kind, uint32_t members)
{
    struct pool_options o = {
        .kind = kind,
        .group = unconst(group_names[below(3)]),
        .max = one_in(3) ? 0 : 1 + below(members),
        .order = below(4),
        .queue_max = one_in(4) ? below(3) : 50,
        .overtakes = one_in(4) ? 32 : below(4),
        .on_crash = below(2),
        .hold_warn_ns = random_time(),
        .hold_max_ns = one_in(2) ? 0 : random_time(),
    };
    if (kind == POOL_STATIC) {
        o.on_return = below(2);
        o.on_start = below(2);
        o.on_fail = below(3);
        o.clean_after_ns = random_time();
        o.clean_tries = below(4);
    } else {
        o.min_free = one_in(2) ? 0 : below(4);
        o.cull_after_ns = random_time();
        o.start_timeout_ns = random_time();
        o.stop_timeout_ns = random_time();
        o.max_lifetime_ns = one_in(2) ? 0 : random_time() * 2;
        if (o.max_lifetime_ns > 0 && one_in(2))
            o.lifetime_jitter_ns = below((uint32_t)(o.max_lifetime_ns / NS_PER_US)) * NS_PER_US;
    }
    return o;
}

/* ---- what the engine tells ------------------------------------------------------------------- */

bool is_deaf;

void hear_event(void *owner, const struct pool_event *event)
{
    if (is_deaf)
        return;
    if (pools->event != last_event) {
        AGREE(model_event_count < M_EVENTS);
        struct m_event *e = &model_events[model_event_count++];
        *e = (struct m_event){
            .pool = pool_number(event->pool),
            .member = event->member.len == 0 ? M_NOBODY : member_number(event->member),
            .from = event->from,
            .to = event->to,
            .why = event->why,
            .pool_why = event->pool_why,
            .late = event->late,
            .fence = event->fence,
            .conn = event->conn,
            .by = text_number(event->by),
        };
        last_event = pools->event;
    }
    if (owner != &observer)
        model_events[model_event_count - 1].told[client_number(owner)] = true;
}

struct heard heard;

/* Notes what is read. Returns false if it is of no interest. */
static bool hear(const void *owner, char kind)
{
    size_t len = strlen(heard.order);
    if (is_deaf)
        return false;
    AGREE(owner == heard.side);
    if (len > 0 && heard.order[len - 1] == kind)
        return true;
    AGREE(len + 1 < sizeof(heard.order));
    heard.order[len] = kind;
    heard.order[len + 1] = '\0';
    return true;
}

static void hear_taken(void *owner, const struct pool_taken *taken)
{
    if (!hear(owner, 't'))
        return;
    AGREE(heard.taken_count < M_TAKEN);
    unsigned n = heard.taken_count++;
    heard.taken[n].pool = pool_number(taken->pool);
    heard.taken[n].member = member_number(taken->member);
    heard.taken[n].value = text_number(taken->value);
    heard.taken[n].fence = taken->fence;
    read_attributes(taken->attributes, taken->attribute_count, heard.taken[n].attributes);
}

static void hear_refused(void *owner, enum pool_status why)
{
    heard.refusals += hear(owner, 't');
    heard.refused = why;
}

static void hear_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    if (!hear(owner, 's'))
        return;
    AGREE(heard.stop_count < RECORDED);
    heard.stops[heard.stop_count++] =
        (struct m_stop){.pool = pool_number(pool), .member = member_number(member), .why = why};
}

static bool hear_want(void *owner, struct bytes pool, uint32_t want)
{
    if (!hear(owner, 'w'))
        return true;
    AGREE(heard.want_count < RECORDED);
    heard.wants[heard.want_count].pool = pool_number(pool);
    heard.wants[heard.want_count++].want = want;
    return true;
}

static bool hear_events(void *owner)
{
    AGREE(is_deaf || owner == heard.side);
    heard.events++;
    return true;
}

const struct pool_reader hearer = {hear_taken, hear_refused, hear_stop, hear_want, hear_events};

void hear_as(const struct side *side)
{
    memset(&heard, 0, sizeof(heard));
    heard.side = side;
}

/* Compares what was taken with the client's newest holds. */
void compare_taken(int c, unsigned count)
{
    const struct m_client *client = &model_clients[c];
    AGREE(heard.taken_count == count && count <= client->hold_count);
    for (unsigned n = 0; n < count; n++) {
        const struct m_hold *hold = &client->holds[client->hold_count - count + n];
        const struct m_member *m = &model_pools[hold->pool].members[hold->member];
        AGREE(heard.taken[n].pool == hold->pool && heard.taken[n].member == hold->member);
        AGREE(heard.taken[n].fence == hold->fence && heard.taken[n].value == m->value);
        AGREE(same_attributes(heard.taken[n].attributes, m->attributes));
    }
}

/* ---- suppliers, as the model asks for them --------------------------------------------------- */

static struct {
    int clients[M_CLIENTS];
    struct pool_supplier_entry entries[M_CLIENTS];
    unsigned count;
} suppliers;

static bool see_supplier(void *arg, const struct pool_supplier_entry *entry)
{
    (void)arg;
    AGREE(suppliers.count < M_CLIENTS);
    int c = client_number(entry->owner);
    AGREE(sides[c].tag == entry->client);
    suppliers.entries[suppliers.count] = *entry;
    suppliers.clients[suppliers.count++] = c;
    return true;
}

static void look_at_suppliers(int p)
{
    suppliers.count = 0;
    pool_show_suppliers(pools, pool_at(p), see_supplier, NULL);
}

unsigned model_suppliers(int p, int *clients)
{
    look_at_suppliers(p);
    memcpy(clients, suppliers.clients, sizeof(suppliers.clients));
    return suppliers.count;
}

double model_jitter(int p, int i)
{
    struct pool *pool = pool_find(pools, pool_at(p));
    AGREE(pool != NULL);
    const struct pool_member *m = pool_find_member(pool, member_at(i));
    AGREE(m != NULL);
    return m->jitter;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static int seen; /* the next number that a walk should show */
static int looked_at;

static bool see_member(void *arg, const struct pool_member_entry *entry)
{
    (void)arg;
    struct m_pool *pool = &model_pools[looked_at];
    int i = member_number(entry->name);
    while (seen < i)
        AGREE(!pool->members[seen++].there);
    AGREE(seen == i && pool->members[i].there);
    seen = i + 1;
    const struct m_member *m = &pool->members[i];
    unsigned attributes[M_KEYS];
    AGREE(entry->state == m->state && entry->since_ns == m->since_ns);
    AGREE(entry->takes == m->takes && entry->fails == m->fails);
    AGREE(text_number(entry->note) == m->note);
    read_attributes(entry->attributes, entry->attribute_count, attributes);
    AGREE(same_attributes(attributes, m->attributes));
    AGREE(entry->joined_by == (m->joiner == M_NOBODY ? 0 : model_clients[m->joiner].tag));
    if (!m_is_held(m)) {
        AGREE(entry->fence == 0 && !entry->then && entry->by.len == 0 && !entry->holder_owner);
        return true;
    }
    const struct m_hold *hold = model_hold_of(looked_at, i);
    AGREE(entry->fence == m->fence && entry->fence == hold->fence);
    AGREE(entry->holder == model_clients[m->holder].tag);
    AGREE(entry->holder_owner == &sides[m->holder] && text_number(entry->by) == hold->by);
    bool over = model_is_over(looked_at, i) || m->lifetime;
    const char *rest = m->shrink                ? "shrink"
                       : m->then != MEMBER_GONE ? pool_state_word(m->then)
                                                : NULL;
    const char *then = m->drop ? "drop" : over ? "lifetime" : rest;
    bool same = then == entry->then || (then && entry->then && strcmp(then, entry->then) == 0);
    bool early = over && !m->drop && !model_timely &&
                 (rest == entry->then || (rest && entry->then && strcmp(rest, entry->then) == 0));
    AGREE(same || early);
    return true;
}

static void compare_members(int p)
{
    looked_at = p;
    seen = 0;
    if (one_in(4)) { /* in pieces */
        char last[8] = "";
        bool over = false;
        while (!over) {
            over = pool_show_members(pools, pool_at(p), bytes_of(last), 1 + below(3), see_member,
                                     NULL);
            if (seen > 0)
                memcpy(last, member_names[seen - 1], sizeof(member_names[0]));
        }
    } else {
        AGREE(
            pool_show_members(pools, pool_at(p), bytes_at(NULL, 0), UINT32_MAX, see_member, NULL));
    }
    while (seen < M_MEMBERS)
        AGREE(!model_pools[p].members[seen++].there);
}

/* The oldest waiter of a pool that is younger than `age`; M_NOBODY: none. */
static int next_waiter(int p, uint64_t age)
{
    int next = M_NOBODY;
    for (int c = 0; c < M_CLIENTS; c++) {
        if (model_waits_in(c, p) && model_clients[c].wait.age > age &&
            (next == M_NOBODY || model_clients[c].wait.age < model_clients[next].wait.age))
            next = c;
    }
    return next;
}

static uint64_t seen_age, seen_seq;

static bool see_waiter(void *arg, const struct pool_waiter_entry *entry)
{
    (void)arg;
    int c = next_waiter(looked_at, seen_age);
    AGREE(c != M_NOBODY && entry->seq > seen_seq);
    const struct m_wait *w = &model_clients[c].wait;
    seen_age = w->age;
    seen_seq = entry->seq;
    AGREE(entry->client == model_clients[c].tag && entry->owner == &sides[c]);
    AGREE(entry->since_ns == w->since_ns && entry->timeout_ns == w->timeout_ns);
    AGREE(entry->count == w->ask.count && entry->what == w->ask.what);
    AGREE(text_number(entry->by) == w->ask.by);
    AGREE(w->ask.member == M_NOBODY ? entry->member.len == 0
                                    : member_number(entry->member) == w->ask.member);
    return true;
}

static void compare_waiters(int p)
{
    looked_at = p;
    seen_age = seen_seq = 0;
    unsigned budget = one_in(4) ? 1 + below(3) : UINT32_MAX;
    while (!pool_show_waiters(pools, pool_at(p), seen_seq, budget, see_waiter, NULL))
        continue;
    AGREE(next_waiter(p, seen_age) == M_NOBODY);
}

static void compare_suppliers(int p)
{
    uint32_t count = 0;
    look_at_suppliers(p);
    for (int c = 0; c < M_CLIENTS; c++)
        count += model_clients[c].supplies[p].born != 0;
    AGREE(suppliers.count == count);
    uint64_t would_be = 0, told = 0;
    for (unsigned n = 0; n < suppliers.count; n++) {
        const struct pool_supplier_entry *entry = &suppliers.entries[n];
        const struct m_supply *s = &model_clients[suppliers.clients[n]].supplies[p];
        AGREE(s->born != 0 && entry->init == s->init && entry->max == s->max);
        AGREE(entry->want == s->want && entry->late == s->late && s->want <= s->max);
        uint32_t members = 0;
        for (int i = 0; i < M_MEMBERS; i++) {
            const struct m_member *m = &model_pools[p].members[i];
            members += m->there && m->joiner == suppliers.clients[n] && m->state != MEMBER_STOPPING;
        }
        AGREE(entry->members == members);
        would_be += s->want > members ? s->want - members : 0;
        told += s->want > members;
    }
    /* No supplier is told to have more than it may join. */
    uint32_t most = model_limits.members_max, max = model_pools[p].options.max;
    if (max > 0 && max < most)
        most = max;
    AGREE(told == 0 || would_be + model_member_count(p) <= most);
}

static void see_pool(void *arg, const struct pool_entry *entry)
{
    int p = *(const int *)arg;
    const struct m_pool *pool = &model_pools[p];
    AGREE(bytes_equal(entry->name, pool_at(p)));
    AGREE(entry->draining == pool->draining && entry->of_file == pool->of_file);
    AGREE(entry->members == model_member_count(p));
    uint32_t sum = 0;
    for (unsigned state = MEMBER_FREE; state < MEMBER_STATES; state++) {
        AGREE(entry->states[state] == model_count(p, (enum pool_state)state));
        sum += entry->states[state];
    }
    AGREE(sum == entry->members && entry->waiting == model_waiting(p, true, false));
    AGREE(pool->options.kind == POOL_STATIC || entry->want == pool->want);
    AGREE(entry->late == pool->late);
    int64_t wait_ns = -1, hold_ns = -1;
    uint64_t oldest = UINT64_MAX;
    for (int c = 0; c < M_CLIENTS; c++) {
        const struct m_wait *w = &model_clients[c].wait;
        if (model_waits_in(c, p) && w->ask.what == POOL_FOR_USE && w->age < oldest) {
            oldest = w->age;
            wait_ns = model_now.mono_ns - w->since_ns;
        }
    }
    for (int i = 0; i < M_MEMBERS; i++) {
        if (!m_is_held(&pool->members[i]))
            continue;
        int64_t ns = model_now.mono_ns - model_hold_of(p, i)->since_ns;
        hold_ns = ns > hold_ns ? ns : hold_ns;
    }
    AGREE(entry->oldest_wait_ns == wait_ns && entry->longest_hold_ns == hold_ns);
    const struct pool_options *a = entry->options, *b = &pool->options;
    AGREE(a->kind == b->kind && a->max == b->max && a->order == b->order);
    AGREE(!a->group == !b->group && (!a->group || strcmp(a->group, b->group) == 0));
}

/* The members of the pool in the hands of a client, and of all. */
uint32_t held_by(int c, int p)
{
    uint32_t count = 0;
    for (int i = 0; i < M_MEMBERS; i++) {
        const struct m_member *m = &model_pools[p].members[i];
        count += m_is_held(m) && (c == M_NOBODY || m->holder == c);
    }
    return count;
}

/* Each held member is a unit of the counter, beside those of others. */
uint64_t all_units(int p)
{
    return held_by(M_NOBODY, p) + units_of_others[p];
}

/* The sum may be too large for the counter; then some holds have no unit until there is room. */
static void compare_units(int p)
{
    uint64_t units = all_units(p);
    uint32_t consumption = 0;
    /* Without any unit there may be no counter, although holds wait for one. */
    enum table_status status =
        table_get(table, bytes_of(pool_counters[p]), model_now, &consumption);
    AGREE(status == TABLE_OK || consumption == 0);
    AGREE(consumption <= units);
    may_owe[p] = may_owe[p] || units > UINT32_MAX || config.faulty;
    AGREE(consumption == units || may_owe[p]);
    bool owes = consumption < units;
    if (!owes && !config.faulty)
        may_owe[p] = false;
    else if (owes && units <= UINT32_MAX)
        AGREE(pools_next_ns(pools) <= model_now.mono_ns + NS_PER_S / 10);
    for (int c = 0; c < M_CLIENTS; c++) {
        struct table_hold hold = {.units = 0};
        if (!sides[c].real)
            continue;
        (void)!table_holds(table, sides[c].real->unit_holder.id, bytes_of(pool_counters[p]),
                           model_now, &hold);
        AGREE(hold.units == held_by(c, p) || (owes && hold.units < held_by(c, p)));
    }
}

static void see_counts(void *arg, const struct pool_counts *counts)
{
    int *last = arg, p = pool_number(counts->name);
    const struct m_pool *pool = &model_pools[p];
    while (++*last < p)
        AGREE(!model_pools[*last].there);
    AGREE(pool->there && memcmp(counts->totals.takes, pool->takes, sizeof(pool->takes)) == 0);
    AGREE(memcmp(counts->totals.moves, pool->moves, sizeof(pool->moves)) == 0);
}

static bool see_listed(void *arg, const struct pool_entry *entry)
{
    int *last = arg, p = pool_number(entry->name);
    while (++*last < p)
        AGREE(!model_pools[*last].there);
    return true;
}

void compare_all(void)
{
    int last = M_NOBODY;
    struct pools_sums sums, expected = {0};
    for (int p = 0; p < M_POOLS; p++) {
        bool there = pool_show(pools, pool_at(p), see_pool, &p, model_now);
        AGREE(there == model_pools[p].there);
        compare_units(p);
        if (!there)
            continue;
        compare_members(p);
        compare_waiters(p);
        compare_suppliers(p);
        expected.pools++;
        expected.members += model_member_count(p);
        expected.held += held_by(M_NOBODY, p);
        expected.waiting += model_waiting(p, true, false);
    }
    pools_sums(pools, &sums);
    expected.visited = sums.visited; /* the model visits other things */
    expected.visited_most = sums.visited_most;
    AGREE(memcmp(&sums, &expected, sizeof(sums)) == 0);
    pools_count(pools, see_counts, &last);
    last = M_NOBODY;
    AGREE(pools_list(pools, bytes_at(NULL, 0), bytes_at(NULL, 0), UINT32_MAX, see_listed, &last,
                     model_now));
    for (int c = 0; c < M_CLIENTS; c++) {
        const struct m_client *client = &model_clients[c];
        AGREE(client->open == (sides[c].real != NULL));
        if (!client->open)
            continue;
        AGREE(pool_client_waits(sides[c].real) == (client->wait.state != M_NO_WAIT));
        AGREE(pool_client_holds(sides[c].real) == client->hold_count);
    }
    pools_check(pools, model_now);
}

/* Compares what was read. */
void compare_news(int c, const struct m_news *news, bool all)
{
    AGREE(heard.refusals == (news->result == M_REFUSED));
    AGREE(heard.refusals == 0 || heard.refused == news->refused);
    compare_taken(c, news->taken);
    AGREE(heard.stop_count == news->stop_count);
    for (unsigned n = 0; n < news->stop_count; n++)
        AGREE(heard.stops[n].pool == news->stops[n].pool &&
              heard.stops[n].member == news->stops[n].member &&
              heard.stops[n].why == news->stops[n].why);
    AGREE(all ? heard.want_count == news->want_count : heard.want_count < news->want_count);
    bool told[RECORDED + 1] = {false};
    unsigned matched = 0;
    for (unsigned n = 0; n < news->want_count; n++) {
        unsigned k = 0;
        while (k < heard.want_count && (told[k] || heard.wants[k].pool != news->wants[n].pool ||
                                        heard.wants[k].want != news->wants[n].want))
            k++;
        matched += k < heard.want_count;
        told[k] = true;
    }
    AGREE(matched == heard.want_count);
    AGREE(!news->events || heard.events == 1);
}

void compare_note_sums(void)
{
    for (int p = 0; p < M_POOLS; p++)
        may_owe[p] = may_owe[p] || all_units(p) > UINT32_MAX;
}

void compare_start(void)
{
    memset(sides, 0, sizeof(sides));
    memset(units_of_others, 0, sizeof(units_of_others));
    memset(may_owe, 0, sizeof(may_owe));
}
