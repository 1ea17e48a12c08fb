/*
 * frame.c - a screenful of characters (frame.h).
 */
#include "cli/frame.h"

#include "base/utf8.h"
#include "cli/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void frame_make(struct frame *frame, int width, int height, bool is_unicode)
{
    frame_free(frame);
    frame->width = width < 1 ? 1 : width > FRAME_WIDTH_MAX ? FRAME_WIDTH_MAX : width;
    frame->height = height < 1 ? 1 : height > FRAME_HEIGHT_MAX ? FRAME_HEIGHT_MAX : height;
    frame->is_unicode = is_unicode;
    size_t count = (size_t)frame->width * (size_t)frame->height;
    frame->cells = allocate(count * sizeof *frame->cells);
    for (size_t i = 0; i < count; i++)
        frame->cells[i].character = L' ';
}

void frame_free(struct frame *frame)
{
    free(frame->cells);
    *frame = (struct frame){0};
}

static struct cell *cell_at(const struct frame *frame, int row, int column)
{
    return &frame->cells[(size_t)row * (size_t)frame->width + (size_t)column];
}

/* The column where a run of `room` columns ends in the frame; -1: outside the frame. */
static int end_of(const struct frame *frame, int row, int column, int room)
{
    if (row < 0 || row >= frame->height || column < 0 || room <= 0 || column >= frame->width)
        return -1;
    return room > frame->width - column ? frame->width : column + room;
}

/* The next drawable character of a text, and its columns; 0 columns for a combining mark. */
static int next_character(const struct frame *frame, const uint8_t **at, size_t *len,
                          wchar_t *character_r)
{
    uint32_t code = 0;
    size_t n = utf8_decode(*at, *len, &code);
    bool is_good = n > 0 && utf8_is_showable(code) && (frame->is_unicode || code < 0x80);
    n = n ? n : 1;
    *at += n;
    *len -= n;
    *character_r = is_good ? (wchar_t)code : L'?';
    int width = wcwidth(*character_r);
    if (width >= 0)
        return width;
    *character_r = L'?';
    return 1;
}

/* The number of columns of a text. */
static int text_width(const struct frame *frame, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t len = strlen(text);
    wchar_t character;
    int width = 0;
    while (len > 0)
        width += next_character(frame, &at, &len, &character);
    return width;
}

static int put(struct frame *frame, int row, int column, int end, unsigned look, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t len = strlen(text);
    while (len > 0 && column < end) {
        wchar_t character;
        int width = next_character(frame, &at, &len, &character);
        if (width == 0)
            continue;
        if (width > end - column)
            break;
        *cell_at(frame, row, column) = (struct cell){.character = character, .look = (uint8_t)look};
        if (width == 2)
            *cell_at(frame, row, column + 1) = (struct cell){.look = (uint8_t)look};
        column += width;
    }
    return column;
}

/* Draws a text in a run of `room` columns, aligned right if `is_right`. */
static int draw(struct frame *frame, int row, int column, int room, unsigned look, bool is_right,
                const char *format, va_list values)
{
    int end = end_of(frame, row, column, room);
    if (end < 0)
        return column;
    struct text text = {0};
    text_vaddf(&text, format, values);
    int start = is_right ? column + room - text_width(frame, text_str(&text)) : column;
    column = put(frame, row, start > column ? start : column, end, look, text_str(&text));
    text_free(&text);
    return column;
}

int frame_text(struct frame *frame, int row, int column, int room, unsigned look,
               const char *format, ...)
{
    va_list values;
    va_start(values, format);
    column = draw(frame, row, column, room, look, false, format, values);
    va_end(values);
    return column;
}

int frame_right(struct frame *frame, int row, int column, int room, unsigned look,
                const char *format, ...)
{
    va_list values;
    va_start(values, format);
    column = draw(frame, row, column, room, look, true, format, values);
    va_end(values);
    return column;
}

void frame_row_look(struct frame *frame, int row, unsigned look)
{
    if (row < 0 || row >= frame->height)
        return;
    for (int column = 0; column < frame->width; column++)
        cell_at(frame, row, column)->look |= (uint8_t)look;
}

/* The character for a bar filled to `share`, 0 to 1. */
static wchar_t bar_of(const struct frame *frame, double share)
{
    static const wchar_t ascii[] = {L'.', L':', L'-', L'=', L'+', L'*', L'%', L'#'};
    int level = (int)(share * 8 + 0.5);
    level = level < 1 ? 1 : level > 8 ? 8 : level;
    return frame->is_unicode ? (wchar_t)(0x2580 + level) : ascii[level - 1];
}

void frame_spark(struct frame *frame, int row, int column, int room, const double *values,
                 size_t count, double most)
{
    int end = end_of(frame, row, column, room);
    for (int at = end - 1; end >= 0 && at >= column && count > 0; at--) {
        double value = values[--count];
        if (value > 0)
            *cell_at(frame, row, at) = (struct cell){
                .character = bar_of(frame, most > 0 ? value / most : 0), .look = LOOK_BAR};
        else if (value >= 0) /* zero, but known */
            *cell_at(frame, row, at) = (struct cell){.character = L'_', .look = LOOK_DIM};
    }
}

/* ---- as text --------------------------------------------------------------------------------- */

/* The number of columns used in a row. */
static int row_length(const struct frame *frame, int row)
{
    int length = frame->width;
    while (length > 0 && cell_at(frame, row, length - 1)->character == L' ')
        length--;
    return length;
}

void frame_print(const struct frame *frame, FILE *to)
{
    int rows = frame->height;
    while (rows > 0 && row_length(frame, rows - 1) == 0)
        rows--;
    for (int row = 0; row < rows; row++) {
        int length = row_length(frame, row);
        for (int column = 0; column < length; column++) {
            wchar_t character = cell_at(frame, row, column)->character;
            char bytes[UTF8_MAX];
            if (character)
                fwrite(bytes, 1, utf8_encode((uint32_t)character, bytes), to);
        }
        fputc('\n', to);
    }
}
