/*
 * options.c - tests the command line and the configuration file.
 *
 * An input is a byte of flags, the number of arguments, the arguments (each ends with a line feed),
 * and the contents of the file. Promises: complaints are printable lines, and there are none if all
 * is well; accepted settings stay the same when they are parsed again, when they are copied, and
 * when each is written as text and parsed. Tokens are an exception to the last one, because only a
 * digest is kept.
 */
#include "daemon/options.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARGUMENTS_MAX 8

/* Bits of the first byte. */
#define NO_FILE    1 /* no -f, except in the arguments */
#define FILE_LAST  2 /* -f comes after the other arguments */
#define ALONE      4 /* no arguments in the input: the rest is the file */
#define WITH_CHECK 8 /* -t */

/* The file, with a path that is valid while the process runs. */
static int file_fd = -1;
static char file_path[64];

static void write_file(const uint8_t *data, size_t len)
{
    if (file_fd < 0) {
        file_fd = memfd_create("options", MFD_CLOEXEC);
        CHECK(file_fd >= 0);
        snprintf(file_path, sizeof(file_path), "/proc/self/fd/%d", file_fd);
    }
    CHECK(ftruncate(file_fd, 0) == 0);
    CHECK(len == 0 || pwrite(file_fd, data, len, 0) == (ssize_t)len);
}

/*
 * The arguments. Each string has its own allocation, so that a sanitizer notices reads past its
 * end.
 */
struct arguments {
    int count;
    char *at[ARGUMENTS_MAX + 6];
};

static void add(struct arguments *args, const void *text, size_t len)
{
    char *copy = malloc(len + 1);
    CHECK(copy && (size_t)args->count + 1 < ARRAY_SIZE(args->at));
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    args->at[args->count++] = copy;
    args->at[args->count] = NULL;
}

static void add_text(struct arguments *args, const char *text)
{
    add(args, text, strlen(text));
}

static void add_next(struct arguments *args, struct input *in)
{
    const uint8_t *end = in->left > 0 ? memchr(in->at, '\n', in->left) : NULL;
    size_t len;
    const uint8_t *text = input_bytes(in, end ? (size_t)(end - in->at) : in->left, &len);
    add(args, text, len);
    (void)input_byte(in);
}

static void read_arguments(struct arguments *args, struct input *in)
{
    uint8_t how = input_byte(in);
    unsigned count = how & ALONE ? 0 : input_byte(in) % (ARGUMENTS_MAX + 1);
    add_text(args, "counterd");
    if (!(how & (NO_FILE | FILE_LAST))) {
        add_text(args, "-f");
        add_text(args, file_path);
    }
    if (how & WITH_CHECK)
        add_text(args, "-t");
    while (count-- > 0)
        add_next(args, in);
    if (how & FILE_LAST) {
        add_text(args, "-f");
        add_text(args, file_path);
    }
}

/* Checks complaints: printable lines that begin with the program's name. */
static void check_complaints(const char *text, size_t len, bool failed)
{
    static const char name[] = "counterd: ";
    CHECK(failed == (len > 0));
    for (const char *at = text, *end; at < text + len; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + len - at));
        CHECK(end && strncmp(at, name, sizeof(name) - 1) == 0);
        for (const char *c = at; c < end; c++)
            CHECK(*c >= 0x20 && *c < 0x7f);
    }
}

/* Checks that settings survive copying, and writing and parsing. */
static void check_settings(const struct settings *settings)
{
    struct settings copy, read;
    CHECK(settings_init(&copy));
    CHECK(settings_init(&read));
    const struct option_row *row;
    for (size_t i = 0; (row = options_in(settings, i)) != NULL; i++) {
        char reason[OPTIONS_REASON_SIZE];
        size_t len = options_to_text(settings, row, NULL, 0);
        char *text = malloc(len + 1);
        CHECK(text && options_to_text(settings, row, text, len + 1) == len && strlen(text) == len);
        CHECK(options_assign(&read, options_to_set(&read, row->key, reason), text, reason));
        CHECK(row->digest || options_equal(&read, settings, row));
        CHECK(options_copy(&copy, settings, row) && options_equal(&copy, settings, row));
        free(text);
    }
    settings_free(&copy);
    settings_free(&read);
}

/* Parses a command line. The caller frees *said_r, the complaints. */
static struct options_request take(const struct arguments *args, struct settings *settings,
                                   char **said_r)
{
    size_t len = 0;
    FILE *err = open_memstream(said_r, &len);
    CHECK(err);
    CHECK(settings_init(settings));
    char *given[ARRAY_SIZE(args->at)];
    memcpy(given, args->at, sizeof(given)); /* the parser may change the order */
    struct options_request request = options_command_line(args->count, given, false, settings, err);
    CHECK(fclose(err) == 0);
    bool failed = request.action == OPTIONS_ERROR;
    check_complaints(*said_r, len, failed);
    CHECK(!failed || request.exit_status == 1 || request.exit_status == 2);
    return request;
}

/* Checks that an accepted command line is accepted again and gives the same settings. */
static void check_again(const struct arguments *args, const struct settings *settings)
{
    struct settings again;
    char *said;
    struct options_request request = take(args, &again, &said);
    CHECK(request.action == OPTIONS_RUN || request.action == OPTIONS_CHECK);
    const struct option_row *row;
    for (size_t i = 0; (row = options_in(settings, i)) != NULL; i++)
        CHECK(options_equal(settings, &again, row));
    settings_free(&again);
    free(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.at = data, .left = size};
    struct arguments args = {0};
    struct settings settings;
    char *said;
    if (file_fd < 0)
        write_file(NULL, 0);
    read_arguments(&args, &in);
    write_file(in.at, in.left);
    struct options_request request = take(&args, &settings, &said);
    if (request.action == OPTIONS_RUN || request.action == OPTIONS_CHECK) {
        check_again(&args, &settings);
        check_settings(&settings);
    }
    char text[1024];
    for (size_t i = 0; options_protocol_at(i); i++)
        (void)options_ignored_text(&settings, i, text, sizeof(text));
    settings_free(&settings);
    free(said);
    for (int i = 0; i < args.count; i++)
        free(args.at[i]);
    return 0;
}
