"""An agent rejects a pod for want of room only where the pods that are there take that room."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from fathom.model.objects import Key, Obj, lookup, uid_of
from fathom.model.pod_phase import TERMINAL_PHASES
from fathom.model.quantity import parse
from fathom.sim.world.invariants import Checker, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.world import World

OUT_OF = "OutOf"
# How long an agent may be without news of a pod's end: of another's doing, or of an earlier agent's.
UNHEARD_S = 60.0


class RejectedForWantOfRoom(Checker):
    name = "a pod is rejected only where it does not fit"
    resources = frozenset({"pods"})

    def __init__(self) -> None:
        self._pods: dict[str, Obj] = {}  # By UID, bound ones; as they are, or were last.
        self._over_s: dict[str, float] = {}  # When each ended, or was removed.
        self._world: World | None = None

    def begin(self, world: World) -> None:
        self._world = world

    def commit(self, change: Seen) -> Found:
        for obj in (change.old, change.new):
            if obj is not None and lookup(obj, "spec", "nodeName"):
                self._pods[uid_of(obj)] = obj
        alive = uid_of(change.new) if change.new is not None and not _has_ended(change.new) else ""
        for obj in (change.old, change.new):
            if obj is not None and uid_of(obj) != alive:
                self._over_s.setdefault(uid_of(obj), change.at_s)
        return self._rejected(change)

    def _rejected(self, change: Seen) -> str | None:
        new, old = change.new, change.old
        reason = str(lookup(new, "status", "reason") or "")
        if new is None or old is None or _has_ended(old) or not reason.startswith(OUT_OF):
            return None
        node = str(lookup(new, "spec", "nodeName") or "")
        assert self._world is not None
        room = lookup(self._world.get("nodes", Key("", node)), "status", "allocatable") or {}
        resource = reason.removeprefix(OUT_OF)
        if change.by != node or resource not in room:
            return None
        used = sum(_request(pod, resource) for pod in self._there(node, change))
        wanted, has = _request(new, resource), _amount(room[resource])
        if used + wanted > has:
            return None
        return (
            f"{node} rejected {change.key.name}: {wanted} of {resource} fits, since {used} of {has} is in use"
        )

    def _there(self, node: str, change: Seen) -> Iterator[Obj]:
        own = "" if change.new is None else uid_of(change.new)
        for uid, pod in self._pods.items():
            over_s = change.at_s - self._over_s.get(uid, change.at_s)
            if uid != own and over_s <= UNHEARD_S and lookup(pod, "spec", "nodeName") == node:
                yield pod


def _has_ended(pod: Obj) -> bool:
    return lookup(pod, "status", "phase") in TERMINAL_PHASES


def _amount(text: object) -> Fraction:
    return Fraction(parse(str(text)).milli, 1000)


def _request(pod: Obj, resource: str) -> Fraction:
    """Main containers and sidecars run together; an init container runs beside the sidecars before it."""
    if resource == "pods":
        return Fraction(1)
    sidecars = most = Fraction(0)
    for container in lookup(pod, "spec", "initContainers") or ():
        asked = _of(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += asked
        most = max(most, sidecars if container.get("restartPolicy") == "Always" else sidecars + asked)
    mains = sum(
        (_of(container, resource) for container in lookup(pod, "spec", "containers") or ()), Fraction(0)
    )
    overhead = lookup(pod, "spec", "overhead") or {}
    return max(most, sidecars + mains) + _amount(overhead.get(resource, 0))


def _of(container: Obj, resource: str) -> Fraction:
    asked = lookup(container, "resources", "requests", resource)
    return _amount(lookup(container, "resources", "limits", resource) or 0 if asked is None else asked)
