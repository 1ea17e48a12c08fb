#!/usr/bin/python3
"""
Plays the stories of clients/stories/*.json with the agent of each client library, and says which
language passes which story. clients/stories/README.md describes stories and agents.

    clients/stories.py                      play all stories with all agents
    clients/stories.py --agent php -k lock  those whose text has "lock", with one agent
    clients/stories.py --table              the table of the last results; plays what has none

T_TIMES=1 also prints which stories took longest.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import queue
import random
import re
import resource
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
STORIES = os.path.join(HERE, "stories")
sys.path[:0] = [STORIES, os.path.join(TOP, "t", "system")]

import certificates  # noqa: E402
import fake_server  # noqa: E402
import http_client  # noqa: E402
import servers  # noqa: E402
import variants  # noqa: E402
import wire  # noqa: E402

PORTS = {"text": 7531, "binary": 11215, "jobs": 11300}
TOKEN = "stories"  # of each daemon's admin interface
DEADLINE = 60.0  # of a call: a machine that stands still for seconds makes no story fail
wire.DEADLINE = max(wire.DEADLINE, DEADLINE)
SIDE_BY_SIDE = 10  # more make the load themselves, and end later
STILL = 0.3  # seconds by which the driver wakes up late: then the machine stands still
BUSY = 4  # programs that want to run, for each processor: then the machine has too much to do
PLAYS = 4  # of a story that fails meanwhile
TAP_PLAYS = 4  # of the variants of a story, in a test
ABILITIES = ("dispose", "scope", "worker")  # calls that not every library has
BUILD = os.path.abspath(os.environ.get("TOP_BUILDDIR") or os.path.join(TOP, "build"))
AGENTS = {  # commands; relative paths are below the folder of the agents
    "python": ["/usr/bin/python3", "-B", "python/agent_sync.py"],
    "aio": ["/usr/bin/python3", "-B", "python/agent_aio.py"],
    "php": ["php", "-d", "apc.enable_cli=1", "php/agent.php"],
    "node": ["node", "--expose-gc", "node/agent.mjs"],
    "go": [os.path.join(BUILD, "clients", "go-agent")],  # from go/agent, by built()
    "c": [os.path.join(BUILD, "lib", "agent")],  # from lib/agent.c, by make
}
STORY_FIELDS = {
    "story",
    "row",
    "with",
    "needs",
    "servers",
    "daemon",
    "options",
    "open",
    "env",
    "steps",
    "file",
    "each",
    "spoil",
}
STEP_KINDS = (
    "do", "await", "pending", "event", "no_event", "fake", "heard", "daemon", "text", "jobs",
    "binary", "close", "signal", "sleep", "connections", "sockets", "write", "memory", "files",
)  # fmt: skip


class Failure(Exception):
    """What the story wanted did not happen."""


def built(language, agents_folder):
    """
    The command of a language's agent, which is compiled first where it is Go's: once for each folder
    of agents. Failure: this machine lacks what it needs, or it does not compile.
    """
    *command, program = AGENTS[language]
    program = os.path.join(agents_folder, program)
    if language == "go":
        if os.path.abspath(agents_folder) != HERE:  # planted bugs, for example
            program += "-" + hashlib.md5(os.path.abspath(agents_folder).encode()).hexdigest()[:8]
        new = "%s.%d" % (program, os.getpid())  # others may play it meanwhile
        compiled = subprocess.run(
            ["go", "build", "-o", new, "./agent"], cwd=os.path.join(agents_folder, "go"),
            env=go_env(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if compiled.returncode != 0:
            raise Failure("go build: " + compiled.stderr)
        os.replace(new, program)
    return command + [program]


def go_env():
    """The environment in which Go compiles: without a network, and without a home."""
    os.makedirs(os.path.join(BUILD, "clients"), exist_ok=True)
    ours = {"GO111MODULE": "on", "GOFLAGS": "", "GOPROXY": "off", "GOWORK": "off"}
    return dict(os.environ, GOCACHE=os.path.join(BUILD, "go-cache"), **ours)


def lacking(language):
    """What keeps this machine from playing a language's agent; None if nothing does."""
    program = "go" if language == "go" else AGENTS[language][0]
    if shutil.which(program):
        return None
    return program + (" is not built" if os.path.isabs(program) else " is not installed")


# --- stories -------------------------------------------------------------------------------------


def rows():
    """The rows that stories show: the items of the list in README.md under "Rows"."""
    with open(os.path.join(STORIES, "README.md"), encoding="utf-8") as f:
        listed = f.read().partition("\n## Rows\n")[2]
    return re.findall(r"^- `([0-9]+\.[^`]+)`", listed, re.M)


def rows_of(story):
    row = story.get("row", [])
    return [row] if isinstance(row, str) else row


def load():
    """All stories in the order of their files. ValueError: one is written wrongly."""
    found, texts, known = [], set(), set(rows())
    for name in sorted(os.listdir(STORIES)):
        if not name.endswith(".json") or name == "servers.json":
            continue
        with open(os.path.join(STORIES, name), encoding="utf-8") as f:
            try:
                stories = json.load(f)
            except ValueError as e:
                raise ValueError("%s: %s" % (name, e)) from None
        for story in stories:
            where = "%s: %r" % (name, story.get("story"))
            wrong = set(story) - STORY_FIELDS
            if wrong or not {"story", "row", "with", "steps"} <= set(story):
                raise ValueError("%s: fields unknown or missing: %s" % (where, sorted(story)))
            if story["story"] in texts:
                raise ValueError(where + ": there are two of this text")
            for row in rows_of(story):
                if row not in known:
                    raise ValueError("%s: README.md lists no row %r" % (where, row))
            for step in story["steps"]:
                if not any(kind in step for kind in STEP_KINDS):
                    raise ValueError("%s: no such step: %s" % (where, step))
            texts.add(story["story"])
            story["file"] = name
            found.append(story)
    return found


def missing_rows(stories):
    shown = {row for story in stories for row in rows_of(story)}
    return [row for row in rows() if row not in shown]


# --- comparing -----------------------------------------------------------------------------------


def as_bytes(value):
    """The bytes of text or {"hex": ...}; None of anything else."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, dict) and set(value) == {"hex"}:
        return bytes.fromhex(value["hex"])
    return None


def differs(want, got, bound, where=""):
    """None if `got` is what `want` allows, else a text of where it is not. Binds $names."""
    if isinstance(want, str):
        if want == "*":
            return None
        if re.fullmatch(r"\$\w+", want):
            if want[1:] not in bound:
                bound[want[1:]] = got
                return None
            want = bound[want[1:]]
            if not isinstance(want, str):
                return differs(want, got, bound, where)
        elif want.startswith("~"):
            data = as_bytes(got)
            text = str(got) if data is None else data.decode("utf-8", "surrogateescape")
            match = re.fullmatch(want[1:], text, re.DOTALL)
            if match is None:
                return "%s: %r does not match %s" % (where, got, want)
            for key, value in match.groupdict().items():
                if bound.setdefault(key, value) != value:
                    return "%s: %s is %r, and was %r" % (where, key, value, bound[key])
            return None
    if isinstance(want, dict) and set(want) == {"one_of"}:
        tried = [differs(one, got, bound, where) for one in want["one_of"]]
        return None if None in tried else tried[0]
    if isinstance(want, dict) and set(want) <= {"at_least", "at_most"} and want:
        fits = isinstance(got, (int, float)) and not isinstance(got, bool)
        if fits and want.get("at_least", got) <= got <= want.get("at_most", got):
            return None
        return "%s: wanted %s, got %r" % (where, want, got)
    data = as_bytes(want)
    if data is not None and as_bytes(got) is not None:
        return None if data == as_bytes(got) else "%s: wanted %r, got %r" % (where, want, got)
    if isinstance(want, dict) and isinstance(got, dict):
        for key, value in want.items():
            if key not in got:
                return "%s: no %r in %r" % (where, key, got)
            said = differs(value, got[key], bound, "%s.%s" % (where, key))
            if said:
                return said
        return None
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return "%s: wanted %d entries, got %d: %r" % (where, len(want), len(got), got)
        for i, value in enumerate(want):
            said = differs(value, got[i], bound, "%s[%d]" % (where, i))
            if said:
                return said
        return None
    if type(want) is type(got) or {type(want), type(got)} == {int, float}:
        if want == got:
            return None
    return "%s: wanted %r, got %r" % (where, want, got)


def matches(want, got, bound):
    trial = dict(bound)
    if differs(want, got, trial) is None:
        bound.update(trial)
        return True
    return False


def filled(value, bound, is_wanted=False):
    """
    `value` with ${name} in its strings replaced by what is bound, ${x*9} by nine x, and
    {"repeat": [V, 9]} by a list of nine V (text: joined), {"+": {...}} by its entries; strings $name
    too, unless it is what is wanted: there they are bound or compared later.
    """

    def text_of(match):
        char, count, name = match.groups()
        return char * int(count) if char else str(bound[name])

    if isinstance(value, str):
        if not is_wanted and re.fullmatch(r"\$\w+", value) and value[1:] in bound:
            return bound[value[1:]]
        return re.sub(r"\$\{(?:(.)\*(\d+)|(\w+))\}", text_of, value)
    if isinstance(value, list):
        return [filled(v, bound, is_wanted) for v in value]
    if isinstance(value, dict) and set(value) == {"repeat"}:
        one, times = filled(value["repeat"][0], bound, is_wanted), value["repeat"][1]
        return one * times if isinstance(one, str) else [one] * times
    if isinstance(value, dict):
        found = {k: filled(v, bound, is_wanted) for k, v in value.items()}
        more = found.pop("+", {})
        return {**found, **more}
    return value


# --- agents --------------------------------------------------------------------------------------


class Agent:
    """The process of a library's agent, and threads that read what it writes."""

    def __init__(self, command, env):
        self.changed = threading.Condition()
        self.hello = None
        self.answers, self.events, self.errors = {}, [], []
        self.at_end = False
        self.next_id = 0
        self.child = subprocess.Popen(
            command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=env,
        )  # fmt: skip
        self.readers = [
            threading.Thread(target=read, daemon=True) for read in (self._read, self._complain)
        ]
        for reader in self.readers:
            reader.start()

    def start(self):
        """Waits until it is ready."""
        self._wait(lambda: self.hello is not None, "it says what it can")

    def _read(self):
        for line in self.child.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                said = None
            with self.changed:
                if not isinstance(said, dict):
                    self.errors.append("no JSON object on stdout: %r" % line[:1000])
                elif "agent" in said:
                    self.hello = said
                elif "event" in said:
                    self.events.append([said, False])
                else:
                    self.answers[said.get("id")] = (said, time.monotonic())
                self.changed.notify_all()
        with self.changed:
            self.at_end = True
            self.changed.notify_all()

    def _complain(self):
        for line in self.child.stderr:
            self.errors.append(line.decode("utf-8", "replace").rstrip("\n"))

    def _wait(self, has_come, what):
        """Waits until it has come, `what()` (or text) says what."""
        until = time.monotonic() + DEADLINE
        with self.changed:
            while not has_come():
                left = until - time.monotonic()
                if self.at_end or left <= 0:
                    how = (
                        "the agent ended before"
                        if self.at_end
                        else "in %d s it did not come that" % DEADLINE
                    )
                    raise Failure("%s: %s" % (how, what if isinstance(what, str) else what()))
                self.changed.wait(left)

    @property
    def can(self):
        return self.hello.get("can", [])

    def tell(self, command):
        """Sends a call. Returns its id."""
        self.next_id += 1
        try:
            self.child.stdin.write(json.dumps(dict(command, id=self.next_id)).encode() + b"\n")
            self.child.stdin.flush()
        except OSError as e:
            raise Failure("the agent has ended: %s" % e) from None
        return self.next_id

    def answer(self, number):
        """The answer, and when it came."""
        self._wait(lambda: number in self.answers, "its answer")
        return self.answers[number]

    def event(self, want, bound):
        def is_there():
            for entry in self.events:
                if not entry[1] and matches(want, entry[0], bound):
                    entry[1] = True
                    return True
            return False

        self._wait(is_there, lambda: "event %s; events: %s" % (want, [e[0] for e in self.events]))

    def close(self):
        """Ends it as the end of its input does; kills one that stays."""
        try:
            self.child.stdin.close()
        except OSError:
            pass
        try:
            self.child.wait(0.2)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        for reader in self.readers:
            reader.join(2)
        self.child.stdout.close()
        self.child.stderr.close()


# --- servers -------------------------------------------------------------------------------------


class Daemon:
    """counterd on the default ports of one host of the story; it can end and start again."""

    def __init__(self, host, options):
        self.options = {
            "counter.threads": "1",
            "jobs.enable": "true",
            "admin.port": str(servers.ADMIN_PORT),
        }
        self.options.update({"admin.listen": host, "admin.token": TOKEN})
        self.host = host
        for protocol, port in (("poolcounter", "text"), ("counter", "binary"), ("jobs", "jobs")):
            self.options[protocol + ".port"] = str(PORTS[port])
            self.options[protocol + ".listen"] = host
        self.options.update(
            {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
        )
        self.logs, self.process = [], None
        self.start()

    def start(self):
        self.process = servers.Counterd(*("%s=%s" % pair for pair in self.options.items()))

    def signal(self, number):
        self.process.child.send_signal(number)

    def do(self, deed):
        if deed == "kill":
            self.process.kill()
        elif deed == "stop":
            self.process.stop()
        elif deed == "restart":
            self.process.stop()
            self.start()
        elif deed == "start":
            self.start()
        elif deed == "freeze":
            self.signal(signal.SIGSTOP)
            wire.poll(self.is_frozen, "the daemon stands still")
        elif deed == "thaw":
            self.signal(signal.SIGCONT)
        elif deed == "drain":
            self.signal(signal.SIGTERM)
            self.process.wait_log("draining: no new acquires")
        elif deed == "cut":
            self.cut()
        elif deed == "upgrade":
            self.signal(signal.SIGUSR1)
            self.process.wait_log("has taken over")
        else:
            raise Failure("the daemon can't %r" % deed)

    def is_frozen(self):
        states = []
        for task in os.listdir("/proc/%d/task" % self.process.pid):
            with open("/proc/%d/task/%s/stat" % (self.process.pid, task), encoding="ascii") as f:
                states.append(f.read().rpartition(")")[2].split()[0])
        return set(states) == {"T"}

    def cut(self):
        """Closes all connections, as an operator does; returns when their clients can see it."""
        ports = self.clients()
        admin, path = (self.host, servers.ADMIN_PORT), "/api/v1/connections"
        open_ones = http_client.get(admin, path)["connections"]
        for one in sorted(open_ones, key=lambda one: -one["waits"]):  # so none is granted by a cut
            http_client.ask(admin, "POST", "%s/%s/kill" % (path, one["connection"]), TOKEN)
        wire.poll(lambda: not ports & self.clients(), "the cut reaches the clients")

    def clients(self):
        """The ports of clients whose TCP connections are open at their end."""
        with open("/proc/net/tcp", encoding="ascii") as f:
            rows = [line.split() for line in f.readlines()[1:]]
        host = socket.inet_aton(self.host)[::-1].hex().upper()
        admin = ":%04X" % servers.ADMIN_PORT
        return {
            mine for _, mine, theirs, state, *_ in rows
            if state == "01" and theirs.startswith(host) and not theirs.endswith(admin)
        }  # fmt: skip

    def connections(self, address):
        return sum(state == "ESTABLISHED" for state, _ in servers._sockets([address]))

    def close(self):
        self.process.kill()


class Certificates:
    """Those of a run, for all hosts of all stories; made when the first story needs them."""

    def __init__(self, hosts):
        self.hosts, self.lock, self.paths, self.folder = hosts, threading.Lock(), None, None

    def names(self):
        with self.lock:
            if self.paths is None:
                self.folder = tempfile.mkdtemp(prefix="stories-tls-")
                ours = certificates.Authority(self.folder, "ca")
                other = certificates.Authority(self.folder, "other")
                valid_for = "DNS:localhost," + ",".join("IP:" + host for host in self.hosts)
                cert, key = ours.issue("server", valid_for)
                client_cert, client_key = ours.issue("client")
                self.paths = {
                    "ca": ours.cert, "other_ca": other.cert, "cert": cert, "key": key,
                    "client_cert": client_cert, "client_key": client_key,
                }  # fmt: skip
            return self.paths

    def close(self):
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


def peers_sockets(pid, address):
    """
    A process's sockets that are connected to an address, as duplicates of ours, each with the flags
    that its descriptor has there.
    """
    import ctypes  # not for a story that does not look

    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    pidfd = os.pidfd_open(pid)
    try:
        for fd in sorted(map(int, os.listdir("/proc/%d/fd" % pid))):
            try:
                if not os.readlink("/proc/%d/fd/%d" % (pid, fd)).startswith("socket:"):
                    continue
                with open("/proc/%d/fdinfo/%d" % (pid, fd)) as f:
                    flags = int(re.search(r"^flags:\s*(\d+)", f.read(), re.M).group(1), 8)
            except OSError:
                continue
            ours = libc.syscall(438, pidfd, fd, 0)  # pidfd_getfd
            if ours < 0:
                raise Failure("pidfd_getfd: %s" % os.strerror(ctypes.get_errno()))
            copy = socket.socket(fileno=ours)
            try:
                if copy.getpeername()[:2] == address:
                    found.append((copy, flags))
                    continue
            except OSError:
                pass
            copy.close()
    finally:
        os.close(pidfd)
    return found


# --- a story that is played ----------------------------------------------------------------------


class Play:
    """One story with one agent: its servers, its agents, its handles, what it has bound."""

    def __init__(self, story, language, command, hosts, certs, spare):
        self.story, self.language, self.command, self.spare = story, language, command, spare
        self.hosts = hosts[: story.get("servers", 1)]
        self.certs = certs
        self.servers, self.agents, self.links = [], {}, {}
        self.handles, self.opens, self.all_agents = {}, [], []
        self.step, self.passed, self.memory = None, False, 0
        # In a plain story nothing is about the process of the agent, and nothing of the real server
        # is held: the agent may have played other stories. ("refuse": it may remember down servers.)
        own = (
            '"(in|signal|memory|sockets|files|later|env)": |"do": "(fork|worker|drop|close|scope)"'
        )
        own += (
            '|"refuse"|"stuck"|SHUTTING_DOWN' if story["with"] == "fake" else '|"as": "|"daemon": "'
        )
        self.is_plain = not re.search(own, json.dumps(story))
        self.dir = tempfile.mkdtemp(prefix="story-")
        self.bound = {"dir": self.dir}
        for i, host in enumerate(self.hosts):
            self.bound["host%s" % (i or "")] = host
            self.bound["name%d" % i] = next(
                name for name in ("n%d" % n for n in range(1000)) if self.first_server(name) == host
            )

    def first_server(self, name):
        return min(self.hosts, key=lambda host: hashlib.md5((host + name).encode()).hexdigest())

    def play(self):
        """None if all went well; "-: reason" if the agent lacks an ability; else what failed."""
        try:
            lacks = self.lacks()
            if lacks:
                return "-: " + lacks
            self.start_servers()
            if "memory" in json.dumps(self.story["steps"]):
                fake_server.reset_peak(self.agent().child.pid)
                self.memory = fake_server.peak(self.agent().child.pid)
            if self.story.get("open", True):
                self._do({"do": "open"})
            for number, step in enumerate(self.story["steps"], 1):
                self.step = (number, step)
                self.take(step)
            for server in self.servers:
                if self.story["with"] == "fake" and server.problems():
                    raise Failure("the fake server: " + "; ".join(server.problems()))
            self.step, self.passed = None, True
            return None
        except (Failure, AssertionError, OSError) as e:
            return self.told(str(e) or repr(e))
        except Exception:
            return self.told(traceback.format_exc())
        finally:
            self.end()

    def lacks(self):
        """What keeps the agent from playing it. "!X" needs an agent that is not X, or can't X."""
        hello = self.agent().hello
        has = {self.language, *hello.get("can", [])}
        calls = {step.get("do") for step in self.story["steps"]}
        for need in [*self.story.get("needs", []), *sorted(calls.intersection(ABILITIES))]:
            if need.startswith("!") and need[1:] in has:
                return "not for one that is or can: " + need[1:]
            if not need.startswith("!") and need not in has:
                return "it can't " + need
        return None

    def told(self, what):
        lines = ["story: %s (%s)" % (self.story["story"], self.story["file"])]
        if self.step:
            lines.append(
                "step %d: %s" % (self.step[0], json.dumps(self.step[1], ensure_ascii=False))
            )
        lines += [
            "what came: " + what,
            "bound: %s" % {k: v for k, v in self.bound.items() if k not in ("dir",)},
        ]
        time.sleep(0.1)  # for what the agents complain of
        for agent in self.all_agents:
            if agent.errors:
                lines += ["the agent's stderr:"] + ["  " + line for line in agent.errors[-30:]]
        for server in self.servers:
            if not isinstance(server, Daemon):
                lines += ["the fake server: " + said for said in server.problems(0)]
            else:
                lines += ["the daemon's log:"] + [
                    "  " + line for line in server.process.log.splitlines()[-4:]
                ]
        sentence = self.story["story"].partition(" [")[0]
        again = ("clients/stories.py", "--agent", self.language, "-k", sentence)
        lines.append("again: " + shlex.join(again))
        return "\n".join(lines)

    def start_servers(self):
        if (
            "cert}" in json.dumps(self.story)
            or "_ca}" in json.dumps(self.story)
            or "{ca}" in json.dumps(self.story)
        ):
            self.bound.update(self.certs.names())
        given = self.story.get("daemon", {})
        for i, host in enumerate(self.hosts):
            if self.story["with"] == "fake":
                self.servers.append(fake_server.FakeServer(host, dict(PORTS)))
            else:
                options = given[i] if isinstance(given, list) else given
                self.servers.append(Daemon(host, filled(options, self.bound)))

    def end(self):
        first = self.agents.get("")
        for agent in self.all_agents:
            if agent is first and self.passed and self.is_plain and agent.child.poll() is None:
                self.spare.put(agent)  # the next story saves its start
                continue
            if self.step and agent.child.poll() is None:
                agent.child.kill()
            agent.close()
        for link in self.links.values():
            link.close()
        for server in self.servers:
            server.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def new_agent(self, spare=None):
        try:
            agent = (spare or queue.SimpleQueue()).get_nowait()
            agent.events, agent.errors = [], []
        except queue.Empty:
            env = {k: v for k, v in os.environ.items() if k != "COUNTER_URL"}
            agent = Agent(self.command, dict(env, **filled(self.story.get("env", {}), self.bound)))
        self.all_agents.append(agent)
        agent.start()
        return agent

    def agent(self, name=""):
        if name not in self.agents:
            self.agents[name] = self.new_agent(self.spare if self.is_plain and not name else None)
            if name:
                self.replay_opens(self.agents[name])
        return self.agents[name]

    def replay_opens(self, agent):
        for command in self.opens:
            answer, _ = agent.answer(agent.tell(command))
            if "error" in answer:
                raise Failure("open in another agent: %s" % answer)

    def agent_of(self, step):
        """The agent that has what the step names."""
        if step.get("of") in self.handles:
            return self.handles[step["of"]][0]
        return self.agent(step.get("in", ""))

    # --- steps

    def take(self, step):
        for kind in STEP_KINDS:
            if kind in step:
                return getattr(self, "_" + kind)(step)
        raise Failure("no such step")

    def compare(self, want, got):
        want = filled(want, self.bound, True)
        said = differs(want, got, self.bound, "it")
        if said:
            raise Failure(
                "%s\n  wanted: %s\n  got:    %s" % (said, json.dumps(want), json.dumps(got))
            )

    def _do(self, step):
        if "table" in step:
            return self.do_table(step)
        command = {"do": step["do"], "args": filled(step.get("args", {}), self.bound)}
        for key in ("as", "of"):
            if key in step:
                command[key] = step[key]
        if step["do"] == "open":
            options = {"url": "counter://" + ",".join(self.hosts)}
            options.update(self.story.get("options", {}))
            options.update(step.get("args", {}))
            for name in ("connect_timeout", "io_timeout"):
                if name not in (options["url"] or ""):
                    options.setdefault(name, 20)
            command["args"] = {
                k: v for k, v in filled(options, self.bound).items() if v is not None
            }
            command.setdefault("as", "client")
        of_client = step.get("of", "client") in ("client", *(c["as"] for c in self.opens))
        agent = self.agent_of(step)
        if step.get("later") and of_client and "later" not in agent.can:
            agent = self.new_agent()
            self.replay_opens(agent)
        began = time.monotonic()
        number = agent.tell(command)
        if "as" in step and step["do"] != "open":
            self.handles[step["as"]] = (agent, number, began)
        if step.get("later"):
            return None
        answer, came = agent.answer(number)
        while step["do"] == "lost" and step.get("want") is True and answer.get("value") is False:
            if time.monotonic() - began > DEADLINE:
                break
            time.sleep(0.01)  # the kernel may tell of the end a moment later
            answer, came = agent.answer(agent.tell(command))
        if step["do"] == "open" and "error" not in answer and "in" not in step:
            self.opens.append(command)
        if step["do"] == "claim" and isinstance(answer.get("value"), list):
            for i in range(len(answer["value"])):
                self.handles["%s.%d" % (step.get("as"), i)] = (agent, number, began)
        return self.judge(step, answer, came - began)

    def do_table(self, step):
        with open(os.path.join(STORIES, step["table"]), encoding="utf-8") as f:
            table = json.load(f)
        for entry in table:
            args = {k: v for k, v in entry.items() if k != "order"}
            answer, _ = self.agent().answer(self.agent().tell({"do": step["do"], "args": args}))
            self.compare(entry["order"], answer.get("value", answer))

    def judge(self, step, answer, seconds):
        got = (
            answer.get("value")
            if "error" not in answer
            else {k: v for k, v in answer.items() if k != "id"}
        )
        if "want" in step:
            self.compare(step["want"], got)
        elif "error" in answer:
            raise Failure("an error that the step does not want: %s" % answer)
        least, most = step.get("ms", [0, 1000 * DEADLINE])
        if not least <= seconds * 1000 <= most:
            raise Failure("it took %.1f ms, not %s to %s" % (seconds * 1000, least, most))

    def _await(self, step):
        agent, number, began = self.handles[step["await"]]
        answer, came = agent.answer(number)
        self.judge(step, answer, came - began)

    def _pending(self, step):
        agent, number, _ = self.handles[step["pending"]]
        if number in agent.answers:
            raise Failure("it has ended: %s" % (agent.answers[number][0],))

    def _event(self, step):
        want = {k: v for k, v in step.items() if k != "in"}
        agent = self.agent_of(step)
        if step["event"] not in ("inside", "run", "ran"):
            want.pop("of", None)  # events of the library itself name no handle
        agent.event(filled(want, self.bound, True), self.bound)

    def _no_event(self, step):
        want = dict(
            {k: v for k, v in step.items() if k not in ("in", "no_event")}, event=step["no_event"]
        )
        for agent in self.all_agents:
            for said, is_awaited in list(agent.events):
                if not is_awaited and matches(
                    filled(want, self.bound, True), said, dict(self.bound)
                ):
                    raise Failure("there was one: %s" % said)

    def server(self, step):
        return self.servers[step.get("server", 0)]

    def _fake(self, step):
        deed = step["fake"]
        if isinstance(deed, str):
            getattr(self.server(step), deed)()
        else:
            self.server(step).script(filled(deed, self.bound))

    def _heard(self, step):
        self.until(
            step["heard"], lambda: self.server(step).heard(), "what the fake server was sent"
        )

    def until(self, want, ask, what):
        """Asks until the answer is as wanted, for DEADLINE at most."""
        until, pause = time.monotonic() + DEADLINE, 0.005
        want = filled(want, self.bound, True)
        while True:
            got = ask()
            if matches(want, got, self.bound):
                return
            if time.monotonic() > until:
                raise Failure("%s: wanted %s, still %s" % (what, json.dumps(want), json.dumps(got)))
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)

    def _daemon(self, step):
        self.server(step).do(step["daemon"])

    def _talk(self, step, kind, client):
        """The driver as another client: sends lines, and reads as many as are wanted."""
        address = (self.hosts[step.get("server", 0)], PORTS[kind])

        def ask():
            name = step.get("on")
            link = self.links.get(name) if name else None
            if link is None:
                link = client(address, deadline=DEADLINE)
                if name:
                    self.links[name] = link
            try:
                for line in filled(step[kind], self.bound):
                    link.say(line)
                return [link.line() for _ in step.get("want", [])]
            finally:
                if not name:
                    link.close()

        if step.get("until"):
            return self.until(step["want"], ask, "what the server answers")
        return self.compare(step.get("want", []), ask())

    def _text(self, step):
        self._talk(step, "text", wire.TextClient)

    def _jobs(self, step):
        self._talk(step, "jobs", JobLines)

    def _binary(self, step):
        self._talk(step, "binary", BinaryLines)

    def _close(self, step):
        self.links.pop(step["close"]).close()

    def _signal(self, step):
        self.agent_of(step).child.send_signal(getattr(signal, "SIG" + step["signal"]))

    def _sleep(self, step):
        time.sleep(step["sleep"] / 1000)

    def _connections(self, step):
        server, host = self.server(step), self.hosts[step.get("server", 0)]

        def count():
            if self.story["with"] == "fake":
                return {kind: server.connections(kind) for kind in step["connections"]}
            return {kind: server.connections((host, PORTS[kind])) for kind in step["connections"]}

        self.until(step["connections"], count, "connections of the server")

    def _sockets(self, step):
        names = {
            "nodelay": (socket.IPPROTO_TCP, socket.TCP_NODELAY),
            "keepalive": (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            "idle": (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            "interval": (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            "count": (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
            "user_timeout": (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT),
        }  # fmt: skip
        found = peers_sockets(self.agent_of(step).child.pid, (self.hosts[0], PORTS[step["kind"]]))
        if not found:
            raise Failure("the agent has no such connection")
        for copy, flags in found:
            with copy:
                got = {name: copy.getsockopt(*option) for name, option in names.items()}
            got.update(nodelay=int(bool(got["nodelay"])), cloexec=bool(flags & os.O_CLOEXEC))
            self.compare(step["sockets"], got)

    def _memory(self, step):
        used = fake_server.peak(self.agent().child.pid) - self.memory
        if used > step["memory"] << 20:
            raise Failure("the agent used %.1f MiB more than before the story" % (used / (1 << 20)))

    def _files(self, step):
        """The limit counts numbers of descriptors, and the lowest free one is used next."""
        pid, limits = self.agent_of(step).child.pid, resource.getrlimit(resource.RLIMIT_NOFILE)
        if step["files"] is not None:
            used = {int(fd) for fd in os.listdir("/proc/%d/fd" % pid)}
            free = (fd for fd in itertools.count() if fd not in used)
            limits = next(itertools.islice(free, step["files"], None)), limits[1]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def _write(self, step):
        with open(os.path.join(self.dir, step["write"]), "w", encoding="utf-8") as f:
            f.write(filled(step["content"], self.bound))


class JobLines(wire.JobClient):
    """`line` returns an answer with its body: the line, a line end, the body."""

    def line(self):
        head = super().line()
        words = head.split()
        at = {"RESERVED": 2, "FOUND": 2, "OK": 1}.get(words[0])
        return (
            head
            if at is None
            else head + "\n" + self.body(int(words[at])).decode("utf-8", "replace")
        )


class BinaryLines(wire.BinaryClient):
    """
    Requests as words: get NAME, acquire NAME UNITS LIMIT, release NAME UNITS. An answer is a status
    and a number.
    """

    def say(self, line):
        verb, name, *numbers = line.split(" ")
        body = {
            "get": lambda: wire.get_body(name.encode()),
            "acquire": lambda: wire.acquire_body(int(numbers[0]), int(numbers[1]), name.encode()),
            "release": lambda: wire.release_body(int(numbers[0]), name.encode()),
        }[verb]()
        self.send(wire.binary_request(wire.OPCODES[verb], body))

    def line(self):
        _, _, status, _, length, _ = struct.unpack(">BBBBI4s", self.take(12))
        body = self.take(length)
        return "%02x %d" % (status, int.from_bytes(body, "big") if len(body) == 4 else 0)


# --- runs ----------------------------------------------------------------------------------------


def results_path(language):
    return os.path.join(BUILD, "t", "clients", "out", "played-%s.json" % language)


class Clock(threading.Thread):
    """Notes when the machine stood still: it woke the driver up late. Or it has too much to do."""

    def __init__(self):
        super().__init__(daemon=True)
        self.last_still = 0.0
        self.start()

    def run(self):
        while True:
            began = time.monotonic()
            time.sleep(0.02)
            if time.monotonic() - began > STILL:
                self.last_still = time.monotonic()

    def is_to_blame(self, since):
        return self.last_still >= since or os.getloadavg()[0] > BUSY * os.cpu_count()


def run(language, stories, agents_folder, on_result, draw=lambda found: found):
    """
    Plays the stories with an agent, several side by side, and calls `on_result(story, result, again)`
    in their order. A result is None, "-: reason", or what failed first of a story's variants. One that
    failed while the machine stood still or had too much to do is played again: times of a client
    and of a server that is scripted cannot be kept then. `again` lists how such plays had failed.
    `draw` chooses among the variants of a story.
    """
    clock, command = Clock(), built(language, agents_folder)
    net = "127.%d.%d." % (100 + (os.getpid() >> 8) % 128, os.getpid() % 256)
    slots, spare, seconds = queue.SimpleQueue(), queue.SimpleQueue(), {}
    hosts = [[net + str(slot * 4 + i + 1) for i in range(3)] for slot in range(SIDE_BY_SIDE)]
    for slot in hosts:
        slots.put(slot)
    certs = Certificates([host for slot in hosts for host in slot])

    def play(story):
        slot, began, again = slots.get(), time.monotonic(), []
        try:
            while True:
                from_now = time.monotonic()
                said = Play(story, language, command, slot, certs, spare).play()
                if said is None or said[0] == "-":
                    return said, again
                time.sleep(0.5)  # for the clock
                if len(again) + 1 == PLAYS or not clock.is_to_blame(from_now):
                    return said, again
                again.append(said)
        finally:
            slots.put(slot)
            seconds[story["story"]] = time.monotonic() - began

    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        played = [
            (story, [pool.submit(play, one) for one in draw(variants.variants(story))])
            for story in stories
        ]
        for story, plays in played:
            results, again = zip(*(one.result() for one in plays))
            failed = [result for result in results if result and result[0] != "-"]
            on_result(story, failed[0] if failed else results[0], sum(again, []))
    if os.environ.get("T_TIMES"):
        for text, took in sorted(seconds.items(), key=lambda one: -one[1])[:25]:
            print("%6.1f s  %s" % (took, text), file=sys.stderr)
    while not spare.empty():
        spare.get().close()
    certs.close()


def run_and_keep(language, stories, agents_folder, on_result=lambda *_: None, **options):
    """As `run`; keeps the results for the table: of each story its result and its failed plays."""
    results = {}

    def keep(story, result, again):
        results[story["story"]] = [result, again]
        on_result(story, result, again)

    run(language, stories, agents_folder, keep, **options)
    os.makedirs(os.path.dirname(results_path(language)), exist_ok=True)
    with open(results_path(language) + ".new", "w", encoding="utf-8") as f:
        json.dump(results, f)
    os.replace(results_path(language) + ".new", results_path(language))
    return results


def mark(result):
    return "ok" if result is None else "-" if result[0] == "-" else "FAILED"


def told_of_plays(again):
    """The lines that say how often a story was played again, and why: "" if it was not."""
    if not again:
        return ""
    head = "played %d times: the machine stood still or had too much to do, and it failed with:"
    return "\n".join([head % (len(again) + 1)] + ["  " + line for line in again[0].splitlines()])


def table(stories, agents_folder):
    """
    The lines of the table: which language passes which story, why one cannot be played, and which were
    played again.
    """
    columns = {}
    for language in AGENTS:
        try:
            with open(results_path(language), encoding="utf-8") as f:
                columns[language] = json.load(f)
        except FileNotFoundError:
            lacks = lacking(language)
            columns[language] = {} if lacks else run_and_keep(language, stories, agents_folder)
    width = max(len(story["story"]) for story in stories)
    texts = [story["story"] for story in stories]

    def row(head, cells):
        return "%-*s  %s" % (width, head, "  ".join("%-6s" % cell for cell in cells))

    yield row("story", AGENTS)
    for text in texts:
        known = [columns[language].get(text) for language in AGENTS]
        yield row(text, [mark(one[0]) if one else "?" for one in known])
    passed = [sum(columns[x].get(text, "?")[0] is None for text in texts) for x in AGENTS]
    again = [sum(len(one[1]) for one in columns[x].values()) for x in AGENTS]
    yield row("%d stories; passed" % len(stories), passed)
    yield row("plays of them that failed while the machine stood still", again)
    reasons = {
        (language, result[3:])
        for language in AGENTS
        for result, _ in columns[language].values()
        if result and result[0] == "-"
    }
    for language, reason in sorted(reasons):
        yield "-  %s: %s" % (language, reason)
    for language in AGENTS:
        for text, (_, failed) in columns[language].items():
            if failed:
                yield "%s: %s\n  %s" % (
                    language,
                    text,
                    told_of_plays(failed).replace("\n", "\n  "),
                )


def tap(language):
    """
    The stories of a language as a TAP test, a line for each; of their variants T_SEED draws TAP_PLAYS.
    Returns the exit status.
    """
    lacks = lacking(language) or (None if servers.have_counterd() else "COUNTERD names no daemon")
    if lacks:
        print("1..0 # SKIP " + lacks)
        return 0
    stories = load()
    counts = {"lines": 0, "failed": 0}

    def line(is_ok, text, told=""):
        counts["lines"] += 1
        counts["failed"] += not is_ok
        print(
            "%s %d - %s" % ("ok" if is_ok else "not ok", counts["lines"], text.replace("#", "no. "))
        )
        for said in told.splitlines():
            print("# " + said)
        sys.stdout.flush()

    def on_result(story, result, again):
        if result is None or result[0] != "-":
            told = "\n".join(text for text in (result, told_of_plays(again)) if text)
            line(result is None, "%s: %s" % (language, story["story"]), told)

    seed = int(os.environ.get("T_SEED") or random.randrange(2**32))
    print("# variants: T_SEED=%d" % seed)
    drawn = random.Random(seed)

    def draw(found):
        return drawn.sample(found, min(TAP_PLAYS, len(found)))

    missing = missing_rows(stories)
    line(
        not missing,
        "%s: each row has a story" % language,
        "without one: %s" % missing if missing else "",
    )
    run_and_keep(language, stories, agents_folder(), on_result, draw=draw)
    print("1..%d" % counts["lines"])
    return 1 if counts["failed"] else 0


def agents_folder():
    return os.environ.get("CLIENTS") or HERE


def main():
    parser = argparse.ArgumentParser(description="Plays the stories of the client libraries.")
    parser.add_argument(
        "--agent", action="append", choices=list(AGENTS), help="only this agent; may be repeated"
    )
    parser.add_argument("-k", metavar="TEXT", default="", help="only stories that have this text")
    parser.add_argument(
        "--clients",
        metavar="FOLDER",
        help="the folder of the agents' languages (default: this one)",
    )
    parser.add_argument("--table", action="store_true", help="print the table of the last results")
    options = parser.parse_args()
    folder = os.path.abspath(options.clients or agents_folder())
    if not servers.have_counterd():
        servers.COUNTERD = os.path.join(TOP, "build", "counterd")
        if not os.path.exists(servers.COUNTERD):
            sys.exit("stories.py: build the daemon first (./dev build), or name it in COUNTERD")
    stories = load()
    if options.table:
        print("\n".join(table(stories, folder)))
        return 0
    chosen = [story for story in stories if options.k in story["story"]]
    failed = 0
    for language in options.agent or AGENTS:
        lacks = lacking(language)
        if lacks:
            print("-      %s: %s" % (language, lacks))
            failed += bool(options.agent)
            continue

        def on_result(story, result, again, language=language):
            nonlocal failed
            failed += mark(result) == "FAILED"
            print("%-6s %s: %s" % (mark(result), language, story["story"]), flush=True)
            for text in (result or "", told_of_plays(again)):
                for said in text.splitlines():
                    print("       " + said)

        (run if options.k else run_and_keep)(language, chosen, folder, on_result)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
