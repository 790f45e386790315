"""Deletion of a custom kind: its objects are deleted before its definition."""

from __future__ import annotations

from fathom.controllers.housekeeping.writer import HousekeepingWriter
from fathom.model.cause import WakeCause
from fathom.model.decision import Subject
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Obj, metadata, uid_of
from fathom.model.view import Resources, View
from fathom.model.well_known import CUSTOM_OBJECTS_FINALIZER

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"
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
        for namespace in self._where(name):
            path, why = self._resources.path(name, namespace), "their kind is being deleted"
            if path is not None:
                await self._writer.write("DELETE", path, Subject(name, namespace, ""), cause=cause, why=why)
        if self._where(name):
            return True  # Finalizers hold the remaining objects.
        kept = [finalizer for finalizer in finalizers if finalizer != CUSTOM_OBJECTS_FINALIZER]
        change = {"metadata": {"finalizers": kept, "resourceVersion": _version(definition)}}
        subject, why = Subject(RESOURCE, "", name, uid_of(definition)), "no object of the kind is left"
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

    def _where(self, resource: str) -> list[str]:
        """The namespaces that still hold objects of the kind; [''] for a cluster-scoped one."""
        seen = (metadata(stored.obj).get("namespace") or "" for stored in self._view.list(resource))
        return list(dict.fromkeys(seen))


def _version(obj: Obj) -> str:
    return str(metadata(obj)["resourceVersion"])
