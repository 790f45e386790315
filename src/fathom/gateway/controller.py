"""The gateway's controller, on a Domain: makes the proxy's table and reports which pods the proxy reaches.

    caches ──> table ──PUT /gateway/table──> proxy        (a seam: no proxy in simulation)
    pods' condition fathom.dev/Serving <── GET /gateway/observed ──┤
    probes of pods on suspect nodes, Services that fail <── GET /gateway/sight ──┘

Changes are gathered for a moment: a rollout changes an EndpointSlice many times a second.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from fathom.cache.caches import Caches
from fathom.cache.metrics import counted, measure_caches
from fathom.cache.scope import CacheScope
from fathom.cache.snapshot import Snapshot
from fathom.client.api import Api, Resource, own_resource
from fathom.client.outcomes import Committed, Outcome, Rejected
from fathom.control.decision_log import log_of, reporting, subject_at, subject_of
from fathom.control.plan import contains
from fathom.control.watches import EVENT, NODE, POD, SERVICE
from fathom.gateway.actor import POLL_S
from fathom.gateway.budget import ErrorBudget
from fathom.gateway.proxy import AppliedRoutes, ProxyReport
from fathom.gateway.routes import SeenObjects, Table, make_table, other_routes, said_of
from fathom.kinds import traffic_route
from fathom.model.cause import WakeCause
from fathom.model.conditions import (
    CONNECTIONS_FAIL,
    SERVING_CONDITION,
    Status,
    conditions_of,
    is_true,
    set_condition,
)
from fathom.model.decision import Considered, Subject, considered
from fathom.model.media_types import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.resources import SLICES
from fathom.model.times import timestamp
from fathom.model.well_known import ACTOR_HEADER, SUSPECT_TAINT
from fathom.seams.process import Inside
from fathom.seams.seam import Ask, Reply

ROUTES = own_resource(traffic_route.DEFINITION)
IN_FORCE = "InForce"  # Condition of a route.
PODS_PER_NODE = 3  # One reached pod is enough, and each costs a write.
ME = "gateway"

TABLE, OBSERVED, PROXY_REPORT = "/gateway/table", "/gateway/observed", "/gateway/sight"
POLLED = WakeCause("timer", f"every {POLL_S:g} s")
GATHER_S = 0.02
AGAIN_S = 1.0
RETRY_S = 5.0
ANSWER_S = 30.0
TRIES = 5  # To write a condition of a pod that its agent writes at the same time.


class Observation(msgspec.Struct, frozen=True):
    pod: str
    uid: str
    reached: bool


def begin(inside: Inside) -> Gateway:
    gateway = Gateway(inside)
    gateway.start()
    return gateway


class Gateway:
    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        headers = (("user-agent", "fathom-gateway"), (ACTOR_HEADER, ME))
        self._api = Api(inside.seam, headers=headers)
        self._decisions = log_of(inside, ME)
        observer, counts = counted(inside.metrics, None)
        self._caches = Caches(self._api, streams=inside.streams, observer=observer)
        self._dirty = asyncio.Event()
        self.table: Table = ()
        self._budget = ErrorBudget()
        self._unsure = False  # The proxy may not have applied the last table: send it again.
        self._unwritten = False  # A route's status may not say yet what it should.
        self.applied: AppliedRoutes | None = None  # None: no proxy, as in a simulated world.
        for name, resource in (
            ("Service", SERVICE.resource),
            ("EndpointSlice", SLICES),
            ("TrafficRoute", ROUTES),
            ("Node", NODE.resource),
        ):
            self._caches.add(name, CacheScope(resource))
            self._caches.on_change(name, lambda before, after: self._dirty.set())
        measure_caches(inside.metrics, self._caches, counts, inside.outside.clock)

    def start(self) -> None:
        self.task = self._inside.domain.create_task(self._run(), name="gateway")

    async def _run(self) -> None:
        self._caches.start()
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(work) for work in (self._follow(), self._listen(), self._poll_proxy())]
        try:
            while await self._inside.seam.signal() not in {"stop", "rebase"}:
                pass
        finally:
            for task in tasks:
                task.cancel()
            await self._caches.stop()

    # The table.

    async def _follow(self) -> None:
        while late := await self._caches.until_synced(timeout_s=60.0):
            self._inside.log.warn("waiting for caches to sync", kinds=list(late))
        self._dirty.set()
        while True:
            await self._wait()
            self._dirty.clear()
            await asyncio.sleep(GATHER_S)
            view = self._caches.snapshot()
            seen = SeenObjects(
                view.list("Service"),
                view.list("EndpointSlice"),
                view.list("TrafficRoute"),
                view.list("Node"),
            )
            table = make_table(seen)
            if table != self.table or self.applied is None or self.applied.failed or self._unsure:
                await self._send(table)
            self._unwritten = False
            for route in seen.routes:
                others = tuple(
                    considered(ROUTES.name, other, decisive=holds)
                    for other, holds in other_routes(route, seen.routes)
                )
                if not await self._write_route_status(route, said_of(route, seen, table), others):
                    self._unwritten = True

    async def _wait(self) -> None:
        """Wait for a change. After a failure wait RETRY_S at most: the process that held our address may be
        gone, and a status that was not written makes no event."""
        failed = self._unsure or self._unwritten or (self.applied is not None and self.applied.failed)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S if failed else None):
                await self._dirty.wait()

    async def _send(self, table: Table) -> None:
        ask = Ask("PUT", TABLE, msgspec.json.encode(table))
        reply = await self._inside.seam.request(ask, timeout_s=ANSWER_S)
        self.table = table
        self._unsure = not 200 <= reply.status < 500  # No answer, or the host failed.
        if reply.status != 200:
            return
        applied = msgspec.json.decode(reply.body, type=AppliedRoutes)
        before, self.applied = self.applied, applied
        for service, why in applied.failed.items():
            if before is None or before.failed.get(service) != why:
                await self._report_failure(service, why)

    async def _report_failure(self, service: str, why: str) -> None:
        """Report it in the log and as an Event of the Service."""
        message = f"service {service} does not answer at its address: {why}"
        self._inside.log.warn("cannot listen for a service", service=service, warning=message)
        key = Key(*service.split("/", 1))
        service_object = self._caches.snapshot().get("Service", key) or {}
        now = timestamp(self._inside.outside.clock.now_ns())
        event = {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"generateName": f"{key.name}.", "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Service", "namespace": key.namespace, "name": key.name,
                "uid": uid_of(service_object),
            },
            "type": "Warning", "reason": "NotListening", "message": f"the gateway cannot listen: {why}",
            "source": {"component": "fathom-gateway"}, "reportingComponent": "fathom-gateway",
            "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        }  # fmt: skip
        subject = subject_at(SERVICE.resource, key, uid_of(service_object))
        cause = _changed(subject, service_object)
        id_ = self._decisions.decided("report", subject, cause=cause, why=f"the gateway cannot listen: {why}")
        await self._api.with_decision(id_).create(EVENT.resource, key.namespace, reporting(event, id_))

    async def _write_route_status(
        self, route: Obj, verdict: tuple[Status, str, str], others: tuple[Considered, ...]
    ) -> bool:
        """Write into the route's status whether its weights are in force, and of which generation. Whether it
        says so now."""
        status, generation = route.get("status") or {}, metadata(route).get("generation")
        condition_status, reason, message = verdict
        conditions = set_condition(
            conditions_of(route),
            type=IN_FORCE,
            status=condition_status,
            reason=reason,
            message=message,
            observed_generation=generation,
            now=timestamp(self._inside.outside.clock.now_ns()),
        )
        observers = [name for name in status.get("observedBy") or () if name != ME]
        wanted = {"observedGeneration": generation, "observedBy": [*observers, ME], "conditions": conditions}
        if contains(status, wanted):
            return True
        # Fails if the route changed since we read it: from a stale view lastTransitionTime would be reset.
        read = {"resourceVersion": metadata(route).get("resourceVersion")}
        change = {"metadata": read, "status": wanted}
        subject = subject_of(ROUTES, route)
        cause = _changed(subject, route)
        outcome = await self._patch_status(
            ROUTES, subject, change, cause=cause, why=reason, considered=others
        )
        return isinstance(outcome, Committed)

    # Observations of the proxy.

    async def _listen(self) -> None:
        while True:
            opened = await self._inside.seam.open(Ask("GET", OBSERVED), timeout_s=ANSWER_S)
            if isinstance(opened, Reply):
                if opened.status == 404:
                    return  # There is no proxy in a simulated world.
                await asyncio.sleep(AGAIN_S)
                continue
            while (chunks := await opened.read()) is not None:
                for chunk in chunks:
                    for line in chunk.splitlines():
                        await self._write_observation(msgspec.json.decode(line, type=Observation))

    async def _write_observation(self, seen: Observation) -> None:
        namespace, _, name = seen.pod.partition("/")
        key = Key(namespace, name)
        subject = subject_at(POD.resource, key, seen.uid)
        cause = WakeCause("event", "connections of the proxy")
        why = "the gateway reaches the pod" if seen.reached else "the gateway does not reach the pod"
        id_ = self._decisions.decided("status", subject, cause=cause, why=why)
        api = self._api.with_decision(id_)
        for _ in range(TRIES):
            outcome = await api.patch(
                POD.resource,
                key.namespace,
                key.name,
                {"metadata": {"uid": seen.uid}, "status": {"conditions": [self._condition(seen)]}},
                subresource="status",
                media=STRATEGIC_MERGE_PATCH,
            )
            self._decisions.concluded(id_, outcome, subject)
            if isinstance(outcome, Committed | Rejected):
                return  # Rejected: the pod is gone, or another pod has its name.
            await asyncio.sleep(AGAIN_S)

    def _condition(self, seen: Observation) -> dict[str, object]:
        return {
            "type": SERVING_CONDITION,
            "status": "True" if seen.reached else "False",
            "reason": "Reached" if seen.reached else "NotReached",
            "message": "" if seen.reached else "the gateway cannot connect to the pod",
            "lastTransitionTime": timestamp(self._inside.outside.clock.now_ns()),
        }

    # Conditions that other controllers decide by.

    async def _poll_proxy(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            reply = await self._inside.seam.request(Ask("GET", PROXY_REPORT), timeout_s=ANSWER_S)
            if reply.status == 404:
                return  # There is no proxy in a simulated world.
            if reply.status != 200 or not self._caches.synced:
                continue
            proxy_report = msgspec.json.decode(reply.body, type=ProxyReport)
            for pod in pods_of_suspect_nodes(self._caches.snapshot(), proxy_report):
                await self._write_probe_time(pod, reached=proxy_report.reached[pod.uid])
            await self._write_error_budgets(proxy_report)

    async def _write_probe_time(self, pod: ProbedPod, *, reached: bool) -> None:
        """Write the probe time only: lastTransitionTime stays as it is."""
        condition = {
            "type": SERVING_CONDITION,
            "status": "True" if reached else "False",
            "lastProbeTime": timestamp(self._inside.outside.clock.now_ns()),
        }
        change = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        subject = subject_at(POD.resource, pod.key, pod.uid)
        why = f"its node is suspect; the gateway {'reaches' if reached else 'does not reach'} the pod"
        media = STRATEGIC_MERGE_PATCH
        await self._patch_status(POD.resource, subject, change, cause=POLLED, why=why, media=media)

    async def _write_error_budgets(self, proxy_report: ProxyReport) -> None:
        self._budget.note(proxy_report.totals, now_s=asyncio.get_running_loop().time())
        burning, view = self._budget.burning(), self._caches.snapshot()
        for service in view.list("Service"):
            message = burning.get("/".join(key_of(service)))
            if (message is not None) == is_true(service, CONNECTIONS_FAIL):
                continue
            conditions = set_condition(
                conditions_of(service),
                type=CONNECTIONS_FAIL,
                status="False" if message is None else "True",
                reason="Recovered" if message is None else "ConnectionsFail",
                message=message or "",
                now=timestamp(self._inside.outside.clock.now_ns()),
            )
            # A failed write is repeated in the next round.
            change = {"status": {"conditions": conditions}}
            subject = subject_of(SERVICE.resource, service)
            why = message or "connections succeed again"
            await self._patch_status(SERVICE.resource, subject, change, cause=POLLED, why=why)

    async def _patch_status(
        self,
        resource: Resource,
        subject: Subject,
        change: Obj,
        *,
        cause: WakeCause,
        why: str,
        media: str = MERGE_PATCH,
        considered: tuple[Considered, ...] = (),
    ) -> Outcome:
        """Record the decision, send it, record the outcome."""
        id_ = self._decisions.decided("status", subject, cause=cause, why=why, considered=considered)
        outcome = await self._api.with_decision(id_).patch(
            resource, subject.namespace, subject.name, change, subresource="status", media=media
        )
        self._decisions.concluded(id_, outcome, subject)
        return outcome


def _changed(subject: Subject, obj: Obj) -> WakeCause:
    """A change of the object itself, or of what decides whether its weights are in force."""
    revision = int(metadata(obj).get("resourceVersion") or 0)
    return WakeCause("event", "", subject.resource, subject.namespace, subject.name, revision)


class ProbedPod(msgspec.Struct, frozen=True):
    key: Key
    uid: str


def pods_of_suspect_nodes(view: Snapshot, proxy_report: ProxyReport) -> list[ProbedPod]:
    """Some pods of each suspect node. None if the gateway reaches no pod at all: it may itself be cut off."""
    suspects = {key_of(node).name for node in view.list("Node") if _is_suspect(node)}
    if not suspects or not any(proxy_report.reached.values()):
        return []
    pods_by_node: dict[str, list[ProbedPod]] = {}
    for endpoint_slice in view.list("EndpointSlice"):
        for endpoint in endpoint_slice.get("endpoints") or ():
            node, target = str(endpoint.get("nodeName")), endpoint.get("targetRef") or {}
            pod = ProbedPod(
                Key(key_of(endpoint_slice).namespace, str(target.get("name"))), str(target.get("uid"))
            )
            if (
                node in suspects
                and pod.uid in proxy_report.reached
                and pod not in pods_by_node.setdefault(node, [])
            ):
                pods_by_node[node].append(pod)
    return [
        pod for pods in pods_by_node.values() for pod in sorted(pods, key=lambda pod: pod.key)[:PODS_PER_NODE]
    ]


def _is_suspect(node: Obj) -> bool:
    return any(taint.get("key") == SUSPECT_TAINT for taint in lookup(node, "spec", "taints") or ())
