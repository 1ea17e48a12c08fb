/*
 * service.h - the harness for both services, with clients of both protocols. text-service.c and
 * binary-service.c choose how many of each.
 */
#ifndef FUZZ_SERVICE_H
#define FUZZ_SERVICE_H

#include "fuzz/fuzz.h"

/* The protocols of an input's clients, in order. */
#define SERVICE_CLIENTS 4
extern const char *const service_clients[SERVICE_CLIENTS];

#endif
