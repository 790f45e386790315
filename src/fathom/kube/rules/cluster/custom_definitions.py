"""Rules of CustomResourceDefinitions.

A valid one is established in the commit that stores it: a client that reads it sees a kind that is served.
Its objects are removed before it is (see `controllers/housekeeping/custom_definitions.py`)."""

from __future__ import annotations

from fathom.kube.definitions.crd import crd_causes, crd_update_causes, is_valid_crd
from fathom.kube.definitions.custom import crd_warnings, default_crd, established
from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.model.errors import Cause
from fathom.model.objects import Obj, metadata
from fathom.model.resource_names import DEFINITIONS
from fathom.model.well_known import CUSTOM_OBJECTS_FINALIZER


class DefinitionRules(KindRules):
    def default(self, obj: Obj) -> None:
        default_crd(obj)

    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        meta = metadata(obj)
        finalizers = meta.get("finalizers") or []
        meta["finalizers"] = (
            finalizers if CUSTOM_OBJECTS_FINALIZER in finalizers else [*finalizers, CUSTOM_OBJECTS_FINALIZER]
        )
        self._establish(obj, moment)

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        self._establish(obj, moment)

    def _establish(self, obj: Obj, moment: WriteMoment) -> None:
        if is_valid_crd(obj):  # Else validation will refuse it.
            definitions = (seen.obj for seen in moment.view.list(DEFINITIONS))
            obj["status"] = established(obj, moment.now, definitions)

    def validate_create(self, obj: Obj) -> list[Cause]:
        return crd_causes(obj)

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        return crd_update_causes(obj, old)

    def warnings(self, obj: Obj) -> list[str]:
        return crd_warnings(obj)
