"""Overrides in a Kubernetes that is not fathom's: what the scheduler honours of them, and says about it.

No server checks a binding against overrides there, and none stamps an author. So the scheduler

    1. reads the admission policy back: without it, it honours no override (`kinds/attached_override.py`);
    2. gives its own view those changes of an override that it carries out itself, and no others;
    3. acknowledges when every binding has ended that was decided before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from fathom.client.api import Api
from fathom.control.override_policy import fetch_vouching
from fathom.control.watches import NODE
from fathom.kinds.attached_override import attached_status, honoured, without_nodes
from fathom.kinds.override_policy import Vouching
from fathom.kinds.override_status import Acknowledger
from fathom.model.errors import ApiError
from fathom.model.objects import Key, Obj, is_deleting, key_of, metadata, uid_of
from fathom.model.times import SECOND_NS, timestamp
from fathom.schedule.loop.pod_moves import SentBinding
from fathom.schedule.loop.state import SchedulerState
from fathom.schedule.loop.watched_kinds import OVERRIDE

READ_BACK_S = 10.0  # How often, while there are overrides.
RETRY_S = 1.0

WriteStatus = Callable[[Obj, Obj], Awaitable[bool]]  # (override, fields of its status); False: refused.


class _Given(msgspec.Struct):
    """An override as the scheduler's view has it."""

    version: tuple[str, int]  # Its UID and generation.
    obj: Obj | None  # None: nothing of it is honoured.
    before: tuple[SentBinding, ...]  # Bindings that were under way then.
    looked_ns: int | None = None  # When it was last looked whether it matches anything.
    unmatched: dict[str, str] = {}


class AttachedOverrides:
    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._policy: Vouching | None = None  # None: not read yet; no override is honoured.
        self._read_ns = 0
        self._refused_ns: int | None = None  # When the server last refused to take a status.
        self._given: dict[Key, _Given] = {}  # Ends with the override.

    def changed(self, before: Obj | None, after: Obj | None) -> None:
        """A change of the cache."""
        self._give(key_of(after or before or {}), after)

    async def begin(self, api: Api) -> None:
        """Before the first decision of a leader term: what holds must hold from there on."""
        while True:
            if await self._read_back(api):
                return
            await asyncio.sleep(RETRY_S)

    async def look(self, api: Api, scheduler: Acknowledger, write: WriteStatus) -> None:
        """Report in each override what became of it."""
        overrides = self._state.caches.snapshot().list(OVERRIDE.name)
        if not overrides or (self._is_long_ago(self._read_ns) and not await self._read_back(api)):
            return
        if self._refused_ns is not None and not self._is_long_ago(self._refused_ns):
            return  # Without the right to write it, it is not tried each second.
        if any("acknowledgements" in fields for _, fields in self._due(scheduler)):
            await self._read_back(api)  # What is acknowledged rests on what the server has now.
        self._refused_ns = None
        for override, fields in self._due(scheduler):
            if not await write(override, fields):
                self._refused_ns = self._state.clock.monotonic_ns()

    def _is_long_ago(self, moment_ns: int) -> bool:
        return self._state.clock.monotonic_ns() - moment_ns > READ_BACK_S * SECOND_NS

    def _due(self, scheduler: Acknowledger) -> list[tuple[Obj, Obj]]:
        """The overrides whose status is not true, with what must be written."""
        overrides = self._state.caches.snapshot().list(OVERRIDE.name)
        pairs = [(override, self._fields(override, scheduler)) for override in overrides]
        return [(override, fields) for override, fields in pairs if fields and not is_deleting(override)]

    def _fields(self, override: Obj, scheduler: Acknowledger) -> Obj | None:
        """What of its status must be written."""
        fields = self._compared(override, scheduler)
        if fields and "changes" in fields and (given := self._given.get(key_of(override))) is not None:
            # Another scheduler may have looked at the nodes since we did: look again, and do not fight.
            given.looked_ns = None
            fields = self._compared(override, scheduler)
        return fields

    def _compared(self, override: Obj, scheduler: Acknowledger) -> Obj | None:
        if self._policy is None:
            return None
        now_ns = self._state.clock.now_ns()
        try:
            return attached_status(
                override,
                self._policy,
                scheduler if self._is_in_force(override) else None,
                unmatched=self._unmatched(override),
                cache_revision=self._state.caches.snapshot().revision(OVERRIDE.name),
                now=timestamp(now_ns),
                now_ns=now_ns,
            )
        except msgspec.ValidationError:
            return None  # Not of our definition: the view ignores it too.

    async def _read_back(self, api: Api) -> bool:
        """False: the server does not answer; what was known still holds."""
        try:
            policy = await fetch_vouching(api)
        except ApiError:
            return False
        self._read_ns = self._state.clock.monotonic_ns()
        if policy != self._policy:
            self._policy = policy
            for override in self._state.caches.snapshot().list(OVERRIDE.name):
                self._give(key_of(override), override)
        return True

    def _give(self, key: Key, obj: Obj | None) -> None:
        old = self._given.get(key)
        new = None if obj is None or self._policy is None else honoured(obj, self._policy)
        self._note(key, obj, new, old)
        before = None if old is None else old.obj
        if before is None and new is None:
            return
        for event in self._state.known.put(OVERRIDE.name, before, new):
            self._state.cluster_events.record(event, OVERRIDE.name, new or before or {}, gone=new is None)
        self._state.set_priorities()
        self._state.cluster_events.moved.set()

    def _note(self, key: Key, obj: Obj | None, new: Obj | None, old: _Given | None) -> None:
        if obj is None:
            self._given.pop(key, None)
            return
        version = (uid_of(obj), int(metadata(obj).get("generation") or 0))
        if old is not None and old.version == version and (old.obj is None) == (new is None):
            old.obj = new  # Only its status or its labels are different.
        else:
            self._given[key] = _Given(version, new, tuple(self._state.sent.values()))

    def _unmatched(self, override: Obj) -> dict[str, str]:
        """Its changes that match no node. Not looked at each second: that is a pass over all nodes."""
        given = self._given.get(key_of(override))
        if given is None or given.obj is None:
            return {}
        if given.looked_ns is None or self._is_long_ago(given.looked_ns):
            given.looked_ns = self._state.clock.monotonic_ns()
            given.unmatched = without_nodes(given.obj, self._state.caches.snapshot().list(NODE.name))
        return given.unmatched

    def _is_in_force(self, override: Obj) -> bool:
        """Whether no binding is under way that was decided before the view had the override."""
        given = self._given.get(key_of(override))
        return given is not None and all(
            self._state.sent.get(sent.pod.uid) is not sent for sent in given.before
        )
