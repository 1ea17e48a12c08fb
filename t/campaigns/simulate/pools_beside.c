/*
 * pools_beside.c - the engine's pools beside their model. The services' calls of the engine are
 * wrapped (--wrap): the real call is made, its arguments are compared with what the client said,
 * and the model makes the same call. An observer watches all pools, so that the model gets every
 * event. What the call answers makes the answer that the client must get.
 */
#include "t/campaigns/simulate/pools_beside.h"

#include "engine/pool_inside.h"
#include "service/pool_verbs.h"
#include "service/pools.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define OBSERVER_ID (CONN_ID_SECOND - 1) /* no connection has it */

struct doing doing;
struct client *pool_users[M_CLIENTS];

static struct pools_settings settings;

/* ---- the real functions -------------------------------------------------------------------- */

#define WRAPPED(name) __typeof__(name) __real_##name, __wrap_##name

WRAPPED(getpeername);
WRAPPED(pool_note_event);
WRAPPED(pools_run);
WRAPPED(pools_set_limits);
WRAPPED(pool_client_new);
WRAPPED(pool_client_end);
WRAPPED(pool_client_read);
WRAPPED(pool_take);
WRAPPED(pool_end_wait);
WRAPPED(pool_return);
WRAPPED(pool_member_add);
WRAPPED(pool_join);
WRAPPED(pool_member_set);
WRAPPED(pool_member_drop);
WRAPPED(pool_add);
WRAPPED(pool_set);
WRAPPED(pool_drop);
WRAPPED(pool_supply);
WRAPPED(pool_watch);

/* ---- who may do what ----------------------------------------------------------------------- */

enum role { OPERATOR, SUPPLIER, OTHER };

/* The network of a client says what it may do. */
static enum role role_of(int fd)
{
    return fd % 8 == 6 ? SUPPLIER : fd % 8 == 7 ? OTHER : OPERATOR;
}

int __wrap_getpeername(int fd, struct sockaddr *sa, socklen_t *len)
{
    static const uint32_t networks[] = {INADDR_LOOPBACK, 0x0a000001, 0xc0000201};
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(4000),
                             .sin_addr.s_addr = htonl(networks[role_of(fd)])};
    if (fd < 0)
        return __real_getpeername(fd, sa, len);
    memcpy(sa, &in, sizeof(in));
    *len = sizeof(in);
    return 0;
}

bool is_operator(const struct client *c)
{
    return role_of(c->peer.fd) == OPERATOR;
}

bool is_supplier(const struct client *c)
{
    return role_of(c->peer.fd) != OTHER;
}

const struct pools_settings *pools_settings(void)
{
    settings = (struct pools_settings){
        .operators = {.count = 1}, .suppliers = {.count = 1}, .max = M_POOLS};
    CHECK(access_parse("127.0.0.0/8", 11, &settings.operators.at[0]));
    CHECK(access_parse("10.0.0.0/8", 10, &settings.suppliers.at[0]));
    settings.max_members = M_MEMBERS;
    settings.max_watchers = 5;
    settings.max_taken = M_TAKEN;
    return &settings;
}

void change_pools_limits(void)
{
    settings.max = 1 + below(M_POOLS);
    settings.max_members = 1 + below(M_MEMBERS);
    settings.max_watchers = 1 + below(5);
    settings.max_taken = 1 + below(M_TAKEN);
    in_server = true;
    pools_change_settings(services, &settings);
    in_server = false;
}

/* ---- the model's side of a call ------------------------------------------------------------ */

void model_fails(const char *what)
{
    fail(__FILE_NAME__, __LINE__, "pools", "%s", what);
}

static unsigned long faults_before;

/* Begins a call of the server's. Returns the number of its client; NO_SLOT: none. */
static int begin_call(const char *what, const struct pool_client *client)
{
    EXPECT(in_server);
    in_server = false;
    faults_before = refusals();
    model_timely = false;
    model_step = step;
    int c = client ? client_number(pool_client_owner(client)) : NO_SLOT;
    snprintf(model_doing, sizeof(model_doing), "client %d of %d: %s",
             doing.c ? doing.c->peer.fd : NO_SLOT, c < 0 ? NO_SLOT : pool_users[c]->peer.fd, what);
    in_server = true;
    return c;
}

/* The real call is over. The model's follows, at the same time. */
static void after_call(void)
{
    in_server = false;
    model_now = compared_pools->now;
}

/* The observer's letter is not the server's: it reads at once. */
static void read_as_observer(struct pool_effects *effects)
{
    struct mail_list others;
    mail_list_init(&others);
    for (struct mail *mail; (mail = mail_list_take(&effects->clients)) != NULL;) {
        if (pool_client_of(mail) != observer.real) {
            mail_list_add(&others, mail);
            continue;
        }
        CHECK(pool_client_letter(observer.real));
        hear_as(&observer);
        __real_pool_client_read(observer.real, &hearer, 0, compared_pools->now, effects);
    }
    for (struct mail *mail; (mail = mail_list_take(&others)) != NULL;)
        mail_list_add(&effects->clients, mail);
}

/* The model has made the call, too. */
static void end_call(struct pool_effects *effects)
{
    CHECK(!in_server);
    compare_faulty = refusals() > 0;
    if (effects)
        read_as_observer(effects);
    model_done();
    in_server = true;
}

/* True if the call has failed for want of memory, so that nothing has changed. */
static bool failed(enum pool_status status)
{
    if (status != POOL_NO_MEMORY)
        return false;
    EXPECT(may_lack_memory(faults_before), "there was memory");
    return true;
}

/* The engine was called for the current request, which must be one of this kind. */
static void call_for(enum request_kind kind, const struct client *c)
{
    EXPECT(doing.c && doing.r && doing.r->kind == kind && !doing.called,
           "the request does not ask for it");
    EXPECT(!c || c == doing.c, "the call is for another client");
    EXPECT(!draining || (kind != TEXT_TAKE && kind != TEXT_JOIN && kind != TEXT_SUPPLY));
    doing.called = true;
}

/* What the engine has answered to the current request; `ok` is the reply for POOL_OK. */
static void answered(enum pool_status status, enum pool_reply ok)
{
    doing.status = status;
    if (status == POOL_BAD_STATE)
        expect_bad_value("state");
    else if (status != POOL_OK && doing.r->kind == TEXT_MEMBER_DROP && !is_supplier(doing.c))
        expect_pool_reply(POOL_REPLY_DENIED);
    else
        expect_pool_reply(reply_of_status(status, ok));
}

/* The engine is called for a request that the client may make. The model makes the same call with
 * what the client has said. */
#define FOLLOW(what, client, kind, may, real_call, model_call, ok, effects)                        \
    do {                                                                                           \
        int c = begin_call(what, client);                                                          \
        call_for(kind, c == NO_SLOT ? NULL : pool_users[c]);                                       \
        EXPECT(may);                                                                               \
        enum pool_status status = real_call;                                                       \
        after_call();                                                                              \
        if (!failed(status))                                                                       \
            AGREE(status == model_call);                                                           \
        answered(status, ok);                                                                      \
        end_call(effects);                                                                         \
        return status;                                                                             \
    } while (0)

/* ---- reading ------------------------------------------------------------------------------- */

static const struct pool_reader *service_reader;
static bool want_refused, events_refused;

/* Checks that the service has written this line now, since `from`. */
static void expect_line(struct client *c, size_t from, const uint8_t *line, size_t len)
{
    EXPECT(queued(&c->said) == from + len && memcmp(unchecked(c) + from, line, len) == 0,
           "client %d: wrote \"%.*s\", not \"%.*s\"", c->peer.fd, (int)(queued(&c->said) - from),
           (const char *)unchecked(c) + from, (int)len, (const char *)line);
}

/* The bytes since `from` are as they should be: part of the answer, or lines between answers. */
static void accept_lines(struct client *c, size_t from)
{
    if (answer.to == c)
        expect_bytes(unchecked(c) + from, queued(&c->said) - from);
    else
        c->said.end -= queued(&c->said) - from;
}

static struct client *user_of(const void *owner)
{
    return pool_users[client_number(owner)];
}

/* Between these two the service writes a line, which must be the one that they are given. */
static struct client *begin_line(const void *owner, size_t *from_r)
{
    struct client *c = user_of(owner);
    *from_r = queued(&c->said);
    in_server = true;
    return c;
}

static void end_line(struct client *c, size_t from, const void *line, size_t len)
{
    in_server = false;
    expect_line(c, from, line, len);
    accept_lines(c, from);
    in_server = true;
}

static void on_taken(void *owner, const struct pool_taken *taken)
{
    static uint8_t line[POOLS_TAKEN_ROOM];
    size_t from;
    struct pool_taken_reply reply = {.pool = taken->pool,
                                     .member = taken->member,
                                     .fence = taken->fence,
                                     .value = taken->value,
                                     .attr_count = taken->attribute_count};
    for (size_t i = 0; i < taken->attribute_count; i++)
        reply.attrs[i] = (struct pool_pair){taken->attributes[i].key, taken->attributes[i].value};
    in_server = false;
    hearer.taken(owner, taken);
    struct client *c = begin_line(owner, &from);
    result->taken++;
    result->taken_late += !doing.r || doing.r->kind != TEXT_TAKE || doing.c != c;
    service_reader->taken(owner, taken);
    end_line(c, from, line, pool_compose_taken(&reply, line, sizeof(line)));
}

static void on_refused(void *owner, enum pool_status why)
{
    size_t from;
    in_server = false;
    struct bytes line = pool_reply_line(reply_of_status(why, POOL_REPLY_OK));
    hearer.refused(owner, why);
    result->wait_refusals++;
    struct client *c = begin_line(owner, &from);
    service_reader->refused(owner, why);
    end_line(c, from, line.data, line.len);
}

static void on_stop(void *owner, struct bytes pool, struct bytes member, enum pool_why why)
{
    static uint8_t line[POOLS_STOP_ROOM];
    size_t from;
    struct pool_stop_reply reply = {
        .pool = pool, .member = member, .why = bytes_of(pool_why_word(why))};
    in_server = false;
    hearer.stop(owner, pool, member, why);
    result->stops++;
    struct client *c = begin_line(owner, &from);
    service_reader->stop(owner, pool, member, why);
    end_line(c, from, line, pool_compose_stop(&reply, line, sizeof(line)));
}

static bool on_want(void *owner, struct bytes pool, uint32_t want)
{
    static uint8_t line[POOLS_WANT_ROOM];
    size_t from;
    struct pool_want_reply reply = {.pool = pool, .want = want};
    struct client *c = begin_line(owner, &from);
    bool told = service_reader->want(owner, pool, want);
    in_server = false;
    EXPECT(told || queued(&c->reply) + queued(&c->after) > 0, "nothing is unsent");
    EXPECT(told || !want_refused);
    if (told)
        (void)hearer.want(owner, pool, want);
    result->wants += told;
    want_refused = want_refused || !told;
    end_line(c, from, line, told ? pool_compose_want(&reply, line, sizeof(line)) : 0);
    return told;
}

static bool on_events(void *owner)
{
    size_t from;
    struct client *c = begin_line(owner, &from);
    bool took = service_reader->events(owner);
    in_server = false;
    (void)hearer.events(owner);
    events_refused = !took;
    EXPECT(took || queued(&c->reply) + queued(&c->after) > 0, "nothing is unsent");
    look_at_events(c, from);
    accept_lines(c, from);
    in_server = true;
    return took;
}

static const struct pool_reader reader_beside = {on_taken, on_refused, on_stop, on_want, on_events};

static void begin_reading(int c, const struct pool_reader *reader)
{
    hear_as(&sides[c]);
    service_reader = reader;
    want_refused = events_refused = false;
}

/* A client without room was not told of all wants. They are news still. */
static void forget_untold(int c, const struct m_news *news, const struct m_supply *supplies,
                          const unsigned *ended_wants)
{
    struct m_client *client = &model_clients[c];
    for (int p = 0; p < M_POOLS; p++) {
        unsigned heard_of = 0, count = 0;
        for (unsigned n = 0; n < heard.want_count; n++)
            heard_of += heard.wants[n].pool == p;
        for (unsigned n = 0; n < news->want_count; n++)
            count += news->wants[n].pool == p;
        if (heard_of < ended_wants[p])
            client->ended_wants[p] = ended_wants[p] - heard_of;
        if (count > ended_wants[p] && heard_of <= ended_wants[p]) {
            client->supplies[p].untold = supplies[p].untold;
            client->supplies[p].told = supplies[p].told;
        }
    }
}

void __wrap_pool_client_read(struct pool_client *client, const struct pool_reader *reader,
                             uint64_t position, struct moment at, struct pool_effects *effects)
{
    static struct m_news news;
    struct m_supply supplies[M_POOLS];
    unsigned ended_wants[M_POOLS];
    int c = begin_call("reads", client);
    struct client *user = pool_users[c];
    EXPECT((position == POOL_POSITION_LATER) == (user->listing != NULL));
    uint64_t here = user->listing ? POOL_POSITION_LATER : user->replied;
    if (answer.to != user)
        EXPECT(queued(&user->said) == 0, "a line comes within an answer");
    memcpy(supplies, model_clients[c].supplies, sizeof(supplies));
    memcpy(ended_wants, model_clients[c].ended_wants, sizeof(ended_wants));
    begin_reading(c, reader);
    __real_pool_client_read(client, &reader_beside, position, at, effects);
    after_call();
    model_read(c, here, &news);
    compare_news(c, &news, !want_refused);
    result->taken_behind += user->listing ? news.taken : 0;
    if (want_refused)
        forget_untold(c, &news, supplies, ended_wants);
    if (events_refused)
        model_clients[c].events = true;
    end_call(effects);
}

void place_members_behind(const struct client *c)
{
    struct m_client *m = c->slot == NO_SLOT ? NULL : &model_clients[c->slot];
    for (unsigned k = 0; m && k < m->hold_count; k++) {
        if (m->holds[k].position == POOL_POSITION_LATER)
            m->holds[k].position = c->replied;
    }
}

/* ---- events -------------------------------------------------------------------------------- */

void __wrap_pool_note_event(void *owner, const struct pool_event *event)
{
    in_server = false;
    hear_event(owner, event);
    if (owner != observer.owner)
        note_pools_event(user_of(owner), event);
    else if (event->member.len > 0 && !event->late)
        result->moves[event->why]++;
    in_server = true;
    if (owner != observer.owner)
        __real_pool_note_event(owner, event);
}

/* ---- clients ------------------------------------------------------------------------------- */

struct pool_client *__wrap_pool_client_new(struct pools *pools, uint32_t id, uint64_t tag,
                                           void *owner)
{
    int c = 0;
    (void)begin_call("begins", NULL);
    EXPECT(doing.c && doing.c->pools && doing.c->tag == tag && doing.c->slot == NO_SLOT);
    while (c < M_CLIENTS && model_clients[c].open)
        c++;
    CHECK(c < M_CLIENTS);
    struct pool_client *client = __real_pool_client_new(pools, id, tag, owner);
    after_call();
    EXPECT(client || may_lack_memory(faults_before));
    if (client) {
        sides[c] = (struct side){.real = client, .tag = tag, .owner = owner};
        pool_users[c] = doing.c;
        doing.c->slot = c;
        model_client_new(c, tag);
    }
    in_server = true;
    return client;
}

void __wrap_pool_client_end(struct pool_client *client, enum pool_end how,
                            bool (*written)(void *owner, uint64_t position), struct moment at,
                            struct pool_effects *effects)
{
    int c = begin_call(how == POOL_END_QUIT ? "quits" : "crashes", client);
    struct client *user = pool_users[c];
    bool serves = doing.c == user && doing.r;
    bool quits = serves && doing.r->kind == TEXT_QUIT;
    bool finishes = serves && doing.r->kind == TEXT_TOO_LONG;
    EXPECT(quits == (how == POOL_END_QUIT), "client %d: it did not end so", user->peer.fd);
    if (quits)
        doing.called = true;
    __real_pool_client_end(client, how, written, at, effects);
    after_call();
    sides[c].real = NULL;
    model_client_end(c, quits, finishes ? UINT64_MAX : user->received);
    user->slot = NO_SLOT;
    user->events.begin = user->events.end;
    pool_users[c] = NULL;
    end_call(effects);
}

bool waits_for_members(const struct client *c)
{
    return c->slot != NO_SLOT && model_clients[c->slot].wait.state != M_NO_WAIT;
}

/* ---- TAKE and RETURN ----------------------------------------------------------------------- */

enum pool_status __wrap_pool_take(struct pool_client *client, const struct pool_take *take,
                                  const struct pool_reader *reader, uint64_t position,
                                  struct moment at, struct pool_effects *effects)
{
    int c = begin_call("takes", client);
    struct client *user = pool_users[c];
    call_for(TEXT_TAKE, user);
    const struct m_take *said = &doing.ask->take;
    EXPECT(!doing.waited && !waits_for_members(user));
    uint64_t here = user->replied;
    begin_reading(c, reader);
    enum pool_status status = __real_pool_take(client, take, &reader_beside, position, at, effects);
    after_call();
    if (!failed(status)) {
        AGREE(status == model_take(c, said, here));
        compare_taken(c, status == POOL_OK ? said->ask.count : 0);
    }
    doing.status = status;
    if (status == POOL_WAITS) {
        result->waits++;
        user->pool_deadline_ns = fake_now.mono_ns + said->timeout_ns;
    } else if (status != POOL_OK) {
        answered(status, POOL_REPLY_OK);
    }
    end_call(effects);
    return status;
}

bool __wrap_pool_end_wait(struct pool_client *client, bool timed_out, struct moment at,
                          struct pool_effects *effects)
{
    int c = begin_call("ends its wait", client);
    EXPECT(doing.c == pool_users[c] && timed_out == doing.timeout);
    EXPECT(doing.timeout || (doing.r->kind == TEXT_RETURN && !doing.ask->give.has_fence));
    bool ended = __real_pool_end_wait(client, timed_out, at, effects);
    after_call();
    AGREE(ended == model_end_wait(c, timed_out));
    doing.wait_ended = ended;
    end_call(effects);
    return ended;
}

enum pool_status __wrap_pool_return(struct pool_client *client, uint64_t fence, bool ok,
                                    struct moment at, struct pool_effects *effects)
{
    int c = begin_call("returns", client);
    call_for(TEXT_RETURN, pool_users[c]);
    enum pool_status status = __real_pool_return(client, fence, ok, at, effects);
    after_call();
    AGREE(status == model_return(c, doing.ask->give.has_fence ? doing.ask->give.fence : 0,
                                 doing.ask->give.ok));
    doing.status = status; /* the answer comes after what others are told */
    end_call(effects);
    return status;
}

/* ---- members and pools --------------------------------------------------------------------- */

enum pool_status __wrap_pool_member_add(struct pools *pools, const struct pool_new_member *member,
                                        struct moment at, struct pool_effects *effects)
{
    FOLLOW("member add", NULL, TEXT_MEMBER_ADD, is_operator(doing.c),
           __real_pool_member_add(pools, member, at, effects), model_member_add(&doing.ask->new),
           POOL_REPLY_OK, effects);
}

enum pool_status __wrap_pool_join(struct pool_client *client, const struct pool_new_member *member,
                                  struct moment at, struct pool_effects *effects)
{
    FOLLOW("joins", client, TEXT_JOIN, is_supplier(doing.c),
           __real_pool_join(client, member, at, effects), model_join(c, &doing.ask->new),
           POOL_REPLY_JOINED, effects);
}

enum pool_status __wrap_pool_member_set(struct pools *pools,
                                        const struct pool_member_change *change, struct moment at,
                                        struct pool_effects *effects)
{
    FOLLOW("member set", NULL, TEXT_MEMBER_SET, is_operator(doing.c),
           __real_pool_member_set(pools, change, at, effects), model_member_set(&doing.ask->change),
           POOL_REPLY_OK, effects);
}

enum pool_status __wrap_pool_member_drop(struct pools *pools, struct pool_client *by, bool own_only,
                                         struct bytes pool, struct bytes name, bool at_once,
                                         struct moment at, struct pool_effects *effects)
{
    FOLLOW("member drop", by, TEXT_MEMBER_DROP, c == doing.c->slot,
           __real_pool_member_drop(pools, by, own_only, pool, name, at_once, at, effects),
           model_member_drop(c, !is_operator(doing.c), doing.ask->drop.pool, doing.ask->drop.member,
                             doing.ask->drop.now),
           POOL_REPLY_OK, effects);
}

/* The options that the client has asked for, with the group that the model has. */
static struct pool_options said_options(bool adds)
{
    struct pool_options asked;
    in_server = false;
    EXPECT(asked_options(doing.ask, adds, &model_pools[doing.ask->options.pool].options, &asked) ==
           POOL_OPTION_COUNT);
    in_server = true;
    return asked;
}

enum pool_status __wrap_pool_add(struct pools *pools, struct bytes name,
                                 const struct pool_options *options, bool of_file, struct moment at,
                                 struct pool_effects *effects)
{
    struct pool_options asked = said_options(true);
    FOLLOW("pool add", NULL, TEXT_POOL_ADD, is_operator(doing.c),
           __real_pool_add(pools, name, options, of_file, at, effects),
           model_pool_add(doing.ask->options.pool, &asked, false), POOL_REPLY_OK, effects);
}

enum pool_status __wrap_pool_set(struct pools *pools, struct bytes name,
                                 const struct pool_options *options, bool of_file, struct moment at,
                                 struct pool_effects *effects)
{
    struct pool_options asked = said_options(false);
    FOLLOW("pool set", NULL, TEXT_POOL_SET, is_operator(doing.c),
           __real_pool_set(pools, name, options, of_file, at, effects),
           model_pool_set(doing.ask->options.pool, &asked, false), POOL_REPLY_OK, effects);
}

enum pool_status __wrap_pool_drop(struct pools *pools, struct bytes name, bool at_once,
                                  struct moment at, struct pool_effects *effects)
{
    FOLLOW("pool drop", NULL, TEXT_POOL_DROP, is_operator(doing.c),
           __real_pool_drop(pools, name, at_once, at, effects),
           model_pool_drop(doing.ask->drop.pool, doing.ask->drop.now), POOL_REPLY_OK, effects);
}

enum pool_status __wrap_pool_supply(struct pool_client *client, struct bytes name, uint32_t init,
                                    uint32_t max, struct moment at, struct pool_effects *effects)
{
    FOLLOW("supplies", client, TEXT_SUPPLY, is_supplier(doing.c),
           __real_pool_supply(client, name, init, max, at, effects),
           model_supply(c, doing.ask->supply.pool, doing.ask->supply.init, doing.ask->supply.max),
           POOL_REPLY_OK, effects);
}

enum pool_status __wrap_pool_watch(struct pool_client *client, struct bytes name, bool mine)
{
    if (client == observer.real)
        return __real_pool_watch(client, name, mine);
    FOLLOW("watches", client, TEXT_WATCH, true, __real_pool_watch(client, name, mine),
           model_watch(c, doing.ask->watch.pool, doing.ask->watch.mine), POOL_REPLY_OK, NULL);
}

/* ---- time and limits ----------------------------------------------------------------------- */

void __wrap_pools_run(struct pools *pools, struct moment at, struct pool_effects *effects)
{
    (void)begin_call("runs", NULL);
    /* Another worker may have read the clock later; then this one does, too. */
    if (at.mono_ns < pools->now.mono_ns)
        at = pools->now;
    __real_pools_run(pools, at, effects);
    after_call();
    model_run();
    end_call(effects);
}

void __wrap_pools_set_limits(struct pools *pools, const struct pools_limits *limits,
                             struct moment at, struct pool_effects *effects)
{
    (void)begin_call("limits", NULL);
    __real_pools_set_limits(pools, limits, at, effects);
    after_call();
    model_limits = *limits;
    end_call(effects);
}

/* ---- comparing ----------------------------------------------------------------------------- */

void add_pools_sums(uint64_t *units, uint64_t *names)
{
    for (int p = 0; p < M_POOLS && mix.pools > 0; p++) {
        uint32_t consumption = 0;
        bool is = table_get(services->table, bytes_of(pool_counters[p]), fake_now, &consumption) ==
                  TABLE_OK;
        EXPECT(is || consumption == 0); /* a waiter keeps the name, too */
        EXPECT(consumption == all_units(p) || (compare_faulty && consumption < all_units(p)));
        *names += is;
        *units += consumption;
    }
}

bool is_counter_of_pool(struct bytes name, uint32_t consumption)
{
    if (mix.pools == 0 || !bytes_begin_with(name, bytes_of("pool:")))
        return false;
    int p = pool_number(bytes_at(name.data + 5, name.len - 5));
    EXPECT(consumption == all_units(p) || (compare_faulty && consumption < all_units(p)));
    return true;
}

void compare_pools(bool quiet)
{
    if (mix.pools == 0)
        return;
    model_doing[0] = '\0';
    if (fake_now.mono_ns > model_now.mono_ns) {
        model_now.mono_ns = fake_now.mono_ns;
        model_timely = false; /* what is due since then is not done yet */
    }
    compare_all();
    if (!quiet)
        return;
    EXPECT(pools_next_ns(compared_pools) > fake_now.mono_ns, "the pools' timer is late");
    for (unsigned i = 0; i < open_count; i++) {
        const struct client *c = open_clients[i];
        bool full = queued(&c->reply) + queued(&c->after) > 0;
        EXPECT(c->slot == NO_SLOT || full || !model_has_news(c->slot), "client %d has news",
               c->peer.fd);
    }
}

/* ---- beginning and end --------------------------------------------------------------------- */

void start_pools(void)
{
    const struct pools_limits limits = {settings.max, settings.max_members, settings.max_watchers,
                                        settings.max_taken};
    memset(&doing, 0, sizeof(doing));
    memset(pool_users, 0, sizeof(pool_users));
    if (mix.pools == 0)
        return;
    model_random = (struct rng){.state = random_bits()};
    ask_pools = mix.pools;
    ask_members = mix.members;
    compare_make_names();
    compare_start();
    compare_with(services->table, pools_of(services));
    compare_faulty = false;
    model_now = fake_now;
    model_start(&limits, compared_pools->fence);
    observer.owner = &observer;
    observer.tag = UINT64_MAX;
    observer.real = __real_pool_client_new(compared_pools, OBSERVER_ID, observer.tag, &observer);
    CHECK(observer.real && __real_pool_watch(observer.real, bytes_of("*"), false) == POOL_OK);
}

void finish_pools(void)
{
    if (mix.pools == 0)
        return;
    struct pool_effects effects;
    struct pools_sums sums;
    pool_effects_init(&effects);
    compare_pools(false);
    __real_pool_client_end(observer.real, POOL_END_QUIT, NULL, fake_now, &effects);
    observer.real = NULL;
    for (int p = 0; p < M_POOLS; p++) {
        EXPECT(held_by(M_NOBODY, p) == 0 && model_waiting(p, true, true) == 0);
        in_server = true;
        (void)!__real_pool_drop(compared_pools, pool_at(p), one_in(2), fake_now, &effects);
        in_server = false;
    }
    pools_sums(compared_pools, &sums);
    EXPECT(sums.pools == 0 && sums.members == 0 && sums.held == 0 && sums.waiting == 0);
    EXPECT(!effects.clients.first && !effects.woken.first);
}
