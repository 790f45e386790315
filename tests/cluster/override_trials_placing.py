"""Trials of the changes that say where pods go: places, capacity, priority, nodes."""

from __future__ import annotations

from typing import Any

from tests.cluster.living import Obj
from tests.cluster.override_trials import HOST, OWN, RACK, ZONE, Trial
from tests.cluster.programs import own

from fathom.model.objects import lookup


class Avoid(Trial):
    """The workload can run on one node only, and must avoid it."""

    def before(self) -> None:
        self.node = self.place.nodes[0]
        self.place.run(self.app, on=self.node)
        self.place.until_ready(self.app, 1)

    def in_force(self) -> None:
        self.place.scale(self.app, 2)
        self.place.until_ready(self.app, 1, waiting=1)
        self.place.until(lambda: self.place.decided_by(self.name), "the override keeps it off")
        self.place.run("other", on=self.node)
        self.place.until_ready("other", 1)
        self.place.until_ready(self.app, 1, waiting=1)

    def after(self) -> None:
        pods = self.place.until_ready(self.app, 2)
        assert {each["spec"]["nodeName"] for each in pods} == {self.node}


class AvoidZones(Avoid):
    change = "avoidZones"

    def value(self) -> Any:
        labels = self.place.get(f"/api/v1/nodes/{self.node}")["metadata"]["labels"]
        return [labels[ZONE]]


class AvoidNodes(Avoid):
    change = "avoidNodes"

    def value(self) -> Any:
        return [self.node]


class AvoidNodeClasses(Avoid):
    change = "avoidNodeClasses"

    def value(self) -> Any:
        return [f"class-{self.node}"]


class AvoidPools(Avoid):
    change = "avoidPools"

    def value(self) -> Any:
        return [f"pool-{self.node}"]


class AvoidTopology(Avoid):
    change = "avoidTopology"

    def value(self) -> Any:
        return {RACK: [f"rack-{self.node}"]}


# Quota and priority.


class Reserved(Trial):
    """All pods need a node that is reserved for a class which nobody may use."""

    replicas, allowed = 2, 2

    def before(self) -> None:
        self.klass = f"{self.place.word}-class"
        self.node = self.place.nodes[0]
        reserved = own("CapacityClass", self.klass, nodeSelector={HOST: self.node}, tenants=[])
        self.place.make(f"{OWN}/capacityclasses", reserved)
        self.place.run(self.app, on=self.node, replicas=self.replicas)
        self.place.until_ready(self.app, 0, waiting=self.replicas)

    def in_force(self) -> None:
        pods = self.place.until_ready(self.app, self.allowed, waiting=self.replicas - self.allowed)
        accounts = [each["metadata"]["annotations"]["fathom.dev/account"] for each in pods]
        assert {text.split("/")[2] for text in accounts} == {self.klass}

    def after(self) -> None:
        """They stay, and are named; what replaces them waits."""

        def residue() -> set[str]:
            status = self.place.get(self.path).get("status") or {}
            return {each["object"] for each in status.get("residue") or ()}

        left = self.place.ready(self.app)
        names = {f"Pod {self.place.namespace}/{each['metadata']['name']}" for each in left}
        self.place.until(lambda: residue() == names, "its pods are named")
        for each in left:
            self.place.delete_pod(each)
        self.place.until_ready(self.app, 0, waiting=self.replicas)
        self.gone()
        self.place.cluster.ask("DELETE", f"{OWN}/capacityclasses/{self.klass}")
        self.place.until_ready(self.app, self.replicas)


class AllowReservedCapacityClass(Reserved):
    change = "allowReservedCapacityClass"

    def value(self) -> Any:
        return self.klass


class ReservedReplicas(Reserved):
    change = "reservedReplicas"
    replicas, allowed = 3, 1

    def value(self) -> Any:
        return self.allowed

    def more(self) -> Obj:
        return {"allowReservedCapacityClass": self.klass}


class RaisePriority(Trial):
    """Two workloads wait for a node that has room for one pod of either."""

    change = "raisePriority"
    rival = "rival"

    def value(self) -> Any:
        return 1000

    def before(self) -> None:
        self.node = self.place.nodes[0]
        self.place.make(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": self.place.word}, "value": 500, "preemptionPolicy": "Never"},
        )
        cpu = str(lookup(self.place.get(f"/api/v1/nodes/{self.node}"), "status", "allocatable", "cpu"))
        milli = int(cpu.removesuffix("m")) if cpu.endswith("m") else int(cpu) * 1000
        most = {"resources": {"requests": {"cpu": f"{milli * 6 // 10}m"}}}
        self._cordoned(True)
        self.place.run(self.app, on=self.node, of=most)
        self.place.run(self.rival, on=self.node, of=most, inner={"priorityClassName": self.place.word})
        self._first(self.rival, self.app)

    def _cordoned(self, cordoned: bool) -> None:
        spec = {"unschedulable": cordoned or None}
        self.place.cluster.patch(f"/api/v1/nodes/{self.node}", {"spec": spec})

    def _first(self, first: str, other: str) -> None:
        """Both wait; then there is room: this one gets it. Then both wait again."""
        for app in (first, other):
            self.place.until_ready(app, 0, waiting=1)
        self._cordoned(False)
        (pod,) = self.place.until_ready(first, 1)
        self.place.until_ready(other, 0, waiting=1)
        self._cordoned(True)
        self.place.delete_pod(pod)
        self.place.until_ready(first, 0, waiting=1)

    def in_force(self) -> None:
        self._first(self.app, self.rival)

    def after(self) -> None:
        self._first(self.rival, self.app)
        self._cordoned(False)


# Infrastructure.


class Cordon(Trial):
    change = "cordon"

    def target(self) -> str:
        return f"node/{self.node}"

    def before(self) -> None:
        self.node = self.place.nodes[0]
        self.place.run(self.app, on=self.node)
        self.place.until_ready(self.app, 1)

    def in_force(self) -> None:
        self.place.scale(self.app, 2)
        self.place.until_ready(self.app, 1, waiting=1)
        self.place.run("elsewhere", on=self.place.nodes[1])
        self.place.until_ready("elsewhere", 1)
        self.place.until_ready(self.app, 1, waiting=1)

    def after(self) -> None:
        self.place.until_ready(self.app, 2)
        assert "unschedulable" not in self.place.get(f"/api/v1/nodes/{self.node}")["spec"]


class Drain(Trial):
    change = "drain"

    def target(self) -> str:
        return f"node/{self.node}"

    def before(self) -> None:
        self.node = self.place.nodes[0]
        self.place.run(self.app, replicas=4)
        pods = self.place.until_ready(self.app, 4)
        # By UID: a replacement may have the name of a pod that is gone.
        self.evicted = {each["metadata"]["uid"] for each in pods if each["spec"]["nodeName"] == self.node}
        assert self.evicted, "the scheduler spreads them"

    def in_force(self) -> None:
        self.place.until(lambda: self.node not in self._nodes(), "the node is empty")
        pods = self.place.until_ready(self.app, 4)
        assert self.node not in self._nodes()
        assert not self.evicted & {each["metadata"]["uid"] for each in pods}

    def _nodes(self) -> set[str]:
        return {each["spec"].get("nodeName") for each in self.place.pods(self.app)}

    def after(self) -> None:
        """Pods do not return by themselves; the node takes new ones."""
        assert self.node not in self._nodes()
        self.place.run("new", on=self.node)
        self.place.until_ready("new", 1)
