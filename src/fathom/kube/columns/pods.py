"""Table columns of pods: ready containers, status, restarts."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.kube.columns.texts import NONE, condition, is_true, items, number, part, text
from fathom.kube.columns.times import since
from fathom.model.objects import Obj, is_deleting
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.times import moment_ns


class _Sum(msgspec.Struct):
    """The sum over a pod's containers so far."""

    reason: str
    ready: int = 0
    restarts: int = 0
    restarted_ns: int = 0
    restarted_at: str = ""
    initializing: bool = False

    def restarted(self, status: Obj) -> None:
        self.restarts += number(status, "restartCount")
        ended = text(status, "lastState", "terminated", "finishedAt")
        ended_ns = moment_ns(ended) or 0
        if ended_ns > self.restarted_ns:
            self.restarted_ns, self.restarted_at = ended_ns, ended


def _summary(pod: Obj) -> _Sum:
    """Init containers first: while one of them is not done, it alone determines the status."""
    reason = text(pod, "status", "reason") or text(pod, "status", "phase")
    if condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    total = _Sum(reason)
    sidecars = _Sum("")  # Restarts of sidecars count also after initialization.
    _add_init(pod, total, sidecars)
    if not total.initializing or is_true(pod, "Initialized"):
        total.restarts, total.restarted_ns = sidecars.restarts, sidecars.restarted_ns
        total.restarted_at = sidecars.restarted_at
        _add_regular(pod, total)
    if is_deleting(pod):
        if text(pod, "status", "reason") == "NodeLost":
            total.reason = "Unknown"
        elif text(pod, "status", "phase") not in TERMINAL_PHASES:
            total.reason = "Terminating"
    return total


def _add_init(pod: Obj, total: _Sum, sidecars: _Sum) -> None:
    containers = {container.get("name"): container for container in items(pod, "spec", "initContainers")}
    for index, status in enumerate(items(pod, "status", "initContainerStatuses")):
        total.restarted(status)
        keeps_running = part(containers, status.get("name", "")).get("restartPolicy") == "Always"
        if keeps_running:
            sidecars.restarted(status)
        state = part(status, "state")
        ended, waiting = state.get("terminated"), text(state, "waiting", "reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if keeps_running and status.get("started"):
            total.ready += bool(status.get("ready"))
            continue
        if ended is not None:
            total.reason = f"Init:{_end_reason(ended)}"
        elif waiting and waiting != "PodInitializing":
            total.reason = f"Init:{waiting}"
        else:
            total.reason = f"Init:{index}/{len(containers)}"
        total.initializing = True
        return


def _add_regular(pod: Obj, total: _Sum) -> None:
    running, failure = False, ""
    for status in reversed(items(pod, "status", "containerStatuses")):
        total.restarted(status)
        state = part(status, "state")
        ended, waiting = state.get("terminated"), text(state, "waiting", "reason")
        if waiting:
            total.reason = waiting
        elif ended is not None:
            total.reason = _end_reason(ended)
            if ended.get("exitCode"):
                failure = total.reason
        elif status.get("ready") and "running" in state:
            running = True
            total.ready += 1
    if total.reason == "Completed":
        total.reason = _completed_reason(pod, failure, running=running)


def _completed_reason(pod: Obj, failure: str, *, running: bool) -> str:
    """The reason when a container is completed, while others may still run."""
    if running and is_true(pod, "Ready"):
        return "Running"
    if failure:
        return failure
    return "NotReady" if running else "Completed"


def _end_reason(ended: Obj) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def pod_ready(pod: Obj, now_ns: int) -> str:
    init = items(pod, "spec", "initContainers")
    total = len(items(pod, "spec", "containers"))
    total += sum(container.get("restartPolicy") == "Always" for container in init)
    return f"{_summary(pod).ready}/{total}"


def pod_status(pod: Obj, now_ns: int) -> str:
    return _summary(pod).reason


def pod_restarts(pod: Obj, now_ns: int) -> str:
    total = _summary(pod)
    if total.restarts and total.restarted_at:
        return f"{total.restarts} ({since(total.restarted_at, now_ns)} ago)"
    return str(total.restarts)


def pod_ip(pod: Obj, now_ns: int) -> str:
    ips = items(pod, "status", "podIPs")
    return text(ips[0], "ip", missing=NONE) if ips else text(pod, "status", "podIP", missing=NONE)


def pod_readiness_gates(pod: Obj, now_ns: int) -> str:
    gates = items(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(is_true(pod, gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"


def pod_conditions(pod: Obj) -> list[Any]:
    """The row's conditions: they let kubectl hide a pod that has finished."""
    phase = text(pod, "status", "phase")
    message = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}.get(phase)
    if message is None:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
