"""Every change that an override can make, on a running cluster: before, while it is in force, after its end.
Names are drawn. A change that is added to the table needs a trial here."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import override_trials_acting as acting
from tests.cluster import override_trials_pausing as pausing
from tests.cluster import override_trials_placing as placing
from tests.cluster.aging import make_older
from tests.cluster.living import Cluster
from tests.cluster.override_trials import CLASS, POOL, RACK, Place, Trial
from tests.deep import all_but

from fathom.kinds.override_changes import CHANGES

HELD = "example.com/held"  # A finalizer that nobody removes.


class Stage:
    """The cluster of all trials, and what had to be prepared before it began."""

    def __init__(self, cluster: Cluster, rng: random.Random, stuck: Place) -> None:
        self.cluster, self.rng, self.stuck = cluster, rng, stuck


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    seed = int.from_bytes(os.urandom(4))
    rng = random.Random(seed)
    region = f"r{rng.randrange(1000)}"
    zones = ",".join(f"{region}-{letter}" for letter in "abc")
    directory: Path = tmp_path_factory.mktemp(f"changes-{seed}")
    cluster = Cluster(directory, "--nodes", "3", "--zones", zones)
    try:
        cluster.start()
        stuck = _stuck(cluster, rng)
        for node in stuck.nodes:
            labels = {POOL: f"pool-{node}", CLASS: f"class-{node}", RACK: f"rack-{node}"}
            cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        yield Stage(cluster, rng, stuck)
        cluster.stop()
    finally:
        cluster.end()


def _stuck(cluster: Cluster, rng: random.Random) -> Place:
    """Two Deployments whose deletion a finalizer has held for longer than repair waits before it proposes."""
    place = Place(cluster, rng, "stuck")
    for app in ("first", "second"):
        place.run(f"{place.word}-{app}", replicas=0)
        path = f"{place.deployments}/{place.word}-{app}"
        cluster.patch(path, {"metadata": {"finalizers": [HELD]}})
        cluster.ask("DELETE", path)
    keys = [f"deployments.apps/{place.namespace}/{place.word}-{app}" for app in ("first", "second")]
    make_older(cluster, *keys, by_s=700)
    return place


TRIALS: dict[str, type[Trial]] = {
    trial.change: trial
    for trial in (
        pausing.PauseAutoscaler,
        pausing.PauseRollout,
        pausing.PauseRepair,
        pausing.PauseExpansion,
        placing.AvoidZones,
        placing.AvoidNodes,
        placing.AvoidNodeClasses,
        placing.AvoidPools,
        placing.AvoidTopology,
        placing.AllowReservedCapacityClass,
        placing.ReservedReplicas,
        placing.RaisePriority,
        placing.Cordon,
        placing.Drain,
        acting.ApproveRepairs,
        acting.TrafficWeights,
        acting.BreakGlassRole,
    )
}


# Tried in the deep run alone: they differ from avoidZones only in the label of the node, and pauseAutoscaler
# from pauseExpansion in the direction; the others take long.
ALIKE_OR_SLOW = frozenset(
    {
        "avoidNodes",
        "avoidNodeClasses",
        "avoidPools",
        "breakGlassRole",
        "pauseAutoscaler",
        "pauseRepair",
        "pauseRollout",
    }
)


def test_every_change_of_the_table_has_a_trial() -> None:
    assert list(TRIALS) == list(CHANGES)


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.parametrize("change", all_but(TRIALS, ALIKE_OR_SLOW))
def test_a_change_is_seen_before_in_force_and_after_its_end(stage: Stage, change: str) -> None:
    place = stage.stuck if change == "approveRepairs" else Place(stage.cluster, stage.rng, change)
    TRIALS[change](place).run()
