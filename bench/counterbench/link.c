/*
 * link.c - one connection to the target, and its requests in flight.
 *
 * All links of a driver compose requests into one shared buffer; what a role asks during one call
 * goes out in one send. The link keeps bytes that the kernel does not take, and the start of an
 * answer that arrived in pieces. Both are rare. A link with many unsent bytes starts nothing new: a
 * deep pipeline of long requests could otherwise fill any amount of memory.
 *
 * A role may ask right after link_open: the requests go out when the socket is connected.
 */
#include "bench/counterbench/run.h"

#include "base/clock.h"
#include "bench/counterbench/secure.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* The size of one receive: a larger one would keep the other links waiting. */
#define RECEIVE_MAX ((size_t)64 << 10)

/* ---- watching -------------------------------------------------------------------------------- */

/* Sets the events that epoll reports. */
static void watch(struct link *link, uint32_t wanted)
{
    if (wanted == link->armed)
        return;
    struct epoll_event event = {.events = wanted, .data.ptr = link};
    int how = link->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(link->driver->epoll, how, link->fd, &event) != 0)
        link->error = errno;
    link->armed = wanted;
}

static bool has_unsent(const struct link *link)
{
    return link->out_len > 0;
}

static void watch_as_needed(struct link *link)
{
    bool wants_out = link->state == LINK_CONNECTING || has_unsent(link);
    watch(link, wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* ---- opening and closing --------------------------------------------------------------------- */

/*
 * The source address of a link. Links that stay open fill one source after the other. Links that
 * are reopened take all sources in rotation: if many ports of one source are in TIME_WAIT, the
 * kernel searches long for a free one (we saw 70 ms), and we would measure that.
 */
static uint64_t source_of(const struct link *link)
{
    uint64_t links = link->driver->run->plan.links;
    if (link->generation == 0)
        return link->number / TARGET_PER_SOURCE;
    return 1 + link->generation * links + link->number;
}

bool link_open(struct link *link)
{
    CHECK(link->state == LINK_CLOSED);
    link->fd = target_connect(link->target, source_of(link));
    if (link->fd < 0) {
        driver_lost(link, "connecting to %s: %s", link->target->text, strerrordesc_np(errno));
        return false;
    }
    link->state = LINK_CONNECTING;
    link->armed = 0;
    link->error = 0;
    SSL_CTX *tls = link->driver->run->tls;
    if (tls && !(link->tls = secure_start(tls, link->fd, link->target->host))) {
        driver_lost(link, "TLS can't be used: no memory");
        return false;
    }
    return true;
}

void link_close(struct link *link)
{
    if (link->state == LINK_CLOSED)
        return;
    if (link->driver->out_link == link) {
        link->driver->out_len = 0;
        link->driver->out_link = NULL;
    }
    if (link->tls) {
        secure_end(link->tls, link->state == LINK_UP);
        link->tls = NULL;
    }
    close(link->fd);
    link->fd = -1;
    link->state = LINK_CLOSED;
    link->count = 0;
    link->in_len = link->out_len = link->out_sent = 0;
    link->generation++;
    driver_has_room(link);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Sends. Returns the number of bytes taken; bytes for a closed peer count as taken. */
static size_t send_some(struct link *link, const uint8_t *data, size_t len)
{
    if (link->tls)
        return secure_write(link->tls, data, len);
    ssize_t sent = send(link->fd, data, len, MSG_NOSIGNAL);
    if (sent >= 0)
        return (size_t)sent;
    if (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)
        return 0;
    link->error = errno;
    return len;
}

/* Stores bytes that the kernel did not take. */
static void keep_unsent(struct link *link, const uint8_t *data, size_t len)
{
    if (link->out_sent + link->out_len + len > link->out_room) {
        size_t room = 2 * (link->out_len + len) + DRIVER_OUT; /* each byte moves only a few times */
        uint8_t *more = malloc(room);
        CHECK(more);
        if (link->out_len > 0)
            memcpy(more, link->out + link->out_sent, link->out_len);
        free(link->out);
        link->out = more;
        link->out_room = room;
        link->out_sent = 0;
    }
    memcpy(link->out + link->out_sent + link->out_len, data, len);
    link->out_len += len;
}

static void send_kept(struct link *link)
{
    size_t sent = send_some(link, link->out + link->out_sent, link->out_len);
    link->out_len -= sent;
    link->out_sent = link->out_len > 0 ? link->out_sent + sent : 0;
    if (link->out_len <= LINK_UNSENT_MAX / 2) /* not for each single operation that fits */
        driver_has_room(link);
}

void link_flush(struct driver *driver)
{
    struct link *link = driver->out_link;
    if (!link)
        return;
    size_t sent = 0;
    if (!has_unsent(link) && (!link->tls || link->state == LINK_UP))
        sent = send_some(link, driver->out, driver->out_len);
    if (sent < driver->out_len)
        keep_unsent(link, driver->out + sent, driver->out_len - sent);
    else if (!link->tls)
        link->state = LINK_UP; /* a socket that takes bytes is connected */
    driver->out_link = NULL;
    driver->out_len = 0;
    watch_as_needed(link);
}

/* Makes room for a request of the link. Returns where it begins. */
static uint8_t *begin_request(struct link *link, size_t room)
{
    struct driver *driver = link->driver;
    CHECK(link->state != LINK_CLOSED);
    if (driver->out_link != link || DRIVER_OUT - driver->out_len < room) {
        link_flush(driver);
        driver->out_link = link;
    }
    return driver->out + driver->out_len;
}

/* The request has been written there. */
static void end_request(struct link *link, size_t len, struct flight flight)
{
    struct driver *driver = link->driver;
    uint32_t room = driver->run->plan.flights;
    CHECK(len > 0 && link->count < room);
    driver->out_len += len;
    uint32_t at = link->first + link->count++;
    link->flights[at < room ? at : at - room] = flight;
}

void link_ask(struct link *link, enum ask ask, uint32_t number, int64_t start_ns)
{
    uint8_t *to = begin_request(link, link->language->forms[ask].len);
    struct flight flight = {.start_ns = start_ns, .name = number, .ask = (uint8_t)ask};
    end_request(link, language_ask(link->language, ask, number, to), flight);
}

void link_ask_composed(struct link *link, enum ask ask, uint32_t number, struct bytes member,
                       int64_t start_ns)
{
    const struct run *run = link->driver->run;
    size_t length = run->options->name_length;
    uint8_t name[LINK_NAME_MAX], *to = begin_request(link, LINK_REQUEST_MAX);
    names_write(number, name, length);
    const struct request request = {.ask = ask,
                                    .name = bytes_at(name, length),
                                    .terms = run->plan.terms[ask],
                                    .member = member,
                                    .client = link->number,
                                    .stamp_ns = start_ns};
    size_t len = link->language->protocol->compose(&request, to, LINK_REQUEST_MAX);
    struct flight flight = {.start_ns = start_ns, .name = number, .ask = (uint8_t)ask};
    end_request(link, len, flight);
}

bool link_fill(struct link *link, uint32_t step, uint32_t end, uint32_t most,
               void (*ask)(struct link *link))
{
    while (link->name < end && link->count < most && !link_is_full(link)) {
        ask(link);
        link->name = end - link->name > step ? link->name + step : end;
    }
    return link->count > 0;
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Judges the received answers. Returns the number of bytes in complete answers. */
static size_t hear_all(struct link *link, const uint8_t *data, size_t len)
{
    uint32_t generation = link->generation, room = link->driver->run->plan.flights;
    char said[SAID_ROOM] = "";
    size_t used = 0;
    while (used < len) {
        if (link->count == 0) {
            protocol_say(said, data + used, len - used);
            driver_lost(link, "an answer to nothing: %s", said);
            return used;
        }
        struct flight flight = link->flights[link->first];
        size_t took = 0;
        enum heard heard = language_hear(link->language, (enum ask)flight.ask, data + used,
                                         len - used, &took, said);
        if (heard == HEARD_MORE)
            return used;
        if (heard == HEARD_BROKEN) {
            driver_lost(link, "this is no answer: %s", said);
            return used;
        }
        used += took;
        if (heard == HEARD_PART) {
            driver_heard(link, &flight, heard, said);
            continue;
        }
        link->first = link->first + 1 < room ? link->first + 1 : 0;
        link->count--;
        driver_heard(link, &flight, heard, said);
        if (link->generation != generation)
            return used; /* the link was closed; the rest belongs to no one */
    }
    return used;
}

/* Stores the start of an answer until the rest arrives. */
static void keep_begun(struct link *link, const uint8_t *data, size_t len)
{
    if (len > link->in_room) {
        free(link->in);
        link->in_room = len * 2 < DRIVER_IN ? len * 2 : DRIVER_IN;
        link->in = malloc(link->in_room);
        CHECK(link->in && len <= link->in_room);
    }
    memcpy(link->in, data, len);
    link->in_len = len;
}

/* Receives once. Returns false when there is nothing more, or the link has ended. */
static bool read_once(struct link *link)
{
    struct driver *driver = link->driver;
    uint32_t generation = link->generation;
    size_t begun = link->in_len;
    if (begun == DRIVER_IN) {
        driver_lost(link, "an answer of more than %zu bytes", DRIVER_IN);
        return false;
    }
    size_t room = DRIVER_IN - begun < RECEIVE_MAX ? DRIVER_IN - begun : RECEIVE_MAX;
    ssize_t got = link->tls ? secure_read(link->tls, driver->in + begun, room)
                            : recv(link->fd, driver->in + begun, room, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    driver->now_ns = clock_mono_ns();
    if (got <= 0) {
        int error = link->error || got == 0 ? link->error : errno;
        driver_lost(link, "the connection ended: %s",
                    error ? strerrordesc_np(error) : "it was closed by the server");
        return false;
    }
    if (begun > 0)
        memcpy(driver->in, link->in, begun);
    link->in_len = 0;
    size_t len = begun + (size_t)got, used = hear_all(link, driver->in, len);
    if (link->generation == generation && used < len)
        keep_begun(link, driver->in + used, len - used);
    return link->generation == generation;
}

/* Continues connecting. Returns false when the link is not connected yet, or lost. */
static bool finish_connecting(struct link *link)
{
    if (link->tls) {
        const char *why = NULL;
        enum secure_step step = secure_shake_hands(link->tls, &why);
        if (step == SECURE_FAILED)
            driver_lost(link, "the TLS handshake failed: %s", why);
        else if (step != SECURE_DONE)
            watch(link, step == SECURE_WANTS_IN ? EPOLLIN : EPOLLIN | EPOLLOUT);
        if (step != SECURE_DONE)
            return false;
    } else {
        int error = 0;
        socklen_t len = sizeof error;
        if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0) {
            driver_lost(link, "connecting to %s: %s", link->target->text, strerrordesc_np(error));
            return false;
        }
    }
    link->state = LINK_UP;
    return true;
}

void link_handle(struct link *link, uint32_t events)
{
    bool is_new = link->state == LINK_CONNECTING;
    if (link->state == LINK_CLOSED || (is_new && !finish_connecting(link)))
        return;
    if (is_new || (events & EPOLLOUT)) {
        if (has_unsent(link))
            send_kept(link);
        watch_as_needed(link);
    }
    if (!(events & ~(uint32_t)EPOLLOUT))
        return;
    while (read_once(link) && link->tls && secure_has_more(link->tls)) {
    }
}
