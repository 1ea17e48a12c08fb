/* activation.c - see activation.h. */
#include "daemon/activation.h"

#include "base/number.h"
#include "net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first descriptor that a service manager hands over. */
#define FIRST_FD 3

/* The environment variables that activation_take reads; the manual lists each. */
static const char *const activation_variables[] = {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES",
                                                   NULL};

/* Formats the reason and returns false. */
static bool PRINTF_LIKE(2, 3) fail(char *reason_r, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(reason_r, ACTIVATION_REASON_SIZE, format, values);
    va_end(values);
    return false;
}

/* --- The environment ------------------------------------------------------------------------- */

/* Copies the colon-separated `names` to the sockets. */
static bool name_sockets(const char *names, struct activation *activation, char *reason_r)
{
    size_t count = 0;
    for (const char *name = names;; name++) {
        size_t len = strcspn(name, ":");
        if (len > ACTIVATION_NAME_MAX)
            return fail(reason_r, "LISTEN_FDNAMES: a name is longer than %d bytes",
                        ACTIVATION_NAME_MAX);
        if (count < activation->count) {
            memcpy(activation->at[count].name, name, len);
            activation->at[count].name[len] = '\0';
        }
        count++;
        name += len;
        if (!*name)
            break;
    }
    if (count != activation->count)
        return fail(reason_r, "LISTEN_FDNAMES has %zu names, and LISTEN_FDS says %zu sockets",
                    count, activation->count);
    return true;
}

/*
 * Parses the values of the three variables (NULL: not set) for the process `self`. Descriptors
 * start at 3. No sockets when the variables are not set or name another process. Returns false when
 * a value is invalid; reason_r says why.
 */
static bool activation_parse(const char *pid, const char *fds, const char *names, pid_t self,
                             struct activation *activation_r, char *reason_r)
{
    uint64_t number;
    activation_r->count = 0;
    if (!pid || !fds)
        return true;
    if (!number_parse(bytes_of(pid), INT32_MAX, &number))
        return fail(reason_r, "LISTEN_PID: \"%.40s\" is no process id", pid);
    if ((pid_t)number != self)
        return true;
    if (!number_parse(bytes_of(fds), ACTIVATION_MAX, &number))
        return fail(reason_r, "LISTEN_FDS: \"%.40s\" is not a number from 0 to %d", fds,
                    ACTIVATION_MAX);
    for (int i = 0; i < (int)number; i++)
        activation_r->at[activation_r->count++] = (struct activation_socket){
            .fd = FIRST_FD + i, .used_fd = FIRST_FD + i, .number = FIRST_FD + i};
    return !names || number == 0 || name_sockets(names, activation_r, reason_r);
}

/* --- Taking the sockets ---------------------------------------------------------------------- */

static bool is_listening(int fd)
{
    int value = 0;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value != 0;
}

/* The protocol that serves a socket passed as standard input; NULL: none. */
static const struct option_protocol *protocol_of_stdin(void)
{
    size_t i = 0;
    while (options_protocol_at(i) && !options_protocol_at(i)->takes_stdin)
        i++;
    return options_protocol_at(i);
}

/* Takes standard input if it is a listening socket. */
static bool take_standard_input(struct activation *activation, char *reason_r)
{
    const struct option_protocol *protocol = protocol_of_stdin();
    if (!protocol || !is_listening(STDIN_FILENO))
        return true;
    if (activation->count == ACTIVATION_MAX)
        return fail(reason_r,
                    "standard input is a listening socket, but %d others were passed, which is the "
                    "limit",
                    ACTIVATION_MAX);
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, FIRST_FD);
    int nowhere = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool replaced = fd >= 0 && nowhere >= 0 && dup2(nowhere, STDIN_FILENO) >= 0;
    int error = errno;
    if (nowhere >= 0)
        close(nowhere);
    if (!replaced) {
        if (fd >= 0)
            close(fd);
        return fail(reason_r, "can't take the listening socket that is standard input: %s",
                    strerrordesc_np(error));
    }
    struct activation_socket *sock = &activation->at[activation->count++];
    *sock = (struct activation_socket){.fd = fd, .used_fd = fd, .number = STDIN_FILENO};
    snprintf(sock->name, sizeof sock->name, "%s", protocol->name);
    return true;
}

/* NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet */
bool activation_take(struct activation *activation_r, char *reason_r)
{
    if (!activation_parse(getenv("LISTEN_PID"), getenv("LISTEN_FDS"), getenv("LISTEN_FDNAMES"),
                          getpid(), activation_r, reason_r)) {
        activation_r->count = 0;
        return false;
    }
    for (size_t i = 0; activation_variables[i]; i++)
        unsetenv(activation_variables[i]);
    for (size_t i = 0; i < activation_r->count; i++) {
        if (fcntl(activation_r->at[i].fd, F_SETFD, FD_CLOEXEC) != 0)
            return fail(reason_r, "descriptor %d, of %zu that LISTEN_FDS announces: %s",
                        activation_r->at[i].number, activation_r->count, strerrordesc_np(errno));
    }
    return take_standard_input(activation_r, reason_r);
}
/* NOLINTEND(concurrency-mt-unsafe) */

void activation_forget(struct activation *activation, int fd)
{
    size_t i = 0;
    while (i < activation->count && activation->at[i].used_fd != fd)
        i++;
    CHECK(i < activation->count);
    activation->at[i] = activation->at[--activation->count];
}

void activation_close(struct activation *activation)
{
    for (size_t i = 0; i < activation->count; i++)
        if (activation->at[i].fd >= 0)
            close(activation->at[i].fd);
    activation->count = 0;
}

/* --- What a socket serves -------------------------------------------------------------------- */

/* Finds the use from a socket's name. */
static bool use_of_name(const char *name, struct activation_use *use_r)
{
    if (strcmp(name, "admin") == 0) {
        use_r->protocol = ACTIVATION_ADMIN;
        return true;
    }
    for (size_t i = 0; options_protocol_at(i); i++) {
        const char *protocol = options_protocol_at(i)->name;
        size_t len = strlen(protocol);
        if (strncmp(name, protocol, len) != 0 ||
            (name[len] != '\0' && strcmp(name + len, "-tls") != 0))
            continue;
        use_r->protocol = i;
        use_r->tls = name[len] != '\0';
        return true;
    }
    return false;
}

/* Finds the use from the port (0: none) or the path `where` in the settings. */
static bool use_of_place(uint16_t port, const char *where, const struct settings *settings,
                         struct activation_use *use_r)
{
    for (size_t i = 0; options_protocol_at(i); i++) {
        const struct settings_protocol *p = settings_protocol(settings, i);
        bool plain = port ? port == p->port : p->socket && strcmp(where, p->socket) == 0;
        if (!plain && (!port || port != p->tls_port))
            continue;
        use_r->protocol = i;
        use_r->tls = !plain;
        return true;
    }
    use_r->protocol = ACTIVATION_ADMIN;
    return port && port == settings->admin_port;
}

/* Lists all known names: "NAME, NAME-tls, ... or admin". */
static void list_names(char *to, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; options_protocol_at(i); i++) {
        const char *name = options_protocol_at(i)->name;
        len += (size_t)snprintf(to + len, size - len, "%s%s, %s-tls", i ? ", " : "", name, name);
        CHECK(len < size);
    }
    snprintf(to + len, size - len, " or admin");
}

/* "descriptor 3 ("web")" */
static void describe(const struct activation_socket *sock, char *to, size_t size)
{
    if (*sock->name)
        snprintf(to, size, "descriptor %d (\"%.60s\")", sock->number, sock->name);
    else
        snprintf(to, size, "descriptor %d", sock->number);
}

/* True when the settings allow this use of an inherited socket; `what` names the socket. If not,
 * writes the reason to reason_r. */
static bool is_allowed(const struct activation_use *use, const struct settings *settings,
                       const char *what, char *reason_r)
{
    if (use->protocol == ACTIVATION_ADMIN)
        return true;
    const struct settings_protocol *p = settings_protocol(settings, use->protocol);
    const char *name = options_protocol_at(use->protocol)->name;
    if (!p->enable)
        return fail(reason_r,
                    "%s is for a protocol that is not served; set %s.enable to true, or "
                    "leave the socket out",
                    what, name);
    if (use->tls && use->local)
        return fail(reason_r, "%s is a unix socket, where TLS is not served; name it %s", what,
                    name);
    if (use->tls && !settings->tls_cert)
        return fail(reason_r, "%s is for TLS, and there is no certificate; set tls.cert", what);
    if (!use->tls && !use->local && !p->plain)
        return fail(reason_r,
                    "%s is not for TLS, and %s.plain is false; name it %s-tls, or leave "
                    "the socket out",
                    what, name, name);
    return true;
}

bool activation_find_use(const struct activation_socket *sock, const struct settings *settings,
                         struct activation_use *use_r, char *reason_r)
{
    struct listener found;
    uint16_t port;
    char what[96], names[320];
    describe(sock, what, sizeof what);
    *use_r = (struct activation_use){.tls = false};
    if (!listener_find(&found, sock->fd, &port))
        return fail(reason_r, "%s is not a listening stream socket", what);
    use_r->local = found.local;
    if (!use_of_name(sock->name, use_r) && !use_of_place(port, found.where, settings, use_r)) {
        list_names(names, sizeof names);
        return fail(reason_r,
                    "%s listens on %s%s, which no option names, and its name is not known; name it "
                    "%s",
                    what, found.local ? "unix socket " : "", found.where, names);
    }
    return is_allowed(use_r, settings, what, reason_r);
}
