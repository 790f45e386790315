"""Endpoints at every commit, not only at rest: who leaves or is not ready gets no new connections."""

from __future__ import annotations

from fathom.model.objects import Obj, key_of, labels_of, lookup
from fathom.model.resource_names import SLICES
from fathom.model.well_known import SERVICE_NAME_LABEL
from fathom.sim.world.invariants import Checker, Found, Seen

SERVICES = "services"


class LeavingEndpointsAreNotReady(Checker):
    """An endpoint that is terminating, or does not serve, is not listed as ready, unless its Service asks for
    that (`publishNotReadyAddresses`)."""

    name = "an endpoint that leaves is not ready"
    resources = frozenset({SLICES, SERVICES})

    def __init__(self) -> None:
        self._publishes: dict[str, None] = {}  # Services that ever published all their pods.

    def commit(self, change: Seen) -> Found:
        if change.resource == SERVICES:
            if lookup(change.new, "spec", "publishNotReadyAddresses"):
                self._publishes["/".join(change.key)] = None
            return None
        if change.new is None or _service(change.new) in self._publishes:
            return None
        for endpoint in change.new.get("endpoints") or ():
            state = endpoint.get("conditions") or {}
            if state.get("ready") and (state.get("terminating") or state.get("serving") is False):
                pod = lookup(endpoint, "targetRef", "name")
                return f"{change.by} lists {pod} as ready, though it is leaving or not ready"
        return None


def _service(endpoint_slice: Obj) -> str:
    return f"{key_of(endpoint_slice).namespace}/{labels_of(endpoint_slice).get(SERVICE_NAME_LABEL, '')}"
