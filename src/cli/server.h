/*
 * server.h - where a server is: parses and prints addresses, and makes libcounter's URL of one.
 */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include "cli/options.h"
#include "cli/text.h"

#define SERVER_PLACE_MAX 255

/* Default ports. */
#define PORT_TEXT   7531
#define PORT_BINARY 11215
#define PORT_ADMIN  7532
#define PORT_JOBS   11300

struct server {
    bool is_unix;
    bool is_name;                     /* no numeric address: look it up */
    char place[SERVER_PLACE_MAX + 1]; /* the host, without brackets; or the path, or '@' and name */
    uint16_t port;                    /* 0: the text named no port */
};

/*
 * Parses HOST, HOST:PORT, [V6], [V6]:PORT, a bare V6, unix:PATH or unix:@NAME. Returns false on an
 * error, and then adds to *reason what is wrong and how to write it.
 */
bool server_parse(const char *text, struct server *server_r, struct text *reason) MUST_USE;

/* Parses what the option's value gives, else the variable; an empty one, or none: `otherwise`.
   Returns false after printing what is wrong and with which of them. */
bool server_read(const char *option, const char *value, const char *variable, const char *otherwise,
                 struct server *server_r) MUST_USE;

/* The server of the options, $COUNTER_SERVER or 127.0.0.1. Returns as server_read does. */
bool server_find(const struct options *options, struct server *server_r) MUST_USE;

/* Buffer size for server_text. */
#define SERVER_TEXT (SERVER_PLACE_MAX + 16)

/* Writes the address in the form that server_parse reads, with `port` as the default port. Returns
   `to`. */
const char *server_text(const struct server *server, uint16_t port, char to[SERVER_TEXT]);

/* Adds the URL for libcounter: this server alone, with `port` as the default port for each
   protocol, and the options for connections. */
void server_add_url(struct text *url, const struct server *server, uint16_t port,
                    const struct options *options);

#endif
