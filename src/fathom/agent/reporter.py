"""Report pods to the API: a controller that writes pod statuses, and the final delete of a pod."""

from __future__ import annotations

from fathom.agent.admission import Rejection
from fathom.agent.pod_worker import PodWorker
from fathom.agent.pods import NodePods
from fathom.agent.status import rejected_status
from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.plan import NOTHING, OWN_WRITES, Delete, Plan, target, write_status
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import POD, Primary, Watch
from fathom.model.cause import RUNTIME, Kind, WakeCause
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES

# A pod whose containers are starting is reported when they have started, or after this long: most pods are up
# by then, which saves a write.
FIRST_REPORT_S = 1.0
LET_GO_S = 30.0
STARTING = "its containers are being started"
PODS = POD.resource.name


def plan_report(pod: Obj, worker: PodWorker) -> Plan:
    status = worker.status(pod)
    written = write_status("Pod", pod, status)
    if written and not (is_deleting(pod) and _same(pod.get("status") or {}, status)):
        return Plan(statuses=written, why=f"{status['phase']}")
    if _may_go(pod, worker):
        # The API server removes an ended pod at once; only the agent may say that nothing of it runs.
        return Plan(
            deletes=(Delete(target("Pod", pod)),),
            needs=(OWN_WRITES,),
            why="none of its containers runs any more",
        )
    return NOTHING


def plan_rejection(pod: Obj, rejection: Rejection, *, now_ns: int) -> Plan:
    if lookup(pod, "status", "phase") in TERMINAL_PHASES:
        return NOTHING
    status = rejected_status(pod, rejection, now_ns=now_ns)
    return Plan(statuses=write_status("Pod", pod, status), why=rejection.reason)


def _may_go(pod: Obj, worker: PodWorker) -> bool:
    return worker.over and is_deleting(pod) and lookup(pod, "status", "phase") in TERMINAL_PHASES


def _same(before: Obj, after: Obj) -> bool:
    """Compare without the generation: a deletion increases it, and needs no status write."""
    return _ungenerated(before) == _ungenerated(after)


def _ungenerated(status: Obj) -> Obj:
    conditions = [
        {name: value for name, value in condition.items() if name != "observedGeneration"}
        for condition in status.get("conditions") or ()
    ]
    return {**status, "observedGeneration": 0, "conditions": conditions}


class Reporter:
    """Creates the `Reporting` controller for the kit."""

    def __init__(self, pods: NodePods) -> None:
        self.name = "agent"
        self.watches: tuple[Watch, ...] = (Primary(POD, conditions=False),)
        self._pods = pods

    def __call__(self, kit: Kit) -> Reporting:
        return Reporting(kit, self._pods)


class Reporting:
    def __init__(self, kit: Kit, pods: NodePods) -> None:
        self._kit = kit
        self._pods = pods
        self._final_deletes: dict[
            Key, tuple[str, int]
        ] = {}  # Pods whose final delete was sent: UID, and when.
        pods.wake = lambda pod: kit.wake(key_of(pod), self._cause(pod, "event", event=RUNTIME))

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        pod = view.get("Pod", key)
        worker = self._pods.worker(uid_of(pod)) if pod is not None else None
        if pod is None:
            self._final_deletes.pop(key, None)
        if pod is not None and worker is None and (rejection := self._pods.rejection(uid_of(pod))):
            plan = plan_rejection(pod, rejection, now_ns=self._kit.now_ns())
            return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))
        if pod is None or worker is None:
            return ReconcileResult.never()  # The worker wakes us when there is one.
        if wait_s := self._wait_s(pod, worker):
            self._kit.wake(key, self._cause(pod, "timer", STARTING), after_s=wait_s)
            return ReconcileResult.never()
        plan = plan_report(pod, worker)
        if plan.deletes:
            return await self._let_go(key, uid_of(pod), plan, view)
        return ReconcileResult.after(await self._kit.apply(key, plan, seen=view))

    def _cause(self, pod: Obj, kind: Kind, detail: str = "", event: str = "") -> WakeCause:
        """Until the pod is reported, all that happens to it follows from its binding: it is named."""
        revision = 0 if lookup(pod, "status", "startTime") else self._pods.received_at(uid_of(pod))
        if not revision:
            return WakeCause(kind, detail, event=event)
        return WakeCause(kind, detail, PODS, *key_of(pod), revision, event=event)

    async def _let_go(self, key: Key, uid: str, plan: Plan, view: Snapshot) -> ReconcileResult:
        """Send the final delete, not twice in a row: the watch will show that the pod is gone, or a finalizer
        holds it."""
        now_ns = self._kit.monotonic_ns()
        sent_uid, at_ns = self._final_deletes.get(key, ("", 0))
        if sent_uid == uid and now_ns - at_ns < LET_GO_S * 1e9:
            return ReconcileResult.in_s(LET_GO_S, "a finalizer blocks the deletion")
        applied = await self._kit.apply(key, plan, seen=view)
        if applied.failure is None and applied.outcomes:
            self._final_deletes[key] = (uid, now_ns)
        # 1. The request is lost. 2. The pod, when read then, is being deleted: it seems to be done. 3. It
        # stays for ever, since nothing about it changes any more. So we check again.
        return ReconcileResult.after(applied, in_s=LET_GO_S, why="to check that the pod is gone")

    def _wait_s(self, pod: Obj, worker: PodWorker) -> float:
        if worker.is_worth_reporting or lookup(pod, "status", "podIP"):
            return 0.0
        age_s = (self._kit.monotonic_ns() - worker.since_ns) / 1e9
        return max(0.0, FIRST_REPORT_S - age_s)
