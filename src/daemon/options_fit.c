/*
 * options_fit.c - checks that options fit together. Part of options.h.
 *
 * options_assign has checked each option alone. This file checks pairs: options that need another
 * one, and listeners in conflict. Protocols and resources check their own (settings_check). It
 * opens no socket.
 */
#include "admin/hosts.h"
#include "daemon/options.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

/* --- Listeners in conflict ------------------------------------------------------------------- */

/* A port and its addresses. */
struct port {
    const char *of;   /* a protocol's name, or "admin" */
    const char *word; /* the part of the key after the dot */
    uint16_t number;
    const struct option_addresses *listen;
};

/* Two of each protocol, one of the admin interface. */
#define PORTS_MAX (2 * OPTION_PROTOCOLS_MAX + 1)

/* Lists all ports, except those that are 0 (any free port). Returns their number. */
static size_t list_ports(const struct settings *settings, struct port ports_r[PORTS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; options_protocol_at(i); i++) {
        const struct settings_protocol *p = settings_protocol(settings, i);
        const char *name = options_protocol_at(i)->name;
        if (p->enable && p->plain && p->port)
            ports_r[count++] = (struct port){name, "port", p->port, &p->listen};
        if (p->enable && p->tls_port)
            ports_r[count++] = (struct port){name, "tls_port", p->tls_port, &p->listen};
    }
    if (settings->admin_port)
        ports_r[count++] =
            (struct port){"admin", "port", settings->admin_port, &settings->admin_listen};
    return count;
}

static bool is_everywhere(const struct option_address *address)
{
    if (address->sa.ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&address->sa)->sin6_addr);
    return ((const struct sockaddr_in *)&address->sa)->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* True if two listeners with the same port at these addresses would conflict. */
static bool overlap(const struct option_address *a, const struct option_address *b)
{
    if (a->sa.ss_family != b->sa.ss_family)
        return false;
    return is_everywhere(a) || is_everywhere(b) || memcmp(&a->sa, &b->sa, a->len) == 0;
}

/* Returns false, after printing the conflict, if two ports share a number and an address. */
static bool ports_fit(const struct port *a, const struct port *b, FILE *err)
{
    char where[INET6_ADDRSTRLEN];
    for (size_t i = 0; a->number == b->number && i < a->listen->count; i++) {
        for (size_t j = 0; j < b->listen->count; j++) {
            if (!overlap(&a->listen->at[i], &b->listen->at[j]))
                continue;
            option_address_list.write(&a->listen->at[i], where, sizeof where);
            options_complain(err, "%s.%s and %s.%s are both %u, on %s; set another for one of them",
                             a->of, a->word, b->of, b->word, a->number, where);
            return false;
        }
    }
    return true;
}

/* Returns false, after printing the conflict, if addresses of one port overlap. */
static bool addresses_fit(const struct port *port, FILE *err)
{
    const struct option_addresses *list = port->listen;
    char all[INET6_ADDRSTRLEN], one[INET6_ADDRSTRLEN];
    for (size_t i = 0; i < list->count; i++) {
        for (size_t j = 0; j < list->count; j++) {
            if (i == j || !is_everywhere(&list->at[i]) || !overlap(&list->at[i], &list->at[j]))
                continue;
            option_address_list.write(&list->at[i], all, sizeof all);
            option_address_list.write(&list->at[j], one, sizeof one);
            options_complain(err, "%s.listen: %s is every address and includes %s; remove one",
                             port->of, all, one);
            return false;
        }
    }
    return true;
}

static bool all_ports_fit(const struct settings *settings, FILE *err)
{
    struct port ports[PORTS_MAX];
    size_t count = list_ports(settings, ports);
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        /* Both ports of a protocol share one list: check it once. */
        if (i == 0 || ports[i].listen != ports[i - 1].listen)
            good = addresses_fit(&ports[i], err) && good;
        for (size_t j = i + 1; j < count; j++)
            good = ports_fit(&ports[i], &ports[j], err) && good;
    }
    return good;
}

static bool socket_fits(const char *name, const struct settings_protocol *protocol, FILE *err)
{
    size_t room = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (!protocol->enable || !protocol->socket)
        return true;
    if (strlen(protocol->socket) > room) {
        options_complain(err, "%s.socket: the path has %zu bytes; the limit is %zu", name,
                         strlen(protocol->socket), room);
        return false;
    }
    if (strcmp(protocol->socket, "@") == 0) {
        options_complain(err, "%s.socket: an abstract socket needs a name after the @", name);
        return false;
    }
    return true;
}

static bool sockets_fit(const struct settings *settings, FILE *err)
{
    bool good = true;
    for (size_t i = 0; options_protocol_at(i); i++) {
        const struct settings_protocol *a = settings_protocol(settings, i);
        const char *name = options_protocol_at(i)->name;
        good = socket_fits(name, a, err) && good;
        for (size_t j = 0; j < i; j++) {
            const struct settings_protocol *b = settings_protocol(settings, j);
            if (!a->enable || !b->enable || !a->socket || !b->socket ||
                strcmp(a->socket, b->socket) != 0)
                continue;
            options_complain(err,
                             "%s.socket and %s.socket are both %s; set another for one of them",
                             options_protocol_at(j)->name, name, a->socket);
            good = false;
        }
    }
    return good;
}

/* --- Options that need another one ----------------------------------------------------------- */

static bool protocol_fits(const char *name, const struct settings *settings,
                          const struct settings_protocol *protocol, FILE *err)
{
    bool good = true;
    if (!protocol->enable)
        return true;
    if (protocol->tls_port && !settings->tls_cert) {
        options_complain(err, "%s.tls_port is %u, and there is no certificate; set tls.cert", name,
                         protocol->tls_port);
        good = false;
    }
    if (!protocol->plain && !protocol->tls_port && !protocol->socket) {
        options_complain(err,
                         "%s.plain is false, and nothing else serves it; set %s.tls_port or "
                         "%s.socket",
                         name, name, name);
        good = false;
    }
    return good;
}

static bool tls_fits(const struct settings *s, FILE *err)
{
    bool good = true;
    if (s->tls_key && !s->tls_cert) {
        options_complain(err, "tls.key is set, but tls.cert is not; set tls.cert, too");
        good = false;
    }
    if (s->tls_verify_client != TLS_VERIFY_OFF && !s->tls_ca) {
        options_complain(err,
                         "tls.verify_client is %s, and there is nothing to verify with; set "
                         "tls.ca",
                         s->tls_verify_client == TLS_VERIFY_REQUIRE ? "require" : "optional");
        good = false;
    }
    return good;
}

static bool hosts_fit(const struct settings *s, FILE *err)
{
    if (!s->admin_hosts || hosts_are_names(s->admin_hosts))
        return true;
    options_complain(
        err,
        "admin.hosts: not a list of host names without ports, separated by commas, and "
        "not *; the limit is %d bytes",
        HOSTS_MAX);
    return false;
}

/* Returns false, after printing why, if no protocol is enabled. */
static bool something_is_served(const struct settings *settings, FILE *err)
{
    char keys[512] = "";
    size_t len = 0;
    const struct option_protocol *protocol;
    for (size_t i = 0; (protocol = options_protocol_at(i)); i++) {
        if (settings_protocol(settings, i)->enable)
            return true;
        len += (size_t)snprintf(keys + len, sizeof keys - len, "%s%s.enable", len ? " or " : "",
                                protocol->name);
        CHECK(len < sizeof keys);
    }
    options_complain(err, "nothing to serve: set %s to true", keys);
    return false;
}

bool options_fit(struct settings *settings, FILE *err)
{
    bool good = true;
    for (size_t i = 0; options_protocol_at(i); i++)
        good = protocol_fits(options_protocol_at(i)->name, settings, settings_protocol(settings, i),
                             err) &&
               good;
    good = something_is_served(settings, err) && good;
    good = tls_fits(settings, err) && good;
    good = hosts_fit(settings, err) && good;
    good = sockets_fit(settings, err) && good;
    good = all_ports_fit(settings, err) && good;
    return settings_check(settings, err) && good;
}
