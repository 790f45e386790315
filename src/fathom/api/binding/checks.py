"""The checks of a binding, over the current objects. Pure: the same facts give the same answer.

`judge` is for bindings; `created_with_node.py` applies the same checks to pods and reservations that get
their node in another way.

A `PlacedPod` holds the pod to store, the change of the ledger, and every revision that the checks read: the
commit expects them all.
"""

from __future__ import annotations

import msgspec

from fathom.api.binding import requests
from fathom.api.binding.facts import BindingFacts, Override
from fathom.api.binding.requests import BindingAsk, OverrideRef, Refusal
from fathom.api.ledger.accounts import Books, key_in_store
from fathom.api.ledger.delta import Delta
from fathom.api.ledger.holdings import (
    Account,
    Holding,
    class_of,
    host_ports,
    pod_counts,
    reservation_holding,
)
from fathom.api.ledger.room import NodeRoom, exceeds_quota, lacks_room, taken_port
from fathom.kinds.capacity_class import CAPACITY_CLASS, CAPACITY_CLASSES
from fathom.kinds.override_scope import grant_the_same
from fathom.kinds.reservation import HOLDER_UID, RESERVATIONS, Reservation, reservation_usable
from fathom.kinds.scheduler_override import (
    OVERRIDES,
    SchedulerOverride,
    avoids,
    cordons,
    override_active,
    scope_includes,
    targets_pod,
)
from fathom.kinds.scheduling_policy import BUILT_IN, POLICIES, POLICY
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model import binding_checks
from fathom.model.body import canonical
from fathom.model.conditions import BLOCKED_BY_POLICY
from fathom.model.objects import Key, Obj, is_deleting, labels_of, metadata, uid_of
from fathom.model.pod_phase import is_terminal
from fathom.model.tenancy import ACCOUNT, tenant_of
from fathom.model.tolerations import pod_tolerates
from fathom.model.well_known import UNSCHEDULABLE_TAINT
from fathom.store.protocol import Expect

CORDON = {"key": UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}
# Conditions of a pod that waits for a node; binding replaces them.
OVER = frozenset({"PodScheduled", "Bound", "SchedulingRetrying", "Queued", BLOCKED_BY_POLICY})


class NodeTaken(msgspec.Struct, frozen=True):
    """The reservation that the pod takes over, before and after."""

    key: str
    old: Obj
    new: Obj


class PlacedPod(msgspec.Struct, frozen=True):
    """A binding that may be committed, if no object that the checks read has changed by then."""

    pod: Obj
    delta: Delta
    expects: tuple[Expect, ...]
    taken: NodeTaken | None = None


class BindingMoment(msgspec.Struct, frozen=True):
    now: str  # In the format of conditions.
    now_ns: int


class Case:
    """One bind being checked: its inputs, and the preconditions collected so far."""

    def __init__(
        self,
        ask: BindingAsk,
        pod: Obj,
        node: NodeRoom,
        *,
        facts: BindingFacts,
        books: Books,
        at: BindingMoment,
    ) -> None:
        self.ask, self.pod, self.node = ask, pod, node
        self.workload = pod  # Its owner and name determine which overrides apply.
        self.facts, self.books, self.at = facts, books, at
        self.expects: list[Expect] = []
        self.taken: NodeTaken | None = None
        self.released: Holding | None = None
        self.leaving: tuple[Holding, ...] = ()  # What pods that are being deleted hold: promised to this pod.
        self.overrides: list[SchedulerOverride] = []  # Those that apply to this pod on this node.

    def rests_on(self, resource: str, key: Key, revision: int) -> None:
        self.expects.append(Expect(key_in_store(resource, key), revision))


def judge(
    ask: BindingAsk, pod: Obj, revision: int, *, facts: BindingFacts, books: Books, at: BindingMoment
) -> PlacedPod | Refusal:
    """Check one bind. `pod` is the stored pod, at `revision`."""
    refusal = pod_refusal(ask, pod, revision)
    if refusal is not None:
        return refusal
    node, node_revision = facts.node(ask.node)
    if node is None:
        return Refusal(binding_checks.NODE_GONE, f"node {ask.node} does not exist")
    case = Case(ask, pod, node, facts=facts, books=books, at=at)
    case.rests_on("nodes", Key("", ask.node), node_revision)
    checks = (_node_refusal, judge_cordons, _policy_refusal, _override_refusal, _reservation_refusal)
    for check in checks:
        refusal = check(case)
        if refusal is not None:
            return refusal
    account = judge_account(case)
    if isinstance(account, Refusal):
        return account
    wanted = Holding(node.name, account, pod_counts(pod), host_ports(pod))
    refusal = judge_room(case, wanted, node_revision)
    if refusal is not None:
        return refusal
    placed = bound_pod(ask, pod, account=account.text, now=at.now)
    return PlacedPod(placed, Delta(case.released, wanted), tuple(case.expects), case.taken)


def pod_refusal(ask: BindingAsk, pod: Obj, revision: int) -> Refusal | None:
    """Refusals that follow from the pod alone, in kube-apiserver's words."""
    name = ask.name
    if ask.uid and ask.uid != uid_of(pod):
        why = f"the pod has UID {uid_of(pod)}, the binding names {ask.uid}"
        return Refusal(binding_checks.POD_UID_CHANGED, why, revision)
    if is_deleting(pod):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        return Refusal(binding_checks.POD_DELETING, why, revision)
    if is_terminal(pod):
        return Refusal(binding_checks.POD_GONE, f"pod {name} has ended ({pod['status']['phase']})", revision)
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        return Refusal(binding_checks.POD_BOUND, why, revision, node=str(spec["nodeName"]))
    if spec.get("schedulingGates"):
        return Refusal(binding_checks.POD_GATED, f"pod {name} has non-empty .spec.schedulingGates", revision)
    return None


def _node_refusal(case: Case) -> Refusal | None:
    node, revision = case.node, case.expects[0].revision
    if case.ask.node_uid and case.ask.node_uid != node.uid:
        why = f"node {node.name} has UID {node.uid}, the binding names {case.ask.node_uid}"
        return Refusal(binding_checks.NODE_GONE, why, revision)
    if node.deleting:
        return Refusal(binding_checks.NODE_UNSCHEDULABLE, f"node {node.name} is being deleted", revision)
    if node.unschedulable and not pod_tolerates(case.pod, CORDON):
        return Refusal(binding_checks.NODE_UNSCHEDULABLE, f"node {node.name} is cordoned", revision)
    return None


def judge_cordons(case: Case) -> Refusal | None:
    """Overrides that keep pods off the node: all pods, or those of this workload. The commit must expect
    `BindingFacts.rules`, so that no new override appears before it."""
    node, facts = case.node, case.facts
    if not facts.has_overrides():
        return None
    case.expects += facts.workloads_expect(case.workload)
    for override in facts.overrides_of_nodes():
        if cordons(override.spec, node.name, node.labels) and override_active(override.spec, case.at.now_ns):
            return _cordoned(case, override, "cordons it")
    for override in facts.overrides_about(case.workload):
        if avoids(override.spec, node.name, node.labels) and override_active(override.spec, case.at.now_ns):
            return _cordoned(case, override, "keeps the pod's workload off it")
    return None


def _cordoned(case: Case, override: Override, how: str) -> Refusal:
    meta = override.spec.metadata
    why = f"node {case.node.name}: override {meta.namespace}/{meta.name} {how}"
    return Refusal(binding_checks.NODE_CORDONED, why, override.revision)


def _policy_refusal(case: Case) -> Refusal | None:
    name = case.ask.policy or case.ask.annotations.get(POLICY, "")
    if name in {"", BUILT_IN}:
        return None
    revision, rollout = case.facts.policy(name)
    if revision == 0 or rollout is None:
        why = "does not exist" if revision == 0 else "is not active in any rollout"
        return Refusal(binding_checks.POLICY_INACTIVE, f"policy {name} {why}", revision)
    case.rests_on(POLICIES, Key("", name), revision)
    case.rests_on(rollout.resource, rollout.key, rollout.revision)
    return None


def _override_refusal(case: Case) -> Refusal | None:
    for ref in case.ask.override_refs():
        override, revision = case.facts.override(Key(ref.namespace, ref.name))
        refusal = _reference_refusal(ref, override, revision, case.at)
        if refusal is not None:
            return refusal
        assert override is not None
        case.rests_on(OVERRIDES, override.metadata.key, revision)
        if targets_pod(override, case.pod) and scope_includes(override.spec.scope, case.node.labels):
            case.overrides.append(override)
    return None


def _reference_refusal(
    ref: OverrideRef, override: SchedulerOverride | None, revision: int, at: BindingMoment
) -> Refusal | None:
    name = f"{ref.namespace}/{ref.name}"
    if override is None or (ref.uid and override.metadata.uid != ref.uid):
        return Refusal(binding_checks.OVERRIDE_INACTIVE, f"override {name} does not exist any more", revision)
    if not override_active(override, at.now_ns):
        return Refusal(binding_checks.OVERRIDE_INACTIVE, f"override {name} has ended", revision)
    return None


def _reservation_refusal(case: Case) -> Refusal | None:
    ask = case.ask
    name = ask.reservation or ask.annotations.get(requests.RESERVATION, "")
    if not name:
        return None
    key = Key(ask.namespace, name)
    reservation, seen = case.facts.reservation(key)
    if reservation is None or seen is None:
        return Refusal(binding_checks.RESERVATION_GONE, f"reservation {name} does not exist")
    if not reservation_usable(reservation, case.at.now_ns):
        phase = reservation.status.phase or "unconfirmed"
        return Refusal(
            binding_checks.RESERVATION_GONE, f"reservation {name} is not usable ({phase})", seen.revision
        )
    if reservation.spec.node_name not in {"", ask.node}:
        why = f"reservation {name} is for node {reservation.spec.node_name}"
        return Refusal(binding_checks.RESERVATION_GONE, why, seen.revision)
    holder = (metadata(seen.obj).get("annotations") or {}).get(HOLDER_UID)
    if holder and holder != uid_of(case.pod):
        return Refusal(
            binding_checks.RESERVATION_GONE, f"reservation {name} is for another pod", seen.revision
        )
    case.rests_on(RESERVATIONS, key, seen.revision)
    case.released = reservation_holding(seen.obj)
    case.taken = NodeTaken(key_in_store(RESERVATIONS, key), seen.obj, _taken_over(seen.obj, reservation))
    return None


def _taken_over(obj: Obj, reservation: Reservation) -> Obj:
    """The reservation after its pod has taken over the room; the reservation's intent stays claimed."""
    status = {
        **(obj.get("status") or {}),
        "phase": "Bound",
        "observedGeneration": reservation.metadata.generation,
    }
    return canonical({**obj, "status": status})


def judge_account(case: Case) -> Account | Refusal:
    """Reserved nodes are for their class; a class is for its tenants, and for pods that an override lets
    in."""
    node, facts, classes = case.node, case.facts, case.facts.classes()
    tenant = tenant_of(case.pod, facts.namespace(case.ask.namespace))
    account = Account(tenant, node.zone, case.ask.annotations.get(CAPACITY_CLASS) or class_of(case.pod))
    for capacity_class in classes:
        if (
            capacity_class.exclusive
            and capacity_class.name != account.capacity_class
            and capacity_class.holds(node.labels)
        ):
            why = f"node {node.name} is reserved for capacity class {capacity_class.name}"
            return Refusal(binding_checks.CLASS_RESERVED, why, facts.class_revision(capacity_class.name))
    if not account.capacity_class:
        return account
    used = next(
        (capacity_class for capacity_class in classes if capacity_class.name == account.capacity_class), None
    )
    if used is None:
        return Refusal(
            binding_checks.CLASS_RESERVED, f"capacity class {account.capacity_class} does not exist"
        )
    revision = facts.class_revision(used.name)
    case.rests_on(CAPACITY_CLASSES, Key("", used.name), revision)
    if used.admits(account.tenant):
        return account
    return _allowed_by_override(account, case, revision)


def _allowed_by_override(account: Account, case: Case, revision: int) -> Account | Refusal:
    why = f"tenant {account.tenant} may not use capacity class {account.capacity_class}"
    for override in case.overrides:
        changes, uid = override.spec.changes, override.metadata.uid
        if changes.allow_reserved_capacity_class != account.capacity_class:
            continue
        most, used = changes.reserved_replicas, _used(override, account.tenant, case)
        if most is None or used < most:
            return account._replace(override=uid)
        why = f"override {override.metadata.name} allows {most} replicas in the class, and {used} are there"
    return Refusal(binding_checks.CLASS_RESERVED, why, revision)


def _used(override: SchedulerOverride, tenant: str, case: Case) -> int:
    """How many pods are in the class by this override, and by those in force that grant the same."""
    alike = {
        each.spec.metadata.uid
        for each in case.facts.overrides_about(case.workload)
        if grant_the_same(each.spec, override) and override_active(each.spec, case.at.now_ns)
    }
    used = case.books.tenant(tenant).overrides
    return sum(used.get(uid, 0) for uid in alike | {override.metadata.uid})


def judge_room(case: Case, wanted: Holding, node_revision: int) -> Refusal | None:
    node, facts, released = case.node, case.facts, case.released
    book = case.books.node(node.name)
    if case.leaving:
        book = book.without(case.leaving)
    short = lacks_room(node, book, wanted, released=released, classes=facts.classes())
    if short is not None:
        return Refusal(binding_checks.NODE_FULL, f"node {node.name}: {short}", node_revision)
    port = taken_port(book, wanted.ports) if wanted.ports else None
    if port is not None:
        return Refusal(
            binding_checks.NODE_PORTS, f"node {node.name}: host port {port} is taken", node_revision
        )
    tenant = wanted.account.tenant
    quota, revision = facts.quota(tenant)
    case.rests_on(TENANT_QUOTAS, Key("", tenant), revision)
    account = case.books.tenant(tenant)
    if case.leaving:
        account = account.without([holding for holding in case.leaving if holding.account.tenant == tenant])
    over = exceeds_quota(quota, account, wanted, released=released)
    return None if over is None else Refusal(binding_checks.QUOTA_EXCEEDED, over, revision)


def bound_pod(ask: BindingAsk, pod: Obj, *, account: str, now: str) -> Obj:
    """The pod on its node, as it is stored. Its conditions name both stages: PodScheduled and Bound."""
    meta, status = metadata(pod), {**(pod.get("status") or {})}
    status.pop("nominatedNodeName", None)  # It has a node now: the nomination no longer holds.
    annotations = {**(meta.get("annotations") or {}), **ask.annotations, ACCOUNT: account}
    if ask.node_revision:
        annotations[requests.NODE_REVISION] = str(ask.node_revision)
    if ask.reservation:
        annotations[requests.RESERVATION] = ask.reservation
    labels = {**labels_of(pod), **ask.labels}
    kept = [condition for condition in status.get("conditions") or () if condition.get("type") not in OVER]
    observed = {"observedGeneration": meta["generation"]} if meta.get("generation") else {}
    since = {"status": "True", **observed, "lastTransitionTime": now}
    scheduled = {"type": "PodScheduled", **since}
    bound = {"type": "Bound", **since}
    status["conditions"] = [*kept, scheduled, bound]
    meta = {**meta, "annotations": annotations, **({"labels": labels} if labels else {})}
    return {
        **pod,
        "metadata": meta,
        "spec": {**(pod.get("spec") or {}), "nodeName": ask.node},
        "status": status,
    }
