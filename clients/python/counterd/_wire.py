"""Requests and answers as bytes: what is checked before sending, and what is believed."""

from __future__ import annotations

import math
import re
import struct
from typing import Any, Mapping, NamedTuple, NoReturn, Sequence

from . import _errors as errors
from ._errors import CounterError, Malformed, Text, Usage
from ._options import encode

MAX_OK = 1 << 20  # bytes of the body of an OK
LIMITS = {"text": 16_384, "jobs": 1_024}  # bytes of a line
HEADER = struct.Struct(
    ">BBBBI4s"
)  # of the binary protocol: magic, opcode, status, -, length, opaque
MAX_BINARY = 65_545
GET, ACQUIRE, RELEASE = 1, 2, 3
OPAQUE = b"ctrd"
LOCKED = {b"LOCKED": 1}
SHARED = {b"LOCKED": 1, b"DONE": 1}
STATES = ("ready", "delayed", "reserved", "buried", "abandoned", "all")

_bad_name = re.compile(rb"[\r\n\0]").search
_pool = re.compile(rb"[^@* \r\n\0,][^ \r\n\0,]{0,254}").fullmatch
_member = re.compile(rb"[^ \r\n\0]{1,255}").fullmatch
_word = re.compile(rb"[^ \r\n\0]{0,128}").fullmatch
_attribute = re.compile(r"(?!(?:value|state|note)\Z)[a-z][a-z0-9_]{0,31}").fullmatch
_tube = re.compile(rb"(?!-)[A-Za-z0-9\-+/;.$_()]{1,200}").fullmatch
_key = re.compile(rb"[A-Za-z0-9\-+/;.$_()]{1,64}").fullmatch
_pattern = re.compile(rb"(?!-)[A-Za-z0-9\-+/;.$_()]{0,200}\*?").fullmatch
_setting = re.compile(r"[a-z][a-z_]*").fullmatch
_value = re.compile(rb"[A-Za-z0-9_.\-]+").fullmatch
_read_only = re.compile(rb"[ !#-\[\]-~]{0,200}").fullmatch


def _errors_of(text: str) -> dict[str, type[CounterError]]:
    """Words of answers, from lines of an error and its words."""
    lines = (line.split(": ") for line in text.strip().split("\n"))
    return {word: getattr(errors, name) for name, words in lines for word in words.split(", ")}


_refused = _errors_of(  # by some verbs
    """
Busy: TIMEOUT
QueueFull: QUEUE_FULL, TUBE_FULL
TooMany: LOCK_HELD
NotFound: NOT_FOUND
ReadOnly: READ_ONLY
TooBig: JOB_TOO_BIG
Draining: DRAINING
"""
)
_any_verb = _errors_of(
    """
Usage: ERROR BAD_SYNTAX, ERROR LINE_TOO_LONG, BAD_FORMAT
Unsupported: ERROR BAD_COMMAND, UNKNOWN_COMMAND
Draining: ERROR SHUTTING_DOWN
Denied: ERROR DENIED
NotFound: ERROR NO_POOL, ERROR NO_MEMBER
Wrong: ERROR WRONG_KIND, ERROR BAD_VALUE
TooMany: ERROR TOO_MANY
NoMemory: ERROR OUT_OF_MEMORY, OUT_OF_MEMORY
EngineAway: ERROR ENGINE_AWAY, ERROR ENGINE_FULL
Unanswered: ERROR INTERNAL_ERROR, INTERNAL_ERROR
"""
)
_statuses: dict[int, type[CounterError]] = {
    0x04: Usage,
    0x21: errors.Busy,
    0x81: errors.Unsupported,
    0x82: errors.NoMemory,
}


class Put(NamedTuple):
    """What a put gave: the job's id; `duplicate`: that of the other job with its key, or 0."""

    id: int
    duplicate: bool


class JobView(NamedTuple):
    """A job as `list_jobs` shows it. `body` is None when the server can't read it."""

    id: int
    state: str
    tries: int
    body: bytes | None


class Taken(NamedTuple):
    """One member of a pool that is held. `fence` grows with each hold: pass it to the resource."""

    name: str
    value: str | None
    attrs: dict[str, str]
    fence: int


class NewJob(NamedTuple):
    """
    A job to put. `delay` and `ttr` are seconds, rounded up; `at` and the time of `root`, a pair of
    signature and time, are unix seconds.
    """

    body: Text
    priority: int = 1024
    delay: float = 0
    ttr: float = 60
    key: Text | None = None
    at: float | None = None
    root: tuple[Text, float | str] | None = None
    tries: int | None = None


# ---- what a caller gives -------------------------------------------------------------------------


def name(text: Text) -> bytes:
    """A name of a lock or of units, as it is sent."""
    sent = encode(text).replace(b" ", b"%20")
    if not 1 <= len(sent) <= 4096 or _bad_name(sent):
        raise Usage("a name has 1 to 4,096 bytes without CR, LF, NUL", target=text)
    return sent


def tube(text: Text) -> bytes:
    data = encode(text)
    if not _tube(data):
        raise Usage(
            "a tube has 1 to 200 bytes of A-Za-z0-9-+/;.$_(), the first no '-'", target=text
        )
    return data


def whole(value: Any, what: str, low: int = 0, top: int = 0xFFFFFFFF) -> int:
    """A number, rounded up, within its bounds."""
    if type(value) is int and low <= value <= top:
        return value
    if not low <= value <= top:
        raise Usage(f"{what}: {low:,} to {top:,} is allowed, not {value!r}")
    return int(math.ceil(value))


def wait(told: float) -> bytes:
    """A time to wait as the server is told: cut to milliseconds."""
    ms = int(told * 1000 + 1e-6)
    return b"%d.%03d" % (ms // 1000, ms % 1000) if ms % 1000 else b"%d" % (ms // 1000)


def take(
    target: Text,
    count: int,
    member: Text | None,
    attrs: Mapping[str, str],
    purpose: str,
    by: Text | None,
) -> tuple[list[bytes], bytes, bytes]:
    """The pools, and what is before and behind the time in the line of TAKE."""
    sent = encode(target)
    pools = [sent[1:]] if sent[:1] == b"@" else sent.split(b",")
    if not all(_pool(pool) for pool in pools) or len(pools) > 16 or len(set(pools)) < len(pools):
        raise Usage("a target is up to 16 pools with commas between, or @GROUP", target=target)
    options = b" count=%d" % whole(count, "count", 1, 64) if count != 1 else b""
    if member is not None:
        data = encode(member)
        if not _member(data) or sent[:1] == b"@" or len(pools) > 1:
            raise Usage("a member has 1 to 255 bytes without space, and one pool", target=target)
        options += b" member=" + data
    for key, value in attrs.items():
        data = encode(value)
        if not _attribute(key) or not _word(data) or len(attrs) > 8:
            raise Usage(f"attrs has up to 8 words; {key!r} is none, or its value", target=target)
        options += b" with=%s=%s" % (key.encode(), data)
    if purpose not in ("use", "clean", "check"):
        raise Usage(f"purpose: use, clean, check are allowed, not {purpose!r}", target=target)
    if purpose != "use":
        options += b" for=" + purpose.encode()
    if by is not None:
        data = encode(by)
        if not data or not _word(data):
            raise Usage("by: a word of 1 to 128 bytes", target=target)
        options += b" by=" + data
    return pools, b"TAKE %s " % sent, options + b"\n"


def _unix(value: float | str) -> str:
    text = value if isinstance(value, str) else ""
    if not isinstance(value, str) and 0 <= value < 1e12:
        text = f"{value:.3f}" if value % 1 else f"{value:.0f}"
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,3})?", text):
        raise Usage(f"{value!r} is no time in unix seconds, with up to 3 decimals")
    return text


def _signature(text: Text, what: str) -> str:
    if not _key(encode(text)):
        raise Usage(
            f"{what}: 1 to 64 of A-Za-z0-9-+/;.$_(); for other text pass a hash", target=text
        )
    return encode(text).decode()


def record(job: NewJob) -> bytes:
    """A job as put-into and put-batch send it, from its priority on."""
    body = encode(job.body)
    line = "%d %d %d %d" % (
        whole(job.priority, "priority"),
        whole(job.delay, "delay"),
        whole(job.ttr, "ttr"),
        len(body),
    )
    if job.key is not None:
        line += " key=" + _signature(job.key, "key")
    if job.at is not None:
        line += " at=" + _unix(job.at)
    if job.root is not None:
        line += f" root={_signature(job.root[0], 'root')}:{_unix(job.root[1])}"
    if job.tries is not None:
        line += " tries=%d" % whole(job.tries, "tries")
    return b"%s\r\n%s\r\n" % (line.encode(), body)


def settings(values: Mapping[str, Text | int]) -> bytes:
    """The settings of a tube as they are sent; read_only comes last."""
    sent = b""
    for key in sorted(values, key="read_only".__eq__):
        value = values[key]
        data = str(value).encode() if isinstance(value, int) else encode(value)
        if not _setting(key) or not (_read_only if key == "read_only" else _value)(data):
            raise Usage(f"{key}={value!r} is no setting of a tube")
        sent += b" %s=%s" % (key.replace("_", "-").encode(), data)
    return sent


def pattern(text: Text, after: Text) -> bytes:
    """The words of `ready` behind the limit."""
    data, rest = encode(text), encode(after)
    if not data or not _pattern(data):
        raise Usage("a pattern is a tube, or the beginning of tubes and '*'", target=text)
    return data + (b" " + tube(rest) if rest else b"")


def binary(opcode: int, numbers: Sequence[int], sent: bytes) -> bytes:
    """A request of the binary protocol."""
    body = struct.pack(f">{len(numbers)}IH", *numbers, len(sent)) + sent
    return HEADER.pack(0x90, opcode, 0, 0, len(body), OPAQUE) + body


# ---- what a server says --------------------------------------------------------------------------


def malformed(line: bytes, what: str = "the server's answer is outside the protocol") -> NoReturn:
    raise Malformed(what, answer=line, sent=True)


def words(line: bytes, good: Mapping[bytes, int], refusals: str | None = "") -> list[bytes]:
    """
    The words of an answer. Its first is one of `good`, each with the least number of words; else
    this raises the error that the line means, if it is one of `refusals` or of those of any verb.
    None: the server can't refuse any more.
    """
    found = line.split(b" ")
    least = good.get(found[0])
    if least is not None and len(found) >= least and b"" not in found[:least]:
        return found
    if least is not None or refusals is None:
        malformed(line)
    text = line.decode("latin-1").split(" ")
    cause = _any_verb.get(" ".join(text[: 2 if text[0] == "ERROR" else 1]))
    if text[0] in refusals.split():
        cause = _refused[text[0]]
    if cause is None:
        malformed(line)
    raise cause("the server refused it", answer=line, sent=True)


def number(word: bytes, low: int = 0, top: int = (1 << 63) - 1) -> int:
    """A number of an answer, checked."""
    if not word.isdigit() or len(word) > 19 or not low <= int(word) <= top:
        malformed(word, "the server sent a number out of its bounds")
    return int(word)


def status(header: bytes, opcode: int) -> tuple[int, int]:
    """Status and length of the body, from the header of a binary answer."""
    magic, op, code, _, length, opaque = HEADER.unpack(header)
    if magic != 0x91 or op != opcode or opaque != OPAQUE or length > MAX_BINARY:
        malformed(header)
    return code, length


def binary_error(code: int, body: bytes) -> CounterError:
    if code not in _statuses:
        malformed(body, f"the server answered the unknown status 0x{code:02x}")
    return _statuses[code]("the server refused it", answer=b"0x%02x %s" % (code, body), sent=True)


def dictionary(body: bytes) -> dict[str, int | str]:
    """The text of `tube`, `ready` and `stats-job`: numbers as numbers, else text."""
    lines = body.decode("utf-8", "backslashreplace").split("\n")
    if lines[0] != "---" or lines[-1]:
        malformed(body)
    found: dict[str, int | str] = {}
    for line in lines[1:-1]:
        key, colon, value = line.partition(": ")
        if not colon:
            malformed(line.encode())
        if value.isascii() and value.isdigit():
            found[key.strip('"')] = number(value.encode())
        else:
            found[key.strip('"')] = value.strip('"')
    return found


def entry(body: bytes, key: str) -> int:
    """A number of a dictionary."""
    value = dictionary(body).get(key)
    return value if isinstance(value, int) else malformed(body)


def put_answer(found: list[bytes]) -> Put:
    duplicate = found[0] == b"DUPLICATE"
    return Put(number(found[1], 0 if duplicate else 1), duplicate)


def batch(body: bytes, count: int) -> list[Put]:
    """The list that answers put-batch."""
    lines = body.split(b"\n")
    if lines[0] != b"---" or lines[-1] or len(lines) != count + 2:
        malformed(body)
    good = {b"INSERTED": 2, b"DUPLICATE": 2}
    for line in lines[1:-1]:
        if line[:2] != b"- ":
            malformed(line)
    return [put_answer(words(line[2:], good)) for line in lines[1:-1]]


def taken(found: list[bytes]) -> Taken:
    """The member of the words of TAKEN."""
    text = [word.decode("utf-8", "surrogateescape") for word in found]
    attrs = dict(word.split("=", 1) for word in text[5:] if "=" in word)
    value = None if text[4] == "-" else text[4]
    return Taken(text[2], value, attrs, number(found[3]))
