"""Two people steer one workload at the same moment: against each other, or one approves while the other
edits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from fathom.client.api import Api
from fathom.client.outcomes import Committed, Conflict, Outcome, Unknown
from fathom.kinds.steering_limits import LIMITS_KEY
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.objects import Key, Obj, is_deleting, lookup
from fathom.model.resources import DEPLOYMENTS, NODES
from fathom.sim.checkers.approvals import ApprovalsAreInTheAuditLog, OnlyTheApprovedActs
from fathom.sim.checkers.contradictions import NoContradictionInForce
from fathom.sim.scenarios import steering
from fathom.sim.scenarios.people import Person, bind_role
from fathom.sim.scenarios.staff import QUIET_S
from fathom.sim.scenarios.steering import (
    KINDS,
    LIMITS,
    OVERRIDES,
    PROCESSES,
    end_override,
    in_zone,
    override,
    run_cluster,
    status_of,
    workload,
)
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

WEB = "web"
PEOPLE = ("alice", "bob")
# What each of two people wants: only one of them can hold.
WANTED: tuple[tuple[Obj, Obj], ...] = (
    ({"trafficWeights": {"a": 100, "b": 0}}, {"trafficWeights": {"a": 0, "b": 100}}),
    ({"allowReservedCapacityClass": "gold"}, {"allowReservedCapacityClass": "silver"}),
    (
        {"allowReservedCapacityClass": "gold", "reservedReplicas": 1},
        {"allowReservedCapacityClass": "gold", "reservedReplicas": 2},
    ),
)
APART_S = 0.02  # As long as a write takes from its check to the store.
EXACTLY_ONE = "of two contradicting overrides exactly one is refused, naming the other"


def checkers() -> Sequence[Checker]:
    return [*steering.checkers(), NoContradictionInForce()]


@scenario(
    Menu(
        processes=(*PROCESSES, *PEOPLE, *PEOPLE),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        seconds=12,
        most=8,
        without=("refuse",),  # It is the servers' refusals that are judged.
    ),
    servers=2,
    checkers=checkers,
    scale=6,
)
async def conflicting_overrides(world: World) -> None:
    """Two people create overrides that contradict each other at about the same moment, through two API
    servers; or edit or approve two until they do. Exactly one is refused, naming the other, and never are
    both in force."""
    run_cluster(world, servers=2)
    people = await _arrive(world)
    earlier: list[str] = []
    for number in range(world.scale):
        await world.sleep(2 * world.rng.random())
        way = world.rng.choice((_create, _create, _edit, _approve))
        names, both = await way(world, people, number)
        _judge(world, names, both, late=_in_force(world, earlier))
        earlier += names
        for name in earlier:  # A create may arrive long after its round.
            await end_override(world, name)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _arrive(world: World) -> tuple[Person, Person]:
    for name, zone in steering.ZONES.items():
        await world.apply(NODES, in_zone(name, zone))
    await world.apply(DEPLOYMENTS, workload(WEB, 2))
    await bind_role(world, "admin", *PEOPLE)
    await bind_role(world, "cluster-admin", *PEOPLE, namespace="")
    return Person(world, PEOPLE[0], server=1), Person(world, PEOPLE[1], server=2)


Both = tuple[tuple[str, str], tuple[Outcome, Outcome]]


async def _at_once(
    world: World, people: tuple[Person, Person], *works: Callable[[Api], Awaitable[Outcome]]
) -> tuple[Outcome, Outcome]:
    async def later(person: Person, work: Callable[[Api], Awaitable[Outcome]], wait_s: float) -> Outcome:
        await world.sleep(wait_s)
        return await person.asks(work)

    waits = [APART_S * world.rng.random() for _ in people]
    one, other = await asyncio.gather(*(later(*each) for each in zip(people, works, waits, strict=True)))
    return one, other


async def _create(world: World, people: tuple[Person, Person], number: int) -> Both:
    names = (f"mine-{number}", f"theirs-{number}")
    drafts = [
        override(name, changes, target=f"workload/{WEB}", lasts="5m")
        for name, changes in zip(names, world.rng.choice(WANTED), strict=True)
    ]
    works = [lambda api, draft=draft: api.create(OVERRIDES, "default", draft) for draft in drafts]
    return names, await _at_once(world, people, *works)


async def _edit(world: World, people: tuple[Person, Person], number: int) -> Both:
    """Both exist and agree; each is edited into what contradicts the other's edit."""
    names = (f"mine-{number}", f"theirs-{number}")
    wanted = world.rng.choice(WANTED)
    for name in names:
        draft = override(name, {"pauseAutoscaler": True}, target=f"workload/{WEB}", lasts="5m")
        await world.apply(OVERRIDES, draft)
    works = [
        lambda api, name=name, changes=changes: api.patch(
            OVERRIDES, "default", name, {"spec": {"changes": changes}}
        )
        for name, changes in zip(names, wanted, strict=True)
    ]
    return names, await _at_once(world, people, *works)


async def _approve(world: World, people: tuple[Person, Person], number: int) -> Both:
    """Both wait for approval, so neither is in force; each person approves the other's."""
    names = (f"mine-{number}", f"theirs-{number}")
    await need_approvals(world, "on")
    for name, changes in zip(names, WANTED[0], strict=True):
        await world.apply(OVERRIDES, override(name, changes, target=f"workload/{WEB}", lasts="5m"))
    works = [lambda api, name=name: approve(api, name, "default") for name in names]
    both = await _at_once(world, people, *works)
    await need_approvals(world, "off")
    return names, both


async def approve(api: Api, name: str, namespace: str, spec_hash: str = "") -> Outcome:
    decision: Obj = {"approved": True, **({"specHash": spec_hash} if spec_hash else {})}
    return await api.patch(
        OVERRIDES, namespace, name, {"status": {"approval": decision}}, subresource="approval"
    )


async def need_approvals(world: World, word: str) -> None:
    limits = {"metadata": {"name": LIMITS_KEY.name}, "spec": {"approvals": word}}
    await world.apply(LIMITS, limits, LIMITS_KEY.namespace)


def _in_force(world: World, names: Sequence[str]) -> list[str]:
    """Those that nobody has ended: of an earlier round, they were created after its end."""
    overrides = {name: world.get(OVERRIDES.name, Key("default", name)) for name in names}
    return [name for name, obj in overrides.items() if obj is not None and not is_deleting(obj)]


def _judge(
    world: World, names: tuple[str, str], both: tuple[Outcome, Outcome], *, late: Sequence[str]
) -> None:
    """`late`: overrides of earlier rounds that are in force. A refusal may name one of them instead."""
    outcomes = dict(zip(names, both, strict=True))
    in_the_way = [name for name in names if any(_names(outcomes[name], other) for other in late)]
    refused = [
        name
        for name in names
        if name not in in_the_way and not isinstance(outcomes[name], (Committed, Unknown))
    ]
    if len(refused) > 1:
        world.broken(EXACTLY_ONE, f"both were refused: {outcomes}")
    if all(isinstance(each, Committed) for each in both):
        world.broken(EXACTLY_ONE, f"neither was refused: {outcomes}")
    for name, other in (names, names[::-1]):
        if name in refused and isinstance(outcomes[name], Conflict) and not _names(outcomes[name], other):
            world.broken(EXACTLY_ONE, f"{name} was refused, and {other} not named: {outcomes[name]}")
    if in_the_way:
        world.sometimes("a late override was in the way")
    world.sometimes("one was refused" if refused else "an answer was lost")


def _names(outcome: Outcome, other: str) -> bool:
    """Whether it is a refusal because of the other override."""
    if not isinstance(outcome, Conflict) or "Contradiction" not in outcome.causes:
        return False
    return f'override "{other}"' in outcome.why


# An approval that races an edit.


def of_approvals() -> Sequence[Checker]:
    return [*steering.checkers(), OnlyTheApprovedActs(), ApprovalsAreInTheAuditLog()]


@scenario(
    Menu(
        processes=(*PROCESSES, *PEOPLE),
        servers=("api-1", "api-2"),
        kinds=KINDS,
        seconds=40,
        most=6,
        without=("refuse",),
    ),
    servers=2,
    checkers=of_approvals,
    scale=5,
    chronicled=True,
)
async def approval_races_edit(world: World) -> None:
    """One person approves the drain of a zone while its author edits it: nothing is in force, and no pod is
    evicted, by a spec that somebody else has not approved as it is."""
    run_cluster(world, servers=2)
    author, approver = await _arrive(world)
    await need_approvals(world, "on")
    for number in range(world.scale):
        name = f"drain-{number}"
        draft = _drain(name, world.rng.choice(("a", "b")))
        created = await author.asks(_creating(draft))
        await _race(world, author, approver, name)
        if isinstance(created, Committed):
            refused = await author.asks(_approving(name))
            assert not isinstance(refused, Committed), "the author approved the own override"
        await world.sleep(8 * world.rng.random())
        await end_override(world, name, SYSTEM_NAMESPACE)
    await world.heal_and_settle(quiet_s=QUIET_S, within_s=900)


async def _race(world: World, author: Person, approver: Person, name: str) -> None:
    """The approver has read the override as it was, and may say which spec that is."""
    seen = world.get(OVERRIDES.name, Key(SYSTEM_NAMESPACE, name))
    seen_hash = str(lookup(seen, "status", "approval", "specHash") or "")
    says = world.rng.random() < 0.5
    edit = world.rng.choice(({"target": "zone/a"}, {"target": "zone/b"}, {"reason": "another"}))
    before = lookup(seen, "spec") or {}
    edited, approved = await _at_once(
        world,
        (author, approver),
        lambda api: api.patch(OVERRIDES, SYSTEM_NAMESPACE, name, {"spec": edit}),
        lambda api: approve(api, name, SYSTEM_NAMESPACE, seen_hash if says else ""),
    )
    status = status_of(world, name, SYSTEM_NAMESPACE)
    changed = lookup(world.get(OVERRIDES.name, Key(SYSTEM_NAMESPACE, name)), "spec") != before
    if says and changed and lookup(status, "approval", "approved") is True:
        world.broken("an approval is of what was read", f"{name}: {edited}, {approved}, {status}")
    world.sometimes(f"approved after the race: {lookup(status, 'approval', 'approved') is True}")


def _creating(draft: Obj) -> Callable[[Api], Awaitable[Outcome]]:
    return lambda api: api.create(OVERRIDES, SYSTEM_NAMESPACE, draft)


def _approving(name: str) -> Callable[[Api], Awaitable[Outcome]]:
    return lambda api: approve(api, name, SYSTEM_NAMESPACE)


def _drain(name: str, zone: str) -> Obj:
    return override(name, {"drain": True}, target=f"zone/{zone}", lasts="5m")


SCENARIOS: tuple[Scenario, ...] = (conflicting_overrides, approval_races_edit)
