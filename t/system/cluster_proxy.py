"""Proxies between nodes, engines and Sentinels, that lose, delay and hold back what passes.

A proxy listens on a port of its own and connects each client to its target. It knows which connection is
that of the messages, because that subscribes. What a stalled connection carries is kept and passed on later, also when its
client has gone meanwhile: as in a network that comes back. All proxies of a `Network` run in one thread;
functions may be called from any other thread and have taken effect when they return.
"""

import asyncio
import collections
import socket
import struct
import threading

import servers

HOST = "127.0.0.1"
CHUNK = 1 << 16
COMMANDS, MESSAGES = "commands", "messages"


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


class Pipe:
    """One connection through a proxy. `kind` is None until a command shows what it is for."""

    def __init__(self, proxy, reader, writer, source):
        self.proxy, self.source, self.kind = proxy, source, None
        self.reader, self.writer = reader, writer
        self.engine_reader = self.engine_writer = None
        self.queues = {"up": collections.deque(), "down": collections.deque()}
        self.is_over = False
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
        while True:
            try:
                data = await reader.read(CHUNK)
            except OSError:
                data = b""
            if way == "up" and self.kind != MESSAGES:
                self.kind = MESSAGES if b"SUBSCRIBE" in data else COMMANDS
            self.queues[way].append((asyncio.get_running_loop().time(), data))
            self.proxy.news.set()
            if not data:
                return

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
            at, value = queue[0]
            late = self.proxy.delays[way] - (loop.time() - at)
            if late > 0:
                await asyncio.sleep(late)
                continue
            queue.popleft()
            if not value:
                return
            writer.write(self.proxy.translated(value) if way == "down" else value)
            try:
                await writer.drain()
            except OSError:
                if way == "up":
                    return


class Proxy:
    """
    Stands before a target: (host, port) or the path of a socket. `source` is the name of all its clients,
    or a dictionary of names by their address.
    """

    def __init__(self, network, target, source=None, port=None):
        self.network, self.target, self.source = network, target, source
        self.port = port or servers.free_port()
        self.pipes = set()
        self.stalls = []
        self.delays = {"up": 0.0, "down": 0.0}
        self.words = {}  # replaced in what the target says: see `translate`
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
        self.stalls = []
        self.delays.update(up=0.0, down=0.0)
        self.news.set()


class Network:
    """The thread of some proxies."""

    def __init__(self):
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

    def proxy(self, target, source=None, port=None):
        proxy = Proxy(self, target, source, port)
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
