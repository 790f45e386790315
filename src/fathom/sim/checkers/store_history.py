"""The store's content at every revision, kept by the checker itself, to detect a store that loses history."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from urllib.parse import parse_qsl

import msgspec

from fathom.model.objects import Obj, labels_of, lookup
from fathom.sim.world.invariants import Seen, place_of
from fathom.store.protocol import Entry

_equals = re.compile(r"[^=!,() ]+=[^=!,() ]+").fullmatch  # One label, one value.
ON_NODE = "spec.nodeName="  # The selector of agents.

State = tuple[int, Obj]  # An object, with its revision.


class StoreStep(msgspec.Struct, frozen=True):
    """One change of one object."""

    revision: int
    path: str  # 'default/web-1'
    old: State | None
    new: Obj | None


class AskedWrite(msgspec.Struct, frozen=True):
    """The resource, object and query of a request."""

    resource: str  # 'pods', 'deployments.apps'
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: dict[str, str] = {}

    @property
    def path(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def is_odd(self) -> bool:
        """It uses a selector that this checker does not evaluate."""
        fields, labels = self.query.get("fieldSelector", ""), self.query.get("labelSelector", "")
        return bool(fields and not fields.startswith(ON_NODE)) or bool(labels and not _equals(labels))

    def wants(self, path: str, obj: Obj) -> bool:
        if self.namespace and not path.startswith(f"{self.namespace}/"):
            return False
        name, _, value = self.query.get("labelSelector", "").partition("=")
        if name and labels_of(obj).get(name) != value:
            return False
        fields = self.query.get("fieldSelector", "")
        return not fields or str(lookup(obj, "spec", "nodeName") or "") == fields.removeprefix(ON_NODE)


@lru_cache(maxsize=1 << 12)
def asked_of(target: str) -> AskedWrite | None:
    """None where the target is no API object or collection."""
    path, _, query = target.partition("?")
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    group = f".{parts[1]}" if parts[0] == "apis" and len(parts) > 1 else ""
    if parts[0] not in {"api", "apis"} or not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return AskedWrite(f"{plural}{group}", namespace, name, subresource, dict(parse_qsl(query)))


class StoreHistory:
    def __init__(self, first: Iterable[Entry]) -> None:
        self._now: dict[str, dict[str, State]] = {}  # By resource and path.
        self._steps: dict[str, list[StoreStep]] = {}  # By resource, in order.
        self._lives: dict[tuple[str, str], list[tuple[int, bool]]] = {}  # Create, updates, delete.
        for entry in first:
            resource, key = place_of(entry.key)
            path = "/".join(part for part in key if part)
            self._now.setdefault(resource, {})[path] = (entry.revision, entry.body.obj)
            self._lives[resource, path] = [(entry.revision, True)]

    def record(self, change: Seen) -> None:
        resource, path = change.resource, "/".join(part for part in change.key if part)
        now = self._now.setdefault(resource, {})
        step = StoreStep(change.revision, path, now.get(path), change.new)
        self._steps.setdefault(resource, []).append(step)
        self._lives.setdefault((resource, path), []).append((change.revision, change.new is not None))
        if change.new is None:
            now.pop(path, None)
        else:
            now[path] = (change.revision, change.new)

    def knows(self, resource: str) -> bool:
        return resource in self._now

    def steps(self, resource: str) -> list[StoreStep]:
        return self._steps.get(resource, [])

    def life(self, resource: str, path: str) -> list[tuple[int, bool]]:
        """(revision, whether the object existed from then on), oldest first."""
        return self._lives.get((resource, path), [])

    def at(self, resource: str, revision: int, wants: Callable[[str, Obj], bool]) -> dict[str, int]:
        """The objects that existed at a revision, each with its own revision."""
        objects = self._at(resource, revision)
        return {path: own for path, (own, obj) in objects.items() if wants(path, obj)}

    def objects_at(self, resource: str, revision: int) -> list[Obj]:
        return [obj for _, obj in self._at(resource, revision).values()]

    def _at(self, resource: str, revision: int) -> dict[str, State]:
        objects = self._now.get(resource, {})
        steps = self.steps(resource)
        if steps and steps[-1].revision > revision:
            objects = dict(objects)
            for step in reversed(steps):
                if step.revision <= revision:
                    break
                if step.old is None:
                    objects.pop(step.path, None)
                else:
                    objects[step.path] = step.old
        return objects
