"""Plan the next actions for one pod's containers, from its spec and its containers' state. Pure.

    init containers, one after the other ──> main containers, together ──> all ended for good
    sidecars: started in their place among the init containers, ended after the main containers

The same views give the same plan: a running action makes its container `busy`, and nothing is planned for it
until the action is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from fathom.agent.backoff import CRASH_LOOP, crashes_after, restart_ns, retry_ns
from fathom.agent.container_views import (
    Container,
    ContainerView,
    Views,
    alone_until_ns,
    containers_of,
    deletion_ns,
    grace_s,
    ns_of,
    restarts_for,
    with_stale,
)
from fathom.model.objects import Obj, lookup
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.times import SECOND_NS


class StartContainer(msgspec.Struct, frozen=True):
    container: str
    attempt: int
    crashes: int = 0


class StopContainer(msgspec.Struct, frozen=True):
    """Run its preStop hook, then send SIGTERM; it is killed at `kill_ns`."""

    container: str
    kill_ns: int
    why: str


class KillContainer(msgspec.Struct, frozen=True):
    container: str


Action = StartContainer | StopContainer | KillContainer
EndPhase = Literal["", "Succeeded", "Failed"]


class PodPlan(msgspec.Struct, frozen=True):
    actions: tuple[Action, ...] = ()
    look_ns: int | None = None  # When to plan again even if nothing changes.
    over: bool = False  # No container runs, and none will.


NEVER_STARTED = ContainerView()
ORPHAN_GRACE_S = 1  # kubelet's: the client that removed the pod from the API did not want to wait.


def plan_pod(
    pod: Obj,
    views: Views,
    *,
    now_ns: int,
    orphan: bool = False,
    heard_ns: int | None = None,
    deleted_ns: int | None = None,
) -> PodPlan:
    """`orphan`: the pod is gone from the API. `heard_ns`: when the API server last answered. `deleted_ns`:
    when the grace period of an orphan or of a pod that is being deleted ends, by the agent's clock; None: as
    the pod says."""
    views = with_stale(pod, views)
    ending = _ending(pod, views, now_ns, orphan=orphan, deleted_ns=deleted_ns)
    if ending is not None:
        return _plan_end(pod, views, *ending, now_ns=now_ns)
    alone_ns = alone_until_ns(pod, heard_ns)
    if alone_ns is not None and now_ns >= alone_ns:
        kill_ns = now_ns + grace_s(pod) * SECOND_NS
        paused = _plan_end(
            pod, views, kill_ns, "the API server has accepted no heartbeat for too long", now_ns=now_ns
        )
        return msgspec.structs.replace(paused, over=False)
    steps = [*_plan_stops(pod, views, now_ns), *_plan_starts(pod, views, now_ns)]
    if any(view.stale and view.running for view in views.values()):
        steps = list(_plan_clearing(pod, views))
    actions = tuple(step for step in steps if not isinstance(step, int))
    times = [step for step in steps if isinstance(step, int)]
    deadline_ns = _active_until_ns(pod)
    times += [at_ns for at_ns in (deadline_ns, alone_ns) if at_ns is not None]
    return PodPlan(actions, min(times, default=None))


def phase_at_end(pod: Obj, views: Views, *, now_ns: int) -> EndPhase:
    """How the pod ended, once all its containers have ended for good; '' until then."""
    phase = lookup(pod, "status", "phase")
    if phase in TERMINAL_PHASES:
        return phase  # type: ignore[no-any-return]  # one of the two
    deadline_ns = _active_until_ns(pod)
    if deadline_ns is not None and now_ns >= deadline_ns:
        return "Failed"
    codes = []
    views = with_stale(pod, views)
    for container in containers_of(pod):
        view = views.get(container.name, NEVER_STARTED)
        exit_ = view.run.exit if view.run is not None and not view.stale else None
        if container.role == "sidecar":
            continue
        if exit_ is not None and container.role == "init" and exit_.code == 0:
            continue
        if exit_ is None or restarts_for(container, pod, exit_.code):
            return ""
        if container.role == "init":
            return "Failed"
        codes.append(exit_.code)
    return "Succeeded" if codes and not any(codes) else "Failed"


def past_deadline(pod: Obj, now_ns: int) -> bool:
    deadline_ns = _active_until_ns(pod)
    return deadline_ns is not None and now_ns >= deadline_ns


def _active_until_ns(pod: Obj) -> int | None:
    seconds, began = lookup(pod, "spec", "activeDeadlineSeconds"), lookup(pod, "status", "startTime")
    return ns_of(began) + seconds * SECOND_NS if isinstance(seconds, int) and began else None


# Ending.


def orphan_grace_s(pod: Obj) -> int:
    return min(ORPHAN_GRACE_S, grace_s(pod))


def is_ending(pod: Obj, views: Views, *, now_ns: int, orphan: bool) -> bool:
    """Whether all containers of the pod must stop."""
    return _ending(pod, views, now_ns, orphan=orphan) is not None


def _ending(
    pod: Obj, views: Views, now_ns: int, *, orphan: bool, deleted_ns: int | None = None
) -> tuple[int, str] | None:
    """When all containers of the pod are killed, and why they must stop; None: the pod goes on."""
    if orphan:  # Also one that was being deleted: whoever removed it did not want to wait any longer.
        gone_ns = now_ns + orphan_grace_s(pod) * SECOND_NS
        return gone_ns if deleted_ns is None else deleted_ns, "the pod no longer exists in the API"
    ends_ns = deletion_ns(pod)
    if ends_ns is not None:
        return ends_ns if deleted_ns is None else deleted_ns, "the pod is being deleted"
    if phase_at_end(pod, views, now_ns=now_ns):
        return now_ns + grace_s(pod) * SECOND_NS, "the pod has ended"
    return None


def _plan_end(pod: Obj, views: Views, kill_ns: int, why: str, *, now_ns: int) -> PodPlan:
    alive = [
        container for container in containers_of(pod) if _alive(views.get(container.name, NEVER_STARTED))
    ]
    mains = [container for container in alive if container.role != "sidecar"]
    # Sidecars stop after the main containers, in reverse start order: later ones may use earlier ones.
    due = mains or alive[-1:]
    if kill_ns <= now_ns:
        due = alive
    actions: list[Action] = []
    times: list[int] = []
    for container in due:
        view = views.get(container.name, NEVER_STARTED)
        actions += _stop(container, view, kill_ns, why, now_ns)
        if view.kill_ns > now_ns:
            times.append(min(view.kill_ns, kill_ns))
    if any(isinstance(action, StopContainer) for action in actions):
        times.append(kill_ns)
    return PodPlan(tuple(actions), min((t for t in times if t > now_ns), default=None), over=not alive)


def _alive(view: ContainerView) -> bool:
    return view.running or view.busy


def _stop(container: Container, view: ContainerView, kill_ns: int, why: str, now_ns: int) -> Iterator[Action]:
    if not view.running:
        return
    if view.kill_ns and not view.killed and min(view.kill_ns, kill_ns) <= now_ns:
        yield KillContainer(container.name)  # Even while its hook runs: nothing outlives its grace period.
    elif not view.kill_ns and not view.busy:
        yield StopContainer(container.name, kill_ns, why)


# Running.


def _plan_stops(pod: Obj, views: Views, now_ns: int) -> Iterator[Action | int]:
    for container in containers_of(pod):
        view = views.get(container.name, NEVER_STARTED)
        if not view.running:
            continue
        if view.kill_ns:
            yield (
                KillContainer(container.name)
                if view.kill_ns <= now_ns and not view.killed
                else max(view.kill_ns, now_ns + 1)
            )
        elif (why := view.health.sick or _outdated(container, view)) and not view.busy:
            yield StopContainer(container.name, now_ns + _own_grace_s(pod, container, view) * SECOND_NS, why)


def _plan_clearing(pod: Obj, views: Views) -> Iterator[Action]:
    """Before all containers restart, all are killed: at once and without hooks, as in kubelet."""
    for container in containers_of(pod):
        view = views.get(container.name, NEVER_STARTED)
        if view.stale and view.running and not view.killed:
            yield KillContainer(container.name)


def _outdated(container: Container, view: ContainerView) -> str:
    """Why the run is outdated, or ''. Only a container's image may change while it runs."""
    if view.run is None or not view.run.image or view.run.image == container.spec.get("image"):
        return ""
    return f"Container {container.name} definition changed, will be restarted"


def _own_grace_s(pod: Obj, container: Container, view: ContainerView) -> int:
    """The grace period; the probe that stops a container may override the pod's."""
    probe = "livenessProbe" if view.health.started else "startupProbe"
    seconds = lookup(container.spec, probe, "terminationGracePeriodSeconds") if view.health.sick else None
    return seconds if isinstance(seconds, int) else grace_s(pod)


def _plan_starts(pod: Obj, views: Views, now_ns: int) -> Iterator[Action | int]:
    """Starts, and the times at which containers that must wait are due."""
    begun = any(
        _counts(views.get(container.name, NEVER_STARTED))
        for container in containers_of(pod)
        if container.role == "main"
    )
    for container in containers_of(pod):
        view = views.get(container.name, NEVER_STARTED)
        if not (container.role == "init" and begun):
            yield from _start(pod, container, view, now_ns)
            if container.role != "main" and not _lets_others_start(container, view) and not begun:
                return


def _counts(view: ContainerView) -> bool:
    return view.run is not None and not view.stale


def _lets_others_start(container: Container, view: ContainerView) -> bool:
    if container.role == "sidecar":
        return view.running and view.health.started
    return _counts(view) and view.run is not None and view.run.exit is not None and view.run.exit.code == 0


def _start(pod: Obj, container: Container, view: ContainerView, now_ns: int) -> Iterator[Action | int]:
    if view.busy or view.running:
        return
    due_ns = start_ns(pod, container, view)
    if due_ns is None:
        return
    # No container waits for longer than the longest backoff: a run that ended in the future ended before the
    # clock was set back.
    if now_ns < due_ns <= now_ns + round(CRASH_LOOP.s_max) * SECOND_NS:
        yield due_ns
    elif view.run is None:
        yield StartContainer(container.name, 0)
    else:
        yield StartContainer(container.name, view.run.attempt + 1, crashes_after(view.run))


def _has_new_image(container: Container, view: ContainerView) -> bool:
    """The image was changed since the container could not be started."""
    failed = view.trouble.image if view.trouble is not None else ""
    return bool(failed) and failed != container.spec.get("image")


def start_ns(pod: Obj, container: Container, view: ContainerView) -> int | None:
    """When the container's next run is due; None: never."""
    due_ns = 0 if view.trouble is None or _has_new_image(container, view) else retry_ns(view.trouble)
    if view.run is None:
        return due_ns
    assert view.run.exit is not None
    if not view.stale and not restarts_for(container, pod, view.run.exit.code):
        return None
    return max(due_ns, restart_ns(view.run))
