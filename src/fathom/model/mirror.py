"""Mirror pods: a kubelet creates them in the API to show the static pods that it runs."""

from __future__ import annotations

from fathom.model.objects import Obj, metadata

MIRROR = "kubernetes.io/config.mirror"


def is_mirror(pod: Obj) -> bool:
    return MIRROR in (metadata(pod).get("annotations") or ())
