/* run.c - one run of a workload (run.h). */
#include "bench/counterbench/run.h"

#include "base/clock.h"
#include "bench/counterbench/secure.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* The interval between two updates of the progress bar. */
#define TICK_NS (100 * NS_PER_MS)

/* The time from the signal to begin to the beginning, so that all threads are awake. */
#define HEADSTART_NS (5 * NS_PER_MS)

/* How long to wait until a server has finished its background work. */
#define SETTLE_NS NS_PER_S

/* Descriptors that are not links. */
#define OTHER_DESCRIPTORS 64

/* ---- making ---------------------------------------------------------------------------------- */

static bool raise_descriptors(uint32_t links, char *reason_r)
{
    struct rlimit limit;
    rlim_t needed = (rlim_t)links + OTHER_DESCRIPTORS;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        limit = (struct rlimit){0};
    if (limit.rlim_cur >= needed)
        return true;
    limit.rlim_cur = needed;
    if (limit.rlim_max < needed)
        limit.rlim_max = needed; /* root may raise it */
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return true;
    snprintf(reason_r, RUN_REASON_MAX,
             "%" PRIu32 " connections need more open files than the limit (ulimit -n)", links);
    return false;
}

/* The address of the target at `number`, or the default one. */
static bool find_target(struct run *run, size_t number, uint16_t port, char *reason_r)
{
    const struct bench_options *options = run->options;
    const char *text = number < options->target_count ? options->targets[number] : "127.0.0.1";
    char why[TARGET_REASON_SIZE];
    if (target_find(&run->targets[number], text, port, why))
        return true;
    snprintf(reason_r, RUN_REASON_MAX, "--target: %s", why);
    return false;
}

static bool make_language(struct run *run, size_t number, const struct protocol *protocol,
                          char *reason_r)
{
    if (language_make(&run->languages[number], protocol, run->options->name_length,
                      run->plan.terms))
        return true;
    snprintf(reason_r, RUN_REASON_MAX, "no memory");
    return false;
}

/* Makes the protocols of the run and the targets: one of each for a workload without a protocol. */
static bool make_languages(struct run *run, char *reason_r)
{
    const struct bench_options *options = run->options;
    if (!options->protocol) {
        run->language_count = run->target_count = 2;
        return find_target(run, 0, protocol_text.port, reason_r) &&
               find_target(run, 1, protocol_binary.port, reason_r) &&
               make_language(run, 0, &protocol_text, reason_r) &&
               make_language(run, 1, &protocol_binary, reason_r);
    }
    run->language_count = 1;
    run->target_count = options->target_count > 1 ? options->target_count : 1;
    for (size_t i = 0; i < run->target_count; i++)
        if (!find_target(run, i, options->protocol->port, reason_r))
            return false;
    return make_language(run, 0, options->protocol, reason_r);
}

/* The default plan: units are always available, and waits are longer than any run. */
static void make_plan(struct run *run)
{
    const struct bench_options *options = run->options;
    struct terms terms = {.units = 1, .limit = options->limit, .queue = UINT32_MAX};
    run->plan =
        (struct plan){.links = options->connections, .flights = 1, .slots = 1, .requests = 2};
    for (size_t i = 0; i < ASK_COUNT; i++) {
        run->plan.terms[i] = terms;
        if (ASKS_WAITING & ASK_BIT(i))
            run->plan.terms[i].timeout_ns = 86400 * NS_PER_S;
    }
    if (run->workload->plan)
        run->workload->plan(options, &run->plan);
}

static bool make_drivers(struct run *run, char *reason_r)
{
    run->drivers = calloc(run->options->threads, sizeof *run->drivers);
    if (!run->drivers) {
        snprintf(reason_r, RUN_REASON_MAX, "no memory");
        return false;
    }
    run->driver_count = run->options->threads;
    for (unsigned i = 0; i < run->driver_count; i++) {
        run->drivers[i].epoll = run->drivers[i].wake = -1;
    }
    for (unsigned i = 0; i < run->driver_count; i++) {
        if (!driver_make(&run->drivers[i], run, i, reason_r))
            return false;
        if (run->drivers[i].has_operations)
            run->drivers[i].turn = run->turns++;
    }
    run->shared = calloc(1, run->plan.shared_size + 1);
    return run->shared;
}

bool run_make(struct run *run, const struct bench_options *options, char *reason_r)
{
    *run = (struct run){
        .options = options,
        .workload = options->workload,
        .news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .quiet_ns = RUN_NO_LIMIT,
        .from_ns = RUN_NO_LIMIT,
        .until_ns = RUN_NO_LIMIT,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    make_plan(run);
    if (options->tls) {
        const char *why = NULL;
        run->tls = secure_settings(options->tls_ca, &why);
        if (!run->tls) {
            snprintf(reason_r, RUN_REASON_MAX, "TLS: %s%s%s",
                     options->tls_ca ? options->tls_ca : "", options->tls_ca ? ": " : "", why);
            return false;
        }
    }
    return raise_descriptors(run->plan.links, reason_r) && make_languages(run, reason_r) &&
           make_drivers(run, reason_r);
}

void run_free(struct run *run)
{
    for (unsigned i = 0; i < run->driver_count; i++)
        driver_free(&run->drivers[i]);
    free(run->drivers);
    free(run->shared);
    for (size_t i = 0; i < RUN_LANGUAGES; i++)
        language_free(&run->languages[i]);
    secure_settings_free(run->tls);
    if (run->news >= 0)
        close(run->news);
}

/* ---- threads --------------------------------------------------------------------------------- */

static void tell(struct run *run)
{
    uint64_t one = 1;
    (void)!write(run->news, &one, sizeof one);
}

bool run_meet(struct run *run)
{
    pthread_mutex_lock(&run->lock);
    run->ready++;
    tell(run);
    while (!run->has_begun && run_until(run) == RUN_NO_LIMIT)
        pthread_cond_wait(&run->changed, &run->lock);
    bool has_begun = run->has_begun;
    pthread_mutex_unlock(&run->lock);
    return has_begun;
}

void run_leave(struct run *run)
{
    pthread_mutex_lock(&run->lock);
    run->ended++;
    tell(run);
    pthread_mutex_unlock(&run->lock);
}

void run_wake(struct run *run)
{
    for (unsigned i = 0; i < run->driver_count; i++) {
        uint64_t one = 1;
        (void)!write(run->drivers[i].wake, &one, sizeof one);
    }
}

void run_end(struct run *run, int64_t until_ns)
{
    pthread_mutex_lock(&run->lock);
    if (until_ns < run_until(run))
        atomic_store(&run->until_ns, until_ns);
    pthread_cond_broadcast(&run->changed);
    tell(run);
    pthread_mutex_unlock(&run->lock);
    run_wake(run);
}

static void *thread_main(void *driver)
{
    driver_work(driver);
    return NULL;
}

/* Pins a thread, or this one, to its processor of the list. */
static void pin(const struct run *run, pthread_t thread, unsigned number)
{
    const struct bench_options *options = run->options;
    cpu_set_t cpus;
    if (options->cpu_count == 0)
        return;
    CPU_ZERO(&cpus);
    CPU_SET(options->cpus[number % options->cpu_count], &cpus);
    (void)pthread_setaffinity_np(thread, sizeof cpus, &cpus);
}

static bool start_threads(struct run *run, unsigned *started_r, char *reason_r)
{
    pin(run, pthread_self(), 0);
    for (*started_r = 0; *started_r < run->driver_count; ++*started_r) {
        struct driver *driver = &run->drivers[*started_r];
        int error = pthread_create(&driver->thread, NULL, thread_main, driver);
        if (error) {
            snprintf(reason_r, RUN_REASON_MAX, "no thread: %s", strerrordesc_np(error));
            return false;
        }
        pin(run, driver->thread, *started_r);
    }
    return true;
}

/* ---- a progress bar on a terminal: one line of standard error -------------------------------- */

struct progress {
    bool is_shown;
    int64_t shown_ns; /* when we last drew it */
    uint64_t requests;
};

#define SHOW_NS (200 * NS_PER_MS)

/* Draws it, at most a few times a second. `doing` names the current phase. */
static void progress_show(struct progress *progress, struct run *run, const char *doing)
{
    static const char done[] = "##############################";
    static const char rest[] = "..............................";
    enum { WIDTH = sizeof done - 1 };
    int64_t now = clock_mono_ns(), until_ns = run_until(run);
    if (!progress->is_shown || now - progress->shown_ns < SHOW_NS)
        return;
    uint64_t requests = 0;
    for (unsigned i = 0; i < run->driver_count; i++)
        requests += atomic_load_explicit(&run->drivers[i].shown, memory_order_relaxed);
    double share = until_ns == RUN_NO_LIMIT || now <= run->begin_ns ? 0
                   : now >= until_ns
                       ? 1
                       : (double)(now - run->begin_ns) / (double)(until_ns - run->begin_ns);
    double passed = (double)(now - progress->shown_ns) / (double)NS_PER_S;
    int width = (int)(share * WIDTH);
    fprintf(stderr, "\r\x1b[K%s [%.*s%.*s] %3.0f %%", doing, width, done, WIDTH - width, rest,
            share * 100);
    if (progress->shown_ns > 0 && requests > progress->requests)
        fprintf(stderr, "  %.0f requests/s", (double)(requests - progress->requests) / passed);
    fflush(stderr);
    progress->requests = requests;
    progress->shown_ns = now;
}

/* ---- the main thread ------------------------------------------------------------------------- */

/* A descriptor of the signals that end a run. The main thread reads them while it waits for the
   others. They stay blocked: one that arrives at the end would only lose the result. */
static int watch_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Waits for news, a signal (which stops the run), or until a time. */
static void wait_for_news(struct run *run, int signals, int64_t until_ns)
{
    struct pollfd fds[] = {{.fd = run->news, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    int64_t pause = until_ns - clock_mono_ns();
    if (pause > TICK_NS)
        pause = TICK_NS;
    if (pause < 0)
        pause = 0;
    struct timespec limit = {.tv_sec = pause / NS_PER_S, .tv_nsec = pause % NS_PER_S};
    if (ppoll(fds, ARRAY_SIZE(fds), &limit, NULL) > 0) {
        uint64_t times;
        struct signalfd_siginfo signal;
        (void)!read(run->news, &times, sizeof times);
        if (read(signals, &signal, sizeof signal) == (ssize_t)sizeof signal) {
            run->was_interrupted = true;
            run_end(run, clock_mono_ns());
        }
    }
}

static unsigned count_of(struct run *run, const unsigned *field)
{
    pthread_mutex_lock(&run->lock);
    unsigned count = *field;
    pthread_mutex_unlock(&run->lock);
    return count;
}

/* Waits until all links are connected. Returns false if a thread failed, or a signal arrived. */
static bool await_connected(struct run *run, int signals, struct progress *progress)
{
    while (count_of(run, &run->ready) < run->driver_count) {
        if (count_of(run, &run->ended) > 0 || run_until(run) != RUN_NO_LIMIT)
            return false;
        wait_for_news(run, signals, RUN_NO_LIMIT);
        progress_show(progress, run, "connecting");
    }
    return true;
}

static bool look(struct run *run, struct server_state states_r[BENCH_PIDS], char *reason_r)
{
    const struct bench_options *options = run->options;
    for (size_t i = 0; i < options->pid_count; i++) {
        if (server_look((pid_t)options->pids[i], &states_r[i]))
            continue;
        snprintf(reason_r, RUN_REASON_MAX, "--pid: can't read the state of process %" PRIu32,
                 options->pids[i]);
        return false;
    }
    return true;
}

int64_t run_settle(const struct run *run, int64_t patience_ns)
{
    int64_t cpu_ns = 0;
    for (size_t i = 0; i < run->options->pid_count; i++)
        cpu_ns += server_settle((pid_t)run->options->pids[i], patience_ns);
    return cpu_ns;
}

static void set_times(struct run *run)
{
    const struct bench_options *options = run->options;
    pthread_mutex_lock(&run->lock);
    run->begin_ns = clock_mono_ns() + HEADSTART_NS;
    run->from_ns = run->begin_ns;
    int64_t until_ns = RUN_NO_LIMIT;
    if (run->workload->options & BENCH_BIT(BENCH_WARMUP))
        run->from_ns += options->warmup_ns;
    if (run->plan.has_quiet) {
        run->quiet_ns = run->from_ns;
        run->from_ns += options->seconds_ns;
    }
    if (run->plan.end == ENDS_BY_TIME) {
        uint64_t each = (uint64_t)run->plan.requests * run->turns;
        if (options->seconds_ns > 0)
            until_ns = run->from_ns + options->seconds_ns;
        if (options->requests > 0)
            run->share = (options->requests + each - 1) / each;
    }
    /* Not if a signal has already ended the run. */
    if (until_ns < run_until(run))
        atomic_store(&run->until_ns, until_ns);
    run->has_begun = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* Runs from connected links to the end. Reads the server's state when counting begins and ends. */
static bool measure(struct run *run, int signals, struct progress *progress, char *reason_r)
{
    bool seen = true, looked_before = false, looked_after = false;
    set_times(run);
    while (count_of(run, &run->ended) < run->driver_count) {
        int64_t now = clock_mono_ns();
        if (!looked_before && now >= run->from_ns) {
            seen = look(run, run->before, reason_r);
            looked_before = true;
        } else if (looked_before && !looked_after && now >= run_until(run)) {
            seen = seen && look(run, run->after, reason_r);
            looked_after = true;
        }
        progress_show(progress, run, now < run->from_ns ? "warming up" : "measuring");
        wait_for_news(run, signals,
                      !looked_before  ? run->from_ns
                      : !looked_after ? run_until(run)
                                      : RUN_NO_LIMIT);
    }
    if (!looked_before)
        memcpy(run->before, run->at_rest, sizeof run->before);
    if (!looked_after) {
        (void)run_settle(run, SETTLE_NS);
        seen = seen && look(run, run->after, reason_r);
    }
    return seen;
}

static void sum_up(struct run *run)
{
    int64_t heard_ns = 0;
    for (unsigned i = 0; i < run->driver_count; i++) {
        const struct driver *driver = &run->drivers[i];
        run->counts.requests += driver->counts.requests;
        run->counts.operations += driver->counts.operations;
        run->counts.refused += driver->counts.refused;
        run->counts.errors += driver->counts.errors;
        run->counts.missed += driver->counts.missed;
        latency_sum_up(&run->latency, driver->latency);
        latency_sum_up(&run->quiet, driver->quiet);
        if (driver->heard_ns > heard_ns)
            heard_ns = driver->heard_ns;
    }
    if (run->plan.counts_requests)
        run->counts.operations = run->counts.requests;
    bool by_time = run->plan.end == ENDS_BY_TIME && run->share == 0 && !run->was_interrupted;
    run->elapsed_ns = (by_time ? run_until(run) : heard_ns) - run->from_ns;
    if (run->elapsed_ns < 0)
        run->elapsed_ns = 0;
}

const char *run_complaint(const struct run *run)
{
    for (unsigned i = 0; i < run->driver_count; i++)
        if (run->drivers[i].counts.errors > 0)
            return run->drivers[i].reason;
    return NULL;
}

bool run_execute(struct run *run, char *reason_r)
{
    int signals = watch_signals();
    struct progress progress = {.is_shown = !run->options->quiet && isatty(STDERR_FILENO)};
    unsigned started = 0;
    int64_t start_ns = clock_mono_ns();
    bool good = look(run, run->at_rest, reason_r) && start_threads(run, &started, reason_r);
    if (good && !await_connected(run, signals, &progress)) {
        good = false;
        reason_r[0] = '\0';
    }
    run->connecting_ns = clock_mono_ns() - start_ns;
    if (good)
        good = measure(run, signals, &progress, reason_r);
    else
        run_end(run, 0);
    for (unsigned i = 0; i < started; i++)
        pthread_join(run->drivers[i].thread, NULL);
    if (progress.shown_ns > 0)
        fputs("\r\x1b[K", stderr);
    if (signals >= 0)
        close(signals);
    if (!good && reason_r[0] == '\0') {
        const char *why = run_complaint(run);
        snprintf(reason_r, RUN_REASON_MAX, "%s", why ? why : "interrupted");
    }
    sum_up(run);
    return good;
}
