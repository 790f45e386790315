"""Mirror pods: how a node shows the API what it runs of its own accord. Nothing is run because of one."""

from __future__ import annotations

from fathom.model.objects import Obj, metadata

MIRROR = "kubernetes.io/config.mirror"


def is_mirror(pod: Obj) -> bool:
    return MIRROR in (metadata(pod).get("annotations") or ())
