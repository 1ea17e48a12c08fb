/*
 * notify_test.c - what test_activation.py cannot see of notifications to a service manager: the
 * test is the manager, with a datagram socket. Each test has a process and environment of its own.
 */
#include "config.h"

#include "base/check.h"
#include "base/clock.h"
#include "daemon/notify.h"
#include "t/unit/unit.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */

/* Makes the manager's socket and puts its address into the environment. */
static int make_manager(void)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char name[64];
    int len = snprintf(name, sizeof name, "@notify_test %ld", (long)getpid());
    memcpy(sa.sun_path + 1, name + 1, (size_t)len - 1);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

/* The next notification, "" if none was sent; datagrams arrive at once. */
static const char *heard(int manager)
{
    static char text[4096];
    ssize_t got = recv(manager, text, sizeof text - 1, 0);
    ck_assert(got >= 0 || errno == EAGAIN);
    text[got < 0 ? 0 : got] = '\0';
    return text;
}

TEST(without_a_manager_nothing_happens)
{
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    notify_ready("x");
    notify_reloading();
    notify_stopping();
    notify_alive();
    ck_assert_int_eq(notify_alive_interval_ns(), 0);
}
END_TEST

#ifdef HAVE_SYSTEMD

TEST(a_manager_hears_of_a_reload_and_the_end)
{
    int manager = make_manager();
    long long us, before = clock_mono_ns() / 1000;
    notify_reloading();
    long long after = clock_mono_ns() / 1000;
    ck_assert_int_eq(
        sscanf(heard(manager), "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading", &us), 1);
    ck_assert(before <= us && us <= after);
    notify_stopping();
    ck_assert_str_eq(heard(manager), "STOPPING=1\nSTATUS=ending");
    ck_assert_str_eq(heard(manager), "");
}
END_TEST

TEST(life_is_shown_three_times_as_often_as_needed)
{
    char pid[32];
    setenv("WATCHDOG_USEC", "30000000", 1);
    ck_assert_int_eq(notify_alive_interval_ns(), 10 * NS_PER_S);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    ck_assert_int_eq(notify_alive_interval_ns(), 10 * NS_PER_S);
    setenv("WATCHDOG_PID", "1", 1); /* the watchdog is for another process */
    ck_assert_int_eq(notify_alive_interval_ns(), 0);
    unsetenv("WATCHDOG_PID");
    static const char *const wrong[] = {"", "0", "-5", "soon"};
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        setenv("WATCHDOG_USEC", wrong[i], 1);
        ck_assert_int_eq(notify_alive_interval_ns(), 0);
    }
}
END_TEST

#else

TEST(built_without_it_no_manager_hears_a_thing)
{
    int manager = make_manager();
    setenv("WATCHDOG_USEC", "30000000", 1);
    notify_ready("x");
    notify_reloading();
    notify_stopping();
    notify_alive();
    ck_assert_str_eq(heard(manager), "");
    ck_assert_int_eq(notify_alive_interval_ns(), 0);
}
END_TEST

#endif

/* NOLINTEND(concurrency-mt-unsafe) */

static const struct unit_test tests[] = {
    UNIT(without_a_manager_nothing_happens),
#ifdef HAVE_SYSTEMD
    UNIT(a_manager_hears_of_a_reload_and_the_end),
    UNIT(life_is_shown_three_times_as_often_as_needed),
#else
    UNIT(built_without_it_no_manager_hears_a_thing),
#endif
};

UNIT_MAIN("daemon/notify", tests)
