"""Rules of ConfigMaps and Secrets: maps of small files, which may be immutable."""

from __future__ import annotations

import base64
import binascii

import msgspec

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.model import brake, causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj, key_of, metadata

SIZE_BYTES_MAX = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"
_ACCOUNT_NAME = "kubernetes.io/service-account.name"
_DOCKER_KEYS = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


class ConfigMapRules(KindRules):
    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        text, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        _check_keys(problems, text, "data")
        for key in text:
            if key in binary:
                detail = "duplicate of key present in binaryData"
                problems.append(causes.invalid(f"data[{key}]", key, detail))
        _check_keys(problems, binary, "binaryData")
        if _may_be_too_long(text, binary) and _size(text, binary) > SIZE_BYTES_MAX:
            problems.append(causes.too_long("", SIZE_BYTES_MAX))
        if metadata(obj).get("name") == brake.BRAKE.name:
            problems += _brake_problems(obj)
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        _check_immutable(problems, obj, old, ("data", "binaryData"))
        problems += self.validate_create(obj)
        if not problems:
            return problems
        # Wrong limits stored before this check existed do not prevent a new label, or a deletion.
        same = all((obj.get(name) or {}) == (old.get(name) or {}) for name in ("data", "binaryData"))
        return [problem for problem in problems if problem not in _brake_problems(old)] if same else problems


def _may_be_too_long(text: Obj, binary: Obj) -> bool:
    """A cheap upper bound: no character is longer than four bytes."""
    return 4 * sum(map(len, text.values())) + sum(map(len, binary.values())) > SIZE_BYTES_MAX


def _size(text: Obj, binary: Obj) -> int:
    decoded = sum(_decoded_size(value) for value in binary.values())
    return decoded + sum(len(value.encode()) for value in text.values())


def _brake_problems(obj: Obj) -> list[Cause]:
    """Wrong limits in the ConfigMap of the node brake: a misspelt limit would silently have no effect."""
    if key_of(obj) != brake.BRAKE:
        return []
    hint = f"valid limits are {', '.join(brake.NAMES)}"
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    problems = [
        causes.invalid(f"data[{name}]", data[name], f"{message}; {hint}")
        for name, message in brake.wrong_limits(data)
    ]
    return problems + [
        causes.invalid(f"binaryData[{name}]", name, f"limits belong in data, as text; {hint}")
        for name in binary
    ]


class SecretRules(KindRules):
    def default(self, obj: Obj) -> None:
        """`stringData` is for writing only: it goes into `data`."""
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def prepare_update(self, obj: Obj, old: Obj, moment: WriteMoment) -> None:
        if not obj.get("type") and old.get("type"):
            obj["type"] = old["type"]

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        data = obj.get("data") or {}
        _check_keys(problems, data, "data")
        if sum(_decoded_size(value) for value in data.values()) > SIZE_BYTES_MAX:
            problems.append(causes.too_long("data", SIZE_BYTES_MAX))
        _check_type(problems, obj, data)
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = causes.unchanged("type", obj.get("type", ""), old.get("type", ""))
        _check_immutable(problems, obj, old, ("data",))
        return problems + self.validate_create(obj)


def _check_keys(problems: list[Cause], data: Obj, field: str) -> None:
    for key in data:
        if reasons := formats.config_key(key):
            problems += causes.each(f"{field}[{key}]", key, reasons)


def _check_immutable(problems: list[Cause], obj: Obj, old: Obj, names: tuple[str, ...]) -> None:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        problems.append(causes.forbidden("immutable", _IMMUTABLE))
    for name in names:
        if (obj.get(name) or {}) != (old.get(name) or {}):
            problems.append(causes.forbidden(name, _IMMUTABLE))


def _decoded_size(encoded: str) -> int:
    return len(encoded) * 3 // 4 - encoded.count("=", -2)


def _check_type(problems: list[Cause], obj: Obj, data: Obj) -> None:
    """The keys that the well-known types of Secrets must have."""
    kind = obj.get("type", "Opaque")
    if kind == "kubernetes.io/service-account-token":
        if not (metadata(obj).get("annotations") or {}).get(_ACCOUNT_NAME):
            problems.append(causes.required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
    elif kind in _DOCKER_KEYS:
        _check_docker(problems, data, _DOCKER_KEYS[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            problems += [causes.required("data[username]"), causes.required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            problems.append(causes.required("data[ssh-privatekey]"))
    elif kind == "kubernetes.io/tls":
        problems += [causes.required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]


def _check_docker(problems: list[Cause], data: Obj, key: str) -> None:
    if key not in data:
        problems.append(causes.required(f"data[{key}]"))
        return
    try:
        msgspec.json.decode(base64.b64decode(data[key]), type=dict)
    except (binascii.Error, msgspec.DecodeError) as error:
        problems.append(causes.invalid(f"data[{key}]", "<secret contents redacted>", str(error)))
