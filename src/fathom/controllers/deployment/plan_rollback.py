"""Automatic rollback of a Deployment that asks for it: to the previous revision, once. Pure."""

from __future__ import annotations

from fathom.control.plan import Patch, target
from fathom.controllers.deployment.plan_status import has_timed_out
from fathom.controllers.deployment.revisions import Sets, notes_of, revision_of, template_of
from fathom.model.objects import Obj, lookup, metadata

AUTO_REVERT = "fathom.dev/auto-revert"
REVERTED_FROM, REVERTED_TO = "fathom.dev/reverted-from", "fathom.dev/reverted-to"


def is_to_be_reverted(deployment: Obj, sets: Sets) -> bool:
    if notes_of(deployment).get(AUTO_REVERT) != "true" or not has_timed_out(deployment, sets):
        return False
    assert sets.new is not None
    # Never revert from a revision that we reverted to: two that both fail must not alternate.
    return notes_of(deployment).get(REVERTED_TO) != metadata(sets.new)["name"] and bool(sets.old)


def reverted(deployment: Obj, sets: Sets) -> tuple[Patch, str]:
    """The patch, and why."""
    assert sets.new is not None
    before = max(sets.old, key=lambda old: (revision_of(old), metadata(old)["name"]))
    notes = {
        REVERTED_FROM: f"{metadata(sets.new)['name']}: exceeded its progress deadline",
        REVERTED_TO: metadata(before)["name"],
    }
    change = {
        "metadata": {"annotations": notes},
        "spec": {"template": difference(lookup(deployment, "spec", "template"), template_of(before))},
    }
    patch = Patch(target("Deployment", deployment), change, destructive=True)
    return patch, f"back to {metadata(before)['name']}: no progress within the deadline"


def difference(before: Obj, after: Obj) -> Obj:
    """The merge patch that turns `before` into `after`."""
    patch: Obj = {name: None for name in before if name not in after}
    for name, value in after.items():
        was = before.get(name)
        if isinstance(value, dict) and isinstance(was, dict):
            if inner := difference(was, value):
                patch[name] = inner
        elif name not in before or was != value:
            patch[name] = value
    return patch
