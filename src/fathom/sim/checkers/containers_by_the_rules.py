"""Agents run containers by Kubernetes' rules, judged by what their machines saw: in which order containers
start and stop, which of them run again, what a probe may do and when, and how long a grace period is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from fathom.agent.simulated_machine import MachineEvent
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.sim.checkers.seen_runs import (
    ContainerSpec,
    SeenPod,
    SeenRun,
    containers_in_order,
    has_like_probes,
    has_own_rules,
    kind_of,
    runs_again,
)
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

SLACK_S = 0.2
LATE_S = 30.0
BACKOFF_MAX_S = 300.0  # Before the next run of a container that crashes again and again.
REPORTED_S = 60.0  # After a failure: a report may be under way for that long.
ALONE = "fathom.dev/stop-when-alone-seconds"


def observed(world: World, node: str) -> Callable[[MachineEvent], None]:
    """What the machine of this node must tell, so that its agent is judged."""
    judge = next((one for one in world.checkers if isinstance(one, ContainersByTheRules)), None)
    if judge is None:
        judge = ContainersByTheRules()
        world.add_checker(judge)
    return judge.listener(node)


class ContainersByTheRules(Checker):
    name = "agents run containers by the rules"
    resources = frozenset({"pods"})
    patience_s = 120.0  # As for the statuses at rest.

    def __init__(self) -> None:
        self._pods: dict[str, SeenPod] = {}  # By UID.
        self._problems: list[Finding] = []
        # By the ids of runs, whichever agent saw it.
        self._started: set[str] = set()  # Their startup probes have passed.
        self._was_ready: set[str] = set()
        self._unready_s: dict[str, float] = {}  # When their readiness probes had failed too often, last.
        self._now_s: Callable[[], float] = lambda: 0.0

    def begin(self, world: World) -> None:
        self._now_s = lambda: world.now_s

    # What machines tell.

    def listener(self, node: str) -> Callable[[MachineEvent], None]:
        by_name: dict[str, Callable[[SeenPod, ContainerSpec, MachineEvent], Iterable[str]]] = {
            "asked": self._asked,
            "started": self._began,
            "adopted": self._began,
            "ended": self._ended,
            "term": self._term,
            "kill": self._kill,
            "probed": self._probed,
        }

        def heard(event: MachineEvent) -> None:
            if event.what == "agent":
                self._agent_began(node, keeps_containers=event.ok)
                return
            seen = self._pods.get(event.uid)
            container = _container(seen, event.container)
            if seen is None or container is None:
                return
            for problem in by_name[event.what](seen, container, event):
                self._problems.append(_finding(seen, f"{node} {problem}"))

        return heard

    def _agent_began(self, node: str, *, keeps_containers: bool) -> None:
        """It counts results of probes anew; and of containers that did not survive it is told again."""
        for seen in self._pods.values():
            if lookup(seen.pod, "spec", "nodeName") != node:
                continue
            if not keeps_containers:
                seen.runs.clear()
            for run in seen.runs.values():
                run.probes.clear()
                run.term_s = None

    def _asked(self, seen: SeenPod, container: ContainerSpec, event: MachineEvent) -> Iterator[str]:
        """The agent wants the container to start."""
        assert event.pod is not None
        name = container.name
        if is_deleting(event.pod):
            yield f"starts {name} although the pod is being deleted"
        if has_own_rules(seen.pod):
            return
        for before in containers_in_order(seen.pod):
            if before.name == name:
                break
            if before.role != "main" and before.name not in seen.prepared:
                yield f"starts {name}, but {before.role} container {before.name} is not that far"
        run = seen.runs.get(name)
        if run is not None:
            run.asked_s = self._now_s()
        if run is not None and run.code is None:
            yield f"starts {name} although it runs"
        elif run is not None and run.code is not None and not runs_again(seen.pod, container, run.code):
            yield f"starts {name} again, which has ended for good with code {run.code}"
        elif seen.is_over():
            yield f"starts {name} although the containers of the pod have ended for good"

    def _began(self, seen: SeenPod, container: ContainerSpec, event: MachineEvent) -> Iterable[str]:
        assert event.run is not None
        seen.runs[container.name] = SeenRun(event.run, self._now_s(), is_new=event.what == "started")
        if event.what == "started":
            self._started.discard(event.run.id)  # After a crash the next run may have its id.
            self._was_ready.discard(event.run.id)
        if container.role == "sidecar" and "startupProbe" not in container.spec:
            seen.prepared.add(container.name)
        if event.run.exit is not None:
            return self._ended(seen, container, event)
        return ()

    def _ended(self, seen: SeenPod, container: ContainerSpec, event: MachineEvent) -> Iterable[str]:
        run = seen.runs.get(container.name)
        if event.run is None or event.run.exit is None or run is None or run.id != event.run.id:
            return ()
        run.code, run.ended_s = event.run.exit.code, self._now_s()
        if container.role == "init" and run.code == 0:
            seen.prepared.add(container.name)
        return ()

    # Ends.

    def _term(self, seen: SeenPod, container: ContainerSpec, event: MachineEvent) -> Iterator[str]:
        run, now_s = seen.runs.get(container.name), self._now_s()
        if run is None:
            return
        run.term_s = run.term_s if run.term_s is not None else now_s
        if seen.gone or has_own_rules(seen.pod) or ALONE in (metadata(seen.pod).get("annotations") or {}):
            return
        if _has_failed_for_good(container, run, now_s) or _has_other_image(container, run):
            return
        if not _must_end(seen):
            yield f"stops {container.name}, which nothing asks for"
        elif container.role == "sidecar" and (seen.ends_s is None or now_s < seen.ends_s - SLACK_S):
            alive = [other for other, _ in seen.alive()]
            later = alive[alive.index(container) + 1 :] if container in alive else []
            if waits_for := [other.name for other in later if other.role != "init"]:
                yield f"stops {container.name} before {waits_for[0]} has ended"

    def _kill(self, seen: SeenPod, container: ContainerSpec, event: MachineEvent) -> Iterator[str]:
        run, now_s = seen.runs.get(container.name), self._now_s()
        if run is None or seen.gone or has_own_rules(seen.pod):
            return
        if seen.ends_s is not None and now_s >= seen.ends_s - SLACK_S:
            return
        hook = lookup(container.spec, "lifecycle", "preStop")
        if run.term_s is None:
            if hook is None:
                yield f"kills {container.name} without SIGTERM"
            return
        wait_s = _own_grace_s(seen, container) - float(lookup(hook, "sleep", "seconds") or 0)
        if now_s < run.term_s + wait_s - SLACK_S:
            yield f"kills {container.name} {now_s - run.term_s:.1f} s after SIGTERM, but it has {wait_s:g} s"

    # Probes.

    def _probed(self, seen: SeenPod, container: ContainerSpec, event: MachineEvent) -> Iterator[str]:
        run, probe = seen.runs.get(container.name), event.probe or {}
        kind = kind_of(container, probe)
        if run is None or probe.get("hook") or not kind or event.run is None or event.run.id != run.id:
            return
        now_s, name = self._now_s(), container.name
        if now_s < run.began_s + int(probe.get("initialDelaySeconds") or 0) - SLACK_S and run.is_new:
            yield f"runs the {kind} of {name} before its initialDelaySeconds"
        if kind != "startupProbe" and "startupProbe" in container.spec and run.id not in self._started:
            yield f"runs the {kind} of {name}, whose startupProbe has not passed"
        row = run.row(kind)
        if kind == "livenessProbe" and row.has_failed(probe):
            yield f"goes on with {name}, whose livenessProbe failed {row.failures} times in a row"
        row.add(ok=event.ok)
        if kind == "startupProbe" and event.ok:
            self._started.add(run.id)
            if container.role == "sidecar":
                seen.prepared.add(name)
        if kind == "readinessProbe":
            self._was_ready |= {run.id} if row.has_passed(probe) else set()
            if row.has_failed(probe):
                self._unready_s[run.id] = now_s

    # What agents report.

    def commit(self, change: Seen) -> Found:
        obj = change.new or change.old
        if obj is None:
            return None
        seen = self._pods.setdefault(uid_of(obj), SeenPod(obj))
        if change.old is not None and uid_of(change.old) != uid_of(obj):
            self._pods[uid_of(change.old)].gone = True
        if change.new is None:
            seen.gone = True
        else:
            seen.changed(change.new, change.at_s)
            if change.old is not None and change.by == lookup(obj, "spec", "nodeName"):
                self._problems += (_finding(seen, f"{change.by} {it}") for it in self._reported(seen, change))
        return self._problems[0] if self._problems else None

    def _reported(self, seen: SeenPod, change: Seen) -> Iterator[str]:
        before, after = _statuses(change.old), _statuses(change.new)
        for container in containers_in_order(seen.pod):
            run, status = seen.runs.get(container.name), after.get(container.name)
            if (
                run is None
                or container.role == "init"
                or status is None
                or status.get("containerID") != run.id
            ):
                continue
            was = before.get(container.name, {})
            was_ready = was.get("ready") and was.get("containerID") == run.id
            if status.get("ready") and not was_ready and not self._may_be_ready(container, run):
                yield f"reports {container.name} as ready, but its probes have not passed"
            if was_ready and not status.get("ready") and not self._may_be_unready(seen, container, run):
                yield f"reports {container.name} as not ready, but no probe has failed that often in a row"
            had_started = was.get("started") and was.get("containerID") == run.id
            if had_started and not status.get("started") and run.lives and run.term_s is None:
                yield f"reports {container.name} as not started, which it was, and it is still the same run"

    def _may_be_ready(self, container: ContainerSpec, run: SeenRun) -> bool:
        if has_like_probes(container):
            return True
        starts = "startupProbe" not in container.spec or run.id in self._started
        return starts and ("readinessProbe" not in container.spec or run.id in self._was_ready)

    def _may_be_unready(self, seen: SeenPod, container: ContainerSpec, run: SeenRun) -> bool:
        if has_like_probes(container) or seen.ends_s is not None or not run.lives or run.term_s is not None:
            return True
        now_s = self._now_s()
        failed = now_s < self._unready_s.get(run.id, -math.inf) + REPORTED_S
        return failed or _has_failed_for_good(container, run, now_s) or _must_end(seen)

    def settled(self, world: World) -> Iterable[str | Finding]:
        yield from self._problems
        running = {name for name, process in world.engine.processes.items() if process.alive}
        for seen in self._pods.values():
            node = lookup(seen.pod, "spec", "nodeName")
            if seen.gone or node not in running:
                continue
            if seen.ends_s is not None and world.now_s > seen.ends_s + LATE_S:
                for container, _ in seen.alive():
                    yield _finding(seen, f"{container.name} runs on, long after its grace period")
            elif seen.ends_s is None:
                yield from (_finding(seen, problem) for problem in self._differences(seen))
                yield from (_finding(seen, problem) for problem in _not_restarted(seen, world.now_s))

    def _differences(self, seen: SeenPod) -> Iterator[str]:
        statuses = _statuses(seen.pod)
        for container, run in seen.alive():
            ready = self._is_ready(container, run)
            reported = bool(statuses.get(container.name, {}).get("ready"))
            is_judged = container.role != "init" and run.term_s is None and not _must_end(seen)
            if is_judged and ready is not None and ready is not reported:
                said, true = (f"{'' if each else 'not '}ready" for each in (reported, ready))
                yield f"{container.name} is reported as {said}, but by its probes it is {true}"
        phase = lookup(seen.pod, "status", "phase")
        runs = any(run.lives for run in seen.runs.values())  # Sidecars that have yet to stop.
        if seen.is_over() and not runs and phase not in TERMINAL_PHASES and not has_own_rules(seen.pod):
            yield f"its containers have ended for good, but its phase is {phase}"

    def _is_ready(self, container: ContainerSpec, run: SeenRun) -> bool | None:
        """None: an agent that has restarted goes by what an earlier one reported."""
        if has_like_probes(container):
            return None
        if "startupProbe" in container.spec and run.id not in self._started:
            return False
        probe = container.spec.get("readinessProbe")
        if probe is None:
            return True
        row = run.row("readinessProbe")
        return True if row.has_passed(probe) else False if row.has_failed(probe) else None


def _not_restarted(seen: SeenPod, now_s: float) -> Iterator[str]:
    """Who crashes waits for its next run, but never for longer than the longest back-off, whatever clocks
    say."""
    if seen.is_over() or has_own_rules(seen.pod) or _must_end(seen):
        return
    for container in containers_in_order(seen.pod):
        run = seen.runs.get(container.name)
        if run is None or run.code is None or not runs_again(seen.pod, container, run.code):
            continue
        waits_s = now_s - max(run.ended_s or 0.0, run.asked_s)
        if waits_s > BACKOFF_MAX_S + LATE_S:
            yield f"{container.name} ended with code {run.code}, and for {waits_s:.0f} s has not run again"


def _finding(seen: SeenPod, message: str) -> Finding:
    key = key_of(seen.pod)
    return Finding(f"{key.name}: {message}", (f"pods/{key.namespace}/{key.name}",))


def _container(seen: SeenPod | None, name: str) -> ContainerSpec | None:
    containers = containers_in_order(seen.pod) if seen is not None else ()
    return next((container for container in containers if container.name == name), None)


def _statuses(pod: Obj | None) -> dict[str, Obj]:
    fields = ("initContainerStatuses", "containerStatuses")
    return {status["name"]: status for field in fields for status in lookup(pod, "status", field) or ()}


def _must_end(seen: SeenPod) -> bool:
    pod = seen.pod
    ended = lookup(pod, "status", "phase") in TERMINAL_PHASES or seen.is_over()
    timed = lookup(pod, "spec", "activeDeadlineSeconds") is not None  # By the clock of the agent.
    return seen.ends_s is not None or ended or timed


def _has_failed_for_good(container: ContainerSpec, run: SeenRun, now_s: float) -> bool:
    """A probe or a hook says that this run must end."""
    if has_like_probes(container) or lookup(container.spec, "lifecycle", "postStart"):
        return True
    for kind in ("startupProbe", "livenessProbe"):
        probe = container.spec.get(kind) or {}
        if probe and run.row(kind).has_failed(probe) and now_s >= _may_fail_s(run, probe) - SLACK_S:
            return True
    return False


def _may_fail_s(run: SeenRun, probe: Obj) -> float:
    """When its probe can have failed for good at the earliest: agents look more often until it has passed,
    but only one failure in a period counts."""
    periods = int(probe.get("failureThreshold") or 3) - 1
    waits_s = int(probe.get("initialDelaySeconds") or 0) + periods * int(probe.get("periodSeconds") or 10)
    return run.began_s + waits_s if run.is_new else 0.0


def _has_other_image(container: ContainerSpec, run: SeenRun) -> bool:
    return bool(run.image) and run.image != container.spec.get("image")


def _own_grace_s(seen: SeenPod, container: ContainerSpec) -> float:
    """The shortest that it may get."""
    probes = [container.spec.get(kind) or {} for kind in ("startupProbe", "livenessProbe")]
    own = [probe.get("terminationGracePeriodSeconds") for probe in probes]
    return min([seen.grace_s(), *(seconds for seconds in own if isinstance(seconds, int))])
