/*
 * beanstalk.h - the service of the job queues and its resource, as the registry and the admin
 * interface see them.
 */
#ifndef SERVICE_BEANSTALK_H
#define SERVICE_BEANSTALK_H

#include "base/option.h"
#include "jobs/jobs.h"
#include "service/service.h"

/* The protocol's own settings. */
struct job_settings_of_protocol {
    uint64_t max_job_size; /* bytes */
};

/* Those of the resource. */
struct store_settings {
    char *path;        /* NULL or empty: jobs live in memory */
    unsigned sync;     /* enum job_store_sync */
    char *backup_path; /* a folder; NULL or empty: that of `path` */
};
struct tubes_settings {
    uint64_t memory_limit; /* bytes */
    char *tube_defaults;   /* as in the file */
    struct job_settings defaults;
};

extern const struct service_row jobs_row;
extern const struct option_protocol jobs_options;
extern const struct resource_row tubes_resource_row;
extern const struct option_group tubes_options;
extern const struct resource_row store_resource_row;
extern const struct option_group store_options;

#endif
