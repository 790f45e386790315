"""What the API is told of pods: a controller whose plans are statuses, and a delete at the end."""

from __future__ import annotations

from fathom.agent.pods import Pods
from fathom.agent.views import TERMINAL
from fathom.agent.worker import Worker
from fathom.control.again import Again
from fathom.control.cause import Cause
from fathom.control.kit import Kit
from fathom.control.plan import NOTHING, OWN_WRITES, Delete, Plan, target, write_status
from fathom.control.watches import POD, Primary, Watch
from fathom.model.objects import Key, Obj, is_deleting, lookup, uid_of

# A pod whose containers are just being started is reported when they have, or after this long: most pods are
# up by then, and need one write less.
FIRST_REPORT_S = 1.0


def plan_report(pod: Obj, worker: Worker) -> Plan:
    status = worker.status(pod)
    written = write_status("Pod", pod, status)
    if written:
        return Plan(statuses=written, why=f"{status['phase']}")
    if worker.over and is_deleting(pod) and lookup(pod, "status", "phase") in TERMINAL:
        # A server removes a pod that has ended at once; only the agent may say that nothing of it runs.
        return Plan(deletes=(Delete(target("Pod", pod)),), needs=(OWN_WRITES,), why="nothing of it runs")
    return NOTHING


class Reporter:
    """Makes the one that reports, for the kit."""

    def __init__(self, pods: Pods) -> None:
        self.name = "agent"
        self.watches: tuple[Watch, ...] = (Primary(POD, conditions=False),)
        self._pods = pods

    def __call__(self, kit: Kit) -> Reporting:
        return Reporting(kit, self._pods)


class Reporting:
    def __init__(self, kit: Kit, pods: Pods) -> None:
        self._kit = kit
        self._pods = pods
        pods.wake = lambda key: kit.wake(key, Cause("event", "runtime"))

    async def reconcile(self, key: Key) -> Again:
        view = self._kit.snapshot()
        pod = view.get("Pod", key)
        worker = self._pods.worker(uid_of(pod)) if pod is not None else None
        if pod is None or worker is None:
            return Again.never()  # The worker wakes us when there is one.
        if wait_s := self._wait_s(pod, worker):
            return Again.in_s(wait_s, "its containers are being started")
        return Again.after(await self._kit.apply(key, plan_report(pod, worker), seen=view))

    def _wait_s(self, pod: Obj, worker: Worker) -> float:
        if worker.has_news or lookup(pod, "status", "podIP"):
            return 0.0
        age_s = (self._kit.now_ns() - worker.since_ns) / 1e9
        return max(0.0, FIRST_REPORT_S - age_s)
