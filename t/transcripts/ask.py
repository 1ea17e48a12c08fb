"""
Asks an admin interface: `ask ADDRESS`, for each line of its input one request. Behind ` => ` is what should
be said, with `...` for anything; nothing is printed of what is as it should.

    [METHOD] TARGET [VALUE...] [| HEADER: VALUE]...   prints the status and what came: the reason of an
                                error, else these values of the JSON (`names.0.id`, `names.#` counts),
                                `@ETag` of the headers, the whole JSON, or the text
    shape TARGET                prints what types the values have: s, n, b, or - for null
    walk TARGET LIST [COMMAND]  reads all pages; prints how many items there are, how many different
                                ones, and whether they come in order; COMMAND is run after each page

A word with %xx in it is sent as it is. A header that is given replaces ours.
"""

import http.client
import json
import re
import subprocess
import sys


class Api:
    def __init__(self, address):
        self.address = address

    def ask(self, method, target, headers):
        host, _, port = self.address.rpartition(":")
        link = http.client.HTTPConnection(host, int(port), timeout=600)
        link.putrequest(method, target, skip_host=True)
        for name, value in {"Host": self.address, **headers}.items():
            if value != "none":
                link.putheader(name, value)
        link.endheaders()
        answer = link.getresponse()
        body = answer.read()
        link.close()
        if answer.headers["Content-Type"] == "application/json":
            assert answer.headers["Cache-Control"] == "no-store"
            assert method == "HEAD" or body.endswith(b"}\n"), body
            return answer, json.loads(body or "{}")
        return answer, body.decode()

    def get(self, target):
        answer, found = self.ask("GET", target, {})
        assert answer.status == 200, found
        return found

    def walk(self, target, path, command=""):
        items, page = [], target
        name, _, key = path.partition(".")
        key = key or "name"
        cursor = {"jobs": "next", "waiters": "waiters_cursor"}.get(name, "cursor")
        parameter = "after" if cursor == "next" else cursor
        while True:
            found = self.get(page)
            items += [item[key] for item in found[name]]
            if found[cursor] is None:
                break
            if command:
                number = str(len(items))
                subprocess.run(["bash", "-c", command, "bash", number], check=False)
            page = "%s%s%s=%s" % (target, "&" if "?" in target else "?", parameter, found[cursor])
        order = "in order" if items == sorted(items) else "in no order"
        return "%d items, %d different, %s" % (len(items), len(set(items)), order)

    def say(self, line):
        line, *more = line.split(" | ")
        words = line.split(" ")
        if words[0] == "shape":
            return shape(self.get(words[1]))
        if words[0] == "walk":
            return self.walk(*line.split(" ", 3)[1:])
        method = words.pop(0) if words[0].isupper() else "GET"
        answer, found = self.ask(method, words[0], dict(one.split(": ", 1) for one in more))
        said = [str(answer.status)]
        if isinstance(found, dict) and answer.status >= 400:
            error = found.get("error", {"status": answer.status, "reason": ""})  # HEAD has none
            assert error["status"] == answer.status
            said.append(error["reason"])
        elif len(words) == 1:
            said.append(found.strip() if isinstance(found, str) else plain(found))
        for path in words[1:]:
            said.append(answer.headers[path[1:]] if path[0] == "@" else plain(at(found, path)))
        return " ".join(said)


def plain(value):
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def at(value, path):
    try:
        for key in path.split("."):
            value = len(value) if key == "#" else value[int(key) if isinstance(value, list) else key]
    except (IndexError, KeyError):
        return "none"
    return value


def shape(value):
    if isinstance(value, dict):
        return "{%s}" % ",".join("%s:%s" % (key, shape(value[key])) for key in sorted(value))
    if isinstance(value, list):
        return "[%s]" % "|".join(sorted(set(map(shape, value))))
    return {str: "s", bool: "b", type(None): "-"}.get(type(value), "n")


def main():
    api, status = Api(sys.argv[1]), 0
    for line in sys.stdin:
        request, _, expected = line.rstrip("\n").partition(" => ")
        said = api.say(request)
        pattern = ".*".join(map(re.escape, expected.split("...")))
        if not expected or not re.fullmatch(pattern, said, re.S):
            print((request + ": " + said)[:2000] if expected else said, flush=True)
            status |= bool(expected)
    return status


sys.exit(main())
