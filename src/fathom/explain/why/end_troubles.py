"""A container ran, and ended: for memory, by a probe or a hook, by itself."""

from __future__ import annotations

from fathom.controllers.progress.crash_loops import STABLE, stable_s
from fathom.explain import kubernetes_texts
from fathom.explain.why import commands, container_settings
from fathom.explain.why.answer import Change
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.explain.why.probe_troubles import probe_change
from fathom.explain.why.trouble import Trouble, is_since, one_line, time_ns
from fathom.model.objects import Obj, lookup
from fathom.model.quantity import BINARY, of_value, parse
from fathom.model.reasons import (
    LIVENESS_FAILED,
    MEMORY_REFUSED,
    OOM_KILLED,
    STARTUP_FAILED,
)
from fathom.model.times import SECOND_NS

PROBE_ENDS = {LIVENESS_FAILED: "liveness", STARTUP_FAILED: "startup"}
# A container that has run for so many times as long as the run that failed does not fail in the same way.
LONGER = 2


def memory_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    ended = container.ended
    limit = memory_limit(container, case.pod)
    killed = ended.get("reason") == OOM_KILLED
    if not (killed or ended.get("reason") == MEMORY_REFUSED) or _is_over(container, case):
        return None
    of_limit = f"its limit is {limit}" if limit else "it has no limit of its own"
    used = f", {one_line(ended['message'])}" if ended.get("message") else ""
    end = (
        "was killed for memory"
        if killed
        else f"ended with code {ended.get('exitCode')}, inferred: out of memory"
    )
    return Trouble(
        4,
        f"container {container.name} {end}: {of_limit}{used}{_restarts(container)}",
        _raise_memory(container, case),
    )


def memory_limit(container: ContainerFacts, pod: Obj) -> str:
    own = lookup(container.spec, "resources", "limits", "memory")
    return str(own or lookup(pod, "spec", "resources", "limits", "memory") or "")


def _raise_memory(container: ContainerFacts, case: PodCase) -> Change:
    limit = lookup(container.spec, "resources", "limits", "memory")
    if not limit:
        return Change(f"give container {container.name} more memory", "", commands.owner_text(case))
    doubled = _bytes(2 * parse(str(limit)).value)
    operation = commands.set_container_field(case, container, ("resources", "limits", "memory"), doubled)
    return Change(
        f"raise the memory limit of container {container.name} above {limit}, for example to {doubled}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )


def _bytes(amount: int) -> str:
    """In whole Mi where that loses little."""
    mebi = 1 << 20
    return str(of_value(amount // mebi * mebi if amount > 8 * mebi else amount, BINARY))


def killed_by_probe_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    """Its liveness or startup probe failed, so that the agent restarted it."""
    if _is_over(container, case):
        return None
    message = str(container.ended.get("message") or "") or _killing_event(container, case)
    failed = kubernetes_texts.killed_by_probe(message)
    kind = PROBE_ENDS.get(str(container.ended.get("reason")), "") or (
        failed.kind if failed is not None else ""
    )
    if not kind:
        return None
    answer = failed.answer if failed is not None else message
    cause = f"the {kind} probe of container {container.name} fails, so it is restarted{_restarts(container)}"
    return Trouble(
        5, f"{cause}: {one_line(answer)}" if answer else cause, probe_change(kind, container, case)
    )


def _killing_event(container: ContainerFacts, case: PodCase) -> str:
    """Other kubelets do not put the reason into the status, but into an Event."""
    if not container.ended:
        return ""
    path = f"{{{container.name}}}"
    killed = [
        str(event.get("message") or "")
        for event in case.events
        if event.get("reason") == "Killing"
        and str(lookup(event, "involvedObject", "fieldPath")).endswith(path)
        and is_since(event, container.ended.get("startedAt"))
    ]
    return killed[-1] if killed else ""


def failed_hook_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    failed = container_settings.failed_hook(container, case)
    if failed is None or _is_over(container, case):
        return None
    answer, change = failed
    cause = (
        f"the postStart hook of container {container.name} fails, so it is restarted{_restarts(container)}"
    )
    return Trouble(5, f"{cause}: {one_line(answer)}", change)


def crash_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    ended = container.ended
    if not ended or container.is_running or (container.is_init and not ended.get("exitCode")):
        return None
    if container.waiting.get("reason") != "CrashLoopBackOff" and not ended.get("exitCode"):
        return None
    code, message = ended.get("exitCode"), str(ended.get("message") or "")
    signal = f" (signal {ended['signal']})" if ended.get("signal") else ""
    again = "" if code else f", and restartPolicy {_restart_policy(container, case)} starts it again"
    cause = f"container {container.name} ends with code {code}{signal}{again}{_restarts(container)}"
    previous = ("-p",) if lookup(container.status, "state", "terminated") is None else ()
    command = commands.kubectl(
        "logs", case.key.name, "-c", container.name, *previous, namespace=case.key.namespace
    )
    corrected = (
        "read its log and correct the program" if code else "make its program go on, or run it as a Job"
    )
    change = Change(f"{corrected}: {command}", command, commands.owner_text(case))
    return Trouble(6, f"{cause}: {one_line(message)}" if message else cause, change)


def completed_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
    """It ended well, and is not started again: the pod is not ready as long as the others run."""
    if container.is_init or lookup(container.status, "state", "terminated", "exitCode") != 0:
        return None
    policy = _restart_policy(container, case)
    cause = (
        f"container {container.name} has ended with code 0 and is not started again (restartPolicy {policy})"
    )
    change = Change(f"make the program of container {container.name} go on", "", commands.owner_text(case))
    return Trouble(7, cause, change)


def _restart_policy(container: ContainerFacts, case: PodCase) -> str:
    return str(container.spec.get("restartPolicy") or lookup(case.pod, "spec", "restartPolicy") or "Always")


def _restarts(container: ContainerFacts) -> str:
    count = int(container.status.get("restartCount") or 0)
    return f" (restarted {count} time{'s' if count > 1 else ''})" if count else ""


def _is_over(container: ContainerFacts, case: PodCase) -> bool:
    """Whether the failure of the last run is left behind: the container is ready, or has run for as long as
    it has to after so many restarts, and for much longer than the run that failed."""
    if not container.is_running or container.status.get("ready"):
        return container.is_running
    started_ns = time_ns(lookup(container.status, "state", "running", "startedAt"))
    failed_ns = time_ns(container.ended.get("finishedAt")) - time_ns(container.ended.get("startedAt"))
    stable_after_s = stable_s(int(container.status.get("restartCount") or 0))
    needed_s = min(max(stable_after_s, LONGER * failed_ns / SECOND_NS), STABLE.s_max)
    return (case.evidence.now_ns - started_ns) / SECOND_NS >= needed_s
