"""Roles and bindings come, change, go and come back under the same names, while servers lag, crash and lose
parts of the history: what people may do follows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from fathom.client.api import Api, Resource
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, metadata, uid_of
from fathom.model.resource_names import RBAC_GROUP
from fathom.model.resources import NAMESPACES
from fathom.model.user import User
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.basics import CONFIG_MAPS
from fathom.sim.scenarios.people import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    ClientDied,
    Person,
)
from fathom.sim.scenarios.reading import CUT_S, forget
from fathom.sim.scenarios.staff import OF_HISTORY, all_but, move
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)
SERVERS = ("api-1", "api-2")
SPACES = ("default", "default-2")
# The accounts of people: a user, a member of a group, a service account.
ACCOUNTS = {
    "ann": User("ann"),
    "joe": User("joe", ("auditors",)),
    "robot": User("system:serviceaccount:default:robot"),
}
SUBJECTS: tuple[Obj, ...] = (
    {"kind": "User", "name": "ann", "apiGroup": RBAC_GROUP},
    {"kind": "User", "name": "joe", "apiGroup": RBAC_GROUP},
    {"kind": "Group", "name": "auditors", "apiGroup": RBAC_GROUP},
    {"kind": "Group", "name": "system:authenticated", "apiGroup": RBAC_GROUP},
    {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
)
VERBS = ("get", "list", "create", "update", "patch", "delete")
WHAT = (("", "configmaps"), ("", "secrets"), ("apps", "deployments"), ("apps", "deployments/scale"))
NAMES = ("red", "blue")
BOUND, SUM = ("reads", "writes"), "sum"
PARTS = ("all", "few", "none")
OURS = (*BOUND, SUM, "part-", "role-", "clusterrole-")
SETTLE_S = 3.0
QUESTIONS = tuple(
    {"verb": verb, "group": group, "resource": resource, "namespace": space, "name": name}
    for verb in VERBS
    for group, resource in WHAT
    for space in SPACES
    for name in ("", *NAMES)
)
# Questions of one person to one server: those that are asked again and again, and those at rest.
FEW, MANY = 10, 40


def checkers() -> Sequence[Checker]:
    return at_home()


@scenario(
    Menu(
        processes=tuple(ACCOUNTS),
        servers=SERVERS,
        kinds=("/roles", "/rolebindings", "/clusterroles", "/clusterrolebindings"),
        happenings=("forget",),
        seconds=12,
        most=6,
        without=all_but(*OF_HISTORY, "slow-request", "happening"),
    ),
    servers=2,
    checkers=checkers,
    scale=24,
)
async def roles_come_and_go(world: World) -> None:
    """Roles, aggregated ones among them, and bindings are made, edited, deleted and made again, while people
    ask what they may do, and do it: the answers are those that the roles give, at every server, and at rest
    without any delay."""
    world.happening("forget", lambda: forget(world))
    await world.apply(NAMESPACES, {"metadata": {"name": SPACES[1]}})
    people = [
        Person(world, name, server=1 + number % 2, account=account)
        for number, (name, account) in enumerate(ACCOUNTS.items())
    ]
    # Most changes are of one sort, so that no other hides what one has left.
    for kind in CHANGES[:3]:
        await kind(world)
    for _ in range(4):
        await _bind(world)
    changes = (*CHANGES, *3 * (world.rng.choice(CHANGES),))
    again = world.rng.sample(QUESTIONS, FEW)
    for turn in range(world.scale):
        await world.rng.choice(changes)(world)
        if turn % 4 == 2:
            await _delete_in_a_gap(world)
        await asyncio.gather(*(_asks(world, person, again) for person in people))
        if world.rng.random() < 0.2:
            move(world, (world.rng.choice(people).name,))
    for _ in range(2):
        world.heal()
        await world.sleep(SETTLE_S)
        for person in people:
            for _ in SERVERS:
                await person.does(_reviews_of([*again, *world.rng.sample(QUESTIONS, MANY)]))
                move(world, (person.name,))
        await _remove(world)
        await _delete_in_a_gap(world)
    await world.heal_and_settle(quiet_s=5)


async def _write_role(world: World) -> None:
    """With other rules than before."""
    role = {"metadata": {"name": world.rng.choice(BOUND)}, "rules": _rules(world)}
    await world.apply(ROLES, role, world.rng.choice(SPACES))


async def _write_cluster_role(world: World) -> None:
    role = {"metadata": {"name": world.rng.choice(BOUND)}, "rules": _rules(world)}
    await world.apply(CLUSTER_ROLES, role)


async def _write_aggregated_role(world: World) -> None:
    """One that is the sum of others, or one of these, which may no longer be meant."""
    rng = world.rng
    if rng.random() < 0.3:
        parts = [{"matchLabels": {"part-of": part}} for part in rng.sample(PARTS, rng.randrange(1, 3))]
        sum_of = {"metadata": {"name": SUM}, "aggregationRule": {"clusterRoleSelectors": parts}}
        await world.apply(CLUSTER_ROLES, {**sum_of, "rules": _rules(world)})  # Which do not count.
    else:
        meta = {"name": f"part-{rng.randrange(3)}", "labels": {"part-of": rng.choice(PARTS)}}
        await world.apply(CLUSTER_ROLES, {"metadata": meta, "rules": _rules(world)})


def _rules(world: World) -> list[Obj]:
    rng = world.rng
    rules: list[Obj] = []
    for _ in range(rng.randrange(1, 4)):
        verbs = rng.sample((*VERBS, "*"), rng.randrange(1, 4))
        group, resource = rng.choice((*WHAT, ("apps", "*/scale"), ("*", "*")))
        rule: Obj = {"verbs": verbs, "apiGroups": [group], "resources": [resource]}
        rules.append(rule | ({"resourceNames": [rng.choice(NAMES)]} if rng.random() < 0.3 else {}))
    return rules


async def _bind(world: World) -> None:
    """A binding of one or two subjects. Its name says what it refers to, which cannot be changed."""
    rng = world.rng
    in_space = rng.random() < 0.7
    kind = "Role" if in_space and rng.random() < 0.6 else "ClusterRole"
    role = rng.choice(BOUND if kind == "Role" else (*BOUND, SUM))
    binding: Obj = {
        "metadata": {"name": f"{kind.lower()}-{role}"},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": role},
        "subjects": rng.sample(SUBJECTS, rng.randrange(1, 3)),
    }
    resource = ROLE_BINDINGS if in_space else CLUSTER_ROLE_BINDINGS
    await world.apply(resource, binding, rng.choice(SPACES))


async def _remove(world: World) -> None:
    """Delete a role or a binding of this scenario; the next one may get its name."""
    resource = world.rng.choice((ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS))
    ours = [obj for obj in world.list(resource.name) if metadata(obj)["name"].startswith(OURS)]
    if ours:
        obj = world.rng.choice(ours)
        meta = metadata(obj)
        await world.api.delete(resource, meta.get("namespace") or "", meta["name"], uid=uid_of(obj))


CHANGES = (_write_role, _write_cluster_role, _write_aggregated_role, _bind, _remove)


async def _delete_in_a_gap(world: World) -> None:
    """A server loses its connection to the store, and what it misses is compacted before it is back: it has
    to read everything again, and nothing tells what was deleted."""
    whose = world.rng.choice(SERVERS)
    for link in world.engine.store.links:
        if link.server == whose:
            link.lose_watches()
    await _remove(world)
    await world.sleep(CUT_S)
    world.engine.store.compact_now()


async def _asks(world: World, person: Person, again: Sequence[Obj]) -> None:
    with suppress(ClientDied):
        await person.does(_reviews_of(again) if world.rng.random() < 0.7 else _request_of(world))


def _reviews_of(asked: Sequence[Obj]) -> Callable[[Api], Awaitable[object]]:
    """Ask whether they may do these things."""

    async def reviewed(api: Api) -> object:
        outcome: object = None
        for question in asked:
            resource, _, part = question["resource"].partition("/")
            about = {**question, "resource": resource, "subresource": part}
            outcome = await api.create(REVIEWS, "", {"spec": {"resourceAttributes": about}})
        return outcome

    return reviewed


def _request_of(world: World) -> Callable[[Api], Awaitable[object]]:
    """Do something with a config map, or try to."""
    rng = world.rng
    space, name, verb = rng.choice(SPACES), rng.choice(NAMES), rng.choice(VERBS)
    present = world.get(CONFIG_MAPS.name, Key(space, name))
    config = {"metadata": {"name": name}, "data": {"n": str(rng.randrange(100))}}

    async def requested(api: Api) -> object:
        match verb:
            case "get" | "list":
                try:
                    one = verb == "get"
                    return await (
                        api.get(CONFIG_MAPS, space, name) if one else api.list_page(CONFIG_MAPS, space)
                    )
                except ApiError as error:
                    return error.code
            case "create":
                return await api.create(CONFIG_MAPS, space, config)
            case "update":
                return await api.update(CONFIG_MAPS, space, config)
            case "patch":
                return await api.patch(CONFIG_MAPS, space, name, config)
            case _:
                return await api.delete(CONFIG_MAPS, space, name, uid=uid_of(present) if present else "x")

    return requested


SCENARIOS: tuple[Scenario, ...] = (roles_come_and_go,)
