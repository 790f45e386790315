"""Rules of the downward API: references to a pod's own fields and resources, and the paths of their files.

Used by environment variables and by volumes.
"""

from __future__ import annotations

from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

FILE_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)


def check_field_ref(problems: list[Cause], ref: Obj, field: str, allowed: tuple[str, ...]) -> None:
    """A downward API reference to one of the pod's own fields."""
    path = ref.get("fieldPath", "")
    if not path:
        problems.append(causes.required(f"{field}.fieldPath"))
        return
    plain, subscript, key = path.partition("['")
    if subscript and path.endswith("']"):
        key = key.removesuffix("']")
        if plain == "metadata.annotations":
            problems += causes.each(field, key.lower(), formats.qualified_name(key.lower()))
        elif plain == "metadata.labels":
            problems += causes.each(field, key, formats.qualified_name(key))
        else:
            problems.append(causes.invalid(field, plain, "does not support subscript"))
    elif path not in allowed:
        if path in _CONVERTIBLE_FIELDS:
            problems.append(causes.not_supported(f"{field}.fieldPath", path, allowed))
        else:
            detail = f"error converting fieldPath: field label not supported: {path}"
            problems.append(causes.invalid(f"{field}.fieldPath", path, detail))


# Fields that the downward API supports in some places, but not everywhere.
_CONVERTIBLE_FIELDS = frozenset(
    {
        *FILE_FIELDS,
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_RESOURCE_FIELDS = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_CPU_DIVISORS = frozenset({"1m", "1"})
_SIZE_DIVISORS = frozenset({"1", *(f"1{unit}" for unit in "kMGTPE"), *(f"1{unit}i" for unit in "KMGTPE")})
_SIZES_LISTED = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei"


def check_resource_ref(problems: list[Cause], ref: Obj, field: str, *, volume: bool) -> None:
    resource = ref.get("resource", "")
    pages = resource.startswith(("requests.hugepages-", "limits.hugepages-"))
    if volume and not ref.get("containerName"):
        problems.append(causes.required(f"{field}.containerName"))
    elif not resource:
        problems.append(causes.required(f"{field}.resource"))
    elif resource not in _RESOURCE_FIELDS and not pages:
        problems.append(causes.not_supported(f"{field}.resource", resource, _RESOURCE_FIELDS))
    divisor = ref.get("divisor", "0")
    if divisor == "0":
        return
    if resource.endswith(".cpu"):
        if divisor not in _CPU_DIVISORS:
            detail = "only divisor's values 1m and 1 are supported with the cpu resource"
            problems.append(causes.invalid(f"{field}.divisor", resource, detail))
    elif divisor not in _SIZE_DIVISORS:
        words = "hugepages" if pages else _SIZE_WORDS.get(resource.partition(".")[2])
        if words:
            detail = f"only divisor's values {_SIZES_LISTED} are supported with the {words} resource"
            problems.append(causes.invalid(f"{field}.divisor", resource, detail))


_SIZE_WORDS = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}


def check_no_backsteps(problems: list[Cause], path: str, field: str) -> None:
    if ".." in path.split("/"):
        problems.append(causes.invalid(field, path, "must not contain '..'"))


def check_descending_path(problems: list[Cause], path: str, field: str) -> None:
    if path.startswith("/"):
        problems.append(causes.invalid(field, path, "must be a relative path"))
    check_no_backsteps(problems, path, field)


def check_local_path(problems: list[Cause], path: str, field: str) -> None:
    """Relative, without '..', and not a name that is reserved for the node."""
    check_descending_path(problems, path, field)
    if path.startswith("..") and not path.startswith("../"):
        problems.append(causes.invalid(field, path, "must not start with '..'"))
