"""A machine of the simulated runtime: what outlives an agent there, and what a checker is told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from fathom.agent.runtime import ContainerRun, KeptContainer
from fathom.model.objects import Obj


class MachineEvent(msgspec.Struct, frozen=True):
    """What an agent did with a machine, or what happened there. `asked`: the agent wants a container to
    start; `started`: it has. `adopted`: an agent was told of a run that an earlier one had reported."""

    what: Literal["agent", "asked", "started", "adopted", "ended", "term", "kill", "probed"]
    uid: str = ""
    container: str = ""
    run: ContainerRun | None = None
    pod: Obj | None = None  # As the agent knows it, where it says so.
    attempt: int = 0
    probe: Obj | None = None
    ok: bool = False  # The probe passed; or the containers have survived the last agent.


class SimulatedMachine:
    """What outlives an agent: the pods that its runtime holds, and their runs."""

    def __init__(
        self, *, keeps_containers: bool = True, observe: Callable[[MachineEvent], None] = lambda event: None
    ) -> None:
        """`keeps_containers` False: only addresses stay, as in an agent's records on disk. Statuses do not
        tell them all: a server that is behind may list pods without the addresses that they have.
        `observe` is told of everything that happens here."""
        self.keeps_containers = keeps_containers
        self.observe = observe
        self.addresses: dict[str, str] = {}  # Of pods, by UID.
        self.pods: dict[str, KeptContainer] = {}  # By UID; without runs, which `kept` adds.
        self.runs: dict[str, ContainerRun] = {}  # Alive, by id.
        self.last_runs: dict[str, dict[str, ContainerRun]] = {}  # By UID and container, ended or not.
        self.ends: dict[str, tuple[int, int, int]] = {}  # By id of a run: when (monotonic), code, signal.
        self.began_ns: dict[str, int] = {}  # By run; monotonic: setting the clock changes no run's age.
        self.started_twice: list[str] = []  # Containers that were started while an earlier run was alive.

    def begin_agent(self) -> None:
        """A new agent begins to run here."""
        if not self.keeps_containers:
            for held in (self.pods, self.runs, self.last_runs, self.ends, self.began_ns):
                held.clear()
        self.observe(MachineEvent("agent", ok=self.keeps_containers))

    def tell(self, what: Literal["adopted", "started", "ended", "term", "kill"], run: ContainerRun) -> None:
        self.observe(MachineEvent(what, run.uid, run.container, run))

    def kept(self, uid: str) -> KeptContainer:
        """A pod with its runs as they are now, like the records on a real machine: a run may end before the
        agent knows the pod, and its end is not reported again."""
        runs = tuple(self.last_runs.get(uid, {}).values())
        return msgspec.structs.replace(self.pods[uid], runs=runs)

    def note_start(self, run: ContainerRun) -> None:
        before = self.last_runs.get(run.uid, {}).get(run.container)
        if before is not None and before.id in self.runs:
            self.started_twice.append(f"{run.container} of pod {run.uid}")
        self.note(run)

    def note(self, run: ContainerRun) -> None:
        self.last_runs.setdefault(run.uid, {})[run.container] = run
