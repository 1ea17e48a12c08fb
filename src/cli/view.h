/*
 * view.h - the view of `counterctl top`: the latest answers of the admin interface, the selection,
 * and drawing. No I/O: it draws into a frame, and the caller fetches the answers.
 */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "cli/frame.h"
#include "cli/options.h"
#include "cli/text.h"

#include <jansson.h>

#define VIEW_FILTER_MAX 200

enum view_screen { VIEW_NAMES, VIEW_POOLS, VIEW_TUBES, VIEW_DETAIL, VIEW_HELP };

/* Answers of the admin interface. Those for the lists are in the order of their screens. */
enum view_answer {
    ANSWER_STATS,
    ANSWER_HISTORY,
    ANSWER_NAMES,
    ANSWER_POOLS,
    ANSWER_TUBES,
    ANSWER_CLUSTER,
    ANSWER_DETAIL,
    ANSWER_COUNT
};

struct view {
    const char *where;             /* the admin interface */
    json_t *answers[ANSWER_COUNT]; /* the latest; NULL: none yet */
    struct text trouble;           /* why the answers are old; empty: they are new */
    double age_seconds;            /* age of the answers, if there is trouble */
    bool is_paused;
    double interval_seconds;
    enum by by;
    enum view_screen screen;
    enum view_screen list; /* one of names, pools, tubes: where the detail and the help lead back */
    char filter[VIEW_FILTER_MAX + 1];
    bool is_typing;            /* the user types the filter */
    size_t selected, scrolled; /* rows in the list, or in the detail */
    struct text selected_id;   /* the name shown in detail, percent-encoded */
    bool is_interactive;       /* false: no selection and no line of keys */
};

/* What the caller must do after view_key. */
enum view_wish { WISH_NOTHING, WISH_QUIT, WISH_FETCH };

/* Keys that are not characters. */
enum view_key {
    KEY_OF_UP = 0x110000,
    KEY_OF_DOWN,
    KEY_OF_PAGE_UP,
    KEY_OF_PAGE_DOWN,
    KEY_OF_HOME,
    KEY_OF_END,
    KEY_OF_ENTER,
    KEY_OF_ESCAPE,
    KEY_OF_BACKSPACE
};

/* Handles a key: a Unicode character, or one of enum view_key. `height` is the screen's. */
enum view_wish view_key(struct view *view, uint32_t key, int height);

/* Draws the view. */
void view_draw(struct view *view, struct frame *frame);

/* The number of rows that view_draw needs to show all names, pools and tubes, for printing them
 * once. */
int view_rows(const struct view *view);

/* Replaces an old answer with a new one, and takes over its reference. The selection stays on its
   row if that is still listed. */
void view_take(struct view *view, enum view_answer which, json_t *answer);

/* Frees what the struct points to, not the struct. */
void view_free(struct view *view);

#endif
