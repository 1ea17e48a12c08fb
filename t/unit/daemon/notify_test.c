/* notify_test.c - how often life is shown to a service manager (transcripts/activation.ctl). */
#include "config.h"

#include "base/check.h"
#include "base/clock.h"
#include "daemon/notify.h"
#include "t/unit/unit.h"

#include <stdio.h>
#include <unistd.h>

/* NOLINTBEGIN(concurrency-mt-unsafe): one thread */

#ifdef HAVE_SYSTEMD

TEST(life_is_shown_three_times_as_often_as_needed)
{
    char pid[32];
    unsetenv("WATCHDOG_USEC");
    ck_assert_int_eq(notify_alive_interval_ns(), 0);
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

#endif

/* NOLINTEND(concurrency-mt-unsafe) */

UNIT_MAIN("daemon/notify")
