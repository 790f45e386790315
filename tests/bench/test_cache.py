"""What following costs is measured on what was really followed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from fathom.bench import podstream
from fathom.bench.against_kopf import compare, follow
from fathom.bench.cache import CacheLoad, EventFeed, run_cache
from fathom.bench.errors import BenchFailed
from fathom.bench.session import Against
from fathom.cli.main import run
from fathom.client.events import decode_events


def test_a_small_run_fills_every_figure() -> None:
    result = run_cache(CacheLoad(objects=1500, events=400, http_objects=0), Against())
    assert min(result.events_per_s, result.event_us, result.sync_s, result.sync_object_us) > 0
    assert 2000 < result.json_bytes_per_object < 3000
    assert sorted(result.snapshot_us, key=int) == ["1000", "1500"]
    assert max(result.snapshot_us.values()) < 1000
    assert (result.http_sync_s, result.beside_kopf) == (None, None)


def test_the_command_syncs_from_a_server_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = ["--objects", "1000", "--events", "100", "--http-objects", "60", "--connections", "4"]
    assert run(["bench", "cache", "--json", "--data", str(tmp_path), *load]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bench"] == "cache"
    assert (result["http_objects"], result["http_sync_s"] > 0) == (60, True)
    assert list(tmp_path.iterdir()) == []


def test_both_followers_take_the_same_stream_to_its_end() -> None:
    both = compare(objects=40, events=30)
    for follower in (both.fathom, both.kopf):
        assert min(follower.sync_s, follower.events_per_s, follower.sync_cpu_s, follower.event_cpu_us) > 0


def test_a_follower_that_ends_early_gives_no_figure() -> None:
    with pytest.raises(BenchFailed, match="ended early"):
        follow([sys.executable, "-c", "pass"], objects=5, events=5)


def test_the_stream_is_a_list_with_an_end_and_then_changes_of_what_was_listed() -> None:
    *listed, end = decode_events(podstream.initial(230))
    names = [(one.obj["metadata"]["namespace"], one.obj["metadata"]["name"]) for one in listed]
    assert (names, len(set(names))) == (sorted(names), 230)
    assert end.obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    changed = decode_events(podstream.changes(230, 100, per_chunk=30))
    revisions = [int(one.obj["metadata"]["resourceVersion"]) for one in changed]
    assert revisions == list(range(revisions[0], revisions[0] + 100))
    assert revisions[0] > int(end.obj["metadata"]["resourceVersion"])
    assert {one.obj["metadata"]["uid"] for one in changed} < {one.obj["metadata"]["uid"] for one in listed}


def test_a_cache_that_took_nothing_is_not_measured() -> None:
    feed = EventFeed()
    feed.sync(50)
    feed._revision += 10
    with pytest.raises(BenchFailed, match="the cache did not apply all events"):
        feed.change(50, 20)
