"""The part `tls` of ./dev torture exhaustion: TLS clients that send records without data, nothing, or
parts of records. The attacker is a process of its own: exhaustion_tls.py ATTACK PORT CONNECTIONS SECONDS.
"""

import ctypes
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "system"))
import servers  # noqa: E402

ROW = 63  # records without data in a row that a connection may send; one more byte, and again
P99_SLACK = 0.05  # seconds: attacker, daemon and clients share two cores
PART = b"\x17\x03\x03\x40\x10" + b"x" * 8000  # the begin of a record of 16 KiB


# ---- the attacker --------------------------------------------------------------------------------


def connect(port, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", port), 20, (source, 0))


def flood(port, count, seconds):
    """Key updates, and a byte of data just before there are too many; half of them send no data."""
    tls = ctypes.CDLL("libssl.so.3")
    for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
        getattr(tls, name).restype = ctypes.c_void_p
    method = ctypes.c_void_p(tls.TLS_client_method())
    context = ctypes.c_void_p(tls.SSL_CTX_new(method))
    made, until = [None] * count, time.monotonic() + seconds
    while time.monotonic() < until:
        for i in range(count):
            if made[i] is None:
                sock, one = connect(port), ctypes.c_void_p(tls.SSL_new(context))
                tls.SSL_set_fd(one, sock.fileno())
                sock.setblocking(True)
                if tls.SSL_connect(one) == 1:
                    made[i] = (sock, one)
                sock.setblocking(False)
                continue
            sock, one = made[i]
            for _ in range(ROW):
                tls.SSL_key_update(one, i % 2)  # every second one asks for an answer
                tls.SSL_do_handshake(one)
            if i % 4 and tls.SSL_write(one, b"x", 1) == 1:
                continue
            sock.close()
            made[i] = None


def silent(port, count, seconds):
    made, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        made = made[-count:] + [connect(port)]


def parts(port, count, seconds):
    context, made = insecure(), []
    for _ in range(count):
        made.append(context.wrap_socket(connect(port)))
        os.write(made[-1].fileno(), PART)
    time.sleep(seconds)


def insecure():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# ---- the part ------------------------------------------------------------------------------------


def percentile(daemon, seconds):
    """The 99th percentile of the time of a lock and its release, in seconds; TLS clients
    come from another address, too."""
    times, until = [], time.monotonic() + seconds
    with daemon.text_client(deadline=60) as client:
        while time.monotonic() < until:
            began = time.monotonic()
            assert client.ask("ACQ4ME others 1 10 1") == "LOCKED"
            assert client.ask("RELEASE others") == "RELEASED"
            times.append(time.monotonic() - began)
            if len(times) % 100 == 0:
                with insecure().wrap_socket(connect(daemon.text_tls[1], "127.0.0.2")) as one:
                    one.sendall(b"TIME\n")
                    assert one.recv(100), "a TLS client is refused"
    return sorted(times)[len(times) * 99 // 100]


def tls(start, scale, rng):
    short = scale.unread < 100
    count, seconds, attacks = (20, 0.3, [flood]) if short else (400, 5, [flood, silent, parts])
    with tempfile.TemporaryDirectory() as folder:
        pem = os.path.join(folder, "both.pem")
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x"
        subprocess.run([*command.split(), "-keyout", pem + ".key", "-out", pem], check=True,
                       capture_output=True)  # fmt: skip
        with servers.listening() as listener:
            daemon = start("counter.threads=1", "tls.cert=" + pem, "tls.key=%s.key" % pem,
                           "tls.max_handshakes=100", "limits.unfinished=4M", admin=True,
                           inherit=[("poolcounter-tls", listener)])  # fmt: skip
    before = percentile(daemon, seconds)
    for attack in attacks:
        argv = [sys.executable, __file__, attack.__name__, str(daemon.text_tls[1]), str(count), "600"]
        with subprocess.Popen(argv) as child:
            try:
                time.sleep(seconds / 2)
                during = percentile(daemon, seconds)
            finally:
                child.kill()
        print("  %s: others' 99th percentile: %.1f -> %.1f us" % (attack.__name__, before * 1e6,
                                                                 during * 1e6), flush=True)  # fmt: skip
        if not short:
            assert during <= 2 * before + P99_SLACK, "others wait too long: %s" % attack.__name__


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
