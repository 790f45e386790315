"""Requests of a scenario itself, sent until they have happened. No fault touches the scenario, but servers
die and commits are lost: one request that a story depends on may come to nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fathom.client.api import Resource
from fathom.client.outcomes import Committed, Outcome, Unknown
from fathom.model.objects import Obj, is_deleting, key_of, uid_of
from fathom.sim.world.world import TRIES_S, World

AGAIN_S = 0.2
ACCEPTED = "the API accepts the scenario's own requests"

Request = Callable[[], Awaitable[Outcome]]  # It may be carried out more than once.


async def until_committed(world: World, request: Request) -> Obj:
    until_s = world.now_s + TRIES_S
    while not isinstance(outcome := await request(), Committed):
        await _again(world, until_s, str(outcome))
    return outcome.obj


async def until_known(world: World, request: Request) -> Outcome:
    """Until a server says that it is committed or refused."""
    until_s = world.now_s + TRIES_S
    while isinstance(outcome := await request(), Unknown):
        await _again(world, until_s, str(outcome))
    return outcome


async def begin_deletion(world: World, resource: Resource, obj: Obj, *, grace_s: int | None = None) -> None:
    """Delete the object: in the end it is gone, or marked as deleted if its grace period or finalizers hold
    it."""
    key, uid, until_s = key_of(obj), uid_of(obj), world.now_s + TRIES_S
    while (current := world.get(resource.name, key)) is not None and uid_of(current) == uid:
        if is_deleting(current):
            return
        outcome = await world.api.delete(resource, key.namespace, key.name, uid=uid, grace_s=grace_s)
        if isinstance(outcome, Committed):
            return
        await _again(world, until_s, str(outcome))


async def _again(world: World, until_s: float, outcome: str) -> None:
    if world.now_s > until_s:
        world.broken(ACCEPTED, outcome)
    await world.sleep(AGAIN_S)
