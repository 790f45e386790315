"""HorizontalPodAutoscalers: as many replicas as the use of resources asks for, and no more than can work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor
from typing import ClassVar

from fathom.cache.snapshot import Snapshot
from fathom.client.api import Resource
from fathom.control.commit import AppliedPlan
from fathom.control.kit import Kit
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.watches import (
    AUTOSCALER,
    DEPLOYMENT,
    NODE,
    POD,
    REPLICA_SET,
    Primary,
    Related,
    View,
    Watch,
)
from fathom.controllers.adoption import FOR_CHILDREN, selector_of
from fathom.controllers.autoscaler.plan import (
    AutoscalerFacts,
    ReplicaDecision,
    decide,
    plan_autoscaler,
    rivals_of,
)
from fathom.controllers.autoscaler.plan_behavior import History
from fathom.controllers.autoscaler.samples import PodSample
from fathom.controllers.autoscaler.scale_target import CACHED, Foreign, fetch_foreign, is_cached
from fathom.controllers.deployment.revisions import size_of
from fathom.controllers.leader_min_revision import LeaderMinRevision
from fathom.controllers.override_pauses import (
    OVERRIDE,
    WorkloadPause,
    in_scope_of,
    paused,
    read_override,
    workload_of,
)
from fathom.controllers.pod_states import seconds
from fathom.controllers.progress.controller import WORKLOAD_PROGRESS
from fathom.controllers.progress.plan import progress_name
from fathom.controllers.workload_events import of_autoscaler
from fathom.kinds.scheduler_override import expiry_ns, override_active
from fathom.model.declared import AGENTS, Reads, Timer, Writes
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, metadata
from fathom.model.quantity import parse
from fathom.model.times import duration_ns

POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods")

PAUSES = ("pause_autoscaler", "pause_expansion")
EVERY_S = 15.0  # Kubernetes' period: its default policies count in it.
SAMPLE_AGE_S_MAX = 90.0
AFTER_END_S = 0.1  # So that an override is over when its end has come, however a timer is rounded.


def _named_by(workload: Obj, view: View) -> Iterable[Key]:
    """The autoscalers of a target that was created, deleted or scaled by another client."""
    key = key_of(workload)
    return tuple(
        key_of(autoscaler)
        for autoscaler in view().list("HorizontalPodAutoscaler", key.namespace)
        if (lookup(autoscaler, "spec", "scaleTargetRef") or {}).get("name") == key.name
    )


def _paused_by(override: Obj, view: View) -> Iterable[Key]:
    """The autoscalers of the workload that an override is about: its end wakes them."""
    workload = workload_of(override)
    return () if workload is None else _named_by({"metadata": workload._asdict()}, view)


class Autoscalers:
    name = "autoscaling"
    event_reports = staticmethod(of_autoscaler)
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(AUTOSCALER),
        Related(DEPLOYMENT, concerns=_named_by),
        Related(REPLICA_SET, indexes=FOR_CHILDREN),
        Related(POD, indexes=FOR_CHILDREN),
        Related(WORKLOAD_PROGRESS),
        Related(OVERRIDE, concerns=_paused_by),
        Related(NODE),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("HorizontalPodAutoscaler", ("spec", "status")),
        Reads("Deployment", ("spec.replicas", "spec.selector", "status")),
        Reads("ReplicaSet", ("spec.replicas", "spec.selector", "status")),
        Reads("Pod", ("metadata.labels", "spec", "status")),
        Reads("WorkloadProgress", ("status",)),
        Reads("SchedulerOverride", ("spec", "status")),
        Reads("Node", ("metadata.labels",)),
        Reads("PodMetrics", source="api"),
    )
    writes: ClassVar[tuple[Writes, ...]] = (
        Writes("HorizontalPodAutoscaler", ("status",)),
        Writes("Deployment", ("spec.replicas",)),
        Writes("ReplicaSet", ("spec.replicas",)),
        Writes("StatefulSet", ("spec.replicas",)),
    )
    calls: ClassVar[tuple[str, ...]] = (AGENTS,)
    timers: ClassVar[tuple[Timer, ...]] = (Timer("sync period", EVERY_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._began_ns = kit.monotonic_ns()  # Each term makes new controllers.
        self._floor = LeaderMinRevision(kit, AUTOSCALER, DEPLOYMENT, REPLICA_SET, POD, OVERRIDE)
        # By autoscaler: recommendations and steps of this term, at most an hour back, in monotonic times.
        self._histories: dict[Key, History] = {}
        # When each last decided: once per period, and when a pause ends.
        self._looked_ns: dict[Key, int] = {}
        self._pauses: dict[Key, tuple[Key, ...]] = {}  # The overrides that paused each when it last decided.

    async def reconcile(self, key: Key) -> ReconcileResult:
        autoscaler = self._kit.snapshot().get("HorizontalPodAutoscaler", key)
        if autoscaler is None:
            self._histories.pop(key, None)
            self._looked_ns.pop(key, None)
            self._pauses.pop(key, None)
            return ReconcileResult.never()
        wait_s = self._wait_s(key)
        if wait_s > 0:
            return ReconcileResult.in_s(wait_s, "the next sync period")
        await self._floor.fetch()
        samples, trouble = await self._fetch_samples(key.namespace)
        reference = lookup(autoscaler, "spec", "scaleTargetRef") or {}
        foreign = None
        if not is_cached(reference):
            foreign = await fetch_foreign(self._kit.api, key.namespace, reference)
        return await self._decide(key, samples, trouble, foreign)

    async def _decide(
        self, key: Key, samples: Mapping[str, PodSample], trouble: str, foreign: Foreign | None
    ) -> ReconcileResult:
        view, now, ahead_s = self._kit.snapshot(), self._kit.now(), self._ahead_s()
        autoscaler = view.get("HorizontalPodAutoscaler", key)
        if autoscaler is None:
            return ReconcileResult.never()
        facts = self._facts(view, autoscaler, samples, trouble, foreign)
        decided = decide(autoscaler, facts, now=now)
        plan = plan_autoscaler(autoscaler, facts, decided, now=now)
        applied = await self._kit.apply(key, plan, seen=view)
        if facts.workload is not None:
            history = _continued(
                facts, decided, applied, now=now, answered_s=self._kit.monotonic_ns() / 1e9 + ahead_s
            )
            self._histories[key] = history.shifted(-ahead_s)
        if applied.failure is None:
            self._looked_ns[key] = self._kit.monotonic_ns()
            self._pauses[key] = tuple(Key(key.namespace, each.name) for each in facts.considered)
        return ReconcileResult.after(applied, in_s=self._wait_s(key), why="the next sync period")

    def _wait_s(self, key: Key) -> float:
        """Until the period is over, or a pause that held it when it last decided."""
        looked_ns = self._looked_ns.get(key)
        if looked_ns is None:
            return 0.0
        period_s = EVERY_S - (self._kit.monotonic_ns() - looked_ns) / 1e9
        return min((period_s, *(self._left_s(override) for override in self._pauses.get(key, ()))))

    def _left_s(self, override: Key) -> float:
        obj, now_ns = self._kit.snapshot().get("SchedulerOverride", override), self._kit.now_ns()
        pause = None if obj is None else read_override(obj)
        if pause is None or not override_active(pause, now_ns):
            return 0.0
        return ((expiry_ns(pause) or 0) - now_ns) / 1e9 + AFTER_END_S

    def _facts(
        self,
        view: Snapshot,
        autoscaler: Obj,
        samples: Mapping[str, PodSample],
        trouble: str,
        foreign: Foreign | None,
    ) -> AutoscalerFacts:
        workload = _target(view, autoscaler) if foreign is None else foreign.workload
        key = key_of(autoscaler)
        if workload is None:
            return AutoscalerFacts(None)
        selector = selector_of(workload) if foreign is None else foreign.selector
        now_s, kind = self._kit.now_ns() / 1e9, str(workload["kind"])
        pods = [pod for pod in view.list("Pod", key.namespace) if selector.matches(labels_of(pod))]
        stop, no_growth = (self._pause(view, workload, pods, field) for field in PAUSES)
        pauses = [pause for pause in (stop, no_growth) if pause is not None]
        name = progress_name(kind, key_of(workload).name)
        return AutoscalerFacts(
            workload=workload,
            resource=None if foreign is None else foreign.resource,
            pods=pods,
            samples=samples,
            trouble=trouble,
            progress=view.get("WorkloadProgress", Key(key.namespace, name)),
            rivals=rivals_of(autoscaler, view.list("HorizontalPodAutoscaler", key.namespace)),
            paused_by="" if stop is None else stop.override,
            growth_paused_by="" if no_growth is None else no_growth.override,
            history=self._history(key, now_s, size_of(workload)),
            term_s=(self._kit.monotonic_ns() - self._began_ns) / 1e9,
            needs=self._floor.needs,
            considered=tuple(dict.fromkeys(each for pause in pauses for each in pause.considered)),
        )

    def _pause(self, view: Snapshot, workload: Obj, pods: list[Obj], field: str) -> WorkloadPause | None:
        key = key_of(workload)
        return paused(
            view.list("SchedulerOverride", key.namespace),
            str(workload["kind"]),
            key,
            field,
            now_ns=self._kit.now_ns(),
            in_scope=in_scope_of(view, lambda: pods),
        )

    def _history(self, key: Key, now_s: float, size: int) -> History:
        history = self._histories.get(key)
        if history is None:
            return History().with_recommendation(now_s, size)
        return history.shifted(self._ahead_s()).seen(floor(now_s), size)

    def _ahead_s(self) -> float:
        """How far the wall clock is ahead of the monotonic one; it may be set, and windows keep their
        length."""
        return (self._kit.now_ns() - self._kit.monotonic_ns()) / 1e9

    async def _fetch_samples(self, namespace: str) -> tuple[dict[str, PodSample], str]:
        """Fresh samples by pod; and why there are none, if the API does not answer."""
        try:
            page = await self._kit.api.list_page(POD_METRICS, namespace, limit=0)
        except ApiError as error:
            return {}, f"unable to get resource metrics: {error.message}"
        now_s = self._kit.now_ns() / 1e9
        fresh = [
            pod_metrics
            for pod_metrics in page.items
            if now_s - seconds(pod_metrics.get("timestamp")) <= SAMPLE_AGE_S_MAX
        ]
        return {str(metadata(pod_metrics)["name"]): _sample(pod_metrics) for pod_metrics in fresh}, ""


def _continued(
    facts: AutoscalerFacts, decided: ReplicaDecision, applied: AppliedPlan, *, now: str, answered_s: float
) -> History:
    """The history with what was decided. A step counts from when its answer came, or, if none came, from when
    it is seen in the target: it was made no later, so that no period is too short. In whole seconds, like
    `now`: a period that is as long as the time between two decisions is over at the second one."""
    history, failed = facts.history, applied.failure is not None
    if decided.recommendation is not None and not failed:
        history = history.with_recommendation(seconds(now), decided.recommendation)
    size = size_of(facts.workload or {})
    if decided.replicas == size or not applied.outcomes:
        return history
    history = history.with_note(now)
    return history.unsure(size) if failed else history.stepped(floor(answered_s), decided.replicas - size)


def _sample(pod_metrics: Obj) -> PodSample:
    uses: dict[str, dict[str, int]] = {}
    for container in pod_metrics.get("containers") or ():
        usage = container.get("usage") or {}
        uses[str(container.get("name"))] = {
            name: nano for name, text in usage.items() if (nano := _nanos(text)) is not None
        }
    window_s = (duration_ns(str(pod_metrics.get("window") or "")) or 0) / 1e9
    return PodSample(uses, seconds(pod_metrics.get("timestamp")) - window_s)


def _nanos(text: object) -> int | None:
    """None for an invalid quantity: samples come from outside."""
    try:
        return parse(str(text)).nano
    except ValueError:
        return None


def _target(view: Snapshot, autoscaler: Obj) -> Obj | None:
    reference = lookup(autoscaler, "spec", "scaleTargetRef") or {}
    if not is_cached(reference):
        return None
    kind = CACHED[reference["kind"]]
    workload = view.get(kind.name, Key(key_of(autoscaler).namespace, str(reference.get("name"))))
    return None if workload is None else {"kind": kind.name, **workload}
