"""The URL and the options of a client; servers, their order for a name, and their addresses."""

from __future__ import annotations

import hashlib
import math
import os
import socket
from typing import TYPE_CHECKING, Any, Sequence
from urllib.parse import unquote

from ._errors import Text, Usage

if TYPE_CHECKING:
    import ssl

Address = str | tuple[str, int]  # the path of a unix socket ("\0name": an abstract one), or TCP
PORTS = {"text": 7531, "binary": 11215, "jobs": 11300}
LONGEST = 1_000_000.0


def servers_for(name: Text, servers: Sequence[str]) -> list[str]:
    """
    The servers in the order in which they are asked for the name: by md5 of the server's text, as
    configured, and the name. MediaWiki's client of PoolCounter has the same order.
    """
    data = encode(name)

    def order(text: str) -> str:
        return hashlib.md5(encode(text) + data, usedforsecurity=False).hexdigest()

    return sorted(servers, key=order)


def encode(text: Text) -> bytes:
    """The bytes of a text: UTF-8."""
    try:
        if isinstance(text, str):
            return text.encode()
        return text if isinstance(text, bytes) else bytes(memoryview(text))
    except UnicodeEncodeError as error:
        raise Usage("the text is no Unicode text: pass bytes", reason=str(error)) from None


def seconds(value: Any, what: str) -> float:
    """A time of a call or an option, checked. Raises Usage."""
    if not 0 <= value <= LONGEST:
        raise Usage(f"{what}: seconds from 0 to 1,000,000 are allowed, not {value!r}")
    return float(value)


def tune(sock: socket.socket) -> None:
    """Sets what all connections have: no delay, and the end of a vanished server in 25 s."""
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("KEEPIDLE", 10), ("KEEPINTVL", 5), ("KEEPCNT", 3)):
            if hasattr(socket, f"TCP_{name}"):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"), value)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000)


def host_and_port(text: str) -> tuple[str, int | None]:
    """Splits HOST[:PORT], where HOST may be an IPv6 address in brackets. Raises Usage."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host = text
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise Usage(f"{text!r}: an IPv6 address stands in brackets")
    if not host or any(c in host for c in " @/?#[]") or not host.isprintable():
        raise Usage(f"{text!r} is no HOST or HOST:PORT")
    return host, port_number(port) if colon else None


def port_number(text: Any) -> int:
    port = str(text)
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        raise Usage(f"{text!r} is no port: 1 to 65535 are")
    return int(port)


def _is_path(text: str) -> bool:
    try:
        return bool(os.fsencode(text))
    except UnicodeEncodeError:
        return False


def _is_server_name(text: str) -> bool:
    """May it be the name of a server in TLS?"""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return text[0] != "." and "\0" not in text


class Options:
    """All options of a client, checked."""

    def __init__(self, url: str | None, given: dict[str, Any]) -> None:
        if url is None:
            url = os.environ.get("COUNTER_URL") or "counter://127.0.0.1"
        scheme, rest = url[:10], url[10:]
        if scheme != "counter://" or "#" in rest:
            raise Usage(f"{url!r}: a URL is counter://HOST[:PORT][,HOST...][?OPTION=VALUE[&...]]")
        hosts, _, query = rest.partition("?")
        values: dict[str, Any] = {}
        for part in query.split("&") if query else ():
            key, equals, value = part.partition("=")
            if not equals or key in values:
                raise Usage(f"{url!r}: {key!r} stands there twice or without a value")
            values[key] = unquote(value)
        values.update({k: v for k, v in given.items() if v is not None})
        take = values.pop
        self.ports: dict[str, Any] = {proto: take(proto, None) for proto in PORTS}
        tls = str(int(option)) if isinstance(option := take("tls", "0"), bool) else str(option)
        self.tls = tls == "1"
        if tls not in ("0", "1"):
            raise Usage(f"tls: 0 and 1 are allowed, not {tls!r}")
        self.tls_ca, self.tls_cert, self.tls_key, self.tls_name = (
            take(f"tls_{word}", None) for word in ("ca", "cert", "key", "name")
        )
        if self.tls_name and not _is_server_name(self.tls_name):
            raise Usage(f"tls_name: {self.tls_name!r} is no name of a host")
        self.connect_timeout = self._number(take("connect_timeout", 1), "connect_timeout")
        self.io_timeout = self._number(take("io_timeout", 10), "io_timeout")
        self.down_seconds = self._number(take("down_seconds", 10), "down_seconds")
        self.idle = int(self._number(take("idle", 8), "idle"))
        self.idle_seconds = self._number(take("idle_seconds", 60), "idle_seconds")
        self.max_body = int(self._number(take("max_body", 64 << 20), "max_body", 1 << 40))
        if values:
            raise Usage(f"there is no option {next(iter(values))!r}")
        hosts = hosts.removesuffix("/")
        self.servers = hosts.split(",") if hosts else []
        for text in self.servers:
            host_and_port(text)
        if not self.servers and not any(self.ports.values()):
            raise Usage(f"{url!r} names no server")
        for proto, text in self.ports.items():
            if text is None:
                continue
            if str(text).startswith("unix:"):
                if self.tls or len(str(text)) == 5 or not _is_path(str(text)):
                    raise Usage(f"{proto}={text!r}: unix:PATH without tls is allowed")
            elif proto == "text":
                raise Usage(f"text={text}: only unix:PATH stands there; ports stand in the URL")
            elif proto == "jobs" and ":" in str(text):
                if host_and_port(str(text))[1] is None:
                    raise Usage(f"jobs={text}: HOST:PORT, a port, or unix:PATH")
            else:
                port_number(text)
        self._context: ssl.SSLContext | None = None

    @staticmethod
    def _number(value: Any, what: str, top: float = LONGEST) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not 0 <= number <= top:
            raise Usage(f"{what}: numbers from 0 to {top:,.0f} are allowed, not {value!r}")
        return number

    def addresses(self, proto: str) -> list[tuple[str, Address]]:
        """The servers of a protocol: text as configured, and address. Raises Usage."""
        own = self.ports[proto]
        if own is not None and not str(own).isdigit():
            text = str(own)
            if len(self.servers) > 1 and proto != "jobs":
                raise Usage(f"{proto}={text}: one address for several servers")
            if text.startswith("unix:"):
                path = text[5:]
                return [(text, "\0" + path[1:] if path[0] == "@" else path)]
            host, port = host_and_port(text)
            return [(text, (host, port or 0))]
        if not self.servers or (proto == "jobs" and len(self.servers) > 1):
            raise Usage(f"the URL has to name one address for this call: {proto}=")
        found: list[tuple[str, Address]] = []
        for text in self.servers:
            host, port = host_and_port(text)
            if proto != "text":
                port = None if own is None else int(own)
            if port is None and self.tls:
                raise Usage(f"with tls, the URL has to name the port for this call ({proto})")
            found.append((text, (host, port or PORTS[proto])))
        return found

    def context(self) -> ssl.SSLContext | None:
        """What TLS connections are made with; None without TLS. Raises Usage for bad files."""
        if self.tls and self._context is None:
            import ssl

            try:
                context = ssl.create_default_context(cafile=self.tls_ca)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the server's own is enough
                if self.tls_cert:
                    context.load_cert_chain(self.tls_cert, self.tls_key, password="")
            except (OSError, ValueError) as error:
                raise Usage(
                    "tls_ca, tls_cert or tls_key can't be read, or has a password: check the files",
                    reason=str(error),
                ) from None
            self._context = context
        return self._context
