"""The controller of PolicyRollouts: gathers what the gates look at, and carries `plan_rollout` out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from fathom.cache.freshness import NoOlderThan
from fathom.cache.snapshot import Snapshot
from fathom.client.api import Resource
from fathom.control.again import Again
from fathom.control.kit import Kit
from fathom.control.plan import OWN_WRITES, Patch, Plan, WriteStatus, target
from fathom.control.signals import COMPONENT_SIGNALS, component_of, raised_of
from fathom.control.watches import NAMESPACE, NODE, POD, SERVICE, Kind, Primary, Related, Watch
from fathom.model.conditions import CONNECTIONS_FAIL, conditions_of, find_condition, is_true, set_condition
from fathom.model.objects import Key, Obj, key_of
from fathom.model.own import GROUP, VERSION, PolicyRollout, SchedulingPolicy, read, workloads_of
from fathom.model.own.policy import policy_in
from fathom.model.own.times import duration_ns, moment_ns
from fathom.model.podresources import is_terminal
from fathom.model.tenancy import tenant_of
from fathom.schedule.plan_rollout import CANARY, COMPLETE, ROLLED_BACK, Next, Share, Signals, plan_rollout

POLICY = Kind("SchedulingPolicy", Resource(GROUP, VERSION, "schedulingpolicies", namespaced=False))
ROLLOUT = Kind("PolicyRollout", Resource(GROUP, VERSION, "policyrollouts", namespaced=False))

# A rollout that nothing moves is looked at again in this time: signals get older by themselves, and pods that
# begin to wait must not wait for the end of a step.
LOOK_S = 5.0
TROUBLES_MAX = 3  # That are named.


def identity_of(pod: Obj) -> str:
    """By what a pod falls under the canary or not: its workload, so that a workload has one policy."""
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

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def reconcile(self, key: Key) -> Again:
        view = self._kit.snapshot()
        obj = view.get("PolicyRollout", key)
        if obj is None or (obj.get("metadata") or {}).get("deletionTimestamp"):
            return Again.never()
        rollout = read(PolicyRollout, obj)
        following = plan_rollout(rollout, gather(rollout, view, now_ns=self._kit.now_ns()))
        applied = await self._kit.apply(key, as_plan(obj, rollout, following, self._kit.now()), seen=view)
        return Again.after(applied, in_s=min(following.after_s or LOOK_S, LOOK_S), why=following.why)


def as_plan(obj: Obj, rollout: PolicyRollout, following: Next, now: str) -> Plan:
    """A step forward is destructive: others act on it, so it needs a fresh view. Saying why it waits does
    not."""
    conditions = set_condition(
        conditions_of(obj),
        type="Progressing",
        status="True" if (following.status or rollout.status).phase == CANARY else "False",
        reason=(following.status or rollout.status).phase or "Pending",
        message=following.why,
        observed_generation=rollout.metadata.generation,
        now=now,
    )
    if following.status is None:
        told = find_condition(conditions_of(obj), "Progressing")
        if told is not None and (
            _stem(told.get("message")) == _stem(following.why) or _is_final(told, rollout)
        ):
            return Plan()
        return Plan(statuses=(WriteStatus(target("PolicyRollout", obj), {"conditions": conditions}),))
    allowed_ns = duration_ns(rollout.spec.gates.signals_max_age) or 30_000_000_000
    status = {**msgspec.to_builtins(following.status), **_blanks(following), "conditions": conditions}
    return Plan(
        patches=(
            Patch(target("PolicyRollout", obj), {"status": status}, subresource="status", destructive=True),
        ),
        needs=(OWN_WRITES, NoOlderThan(allowed_ns / 1e9)),
        why=following.why,
    )


def _blanks(following: Next) -> Obj:
    """Defaults are left out on the wire; in a patch, leaving out would keep what was there."""
    status = following.status
    assert status is not None
    fields = ("canary", "percent", "step", "activationRevision")
    values = (status.canary, status.percent, status.step, status.activation_revision)
    return dict(zip(fields, values, strict=True))


def _is_final(told: Obj, rollout: PolicyRollout) -> bool:
    """What it says about how the rollout ended is what people look for later: it stays."""
    phase = rollout.status.phase
    return phase in {COMPLETE, ROLLED_BACK} and told.get("reason") == phase


def _stem(message: object) -> str:
    """Without its numbers: a countdown is no news."""
    return "".join(character for character in str(message) if not character.isdigit())


def gather(rollout: PolicyRollout, view: Snapshot, *, now_ns: int) -> Signals:
    began_ns = moment_ns(rollout.status.step_started_at) or 0
    canary, base = _shares(rollout, view, began_ns) if rollout.status.phase == CANARY else (Share(), Share())
    exists = view.get("SchedulingPolicy", Key("", rollout.spec.to)) is not None
    age_s = max(view.age(kind) for kind in ("Pod", "Node", "SchedulingPolicy"))
    return Signals(now_ns, age_s, canary, base, exists, trouble_of(view))


def trouble_of(view: Snapshot) -> str:
    """What is no reason to go back, and none to go on: a part that is slow, a Service that fails."""
    raised = [
        f"{component_of(one)}: {words}"
        for one in view.list("ComponentSignals")
        for words in raised_of(one).values()
    ]
    burning = [
        f"service {'/'.join(key_of(one))}" for one in view.list("Service") if is_true(one, CONNECTIONS_FAIL)
    ]
    return "; ".join([*raised, *(f"{one}: connections fail" for one in burning)][:TROUBLES_MAX])


def _shares(rollout: PolicyRollout, view: Snapshot, since_ns: int) -> tuple[Share, Share]:
    counts = {True: [0, 0], False: [0, 0]}
    for pod in _in_scope(rollout, view):
        count = counts[policy_in(rollout, identity_of(pod)) == rollout.status.canary]
        count[0] += 1
        count[1] += _waits_since(pod, since_ns)
    return Share(*counts[True]), Share(*counts[False])


def _in_scope(rollout: PolicyRollout, view: Snapshot) -> Iterable[Obj]:
    for pod in view.list("Pod"):
        if is_terminal(pod):
            continue
        namespace = str(pod["metadata"].get("namespace") or "")
        tenant = tenant_of(pod, view.get("Namespace", Key("", namespace)))
        if rollout.spec.scope.includes(tenant=tenant, namespace=namespace, workloads=workloads_of(pod)):
            yield pod


def _waits_since(pod: Obj, since_ns: int) -> bool:
    condition = find_condition(conditions_of(pod), "PodScheduled")
    if condition is None or condition.get("reason") != "Unschedulable" or condition.get("status") != "False":
        return False
    return (moment_ns(condition.get("lastTransitionTime")) or 0) >= since_ns


def policy_names(view: Snapshot) -> dict[str, SchedulingPolicy]:
    return {obj["metadata"]["name"]: read(SchedulingPolicy, obj) for obj in view.list("SchedulingPolicy")}
