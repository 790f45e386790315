"""A cluster whose scheduler cannot record, because its disks are full: it goes on, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.living import Cluster, until
from tests.cluster.test_questions_live import create
from tests.metrics.reading import strictly, value
from tests.record.test_full_disk import fill

from fathom.model.record_query import RecordQuery
from fathom.record.journal import read_journal
from fathom.record.journal_reader import JournalReader

pytestmark = pytest.mark.live
# A journal's first segment has 16 MiB.
DISKS = {"journal/scheduler": "24m", "tapes/scheduler": "24m", "audit": "8m"}
WHY = "/apis/fathom.dev/v1alpha1/namespaces/default/explanations/pod."


@pytest.fixture
def full_disks(tmp_path: Path) -> Iterator[dict[str, Path]]:
    """The fillers of the disks: without them there is room."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    fillers, mounted = {}, []
    try:
        for name, size in DISKS.items():
            directory = tmp_path / "data" / name
            directory.mkdir(parents=True, mode=0o700)
            command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(directory)]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"a small disk cannot be mounted: {done.stderr.decode().strip()}")
            mounted.append(directory)
            fillers[name] = fill(directory)
        yield fillers
    finally:
        for directory in mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


@pytest.fixture
def small_cluster(tmp_path: Path, full_disks: dict[str, Path]) -> Iterator[Cluster]:
    (tmp_path / "data").chmod(0o700)
    made = Cluster(tmp_path, "--nodes", "1")
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.end()


def node_of(cluster: Cluster, name: str) -> str:
    pod = cluster.ask("GET", f"/api/v1/namespaces/default/pods/{name}")
    return str(pod["spec"].get("nodeName") or "")


def explained(cluster: Cluster, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = cluster.ask("GET", WHY + name)["status"]
    return answer


def gaps(cluster: Cluster, name: str) -> dict[str, str]:
    return {gap["source"]: gap["why"] for gap in explained(cluster, name).get("gaps") or ()}


def fathom(cluster: Cluster, *words: str) -> str:
    command = [sys.executable, "-m", "fathom.cli", *words, "--kubeconfig", str(cluster.data / "kubeconfig")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


def test_a_scheduler_that_cannot_record_goes_on_says_since_when_and_records_again_when_there_is_room(
    small_cluster: Cluster, full_disks: dict[str, Path]
) -> None:
    cluster = small_cluster
    create(cluster, "default", "first")
    until(lambda: node_of(cluster, "first"), cluster.told)
    until(lambda: "journal of scheduler" in gaps(cluster, "first"), lambda: str(explained(cluster, "first")))
    said = gaps(cluster, "first")
    assert "decisions are not recorded since" in said["journal of scheduler"]
    assert "writes are not recorded since" in said["audit log"]
    assert not explained(cluster, "first").get("decisions")
    for words in (("why", "pod/first"), ("status", "pod/first")):
        assert "decisions are not recorded since" in fathom(cluster, *words)
    metrics = strictly(str(cluster.ask("GET", "/metrics/scheduler")))
    scheduler = {"component": "scheduler"}
    assert value(metrics, "fathom_journal_recording", **scheduler) == 0
    assert value(metrics, "fathom_journal_lost_records_total", **scheduler) > 0
    assert value(metrics, "fathom_tape_recording", **scheduler) == 0
    assert "recording stopped" in cluster.told()
    assert "audit entries lost" in "".join(path.read_text() for path in (cluster.data / "logs").glob("*.log"))

    for filler in full_disks.values():
        filler.unlink()
    names = [f"next-{number}" for number in range(30)]

    def is_recorded() -> bool:
        """The scheduler tries again with the decisions of the next seconds."""
        create(cluster, "default", name := names.pop(0))
        until(lambda: node_of(cluster, name), cluster.told)
        return bool(explained(cluster, name).get("decisions"))

    until(is_recorded, cluster.told)
    create(cluster, "default", "last")
    until(lambda: node_of(cluster, "last"), cluster.told)
    until(lambda: explained(cluster, "last").get("decisions"), lambda: str(explained(cluster, "last")))
    assert "decisions were not recorded from" in gaps(cluster, "first")["journal of scheduler"]
    assert "writes were not recorded from" in gaps(cluster, "first")["audit log"]
    assert not explained(cluster, "first").get("decisions")
    directory = cluster.data / "journal" / "scheduler"
    about = {kept.decision.subject.name for kept in read_journal(directory)}
    assert "last" in about
    assert "first" not in about

    def index_is_right() -> bool:
        return JournalReader(directory).query(RecordQuery(newest=100_000)) == read_journal(directory)

    until(index_is_right, cluster.told)
