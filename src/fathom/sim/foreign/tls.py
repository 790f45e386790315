"""TLS in a foreign process: connections look encrypted to the program, and are not.

The world's API servers speak plain http. A program that asks for https gets its plain connection with what a
client reads of an encrypted one: a certificate that fits the name it asked for, a version, a cipher.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from fathom.sim.foreign.sockets import CIPHER, TLS_VERSION, ForeignSocket, certificate

if TYPE_CHECKING:
    from fathom.sim.foreign.machine import Machine


def wrap_socket(machine: Machine, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    context, sock, *_ = args
    if not isinstance(sock, ForeignSocket):
        return original(*args, **kwargs)
    sock.context, sock.server_hostname = context, kwargs.get("server_hostname")
    return sock


def wrap_bio(machine: Machine, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    context, incoming, outgoing, *rest = args
    host = kwargs.get("server_hostname", rest[1] if len(rest) > 1 else None)
    return PlainObject(context, incoming, outgoing, host)


class PlainObject:
    """As an `ssl.SSLObject`: what is written goes out as it is."""

    server_side = False
    session = None
    session_reused = False

    def __init__(self, context: ssl.SSLContext, incoming: Any, outgoing: Any, host: str | None) -> None:
        self.context, self.server_hostname = context, host
        self._incoming, self._outgoing = incoming, outgoing

    def read(self, size: int = 1024, buffer: Any = None) -> Any:
        if not self._incoming.pending and not self._incoming.eof:
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "The operation did not complete (read)")
        data = self._incoming.read(size)
        if buffer is None:
            return data
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        return int(self._outgoing.write(data))

    def do_handshake(self) -> None:
        pass

    def unwrap(self) -> None:
        pass

    def pending(self) -> int:
        return int(self._incoming.pending)

    def getpeercert(self, binary_form: bool = False) -> Any:
        return b"" if binary_form else certificate(self.server_hostname)

    def version(self) -> str:
        return TLS_VERSION

    def cipher(self) -> tuple[str, str, int]:
        return CIPHER

    def shared_ciphers(self) -> list[tuple[str, str, int]]:
        return [CIPHER]

    def compression(self) -> None:
        return None

    def selected_alpn_protocol(self) -> None:
        """HTTP/1.1, as when a server knows nothing of others."""

    def selected_npn_protocol(self) -> None:
        return None

    def get_channel_binding(self, cb_type: str = "tls-unique") -> None:
        return None
