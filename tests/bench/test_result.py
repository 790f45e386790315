"""What a measurement looks like to a person and to a program."""

from __future__ import annotations

import json

import msgspec
import pytest

from fathom.bench.drive import Phase, percentile_ms
from fathom.bench.errors import BenchFailed
from fathom.bench.result import (
    ApiResult,
    CoreUse,
    Latency,
    Machine,
    Result,
    Server,
    WatchResult,
    as_json,
    as_table,
    latency_of,
)
from fathom.bench.session import ServerUsage, cores_between

MACHINE = Machine(cores=2, cpu="some", python="3.11.7", kernel="Linux 6")
API = ApiResult(
    create_per_s=2450.0,
    get_per_s=15930.4,
    update_per_s=999.9,
    list_ms=8.25,
    list_all_ms=1210.0,
    rss_mb=188.2,
    ready_s=0.91,
    latency_ms={name: Latency(1.5, 12.25) for name in ("create", "get", "update")},
    cores={name: CoreUse(0.4, 1.02) for name in ("create", "get", "update")},
    parameters={"connections": 32, "objects": 20000, "object_bytes": 1024, "seconds": 5.0},
    machine=MACHINE,
    server=Server("v1.37", own=True, store="sqlite", filesystem="ext4"),
)
WATCH = WatchResult(
    watch_events_per_s=216000.0,
    writes_per_s=900.0,
    events=400000,
    elapsed_s=1.85,
    latency_ms={"write": Latency(1.5, 12.25)},
    cores={"watch": CoreUse(0.4)},
    parameters={"watchers": 400, "writes": 1000},
    machine=MACHINE,
    server=Server("v1.37", own=False),
)


def test_a_person_reads_an_aligned_table() -> None:
    assert as_table(API).splitlines() == [
        "v1.37 on 2 cores, Python 3.11.7",
        "connections 32, objects 20,000, object bytes 1,024, seconds 5.0",
        "",
        "create                   2,450/s  p50    1.50 ms  p99   12.25 ms  cores: driver 0.40, server 1.02",
        "get                     15,930/s  p50    1.50 ms  p99   12.25 ms  cores: driver 0.40, server 1.02",
        "update                   1,000/s  p50    1.50 ms  p99   12.25 ms  cores: driver 0.40, server 1.02",
        "list, 1,000 objects        8.2 ms",
        "list, all objects      1,210.0 ms",
        "memory                     188 MB",
        "start to ready            0.91 s",
    ]


def test_what_is_not_known_of_somebodys_server_is_left_out_of_the_table() -> None:
    assert as_table(WATCH).splitlines()[3:] == [
        "events       216,000/s  cores: driver 0.40",
        "writes           900/s  p50    1.50 ms  p99   12.25 ms",
        "delivered    400,000 events in 1.85 s, each to every watcher",
    ]


def test_a_disturbed_measurement_says_so() -> None:
    disturbed = msgspec.structs.replace(API, cores={**API.cores, "get": CoreUse(0.4, 1.02, 0.95)})
    assert as_table(disturbed).splitlines() == [
        *as_table(API).splitlines(),
        "",
        "other programs kept up to 0.95 cores busy meanwhile: measure again on a quiet machine",
    ]


@pytest.mark.parametrize(
    ("after", "cores"),
    [
        (ServerUsage(12.0, 1.5, 4.0, 110.0), CoreUse(0.25, 0.5, 4.25)),
        (ServerUsage(12.0, 1.5, 4.0, 101.0), CoreUse(0.25, 0.5, 0.0)),
        (ServerUsage(12.0, 1.5, None, 110.0), CoreUse(0.25, None, None)),
    ],
)
def test_busy_cores_are_cpu_time_over_time(after: ServerUsage, cores: CoreUse) -> None:
    assert cores_between(ServerUsage(10.0, 1.0, 3.0, 100.0), after) == cores


@pytest.mark.parametrize("result", [API, WATCH])
def test_a_program_reads_every_field_also_those_that_are_not_known(result: Result) -> None:
    document = json.loads(as_json(result))
    assert set(document) == set(result.__struct_fields__)
    assert document["rss_mb"] == result.rss_mb
    assert document["parameters"] == result.parameters


@pytest.mark.parametrize(("percent", "expected"), [(50, 5.0), (99, 10.0), (90, 9.0), (1, 1.0)])
def test_percentiles_are_latencies_that_were_measured(percent: float, expected: float) -> None:
    assert percentile_ms([n * 1_000_000 for n in (10, 9, 8, 7, 6, 5, 4, 3, 2, 1)], percent) == expected


def test_a_phase_tells_its_rate_and_its_spread() -> None:
    phase = Phase([2_000_000, 1_000_000], elapsed_s=0.5)
    assert (phase.per_s, latency_of(phase)) == (4.0, Latency(1.0, 2.0))


def test_a_phase_in_which_nothing_was_answered_has_no_latency() -> None:
    with pytest.raises(BenchFailed, match="give more with --seconds"):
        latency_of(Phase([], 0.2))
