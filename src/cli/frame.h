/*
 * frame.h - a screenful of characters: what the live view draws, and what is then shown by ncurses
 * or printed as text.
 *
 * A cell has one character; one that is two columns wide takes the next cell, too. Marks that
 * combine with the character before are left out. What does not fit is cut.
 */
#ifndef CLI_FRAME_H
#define CLI_FRAME_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

#define FRAME_WIDTH_MAX  1000
#define FRAME_HEIGHT_MAX 1000

/* How a cell looks; may be combined. All work without colours. */
enum frame_look {
    LOOK_PLAIN = 0,
    LOOK_BOLD = 1,
    LOOK_DIM = 2,
    LOOK_REVERSE = 4,
    LOOK_ALERT = 8, /* bold; red where there are colours */
    LOOK_BAR = 16   /* of a diagram; a colour where there are any */
};

struct cell {
    wchar_t character; /* 0: the second half of the one before */
    uint8_t look;
};

struct frame {
    int width, height;
    bool is_unicode; /* else what is not ASCII is drawn as '?', and diagrams with ASCII */
    struct cell *cells;
};

/* Makes it that large (cut to the greatest size) and blank. What it had is freed. */
void frame_make(struct frame *frame, int width, int height, bool is_unicode);

void frame_free(struct frame *frame);

/*
 * Draws a text, as printf, at a row and column from 0; `room` columns at most. What is not UTF-8,
 * and controls, are drawn as '?'. Returns the column after it. Outside the frame nothing happens.
 */
int frame_text(struct frame *frame, int row, int column, int room, unsigned look,
               const char *format, ...) PRINTF_LIKE(6, 7);

/* The same at the right end of `room` columns that begin at `column`. */
int frame_right(struct frame *frame, int row, int column, int room, unsigned look,
                const char *format, ...) PRINTF_LIKE(6, 7);

/* Gives a whole row a look, beside what its cells have. */
void frame_row_look(struct frame *frame, int row, unsigned look);

/*
 * Draws the newest `room` of `count` values as a row of bars, oldest first, the newest at the right
 * end; `most` fills a bar. Values below 0 are unknown and leave a gap. What is above 0 is seen.
 */
void frame_spark(struct frame *frame, int row, int column, int room, const double *values,
                 size_t count, double most);

/* Prints it as text without looks: no blanks at ends of rows, no empty rows at the end. */
void frame_print(const struct frame *frame, FILE *to);

#endif
