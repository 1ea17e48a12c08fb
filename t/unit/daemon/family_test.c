/*
 * family_test.c - options that other modules add: a family, whose names come from the file, and
 * more rows than a bit mask could hold. This program's registry lists them.
 */
#include "t/unit/daemon/options.h"
#include "t/unit/daemon/running.h"

/* --- The family and the other options -------------------------------------------------------- */

struct tank {
    unsigned shape;
    uint32_t max;
    char *label;
};

static const char *const shapes[] = {"round", "square", NULL};

/* clang-format off */
static const struct option_row tank_rows[] = {
    { .key = "shape", OPTION_IS_CHOICE(struct tank, shape), .choices = shapes,
      .default_text = "round", .unit = "", .help = "what it looks like" },
    { .key = "max", .alias = "maximum", OPTION_IS_NUMBER(struct tank, max), .max = 100,
      .default_text = "7", .unit = "", .reloadable = true, .help = "how much it takes" },
    { .key = "label", OPTION_IS_STRING(struct tank, label),
      .default_text = "", .unit = "", .reloadable = true, .help = "what stands on it" },
};
/* clang-format on */

/* The calls of the owner's callback: "a new 7; b 3 -> 4; c gone; ". */
static char told[512];

static void tank_changed(void *services, const char *name, const void *was, const void *is)
{
    const struct tank *old = was, *new = is;
    ck_assert_ptr_eq(services, running.services);
    if (!new)
        append(told, sizeof told, "%s gone; ", name);
    else if (!old)
        append(told, sizeof told, "%s new %u; ", name, new->max);
    else
        append(told, sizeof told, "%s %u -> %u; ", name, old->max, new->max);
}

static const struct option_group tanks = {
    .prefix = "tank",
    .rows = tank_rows,
    .count = ARRAY_SIZE(tank_rows),
    .size = sizeof(struct tank),
    .names_max = 4,
    .changed = tank_changed,
};

/* A family with checks: its owner is asked and told in each reload. */
struct jar {
    bool glass;
    char *content;
    char *loaded; /* made of `content` by the check */
};

/* clang-format off */
static const struct option_row jar_rows[] = {
    { .key = "glass", OPTION_IS_BOOL(struct jar, glass),
      .default_text = "false", .unit = "", .help = "what it is made of" },
    { .key = "content", OPTION_IS_STRING(struct jar, content),
      .default_text = "", .unit = "", .reloadable = true, .help = "what is in it" },
};
/* clang-format on */

static bool jar_check(struct option_check *check);

static void jar_forget(void *settings)
{
    struct jar *jar = settings;
    free(jar->loaded);
    jar->loaded = NULL;
}

static bool jar_accepts(void *services, const char *name, const void *was, const void *is,
                        char *reason_r)
{
    const struct jar *old = was, *new = is;
    ck_assert_ptr_eq(services, running.services);
    append(told, sizeof told, "asked for %s; ", name);
    if (!old || !new || old->glass == new->glass)
        return true;
    snprintf(reason_r, OPTIONS_REASON_SIZE, "glass can't change");
    return false;
}

static void jar_changed(void *services, const char *name, const void *was, const void *is)
{
    const struct jar *new = is;
    ck_assert_ptr_eq(services, running.services);
    append(told, sizeof told, "%s %s %s; ", name, was ? "is" : "new", new ? new->loaded : "gone");
}

#define MANY 200

struct many {
    uint32_t values[MANY];
};

static char many_keys[MANY][8];
static struct option_row many_rows[MANY];
static const struct option_group many = {.owner = "many",
                                         .prefix = "many",
                                         .rows = many_rows,
                                         .count = MANY,
                                         .size = sizeof(struct many)};

static const struct option_group jars = {
    .prefix = "jar",
    .rows = jar_rows,
    .count = ARRAY_SIZE(jar_rows),
    .size = sizeof(struct jar),
    .names_max = 30,
    .beside = &many,
    .check = jar_check,
    .forget = jar_forget,
    .accepts = jar_accepts,
    .always = true,
    .changed = jar_changed,
};

/* At most many.k0 jars, and none has mould in it. */
static bool jar_check(struct option_check *check)
{
    struct jar *jar = check->is;
    const struct many *many_values = check->beside;
    const char *content = jar->content ? jar->content : "";
    jar_forget(jar);
    if (check->number >= many_values->values[0]) {
        check->row = 0;
        snprintf(check->reason, sizeof check->reason, "there are more than %u",
                 many_values->values[0]);
        return false;
    }
    if (strcmp(content, "mould") == 0) {
        check->row = 1;
        snprintf(check->reason, sizeof check->reason, "%s has mould, glass is %s", check->name,
                 check->marks[0].named ? "given" : "not given");
        return false;
    }
    ck_assert_int_gt(asprintf(&jar->loaded, "full of %s", content), 0);
    return true;
}

static void __attribute__((constructor)) fill_many_rows(void)
{
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(many_keys[i], sizeof many_keys[i], "k%u", i);
        many_rows[i] = (struct option_row){.key = many_keys[i],
                                           OPTION_IS_NUMBER(struct many, values[0]),
                                           .max = 1000,
                                           .default_text = "5",
                                           .unit = "",
                                           .help = "one of many"};
        many_rows[i].offset = i * sizeof(uint32_t);
    }
}

extern const struct service_row counter_row;
extern const struct option_protocol counter_options;

/* Replaces service/registry.c. */
static const struct service_row *const rows[] = {&poolcounter_row, &counter_row, NULL};
static const struct resource_row *const resources[] = {&table_resource_row, NULL};
const struct registry registry = {.protocols = rows, .resources = resources};
static const struct option_protocol *const protocols[] = {&poolcounter_options, &counter_options,
                                                          NULL};
static const struct option_group *const groups[] = {&tanks, &jars, &many, &table_options, NULL};
const struct option_registry option_registry = {.protocols = protocols, .groups = groups};

/* --- Keys ------------------------------------------------------------------------------------ */

/* The tanks' keys that are set, with their values. */
static const char *tanks_of(const struct settings *settings)
{
    static char text[1024];
    const struct option_row *row;
    *text = '\0';
    for (size_t i = 0; (row = options_in(settings, i)); i++) {
        char value[64];
        if (strncmp(row->key, "tank.", 5) != 0)
            continue;
        options_to_text(settings, row, value, sizeof value);
        append(text, sizeof text, "%s=%s ", row->key + 5, value);
    }
    return text;
}

TEST(groups_are_shown_by_their_prefixes)
{
    char prefixes[256] = "", last[32] = "";
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(row->key, "."), row->key);
        if (strcmp(prefix, last) != 0)
            append(prefixes, sizeof prefixes, "%s ", prefix);
        memcpy(last, prefix, sizeof last);
    }
    ck_assert_str_eq(prefixes,
                     "counter jar many poolcounter tank tls access limits admin shutdown log "
                     "upgrade user group pid_file security ");
    ck_assert_str_eq(options_find("tank.NAME.maximum")->key, "tank.NAME.max");
    ck_assert_ptr_null(options_find("tank.a.max"));
}
END_TEST

TEST(names_come_with_the_file)
{
    struct frame frame = make_frame();
    assert_loads(&frame, "tank.b.max = 3\ntank.a-1_Z.label = x\ntank.b.shape = square\n"
                         "tank.NAME.maximum = 1\n");
    ck_assert_str_eq(tanks_of(&frame.settings),
                     "NAME.shape=round NAME.max=1 NAME.label= a-1_Z.shape=round a-1_Z.max=7 "
                     "a-1_Z.label=x b.shape=square b.max=3 b.label= ");
    assert_loads(&frame, "");
    ck_assert_str_eq(tanks_of(&frame.settings), "");
    free_frame(&frame);
}
END_TEST

TEST(wrong_keys_of_a_family_are_told_the_nearest)
{
    struct frame frame = make_frame();
    assert_complains(
        &frame,
        "tank.b.mx = 3\ntank.b.frobnicate = 3\ntank.a b.max = 3\ntank..max = 3\n"
        "label = x\nmany.k1999 = 3\n",
        "counterd: c.conf:1: unknown key \"tank.b.mx\"; did you mean \"tank.b.max\"?\n"
        "counterd: c.conf:2: unknown key \"tank.b.frobnicate\"; counterd --help lists "
        "the keys\n"
        "counterd: c.conf:3: \"a b\" is not a name of 1 to 64 letters, digits, _ and "
        "-\n"
        "counterd: c.conf:4: \"\" is not a name of 1 to 64 letters, digits, _ and -\n"
        "counterd: c.conf:5: unknown key \"label\"; did you mean \"tank.NAME.label\"?\n"
        "counterd: c.conf:6: unknown key \"many.k1999\"; did you mean \"many.k199\"?\n");
    assert_complains(&frame, "tank.b.max = 3\ntank.b.maximum = 3\ntank.b.shape = flat\n",
                     "counterd: c.conf:2: tank.b.maximum: set on line 1 already, as tank.b.max, "
                     "which is the same\n"
                     "counterd: c.conf:3: tank.b.shape: \"flat\" is not one of round or square\n");
    free_frame(&frame);
}
END_TEST

TEST(names_are_bounded)
{
    struct frame frame = make_frame();
    char text[512] = "tank.a.max = 1\ntank.b.max = 1\ntank.c.max = 1\n", longest[66];
    memset(longest, 'x', 65);
    longest[65] = '\0';
    append(text, sizeof text, "tank.%s.max = 1\n", longest + 1);
    assert_loads(&frame, text);
    append(text, sizeof text, "tank.d.max = 1\ntank.a.label = y\n");
    assert_complains(&frame, text, "counterd: c.conf:5: more than 4 names after \"tank.\"\n");
    snprintf(text, sizeof text, "tank.%s.max = 1\n", longest);
    ck_assert_int_eq(load(&frame, text), CONFIG_FILE_BAD);
    ck_assert_ptr_nonnull(strstr(said(&frame), "xxx\" is not a name of 1 to 64 "));
    free_frame(&frame);
}
END_TEST

TEST(names_may_come_with_the_command_line)
{
    struct frame frame = make_frame();
    static char program[] = "counterd", file[] = "-f", option[] = "-otank.b.max=9";
    char *argv[] = {program, file, frame.path, option, NULL};
    write_text(&frame, "tank.b.max = 1\n");
    ck_assert_int_eq(
        options_command_line(4, argv, false, &frame.settings, listen_for_errors(&frame)).action,
        OPTIONS_RUN);
    ck_assert_str_eq(said(&frame), "");
    ck_assert_str_eq(tanks_of(&frame.settings), "b.shape=round b.max=9 b.label= ");
    free_frame(&frame);
}
END_TEST

TEST(there_may_be_any_number_of_options)
{
    struct settings settings;
    ck_assert(settings_init(&settings));
    for (unsigned i = 0; i < MANY; i++) {
        char key[16], value[16];
        snprintf(key, sizeof key, "many.k%u", i);
        ck_assert(!options_mark(&settings, row_of(key))->named);
        assert_value(&settings, key, "5");
        snprintf(value, sizeof value, "%u", i);
        ck_assert(assigns(&settings, key, value));
        ck_assert(options_mark(&settings, row_of(key))->named);
    }
    const struct many *values = settings_own(&settings, &many);
    for (unsigned i = 0; i < MANY; i++)
        ck_assert_uint_eq(values->values[i], i);
    settings_free(&settings);
}
END_TEST

/* --- Reloading ------------------------------------------------------------------------------- */

/* Reloads with this text as the file; returns the report, which the caller frees. */
static char *reload(const char *text)
{
    char *report = NULL;
    size_t size;
    FILE *to = open_memstream(&report, &size);
    write_file(text);
    *told = '\0';
    ck_assert(reload_run(&running.control.reload, to));
    fclose(to);
    return report;
}

static void assert_reloads(const char *text, const char *report, const char *owner_told)
{
    char *said = reload(text);
    ck_assert_str_eq(said, report);
    ck_assert_str_eq(told, owner_told);
    free(said);
}

TEST(names_come_change_and_go_in_a_reload)
{
    set_up("tank.b.max = 3\ntank.d.max = 4\n");
    assert_reloads("tank.d.max = 4\ntank.b.max = 5\ntank.a.label = x\n",
                   "tank.b.max is 5 now; it was 3\ntank.a is new\n"
                   "done: 2 changed, 0 need a restart\n",
                   "a new 7; b 3 -> 5; ");
    assert_reloads("tank.c.max = 1\ntank.b.max = 5\n",
                   "tank.a is gone\ntank.c is new\ntank.d is gone\n"
                   "done: 3 changed, 0 need a restart\n",
                   "a gone; c new 1; d gone; ");
    assert_reloads("tank.b.max = 5\ntank.c.max = 1\n", "done: 0 changed, 0 need a restart\n", "");
    ck_assert_str_eq(tanks_of(&running.control.reload.settings),
                     "b.shape=round b.max=5 b.label= c.shape=round c.max=1 c.label= ");
    tear_down();
}
END_TEST

TEST(what_a_name_has_and_is_not_reloadable_stays)
{
    set_up("tank.b.max = 3\n");
    assert_reloads("tank.b.shape = square\ntank.c.shape = square\n",
                   "tank.b.shape can't change from round to square while counterd runs: restart "
                   "it\ntank.b.max is 7 now; it was 3\ntank.c is new\n"
                   "done: 2 changed, 1 need a restart\n",
                   "b 3 -> 7; c new 7; ");
    ck_assert_str_eq(tanks_of(&running.control.reload.settings),
                     "b.shape=round b.max=7 b.label= c.shape=square c.max=7 c.label= ");
    tear_down();
}
END_TEST

TEST(the_owner_is_told_all_at_the_start)
{
    set_up("tank.b.max = 3\ntank.a.max = 4\n");
    *told = '\0';
    settings_compare(NULL, &running.control.reload.settings, settings_tell, running.services);
    ck_assert_str_eq(told, "a new 4; b new 3; ");
    tear_down();
}
END_TEST

/* --- Checks ---------------------------------------------------------------------------------- */

/* Reads the command line `counterd -f FILE [-o option]` with this file; returns the complaints. */
static const char *complaints(struct frame *frame, const char *text, char *option)
{
    static char program[] = "counterd", file[] = "-f", flag[] = "-o";
    char *argv[] = {program, file, frame->path, flag, option, NULL};
    settings_free(&frame->settings);
    ck_assert(settings_init(&frame->settings));
    write_text(frame, text);
    struct options_request request = options_command_line(
        option ? 5 : 3, argv, false, &frame->settings, listen_for_errors(frame));
    const char *text_r = said(frame);
    ck_assert_int_eq(request.action, *text_r ? OPTIONS_ERROR : OPTIONS_RUN);
    ck_assert(!*text_r || request.exit_status == 2);
    return text_r;
}

TEST(a_mistake_that_a_check_finds_has_its_line)
{
    struct frame frame = make_frame();
    static char option[] = "jar.b.content=mould", good[] = "jar.a.content=jam";
    ck_assert_str_eq(complaints(&frame, "jar.a.content = jam\n", NULL), "");
    ck_assert_str_eq(complaints(&frame,
                                "\njar.b.content = mould\n\njar.a.glass = on\n"
                                "jar.a.content = mould\n",
                                NULL),
                     "counterd: c.conf:5: jar.a.content: a has mould, glass is given\n"
                     "counterd: c.conf:2: jar.b.content: b has mould, glass is not given\n");
    ck_assert_str_eq(complaints(&frame, "jar.b.content = jam\n", option),
                     "counterd: jar.b.content: b has mould, glass is not given\n");
    ck_assert_str_eq(complaints(&frame, "jar.a.content = mould\n", good), "");
    ck_assert_str_eq(
        complaints(&frame, "many.k0 = 1\njar.a.content = x\njar.b.content = x\n", NULL),
        "counterd: jar.b.glass: there are more than 1\n");
    free_frame(&frame);
}
END_TEST

TEST(checks_stop_after_20_mistakes)
{
    struct frame frame = make_frame();
    char text[2048] = "";
    for (unsigned i = 0; i < 25; i++)
        append(text, sizeof text, "jar.j%u.content = mould\n", i);
    const char *line = complaints(&frame, text, NULL);
    unsigned lines = 0;
    for (; *line; line++)
        lines += *line == '\n';
    ck_assert_uint_eq(lines, 20);
    free_frame(&frame);
}
END_TEST

TEST(an_owner_may_be_told_in_each_reload)
{
    set_up("jar.a.content = jam\n");
    assert_reloads("jar.a.content = jam\n", "done: 0 changed, 0 need a restart\n",
                   "asked for a; a is full of jam; ");
    assert_reloads("jar.b.content = tea\n",
                   "jar.a is gone\njar.b is new\ndone: 2 changed, 0 need a restart\n",
                   "asked for a; asked for b; a is gone; b new full of tea; ");
    tear_down();
}
END_TEST

TEST(an_owner_may_refuse)
{
    set_up("jar.a.content = jam\ntank.t.max = 1\n");
    char *report = NULL;
    size_t size;
    FILE *to = open_memstream(&report, &size);
    write_file("jar.a.glass = true\njar.a.content = tea\ntank.t.max = 2\n");
    *told = '\0';
    ck_assert(!reload_run(&running.control.reload, to));
    fclose(to);
    ck_assert_str_eq(report, "jar.a: glass can't change\n"
                             "nothing was changed; the old settings stay in force\n");
    ck_assert_str_eq(told, "asked for a; ");
    ck_assert_str_eq(tanks_of(&running.control.reload.settings), "t.shape=round t.max=1 t.label= ");
    free(report);
    tear_down();
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(groups_are_shown_by_their_prefixes),
    UNIT(names_come_with_the_file),
    UNIT(wrong_keys_of_a_family_are_told_the_nearest),
    UNIT(names_are_bounded),
    UNIT(names_may_come_with_the_command_line),
    UNIT(there_may_be_any_number_of_options),
    UNIT(names_come_change_and_go_in_a_reload),
    UNIT(what_a_name_has_and_is_not_reloadable_stays),
    UNIT(the_owner_is_told_all_at_the_start),
    UNIT(a_mistake_that_a_check_finds_has_its_line),
    UNIT(checks_stop_after_20_mistakes),
    UNIT(an_owner_may_be_told_in_each_reload),
    UNIT(an_owner_may_refuse),
};

UNIT_MAIN("daemon/family", tests)
