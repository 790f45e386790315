"""Rules of containers' volume mounts and block devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fathom.kube.rules.pod.downward_api import check_descending_path
from fathom.kube.rules.pod.volumes import Volumes
from fathom.model import causes
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


class _NamesAndPaths(NamedTuple):
    """The volume names and paths of a container's mounts, or of its devices."""

    names: set[str]
    paths: set[str]


def check_mounts(problems: list[Cause], container: Obj, volumes: Volumes, field: str) -> None:
    """`volumeMounts` and `volumeDevices` of one container: of known volumes, without overlap."""
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    mounted, attached = _names_and_paths(mounts, "mountPath"), _names_and_paths(devices, "devicePath")
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        _check_mount(problems, mount, volumes, attached, f"{field}.volumeMounts[{index}]")
        path = mount.get("mountPath", "")
        if path in seen:
            path_field = f"{field}.volumeMounts[{index}].mountPath"
            problems.append(causes.invalid(path_field, path, "must be unique"))
        seen.add(path)
        _check_mount_options(problems, mount, container, f"{field}.volumeMounts")
    _check_devices(problems, list(devices), mounted, volumes, f"{field}.volumeDevices")


def _names_and_paths(uses: Sequence[Obj], path: str) -> _NamesAndPaths:
    return _NamesAndPaths({use.get("name", "") for use in uses}, {use.get(path, "") for use in uses})


def _check_mount(
    problems: list[Cause], mount: Obj, volumes: Volumes, attached: _NamesAndPaths, field: str
) -> None:
    name, path = mount.get("name", ""), mount.get("mountPath", "")
    if not name:
        problems.append(causes.required(f"{field}.name"))
    if name not in volumes:
        problems.append(causes.not_found(f"{field}.name", name))
    if not path:
        problems.append(causes.required(f"{field}.mountPath"))
    if name in attached.names:
        problems.append(causes.invalid(f"{field}.name", name, "must not already exist in volumeDevices"))
    if path in attached.paths:
        detail = "must not already exist as a path in volumeDevices"
        problems.append(causes.invalid(f"{field}.mountPath", path, detail))
    if mount.get("subPathExpr") and mount.get("subPath"):
        detail = "subPathExpr and subPath are mutually exclusive"
        problems.append(causes.invalid(f"{field}.subPathExpr", mount["subPathExpr"], detail))


def _check_mount_options(problems: list[Cause], mount: Obj, container: Obj, field: str) -> None:
    for name in ("subPath", "subPathExpr"):
        if mount.get(name):
            check_descending_path(problems, mount[name], f"{field}.{name}")
    mode = mount.get("mountPropagation")
    if mode is not None:
        if mode not in _PROPAGATIONS:
            problems.append(causes.not_supported(f"{field}.mountPropagation", mode, _PROPAGATIONS))
        if mode == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
            detail = "Bidirectional mount propagation is available only to privileged containers"
            problems.append(causes.forbidden(f"{field}.mountPropagation", detail))
    if "recursiveReadOnly" in mount:
        _check_recursive(problems, mount, f"{field}.recursiveReadOnly")


def _check_recursive(problems: list[Cause], mount: Obj, field: str) -> None:
    mode = mount["recursiveReadOnly"]
    if mode not in {"Disabled", "Enabled", "IfPossible"}:
        problems.append(causes.not_supported(field, mode, ("Disabled", "Enabled", "IfPossible")))
    elif mode != "Disabled":
        if not mount.get("readOnly"):
            problems.append(causes.forbidden(field, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation", "None") != "None":
            detail = "may only be specified when mountPropagation is None or not specified"
            problems.append(causes.forbidden(field, detail))


def _check_devices(
    problems: list[Cause], devices: list[Obj], mounted: _NamesAndPaths, volumes: Volumes, field: str
) -> None:
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(devices):
        device_field = f"{field}[{index}]"
        name, path = device.get("name", ""), device.get("devicePath", "")
        _check_device_volume(problems, name, volumes, device_field)
        if name in names:
            problems.append(causes.invalid(f"{device_field}.name", name, "must be unique"))
        if not path:
            problems.append(causes.required(f"{device_field}.devicePath"))
        if path in paths:
            problems.append(causes.invalid(f"{device_field}.devicePath", path, "must be unique"))
        if ".." in path.split("/"):
            detail = "can not contain backsteps ('..')"
            problems.append(causes.invalid(f"{device_field}.devicePath", path, detail))
        if name in mounted.names:
            problems.append(
                causes.invalid(f"{device_field}.name", name, "must not already exist in volumeMounts")
            )
        if path in mounted.paths:
            detail = "must not already exist as a path in volumeMounts"
            problems.append(causes.invalid(f"{device_field}.devicePath", path, detail))
        names.add(name)
        paths.add(path)


def _check_device_volume(problems: list[Cause], name: str, volumes: Volumes, field: str) -> None:
    if not name:
        problems.append(causes.required(f"{field}.name"))
    volume = volumes.get(name)
    if volume is None:
        problems.append(causes.not_found(f"{field}.name", name))
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        problems.append(causes.invalid(f"{field}.name", name, detail))
