"""A server that plays scripts, for stories about servers that close, stall, drip and lie.

It listens on one address, on a port for each protocol. A script says what the server does with one
connection; scripts are used in the order in which connections come. README.md lists the actions.
"""

import asyncio
import collections
import concurrent.futures
import re
import socket
import threading
import time

DEADLINE = 60  # seconds in which a client does what a script or a story waits for
BUFFER = 65536  # bytes read ahead of the script; so a client that sends more has to wait
DEFAULT_TUBE = (
    '---\nname: "default"\norder: priority\nclaim: connection\ntries: 0\nlimit: 0\nprune: 0\n'
    'remember: 3600\nread-only: ""\ncurrent-jobs-ready: 0\ncurrent-jobs-delayed: 0\n'
    "current-jobs-reserved: 0\ncurrent-jobs-buried: 0\ncurrent-jobs-abandoned: 0\n"
    "oldest-ready-age: 0\ntotal-puts: 0\ntotal-duplicates: 0\ntotal-claims: 0\ntotal-dropped: 0\n"
    "total-acks: 0\ntotal-recycled: 0\ntotal-abandoned: 0\n"
)


class Mismatch(Exception):
    """A client did something else than the script says."""


def encode(value, opaque=b"\0\0\0\0"):
    """
    Returns the bytes of a text, of `[value, times]`, or of `{"hex": ...}`, where `@` is `opaque`,
    and `@0` to `@3` are its bytes.
    """
    if isinstance(value, list):
        return encode(value[0], opaque) * value[1]
    if isinstance(value, dict):
        return bytes.fromhex(re.sub("@([0-3])?", lambda m: _opaque(opaque, m[1]), value["hex"]))
    return value.encode()


def _opaque(opaque, which):
    return opaque.hex() if which is None else "%02x" % opaque[int(which)]


def decode(data):
    """Returns bytes as stories write them: text, or `{"hex": ...}` for what is no text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def ok_answer(text):
    """Returns the answer `OK` of job queues with a list or dictionary."""
    return b"OK %d\r\n%s\r\n" % (len(text.encode()), text.encode())


def reset_peak(pid):
    """Starts to measure the peak of a process's memory anew."""
    with open("/proc/%d/clear_refs" % pid, "w") as file:
        file.write("5")


def peak(pid):
    """Returns the largest resident size of a process so far, in bytes."""
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) * 1024


class Peer(asyncio.Protocol):
    """One connection of a client, and what the script does with it. Used on the loop alone."""

    def __init__(self, port):
        self.port = port
        self.buffer = bytearray()
        self.changed = asyncio.Event()
        self.ended = False  # the client has closed
        self.closed = False  # the server has closed
        self.parts = []  # what each read action took
        self.waits_for = None  # what the client has to do next
        self.opaque = b"\0\0\0\0"

    def connection_made(self, transport):
        self.transport = transport
        if not self.port.server:  # it came just before the listener was closed
            transport.abort()
            return
        self.number = len(self.port.peers) + 1
        self.port.peers.append(self)
        script = self.port.next_script()
        if script is None:
            self._complain("nobody expected it")
            self._close()
        else:
            self.task = asyncio.ensure_future(self._run(script))

    def data_received(self, data):
        self.buffer += data
        if len(self.buffer) >= BUFFER:
            self.transport.pause_reading()
        self.changed.set()

    def eof_received(self):
        self.ended = True
        self.changed.set()
        return True  # what is still to be sent goes out

    def connection_lost(self, error):
        self.ended = True
        self.changed.set()

    def heard(self):
        """Returns all that was read: what each action took, then the rest."""
        return [decode(part) for part in self.parts + [bytes(self.buffer)] if part]

    def _complain(self, text):
        self.port.problems.append("%s, connection %d: %s" % (self.port.kind, self.number, text))

    def _close(self):
        self.closed = True
        self.transport.close()

    async def _run(self, script):
        try:
            for action in script:
                await self._act(action)
        except Mismatch as error:
            self._complain(str(error))
            self._close()
        self.waits_for = None
        while not self.ended and not self.closed:
            await self._more()

    async def _act(self, action):
        if isinstance(action, str):
            await self.words[action](self)
        elif "read" in action:
            await self._read(action["read"])
        elif "read_body" in action:
            self.parts.append(
                await self._take(action["read_body"], "%d bytes" % action["read_body"])
            )
        elif "ok" in action:
            self.transport.write(ok_answer(action["ok"]))
        elif "drip" in action:
            await self._drip(encode(action["drip"]), action["every"] / 1000, action.get("chunk", 1))
        elif "hello_on" in action:
            if action["hello_on"] == "jobs":
                await self._hello()
        elif "swallow" in action:
            for _ in range(0, action["swallow"], action["chunk"]):
                await asyncio.sleep(action["every"] / 1000)
                await self._take(action["chunk"], "%d bytes" % action["chunk"])
        elif "answer" in action:
            await self._answer(action["answer"], action.get("after", 0) / 1000)
        elif "note" in action:
            self.parts.append(encode(action["note"]))
        elif "stall" in action:
            await asyncio.sleep(action["stall"] / 1000)
        else:
            self.transport.write(encode(action if "hex" in action else action["send"], self.opaque))

    async def _more(self):
        """Waits for more bytes, or the end. Raises Mismatch if the end has come."""
        if self.ended:
            raise Mismatch(
                "closed; the script waits for %s, there is %r"
                % (self.waits_for, decode(bytes(self.buffer)))
            )
        self.changed.clear()
        if self.closed:
            raise Mismatch("the script goes on after its close")
        self.transport.resume_reading()
        await self.changed.wait()

    async def _take(self, size, what):
        self.waits_for = what
        taken = bytearray()
        while True:
            piece = self.buffer[: size - len(taken)]
            del self.buffer[: len(piece)]
            taken += piece
            if len(taken) == size:
                self.waits_for = None
                return bytes(taken)
            await self._more()

    async def _read(self, wanted):
        if isinstance(wanted, int):
            got = await self._take(wanted, "%d bytes" % wanted)
        elif isinstance(wanted, dict):
            pattern = wanted["hex"].replace(" ", "")
            got = await self._take(len(pattern) // 2, wanted["hex"])
            self.opaque = got[8:12]
            if not re.fullmatch(pattern, got.hex()):
                raise Mismatch("wanted %s, read %s" % (pattern, got.hex()))
        elif wanted.startswith("~"):
            got = await self._line(wanted)
            if not re.fullmatch(wanted[1:].encode(), got, re.DOTALL):
                raise Mismatch("wanted %r, read %r" % (wanted, got))
        else:
            got = await self._text(wanted.encode())
        self.parts.append(got)

    async def _line(self, what):
        self.waits_for = repr(what)
        while b"\n" not in self.buffer:
            await self._more()
        return await self._take(self.buffer.index(b"\n") + 1, what)

    async def _text(self, wanted):
        """Reads exactly these bytes; complains at the first other one, so that nobody waits in vain."""
        self.waits_for = repr(decode(wanted))
        while len(self.buffer) < len(wanted) and wanted.startswith(self.buffer):
            await self._more()
        if not self.buffer.startswith(wanted):
            raise Mismatch("wanted %r, read %r" % (decode(wanted), decode(bytes(self.buffer))))
        return await self._take(len(wanted), self.waits_for)

    async def _drip(self, data, every, chunk):
        for i in range(0, len(data), chunk):
            if self.ended:
                return
            self.transport.write(data[i : i + chunk])
            await asyncio.sleep(every)

    async def _answer(self, answers, after):
        """Answers these texts as often as they come, until the client closes or sends another one."""
        while not self.ended or self.buffer:
            found = [text for text in answers if self.buffer.startswith(text.encode())]
            if found:
                text = max(found, key=len)
                self.parts.append(await self._take(len(text.encode()), text))
                await asyncio.sleep(after)
                self.transport.write(encode(answers[text]))
            elif any(text.encode().startswith(self.buffer) for text in answers):
                await self._more()
            else:
                return

    async def _go(self):
        """Waits until the story says so."""
        while not self.port.gone:
            await asyncio.sleep(0.01)
        self.port.gone -= 1

    async def _hello(self):
        await self._read("tube default\r\n")
        self.transport.write(ok_answer(DEFAULT_TUBE))

    async def _end(self):
        self.waits_for = "the client to close"
        while not self.ended:
            if self.buffer:
                raise Mismatch("wanted the end, read %r" % decode(bytes(self.buffer)))
            await self._more()
        self._close()

    async def _finish(self):
        self._close()

    async def _reset(self):
        self.closed = True
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.transport.abort()

    words = {"hello": _hello, "end": _end, "close": _finish, "reset": _reset, "go": _go}


class Port:
    """One listening port with its scripts. Used on the loop alone."""

    def __init__(self, kind, address, problems):
        self.kind = kind
        self.address = address
        self.problems = problems
        self.scripts = collections.deque()
        self.peers = []
        self.server = None
        self.stuck = []
        self.gone = 0  # how often the story has said `go`

    def next_script(self):
        script = self.scripts.popleft() if self.scripts else None
        asyncio.ensure_future(self.update())
        return script

    async def add(self, scripts):
        if self.scripts and isinstance(self.scripts[0], str):
            self.scripts.popleft()  # it held until now
        self.scripts.extend(scripts)
        await self.update()

    async def update(self):
        """Listens, or does not, as the next script says."""
        head = self.scripts[0] if self.scripts else None
        if not isinstance(head, str):
            await self.listen()
            return
        self.quit()
        if head == "stuck":
            # The queue of connections that nobody accepts is full: the kernel drops further ones.
            listener = socket.create_server(self.address, backlog=0)
            self.stuck.append(listener)
            for _ in range(4):
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(self.address)
                self.stuck.append(client)

    async def listen(self):
        if self.server:
            return
        self.quit()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)  # inherited
        listener.bind(self.address)
        self.server = await asyncio.get_running_loop().create_server(
            lambda: Peer(self), sock=listener, backlog=100
        )

    def quit(self):
        if self.server:
            self.server.close()
            self.server = None
        while self.stuck:
            self.stuck.pop().close()


class FakeServer:
    """
    Servers of all protocols on one address. Call it from any thread; all instances work on one
    thread of their own.
    """

    loop = None
    starting = threading.Lock()

    def __init__(self, host, ports={"text": 7531, "binary": 11215, "jobs": 11300}):
        with FakeServer.starting:
            if FakeServer.loop is None:
                FakeServer.loop = asyncio.new_event_loop()
                threading.Thread(target=FakeServer.loop.run_forever, daemon=True).start()
        self.found = []
        self.ports = {kind: Port(kind, (host, port), self.found) for kind, port in ports.items()}
        self.start()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, FakeServer.loop).result(DEADLINE)

    def script(self, scripts):
        """Says what is done with the next connections: a list of scripts for each port."""

        async def work():
            for kind, added in scripts.items():
                await self.ports[kind].add(added)

        self._call(work())

    def heard(self):
        """Returns what was read, by port and connection: a list of what each action read."""

        async def work():
            return {kind: [p.heard() for p in port.peers] for kind, port in self.ports.items()}

        return self._call(work())

    def connections(self, kind):
        """Returns the number of connections that neither side has closed."""

        async def work():
            return sum(not p.ended and not p.closed for p in self.ports[kind].peers)

        return self._call(work())

    def problems(self, wait=DEADLINE):
        """
        Returns what clients did that no script says, and what scripts still wait for. Waits for the
        latter for up to `wait` seconds. Ask before you end the clients.
        """

        async def work():
            found = list(self.found)
            waits = []
            for port in self.ports.values():
                left = [script for script in port.scripts if not isinstance(script, str)]
                if left:
                    waits.append("%s: %d scripts without a connection" % (port.kind, len(left)))
                for peer in port.peers:
                    if peer.waits_for:
                        waits.append(
                            "%s, connection %d: the script waits for %s, there is %r"
                            % (port.kind, peer.number, peer.waits_for, decode(bytes(peer.buffer)))
                        )
            return found, waits

        until = time.monotonic() + wait
        while True:
            found, waits = self._call(work())
            if found or not waits or time.monotonic() >= until:
                return found + waits
            time.sleep(0.01)

    def go(self):
        """Ends what each port's action `go` waits for."""

        async def work():
            for port in self.ports.values():
                port.gone += 1

        self._call(work())

    def start(self):
        """Listens, after a stop."""

        async def work():
            for port in self.ports.values():
                await port.update()

        self._call(work())

    def stop(self):
        """Closes all listeners and connections, as the end of a server does."""

        async def work():
            for port in self.ports.values():
                port.quit()
                for peer in port.peers:
                    peer.waits_for = None
                    peer._close()
                    if getattr(peer, "task", None):
                        peer.task.cancel()

        try:
            self._call(work())
        except concurrent.futures.TimeoutError:
            pass

    close = stop
