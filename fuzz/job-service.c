/* job-service.c - four clients of the job queues (see service.c). */
#include "fuzz/service.h"

#include <sys/random.h>

const char *const service_clients[SERVICE_CLIENTS] = {"jobs", "jobs", "jobs", "jobs"};

/* Instead of the C library's (--wrap), so that an input always gives the same result. */
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t len, unsigned flags)
{
    (void)flags;
    memset(to, 7, len);
    return (ssize_t)len;
}
