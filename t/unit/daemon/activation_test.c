/*
 * activation_test.c - inherited sockets: the environment variables, the purpose of each socket, and
 * the state of the process afterwards. Each test runs in its own process.
 */
#include "daemon/activation.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* --- Frame ----------------------------------------------------------------------------------- */

static char reason[ACTIVATION_REASON_SIZE];
static struct activation activation;

/* A TCP socket bound to a loopback port; *port_r gets the port. */
static int tcp_socket(int family, bool listening, uint16_t *port_r)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&in4 : (struct sockaddr *)&in6;
    socklen_t len = family == AF_INET ? sizeof in4 : sizeof in6;
    int fd = socket(family, SOCK_STREAM, 0);
    if (bind(fd, sa, len) != 0 || (listening && listen(fd, 1) != 0) ||
        getsockname(fd, sa, &len) != 0) {
        close(fd);
        return -1;
    }
    *port_r = ntohs(family == AF_INET ? in4.sin_port : in6.sin6_port);
    return fd;
}

/* A listening unix socket; "@name" is abstract. */
static int unix_socket(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    memcpy(sa.sun_path, path, strlen(path));
    if (*path == '@')
        sa.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, len), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static struct activation_socket named(int fd, const char *name)
{
    struct activation_socket sock = {.fd = fd, .number = 5};
    snprintf(sock.name, sizeof sock.name, "%s", name);
    return sock;
}

static void assign(struct settings *settings, const char *key, const char *value)
{
    char why[OPTIONS_REASON_SIZE];
    ck_assert(options_assign(settings, options_find(key), value, why));
}

/* Both protocols, both with TLS and unix sockets; no socket of a test has these ports. */
static void make_settings(struct settings *settings)
{
    ck_assert(settings_init(settings));
    assign(settings, "counter.enable", "true");
    assign(settings, "poolcounter.port", "1");
    assign(settings, "poolcounter.tls_port", "2");
    assign(settings, "counter.port", "3");
    assign(settings, "counter.tls_port", "4");
    assign(settings, "admin.port", "5");
    assign(settings, "tls.cert", "/x");
}

static void assert_use(const struct settings *settings, int fd, const char *name, size_t protocol,
                       bool tls, bool local)
{
    struct activation_socket sock = named(fd, name);
    struct activation_use use;
    ck_assert_msg(activation_find_use(&sock, settings, &use, reason), "%s", reason);
    ck_assert_uint_eq(use.protocol, protocol);
    ck_assert_int_eq(use.tls, tls);
    ck_assert_int_eq(use.local, local);
}

static void assert_no_use(const struct settings *settings, int fd, const char *name,
                          const char *why)
{
    struct activation_socket sock = named(fd, name);
    struct activation_use use;
    ck_assert(!activation_find_use(&sock, settings, &use, reason));
    ck_assert_str_eq(reason, why);
}

/* The protocols, by their place in the registry. */
#define TEXT   0
#define BINARY 1

/* --- The environment ------------------------------------------------------------------------- */

#define X64  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X255 X64 X64 X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

/* The three variables of process 42; how many sockets there are, and the names, or what is said. */
static const struct {
    const char *pid, *fds, *names;
    size_t count;
    const char *has[3], *why;
} environments[] = {
    {NULL, NULL, NULL, 0, {0}, NULL},
    {"42", NULL, "a:b", 0, {0}, NULL},
    {NULL, "2", NULL, 0, {0}, NULL},
    {"41", "2", NULL, 0, {0}, NULL},
    {"41", "nonsense", "x:y:z", 0, {0}, NULL},
    {"42", "0", NULL, 0, {0}, NULL},
    {"42", "0", "", 0, {0}, NULL},
    {"42", "1", NULL, 1, {""}, NULL},
    {"42", "64", NULL, 64, {""}, NULL},
    {"42", "3", "poolcounter::admin", 3, {"poolcounter", "", "admin"}, NULL},
    {"42", "1", "", 1, {""}, NULL},
    {"42", "2", ":", 2, {"", ""}, NULL},
    {"42", "1", X255, 1, {X255}, NULL},
    {"42", "1", X255 "x", 0, {0}, "LISTEN_FDNAMES: a name is longer than 255 bytes"},
    {"x", "1", NULL, 0, {0}, "LISTEN_PID: \"x\" is no process id"},
    {"", "1", NULL, 0, {0}, "LISTEN_PID: \"\" is no process id"},
    {"4294967338", "1", NULL, 0, {0}, "LISTEN_PID: \"4294967338\" is no process id"},
    {"42", "-1", NULL, 0, {0}, "LISTEN_FDS: \"-1\" is not a number from 0 to 64"},
    {"42", "65", NULL, 0, {0}, "LISTEN_FDS: \"65\" is not a number from 0 to 64"},
    {"42", "1x", NULL, 0, {0}, "LISTEN_FDS: \"1x\" is not a number from 0 to 64"},
    {"42", "2", "a", 0, {0}, "LISTEN_FDNAMES has 1 names, and LISTEN_FDS says 2 sockets"},
    {"42", "1", "a:", 0, {0}, "LISTEN_FDNAMES has 2 names, and LISTEN_FDS says 1 sockets"},
};

TEST(the_environment_says_how_many_and_their_names)
{
    for (size_t i = 0; i < ARRAY_SIZE(environments); i++) {
        const char *why = environments[i].why;
        activation.count = 9;
        bool good = activation_parse(environments[i].pid, environments[i].fds,
                                     environments[i].names, 42, &activation, reason);
        ck_assert_msg(good == !why, "row %zu: %s", i, reason);
        if (why) {
            ck_assert_str_eq(reason, why);
            continue;
        }
        ck_assert_uint_eq(activation.count, environments[i].count);
        for (size_t k = 0; k < activation.count; k++) {
            const struct activation_socket *sock = &activation.at[k];
            ck_assert(sock->fd == (int)k + 3 && sock->number == (int)k + 3);
            if (k < 3 && environments[i].has[k])
                ck_assert_str_eq(sock->name, environments[i].has[k]);
        }
    }
}
END_TEST

/* --- Taking ---------------------------------------------------------------------------------- */

static int kept = -1; /* the old descriptor 3, which belongs to Check */

/*
 * Puts a descriptor at number 3 and describes it in the environment. Use no assertions between this
 * and take_back: Check needs its descriptor.
 */
static void hand_over(int fd, const char *fds)
{
    char pid[32];
    kept = fcntl(3, F_DUPFD, 10);
    dup2(fd, 3);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    /* NOLINTBEGIN(concurrency-mt-unsafe): one thread */
    setenv("LISTEN_PID", pid, 1);
    setenv("LISTEN_FDS", fds, 1);
    setenv("LISTEN_FDNAMES", "admin", 1);
    /* NOLINTEND(concurrency-mt-unsafe) */
}

/* Restores descriptor 3, so that Check can report. */
static void take_back(void)
{
    if (kept >= 0)
        dup2(kept, 3);
}

TEST(what_is_taken_is_left_to_nobody_else)
{
    uint16_t port;
    hand_over(tcp_socket(AF_INET, true, &port), "1");
    bool taken = activation_take(&activation, reason);
    size_t count = activation.count;
    int flags = fcntl(3, F_GETFD);
    activation_close(&activation);
    int closed = fcntl(3, F_GETFD);
    take_back();
    ck_assert_msg(taken, "%s", reason);
    ck_assert_uint_eq(count, 1);
    ck_assert_str_eq(activation.at[0].name, "admin");
    ck_assert_int_eq(flags, FD_CLOEXEC);
    ck_assert_int_eq(closed, -1);
    for (size_t i = 0; activation_variables[i]; i++)
        ck_assert_ptr_null(getenv(activation_variables[i])); /* NOLINT(concurrency-mt-unsafe) */
    ck_assert_uint_eq(activation.count, 0);
    ck_assert(activation_take(&activation, reason));
    ck_assert_uint_eq(activation.count, 0);
}
END_TEST

TEST(what_was_taken_over_is_not_closed)
{
    uint16_t port;
    hand_over(tcp_socket(AF_INET, true, &port), "1");
    bool taken = activation_take(&activation, reason);
    activation.at[0].fd = -1;
    activation_close(&activation);
    int flags = fcntl(3, F_GETFD);
    take_back();
    ck_assert(taken);
    ck_assert_int_ne(flags, -1);
}
END_TEST

TEST(a_descriptor_that_is_not_open_is_told)
{
    char expected[128];
    hand_over(STDERR_FILENO, "1");
    close(3);
    bool taken = activation_take(&activation, reason);
    take_back();
    ck_assert(!taken);
    snprintf(expected, sizeof expected, "descriptor 3, of 1 that LISTEN_FDS announces: %s",
             strerrordesc_np(EBADF));
    ck_assert_str_eq(reason, expected);
}
END_TEST

TEST(a_listening_standard_input_is_the_text_protocols)
{
    uint16_t port;
    struct settings settings;
    int fd = tcp_socket(AF_INET, true, &port);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    ck_assert_msg(activation_take(&activation, reason), "%s", reason);
    ck_assert_uint_eq(activation.count, 1);
    ck_assert_int_ge(activation.at[0].fd, 3);
    ck_assert_int_eq(activation.at[0].number, 0);
    ck_assert_int_eq(fcntl(activation.at[0].fd, F_GETFD), FD_CLOEXEC);
    make_settings(&settings);
    assert_use(&settings, activation.at[0].fd, activation.at[0].name, TEXT, false, false);
    char c;
    ck_assert_int_eq(read(STDIN_FILENO, &c, 1), 0); /* now it is /dev/null */
    settings_free(&settings);
}
END_TEST

/* --- What a socket is for -------------------------------------------------------------------- */

TEST(a_name_says_what_a_socket_is_for)
{
    static const struct {
        const char *name;
        size_t protocol;
        bool tls;
    } rows[] = {
        {"poolcounter", TEXT, false},       {"poolcounter-tls", TEXT, true},
        {"counter", BINARY, false},         {"counter-tls", BINARY, true},
        {"admin", ACTIVATION_ADMIN, false},
    };
    uint16_t port;
    struct settings settings;
    make_settings(&settings);
    int fd = tcp_socket(AF_INET, true, &port);
    settings_protocol(&settings, BINARY)->port = port; /* the name counts, not the port */
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_use(&settings, fd, rows[i].name, rows[i].protocol, rows[i].tls, false);
    settings_free(&settings);
}
END_TEST

TEST(without_a_name_of_ours_its_port_does)
{
    static const int families[] = {AF_INET, AF_INET6};
    static const char *const names[] = {"", "counterd.socket", "counter-", "poolcounter2",
                                        "admin2"};
    for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
        uint16_t port;
        int fd = tcp_socket(families[i], true, &port);
        /* Some machines have no IPv6. */
        for (size_t option = 0; fd >= 0 && option < 5; option++) {
            struct settings settings;
            make_settings(&settings);
            uint16_t *const ports[] = {&settings_protocol(&settings, TEXT)->port,
                                       &settings_protocol(&settings, TEXT)->tls_port,
                                       &settings_protocol(&settings, BINARY)->port,
                                       &settings_protocol(&settings, BINARY)->tls_port,
                                       &settings.admin_port};
            *ports[option] = port;
            for (size_t k = 0; k < ARRAY_SIZE(names); k++)
                assert_use(&settings, fd, names[k], option == 4 ? ACTIVATION_ADMIN : option / 2,
                           option % 2 == 1, false);
            settings_free(&settings);
        }
        close(fd);
    }
}
END_TEST

TEST(or_its_path)
{
    struct settings settings;
    char path[] = "/tmp/activation_test.XXXXXX", abstract[64], socket_path[64];
    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(socket_path, sizeof socket_path, "%s/s", path);
    snprintf(abstract, sizeof abstract, "@activation_test %ld", (long)getpid());
    int fd = unix_socket(socket_path), abstract_fd = unix_socket(abstract);
    make_settings(&settings);
    assign(&settings, "poolcounter.socket", socket_path);
    assign(&settings, "counter.socket", abstract);
    assert_use(&settings, fd, "", TEXT, false, true);
    assert_use(&settings, abstract_fd, "", BINARY, false, true);
    assert_use(&settings, fd, "counter", BINARY, false, true);
    assert_use(&settings, fd, "admin", ACTIVATION_ADMIN, false, true);
    settings_protocol(&settings, BINARY)->plain = false; /* an option for TCP only */
    assert_use(&settings, fd, "counter", BINARY, false, true);
    assert_no_use(&settings, fd, "poolcounter-tls",
                  "descriptor 5 (\"poolcounter-tls\") is a unix socket, where TLS is not served; "
                  "name it poolcounter");
    assign(&settings, "counter.socket", abstract + 1);
    char expected[ACTIVATION_REASON_SIZE];
    snprintf(expected, sizeof expected,
             "descriptor 5 listens on unix socket %s, which no option names, and its name is not "
             "known; name it poolcounter, poolcounter-tls, counter, counter-tls, jobs, jobs-tls or "
             "admin",
             abstract);
    assert_no_use(&settings, abstract_fd, "", expected);
    unlink(socket_path);
    rmdir(path);
    settings_free(&settings);
}
END_TEST

TEST(what_has_no_use_is_told)
{
    uint16_t port;
    struct settings settings;
    char expected[ACTIVATION_REASON_SIZE];
    make_settings(&settings);
    int fd = tcp_socket(AF_INET, true, &port);
    snprintf(expected, sizeof expected,
             "descriptor 5 (\"web\") listens on 127.0.0.1:%u, which no option names, and its "
             "name is not known; name it poolcounter, poolcounter-tls, counter, counter-tls, jobs, "
             "jobs-tls or "
             "admin",
             port);
    assert_no_use(&settings, fd, "web", expected);
    assert_no_use(&settings, tcp_socket(AF_INET, false, &port), "counter",
                  "descriptor 5 (\"counter\") is not a listening stream socket");
    assert_no_use(&settings, open("/dev/null", O_RDONLY), "",
                  "descriptor 5 is not a listening stream socket");
    assert_no_use(&settings, socket(AF_INET, SOCK_DGRAM, 0), "",
                  "descriptor 5 is not a listening stream socket");
    settings_free(&settings);
}
END_TEST

TEST(what_the_settings_exclude_is_told)
{
    uint16_t port;
    struct settings settings;
    ck_assert(settings_init(&settings));
    int fd = tcp_socket(AF_INET, true, &port);
    assert_no_use(&settings, fd, "counter",
                  "descriptor 5 (\"counter\") is for a protocol that is not served; set "
                  "counter.enable to true, or leave the socket out");
    assert_no_use(&settings, fd, "poolcounter-tls",
                  "descriptor 5 (\"poolcounter-tls\") is for TLS, and there is no certificate; set "
                  "tls.cert");
    settings_protocol(&settings, TEXT)->plain = false;
    assert_no_use(&settings, fd, "poolcounter",
                  "descriptor 5 (\"poolcounter\") is not for TLS, and poolcounter.plain is false; "
                  "name it poolcounter-tls, or leave the socket out");
    settings_free(&settings);
}
END_TEST

static const struct unit_test tests[] = {
    UNIT(the_environment_says_how_many_and_their_names),
    UNIT(what_is_taken_is_left_to_nobody_else),
    UNIT(what_was_taken_over_is_not_closed),
    UNIT(a_descriptor_that_is_not_open_is_told),
    UNIT(a_listening_standard_input_is_the_text_protocols),
    UNIT(a_name_says_what_a_socket_is_for),
    UNIT(without_a_name_of_ours_its_port_does),
    UNIT(or_its_path),
    UNIT(what_has_no_use_is_told),
    UNIT(what_the_settings_exclude_is_told),
};

UNIT_MAIN("daemon/activation", tests)
