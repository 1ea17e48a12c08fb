/* workload.c - the table of workloads (workload.h). */
#include "bench/counterbench/workload.h"

static const struct workload *const workloads[] = {
    &workload_pairs, &workload_churn, &workload_hot,      &workload_herd,
    &workload_mixed, &workload_dump,  &workload_idle,     &workload_names,
    &workload_pools, &workload_jobs,  &workload_put_jobs, &workload_take_jobs,
};

const struct workload *workload_at(size_t index)
{
    return index < ARRAY_SIZE(workloads) ? workloads[index] : NULL;
}

const struct workload *workload_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(workloads); i++)
        if (strcmp(workloads[i]->name, name) == 0)
            return workloads[i];
    return NULL;
}
