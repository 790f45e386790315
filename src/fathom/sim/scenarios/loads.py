"""An autoscaler and its metrics: high, low, missing, or of some pods only."""

from __future__ import annotations

from fathom.control.kit import Kit
from fathom.controllers.autoscaler.controller import Autoscalers
from fathom.controllers.autoscaler.samples import PodSample
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.pod_states import is_active, is_ready
from fathom.controllers.progress.controller import DeploymentProgress
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.model.objects import Key, lookup, metadata
from fathom.sim.checkers import at_home
from fathom.sim.scenarios.staff import AGENT, AT_THE_TOP, MANAGERS, come_to_rest, run_managers_and_agents
from fathom.sim.scenarios.workloads import AUTOSCALERS, DEPLOYMENTS, autoscaler, deployment
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.scenario import Scenario, scenario
from fathom.sim.world.world import World

MOST = 6
ASKED = "100m"
WINDOW_S = 300  # Kubernetes' own stabilization window: for so long the load must be low.
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


SCENARIOS: tuple[Scenario, ...] = (autoscaler_told_nothing,)
