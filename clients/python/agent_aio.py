"""Makes the calls of the stories with counterd.aio: a JSON object in each line of stdin and stdout."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from typing import Any

import counterd
from counterd import aio

kept: dict[str, Any] = {}  # what calls gave
ends: dict[str, asyncio.Queue[str]] = {}  # of what waits for `go`
running: dict[str, asyncio.Task[None]] = {}


class Boom(Exception):
    """The body's own error."""


def say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


def decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["hex"]:
            return bytes.fromhex(value["hex"])
        return {key: decoded(part) for key, part in value.items()}
    return [decoded(part) for part in value] if isinstance(value, list) else value


SHOWN: dict[type, tuple[str, ...]] = {
    aio.Lock: ("name", "done", "server"),
    aio.Units: ("name", "count", "server"),
    aio.Member: ("pool", "name", "value", "attrs", "fence", "all", "server"),
    aio.Job: ("id", "token", "tube", "tries", "body"),
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


async def end_of(handle: str) -> None:
    """Waits for `go`."""
    end = await asyncio.wait_for(ends.setdefault(handle, asyncio.Queue()).get(), 30)
    if end == "fail":
        raise Boom


async def scope(
    client: aio.Client, handle: str, call: str, args: dict[str, Any], body: str
) -> None:
    async with getattr(client, call)(**args) as kept[handle]:
        if body == "fail":
            raise Boom
        if body == "wait":
            say(event="inside", of=handle)
            await end_of(handle)


async def worker(client: aio.Client, handle: str, tubes: list[Any], **args: Any) -> int:
    async def run(job: aio.Job) -> None:
        words = {"of": handle, "id": job.id, "tries": job.tries, "body": encoded(job.body)}
        say(event="run", **words)
        try:
            match job.body.decode().split():
                case ["raise"]:
                    raise Boom
                case ["bury"]:
                    raise counterd.Bury
                case ["retry", delay]:
                    raise counterd.Retry(float(delay))
                case ["sleep", seconds]:
                    await asyncio.sleep(float(seconds))
                case ["wait"]:
                    await end_of(handle)
        finally:
            say(event="ran", **words, lost=job.lost)

    signals = args.pop("signals", True)
    if "backoff" in args:
        seconds = args.pop("backoff")
        args["backoff"] = lambda tries: seconds
    kept[handle] = aio.Worker(client, tubes, run, **args)
    count: int = await kept[handle].run(signals=signals)
    return count


async def call(do: str, handle: str, of: str, args: dict[str, Any]) -> Any:
    """One call; what it gives is kept as `handle`."""
    match do:
        case "open":
            kept[handle or "client"] = aio.Client(on_event=on_event, **args)
            return None
        case "servers_for":
            return counterd.servers_for(**args)
        case "drop":
            for key in [key for key in kept if key == of or key.startswith(of + ".")]:
                del kept[key]
            gc.collect()
            return None
        case "go":
            ends.setdefault(of, asyncio.Queue()).put_nowait(args.get("end", "ok"))
            return None
        case "cancel":
            running[of].cancel()
            return None
        case "lost":
            return kept[of].lost
        case "stop":
            return kept[of].stop()
        case "scope":
            return await scope(kept[of], handle, args["call"], args["args"], args["body"])
        case "worker":
            return await worker(kept[of], handle, **args)
        case "list_jobs":
            return [job async for job in kept[of].list_jobs(**args)]
        case "ready":
            return list((await kept[of].ready(**args)).items())
        case "put_many":
            args["jobs"] = [counterd.NewJob(**job) for job in args["jobs"]]
    value = await getattr(kept[of], do)(**args)
    if handle:
        kept[handle] = value
        for n, one in enumerate(value if isinstance(value, list) else ()):
            kept[f"{handle}.{n}"] = one
    return {"buried": value} if do == "nack" else value


async def answer(command: dict[str, Any]) -> None:
    number, handle = command["id"], command.get("as", "")
    try:
        args = decoded(command.get("args", {}))
        value = await call(command["do"], handle, command.get("of", "client"), args)
        say(id=number, value=encoded(value))
    except counterd.CounterError as error:
        words = {w: getattr(error, w) for w in ("server", "target", "answer", "reason", "sent")}
        say(id=number, error=type(error).__name__, **words)
    except (asyncio.CancelledError, Boom) as error:
        say(id=number, error="Boom" if isinstance(error, Boom) else "Cancelled")
    except Exception as error:
        say(id=number, error="other", text=repr(error))


async def main() -> None:
    say(agent="aio", can=["later", "cancel", "told"])
    reader = asyncio.StreamReader(limit=1 << 28)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    tasks: set[asyncio.Task[None]] = set()
    while line := await reader.readline():
        command = json.loads(line)
        task = asyncio.create_task(answer(command))
        running[command.get("as", "")] = task
        tasks.add(task)
        task.add_done_callback(tasks.discard)


asyncio.run(main())
