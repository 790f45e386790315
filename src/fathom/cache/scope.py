"""What part of the cluster one cache holds, and how often to ask for it."""

from __future__ import annotations

import random

import msgspec

from fathom.client.api import Resource
from fathom.model.backoff import Backoff


class CacheScope(msgspec.Struct, frozen=True):
    resource: Resource
    namespace: str = ""  # '' is all of them.
    labels: str = ""  # A label selector.
    fields: str = ""  # A field selector.
    kind: str = ""  # The objects' kind, where the cache goes by another name.

    @property
    def selects(self) -> bool:
        """Whether some objects of the resource, in the namespace, are left out."""
        return bool(self.labels or self.fields)

    def options(self) -> dict[str, str]:
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in chosen.items() if value}


class ListPace(msgspec.Struct, frozen=True):
    """Times in seconds. The defaults suit fathom's own servers and others alike."""

    # Asked of the server with a header that only fathom's know. They also show in time that they honour it.
    bookmark: float = 1.0
    # What a server that does not know the header does: kube-apiserver sends one a minute.
    plain_bookmark: float = 60.0
    # So many bookmarks may be missing before a watch counts as dead.
    missing_max: float = 5.0
    plain_missing_max: float = 1.5
    # How long a watch is asked to last, as client-go asks; drawn, so that watches do not end together.
    watch_min: float = 300.0
    # After a failure: doubled each time up to the most, and half of it drawn.
    pause_min: float = 0.2
    pause_max: float = 30.0
    # A watch that has lived this long was well: what fails next is a new trouble.
    steady: float = 10.0
    # Every so often all objects are shown to the handlers again; 0 is never.
    resync: float = 0.0

    def watch(self, rng: random.Random) -> int:
        return int(self.watch_min * (1.0 + rng.random()))

    def pause(self, failures: int, rng: random.Random) -> float:
        return Backoff(self.pause_min, self.pause_max).jittered_s(failures, rng)
