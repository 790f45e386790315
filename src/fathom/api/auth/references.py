"""The Secrets, ConfigMaps and claims of its namespace that a pod refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fathom.model.objects import Obj, lookup, metadata

CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
SECRETS, CONFIG_MAPS, CLAIMS = "secrets", "configmaps", "persistentvolumeclaims"

# Fields by which a volume source refers to a secret: CephFS, FlexVolume, CSI and similar.
SECRET_REFS = ("secretRef", "nodePublishSecretRef")


def refers_to(pod: Obj, plural: str, name: str) -> bool:
    if plural == "serviceaccounts":
        return name == (lookup(pod, "spec", "serviceAccountName") or "default")
    return (plural, name) in references(pod)


def projected_tokens(pod: Obj) -> Iterator[Obj]:
    """The service account tokens that the pod's volumes request."""
    for volume in lookup(pod, "spec", "volumes") or ():
        for source in lookup(volume, "projected", "sources") or ():
            token = source.get("serviceAccountToken")
            if isinstance(token, dict):
                yield token


def references(pod: Obj) -> Iterator[tuple[str, str]]:
    """(plural, name) of every Secret, ConfigMap and PersistentVolumeClaim, with repeats."""
    spec = lookup(pod, "spec") or {}
    for pull in spec.get("imagePullSecrets") or ():
        yield SECRETS, str(pull.get("name"))
    for kind in CONTAINERS:
        for container in spec.get(kind) or ():
            yield from _of_container(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume, str(metadata(pod).get("name")))


def _of_container(container: Obj) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or ():
        yield from _named(SECRETS, source.get("secretRef"))
        yield from _named(CONFIG_MAPS, source.get("configMapRef"))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield from _named(SECRETS, source.get("secretKeyRef"))
        yield from _named(CONFIG_MAPS, source.get("configMapKeyRef"))


def _of_volume(volume: Obj, pod_name: str) -> Iterator[tuple[str, str]]:
    yield from _named(SECRETS, volume.get("secret"), "secretName")
    yield from _named(CONFIG_MAPS, volume.get("configMap"))
    yield from _named(CLAIMS, volume.get("persistentVolumeClaim"), "claimName")
    if volume.get("ephemeral"):
        yield CLAIMS, f"{pod_name}-{volume.get('name')}"
    for source in lookup(volume, "projected", "sources") or ():
        yield from _named(SECRETS, source.get("secret"))
        yield from _named(CONFIG_MAPS, source.get("configMap"))
    for source in volume.values():
        if isinstance(source, dict):
            for ref in SECRET_REFS:
                yield from _named(SECRETS, source.get(ref))


def _named(plural: str, source: Any, field: str = "name") -> Iterator[tuple[str, str]]:
    if isinstance(source, dict) and source.get(field):
        yield plural, str(source[field])
