/* jobs_many.c - what changes many jobs, in steps: kicks and clears. */
#include "jobs/jobs_internal.h"

#include <string.h>

/* ---- kick ------------------------------------------------------------------------------------ */

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

/* ---- clear ------------------------------------------------------------------------------------
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

bool clear_has_locked(const struct jobs *jobs, const struct tube *tube,
                      const struct jobs_clear *clear)
{
    unsigned budget = JOBS_STEP; /* with more that came later it looks again, which does no harm */
    for (unsigned n = 0; n < JOB_STATES; n++) {
        uint64_t id = is_cleared(clear, n) ? 0 : clear->before_id;
        uint32_t handle;
        while (id < clear->before_id &&
               (handle = job_tree_from(jobs, &tube->locked_by_id[n], id)) != JOB_NONE) {
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

void clear_note(struct jobs *jobs, struct jobs_clear *clear, bool goes_on)
{
    if (goes_on == ring_has(&clear->running))
        return;
    if (goes_on)
        ring_add(&jobs->clearing, &clear->running);
    else
        ring_remove(&clear->running);
}

void jobs_clear_end(struct jobs *jobs, struct jobs_clear *clear)
{
    jobs_enter(jobs);
    clear_note(jobs, clear, false);
    jobs_leave(jobs);
}

void jobs_clear_restored(struct jobs *jobs, struct jobs_clear *clear)
{
    jobs_enter(jobs);
    clear->round = jobs->clear_rounds;
    clear_note(jobs, clear, true);
    jobs_leave(jobs);
}
