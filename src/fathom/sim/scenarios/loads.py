"""An autoscaler and its metrics: high, low, missing, or of some pods only."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.control.kit import Kit
from fathom.controllers.autoscaler.controller import Autoscalers
from fathom.controllers.autoscaler.samples import PodSample
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, lookup, metadata
from fathom.model.resources import AUTOSCALERS, DEPLOYMENTS, LEASES
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.staff import (
    AGENT,
    AT_THE_TOP,
    MANAGERS,
    all_but,
    come_to_rest,
    leads,
    run_managers_and_agents,
)
from fathom.sim.scenarios.workloads import autoscaler, deployment
from fathom.sim.world.active_faults import DRIVER
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.invariants import Checker, Found, Seen
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

MOST = 6
MANY = 22
PERIOD_S, ROUNDED_S = 60.0, 3.0  # Times in objects are whole seconds.
STEP = 4
POLICY = {"type": "Pods", "value": STEP, "periodSeconds": 60}
ASKED = "100m"
WINDOW_S = 300  # Kubernetes' own stabilization window: for so long the load must be low.
SHORT_WINDOW_S = 120  # An autoscaler's own.
HIGH, LOW = 100_000_000, 5_000_000  # Nanos of a CPU: twice the target, and a tenth of it.


class Load:
    """What every pod uses, and whether metrics are served. The scenario sets it."""

    def __init__(self) -> None:
        self.nanos = HIGH
        self.known = True


class AutoscalersOfLoad:
    """Autoscalers with the metrics of a Load, to start a process with."""

    name = Autoscalers.name
    watches = Autoscalers.watches
    event_reports = Autoscalers.event_reports

    def __init__(self, load: Load) -> None:
        self._load = load

    def __call__(self, kit: Kit) -> Autoscalers:
        load = self._load

        class Measured(Autoscalers):
            async def _fetch_samples(self, namespace: str) -> tuple[dict[str, PodSample], str]:
                pods = kit.snapshot().list("Pod", namespace) if load.known else ()
                use = PodSample({"main": {"cpu": load.nanos}})
                measured = [pod for pod in pods if is_active(pod) and is_ready(pod)]
                return {str(metadata(pod)["name"]): use for pod in measured}, ""

        return Measured(kit)


@scenario(
    Menu(
        processes=(*MANAGERS, AGENT),
        kinds=("/pods", "/deployments", "/horizontalpodautoscalers", "/workloadprogresses"),
        happenings=AT_THE_TOP,
        seconds=60,
        most=8,
    ),
    checkers=at_home,
)
async def autoscaler_told_nothing(world: World) -> None:
    """The load is high, then unknown, then low: the autoscaler grows to its limit, stays there while metrics
    are missing, and shrinks only when the load stays low."""
    load = Load()
    troubles = run_managers_and_agents(
        world, Deployments, ReplicaSets, DeploymentProgress, AutoscalersOfLoad(load)
    )
    web = deployment("web", 2)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": ASKED}}
    await world.apply(DEPLOYMENTS, web)
    await world.apply(AUTOSCALERS, autoscaler("web", MOST))
    await world.sleep(60)
    world.heal()
    troubles.clear_up()
    await world.until(lambda: _size(world) == MOST, within_s=400, what="the autoscaler grows to its limit")
    load.known = False
    await world.sleep(400)
    assert _size(world) == MOST, f"metrics are missing, but the autoscaler went to {_size(world)}"
    load.known = True
    await world.sleep(60)
    load.nanos = LOW
    await world.sleep(WINDOW_S - 60)
    assert _size(world) == MOST, (
        f"the load was low only for a moment, but the autoscaler went to {_size(world)}"
    )
    await world.until(lambda: _size(world) == 1, within_s=900, what="the autoscaler shrinks to its minimum")
    await come_to_rest(world, troubles)


def _size(world: World) -> int:
    return int(lookup(world.get(DEPLOYMENTS.name, Key("default", "web")), "spec", "replicas") or 0)


class GrowthWithinThePolicy(Checker):
    """Within a minute a Deployment grows by four pods, as its autoscaler's policy says, however many leaders
    take part. For scenarios in which clocks are right."""

    name = "an autoscaler grows no faster than its policy"
    resources = frozenset({DEPLOYMENTS.name})

    def __init__(self) -> None:
        self._sizes: list[tuple[float, int]] = []  # When, and how large from then on.

    def commit(self, change: Seen) -> Found:
        size = int(lookup(change.new, "spec", "replicas") or 0)
        if not self._sizes or self._sizes[-1][1] != size:
            self._sizes.append((change.at_s, size))
        since_s = change.at_s - PERIOD_S + ROUNDED_S
        base = [before for at_s, before in self._sizes if at_s <= since_s] or [self._sizes[0][1]]
        lately = [before for at_s, before in self._sizes if since_s < at_s < change.at_s]
        least = min(base[-1], *lately) if lately else base[-1]
        if change.by == DRIVER or size <= least + STEP:
            return None
        return f"{change.by} scaled to {size}, from {least} within {PERIOD_S:g} s"


class ShrinksAfterTheWindow(Checker):
    """Who makes a Deployment smaller has seen the low load for the whole window: a leader that came later has
    not. For scenarios in which clocks are right."""

    name = "an autoscaler shrinks only what it has watched for its window"
    resources = frozenset({DEPLOYMENTS.name, LEASES.name})

    def __init__(self) -> None:
        self._leads_s: dict[str, float] = {}  # Process -> since when it leads.

    def commit(self, change: Seen) -> Found:
        before, after = change.old, change.new
        if change.resource == LEASES.name:
            holders = [str(lookup(lease, "spec", "holderIdentity") or "") for lease in (before, after)]
            if holders[0] != holders[1]:
                self._leads_s[holders[1].partition("_")[0]] = change.at_s
            return None
        sizes = [int(lookup(obj, "spec", "replicas") or 0) for obj in (before, after)]
        if before is None or after is None or sizes[1] >= sizes[0] or change.by == DRIVER:
            return None
        led_s = change.at_s - self._leads_s.get(change.by, 0.0)
        if led_s >= SHORT_WINDOW_S - ROUNDED_S:
            return None
        return f"{change.by} scaled from {sizes[0]} to {sizes[1]}, {led_s:.0f} s after it began to lead"


def growing() -> Sequence[Checker]:
    return [*at_home(), GrowthWithinThePolicy()]


@scenario(
    Menu(
        processes=MANAGERS,
        seconds=60,
        most=2,
        without=all_but("slow-reply", "slow-request"),
        # All that a leader knows of the step before its term is the time that the earlier leader wrote.
        clocks=("nobody",),
    ),
    checkers=growing,
    timed=True,
)
async def scaled_by_one_leader_after_another(world: World) -> None:
    """The load is far too high, and the leader of the controllers dies every few seconds: all leaders
    together scale no faster than the policy allows, and still reach the limit."""
    load = Load()
    load.nanos = 4 * HIGH
    troubles = run_managers_and_agents(
        world, Deployments, ReplicaSets, DeploymentProgress, AutoscalersOfLoad(load)
    )
    web = deployment("web", 2)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": ASKED}}
    await world.apply(DEPLOYMENTS, web)
    scaler = autoscaler("web", MANY)
    scaler["spec"]["behavior"] = {"scaleUp": {"policies": [POLICY]}}
    await world.apply(AUTOSCALERS, scaler)
    for _ in range(4):
        before, until_s = _size(world), world.now_s + 100
        while _size(world) == before and world.now_s < until_s:
            await world.sleep(0.2)
        for name in MANAGERS:
            if leads(world, name):
                world.crash(name, restart_after_s=2.0)
    world.heal()
    await world.until(lambda: _size(world) == MANY, within_s=600, what="the autoscaler grows to its limit")
    await come_to_rest(world, troubles)


def shrinking() -> Sequence[Checker]:
    return [*at_home(), ShrinksAfterTheWindow()]


@scenario(
    Menu(
        processes=MANAGERS,
        seconds=90,
        most=2,
        without=all_but("slow-reply", "slow-request", "hold-watch"),
        clocks=("nobody",),
    ),
    checkers=shrinking,
    timed=True,
)
async def shrinks_under_new_leaders(world: World) -> None:
    """The load becomes low, and leaders of the controllers change: each holds the size that it finds for the
    whole window, and in the end the autoscaler shrinks to its minimum."""
    load = Load()
    load.nanos = LOW
    troubles = run_managers_and_agents(
        world, Deployments, ReplicaSets, DeploymentProgress, AutoscalersOfLoad(load)
    )
    web = deployment("web", MOST)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": ASKED}}
    await world.apply(DEPLOYMENTS, web)
    scaler = autoscaler("web", MOST)
    scaler["spec"]["behavior"] = {"scaleDown": {"stabilizationWindowSeconds": SHORT_WINDOW_S}}
    await world.apply(AUTOSCALERS, scaler)
    for _ in range(world.rng.randrange(1, 4)):
        await world.sleep(20 + SHORT_WINDOW_S * world.rng.random() / 2)
        for name in MANAGERS:
            if leads(world, name):
                world.crash(name, restart_after_s=30.0 * world.rng.random())
    world.heal()
    await world.until(lambda: _size(world) == 1, within_s=900, what="the autoscaler shrinks to its minimum")
    await come_to_rest(world, troubles)


SCENARIOS: tuple[Scenario, ...] = (
    autoscaler_told_nothing,
    scaled_by_one_leader_after_another,
    shrinks_under_new_leaders,
)
