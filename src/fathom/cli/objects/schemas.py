"""How the lists of a kind merge, as the server publishes it in its OpenAPI documents."""

from __future__ import annotations

from typing import Any

from fathom.cli.api_server import ServerConnection
from fathom.cli.objects.resources import Resource
from fathom.kube.patch.schema import PatchSchema, patch_schema


class PatchSchemas:
    """Of one server; each document is read once."""

    def __init__(self, server: ServerConnection) -> None:
        self._server = server
        self._definitions: dict[str, dict[str, Any]] = {}  # Path of the group -> its definitions.

    def of(self, resource: Resource) -> PatchSchema | None:
        """None for a kind of which the server publishes none."""
        group = f"/openapi/v3/{'apis/' if resource.group else 'api/'}{resource.api_version}"
        if group not in self._definitions:
            status, answer = self._server.request("GET", group)
            components = answer.get("components") or {} if status == 200 else {}
            self._definitions[group] = components.get("schemas") or {}
        wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        for name, definition in self._definitions[group].items():
            if wanted in definition.get("x-kubernetes-group-version-kind", ()):
                return patch_schema(self._definitions[group], name)
        return None
