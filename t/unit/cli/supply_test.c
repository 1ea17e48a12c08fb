/*
 * supply_test.c - what a supplier does after each event, with a clock that the test moves. A row
 * has steps with ";" between them: events, and behind "->" all that there is to do then.
 */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/supply.h"
#include "t/unit/unit.h"
#include "t/unit/words.h"

#include <stdio.h>
#include <string.h>

#define READY   .says_ready = true
#define KEEPS   .keeps = true
#define EVERY_S .every_ns = NS_PER_S

static const struct {
    const char *title;
    struct supply_rules rules;
    const char *steps;
} rows[] = {
    {"as many start as are wanted",
     {.max = 4},
     "wanted 1 -> start 0, join 0; joined 0 ->; want 3 -> start 1, join 1, start 2, join 2;"
     "joined 1, joined 2, want 9 -> start 3, join 3"},
    {"a supplier that has more ends only what it is told to",
     {.max = 4},
     "wanted 3 -> start 0, join 0, start 1, join 1, start 2, join 2;"
     "joined 0, joined 1, joined 2, want 1 ->; stop 1 -> term 1; stop 1 ->; ended 1 -> drop 1;"
     "stop 1 ->; want 3 -> start 1, join 1"},
    {"a command that must end does not count, and is killed after the grace",
     {.max = 2},
     "wanted 1 -> start 0, join 0; joined 0, stop 0 -> term 0, start 1, join 1;"
     "wait 10000 -> kill 0; idle 1000 ->; ended 0 -> drop 0"},
    {"there are never more than max, also while some end",
     {.max = 1},
     "wanted 1 -> start 0, join 0; joined 0, stop 0 -> term 0; leaves 0 -> drop 0;"
     "wait 10000 -> kill 0; ended 0 -> start 0, join 0"},
    {"what a command leaves behind is ended, too",
     {.max = 1},
     "wanted 1 -> start 0, join 0; joined 0, leaves 0 -> drop 0, term 0; wait 10000 -> kill 0;"
     "ended 0 -> start 0, join 0"},
    {"restarts wait longer and longer",
     {.max = 1},
     "wanted 1 -> start 0, join 0; fails 100, fails 200, fails 400, fails 800, fails 1600,"
     "fails 3200, fails 6400, fails 12800, fails 25600, fails 30000, fails 30000, joined 0,"
     "sleep 9999, fails 30000, sleep 10000, fails 100"},
    {"a slot that waits is not passed over",
     {.max = 4},
     "wanted 2 -> start 0, join 0, start 1, join 1; joined 0, joined 1, ended 0 -> drop 0;"
     "want 3 -> start 2, join 2; want 2, idle 1000, want 3 -> start 0, join 0"},
    {"a wait stays with its slot",
     {.max = 2},
     "wanted 1 -> start 0, join 0; fails 100, fails 200, fails 400, fails 800, fails 1600, ended 0"
     "-> drop 0; want 0, want 1 ->; want 0, want 1 ->; wait 3200 -> start 0, join 0"},
    {"it joins when it says that it is ready",
     {.max = 1, READY},
     "wanted 1 -> start 0; sleep 59000 ->; ready 0 -> join 0; ready 0, joined 0, idle 1000000"},
    {"a start that takes too long is one failure",
     {.max = 1, READY},
     "wanted 1 -> start 0; wait 60000 -> give up 0; ready 0 ->; wait 10000 -> kill 0; ended 0 ->;"
     "wait 100 -> start 0; wait 60000 -> give up 0; leaves 0, ended 0, wait 200"},
    {"a command that cannot be started is a failure",
     {.max = 1},
     "wanted 1, begin, ended 0 ->; wait 100, begin, ended 0 ->; wait 200, begin, ended 0 ->;"
     "wait 400"},
    {"a refused join is tried again, or ends the command",
     {.max = 2},
     "wanted 2 -> start 0, join 0, start 1, join 1; refused 0, rejected 1 -> term 1;"
     "wait 100 -> join 0; refused 0 ->; wait 200 -> join 0; joined 0, ended 1 ->;"
     "wait 100 -> start 1, join 1"},
    {"an answer for a command that has ended changes nothing",
     {.max = 1},
     "wanted 1 -> start 0, join 0; ended 0 -> drop 0; joined 0, rejected 0, checked 0 ->;"
     "wait 100 -> start 0, join 0"},
    {"members are checked from time to time, and none before its last check is over",
     {.max = 2, .every_ns = 5 * NS_PER_S},
     "wanted 2 -> start 0, join 0, start 1, join 1; joined 0, idle 2000, joined 1,"
     "wait 3000 -> check 0; wait 2000 -> check 1; idle 60000, checked 0, wait 5000 -> check 0"},
    {"all end when the connection is lost",
     {.max = 3, READY},
     "wanted 2 -> start 0, start 1; ready 0 -> join 0; joined 0, down -> term 0, term 1;"
     "ended 0 ->; wait 100 -> connect; up -> supply; taken, want 1 -> start 0; ended 1 ->"},
    {"kept ones join again",
     {.max = 3, READY, KEEPS},
     "wanted 3 -> start 0, start 1, start 2; ready 0, ready 1 -> join 0, join 1;"
     "joined 0, down, ready 2 ->; ended 0, wait 100 -> connect, start 0; up -> supply;"
     "taken, want 1 -> join 1, join 2; joined 1, ready 0 -> join 0"},
    {"connecting waits longer and longer, also when the server closes the connection at once",
     {.max = 1},
     "wanted 0; down, wait 100 -> connect; down, wait 200 -> connect; up -> supply;"
     "down, wait 400 -> connect; down, wait 800 -> connect; up -> supply;"
     "down, wait 1600 -> connect; down, wait 3200 -> connect; down, wait 6400 -> connect;"
     "down, wait 12800 -> connect; down, wait 25600 -> connect; down, wait 30000 -> connect;"
     "up -> supply; down, wait 30000 -> connect; up -> supply; taken, down, wait 100"},
    {"a pool that is dropped is supplied when it is there again",
     {.max = 1},
     "wanted 1 -> start 0, join 0; joined 0, want 0, stop 0 -> supply, term 0;"
     "refuses, wait 100 -> supply; refuses, ended 0 -> drop 0; wait 200 -> supply;"
     "refuses, wait 400 -> supply; refuses, wait 800 -> supply; refuses, wait 1600 -> supply;"
     "taken, want 1 -> start 0, join 0; idle 60000"},
    {"a supplier of nothing asks seldom",
     {.max = 4},
     "wanted 0; wait 100 -> supply; taken, want 0, wait 200 -> supply;"
     "taken, want 0, wait 400 -> supply; taken, want 0, wait 800 -> supply;"
     "taken, want 0, wait 1600 -> supply; taken, want 0, wait 3200 -> supply;"
     "taken, want 0, wait 6400 -> supply; taken, want 0, wait 12800 -> supply;"
     "taken, want 0, wait 25600 -> supply; taken, want 0, wait 30000 -> supply;"
     "taken, want 0, wait 30000"},
    {"at the end nobody gets a member that ends",
     {.max = 4, READY},
     "wanted 3 -> start 0, start 1, start 2; ready 0, ready 1 -> join 0, join 1;"
     "joined 0, finish -> resign, drop 0, term 0, drop 1, term 1, term 2;"
     "want 4, joined 1, ended 0, ended 2, wait 10000 -> kill 1; ended 1 -> leave"},
    {"a supplier in a hurry kills at once",
     {.max = 2, KEEPS},
     "wanted 2 -> start 0, join 0, start 1, join 1; joined 0, joined 1, down, finish -> term 0,"
     " term 1; hurry -> kill 0, kill 1; ended 0, ended 1 -> leave"},
    {"without a command there is one member",
     {.max = 1, KEEPS, EVERY_S, .is_single = true},
     "-> connect, start 0; up -> join 0; joined 0, wait 1000 -> check 0; down, wait 100 -> connect;"
     "up -> join 0; refused 0, wait 100 -> join 0; joined 0, finish -> drop 0, term 0;"
     "ended 0 -> leave"},
};

static int64_t now; /* monotonic */
static struct supply s;
static const char *title;

/* Carries out nothing, and tells in words what there was to do: "start 0, join 0". */
static const char *todo(void)
{
    static const char *const words[] = {
        [DO_CONNECT] = "connect", [DO_SUPPLY] = "supply",   [DO_RESIGN] = "resign",
        [DO_START] = "start",     [DO_JOIN] = "join",       [DO_CHECK] = "check",
        [DO_DROP] = "drop",       [DO_TERM] = "term",       [DO_KILL] = "kill",
        [DO_LEAVE] = "leave",     [DO_GIVE_UP] = "give up",
    };
    static char said[400];
    size_t len = 0;
    struct supply_action action;
    *said = '\0';
    while ((action = supply_next(&s, now)).what != DO_NOTHING) {
        bool of_slot = action.what >= DO_START && action.what <= DO_KILL;
        ck_assert_uint_lt(len, sizeof said - 20);
        len += (size_t)sprintf(said + len, "%s%s", len ? ", " : "", words[action.what]);
        if (of_slot)
            len += (size_t)sprintf(said + len, " %u", action.slot);
        if (action.what == DO_LEAVE)
            break;
    }
    if (action.what == DO_NOTHING)
        ck_assert_int_gt(action.at_ns, now);
    return said;
}

static void expect(const char *expected)
{
    const char *said = todo();
    ck_assert_msg(strcmp(said, expected) == 0, "%s: \"%s\" instead of \"%s\"", title, said,
                  expected);
}

/* Moves the clock to when there is something to do; that must be so many ms from now. */
static void wait_for(int64_t ms, bool is_idle)
{
    struct supply_action action = supply_next(&s, now);
    ck_assert_msg(action.what == DO_NOTHING, "%s: not idle", title);
    int64_t after_ns = action.at_ns - now;
    ck_assert_msg(is_idle ? after_ns > ms * NS_PER_MS : after_ns == ms * NS_PER_MS,
                  "%s: %lld ms instead of %lld", title, (long long)(after_ns / NS_PER_MS),
                  (long long)ms);
    now += ms * NS_PER_MS;
}

static void report(const char *event, uint32_t number)
{
    if (strcmp(event, "wanted") == 0) {
        expect("connect");
        supply_up(&s);
        expect("supply");
        supply_answered(&s, true, now);
        expect("");
        supply_want(&s, number);
    } else if (strcmp(event, "fails") == 0) {
        supply_ended(&s, 0, false, now);
        expect("drop 0");
        wait_for(number, false);
        expect("start 0, join 0");
    } else if (strcmp(event, "begin") == 0) {
        ck_assert_int_eq(supply_next(&s, now).what, DO_START);
    } else if (strcmp(event, "wait") == 0 || strcmp(event, "idle") == 0) {
        wait_for(number, *event == 'i');
    } else if (strcmp(event, "sleep") == 0) {
        now += number * NS_PER_MS;
    } else if (strcmp(event, "want") == 0) {
        supply_want(&s, number);
    } else if (strcmp(event, "joined") == 0) {
        supply_joined(&s, number, now);
    } else if (strcmp(event, "stop") == 0) {
        supply_stop(&s, number, false);
    } else if (strcmp(event, "ended") == 0 || strcmp(event, "leaves") == 0) {
        supply_ended(&s, number, *event == 'l', now);
    } else if (strcmp(event, "ready") == 0) {
        supply_ready(&s, number, now);
    } else if (strcmp(event, "refused") == 0 || strcmp(event, "rejected") == 0) {
        supply_refused(&s, number, event[2] == 'j', now);
    } else if (strcmp(event, "checked") == 0) {
        supply_checked(&s, number, now);
    } else if (strcmp(event, "up") == 0) {
        supply_up(&s);
    } else if (strcmp(event, "down") == 0) {
        supply_down(&s, now);
    } else if (strcmp(event, "taken") == 0 || strcmp(event, "refuses") == 0) {
        supply_answered(&s, *event == 't', now);
    } else {
        ck_assert_msg(strcmp(event, "finish") == 0 || strcmp(event, "hurry") == 0, "%s", event);
        supply_finish(&s, *event == 'h');
    }
}

TEST(it_does_what_the_rows_say)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct supply_rules rules = rows[i].rules;
        char *copy = strdup(rows[i].steps), *rest = copy, *step;
        title = rows[i].title;
        now = 1000 * NS_PER_S;
        rules.start_timeout_ns = 60 * NS_PER_S;
        rules.grace_ns = 10 * NS_PER_S;
        supply_init(&s, &rules);
        while ((step = strsep(&rest, ";")) != NULL) {
            char *expected = strstr(step, "->"), *event;
            if (expected)
                *expected = '\0';
            while ((event = strsep(&step, ",")) != NULL) {
                char word[16];
                unsigned number = 0;
                if (sscanf(event, "%15s %u", word, &number) > 0)
                    report(word, number);
            }
            if (expected)
                expect(expected + 2 + strspn(expected + 2, " "));
        }
        free(copy);
        supply_free(&s);
    }
}
END_TEST

/* Returns how long a command may take to end when nothing says it. */
static int64_t grace_of(const char *const *words)
{
    struct command_line *line = command_line_of("counterctl", words);
    struct invocation invocation;
    ck_assert(command_line_parse(line->argc, line->argv, &invocation));
    int64_t grace_ns = invocation.options.grace_ns;
    invocation_free(&invocation);
    return grace_ns;
}

TEST(a_supplier_has_a_default_of_its_own)
{
    ck_assert_int_eq(grace_of(WORDS("member", "p", "--", "x")), 10 * NS_PER_S);
    ck_assert_int_eq(grace_of(WORDS("member", "p", "--grace", "0", "--", "x")), 0);
    ck_assert_int_eq(grace_of(WORDS("run", "k", "--", "x")), 5 * NS_PER_S);
}
END_TEST

UNIT_MAIN("cli/supply")
