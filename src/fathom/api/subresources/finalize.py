"""`namespaces/finalize`: the namespace controller reports that the namespace is empty."""

from __future__ import annotations

from fathom.api.core import Call, Core
from fathom.api.request import Response
from fathom.api.verbs import bodies
from fathom.api.verbs.create import answer
from fathom.api.writing import update
from fathom.model.objects import Obj, lookup, metadata


async def finalize(core: Core, call: Call) -> Response:
    wanted = bodies.decode(core, call)

    def finalized(namespace: Obj) -> Obj:
        spec = {**(namespace.get("spec") or {}), "finalizers": lookup(wanted, "spec", "finalizers") or []}
        named = {field: metadata(wanted).get(field) for field in ("uid", "resourceVersion")}
        meta = {**metadata(namespace), **named}
        return {**namespace, "metadata": meta, "spec": spec}

    return answer(core, call, await update(core, call, finalized, subresource="finalize"))
