/*
 * settings.h - what a client's URL says: its servers and their addresses, its options, its TLS
 * files. Counted references: a client, its links and its jobs share one.
 *
 * Servers are numbered from 0 for each protocol. Those of a protocol are the hosts of the URL, in
 * its order; or the one that the protocol's own parameter (text, binary, jobs) names.
 */
#ifndef LIB_SETTINGS_H
#define LIB_SETTINGS_H

#include "base/bytes.h"
#include "base/check.h"
#include "lib/counter.h"

#include <sys/un.h>

struct tls;

/* A host, and where it is. */
struct host {
    char *text;                  /* as configured */
    char *name;                  /* without brackets and port */
    uint16_t port;               /* 0: the text names none */
    bool is_name;                /* no numeric address */
    bool is_given;               /* its addresses came by settings_set_addresses */
    struct sockaddr_storage *at; /* its addresses, with any port; NULL: not known */
    size_t count;
    const char *fault; /* why it has no addresses, by the resolver; NULL: nobody has asked */
    int error;         /* errno of that; 0: none */
};

/* What the parameter text, binary or jobs says. All empty: nothing. */
struct own_address {
    char *text;              /* of a unix socket or a host, as configured */
    struct sockaddr_un path; /* of a unix socket */
    socklen_t path_len;      /* 0: none */
    struct host *host;       /* HOST:PORT of jobs: the last of `hosts` */
    uint16_t port;           /* of the URL's hosts; 0: none */
};

/* Read only outside settings.c, but for what link.c keeps here. */
struct settings {
    int64_t connect_ns, io_ns, down_ns, idle_ns;
    size_t idle;
    uint64_t max_body;
    const char *tls_name; /* NULL: the host's */
    struct tls *tls;      /* NULL: plain */
    uint64_t serial;      /* link.c: of the last socket that was made */
    counter_link *links;  /* link.c: all of these settings */
    /* private to settings.c */
    size_t refs;
    struct host *hosts; /* of the URL, and behind them that of `jobs` */
    size_t host_count;  /* of the URL */
    struct own_address own[COUNTER_RAW];
    char *url; /* texts are its parts */
};

/* Reads a URL (NULL: $COUNTER_URL, or the default) and the TLS files that it names. Returns NULL
   and fills *error: COUNTER_USAGE, COUNTER_NO_MEMORY. */
struct settings *settings_read(const char *url, struct counter_error *error);

/* One more reference; returns `settings`. */
struct settings *settings_hold(struct settings *settings);

/* One reference less. NULL is fine. */
void settings_drop(struct settings *settings);

/*
 * How many servers a protocol has. 0: the URL does not say where they are, or they have no TLS port
 * there, or several servers have one address: *error (may be NULL) is COUNTER_USAGE and says what
 * to write.
 */
size_t settings_servers(const struct settings *settings, enum counter_protocol protocol,
                        struct counter_error *error);

/* A server as configured. `server` must be below settings_servers, also in what follows. */
const char *settings_server(const struct settings *settings, enum counter_protocol protocol,
                            size_t server);

/* Where a server is: its socket, or its host and port. */
struct place {
    const struct own_address *path; /* of a unix socket; NULL: none */
    const struct host *host;        /* NULL: a unix socket */
    uint16_t port;
};
struct place settings_place(const struct settings *settings, enum counter_protocol protocol,
                            size_t server);

/* Room for settings_where. */
#define SETTINGS_WHERE 288

/* Writes where a server is, for people: HOST:PORT, [V6]:PORT or unix:PATH. Returns `to`. */
const char *settings_where(const struct settings *settings, enum counter_protocol protocol,
                           size_t server, char to[SETTINGS_WHERE]);

/*
 * Looks up the server's host if it is a name whose addresses nobody has given. MAY WAIT. Links that
 * begin after this use what it finds; a name that is not found is what they then fail with. Returns
 * COUNTER_OK, COUNTER_UNREACHABLE, COUNTER_NO_MEMORY. When this machine lacks memory or
 * descriptors, the known addresses stay.
 */
int settings_look_up(struct settings *settings, enum counter_protocol protocol, size_t server);

/* The same for all hosts: counter_resolve. */
int settings_resolve(struct settings *settings);

/* counter_set_addresses; the host of jobs=HOST:PORT is one more server, behind those of the URL. */
int settings_set_addresses(struct settings *settings, size_t server,
                           const struct sockaddr_storage *addresses, size_t n);

#endif
