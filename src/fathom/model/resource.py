"""The API paths of a kind's objects. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

# Nearly all names match this, and need no quoting.
_is_plain = re.compile(r"[A-Za-z0-9._~-]+").fullmatch


class Resource(msgspec.Struct, frozen=True):
    """A kind's group, version and plural: all that is needed to make paths."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace if _is_plain(namespace) else quote(namespace, safe='')}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name if _is_plain(name) else quote(name, safe=':')}"
        return f"{path}/{subresource}" if subresource else path

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural
