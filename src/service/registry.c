/* registry.c - the list of protocols and resources of this daemon. All other code finds them
 * through their rows here; a test may link another registry. */
#include "service/beanstalk.h"
#include "service/cluster.h"
#include "service/poolcounter.h"
#include "service/pools.h"
#include "service/table_resource.h"

extern const struct service_row counter_row;
extern const struct option_protocol counter_options;

static const struct service_row *const protocols[] = {&poolcounter_row, &counter_row, &jobs_row,
                                                      NULL};
static const struct resource_row *const resources[] = {&table_resource_row,   &pools_resource_row,
                                                       &tubes_resource_row,   &store_resource_row,
                                                       &cluster_resource_row, NULL};
const struct registry registry = {.protocols = protocols, .resources = resources};

/* In the order of the rows above. */
static const struct option_protocol *const protocol_options[] = {
    &poolcounter_options, &counter_options, &jobs_options, NULL};
static const struct option_group *const groups[] = {
    &table_options, &pools_options,   &pool_family, &tubes_options,
    &store_options, &cluster_options, NULL};
const struct option_registry option_registry = {.protocols = protocol_options, .groups = groups};
