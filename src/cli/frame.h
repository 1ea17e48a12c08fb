/*
 * frame.h - a screenful of characters. The live view draws into it; ncurses or a print shows it.
 *
 * A cell has one character; a character of two columns takes the next cell too. The frame omits
 * combining marks and cuts what does not fit.
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

/* Looks of a cell; may be combined. All work without colours. */
enum frame_look {
    LOOK_PLAIN = 0,
    LOOK_BOLD = 1,
    LOOK_DIM = 2,
    LOOK_REVERSE = 4,
    LOOK_ALERT = 8, /* bold; red if the terminal has colours */
    LOOK_BAR = 16   /* of a diagram; coloured if the terminal has colours */
};

struct cell {
    wchar_t character; /* 0: the second half of a wide character */
    uint8_t look;
};

struct frame {
    int width, height;
    bool is_unicode; /* false: other characters than ASCII become '?', diagrams use ASCII */
    struct cell *cells;
};

/* Makes the frame blank and of that size, up to the largest. Frees its earlier cells. */
void frame_make(struct frame *frame, int width, int height, bool is_unicode);

void frame_free(struct frame *frame);

/*
 * Draws a text, as printf, at a row and column counted from 0, in at most `room` columns. Controls
 * and invalid UTF-8 become '?'. Returns the column after the text. Does nothing outside the frame.
 */
int frame_text(struct frame *frame, int row, int column, int room, unsigned look,
               const char *format, ...) PRINTF_LIKE(6, 7);

/* Like frame_text, aligned to the right end of the `room` columns from `column`. */
int frame_right(struct frame *frame, int row, int column, int room, unsigned look,
                const char *format, ...) PRINTF_LIKE(6, 7);

/* Adds a look to all cells of a row. */
void frame_row_look(struct frame *frame, int row, unsigned look);

/*
 * Draws the newest `room` of `count` values as a row of bars. `values` are oldest first; the newest
 * is at the right end. `most` fills a bar. A value below 0 is unknown and leaves a gap; a value
 * above 0 always shows.
 */
void frame_spark(struct frame *frame, int row, int column, int room, const double *values,
                 size_t count, double most);

/* Prints the frame as text without looks, without blanks at the end of rows and empty rows at the
   end. */
void frame_print(const struct frame *frame, FILE *to);

#endif
