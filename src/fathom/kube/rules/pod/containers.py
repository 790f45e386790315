"""Rules of containers: regular, init and ephemeral. Fields that always get a default may be missing here."""

from __future__ import annotations

import msgspec

from fathom.kube.rules.pod.downward_api import check_field_ref, check_no_backsteps, check_resource_ref
from fathom.kube.rules.pod.mounts import check_mounts
from fathom.kube.rules.pod.probes import check_lifecycle, check_probes
from fathom.kube.rules.pod.security import check_container_context
from fathom.kube.rules.pod.volumes import Volumes
from fathom.kube.rules.resources import DeclaredClaims, check_claims, check_requirements
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_NOT_EPHEMERAL = (
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
)
_ONLY_RUNNING = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


class PodScope(msgspec.Struct, frozen=True):
    """The fields of the pod that affect a container's rules."""

    volumes: Volumes
    claims: DeclaredClaims
    grace_s: int | None
    restart: str
    os: str
    host_users: bool
    is_pod: bool  # False for a template: its image may be a placeholder.


def check_containers(problems: list[Cause], containers: list[Obj], field: str, pod: PodScope) -> None:
    if not containers:
        problems.append(causes.required(field))
        return
    names: set[str] = set()
    for index, container in enumerate(containers):
        container_field = f"{field}[{index}]"
        _check_common(problems, container, container_field, pod)
        name = container.get("name", "")
        if name in names:
            problems.append(causes.duplicate(f"{container_field}.name", name))
        names.add(name)
        _check_running(problems, container, container_field, pod)
        if "restartPolicy" in container or "restartPolicyRules" in container:
            _check_restart(problems, container, container_field)
    _check_host_ports(problems, containers, field)


def check_init_containers(
    problems: list[Cause], containers: list[Obj], regular: list[Obj], field: str, pod: PodScope
) -> None:
    names = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        container_field = f"{field}[{index}]"
        _check_common(problems, container, container_field, pod)
        name = container.get("name", "")
        if name in names:
            problems.append(causes.duplicate(f"{container_field}.name", name))
        names.add(name)
        _check_restart(problems, container, container_field)
        _check_host_ports(problems, [container], field)
        if container.get("restartPolicy") == "Always":
            _check_running(problems, container, container_field, pod)
            continue
        for forbidden in _ONLY_RUNNING:
            if forbidden in container:
                detail = "may not be set for init containers without restartPolicy=Always"
                problems.append(causes.forbidden(f"{container_field}.{forbidden}", detail))


def check_ephemeral_containers(
    problems: list[Cause], containers: list[Obj], target_containers: list[Obj], field: str, pod: PodScope
) -> None:
    targets = {container.get("name", "") for container in target_containers}
    names = set(targets)
    for index, container in enumerate(containers):
        container_field = f"{field}[{index}]"
        _check_common(problems, container, container_field, pod)
        name, target = container.get("name", ""), container.get("targetContainerName", "")
        if name in names:
            problems.append(causes.duplicate(f"{container_field}.name", name))
        names.add(name)
        if target and target not in targets:
            problems.append(causes.not_found(f"{container_field}.targetContainerName", target))
        for forbidden in _NOT_EPHEMERAL:
            if container.get(forbidden):
                detail = "cannot be set for an Ephemeral Container"
                problems.append(causes.forbidden(f"{container_field}.{forbidden}", detail))


def _check_common(problems: list[Cause], container: Obj, field: str, pod: PodScope) -> None:
    name, image = container.get("name", ""), container.get("image", "")
    if not name:
        problems.append(causes.required(f"{field}.name"))
    elif reasons := formats.dns_label(name):
        problems += causes.each(f"{field}.name", name, reasons)
    if not image:
        problems.append(causes.required(f"{field}.image"))
    elif pod.is_pod and image.strip() != image:
        detail = "must not have leading or trailing whitespace"
        problems.append(causes.invalid(f"{field}.image", image, detail))
    _check_choice(problems, container, "terminationMessagePolicy", _MESSAGE_POLICIES, field)
    _check_choice(problems, container, "imagePullPolicy", PULL_POLICIES, field)
    if ports := container.get("ports"):
        _check_ports(problems, ports, f"{field}.ports")
    if env := container.get("env"):
        _check_env(problems, env, f"{field}.env")
    if sources := container.get("envFrom"):
        _check_env_from(problems, sources, f"{field}.envFrom")
    if "volumeMounts" in container or "volumeDevices" in container:
        check_mounts(problems, container, pod.volumes, field)
    if resources := container.get("resources"):
        check_requirements(problems, resources, f"{field}.resources")
        if claims := resources.get("claims"):
            check_claims(problems, claims, f"{field}.resources.claims", pod.claims)
    if policies := container.get("resizePolicy"):
        _check_resize(problems, policies, f"{field}.resizePolicy", pod.restart)
    if context := container.get("securityContext"):
        check_container_context(problems, context, f"{field}.securityContext", host_users=pod.host_users)


def _check_choice(
    problems: list[Cause], container: Obj, name: str, choices: tuple[str, ...], field: str
) -> None:
    value = container.get(name)
    if value and value not in choices:
        problems.append(causes.not_supported(f"{field}.{name}", value, choices))


def _check_running(problems: list[Cause], container: Obj, field: str, pod: PodScope) -> None:
    if lifecycle := container.get("lifecycle"):
        check_lifecycle(problems, lifecycle, f"{field}.lifecycle", pod.grace_s, pod.os)
    check_probes(problems, container, field, pod.grace_s)


def _check_ports(problems: list[Cause], ports: list[Obj], field: str) -> None:
    names: set[str] = set()
    for index, port in enumerate(ports):
        port_field, name = f"{field}[{index}]", port.get("name")
        if name:
            if reasons := formats.port_name(name):
                problems += causes.each(f"{port_field}.name", name, reasons)
            elif name in names:
                problems.append(causes.duplicate(f"{port_field}.name", name))
            names.add(name)
        number = port.get("containerPort")
        if not number:
            problems.append(causes.required(f"{port_field}.containerPort"))
        elif reasons := formats.port_number(number):
            problems += causes.each(f"{port_field}.containerPort", number, reasons)
        host = port.get("hostPort")
        if host and (reasons := formats.port_number(host)):
            problems += causes.each(f"{port_field}.hostPort", host, reasons)
        protocol = port.get("protocol")
        if protocol and protocol not in PROTOCOLS:
            problems.append(causes.not_supported(f"{port_field}.protocol", protocol, PROTOCOLS))


def _check_host_ports(problems: list[Cause], containers: list[Obj], field: str) -> None:
    """Two containers of a pod cannot have the same port of the node."""
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            host_port = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if host_port in taken:
                problems.append(causes.duplicate(f"{field}[{index}].ports[{number}].hostPort", host_port))
            taken.add(host_port)


def _check_env(problems: list[Cause], env: list[Obj], field: str) -> None:
    for index, variable in enumerate(env):
        name = variable.get("name", "")
        if not name:
            problems.append(causes.required(f"{field}[{index}].name"))
        elif reasons := formats.env_name(name):
            problems += causes.each(f"{field}[{index}].name", name, reasons)
        if "valueFrom" in variable:
            _check_value_from(problems, variable, f"{field}[{index}].valueFrom")


def _check_value_from(problems: list[Cause], variable: Obj, field: str) -> None:
    source = variable["valueFrom"]
    present = [name for name in _ENV_SOURCES if name in source]
    for name in present:
        _check_env_source(problems, name, source[name], f"{field}.{name}")
    if not present:
        listed = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        problems.append(causes.invalid(field, "", f"must specify one of: {listed}"))
    elif variable.get("value"):
        problems.append(causes.invalid(field, "", "may not be specified when `value` is not empty"))
    elif len(present) > 1:
        problems.append(causes.invalid(field, "", "may not have more than one field specified at a time"))


def _check_env_source(problems: list[Cause], name: str, source: Obj, field: str) -> None:
    if name == "fieldRef":
        check_field_ref(problems, source, field, _ENV_FIELDS)
    elif name == "resourceFieldRef":
        check_resource_ref(problems, source, field, volume=False)
    elif name == "fileKeyRef":
        _check_file_key(problems, source, field)
    else:
        object_name, key = source.get("name", ""), source.get("key", "")
        problems += causes.each(f"{field}.name", object_name, formats.dns_subdomain(object_name))
        if not key:
            problems.append(causes.required(f"{field}.key"))
        else:
            problems += causes.each(f"{field}.key", key, formats.config_key(key))


def _check_file_key(problems: list[Cause], source: Obj, field: str) -> None:
    for name, check in (("key", formats.env_name), ("volumeName", formats.dns_label)):
        value = source.get(name, "")
        if not value:
            problems.append(causes.required(f"{field}.{name}"))
        else:
            problems += causes.each(f"{field}.{name}", value, check(value))
    path = source.get("path", "")
    if not path:
        problems.append(causes.required(f"{field}.path"))
    check_no_backsteps(problems, path, f"{field}.path")


def _check_env_from(problems: list[Cause], sources: list[Obj], field: str) -> None:
    for index, source in enumerate(sources):
        source_field, prefix = f"{field}[{index}]", source.get("prefix", "")
        if prefix:
            problems += causes.each(f"{source_field}.prefix", prefix, formats.env_name(prefix))
        present = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in present:
            object_name = source[name].get("name", "")
            if not object_name:
                problems.append(causes.required(f"{source_field}.{name}.name"))
            else:
                reasons = formats.dns_subdomain(object_name)
                problems += causes.each(f"{source_field}.{name}.name", object_name, reasons)
        if not present:
            problems.append(causes.invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(present) > 1:
            detail = "may not have more than one field specified at a time"
            problems.append(causes.invalid(field, "", detail))


def _check_resize(problems: list[Cause], policies: list[Obj], field: str, restart: str) -> None:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, action = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            problems.append(causes.duplicate(f"{field}[{index}]", resource))
        seen.add(resource)
        for value, choices in ((resource, ("cpu", "memory")), (action, ("NotRequired", "RestartContainer"))):
            if not value:
                problems.append(causes.required(field))
            elif value not in choices:
                problems.append(causes.not_supported(field, value, choices))
        if restart == "Never" and action != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            problems.append(causes.invalid(field, action, detail))


def _check_restart(problems: list[Cause], container: Obj, field: str) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        if rules:
            detail = "must specify restartPolicy when restart rules are used"
            problems.append(causes.required(f"{field}.restartPolicy", detail))
    elif policy not in _RESTART_POLICIES:
        problems.append(causes.not_supported(f"{field}.restartPolicy", policy, _RESTART_POLICIES))
    if len(rules) > 20:
        problems.append(causes.too_many(f"{field}.restartPolicyRules", len(rules), 20))
    for index, rule in enumerate(rules):
        _check_restart_rule(problems, rule, f"{field}.restartPolicyRules[{index}]")


def _check_restart_rule(problems: list[Cause], rule: Obj, field: str) -> None:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    if action not in {"Restart", "RestartAllContainers"}:
        allowed = ("Restart", "RestartAllContainers")
        problems.append(causes.not_supported(f"{field}.action", action, allowed))
    if codes is None:
        problems.append(causes.required(f"{field}.exitCodes", "must be specified"))
        return
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if operator not in {"In", "NotIn"}:
        problems.append(causes.not_supported(f"{field}.exitCodes.operator", operator, ("In", "NotIn")))
    if len(values) > 255:
        problems.append(causes.too_many(f"{field}.exitCodes.values", len(values), 255))
