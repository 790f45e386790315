"""Two followers of one source, one after the other: fathom's caches and kopf's indexes, each in a process of
its own, with the same objects, the same events and the same indexes."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence

import msgspec

from fathom.bench.errors import BadTarget, BenchFailed
from fathom.bench.follow import ReachedRevision


class FollowedRun(msgspec.Struct, frozen=True):
    """How one follower did."""

    sync_s: float  # From its request to the last object in its indexes.
    events_per_s: float  # From the first change sent to the last one in its indexes.
    sync_cpu_s: float
    event_cpu_us: float
    bytes_per_object: float  # Resident memory that came with the objects.


class KopfComparison(msgspec.Struct, frozen=True):
    objects: int
    events: int
    fathom: FollowedRun
    kopf: FollowedRun
    kopf_version: str


def compare(objects: int, events: int) -> KopfComparison:
    if importlib.util.find_spec("kopf") is None:
        raise BadTarget("kopf is not installed: install it, or leave out --kopf-objects")
    ours = [sys.executable, "-m", "fathom.bench.follow"]
    theirs = [sys.executable, "-m", "fathom.bench.follow_kopf"]
    return KopfComparison(
        objects,
        events,
        follow(ours, objects, events),
        follow(theirs, objects, events),
        importlib.metadata.version("kopf"),
    )


def follow(command: Sequence[str], objects: int, events: int) -> FollowedRun:
    with _started([sys.executable, "-m", "fathom.bench.source", str(objects), str(events)]) as source:
        url = f"http://127.0.0.1:{int(_line(source))}"
        with _started([*command, url, str(events), str(objects)]) as follower:
            began, synced = _reached(follower), _reached(follower)
            with urllib.request.urlopen(urllib.request.Request(f"{url}/go", method="POST")) as answer:
                times = json.load(answer)
            ended = _reached(follower)
    return FollowedRun(
        sync_s=round(synced.at_s - times["asked_s"], 3),
        events_per_s=round(events / (ended.at_s - times["changes_s"]), 1),
        sync_cpu_s=round(synced.cpu_s - began.cpu_s, 3),
        event_cpu_us=round((ended.cpu_s - synced.cpu_s) / events * 1e6, 2),
        bytes_per_object=round((synced.rss_mb - began.rss_mb) * 1e6 / objects, 1),
    )


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _reached(process: subprocess.Popen[str]) -> ReachedRevision:
    return msgspec.json.decode(_line(process), type=ReachedRevision)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise BenchFailed(f"{process.args!r} ended early")
    return line
