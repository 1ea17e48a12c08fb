"""Takes a lock, puts and claims a job. Prints the folder that counterd was imported from. t/package/inside runs it
with each way to install the library."""

import os

import counterd
import counterd.aio

with counterd.Client() as client:
    with client.lock("calls", workers=1, timeout=5) as lock:
        assert not lock.lost and client.usage("calls") == 1
    put = client.put("calls", b"body", key="once")
    assert client.put("calls", b"body", key="once").duplicate
    (job,) = client.claim(["calls"], timeout=5)
    assert (job.id, job.tries, job.body) == (put.id, 1, b"body")
    job.ack()
print(os.path.dirname(os.path.dirname(counterd.__file__)))
