"""Agents: restarts are counted and spaced, running pods are not removed, container statuses are true."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fathom.agent.process import Agent
from fathom.agent.simulated import SimulatedRuntime
from fathom.agent.simulated_machine import SimulatedMachine
from fathom.model.conditions import is_true
from fathom.model.objects import Obj, key_of, lookup, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

# With fewer restarts, a clock that is set forward may cover all waits.
RESTARTS_MIN = 5


class RestartsAreCounted(Checker):
    """A container's restart count only grows; and an agent removes a pod only after it has reported that no
    container of it runs. (Other processes may remove a pod at once: they know that its node is gone.)"""

    name = "agents report what runs"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        if change.old is None:
            return None
        if change.new is None:
            running = [name for name, (_, runs) in _container_states(change.old).items() if runs]
            if running and change.by == lookup(change.old, "spec", "nodeName"):
                return f"{change.by} removed the pod, but its status says that {', '.join(running)} runs"
            return None
        if uid_of(change.old) != uid_of(change.new):
            return None
        before, after = _container_states(change.old), _container_states(change.new)
        for name, (restarts, _) in after.items():
            if restarts < before.get(name, (0, False))[0]:
                return f"restartCount of {name} went back from {before[name][0]} to {restarts}"
        return None


def _container_states(pod: Obj) -> dict[str, tuple[int, bool]]:
    """Container -> (restart count, whether it runs)."""
    return {
        str(status.get("name")): (
            int(status.get("restartCount") or 0),
            bool(lookup(status, "state", "running")),
        )
        for status in lookup(pod, "status", "containerStatuses") or ()
    }


class InitComesFirst(Checker):
    """No main container starts before all init containers have succeeded, or started if sidecars."""

    name = "init containers come first"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        init_statuses = (
            lookup(change.new, "status", "initContainerStatuses") if change.new is not None else None
        )
        if change.new is None or not init_statuses:
            return None
        if any(_has_begun(status) for status in lookup(change.old, "status", "containerStatuses") or ()):
            return None  # From then on, a sidecar may end and start again beside the others.
        sidecars = _sidecars(change.new)
        waited = [
            status
            for status in init_statuses
            if not _prepares_no_more(status, is_sidecar=status.get("name") in sidecars)
        ]
        begun = [
            status for status in lookup(change.new, "status", "containerStatuses") or () if _has_begun(status)
        ]
        if waited and begun:
            return f"{change.by} started {begun[0].get('name')} before {waited[0].get('name')} had ended"
        return None


def _sidecars(pod: Obj) -> set[str]:
    first = lookup(pod, "spec", "initContainers") or ()
    return {container["name"] for container in first if container.get("restartPolicy") == "Always"}


def _prepares_no_more(status: Obj, *, is_sidecar: bool) -> bool:
    """The init container succeeded; or is a sidecar that has started, and goes on running, or has ended
    since: `containers_by_the_rules` judges when it had started."""
    if is_sidecar:
        return bool(status.get("started") or status.get("restartCount") or _has_ended(status))
    return bool(lookup(status, "state", "terminated", "exitCode") == 0)


def _has_ended(status: Obj) -> bool:
    return bool(lookup(status, "state", "terminated") or lookup(status, "lastState", "terminated"))


def _has_begun(status: Obj) -> bool:
    return bool(lookup(status, "state", "running") or lookup(status, "state", "terminated", "startedAt"))


class OnlyWhatRunsIsReady(Checker):
    """A pod is ready when all of its containers are, and a container only while it runs."""

    name = "only running containers are ready"
    resources = frozenset({"pods"})

    def commit(self, change: Seen) -> Found:
        if change.new is None or change.by != lookup(change.new, "spec", "nodeName"):
            return None
        return _unready(change.new)


def _unready(pod: Obj) -> str | None:
    statuses = lookup(pod, "status", "containerStatuses") or ()
    for status in statuses:
        if status.get("ready") and not lookup(status, "state", "running"):
            return f"container {status.get('name')} is reported ready, but does not run"
    waiting = [status.get("name") for status in statuses if not status.get("ready")]
    return (
        f"the pod is reported ready, but {waiting[0]} is not" if waiting and is_true(pod, "Ready") else None
    )


class AddressesAreApart(Checker):
    """No two live pods have the same address: traffic for one would reach the other."""

    name = "each pod has an address of its own"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self._has: dict[str, str] = {}  # Address → UID.

    def commit(self, change: Seen) -> Found:
        before, now = _address(change.old), _address(change.new)
        if before and before != now and self._has.get(before) == uid_of(change.old or {}):
            del self._has[before]
        if not now or change.new is None:
            return None
        holder = self._has.setdefault(now, uid_of(change.new))
        return f"address {now} also belongs to pod {holder}" if holder != uid_of(change.new) else None


def _address(pod: Obj | None) -> str:
    """'' for a pod that has ended: its address may be given to another."""
    if pod is None or lookup(pod, "status", "phase") in TERMINAL_PHASES:
        return ""
    return str(lookup(pod, "status", "podIP") or "")


class RestartsAreSpaced(Checker):
    """A container that keeps ending is restarted with growing delays: at once, after 10 s, 20 s, … up to 300
    s. A clock that is set ends one delay, and a quarter of the others is enough."""

    name = "restarts are spaced"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self._made_s: dict[str, float] = {}  # By UID.
        self._clock_errors_ns: Collection[int] = ()

    def begin(self, world: World) -> None:
        self._clock_errors_ns = world.engine.clock_errors_ns

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            return None
        made_s = self._made_s.setdefault(uid_of(change.new), change.at_s)
        for name, (restarts, _) in _container_states(change.new).items():
            steps = len(self._clock_errors_ns) if len(self._clock_errors_ns) > 1 else 0
            waits = max(0, restarts - 1 - steps)
            waits_s = sum(min(300, 10 << min(number, 10)) for number in range(waits))
            if restarts >= RESTARTS_MIN and change.at_s - made_s < waits_s / 4:
                return f"container {name} was restarted {restarts} times in {change.at_s - made_s:.0f} s"
        return None


class NothingRunsUnwanted(Checker):
    """At rest: a node runs what the API says that it runs, and nothing is left of deleted pods."""

    name = "running containers match pod statuses when settled"
    patience_s = 120.0  # An agent whose watch went dead has yet to notice it.

    def settled(self, world: World) -> Iterable[str | Finding]:
        for name, process in world.engine.processes.items():
            agent = process.state
            if process.alive and isinstance(agent, Agent) and isinstance(agent.runtime, SimulatedRuntime):
                bound = [pod for pod in world.list("pods") if lookup(pod, "spec", "nodeName") == name]
                yield from (f"{name} {problem}" for problem in _differences(agent.runtime, bound))


class NothingIsStartedTwice(Checker):
    """On a machine that outlives its agents: no container is started while an earlier run of it is alive."""

    name = "no container is started twice at a time"

    def __init__(self, machines: Mapping[str, SimulatedMachine]) -> None:
        self._machines = machines

    def settled(self, world: World) -> Iterable[str | Finding]:
        for name, machine in self._machines.items():
            yield from (f"{name} started {what} beside a run that goes on" for what in machine.started_twice)


def _differences(runtime: SimulatedRuntime, bound: list[Obj]) -> Iterator[str]:
    pod_names = {uid_of(pod): key_of(pod).name for pod in bound}
    for uid, kept in runtime._pods.items():
        if uid not in pod_names:
            yield f"still has pod {key_of(kept.pod).name} ({uid}), which was deleted"
    running = {(container_run.uid, container_run.container) for container_run in runtime._runs.values()}
    reported = {
        (uid_of(pod), str(status.get("name")))
        for pod in bound
        for field in ("initContainerStatuses", "containerStatuses")
        for status in lookup(pod, "status", field) or ()
        if lookup(status, "state", "running")
    }
    for uid, container in sorted(running - reported):
        yield f"runs {container} of pod {pod_names.get(uid, uid)}, but its status does not say so"
    for uid, container in sorted(reported - running):
        yield f"reports that {container} of pod {pod_names[uid]} runs, but it does not"
