"""Whether an object may be stored as it is: its schema, its metadata, the rules of its kind."""

from __future__ import annotations

from collections.abc import Callable

from fathom.api.core import Call, Core
from fathom.api.custom import ownership_causes
from fathom.kinds.shape import GROUP
from fathom.kube.definitions.kind import Kind
from fathom.kube.rules import metadata as metadata_rules
from fathom.model.errors import Cause, TooManyCauses, invalid
from fathom.model.objects import Obj, metadata
from fathom.model.resource_names import DEFINITIONS

# Subresources whose writers report: they cannot change the desired state.
APPROVAL = "approval"
REPORTS = frozenset({"status", APPROVAL})


def check_own_kind(core: Core, call: Call, obj: Obj, old: Obj | None = None, subresource: str = "") -> None:
    """Admission and the ledger read fathom's own kinds as structs: an object that does not fit its struct
    must not get that far. Built-in kinds are checked when they are decoded, and nothing here reads custom
    kinds."""
    if call.kind.group != GROUP:
        return

    def check() -> list[Cause]:
        causes = core.decoder.causes(call.kind, obj)
        if causes or subresource:
            return causes
        rules = core.rules(call.kind)
        return rules.validate_create(obj) if old is None else rules.validate_update(obj, old)

    _refuse(call.kind, obj, check)


def validate_create(core: Core, call: Call, obj: Obj) -> None:
    rules = core.rules(call.kind)

    def check() -> list[Cause]:
        causes = metadata_rules.create_causes(obj, call.kind)
        shape = core.decoder.causes(call.kind, obj)
        causes += shape
        if not shape:  # The rules of a fathom.dev kind rely on its schema.
            causes += rules.validate_create(obj)
        if not causes and call.kind.resource == DEFINITIONS:
            causes += ownership_causes(obj, core.registry)
        return causes

    _refuse(call.kind, obj, check)
    for warning in rules.warnings(obj):
        call.warn(warning)


def validate_update(core: Core, call: Call, obj: Obj, old: Obj, subresource: str) -> None:
    rules = core.rules(call.kind)
    _refuse(call.kind, obj, lambda: _update_causes(core, call, obj, old, subresource))
    if subresource in REPORTS:
        return
    if rules.warns and not subresource and rules.generation_changed(obj, old):
        for warning in rules.warnings(obj):
            call.warn(warning)


def _update_causes(core: Core, call: Call, obj: Obj, old: Obj, subresource: str) -> list[Cause]:
    rules = core.rules(call.kind)
    shape = core.decoder.causes(call.kind, obj)
    if subresource in REPORTS:
        return shape or rules.validate_status(obj, old)
    causes = shape + metadata_rules.update_causes(obj, old, call.kind)
    if not subresource and not shape:  # The rules of a fathom.dev kind rely on its schema.
        causes += rules.validate_update(obj, old)
    return causes


def _refuse(kind: Kind, obj: Obj, check: Callable[[], list[Cause]]) -> None:
    """Raises ApiError if the check finds anything wrong with the object."""
    try:
        causes = check()
    except TooManyCauses as many:
        causes = many.found
    if causes:
        name = str(metadata(obj).get("name") or metadata(obj).get("generateName") or "")
        raise invalid(group=kind.group, kind=kind.kind, name=name, causes=causes)
