"""A late finalize takes the finalizer from the next namespace of that name, whatever UID it was meant for."""

from __future__ import annotations

from fathom.api.subresources.finalize import finalize
from fathom.sim.zoo import rewrite

ROOM = "api"

rewrite(
    finalize,
    '        named = {field: metadata(wanted).get(field) for field in ("uid", "resourceVersion")}\n',
    "",
    "meta = {**metadata(namespace), **named}",
    "meta = {**metadata(namespace)}",
)
