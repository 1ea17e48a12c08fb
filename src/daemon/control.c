/*
 * control.c - see control.h.
 *
 * Locking: `lock` covers the few words that tell of a reload asked for, and is held by neither side
 * while the reload is made. Under it nothing else is locked.
 *
 * The service manager's watchdog is fed by the main thread once every worker has answered. A worker
 * that hangs keeps the main thread waiting, so it is not fed any more: that is its purpose.
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

/* The most bytes that a value takes as text: a list of networks. */
#define VALUE_SIZE ((size_t)SETTINGS_NETWORKS_MAX * (ACCESS_TEXT + 2))

/* Calls `emit` for each option; `value` is room for one. */
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

/* The level is the one in force, which the admin interface may have changed. */
static void emit_config(void *arg, void (*emit)(void *to, const struct admin_option *option),
                        void *to)
{
    struct control *control = arg;
    char *value = malloc(VALUE_SIZE);
    if (!value)
        return;
    pthread_mutex_lock(&control->reload.lock);
    struct settings now = control->reload.settings; /* shares its strings, and is not freed */
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

/* Whoever asks for an upgrade, or has asked, hears that there is none. Under the lock. */
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

/* Does a reload, and hands its result to whoever asked for it before it began. */
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

/* Whether the admin's thread waits for a reload. */
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

/* Returns only where it failed. Nobody may wait for a reload meanwhile: the admin's thread has to
 * be parked. */
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

/* --- How it is ------------------------------------------------------------------------------- */

static uint32_t connections_of(const struct service *service)
{
    return atomic_load_explicit(&service->protocol.connections, memory_order_relaxed);
}

/* One line of the log for people who have nothing but a signal. */
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

/* One line of the service manager's status. */
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

/* --- Life ------------------------------------------------------------------------------------ */

/* Tells the service manager that we live, when every worker has shown that it does. */
static void show_life(const struct control *control)
{
    server_barrier(control->reload.server);
    notify_alive();
}

/* What is due at times: looks after the connection to syslog; shows life if `shows` it at all. */
static void look_after(const struct control *control, bool shows)
{
    log_renew();
    if (shows)
        show_life(control);
}

/* How often a connection to syslog is looked after, if there is one. */
#define RENEW_NS (5 * NS_PER_S)

/* Waits for the next signal; shows signs of life meanwhile, every `interval_ns` if that is not 0.
 */
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

/* How often a drain looks whether it is over. */
#define DRAIN_LOOK_NS (20 * NS_PER_MS)

/* The time that the service manager is asked for beyond what a drain may take. */
#define DRAIN_SLACK_NS (30 * NS_PER_S)

/* True when nobody holds anything, and everybody has been answered: units are free before those who
 * waited for them, and those who released them, are told. */
static bool is_drained(const struct control *control, struct catch_up *catch_up, uint64_t *held_r)
{
    *held_r = services_held(control->reload.services, clock_now());
    return *held_r == 0 && server_catch_up(control->reload.server, catch_up);
}

/*
 * Has nobody acquire any more and waits until nobody holds anything and everybody has been
 * answered, or the time is up. Returns the signal that ends the daemon: `sig`, or another that came
 * meanwhile and is to end it at once.
 */
static int drain(struct control *control, const sigset_t *awaited, int sig)
{
    int64_t allow_ns = control->reload.settings.shutdown_drain * NS_PER_S;
    int64_t end_ns = clock_mono_ns() + allow_ns;
    /* No reload any more; and /readyz says no, so that clients go elsewhere. */
    control_end(control);
    services_drain(control->reload.services, true);
    server_barrier(control->reload.server); /* acquires that had begun are over */
    log_info("draining: nobody acquires any more; ending when nobody holds anything, in %" PRIu32
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
             drained || held > 0 ? "" : ", before everybody was answered");
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
        look_after(control, interval_ns != 0); /* signals that come often must not put it off */
    }
}
