/*
 * admin.c - the commands that use the admin interface: contended, holders, connections, kill,
 * config, reload, upgrade, loglevel.
 *
 * Each requests one or more pages of JSON and prints them as tables, or unchanged with --json.
 */
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/http.h"
#include "cli/print.h"

#include <inttypes.h>
#include <string.h>

/* The number of rows to request for one page of a list, and the most pages. */
#define PAGE_MAX  1000
#define PAGES_MAX 2000

/* ---- contended ------------------------------------------------------------------------------- */

static void print_contended(const json_t *answer)
{
    static const struct column columns[] = {
        {"IN USE", 'r', "{in_use}"},
        {"PEAK", 'r', "{peak}"},
        {"LIMIT", 'r', "{limit}"},
        {"WAITING", 'r', "{waiting}"},
        {"LOAD", 'r', "{2 waiting_load}"},
        {"REFUSED/S", 'r', "{n refused_per_second}"},
        {"NAME", 'l', "{name}[truncated?...][!exists?  (gone)]"},
        {NULL}};
    print_array(columns, json_at(answer, "names"), "");
}

int do_contended(struct invocation *invocation)
{
    const struct options *options = &invocation->options;
    struct text path = {0};
    text_addf(&path, "/api/v1/contended?by=%s&limit=%u", by_words[options->by],
              options->limit ? options->limit : 20);
    return (int)http_show(invocation, &path, false, print_contended);
}

/* ---- holders --------------------------------------------------------------------------------- */

static void print_holders(const json_t *answer)
{
    static const struct column holders[] = {{"CONNECTION", 'l', "{connection}"},
                                            {"PROTOCOL", 'l', "{protocol}"},
                                            {"UNITS", 'r', "{units}"},
                                            {"LIMIT", 'r', "{limit}"},
                                            {"HELD", 'r', "{s held_seconds}"},
                                            {"CLIENT", 'l', "{client}"},
                                            {NULL}};
    static const struct column waiters[] = {{"CONNECTION", 'l', "{connection}"},
                                            {"PROTOCOL", 'l', "{protocol}"},
                                            {"UNITS", 'r', "{units}"},
                                            {"LIMIT", 'r', "{limit}"},
                                            {"WAITED", 'r', "{s waited_seconds}"},
                                            {"FOR", 'l', "{kind}"},
                                            {"CLIENT", 'l', "{client}"},
                                            {NULL}};
    print_form("{name}: {in_use} in use, peak {peak}, limit of the last request {limit}\n"
               "holders: {holders} of {holders_total}",
               answer);
    print_array(holders, json_at(answer, "holders"), "  ");
    print_form("waiters: {waiters} of {waiting}", answer);
    print_array(waiters, json_at(answer, "waiters"), "  ");
}

int do_holders(struct invocation *invocation)
{
    struct text name = {0}, path = {0};
    if (!read_name(invocation, invocation->arguments[0], &name)) {
        text_free(&name);
        return STATUS_USAGE;
    }
    text_addf(&path, "/api/v1/names/");
    text_add_percent(&path, text_bytes(&name));
    text_free(&name);
    return (int)http_show(invocation, &path, false, print_holders);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* The path of the page at `cursor` ("": the first), with `count` rows. */
static void page_path(const struct options *options, const struct text *cursor, uint64_t count,
                      struct text *path)
{
    text_clear(path);
    text_addf(path, "/api/v1/connections?limit=%" PRIu64, count < PAGE_MAX ? count : PAGE_MAX);
    if (options->protocol) {
        text_addf(path, "&protocol=");
        text_add_percent(path, bytes_of(options->protocol));
    }
    if (cursor->len > 0) {
        text_addf(path, "&cursor=");
        text_add_percent(path, text_bytes(cursor));
    }
}

/* Adds or prints the rows of a page, at most *left of them. Returns true after the last page. */
static bool take_connections(const struct options *options, const json_t *answer,
                             struct table *table, uint64_t *left, struct text *cursor)
{
    const char *next = json_text_at(answer, "cursor", "");
    json_t *row, *rows = json_at(answer, "connections");
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (*left == 0)
            break;
        --*left;
        table_take(table, json_incref(row), options->json);
    }
    /* Neither a cursor that does not move nor a page without rows leads to an end. */
    bool is_over = !*next || strcmp(next, text_str(cursor)) == 0 || json_array_size(rows) == 0;
    text_clear(cursor);
    text_add(cursor, next, strlen(next));
    return is_over;
}

int do_connections(struct invocation *invocation)
{
    static const struct column columns[] = {{"CONNECTION", 'l', "{connection}"},
                                            {"PROTOCOL", 'l', "{protocol}"},
                                            {"OVER", 'l', "{transport}"},
                                            {"AGE", 'r', "{s age_seconds}"},
                                            {"HOLDS", 'r', "{holds}"},
                                            {"WAITS", 'r', "{waits}"},
                                            {"QUEUED", 'r', "{queued_bytes}"},
                                            {"CLIENT", 'l', "{client}"},
                                            {NULL}};
    const struct options *options = &invocation->options;
    struct table table = {.columns = columns};
    struct text path = {0}, cursor = {0};
    uint64_t left = options->limit ? options->limit : UINT64_MAX;
    bool is_over = false;
    enum status status = STATUS_OK;
    for (unsigned page = 0; status == STATUS_OK && !is_over && left > 0; page++) {
        json_t *answer;
        if (page == PAGES_MAX) {
            status = complain_as(STATUS_PROTOCOL, "connections: the list of %s does not end",
                                 http_where(invocation->http));
            break;
        }
        page_path(options, &cursor, left, &path);
        status = http_ask(invocation, text_str(&path), false, &answer);
        if (status == STATUS_OK)
            is_over = take_connections(options, answer, &table, &left, &cursor);
        json_decref(answer);
    }
    table_print(&table, "");
    table_free(&table);
    text_free(&path);
    text_free(&cursor);
    return (int)status;
}

/* ---- kill, config, loglevel ------------------------------------------------------------------ */

static void print_killed(const json_t *answer)
{
    print_form("killed {killed}", answer);
}

int do_kill(struct invocation *invocation)
{
    struct text path = {0};
    text_addf(&path, "/api/v1/connections/");
    text_add_percent(&path, bytes_of(invocation->arguments[0]));
    text_addf(&path, "/kill");
    return (int)http_show(invocation, &path, true, print_killed);
}

static void print_config(const json_t *answer)
{
    static const struct column columns[] = {
        {"OPTION", 'l', "{key}"},
        {"VALUE", 'l', "{value|\"\"}"},
        {"DEFAULT", 'l', "[is_default?=][!is_default?{default|\"\"}]"},
        {"UNIT", 'l', "{unit|-}"},
        {"CHANGES", 'l', "[reloadable?with reload][!reloadable?at the start]"},
        {NULL}};
    print_array(columns, json_at(answer, "options"), "");
}

int do_config(struct invocation *invocation)
{
    struct text path = {0};
    text_addf(&path, "/api/v1/config");
    return (int)http_show(invocation, &path, false, print_config);
}

static void print_level(const json_t *answer)
{
    print_form("{level}", answer);
}

int do_loglevel(struct invocation *invocation)
{
    const char *given = invocation->count > 0 ? invocation->arguments[0] : NULL;
    struct text path = {0};
    enum log_level level;
    /* Finds an unknown level here, before we ask for a token. */
    if (given && !log_level_parse(given, &level))
        return complain_as(STATUS_USAGE, "loglevel: LEVEL is one of error, warning, info, debug");
    text_addf(&path, "/api/v1/loglevel%s%s", given ? "?level=" : "", given ? given : "");
    return (int)http_show(invocation, &path, given != NULL, print_level);
}

/* ---- reload, upgrade ------------------------------------------------------------------------- */

/*
 * Prints the lines of a report, if there is one, and frees it. A good report goes to standard
 * output, errors go to standard error; --json prints all of it.
 */
static void print_report(const struct invocation *invocation, json_t *answer, enum status status)
{
    json_t *line;
    size_t i;
    if (answer && invocation->options.json) {
        json_line(answer);
        return;
    }
    json_array_foreach(json_at(answer, "report"), i, line)
    {
        const char *text = json_string_value(line);
        print_line(status == STATUS_OK ? stdout : stderr, "%s", text ? text : "-");
    }
    json_decref(answer);
}

int do_reload(struct invocation *invocation)
{
    json_t *answer;
    enum status status = http_ask(invocation, "/api/v1/reload", true, &answer);
    if (status == STATUS_OK && !invocation->options.json &&
        json_array_size(json_at(answer, "report")) == 0)
        puts("reloaded: nothing has changed");
    print_report(invocation, answer, status);
    return (int)status;
}

/* The interval and the duration of polling for the end of an upgrade. */
#define UPGRADE_LOOK_MS 50
#define UPGRADE_NS      (120 * NS_PER_S)

/* Polls once. STATUS_OK: *answer_r is the state of the upgrade; else no server answered. */
static enum status look_at_upgrade(struct http *http, json_t **answer_r)
{
    struct http_call call = {0};
    http_run(http, &call, "/api/v1/upgrade", false);
    enum status status = http_status(&call, false);
    *answer_r = status == STATUS_OK ? json_incref(call.answer) : NULL;
    http_call_free(&call);
    return status;
}

/* Waits until the requested upgrade is over. Meanwhile the server may not answer. */
static enum status await_upgrade(struct http *http, json_t **answer_r)
{
    struct pollfd none = {.fd = -1};
    int64_t until_ns = clock_mono_ns() + UPGRADE_NS;
    while (clock_mono_ns() < until_ns) {
        (void)poll(&none, 1, UPGRADE_LOOK_MS);
        if (look_at_upgrade(http, answer_r) != STATUS_OK)
            continue;
        if (!json_is_true_at(*answer_r, "running"))
            return json_is_true_at(*answer_r, "good") ? STATUS_OK : STATUS_CONFIG;
        json_decref(*answer_r);
        *answer_r = NULL;
    }
    return complain_as(STATUS_TEMPORARY,
                       "upgrade: not finished after %d seconds; see the server's log",
                       (int)(UPGRADE_NS / NS_PER_S));
}

int do_upgrade(struct invocation *invocation)
{
    json_t *answer;
    enum status status = http_ask(invocation, "/api/v1/upgrade", true, &answer);
    if (status == STATUS_OK) {
        json_decref(answer);
        answer = NULL;
        status = await_upgrade(invocation->http, &answer);
    }
    print_report(invocation, answer, status);
    return (int)status;
}
