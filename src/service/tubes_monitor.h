/*
 * tubes_monitor.h - what tubes of jobs show of themselves (monitor.h), in three files:
 * tubes_monitor.c has metrics and statistics, jobs_api.c what there is in JSON, jobs_api_change.c
 * what operators change and what the store must be asked for.
 *
 * Threads: the admin's thread. The lock of the jobs is held for a bounded piece at a time, so the
 * workers do not wait for it.
 */
#ifndef SERVICE_TUBES_MONITOR_H
#define SERVICE_TUBES_MONITOR_H

#include "jobs/jobs.h"
#include "service/monitor.h"

extern const struct monitor tubes_monitor;

/* jobs_api.c */
route_handler get_tubes, get_tube, get_jobs, get_job;
/* Answers with a job whose view has its body. */
void jobs_answer_job(struct services *services, struct http_request *request,
                     const struct job_view *view);

/* jobs_api_change.c */
route_handler pause_tube, clear_tube, kick_job, delete_job, get_drain, switch_drain;
/* Reads the body of a view that has none, and then answers with the job. */
void jobs_read_body(struct services *services, struct http_request *request, struct job_view *view);

/* Answers, and returns true, when the job queues do not serve. */
bool jobs_refuse_stopped(const struct route_request *request);
/* Reads the id of a job in a path. False: answered. */
bool jobs_read_id(const struct route_request *request, uint64_t *id_r) MUST_USE;

#endif
