/*
 * view_test.c - frames; and that the live view fits every size. transcripts/top.ctl shows what it
 * draws, and its keys.
 */
#include "cli/view.h"
#include "t/unit/unit.h"

#include <locale.h>
#include <string.h>

/* A frame as text; valid until the next call. */
static const char *text_of(const struct frame *frame)
{
    static char *text;
    size_t size;
    free(text);
    FILE *to = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(to);
    frame_print(frame, to);
    fclose(to);
    return text;
}

static void begin_unicode(void)
{
    ck_assert_ptr_nonnull(setlocale(LC_CTYPE, "C.UTF-8"));
}

/* ---- frames ---------------------------------------------------------------------------------- */

TEST(texts_are_cut_at_the_edges)
{
    begin_unicode();
    struct frame frame = {0};
    frame_make(&frame, 10, 3, true);
    ck_assert_int_eq(frame_text(&frame, 0, 2, 100, LOOK_BOLD, "%s", "0123456789"), 10);
    ck_assert_int_eq(frame_text(&frame, 1, 0, 3, 0, "abcdef"), 3);
    frame_right(&frame, 2, 0, 10, 0, "right");
    frame_text(&frame, 3, 0, 10, 0, "below");
    frame_text(&frame, -1, 0, 10, 0, "above");
    frame_text(&frame, 0, 10, 10, 0, "beside");
    frame_text(&frame, 0, -1, 10, 0, "before");
    ck_assert_str_eq(text_of(&frame), "  01234567\nabc\n     right\n");
    ck_assert_uint_eq(frame.cells[2].look, LOOK_BOLD);
    ck_assert_uint_eq(frame.cells[1].look, LOOK_PLAIN);
    frame_free(&frame);
}
END_TEST

TEST(wide_characters_take_two_cells)
{
    begin_unicode();
    struct frame frame = {0};
    frame_make(&frame, 5, 2, true);
    /* The third character needs two cells and has one; a combining mark is left out. */
    frame_text(&frame, 0, 0, 5, 0, "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad");
    frame_text(&frame, 1, 0, 5, 0, "e\xcc\x81\x1b\xff|");
    ck_assert_str_eq(text_of(&frame), "\xe4\xb8\xad\xe6\x96\x87\ne??|\n");
    ck_assert_int_eq(frame.cells[1].character, 0);
    frame_free(&frame);
}
END_TEST

TEST(without_unicode_all_is_ascii)
{
    struct frame frame = {0};
    frame_make(&frame, 20, 1, false);
    frame_text(&frame, 0, 0, 10, 0, "gr\xc3\xbcn");
    frame_spark(&frame, 0, 10, 5, (const double[]){0, 1, 4, 8}, 4, 8);
    ck_assert_str_eq(text_of(&frame), "gr?n       _.=#\n");
    frame_free(&frame);
}
END_TEST

TEST(bars_show_the_newest_values)
{
    begin_unicode();
    struct frame frame = {0};
    frame_make(&frame, 6, 1, true);
    frame_spark(&frame, 0, 0, 6, (const double[]){9, 9, -1, 0, 0.001, 4, 8, 100}, 8, 8);
    ck_assert_str_eq(text_of(&frame), " _\xe2\x96\x81\xe2\x96\x84\xe2\x96\x88\xe2\x96\x88\n");
    frame_spark(&frame, 0, 0, 6, NULL, 0, 8);
    frame_spark(&frame, 5, 0, 6, (const double[]){1}, 1, 0);
    frame_free(&frame);
}
END_TEST

/* ---- the view -------------------------------------------------------------------------------- */

static json_t *json_of(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    ck_assert_msg(value, "%s", text);
    return value;
}

static void begin_view(struct view *view)
{
    begin_unicode();
    *view = (struct view){.where = "127.0.0.1:7532", .interval_seconds = 2, .is_interactive = true};
    view_take(
        view, ANSWER_STATS,
        json_of("{\"version\":\"1.2.3\",\"uptime_seconds\":61,\"names\":3,\"units\":5,"
                "\"waiting\":2,\"memory\":{\"used_bytes\":1024,\"limit_bytes\":1048576},"
                "\"protocols\":[{\"connections\":{\"open\":7}},{\"connections\":{\"open\":5}}],"
                "\"recent\":{\"requests_per_second\":12,\"granted_per_second\":11,"
                "\"refused_per_second\":1,\"timed_out_per_second\":0,"
                "\"waits\":{\"count\":3,\"p50_seconds\":0.1,\"p99_seconds\":2},"
                "\"holds\":{\"count\":0,\"p50_seconds\":0,\"p99_seconds\":0}}}"));
    view_take(view, ANSWER_HISTORY,
              json_of("{\"series\":{\"requests\":[1,2,null,4],\"busy\":[0.5]}}"));
    view_take(view, ANSWER_NAMES,
              json_of("{\"names\":["
                      "{\"name\":\"one\",\"id\":\"one\",\"exists\":true,\"in_use\":1},"
                      "{\"name\":\"two\",\"id\":\"two\",\"exists\":true,\"in_use\":2},"
                      "{\"name\":\"three\",\"id\":\"three\",\"exists\":false},"
                      "{\"name\":\"cut\",\"id\":null,\"truncated\":true}]}"));
}

/* The view, drawn on a screen of this size. */
static const char *drawn(struct view *view, int width, int height)
{
    static struct frame frame;
    frame_make(&frame, width, height, true);
    view_draw(view, &frame);
    return text_of(&frame);
}

TEST(every_size_can_be_drawn)
{
    struct view view;
    begin_view(&view);
    for (int screen = VIEW_NAMES; screen <= VIEW_HELP; screen++) {
        view.screen = (enum view_screen)screen;
        for (int width = 1; width < 130; width += 3)
            for (int height = 1; height < 45; height++)
                (void)drawn(&view, width, height);
    }
    view_free(&view);
    struct view empty = {.where = "x", .is_interactive = true};
    for (int height = 1; height < 45; height++)
        (void)drawn(&empty, 80, height);
    (void)drawn(&empty, 100000, 100000);
    view_free(&empty);
}
END_TEST

TEST(the_selection_stays_with_its_name)
{
    struct view view;
    begin_view(&view);
    view_key(&view, KEY_OF_DOWN, 24);
    view_take(&view, ANSWER_NAMES,
              json_of("{\"names\":[{\"name\":\"a\"},{\"name\":\"b\"},"
                      "{\"name\":\"c\"},{\"name\":\"two\"}]}"));
    ck_assert_uint_eq(view.selected, 3);
    view_take(&view, ANSWER_NAMES, json_of("{\"names\":[{\"name\":\"a\"}]}"));
    (void)drawn(&view, 80, 24);
    ck_assert_uint_eq(view.selected, 0);
    view_free(&view);
}
END_TEST

UNIT_MAIN("cli/view")
