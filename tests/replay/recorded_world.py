"""An incident for tests: scheduler and controllers of a simulated cluster under load, recorded as live ones
are, with journals and a store in a data directory. The scheduler is killed on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tests.replay.toys import ListJournal

from fathom import __version__
from fathom.agent.process import begin as begin_agent
from fathom.client.api import Resource
from fathom.control.process import begin as begin_controllers
from fathom.controllers.all import CONTROLLERS
from fathom.gateway.controller import ROUTES
from fathom.gateway.controller import begin as begin_gateway
from fathom.model import accounts
from fathom.model.body import Body
from fathom.model.decision import Table
from fathom.model.objects import Obj
from fathom.model.resources import DEPLOYMENTS, SERVICES
from fathom.model.user import User
from fathom.record.journal import DiskJournal
from fathom.record.journals import AGENTS
from fathom.record.kept_windows import KeptWindows
from fathom.record.tape import DiskTape
from fathom.record.tape_list import directory_of
from fathom.schedule.loop.live import journal_directory
from fathom.schedule.loop.process import begin as begin_scheduler
from fathom.seams.process import Birth, Inside, timers_at_tick
from fathom.seams.seam import Ask, Input
from fathom.sim.scenarios.gateways import route
from fathom.sim.scenarios.real import TIMING, ZONES, deployment
from fathom.sim.scenarios.serving import service
from fathom.sim.world.engine import Engine
from fathom.sim.world.process import SimProcess
from fathom.sim.world.signing_key import world_key
from fathom.sim.world.world import World
from fathom.store.protocol import Put
from fathom.store.sqlite import SqliteStore

TIMED = msgspec.to_builtins(TIMING)
INPUTS = frozenset(int(kind) for kind in Input)


class WorldRecorder:
    """Records a simulated process, with the same tape and journal as a live one; on disk after the run, as no
    process of a world may open files."""

    def __init__(self, process: SimProcess, entry: str, journal: AllRecords | None = None) -> None:
        self.journal = journal or AllRecords()  # Agents share one.
        self._records: list[tuple[Callable[..., None], tuple[Any, ...], dict[str, Any]]] = []
        self._process, self._entry = process, entry
        self._new_inside, self._input = process._new_inside, process._input
        process._new_inside = self._inside  # type: ignore[method-assign]
        process._input = self._recorded_input  # type: ignore[method-assign]

    def _inside(self, predecessor: Inside | None = None) -> Inside:
        inside = self._new_inside(predecessor)
        inside.journal = self.journal
        inside.seam.on_ask = self._asked
        return inside

    def _asked(self, number: int, ask: Ask, checksum: int) -> None:
        now_ns = self._process.world.now_ns
        self._records.append((DiskTape.asked, (number, ask), {"now_ns": now_ns, "checksum": checksum}))

    def _recorded_input(self, kind: int, number: int, way: tuple[Any, ...]) -> None:
        if kind in INPUTS:
            status, payload = (way[3], way[4]) if len(way) == 5 else (0, b"")
            if kind == Input.START:
                payload = msgspec.json.encode(self._birth())
            if kind == Input.TICK:
                payload = timers_at_tick(self._process.domain).encode()
            fields = {
                "now_ns": self._process.world.now_ns,
                "status": status,
                "checksum": self._process.seam.asked.get(number, 0),
                "payload": payload,
            }
            self._records.append((DiskTape.append, (Input(kind), number), fields))
        self._input(kind, number, way)

    def _birth(self) -> Birth:
        birth = self._process.inside.birth
        return msgspec.structs.replace(birth, entry=self._entry, fathom=__version__, python="")

    def write(self, data: Path) -> None:
        name = self._process.name
        tape = DiskTape(directory_of(data, name), kept=KeptWindows(data, name))
        for method, arguments, fields in self._records:
            method(tape, *arguments, **fields)
        tape.close()
        self.journal.write(data, name if self._entry != "agent" else f"{AGENTS}node-1")


class AllRecords(ListJournal):
    """Decisions, outcomes and tables, in order."""

    def tabled(self, table: Table) -> None:
        self.said.append(table)  # type: ignore[arg-type]  # a journal has all three

    def write(self, data: Path, name: str) -> None:
        journal = DiskJournal(journal_directory(data, name), kept=KeptWindows(data, name))
        for record in self.said:
            journal._keep(record)
        journal.close()
        self.said.clear()  # Agents share a journal: it is written once.


def run_managers_and_agents(world: World, *, nodes: int) -> list[WorldRecorder]:
    """The deciding processes, recorded, agents included."""
    scheduler = world.process(
        "scheduler",
        begin_scheduler,
        account=User(accounts.SCHEDULER),
        lease="fathom-system/scheduler",
        who="scheduler",
        timing=TIMED,
    )
    controllers = world.process(
        "controllers",
        begin_controllers,
        account=User(accounts.CONTROLLERS),
        controllers=list(CONTROLLERS),
        who="controllers",
        lease="fathom-system/controllers",
        timing=TIMED,
        signals="controllers",
    )
    gateway = world.process("gateway", begin_gateway, account=User(accounts.GATEWAY))
    recorders = [
        WorldRecorder(scheduler, "scheduler"),
        WorldRecorder(controllers, "controllers"),
        WorldRecorder(gateway, "gateway"),
    ]
    agents_journal = AllRecords()
    for index in range(nodes):
        name = f"node-{index + 1}"
        zone = ZONES[index % len(ZONES)]
        account = accounts.node_user(name)
        agent = world.process(name, begin_agent, account=account, node=name, driver="simulated", zone=zone)
        recorders.append(WorldRecorder(agent, "agent", agents_journal))
    return recorders


def huge_pod() -> Obj:
    """A pod that fits nowhere: the incident is about it."""
    requests = {"cpu": "100"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "huge", "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "huge:1", "resources": {"requests": requests}}]},
    }


def choosy(name: str, **spec: Any) -> Obj:
    """A pod with wishes, so that more rules of the scheduler decide."""
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "100m"}}}
    port = {"ports": [{"containerPort": 80, "hostPort": 8080}]} if spec.pop("host_port", False) else {}
    labels = {"app": "choosy"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{**container, **port}], **spec},
    }


def choosy_pods(number: int) -> list[Obj]:
    labels = {"labelSelector": {"matchLabels": {"app": "choosy"}}}
    zone = "topology.kubernetes.io/zone"
    in_zone = {"matchExpressions": [{"key": zone, "operator": "In", "values": ["zone-a", "zone-b"]}]}
    preferred = [{"weight": 10, "preference": in_zone}]
    near = [{"weight": 5, "podAffinityTerm": {**labels, "topologyKey": zone}}]
    spread = {**labels, "maxSkew": 1, "topologyKey": zone, "whenUnsatisfiable": "DoNotSchedule"}
    soft = {**spread, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    apart = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": near}}
    wishes: list[dict[str, Any]] = [
        {"nodeSelector": {zone: "zone-b"}},
        {"nodeSelector": {zone: "zone-x"}},
        {"affinity": affinity},
        {"affinity": apart},
        {"topologySpreadConstraints": [spread, soft]},
        {"host_port": True},
        {"tolerations": [{"operator": "Exists"}]},
    ]
    return [choosy(f"choosy-{number}-{place}", **wish) for place, wish in enumerate(wishes)]


PODS = Resource("", "v1", "pods")


async def incident(world: World) -> None:
    """Load, a pod that waits, a rollout, a scheduler that is killed, a node that dies."""
    for name in ("web", "api", "jobs"):
        await world.apply(DEPLOYMENTS, deployment(name, 8))
    await world.apply(SERVICES, service("api"))
    for weight in (10, 90):
        await world.apply(ROUTES, route("api", weight))
    for pod in choosy_pods(1):
        await world.apply(PODS, pod)
    await world.apply(PODS, huge_pod())
    await world.sleep(5)
    await world.apply(DEPLOYMENTS, deployment("web", 10, tag=2))
    await world.sleep(2)
    world.crash("scheduler", restart_after_s=1.0)
    await world.apply(DEPLOYMENTS, deployment("api", 12))
    for pod in choosy_pods(2):
        await world.apply(PODS, pod)
    await world.sleep(20)
    world.kill("node-2")
    await world.sleep(30)


def record_incident(data: Path, *, seed: str = "0", nodes: int = 5) -> ClusterTimes:
    data.mkdir(parents=True, exist_ok=True)
    engine = Engine(seed, signing=world_key())
    engine.codec = True  # As on a wire: a tape holds bytes.
    world = World(engine)
    recorders: list[WorldRecorder] = []

    async def story(world: World) -> None:
        recorders.extend(run_managers_and_agents(world, nodes=nodes))
        await incident(world)

    world.tell(story, deadline_s=600)
    assert engine.violation is None, engine.violation
    for recorder in recorders:
        recorder.write(data)
    asyncio.run(_write_store(data, world))
    times = ClusterTimes(engine.epoch_ns + engine.began_ns, engine.epoch_ns + engine.now_ns)
    engine.end()
    return times


class ClusterTimes(msgspec.Struct, frozen=True):
    began_ns: int
    ended_ns: int


async def _write_store(data: Path, world: World) -> None:
    store = SqliteStore.open(data)
    for entry in sorted(world.engine.store.entries(), key=lambda entry: entry.revision):
        await store.commit((), [Put(entry.key, Body(encoded=entry.body.encoded))])
    await store.close()
