"""What calls raise: one tree, with the same names in the libraries of all languages."""

from __future__ import annotations

Text = str | bytes


def quote(text: Text) -> str:
    """The text for people: controls and what is not UTF-8 escaped, 200 bytes at most."""
    if isinstance(text, str):
        text = text.encode("utf-8", "backslashreplace")
    shown = text[:200].decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
    return shown.encode("utf-8", "backslashreplace")[:200].decode("utf-8", "ignore")


class CounterError(Exception):
    """
    The base of all errors of this library.

    `server` is as configured, `target` the name, pool or tube; `answer` the first line that the
    server sent, `reason` what the system or a certificate says. `sent`: the server may have acted.
    """

    def __init__(
        self,
        message: str,
        *,
        server: str = "",
        target: Text = "",
        answer: Text = "",
        reason: str = "",
        sent: bool = False,
    ) -> None:
        super().__init__(message)
        self.server = server
        self.target = quote(target)
        self.answer = quote(answer)
        self.reason = quote(reason)
        self.sent = sent
        self.ended = False  # the connection came to its end, rather than to a deadline

    def __str__(self) -> str:
        parts = [self.args[0]] + [
            f"{name}: {value}"
            for name in ("target", "server", "answer", "reason")
            if (value := getattr(self, name))
        ]
        return "; ".join(parts)


class Usage(CounterError):
    """The call is wrong, or the client is closed."""


class Refused(CounterError):
    """The server said no; nothing has changed."""


class Busy(Refused):
    """Not free within the timeout."""


class QueueFull(Refused):
    """Too many wait, or the tube has as many jobs as it may have."""


class NotFound(Refused):
    """There is no such pool, member, tube or job."""


class Wrong(Refused):
    """The pool is of another kind, or a value is wrong."""


class Denied(Refused):
    """The server does not let this client do so."""


class NoMemory(Refused):
    """The server has no memory for it."""


class ReadOnly(Refused):
    """The tube is read-only; the reason is in `answer`."""


class Draining(Refused):
    """The server shuts down, or takes no new work."""


class TooBig(Refused):
    """The body is larger than the server takes."""


class TooMany(Refused):
    """This connection would hold more than the server allows."""


class EngineAway(Refused):
    """Servers share this limit, and what they share it by is away or full."""


class Failed(CounterError):
    """No answer that can be believed."""


class Unreachable(Failed):
    """No server could be reached. Nothing was sent."""


class Unanswered(Failed):
    """A request was sent, and its answer did not come."""


class Malformed(Failed):
    """The server sent what its protocol does not have, or more than it may."""


class Unsupported(Failed):
    """The server does not know the request."""


class Lost(CounterError):
    """What was held is not held any more."""
