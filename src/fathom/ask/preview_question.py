"""The question of an OverridePreview, checked: what its override would be if it were stored."""

from __future__ import annotations

import msgspec

from fathom.kinds.override_preview import MINUTES_MAX, SEEDS_MAX, OverridePreviewSpec
from fathom.kinds.scheduler_override import DEFINITION, SchedulerOverride
from fathom.kinds.shape import API_VERSION, GROUP, read
from fathom.model.errors import bad_request, invalid
from fathom.model.objects import Obj, metadata, with_metadata


class PreviewQuestion(msgspec.Struct, frozen=True):
    override: Obj  # With its namespace.
    minutes: int
    seeds: int

    @property
    def spec(self) -> Obj:
        """As it is answered."""
        return {"override": self.override, "minutes": self.minutes, "seeds": self.seeds}


def question_of(obj: Obj, namespace: str) -> PreviewQuestion:
    """Raises 400, and 422 for an override that the rules of its kind refuse."""
    try:
        spec = read(OverridePreviewSpec, obj.get("spec") or {})
    except ValueError as error:
        raise bad_request(f"spec: {error}") from None
    for field, value, most in (("minutes", spec.minutes, MINUTES_MAX), ("seeds", spec.seeds, SEEDS_MAX)):
        if not 1 <= value <= most:
            raise bad_request(f"spec.{field} must be from 1 to {most}, not {value}")
    override = _placed(spec.override, namespace)
    try:
        read(SchedulerOverride, override)
    except ValueError as error:
        raise bad_request(f"spec.override: {error}") from None
    rules = DEFINITION.rules
    if causes := rules.validate_create(override) if rules and rules.validate_create else []:
        name = str(metadata(override)["name"])
        raise invalid(group=GROUP, kind=DEFINITION.kind, name=name, causes=causes)
    return PreviewQuestion(override, spec.minutes, spec.seeds)


def _placed(override: Obj, namespace: str) -> Obj:
    """With kind and namespace. Raises 400."""
    meta = override.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise bad_request("spec.override.metadata.name is missing")
    if meta.get("namespace") not in {None, "", namespace}:
        raise bad_request(f"spec.override is in another namespace than the question, {namespace!r}")
    if override.get("kind") not in {None, DEFINITION.kind}:
        raise bad_request(f"spec.override must be a {DEFINITION.kind}, not a {override['kind']}")
    complete = {**override, "kind": DEFINITION.kind, "apiVersion": API_VERSION}
    return with_metadata(complete, namespace=namespace)
