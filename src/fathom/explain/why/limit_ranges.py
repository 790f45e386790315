"""Requests that a pod has from a LimitRange. Admission notes them in an annotation of the pod:
'LimitRanger plugin set: cpu, memory request for container web; cpu limit for container web'."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from fathom.api.admission.limits import ANNOTATION
from fathom.model.objects import Obj, lookup, metadata

_NOTE = re.compile(r"(?P<resources>[^;]+) request for (?:init )?container (?P<container>\S+)")


class DefaultRequest(msgspec.Struct, frozen=True):
    container: str
    resource: str  # 'cpu'
    amount: str  # As the pod has it: '100m'.


def limit_range_defaults(pod: Obj) -> Iterator[DefaultRequest]:
    note = str((metadata(pod).get("annotations") or {}).get(ANNOTATION) or "").partition(": ")[2]
    for part in note.split("; "):
        match = _NOTE.fullmatch(part.strip())
        for resource in match["resources"].split(", ") if match else ():
            amount = _request(pod, match["container"], resource) if match else None
            if match and amount is not None:
                yield DefaultRequest(match["container"], resource, str(amount))


def _request(pod: Obj, container: str, resource: str) -> object:
    spec = pod.get("spec") or {}
    listed = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    own: Obj = next((each for each in listed if each.get("name") == container), {})
    return lookup(own, "resources", "requests", resource)
