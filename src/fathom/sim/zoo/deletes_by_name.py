"""24. A delete request carries no UID: by the time it arrives, the name may belong to another object."""

from __future__ import annotations

from typing import Any

from fathom.client.api import Api, Resource
from fathom.sim.zoo import put_back

SCENARIOS = ("replicas", "cluster")
BREAKS = "a delete names the object's UID"


async def by_name(
    self: Any, resource: Resource, namespace: str, name: str, *, policy: str = "Background", **more: Any
) -> Any:
    options = {"propagationPolicy": policy}
    if more.get("grace_s") is not None:
        options["gracePeriodSeconds"] = more["grace_s"]
    return await self._write("DELETE", resource.path(namespace, name), options)


put_back(Api, "delete", by_name)
