"""Deletion of a custom kind: its objects are deleted before its definition."""

from __future__ import annotations

from fathom.client.local import LocalClient
from fathom.model.errors import ApiError
from fathom.model.objects import Obj, metadata
from fathom.model.view import Resources, View
from fathom.model.well_known import CUSTOM_OBJECTS_FINALIZER

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class DefinitionController:
    def __init__(self, *, client: LocalClient, view: View, resources: Resources) -> None:
        self._client = client
        self._view = view
        self._resources = resources

    async def reconcile(self, name: str) -> bool:
        """Whether to look again soon."""
        try:
            definition = await self._client.call("GET", f"{PATH}/{name}")
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        finalizers = metadata(definition).get("finalizers") or []
        if not metadata(definition).get("deletionTimestamp") or CUSTOM_OBJECTS_FINALIZER not in finalizers:
            return False
        for namespace in self._where(name):
            path = self._resources.path(name, namespace)
            if path is not None:
                await self._client.call("DELETE", path)
        if self._where(name):
            return True  # Finalizers hold the remaining objects.
        kept = [finalizer for finalizer in finalizers if finalizer != CUSTOM_OBJECTS_FINALIZER]
        change = {"metadata": {"finalizers": kept, "resourceVersion": _version(definition)}}
        await self._client.call(
            "PATCH", f"{PATH}/{name}", body=change, content_type="application/merge-patch+json"
        )
        return False

    def _where(self, resource: str) -> list[str]:
        """The namespaces that still hold objects of the kind; [''] for a cluster-scoped one."""
        seen = (metadata(stored.obj).get("namespace") or "" for stored in self._view.list(resource))
        return list(dict.fromkeys(seen))


def _version(obj: Obj) -> str:
    return str(metadata(obj)["resourceVersion"])
