"""The ports that a client names on a port-forward: read from its messages, which are SPDY.

kubectl names them after the connection is granted, in the headers of its streams, so that they are in no
query. The agent reads the same bytes; what cannot be read here must not reach it, or a port could be used
that is in no audit entry.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.api.spdy import SYN_STREAM, FrameReader, SpdyError

PORTS_MAX = 50  # Of one connection.


class NamedPorts:
    """`tell` is called with each port, the first time that it is named."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._frames = FrameReader()
        self._named: set[int] = set()

    def feed(self, content: bytes) -> None:
        """Of its messages. Raises SpdyError: the connection has to end."""
        for frame in self._frames.feed(content):
            port = port_of(frame.headers.get("port", "")) if frame.kind == SYN_STREAM else 0
            if port and port not in self._named:
                self._add(port)

    def _add(self, port: int) -> None:
        if len(self._named) >= PORTS_MAX:
            raise SpdyError(f"at most {PORTS_MAX} ports can be forwarded on one connection")
        self._named.add(port)
        self._tell(port)


def port_of(text: str) -> int:
    """0 if it is no port."""
    good = text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536
    return int(text) if good else 0
