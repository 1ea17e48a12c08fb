/*
 * server.c - where a server is (server.h).
 */
#include "cli/server.h"

#include "base/clock.h"
#include "base/number.h"
#include "cli/print.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/un.h>

/* How many bytes of a wrong address a message shows. */
#define SHOWN_MAX 100

/* The longest path of a unix socket. */
#define PATH_MOST (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

/* Sets host or path. A host has no byte that means something in a URL. */
static bool set_place(struct server *server, const char *place, size_t len, struct text *reason)
{
    static const char form[] = "write HOST[:PORT], [V6]:PORT, unix:PATH or unix:@NAME";
    const char *what = server->is_unix ? "path" : "host";
    size_t most = server->is_unix ? PATH_MOST : SERVER_PLACE_MAX, good = 0;
    while (good < len &&
           (server->is_unix || ((uint8_t)place[good] > ' ' && !strchr("/?#,@[]\x7f", place[good]))))
        good++;
    if (len == 0 || (server->is_unix && len == 1 && place[0] == '@'))
        text_addf(reason, "no %s is named; %s", what, form);
    else if (len > most)
        text_addf(reason, "the %s is longer than %zu bytes: %.*s...", what, most, SHOWN_MAX, place);
    else if (good < len)
        text_addf(reason, "byte 0x%02x can't be part of a host; %s", (uint8_t)place[good], form);
    else
        memcpy(server->place, place, len); /* the rest is 0 */
    return reason->len == 0;
}

bool server_parse(const char *text, struct server *server_r, struct text *reason)
{
    const char *host = text, *end = strchr(text, ':'), *port = NULL;
    uint64_t number = 0;
    *server_r = (struct server){.is_unix = strncmp(text, "unix:", 5) == 0};
    if (server_r->is_unix)
        return set_place(server_r, text + 5, strlen(text + 5), reason);
    if (text[0] == '[') {
        host = text + 1;
        end = strchr(text, ']');
        if (!end || (end[1] != '\0' && end[1] != ':')) {
            text_addf(reason, "\"%.*s\": an IPv6 address in brackets is written [V6] or [V6]:PORT",
                      SHOWN_MAX, text);
            return false;
        }
        port = end[1] == ':' ? end + 2 : NULL;
    } else if (end && !strchr(end + 1, ':')) {
        port = end + 1;
    } else {
        end = text + strlen(text); /* no colon, or an IPv6 address */
    }
    if (!set_place(server_r, host, (size_t)(end - host), reason))
        return false;
    if (port && (!number_parse(bytes_of(port), UINT16_MAX, &number) || number == 0)) {
        text_addf(reason, "the port in \"%.*s\" is not one of 1 to 65535", SHOWN_MAX, text);
        return false;
    }
    server_r->port = (uint16_t)number;
    struct in6_addr address;
    server_r->is_name = inet_pton(AF_INET, server_r->place, &address) != 1 &&
                        inet_pton(AF_INET6, server_r->place, &address) != 1;
    return true;
}

bool server_read(const char *option, const char *value, const char *variable, const char *otherwise,
                 struct server *server_r)
{
    struct text reason = {0};
    const char *text = value ? value : getenv(variable); /* NOLINT(concurrency-mt-unsafe) */
    bool good = server_parse(text && *text ? text : otherwise, server_r, &reason);
    if (!good)
        complain("%s%s: %s", value ? "" : "$", value ? option : variable, text_str(&reason));
    text_free(&reason);
    return good;
}

bool server_find(const struct options *options, struct server *server_r)
{
    return server_read("--server", options->server, "COUNTER_SERVER", "127.0.0.1", server_r);
}

const char *server_text(const struct server *server, uint16_t port, char to[SERVER_TEXT])
{
    bool is_v6 = strchr(server->place, ':');
    if (server->is_unix)
        snprintf(to, SERVER_TEXT, "unix:%s", server->place);
    else
        snprintf(to, SERVER_TEXT, is_v6 ? "[%s]:%u" : "%s:%u", server->place,
                 server->port ? server->port : port);
    return to;
}

/* Adds a parameter, unless it has no value. */
static void add_parameter(struct text *url, const char *name, const char *value)
{
    if (!value)
        return;
    text_addf(url, "&%s=", name);
    text_add_percent(url, bytes_of(value));
}

/* A timeout in seconds, at most libcounter's longest. */
static double seconds(int64_t ns)
{
    return ns < 1000000 * NS_PER_S ? (double)ns / (double)NS_PER_S : 1e6;
}

void server_add_url(struct text *url, const struct server *server, uint16_t port,
                    const struct options *options)
{
    char place[SERVER_TEXT], number[16];
    const char *other = server->is_unix ? place : number;
    snprintf(number, sizeof number, "%u", server->port ? server->port : port);
    text_addf(url, "counter://%s?connect_timeout=%.9f&io_timeout=%.9f",
              server->is_unix ? "" : server_text(server, port, place),
              seconds(options->connect_timeout_ns), seconds(options->io_timeout_ns));
    server_text(server, port, place);
    add_parameter(url, "text", server->is_unix ? place : NULL);
    add_parameter(url, "binary", other);
    add_parameter(url, "jobs", other);
    add_parameter(url, "tls", options->tls ? "1" : NULL);
    add_parameter(url, "tls_ca", options->ca);
    add_parameter(url, "tls_cert", options->cert);
    add_parameter(url, "tls_key", options->key);
    add_parameter(url, "tls_name", options->tls_name);
}
