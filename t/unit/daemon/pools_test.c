/*
 * pools_test.c - pools of the configuration: what is checked, and what the resource of pools gets
 * at the start and in a reload. This program has a registry without the resource, and wraps its
 * functions to write down what it would get.
 */
#include "service/pools_config.h"
#include "t/unit/daemon/options.h"
#include "t/unit/daemon/running.h"

/* --- The resource ---------------------------------------------------------------------------- */

/* What the resource got: "db: static max=3 a b=v; gone; ". */
static char told[4096];

/* A pool of this name was made by a verb. */
static const char *by_verb = "";

void __wrap_pools_change_settings(struct services *services, const struct pools_settings *settings);
bool __wrap_pools_accept(const struct services *services, const char *name, enum pool_kind kind,
                         char *reason_r);
void __wrap_pools_configure(struct services *services, const char *name,
                            const struct pool_options *options, const struct pool_members *members);

void __wrap_pools_change_settings(struct services *services, const struct pools_settings *settings)
{
    ck_assert_ptr_eq(services, running.services);
    append(told, sizeof told, "max_members=%u; ", settings->max_members);
}

bool __wrap_pools_accept(const struct services *services, const char *name, enum pool_kind kind,
                         char *reason_r)
{
    ck_assert_ptr_eq(services, running.services);
    append(told, sizeof told, "%s %s? ", name, pool_option_word(POOL_OPTION_KIND, kind));
    if (strcmp(name, by_verb) != 0)
        return true;
    snprintf(reason_r, OPTIONS_REASON_SIZE, "it was made by POOL ADD");
    return false;
}

void __wrap_pools_configure(struct services *services, const char *name,
                            const struct pool_options *options, const struct pool_members *members)
{
    ck_assert_ptr_eq(services, running.services);
    append(told, sizeof told, "%s: ", name);
    if (!options) {
        ck_assert_ptr_null(members);
        append(told, sizeof told, "gone; ");
        return;
    }
    append(told, sizeof told, "%s max=%u", pool_option_word(POOL_OPTION_KIND, options->kind),
           options->max);
    for (size_t i = 0; i < members->count; i++) {
        const struct pool_declared *m = &members->at[i];
        append(told, sizeof told, " %.*s=%.*s", (int)m->name.len, (const char *)m->name.data,
               (int)m->value.len, m->value.len ? (const char *)m->value.data : "");
    }
    append(told, sizeof told, "; ");
}

extern const struct service_row counter_row;
extern const struct option_protocol counter_options;

/* Replaces service/registry.c. */
static const struct service_row *const rows[] = {&poolcounter_row, &counter_row, NULL};
static const struct resource_row *const resources[] = {&table_resource_row, NULL};
const struct registry registry = {.protocols = rows, .resources = resources};
static const struct option_protocol *const protocols[] = {&poolcounter_options, &counter_options,
                                                          NULL};
static const struct option_group *const groups[] = {&table_options, &pools_options, &pool_family,
                                                    NULL};
const struct option_registry option_registry = {.protocols = protocols, .groups = groups};

/* --- Checks ---------------------------------------------------------------------------------- */

/* Reads the command line `counterd -f FILE` with this file; returns the complaints without the
 * folder of the file and "counterd: ". */
static const char *complaints(struct frame *frame, const char *text)
{
    static char program[] = "counterd", file[] = "-f";
    char *argv[] = {program, file, frame->path, NULL};
    settings_free(&frame->settings);
    ck_assert(settings_init(&frame->settings));
    write_text(frame, text);
    struct options_request request =
        options_command_line(3, argv, false, &frame->settings, listen_for_errors(frame));
    char *what = unconst(said(frame));
    ck_assert_int_eq(request.action, *what ? OPTIONS_ERROR : OPTIONS_RUN);
    ck_assert(!*what || request.exit_status == 2);
    for (char *at = what; (at = strstr(at, "counterd: "));)
        memmove(at, at + 10, strlen(at + 10) + 1);
    return what;
}

TEST(good_pools_are_accepted)
{
    struct frame frame = make_frame();
    ck_assert_str_eq(complaints(&frame, "pool.db.members = db_1, db_2=host:5433\n"
                                        "pool.db.on_fail = down\n"
                                        "pool.db.hold_max = 1.5\n"
                                        "pool.db.max = 2\n"
                                        "pool.vm-1.kind = joined\n"
                                        "pool.vm-1.min_free = 2\n"
                                        "pool.vm-1.max_lifetime = 60\n"
                                        "pool.vm-1.lifetime_jitter = 59.9\n"
                                        "pool.empty.group = g\n"
                                        "pools.operators = 10.0.0.0/8\n"),
                     "");
    free_frame(&frame);
}
END_TEST

TEST(what_does_not_fit_together_is_told)
{
    static const struct {
        const char *text, *said;
    } wrong[] = {
        {"pool.db.kind = any\n",
         "c.conf:1: pool.db.kind: \"any\" is not one of static or joined\n"},
        {"pool.db.hold_max = never\n", "c.conf:1: pool.db.hold_max: \"never\" is not a number from "
                                       "0 to 4294967295 seconds, such as 5 or 0.25\n"},
        {"pool.db.on_fial = down\n",
         "c.conf:1: unknown key \"pool.db.on_fial\"; did you mean \"pool.db.on_fail\"?\n"},
        {"\npool.db.min_free = 0\n",
         "c.conf:2: pool.db.min_free: the pool is static, and this option is for joined pools: "
         "remove it, or set pool.db.kind to joined\n"},
        {"pool.db.kind = joined\npool.db.clean_tries = 1\n",
         "c.conf:2: pool.db.clean_tries: the pool is joined, and this option is for static pools: "
         "remove it, or set pool.db.kind to static\n"},
        {"pool.db.kind = joined\npool.db.members = a\n",
         "c.conf:2: pool.db.members: the pool is joined, and this option is for static pools: "
         "remove it, or set pool.db.kind to static\n"},
        {"pool.db.kind = joined\npool.db.members_file = /no/such\n",
         "c.conf:2: pool.db.members_file: the pool is joined, and this option is for static pools: "
         "remove it, or set pool.db.kind to static\n"},
        {"pool.db.kind = joined\npool.db.max_lifetime = 5\npool.db.lifetime_jitter = 5\n",
         "c.conf:3: pool.db.lifetime_jitter: not below pool.db.max_lifetime\n"},
        {"pool.db.group = @g\n",
         "c.conf:1: pool.db.group: not the name of a group: 1 to 255 bytes without blanks and "
         "commas, not - and not beginning with @ or *\n"},
        {"pool.db.members = a, b, a\n",
         "c.conf:1: pool.db.members: \"a\" is there twice, also in the option members; remove "
         "one\n"},
        {"pool.db.members_file = /no/such\n",
         "c.conf:1: pool.db.members_file: /no/such: can't be read: No such file or directory\n"},
        {"pool.db.members = a, b, c\npool.db.max = 2\n",
         "c.conf:2: pool.db.max: 3 members are declared, which is more\n"},
        {"pools.max_members = 2\npool.db.members = a, b, c\n",
         "c.conf:2: pool.db.members: there are more members than pools.max_members, which is 2\n"},
        {"pools.max = 1\npool.a.max = 1\npool.b.max = 1\n",
         "c.conf:3: pool.b.max: there are more pools than pools.max, which is 1\n"},
        {"pools.operators = localhost\n",
         "c.conf:1: pools.operators: \"localhost\" is not an address or a network, such as "
         "192.0.2.7, 10.0.0.0/8 or 2001:db8::/32; the bits after the prefix must be 0\n"},
    };
    struct frame frame = make_frame();
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        ck_assert_str_eq(complaints(&frame, wrong[i].text), wrong[i].said);
    free_frame(&frame);
}
END_TEST

/* --- The start and reloads ------------------------------------------------------------------- */

/* The path of a members file in the folder of the test. */
static const char *members_path(void)
{
    static char path[sizeof running.dir + 16];
    snprintf(path, sizeof path, "%s/members", running.dir);
    return path;
}

static void write_members(const char *text)
{
    FILE *to = fopen(members_path(), "w");
    ck_assert_ptr_nonnull(to);
    ck_assert_int_ge(fputs(text, to), 0);
    ck_assert_int_eq(fclose(to), 0);
}

/* Reloads with this file, with the path of the members file in place of "MEMBERS". Returns the
 * report, with MEMBERS for that path and FILE for that of the file. */
static const char *reload(const char *text, bool good)
{
    static char report[2048];
    char whole[1024] = "", *said = NULL;
    size_t size;
    for (const char *at = text, *found; at; at = found ? found + 7 : NULL) {
        found = strstr(at, "MEMBERS");
        append(whole, sizeof whole, "%.*s%s", (int)(found ? found - at : (long)strlen(at)), at,
               found ? members_path() : "");
    }
    FILE *to = open_memstream(&said, &size);
    write_file(whole);
    *told = '\0';
    ck_assert_int_eq(reload_run(&running.control.reload, to), good);
    fclose(to);
    *report = '\0';
    for (const char *at = said; *at;) {
        size_t members = strlen(members_path()), file = strlen(running.path);
        if (strncmp(at, members_path(), members) == 0) {
            append(report, sizeof report, "MEMBERS");
            at += members;
        } else if (strncmp(at, running.path, file) == 0) {
            append(report, sizeof report, "FILE");
            at += file;
        } else {
            append(report, sizeof report, "%c", *at++);
        }
    }
    free(said);
    return report;
}

#define SAME "done: 0 changed, 0 need a restart\n"

TEST(the_resource_gets_all_at_the_start)
{
    set_up("pool.b.members = x, y=v\npool.a.kind = joined\npool.a.max = 3\n");
    settings_compare(NULL, &running.control.reload.settings, settings_tell, running.services);
    ck_assert_str_eq(told, "max_members=10000; a: joined max=3; b: static max=0 x= y=v; ");
    settings_forget(&running.control.reload.settings);
    tear_down();
}
END_TEST

TEST(the_resource_gets_all_pools_in_each_reload)
{
    set_up("pool.a.members = x\n");
    ck_assert_str_eq(reload("pool.a.members = x\n", true), SAME);
    ck_assert_str_eq(told, "a static? a: static max=0 x=; ");
    ck_assert_str_eq(reload("pool.a.members = x, y=hidden\npool.b.kind = joined\n"
                            "pools.max_members = 7\n",
                            true),
                     "pool.a.members has changed\npools.max_members is 7 now; it was 10000\n"
                     "pool.b is new\ndone: 3 changed, 0 need a restart\n");
    ck_assert_str_eq(told, "a static? b joined? max_members=7; a: static max=0 x= y=hidden; "
                           "b: joined max=0; ");
    ck_assert_str_eq(reload("pool.b.kind = joined\npools.max_members = 7\n", true),
                     "pool.a is gone\ndone: 1 changed, 0 need a restart\n");
    ck_assert_str_eq(told, "b joined? a: gone; b: joined max=0; ");
    tear_down();
}
END_TEST

TEST(a_members_file_is_read_in_each_reload)
{
    set_up("");
    write_members("x v\n");
    ck_assert_str_eq(reload("pool.a.members = w\npool.a.members_file = MEMBERS\n", true),
                     "pool.a is new\ndone: 1 changed, 0 need a restart\n");
    ck_assert_str_eq(told, "a static? a: static max=0 w= x=v; ");
    write_members("x v\ny\n");
    ck_assert_str_eq(reload("pool.a.members = w\npool.a.members_file = MEMBERS\n", true), SAME);
    ck_assert_str_eq(told, "a static? a: static max=0 w= x=v y=; ");
    write_members("x v\nw\n");
    ck_assert_str_eq(reload("pool.a.members = w\npool.a.members_file = MEMBERS\n", false),
                     "FILE:2: pool.a.members_file: MEMBERS:2: \"w\" is there twice, also in the "
                     "option members; remove one\n"
                     "nothing was changed; the old settings stay in force\n");
    ck_assert_str_eq(told, "");
    unlink(members_path());
    tear_down();
}
END_TEST

TEST(a_wrong_reload_changes_nothing)
{
    set_up("pool.a.members = x\npool.b.max = 1\n");
    ck_assert_str_eq(reload("pool.a.kind = joined\npool.b.max = 2\n", false),
                     "pool.a: its kind can't change from static to joined while counterd runs: "
                     "restart it, or reload without the pool first\n"
                     "nothing was changed; the old settings stay in force\n");
    ck_assert_str_eq(told, "b static? ");
    by_verb = "c";
    ck_assert_str_eq(reload("pool.b.max = 2\npool.c.max = 3\n", false),
                     "pool.c: it was made by POOL ADD\n"
                     "nothing was changed; the old settings stay in force\n");
    ck_assert_str_eq(told, "b static? c static? ");
    by_verb = "";
    ck_assert_str_eq(reload("pool.b.max = 1\npool.b.cull_after = 1\n", false),
                     "FILE:2: pool.b.cull_after: the pool is static, and this option is for joined "
                     "pools: remove it, or set pool.b.kind to joined\n"
                     "nothing was changed; the old settings stay in force\n");
    ck_assert_str_eq(told, "");
    tear_down();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(good_pools_are_accepted),
    UNIT(what_does_not_fit_together_is_told),
    UNIT(the_resource_gets_all_at_the_start),
    UNIT(the_resource_gets_all_pools_in_each_reload),
    UNIT(a_members_file_is_read_in_each_reload),
    UNIT(a_wrong_reload_changes_nothing),
};

UNIT_MAIN("daemon/pools", tests)
