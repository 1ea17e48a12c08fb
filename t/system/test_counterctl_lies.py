"""
counterctl and servers that lie: silent ones, lengths and lists without end, pages that do not advance,
answers that were not asked for. Each command ends in its time, with a message and little memory.
"""

import concurrent.futures
import contextlib
import resource
import socket
import threading

import pytest
import tap

import ctl
import wire

pytestmark = pytest.mark.skipif(not ctl.have_counterctl(), reason="COUNTERCTL names no program")

NO, UNAVAILABLE, PROTOCOL = 1, 69, 76

COUNTERD = b"OK 2\r\n{}\r\n"  # the answer to `tube default`, which a beanstalkd does not know

MEMORY = 600 << 20  # what counterctl may use


class Liar:
    """A server; `talk` gets each connection, and a file of what comes from it."""

    def __init__(self, talk):
        self.talk = talk
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open = [self.listener]
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                sock = self.listener.accept()[0]
                self.open.append(sock)
                threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _talk(self, sock):
        with contextlib.suppress(OSError):
            self.talk(sock, sock.makefile("rb"))

    def stop(self):
        for sock in self.open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()


@pytest.fixture
def serve():
    liars = []

    def begin(talk):
        liars.append(Liar(talk))
        return liars[-1].address

    yield begin
    for liar in liars:
        liar.stop()


def bounded():
    if not wire.SLOW:  # sanitizers reserve terabytes
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def run(address, *words, stdin=b"", seconds="0.2"):
    """Runs counterctl with little time and memory."""
    env = {"COUNTER_SERVER": address, "COUNTER_ADMIN": address}
    words = ("--io-timeout", seconds, *words) if seconds else words
    return ctl.run(*words, stdin=stdin, env=env, preexec=bounded)


# --- silence ----------------------------------------------------------------------------------------

SILENT = [
    ("get", "n"),
    ("release", "n", "1"),
    ("acquire", "n", "1", "1", "--", "true"),
    ("dump",),
    ("dump", "--sort", "peak", "--limit", "3"),
    ("stats",),
    ("stats", "--text"),
    ("noop",),
    ("batch",),
    ("run", "-t", "0", "k", "--", "true"),
    ("run", "-t", "0", "--pool", "p", "--", "true"),
    ("pool", "list"),
    ("pool", "show", "p"),
    ("pool", "add", "p"),
    ("pool", "set", "p", "max=1"),
    ("pool", "drop", "p"),
    ("pool", "watch", "p"),
    ("pool", "member", "drop", "p", "m"),
    ("clean", "--once", "p", "--", "true"),
    ("put", "t"),
    ("work", "--once", "t", "--", "true"),
    ("contended",),
    ("holders", "n"),
    ("cluster",),
    ("cluster", "check"),
    ("cluster", "n"),
    ("connections",),
    ("kill", "0.1.1"),
    ("config",),
    ("reload",),
    ("upgrade",),
    ("loglevel",),
    ("top", "--once"),
]

JOBS = [
    ("tubes",),
    ("list", "t"),
    ("peek", "1"),
    ("kick", "t", "1"),
    ("clear", "t", "all"),
    ("export", "t"),
    ("import",),
]

ADMIN_JOBS = [("backup", "b"), ("drain",), ("drain", "--off")]

LINE = b'{"tube":"t","body":"x"}\n'


def test_a_silent_server_is_not_waited_for(serve):
    silent = serve(lambda sock, lines: lines.read())

    def wait(words):
        return words, run(silent, *words, stdin=b"noop\n" if words[0] == "batch" else LINE, seconds="0.05")

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for words, done in pool.map(wait, SILENT + [("jobs", *words) for words in JOBS + ADMIN_JOBS]):
            assert done.status == UNAVAILABLE and "no answer in time" in done.err, (words, done)


def test_a_server_that_falls_silent_is_not_waited_for(serve):
    def talk(sock, lines):
        lines.readline()
        sock.sendall(COUNTERD)
        lines.read()

    for words in JOBS:
        done = run(serve(talk), "jobs", *words, stdin=LINE, seconds="0.05")
        assert done.status == UNAVAILABLE and "no answer in time" in done.err, (words, done)
    for words in (("put", "t"), ("work", "--once", "t", "--", "true")):
        done = run(serve(talk), *words, stdin=LINE, seconds="0.05")
        assert done.status == UNAVAILABLE and "no answer in time" in done.err, (words, done)


def test_a_tls_server_that_does_not_shake_hands_is_not_waited_for(serve):
    silent = serve(lambda sock, lines: lines.read())
    for words in (("noop",), ("run", "k", "--", "true"), ("pool", "list"), ("jobs",)):
        done = ctl.run("-s", silent, "--tls", "--connect-timeout", "3", *words)
        assert done.status == UNAVAILABLE and "handshake took too long" in done.err, (words, done)


# --- job queues -------------------------------------------------------------------------------------


def jobs_server(serve, *answers):
    """A counterd to `tube default`; then it gives the answers, one to each line, the last for ever."""

    def talk(sock, lines):
        lines.readline()
        sock.sendall(COUNTERD)
        left = list(answers)
        while lines.readline():
            sock.sendall(left[0])
            if len(left) > 1:
                del left[0]

    return serve(talk)


def test_lengths_that_no_server_sends_are_refused(serve):
    for answer, words in (
        (b"FOUND 1 4294967295\r\n", ("jobs", "peek", "1")),
        (b"OK 4294967295\r\n", ("jobs", "tubes")),
        (b"OK 4294967295\r\n", ("jobs", "clear", "t", "all")),
        (b"CLAIMED 1\r\nRESERVED 1 4294967295 1 t 1\r\n", ("work", "t", "--", "true")),
    ):
        done = run(jobs_server(serve, answer), *words, seconds=None)
        assert done.status == PROTOCOL and "more bytes than any server's" in done.err, (words, done)


@pytest.mark.parametrize("verb", ["list", "export"])
def test_lists_that_do_not_advance_are_refused(serve, verb):
    body = b" 1 ready 0\r\nx\r\n"
    for answers in (
        (b"LISTED 0 5\r\n", COUNTERD, b"LISTED 0 5\r\n", COUNTERD),
        (b"LISTED 1 7\r\nFOUND 7" + body, COUNTERD, b"LISTED 1 7\r\nFOUND 7" + body, COUNTERD),
        (b"LISTED 1 6\r\nFOUND 7" + body,),
        (b"LISTED 2 3\r\nFOUND 4" + body + b"FOUND 3" + body,),
        (b"LISTED 4294967295 0\r\n",),
        (b"LISTED 1 0\r\nLISTED 1 0\r\n",),
    ):
        if verb == "list":
            answers = tuple(answer for answer in answers if answer != COUNTERD)
        done = run(jobs_server(serve, *answers), "jobs", verb, "t", seconds=None)
        assert done.status == PROTOCOL and " answers: " in done.err, (answers, done)


def test_jobs_of_a_page_may_go_before_their_bodies_are_read(serve):
    job = b"FOUND %d 1 ready 0\r\nx\r\n"
    server = jobs_server(
        serve, b"LISTED 1 9\r\n" + job % 7, b"LISTED 0 12\r\n", b"LISTED 1 0\r\n" + job % 13
    )
    done = run(server, "jobs", "list", "t", seconds=None)
    assert done.status == 0 and " 7 " in done.out and "13 " in done.out, done


def test_a_page_has_as_many_bytes_as_a_server_may_have_unsent(serve):
    size = 32 << 20
    job = b"FOUND %d " + b"%d ready 0\r\n" % size + bytes(size) + b"\r\n"

    def talk(sock, lines):
        lines.readline()
        sock.sendall(COUNTERD)
        lines.readline()
        sock.sendall(b"LISTED 100 0\r\n")
        for number in range(1, 101):
            sock.sendall(job % number if number < 3 else job.replace(b"%d", b"%d" % number, 1))

    done = run(serve(talk), "jobs", "export", "t", seconds=None)
    assert done.status == PROTOCOL and "FOUND 3" in done.err, done


def test_work_says_what_is_wrong_with_a_claim(serve):
    for answer in (b"CLAIMED 0\r\n", b"CLAIMED 2\r\n", b"CLAIMED 1\r\nCLAIMED 0\r\n"):
        done = run(jobs_server(serve, answer), "work", "t", "--", "true", seconds=None)
        assert done.status == PROTOCOL and "answers: CLAIMED" in done.err, (answer, done)


def test_import_ends_with_the_first_refusal(serve):
    """A buried job takes three requests; the answers to the last two come together."""
    def talk(sock, lines):
        while line := lines.readline():
            words = line.split()
            if words[0] == b"put":
                lines.read(int(words[4]) + 2)
                sock.sendall(b"INSERTED 1\r\n")
            elif words[0] == b"use":
                sock.sendall(b"USING t\r\n")
            elif words[0] == b"reserve-job":
                lines.readline()
                sock.sendall(b"UNKNOWN_COMMAND\r\nNOT_FOUND\r\n")
            else:
                sock.sendall(b"UNKNOWN_COMMAND\r\n")

    buried = b'{"tube":"t","state":"buried","body":"x"}\n'
    for count in (1, 100):
        done = run(serve(talk), "jobs", "import", stdin=buried * count, seconds=None)
        assert done.status == NO, done
        assert done.err.count("\n") == 1 and "line 1 (the %d before it are stored)" % count in done.err


# --- lines and pages --------------------------------------------------------------------------------


def test_a_line_without_end_is_refused(serve):
    def talk(sock, lines):
        lines.read(1)
        while True:
            sock.sendall(bytes([120]) * 65536)

    for words in (("run", "k", "--", "true"), ("pool", "list"), ("stats", "--text"), ("jobs",), ("noop",)):
        done = run(serve(talk), *words, seconds=None)
        assert done.status == PROTOCOL and "is this the right port" in done.err, (words, done)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def test_an_http_answer_without_end_is_refused(serve):
    def endless(head, piece):
        def talk(sock, lines):
            while lines.readline() != b"\r\n":
                pass
            sock.sendall(head)
            while True:
                sock.sendall(piece)

        return serve(talk)

    for head, piece in (
        (HEAD + b"\r\n", b" " * 65536),
        (HEAD + b"Content-Length: 9223372036854775807\r\n\r\n", b"[" * 65536),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"[" * 65536 + b"\r\n"),
        (HEAD, b"X-More: " + b"x" * 1024 + b"\r\n"),
    ):
        done = run(endless(head, piece), "config", seconds=None)
        assert done.status == UNAVAILABLE and "its answer is longer" in done.err, (head, done)


def test_pages_of_connections_must_advance(serve):
    """Each page has another cursor: it has no rows, or there is no end of it."""
    pages = []

    def server(rows):
        def talk(sock, lines):
            while request := lines.readline():
                while lines.readline() != b"\r\n":
                    pass
                pages.append(request)
                answer = b'{"connections":[%s],"cursor":"0.%d"}' % (rows, len(pages))
                sock.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(answer) + answer)

        return serve(talk)

    done = run(server(b""), "connections", seconds=None)
    assert (done.status, len(pages)) == (0, 1), done
    done = run(server(b"{}"), "connections", "-j", seconds=None)
    assert done.status == PROTOCOL and "does not end" in done.err, done
    assert len(pages) == 1 + 2000 and done.out.count("\n") == 2000


if __name__ == "__main__":
    tap.main(__file__)
