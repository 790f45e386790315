"""Cluster IPs and node ports: each is one Service's, and free again when no Service has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fathom.model.objects import Key, Obj, lookup
from fathom.sim.world.invariants import Checker, Finding, Found, Seen, place_of

if TYPE_CHECKING:
    from fathom.sim.world.world import World

SERVICES, CLAIMS = "services", "serviceclaims.fathom.dev"


class ClaimsAreThoseOfServices(Checker):
    """Checked after every whole commit: when the next one begins, or at rest."""

    name = "what Services have allocated is claimed, once, and nothing else is"

    def __init__(self) -> None:
        self._held: dict[str, Key] = {}  # Address or port -> the Service that has it.
        self._claims: set[str] = set()
        self._revision = 0
        self._moved = False

    def begin(self, world: World) -> None:
        for entry in world.engine.store.entries():
            resource, key = place_of(entry.key)
            if resource == CLAIMS:
                self._claims.add(key.name)
            elif resource == SERVICES:
                self._held |= dict.fromkeys(_allocated(entry.body.obj), key)

    def commit(self, change: Seen) -> Found:
        problem: Found = self._check() if change.revision != self._revision else None
        self._revision = change.revision
        if change.resource == CLAIMS:
            self._moved = True
            (self._claims.discard if change.new is None else self._claims.add)(change.key.name)
        elif change.resource == SERVICES:
            self._moved = True
            problem = problem or self._changed(change)
        return problem

    def _changed(self, change: Seen) -> Found:
        before, after = _allocated(change.old), _allocated(change.new)
        for claim in before - after:
            self._held.pop(claim, None)
        for claim in sorted(after - before):
            other = self._held.get(claim)
            if other is not None and other != change.key:
                return f"{change.path} has {claim}, which {'/'.join(other)} has already"
            self._held[claim] = change.key
        return None

    def settled(self, world: World) -> Iterable[str | Finding]:
        problem = self._check()
        return () if problem is None else (problem,)

    def _check(self) -> str | None:
        moved, self._moved = self._moved, False
        if not moved or self._held.keys() == self._claims:
            return None
        lost, left = sorted(self._held.keys() - self._claims), sorted(self._claims - self._held.keys())
        if lost:
            return f"Service {'/'.join(self._held[lost[0]])} has {lost[0]}, and has not claimed it"
        return f"{left[0]} is claimed, and no Service has it"


def _allocated(service: Obj | None) -> set[str]:
    spec = (service or {}).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return set()
    ports = {str(port["nodePort"]) for port in spec.get("ports") or () if port.get("nodePort")}
    return {ip for ip in lookup(spec, "clusterIPs") or () if ip and ip != "None"} | ports
