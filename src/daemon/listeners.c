/* listeners.c - see listeners.h. */
#include "daemon/listeners.h"

#include "base/log.h"
#include "daemon/process.h"
#include "net/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- Opening --------------------------------------------------------------------------------- */

/* Kinds of activated sockets that one protocol has; index 1: with TLS. */
struct handed {
    bool kind[2];
};

static bool adopt(struct listeners *listeners, struct services *services,
                  struct activation_socket *sock, const struct activation_use *use)
{
    bool admin = use->protocol == ACTIVATION_ADMIN;
    const char *name = admin ? "admin" : options_protocol_at(use->protocol)->name;
    CHECK(admin || listeners->count < ARRAY_SIZE(listeners->at));
    struct listener *l =
        admin ? &listeners->admin[listeners->admin_count] : &listeners->at[listeners->count];
    if (!listener_adopt(l, admin ? NULL : services_protocol(services, name), sock->fd, use->tls)) {
        log_error("%s: can't listen on %s, which was passed as descriptor %d: %s; pass a TCP or "
                  "unix socket, or leave it out",
                  name, l->where, sock->number, strerrordesc_np(errno));
        return false;
    }
    sock->fd = -1;
    ++*(admin ? &listeners->admin_count : &listeners->count);
    return true;
}

/* Takes all activated sockets; sets handed_r for each protocol. */
static bool adopt_all(struct listeners *listeners, struct services *services,
                      const struct settings *settings, struct activation *activation,
                      struct handed handed_r[OPTION_PROTOCOLS_MAX])
{
    char reason[ACTIVATION_REASON_SIZE];
    struct activation_use use;
    for (size_t i = 0; i < activation->count; i++) {
        struct activation_socket *sock = &activation->at[i];
        if (!activation_find_use(sock, settings, &use, reason)) {
            log_error("%s", reason);
            return false;
        }
        if (!adopt(listeners, services, sock, &use))
            return false;
        if (use.protocol != ACTIVATION_ADMIN)
            handed_r[use.protocol].kind[use.tls] = true;
    }
    return true;
}

/* True for the errors of an address family that is switched off. */
static bool is_missing_family(int error)
{
    return error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

/* Logs why counterd can't listen on an address, and what to do. */
static void say_not_listening(const struct listener *l, const char *name, int error)
{
    if (error == EADDRINUSE)
        log_error("%s: can't listen on %s: %s (another server, or another protocol of this one, "
                  "uses this port; stop it, or set another port with %s.%s)",
                  name, l->where, strerrordesc_np(error), name, l->tls ? "tls_port" : "port");
    else
        log_error("%s: can't listen on %s: %s", name, l->where, strerrordesc_np(error));
}

/* Returns the address with the port; asked_r: the same as text, a listener's `asked`. */
static struct sockaddr_storage address_of(const struct option_address *address, uint16_t port,
                                          char asked_r[ADDRESS_TEXT])
{
    struct sockaddr_storage sa = address->sa;
    *address_port(&sa) = htons(port);
    address_text((struct sockaddr *)&sa, asked_r, ADDRESS_TEXT);
    return sa;
}

/* Takes the inherited socket of `owner` at `asked`. Returns false when there is none. */
static bool take_over(struct listener *l, struct inherited *inherited, const char *owner,
                      struct protocol *protocol, bool tls, const char *asked)
{
    struct inherited_socket *sock = inherited_find(inherited, owner, tls, asked);
    return sock && inherited_take(sock, l, protocol);
}

/* How an address was opened. */
enum opened {
    OPENED,
    MISSING, /* this machine does not have its family, and others are listed */
    BLOCKED, /* an upgrade closes the socket that has it first */
    FAILED,  /* with errno */
};

/* Opens one address of a port, or takes its inherited socket. `protocol` NULL: of the admin
 * interface. */
static enum opened open_at(struct listener *l, struct inherited *inherited, const char *owner,
                           struct protocol *protocol, const struct option_addresses *list, size_t i,
                           uint16_t port, bool tls)
{
    char asked[ADDRESS_TEXT];
    struct sockaddr_storage sa = address_of(&list->at[i], port, asked);
    if (take_over(l, inherited, owner, protocol, tls, asked) ||
        listener_open(l, protocol, (struct sockaddr *)&sa, list->at[i].len, tls))
        return OPENED;
    if (sa.ss_family == AF_INET6 && list->count > 1 && is_missing_family(errno)) {
        log_warning("%s: not listening on %s: %s", owner, l->where, strerrordesc_np(errno));
        return MISSING;
    }
    int error = errno;
    bool blocked = error == EADDRINUSE && inherited_blocks(inherited, port);
    errno = error;
    return blocked ? BLOCKED : FAILED;
}

/*
 * True after an upgrade: an address that fails is left out then, because keeping all connections
 * matters more.
 */
static bool is_dispensable(const struct inherited *inherited)
{
    return inherited->exists && !inherited->dry_run;
}

/* Opens one port of a protocol, on each of its addresses. */
static bool open_port(struct listeners *listeners, struct inherited *inherited,
                      struct protocol *protocol, const struct option_addresses *list, uint16_t port,
                      bool tls)
{
    size_t had = 0;
    for (size_t i = 0; i < list->count; i++) {
        CHECK(listeners->count < ARRAY_SIZE(listeners->at));
        struct listener *l = &listeners->at[listeners->count];
        enum opened opened =
            open_at(l, inherited, protocol->row->name, protocol, list, i, port, tls);
        listeners->count += opened == OPENED;
        had += opened != MISSING;
        if (opened == FAILED) {
            say_not_listening(l, protocol->row->name, errno);
            if (!is_dispensable(inherited))
                return false;
        }
    }
    if (had == 0)
        log_error("%s: this machine has none of the addresses of %s.listen", protocol->row->name,
                  protocol->row->name);
    return had > 0 || is_dispensable(inherited);
}

/* Opens a protocol's unix socket, and gives the file to the daemon's user and group. */
static bool open_socket(struct listeners *listeners, struct inherited *inherited,
                        struct protocol *protocol, const struct settings *settings,
                        const struct settings_protocol *p)
{
    CHECK(listeners->count < ARRAY_SIZE(listeners->at));
    struct listener *l = &listeners->at[listeners->count];
    if (take_over(l, inherited, protocol->row->name, protocol, false, p->socket)) {
        listeners->count++;
        if (l->own_file && !inherited->dry_run && chmod(p->socket, p->socket_mode) != 0)
            log_error("%s: can't change the mode of unix socket %s: %s", protocol->row->name,
                      p->socket, strerrordesc_np(errno));
        return true;
    }
    if (!listener_open_unix(l, protocol, p->socket, p->socket_mode)) {
        const char *hint =
            errno == EADDRINUSE ? "; another server listens there"
            : errno == EEXIST
                ? "; the file is not a socket, and stays: remove it, or set another path"
            : errno == ENOENT ? "; make its folder first"
                              : "";
        log_error("%s: can't listen on unix socket %s: %s%s", protocol->row->name, p->socket,
                  strerrordesc_np(errno), hint);
        return is_dispensable(inherited);
    }
    listeners->count++;
    if (*p->socket == '@' || process_give_file(p->socket, settings->user, settings->group))
        return true;
    log_error("%s: can't give unix socket %s to user \"%s\", group \"%s\": %s", protocol->row->name,
              p->socket, settings->user ? settings->user : "",
              settings->group ? settings->group : "", strerrordesc_np(errno));
    return is_dispensable(inherited);
}

/* Kinds of sockets that a protocol opens itself: those without an activated socket. */
struct own {
    bool plain, socket, tls;
};

static struct own own_of(const struct settings_protocol *p, const struct handed *handed)
{
    return (struct own){
        .plain = p->enable && p->plain && !handed->kind[false],
        .socket = p->enable && p->socket && !handed->kind[false],
        .tls = p->enable && p->tls_port && !handed->kind[true],
    };
}

/* Opens the sockets of one protocol, except for kinds with an activated socket. */
static bool open_protocol(struct listeners *listeners, struct inherited *inherited,
                          struct protocol *protocol, const struct settings *settings,
                          const struct settings_protocol *p, const struct handed *handed)
{
    struct own own = own_of(p, handed);
    if (p->enable && p->socket && handed->kind[false])
        log_info(
            "%s: unix socket %s is not opened, because a socket for it was passed to the process",
            protocol->row->name, p->socket);
    return (!own.plain || open_port(listeners, inherited, protocol, &p->listen, p->port, false)) &&
           (!own.socket || open_socket(listeners, inherited, protocol, settings, p)) &&
           (!own.tls || open_port(listeners, inherited, protocol, &p->listen, p->tls_port, true));
}

/* Marks the inherited sockets of a port that will be used. */
static void want_port(struct inherited *inherited, const char *owner,
                      const struct option_addresses *list, uint16_t port, bool tls)
{
    char asked[ADDRESS_TEXT];
    for (size_t i = 0; i < list->count; i++) {
        (void)address_of(&list->at[i], port, asked);
        inherited_want(inherited, owner, tls, asked);
    }
}

/* Marks the inherited sockets that one protocol will use. */
static void want_protocol(struct inherited *inherited, const char *name,
                          const struct settings_protocol *p, const struct handed *handed)
{
    struct own own = own_of(p, handed);
    if (own.plain)
        want_port(inherited, name, &p->listen, p->port, false);
    if (own.tls)
        want_port(inherited, name, &p->listen, p->tls_port, true);
    if (own.socket)
        inherited_want(inherited, name, false, p->socket);
}

bool listeners_open(struct listeners *listeners, struct services *services,
                    const struct settings *settings, struct activation *activation,
                    struct inherited *inherited)
{
    struct handed handed[OPTION_PROTOCOLS_MAX] = {0};
    if (!adopt_all(listeners, services, settings, activation, handed))
        return false;
    for (size_t i = 0; options_protocol_at(i); i++)
        want_protocol(inherited, options_protocol_at(i)->name, settings_protocol(settings, i),
                      &handed[i]);
    if (settings->admin_port && listeners->admin_count == 0)
        want_port(inherited, "admin", &settings->admin_listen, settings->admin_port, false);
    inherited_close_unwanted(inherited);
    for (size_t i = 0; options_protocol_at(i); i++) {
        struct protocol *protocol = services_protocol(services, options_protocol_at(i)->name);
        if (!open_protocol(listeners, inherited, protocol, settings, settings_protocol(settings, i),
                           &handed[i]))
            return false;
    }
    return true;
}

_Static_assert(OPTION_ADDRESSES_MAX <= ACTIVATION_MAX, "all of the admin interface fit");

void listeners_close_admin(struct listeners *listeners)
{
    while (listeners->admin_count > 0)
        listener_close(&listeners->admin[--listeners->admin_count]);
}

bool listeners_open_admin(struct listeners *listeners, const struct settings *settings,
                          struct inherited *inherited, char *reason_r)
{
    const struct option_addresses *list = &settings->admin_listen;
    size_t count = settings->admin_port && listeners->admin_count == 0 ? list->count : 0;
    for (size_t i = 0; i < count; i++) {
        struct listener *l = &listeners->admin[listeners->admin_count];
        enum opened opened =
            open_at(l, inherited, "admin", NULL, list, i, settings->admin_port, false);
        listeners->admin_count += opened == OPENED;
        if (opened == FAILED) {
            snprintf(reason_r, LISTENERS_REASON_SIZE, "can't listen on %s: %s%s", l->where,
                     strerrordesc_np(errno),
                     errno == EADDRINUSE ? " (another server has this port)" : "");
            return false;
        }
    }
    if (count == 0 || listeners->admin_count > 0 || inherited->dry_run)
        return true;
    snprintf(reason_r, LISTENERS_REASON_SIZE, "this machine has none of the addresses");
    return false;
}

static void swap(struct listeners *listeners, size_t i, size_t j)
{
    struct listener l = listeners->at[i];
    listeners->at[i] = listeners->at[j];
    listeners->at[j] = l;
}

void listeners_set_aside_stopped(struct listeners *listeners)
{
    size_t kept = 0;
    for (size_t i = 0; i < listeners->count; i++) {
        const struct service *service = listeners->at[i].protocol->service;
        if (!service->stopped)
            swap(listeners, i, kept++);
    }
    listeners->aside = listeners->count - kept;
    listeners->count = kept;
}

void listeners_close_aside(struct listeners *listeners, struct activation *activation)
{
    for (; listeners->aside > 0; listeners->aside--) {
        size_t i = listeners->count + listeners->aside - 1;
        if (listener_is_activated(&listeners->at[i]))
            activation_forget(activation, listeners->at[i].fd);
        listener_close(&listeners->at[i]);
        listeners->at[i] = (struct listener){.fd = -1}; /* the admin interface may look there */
    }
}

void listeners_close(struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count + listeners->aside; i++)
        listener_close(&listeners->at[i]);
    listeners->count = listeners->aside = 0;
    listeners_close_admin(listeners);
}

bool listeners_use_tls(const struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        if (listeners->at[i].tls)
            return true;
    return false;
}

/* --- Log lines ------------------------------------------------------------------------------- */

static void say_listener(const struct listener *l, const char *note)
{
    size_t i = 0;
    while (strcmp(options_protocol_at(i)->name, l->protocol->row->name) != 0)
        i++;
    const char *send = options_protocol_at(i)->trial_send;
    const char *show = options_protocol_at(i)->trial_show;
    if (l->local) {
        log_info("%s: listening on unix socket %s%s; try: %s | nc -q1 -U %s%s",
                 l->protocol->row->name, l->where, note, send, l->where, show);
    } else if (l->tls) {
        log_info("%s: listening with TLS on %s%s; try: (%s; sleep 1) | openssl s_client -quiet "
                 "-no_ign_eof -connect %s%s",
                 l->protocol->row->name, l->where, note, send, l->where, show);
    } else {
        bool v6 = l->where[0] == '[';
        const char *host = l->where + v6, *colon = strrchr(l->where, ':');
        log_info("%s: listening on %s%s; try: %s | nc -q1 %.*s %s%s", l->protocol->row->name,
                 l->where, note, send, (int)(colon - host) - v6, host, colon + 1, show);
    }
}

void listeners_say(const struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        say_listener(&listeners->at[i],
                     listener_is_activated(&listeners->at[i]) ? " (inherited)" : "");
}

enum reach listeners_reach(const struct sockaddr *address)
{
    static const struct {
        const char *network;
        enum reach reach;
    } known[] = {
        {"127.0.0.0/8", REACH_MACHINE},    {"::1", REACH_MACHINE},
        {"10.0.0.0/8", REACH_NETWORK},     {"100.64.0.0/10", REACH_NETWORK},
        {"169.254.0.0/16", REACH_NETWORK}, {"172.16.0.0/12", REACH_NETWORK},
        {"192.168.0.0/16", REACH_NETWORK}, {"fc00::/7", REACH_NETWORK},
        {"fe80::/10", REACH_NETWORK},
    };
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return REACH_MACHINE;
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        struct access_network network;
        CHECK(access_parse(known[i].network, strlen(known[i].network), &network));
        if (access_allows(&network, 1, address))
            return known[i].reach;
    }
    return REACH_WORLD;
}

enum reach listeners_fd_reach(int fd)
{
    struct sockaddr_storage sa = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof sa;
    if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        return REACH_MACHINE;
    return listeners_reach((struct sockaddr *)&sa);
}

bool listeners_open_up_admin(const struct listeners *listeners)
{
    bool open = false;
    for (size_t i = 0; i < listeners->admin_count; i++)
        open = open || listeners_fd_reach(listeners->admin[i].fd) != REACH_MACHINE;
    return open;
}

void listeners_warn(const struct listeners *listeners, const struct settings *settings)
{
    for (size_t i = 0; settings->access_allow.count == 0 && i < listeners->count; i++) {
        const struct listener *l = &listeners->at[i];
        if (!l->tls && listeners_fd_reach(l->fd) == REACH_WORLD)
            log_warning("%s: every client that reaches %s can take all units; set access.allow, or "
                        "listen on addresses of a private network",
                        l->protocol->row->name, l->where);
    }
}
