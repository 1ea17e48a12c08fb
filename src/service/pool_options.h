/*
 * pool_options.h - the options of a pool (engine/pool_options.h) as rows: their names, words,
 * defaults and ranges. The same rows read them from requests (`POOL ADD db on_fail=down`) and from
 * the configuration file (`pool.db.on_fail = down`).
 *
 * Pure functions; any thread, as long as no other uses the same options.
 */
#ifndef SERVICE_POOL_OPTIONS_H
#define SERVICE_POOL_OPTIONS_H

#include "base/bytes.h"
#include "base/check.h"
#include "base/option.h"
#include "engine/pool_options.h"
#include "service/pool_members.h"

/* The options, in the order of SHOW. Options from ON_RETURN to CLEAN_TRIES are for static pools,
 * those from MIN_FREE on for joined ones. */
enum pool_option {
    POOL_OPTION_KIND,
    POOL_OPTION_GROUP,
    POOL_OPTION_MAX,
    POOL_OPTION_ORDER,
    POOL_OPTION_QUEUE_MAX,
    POOL_OPTION_OVERTAKES,
    POOL_OPTION_ON_RETURN,
    POOL_OPTION_ON_FAIL,
    POOL_OPTION_ON_START,
    POOL_OPTION_CLEAN_AFTER,
    POOL_OPTION_CLEAN_TRIES,
    POOL_OPTION_ON_CRASH,
    POOL_OPTION_HOLD_WARN,
    POOL_OPTION_HOLD_MAX,
    POOL_OPTION_MIN_FREE,
    POOL_OPTION_CULL_AFTER,
    POOL_OPTION_START_TIMEOUT,
    POOL_OPTION_STOP_TIMEOUT,
    POOL_OPTION_MAX_LIFETIME,
    POOL_OPTION_LIFETIME_JITTER,
    POOL_OPTION_COUNT,
};

/* A set of options: bit `enum pool_option` of each. */
typedef uint32_t pool_option_set;

/* The settings of pool.NAME in the file. */
struct pool_settings {
    struct pool_options options; /* first: the rows' offsets are for both structs */
    char *members;               /* "db_1, db_2=host:5433"; NULL: none */
    char *members_file;          /* path; NULL: none */

    struct pool_members declared; /* of both; loaded by the check (pools_config.c) */
};

/* The rows of struct pool_settings: one for each option, by its number, then two for members. Those
 * of options may also be used with a struct pool_options. */
enum { POOL_ROW_MEMBERS = POOL_OPTION_COUNT, POOL_ROW_MEMBERS_FILE, POOL_ROW_COUNT };
extern const struct option_row pool_rows[POOL_ROW_COUNT];

/* ---- options --------------------------------------------------------------------------------- */

/* Fills in the defaults; frees nothing. */
void pool_options_init(struct pool_options *options);
/* Makes a copy. Returns false without memory; there is nothing to free then. */
bool pool_options_copy(struct pool_options *copy_r, const struct pool_options *from) MUST_USE;
/* Frees what the options own, but not the struct. */
void pool_options_free(struct pool_options *options);

/* The option with this name; POOL_OPTION_COUNT: none. */
enum pool_option pool_option_named(struct bytes name);

enum pool_option_answer {
    POOL_OPTION_GOOD,
    POOL_OPTION_UNKNOWN,   /* no option has this name */
    POOL_OPTION_REPEATED,  /* it is in *given already */
    POOL_OPTION_BAD_VALUE, /* out of its range */
    POOL_OPTION_NO_MEMORY,
};

/*
 * Sets an option to a value as text, and adds it to *given. Any bytes will do for both; group
 * "" and "-" are none. Changes nothing unless the answer is POOL_OPTION_GOOD. Whether options fit
 * together is not looked at: call pool_options_fit when all are set.
 */
enum pool_option_answer pool_options_set(struct pool_options *options, pool_option_set *given,
                                         struct bytes name, struct bytes value) MUST_USE;

/*
 * Checks that the options `given` fit the kind, and all options fit together. Returns false with
 * the wrong one: the first given one of the other kind, a group that is no name, or a
 * lifetime_jitter that is not below max_lifetime. `is_there`: the pool is there, so its kind must
 * not be given.
 */
bool pool_options_fit(const struct pool_options *options, pool_option_set given, bool is_there,
                      enum pool_option *wrong_r) MUST_USE;

/* ---- names, words and text ------------------------------------------------------------------- */

/* "on_fail". */
static inline const char *pool_option_name(enum pool_option option)
{
    return pool_rows[option].key;
}

/* The word for a value of an option with words: pool_option_word(POOL_OPTION_KIND, POOL_JOINED) is
 * "joined". */
static inline const char *pool_option_word(enum pool_option option, unsigned value)
{
    return pool_rows[option].choices[value];
}

/* True if pools of this kind have the option. */
bool pool_option_is_of(enum pool_option option, enum pool_kind kind);

/* Size for the value of any option but `group`. */
#define POOL_OPTION_TEXT 32

/* Writes the value of an option as text that pool_options_set reads as the same value. Not for
 * `group`. */
void pool_option_text(const struct pool_options *options, enum pool_option option,
                      char text_r[POOL_OPTION_TEXT]);

/* True if an option has the same value in both. */
bool pool_option_equal(const struct pool_options *a, const struct pool_options *b,
                       enum pool_option option);

/*
 * Steps through the options that SHOW lists: all of the pool's kind but `kind` and `group`, which
 * stand in front. Begin with `after` POOL_OPTION_GROUP; POOL_OPTION_COUNT: that was the last.
 */
enum pool_option pool_option_next(const struct pool_options *options, enum pool_option after);

#endif
