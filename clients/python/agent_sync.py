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
from agent_words import RAISED, Boom, decoded, encoded, event_words, failed

kept: dict[str, Any] = {}  # what calls gave
ends: dict[str, queue.Queue[str]] = {}  # of what waits for `go`
for_main: queue.Queue[dict[str, Any]] = queue.Queue()
writing = threading.Lock()
is_child = False


def say(**words: Any) -> None:
    data = json.dumps(words).encode() + b"\n"
    if not is_child:
        with writing:
            while data:
                data = data[os.write(1, data) :]


def end_of(handle: str, job: counterd.Job | None = None) -> None:
    """Waits for `go`, or until the job is lost."""
    until, end = time.monotonic() + 100, ""
    while not end and time.monotonic() < until and not (job and job.lost):
        try:
            end = ends.setdefault(handle, queue.Queue()).get(timeout=0.02)
        except queue.Empty:
            pass
    if end == "fail":
        raise Boom


def scope(client: counterd.Client, handle: str, call: str, args: dict[str, Any], body: str) -> None:
    with getattr(client, call)(**args) as kept[handle]:
        if body == "fail":
            raise Boom
        if body in ("wait", "stay"):
            say(event="inside", of=handle)
            end_of(handle)


def worker(client: counterd.Client, handle: str, tubes: list[Any], **args: Any) -> int:
    def run(job: counterd.Job) -> None:
        shown = {"of": handle, "id": job.id, "tries": job.tries, "body": encoded(job.body)}
        say(event="run", **shown)
        kept[f"{handle}/{job.id}"] = job  # as a program may; its connection closes all the same
        try:
            word, *numbers = job.body.decode().split() or ["ok"]
            if word in RAISED:
                raise RAISED[word](*map(float, numbers))
            if word == "sleep":
                time.sleep(float(numbers[0]))
            elif word == "wait":
                end_of(handle, job)
        finally:
            say(event="ran", lost=job.lost, **shown)

    signals, seconds = args.pop("signals", True), args.pop("backoff", None)
    if seconds is not None:
        args["backoff"] = lambda tries: seconds
    kept[handle] = made = counterd.Worker(client, tubes, run, **args)
    return made.run(signals=signals)


def fork(then: list[dict[str, Any]]) -> Any:
    """Runs the calls in a child, and returns what they gave."""
    global is_child
    reading, to_parent = os.pipe()
    if os.fork() == 0:
        is_child = True
        os.write(to_parent, json.dumps([result_of(command) for command in then]).encode())
        os._exit(0)
    os.close(to_parent)
    return json.load(os.fdopen(reading))


def call(do: str, handle: str, of: str, args: dict[str, Any]) -> Any:
    """One call; what it gives is kept as `handle`."""
    match do:
        case "open":
            args["on_event"] = lambda event: say(**event_words(event))
            kept[handle or "client"] = counterd.Client(**args)
            return None
        case "servers_for":
            return counterd.servers_for(**args)
        case "fork":
            return fork(args["then"])
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
            return scope(kept[of], handle, **args)
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
        args, of = decoded(command.get("args", {})), command.get("of", "client")
        return {"value": encoded(call(command["do"], command.get("as", ""), of, args))}
    except Exception as error:
        return failed(error)


def answer(command: dict[str, Any]) -> None:
    say(id=command["id"], **result_of(command))


def read() -> None:
    for line in sys.stdin.buffer:
        command = json.loads(line)
        if command["do"] == "worker":  # it handles signals, so it runs in the main thread
            for_main.put(command)
        else:
            threading.Thread(target=answer, args=(command,), daemon=True).start()
    os._exit(0)


say(agent="python", can=["later", "fork", "threads", "scope", "worker"])
threading.Thread(target=read, daemon=True).start()
while True:
    answer(for_main.get())
