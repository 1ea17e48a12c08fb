/*
 * options.h - the options of counterctl. One table drives the parser, the help, and the tests of
 * the manual and of the completions.
 *
 * Each command takes some of the options (command.h). An option may stand before or after the
 * command's name, and between its arguments.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/bytes.h"
#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value "none" of an option in seconds. */
#define SECONDS_NONE INT64_C(-1)

/* The largest number of seconds, about 136 years, as in the text protocol. */
#define SECONDS_MAX UINT32_MAX

enum sort { SORT_NONE, SORT_NAME, SORT_IN_USE, SORT_PEAK };
enum by { BY_WAITING, BY_REFUSED, BY_PEAK, BY_COUNT };

/* The words of `enum by`. */
extern const char *const by_words[];

/* The values of an option that may be given several times, in their order. */
#define TEXTS_MAX 16

struct texts {
    const char *at[TEXTS_MAX];
    size_t count;
};

/* Values of the options. Strings point into the command line. */
struct options {
    /* server */
    const char *server;
    bool tls;
    const char *ca, *cert, *key, *tls_name;
    int64_t connect_timeout_ns, io_timeout_ns;
    /* admin interface */
    const char *admin, *token_file;
    /* output and names */
    bool json, escapes, quiet;
    /* run, acquire */
    uint32_t workers, queue;
    int64_t timeout_ns; /* SECONDS_NONE: no limit */
    bool any, strict;
    int64_t grace_ns; /* command_line_parse sets the command's default */
    int64_t for_ns;   /* SECONDS_NONE: no limit */
    /* members of pools */
    const char *pool, *member, *fail_on, *env;
    uint32_t count, jobs;
    struct texts with;
    /* member */
    uint32_t init, max; /* max 0: init */
    const char *name, *value, *check;
    struct texts attrs;
    bool ready, keep;
    int64_t start_timeout_ns, every_ns;
    /* jobs */
    uint32_t pri, delay, ttr, backoff; /* seconds but pri */
    uint32_t tries;                    /* 0: as the tube says */
    const char *unique, *lock, *lock_server;
    bool lines, off;
    /* lists */
    uint32_t sort; /* enum sort */
    const char *prefix;
    uint32_t db;
    uint32_t min;
    uint32_t limit; /* 0: the command's default */
    uint32_t by;    /* enum by */
    const char *protocol;
    bool text;
    /* top */
    int64_t interval_ns;
    bool once;
    const char *filter;
    /* for counterctl itself */
    bool help, version;
};

enum option_type {
    OPTION_IS_FLAG,
    OPTION_IS_TEXT,
    OPTION_IS_TEXTS,   /* struct texts: may be given `max` times, at most TEXTS_MAX */
    OPTION_IS_NUMBER,  /* uint32_t from min to max */
    OPTION_IS_SECONDS, /* int64_t, nanoseconds; "none" if that is the default. 0 only if that or no
                          default is */
    OPTION_IS_WORD     /* uint32_t: the index in words */
};

struct option_row {
    const char *name; /* without the dashes */
    char letter;      /* 0: no letter */
    const char *argument;
    enum option_type type;
    size_t offset; /* of the value in struct options */
    uint32_t min, max;
    const char *const *words;
    const char *default_text; /* as on the command line; NULL: none */
    const char *help;
};

/* The row at an index, in the order of the help; NULL after the last. */
const struct option_row *option_at(size_t index);

/* The option with that long name (`len` bytes) or letter; NULL when there is none. */
const struct option_row *option_named(const char *name, size_t len);
const struct option_row *option_lettered(char letter);

/* A set of options has a bit for each: that of a row, and those of names with spaces between them.
 */
uint64_t option_bit(const struct option_row *row);
uint64_t option_bits(const char *names);

/* Sets every option to its default. */
void options_init(struct options *options);

#define OPTION_REASON_SIZE 320

/* Sets an option to a value, which a flag ignores. Returns false for a wrong value; *reason_r
   (OPTION_REASON_SIZE) then says what is allowed. */
bool option_set(struct options *options, const struct option_row *row, const char *value,
                char *reason_r) MUST_USE;

/* Parses a whole number from `min` to `max`. Returns false for anything else. */
bool parse_number(struct bytes text, uint32_t min, uint32_t max, uint32_t *number_r) MUST_USE;

/* Parses seconds, with or without a fraction, up to SECONDS_MAX. Gives nanoseconds. Returns false
   for anything else. */
bool parse_seconds(const char *text, int64_t *ns_r) MUST_USE;

#endif
