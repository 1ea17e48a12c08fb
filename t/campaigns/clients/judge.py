"""
Judges what a storm of clients has left: the notes of the proxy (what went over the wire), of the
handlers and of the producers. Each rule is a method of Judge; `found` has what is wrong, `twice` counts
why jobs ran twice, by reason.

Jobs may run twice, each time with a fault in the notes that explains it:
  connection   the connection that reserved it ended, in a tube without leases
  ttr          its ttr was over without a renewal: the worker or its connection was held up
  nack         the handler asked for it, or the worker was stopped
  put          a put with a key was sent again after an answer that did not come, and the first job had begun
"""

import bisect
import collections

import proxy

LOOKS = 60  # so many looks of 20 ms may say "not lost" after the moment that allows none
SLACK = 0.15  # s between a moment of the daemon and the one that the proxy notes
STILL = 0.5  # s: a machine that stood still for longer held everybody up


class Run:
    """One run of a handler."""

    def __init__(self, slot, start):
        self.slot, self.start, self.id, self.token = slot, start["t"], start["id"], start["token"]
        self.label, self.tube, self.tries = start["label"], start["tube"], start["tries"]
        self.end = self.how = None  # how: ok, raise, retry, bury, lost; None: killed
        self.looks = []

    def __repr__(self):
        return "run of %s (id %d, try %d, token %d) by %s" % (self.label, self.id, self.tries, self.token, self.slot)


class Judge:
    def __init__(self, wire, files, plans, leases, ttr, io_timeout):
        """
        `ttr`: of all jobs; `io_timeout`: of all clients. `wire`: a Proxy that has ended. `files`: (slot,
        process number, rows) of each process. `plans`: (plan, key) of each label. `leases`: tubes with
        claim=lease.
        """
        self.wire, self.plans, self.leases, self.ttr = wire, plans, leases, ttr
        self.io_timeout = io_timeout
        self.found, self.twice, self.counts = [], collections.Counter(), collections.Counter()
        self.worst = 0.0  # s that a handler went on after its job was given to another
        self.runs = collections.defaultdict(list)  # by label
        self.by_token = {}
        self.answered, self.failed = {}, collections.defaultdict(list)  # labels: id; times
        self.faults = list(wire.faults)
        self.read(files)
        self.reservations = collections.defaultdict(list)  # by id
        self.said = collections.defaultdict(list)  # (id, token): requests
        self.heard = collections.defaultdict(list)  # (id, token): answers
        self.puts = collections.defaultdict(list)  # by label
        self.beside = []  # requests on a connection that had a job
        for note in wire.notes:
            if isinstance(note, proxy.Reserved):
                self.reservations[note.id].append(note)
            elif isinstance(note, proxy.Said):
                self.said[note.id, note.token].append(note)
            elif isinstance(note, proxy.Beside):
                self.beside.append(note)
            elif isinstance(note, proxy.Heard):
                self.heard[note.id, note.token].append(note)
            else:
                self.puts[note.label].append(note)
        self.faults.sort(key=lambda fault: fault.at)
        self.longest = max([fault.until - fault.at for fault in self.faults], default=0)

    def wrong(self, text, *values):
        self.found.append(text % values)

    def read(self, files):
        for slot, number, rows in files:
            for row in rows:
                if row["e"] == "start":
                    run = Run(slot, row)
                    self.runs[run.label].append(run)
                    if run.token in self.by_token:
                        self.wrong("%r: the same reservation ran before", run)
                    self.by_token[run.token] = run
                elif row["e"] in ("end", "lost"):
                    run = self.by_token[row["token"]]
                    run.end, run.how = row["t"], row.get("how", "lost")
                    run.looks = row["looks"]
                    for one, next_one in zip([run.start] + run.looks, run.looks + [run.end]):
                        if next_one - one > STILL:
                            self.faults.append(proxy.Fault(one, next_one, "worker stood still", slot, None))
                elif row["e"] == "put":
                    self.answered.update(zip(row["labels"], row["ids"]))
                elif row["e"] == "failed":
                    for label in row["labels"]:
                        self.failed[label].append(row["t"])
                    self.counts["puts that failed"] += 1
                elif row["e"] == "crash":
                    self.wrong("%s, process %d, ended by an error: %s", slot, number, row["text"])

    def fault(self, slot, link, begin, end):
        """A fault between two times that concerns a slot's process, or this connection of it, or all."""
        first = bisect.bisect_left(self.faults, (begin - self.longest,))
        for fault in self.faults[first:]:
            if fault.at > end:
                return None
            if fault.until < begin:
                continue
            if fault.slot in (None, slot) and fault.link in (None, link):
                return fault
        return None

    def judge(self):
        self.found += self.wire.wrong
        self.each_answered_job_ran()
        self.each_end_is_of_a_run()
        self.connections_of_jobs_have_no_other_requests()
        self.each_second_reservation_has_a_reason()
        self.each_second_run_has_a_reason()
        self.nobody_goes_on_unknowing()
        self.nobody_is_told_for_nothing()
        self.leases_are_kept()
        return self.found

    # --- rules

    def each_answered_job_ran(self):
        """Each job put with an answer runs to its end; each job was put; nothing was put twice without a key."""
        for label in self.answered:
            good = [run for run in self.runs[label] if run.how in ("ok", "bury")]
            if not good:
                self.wrong(
                    "%s was put (id %s) and never ran to its end: %s", label, self.answered[label], self.runs[label]
                )
        for label in self.runs:
            if label not in self.plans:
                self.wrong("%s ran and was never put", label)
        for label, puts in self.puts.items():
            if len(puts) > 1 and not puts[0].key:
                self.wrong("%s has no key, and was put %d times, by %r", label, len(puts), puts[-1].link)
            self.counts["puts that were sent again"] += len(puts) - 1

    def each_end_is_of_a_run(self):
        """A job is acked by the token of a run that ended well, after its end; and is not reported when lost."""
        for (number, token), notes in self.said.items():
            run = self.by_token.get(token)
            for note in notes:
                if note.verb == "ack":
                    if run is None:
                        self.wrong("job %d: ack of token %d by %r, and no handler ran", number, token, note.link)
                    elif run.how is None or run.end > note.at + SLACK:
                        self.wrong("%r: ack before the handler's end", run)
                    elif run.how != "ok":
                        self.wrong("%r: ack, and the handler ended with %s", run, run.how)
                elif note.verb == "nack" and run and run.how in ("ok", "lost") and run.end < note.at:
                    self.wrong("%r: nack, and the handler ended with %s", run, run.how)
        for run in self.by_token.values():
            ends = [n for n in self.said[run.id, run.token] if n.verb in ("ack", "nack")]
            if len(ends) > 2 or (len(ends) == 2 and ends[0].verb != "ack"):
                self.wrong("%r: sent %s", run, [n.verb for n in ends])
            elif len(ends) == 2 and not any(  # a stalled request is noted last, and was sent first
                self.fault(run.slot, note.link, run.start - self.ttr, ends[1].at) for note in ends
            ):
                self.wrong("%r: ack sent again, and nothing had happened", run)

    def connections_of_jobs_have_no_other_requests(self):
        for note in self.beside:
            first = next(n for n in self.reservations[note.id] if n.token == note.token)
            if note.at < self.last_good(first, note.at) + self.ttr - SLACK:
                self.wrong("%r sent %r %.3f s after it was given job (id %d), which was reserved still", note.link,
                           note.line, note.at - first.at, note.id)  # fmt: skip

    def trace(self, number):
        """What is known of a job, line by line."""
        rows = [
            (n.at, "reserved, token %d, try %d: %r" % (n.token, n.tries, n.link)) for n in self.reservations[number]
        ]
        links = {n.link for n in self.reservations[number]}
        for (job, token), notes in list(self.said.items()):
            if job == number:
                rows += [(n.at, "%s %d: %r" % (n.verb, token, n.link)) for n in notes]
                links |= {n.link for n in notes}
        for (job, token), notes in list(self.heard.items()):
            if job == number:
                rows += [(n.at, "answer to %s %d: %s%s" % (n.verb, token, n.answer, "" if n.passed else ", not passed on"))
                         for n in notes]  # fmt: skip
        for run in self.by_token.values():
            if run.id == number:
                rows += [(run.start, "begin: %r" % run)]
                rows += [(run.end, "end, %s: %r" % (run.how, run))] if run.end else []
        rows += [(link.ended, "%r ends: %s" % (link, link.why)) for link in links if link.ended]
        first, last = min(rows)[0], max(rows)[0]
        for f in self.faults:
            if f.link in links or (f.link is None and f.slot in {None} | {link.slot for link in links}):
                if f.until > first - self.ttr and f.at < last:
                    rows.append((f.at, "fault, %.3f s: %s %s %r" % (f.until - f.at, f.kind, f.slot, f.link)))
        return ["%+.3f %s" % (at - first, text) for at, text in sorted(rows)]

    def last_good(self, reserved, before):
        """Until when, at most, a reservation is known to be good: the last answered renewal before this time."""
        good = reserved.at
        for note in self.heard[reserved.id, reserved.token]:
            if note.verb == "renew" and note.answer == "TOUCHED" and note.at <= before:
                good = max(good, note.at)
        return good

    def each_second_reservation_has_a_reason(self):
        self.reasons = {}  # by the token of the second: its reason
        for number, notes in self.reservations.items():
            for first, second in zip(notes, notes[1:]):
                reason = self.reason(first, second)
                self.reasons[second.token] = reason
                if reason is None:
                    self.wrong("job %d (%s): reserved by %r and again by %r after %.3f s without a reason; the first: %s, "
                               "which %s", number, first.label, first.link, second.link, second.at - first.at,
                               self.by_token.get(first.token), first.link.why)  # fmt: skip

    def reason(self, first, second):
        run, link = self.by_token.get(first.token), first.link
        told = [n for n in self.said[first.id, first.token] if n.verb == "nack" and n.at <= second.at]
        if told:
            return (
                "nack" if run is None or run.how in ("raise", "retry", "bury", None) or run.end > told[0].at else None
            )
        if first.tube not in self.leases and link.broken is not None and link.broken <= second.at:
            if link.why not in ("client closed", "daemon closed"):
                return "connection: " + link.why
            fault = self.fault(link.slot, link, first.at - self.ttr, link.broken)
            return "connection: " + fault.kind if fault else None
        good = self.last_good(first, second.at)
        if second.at >= good + self.ttr - STILL:  # the proxy may have read the answer late
            fault = self.fault(link.slot, link, good - SLACK, second.at)
            return "ttr: " + fault.kind if fault else None
        return None

    def each_second_run_has_a_reason(self):
        for label, runs in self.runs.items():
            runs.sort(key=lambda run: run.start)
            for run in runs:
                if not any(n.token == run.token for n in self.reservations[run.id]):
                    self.wrong("%r: nobody gave it this token", run)
            for first, second in zip(runs, runs[1:]):
                self.counts["second runs"] += 1
                if first.id != second.id:
                    key = self.plans[label][1]
                    if key and len(self.puts[label]) > 1:
                        self.twice["put: sent again with its key"] += 1
                    else:
                        self.wrong("%s ran as job %d and %d, and was put %d times", label, first.id, second.id,
                                   len(self.puts[label]))  # fmt: skip
                else:
                    order = [n.token for n in self.reservations[first.id]]
                    late = max(
                        first.token, second.token, key=lambda token: order.index(token) if token in order else -1
                    )
                    self.twice[self.reasons.get(late) or "none"] += 1

    def nobody_goes_on_unknowing(self):
        """
        A handler whose job was given to another is told: when an answered renewal said so, and at the
        latest when its ttr is over by its own clock.
        """
        for run in self.by_token.values():
            notes = self.reservations[run.id]
            at = next((i for i, n in enumerate(notes) if n.token == run.token), None)
            if at is None or not run.looks:
                continue
            latest = self.last_good(notes[at], float("inf")) + self.ttr
            for n in self.heard[run.id, run.token]:
                read = n.passed and (n.link.ended is None or n.link.ended > n.at + STILL)
                if n.verb == "renew" and n.answer == "NOT_FOUND" and read:
                    held_up = [
                        f.until for f in self.faults if f.link is n.link and f.at <= n.at + SLACK and f.until > n.at
                    ]
                    latest = min(latest, max(held_up, default=n.at))
            late = [look for look in run.looks if look > latest]
            if len(late) > LOOKS:
                self.wrong("%r went on for %d looks, %.1f s, after it should have been told of its loss", run, len(late),
                           late[-1] - latest)  # fmt: skip
            if at + 1 < len(notes) and run.looks[-1] > notes[at + 1].at:
                self.counts["handlers beside the next run"] += 1
                self.worst = max(self.worst, run.looks[-1] - notes[at + 1].at)

    def nobody_is_told_for_nothing(self):
        """
        A job is lost when a renewal said so, or when its ttr is over since it was last asked for. Until
        the first renewal a worker does not know the ttr, and io_timeout stands for it.
        """
        for run in self.by_token.values():
            first = next((n for n in self.reservations[run.id] if n.token == run.token), None)
            if run.how != "lost" or first is None:
                continue
            self.counts["handlers told of a loss"] += 1
            heard = [n for n in self.heard[run.id, run.token] if n.verb == "renew" and n.at <= run.end]
            good = [n.asked_at for n in heard if n.answer == "TOUCHED" and n.passed] + [first.asked_at]
            over = max(good) + self.ttr if len(good) > 1 else run.start + min(self.ttr, self.io_timeout)
            if any(n.answer == "NOT_FOUND" for n in heard) or run.end >= over - SLACK:
                continue
            if not any(f.kind == "stall" and f.slot == run.slot and f.until > first.asked_at for f in self.faults):
                self.wrong("%r was told of a loss after %.3f s, and nothing had said so", run, run.end - run.start)

    def leases_are_kept(self):
        """
        In a tube with leases a handler whose connection ended goes on: its worker connects again and
        renews, unless something else holds it up.
        """
        for run in self.by_token.values():
            first = next((n for n in self.reservations[run.id] if n.token == run.token), None)
            if first is None or first.link.ended is None or not run.looks:
                continue
            ended = first.link.ended
            last = run.looks[-1] if run.how is None else run.end
            until = min(last, ended + self.ttr / 3 + 2)
            if until < ended + self.ttr / 3 + 2 or first.link.why in ("client closed", "daemon closed"):
                continue
            others = [f for f in self.faults if ended < f.until and f.at < until and f.slot in (None, run.slot)
                      and f.link is not first.link]  # fmt: skip
            if others:
                continue
            self.counts["handlers that outlived their connection"] += 1
            if not any(n.verb == "renew" and ended < n.at <= until for n in self.said[run.id, run.token]):
                self.wrong(
                    "%r ran on for %.1f s after its connection had ended, and did not renew", run, last - ended
                )
