"""A simulated runtime: containers follow a script, without processes.

For simulated worlds and large demo clusters. It runs on the Domain, so every run of it is the same.

Without a machine, the pod's status is what survives an agent: a run that was reported as running goes on. (A
run that was started but not yet reported starts again; no client saw it.) A `SimulatedMachine` outlives its
agents, as real processes do: the next agent finds the runs there, or only the addresses that pods have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from fathom.agent.addresses import next_address
from fathom.agent.container_views import containers_of, ns_of
from fathom.agent.runtime import ContainerNotStarted, ContainerRun, Exit, KeptContainer, Launch, ProbeResult
from fathom.agent.settings import Script
from fathom.agent.simulated_machine import MachineEvent, SimulatedMachine
from fathom.agent.usage import ContainerUsage, NodeUsage, PodUsage
from fathom.model.objects import Obj, key_of, lookup, metadata, uid_of
from fathom.model.podresources import REQUESTS, container_amounts
from fathom.model.quantity import of_milli, of_value
from fathom.model.times import SECOND_NS
from fathom.seams.outside import Clock

SCRIPT = "fathom.dev/simulated"
RUNS_S = "fathom.dev/runs-seconds"  # The most used setting of a script.
SCHEME = "simulated://"


def script_of(pod: Obj, default: Script) -> Script:
    """The script from the pod's annotations; an annotation that cannot be parsed changes nothing."""
    annotations = metadata(pod).get("annotations") or {}
    changes: dict[str, Any] = {}
    try:
        if SCRIPT in annotations:
            changes = msgspec.json.decode(annotations[SCRIPT], type=dict[str, Any])
        if RUNS_S in annotations:
            changes["runs_s"] = float(annotations[RUNS_S])
        return msgspec.convert({**msgspec.to_builtins(default), **changes}, Script, strict=False)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # The last: it is nested too deeply.
        return default


def fails_at(script: Script, attempt: int) -> str:
    return script.fail if script.fails < 0 or attempt < script.fails else ""


class SimulatedRuntime:
    def __init__(
        self,
        script: Script,
        *,
        clock: Clock,
        pod_range: str,
        reported: Callable[[], Iterable[str]] = tuple,
        scripts: Mapping[str, Script] | None = None,
        takes_over: bool = False,
        machine: SimulatedMachine | None = None,
    ) -> None:
        self._machine = machine or SimulatedMachine()
        self._machine.begin_agent()
        self._default = script
        self._scripts = scripts or {}  # Instead of the default, by the UID of the pod or of its owner.
        self._takes_over = takes_over  # Also runs that another driver reported.
        self._clock = clock
        self._range = pod_range
        self._reported = reported  # Addresses in the status of the node's pods, admitted yet or not.
        self._pods, self._runs = self._machine.pods, self._machine.runs
        self._began_ns = self._machine.began_ns
        self._timers: dict[str, asyncio.TimerHandle] = {}  # Timers that end runs, by id.
        self._probed: dict[str, Counter[str]] = {}  # Number of probes, by run and port.
        self._last = ""
        self._ended: Callable[[ContainerRun], None] = lambda run: None

    def _script(self, pod: Obj, container: str) -> Script:
        owners = (str(owner.get("uid")) for owner in metadata(pod).get("ownerReferences") or ())
        known = (self._scripts[uid] for uid in (uid_of(pod), *owners) if uid in self._scripts)
        script = script_of(pod, next(known, self._default))
        return script.containers.get(container, script)

    async def listen(self, ended: Callable[[ContainerRun], None], began: Callable[[], None]) -> None:
        self._ended = lambda run: None  # What ended while no agent ran is in the listing.
        for id_, (when_ns, code, signal) in sorted(self._machine.ends.items()):
            left_s = (when_ns - self._clock.monotonic_ns()) / SECOND_NS
            if left_s > 0:
                self._end_in(id_, left_s, code, signal)
            else:
                self._end(id_, code, signal)
        self._ended = ended
        began()
        await asyncio.get_running_loop().create_future()

    async def listing(self) -> tuple[KeptContainer, ...]:
        return tuple(self._machine.kept(uid) for uid in self._pods)

    async def admit(self, pod: Obj) -> KeptContainer:
        uid = uid_of(pod)
        if uid not in self._pods:
            self._pods[uid] = KeptContainer(pod, self._address_of(pod))
            for run in _reported(pod, "" if self._takes_over else SCHEME):
                self._machine.note(run)
                if run.exit is None:
                    self._live(run, pod)
                self._machine.tell("adopted", run)
        return self._machine.kept(uid)

    def _address_of(self, pod: Obj) -> str:
        addresses, uid = self._machine.addresses, uid_of(pod)
        if uid not in addresses:
            taken = set(addresses.values())
            reported_ip = str(lookup(pod, "status", "podIP") or "")
            free = reported_ip and reported_ip not in taken
            ip = reported_ip if free else next_address(self._range, taken.union(self._reported()), self._last)
            self._last = ip or self._last
            addresses[uid] = ip or ""
        return addresses[uid]

    async def start(self, launch: Launch) -> ContainerRun | ContainerNotStarted:
        script, attempt = self._script(launch.pod, launch.container), launch.attempt
        fail = fails_at(script, attempt)
        asked = MachineEvent(
            "asked", uid_of(launch.pod), launch.container, None, pod=launch.pod, attempt=attempt
        )
        self._machine.observe(asked)
        await asyncio.sleep(script.image_s)
        if fail == "image":
            return ContainerNotStarted("ImagePullBackOff", "the script says that the image cannot be fetched")
        await asyncio.sleep(script.start_s)
        if fail == "start":
            return ContainerNotStarted(
                "RunContainerError", "the script says that the container cannot be started"
            )
        uid, now_ns = uid_of(launch.pod), self._clock.now_ns()
        id_ = f"{SCHEME}{uid}/{launch.container}/{attempt}"
        container = next(
            (candidate.spec for candidate in containers_of(launch.pod) if candidate.name == launch.container),
            {},
        )
        image = str(container.get("image") or "")
        run = ContainerRun(uid, launch.container, attempt, id_, now_ns, launch.crashes, image=image)
        self._machine.note_start(run)
        self._live(run, launch.pod)
        self._machine.tell("started", run)
        return run

    async def signal(self, run: ContainerRun, *, kill: bool) -> None:
        if run.id not in self._runs:
            return
        pod = self._pods[run.uid].pod
        self._machine.tell("kill" if kill else "term", run)
        if kill:
            self._end(run.id, 137, 9)
        else:
            self._end_in(run.id, self._script(pod, run.container).stop_s, 143, 15)

    async def probe(self, run: ContainerRun, pod: Obj, probe: Obj, *, ip: str) -> ProbeResult:
        if run.id not in self._runs:
            return ProbeResult(False, "the container is not running")
        probed = self._probe(run, pod, probe)
        self._machine.observe(
            MachineEvent("probed", run.uid, run.container, run, pod=pod, probe=probe, ok=probed.ok)
        )
        return probed

    def _probe(self, run: ContainerRun, pod: Obj, probe: Obj) -> ProbeResult:
        script = self._script(pod, run.container)
        if probe.get("hook"):
            return ProbeResult(True)
        if fails_at(script, run.attempt) in {"readiness", "liveness"}:
            return ProbeResult(False, "the script says that this probe fails")
        if self._clock.monotonic_ns() < self._began_ns[run.id] + script.ready_s * SECOND_NS:
            return ProbeResult(False, "connection refused")
        if script.falters and self._count(run.id, "") % script.falters == 0:
            return ProbeResult(False, "the script says that every n-th probe fails")
        if script.flaps and self._fails_now(run, script, _port_of(probe)):
            return ProbeResult(False, "the script says that this probe fails this time")
        # In a fork, probing all pods for ever would be most of its work.
        return ProbeResult(True, final=self._takes_over and not script.falters and not script.flaps)

    def _fails_now(self, run: ContainerRun, script: Script, port: str) -> bool:
        if 0 <= script.fails <= run.attempt:
            return False
        number = self._count(run.id, port) - 1
        return script.flaps.get(port, "")[number : number + 1] == "x"

    def _count(self, id_: str, port: str) -> int:
        counts = self._probed.setdefault(id_, Counter())
        counts[port] += 1
        return counts[port]

    async def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._machine.addresses.pop(uid, None)
        self._machine.last_runs.pop(uid, None)

    def usage(self, node: str, window_s: float) -> NodeUsage:
        """Usage of each container by its script; by default half of its requests."""
        pods = []
        for uid, kept in self._pods.items():
            alive = [run.container for run in self._runs.values() if run.uid == uid]
            used = tuple(self._container_usage(kept.pod, name) for name in alive)
            if used:
                key = key_of(kept.pod)
                pods.append(PodUsage(key.namespace, key.name, uid, used))
        every = [container for pod in pods for container in pod.containers]
        cpu_nano, memory = (
            sum(container.cpu_nano for container in every),
            sum(container.memory_bytes for container in every),
        )
        window_ns = round(window_s * SECOND_NS)
        return NodeUsage(node, self._clock.now_ns(), window_ns, cpu_nano, memory, tuple(pods))

    def _container_usage(self, pod: Obj, name: str) -> ContainerUsage:
        script = self._script(pod, name)
        container = next((candidate.spec for candidate in containers_of(pod) if candidate.name == name), {})
        requests = container_amounts(container, REQUESTS)
        cpu = script.cpu_milli if script.cpu_milli >= 0 else requests.get("cpu", of_milli(10)).milli // 2
        memory = script.memory_bytes
        if memory < 0:
            memory = requests.get("memory", of_value(16 << 20)).value // 2
        return ContainerUsage(name, cpu * 1_000_000, memory)

    # Runs.

    def _live(self, run: ContainerRun, pod: Obj) -> None:
        self._runs[run.id] = run
        script = self._script(pod, run.container)
        age_s = max(0.0, (self._clock.now_ns() - run.started_ns) / SECOND_NS)
        self._began_ns[run.id] = self._clock.monotonic_ns() - round(age_s * SECOND_NS)
        if fails_at(script, run.attempt) == "crash":
            self._end_in(run.id, max(0.0, script.crash_s - age_s), script.exit_code or 1)
        elif script.runs_s is not None:
            self._end_in(run.id, max(0.0, script.runs_s - age_s), script.exit_code)

    def _end_in(self, id_: str, seconds: float, code: int, signal: int = 0) -> None:
        if id_ in self._timers:
            self._timers[id_].cancel()
        loop = asyncio.get_running_loop()
        self._machine.ends[id_] = (self._clock.monotonic_ns() + round(seconds * SECOND_NS), code, signal)
        self._timers[id_] = loop.call_later(seconds, self._end, id_, code, signal)

    def _end(self, id_: str, code: int, signal: int = 0) -> None:
        run = self._runs.pop(id_, None)
        self._probed.pop(id_, None)
        self._began_ns.pop(id_, None)
        self._machine.ends.pop(id_, None)
        timer = self._timers.pop(id_, None)
        if timer is not None:
            timer.cancel()
        if run is not None:
            ended = msgspec.structs.replace(run, exit=Exit(code, self._clock.now_ns(), signal))
            self._machine.note(ended)
            self._machine.tell("ended", ended)
            self._ended(ended)


def _port_of(probe: Obj) -> str:
    return str(lookup(probe, "tcpSocket", "port") or lookup(probe, "httpGet", "port") or "")


def _reported(pod: Obj, scheme: str) -> list[ContainerRun]:
    """Runs in the pod's status whose ids begin with the scheme."""
    runs = []
    for field in ("initContainerStatuses", "containerStatuses"):
        for status in lookup(pod, "status", field) or ():
            id_ = str(status.get("containerID") or "")
            if id_ and id_.startswith(scheme):
                runs += _run(uid_of(pod), status, id_)
    return runs


def _run(uid: str, status: Obj, id_: str) -> list[ContainerRun]:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    attempt = int(status.get("restartCount") or 0)
    if running := state.get("running"):
        return [ContainerRun(uid, status["name"], attempt, id_, ns_of(running["startedAt"]), attempt)]
    ended = state.get("terminated") or last.get("terminated")
    if not ended or not ended.get("finishedAt"):
        return []
    exit_ = Exit(int(ended.get("exitCode") or 0), ns_of(ended["finishedAt"]), int(ended.get("signal") or 0))
    return [ContainerRun(uid, status["name"], attempt, id_, ns_of(ended["startedAt"]), attempt, exit_)]
