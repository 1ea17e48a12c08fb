/*
 * service.h - the harness for all services, with clients of all protocols. text-service.c,
 * binary-service.c and job-service.c choose how many of each.
 */
#ifndef FUZZ_SERVICE_H
#define FUZZ_SERVICE_H

#include "fuzz/fuzz.h"

/* The protocols of an input's clients, in order. */
#define SERVICE_CLIENTS 4
/* Either all are clients of jobs, or none is. */
extern const char *const service_clients[SERVICE_CLIENTS];

#endif
