"""The risky response to a degraded workload, on a running cluster: a person patches objects by hand, against
the controllers that keep them. `fathom why` and `fathom coupling` name the person and each controller."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster.living import Cluster, Obj
from tests.cluster.override_trials import OWN, Place
from tests.cluster.programs import own
from tests.cluster.steering import RBAC, Person

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

MERGE = "application/merge-patch+json"
FIGHTERS = (
    "controllers/autoscaling",
    "controllers/deployments",
    "controllers/nodes",
    "controllers/replicasets",
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    cluster = Cluster(tmp_path, "--nodes", "2", "--zones", "a,b")
    try:
        cluster.start()
        yield Place(cluster, random.Random(os.urandom(8)), "risk")
        cluster.stop()
    finally:
        cluster.end()


class Response:
    """Somebody who may do everything, and does it by hand: each act undoes what a controller has done."""

    def __init__(self, place: Place) -> None:
        self.place, self.app = place, f"api-{place.rng.randrange(1000)}"
        self.person = Person(place.cluster, f"person-{place.rng.randrange(1000)}")
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": self.person.name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": self.person.name}, "roleRef": reference, "subjects": [subject]}
        place.make(f"{RBAC}/clusterrolebindings", binding)
        place.until(lambda: self.person.ask("GET", "/api/v1/nodes")[0] == 200, "the binding is in force")

    def degrade(self) -> None:
        """The quota has room for two pods of three, one node is cordoned, and an autoscaler wants three."""
        place = self.place
        limits = [{"resources": {"pods": "2"}}]
        place.make(f"{OWN}/tenantquotas", own("TenantQuota", place.namespace, limits=limits))
        place.run(self.app, replicas=3, on=place.nodes[1])
        scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.app}
        spec = {"scaleTargetRef": scaled, "minReplicas": 3, "maxReplicas": 3}
        place.make(
            place.path("horizontalpodautoscalers", "/apis/autoscaling/v2"),
            {"metadata": {"name": self.app}, "spec": spec},
        )
        place.until_ready(self.app, 2, waiting=1)
        place.cluster.patch(self.node, {"spec": {"unschedulable": True}})
        place.until(lambda: place.get(self.node)["spec"].get("taints"), "the node is tainted")

    @property
    def node(self) -> str:
        return f"/api/v1/nodes/{self.place.nodes[0]}"

    @property
    def deployment(self) -> str:
        return f"{self.place.deployments}/{self.app}"

    @property
    def replica_set(self) -> Obj:
        (found,) = self.place.get(self.place.path("replicasets", "/apis/apps/v1"))["items"]
        obj: Obj = found
        return obj

    @property
    def quota(self) -> str:
        return f"{OWN}/tenantquotas/{self.place.namespace}"

    def delete_pending_replicas(self) -> None:
        for pod in self.place.pods(self.app):
            if not pod["spec"].get("nodeName"):
                self.person.ask("DELETE", f"{self.place.pods_path}/{pod['metadata']['name']}", {})

    def increase_desired_replicas(self) -> None:
        if self.place.get(self.deployment)["spec"]["replicas"] == 3:
            self._write(self.deployment, {"spec": {"replicas": 4}})

    def scale_the_replica_set(self) -> None:
        wanted = self.place.get(self.deployment)["spec"]["replicas"]
        if self.replica_set["spec"]["replicas"] == wanted:
            path = f"{self.place.path('replicasets', '/apis/apps/v1')}/{self.replica_set['metadata']['name']}"
            self._write(path, {"spec": {"replicas": wanted + 3}})

    def make_the_node_eligible(self) -> None:
        if self.place.get(self.node)["spec"].get("taints"):
            self._write(self.node, {"spec": {"taints": None}})

    def forget_what_the_quota_counted(self) -> None:
        if (self.place.get(self.quota).get("status") or {}).get("used"):
            self._write(f"{self.quota}/status", {"status": {"used": []}})

    def _write(self, path: str, change: Obj) -> None:
        code, answer = self.person.ask("PATCH", path, change, MERGE)
        assert code in {200, 409}, answer

    @property
    def acts(self) -> tuple[Callable[[], None], ...]:
        return (
            self.delete_pending_replicas,
            self.increase_desired_replicas,
            self.scale_the_replica_set,
            self.make_the_node_eligible,
            self.forget_what_the_quota_counted,
        )


def asked(cluster: Cluster, *words: str) -> Obj:
    command = [sys.executable, "-m", "fathom.cli", *words, "-o", "json"]
    command += ["--kubeconfig", str(cluster.data / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr
    document: Obj = json.loads(done.stdout)
    return document


@pytest.mark.full
def test_the_person_and_the_controllers_that_are_fought_are_named(place: Place) -> None:
    response = Response(place)
    response.degrade()
    acts = itertools.cycle(response.acts)
    fights: list[str] = []

    def all_are_named() -> bool:
        """By the Events that anybody sees."""
        for _ in response.acts:
            next(acts)()
        events = [
            each
            for namespace in (place.namespace, "default")
            for each in place.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        ]
        fights[:] = [each["message"] for each in events if each["reason"] == "FieldHasTwoWriters"]
        return all(any(_names(text, response, fighter) for text in fights) for fighter in FIGHTERS)

    place.until(all_are_named, "each fight has an Event", within_s=150)

    where = ("-n", place.namespace)
    why = asked(place.cluster, "why", f"deploy/{response.app}", *where)
    for fighter in FIGHTERS:
        assert any(_names(text, response, fighter) for text in why["fights"]), (fighter, why["fights"])
    coupling = asked(place.cluster, "coupling", f"deploy/{response.app}", *where)
    assert coupling["fights"] == why["fights"]
    assert "spec.replicas" in coupling["contested"]
    node, quota = f"node/{place.nodes[0]}", f"tenantquota/{place.namespace}"
    assert asked(place.cluster, "coupling", node)["contested"] == ["spec.taints"]
    _check_quota(response, asked(place.cluster, "coupling", quota))


def _names(text: str, response: Response, fighter: str) -> bool:
    return response.person.name in text and fighter in text


def _check_quota(response: Response, coupling: Obj) -> None:
    """The quota's status is a report: the audit log has who writes it in turn with the quota controller."""
    writers = {each["writer"] for each in coupling["observed"] if each["field"].startswith("status.used")}
    assert writers == {"housekeeping/tenant-quotas", response.person.name}
    assert {field.partition("[")[0] for field in coupling["contested"]} == {"status.used"}
