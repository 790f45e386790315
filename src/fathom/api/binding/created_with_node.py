"""Pods that are created with their node, and reservations of room on one: the checks of a binding hold for
them too.

As in Kubernetes, `spec.unschedulable`, taints, node selectors and affinity are the scheduler's: they do not
keep a pod off the node that it names. Room, ports, TenantQuota, capacity classes and cordons by an override
do.
"""

from __future__ import annotations

import msgspec

from fathom.api.binding import requests
from fathom.api.binding.checks import BindingMoment, Case, judge_account, judge_cordons, judge_room
from fathom.api.binding.facts import BindingFacts
from fathom.api.binding.requests import BindingAsk, Refusal
from fathom.api.ledger.accounts import Books, key_in_store
from fathom.api.ledger.holdings import Account, Holding
from fathom.api.ledger.room import exceeds_quota
from fathom.kinds.scheduler_override import override_active, scope_includes
from fathom.kinds.tenant_quota import TENANT_QUOTAS
from fathom.model.objects import Key, Obj, key_of
from fathom.store.protocol import Expect


class Arrival(msgspec.Struct, frozen=True):
    """What is to hold room on a node."""

    obj: Obj  # A pod or a reservation.
    workload: Obj  # Whose owner and name say which overrides are about it: the pod, or the one reserved for.
    wanted: Holding
    leaving: tuple[Holding, ...] = ()  # What pods that are being deleted still hold, if this awaits them.


def judge_arrival(
    arrival: Arrival, *, facts: BindingFacts, books: Books, at: BindingMoment
) -> tuple[Expect, ...] | Refusal:
    """What the commit must expect, or why it must not happen."""
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
    """On whose account a pod goes that an override lets into its class; None where it goes on the usual one,
    or nowhere."""
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
    # Nobody has decided for it by which overrides it goes there: all that hold may let it in.
    case.overrides += [
        one.spec
        for one in facts.overrides_about(workload)
        if override_active(one.spec, at.now_ns) and scope_includes(one.spec.spec.scope, node.labels)
    ]
    return case


def _without_node(
    arrival: Arrival, *, facts: BindingFacts, books: Books, at: BindingMoment
) -> tuple[Expect, ...] | Refusal:
    """Kubernetes takes a pod for a node that is not there (yet). So do we, unless something must hold that
    only the node's labels can tell: which zone's quota it falls under, which class or cordon it belongs to.
    Its room is on the node's account from now on."""
    wanted, tenant = arrival.wanted, arrival.wanted.account.tenant
    quota, revision = facts.quota(tenant)
    overrides = (*facts.overrides_of_nodes(), *facts.overrides_about(arrival.workload))
    cordoned = any(override_active(one.spec, at.now_ns) for one in overrides)
    zoned = quota is not None and any(limit.zone is not None for limit in quota.spec.limits)
    if zoned or cordoned or facts.classes() or wanted.account.capacity_class:
        rules = "quotas by zone, capacity classes and overrides"
        why = f"node {wanted.node} does not exist: {rules} cannot be checked there"
        return Refusal(requests.NODE_GONE, why)
    over = exceeds_quota(quota, books.tenant(tenant), wanted)
    if over is not None:
        return Refusal(requests.QUOTA_EXCEEDED, over, revision)
    return (
        Expect(key_in_store("nodes", Key("", wanted.node)), 0),
        Expect(key_in_store(TENANT_QUOTAS, Key("", tenant)), revision),
        facts.rules(),
    )
