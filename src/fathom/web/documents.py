"""What the page shows of fathom itself, and not of the cluster: the table of an override's changes, and the
runbooks that come with fathom. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from fathom.kinds.override_changes import (
    CHANGES,
    EVERYWHERE,
    INFRASTRUCTURE_TARGETS,
    SCOPES,
    TARGETS,
    ChangeRule,
)
from fathom.kinds.scheduler_override import Changes
from fathom.steer.runbook_library import library

# How the value of a change is written, by the type of its field; anything else is a number.
FORMS = {bool: "flag", str: "name", tuple: "names", dict: "weights"}
EXAMPLES = {
    "avoidZones": "eu-west-a",
    "avoidNodes": "node-1",
    "avoidTopology": "rack=r1|r2",
    "allowReservedCapacityClass": "recovery",
    "reservedReplicas": "2",
    "raisePriority": "1000",
    "trafficWeights": "eu-west=3, eu-central=1",
}


class ChangeRow(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    about: str
    targets: tuple[str, ...]
    hours_max: int
    verb: str
    enforced_by: tuple[str, ...]
    risk: str
    undone: str
    form: str
    example: str


def override_table() -> dict[str, Any]:
    """The table of `kinds/override_changes.py`, from which the page makes its form."""
    types = get_type_hints(Changes)
    fields = {each.encode_name: types[each.name] for each in msgspec.structs.fields(Changes)}
    return {
        "changes": [_row(name, rule, _form(fields[name])) for name, rule in CHANGES.items()],
        "targets": TARGETS,
        "infrastructureTargets": INFRASTRUCTURE_TARGETS,
        "scopes": SCOPES,
        "everywhere": EVERYWHERE,
    }


def _row(name: str, rule: ChangeRule, form: str) -> ChangeRow:
    return ChangeRow(
        name=name,
        about=rule.about,
        targets=rule.control_class.targets,
        hours_max=rule.control_class.hours_max,
        verb=rule.verb,
        enforced_by=rule.enforced_by,
        risk=rule.risk,
        undone=rule.undone,
        form=form,
        example=EXAMPLES.get(name, ""),
    )


def _form(hint: Any) -> str:
    origin = getattr(hint, "__origin__", hint)
    if origin is dict:
        values = getattr(hint.__args__[1], "__origin__", hint.__args__[1])
        return "labels" if values is tuple else "weights"
    return FORMS.get(origin, "number")


def runbooks() -> dict[str, Any]:
    """The runbooks of the library, as objects."""
    return {"items": [msgspec.to_builtins(book) for book in library().values()]}


DOCUMENTS: dict[str, Callable[[], Any]] = {"/ui/override-table": override_table, "/ui/runbooks": runbooks}
