"""Connect to a port of a pod: to a socket that its own processes listen on, and to no other.

Pods of one machine share its loopback addresses. Where nobody in the pod listens, another process may: that
one is never connected to.
"""

from __future__ import annotations

import asyncio
import socket

from fathom.agent.host.records import Records, is_alive
from fathom.agent.host.sockets import EVERY, family, listeners, sockets_of
from fathom.model.objects import lookup

CONNECT_S = 5.0
BUFFER_BYTES = 64 << 10


class PodPorts:
    """Of one pod."""

    def __init__(self, records: Records, uid: str) -> None:
        self._records, self._uid = records, uid

    async def connect(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises OSError, with words for the user."""
        address = await asyncio.to_thread(self.address_of, port)
        try:
            async with asyncio.timeout(CONNECT_S):
                return await asyncio.open_connection(address, port, limit=BUFFER_BYTES)
        except TimeoutError:
            raise OSError(f"{address}:{port} does not answer within {CONNECT_S:g} s") from None

    def address_of(self, port: int) -> str:
        """The address at which the pod listens on that port: its own rather than another. Raises OSError."""
        record = self._records.pod(self._uid)
        if record is None:
            raise OSError("the pod is gone")
        shims = self._shims()
        owners = listeners(port)
        ours = sockets_of(pid for shim in shims for pid in family(shim)) if owners else frozenset()
        addresses = [owner.address for owner in owners if owner.inode in ours]
        if not addresses:
            name = lookup(record.pod, "metadata", "name")
            raise OSError(f"no process of pod {name} listens on port {port}")
        if record.ip in addresses:
            return record.ip
        at_every = next((address for address in addresses if address in EVERY), "")
        if at_every and any(owner.address == record.ip for owner in owners):
            raise OSError(f"{record.ip}:{port} is answered by a process outside this pod")
        return record.ip if at_every else addresses[0]

    def _shims(self) -> list[int]:
        shims = []
        for container in _container_names(self._records, self._uid):
            attempts = self._records.attempts(self._uid, container)
            run = self._records.run_record(self._uid, container, attempts[-1]) if attempts else None
            if run is not None and is_alive(run.shim, run.shim_started):
                shims.append(run.shim)
        return shims


def _container_names(records: Records, uid: str) -> list[str]:
    record = records.pod(uid)
    spec = (record.pod.get("spec") or {}) if record is not None else {}
    return [str(each["name"]) for field in ("initContainers", "containers") for each in spec.get(field) or ()]


def end_writing(writer: asyncio.StreamWriter) -> None:
    """Tell the pod that the client has sent everything; its answer may still come."""
    if not writer.is_closing() and writer.can_write_eof():
        try:
            writer.write_eof()
        except OSError:
            writer.close()


def no_delay(writer: asyncio.StreamWriter) -> None:
    connected = writer.get_extra_info("socket")
    if connected is not None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
