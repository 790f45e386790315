"""Overrides are edited while they are in force: who acknowledges one has the generation that it names, what
it pauses goes on after the end that the server stamped, and only what was approved is in force."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from fathom.client.api import Api, Resource
from fathom.client.outcomes import Conflict, Rejected
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.overrides.acknowledging import Acknowledgements
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.body import decode_json
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, lookup, metadata
from fathom.model.resources import DEPLOYMENTS, NODES, PODS
from fathom.model.user import MASTERS, User
from fathom.model.well_known import POOL_LABEL
from fathom.seams.process import Inside
from fathom.sim.checkers import at_home
from fathom.sim.checkers.overrides import AcknowledgedIsObserved, of_overrides
from fathom.sim.scenarios.overriding import OVERRIDES
from fathom.sim.scenarios.scheduling import node, own, pod
from fathom.sim.scenarios.shared_agent import SharedAgent
from fathom.sim.scenarios.staff import (
    AGENT,
    LEASE,
    MANAGERS,
    OF_WATCHES,
    QUIET_S,
    all_but,
    leads,
    manage,
    until_or_heal,
)
from fathom.sim.scenarios.workloads import deployment
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Finding, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

WEB, REPLICAS = "web", 2
PAUSE = Key("default", "pause")
LASTS_S = 120
EDITED_FOR_S = 40.0
# A new leader has the lease after 4 s, and no process with work left is silent for more than 30 s.
GOES_ON_S = 45.0
GOES_ON = "what an override pauses goes on after its end"


def of_pauses() -> Sequence[Checker]:
    return [*at_home(), AcknowledgedIsObserved()]


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=("/scheduleroverrides", "/deployments"),
        happenings=("handover",),
        seconds=EDITED_FOR_S,
        most=6,
        without=all_but(*OF_WATCHES, "happening", "lose-reply", "crash", "crash-at-write", "stop", "pause"),
    ),
    checkers=of_pauses,
)
async def overrides_are_edited(world: World) -> None:
    """An override that pauses a rollout is edited several times, and all who read it start again while it is
    in force: each acknowledgement is of a generation that its writer has, and the rollout goes on when the
    end that the server stamped has come."""
    manage(world, Deployments, ReplicaSets, Overrides, Acknowledgements, kinds=("/scheduleroverrides",))
    run_controllers(world, AGENT, SharedAgent)
    await world.apply(NODES, node("node-1"))
    await world.apply(DEPLOYMENTS, deployment(WEB, REPLICAS))
    await until_or_heal(world, lambda: _of_tag(world, 1) == REPLICAS, "the workload is ready")
    await world.apply(OVERRIDES, _pausing(0))
    began_s = world.now_s  # Edits of the reason leave its end as it is.
    number = 0
    while world.now_s < began_s + EDITED_FOR_S:
        number += 1
        await world.sleep(6 * world.rng.random())
        await world.apply(OVERRIDES, _pausing(number))
    world.heal()
    await world.until(lambda: _status(world).get("active") is True, within_s=GOES_ON_S, what="it is active")
    await world.apply(DEPLOYMENTS, deployment(WEB, REPLICAS, tag=2))
    await _sleep_until(world, began_s + LASTS_S * (0.5 + 0.3 * world.rng.random()))
    for name in MANAGERS:
        world.stop(name)
    await _sleep_until(world, began_s + LASTS_S + GOES_ON_S)
    if not _of_tag(world, 2):
        world.broken(GOES_ON, f"{WEB} is paused {GOES_ON_S:g} s after {_status(world).get('expiresAt')}")
    await world.heal_and_settle(quiet_s=QUIET_S)


def _pausing(number: int) -> Obj:
    spec = {
        "target": f"deployment/{WEB}",
        "scope": "cluster",
        "reason": f"edit {number}",
        "expiresAfter": f"{LASTS_S}s",
        "changes": {"pauseRollout": True},
    }
    return own("SchedulerOverride", PAUSE.name, spec)


def _status(world: World) -> Obj:
    return lookup(world.get(OVERRIDES.name, PAUSE), "status") or {}


async def _sleep_until(world: World, at_s: float) -> None:
    await world.sleep(max(0.0, at_s - world.now_s))


def _of_tag(world: World, tag: int) -> int:
    pods = [each for each in world.list("pods", "default") if is_active(each) and is_ready(each)]
    return sum(str(each["spec"]["containers"][0]["image"]).endswith(f":{tag}") for each in pods)


# Approval.

AUTHOR, APPROVER = "author", "approver"
SYSTEM, DRAIN, POOL = "fathom-system", "drain", "old"
PLACES = ("node-1", "node-2", "node-3")
LIMITS = Resource("fathom.dev", "v1alpha1", "steeringlimits")
CORDONED_BY = re.compile(rf"override {SYSTEM}/{DRAIN} cordons it")
SEEN_S = 1.0  # A refusal may follow from a view that is a moment old: nothing is committed by it.
ONLY_APPROVED = "only what was approved is in force"


class OnlyApproved(Checker):
    """Knows by itself what was approved: the spec whose hash the approver sent."""

    resources = frozenset({OVERRIDES.name})

    def __init__(self) -> None:
        self._scopes: dict[str, str] = {}  # Hash of a spec -> its scope.
        self._in_force: list[tuple[float, str]] = []  # Since when which scope was approved; '': none.

    def commit(self, change: Seen) -> None:
        approval = lookup(change.new, "status", "approval") or {}
        self._scopes[str(approval.get("specHash"))] = str(lookup(change.new, "spec", "scope") or "")
        sent = _decision(change)
        if approval.get("approved") is True and sent:
            self._in_force.append((change.at_s, self._scopes[sent]))
        elif lookup(change.new, "spec") != lookup(change.old, "spec"):
            self._in_force.append((change.at_s, ""))

    def was_approved(self, node: str, *, since_s: float) -> bool:
        """Whether some spec that cordons the node was approved, and not edited before this time."""
        ends_s = [at_s for at_s, _ in self._in_force[1:]]
        return any(
            scope in {"cluster", f"node/{node}"} and ended_s >= since_s
            for (_, scope), ended_s in zip(self._in_force, [*ends_s, float("inf")], strict=True)
        )


def _decision(change: Seen) -> str:
    """The hash of the spec that a request decides about; '': it decides nothing."""
    ask = change.ask
    if ask is None or not ask.target.partition("?")[0].endswith("/approval"):
        return ""
    body = decode_json(ask.body) if isinstance(ask.body, bytes) else ask.body
    return str(lookup(body, "status", "approval", "specHash") or "")


class Author:
    """Creates the override, and edits its scope for a while."""

    def __init__(self, inside: Inside) -> None:
        self._api, self._rng = Api(inside.seam), inside.outside.rng
        inside.domain.create_task(self._work())

    async def _work(self) -> None:
        number = 0
        while True:
            number += 1
            try:
                spec = _draining(self._rng.choice(("cluster", *(f"node/{name}" for name in PLACES))), number)
                if await self._api.get(OVERRIDES, SYSTEM, DRAIN) is None:
                    await self._api.create(OVERRIDES, SYSTEM, own("SchedulerOverride", DRAIN, spec))
                else:
                    await self._api.patch(OVERRIDES, SYSTEM, DRAIN, {"spec": spec})
            except ApiError:
                pass
            await asyncio.sleep(6 * self._rng.random())


class Approver:
    """Approves what waits, as it was when it was read."""

    def __init__(self, inside: Inside) -> None:
        self._api, self._rng = Api(inside.seam), inside.outside.rng
        inside.domain.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(2 * self._rng.random())
            try:
                override = await self._api.get(OVERRIDES, SYSTEM, DRAIN)
            except ApiError:
                continue
            asked = lookup(override, "status", "approval") or {}
            if asked.get("approved") is None and asked.get("required"):
                await asyncio.sleep(self._rng.choice((0.0, 2.0)) * self._rng.random())
                decision = {"status": {"approval": {"approved": True, "specHash": asked["specHash"]}}}
                await self._api.patch(OVERRIDES, SYSTEM, DRAIN, decision, subresource="approval")


def _draining(scope: str, number: int) -> Obj:
    return {
        "target": f"pool/{POOL}",
        "scope": scope,
        "reason": f"edit {number}",
        "expiresAfter": "1h",
        "changes": {"drain": True},
    }


def of_approvals() -> Sequence[Checker]:
    return [*at_home(), OnlyApproved()]


@scenario(
    Menu(
        processes=(AUTHOR, APPROVER),
        kinds=("/scheduleroverrides",),
        seconds=EDITED_FOR_S,
        most=6,
        without=all_but("slow-request", "slow-reply", "lose-request", "lose-reply", "crash", "pause"),
    ),
    checkers=of_approvals,
)
async def approved_and_edited(world: World) -> None:
    """One person edits an override that drains nodes, another one approves it: pods are kept off the nodes
    that an approved spec names, and off no other."""
    for name in PLACES:
        machine = node(name, more={"cpu": "64"})
        machine["metadata"]["labels"][POOL_LABEL] = POOL
        await world.apply(NODES, machine)
    await world.apply(LIMITS, own("SteeringLimits", "default", {"approvals": "on"}), SYSTEM)
    for name, person in ((AUTHOR, Author), (APPROVER, Approver)):
        world.process(name, person, account=User(name, (MASTERS,)))
    judge = next(checker for checker in world.checkers if isinstance(checker, OnlyApproved))
    until_s, number = world.now_s + EDITED_FOR_S, 0
    while world.now_s < until_s:
        number += 1
        await world.sleep(world.rng.random())
        await _try(world, judge, f"pod-{number}", world.rng.choice(PLACES))
    world.kill(AUTHOR)
    await world.heal_and_settle(quiet_s=QUIET_S)


async def _try(world: World, judge: OnlyApproved, name: str, where: str) -> None:
    """Somebody creates a pod on a node."""
    asked_s, obj = world.now_s, pod(name)
    obj["spec"]["nodeName"] = where
    outcome = await world.api.create(PODS, "default", obj)
    message = outcome.why if isinstance(outcome, Conflict) else getattr(outcome, "message", "")
    refused = isinstance(outcome, (Conflict, Rejected)) and CORDONED_BY.search(message)
    world.sometimes(f"a pod was {'refused' if refused else 'accepted'}")
    if refused and not judge.was_approved(where, since_s=asked_s - SEEN_S):
        world.broken(ONLY_APPROVED, f"{name} was kept off {where} by a spec that nobody approved")


# Leaders.


class ObservedByWhoLeads(Checker):
    """At rest: an override in force was acknowledged in the present term of each lease, and says so."""

    name = "an override in force is observed by the process that leads"
    patience_s = 60.0

    def settled(self, world: World) -> Iterable[str | Finding]:
        status = _status(world)
        epochs = {
            int(lookup(fence, "epoch") or 0)
            for fence in world.list("fences.fathom.dev")
            if metadata(fence)["name"] == LEASE.partition("/")[2]
        }
        if status.get("active") is not True:
            yield f"the override is not active: {status.get('conditions')}"
        for entry in status.get("acknowledgements") or ():
            if epochs and entry.get("epoch") and entry["epoch"] not in epochs:
                yield f"{entry['controller']} acknowledged it in epoch {entry['epoch']}, now is {epochs}"


@scenario(
    Menu(
        processes=MANAGERS,
        kinds=("/scheduleroverrides", "/deployments"),
        happenings=("handover", "lose-lease"),
        seconds=EDITED_FOR_S,
        most=4,
        without=all_but("happening", "crash", "stop", "hold-watch"),
    ),
    checkers=lambda: [*at_home(), AcknowledgedIsObserved(), ObservedByWhoLeads()],
)
async def observed_by_each_leader(world: World) -> None:
    """An override stays in force while one leader follows another: each acknowledges it for its own term, and
    it counts as observed only then."""
    manage(world, Deployments, ReplicaSets, Overrides, Acknowledgements, kinds=("/scheduleroverrides",))
    run_controllers(world, AGENT, SharedAgent)
    await world.apply(NODES, node("node-1"))
    await world.apply(DEPLOYMENTS, deployment(WEB, REPLICAS))
    lasting = _pausing(0)
    lasting["spec"]["expiresAfter"] = "1h"
    await world.apply(OVERRIDES, lasting)
    await world.sleep(EDITED_FOR_S)
    for name in MANAGERS:
        if leads(world, name):
            world.crash(name, restart_after_s=8.0)
    await world.sleep(10)
    await world.heal_and_settle(quiet_s=QUIET_S)


@scenario(
    Menu(processes=MANAGERS, seconds=20, most=1, without=all_but("slow-reply")),
    checkers=lambda: [*at_home(), *of_overrides()],
    timed=True,
)
async def acknowledged_after_the_pass(world: World) -> None:
    """A rollout takes a step that hangs on its way to the server when an override pauses it: nobody
    acknowledges the override before that step is through."""
    manage(world, Deployments, ReplicaSets, Overrides, Acknowledgements, kinds=("/scheduleroverrides",))
    run_controllers(world, AGENT, SharedAgent)
    await world.apply(NODES, node("node-1"))
    for tag in range(1, 5):
        async with world.held("/replicasets"):
            await world.apply(DEPLOYMENTS, deployment(WEB, REPLICAS, tag=tag))
            await world.sleep(1.5)
            await world.apply(OVERRIDES, _pausing(tag))
            await world.sleep(4)
        await world.sleep(4)
        await world.delete(OVERRIDES, PAUSE.name)
        await world.sleep(6)
    await world.heal_and_settle(quiet_s=QUIET_S)


SCENARIOS: tuple[Scenario, ...] = (
    overrides_are_edited,
    approved_and_edited,
    observed_by_each_leader,
    acknowledged_after_the_pass,
)
