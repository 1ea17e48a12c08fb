/*
 * running.h - a daemon in the state before a reload, without its listeners: services, one running
 * worker, and an admin interface that only records its calls.
 */
#ifndef RUNNING_H
#define RUNNING_H

#include "admin/admin.h"
#include "daemon/control.h"
#include "t/unit/serving.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct admin {
    char token[TOKEN_DIGEST_SIZE];
    char hosts[64];
};

void admin_set_token(struct admin *admin, const char *digest)
{
    snprintf(admin->token, sizeof admin->token, "%s", digest);
}

void admin_set_hosts(struct admin *admin, const char *hosts)
{
    snprintf(admin->hosts, sizeof admin->hosts, "%s", hosts ? hosts : "");
}

/* The test makes no upgrade. */
void admin_pause(struct admin *admin)
{
    (void)admin;
}

void admin_resume(struct admin *admin)
{
    (void)admin;
}

size_t admin_listeners(const struct admin *admin)
{
    return admin ? 0 : 1;
}

int admin_door(const struct admin *admin, size_t i, const char **asked_r)
{
    (void)admin;
    *asked_r = "";
    return -(int)i;
}

struct running {
    char dir[64];
    char path[96]; /* of the configuration file: DIR/c.conf */
    char *argv[4];
    struct server server;
    struct services *services;
    struct listeners listeners;
    struct admin admin;
    struct control control;
};

static struct running running;

static void write_file(const char *text)
{
    FILE *to = fopen(running.path, "w");
    ck_assert_ptr_nonnull(to);
    ck_assert_int_ge(fputs(text, to), 0);
    ck_assert_int_eq(fclose(to), 0);
}

/* Starts with a configuration file of this text; NULL: with no file and no flag for one. */
static void set_up(const char *text)
{
    snprintf(running.dir, sizeof running.dir, "/tmp/reload_test.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(running.dir));
    snprintf(running.path, sizeof running.path, "%s/c.conf", running.dir);
    if (text)
        write_file(text);
    static char program[] = "counterd", flag[] = "-f";
    running.argv[0] = program;
    running.argv[1] = flag;
    running.argv[2] = running.path;

    struct reload *reload = &running.control.reload;
    int argc = text ? 3 : 1;
    ck_assert(settings_init(&reload->settings));
    ck_assert_int_eq(
        options_command_line(argc, running.argv, false, &reload->settings, stderr).action,
        OPTIONS_RUN);
    struct rules *rules = reload_make_rules(&reload->settings, NULL);
    ck_assert_ptr_nonnull(rules);
    server_set_rules(&running.server, rules);
    running.server.workers[running.server.count] = worker_new(&running.server, 0);
    ck_assert_ptr_nonnull(running.server.workers[running.server.count++]);
    const struct serving_config config = {
        .table = {.buckets = 16, .memory_limit = 16 << 20, .stats_interval_s = 60},
        .poolcounter_max_locks = 4,
        .poolcounter_max_line = 8192,
    };
    running.services = serving_services(&config, &running.server, clock_now());
    ck_assert_ptr_nonnull(running.services);

    control_init(&running.control);
    reload->argc = argc;
    reload->argv = running.argv;
    reload->services = running.services;
    reload->server = &running.server;
    reload->listeners = &running.listeners;
    reload->admin = &running.admin;
    ck_assert(worker_start(running.server.workers[0]));
}

static void tear_down(void)
{
    worker_stop(running.server.workers[0]);
    worker_join(running.server.workers[0]);
    worker_drain(running.server.workers[0]);
    services_free(&running.services);
    worker_free(&running.server.workers[0]);
    server_free_rules(&running.server);
    settings_free(&running.control.reload.settings);
    control_destroy(&running.control);
    unlink(running.path);
    ck_assert_int_eq(rmdir(running.dir), 0);
    memset(&running, 0, sizeof running);
}

#endif
