"""POST: a new object."""

from __future__ import annotations

from fathom.api import response_forms
from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.writing import Written
from fathom.api.writing import create as create_object


async def create(core: Core, call: Call) -> Response:
    written = await create_object(
        core, call, bodies.decode(core, call), again=lambda: bodies.decode(core, call)
    )
    return answer(core, call, written, status=201)


def answer(core: Core, call: Call, written: Written, *, status: int = 200) -> Response:
    """The answer to a write: the object as stored, or as a dry run would have stored it."""
    now_ns = core.outside.clock.now_ns()
    if written.entry is not None:
        return response_forms.one(call.kind, written.entry, call.form, now_ns=now_ns, status=status)
    obj = response_forms.as_kind(call.kind, written.obj)
    return response_forms.unstored(call.kind, obj, call.form, now_ns=now_ns, status=status)
