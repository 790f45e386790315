"""A list of a namespace also shows objects of namespaces whose names go on with a hyphen: shop-eu in shop."""

from __future__ import annotations

from fathom.api.resource_cache import ResourceCache
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    ResourceCache.keys,
    'prefix = f"{self.prefix}{namespace}/"',
    'prefix = f"{self.prefix}{namespace}"',
)
