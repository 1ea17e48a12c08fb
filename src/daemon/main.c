/*
 * main.c - counterd's set-up and tear-down, in order.
 *
 * Steps that an operator's mistake can break (options, certificates, addresses, user, pid file)
 * come before the first thread runs and the first client connects. Then the workers and the admin
 * interface run, and the main thread waits for signals (control.h). Tear-down is set-up in reverse.
 *
 * The new program of an upgrade (upgrade.h) is set up the same way, but it inherits its sockets,
 * and it restores the connections before its first worker runs.
 */
#include "config.h"

#include "admin/admin.h"
#include "base/file.h"
#include "base/log.h"
#include "daemon/control.h"
#include "daemon/credentials.h"
#include "daemon/inherited.h"
#include "daemon/listeners.h"
#include "daemon/options.h"
#include "daemon/process.h"
#include "daemon/reload.h"
#include "daemon/sandbox.h"
#include "daemon/upgrade.h"
#include "net/listener.h"
#include "net/worker.h"
#include "service/service.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Size of the notice of options_ignored_text; a longer one is cut. */
#define NOTICE_SIZE 1024

/* Limit of protocols and resources that have settings. */
#define PARTS_MAX ((size_t)2 * OPTION_PROTOCOLS_MAX)

struct daemon {
    struct control control; /* has the settings */
    struct upgrade upgrade; /* has the activated and inherited sockets */
    struct server server;
    struct services *services;
    struct settings at_start; /* the values that the services were made with */
    struct listeners listeners;
    struct acceptor *acceptors[WORKERS_MAX];
    struct admin *admin; /* NULL: none */
    unsigned running;    /* number of running workers */
};

/* The settings in force. Set-up and tear-down need no lock: nothing changes the settings then. */
static const struct settings *settings_of(const struct daemon *d)
{
    return &d->control.reload.settings;
}

/* ---- rules, workers, services ---------------------------------------------------------------- */

/* Reads the certificates and the token, and makes the first rules from them. */
static bool make_snapshot(struct daemon *d)
{
    struct credentials credentials;
    char *said = NULL;
    size_t size;
    FILE *err = open_memstream(&said, &size);
    if (!err) {
        log_error("no memory");
        return false;
    }
    bool loaded = credentials_load(settings_of(d), &credentials, err);
    fclose(err);
    reload_log_complaints(said, "", NULL);
    free(said);
    if (!loaded)
        return false;
    struct snapshot *snapshot = reload_make_snapshot(settings_of(d), credentials.tls);
    if (snapshot) {
        credentials.tls = NULL; /* the rules have it */
        server_set_snapshot(&d->server, snapshot);
        memcpy(d->control.reload.token, credentials.token, sizeof(credentials.token));
    } else {
        log_error("no memory for the rules of connections");
    }
    credentials_free(&credentials);
    return snapshot != NULL;
}

static unsigned worker_count(const struct settings *settings)
{
    if (settings->threads)
        return settings->threads;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > WORKERS_MAX ? WORKERS_MAX : (unsigned)cores;
}

static bool make_workers(struct daemon *d)
{
    unsigned wanted = worker_count(settings_of(d));
    d->server.busy_poll_ns = settings_of(d)->busy_poll * NS_PER_US;
    while (d->server.count < wanted) {
        d->server.workers[d->server.count] = worker_new(&d->server, d->server.count);
        if (!d->server.workers[d->server.count]) {
            log_error("can't make worker %u of %u: %s", d->server.count + 1, wanted,
                      strerrordesc_np(errno));
            return false;
        }
        d->server.count++;
    }
    return true;
}

/* Copies the settings to at_start, for the services. */
static bool keep_settings(struct daemon *d)
{
    const struct option_row *row;
    bool good = settings_init(&d->at_start);
    for (size_t i = 0; good && (row = options_in(settings_of(d), i)); i++)
        good = options_copy(&d->at_start, settings_of(d), row);
    if (!good)
        log_error("no memory for the settings");
    return good;
}

/* Lists the settings of protocols and resources. Returns their number. */
static size_t list_parts(const struct settings *settings, struct part_config parts_r[PARTS_MAX])
{
    size_t count = 0;
    const struct option_protocol *protocol;
    for (size_t i = 0; (protocol = options_protocol_at(i)); i++)
        parts_r[count++] = (struct part_config){
            .name = protocol->name,
            .own = protocol->own ? settings_own(settings, protocol->own) : NULL,
            .max_connections = settings_protocol(settings, i)->max_connections,
        };
    for (size_t i = 0; option_registry.groups[i]; i++) {
        const struct option_group *group = option_registry.groups[i];
        CHECK(count < PARTS_MAX);
        if (group->owner)
            parts_r[count++] =
                (struct part_config){.name = group->owner, .own = settings_own(settings, group)};
    }
    return count;
}

/* The port of the first protocol that is served on one; 0: none. */
static uint16_t first_port(const struct settings *settings)
{
    for (size_t i = 0; options_protocol_at(i); i++) {
        const struct settings_protocol *protocol = settings_protocol(settings, i);
        if (protocol->enable && protocol->port != 0)
            return protocol->port;
    }
    return 0;
}

static bool make_services(struct daemon *d)
{
    struct part_config parts[PARTS_MAX];
    if (!keep_settings(d))
        return false;
    struct services_config config = {.parts = parts,
                                     .count = list_parts(&d->at_start, parts),
                                     .port = first_port(settings_of(d))};
    if (RAND_bytes((unsigned char *)&config.hash_key, sizeof(config.hash_key)) != 1) {
        log_error("can't get random bytes for the key of the table's hash");
        return false;
    }
    d->services = services_new(&config, &d->server, clock_now());
    if (!d->services) {
        log_error("can't make the services: %s; counter.memory_limit may be larger than the memory",
                  strerrordesc_np(errno));
        return false;
    }
    settings_compare(NULL, settings_of(d), settings_tell, d->services);
    settings_forget(&d->control.reload.settings);
    return true;
}

static bool make_acceptors(struct daemon *d)
{
    for (unsigned i = 0; i < d->server.count; i++) {
        d->acceptors[i] = acceptor_new(d->server.workers[i], d->listeners.at, d->listeners.count);
        if (!d->acceptors[i]) {
            log_error("no memory to accept connections");
            return false;
        }
    }
    return true;
}

/* ---- the admin interface --------------------------------------------------------------------- */

static bool make_admin(struct daemon *d)
{
    char reason[ADMIN_REASON_SIZE];
    struct admin_config config = {
        .own = d->listeners.admin,
        .token = d->control.reload.token,
        .hosts = settings_of(d)->admin_hosts,
        .services = d->services,
        .server = &d->server,
        .listeners = d->listeners.at,
        .listener_count = d->listeners.count,
        .hooks = control_hooks(&d->control),
        .version = PACKAGE_VERSION,
    };
    bool opened =
        listeners_open_admin(&d->listeners, settings_of(d), &d->upgrade.inherited, reason);
    config.own_count = d->listeners.admin_count;
    if (opened && config.own_count == 0)
        return true;
    d->admin = opened ? admin_new(&config, reason) : NULL;
    if (!d->admin) {
        listeners_close_admin(&d->listeners);
        log_error("admin: %s; set another port with admin.port, or disable it with admin.port = 0",
                  reason);
    }
    /* An upgrade goes on without this interface: keeping the connections matters more. */
    return d->admin || upgrade_takes(&d->upgrade);
}

static void say_admin(const struct daemon *d)
{
    for (size_t i = 0; i < d->listeners.admin_count; i++)
        log_info("admin: listening on %s; try: http://%s/", d->listeners.admin[i].where,
                 d->listeners.admin[i].where);
    if (listeners_open_up_admin(&d->listeners))
        log_warning("admin: other machines can reach it and read everything: names, holders and "
                    "settings; admin.token protects only changes");
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Makes all threads, which sleep. */
static bool prepare_threads(struct daemon *d)
{
    for (unsigned i = 0; i < d->server.count; i++) {
        if (!worker_prepare(d->server.workers[i])) {
            log_error("can't start thread %u of %u: %s", i + 1, d->server.count,
                      strerrordesc_np(errno));
            return false;
        }
    }
    if (!services_prepare(d->services)) {
        log_error("can't start the thread of a resource: %s", strerrordesc_np(errno));
        return false;
    }
    if (d->admin && !admin_prepare(d->admin)) {
        log_error("can't start the thread of the admin interface: %s", strerrordesc_np(errno));
        return false;
    }
    return true;
}

static void run_threads(struct daemon *d)
{
    for (; d->running < d->server.count; d->running++)
        reactor_resume(worker_reactor(d->server.workers[d->running]));
    services_resume(d->services);
    if (d->admin)
        admin_resume(d->admin);
}

/* Lists the sandboxes of all threads in all_r (1 + SERVICES_MAX elements). Returns their number.
 * With services NULL: only the sandboxes that do not depend on settings. */
static size_t list_sandboxes(const struct services *services, const struct sandbox **all_r)
{
    size_t count = 0;
    all_r[count++] = &thread_serves;
    for (unsigned i = 0; services && i < services->resource_count; i++) {
        const struct resource *r = services->resources[i];
        if (r->row->threaded && !r->without_thread)
            all_r[count++] = &r->sandbox;
    }
    return count;
}

/*
 * Prepares the sandbox if security.sandbox is true. When the kernel can't: returns false if the
 * operator has set the option, true (without a sandbox) if it is the default. *reason_r: why there
 * is no sandbox, in half a sentence, or "".
 */
static bool find_sandbox(const struct settings *settings, const struct services *services,
                         char *reason_r)
{
    const struct sandbox *all[1 + SERVICES_MAX];
    size_t count = list_sandboxes(services, all);
    *reason_r = '\0';
    return !settings->security_sandbox || sandbox_prepare(all, count, reason_r) ||
           !options_mark(settings, options_find("security.sandbox"))->named;
}

/* Makes every thread sandbox itself when it starts. */
static bool prepare_sandbox(struct daemon *d)
{
    char reason[SANDBOX_REASON_SIZE];
    if (!find_sandbox(settings_of(d), d->services, reason)) {
        log_error("security.sandbox: %s; set it to false to run without", reason);
        return false;
    }
    if (*reason)
        log_info("security.sandbox: threads are not sandboxed: %s", reason);
    else if (settings_of(d)->security_sandbox)
        d->server.sandbox = sandbox_apply;
    return true;
}

/* Drops rights in the main thread that set-up no longer needs. */
static bool enter_sandbox(const struct daemon *d)
{
    if (!settings_of(d)->security_sandbox || sandbox_enter())
        return true;
    log_error("security.sandbox: can't drop rights: %s", strerrordesc_np(errno));
    return false;
}

static bool take_activated(struct daemon *d)
{
    char reason[ACTIVATION_REASON_SIZE];
    if (d->upgrade.role != UPGRADE_NONE || activation_take(&d->upgrade.activation, reason))
        return true;
    log_error("inherited sockets: %s", reason);
    return false;
}

/* Makes everything except the threads. */
static bool make_all(struct daemon *d)
{
    const struct settings *settings = settings_of(d);
    struct upgrade *upgrade = &d->upgrade;
    if (!take_activated(d) || !make_snapshot(d) || !make_workers(d) || !make_services(d) ||
        !prepare_sandbox(d) ||
        !listeners_open(&d->listeners, d->services, settings, &upgrade->activation,
                        &upgrade->inherited) ||
        !make_admin(d))
        return false;
    upgrade->parts = (struct upgrade_parts){
        .server = &d->server,
        .services = d->services,
        .listeners = &d->listeners,
        .activation = &upgrade->activation,
        .admin = d->admin,
        .settings = settings,
    };
    return upgrade->role == UPGRADE_NONE || upgrade_restore(upgrade);
}

/*
 * Writes the pid file. After an upgrade a pid file at the same path is still right, and failing to
 * write one at a new path is only logged.
 */
static bool set_pid_file(struct daemon *d)
{
    const char *path = settings_of(d)->pid_file, *before = d->upgrade.pid_file;
    bool *written = &d->upgrade.parts.wrote_pid_file;
    bool is_there = d->upgrade.role != UPGRADE_GO_ON || access(before, F_OK) == 0;
    if (path && strcmp(path, before) == 0 && is_there) {
        *written = true;
    } else {
        if (*before)
            process_remove_pid_file(before);
        *written = path && process_write_pid_file(path);
    }
    return *written || !path || upgrade_takes(&d->upgrade);
}

static bool set_up(struct daemon *d)
{
    const struct settings *settings = settings_of(d);
    if (!make_all(d) || !set_pid_file(d) || !process_drop_root(settings->user, settings->group) ||
        !services_open(d->services, clock_now()))
        return false;
    listeners_set_aside_stopped(&d->listeners);
    return enter_sandbox(d) && make_acceptors(d) && prepare_threads(d);
}

static void remove_pid_file(struct daemon *d)
{
    if (d->upgrade.parts.wrote_pid_file)
        process_remove_pid_file(settings_of(d)->pid_file);
    d->upgrade.parts.wrote_pid_file = false;
}

static void tear_down(struct daemon *d)
{
    control_end(&d->control);
    admin_free(&d->admin);
    server_end(&d->server);
    for (unsigned i = 0; i < d->running; i++)
        worker_stop(d->server.workers[i]);
    for (unsigned i = 0; i < d->running; i++)
        reactor_join(worker_reactor(d->server.workers[i]));
    if (d->services)
        CHECK(services_pause(d->services, DEADLINE_NONE)); /* no more messages of theirs */
    for (unsigned i = 0; i < d->server.count; i++)
        worker_drain(d->server.workers[i]);
    for (unsigned i = 0; i < d->server.count; i++)
        acceptor_free(&d->acceptors[i]);
    listeners_close(&d->listeners);
    activation_close(&d->upgrade.activation);
    inherited_close(&d->upgrade.inherited);
    services_free(&d->services);
    settings_free(&d->at_start);
    while (d->server.count > 0)
        worker_free(&d->server.workers[--d->server.count]);
    server_free_snapshot(&d->server);
    remove_pid_file(d);
}

/* Logs the listeners, and warnings about risky settings. */
static void say_start(const struct daemon *d, uint64_t descriptors)
{
    listeners_say(&d->listeners);
    say_admin(d);
    listeners_warn(&d->listeners, settings_of(d));
    credentials_warn(settings_of(d));
    process_warn_of_root();
    log_info("ready: counterd " PACKAGE_VERSION ", %u threads, %llu descriptors", d->server.count,
             (unsigned long long)descriptors);
}

/* Serves until a signal ends the daemon. */
static void serve(struct daemon *d)
{
    d->control.reload.services = d->services;
    d->control.reload.server = &d->server;
    d->control.reload.listeners = &d->listeners;
    d->control.reload.admin = d->admin;
    int sig = control_run(&d->control);
    log_info("ending: SIG%s", sigabbrev_np(sig));
    remove_pid_file(d); /* now: after the next line a second signal ends the process at once */
    process_allow_abrupt_end();
}

/* Closes the sockets that this process has opened, and removes their files. The old program has all
 * others, too. */
static void close_new_listeners(struct daemon *d)
{
    for (size_t i = 0; i < d->listeners.count + d->listeners.aside; i++) {
        struct listener *l = &d->listeners.at[i];
        if (!l->inherited && !listener_is_activated(l))
            listener_close(l);
    }
}

/* Has the old program go on, with its files. Returns when that fails. */
static void go_back(struct daemon *d)
{
    const char *path = settings_of(d)->pid_file;
    if (d->upgrade.role == UPGRADE_TAKE) {
        close_new_listeners(d);
        if (path && strcmp(path, d->upgrade.pid_file) != 0)
            remove_pid_file(d);
    }
    upgrade_go_back(&d->upgrade);
}

static enum process_exit run(struct daemon *d)
{
    const struct settings *settings = settings_of(d);
    char notice[NOTICE_SIZE];
    sigset_t awaited;
    log_open(settings->log_output, settings->log_format, settings->log_level);
    for (size_t i = 0; options_protocol_at(i); i++)
        if (options_ignored_text(settings, i, notice, sizeof(notice)) > 0)
            log_info("%s", notice);
    process_block_signals(&awaited);
    uint64_t descriptors = process_raise_descriptors();

    control_init(&d->control);
    d->control.upgrades.running = upgrade_takes(&d->upgrade); /* before the admin starts */
    bool ready = control_listen(&d->control, &awaited) && set_up(d);
    if (ready && upgrade_takes(&d->upgrade))
        upgrade_commit(&d->upgrade);
    if (ready) {
        listeners_close_aside(&d->listeners, &d->upgrade.activation);
        run_threads(d);
    }
    if (ready && upgrade_takes(&d->upgrade))
        upgrade_over(&d->upgrade);
    if (ready) {
        control_set_upgrade(&d->control, &d->upgrade);
        control_ready(&d->control); /* both before the log says "ready" */
        say_start(d, descriptors);
        log_ready();
        serve(d);
    } else if (upgrade_takes(&d->upgrade)) {
        go_back(d);
        log_error("upgrade: this program can't start: all connections are lost");
        _exit(PROCESS_EXIT_SETUP); /* the half-made state can't be torn down in order */
    }
    tear_down(d);
    control_destroy(&d->control);
    if (ready)
        log_info("ended");
    log_close();
    return ready ? PROCESS_EXIT_GOOD : PROCESS_EXIT_SETUP;
}

/* Checks again what the daemon opens as its user, as that one, if that is another one. This process
 * stays that. All else was read as root, as a start does. */
static bool fit_its_user(struct settings *settings)
{
    if (geteuid() != 0 || (!settings->user && !settings->group))
        return true;
    return process_drop_root(settings->user, settings->group) &&
           settings_check_as_user(settings, stderr);
}

/* -t: checks the configuration, everything but listening, and prints the result. */
static enum process_exit check(struct settings *settings)
{
    char notice[NOTICE_SIZE];
    char reason[SANDBOX_REASON_SIZE];
    struct credentials credentials;
    bool known = process_know_user(settings->user, settings->group);
    if (!credentials_load(settings, &credentials, stderr) || !known)
        return PROCESS_EXIT_SETUP;
    credentials_free(&credentials);
    if (!find_sandbox(settings, NULL, reason)) {
        options_complain(stderr, "security.sandbox: %s; set it to false to run without", reason);
        return PROCESS_EXIT_SETUP;
    }
    if (!fit_its_user(settings))
        return PROCESS_EXIT_SETUP;
    for (size_t i = 0; options_protocol_at(i); i++)
        if (options_ignored_text(settings, i, notice, sizeof(notice)) > 0)
            printf("counterd: %s\n", notice);
    printf("counterd: %s is good%s\n", settings->file ? settings->file : "the configuration",
           settings->file ? "" : " (no file is read)");
    return PROCESS_EXIT_GOOD;
}

/*
 * The check before an upgrade, without any state: the configuration is good, and this process can
 * become the daemon's user.
 */
static enum process_exit check_upgrade(const struct upgrade *upgrade, struct settings *settings)
{
    if (!process_can_become(settings->user, settings->group))
        return PROCESS_EXIT_SETUP;
    enum process_exit status = check(settings);
    if (status == PROCESS_EXIT_GOOD && !upgrade_answer(upgrade))
        status = PROCESS_EXIT_SETUP;
    return status;
}

/*
 * The dry run of an upgrade: builds everything from the state of the old program, which still
 * runs and owns the sockets, checks the settings against it as a reload does, then drops rights and
 * makes all threads as the new program will. Frees nothing.
 */
static _Noreturn void dry_run(struct daemon *d)
{
    const struct settings *settings = settings_of(d);
    control_init(&d->control);
    bool good = make_all(d);
    inherited_close(&d->upgrade.inherited);
    close_new_listeners(d);
    good = good && reload_accepts(d->services, NULL, settings, stderr) &&
           process_drop_root(settings->user, settings->group) && enter_sandbox(d) &&
           prepare_threads(d);
    if (good)
        upgrade_commit(&d->upgrade);
    good = good && upgrade_answer(&d->upgrade);
    _exit(good ? PROCESS_EXIT_GOOD : PROCESS_EXIT_SETUP);
}

/* Returns false when standard output could not be written. */
static bool flush_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    options_complain(stderr, "can't write to standard output: %s", strerrordesc_np(errno));
    return false;
}

int main(int argc, char **argv)
{
    static struct daemon daemon_;
    struct daemon *d = &daemon_;
    struct settings *settings = &d->control.reload.settings;
    int status = PROCESS_EXIT_GOOD;
    if (!file_open_standard(false)) {
        log_error("standard input, output or error is closed, and /dev/null can't be opened in its "
                  "place: %s",
                  strerrordesc_np(errno));
        return PROCESS_EXIT_SETUP;
    }
    if (!upgrade_init(&d->upgrade, argv))
        return PROCESS_EXIT_SETUP;
    if (!settings_init(settings)) {
        options_complain(stderr, "no memory");
        return PROCESS_EXIT_SETUP;
    }
    d->control.reload.argc = argc;
    d->control.reload.argv = argv;
    struct options_request request = {.action = OPTIONS_RUN};
    if (d->upgrade.role != UPGRADE_GO_ON)
        request = options_command_line(argc, argv, d->upgrade.had_file, settings, stderr);
    else if (!upgrade_settings(&d->upgrade, settings))
        request = (struct options_request){OPTIONS_ERROR, PROCESS_EXIT_SETUP};
    switch (request.action) {
    case OPTIONS_RUN:
        if (d->upgrade.role == UPGRADE_DRY_RUN)
            dry_run(d);
        if (d->upgrade.role == UPGRADE_CHECK)
            status = check_upgrade(&d->upgrade, settings);
        else
            status = run(d);
        break;
    case OPTIONS_CHECK:
        status = check(settings);
        break;
    case OPTIONS_HELP:
        options_print_help(stdout);
        break;
    case OPTIONS_VERSION:
        printf("counterd " PACKAGE_VERSION "\n");
        break;
    case OPTIONS_ERROR:
        upgrade_go_back(&d->upgrade);
        status = request.exit_status;
        break;
    }
    settings_free(settings);
    if (!flush_output() && status == PROCESS_EXIT_GOOD)
        status = PROCESS_EXIT_SETUP;
    return status;
}
