"""The runbooks of the library on a running cluster, each where it is needed: planned, run, reported.
(`recover-workload-from-stale-zone` has a file of its own.)"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.aging import make_older
from tests.cluster.living import Cluster, Obj
from tests.cluster.override_trials import HOST, OWN, POOL, SYSTEM, ZONE, Place
from tests.cluster.override_trials_pausing import autoscaler
from tests.cluster.programs import own
from tests.cluster.steering import ran

from fathom.model.objects import lookup
from fathom.steer.runbook_library import library

# The postconditions of each have to hold for half a minute.
pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

HELD = "example.com/held"  # A finalizer that nobody removes.


class Stage:
    def __init__(self, cluster: Cluster, rng: random.Random, leak: Place) -> None:
        self.cluster, self.rng, self.leak = cluster, rng, leak

    def place(self, word: str) -> Place:
        return Place(self.cluster, self.rng, word)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    pytest.importorskip("cel_expr_python", reason="the extra `runbooks` is not installed")
    seed = int.from_bytes(os.urandom(4))
    rng = random.Random(seed)
    zones = ",".join(f"z{rng.randrange(1000)}-{letter}" for letter in "ab")
    cluster = Cluster(tmp_path_factory.mktemp(f"library-{seed}"), "--nodes", "4", "--zones", zones)
    try:
        cluster.start()
        yield Stage(cluster, rng, _leak(cluster, rng))
        cluster.stop()
    finally:
        cluster.end()


def _leak(cluster: Cluster, rng: random.Random) -> Place:
    """A reservation of a workload that is gone from the node: it was deleted, and a finalizer holds it."""
    place = Place(cluster, rng, "leak")
    place.run(place.word, replicas=0)
    spec = {
        "workload": {"name": place.word, "uid": "an-owner"},
        "intent": "preempt",
        "nodeName": place.nodes[0],
        "resources": {"cpu": "100m"},
    }
    meta = {"name": f"{place.word}-held", "finalizers": [HELD]}
    path = place.path("reservations")
    place.make(path, {**own("Reservation", place.word, **spec), "metadata": meta})
    cluster.ask("DELETE", f"{path}/{place.word}-held")
    make_older(cluster, f"reservations.fathom.dev/{place.namespace}/{place.word}-held", by_s=700)
    return place


class Run:
    """One run of a runbook, by the administrator."""

    def __init__(self, stage: Stage, book: str, namespace: str, values: dict[str, str]) -> None:
        self.stage, self.book, self.namespace = stage, book, namespace
        self.name = f"{book}-{stage.rng.randrange(10_000)}"
        self._values = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        self._config: Path = stage.cluster.data / "kubeconfig"

    def planned(self) -> tuple[int, str, str]:
        return ran(self._config, "plan", self.book, *self._values, "-n", self.namespace)

    def plan(self) -> str:
        code, text, error = self.planned()
        assert code == 0, (text, error)
        assert "False   " not in text, text
        return text

    def begin(self, *answers: str, waits_for: str) -> None:
        """Until a question that has no answer yet."""
        words = [word for answer in answers for word in ("--answer", answer)]
        values = (*self._values, "-n", self.namespace, "--yes", "--name", self.name, *words)
        code, text, error = ran(self._config, "run", self.book, *values)
        assert (code, f"Waiting: step {waits_for} waits" in text) == (1, True), (text, error)

    def finish(self, answer: str) -> None:
        code, text, error = ran(self._config, "resume", self.name, "-n", self.namespace, "--answer", answer)
        assert code == 0, (text, error)

    def check(self) -> str:
        path = f"{OWN}/namespaces/{self.namespace}/runbookruns/{self.name}"
        status = self.stage.cluster.ask("GET", path)["status"]
        assert status["phase"] == "Succeeded"
        assert {step["state"] for step in status["steps"]} == {"Done"}
        overrides = self.stage.cluster.ask("GET", f"{OWN}/namespaces/{self.namespace}/scheduleroverrides")
        assert self.name not in [each["metadata"]["name"] for each in overrides["items"]]
        report = ran(self._config, "report", self.name, "-n", self.namespace)[1]
        assert "| result | Succeeded" in report, report
        assert "The audit log confirms every write of the run." in report, report
        return report


def clear(place: Place, app: str) -> None:
    place.cluster.ask("DELETE", f"{place.deployments}/{app}")
    named = f"{place.pods_path}?labelSelector=app%3D{app}"
    place.until(lambda: not place.get(named)["items"], "its pods are gone")


def zone_of(place: Place, pod: Obj) -> str:
    labels = place.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")["metadata"]["labels"]
    return str(labels[ZONE])


@pytest.mark.full
def test_drain_zone_empties_the_zone_until_the_work_is_finished(stage: Stage) -> None:
    place, app = stage.place("drain"), "web"
    place.run(app, replicas=4)
    zone = zone_of(place, place.until_ready(app, 4)[0])
    run = Run(stage, "drain-zone", SYSTEM, {"zone": zone, "reason": "power works"})
    assert f"override {SYSTEM}/" in run.plan()
    run.begin(waits_for="finished")
    pods = place.until_ready(app, 4)
    assert zone not in {zone_of(place, each) for each in pods}
    run.finish("finished=yes")
    run.check()
    place.run("back", on=next(each for each in place.nodes if zone_of_node(place, each) == zone))
    place.until_ready("back", 1)
    clear(place, "back")
    clear(place, app)


def zone_of_node(place: Place, node: str) -> str:
    return str(place.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][ZONE])


@pytest.mark.full
def test_freeze_autoscaling_keeps_the_replicas_until_it_is_thawed(stage: Stage) -> None:
    place, app = stage.place("freeze"), "web"
    path = place.path("horizontalpodautoscalers", "/apis/autoscaling/v2")
    place.run(app)
    place.make(path, autoscaler(app, 2))
    place.until_ready(app, 2)
    run = Run(stage, "freeze-autoscaling", place.namespace, {"workload": app, "reason": "metrics lie"})
    run.plan()
    run.begin(waits_for="finished")
    place.cluster.patch(f"{path}/{app}", {"spec": {"minReplicas": 3}})
    place.until(lambda: place.decided_by(run.name), "the autoscaler is held back")
    assert len(place.pods(app)) == 2
    run.finish("finished=yes")
    place.until_ready(app, 3)
    run.check()
    place.cluster.ask("DELETE", f"{path}/{app}")
    clear(place, app)


@pytest.mark.full
def test_shift_traffic_writes_the_weights_and_takes_them_back(stage: Stage) -> None:
    place, app = stage.place("shift"), "web"
    pools = {node: f"pool-{node}" for node in place.nodes[:2]}
    for node, pool in pools.items():
        place.cluster.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {POOL: pool}}})
    spread = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    place.run(app, replicas=4, inner={"topologySpreadConstraints": [spread]})
    place.until_ready(app, 4)
    spec = {"selector": {"app": app}, "ports": [{"port": 80, "targetPort": 8080}]}
    place.make(place.path("services", "/api/v1"), {"metadata": {"name": app}, "spec": spec})
    left, kept = pools.values()
    values = {"workload": app, "from": left, "to": kept, "reason": "it serves badly", "fromWeight": "5"}
    run = Run(stage, "shift-traffic", place.namespace, values)
    run.plan()
    run.begin(waits_for="finished")
    (route,) = place.get(place.path("trafficroutes"))["items"]
    weights = {each["pool"]: each["weight"] for each in route["spec"]["routes"]}
    assert weights == {left: 5, kept: 100}
    run.finish("finished=yes")
    run.check()
    assert not place.get(place.path("trafficroutes"))["items"]
    clear(place, app)


@pytest.mark.full
def test_roll_policy_back_returns_to_the_earlier_policy(stage: Stage) -> None:
    place = stage.place("policy")
    good, bad, rollout = (f"{place.word}-{each}" for each in ("good", "bad", "rollout"))
    for name in (good, bad):
        place.make(f"{OWN}/schedulingpolicies", own("SchedulingPolicy", name, maxZoneSkew=5))
    steps = [{"percent": 50, "hold": "1h"}, {"percent": 100}]
    rollouts = f"{OWN}/policyrollouts"
    made = own("PolicyRollout", rollout, **{"from": good, "to": bad, "steps": steps})
    place.make(rollouts, made)

    def phase(name: str) -> str:
        return str(lookup(place.get(f"{rollouts}/{name}"), "status", "phase") or "")

    place.until(lambda: phase(rollout) == "Canary", "the rollout has begun")
    values = {"rollout": rollout, "bad": bad, "good": good}
    run = Run(stage, "roll-policy-back", place.namespace, values)
    plan = run.plan()
    assert "All steps, tried in" in plan
    assert "the run has succeeded" in plan, "it was carried out in a fork"
    assert phase(rollout) == "Canary", "and in the cluster nothing was"
    run.begin(waits_for="sure")
    assert place.get(f"{rollouts}/{rollout}")["spec"]["paused"] is True
    run.finish("sure=yes")
    run.check()
    names = [each["metadata"]["name"] for each in place.get(rollouts)["items"]]
    assert (rollout in names, phase(f"{rollout}-back")) == (False, "Complete")
    back = place.get(f"{rollouts}/{rollout}-back")
    assert back["status"]["active"] == good
    place.cluster.ask("DELETE", f"{rollouts}/{rollout}-back")


@pytest.mark.full
def test_a_rollout_with_a_scope_is_not_rolled_back_for_the_whole_cluster(stage: Stage) -> None:
    place = stage.place("scoped")
    names = {each: f"{place.word}-{each}" for each in ("good", "bad", "rollout")}
    for name in (names["good"], names["bad"]):
        place.make(f"{OWN}/schedulingpolicies", own("SchedulingPolicy", name, maxZoneSkew=5))
    scope = {"namespaces": [place.namespace]}
    spec = {
        "from": names["good"],
        "to": names["bad"],
        "scope": scope,
        "steps": [{"percent": 50, "hold": "1h"}],
    }
    place.make(f"{OWN}/policyrollouts", own("PolicyRollout", names["rollout"], **spec))
    run = Run(stage, "roll-policy-back", place.namespace, names)
    code, text, _ = run.planned()
    assert (code, "False   rollout-is-of-the-whole-cluster" in text) == (1, True), text
    place.cluster.ask("DELETE", f"{OWN}/policyrollouts/{names['rollout']}")


@pytest.mark.full
def test_free_leaked_reservations_lets_repair_free_what_nobody_uses(stage: Stage) -> None:
    place = stage.leak
    proposals, reservations = place.path("repairproposals"), place.path("reservations")
    place.until(lambda: place.get(proposals)["items"], "repair proposes")
    (proposal,) = place.get(proposals)["items"]
    assert lookup(proposal, "spec", "subject", "kind") == "Reservation"
    values = {"workload": place.word, "proposal": proposal["metadata"]["name"]}
    run = Run(stage, "free-leaked-reservations", place.namespace, values)
    run.plan()
    run.begin(waits_for="sure")
    assert place.get(reservations)["items"], "nothing is freed before somebody is sure"
    run.finish("sure=yes")
    run.check()
    assert not place.get(reservations)["items"]


def test_every_runbook_of_the_library_is_run_live() -> None:
    run_here = {
        "drain-zone",
        "freeze-autoscaling",
        "shift-traffic",
        "roll-policy-back",
        "free-leaked-reservations",
    }
    assert set(library()) == {*run_here, "recover-workload-from-stale-zone"}
