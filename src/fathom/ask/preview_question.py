"""The question of an OverridePreview, checked: what its override or its run would be if it were stored."""

from __future__ import annotations

import msgspec

from fathom.kinds import runbook_run, scheduler_override
from fathom.kinds.definition import KindDefinition
from fathom.kinds.override_preview import MINUTES_MAX, SEEDS_MAX, OverridePreviewSpec
from fathom.kinds.runbook_run import RunbookRun
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import API_VERSION, GROUP, Shape, read
from fathom.model.errors import bad_request, invalid
from fathom.model.objects import Obj, metadata, with_metadata

RUN_BYTES_MAX = 256 << 10  # Answers are kept with their questions.


class PreviewQuestion(msgspec.Struct, frozen=True):
    tried: Obj  # A SchedulerOverride or a RunbookRun, with its namespace.
    minutes: int
    seeds: int

    @property
    def of_run(self) -> bool:
        return bool(self.tried["kind"] == runbook_run.DEFINITION.kind)

    @property
    def spec(self) -> Obj:
        """As it is answered."""
        field = "run" if self.of_run else "override"
        return {field: self.tried, "minutes": self.minutes, "seeds": self.seeds}


def question_of(obj: Obj, namespace: str) -> PreviewQuestion:
    """Raises 400, and 422 for an override or a run that the rules of its kind refuse."""
    try:
        spec = read(OverridePreviewSpec, obj.get("spec") or {})
    except ValueError as error:
        raise bad_request(f"spec: {error}") from None
    for field, value, most in (("minutes", spec.minutes, MINUTES_MAX), ("seeds", spec.seeds, SEEDS_MAX)):
        if not 1 <= value <= most:
            raise bad_request(f"spec.{field} must be from 1 to {most}, not {value}")
    if spec.override and spec.run:
        raise bad_request("spec has both an override and a run; set one of them")
    if len(msgspec.json.encode(spec.run)) > RUN_BYTES_MAX:
        raise bad_request(f"spec.run has more than {RUN_BYTES_MAX >> 10} KiB: it is too large to be tried")
    if spec.run:
        tried = _checked("spec.run", spec.run, namespace, RunbookRun, runbook_run.DEFINITION)
    else:
        tried = _checked(
            "spec.override", spec.override, namespace, SchedulerOverride, scheduler_override.DEFINITION
        )
    return PreviewQuestion(tried, spec.minutes, spec.seeds)


def _checked(field: str, obj: Obj, namespace: str, shape: type[Shape], definition: KindDefinition) -> Obj:
    """With kind and namespace. Raises 400, 422."""
    placed = _placed(field, obj, namespace, definition.kind)
    try:
        read(shape, placed)
    except ValueError as error:
        raise bad_request(f"{field}: {error}") from None
    rules = definition.rules
    if causes := rules.validate_create(placed) if rules and rules.validate_create else []:
        raise invalid(group=GROUP, kind=definition.kind, name=str(metadata(placed)["name"]), causes=causes)
    return placed


def _placed(field: str, obj: Obj, namespace: str, kind: str) -> Obj:
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise bad_request(f"{field}.metadata.name is missing")
    if meta.get("namespace") not in {None, "", namespace}:
        raise bad_request(f"{field} is in another namespace than the question, {namespace!r}")
    if obj.get("kind") not in {None, kind}:
        raise bad_request(f"{field} must be a {kind}, not a {obj['kind']}")
    return with_metadata({**obj, "kind": kind, "apiVersion": API_VERSION}, namespace=namespace)
