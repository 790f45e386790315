"""Deletion of a custom kind: its objects are deleted before its definition."""

from __future__ import annotations

from fathom.controllers.housekeeping.namespaces import knows
from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Obj, is_deleting, key_of, metadata, uid_of
from fathom.model.resource_names import DEFINITIONS
from fathom.model.view import Resources, View
from fathom.model.well_known import CUSTOM_OBJECTS_FINALIZER

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class DefinitionController:
    def __init__(self, *, writer: HousekeepingWriter, view: View, resources: Resources) -> None:
        self._writer = writer
        self._view = view
        self._resources = resources

    async def reconcile(self, name: str, *, cause: WakeCause) -> bool:
        """Whether to look again soon."""
        definition = await self._writer.read(f"{PATH}/{name}")
        if definition is None:
            return False
        finalizers = metadata(definition).get("finalizers") or []
        if not metadata(definition).get("deletionTimestamp") or CUSTOM_OBJECTS_FINALIZER not in finalizers:
            return False
        if not knows(self._view, DEFINITIONS, definition):
            return True  # Our view is behind, or ahead: its objects may be those of another definition.
        for obj in [stored.obj for stored in self._view.list(name)]:
            await self._delete(name, obj, cause)
        if list(self._view.list(name)):
            return True  # Finalizers hold the remaining objects.
        kept = [finalizer for finalizer in finalizers if finalizer != CUSTOM_OBJECTS_FINALIZER]
        change = {"metadata": {"finalizers": kept, "resourceVersion": _version(definition)}}
        subject, why = Subject(DEFINITIONS, "", name, uid_of(definition)), "no object of the kind is left"
        await self._writer.write(
            "PATCH",
            f"{PATH}/{name}",
            subject,
            cause=cause,
            why=why,
            body=change,
            content_type=MERGE_PATCH,
        )
        return False

    async def _delete(self, resource: str, obj: Obj, cause: WakeCause) -> None:
        """By its UID: another server may be done with this definition, and somebody may have made another one
        of its name, with objects of the same names."""
        path = self._resources.path(resource, *key_of(obj))
        if path is None or is_deleting(obj):
            return
        subject, why = Subject(resource, *key_of(obj), uid_of(obj)), "its kind is being deleted"
        options = {"preconditions": {"uid": uid_of(obj)}}
        with ignored(404, 409):  # It is gone, or another object has its name.
            await self._writer.write("DELETE", path, subject, cause=cause, why=why, body=options)


def _version(obj: Obj) -> str:
    return str(metadata(obj)["resourceVersion"])
