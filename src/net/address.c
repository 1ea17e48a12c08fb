/* address.c - see address.h. */
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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

size_t address_text(const struct sockaddr *from, char *to, size_t size)
{
    struct sockaddr_storage sa;
    char host[INET6_ADDRSTRLEN] = "?";
    int len;
    address_normal(from, &sa);
    if (sa.ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &sa, sizeof(in6));
        inet_ntop(AF_INET6, &in6.sin6_addr, host, sizeof(host));
        len = snprintf(to, size, "[%s]:%u", host, ntohs(in6.sin6_port));
    } else if (sa.ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, &sa, sizeof(in));
        inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
        len = snprintf(to, size, "%s:%u", host, ntohs(in.sin_port));
    } else {
        len = snprintf(to, size, "?");
    }
    return (size_t)len;
}
