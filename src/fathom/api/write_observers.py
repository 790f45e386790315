"""Tells whoever looks at all writes, such as the detection of fights, what was written."""

from __future__ import annotations

from typing import Any

from fathom.api.core import Call, Core
from fathom.model.accounts import believed_actor
from fathom.model.objects import Obj, metadata
from fathom.model.updates import ObjectLife, ObjectUpdate, UpdateObserver
from fathom.model.well_known import ACTOR_HEADER


def tell_of_update(core: Core, call: Call, changes: list[tuple[str, Any, Any]], *, owned: bool) -> None:
    assert core.updates is not None
    user, headers = call.caller.user, call.request.headers
    core.updates.updated(
        ObjectUpdate(
            resource=call.kind.resource,
            namespace=call.namespace,
            name=call.audit.name,
            uid=call.audit.uid,
            actor=believed_actor(user, headers.get(ACTOR_HEADER, "")),
            user=user.name,
            user_agent=call.caller.user_agent,
            changes=changes,
            owned=owned,
        )
    )


def tell_of_deletion(observer: UpdateObserver, call: Call, obj: Obj) -> None:
    """Once: who ends a deletion that has begun, such as a pod's agent, did not want it."""
    if observer.wants(call.kind.resource) and not metadata(obj).get("deletionTimestamp"):
        observer.deleted(life_of(call, obj))


def life_of(call: Call, obj: Obj) -> ObjectLife:
    meta, user = metadata(obj), call.caller.user
    controllers = [owner["uid"] for owner in meta.get("ownerReferences") or () if owner.get("controller")]
    return ObjectLife(
        resource=call.kind.resource,
        namespace=call.namespace,
        name=meta["name"],
        uid=meta["uid"],
        actor=believed_actor(user, call.request.headers.get(ACTOR_HEADER, "")),
        user=user.name,
        user_agent=call.caller.user_agent,
        owner=controllers[0] if controllers else "",
        generate_name=meta.get("generateName") or "",
    )
