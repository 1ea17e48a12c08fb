/* commit_promises.c - see commit_promises.h. */
#include "t/unit/jobs/commit_promises.h"

#include "t/unit/random.h"

#include <stdlib.h>
#include <string.h>

const char *const tube_names[TUBES] = {"default", "tries", "lease"};
struct promise promises[IDS];
uint64_t last_id;
int64_t newest_roots[TUBES][3];

/* Clears under way; of each job that was in the state when it began, its reservations until then.
 */
static struct clear {
    const struct ask *ask;
    uint64_t last_id;
    uint32_t *moves; /* NOT_CLEARED: it was not */
} clears[ASKS];
#define NOT_CLEARED UINT32_MAX

unsigned tube_number(struct bytes name)
{
    for (unsigned n = 0; n < TUBES; n++) {
        if (bytes_equal(name, bytes_of(tube_names[n])))
            return n;
    }
    REQUIRE(false);
    return 0;
}

/* ---- bodies ---------------------------------------------------------------------------------- */

uint32_t body_len(uint64_t id)
{
    return (uint32_t)(id * 7919 % 900);
}

uint8_t body_byte(uint64_t id, uint32_t at)
{
    return (uint8_t)(id * 31 + at);
}

void check_body(uint64_t id, const struct job_body *body)
{
    REQUIRE(body && body->len == body_len(id));
    for (uint32_t n = 0; n < body->len; n++)
        REQUIRE(body->bytes[n] == body_byte(id, n));
}

/* ---- what was promised ----------------------------------------------------------------------- */

struct promise *promise_of(uint64_t id)
{
    REQUIRE(id > 0 && id < IDS);
    return &promises[id];
}

void given(struct job_view *view, int client)
{
    struct promise *p = promise_of(view->id);
    REQUIRE(p->fate == THERE);
    REQUIRE(!p->live || p->until_ns <= rig.now.mono_ns); /* nobody else has it */
    REQUIRE(view->token != 0 && view->token != p->token);
    for (unsigned n = 0; n < TOKENS; n++)
        REQUIRE(view->token != p->old[n]);
    REQUIRE(view->state == JOB_RESERVED && view->tries > 0);
    check_body(view->id, view->body);
    memmove(&p->old[1], &p->old[0], sizeof(p->old) - sizeof(p->old[0]));
    p->old[0] = p->token;
    p->token = view->token;
    p->live = true;
    p->until_ns = rig.now.mono_ns + TTR_S * NS_PER_S;
    p->holder = client;
    job_body_drop(rig.jobs, &view->body);
}

static bool may_go(const struct promise *p)
{
    bool is_old = p->root && p->root_ms < newest_roots[p->tube][p->root];
    return p->keyed || is_old || p->clears > 0 ||
           (p->tube == TRIES && p->last_state == JOB_ABANDONED);
}

static bool is_cleared(unsigned state, unsigned its)
{
    return state == JOBS_ALL ? its != JOB_RESERVED
                             : its == state || (state == JOB_BURIED && its == JOB_ABANDONED);
}

/* A kicked job has left its state, but is still one of all. */
static uint32_t moves_of(const struct ask *ask, const struct job_stats *stats)
{
    return stats->counts.of[JOB_RESERVES] +
           (ask->op.state == JOBS_ALL ? 0 : stats->counts.of[JOB_KICKS]);
}

void note_damage(uint64_t id)
{
    promises[id].damaged = true;
}

void begin_clear(const struct ask *ask)
{
    struct clear *clear = clears;
    struct job_stats stats;
    while (clear->ask)
        clear++;
    *clear = (struct clear){ask, last_id, calloc(last_id + 1, sizeof(uint32_t))};
    REQUIRE(clear->moves != NULL);
    for (uint64_t id = 1; id <= last_id; id++) {
        struct promise *p = &promises[id];
        bool is = p->tube == tube_number(ask->op.tube) && p->fate == THERE &&
                  jobs_stats_job(rig.jobs, id, rig.now, &stats) == JOBS_OK &&
                  is_cleared(ask->op.state, stats.state);
        clear->moves[id] = is ? moves_of(ask, &stats) : NOT_CLEARED;
        p->clears += is;
    }
}

/* A clear is over: what it should have deleted is gone, unless it has left the state meanwhile or
 * is damaged. */
static void end_clear(struct clear *clear, bool done)
{
    struct job_stats stats;
    for (uint64_t id = 1; id <= clear->last_id; id++) {
        if (clear->moves[id] == NOT_CLEARED)
            continue;
        promises[id].clears--;
        if (done && !promises[id].damaged &&
            jobs_stats_job(rig.jobs, id, rig.now, &stats) == JOBS_OK)
            REQUIRE(!is_cleared(clear->ask->op.state, stats.state) ||
                    moves_of(clear->ask, &stats) != clear->moves[id]);
    }
    free(clear->moves);
    *clear = (struct clear){NULL};
}

void end_clears(const struct ask *ask, bool done)
{
    for (struct clear *clear = clears; clear < clears + ASKS; clear++) {
        if (clear->ask && (!ask || clear->ask == ask))
            end_clear(clear, done);
    }
}

void check_world(void)
{
    uint64_t count = 0, all = 0;
    struct jobs_stats stats;
    struct job_view view;
    for (uint64_t id = 1; id <= last_id; id++) {
        struct promise *p = &promises[id];
        bool found = jobs_peek(rig.jobs, id, &view) == JOBS_OK;
        if (!found) {
            REQUIRE(p->fate != THERE || may_go(p));
            p->fate = p->fate == THERE ? GONE : p->fate;
            continue;
        }
        job_body_drop(rig.jobs, &view.body);
        count++;
        if (p->fate != THERE)
            ck_abort_msg("job %" PRIu64 " is there, fate %d", id, p->fate);
        REQUIRE(view.body_len == body_len(id));
        REQUIRE(tube_number(bytes_at(view.tube.text, view.tube.len)) == p->tube);
        REQUIRE(!p->live || p->until_ns <= rig.now.mono_ns || view.state == JOB_RESERVED);
        p->last_state = (uint8_t)view.state;
    }
    jobs_get_stats(rig.jobs, &stats);
    for (unsigned n = 0; n < JOB_STATES; n++)
        all += stats.states[n];
    REQUIRE(all == count);
}
