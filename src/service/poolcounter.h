/* poolcounter.h - the PoolCounter protocol's service: its row, settings and options. */
#ifndef SERVICE_POOLCOUNTER_H
#define SERVICE_POOLCOUNTER_H

#include "base/option.h"
#include "service/service.h"

struct poolcounter_settings {
    uint32_t max_locks; /* per connection; at least 1 */
    uint32_t max_line;  /* in bytes */
};

static inline const struct poolcounter_settings *
poolcounter_settings_of(const struct service *service)
{
    return service->settings;
}

/* The number of locks that fit into a session: more than the settings allow if an earlier process
 * allowed more. */
static inline uint32_t poolcounter_room(const struct service *service)
{
    uint32_t wanted = poolcounter_settings_of(service)->max_locks;
    uint32_t had = service->services->session_room;
    return wanted > had ? wanted : had;
}

extern const struct service_row poolcounter_row;
extern const struct option_protocol poolcounter_options;

/* `save` and `restore` of the row (poolcounter_state.c). */
void poolcounter_save(struct conn *conn, struct record_writer *w);
bool poolcounter_restore(struct conn *conn, struct record_reader *r);

#endif
