/*
 * main.c - counterd's set-up and tear-down, in order.
 *
 * Whatever can fail for reasons of the operator's (options, addresses, user, pid file) is done
 * before a thread starts or a client is let in, so that nothing is half started. Then workers run,
 * and the main thread does nothing but wait for signals. The end is the start in reverse.
 */
#include "config.h"

#include "base/log.h"
#include "daemon/options.h"
#include "daemon/process.h"
#include "net/listener.h"
#include "net/worker.h"
#include "service/service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a wrong set-up ends with. */
#define EXIT_SETUP 2

/* Room for the notice of options_ignored_text; what is longer is cut. */
#define NOTICE_SIZE 1024

/* A protocol that can be served: where its settings are, and how to try it by hand. */
struct served {
    const char *name;
    size_t enable, listen, port; /* offsets in struct settings */
    const char *send;            /* a command that writes a request */
    const char *show;            /* what makes its answer readable */
};

static const struct served all_served[] = {
    {
        .name = "poolcounter",
        .enable = offsetof(struct settings, poolcounter_enable),
        .listen = offsetof(struct settings, poolcounter_listen),
        .port = offsetof(struct settings, poolcounter_port),
        .send = "printf 'ACQ4ME k 1 2 5\\nRELEASE k\\n'",
        .show = "",
    },
    {
        .name = "counter",
        .enable = offsetof(struct settings, counter_enable),
        .listen = offsetof(struct settings, counter_listen),
        .port = offsetof(struct settings, counter_port),
        .send = "printf '\\220\\2\\0\\0\\0\\0\\0\\13\\0\\0\\0\\0"
                "\\0\\0\\0\\3\\0\\0\\0\\12\\0\\1k'",
        .show = " | od -An -tx1",
    },
};

#define LISTENERS_MAX (ARRAY_SIZE(all_served) * SETTINGS_ADDRESSES_MAX)

struct daemon {
    struct settings settings;
    struct server server;
    struct services *services;
    struct listener listeners[LISTENERS_MAX];
    size_t listener_count;
    struct acceptor *acceptors[WORKERS_MAX];
    unsigned started; /* workers that run */
    bool pid_file_written;
};

/* ---- workers and services ---------------------------------------------------------------- */

static unsigned worker_count(const struct settings *settings)
{
    if (settings->counter_threads)
        return settings->counter_threads;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores < 1 ? 1 : cores > WORKERS_MAX ? WORKERS_MAX : (unsigned)cores;
}

static bool make_workers(struct daemon *d)
{
    const struct settings *settings = &d->settings;
    struct rules_config config = {
        .limits =
            {
                .output_buffer = settings->limits_output_buffer,
                .request_timeout_ns = settings->limits_request_timeout * NS_PER_S,
                .write_timeout_ns = settings->limits_write_timeout * NS_PER_S,
            },
    };
    struct rules *rules = rules_new(&config);
    if (!rules) {
        log_error("no memory for the limits");
        return false;
    }
    server_set_rules(&d->server, rules);
    for (unsigned i = worker_count(settings); i > 0; i--) {
        d->server.workers[d->server.count] = worker_new(&d->server, d->server.count);
        if (!d->server.workers[d->server.count]) {
            log_error("can't make worker %u of %u: %s", d->server.count + 1, worker_count(settings),
                      strerrordesc_np(errno));
            return false;
        }
        d->server.count++;
    }
    return true;
}

static bool make_services(struct daemon *d)
{
    const struct settings *settings = &d->settings;
    struct services_config config = {
        .table =
            {
                .buckets = settings->counter_buckets,
                .memory_limit = settings->counter_memory_limit,
                .stats_interval_s = settings->counter_stats_interval,
            },
        .counter_max_connections = settings->counter_max_connections,
        .poolcounter_max_connections = settings->poolcounter_max_connections,
        .poolcounter_max_locks = settings->poolcounter_max_locks,
        .poolcounter_max_line = settings->poolcounter_max_line,
    };
    if (RAND_bytes((unsigned char *)&config.table.hash_key, sizeof(config.table.hash_key)) != 1) {
        log_error("no random bytes are to be had for the key of the table's hash");
        return false;
    }
    d->services = services_new(&config, &d->server, clock_now());
    if (!d->services)
        log_error("no memory for the table: counter.memory_limit is %zu bytes, counter.buckets %u",
                  config.table.memory_limit, settings->counter_buckets);
    return d->services != NULL;
}

/* ---- listeners --------------------------------------------------------------------------- */

/* The setting at `offset`. */
static const void *setting(const struct daemon *d, size_t offset)
{
    return (const char *)&d->settings + offset;
}

/* Says where each listener is, and what to type to try it by hand. */
static void say_where(const struct daemon *d)
{
    for (size_t i = 0; i < d->listener_count; i++) {
        const struct listener *l = &d->listeners[i];
        const struct served *served = all_served;
        while (strcmp(served->name, l->protocol->name) != 0)
            served++;
        bool v6 = l->where[0] == '[';
        const char *host = l->where + v6;
        const char *colon = strrchr(l->where, ':');
        log_info("%s: listening on %s; try: %s | nc -q1 %.*s %s%s", served->name, l->where,
                 served->send, (int)(colon - host) - v6, host, colon + 1, served->show);
    }
}

/* An address of a family that this machine has switched off. */
static bool is_missing_family(int error)
{
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/* Says why an address can't be listened on, and what to do. */
static void say_not_listening(const struct listener *l, const char *name, int error)
{
    if (error == EADDRINUSE)
        log_error("%s: can't listen on %s: %s (another server, or another protocol of this one, "
                  "has this port; end it, or set another with %s.port)",
                  name, l->where, strerrordesc_np(error), name);
    else
        log_error("%s: can't listen on %s: %s", name, l->where, strerrordesc_np(error));
}

static bool listen_all(struct daemon *d, const struct served *served)
{
    struct protocol *protocol = services_protocol(d->services, served->name);
    const struct settings_addresses *list = setting(d, served->listen);
    in_port_t port = htons(*(const uint16_t *)setting(d, served->port));
    size_t before = d->listener_count;
    for (size_t i = 0; i < list->count; i++) {
        struct sockaddr_storage sa = list->at[i].sa;
        if (sa.ss_family == AF_INET6)
            ((struct sockaddr_in6 *)&sa)->sin6_port = port;
        else
            ((struct sockaddr_in *)&sa)->sin_port = port;
        struct listener *l = &d->listeners[d->listener_count];
        if (listener_open(l, protocol, (struct sockaddr *)&sa, list->at[i].len, false)) {
            d->listener_count++;
        } else if (sa.ss_family == AF_INET6 && list->count > 1 && is_missing_family(errno)) {
            log_warning("%s: not listening on %s: %s", served->name, l->where,
                        strerrordesc_np(errno));
        } else {
            say_not_listening(l, served->name, errno);
            return false;
        }
    }
    if (d->listener_count == before)
        log_error("%s: none of its addresses is one of this machine's", served->name);
    return d->listener_count > before;
}

static bool open_listeners(struct daemon *d)
{
    for (size_t i = 0; i < ARRAY_SIZE(all_served); i++) {
        if (*(const bool *)setting(d, all_served[i].enable) && !listen_all(d, &all_served[i]))
            return false;
    }
    return true;
}

static bool make_acceptors(struct daemon *d)
{
    for (unsigned i = 0; i < d->server.count; i++) {
        d->acceptors[i] = acceptor_new(d->server.workers[i], d->listeners, d->listener_count);
        if (!d->acceptors[i]) {
            log_error("no memory to accept connections");
            return false;
        }
    }
    return true;
}

/* ---- life -------------------------------------------------------------------------------- */

static bool start_workers(struct daemon *d)
{
    for (; d->started < d->server.count; d->started++) {
        if (!worker_start(d->server.workers[d->started])) {
            log_error("can't start thread %u: %s", d->started + 1, strerrordesc_np(errno));
            return false;
        }
    }
    return true;
}

static bool set_up(struct daemon *d)
{
    if (!make_workers(d) || !make_services(d) || !open_listeners(d))
        return false;
    if (d->settings.pid_file) {
        d->pid_file_written = process_write_pid_file(d->settings.pid_file);
        if (!d->pid_file_written)
            return false;
    }
    return process_drop_root(d->settings.user, d->settings.group) && make_acceptors(d) &&
           start_workers(d);
}

static void remove_pid_file(struct daemon *d)
{
    if (d->pid_file_written)
        process_remove_pid_file(d->settings.pid_file);
    d->pid_file_written = false;
}

static void tear_down(struct daemon *d)
{
    for (unsigned i = 0; i < d->started; i++)
        worker_stop(d->server.workers[i]);
    for (unsigned i = 0; i < d->started; i++)
        worker_join(d->server.workers[i]);
    for (unsigned i = 0; i < d->server.count; i++)
        worker_drain(d->server.workers[i]);
    for (unsigned i = 0; i < d->server.count; i++)
        acceptor_free(&d->acceptors[i]);
    while (d->listener_count > 0)
        listener_close(&d->listeners[--d->listener_count]);
    services_free(&d->services);
    while (d->server.count > 0)
        worker_free(&d->server.workers[--d->server.count]);
    server_free_rules(&d->server);
    remove_pid_file(d);
}

/* The signals that the main thread waits for. */
static sigset_t awaited_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
}

/* Lets the next SIGTERM or SIGINT end the daemon at once. SIGHUP stays blocked. */
static void allow_abrupt_end(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
}

/* Waits until the daemon is told to end. */
static void wait_for_end(const sigset_t *awaited)
{
    int sig;
    while ((sig = sigwaitinfo(awaited, NULL)) != SIGTERM && sig != SIGINT) {
        if (sig == SIGHUP)
            log_warning("SIGHUP: settings are read at the start only; restart to change them");
    }
    log_info("ending: SIG%s", sigabbrev_np(sig));
}

static int run(struct daemon *d)
{
    char notice[NOTICE_SIZE];
    log_open(d->settings.log_output, LOG_FORMAT_TEXT, d->settings.log_level);
    if (d->settings.ignored_keys[0]) {
        options_ignored_text(&d->settings, notice, sizeof(notice));
        log_info("%s", notice);
    }
    signal(SIGPIPE, SIG_IGN);
    sigset_t awaited = awaited_signals();
    CHECK(pthread_sigmask(SIG_BLOCK, &awaited, NULL) == 0);
    uint64_t descriptors = process_raise_descriptors();

    bool ready = set_up(d);
    if (ready) {
        say_where(d);
        log_info("ready: counterd " PACKAGE_VERSION ", %u threads, %llu descriptors",
                 d->server.count, (unsigned long long)descriptors);
        log_ready();
        wait_for_end(&awaited);
        remove_pid_file(d); /* an abrupt end would leave it */
        allow_abrupt_end();
    }
    tear_down(d);
    if (ready)
        log_info("ended");
    log_close();
    return ready ? EXIT_SUCCESS : EXIT_SETUP;
}

/* Says whether what was configured can start, as far as that is known without trying. */
static int check(const struct settings *settings, const char *file)
{
    char notice[NOTICE_SIZE];
    if (!process_know_user(settings->user, settings->group))
        return EXIT_SETUP;
    if (settings->ignored_keys[0]) {
        options_ignored_text(settings, notice, sizeof(notice));
        printf("counterd: %s\n", notice);
    }
    printf("counterd: %s is good%s\n", file ? file : "the configuration",
           file ? "" : " (no file is read)");
    return EXIT_SUCCESS;
}

/* Whether all that was printed has been written. */
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
    int status = EXIT_SUCCESS;
    if (!process_open_standard())
        return EXIT_SETUP;
    settings_init(&d->settings);
    struct options_request request = options_command_line(argc, argv, &d->settings, stderr);
    switch (request.action) {
    case OPTIONS_RUN:
        status = run(d);
        break;
    case OPTIONS_CHECK:
        status = check(&d->settings, request.file);
        break;
    case OPTIONS_HELP:
        options_print_help(stdout);
        break;
    case OPTIONS_VERSION:
        printf("counterd " PACKAGE_VERSION "\n");
        break;
    case OPTIONS_ERROR:
        status = request.exit_status;
        break;
    }
    settings_free(&d->settings);
    if (!flush_output() && status == EXIT_SUCCESS)
        status = EXIT_SETUP;
    return status;
}
