/*
 * view_test.c - frames, and the live view: its drawing and its keys.
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

/* ---- frames ------------------------------------------------------------------------------ */

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

/* ---- the view ---------------------------------------------------------------------------- */

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
        &view->stats,
        json_of("{\"version\":\"1.2.3\",\"uptime_seconds\":61,\"names\":3,\"units\":5,"
                "\"waiting\":2,\"memory\":{\"used_bytes\":1024,\"limit_bytes\":1048576},"
                "\"protocols\":[{\"connections\":{\"open\":7}},{\"connections\":{\"open\":5}}],"
                "\"recent\":{\"requests_per_second\":12,\"granted_per_second\":11,"
                "\"refused_per_second\":1,\"timed_out_per_second\":0,"
                "\"waits\":{\"count\":3,\"p50_seconds\":0.1,\"p99_seconds\":2},"
                "\"holds\":{\"count\":0,\"p50_seconds\":0,\"p99_seconds\":0}}}"));
    view_take(&view->history, json_of("{\"series\":{\"requests\":[1,2,null,4],\"busy\":[0.5]}}"));
    view_take_names(view, json_of("{\"names\":["
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

static void assert_drawn(struct view *view, const char *part)
{
    const char *text = drawn(view, 80, 24);
    ck_assert_msg(strstr(text, part), "no \"%s\" in\n%s", part, text);
}

TEST(numbers_are_drawn)
{
    struct view view;
    begin_view(&view);
    assert_drawn(&view, "127.0.0.1:7532  counterd 1.2.3  up 1m 1s");
    assert_drawn(&view, "requests 12/s  granted 11/s  refused 1/s  timed out 0/s");
    assert_drawn(&view, "waits 100 ms/2.0 s  holds -  answers -");
    assert_drawn(&view, "names 3  units 5  waiting 2  conns 12  memory 1.0 K/1.0 M");
    assert_drawn(&view, "most 4/s");
    assert_drawn(&view, "most 50%");
    assert_drawn(&view, "three  (gone)");
    assert_drawn(&view, "cut...");
    assert_drawn(&view, "q quit");
    view_free(&view);
}
END_TEST

TEST(jobs_that_cannot_be_written_are_said)
{
    struct view view;
    begin_view(&view);
    json_object_set_new(view.stats, "resources", json_of("{\"job store\":{\"failing\":true}}"));
    assert_drawn(&view, "\njobs cannot be written, and new ones are refused");
    json_object_set_new(
        view.stats, "resources",
        json_of("{\"job store\":{\"failing\":false,\"stopped\":\"a.db: no\\u001b\"}}"));
    assert_drawn(&view, "\njob queues do not serve: a.db: no\\x1b\n");
    view_free(&view);
}
END_TEST

TEST(a_node_without_its_engine_is_said)
{
    struct view view;
    begin_view(&view);
    view_take(&view.cluster, json_of("{\"enabled\":true,\"state\":\"live\"}"));
    ck_assert_ptr_null(strstr(drawn(&view, 80, 24), "limits are not shared"));
    view_take(&view.cluster, json_of("{\"enabled\":false}"));
    ck_assert_ptr_null(strstr(drawn(&view, 80, 24), "limits are not shared"));
    view_take(&view.cluster, json_of("{\"enabled\":true,\"state\":\"leaving\"}"));
    ck_assert_ptr_null(strstr(drawn(&view, 80, 24), "limits are not shared"));
    view_take(&view.cluster, json_of("{\"enabled\":true,\"state\":\"connecting\"}"));
    assert_drawn(&view, "\nlimits are not shared: connecting\n");
    view_take(&view.cluster, json_of("{\"enabled\":true,\"state\":\"refused\","
                                     "\"refused\":\"use 7.0\\u001b\",\"reason\":\"\"}"));
    assert_drawn(&view, "\nlimits are not shared: use 7.0\\x1b\n");
    view_take(&view.cluster, json_of("{\"enabled\":true,\"state\":\"away\",\"refused\":\"\","
                                     "\"reason\":\"no route\"}"));
    assert_drawn(&view, "\nlimits are not shared: no route\n");
    view_free(&view);
}
END_TEST

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

TEST(answers_of_the_wrong_shape_do_no_harm)
{
    struct view view;
    begin_view(&view);
    view_take(&view.stats, json_of("{\"protocols\":7,\"recent\":[],\"version\":3}"));
    view_take(&view.history, json_of("{\"series\":{\"requests\":\"x\",\"busy\":[\"a\",{}]}}"));
    view_take_names(&view, json_of("{\"names\":[1,\"x\",{\"name\":7},null]}"));
    (void)drawn(&view, 80, 24);
    view_key(&view, KEY_OF_ENTER, 24);
    view.screen = VIEW_DETAIL;
    view_take(&view.detail, json_of("{\"holders\":[3,{}],\"waiters\":{\"a\":1}}"));
    (void)drawn(&view, 80, 24);
    view.screen = VIEW_POOLS;
    view_take_pools(&view, json_of("{\"pools\":[3,{\"states\":[]},{\"name\":1}],\"cursor\":7}"));
    (void)drawn(&view, 80, 24);
    view_key(&view, KEY_OF_ENTER, 24);
    view_free(&view);
}
END_TEST

TEST(trouble_is_said)
{
    struct view view;
    begin_view(&view);
    text_addf(&view.trouble, "no route");
    view.age_seconds = 12;
    assert_drawn(&view, "No answer for 12.0 s, trying again: no route");
    view_take(&view.stats, NULL);
    assert_drawn(&view, "No answer, trying again: no route");
    view_free(&view);
}
END_TEST

TEST(keys_move_the_selection)
{
    struct view view;
    begin_view(&view);
    (void)drawn(&view, 80, 24);
    view_key(&view, KEY_OF_UP, 24);
    ck_assert_uint_eq(view.selected, 0);
    view_key(&view, KEY_OF_DOWN, 24);
    view_key(&view, 'j', 24);
    ck_assert_uint_eq(view.selected, 2);
    view_key(&view, KEY_OF_END, 24);
    view_key(&view, KEY_OF_DOWN, 24);
    ck_assert_uint_eq(view.selected, 3);
    view_key(&view, 'k', 24);
    ck_assert_uint_eq(view.selected, 2);
    view_key(&view, KEY_OF_PAGE_UP, 24);
    ck_assert_uint_eq(view.selected, 0);
    view_free(&view);
}
END_TEST

TEST(the_selection_stays_with_its_name)
{
    struct view view;
    begin_view(&view);
    view_key(&view, KEY_OF_DOWN, 24);
    view_take_names(&view, json_of("{\"names\":[{\"name\":\"a\"},{\"name\":\"b\"},"
                                   "{\"name\":\"c\"},{\"name\":\"two\"}]}"));
    ck_assert_uint_eq(view.selected, 3);
    view_take_names(&view, json_of("{\"names\":[{\"name\":\"a\"}]}"));
    (void)drawn(&view, 80, 24);
    ck_assert_uint_eq(view.selected, 0);
    view_free(&view);
}
END_TEST

TEST(a_list_is_scrolled_to_its_selection)
{
    struct view view;
    begin_view(&view);
    struct text names = {0};
    for (int i = 0; i < 100; i++)
        text_addf(&names, "%s{\"name\":\"name%02d\",\"exists\":true}", i ? "," : "{\"names\":[", i);
    text_addf(&names, "]}");
    view_take_names(&view, json_of(text_str(&names)));
    text_free(&names);
    view_key(&view, KEY_OF_END, 24);
    const char *text = drawn(&view, 80, 24);
    ck_assert_ptr_nonnull(strstr(text, "name99"));
    ck_assert_ptr_null(strstr(text, "name00"));
    view_key(&view, KEY_OF_HOME, 24);
    text = drawn(&view, 80, 24);
    ck_assert_ptr_nonnull(strstr(text, "name00"));
    ck_assert_ptr_null(strstr(text, "name99"));
    view_free(&view);
}
END_TEST

TEST(a_filter_is_typed)
{
    struct view view;
    begin_view(&view);
    ck_assert_int_eq(view_key(&view, '/', 24), WISH_NOTHING);
    view_key(&view, 't', 24);
    view_key(&view, 'q', 24); /* input for the filter, not a command */
    view_key(&view, 0xfc, 24);
    ck_assert_str_eq(view.filter, "tq\xc3\xbc");
    view_key(&view, KEY_OF_BACKSPACE, 24);
    view_key(&view, KEY_OF_BACKSPACE, 24);
    view_key(&view, 0x1b, 24);
    ck_assert_str_eq(view.filter, "t");
    assert_drawn(&view, "names with: t_");
    view_key(&view, KEY_OF_ENTER, 24);
    const char *text = drawn(&view, 80, 24);
    ck_assert_ptr_nonnull(strstr(text, "two"));
    ck_assert_ptr_null(strstr(text, " one"));
    ck_assert_ptr_nonnull(strstr(text, "with \"t\""));
    view_key(&view, KEY_OF_ESCAPE, 24);
    ck_assert_str_eq(view.filter, "");
    view_key(&view, '/', 24);
    for (int i = 0; i < 1000; i++)
        view_key(&view, 0x4e2d, 24);
    ck_assert_uint_le(strlen(view.filter), VIEW_FILTER_MAX);
    view_key(&view, KEY_OF_ENTER, 24);
    assert_drawn(&view, "none of the contended names");
    view_free(&view);
}
END_TEST

TEST(keys_of_order_interval_and_pause)
{
    struct view view;
    begin_view(&view);
    ck_assert_int_eq(view_key(&view, 's', 24), WISH_FETCH);
    ck_assert_int_eq(view.by, BY_REFUSED);
    assert_drawn(&view, "*REFUSED");
    view_key(&view, 's', 24);
    ck_assert_int_eq(view.by, BY_PEAK);
    assert_drawn(&view, "*PEAK");
    view_key(&view, 's', 24);
    ck_assert_int_eq(view.by, BY_WAITING);
    ck_assert_int_eq(view_key(&view, 'P', 24), WISH_FETCH);
    ck_assert_int_eq(view.by, BY_PEAK);
    view_key(&view, '+', 24);
    ck_assert_double_eq(view.interval_seconds, 1);
    view_key(&view, '+', 24);
    view_key(&view, '+', 24);
    ck_assert_double_eq(view.interval_seconds, 0.5);
    for (int i = 0; i < 20; i++)
        view_key(&view, '-', 24);
    ck_assert_double_eq(view.interval_seconds, 60);
    ck_assert_int_eq(view_key(&view, ' ', 24), WISH_NOTHING);
    assert_drawn(&view, "PAUSED");
    ck_assert_int_eq(view_key(&view, ' ', 24), WISH_FETCH);
    ck_assert_int_eq(view_key(&view, 'q', 24), WISH_QUIT);
    view_free(&view);
}
END_TEST

TEST(enter_shows_who_holds_a_name)
{
    struct view view;
    begin_view(&view);
    view_key(&view, KEY_OF_DOWN, 24);
    ck_assert_int_eq(view_key(&view, KEY_OF_ENTER, 24), WISH_FETCH);
    ck_assert_int_eq(view.screen, VIEW_DETAIL);
    ck_assert_str_eq(text_str(&view.selected_id), "two");
    assert_drawn(&view, "nobody holds it");
    view_take(&view.detail,
              json_of("{\"name\":\"two\",\"in_use\":2,\"peak\":2,\"limit\":2,\"waiting\":1,"
                      "\"holders_total\":1,\"holders\":[{\"connection\":\"0.1.2\","
                      "\"protocol\":\"counter\",\"client\":\"10.0.0.1:5\",\"held_seconds\":90,"
                      "\"units\":2,\"limit\":2}],\"waiters\":[{\"connection\":\"0.3.4\","
                      "\"protocol\":\"poolcounter\",\"client\":\"10.0.0.2:6\",\"kind\":\"any\","
                      "\"waited_seconds\":1,\"units\":1,\"limit\":2}]}"));
    assert_drawn(&view, "in use 2  peak 2  limit 2  holders 1  waiting 1");
    assert_drawn(&view, "holds     1m 30s       2       2  0.1.2         counter      10.0.0.1:5");
    assert_drawn(&view, "any        1.0 s       1       2  0.3.4         poolcounter  10.0.0.2:6");
    view_key(&view, KEY_OF_ESCAPE, 24);
    ck_assert_int_eq(view.screen, VIEW_NAMES);
    /* A name known only in part cannot be inspected. */
    view_key(&view, KEY_OF_END, 24);
    ck_assert_int_eq(view_key(&view, KEY_OF_ENTER, 24), WISH_NOTHING);
    ck_assert_int_eq(view.screen, VIEW_NAMES);
    view_free(&view);
}
END_TEST

static void take_pools(struct view *view)
{
    view_take_pools(
        view, json_of("{\"pools\":["
                      "{\"name\":\"browsers\",\"id\":\"browsers\",\"state\":\"open\",\"want\":4,"
                      "\"waiting\":1,\"states\":{\"free\":0,\"taken\":2,\"cleaning\":0,"
                      "\"checking\":3,\"dirty\":0,\"stopping\":1,\"down\":0},"
                      "\"longest_hold_seconds\":90,\"oldest_wait_seconds\":1.5},"
                      "{\"name\":\"db\\\\x0a\",\"id\":\"db%0A\",\"state\":\"draining\","
                      "\"want\":null,\"waiting\":0,\"states\":{\"free\":7,\"down\":1},"
                      "\"longest_hold_seconds\":null,\"oldest_wait_seconds\":null}],"
                      "\"cursor\":\"6462\"}"));
}

TEST(pools_are_a_list_of_their_own)
{
    struct view view;
    begin_view(&view);
    ck_assert_int_eq(view_key(&view, 'o', 24), WISH_FETCH);
    ck_assert_int_eq(view.screen, VIEW_POOLS);
    (void)drawn(&view, 80, 24);
    view_take_pools(&view, json_of("{\"pools\":[]}"));
    assert_drawn(&view, "there are no pools");
    take_pools(&view);
    assert_drawn(&view, "    FREE   TAKEN   DIRTY    DOWN WAITING    WANT    HELD  WAITED POOL");
    assert_drawn(&view,
                 "       0       2       0       0       1       4  1m 30s   1.5 s browsers");
    assert_drawn(&view, "       7       -       -       1       0       -       -       - db\\x0a");
    const char *text = drawn(&view, 120, 24);
    ck_assert_ptr_nonnull(strstr(text, "FREE   TAKEN CLEANING CHECKING   DIRTY STOPPING    DOWN"));
    ck_assert_ptr_nonnull(strstr(text, "0       2        0        3       0        1       0"));
    ck_assert_ptr_nonnull(strstr(text, "POOL  first 2"));
    ck_assert_ptr_nonnull(strstr(text, "db\\x0a  (dropped)"));
    view_key(&view, KEY_OF_DOWN, 24);
    take_pools(&view);
    ck_assert_uint_eq(view.selected, 1);
    ck_assert_int_eq(view_key(&view, KEY_OF_ENTER, 24), WISH_FETCH);
    ck_assert_int_eq(view.screen, VIEW_DETAIL);
    ck_assert_str_eq(text_str(&view.selected_id), "pool%3Adb%0A");
    view_key(&view, KEY_OF_ESCAPE, 24);
    ck_assert_int_eq(view.screen, VIEW_POOLS);
    view_key(&view, 'h', 24);
    view_key(&view, 'x', 24);
    ck_assert_int_eq(view.screen, VIEW_POOLS);
    view_key(&view, '/', 24);
    view_key(&view, 'x', 24);
    text = drawn(&view, 80, 24);
    ck_assert_ptr_null(strstr(text, "browsers"));
    ck_assert_ptr_nonnull(strstr(text, "db"));
    view_key(&view, 'y', 24);
    assert_drawn(&view, "no pool has this text");
    view_key(&view, KEY_OF_ESCAPE, 24);
    ck_assert_int_eq(view_key(&view, 'o', 24), WISH_FETCH);
    ck_assert_int_eq(view.screen, VIEW_NAMES);
    view_free(&view);
}
END_TEST

TEST(pools_are_printed_below_the_names)
{
    struct view view;
    begin_view(&view);
    view.is_interactive = false;
    take_pools(&view);
    ck_assert_int_eq(view_rows(&view), 12 + 4 + 4);
    const char *text = drawn(&view, 80, view_rows(&view));
    const char *names = strstr(text, "cut..."), *pools = strstr(text, "POOL");
    ck_assert(names && pools && names < pools && strstr(pools, "browsers") && strstr(pools, "db"));
    view_free(&view);
}
END_TEST

TEST(help_is_shown_and_left)
{
    struct view view;
    begin_view(&view);
    view_key(&view, 'h', 24);
    assert_drawn(&view, "show only names that contain a text");
    /* All of it fits an 80x24 screen. */
    const char *text = drawn(&view, 80, 24);
    ck_assert_ptr_nonnull(strstr(text, "the column that orders the list"));
    ck_assert_ptr_nonnull(strstr(text, "HELD, WAITED"));
    ck_assert_ptr_nonnull(strstr(text, "again: back"));
    view_key(&view, 'x', 24);
    ck_assert_int_eq(view.screen, VIEW_NAMES);
    view_free(&view);
}
END_TEST

int main(void)
{
    const struct unit_test tests[] = {
        UNIT(texts_are_cut_at_the_edges),
        UNIT(wide_characters_take_two_cells),
        UNIT(without_unicode_all_is_ascii),
        UNIT(bars_show_the_newest_values),
        UNIT(numbers_are_drawn),
        UNIT(jobs_that_cannot_be_written_are_said),
        UNIT(a_node_without_its_engine_is_said),
        UNIT(every_size_can_be_drawn),
        UNIT(answers_of_the_wrong_shape_do_no_harm),
        UNIT(trouble_is_said),
        UNIT(keys_move_the_selection),
        UNIT(the_selection_stays_with_its_name),
        UNIT(a_list_is_scrolled_to_its_selection),
        UNIT(a_filter_is_typed),
        UNIT(keys_of_order_interval_and_pause),
        UNIT(enter_shows_who_holds_a_name),
        UNIT(pools_are_a_list_of_their_own),
        UNIT(pools_are_printed_below_the_names),
        UNIT(help_is_shown_and_left),
    };
    return unit_run("cli/view", tests, ARRAY_SIZE(tests));
}
