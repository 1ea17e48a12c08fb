/*
 * client.h - what a client keeps: its servers, their idle connections, and events not yet pulled.
 *
 * Counted references: the program's own, which counter_close gives back, and one of each operation,
 * hold and claim, so that all may be freed in any order.
 */
#ifndef LIB_CLIENT_H
#define LIB_CLIENT_H

#include "lib/failure.h"
#include "lib/link.h"

#define CLIENT_EVENTS 64

/* A connection. It has one owner: an operation, a hold, a claim, or its point while it is idle. */
struct wire {
    counter_link *link;
    struct point *point;
    struct wire *older; /* of the idle ones */
    int64_t since_ns;   /* idle since */
    bool was_up;        /* it was connected */
    bool is_checked;    /* the server knows our verbs for jobs */
    bool is_partial;    /* not all is sent, or an answer may still come: not to be used again */
};

/* A server, for one protocol. */
struct point {
    struct counter_client *client;
    const char *server; /* as configured */
    enum counter_protocol protocol;
    size_t number;
    struct wire *idle;     /* the newest */
    int64_t down_until_ns; /* 0: it is up */
};

/* An event as it is kept: its name is escaped when somebody asks. */
struct kept_event {
    const char *kind, *server, *result;
    double seconds;
    int status;
    bool has_name;
    uint8_t name_len;
    uint8_t name[FAILURE_QUOTED_MAX];
};

struct counter_client {
    struct settings *settings;
    size_t refs;
    unsigned forks; /* how often counter_forked was called */
    bool is_closed;
    struct {
        struct point *points; /* NULL: nobody has asked for one */
        size_t count;
    } of[COUNTER_RAW];
    struct counter_error error; /* of the step under way */
    struct kept_event events[CLIENT_EVENTS];
    size_t event_first, event_count;
    struct counter_event shown;
    char shown_name[FAILURE_QUOTED_MAX + 1], shown_result[16];
};

struct counter_client *client_hold(struct counter_client *client);
void client_drop(struct counter_client *client);

/* The servers of a protocol. NULL: client->error says why. */
struct point *client_points(struct counter_client *client, enum counter_protocol protocol,
                            size_t *count_r);

/* The order in which the points are asked for a name, which the caller frees; those that are down
   come last. NULL: no memory. */
size_t *client_order(const struct point *points, size_t count, struct bytes name, int64_t now_ns);

/* Notes that the server can't be used for a while, because of client->error; or can be again. */
void point_set_down(struct point *point);
void point_set_up(struct point *point);

/* A new connection, not yet connected. NULL: no memory. */
struct wire *wire_open(struct point *point);

/* The newest idle connection that is still good. NULL: none. */
struct wire *wire_take(struct point *point);

/* Gives a connection back, to be used again. NULL: does nothing. */
void wire_give(struct wire *wire);

/* Closes a connection. NULL: does nothing. */
void wire_drop(struct wire *wire);

/* Keeps an event for counter_next_event. `since_ns`: when began what has ended; 0 for nothing.
   `result` NULL: that of `status`, if there is an error. `kind`, `server` and `result` are not
   copied. */
void client_tell(struct counter_client *client, const char *kind, const char *server,
                 const struct bytes *name, int64_t since_ns, const char *result, int status);

#endif
