"""Runs the forks: one future without what is tried and one with it, for each seed, until after its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Conflict, Outcome, Rejected
from fathom.kinds.preview_answer import Outcome as PreviewOutcome
from fathom.kinds.preview_answer import Refusal
from fathom.model.objects import Key, Obj, lookup, metadata, uid_of
from fathom.model.resource import Resource
from fathom.model.user import MASTERS, User
from fathom.seams.process import Inside
from fathom.sim.fork import ForkFailed, end, fork, run_for
from fathom.sim.fork_state import ClusterState
from fathom.sim.preview.counting import FutureWatch, IsTarget, Place
from fathom.sim.world.world import World

T = TypeVar("T")

# Virtual time for one request.
REQUEST_S = 60.0
APPROVER = User("preview-approver", (MASTERS,))
AS_IF_APPROVED = "It needs an approval, and was tried as if somebody had approved it."


class Attempt(Protocol):
    """What is tried in one of two futures."""

    def begin(self, world: World) -> Refusal | tuple[str, ...]:
        """Virtual time may pass. The answer: what was assumed."""
        ...

    def status(self, world: World) -> Obj:
        """Of the object that is tried; empty where there is none."""
        ...


class TriedObject(msgspec.Struct, frozen=True):
    """The object that is tried, and who creates it."""

    resource: Resource
    obj: Obj
    user: User

    def begin(self, world: World) -> Refusal | tuple[str, ...]:
        created = _make(world, self)
        return created if isinstance(created, Refusal) else _approve(world, self, created)

    def status(self, world: World) -> Obj:
        obj = world.get(self.resource.name, self.key)
        status: Obj = (obj or {}).get("status") or {}
        return status

    @property
    def key(self) -> Key:
        meta = metadata(self.obj)
        return Key(str(meta.get("namespace") or ""), str(meta.get("name") or ""))


class Future(msgspec.Struct, frozen=True, kw_only=True):
    now: PreviewOutcome
    then: PreviewOutcome | None = None  # None: the attempt was refused.
    after_the_end: PreviewOutcome | None = None
    status: Obj = {}  # Of the object when it was counted.
    status_after: Obj = {}
    touched: tuple[Place, ...] = ()
    refused: Refusal | None = None
    notes: tuple[str, ...] = ()


class Moments(msgspec.Struct, frozen=True):
    """When outcomes are counted, in seconds of virtual time since the beginning."""

    then_s: float
    after_s: float


def future(
    state: ClusterState, seed: str, moments: Moments, is_target: IsTarget, tried: Attempt | None
) -> Future:
    """One fork, from beginning to end. Raises ForkFailed."""
    world = fork(state, seed)
    try:
        watch = FutureWatch(world, is_target)
        now = watch.outcome(seed)
        notes: tuple[str, ...] = ()
        if tried is not None:
            begun = tried.begin(world)
            if isinstance(begun, Refusal):
                return Future(now=now, refused=begun)
            notes = begun
        run_for(world, moments.then_s - world.now_s)
        then, status = watch.outcome(seed), tried.status(world) if tried is not None else {}
        run_for(world, moments.after_s - world.now_s)
        return Future(
            now=now,
            then=then,
            after_the_end=watch.outcome(seed),
            status=status,
            status_after=tried.status(world) if tried is not None else {},
            touched=tuple(watch.touched),
            notes=notes,
        )
    finally:
        end(world)


def perform_as(world: World, user: User, name: str, work: Callable[[Api], Awaitable[T]]) -> T:
    """Run a coroutine in a process of its own that has the user's rights; virtual time passes until it has
    ended. Raises what it raises."""
    results: list[T] = []
    errors: list[BaseException] = []

    def begin(inside: Inside) -> None:
        async def run() -> None:
            try:
                results.append(await work(Api(inside.seam)))
            except Exception as error:
                errors.append(error)
            world.engine.halt()

        asyncio.get_running_loop().create_task(run())

    world.process(name, begin, account=user)
    run_for(world, REQUEST_S)
    if errors:
        raise errors[0]
    if not results:
        raise ForkFailed(f"the API server of the fork did not answer within {REQUEST_S:g} s of virtual time")
    return results[0]


def _make(world: World, tried: TriedObject) -> Obj | Refusal:
    """Create the object; one that exists gets this spec."""
    key = tried.key
    exists = world.get(tried.resource.name, key) is not None

    async def write(api: Api) -> Outcome:
        if exists:
            return await api.patch(tried.resource, key.namespace, key.name, {"spec": tried.obj.get("spec")})
        return await api.create(tried.resource, key.namespace, tried.obj)

    outcome = perform_as(world, tried.user, "preview-author", write)
    if isinstance(outcome, Committed):
        return outcome.obj
    if isinstance(outcome, Rejected):
        return Refusal(outcome.code, outcome.reason, outcome.message)
    if isinstance(outcome, Conflict):
        return Refusal(409, "Conflict", outcome.why)
    raise ForkFailed(f"the API server of the fork did not say whether it stored the object: {outcome.cause}")


def _approve(world: World, tried: TriedObject, created: Obj) -> tuple[str, ...]:
    """What waits for an approval does nothing before it."""
    approval = lookup(created, "status", "approval") or {}
    if not approval.get("required") or approval.get("approved"):
        return ()
    outcome = perform_as(world, APPROVER, APPROVER.name, lambda api: approve(api, tried.resource, created))
    if isinstance(outcome, Committed):
        return (AS_IF_APPROVED,)
    why = outcome.message if isinstance(outcome, Rejected) else "the outcome is not known"
    return (f"It needs an approval, which the fork did not get ({why}): here it does nothing.",)


async def approve(api: Api, resource: Resource, obj: Obj) -> Outcome:
    meta = metadata(obj)
    decision = {"metadata": {"uid": uid_of(obj)}, "status": {"approval": {"approved": True}}}
    namespace, name = str(meta.get("namespace") or ""), str(meta["name"])
    return await api.patch(resource, namespace, name, decision, subresource="approval")
