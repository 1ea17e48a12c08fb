/*
 * control_test.c - the admin's hooks, called in a thread of their own as the admin does. t/system
 * tests the signals.
 */
#include "t/unit/daemon/running.h"

#include "base/check.h"
#include "base/log.h"
#include "daemon/process.h"

#include <sched.h>
#include <stdlib.h>

/* --- Frame ----------------------------------------------------------------------------------- */

static sigset_t awaited;
static struct admin_hooks hooks;

/* Starts with signals blocked, as in the daemon. */
static void start(const char *text)
{
    process_block_signals(&awaited);
    set_up(text);
    ck_assert(control_listen(&running.control, &awaited));
    hooks = control_hooks(&running.control);
}

/* The result of a request from another thread. */
struct asking {
    enum admin_outcome outcome;
    bool upgrades;
    char report[1024];
};

static void *ask_twice(void *arg)
{
    struct asking *asking = arg;
    while (!hooks.ready(hooks.arg))
        sched_yield();
    write_file("log.level = debug\n");
    asking[0].outcome = hooks.reload(hooks.arg, asking[0].report, sizeof asking[0].report);
    write_file("log.level = loud\n");
    asking[1].outcome = hooks.reload(hooks.arg, asking[1].report, sizeof asking[1].report);
    kill(getpid(), SIGTERM);
    return NULL;
}

TEST(a_reload_that_is_asked_for_is_waited_for)
{
    static struct asking asking[2];
    pthread_t thread;
    start("");
    ck_assert(!hooks.ready(hooks.arg));
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_twice, asking), 0);
    ck_assert_int_eq(control_run(&running.control), SIGTERM);
    pthread_join(thread, NULL);
    ck_assert_int_eq(asking[0].outcome, ADMIN_DONE);
    ck_assert_str_eq(asking[0].report, "log.level is debug now; it was info\n"
                                       "done: 1 changed, 0 need a restart\n");
    ck_assert_int_eq(asking[1].outcome, ADMIN_REFUSED);
    ck_assert_ptr_nonnull(strstr(asking[1].report, ":1: log.level: \"loud\" is not one of"));
    ck_assert_ptr_nonnull(strstr(asking[1].report, "\nnothing was changed"));
    control_end(&running.control);
    ck_assert(!hooks.ready(hooks.arg));
    tear_down();
}
END_TEST

static void *ask_once(void *arg)
{
    struct asking *asking = arg;
    asking->outcome = hooks.reload(hooks.arg, asking->report, sizeof asking->report);
    asking->upgrades = hooks.upgrade(hooks.arg);
    return NULL;
}

TEST(nobody_waits_for_a_daemon_that_ends)
{
    static struct asking asking;
    pthread_t thread;
    start("");
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_once, &asking), 0);
    control_end(&running.control); /* before the request, or while it waits */
    pthread_join(thread, NULL);
    ck_assert_int_eq(asking.outcome, ADMIN_AWAY);
    ck_assert(!asking.upgrades);
    ck_assert_str_eq(asking.report, "counterd is ending");
    tear_down();
}
END_TEST

/* --- The settings in force ------------------------------------------------------------------- */

struct emitted {
    size_t count;
    char level[16], token[16], allow[64], port[16], members[16];
    unsigned changed;
};

static void gather(void *to, const struct admin_option *option)
{
    struct emitted *emitted = to;
    const struct option_row *row = options_row_at(emitted->count++);
    ck_assert_str_eq(option->key, row->key);
    ck_assert_str_eq(option->default_text, row->default_text);
    ck_assert_str_eq(option->unit, row->unit);
    ck_assert_str_eq(option->help, row->help);
    ck_assert_int_eq(option->reloadable, row->reloadable);
    if (option->is_default)
        ck_assert_str_eq(option->value, row->default_text);
    else
        emitted->changed++;
    struct {
        const char *key;
        char *value;
        size_t size;
    } kept[] = {
        {"log.level", emitted->level, sizeof emitted->level},
        {"admin.token", emitted->token, sizeof emitted->token},
        {"access.allow", emitted->allow, sizeof emitted->allow},
        {"counter.port", emitted->port, sizeof emitted->port},
        {"pool.NAME.members", emitted->members, sizeof emitted->members},
    };
    for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
        if (strcmp(option->key, kept[i].key) == 0)
            snprintf(kept[i].value, kept[i].size, "%s", option->value);
}

TEST(the_settings_in_force_are_told_without_secrets)
{
    struct emitted emitted = {0};
    start("admin.token = hush\naccess.allow = 10.0.0.0/8 ::1\ncounter.port = 5\n"
          "pool.NAME.members = db=hush\n");
    log_set_level(LOG_LEVEL_DEBUG); /* the admin interface can do this */
    hooks.config(hooks.arg, gather, &emitted);
    ck_assert_ptr_null(options_row_at(emitted.count));
    ck_assert_uint_eq(emitted.changed, 5);
    ck_assert_str_eq(emitted.level, "debug");
    ck_assert_str_eq(emitted.token, "(set)");
    ck_assert_str_eq(emitted.members, "(set)");
    ck_assert_str_eq(emitted.allow, "10.0.0.0/8, ::1/128");
    ck_assert_str_eq(emitted.port, "5");
    tear_down();
    start("pool.NAME.max = 0\n");
    log_set_level(LOG_LEVEL_INFO);
    emitted = (struct emitted){0};
    hooks.config(hooks.arg, gather, &emitted);
    ck_assert_uint_eq(emitted.changed, 0);
    ck_assert_str_eq(emitted.token, "");
    tear_down();
}
END_TEST

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(a_reload_that_is_asked_for_is_waited_for),
        UNIT(nobody_waits_for_a_daemon_that_ends),
        UNIT(the_settings_in_force_are_told_without_secrets),
    };
    return unit_run("daemon/control", tests, ARRAY_SIZE(tests));
}
