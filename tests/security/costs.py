"""What a request costs the server, in seconds of CPU, and how that grows with the request."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from tests.api.cpu import process_cpu_s
from tests.api.fuzzing import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, TABLE, Answer, World, encoded, path_to
from tests.security import growing
from tests.security.growing import Place

from fathom.kube.definitions.registry import Registry
from fathom.model.objects import Obj

FEW, MANY = 2_000, 20_000
RATIO_MAX = 20.0
# Below this, a ratio says more about the machine than about us.
NOISE_S = 0.02
REQUEST_CPU_S_MAX = 1.0
TRIES = 4

NOW = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


class Cost(msgspec.Struct, frozen=True):
    """Of one request, with few and with many entries."""

    few_s: float
    many_s: float

    @property
    def is_fine(self) -> bool:
        return self.many_s <= RATIO_MAX * (self.few_s + NOISE_S) and self.many_s < REQUEST_CPU_S_MAX

    def __str__(self) -> str:
        return f"{self.few_s * 1000:.1f} ms of CPU for {FEW}, {self.many_s * 1000:.1f} ms for {MANY}"


def cpu_s(work: Callable[[], Any]) -> float:
    gc.collect()
    gc.freeze()  # What earlier requests have left is no cost of this one.
    started = process_cpu_s()
    work()
    return process_cpu_s() - started


def cost(work: Callable[[int], float]) -> Cost:
    """`work` sends the request with so many entries and says what it took. Measured again where it looks bad:
    a busy machine makes anything slow for a moment, and nothing fast."""
    few_s, many_s = work(FEW), work(MANY)
    for _ in range(TRIES - 1):
        if Cost(few_s, many_s).is_fine:
            break
        few_s, many_s = max(few_s, work(FEW)), min(many_s, work(MANY))
    return Cost(few_s, many_s)


class Growth:
    """One list or map of one kind, grown in every request that can carry it."""

    def __init__(self, world: World, place: Place, *, equal: bool) -> None:
        self._world, self._place, self._equal = world, place, equal
        self._registry: Registry = world.api.core.registry
        self._number = 0
        self._entries: dict[tuple[int, int], Any] = {}

    def create(self, count: int) -> float:
        obj = self._grown(count)
        if self._place.is_status:
            return self._status(obj)
        spent, answer = self._timed("POST", path_to(self._place.kind), encoded(obj))
        self._remove(answer)
        return spent

    def changes(self) -> Iterator[tuple[str, Callable[[int], float]]]:
        """Updates of what was stored. Nothing where it is not taken at all."""
        if self._place.is_status or self._place.kind.virtual or not self._is_taken():
            return
        yield "PUT", lambda count: self._changed(count, "")
        yield "merge patch", lambda count: self._changed(count, MERGE_PATCH)
        if self._place.kind.schema is None:
            yield "strategic merge patch", lambda count: self._changed(count, STRATEGIC_PATCH)
        yield "JSON patch", lambda count: self._changed(count, JSON_PATCH)

    def _is_taken(self) -> bool:
        _, answer = self._timed("POST", path_to(self._place.kind), encoded(self._grown(3)))
        self._remove(answer)
        return answer.status == 201

    def _grown(self, count: int) -> Obj:
        self._number += 1
        name = f"g{self._number}"
        made = growing.base(self._registry, self._place.kind, name)
        growing.set_at(self._registry.definitions, self._place, made, self._many(count))
        return made

    def _many(self, count: int, first: int = 0) -> Any:
        """Made once for all requests, which only send them: it takes longer than a request does."""
        if (count, first) not in self._entries:
            self._entries[count, first] = growing.entries(
                self._registry.definitions, self._place, count, equal=self._equal, first=first
            )
        return self._entries[count, first]

    def _status(self, obj: Obj) -> float:
        kind, name = self._place.kind, obj["metadata"]["name"]
        made = self._world.send("POST", path_to(kind), encoded(growing.base(self._registry, kind, name)))
        changed = {"status": obj["status"]}
        spent = cpu_s(lambda: self._world.patch(path_to(kind, name, "status"), changed))
        self._remove(made)
        return spent

    def _changed(self, count: int, media: str) -> float:
        """Everything in the list is another than before, and a table of it is asked for."""
        kind, obj = self._place.kind, self._grown(count)
        made = self._world.send("POST", path_to(kind), encoded(obj))
        if made.status != 201:
            return 0.0  # There is a limit, and it was told.
        path = path_to(kind, made.obj["metadata"]["name"])
        new = self._many(count, first=count)
        spent = cpu_s(lambda: self._send_change(path, made.obj, new, media))
        spent = max(spent, cpu_s(lambda: self._world.send("GET", path_to(kind), headers=TABLE)))
        self._remove(made)
        return spent

    def _send_change(self, path: str, old: Obj, new: Any, media: str) -> None:
        if media == JSON_PATCH:
            self._world.patch(path, _operations(self._place, new), media)
            return
        changed: Obj = old if not media else {}
        growing.set_at(self._registry.definitions, self._place, changed, new)
        if media:
            changed.pop("kind", None)
            self._world.patch(path, changed, media)
        else:
            self._world.send("PUT", path, encoded(changed))

    def _timed(self, method: str, path: str, body: bytes) -> tuple[float, Answer]:
        answers: list[Answer] = []
        spent = cpu_s(lambda: answers.append(self._world.send(method, path, body)))
        return spent, answers[0]

    def _remove(self, made: Answer) -> None:
        if made.status == 201 and not self._place.kind.virtual:
            name = made.obj["metadata"]["name"]
            self._world.patch(path_to(self._place.kind, name), {"metadata": {"finalizers": None}})
            self._world.send("DELETE", path_to(self._place.kind, name), encoded(NOW))


def _operations(place: Place, new: Any) -> list[Obj]:
    """One for each entry, as many as a patch may have."""
    path = "".join(f"/{0 if step == growing.ITEM else step}" for step in place.steps)
    if isinstance(new, dict):
        pairs = ((f"{path}/{name.replace('/', '~1')}", value) for name, value in new.items())
    else:
        pairs = ((f"{path}/0", value) for value in new)
    return [{"op": "add", "path": at, "value": value} for at, value in pairs]
