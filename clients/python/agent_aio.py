"""Makes the calls of the stories with counterd.aio: a JSON object in each line of stdin and stdout."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from typing import Any

import counterd
from agent_words import RAISED, Boom, decoded, encoded, event_words, failed
from counterd import aio

kept: dict[str, Any] = {}  # what calls gave
ends: dict[str, asyncio.Queue[str]] = {}  # of what waits for `go`
running: dict[str, asyncio.Task[None]] = {}


def say(**words: Any) -> None:
    print(json.dumps(words), flush=True)


async def end_of(handle: str) -> None:
    """Waits for `go`."""
    end = await asyncio.wait_for(ends.setdefault(handle, asyncio.Queue()).get(), 100)
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
        kept[f"{handle}/{job.id}"] = job  # as a program may; its connection closes all the same
        try:
            word, *rest = job.body.decode().split()
            if word == "sleep":
                await asyncio.sleep(float(rest[0]))
            elif word == "wait":
                await end_of(handle)
            elif word != "ok":
                raise RAISED[word](*map(float, rest))
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
            args["on_event"] = lambda event: say(**event_words(event))
            kept[handle or "client"] = aio.Client(**args)
        case "drop":
            for key in [key for key in kept if key == of or key.startswith(of + ".")]:
                del kept[key]
            gc.collect()
        case "go":
            ends.setdefault(of, asyncio.Queue()).put_nowait(args.get("end", "ok"))
        case "cancel":
            running[of].cancel()
        case "servers_for":
            return counterd.servers_for(**args)
        case "lost":
            return kept[of].lost
        case "stop":
            return kept[of].stop()
        case "scope":
            return await scope(kept[of], handle, **args)
        case "worker":
            return await worker(kept[of], handle, **args)
        case "list_jobs":
            return [job async for job in kept[of].list_jobs(**args)]
        case "ready":
            return list((await kept[of].ready(**args)).items())
        case _:
            return await plain(do, handle, of, args)
    return None


async def plain(do: str, handle: str, of: str, args: dict[str, Any]) -> Any:
    if do == "put_many":
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
    except (Exception, asyncio.CancelledError) as error:
        say(id=number, **failed(error))


async def main() -> None:
    say(agent="aio", can=["later", "cancel", "told", "scope", "worker"])
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
