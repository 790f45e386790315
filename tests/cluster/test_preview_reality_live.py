"""Previews against reality: what a fork says of an override and of its end, and what then happens on the
running cluster. The pure decider, which judges waiting pods one by one, is compared with the same reality."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from tests.clients.running import tls_of
from tests.cluster.conftest import IMAGES
from tests.cluster.living import Cluster, until
from tests.cluster.steering import RBAC, Person
from tests.cluster.test_preview_live import OWN

from fathom.kinds.preview_answer import Outcome, Preview
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import read
from fathom.model.conditions import DISRUPTION_TARGET, is_true
from fathom.model.objects import labels_of, lookup, metadata, uid_of
from fathom.sim.preview.counting import IsTarget, outcome_of, target_of
from fathom.sim.preview.difference import Measure, measures

pytestmark = [pytest.mark.live, pytest.mark.full, pytest.mark.timeout(1800)]

Obj = dict[str, Any]

CASES = 10
LOOKS = 30  # In a row: some seconds.
PATHS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "deployments.apps": "/apis/apps/v1/deployments",
    "statefulsets.apps": "/apis/apps/v1/statefulsets",
    "replicasets.apps": "/apis/apps/v1/replicasets",
}


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Four nodes in two zones; drains must not disturb other tests."""
    images = tmp_path / "images.toml"
    images.write_text(IMAGES)
    made = Cluster(tmp_path, "--nodes", "4", "--zones", "a,b", "--images", str(images))
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.end()


class Case(msgspec.Struct):
    """An override, and the cluster in which it is tried."""

    told: str
    namespace: str
    objects: list[tuple[str, Obj]]
    override: Obj
    replicas: int
    waiting: int = 0  # Pods that wait before the override.
    labels: dict[str, str] = {}  # Put on node-4.


def deployment(name: str, replicas: int, notes: dict[str, str] | None = None) -> Obj:
    container = {"name": "c", "image": "sleeper:1", "resources": {"requests": {"cpu": "10m"}}}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": notes or {}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def override(name: str, namespace: str, target: str, **changes: Any) -> Obj:
    spec = {
        "target": target,
        "scope": "cluster",
        "reason": "a case that was drawn",
        "expiresAfter": "30m",
        "changes": changes,
    }
    kind = {"apiVersion": "fathom.dev/v1alpha1", "kind": "SchedulerOverride"}
    return {**kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def drain(rng: random.Random, namespace: str) -> Case:
    """Of a zone or of one node, with a budget that allows all, some or none of it."""
    target = rng.choice(["zone/a", "zone/b", "node/node-1", "node/node-2"])
    return _drain(namespace, target, replicas=rng.randrange(2, 7), allowed=rng.choice([0, 1, 1, 6]))


def drain_freely(rng: random.Random, namespace: str) -> Case:
    """Of a zone that has pods, which may all leave."""
    return _drain(namespace, rng.choice(["zone/a", "zone/b"]), replicas=rng.randrange(4, 7), allowed=6)


def _drain(namespace: str, target: str, *, replicas: int, allowed: int) -> Case:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": allowed, "selector": {"matchLabels": {"app": "web"}}},
    }
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    return Case(
        f"drain {target}, {replicas} replicas, {allowed} may be unavailable",
        namespace,
        [(where, deployment("web", replicas)), (budgets, budget)],
        override(f"drain-{namespace}", "fathom-system", target, drain=True),
        replicas,
    )


def reserved(rng: random.Random, namespace: str) -> Case:
    """Waiting pods get so many places of reserved capacity."""
    waiting = rng.randrange(1, 5)
    return _reserved(namespace, waiting=waiting, allowed=rng.randrange(1, waiting + 2))


def scarce(rng: random.Random, namespace: str) -> Case:
    """Fewer places than pods that wait."""
    waiting = rng.randrange(2, 5)
    return _reserved(namespace, waiting=waiting, allowed=waiting - 1)


def _reserved(namespace: str, *, waiting: int, allowed: int) -> Case:
    name = f"gold-{namespace}"
    klass = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "CapacityClass",
        "metadata": {"name": name},
        "spec": {"nodeSelector": {name: "yes"}, "tenants": []},
    }
    changes = {"allowReservedCapacityClass": name, "reservedReplicas": allowed}
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    golden = deployment("web", waiting, {"fathom.dev/capacity-class": name})
    return Case(
        f"{allowed} places of reserved capacity for {waiting} pods",
        namespace,
        [(f"{OWN}/capacityclasses", klass), (where, golden)],
        override(f"open-{namespace}", namespace, "workload/web", **changes),
        waiting,
        waiting=waiting,
        labels={name: "yes"},
    )


def moved(rng: random.Random, namespace: str) -> Case:
    """As `reserved`, and at the end the pods have to leave."""
    case = reserved(rng, namespace)
    case.override["spec"]["onEnd"] = "move"
    case.told = f"{case.told}, which leave at the end"
    return case


def cordon(rng: random.Random, namespace: str) -> Case:
    """Of a node or zone: nobody moves."""
    target, replicas = rng.choice(["zone/a", "zone/b", "node/node-1", "node/node-3"]), rng.randrange(1, 6)
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return Case(
        f"cordon {target}, {replicas} replicas",
        namespace,
        [(where, deployment("web", replicas))],
        override(f"cordon-{namespace}", "fathom-system", target, cordon=True),
        replicas,
    )


def raised(rng: random.Random, namespace: str) -> Case:
    """Pods that fit nowhere wait, with whatever priority."""
    waiting = rng.randrange(1, 4)
    large = deployment("web", waiting)
    large["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9000"
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return Case(
        f"raise the priority of {waiting} pods that fit nowhere",
        namespace,
        [(where, large)],
        override(f"raise-{namespace}", namespace, "workload/web", raisePriority=rng.randrange(1, 1000)),
        waiting,
        waiting=waiting,
    )


def paused(rng: random.Random, namespace: str) -> Case:
    """Growth and rollouts of a workload at rest: nothing changes."""
    replicas = rng.randrange(1, 6)
    changes = {rng.choice(["pauseExpansion", "pauseRollout", "pauseAutoscaler", "pauseRepair"]): True}
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return Case(
        f"{next(iter(changes))}, {replicas} replicas",
        namespace,
        [(where, deployment("web", replicas))],
        override(f"pause-{namespace}", namespace, "workload/web", **changes),
        replicas,
    )


def avoid(rng: random.Random, namespace: str) -> Case:
    """Pods that are placed stay where they are."""
    zone, replicas = rng.choice("ab"), rng.randrange(1, 6)
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return Case(
        f"avoid zone {zone}, {replicas} replicas",
        namespace,
        [(where, deployment("web", replicas))],
        override(f"avoid-{namespace}", namespace, "workload/web", avoidZones=[zone]),
        replicas,
    )


Draw = Callable[[random.Random, str], Case]
# Each at least once, those that move something more often. Of a drain that evicts, and of places for some of
# the pods alone, the pure decider cannot know.
DRAWN: tuple[Draw, ...] = (drain_freely, scarce, moved, cordon, raised, paused, avoid)
MOVING: tuple[Draw, ...] = (drain, reserved, moved)


class Evictions:
    """Which pods are evicted from now on."""

    def __init__(self, cluster: Cluster, is_target: IsTarget, nodes: dict[str, dict[str, str]]) -> None:
        self.uids: dict[str, bool] = {}
        self._is_target, self._nodes = is_target, nodes
        tls = tls_of(cluster.data / "kubeconfig")
        self._connection = http.client.HTTPSConnection(urlsplit(cluster.url).netloc, context=tls, timeout=600)
        self._connection.request("GET", "/api/v1/pods?watch=true")
        self._answer = self._connection.getresponse()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                pod = json.loads(line)["object"]
                if is_true(pod, DISRUPTION_TARGET):
                    node = self._nodes.get(str(lookup(pod, "spec", "nodeName") or ""), {})
                    self.uids.setdefault(uid_of(pod), self._is_target(pod, node))
        except (OSError, ValueError, AttributeError):
            return

    def close(self) -> None:
        if self._connection.sock is not None:
            self._connection.sock.close()


def listed(cluster: Cluster) -> Callable[[str], list[Obj]]:
    def objects(resource: str) -> list[Obj]:
        kind = {"deployments.apps": "Deployment", "statefulsets.apps": "StatefulSet"}.get(resource)
        found: list[Obj] = cluster.ask("GET", PATHS[resource])["items"]
        return [{**obj, "kind": kind} if kind else obj for obj in found]

    return objects


def set_up(cluster: Cluster, case: Case) -> None:
    cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": case.namespace}})
    if case.labels:
        cluster.patch("/api/v1/nodes/node-4", {"metadata": {"labels": case.labels}})
    for path, obj in case.objects:
        cluster.ask("POST", path, obj)

    def is_at_rest() -> bool:
        pods = cluster.ask("GET", f"/api/v1/namespaces/{case.namespace}/pods")["items"]
        ready = sum(is_true(pod, "Ready") for pod in pods)
        return len(pods) == case.replicas and ready == case.replicas - case.waiting

    until(is_at_rest, cluster.told)


def clean_up(cluster: Cluster, case: Case) -> None:
    meta = case.override["metadata"]
    overrides = f"{OWN}/namespaces/{meta['namespace']}/scheduleroverrides"
    for path, obj in case.objects:
        if "/namespaces/" not in path:
            cluster.ask("DELETE", f"{path}/{metadata(obj)['name']}")
    cluster.ask("DELETE", f"/api/v1/namespaces/{case.namespace}")
    names = [metadata(obj)["name"] for obj in cluster.ask("GET", "/api/v1/namespaces")["items"]]
    until(
        lambda: (
            case.namespace
            not in [metadata(obj)["name"] for obj in cluster.ask("GET", "/api/v1/namespaces")["items"]]
        ),
        lambda: f"{names} {cluster.told()}",
        within_s=120,
    )
    until(
        lambda: (
            metadata(case.override)["name"]
            not in [metadata(obj)["name"] for obj in cluster.ask("GET", overrides)["items"]]
        ),
        cluster.told,
        within_s=120,
    )


def asked(cluster: Cluster, case: Case) -> Preview:
    spec = {"override": case.override, "minutes": 2, "seeds": 3}
    body = {"apiVersion": "fathom.dev/v1alpha1", "kind": "OverridePreview", "spec": spec}
    where = f"{OWN}/namespaces/{case.override['metadata']['namespace']}/overridepreviews"
    tls = tls_of(cluster.data / "kubeconfig")
    connection = http.client.HTTPSConnection(urlsplit(cluster.url).netloc, context=tls, timeout=70)
    connection.request("POST", where, json.dumps(body), headers={"content-type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    assert answer["kind"] == "OverridePreview", answer
    return msgspec.convert(answer["status"], Preview)


def misses(futures: Sequence[Outcome], seen: Outcome) -> dict[Measure, tuple[int, int, int]]:
    """Counts that are not within the predicted spread: (seen, least, most)."""
    predicted = [dict(measures(outcome)) for outcome in futures]
    wrong = {}
    for measure, value in dict(measures(seen)).items():
        if measure[1] == "replicas" and not any(measure in counts for counts in predicted):
            continue  # A workload that no future changes is not told.
        values = [counts.get(measure, 0) for counts in predicted]
        if not min(values) <= value <= max(values):
            wrong[measure] = (value, min(values), max(values))
    return wrong


def decided(cluster: Cluster, person: Person, case: Case) -> Preview:
    """The answer for somebody who may not fork the cluster: what the scheduler decides about waiting pods."""
    spec = {"override": case.override, "minutes": 2, "seeds": 1}
    body = {"apiVersion": "fathom.dev/v1alpha1", "kind": "OverridePreview", "spec": spec}
    where = f"{OWN}/namespaces/{case.override['metadata']['namespace']}/overridepreviews"
    code, answer = person.ask("POST", where, body)
    assert (code, answer["status"]["method"]) == (201, "what-if"), answer
    return msgspec.convert(answer["status"], Preview)


def decider_misses(what_if: Preview, before: Outcome, seen: Outcome) -> str:
    """Why the pure decider was wrong about the cluster; '': it was right. It says of each waiting pod whether
    it is placed, and nothing of pods that are placed already."""
    placed = sum(each.with_.startswith("it fits ") for each in what_if.what_if)
    said = (before.cluster.pending - placed, sum(before.cluster.bound.values()) + placed, 0)
    was = (seen.cluster.pending, sum(seen.cluster.bound.values()), seen.cluster.evicted)
    names = ("waiting", "with a node", "evicted")
    wrong = [f"{name}: {a} said, {b} seen" for name, a, b in zip(names, said, was, strict=True) if a != b]
    return "; ".join(wrong)


class Reality:
    """What the cluster comes to, once the override exists, and after its end."""

    def __init__(self, cluster: Cluster, case: Case, preview: Preview) -> None:
        self._cluster, self._futures = cluster, preview.with_
        self._preview = preview
        self._is_target = target_of(read(SchedulerOverride, case.override))
        nodes = {metadata(node)["name"]: labels_of(node) for node in listed(cluster)("nodes")}
        self.evictions = Evictions(cluster, self._is_target, nodes)
        self.before = self.seen()
        meta = case.override["metadata"]
        self._where = f"{OWN}/namespaces/{meta['namespace']}/scheduleroverrides"
        self._path = f"{self._where}/{meta['name']}"
        cluster.ask("POST", self._where, case.override)
        self._alike = 0

    def end(self) -> None:
        """From now on it is compared with what the fork said of the time after the end."""
        after = self._preview.after_the_end
        assert after is not None
        self._futures, self._alike = after.with_, 0
        self._cluster.ask("DELETE", self._path)

    def seen(self) -> Outcome:
        return outcome_of(listed(self._cluster), "", self._is_target, self.evictions.uids)

    def stays_as_predicted(self) -> bool:
        """So many looks in a row."""
        self._alike = 0 if self.wrong() else self._alike + 1
        return self._alike >= LOOKS

    def told(self, case: str) -> str:
        return f"{case}: {self.wrong()}"

    def wrong(self) -> dict[Measure, tuple[int, int, int]]:
        return misses(self._futures, self.seen())


def drawn_cases(rng: random.Random) -> list[Draw]:
    more = [rng.choice(MOVING) for _ in range(CASES - len(DRAWN))]
    cases = [*DRAWN, *more]
    rng.shuffle(cases)
    return cases


@pytest.fixture
def person(own_cluster: Cluster) -> Person:
    """Somebody who may read everything and write overrides, and may not fork the cluster."""
    made = Person(own_cluster, "reader")
    steers = {"apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides", "capacityclasses"]}
    reads = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"]}
    rules = [{**steers, "verbs": ["*"]}, reads]
    own_cluster.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "reader"}, "rules": rules})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "reader"}
    for role in ("view", "reader"):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": f"reader-{role}"}, "roleRef": reference, "subjects": [subject]}
        own_cluster.ask("POST", f"{RBAC}/clusterrolebindings", binding)
    return made


def test_what_a_preview_says_is_what_happens(own_cluster: Cluster, person: Person, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    rng = random.Random(seed)
    decider_wrong: list[str] = []
    for number, draw in enumerate(drawn_cases(rng)):
        case = draw(rng, f"case-{number}")
        set_up(own_cluster, case)
        preview, what_if = asked(own_cluster, case), decided(own_cluster, person, case)
        assert preview.refused is None, (seed, case.told, preview.refused)
        reality = Reality(own_cluster, case, preview)
        told = f"seed {seed}, case {number}: {case.told}: {len(preview.difference)} counts change"
        until(reality.stays_as_predicted, partial(reality.told, told), within_s=180)
        why = decider_misses(what_if, reality.before, reality.seen())
        decider_wrong += [f"{told}; the pure decider: {why}"] if why else []
        reality.end()
        until(reality.stays_as_predicted, partial(reality.told, f"{told}, after its end"), within_s=180)
        with (tmp_path / "cases").open("a") as file:
            file.write(f"{told}, as said; after its end too; the pure decider: {why or 'right'}\n")
        reality.evictions.close()
        clean_up(own_cluster, case)
    assert len(decider_wrong) >= 2, f"seed {seed}: a fork says no more than the pure decider"
