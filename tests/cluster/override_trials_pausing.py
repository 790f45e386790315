"""Trials of the changes that pause something."""

from __future__ import annotations

import pytest
from tests.cluster.living import Obj
from tests.cluster.override_trials import Trial
from tests.cluster.programs import own

from fathom.model.objects import lookup


def autoscaler(app: str, least: int) -> Obj:
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app}
    spec = {"scaleTargetRef": scaled, "minReplicas": least, "maxReplicas": 9}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": app},
        "spec": spec,
    }


class PauseAutoscaler(Trial):
    change = "pauseAutoscaler"

    def _path(self) -> str:
        return self.place.path("horizontalpodautoscalers", "/apis/autoscaling/v2")

    def before(self) -> None:
        self.place.run(self.app)
        self.place.make(self._path(), autoscaler(self.app, 2))
        self.place.until_ready(self.app, 2)

    def in_force(self) -> None:
        self.place.cluster.patch(f"{self._path()}/{self.app}", {"spec": {"minReplicas": 3}})
        self.place.until(lambda: self.place.decided_by(self.name), "the autoscaler is held back")
        assert len(self.place.pods(self.app)) == 2

    def after(self) -> None:
        self.place.until_ready(self.app, 3)


class PauseRollout(Trial):
    change = "pauseRollout"

    def _patch(self, word: str) -> None:
        template = {"metadata": {"annotations": {"word": word}}}
        path = f"{self.place.deployments}/{self.app}"
        self.place.cluster.patch(path, {"spec": {"template": template}})

    def _words(self) -> set[str]:
        return {each["metadata"].get("annotations", {}).get("word", "") for each in self.place.pods(self.app)}

    def before(self) -> None:
        self.place.run(self.app, replicas=2)
        self._patch("one")
        self.place.until(lambda: self._words() == {"one"}, "a rollout goes on")
        self.place.until_ready(self.app, 2)

    def in_force(self) -> None:
        self._patch("two")
        self.place.until(lambda: self.place.decided_by(self.name), "the rollout is held back")
        assert self._words() == {"one"}

    def after(self) -> None:
        self.place.until(lambda: self._words() == {"two"}, "the rollout goes on")


class PauseRepair(Trial):
    """Of a reservation whose pod is gone, which repair releases at once."""

    change = "pauseRepair"

    def _leak(self, workload: str, name: str) -> str:
        notes = {"fathom.dev/pod": f"{name}-pod", "fathom.dev/pod-uid": f"{name}-uid"}
        spec = {
            "workload": {"name": workload, "uid": f"{name}-owner"},
            "intent": name,
            "nodeName": self.place.nodes[0],
            "resources": {"cpu": "10m"},
        }
        leaked = {**own("Reservation", name, **spec), "metadata": {"name": name, "annotations": notes}}
        path = self.place.path("reservations")
        self.place.make(path, leaked)
        return f"{path}/{name}"

    def _phase(self, path: str) -> str:
        return str(lookup(self.place.get(path), "status", "phase") or "")

    def before(self) -> None:
        self.place.run(self.app, replicas=0)
        path = self._leak(self.app, f"{self.place.word}-early")
        self.place.until(lambda: self._phase(path) == "Released", "repair releases it")

    def in_force(self) -> None:
        self.held = self._leak(self.app, f"{self.place.word}-late")
        self.place.until(lambda: self.place.decided_by(self.name), "repair is held back")
        other = self._leak("another", f"{self.place.word}-other")
        self.place.until(lambda: self._phase(other) == "Released", "another workload's is released")
        assert self._phase(self.held) in {"", "Active"}

    def after(self) -> None:
        self.place.until(lambda: self._phase(self.held) == "Released", "repair releases it")


class PauseExpansion(Trial):
    change = "pauseExpansion"

    def before(self) -> None:
        self.place.run(self.app)
        self.place.scale(self.app, 2)
        self.place.until_ready(self.app, 2)

    def in_force(self) -> None:
        with pytest.raises(AssertionError, match=f"override {self.home}/{self.name} pauses expansion"):
            self.place.scale(self.app, 3)
        lost = self.place.pods(self.app)[0]
        self.place.delete_pod(lost)
        self.place.until(lambda: lost["metadata"]["uid"] not in self._uids(), "the pod is gone")
        self.place.until_ready(self.app, 2)

    def _uids(self) -> set[str]:
        return {each["metadata"]["uid"] for each in self.place.pods(self.app)}

    def after(self) -> None:
        self.place.scale(self.app, 3)
        self.place.until_ready(self.app, 3)
