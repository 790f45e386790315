"""Warnings about pod fields that are allowed but seldom intended, with kube-apiserver's messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fathom.kube.definitions.unenforced import pod_sentences
from fathom.model.causes import quoted
from fathom.model.objects import Obj
from fathom.model.quantity import parse

_CONTAINERS = ("initContainers", "containers")
_BYTES = ("memory", "ephemeral-storage")
_OLD_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region":
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone":
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type":
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}  # fmt: skip
_OLD_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod":
        'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls":
        'non-functional in v1.11+; use the "sysctls" field instead',
}  # fmt: skip


def pod_warnings(pod: Obj, at: str = "") -> list[str]:
    """Warnings about a pod, or about a template at the path `at` ('spec.template.')."""
    annotations = (pod.get("metadata") or {}).get("annotations")
    return [*annotation_warnings(annotations or {}, at), *spec_warnings(pod.get("spec") or {}, at)]


def annotation_warnings(annotations: Obj, at: str = "") -> list[str]:
    return [
        f"{at}metadata.annotations[{key}]: {why}"
        for key, why in _OLD_ANNOTATIONS.items()
        if key in annotations
    ]


def spec_warnings(spec: Obj, at: str = "") -> list[str]:
    return [
        *_placement_warnings(spec, f"{at}spec"),
        *(
            f"{at}spec.volumes[{index}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
            for index, volume in enumerate(spec.get("volumes") or ())
            if "gitRepo" in volume
        ),
        *_duplicates(spec.get("hostAliases") or (), "ip", f"{at}spec.hostAliases"),
        *_duplicates(spec.get("imagePullSecrets") or (), "name", f"{at}spec.imagePullSecrets"),
        *(
            warning
            for kind in _CONTAINERS
            for index, container in enumerate(spec.get(kind) or ())
            for warning in _container_warnings(container, f"{at}spec.{kind}[{index}]")
        ),
        *pod_sentences(spec, f"{at}spec"),
    ]


def _placement_warnings(spec: Obj, at: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            yield f"{at}.nodeSelector[{key}]: {_OLD_LABELS[key]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        constraint_field, key = f"{at}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in _OLD_LABELS:
            yield f"{constraint_field}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if "labelSelector" not in constraint:
            yield f"{constraint_field}.labelSelector: a null labelSelector results in matching no pod"


def _duplicates(items: Sequence[Obj], name: str, at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(name, "")
        if name == "name" and not value:
            yield f"{at}[{index}].name: invalid empty name {quoted(value)}"
        elif value in seen:
            yield f"{at}[{index}].{name}: duplicate {name} {quoted(value)}"
        seen.add(value)


def _container_warnings(container: Obj, at: str) -> Iterator[str]:
    env = container.get("env") or ()
    if len(env) > 1:
        yield from _hidden_variables(env, at)
    ports = container.get("ports") or ()
    if len(ports) > 1:
        yield from _duplicate_ports(ports, at)
    for side in ("limits", "requests"):
        amounts = (container.get("resources") or {}).get(side) or {}
        for name in _BYTES:
            if name in amounts and not parse(amounts[name]).is_whole:
                why = f"fractional byte value {quoted(amounts[name])} is invalid, must be an integer"
                yield f"{at}.resources.{side}[{name}]: {why}"


def _hidden_variables(env: Sequence[Obj], at: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(env):
        name = variable.get("name", "")
        if name in seen:
            why = f"hides previous definition of {quoted(name)}, which may be dropped when using apply"
            yield f"{at}.env[{index}]: {why}"
        seen.add(name)


def _duplicate_ports(ports: Sequence[Obj], at: str) -> Iterator[str]:
    seen: dict[tuple[int, str], int] = {}
    for index, port in enumerate(ports):
        key = (port.get("containerPort", 0), port.get("protocol", "TCP"))
        if key in seen:
            yield f"{at}.ports[{index}]: duplicate port definition with {at}.ports[{seen[key]}]"
        seen.setdefault(key, index)
