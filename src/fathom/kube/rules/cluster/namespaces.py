"""Rules of Namespaces. A namespace is removed when its own finalizers, in its spec, are gone as well."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.metadata import standard_finalizer_causes
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, is_deleting, metadata

NAME_LABEL = "kubernetes.io/metadata.name"
KEEPER = "kubernetes"  # Removed by the namespace controller when the contents are gone.


class NamespaceRules(KindRules):
    def default(self, obj: Obj) -> None:
        meta = metadata(obj)
        if meta.get("name"):
            meta.setdefault("labels", {})[NAME_LABEL] = meta["name"]

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        self.default(obj)  # A generated name is known only now.
        spec = obj.setdefault("spec", {})
        finalizers = spec.get("finalizers") or []
        spec["finalizers"] = finalizers if KEEPER in finalizers else [*finalizers, KEEPER]
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        """Only the `finalize` subresource changes a namespace's finalizers."""
        spec = {**(obj.get("spec") or {}), "finalizers": (old.get("spec") or {}).get("finalizers")}
        obj["spec"] = {name: value for name, value in spec.items() if value is not None}

    def prepare_delete(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def held(self, obj: Obj) -> bool:
        return super().held(obj) or bool((obj.get("spec") or {}).get("finalizers"))

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        for finalizer in (obj.get("spec") or {}).get("finalizers") or ():
            problems += causes.each("spec.finalizers", finalizer, formats.qualified_name(finalizer))
            problems += standard_finalizer_causes(finalizer, "spec.finalizers")
        return problems

    def validate_status(self, obj: Obj, old: Obj) -> list[Cause]:
        phase = (obj.get("status") or {}).get("phase", "")
        deleting = is_deleting(obj)
        expected = "Terminating" if deleting else "Active"
        if phase == expected:
            return []
        state = "is not empty" if deleting else "is empty"
        detail = f"may only be '{expected}' if `deletionTimestamp` {state}"
        return [causes.invalid("status.Phase", phase, detail)]

    def field(self, obj: Obj, path: str) -> str | None:
        return str(metadata(obj).get("name", "")) if path == "name" else None
