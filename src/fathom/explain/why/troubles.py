"""What keeps one container from being ready, from its agent's report. Pure.

The order is that in which a start can fail: image, configuration, command; then what happens while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from fathom.controllers.progress.crash_loops import STABLE, stable_s
from fathom.explain import kubernetes_texts
from fathom.explain.kubernetes_texts import FailedProbe, MissingReference
from fathom.explain.why import commands, container_settings
from fathom.explain.why.answer import Change
from fathom.explain.why.case import ContainerFacts, PodCase, event_time_ns
from fathom.model.objects import Key, Obj, lookup
from fathom.model.quantity import BINARY, of_value, parse
from fathom.model.reasons import (
    CONFIG,
    IMAGE,
    LIVENESS_FAILED,
    MEMORY_REFUSED,
    OOM_KILLED,
    STARTUP_FAILED,
    container_boundary,
)
from fathom.model.times import SECOND_NS, moment_ns

START_ERROR = "StartError"
KINDS = {"configmap": "ConfigMap", "secret": "Secret"}
# Of a variable, of a volume, and the name of the object in a volume.
REFERENCE_FIELDS = {
    "configmap": ("configMapKeyRef", "configMap", "name"),
    "secret": ("secretKeyRef", "secret", "secretName"),
}
SOURCE_FIELDS = {"configmap": "configMapRef", "secret": "secretRef"}  # Of all variables from one object.
WAITING_FOR_PROBE = "WaitingForProbe"  # The agent's reason of the condition Starting.
PROBE_ENDS = {LIVENESS_FAILED: "liveness", STARTUP_FAILED: "startup"}
# A container that has run for so many times as long as the run that failed does not fail in the same way.
LONGER = 2


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
    operation = commands.set_container_field(case, container, ("image",), "IMAGE")
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
    missing = next(missing_references(container, case), None) or reported_missing(message, case)
    if missing is None:
        return _settings(container, case, message)
    kind, name, keys, exists = missing.kind, missing.name, missing.keys, missing.exists
    listed = f"key{'s' if len(keys) > 1 else ''} {' and '.join(keys)} of " if keys else ""
    wants = f"container {container.name} needs {listed}{KINDS[kind]} {name}"
    return Trouble(
        1,
        f"{wants}, which has no such key" if exists else f"{wants}, which does not exist",
        _create(case, kind, name, keys, exists=exists),
    )


def _settings(container: ContainerFacts, case: PodCase, message: str) -> Trouble:
    known = (
        container_settings.missing_account(case)
        or container_settings.unmounted_volume(case)
        or container_settings.root_refused(container, case)
    )
    if known is not None:
        return Trouble(1, *known)
    command = commands.kubectl("describe", "pod", case.key.name, namespace=case.key.namespace)
    change = Change(f"correct what container {container.name} refers to", command, commands.owner_text(case))
    return Trouble(1, f"container {container.name} cannot be configured: {_short(message)}", change)


def missing_references(container: ContainerFacts, case: PodCase) -> Iterator[MissingReference]:
    """ConfigMaps and Secrets that the container or the pod's volumes want, as they are now."""
    for kind, name in dict.fromkeys(_references(container, case.pod)):
        if not case.evidence.knows(f"{kind}s"):
            continue
        obj = case.evidence.objects.get(f"{kind}s", Key(case.key.namespace, name))
        if obj is None:
            yield MissingReference(kind, name, tuple(sorted(wanted_keys(case.pod, kind, name))))
        elif absent := _absent_keys(case, kind, name):
            yield MissingReference(kind, name, tuple(sorted(absent)), exists=True)


def _references(container: ContainerFacts, pod: Obj) -> Iterator[tuple[str, str]]:
    """(kind, name) of what the container cannot start without."""
    for kind, (variable_field, volume_field, name_field) in REFERENCE_FIELDS.items():
        sources = [lookup(each, "valueFrom", variable_field) for each in container.spec.get("env") or ()]
        sources += [each.get(SOURCE_FIELDS[kind]) for each in container.spec.get("envFrom") or ()]
        for volume in lookup(pod, "spec", "volumes") or ():
            parts = (volume, *(lookup(volume, "projected", "sources") or ()))
            sources += [part.get(volume_field) for part in parts]
        for source in sources:
            name = (source or {}).get("name") or (source or {}).get(name_field)
            if name and not source.get("optional"):
                yield kind, str(name)


def reported_missing(message: str, case: PodCase) -> MissingReference | None:
    """As a kubelet reports the first that is missing; the pod may want more keys of the object, and starts
    only with all of them."""
    missing = kubernetes_texts.missing_reference(message)
    if missing is None:
        return None
    others = _absent_keys if missing.exists else _wanted_keys
    absent = sorted({*missing.keys, *others(case, missing.kind, missing.name)})
    return msgspec.structs.replace(missing, keys=tuple(absent))


def _wanted_keys(case: PodCase, kind: str, name: str) -> set[str]:
    return wanted_keys(case.pod, kind, name)


def wanted_keys(pod: Obj, kind: str, name: str) -> set[str]:
    """The keys of a ConfigMap or Secret that the pod cannot start without."""
    variable_field, volume_field, name_field = REFERENCE_FIELDS[kind]
    references = [
        reference
        for field in ("initContainers", "containers")
        for container in lookup(pod, "spec", field) or ()
        for variable in container.get("env") or ()
        if (reference := lookup(variable, "valueFrom", variable_field)) and reference.get("name") == name
    ]
    for volume in lookup(pod, "spec", "volumes") or ():
        for source in (volume, *(lookup(volume, "projected", "sources") or ())):
            held = source.get(volume_field) or source.get(kind) or {}
            if name in {held.get(name_field), held.get("name")} and not held.get("optional"):
                references += held.get("items") or ()
    return {str(each["key"]) for each in references if each.get("key") and not each.get("optional")}


def _absent_keys(case: PodCase, kind: str, name: str) -> set[str]:
    """The keys that the pod wants and an object that exists does not have."""
    obj = case.evidence.objects.get(f"{kind}s", Key(case.key.namespace, name))
    present = {key for field in ("data", "binaryData") for key in (obj or {}).get(field) or ()}
    return wanted_keys(case.pod, kind, name) - present if obj is not None else set()


def _create(case: PodCase, kind: str, name: str, keys: Sequence[str], *, exists: bool) -> Change:
    namespace, who = case.key.namespace, commands.owner_text(case)
    listed = f"key{'s' if len(keys) > 1 else ''} {' and '.join(keys)}"
    if not exists:
        literals = [f"--from-literal={key}=VALUE" for key in keys]
        words = (
            ("create", "configmap", name) if kind == "configmap" else ("create", "secret", "generic", name)
        )
        command = commands.kubectl(*words, *literals, namespace=namespace)
        return Change(f"create {KINDS[kind]} {name}{f' with {listed}' if keys else ''}", command, who)
    field = "data" if kind == "configmap" else "stringData"
    command = commands.merge_patch(kind, name, {field: dict.fromkeys(keys, "VALUE")}, namespace=namespace)
    return Change(f"add {listed} to {KINDS[kind]} {name}", command, who)


def _command(container: ContainerFacts, case: PodCase) -> Trouble | None:
    ended = container.ended
    if ended.get("reason") != START_ERROR or container.is_running:
        return None
    words = [*(container.spec.get("command") or ()), *(container.spec.get("args") or ())]
    shown = f" {words[0]!r}" if words else ""
    cause = (
        f"the command{shown} of container {container.name} cannot be started: {_short(ended.get('message'))}"
    )
    change = container_settings.missing_directory(container, case) or _other_command(container, case)
    return Trouble(2, cause, change)


def _other_command(container: ContainerFacts, case: PodCase) -> Change:
    operation = commands.set_container_field(case, container, ("command",), ["PROGRAM"])
    return Change(
        f"correct the command of container {container.name}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )


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
    killed = ended.get("reason") == OOM_KILLED
    if not (killed or ended.get("reason") == MEMORY_REFUSED) or _is_over(container, case):
        return None
    of_limit = f"its limit is {limit}" if limit else "it has no limit of its own"
    used = f", {_short(ended['message'])}" if ended.get("message") else ""
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


def _killed_by_probe(container: ContainerFacts, case: PodCase) -> Trouble | None:
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
    return Trouble(5, f"{cause}: {_short(answer)}" if answer else cause, _probe_change(kind, container, case))


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
        and _is_since(event, container.ended.get("startedAt"))
    ]
    return killed[-1] if killed else ""


def _is_since(event: Obj, stamp: object) -> bool:
    """Whether the Event is of this run and not of one before. Events and statuses have whole seconds."""
    return event_time_ns(event) + SECOND_NS > _ns(stamp)


def _failed_hook(container: ContainerFacts, case: PodCase) -> Trouble | None:
    failed = container_settings.failed_hook(container, case)
    if failed is None or _is_over(container, case):
        return None
    answer, change = failed
    cause = (
        f"the postStart hook of container {container.name} fails, so it is restarted{_restarts(container)}"
    )
    return Trouble(5, f"{cause}: {_short(answer)}", change)


def _crash(container: ContainerFacts, case: PodCase) -> Trouble | None:
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
    return Trouble(6, f"{cause}: {_short(message)}" if message else cause, change)


def _completed(container: ContainerFacts, case: PodCase) -> Trouble | None:
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
    started_ns = _ns(lookup(container.status, "state", "running", "startedAt"))
    failed_ns = _ns(container.ended.get("finishedAt")) - _ns(container.ended.get("startedAt"))
    stable_after_s = stable_s(int(container.status.get("restartCount") or 0))
    needed_s = min(max(stable_after_s, LONGER * failed_ns / SECOND_NS), STABLE.s_max)
    return (case.evidence.now_ns - started_ns) / SECOND_NS >= needed_s


def _ns(stamp: object) -> int:
    return moment_ns(stamp) or 0


# It runs, and is not ready.


def _probe(container: ContainerFacts, case: PodCase) -> Trouble | None:
    if not container.is_running or container.status.get("ready") or container.is_init:
        return None
    kind = _unpassed(container)
    answer = _answer_of_agent(container, kind, case)
    if not answer and (failed := _unhealthy_event(container, case)) is not None:
        kind, answer = failed.kind, failed.answer
    if not kind:
        return None
    delayed = _delayed_probe(kind, container, case) if not answer else None
    if delayed is not None:
        return delayed
    cause = f"the {kind} probe of container {container.name} " + (
        f"fails: {_short(answer)}" if answer else "has not passed yet"
    )
    return Trouble(7, cause, _probe_change(kind, container, case))


def _delayed_probe(kind: str, container: ContainerFacts, case: PodCase) -> Trouble | None:
    """The agent has not probed yet, as the spec asks."""
    delay_s = int(lookup(container.spec, f"{kind}Probe", "initialDelaySeconds") or 0)
    started_ns = _ns(lookup(container.status, "state", "running", "startedAt"))
    left_s = delay_s - (case.evidence.now_ns - started_ns) / SECOND_NS
    if not started_ns or left_s <= 0:
        return None
    operation = commands.set_container_field(case, container, (f"{kind}Probe", "initialDelaySeconds"), 0)
    change = Change(
        f"wait {left_s:.0f} s, or lower initialDelaySeconds of its {kind} probe",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )
    cause = f"the {kind} probe of container {container.name} begins {delay_s} s after its start"
    return Trouble(7, cause, change)


def _answer_of_agent(container: ContainerFacts, kind: str, case: PodCase) -> str:
    """What the last probe answered: the agent's condition is about the first container that is not ready."""
    starting = case.condition("Starting")
    waits = [each.name for each in case.containers if each.is_running and not each.status.get("ready")]
    if starting.get("reason") != WAITING_FOR_PROBE or waits[:1] != [container.name]:
        return ""
    # The cause names container and probe already.
    return str(starting.get("message") or "").removeprefix(f"{container.name}: {kind} probe failed: ")


def _unpassed(container: ContainerFacts) -> str:
    if not container.status.get("started") and "startupProbe" in container.spec:
        return "startup"
    return "readiness" if "readinessProbe" in container.spec else ""


def _unhealthy_event(container: ContainerFacts, case: PodCase) -> FailedProbe | None:
    """As other kubelets report it. A failed liveness probe does not keep a container from being ready."""
    path = f"{{{container.name}}}"
    failed = [
        kubernetes_texts.failed_probe(str(event.get("message") or ""))
        for event in case.events
        if event.get("reason") == "Unhealthy"
        and str(lookup(event, "involvedObject", "fieldPath")).endswith(path)
        and _is_since(event, lookup(container.status, "state", "running", "startedAt"))
    ]
    return next((each for each in reversed(failed) if each is not None and each.kind != "liveness"), None)


def _probe_change(kind: str, container: ContainerFacts, case: PodCase) -> Change:
    probe = container.spec.get(f"{kind}Probe") or {}
    if "grpc" in probe and _is_run_by_fathom(case):
        return _other_probe(kind, container, case)
    return Change(
        f"make container {container.name} answer {probe_text(probe)}, or correct its {kind} probe",
        commands.kubectl("logs", case.key.name, "-c", container.name, namespace=case.key.namespace),
        commands.owner_text(case),
    )


def _is_run_by_fathom(case: PodCase) -> bool:
    """Fathom's agents report how a pod starts; no other kubelet does."""
    return bool(case.condition("Starting"))


def _other_probe(kind: str, container: ContainerFacts, case: PodCase) -> Change:
    """Fathom's agents make no gRPC calls: however the program answers, such a probe does not pass."""
    probe = dict(container.spec[f"{kind}Probe"])
    port = probe.pop("grpc").get("port")
    operation = commands.set_container_field(
        case, container, (f"{kind}Probe",), {**probe, "tcpSocket": {"port": port}}
    )
    return Change(
        f"use httpGet, tcpSocket or exec in the {kind} probe of container {container.name}",
        commands.spec_change(case, [operation]),
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
    _image, _config, _command, _not_created, _memory, _killed_by_probe, _failed_hook, _crash, _completed,
    _probe, _creating,
)  # fmt: skip
