/*
 * control.c - see control.h.
 *
 * Locking: `lock` protects the request for a reload and its result. No thread holds it during the
 * reload, and no other lock is taken under it. Each request is an eventfd, because the admin's
 * thread may not send signals (sandbox.c). The main thread polls both beside a signalfd.
 *
 * The main thread feeds the service manager's watchdog after every worker has answered. If a worker
 * hangs, the main thread waits for it, and the watchdog restarts the daemon.
 */
#include "daemon/control.h"

#include "base/clock.h"
#include "base/log.h"
#include "daemon/notify.h"
#include "daemon/upgrade.h"
#include "service/table_resource.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

void control_init(struct control *control)
{
    CHECK(pthread_mutex_init(&control->reload.lock, NULL) == 0);
    CHECK(pthread_mutex_init(&control->lock, NULL) == 0);
    CHECK(pthread_cond_init(&control->reloaded, NULL) == 0);
    for (size_t i = 0; i < CONTROL_EVENTS; i++)
        control->events[i] = -1;
}

bool control_listen(struct control *control, const sigset_t *awaited)
{
    control->events[CONTROL_SIGNAL] = signalfd(-1, awaited, SFD_CLOEXEC | SFD_NONBLOCK);
    control->events[CONTROL_RELOAD] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    control->events[CONTROL_UPGRADE] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (size_t i = 0; i < CONTROL_EVENTS; i++) {
        if (control->events[i] < 0) {
            log_error("can't make a descriptor for signals and requests: %s",
                      strerrordesc_np(errno));
            return false;
        }
    }
    return true;
}

void control_destroy(struct control *control)
{
    for (size_t i = 0; i < CONTROL_EVENTS; i++)
        if (control->events[i] >= 0)
            close(control->events[i]);
    pthread_cond_destroy(&control->reloaded);
    pthread_mutex_destroy(&control->lock);
    pthread_mutex_destroy(&control->reload.lock);
}

/* --- The admin's hooks ----------------------------------------------------------------------- */

static bool is_ready(void *arg)
{
    struct control *control = arg;
    return atomic_load(&control->ready);
}

/* The longest value as text: a full list of networks. */
#define VALUE_SIZE ((size_t)ACCESS_NETWORKS_MAX * (ACCESS_TEXT + 2))

/* Calls `emit` for each option. `value`: a buffer of VALUE_SIZE bytes. */
static void emit_options(const struct settings *settings, char *value,
                         void (*emit)(void *to, const struct admin_option *option), void *to)
{
    const struct option_row *row;
    for (size_t i = 0; (row = options_in(settings, i)); i++) {
        (void)options_to_text(settings, row, value, VALUE_SIZE);
        bool is_default = strcmp(value, row->default_text) == 0;
        emit(to, &(struct admin_option){
                     .key = row->key,
                     .value = row->secret && *value ? "(set)" : value,
                     .default_text = row->default_text,
                     .unit = row->unit,
                     .help = row->help,
                     .reloadable = row->reloadable,
                     .is_default = is_default,
                 });
    }
}

/* Shows the log level in force, which the admin interface may have changed. */
static void emit_config(void *arg, void (*emit)(void *to, const struct admin_option *option),
                        void *to)
{
    struct control *control = arg;
    char *value = malloc(VALUE_SIZE);
    if (!value)
        return;
    pthread_mutex_lock(&control->reload.lock);
    struct settings now = control->reload.settings; /* shares the strings: do not free */
    now.log_level = log_level_now();
    emit_options(&now, value, emit, to);
    pthread_mutex_unlock(&control->reload.lock);
    free(value);
}

/* Asks the main thread for something. It can't fail: the count is read long before it is full. */
static void ask(const struct control *control, enum control_event event)
{
    CHECK(eventfd_write(control->events[event], 1) == 0);
}

static enum admin_outcome ask_reload(void *arg, char *report_r, size_t size)
{
    struct control *control = arg;
    pthread_mutex_lock(&control->lock);
    unsigned mine = ++control->asked;
    if (!control->ended)
        ask(control, CONTROL_RELOAD);
    while (!control->ended && !control->pausing && (int)(control->done - mine) < 0)
        pthread_cond_wait(&control->reloaded, &control->lock);
    bool made = (int)(control->done - mine) >= 0;
    snprintf(report_r, size, "%s",
             made             ? control->report
             : control->ended ? "counterd is ending"
                              : "counterd is being upgraded: try again");
    bool good = control->reloads.good;
    pthread_mutex_unlock(&control->lock);
    return !made ? ADMIN_AWAY : good ? ADMIN_DONE : ADMIN_REFUSED;
}

static void tell_reloads(void *arg, struct admin_reloads *reloads_r)
{
    struct control *control = arg;
    pthread_mutex_lock(&control->lock);
    *reloads_r = control->reloads;
    pthread_mutex_unlock(&control->lock);
}

static bool ask_upgrade(void *arg)
{
    struct control *control = arg;
    pthread_mutex_lock(&control->lock);
    bool ended = control->ended;
    if (!ended && !control->upgrades.running) {
        control->upgrades.running = true;
        ask(control, CONTROL_UPGRADE);
    }
    pthread_mutex_unlock(&control->lock);
    return !ended;
}

static void tell_upgrades(void *arg, struct admin_upgrades *upgrades_r)
{
    struct control *control = arg;
    pthread_mutex_lock(&control->lock);
    *upgrades_r = control->upgrades;
    pthread_mutex_unlock(&control->lock);
}

struct admin_hooks control_hooks(struct control *control)
{
    return (struct admin_hooks){
        .arg = control,
        .ready = is_ready,
        .config = emit_config,
        .reload = ask_reload,
        .reloads = tell_reloads,
        .upgrade = ask_upgrade,
        .upgrades = tell_upgrades,
    };
}

void control_end(struct control *control)
{
    atomic_store(&control->ready, false);
    pthread_mutex_lock(&control->lock);
    control->ended = true;
    if (control->upgrades.running) {
        control->upgrades.running = control->upgrades.good = false;
        snprintf(control->upgrades.report, sizeof control->upgrades.report, "counterd is ending\n");
    }
    pthread_cond_broadcast(&control->reloaded);
    pthread_mutex_unlock(&control->lock);
}

/* --- Reload ---------------------------------------------------------------------------------- */

/* Reloads. The result answers all requests made before it started. */
static void do_reload(struct control *control)
{
    char *said = NULL;
    size_t size;
    pthread_mutex_lock(&control->lock);
    unsigned serving = control->asked;
    pthread_mutex_unlock(&control->lock);

    bool good = false;
    FILE *report = open_memstream(&said, &size);
    if (report) {
        good = reload_run(&control->reload, report);
        fclose(report);
    } else {
        log_error("reload: no memory; nothing was changed");
    }

    pthread_mutex_lock(&control->lock);
    control->done = serving;
    control->reloads.tried++;
    control->reloads.good = good;
    control->reloads.at_ns = clock_mono_ns();
    snprintf(control->report, sizeof control->report, "%s",
             said ? said : "no memory; nothing was changed\n");
    pthread_cond_broadcast(&control->reloaded);
    pthread_mutex_unlock(&control->lock);
    free(said);
}

/* --- Upgrade --------------------------------------------------------------------------------- */

void control_set_upgrade(struct control *control, struct upgrade *upgrade)
{
    control->upgrade = upgrade;
    pthread_mutex_lock(&control->lock);
    control->upgrades = upgrade->history;
    pthread_mutex_unlock(&control->lock);
}

/* The admin interface tells of an upgrade that failed. */
static void upgrade_has_failed(void *arg)
{
    struct control *control = arg;
    pthread_mutex_lock(&control->lock);
    control->pausing = false;
    control->upgrades = control->upgrade->history;
    pthread_mutex_unlock(&control->lock);
}

/* Returns only if the upgrade failed. Makes the admin's thread stop waiting for a reload, so that
 * the upgrade can pause it. */
static void do_upgrade(struct control *control)
{
    pthread_mutex_lock(&control->lock);
    control->pausing = control->upgrades.running = true;
    pthread_cond_broadcast(&control->reloaded);
    pthread_mutex_unlock(&control->lock);

    upgrade_run(control->upgrade, upgrade_has_failed, control);
}

/* --- Statistics and status ------------------------------------------------------------------- */

static uint32_t connections_of(const struct service *service)
{
    return atomic_load_explicit(&service->protocol.connections, memory_order_relaxed);
}

/* SIGUSR2: logs one line of statistics. */
static void say_stats(const struct control *control)
{
    const struct services *services = control->reload.services;
    struct table_stats stats;
    struct moment now = clock_now();
    char connections[256] = "";
    size_t len = 0;
    uint64_t requests = 0;
    for (unsigned i = 0; i < services_count(services); i++) {
        const struct service *service = services_at(services, i);
        requests += service_answered(service);
        len += (size_t)snprintf(connections + len, sizeof connections - len,
                                "%s%" PRIu32 " %s connections", i ? ", " : "",
                                connections_of(service), service_name(service));
        CHECK(len < sizeof connections);
    }
    table_get_stats(services->table, now, &stats);
    log_info("stats: %s, %" PRIu64 " names, %" PRIu64 " units, %" PRIu64 " waiting, %" PRIu64
             " requests, %" PRIu64 " of %" PRIu64 " bytes of memory, up for %lld s",
             connections, stats.names, stats.units, stats.waiting, requests, stats.memory,
             table_resource_settings(services)->memory_limit,
             (long long)((now.mono_ns - services->started_ns) / NS_PER_S));
}

/* Sends one line of status to the service manager. */
static void tell_ready(const struct control *control)
{
    char status[256];
    size_t len = 0;
    for (size_t i = 0; options_protocol_at(i); i++)
        if (settings_protocol(&control->reload.settings, i)->enable)
            len += (size_t)snprintf(status + len, sizeof status - len, "%s%s",
                                    len ? ", " : "serving ", options_protocol_at(i)->name);
    snprintf(status + len, sizeof status - len, " in %u threads", control->reload.server->count);
    notify_ready(status);
}

/* --- The main thread's loop ------------------------------------------------------------------ */

/* Waits for an answer of every worker, then feeds the watchdog. */
static void show_life(const struct control *control)
{
    server_barrier(control->reload.server);
    notify_alive();
}

/* Periodic work: reconnects to syslog if needed; with `shows`, feeds the watchdog. */
static void look_after(const struct control *control, bool shows)
{
    log_renew();
    if (shows)
        show_life(control);
}

/* Interval of log_renew, for syslog. */
#define RENEW_NS (5 * NS_PER_S)

/* Waits for a signal or a request of the admin's thread, for `ns` at most; 0: without an end.
 * Returns CONTROL_EVENTS if nothing came. *sig_r: the signal; 0: none. */
static enum control_event await(const struct control *control, int64_t ns, int *sig_r)
{
    const struct timespec pause = {.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
    struct pollfd polled[CONTROL_EVENTS];
    struct signalfd_siginfo info;
    eventfd_t count;
    *sig_r = 0;
    for (size_t i = 0; i < CONTROL_EVENTS; i++)
        polled[i] = (struct pollfd){.fd = control->events[i], .events = POLLIN};
    if (ppoll(polled, CONTROL_EVENTS, ns ? &pause : NULL, NULL) <= 0)
        return CONTROL_EVENTS;
    if (read(control->events[CONTROL_SIGNAL], &info, sizeof info) == sizeof info) {
        *sig_r = (int)info.ssi_signo;
        return CONTROL_SIGNAL;
    }
    for (enum control_event event = CONTROL_RELOAD; event < CONTROL_EVENTS; event++)
        if (eventfd_read(control->events[event], &count) == 0)
            return event;
    return CONTROL_EVENTS;
}

/* Waits for the next signal or request. Feeds the watchdog every `interval_ns`, unless that is 0.
 */
static enum control_event next_event(const struct control *control, int64_t interval_ns, int *sig_r)
{
    bool renews = control->reload.settings.log_output == LOG_OUTPUT_SYSLOG;
    int64_t pause_ns = renews && (!interval_ns || interval_ns > RENEW_NS) ? RENEW_NS : interval_ns;
    enum control_event event;
    while ((event = await(control, pause_ns, sig_r)) == CONTROL_EVENTS)
        look_after(control, interval_ns != 0);
    return event;
}

void control_ready(struct control *control)
{
    atomic_store(&control->ready, true);
}

/* How often a drain checks if it is over. */
#define DRAIN_LOOK_NS (20 * NS_PER_MS)

/* Extra time requested from the service manager beyond the limit of the drain. */
#define DRAIN_SLACK_NS (30 * NS_PER_S)

/* True when no client holds a unit and all answers are sent. Both, because a unit is free before
 * the answers to its release, and to the clients that waited for it, are sent. */
static bool is_drained(const struct control *control, struct catch_up *catch_up, uint64_t *held_r)
{
    *held_r = services_held(control->reload.services, clock_now());
    return *held_r == 0 && server_catch_up(control->reload.server, catch_up);
}

/*
 * Refuses new acquires, then waits until no client holds a unit and all answers are sent, or until
 * shutdown.drain is over. Returns the signal that ends the daemon: `sig`, or a second SIGTERM or
 * SIGINT that ended the wait.
 */
static int drain(struct control *control, int sig)
{
    int64_t allow_ns = control->reload.settings.shutdown_drain * NS_PER_S;
    int64_t end_ns = clock_mono_ns() + allow_ns;
    /* No more reloads; /readyz reports not ready, so that clients use another server. */
    control_end(control);
    services_drain(control->reload.services, true);
    server_barrier(control->reload.server); /* acquires that had started are done */
    log_info("draining: no new acquires; ending when no client holds a unit, in %" PRIu32
             " s at the latest",
             control->reload.settings.shutdown_drain);
    notify_draining(allow_ns + DRAIN_SLACK_NS, "waiting for clients to release");
    int64_t interval_ns = notify_alive_interval_ns(), alive_ns = clock_mono_ns();
    struct catch_up catch_up = {0};
    uint64_t held;
    bool drained;
    while (!(drained = is_drained(control, &catch_up, &held)) && clock_mono_ns() < end_ns) {
        int other;
        (void)await(control, DRAIN_LOOK_NS, &other); /* requests have their answer: 503 */
        if (other == SIGTERM || other == SIGINT)
            return other;
        if (other == SIGUSR2)
            say_stats(control);
        else if (other > 0)
            log_info("draining: SIG%s is ignored", sigabbrev_np(other));
        log_renew();
        if (interval_ns && clock_mono_ns() - alive_ns >= interval_ns) {
            show_life(control);
            alive_ns = clock_mono_ns();
        }
    }
    log_info("draining: over, with %" PRIu64 " units held%s", held,
             drained || held > 0 ? "" : ", before all answers were sent");
    return sig;
}

static void run_upgrade(struct control *control)
{
    notify_reloading();
    do_upgrade(control);
}

static void run_reload(struct control *control)
{
    log_info("reload: reading the settings again");
    notify_reloading();
    do_reload(control);
}

/* Handles a signal. Returns false when it ends the daemon. */
static bool handle_signal(struct control *control, int sig)
{
    switch (sig) {
    case SIGUSR1:
        run_upgrade(control);
        break;
    case SIGHUP:
        if (control->upgrade && upgrade_is_due(control->upgrade))
            run_upgrade(control);
        run_reload(control);
        break;
    case SIGUSR2:
        say_stats(control);
        return true;
    default:
        return false;
    }
    tell_ready(control);
    return true;
}

int control_run(struct control *control)
{
    int64_t interval_ns = notify_alive_interval_ns();
    int sig;
    control_ready(control);
    tell_ready(control);
    for (;;) {
        enum control_event event = next_event(control, interval_ns, &sig);
        if (event == CONTROL_SIGNAL && !handle_signal(control, sig)) {
            if (sig == SIGTERM && control->reload.settings.shutdown_drain > 0)
                sig = drain(control, sig);
            notify_stopping();
            return sig;
        }
        if (event != CONTROL_SIGNAL) {
            if (event == CONTROL_UPGRADE)
                run_upgrade(control);
            else
                run_reload(control);
            tell_ready(control);
        }
        look_after(control, interval_ns != 0); /* frequent signals must not delay it */
    }
}
