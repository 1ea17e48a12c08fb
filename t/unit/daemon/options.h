/*
 * options.h - common code for tests of options: settings, a file, and messages.
 *
 * make_frame makes a directory for the test's files. Messages for standard error go to a string,
 * without the directory's name.
 */
#ifndef UNIT_DAEMON_OPTIONS_H
#define UNIT_DAEMON_OPTIONS_H

#include "daemon/config_file.h"
#include "daemon/options.h"
#include "service/poolcounter.h"
#include "service/table_resource.h"
#include "t/unit/unit.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* The protocols, by their place in the registry. */
enum { TEXT, BINARY, JOBS };

/* The settings that belong to the text protocol; the next ones belong to the table. */
static inline const struct poolcounter_settings *text_of(const struct settings *settings)
{
    return settings_own(settings, poolcounter_options.own);
}

static inline const struct table_settings *table_of(const struct settings *settings)
{
    return settings_own(settings, &table_options);
}

/* The state of a test; made by make_frame, freed by free_frame. */
struct frame {
    char dir[64];
    char path[96]; /* DIR/c.conf */
    struct settings settings;
    FILE *err;
    char *said; /* the messages, without "DIR/"; see said() */
    size_t said_size;
};

static inline struct frame make_frame(void)
{
    struct frame frame = {.dir = "/tmp/options_test.XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(frame.dir));
    snprintf(frame.path, sizeof frame.path, "%s/c.conf", frame.dir);
    ck_assert(settings_init(&frame.settings));
    return frame;
}

static inline void free_frame(struct frame *frame)
{
    unlink(frame->path);
    ck_assert_int_eq(rmdir(frame->dir), 0);
    settings_free(&frame->settings);
    free(frame->said);
}

/* Opens the stream for messages. */
static inline FILE *listen_for_errors(struct frame *frame)
{
    free(frame->said);
    frame->said = NULL;
    frame->err = open_memstream(&frame->said, &frame->said_size);
    ck_assert_ptr_nonnull(frame->err);
    return frame->err;
}

/* Closes the stream and returns its messages, without "DIR/". */
static inline const char *said(struct frame *frame)
{
    fclose(frame->err);
    size_t len = strlen(frame->dir) + 1;
    for (char *at = frame->said; (at = strstr(at, frame->dir));)
        memmove(at, at + len, strlen(at + len) + 1);
    return frame->said;
}

static inline void write_bytes(struct frame *frame, const char *bytes, size_t len)
{
    FILE *to = fopen(frame->path, "w");
    ck_assert_ptr_nonnull(to);
    ck_assert_uint_eq(fwrite(bytes, 1, len, to), len);
    ck_assert_int_eq(fclose(to), 0);
}

static inline void write_text(struct frame *frame, const char *text)
{
    write_bytes(frame, text, strlen(text));
}

/* Loads a file with this content into new settings. */
static inline enum config_file_status load_bytes(struct frame *frame, const char *bytes, size_t len)
{
    settings_free(&frame->settings);
    ck_assert(settings_init(&frame->settings));
    write_bytes(frame, bytes, len);
    return config_file_load(&frame->settings, frame->path, listen_for_errors(frame));
}

static inline enum config_file_status load(struct frame *frame, const char *text)
{
    return load_bytes(frame, text, strlen(text));
}

static inline void assert_loads(struct frame *frame, const char *text)
{
    enum config_file_status status = load(frame, text);
    ck_assert_str_eq(said(frame), "");
    ck_assert_int_eq(status, CONFIG_FILE_READ);
}

static inline void assert_complains(struct frame *frame, const char *text, const char *message)
{
    enum config_file_status status = load(frame, text);
    ck_assert_str_eq(said(frame), message);
    ck_assert_int_eq(status, CONFIG_FILE_BAD);
}

static inline const struct option_row *row_of(const char *key)
{
    const struct option_row *row = options_find(key);
    ck_assert_msg(row, "no option %s", key);
    return row;
}

/* The row of a key that may be set; the key of a family adds its name. */
static inline const struct option_row *row_to_set(struct settings *settings, const char *key)
{
    char reason[OPTIONS_REASON_SIZE];
    const struct option_row *row = options_to_set(settings, key, reason);
    ck_assert_msg(row, "%s", reason);
    return row;
}

static inline bool assigns(struct settings *settings, const char *key, const char *text)
{
    char reason[OPTIONS_REASON_SIZE] = "";
    bool good = options_assign(settings, row_to_set(settings, key), text, reason);
    ck_assert(good == (*reason == '\0'));
    return good;
}

static inline void assert_value(const struct settings *settings, const char *key, const char *text)
{
    char value[4200];
    size_t len = options_to_text(settings, row_of(key), value, sizeof value);
    ck_assert_str_eq(value, text);
    ck_assert_uint_eq(len, strlen(text));
}

static inline void assert_reason(const char *key, const char *text, const char *expected)
{
    struct settings settings;
    char reason[OPTIONS_REASON_SIZE];
    ck_assert(settings_init(&settings));
    ck_assert(!options_assign(&settings, row_to_set(&settings, key), text, reason));
    ck_assert_str_eq(reason, expected);
    settings_free(&settings);
}

static inline bool is_number(const struct option_row *row)
{
    return row->type == OPTION_PORT || row->type == OPTION_NUMBER || row->type == OPTION_SIZE ||
           row->type == OPTION_SECONDS;
}

/* Adds to the text in a buffer of `size` bytes. */
static inline void append(char *text, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
static inline void append(char *text, size_t size, const char *format, ...)
{
    size_t len = strlen(text);
    va_list values;
    va_start(values, format);
    vsnprintf(text + len, size - len, format, values);
    va_end(values);
}

#endif
