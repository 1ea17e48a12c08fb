/* notify.c - see notify.h. */
#include "config.h"

#include "daemon/notify.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#else
static int sd_notifyf(int unset, const char *format, ...)
{
    (void)unset;
    (void)format;
    return 0;
}
#define sd_watchdog_enabled(unset, us) (*(us) = 0)
#endif

/* Logs a message that could not be sent; the daemon goes on. */
static void check_sent(int result)
{
    if (result < 0)
        log_warning("can't notify the service manager: %s", strerrordesc_np(-result));
}

void notify_ready(const char *status)
{
    check_sent(sd_notifyf(0, "READY=1\nSTATUS=%s", status));
}

void notify_reloading(void)
{
    check_sent(sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=reloading",
                          (long long)(clock_mono_ns() / 1000)));
}

void notify_stopping(void)
{
    check_sent(sd_notifyf(0, "STOPPING=1\nSTATUS=ending"));
}

void notify_draining(int64_t allow_ns, const char *status)
{
    check_sent(sd_notifyf(0, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld\nSTATUS=%s",
                          (long long)(allow_ns / 1000), status));
}

int64_t notify_alive_interval_ns(void)
{
    uint64_t us;
    if (sd_watchdog_enabled(0, &us) <= 0)
        return 0;
    return us < INT64_MAX / 1000 ? (int64_t)(us * 1000 / 3) : 0;
}

static int64_t last_alive_ns;

void notify_alive(void)
{
    last_alive_ns = clock_mono_ns();
    (void)sd_notifyf(0, "WATCHDOG=1"); /* if it is lost, the manager reports it */
}

void notify_alive_again(void)
{
    int64_t interval_ns = notify_alive_interval_ns();
    if (interval_ns && clock_mono_ns() - last_alive_ns >= interval_ns)
        notify_alive();
}
