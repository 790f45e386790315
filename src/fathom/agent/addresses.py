"""Loopback addresses for pods: each node has 127.X.Y.0/24, and each of its pods an address of its own there.

Services have 127.96.0.0/12 by default; pods have the addresses above 127.128.0.0. The node itself is .1.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from ipaddress import IPv4Network

FIRST_HIGH, LAST_HIGH = 128, 254
PODS = IPv4Network("127.128.0.0/9")
HOSTS = range(2, 255)


def candidates(node: str) -> Iterator[str]:
    """Ranges that a node may have, as '127.X.Y', the likeliest first; the same for the same name."""
    count = (LAST_HIGH - FIRST_HIGH + 1) * 256
    start = zlib.crc32(node.encode()) % count
    for step in range(count):
        high, low = divmod((start + step) % count, 256)
        yield f"127.{FIRST_HIGH + high}.{low}"


def node_address(range_: str) -> str:
    return f"{range_}.1"


def next_address(range_: str, taken: Collection[str], last: str = "") -> str | None:
    """The next free address after the last that was assigned: an address is not reused at once, as clients
    may still have connections to its old pod. None: all are taken."""
    used = int(last.rpartition(".")[2]) if last.startswith(f"{range_}.") else HOSTS.start - 1
    for step in range(len(HOSTS)):
        host = HOSTS.start + (used + 1 - HOSTS.start + step) % len(HOSTS)
        if (address := f"{range_}.{host}") not in taken:
            return address
    return None
