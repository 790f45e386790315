"""What overrides say to repair: act on nothing of their target, or carry out these proposals. Pure.

An approval by an override follows the rules of a person's. The override's author is the approver, so it may
be neither repair, which made the proposal, nor another account of fathom's own. It is for what the author
could read: a proposal's spec never changes, so a proposal that is younger than the override is another one,
though it may have the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fathom.cache.needs import Need
from fathom.control.plan import Plan
from fathom.controllers.override_pauses import WorkloadPause, as_decisive, read_override
from fathom.kinds.override_scope import InScope, WorkloadName, targets_workload
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, override_active
from fathom.model.accounts import is_own_name
from fathom.model.decision import Considered, considered
from fathom.model.objects import Obj, key_of, lookup, metadata
from fathom.model.times import moment_ns


def held(plan: Plan, pause: WorkloadPause | None, needs: tuple[Need, ...] = ()) -> Plan:
    """The plan without what it would do to the object, if an override pauses that. Proposals are made all the
    same: they do nothing. `needs`: how new the view of overrides must be to say that none does."""
    if pause is None:
        acts = plan.patches or plan.deletes
        return msgspec.structs.replace(plan, needs=(*plan.needs, *needs), heeds_pauses=True) if acts else plan
    if not (plan.patches or plan.deletes):
        return msgspec.structs.replace(plan, considered=as_decisive(pause.considered, ""))
    why = f"repair is paused by the override {pause.override}: {plan.why}"
    return Plan(creates=plan.creates, why=why, considered=as_decisive(pause.considered, pause.override))


class OverrideApproval(msgspec.Struct, frozen=True):
    """A proposal's approval by an override that is in force."""

    override: str  # Its name, in the proposal's namespace.
    author: str
    considered: tuple[Considered, ...]


def approval_by_override(
    proposed: Obj,
    overrides: Iterable[Obj],
    *,
    names: Sequence[WorkloadName],
    in_scope: InScope,
    now_ns: int,
) -> OverrideApproval | None:
    """`names`: the proposal's subject and its controllers."""
    for obj in overrides:
        override = read_override(obj)
        if override is None or not approves(override, proposed, names, now_ns=now_ns):
            continue
        if in_scope(override.spec.scope):
            cited = (msgspec.structs.replace(considered(OVERRIDES, obj), decisive=True),)
            return OverrideApproval(key_of(obj).name, override.status.author, cited)
    return None


def approves(
    override: SchedulerOverride, proposed: Obj, names: Sequence[WorkloadName], *, now_ns: int
) -> bool:
    key, author = key_of(proposed), override.status.author
    is_person = bool(author) and not is_own_name(author) and author != lookup(proposed, "status", "maker")
    return (
        key.name in override.spec.changes.approve_repairs
        and override_active(override, now_ns)
        and targets_workload(override, key.namespace, names)
        and is_person
        and _created_ns(proposed) <= (moment_ns(override.metadata.creation_timestamp) or 0)
    )


def _created_ns(proposed: Obj) -> int:
    """A proposal without a time of creation is never old enough."""
    created_ns = moment_ns(str(metadata(proposed).get("creationTimestamp") or ""))
    return 2**63 if created_ns is None else created_ns
