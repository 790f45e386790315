"""The API paths of a kind's objects. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

# Nearly all names match this, and need no quoting.
_is_plain = re.compile(r"[A-Za-z0-9._~-]+").fullmatch
# HTTP clients and servers take these as steps up a path. No object is called so: quoted twice, none is found.
_STEPS = {".": "%252E", "..": "%252E%252E"}


class Resource(msgspec.Struct, frozen=True):
    """A kind's group, version and plural: all that is needed to make paths."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{_segment(namespace)}"
        path += f"/{self.plural}"
        if name:
            path += f"/{_segment(name)}"
        return f"{path}/{subresource}" if subresource else path

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _segment(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    if name in _STEPS:
        return _STEPS[name]
    return name if _is_plain(name) else quote(name, safe=":")
