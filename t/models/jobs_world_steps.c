/* jobs_world_steps.c - what clients do at random, each step beside the model. */
#include "t/models/jobs_world_internal.h"

#include <limits.h>

/* ---- random choices -------------------------------------------------------------------------- */

static struct m_job *random_job(void)
{
    return model.job_count > 0 ? &model.jobs[below(model.job_count)] : NULL;
}

/* Mostly of one that this client has reserved; sometimes none. */
static uint64_t random_id(int client)
{
    struct m_job *job = NULL;
    for (unsigned n = 0; n < 6; n++) {
        job = random_job();
        if (job && job->now.state == JOB_RESERVED && job->holder == client)
            break;
    }
    return !job || one_in(30) ? below(1 + (uint32_t)atomic_load(&world.jobs->next_id)) : job->id;
}

static int random_tube(void)
{
    return (int)below(M_TUBES);
}

static uint32_t random_pri(void)
{
    static const uint32_t pris[] = {0, 1, 1023, 1024, 5000, UINT32_MAX};
    return pris[below(ARRAY_SIZE(pris))];
}

static uint32_t random_seconds(void)
{
    return one_in(50) ? UINT32_MAX : one_in(10) ? below(1000) : below(6);
}

/* A client that may send a command; M_NONE: none. */
static int random_idle(void)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        int c = (int)below(M_CLIENTS);
        if (model.clients[c].exists && model.clients[c].wait == M_IDLE)
            return c;
    }
    return M_NONE;
}

static struct job_settings random_settings(void)
{
    struct job_settings s = {.given = below(1u << JOB_SETTINGS)};
    s.is[JOB_SETTING_ORDER] = below(3);
    s.is[JOB_SETTING_CLAIM] = below(2);
    s.is[JOB_SETTING_TRIES] = below(4);
    s.is[JOB_SETTING_LIMIT] = one_in(3) ? 1 + below(12) : 0;
    s.is[JOB_SETTING_PRUNE] = below(3) * 4;
    s.is[JOB_SETTING_REMEMBER] = one_in(2) ? 3600 : below(100);
    if (one_in(4))
        strcpy(s.read_only, "it is being moved");
    if (!one_in(3))
        s.given &= ~(1u << JOB_SETTING_READ_ONLY);
    return s;
}

struct world_config world_config_random(void)
{
    struct world_config c = {.jobs = 2 + below(60), .batch = 6, .memory_limit = UINT64_MAX};
    c.rarely = 8;
    c.many_watches = below(4); /* 0: more than there are tubes */
    if (one_in(40)) {
        c.jobs = 1200 + below(1300);
        c.batch = 150;
        c.rarely = 400;
    }
    c.defaults = job_default_settings;
    if (one_in(4)) {
        c.defaults = random_settings();
        c.defaults.read_only[0] = '\0';
        c.defaults.is[JOB_SETTING_LIMIT] = 0;
    }
    c.defaults.given = 0;
    c.keyed = c.jobs < 1000 && one_in(2);
    return c;
}

/* ---- commands -------------------------------------------------------------------------------- */

void world_new_client(int c)
{
    CALL(world.clients[c] = jobs_client_new(world.jobs, (uint64_t)c, &world.clients[c]));
    if (!world_is_refused(world.clients[c] ? JOBS_OK : JOBS_NO_MEMORY))
        m_client_new(c);
}

void world_end_client(int c)
{
    unsigned budget = UINT_MAX;
    struct ring *at;
    CALL_THAT_ENDS(jobs_client_end(world.clients[c], model.now, &world.outbox));
    at = ring_last(&world.jobs->clients); /* the model knows no steps */
    while (at && container_of(at, struct jobs_client, all) != world.clients[c])
        at = at->prev == &world.jobs->clients ? NULL : at->prev;
    if (at && world.clients[c]->ends_on)
        CALL(client_end_on(world.clients[c], &budget, model.now, &world.outbox));
    m_client_end(c);
    world_follow();
}

static struct job_body *new_body(uint64_t id)
{
    uint32_t len = m_body_len(id);
    struct job_body *body;
    bool sized = true;
    CALL(body = job_body_new(world.jobs, JOBS_PUTS, one_in(4) ? len + 5 : len / 2));
    if (body)
        CALL(sized = job_body_resize(world.jobs, JOBS_PUTS, &body, len));
    if (!sized)
        job_body_drop(world.jobs, &body);
    for (uint32_t n = 0; body && n < len; n++)
        body->bytes[n] = (uint8_t)(id + n);
    if (!body && world.disk && !world.config.faulty) /* those that the store has gave way */
        AGREE(atomic_load(&world.jobs->pages_of_bodies) == 0);
    return body;
}

static void random_key(struct job_put *put)
{
    if (world.config.keyed && !one_in(3)) {
        put->key = m_key((int)below(M_KEYS));
        put->has_at = one_in(2);
        put->at_ms = model.wall_ms + 500 - below(5000);
        put->at_whole = one_in(4);
    }
    if (world.config.keyed && one_in(3)) {
        put->root = m_root((int)below(M_ROOTS));
        put->root_ms = model.wall_ms + 4500 - below(9000);
        put->root_whole = one_in(4);
    }
}

static void put_some(int c, size_t count)
{
    static struct job_put puts[JOBS_STEP];
    static struct job_duplicate duplicates[JOBS_STEP], m_duplicates[JOBS_STEP];
    uint32_t most = world.config.jobs > model.job_count ? world.config.jobs - model.job_count : 0;
    size_t made = 0, failed = 0, m_failed;
    enum jobs_status status = JOBS_NO_MEMORY;
    int tube = one_in(3) ? random_tube() : M_NONE;
    if (count > most)
        return;
    uint32_t tries = one_in(4) ? below(4) : JOB_TRIES_OF_TUBE;
    for (; made < count; made++) {
        uint64_t id = jobs_take_ids(world.jobs, 1);
        puts[made] = (struct job_put){.tube = tube == M_NONE ? bytes_at(NULL, 0) : m_name(tube),
                                      .id = id,
                                      .pri = random_pri(),
                                      .delay_s = one_in(3) ? random_seconds() : 0,
                                      .ttr_s = one_in(3) ? below(3) : random_seconds(),
                                      .tries = tries,
                                      .body = new_body(id)};
        random_key(&puts[made]);
        puts[made].duplicate_r = &duplicates[made];
        duplicates[made] = (struct job_duplicate){.is = false};
        if (!puts[made].body)
            break;
    }
    if (made == count) {
        struct ask *ask = world_new_ask(c, JOB_OP_PUT);
        ask->op.puts = puts;
        ask->op.count = count;
        status = world_submit(ask);
        failed = ask->op.failed;
        ask_free(&ask);
    }
    if (status != JOBS_OK) {
        for (size_t n = 0; n < made; n++)
            job_body_drop(world.jobs, &puts[n].body);
    }
    if (world_is_refused(status))
        return;
    AGREE(m_put(c, puts, count, &m_failed, m_duplicates) == status);
    AGREE(status == JOBS_OK || count == 1 || failed == m_failed);
    for (size_t n = 0; n < count && status == JOBS_OK; n++)
        AGREE(duplicates[n].is == m_duplicates[n].is && duplicates[n].of == m_duplicates[n].of);
}

static void put(int c)
{
    put_some(c, one_in(3) ? 1 + below(world.config.batch) : 1);
}

/* Uses the memory for jobs up, with ever fewer at once. */
static void fill(void)
{
    for (size_t count = world.config.batch; count > 0; count /= 3) {
        uint64_t before = world.refusals;
        for (unsigned n = 0; n < 40 && world.refusals == before; n++) {
            int c = random_idle();
            if (c != M_NONE)
                put_some(c, count);
            m_sweep();
        }
    }
}

static void reserve(int c)
{
    bool waits = !one_in(3);
    enum jobs_status status;
    world.views[0].id = 0;
    CALL(status = jobs_reserve(world.clients[c], waits ? NS_PER_S : 0, &world.views[0], model.now));
    if (status == JOBS_WAITS &&
        jobs_read(world.clients[c], &world.views[0])) /* once it was committed */
        status = JOBS_OK;
    AGREE(m_reserve(c, waits, status == JOBS_OK ? world.views[0].id : 0) == status);
    if (status == JOBS_OK)
        world_check_view(&world.views[0], m_find(world.views[0].id));
}

/* What a claim has got once it was committed. */
static enum jobs_status read_claim(int c, size_t *taken_r)
{
    struct job_views *claimed = jobs_take_claimed(world.clients[c]);
    *taken_r = claimed ? claimed->count : jobs_read(world.clients[c], &world.views[0]);
    if (claimed)
        memcpy(world.views, claimed->at, claimed->count * sizeof(world.views[0]));
    job_views_free(world.jobs, &claimed);
    return *taken_r > 0 ? JOBS_OK : JOBS_WAITS;
}

static void claim(int c)
{
    int tubes[M_TUBES];
    struct bytes names[M_TUBES];
    int count = (int)below(4);
    struct job_claim_request request = {.tubes = names,
                                        .tube_count = (size_t)count,
                                        .count =
                                            1 + below(world.config.store ? 6 : world.config.batch),
                                        .timeout_ns = one_in(2) ? JOBS_FOREVER : 0,
                                        .answer_max = one_in(3) ? below(1000) : SIZE_MAX};
    static uint64_t chosen[JOBS_STEP];
    char reason[JOBS_READ_ONLY_MAX + 1];
    size_t taken;
    enum jobs_status status;
    for (int n = 0; n < count; n++) {
        tubes[n] = random_tube();
        names[n] = m_name(tubes[n]);
    }
    CALL(status = jobs_claim(world.clients[c], &request, world.views, &taken, reason, model.now));
    if (world_is_refused(status))
        return;
    if (status == JOBS_WAITS)
        status = read_claim(c, &taken);
    for (size_t n = 0; n < taken; n++)
        chosen[n] = world.views[n].id;
    AGREE(m_claim(c, tubes, count, request.count, request.timeout_ns > 0, request.answer_max,
                  chosen, taken) == status);
    for (size_t n = 0; n < taken; n++)
        world_check_view(&world.views[n], m_find(world.views[n].id));
    if (status == JOBS_READ_ONLY)
        AGREE(strcmp(reason, "it is being moved") == 0);
}

static void reserve_job(int c)
{
    uint64_t id = random_id(c);
    enum jobs_status status = world_act(JOB_RESERVE, c, id, 0, 0, 0);
    if (world_is_refused(status))
        return;
    AGREE(m_reserve_job(c, id) == status);
    if (status == JOBS_OK)
        world_check_view(&world.views[0], m_find(id));
}

void world_delete_id(int c, uint64_t id)
{
    enum jobs_status status = world_act(JOB_DELETE, c, id, 0, 0, 0);
    if (!world_is_refused(status))
        AGREE(m_delete(c, id) == status);
}

static struct m_job *own_job(int c, uint64_t id)
{
    struct m_job *job = m_find(id);
    return job && job->now.state == JOB_RESERVED && job->holder == c ? job : NULL;
}

static void release(int c)
{
    uint64_t id = random_id(c);
    uint32_t pri = random_pri(), delay_s = one_in(3) ? random_seconds() : 0;
    enum jobs_status status = world_act(JOB_RELEASE, c, id, 0, pri, delay_s);
    struct m_job *job = own_job(c, id);
    if (!world_is_refused(status))
        AGREE((job ? m_release(job, pri, delay_s) : JOBS_NOT_FOUND) == status);
}

void world_bury(int c)
{
    uint64_t id = random_id(c);
    uint32_t pri = random_pri();
    enum jobs_status status = world_act(JOB_BURY, c, id, 0, pri, 0);
    if (!world_is_refused(status))
        AGREE(m_bury(c, id, pri) == status);
}

static void touch(int c)
{
    uint64_t id = random_id(c);
    enum jobs_status status = world_act(JOB_TOUCH, c, id, 0, 0, 0);
    struct m_job *job = own_job(c, id);
    if (world_is_refused(status))
        return;
    AGREE((job ? JOBS_OK : JOBS_NOT_FOUND) == status);
    if (!job)
        return;
    m_touch(job);
    if (one_in(4)) /* the job keeps its place in the order of reserving */
        world_end_client(c);
}

/* A job with a token that is good, of an earlier reservation, or any number. */
static struct m_job *random_token(uint64_t *id_r, uint64_t *token_r)
{
    struct m_job *job = random_job();
    *id_r = job ? job->id : 1;
    *token_r = job && job->now.token && !one_in(8) ? job->now.token
               : job && job->old_token             ? job->old_token
                                                   : below(3);
    return job && job->now.state == JOB_RESERVED && job->now.token && *token_r == job->now.token
               ? job
               : NULL;
}

static void by_token(void)
{
    uint64_t id, token;
    struct m_job *job = random_token(&id, &token);
    if (!job && m_find(id) && m_find(id)->now.state == JOB_RESERVED && !m_find(id)->now.token)
        token = 0; /* nobody has seen its token */
    static const enum job_verb verbs[] = {JOB_ACK, JOB_NACK, JOB_RENEW};
    enum job_verb verb = verbs[below(ARRAY_SIZE(verbs))];
    uint32_t delay_s = random_seconds();
    enum jobs_status status = world_act(verb, M_NONE, id, token, 0, delay_s);
    if (world_is_refused(status))
        return;
    AGREE(job || status == JOBS_NOT_FOUND);
    if (job && verb == JOB_NACK)
        AGREE(status == m_release(job, job->now.pri, delay_s));
    else if (job)
        AGREE(status == JOBS_OK);
    if (job && verb == JOB_ACK)
        m_ack(job);
    else if (job && verb == JOB_RENEW)
        m_touch(job);
}

static void kick(int c)
{
    struct jobs_kick kick = {.left = one_in(20) ? UINT32_MAX : below(8)};
    uint32_t bound = kick.left;
    struct ask *ask = world_new_ask(c, JOB_OP_KICK);
    enum jobs_status status = JOBS_WAITS;
    ask->op.kick = &kick;
    for (unsigned n = 0; n < M_JOBS && status == JOBS_WAITS; n++)
        status = world_submit(ask);
    ask_free(&ask);
    if (world_is_refused(status)) /* after some steps, maybe */
        bound = kick.kicked;
    else
        AGREE(status == JOBS_OK);
    AGREE(kick.kicked == m_kick(c, bound));
}

static void kick_job(int c)
{
    uint64_t id = random_id(c);
    enum jobs_status status = world_act(JOB_KICK, M_NONE, id, 0, 0, 0);
    if (!world_is_refused(status))
        AGREE(m_kick_job(id) == status);
}

static void change_watches(int c)
{
    int tube = random_tube();
    uint32_t count = 0;
    enum jobs_status status;
    switch (below(3)) {
    case 0:
        CALL(status = jobs_use(world.clients[c], m_name(tube)));
        if (!world_is_refused(status))
            m_use(c, tube);
        return;
    case 1:
        CALL(status = jobs_watch(world.clients[c], m_name(tube), &count));
        if (!world_is_refused(status))
            m_watch(c, tube);
        break;
    default:
        CALL(status = jobs_ignore(world.clients[c], m_name(tube), &count));
        AGREE(m_ignore(c, tube) == status);
    }
    AGREE(count == (uint32_t)model.clients[c].watch_count);
}

void world_pause_for(int tube, uint32_t seconds)
{
    struct ask *ask = world_new_ask(M_NONE, JOB_OP_PAUSE);
    ask->op.tube = m_name(tube);
    ask->op.seconds = seconds;
    enum jobs_status status = world_submit(ask);
    ask_free(&ask);
    AGREE(world.config.store || status != JOBS_NO_MEMORY);
    if (!world_is_refused(status))
        AGREE(m_pause(tube, seconds) == status);
}

static void pause_tube(void)
{
    int tube = random_tube();
    uint32_t seconds = one_in(2) ? 0 : random_seconds();
    world_pause_for(tube, seconds);
}

bool world_set_to(int tube, const struct job_settings *settings)
{
    struct ask *ask = world_new_ask(M_NONE, JOB_OP_SET_TUBE);
    ask->op.tube = m_name(tube);
    ask->op.settings = settings;
    enum jobs_status status = world_submit(ask);
    ask_free(&ask);
    if (world_is_refused(status))
        return false;
    AGREE(status == JOBS_OK);
    m_set(tube, settings);
    world_follow();
    return true;
}

static void set_tube(void)
{
    int tube = random_tube();
    struct job_settings settings = random_settings();
    if (one_in(2)) /* back to how it was, so that tubes may vanish */
        settings = model.defaults, settings.given = (1u << JOB_SETTINGS) - 1;
    if (settings.given)
        (void)world_set_to(tube, &settings);
}

void world_set_defaults(const struct job_settings *defaults)
{
    uint64_t place = 0;
    bool done = false;
    while (!done)
        CALL(done = jobs_set_defaults(world.jobs, defaults, &place, model.now, &world.outbox));
    m_set_defaults(defaults);
    world_follow();
}

static void set_any_defaults(void)
{
    struct job_settings defaults = random_settings();
    defaults.given = 0;
    world_set_defaults(&defaults);
}

void world_clear_tube(int tube, unsigned state)
{
    struct jobs_clear clear = {.deleted = 0};
    uint64_t deleted;
    enum jobs_status status = JOBS_WAITS;
    struct ask *ask = world_new_ask(M_NONE, JOB_OP_CLEAR);
    ask->op.tube = m_name(tube);
    ask->op.state = state;
    ask->op.clear = &clear;
    for (unsigned n = 0; n < M_JOBS && status == JOBS_WAITS; n++)
        status = world_submit(ask);
    AGREE(world.config.store || status != JOBS_NO_MEMORY);
    ask_free(&ask);
    if (world_is_refused(status)) {
        AGREE(clear.deleted == 0);
        return;
    }
    AGREE(m_clear(tube, state, &deleted) == status && deleted == clear.deleted);
    world_follow();
}

static void peek(int c)
{
    enum job_peek what = (enum job_peek)below(3);
    struct m_job *job;
    enum jobs_status status;
    if (one_in(2)) {
        uint64_t id = random_id(c);
        CALL(status = jobs_peek(world.jobs, id, &world.views[0]));
        job = m_find(id);
    } else {
        int tube = model.clients[c].used;
        CALL(status = jobs_peek_next(world.clients[c], what, &world.views[0]));
        if (what == JOB_PEEK_READY)
            job = m_count(tube, JOB_READY) > 0 ? m_peek(tube, world.views[0].id) : NULL;
        else
            job = m_first(tube, what);
    }
    AGREE(status == (job ? JOBS_OK : JOBS_NOT_FOUND));
    if (job)
        world_check_view(&world.views[0], job);
}

static bool is_listed(const struct m_job *job, int tube, unsigned state, uint64_t after)
{
    return job->tube == tube && job->id > after &&
           (state == JOBS_ALL || job->now.state == state ||
            (state == JOB_BURIED && job->now.state == JOB_ABANDONED));
}

static void list(void)
{
    int tube = random_tube();
    unsigned state = below(JOBS_ALL + 1);
    uint64_t after = one_in(2) ? 0 : below((uint32_t)atomic_load(&world.jobs->next_id)), next;
    size_t limit = 1 + below(one_in(4) ? JOBS_STEP : 6), count, bytes = 0;
    size_t answer_max = one_in(3) ? below(500) : SIZE_MAX;
    enum jobs_status status;
    if (one_in(20))
        after = UINT64_MAX;
    CALL(status = jobs_list(world.jobs, m_name(tube), state, after, limit, answer_max, world.views,
                            &count, &next));
    AGREE(status == (model.tubes[tube].exists ? JOBS_OK : JOBS_NOT_FOUND));
    AGREE(count <= limit);
    for (size_t n = 0; n <= count; n++) {
        struct m_job *first = NULL;
        for (unsigned i = 0; i < model.job_count; i++) {
            struct m_job *job = &model.jobs[i];
            if (is_listed(job, tube, state, after) && (!first || job->id < first->id))
                first = job;
        }
        if (n == count) {
            AGREE(next == (first ? after : 0));
            AGREE(!first || count == limit ||
                  (count > 0 && bytes + JOBS_LINE + M_BODY_MAX > answer_max));
            break;
        }
        AGREE(first);
        bytes += JOBS_LINE + m_body_len(first->id);
        AGREE(n == 0 || bytes <= answer_max);
        after = first->id;
        world_check_view(&world.views[n], first);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void command(int c)
{
    uint32_t what = below(100);
    if (what < 22)
        put(c);
    else if (what < 38)
        reserve(c);
    else if (what < 47)
        claim(c);
    else if (what < 51)
        reserve_job(c);
    else if (what < 60)
        world_delete_id(c, random_id(c));
    else if (what < 69)
        release(c);
    else if (what < 74)
        world_bury(c);
    else if (what < 78)
        touch(c);
    else if (what < 80)
        kick(c);
    else if (what < 83)
        kick_job(c);
    else if (what < 91)
        change_watches(c);
    else if (what < 97)
        peek(c);
    else
        list();
}

/* What does not ask for an idle client. */
static void other_step(void)
{
    int c = (int)below(M_CLIENTS);
    switch (below(8)) {
    case 0:
        if (!model.clients[c].exists)
            world_new_client(c);
        else if (one_in(4))
            world_end_client(c);
        break;
    case 1:
        if (model.clients[c].exists && model.clients[c].wait != M_IDLE)
            world_end_wait(c);
        break;
    case 2:
        if (world.message_count > 0)
            world_deliver(below(world.message_count));
        break;
    case 3:
    case 4:
        by_token();
        break;
    case 5:
        pause_tube();
        break;
    case 6:
        if (one_in(20))
            set_any_defaults();
        else
            set_tube();
        break;
    default:
        if (one_in(world.config.jobs > 100 ? 100 : 10))
            world_clear_tube(random_tube(), below(JOBS_ALL + 1));
    }
}

void world_step(void)
{
    int c;
    model_step++;
    if (world.disk && world.config.memory_limit != UINT64_MAX && one_in(30)) {
        fill();
    } else if (one_in(4)) {
        world_move_time();
    } else {
        if (!one_in(4)) /* few deadlines are equal */
            world_set_time(model.now.mono_ns + 1 + below(2000));
        if (one_in(4))
            other_step();
        else if ((c = random_idle()) != M_NONE)
            command(c);
        else
            other_step();
    }
    world_compare_some();
}
