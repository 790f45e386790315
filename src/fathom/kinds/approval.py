"""Approvals: a person's decision about an object, written through its subresource `approval`.

The server stamps who decided, when, and the hash of the spec that was decided about: a decision does not
outlive a change of the spec.
"""

from __future__ import annotations

import hashlib

import msgspec

from fathom.kinds.definition import Stamp
from fathom.model.objects import Obj


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
