"""What both agents read and write: values of calls, errors and events as JSON."""

from __future__ import annotations

from typing import Any

import counterd

SHOWN = {
    "Lock": ("name", "done", "server"),
    "Units": ("name", "count", "server"),
    "Member": ("pool", "name", "value", "attrs", "fence", "all", "server"),
    "Job": ("id", "token", "tube", "tries", "body"),
    "Taken": counterd.Taken._fields,
    "Put": counterd.Put._fields,
    "JobView": counterd.JobView._fields,
}


class Boom(Exception):
    """The body's own error."""


RAISED = {"raise": Boom, "bury": counterd.Bury, "retry": counterd.Retry}  # by words of handlers


def decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if list(value) == ["hex"]:
            return bytes.fromhex(value["hex"])
        return {key: decoded(part) for key, part in value.items()}
    return [decoded(part) for part in value] if isinstance(value, list) else value


def encoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if words := SHOWN.get(type(value).__name__):
        found = {word: encoded(getattr(value, word)) for word in words}
        return {k: str(v) if k in ("fence", "token") else v for k, v in found.items()}
    return [encoded(part) for part in value] if isinstance(value, (list, tuple)) else value


def failed(error: BaseException) -> dict[str, Any]:
    """An answer for what a call raised."""
    if isinstance(error, counterd.CounterError):
        words = ("server", "target", "answer", "reason", "sent")
        return {"error": type(error).__name__, **{word: getattr(error, word) for word in words}}
    names = {"Boom": "Boom", "CancelledError": "Cancelled"}
    return {"error": names.get(type(error).__name__, "other"), "text": repr(error)}


def event_words(event: counterd.Event) -> dict[str, Any]:
    error = type(event.error).__name__ if event.error else None
    words = {"server": event.server, "name": event.name, "result": event.result}
    return {"event": event.kind, **words, "error": error}
