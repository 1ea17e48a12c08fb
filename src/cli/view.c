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

void view_free(struct view *view)
{
    for (size_t i = 0; i < ANSWER_COUNT; i++)
        json_decref(view->answers[i]);
    text_free(&view->trouble);
    text_free(&view->selected_id);
}

/* Draws a form up to the frame's edge. Returns the column after it. */
static int draw_form(struct frame *frame, int row, int column, unsigned look, const char *form,
                     const json_t *of)
{
    struct text text = {0};
    text_add_form(&text, form, of);
    column = frame_text(frame, row, column, frame->width, look, "%s", text_str(&text));
    text_free(&text);
    return column;
}

/* ---- the lists of names, of pools and of tubes ----------------------------------------------- */

#define COLUMN 8

/* The least width that shows all columns. */
#define WIDTH_WITH_EXTRAS 110

/* A column of numbers. */
struct list_column {
    const char *head, *form;
    bool is_extra; /* only on wide screens */
    int by;        /* the order that sorts by it; 0: none, else one more than enum by */
};

/* A list: a screen, and the answer that it shows. */
struct list {
    const char *head, *rows;           /* rows: the key in the answer */
    const char *no_match, *none;       /* why there is no row: with a filter, and without */
    const struct list_column *columns; /* ended by a head that is NULL */
    const char *name, *note;           /* forms; a row with a note is dim */
};

static const struct list lists[] = {
    [VIEW_NAMES] = {"NAME", "names", "none of the contended names has this text in it",
                    "nobody has waited or been refused lately",
                    (const struct list_column[]){
                        {"IN USE", "{n in_use}", false, 0},
                        {"PEAK", "{n peak}", false, BY_PEAK + 1},
                        {"LIMIT", "{n limit}", false, 0},
                        {"WAITING", "{n waiting}", false, 0},
                        {"LOAD", "{r waiting_load}", false, BY_WAITING + 1},
                        {"REFUSED", "{r refused_per_second}", false, BY_REFUSED + 1},
                        {0}},
                    "{name|}[truncated?...]", "[!exists?  (gone)]"},
    [VIEW_POOLS] = {"POOL", "pools", "no pool has this text in its name", "there are no pools",
                    (const struct list_column[]){{"FREE", "{n states.free}", false, 0},
                                                 {"TAKEN", "{n states.taken}", false, 0},
                                                 {"CLEANING", "{n states.cleaning}", true, 0},
                                                 {"CHECKING", "{n states.checking}", true, 0},
                                                 {"DIRTY", "{n states.dirty}", false, 0},
                                                 {"STOPPING", "{n states.stopping}", true, 0},
                                                 {"DOWN", "{n states.down}", false, 0},
                                                 {"WAITING", "{n waiting}", false, 0},
                                                 {"WANT", "{n want}", false, 0},
                                                 {"HELD", "{s longest_hold_seconds}", false, 0},
                                                 {"WAITED", "{s oldest_wait_seconds}", false, 0},
                                                 {0}},
                    "{name|}", "[state=draining?  (dropped)]"},
    [VIEW_TUBES] =
        {"TUBE", "tubes", "no tube has this text in its name", "there are no tubes",
         (const struct list_column[]){{"READY", "{n states.ready}", false, 0},
                                      {"RESERVED", "{n states.reserved}", true, 0},
                                      {"DELAYED", "{n states.delayed}", false, 0},
                                      {"BURIED", "{n states.buried}", false, 0},
                                      {"NO TRIES", "{n states.abandoned}", true, 0},
                                      {"WAITING", "{n waiting}", false, 0},
                                      {"OLDEST", "{s oldest_ready_seconds}", false, 0},
                                      {"PUT", "{n totals.puts}", false, 0},
                                      {"DONE", "{n totals.acks}", false, 0},
                                      {"RAN OUT", "{n totals.recycled}", true, 0},
                                      {0}},
         "{name|}",
         "[+pause_seconds?  (paused)][!+pause_seconds?[settings.read_only?  (read-only)]]"},
};

/* The answer that a list shows. */
static json_t *answer_of(const struct view *view, enum view_screen list)
{
    return view->answers[ANSWER_NAMES + list];
}

/* The row at `index` among those of a list that match the filter; NULL: there are fewer. */
static json_t *row_at(const struct view *view, enum view_screen list, size_t index)
{
    json_t *row;
    size_t i;
    json_array_foreach(json_at(answer_of(view, list), lists[list].rows), i, row)
    {
        bool is_wanted =
            !*view->filter || strstr(json_text_at(row, "name", ""), view->filter) != NULL;
        if (is_wanted && index-- == 0)
            return row;
    }
    return NULL;
}

static size_t row_count(const struct view *view, enum view_screen list)
{
    size_t count = 0;
    while (row_at(view, list, count))
        count++;
    return count;
}

void view_take(struct view *view, enum view_answer which, json_t *answer)
{
    /* A selection on the first row stays there: without a choice, the user watches the worst name.
     */
    bool is_open = view->selected > 0 && view->screen < VIEW_DETAIL &&
                   which == (enum view_answer)(ANSWER_NAMES + view->screen);
    json_t *old = view->answers[which];
    const char *name = "";
    const json_t *row;
    if (is_open)
        name = json_text_at(row_at(view, view->screen, view->selected), "name", "");
    view->answers[which] = answer;
    for (size_t i = 0; is_open && (row = row_at(view, view->screen, i)); i++) {
        if (strcmp(json_text_at(row, "name", ""), name) == 0) {
            view->selected = i;
            break;
        }
    }
    json_decref(old);
}

static size_t detail_count(const struct view *view)
{
    return json_array_size(json_at(view->answers[ANSWER_DETAIL], "holders")) +
           json_array_size(json_at(view->answers[ANSWER_DETAIL], "waiters"));
}

static size_t list_count(const struct view *view)
{
    return view->screen == VIEW_DETAIL ? detail_count(view) : row_count(view, view->screen);
}

/* ---- the upper part -------------------------------------------------------------------------- */

static void draw_title(const struct view *view, struct frame *frame)
{
    char interval[NUMBER_TEXT];
    int column = frame_text(frame, 0, 0, frame->width, LOOK_BOLD, "counterctl top");
    column = frame_text(frame, 0, column, frame->width - column, LOOK_PLAIN, " - %s", view->where);
    if (view->answers[ANSWER_STATS])
        draw_form(frame, 0, column, LOOK_PLAIN, "  counterd {version|}  up {s uptime_seconds}",
                  view->answers[ANSWER_STATS]);
    if (view->is_paused)
        frame_right(frame, 0, 0, frame->width, LOOK_REVERSE, " PAUSED ");
    else if (view->is_interactive)
        frame_right(frame, 0, 0, frame->width, LOOK_DIM, "  every %s",
                    seconds_text(view->interval_seconds, interval));
}

static void draw_trouble(const struct view *view, struct frame *frame, int row)
{
    char age[NUMBER_TEXT] = "";
    if (view->answers[ANSWER_STATS])
        seconds_text(view->age_seconds, age);
    frame_text(frame, row, 0, frame->width, LOOK_ALERT, "No answer%s%s, trying again: %s",
               *age ? " for " : "", age, text_str(&view->trouble));
}

#define RATE(of)                                                                                   \
    "[recent." of "_per_second?{n recent." of "_per_second}/s][!recent." of "_per_second?-]"

/* Median and 99th percentile. */
#define TIMES(of)                                                                                  \
    "[+recent." of ".count?{s recent." of ".p50_seconds}/{s recent." of ".p99_seconds}]"           \
    "[!+recent." of ".count?-]"

/* The rows of numbers: of the last minute, and the current ones. */
static const struct numbers {
    const char *label; /* NULL: none */
    struct number {
        const char *label, *form; /* label NULL: the end */
        const char *bad;          /* a number that is in red if it is above 0; NULL: none is */
    } at[6];
} upper_numbers[] = {
    {"last 60 s",
     {{"requests", RATE("requests"), NULL},
      {"granted", RATE("granted"), NULL},
      {"refused", RATE("refused"), "recent.refused_per_second"},
      {"timed out", RATE("timed_out"), "recent.timed_out_per_second"}}},
    {"p50/p99",
     {{"waits", TIMES("waits"), NULL},
      {"holds", TIMES("holds"), NULL},
      {"answers", TIMES("answers"), NULL}}},
    {"now",
     {{"names", "{n names}", NULL},
      {"units", "{n units}", NULL},
      {"waiting", "[+waiting?{n waiting}][!+waiting?0]", NULL},
      {"conns", "{+ protocols connections.open}", NULL},
      {"memory", "{b memory.used_bytes}/{b memory.limit_bytes}", NULL}}},
};

/* Draws a row of numbers, each behind its label. */
static void draw_numbers(const json_t *stats, struct frame *frame, int row,
                         const struct numbers *numbers)
{
    int column = 0;
    if (numbers->label) {
        frame_text(frame, row, 0, LABEL_WIDTH, LOOK_PLAIN, "%s", numbers->label);
        column = LABEL_WIDTH;
    }
    for (const struct number *at = numbers->at; at->label; at++) {
        bool is_bad = at->bad && json_number_at(stats, at->bad, 0) > 0;
        column = frame_text(frame, row, column, frame->width, LOOK_DIM, "%s ", at->label);
        column =
            2 + draw_form(frame, row, column, is_bad ? LOOK_ALERT : LOOK_BOLD, at->form, stats);
    }
}

/* Reads the values of a series; unknown ones are -1. Returns their number. */
static size_t series_of(const struct view *view, const char *name, double *values)
{
    char path[64];
    json_t *value;
    size_t i, count = 0;
    snprintf(path, sizeof path, "series.%s", name);
    json_array_foreach(json_at(view->answers[ANSWER_HISTORY], path), i,
                       value) if (count < HISTORY_MAX) values[count++] =
        json_is_number(value) ? json_number_value(value) : -1;
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

static const char *share_text(double share, char *to)
{
    snprintf(to, NUMBER_TEXT, "%.0f%%", share * 100);
    return to;
}

static const struct diagram diagrams[] = {
    {"requests", "requests", 1, rate_text},
    {"waiting", "waiting", 1, count_text},
    {"wait p99", "wait_p99_seconds", 0.001, seconds_text},
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
    const json_t *store = json_at(view->answers[ANSWER_STATS], "resources.job store");
    return draw_form(frame, row, 0, LOOK_ALERT,
                     "[stopped?job queues do not serve: {stopped}]"
                     "[!stopped?[failing?jobs cannot be written, and new ones are refused; the log "
                     "says why]]",
                     store) > 0;
}

/* Says that a node of a cluster has no session with its engine, as that does. */
static void draw_cut_off(const struct view *view, struct frame *frame, int row)
{
    const json_t *cluster = view->answers[ANSWER_CLUSTER];
    const char *state = json_text_at(cluster, "state", "-");
    if (json_is_true_at(cluster, "enabled") && strcmp(state, "live") != 0 &&
        strcmp(state, "leaving") != 0)
        draw_form(frame, row, 0, LOOK_ALERT,
                  "limits are not shared: [refused?{refused}][!refused?[reason?{reason}]"
                  "[!reason?{state}]]",
                  cluster);
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
        for (size_t i = 0; i < ARRAY_SIZE(upper_numbers); i++)
            draw_numbers(view->answers[ANSWER_STATS], frame, row++, &upper_numbers[i]);
    }
    if (frame->height >= HEIGHT_WITH_HISTORY) {
        row++;
        for (size_t i = 0; i < ARRAY_SIZE(diagrams); i++)
            draw_diagram(view, frame, row++, &diagrams[i]);
    }
    return row + (frame->height >= HEIGHT_WITH_NUMBERS);
}

/* ---- lists ----------------------------------------------------------------------------------- */

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

/* The width of a column; 0: it is not shown. */
static int width_of(const struct frame *frame, const struct list_column *column)
{
    return !column->is_extra ? COLUMN : frame->width >= WIDTH_WITH_EXTRAS ? COLUMN + 1 : 0;
}

static void draw_heads(const struct view *view, struct frame *frame, int row, enum view_screen list)
{
    int column = 0;
    for (const struct list_column *of = lists[list].columns; of->head; of++) {
        frame_right(frame, row, column, width_of(frame, of), LOOK_BOLD, "%s%s",
                    of->by == (int)view->by + 1 ? "*" : "", of->head);
        column += width_of(frame, of);
    }
    column = frame_text(frame, row, column + 1, frame->width, LOOK_BOLD, "%s", lists[list].head);
    if (*view->filter || view->is_typing)
        column = frame_text(frame, row, column, frame->width - column, LOOK_BOLD, "  with \"%s\"",
                            view->filter);
    if (*json_text_at(answer_of(view, list), "cursor", ""))
        frame_text(frame, row, column, frame->width - column, LOOK_BOLD, "  first %zu",
                   json_array_size(json_at(answer_of(view, list), lists[list].rows)));
    frame_row_look(frame, row, LOOK_REVERSE);
}

/* Draws the numbers and the name of a row, and what else is said of it. */
static void draw_row(struct frame *frame, int row, const json_t *item, enum view_screen list)
{
    struct text text = {0};
    int column = 0;
    for (const struct list_column *of = lists[list].columns; of->head; of++) {
        bool is_alert =
            of->by == BY_REFUSED + 1 && json_number_at(item, "refused_per_second", 0) >= 0.005;
        text_clear(&text);
        text_add_form(&text, of->form, item);
        frame_right(frame, row, column, width_of(frame, of), is_alert ? LOOK_ALERT : LOOK_PLAIN,
                    "%s", text_str(&text));
        column += width_of(frame, of);
    }
    text_clear(&text);
    text_add_form(&text, lists[list].note, item);
    unsigned look = text.len > 0 ? LOOK_DIM : LOOK_PLAIN;
    column = draw_form(frame, row, column + 1, look, lists[list].name, item);
    frame_text(frame, row, column, frame->width, look, "%s", text_str(&text));
    text_free(&text);
}

/* Draws the heads of a list, and its rows below them, or says why there are none. */
static void draw_list(struct view *view, struct frame *frame, int row, enum view_screen list)
{
    int room = list_room(frame, row, view);
    draw_heads(view, frame, row, list);
    clamp_selection(view, room);
    if (!row_at(view, list, 0))
        frame_text(frame, row + 1, 2, frame->width, LOOK_DIM, "%s",
                   *view->filter           ? lists[list].no_match
                   : answer_of(view, list) ? lists[list].none
                                           : "");
    for (int i = 0; i < room; i++) {
        const json_t *item = row_at(view, list, view->scrolled + (size_t)i);
        if (!item)
            break;
        draw_row(frame, row + 1 + i, item, list);
        if (view->is_interactive && view->scrolled + (size_t)i == view->selected)
            frame_row_look(frame, row + 1 + i, LOOK_REVERSE);
    }
}

/* ---- all lists, printed once ----------------------------------------------------------------- */

/* The rows of a list that is printed below the names; no tubes where only the first tube is there,
   and was never used. */
static size_t printed_rows(const struct view *view, enum view_screen list)
{
    const json_t *stats = view->answers[ANSWER_STATS];
    bool is_unused = json_number_at(stats, "resources.tubes.tubes", 0) <= 1 &&
                     json_number_at(stats, "resources.tubes.puts", 0) <= 0;
    return list == VIEW_TUBES && is_unused ? 0 : row_count(view, list);
}

/* The row after a list. The names have the upper part and their heads above them, the others a
   blank row and theirs. */
static int end_of(const struct view *view, enum view_screen list)
{
    size_t names = row_count(view, VIEW_NAMES), end = 12 + (names > 0 ? names : 1);
    for (int i = VIEW_POOLS; i <= (int)list; i++) {
        size_t rows = printed_rows(view, (enum view_screen)i);
        end += rows > 0 ? rows + 2 : 0;
    }
    return end > FRAME_HEIGHT_MAX ? FRAME_HEIGHT_MAX : (int)end;
}

static void draw_once(struct view *view, struct frame *frame)
{
    for (int i = VIEW_POOLS; i <= VIEW_TUBES; i++)
        if (printed_rows(view, (enum view_screen)i) > 0)
            draw_list(view, frame, end_of(view, (enum view_screen)(i - 1)) + 1,
                      (enum view_screen)i);
}

int view_rows(const struct view *view)
{
    int rows = end_of(view, VIEW_TUBES);
    return rows < HEIGHT_WITH_HISTORY ? HEIGHT_WITH_HISTORY : rows;
}

/* ---- one name -------------------------------------------------------------------------------- */

static const struct detail_column {
    int at, room;
    struct column is;
} detail_columns[] = {
    {16, 8, {"UNITS", 'r', "{n units}"}},
    {24, 8, {"LIMIT", 'r', "{n limit}"}},
    {34, 13, {"CONNECTION", 'l', "{connection}"}},
    {48, 12, {"PROTOCOL", 'l', "{protocol}"}},
    {61, FRAME_WIDTH_MAX, {"CLIENT", 'l', "{client}"}},
};

/* Draws a row of the holders and waiters: the heads (`client` is NULL), or a client. */
static void draw_client(struct frame *frame, int row, const json_t *client, bool is_holder)
{
    char text[NUMBER_TEXT] = "FOR";
    const char *state = is_holder                                              ? "holds"
                        : strcmp(json_text_at(client, "kind", ""), "any") == 0 ? "any"
                                                                               : "waits";
    unsigned look = client ? LOOK_PLAIN : LOOK_BOLD;
    if (client)
        seconds_text(json_number_at(client, is_holder ? "held_seconds" : "waited_seconds", -1),
                     text);
    frame_text(frame, row, 0, 8, is_holder ? LOOK_BOLD : look, "%s", client ? state : "STATE");
    frame_right(frame, row, 8, 8, look, "%s", text);
    for (size_t i = 0; i < ARRAY_SIZE(detail_columns); i++) {
        const struct detail_column *column = &detail_columns[i];
        struct text cell = {0};
        text_add_form(&cell, client ? column->is.form : column->is.head, client);
        if (column->is.align == 'r')
            frame_right(frame, row, column->at, column->room, look, "%s", text_str(&cell));
        else
            frame_text(frame, row, column->at, column->room, look, "%s", text_str(&cell));
        text_free(&cell);
    }
}

static void draw_detail(struct view *view, struct frame *frame)
{
    static const struct numbers of_name = {NULL,
                                           {{"in use", "{n in_use}", NULL},
                                            {"peak", "{n peak}", NULL},
                                            {"limit", "{n limit}", NULL},
                                            {"holders", "{n holders_total}", NULL},
                                            {"waiting", "{n waiting}", NULL}}};
    const json_t *detail = view->answers[ANSWER_DETAIL];
    draw_title(view, frame);
    if (view->trouble.len > 0)
        draw_trouble(view, frame, 1);
    draw_form(frame, 2, 0, LOOK_BOLD, detail ? "{name}" : text_str(&view->selected_id), detail);
    if (!detail) {
        frame_text(frame, 4, 2, frame->width, LOOK_DIM, "nobody holds it or waits for it now");
        return;
    }
    draw_numbers(detail, frame, 3, &of_name);
    draw_client(frame, 5, NULL, true);
    frame_row_look(frame, 5, LOOK_REVERSE);
    int room = list_room(frame, 5, view);
    clamp_selection(view, room);
    const json_t *holders = json_at(detail, "holders"), *waiters = json_at(detail, "waiters");
    for (int i = 0; i < room; i++) {
        size_t index = view->scrolled + (size_t)i, held = json_array_size(holders);
        bool is_holder = index < held;
        if (index >= detail_count(view))
            break;
        draw_client(frame, 6 + i,
                    json_array_get(is_holder ? holders : waiters, is_holder ? index : index - held),
                    is_holder);
        if (index == view->selected)
            frame_row_look(frame, 6 + i, LOOK_REVERSE);
    }
}

/* ---- help and keys --------------------------------------------------------------------------- */

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

void view_draw(struct view *view, struct frame *frame)
{
    if (view->screen == VIEW_DETAIL)
        draw_detail(view, frame);
    else if (view->screen == VIEW_HELP)
        draw_help(view, frame);
    else
        draw_list(view, frame, draw_upper(view, frame), view->screen);
    if (!view->is_interactive)
        draw_once(view, frame);
    if (view->is_interactive)
        draw_keys(view, frame);
}

/* ---- keys ------------------------------------------------------------------------------------ */

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
    double was = view->interval_seconds;
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        if (is_longer ? steps[i] > was && view->interval_seconds == was : steps[i] < was)
            view->interval_seconds = steps[i];
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
    view_take(view, ANSWER_DETAIL, NULL);
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

/* Handles keys of the lists. */
static enum view_wish list_key(struct view *view, uint32_t key)
{
    enum view_screen other = key == 'o' ? VIEW_POOLS : VIEW_TUBES;
    bool is_names = view->screen == VIEW_NAMES;
    if (key == KEY_OF_ENTER)
        return show_detail(view);
    if (key == KEY_OF_ESCAPE)
        view->filter[0] = '\0';
    if (key == '/' || key == 'f')
        view->is_typing = true;
    if (key == 'o' || key == 't') {
        open_list(view, view->screen == other ? VIEW_NAMES : other);
        return WISH_FETCH;
    }
    if (is_names && key == 's')
        return set_order(view, (view->by + 1) % BY_COUNT);
    if (is_names && (key == 'W' || key == 'R' || key == 'P'))
        return set_order(view, key == 'W' ? BY_WAITING : key == 'R' ? BY_REFUSED : BY_PEAK);
    return WISH_NOTHING;
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
    if (view->screen != VIEW_DETAIL)
        return list_key(view, key);
    if (key == KEY_OF_ENTER || key == KEY_OF_ESCAPE || key == KEY_OF_BACKSPACE)
        open_list(view, view->list);
    return WISH_NOTHING;
}
