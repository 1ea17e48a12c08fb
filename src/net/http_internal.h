/*
 * http_internal.h - the structs of the HTTP server, and what its files use of each other: http.c
 * has connections and the thread, http_answer.c requests and answers, http_pending.c answers by
 * message.
 *
 * Threads: the server's own calls all of it, but for http_post.
 */
#ifndef NET_HTTP_INTERNAL_H
#define NET_HTTP_INTERNAL_H

#include "base/mail.h"
#include "net/http.h"
#include "net/thread.h"

#include <pthread.h>
#include <stdatomic.h>

#define HTTP_LISTENERS_MAX 64

struct bufferevent;
struct event;
struct event_base;
struct evconnlistener;
struct evhttp;
struct evhttp_request;

enum http_phase { READING, HANDLING, WRITING };

/* The messages to one server, from any thread. */
struct http_box {
    pthread_mutex_t lock; /* protects the rest; no other lock is taken under it */
    unsigned users;       /* the server and each pending answer */
    bool open;            /* the server's thread runs */
    int bell_fd;          /* the server's, while it is open */
    struct mail_list messages;
};

struct http_pending {
    struct http_box *box;
    uint64_t tag;
};

/* A connection and its present request. */
struct http_request {
    struct http *http;
    struct bufferevent *bev; /* NULL: this place is free */
    enum http_phase phase;
    bool refused;               /* evhttp has refused a request: the connection ends with that */
    int64_t since_ns;           /* start of the phase */
    struct evhttp_request *req; /* only while HANDLING */
    char peer[80];

    /* Only when it is answered in steps. */
    void (*step)(void *job, struct http_request *request);
    void (*end)(void *job);
    void *job;

    /* When it is answered by message: its tag, and until when. 0: it is not. */
    uint64_t tag;
    int64_t until_ns;
};

struct http {
    struct http_config config;
    struct event_base *base;
    struct evhttp *server;
    struct event *bell, *seconds, *retry;
    int bell_fd;
    struct thread thread;
    _Atomic bool stopping; /* the thread must sleep */
    bool ending;           /* the thread goes to sleep: no new request is handled. The thread's */
    bool second_over; /* a second has passed since pending answers were checked. The thread's */
    bool paused;      /* not accepting: all places are taken, or no descriptors are free */
    bool starved;     /* descriptors or memory ran out; false again at the next retry */

    struct evconnlistener *doors[HTTP_LISTENERS_MAX];
    size_t door_count;

    uint64_t met[HTTP_LIMITS];
    unsigned handling;                 /* requests that are being answered in steps */
    unsigned pending;                  /* requests that a message answers */
    uint64_t serial;                   /* of the last tag */
    struct http_request *delivered_to; /* the request that the present message answers, or NULL */
    struct http_box *box;
    struct http_request clients[HTTP_CONNECTIONS_MAX];
};

/* ---- http.c ---------------------------------------------------------------------------------- */

/* True when the client has closed at least its sending side while its request is handled. */
bool http_has_left(const struct http_request *client);
/* Closes the connection of a client that has left. */
void http_drop(struct http_request *client);
/* True when a client waits until a connection ends. */
bool http_is_crowded(struct http *http);

/* ---- http_answer.c --------------------------------------------------------------------------- */

/* Replaces an error page that evhttp has put into the output. */
void http_exchange_error_page(struct http_request *client);
/*
 * True when a refused client has got its last answer and the connection is still open. That happens
 * after CONNECT: evhttp does not close the connection, but parses the following bytes as requests.
 * Its error page for those may already be in the output.
 */
bool http_is_told_its_last(const struct http_request *client);

/* ---- http_pending.c -------------------------------------------------------------------------- */

struct http_box *http_box_new(int bell_fd);
/* Removes one user; the last one frees the box. */
void http_box_leave(struct http_box *box);
void http_box_set_open(struct http_box *box, bool open);

/* True: the request is answered, or has steps or a pending answer. */
bool http_has_answer(const struct http_request *client);
/* The answer is no longer pending. */
void http_end_pending(struct http_request *client);
void http_deliver_messages(struct http *http);
/* Answers a request that comes when the thread goes to sleep. */
void http_refuse_at_end(struct http_request *request);
/* Drops requests of clients that have gone, and answers those whose time limit has passed. */
void http_look_at_pending(struct http *http);
/* The thread ends: delivers the messages that have come, and refuses the other pending requests. */
void http_refuse_pending(struct http *http);

#endif
