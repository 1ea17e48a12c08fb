/*
 * A worker: claims jobs, does them, and tries failed ones again. While a job lasts longer than a
 * third of its ttr, call counter_renew now and then; counterctl work(1) does that for a command.
 */
#include "example.h"

static bool send_letter(const struct counter_job_view *job)
{
    struct counter_bytes no = counter_str("no address");
    if (job->tries == 1 && job->body.len == no.len && memcmp(job->body.data, no.data, no.len) == 0)
        return false;
    printf("sent %.*s, try %u\n", (int)job->body.len, (const char *)job->body.data, job->tries);
    return true;
}

int main(void)
{
    counter_client *client = opened();
    struct counter_new_job letters[3] = {{counter_str("letter 1"), NULL},
                                         {counter_str("letter 2"), NULL},
                                         {counter_str("no address"), NULL}};
    counter_op_free(done(counter_put_many(client, counter_str("letters"), letters, 3)));

    struct counter_bytes tubes[] = {counter_str("letters")};
    struct counter_claim_args args = COUNTER_CLAIM_ARGS;
    args.timeout = 2;               /* so that the worker can end between two claims */
    for (int sent = 0; sent < 3;) { /* a real worker goes on until it is told to stop */
        counter_op *claim = done(counter_claim(client, tubes, 1, &args));
        counter_job *job = counter_take_job(claim); /* NULL: none came in time */
        counter_op_free(claim);
        if (!job)
            continue;
        bool ok = send_letter(counter_job_view(job));
        sent += ok;
        counter_op *end = ok ? counter_ack(job) : counter_nack(job, 0); /* the job goes with it */
        int status = end ? counter_run(end) : COUNTER_NO_MEMORY;
        if (status != COUNTER_OK) /* lost: it runs again, here or elsewhere */
            printf("the job is %s\n", counter_status_name(status));
        counter_op_free(end);
    }
    counter_close(client);
    return 0;
}
