"""The part of the cluster that one cache holds, and the times of its lists and watches."""

from __future__ import annotations

import random

import msgspec

from fathom.client.api import Resource
from fathom.model.backoff import Backoff


class CacheScope(msgspec.Struct, frozen=True):
    resource: Resource
    namespace: str = ""  # '' is all namespaces.
    labels: str = ""  # A label selector.
    fields: str = ""  # A field selector.
    kind: str = ""  # The objects' kind, where the cache has another name.

    @property
    def selects(self) -> bool:
        """Whether a selector leaves out some objects of the resource in the namespace."""
        return bool(self.labels or self.fields)

    def options(self) -> dict[str, str]:
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in chosen.items() if value}


class ListPace(msgspec.Struct, frozen=True):
    """Times in seconds. The defaults suit fathom's own servers and kube-apiserver alike."""

    # Requested with a header that only fathom's servers know. Its bookmarks show whether a server honours it.
    bookmark: float = 1.0
    # The interval of a server that does not know the header: kube-apiserver sends one a minute.
    plain_bookmark: float = 60.0
    # So many bookmarks may be missing before a watch counts as dead.
    missing_max: float = 5.0
    plain_missing_max: float = 1.5
    # So long the end of a WatchList may be silent; then the list is read in pages. A kube-apiserver whose
    # etcd is too old to report progress sends all objects, and never the bookmark that ends them.
    list_silence: float = 10.0
    # The timeout requested for a watch, as in client-go; randomized, so that watches do not end together.
    watch_min: float = 300.0
    # After a failure: doubled each time up to the maximum, and half of it random.
    pause_min: float = 0.2
    pause_max: float = 30.0
    # A watch that was open this long was healthy: the next failure counts as the first.
    steady: float = 10.0
    # The interval at which handlers are called with all objects again; 0 is never.
    resync: float = 0.0

    def watch(self, rng: random.Random) -> int:
        return int(self.watch_min * (1.0 + rng.random()))

    def pause(self, failures: int, rng: random.Random) -> float:
        return Backoff(self.pause_min, self.pause_max).jittered_s(failures, rng)
