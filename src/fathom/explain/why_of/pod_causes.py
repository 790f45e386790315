"""Why pods of a workload do not run, from their own status, grouped by cause.

A full explanation of one pod takes the scheduler's decider. Where the caller has it, the change comes from
there; else it follows from the reason alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fathom.controllers.pod_states import has_ended, is_ready, is_rejected, phase_of
from fathom.controllers.progress.crash_loops import CrashLoop, loops_of
from fathom.controllers.progress.pod_stages import READY, PodStage, stand_of
from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import CauseGroup, Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import explained
from fathom.explain.why_of.control_plane import OPERATOR, SCHEDULER, part_trouble
from fathom.explain.why_of.lookups import (
    NODES,
    OVERRIDES,
    PODS,
    ExplainPod,
    node_name,
    ref,
    shown_names,
    title,
)
from fathom.model.conditions import DISRUPTION_TARGET, conditions_of, find_condition
from fathom.model.objects import Key, Obj, is_deleting, key_of, lookup, metadata, uid_of
from fathom.model.reasons import (
    CAPACITY,
    CONFIG,
    CORDON,
    CRASH,
    GATE,
    IMAGE,
    NODE,
    OOM_KILLED,
    PROBE,
    QUOTA,
    REASONS,
    boundary_of,
)

MEMORY = "memory"  # Killed for its memory limit: a crash with a cure of its own.
OWNER = "the pod's owner"


class PodCause(msgspec.Struct, frozen=True):
    reason: str  # 'quota/risk-zone-c', 'image', 'memory'
    message: str = ""
    container: str = ""


def causes_of(evidence: Evidence, pods: Sequence[Obj]) -> list[tuple[Obj, PodCause]]:
    """The pods that are not ready or are crash-looping, each with its cause, in the order given."""
    loops = loops_of([pod for pod in pods if not has_ended(pod)], kept=(), now_s=evidence.now_ns / 1e9)
    causes = []
    for pod in pods:
        if is_deleting(pod):
            causes.append((pod, PodCause("deletion", "it is being deleted")))
        elif has_ended(pod):
            causes.append((pod, _ended(pod)))
        elif (
            stage := _stage(evidence, pod, loops.get(uid_of(pod)))
        ).stage < READY or stage.boundary == CRASH:
            causes.append((pod, _cause(evidence, pod, stage)))
    return causes


def _stage(evidence: Evidence, pod: Obj, crashes: CrashLoop | None) -> PodStage:
    node = evidence.objects.get(NODES, Key("", str(lookup(pod, "spec", "nodeName") or "")))
    ready = find_condition(conditions_of(node), "Ready") if node is not None else None
    heard = ready is None or ready.get("status") != "Unknown"
    return stand_of(pod, serves=True, heard=heard, crashes=crashes)


def _cause(evidence: Evidence, pod: Obj, stage: PodStage) -> PodCause:
    killed = _killed_for_memory(pod)
    if killed is not None:
        return killed
    if stage.boundary == SCHEDULER and (trouble := part_trouble(evidence, SCHEDULER)):
        return PodCause(stage.reason, trouble)
    container, state = _failing_container(pod)
    if stage.boundary == CRASH:
        return PodCause(CRASH, _crash(pod, container, state) or stage.message, container)
    message = stage.message
    if boundary_of(stage.reason) == NODE and not evidence.may_read_nodes:
        return PodCause(NODE, "its node has not started it or is unreachable")
    return PodCause(stage.reason or "start", message, container)


def _statuses(pod: Obj) -> list[Obj]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _failing_container(pod: Obj) -> tuple[str, Obj]:
    """The first container that waits for a reason, or ended with an error, now or before its restart."""
    statuses = _statuses(pod)
    for fails in (_waits, _failed, _failed_before):
        for container in statuses:
            if fails(container):
                return str(container.get("name") or ""), container
    return "", {}


def _waits(container: Obj) -> bool:
    waiting = lookup(container, "state", "waiting") or {}
    return waiting.get("reason") not in {None, "PodInitializing", "ContainerCreating"}


def _failed(container: Obj) -> bool:
    return bool(lookup(container, "state", "terminated", "exitCode"))


def _failed_before(container: Obj) -> bool:
    return bool(lookup(container, "lastState", "terminated", "exitCode"))


def _last_end(container: Obj) -> Obj:
    return lookup(container, "state", "terminated") or lookup(container, "lastState", "terminated") or {}


def _crash(pod: Obj, name: str, container: Obj) -> str:
    ended = _last_end(container)
    if not ended:
        return ""
    why = f" ({ended['reason']})" if ended.get("reason") not in {None, "", "Error"} else ""
    times = int(container.get("restartCount") or 0)
    return f"container {name} exited with code {ended.get('exitCode')}{why}, restarts: {times}"


def _killed_for_memory(pod: Obj) -> PodCause | None:
    for container in _statuses(pod):
        ended = _last_end(container)
        running = lookup(container, "state", "running") and is_ready(pod)
        if ended.get("reason") == OOM_KILLED and not running:
            name = str(container.get("name") or "")
            limit = _limit_of(pod, name)
            beyond = f"its memory limit {limit}" if limit else "the memory of its node"
            return PodCause(MEMORY, f"container {name} was killed because it needed more than {beyond}", name)
    return None


def _limit_of(pod: Obj, container: str) -> str:
    spec = pod.get("spec") or {}
    for each in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if each.get("name") == container:
            return str(lookup(each, "resources", "limits", "memory") or "")
    return ""


def _ended(pod: Obj) -> PodCause:
    disrupted = find_condition(conditions_of(pod), DISRUPTION_TARGET) or {}
    if disrupted.get("status") == "True":
        return PodCause("evicted", str(disrupted.get("message") or disrupted.get("reason") or ""))
    reason, message = (str(lookup(pod, "status", name) or "") for name in ("reason", "message"))
    if is_rejected(pod):
        return PodCause("node", f"its node refused it: {reason} {message}".rstrip())
    killed = _killed_for_memory(pod)
    if killed is not None:
        return killed
    container, state = _failing_container(pod)
    text = _crash(pod, container, state) or f"{reason} {message}".strip() or f"phase {phase_of(pod)}"
    return PodCause(CRASH if phase_of(pod) == "Failed" else "ended", text, container)


def grouped(evidence: Evidence, causes: Sequence[tuple[Obj, PodCause]]) -> tuple[CauseGroup, ...]:
    """The largest group first. Its message is that of its first pod."""
    members: dict[str, list[tuple[Obj, PodCause]]] = {}
    for pod, cause in causes:
        members.setdefault(cause.reason, []).append((pod, cause))
    ordered = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple(
        CauseGroup(
            reason,
            len(group),
            shown_names(evidence, [pod for pod, _ in group]),
            group[0][1].message,
        )
        for reason, group in ordered
    )


def decisive(causes: Sequence[tuple[Obj, PodCause]]) -> tuple[Obj, PodCause] | None:
    """The pod that stands for the largest group of those that do not run; deletion alone is no cause."""
    counts: dict[str, int] = {}
    for _, cause in causes:
        counts[cause.reason] = counts.get(cause.reason, 0) + 1
    return min(
        causes,
        key=lambda pair: (pair[1].reason == "deletion", -counts[pair[1].reason], pair[1].reason),
        default=None,
    )


class ExplainedPod(msgspec.Struct, frozen=True):
    """The pod that stands for its group: why it does not run, and the change that helps it."""

    cause: str
    change: Change | None
    overrides: tuple[ObjectRef, ...] = ()  # Those that the cause names.


def explained_pod(
    evidence: Evidence, pod: Obj, cause: PodCause, explain_pod: ExplainPod | None, *, owner: str = ""
) -> ExplainedPod:
    """By the full explanation, where the caller has it; else by the reason alone. `owner`: 'deployment/web',
    where the template has to be changed."""
    explanation = explain_pod(pod, evidence) if explain_pod is not None else None
    if explanation is not None and not explanation.as_wanted and explanation.cause:
        blame = explanation.stage == "control-plane" or cause.reason in explanation.cause
        text = explanation.cause if blame else f"{cause.reason} ({explanation.cause})"
        overrides = tuple(each for each in explanation.related if each.resource == OVERRIDES)
        return ExplainedPod(text, explanation.change, overrides)
    message = f" ({cause.message})" if cause.message else ""
    change = _by_reason(pod, cause, owner or f"pod/{key_of(pod).name}", evidence)
    return ExplainedPod(f"{cause.reason}{message}", change)


def _by_reason(pod: Obj, cause: PodCause, target: str, evidence: Evidence) -> Change | None:
    namespace, name = key_of(pod)
    boundary, container = boundary_of(cause.reason), cause.container or _first_container(pod)
    within = f"-n {word(namespace)}"
    match boundary:
        case "memory":
            limit = _doubled(_limit_of(pod, container))
            of_container = f"-c {word(container)} --limits=memory={word(limit)}"
            command = f"kubectl set resources {word(target)} {within} {of_container}"
            return Change(f"raise the memory limit of container {container}", command, OWNER)
        case _ if boundary == IMAGE:
            command = f"kubectl set image {word(target)} {within} {word(container)}=IMAGE"
            return Change(f"correct the image of container {container}", command, OWNER)
        case _ if boundary == CRASH:
            command = f"kubectl logs {word(name)} {within} -c {word(container)} --previous"
            return Change(f"read why container {container} exits, and correct it", command, OWNER)
        case _ if boundary in {PROBE, CONFIG}:
            command = f"kubectl describe pod {word(name)} {within}"
            return Change(_cure(cause.reason), command, OWNER)
        case _ if boundary == GATE and cause.reason != GATE:
            patch = """[{"op":"remove","path":"/spec/schedulingGates"}]"""
            command = f"kubectl patch pod {word(name)} {within} --type=json -p {word(patch)}"
            return Change(f"remove the scheduling gate {cause.reason[5:]}", command, "the gate's owner")
        case _ if boundary == QUOTA and cause.reason != QUOTA:
            tenant = _tenant(evidence, pod, cause.reason)
            command = f"kubectl edit tenantquota {word(tenant)}"
            return Change(
                f"raise the limit of TenantQuota {tenant}", command, "whoever grants the tenant's quota"
            )
        case _ if boundary == NODE:
            node = node_name(evidence, str(lookup(pod, "spec", "nodeName") or ""))
            return Change(
                f"check the {evidence.agent} of {node}", f"kubectl describe node {word(node)}", OPERATOR
            )
        case _ if cause.reason == CORDON:
            return Change("uncordon a node", "kubectl uncordon NODE", OPERATOR)
        case "deletion" | "evicted" | "ended":
            return None
        case _:
            who = OPERATOR if boundary in {CAPACITY, "nodes", "scheduler"} else OWNER
            cure = _cure(cause.reason)
            return Change(cure, f"fathom why pod/{word(name)} {within}", who) if cure else None


def _first_container(pod: Obj) -> str:
    containers: list[Obj] = lookup(pod, "spec", "containers") or [{}]
    return str(containers[0].get("name") or "")


def _doubled(limit: str) -> str:
    digits = limit.rstrip("kKMGTPEi")
    return f"{int(digits) * 2}{limit[len(digits) :]}" if digits.isdigit() else "LIMIT"


def _tenant(evidence: Evidence, pod: Obj, reason: str) -> str:
    """The TenantQuota that a reason such as quota/risk-zone-c is about."""
    limit = reason.partition("/")[2]
    names = [str(metadata(quota)["name"]) for quota in evidence.objects.list("tenantquotas.fathom.dev")]
    matching = [name for name in names if limit == name or limit.startswith(f"{name}-")]
    return max(matching, key=len, default=limit)


def _cure(reason: str) -> str:
    exact = next((entry for entry in REASONS if entry.name == reason), None)
    entry = exact or next((each for each in REASONS if each.boundary == boundary_of(reason)), None)
    if entry is None:
        return ""
    cure = entry.cure.removesuffix(".")
    return cure[:1].lower() + cure[1:]


def explain_pod_by_status(pod: Obj, evidence: Evidence) -> Explanation:
    """A pod from its status alone, without the scheduler's decider."""
    name, about = title(PODS, key_of(pod)), _about(evidence, pod)
    if phase_of(pod) == "Succeeded":
        return explained(about, name=name, stage="pod-status", verdict="has finished", as_wanted=True)
    causes = causes_of(evidence, [pod])
    if not causes:
        return explained(about, name=name, stage="pod-status", verdict="is ready", as_wanted=True)
    _, cause = causes[0]
    return explained(
        about,
        name=name,
        stage="pod-status",
        verdict="is not ready",
        cause=f"{cause.reason}: {cause.message}" if cause.message else cause.reason,
        change=explained_pod(evidence, pod, cause, None).change,
    )


def _about(evidence: Evidence, pod: Obj) -> Evidence:
    return msgspec.structs.replace(evidence, subject=ref(PODS, pod))
