"""Metrics endpoints of the control plane's processes: an EndpointSlice in `fathom-system` for each.

Its name has a dot, so that no Service's slice can have it: those begin with the Service's name, without dots.
"""

from __future__ import annotations

from collections.abc import Iterable

from fathom.model.objects import Obj, labels_of, metadata

PREFIX = "metrics."  # Of the slices' names.
PROCESS = "fathom.dev/process"  # Label: the process, 'deciders'.
PARTS = "fathom.dev/parts"  # Annotation: its parts, 'scheduler,controllers'.
CERTIFICATE = "fathom.dev/serving-certificate"  # Annotation: PEM, the only certificate to trust.
PORT = "https-metrics"


def short_name(slice_: Obj) -> str:
    """The name that always identifies the process: 'deciders-1a2b3c4d'."""
    return str(metadata(slice_)["name"]).removeprefix(PREFIX)


def named(slices: Iterable[Obj], name: str) -> list[Obj]:
    """The slices that a name matches: a slice's short name, a process, or one of its parts."""
    return [
        slice_
        for slice_ in slices
        if name in {short_name(slice_), labels_of(slice_).get(PROCESS), *parts_of(slice_)}
    ]


def parts_of(slice_: Obj) -> tuple[str, ...]:
    return tuple(str((metadata(slice_).get("annotations") or {}).get(PARTS, "")).split(","))
