/*
 * tubes.c - the jobs as a resource: their start, timer and end. The timer runs in the thread of the
 * first worker.
 */
#include "service/beanstalk.h"
#include "service/job_session.h"
#include "service/tubes_monitor.h"

#include "jobs/jobs_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define MIB (UINT64_C(1) << 20)

/* A smaller jobs.memory_limit counts as this. */
#define MEMORY_LEAST (4 * MIB)

static uint64_t memory_limit_of(const struct tubes_settings *settings)
{
    return settings->memory_limit > MEMORY_LEAST ? settings->memory_limit : MEMORY_LEAST;
}

/* Places of the options' rows. */
enum { TUBES_ROW_MEMORY, TUBES_ROW_DEFAULTS };

static struct tubes *own(const struct resource *r)
{
    return container_of(unconst(r), struct tubes, resource);
}

bool jobs_draining(const struct services *services)
{
    return atomic_load_explicit(&services->draining, memory_order_relaxed) ||
           tubes_resource(services)->drains;
}

/* ---- delivery, timer ------------------------------------------------------------------------- */

void jobs_deliver(struct worker *from, const struct services *services, struct jobs_outbox *outbox)
{
    service_send(from, services, &outbox->messages, job_on_message);
    jobs_set_timer(services);
}

void jobs_set_timer(const struct services *services)
{
    struct tubes *t = tubes_resource(services);
    shared_timer_by(&t->timer, jobs_next_ns(t->jobs));
}

static void run(struct shared_timer *timer, struct moment now)
{
    struct tubes *t = container_of(timer, struct tubes, timer);
    const struct services *services = t->resource.services;
    struct jobs_outbox outbox;
    jobs_outbox_init(&outbox);
    jobs_run(t->jobs, now, &outbox);
    jobs_deliver(services->server->workers[0], services, &outbox);
}

/* ---- settings of tubes ----------------------------------------------------------------------- */

void job_settings_from(const struct bs_settings *given, struct job_settings *settings_r)
{
    *settings_r = (struct job_settings){.given = given->given, /* bits in the same order */
                                        .is = {[JOB_SETTING_ORDER] = given->order,
                                               [JOB_SETTING_CLAIM] = given->claim,
                                               [JOB_SETTING_TRIES] = given->tries,
                                               [JOB_SETTING_LIMIT] = given->limit,
                                               [JOB_SETTING_PRUNE] = given->prune_s,
                                               [JOB_SETTING_REMEMBER] = given->remember_s}};
    if (!(given->given & BS_GIVEN_REMEMBER))
        settings_r->is[JOB_SETTING_REMEMBER] = job_default_settings.is[JOB_SETTING_REMEMBER];
    CHECK(given->read_only.len <= JOBS_READ_ONLY_MAX);
    if (given->read_only.len > 0)
        memcpy(settings_r->read_only, given->read_only.data, given->read_only.len);
}

/* Reads settings as the verb `tube` has them. Returns false when they are wrong. */
static bool read_settings(const char *text, struct job_settings *settings_r)
{
    char line[BS_NEW_LINE_MAX + 1];
    struct bs_request req;
    size_t used;
    int len =
        snprintf(line, sizeof(line), "tube x%s%s\r\n", text && *text ? " " : "", text ? text : "");
    if (len < 0 || (size_t)len >= sizeof(line) ||
        bs_parse_request((const uint8_t *)line, (size_t)len, &req, &used) != BS_PARSED ||
        used != (size_t)len)
        return false;
    job_settings_from(&req.settings, settings_r);
    settings_r->given = 0;
    return true;
}

static bool check_settings(struct option_check *check)
{
    struct tubes_settings *settings = check->is;
    if (read_settings(settings->tube_defaults, &settings->defaults))
        return true;
    check->row = TUBES_ROW_DEFAULTS;
    snprintf(check->reason, sizeof(check->reason),
             "not settings of tubes with spaces between them, such as \"tries=3 prune=604800\"");
    return false;
}

static void settings_changed(void *services, const char *name, const void *was, const void *is)
{
    const struct tubes_settings *settings = is;
    struct tubes *t = tubes_resource(services);
    struct jobs_outbox outbox;
    uint64_t place = 0;
    bool done = false;
    (void)name;
    (void)was;
    t->config.memory_limit = memory_limit_of(settings);
    jobs_set_memory_limit(t->jobs, t->config.memory_limit);
    while (!done) {
        jobs_outbox_init(&outbox);
        done = jobs_set_defaults(t->jobs, &settings->defaults, &place, clock_now(), &outbox);
        jobs_deliver(NULL, services, &outbox);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Of tests that make services without settings of jobs. */
static const struct tubes_settings no_settings = {.memory_limit = UINT64_C(64) << 20};

/* The wall clock, for times that clients give. */
static int64_t wall_ms(void)
{
    return clock_unix_ns() / NS_PER_MS;
}

static bool start(struct resource *r, const void *settings, struct moment now)
{
    struct tubes *t = own(r);
    struct services *services = r->services;
    const struct tubes_settings *given = settings ? settings : &no_settings;
    struct jobs_config config = {.memory_limit = memory_limit_of(given),
                                 .defaults = job_default_settings,
                                 .hash_key = services->hash_key,
                                 .seed = (uint64_t)now.mono_ns,
                                 .wall_ms = wall_ms};
    if (getrandom(&t->id, sizeof(t->id), 0) == (ssize_t)sizeof(t->id))
        config.seed ^= t->id * UINT64_C(0x9e3779b97f4a7c15);
    if (uname(&t->system) != 0)
        memset(&t->system, 0, sizeof(t->system));
    t->config = config;
    t->jobs = jobs_new(&config);
    if (!t->jobs) {
        errno = ENOMEM;
        return false;
    }
    services->tubes = r;
    t->timer.run = run;
    if (shared_timer_add(&t->timer, worker_reactor(services->server->workers[0])))
        return true;
    jobs_free(&t->jobs);
    services->tubes = NULL;
    return false;
}

bool jobs_stop(struct services *services, const char *reason)
{
    struct tubes *t = tubes_resource(services);
    const struct protocol *protocol = services_protocol(services, "jobs");
    if (protocol)
        ((struct service *)protocol->service)->stopped = true;
    t->stopped = reason;
    jobs_free(&t->jobs); /* it may have a part of the file */
    t->jobs = jobs_new(&t->config);
    return t->jobs != NULL;
}

static void end(struct resource *r)
{
    struct tubes *t = own(r);
    shared_timer_remove(&t->timer);
    jobs_free(&t->jobs);
    r->services->tubes = NULL;
}

static uint64_t held(const struct resource *r, struct moment now)
{
    (void)now;
    return jobs_held(own(r)->jobs);
}

/* ---- upgrades -------------------------------------------------------------------------------- */

/* u64 id of the server, if a client has come */
#define SERVER_STATE UINT32_C(0x0602)

/* empty: an administrator has switched draining on */
#define DRAIN_STATE (RECORD_OPTIONAL | UINT32_C(0x0605))

static void save(const struct resource *r, struct moment now, struct record_writer *w)
{
    const struct protocol *protocol = services_protocol(r->services, "jobs");
    (void)jobs_finish_ends(own(r)->jobs, now);
    jobs_save(own(r)->jobs, w);
    if (own(r)->drains) {
        record_begin(w, DRAIN_STATE);
        record_end(w);
    }
    if (!protocol || atomic_load(&protocol->connections_made) == 0)
        return;
    record_begin(w, SERVER_STATE);
    record_put_u64(w, own(r)->id);
    record_end(w);
}

static bool restore(struct resource *r, struct moment now, uint32_t kind,
                    struct record_reader *section)
{
    (void)now;
    if (kind == DRAIN_STATE) {
        own(r)->drains = true;
        return record_ok(section);
    }
    if (kind != SERVER_STATE)
        return jobs_restore(own(r)->jobs, kind, section);
    own(r)->id = record_get_u64(section);
    return record_ok(section);
}

static bool restore_done(struct resource *r, struct record_reader *reader)
{
    if (!jobs_restore_done(own(r)->jobs, reader))
        return false;
    jobs_set_timer(r->services);
    return true;
}

const struct resource_row tubes_resource_row = {
    .name = "tubes",
    .size = sizeof(struct tubes),
    .start = start,
    .save = save,
    .restore = restore,
    .restore_done = restore_done,
    .held = held,
    .monitor = &tubes_monitor,
    .end = end,
};

/* ---- options --------------------------------------------------------------------------------- */

/* clang-format off */
static const struct option_row rows[] = {
    [TUBES_ROW_MEMORY] = { .key = "memory_limit", OPTION_IS_SIZE(struct tubes_settings, memory_limit), .min = MIB,
      .max = 1048576 * MIB, .default_text = "1G", .unit = "", .reloadable = true,
      .help = "maximum memory for jobs, tubes and their clients" },
    [TUBES_ROW_DEFAULTS] = { .key = "tube_defaults",
      OPTION_IS_STRING(struct tubes_settings, tube_defaults),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "settings of tubes that were given none, as the verb tube has them" },
};
/* clang-format on */

const struct option_group tubes_options = {
    .owner = "tubes",
    .prefix = "jobs",
    .rows = rows,
    .count = ARRAY_SIZE(rows),
    .size = sizeof(struct tubes_settings),
    .check = check_settings,
    .changed = settings_changed,
};
