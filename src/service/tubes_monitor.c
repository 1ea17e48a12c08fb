/*
 * tubes_monitor.c - metrics and statistics of tubes, and the table of their routes. See
 * tubes_monitor.h.
 *
 * Metrics have samples for the TUBES_SHOWN tubes with the most jobs. The gauges have one for all
 * other tubes together, too, whose label is tube="", which is no name. Counters have none: a tube
 * that comes or goes would make such a sum fall.
 */
#include "service/tubes_monitor.h"

#include "base/heap.h"
#include "base/lock.h"
#include "base/number.h"
#include "service/job_session.h"

#include <stdlib.h>

/* ---- metrics --------------------------------------------------------------------------------- */

#define TUBES_SHOWN 50
#define PIECE       64 /* tubes that are read at a time */

/* A tube, and which of all it is in the order of creation. */
struct tube_shown {
    struct tube_stats stats;
    uint64_t number;
};

struct reading {
    struct jobs_stats all;
    uint64_t roots_ahead;
    bool draining;
    struct tube_shown tubes[TUBES_SHOWN]; /* those with the most jobs */
    size_t count;
    uint64_t visited;
    bool has_rest;
    struct tube_stats rest; /* the sums over all others; its name is empty */
};

static uint64_t jobs_in(const struct tube_stats *stats)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < JOB_STATES; i++)
        sum += stats->states[i];
    return sum;
}

/* Most jobs first; of tubes with as many, the older one. */
static int by_jobs(const void *a, const void *b, void *none)
{
    const struct tube_shown *x = a, *y = b;
    uint64_t in_x = jobs_in(&x->stats), in_y = jobs_in(&y->stats);
    (void)none;
    if (in_x != in_y)
        return in_x > in_y ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static const struct heap most_jobs = {sizeof(struct tube_shown), by_jobs, NULL};

static void visit(void *arg, const struct tube_stats *stats)
{
    struct reading *reading = arg;
    struct tube_shown tube = {*stats, ++reading->visited};
    if (heap_keep(&most_jobs, reading->tubes, &reading->count, TUBES_SHOWN, &tube))
        return;
    reading->has_rest = true;
    reading->rest.waiting += tube.stats.waiting;
    if (tube.stats.oldest_ready_s > reading->rest.oldest_ready_s)
        reading->rest.oldest_ready_s = tube.stats.oldest_ready_s;
    for (unsigned i = 0; i < JOB_STATES; i++)
        reading->rest.states[i] += tube.stats.states[i];
}

static void read_tubes(struct services *services, struct moment now, void *to)
{
    struct reading *reading = to;
    struct jobs *jobs = jobs_of(services);
    uint64_t place = 0;
    jobs_get_stats(jobs, &reading->all);
    reading->roots_ahead = tubes_resource(services)->counts[JOBS_ROOTS_AHEAD];
    reading->draining = jobs_draining(services);
    while (!jobs_visit_tubes(jobs, &place, PIECE, now, visit, reading))
        lock_give_way();
    qsort_r(reading->tubes, reading->count, sizeof(reading->tubes[0]), by_jobs, NULL);
}

static void each_shown(struct samples *to, const struct metric_row *row, const void *reading)
{
    const struct reading *r = reading;
    for (size_t i = 0; i < r->count; i++)
        samples_of(to, row, r->tubes[i].stats.name, &r->tubes[i].stats);
}

/* Of a gauge: the rest, too. */
static void each_and_rest(struct samples *to, const struct metric_row *row, const void *reading)
{
    const struct reading *r = reading;
    each_shown(to, row, reading);
    if (r->has_rest)
        samples_of(to, row, r->rest.name, &r->rest);
}

#define OF(member)       METRIC_OF(struct reading, member)
#define BY(member, word) METRIC_BY(struct reading, member, word)
#define GAUGE(member)    METRIC_OF(struct tube_stats, member), .each = each_and_rest
#define COUNTER(member)  METRIC_OF(struct tube_stats, member), .each = each_shown

static const struct metric_row metrics[] = {
    {"counterd_jobs", METRIC_GAUGE, "Jobs of all tubes, by their state.", "state", JOB_STATES,
     BY(all.states, job_state_word)},
    {"counterd_jobs_waiting", METRIC_GAUGE, "Clients that wait for jobs.", "", 1, OF(all.waiting)},
    {"counterd_jobs_draining", METRIC_GAUGE, "1 while puts are refused with DRAINING, else 0.", "",
     1, OF(draining)},
    {"counterd_jobs_tubes", METRIC_GAUGE, "Tubes.", "", 1, OF(all.tubes)},
    {"counterd_jobs_memory_bytes", METRIC_GAUGE, "Memory of jobs, tubes and their clients.", "", 1,
     OF(all.memory)},
    {"counterd_jobs_memory_limit_bytes", METRIC_GAUGE, "The most that this memory may be.", "", 1,
     OF(all.memory_limit)},
    {"counterd_jobs_doomed", METRIC_GAUGE, "Jobs that are stale or to be pruned, not yet deleted.",
     "", 1, OF(all.doomed)},
    {"counterd_jobs_steps_total", METRIC_COUNTER,
     "Steps of what goes on after others: searches, drops, kicks, clears.", "", 1, OF(all.steps)},
    {"counterd_jobs_memory_refused_total", METRIC_COUNTER,
     "How often there was no memory, by what it was for.", "need", JOBS_NEEDS,
     BY(all.refused, jobs_need_word)},
    {"counterd_jobs_puts_total", METRIC_COUNTER, "Jobs put into all tubes.", "", 1,
     OF(all.total_jobs)},
    {"counterd_jobs_timeouts_total", METRIC_COUNTER, "Reservations that ran out.", "", 1,
     OF(all.timeouts)},
    {"counterd_jobs_roots_ahead_total", METRIC_COUNTER, "Puts whose root time is over a day ahead.",
     "", 1, OF(roots_ahead)},
    {"counterd_jobs_visits_total", METRIC_COUNTER,
     "Watches and waits that were looked at, what ended connections gave back, and puts of a batch "
     "that were looked at for the keys of others.",
     "", 1, OF(all.visits)},
    {"counterd_tube_jobs", METRIC_GAUGE, "Jobs of a tube, by their state.", "tube state",
     (TUBES_SHOWN + 1) * JOB_STATES, METRIC_BY(struct tube_stats, states, job_state_word),
     .each = each_and_rest},
    {"counterd_tube_waiting", METRIC_GAUGE, "Clients that wait for jobs of a tube.", "tube",
     TUBES_SHOWN + 1, GAUGE(waiting)},
    {"counterd_tube_oldest_ready_seconds", METRIC_GAUGE, "Age of the oldest ready job.", "tube",
     TUBES_SHOWN + 1, GAUGE(oldest_ready_s)},
    {"counterd_tube_puts_total", METRIC_COUNTER, "Jobs put into a tube.", "tube", TUBES_SHOWN,
     COUNTER(total_jobs)},
    {"counterd_tube_duplicates_total", METRIC_COUNTER, "Jobs not stored, as duplicates.", "tube",
     TUBES_SHOWN, COUNTER(duplicates)},
    {"counterd_tube_claims_total", METRIC_COUNTER, "Reservations of jobs.", "tube", TUBES_SHOWN,
     COUNTER(claims)},
    {"counterd_tube_dropped_total", METRIC_COUNTER, "Duplicates found when their turn came.",
     "tube", TUBES_SHOWN, COUNTER(dropped)},
    {"counterd_tube_acks_total", METRIC_COUNTER, "Jobs deleted while reserved.", "tube",
     TUBES_SHOWN, COUNTER(acks)},
    {"counterd_tube_recycled_total", METRIC_COUNTER, "Reservations that ran out.", "tube",
     TUBES_SHOWN, COUNTER(recycled)},
    {"counterd_tube_abandoned_total", METRIC_COUNTER, "Jobs that ran out of tries.", "tube",
     TUBES_SHOWN, COUNTER(abandoned)},
    {0},
};

/* ---- statistics ------------------------------------------------------------------------------ */

static void add_statistics(struct services *services, struct moment now, struct json_text *to)
{
    (void)now;
    struct jobs_stats all;
    jobs_get_stats(jobs_of(services), &all);
    json_text_number(to, "tubes", all.tubes);
    for (unsigned i = 0; i < JOB_STATES; i++)
        json_text_number(to, job_state_word(i), all.states[i]);
    json_text_number(to, "urgent", all.urgent);
    json_text_number(to, "waiting", all.waiting);
    json_text_number(to, "puts", all.total_jobs);
    json_text_number(to, "timeouts", all.timeouts);
    json_text_number(to, "memory_bytes", all.memory);
    json_text_number(to, "memory_limit_bytes", all.memory_limit);
    json_text_bool(to, "draining", jobs_draining(services));
}

/* ---- routes ---------------------------------------------------------------------------------- */

bool jobs_refuse_stopped(const struct route_request *r)
{
    const char *why = tubes_resource(r->services)->stopped;
    if (why)
        http_error(r->http, 503, "the job queues do not serve: %s", why);
    return why != NULL;
}

bool jobs_read_id(const struct route_request *r, uint64_t *id_r)
{
    if (number_parse(r->slug, UINT64_MAX, id_r))
        return true;
    http_error(r->http, 400, "the path has no job: /api/v1/jobs/ID, with ID in decimal");
    return false;
}

static const struct route_row routes[] = {
    {HTTP_GET, "/api/v1/tubes", get_tubes, false},
    {HTTP_GET, "/api/v1/tubes/*", get_tube, false},
    {HTTP_POST, "/api/v1/tubes/*/pause", pause_tube, true},
    {HTTP_POST, "/api/v1/tubes/*/clear", clear_tube, true},
    {HTTP_GET, "/api/v1/jobs", get_jobs, false},
    {HTTP_GET, "/api/v1/jobs/*", get_job, false},
    {HTTP_POST, "/api/v1/jobs/*/kick", kick_job, true},
    {HTTP_POST, "/api/v1/jobs/*/delete", delete_job, true},
    {HTTP_GET, "/api/v1/drain", get_drain, false},
    {HTTP_POST, "/api/v1/drain", switch_drain, true},
    {0},
};

const struct monitor tubes_monitor = {
    .read = read_tubes,
    .reading_size = sizeof(struct reading),
    .metrics = metrics,
    .routes = routes,
    .statistics = add_statistics,
};
