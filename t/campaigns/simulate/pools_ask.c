/*
 * pools_ask.c - requests of pools: what clients say, in the numbers of the model and as lines; and
 * the answers, as far as the engine's answer (pools_beside.c) does not make them.
 */
#include "t/campaigns/simulate/pools_beside.h"

/* ---- what there is ------------------------------------------------------------------------- */

/* Mostly one of this kind. */
static int some_pool_of(unsigned kind)
{
    int p = some_pool();
    for (unsigned n = 0; n < mix.pools && model_pools[p].options.kind != kind && !one_in(10); n++)
        p = some_pool();
    return p;
}

/* What is missing, to be made first; TEXT_BAD: nothing is. */
static enum request_kind missing(void)
{
    int p = (int)below(mix.pools);
    const struct m_pool *pool = &model_pools[p];
    if (!pool->there)
        return one_in(3) ? TEXT_POOL_ADD : TEXT_BAD;
    if (model_member_count(p) > mix.members / 2 || !one_in(3))
        return TEXT_BAD;
    return pool->options.kind == POOL_JOINED ? TEXT_JOIN : TEXT_MEMBER_ADD;
}

enum request_kind some_pools_verb(const struct client *c)
{
    static const struct {
        unsigned weight; /* of a hundred */
        enum request_kind kind;
    } verbs[] = {
        {33, TEXT_TAKE},      {26, TEXT_RETURN},    {8, TEXT_JOIN},        {4, TEXT_SUPPLY},
        {9, TEXT_MEMBER_ADD}, {5, TEXT_MEMBER_SET}, {3, TEXT_MEMBER_DROP}, {3, TEXT_POOL_ADD},
        {2, TEXT_POOL_SET},   {1, TEXT_POOL_DROP},  {1, TEXT_POOL_SHOW},   {1, TEXT_POOL_LIST},
        {2, TEXT_WATCH},      {1, TEXT_BAD_VERB},   {1, TEXT_QUIT},
    };
    enum request_kind first = missing();
    if (first != TEXT_BAD)
        return first;
    if (c->slot != NO_SLOT && model_clients[c->slot].hold_count > 4 && one_in(2))
        return TEXT_RETURN;
    if (waits_for_members(c) && one_in(6)) /* the wait may end meanwhile */
        return one_in(2) ? TEXT_POOL_SHOW : TEXT_POOL_LIST;
    unsigned at = below(100), k = 0;
    while (at >= verbs[k].weight)
        at -= verbs[k++].weight;
    /* What takes much away is rarer than one in a hundred. */
    if (verbs[k].kind == TEXT_POOL_DROP && !one_in(6))
        return TEXT_MEMBER_ADD;
    return verbs[k].kind;
}

/* ---- requests ------------------------------------------------------------------------------ */

/* Says attributes. */
static void put_pairs(struct pool_request *req, const bool *sets, const unsigned *values)
{
    struct pool_attribute at[M_KEYS];
    req->pair_count = put_attributes(sets, values, at);
    for (size_t n = 0; n < req->pair_count; n++)
        req->pairs[n] = (struct pool_pair){at[n].key, at[n].value};
}

static void ask_take(struct m_take *take, struct pool_request *req)
{
    bool sets[M_KEYS];
    unsigned values[M_KEYS];
    *take = random_take(one_in(3) ? 0 : some_timeout());
    req->group = take->group ? bytes_of(take->group) : bytes_at(NULL, 0);
    req->target_count = take->target_count;
    for (unsigned n = 0; n < take->target_count; n++)
        req->targets[n] = pool_at(take->targets[n]);
    for (int k = 0; k < M_KEYS; k++) {
        sets[k] = take->ask.with[k] != M_NOBODY;
        values[k] = sets[k] ? (unsigned)take->ask.with[k] : 0;
    }
    put_pairs(req, sets, values);
    if (take->ask.member != M_NOBODY)
        req->member = member_at(take->ask.member);
    req->count = take->ask.count;
    req->take_for = (enum pool_take_for)take->ask.what;
    req->by = text_at(take->ask.by);
    req->timeout_ns = take->timeout_ns;
}

static void ask_return(const struct client *c, struct pools_ask *ask, struct pool_request *req)
{
    const struct m_client *m = c->slot == NO_SLOT ? NULL : &model_clients[c->slot];
    ask->give.ok = !one_in(3);
    if (m && m->hold_count > 0 && one_in(2)) {
        ask->give.has_fence = true;
        ask->give.fence = m->holds[below(m->hold_count)].fence;
    } else if (one_in(10)) {
        ask->give.has_fence = true;
        ask->give.fence = one_in(4) ? 0 : model_fence - below(3);
    }
    req->has_fence = ask->give.has_fence;
    req->fence = ask->give.fence;
    req->failed = !ask->give.ok;
}

static void ask_new(int p, struct m_new_member *new, struct pool_request *req)
{
    *new = random_new(p);
    put_pairs(req, new->sets, new->attributes);
    req->pool = pool_at(p);
    req->member = member_at(new->member);
    req->value = text_at(new->value);
}

static void ask_change(struct m_change *change, struct pool_request *req)
{
    *change = random_change();
    put_pairs(req, change->sets, change->attributes);
    if (req->pair_count == 0 && !change->sets_value && !change->sets_note)
        change->sets_state = true;
    req->has_value = change->sets_value;
    req->has_note = change->sets_note;
    req->has_state = change->sets_state;
    if (change->sets_value)
        req->value = text_at(change->value);
    if (change->sets_note)
        req->note = text_at(change->note);
    if (change->sets_state)
        req->state =
            bytes_of(change->state == MEMBER_GONE ? "taken" : pool_state_word(change->state));
    req->pool = pool_at(change->pool);
    req->member = member_at(change->member);
    req->now = change->now;
}

static void ask_drop(const struct client *c, struct pools_ask *ask, struct pool_request *req)
{
    int p = some_pool(), i = some_member(p);
    for (unsigned n = 0; n < M_MEMBERS && c->slot != NO_SLOT && one_in(2); n++) { /* its own */
        if (model_pools[p].members[n].there && model_pools[p].members[n].joiner == c->slot)
            i = (int)n;
    }
    ask->drop.pool = p;
    ask->drop.member = i;
    ask->drop.now = one_in(2);
    req->pool = pool_at(p);
    req->member = member_at(i);
    req->now = ask->drop.now;
}

static void ask_supply(struct pools_ask *ask, struct pool_request *req)
{
    ask->supply.pool = some_pool_of(POOL_JOINED);
    random_supply(&ask->supply.init, &ask->supply.max);
    req->pool = pool_at(ask->supply.pool);
    req->init = ask->supply.init;
    req->max = ask->supply.max;
}

/* Times of milliseconds. */
static void make_shorter(struct pool_options *o)
{
    int64_t *times[] = {&o->clean_after_ns,  &o->hold_warn_ns,      &o->hold_max_ns,
                        &o->cull_after_ns,   &o->start_timeout_ns,  &o->stop_timeout_ns,
                        &o->max_lifetime_ns, &o->lifetime_jitter_ns};
    for (size_t n = 0; n < ARRAY_SIZE(times); n++)
        *times[n] /= 1000;
}

/* Says some options of random ones; at times one with a wrong value. */
static void ask_options(bool adds, struct pools_ask *ask, struct pool_request *req)
{
    int p = adds ? (int)below(mix.pools) : some_pool();
    unsigned kind = adds ? below(2) : model_pools[p].options.kind, count = below(OPTIONS_SAID + 1);
    struct pool_options o = random_pool_options(kind, mix.members);
    uint32_t said = 0;
    ask->options.pool = p;
    if (one_in(2))
        make_shorter(&o);
    if (adds && kind == POOL_JOINED && count == 0)
        count = 1;
    if (!adds && count == 0)
        count = 1;
    for (unsigned n = 0; n < count; n++) {
        enum pool_option option = (enum pool_option)below(POOL_OPTION_COUNT);
        if (n == 0 && adds && kind == POOL_JOINED)
            option = POOL_OPTION_KIND;
        if (said >> option & 1 || (!pool_option_is_of(option, kind) && !one_in(20)) ||
            (option == POOL_OPTION_KIND && !adds && !one_in(20)))
            continue;
        said |= UINT32_C(1) << option;
        unsigned k = ask->options.count++;
        char *text = ask->options.text[k];
        ask->options.option[k] = option;
        if (option == POOL_OPTION_GROUP)
            snprintf(text, POOL_OPTION_TEXT, "%s", o.group ? o.group : "-");
        else
            pool_option_text(&o, option, text);
        if (one_in(60))
            snprintf(text, POOL_OPTION_TEXT, "@wrong");
        req->pairs[req->pair_count++] =
            (struct pool_pair){bytes_of(pool_option_name(option)), bytes_of(text)};
    }
    if (!adds && ask->options.count == 0) { /* POOL SET needs one */
        ask->options.count = 1;
        ask->options.option[0] = POOL_OPTION_MAX;
        pool_option_text(&o, POOL_OPTION_MAX, ask->options.text[0]);
        req->pairs[req->pair_count++] =
            (struct pool_pair){bytes_of("max"), bytes_of(ask->options.text[0])};
    }
    req->pool = pool_at(p);
}

static size_t put_bad(struct pools_ask *ask, char *to, size_t room)
{
    static const struct {
        const char *line;
        enum pool_reply reply;
    } bad[] = {
        {"TAKE", POOL_REPLY_BAD_COMMAND},
        {"TAKE db count=0", POOL_REPLY_BAD_SYNTAX},
        {"TAKE db,db 5", POOL_REPLY_BAD_SYNTAX},
        {"RETURN x", POOL_REPLY_BAD_SYNTAX},
        {"RETURN 1 maybe", POOL_REPLY_BAD_SYNTAX},
        {"SUPPLY db 3 2", POOL_REPLY_BAD_SYNTAX},
        {"JOIN db", POOL_REPLY_BAD_SYNTAX},
        {"WATCH db all", POOL_REPLY_BAD_SYNTAX},
        {"POOL ADD db speed=9", POOL_REPLY_BAD_SYNTAX},
        {"QUIT now", POOL_REPLY_BAD_SYNTAX},
    };
    unsigned n = below(ARRAY_SIZE(bad));
    ask->bad = bad[n].reply;
    return (size_t)snprintf(to, room, "%s\n", bad[n].line);
}

static const enum pool_verb verbs[] = {
    [TEXT_TAKE] = POOL_VERB_TAKE,
    [TEXT_RETURN] = POOL_VERB_RETURN,
    [TEXT_JOIN] = POOL_VERB_JOIN,
    [TEXT_SUPPLY] = POOL_VERB_SUPPLY,
    [TEXT_MEMBER_ADD] = POOL_VERB_MEMBER_ADD,
    [TEXT_MEMBER_SET] = POOL_VERB_MEMBER_SET,
    [TEXT_MEMBER_DROP] = POOL_VERB_MEMBER_DROP,
    [TEXT_POOL_ADD] = POOL_VERB_POOL_ADD,
    [TEXT_POOL_SET] = POOL_VERB_POOL_SET,
    [TEXT_POOL_DROP] = POOL_VERB_POOL_DROP,
    [TEXT_POOL_SHOW] = POOL_VERB_POOL_SHOW,
    [TEXT_POOL_LIST] = POOL_VERB_POOL_LIST,
    [TEXT_WATCH] = POOL_VERB_WATCH,
    [TEXT_QUIT] = POOL_VERB_QUIT,
};

size_t put_pools(struct client *c, struct request *r, char *to, size_t room)
{
    static struct pool_request req;
    if (!c->asks)
        c->asks = calloc(DEPTH, sizeof(*c->asks));
    CHECK(c->asks);
    struct pools_ask *ask = &c->asks[c->tail % DEPTH];
    memset(ask, 0, sizeof(*ask));
    memset(&req, 0, sizeof(req));
    if (r->kind == TEXT_BAD_VERB)
        return put_bad(ask, to, room);
    req.verb = verbs[r->kind];
    switch (r->kind) {
    case TEXT_TAKE:
        ask_take(&ask->take, &req);
        break;
    case TEXT_RETURN:
        ask_return(c, ask, &req);
        break;
    case TEXT_JOIN:
        ask_new(some_pool_of(POOL_JOINED), &ask->new, &req);
        break;
    case TEXT_MEMBER_ADD:
        ask_new(some_pool_of(POOL_STATIC), &ask->new, &req);
        break;
    case TEXT_MEMBER_SET:
        ask_change(&ask->change, &req);
        break;
    case TEXT_MEMBER_DROP:
        ask_drop(c, ask, &req);
        break;
    case TEXT_SUPPLY:
        ask_supply(ask, &req);
        break;
    case TEXT_POOL_ADD:
    case TEXT_POOL_SET:
        ask_options(r->kind == TEXT_POOL_ADD, ask, &req);
        break;
    case TEXT_POOL_DROP:
        ask->drop.pool = some_pool();
        req.now = ask->drop.now = one_in(2);
        req.pool = pool_at(ask->drop.pool);
        break;
    case TEXT_POOL_SHOW:
        ask->pool = some_pool();
        req.pool = pool_at(ask->pool);
        break;
    case TEXT_WATCH:
        ask->watch.pool = one_in(3) ? M_NOBODY : some_pool();
        req.mine = ask->watch.mine = one_in(2);
        if (ask->watch.pool != M_NOBODY)
            req.pool = pool_at(ask->watch.pool);
        break;
    default: /* LIST, QUIT */
        break;
    }
    if ((r->kind == TEXT_POOL_SHOW || r->kind == TEXT_POOL_LIST) && mix.slow && one_in(2))
        c->peer.window = below(30); /* so that it takes longer */
    size_t len = pool_compose_request(&req, (uint8_t *)to, room);
    CHECK(len > 0);
    return len;
}

/* ---- answers ------------------------------------------------------------------------------- */

void expect_pool_reply(enum pool_reply reply)
{
    struct bytes line = pool_reply_line(reply);
    expect_bytes(line.data, line.len);
}

void expect_bad_value(const char *name)
{
    uint8_t line[POOLS_BAD_VALUE_ROOM];
    expect_bytes(line, pool_compose_bad_value(bytes_of(name), line, sizeof(line)));
}

enum pool_reply reply_of_status(enum pool_status status, enum pool_reply ok)
{
    static const enum pool_reply replies[] = {
        [POOL_TIMES_OUT] = POOL_REPLY_TIMEOUT,
        [POOL_QUEUE_FULL] = POOL_REPLY_QUEUE_FULL,
        [POOL_GONE] = POOL_REPLY_GONE,
        [POOL_NOT_TAKEN] = POOL_REPLY_NOT_TAKEN,
        [POOL_DENIED] = POOL_REPLY_DENIED,
        [POOL_NO_POOL] = POOL_REPLY_NO_POOL,
        [POOL_WRONG_KIND] = POOL_REPLY_WRONG_KIND,
        [POOL_NO_MEMBER] = POOL_REPLY_NO_MEMBER,
        [POOL_EXISTS] = POOL_REPLY_EXISTS,
        [POOL_TOO_MANY] = POOL_REPLY_TOO_MANY,
        [POOL_FULL] = POOL_REPLY_POOL_FULL,
        [POOL_NO_MEMORY] = POOL_REPLY_OUT_OF_MEMORY,
    };
    EXPECT(status != POOL_WAITS && status != POOL_BAD_STATE);
    return status == POOL_OK ? ok : replies[status];
}

enum pool_option asked_options(const struct pools_ask *ask, bool adds,
                               const struct pool_options *is, struct pool_options *to_r)
{
    pool_option_set given = 0;
    enum pool_option wrong = POOL_OPTION_COUNT;
    if (adds)
        pool_options_init(to_r);
    else
        CHECK(pool_options_copy(to_r, is));
    for (unsigned n = 0; n < ask->options.count && wrong == POOL_OPTION_COUNT; n++) {
        enum pool_option option = ask->options.option[n];
        if (pool_options_set(to_r, &given, bytes_of(pool_option_name(option)),
                             bytes_of(ask->options.text[n])) != POOL_OPTION_GOOD)
            wrong = option;
    }
    if (wrong == POOL_OPTION_COUNT && pool_options_fit(to_r, given, !adds, &wrong))
        wrong = POOL_OPTION_COUNT;
    unsigned group = 0;
    while (to_r->group && strcmp(group_names[++group], to_r->group) != 0)
        continue;
    pool_options_free(to_r);
    to_r->group = unconst(group_names[group]);
    return wrong;
}

void begin_pools(struct client *c, const struct request *r)
{
    CHECK(!doing.c);
    doing = (struct doing){.c = c, .r = r};
    result->pool_requests += is_of_pools(r->kind);
    if (is_of_pools(r->kind))
        doing.ask = &c->asks[c->head % DEPTH];
    doing.waited = waits_for_members(c) || c->has.wait.state != WAIT_NONE;
    doing.in_line = waits_for_members(c) && model_clients[c->slot].wait.state == M_IN_LINE;
    if (r->kind == TEXT_QUIT)
        model_quit(&model, &c->has);
}

void end_pools(void)
{
    doing = (struct doing){.c = NULL};
}

/* The answer to a RETURN. */
static enum pool_reply returned(void)
{
    EXPECT(doing.wait_ended == (doing.in_line && !doing.ask->give.has_fence));
    if (doing.wait_ended) {
        EXPECT(!doing.called);
        return POOL_REPLY_RETURNED;
    }
    EXPECT(doing.called ==
           (doing.c->slot != NO_SLOT && (!doing.ask->give.has_fence || doing.ask->give.fence > 0)));
    return doing.called ? reply_of_status(doing.status, POOL_REPLY_RETURNED) : POOL_REPLY_NOT_TAKEN;
}

/* The answer to POOL ADD and SET when the engine was not called; POOL_REPLY_OK: it should have
 * been.
 */
static enum pool_reply options_error(bool adds)
{
    const struct m_pool *pool = &model_pools[doing.ask->options.pool];
    struct pool_options to;
    if (!is_operator(doing.c))
        return POOL_REPLY_DENIED;
    if (adds == pool->there)
        return adds ? POOL_REPLY_EXISTS : POOL_REPLY_NO_POOL;
    enum pool_option wrong = asked_options(doing.ask, adds, &pool->options, &to);
    if (wrong == POOL_OPTION_COUNT)
        return POOL_REPLY_OK;
    expect_bad_value(pool_option_name(wrong));
    return POOL_REPLY_BAD_VALUE;
}

/* Why the engine was not called; POOL_REPLY_OK: it should have been. */
static enum pool_reply error_of(const struct client *c, const struct request *r)
{
    switch (r->kind) {
    case TEXT_TAKE:
        return draining       ? POOL_REPLY_SHUTTING_DOWN
               : doing.waited ? POOL_REPLY_WAIT_FOR_RESPONSE
                              : POOL_REPLY_OK;
    case TEXT_JOIN:
    case TEXT_SUPPLY:
        if (draining)
            return POOL_REPLY_SHUTTING_DOWN;
        return is_supplier(c) ? POOL_REPLY_OK : POOL_REPLY_DENIED;
    case TEXT_MEMBER_ADD:
    case TEXT_MEMBER_SET:
    case TEXT_POOL_DROP:
        return is_operator(c) ? POOL_REPLY_OK : POOL_REPLY_DENIED;
    case TEXT_POOL_ADD:
    case TEXT_POOL_SET:
        return options_error(r->kind == TEXT_POOL_ADD);
    case TEXT_POOL_SHOW:
        return model_pools[doing.ask->pool].there ? POOL_REPLY_OK : POOL_REPLY_NO_POOL;
    case TEXT_BAD_VERB:
        return doing.ask->bad;
    default:
        return POOL_REPLY_OK;
    }
}

/* True if the answer is that there is no memory, and that may be. */
static bool lacks_memory(const struct client *c, const struct request *r, unsigned long before)
{
    struct bytes line = pool_reply_line(POOL_REPLY_OUT_OF_MEMORY);
    if (doing.called || !was_replied(c, line.data, line.len))
        return false;
    EXPECT(r->kind != TEXT_RETURN && r->kind != TEXT_MEMBER_DROP && r->kind != TEXT_POOL_DROP &&
           r->kind != TEXT_QUIT && r->kind != TEXT_BAD_VERB);
    EXPECT(may_lack_memory(before), "there was memory");
    result->out_of_memory++;
    return true;
}

void expect_pools(struct client *c, const struct request *r, unsigned long faults_before)
{
    if (r->kind == TEXT_RETURN) {
        expect_pool_reply(returned());
        return;
    }
    if (r->kind == TEXT_QUIT) {
        expect_pool_reply(POOL_REPLY_BYE);
        return;
    }
    if (doing.called || lacks_memory(c, r, faults_before)) {
        if (!doing.called)
            expect_pool_reply(POOL_REPLY_OUT_OF_MEMORY);
        return;
    }
    enum pool_reply error = error_of(c, r);
    if (error != POOL_REPLY_OK) {
        if (error != POOL_REPLY_BAD_VALUE)
            expect_pool_reply(error);
        return;
    }
    EXPECT(r->kind == TEXT_POOL_SHOW || r->kind == TEXT_POOL_LIST,
           "the engine was not called: \"%.*s\"", (int)queued(&c->said),
           (const char *)unchecked(c));
    begin_listing(c, r->kind == TEXT_POOL_SHOW, r->kind == TEXT_POOL_SHOW ? doing.ask->pool : 0);
    EXPECT(!look_at_listing(c));
}

void begin_pools_timeout(struct client *c)
{
    CHECK(!doing.c);
    doing = (struct doing){.c = c, .timeout = true};
    doing.in_line = model_clients[c->slot].wait.state == M_IN_LINE;
}

void expect_pools_timeout(struct client *c)
{
    EXPECT(doing.in_line == doing.wait_ended || !waits_for_members(c));
    if (doing.wait_ended)
        expect_pool_reply(POOL_REPLY_TIMEOUT);
    EXPECT(!waits_for_members(c));
    end_pools();
}
