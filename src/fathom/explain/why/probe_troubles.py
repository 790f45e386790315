"""A container runs, and is not ready: its probes."""

from __future__ import annotations

from fathom.explain import kubernetes_texts
from fathom.explain.kubernetes_texts import FailedProbe
from fathom.explain.why import commands
from fathom.explain.why.answer import Change
from fathom.explain.why.case import ContainerFacts, PodCase
from fathom.explain.why.trouble import Trouble, is_since, one_line, time_ns
from fathom.model.objects import Obj, lookup
from fathom.model.times import SECOND_NS

WAITING_FOR_PROBE = "WaitingForProbe"  # The agent's reason of the condition Starting.


def probe_trouble(container: ContainerFacts, case: PodCase) -> Trouble | None:
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
        f"fails: {one_line(answer)}" if answer else "has not passed yet"
    )
    return Trouble(7, cause, probe_change(kind, container, case))


def _delayed_probe(kind: str, container: ContainerFacts, case: PodCase) -> Trouble | None:
    """The agent has not probed yet, as the spec asks."""
    delay_s = int(lookup(container.spec, f"{kind}Probe", "initialDelaySeconds") or 0)
    started_ns = time_ns(lookup(container.status, "state", "running", "startedAt"))
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
        and is_since(event, lookup(container.status, "state", "running", "startedAt"))
    ]
    return next((each for each in reversed(failed) if each is not None and each.kind != "liveness"), None)


def probe_change(kind: str, container: ContainerFacts, case: PodCase) -> Change:
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
