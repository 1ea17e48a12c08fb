/*
 * run.c - makes the checks of files of vectors (README.md), and of what becomes of these at random.
 *
 *     run [--seeds FOLDER] [FILE.vec...]     default: all; --seeds: writes inputs of the fuzzer
 *
 * Each file is a list of tests, each test a line of TAP.
 */
#include "t/vectors/vectors.h"

#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What a line says; set by the lines before it. */
static struct state {
    const char *file, *title, *vector; /* the vector: for messages */
    unsigned line, tests, failed, told;
    bool failing;
    const struct codec *codec;
    size_t max_line;
    const char *end;
    struct let {
        char *name, *values;
    } lets[64];
    size_t let_count;
    const char *seeds;
} now;

/* Of each codec: how many vectors it has, and the most bytes of each kind that was composed. */
static struct monitor {
    unsigned vectors;
    size_t longest[64];
} all_seen[CODECS_MAX];

static size_t codec_number(const struct codec *codec)
{
    size_t i = 0;
    while (codecs[i] != codec)
        i++;
    return i;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (now.told++ < 20) {
        printf("# %s:%u: ", now.file, now.line);
        vprintf(format, args); // NOLINT(clang-analyzer-valist.Uninitialized): it is
        printf("\n#     %s\n", now.vector ? now.vector : "");
    }
    va_end(args);
    fflush(stdout); // what fails may end the process, too
    now.failing = true;
}

static void end_test(void)
{
    if (now.title)
        printf("%s %u - %s: %s\n", now.failing ? "not ok" : "ok", ++now.tests, now.file, now.title);
    now.failed += now.failing;
    now.failing = false;
}

static void begin_test(const char *title)
{
    end_test();
    now.title = title;
}

/* Names the vector at hand when a sanitizer ends the process. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));
static void tell_vector(void)
{
    fail("the process ends here");
    fflush(stdout);
}

/* ---- Vectors --------------------------------------------------------------------------------- */

/* Writes an input of fuzz/codecs.c: the codec, what comes, and this; a few for each vector. */
static void write_seed(const struct codec *codec, int what, const char *data, size_t len)
{
    static unsigned line, count;
    char path[4096];
    count = line == now.line ? count + 1 : 0;
    line = now.line;
    snprintf(path, sizeof(path), "%s/%s-%u-%u", now.seeds, now.file, line, count);
    FILE *to = count < 6 && len < 4000 ? fopen(path, "wb") : NULL;
    if (!to)
        return;
    fputc((int)codec_number(codec), to);
    fputc(what, to);
    fwrite(data, 1, len, to);
    fclose(to);
}

/* Writes a text of results as the checks write it: with all parts in order, and without zeros. */
static void normalise(const struct codec *codec, const char *text, struct text *to)
{
    static struct message message;
    for (const char *part = text, *end; *part; part = *end ? end + 2 : end) {
        end = strstr(part, "; ");
        end = end ? end : part + strlen(part);
        size_t len = (size_t)(end - part), word = strcspn(part, " ;");
        text_add(to, "%s", to->len > 0 ? "; " : "");
        if (!message_read(codec, part, len, &message)) {
            text_add(to, "%.*s", (int)word, part);
            if (!codec->errors_have_parts || word >= len ||
                !message_read(codec, part + word + 1, len - word - 1, &message)) {
                text_add(to, "%.*s", (int)(len - word), part + word);
                continue;
            }
            text_add(to, " ");
        }
        message_tell(codec, &message, to);
        free(message.memory);
    }
}

/* Composes what `text` says; it must give these bytes. */
static void check_message(const struct codec *codec, const char *text, struct bytes wanted,
                          bool again)
{
    static struct message message;
    struct monitor *seen = &all_seen[codec_number(codec)];
    struct text told = {0};
    if (!message_read(codec, text, strlen(text), &message)) {
        fail("no message: %s", text);
        return;
    }
    if (now.seeds)
        write_seed(codec, 128, text, strlen(text));
    struct bytes bytes = check_composed(codec, &message, again, true);
    text_add_bytes(&told, bytes);
    if (!bytes_equal(bytes, wanted))
        fail("composed: %s", told.data);
    if (message.kind < COUNT_OF(seen->longest) && bytes.len > seen->longest[message.kind])
        seen->longest[message.kind] = bytes.len;
    text_clear(&told);
    free(message.memory);
}

static void check_vector(const char *line, const char *arrow, const char *result)
{
    const struct codec *codec = now.codec;
    struct text text = {0};
    all_seen[codec_number(codec)].vectors++;
    text_add(&text, "%s%s", line, *line || strcmp(arrow, "<=") != 0 ? now.end : "");
    uint8_t *data = (uint8_t *)text.data;
    size_t len = text_to_bytes(text.data, text.len, data);
    struct bytes stream = bytes_at(data, len);
    if (strcmp(arrow, "<=") != 0) {
        struct text said = {0}, wanted = {0};
        normalise(codec, result, &wanted);
        check_stream(codec, now.max_line, stream, 0, strcmp(arrow, "->") != 0, &said);
        if (strcmp(said.data ? said.data : "", wanted.data ? wanted.data : "") != 0)
            fail("parsed: %s", said.data ? said.data : "");
        if (now.seeds)
            write_seed(codec, 0, (const char *)data, len);
        text_clear(&said);
        text_clear(&wanted);
    }
    if (arrow[0] == '<')
        check_message(codec, result, stream, arrow[1] == '=' && arrow[2] == '>');
    text_clear(&text);
}

/* Expands {TEXT*N} into N times the text, with "#" in it for a0, a1, ... one letter or digit. */
static void expand_repeats(const char *text, const char *end, struct text *to, int number)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    while (text < end) {
        const char *star = NULL, *at = text + 1;
        int depth = *text == '{';
        for (; depth > 0 && at < end; at++) {
            depth += (*at == '{') - (*at == '}');
            star = *at == '*' && depth == 1 ? at : star;
        }
        char *after = NULL;
        unsigned long count = star ? strtoul(star + 1, &after, 10) : 0;
        if (star && depth == 0 && after == at - 1 && after > star + 1) {
            for (unsigned long i = 0; i < count; i++)
                expand_repeats(text + 1, star, to, (int)(i % 36));
            text = at;
        } else if (*text == '#' && number >= 0) {
            text_put(to, &digits[number], 1);
            text++;
        } else {
            size_t plain = 1;
            while (text + plain < end && text[plain] != '{' && text[plain] != '#')
                plain++;
            text_put(to, text, plain);
            text += plain;
        }
    }
}

static void check_repeated(const char *line, const char *arrow, const char *result)
{
    struct text left = {0}, right = {0}, both = {0};
    expand_repeats(line, line + strlen(line), &left, -1);
    expand_repeats(result, result + strlen(result), &right, -1);
    text_add(&both, "%.300s %s %.300s", left.data ? left.data : "", arrow,
             right.data ? right.data : "");
    now.vector = both.data;
    check_vector(left.data ? left.data : "", arrow, right.data ? right.data : "");
    now.vector = NULL;
    text_clear(&left);
    text_clear(&right);
    text_clear(&both);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Returns the name after a "$" that stands for several values, if one begins here. */
static const struct let *let_at(const char *text)
{
    for (size_t i = now.let_count; *text == '$' && i-- > 0;) {
        size_t len = strlen(now.lets[i].name);
        if (strncmp(text + 1, now.lets[i].name, len) == 0)
            return &now.lets[i];
    }
    return NULL;
}

static char *replaced(const char *text, const struct let *let, const char *value, size_t value_len)
{
    struct text to = {0};
    text_put(&to, "", 0);
    for (; *text; text++) {
        if (let_at(text) == let) {
            text_put(&to, value, value_len);
            text += strlen(let->name);
        } else {
            text_put(&to, text, 1);
        }
    }
    return to.data;
}

/* Checks the vector with each value of each name in it; the same value on both sides. */
static void check_each(const char *line, const char *arrow, const char *result)
{
    const struct let *let = NULL;
    for (const char *at = line; *at && !let; at++)
        let = let_at(at);
    for (const char *at = result; *at && !let; at++)
        let = let_at(at);
    if (!let) {
        check_repeated(line, arrow, result);
        return;
    }
    for (const char *value = let->values;;) {
        size_t len = strcspn(value, "|");
        unsigned first, last;
        int whole = 0, hex = 0;
        char part[64];
        snprintf(part, sizeof(part), "%.*s", (int)len, value);
        (void)(sscanf(part, "%u..%u%n", &first, &last, &whole) == 2 ||
               sscanf(part, "\\x%x..\\x%x%n", &first, &last, &hex) == 2);
        bool is_range = (whole > 0 && (size_t)whole == len) || (hex > 0 && (size_t)hex == len);
        for (unsigned i = is_range ? first : 0; i <= (is_range ? last : 0); i++) {
            if (is_range)
                snprintf(part, sizeof(part), hex ? "\\x%02x" : "%u", i);
            char *left =
                replaced(line, let, is_range ? part : value, is_range ? strlen(part) : len);
            char *right =
                replaced(result, let, is_range ? part : value, is_range ? strlen(part) : len);
            check_each(left, arrow, right);
            free(left);
            free(right);
        }
        if (!value[len])
            break;
        value += len + 1;
    }
}

static void end_codec(void)
{
    const struct codec *codec = now.codec;
    const size_t *longest = codec ? all_seen[codec_number(codec)].longest : NULL;
    for (size_t i = 0; codec && codec->rooms_are_tight && i < codec->kind_count; i++) {
        if (codec->rooms[i] > 0 && longest[i] != codec->rooms[i])
            fail("the longest %s has %zu bytes, and a room of %zu", codec->kinds[i], longest[i],
                 codec->rooms[i]);
    }
}

/* Takes a line of a file. */
static void take(char *line)
{
    static const char *const arrows[] = {" <=> ", " => ", " -> ", " <= "};
    char *rest = strchr(line, ' ');
    rest = rest ? rest + 1 : line + strlen(line);
    if (*line == '#' || !*line)
        return;
    if (strncmp(line, "test ", 5) == 0) {
        begin_test(rest);
    } else if (strncmp(line, "codec ", 6) == 0) {
        end_codec();
        now.max_line = 100000;
        now.end = "";
        now.codec = NULL;
        for (size_t i = 0; codecs[i]; i++)
            now.codec = strcmp(codecs[i]->name, rest) == 0 ? codecs[i] : now.codec;
        if (!now.codec)
            fail("no codec: %s", rest);
    } else if (strncmp(line, "end", 3) == 0 && (line[3] == ' ' || !line[3])) {
        now.end = rest;
    } else if (strncmp(line, "max ", 4) == 0) {
        now.max_line =
            *rest == '-' ? SIZE_MAX - strtoul(rest + 1, NULL, 10) : strtoul(rest, NULL, 10);
    } else if (strncmp(line, "let ", 4) == 0 && now.let_count < COUNT_OF(now.lets)) {
        char *values = strchr(rest, ' ');
        *values = '\0';
        now.lets[now.let_count++] = (struct let){rest, values + 1};
    } else {
        char *at = NULL;
        const char *arrow = NULL;
        for (size_t i = 0; i < COUNT_OF(arrows); i++) {
            char *found = strncmp(line, arrows[i] + 1, strlen(arrows[i]) - 1) == 0
                              ? line
                              : strstr(line, arrows[i]);
            if (found && (!at || found < at)) {
                at = found;
                arrow = arrows[i];
            }
        }
        if (!at || !now.codec) {
            fail("not a vector: %s", line);
            return;
        }
        char *result = at + strlen(arrow) - (at == line);
        while (*result == ' ')
            result++;
        while (at > line && at[-1] == ' ')
            at--;
        *at = '\0';
        const char word[] = {arrow[1], arrow[2], arrow[3] == ' ' ? '\0' : arrow[3], '\0'};
        check_each(line, word, result);
    }
}

/* Names and titles point into lines. */
static void keep_line(struct text *line)
{
    static struct text *lines;
    static size_t count;
    lines = realloc(lines, (count + 1) * sizeof(*lines));
    if (!lines)
        abort();
    lines[count++] = *line;
    *line = (struct text){0};
}

static void run_file(const char *path)
{
    FILE *from = fopen(path, "r");
    const char *slash = strrchr(path, '/');
    static char file[256];
    if (!from) {
        fail("cannot open %s", path);
        return;
    }
    snprintf(file, sizeof(file), "%s", slash ? slash + 1 : path);
    now.file = file;
    now.line = 0;
    now.let_count = 0;
    struct text whole = {0};
    char *line = NULL;
    size_t room = 0;
    for (ssize_t len; (len = getline(&line, &room, from)) > 0;) {
        now.line++;
        len -= line[len - 1] == '\n';
        bool goes_on = len > 0 && line[len - 1] == '\\';
        size_t spaces = whole.len > 0 ? strspn(line, " ") : 0;
        text_add(&whole, "%.*s", (int)(len - goes_on - (ssize_t)spaces), line + spaces);
        if (goes_on)
            continue;
        take(whole.data);
        keep_line(&whole);
    }
    if (whole.len > 0)
        fail("the last line goes on");
    free(line);
    fclose(from);
    end_codec();
    now.codec = NULL;
    end_test();
    now.title = NULL;
}

int main(int argc, char **argv)
{
    const char *top = getenv("TOP_SRCDIR");
    if (&__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(tell_vector);
    int first = argc > 2 && strcmp(argv[1], "--seeds") == 0 ? 3 : 1;
    now.seeds = first == 3 ? argv[2] : NULL;
    glob_t files = {0};
    char all[4096];
    snprintf(all, sizeof(all), "%s/t/vectors/*.vec", top ? top : ".");
    int missing = glob(argc > first ? argv[first] : all, 0, NULL, &files);
    for (int i = first + 1; i < argc; i++)
        missing |= glob(argv[i], GLOB_APPEND, NULL, &files);
    if (missing) {
        printf("Bail out! no vectors: %s\n", argc > first ? "a file is missing" : all);
        return 1;
    }
    for (size_t i = 0; i < files.gl_pathc; i++)
        run_file(files.gl_pathv[i]);
    globfree(&files);
    for (size_t i = 0; argc == 1 && codecs[i]; i++) {
        if (all_seen[i].vectors == 0)
            fail("%s has no vectors", codecs[i]->name);
    }
    end_test();
    printf("1..%u\n", now.tests);
    return now.failed > 0 || now.tests == 0;
}
