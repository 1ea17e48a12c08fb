/*
 * registry.c - takes the place of src/service/registry.c in counterd-echo: what the daemon has, and
 * the echo protocol and its resource besides.
 */
#include "service/poolcounter.h"
#include "service/pools.h"
#include "service/table_resource.h"

extern const struct service_row counter_row, echo_row;
extern const struct option_protocol counter_options, echo_options;
extern const struct resource_row echo_resource_row;

static const struct service_row *const protocols[] = {&poolcounter_row, &counter_row, &echo_row,
                                                      NULL};
static const struct resource_row *const resources[] = {&table_resource_row, &pools_resource_row,
                                                       &echo_resource_row, NULL};
const struct registry registry = {.protocols = protocols, .resources = resources};

/* In the same order. The settings of the protocol "echo" are also the resource's of that name. */
static const struct option_protocol *const protocol_options[] = {
    &poolcounter_options, &counter_options, &echo_options, NULL};
static const struct option_group *const groups[] = {&table_options, &pools_options, &pool_family,
                                                    NULL};
const struct option_registry option_registry = {.protocols = protocol_options, .groups = groups};
