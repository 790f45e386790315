"""Rules of the security contexts of pods and containers."""

from __future__ import annotations

import re

from fathom.kube.rules.pod.downward_api import check_descending_path
from fathom.model import causes, formats
from fathom.model.errors import Cause
from fathom.model.objects import Obj

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"({_SEGMENT}[\./])*{_SEGMENT}"
_is_sysctl = re.compile(_SYSCTL).fullmatch
_SYSCTL_MAX = 253
_LOCALHOST_PROFILE_MAX = 4095
_NET_SYSCTLS = ("net.", "net/")
_IPC_SYSCTLS = (
    "kernel.sem",
    "kernel/sem",
    "kernel.shm",
    "kernel/shm",
    "kernel.msg",
    "kernel/msg",
    "fs.mqueue.",
    "fs/mqueue/",
)
# Fields of a pod-level context that have a few allowed values.
_CHOICES = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
}


def check_pod_context(problems: list[Cause], context: Obj, spec: Obj, field: str) -> None:
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        _check_id(problems, context.get(name), f"{field}.{name}")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        _check_id(problems, group, f"{field}.supplementalGroups[{index}]")
    if sysctls := context.get("sysctls"):
        _check_sysctls(problems, sysctls, spec, f"{field}.sysctls")
    for name, choices in _CHOICES.items():
        value = context.get(name)
        if value is not None and value not in choices:
            problems.append(causes.not_supported(f"{field}.{name}", value, choices))
    _check_profiles(problems, context, field)


def check_container_context(problems: list[Cause], context: Obj, field: str, *, host_users: bool) -> None:
    for name in ("runAsUser", "runAsGroup"):
        _check_id(problems, context.get(name), f"{field}.{name}")
    mount = context.get("procMount")
    if mount is not None and mount not in {"Default", "Unmasked"}:
        problems.append(causes.not_supported(f"{field}.procMount", mount, ("Default", "Unmasked")))
    if mount == "Unmasked" and host_users:
        detail = "`hostUsers` must be false to use `Unmasked`"
        problems.append(causes.invalid(f"{field}.procMount", mount, detail))
    if context.get("allowPrivilegeEscalation") is False:
        _check_escalation(problems, context, field)
    _check_profiles(problems, context, field)


def _check_escalation(problems: list[Cause], context: Obj, field: str) -> None:
    words = "cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        problems.append(causes.invalid(field, context, f"{words} `privileged` to true"))
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        problems.append(causes.invalid(field, context, f"{words} `capabilities.Add` CAP_SYS_ADMIN"))


def _check_id(problems: list[Cause], value: int | None, field: str) -> None:
    if value is not None:
        problems += causes.each(field, value, formats.user_or_group_id(value))


def _check_profiles(problems: list[Cause], context: Obj, field: str) -> None:
    if seccomp := context.get("seccompProfile"):
        _check_seccomp(problems, seccomp, f"{field}.seccompProfile")
    if armor := context.get("appArmorProfile"):
        _check_app_armor(problems, armor, f"{field}.appArmorProfile")


def _check_profile_type(problems: list[Cause], profile: Obj, field: str, name: str) -> None:
    kind = profile.get("type", "")
    if not kind:
        problems.append(causes.required(f"{field}.type", f"type is required when {name} is set"))
    elif kind not in _PROFILES:
        problems.append(causes.not_supported(f"{field}.type", kind, _PROFILES))


def _check_seccomp(problems: list[Cause], profile: Obj, field: str) -> None:
    _check_profile_type(problems, profile, field, "seccompProfile")
    path = profile.get("localhostProfile")
    if profile.get("type") != "Localhost":
        if path is not None:
            detail = "can only be set when seccomp type is Localhost"
            problems.append(causes.invalid(f"{field}.localhostProfile", profile, detail))
    elif path is None:
        detail = "must be set when seccomp type is Localhost"
        problems.append(causes.required(f"{field}.localhostProfile", detail))
    else:
        check_descending_path(problems, path, f"{field}.localhostProfile")


def _check_app_armor(problems: list[Cause], profile: Obj, field: str) -> None:
    _check_profile_type(problems, profile, field, "appArmorProfile")
    path = profile.get("localhostProfile")
    path_field = f"{field}.localhostProfile"
    if profile.get("type") != "Localhost":
        if path is not None and profile.get("type") in _PROFILES:
            problems.append(
                causes.invalid(path_field, path, "can only be set when AppArmor type is Localhost")
            )
    elif not path:
        problems.append(causes.required(path_field, "must be set when AppArmor type is Localhost"))
    elif path.strip() != path:
        problems.append(causes.invalid(path_field, path, "must not be padded with whitespace"))
    elif len(path.encode()) > _LOCALHOST_PROFILE_MAX:
        problems.append(causes.too_long(path_field, _LOCALHOST_PROFILE_MAX))


def _check_sysctls(problems: list[Cause], sysctls: list[Obj], spec: Obj, field: str) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name_field, name = f"{field}[{index}].name", sysctl.get("name", "")
        if not name:
            problems.append(causes.required(name_field))
        elif len(name) > _SYSCTL_MAX or not _is_sysctl(name):
            detail = f"must have at most {_SYSCTL_MAX} characters and match regex ^{_SYSCTL}$"
            problems.append(causes.invalid(name_field, name, detail))
        elif name in seen:
            problems.append(causes.duplicate(name_field, name))
        if spec.get("hostNetwork") and name.startswith(_NET_SYSCTLS):
            problems.append(
                causes.invalid(name_field, name, "may not be specified when 'hostNetwork' is true")
            )
        if spec.get("hostIPC") and name.startswith(_IPC_SYSCTLS):
            problems.append(causes.invalid(name_field, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)
