/*
 * print.c - output of counterctl (print.h).
 */
#include "cli/print.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void vprint_line(FILE *to, const char *head, const char *format, va_list values)
{
    struct text shown = {0};
    text_vadd_shown(&shown, format, values);
    fprintf(to, "%s%s\n", head, text_str(&shown));
    text_free(&shown);
}

bool complain(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vprint_line(stderr, "counterctl: ", format, values);
    va_end(values);
    return false;
}

void complain_once(struct text *said, const struct text *what)
{
    if (!bytes_equal(text_bytes(said), text_bytes(what)))
        complain("%s", text_str(what));
    text_clear(said);
    text_add(said, what->data, what->len);
}

void print_line(FILE *to, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vprint_line(to, "", format, values);
    va_end(values);
}

int print_end(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno == EPIPE)
        return STATUS_SIGNAL + SIGPIPE;
    complain("can't write to standard output: %s", strerrordesc_np(errno));
    return STATUS_OUTPUT;
}

/* --- Numbers --------------------------------------------------------------------------------- */

/* A duration of at least a minute, in two units. */
static void long_duration(double seconds, char *to)
{
    unsigned long s = seconds < 1e12 ? (unsigned long)seconds : 1000000000000;
    if (s < 3600)
        snprintf(to, NUMBER_TEXT, "%lum %lus", s / 60, s % 60);
    else if (s < 86400)
        snprintf(to, NUMBER_TEXT, "%luh %lum", s / 3600, s / 60 % 60);
    else if (s < 8640000)
        snprintf(to, NUMBER_TEXT, "%lud %luh", s / 86400, s / 3600 % 24);
    else
        snprintf(to, NUMBER_TEXT, "%lud", s / 86400);
}

const char *seconds_text(double seconds, char to[NUMBER_TEXT])
{
    if (!(seconds >= 0)) /* or NaN */
        snprintf(to, NUMBER_TEXT, "-");
    else if (seconds < 5e-7)
        snprintf(to, NUMBER_TEXT, "0");
    else if (seconds < 9.995e-4)
        snprintf(to, NUMBER_TEXT, "%.0f us", seconds * 1e6);
    else if (seconds < 0.09995)
        snprintf(to, NUMBER_TEXT, "%.1f ms", seconds * 1e3);
    else if (seconds < 0.9995)
        snprintf(to, NUMBER_TEXT, "%.0f ms", seconds * 1e3);
    else if (seconds < 59.95)
        snprintf(to, NUMBER_TEXT, "%.1f s", seconds);
    else
        long_duration(seconds + 0.05, to);
    return to;
}

/* A number of three digits with the letter of its power of `step`. */
static const char *scaled(double value, double step, const char *letters, const char *gap, char *to)
{
    size_t power = 0;
    while (letters[power] && value >= 999.5) {
        value /= step;
        power++;
    }
    int decimals = power > 0 && value < 99.95 ? 1 : 0;
    const char *letter = power > 0 ? letters + power - 1 : "";
    snprintf(to, NUMBER_TEXT, "%.*f%s%.1s", decimals, value, power > 0 ? gap : "", letter);
    return to;
}

/* True for a small number that would print with ".0". */
static bool is_nearly_whole(double number)
{
    double off = number - (int)(number + 0.5);
    return off > -0.05 && off < 0.05;
}

const char *count_text(double count, char to[NUMBER_TEXT])
{
    if (!(count >= 0))
        snprintf(to, NUMBER_TEXT, "-");
    else if (count < 9.95 && !is_nearly_whole(count))
        snprintf(to, NUMBER_TEXT, "%.1f", count);
    else
        scaled(count, 1000, "kMGTPE", "", to);
    return to;
}

const char *size_text(double bytes, char to[NUMBER_TEXT])
{
    if (!(bytes >= 0))
        snprintf(to, NUMBER_TEXT, "-");
    else if (bytes < 999.5)
        snprintf(to, NUMBER_TEXT, "%.0f B", bytes);
    else
        scaled(bytes, 1024, "KMGTPE", " ", to);
    return to;
}

/* --- Forms ----------------------------------------------------------------------------------- */

#define FORM_WORD_MAX 96

/* Copies what a form has up to `end`. Returns what follows. */
static const char *take_word(const char *form, char end, char word_r[FORM_WORD_MAX])
{
    size_t len = (size_t)(strchrnul(form, end) - form);
    snprintf(word_r, FORM_WORD_MAX, "%.*s", (int)len, form);
    return form + len + (form[len] == end);
}

static bool holds(char *condition, const json_t *row)
{
    bool is_not = condition[0] == '!', is_true;
    char *path = condition + is_not, *word = strchr(path, '=');
    if (word)
        *word++ = '\0';
    const json_t *value = json_at(row, path[0] == '+' ? path + 1 : path);
    if (word)
        is_true = strcmp(json_text_at(row, path, ""), word) == 0;
    else if (path[0] == '+')
        is_true = json_number_value(value) > 0;
    else
        is_true = json_is_true(value) || json_is_number(value) || json_string_length(value) > 0 ||
                  json_object_size(value) > 0;
    return is_true != is_not;
}

/* Adds a text, a whole number or the size of an array. `word` is for none; NULL: "-". */
static void add_plain(struct text *to, const json_t *value, const char *word)
{
    const char *text = json_string_value(value);
    if (json_is_array(value))
        text_addf(to, "%zu", json_array_size(value));
    else if (json_is_integer(value) && json_integer_value(value) >= 0)
        text_addf(to, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value) && json_real_value(value) >= 0)
        text_addf(to, "%.0f", json_real_value(value));
    else
        text_add_shown(to, text && (*text || !word) ? text : word ? word : "-");
}

static void add_pairs(struct text *to, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) text_addf(to, " %s=%s", key, json_string_value(value));
}

/* The sum of the numbers that the elements of an array have. `path`: that of the array, a space,
   and that of the numbers. */
static double sum_at(const json_t *row, char *path)
{
    char *of = strchrnul(path, ' ');
    double sum = 0;
    const json_t *element;
    size_t i;
    if (*of)
        *of++ = '\0';
    json_array_foreach(json_at(row, path), i, element) sum += json_number_at(element, of, 0);
    return sum;
}

static void add_value(struct text *to, char *spec, const json_t *row)
{
    char kind = '\0', number_text[NUMBER_TEXT], *path = spec;
    if (spec[0] && spec[1] == ' ') {
        kind = spec[0];
        path += 2;
    }
    char *word = strchr(path, '|');
    if (word)
        *word++ = '\0';
    double number = kind == '+' ? sum_at(row, path) : json_number_at(row, path, -1);
    if (kind == 'p')
        add_pairs(to, json_at(row, path));
    else if (kind == 's')
        text_addf(to, "%s", seconds_text(number, number_text));
    else if (kind == 'b')
        text_addf(to, "%s", size_text(number, number_text));
    else if (number >= 0 && (kind == '2' || (kind == 'r' && number < 9.995)))
        text_addf(to, "%.2f", number);
    else if (kind)
        text_addf(to, "%s", count_text(number, number_text));
    else
        add_plain(to, json_at(row, path), word);
}

void text_add_form(struct text *to, const char *form, const json_t *row)
{
    unsigned depth = 0, skipped = 0; /* skipped: the depth of a part that is left out; 0: none */
    char word[FORM_WORD_MAX];
    while (*form) {
        size_t len = strcspn(form, "{[]");
        text_add(to, form, skipped ? 0 : len);
        form += len;
        if (*form == '{') {
            form = take_word(form + 1, '}', word);
            if (!skipped)
                add_value(to, word, row);
        } else if (*form == '[') {
            form = take_word(form + 1, '?', word);
            depth++;
            if (!skipped && !holds(word, row))
                skipped = depth;
        } else if (*form == ']') {
            form++;
            if (skipped == depth--)
                skipped = 0;
        }
    }
}

void print_form(const char *form, const json_t *row)
{
    struct text line = {0};
    text_add_form(&line, form, row);
    puts(text_str(&line));
    text_free(&line);
}

/* --- Tables ---------------------------------------------------------------------------------- */

static void add_row(struct table *table, const json_t *row)
{
    for (const struct column *column = table->columns; column->head; column++) {
        text_add_form(&table->cells, column->form, row);
        text_add(&table->cells, "", 1);
    }
    table->rows++;
    if (table->cells.len <= TABLE_BYTES_MAX)
        return;
    complain("the table has more than %zu MiB; use --json, which needs no memory for it",
             TABLE_BYTES_MAX >> 20);
    exit(STATUS_INTERNAL); /* NOLINT(concurrency-mt-unsafe): one thread */
}

void table_take(struct table *table, json_t *row, bool is_json)
{
    if (is_json) {
        json_line(row);
        return;
    }
    add_row(table, row);
    json_decref(row);
}

/* The number of characters in a text. */
static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_cell(const char *cell, char align, size_t width, bool is_last)
{
    size_t len = characters(cell);
    int pad = len < width ? (int)(width - len) : 0;
    if (align == 'r')
        printf("%*s%s", pad, "", cell);
    else
        printf("%s%*s", cell, is_last ? 0 : pad, "");
    fputs(is_last ? "\n" : "  ", stdout);
}

void table_print(const struct table *table, const char *indent)
{
    const struct column *columns = table->columns;
    size_t widths[COLUMNS_MAX], count = 0;
    for (; columns[count].head; count++) {
        CHECK(count < COLUMNS_MAX);
        widths[count] = characters(columns[count].head);
    }
    const char *cell = text_str(&table->cells);
    for (size_t i = 0; i < table->rows * count; i++, cell += strlen(cell) + 1) {
        size_t len = characters(cell);
        if (len > widths[i % count])
            widths[i % count] = len;
    }
    cell = text_str(&table->cells);
    for (size_t row = 0; table->rows > 0 && row <= table->rows; row++) {
        fputs(indent, stdout);
        for (size_t i = 0; i < count; i++) {
            print_cell(row == 0 ? columns[i].head : cell, columns[i].align, widths[i],
                       i + 1 == count);
            cell += row == 0 ? 0 : strlen(cell) + 1;
        }
    }
}

void table_free(struct table *table)
{
    text_free(&table->cells);
    table->rows = 0;
}

void print_array(const struct column *columns, const json_t *rows, const char *indent)
{
    struct table table = {.columns = columns};
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) add_row(&table, row);
    table_print(&table, indent);
    table_free(&table);
}

/* --- JSON ------------------------------------------------------------------------------------ */

void json_line(json_t *value)
{
    char *line = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!line)
        out_of_memory();
    size_t len = strlen(line);
    line = utf8_spell_json(line, &len);
    if (!line)
        out_of_memory();
    fwrite(line, 1, len, stdout);
    putchar('\n');
    free(line);
    json_decref(value);
}

json_t *json_make_of(const struct json_pair *pairs)
{
    json_t *object = json_object();
    for (; pairs->key; pairs++)
        if (pairs->value)
            json_object_set_new(object, pairs->key, pairs->value);
    return object;
}

json_t *json_count(uint64_t number)
{
    char digits[24];
    if (number <= INT64_MAX)
        return json_integer((json_int_t)number);
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    return json_string(digits);
}

/* Takes over the text. */
static json_t *json_of(struct text *text)
{
    json_t *value = json_string(text_str(text));
    text_free(text);
    return value;
}

json_t *json_name(struct bytes name)
{
    struct text text = {0};
    text_add_name(&text, name);
    return json_of(&text);
}

json_t *json_id(struct bytes name)
{
    struct text text = {0};
    text_add_percent(&text, name);
    return json_of(&text);
}

json_t *json_at(const json_t *object, const char *path)
{
    char key[64];
    const char *dot;
    while ((dot = strchr(path, '.'))) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        object = json_object_get(object, key);
        path = dot + 1;
    }
    return json_object_get(object, path);
}

double json_number_at(const json_t *object, const char *path, double none)
{
    const json_t *value = json_at(object, path);
    return json_is_number(value) ? json_number_value(value) : none;
}

const char *json_text_at(const json_t *object, const char *path, const char *none)
{
    const char *value = json_string_value(json_at(object, path));
    return value ? value : none;
}

bool json_is_true_at(const json_t *object, const char *path)
{
    return json_is_true(json_at(object, path));
}

/* --- Progress -------------------------------------------------------------------------------- */

#define EVERY_NS (NS_PER_S / 10)

void progress_show(struct progress *progress, const char *format, ...)
{
    va_list values;
    int64_t now = clock_mono_ns();
    if (!progress->is_known) {
        progress->is_known = true;
        progress->is_wanted =
            isatty(STDERR_FILENO) && (progress->is_silent || !isatty(STDOUT_FILENO));
        progress->next_ns = now + EVERY_NS; /* short works need none */
    }
    if (!progress->is_wanted || now < progress->next_ns)
        return;
    progress->next_ns = now + EVERY_NS;
    progress->is_shown = true;
    fputc('\r', stderr);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputs("\x1b[K", stderr);
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown)
        fputs("\r\x1b[K", stderr);
    progress->is_shown = false;
}
