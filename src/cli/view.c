/*
 * view.c - the view of `counterctl top` (view.h).
 *
 * From top to bottom: a title, some rows of numbers, rows of recent history, a list, and the keys
 * in the last row. On a low screen the history goes first, then the numbers; the list gets the
 * rest.
 */
#include "cli/view.h"

#include "base/utf8.h"
#include "cli/print.h"

#include <stdlib.h>
#include <string.h>

#define HISTORY_MAX 600
#define LABEL_WIDTH 10

/* The least heights that show the parts above the list. */
#define HEIGHT_WITH_NUMBERS 12
#define HEIGHT_WITH_HISTORY 18

void view_take(json_t **place, json_t *answer)
{
    json_decref(*place);
    *place = answer;
}

void view_free(struct view *view)
{
    view_take(&view->stats, NULL);
    view_take(&view->history, NULL);
    view_take(&view->contended, NULL);
    view_take(&view->pools, NULL);
    view_take(&view->tubes, NULL);
    view_take(&view->cluster, NULL);
    view_take(&view->detail, NULL);
    text_free(&view->trouble);
    text_free(&view->selected_id);
}

/* ---- the lists of names, of pools and of tubes ------------------------------------------- */

static bool is_wanted(const struct view *view, const json_t *row)
{
    return !*view->filter || strstr(json_text_at(row, "name", ""), view->filter);
}

/* The row at `index` among those of a list that match the filter; NULL: there are fewer. */
static json_t *row_at(const struct view *view, enum view_screen list, size_t index)
{
    json_t *row, *rows = list == VIEW_POOLS   ? json_at(view->pools, "pools")
                         : list == VIEW_TUBES ? json_at(view->tubes, "tubes")
                                              : json_at(view->contended, "names");
    size_t i;
    json_array_foreach(rows, i, row) if (is_wanted(view, row) && index-- == 0) return row;
    return NULL;
}

static size_t row_count(const struct view *view, enum view_screen list)
{
    size_t count = 0;
    while (row_at(view, list, count))
        count++;
    return count;
}

/* The index of the row with that name in the open list; -1: there is none. */
static long index_of(const struct view *view, const char *name)
{
    const json_t *row;
    for (size_t i = 0; (row = row_at(view, view->screen, i)); i++)
        if (strcmp(json_text_at(row, "name", ""), name) == 0)
            return (long)i;
    return -1;
}

/* Replaces the answer with a list. */
static void take_list(struct view *view, enum view_screen list, json_t **place, json_t *answer)
{
    struct text name = {0};
    text_addf(&name, "%s", json_text_at(row_at(view, list, view->selected), "name", ""));
    view_take(place, answer);
    long index = view->screen == list ? index_of(view, text_str(&name)) : -1;
    /* A selection on the first row stays there: without a choice, the user watches the worst name.
     */
    if (index >= 0 && view->selected > 0)
        view->selected = (size_t)index;
    text_free(&name);
}

void view_take_names(struct view *view, json_t *answer)
{
    take_list(view, VIEW_NAMES, &view->contended, answer);
}

void view_take_pools(struct view *view, json_t *answer)
{
    take_list(view, VIEW_POOLS, &view->pools, answer);
}

void view_take_tubes(struct view *view, json_t *answer)
{
    take_list(view, VIEW_TUBES, &view->tubes, answer);
}

static size_t detail_count(const struct view *view)
{
    return json_array_size(json_at(view->detail, "holders")) +
           json_array_size(json_at(view->detail, "waiters"));
}

static size_t list_count(const struct view *view)
{
    return view->screen == VIEW_DETAIL ? detail_count(view) : row_count(view, view->screen);
}

/* ---- the upper part ---------------------------------------------------------------------- */

/* The sum over the protocols of one of their numbers. */
static double sum_of_protocols(const struct view *view, const char *path)
{
    json_t *protocol;
    size_t i;
    double sum = 0;
    json_array_foreach(json_at(view->stats, "protocols"), i, protocol) sum +=
        json_number_at(protocol, path, 0);
    return sum;
}

static void draw_title(const struct view *view, struct frame *frame)
{
    char uptime[NUMBER_TEXT], interval[NUMBER_TEXT];
    struct text version = {0};
    text_add_shown(&version, json_text_at(view->stats, "version", ""));
    int column = frame_text(frame, 0, 0, frame->width, LOOK_BOLD, "counterctl top");
    column = frame_text(frame, 0, column, frame->width - column, LOOK_PLAIN, " - %s", view->where);
    if (view->stats)
        frame_text(frame, 0, column, frame->width - column, LOOK_PLAIN, "  counterd %s  up %s",
                   text_str(&version),
                   seconds_text(json_number_at(view->stats, "uptime_seconds", -1), uptime));
    if (view->is_paused)
        frame_right(frame, 0, 0, frame->width, LOOK_REVERSE, " PAUSED ");
    else if (view->is_interactive)
        frame_right(frame, 0, 0, frame->width, LOOK_DIM, "  every %s",
                    seconds_text(view->interval_seconds, interval));
    text_free(&version);
}

static void draw_trouble(const struct view *view, struct frame *frame, int row)
{
    char age[NUMBER_TEXT];
    if (view->stats)
        frame_text(frame, row, 0, frame->width, LOOK_ALERT, "No answer for %s, trying again: %s",
                   seconds_text(view->age_seconds, age), text_str(&view->trouble));
    else
        frame_text(frame, row, 0, frame->width, LOOK_ALERT, "No answer, trying again: %s",
                   text_str(&view->trouble));
}

/* Draws text from a server with unsafe characters escaped. Returns the column after it. */
static int draw_shown(struct frame *frame, int row, int column, int room, unsigned look,
                      const char *text)
{
    struct text shown = {0};
    text_add_shown(&shown, text);
    column = frame_text(frame, row, column, room, look, "%s", text_str(&shown));
    text_free(&shown);
    return column;
}

/* Draws a label and a number. Returns the column after both. */
static int draw_number(struct frame *frame, int row, int column, const char *label,
                       const char *number, unsigned look)
{
    column = frame_text(frame, row, column, frame->width - column, LOOK_DIM, "%s ", label);
    column = frame_text(frame, row, column, frame->width - column, look, "%s", number);
    return column + 2;
}

static int draw_rate(const struct view *view, struct frame *frame, int row, int column,
                     const char *label, const char *path, bool is_bad)
{
    char text[NUMBER_TEXT], number[NUMBER_TEXT + 2];
    double rate = json_number_at(view->stats, path, -1);
    snprintf(number, sizeof number, "%s/s", count_text(rate, text));
    return draw_number(frame, row, column, label, rate >= 0 ? number : "-",
                       is_bad && rate > 0 ? LOOK_ALERT : LOOK_BOLD);
}

/* Draws the rates of the last minute. */
static void draw_rates(const struct view *view, struct frame *frame, int row)
{
    frame_text(frame, row, 0, LABEL_WIDTH, LOOK_PLAIN, "last 60 s");
    int column = LABEL_WIDTH;
    column = draw_rate(view, frame, row, column, "requests", "recent.requests_per_second", false);
    column = draw_rate(view, frame, row, column, "granted", "recent.granted_per_second", false);
    column = draw_rate(view, frame, row, column, "refused", "recent.refused_per_second", true);
    draw_rate(view, frame, row, column, "timed out", "recent.timed_out_per_second", true);
}

/* Draws median and 99th percentile of waits, holds or answers. */
static int draw_times(const struct view *view, struct frame *frame, int row, int column,
                      const char *which)
{
    char path[64], texts[2][NUMBER_TEXT], both[2 * NUMBER_TEXT + 4];
    snprintf(path, sizeof path, "recent.%s.count", which);
    bool any = json_number_at(view->stats, path, 0) > 0;
    snprintf(path, sizeof path, "recent.%s.p50_seconds", which);
    seconds_text(any ? json_number_at(view->stats, path, -1) : -1, texts[0]);
    snprintf(path, sizeof path, "recent.%s.p99_seconds", which);
    seconds_text(any ? json_number_at(view->stats, path, -1) : -1, texts[1]);
    snprintf(both, sizeof both, "%s/%s", texts[0], texts[1]);
    return draw_number(frame, row, column, which, any ? both : "-", LOOK_BOLD);
}

static void draw_all_times(const struct view *view, struct frame *frame, int row)
{
    frame_text(frame, row, 0, LABEL_WIDTH, LOOK_PLAIN, "p50/p99");
    int column = draw_times(view, frame, row, LABEL_WIDTH, "waits");
    column = draw_times(view, frame, row, column, "holds");
    draw_times(view, frame, row, column, "answers");
}

/* Draws the current numbers. */
static void draw_now(const struct view *view, struct frame *frame, int row)
{
    char text[NUMBER_TEXT], other[NUMBER_TEXT], memory[2 * NUMBER_TEXT];
    double waiting = json_number_at(view->stats, "waiting", 0);
    frame_text(frame, row, 0, LABEL_WIDTH, LOOK_PLAIN, "now");
    int column = LABEL_WIDTH;
    column = draw_number(frame, row, column, "names",
                         count_text(json_number_at(view->stats, "names", -1), text), LOOK_BOLD);
    column = draw_number(frame, row, column, "units",
                         count_text(json_number_at(view->stats, "units", -1), text), LOOK_BOLD);
    column = draw_number(frame, row, column, "waiting", count_text(waiting, text), LOOK_BOLD);
    column = draw_number(frame, row, column, "conns",
                         count_text(sum_of_protocols(view, "connections.open"), text), LOOK_BOLD);
    snprintf(memory, sizeof memory, "%s/%s",
             size_text(json_number_at(view->stats, "memory.used_bytes", -1), text),
             size_text(json_number_at(view->stats, "memory.limit_bytes", -1), other));
    draw_number(frame, row, column, "memory", memory, LOOK_BOLD);
}

/* Reads the values of a series; unknown ones are -1. Returns their number. */
static size_t series_of(const struct view *view, const char *name, double *values)
{
    char path[64];
    json_t *value;
    size_t i, count = 0;
    snprintf(path, sizeof path, "series.%s", name);
    json_array_foreach(json_at(view->history, path), i, value) if (count < HISTORY_MAX)
        values[count++] = json_is_number(value) ? json_number_value(value) : -1;
    return count;
}

/* One row of history. */
struct diagram {
    const char *label, *series;
    double least_most; /* the least value for a full bar, so that small values look small */
    const char *(*text)(double number, char *to);
};

static const char *rate_text(double rate, char *to)
{
    char text[NUMBER_TEXT];
    snprintf(to, NUMBER_TEXT, "%s/s", count_text(rate, text));
    return to;
}

static const char *number_text(double number, char *to)
{
    return count_text(number, to);
}

static const char *time_text(double seconds, char *to)
{
    return seconds_text(seconds, to);
}

static const char *share_text(double share, char *to)
{
    snprintf(to, NUMBER_TEXT, "%.0f%%", share * 100);
    return to;
}

static const struct diagram diagrams[] = {
    {"requests", "requests", 1, rate_text},
    {"waiting", "waiting", 1, number_text},
    {"wait p99", "wait_p99_seconds", 0.001, time_text},
    {"busy", "busy", 1, share_text},
};

/* Draws a diagram: label, bars, the current value, and the highest visible one. */
static void draw_diagram(const struct view *view, struct frame *frame, int row,
                         const struct diagram *diagram)
{
    static double values[HISTORY_MAX];
    char now[NUMBER_TEXT], most_text[NUMBER_TEXT];
    const int numbers = 24;
    int room = frame->width - LABEL_WIDTH - numbers;
    if (room < 1)
        return;
    size_t count = series_of(view, diagram->series, values);
    double most = -1, last = -1;
    size_t seen = count < (size_t)room ? count : (size_t)room;
    for (size_t i = count - seen; i < count; i++) {
        most = values[i] > most ? values[i] : most;
        last = values[i];
    }
    frame_text(frame, row, 0, LABEL_WIDTH, LOOK_PLAIN, "%s", diagram->label);
    frame_spark(frame, row, LABEL_WIDTH, room, values, count,
                most > diagram->least_most ? most : diagram->least_most);
    frame_right(frame, row, LABEL_WIDTH + room, 9, LOOK_BOLD, "%s",
                last >= 0 ? diagram->text(last, now) : "-");
    if (most >= 0)
        frame_right(frame, row, LABEL_WIDTH + room + 9, numbers - 9, LOOK_DIM, "most %s",
                    diagram->text(most, most_text));
}

/* Says that the job queues do not serve or write, as the verdict of the status page does. False:
 * they do. */
static bool draw_store(const struct view *view, struct frame *frame, int row)
{
    const json_t *store = json_at(view->stats, "resources.job store");
    const char *stopped = json_text_at(store, "stopped", "");
    if (*stopped) {
        int column =
            frame_text(frame, row, 0, frame->width, LOOK_ALERT, "job queues do not serve: ");
        draw_shown(frame, row, column, frame->width - column, LOOK_ALERT, stopped);
    } else if (json_is_true_at(store, "failing")) {
        frame_text(frame, row, 0, frame->width, LOOK_ALERT,
                   "jobs cannot be written, and new ones are refused; the log says why");
    } else {
        return false;
    }
    return true;
}

/* Says that a node of a cluster has no session with its engine, as that does. */
static void draw_cut_off(const struct view *view, struct frame *frame, int row)
{
    const char *state = json_text_at(view->cluster, "state", "-"),
               *refused = json_text_at(view->cluster, "refused", ""),
               *reason = *refused ? refused : json_text_at(view->cluster, "reason", "");
    if (!json_is_true_at(view->cluster, "enabled") || strcmp(state, "live") == 0 ||
        strcmp(state, "leaving") == 0)
        return;
    int column = frame_text(frame, row, 0, frame->width, LOOK_ALERT, "limits are not shared: ");
    draw_shown(frame, row, column, frame->width - column, LOOK_ALERT, *reason ? reason : state);
}

/* Draws the upper part. Returns the row after it. */
static int draw_upper(const struct view *view, struct frame *frame)
{
    int row = 1;
    draw_title(view, frame);
    if (view->trouble.len > 0)
        draw_trouble(view, frame, row);
    else if (!draw_store(view, frame, row))
        draw_cut_off(view, frame, row);
    row++;
    if (frame->height >= HEIGHT_WITH_NUMBERS) {
        draw_rates(view, frame, row++);
        draw_all_times(view, frame, row++);
        draw_now(view, frame, row++);
    }
    if (frame->height >= HEIGHT_WITH_HISTORY) {
        row++;
        for (size_t i = 0; i < ARRAY_SIZE(diagrams); i++)
            draw_diagram(view, frame, row++, &diagrams[i]);
    }
    return row + (frame->height >= HEIGHT_WITH_NUMBERS);
}

/* ---- lists ------------------------------------------------------------------------------- */

/* The number of rows for a list below the row of its heads. */
static int list_room(const struct frame *frame, int heads_row, const struct view *view)
{
    int room = frame->height - heads_row - 1 - view->is_interactive;
    return room < 0 ? 0 : room;
}

/* Keeps the selection within the list, and the selected row visible. */
static void clamp_selection(struct view *view, int room)
{
    size_t count = list_count(view), seen = room > 0 ? (size_t)room : 1;
    if (view->selected >= count)
        view->selected = count > 0 ? count - 1 : 0;
    if (view->scrolled > view->selected)
        view->scrolled = view->selected;
    if (view->selected >= view->scrolled + seen)
        view->scrolled = view->selected - seen + 1;
    if (view->scrolled + seen > count)
        view->scrolled = count > seen ? count - seen : 0;
}

#define COLUMN 8

/* A column of numbers in the list of names. */
struct number_column {
    const char *head, *key;
    bool is_rate;
    int by; /* the order that sorts by it; -1: none */
};

static const struct number_column name_columns[] = {
    {"IN USE", "in_use", false, -1},
    {"PEAK", "peak", false, BY_PEAK},
    {"LIMIT", "limit", false, -1},
    {"WAITING", "waiting", false, -1},
    {"LOAD", "waiting_load", true, BY_WAITING},
    {"REFUSED", "refused_per_second", true, BY_REFUSED},
};

static void draw_name_heads(const struct view *view, struct frame *frame, int row)
{
    int column = 0;
    for (size_t i = 0; i < ARRAY_SIZE(name_columns); i++, column += COLUMN) {
        bool is_order = (int)view->by == name_columns[i].by;
        frame_right(frame, row, column, COLUMN, LOOK_BOLD, "%s%s", is_order ? "*" : "",
                    name_columns[i].head);
    }
    column = frame_text(frame, row, column + 1, frame->width, LOOK_BOLD, "NAME");
    if (*view->filter || view->is_typing)
        frame_text(frame, row, column, frame->width - column, LOOK_BOLD, "  with \"%s\"",
                   view->filter);
    frame_row_look(frame, row, LOOK_REVERSE);
}

static void draw_name(struct frame *frame, int row, const json_t *name)
{
    char text[NUMBER_TEXT];
    int column = 0;
    bool exists = json_is_true_at(name, "exists");
    for (size_t i = 0; i < ARRAY_SIZE(name_columns); i++, column += COLUMN) {
        double number = json_number_at(name, name_columns[i].key, -1);
        if (name_columns[i].is_rate && number >= 0 && number < 9.995)
            snprintf(text, sizeof text, "%.2f", number);
        else
            count_text(number, text);
        bool is_refused = name_columns[i].by == BY_REFUSED && number >= 0.005;
        frame_right(frame, row, column, COLUMN, is_refused ? LOOK_ALERT : LOOK_PLAIN, "%s", text);
    }
    unsigned look = exists ? LOOK_PLAIN : LOOK_DIM;
    column = draw_shown(frame, row, column + 1, frame->width, look, json_text_at(name, "name", ""));
    frame_text(frame, row, column, frame->width, look, "%s%s",
               json_is_true_at(name, "truncated") ? "..." : "", exists ? "" : "  (gone)");
}

/* Draws the rows of a list below its heads, or says why there are none. */
static void draw_rows(struct view *view, struct frame *frame, int row, enum view_screen list,
                      void (*draw)(struct frame *frame, int row, const json_t *item),
                      const char *none)
{
    int room = list_room(frame, row, view);
    clamp_selection(view, room);
    if (!row_at(view, list, 0))
        frame_text(frame, row + 1, 2, frame->width, LOOK_DIM, "%s", none);
    for (int i = 0; i < room; i++) {
        const json_t *item = row_at(view, list, view->scrolled + (size_t)i);
        if (!item)
            break;
        draw(frame, row + 1 + i, item);
        if (view->is_interactive && view->scrolled + (size_t)i == view->selected)
            frame_row_look(frame, row + 1 + i, LOOK_REVERSE);
    }
}

static void draw_names(struct view *view, struct frame *frame, int row)
{
    draw_name_heads(view, frame, row);
    draw_rows(view, frame, row, VIEW_NAMES, draw_name,
              *view->filter     ? "none of the contended names has this text in it"
              : view->contended ? "nobody has waited or been refused lately"
                                : "");
}

/* ---- pools ------------------------------------------------------------------------------- */

/* A column of numbers in the list of pools or tubes. */
struct list_column {
    const char *head, *key;
    bool is_time;
    bool is_extra; /* only on wide screens */
};

static const struct list_column pool_columns[] = {
    {"FREE", "states.free", false, false},
    {"TAKEN", "states.taken", false, false},
    {"CLEANING", "states.cleaning", false, true},
    {"CHECKING", "states.checking", false, true},
    {"DIRTY", "states.dirty", false, false},
    {"STOPPING", "states.stopping", false, true},
    {"DOWN", "states.down", false, false},
    {"WAITING", "waiting", false, false},
    {"WANT", "want", false, false},
    {"HELD", "longest_hold_seconds", true, false},
    {"WAITED", "oldest_wait_seconds", true, false},
};

/* The least width that shows all columns. */
#define WIDTH_WITH_EXTRAS 110

static bool has_column(const struct frame *frame, const struct list_column *column)
{
    return !column->is_extra || frame->width >= WIDTH_WITH_EXTRAS;
}

/* Draws the heads of the columns and that of the names; `rows` are those of the whole answer. */
static void draw_list_heads(const struct view *view, struct frame *frame, int row,
                            const struct list_column *columns, size_t count, const char *head,
                            const json_t *answer, const char *rows)
{
    int column = 0;
    for (size_t i = 0; i < count; i++) {
        if (!has_column(frame, &columns[i]))
            continue;
        frame_right(frame, row, column, COLUMN + columns[i].is_extra, LOOK_BOLD, "%s",
                    columns[i].head);
        column += COLUMN + columns[i].is_extra;
    }
    column = frame_text(frame, row, column + 1, frame->width, LOOK_BOLD, "%s", head);
    if (*view->filter || view->is_typing)
        column = frame_text(frame, row, column, frame->width - column, LOOK_BOLD, "  with \"%s\"",
                            view->filter);
    if (*json_text_at(answer, "cursor", ""))
        frame_text(frame, row, column, frame->width - column, LOOK_BOLD, "  first %zu",
                   json_array_size(json_at(answer, rows)));
    frame_row_look(frame, row, LOOK_REVERSE);
}

/* Draws the numbers and the name of a pool or tube, and what else is said of it. */
static void draw_list_row(struct frame *frame, int row, const json_t *item,
                          const struct list_column *columns, size_t count, unsigned look,
                          const char *note)
{
    char text[NUMBER_TEXT];
    int column = 0;
    for (size_t i = 0; i < count; i++) {
        if (!has_column(frame, &columns[i]))
            continue;
        double number = json_number_at(item, columns[i].key, -1);
        int width = COLUMN + columns[i].is_extra;
        frame_right(frame, row, column, width, LOOK_PLAIN, "%s",
                    columns[i].is_time ? seconds_text(number, text) : count_text(number, text));
        column += width;
    }
    column = draw_shown(frame, row, column + 1, frame->width, look, json_text_at(item, "name", ""));
    frame_text(frame, row, column, frame->width, look, "%s", note);
}

static void draw_pool(struct frame *frame, int row, const json_t *pool)
{
    bool drains = strcmp(json_text_at(pool, "state", ""), "draining") == 0;
    draw_list_row(frame, row, pool, pool_columns, ARRAY_SIZE(pool_columns),
                  drains ? LOOK_DIM : LOOK_PLAIN, drains ? "  (dropped)" : "");
}

static void draw_pools(struct view *view, struct frame *frame, int row)
{
    draw_list_heads(view, frame, row, pool_columns, ARRAY_SIZE(pool_columns), "POOL", view->pools,
                    "pools");
    draw_rows(view, frame, row, VIEW_POOLS, draw_pool,
              *view->filter ? "no pool has this text in its name"
              : view->pools ? "there are no pools"
                            : "");
}

/* ---- tubes ------------------------------------------------------------------------------- */

static const struct list_column tube_columns[] = {
    {"READY", "states.ready", false, false},         {"RESERVED", "states.reserved", false, true},
    {"DELAYED", "states.delayed", false, false},     {"BURIED", "states.buried", false, false},
    {"NO TRIES", "states.abandoned", false, true},   {"WAITING", "waiting", false, false},
    {"OLDEST", "oldest_ready_seconds", true, false}, {"PUT", "totals.puts", false, false},
    {"DONE", "totals.acks", false, false},           {"RAN OUT", "totals.recycled", false, true},
};

static void draw_tube(struct frame *frame, int row, const json_t *tube)
{
    bool paused = json_number_at(tube, "pause_seconds", 0) > 0;
    bool closed = *json_text_at(tube, "settings.read_only", "");
    draw_list_row(frame, row, tube, tube_columns, ARRAY_SIZE(tube_columns),
                  paused || closed ? LOOK_DIM : LOOK_PLAIN,
                  paused   ? "  (paused)"
                  : closed ? "  (read-only)"
                           : "");
}

static void draw_tubes(struct view *view, struct frame *frame, int row)
{
    draw_list_heads(view, frame, row, tube_columns, ARRAY_SIZE(tube_columns), "TUBE", view->tubes,
                    "tubes");
    draw_rows(view, frame, row, VIEW_TUBES, draw_tube,
              *view->filter ? "no tube has this text in its name"
              : view->tubes ? "there are no tubes"
                            : "");
}

/* The tubes that are printed once: none where only the first tube is there, and was never used. */
static size_t printed_tubes(const struct view *view)
{
    bool used = json_number_at(view->stats, "resources.tubes.tubes", 0) > 1 ||
                json_number_at(view->stats, "resources.tubes.puts", 0) > 0;
    return used ? row_count(view, VIEW_TUBES) : 0;
}

/* ---- one name ---------------------------------------------------------------------------- */

static void draw_detail_heads(struct frame *frame, int row)
{
    frame_text(frame, row, 0, 8, LOOK_BOLD, "STATE");
    frame_right(frame, row, 8, 8, LOOK_BOLD, "FOR");
    frame_right(frame, row, 16, 8, LOOK_BOLD, "UNITS");
    frame_right(frame, row, 24, 8, LOOK_BOLD, "LIMIT");
    frame_text(frame, row, 34, 14, LOOK_BOLD, "CONNECTION");
    frame_text(frame, row, 48, 12, LOOK_BOLD, "PROTOCOL");
    frame_text(frame, row, 61, frame->width, LOOK_BOLD, "CLIENT");
    frame_row_look(frame, row, LOOK_REVERSE);
}

static void draw_client(struct frame *frame, int row, const json_t *client, bool is_holder)
{
    char text[NUMBER_TEXT];
    const char *seconds = is_holder ? "held_seconds" : "waited_seconds";
    frame_text(frame, row, 0, 8, is_holder ? LOOK_BOLD : LOOK_PLAIN, "%s",
               is_holder                                              ? "holds"
               : strcmp(json_text_at(client, "kind", ""), "any") == 0 ? "any"
                                                                      : "waits");
    frame_right(frame, row, 8, 8, LOOK_PLAIN, "%s",
                seconds_text(json_number_at(client, seconds, -1), text));
    frame_right(frame, row, 16, 8, LOOK_PLAIN, "%s",
                count_text(json_number_at(client, "units", -1), text));
    frame_right(frame, row, 24, 8, LOOK_PLAIN, "%s",
                count_text(json_number_at(client, "limit", -1), text));
    draw_shown(frame, row, 34, 13, LOOK_PLAIN, json_text_at(client, "connection", "-"));
    draw_shown(frame, row, 48, 12, LOOK_PLAIN, json_text_at(client, "protocol", "-"));
    draw_shown(frame, row, 61, frame->width, LOOK_PLAIN, json_text_at(client, "client", "-"));
}

static void draw_detail(struct view *view, struct frame *frame)
{
    char texts[4][NUMBER_TEXT];
    const json_t *detail = view->detail;
    draw_title(view, frame);
    if (view->trouble.len > 0)
        draw_trouble(view, frame, 1);
    draw_shown(frame, 2, 0, frame->width, LOOK_BOLD,
               json_text_at(detail, "name", text_str(&view->selected_id)));
    if (!detail) {
        frame_text(frame, 4, 2, frame->width, LOOK_DIM, "nobody holds it or waits for it now");
        return;
    }
    int column = draw_number(frame, 3, 0, "in use",
                             count_text(json_number_at(detail, "in_use", -1), texts[0]), LOOK_BOLD);
    column = draw_number(frame, 3, column, "peak",
                         count_text(json_number_at(detail, "peak", -1), texts[1]), LOOK_BOLD);
    column = draw_number(frame, 3, column, "limit",
                         count_text(json_number_at(detail, "limit", -1), texts[2]), LOOK_BOLD);
    column =
        draw_number(frame, 3, column, "holders",
                    count_text(json_number_at(detail, "holders_total", -1), texts[3]), LOOK_BOLD);
    draw_number(frame, 3, column, "waiting",
                count_text(json_number_at(detail, "waiting", -1), texts[0]), LOOK_BOLD);
    draw_detail_heads(frame, 5);
    int room = list_room(frame, 5, view);
    clamp_selection(view, room);
    size_t holders = json_array_size(json_at(detail, "holders"));
    for (int i = 0; i < room; i++) {
        size_t index = view->scrolled + (size_t)i;
        if (index >= detail_count(view))
            break;
        bool is_holder = index < holders;
        const json_t *client = is_holder
                                   ? json_array_get(json_at(detail, "holders"), index)
                                   : json_array_get(json_at(detail, "waiters"), index - holders);
        draw_client(frame, 6 + i, client, is_holder);
        if (index == view->selected)
            frame_row_look(frame, 6 + i, LOOK_REVERSE);
    }
}

/* ---- help and keys ----------------------------------------------------------------------- */

static const char *const help_lines[] = {
    "Keys",
    "  q            quit",
    "  space, p     pause, and go on",
    "  up, down     select a name; also j and k, page up and down, home and end",
    "  enter        show its holders and waiting clients; again: back",
    "  s            next order: by waiting, by refused, by peak; W, R, P: directly",
    "  o            pools and the states of their members; again: back",
    "  t            tubes of jobs and the states of those; again: back",
    "  /            show only names that contain a text; escape: all names",
    "  + -          update more or less often",
    "  r            update now",
    "  h, ?         this help; any key leaves it",
    "",
    "Columns",
    "  LIMIT        the limit in the last request for the name",
    "  LOAD         waiting clients, on average over the last minutes",
    "  REFUSED      refused requests per second, on the same average",
    "  *            the column that orders the list",
    "  HELD, WAITED the longest hold of a member, and the longest wait for one",
    "  OLDEST       how long ago the oldest ready job was put",
    "  PUT, DONE    jobs put into the tube, and deleted by those who had reserved them",
};

static void draw_help(const struct view *view, struct frame *frame)
{
    draw_title(view, frame);
    for (size_t i = 0; i < ARRAY_SIZE(help_lines); i++)
        frame_text(frame, 2 + (int)i, 1, frame->width, help_lines[i][0] == ' ' ? 0 : LOOK_BOLD,
                   "%s", help_lines[i]);
}

static void draw_keys(const struct view *view, struct frame *frame)
{
    int row = frame->height - 1;
    if (view->is_typing) {
        frame_text(frame, row, 0, frame->width, LOOK_BOLD, "names with: %s_   (enter, escape)",
                   view->filter);
        return;
    }
    static const char *const keys[] = {
        [VIEW_NAMES] =
            "q quit  h help  space pause  enter who  o pools  t tubes  s order  / filter",
        [VIEW_POOLS] = "q quit  h help  space pause  enter who  o names  / filter  + - interval",
        [VIEW_TUBES] = "q quit  h help  space pause  t names  / filter  + - interval",
        [VIEW_DETAIL] = "q quit  h help  space pause  enter, escape back",
        [VIEW_HELP] = "any key: back",
    };
    frame_text(frame, row, 0, frame->width, LOOK_DIM, "%s", keys[view->screen]);
}

/* The row after the names, of a high frame with all of them. */
static size_t names_end(const struct view *view)
{
    size_t names = row_count(view, VIEW_NAMES);
    return 12 + (names > 0 ? names : 1); /* the upper part, the heads; or a row without a name */
}

/* The row after the pools, behind a blank row and their heads. */
static size_t pools_end(const struct view *view)
{
    size_t pools = row_count(view, VIEW_POOLS);
    return names_end(view) + (pools > 0 ? pools + 2 : 0);
}

void view_draw(struct view *view, struct frame *frame)
{
    switch (view->screen) {
    case VIEW_NAMES:
        draw_names(view, frame, draw_upper(view, frame));
        if (!view->is_interactive && row_at(view, VIEW_POOLS, 0))
            draw_pools(view, frame, (int)names_end(view) + 1);
        if (!view->is_interactive && printed_tubes(view) > 0)
            draw_tubes(view, frame, (int)pools_end(view) + 1);
        break;
    case VIEW_POOLS:
        draw_pools(view, frame, draw_upper(view, frame));
        break;
    case VIEW_TUBES:
        draw_tubes(view, frame, draw_upper(view, frame));
        break;
    case VIEW_DETAIL:
        draw_detail(view, frame);
        break;
    case VIEW_HELP:
        draw_help(view, frame);
        break;
    }
    if (view->is_interactive)
        draw_keys(view, frame);
}

int view_rows(const struct view *view)
{
    size_t tubes = printed_tubes(view), rows = pools_end(view);
    rows += tubes > 0 ? tubes + 2 : 0; /* as with pools */
    rows = rows < HEIGHT_WITH_HISTORY ? HEIGHT_WITH_HISTORY : rows;
    return rows > FRAME_HEIGHT_MAX ? FRAME_HEIGHT_MAX : (int)rows;
}

/* ---- keys -------------------------------------------------------------------------------- */

static void move_selection(struct view *view, long by)
{
    size_t count = list_count(view);
    long to = (long)view->selected + by;
    if (to >= (long)count)
        to = (long)count - 1;
    view->selected = to < 0 ? 0 : (size_t)to;
}

static enum view_wish set_order(struct view *view, enum by by)
{
    view->by = by;
    view->selected = view->scrolled = 0;
    return WISH_FETCH;
}

static enum view_wish set_interval(struct view *view, bool is_longer)
{
    static const double steps[] = {0.5, 1, 2, 5, 10, 30, 60};
    if (is_longer) {
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
            if (steps[i] > view->interval_seconds) {
                view->interval_seconds = steps[i];
                break;
            }
    } else {
        for (size_t i = ARRAY_SIZE(steps); i > 0; i--)
            if (steps[i - 1] < view->interval_seconds) {
                view->interval_seconds = steps[i - 1];
                break;
            }
    }
    return WISH_NOTHING;
}

/* Appends a character to the filter as UTF-8; omits it if it does not fit. */
static void type_character(struct view *view, uint32_t code)
{
    char bytes[UTF8_MAX];
    size_t len = strlen(view->filter), more = utf8_encode(code, bytes);
    if (!utf8_is_showable(code) || len + more > VIEW_FILTER_MAX)
        return;
    memcpy(view->filter + len, bytes, more);
    view->filter[len + more] = '\0';
}

static void erase_character(struct view *view)
{
    size_t len = strlen(view->filter);
    while (len > 0 && ((unsigned char)view->filter[--len] & 0xc0) == 0x80)
        ;
    view->filter[len] = '\0';
}

static enum view_wish type_filter(struct view *view, uint32_t key)
{
    if (key == KEY_OF_ENTER) {
        view->is_typing = false;
    } else if (key == KEY_OF_ESCAPE) {
        view->is_typing = false;
        view->filter[0] = '\0';
    } else if (key == KEY_OF_BACKSPACE) {
        erase_character(view);
    } else if (key < KEY_OF_UP) {
        type_character(view, key);
    }
    view->selected = view->scrolled = 0;
    return WISH_NOTHING;
}

/* Shows the selected name in detail, unless only its beginning is known; of a pool, the name that
 * counts its held members; of a tube, nothing. */
static enum view_wish show_detail(struct view *view)
{
    const json_t *row = row_at(view, view->screen, view->selected);
    const char *id = json_text_at(row, "id", "");
    if (!*id || view->screen == VIEW_TUBES)
        return WISH_NOTHING;
    text_clear(&view->selected_id);
    text_addf(&view->selected_id, "%s%s", view->screen == VIEW_POOLS ? "pool%3A" : "", id);
    view_take(&view->detail, NULL);
    view->screen = VIEW_DETAIL;
    view->selected = view->scrolled = 0;
    return WISH_FETCH;
}

static void open_list(struct view *view, enum view_screen list)
{
    view->screen = view->list = list;
    view->selected = view->scrolled = 0;
}

/* Handles keys that move the selection. Returns false for other keys. */
static bool move_key(struct view *view, uint32_t key, int height)
{
    long page = height > 20 ? height - 14 : height > 8 ? height - 7 : 1;
    long by = key == KEY_OF_UP || key == 'k'     ? -1
              : key == KEY_OF_DOWN || key == 'j' ? 1
              : key == KEY_OF_PAGE_UP            ? -page
              : key == KEY_OF_PAGE_DOWN          ? page
              : key == KEY_OF_HOME || key == 'g' ? -1000000
              : key == KEY_OF_END || key == 'G'  ? 1000000
                                                 : 0;
    if (by)
        move_selection(view, by);
    return by != 0;
}

/* Handles keys that only the lists have. */
static enum view_wish list_key(struct view *view, uint32_t key)
{
    switch (key) {
    case KEY_OF_ENTER:
        return show_detail(view);
    case 'o':
        open_list(view, view->screen == VIEW_POOLS ? VIEW_NAMES : VIEW_POOLS);
        return WISH_FETCH;
    case 't':
        open_list(view, view->screen == VIEW_TUBES ? VIEW_NAMES : VIEW_TUBES);
        return WISH_FETCH;
    case '/':
    case 'f':
        view->is_typing = true;
        return WISH_NOTHING;
    case KEY_OF_ESCAPE:
        view->filter[0] = '\0';
        return WISH_NOTHING;
    default:
        return WISH_NOTHING;
    }
}

/* Handles keys that only the list of names has. */
static enum view_wish names_key(struct view *view, uint32_t key)
{
    switch (key) {
    case 's':
        return set_order(view, (view->by + 1) % BY_COUNT);
    case 'W':
        return set_order(view, BY_WAITING);
    case 'R':
        return set_order(view, BY_REFUSED);
    case 'P':
        return set_order(view, BY_PEAK);
    default:
        return list_key(view, key);
    }
}

enum view_wish view_key(struct view *view, uint32_t key, int height)
{
    if (view->is_typing)
        return type_filter(view, key);
    if (key == 'q')
        return WISH_QUIT;
    if (view->screen == VIEW_HELP) {
        view->screen = view->list;
        return WISH_NOTHING;
    }
    if (move_key(view, key, height))
        return WISH_NOTHING;
    switch (key) {
    case ' ':
    case 'p':
        view->is_paused = !view->is_paused;
        return view->is_paused ? WISH_NOTHING : WISH_FETCH;
    case 'r':
        return WISH_FETCH;
    case '+':
    case '=':
        return set_interval(view, false);
    case '-':
        return set_interval(view, true);
    case 'h':
    case '?':
        view->screen = VIEW_HELP;
        return WISH_NOTHING;
    }
    if (view->screen == VIEW_NAMES)
        return names_key(view, key);
    if (view->screen == VIEW_POOLS || view->screen == VIEW_TUBES)
        return list_key(view, key);
    if (key == KEY_OF_ENTER || key == KEY_OF_ESCAPE || key == KEY_OF_BACKSPACE)
        open_list(view, view->list);
    return WISH_NOTHING;
}
