/* address.c - see address.h. */
#include "net/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

void address_normal(const struct sockaddr *from, struct sockaddr_storage *to_r)
{
    memset(to_r, 0, sizeof(*to_r));
    to_r->ss_family = from->sa_family;
    if (from->sa_family == AF_INET) {
        memcpy(to_r, from, sizeof(struct sockaddr_in));
        return;
    }
    if (from->sa_family != AF_INET6)
        return;
    struct sockaddr_in6 in6;
    memcpy(&in6, from, sizeof(in6));
    if (!IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
        memcpy(to_r, &in6, sizeof(in6));
        return;
    }
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = in6.sin6_port};
    memcpy(&in.sin_addr, &in6.sin6_addr.s6_addr[12], 4);
    memcpy(to_r, &in, sizeof(in));
}

const uint8_t *address_bytes(const struct sockaddr_storage *sa)
{
    if (sa->ss_family == AF_INET)
        return (const uint8_t *)&((const struct sockaddr_in *)sa)->sin_addr;
    return sa->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)sa)->sin6_addr.s6_addr : NULL;
}

size_t address_text(const struct sockaddr *from, char *to, size_t size)
{
    struct sockaddr_storage sa;
    char host[INET6_ADDRSTRLEN] = "?";
    address_normal(from, &sa);
    const uint8_t *bytes = address_bytes(&sa);
    if (!bytes)
        return (size_t)snprintf(to, size, "?");
    inet_ntop(sa.ss_family, bytes, host, sizeof(host));
    return (size_t)snprintf(to, size, sa.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
                            ntohs(*address_port(&sa)));
}
