"""Makes the calls of the stories with counterd: a JSON object in each line of stdin and stdout."""

from __future__ import annotations

import gc
import json
import os
import queue
import sys
import threading
import time
from typing import Any

import counterd

kept: dict[str, Any] = {}  # what calls gave
ends: dict[str, queue.Queue[str]] = {}  # of what waits for `go`
for_main: queue.Queue[dict[str, Any] | None] = queue.Queue()  # workers handle signals
writing = threading.Lock()
is_child = False


class Boom(Exception):
    """The body's own error."""


def say(**words: Any) -> None:
    data = json.dumps(words).encode() + b"\n"
    if not is_child:
        with writing:
            while data:
                data = data[os.write(1, data) :]


def decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["hex"]:
            return bytes.fromhex(value["hex"])
        return {key: decoded(part) for key, part in value.items()}
    return [decoded(part) for part in value] if isinstance(value, list) else value


SHOWN: dict[type, tuple[str, ...]] = {
    counterd.Lock: ("name", "done", "server"),
    counterd.Units: ("name", "count", "server"),
    counterd.Member: ("pool", "name", "value", "attrs", "fence", "all", "server"),
    counterd.Job: ("id", "token", "tube", "tries", "body"),
    counterd.Taken: counterd.Taken._fields,
    counterd.Put: counterd.Put._fields,
    counterd.JobView: counterd.JobView._fields,
}


def encoded(value: Any) -> Any:
    """What a call gave, as JSON."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if words := SHOWN.get(type(value)):
        found = {word: encoded(getattr(value, word)) for word in words}
        return {k: str(v) if k in ("fence", "token") else v for k, v in found.items()}
    return [encoded(part) for part in value] if isinstance(value, (list, tuple)) else value


def on_event(event: counterd.Event) -> None:
    error = type(event.error).__name__ if event.error else None
    say(event=event.kind, server=event.server, name=event.name, result=event.result, error=error)


def end_of(handle: str, job: counterd.Job | None = None) -> None:
    """Waits for `go`, or until the job is lost."""
    until = time.monotonic() + 30
    while time.monotonic() < until and not (job and job.lost):
        try:
            end = ends.setdefault(handle, queue.Queue()).get(timeout=0.02)
        except queue.Empty:
            continue
        if end == "fail":
            raise Boom
        return


def scope(client: counterd.Client, handle: str, call: str, args: dict[str, Any], body: str) -> None:
    with getattr(client, call)(**args) as kept[handle]:
        if body == "fail":
            raise Boom
        if body == "wait":
            say(event="inside", of=handle)
            end_of(handle)


def worker(client: counterd.Client, handle: str, tubes: list[Any], **args: Any) -> int:
    def run(job: counterd.Job) -> None:
        shown = {"of": handle, "id": job.id, "tries": job.tries, "body": encoded(job.body)}
        say(event="run", **shown)
        try:
            match job.body.decode().split():
                case ["raise"]:
                    raise Boom
                case ["bury"]:
                    raise counterd.Bury
                case ["retry", delay]:
                    raise counterd.Retry(float(delay))
                case ["sleep", seconds]:
                    time.sleep(float(seconds))
                case ["wait"]:
                    end_of(handle, job)
        finally:
            say(event="ran", lost=job.lost, **shown)

    signals = args.pop("signals", True)
    if "backoff" in args:
        seconds = args.pop("backoff")
        args["backoff"] = lambda tries: seconds
    kept[handle] = counterd.Worker(client, tubes, run, **args)
    return kept[handle].run(signals=signals)


def fork(then: list[dict[str, Any]]) -> Any:
    """Runs the calls in a child, and returns what they gave."""
    global is_child
    reading, writing_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        is_child = True
        results = [result_of(command) for command in then]
        with os.fdopen(writing_end, "w") as pipe:
            json.dump(results, pipe)
        os._exit(0)
    os.close(writing_end)
    with os.fdopen(reading) as answers:
        found = json.load(answers)
    os.waitpid(pid, 0)
    return found


def call(do: str, handle: str, of: str, args: dict[str, Any]) -> Any:
    """One call; what it gives is kept as `handle`."""
    match do:
        case "open":
            kept[handle or "client"] = counterd.Client(on_event=on_event, **args)
            return None
        case "servers_for":
            return counterd.servers_for(**args)
        case "fork":
            return fork(**args)
        case "drop":
            for key in [key for key in kept if key == of or key.startswith(of + ".")]:
                del kept[key]
            gc.collect()
            return None
        case "go":
            return ends.setdefault(of, queue.Queue()).put(args.get("end", "ok"))
        case "lost":
            return kept[of].lost
        case "scope":
            return scope(kept[of], handle, args["call"], args["args"], args["body"])
        case "worker":
            return worker(kept[of], handle, **args)
        case "list_jobs":
            return list(kept[of].list_jobs(**args))
        case "ready":
            return list(kept[of].ready(**args).items())
        case "put_many":
            args["jobs"] = [counterd.NewJob(**job) for job in args["jobs"]]
    value = getattr(kept[of], do)(**args)
    if handle:
        kept[handle] = value
        for n, one in enumerate(value if isinstance(value, list) else ()):
            kept[f"{handle}.{n}"] = one
    return {"buried": value} if do == "nack" else value


def result_of(command: dict[str, Any]) -> dict[str, Any]:
    try:
        args = decoded(command.get("args", {}))
        of = command.get("of", "client")
        return {"value": encoded(call(command["do"], command.get("as", ""), of, args))}
    except counterd.CounterError as error:
        words = {w: getattr(error, w) for w in ("server", "target", "answer", "reason", "sent")}
        return {"error": type(error).__name__, **words}
    except Boom:
        return {"error": "Boom"}
    except Exception as error:
        return {"error": "other", "text": repr(error)}


def answer(command: dict[str, Any]) -> None:
    result = result_of(command)
    say(id=command["id"], **result)


def read() -> None:
    for line in sys.stdin.buffer:
        command = json.loads(line)
        if command["do"] == "worker":
            for_main.put(command)
        else:
            threading.Thread(target=answer, args=(command,), daemon=True).start()
    for_main.put(None)


say(agent="python", can=["later", "fork", "threads"])
threading.Thread(target=read, daemon=True).start()
while (work := for_main.get()) is not None:
    answer(work)
os._exit(0)
