"""
Makes calls of one client library, and measures them: `calls.py SUBJECT TEXT_PORT JOBS_PORT REDIS_PORT [CA]`.
With CA, which vouches for the server, the ports speak TLS. Reads `CALL COUNT TUBE` lines, makes so many calls, and prints seconds and processor time as JSON.
SUBJECT: sync, aio (the library), bare, bare-aio (sockets with the same bytes), redis, redis-aio (a
semaphore in Lua).
"""

import asyncio
import json
import resource
import socket
import sys
import time

BODY = b"x" * 100
PUT = b"put-into %s 1024 0 60 100\r\n" + BODY + b"\r\n"
LIMIT = 1
ACQUIRE = """local n = tonumber(redis.call('get', KEYS[1]) or '0')
if n < tonumber(ARGV[1]) then redis.call('incr', KEYS[1]) return 1 end return 0"""
RELEASE = "return redis.call('decr', KEYS[1])"
HOST = "127.0.0.1"


def url(text, jobs):
    secure = "&tls=1&tls_ca=" + sys.argv[5] if len(sys.argv) > 5 else ""
    return "counter://%s:%d?jobs=%d%s" % (HOST, text, jobs, secure)


def require(is_so):
    if not is_so:
        raise AssertionError("a wrong answer")


def measured(run):
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    run()
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    print(json.dumps({"seconds": seconds, "cpu": user + system}), flush=True)


class Sync:
    def __init__(self, text, jobs, _):
        import counterd

        self.client = counterd.Client(url(text, jobs))

    def lock(self, count, _):
        client = self.client
        for _ in range(count):
            with client.lock("bench"):
                pass

    def put(self, count, tube):
        client = self.client
        for _ in range(count):
            client.put(tube, BODY)

    def claim(self, count, tube):
        client = self.client
        for _ in range(count):
            (job,) = client.claim([tube], timeout=0)
            job.ack()


class Bare:
    def __init__(self, text, jobs, _):
        self.text, self.jobs = (self.connect(port) for port in (text, jobs))

    @staticmethod
    def connect(port):
        sock = socket.create_connection((HOST, port), 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def lock(self, count, _):
        sock = self.text
        for _ in range(count):
            sock.sendall(b"ACQ4ME bench 1 101 10.000\n")
            require(sock.recv(16384) == b"LOCKED\n")
            sock.sendall(b"RELEASE bench\n")
            require(sock.recv(16384) == b"RELEASED\n")

    def put(self, count, tube):
        sock, data = self.jobs, PUT % tube.encode()
        for _ in range(count):
            sock.sendall(data)
            require(sock.recv(16384).startswith(b"INSERTED "))

    def claim(self, count, tube):
        sock, data = self.jobs, b"claim 1 0 %s\r\n" % tube.encode()
        for _ in range(count):
            sock.sendall(data)
            words = sock.recv(16384).split(None, 6)
            require(words[0] == b"CLAIMED")
            sock.sendall(b"ack %s %s\r\n" % (words[3], words[5]))
            require(sock.recv(16384) == b"DELETED\r\n")


class Redis:
    def __init__(self, text, jobs, port):
        import redis

        client = redis.Redis(HOST, port)
        self.acquire, self.release = client.register_script(ACQUIRE), client.register_script(RELEASE)

    def lock(self, count, _):
        for _ in range(count):
            require(self.acquire(["bench"], [LIMIT]) == 1)
            self.release(["bench"])


class Loop:
    """Subjects of asyncio: their calls run in one loop, which stays."""

    def __init__(self, *ports):
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.begin(*ports))

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name not in ("lock", "put", "claim"):
            return value
        return lambda count, tube: self.loop.run_until_complete(value(count, tube))


class Aio(Loop):
    async def begin(self, text, jobs, _):
        from counterd import aio

        self.client = aio.Client(url(text, jobs))

    async def lock(self, count, _):
        client = self.client
        for _ in range(count):
            async with client.lock("bench"):
                pass

    async def put(self, count, tube):
        client = self.client
        for _ in range(count):
            await client.put(tube, BODY)

    async def claim(self, count, tube):
        client = self.client
        for _ in range(count):
            (job,) = await client.claim([tube], timeout=0)
            await job.ack()


class BareAio(Loop):
    async def begin(self, text, jobs, _):
        self.text = await asyncio.open_connection(HOST, text)
        self.jobs = await asyncio.open_connection(HOST, jobs)

    async def ask(self, pair, data, end=b"\r\n"):
        pair[1].write(data)
        await pair[1].drain()
        return await asyncio.wait_for(pair[0].readuntil(end), 10)

    async def lock(self, count, _):
        for _ in range(count):
            require(await self.ask(self.text, b"ACQ4ME bench 1 101 10.000\n", b"\n") == b"LOCKED\n")
            require(await self.ask(self.text, b"RELEASE bench\n", b"\n") == b"RELEASED\n")

    async def put(self, count, tube):
        data = PUT % tube.encode()
        for _ in range(count):
            require((await self.ask(self.jobs, data)).startswith(b"INSERTED "))

    async def claim(self, count, tube):
        data = b"claim 1 0 %s\r\n" % tube.encode()
        for _ in range(count):
            require(await self.ask(self.jobs, data) == b"CLAIMED 1\r\n")
            words = (await self.jobs[0].readuntil(b"\r\n")).split()
            await self.jobs[0].readexactly(int(words[2]) + 2)
            require(await self.ask(self.jobs, b"ack %s %s\r\n" % (words[1], words[3])) == b"DELETED\r\n")


class RedisAio(Loop):
    async def begin(self, text, jobs, port):
        import redis.asyncio

        client = redis.asyncio.Redis(host=HOST, port=port)
        self.acquire, self.release = client.register_script(ACQUIRE), client.register_script(RELEASE)

    async def lock(self, count, _):
        for _ in range(count):
            require(await self.acquire(["bench-aio"], [LIMIT]) == 1)
            await self.release(["bench-aio"])


SUBJECTS = {"sync": Sync, "aio": Aio, "bare": Bare, "bare-aio": BareAio, "redis": Redis, "redis-aio": RedisAio}


def main():
    subject = SUBJECTS[sys.argv[1]](*map(int, sys.argv[2:5]))
    print("{}", flush=True)
    for line in sys.stdin:
        call, count, tube = line.split()
        run = getattr(subject, call)
        measured(lambda: run(int(count), tube))


if __name__ == "__main__":
    main()
