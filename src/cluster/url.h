/*
 * url.h - the address of the engine, as cluster.engine has it:
 *
 *     redis://HOST:PORT[/DB]
 *     rediss://HOST:PORT[/DB]                          TLS
 *     unix:PATH
 *     sentinel://HOST:PORT,HOST:PORT,.../SERVICE       all Sentinels of the service
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets. PATH begins with a slash.
 */
#ifndef CLUSTER_URL_H
#define CLUSTER_URL_H

#include "base/check.h"
#include "base/option.h"
#include "net/dial.h"

#define URL_HOSTS_MAX    16u
#define URL_HOST_SIZE    256u /* with the null byte, as of the others */
#define URL_PATH_SIZE    108u /* what a socket's address has room for */
#define URL_SERVICE_SIZE 256u
/* Size of reason_r. */
#define URL_REASON_SIZE OPTIONS_REASON_SIZE

enum url_kind {
    URL_NONE, /* empty: there is no engine */
    URL_TCP,
    URL_TLS,
    URL_UNIX,
    URL_SENTINEL,
};

struct url_host {
    char host[URL_HOST_SIZE]; /* without brackets */
    uint16_t port;
};

struct url {
    enum url_kind kind;
    unsigned count;                       /* of hosts: 1; SENTINEL: 1 or more; NONE and UNIX: 0 */
    struct url_host hosts[URL_HOSTS_MAX]; /* SENTINEL: the Sentinels, each once */
    uint32_t db;                          /* TCP and TLS; 0 if the text has none */
    char path[URL_PATH_SIZE];             /* UNIX */
    char service[URL_SERVICE_SIZE];       /* SENTINEL: its name for the engine */
};

/*
 * Parses `text`; NULL is the empty text. Returns false when it is wrong; reason_r (URL_REASON_SIZE
 * bytes) then says in half a sentence what is wrong and what would be right. It never quotes what
 * may be a password.
 */
bool url_parse(const char *text, struct url *url_r, char *reason_r) MUST_USE;

/*
 * Where to connect for host `at` (UNIX: 0). `tls` is for TLS alone, and ignored otherwise. The
 * target points into `url` and has no share of `tls`.
 */
struct dial_target url_target(const struct url *url, unsigned at, struct tls *tls);

/* Writes "HOST:PORT" of a host, an IPv6 address in brackets; cut to `size` bytes. */
void url_host_text(const struct url_host *host, char *to, size_t size);

#endif
