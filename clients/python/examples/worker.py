"""A worker: runs a handler for each job, tries failed ones again, and ends on SIGTERM."""

import counterd

BODIES = ("letter 1", "letter 2", "no address")


def send(job: counterd.Job) -> None:
    body = job.body.decode()
    if body == "no address" and job.tries == 1:
        raise counterd.Retry(delay=0)  # at once; any other exception: later, and later still
    print(f"sent {body}, try {job.tries}")
    if body == "no address":
        worker.stop()  # here only, so that the example ends


with counterd.Client() as client:
    client.put_many("letters", [counterd.NewJob(body) for body in BODIES])
    worker = counterd.Worker(client, ["letters"], send)
    print(f"cut off: {worker.run()}")
