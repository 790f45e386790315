"""What a scheduler decides is what the rules say of what it has in view, worked out from scratch
(`sim/slow_rules`): the node that it chooses takes the pod and is among the best, each node is rejected for
the reason that it gives, and a preemption evicts those that it should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fathom.model.decision import Decision, Outcome
from fathom.model.objects import Key, Obj, key_of, labels_of, lookup, uid_of
from fathom.model.tenancy import tenant_of
from fathom.schedule.decide.context import PlacementContext
from fathom.schedule.loop.process import SchedulerProcess
from fathom.sim.slow_rules.cluster import Cluster, requests
from fathom.sim.slow_rules.filters import first_reason, verdicts
from fathom.sim.slow_rules.policies import policy_of
from fathom.sim.slow_rules.scores import scores
from fathom.sim.slow_rules.victims import still_leaving, victims, would_help
from fathom.sim.world.invariants import Checker
from fathom.sim.world.violation import Violation

if TYPE_CHECKING:
    from fathom.cache.snapshot import Snapshot
    from fathom.schedule.decide.node_table import NodeTable
    from fathom.schedule.loop.state import SchedulerState
    from fathom.sim.world.engine import Engine
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.world import World

PAIRS_MAX = 600  # Of nodes and pods: beyond that the slow rules would take as long as the whole run.
# Rules of users, of the ledger's sums and of ages are not judged here.
NOT_JUDGED = ("quota/", "freshness/")
NOBODY_TO_EVICT = "preemption: 0/"  # Nodes where it would help.
CLASS = "fathom.dev/capacity-class"


class Case(NamedTuple):
    """One decision about one pod."""

    pod: Obj
    tenant: str
    cluster: Cluster
    context: PlacementContext  # Without the quota.
    budgets: list[Obj]
    is_free: bool  # The quota plays no part.
    as_decided: bool  # Nothing has changed since: the pod before it in its batch has claimed no room yet.


class PlacementsKeepTheRules(Checker):
    """Each decision is what slow and obvious rules say of what its scheduler has in view: the chosen node
    takes the pod and is among the best, each node is rejected for the reason that is given, the right pods of
    lower priority are evicted, room is kept only for who waits for it, and the policy is that of the pod. A
    RecordReader."""

    name = "a placement keeps the rules"

    def __init__(self) -> None:
        self._claimed_ns: dict[str, int] = {}  # Process -> when it last preempted pods.
        # (process, UID of the pod that waits) -> the node where it makes room for it, and in which term.
        self._chosen: dict[tuple[str, str], tuple[str, int]] = {}

    def begin(self, world: World) -> None:
        self._engine: Engine = world.engine
        world.engine.record_readers.append(self)

    def decided(self, process: SimProcess, decision: Decision) -> None:
        state = process.state
        if not isinstance(state, SchedulerProcess) or decision.verdict not in JUDGED:
            return
        view, scheduler = state.caches.snapshot(), state.scheduler.state
        as_decided = self._claimed_ns.get(process.name) != decision.time_ns
        case = _case(view, scheduler, decision, as_decided=as_decided)
        wrongs = [
            *_outdated_context(view, scheduler, decision),
            *self._unfounded_claims(process.name, scheduler, decision.epoch),
            *_judge_policy(view, decision),
        ]
        if case is not None and len(case.cluster.nodes) * len(case.cluster.pods) <= PAIRS_MAX:
            wrongs += JUDGED[decision.verdict](case, decision)
        for wrong in wrongs:
            subject = f"{decision.subject.namespace}/{decision.subject.name}"
            message = f"{process.name} about {subject}: {wrong}"
            self._engine.broken(Violation(self.name, message, self._engine.since_s))
        if decision.verdict == "preempt":
            self._claimed_ns[process.name] = decision.time_ns
            self._chosen[process.name, decision.subject.uid] = (decision.node, decision.epoch)

    def _unfounded_claims(self, process: str, state: SchedulerState, epoch: int) -> Iterator[str]:
        """Room is kept for a pod that waits where it has a reservation, where its status says, or where this
        very term is making room for it."""
        for uid, view in state.waiting.items():
            claim, held = state.known.table.claims.get(uid), state.known.held_for.get(uid)
            reserved = held.node if held is not None else ""
            if claim is None or claim.node in {view.nominated, reserved}:
                continue
            if self._chosen.get((process, uid)) != (claim.node, epoch):
                kept = f"room on {claim.node} is kept for {view.key.name}"
                yield f"{kept}, which nobody has decided in this term"

    def concluded(self, process: SimProcess, outcome: Outcome) -> None: ...


def _outdated_context(view: Snapshot, state: SchedulerState, decision: Decision) -> Iterator[str]:
    """What it keeps from earlier decisions is what it would work out now."""
    pod, known = view.get("Pod", Key(decision.subject.namespace, decision.subject.name)), state.known
    if pod is None or uid_of(pod) != decision.subject.uid:
        return
    seen = known.view(pod)
    personal = "" if seen.shape.workloads or not known._is_personal() else seen.key.name
    kept = known._contexts.get((seen.shape, personal))
    if kept is None:
        return
    new = known._resolve(seen, decision.time_ns)
    for field in kept.__struct_fields__:
        if getattr(kept, field) != getattr(new, field):
            yield f"it goes by {field} {getattr(kept, field)}, but now it is {getattr(new, field)}"


def _judge_policy(view: Snapshot, decision: Decision) -> Iterator[str]:
    pod = view.get("Pod", Key(decision.subject.namespace, decision.subject.name))
    if pod is None or uid_of(pod) != decision.subject.uid or not decision.policies:
        return
    spaces = {key_of(space).name: space for space in view.list("Namespace")}
    tenant = tenant_of(pod, spaces.get(decision.subject.namespace))
    own = policy_of(pod, tenant, view.list("PolicyRollout"), view.list("SchedulingPolicy"))
    if decision.policies[0].name != own:
        yield f"it is decided by policy {decision.policies[0].name}, but its own is {own}"


def _case(view: Snapshot, state: SchedulerState, decision: Decision, *, as_decided: bool) -> Case | None:
    """None: what was decided about is not in view any more, or by a rule that is not judged."""
    subject, known = decision.subject, state.known
    pod = view.get("Pod", Key(subject.namespace, subject.name))
    if pod is None or uid_of(pod) != subject.uid or not view.synced("Namespace"):
        return None
    spaces = {key_of(space).name: space for space in view.list("Namespace")}
    tenant = tenant_of(pod, spaces.get(subject.namespace))
    context = known._resolve(known.view(pod), decision.time_ns)  # The one that it keeps may be out of date.
    if context.policy.max_view_age_ms is not None or context.allowed:
        return None  # How old the view is, and how many an override lets in yet, changes within a batch.
    cluster = Cluster(
        view.list("Node"),
        _placed(view, state),
        {name: labels_of(space) for name, space in spaces.items()},
        known.table.reserved,
        _claims(known.table, subject.uid),
    )
    pod = {**pod, "spec": {**pod["spec"], "priority": decision.priority}}
    budgets = sorted(view.list("PodDisruptionBudget"), key=key_of)
    is_free = context.quota is None or _has_room(known.table, tenant, pod, context)
    context = msgspec.structs.replace(context, quota=None)
    return Case(pod, tenant, cluster, context, budgets, is_free, as_decided)


def _claims(table: NodeTable, uid: str) -> dict[str, tuple[str, dict[str, int], int]]:
    """Those that the pod must respect: not a later one of its own priority on the node that it waits for."""
    own = table.claims.get(uid)
    return {
        holder: (claim.node, dict(claim.needs), claim.priority)
        for holder, claim in table.claims.items()
        if own is None or (claim.node, claim.priority) != (own.node, own.priority) or claim.order <= own.order
    }


def _placed(view: Snapshot, state: SchedulerState) -> list[Obj]:
    """The pods that have a node, and those that have been sent to one. Others of the batch that is just being
    decided are assumed in the table too, but come after this one."""
    listed = []
    for pod in view.list("Pod"):
        placed = state.known.table.placed.get(uid_of(pod))
        if lookup(pod, "spec", "nodeName"):
            listed.append(pod)
        elif placed is not None and placed.assumed and _is_sent(state, uid_of(pod)):
            notes = {**(pod["metadata"].get("annotations") or {}), CLASS: placed.capacity_class}
            sent = {**pod, "metadata": {**pod["metadata"], "annotations": notes}}
            listed.append({**sent, "spec": {**pod["spec"], "nodeName": placed.node}})
    return listed


def _is_sent(state: SchedulerState, uid: str) -> bool:
    return uid in state.sent or uid in state.landed


def _has_room(table: NodeTable, tenant: str, pod: Obj, context: PlacementContext) -> bool:
    """Whether the pod would be within each limit if all of the tenant's use counted for it."""
    asked = requests(pod)
    places = table.tally.used.get(tenant, {}).values()
    return context.quota is not None and all(
        asked.get(name, 0) + sum(amounts.get(name, 0) for amounts in places) <= most
        for limit in context.quota.limits
        for name, most in limit.needs
    )


def _judge_bound(case: Case, decision: Decision) -> Iterator[str]:
    pod, tenant, cluster, context, _, is_free, _ = case
    node = cluster.nodes.get(decision.node)
    if node is None:
        yield f"it is bound to {decision.node}, which is not in view"
        return
    reason = first_reason(pod, tenant, node, cluster, context)
    if reason:
        yield f"it is bound to {decision.node}, although: {', '.join(reason)}"
    elif is_free and decision.scores:
        points = scores(pod, tenant, cluster, context)
        best = max(points.values())
        if points[decision.node] != best:
            yield f"it is bound to {decision.node} with {points[decision.node]} points; the most are {best}"


def _judge_rejected(case: Case, decision: Decision) -> Iterator[str]:
    pod, tenant, cluster, context, _, _, as_decided = case
    if not as_decided:
        return
    said = Counter({
        text: count for text, count in decision.filters.items() if not text.startswith(NOT_JUDGED)
    })  # fmt: skip
    found = verdicts(pod, tenant, cluster, context)
    counted = Counter(text for texts in found.values() for text in texts)
    if said != counted:
        yield f"nodes are rejected for {dict(said)}, by the rules for {dict(counted)}"
    fitting = sum(not texts for texts in found.values())
    others = sum(count for text, count in decision.filters.items() if text.startswith(NOT_JUDGED))
    if fitting > others:
        names = ", ".join(name for name, texts in found.items() if not texts)
        yield f"no node is found for it, but it fits on {names}"


def _judge_unschedulable(case: Case, decision: Decision) -> Iterator[str]:
    yield from _judge_rejected(case, decision)
    pod, tenant, cluster, context, _, is_free, as_decided = case
    # A share of a class is not made free by the pods of others.
    if not as_decided or not is_free or cluster.classes or NOBODY_TO_EVICT not in decision.message:
        return
    for name in cluster.nodes:
        if would_help(pod, tenant, name, cluster, context):
            yield f"it evicts nobody, but it would fit on {name} without the pods of lower priority"


def _judge_preemption(case: Case, decision: Decision) -> Iterator[str]:
    pod, tenant, cluster, context, budgets, is_free, _ = case
    yield from _judge_rejected(case, decision)
    for left in still_leaving(pod, lookup(pod, "status", "nominatedNodeName") or "", cluster):
        yield f"pods are evicted on {decision.node}, though it still waits for {key_of(left).name} to leave"
    if not is_free:
        return
    wanted = victims(pod, tenant, decision.node, cluster, context, budgets=budgets)
    names = sorted(text.partition(":")[0] for text in decision.victims)
    if wanted is None:
        yield f"pods are evicted on {decision.node}, and it would not fit there without them"
    elif sorted("/".join(key_of(victim)) for victim in wanted) != names:
        others = ", ".join("/".join(key_of(victim)) for victim in wanted)
        yield f"{', '.join(names)} are evicted on {decision.node}; it should be {others}"


JUDGED = {"bind": _judge_bound, "unschedulable": _judge_unschedulable, "preempt": _judge_preemption}
