/*
 * loop_test.c - watches and timers: when they are called, and that callbacks may change them.
 */
#include "base/clock.h"
#include "cli/loop.h"
#include "t/unit/unit.h"

#include <string.h>
#include <unistd.h>

#define MANY 50

/* Notes calls as letters; the last letter of `until` ends the loop. */
struct story {
    struct loop loop;
    char seen[64];
    size_t len, end_at;
};

struct actor {
    struct story *story;
    char letter;
    struct watch watch;
    struct timer timer;
    struct actor *clears; /* cleared by this one's callback */
};

static void act(struct actor *actor)
{
    struct story *story = actor->story;
    ck_assert_uint_lt(story->len + 1, sizeof story->seen);
    story->seen[story->len++] = actor->letter;
    if (actor->clears) {
        watch_clear(&story->loop, &actor->clears->watch);
        timer_clear(&story->loop, &actor->clears->timer);
    }
    if (story->len == story->end_at)
        loop_end(&story->loop, (int)story->len);
}

static void on_ready(void *owner, short revents)
{
    ck_assert(revents & POLLIN);
    act(owner);
}

static void on_due(void *owner)
{
    act(owner);
}

static void init(struct actor *actor, struct story *story, char letter)
{
    *actor = (struct actor){.story = story, .letter = letter};
    actor->watch = (struct watch){.on_ready = on_ready, .owner = actor};
    actor->timer = (struct timer){.on_due = on_due, .owner = actor};
}

/* A readable descriptor. */
static int readable(void)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq((int)write(ends[1], "x", 1), 1);
    close(ends[1]);
    return ends[0];
}

TEST(timers_come_in_their_order)
{
    struct story story = {.end_at = 3};
    struct actor a, b, c, d;
    init(&a, &story, 'a');
    init(&b, &story, 'b');
    init(&c, &story, 'c');
    init(&d, &story, 'd');
    int64_t now = clock_mono_ns();
    timer_set(&story.loop, &a.timer, now + 3 * NS_PER_MS);
    timer_set(&story.loop, &b.timer, now + 2 * NS_PER_MS);
    timer_set(&story.loop, &c.timer, now - NS_PER_S);
    timer_set(&story.loop, &d.timer, now + NS_PER_MS);
    timer_clear(&story.loop, &d.timer);
    timer_clear(&story.loop, &d.timer);
    ck_assert_int_eq(loop_run(&story.loop), 3);
    ck_assert_str_eq(story.seen, "cba");
    ck_assert_int_ge(clock_mono_ns(), now + 3 * NS_PER_MS);
    loop_free(&story.loop);
}
END_TEST

TEST(many_timers_may_be_set_again_and_again)
{
    struct story story = {.end_at = MANY};
    struct actor actors[MANY];
    int64_t now = clock_mono_ns();
    for (int i = 0; i < MANY; i++) {
        init(&actors[i], &story, (char)('0' + i));
        timer_set(&story.loop, &actors[i].timer, now + NS_PER_S);
        timer_set(&story.loop, &actors[i].timer, now - i);
    }
    loop_run(&story.loop);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(story.seen[i], '0' + MANY - 1 - i);
    loop_free(&story.loop);
}
END_TEST

TEST(what_another_has_cleared_is_not_called)
{
    struct story story = {.end_at = 5};
    struct actor a, b, c, d, e;
    int fd = readable();
    init(&a, &story, 'a');
    init(&b, &story, 'b');
    init(&c, &story, 'c');
    init(&d, &story, 'd');
    init(&e, &story, 'e');
    a.clears = &b;
    watch_set(&story.loop, &a.watch, fd, POLLIN);
    watch_set(&story.loop, &b.watch, fd, POLLIN);
    timer_set(&story.loop, &b.timer, 0);
    watch_set(&story.loop, &c.watch, fd, POLLIN);
    c.clears = &c; /* itself */
    d.clears = &e;
    timer_set(&story.loop, &d.timer, 0);
    timer_set(&story.loop, &e.timer, 1);
    loop_run(&story.loop);
    ck_assert_str_eq(story.seen, "acdaa");
    watch_clear(&story.loop, &a.watch);
    close(fd);
    loop_free(&story.loop);
}
END_TEST

TEST(after_the_end_nothing_is_called_and_nothing_is_lost)
{
    struct story story = {.end_at = 1};
    struct actor a, b, c;
    int fd = readable();
    init(&a, &story, 'a');
    init(&b, &story, 'b');
    init(&c, &story, 'c');
    a.clears = &a;
    b.clears = &b;
    watch_set(&story.loop, &a.watch, fd, POLLIN);
    watch_set(&story.loop, &b.watch, fd, POLLIN);
    timer_set(&story.loop, &c.timer, 0);
    static const char *const steps[] = {"a", "ab", "abc"};
    for (size_t i = 0; i < 3; i++) {
        story.end_at = i + 1;
        ck_assert_int_eq(loop_run(&story.loop), (int)i + 1);
        ck_assert_str_eq(story.seen, steps[i]);
    }
    close(fd);
    loop_free(&story.loop);
}
END_TEST

/* Replaces this watch with the other one, at the same descriptor. */
static void replace(void *owner, short revents)
{
    struct actor *actor = owner;
    (void)revents;
    watch_clear(&actor->story->loop, &actor->watch);
    watch_set(&actor->story->loop, &actor->clears->watch, actor->watch.fd, POLLIN);
}

TEST(watches_come_and_go_while_it_runs)
{
    struct story story = {.end_at = 3};
    struct actor actors[MANY], next;
    int fd = readable();
    init(&next, &story, 'n');
    for (int i = 0; i < MANY; i++) {
        init(&actors[i], &story, 'x');
        actors[i].clears = &next;
        actors[i].watch.on_ready = replace;
        watch_set(&story.loop, &actors[i].watch, fd, POLLIN);
    }
    loop_run(&story.loop);
    ck_assert_str_eq(story.seen, "nnn");
    watch_clear(&story.loop, &next.watch);
    close(fd);
    loop_free(&story.loop);
}
END_TEST

static void count_waits(void *owner)
{
    struct actor *actor = owner;
    act(actor);
    timer_set(&actor->story->loop, &actor->timer, 0);
}

TEST(before_each_wait_somebody_may_look)
{
    struct story story = {.end_at = 4};
    struct actor a;
    init(&a, &story, 'w');
    a.timer = (struct timer){0}; /* only wakes the loop */
    story.loop.before_wait = count_waits;
    story.loop.owner = &a;
    ck_assert_int_eq(loop_run(&story.loop), 4);
    ck_assert_str_eq(story.seen, "wwww");
    timer_clear(&story.loop, &a.timer);
    loop_free(&story.loop);
}
END_TEST

static void run_again(void *loop)
{
    loop_run(loop);
}

TEST(a_callback_may_not_run_it)
{
    struct loop loop = {0};
    struct timer timer = {.on_due = run_again, .owner = &loop};
    timer_set(&loop, &timer, 0);
    loop_run(&loop);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(timers_come_in_their_order),
    UNIT(many_timers_may_be_set_again_and_again),
    UNIT(what_another_has_cleared_is_not_called),
    UNIT(after_the_end_nothing_is_called_and_nothing_is_lost),
    UNIT(watches_come_and_go_while_it_runs),
    UNIT(before_each_wait_somebody_may_look),
    UNIT_ABORTS(a_callback_may_not_run_it),
};

UNIT_MAIN("cli/loop", tests)
