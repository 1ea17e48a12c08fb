/* listeners_test.c - the reach of an address; listeners that nobody serves. t/system tests
 * listening itself. */
#include "base/check.h"
#include "daemon/listeners.h"
#include "t/unit/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

static enum reach reach_of(const char *text)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in4.sin_addr) == 1)
        return listeners_reach((struct sockaddr *)&in4);
    ck_assert_int_eq(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return listeners_reach((struct sockaddr *)&in6);
}

TEST(the_reach_of_an_address_is_known)
{
    static const struct {
        enum reach reach;
        const char *addresses[12];
    } rows[] = {
        {REACH_MACHINE, {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"}},
        {REACH_NETWORK,
         {"10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1",
          "169.254.1.1", "100.64.0.1", "100.127.255.255", "fe80::1", "fd00::1", "fc00::1",
          "::ffff:10.0.0.1"}},
        {REACH_WORLD,
         {"0.0.0.0", "::", "9.255.255.255", "11.0.0.0", "172.15.0.1", "172.32.0.1", "192.169.0.1",
          "100.63.0.1", "100.128.0.1", "2001:db8::1", "8.8.8.8", "::ffff:8.8.8.8"}},
    };
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        for (size_t j = 0; j < ARRAY_SIZE(rows[i].addresses) && rows[i].addresses[j]; j++)
            ck_assert_msg(reach_of(rows[i].addresses[j]) == rows[i].reach, "%s",
                          rows[i].addresses[j]);
}
END_TEST

TEST(the_reach_of_a_socket_is_that_of_its_address)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&in4, sizeof in4), 0);
    ck_assert_int_eq(listeners_fd_reach(fd), REACH_WORLD);
    close(fd);
    ck_assert_int_eq(listeners_fd_reach(fd), REACH_MACHINE);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(listeners_fd_reach(fd), REACH_MACHINE);
    close(fd);
}
END_TEST

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

TEST(listeners_of_a_stopped_service_stay_open_aside)
{
    static struct service services[2] = {{.stopped = true}};
    static struct protocol protocols[2] = {{.service = &services[0]}, {.service = &services[1]}};
    static struct listeners listeners = {.count = 4};
    static struct activation activation = {.count = 1};
    int fds[4];
    for (unsigned i = 0; i < 4; i++) {
        fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        listeners.at[i] = (struct listener){.fd = fds[i], .protocol = &protocols[i % 2]};
        listeners.at[i].asked[0] = i > 0 ? '@' : '\0'; /* a service manager made the first */
    }
    activation.at[0].used_fd = fds[0];
    listeners_set_aside_stopped(&listeners);
    ck_assert(listeners.count == 2 && listeners.aside == 2);
    ck_assert(listeners.at[0].fd == fds[1] && listeners.at[1].fd == fds[3]);
    ck_assert(is_open(fds[0]) && is_open(fds[2]) && activation.count == 1);
    listeners_close_aside(&listeners, &activation);
    ck_assert(!is_open(fds[0]) && !is_open(fds[2]) && activation.count == 0);
    ck_assert(is_open(fds[1]) && is_open(fds[3]));
    ck_assert(listeners.at[2].fd == -1 && !listeners.at[2].protocol);
    listeners_set_aside_stopped(&listeners);
    ck_assert(listeners.count == 2 && listeners.aside == 0);
    services[1].stopped = true;
    listeners_set_aside_stopped(&listeners);
    listeners_close(&listeners); /* the start has failed */
    ck_assert(!is_open(fds[1]) && !is_open(fds[3]));
    ck_assert(listeners.count == 0 && listeners.aside == 0);
}
END_TEST

UNIT_MAIN("daemon/listeners")
