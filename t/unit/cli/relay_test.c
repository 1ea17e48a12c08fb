/*
 * relay_test.c - lines of commands are taken or passed on to our standard output, which is a pipe
 * that the test reads.
 */
#include "cli/relay.h"
#include "cli/signals.h"
#include "t/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A relay of what the test writes, and the read end of our output. */
struct story {
    struct loop loop;
    struct relay relay;
    int to, out;
    char taken[4 * RELAY_SIZE]; /* lines, with a "," between their parts and a "|" behind each */
    bool is_amid;               /* in a line that was taken */
};

static bool take(void *owner, struct bytes part, bool is_last)
{
    struct story *story = owner;
    if (!story->is_amid && (part.len == 0 || part.data[0] != '!'))
        return false;
    story->is_amid = !is_last;
    if (part.len > 0)
        strncat(story->taken, (const char *)part.data, part.len);
    strcat(story->taken, is_last ? "|" : ",");
    return true;
}

static void make_pipe(int *read_end, int *write_end, int flags)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, flags), 0);
    *read_end = ends[0];
    *write_end = ends[1];
}

static struct story *begin(void)
{
    static struct story story;
    int from, out;
    signals_start(); /* ignores SIGPIPE */
    make_pipe(&from, &story.to, O_NONBLOCK);
    make_pipe(&story.out, &out, O_NONBLOCK);
    ck_assert_int_eq(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
    close(out);
    story.relay.take = take;
    story.relay.owner = &story;
    relay_open(&story.relay, &story.loop, from);
    return &story;
}

static void end(struct story *story)
{
    relay_close(&story->relay);
    relay_close(&story->relay);
    loop_free(&story->loop);
}

static void finish(void *loop)
{
    loop_end(loop, 0);
}

/* Runs the loop until there is nothing more to do now. */
static void run(struct story *story)
{
    for (int i = 0; i < 10; i++) {
        struct timer now = {.on_due = finish, .owner = &story->loop};
        timer_set(&story->loop, &now, 0);
        loop_run(&story->loop);
    }
}

static void write_text(struct story *story, const char *text)
{
    ck_assert_int_eq(write(story->to, text, strlen(text)), (ssize_t)strlen(text));
    run(story);
}

/* What our output has got since the last look. */
static const char *read_out(struct story *story)
{
    static char text[20000];
    ssize_t n = read(story->out, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

TEST(lines_are_passed_on_whole_and_without_those_taken)
{
    struct story *story = begin();
    write_text(story, "one\n!two\n\nthr");
    ck_assert_str_eq(read_out(story), "one\n\n");
    write_text(story, "ee\n!");
    ck_assert_str_eq(read_out(story), "three\n");
    write_text(story, "four\n!five\n");
    ck_assert_str_eq(read_out(story), "");
    ck_assert_str_eq(story->taken, "!two|!four|!five|");
    end(story);
}
END_TEST

TEST(at_the_end_a_line_may_be_open)
{
    struct story *story = begin();
    write_text(story, "one\n!two");
    close(story->to);
    run(story);
    ck_assert_str_eq(read_out(story), "one\n");
    ck_assert_str_eq(story->taken, "!two|");
    ck_assert_ptr_null(story->relay.loop);
    end(story);
}
END_TEST

TEST(a_long_line_that_is_not_taken_is_passed_on_in_parts)
{
    static char line[3 * RELAY_SIZE];
    struct story *story = begin();
    memset(line, '!', sizeof line - 2);
    line[0] = '.';
    line[sizeof line - 2] = '\n';
    write_text(story, line);
    ck_assert_str_eq(read_out(story), line);
    ck_assert_str_eq(story->taken, "");
    write_text(story, "!one\n");
    ck_assert_str_eq(story->taken, "!one|");
    end(story);
}
END_TEST

/* Writes a line of so many bytes that is taken, and "one\n" or the end behind it. */
static void write_taken(struct story *story, size_t len, bool is_end)
{
    static char line[3 * RELAY_SIZE];
    memset(line, '!', len);
    strcpy(line + len, is_end ? "" : "\none\n");
    write_text(story, line);
    if (is_end)
        close(story->to);
    run(story);
    ck_assert_str_eq(read_out(story), is_end ? "" : "one\n");
    ck_assert_uint_eq(strlen(story->taken), len + len / RELAY_SIZE + 1);
    ck_assert(strchr(story->taken, '|') == story->taken + strlen(story->taken) - 1);
    ck_assert_uint_eq(strcspn(story->taken, ",|"), len < RELAY_SIZE ? len : RELAY_SIZE);
    end(story);
}

TEST(a_long_line_is_taken_in_parts_and_nothing_of_it_is_passed_on)
{
    static const size_t lens[] = {RELAY_SIZE - 1, RELAY_SIZE, RELAY_SIZE + 1, 2 * RELAY_SIZE + 7};
    for (size_t i = 0; i < ARRAY_SIZE(lens); i++)
        for (int is_end = 0; is_end < 2; is_end++) {
            struct story *story = begin();
            story->taken[0] = '\0';
            write_taken(story, lens[i], is_end);
        }
}
END_TEST

TEST(a_line_of_full_size_stays_whole)
{
    static char line[RELAY_SIZE + 1];
    struct story *story = begin();
    memset(line, 'x', RELAY_SIZE - 1);
    line[RELAY_SIZE - 1] = '\n';
    write_text(story, "y");
    write_text(story, line + 1);
    line[0] = 'y';
    ck_assert_str_eq(read_out(story), line);
    end(story);
}
END_TEST

TEST(while_nobody_reads_our_output_it_waits)
{
    static char lines[RELAY_SIZE + 1];
    struct story *story = begin();
    size_t written = 0, got = 0;
    for (size_t i = 0; i < RELAY_SIZE; i++)
        lines[i] = i % 64 == 63 ? '\n' : 'x';
    for (ssize_t n; (n = write(story->to, lines, RELAY_SIZE)) > 0; run(story))
        written += (size_t)n;
    int pipe_size = fcntl(story->to, F_GETPIPE_SZ);
    ck_assert_int_gt((int)written, 2 * pipe_size - 2 * RELAY_SIZE); /* both pipes are full */
    for (size_t n = 1; n > 0; got += n) {
        n = strlen(read_out(story));
        run(story);
    }
    ck_assert_uint_eq(got, written);
    end(story);
}
END_TEST

TEST(what_nobody_will_read_is_dropped)
{
    struct story *story = begin();
    close(story->out);
    write_text(story, "one\n");
    write_text(story, "!two\n");
    ck_assert_str_eq(story->taken, "!two|");
    end(story);
}
END_TEST

TEST(closing_passes_on_what_has_arrived)
{
    struct story *story = begin();
    ck_assert_int_eq(write(story->to, "one\n!two\nthree", 14), 14);
    relay_close(&story->relay);
    ck_assert_str_eq(read_out(story), "one\nthree");
    ck_assert_int_eq(write(story->to, "x", 1), -1);
    end(story);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(lines_are_passed_on_whole_and_without_those_taken),
    UNIT(at_the_end_a_line_may_be_open),
    UNIT(a_long_line_that_is_not_taken_is_passed_on_in_parts),
    UNIT(a_long_line_is_taken_in_parts_and_nothing_of_it_is_passed_on),
    UNIT(a_line_of_full_size_stays_whole),
    UNIT(while_nobody_reads_our_output_it_waits),
    UNIT(what_nobody_will_read_is_dropped),
    UNIT(closing_passes_on_what_has_arrived),
};

UNIT_MAIN("cli/relay", tests)
