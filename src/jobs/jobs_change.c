/* jobs_change.c - what clients do with jobs and tubes, but for reserving (jobs_take.c). */
#include "jobs/jobs_inside.h"

#include <string.h>

/* ---- ends of reservations
 * ---------------------------------------------------------------------------- */

uint64_t next_burial(const struct jobs *jobs, struct moment now)
{
    uint64_t now_ns = (uint64_t)(BURIAL_BASE + now.mono_ns), next = jobs->last_burial + 1;
    return now_ns > next ? now_ns : next;
}

void job_bury(struct jobs *jobs, uint32_t handle, enum job_state state, uint32_t pri,
              struct moment now)
{
    jobs->last_burial = next_burial(jobs, now);
    job_move(jobs, handle, state, (struct job_place){.turn = jobs->last_burial, .pri = pri});
}

/* A reservation ends, and the job is not done. */
static bool give_back(struct jobs *jobs, uint32_t handle, uint32_t pri, uint32_t delay_s,
                      struct moment now)
{
    struct job *job = job_at(jobs, handle);
    job->token = 0;
    if (job->last_try) {
        job_bury(jobs, handle, JOB_ABANDONED, pri, now);
        job->tube->given_up++;
        return true;
    }
    if (delay_s > 0)
        job_move(jobs, handle, JOB_DELAYED,
                 (struct job_place){.turn = (uint64_t)after_seconds(now, delay_s), .pri = pri});
    else
        job_move(jobs, handle, JOB_READY, (struct job_place){.pri = pri});
    return false;
}

bool job_give_back(struct jobs *jobs, uint32_t handle, uint32_t delay_s, struct moment now)
{
    return give_back(jobs, handle, job_at(jobs, handle)->pri, delay_s, now);
}

/* Deletes a job, and its tube with its last job. */
static void delete_job(struct jobs *jobs, uint32_t handle, struct moment now)
{
    struct tube *tube = job_at(jobs, handle)->tube;
    bool done = job_at(jobs, handle)->state == JOB_RESERVED;
    if (done)
        job_keys_executed(jobs, job_at(jobs, handle), now);
    job_remove(jobs, handle, now);
    tube->acks += done;
    tube_drop_if_unused(jobs, tube);
}

/* Releases a reserved job. */
static enum jobs_status release_job(struct jobs *jobs, uint32_t handle, uint32_t pri,
                                    uint32_t delay_s, struct moment now,
                                    struct jobs_effects *effects)
{
    struct job *job = job_at(jobs, handle);
    struct tube *tube = job->tube;
    bool abandoned = give_back(jobs, handle, pri, delay_s, now);
    if (!abandoned) {
        job->delay_s = delay_s;
        job->releases++;
    }
    tube_serve(jobs, tube, now, effects);
    return abandoned ? JOBS_BURIED : JOBS_OK;
}

static void touch_job(struct jobs *jobs, uint32_t handle, struct moment now)
{
    const struct job *job = job_at(jobs, handle);
    job_move(jobs, handle, JOB_RESERVED,
             (struct job_place){.turn = (uint64_t)after_seconds(now, job->ttr_s),
                                .holder = job->holder,
                                .pri = job->pri});
}

/* ---- changes of one job ------------------------------------------------------------------------
 */

bool job_act_fits(const struct jobs *jobs, const struct job_act *act, const struct job *job)
{
    bool reserved = job->state == JOB_RESERVED;
    switch (act->verb) {
    case JOB_DELETE:
        return !reserved || job->holder == act->client;
    case JOB_RELEASE:
    case JOB_BURY:
    case JOB_TOUCH:
        return job->holder == act->client; /* the holder of others is NULL */
    case JOB_ACK:
    case JOB_NACK:
    case JOB_RENEW:
        return reserved && job->token == act->token;
    case JOB_KICK:
        return !reserved && job->state != JOB_READY && !*tube_read_only(jobs, job->tube);
    default:
        return !reserved && !*tube_read_only(jobs, job->tube);
    }
}

enum jobs_status job_act_make(struct jobs *jobs, const struct job_act *act, uint32_t handle,
                              struct moment now, struct jobs_effects *effects)
{
    struct job *job = job_at(jobs, handle);
    struct tube *tube = job->tube;
    switch (act->verb) {
    case JOB_DELETE:
        tube->cmd_delete++;
        delete_job(jobs, handle, now);
        break;
    case JOB_ACK:
        delete_job(jobs, handle, now);
        break;
    case JOB_RELEASE:
        return release_job(jobs, handle, act->pri, act->delay_s, now, effects);
    case JOB_NACK:
        return release_job(jobs, handle, job->pri, act->delay_s, now, effects);
    case JOB_BURY:
        job->token = 0;
        job->buries++;
        job_bury(jobs, handle, JOB_BURIED, act->pri, now);
        break;
    case JOB_TOUCH:
    case JOB_RENEW:
        touch_job(jobs, handle, now);
        break;
    case JOB_KICK:
        job_kick(jobs, handle);
        tube_serve(jobs, tube, now, effects);
        break;
    default:
        job_reserve(jobs, handle, act->client, act->terms, now, act->view_r);
    }
    return JOBS_OK;
}

static enum jobs_status make_now(struct jobs *jobs, const struct job_act *act, struct moment now,
                                 struct jobs_effects *effects)
{
    enum jobs_status status = JOBS_NOT_FOUND;
    jobs_enter(jobs);
    uint32_t handle = job_find(jobs, act->id);
    if (handle != JOB_NONE && job_act_fits(jobs, act, job_at(jobs, handle)))
        status = job_act_make(jobs, act, handle, now, effects);
    jobs_leave(jobs);
    return status;
}

enum jobs_status jobs_delete(struct jobs_client *client, uint64_t id, struct moment now)
{
    const struct job_act act = {.verb = JOB_DELETE, .client = client, .id = id};
    return make_now(client->jobs, &act, now, NULL);
}

enum jobs_status jobs_remove(struct jobs *jobs, uint64_t id, struct moment now)
{
    const struct job_act act = {.verb = JOB_DELETE, .id = id};
    return make_now(jobs, &act, now, NULL);
}

enum jobs_status jobs_release(struct jobs_client *client, uint64_t id, uint32_t pri,
                              uint32_t delay_s, struct moment now, struct jobs_effects *effects)
{
    const struct job_act act = {
        .verb = JOB_RELEASE, .client = client, .id = id, .pri = pri, .delay_s = delay_s};
    return make_now(client->jobs, &act, now, effects);
}

enum jobs_status jobs_bury(struct jobs_client *client, uint64_t id, uint32_t pri, struct moment now)
{
    const struct job_act act = {.verb = JOB_BURY, .client = client, .id = id, .pri = pri};
    return make_now(client->jobs, &act, now, NULL);
}

enum jobs_status jobs_touch(struct jobs_client *client, uint64_t id, struct moment now)
{
    const struct job_act act = {.verb = JOB_TOUCH, .client = client, .id = id};
    return make_now(client->jobs, &act, now, NULL);
}

enum jobs_status jobs_ack(struct jobs *jobs, uint64_t id, uint64_t token, struct moment now)
{
    const struct job_act act = {.verb = JOB_ACK, .id = id, .token = token};
    return make_now(jobs, &act, now, NULL);
}

enum jobs_status jobs_nack(struct jobs *jobs, uint64_t id, uint64_t token, uint32_t delay_s,
                           struct moment now, struct jobs_effects *effects)
{
    const struct job_act act = {.verb = JOB_NACK, .id = id, .token = token, .delay_s = delay_s};
    return make_now(jobs, &act, now, effects);
}

enum jobs_status jobs_renew(struct jobs *jobs, uint64_t id, uint64_t token, struct moment now)
{
    const struct job_act act = {.verb = JOB_RENEW, .id = id, .token = token};
    return make_now(jobs, &act, now, NULL);
}

enum jobs_status jobs_kick_job(struct jobs *jobs, uint64_t id, struct moment now,
                               struct jobs_effects *effects)
{
    const struct job_act act = {.verb = JOB_KICK, .id = id};
    return make_now(jobs, &act, now, effects);
}

/* ---- kick
 * -------------------------------------------------------------------------------------------------
 */

void job_kick(struct jobs *jobs, uint32_t handle)
{
    struct job *job = job_at(jobs, handle);
    job->kicks++;
    job->tries = 0;
    job_move(jobs, handle, JOB_READY, (struct job_place){.pri = job->pri});
}

bool kick_goes_on(struct jobs_kick *kick, const struct jobs *jobs, const struct tube *tube)
{
    if (*tube_read_only(jobs, tube))
        return false;
    if (kick->begun)
        return kick->tube == tube->number;
    kick->begun = true;
    kick->tube = tube->number;
    uint32_t buried = tube->buried.count + tube->abandoned.count;
    kick->buried = buried > 0;
    uint32_t most = buried > 0 ? buried : tube->delayed.count;
    kick->left = most < kick->left ? most : kick->left; /* others may bury more meanwhile */
    return true;
}

uint32_t kick_next(const struct jobs *jobs, const struct jobs_kick *kick, const struct tube *tube)
{
    if (kick->buried)
        return tube_first_buried(jobs, tube, kick->turn + (kick->id > 0));
    return job_tree_from_place(jobs, &tube->delayed, kick->turn, kick->id);
}

void kick_pass(struct jobs_kick *kick, const struct job *job)
{
    kick->turn = job->turn;
    kick->id = job->id + 1;
}

bool jobs_kick(struct jobs_client *client, struct jobs_kick *kick, struct moment now,
               struct jobs_effects *effects)
{
    struct jobs *jobs = client->jobs;
    jobs_enter(jobs);
    struct tube *tube = client->used;
    bool goes_on = kick_goes_on(kick, jobs, tube);
    jobs->steps += kick->left > JOBS_STEP;
    unsigned done = 0;
    while (goes_on && kick->left > 0 && done < JOBS_STEP) {
        uint32_t handle = kick_next(jobs, kick, tube);
        goes_on = handle != JOB_NONE;
        if (!goes_on)
            break;
        job_kick(jobs, handle);
        tube_serve(jobs, tube, now, effects);
        kick->left--;
        kick->kicked++;
        done++;
    }
    jobs_leave(jobs);
    return !goes_on || kick->left == 0;
}

/* ---- tubes
 * -------------------------------------------------------------------------------------------------
 */

void tube_pause(struct tube *tube, uint32_t seconds, struct moment now)
{
    tube->cmd_pause++;
    tube->pause_s = seconds;
    tube->paused_until_ns = seconds > 0 ? after_seconds(now, seconds) : 0;
}

void tube_changed(struct jobs *jobs, struct tube *tube, struct moment now,
                  struct jobs_effects *effects)
{
    tube_note_ready(jobs, tube);
    tube_set_due(jobs, tube);
    tube_serve(jobs, tube, now, effects);
}

enum jobs_status jobs_pause(struct jobs *jobs, struct bytes name, uint32_t seconds,
                            struct moment now, struct jobs_effects *effects)
{
    jobs_enter(jobs);
    struct tube *tube = tube_find(jobs, name);
    if (tube) {
        jobs->used = true;
        tube_pause(tube, seconds, now);
        tube_changed(jobs, tube, now, effects);
    }
    jobs_leave(jobs);
    return tube ? JOBS_OK : JOBS_NOT_FOUND;
}

/* True when a setting of a tube is that of all. */
static bool is_default(const struct jobs *jobs, const struct job_settings *s, enum job_setting n)
{
    const struct job_settings *d = &jobs->defaults;
    switch (n) {
    case JOB_SETTING_ORDER:
        return s->order == d->order;
    case JOB_SETTING_CLAIM:
        return s->claim == d->claim;
    case JOB_SETTING_TRIES:
        return s->tries == d->tries;
    case JOB_SETTING_LIMIT:
        return s->limit == d->limit;
    case JOB_SETTING_PRUNE:
        return s->prune_s == d->prune_s;
    case JOB_SETTING_REMEMBER:
        return s->remember_s == d->remember_s;
    default:
        return strcmp(s->read_only, d->read_only) == 0;
    }
}

static void copy_setting(struct job_settings *to, const struct job_settings *from,
                         enum job_setting n)
{
    switch (n) {
    case JOB_SETTING_ORDER:
        to->order = from->order;
        break;
    case JOB_SETTING_CLAIM:
        to->claim = from->claim;
        break;
    case JOB_SETTING_TRIES:
        to->tries = from->tries;
        break;
    case JOB_SETTING_LIMIT:
        to->limit = from->limit;
        break;
    case JOB_SETTING_PRUNE:
        to->prune_s = from->prune_s;
        break;
    case JOB_SETTING_REMEMBER:
        to->remember_s = from->remember_s;
        break;
    default:
        memcpy(to->read_only, from->read_only, sizeof(to->read_only));
    }
}

void settings_with(const struct jobs *jobs, struct job_settings *settings,
                   const struct job_settings *given)
{
    for (unsigned n = 0; n < JOB_SETTINGS; n++) {
        if (!(given->given & 1u << n))
            continue;
        copy_setting(settings, given, n);
        settings->given |= 1u << n;
        if (is_default(jobs, given, n))
            settings->given &= ~(1u << n);
    }
}

enum jobs_status jobs_set_tube(struct jobs *jobs, struct bytes name,
                               const struct job_settings *settings, struct moment now,
                               struct jobs_effects *effects)
{
    enum jobs_status status = JOBS_OK;
    bool sets = settings && settings->given;
    jobs_enter(jobs);
    struct tube *tube = sets ? tube_get(jobs, name) : tube_find(jobs, name);
    if (!tube) {
        status = sets ? JOBS_NO_MEMORY : JOBS_NOT_FOUND;
    } else if (sets) {
        jobs->used = true;
        settings_with(jobs, &tube->settings, settings);
        tube_changed(jobs, tube, now, effects);
        tube_drop_if_unused(jobs, tube);
    }
    jobs_leave(jobs);
    return status;
}

bool jobs_set_defaults(struct jobs *jobs, const struct job_settings *defaults, uint64_t *place,
                       struct moment now, struct jobs_effects *effects)
{
    unsigned budget = JOBS_STEP;
    jobs_enter(jobs);
    jobs->defaults = *defaults;
    struct tube *tube = tube_from(jobs, *place);
    for (; tube && budget > 0; tube = tube_from(jobs, *place)) {
        budget--;
        tube_note_ready(jobs, tube);
        tube_set_due(jobs, tube);
        tube_serve_some(jobs, tube, &budget, now, effects);
        *place = tube->number + 1;
    }
    jobs_leave(jobs);
    return tube == NULL;
}

/* ---- clear
 * --------------------------------------------------------------------------------------------------
 *
 * Clears are numbered. A job has the number of the last one that had begun when it came into its
 * state, and, for clears of all states, when it came into any but reserved. So each clear knows the
 * jobs that came after it began.
 */

/* The states in the order in which they are cleared: jobs that move from one that is cleared to
 * another move on. */
static const uint8_t clear_order[JOB_STATES] = {JOB_DELAYED, JOB_ABANDONED, JOB_BURIED, JOB_READY,
                                                JOB_RESERVED};

/* True for the states of a clear. */
static bool is_cleared(const struct jobs_clear *clear, unsigned its)
{
    if (clear->state == JOBS_ALL)
        return its != JOB_RESERVED;
    return its == clear->state || (clear->state == JOB_BURIED && its == JOB_ABANDONED);
}

/* True for a job in one of its states, if it was there when the clear began. */
static bool was_there(const struct jobs_clear *clear, const struct job *job)
{
    return (clear->state == JOBS_ALL ? job->came : job_entered(job)) < clear->number;
}

uint32_t clear_next(const struct jobs *jobs, const struct tube *tube, struct jobs_clear *clear,
                    unsigned *budget)
{
    for (; clear->at < JOB_STATES; clear->at++, clear->next_id = 0) {
        unsigned state = clear_order[clear->at];
        while (is_cleared(clear, state)) {
            uint32_t handle = tube_from_id(jobs, tube, state, clear->next_id);
            if (handle == JOB_NONE || job_at(jobs, handle)->id >= clear->before_id)
                break;
            if (*budget == 0)
                return JOB_NONE;
            (*budget)--;
            clear->next_id = job_at(jobs, handle)->id + 1;
            if (was_there(clear, job_at(jobs, handle)))
                return handle;
        }
    }
    return JOB_NONE;
}

void clear_again(struct jobs_clear *clear)
{
    clear->at = 0;
    clear->next_id = 0;
    clear->again = false;
}

bool clear_has_frozen(const struct jobs *jobs, const struct tube *tube,
                      const struct jobs_clear *clear)
{
    unsigned budget = JOBS_STEP; /* with more that came later it looks again, which does no harm */
    for (unsigned n = 0; n < JOB_STATES; n++) {
        uint64_t id = is_cleared(clear, n) ? 0 : clear->before_id;
        uint32_t handle;
        while (id < clear->before_id &&
               (handle = job_tree_from(jobs, &tube->frozen_by_id[n], id)) != JOB_NONE) {
            id = job_at(jobs, handle)->id + 1;
            if (budget-- == 0)
                return true;
            if (id <= clear->before_id && was_there(clear, job_at(jobs, handle)))
                return true;
        }
    }
    return false;
}

/* Counts the clears anew, from 0. Those under way are over. */
static void count_anew(struct jobs *jobs)
{
    for (uint32_t n = 0; n < jobs->page_count * JOB_PAGE; n++) {
        struct job *job = job_at(jobs, n);
        job->entered = 0;
        if (job->state != JOB_RESERVED)
            job->came = 0;
    }
    jobs->clears = 0;
    jobs->clear_rounds++;
}

enum jobs_status clear_begin(struct jobs *jobs, struct bytes name, unsigned state,
                             struct jobs_clear *clear, char *reason_r, struct tube **tube_r)
{
    struct tube *tube = clear->begun ? tube_from(jobs, clear->tube) : tube_find(jobs, name);
    if (tube && clear->begun && tube->number != clear->tube)
        tube = NULL; /* it has gone with its last job */
    *tube_r = tube;
    if (!tube)
        return clear->begun ? JOBS_OK : JOBS_NOT_FOUND;
    if (*tube_read_only(jobs, tube)) {
        memcpy(reason_r, tube_read_only(jobs, tube), JOBS_READ_ONLY_MAX + 1);
        return JOBS_READ_ONLY;
    }
    if (clear->number > 0)
        return clear->round == jobs->clear_rounds && clear->number <= jobs->clears ? JOBS_OK
                                                                                   : JOBS_NO_MEMORY;
    if (jobs->clears == CLEARS_MAX)
        count_anew(jobs);
    clear->number = ++jobs->clears;
    clear->round = jobs->clear_rounds;
    clear->state = state;
    if (clear->begun)
        return JOBS_OK; /* it was finished before an upgrade */
    clear->begun = true;
    clear->tube = tube->number;
    clear->before_id = atomic_load(&jobs->next_id);
    return JOBS_OK;
}

/* Makes a step without a store. */
static enum jobs_status clear_step(struct jobs *jobs, struct bytes name, unsigned state,
                                   struct jobs_clear *clear, char *reason_r, struct moment now)
{
    struct tube *tube;
    unsigned budget = JOBS_STEP;
    enum jobs_status status = clear_begin(jobs, name, state, clear, reason_r, &tube);
    if (status != JOBS_OK || !tube)
        return status;
    for (uint32_t at; (at = clear_next(jobs, tube, clear, &budget)) != JOB_NONE;) {
        job_remove(jobs, at, now);
        clear->deleted++;
    }
    tube_drop_if_unused(jobs, tube);
    return clear->at < JOB_STATES ? JOBS_WAITS : JOBS_OK;
}

enum jobs_status jobs_clear(struct jobs *jobs, struct bytes name, unsigned state,
                            struct jobs_clear *clear, char *reason_r, struct moment now)
{
    jobs_enter(jobs);
    enum jobs_status status = clear_step(jobs, name, state, clear, reason_r, now);
    jobs->steps += status == JOBS_WAITS;
    if (status == JOBS_WAITS && !ring_has(&clear->running))
        ring_add(&jobs->clearing, &clear->running);
    else if (status != JOBS_WAITS && ring_has(&clear->running))
        ring_remove(&clear->running);
    jobs_leave(jobs);
    return status;
}

void jobs_clear_end(struct jobs *jobs, struct jobs_clear *clear)
{
    jobs_enter(jobs);
    if (ring_has(&clear->running))
        ring_remove(&clear->running);
    jobs_leave(jobs);
}

void jobs_clear_restored(struct jobs *jobs, struct jobs_clear *clear)
{
    jobs_enter(jobs);
    clear->round = jobs->clear_rounds;
    ring_add(&jobs->clearing, &clear->running);
    jobs_leave(jobs);
}
