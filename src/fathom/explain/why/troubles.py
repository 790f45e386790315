"""What keeps one container from being ready, from its agent's report. Pure.

The order is that in which a start can fail: image, configuration, command; then what happens while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from fathom.explain.why import commands
from fathom.explain.why.answer import Change
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.model.objects import Obj, lookup
from fathom.model.quantity import BINARY, of_value, parse
from fathom.model.reasons import CONFIG, IMAGE, container_boundary

NOT_FOUND = re.compile(r'(configmap|secret) "([^"]+)" not found')
NO_KEY = re.compile(r"couldn't find key (\S+) in (configmap|secret) \"([^\"]+)\"")
NO_ITEM = re.compile(r'(configmap|secret) "([^"]+)" references non-existent key: (\S+)')
START_ERROR, OUT_OF_MEMORY = "StartError", "OOMKilled"
KINDS = {"configmap": "ConfigMap", "secret": "Secret"}
PROBE_FAILED = re.compile(r"failed (liveness|startup) probe")
# How much of the memory limit a failed program must have used to be called out of memory. Without cgroups the
# kernel refuses memory instead of killing: the program ends by itself, somewhat below the limit.
NEAR_LIMIT = 0.8
PEAK = re.compile(r"memory peak (\d+) of the limit (\d+) bytes")


class Trouble(msgspec.Struct, frozen=True):
    """`severity`: of several containers the one with the lowest is the cause."""

    severity: int
    cause: str
    change: Change | None = None


def trouble_of(container: ContainerFacts, case: PodCase) -> Trouble | None:
    return next((trouble for look in LOOKS if (trouble := look(container, case)) is not None), None)


# It cannot be started.


def _image(container: ContainerFacts, case: PodCase) -> Trouble | None:
    waiting = container.waiting
    if container_boundary(str(waiting.get("reason"))) != IMAGE:
        return None
    image = container.spec.get("image", "")
    operation: commands.Operation = {
        "op": "replace", "path": f"/spec/{container.field}/{container.index}/image", "value": "IMAGE",
    }  # fmt: skip
    change = Change(
        f"correct the image of container {container.name}",
        commands.spec_change(case, [operation], in_place=True),
        commands.owner_text(case),
    )
    cause = f"image {image!r} of container {container.name} cannot be pulled ({waiting.get('reason')}"
    return Trouble(0, f"{cause}: {_short(waiting.get('message'))})", change)


def _config(container: ContainerFacts, case: PodCase) -> Trouble | None:
    waiting = container.waiting
    if container_boundary(str(waiting.get("reason"))) != CONFIG:
        return None
    message = str(waiting.get("message") or "")
    missing = missing_reference(message, case.pod)
    if missing is None:
        change = Change(f"correct what container {container.name} refers to", "", commands.owner_text(case))
        return Trouble(1, f"container {container.name} cannot be configured: {_short(message)}", change)
    kind, name, key, exists = missing
    said = f"container {container.name} needs {f'key {key} of ' if key else ''}{KINDS[kind]} {name}"
    return Trouble(
        1,
        f"{said}, which does not exist" if not exists else f"{said}, which has no such key",
        _create(case, kind, name, key, exists=exists),
    )


def missing_reference(message: str, pod: Obj) -> tuple[str, str, str, bool] | None:
    """(kind, name, key, whether the object exists). A whole object may be missing of which the pod wants one
    key: then the key is named."""
    if match := NO_KEY.search(message):
        return match[2], match[3], match[1], True
    if match := NO_ITEM.search(message):
        return match[1], match[2], match[3], True
    if match := NOT_FOUND.search(message):
        return match[1], match[2], _wanted_key(pod, match[1], match[2]), False
    return None


def _wanted_key(pod: Obj, kind: str, name: str) -> str:
    field = "configMapKeyRef" if kind == "configmap" else "secretKeyRef"
    for listed in ("initContainers", "containers"):
        for container in lookup(pod, "spec", listed) or ():
            for variable in container.get("env") or ():
                reference = lookup(variable, "valueFrom", field) or {}
                if reference.get("name") == name:
                    return str(reference.get("key") or "")
    return ""


def _create(case: PodCase, kind: str, name: str, key: str, *, exists: bool) -> Change:
    namespace, who = case.key.namespace, commands.owner_text(case)
    with_key = f" with key {key}" if key else ""
    if not exists:
        literal = (f"--from-literal={key}=VALUE",) if key else ()
        words = (
            ("create", "configmap", name) if kind == "configmap" else ("create", "secret", "generic", name)
        )
        command = commands.kubectl(*words, *literal, namespace=namespace)
        return Change(f"create {KINDS[kind]} {name}{with_key}", command, who)
    field = "data" if kind == "configmap" else "stringData"
    command = commands.merge_patch(kind, name, {field: {key: "VALUE"}}, namespace=namespace)
    return Change(f"add key {key} to {KINDS[kind]} {name}", command, who)


def _command(container: ContainerFacts, case: PodCase) -> Trouble | None:
    ended = container.ended
    if ended.get("reason") != START_ERROR or container.is_running:
        return None
    words = [*(container.spec.get("command") or ()), *(container.spec.get("args") or ())]
    shown = f" {words[0]!r}" if words else ""
    cause = (
        f"the command{shown} of container {container.name} cannot be started: {_short(ended.get('message'))}"
    )
    operation: commands.Operation = {
        "op": "replace", "path": f"/spec/{container.field}/{container.index}/command", "value": ["PROGRAM"],
    }  # fmt: skip
    change = Change(
        f"correct the command of container {container.name}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )
    return Trouble(2, cause, change)


def _not_created(container: ContainerFacts, case: PodCase) -> Trouble | None:
    """Other reasons why the agent could not start it: its disk, its runtime."""
    reason = str(container.waiting.get("reason") or "")
    if reason in {"", "CrashLoopBackOff", "ContainerCreating", "PodInitializing"}:
        return None
    cause = (
        f"container {container.name} cannot be started ({reason}: {_short(container.waiting.get('message'))})"
    )
    change = Change(
        f"repair node {case.node}", commands.kubectl("describe", "node", case.node), "a cluster operator"
    )
    return Trouble(3, cause, change)


# It ran, and ended.


def _memory(container: ContainerFacts, case: PodCase) -> Trouble | None:
    ended = container.ended
    limit = memory_limit(container, case.pod)
    peak = PEAK.search(str(ended.get("message") or ""))
    killed = ended.get("reason") == OUT_OF_MEMORY
    near = peak is not None and int(peak[1]) >= NEAR_LIMIT * int(peak[2]) and bool(ended.get("exitCode"))
    if not (killed or near) or _is_well_again(container):
        return None
    of_limit = f"its limit is {limit}" if limit else "it has no limit of its own"
    used = f" and its peak was {_bytes(int(peak[1]))}" if peak is not None else ""
    said = (
        "was killed for memory"
        if killed
        else f"ended with code {ended.get('exitCode')}, inferred: out of memory"
    )
    return Trouble(
        4,
        f"container {container.name} {said}: {of_limit}{used}{_restarts(container)}",
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
    path = f"/spec/{container.field}/{container.index}/resources/limits/memory"
    operation: commands.Operation = {"op": "replace", "path": path, "value": doubled}
    return Change(
        f"raise the memory limit of container {container.name} above {limit}, for example to {doubled}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )


def _bytes(amount: int) -> str:
    """In whole Mi where that loses little."""
    mebi = 1 << 20
    return str(of_value(amount // mebi * mebi if amount > 8 * mebi else amount, BINARY))


def _killed_by_probe(container: ContainerFacts, case: PodCase) -> Trouble | None:
    """Its liveness or startup probe failed, so that the agent restarted it."""
    if _is_well_again(container):
        return None
    message = str(container.ended.get("message") or "") or _killing_event(container, case)
    match = PROBE_FAILED.search(message)
    if match is None:
        return None
    kind, answer = match[1], message.partition("will be restarted: ")[2]
    cause = f"the {kind} probe of container {container.name} fails, so it is restarted{_restarts(container)}"
    return Trouble(5, f"{cause}: {_short(answer)}" if answer else cause, _probe_change(kind, container, case))


def _killing_event(container: ContainerFacts, case: PodCase) -> str:
    """Agents before this one did not put the reason into the status, but into an Event."""
    if not container.ended:
        return ""
    path = f"{{{container.name}}}"
    killed = [
        str(event.get("message") or "")
        for event in case.events
        if event.get("reason") == "Killing"
        and str(lookup(event, "involvedObject", "fieldPath")).endswith(path)
    ]
    return killed[-1] if killed else ""


def _crash(container: ContainerFacts, case: PodCase) -> Trouble | None:
    ended = container.ended
    if not ended or container.is_running or (container.is_init and not ended.get("exitCode")):
        return None
    if container.waiting.get("reason") != "CrashLoopBackOff" and not ended.get("exitCode"):
        return None
    code, message = ended.get("exitCode"), str(ended.get("message") or "")
    signal = f" (signal {ended['signal']})" if ended.get("signal") else ""
    cause = f"container {container.name} ends with code {code}{signal}{_restarts(container)}"
    previous = ("-p",) if lookup(container.status, "state", "terminated") is None else ()
    command = commands.kubectl(
        "logs", case.key.name, "-c", container.name, *previous, namespace=case.key.namespace
    )
    change = Change(f"read its log and correct the program: {command}", command, commands.owner_text(case))
    return Trouble(6, f"{cause}: {_short(message)}" if message else cause, change)


def _restarts(container: ContainerFacts) -> str:
    count = int(container.status.get("restartCount") or 0)
    return f" (restarted {count} time{'s' if count > 1 else ''})" if count else ""


def _is_well_again(container: ContainerFacts) -> bool:
    return container.is_running and bool(container.status.get("ready"))


# It runs, and is not ready.


def _probe(container: ContainerFacts, case: PodCase) -> Trouble | None:
    if not container.is_running or container.status.get("ready") or container.is_init:
        return None
    starting = case.condition("Starting")
    message = str(starting.get("message") or "")
    name, _, said = message.partition(": ")
    said = said if name == container.name else _unhealthy_event(container, case)
    kind = said.partition(" probe")[0] if " probe failed" in said else _unpassed(container)
    if not kind:
        return None
    answer = said.partition("probe failed: ")[2]
    cause = f"the {kind} probe of container {container.name} " + (
        f"fails: {_short(answer)}" if answer else "has not passed yet"
    )
    return Trouble(7, cause, _probe_change(kind, container, case))


def _unpassed(container: ContainerFacts) -> str:
    if not container.status.get("started") and "startupProbe" in container.spec:
        return "startup"
    return "readiness" if "readinessProbe" in container.spec else ""


def _unhealthy_event(container: ContainerFacts, case: PodCase) -> str:
    path = f"{{{container.name}}}"
    said = [
        str(event.get("message") or "")
        for event in case.events
        if event.get("reason") == "Unhealthy"
        and str(lookup(event, "involvedObject", "fieldPath")).endswith(path)
        and not str(event.get("message")).startswith("Liveness")
    ]
    return said[-1][:1].lower() + said[-1][1:] if said else ""


def _probe_change(kind: str, container: ContainerFacts, case: PodCase) -> Change:
    probe = container.spec.get(f"{kind}Probe") or {}
    return Change(
        f"make container {container.name} answer {probe_text(probe)}, or correct its {kind} probe",
        commands.kubectl("logs", case.key.name, "-c", container.name, namespace=case.key.namespace),
        commands.owner_text(case),
    )


def probe_text(probe: Obj) -> str:
    """'GET :8080/ready', as its author wrote it."""
    if http := probe.get("httpGet"):
        return f"GET :{http.get('port')}{http.get('path') or '/'}"
    if tcp := probe.get("tcpSocket"):
        return f"TCP port {tcp.get('port')}"
    if grpc := probe.get("grpc"):
        return f"gRPC port {grpc.get('port')}"
    command = lookup(probe, "exec", "command")
    return f"the command {' '.join(map(str, command))!r}" if command else "its probe"


def _creating(container: ContainerFacts, case: PodCase) -> Trouble | None:
    """Nothing is wrong that is known of: its agent has not started it yet, or an init container runs."""
    if container.ended or (container.is_running and not container.is_init):
        return None
    if container.is_running:
        return Trouble(8, f"init container {container.name} has not ended yet")
    return Trouble(9, f"container {container.name} is being started")


def _short(message: object) -> str:
    """One line of a message."""
    lines = str(message or "no message").strip().splitlines()
    return (lines[-1] if len(lines) > 1 else lines[0] if lines else "no message")[:300]


LOOKS: tuple[Callable[[ContainerFacts, PodCase], Trouble | None], ...] = (
    _image, _config, _command, _not_created, _memory, _killed_by_probe, _crash, _probe, _creating,
)  # fmt: skip
