/*
 * view.h - what `counterctl top` shows: the last answers of the admin interface, what is selected,
 * and drawing it. No I/O: drawn into a frame, from answers that somebody else has asked for.
 */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "cli/frame.h"
#include "cli/options.h"
#include "cli/text.h"

#include <jansson.h>

#define VIEW_FILTER_MAX 200

enum view_screen { VIEW_NAMES, VIEW_DETAIL, VIEW_HELP };

struct view {
    const char *where;                            /* the admin interface */
    json_t *stats, *history, *contended, *detail; /* answers; NULL: none yet */
    struct text trouble; /* why there are no newer ones; empty: there are */
    double age_seconds;  /* of the answers, where there is trouble */
    bool is_paused;
    double interval_seconds;
    enum by by;
    enum view_screen screen;
    char filter[VIEW_FILTER_MAX + 1];
    bool is_typing;            /* the filter */
    size_t selected, scrolled; /* rows of the list of names, or of the detail */
    struct text selected_id;   /* of the name whose detail is shown, percent-encoded */
    bool is_interactive;       /* else there is no selection and no line of keys */
};

/* What a key asks for beside what view_key has done. */
enum view_wish { WISH_NOTHING, WISH_QUIT, WISH_FETCH };

/* Keys beside characters. */
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

/* Takes a key: a character (of Unicode) or one of enum view_key. `height` is the screen's. */
enum view_wish view_key(struct view *view, uint32_t key, int height);

/* Draws it. */
void view_draw(struct view *view, struct frame *frame);

/* How many rows view_draw takes for all of its names: for printing them once. */
int view_rows(const struct view *view, size_t names);

/* Takes over a new answer in place of an old one. */
void view_take(json_t **place, json_t *answer);

/* The same for the contended names; the selection stays with its name, if that is there still. */
void view_take_names(struct view *view, json_t *answer);

/* Frees what it has; not the struct. */
void view_free(struct view *view);

#endif
