/*
 * print.h - what counterctl writes: complaints, numbers for people, columns, JSON lines.
 */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "cli/text.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Writes "counterctl: " and the message as a line of standard error, what may not be shown in it
 * (text.h) as \xNN: it may have words of a server's.
 */
void complain(const char *format, ...) PRINTF_LIKE(1, 2);

/* Writes the message as a line of `to`, likewise. */
void print_line(FILE *to, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Writes out what was printed. Returns `status`, or another where standard output could not be
 * written: 141 without a word where its reader has gone, as if SIGPIPE had ended us, else
 * STATUS_OUTPUT, with a complaint.
 */
int print_end(int status);

/* Room for the texts of the next three. */
#define NUMBER_TEXT 24

/* A duration in 7 columns, up to a million days: "0", "12 us", "3.4 ms", "59.9 s", "12m 3s", "3h
   20m", "12d 3h". Below 0 and no number at all: "-". Returns `to`. */
const char *seconds_text(double seconds, char to[NUMBER_TEXT]);

/* A count or a rate in at most 6 columns: "0.3", "123", "12.3k", "4.5M". Negative: "-". */
const char *count_text(double count, char to[NUMBER_TEXT]);

/* A size in at most 7 columns: "512 B", "12.3 K", "1.0 G". Negative: "-". */
const char *size_text(double bytes, char to[NUMBER_TEXT]);

/*
 * Rows whose columns are aligned when all are there. The last column is not padded, so that names
 * stand there. Zero-initialise, set `heads` and `align`; free with columns_free.
 */
#define COLUMNS_MAX 12

struct columns {
    const char *heads[COLUMNS_MAX]; /* ended by NULL where there are fewer */
    const char *align;              /* for each column 'l' or 'r' */
    struct text cells;              /* each ended by NUL */
    size_t count;                   /* cells */
};

/* Adds the next cell of the row, as printf. Bytes that can't be shown are written as \xNN. */
void columns_add(struct columns *columns, const char *format, ...) PRINTF_LIKE(2, 3);

/* Adds the next cell as it is: escaped already. */
void columns_add_text(struct columns *columns, const char *cell);

/* Prints heads and rows, each after `indent`; nothing where there is no row. */
void columns_print(const struct columns *columns, const char *indent, FILE *to);

void columns_free(struct columns *columns);

/* Prints `value`, compact, as one line, and gives up the caller's reference. */
void json_line(json_t *value, FILE *to);

/* "name" (escaped) and "id" (percent-encoded) of a name in `object`. */
void json_set_name(json_t *object, struct bytes name);

/* Sets a member to a new value whose reference is taken over; ends the process without memory. */
void json_put(json_t *object, const char *key, json_t *value);

/* A new object; ends the process without memory. */
json_t *json_new(void);

/*
 * A member of an object as text or number; `none` where it is missing or of another type. `path` is
 * a key, or keys with dots between.
 */
double json_number_at(const json_t *object, const char *path, double none);
const char *json_text_at(const json_t *object, const char *path, const char *none);
bool json_is_true_at(const json_t *object, const char *path);
json_t *json_at(const json_t *object, const char *path);

#endif
