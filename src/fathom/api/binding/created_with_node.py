"""The checks of a binding, for pods that are created with their node and for reservations of room on a node.

As in Kubernetes, `spec.unschedulable`, taints, node selectors and affinity are checked by the scheduler only:
they do not keep a pod off the node that it names. Room, ports, TenantQuota, capacity classes and cordons by
an override do.
"""

from __future__ import annotations

import msgspec

from fathom.api.binding.checks import BindingMoment, Case, judge_account, judge_cordons, judge_room
from fathom.api.binding.facts import BindingFacts
from fathom.api.binding.requests import BindingAsk, Refusal
from fathom.api.ledger.accounts import Books, key_in_store
from fathom.api.ledger.holdings import Account, Holding
from fathom.api.ledger.room import exceeds_quota
from fathom.kinds.scheduler_override import override_active, scope_includes
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model import binding_checks
from fathom.model.objects import Key, Obj, key_of
from fathom.store.protocol import Expect


class Arrival(msgspec.Struct, frozen=True):
    """A pod or reservation that would begin to hold room on a node."""

    obj: Obj  # A pod or a reservation.
    workload: Obj  # Its owner and name determine which overrides apply: the pod, or the pod reserved for.
    wanted: Holding
    leaving: tuple[Holding, ...] = ()  # What pods being deleted still hold, if this awaits them.


def judge_arrival(
    arrival: Arrival, *, facts: BindingFacts, books: Books, at: BindingMoment
) -> tuple[Expect, ...] | Refusal:
    """The preconditions of the commit, or the refusal."""
    wanted = arrival.wanted
    case = case_of(arrival.obj, arrival.workload, wanted.node, facts=facts, books=books, at=at)
    if case is None:
        return _without_node(arrival, facts=facts, books=books, at=at)
    case.leaving = arrival.leaving
    account = judge_cordons(case) or judge_account(case)
    if isinstance(account, Refusal):
        return account
    refusal = judge_room(case, wanted, case.expects[0].revision)
    return (*case.expects, facts.rules()) if refusal is None else refusal


def account_on(
    pod: Obj, node: str, *, facts: BindingFacts, books: Books, at: BindingMoment
) -> Account | None:
    """The account of a pod that an override lets into its class; None if the pod uses its usual account, or
    is refused."""
    case = case_of(pod, pod, node, facts=facts, books=books, at=at)
    account = judge_account(case) if case is not None else None
    return account if isinstance(account, Account) and account.override else None


def case_of(
    obj: Obj, workload: Obj, node_name: str, *, facts: BindingFacts, books: Books, at: BindingMoment
) -> Case | None:
    node, revision = facts.node(node_name)
    if node is None:
        return None
    key = key_of(obj)
    ask = BindingAsk(namespace=key.namespace, name=key.name, node=node_name)
    case = Case(ask, obj, node, facts=facts, books=books, at=at)
    case.workload = workload
    case.rests_on("nodes", Key("", node_name), revision)
    # No decision names the overrides for this pod: every active one may let it in.
    case.overrides += [
        override.spec
        for override in facts.overrides_about(workload)
        if override_active(override.spec, at.now_ns) and scope_includes(override.spec.spec.scope, node.labels)
    ]
    return case


def _without_node(
    arrival: Arrival, *, facts: BindingFacts, books: Books, at: BindingMoment
) -> tuple[Expect, ...] | Refusal:
    """Kubernetes accepts a pod for a node that does not exist (yet). So do we, unless a check needs the
    node's labels: quotas by zone, capacity classes, cordons. The pod's room is charged to the node's account
    from now on."""
    wanted, tenant = arrival.wanted, arrival.wanted.account.tenant
    quota, revision = facts.quota(tenant)
    overrides = (*facts.overrides_of_nodes(), *facts.overrides_about(arrival.workload))
    cordoned = any(override_active(override.spec, at.now_ns) for override in overrides)
    zoned = quota is not None and any(limit.zone is not None for limit in quota.spec.limits)
    if zoned or cordoned or facts.classes() or wanted.account.capacity_class:
        rules = "quotas by zone, capacity classes and overrides"
        why = f"node {wanted.node} does not exist: {rules} cannot be checked"
        return Refusal(binding_checks.NODE_GONE, why)
    over = exceeds_quota(quota, books.tenant(tenant), wanted)
    if over is not None:
        return Refusal(binding_checks.QUOTA_EXCEEDED, over, revision)
    return (
        Expect(key_in_store("nodes", Key("", wanted.node)), 0),
        Expect(key_in_store(TENANT_QUOTAS, Key("", tenant)), revision),
        facts.rules(),
    )
