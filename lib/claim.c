/* claim.c - see claim.h. */
#include "lib/claim.h"

#include <stdlib.h>

void claim_close_if_over(struct claim *claim)
{
    if (claim->jobs > 0 || claim->first)
        return;
    if (claim->is_spoiled)
        wire_drop(claim->wire);
    else
        wire_give(claim->wire);
    client_drop(claim->client);
    free(claim);
}

void job_leave(struct counter_job *job, bool well)
{
    job->claim->jobs--;
    job->claim->is_spoiled |= !well;
    job->claim = NULL;
}

void job_let_go(struct counter_job *job)
{
    if (--job->refs == 0)
        free(job);
}

void counter_job_free(counter_job *job)
{
    if (!job)
        return;
    struct claim *claim = job->claim;
    if (claim) {
        job_leave(job, false);
        claim_close_if_over(claim);
    }
    job_let_go(job);
}

bool claim_is_foreign(const struct claim *claim)
{
    return claim->forks != claim->client->forks;
}

const struct counter_job_view *counter_job_view(const counter_job *job)
{
    if (job->claim && claim_is_foreign(job->claim))
        ((struct counter_job *)unconst(job))->view.is_lost = true;
    return &job->view;
}

int counter_job_fd(const counter_job *job)
{
    return job->claim && job->claim->wire ? counter_link_fd(job->claim->wire->link) : -1;
}
