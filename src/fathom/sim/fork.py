"""A fork: live state as the beginning of a simulated world, which goes on by itself.

    world = fork(state_from_store(Path("backup.db")), "1")
    run_for(world, 600)
    print(len(world.list("pods")))
    end(world)

The store begins with the state's keys and revisions, and the clock with its time. API server, scheduler and
controllers are the code that runs live; containers are simulated, in step with what the pods' statuses say
(`fork_agents`), and use what they used (`fork_usage`). The same state and seed give the same run.

What a fork does not have: the memory of live processes (back-off of queues, history of autoscalers beyond
what their objects say), the gateway, clients, and any machine outside of the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from fathom.agent.process import begin as begin_agent
from fathom.api.resource_cache import REGISTRY
from fathom.control.process import load_controller
from fathom.controllers.all import CONTROLLERS
from fathom.model import accounts
from fathom.model.body import Body
from fathom.model.freshness import FRESH_S
from fathom.model.objects import Key, metadata
from fathom.model.times import SECOND_NS
from fathom.model.user import User
from fathom.model.well_known import NODE_LEASE_NAMESPACE
from fathom.schedule.loop.process import begin as begin_scheduler
from fathom.sim.fork_agents import agent_options, is_alive, scripts_of
from fathom.sim.fork_state import ClusterState
from fathom.sim.fork_usage import CarriedUsage
from fathom.sim.report.chronicle import Chronicle
from fathom.sim.world.controllers import run_controllers
from fathom.sim.world.engine import Engine
from fathom.sim.world.invariants import Checker
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.world import World
from fathom.store.contents import StoreContents
from fathom.store.protocol import Entry

T = TypeVar("T")

SCHEDULER, MANAGER = "scheduler", "controllers"
LEASES = f"{REGISTRY}leases.coordination.k8s.io/"
# Half of the age that a view may have for any action. Bookmarks every second, as live, would be half of what
# a quiet fork does.
BOOKMARK_S = FRESH_S / 2
# An hour of a large cluster; a process that retries without waiting reaches it soon.
INPUTS_MAX = 50_000_000
# Virtual time for one request of `perform`, retries included.
PERFORM_S = 600.0


class ForkFailed(Exception):
    """The fork could not start, or could not go on; the message says why."""


def fork(
    state: ClusterState,
    seed: str,
    *,
    options: Mapping[str, Any] | None = None,
    checkers: Sequence[Checker] = (),
    chronicle: Chronicle | None = None,
) -> World:
    """A world that begins with this state. `options`: settings of the scheduler, for example its names; the
    defaults are those of `fathom up`. Call `end` when it is no longer needed."""
    contents = StoreContents(tuple(map(_entry_for_fork, state.contents.entries)), state.contents.revision)
    engine = Engine(seed, signing=world_key(), contents=contents, epoch_ns=state.time_ns, chronicle=chronicle)
    engine.inputs_max = INPUTS_MAX
    world = World(engine, checkers=checkers)
    try:
        world.start(_wait_for_ever)
    except RuntimeError as error:
        engine.end()
        raise ForkFailed(f"the fork did not start: {error}") from error
    _start_deciders(world, options or {})
    _start_agents(world)
    engine.usage_of = CarriedUsage(world, state.usage)
    return world


def run_for(world: World, seconds: float) -> None:
    """Let so much virtual time pass. Raises ForkFailed where a checker or a process ended the run."""
    engine = world.engine
    engine.run(until_s=engine.now_ns / SECOND_NS + seconds)
    if engine.error is not None:
        raise engine.error
    if engine.violation is not None:
        raise ForkFailed(f"{engine.violation.invariant}: {engine.violation.message}")


def perform(world: World, work: Callable[[World], Awaitable[T]], *, within_s: float = PERFORM_S) -> T:
    """Run a coroutine as an administrator in the fork, for example `world.apply`; virtual time passes until
    it has ended. Raises what it raises."""
    results: list[T] = []
    errors: list[BaseException] = []

    async def run() -> None:
        try:
            results.append(await work(world))
        except Exception as error:
            errors.append(error)
        world.engine.halt()

    world.soon(run)
    run_for(world, within_s)
    if errors:
        raise errors[0]
    if not results:
        raise ForkFailed(f"the change was not made within {within_s:g} s of virtual time")
    return results[0]


def end(world: World) -> None:
    """Release the world's processes."""
    world.engine.end()


async def _wait_for_ever(world: World) -> None:
    while True:
        await world.sleep(3600.0)


def _entry_for_fork(entry: Entry) -> Entry:
    """A body of its own. The leases of deciding processes are free: their live holders are not in the fork.
    Nodes' leases stay: a node that was silent is silent."""
    if not entry.key.startswith(LEASES) or entry.key.startswith(f"{LEASES}{NODE_LEASE_NAMESPACE}/"):
        return Entry(entry.key, Body(encoded=entry.body.encoded), entry.revision, entry.created)
    lease = entry.body.obj
    spec = {**(lease.get("spec") or {}), "holderIdentity": ""}
    return Entry(entry.key, Body({**lease, "spec": spec}), entry.revision, entry.created)


def _start_deciders(world: World, options: Mapping[str, Any]) -> None:
    world.process(
        SCHEDULER,
        begin_scheduler,
        account=User(accounts.SCHEDULER),
        **{"lease": "fathom-system/scheduler", "who": SCHEDULER, "bookmark_s": BOOKMARK_S, **options},
    )
    run_controllers(
        world,
        MANAGER,
        *(load_controller(name) for name in CONTROLLERS),
        account=User(accounts.CONTROLLERS),
        only_declared_fields=False,  # As live.
        bookmark_s=BOOKMARK_S,
        lease="fathom-system/controllers",
        signals=MANAGER,
    )


def _start_agents(world: World) -> None:
    now_ns = world.engine.epoch_ns + world.engine.now_ns
    scripts = scripts_of(world.list("pods"), now_ns=now_ns)
    for node in world.list("nodes"):
        name = str(metadata(node)["name"])
        lease = world.get("leases.coordination.k8s.io", Key(NODE_LEASE_NAMESPACE, name))
        if is_alive(node, lease, now_ns=now_ns):
            account = accounts.node_user(name)
            world.process(name, begin_agent, account=account, **agent_options(node, scripts))
