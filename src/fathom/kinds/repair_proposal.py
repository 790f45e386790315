"""RepairProposal: an action that repair proposes, and who approved or refused it.

Its spec never changes after creation, and the decision is written through the approval subresource. The
server stamps who made the proposal and who decided.
"""

from __future__ import annotations

from typing import Annotated

from fathom.kinds import approval
from fathom.kinds.definition import KindDefinition, Rules, Stamp
from fathom.kinds.schema import REQUIRED, Count, Name, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, ObjectRef, Shape
from fathom.kinds.values import mapping, stamps
from fathom.model import causes
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup, metadata

# Phases in which nothing more is done about a proposal.
OVER = frozenset({"Done", "Obsolete"})
# Cluster-scoped kinds that a proposal may be about; such a proposal is in fathom's own namespace.
CLUSTER_SUBJECTS = frozenset({"Node"})

DECISION = ("approved", "approver", "approvedAt", "approvedSpec")
STAMPED = ("maker", *DECISION)


class Evidence(Shape, frozen=True):
    source: str = ""
    message: Annotated[str, REQUIRED] = ""
    revision: Count = 0
    time: Time = ""


class RepairProposalSpec(Shape, frozen=True):
    subject: Annotated[ObjectRef, REQUIRED] = ObjectRef()
    problem: Annotated[
        Name, field_schema("The problem that repair found, in one word: OrphanedReservation.", required=True)
    ] = ""
    action: Annotated[
        str,
        one_of("Delete", "Release", "RemoveFinalizer", "Unbind"),
        field_schema("The action that repair proposes.", required=True),
    ] = ""
    evidence: tuple[Evidence, ...] = ()


class RepairProposalStatus(Shape, frozen=True):
    phase: Annotated[str, one_of("Proposed", "Approved", "Refused", "Done", "Obsolete")] = ""
    maker: Annotated[
        str, field_schema("Who made the proposal. Set by the server; repair acts only on its own proposals.")
    ] = ""
    approved: Annotated[
        bool | None,
        field_schema(
            "True: approved. False: refused. Absent: not decided. Written through the approval subresource."
        ),
    ] = None
    approver: Annotated[
        str,
        field_schema(
            "Who approved or refused it: a person, or the author of the override that approves it. Set by the"
            " server."
        ),
    ] = ""
    approved_by_override: Annotated[
        str,
        field_schema(
            "The override that approves it (approveRepairs), while nobody has decided about the proposal"
            " itself."
        ),
    ] = ""
    approved_at: Annotated[Time, field_schema("When it was approved or refused. Set by the server.")] = ""
    approved_spec: Annotated[
        str, field_schema("The hash of the spec that was approved or refused. Set by the server.")
    ] = ""
    observed_generation: Count = 0
    conditions: Conditions = ()


class RepairProposal(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[RepairProposalSpec, REQUIRED] = RepairProposalSpec()
    status: RepairProposalStatus = RepairProposalStatus()


def spec_hash(proposed: Obj) -> str:
    """The hash of the spec: an approval is bound to it."""
    return approval.spec_hash(proposed.get("spec") or {})


def subject_fault(proposed: Obj) -> str | None:
    """Why a proposal may not be about its subject; None if it may. Repair, which acts on it, may have more
    rights than its author, so the subject is in the proposal's namespace, or is cluster-scoped and the
    proposal in fathom's own."""
    home = str(metadata(proposed).get("namespace") or "")
    kind, namespace = (str(lookup(proposed, "spec", "subject", name) or "") for name in ("kind", "namespace"))
    if kind not in CLUSTER_SUBJECTS:
        return None if namespace == home else f"must be the proposal's own namespace, {home}"
    if namespace:
        return f"a {kind} has no namespace"
    return (
        None
        if home == SYSTEM_NAMESPACE
        else f"a proposal about a {kind} must be in the namespace {SYSTEM_NAMESPACE}"
    )


def status_at_create(obj: Obj, stamp: Stamp) -> Obj:
    return {"phase": "Proposed", "maker": stamp.user}


def status_at_status_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    reported = {name: value for name, value in mapping(obj.get("status")).items() if name not in STAMPED}
    return {**reported, **stamps(old, STAMPED)}


def status_at_approval(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """Only `approved` is taken from the request."""
    approved, before = lookup(obj, "status", "approved"), mapping(old.get("status"))
    return approval.with_decision(
        before, approved, stamp, hash_field="approvedSpec", spec_hash=spec_hash(old)
    )


def validate(obj: Obj) -> list[Cause]:
    fault = subject_fault(obj)
    return [causes.forbidden("spec.subject.namespace", fault)] if fault else []


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    """The spec is immutable, so that what is approved is what was proposed."""
    return causes.unchanged("spec", obj.get("spec"), old.get("spec"))


DEFINITION = KindDefinition(
    shape=RepairProposal,
    plural="repairproposals",
    namespaced=True,
    approval=True,
    short_names=("repair",),
    columns=(
        Column("Subject", "string", ".spec.subject.name"),
        Column("Problem", "string", ".spec.problem"),
        Column("Action", "string", ".spec.action"),
        Column("Approved", "boolean", ".status.approved"),
        Column("Phase", "string", ".status.phase"),
        Column("Approver", "string", ".status.approver", priority=1),
    ),
    rules=Rules(
        validate_create=validate,
        validate_update=validate_update,
        status_at_create=status_at_create,
        status_at_status_update=status_at_status_update,
        status_at_approval=status_at_approval,
    ),
    view_role_reads=True,
)
PROPOSALS = DEFINITION.resource
