"""GET one object."""

from __future__ import annotations

from fathom.api import response_forms
from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs.versions import parse_revision
from fathom.model.errors import not_found
from fathom.store.protocol import Entry


async def get(core: Core, call: Call) -> Response:
    entry = await read(core, call)
    return response_forms.one(call.kind, entry, call.form, now_ns=core.outside.clock.now_ns())


async def read(core: Core, call: Call) -> Entry:
    """The newest object, or with `resourceVersion` one that is not older than that."""
    version = call.request.param("resourceVersion") if call.request.query else ""
    key = call.store_key
    if version:
        await core.wait_for(parse_revision(version))
        entry = core.cache.of(call.kind.stored_as or call.kind.resource).entries.get(key)
    else:
        entry = await core.current(key)
    if entry is None:
        raise not_found(call.kind.resource, call.target.name)
    return entry
