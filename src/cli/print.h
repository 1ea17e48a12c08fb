/*
 * print.h - output of counterctl: errors, numbers for people, forms, tables, JSON, progress.
 */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include "cli/status.h"
#include "cli/text.h"

#include <jansson.h>
#include <stdio.h>

/*
 * Writes "counterctl: " and the message as one line to standard error. Characters that are unsafe
 * on a terminal become \xNN (text.h), because the message may contain text from a server. Returns
 * false; complain_as is the status.
 */
bool complain(const char *format, ...) PRINTF_LIKE(1, 2);
#define complain_as(status, ...) (complain(__VA_ARGS__), (status))

/* The same for a text, unless it is what was said last: `said` keeps that. */
void complain_once(struct text *said, const struct text *what);

/* Writes the message as one line to `to`, with the same escapes. */
void print_line(FILE *to, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Flushes standard output. Returns `status`, or when that failed another one: 141 without a message
 * if the reader has gone, as if SIGPIPE had ended us; else STATUS_OUTPUT after printing why.
 */
int print_end(int status);

/* Buffer size for the next three functions. */
#define NUMBER_TEXT 24

/* A duration in 7 columns, up to a million days: "0", "12 us", "3.4 ms", "59.9 s", "12m 3s", "3h
   20m", "12d 3h". A negative number or NaN: "-". Returns `to`. */
const char *seconds_text(double seconds, char to[NUMBER_TEXT]);

/* A count or a rate in at most 6 columns: "0.3", "123", "12.3k", "4.5M". Negative: "-". */
const char *count_text(double count, char to[NUMBER_TEXT]);

/* A size in at most 7 columns: "512 B", "12.3 K", "1.0 G". Negative: "-". */
const char *size_text(double bytes, char to[NUMBER_TEXT]);

/*
 * Adds a form, which says what is printed of a JSON object. PATH is one of json_at.
 *
 *     {PATH}       a text, a whole number, or the number of an array's elements; "-" for a missing
 *                  value or a number below 0
 *     {PATH|WORD}  the same, but WORD in place of an empty text or a missing value
 *     {s PATH}     seconds_text; {n PATH}: count_text; {b PATH}: size_text
 *     {2 PATH}     a number with two decimals; {r PATH}: the same below 10, else count_text
 *     {+ PATH OF}  count_text of the sum over an array's elements of their numbers at OF
 *     {p PATH}     " KEY=VALUE" for each member of an object
 *     [IF?FORM]    the form if IF holds. It is PATH: there is something, no empty text or object
 *                  and not false; +PATH: a number above 0; PATH=WORD: that text; and !IF
 *
 * Unsafe bytes of values become \xNN.
 */
void text_add_form(struct text *to, const char *form, const json_t *row);

/* Prints a form as a line. */
void print_form(const char *form, const json_t *row);

/* A column of a table. The last one of a table is not padded; put names there. */
struct column {
    const char *head; /* NULL: the end of the table's columns */
    char align;       /* 'l' or 'r' */
    const char *form;
};

/* The most columns of a table; one with more ends the process. */
#define COLUMNS_MAX 16

/* The most bytes of a table's cells. It ends the process when a server sends more. */
#define TABLE_BYTES_MAX ((size_t)512 << 20)

/* A table that is printed when all rows are there, with aligned columns. Zero-initialise, set
   `columns`; free with table_free. */
struct table {
    const struct column *columns;
    struct text cells; /* each ended by NUL */
    size_t rows;
};

/* Adds a row, or with `is_json` prints it as a line; and drops the caller's reference. */
void table_take(struct table *table, json_t *row, bool is_json);

/* Prints heads and rows, each after `indent`. Prints nothing if there is no row. */
void table_print(const struct table *table, const char *indent);

void table_free(struct table *table);

/* Prints a table of the objects in an array; without one, nothing. */
void print_array(const struct column *columns, const json_t *rows, const char *indent);

/* Prints `value` as one compact line, and drops the caller's reference. */
void json_line(json_t *value);

/* main has jansson allocate as we do, so no function that makes JSON fails. */

/* A member of an object. */
struct json_pair {
    const char *key;
    json_t *value; /* taken over; NULL: the object does not have it */
};

/* Makes an object of pairs, {KEY, VALUE}, or prints it as a line. */
#define json_make(...)  json_make_of((const struct json_pair[]){__VA_ARGS__, {0}})
#define json_print(...) json_line(json_make(__VA_ARGS__))

/* The two pairs that say what a name is. */
#define JSON_NAME(name)                                                                            \
    {"name", json_name(name)},                                                                     \
    {                                                                                              \
        "id", json_id(name)                                                                        \
    }

/* Private to json_make: `pairs` ends with a key that is NULL. */
json_t *json_make_of(const struct json_pair *pairs);

/* A number; as a text from 2^63 up, because JSON's numbers end there for jansson. */
json_t *json_count(uint64_t number);

/* A name as a text: escaped, and percent-encoded ("id"). */
json_t *json_name(struct bytes name);
json_t *json_id(struct bytes name);

/*
 * A member of an object as text or number; `none` when it is missing or has another type. `path` is
 * a key, or several keys separated by dots.
 */
double json_number_at(const json_t *object, const char *path, double none);
const char *json_text_at(const json_t *object, const char *path, const char *none);
bool json_is_true_at(const json_t *object, const char *path);
json_t *json_at(const json_t *object, const char *path);

/*
 * A line on the terminal that says how far a long work has come. It is on standard error, and only
 * if that is a terminal and standard output is none: what we print would break it. A work that
 * prints nothing meanwhile sets `is_silent`. Zero-initialise.
 */
struct progress {
    bool is_silent; /* standard output may be a terminal, too */
    /* private to print.c */
    int64_t next_ns;
    bool is_shown, is_known, is_wanted;
};

/* Shows the text in place of the one before, at most ten times a second. */
void progress_show(struct progress *progress, const char *format, ...) PRINTF_LIKE(2, 3);

/* Clears the line. Call it before anything else is printed to the terminal. */
void progress_end(struct progress *progress);

#endif
