"""
The same transcripts on the daemon and on Debian's beanstalkd. What clients are told must be the same,
byte for byte, but for values that no two servers share, and for differences that a transcript lists
with the row of the protocol (t/scenario/jobs.rows) that wants them. Every verb of beanstalkd and
every row of sections 1 to 4 has a transcript, or stands in ELSEWHERE with the reason.

A step is a line: the client, and what it sends.

    a use foo                   a command; a body follows behind ` || `; `*` is its length
    a >> foo\\r                  these bytes alone. In both, \\r \\n \\t \\0 \\s \\xff, and {ab*3}
    a await                     waits until something arrives
    a close                     ends the connection; also `eof` (of the sending side) and `reset`
    better ROW: X => Y          the step before is answered X by beanstalkd, Y by the daemon. Answers
                                are joined by ` / `; `...` is anything; (nothing), (closed). For another
                                client: `b: X => Y`

After each step all servers come to rest, and what arrived at each client is compared.
"""

import os
import re
import subprocess

import pytest
import tap

import servers
import wire

HERE = os.path.dirname(os.path.abspath(__file__))
VERBS = """put use reserve reserve-with-timeout reserve-job delete release bury touch kick kick-job
    peek peek-ready peek-delayed peek-buried watch ignore list-tubes list-tubes-watched
    list-tube-used pause-tube stats stats-job stats-tube quit""".split()

# Rows of sections 1 to 4 that no transcript can show.
ELSEWHERE = {
    "lines.limits": "memory and time limits: stories, test_jobs.py",
    "lines.errors": "refused memory: stories, test_jobs.py; the order of answers is in each transcript",
    "wait.moment": "times to the millisecond: stories, test_jobs.py",
    "wait.cost": "./dev bench",
    "put.draining": "beanstalkd can't stop to drain: stories, test_jobs.py",
    "value.age": "whole seconds of two servers differ: stories",
    "value.draining": "ids differ; draining is compared in stats",
}

# Keys whose values no two servers share, or that differ by the second in which they are asked.
OF_ITS_OWN = """age pid version rusage-utime rusage-stime uptime binlog-max-size hostname os
    platform""".split()

STORIES = r"""
story Commands, and what is none
rows lines.command lines.lf lines.unknown
a use foo
a >> use bar\n
a >> stats\r\n
a >> list-tube-used\n\r\n
better lines.lf: BAD_FORMAT => UNKNOWN_COMMAND
a USE x
a \suse x
a \t
a foo bar
a -
a \xff\xfe
a >> \r\n
a list-tube-used

story Numbers
rows lines.numbers put peek value.counts
a put   0   0  60   * || hello
a put 0004294967295 4294967295 4294967295 000003 || abc
a peek   000001
a peek 18446744073709551615
a stats-job   2
a release 1  4294967295   4294967295
a bury  1 00
a touch  1
a kick-job  1
a delete   3
a pause-tube   default   4294967295
a reserve-with-timeout 0
a pause-tube default 0
a kick    4294967295
a reserve-with-timeout   0000
a delete   1
a reserve-job    2

story Numbers that are none
rows lines.number.bad reserve-with-timeout kick
a peek\s
a peek x
a peek -1
a peek 1x
a peek 1\s
a peek 1 1
a peek 18446744073709551616
a delete x
a delete 1\s
a delete -1
a touch x
a touch 1 2
a kick-job x
a kick-job 0x1
a reserve-job x
a reserve-job 1.0
a stats-job x
a stats-job 1\s
a release x 0 0
a release 1
a release 1 0
a release 1 4294967296 0
a release 1 0 4294967296
a release 1 0 0\s
a release 1 -1 0
a bury 1
a bury 1 4294967296
a bury 1 0\s
a bury 1 -1
a kick\s
a kick x
a kick -1
better kick: KICKED 0 => BAD_FORMAT
a kick 1x
better kick: KICKED 0 => BAD_FORMAT
a kick 1\s
better kick: KICKED 0 => BAD_FORMAT
a kick 4294967296
better kick: KICKED 0 => BAD_FORMAT
a pause-tube default
a pause-tube default x
a pause-tube default 4294967296
a pause-tube default -1
a pause-tube default 0\s
a list-tube-used
b reserve-with-timeout 100x
better reserve-with-timeout: (nothing) => BAD_FORMAT
c reserve-with-timeout -1
better reserve-with-timeout: (nothing) => BAD_FORMAT
d reserve-with-timeout 2147483648
better reserve-with-timeout: (nothing) => BAD_FORMAT
e reserve-with-timeout 4294967296
better reserve-with-timeout: TIMED_OUT => BAD_FORMAT
f reserve-with-timeout
g reserve-with-timeout 0\s
better reserve-with-timeout: TIMED_OUT => BAD_FORMAT

story Verbs without arguments
rows lines.noargs lines.alone
a stats\s
a stats x
a reserve\s
a reserve x
a peek-ready\s
a peek-ready x
a peek-delayed 1
a peek-buried 1
a list-tubes\s
a list-tube-used x
a list-tubes-watched x
b put
b use
b watch
b ignore
b delete
b release
b bury
b touch
b kick
b kick-job
b peek
b reserve-job
b reserve-with-timeout
b pause-tube
b stats-job
better lines.whole: BAD_FORMAT => UNKNOWN_COMMAND
b stats-tube
better lines.whole: BAD_FORMAT => UNKNOWN_COMMAND
b list-tube-used
c quit\s
better lines.whole: (closed) => BAD_FORMAT
d quit x
better lines.whole: (closed) => BAD_FORMAT

story NUL bytes
rows lines.nul
a use a\0b
a \0
a foo \0
a list-tube-used
b stats\0
c list-tube-used\0x
d peek 1\0

story Long lines
rows lines.long
a use {x*200}
a {x*222}
a {x*500}
a list-tube-used
b put 0 0 60 1{\s*300}
better put.badnumber: BAD_FORMAT => BAD_FORMAT / (closed)
c stats-job {0*211}1

story Lines of 225 and 449 bytes
rows lines.long.edge
a {x*223}
better lines.long.edge: (nothing) => BAD_FORMAT
a list-tube-used
better lines.long.edge: BAD_FORMAT => USING default
a list-tube-used
b {x*447}
better lines.long.edge: (nothing) => BAD_FORMAT
b list-tube-used
better lines.long.edge: BAD_FORMAT => USING default
b list-tube-used

story A CR alone
rows lines.cr
a foo\rbar
better lines.cr: (nothing) => UNKNOWN_COMMAND
a list-tube-used
better lines.cr: (nothing) => USING default

story Verbs match whole
rows lines.whole
a reservefoo
better lines.whole: BAD_FORMAT => UNKNOWN_COMMAND
a statsx
better lines.whole: BAD_FORMAT => UNKNOWN_COMMAND
a pause-tubedefault 0
better lines.whole: PAUSED => UNKNOWN_COMMAND
a list-tube-used
b quitter
better lines.whole: (closed) => UNKNOWN_COMMAND

story Names of tubes
rows lines.tube use watch ignore
a use abcXYZ019-+/;.$_()
a use {x*200}
a use {x*201}
a use -x
a use a:b
a use \sa
a use a\s
a use a\xe9
a use x-
a watch -x
a watch {y*200}
a ignore a:b
a stats-tube a:b
a stats-tube -x
a pause-tube a:b 0
a pause-tube \s\sdefault 0
a list-tubes-watched

story Many requests in one packet, and one in many
rows lines.cut lines.errors
a >> use t\r\nput 1 0 60 5\r\na\r\nbc\r\nwatch t\r\nreserve\r\nlist-tube-used\r\nfoo\r\ndelete 1\r\npeek 1\r\n
a >> pu
a >> t 1 0 60 4\r
a >> \nab
a >> cd\r
a >> \npeek-re
a >> ady\r\n

story quit
rows lines.quit
a >> use t\r\nput 0 0 60 1\r\nx\r\nquit\r\nuse u\r\n
b use t
b peek-ready
b quit

story Lines of the web
rows lines.web
a GET / HTTP/1.1
better lines.web: UNKNOWN_COMMAND => (closed)
b POST / HTTP/1.1
better lines.web: UNKNOWN_COMMAND => (closed)
c Host: localhost
better lines.web: UNKNOWN_COMMAND => (closed)
d PUT / HTTP/1.1
better lines.web: UNKNOWN_COMMAND => (closed)
e OPTIONS / HTTP/1.1
better lines.web: UNKNOWN_COMMAND => (closed)
f list-tube-used

story Requests behind a reserve that waits
rows wait.unread reserve
a >> reserve\r\nlist-tube-used\r\nput 0 0 60 1\r\nx\r\n
b put 5 0 60 * || for a
b peek 2
a delete 1

story Clients that half-close
rows wait.halfclosed
a reserve
a eof
b put 0 0 60 1 || x
b reserve-job 1
c >> list-tube-used\r\nreserve-with-timeout 100\r\nlist-tube-used\r\n
c eof
b release 1 0 0
d >> reserve\r\n
d eof
b peek-ready

story The end of a connection
rows wait.end wait.gone
a put 5 0 60 1 || 1
a put 3 0 60 1 || 2
a reserve
a reserve
b reserve
a close
b list-tubes-watched
c reserve
c close
b stats-job 1
b stats-job 2
d put 9 0 60 1 || 3
e reserve-job 3
e reset
b peek-ready
b delete 2

story Which job comes first
rows wait.order
a use t
a put 5 0 60 1 || a
a put 1 0 60 1 || b
a use u
a put 1 0 60 1 || c
a put 0 0 60 1 || d
b watch t
b watch u
b reserve
b reserve
b release 4 1 0
b reserve
b reserve
b release 2 5 0
b reserve
b bury 1 0
a use t
a kick 9
b reserve
b reserve
b reserve-with-timeout 0

story Which client comes first
rows wait.turn
a reserve
b reserve
c reserve
d put 0 0 60 1 || 1
d put 0 0 60 1 || 2
d put 0 0 60 1 || 3

story Six clients that wait
rows wait.turn
a reserve
b reserve
c reserve
d reserve
e reserve
f reserve
g put 0 0 60 1 || 1
g put 0 0 60 1 || 2
g put 0 0 60 1 || 3
g put 0 0 60 1 || 4
better wait.turn: d: (nothing) => RESERVED 4 1 / 4
better wait.turn: f: RESERVED 4 1 / 4 => (nothing)
g put 0 0 60 1 || 5
g put 0 0 60 1 || 6
better wait.turn: d: RESERVED 6 1 / 6 => (nothing)
better wait.turn: f: (nothing) => RESERVED 6 1 / 6

story The ttr is over
rows wait.ttr wait.soon.once wait.soon.begins
a put 0 0 1 1 || x
a reserve
a reserve
a reserve-with-timeout 0
a put 7 0 60 1 || y
a reserve
b reserve
b await
a touch 1
a release 1 0 0
a bury 1 0
a delete 1
b stats-job 1
b delete 1
c put 0 0 2 1 || z
c reserve
c reserve
c await
c release 3 0 0
c stats-tube default

story The late worker may delete while the job is ready
rows wait.ttr delete
a put 0 0 1 1 || x
a reserve
b watch nowhere
b ignore default
b reserve-with-timeout 2
b await
a stats-job 1
a touch 1
a delete 1
a peek 1

story What is due
rows put reserve-with-timeout pause-tube
a put 0 1 60 1 || x
a peek-delayed
a peek-ready
b reserve
b await
b release 1 0 1
b reserve
b await
a pause-tube default 1
b release 1 0 0
b reserve
b await
b reserve-with-timeout 1
b await

story Tubes come and go
rows wait.tube lists list-tube-used
a list-tubes
a use t
a stats-tube t
a watch u
a list-tubes
a use default
a list-tubes
a ignore u
a list-tubes
a put 0 0 60 1 || x
a use v
a put 0 0 60 1 || y
a use default
a stats-tube v
a delete 2
a stats-tube v
b >> put 0 0 60 1\r\n
b >> z\r\n
b stats-tube default
b list-tube-used

story Ids
rows wait.ids
a >> put 0 0 60 1\r\na\r\nput 0 0 60 1\r\nb\r\n
b >> put 0 0 60 3\r\n
a put 0 0 60 1 || c
b >> xyz\r\n
a peek 3
a peek 4

story A put that is not finished
rows wait.unfinished
a >> put 0 0 60 10\r\n
a >> abc
b peek-ready
b stats-tube default
b list-tubes
b peek 1
better wait.unfinished: FOUND 1 10 / ... => NOT_FOUND
b stats-job 1
better wait.unfinished: OK ... state: invalid ... => NOT_FOUND

story put
rows put put.max put.toobig
a put 0 0 0 0 || {x*0}
a stats-job 1
a peek 1
a put 4294967295 0 60 * || a\r\nb\0c\xff
a peek 2
a put 0 100 60 * || later
a stats-job 3
a put 0 0 60 * || {x*1048576}
a put 0 0 60 * || {x*1048577}
a put 0 0 60 * || {delete\s1\r\n*110000}
a peek 1
a stats-job 5

story A body without its end
rows put.crlf
a put 0 0 60 5 || hello!!
better put.crlf: EXPECTED_CRLF / UNKNOWN_COMMAND => EXPECTED_CRLF / (closed)
b put 0 0 60 2 || xyz
better put.crlf: EXPECTED_CRLF => EXPECTED_CRLF / (closed)
c peek-ready
d put 0 0 60 3 || abcdestats-tube default
better put.crlf: EXPECTED_CRLF / OK ... => EXPECTED_CRLF / (closed)

story A put line with a bad number
rows put.badnumber
a put x 0 60 8 || delete 1
better put.badnumber: BAD_FORMAT / NOT_FOUND => BAD_FORMAT / (closed)
b put 0 0 60 || x
better put.badnumber: BAD_FORMAT / UNKNOWN_COMMAND => BAD_FORMAT / (closed)
c put -1 0 60 1 || x
better put.badnumber: BAD_FORMAT / UNKNOWN_COMMAND => BAD_FORMAT / (closed)
d put 0 0 60 1x || x
better put.badnumber: BAD_FORMAT / UNKNOWN_COMMAND => BAD_FORMAT / (closed)
e put 4294967296 0 60 1 || x
better put.badnumber: BAD_FORMAT / UNKNOWN_COMMAND => BAD_FORMAT / (closed)
f put 0 0 60 1 1 || x
better put.badnumber: BAD_FORMAT / UNKNOWN_COMMAND => BAD_FORMAT / (closed)
g peek-ready

story reserve-job
rows reserve-job
a use t
a put 0 0 60 1 || a
a put 0 100 60 1 || b
a put 0 0 60 1 || c
a reserve-job 3
a bury 3 0
a pause-tube t 100
b reserve-job 1
b reserve-job 2
b reserve-job 3
b stats-job 2
a reserve-job 1
a reserve-job 4
b reserve-job 1
a stats-tube t

story delete
rows delete
a put 0 0 60 1 || a
a put 0 100 60 1 || b
a put 0 0 60 1 || c
a put 0 0 60 1 || d
a reserve-job 3
a bury 3 0
b use elsewhere
b delete 1
b delete 2
b delete 3
a reserve
b delete 4
a delete 4
a delete 4

story release
rows release value.delay
a put 5 0 60 1 || x
b release 1 0 0
a release 1 0 0
a reserve
b release 1 0 0
a release 1 9 0
a stats-job 1
a reserve
a release 1 3 100
a stats-job 1
a peek-delayed
a kick 1
a stats-job 1

story bury and kick
rows bury kick value.counts
a put 5 0 60 1 || a
a put 4 0 60 1 || b
a put 3 0 60 1 || c
a put 2 100 60 1 || d
a put 1 50 60 1 || e
a bury 1 0
a reserve
a reserve
a reserve
a bury 2 9
a bury 1 8
b bury 3 0
a bury 3 7
a peek-buried
a kick 2
a peek-buried
a stats-job 2
a kick 9
a kick 1
a peek-ready
a kick 9
a kick 9
a kick 0
a reserve
a stats-tube default

story touch
rows touch
a put 0 0 100 1 || x
a touch 1
a reserve
a touch 1
b touch 1
a stats-job 1
a delete 1
a touch 1

story kick-job
rows kick-job
a put 0 0 60 1 || a
a put 0 100 60 1 || b
a kick-job 1
b use elsewhere
b kick-job 2
a reserve
a kick-job 1
a bury 1 0
b kick-job 1
b kick-job 9
a stats-job 1
a stats-job 2

story peek
rows peek
a peek 1
a peek-ready
a peek-delayed
a peek-buried
a use t
a put 5 0 60 2 || a1
a put 1 0 60 2 || a2
a put 0 200 60 2 || d1
a put 9 100 60 2 || d2
a peek-ready
a peek-delayed
b peek-ready
b peek 4
b watch t
b reserve
b peek 2
a peek-ready
b bury 2 0
b reserve
b bury 1 0
a peek-buried
a peek-ready

story watch and ignore
rows watch ignore lists
a list-tubes-watched
a ignore default
a watch default
a watch b
a watch b
a watch a
a watch c
a list-tubes-watched
a ignore default
a ignore nowhere
a ignore b
a ignore b
a ignore a
a ignore c
a list-tubes-watched
b list-tubes

story Lists keep their order when one in the middle goes
rows lists
a watch one
a watch two
a watch three
a watch four
a list-tubes
a ignore two
a list-tubes-watched
better lists: OK * --- - default - one - four - three => OK * --- - default - one - three - four
a list-tubes
better lists: OK * --- - default - one - four - three => OK * --- - default - one - three - four

story pause-tube
rows pause-tube value.pause
a put 0 0 60 1 || x
a pause-tube nowhere 1
a pause-tube default 100
a reserve-with-timeout 0
a stats-tube default
a peek-ready
a put 0 0 60 1 || y
b reserve
a pause-tube default 200
a stats-tube default
a pause-tube default 0
a stats-tube default
a stats-job 1

story What dictionaries say
rows stats stats.form stats.job stats.tube stats.all value.urgent value.time-left value.file
a stats
a use t
a put 1023 0 60 1 || a
a put 1024 0 60 1 || b
a put 0 100 60 1 || c
a watch t
a stats-tube t
a stats-job 1
a stats-job 3
a reserve
a stats-job 1
a stats-tube t
a bury 1 0
a stats-tube t
a stats-job 1
a stats-tube nowhere
a stats-job 9
a stats

story What is counted
rows value.connections value.cmd value.totals
a stats
b put 0 0 60 1 || x
c reserve
d reserve
e watch t
a stats
c release 1 0 0
c delete 1
a stats
c delete 1
c reserve-with-timeout 0
c reserve-job 7
c kick-job 7
c kick 1
c bury 7 0
c touch 7
c release 7 0 0
c peek 7
c peek-ready
c peek-delayed
c peek-buried
c use default
c ignore t
c list-tubes
c list-tube-used
c list-tubes-watched
c stats-job 7
c stats-tube default
c pause-tube default 0
c foo
c peek x
a stats
d close
b put 0 0 60 1 || y
a stats
b close
c close
a stats
"""


# --- reading -------------------------------------------------------------------------------------


class Story:
    def __init__(self, name):
        self.name = name
        self.rows = []
        self.steps = []  # (client, what, differences: client -> (row, theirs, ours))


def read_stories():
    stories = []
    for line in STORIES.splitlines():
        word, _, rest = line.partition(" ")
        if word == "story":
            stories.append(Story(rest))
        elif word == "rows":
            stories[-1].rows += rest.split()
        elif word == "better":
            row, _, differs = rest.partition(": ")
            client, what, allowed = stories[-1].steps[-1]
            found = re.match(r"(\w): (.*)", differs)
            if found:
                client, differs = found.groups()
            theirs, arrow, ours = differs.partition(" => ")
            assert arrow, line
            allowed[client] = (row, theirs, ours)
        elif word:
            stories[-1].steps.append((word, rest, {}))
    return stories


TOLD = read_stories()


def as_bytes(text):
    def many(found):
        return found.group(1) * int(found.group(2))

    text = re.sub(r"\{([^{}]*)\*(\d+)\}", many, text)
    text = text.replace(r"\s", " ")
    return text.encode("latin-1").decode("unicode_escape").encode("latin-1")


def as_sent(what):
    """The bytes of a step."""
    if what.startswith(">> "):
        return as_bytes(what[3:])
    line, separator, body = what.partition(" || ")
    if not separator:
        return as_bytes(line) + b"\r\n"
    body = as_bytes(body)
    return as_bytes(line).replace(b"*", b"%d" % len(body)) + b"\r\n" + body + b"\r\n"


# --- playing -------------------------------------------------------------------------------------


def plain(answers):
    """What arrived, with `*` for what no two servers share, in one line."""

    def dictionary(found):
        text = found.group(2).decode()
        text = re.sub(r'^(tube|name): "(.*)"$', r"\1: \2", text, flags=re.M)
        text = re.sub(r"^(%s): .*$" % "|".join(OF_ITS_OWN), r"\1: *", text, flags=re.M)
        text = re.sub(r"^id: [0-9a-f]{16}$", "id: *", text, flags=re.M)
        text = re.sub(r"^(time-left|pause-time-left): [1-9].*$", r"\1: *", text, flags=re.M)
        return b"OK * " + text.strip().encode().replace(b"\n", b" ") + b"\r\n"

    answers = re.sub(rb"OK (\d+)\r\n(---\n.*?)\r\n", dictionary, answers, flags=re.S)
    text = answers.decode("latin-1")
    text = re.sub(r"(.)\1{50,}", lambda m: "{%s*%d}" % (m.group(1), len(m.group(0))), text)
    return text.removesuffix("\r\n").replace("\r\n", " / ") or "(nothing)"


class Player:
    def __init__(self, server):
        self.server = server
        self.clients = {}
        self.ended = set()

    def play(self, name, what):
        """Does a step. Returns what arrived at each client."""
        if name not in self.clients:
            self.clients[name] = wire.JobClient(self.server.jobs)
        client = self.clients[name]
        if what in ("close", "reset"):
            getattr(client, what)()
            del self.clients[name]
            self.ended.discard(name)
        elif what == "eof":
            client.eof()
        elif what == "await":
            client.fill(wire.DEADLINE)
        else:
            try:
                client.send_reading(as_sent(what))
            except (wire.Closed, OSError):
                pass  # the server has closed; that is compared below
        servers.await_idle(self.server)
        arrived = {name: self.arrived(name) for name in sorted(self.clients)}
        # A client that was told of the end is told no more.
        self.ended |= {name for name, client in self.clients.items() if client.at_end}
        return arrived

    def arrived(self, name):
        client = self.clients[name]
        if name in self.ended:
            return "(nothing)"
        while not client.at_end and client.fill(0):
            pass
        text = plain(bytes(client.buffer))
        client.buffer.clear()
        if client.at_end:
            text = (text + " / (closed)").replace("(nothing) / ", "")
        return text

    def close(self):
        for client in self.clients.values():
            client.close()


def is_like(text, expected):
    """Compares with what a `better` says, where `...` stands for anything."""
    return re.fullmatch(re.escape(expected).replace(r"\.\.\.", ".*"), text, re.S)


def differences(story, theirs, ours):
    """What differs in a story where no row wants it, or does not differ as the row wants it."""
    found = []
    for name, what, allowed in story.steps:
        them, us = theirs.play(name, what), ours.play(name, what)
        for client in us:
            row, old, new = allowed.get(client, (None, None, None))
            pair = (them[client], us[client])
            if row is None:
                is_right = pair[0] == pair[1]
            else:
                is_right = is_like(pair[0], old) and is_like(pair[1], new)
            if not is_right:
                found.append("%s %s\n   %s: %s\n      => %s" % (name, what[:60], client, *pair))
    return found


def compare(start, story):
    """Plays a story on two new servers. Returns what should not differ so."""
    theirs = Player(servers.Beanstalkd())
    try:
        ours = Player(start("counter.threads=2", "jobs.enable=true", "jobs.port=0"))
        try:
            return differences(story, theirs, ours)
        finally:
            ours.close()
    finally:
        theirs.close()
        theirs.server.kill()


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.name)
def test_transcript(start, story):
    if not servers.Beanstalkd.is_installed():
        pytest.skip("beanstalkd is not installed")
    version = subprocess.run([servers.BEANSTALKD, "-v"], capture_output=True, text=True, check=True)
    if "1.12" not in version.stdout:
        pytest.skip("the differences are those from beanstalkd 1.12, not " + version.stdout.strip())
    # A story that awaits something may be told of it a step earlier, if the machine stands still.
    tries = 3 if any(what == "await" for _, what, _ in story.steps) else 1
    while True:
        found = compare(start, story)
        tries -= 1
        if not found or tries == 0:
            break
    assert not found, "beanstalkd => ours:\n" + "\n".join(found)


def rows_of_the_page():
    """The rows of sections 1 to 4."""
    with open(os.path.join(HERE, "..", "scenario", "jobs.rows"), encoding="utf-8") as f:
        text = f.read()
    text = text[: text.index("# 6 New verbs")]
    return {line.split()[0] for line in text.splitlines() if line and not line.startswith("#")}


def test_every_row_and_verb_has_a_transcript():
    page = rows_of_the_page()
    shown = {row for story in TOLD for row in story.rows}
    better = {row for story in TOLD for _, _, allowed in story.steps for row, _, _ in allowed.values()}
    assert shown | set(ELSEWHERE) >= page, sorted(page - shown - set(ELSEWHERE))
    assert shown | set(ELSEWHERE) | better <= page, "no such rows"
    sent = {
        word
        for story in TOLD
        for _, what, _ in story.steps
        for word in re.findall(r"(?:^|\\n|>> )([a-z-]+)", what)
    }
    assert set(VERBS) <= sent, sorted(set(VERBS) - sent)


if __name__ == "__main__":
    tap.main(__file__)
