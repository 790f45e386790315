"""Requests of a scenario itself, sent until they have happened. No fault touches the scenario, but servers
die and commits are lost: one request that a story depends on may come to nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fathom.client.api import Resource
from fathom.client.outcomes import Committed, Outcome
from fathom.model.objects import Obj, is_deleting, key_of, uid_of
from fathom.sim.world.world import TRIES_S, World

AGAIN_S = 0.2


async def until_committed(world: World, request: Callable[[], Awaitable[Outcome]]) -> Obj:
    """Send a request that may be carried out twice until a server says that it is committed."""
    until_s = world.now_s + TRIES_S
    while not isinstance(outcome := await request(), Committed):
        if world.now_s > until_s:
            world.broken("the API accepts the scenario's own requests", str(outcome))
        await world.sleep(AGAIN_S)
    return outcome.obj


async def begin_deletion(world: World, resource: Resource, obj: Obj) -> None:
    """Delete the object: in the end it is gone, or marked as deleted if finalizers hold it."""
    key, uid = key_of(obj), uid_of(obj)
    until_s = world.now_s + TRIES_S
    while (current := world.get(resource.name, key)) is not None and uid_of(current) == uid:
        if is_deleting(current):
            return
        if world.now_s > until_s:
            world.broken("the API accepts the scenario's own requests", f"delete {resource.name} {key.name}")
        await world.api.delete(resource, key.namespace, key.name, uid=uid)
        await world.sleep(AGAIN_S)
