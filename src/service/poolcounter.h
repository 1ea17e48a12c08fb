/* poolcounter.h - the settings of the PoolCounter protocol's service (poolcounter.c). */
#ifndef SERVICE_POOLCOUNTER_H
#define SERVICE_POOLCOUNTER_H

#include "base/option.h"
#include "service/service.h"

struct poolcounter_settings {
    uint32_t max_locks; /* per connection; at least 1 */
    uint32_t max_line;  /* in bytes */
};

extern const struct service_row poolcounter_row;
extern const struct option_protocol poolcounter_options;

#endif
