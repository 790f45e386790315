"""Rules of a container's probes, and of the hooks at its start and end."""

from __future__ import annotations

from typing import Any

from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SCHEMES = ("HTTP", "HTTPS")


def check_probes(problems: list[Cause], container: Obj, field: str, grace_s: int | None) -> None:
    """Liveness and startup probes have a success threshold of 1; a readiness probe has no grace period."""
    for name in ("livenessProbe", "startupProbe"):
        if probe := container.get(name):
            _check_probe(problems, probe, f"{field}.{name}", grace_s)
            threshold = probe.get("successThreshold", 1)
            if threshold != 1:
                problems.append(causes.invalid(f"{field}.{name}.successThreshold", threshold, "must be 1"))
    if probe := container.get("readinessProbe"):
        _check_probe(problems, probe, f"{field}.readinessProbe", grace_s)
        if "terminationGracePeriodSeconds" in probe:
            where = f"{field}.readinessProbe.terminationGracePeriodSeconds"
            value = probe["terminationGracePeriodSeconds"]
            problems.append(causes.invalid(where, value, "must not be set for readinessProbes"))


def _check_probe(problems: list[Cause], probe: Obj, field: str, grace_s: int | None) -> None:
    check_handler(problems, probe, field, grace_s)
    for name in _COUNTS:
        problems += causes.not_negative(f"{field}.{name}", probe.get(name))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        where = f"{field}.terminationGracePeriodSeconds"
        problems.append(causes.invalid(where, grace, "must be greater than 0"))


def check_lifecycle(problems: list[Cause], lifecycle: Obj, field: str, grace_s: int | None, os: str) -> None:
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            check_handler(problems, lifecycle[name], f"{field}.{name}", grace_s)
    if "stopSignal" in lifecycle and not os:
        detail = "may not be set for containers with empty `spec.os.name`"
        problems.append(causes.forbidden(f"{field}.stopSignal", detail))


def check_handler(problems: list[Cause], handler: Obj, field: str, grace_s: int | None) -> None:
    present = [name for name in _HANDLERS if name in handler]
    if not present:
        problems.append(causes.required(field, "must specify a handler type"))
        return
    for extra in present[1:]:
        problems.append(causes.forbidden(f"{field}.{extra}", "may not specify more than 1 handler type"))
    name = present[0]
    action, action_field = handler[name], f"{field}.{name}"
    if name == "exec":
        if not action.get("command"):
            problems.append(causes.required(f"{action_field}.command"))
    elif name == "httpGet":
        _check_http(problems, action, action_field)
    elif name == "sleep":
        _check_sleep(problems, action.get("seconds", 0), action_field, grace_s)
    else:
        check_port(problems, action.get("port", 0), f"{action_field}.port")


def _check_http(problems: list[Cause], action: Obj, field: str) -> None:
    check_port(problems, action.get("port", 0), f"{field}.port")
    scheme = action.get("scheme", "HTTP")
    if scheme not in _SCHEMES:
        problems.append(causes.not_supported(f"{field}.scheme", scheme, _SCHEMES))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        problems += causes.each(f"{field}.httpHeaders", name, formats.http_header(name))


def _check_sleep(problems: list[Cause], seconds: int, field: str, grace_s: int | None) -> None:
    if grace_s is not None and not 0 <= seconds <= grace_s:
        detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
        problems.append(causes.invalid(field, seconds, detail))


def check_port(problems: list[Cause], port: Any, field: str) -> None:
    """A number or the name of a port."""
    reasons = formats.port_name(port) if isinstance(port, str) else formats.port_number(port)
    problems += causes.each(field, port, reasons)
