/*
 * codecs.c - tests all codecs of proto/ by their tables (t/vectors/vectors.h).
 *
 * The first byte chooses the codec. The second: 0 to 127, the rest is what a peer sends, which
 * comes in parts of that length; 128 and up, it is the text of a message to compose.
 *
 * Promises: however a stream is cut, its messages are parsed to the same; a parsed message is
 * composed to bytes that are parsed to the same message; any message is composed to nothing or to
 * bytes that are parsed to it; what does not fit is not composed.
 */
#include "fuzz/fuzz.h"
#include "t/vectors/vectors.h"

#include <stdarg.h>
#include <stdio.h>

void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args); // NOLINT(clang-analyzer-valist.Uninitialized): it is
    va_end(args);
    fputc('\n', stderr);
    abort();
}

static void compose(const struct codec *codec, const char *text, size_t len)
{
    static struct message message;
    static uint8_t to[20000];
    if (!message_read(codec, text, len, &message))
        return;
    if (codec->compose && !codec->takes_any_parts && codec->compose(&message, to, sizeof(to)) > 0)
        (void)check_composed(codec, &message, true, false);
    else if (codec->compose && message.kind < codec->kind_count)
        (void)check_composed(codec, &message, false, false);
    free(message.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t max_lines[] = {8192, 16, 64, 300};
    struct input in = {.at = data, .left = size};
    size_t number = input_byte(&in), count = 0;
    while (codecs[count])
        count++;
    const struct codec *codec = codecs[number % count];
    size_t max_line = max_lines[number / count % ARRAY_SIZE(max_lines)], step = input_byte(&in);
    struct text said = {0};
    if (step < 128)
        check_stream(codec, max_line, bytes_at(in.at, in.left), step + 1, true, &said);
    else
        compose(codec, (const char *)in.at, in.left);
    text_clear(&said);
    return 0;
}
