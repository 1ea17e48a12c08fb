/*
 * driver.c - one thread of load: an epoll loop over its links.
 *
 * It connects its links, a few at a time, and waits until all threads have done so. Then it starts
 * operations: in a closed loop as soon as a link has room for one, in an open loop at the time of
 * the schedule. Answers from run->from_ns to run->until_ns count. At the end it waits for pending
 * operations and leaves the links open.
 */
#include "bench/counterbench/run.h"

#include "base/clock.h"
#include "base/number.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 512

/* The most links of all threads that connect at once: fewer than any server's backlog. */
#define CONNECTING_AT_ONCE 16

/* How long operations may begin before the loop looks for answers, and how many may begin between
   two readings of the clock. */
#define BEGIN_NS      NS_PER_MS
#define BEGIN_AT_ONCE 16

/* The longest time without any answer while one is pending. */
#define PATIENCE_NS (30 * NS_PER_S)

/* How long to wait at the end for pending operations. */
#define DRAIN_NS (10 * NS_PER_S)

/* ---- making ---------------------------------------------------------------------------------- */

static void make_link(struct driver *driver, size_t index)
{
    struct run *run = driver->run;
    const struct workload *workload = run->workload;
    struct link *link = &driver->links[index];
    uint32_t number = (uint32_t)(index * run->driver_count + driver->number);
    size_t language = number % run->language_count;
    *link = (struct link){
        .driver = driver,
        .role = workload->role ? workload->role : workload->role_of(run, number),
        .language = &run->languages[language],
        .target = &run->targets[number % run->target_count],
        .flights = driver->flights + index * run->plan.flights,
        .random = ((uint64_t)run->options->seed << 32) + number,
        .number = number,
        .fd = -1,
    };
    /* The sequences of two links must not be shifted copies of each other. */
    uint64_t high = link_random(link, UINT32_MAX);
    link->random = high << 32 | link_random(link, UINT32_MAX);
}

static bool make_buffers(struct driver *driver)
{
    const struct plan *plan = &driver->run->plan;
    driver->idle.room = driver->link_count * plan->slots;
    driver->links = calloc(driver->link_count + 1, sizeof *driver->links);
    driver->flights = calloc(driver->link_count * plan->flights + 1, sizeof *driver->flights);
    driver->idle.links = calloc(driver->idle.room + 1, sizeof(struct link *));
    driver->latency = calloc(1, sizeof *driver->latency);
    driver->quiet = calloc(1, sizeof *driver->quiet);
    driver->in = malloc(DRIVER_IN);
    driver->out = malloc(DRIVER_OUT);
    return driver->links && driver->flights && driver->idle.links && driver->latency &&
           driver->quiet && driver->in && driver->out;
}

bool driver_make(struct driver *driver, struct run *run, unsigned number, char *reason_r)
{
    uint32_t links = run->plan.links;
    *driver = (struct driver){
        .run = run,
        .number = number,
        .epoll = epoll_create1(EPOLL_CLOEXEC),
        .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .link_count = links / run->driver_count + (number < links % run->driver_count),
    };
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (!make_buffers(driver) || driver->epoll < 0 || driver->wake < 0 ||
        epoll_ctl(driver->epoll, EPOLL_CTL_ADD, driver->wake, &event) != 0) {
        snprintf(reason_r, RUN_REASON_MAX, "no thread of load: %s", strerrordesc_np(errno));
        return false;
    }
    for (size_t i = 0; i < driver->link_count; i++) {
        make_link(driver, i);
        driver->has_operations |= driver->links[i].role->operate != NULL;
    }
    return true;
}

void driver_free(struct driver *driver)
{
    for (size_t i = 0; driver->links && i < driver->link_count; i++) {
        link_close(&driver->links[i]);
        free(driver->links[i].in);
        free(driver->links[i].out);
    }
    free(driver->links);
    free(driver->flights);
    free(driver->idle.links);
    free(driver->latency);
    free(driver->quiet);
    free(driver->in);
    free(driver->out);
    if (driver->epoll >= 0)
        close(driver->epoll);
    if (driver->wake >= 0)
        close(driver->wake);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void idle_push(struct idle *idle, struct link *link)
{
    CHECK(idle->count < idle->room);
    size_t at = idle->first + idle->count++;
    idle->links[at < idle->room ? at : at - idle->room] = link;
}

static struct link *idle_pop(struct idle *idle)
{
    struct link *link = idle->links[idle->first++];
    if (idle->first == idle->room)
        idle->first = 0;
    idle->count--;
    return link;
}

static bool counts_now(const struct driver *driver)
{
    return driver->now_ns >= driver->run->from_ns && driver->now_ns < run_until(driver->run);
}

bool driver_is_over(const struct driver *driver)
{
    const struct run *run = driver->run;
    return driver->now_ns >= run_until(run) || (run->share > 0 && driver->asked >= run->share) ||
           driver->lost == driver->link_count;
}

void driver_begun(struct link *link)
{
    link->driver->busy++;
    link->operations++;
}

void driver_ended(struct link *link)
{
    CHECK(link->operations > 0);
    link->operations--;
    link->driver->busy--;
}

static void operate(struct driver *driver, struct link *link, int64_t start_ns)
{
    driver_begun(link);
    if (driver->now_ns >= driver->run->from_ns)
        driver->asked++;
    link->role->operate(link, start_ns);
}

/* Starts the operations that may begin now. */
static void dispatch(struct driver *driver)
{
    struct idle *idle = &driver->idle;
    bool is_open = driver->schedule.rate > 0;
    int64_t until_ns = driver->now_ns + BEGIN_NS;
    /* Each link at most once: operations that end at once, such as refused connections, go to the
       end of the list. */
    for (size_t left = idle->count, begun = 0; left > 0 && !driver_is_over(driver); left--) {
        int64_t start_ns = driver->now_ns;
        if (is_open) {
            start_ns = schedule_next_ns(&driver->schedule);
            if (start_ns > driver->now_ns)
                return;
        }
        struct link *link = idle_pop(idle);
        if (link->is_dead)
            continue;
        if (link_is_full(link)) {
            link->held_back++;
            continue;
        }
        if (is_open)
            schedule_advance(&driver->schedule);
        operate(driver, link, start_ns);
        if (++begun % BEGIN_AT_ONCE > 0)
            continue;
        driver->now_ns = clock_mono_ns();
        if (driver->now_ns >= until_ns)
            return;
    }
}

void driver_has_room(struct link *link)
{
    for (; link->held_back > 0; link->held_back--)
        idle_push(&link->driver->idle, link);
}

void driver_time(struct driver *driver, int64_t start_ns)
{
    const struct run *run = driver->run;
    if (start_ns >= run->from_ns && start_ns < run_until(run))
        latency_add(driver->latency, driver->now_ns - start_ns);
    else if (start_ns >= run->quiet_ns && start_ns < run->from_ns)
        latency_add(driver->quiet, driver->now_ns - start_ns);
}

void driver_count(struct driver *driver)
{
    driver->counts.operations += counts_now(driver);
}

void driver_done(struct link *link, bool good)
{
    struct driver *driver = link->driver;
    driver_ended(link);
    if (good)
        driver_count(driver);
    idle_push(&driver->idle, link);
}

void driver_prepared(struct link *link)
{
    CHECK(link->driver->unprepared > 0);
    link->driver->unprepared--;
}

void driver_alarm(struct link *link, int64_t at_ns)
{
    link->driver->alarmed = link;
    link->driver->alarm_ns = at_ns;
}

/* ---- calls from links ------------------------------------------------------------------------ */

/* Counts an error, and stores the text of the first one. */
static void complain(struct driver *driver, const char *format, va_list values)
{
    if (driver->counts.errors++ == 0)
        vsnprintf(driver->reason, sizeof driver->reason, format, values);
}

void driver_complain(struct driver *driver, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    complain(driver, format, values);
    va_end(values);
}

void driver_heard(struct link *link, const struct flight *flight, enum heard heard,
                  const char *said)
{
    struct driver *driver = link->driver;
    driver->any_heard_ns = driver->now_ns;
    if (link->is_greeting) {
        link->is_greeting = false; /* any answer will do */
        driver->greeted++;
        return;
    }
    if (heard == HEARD_PART) {
        link->role->heard(link, flight, heard);
        return;
    }
    if (counts_now(driver)) {
        driver->counts.requests++;
        driver->counts.refused += heard == HEARD_NO;
        driver->heard_ns = driver->now_ns;
    }
    if (heard == HEARD_WRONG)
        driver_complain(driver, "%s answers: %s", link->target->text, said);
    if (link->role->times_requests)
        driver_time(driver, flight->start_ns);
    struct bytes number = bytes_of(said);
    if (flight->ask == ASK_WAITING)
        (void)number_take(&number, UINT64_MAX, &driver->number_heard);
    driver->said = said;
    link->role->heard(link, flight, heard);
}

void driver_lost(struct link *link, const char *format, ...)
{
    struct driver *driver = link->driver;
    va_list values;
    va_start(values, format);
    complain(driver, format, values);
    va_end(values);
    link_close(link);
    if (link->role->lost && !link->is_greeting) {
        link->role->lost(link);
        return;
    }
    link->is_dead = true;
    driver->lost++;
    driver->busy -= link->operations;
    link->operations = 0;
    if (!link->role->operate)
        run_end(driver->run, driver->now_ns);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* How long to wait if nothing arrives. */
static struct timespec pause_of(const struct driver *driver)
{
    int64_t longest = 100 * NS_PER_MS, pause = longest;
    if (driver->idle.count > 0 && !driver_is_over(driver))
        pause =
            driver->schedule.rate > 0 ? schedule_next_ns(&driver->schedule) - driver->now_ns : 0;
    if (driver->alarmed && driver->alarm_ns - driver->now_ns < pause)
        pause = driver->alarm_ns - driver->now_ns;
    int64_t until_ns = run_until(driver->run);
    if (until_ns > driver->now_ns && until_ns - driver->now_ns < pause)
        pause = until_ns - driver->now_ns;
    if (pause < 0)
        pause = 0;
    if (pause > longest)
        pause = longest;
    return (struct timespec){.tv_sec = pause / NS_PER_S, .tv_nsec = pause % NS_PER_S};
}

/* Another thread has written to the eventfd. */
static void wake_up(struct driver *driver)
{
    uint64_t times;
    (void)!read(driver->wake, &times, sizeof times);
    for (size_t i = 0; i < driver->link_count; i++)
        if (driver->links[i].role->woken)
            driver->links[i].role->woken(&driver->links[i]);
}

static void ring(struct driver *driver)
{
    struct link *link = driver->alarmed;
    driver->alarmed = NULL;
    if (link->state == LINK_UP)
        link->role->alarm(link);
}

/* One iteration: waits for events and timers, and handles them. */
static void turn(struct driver *driver)
{
    struct epoll_event events[EVENTS];
    struct timespec pause = pause_of(driver);
    if (driver->run->plan.is_awake) {
        const struct timespec nap = {.tv_nsec = driver->run->plan.nap_ns};
        if (nap.tv_nsec > 0)
            clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        pause = (struct timespec){0};
    }
    int count = epoll_pwait2(driver->epoll, events, EVENTS, &pause, NULL);
    driver->now_ns = clock_mono_ns();
    for (int i = 0; i < count; i++) {
        struct link *link = events[i].data.ptr;
        if (link) {
            link_handle(link, events[i].events);
            dispatch(driver);
            link_flush(driver);
        } else {
            wake_up(driver);
        }
    }
    if (driver->alarmed && driver->now_ns >= driver->alarm_ns)
        ring(driver);
    dispatch(driver);
    link_flush(driver);
    atomic_store_explicit(&driver->shown, driver->counts.requests, memory_order_relaxed);
}

static bool has_failed(struct driver *driver)
{
    if (driver->now_ns - driver->any_heard_ns > PATIENCE_NS)
        driver_complain(driver, "no answer for %d seconds", (int)(PATIENCE_NS / NS_PER_S));
    return driver->counts.errors > 0 || run_until(driver->run) != RUN_NO_LIMIT;
}

/* Connects all links. Returns false if one failed; the reason is stored. */
static bool connect_all(struct driver *driver)
{
    struct run *run = driver->run;
    size_t at_once = CONNECTING_AT_ONCE / run->driver_count, next = 0;
    driver->any_heard_ns = driver->now_ns = clock_mono_ns();
    if (at_once == 0)
        at_once = 1;
    while (driver->greeted < driver->link_count) {
        for (; next < driver->link_count && next < driver->greeted + at_once; next++) {
            struct link *link = &driver->links[next];
            bool has_hello = link->language->protocol->asks & ASK_BIT(ASK_HELLO);
            link->is_greeting = true;
            if (link_open(link))
                link_ask(link, has_hello ? ASK_HELLO : ASK_RELEASE, 0, driver->now_ns);
        }
        turn(driver);
        if (has_failed(driver))
            return false;
    }
    return true;
}

/* Lets the roles prepare. Returns false if one failed; the reason is stored. */
static bool prepare_all(struct driver *driver)
{
    for (size_t i = 0; i < driver->link_count; i++) {
        struct link *link = &driver->links[i];
        if (link->role->prepare && link->role->prepare(link))
            driver->unprepared++;
    }
    link_flush(driver);
    while (driver->unprepared > 0) {
        turn(driver);
        if (has_failed(driver))
            return false;
    }
    return true;
}

static void begin(struct driver *driver)
{
    struct run *run = driver->run;
    const struct timespec start = {.tv_sec = run->begin_ns / NS_PER_S,
                                   .tv_nsec = run->begin_ns % NS_PER_S};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL);
    driver->any_heard_ns = driver->now_ns = clock_mono_ns();
    for (size_t i = 0; i < driver->link_count; i++)
        if (driver->links[i].role->begin)
            driver->links[i].role->begin(&driver->links[i]);
    for (uint32_t slot = 0; slot < run->plan.slots; slot++)
        for (size_t i = 0; i < driver->link_count; i++)
            if (driver->links[i].role->operate)
                idle_push(&driver->idle, &driver->links[i]);
    dispatch(driver);
    link_flush(driver);
}

/* Works until nothing more may begin, and then until nothing is pending. */
static void work(struct driver *driver)
{
    while (!driver_is_over(driver)) {
        turn(driver);
        if (driver->busy > 0 && driver->now_ns - driver->any_heard_ns > PATIENCE_NS) {
            driver_complain(driver, "no answer for %d seconds", (int)(PATIENCE_NS / NS_PER_S));
            run_end(driver->run, driver->now_ns);
            return;
        }
    }
    int64_t until = driver->now_ns + DRAIN_NS;
    while (driver->busy > 0 && driver->now_ns < until)
        turn(driver);
    if (driver->busy > 0)
        driver_complain(driver, "%llu operations were not answered",
                        (unsigned long long)driver->busy);
}

/* Counts the scheduled operations that never began; their latency is at least the time until now.
 */
static void count_missed(struct driver *driver)
{
    struct run *run = driver->run;
    if (driver->schedule.rate == 0 || run->share > 0)
        return;
    for (;; driver->counts.missed++) {
        int64_t start_ns = schedule_next_ns(&driver->schedule);
        if (start_ns >= driver->now_ns || start_ns >= run_until(run))
            return;
        driver_time(driver, start_ns);
        schedule_advance(&driver->schedule);
    }
}

void driver_work(struct driver *driver)
{
    struct run *run = driver->run;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* for exact starts in an open loop */
    if (connect_all(driver) && prepare_all(driver) && run_meet(run)) {
        if (driver->has_operations)
            schedule_start(&driver->schedule, run->options->rate, run->plan.requests, driver->turn,
                           run->turns, run->begin_ns);
        begin(driver);
        work(driver);
        count_missed(driver);
    }
    run_leave(run);
}
