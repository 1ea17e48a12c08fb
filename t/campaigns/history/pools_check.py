"""
Checks a history of pools: requests of clients and their answers (pools_record.py), with times.

An operation has taken effect between `call`, just before it was sent, and `ret`, just after its
answer was read (missing: unknown). Every rule speaks only of what is certain from these times:

  times    no TIMEOUT comes before its time
  answers  a take is answered with members that fit it; RETURN says RETURNED of a hold of its
           connection, GONE only if somebody took the member away and always if that was certainly
           before, NOT_TAKEN of all else; QUEUE_FULL only if so many can have waited
  queues   no more wait at once than may
  fences   none is told twice, and a hold decided later has a greater one
  holders  a member has one holder: a hold ends before the next one of the member begins
  order    a member does not go past an older waiter for one member that fits
  idle     nobody waits, or is refused, while a member is free that fits
  dirty    a dirty member is handed out for cleaning only, until a cleaner or an operator frees it
  lives    a joined member is handed out only while it is there

Fences are in the order of decisions (rule `fences`), so they tell which of two holds was decided
first even where times do not. A waiter whose member was taken away before it was told waits again
in its old place; rules about waiters leave out those near to such a moment.

A line has a verb, and words NAME=VALUE (`hold` may be there more than once); times in nanoseconds:

  pool name= kind= queue_max= on_return= on_fail= on_crash=
  member pool= name= K=V...
  take conn= call= [seen=] [left=] [ret=] pools= for= count= timeout= [member=] [with=K=V]
       answer=taken|timeout|queue_full|no_member|cancelled|unknown [in=] [hold=MEMBER:FENCE]...
  return conn= call= ret= fence= how=ok|fail answer=returned|gone|not_taken
  end conn= call= [ret=] how=quit|half|close|reset
  set conn= call= ret= pool= member= state= now=0|1
  join, drop conn= call= ret= pool= member= answer=ok|exists

`seen`: the server had handled the take by then. `left`: a wait that was cancelled was not over
before. Of a take without an answer, the connection's end ends the wait.

usage: pools_check.py FILE...   Exits 0 if all are good, 1 if one is not.
"""

import bisect
import collections
import sys

NEVER = float("inf")
NUMBERS = {"conn", "call", "ret", "seen", "left", "count", "timeout", "fence", "now", "queue_max"}


class Bad(Exception):
    """A history breaks a rule. The message begins with the rule's name."""


class Record:
    """A line of the history: `verb`, and an attribute for each word; `line` is its number."""

    def __init__(self, number, text):
        self.number, self.text = number, text
        self.verb, *words = text.split()
        self.ret, self.holds, self.more = NEVER, [], {}
        for word in words:
            name, value = word.split("=", 1)
            if name == "hold":
                member, fence = value.rsplit(":", 1)
                self.holds.append((member, int(fence)))
            else:
                self.more[name] = value
                setattr(self, "what" if name == "for" else name, int(value) if name in NUMBERS else value)

    def get(self, name, otherwise=None):
        return getattr(self, name, otherwise)

    def __str__(self):
        return "line %d: %s" % (self.number, self.text)


class Hold:
    """A member in the hands of a connection that was told so."""

    def __init__(self, take, member, fence):
        self.take, self.member, self.fence = take, member, fence
        self.pool, self.conn, self.what = take.get("in"), take.conn, take.what
        self.returned = None  # the RETURN that ended it, or said GONE
        self.certain_end = NEVER  # it has not ended before, whatever happened

    def __str__(self):
        return "%s %s, fence %d (%s)" % (self.pool, self.member, self.fence, self.take)


def check(condition, rule, format_, *args):
    if not condition:
        raise Bad("%s: %s" % (rule, format_ % args))


class History:
    def __init__(self, lines):
        self.pools, self.attributes = {}, {}
        self.operations, self.ends = [], {}
        self.away = collections.defaultdict(list)  # pool, member: Away
        for number, text in enumerate(lines, 1):
            if text.strip() and not text.startswith("#"):
                self.add(Record(number, text.strip()))
        self.operations.sort(key=lambda o: o.call)
        self.takes = [o for o in self.operations if o.verb == "take"]
        self.holds = [Hold(t, member, fence) for t in self.takes for member, fence in t.holds]
        self.holds.sort(key=lambda h: h.fence)
        self.lives = collections.defaultdict(list)  # pool, member: of joined ones
        self.find_waits()
        self.find_lives()
        self.find_away()

    def add(self, record):
        if record.verb == "pool":
            self.pools[record.name] = record
        elif record.verb == "member":
            self.attributes[record.pool, record.name] = record.more
        else:
            self.operations.append(record)
            if record.verb == "end":
                self.ends[record.conn] = record

    def option(self, pool, name, otherwise):
        return self.pools[pool].get(name, otherwise)

    def is_joined(self, pool):
        return self.option(pool, "kind", "static") == "joined"

    def find_waits(self):
        """For each take: `waits`; `out`, before which its wait was not over unless it was served;
        `over`, when it was over at the latest."""
        for t in self.takes:
            end = self.ends.get(t.conn)
            t.waits = t.timeout > 0 and t.answer not in ("queue_full", "no_member")
            t.over = t.ret
            if t.answer == "unknown":
                t.out, t.over = t.call, end.ret if end else NEVER  # it may have been served, untold
            elif t.answer == "timeout":
                t.out = t.call + t.timeout
            else:
                t.out = t.get("left", NEVER)

    def find_lives(self):
        """The lives of joined members: from JOIN to DROP or to the end of the connection."""
        joins = [o for o in self.operations if o.verb == "join" and o.answer == "ok"]
        drops = collections.defaultdict(list)
        for o in self.operations:
            if o.verb == "drop":
                drops[o.conn, o.pool, o.member].append(o)
        for i in joins:
            name = i.pool, i.member
            ends = [d for d in drops[(i.conn,) + name] if d.call > i.ret][:1]
            ends += [self.ends[i.conn]] if i.conn in self.ends else []
            end = min(ends, key=lambda e: e.call, default=None)
            if self.lives[name]:  # the one before is over now, at the latest
                before = self.lives[name][-1]
                before.ret = min(before.ret, i.ret)
            self.lives[name].append(Life(i, end))

    def find_away(self):
        """The operations that may have taken a member from its holder, with their times."""
        for name, lives in self.lives.items():
            self.away[name] += [Away(life.end_call, life.ret, None, life) for life in lives if life.end]
        for o in self.operations:
            if o.verb == "set":
                self.away[o.pool, o.member].append(Away(o.call, o.ret, o, None))
        self.away_of_pool = collections.defaultdict(list)
        for (pool, _), aways in self.away.items():
            self.away_of_pool[pool] += [a for a in aways if a.takes]
        for aways in self.away_of_pool.values():
            aways.sort(key=lambda a: a.call)

    def was_away(self, pool, first, last):
        """True if a member of the pool may have been taken from its holder in this time."""
        aways = self.away_of_pool[pool]
        at = bisect.bisect_right(aways, last, key=lambda a: a.call)
        return any(a.ret >= first for a in aways[:at])

    # ---- rules ----

    def check(self):
        self.check_takes()
        self.check_fences()
        self.check_lives()
        self.check_returns()
        self.find_certain_ends()
        self.check_holders()
        self.check_dirty()
        self.check_order()
        self.check_queues()
        self.check_full()
        self.check_idle()

    def fits(self, take, pool, member):
        attributes = self.attributes.get((pool, member), {})
        key, _, value = take.get("with", "=").partition("=")
        return take.get("member", member) == member and attributes.get(key, "") == value

    def check_takes(self):
        for t in self.takes:
            if t.answer == "timeout":
                check(t.ret >= t.call + t.timeout, "times", "TIMEOUT came early: %s", t)
            if t.answer != "taken":
                continue
            pool = t.get("in")
            check(pool in t.pools.split(","), "answers", "another pool: %s", t)
            check(len({m for m, _ in t.holds}) == t.count, "answers", "not %d members: %s", t.count, t)
            for member, _ in t.holds:
                check(self.fits(t, pool, member), "answers", "%s does not fit: %s", member, t)

    def check_fences(self):
        for a, b in zip(self.holds, self.holds[1:]):
            check(a.fence != b.fence, "fences", "one was told twice: %s, and %s", a, b)
        least = None  # of those with a greater fence, the one that was surely decided first
        for h in reversed(self.holds):
            check(not least or least.take.ret >= h.take.call, "fences",
                  "%s is later, and has a lower one than %s", h, least)
            if not least or h.take.ret < least.take.ret:
                least = h

    def check_returns(self):
        told = {}  # conn, fence: hold
        for h in self.holds:
            told[h.conn, h.fence] = h
        for o in self.operations:
            if o.verb != "return":
                continue
            h = told.get((o.conn, o.fence))
            if not h or h.returned or h.take.ret > o.ret:
                check(o.answer == "not_taken", "answers", "it does not hold that: %s", o)
                continue
            check(o.answer != "not_taken", "answers", "it holds that: %s: %s", o, h)
            h.returned = o
            name = h.pool, h.member
            possible = [a for a in self.away[name] if a.takes and a.call <= o.ret and a.ret >= h.take.call]
            if o.answer == "gone":
                check(possible, "answers", "nobody took it away: %s: %s", o, h)
            else:
                sure = [a for a in possible if a.call > h.take.ret and a.ret < o.call]
                check(not sure, "answers", "it was taken away, %s: %s: %s", sure and sure[0], o, h)

    def find_certain_ends(self):
        for h in self.holds:
            times = [h.returned.call] if h.returned else []
            if h.conn in self.ends:
                times.append(self.ends[h.conn].call)
            times += [a.call for a in self.away[h.pool, h.member] if a.takes and a.ret >= h.take.call]
            h.certain_end = min(times, default=NEVER)

    def check_holders(self):
        last = {}  # pool, member: of the holds before, the one that surely ended last
        for h in self.holds:
            name = h.pool, h.member
            before = last.get(name)
            check(not before or before.certain_end <= h.take.ret, "holders",
                  "%s is held still when this begins: %s", before, h)
            if not before or h.certain_end > before.certain_end:
                last[name] = h

    def leaves_dirty(self, h):
        """True, False: the hold's end surely makes the member dirty, or may leave it free; None: it
        leaves it as it was."""
        pool, end = h.pool, self.ends.get(h.conn)
        if any(a.takes and a.ret >= h.take.call and (not h.returned or a.call <= h.returned.ret)
               for a in self.away[pool, h.member]):
            return False
        if h.returned:
            ok, crash = h.returned.how == "ok", False
        elif end:
            ok, crash = end.how == "quit", end.how != "quit"
        else:
            return False
        if h.what == "clean":
            return False if ok else None
        if crash and self.option(pool, "on_crash", "fail") == "ok":
            ok = True
        if not ok:
            return self.option(pool, "on_fail", "dirty") == "dirty"
        return None if h.what == "check" else self.option(pool, "on_return", "free") == "dirty"

    def check_dirty(self):
        dirty = {}  # pool, member: the hold that has made it dirty
        for h in self.holds:
            name = h.pool, h.member
            if self.is_joined(h.pool):
                continue
            before = dirty.get(name)
            if before and any(a.set.state == "free" and a.ret >= before.take.call and a.call <= h.take.ret
                              for a in self.away[name]):
                before = dirty.pop(name) and None
            check(not before or h.what == "clean", "dirty", "handed out after %s: %s", before, h)
            leaves = self.leaves_dirty(h)
            if leaves:
                dirty[name] = h
            elif leaves is False:
                dirty.pop(name, None)

    def check_lives(self):
        for h in self.holds:
            if self.is_joined(h.pool):
                check(any(life.call <= h.take.ret and life.ret >= h.take.call
                          for life in self.lives[h.pool, h.member]),
                      "lives", "it was not there: %s", h)

    def check_order(self):
        """Waiters by the time when they surely waited, beside the takes that were sent later."""
        for pool in self.pools:
            waiters = sorted((t for t in self.takes if t.waits and t.pools == pool and t.count == 1
                              and t.get("seen")), key=lambda t: t.seen)
            at, now = 0, []
            for b in self.takes:
                while at < len(waiters) and waiters[at].seen < b.call:
                    now.append(waiters[at])
                    at += 1
                now = [a for a in now if a.over >= b.call]
                if b.get("in") == pool:
                    for a in now:
                        self.check_pair(pool, a, b)

    def check_pair(self, pool, a, b):
        """`a` waited before `b` was sent. Had `a` a claim to a member that `b` got?"""
        if (a.what == "clean") != (b.what == "clean") or (a.what == "check" and b.what != "check"):
            return
        for member, fence in b.holds:
            if a.answer == "taken":
                still = a.holds[0][1] > fence
            else:
                still = a.out > b.ret
            if still and self.fits(a, pool, member) and not self.was_away(pool, b.call, a.over):
                raise Bad("order: %s waited for %s, which went to %s" % (a, member, b))

    def find_decided(self):
        """For each take that was served, a time before which that was surely not decided."""
        latest = 0
        for h in self.holds:
            latest = max(latest, h.take.call)
            h.take.decided = min(h.take.get("decided", NEVER), latest)

    def of_class(self, pool, use):
        return [t for t in self.takes if pool in t.pools.split(",") and (t.what == "use") == use]

    def check_queues(self):
        """Counts those that surely waited at the same time."""
        self.find_decided()
        for pool in self.pools:
            for use in (True, False):
                steps = []
                for t in self.of_class(pool, use):
                    if not (t.waits and t.pools == pool and t.get("seen")):
                        continue
                    until = t.decided if t.answer == "taken" else t.out
                    if until > t.seen and not self.was_away(pool, t.call, t.over):
                        steps += [(t.seen, 1, t), (until, -1, t)]
                count = 0
                for _, step, t in sorted(steps, key=lambda s: s[:2]):
                    count += step
                    check(count <= self.pools[pool].queue_max, "queues",
                          "%d wait in %s at once, the last %s", count, pool, t)

    def check_full(self):
        """Counts those that may have waited when one was refused."""
        for pool in self.pools:
            for use in (True, False):
                self.check_full_of(pool, self.of_class(pool, use))

    def check_full_of(self, pool, takes):
        waiters = [t for t in takes if t.waits]
        at, now = 0, []
        for t in takes:
            if t.answer != "queue_full":
                continue
            while at < len(waiters) and waiters[at].call <= t.ret:
                now.append(waiters[at])
                at += 1
            now = [w for w in now if w.over >= t.call]
            moments = [t.call] + [w.call for w in now if t.call <= w.call <= t.ret]
            most = max(sum(w.call <= m <= w.over for w in now) for m in moments)
            check(most >= self.pools[pool].queue_max, "answers",
                  "at most %d waited in %s: %s", most, pool, t)


    # ---- members that nobody has ----

    def is_free_after(self, h):
        """True if the hold's end surely leaves the member free."""
        if not h.returned or h.returned.answer != "returned" or h.returned.how != "ok":
            return False
        return h.what != "use" or self.is_joined(h.pool) or self.option(h.pool, "on_return", "free") == "free"

    def free_times(self):
        """For each member the times, in order, when nobody who was told so has it, and nobody has changed
        its state since it became free: their beginning, their end, and when it may have become free."""
        of_member, times = collections.defaultdict(list), collections.defaultdict(list)
        for h in self.holds:
            of_member[h.pool, h.member].append(h)
        for name, holds in of_member.items():
            for h, after in zip(holds, holds[1:] + [None]):
                if not self.is_free_after(h):
                    continue
                until, told = (after.take.decided, after.take.ret) if after else (self.last, NEVER)
                if h.returned.ret < until and not any(
                        a.ret >= h.take.call and a.call <= told for a in self.away[name]):
                    times[name].append((h.returned.ret, until, h.returned.call))
        return times

    def check_idle(self):
        self.last = max((o.call for o in self.operations), default=0)
        times = self.free_times()
        for pool in self.pools:
            # These may have had a member, and left it dirty, or kept others from having it.
            doubts = sorted((t.call, t.over) for t in self.takes
                            if pool in t.pools.split(",") and (t.answer == "unknown" or (t.count > 1 and t.waits)))
            longest = max((over - call for call, over in doubts), default=0)
            for t in self.takes:
                if t.pools != pool or t.count > 1 or t.what == "clean":
                    continue
                if t.timeout == 0 or t.answer == "queue_full":
                    since, until, whole = t.call, t.ret, True
                else:
                    since, until, whole = t.get("seen", NEVER), t.decided if t.answer == "taken" else t.out, False
                if t.answer == "taken" and whole or since >= until or self.was_away(pool, since, t.over):
                    continue
                for (of, member), frees in times.items():
                    if of == pool and self.fits(t, pool, member):
                        self.check_idle_member(t, member, frees, (since, until, whole), doubts, longest)

    @staticmethod
    def check_idle_member(t, member, frees, wait, doubts, longest):
        since, until, whole = wait
        for free, taken, maybe in frees[max(bisect.bisect_left(frees, (since,)) - 1, 0) :]:
            if free > until:
                break
            if whole and not (free < since and until < taken):
                continue
            first, last = max(free, since), min(taken, until)
            if first >= last:
                continue
            near = bisect.bisect_left(doubts, (maybe - longest,)), bisect.bisect_right(doubts, (last, NEVER))
            check(any(over >= maybe for _, over in doubts[slice(*near)]), "idle",
                  "%s was free from %d to %d, and not given to %s", member, free, taken, t)


class Life:
    """A joined member: it was there from `call` on at the earliest, until `ret` at the latest."""

    def __init__(self, join, end):
        self.call, self.end = join.call, end
        self.end_call, self.ret = (end.call, end.ret) if end else (NEVER, NEVER)


class Away:
    """An operation that takes a member from its holder: an operator's, or the end of a life."""

    def __init__(self, call, ret, operation, life):
        self.call, self.set, self.life = call, operation, life
        self._ret = ret
        self.takes = life is not None or operation.now == 1

    @property
    def ret(self):
        return self.life.ret if self.life else self._ret

    def __str__(self):
        return str(self.set or self.life.end)


def check_lines(lines):
    """Raises Bad if the history breaks a rule. Returns the number of its operations."""
    history = History(lines)
    history.check()
    return len(history.operations)


def check_file(path):
    with open(path, encoding="ascii") as f:
        return check_lines(f)


def main():
    good = True
    for path in sys.argv[1:]:
        try:
            print("%s: %d operations: good" % (path, check_file(path)))
        except Bad as e:
            print("%s: %s" % (path, e))
            good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
