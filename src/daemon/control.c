/*
 * control.c - see control.h.
 *
 * Locking: `lock` protects the request for a reload and its result. No thread holds it during the
 * reload, and no other lock is taken under it.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void control_init(struct control *control)
{
    control->main_thread = pthread_self();
    CHECK(pthread_mutex_init(&control->reload.lock, NULL) == 0);
    CHECK(pthread_mutex_init(&control->lock, NULL) == 0);
    CHECK(pthread_cond_init(&control->reloaded, NULL) == 0);
}

void control_destroy(struct control *control)
{
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

static bool ask_reload(void *arg, char *report_r, size_t size)
{
    struct control *control = arg;
    pthread_mutex_lock(&control->lock);
    unsigned mine = ++control->asked;
    if (!control->ended)
        pthread_kill(control->main_thread, SIGHUP);
    while (!control->ended && !control->parking && (int)(control->done - mine) < 0)
        pthread_cond_wait(&control->reloaded, &control->lock);
    bool made = (int)(control->done - mine) >= 0;
    snprintf(report_r, size, "%s",
             made             ? control->report
             : control->ended ? "counterd is ending"
                              : "counterd is being upgraded: try again");
    bool good = made && control->good;
    pthread_mutex_unlock(&control->lock);
    return good;
}

/* Ends a requested upgrade with a report that the daemon is ending. Call with `lock` held. */
static void refuse_upgrade(struct control *control)
{
    struct admin_upgrades *upgrades = &control->upgrades;
    upgrades->running = upgrades->good = false;
    snprintf(upgrades->report, sizeof upgrades->report, "counterd is ending\n");
}

static void ask_upgrade(void *arg)
{
    struct control *control = arg;
    pthread_mutex_lock(&control->lock);
    if (control->ended) {
        refuse_upgrade(control);
    } else if (!control->upgrades.running) {
        control->upgrades.running = true;
        pthread_kill(control->main_thread, SIGUSR1);
    }
    pthread_mutex_unlock(&control->lock);
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
        .upgrade = ask_upgrade,
        .upgrades = tell_upgrades,
    };
}

void control_end(struct control *control)
{
    atomic_store(&control->ready, false);
    pthread_mutex_lock(&control->lock);
    control->ended = true;
    if (control->upgrades.running)
        refuse_upgrade(control);
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
    control->good = good;
    snprintf(control->report, sizeof control->report, "%s",
             said ? said : "no memory; nothing was changed\n");
    pthread_cond_broadcast(&control->reloaded);
    pthread_mutex_unlock(&control->lock);
    free(said);
}

/* --- Upgrade --------------------------------------------------------------------------------- */

/* True while the admin's thread waits for a reload. */
static bool is_asked_to_reload(struct control *control)
{
    pthread_mutex_lock(&control->lock);
    bool asked = control->asked != control->done;
    pthread_mutex_unlock(&control->lock);
    return asked;
}

void control_set_upgrade(struct control *control, struct upgrade *upgrade)
{
    control->upgrade = upgrade;
    pthread_mutex_lock(&control->lock);
    control->upgrades = upgrade->history;
    pthread_mutex_unlock(&control->lock);
}

/* Returns only if the upgrade failed. Makes the admin's thread stop waiting for a reload, so that
 * the upgrade can park it. */
static void do_upgrade(struct control *control)
{
    pthread_mutex_lock(&control->lock);
    control->parking = control->upgrades.running = true;
    pthread_cond_broadcast(&control->reloaded);
    pthread_mutex_unlock(&control->lock);

    upgrade_run(control->upgrade);

    pthread_mutex_lock(&control->lock);
    control->parking = false;
    control->upgrades = control->upgrade->history;
    pthread_mutex_unlock(&control->lock);
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

/* Waits for the next signal. Feeds the watchdog every `interval_ns`, unless that is 0. */
static int next_signal(const struct control *control, const sigset_t *awaited, int64_t interval_ns)
{
    bool renews = control->reload.settings.log_output == LOG_OUTPUT_SYSLOG;
    int64_t pause_ns = renews && (!interval_ns || interval_ns > RENEW_NS) ? RENEW_NS : interval_ns;
    const struct timespec pause = {
        .tv_sec = pause_ns / NS_PER_S,
        .tv_nsec = pause_ns % NS_PER_S,
    };
    for (;;) {
        int sig = pause_ns ? sigtimedwait(awaited, NULL, &pause) : sigwaitinfo(awaited, NULL);
        if (sig > 0)
            return sig;
        if (errno != EAGAIN)
            continue;
        look_after(control, interval_ns != 0);
    }
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
static int drain(struct control *control, const sigset_t *awaited, int sig)
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
    const struct timespec look = {.tv_nsec = DRAIN_LOOK_NS};
    struct catch_up catch_up = {0};
    uint64_t held;
    bool drained;
    while (!(drained = is_drained(control, &catch_up, &held)) && clock_mono_ns() < end_ns) {
        int other = sigtimedwait(awaited, NULL, &look);
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

int control_run(struct control *control, const sigset_t *awaited)
{
    int64_t interval_ns = notify_alive_interval_ns();
    control_ready(control);
    tell_ready(control);
    for (;;) {
        int sig = next_signal(control, awaited, interval_ns);
        switch (sig) {
        case SIGUSR1:
            notify_reloading();
            do_upgrade(control);
            tell_ready(control);
            break;
        case SIGHUP:
            if (control->upgrade && !is_asked_to_reload(control) &&
                upgrade_is_due(control->upgrade)) {
                notify_reloading();
                do_upgrade(control);
            }
            log_info("reload: reading the settings again");
            notify_reloading();
            do_reload(control);
            tell_ready(control);
            break;
        case SIGUSR2:
            say_stats(control);
            break;
        default:
            if (sig == SIGTERM && control->reload.settings.shutdown_drain > 0)
                sig = drain(control, awaited, sig);
            notify_stopping();
            return sig;
        }
        look_after(control, interval_ns != 0); /* frequent signals must not delay it */
    }
}
