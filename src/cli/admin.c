/*
 * admin.c - the commands that use the admin interface: contended, holders, connections, kill,
 * config, reload, upgrade, loglevel.
 *
 * Each requests one or more pages of JSON and prints them as columns, or unchanged with --json.
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

/* ---- common ------------------------------------------------------------------------------ */

typedef enum status (*admin_work)(struct invocation *invocation, struct http *http);

/* Runs `work` with the interface; `with_token` if it changes something. */
static int with_http(struct invocation *invocation, bool with_token, admin_work work)
{
    struct http *http = http_new(&invocation->loop, &invocation->options);
    if (!http)
        return STATUS_USAGE;
    enum status status = with_token ? http_read_token(http, &invocation->options) : STATUS_OK;
    if (status == STATUS_OK)
        status = work(invocation, http);
    http_free(&http);
    return (int)status;
}

/* Requests the page at `path` and frees `path`. With --json prints it and sets *answer_r to NULL.
 */
static enum status ask_page(const struct invocation *invocation, struct http *http,
                            struct text *path, bool is_post, json_t **answer_r)
{
    enum status status = http_ask(http, text_str(path), is_post, answer_r);
    if (*answer_r && (status != STATUS_OK || invocation->options.json)) {
        if (invocation->options.json)
            json_line(*answer_r, stdout);
        else
            json_decref(*answer_r);
        *answer_r = NULL;
    }
    text_free(path);
    return status;
}

/* A number of a row as text without decimals; "-" when it is missing. */
static const char *number_cell(const json_t *row, const char *key, char to[NUMBER_TEXT])
{
    double number = json_number_at(row, key, -1);
    if (number >= 0)
        snprintf(to, NUMBER_TEXT, "%.0f", number);
    else
        snprintf(to, NUMBER_TEXT, "-");
    return to;
}

static void add_number(struct columns *columns, const json_t *row, const char *key)
{
    char text[NUMBER_TEXT];
    columns_add_text(columns, number_cell(row, key, text));
}

static void add_seconds(struct columns *columns, const json_t *row, const char *key)
{
    char text[NUMBER_TEXT];
    columns_add_text(columns, seconds_text(json_number_at(row, key, -1), text));
}

static void add_string(struct columns *columns, const json_t *row, const char *key)
{
    columns_add(columns, "%s", json_text_at(row, key, "-"));
}

/* ---- contended --------------------------------------------------------------------------- */

static void add_contended(struct columns *columns, const json_t *row)
{
    char text[NUMBER_TEXT];
    bool exists = json_is_true_at(row, "exists");
    add_number(columns, row, "in_use");
    add_number(columns, row, "peak");
    add_number(columns, row, "limit");
    add_number(columns, row, "waiting");
    columns_add(columns, "%.2f", json_number_at(row, "waiting_load", 0));
    columns_add_text(columns, count_text(json_number_at(row, "refused_per_second", -1), text));
    columns_add(columns, "%s%s%s", json_text_at(row, "name", "-"),
                json_is_true_at(row, "truncated") ? "..." : "", exists ? "" : "  (gone)");
}

static enum status contended(struct invocation *invocation, struct http *http)
{
    const struct options *options = &invocation->options;
    struct text path = {0};
    json_t *answer, *row;
    size_t i;
    text_addf(&path, "/api/v1/contended?by=%s&limit=%u", by_words[options->by],
              options->limit ? options->limit : 20);
    enum status status = ask_page(invocation, http, &path, false, &answer);
    if (status == STATUS_OK && answer) {
        struct columns columns = {
            .heads = {"IN USE", "PEAK", "LIMIT", "WAITING", "LOAD", "REFUSED/S", "NAME"},
            .align = "rrrrrrl"};
        json_array_foreach(json_at(answer, "names"), i, row) add_contended(&columns, row);
        columns_print(&columns, "", stdout);
        columns_free(&columns);
    }
    json_decref(answer);
    return status;
}

int do_contended(struct invocation *invocation)
{
    return with_http(invocation, false, contended);
}

/* ---- holders ----------------------------------------------------------------------------- */

static void print_holders(const json_t *answer)
{
    json_t *row;
    size_t i;
    struct columns holders = {
        .heads = {"CONNECTION", "PROTOCOL", "UNITS", "LIMIT", "HELD", "CLIENT"}, .align = "llrrrl"};
    struct columns waiters = {
        .heads = {"CONNECTION", "PROTOCOL", "UNITS", "LIMIT", "WAITED", "FOR", "CLIENT"},
        .align = "llrrrll"};
    json_array_foreach(json_at(answer, "holders"), i, row)
    {
        add_string(&holders, row, "connection");
        add_string(&holders, row, "protocol");
        add_number(&holders, row, "units");
        add_number(&holders, row, "limit");
        add_seconds(&holders, row, "held_seconds");
        add_string(&holders, row, "client");
    }
    json_array_foreach(json_at(answer, "waiters"), i, row)
    {
        add_string(&waiters, row, "connection");
        add_string(&waiters, row, "protocol");
        add_number(&waiters, row, "units");
        add_number(&waiters, row, "limit");
        add_seconds(&waiters, row, "waited_seconds");
        add_string(&waiters, row, "kind");
        add_string(&waiters, row, "client");
    }
    double total = json_number_at(answer, "holders_total", 0);
    printf("holders: %zu of %.0f\n", json_array_size(json_at(answer, "holders")), total);
    columns_print(&holders, "  ", stdout);
    printf("waiters: %zu of %.0f\n", json_array_size(json_at(answer, "waiters")),
           json_number_at(answer, "waiting", 0));
    columns_print(&waiters, "  ", stdout);
    columns_free(&holders);
    columns_free(&waiters);
}

static enum status holders(struct invocation *invocation, struct http *http)
{
    struct text name = {0}, path = {0};
    json_t *answer = NULL;
    enum status status = STATUS_USAGE;
    if (read_name(invocation, invocation->arguments[0], &name)) {
        text_addf(&path, "/api/v1/names/");
        text_add_percent(&path, text_bytes(&name));
        status = ask_page(invocation, http, &path, false, &answer);
    }
    if (status == STATUS_OK && answer) {
        struct text shown = {0};
        text_add_name(&shown, text_bytes(&name));
        printf("%s: %.0f in use, peak %.0f, limit of the last request %.0f\n", text_str(&shown),
               json_number_at(answer, "in_use", 0), json_number_at(answer, "peak", 0),
               json_number_at(answer, "limit", 0));
        text_free(&shown);
        print_holders(answer);
    }
    json_decref(answer);
    text_free(&name);
    return status;
}

int do_holders(struct invocation *invocation)
{
    return with_http(invocation, false, holders);
}

/* ---- connections ------------------------------------------------------------------------- */

static void add_connection(struct columns *columns, const json_t *row)
{
    add_string(columns, row, "connection");
    add_string(columns, row, "protocol");
    add_string(columns, row, "transport");
    add_seconds(columns, row, "age_seconds");
    add_number(columns, row, "holds");
    add_number(columns, row, "waits");
    add_number(columns, row, "queued_bytes");
    add_string(columns, row, "client");
}

/* The path of the page at `cursor` (NULL: the first), with `count` rows. */
static void page_path(const struct options *options, const char *cursor, uint64_t count,
                      struct text *path)
{
    text_clear(path);
    text_addf(path, "/api/v1/connections?limit=%" PRIu64, count < PAGE_MAX ? count : PAGE_MAX);
    if (options->protocol) {
        text_addf(path, "&protocol=");
        text_add_percent(path, bytes_of(options->protocol));
    }
    if (cursor) {
        text_addf(path, "&cursor=");
        text_add_percent(path, bytes_of(cursor));
    }
}

/* Adds or prints the rows of a page, at most *left of them. */
static void take_connections(const struct options *options, const json_t *answer,
                             struct columns *columns, uint64_t *left)
{
    json_t *row;
    size_t i;
    json_array_foreach(json_at(answer, "connections"), i, row)
    {
        if (*left == 0)
            break;
        --*left;
        if (options->json)
            json_line(json_incref(row), stdout);
        else
            add_connection(columns, row);
    }
}

static enum status connections(struct invocation *invocation, struct http *http)
{
    const struct options *options = &invocation->options;
    struct columns columns = {
        .heads = {"CONNECTION", "PROTOCOL", "OVER", "AGE", "HOLDS", "WAITS", "QUEUED", "CLIENT"},
        .align = "lllrrrrl"};
    struct text path = {0}, cursor = {0};
    uint64_t left = options->limit ? options->limit : UINT64_MAX;
    unsigned pages = 0;
    bool is_over = false;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !is_over && left > 0) {
        json_t *answer;
        if (pages++ == PAGES_MAX) {
            complain("connections: the list of %s does not end", http_where(http));
            status = STATUS_PROTOCOL;
            break;
        }
        page_path(options, cursor.len ? text_str(&cursor) : NULL, left, &path);
        status = http_ask(http, text_str(&path), false, &answer);
        if (status == STATUS_OK) {
            const char *next = json_text_at(answer, "cursor", "");
            take_connections(options, answer, &columns, &left);
            /* Neither a cursor that does not move nor a page without rows leads to an end. */
            is_over = !*next || strcmp(next, text_str(&cursor)) == 0 ||
                      json_array_size(json_at(answer, "connections")) == 0;
            text_clear(&cursor);
            text_add(&cursor, next, strlen(next));
        }
        json_decref(answer);
    }
    columns_print(&columns, "", stdout);
    columns_free(&columns);
    text_free(&path);
    text_free(&cursor);
    return status;
}

int do_connections(struct invocation *invocation)
{
    return with_http(invocation, false, connections);
}

/* ---- kill -------------------------------------------------------------------------------- */

static enum status kill_connection(struct invocation *invocation, struct http *http)
{
    struct text path = {0};
    json_t *answer;
    text_addf(&path, "/api/v1/connections/");
    text_add_percent(&path, bytes_of(invocation->arguments[0]));
    text_addf(&path, "/kill");
    enum status status = ask_page(invocation, http, &path, true, &answer);
    if (status == STATUS_OK && answer)
        print_line(stdout, "killed %s", json_text_at(answer, "killed", "-"));
    json_decref(answer);
    return status;
}

int do_kill(struct invocation *invocation)
{
    return with_http(invocation, true, kill_connection);
}

/* ---- config, reload, upgrade, loglevel --------------------------------------------------- */

static enum status config(struct invocation *invocation, struct http *http)
{
    struct text path = {0};
    json_t *answer, *row;
    size_t i;
    text_addf(&path, "/api/v1/config");
    enum status status = ask_page(invocation, http, &path, false, &answer);
    if (status == STATUS_OK && answer) {
        struct columns columns = {.heads = {"OPTION", "VALUE", "DEFAULT", "UNIT", "CHANGES"},
                                  .align = "lllll"};
        json_array_foreach(json_at(answer, "options"), i, row)
        {
            const char *value = json_text_at(row, "value", "-");
            const char *by_default = json_text_at(row, "default", "-");
            const char *unit = json_text_at(row, "unit", "");
            add_string(&columns, row, "key");
            columns_add(&columns, "%s", *value ? value : "\"\"");
            columns_add(&columns, "%s",
                        json_is_true_at(row, "is_default") ? "="
                        : *by_default                      ? by_default
                                                           : "\"\"");
            columns_add(&columns, "%s", *unit ? unit : "-");
            columns_add(&columns, "%s",
                        json_is_true_at(row, "reloadable") ? "with reload" : "at the start");
        }
        columns_print(&columns, "", stdout);
        columns_free(&columns);
    }
    json_decref(answer);
    return status;
}

int do_config(struct invocation *invocation)
{
    return with_http(invocation, false, config);
}

/*
 * Prints the lines of a report, if there is one, and frees it. A good report goes to standard
 * output, errors go to standard error; --json prints all of it.
 */
static void print_report(const struct invocation *invocation, json_t *answer, enum status status)
{
    json_t *line;
    size_t i;
    if (answer && invocation->options.json) {
        json_line(answer, stdout);
        return;
    }
    json_array_foreach(json_at(answer, "report"), i, line)
    {
        const char *text = json_string_value(line);
        print_line(status == STATUS_OK ? stdout : stderr, "%s", text ? text : "-");
    }
    json_decref(answer);
}

static enum status reload(struct invocation *invocation, struct http *http)
{
    json_t *answer;
    enum status status = http_ask(http, "/api/v1/reload", true, &answer);
    if (status == STATUS_OK && !invocation->options.json &&
        json_array_size(json_at(answer, "report")) == 0)
        puts("reloaded: nothing has changed");
    print_report(invocation, answer, status);
    return status;
}

int do_reload(struct invocation *invocation)
{
    return with_http(invocation, true, reload);
}

/* The interval and the duration of polling for the end of an upgrade. */
#define UPGRADE_LOOK_MS 50
#define UPGRADE_NS      (120 * NS_PER_S)

/* Polls once. STATUS_OK: *answer_r is the state of the upgrade; else no server answered. */
static enum status look_at_upgrade(struct http *http, json_t **answer_r)
{
    struct http_call call = {0};
    http_run(http, &call, "/api/v1/upgrade", false);
    enum status status = http_status(http, &call, false);
    *answer_r = status == STATUS_OK ? json_incref(call.answer) : NULL;
    http_call_free(http, &call);
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
    complain("upgrade: not finished after %d seconds; see the server's log",
             (int)(UPGRADE_NS / NS_PER_S));
    return STATUS_TEMPORARY;
}

static enum status upgrade(struct invocation *invocation, struct http *http)
{
    json_t *answer;
    enum status status = http_ask(http, "/api/v1/upgrade", true, &answer);
    if (status == STATUS_OK) {
        json_decref(answer);
        answer = NULL;
        status = await_upgrade(http, &answer);
    }
    print_report(invocation, answer, status);
    return status;
}

int do_upgrade(struct invocation *invocation)
{
    return with_http(invocation, true, upgrade);
}

static enum status loglevel(struct invocation *invocation, struct http *http)
{
    struct text path = {0};
    json_t *answer;
    bool is_set = invocation->count > 0;
    text_addf(&path, "/api/v1/loglevel");
    if (is_set) {
        text_addf(&path, "?level=");
        text_add_percent(&path, bytes_of(invocation->arguments[0]));
    }
    enum status status = ask_page(invocation, http, &path, is_set, &answer);
    if (status == STATUS_OK && answer)
        print_line(stdout, "%s", json_text_at(answer, "level", "-"));
    json_decref(answer);
    return status;
}

int do_loglevel(struct invocation *invocation)
{
    bool is_set = invocation->count > 0;
    enum log_level level;
    /* Finds an unknown level here, before we ask for a token. */
    if (is_set && !log_level_parse(invocation->arguments[0], &level)) {
        complain("loglevel: LEVEL is one of error, warning, info, debug");
        return STATUS_USAGE;
    }
    return with_http(invocation, is_set, loglevel);
}
