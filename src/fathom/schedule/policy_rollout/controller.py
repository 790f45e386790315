"""The PolicyRollout controller: collects the signals for the gates, and applies `plan_rollout`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from fathom.cache.needs import NoOlderThan
from fathom.cache.snapshot import Snapshot
from fathom.control.kit import Kit
from fathom.control.plan import OWN_WRITES, Patch, Plan, WriteStatus, target
from fathom.control.reconcile_result import ReconcileResult
from fathom.control.signals import COMPONENT_SIGNALS, component_of, raised_of
from fathom.control.watches import NAMESPACE, NODE, POD, SERVICE, Primary, Related, Watch, own
from fathom.kinds import policy_rollout, scheduling_policy
from fathom.kinds.policy_rollout import PolicyRollout, policy_in
from fathom.kinds.scheduler_override import workloads_of
from fathom.kinds.shape import read
from fathom.model.conditions import (
    BLOCKED_BY_POLICY,
    CONNECTIONS_FAIL,
    conditions_of,
    find_condition,
    is_true,
    set_condition,
    without_digits,
)
from fathom.model.decision import Considered, considered
from fathom.model.declared import Reads, Timer, Writes
from fathom.model.objects import Key, Obj, key_of
from fathom.model.pod_phase import is_terminal
from fathom.model.tenancy import tenant_of
from fathom.model.times import duration_ns
from fathom.schedule.policy_rollout.plan import (
    CANARY,
    COMPLETE,
    ROLLED_BACK,
    Bake,
    Next,
    Share,
    Signals,
    bake,
    plan_rollout,
)

POLICY = own(scheduling_policy.DEFINITION)
ROLLOUT = own(policy_rollout.DEFINITION)

# A rollout is reconciled again after this time even without an event: signals age, and pods that begin to
# wait must be noticed before the end of a step.
LOOK_S = 5.0
TROUBLES_MAX = 3  # Named in a message.


def identity_of(pod: Obj) -> str:
    """The identity that decides whether a pod is in the canary: its workload, so that a workload has one
    policy."""
    namespace = str((pod.get("metadata") or {}).get("namespace") or "")
    return f"{namespace}/{workloads_of(pod)[-1]}"


class PolicyRollouts:
    name = "policy-rollouts"
    watches: ClassVar[tuple[Watch, ...]] = (
        Primary(ROLLOUT),
        Related(POLICY),
        Related(POD),
        Related(NODE),
        Related(NAMESPACE),
        Related(SERVICE),
        Related(COMPONENT_SIGNALS),
    )
    reads: ClassVar[tuple[Reads, ...]] = (
        Reads("PolicyRollout"),
        Reads("SchedulingPolicy", ("spec",)),
        Reads("Pod", ("metadata", "spec", "status")),
        Reads("Node", ("metadata.labels", "spec", "status.conditions")),
        Reads("Namespace", ("metadata.labels",)),
        Reads("Service", ("spec", "status.conditions")),
        Reads("ComponentSignals", ("status",)),
    )
    writes: ClassVar[tuple[Writes, ...]] = (Writes("PolicyRollout", ("status",)),)
    timers: ClassVar[tuple[Timer, ...]] = (Timer("signals of the gates", LOOK_S),)

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._bakes: dict[Key, Bake] = {}  # By rollout: its present step, and how long it was judged.

    async def reconcile(self, key: Key) -> ReconcileResult:
        view = self._kit.snapshot()
        obj = view.get("PolicyRollout", key)
        if obj is None or (obj.get("metadata") or {}).get("deletionTimestamp"):
            self._bakes.pop(key, None)
            return ReconcileResult.never()
        rollout = read(PolicyRollout, obj)
        following = plan_rollout(rollout, self._signals(key, rollout, view))
        plan = as_plan(obj, rollout, following, self._kit.now())
        plan = msgspec.structs.replace(plan, considered=_policies(rollout, following, view))
        applied = await self._kit.apply(key, plan, seen=view)
        return ReconcileResult.after(
            applied, in_s=min(following.after_s or LOOK_S, LOOK_S), why=following.why
        )

    def _signals(self, key: Key, rollout: PolicyRollout, view: Snapshot) -> Signals:
        signals = gather(rollout, view, now_ns=self._kit.now_ns())
        if rollout.status.phase != CANARY:
            self._bakes.pop(key, None)
            return signals
        now_ns = self._kit.monotonic_ns()
        current = self._bakes[key] = bake(self._bakes.get(key), rollout, signals, monotonic_ns=now_ns)
        return msgspec.structs.replace(signals, baked_ns=current.baked_ns)


def as_plan(obj: Obj, rollout: PolicyRollout, following: Next, now: str) -> Plan:
    """A step forward is destructive: schedulers act on it, so it needs a fresh view. Writing why the rollout
    waits does not."""
    conditions = _conditions(obj, rollout, following, now)
    if following.status is None:
        baked = {} if following.baked_seconds is None else {"bakedSeconds": following.baked_seconds}
        changed = {} if _is_written(obj, rollout, following) else {"conditions": conditions}
        statuses = (
            (WriteStatus(target("PolicyRollout", obj), {**baked, **changed}),) if baked or changed else ()
        )
        return Plan(statuses=statuses, why=following.why)
    allowed_ns = duration_ns(rollout.spec.gates.signals_max_age) or 30_000_000_000
    status = {**msgspec.to_builtins(following.status), **_blanks(following), "conditions": conditions}
    return Plan(
        patches=(
            Patch(target("PolicyRollout", obj), {"status": status}, subresource="status", destructive=True),
        ),
        needs=(OWN_WRITES, NoOlderThan(allowed_ns / 1e9)),
        why=following.why,
    )


def _conditions(obj: Obj, rollout: PolicyRollout, following: Next, now: str) -> list[Obj]:
    status, before = following.status or rollout.status, conditions_of(obj)
    progressing = find_condition(before, "Progressing")
    if status.phase == rollout.status.phase and progressing is not None and _is_final(progressing, rollout):
        return before  # Its activation is written, and how it ended stays.
    return set_condition(
        before,
        type="Progressing",
        status="True" if status.phase == CANARY else "False",
        reason=following.held or status.phase or "Pending",
        message=following.message,
        observed_generation=rollout.metadata.generation,
        now=now,
    )


def _policies(rollout: PolicyRollout, following: Next, view: Snapshot) -> tuple[Considered, ...]:
    """The policies of the rollout, as they are; one that pods wait because of is decisive."""
    blamed = rollout.status.canary if following.regressed else ""
    names = dict.fromkeys((rollout.spec.to, rollout.spec.from_, rollout.status.active))
    policies = [view.get("SchedulingPolicy", Key("", name)) for name in names if name]
    return tuple(
        considered(scheduling_policy.POLICIES, policy, decisive=key_of(policy).name == blamed)
        for policy in policies
        if policy is not None
    )


def _blanks(following: Next) -> Obj:
    """Fields to reset: defaults are omitted on the wire, and a patch without a field keeps its old value."""
    status = following.status
    assert status is not None
    fields = ("canary", "percent", "step", "activationRevision", "bakedSeconds")
    values = (
        status.canary,
        status.percent,
        status.step,
        status.activation_revision,
        status.baked_seconds,
    )
    return dict(zip(fields, values, strict=True))


def _is_written(obj: Obj, rollout: PolicyRollout, following: Next) -> bool:
    """Whether the condition has this message already, apart from changing numbers."""
    condition = find_condition(conditions_of(obj), "Progressing")
    if condition is None:
        return False
    same = without_digits(condition.get("message")) == without_digits(following.message)
    return same or _is_final(condition, rollout)


def _is_final(condition: Obj, rollout: PolicyRollout) -> bool:
    """Whether the condition tells how the rollout ended: people look for it later, so it stays."""
    phase = rollout.status.phase
    return phase in {COMPLETE, ROLLED_BACK} and condition.get("reason") == phase


def gather(rollout: PolicyRollout, view: Snapshot, *, now_ns: int) -> Signals:
    canary, base = _shares(rollout, view) if rollout.status.phase == CANARY else (Share(), Share())
    exists = view.get("SchedulingPolicy", Key("", rollout.spec.to)) is not None
    age_s = max(view.age(kind) for kind in ("Pod", "Node", "SchedulingPolicy"))
    return Signals(now_ns, age_s, canary, base, exists, trouble_of(view))


def trouble_of(view: Snapshot) -> str:
    """Trouble that holds a rollout but does not roll it back: a slow component, a failing Service."""
    raised = [
        f"{component_of(signals)}: {message}"
        for signals in view.list("ComponentSignals")
        for message in raised_of(signals).values()
    ]
    failing = [
        f"service {'/'.join(key_of(service))}"
        for service in view.list("Service")
        if is_true(service, CONNECTIONS_FAIL)
    ]
    return "; ".join([*raised, *(f"{service}: connections fail" for service in failing)][:TROUBLES_MAX])


def _shares(rollout: PolicyRollout, view: Snapshot) -> tuple[Share, Share]:
    counts = {True: [0, 0], False: [0, 0]}
    for pod in _in_scope(rollout, view):
        policy = policy_in(rollout, identity_of(pod))
        count = counts[policy == rollout.status.canary]
        count[0] += 1
        count[1] += _waits_because_of(pod, policy or scheduling_policy.BUILT_IN)
    return Share(*counts[True]), Share(*counts[False])


def _in_scope(rollout: PolicyRollout, view: Snapshot) -> Iterable[Obj]:
    for pod in view.list("Pod"):
        if is_terminal(pod):
            continue
        namespace = str(pod["metadata"].get("namespace") or "")
        tenant = tenant_of(pod, view.get("Namespace", Key("", namespace)))
        if rollout.spec.scope.includes(tenant=tenant, namespace=namespace, workloads=workloads_of(pod)):
            yield pod


def _waits_because_of(pod: Obj, policy: str) -> bool:
    """Whether its scheduler has found that it would have a node under the rollout's other policy. A pod that
    waits for quota or room does so under either."""
    condition = find_condition(conditions_of(pod), BLOCKED_BY_POLICY) or {}
    return condition.get("status") == "True" and condition.get("reason") == policy
