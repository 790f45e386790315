"""Rules of PersistentVolumes and claims, as far as a control plane without storage needs them."""

from __future__ import annotations

from fathom.kube.rules.base import KindRules, WriteMoment
from fathom.kube.rules.compare import same
from fathom.kube.rules.selectors import check_selector
from fathom.model import causes, formats
from fathom.model.errors import Cause, Causes
from fathom.model.objects import Obj
from fathom.model.quantity import parse

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_CLAIM_FIXED = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)


class PersistentVolumeRules(KindRules):
    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {"phase": "Pending"}


class PersistentVolumeClaimRules(KindRules):
    def prepare_create(self, obj: Obj, moment: WriteMoment) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate_create(self, obj: Obj) -> list[Cause]:
        problems: list[Cause] = Causes()
        spec = obj.get("spec") or {}
        modes = spec.get("accessModes") or []
        if not modes:
            problems.append(causes.required("spec.accessModes", "at least 1 access mode is required"))
        for mode in modes:
            if mode not in _MODES:
                problems.append(causes.not_supported("spec.accessModes", mode, _MODES))
        check_selector(problems, spec.get("selector"), "spec.selector")
        _check_size(problems, spec)
        name = spec.get("storageClassName", "")
        if name:
            problems += causes.each("spec.storageClassName", name, formats.dns_subdomain(name))
        mode = spec.get("volumeMode", "Filesystem")
        if mode not in _VOLUME_MODES:
            problems.append(causes.not_supported("spec.volumeMode", mode, _VOLUME_MODES))
        return problems

    def validate_update(self, obj: Obj, old: Obj) -> list[Cause]:
        problems = self.validate_create(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        bound = (old.get("status") or {}).get("phase") == "Bound"
        if not same(_fixed(spec, before, bound=bound), before):
            problems.append(causes.forbidden("spec", _CLAIM_FIXED))
        elif bound:
            _check_growth(problems, spec, before)
        return problems


def _check_size(problems: list[Cause], spec: Obj) -> None:
    size, field = ((spec.get("resources") or {}).get("requests") or {}).get("storage"), "spec.resources"
    if size is None:
        problems.append(causes.required(f"{field}[storage]"))
    elif parse(size).nano <= 0:
        problems.append(causes.invalid(f"{field}[storage]", str(parse(size)), causes.MUST_BE_POSITIVE))


def _fixed(spec: Obj, before: Obj, *, bound: bool) -> Obj:
    """The new spec with the old values of fields that may change: the volume's name, once; if bound, the
    size."""
    rest = dict(spec)
    if not before.get("volumeName"):
        rest.pop("volumeName", None)
    if bound:
        rest["resources"] = before.get("resources")
        rest["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    return rest


def _check_growth(problems: list[Cause], spec: Obj, before: Obj) -> None:
    new = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    old = ((before.get("resources") or {}).get("requests") or {}).get("storage")
    if new is not None and old is not None and parse(new) < parse(old):
        detail = "field can not be less than status.capacity"
        problems.append(causes.forbidden("spec.resources.requests.storage", detail))
