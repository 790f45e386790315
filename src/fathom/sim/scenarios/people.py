"""People with accounts of their own: each has a client, and the rights that roles give, and no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Outcome, Unknown
from fathom.model.objects import Obj
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.world.world import World

ROLES = Resource(RBAC_GROUP, "v1", "roles")
ROLE_BINDINGS = Resource(RBAC_GROUP, "v1", "rolebindings")
CLUSTER_ROLES = Resource(RBAC_GROUP, "v1", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(RBAC_GROUP, "v1", "clusterrolebindings", namespaced=False)
AGAIN_S = 1.0
ANSWERED_S = 120.0  # Longer than any request takes, also with faults.

T = TypeVar("T")


class ClientDied(Exception):
    """The person's client died before it had an answer: whether the request was carried out is unknown."""


class Person:
    """Does what the scenario asks, from a process of their own: faults may hit it like any other."""

    def __init__(self, world: World, name: str, *, server: int = 1, account: User | None = None) -> None:
        """`account`: whose rights they have, where it is not a user of that name."""
        self._world = world
        self._inside: Inside | None = None
        self.name = name
        self._process = world.process(name, self._arrive, server=server, account=account or User(name))

    def _arrive(self, inside: Inside) -> None:
        self._inside = inside

    async def does(self, work: Callable[[Api], Awaitable[T]]) -> T:
        """Run the work with the person's own client, and return or raise what came of it."""
        results: list[Any] = []
        await self._world.until(
            lambda: self._process.alive and self._inside is not None,
            within_s=ANSWERED_S,
            what=f"{self.name} is there",
        )
        incarnation = self._process.incarnation
        self._process.call(0, self._begin, work, results)
        await self._world.until(
            lambda: bool(results) or self._process.incarnation != incarnation,
            within_s=ANSWERED_S,
            what=f"{self.name} has an answer",
        )
        if not results:
            raise ClientDied
        if isinstance(results[0], Exception):
            raise results[0]
        return results[0]  # type: ignore[no-any-return]  # what `work` returned

    async def asks(self, work: Callable[[Api], Awaitable[Outcome]]) -> Outcome:
        """As `does`, for a client that may die."""
        try:
            return await self.does(work)
        except ClientDied:
            return Unknown("the client died")

    async def insists(self, work: Callable[[Api], Awaitable[Outcome]]) -> Outcome:
        """As `does`, again and again while the outcome is unknown. A create that was carried out is refused
        as a conflict then."""
        while True:
            outcome = await self.asks(work)
            if not isinstance(outcome, Unknown):
                return outcome
            await self._world.sleep(AGAIN_S)

    def leaves(self) -> None:
        """Walks away, and does nothing any more."""
        self._world.kill(self.name)

    def _begin(self, work: Callable[[Api], Awaitable[T]], results: list[Any]) -> None:
        assert self._inside is not None
        api = Api(self._inside.seam, headers=(("user-agent", "kubectl"),))

        async def answer() -> None:
            try:
                results.append(await work(api))
            except Exception as error:
                results.append(error)

        self._inside.domain.create_task(answer(), name=self.name)


async def bind_role(world: World, role: str, *names: str, namespace: str = "default") -> None:
    """Let these people have a ClusterRole in the namespace ('': in the cluster)."""
    binding: Obj = {
        "metadata": {"name": f"{role}-{'-'.join(names)}"},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": name} for name in names],
    }
    await world.apply(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, binding, namespace or "default")
