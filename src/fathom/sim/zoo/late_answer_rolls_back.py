"""21. A late reply to a write goes into the cache although the watch has delivered newer events since:
deleted objects come back (reported of OpenSandbox)."""

from __future__ import annotations

from typing import Any

from fathom.cache.indexed import Change, IndexedCache
from fathom.client.events import revision_of
from fathom.model.objects import Obj, key_of
from fathom.sim.zoo import put_back

SCENARIOS = ("answers-come-late",)
BREAKS = "caches equal the store when settled"


def whatever_comes(self: Any, obj: Obj, changes: list[Change], *, now_s: float) -> None:
    key, old = key_of(obj), self._draft.get(key_of(obj))
    if self.synced and (old is None or revision_of(old) < revision_of(obj)):
        self._put(key, old, obj, changes)
        self._moved()


put_back(IndexedCache, "apply_write", whatever_comes)
