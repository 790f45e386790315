"""The processes of most scenarios: two managers that share a lease, and the agents of all nodes. And the
happenings, which are not faults of the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from fathom.agent.process import begin as begin_agent
from fathom.agent.simulated_machine import SimulatedMachine
from fathom.control.lease import Timing
from fathom.control.process import Controller
from fathom.model.accounts import node_user
from fathom.model.objects import Key
from fathom.model.resources import LEASES
from fathom.sim.checkers.containers_by_the_rules import observed
from fathom.sim.scenarios.simulated_nodes import NodeTroubles, SimulatedNodesWith
from fathom.sim.world.controllers import nudge, run_controllers, shuffle
from fathom.sim.world.faults import MAKERS
from fathom.sim.world.world import World

MANAGERS = ("manager-1", "manager-2")
AGENT = "agent"
LEASE = "kube-system/manager"

# Shorter than live ones, so that leaders change while faults last.
TIMING = Timing(duration_s=4, renew_deadline_s=3.0, retry_s=0.8)
# No process with work left is silent for longer: backoffs and open breakers end after 30 s.
QUIET_S = 35.0
PATIENCE_S = 60.0
IMAGE_S = 8.0
DEAF_S = 9.0
BLINK_S = 2.5

# Kinds of fault, by what they hit.
OF_WATCHES = ("hold-watch", "drop-watch", "stale-server", "slow-request")
OF_PROCESSES = (
    "crash",
    "crash-at-write",
    "stop",
    "stop-at-write",
    "rebase",
    "pause",
    "skew",
    "partition",
    "slow-request",
)
OF_ANSWERS = ("slow-reply", "lose-reply", "slow-request", "hold-watch")
OF_HISTORY = ("compact", "drop-watch", "partition", "stale-server", "crash")

# The happenings of `manage` and `run_managers_and_agents`, for a menu.
AT_THE_TOP = ("lose-lease", "handover", "shuffle", "nudge")
UNREST = (*AT_THE_TOP, "slow-image", "failing-probe", "blink", "node-dies", "fair")


def all_but(*kinds: str) -> tuple[str, ...]:
    """The kinds of fault to leave out, for a menu that has only these."""
    return tuple(dict.fromkeys(name for name, _ in MAKERS if name not in kinds))


def run_managers_and_agents(
    world: World, *controllers: Controller, kinds: Sequence[str] = ("/pods",), servers: int = 1
) -> NodeTroubles:
    """Run the managers, each on its own API server if there are several, and the agents."""
    troubles = NodeTroubles()
    manage(world, *controllers, kinds=kinds, servers=servers)
    run_controllers(world, AGENT, SimulatedNodesWith(troubles))
    for name, work in _happenings(world, troubles).items():
        world.happening(name, work)
    if servers > 1:
        world.happening("move", lambda: move(world))
    return troubles


def run_agent(world: World, node: str, *, server: int = 1, **options: Any) -> None:
    """The real agent of a node. Its containers end with it, as far as no status says otherwise. Which
    addresses its pods have is kept, as a real agent keeps it on disk."""
    machine = SimulatedMachine(keeps_containers=False, observe=observed(world, node))
    begin = partial(begin_agent, machine=machine)
    world.process(
        node, begin, server=server, account=node_user(node), node=node, driver="simulated", **options
    )


def manage(world: World, *controllers: Controller, kinds: Sequence[str], servers: int = 1) -> None:
    """Run the managers alone, for scenarios with real agents or none. `kinds`: what they follow."""
    for index, name in enumerate(MANAGERS):
        run_controllers(world, name, *controllers, server=1 + index % servers, lease=LEASE, timing=TIMING)
    world.happening("handover", lambda: world.soon(lambda: _hand_over(world, kinds)))
    world.happening("lose-lease", lambda: world.soon(lambda: _lose_lease(world)))
    world.happening("shuffle", lambda: shuffle(world, *MANAGERS))
    world.happening("nudge", lambda: nudge(world, *MANAGERS))


def _happenings(world: World, troubles: NodeTroubles) -> dict[str, Callable[[], object]]:
    def change(**fields: object) -> Callable[[], object]:
        def changed() -> None:
            for name, value in fields.items():
                setattr(troubles, name, value)
            nudge(world, AGENT)

        return changed

    return {
        "nudge": lambda: nudge(world, *MANAGERS, AGENT),
        "slow-image": change(image_s=IMAGE_S),
        "failing-probe": change(probes_fail=True),
        "blink": lambda: world.soon(lambda: _fail_probes_briefly(world, troubles)),
        "node-dies": change(dead={"node-1": None}),
        "fair": change(image_s=0.0, probes_fail=False, dead={}),
    }


async def _fail_probes_briefly(world: World, troubles: NodeTroubles) -> None:
    """Probes fail, and a moment later they pass."""
    for fail in (True, False):
        troubles.probes_fail = fail
        nudge(world, AGENT)
        await world.sleep(BLINK_S)


async def _hand_over(world: World, kinds: Sequence[str]) -> None:
    """The leader crashes, and its successor has received no events of one kind for a while."""
    leaders = [name for name in MANAGERS if leads(world, name)]
    if not leaders:
        return
    draw = int(world.now_s * 1000)
    kind = kinds[draw // 2 % len(kinds)]
    for name in MANAGERS:
        if name not in leaders:
            world.deafen(name, kind, for_s=DEAF_S)
    await world.sleep(DEAF_S / 3)
    world.crash(leaders[0], restart_after_s=DEAF_S)
    if draw % 2:
        await _lose_lease(world)  # Otherwise it is free when it expires.


def leads(world: World, name: str) -> bool:
    lease_status = getattr(world.state(name), "lease_status", None)
    return world.engine.processes[name].alive and lease_status is not None and lease_status.state == "leading"


async def _lose_lease(world: World) -> None:
    """Take the lease away from its holder: the next one to ask gets it."""
    lease = Key(*LEASE.split("/"))
    if world.get(LEASES.name, lease) is not None:
        patch = {"spec": {"holderIdentity": None}}
        await world.api.patch(LEASES, lease.namespace, lease.name, patch)


def move(world: World, names: Iterable[str] = (*MANAGERS, AGENT)) -> None:
    """A balancer sends new connections of these processes to the other server; open watches end."""
    for name in names:
        process = world.engine.processes[name]
        process.server = "api-2" if process.server == "api-1" else "api-1"
        world.engine.network.drop_watches(name, "")


async def until_or_heal(world: World, check: Callable[[], bool], what: str) -> None:
    """Wait until the check is true. A strategy may starve a process for as long as it likes, so faults end if
    it takes long: only then must it become true."""
    until_s = world.now_s + PATIENCE_S
    while not check() and world.now_s < until_s:
        await world.sleep(1.0)
    if not check():
        world.heal()
    await world.until(check, within_s=300, what=what)


async def come_to_rest(world: World, troubles: NodeTroubles | None = None) -> None:
    if troubles is not None:
        troubles.clear_up()
        nudge(world, AGENT)
    await world.heal_and_settle(quiet_s=QUIET_S)
