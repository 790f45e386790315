"""Wall clocks are set, forward and back: which decisions may that change?

Times that objects have are compared with the wall clock, because they have to mean the same to whoever reads
them, after any restart: when an override, an approval, a reservation or a token ends;
`activeDeadlineSeconds`, `ttlSecondsAfterFinished` and `minReadySeconds`, which count from a time in the
status; the back-off of a Job, which counts from when a pod ended; how old an Event is; when an autoscaler's
earlier leader scaled; when a rollout progressed before its controller led, though a new leader looks for half
of the deadline itself.
Everything else is a duration, measured on monotonic clocks. Who waits for such a time looks again when the
clock is set (`control/clock_watch.py`). Who keeps what was computed from such times keeps also
from when until when it holds: what has ended by a clock that is ahead is in force again when the clock is set
back (`schedule/loop/override_ends.py`).

`DecisionsKeepTheirTime` says so of a run whose only faults, besides the scenario's own, are clock steps: what
it taints, evicts, restarts, elects and gives up, the same run without them does too. How often is not
compared, nor which pods are scaled down: times in objects say which of several like pods is the oldest, and
one other choice moves everything that comes after it. Nor who takes a lease: after an outage several
candidates race for it, and milliseconds decide. Nor whether one that was stopped had given it back in time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resource_names import DEPLOYMENTS, LEASES
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, Skew
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

STEPS_S = (3.0, 40.0, 400.0)  # Within a heartbeat's grace, beyond it, beyond most timeouts.
NODE_LEASES = "kube-node-lease"


Decisions = Counter[str]


def clock_steps(rng: random.Random, menu: Menu) -> tuple[Skew, ...]:
    """Two clocks are set, one forward and one back, at moments of their own. The end of all faults sets both
    right again, which is a step the other way."""
    names = menu.clocks or menu.processes
    steps = [
        Skew(
            at_s=round(rng.random() * menu.seconds, 3),
            target=rng.choice(names),
            skew_s=direction * rng.choice(STEPS_S),
        )
        for direction in (1, -1)
    ]
    return tuple(sorted(steps, key=lambda step: step.at_s))


def only_clock_steps(faults: Sequence[AnyFault], own: Sequence[AnyFault]) -> bool:
    """Clocks are set, and nothing else is done that is not the scenario's own."""
    others = [fault for fault in faults if not isinstance(fault, Skew)]
    return len(others) < len(faults) and all(fault in own for fault in others)


def without_clock_steps(faults: Sequence[AnyFault]) -> tuple[AnyFault, ...]:
    return tuple(fault for fault in faults if not isinstance(fault, Skew))


class DecisionsKeepTheirTime(Checker):
    """`twin` runs the same without clock steps, and returns what was decided; None if that run broke."""

    name = "setting a wall clock changes nothing that is measured by durations"
    resources = frozenset({"nodes", "pods", LEASES, DEPLOYMENTS})

    def __init__(self, twin: Callable[[], Decisions | None] | None = None) -> None:
        self.decisions: Decisions = Counter()
        self._emptied: set[str] = set()  # Nodes with a taint that evicts pods.
        self._lives: dict[
            str, tuple[str, int]
        ] = {}  # Holder of a lease -> its process, and which life of it.
        self._progress = RolloutProgress()
        self._twin = twin

    def begin(self, world: World) -> None:
        self._engine = world.engine

    def commit(self, change: Seen) -> Found:
        if change.resource != LEASES or not self._is_over(_holder(change.old)):
            self.decisions.update(_decided(change, self._emptied))
        if change.resource == LEASES and (holder := _holder(change.new)):
            self._lives[holder] = (change.by, change.incarnation)
        if change.resource == DEPLOYMENTS:
            self.decisions.update(self._progress.given_up(change))
        if change.resource == "nodes":
            (self._emptied.add if _evicts(change.new) else self._emptied.discard)(change.key.name)
        return None

    def _is_over(self, holder: str) -> bool:
        """Whether the life that holds the lease has ended."""
        name, incarnation = self._lives.get(holder, ("", 0))
        process = self._engine.processes.get(name)
        return process is not None and (not process.alive or process.incarnation != incarnation)

    def ended(self, world: World) -> Iterable[str | Finding]:
        without = self._twin() if self._twin is not None else None
        if without is not None and without.keys() != self.decisions.keys():
            yield _difference(self.decisions, without)


def _difference(stepped: Decisions, without: Decisions) -> str:
    changed = min(stepped.keys() ^ without.keys())
    return f"{changed}: {_times(stepped[changed])}, and {_times(without[changed])} if no clock is set"


def _times(count: int) -> str:
    return "never" if not count else "once" if count == 1 else f"{count} times"


def _decided(change: Seen, emptied: Container[str]) -> Iterator[str]:
    """Decisions in words that do not depend on which of several like pods it was."""
    if change.resource == "nodes":
        yield from _of_node(change)
    elif change.resource == "pods":
        yield from _of_pod(change, emptied)
    elif change.resource == LEASES:
        yield from _of_lease(change)


class RolloutProgress:
    """When the progress of each rollout was last written, and by which process."""

    def __init__(self) -> None:
        self._written: dict[Key, tuple[float, tuple[str, int]]] = {}

    def given_up(self, change: Seen) -> Iterator[str]:
        """The decision to give up a rollout. Not if that may rest on the time that an earlier leader wrote:
        by who has seen no progress for half of the deadline."""
        by = (change.by, change.incarnation)
        at_s, writer = self._written.get(change.key, (change.at_s, by))
        if _progressed_at(change.new) != _progressed_at(change.old):
            self._written[change.key] = (change.at_s, by)
        if _status(change.new, "Progressing") != "False" or _status(change.old, "Progressing") == "False":
            return
        half_s = (lookup(change.new or {}, "spec", "progressDeadlineSeconds") or 0) / 2
        if writer == by or change.at_s - at_s < half_s:
            yield f"{change.by} gives up the rollout of {change.key.name}"


def _progressed_at(deployment: Obj | None) -> str:
    condition = find_condition(conditions_of(deployment or {}), "Progressing") or {}
    return str(condition.get("lastUpdateTime"))


def _of_node(change: Seen) -> Iterator[str]:
    name = change.key.name
    for key in sorted(_taints(change.new) - _taints(change.old)):
        yield f"{change.by} taints {name} with {key}"
    was, now = _status(change.old, "Ready"), _status(change.new, "Ready")
    if now not in {was, "True", ""}:
        yield f"{change.by} calls {name} not ready"


def _of_pod(change: Seen, emptied: Container[str]) -> Iterator[str]:
    pod = change.new or change.old or {}
    if _has_deadline(pod):
        return
    workload = _workload(pod)
    node = str(lookup(pod, "spec", "nodeName"))
    if node in emptied and _is_going(change.new) and change.old is not None and not _is_going(change.old):
        yield f"{change.by} evicts a pod of {workload} from {node}"
    if _restarts(change.new) > _restarts(change.old):
        yield f"a container of {workload} is restarted"


def _has_deadline(pod: Obj) -> bool:
    """Its own, or perhaps that of its Job: a step may change when it ends."""
    owners = metadata(pod).get("ownerReferences") or ()
    return bool(lookup(pod, "spec", "activeDeadlineSeconds")) or any(o.get("kind") == "Job" for o in owners)


def _is_going(pod: Obj | None) -> bool:
    return pod is None or "deletionTimestamp" in metadata(pod)


def _of_lease(change: Seen) -> Iterator[str]:
    was, now = _holder(change.old), _holder(change.new)
    if change.key.namespace != NODE_LEASES and now and was != now:
        yield f"the lease {change.key.name} is taken {'from its holder' if was else 'when it is free'}"


def _taints(node: Obj | None) -> set[str]:
    return {str(taint.get("key")) for taint in lookup(node or {}, "spec", "taints") or ()}


def _evicts(node: Obj | None) -> bool:
    return any(taint.get("effect") == "NoExecute" for taint in lookup(node or {}, "spec", "taints") or ())


def _status(obj: Obj | None, kind: str) -> str:
    conditions = conditions_of(obj or {})
    return next((str(entry.get("status")) for entry in conditions if entry.get("type") == kind), "")


def _holder(lease: Obj | None) -> str:
    return str(lookup(lease or {}, "spec", "holderIdentity") or "")


def _workload(pod: Obj) -> str:
    owners = metadata(pod).get("ownerReferences") or [{}]
    return str(owners[0].get("name") or metadata(pod).get("name"))


def _restarts(pod: Obj | None) -> int:
    statuses = lookup(pod or {}, "status", "containerStatuses") or ()
    return sum(int(status.get("restartCount") or 0) for status in statuses)


def stepped(rng: random.Random, menu: Menu, own: Sequence[AnyFault]) -> tuple[AnyFault, ...]:
    """The scenario's own faults, and clock steps."""
    return tuple(sorted((*own, *clock_steps(rng, menu)), key=lambda fault: fault.at_s))
