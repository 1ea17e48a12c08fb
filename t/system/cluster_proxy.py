"""Proxies between nodes, engines and Sentinels, that lose, delay and hold back what passes.

A proxy listens on a port of its own and connects each client to its target. It cuts the stream into
whole commands and replies, so it knows which connection has the commands and which the messages, and
can lose one reply of many. What a stalled connection carries is kept and passed on later, also when its
client has gone meanwhile: as in a network that comes back. All proxies of a `Network` run in one thread;
functions may be called from any other thread and have taken effect when they return.
"""

import asyncio
import collections
import hashlib
import re
import socket
import struct
import threading

import servers

HOST = "127.0.0.1"
CHUNK = 1 << 16
COMMANDS, MESSAGES = "commands", "messages"


class Splitter:
    """Cuts a stream of RESP2 into whole values."""

    def __init__(self):
        self.buffer = bytearray()
        self.at = 0  # the end of what is understood
        self.missing = 1  # values that the current one still needs

    def feed(self, data):
        """Takes more bytes. Returns the values that are whole now, as bytes."""
        self.buffer += data
        found = []
        while True:
            end = self.buffer.find(b"\r\n", self.at)
            if end < 0:
                return found
            kind, after = self.buffer[self.at : self.at + 1], end + 2
            if kind == b"$":
                length = int(self.buffer[self.at + 1 : end])
                after += length + 2 if length >= 0 else 0
                if len(self.buffer) < after:
                    return found
                self.missing -= 1
            elif kind == b"*":
                self.missing += max(int(self.buffer[self.at + 1 : end]), 0) - 1
            elif kind in (b"+", b"-", b":"):
                self.missing -= 1
            else:
                raise ValueError("not RESP2: %r" % bytes(self.buffer[:100]))
            self.at = after
            if self.missing == 0:
                found.append(bytes(self.buffer[: self.at]))
                del self.buffer[: self.at]
                self.at, self.missing = 0, 1


def words_of(value):
    """The strings of a command."""
    words, at = [], value.index(b"\r\n") + 2
    while at < len(value):
        end = value.index(b"\r\n", at)
        length = int(value[at + 1 : end])
        words.append(value[end + 2 : end + 2 + length])
        at = end + 4 + length
    return words


class Scripts:
    """Names of the scripts that nodes load, by their SHA-1. A script's first comment begins with its name."""

    def __init__(self):
        self.names = {}

    def learn(self, words):
        """Looks at a command; remembers a script that it loads."""
        if len(words) == 3 and words[0].upper() == b"SCRIPT" and words[1].upper() == b"LOAD":
            found = re.search(rb"^-- (\w+):", words[2], re.M)
            name = found.group(1).decode() if found else "?"
            self.names[hashlib.sha1(words[2]).hexdigest()] = name

    def name(self, words):
        """The name of the script that a command calls; None for another command."""
        if len(words) < 2 or words[0].upper() != b"EVALSHA":
            return None
        return self.names.get(words[1].decode("latin-1").lower(), "?")


class Fault:
    """
    What is wrong between some sources and a target. `way`: "up" to the target, "down" from it, or "both";
    `kind`, `source`: only for such connections (None: all); `pipes`: only for these.
    """

    def __init__(self, way, kind, source, pipes=None):
        self.way, self.kind, self.source, self.pipes = way, kind, source, pipes

    def applies(self, pipe, way):
        return (
            self.way in (way, "both")
            and self.kind in (None, pipe.kind)
            and self.source in (None, pipe.source)
            and (self.pipes is None or pipe in self.pipes)
        )


class Swallow(Fault):
    """
    Loses `left` replies to commands for which `matching(words, script)` is true; of messages, if
    `kind` says so. A connection that has lost one is cut, or stays silent for ever.
    """

    def __init__(self, left, then, kind, source, matching):
        super().__init__("down", kind, source)
        self.left, self.then, self.matching = left, then, matching

    def takes(self, pipe, words):
        if self.left == 0 or not self.applies(pipe, "down"):
            return False
        if words is None:  # a message
            return self.kind == MESSAGES and self.matching is None
        return self.matching is None or self.matching(words, pipe.proxy.scripts.name(words))


class Pipe:
    """One connection through a proxy. `kind` is None until a command shows what it is for."""

    def __init__(self, proxy, reader, writer, source):
        self.proxy, self.source, self.kind = proxy, source, None
        self.reader, self.writer = reader, writer
        self.engine_reader = self.engine_writer = None
        self.asked = collections.deque()  # commands that were sent and not answered
        self.queues = {"up": collections.deque(), "down": collections.deque()}
        self.is_silent = self.is_over = False
        self.passed = {"up": 0, "down": 0}
        self.tasks = []

    async def run(self):
        self.tasks.append(asyncio.ensure_future(self._read("up", self.reader)))
        try:
            await self._await_open("up")
            if self.is_over:
                return
            self.engine_reader, self.engine_writer = await self.proxy.connect()
            self.tasks.append(asyncio.ensure_future(self._read("down", self.engine_reader)))
            self.tasks.append(asyncio.ensure_future(self._write("up")))
            self.tasks.append(asyncio.ensure_future(self._write("down")))
            await asyncio.wait(self.tasks[2:], return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            self.cut()
        finally:
            self.end()

    def end(self):
        """Closes both sides in order."""
        self.is_over = True
        self.proxy.pipes.discard(self)
        for task in self.tasks:
            task.cancel()
        for writer in (self.writer, self.engine_writer):
            if writer is not None:
                writer.close()

    def cut(self):
        """Resets both sides."""
        for writer in (self.writer, self.engine_writer):
            sock = writer.get_extra_info("socket") if writer is not None else None
            if sock is not None and not writer.transport.is_closing():
                if sock.family != socket.AF_UNIX:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
        self.end()

    async def _read(self, way, reader):
        """Takes what arrives from one side, whatever the other side does."""
        split = (lambda data: [data] if data else []) if self.proxy.is_raw else Splitter().feed
        while True:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                data = b""
            for value in split(data):
                words = None
                if way == "up" and not self.proxy.is_raw:
                    words = words_of(value)
                    self._look(words)
                self.queues[way].append((asyncio.get_running_loop().time(), value, words))
            if not data:
                self.queues[way].append((asyncio.get_running_loop().time(), None, None))
            self.proxy.news.set()
            if not data:
                return

    def _look(self, words):
        """What a command says about the connection."""
        self.proxy.scripts.learn(words)
        verb = words[0].upper() if words else b""
        if verb in (b"SUBSCRIBE", b"PSUBSCRIBE"):
            self.kind = MESSAGES
        elif verb in (b"EVALSHA", b"SCRIPT") and self.kind is None:
            self.kind = COMMANDS

    async def _await_open(self, way):
        while self.proxy.is_stalled(self, way) and not self.is_over:
            await self.proxy.changed()

    async def _write(self, way):
        """Passes on what was taken, while the way is open. Returns behind the end."""
        queue, writer = self.queues[way], self.engine_writer if way == "up" else self.writer
        loop = asyncio.get_running_loop()
        while True:
            while not queue or self.proxy.is_stalled(self, way):
                await self.proxy.changed()
            at, value, words = queue[0]
            late = self.proxy.delays[way] - (loop.time() - at)
            if late > 0:
                await asyncio.sleep(late)
                continue
            queue.popleft()
            if value is None:
                return
            if way == "up":
                self.asked.append(words)
            elif not self.proxy.is_raw and self._loses(value):
                continue
            self.passed[way] += 1
            writer.write(self.proxy.translated(value) if way == "down" else value)
            try:
                await writer.drain()
            except OSError:
                if way == "up":
                    return

    def _loses(self, value):
        """True if the reply or message is lost."""
        is_message = value.startswith(b"*3\r\n$7\r\nmessage\r\n")
        words = None if is_message or not self.asked else self.asked.popleft()
        if self.is_silent:
            return True
        for rule in self.proxy.swallows:
            if rule.takes(self, words):
                rule.left -= 1
                self.proxy.swallowed += 1
                self.is_silent = True
                if rule.then == "cut":
                    asyncio.get_running_loop().call_soon(self.cut)
                return True
        return False


class Proxy:
    """
    Stands before a target: (host, port) or the path of a socket. `source` is the name of all its clients,
    or a dictionary of names by their address. `is_raw`: what passes is no plain RESP, as in a replication;
    connections have no kind then, and no single reply can be lost.
    """

    def __init__(self, network, target, source=None, port=None, is_raw=False):
        self.network, self.target, self.source = network, target, source
        self.is_raw = is_raw
        self.port = port or servers.free_port()
        self.pipes = set()
        self.stalls, self.swallows = [], []
        self.swallowed = 0  # replies that were lost so far
        self.delays = {"up": 0.0, "down": 0.0}
        self.words = {}  # replaced in what the target says: see `translate`
        self.scripts = network.scripts
        self.accepted = 0
        self.server = None
        self.news = asyncio.Event()
        self.listen()

    @property
    def address(self):
        return (HOST, self.port)

    # What runs in the network's thread.

    async def _serve(self, reader, writer):
        peer = writer.get_extra_info("peername")[0]
        source = self.source.get(peer, peer) if isinstance(self.source, dict) else self.source
        pipe = Pipe(self, reader, writer, source)
        self.pipes.add(pipe)
        self.accepted += 1
        await pipe.run()

    async def connect(self):
        if isinstance(self.target, str):
            return await asyncio.open_unix_connection(self.target)
        return await asyncio.open_connection(*self.target)

    async def changed(self):
        """Waits until something arrives or a fault begins or ends."""
        event = self.news
        if event.is_set():
            event = self.news = asyncio.Event()
        await event.wait()

    def is_stalled(self, pipe, way):
        return any(fault.applies(pipe, way) for fault in self.stalls)

    def translated(self, value):
        for word, instead in self.words.items():
            if word in value:
                value = value.replace(word, instead)
        return value

    async def _listen(self):
        self.server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _refuse(self):
        if self.server is not None:
            self.server.close()
            self.server = None

    def _cut(self, kind, source):
        fault = Fault("both", kind, source)
        chosen = [pipe for pipe in self.pipes if fault.applies(pipe, "up")]
        for pipe in chosen:
            pipe.cut()
        return len(chosen)

    # Faults.

    def cut(self, kind=None, source=None):
        """Resets the connections that are open now. Returns how many."""
        return self.network.do(self._cut, kind, source)

    def refuse(self):
        """Resets all connections and refuses new ones, until `listen`."""
        self.network.run(self._refuse())
        return self.cut()

    def listen(self):
        if self.server is None:
            self.network.run(self._listen())

    def stall(self, way="both", kind=None, source=None, old_only=False):
        """
        Holds back what arrives until `heal`, also on connections to come unless `old_only`.
        """
        self.network.do(self._stall, way, kind, source, old_only)

    def _stall(self, way, kind, source, old_only):
        self.stalls.append(Fault(way, kind, source, set(self.pipes) if old_only else None))
        self.news.set()

    def swallow(self, count=1, then="cut", kind=None, source=None, matching=None):
        """
        Loses the next `count` replies: to commands for which `matching(words, script)` is true
        (None: all), or messages too if `kind` is MESSAGES. Each is the last that its connection says:
        it is cut, or `then` is "silent". Returns the rule; `rule.left` counts down.
        """
        rule = Swallow(count, then, kind, source, matching)
        self.network.do(self.swallows.append, rule)
        return rule

    def delay(self, up=0.0, down=0.0):
        """Everything arrives so many seconds later."""
        self.network.do(self.delays.update, {"up": up, "down": down})

    def translate(self, words):
        """Replaces words in what the target says; both have the same length."""
        assert all(len(word) == len(instead) for word, instead in words.items())
        self.network.do(self.words.update, words)

    def heal(self):
        """Ends all faults. Connections that are open stay open."""
        self.listen()
        self.network.do(self._heal)

    def _heal(self):
        self.stalls, self.swallows = [], []
        self.delays.update(up=0.0, down=0.0)
        self.news.set()

    def kinds(self):
        """The kinds of the open connections, sorted."""
        return sorted(str(pipe.kind) for pipe in self.network.do(lambda: list(self.pipes)))


class Network:
    """The thread of some proxies."""

    def __init__(self):
        self.scripts = Scripts()
        self.proxies = []
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def run(self, coroutine):
        """Runs a coroutine in the thread. Returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(servers.wire.DEADLINE * 3)

    def do(self, function, *arguments):
        async def call():
            return function(*arguments)

        return self.run(call())

    def proxy(self, target, source=None, port=None, is_raw=False):
        proxy = Proxy(self, target, source, port, is_raw)
        self.proxies.append(proxy)
        return proxy

    def heal(self):
        for proxy in self.proxies:
            proxy.heal()

    def close(self):
        for proxy in self.proxies:
            proxy.refuse()
        self.run(asyncio.sleep(0))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(servers.wire.DEADLINE)
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
