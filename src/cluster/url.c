/* url.c - see url.h. */
#include "cluster/url.h"

#include "base/bytes.h"
#include "base/number.h"
#include "base/option_value.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FORMS "redis://HOST:PORT, rediss://HOST:PORT, unix:PATH or sentinel://HOST:PORT,.../SERVICE"

/* What a text with these first bytes is. */
struct scheme {
    const char *begin;
    enum url_kind kind;
    const char *port; /* the usual one */
};

static const struct scheme schemes[] = {
    {"redis://", URL_TCP, "6379"},
    {"rediss://", URL_TLS, "6379"},
    {"unix:", URL_UNIX, ""},
    {"sentinel://", URL_SENTINEL, "26379"},
};

static int shown(struct bytes b)
{
    return b.len < 80 ? (int)b.len : 80;
}

/* ---- hosts ----------------------------------------------------------------------------------- */

static bool only(const char *host, const char *characters)
{
    return strspn(host, characters) == strlen(host);
}

static bool is_host(const char *host, bool in_brackets)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (in_brackets)
        return inet_pton(AF_INET6, host, address) == 1;
    if (only(host, "0123456789."))
        return inet_pton(AF_INET, host, address) == 1;
    return only(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
}

/* Takes the host, without brackets, from the front of *in; a colon, or the end, follows. */
static bool take_host(struct bytes *in, struct url_host *host_r, char *reason_r)
{
    bool in_brackets = bytes_take_text(in, "[");
    const uint8_t *end = in->len ? memchr(in->data, in_brackets ? ']' : ':', in->len) : NULL;
    size_t len = end ? (size_t)(end - in->data) : in->len;
    if (in_brackets && !end)
        return option_say(reason_r, "a bracket is not closed: write [IPv6]:PORT");
    if (len == 0)
        return option_say(reason_r, "a host is missing: write HOST:PORT");
    struct bytes name = bytes_at(in->data, len);
    bool fits = len < sizeof(host_r->host) && !memchr(name.data, 0, len);
    if (fits) {
        memcpy(host_r->host, name.data, len);
        host_r->host[len] = '\0';
    }
    if (!fits || !is_host(host_r->host, in_brackets))
        return option_say(reason_r, "\"%.*s\" is neither a host's name nor an address", shown(name),
                          (const char *)name.data);
    (void)bytes_take(in, len + in_brackets);
    return true;
}

/* Takes HOST:PORT: all of `in`. */
static bool take_host_and_port(struct bytes in, const struct scheme *scheme,
                               struct url_host *host_r, char *reason_r)
{
    uint64_t port;
    if (!take_host(&in, host_r, reason_r))
        return false;
    const char *host = host_r->host;
    bool six = strchr(host, ':') != NULL;
    if (in.len == 0)
        return option_say(reason_r, "the port of %s is missing: write %s%s%s:%s", host,
                          six ? "[" : "", host, six ? "]" : "", scheme->port);
    if (!bytes_take_text(&in, ":"))
        return option_say(reason_r, "after [%s] comes a colon and the port: write [%s]:%s", host,
                          host, scheme->port);
    if (!six && in.len && memchr(in.data, ':', in.len))
        return option_say(reason_r, "an IPv6 address needs brackets: write [IPv6]:%s",
                          scheme->port);
    if (!number_parse_plain(in, UINT16_MAX, &port) || port == 0)
        return option_say(reason_r, "\"%.*s\" is no port: it is a number from 1 to 65535",
                          shown(in), (const char *)in.data);
    host_r->port = (uint16_t)port;
    return true;
}

/* ---- the forms ------------------------------------------------------------------------------- */

/* Cuts *in at the first slash and returns what is behind it; `data` NULL: there is none. */
static struct bytes cut_at_slash(struct bytes *in)
{
    const uint8_t *slash = in->len ? memchr(in->data, '/', in->len) : NULL;
    if (!slash)
        return (struct bytes){0};
    size_t len = (size_t)(slash - in->data);
    struct bytes behind = bytes_at(slash + 1, in->len - len - 1);
    in->len = len;
    return behind;
}

static bool parse_server(struct bytes in, const struct scheme *scheme, struct url *url_r,
                         char *reason_r)
{
    uint64_t db = 0;
    struct bytes behind = cut_at_slash(&in);
    if (in.len && memchr(in.data, ',', in.len))
        return option_say(reason_r, "an engine is one host: for several Sentinels write "
                                    "sentinel://HOST:PORT,HOST:PORT,.../SERVICE");
    if (!take_host_and_port(in, scheme, &url_r->hosts[0], reason_r))
        return false;
    if (behind.data && !number_parse_plain(behind, INT32_MAX, &db))
        return option_say(
            reason_r,
            "\"%.*s\" is no database: after the slash comes its number, or leave the slash "
            "out for database 0",
            shown(behind), (const char *)behind.data);
    url_r->count = 1;
    url_r->db = (uint32_t)db;
    return true;
}

static bool parse_unix(struct bytes in, struct url *url_r, char *reason_r)
{
    if (in.len == 0 || in.data[0] != '/')
        return option_say(reason_r, "the path of a socket begins with a slash: write unix:/PATH");
    if (in.len >= sizeof(url_r->path))
        return option_say(reason_r, "the path is too long for a socket: it has at most %zu bytes",
                          sizeof(url_r->path) - 1);
    memcpy(url_r->path, in.data, in.len);
    return true;
}

static bool parse_service(struct bytes in, struct url *url_r, char *reason_r)
{
    bool good = in.len > 0 && in.len < sizeof(url_r->service);
    for (size_t i = 0; good && i < in.len; i++)
        good = in.data[i] > ' ' && in.data[i] < 0x7f && in.data[i] != '/' && in.data[i] != ',';
    if (!good)
        return option_say(
            reason_r,
            "the service's name is missing or wrong: after the last Sentinel comes a slash "
            "and the name that the Sentinels have for the engine");
    memcpy(url_r->service, in.data, in.len);
    return true;
}

/* True if the last host is another one than those before. */
static bool last_is_new(const struct url *url, char *reason_r)
{
    const struct url_host *last = &url->hosts[url->count - 1];
    for (const struct url_host *h = url->hosts; h < last; h++) {
        if (h->port == last->port && strcasecmp(h->host, last->host) == 0)
            return option_say(reason_r, "the Sentinel %s, port %u, is there twice: name each once",
                              last->host, last->port);
    }
    return true;
}

static bool parse_sentinels(struct bytes in, const struct scheme *scheme, struct url *url_r,
                            char *reason_r)
{
    struct bytes service = cut_at_slash(&in);
    for (bool more = true; more;) {
        const uint8_t *comma = in.len ? memchr(in.data, ',', in.len) : NULL;
        size_t len = comma ? (size_t)(comma - in.data) : in.len;
        more = comma != NULL;
        if (url_r->count == URL_HOSTS_MAX)
            return option_say(reason_r, "there are more than %u Sentinels", URL_HOSTS_MAX);
        if (!take_host_and_port(bytes_at(in.data, len), scheme, &url_r->hosts[url_r->count],
                                reason_r))
            return false;
        url_r->count++;
        if (!last_is_new(url_r, reason_r))
            return false;
        (void)bytes_take(&in, len + more);
    }
    return parse_service(service, url_r, reason_r);
}

/* ---- public ---------------------------------------------------------------------------------- */

static bool parse(struct bytes in, const struct scheme *scheme, struct url *url_r, char *reason_r)
{
    url_r->kind = scheme->kind;
    if (scheme->kind == URL_UNIX)
        return parse_unix(in, url_r, reason_r);
    if (in.len && memchr(in.data, '@', in.len))
        return option_say(reason_r,
                          "user and password have options of their own, cluster.user and "
                          "cluster.password: write %sHOST:PORT",
                          scheme->begin);
    return scheme->kind == URL_SENTINEL ? parse_sentinels(in, scheme, url_r, reason_r)
                                        : parse_server(in, scheme, url_r, reason_r);
}

bool url_parse(const char *text, struct url *url_r, char *reason_r)
{
    struct bytes in = bytes_of(text ? text : "");
    *url_r = (struct url){.kind = URL_NONE};
    if (in.len == 0)
        return true;
    for (size_t i = 0; i < in.len; i++) {
        if (in.data[i] < ' ' || in.data[i] == 0x7f)
            return option_say(reason_r, "it has a control character");
    }
    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
        if (bytes_take_text(&in, schemes[i].begin))
            return parse(in, &schemes[i], url_r, reason_r);
    return option_say(reason_r, "it is no address of an engine: write " FORMS);
}

struct dial_target url_target(const struct url *url, unsigned at, struct tls *tls)
{
    if (url->kind == URL_UNIX) {
        CHECK(at == 0);
        return (struct dial_target){.transport = TRANSPORT_UNIX, .path = url->path};
    }
    CHECK(at < url->count && (url->kind != URL_TLS || tls));
    return (struct dial_target){
        .transport = url->kind == URL_TLS ? TRANSPORT_TLS : TRANSPORT_TCP,
        .host = url->hosts[at].host,
        .port = url->hosts[at].port,
        .tls = url->kind == URL_TLS ? tls : NULL,
    };
}

void url_host_text(const struct url_host *host, char *to, size_t size)
{
    bool six = strchr(host->host, ':') != NULL;
    snprintf(to, size, "%s%s%s:%u", six ? "[" : "", host->host, six ? "]" : "", host->port);
}
