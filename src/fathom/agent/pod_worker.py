"""The worker of one pod: look, plan, act, and look again when something changes or is due.

It calls only the runtime, so pods keep running while no API server answers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from fathom.agent.backoff import is_config
from fathom.agent.container_slots import Slot
from fathom.agent.container_views import Container, ContainerTrouble, ContainerView, containers_of
from fathom.agent.exit_events import event_of_exit
from fathom.agent.plan import (
    Action,
    KillContainer,
    PodPlan,
    StartContainer,
    StopContainer,
    is_ending,
    orphan_grace_s,
    plan_pod,
    start_ns,
)
from fathom.agent.runtime import (
    ContainerNotStarted,
    ContainerRun,
    KeptContainer,
    Launch,
    ProbeResult,
    Runtime,
)
from fathom.agent.runtime_client import RuntimeFailed, again
from fathom.agent.status import PodPlace, pod_status
from fathom.model.objects import Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.times import SECOND_NS
from fathom.seams.outside import Clock

NEVER_RAN = "StartError"  # The reason of an exit without a run.
# kubelet waits for a postStart hook as long as it takes; every wait here has an end.
HOOK_S = 7 * 24 * 3600.0


class PodSurroundings(msgspec.Struct, frozen=True):
    """Dependencies that all workers of an agent share."""

    runtime: Runtime
    clock: Clock
    host_ip: str
    changed: Callable[[Obj], None]  # The pod's status may have changed.
    event: Callable[[Obj, str, str, str, str], None]  # pod, container, type, reason, message
    removed: Callable[[str], None]  # The pod with this UID is fully removed.
    rng: random.Random
    heard_ns: Callable[[], int | None] = lambda: None  # When the API server last answered.


class PodWorker:
    def __init__(
        self, kept: KeptContainer, pod: Obj, around: PodSurroundings, *, orphan: bool = False
    ) -> None:
        self.pod = pod
        self.ip = kept.ip
        self.orphan = orphan
        self.since_ns = around.clock.monotonic_ns()
        self._around = around
        self._wall_ns = 0  # The wall clock minus the monotonic one, at the last look.
        self._grace_s: int | None = None  # Grace period of a pod being deleted, and its end; monotonic.
        self._grace_ns = 0
        self._dirty = asyncio.Event()
        self._actions: dict[asyncio.Task[None], None] = {}
        self._hooks: dict[str, asyncio.Task[ProbeResult]] = {}  # Running postStart hooks, by container.
        self._early: dict[
            str, ContainerRun
        ] = {}  # Runs that ended before their start was reported to us, by id.
        self._plan = PodPlan()
        self.slots = {container.name: self._slot(container) for container in containers_of(pod)}
        for run in sorted(kept.runs, key=lambda run: run.attempt):
            self._adopt(run)
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"pod {uid_of(pod)}")
        self.task.add_done_callback(self._stopped)

    @property
    def over(self) -> bool:
        return self._plan.over

    @property
    def is_worth_reporting(self) -> bool:
        """Whether all containers are up or something failed, so that a report is worth it: not merely
        starting."""
        views = [slot.view for slot in self.slots.values()]
        if any(view.trouble or (view.run and view.run.exit and view.run.exit.code) for view in views):
            return True
        return self.over or all(view.running and view.health.started and view.health.ready for view in views)

    def status(self, pod: Obj) -> Obj:
        place = PodPlace(self.ip, self._around.host_ip)
        views = {name: slot.view for name, slot in self.slots.items()}
        return pod_status(pod, views, place, now_ns=self._around.clock.now_ns(), over=self.over)

    def update(self, pod: Obj) -> None:
        self.pod = pod
        for container in containers_of(pod):
            if container.name in self.slots:
                self.slots[container.name].container = container
        self._dirty.set()

    def look(self) -> None:
        self._dirty.set()

    def orphaned(self) -> None:
        self.orphan = True
        self._dirty.set()

    def ended(self, run: ContainerRun) -> None:
        slot = self.slots.get(run.container)
        if slot is None:
            return
        if slot.view.busy and (slot.view.run is None or slot.view.run.attempt < run.attempt):
            self._early[run.id] = run
            self._cut_hook(run.container)
            return
        slot.ended(run)
        self._tell_of_end(slot, run)

    def _tell_of_end(self, slot: Slot, run: ContainerRun) -> None:
        if run.exit is not None and run.exit.code and not is_deleting(self.pod):
            self._event(run.container, "Warning", *event_of_exit(run.container, run.exit))
        self._tell_of_back_off(slot)

    def _cut_hook(self, container: str) -> None:
        if container in self._hooks:
            self._hooks[container].cancel()

    def _tell_of_back_off(self, slot: Slot) -> None:
        """Write kubelet's BackOff Event when the next run has to wait."""
        view = slot.view
        if view.run is None or view.run.exit is None or is_deleting(self.pod):
            return
        due_ns = start_ns(self.pod, slot.container, view)
        if due_ns is None or due_ns <= self._around.clock.now_ns():
            return
        pod_id = f"{key_of(self.pod).name}_{key_of(self.pod).namespace}({uid_of(self.pod)})"
        message = f"Back-off restarting failed container {slot.container.name} in pod {pod_id}"
        self._event(slot.container.name, "Warning", "BackOff", message)

    def cancel(self) -> None:
        for slot in self.slots.values():
            slot.stop_probing()
        for task in (*self._actions, self.task):
            task.cancel()

    # The loop.

    async def _run(self) -> None:
        while True:
            self._dirty.clear()
            clock = self._around.clock
            # Durations are counted on the monotonic clock; objects and runs name wall times.
            now_ns = clock.now_ns()
            self._wall_ns = now_ns - clock.monotonic_ns()
            views = {name: self._on_wall(slot.view) for name, slot in self.slots.items()}
            was_over = self._plan.over
            self._plan = plan_pod(
                self.pod,
                views,
                now_ns=now_ns,
                orphan=self.orphan,
                heard_ns=None if (heard_ns := self._around.heard_ns()) is None else heard_ns + self._wall_ns,
                deleted_ns=self._grace_ends_ns(),
            )
            if is_ending(self.pod, views, now_ns=now_ns, orphan=self.orphan):
                for name in list(self._hooks):  # Only then can its container be stopped.
                    self._cut_hook(name)
            for action in self._plan.actions:
                self._begin(action)
            if self._plan.over and not was_over:
                for slot in self.slots.values():
                    slot.stop_probing()
            if self._plan.over and self.orphan:
                await self._remove()
                return
            if not self.orphan:
                self._around.changed(self.pod)
            await self._until(self._plan.look_ns, now_ns)

    def _on_wall(self, view: ContainerView) -> ContainerView:
        if not view.kill_ns:
            return view
        return msgspec.structs.replace(view, kill_ns=view.kill_ns + self._wall_ns)

    def _grace_ends_ns(self) -> int | None:
        """When the grace period of a pod being deleted ends, counted from when we learned of it: the server's
        clock may differ, and either may be set. A shorter grace period counts from when we learned of
        that, and that of an orphan from when we learned that the pod is gone."""
        meta = metadata(self.pod)
        grace_s, now_ns = meta.get("deletionGracePeriodSeconds"), self._around.clock.monotonic_ns()
        if self.orphan:
            grace_s = orphan_grace_s(self.pod)
        elif not meta.get("deletionTimestamp") or not isinstance(grace_s, int):
            return None
        if self._grace_s is None or grace_s < self._grace_s:
            ends_ns = now_ns + grace_s * SECOND_NS
            self._grace_s, self._grace_ns = grace_s, min(ends_ns, self._grace_ns or ends_ns)
        return self._grace_ns + self._wall_ns

    async def _until(self, look_ns: int | None, now_ns: int) -> None:
        if look_ns is None:
            await self._dirty.wait()
            return
        try:
            async with asyncio.timeout(max(0.001, (look_ns - now_ns) / SECOND_NS)):
                await self._dirty.wait()
        except TimeoutError:
            pass

    async def _remove(self) -> None:
        await again(lambda: self._around.runtime.remove(uid_of(self.pod)))
        self._around.removed(uid_of(self.pod))

    # Actions.

    def _begin(self, action: Action) -> None:
        slot = self.slots[action.container]
        work: Coroutine[Any, Any, None]
        match action:
            case StartContainer():
                slot.change(busy=True)
                work = self._start(slot, action)
            case StopContainer(kill_ns=kill_ns):
                slot.stop_probing()
                slot.change(busy=True, kill_ns=kill_ns - self._wall_ns)
                work = self._stop(slot, action)
            case KillContainer():
                slot.change(killed=True)
                work = self._kill(slot)
        self._act(slot, action, work)

    def _act(self, slot: Slot, action: Action, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._actions[task] = None
        task.add_done_callback(lambda done: self._done(done, slot, action))

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Report a crash: nothing awaits this task, and a bug must not silently leave a pod unmanaged."""
        if not task.cancelled() and (error := task.exception()) is not None:
            message = f"the worker of pod {uid_of(self.pod)} failed"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

    def _done(self, task: asyncio.Task[None], slot: Slot, action: Action) -> None:
        self._actions.pop(task, None)
        if not isinstance(action, KillContainer):
            slot.change(busy=False)
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"an action failed: {action}", "exception": error}
            )

    async def _start(self, slot: Slot, action: StartContainer) -> None:
        name, image = slot.container.name, str(slot.container.spec.get("image") or "")
        launch = Launch(self.pod, name, action.attempt, action.crashes)
        began = await self._around.runtime.start(launch)
        if isinstance(began, ContainerNotStarted):
            self._not_started(slot, began, image)
            return
        if began.exit is not None and began.exit.reason == NEVER_RAN:
            self._event(name, "Warning", "Failed", f"Error: {began.exit.message or began.exit.code}")
            slot.began(began)
            self._tell_of_back_off(slot)
            return
        self._event(name, "Normal", "Started", f"Started container {name}")
        if began.note:
            self._event(name, "Warning", "NotMounted", began.note)
        await self._begun(slot, began)

    def _not_started(self, slot: Slot, failure: ContainerNotStarted, image: str) -> None:
        before = slot.view.trouble
        again = before is not None and (before.reason, before.image) == (failure.reason, image)
        count = before.count + 1 if before is not None and again else 1
        now_ns = self._around.clock.now_ns()
        trouble = ContainerTrouble(failure.reason, failure.message, now_ns, count, image)
        slot.change(trouble=trouble)
        if not is_config(trouble) or count & (count - 1) == 0:  # Of frequent retries, ever fewer are told.
            self._event(slot.container.name, "Warning", failure.reason, failure.message)

    async def _begun(self, slot: Slot, began: ContainerRun) -> None:
        """The process runs; the container counts as running once its postStart hook has finished."""
        hook = lookup(slot.container.spec, "lifecycle", "postStart")
        probed = await self._post_start(began, hook) if hook and began.exit is None else None
        early = self._early.pop(began.id, None)
        slot.began(early or began)
        if early is not None:
            self._tell_of_end(slot, early)
        elif began.exit is not None:  # It has ended already; the runtime will still report that.
            self._tell_of_back_off(slot)
        elif probed is not None and not probed.ok:
            self._event(slot.container.name, "Warning", "FailedPostStartHook", probed.message)
            slot.sicken(f"PostStartHook failed: {probed.message}")

    async def _post_start(self, run: ContainerRun, hook: Obj) -> ProbeResult | None:
        """None: the container ended, or must stop, before its hook finished."""
        hook_task = asyncio.get_running_loop().create_task(self._hook(run, hook, HOOK_S))
        self._hooks[run.container] = hook_task
        try:
            return await hook_task
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            return None
        finally:
            del self._hooks[run.container]

    async def _stop(self, slot: Slot, action: StopContainer) -> None:
        run = slot.view.run
        assert run is not None
        name = slot.container.name
        self._event(name, "Normal", "Killing", f"Stopping container {name}: {action.why}")
        hook = lookup(slot.container.spec, "lifecycle", "preStop")
        left_s = (action.kill_ns - self._around.clock.now_ns()) / SECOND_NS
        if hook and left_s > 0:
            probed = await self._hook(run, hook, left_s)
            if not probed.ok:
                self._event(name, "Warning", "FailedPreStopHook", probed.message)
        await self._signal(run, kill=False)

    async def _kill(self, slot: Slot) -> None:
        assert slot.view.run is not None
        await self._signal(slot.view.run, kill=True)

    async def _signal(self, run: ContainerRun, *, kill: bool) -> None:
        """Retried: no container may outlive its grace period only because no file could be opened."""

        def tell(error: RuntimeFailed) -> None:
            self._event(run.container, "Warning", "FailedKillPod", str(error))

        await again(lambda: self._around.runtime.signal(run, kill=kill), tell)

    async def _hook(self, run: ContainerRun, hook: Obj, seconds: float) -> ProbeResult:
        if "sleep" in hook:
            await asyncio.sleep(min(seconds, float(hook["sleep"].get("seconds") or 0)))
            return ProbeResult(True)
        probe = {**hook, "timeoutSeconds": max(1, round(seconds)), "hook": True}
        return await self._around.runtime.probe(run, self.pod, probe, ip=self.ip)

    # Setup.

    def _slot(self, container: Container) -> Slot:
        async def ask(run: ContainerRun, probe: Obj) -> ProbeResult:
            return await self._around.runtime.probe(run, self.pod, probe, ip=self.ip)

        def tell(type_: str, reason: str, message: str) -> None:
            self._event(container.name, type_, reason, message)

        return Slot(container, ask, tell, self._dirty.set, rng=self._around.rng)

    def _adopt(self, run: ContainerRun) -> None:
        slot = self.slots.get(run.container)
        if slot is None:
            return
        if run.exit is None and not self.orphan and owes_hook(self.pod, slot.container, run):
            slot.change(busy=True)
            self._act(slot, StartContainer(run.container, run.attempt, run.crashes), self._begun(slot, run))
            return
        was = (_status_of(self.pod, run) or {}) if run.exit is None else {}
        slot.began(run, ready=bool(was.get("ready")), started=bool(was.get("started")))

    def _event(self, container: str, type_: str, reason: str, message: str) -> None:
        self._around.event(self.pod, container, type_, reason, message)


def owes_hook(pod: Obj, container: Container, run: ContainerRun) -> bool:
    """Whether an earlier agent may have died before the run's postStart hook finished: the status does not
    report the run yet. As with kubelet, a hook runs at least once."""
    return bool(lookup(container.spec, "lifecycle", "postStart")) and _status_of(pod, run) is None


def _status_of(pod: Obj, run: ContainerRun) -> Obj | None:
    for field in ("containerStatuses", "initContainerStatuses"):
        for status in lookup(pod, "status", field) or ():
            if status.get("name") == run.container and status.get("containerID") == run.id:
                return status  # type: ignore[no-any-return]  # an object
    return None
