"""What a tape shows of caches: when a process received which revision of a kind by its watches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec

from fathom.record.tape import ASK, Reel, birth_of
from fathom.seams.seam import Input

_REVISION = re.compile(rb'"resourceVersion":"(\d+)"')


class ReceivedRevision(msgspec.Struct, frozen=True):
    resource: str  # 'tenantquotas.fathom.dev'
    revision: int  # Everything up to here had been received.
    time_ns: int


def received_revisions(reel: Reel, resources: Collection[str]) -> Iterator[ReceivedRevision]:
    """In order. Lists count as well as watches: both bring everything up to their revision."""
    epoch_ns = 0
    streams: dict[int, str] = {}  # Number of the request -> its resource.
    for record in reel.records():
        if record.kind == Input.START:
            epoch_ns = birth_of(record).epoch_ns
        elif record.kind == Input.CLOCK:
            epoch_ns = int.from_bytes(record.payload, "little", signed=True)
        elif record.kind == ASK:
            resource = watched_resource(record.payload.decode(errors="replace"))
            if resource in resources:
                streams[record.number] = resource
        elif record.kind in {Input.CHUNK, Input.REPLY} and record.number in streams:
            revision = _revision(record.payload, is_list=record.kind == Input.REPLY)
            if revision:
                yield ReceivedRevision(streams[record.number], revision, epoch_ns + record.now_ns)


def watched_resource(line: str) -> str:
    """'GET /apis/fathom.dev/v1alpha1/tenantquotas?watch=true 0' -> 'tenantquotas.fathom.dev'; '' unless it
    is a list or a watch of all objects."""
    method, _, rest = line.partition(" ")
    parts = rest.partition(" ")[0].partition("?")[0].strip("/").split("/")
    if method != "GET":
        return ""
    if parts[0] == "api" and len(parts) == 3:
        return parts[2]
    return f"{parts[3]}.{parts[1]}" if parts[0] == "apis" and len(parts) == 4 else ""


def _revision(payload: bytes, *, is_list: bool) -> int:
    """Of a list, its own, which comes before those of its items; of a chunk of a watch, that of the last
    event. The last line of a chunk may be cut off before its revision."""
    texts = [payload] if is_list else payload.splitlines()
    matches = [match for text in texts if (match := _REVISION.search(text)) is not None]
    return int(matches[-1][1]) if matches else 0
