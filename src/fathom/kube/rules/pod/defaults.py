"""Defaults of a pod's spec that depend on other fields. All other defaults are data, in `kinds.toml`.

All of it is idempotent and changes the given dictionaries, which belong to the request.
"""

from __future__ import annotations

from fathom.kube.rules.pod.volumes import SOURCES
from fathom.kube.rules.resources import settle_amounts, settle_requirements
from fathom.model.objects import Obj

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def default_template(template: Obj) -> None:
    spec = template.get("spec")
    if spec:
        default_spec(spec)


def default_spec(spec: Obj) -> None:
    """For pods and templates alike."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # Two names of one field; the newer one wins.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for field in _CONTAINERS:
        for container in spec.get(field) or ():
            if not container.get("imagePullPolicy"):
                container["imagePullPolicy"] = pull_policy(container.get("image", ""))
            if resources := container.get("resources"):
                settle_requirements(resources)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    if overhead := spec.get("overhead"):
        settle_amounts(overhead)


def default_pod(spec: Obj) -> None:
    """Only for pods: a template keeps what its author wrote."""
    default_spec(spec)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    host_network = spec.get("hostNetwork")
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            resources = container.get("resources")
            if resources and (limits := resources.get("limits")):
                resources["requests"] = {**limits, **(resources.get("requests") or {})}
            if host_network:
                _default_host_ports(container)


def pull_policy(image: str) -> str:
    """Always for the tag `latest`, which is also the default tag; else IfNotPresent."""
    name, digest, _ = image.rpartition("/")[2].partition("@")
    _, colon, tag = name.partition(":")
    if not name or (digest and not colon):
        return "IfNotPresent"
    return "Always" if tag == "latest" or not colon else "IfNotPresent"


def _default_volume(volume: Obj) -> None:
    if "name" in volume and len(volume) > 1 and "image" not in volume:
        return
    if not any(source in volume for source in SOURCES):
        volume["emptyDir"] = {}
    image = volume.get("image")
    if image and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(image.get("reference", ""))


def _default_host_ports(container: Obj) -> None:
    for port in container.get("ports") or ():
        if not port.get("hostPort") and "containerPort" in port:
            port["hostPort"] = port["containerPort"]
