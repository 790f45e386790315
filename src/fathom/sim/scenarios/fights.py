"""Fights and oscillation, which the detector names; and a busy cluster, where it names nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fathom.client.api import Api, Resource
from fathom.control.kit import Kit
from fathom.control.watches import CONFIG_MAP, NODE, SERVICE
from fathom.controllers.autoscaler.controller import Autoscalers
from fathom.controllers.autoscaler.samples import PodSample
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.explain.coupling.fight_texts import REASONS
from fathom.explain.coupling.recreations import SAME_NAME, SAME_OWNER
from fathom.kube.definitions.own import OWN_KINDS
from fathom.model import accounts
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup, metadata, uid_of
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, RESOURCE_QUOTAS
from fathom.model.user import User
from fathom.seams.process import Inside
from fathom.sim.checkers import at_home
from fathom.sim.checkers.fights import EVENTS, FightsAreWatched, NoFightIsNamed
from fathom.sim.scenarios import real
from fathom.sim.scenarios.loads import ASKED, HIGH, LOW
from fathom.sim.scenarios.serving import service
from fathom.sim.scenarios.simulated_nodes import NodeTroubles, SimulatedNodesWith
from fathom.sim.scenarios.staff import AGENT, TIMING, all_but
from fathom.sim.scenarios.workloads import autoscaler, deployment
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

NAMED_WITHIN_S = 60.0
OVER_WITHIN_S = 120.0
RIVALS = ("rival-1", "rival-2")
SIGNALS = next(kind.resource for kind in OWN_KINDS if kind.kind == "ComponentSignals")

# Resource, object, field, and what each of two rivals wants it to be, as a merge patch.
Contest = tuple[Resource, str, str, tuple[Obj, Obj]]
CONTESTS: tuple[Contest, ...] = (
    (DEPLOYMENTS, "web", "spec.replicas", ({"spec": {"replicas": 2}}, {"spec": {"replicas": 4}})),
    (
        DEPLOYMENTS,
        "web",
        "metadata.labels[team]",
        ({"metadata": {"labels": {"team": "a"}}}, {"metadata": {"labels": {"team": "b"}}}),
    ),
    (
        DEPLOYMENTS,
        "web",
        "metadata.annotations[owner]",
        ({"metadata": {"annotations": {"owner": "a"}}}, {"metadata": {"annotations": {"owner": None}}}),
    ),
    (CONFIG_MAP.resource, "settings", "data[mode]", ({"data": {"mode": "x"}}, {"data": {"mode": "y"}})),
    (
        SERVICE.resource,
        "web",
        "spec.selector.app",
        ({"spec": {"selector": {"app": "web"}}}, {"spec": {"selector": {"app": "other"}}}),
    ),
    (
        NODE.resource,
        "node-1",
        "spec.unschedulable",
        ({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}),
    ),
)


def rival(resource: Resource, name: str, patch: Obj, period_s: float) -> Callable[[Inside], None]:
    """A process that writes one field again and again, whatever it is."""

    def begin(inside: Inside) -> None:
        api = Api(inside.seam, headers=(("user-agent", "rival/1"),))

        async def write() -> None:
            while True:
                namespace = "default" if resource.namespaced else ""
                await api.patch(resource, namespace, name, patch)
                await asyncio.sleep(period_s)

        inside.domain.create_task(write(), name="rival")

    return begin


def watched() -> Sequence[Checker]:
    return [*at_home(), FightsAreWatched()]


@scenario(Menu(processes=("controllers-1",), most=0), checkers=watched, timed=True)
async def two_writers(world: World) -> None:
    """Two actors write one field back and forth, each its own value, with a period of 1 to 15 seconds: an
    Event names the object, the field, both writers and the period within a minute, or as soon as there may be
    Events again, and a condition says that it goes on, for as long as it does."""
    run_controllers(world, "controllers-1", Deployments, ReplicaSets)
    has_no_room = world.rng.random() < 0.3
    if has_no_room:
        quota = {"metadata": {"name": "no-events"}, "spec": {"hard": {"count/events": "0"}}}
        await world.apply(RESOURCE_QUOTAS, quota)
    await world.apply(DEPLOYMENTS, deployment("web", 2))
    await world.apply(SERVICE.resource, service("web"))
    await world.apply(CONFIG_MAP.resource, {"metadata": {"name": "settings"}, "data": {"mode": "x"}})
    await world.apply(NODE.resource, {"metadata": {"name": "node-1"}, "spec": {}})
    resource, name, field, patches = world.rng.choice(CONTESTS)
    period_s = world.rng.uniform(1.0, 15.0)
    world.process(RIVALS[0], rival(resource, name, patches[0], period_s))
    await world.sleep(period_s * world.rng.uniform(0.2, 0.8))
    world.process(RIVALS[1], rival(resource, name, patches[1], period_s))
    if has_no_room:
        await world.sleep(NAMED_WITHIN_S)
        await world.delete(RESOURCE_QUOTAS, "no-events")
    await world.until(
        lambda: named(world, "TwoWriters", field) is not None,
        within_s=NAMED_WITHIN_S,
        what=f"the fight over {field} every {period_s:.1f} s is named",
    )
    event = named(world, "TwoWriters", field)
    assert event is not None
    assert all(each in event["message"] for each in RIVALS), event["message"]
    assert lookup(event, "involvedObject", "name") == name
    said_s = float(event["message"].rpartition("every ")[2].removesuffix(" s"))
    assert abs(said_s - period_s) < 0.25 * period_s, f"{said_s} s is said, and it is {period_s}"
    await world.until(lambda: condition(world, "TwoWriters") == "True", within_s=10, what="a condition")
    for each in RIVALS:
        world.kill(each)
    await world.until(
        lambda: condition(world, "TwoWriters") == "False", within_s=OVER_WITHIN_S, what="the fight is over"
    )


@scenario(Menu(processes=RIVALS, most=0), servers=2, checkers=watched, timed=True)
async def a_fight_ends_while_its_server_is_down(world: World) -> None:
    """Two actors write one field back and forth, behind one API server or each behind its own. When the fight
    has been reported, servers crash, and the fight ends before they are back, or a while later: in the end no
    condition says that it goes on."""
    await world.apply(DEPLOYMENTS, deployment("web", 2))
    await world.apply(SERVICE.resource, service("web"))
    await world.apply(CONFIG_MAP.resource, {"metadata": {"name": "settings"}, "data": {"mode": "x"}})
    await world.apply(NODE.resource, {"metadata": {"name": "node-1"}, "spec": {}})
    resource, name, field, patches = world.rng.choice(CONTESTS)
    period_s = world.rng.uniform(1.0, 10.0)
    first = world.rng.choice((1, 2))
    second = world.rng.choice((1, 2))
    world.process(RIVALS[0], rival(resource, name, patches[0], period_s), server=first)
    await world.sleep(period_s * world.rng.uniform(0.2, 0.8))
    world.process(RIVALS[1], rival(resource, name, patches[1], period_s), server=second)
    await world.until(
        lambda: "True" in [condition(world, form) for form in REASONS],
        within_s=2 * NAMED_WITHIN_S,
        what=f"the fight over {field} every {period_s:.1f} s is reported",
    )
    await world.sleep(10 * world.rng.random())
    down = world.rng.choice((("api-1",), ("api-2",), ("api-1", "api-2")))
    for server in down:
        world.crash(server, restart_after_s=40 * world.rng.random())
    await world.sleep(world.rng.choice((0, 0, 10, 60)))
    for each in RIVALS:
        world.kill(each)
    await world.sleep(60)
    await world.settle(quiet_s=OVER_WITHIN_S, within_s=900)


class Keeper:
    """Creates an object whenever there is none, every so often."""

    def __init__(self, name: str, meta: Obj, period_s: float) -> None:
        self._name, self._meta, self._period_s = name, meta, period_s

    def __call__(self, inside: Inside) -> None:
        api = Api(inside.seam, headers=(("user-agent", "keeper/1"),))

        async def create() -> None:
            while True:
                if not await maps_of(api, self._name):
                    meta = {**self._meta, "labels": {"kept": self._name}}
                    await api.create(CONFIG_MAP.resource, "default", {"metadata": meta})
                await asyncio.sleep(self._period_s)

        inside.domain.create_task(create(), name="keeper")


class Remover(Keeper):
    """Deletes it whenever there is one."""

    def __call__(self, inside: Inside) -> None:
        api = Api(inside.seam, headers=(("user-agent", "remover/1"),))

        async def delete() -> None:
            while True:
                for obj in await maps_of(api, self._name):
                    await api.delete(CONFIG_MAP.resource, "default", key_of(obj).name, uid=uid_of(obj))
                await asyncio.sleep(self._period_s)

        inside.domain.create_task(delete(), name="remover")


async def maps_of(api: Api, kept: str) -> Sequence[Obj]:
    page = await api.list_page(CONFIG_MAP.resource, "default", labelSelector=f"kept={kept}")
    return page.items


@scenario(Menu(processes=("controllers-1",), most=0), checkers=watched, timed=True)
async def deleted_and_created_in_turn(world: World) -> None:
    """One actor creates an object whenever there is none, another deletes it whenever there is one: with a
    period of 1 to 15 seconds, under one name, a generated name, or with an owner. An Event names both within
    a minute, though each object has another UID."""
    run_controllers(world, "controllers-1", Deployments, ReplicaSets)
    owner = await world.apply(CONFIG_MAP.resource, {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner)}
    meta = world.rng.choice(
        (
            {"name": "settings"},
            {"generateName": "settings-"},
            {"generateName": "settings-", "ownerReferences": [{**reference, "controller": True}]},
        )
    )
    period_s = world.rng.uniform(1.0, 15.0)
    world.process(RIVALS[0], Keeper("settings", meta, period_s))
    await world.sleep(period_s * world.rng.uniform(0.2, 0.8))
    world.process(RIVALS[1], Remover("settings", meta, period_s))
    field = SAME_NAME if "name" in meta else SAME_OWNER
    await world.until(
        lambda: named(world, "TwoWriters", field) is not None,
        within_s=NAMED_WITHIN_S,
        what=f"the fight over the object every {period_s:.1f} s is named",
    )
    event = named(world, "TwoWriters", field)
    assert event is not None
    assert all(each in event["message"] for each in RIVALS), event["message"]
    said_s = float(event["message"].rpartition("every ")[2].removesuffix(" s"))
    assert abs(said_s - period_s) < 0.25 * period_s, f"{said_s} s is said, and it is {period_s}"
    await world.until(lambda: condition(world, "TwoWriters") == "True", within_s=10, what="a condition")
    for each in RIVALS:
        world.kill(each)
    await world.until(
        lambda: condition(world, "TwoWriters") == "False", within_s=OVER_WITHIN_S, what="the fight is over"
    )


class SwingingLoad:
    """Autoscalers whose pods are busy while there are few of them, and idle while there are many: each change
    of the number of replicas brings the next one."""

    name = Autoscalers.name
    watches = Autoscalers.watches
    reads = Autoscalers.reads
    writes = Autoscalers.writes
    event_reports = Autoscalers.event_reports
    few = 3

    def __call__(self, kit: Kit) -> Autoscalers:
        few = self.few

        class Measured(Autoscalers):
            async def _fetch_samples(self, namespace: str) -> tuple[dict[str, PodSample], str]:
                pods = kit.snapshot().list("Pod", namespace)
                measured = [pod for pod in pods if is_active(pod) and is_ready(pod)]
                use = PodSample({"main": {"cpu": HIGH if len(measured) <= few else LOW}})
                return {str(metadata(pod)["name"]): use for pod in measured}, ""

        return Measured(kit)


@scenario(Menu(processes=("controllers-1",), most=0), checkers=watched, timed=True)
async def autoscaler_oscillates(world: World) -> None:
    """An autoscaler without a stabilization window follows a load that its own changes cause: the oscillation
    of `spec.replicas` is named, with the autoscaler as its writer."""
    run_controllers(
        world,
        "controllers-1",
        Deployments,
        ReplicaSets,
        DeploymentProgress,
        SwingingLoad(),
        account=User(accounts.CONTROLLERS),
        lease="fathom-system/controllers",
        timing=TIMING,
    )
    run_controllers(world, AGENT, SimulatedNodesWith(NodeTroubles()))
    web = deployment("web", 2)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": ASKED}}
    await world.apply(DEPLOYMENTS, web)
    scaler = autoscaler("web", 8)
    scaler["spec"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    await world.apply(AUTOSCALERS, scaler)
    await world.until(
        lambda: named(world, "Oscillation", "spec.replicas", kind="Deployment") is not None,
        within_s=240,
        what="the oscillation is named",
    )
    event = named(world, "Oscillation", "spec.replicas", kind="Deployment")
    assert event is not None
    assert "controllers/autoscaling" in event["message"], event["message"]


def quiet() -> Sequence[Checker]:
    return [*real.checkers(), NoFightIsNamed()]


SIZES = (4, 6, 8, 7, 5, 3)
# Leaders come and go: they crash, stop, pause, and lose their connection.
LEADERS_CHANGE = all_but("crash", "stop", "crash-at-write", "stop-at-write", "pause", "partition")


@scenario(
    Menu(processes=real.DECIDERS, kinds=("/pods",), seconds=120, most=6, without=LEADERS_CHANGE),
    checkers=quiet,
    scale=6,
)
async def busy_but_well(world: World) -> None:
    """Workloads are rolled out, rolled back and scaled while leaders change: the detector names nothing."""
    real.run_real_cluster(world, events=True)
    for name, replicas in (("web", 6), ("api", 4)):
        await world.apply(DEPLOYMENTS, real.deployment(name, replicas))
        await world.apply(SERVICE.resource, service(name))
    for step in range(world.scale):
        await world.sleep(10 + 15 * world.rng.random())
        name = world.rng.choice(("web", "api"))
        # A new version, now and then the first one again; and a size that follows the day: up, then down.
        tag = world.rng.choice((1, 1 + step, 2 + step))
        await world.apply(DEPLOYMENTS, real.deployment(name, SIZES[step % len(SIZES)], tag=tag))
    await world.heal_and_settle(quiet_s=90.0, within_s=900)


def named(world: World, form: str, field: str, *, kind: str = "") -> Obj | None:
    """The Event that names a fight over this field."""
    for event in world.list(EVENTS, "default"):
        about = event.get("involvedObject") or {}
        same = event.get("reason") == REASONS[form] and about.get("fieldPath") == field
        if same and kind in {"", about.get("kind")}:
            return event
    return None


def condition(world: World, form: str) -> str:
    """The status of the condition that says whether a fight goes on."""
    signals = world.get(SIGNALS, Key("", "field-fights"))
    ongoing = find_condition(conditions_of(signals or {}), form)
    return "" if ongoing is None else str(ongoing.get("status"))


SCENARIOS: tuple[Scenario, ...] = (
    two_writers,
    a_fight_ends_while_its_server_is_down,
    deleted_and_created_in_turn,
    autoscaler_oscillates,
    busy_but_well,
)
