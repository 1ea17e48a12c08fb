/*
 * settings.c - what a client's URL says (settings.h).
 */
#include "lib/settings.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/text.h"
#include "lib/failure.h"
#include "lib/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_URL   "counter://127.0.0.1"
#define SCHEME        "counter://"
#define HOST_MAX      255
#define LONGEST_S     1000000
#define IDLE_MAX      1000000
#define BODY_MAX      (UINT64_C(1) << 40)
#define ADDRESSES_MAX 64 /* of a name that are tried */

/* How many bytes of a wrong value a message shows. */
#define SHOWN "%.100s"

#define OPTIONS(ROW)                                                                               \
    ROW(text)                                                                                      \
    ROW(binary)                                                                                    \
    ROW(jobs)                                                                                      \
    ROW(tls)                                                                                       \
    ROW(tls_ca)                                                                                    \
    ROW(tls_cert)                                                                                  \
    ROW(tls_key)                                                                                   \
    ROW(tls_name)                                                                                  \
    ROW(connect_timeout)                                                                           \
    ROW(io_timeout)                                                                                \
    ROW(down_seconds)                                                                              \
    ROW(idle)                                                                                      \
    ROW(idle_seconds)                                                                              \
    ROW(max_body)

/* The values of the URL's options, decoded; NULL: not there. */
struct values {
#define ROW(name) char *name;
    OPTIONS(ROW)
#undef ROW
};

static const char *const protocol_names[] = {"text", "binary", "jobs"};
static const uint16_t default_ports[] = {7531, 11215, 11300};

static size_t place_of(enum counter_protocol protocol)
{
    return protocol == COUNTER_RAW ? COUNTER_TEXT : protocol;
}

/* ---- options --------------------------------------------------------------------------------- */

static char **find_value(struct values *values, const char *name)
{
#define ROW(option)                                                                                \
    if (strcmp(name, #option) == 0)                                                                \
        return &values->option;
    OPTIONS(ROW)
#undef ROW
    return NULL;
}

/* Takes the options of the URL's query, which is changed. Returns a status. */
static int take_options(char *query, struct values *values, struct counter_error *error)
{
    char *next = NULL;
    for (char *part = query; part; part = next) {
        next = strchr(part, '&');
        if (next)
            *next++ = '\0';
        char *value = strchr(part, '=');
        if (!value)
            return failure_set(error, COUNTER_USAGE, "the URL's option \"" SHOWN "\" has no value",
                               part);
        *value++ = '\0';
        char **to = find_value(values, part);
        if (!to)
            return failure_set(error, COUNTER_USAGE, "there is no option \"" SHOWN "\"", part);
        if (*to)
            return failure_set(error, COUNTER_USAGE, "%s stands in the URL twice", part);
        size_t len = 0;
        if (!text_unpercent(value, strlen(value), (uint8_t *)value, &len) ||
            memchr(value, '\0', len))
            return failure_set(error, COUNTER_USAGE, "%s: \"" SHOWN "\" is wrongly encoded", part,
                               value);
        value[len] = '\0';
        *to = value;
    }
    return COUNTER_OK;
}

/* Each of these leaves the default where the URL has no value. */

static int take_number(const char *name, const char *value, uint64_t max, uint64_t *number_r,
                       struct counter_error *error)
{
    if (!value || number_parse(bytes_of(value), max, number_r))
        return COUNTER_OK;
    return failure_set(error, COUNTER_USAGE,
                       "%s: 0 to %llu is allowed, in digits, not \"" SHOWN "\"", name,
                       (unsigned long long)max, value);
}

static int take_seconds(const char *name, const char *value, int64_t *ns_r,
                        struct counter_error *error)
{
    if (!value)
        return COUNTER_OK;
    const uint8_t *at = (const uint8_t *)value;
    bool has_digit = number_digit(at[at[0] == '.'], 10) < 10;
    *ns_r = number_scan_seconds(&at, LONGEST_S + 1);
    if (has_digit && !*at && *ns_r <= LONGEST_S * NS_PER_S)
        return COUNTER_OK;
    return failure_set(error, COUNTER_USAGE,
                       "%s: seconds from 0 to 1,000,000 are allowed, not \"" SHOWN "\"", name,
                       value);
}

static int take_times(struct settings *settings, const struct values *values,
                      struct counter_error *error)
{
    const struct {
        const char *name, *value;
        int64_t *ns, usual_s;
    } times[] = {
        {"connect_timeout", values->connect_timeout, &settings->connect_ns, 1},
        {"io_timeout", values->io_timeout, &settings->io_ns, 10},
        {"down_seconds", values->down_seconds, &settings->down_ns, 10},
        {"idle_seconds", values->idle_seconds, &settings->idle_ns, 60},
    };
    uint64_t idle = 8;
    int status = COUNTER_OK;
    for (size_t i = 0; i < ARRAY_SIZE(times) && status == COUNTER_OK; i++) {
        *times[i].ns = times[i].usual_s * NS_PER_S;
        status = take_seconds(times[i].name, times[i].value, times[i].ns, error);
    }
    settings->max_body = UINT64_C(64) << 20;
    if (status == COUNTER_OK)
        status = take_number("idle", values->idle, IDLE_MAX, &idle, error);
    if (status == COUNTER_OK)
        status = take_number("max_body", values->max_body, BODY_MAX, &settings->max_body, error);
    settings->idle = idle;
    return status;
}

static int take_tls(struct settings *settings, const struct values *values,
                    struct counter_error *error)
{
    const char *tls = values->tls ? values->tls : "0", *name = values->tls_name;
    if (strcmp(tls, "0") != 0 && strcmp(tls, "1") != 0)
        return failure_set(error, COUNTER_USAGE, "tls: 0 and 1 are allowed, not \"" SHOWN "\"",
                           tls);
    if (name && (name[0] == '.' || strlen(name) > HOST_MAX)) /* a dot would stand for any name */
        return failure_set(error, COUNTER_USAGE, "tls_name: \"" SHOWN "\" is no name of a host",
                           name);
    settings->tls_name = name && name[0] ? name : NULL;
    if (tls[0] == '0')
        return COUNTER_OK;
    struct counter_error why = COUNTER_ERROR;
    settings->tls =
        tls_make(values->tls_ca, values->tls_cert, values->tls_key, error ? error : &why);
    return settings->tls ? COUNTER_OK : error ? error->status : why.status;
}

/* ---- servers --------------------------------------------------------------------------------- */

static int take_port(const char *text, uint16_t *port_r, struct counter_error *error)
{
    uint64_t port = 0;
    if (!number_parse(bytes_of(text), UINT16_MAX, &port) || port == 0)
        return failure_set(error, COUNTER_USAGE, "\"" SHOWN "\" is no port: 1 to 65535 are", text);
    *port_r = (uint16_t)port;
    return COUNTER_OK;
}

/* Copies the addresses, which replace earlier ones; n 0: there are none. Returns a status. */
static int set_addresses(struct host *host, const struct sockaddr_storage *at, size_t n)
{
    struct sockaddr_storage *copy = n > 0 ? reallocarray(NULL, n, sizeof *copy) : NULL;
    if (n > 0 && !copy)
        return COUNTER_NO_MEMORY;
    if (n > 0)
        memcpy(copy, at, n * sizeof *copy);
    free(host->at);
    host->at = copy;
    host->count = n;
    return COUNTER_OK;
}

/* Asks for the host's addresses; flags are AI_*. Returns a status: COUNTER_UNREACHABLE: none. Those
   that are known stay when it is this machine that can't ask. */
static int ask_resolver(struct host *host, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *found = NULL;
    errno = 0; /* what the resolver lacks is told here alone: the fault may be EAI_NONAME */
    int fault = getaddrinfo(host->name, NULL, &hints, &found);
    host->error = fault == EAI_MEMORY ? ENOMEM : fault ? errno : 0;
    bool is_ours = failure_is_ours(host->error);
    host->fault = fault == EAI_SYSTEM || is_ours ? strerrordesc_np(host->error)
                  : fault                        ? gai_strerror(fault)
                                                 : "the name has no address";
    if (is_ours)
        return host->error == ENOMEM ? COUNTER_NO_MEMORY : COUNTER_UNREACHABLE;
    struct sockaddr_storage at[ADDRESSES_MAX];
    size_t n = 0;
    for (const struct addrinfo *one = fault ? NULL : found; one && n < ADDRESSES_MAX;
         one = one->ai_next) {
        if (one->ai_addrlen <= sizeof *at)
            memcpy(&at[n++], one->ai_addr, one->ai_addrlen);
    }
    if (!fault)
        freeaddrinfo(found);
    int status = set_addresses(host, at, n);
    return status == COUNTER_OK && n == 0 ? COUNTER_UNREACHABLE : status;
}

/* Reads HOST, HOST:PORT, [V6] or [V6]:PORT. */
static int read_host(struct host *host, char *text, struct counter_error *error)
{
    size_t len = strlen(text);
    const char *colon = len > 0 && text[len - 1] != ']' ? strrchr(text, ':') : NULL;
    size_t name_len = colon ? (size_t)(colon - text) : len;
    bool is_bracketed = name_len > 1 && text[0] == '[' && text[name_len - 1] == ']';
    const char *name = text + is_bracketed;
    name_len -= is_bracketed ? 2 : 0;
    bool is_good = name_len > 0 && name_len <= HOST_MAX && name[0] != '.';
    for (size_t i = 0; is_good && i < name_len; i++) {
        unsigned char byte = (unsigned char)name[i];
        is_good =
            byte > ' ' && byte != 0x7f && !strchr("@/?#[]", byte) && (byte != ':' || is_bracketed);
    }
    if (!is_good)
        return failure_set(error, COUNTER_USAGE,
                           "\"" SHOWN "\" is no HOST or HOST:PORT; an IPv6 address stands in "
                           "brackets",
                           text);
    host->text = text;
    host->name = strndup(name, name_len);
    if (!host->name)
        return failure_no_memory(error);
    int status = colon ? take_port(colon + 1, &host->port, error) : COUNTER_OK;
    if (status != COUNTER_OK)
        return status;
    status = ask_resolver(host, AI_NUMERICHOST);
    host->is_name = status == COUNTER_UNREACHABLE;
    host->fault = "its address is not known: call counter_resolve or counter_set_addresses before";
    return status == COUNTER_NO_MEMORY ? failure_no_memory(error) : COUNTER_OK;
}

/* Reads the hosts between the scheme and the query. */
static int take_hosts(struct settings *settings, char *text, struct counter_error *error)
{
    size_t len = strlen(text), n = 1;
    if (len > 0 && text[len - 1] == '/')
        text[--len] = '\0';
    for (size_t i = 0; i < len; i++)
        n += text[i] == ',';
    settings->hosts = calloc(n + 1, sizeof *settings->hosts); /* and that of `jobs` */
    if (!settings->hosts)
        return failure_no_memory(error);
    int status = COUNTER_OK;
    char *next = NULL;
    for (char *one = len > 0 ? text : NULL; one && status == COUNTER_OK; one = next) {
        next = strchr(one, ',');
        if (next)
            *next++ = '\0';
        status = read_host(&settings->hosts[settings->host_count++], one, error);
    }
    return status;
}

static int take_path(struct own_address *own, const char *path, struct counter_error *error)
{
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof own->path.sun_path)
        return failure_set(error, COUNTER_USAGE,
                           "\"unix:" SHOWN "\": a path of 1 to %zu bytes, or @NAME, has to follow",
                           path, sizeof own->path.sun_path - 1);
    own->path.sun_family = AF_UNIX;
    memcpy(own->path.sun_path, path, len);
    /* A path has a null byte at its end; an abstract name has one at its start. */
    if (path[0] == '@')
        own->path.sun_path[0] = '\0';
    else
        len++;
    own->path_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return COUNTER_OK;
}

/* Reads the parameter `text`, `binary` or `jobs`. */
static int take_own(struct settings *settings, size_t protocol, char *value,
                    struct counter_error *error)
{
    struct own_address *own = &settings->own[protocol];
    if (!value)
        return COUNTER_OK;
    own->text = value;
    if (strncmp(value, "unix:", 5) == 0 && settings->tls)
        return failure_set(error, COUNTER_USAGE, "%s=" SHOWN ": a unix socket has no TLS",
                           protocol_names[protocol], value);
    if (strncmp(value, "unix:", 5) == 0)
        return take_path(own, value + 5, error);
    if (protocol == COUNTER_TEXT)
        return failure_set(error, COUNTER_USAGE,
                           "text=" SHOWN ": only unix:PATH stands there; ports stand behind hosts",
                           value);
    if (protocol != COUNTER_JOBS || !strchr(value, ':'))
        return take_port(value, &own->port, error);
    own->host = &settings->hosts[settings->host_count];
    int status = read_host(own->host, value, error);
    if (status == COUNTER_OK && !own->host->port)
        return failure_set(error, COUNTER_USAGE, "jobs=" SHOWN ": HOST:PORT, a port or unix:PATH",
                           value);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int read_url(struct settings *settings, struct counter_error *error)
{
    struct values values = {0};
    char *url = settings->url;
    if (strncmp(url, SCHEME, strlen(SCHEME)) != 0 || strchr(url, '#'))
        return failure_set(error, COUNTER_USAGE,
                           "\"" SHOWN "\": a URL is counter://HOST[:PORT][,HOST...][?OPTION=VALUE"
                           "[&...]]",
                           url);
    url += strlen(SCHEME);
    char *query = strchr(url, '?');
    if (query)
        *query++ = '\0';
    int status = query && *query ? take_options(query, &values, error) : COUNTER_OK;
    if (status == COUNTER_OK)
        status = take_times(settings, &values, error);
    if (status == COUNTER_OK)
        status = take_hosts(settings, url, error);
    if (status == COUNTER_OK)
        status = take_tls(settings, &values, error);
    char *own[] = {values.text, values.binary, values.jobs};
    for (size_t i = 0; i < ARRAY_SIZE(own) && status == COUNTER_OK; i++)
        status = take_own(settings, i, own[i], error);
    if (status == COUNTER_OK && settings->host_count == 0 && !own[0] && !own[1] && !own[2])
        return failure_set(error, COUNTER_USAGE, "the URL names no server");
    return status;
}

struct settings *settings_read(const char *url, struct counter_error *error)
{
    if (!url) {
        url = getenv("COUNTER_URL"); /* NOLINT(concurrency-mt-unsafe): as counter_open says */
        if (!url || !*url)
            url = DEFAULT_URL;
    }
    struct settings *settings = calloc(1, sizeof *settings);
    if (settings)
        settings->url = strdup(url);
    if (!settings || !settings->url) {
        free(settings);
        failure_no_memory(error);
        return NULL;
    }
    settings->refs = 1;
    if (read_url(settings, error) == COUNTER_OK)
        return settings;
    settings_drop(settings);
    return NULL;
}

struct settings *settings_hold(struct settings *settings)
{
    settings->refs++;
    return settings;
}

void settings_drop(struct settings *settings)
{
    if (!settings || --settings->refs > 0)
        return;
    for (size_t i = 0; settings->hosts && i <= settings->host_count; i++) {
        free(settings->hosts[i].name);
        free(settings->hosts[i].at);
    }
    tls_free(settings->tls);
    free(settings->hosts);
    free(settings->url);
    free(settings);
}

/* ---- servers of a protocol ------------------------------------------------------------------- */

size_t settings_servers(const struct settings *settings, enum counter_protocol protocol,
                        struct counter_error *error)
{
    size_t at = place_of(protocol);
    if (at > COUNTER_JOBS) {
        failure_set(error, COUNTER_USAGE, "there is no protocol number %zu", at);
        return 0;
    }
    const char *name = protocol_names[at];
    const struct own_address *own = &settings->own[at];
    if (own->path_len > 0 || own->host) {
        if (settings->host_count <= 1 || at == COUNTER_JOBS)
            return 1;
        failure_set(error, COUNTER_USAGE, "%s=" SHOWN ": one address for several servers", name,
                    own->text);
        return 0;
    }
    if (settings->host_count == 0 || (at == COUNTER_JOBS && settings->host_count > 1)) {
        failure_set(error, COUNTER_USAGE,
                    "the URL has to name one address for this call: %s=", name);
        return 0;
    }
    for (size_t i = 0; settings->tls && i < settings->host_count; i++) {
        if (at == COUNTER_TEXT ? settings->hosts[i].port : own->port)
            continue;
        failure_set(error, COUNTER_USAGE,
                    "with tls, the URL has to name the port for this call (%s)", name);
        return 0;
    }
    return settings->host_count;
}

const char *settings_server(const struct settings *settings, enum counter_protocol protocol,
                            size_t server)
{
    const struct own_address *own = &settings->own[place_of(protocol)];
    return own->path_len > 0 || own->host ? own->text : settings->hosts[server].text;
}

struct place settings_place(const struct settings *settings, enum counter_protocol protocol,
                            size_t server)
{
    size_t at = place_of(protocol);
    const struct own_address *own = &settings->own[at];
    if (own->path_len > 0)
        return (struct place){.path = own};
    if (own->host)
        return (struct place){.host = own->host, .port = own->host->port};
    const struct host *host = &settings->hosts[server];
    uint16_t port = at == COUNTER_TEXT ? host->port : own->port;
    return (struct place){.host = host, .port = port ? port : default_ports[at]};
}

const char *settings_where(const struct settings *settings, enum counter_protocol protocol,
                           size_t server, char to[SETTINGS_WHERE])
{
    struct place place = settings_place(settings, protocol, server);
    const char *name = place.host ? place.host->name : "";
    if (place.path)
        snprintf(to, SETTINGS_WHERE, "%s", place.path->text);
    else if (strchr(name, ':'))
        snprintf(to, SETTINGS_WHERE, "[%s]:%u", name, place.port);
    else
        snprintf(to, SETTINGS_WHERE, "%s:%u", name, place.port);
    return to;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int look_up(struct host *host)
{
    return host->is_name && !host->is_given ? ask_resolver(host, 0) : COUNTER_OK;
}

int settings_look_up(struct settings *settings, enum counter_protocol protocol, size_t server)
{
    const struct host *host = settings_place(settings, protocol, server).host;
    return host ? look_up(unconst(host)) : COUNTER_OK;
}

/* Hosts of the URL, and that of `jobs`. */
static size_t all_hosts(const struct settings *settings)
{
    return settings->host_count + (settings->own[COUNTER_JOBS].host != NULL);
}

int settings_resolve(struct settings *settings)
{
    int worst = COUNTER_OK;
    for (size_t i = 0; i < all_hosts(settings); i++) {
        int status = look_up(&settings->hosts[i]);
        if (worst != COUNTER_NO_MEMORY && status != COUNTER_OK)
            worst = status;
    }
    return worst;
}

int settings_set_addresses(struct settings *settings, size_t server,
                           const struct sockaddr_storage *addresses, size_t n)
{
    if (server >= all_hosts(settings) || n == 0)
        return COUNTER_USAGE;
    for (size_t i = 0; i < n; i++) {
        if (addresses[i].ss_family != AF_INET && addresses[i].ss_family != AF_INET6)
            return COUNTER_USAGE;
    }
    struct host *host = &settings->hosts[server];
    int status = set_addresses(host, addresses, n);
    host->is_given |= status == COUNTER_OK;
    return status;
}
