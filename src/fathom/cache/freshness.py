"""Checks whether a snapshot is as fresh as a decision needs it, and waits until it is.

A stale snapshot is fine when the action can be repeated and a later reconcile repairs it. It is not when the
action claims something exclusive, consumes quota, deletes, or lets other controllers act on it: such a
decision declares a need, and is held, with a reason that can be shown, until the need is met.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from fathom.cache.needs import AnyAge, AtLeast, Need, NoOlderThan, OwnWrites
from fathom.cache.own_writes import OwnWrite, WriteLog
from fathom.cache.snapshot import Snapshot

# A server that is behind is probed at most this often.
PROBE_EVERY_S = 0.5


class Unmet(msgspec.Struct, frozen=True):
    """One kind that is not fresh enough. `reason` is for a condition, `why` for its message. Both stay the
    same while the same need is unmet: a condition that counts seconds would be written again and again."""

    kind: str
    reason: str  # NotSynced, OwnWritesUnseen, BehindRevision, Stale
    why: str
    measured: str = ""  # The current revision or age. For the journal.


class FreshnessSource(Protocol):
    """The methods of `Caches` that waiting uses."""

    def snapshot(self) -> Snapshot: ...

    async def moved(self, kinds: Iterable[str]) -> None: ...

    async def probe(self, kind: str, *, timeout_s: float) -> bool: ...


def unmet(needs: Sequence[Need], snapshot: Snapshot, written: WriteLog, *, now_s: float) -> list[Unmet]:
    """The needs that this snapshot does not meet; empty when a decision may be made."""
    unmet_needs = [Unmet(kind, "NotSynced", f"{kind} has not been listed yet") for kind in snapshot.unsynced]
    missing = {lack.kind for lack in unmet_needs}
    for need in needs:
        unmet_needs += [
            lack for lack in _unmet_by(need, snapshot, written, now_s) if lack.kind not in missing
        ]
    return unmet_needs


async def until_fresh(
    caches: FreshnessSource,
    needs: Sequence[Need],
    written: WriteLog,
    *,
    timeout_s: float,
    probe: bool = False,
) -> tuple[Snapshot, list[Unmet]]:
    """The first snapshot that meets all needs; or, when time is up, the last one with its unmet needs.

    `probe`: ask the servers of kinds that are behind or old for their revision. For servers that send
    bookmarks seldom, where waiting alone would take minutes."""
    loop = asyncio.get_running_loop()
    probes = Probes(caches, timeout_s) if probe else None
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                snapshot = caches.snapshot()
                lacking = unmet(needs, snapshot, written, now_s=loop.time())
                if not lacking:
                    _forget_seen(needs, snapshot, written)
                    return snapshot, []
                kinds = tuple(dict.fromkeys(lack.kind for lack in lacking))
                if probes is None:
                    await caches.moved(kinds)
                else:
                    await probes.moved(kinds)
    except TimeoutError:
        snapshot = caches.snapshot()
        return snapshot, unmet(needs, snapshot, written, now_s=loop.time())
    finally:
        if probes is not None:
            probes.stop()


class Probes:
    """Probes kinds while a decision waits for them, at most every `PROBE_EVERY_S`. One probe a kind at a
    time, however many decisions wait for it."""

    def __init__(self, caches: FreshnessSource, timeout_s: float) -> None:
        self._caches = caches
        self._timeout_s = timeout_s
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._probed_s: dict[str, float] = {}
        self.answered: list[Callable[[str], None]] = []  # Called with each kind whose probe succeeded.

    async def moved(self, kinds: Iterable[str]) -> None:
        """Wait until one of these has changed, or may be probed again."""
        for kind in kinds:
            self.ask(kind)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBE_EVERY_S):
                await self._caches.moved(kinds)

    def stop(self) -> None:
        for task in self._probing.values():
            task.cancel()

    def ask(self, kind: str) -> None:
        loop = asyncio.get_running_loop()
        task = self._probing.get(kind)
        is_asked = task is not None and not task.done()
        if is_asked or loop.time() < self._probed_s.get(kind, float("-inf")) + PROBE_EVERY_S:
            return
        self._probed_s[kind] = loop.time()
        self._probing[kind] = loop.create_task(self._probe(kind))

    async def _probe(self, kind: str) -> None:
        if await self._caches.probe(kind, timeout_s=self._timeout_s):
            for tell in self.answered:
                tell(kind)


def _forget_seen(needs: Sequence[Need], snapshot: Snapshot, written: WriteLog) -> None:
    for need in needs:
        if isinstance(need, OwnWrites):
            written.forget_seen(need.owner, snapshot)


def _unmet_by(need: Need, snapshot: Snapshot, written: WriteLog, now_s: float) -> list[Unmet]:
    match need:
        case AnyAge():
            return []
        case OwnWrites(owner=owner):
            return [_unseen(write, snapshot) for write in written.unseen(owner, snapshot)]
        case AtLeast(revisions=revisions):
            return _behind(revisions, snapshot)
        case NoOlderThan(seconds=seconds, kinds=kinds):
            return _stale(kinds or snapshot.kinds, seconds, snapshot, now_s)


def _unseen(write: OwnWrite, snapshot: Snapshot) -> Unmet:
    of_object = "" if write.key is None else " of " + "/".join(part for part in write.key if part)
    done = "deletion" if write.gone else f"write at revision {write.revision}"
    why = f"our own {done}{of_object} is not visible yet"
    return Unmet(write.kind, "OwnWritesUnseen", why, f"at revision {snapshot.revision(write.kind)}")


def _behind(revisions: dict[str, int], snapshot: Snapshot) -> list[Unmet]:
    return [
        Unmet(
            kind,
            "BehindRevision",
            f"cache has not reached revision {revision}",
            f"at revision {snapshot.revision(kind)}",
        )
        for kind, revision in revisions.items()
        if snapshot.revision(kind) < revision
    ]


def _stale(kinds: Iterable[str], seconds: float, snapshot: Snapshot, now_s: float) -> list[Unmet]:
    ages = [(kind, snapshot.age(kind, now_s=now_s)) for kind in kinds]
    return [
        Unmet(
            kind,
            "Stale",
            f"cache not confirmed current within {seconds:g} s",
            f"not confirmed for {age:.1f} s",
        )
        for kind, age in ages
        if age > seconds
    ]
