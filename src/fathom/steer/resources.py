"""Finds the API resource of a kind by discovery, once for each group and version."""

from __future__ import annotations

from fathom.client.api import Api, Resource
from fathom.kinds.shape import API_VERSION, ObjectRef
from fathom.model.errors import ApiError


class NoSuchKind(Exception):
    """The server does not have the kind; the message is one line."""


class Resources:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, dict[str, Resource]] = {}  # apiVersion -> kind -> resource.

    async def of(self, api_version: str, kind: str) -> Resource:
        """Raises NoSuchKind; ApiError where the server cannot be asked."""
        version = api_version or API_VERSION
        if version not in self._known:
            self._known[version] = await self._discovered(version)
        resource = self._known[version].get(kind)
        if resource is None:
            raise NoSuchKind(f"the server has no {kind} in {version}")
        return resource

    async def of_ref(self, ref: ObjectRef) -> Resource:
        return await self.of(ref.api_version, ref.kind)

    async def _discovered(self, api_version: str) -> dict[str, Resource]:
        group, slash, version = api_version.rpartition("/")
        try:
            listed = await self._api.resources(group if slash else "", version)
        except ApiError as error:
            if error.code == 404:
                return {}
            raise
        return {
            str(entry.get("kind")): Resource(
                group if slash else "", version, str(entry.get("name")), bool(entry.get("namespaced"))
            )
            for entry in listed
            if "/" not in str(entry.get("name"))
        }
