"""What the machine of an agent saw of one pod: its runs, and the results of their probes. By this, and by the
pod's spec, `containers_by_the_rules` judges the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fathom.agent.runtime import ContainerRun
from fathom.model.objects import Obj, lookup, metadata

KINDS = ("startupProbe", "readinessProbe", "livenessProbe")


class ContainerSpec(msgspec.Struct, frozen=True):
    name: str
    role: str  # init, sidecar, main
    spec: Obj


def containers_in_order(pod: Obj) -> list[ContainerSpec]:
    first = [
        ContainerSpec(spec["name"], "sidecar" if spec.get("restartPolicy") == "Always" else "init", spec)
        for spec in lookup(pod, "spec", "initContainers") or ()
    ]
    return [
        *first,
        *(ContainerSpec(spec["name"], "main", spec) for spec in lookup(pod, "spec", "containers") or ()),
    ]


def runs_again(pod: Obj, container: ContainerSpec, code: int) -> bool:
    if container.role == "sidecar":
        return True
    policy = container.spec.get("restartPolicy") or lookup(pod, "spec", "restartPolicy") or "Always"
    if policy == "Never" or (container.role == "init" and code == 0):
        return False
    return code != 0 or policy == "Always"


def has_own_rules(pod: Obj) -> bool:
    """Some exits restart other containers too: such pods are judged less."""
    return any("restartPolicyRules" in container.spec for container in containers_in_order(pod))


def kind_of(container: ContainerSpec, probe: Obj) -> str:
    """Which probe of the container it is; '' where two are alike: their results cannot be told apart."""
    alike = [kind for kind in KINDS if container.spec.get(kind) == probe]
    return alike[0] if len(alike) == 1 else ""


def has_like_probes(container: ContainerSpec) -> bool:
    probes = [container.spec[kind] for kind in KINDS if kind in container.spec]
    return any(probe in probes[:number] for number, probe in enumerate(probes))


class InARow(msgspec.Struct):
    """The last results of a probe, since the agent that runs now began."""

    passes: int = 0
    failures: int = 0

    def add(self, *, ok: bool) -> None:
        self.passes, self.failures = (self.passes + 1, 0) if ok else (0, self.failures + 1)

    def has_failed(self, probe: Obj) -> bool:
        return self.failures >= int(probe.get("failureThreshold") or 3)

    def has_passed(self, probe: Obj) -> bool:
        return self.passes >= int(probe.get("successThreshold") or 1)


class SeenRun:
    def __init__(self, run: ContainerRun, now_s: float, *, is_new: bool) -> None:
        self.is_new = is_new  # Else an agent has taken it over, and nobody knows when it began.
        self.id, self.attempt, self.image = run.id, run.attempt, run.image
        self.began_s = now_s
        self.code: int | None = None if run.exit is None else run.exit.code
        self.ended_s: float | None = None if run.exit is None else now_s  # As it was seen.
        self.asked_s = 0.0  # When the agent last wanted it to run again.
        self.term_s: float | None = None
        self.probes: dict[str, InARow] = {}

    @property
    def lives(self) -> bool:
        return self.code is None

    def row(self, kind: str) -> InARow:
        return self.probes.setdefault(kind, InARow())


class SeenPod:
    def __init__(self, pod: Obj) -> None:
        self.pod = pod  # As the store has it; once it is gone, as it was.
        self.gone = False
        self.ends_s: float | None = None  # When the shortest grace period of its deletions ends.
        self.runs: dict[str, SeenRun] = {}  # The newest, by container.
        self.prepared: set[str] = set()  # Init containers that have succeeded, sidecars that have started.

    def changed(self, pod: Obj, now_s: float) -> None:
        self.pod = pod
        grace_s = metadata(pod).get("deletionGracePeriodSeconds")
        if metadata(pod).get("deletionTimestamp") and isinstance(grace_s, int):
            ends_s = now_s + grace_s
            self.ends_s = ends_s if self.ends_s is None else min(ends_s, self.ends_s)

    def alive(self) -> Iterator[tuple[ContainerSpec, SeenRun]]:
        for container in containers_in_order(self.pod):
            run = self.runs.get(container.name)
            if run is not None and run.lives:
                yield container, run

    def is_over(self) -> bool:
        """Whether its containers have ended for good, by what is known of their ends."""
        codes: Mapping[str, int | None] = {name: run.code for name, run in self.runs.items()}
        mains = []
        for container in containers_in_order(self.pod):
            code = codes.get(container.name)
            ended = code is not None and not runs_again(self.pod, container, code)
            if container.role == "init" and ended and code:
                return True
            if container.role == "main":
                mains.append(ended)
        return all(mains)

    def grace_s(self) -> int:
        seconds = lookup(self.pod, "spec", "terminationGracePeriodSeconds")
        return seconds if isinstance(seconds, int) else 30
