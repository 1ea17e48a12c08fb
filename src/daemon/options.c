/*
 * options.c - the table of options: the daemon's own, those of every protocol, and those of the
 * registry. Also finds keys, and suggests one for an unknown key.
 *
 * Values are in settings.c, their types in base/option_value.c. command_line.c reads the command
 * line, config_file.c the file.
 */
#include "daemon/options.h"

#include "base/spelling.h"
#include "daemon/options_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Messages show at most this many bytes of a wrong key. */
#define SHOWN_MAX 100

/* --- The daemon's own ------------------------------------------------------------------------ */

static const char *const log_levels[] = {
    [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARNING] = "warning", [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug", [LOG_LEVEL_DEBUG + 1] = NULL,
};
static const char *const log_outputs[] = {
    [LOG_OUTPUT_STDERR] = "stderr",
    [LOG_OUTPUT_SYSLOG] = "syslog",
    [LOG_OUTPUT_SYSLOG + 1] = NULL,
};
static const char *const log_formats[] = {
    [LOG_FORMAT_TEXT] = "text",
    [LOG_FORMAT_JSON] = "json",
    [LOG_FORMAT_JSON + 1] = NULL,
};
static const char *const tls_verifies[] = {
    [TLS_VERIFY_OFF] = "off",
    [TLS_VERIFY_OPTIONAL] = "optional",
    [TLS_VERIFY_REQUIRE] = "require",
    [TLS_VERIFY_REQUIRE + 1] = NULL,
};
static const char *const tls_versions[] = {
    [TLS_VERSION_1_2] = "1.2",
    [TLS_VERSION_1_3] = "1.3",
    [TLS_VERSION_1_3 + 1] = NULL,
};

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* Type and place of a row, for a field of struct settings. Only numbers may have a unit; texts and
 * networks are empty by default. */
#define ROW_NUMBER(member)    OPTION_IS_NUMBER(struct settings, member)
#define ROW_BOOL(member)      OPTION_IS_BOOL(struct settings, member), .unit = ""
#define ROW_PORT(member)      OPTION_IS_PORT(struct settings, member), .unit = ""
#define ROW_SIZE(member)      OPTION_IS_SIZE(struct settings, member), .unit = ""
#define ROW_CHOICE(member)    OPTION_IS_CHOICE(struct settings, member), .unit = ""
#define ROW_ADDRESSES(member) OPTION_IS_ADDRESSES(struct settings, member), .unit = ""
#define ROW_STRING(member)    OPTION_IS_STRING(struct settings, member), .unit = "", .default_text = ""
#define ROW_NETWORKS(member)                                                                       \
    OPTION_IS_NETWORKS(struct settings, member), .unit = "", .default_text = ""

/* Formatted by hand: one paragraph for each row. */
/* clang-format off */

/* Options of the workers, under the prefix "counter". */
static const struct option_row worker_rows[] = {
    { .key = "threads", ROW_NUMBER(threads), .max = 256,
      .default_text = "0", .unit = "",
      .help = "worker threads, for all protocols; 0: one per core" },
    { .key = "busy_poll", ROW_NUMBER(busy_poll), .max = 1000000,
      .default_text = "0", .unit = "microseconds",
      .help = "how long a worker looks for requests before it sleeps; 0: not at all" },
};

static const struct option_row daemon_rows[] = {
    { .key = "tls.cert", ROW_STRING(tls_cert), .reloadable = true,
      .help = "PEM file with the server's certificate and intermediate certificates" },
    { .key = "tls.key", ROW_STRING(tls_key), .reloadable = true,
      .help = "PEM file with its private key; empty: the key is in tls.cert" },
    { .key = "tls.ca", ROW_STRING(tls_ca), .reloadable = true,
      .help = "PEM file with the CAs that sign client certificates" },
    { .key = "tls.verify_client", ROW_CHOICE(tls_verify_client), .choices = tls_verifies,
      .default_text = "off", .reloadable = true,
      .help = "ask TLS clients for a certificate, or require one" },
    { .key = "tls.min_version", ROW_CHOICE(tls_min_version), .choices = tls_versions,
      .default_text = "1.2", .reloadable = true,
      .help = "oldest accepted version of TLS" },
    { .key = "tls.handshake_timeout", ROW_NUMBER(tls_handshake_timeout), .min = 1, .max = 3600,
      .default_text = "10", .unit = "seconds", .reloadable = true,
      .help = "close a connection whose TLS handshake takes longer" },
    { .key = "tls.max_handshakes", ROW_NUMBER(tls_max_handshakes), .max = UINT32_MAX,
      .default_text = "1000", .unit = "", .reloadable = true,
      .help = "most TLS handshakes at once, others are closed; 0: no limit" },

    { .key = "access.allow", ROW_NETWORKS(access_allow), .reloadable = true,
      .help = "addresses and networks whose clients are served; empty: all" },
    { .key = "access.max_per_source", ROW_NUMBER(access_max_per_source), .max = UINT32_MAX,
      .default_text = "0", .unit = "", .reloadable = true,
      .help = "most connections from one address at once; 0: no limit" },

    { .key = "limits.request_timeout", ROW_NUMBER(limits_request_timeout), .min = 1, .max = 3600,
      .default_text = "30", .unit = "seconds", .reloadable = true,
      .help = "close a connection whose request is unfinished after this time" },
    { .key = "limits.write_timeout", ROW_NUMBER(limits_write_timeout), .min = 1, .max = 3600,
      .default_text = "30", .unit = "seconds", .reloadable = true,
      .help = "close a connection whose client reads no answers for this time" },
    { .key = "limits.output_buffer", ROW_SIZE(limits_output_buffer), .min = 16 * KIB,
      .max = 16 * MIB, .default_text = "256K", .reloadable = true,
      .help = "stop reading from a client with this much queued output until it takes some" },
    { .key = "limits.unfinished", ROW_SIZE(limits_unfinished), .min = MIB, .max = 32 * GIB,
      .default_text = "256M", .reloadable = true,
      .help = "most memory for unfinished requests of all connections together" },

    { .key = "admin.port", ROW_PORT(admin_port), .default_text = "7532",
      .help = "TCP port of metrics, status page and HTTP API; 0: none" },
    { .key = "admin.listen", ROW_ADDRESSES(admin_listen), .default_text = "127.0.0.1, ::1",
      .help = "addresses of that port; every client that reaches them can read everything" },
    { .key = "admin.token", ROW_STRING(admin_token), .secret = true, .digest = true,
      .reloadable = true,
      .help = "token for requests to the HTTP API that change something; empty: no changes" },
    { .key = "admin.token_file", ROW_STRING(admin_token_file), .reloadable = true,
      .help = "file whose first line is that token, instead of admin.token" },
    { .key = "admin.hosts", ROW_STRING(admin_hosts), .reloadable = true,
      .help = "accepted host names, besides addresses and the machine's; *: any" },

    { .key = "shutdown.drain", ROW_NUMBER(shutdown_drain), .max = 86400, .default_text = "0",
      .unit = "s", .reloadable = true,
      .help = "how long after SIGTERM clients may keep what they hold; 0: the daemon ends at once" },

    { .key = "log.level", ROW_CHOICE(log_level), .choices = log_levels, .default_text = "info",
      .reloadable = true,
      .help = "least important lines that are logged" },
    { .key = "log.output", ROW_CHOICE(log_output), .choices = log_outputs, .default_text = "stderr",
      .help = "where lines are logged" },
    { .key = "log.format", ROW_CHOICE(log_format), .choices = log_formats, .default_text = "text",
      .help = "format of a line: text for people, or a JSON object" },

    { .key = "upgrade.timeout", ROW_NUMBER(upgrade_timeout), .min = 1, .max = 600,
      .default_text = "5", .unit = "seconds", .reloadable = true,
      .help = "how long a new program may take to show that it can take over" },

    { .key = "user", ROW_STRING(user),
      .help = "user to become when started as root" },
    { .key = "group", ROW_STRING(group),
      .help = "group to become when started as root, if not the user's own" },
    { .key = "pid_file", ROW_STRING(pid_file),
      .help = "file to write the process id to" },

    { .key = "security.sandbox", ROW_BOOL(security_sandbox), .default_text = "true",
      .help = "drop rights and system calls that the daemon does not need" },
};

/* Options of every protocol. {} is the protocol's title; a NULL text comes from the protocol. */
static const struct option_row protocol_rows[] = {
    { .key = "enable", OPTION_IS_BOOL(struct settings_protocol, enable), .unit = "" },
    { .key = "port", OPTION_IS_PORT(struct settings_protocol, port), .unit = "",
      .help = "TCP port of the {} protocol; 0: any free one" },
    { .key = "listen", OPTION_IS_ADDRESSES(struct settings_protocol, listen), .by_l = true,
      .default_text = "127.0.0.1, ::1", .unit = "",
      .help = "addresses on which the {} protocol is served" },
    { .key = "plain", OPTION_IS_BOOL(struct settings_protocol, plain),
      .default_text = "true", .unit = "",
      .help = "serve {} on that port; false: only with TLS and on its unix socket" },
    { .key = "tls_port", OPTION_IS_PORT(struct settings_protocol, tls_port),
      .default_text = "0", .unit = "",
      .help = "TCP port of the {} protocol with TLS; 0: none" },
    { .key = "socket", OPTION_IS_STRING(struct settings_protocol, socket),
      .default_text = "", .unit = "",
      .help = "unix socket of the {} protocol; @NAME: an abstract one" },
    { .key = "socket_mode", OPTION_IS_MODE(struct settings_protocol, socket_mode),
      .default_text = "0660", .unit = "",
      .help = "permissions of that socket" },
    { .key = "max_connections", OPTION_IS_NUMBER(struct settings_protocol, max_connections),
      .max = UINT32_MAX, .default_text = "0", .unit = "", .reloadable = true,
      .help = "most {} connections at once; 0: no limit" },
};
/* clang-format on */

/* Size 0: the values are fields of struct settings. */
static const struct option_group worker_group = {
    .prefix = "counter", .rows = worker_rows, .count = ARRAY_SIZE(worker_rows)};
static const struct option_group daemon_group = {
    .prefix = "", .rows = daemon_rows, .count = ARRAY_SIZE(daemon_rows)};

/* --- The table ------------------------------------------------------------------------------- */

/* Stands for all names of a family. */
#define ANY_NAME "NAME"

/* The most bytes of a help text with a protocol's title. */
#define HELP_MAX 160

/* The common options of one protocol; part of the table. */
struct protocol_group {
    struct option_group group;
    struct option_row rows[ARRAY_SIZE(protocol_rows)];
    char help[ARRAY_SIZE(protocol_rows)][HELP_MAX];
};

/* Puts a protocol's title into a help text, which may get a copy in `to` by that. */
static const char *help_with(const char *title, const char *help, char to[HELP_MAX])
{
    const char *place = strstr(help, "{}");
    if (!place)
        return help;
    int len = snprintf(to, HELP_MAX, "%.*s%s%s", (int)(place - help), help, title, place + 2);
    CHECK(len < HELP_MAX);
    return to;
}

/* Fills in the group of one protocol. */
static void fill_protocol_group(struct protocol_group *of, const struct option_protocol *protocol)
{
    memcpy(of->rows, protocol_rows, sizeof protocol_rows);
    for (size_t i = 0; i < ARRAY_SIZE(protocol_rows); i++) {
        struct option_row *row = &of->rows[i];
        if (!row->default_text)
            row->default_text = row->type == &option_bool ? protocol->enable : protocol->port;
        row->help = row->help ? help_with(protocol->title, row->help, of->help[i]) : protocol->help;
    }
    of->group = (struct option_group){.prefix = protocol->name,
                                      .rows = of->rows,
                                      .count = ARRAY_SIZE(protocol_rows),
                                      .size = sizeof(struct settings_protocol)};
}

/* Makes "PREFIX.NAME.KEY"; leaves out an empty prefix and a NULL name. The caller frees it. NULL:
 * no memory, or `key` is NULL. */
static char *whole_key(const struct option_group *group, const char *name, const char *key)
{
    char *whole;
    int len = !key ? -1
                   : asprintf(&whole, "%s%s%s%s%s", group->prefix, *group->prefix ? "." : "",
                              name ? name : "", name ? "." : "", key);
    return len < 0 ? NULL : whole;
}

struct table_row *table_make_rows(size_t number, const struct option_group *group, const char *name)
{
    struct table_row *rows = calloc(group->count, sizeof *rows);
    bool good = rows != NULL;
    for (size_t i = 0; good && i < group->count; i++) {
        const struct option_row *row = &group->rows[i];
        rows[i] = (struct table_row){.row = *row, .group = number, .index = i, .name = name};
        rows[i].row.key = rows[i].key = whole_key(group, name, row->key);
        rows[i].row.alias = rows[i].alias = whole_key(group, name, row->alias);
        good = rows[i].key && (rows[i].alias || !row->alias);
    }
    if (!good && rows)
        table_free_rows(rows, group);
    return good ? rows : NULL;
}

void table_free_rows(struct table_row *rows, const struct option_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        free(rows[i].key);
        free(rows[i].alias);
    }
    free(rows);
}

/* True if prefix `a` comes after `b`; "" is last. */
static bool is_after(const char *a, const char *b)
{
    return *a && *b ? strcmp(a, b) > 0 : !*a && *b;
}

/* Inserts a group after those with its prefix. */
static void add_group(struct table *table, const struct option_group *group)
{
    size_t i = table->count++;
    CHECK(i < TABLE_GROUPS_MAX);
    for (; i > 0 && is_after(table->groups[i - 1].is->prefix, group->prefix); i--)
        table->groups[i] = table->groups[i - 1];
    table->groups[i].is = group;
}

const struct option_protocol *options_protocol_at(size_t i)
{
    return option_registry.protocols[i];
}

/* Fills in the table's groups. */
static void add_groups(struct table *table)
{
    static struct protocol_group common[OPTION_PROTOCOLS_MAX];
    const struct option_protocol *protocol;
    for (size_t i = 0; (protocol = options_protocol_at(i)); i++) {
        CHECK(i < OPTION_PROTOCOLS_MAX);
        fill_protocol_group(&common[i], protocol);
        add_group(table, &common[i].group);
        if (protocol->own)
            add_group(table, protocol->own);
    }
    for (size_t i = 0; option_registry.groups[i]; i++)
        add_group(table, option_registry.groups[i]);
    add_group(table, &worker_group);
    add_group(table, &daemon_group);
    for (size_t i = 0; options_protocol_at(i); i++)
        while (table->groups[table->protocol[i]].is != &common[i].group)
            table->protocol[i]++;
}

/* Never freed: rows and keys of the table stay valid until the process ends. */
const struct table *options_table(void)
{
    static struct table table;
    static bool made;
    if (made)
        return &table;
    table = (struct table){.count = 0};
    add_groups(&table);
    for (size_t i = 0; i < table.count; i++) {
        const struct option_group *group = table.groups[i].is;
        table.groups[i].rows = table_make_rows(i, group, group->names_max ? ANY_NAME : NULL);
        if (!table.groups[i].rows) {
            while (i-- > 0)
                table_free_rows(table.groups[i].rows, table.groups[i].is);
            return NULL;
        }
    }
    made = true;
    return &table;
}

const struct option_row *options_row_at(size_t index)
{
    const struct table *table = options_table();
    for (size_t i = 0; table && i < table->count; i++) {
        if (index < table->groups[i].is->count)
            return &table->groups[i].rows[index].row;
        index -= table->groups[i].is->count;
    }
    return NULL;
}

static bool is_key_of(const char *key, const struct option_row *row)
{
    return strcmp(key, row->key) == 0 || (row->alias && strcmp(key, row->alias) == 0);
}

const struct option_row *options_find(const char *key)
{
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++)
        if (is_key_of(key, row))
            return row;
    return NULL;
}

/* --- Finding the row to set ------------------------------------------------------------------ */

/*
 * If some keys end in a dot and `key`, suggests these in reason_r. Returns false if there are none.
 */
static bool say_keys_of_word(const char *key, char *reason_r)
{
    struct option_text reason = {.to = reason_r, .size = OPTIONS_REASON_SIZE};
    const struct option_row *row;
    for (size_t i = 0; (row = options_row_at(i)); i++) {
        const char *dot = strrchr(row->key, '.');
        if (!dot || strcmp(dot + 1, key) != 0)
            continue;
        if (reason.len == 0)
            option_text_add(&reason, "unknown key \"%s\"; did you mean \"%s\"", key, row->key);
        else
            option_text_add(&reason, " or \"%s\"", row->key);
    }
    if (reason.len > 0)
        option_text_add(&reason, "?");
    return reason.len > 0;
}

/* Writes that the key is unknown, and suggests `near` unless it is NULL. */
static void say_unknown(const char *key, const char *near, char *reason_r)
{
    option_say(reason_r, "unknown key \"%.*s%s\"%s%s%s", SHOWN_MAX, key,
               strlen(key) > SHOWN_MAX ? "..." : "",
               near ? "; did you mean \"" : "; counterd --help lists the keys", near ? near : "",
               near ? "\"?" : "");
}

/* The word nearest to another, or NULL. Allows fewer mistakes in a short word. */
static const char *nearest(const char *word, const char *(*word_at)(size_t index))
{
    size_t len = strlen(word);
    return spelling_nearest(word, word_at, len < 4 ? 1 : len < 10 ? 2 : 3);
}

static const char *key_at(size_t index)
{
    const struct option_row *row = options_row_at(index);
    return row ? row->key : NULL;
}

static void say_unknown_key(const char *key, char *reason_r)
{
    if (!say_keys_of_word(key, reason_r))
        say_unknown(key, nearest(key, key_at), reason_r);
}

/* The parts of a family's key. */
struct family_key {
    size_t number; /* of the group in the table */
    const struct option_group *group;
    const char *name;
    size_t name_len;
    const char *last; /* the part after the name */
};

/* Splits a key. Returns false unless it is of the form PREFIX.NAME.KEY with a family's prefix. */
static bool take_apart(const char *key, struct family_key *parts_r)
{
    const struct table *table = options_table();
    for (size_t i = 0; i < table->count; i++) {
        const struct option_group *group = table->groups[i].is;
        size_t len = strlen(group->prefix);
        if (group->names_max == 0 || strncmp(key, group->prefix, len) != 0 || key[len] != '.')
            continue;
        const char *name = key + len + 1, *dot = strchr(name, '.');
        if (!dot)
            continue;
        *parts_r = (struct family_key){i, group, name, (size_t)(dot - name), dot + 1};
        return true;
    }
    return false;
}

static bool is_name(const char *name, size_t len)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    return len > 0 && len <= OPTION_NAME_MAX && strspn(name, letters) >= len;
}

/* The group for key_of_family_at; main thread only. */
static const struct option_group *looked_at;

static const char *key_of_family_at(size_t index)
{
    return index < looked_at->count ? looked_at->rows[index].key : NULL;
}

static const struct option_row *set_family_key(struct settings *settings, const char *key,
                                               const struct family_key *parts, char *reason_r)
{
    size_t i = 0;
    while (i < parts->group->count && !is_key_of(parts->last, &parts->group->rows[i]))
        i++;
    if (i == parts->group->count) {
        char whole[SHOWN_MAX * 2];
        looked_at = parts->group;
        const char *near = nearest(parts->last, key_of_family_at);
        snprintf(whole, sizeof whole, "%.*s%s", (int)(parts->last - key), key, near ? near : "");
        say_unknown(key, near ? whole : NULL, reason_r);
        return NULL;
    }
    if (!is_name(parts->name, parts->name_len)) {
        option_say(reason_r, "\"%.*s\" is not a name of 1 to %d letters, digits, _ and -",
                   parts->name_len > SHOWN_MAX ? SHOWN_MAX : (int)parts->name_len, parts->name,
                   OPTION_NAME_MAX);
        return NULL;
    }
    const struct table_row *rows =
        settings_open(settings, parts->number, parts->name, parts->name_len, reason_r);
    return rows ? &rows[i].row : NULL;
}

const struct option_row *options_to_set(struct settings *settings, const char *key, char *reason_r)
{
    const struct option_row *row = options_find(key);
    struct family_key parts;
    if ((!row || table_row_of(row)->name) && take_apart(key, &parts))
        return set_family_key(settings, key, &parts, reason_r);
    if (!row)
        say_unknown_key(key, reason_r);
    return row;
}

/* --- Messages -------------------------------------------------------------------------------- */

void options_complain(FILE *err, const char *format, ...)
{
    char text[1024];
    va_list values;
    va_start(values, format);
    int len = vsnprintf(text, sizeof text, format, values);
    va_end(values);

    fputs("counterd: ", err);
    for (const char *c = text; len > 0 && *c; c++) {
        if (*c >= 0x20 && *c < 0x7f)
            fputc(*c, err);
        else
            fprintf(err, "\\x%02x", (unsigned)(unsigned char)*c);
    }
    fputs(len >= (int)sizeof text ? "...\n" : "\n", err);
}
