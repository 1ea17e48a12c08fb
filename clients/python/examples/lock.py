"""A lock with a bounded queue: few render a page at once, others wait or are refused."""

import counterd

with counterd.Client() as client:  # $COUNTER_URL, or this machine
    with client.lock("render:42", workers=1, queue=2, timeout=5) as lock:
        print(f"rendering, lost: {lock.lost}")
        try:
            with client.lock("render:42", workers=1, queue=2, timeout=0.2):
                print("never here")
        except counterd.Busy as error:
            print(f"another one renders: {error.answer}")
    with client.lock("render:42", timeout=0):
        print("free again")
