/*
 * options.c - the table of options, and parsing of their values (options.h).
 */
#include "cli/options.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

/* How many bytes of a wrong value a message shows. */
#define SHOWN_MAX 100

#define FIELD(name) offsetof(struct options, name)

static const char *const sort_words[] = {"none", "name", "in-use", "peak", NULL};
const char *const by_words[] = {"waiting", "refused", "peak", NULL};

#define FLAG(field)         OPTION_IS_FLAG, FIELD(field), 0, 0, NULL, NULL
#define TEXT(field)         OPTION_IS_TEXT, FIELD(field), 0, 0, NULL, NULL
#define TEXTS(field, times) OPTION_IS_TEXTS, FIELD(field), 0, times, NULL, NULL
#define NUMBER(field, min, max, by_default)                                                        \
    OPTION_IS_NUMBER, FIELD(field), min, max, NULL, by_default
#define SECONDS(field, by_default)     OPTION_IS_SECONDS, FIELD(field), 0, 0, NULL, by_default
#define WORD(field, words, by_default) OPTION_IS_WORD, FIELD(field), 0, 0, words, by_default

/* In the order of the help. */
static const struct option_row rows[] = {
    {"server", 's', "ADDRESS", TEXT(server),
     "the server: HOST[:PORT], [V6]:PORT, unix:PATH or unix:@NAME"},
    {"tls", 0, NULL, FLAG(tls), "speak TLS with the server"},
    {"ca", 0, "FILE", TEXT(ca), "trusted certificates in PEM, instead of this machine's"},
    {"cert", 0, "FILE", TEXT(cert), "our certificate and its intermediates, in PEM"},
    {"key", 0, "FILE", TEXT(key), "the key of our certificate, if that file lacks it"},
    {"tls-name", 0, "NAME", TEXT(tls_name),
     "the name in the server's certificate, if not its host"},
    {"connect-timeout", 0, "S", SECONDS(connect_timeout_ns, "5"),
     "seconds that finding and connecting may take"},
    {"io-timeout", 0, "S", SECONDS(io_timeout_ns, "30"),
     "seconds the server may let us wait for an answer"},
    {"admin", 0, "ADDRESS", TEXT(admin),
     "the admin interface, if not port 7532 of the server's host"},
    {"token-file", 0, "FILE", TEXT(token_file), "the admin token is the first line of this file"},
    {"json", 'j', NULL, FLAG(json), "print JSON: one line, or one a row"},
    {"escapes", 'e', NULL, FLAG(escapes),
     "names are given as they are printed: \\xNN is a byte, \\\\ a backslash"},
    {"workers", 'w', "N", NUMBER(workers, 1, UINT32_MAX, "1"),
     "how many may hold the lock at once"},
    {"queue", 'Q', "N", NUMBER(queue, 1, UINT32_MAX, "100"), "how many may hold it or wait for it"},
    {"timeout", 't', "S", SECONDS(timeout_ns, "none"),
     "seconds to wait for the lock or member; 0: do not wait"},
    {"any", 'a', NULL, FLAG(any),
     "accept another client's work: exit with 0 when it has done the work"},
    {"strict", 0, NULL, FLAG(strict), "end the command when the connection is lost"},
    {"grace", 0, "S", SECONDS(grace_ns, NULL),
     "seconds between TERM and KILL when we end the command (default: 5; of member, 10)"},
    {"for", 0, "S", SECONDS(for_ns, "none"), "hold the units for this many seconds"},
    {"pool", 0, "TARGET", TEXT(pool),
     "hold a member of a pool instead of a lock: POOL[,POOL]... or @GROUP"},
    {"count", 0, "N", NUMBER(count, 1, 64, "1"), "how many members, all of one pool"},
    {"with", 0, "K=V", TEXTS(with, 8), "only members with this attribute; up to 8 times"},
    {"member", 0, "NAME", TEXT(member), "only this member"},
    {"fail-on", 0, "LIST", TEXT(fail_on),
     "exit statuses that mean a broken member: 1,2 or nonzero"},
    {"env", 0, "VAR", TEXT(env), "a further variable for the values of the members"},
    {"jobs", 0, "N", NUMBER(jobs, 1, 1000, "1"),
     "clean: how many members at once; work: how many jobs"},
    {"init", 0, "N", NUMBER(init, 0, UINT32_MAX, "1"), "how many members there are at least"},
    {"max", 0, "N", NUMBER(max, 1, UINT32_MAX, NULL),
     "how many members can run here (default: as --init)"},
    {"name", 0, "NAME", TEXT(name), "what their names begin with (default: this host's name)"},
    {"value", 0, "T", TEXT(value), "what clients that take a member are told, such as an address"},
    {"attr", 0, "K=V", TEXTS(attrs, 16), "an attribute of the members; up to 16 times"},
    {"ready", 0, NULL, FLAG(ready), "COMMAND prints READY [VALUE] [K=V]... when it can be used"},
    {"start-timeout", 0, "S", SECONDS(start_timeout_ns, "60"),
     "seconds that COMMAND has to print READY"},
    {"check", 0, "CMD", TEXT(check), "a shell command that fails when a member is broken"},
    {"every", 0, "S", SECONDS(every_ns, "10"),
     "seconds between two checks, and the longest that one may take"},
    {"keep", 0, NULL, FLAG(keep),
     "leave COMMAND alone when the connection is lost, and join again"},
    {"pri", 0, "N", NUMBER(pri, 0, UINT32_MAX, "1024"),
     "the priority of the job; smaller ones come first"},
    {"delay", 0, "S", NUMBER(delay, 0, UINT32_MAX, "0"),
     "whole seconds before the job may be taken"},
    {"ttr", 0, "S", NUMBER(ttr, 1, UINT32_MAX, "60"),
     "whole seconds after which a lost worker's job comes back"},
    {"unique", 0, "KEY", TEXT(unique), "store nothing if the tube has a job with this key"},
    {"tries", 0, "N", NUMBER(tries, 1, UINT32_MAX, NULL),
     "how often a job is tried before it is buried (default: as the tube says)"},
    {"lines", 0, NULL, FLAG(lines), "a job for each line"},
    {"off", 0, NULL, FLAG(off), "drain: take new jobs again"},
    {"backoff", 0, "S", NUMBER(backoff, 0, 3600, "1"),
     "whole seconds before a failed job is tried again; doubled each time"},
    {"lock", 0, "KEY", TEXT(lock), "run COMMAND under a lock, which --workers may hold at once"},
    {"lock-server", 0, "ADDRESS", TEXT(lock_server),
     "the server of the lock, if not port 7531 of that host"},
    {"quiet", 'q', NULL, FLAG(quiet),
     "do not say why there is no lock or member, or which job has failed"},
    {"sort", 'S', "ORDER", WORD(sort, sort_words, "none"),
     "name, in-use or peak (highest first); none: the server's order"},
    {"prefix", 'p', "TEXT", TEXT(prefix),
     "only names that begin with this; of cluster acl, what cluster.prefix is"},
    {"db", 0, "N", NUMBER(db, 0, INT32_MAX, "0"), "the number of the database in Redis"},
    {"min", 'm', "N", NUMBER(min, 0, UINT32_MAX, "0"), "only names with at least N units in use"},
    {"limit", 'n', "N", NUMBER(limit, 1, UINT32_MAX, NULL), "at most this many rows"},
    {"by", 'b', "ORDER", WORD(by, by_words, "waiting"),
     "what is contended: waiting, refused or peak"},
    {"protocol", 'P', "NAME", TEXT(protocol),
     "only connections of this protocol: poolcounter or counter"},
    {"text", 0, NULL, FLAG(text), "only the statistics of the text protocol (STATS FULL)"},
    {"interval", 'i', "S", SECONDS(interval_ns, "2"), "seconds between two looks"},
    {"once", '1', NULL, FLAG(once),
     "top: one frame as text; clean: what is dirty now; work: what is ready; then exit"},
    {"filter", 'f', "TEXT", TEXT(filter), "only names that contain this text"},
    {"help", 'h', NULL, FLAG(help), "print help, of the command if one is named, and exit"},
    {"version", 'V', NULL, FLAG(version), "print the version and exit"},
};

_Static_assert(ARRAY_SIZE(rows) <= 64, "a bit for each");

const struct option_row *option_at(size_t index)
{
    return index < ARRAY_SIZE(rows) ? &rows[index] : NULL;
}

const struct option_row *option_named(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    return NULL;
}

const struct option_row *option_lettered(char letter)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].letter && rows[i].letter == letter)
            return &rows[i];
    return NULL;
}

uint64_t option_bit(const struct option_row *row)
{
    return UINT64_C(1) << (row - rows);
}

uint64_t option_bits(const char *names)
{
    uint64_t bits = 0;
    for (size_t len; *names; names += len + strspn(names + len, " ")) {
        len = strcspn(names, " ");
        const struct option_row *row = option_named(names, len);
        CHECK(row);
        bits |= option_bit(row);
    }
    return bits;
}

/* --- Values ---------------------------------------------------------------------------------- */

bool parse_number(struct bytes text, uint32_t min, uint32_t max, uint32_t *number_r)
{
    uint64_t number;
    if (!number_parse(text, max, &number) || number < min)
        return false;
    *number_r = (uint32_t)number;
    return true;
}

bool parse_seconds(const char *text, int64_t *ns_r)
{
    const uint8_t *at = (const uint8_t *)text;
    int64_t ns = number_scan_seconds(&at, SECONDS_MAX + UINT64_C(1));
    if (*at || !strpbrk(text, "0123456789") || ns / NS_PER_S > SECONDS_MAX)
        return false;
    *ns_r = ns < SECONDS_MAX * NS_PER_S ? ns : SECONDS_MAX * NS_PER_S;
    return true;
}

static void *field(struct options *options, const struct option_row *row)
{
    return (char *)options + row->offset;
}

static bool set_number(struct options *options, const struct option_row *row, const char *value,
                       char *reason_r)
{
    if (parse_number(bytes_of(value), row->min, row->max, field(options, row)))
        return true;
    snprintf(reason_r, OPTION_REASON_SIZE, "\"%.*s\" is not a whole number from %u to %u",
             SHOWN_MAX, value, row->min, row->max);
    return false;
}

/* Sets an option in seconds. 0 is wrong, because no time at all would be useless, except for
   options that take "none", and for one without a default: the grace. */
static bool set_seconds(struct options *options, const struct option_row *row, const char *value,
                        char *reason_r)
{
    bool or_none = row->default_text && strcmp(row->default_text, "none") == 0;
    bool or_zero = or_none || !row->default_text;
    int64_t ns = SECONDS_NONE;
    if (!(or_none && strcmp(value, "none") == 0) &&
        (!parse_seconds(value, &ns) || (ns == 0 && !or_zero))) {
        snprintf(reason_r, OPTION_REASON_SIZE,
                 "\"%.*s\" is not a number of seconds, such as 2 or 0.5, %s%u%s", SHOWN_MAX, value,
                 or_zero ? "up to " : "above 0 and up to ", SECONDS_MAX,
                 or_none ? ", and not \"none\"" : "");
        return false;
    }
    *(int64_t *)field(options, row) = ns;
    return true;
}

static bool add_text(struct options *options, const struct option_row *row, const char *value,
                     char *reason_r)
{
    struct texts *texts = field(options, row);
    if (texts->count < row->max) {
        texts->at[texts->count++] = value;
        return true;
    }
    snprintf(reason_r, OPTION_REASON_SIZE, "it may be given %u times at most", row->max);
    return false;
}

static bool set_word(struct options *options, const struct option_row *row, const char *value,
                     char *reason_r)
{
    for (uint32_t i = 0; row->words[i]; i++) {
        if (strcmp(row->words[i], value) == 0) {
            *(uint32_t *)field(options, row) = i;
            return true;
        }
    }
    int len = snprintf(reason_r, OPTION_REASON_SIZE, "\"%.*s\" is none of", SHOWN_MAX, value);
    for (size_t i = 0; row->words[i]; i++)
        len += snprintf(reason_r + len, OPTION_REASON_SIZE - (size_t)len, "%s %s", i ? "," : "",
                        row->words[i]);
    return false;
}

bool option_set(struct options *options, const struct option_row *row, const char *value,
                char *reason_r)
{
    switch (row->type) {
    case OPTION_IS_FLAG:
        *(bool *)field(options, row) = true;
        return true;
    case OPTION_IS_TEXT:
        *(const char **)field(options, row) = value;
        return true;
    case OPTION_IS_TEXTS:
        return add_text(options, row, value, reason_r);
    case OPTION_IS_NUMBER:
        return set_number(options, row, value, reason_r);
    case OPTION_IS_SECONDS:
        return set_seconds(options, row, value, reason_r);
    case OPTION_IS_WORD:
        return set_word(options, row, value, reason_r);
    }
    return false;
}

void options_init(struct options *options)
{
    char reason[OPTION_REASON_SIZE];
    *options = (struct options){.grace_ns = SECONDS_NONE};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].default_text)
            CHECK(option_set(options, &rows[i], rows[i].default_text, reason));
}
