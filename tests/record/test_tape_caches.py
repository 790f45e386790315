"""Tapes show when a process's caches received a revision."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fathom.record.tape import DiskTape, reels
from fathom.record.tape_caches import ReceivedRevision, received_revisions, watched_resource
from fathom.seams.process import Birth, clock_payload
from fathom.seams.seam import Ask, Input

EPOCH_NS = 1_767_225_600_000_000_000
QUOTAS = "tenantquotas.fathom.dev"
WATCH = "/apis/fathom.dev/v1alpha1/tenantquotas?watch=true&resourceVersion=7"


def event(revision: int) -> bytes:
    meta = {"name": "risk", "resourceVersion": str(revision)}
    return msgspec.json.encode({"type": "MODIFIED", "object": {"metadata": meta}}) + b"\n"


def test_each_chunk_of_a_watch_is_an_observation_of_its_last_revision(tmp_path: Path) -> None:
    tape = DiskTape(tmp_path)
    birth = Birth(entry="a.b:c", seed="1", epoch_ns=EPOCH_NS)
    tape.append(Input.START, 0, now_ns=0, status=0, checksum=0, payload=msgspec.json.encode(birth))
    tape.asked(1, Ask("GET", WATCH), now_ns=1, checksum=0)
    tape.asked(2, Ask("GET", "/api/v1/pods?watch=true"), now_ns=1, checksum=0)
    tape.append(Input.CHUNK, 1, now_ns=5, status=0, checksum=0, payload=event(8) + event(9))
    tape.append(Input.CHUNK, 2, now_ns=6, status=0, checksum=0, payload=event(10))
    tape.append(Input.CLOCK, 0, now_ns=7, status=0, checksum=0, payload=clock_payload(EPOCH_NS + 1000))
    tape.append(Input.CHUNK, 1, now_ns=8, status=0, checksum=0, payload=event(11))
    tape.close()
    (reel,) = reels(tmp_path)
    assert list(received_revisions(reel, {QUOTAS})) == [
        ReceivedRevision(QUOTAS, 9, EPOCH_NS + 5),
        ReceivedRevision(QUOTAS, 11, EPOCH_NS + 1008),
    ]


@pytest.mark.parametrize(
    ("line", "resource"),
    [
        (f"GET {WATCH} 0", QUOTAS),
        ("GET /api/v1/pods?limit=500 0", "pods"),
        ("GET /api/v1/namespaces/default/pods/web 0", ""),
        ("POST /api/v1/nodes 90", ""),
        ("GET /healthz 0", ""),
    ],
)
def test_only_lists_and_watches_of_all_objects_count(line: str, resource: str) -> None:
    assert watched_resource(line) == resource
