/*
 * config_file.c - see config_file.h.
 *
 * A line goes through read_line (bytes), take_line (comment, key, value) and take_value (row,
 * duplicate, value). A mistake is reported with its line number; reading continues.
 */
#include "daemon/config_file.h"

#include "base/file.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* One file being read. */
struct reading {
    struct settings *settings;
    const char *path;
    FILE *from;
    FILE *err;
    size_t bytes;
    unsigned line;
    unsigned errors;
};

/* Prints a mistake in the current line. */
static void complain(struct reading *file, const char *format, ...) PRINTF_LIKE(2, 3);
static void complain(struct reading *file, const char *format, ...)
{
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    options_complain(file->err, "%s:%u: %s", file->path, file->line, text);
    file->errors++;
}

/* --- Keys ------------------------------------------------------------------------------------ */

/* Adds a key to ignored_keys, unless it is there. */
static void ignore_key(struct settings_protocol *p, const char *key)
{
    char *to = p->ignored_keys;
    size_t len = strlen(key);
    for (char *at = to; (at = strstr(at, key)); at += len)
        if ((at == to || at[-1] == ' ') && (at[len] == ',' || at[len] == '\0'))
            return;
    size_t used = strlen(to), room = sizeof p->ignored_keys - used;
    int added = snprintf(to + used, room, "%s%s", used ? ", " : "", key);
    CHECK(added > 0 && (size_t)added < room);
}

/* True when `key` belongs to another program; adds it to ignored_keys. */
static bool is_foreign(struct reading *file, const char *key)
{
    const struct option_protocol *protocol;
    for (size_t i = 0; (protocol = options_protocol_at(i)); i++) {
        const char *const *keys = protocol->foreign_keys;
        for (; keys && *keys; keys++) {
            if (strcmp(key, *keys) == 0) {
                ignore_key(settings_protocol(file->settings, i), key);
                return true;
            }
        }
    }
    return false;
}

/* Marks `row` as set on this line. Returns false, and prints the other line, if it was set before.
 */
static bool note_key(struct reading *file, const struct option_row *row, const char *key)
{
    bool by_alias = strcmp(key, row->key) != 0;
    struct options_mark *mark = options_mark(file->settings, row);
    if (mark->line == 0) {
        mark->line = file->line;
        mark->by_alias = by_alias;
        return true;
    }
    if (mark->by_alias == by_alias)
        complain(file, "%s: set on line %u already", key, mark->line);
    else
        complain(file, "%s: set on line %u already, as %s, which is the same", key, mark->line,
                 by_alias ? row->key : row->alias);
    return false;
}

/* Clears the marks of an earlier file. */
static void forget_keys(struct settings *settings)
{
    const struct option_row *row;
    for (size_t i = 0; options_protocol_at(i); i++)
        settings_protocol(settings, i)->ignored_keys[0] = '\0';
    for (size_t i = 0; (row = options_in(settings, i)); i++)
        options_mark(settings, row)->line = 0;
}

/* --- Lines ----------------------------------------------------------------------------------- */

/* Sets `key` to the value in `text`, the rest of the line after the =. */
static void take_value(struct reading *file, const char *key, char *text)
{
    char reason[OPTIONS_REASON_SIZE];
    const char *why;
    if (is_foreign(file, key))
        return;
    const struct option_row *row = options_to_set(file->settings, key, reason);
    if (!row) {
        complain(file, "%s", reason);
        return;
    }
    if (!note_key(file, row, key))
        return;
    const char *value = options_unquote(text, true, &why);
    if (!value)
        complain(file, "%s: %s", key, why);
    else if (!options_assign(file->settings, row, value, reason))
        complain(file, "%s: %s", key, reason);
}

/* Parses one line, without its end. */
static void take_line(struct reading *file, char *line)
{
    char *key = line + strspn(line, " \t");
    if (*key == '\0' || *key == '#')
        return;
    char *equals = key + strcspn(key, "=#");
    if (*equals != '=' || equals == key) {
        complain(file, "neither \"key = value\" nor a comment");
        return;
    }
    char *end = equals;
    while (end[-1] == ' ' || end[-1] == '\t')
        end--;
    *end = '\0';
    take_value(file, key, equals + 1);
}

/* The longest line, a CR, one byte to detect longer lines, and the NUL. */
#define LINE_SIZE (CONFIG_FILE_LINE_MAX + 3)

enum line_status { LINE_GOOD, LINE_TOO_LONG, LINE_HAS_NUL, LINE_NONE };

/*
 * Reads the next line into `line` (LINE_SIZE bytes) without its end. Skips the rest of a bad line.
 * Stops after CONFIG_FILE_BYTES_MAX bytes of the file.
 */
static enum line_status read_line(struct reading *file, char *line)
{
    size_t len = 0;
    bool has_nul = false;
    int c;
    while ((c = getc(file->from)) != EOF && ++file->bytes <= CONFIG_FILE_BYTES_MAX && c != '\n') {
        if (c == '\0')
            has_nul = true;
        if (len < LINE_SIZE - 1)
            line[len++] = (char)c;
    }
    if (c == EOF && len == 0)
        return LINE_NONE;
    if (len > 0 && line[len - 1] == '\r')
        len--;
    line[len] = '\0';
    return has_nul ? LINE_HAS_NUL : len > CONFIG_FILE_LINE_MAX ? LINE_TOO_LONG : LINE_GOOD;
}

/* Skips the UTF-8 byte order mark that some editors write. */
static char *skip_mark(char *line)
{
    static const char mark[] = "\xef\xbb\xbf";
    return strncmp(line, mark, strlen(mark)) == 0 ? line + strlen(mark) : line;
}

/* Parses all lines, up to CONFIG_FILE_ERRORS_MAX mistakes. `line`: a buffer of LINE_SIZE bytes. */
static void take_lines(struct reading *file, char *line)
{
    enum line_status status;
    while ((status = read_line(file, line)) != LINE_NONE) {
        file->line++;
        if (file->bytes > CONFIG_FILE_BYTES_MAX) {
            complain(file, "the file is larger than %d bytes", CONFIG_FILE_BYTES_MAX);
            return;
        }
        if (status == LINE_TOO_LONG)
            complain(file, "the line is longer than %d bytes", CONFIG_FILE_LINE_MAX);
        else if (status == LINE_HAS_NUL)
            complain(file, "the line holds a NUL byte");
        else
            take_line(file, file->line == 1 ? skip_mark(line) : line);
        if (file->errors >= CONFIG_FILE_ERRORS_MAX) {
            options_complain(file->err, "%s: too many mistakes; the rest was not read", file->path);
            return;
        }
    }
    if (ferror(file->from)) {
        options_complain(file->err, "%s: cannot be read: %s", file->path, strerrordesc_np(errno));
        file->errors++;
    }
}

/* --- The file -------------------------------------------------------------------------------- */

enum config_file_status config_file_load(struct settings *settings, const char *path, FILE *err)
{
    struct reading file = {.settings = settings, .path = path, .err = err};
    char line[LINE_SIZE], buffer[4096]; /* may hold a token: wiped below */
    int fd = file_open_regular(path);
    file.from = fd < 0 ? NULL : fdopen(fd, "r");
    if (!file.from) {
        if (errno == ENOENT)
            return CONFIG_FILE_MISSING;
        options_complain(err, "%s: cannot be read: %s", path, file_open_reason(errno));
        if (fd >= 0)
            close(fd);
        return CONFIG_FILE_BAD;
    }
    forget_keys(settings);
    CHECK(setvbuf(file.from, buffer, _IOFBF, sizeof buffer) == 0);
    take_lines(&file, line);
    fclose(file.from);
    explicit_bzero(buffer, sizeof buffer);
    explicit_bzero(line, sizeof line);
    return file.errors ? CONFIG_FILE_BAD : CONFIG_FILE_READ;
}
