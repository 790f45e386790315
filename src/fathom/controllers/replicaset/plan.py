"""How many pods a ReplicaSet should have, and which. Pure.

Pods fill slots: the lowest free one, where a terminating pod still occupies its own, and so does any other
pod that has the name. A pod's name is f(ReplicaSet, slot), so a repeated create collides:

    1. Slot 0 is terminating, so slot 2 is filled. 2. Slot 0 is gone; our view shows that, but not yet the
    new pod. 3. Slot 0 is free: a third pod for two wanted.

What prevents 3: a view is always a state that existed, and a decision waits until our own writes are visible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from fathom.cache.needs import Need, NoOlderThan
from fathom.control.ownership import OwnerClaims, child_name, owned, slot_of
from fathom.control.plan import (
    NOTHING,
    OWN_WRITES,
    Create,
    Delete,
    Plan,
    WriteStatus,
    adopt,
    release,
    target,
    write_status,
)
from fathom.control.reconcile_result import Failure
from fathom.controllers.pod_states import (
    created_s,
    has_ended,
    is_active,
    is_available,
    is_ready,
    is_rejected,
    is_terminating,
    seconds,
)
from fathom.controllers.refusals import REPLICA_FAILURE, with_refusal, without_refusal
from fathom.controllers.replicaset.scale_down_order import leaving_first
from fathom.kinds.reservation import SLOT
from fathom.model.conditions import (
    conditions_of,
    differ_in_numbers,
    find_condition,
    set_condition,
)
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Obj, is_deleting, labels_of, lookup, metadata

BURST_PODS_MAX = 500  # The most pods in one pass; kube-controller-manager's number.
# Ended pods that are kept, so that people can see why they ended.
ENDED_KEPT = 3
# Nodes refuse pods at once (`OutOfcpu`). After this many refusals the next pods wait: whatever binds them to
# a node on which they do not fit would do the same again.
REJECTED_MAX, RETRY_REJECTED_S = ENDED_KEPT, 10.0
# What looks like a surplus in an old view may be gone.
NEEDS: tuple[Need, ...] = (OWN_WRITES, NoOlderThan(FRESH_S, ("ReplicaSet", "Pod")))


class ReplicaSetFacts(msgspec.Struct, frozen=True):
    """The inputs of a decision about one ReplicaSet."""

    claims: OwnerClaims
    related: Sequence[Obj] = ()  # Pods of all ReplicaSets of the same workload.
    occupied: Callable[[int], bool] = lambda slot: False  # Whether a pod has the slot's name.
    needs: tuple[Need, ...] = ()  # Of a new leader, before it creates or deletes pods.


def wanted_of(owner: Obj) -> int:
    replicas = lookup(owner, "spec", "replicas")
    return 1 if replicas is None else int(replicas)


def min_ready_s_of(owner: Obj) -> int:
    return int(lookup(owner, "spec", "minReadySeconds") or 0)


def plan_replicas(owner: Obj, facts: ReplicaSetFacts, *, now: str) -> Plan:
    if is_deleting(owner):
        return NOTHING  # The garbage collector deletes the pods.
    mine = facts.claims.mine
    active = [pod for pod in mine if is_active(pod)]
    # Pods about to be adopted count: else another would be created beside each.
    missing = wanted_of(owner) - len(active) - len(facts.claims.adopt)
    deletes = tuple(_delete(pod) for pod in (*_surplus(owner, active, facts), *_stale(mine)))
    waits = missing > 0 and retry_in_s(mine, now_s=seconds(now)) > 0
    held = "; no more for now: nodes have just refused several" if waits else ""
    slots = [] if waits else _slots(missing, facts)
    creates = tuple(Create("Pod", pod_of(owner, slot)) for slot in slots)
    return Plan(
        creates=creates,
        patches=(
            *(adopt("Pod", pod, owner) for pod in facts.claims.adopt),
            *(release("Pod", pod, owner) for pod in facts.claims.release),
        ),
        deletes=deletes,
        statuses=_status(owner, mine, settled=missing == 0, now=now),
        needs=(*NEEDS, *facts.needs) if deletes else facts.needs if creates else (),
        why=f"{len(active)} of {wanted_of(owner)} pods{held}",
    )


def _slots(missing: int, facts: ReplicaSetFacts) -> list[int]:
    slots: list[int] = []
    slot = 0
    while len(slots) < min(missing, BURST_PODS_MAX):
        if not facts.occupied(slot):
            slots.append(slot)
        slot += 1
    return slots


def _surplus(owner: Obj, active: Sequence[Obj], facts: ReplicaSetFacts) -> list[Obj]:
    number = min(len(active) - wanted_of(owner), BURST_PODS_MAX)
    if number <= 0:
        return []
    related = facts.related or active
    return leaving_first(active, related, lambda pod: slot_of(pod, owner))[:number]


def _delete(pod: Obj) -> Delete:
    """1. A pod is chosen because it is not ready. 2. It became ready, and our view does not show it yet. 3.
    Deleting it now would leave too few available. So it is deleted only at the revision that was read."""
    return Delete(target("Pod", pod), as_read=not is_ready(pod))


def _stale(pods: Sequence[Obj]) -> list[Obj]:
    """Ended pods except the newest few."""
    ended = [pod for pod in pods if has_ended(pod) and not is_deleting(pod)]
    return sorted(ended, key=lambda pod: (created_s(pod), metadata(pod)["name"]))[:-ENDED_KEPT]


def retry_in_s(pods: Sequence[Obj], *, now_s: float) -> float:
    """How long to create no pods because nodes have just refused earlier ones."""
    refused = [created_s(pod) for pod in pods if is_rejected(pod)]
    if len(refused) < REJECTED_MAX:
        return 0.0
    return min(RETRY_REJECTED_S, max(0.0, max(refused) + RETRY_REJECTED_S - now_s))  # A clock may be set.


def pod_of(owner: Obj, slot: int) -> Obj:
    template = lookup(owner, "spec", "template") or {}
    template_meta = template.get("metadata") or {}
    meta = {
        **{name: template_meta[name] for name in ("labels", "finalizers") if template_meta.get(name)},
        "name": child_name(metadata(owner)["name"], slot),
        "namespace": metadata(owner)["namespace"],
        "annotations": {**(template_meta.get("annotations") or {}), SLOT: str(slot)},
    }
    return owned({"metadata": meta, "spec": template["spec"]}, owner)


def _status(owner: Obj, pods: Sequence[Obj], *, settled: bool, now: str) -> tuple[WriteStatus, ...]:
    active = [pod for pod in pods if is_active(pod)]
    wanted_labels = lookup(owner, "spec", "template", "metadata", "labels") or {}
    min_ready_s, now_s = min_ready_s_of(owner), seconds(now)
    status: Obj = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(_has_all(pod, wanted_labels) for pod in active),
        "readyReplicas": sum(is_ready(pod) for pod in active),
        "availableReplicas": sum(is_available(pod, min_ready_s=min_ready_s, now_s=now_s) for pod in active),
        "terminatingReplicas": sum(is_terminating(pod) for pod in pods),
        "observedGeneration": metadata(owner).get("generation") or 0,
    }
    before = owner.get("status") or {}
    conditions = conditions_of(owner)
    if settled and find_condition(conditions, REPLICA_FAILURE) is not None:
        status["conditions"] = without_refusal(conditions)
    # A count of 0 may be absent.
    changed = {name: value for name, value in status.items() if (before.get(name) or 0) != value}
    if not changed:
        return ()
    return (WriteStatus(target("ReplicaSet", owner), status),)


def _has_all(pod: Obj, wanted: dict[str, str]) -> bool:
    labels = labels_of(pod)
    return all(labels.get(name) == value for name, value in wanted.items())


def plan_failure(owner: Obj, failure: Failure, *, creating: bool, now: str, recently: bool = False) -> Plan:
    """The server refused a create or delete: reported where Kubernetes' tools look for it, and removed when
    there are as many pods as wanted. `recently`: it was reported within the last minute. A quota's message
    about its use differs with every try; that alone is not written again so soon."""
    conditions = set_condition(
        conditions_of(owner),
        type=REPLICA_FAILURE,
        status="True",
        reason="FailedCreate" if creating else "FailedDelete",
        message=failure.answer or failure.message,
        now=now,
    )
    if creating:
        conditions = with_refusal(conditions, failure, now=now)
    statuses = write_status("ReplicaSet", owner, {"conditions": conditions})
    if not statuses or (recently and differ_in_numbers(conditions_of(owner), conditions)):
        return NOTHING
    return Plan(statuses=statuses, why=failure.reason)
