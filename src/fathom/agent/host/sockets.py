"""Find out which pod a listening socket belongs to.

All pods of a machine share its loopback, so an answer at a pod's address does not prove that the pod answers:
the kernel's tables do.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fathom.agent.host.listening_sockets import tcp_listeners

PROC = Path("/proc")
LISTENING = "0A"
EVERY = frozenset({"0.0.0.0", "::"})  # Searched for, not bound.


class SocketOwner(msgspec.Struct, frozen=True):
    address: str
    port: int
    inode: int


class SocketVerdict(msgspec.Struct, frozen=True):
    ours: bool
    message: str = ""
    note: str = ""


def listeners(port: int, proc: Path = PROC) -> list[SocketOwner]:
    return [owner for owner in _all_listeners(proc) if owner.port == port]


def listening(proc: Path = PROC) -> frozenset[str]:
    """Every address of this machine on which a process listens."""
    return frozenset(owner.address for owner in _all_listeners(proc))


def _all_listeners(proc: Path) -> list[SocketOwner]:
    if proc == PROC:
        with contextlib.suppress(OSError):
            return [SocketOwner(_unmapped(address), port, inode) for address, port, inode in tcp_listeners()]
    return from_tables(proc)


def from_tables(proc: Path) -> list[SocketOwner]:
    """Read /proc/net: slower, but works on every Linux."""
    owners = []
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            address, _, port = fields[1].rpartition(":")
            if fields[3] == LISTENING:
                owners.append(SocketOwner(_address(address), int(port, 16), int(fields[9])))
    return owners


def _address(text: str) -> str:
    """The kernel writes addresses as words of four bytes, in the machine's order."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    raw = b"".join(words)
    if len(raw) == 4:
        return socket.inet_ntop(socket.AF_INET, raw)
    return _unmapped(socket.inet_ntop(socket.AF_INET6, raw))


def _unmapped(address: str) -> str:
    """Turn an IPv4-mapped IPv6 address, of a dual-stack socket, into IPv4."""
    return address.removeprefix("::ffff:") if "." in address else address


def whose(ip: str, port: int, owners: Iterable[SocketOwner], sockets: frozenset[int]) -> SocketVerdict:
    """`sockets`: the inodes that the pod's processes hold. A socket bound to the address itself wins over one
    bound to every address, as in the kernel. Pure."""
    exact = [owner for owner in owners if owner.address == ip]
    every = [owner for owner in owners if owner.address in EVERY]
    if any(owner.inode in sockets for owner in exact):
        return SocketVerdict(True)
    if exact:
        return SocketVerdict(False, f"{ip}:{port} is answered by a process outside this pod")
    if any(owner.inode in sockets for owner in every):
        note = (
            f"the program listens on every address of the machine ({every[0].address}:{port}), not only on "
            f"the pod's own {ip}: no other pod here can use port {port}. Make it bind $(POD_IP)"
        )
        return SocketVerdict(True, note=note)
    if every:
        message = (
            f"no process of this pod listens on {ip}:{port}; another process listens on that port at every "
            "address, and would answer in its place"
        )
        return SocketVerdict(False, message)
    return SocketVerdict(False, f"no process of this pod listens on {ip}:{port}")


def family(shim: int) -> list[int]:
    """The shim's descendants: the container's first process and all that it started."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            parent = parent_of(int(name))
            if parent is not None:
                children.setdefault(parent, []).append(int(name))
    descendants: list[int] = []
    todo = children.get(shim, [])
    while todo:
        descendants += todo
        todo = [child for pid in todo for child in children.get(pid, ())]
    return descendants


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def sockets_of(pids: Iterable[int]) -> frozenset[int]:
    return frozenset(inode for pid in pids for inode in _sockets(pid))


def _sockets(pid: int) -> list[int]:
    inodes = []
    try:
        for fd in os.scandir(f"/proc/{pid}/fd"):
            target = os.readlink(fd.path)
            if target.startswith("socket:["):
                inodes.append(int(target[8:-1]))
    except OSError:
        pass  # It ended meanwhile.
    return inodes
