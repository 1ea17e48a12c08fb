/*
 * hosts.c - see hosts.h.
 */
#include "admin/hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* What stands between the names of a list. */
static const char between[] = ", \t";

/* A part of a text. */
struct part {
    const char *text;
    size_t len;
};

/* Returns the next name of a list and moves `rest` behind it. Length 0: there are no more. */
static struct part next_name(const char **rest)
{
    struct part name = {.text = *rest + strspn(*rest, between)};
    name.len = strcspn(name.text, between);
    *rest = name.text + name.len;
    return name;
}

static bool is(struct part part, const char *text, size_t len)
{
    return part.len == len && strncasecmp(part.text, text, len) == 0;
}

bool hosts_are_names(const char *list)
{
    if (strlen(list) > HOSTS_MAX)
        return false;
    for (struct part name = next_name(&list); name.len > 0; name = next_name(&list)) {
        for (size_t i = 0; i < name.len; i++) {
            if (!isalnum((unsigned char)name.text[i]) && !strchr("-._", name.text[i]) &&
                !is(name, "*", 1))
                return false;
        }
    }
    return true;
}

/* A name without the dot that may end it, which says no more than that it is whole. */
static struct part without_dot(struct part name)
{
    if (name.len > 1 && name.text[name.len - 1] == '.')
        name.len--;
    return name;
}

/* The host of "host:port", "[address]:port" or either alone, without brackets and a last dot. */
static struct part host_of(const char *asked)
{
    if (*asked == '[')
        return (struct part){.text = asked + 1, .len = strcspn(asked + 1, "]")};
    return without_dot((struct part){.text = asked, .len = strcspn(asked, ":")});
}

static bool is_address(int family, struct part host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    char text[INET6_ADDRSTRLEN];
    if (host.len >= sizeof(text))
        return false;
    memcpy(text, host.text, host.len);
    text[host.len] = '\0';
    return inet_pton(family, text, bytes) == 1;
}

bool hosts_allow(const char *list, const char *machine, const char *asked)
{
    if (!asked)
        return true;
    struct part host = host_of(asked);
    size_t dot = strcspn(machine, ".");
    if (host.len == 0)
        return false;
    if (*asked == '[')
        return is_address(AF_INET6, host);
    if (is_address(AF_INET, host) || is(host, "localhost", 9) ||
        is(host, machine, strlen(machine)) || is(host, machine, dot))
        return true;
    for (struct part name = next_name(&list); name.len > 0; name = next_name(&list)) {
        if (is(name, "*", 1) || is(without_dot(name), host.text, host.len))
            return true;
    }
    return false;
}
