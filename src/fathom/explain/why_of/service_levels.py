"""A Service's error rate and SLO burn, as the gateway has measured them; "no data" where it is silent."""

from __future__ import annotations

from typing import Any

import msgspec

from fathom.controllers.endpoints.plan import selects
from fathom.explain.evidence import Evidence, Objects, ProcessState
from fathom.explain.sourced import NO_DATA, Sourced
from fathom.explain.why.answer import Change
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble
from fathom.explain.why_of.control_plane import processes_of
from fathom.explain.why_of.lookups import SERVICES
from fathom.model.objects import Obj, key_of, lookup, uid_of
from fathom.model.service_levels import (
    LONG_WINDOW,
    SHORT_WINDOW,
    WINDOWS_S,
    ServiceLevel,
    WindowLevel,
    combined,
)

GATEWAY = "gateway"
FAILURES = {
    "reset": "the pods broke off {} of them",
    "no_endpoint": "no pod accepted {} of them",
    "gateway_full": "the gateway lacked file descriptors or memory for {} of them",
}


def services_of(objects: Objects, workload: Obj) -> list[Obj]:
    """The Services that select the pods of a workload, or this pod."""
    template = lookup(workload, "spec", "template")
    pod = workload if template is None else template
    return [
        service for service in objects.list(SERVICES, key_of(workload).namespace) if selects(service, pod)
    ]


# What the gateway says.


def level_of(evidence: Evidence, service: Obj) -> tuple[ServiceLevel | None, str]:
    """Its level and where that is from; None and why it is not known."""
    gateways = processes_of(evidence, GATEWAY)
    if not gateways:
        return None, "no gateway is registered, or the question is about the past"
    answered = [gateway for gateway in gateways if gateway.answered]
    if not answered:
        return None, f"process {gateways[0].process} does not answer"
    level = combined(level for gateway in answered if (level := _level(gateway, service)) is not None)
    names = ", ".join(gateway.process for gateway in answered)
    if level is None:
        return None, f"process {names} does not measure this Service"
    return level, _source(level, names)


def silent_gateway(evidence: Evidence) -> str:
    """The gateway that does not answer, where no other one does; '' if one answers, or none is registered."""
    gateways = processes_of(evidence, GATEWAY)
    return "" if not gateways or any(each.answered for each in gateways) else gateways[0].process


def _level(gateway: ProcessState, service: Obj) -> ServiceLevel | None:
    stated: dict[str, Any] = gateway.state.get("services") or {}
    document = stated.get(uid_of(service))
    return None if document is None else msgspec.convert(document, ServiceLevel)


def _source(level: ServiceLevel, names: str) -> str:
    short = level.measured_s < WINDOWS_S[LONG_WINDOW]
    since = f", measured for {level.measured_s:.0f} s" if short else ""
    objective = f"objective {level.objective.percent:g} % from {level.objective.source}"
    return f"connections counted by {names}{since}; {objective}"


def sourced_level(evidence: Evidence, service: Obj) -> Sourced:
    """Error rate and burn rate by window; a window without connections is null."""
    level, source = level_of(evidence, service)
    if level is None:
        return Sourced(None, source)
    if not _counted(level, LONG_WINDOW).connections:
        return Sourced(None, f"no connection has ended in the last {LONG_WINDOW}; {source}")
    value = {
        "objectivePercent": level.objective.percent,
        "errorRate": {window: _counted(level, window).error_rate for window in WINDOWS_S},
        "burnRate": {window: level.burn_rate(window) for window in WINDOWS_S},
        "connections": {window: _counted(level, window).connections for window in WINDOWS_S},
    }
    return Sourced(value, source)


def _counted(level: ServiceLevel, window: str) -> WindowLevel:
    return level.windows.get(window, WindowLevel())


# As lines, and as trouble.


def level_lines(evidence: Evidence, service: Obj) -> tuple[str, ...]:
    level, source = level_of(evidence, service)
    if level is None:
        return (f"{NO_DATA}: {source}",)
    return (*(_line(level, window) for window in WINDOWS_S), f"source: {source}")


def _line(level: ServiceLevel, window: str) -> str:
    counted, burn_rate = _counted(level, window), level.burn_rate(window)
    if counted.error_rate is None or burn_rate is None:
        return f"last {window}: {NO_DATA}: no connection has ended"
    share = f"{counted.failed} of {counted.connections} connections failed ({counted.error_rate:.2%})"
    return f"last {window}: {share}, SLO burn rate {burn_rate:.1f}"


def burn_trouble(evidence: Evidence, service: Obj) -> SubjectTrouble | None:
    """The error budget is used up fast, in both windows."""
    level, _ = level_of(evidence, service)
    if level is None or not level.burns_fast:
        return None
    counted = _counted(level, SHORT_WINDOW)
    failures = ", ".join(FAILURES.get(result, "{}").format(count) for result, count in _most_first(level))
    cause = (
        f"{counted.failed} of the last {counted.connections} connections failed within {SHORT_WINDOW}, "
        f"SLO burn rate {level.burn_rate(SHORT_WINDOW):.1f}; of those within {LONG_WINDOW}, {failures}"
    )
    return SubjectTrouble("uses up its error budget", cause, _logs(service))


def _most_first(level: ServiceLevel) -> list[tuple[str, int]]:
    return sorted(level.results.items(), key=lambda entry: (-entry[1], entry[0]))


def _logs(service: Obj) -> Change:
    selector = lookup(service, "spec", "selector") or {}
    labels = ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
    namespace, name = key_of(service)
    command = f"kubectl logs -n {word(namespace)} -l {word(labels)} --prefix --tail=50" if labels else ""
    return Change("look at the logs of its pods", command, f"the owner of service/{name}")
