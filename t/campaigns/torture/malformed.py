"""Broken requests of both protocols over real sockets.

    malformed.py [--requests N] [--seed N] [--protocol text|binary]

The daemon that COUNTERD names (best built with sanitizers, as ./dev torture malformed does) gets
connections full of mostly broken requests, cut into pieces. It must answer each request once, in
order, or end the connection where the protocol says so. In the end nothing may be held or waited
for, also in pools, a correct client must be served, and the daemon must end in order without a
sanitizer's report.

The seed and the number of a connection determine its requests. The program reports in TAP. Its
defaults are short enough for a test.
"""

import argparse
import os
import random
import socket
import struct
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "system"))

import servers  # noqa: E402
import wire  # noqa: E402

DEADLINE = 60  # seconds for any one answer
SHORT = 10000  # requests a protocol, of the test
MAX_LINE = 8192
NAMES = [b"k", b"k", b"l", b"n" * 200, b"\xff\x00\x7f", b"%20"]


class Wrong(Exception):
    """An answer does not fit its request."""


class Link:
    """A connection that reads whole messages."""

    def __init__(self, address):
        self.sock = socket.create_connection(address, timeout=DEADLINE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = bytearray()
        self.at = 0

    def more(self):
        """Reads more bytes. Returns False when the connection has ended."""
        if self.at > 1 << 16:
            del self.got[: self.at]
            self.at = 0
        piece = self.sock.recv(1 << 16)
        self.got += piece
        return bool(piece)

    def take(self, count):
        while len(self.got) - self.at < count:
            if not self.more():
                raise Wrong("ended within an answer")
        self.at += count
        return bytes(self.got[self.at - count : self.at])

    def take_line(self):
        begin = self.at
        while True:
            end = self.got.find(b"\n", begin)
            if end >= 0:
                return self.take(end + 1 - self.at)[:-1]
            if not self.more():
                raise Wrong("ended within an answer")
            begin = self.at

    def expect_end(self):
        try:
            if len(self.got) > self.at or self.more():
                raise Wrong("an answer too many")
        except ConnectionResetError:
            pass

    def close(self, chance):
        """Ends the connection in one of several ways."""
        if chance.random() < 0.3:
            linger = struct.pack("ii", 1, 0)
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        elif chance.random() < 0.3:
            try:
                self.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        self.sock.close()


def mutated(chance, data, forbidden=b""):
    """Changes, drops or inserts some bytes; none becomes one of `forbidden`."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(data) + 1)
        byte = chance.randrange(256)
        how = chance.randrange(3)
        if byte in forbidden:
            byte = 0x20
        if how == 0 or at == len(data):
            data.insert(at, byte)
        elif how == 1:
            data[at] = byte
        else:
            del data[at]
    return bytes(data)


# ---- the text protocol -------------------------------------------------------------------------

WORDS = {
    b"LOCKED", b"QUEUE_FULL", b"TIMEOUT", b"LOCK_HELD", b"NOT_LOCKED", b"RELEASED",
    b"ERROR BAD_COMMAND", b"ERROR BAD_SYNTAX", b"ERROR WRONG_STAT",
    b"RETURNED", b"GONE", b"NOT_TAKEN", b"JOINED", b"OK", b"ERROR NO_POOL", b"ERROR WRONG_KIND",
    b"ERROR NO_MEMBER", b"ERROR EXISTS", b"ERROR TOO_MANY", b"ERROR POOL_FULL",
}  # fmt: skip
POOLS = ["pool.db.members=m1, m2, m3", "pool.db.clean_after=0.1", "pool.br.kind=joined", "pool.br.max=5",
         "pool.br.stop_timeout=0.1", "pools.max=8", "pools.max_members=20"]  # fmt: skip


def is_full(line):
    """True if the answer to the line is STATS FULL, which ends with an empty line."""
    return line[:5] == b"STATS" and line[5:6] in (b"", b" ") and (
        line[5:].strip(b" ").lower() in (b"", b"full")
    )


def is_list(line):
    """True if the answer to the line may be LIST or SHOW, which end with an empty line."""
    return line.split()[:2] in ([b"POOL", b"LIST"], [b"POOL", b"SHOW"])


def is_push(line):
    """True if the line comes between answers."""
    return line.split(b" ")[0] in (b"WANT", b"STOP", b"EVENT", b"LOST")


def pool_line(chance):
    """
    A line with a verb of pools. A TAKE may not wait, and has one member, so that each line has one
    answer.
    """
    pool = chance.choice((b"db", b"db", b"br", b"br", b"new", b"db,br", b"@g", b"*", b"x" * 255))
    member = chance.choice((b"m1", b"m2", b"j%d" % chance.randrange(9), b"n" * 255))
    line = chance.choice((
        b"TAKE " + pool, b"TAKE %s 0 for=check by=me" % pool, b"TAKE %s 0 member=%s" % (pool, member),
        b"TAKE db 0 for=clean", b"TAKE %s 0 with=k=v" % pool, b"TAKE",
        b"RETURN", b"RETURN fail", b"RETURN %d" % chance.choice((0, 1, 2**64 - 1, 2**64)), b"RETURN 1 ok",
        b"JOIN %s %s v k=v" % (pool, member), b"JOIN br " + member, b"SUPPLY br 0 3", b"SUPPLY br 0 0",
        b"SUPPLY %s 2 1" % pool, b"MEMBER ADD %s %s - a=b" % (pool, member), b"MEMBER DROP %s %s now" % (pool, member),
        b"MEMBER SET %s %s state=free note=n" % (pool, member), b"MEMBER SET db m1 state=dirty now",
        b"POOL ADD new max=3 order=fifo", b"POOL ADD new kind=joined", b"POOL SET %s max=4" % pool,
        b"POOL SET db clean_after=0.1", b"POOL SET db max=4294967296", b"POOL DROP new now", b"POOL DROP new",
        b"POOL SHOW " + pool, b"POOL LIST", b"POOL LIST d", b"WATCH " + pool, b"WATCH %s mine" % pool,
        b"MEMBER", b"POOL", b"POOL SHOW", b"WATCH", b"JOIN",
    ))  # fmt: skip
    if chance.random() < 0.5:
        line = mutated(chance, line, b"\n")
    if line[:5] == b"TAKE ":
        words = line.split(b" ")
        line = b" ".join(words[:2] + [b"0"] * (len(words) > 2) + [w for w in words[3:] if w[:6] != b"count="])
    if line[:9] == b"POOL DROP" and not line[9:].startswith(b" new"):
        line = b"POOL DROP new"  # the others are there to the end
    return line.rstrip(b"\r")


def text_line(chance):
    """A line without its end. Drops the timeout from lines that could wait."""
    if chance.random() < 0.4:
        return pool_line(chance)
    name = chance.choice((b"k", b"l", b"n" * 200, b"%20", b"\xff\x7f"))
    line = chance.choice((
        b"ACQ4ME %s 1 2" % name, b"ACQ4ANY %s 2 3 0" % name, b"RELEASE %s" % name, b"RELEASE",
        b"STATS uptime", b"STATS FULL", b"STATS " + name,
        b"ACQ4ME %s 99999999999999999999 2" % name, b"ACQ4ME %s -1 +2 x" % name, b"", b"ACQ4ME",
        b"ACQ4ANY %s" % name, b"RELEASED", b" ACQ4ME k 1 1", b"\x90\x01", b"acq4me k 1 1",
    ))  # fmt: skip
    if chance.random() < 0.6:
        line = mutated(chance, line, b"\n")
    if line[:6] in (b"ACQ4ME", b"ACQ4AN"):
        line = b" ".join(line.split(b" ")[:4])
    return line.rstrip(b"\r")


def text_batch(chance, count):
    """The bytes to send, and the kind of each expected answer: "line", "full", "list", "end", "quit"."""
    sent, kinds = [], []
    for _ in range(count):
        line = text_line(chance)
        sent.append(line + chance.choice((b"\n", b"\r\n")))
        kinds.append("full" if is_full(line) else "list" if is_list(line) else "line")
    if chance.random() < 0.2:
        sent.append(b"x" * (MAX_LINE + 1 + chance.randrange(100)) + b"\n" + b"RELEASE\n" * 3)
        kinds.append("end")
    elif chance.random() < 0.1:
        sent.append(b"QUIT\n" + b"RELEASE\n" * 3)
        kinds.append("quit")
    return b"".join(sent), kinds


def text_answer(link, kind):
    line = link.take_line()
    while is_push(line):
        line = link.take_line()
    if kind == "list":
        while line and line[:6] != b"ERROR ":
            if not line.startswith((b"POOL ", b"MEMBER ", b"WAITER ")):
                raise Wrong("%r is no line of a list" % line)
            line = link.take_line()
        return
    if kind == "end":
        if line != b"ERROR LINE_TOO_LONG":
            raise Wrong("%r to a line that is too long" % line)
        link.expect_end()
        return
    if kind == "quit":
        if line != b"BYE":
            raise Wrong("%r to QUIT" % line)
        link.expect_end()
        return
    if line not in WORDS and not line.startswith((b"TAKEN ", b"ERROR BAD_VALUE ")) and b": " not in line:
        raise Wrong("%r is no answer" % line)
    while kind == "full" and line:
        line = link.take_line()


# ---- the binary protocol -----------------------------------------------------------------------

OPCODES = (0, 1, 1, 2, 2, 2, 3, 3, 0x10, 0x11)


def binary_request(chance):
    """An opcode and a body; the length in the header is always right."""
    opcode = chance.choice(OPCODES)
    name = chance.choice(NAMES)
    units = chance.choice((0, 1, 2, 0xFFFFFFFF))
    body = b""
    if opcode == 1:
        body = struct.pack(">H", len(name)) + name
    elif opcode == 2:
        body = struct.pack(">IIH", units, chance.choice((0, 1, 3, 0xFFFFFFFF)), len(name)) + name
    elif opcode == 3:
        body = struct.pack(">IH", units, len(name)) + name
    if chance.random() < 0.6:
        body = mutated(chance, body)
    if chance.random() < 0.2:
        opcode = chance.randrange(256)
    return opcode, body


def binary_batch(chance, count):
    sent, kinds = [], []
    for i in range(count):
        opcode, body = binary_request(chance)
        if opcode in (0x10, 0x11) and chance.random() < 0.8:
            opcode = 0x12  # their answers are long
        opaque = struct.pack(">I", i)
        flags, reserved = chance.randrange(256), chance.randrange(256)
        header = struct.pack(">BBBBI", 0x90, opcode, flags, reserved, len(body))
        sent.append(header + opaque + body)
        kinds.append((opcode, opaque))
    how = chance.random()
    if how < 0.1:
        sent.append(struct.pack(">BBBBI4s", 0x90, 1, 0, 0, 65546 + chance.randrange(1 << 31), b"long"))
        kinds.append((1, b"long"))
    elif how < 0.2:
        sent.append(bytes([chance.choice((0, 0x91, 0x0A, 0xFF))]) + b"\x01no request at all")
        kinds.append(None)
    return b"".join(sent), kinds, how < 0.2


def binary_answer(link, kind):
    while True:
        header = link.take(12)
        magic, opcode, status, reserved, length = struct.unpack(">BBBBI", header[:8])
        if magic != 0x91 or reserved != 0 or length > 1 << 20:
            raise Wrong("%s is no answer" % header.hex())
        if kind is None:
            if status != 4:
                raise Wrong("status %d to no request" % status)
        elif (opcode, header[8:]) != kind:
            raise Wrong("%s answers another request than %r" % (header.hex(), kind))
        body = link.take(length)
        if opcode != 0x11 or status != 0 or not body:
            return


# ---- connections -------------------------------------------------------------------------------


def send(link, chance, data):
    """Sends all, sometimes in pieces."""
    if chance.random() < 0.5:
        link.sock.sendall(data)
        return
    at = 0
    while at < len(data):
        size = chance.choice((1, 7, 50, 1000, 5000))
        link.sock.sendall(data[at : at + size])
        at += size


def one_connection(address, protocol, chance):
    """One connection full of requests. Returns the number of answers."""
    link = Link(address)
    count = chance.randrange(1, 200)
    if protocol == "text":
        data, kinds = text_batch(chance, count)
        ends = kinds[-1] in ("end", "quit")
    else:
        data, kinds, ends = binary_batch(chance, count)
    if chance.random() < 0.05:  # does not read its answers
        link.sock.sendall(data[: chance.randrange(len(data))])
        link.close(chance)
        return 0
    try:
        send(link, chance, data)
    except (BrokenPipeError, ConnectionResetError):
        if not ends:
            raise
    for kind in kinds:
        if protocol == "text":
            text_answer(link, kind)
        else:
            binary_answer(link, kind)
    if ends and protocol == "binary":
        link.expect_end()
    link.close(chance)
    return len(kinds)


def run_protocol(daemon, protocol, requests, seed):
    """Sends at least `requests` requests. Returns the error, or None."""
    address = daemon.text if protocol == "text" else daemon.binary
    done = number = 0
    while done < requests:
        chance = random.Random("%d %s %d" % (seed, protocol, number))
        try:
            done += one_connection(address, protocol, chance)
        except (Wrong, OSError) as error:
            return "connection %d: %s" % (number, error)
        number += 1
    print("# %s: %d requests answered on %d connections" % (protocol, done, number), flush=True)
    return None


def check_end(daemon):
    """Checks that nothing is left over, and that the daemon ends in order."""
    until = time.monotonic() + DEADLINE
    with daemon.binary_client() as client:
        while True:
            stats = dict(client.stats())
            left = {key: int(stats[key]) for key in ("held_units", "waiters", "pool_held", "pool_waiting")}
            if not any(left.values()) and int(stats["curr_connections"]) == 1:
                break
            if time.monotonic() > until:
                raise AssertionError("left behind: %s" % stats)
            time.sleep(0.05)
    with daemon.text_client() as client:
        wire.poll(lambda: show(client, b"br")[0] == 0, "no joined member is left")
        _, members = show(client, b"db")
        for member in members:
            answers = [client.ask("MEMBER SET db %s state=free" % member)]
            answers.append(client.ask("TAKE db 0 member=" + member))
            if answers[0] != "OK" or not answers[1].startswith("TAKEN"):
                raise AssertionError("%r cannot be taken: %s" % (member, answers))
    daemon.stop()


def show(client, pool):
    """The number of a pool's members, and their names."""
    client.say("POOL SHOW " + pool.decode())
    lines = [line.split(" ") for line in iter(client.line, "")]  # a name may hold other white space
    counts = dict(word.split("=", 1) for word in lines[0][4:])
    return int(counts["members"]), [line[1] for line in lines if line[0] == "MEMBER"]


def main():
    parser = argparse.ArgumentParser(description="broken requests over sockets")
    parser.add_argument("--requests", type=int, default=SHORT,
                        help="a protocol (%(default)s; ./dev torture malformed: 1000000)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--protocol", choices=("text", "binary"))
    options = parser.parse_args()
    if not servers.have_counterd():
        print("1..0 # SKIP there is no daemon to test: COUNTERD names none")
        return 0
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print("# --seed %d" % seed, flush=True)
    daemon = servers.Counterd(*POOLS)
    count = failed = 0
    try:
        for protocol in ("text", "binary"):
            if options.protocol in (None, protocol):
                count += 1
                wrong = run_protocol(daemon, protocol, options.requests, seed)
                failed += bool(wrong)
                word = "not ok" if wrong else "ok"
                print("%s %d - malformed: %s: each is answered" % (word, count, protocol))
                if wrong:
                    print("# %s\n# %s" % (wrong, daemon.log[-3000:].replace("\n", "\n# ")))
        count += 1
        try:
            check_end(daemon)
            print("ok %d - malformed: all is free, and the daemon ends well" % count)
        except Exception as error:  # report any error
            failed += 1
            print("not ok %d - malformed: all is free, and the daemon ends well" % count)
            print("# %s" % str(error).replace("\n", "\n# "))
    finally:
        daemon.kill()
    print("1..%d" % count)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
