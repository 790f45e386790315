"""What is to be done about one pod's containers, from what is wanted and what is seen. Pure.

    init containers, one after the other ──> main containers, together ──> all ended for good
    sidecars: started in their place among the init containers, ended after the main containers

The same answer for the same views: an action under way makes its container `busy`, and nothing is planned
for it until that is over.
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
    """Tell it to end, after its preStop hook; it is killed when its time is over."""

    container: str
    kill_ns: int
    why: str


class KillContainer(msgspec.Struct, frozen=True):
    container: str


Action = StartContainer | StopContainer | KillContainer
Fate = Literal["", "Succeeded", "Failed"]


class PodPlan(msgspec.Struct, frozen=True):
    actions: tuple[Action, ...] = ()
    look_ns: int | None = None  # When time alone will have changed something.
    over: bool = False  # Nothing runs, and nothing will.


NEVER_STARTED = ContainerView()
ORPHAN_GRACE_S = 1  # kubelet's: whoever removed the pod from the API did not want to wait.


def plan_pod(
    pod: Obj,
    views: Views,
    *,
    now_ns: int,
    orphan: bool = False,
    heard_ns: int | None = None,
    deleted_ns: int | None = None,
) -> PodPlan:
    """`orphan`: the API has no such pod any more. `heard_ns`: when a server was last heard. `deleted_ns`:
    when the grace of one that is being deleted is over, as the agent counts it; None: as the pod says."""
    views = with_stale(pod, views)
    ending = _ending(pod, views, now_ns, orphan=orphan, deleted_ns=deleted_ns)
    if ending is not None:
        return _plan_end(pod, views, *ending, now_ns=now_ns)
    alone_ns = alone_until_ns(pod, heard_ns)
    if alone_ns is not None and now_ns >= alone_ns:
        kill_ns = now_ns + grace_s(pod) * SECOND_NS
        paused = _plan_end(pod, views, kill_ns, "no server has been heard for too long", now_ns=now_ns)
        return msgspec.structs.replace(paused, over=False)
    steps = [*_plan_stops(pod, views, now_ns), *_plan_starts(pod, views, now_ns)]
    if any(view.stale and view.running for view in views.values()):
        steps = list(_plan_clearing(pod, views))
    actions = tuple(step for step in steps if not isinstance(step, int))
    times = [step for step in steps if isinstance(step, int)]
    deadline_ns = _active_until_ns(pod)
    times += [at_ns for at_ns in (deadline_ns, alone_ns) if at_ns is not None]
    return PodPlan(actions, min(times, default=None))


def fate(pod: Obj, views: Views, *, now_ns: int) -> Fate:
    """How it ended, once all its containers have ended for good; '' until then."""
    said = lookup(pod, "status", "phase")
    if said in TERMINAL_PHASES:
        return said  # type: ignore[no-any-return]  # one of the two
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


def is_ending(pod: Obj, views: Views, *, now_ns: int, orphan: bool) -> bool:
    """Whether all of it has to end."""
    return _ending(pod, views, now_ns, orphan=orphan) is not None


def _ending(
    pod: Obj, views: Views, now_ns: int, *, orphan: bool, deleted_ns: int | None = None
) -> tuple[int, str] | None:
    """Until when all of it may take to end, and why it has to; None: it goes on."""
    said_ns = deletion_ns(pod)
    if said_ns is not None:
        return said_ns if deleted_ns is None else deleted_ns, "the pod is being deleted"
    if orphan:
        wait_s = min(ORPHAN_GRACE_S, grace_s(pod))
        return now_ns + wait_s * SECOND_NS, "the pod is gone from the API"
    if fate(pod, views, now_ns=now_ns):
        return now_ns + grace_s(pod) * SECOND_NS, "the pod has ended"
    return None


def _plan_end(pod: Obj, views: Views, kill_ns: int, why: str, *, now_ns: int) -> PodPlan:
    alive = [one for one in containers_of(pod) if _alive(views.get(one.name, NEVER_STARTED))]
    mains = [one for one in alive if one.role != "sidecar"]
    # Sidecars serve the others to the end, and one another in the order in which they were started.
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
        yield KillContainer(container.name)  # Also while its hook runs: nothing outlives its grace.
    elif not view.kill_ns and not view.busy:
        yield StopContainer(container.name, kill_ns, why)


# Living.


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
    """Before all start anew, all end: at once and without hooks, as kubelet has it."""
    for container in containers_of(pod):
        view = views.get(container.name, NEVER_STARTED)
        if view.stale and view.running and not view.killed:
            yield KillContainer(container.name)


def _outdated(container: Container, view: ContainerView) -> str:
    """Of all that makes a container only its image may change while it runs."""
    if view.run is None or not view.run.image or view.run.image == container.spec.get("image"):
        return ""
    return f"Container {container.name} definition changed, will be restarted"


def _own_grace_s(pod: Obj, container: Container, view: ContainerView) -> int:
    """A probe that ends a container may say how long that takes."""
    probe = "livenessProbe" if view.health.started else "startupProbe"
    found = lookup(container.spec, probe, "terminationGracePeriodSeconds") if view.health.sick else None
    return found if isinstance(found, int) else grace_s(pod)


def _plan_starts(pod: Obj, views: Views, now_ns: int) -> Iterator[Action | int]:
    """Starts, and the times at which one that must wait is due."""
    begun = any(
        _counts(views.get(one.name, NEVER_STARTED)) for one in containers_of(pod) if one.role == "main"
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
    # Nobody waits for longer than the longest wait: a run that ends later than now ended before the clock was
    # set back.
    if now_ns < due_ns <= now_ns + round(CRASH_LOOP.s_max) * SECOND_NS:
        yield due_ns
    elif view.run is None:
        yield StartContainer(container.name, 0)
    else:
        yield StartContainer(container.name, view.run.attempt + 1, crashes_after(view.run))


def start_ns(pod: Obj, container: Container, view: ContainerView) -> int | None:
    """When its next run is due; None: never."""
    due_ns = retry_ns(view.trouble) if view.trouble is not None else 0
    if view.run is None:
        return due_ns
    assert view.run.exit is not None
    if not view.stale and not restarts_for(container, pod, view.run.exit.code):
        return None
    return max(due_ns, restart_ns(view.run))
