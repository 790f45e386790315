"""Trials of the changes that approve repairs, shift traffic, and grant a role."""

from __future__ import annotations

import urllib.request
from collections import Counter
from typing import Any

from tests.cluster.living import PROGRAM, Obj
from tests.cluster.override_trials import HOST, ZONE, Trial
from tests.cluster.steering import RBAC, Person

from fathom.model.objects import lookup


class ApproveRepairs(Trial):
    """Of two proposals that repair has made, one is approved."""

    change = "approveRepairs"

    def _proposals(self) -> dict[str, Obj]:
        """By the name of their subject."""
        items = self.place.get(self.place.path("repairproposals"))["items"]
        return {str(lookup(each, "spec", "subject", "name")): each for each in items}

    def _phase(self, subject: str) -> str:
        return str(lookup(self._proposals().get(subject), "status", "phase") or "")

    def before(self) -> None:
        self.app, self.other = (f"{self.place.word}-{each}" for each in ("first", "second"))
        self.place.until(
            lambda: {self._phase(self.app), self._phase(self.other)} == {"Proposed"}, "repair proposes"
        )
        self.place.get(f"{self.place.deployments}/{self.app}")

    def value(self) -> Any:
        return [self._proposals()[self.app]["metadata"]["name"]]

    def is_in_force(self) -> bool:
        """Repair is so quick that the target may be gone by then."""
        return bool((self.place.get(self.path).get("status") or {}).get("active"))

    def in_force(self) -> None:
        self.place.until_gone(f"{self.place.deployments}/{self.app}")
        self.place.until(lambda: self._phase(self.app) == "Done", "the proposal is done")

    def after(self) -> None:
        """What was approved stays done, and the other one waits as before."""
        self.gone()
        assert (self._phase(self.app), self._phase(self.other)) == ("Done", "Proposed")
        self.place.get(f"{self.place.deployments}/{self.other}")


class TrafficWeights(Trial):
    """Two pods in two zones answer in turn."""

    change = "trafficWeights"

    def before(self) -> None:
        spread = {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": self.app}},
        }
        fields = [("POD_NAME", "metadata.name"), ("POD_IP", "status.podIP")]
        env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields]
        probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
        serves = {
            "command": ["python3", "-c", PROGRAM],
            "env": [*env, {"name": "WORD", "value": "-"}],
            "readinessProbe": probe,
        }
        self.place.run(self.app, replicas=2, of=serves, inner={"topologySpreadConstraints": [spread]})
        ports = [{"port": 80, "targetPort": 8080}]
        service = {"metadata": {"name": self.app}, "spec": {"selector": {"app": self.app}, "ports": ports}}
        self.place.make(self.place.path("services", "/api/v1"), service)
        nodes = {
            each["metadata"]["name"]: each["metadata"]["labels"][ZONE]
            for each in self.place.get("/api/v1/nodes")["items"]
        }
        self.zones = {
            each["metadata"]["name"]: nodes[each["spec"]["nodeName"]]
            for each in self.place.until_ready(self.app, 2)
        }
        self.kept, self.left = self.place.rng.sample(sorted(self.zones.values()), 2)
        self._until_answered_by({self.kept, self.left})

    def _until_answered_by(self, zones: set[str]) -> None:
        self.place.until(lambda: set(self._answers(20)) == zones, f"the answers come from {zones}")

    def _answers(self, count: int) -> Counter[str]:
        service = self.place.get(f"{self.place.path('services', '/api/v1')}/{self.app}")
        answers = (fetched(service["spec"]["clusterIP"]) for _ in range(count))
        return Counter(self.zones[text.split()[0]] if text else "nobody" for text in answers)

    def value(self) -> Any:
        return {self.left: 0, self.kept: 1}

    def in_force(self) -> None:
        self._until_answered_by({self.kept})

    def after(self) -> None:
        self.gone()
        assert not self.place.get(self.place.path("trafficroutes"))["items"]
        self._until_answered_by({self.kept, self.left})


def fetched(address: str) -> str:
    """The answer; '': there was none."""
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


class BreakGlassRole(Trial):
    """Somebody who may break the glass, and nothing else."""

    change = "breakGlassRole"

    def value(self) -> Any:
        return f"{self.place.word}-fixer"

    def before(self) -> None:
        place = self.place
        place.run(self.app, replicas=0)
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        marked = {"name": self.value(), "annotations": {"fathom.dev/break-glass": "true"}}
        place.make(f"{RBAC}/clusterroles", {"metadata": marked, "rules": [everything]})
        verbs = ["create", "get", "delete", "break-glass"]
        may = {"verbs": verbs, "apiGroups": ["fathom.dev"], "resources": ["scheduleroverrides"]}
        roles = place.path("roles", RBAC)
        place.make(roles, {"metadata": {"name": "breaks"}, "rules": [may]})
        self.person = Person(place.cluster, f"{place.word}-person")
        subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": self.person.name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "breaks"}
        binding = {"metadata": {"name": "breaks"}, "roleRef": reference, "subjects": [subject]}
        place.make(place.path("rolebindings", RBAC), binding)
        place.until(lambda: self.person.ask("GET", self.path)[0] == 404, "the binding is in force")
        assert self._writes() == 403

    def _writes(self) -> int:
        maps = self.place.path("configmaps", "/api/v1")
        body = {"metadata": {"generateName": "made-"}}
        return self.person.ask("POST", maps, body)[0]

    def begin(self) -> None:
        code, made = self.person.ask("POST", self.path.rpartition("/")[0], self.override())
        assert code == 201, made
        self.place.until(self.is_in_force, f"{self.change} is in force")

    def in_force(self) -> None:
        assert self._writes() == 201
        assert self.person.ask("GET", "/api/v1/nodes")[0] == 403
        stranger = Person(self.place.cluster, f"{self.place.word}-stranger")
        assert stranger.ask("GET", self.place.path("configmaps", "/api/v1"))[0] == 403

    def after(self) -> None:
        assert self._writes() == 403
        reviews = self.place.get(self.place.path("overridereviews"))["items"]
        assert [(each["spec"]["author"], each["status"]["phase"]) for each in reviews] == [
            (self.person.name, "Open")
        ]
