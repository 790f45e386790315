"""A trial of one change of an override on a running cluster: before, while it is in force, after its end."""

from __future__ import annotations

import json
import random
from typing import Any, ClassVar

from tests.cluster.living import Cluster, Obj, until
from tests.cluster.programs import deployment, own

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import lookup

OWN = "/apis/fathom.dev/v1alpha1"
SYSTEM = "fathom-system"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
POOL, CLASS, RACK = "fathom.dev/pool", "fathom.dev/node-class", "example.com/rack"


class Place:
    """A namespace with a drawn name, and the nodes of the cluster in a drawn order."""

    def __init__(self, cluster: Cluster, rng: random.Random, word: str) -> None:
        self.cluster, self.rng = cluster, rng
        self.word = f"{word.lower()}-{rng.randrange(10_000)}"
        self.namespace = f"{self.word}-ns"
        self.nodes = sorted(
            str(node["metadata"]["name"]) for node in cluster.ask("GET", "/api/v1/nodes")["items"]
        )
        rng.shuffle(self.nodes)
        self.make("/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    # Paths.

    def path(self, plural: str, api: str = OWN, namespace: str | None = None) -> str:
        return f"{api}/namespaces/{namespace or self.namespace}/{plural}"

    @property
    def pods_path(self) -> str:
        return self.path("pods", "/api/v1")

    @property
    def deployments(self) -> str:
        return self.path("deployments", "/apis/apps/v1")

    # Objects.

    def make(self, path: str, obj: Obj) -> Obj:
        made: Obj = self.cluster.ask("POST", path, obj)
        return made

    def get(self, path: str) -> Obj:
        obj: Obj = self.cluster.ask("GET", path)
        return obj

    def run(self, app: str, *, replicas: int = 1, on: str = "", **fields: Any) -> Obj:
        """A Deployment, on one node if that is given."""
        inner = {**({"nodeSelector": {HOST: on}} if on else {}), **fields.pop("inner", {})}
        return self.make(self.deployments, deployment(app, replicas=replicas, inner=inner, **fields))

    def scale(self, app: str, replicas: int) -> None:
        self.cluster.patch(f"{self.deployments}/{app}", {"spec": {"replicas": replicas}})

    def pods(self, app: str) -> list[Obj]:
        items: list[Obj] = self.get(f"{self.pods_path}?labelSelector=app%3D{app}")["items"]
        return [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]

    def ready(self, app: str) -> list[Obj]:
        return [pod for pod in self.pods(app) if _is(pod, "Ready", "True")]

    def delete_pod(self, pod: Obj) -> None:
        self.cluster.ask("DELETE", f"{self.pods_path}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})

    # States that are waited for.

    def until(self, check: Any, about: str = "", within_s: float = 60.0) -> None:
        until(check, lambda: f"{self.word}: {about}: {self._told()}", within_s)

    def until_ready(self, app: str, ready: int, waiting: int = 0) -> list[Obj]:
        """So many pods are ready, so many wait for a node, and there is no other."""

        def seen() -> bool:
            pods = self.pods(app)
            unplaced = [pod for pod in pods if _is(pod, "PodScheduled", "False")]
            counts = (len(self.ready(app)), len(unplaced), len(pods))
            return counts == (ready, waiting, ready + waiting)

        self.until(seen, f"{ready} pods of {app} are ready, and {waiting} wait")
        return self.ready(app)

    def until_gone(self, path: str) -> None:
        collection, _, name = path.rpartition("/")

        def names() -> list[str]:
            return [str(each["metadata"]["name"]) for each in self.get(collection)["items"]]

        self.until(lambda: name not in names(), f"{path} is gone")

    def decided_by(self, override: str) -> list[Obj]:
        """Recorded decisions of the namespace that this override made what they are."""
        items: list[Obj] = self.get(self.path("decisions"))["items"]
        return [
            each
            for each in items
            if any(
                used.get("decisive") and used.get("name") == override
                for used in lookup(each, "spec", "overrides") or ()
            )
        ]

    def _told(self) -> str:
        pods = [
            (
                each["metadata"]["name"],
                each["spec"].get("nodeName"),
                each["status"].get("phase"),
                [condition for condition in conditions_of(each) if condition["status"] != "True"],
            )
            for each in self.get(self.pods_path)["items"]
        ]
        overrides = [
            (each["metadata"]["name"], each.get("status"))
            for each in self.get(f"{OWN}/scheduleroverrides")["items"]
            if self.word in each["metadata"]["name"] or each["metadata"]["namespace"] == self.namespace
        ]
        return json.dumps({"pods": pods, "overrides": overrides})


def _is(obj: Obj, type_: str, status: str) -> bool:
    return (find_condition(conditions_of(obj), type_) or {}).get("status") == status


class Trial:
    """What one change does. `before` makes the situation and sees what happens without the override,
    `in_force` what happens with it, `after` what happens once it has ended."""

    change: ClassVar[str]
    app = "app"

    def __init__(self, place: Place) -> None:
        self.place = place
        self.name = f"{place.word}-override"

    # What a trial says.

    def value(self) -> Any:
        return True

    def target(self) -> str:
        return f"workload/{self.app}"

    def more(self) -> Obj:
        """Other changes, without which this one does nothing."""
        return {}

    def before(self) -> None:
        raise NotImplementedError

    def in_force(self) -> None:
        raise NotImplementedError

    def after(self) -> None:
        raise NotImplementedError

    # The override.

    @property
    def home(self) -> str:
        of_nodes = self.target().partition("/")[0] in {"node", "zone", "pool"}
        return SYSTEM if of_nodes else self.place.namespace

    @property
    def path(self) -> str:
        return f"{self.place.path('scheduleroverrides', namespace=self.home)}/{self.name}"

    def override(self) -> Obj:
        return own(
            "SchedulerOverride",
            self.name,
            target=self.target(),
            scope="cluster",
            reason="a trial",
            expiresAfter="20m",
            changes={self.change: self.value(), **self.more()},
        )

    def begin(self) -> None:
        self.place.make(self.path.rpartition("/")[0], self.override())
        self.place.until(self.is_in_force, f"{self.change} is in force")

    def is_in_force(self) -> bool:
        status = self.place.get(self.path).get("status") or {}
        states = {each["name"]: each["state"] for each in status.get("changes") or ()}
        return bool(status.get("active")) and states.get(self.change) == "InForce"

    def end(self) -> None:
        self.place.cluster.ask("DELETE", self.path)

    def gone(self) -> None:
        """Its end is proven: nothing of it is left."""
        self.place.until_gone(self.path)

    def run(self) -> None:
        self.before()
        self.begin()
        self.in_force()
        self.end()
        self.after()
        self.gone()
