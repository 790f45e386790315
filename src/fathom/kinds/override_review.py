"""OverrideReview: what becomes of one use of break-glass. The server makes it in the commit that stores the
override; it stays open until somebody other than the override's author closes it."""

from __future__ import annotations

from typing import Annotated

from fathom.kinds import approval
from fathom.kinds.definition import KindDefinition, Rules, Stamp
from fathom.kinds.override_changes import HOUR_NS
from fathom.kinds.schema import Name, Time, field_schema, one_of
from fathom.kinds.shape import Meta, ObjectRef, Shape
from fathom.kinds.values import mapping, text
from fathom.model import causes
from fathom.model.column import Column
from fathom.model.errors import Cause
from fathom.model.objects import Obj, lookup
from fathom.model.times import moment_ns

OPEN, DISPUTED, CLOSED = "Open", "Disputed", "Closed"
REVIEW_DUE_HOURS = 24  # After the end of the use: the next working day has somebody who can look at it.


class OverrideReviewSpec(Shape, frozen=True):
    override: Annotated[
        ObjectRef, field_schema("The SchedulerOverride with breakGlassRole.", required=True)
    ] = ObjectRef()
    author: Annotated[
        Name,
        field_schema("The user who created the override and had the permissions of the role.", required=True),
    ] = ""
    role: Annotated[
        Name, field_schema("The ClusterRole whose permissions the author had.", required=True)
    ] = ""
    reason: Annotated[str, field_schema("The reason that the override gave.")] = ""
    starts_at: Annotated[Time, field_schema("From when the author had the permissions.")] = ""
    ends_at: Annotated[Time, field_schema("Until when, unless the override was ended before.")] = ""


class OverrideReviewStatus(Shape, frozen=True):
    phase: Annotated[
        str,
        one_of(OPEN, DISPUTED, CLOSED),
        field_schema("Open: nobody has reviewed it. Disputed: its use was not in order. Closed: it was."),
    ] = ""
    approved: Annotated[
        bool | None,
        field_schema(
            "True: its use was in order, and the review is closed. False: it is disputed. Written through the"
            " approval subresource."
        ),
    ] = None
    approver: Annotated[str, field_schema("Who reviewed it. Set by the server.")] = ""
    approved_at: Annotated[Time, field_schema("When it was reviewed. Set by the server.")] = ""
    approved_spec: Annotated[str, field_schema("The hash of the reviewed spec. Set by the server.")] = ""
    findings: Annotated[
        str,
        field_schema(
            "What the reviewer found, for people. Written through the approval subresource.", maxLength=4096
        ),
    ] = ""


class OverrideReview(Shape, frozen=True):
    metadata: Meta = Meta()
    spec: Annotated[
        OverrideReviewSpec,
        field_schema("What is reviewed. The server writes it once; it never changes.", required=True),
    ] = OverrideReviewSpec()
    status: Annotated[
        OverrideReviewStatus,
        field_schema("What came of the review. Written by `fathom override review`, through approval."),
    ] = OverrideReviewStatus()


def review_of(override: Obj, *, name: str, uid: str, created: str) -> Obj:
    """The review of an override with breakGlassRole, as it is stored."""
    meta, spec, status = override["metadata"], override["spec"], override["status"]
    about = {
        "apiVersion": override.get("apiVersion"),
        "kind": override.get("kind"),
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    return {
        "kind": "OverrideReview",
        "apiVersion": override.get("apiVersion"),
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": uid,
            "creationTimestamp": created,
            "generation": 1,
        },
        "spec": {
            "override": about,
            "author": status["author"],
            "role": spec["changes"]["breakGlassRole"],
            "reason": spec["reason"],
            "startsAt": created,
            "endsAt": status["expiresAt"],
        },
        "status": {"phase": OPEN},
    }


def is_open(review: Obj) -> bool:
    return bool(lookup(review, "status", "phase") != CLOSED)


def is_disputed(review: OverrideReview) -> bool:
    return review.status.phase == DISPUTED


def is_overdue(review: OverrideReview, now_ns: int) -> bool:
    """Whether nobody has reviewed it in time. (That it is open is asked before.)"""
    ends_ns = moment_ns(review.spec.ends_at)
    return ends_ns is not None and now_ns >= ends_ns + REVIEW_DUE_HOURS * HOUR_NS


def status_at_create(obj: Obj, stamp: Stamp) -> Obj:
    return {"phase": OPEN}


def status_at_status_update(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """Nothing is reported about a review: it is decided."""
    return {**mapping(old.get("status"))}


def status_at_approval(obj: Obj, old: Obj, stamp: Stamp) -> Obj:
    """`approved` and `findings` are taken from the request."""
    sent, before = mapping(obj.get("status")), mapping(old.get("status"))
    approved = sent.get("approved")
    decided = approval.with_decision(
        before,
        approved,
        stamp,
        hash_field="approvedSpec",
        spec_hash=approval.spec_hash(old.get("spec") or {}),
    )
    findings = text(sent.get("findings"))
    phase = OPEN if approved is None else CLOSED if approved is True else DISPUTED
    return {**decided, "phase": phase, **({"findings": findings} if findings else {})}


def validate_update(obj: Obj, old: Obj) -> list[Cause]:
    """What is to be reviewed does not change."""
    return causes.unchanged("spec", obj.get("spec"), old.get("spec"))


DEFINITION = KindDefinition(
    shape=OverrideReview,
    about="One use of break-glass permissions. The server makes it with the override; it stays open until"
    " somebody other than the override's author closes it.",
    plural="overridereviews",
    namespaced=True,
    approval=True,
    short_names=("orev",),
    columns=(
        Column("Override", "string", ".spec.override.name"),
        Column("Author", "string", ".spec.author"),
        Column("Role", "string", ".spec.role"),
        Column("Phase", "string", ".status.phase"),
        Column("Reviewer", "string", ".status.approver"),
        Column("Findings", "string", ".status.findings", priority=1),
    ),
    rules=Rules(
        validate_update=validate_update,
        status_at_create=status_at_create,
        status_at_status_update=status_at_status_update,
        status_at_approval=status_at_approval,
    ),
    view_role_reads=True,
)
OVERRIDE_REVIEWS = DEFINITION.resource
