"""A stand-in for the daemon's admin interface: fixed answers, and a record of the requests."""

import http.server
import json
import socket
import threading
import urllib.parse

TOKEN = "s3cret-token"


def histogram(count, p50, p99):
    return {
        "count": count,
        "sum_seconds": count * p50,
        "p50_seconds": p50,
        "p90_seconds": (p50 + p99) / 2,
        "p99_seconds": p99,
        "max_seconds": p99,
    }


def contended_name(name, name_id, **fields):
    row = {
        "name": name,
        "id": name_id,
        "truncated": False,
        "exists": True,
        "in_use": 2,
        "peak": 3,
        "limit": 2,
        "waiting": 5,
        "holders": 2,
        "waiting_load": 4.5,
        "waiting_error": 0.0,
        "refused_per_second": 0.0,
        "refused_error": 0.0,
    }
    row.update(fields)
    return row


STATS = {
    "version": "9.8.7",
    "now": 1790000000.25,
    "started": 1789990000.0,
    "uptime_seconds": 10000.25,
    "threads": 2,
    "memory": {"used_bytes": 12582912, "limit_bytes": 1073741824, "resident_bytes": 20000000},
    "names": 1234,
    "units": 2500,
    "holdings": 4,
    "waiting": 17,
    "protocols": [
        {"name": "poolcounter", "enabled": True, "connections": {"open": 40, "made": 10}},
        {"name": "counter", "enabled": True, "connections": {"open": 2, "made": 3}},
    ],
    "workers": [{"worker": 0, "connections": 5, "busy_seconds": 1.0, "cpu_seconds": 1.2}],
    "recent": {
        "window_seconds": 60,
        "requests_per_second": 12345.6,
        "granted_per_second": 6000.0,
        "refused_per_second": 0.0,
        "timed_out_per_second": 0.25,
        "waits": histogram(10, 0.0123, 1.5),
        "holds": histogram(20, 0.25, 12.0),
        "answers": histogram(0, 0.0, 0.0),
    },
}

CONTENDED = {
    "by": "waiting",
    "half_life_seconds": 60,
    "bound": 0.0,
    "names": [
        contended_name("enwiki:pcache:idhash:15580374-0!canonical", "enwiki%3Apcache"),
        contended_name("odd\\x0a\\\\name \u4e2d\u6587", "odd%0A%5Cname", waiting=1, in_use=100000),
        contended_name("refused", "refused", refused_per_second=3.25, waiting_load=0.0),
        contended_name("k" * 255, None, truncated=True, exists=False, in_use=0, waiting=0),
    ],
}

DETAIL = {
    "name": "odd\\x0a\\\\name",
    "id": "odd%0A%5Cname",
    "in_use": 2,
    "peak": 3,
    "limit": 2,
    "waiting": 1,
    "holders_total": 2,
    "holders": [
        {
            "connection": "0.12.3",
            "protocol": "poolcounter",
            "client": "192.0.2.1:4711",
            "transport": "tcp",
            "since": 1790000000.0,
            "held_seconds": 3.25,
            "units": 1,
            "limit": 2,
        },
        {
            "connection": "1.7.1",
            "protocol": "counter",
            "client": "unix pid 12 uid 0",
            "transport": "unix",
            "since": 1790000000.0,
            "held_seconds": 4000.0,
            "units": 1,
            "limit": 5,
        },
    ],
    "waiters": [
        {
            "connection": "0.13.9",
            "protocol": "poolcounter",
            "client": "[2001:db8::1]:999",
            "transport": "tls",
            "since": 1790000000.0,
            "waited_seconds": 0.5,
            "units": 1,
            "limit": 2,
            "kind": "any",
        }
    ],
}

def pool(name, name_id, kind="static", **fields):
    row = {
        "name": name,
        "id": name_id,
        "kind": kind,
        "state": "open",
        "members": 8,
        "states": {
            "free": 3,
            "taken": 2,
            "cleaning": 0,
            "checking": 0,
            "dirty": 1,
            "stopping": 0,
            "down": 2,
        },
        "waiting": 0,
        "want": None,
        "suppliers": 0,
        "oldest_wait_seconds": None,
        "longest_hold_seconds": 3725.5,
    }
    row.update(fields)
    return row


POOLS = {
    "pools": [
        pool("browsers", "browsers", "joined", want=4, waiting=7, oldest_wait_seconds=0.25),
        pool("odd\\x1b[2J\u202e", "odd%1B%5B2J%E2%80%AE", state="draining"),
    ],
    "cursor": None,
}



def tube(name, id, **fields):
    row = {
        "name": name,
        "id": id,
        "states": {"ready": 1234, "delayed": 3, "reserved": 4, "buried": 5, "abandoned": 6},
        "jobs": 1252,
        "urgent": 0,
        "oldest_ready_seconds": 3725,
        "waiting": 7,
        "watching": 8,
        "using": 9,
        "pause_seconds": 0,
        "pause_left_seconds": 0,
        "totals": {
            "puts": 20000,
            "duplicates": 0,
            "claims": 0,
            "dropped": 0,
            "acks": 18000,
            "recycled": 11,
            "abandoned": 6,
        },
        "settings": {
            "order": "priority",
            "claim": "connection",
            "tries": 0,
            "limit": 0,
            "prune": 0,
            "remember": 3600,
            "read_only": "",
        },
    }
    row.update(fields)
    return row


TUBES = {
    "tubes": [
        tube("default", "default", pause_seconds=60, oldest_ready_seconds=None),
        tube("enwiki/refreshLinks", "enwiki%2FrefreshLinks"),
    ],
    "cursor": None,
}

CONFIG = {
    "options": [
        {
            "key": "counter.port",
            "value": "11215",
            "default": "11215",
            "unit": "",
            "help": "the port",
            "reloadable": False,
            "is_default": True,
        },
        {
            "key": "limits.write_timeout",
            "value": "7",
            "default": "30",
            "unit": "s",
            "help": "how long",
            "reloadable": True,
            "is_default": False,
        },
    ]
}


def history(seconds):
    def series(of):
        return [None if i < seconds // 10 else of(i) for i in range(seconds)]

    names = ("granted", "refused", "timed_out", "units", "names", "connections", "wait_p50_seconds")
    all_series = {name: series(lambda i: 1.0) for name in names}
    all_series["requests"] = series(lambda i: float(i % 50) * 100)
    all_series["waiting"] = series(lambda i: float(i // 30 % 3))
    all_series["wait_p99_seconds"] = series(lambda i: 0.001 * (i % 7))
    all_series["wait_max_seconds"] = series(lambda i: 0.002 * (i % 7))
    all_series["busy"] = series(lambda i: 0.01 * (i % 100))
    return {"interval_seconds": 1, "end": 1790000000.0, "seconds": seconds, "series": all_series}


def connection(number):
    return {
        "connection": "0.%d.1" % number,
        "protocol": "poolcounter",
        "client": "192.0.2.1:%d" % number,
        "transport": "tcp",
        "opened": 1790000000.0,
        "age_seconds": 60.0 + number,
        "queued_bytes": 0,
        "holds": 1,
        "waits": 0,
    }


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the interface's contract says."""

    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.mock.open.append(self.connection)

    def log_message(self, *_):
        pass

    def reply(self, code, answer, **headers):
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def error(self, code, reason, **more):
        self.reply(code, {"error": {"status": code, "reason": reason}, **more})

    def note(self):
        mock = self.server.mock
        mock.requests.append((self.command, self.path, dict(self.headers)))
        path, _, query = self.path.partition("?")
        return path, dict(urllib.parse.parse_qsl(query))

    def do_GET(self):
        path, query = self.note()
        mock = self.server.mock
        if self.path in mock.canned:
            self.reply(*mock.canned[self.path])
        elif path in mock.canned:
            self.reply(*mock.canned[path])
        elif path == "/api/v1/stats":
            self.reply(200, STATS)
        elif path == "/api/v1/history":
            self.reply(200, history(int(query.get("seconds", "300"))))
        elif path == "/api/v1/contended":
            names = CONTENDED["names"][: int(query.get("limit", "20"))]
            self.reply(200, dict(CONTENDED, by=query["by"], names=names))
        elif path == "/api/v1/pools":
            self.reply(200, POOLS)
        elif path == "/api/v1/tubes":
            self.reply(200, TUBES)
        elif path == "/api/v1/names/odd%0A%5Cname":
            self.reply(200, DETAIL)
        elif path == "/api/v1/connections":
            start, limit = int(query.get("cursor", "0")), int(query.get("limit", "100"))
            end = min(start + limit, mock.connections)
            rows = [connection(i) for i in range(start, end)]
            cursor = str(end) if end < mock.connections else None
            self.reply(200, {"connections": rows, "cursor": cursor})
        elif path == "/api/v1/config":
            self.reply(200, CONFIG)
        elif path == "/api/v1/loglevel":
            self.reply(200, {"level": mock.level})
        else:
            self.error(404, "there is no such name")

    def do_POST(self):
        path, query = self.note()
        mock = self.server.mock
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if mock.token is None:
            self.error(403, "no admin.token is set, so nothing can be changed")
        elif self.headers.get("Authorization") != "Bearer " + mock.token:
            self.error(401, "the admin token is missing or wrong")
        elif path == "/api/v1/connections/0.12.3/kill":
            self.reply(200, {"killed": "0.12.3"})
        elif path == "/api/v1/reload" and mock.reload_fails:
            self.error(409, "the file is wrong", report=["counter.conf:3: unknown key"])
        elif path == "/api/v1/reload":
            self.reply(200, {"reloaded": True, "report": ["log.level is debug now"]})
        elif path == "/api/v1/loglevel":
            mock.level = query["level"]
            self.reply(200, {"level": mock.level})
        else:
            self.error(404, "there is no such connection")


class MockAdmin:
    """The server, in a thread. The system chooses its port unless one is given."""

    def __init__(self, port=0):
        self.requests = []
        self.open = []  # sockets of clients
        self.canned = {}  # path, with or without a query: (code, answer)
        self.token = TOKEN
        self.level = "info"
        self.reload_fails = False
        self.connections = 3
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.mock = self
        self.address = "127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        if self.thread.is_alive():
            self.server.shutdown()
            self.server.server_close()
            self.thread.join()
        for sock in self.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended
        self.open.clear()

    def paths(self):
        return [path for _, path, _ in self.requests]
