"""Mirror pods: how a kubelet shows the API what it runs of its own accord. The node itself makes them."""

from __future__ import annotations

from fathom.model.objects import Obj, metadata

MIRROR = "kubernetes.io/config.mirror"


def is_mirror(pod: Obj) -> bool:
    return MIRROR in (metadata(pod).get("annotations") or ())
