/* service.h - the harness of both services, with clients of both kinds; which are how many differs.
 */
#ifndef FUZZ_SERVICE_H
#define FUZZ_SERVICE_H

#include "fuzz/fuzz.h"

/* Protocols of the clients that an input speaks for, in their order. */
#define SERVICE_CLIENTS 4
extern const char *const service_clients[SERVICE_CLIENTS];

#endif
