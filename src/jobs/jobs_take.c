/*
 * jobs_take.c - which client gets a job: reserve, claim, and waits.
 *
 * A waiting client is in the line of each of its tubes. The lines are in the order in which waits
 * began, because each wait joins at the end. A call that makes a job ready also calls tube_serve,
 * which takes the client that has waited longest out of all its lines, reserves the job for it and
 * sends it a message.
 */
#include "jobs/jobs_internal.h"

#include <string.h>

void job_see(const struct jobs *jobs, uint32_t handle, struct job_view *view_r)
{
    const struct job *job = job_at(jobs, handle);
    struct bytes name = tube_name(job->tube);
    view_r->id = job->id;
    view_r->body = job->body ? job_body_share(job->body) : NULL;
    view_r->body_len = job->body_len;
    view_r->unreadable = false;
    view_r->token = job->token;
    view_r->tries = job->tries;
    view_r->state = job->state;
    view_r->tube.len = (uint8_t)name.len;
    memcpy(view_r->tube.text, name.data, name.len);
}

/* Reserves a job that is in any other state, at once. */
static void reserve(struct jobs *jobs, uint32_t handle, struct jobs_client *client,
                    struct moment now, struct job_view *view_r)
{
    const struct job_act act = {.verb = JOB_RESERVE, .client = client};
    job_change_now(jobs, handle, &act, now);
    job_see(jobs, handle, view_r);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void join_line(struct tube_watch *watch)
{
    ring_add(&watch->tube->line, &watch->line);
    watch->tube->waiting++;
}

static void leave_line(struct tube_watch *watch)
{
    ring_remove(&watch->line);
    watch->tube->waiting--;
}

void client_each_waited(struct jobs_client *client, void (*visit)(struct tube_watch *watch))
{
    if (client->named) {
        for (size_t n = 0; n < client->named_count; n++)
            visit(&client->named[n]);
        client->jobs->visits += client->named_count;
        return;
    }
    struct tube_watch *watch = NULL;
    while (!client->many && (watch = client_next_watch(client, watch)) != NULL) {
        visit(watch);
        client->jobs->visits++;
    }
}

/* Waits for the `count` tubes in `named`, or for the watched ones. */
static void wait_in_line(struct jobs_client *client, bool claims, struct tube_watch *named,
                         size_t room, size_t count)
{
    CHECK(client->wait == NOT_WAITING);
    client->claims = claims;
    client->named = named;
    client->named_count = count;
    client->named_room = room;
    client->wait = WAITING;
    client->age = ++client->jobs->waits;
    client->searching = false;
    client->jobs->waiting++;
    client_each_waited(client, join_line);
    if (client->many)
        watches_count_wait(client);
}

void tube_serve_later(struct jobs *jobs, struct tube *tube)
{
    if (tube->ready.first == JOB_NONE || tube_is_closed(jobs, tube))
        return;
    tube->searching = true;
    jobs->steps++;
    tube_set_due(jobs, tube);
}

static void serve_later(struct tube_watch *watch)
{
    tube_serve_later(watch->client->jobs, watch->tube);
    watch->client->searching |= watch->tube->searching;
}

/* Has tubes served later where a wait begins before all their ready jobs were looked at: there may
 * be good ones behind those that are stale. */
static void serve_waited_later(struct jobs_client *client)
{
    client_each_waited(client, serve_later);
    if (!client->many || client->named)
        return;
    client->searching = tree_first(&client->ready) || !ring_is_empty(&client->unseen);
    watches_line_up(client, JOBS_STEP);
}

static void free_named(struct jobs *jobs, struct tube_watch *named, size_t room, size_t count)
{
    for (size_t n = 0; n < count; n++)
        tube_drop_if_unused(jobs, named[n].tube);
    jobs_release_memory(jobs, named, room * sizeof(*named));
}

static void drop_named(struct jobs_client *client)
{
    if (client->named)
        free_named(client->jobs, client->named, client->named_room, client->named_count);
    client->named = NULL;
    client->named_count = 0;
}

/* Remembers that a tube has served a client, for the turns of claims. */
static void note_turn(struct jobs_client *client, const struct tube *tube)
{
    client->turn = tube->turn;
    if (client->many)
        client->last = client_find_watch(client, tube);
}

static void leave_ring(struct tube_watch *watch)
{
    ring_remove(&watch->line);
}

void client_promise(struct jobs_client *client)
{
    CHECK(client->wait == WAITING);
    client_each_waited(client, leave_ring); /* it still counts as waiting */
    client->wait = PROMISED;
}

/* Puts a watch into the line of its tube, before those that began to wait later. */
void rejoin_line(struct tube_watch *watch)
{
    struct ring *line = &watch->tube->line, *after = ring_last(line);
    while (after && container_of(after, struct tube_watch, line)->client->age > watch->client->age)
        after = after->prev == line ? NULL : after->prev;
    ring_add_after(after ? after : line, &watch->line);
}

static void send_message(struct jobs_client *client, struct jobs_outbox *outbox)
{
    if (client->on_its_way)
        return;
    client->on_its_way = true;
    mail_list_add(&outbox->messages, &client->message.mail);
}

void client_refuse(struct jobs_client *client, bool refused, struct jobs_outbox *outbox)
{
    CHECK(client->wait == PROMISED);
    client_each_waited(client, rejoin_line);
    client->wait = WAITING;
    client->refused = client->refused || refused;
    if (client->ended) {
        client_stop_waiting(client);
    } else {
        watches_line_up(client, JOBS_STEP);
        send_message(client, outbox);
    }
}

static void count_out(struct tube_watch *watch)
{
    watch->tube->waiting--;
}

void client_serve(struct jobs_client *client, const struct tube *last, struct jobs_outbox *outbox)
{
    CHECK(client->wait == PROMISED);
    client_each_waited(client, count_out);
    if (client->many)
        watches_uncount_wait(client);
    drop_named(client);
    client->jobs->waiting--;
    client->wait = SERVED;
    note_turn(client, last);
    if (!client->ended)
        send_message(client, outbox);
}

static void leave_lines(struct jobs_client *client)
{
    client_each_waited(client, leave_line);
    if (client->many)
        watches_uncount_wait(client);
    drop_named(client);
    client->jobs->waiting--;
}

void client_stop_waiting(struct jobs_client *client)
{
    CHECK(client->wait != PROMISED);
    if (client->wait == WAITING)
        leave_lines(client);
    else
        drop_named(client);
    client_stop_asking(client);
    client->wait = NOT_WAITING;
}

/* Promises a job to a client in line. Returns false when that must wait. */
static bool try_promise(struct jobs_client *client, uint32_t handle, struct moment now)
{
    struct jobs *jobs = client->jobs;
    if (now.mono_ns < jobs->hold_until_ns)
        return false;
    job_lock(jobs, handle);
    return jobs_promise(client, &handle, 1, now);
}

/* The client that has waited longest for a tube with a job; NULL: none does. */
static struct jobs_client *first_waiting(struct tube *tube)
{
    struct ring *first = ring_first(&tube->line);
    struct jobs_client *many = tree_first(&tube->empty) ? watches_first_waiting(tube) : NULL;
    struct jobs_client *few = first ? container_of(first, struct tube_watch, line)->client : NULL;
    return !few || (many && many->age < few->age) ? many : few;
}

/* Gives ready jobs to clients that wait. */
static void give_out(struct jobs *jobs, struct tube *tube, unsigned *budget, struct moment now,
                     struct jobs_outbox *outbox)
{
    struct jobs_client *client;
    bool goes_on = *budget > 0;
    tube->searching = false;
    while (tube->ready.first != JOB_NONE && !tube_is_closed(jobs, tube) &&
           (client = first_waiting(tube))) {
        uint32_t next = *budget > 0 ? tube_next_good(jobs, tube, budget, now) : JOB_NONE;
        if (next == JOB_NONE) {
            tube->searching = tube->ready.first != JOB_NONE;
            break;
        }
        *budget -= *budget > 0;
        if (jobs->commit && job_needs_store(jobs, job_at(jobs, next))) {
            if (!try_promise(client, next, now)) {
                tube->serve_on = true;
                break;
            }
            continue;
        }
        reserve(jobs, next, client, now, &client->served);
        leave_lines(client); /* the tube stays: it has a job */
        client->wait = SERVED;
        note_turn(client, tube);
        send_message(client, outbox);
    }
    jobs->steps += goes_on && tube->searching;
    if (unlikely(tube->searching || tube->serve_on))
        tube_set_due(jobs, tube);
}

void tube_serve(struct jobs *jobs, struct tube *tube, struct moment now, struct jobs_outbox *outbox)
{
    unsigned budget = tube->searching ? 0 : JOBS_STEP;
    tube_serve_some(jobs, tube, &budget, now, outbox);
}

void tube_serve_some(struct jobs *jobs, struct tube *tube, unsigned *budget, struct moment now,
                     struct jobs_outbox *outbox)
{
    if (!jobs->stopped)
        give_out(jobs, tube, budget, now, outbox);
    if (tree_first(&tube->empty) && tube->ready.first != JOB_NONE && !tube_is_closed(jobs, tube))
        watches_keep_waiting(tube);
    if (tube->became_ready && !jobs->stopped)
        tube_tell_ready(jobs, tube, budget, outbox);
}

void client_serve_tubes(struct jobs_client *client, unsigned *budget, struct moment now,
                        struct jobs_outbox *outbox)
{
    struct jobs *jobs = client->jobs;
    if (client->named) {
        for (size_t n = 0; client->wait == WAITING && n < client->named_count; n++)
            tube_serve_some(jobs, client->named[n].tube, budget, now, outbox);
        return;
    }
    struct tube_watch *watch = NULL;
    while (!client->many && client->wait == WAITING &&
           (watch = client_next_watch(client, watch)) != NULL)
        tube_serve_some(jobs, watch->tube, budget, now, outbox);
}

bool jobs_search(struct jobs_client *client, struct moment now, struct jobs_outbox *outbox)
{
    struct jobs *jobs = client->jobs;
    unsigned budget = JOBS_STEP;
    jobs_enter(jobs);
    if (client->searching && client->many && !client->named)
        watches_serve(client, &budget, now, outbox);
    else if (client->searching)
        client_serve_tubes(client, &budget, now, outbox);
    client->searching = client->searching && client->wait == WAITING && budget == 0;
    bool goes_on = client->searching;
    jobs_leave(jobs);
    return goes_on;
}

/* ---- reserve --------------------------------------------------------------------------------- */

/* The first of the next jobs of the watched tubes; JOB_NONE: there is none. */
static uint32_t best_watched(struct jobs_client *client, unsigned *budget, struct moment now)
{
    struct jobs *jobs = client->jobs;
    if (client->many)
        return watches_best(client, budget, now);
    uint32_t best = JOB_NONE;
    const struct job *its = NULL;
    for (struct tube_watch *watch = NULL; (watch = client_next_watch(client, watch)) != NULL;) {
        const struct tube *tube = watch->tube;
        jobs->visits++;
        if (tube->ready.first == JOB_NONE || tube_is_closed(jobs, tube))
            continue;
        uint32_t next = tube_next_good(jobs, tube, budget, now);
        if (next == JOB_NONE)
            continue;
        const struct job *job = job_at(jobs, next);
        if (its && (its->pri < job->pri || (its->pri == job->pri && its->id < job->id)))
            continue;
        best = next;
        its = job;
    }
    return best;
}

/* The time when the last second of a client's first reservation begins; INT64_MAX: it has none. */
static int64_t soon_ns(const struct jobs_client *client)
{
    if (client->reserved.first == JOB_NONE)
        return INT64_MAX;
    return (int64_t)job_at(client->jobs, client->reserved.first)->turn - NS_PER_S;
}

enum jobs_status jobs_reserve(struct jobs_client *client, int64_t timeout_ns,
                              struct job_view *view_r, struct moment now)
{
    struct jobs *jobs = client->jobs;
    unsigned budget = JOBS_STEP;
    jobs_enter(jobs);
    enum jobs_status status = JOBS_WAITS;
    uint32_t best = best_watched(client, &budget, now);
    if (best != JOB_NONE && jobs->commit && job_needs_store(jobs, job_at(jobs, best))) {
        wait_in_line(client, false, NULL, 0, 0);
        job_lock(jobs, best);
        if (!jobs_promise(client, &best, 1, now)) {
            client_stop_waiting(client);
            status = JOBS_NO_MEMORY;
        }
    } else if (best != JOB_NONE) {
        reserve(jobs, best, client, now, view_r);
        note_turn(client, job_at(jobs, best)->tube);
        status = JOBS_OK;
    } else if (budget > 0 && soon_ns(client) <= now.mono_ns) {
        status = JOBS_DEADLINE_SOON;
    } else if (budget > 0 && timeout_ns == 0) {
        status = JOBS_TIMED_OUT;
    } else {
        wait_in_line(client, false, NULL, 0, 0);
        serve_waited_later(client);
    }
    jobs_leave(jobs);
    return status;
}

int64_t jobs_wait_soon_ns(struct jobs_client *client)
{
    jobs_enter(client->jobs);
    bool never =
        client->ask || client->wait == PROMISED || (client->wait != NOT_WAITING && client->claims);
    int64_t at_ns = never ? INT64_MAX : soon_ns(client);
    jobs_leave(client->jobs);
    return at_ns;
}

bool jobs_client_waits(const struct jobs_client *client)
{
    jobs_enter(client->jobs);
    bool waits = client->wait != NOT_WAITING;
    jobs_leave(client->jobs);
    return waits;
}

bool jobs_end_wait(struct jobs_client *client)
{
    jobs_enter(client->jobs);
    bool served = client->wait == SERVED || client->wait == PROMISED;
    if (!served)
        client_stop_waiting(client);
    jobs_leave(client->jobs);
    return !served;
}

bool jobs_read(struct jobs_client *client, struct job_view *view_r)
{
    jobs_enter(client->jobs);
    bool served = client->wait == SERVED && !client->claimed;
    if (served) {
        *view_r = client->served;
        client->served.body = NULL;
        client->wait = NOT_WAITING;
    }
    jobs_leave(client->jobs);
    return served;
}

struct job_views *jobs_take_claimed(struct jobs_client *client)
{
    struct job_views *claimed = NULL;
    jobs_enter(client->jobs);
    if (client->wait == SERVED && client->claimed) {
        claimed = client->claimed;
        client->claimed = NULL;
        client->wait = NOT_WAITING;
    }
    jobs_leave(client->jobs);
    return claimed;
}

bool jobs_was_refused(struct jobs_client *client)
{
    jobs_enter(client->jobs);
    bool was = client->refused;
    client->refused = false;
    jobs_leave(client->jobs);
    return was;
}

/* ---- claim ----------------------------------------------------------------------------------- */

/* The tubes of a claim: `tubes`, or without these the watched ones of a client that has many. */
struct turns {
    struct tube **tubes;
    size_t count, at;
    bool missing;   /* others that a claim names are not there; `at` is behind one that was last */
    uint64_t after; /* number of a watch */
    unsigned looks; /* at watches, before others get the lock or the claim ends */
};

/* Finds the tube whose turn is first: the one after that which served this client last. */
static void find_turn(const struct jobs_client *client, struct turns *turns)
{
    for (size_t n = 0; n < turns->count; n++) {
        if (turns->tubes[n]->turn == client->turn)
            turns->at = n + 1;
    }
    if (turns->at >= turns->count)
        turns->at = 0;
}

/* The next tube in turn that has jobs; NULL: none has, or it has looked at many watches and must
 * not let others in between. */
static struct tube *next_turn(struct jobs_client *client, struct turns *turns, bool lets_others)
{
    while (!turns->tubes) {
        struct tube *tube = watches_next_turn(client, &turns->after, &turns->looks);
        if (tube || turns->looks > 0 || !lets_others)
            return tube;
        jobs_let_others(client->jobs);
        turns->looks = JOBS_STEP;
    }
    for (size_t n = 0; n < turns->count; n++) {
        struct tube *tube = turns->tubes[turns->at];
        turns->at = (turns->at + 1) % turns->count;
        if (tube->ready.first != JOB_NONE && !tube_is_closed(client->jobs, tube))
            return tube;
    }
    return NULL;
}

/* Reserves a job of each tube in turn, until there are enough; with a store, only picks and locks
 * them. Returns their number. */
static size_t take_turns(struct jobs_client *client, struct turns *turns,
                         const struct job_claim_request *request, struct job_view *views_r,
                         uint32_t *handles_r, unsigned *budget, struct moment now)
{
    struct jobs *jobs = client->jobs;
    struct tube *tube;
    size_t taken = 0, bytes = 0, idle = 0;
    while (taken < request->count && idle < turns->count && (turns->tubes || *budget > 0) &&
           (tube = next_turn(client, turns, taken == 0)) != NULL) {
        uint32_t next = tube_next_good(jobs, tube, budget, now);
        if (next == JOB_NONE) {
            idle++;
            continue;
        }
        bytes += JOBS_LINE + tube->name->len + job_at(jobs, next)->body_len;
        if (taken > 0 && bytes > request->answer_max)
            break;
        idle = 0;
        if (jobs->commit)
            job_lock(jobs, next);
        else
            reserve(jobs, next, client, now, &views_r[taken]);
        handles_r[taken++] = next;
        note_turn(client, tube);
    }
    return taken;
}

/* Reserves locked jobs at once. */
static void reserve_all(struct jobs_client *client, const uint32_t *handles, size_t count,
                        struct job_view *views_r, struct moment now)
{
    for (size_t n = 0; n < count; n++) {
        job_unlock(client->jobs, handles[n]);
        reserve(client->jobs, handles[n], client, now, &views_r[n]);
    }
}

static bool any_needs_store(const struct jobs *jobs, const uint32_t *handles, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        if (job_needs_store(jobs, job_at(jobs, handles[n])))
            return true;
    }
    return false;
}

/* Lists the tubes that a claim names, each once. If it does not wait, it leaves out those that are
 * not there, as they have no jobs; else makes them. Returns false without memory. */
static bool name_tubes(struct jobs_client *client, const struct job_claim_request *request,
                       struct tube_watch **named_r, size_t *count_r, struct turns *turns)
{
    struct jobs *jobs = client->jobs;
    size_t count = 0;
    bool found = false, makes = request->timeout_ns != 0 || *jobs->defaults.read_only;
    jobs->claims++;
    struct tube_watch *named = jobs_alloc(jobs, JOBS_REST, request->tube_count * sizeof(*named));
    if (!named)
        return false;
    for (size_t n = 0; n < request->tube_count; n++) {
        struct tube *tube =
            makes ? tube_get(jobs, request->tubes[n]) : tube_find(jobs, request->tubes[n]);
        if (!tube && !makes) {
            turns->missing = true;
            if (!found && tube_turn(request->tubes[n]) == client->turn) {
                found = true;
                turns->at = count;
            }
            continue;
        }
        if (!tube) {
            free_named(jobs, named, request->tube_count, count);
            return false;
        }
        bool twice = tube->named == jobs->claims;
        tube->named = jobs->claims;
        if (!twice)
            named[count++] = (struct tube_watch){.tube = tube, .client = client};
    }
    *named_r = named;
    *count_r = count;
    return true;
}

/* True when every tube of a claim is read-only; *reason_r is the reason of the first. */
static bool all_read_only(const struct jobs *jobs, struct tube *const *tubes, size_t count,
                          char *reason_r)
{
    for (size_t n = 0; n < count; n++) {
        if (!*tube_read_only(jobs, tubes[n]))
            return false;
    }
    memcpy(reason_r, tube_read_only(jobs, tubes[0]), JOBS_READ_ONLY_MAX + 1);
    return true;
}

/* What a claim has found. */
struct claimed {
    size_t count;
    bool promised; /* they are locked */
    uint32_t handles[JOBS_STEP];
};

static enum jobs_status claim(struct jobs_client *client, const struct job_claim_request *request,
                              struct turns *turns, struct job_view *views_r,
                              struct claimed *found_r, char *reason_r, struct moment now)
{
    unsigned budget = JOBS_STEP;
    if (turns->tubes
            ? !turns->missing && all_read_only(client->jobs, turns->tubes, turns->count, reason_r)
            : watches_read_only(client, reason_r))
        return JOBS_READ_ONLY;
    size_t taken = take_turns(client, turns, request, views_r, found_r->handles, &budget, now);
    found_r->count = taken;
    if (taken > 0 && client->jobs->commit) {
        found_r->promised = any_needs_store(client->jobs, found_r->handles, taken);
        if (found_r->promised)
            return JOBS_WAITS;
        reserve_all(client, found_r->handles, taken, views_r, now);
    }
    if (taken > 0)
        return JOBS_OK;
    return request->timeout_ns == 0 && budget > 0 ? JOBS_TIMED_OUT : JOBS_WAITS;
}

/* Lists the tubes of a claim. Returns false without memory. */
static bool list_tubes(struct jobs_client *client, struct tube_watch *named, size_t count,
                       struct turns *turns_r)
{
    turns_r->count = count;
    turns_r->after = client->last ? client->last->number : 0;
    if (client->many && !named)
        return true;
    struct tube **tubes = jobs_alloc(client->jobs, JOBS_REST, count * sizeof(struct tube *));
    size_t n = 0;
    for (; tubes && named && n < count; n++)
        tubes[n] = named[n].tube;
    struct tube_watch *watch = NULL;
    while (tubes && !named && (watch = client_next_watch(client, watch)) != NULL)
        tubes[n++] = watch->tube;
    turns_r->tubes = tubes;
    if (tubes)
        find_turn(client, turns_r);
    return tubes != NULL;
}

enum jobs_status jobs_claim(struct jobs_client *client, const struct job_claim_request *request,
                            struct job_view *views_r, size_t *count_r, char *reason_r,
                            struct moment now)
{
    struct jobs *jobs = client->jobs;
    enum jobs_status status = JOBS_NO_MEMORY;
    struct tube_watch *named = NULL;
    struct claimed found;
    struct turns turns = {.looks = JOBS_STEP};
    size_t count = 0;
    found.count = 0;
    found.promised = false;
    jobs_enter(jobs);
    if (request->tube_count > 0 && !name_tubes(client, request, &named, &count, &turns))
        goto out;
    if (!named)
        count = client->watch_count;
    if (named && count == 0)
        status = JOBS_TIMED_OUT;
    else if (list_tubes(client, named, count, &turns))
        status = claim(client, request, &turns, views_r, &found, reason_r, now);
    jobs_release_memory(jobs, turns.tubes, count * sizeof(struct tube *));
    if (status == JOBS_WAITS) {
        wait_in_line(client, true, named, request->tube_count, count);
        if (found.promised && !jobs_promise(client, found.handles, found.count, now)) {
            client_stop_waiting(client);
            status = JOBS_NO_MEMORY;
        }
        if (!found.promised)
            serve_waited_later(client);
    } else if (named) {
        free_named(jobs, named, request->tube_count, count);
    }
out:
    jobs_leave(jobs);
    *count_r = status == JOBS_OK ? found.count : 0;
    return status;
}
