/*
 * address.c - parses and prints server addresses (address.h).
 */
#include "cli/address.h"

#include "base/number.h"

#include <stdio.h>
#include <string.h>

/* How many bytes of a wrong address a message shows. */
#define SHOWN_MAX 100

static bool parse_unix(const char *path, struct address *address, char *reason_r)
{
    address->is_unix = true;
    address->is_abstract = path[0] == '@';
    path += address->is_abstract;
    size_t len = strlen(path);
    if (len == 0) {
        snprintf(reason_r, ADDRESS_REASON_SIZE,
                 "no path follows \"unix:\"; write unix:/PATH or unix:@NAME");
        return false;
    }
    if (len >= sizeof address->path) {
        snprintf(reason_r, ADDRESS_REASON_SIZE,
                 "the path is longer than the %zu bytes of a unix socket's: %.*s...",
                 sizeof address->path - 1, SHOWN_MAX, path);
        return false;
    }
    memcpy(address->path, path, len + 1);
    return true;
}

static bool parse_port(const char *text, const char *whole, uint16_t *port_r, char *reason_r)
{
    uint64_t port;
    if (!number_parse(bytes_of(text), UINT16_MAX, &port) || port == 0) {
        snprintf(reason_r, ADDRESS_REASON_SIZE, "the port in \"%.*s\" is not one of 1 to 65535",
                 SHOWN_MAX, whole);
        return false;
    }
    *port_r = (uint16_t)port;
    return true;
}

static bool set_host(struct address *address, const char *host, size_t len, char *reason_r)
{
    if (len == 0 || len > ADDRESS_HOST_MAX) {
        snprintf(reason_r, ADDRESS_REASON_SIZE,
                 len == 0 ? "no host is named; write HOST[:PORT], [V6]:PORT or unix:PATH"
                          : "the host is longer than %d bytes",
                 ADDRESS_HOST_MAX);
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)host[i];
        if (byte <= ' ' || byte == 0x7f || byte == '/') {
            snprintf(reason_r, ADDRESS_REASON_SIZE,
                     "byte 0x%02x can't be part of a host; write HOST[:PORT], [V6]:PORT or "
                     "unix:PATH",
                     byte);
            return false;
        }
    }
    memcpy(address->host, host, len);
    address->host[len] = '\0';
    return true;
}

bool address_parse(const char *text, struct address *address_r, char *reason_r)
{
    *address_r = (struct address){0};
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, address_r, reason_r);

    const char *host = text, *end, *port = NULL;
    if (text[0] == '[') {
        host = text + 1;
        end = strchr(text, ']');
        if (!end || (end[1] != '\0' && end[1] != ':')) {
            snprintf(reason_r, ADDRESS_REASON_SIZE,
                     "\"%.*s\": an IPv6 address in brackets is written [V6] or [V6]:PORT",
                     SHOWN_MAX, text);
            return false;
        }
        port = end[1] == ':' ? end + 2 : NULL;
    } else {
        end = strchr(text, ':');
        if (end && !strchr(end + 1, ':'))
            port = end + 1;
        else
            end = text + strlen(text); /* more than one colon: an IPv6 address */
    }
    if (!set_host(address_r, host, (size_t)(end - host), reason_r))
        return false;
    return !port || parse_port(port, text, &address_r->port, reason_r);
}

const char *address_text(const struct address *address, uint16_t port, char to[ADDRESS_TEXT])
{
    if (address->port)
        port = address->port;
    if (address->is_unix)
        snprintf(to, ADDRESS_TEXT, "unix:%s%s", address->is_abstract ? "@" : "", address->path);
    else if (strchr(address->host, ':'))
        snprintf(to, ADDRESS_TEXT, "[%s]:%u", address->host, port);
    else
        snprintf(to, ADDRESS_TEXT, "%s:%u", address->host, port);
    return to;
}
