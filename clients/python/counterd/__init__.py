"""A client of counterd: locks, units, members of pools, jobs. asyncio: `counterd.aio`."""

from ._core import Event
from ._errors import (
    Busy,
    CounterError,
    Denied,
    Draining,
    EngineAway,
    Failed,
    Lost,
    Malformed,
    NoMemory,
    NotFound,
    QueueFull,
    ReadOnly,
    Refused,
    TooBig,
    TooMany,
    Unanswered,
    Unreachable,
    Unsupported,
    Usage,
    Wrong,
)
from ._options import servers_for
from ._sync import Client, Hold, Job, Lock, Member, Units
from ._wire import JobView, NewJob, Put, Taken

__all__ = [name for name in dir() if name[0] != "_"]
