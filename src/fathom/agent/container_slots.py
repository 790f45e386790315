"""One container of a pod in the agent's memory: its current view and the probes of its run.

Views are frozen; each change wakes the pod's worker.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from fathom.agent.container_views import Container, ContainerView, Health
from fathom.agent.probing import LIVENESS, READINESS, STARTUP, OnResult, Prober, ProbeTally
from fathom.agent.runtime import ContainerRun, ProbeResult
from fathom.agent.variable_expansion import with_words
from fathom.model.objects import Obj
from fathom.model.reasons import LIVENESS_FAILED, STARTUP_FAILED

Ask = Callable[[ContainerRun, Obj], Awaitable[ProbeResult]]
Tell = Callable[[str, str, str], None]  # (type, reason, message) of an event.


class Slot:
    def __init__(
        self, container: Container, ask: Ask, tell: Tell, wake: Callable[[], None], *, rng: random.Random
    ) -> None:
        self.container = container
        self.view = ContainerView()
        self._ask = ask
        self._tell = tell
        self._wake = wake
        self._rng = rng
        self._probers: list[asyncio.Task[None]] = []

    def change(self, **changes: object) -> None:
        self.view = msgspec.structs.replace(self.view, **changes)
        self._wake()

    def began(self, run: ContainerRun, *, ready: bool = False, started: bool = False) -> None:
        """`ready`, `started`: it was when an agent last reported it, so that a restarted agent does not flip
        it, and does not probe its start again, for which it may have no time any more."""
        previous = (
            self.view.run if self.view.run is not None and self.view.run.id != run.id else self.view.previous
        )
        spec = self.container.spec
        started = started or ready or STARTUP not in spec
        health = Health(started=started, ready=ready or (READINESS not in spec and started))
        health = msgspec.structs.replace(health, note=run.note)
        if run.exit is not None:
            health = Health()
        self.change(run=run, previous=previous, health=health, trouble=None, kill_ns=0, killed=False)
        if run.exit is None:
            self._probe(started)
        else:
            self.stop_probing()

    def ended(self, run: ContainerRun) -> None:
        """The end of a run. An end of any run but the current one is stale and ignored."""
        if self.view.run is None or self.view.run.id != run.id or self.view.run.exit is not None:
            return
        self.stop_probing()
        run = _with_reason(run, self.view.health)
        self.change(run=run, health=Health(note=self.view.health.note), kill_ns=0, killed=False)

    def stop_probing(self) -> None:
        for prober in self._probers:
            prober.cancel()
        self._probers = []

    # Probes.

    def _probe(self, started: bool) -> None:
        self.stop_probing()
        if not started:
            self._add(STARTUP, self._startup)
        else:
            self._add_running_probes()

    def _add_running_probes(self) -> None:
        self._add(READINESS, self._readiness)
        self._add(LIVENESS, self._liveness)

    def _add(self, kind: str, on_result: OnResult) -> None:
        probe = self.container.spec.get(kind)
        run = self.view.run
        if not probe or run is None:
            return
        probe = with_words(probe, self.container.spec)
        prober = Prober(
            probe,
            lambda probe_spec: self._ask(run, probe_spec),
            on_result,
            rng=self._rng,
            eager=kind != LIVENESS,
        )
        self._probers.append(asyncio.get_running_loop().create_task(prober.run()))

    def _startup(self, tally: ProbeTally, probed: ProbeResult) -> bool:
        self._record_probe("Startup", probed)
        if tally.verdict:
            self._change_health(started=True, ready=READINESS not in self.container.spec)
            self._add_running_probes()
        elif tally.verdict is False:
            name = self.container.name
            why = f"Container {name} failed startup probe, will be restarted: {probed.message}"
            self.sicken(why, STARTUP_FAILED)
        return tally.verdict is None

    def _readiness(self, tally: ProbeTally, probed: ProbeResult) -> bool:
        self._record_probe("Readiness", probed)
        if tally.verdict is not None:
            self._change_health(ready=tally.verdict)
        return True

    def _liveness(self, tally: ProbeTally, probed: ProbeResult) -> bool:
        self._record_probe("Liveness", probed)
        if tally.verdict is False:
            name = self.container.name
            why = f"Container {name} failed liveness probe, will be restarted: {probed.message}"
            self.sicken(why, LIVENESS_FAILED)
        return tally.verdict is not False

    def _record_probe(self, kind: str, probed: ProbeResult) -> None:
        health = self.view.health
        if not probed.ok:
            self._tell("Warning", "Unhealthy", f"{kind} probe failed: {probed.message}")
            self._change_health(said=f"{kind.lower()} probe failed: {probed.message}")
        if probed.note and probed.note != health.note:
            self._tell("Warning", "BoundEveryAddress", probed.note)
            self._change_health(note=probed.note)

    def sicken(self, why: str, reason: str = "") -> None:
        """Mark the container unhealthy: the plan will stop it."""
        self._change_health(sick=why, sick_reason=reason, ready=False)

    def _change_health(self, **changes: object) -> None:
        health = msgspec.structs.replace(self.view.health, **changes)
        if health != self.view.health:
            self.change(health=health)


def _with_reason(run: ContainerRun, health: Health) -> ContainerRun:
    """The run with why we stopped it; a message that the program left stays. Its exit code alone does not
    tell a failed probe from a crash."""
    if not health.sick or run.exit is None:
        return run
    reason, message = run.exit.reason or health.sick_reason, run.exit.message or health.sick
    return msgspec.structs.replace(
        run, exit=msgspec.structs.replace(run.exit, reason=reason, message=message)
    )
