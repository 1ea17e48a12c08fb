/*
 * replay.c - runs a harness without libFuzzer, on every file of a folder in the order of the names,
 * and reports in TAP.
 *
 *     HARNESS [FILE|FOLDER...]      default: the harness's corpus in the source folder
 *
 * If the process dies, the last line that begins with "# " names the input.
 */
#include "fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Name of the current input, for the signal handler; only the main thread writes it. */
static char current[4096];

static void die(const char *what, const char *path)
{
    printf("not ok 1 - fuzz: %s %s: %s\n1..1\n", what, path, strerrordesc_np(errno));
    exit(1); // NOLINT(concurrency-mt-unsafe): one thread
}

/* Runs the harness on one file, in memory of exactly its size. */
static void replay_file(const char *path)
{
    FILE *from = fopen(path, "rb");
    struct stat status;
    if (!from || fstat(fileno(from), &status) != 0)
        die("can't open", path);
    size_t size = (size_t)status.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, from) != size)
        die("can't read", path);
    fclose(from);
    snprintf(current, sizeof(current), "# input: %s\n", path);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
}

/* Writes the name of the current input when the process dies. */
static void tell_current(void)
{
    ssize_t ignored = write(STDERR_FILENO, current, strlen(current));
    (void)ignored;
}

static void on_signal(int number)
{
    tell_current();
    signal(number, SIG_DFL);
    raise(number);
}

/* Defined only in sanitizer builds: the sanitizer calls `callback` before it ends the process. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Runs a file, or all files of a folder. Returns their number. */
static unsigned replay(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        die("can't find", path);
    if (!S_ISDIR(status.st_mode)) {
        replay_file(path);
        return 1;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, alphasort);
    if (count < 0)
        die("can't list", path);
    for (int i = 0; i < count; i++) {
        char file[4096];
        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        replay_file(file);
        free(entries[i]);
    }
    free(entries);
    return (unsigned)count;
}

int main(int argc, char **argv)
{
    if (&__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(tell_current);
    else
        signal(SIGSEGV, on_signal);
    signal(SIGABRT, on_signal);
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    unsigned count = 0;
    for (int i = 1; i < argc; i++)
        count += replay(argv[i]);
    if (argc == 1) {
        char corpus[4096];
        const char *top = getenv("TOP_SRCDIR"); // NOLINT(concurrency-mt-unsafe): nobody sets it
        snprintf(corpus, sizeof(corpus), "%s/fuzz/corpus/%s", top ? top : ".", name);
        count = replay(corpus);
    }
    printf("%s 1 - fuzz: %s: %u inputs\n1..1\n", count ? "ok" : "not ok", name, count);
    return count ? 0 : 1;
}
