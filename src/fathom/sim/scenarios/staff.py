"""Who runs in the stories: two managers who share a lease, and the agents of all nodes."""

from __future__ import annotations

from fathom.control.lease import Timing
from fathom.control.process import Controller
from fathom.sim.menu import MAKERS
from fathom.sim.running import run_controllers
from fathom.sim.standins.agent import Agent
from fathom.sim.world import World

MANAGERS = ("manager-1", "manager-2")
AGENT = "agent"
LEASE = "kube-system/manager"

# Shorter than live ones, so that leaders change while faults last.
TIMING = Timing(duration_s=6, renew_deadline_s=4.0, retry_s=1.0)
# Nobody who still has something to do is silent for longer: backoffs and open breakers end after 30 s.
QUIET_S = 35.0

# Kinds of fault, by what they are done to.
OF_WATCHES = ("hold-watch", "drop-watch", "stale-server", "slow-request")
OF_PROCESSES = ("crash", "crash-at-write", "stop", "rebase", "pause", "skew", "partition", "slow-request")
OF_HISTORY = ("compact", "drop-watch", "partition", "stale-server", "crash")


def all_but(*kinds: str) -> tuple[str, ...]:
    """For a menu that has nothing else."""
    return tuple(dict.fromkeys(name for name, _ in MAKERS if name not in kinds))


def employ(world: World, *controllers: Controller, servers: int = 1) -> None:
    """The managers, each at an API server of its own where there are several; and the agents."""
    for index, name in enumerate(MANAGERS):
        run_controllers(world, name, *controllers, server=1 + index % servers, lease=LEASE, timing=TIMING)
    run_controllers(world, AGENT, Agent)


async def come_to_rest(world: World) -> None:
    await world.heal_and_settle(quiet_s=QUIET_S)
