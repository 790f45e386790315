"""Ages of timestamps in objects, on this process's monotonic clock, counted from when each was first seen.

So setting the wall clock does not make anything older. A timestamp from before this process looked counts as
old as the wall clock says when it is first seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from fathom.controllers.pod_states import seconds
from fathom.model.objects import Key


class Ages:
    def __init__(self) -> None:
        # The timestamp, since when it holds, and since when this process sees it.
        self._since: dict[Key, tuple[str, int, int]] = {}

    def age_s(self, key: Key, stamp: str | None, *, now: str, now_ns: int) -> float | None:
        """`now`: the wall clock; `now_ns`: the monotonic one. None without a timestamp."""
        if stamp is None:
            self._since[key] = ("", now_ns, now_ns)
            return None
        entry = self._since.get(key)
        if entry is None:
            before_s = max(0.0, seconds(now) - seconds(stamp))
            entry = self._since[key] = (stamp, now_ns - round(before_s * 1e9), now_ns)
        elif entry[0] != stamp:
            entry = self._since[key] = (stamp, now_ns, now_ns)
        return (now_ns - entry[1]) / 1e9

    def seen_s(self, key: Key, *, now_ns: int) -> float:
        """For how long this process has seen the timestamp that `age_s` was last given."""
        entry = self._since.get(key)
        return 0.0 if entry is None else (now_ns - entry[2]) / 1e9

    def forget(self, key: Key) -> None:
        self._since.pop(key, None)


class SeenFor:
    """For how long this process has seen each named timestamp of an object, whatever the wall clock says."""

    def __init__(self) -> None:
        self._since: dict[Key, dict[str, tuple[str, int]]] = {}  # By name: the timestamp, and since when.

    def seen_s(self, key: Key, stamps: Mapping[str, str], *, now_ns: int) -> dict[str, float]:
        """`now_ns`: the monotonic clock. Names that are gone are forgotten."""
        before = self._since.pop(key, {})
        since = {
            name: entry if (entry := before.get(name)) and entry[0] == stamp else (stamp, now_ns)
            for name, stamp in stamps.items()
        }
        if since:
            self._since[key] = since
        return {name: (now_ns - first_ns) / 1e9 for name, (_, first_ns) in since.items()}
