"""Every part of the control plane that decides or writes, with what it declares: one table, collected from
the declarations beside the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from fathom.agent.actor import AGENT
from fathom.api.admission.plugin import Plugin
from fathom.api.admission.plugins import DECLARING
from fathom.api.binding.actor import BINDER, EVICTIONS
from fathom.control.actor import CONTROLLER_PROCESS
from fathom.controllers.autoscaler.controller import Autoscalers
from fathom.controllers.budget.controller import DisruptionBudgets
from fathom.controllers.cluster_summary import ClusterSummary
from fathom.controllers.deployment.controller import Deployments
from fathom.controllers.endpoints.controller import EndpointSlices, EndpointsOfServices, MirroredEndpoints
from fathom.controllers.housekeeping.actors import ACTORS as HOUSEKEEPING
from fathom.controllers.job.controller import Jobs
from fathom.controllers.node_health.brake_status import BrakeStatus
from fathom.controllers.node_health.controller import Evictions, Nodes
from fathom.controllers.node_health.trust import Trust
from fathom.controllers.overrides.acknowledging import Acknowledgements
from fathom.controllers.overrides.controller import Overrides
from fathom.controllers.progress.controller import DeploymentProgress, JobProgress, ReplicaSetProgress
from fathom.controllers.repair.controller import (
    DeploymentFinalizers,
    JobFinalizers,
    RepairCompletion,
    RepairPods,
    RepairProposalsController,
    RepairReservations,
    ReplicaSetFinalizers,
)
from fathom.controllers.replicaset.controller import ReplicaSets
from fathom.gateway.actor import GATEWAY
from fathom.model.accounts import CONTROLLERS as CONTROLLERS_ACCOUNT
from fathom.model.declared import API_SERVER, COMMIT_LANES, MUTATING_ROOM, Actor, Timer
from fathom.schedule.loop.actor import SCHEDULER
from fathom.schedule.policy_rollout.controller import PolicyRollouts

PROCESS = "controllers"
# Parts of the process itself, which audit entries name.
PROCESS_PARTS = {f"{PROCESS}/events": PROCESS, f"{PROCESS}/signals": PROCESS}
SEVERAL = ("agent", "scheduler")  # There may be several of them: 'agent/node-1', 'scheduler-0of2'.
RESYNC = Timer("resync of every cached object", 600.0, spread=0.1)  # As `ControllerSettings.resync_s`.

# As in `controllers/all.py`; a test compares the two.
CONTROLLERS: tuple[Any, ...] = (
    Deployments, ReplicaSets, Jobs, EndpointSlices, EndpointsOfServices, MirroredEndpoints,
    DisruptionBudgets, DeploymentProgress, ReplicaSetProgress, JobProgress, Autoscalers, Nodes, Evictions,
    BrakeStatus, Trust, RepairReservations, RepairPods, DeploymentFinalizers, ReplicaSetFinalizers,
    JobFinalizers, RepairProposalsController, RepairCompletion, Acknowledgements, Overrides, PolicyRollouts,
    ClusterSummary,
)  # fmt: skip


@cache
def actors() -> Mapping[str, Actor]:
    """By name, in the order of the table."""
    return by_name(
        [
            SCHEDULER,
            BINDER,
            EVICTIONS,
            CONTROLLER_PROCESS,
            *map(actor_of, CONTROLLERS),
            *map(actor_of_plugin, DECLARING),
            *HOUSEKEEPING,
            AGENT,
            GATEWAY,
        ]
    )


def by_name(listed: Iterable[Actor]) -> dict[str, Actor]:
    return {actor.name: actor for actor in listed}


def actor_of(controller: Any) -> Actor:
    """A controller class, from what it declares beside its watches."""
    calls = (API_SERVER, *getattr(controller, "calls", ()))
    return Actor(
        name=f"{PROCESS}/{controller.name}",
        process=PROCESS,
        account=CONTROLLERS_ACCOUNT,
        reads=controller.reads,
        writes=getattr(controller, "writes", ()),
        woken_by=tuple(watch.kind.name for watch in controller.watches if _wakes(watch)),
        takes=getattr(controller, "takes", ()),
        waits_in=(MUTATING_ROOM,),
        calls=calls,
        timers=(*getattr(controller, "timers", ()), RESYNC),
    )


def _wakes(watch: Any) -> bool:
    """A related kind without `concerns` is only read: its changes call nobody."""
    return getattr(watch, "concerns", True) is not None


def actor_of_plugin(plugin: type[Plugin]) -> Actor:
    return Actor(
        name=f"admission/{plugin.name}",
        process="api-server",
        reads=plugin.reads,
        writes=plugin.writes,
        takes=plugin.takes,
        waits_in=(COMMIT_LANES,) if plugin.takes else (),
        mutates_requests=True,
    )


def find_actor(name: str, table: Mapping[str, Actor]) -> Actor | None:
    """By its name, or by the part after the last slash; 'agent/node-1' and 'scheduler-0of2' are an agent and
    a scheduler."""
    name = PROCESS_PARTS.get(name, name)
    if name in table:
        return table[name]
    short = [actor for actor in table.values() if actor.name.rpartition("/")[2] == name]
    if len(short) == 1:
        return short[0]
    return next(
        (table.get(several) for several in SEVERAL if name.startswith((f"{several}/", f"{several}-"))), None
    )
