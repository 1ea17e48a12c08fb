/* access.c - see access.h. */
#include "net/access.h"

#include "base/number.h"
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static unsigned bits_of(sa_family_t family)
{
    return family == AF_INET ? 32 : 128;
}

/* True when two addresses have the same first `bits` bits. */
static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;
    if (memcmp(a, b, bytes) != 0)
        return false;
    return rest == 0 || (a[bytes] ^ b[bytes]) >> (8 - rest) == 0;
}

/* True when all bits after the first `bits` are 0; the address has `all` bits. */
static bool rest_is_zero(const uint8_t *address, unsigned bits, unsigned all)
{
    for (unsigned i = bits; i < all; i++) {
        if (address[i / 8] >> (7 - i % 8) & 1)
            return false;
    }
    return true;
}

/* Turns ::ffff:0:0/96 and every network inside it into an IPv4 network. */
static void normalise(struct access_network *network)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (network->family != AF_INET6 || network->bits < 96 ||
        memcmp(network->address, mapped, sizeof(mapped)) != 0)
        return;
    uint8_t v4[4];
    memcpy(v4, network->address + 12, sizeof(v4));
    memset(network->address, 0, sizeof(network->address));
    memcpy(network->address, v4, sizeof(v4));
    network->family = AF_INET;
    network->bits = (uint8_t)(network->bits - 96);
}

bool access_parse(const char *text, size_t len, struct access_network *network_r)
{
    char copy[ACCESS_TEXT];
    if (len >= sizeof(copy) || memchr(text, '\0', len))
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *slash = strchr(copy, '/');
    if (slash)
        *slash = '\0';
    struct access_network network;
    memset(&network, 0, sizeof(network)); /* also what lies between its fields */
    network.family = strchr(copy, ':') ? AF_INET6 : AF_INET;
    unsigned all = bits_of(network.family);
    uint64_t bits = all;
    if (inet_pton(network.family, copy, network.address) != 1 ||
        (slash && !number_parse_plain(bytes_of(slash + 1), all, &bits)) ||
        !rest_is_zero(network.address, (unsigned)bits, all))
        return false;
    network.bits = (uint8_t)bits;
    normalise(&network);
    memcpy(network_r, &network, sizeof(network));
    return true;
}

static bool read_network(const char *text, size_t len, void *element_r)
{
    return access_parse(text, len, element_r);
}

/* Writes a network in the form that access_parse reads: "10.0.0.0/8", "::1/128". */
static void write_network(const void *element, char *to, size_t size)
{
    const struct access_network *network = element;
    char host[INET6_ADDRSTRLEN] = "?";
    inet_ntop(network->family, network->address, host, sizeof(host));
    snprintf(to, size, "%s/%u", host, network->bits);
}

static const struct option_list network_list = {
    .size = sizeof(struct access_network),
    .max = ACCESS_NETWORKS_MAX,
    .read = read_network,
    .write = write_network,
    .plural = "networks",
    .is_not = "is not an address or a network, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32; the "
              "bits after the prefix must be 0",
};

_Static_assert(offsetof(struct access_networks, at) == sizeof(size_t), "it is an option's list");

const struct option_type option_networks = {.size = sizeof(struct access_networks),
                                            .assign = option_list_assign,
                                            .add = option_list_add,
                                            .range = "addresses, and networks as ADDRESS/BITS",
                                            .list = &network_list};

bool access_allows(const struct access_network *list, size_t count, const struct sockaddr *from)
{
    if (count == 0)
        return true;
    struct sockaddr_storage sa;
    address_normal(from, &sa);
    const uint8_t *address = address_bytes(&sa);
    if (!address)
        return true;
    for (size_t i = 0; i < count; i++) {
        if (list[i].family == sa.ss_family && same_bits(list[i].address, address, list[i].bits))
            return true;
    }
    return false;
}
