"""Rules of a pod's volumes: each has one source, with the fields which that source needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fathom.kube.rules.pod.downward_api import (
    FILE_FIELDS,
    check_field_ref,
    check_local_path,
    check_no_backsteps,
    check_resource_ref,
)
from fathom.kube.rules.selectors import check_selector
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj
from fathom.model.quantity import parse

# Volume sources in kube-apiserver's order, each with the name that its messages use.
SOURCES = {
    "emptyDir": "emptyDir",
    "hostPath": "hostPath",
    "gitRepo": "gitRepo",
    "gcePersistentDisk": "gcePersistentDisk",
    "awsElasticBlockStore": "awsElasticBlockStore",
    "secret": "secret",
    "nfs": "nfs",
    "iscsi": "iscsi",
    "glusterfs": "glusterfs",
    "flocker": "flocker",
    "persistentVolumeClaim": "persistentVolumeClaim",
    "rbd": "rbd",
    "cinder": "cinder",
    "cephfs": "cephFS",
    "quobyte": "quobyte",
    "downwardAPI": "downwarAPI",
    "fc": "fc",
    "flexVolume": "flexVolume",
    "configMap": "configMap",
    "azureFile": "azureFile",
    "vsphereVolume": "vsphereVolume",
    "photonPersistentDisk": "photonPersistentDisk",
    "portworxVolume": "portworxVolume",
    "azureDisk": "azureDisk",
    "storageos": "storageos",
    "projected": "projected",
    "scaleIO": "scaleIO",
    "csi": "csi",
    "ephemeral": "ephemeral",
    "image": "image",
}

_MODE_RANGE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
Volumes = dict[str, Obj]


def check_volumes(problems: list[Cause], volumes: list[Obj], field: str, pod_name: str = "") -> Volumes:
    """The well-formed volumes by name: those that mounts may refer to."""
    well_formed: Volumes = {}
    created_claims = {
        f"{pod_name}-{volume.get('name', '')}" for volume in volumes if pod_name and "ephemeral" in volume
    }
    for index, volume in enumerate(volumes):
        volume_field = f"{field}[{index}]"
        volume_problems: list[Cause] = Causes()
        _check_source(volume_problems, volume, volume_field, pod_name)
        name = volume.get("name", "")
        if not name:
            volume_problems.append(causes.required(f"{volume_field}.name"))
        elif reasons := formats.dns_label(name):
            volume_problems += causes.each(f"{volume_field}.name", name, reasons)
        if name in well_formed:
            volume_problems.append(causes.duplicate(f"{volume_field}.name", name))
        if not volume_problems:
            well_formed[name] = volume
        problems += volume_problems
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if claim in created_claims:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            problems.append(causes.invalid(f"{volume_field}.persistentVolumeClaim.claimName", claim, detail))
    return well_formed


def _check_source(problems: list[Cause], volume: Obj, field: str, pod_name: str) -> None:
    present = [name for name in SOURCES if name in volume]
    if not present:
        problems.append(causes.required(field, "must specify a volume type"))
        return
    for extra in present[1:]:
        detail = "may not specify more than 1 volume type"
        problems.append(causes.forbidden(f"{field}.{SOURCES[extra]}", detail))
    first = present[0]
    check = _SOURCE_CHECKS.get(first)
    if check:
        check(problems, volume[first], f"{field}.{first}")
    if first == "ephemeral" and pod_name and volume.get("name"):
        claim = f"{pod_name}-{volume['name']}"
        for reason in formats.dns_subdomain(claim):
            problems.append(causes.invalid(f"{field}.name", volume["name"], f'PVC name "{claim}": {reason}'))


def _empty_dir(problems: list[Cause], source: Obj, field: str) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse(limit).nano < 0:
        problems.append(
            causes.forbidden(f"{field}.sizeLimit", "SizeLimit field must be a valid resource quantity")
        )


def _host_path(problems: list[Cause], source: Obj, field: str) -> None:
    path = source.get("path", "")
    if not path:
        problems.append(causes.required(f"{field}.path"))
        return
    check_no_backsteps(problems, path, f"{field}.path")
    kind = source.get("type", "")
    if kind not in _HOST_PATH_TYPES:
        problems.append(causes.not_supported(f"{field}.type", kind, _HOST_PATH_TYPES))


def _secret(problems: list[Cause], source: Obj, field: str) -> None:
    if not source.get("secretName"):
        problems.append(causes.required(f"{field}.secretName"))
    _check_items(problems, source, field)


def _config_map(problems: list[Cause], source: Obj, field: str) -> None:
    if not source.get("name"):
        problems.append(causes.required(f"{field}.name"))
    _check_items(problems, source, field)


def _check_items(problems: list[Cause], source: Obj, field: str) -> None:
    _check_mode(problems, source.get("defaultMode"), f"{field}.defaultMode")
    for index, item in enumerate(source.get("items") or ()):
        _check_key_to_path(problems, item, f"{field}.items[{index}]")


def _check_mode(problems: list[Cause], mode: int | None, field: str) -> None:
    if mode is not None and not 0 <= mode <= 0o777:
        problems.append(causes.invalid(field, mode, _MODE_RANGE))


def _check_key_to_path(problems: list[Cause], item: Obj, field: str) -> None:
    if not item.get("key"):
        problems.append(causes.required(f"{field}.key"))
    path = item.get("path", "")
    if not path:
        problems.append(causes.required(f"{field}.path"))
    check_local_path(problems, path, f"{field}.path")
    _check_mode(problems, item.get("mode"), f"{field}.mode")


def _volume_claim(problems: list[Cause], source: Obj, field: str) -> None:
    if not source.get("claimName"):
        problems.append(causes.required(f"{field}.claimName"))


def _nfs(problems: list[Cause], source: Obj, field: str) -> None:
    path = source.get("path", "")
    if not source.get("server"):
        problems.append(causes.required(f"{field}.server"))
    if not path:
        problems.append(causes.required(f"{field}.path"))
    if not path.startswith("/"):
        problems.append(causes.invalid(f"{field}.path", path, "must be an absolute path"))


def _csi(problems: list[Cause], source: Obj, field: str) -> None:
    driver = source.get("driver", "")
    if not driver:
        problems.append(causes.required(f"{field}.driver"))
    elif reasons := formats.dns_subdomain(driver.lower()):
        problems += causes.each(f"{field}.driver", driver, reasons)


def _ephemeral(problems: list[Cause], source: Obj, field: str) -> None:
    if "volumeClaimTemplate" not in source:
        problems.append(causes.required(f"{field}.volumeClaimTemplate"))


def _image(problems: list[Cause], source: Obj, field: str) -> None:
    if not source.get("reference"):
        problems.append(causes.required(f"{field}.reference"))


def _downward(problems: list[Cause], source: Obj, field: str) -> None:
    _check_mode(problems, source.get("defaultMode"), f"{field}.defaultMode")
    for item in source.get("items") or ():
        _check_downward_file(problems, item, field)


def _check_downward_file(problems: list[Cause], item: Obj, field: str) -> None:
    path = item.get("path", "")
    if not path:
        problems.append(causes.required(f"{field}.path"))
    check_local_path(problems, path, f"{field}.path")
    by_field, by_resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if by_field is not None:
        check_field_ref(problems, by_field, f"{field}.fieldRef", FILE_FIELDS)
        if by_resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            problems.append(causes.invalid(field, "resource", detail))
    elif by_resource is not None:
        check_resource_ref(problems, by_resource, f"{field}.resourceFieldRef", volume=True)
    else:
        problems.append(causes.required(field, "one of fieldRef and resourceFieldRef is required"))
    _check_mode(problems, item.get("mode"), f"{field}.mode")


def _projected(problems: list[Cause], source: Obj, field: str) -> None:
    _check_mode(problems, source.get("defaultMode"), f"{field}.defaultMode")
    paths: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        source_field = f"{field}.sources[{index}]"
        kinds = [name for name in _PROJECTIONS if name in part]
        for name in kinds:
            _PROJECTIONS[name](problems, part[name], f"{source_field}.{name}", field, paths)
        if len(kinds) > 1:
            detail = "may not specify more than 1 volume type per source"
            problems.append(causes.forbidden(source_field, detail))


def _project_keys(problems: list[Cause], part: Obj, field: str, volume_field: str, paths: set[str]) -> None:
    if not part.get("name"):
        problems.append(causes.required(f"{field}.name"))
    for index, item in enumerate(part.get("items") or ()):
        _check_key_to_path(problems, item, f"{field}.items[{index}]")
        _check_unique_path(problems, item.get("path", ""), volume_field, paths, part.get("name", ""))


def _project_downward(
    problems: list[Cause], part: Obj, field: str, volume_field: str, paths: set[str]
) -> None:
    for item in part.get("items") or ():
        _check_downward_file(problems, item, field)
        _check_unique_path(problems, item.get("path", ""), volume_field, paths, item.get("path", ""))


def _project_token(problems: list[Cause], part: Obj, field: str, volume_field: str, paths: set[str]) -> None:
    seconds = part.get("expirationSeconds", 3600)
    if seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        problems.append(causes.invalid(f"{field}.expirationSeconds", seconds, detail))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        problems.append(causes.invalid(f"{field}.expirationSeconds", seconds, detail))
    path = part.get("path", "")
    if not path:
        problems.append(causes.required(f"{volume_field}.path"))
    else:
        check_local_path(problems, path, f"{volume_field}.path")


def _project_bundle(problems: list[Cause], part: Obj, field: str, volume_field: str, paths: set[str]) -> None:
    if "name" not in part and "signerName" not in part:
        problems.append(causes.required(field, "either name or signerName must be specified"))
    check_selector(problems, part.get("labelSelector"), f"{field}.labelSelector")
    path = part.get("path", "")
    if not path:
        problems.append(causes.required(f"{field}.path"))
    check_local_path(problems, path, f"{field}.path")
    _check_unique_path(problems, path, volume_field, paths, path)


def _check_unique_path(problems: list[Cause], path: str, field: str, paths: set[str], value: str) -> None:
    if path and path in paths:
        problems.append(causes.invalid(field, value, "conflicting duplicate paths"))
    paths.add(path)


_PROJECTIONS: dict[str, Callable[[list[Cause], Any, str, str, set[str]], None]] = {
    "secret": _project_keys,
    "configMap": _project_keys,
    "downwardAPI": _project_downward,
    "serviceAccountToken": _project_token,
    "clusterTrustBundle": _project_bundle,
}

_SOURCE_CHECKS: dict[str, Callable[[list[Cause], Obj, str], None]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "nfs": _nfs,
    "persistentVolumeClaim": _volume_claim,
    "downwardAPI": _downward,
    "configMap": _config_map,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
