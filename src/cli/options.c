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

static const struct option_row rows[OPTION_COUNT] = {
    [OPTION_SERVER] = {"server", 's', "ADDRESS", OPTION_IS_TEXT, FIELD(server), 0, 0, NULL, NULL,
                       "the server: HOST[:PORT], [V6]:PORT, unix:PATH or unix:@NAME"},
    [OPTION_TLS] = {"tls", 0, NULL, OPTION_IS_FLAG, FIELD(tls), 0, 0, NULL, NULL,
                    "speak TLS with the server"},
    [OPTION_CA] = {"ca", 0, "FILE", OPTION_IS_TEXT, FIELD(ca), 0, 0, NULL, NULL,
                   "trusted certificates in PEM, instead of this machine's"},
    [OPTION_CERT] = {"cert", 0, "FILE", OPTION_IS_TEXT, FIELD(cert), 0, 0, NULL, NULL,
                     "our certificate and its intermediates, in PEM"},
    [OPTION_KEY] = {"key", 0, "FILE", OPTION_IS_TEXT, FIELD(key), 0, 0, NULL, NULL,
                    "the key of our certificate, if that file lacks it"},
    [OPTION_TLS_NAME] = {"tls-name", 0, "NAME", OPTION_IS_TEXT, FIELD(tls_name), 0, 0, NULL, NULL,
                         "the name in the server's certificate, if not its host"},
    [OPTION_CONNECT_TIMEOUT] = {"connect-timeout", 0, "S", OPTION_IS_SECONDS,
                                FIELD(connect_timeout_ns), 0, 0, NULL, "5",
                                "seconds that finding and connecting may take"},
    [OPTION_IO_TIMEOUT] = {"io-timeout", 0, "S", OPTION_IS_SECONDS, FIELD(io_timeout_ns), 0, 0,
                           NULL, "30", "seconds the server may let us wait for an answer"},
    [OPTION_ADMIN] = {"admin", 0, "ADDRESS", OPTION_IS_TEXT, FIELD(admin), 0, 0, NULL, NULL,
                      "the admin interface, if not port 7532 of the server's host"},
    [OPTION_TOKEN_FILE] = {"token-file", 0, "FILE", OPTION_IS_TEXT, FIELD(token_file), 0, 0, NULL,
                           NULL, "the admin token is the first line of this file"},
    [OPTION_JSON] = {"json", 'j', NULL, OPTION_IS_FLAG, FIELD(json), 0, 0, NULL, NULL,
                     "print JSON: one line, or one a row"},
    [OPTION_ESCAPES] = {"escapes", 'e', NULL, OPTION_IS_FLAG, FIELD(escapes), 0, 0, NULL, NULL,
                        "names are given as they are printed: \\xNN is a byte, \\\\ a backslash"},
    [OPTION_WORKERS] = {"workers", 'w', "N", OPTION_IS_NUMBER, FIELD(workers), 1, UINT32_MAX, NULL,
                        "1", "how many may hold the lock at once"},
    [OPTION_QUEUE] = {"queue", 'Q', "N", OPTION_IS_NUMBER, FIELD(queue), 1, UINT32_MAX, NULL, "100",
                      "how many may hold it or wait for it"},
    [OPTION_TIMEOUT] = {"timeout", 't', "S", OPTION_IS_SECONDS, FIELD(timeout_ns), 0, 0, NULL,
                        "none", "seconds to wait for the lock or member; 0: do not wait"},
    [OPTION_ANY] = {"any", 'a', NULL, OPTION_IS_FLAG, FIELD(any), 0, 0, NULL, NULL,
                    "accept another client's work: exit with 0 when it has done the work"},
    [OPTION_STRICT] = {"strict", 0, NULL, OPTION_IS_FLAG, FIELD(strict), 0, 0, NULL, NULL,
                       "end the command when the connection is lost"},
    [OPTION_GRACE] = {"grace", 0, "S", OPTION_IS_SECONDS, FIELD(grace_ns), 0, 0, NULL, NULL,
                      "seconds between TERM and KILL when we end the command (default: 5; of "
                      "member, 10)"},
    [OPTION_FOR] = {"for", 0, "S", OPTION_IS_SECONDS, FIELD(for_ns), 0, 0, NULL, "none",
                    "hold the units for this many seconds"},
    [OPTION_POOL] = {"pool", 0, "TARGET", OPTION_IS_TEXT, FIELD(pool), 0, 0, NULL, NULL,
                     "hold a member of a pool instead of a lock: POOL[,POOL]... or @GROUP"},
    [OPTION_MEMBERS] = {"count", 0, "N", OPTION_IS_NUMBER, FIELD(count), 1, 64, NULL, "1",
                        "how many members, all of one pool"},
    [OPTION_WITH] = {"with", 0, "K=V", OPTION_IS_TEXTS, FIELD(with), 0, 8, NULL, NULL,
                     "only members with this attribute; up to 8 times"},
    [OPTION_MEMBER] = {"member", 0, "NAME", OPTION_IS_TEXT, FIELD(member), 0, 0, NULL, NULL,
                       "only this member"},
    [OPTION_FAIL_ON] = {"fail-on", 0, "LIST", OPTION_IS_TEXT, FIELD(fail_on), 0, 0, NULL, NULL,
                        "exit statuses that mean a broken member: 1,2 or nonzero"},
    [OPTION_ENV] = {"env", 0, "VAR", OPTION_IS_TEXT, FIELD(env), 0, 0, NULL, NULL,
                    "a further variable for the values of the members"},
    [OPTION_JOBS] = {"jobs", 0, "N", OPTION_IS_NUMBER, FIELD(jobs), 1, 1000, NULL, "1",
                     "clean: how many members at once; work: how many jobs"},
    [OPTION_INIT] = {"init", 0, "N", OPTION_IS_NUMBER, FIELD(init), 0, UINT32_MAX, NULL, "1",
                     "how many members there are at least"},
    [OPTION_MAX] = {"max", 0, "N", OPTION_IS_NUMBER, FIELD(max), 1, UINT32_MAX, NULL, NULL,
                    "how many members can run here (default: as --init)"},
    [OPTION_NAME] = {"name", 0, "NAME", OPTION_IS_TEXT, FIELD(name), 0, 0, NULL, NULL,
                     "what their names begin with (default: this host's name)"},
    [OPTION_VALUE] = {"value", 0, "T", OPTION_IS_TEXT, FIELD(value), 0, 0, NULL, NULL,
                      "what clients that take a member are told, such as an address"},
    [OPTION_ATTR] = {"attr", 0, "K=V", OPTION_IS_TEXTS, FIELD(attrs), 0, 16, NULL, NULL,
                     "an attribute of the members; up to 16 times"},
    [OPTION_READY] = {"ready", 0, NULL, OPTION_IS_FLAG, FIELD(ready), 0, 0, NULL, NULL,
                      "COMMAND prints READY [VALUE] [K=V]... when it can be used"},
    [OPTION_START_TIMEOUT] = {"start-timeout", 0, "S", OPTION_IS_SECONDS, FIELD(start_timeout_ns),
                              0, 0, NULL, "60", "seconds that COMMAND has to print READY"},
    [OPTION_CHECK] = {"check", 0, "CMD", OPTION_IS_TEXT, FIELD(check), 0, 0, NULL, NULL,
                      "a shell command that fails when a member is broken"},
    [OPTION_EVERY] = {"every", 0, "S", OPTION_IS_SECONDS, FIELD(every_ns), 0, 0, NULL, "10",
                      "seconds between two checks, and the longest that one may take"},
    [OPTION_KEEP] = {"keep", 0, NULL, OPTION_IS_FLAG, FIELD(keep), 0, 0, NULL, NULL,
                     "leave COMMAND alone when the connection is lost, and join again"},
    [OPTION_PRI] = {"pri", 0, "N", OPTION_IS_NUMBER, FIELD(pri), 0, UINT32_MAX, NULL, "1024",
                    "the priority of the job; smaller ones come first"},
    [OPTION_DELAY] = {"delay", 0, "S", OPTION_IS_NUMBER, FIELD(delay), 0, UINT32_MAX, NULL, "0",
                      "whole seconds before the job may be taken"},
    [OPTION_TTR] = {"ttr", 0, "S", OPTION_IS_NUMBER, FIELD(ttr), 1, UINT32_MAX, NULL, "60",
                    "whole seconds after which a lost worker's job comes back"},
    [OPTION_UNIQUE] = {"unique", 0, "KEY", OPTION_IS_TEXT, FIELD(unique), 0, 0, NULL, NULL,
                       "store nothing if the tube has a job with this key"},
    [OPTION_TRIES] = {"tries", 0, "N", OPTION_IS_NUMBER, FIELD(tries), 1, UINT32_MAX, NULL, NULL,
                      "how often a job is tried before it is buried (default: as the tube says)"},
    [OPTION_LINES] = {"lines", 0, NULL, OPTION_IS_FLAG, FIELD(lines), 0, 0, NULL, NULL,
                      "a job for each line"},
    [OPTION_OFF] = {"off", 0, NULL, OPTION_IS_FLAG, FIELD(off), 0, 0, NULL, NULL,
                    "drain: take new jobs again"},
    [OPTION_BACKOFF] = {"backoff", 0, "S", OPTION_IS_NUMBER, FIELD(backoff), 0, 3600, NULL, "1",
                        "whole seconds before a failed job is tried again; doubled each time"},
    [OPTION_LOCK] = {"lock", 0, "KEY", OPTION_IS_TEXT, FIELD(lock), 0, 0, NULL, NULL,
                     "run COMMAND under a lock, which --workers may hold at once"},
    [OPTION_LOCK_SERVER] = {"lock-server", 0, "ADDRESS", OPTION_IS_TEXT, FIELD(lock_server), 0, 0,
                            NULL, NULL, "the server of the lock, if not port 7531 of that host"},
    [OPTION_QUIET] = {"quiet", 'q', NULL, OPTION_IS_FLAG, FIELD(quiet), 0, 0, NULL, NULL,
                      "do not say why there is no lock or member, or which job has failed"},
    [OPTION_SORT] = {"sort", 'S', "ORDER", OPTION_IS_WORD, FIELD(sort), 0, 0, sort_words, "none",
                     "name, in-use or peak (highest first); none: the server's order"},
    [OPTION_PREFIX] = {"prefix", 'p', "TEXT", OPTION_IS_TEXT, FIELD(prefix), 0, 0, NULL, NULL,
                       "only names that begin with this; of cluster acl, what cluster.prefix is"},
    [OPTION_DB] = {"db", 0, "N", OPTION_IS_NUMBER, FIELD(db), 0, INT32_MAX, NULL, "0",
                   "the number of the database in Redis"},
    [OPTION_MIN] = {"min", 'm', "N", OPTION_IS_NUMBER, FIELD(min), 0, UINT32_MAX, NULL, "0",
                    "only names with at least N units in use"},
    [OPTION_LIMIT] = {"limit", 'n', "N", OPTION_IS_NUMBER, FIELD(limit), 1, UINT32_MAX, NULL, NULL,
                      "at most this many rows"},
    [OPTION_BY] = {"by", 'b', "ORDER", OPTION_IS_WORD, FIELD(by), 0, 0, by_words, "waiting",
                   "what is contended: waiting, refused or peak"},
    [OPTION_PROTOCOL] = {"protocol", 'P', "NAME", OPTION_IS_TEXT, FIELD(protocol), 0, 0, NULL, NULL,
                         "only connections of this protocol: poolcounter or counter"},
    [OPTION_TEXT] = {"text", 0, NULL, OPTION_IS_FLAG, FIELD(text), 0, 0, NULL, NULL,
                     "only the statistics of the text protocol (STATS FULL)"},
    [OPTION_INTERVAL] = {"interval", 'i', "S", OPTION_IS_SECONDS, FIELD(interval_ns), 0, 0, NULL,
                         "2", "seconds between two looks"},
    [OPTION_ONCE] =
        {"once", '1', NULL, OPTION_IS_FLAG, FIELD(once), 0, 0, NULL, NULL,
         "top: one frame as text; clean: what is dirty now; work: what is ready; then exit"},
    [OPTION_FILTER] = {"filter", 'f', "TEXT", OPTION_IS_TEXT, FIELD(filter), 0, 0, NULL, NULL,
                       "only names that contain this text"},
    [OPTION_HELP] = {"help", 'h', NULL, OPTION_IS_FLAG, FIELD(help), 0, 0, NULL, NULL,
                     "print help, of the command if one is named, and exit"},
    [OPTION_VERSION] = {"version", 'V', NULL, OPTION_IS_FLAG, FIELD(version), 0, 0, NULL, NULL,
                        "print the version and exit"},
};

const struct option_row *option_at(size_t index)
{
    CHECK(index < OPTION_COUNT);
    return &rows[index];
}

size_t option_index(const struct option_row *row)
{
    return (size_t)(row - rows);
}

const struct option_row *option_named(const char *name, size_t len)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    return NULL;
}

const struct option_row *option_lettered(char letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (rows[i].letter && rows[i].letter == letter)
            return &rows[i];
    return NULL;
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
   options that take "none" and for the grace. */
static bool set_seconds(struct options *options, const struct option_row *row, const char *value,
                        char *reason_r)
{
    bool or_none = row->default_text && strcmp(row->default_text, "none") == 0;
    bool or_zero = or_none || option_index(row) == OPTION_GRACE;
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
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (rows[i].default_text)
            CHECK(option_set(options, &rows[i], rows[i].default_text, reason));
}
