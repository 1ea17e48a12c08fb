"""Notices when the machine did not let programs run: then a lease may end for want of processor time."""

import threading
import time

STEP = 0.01  # seconds between two looks


class Disturbed(Exception):
    """What a row wants to see did not come about, by no fault of the nodes: the run says nothing."""


class Stalls(threading.Thread):
    """Sleeps a little, again and again. `longest` is how much later than due it woke, in seconds, since the
    `forget` before the last: what nodes lose by a stall, they notice later."""

    def __init__(self):
        super().__init__(daemon=True)
        self.before, self.since = 0.0, 0.0
        self.is_over = False
        self.start()

    def run(self):
        last = time.monotonic()
        while not self.is_over:
            time.sleep(STEP)
            now = time.monotonic()
            self.since = max(self.since, now - last - STEP)
            last = now

    @property
    def longest(self):
        return max(self.before, self.since)

    def forget(self):
        self.before, self.since = self.since, 0.0

    def stop(self):
        self.is_over = True
        self.join()
