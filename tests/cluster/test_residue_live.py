"""The proof at the end of a recovery, on a running cluster: one effect is left behind by hand, with the
override's UID on it or with that mark removed. The proof does not succeed, and names it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from tests.cluster.living import Cluster, Obj
from tests.cluster.override_trials import HOST, OWN, POOL, ZONE, Place
from tests.cluster.programs import own
from tests.cluster.steering import RBAC, Person
from tests.deep import all_but

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import lookup

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

HELD = "example.com/held"  # A finalizer that nobody removes.
MARKS = ("fathom.dev/overrides", "fathom.dev/account", "fathom.dev/override", "fathom.dev/override-routes")
UNMARKED = dict.fromkeys((*MARKS, "fathom.dev/override-earlier-routes", "fathom.dev/break-glass"))


class Region:
    """Three zones: one whose data is said to be stale, an ordinary one, one that is reserved for recovery."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self.cluster, self.rng = cluster, rng
        self.capacity_class = f"recovery-{rng.randrange(1000)}"
        nodes = cluster.ask("GET", "/api/v1/nodes")["items"]
        self.zones = {each["metadata"]["labels"][ZONE]: str(each["metadata"]["name"]) for each in nodes}
        self.stale, self.ordinary, self.reserved = rng.sample(sorted(self.zones), 3)
        cluster.patch(f"/api/v1/nodes/{self.zones[self.stale]}", {"spec": {"unschedulable": True}})
        labels = {"metadata": {"labels": {POOL: self.capacity_class}}}
        cluster.patch(f"/api/v1/nodes/{self.zones[self.reserved]}", labels)
        reserved = own(
            "CapacityClass", self.capacity_class, nodeSelector={POOL: self.capacity_class}, tenants=["others"]
        )
        cluster.ask("POST", f"{OWN}/capacityclasses", reserved)


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    seed = int.from_bytes(os.urandom(4))
    rng = random.Random(seed)
    zones = ",".join(f"r{rng.randrange(1000)}-{letter}" for letter in "abc")
    cluster = Cluster(tmp_path_factory.mktemp(f"residue-{seed}"), "--nodes", "3", "--zones", zones)
    try:
        cluster.start()
        yield Region(cluster, rng)
        cluster.stop()
    finally:
        cluster.end()


class Recovery:
    """Of a workload whose second replica waits. `leave` leaves an effect behind and returns how the residue
    names it; `unmark` removes the mark from it; `clear` removes the effect."""

    name: ClassVar[str]

    def __init__(self, region: Region) -> None:
        self.region = region
        self.place = Place(region.cluster, region.rng, self.name)
        self.app = f"api-{region.rng.randrange(1000)}"
        self.override = f"{self.app}-recovery"
        self.more: Obj = {}

    @property
    def path(self) -> str:
        return f"{self.place.path('scheduleroverrides')}/{self.override}"

    def recover(self) -> None:
        labels = {"matchLabels": {"app": self.app}}
        term = {"labelSelector": labels, "topologyKey": HOST}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        self.place.run(self.app, replicas=2, inner={"affinity": apart})
        self.place.until_ready(self.app, 1, waiting=1)
        changes = {
            "pauseAutoscaler": True,
            "avoidZones": [self.region.stale],
            "allowReservedCapacityClass": self.region.capacity_class,
            "reservedReplicas": 2,
            **self.more,
        }
        spec = {"target": f"workload/{self.app}", "scope": "cluster", "reason": "recovery-capacity"}
        wanted = own(
            "SchedulerOverride",
            self.override,
            **spec,
            expiresAfter="30m",
            onEnd="move",
            changes=changes,
        )
        self.place.make(self.place.path("scheduleroverrides"), wanted)
        self.place.until_ready(self.app, 2)
        self.place.until(lambda: self.status().get("active"), "it is active")
        self.uid = str(self.place.get(self.path)["metadata"]["uid"])

    def status(self) -> Obj:
        status: Obj = self.place.get(self.path).get("status") or {}
        return status

    def lent(self) -> Obj:
        """The pod on reserved capacity."""
        node = self.region.zones[self.region.reserved]
        (pod,) = [each for each in self.place.ready(self.app) if each["spec"]["nodeName"] == node]
        return pod

    @property
    def reference(self) -> str:
        return f"{self.place.namespace}/{self.override}@{self.uid}"

    def patch(self, path: str, change: Obj) -> Obj:
        changed: Obj = self.place.cluster.patch(path, change)
        return changed

    def leave(self) -> tuple[str, str]:
        raise NotImplementedError

    def unmark(self) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError


class Account(Recovery):
    """A budget that somebody has added keeps the pod from moving."""

    name = "account"

    def leave(self) -> tuple[str, str]:
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": self.app}}}
        budgets = self.place.path("poddisruptionbudgets", "/apis/policy/v1")
        self.place.make(budgets, {"metadata": {"name": self.app}, "spec": spec})
        self.place.until(
            lambda: lookup(self.place.get(f"{budgets}/{self.app}"), "status", "currentHealthy") == 2,
            "the budget counts",
        )
        self.pod = f"{self.place.pods_path}/{self.lent()['metadata']['name']}"
        return "account", f"Pod {self.place.namespace}/{self.lent()['metadata']['name']}"

    def unmark(self) -> None:
        notes = self.patch(self.pod, {"metadata": {"annotations": UNMARKED}})["metadata"]["annotations"]
        assert self.uid in notes["fathom.dev/account"], "only the server writes accounts"
        assert "fathom.dev/overrides" not in notes

    def clear(self) -> None:
        self.place.cluster.ask("DELETE", self.pod, {"gracePeriodSeconds": 0})


class Reservation(Recovery):
    """Room of the class that somebody has reserved for the workload."""

    name = "reservation"

    def leave(self) -> tuple[str, str]:
        owner = self.lent()["metadata"]["ownerReferences"][0]
        spec = {
            "workload": {"name": self.app, "uid": owner["uid"]},
            "intent": "by-hand",
            "slot": 7,
            "nodeName": self.region.zones[self.region.reserved],
            "resources": {"cpu": "10m"},
            "capacityClass": self.region.capacity_class,
        }
        meta = {
            "name": f"{self.app}-held",
            "finalizers": [HELD],
            "annotations": {"fathom.dev/overrides": self.reference},
        }
        reservations = self.place.path("reservations")
        self.place.make(reservations, {**own("Reservation", self.app, **spec), "metadata": meta})
        self.held = f"{reservations}/{self.app}-held"
        return "reservation", f"Reservation {self.place.namespace}/{self.app}-held"

    def unmark(self) -> None:
        self.patch(self.held, {"metadata": {"annotations": UNMARKED}})

    def clear(self) -> None:
        self.patch(self.held, {"metadata": {"finalizers": None}})


class Taint(Recovery):
    """A taint that somebody has put on a node for the override, with fathom's own key."""

    name = "taint"
    key = "fathom.dev/override"

    def leave(self) -> tuple[str, str]:
        self.node = self.region.zones[self.region.ordinary]
        self._tainted(self.uid)
        return "taint", f"Node {self.node}"

    def _tainted(self, value: str) -> None:
        taint = {"key": self.key, "value": value, "effect": "PreferNoSchedule"}
        self.patch(f"/api/v1/nodes/{self.node}", {"spec": {"taints": [taint]}})

    def unmark(self) -> None:
        self._tainted("")

    def clear(self) -> None:
        self.patch(f"/api/v1/nodes/{self.node}", {"spec": {"taints": None}})


class ForeignTaint(Taint):
    """With a key of somebody else's. Without the mark, the record alone tells whose it was."""

    name = "foreign-taint"
    key = "example.com/careful"

    def unmark(self) -> None:
        recorded = ("taint", f"Node {self.node}")
        self.place.until(lambda: recorded in effects(self.status()), "it is recorded")
        super().unmark()


class NodeMark(Recovery):
    """A node that somebody has marked as changed for the override."""

    name = "mark"

    def leave(self) -> tuple[str, str]:
        self.node = self.region.zones[self.region.ordinary]
        self._marked(self.reference)
        return "taint", f"Node {self.node}"

    def _marked(self, value: str | None) -> None:
        notes = {"fathom.dev/override": value}
        self.patch(f"/api/v1/nodes/{self.node}", {"metadata": {"annotations": notes}})

    def unmark(self) -> None:
        self._marked(self.reference.partition("@")[0])

    def clear(self) -> None:
        self._marked(None)


class Weights(Recovery):
    """A route that keeps the override's weights."""

    name = "weights"

    def __init__(self, region: Region) -> None:
        super().__init__(region)
        self.more = {"trafficWeights": {region.stale: 0, region.ordinary: region.rng.randrange(1, 9)}}

    def recover(self) -> None:
        spec = {"selector": {"app": self.app}, "ports": [{"port": 80, "targetPort": 8080}]}
        self.place.make(
            self.place.path("services", "/api/v1"), {"metadata": {"name": self.app}, "spec": spec}
        )
        super().recover()

    def leave(self) -> tuple[str, str]:
        routes = self.place.path("trafficroutes")
        self.route = f"{routes}/override-{self.override}"
        self.place.until(lambda: self.place.get(routes)["items"], "the route is written")
        self.patch(self.route, {"metadata": {"finalizers": [HELD]}})
        return "route", f"TrafficRoute {self.place.namespace}/override-{self.override}"

    def unmark(self) -> None:
        self.patch(self.route, {"metadata": {"annotations": UNMARKED, "finalizers": None}})

    def clear(self) -> None:
        change: Any = {"metadata": {"finalizers": None}, "spec": {"routes": []}}
        self.patch(self.route, change)


class Role(Recovery):
    """What somebody made who broke the glass during the recovery."""

    name = "role"

    def recover(self) -> None:
        super().recover()
        place, self.fixer = self.place, f"{self.app}-fixer"
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        marked = {"name": self.fixer, "annotations": {"fathom.dev/break-glass": "true"}}
        place.make(f"{RBAC}/clusterroles", {"metadata": marked, "rules": [everything]})
        self.person = Person(place.cluster, f"{self.app}-person")
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": self.person.name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"metadata": {"name": self.person.name}, "roleRef": reference, "subjects": [subject]}
        place.make(f"{RBAC}/clusterrolebindings", binding)
        self.override = f"{self.app}-glass"
        spec = {"target": f"workload/{self.app}", "scope": "cluster", "reason": "nobody else is awake"}
        wanted = own(
            "SchedulerOverride",
            self.override,
            **spec,
            expiresAfter="30m",
            changes={"breakGlassRole": self.fixer},
        )
        code, made = self.person.ask("POST", place.path("scheduleroverrides"), wanted)
        assert code == 201, made
        place.until(lambda: self.status().get("active"), "it is active")
        self.uid = str(made["metadata"]["uid"])

    def leave(self) -> tuple[str, str]:
        name = f"{self.app}-left"
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        kinds: list[tuple[str, str, Obj]] = [
            ("Role", self.place.path("roles", RBAC), {"rules": []}),
            ("RoleBinding", self.place.path("rolebindings", RBAC), {"roleRef": reference, "subjects": []}),
            ("ServiceAccount", self.place.path("serviceaccounts", "/api/v1"), {}),
        ]
        kind, path, body = self.region.rng.choice(kinds)
        code, made = self.person.ask("POST", path, {"metadata": {"name": name}, **body})
        assert code == 201, made
        self.left = f"{path}/{name}"
        return "role", f"{kind} {self.place.namespace}/{name}"

    def unmark(self) -> None:
        """The server keeps the mark; whoever makes the object again has removed it."""
        kept = self.patch(self.left, {"metadata": {"annotations": UNMARKED}})
        assert kept["metadata"]["annotations"] == {"fathom.dev/break-glass": self.uid}

    def clear(self) -> None:
        self.place.cluster.ask("DELETE", self.left)


def effects(status: Obj) -> set[tuple[str, str]]:
    return {(each["effect"], each["object"]) for each in status.get("effects") or ()}


LEFT: tuple[type[Recovery], ...] = (Account, Reservation, Taint, ForeignTaint, NodeMark, Weights, Role)


@pytest.mark.parametrize(
    "marked", [pytest.param(True, marks=pytest.mark.full), False], ids=["marked", "unmarked"]
)
@pytest.mark.parametrize(
    "kind", all_but(LEFT, (ForeignTaint, NodeMark, Weights, Role)), ids=lambda kind: kind.name
)
def test_what_is_left_behind_by_hand_is_named_until_it_is_gone(
    region: Region, kind: type[Recovery], marked: bool
) -> None:
    recovery = kind(region)
    recovery.recover()
    named = recovery.leave()
    if not marked:
        recovery.unmark()
    place = recovery.place
    place.cluster.ask("DELETE", recovery.path)

    def proof() -> Obj:
        obj = place.get(recovery.path)
        return find_condition(conditions_of(obj), "RepairComplete") or {}

    def residue() -> set[tuple[str, str]]:
        return {(each["effect"], each["object"]) for each in recovery.status().get("residue") or ()}

    place.until(lambda: proof().get("reason") == "Residue" and residue() == {named}, f"{named} is named")
    assert proof()["status"] == "False"
    assert named[1] in proof()["message"]
    recovery.clear()
    place.until_gone(recovery.path)
