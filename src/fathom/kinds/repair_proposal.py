"""RepairProposal: an action that repair proposes, and who approved or refused it.

Its spec never changes after creation, and the decision is written through the approval subresource. The
server stamps who made the proposal and who decided.
"""

from __future__ import annotations

from typing import Annotated

from fathom.kinds import approval
from fathom.kinds.definition import KindDefinition, Rules, Stamp
from fathom.kinds.schema import Count, Name, Time, field_schema, one_of
from fathom.kinds.shape import Conditions, Meta, ObjectRef, ObservedGeneration, Shape
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
    source: Annotated[
        str, field_schema("Where it comes from: repair, or finalizer, whose message is the finalizer's name.")
    ] = ""
    message: Annotated[str, field_schema("What was seen, for people.", required=True)] = ""
    revision: Annotated[
        Count, field_schema("The resourceVersion of the subject when it was seen. Absent: not known.")
    ] = 0
    time: Annotated[Time, field_schema("When it was seen, if that is known.")] = ""


class RepairProposalSpec(Shape, frozen=True):
    subject: Annotated[
        ObjectRef,
        field_schema(
            "The object that would be changed: in the namespace of the proposal, or a Node if that is"
            " fathom-system.",
            required=True,
        ),
    ] = ObjectRef()
    problem: Annotated[
        Name,
        field_schema("The problem in one word: TerminatingOnSilentNode, HeldByFinalizers.", required=True),
    ] = ""
    action: Annotated[
        str,
        one_of("Delete", "Release", "RemoveFinalizer", "Unbind"),
        field_schema(
            "What would be done about it. Repair proposes Delete (at once) and RemoveFinalizer.",
            required=True,
        ),
    ] = ""
    evidence: Annotated[tuple[Evidence, ...], field_schema("What repair saw.")] = ()


class RepairProposalStatus(Shape, frozen=True):
    phase: Annotated[
        str,
        one_of("Proposed", "Approved", "Refused", "Done", "Obsolete"),
        field_schema(
            "Proposed: it waits for a person. Approved: it is being done. Refused: nothing is done. Done: it"
            " was done. Obsolete: the problem is gone."
        ),
    ] = ""
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
    observed_generation: ObservedGeneration = 0
    conditions: Annotated[
        Conditions,
        field_schema("Over: nothing more is done about it. Its reason is the phase, its message says why."),
    ] = ()


class RepairProposal(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        RepairProposalSpec,
        field_schema(
            "What repair proposes, and why. Repair writes it once; it never changes.", required=True
        ),
    ] = RepairProposalSpec()
    status: Annotated[
        RepairProposalStatus, field_schema("What was decided about it, and what came of it.")
    ] = RepairProposalStatus()


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
    about="An action that repair proposes in an unclear case, and what a person decided about it: `fathom"
    " repair list`, `approve`, `refuse`.",
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
