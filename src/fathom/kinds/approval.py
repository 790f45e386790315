"""Approvals: a person's decision about an object, written through its subresource `approval`.

The server stamps who decided, when, and the hash of the spec that was decided about: a decision does not
outlive a change of the spec.
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

import msgspec

from fathom.kinds.definition import Stamp
from fathom.kinds.schema import Time, field_schema
from fathom.kinds.shape import Shape
from fathom.kinds.values import is_blank, text
from fathom.model import causes
from fathom.model.errors import Cause
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS

LAPSES_NS = 3600 * SECOND_NS  # What nobody has approved by then is no longer the answer to the incident.
THROUGH_CHARS_MAX = 128
ONE_PLAIN_LINE = "must be one line of letters, digits, spaces and punctuation (ASCII)"
_PLAIN = re.compile(r"[ -~]*")

# The field `requestedThrough` of a spec. It is for readers, and makes the object wait for approval: there is
# no way to have one without the other.
RequestedThrough = Annotated[
    str,
    field_schema(
        "The program that asked for it with the author's credentials, such as assistant NAME VERSION via"
        " fathom mcp. What has one always waits for the approval of a person other than its author. It never"
        " changes.",
        maxLength=THROUGH_CHARS_MAX,
    ),
]


class Approval(Shape, frozen=True):
    required: Annotated[bool, field_schema("Whether a second person must approve the spec.")] = False
    approved: Annotated[
        bool | None,
        field_schema(
            "True: approved. False: refused. Absent: not decided. Written through the approval subresource."
        ),
    ] = None
    approver: Annotated[str, field_schema("Who approved or refused it.")] = ""
    approved_at: Annotated[Time, field_schema("When it was approved or refused.")] = ""
    spec_hash: Annotated[
        str, field_schema("The hash of the spec that waits for approval, or that was approved or refused.")
    ] = ""
    requested_at: Annotated[Time, field_schema("Since when it waits. After an hour it lapses.")] = ""
    requested_by: Annotated[
        tuple[str, ...], field_schema("Who wrote the spec: they may not approve it.")
    ] = ()


def through_causes(spec: Obj, before: Obj | None = None) -> list[Cause]:
    """`before`: the spec of the stored object; None at creation."""
    field, written = "spec.requestedThrough", text(spec.get("requestedThrough"))
    if before is not None:
        return causes.unchanged(field, written, text(before.get("requestedThrough")))
    if not written:
        return []
    if is_blank(written) or not _PLAIN.fullmatch(written):
        return [causes.invalid(field, written, ONE_PLAIN_LINE)]
    return []


def spec_hash(spec: object) -> str:
    """The hash of a spec, a Struct or an object: the order of its fields does not matter."""
    return hashlib.sha256(msgspec.json.encode(spec, order="sorted")).hexdigest()


def with_decision(before: Obj, approved: object, stamp: Stamp, *, hash_field: str, spec_hash: str) -> Obj:
    """`before` with the decision of the caller. The same decision again changes nothing; None withdraws the
    earlier one."""
    same_spec = before.get(hash_field) == spec_hash
    if approved == before.get("approved") and stamp.user == before.get("approver") and same_spec:
        return {**before}
    fields = ("approved", "approver", "approvedAt", hash_field)
    kept = {name: value for name, value in before.items() if name not in fields}
    if approved is None:
        return kept
    decision = {"approved": approved, "approver": stamp.user, "approvedAt": stamp.now, hash_field: spec_hash}
    return {**kept, **decision}
