/*
 * options.c - the table of options; reading, printing and suggesting its values.
 *
 * A value travels as text until options_assign, the one place that looks at the type of its row and
 * writes the field. The command line is read in command_line.c, the file in config_file.c.
 */
#include "daemon/options.h"

#include "admin/token.h"
#include "base/number.h"
#include "base/spelling.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* How much of a wrong value a message shows. */
#define SHOWN_MAX 100

/* --- The table ------------------------------------------------------------------------------- */

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

/* The place of a field, and a check by the compiler that the field is of the row's type. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses */
#define FIELD(member, c_type)                                                                      \
    (offsetof(struct settings, member) +                                                           \
     0 * sizeof(char[_Generic(&((struct settings *)NULL)->member, c_type * : 1)]))
/* NOLINTEND(bugprone-macro-parentheses) */

#define ROW_BOOL(member)   .type = OPTIONS_BOOL, .offset = FIELD(member, bool)
#define ROW_PORT(member)   .type = OPTIONS_PORT, .max = UINT16_MAX, .offset = FIELD(member, uint16_t)
#define ROW_NUMBER(member) .type = OPTIONS_NUMBER, .offset = FIELD(member, uint32_t)
#define ROW_SIZE(member)   .type = OPTIONS_SIZE, .offset = FIELD(member, uint64_t)
#define ROW_CHOICE(member) .type = OPTIONS_CHOICE, .offset = FIELD(member, unsigned)
#define ROW_STRING(member) .type = OPTIONS_STRING, .offset = FIELD(member, char *)
#define ROW_MODE(member)   .type = OPTIONS_MODE, .max = 0777, .offset = FIELD(member, uint32_t)
#define ROW_ADDRESSES(member)                                                                      \
    .type = OPTIONS_ADDRESSES, .offset = FIELD(member, struct settings_addresses)

#define ROW_NETWORKS(member)                                                                       \
    .type = OPTIONS_NETWORKS, .offset = FIELD(member, struct settings_networks)

/* Out of the formatter's hands, so that a row reads like a row. */
/* clang-format off */
static const struct options_row rows[] = {
    { .key = "counter.enable", ROW_BOOL(counter.enable),
      .default_text = "false", .unit = "",
      .help = "serve the binary Counter protocol" },
    { .key = "counter.port", ROW_PORT(counter.port),
      .default_text = "11215", .unit = "",
      .help = "TCP port of the Counter protocol; 0: any free one" },
    { .key = "counter.listen", ROW_ADDRESSES(counter.listen), .by_l = true,
      .default_text = "127.0.0.1, ::1", .unit = "",
      .help = "addresses on which the Counter protocol is served" },
    { .key = "counter.plain", ROW_BOOL(counter.plain),
      .default_text = "true", .unit = "",
      .help = "serve Counter on that port; false: only with TLS and on its unix socket" },
    { .key = "counter.tls_port", ROW_PORT(counter.tls_port),
      .default_text = "0", .unit = "",
      .help = "TCP port of the Counter protocol with TLS; 0: none" },
    { .key = "counter.socket", ROW_STRING(counter.socket),
      .default_text = "", .unit = "",
      .help = "unix socket of the Counter protocol; @NAME: an abstract one" },
    { .key = "counter.socket_mode", ROW_MODE(counter.socket_mode),
      .default_text = "0660", .unit = "",
      .help = "permissions of that socket" },
    { .key = "counter.max_connections", ROW_NUMBER(counter.max_connections), .max = UINT32_MAX,
      .default_text = "0", .unit = "", .reloadable = true,
      .help = "most Counter connections at once; 0: no limit" },
    { .key = "counter.buckets", ROW_NUMBER(counter_buckets), .min = 1, .max = 1000000000,
      .default_text = "16384", .unit = "",
      .help = "how many names the table is made for; it grows when there are more" },
    { .key = "counter.stats_interval", .alias = "counter.stat_interval",
      ROW_NUMBER(counter_stats_interval), .min = 1, .max = UINT32_MAX,
      .default_text = "86400", .unit = "seconds",
      .help = "interval over which the peak consumption of a counter is taken" },
    { .key = "counter.memory_limit", ROW_SIZE(counter_memory_limit), .min = 16 * MIB,
      .max = 32 * GIB, .default_text = "1G", .unit = "",
      .help = "most memory for names, units and waiters of all protocols" },
    { .key = "counter.threads", ROW_NUMBER(counter_threads), .max = 256,
      .default_text = "0", .unit = "",
      .help = "worker threads, for all protocols; 0: one per core" },
    { .key = "counter.busy_poll", ROW_NUMBER(counter_busy_poll), .max = 1000000,
      .default_text = "0", .unit = "microseconds",
      .help = "how long a worker looks for requests before it sleeps; 0: not at all" },

    { .key = "poolcounter.enable", ROW_BOOL(poolcounter.enable),
      .default_text = "true", .unit = "",
      .help = "serve the PoolCounter text protocol" },
    { .key = "poolcounter.port", ROW_PORT(poolcounter.port),
      .default_text = "7531", .unit = "",
      .help = "TCP port of the PoolCounter protocol; 0: any free one" },
    { .key = "poolcounter.listen", ROW_ADDRESSES(poolcounter.listen), .by_l = true,
      .default_text = "127.0.0.1, ::1", .unit = "",
      .help = "addresses on which the PoolCounter protocol is served" },
    { .key = "poolcounter.plain", ROW_BOOL(poolcounter.plain),
      .default_text = "true", .unit = "",
      .help = "serve PoolCounter on that port; false: only with TLS and on its unix socket" },
    { .key = "poolcounter.tls_port", ROW_PORT(poolcounter.tls_port),
      .default_text = "0", .unit = "",
      .help = "TCP port of the PoolCounter protocol with TLS; 0: none" },
    { .key = "poolcounter.socket", ROW_STRING(poolcounter.socket),
      .default_text = "", .unit = "",
      .help = "unix socket of the PoolCounter protocol; @NAME: an abstract one" },
    { .key = "poolcounter.socket_mode", ROW_MODE(poolcounter.socket_mode),
      .default_text = "0660", .unit = "",
      .help = "permissions of that socket" },
    { .key = "poolcounter.max_connections", ROW_NUMBER(poolcounter.max_connections),
      .max = UINT32_MAX, .default_text = "0", .unit = "", .reloadable = true,
      .help = "most PoolCounter connections at once; 0: no limit" },
    { .key = "poolcounter.max_locks", ROW_NUMBER(poolcounter_max_locks), .min = 1, .max = 64,
      .default_text = "4", .unit = "",
      .help = "most locks that one PoolCounter connection may hold at once" },
    { .key = "poolcounter.max_line", ROW_NUMBER(poolcounter_max_line), .min = 64, .max = 1048576,
      .default_text = "8192", .unit = "bytes",
      .help = "longest PoolCounter request; a longer one closes its connection" },

    { .key = "tls.cert", ROW_STRING(tls_cert),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "PEM file with the server's certificate and those between it and its CA" },
    { .key = "tls.key", ROW_STRING(tls_key),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "PEM file with its private key; empty: the key is in tls.cert" },
    { .key = "tls.ca", ROW_STRING(tls_ca),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "PEM file with the CAs whose certificates clients may show" },
    { .key = "tls.verify_client", ROW_CHOICE(tls_verify_client), .choices = tls_verifies,
      .default_text = "off", .unit = "", .reloadable = true,
      .help = "whether TLS clients are asked for a certificate, and have to have one" },
    { .key = "tls.min_version", ROW_CHOICE(tls_min_version), .choices = tls_versions,
      .default_text = "1.2", .unit = "", .reloadable = true,
      .help = "oldest version of TLS that is spoken" },
    { .key = "tls.handshake_timeout", ROW_NUMBER(tls_handshake_timeout), .min = 1, .max = 3600,
      .default_text = "10", .unit = "seconds", .reloadable = true,
      .help = "a TLS handshake not finished after so long closes its connection" },
    { .key = "tls.max_handshakes", ROW_NUMBER(tls_max_handshakes), .max = UINT32_MAX,
      .default_text = "1000", .unit = "", .reloadable = true,
      .help = "most TLS handshakes at once, others are closed; 0: no limit" },

    { .key = "access.allow", ROW_NETWORKS(access_allow),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "addresses and networks whose clients are served; empty: all" },
    { .key = "access.max_per_source", ROW_NUMBER(access_max_per_source), .max = UINT32_MAX,
      .default_text = "0", .unit = "", .reloadable = true,
      .help = "most connections from one address at once; 0: no limit" },

    { .key = "limits.request_timeout", ROW_NUMBER(limits_request_timeout), .min = 1, .max = 3600,
      .default_text = "30", .unit = "seconds", .reloadable = true,
      .help = "a request begun and not finished for so long closes its connection" },
    { .key = "limits.write_timeout", ROW_NUMBER(limits_write_timeout), .min = 1, .max = 3600,
      .default_text = "30", .unit = "seconds", .reloadable = true,
      .help = "answers not taken for so long close their connection" },
    { .key = "limits.output_buffer", ROW_SIZE(limits_output_buffer), .min = 16 * KIB,
      .max = 16 * MIB, .default_text = "256K", .unit = "", .reloadable = true,
      .help = "a client with so much output queued is not read from until it takes some" },

    { .key = "admin.port", ROW_PORT(admin_port),
      .default_text = "7532", .unit = "",
      .help = "TCP port of metrics, status page and HTTP API; 0: none" },
    { .key = "admin.listen", ROW_ADDRESSES(admin_listen),
      .default_text = "127.0.0.1, ::1", .unit = "",
      .help = "addresses of that port; whoever reaches them may read everything" },
    { .key = "admin.token", ROW_STRING(admin_token), .secret = true,
      .default_text = "", .unit = "", .reloadable = true,
      .help = "what a request to the HTTP API must show to change something; empty: none may" },
    { .key = "admin.token_file", ROW_STRING(admin_token_file),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "file whose first line is that token, instead of admin.token" },
    { .key = "admin.hosts", ROW_STRING(admin_hosts),
      .default_text = "", .unit = "", .reloadable = true,
      .help = "names by which it may be asked for, besides addresses and the machine's; *: any" },

    { .key = "shutdown.drain", ROW_NUMBER(shutdown_drain), .max = 86400,
      .default_text = "0", .unit = "s", .reloadable = true,
      .help = "how long SIGTERM waits for clients to release, refusing others; 0: not at all" },

    { .key = "log.level", ROW_CHOICE(log_level), .choices = log_levels,
      .default_text = "info", .unit = "", .reloadable = true,
      .help = "least important lines that are logged" },
    { .key = "log.output", ROW_CHOICE(log_output), .choices = log_outputs,
      .default_text = "stderr", .unit = "",
      .help = "where lines are logged" },
    { .key = "log.format", ROW_CHOICE(log_format), .choices = log_formats,
      .default_text = "text", .unit = "",
      .help = "what a line is: text for people, or a JSON object" },

    { .key = "upgrade.timeout", ROW_NUMBER(upgrade_timeout), .min = 1, .max = 600,
      .default_text = "5", .unit = "seconds", .reloadable = true,
      .help = "how long a new program may take to show that it can take over" },

    { .key = "user", ROW_STRING(user),
      .default_text = "", .unit = "",
      .help = "user to become when started as root" },
    { .key = "group", ROW_STRING(group),
      .default_text = "", .unit = "",
      .help = "group to become when started as root, if not the user's own" },
    { .key = "pid_file", ROW_STRING(pid_file),
      .default_text = "", .unit = "",
      .help = "file to write the process id to" },

    { .key = "security.sandbox", ROW_BOOL(security_sandbox),
      .default_text = "true", .unit = "",
      .help = "give up rights and system calls that a daemon does not need" },
};
/* clang-format on */

static_assert(ARRAY_SIZE(rows) <= OPTIONS_MAX, "what holds one entry per option is too small");
static_assert(OPTIONS_MAX <= 64, "each option has its bit among those that were named");

const struct options_row *options_row_at(size_t index)
{
    return index < ARRAY_SIZE(rows) ? &rows[index] : NULL;
}

const struct options_row *options_find(const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (strcmp(key, rows[i].key) == 0 || (rows[i].alias && strcmp(key, rows[i].alias) == 0))
            return &rows[i];
    return NULL;
}

/* In the order in which they are started. */
static const struct {
    const char *name;
    size_t offset;
} protocols[SETTINGS_PROTOCOLS] = {
    {"poolcounter", offsetof(struct settings, poolcounter)},
    {"counter", offsetof(struct settings, counter)},
};

const char *settings_protocol_name(size_t i)
{
    return protocols[i].name;
}

const struct settings_protocol *settings_protocol(const struct settings *settings, size_t i)
{
    return (const void *)((const char *)settings + protocols[i].offset);
}

/* --- From text to values --------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Reads digits and, with `scaled`, one of K, M and G. False when it is none or overflows. */
static bool read_number(const char *text, bool scaled, uint64_t *value_r)
{
    static const char units[] = "KMG";
    struct bytes in = bytes_of(text);
    uint64_t n;
    if (!number_take(&in, UINT64_MAX, &n))
        return false;
    const char *unit = scaled && in.len == 1 ? strchr(units, toupper(*in.data)) : NULL;
    size_t shift = unit ? 10 * (size_t)(unit - units + 1) : 0;
    if ((in.len > 0 && !unit) || n > UINT64_MAX >> shift)
        return false;
    *value_r = n << shift;
    return true;
}

/* Reads one to four octal digits. */
static bool read_mode(const char *text, uint64_t *value_r)
{
    struct bytes in = bytes_of(text);
    return in.len <= 4 && number_take_base(&in, 8, UINT64_MAX, value_r) && in.len == 0;
}

static bool read_bool(const char *text, bool *value_r)
{
    static const struct {
        const char *text;
        bool value;
    } words[] = {
        {"true", true},   {"yes", true}, {"on", true},   {"1", true},
        {"false", false}, {"no", false}, {"off", false}, {"0", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (strcmp(text, words[i].text) == 0) {
            *value_r = words[i].value;
            return true;
        }
    }
    return false;
}

/* One address in `len` bytes of text; brackets may stand around IPv6. */
static bool read_address(const char *text, size_t len, struct settings_address *address_r)
{
    char copy[INET6_ADDRSTRLEN];
    bool brackets = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    if (brackets) {
        text++;
        len -= 2;
    }
    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';

    memset(address_r, 0, sizeof *address_r);
    struct sockaddr_in *in4 = (struct sockaddr_in *)&address_r->sa;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address_r->sa;
    if (!brackets && inet_pton(AF_INET, copy, &in4->sin_addr) == 1) {
        in4->sin_family = AF_INET;
        address_r->len = sizeof *in4;
        return true;
    }
    if (inet_pton(AF_INET6, copy, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        address_r->len = sizeof *in6;
        return true;
    }
    return false;
}

static bool same_address(const struct settings_address *a, const struct settings_address *b)
{
    return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
}

static bool same_network(const struct access_network *a, const struct access_network *b)
{
    return a->family == b->family && a->bits == b->bits &&
           memcmp(a->address, b->address, sizeof a->address) == 0;
}

/* --- Building text --------------------------------------------------------------------------- */

/* Text that grows in a buffer of limited size; the length counts on beyond it. */
struct text {
    char *to;
    size_t size;
    size_t len;
};

static void add_text(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
static void add_text(struct text *text, const char *format, ...)
{
    size_t room = text->len < text->size ? text->size - text->len : 0;
    va_list values;
    va_start(values, format);
    int len = vsnprintf(room ? text->to + text->len : NULL, room, format, values);
    va_end(values);
    CHECK(len >= 0);
    text->len += (size_t)len;
}

/* --- Why a text is no value ------------------------------------------------------------------ */

static void say(char *reason_r, const char *format, ...) PRINTF_LIKE(2, 3);
static void say(char *reason_r, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(reason_r, OPTIONS_REASON_SIZE, format, values);
    va_end(values);
}

/* Says that `len` bytes of text are `what` is_not: "\"9x\" is not a number". */
static void say_value(char *reason_r, const char *text, size_t len, const char *is_not)
{
    bool cut = len > SHOWN_MAX;
    say(reason_r, "\"%.*s%s\" %s", cut ? SHOWN_MAX : (int)len, text, cut ? "..." : "", is_not);
}

/*
 * When `key` is what some keys have after their dot, says that these may be meant. False when it is
 * not.
 */
static bool say_keys_of_word(const char *key, char *reason_r)
{
    struct text reason = {.to = reason_r, .size = OPTIONS_REASON_SIZE};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *dot = strchr(rows[i].key, '.');
        if (!dot || strcmp(dot + 1, key) != 0)
            continue;
        if (reason.len == 0)
            add_text(&reason, "unknown key \"%s\"; did you mean \"%s\"", key, rows[i].key);
        else
            add_text(&reason, " or \"%s\"", rows[i].key);
    }
    if (reason.len > 0)
        add_text(&reason, "?");
    return reason.len > 0;
}

static const char *key_at(size_t index)
{
    return index < ARRAY_SIZE(rows) ? rows[index].key : NULL;
}

void options_unknown_key(const char *key, char *reason_r)
{
    size_t len = strlen(key);
    if (say_keys_of_word(key, reason_r))
        return;
    /* A short word is near to many. */
    const char *near = spelling_nearest(key, key_at, len < 4 ? 1 : len < 10 ? 2 : 3);
    say(reason_r, "unknown key \"%.*s%s\"%s%s%s", SHOWN_MAX, key, len > SHOWN_MAX ? "..." : "",
        near ? "; did you mean \"" : "; counterd --help lists the keys", near ? near : "",
        near ? "\"?" : "");
}

/* Says what the row takes instead of `text`. */
static void say_range(char *reason_r, const struct options_row *row, const char *text)
{
    char range[128], is_not[192];
    options_range_text(row, range, sizeof range);
    switch (row->type) {
    case OPTIONS_BOOL:
        snprintf(is_not, sizeof is_not, "is neither true nor false");
        break;
    case OPTIONS_SIZE:
        snprintf(is_not, sizeof is_not, "is not a size from %s (bytes, or with K, M or G)", range);
        break;
    case OPTIONS_CHOICE:
        snprintf(is_not, sizeof is_not, "is not one of %s", range);
        break;
    case OPTIONS_MODE:
        snprintf(is_not, sizeof is_not, "is not a mode from %s, such as 0660", range);
        break;
    default:
        snprintf(is_not, sizeof is_not, "is not a number from %s", range);
        break;
    }
    say_value(reason_r, text, strlen(text), is_not);
}

/* --- Assigning ------------------------------------------------------------------------------- */

static void *field_of(struct settings *settings, const struct options_row *row)
{
    return (char *)settings + row->offset;
}

static const void *value_of(const struct settings *settings, const struct options_row *row)
{
    return (const char *)settings + row->offset;
}

static bool assign_bool(void *field, const struct options_row *row, const char *text,
                        char *reason_r)
{
    bool value;
    if (!read_bool(text, &value)) {
        say_range(reason_r, row, text);
        return false;
    }
    *(bool *)field = value;
    return true;
}

static bool assign_number(void *field, const struct options_row *row, const char *text,
                          char *reason_r)
{
    uint64_t value;
    bool is_one = row->type == OPTIONS_MODE ? read_mode(text, &value)
                                            : read_number(text, row->type == OPTIONS_SIZE, &value);
    if (!is_one || value < row->min || value > row->max) {
        say_range(reason_r, row, text);
        return false;
    }
    if (row->type == OPTIONS_PORT)
        *(uint16_t *)field = (uint16_t)value;
    else if (row->type == OPTIONS_NUMBER || row->type == OPTIONS_MODE)
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = value;
    return true;
}

static bool assign_choice(void *field, const struct options_row *row, const char *text,
                          char *reason_r)
{
    for (unsigned i = 0; row->choices[i]; i++) {
        if (strcmp(text, row->choices[i]) == 0) {
            *(unsigned *)field = i;
            return true;
        }
    }
    say_range(reason_r, row, text);
    return false;
}

static bool assign_string(void *field, const char *text, char *reason_r)
{
    char *copy = NULL;
    for (const char *c = text; *c; c++) {
        if (iscntrl((unsigned char)*c) || *c == '"') {
            say_value(reason_r, text, strlen(text), "holds a quote or a control character");
            return false;
        }
    }
    if (*text && !(copy = strdup(text))) {
        say(reason_r, "out of memory");
        return false;
    }
    char **string = field;
    free(*string);
    *string = copy;
    return true;
}

/* Keeps a digest of it. */
static bool assign_secret(void *field, const char *text, char *reason_r)
{
    char digest[TOKEN_DIGEST_SIZE] = "";
    size_t len = strlen(text);
    if (len > 0 && !options_is_token(text, len)) {
        say(reason_r, "not 1 to %d printable characters of ASCII without blanks",
            OPTIONS_TOKEN_MAX);
        return false;
    }
    if (len > 0 && !token_digest(text, len, digest)) {
        say(reason_r, "out of memory");
        return false;
    }
    return assign_string(field, digest, reason_r);
}

bool options_add_address(struct settings_addresses *list, const char *text, size_t len,
                         char *reason_r)
{
    struct settings_address one;
    if (!read_address(text, len, &one)) {
        say_value(reason_r, text, len,
                  "is not a numeric IPv4 or IPv6 address, such as 127.0.0.1 or ::1");
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        if (same_address(&list->at[i], &one))
            return true;
    if (list->count == ARRAY_SIZE(list->at)) {
        say(reason_r, "more than %d addresses", SETTINGS_ADDRESSES_MAX);
        return false;
    }
    list->at[list->count++] = one;
    return true;
}

/* What stands between the elements of a list. */
static const char between[] = ", \t";

static bool assign_addresses(void *field, const char *text, char *reason_r)
{
    struct settings_addresses list = {.count = 0};
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t len = strcspn(text, between);
        if (!options_add_address(&list, text, len, reason_r))
            return false;
        text += len;
    }
    if (list.count == 0) {
        say(reason_r, "at least one address is needed, such as 127.0.0.1 or ::1");
        return false;
    }
    *(struct settings_addresses *)field = list;
    return true;
}

/* Adds a network to a list, unless it has it. False with the reason. */
static bool add_network(struct settings_networks *list, const char *text, size_t len,
                        char *reason_r)
{
    struct access_network one;
    if (!access_parse(text, len, &one)) {
        say_value(reason_r, text, len,
                  "is not an address or a network, such as 192.0.2.7, 10.0.0.0/8 or "
                  "2001:db8::/32; the bits after the first so many must be 0");
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        if (same_network(&list->at[i], &one))
            return true;
    if (list->count == ARRAY_SIZE(list->at)) {
        say(reason_r, "more than %d networks", SETTINGS_NETWORKS_MAX);
        return false;
    }
    list->at[list->count++] = one;
    return true;
}

static bool assign_networks(void *field, const char *text, char *reason_r)
{
    struct settings_networks list = {.count = 0};
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        size_t len = strcspn(text, between);
        if (!add_network(&list, text, len, reason_r))
            return false;
        text += len;
    }
    *(struct settings_networks *)field = list;
    return true;
}

void options_listen(struct settings *settings, const struct settings_addresses *list)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].by_l)
            *(struct settings_addresses *)field_of(settings, &rows[i]) = *list;
}

/* The bit of a row in struct settings. */
static uint64_t bit_of(const struct options_row *row)
{
    return UINT64_C(1) << (row - rows);
}

static bool assign(struct settings *settings, const struct options_row *row, const char *text,
                   char *reason_r)
{
    void *field = field_of(settings, row);
    switch (row->type) {
    case OPTIONS_BOOL:
        return assign_bool(field, row, text, reason_r);
    case OPTIONS_PORT:
    case OPTIONS_NUMBER:
    case OPTIONS_SIZE:
    case OPTIONS_MODE:
        return assign_number(field, row, text, reason_r);
    case OPTIONS_CHOICE:
        return assign_choice(field, row, text, reason_r);
    case OPTIONS_STRING:
        return row->secret ? assign_secret(field, text, reason_r)
                           : assign_string(field, text, reason_r);
    case OPTIONS_ADDRESSES:
        return assign_addresses(field, text, reason_r);
    case OPTIONS_NETWORKS:
        return assign_networks(field, text, reason_r);
    }
    CHECK(false); /* a row of no type */
    return false;
}

bool options_assign(struct settings *settings, const struct options_row *row, const char *text,
                    char *reason_r)
{
    bool assigned = assign(settings, row, text, reason_r);
    if (assigned)
        settings->named |= bit_of(row);
    return assigned;
}

bool options_is_named(const struct settings *settings, const struct options_row *row)
{
    return settings->named & bit_of(row);
}

void settings_init(struct settings *settings)
{
    char reason[OPTIONS_REASON_SIZE];
    memset(settings, 0, sizeof *settings);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        CHECK(assign(settings, &rows[i], rows[i].default_text, reason));
}

void settings_free(struct settings *settings)
{
    if (!settings)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].type == OPTIONS_STRING)
            free(*(char **)field_of(settings, &rows[i]));
    settings_init(settings);
}

/* --- From values to text --------------------------------------------------------------------- */

/* A size with the greatest of the letters that keeps it whole. */
static void add_size(struct text *text, uint64_t size)
{
    const char *letter = "";
    for (const char *next = "KMG"; *next && size && size % 1024 == 0; next++) {
        size /= 1024;
        letter = next;
    }
    add_text(text, "%llu%.1s", (unsigned long long)size, letter);
}

void options_address_text(const struct settings_address *address, char *to, size_t size)
{
    const struct sockaddr_storage *sa = &address->sa;
    const void *bytes = sa->ss_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)sa)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
    CHECK(inet_ntop(sa->ss_family, bytes, to, (socklen_t)size));
}

static void add_addresses(struct text *text, const struct settings_addresses *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char digits[OPTIONS_ADDRESS_TEXT];
        options_address_text(&list->at[i], digits, sizeof digits);
        add_text(text, "%s%s", i ? ", " : "", digits);
    }
}

static void add_networks(struct text *text, const struct settings_networks *list)
{
    for (size_t i = 0; i < list->count; i++) {
        char network[ACCESS_TEXT];
        (void)access_text(&list->at[i], network, sizeof network);
        add_text(text, "%s%s", i ? ", " : "", network);
    }
}

size_t options_to_text(const struct settings *settings, const struct options_row *row, char *to,
                       size_t size)
{
    struct text text = {.to = to, .size = size};
    const void *value = value_of(settings, row);
    add_text(&text, "%s", "");
    switch (row->type) {
    case OPTIONS_BOOL:
        add_text(&text, "%s", *(const bool *)value ? "true" : "false");
        break;
    case OPTIONS_PORT:
        add_text(&text, "%u", (unsigned)*(const uint16_t *)value);
        break;
    case OPTIONS_NUMBER:
        add_text(&text, "%lu", (unsigned long)*(const uint32_t *)value);
        break;
    case OPTIONS_SIZE:
        add_size(&text, *(const uint64_t *)value);
        break;
    case OPTIONS_CHOICE:
        add_text(&text, "%s", row->choices[*(const unsigned *)value]);
        break;
    case OPTIONS_STRING:
        if (*(char *const *)value)
            add_text(&text, "%s", *(char *const *)value);
        break;
    case OPTIONS_ADDRESSES:
        add_addresses(&text, value);
        break;
    case OPTIONS_MODE:
        add_text(&text, "%04o", (unsigned)*(const uint32_t *)value);
        break;
    case OPTIONS_NETWORKS:
        add_networks(&text, value);
        break;
    }
    return text.len;
}

size_t options_range_text(const struct options_row *row, char *to, size_t size)
{
    struct text text = {.to = to, .size = size};
    switch (row->type) {
    case OPTIONS_BOOL:
        add_text(&text, "true or false");
        break;
    case OPTIONS_PORT:
    case OPTIONS_NUMBER:
        add_text(&text, "%llu to %llu", (unsigned long long)row->min, (unsigned long long)row->max);
        if (*row->unit)
            add_text(&text, " %s", row->unit);
        break;
    case OPTIONS_SIZE:
        add_size(&text, row->min);
        add_text(&text, " to ");
        add_size(&text, row->max);
        break;
    case OPTIONS_CHOICE:
        for (size_t i = 0; row->choices[i]; i++) {
            const char *joint = i == 0 ? "" : row->choices[i + 1] ? ", " : " or ";
            add_text(&text, "%s%s", joint, row->choices[i]);
        }
        break;
    case OPTIONS_STRING:
        add_text(&text, "text");
        break;
    case OPTIONS_ADDRESSES:
        add_text(&text, "numeric IPv4 and IPv6 addresses");
        break;
    case OPTIONS_MODE:
        add_text(&text, "%04o to %04o", (unsigned)row->min, (unsigned)row->max);
        break;
    case OPTIONS_NETWORKS:
        add_text(&text, "addresses, and networks as ADDRESS/BITS");
        break;
    }
    return text.len;
}

size_t options_ignored_text(const struct settings *settings, char *to, size_t size)
{
    struct text text = {.to = to, .size = size};
    add_text(&text, "options of yrmcds that mean nothing here are ignored: %s",
             settings->ignored_keys);
    if (settings->counter.enable) {
        add_text(&text, "; unlike yrmcds, counterd listens only where counter.listen says: ");
        add_addresses(&text, &settings->counter.listen);
    }
    return text.len;
}

/* --- Comparing and copying ------------------------------------------------------------------- */

static bool equal_strings(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool equal_addresses(const struct settings_addresses *a, const struct settings_addresses *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_address(&a->at[i], &b->at[i]);
    return same;
}

static bool equal_networks(const struct settings_networks *a, const struct settings_networks *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = same_network(&a->at[i], &b->at[i]);
    return same;
}

/* The bytes of a field that owns nothing; 0 for one that does. */
static size_t plain_size(enum options_type type)
{
    switch (type) {
    case OPTIONS_BOOL:
        return sizeof(bool);
    case OPTIONS_PORT:
        return sizeof(uint16_t);
    case OPTIONS_NUMBER:
    case OPTIONS_MODE:
        return sizeof(uint32_t);
    case OPTIONS_SIZE:
        return sizeof(uint64_t);
    case OPTIONS_CHOICE:
        return sizeof(unsigned);
    case OPTIONS_ADDRESSES:
        return sizeof(struct settings_addresses);
    case OPTIONS_NETWORKS:
        return sizeof(struct settings_networks);
    case OPTIONS_STRING:
        break;
    }
    return 0;
}

bool options_equal(const struct settings *a, const struct settings *b,
                   const struct options_row *row)
{
    const void *a_value = value_of(a, row), *b_value = value_of(b, row);
    switch (row->type) {
    case OPTIONS_STRING:
        return equal_strings(*(char *const *)a_value, *(char *const *)b_value);
    case OPTIONS_ADDRESSES:
        return equal_addresses(a_value, b_value);
    case OPTIONS_NETWORKS:
        return equal_networks(a_value, b_value);
    default:
        return memcmp(a_value, b_value, plain_size(row->type)) == 0;
    }
}

bool options_copy(struct settings *to, const struct settings *from, const struct options_row *row)
{
    if (row->type != OPTIONS_STRING) {
        memcpy(field_of(to, row), value_of(from, row), plain_size(row->type));
        return true;
    }
    const char *text = *(char *const *)value_of(from, row);
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return false;
    char **string = field_of(to, row);
    free(*string);
    *string = copy;
    return true;
}

/* --- Quotes and comments --------------------------------------------------------------------- */

enum options_unquoted options_unquote(char *text, bool comments, char **value_r)
{
    while (is_blank(*text))
        text++;
    if (*text != '"') {
        char *end = comments ? text + strcspn(text, "#") : text + strlen(text);
        while (end > text && is_blank(end[-1]))
            end--;
        *end = '\0';
        if (strchr(text, '"'))
            return OPTIONS_STRAY_QUOTE;
        *value_r = text;
        return OPTIONS_UNQUOTED;
    }

    char *end = strchr(++text, '"');
    if (!end)
        return OPTIONS_NOT_CLOSED;
    *end++ = '\0';
    while (is_blank(*end))
        end++;
    if (*end && !(comments && *end == '#'))
        return OPTIONS_TRAILING;
    *value_r = text;
    return OPTIONS_UNQUOTED;
}

const char *options_unquote_reason(enum options_unquoted answer)
{
    switch (answer) {
    case OPTIONS_UNQUOTED:
        break;
    case OPTIONS_NOT_CLOSED:
        return "the closing quote is missing";
    case OPTIONS_STRAY_QUOTE:
        return "a quote inside the value; quotes go around all of it";
    case OPTIONS_TRAILING:
        return "something follows the closing quote; quotes go around all of the value";
    }
    CHECK(false); /* what is well-formed needs no reason */
    return NULL;
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
