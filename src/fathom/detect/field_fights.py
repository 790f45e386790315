"""Feeds the detectors of fights with the committed writes of this API server, and reports what they find: an
Event about the object, and a condition of the ComponentSignals `field-fights`, for as long as it goes on.

    update ──> FightDetector ───────────┐
    create, delete ──> RecreationDetector ──a fight is named──> Event, condition True ──over──> it is False
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fathom.controllers.housekeeping.writer import HousekeepingWriter, ignored
from fathom.explain.coupling.fight_texts import (
    as_objects,
    event_of,
    fight_conditions,
    listed_fights,
    shared_list,
)
from fathom.explain.coupling.fights import (
    LIMITS,
    NEVER_WATCHED,
    FieldChange,
    Fight,
    FightDetector,
    FightObject,
    is_watched,
)
from fathom.explain.coupling.observed import writer_label
from fathom.explain.coupling.recreations import Lifetime, RecreationDetector
from fathom.kinds.component_signals import ComponentSignals
from fathom.kinds.shape import read
from fathom.kube.definitions.kind import Kind
from fathom.model.cause import WakeCause
from fathom.model.conditions import conditions_of
from fathom.model.decision import Subject
from fathom.model.errors import ApiError
from fathom.model.fields import ABSENT
from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Obj, lookup, metadata, uid_of
from fathom.model.times import timestamp
from fathom.model.updates import ObjectLife, ObjectUpdate
from fathom.seams.log import Log
from fathom.seams.outside import Clock

SIGNALS = "/apis/fathom.dev/v1alpha1/componentsignals"
RESOURCE = "componentsignals.fathom.dev"
NAME = "field-fights"
EVERY_S = 5.0
# A server that has just started names a fight that goes on before this is over.
LOOK_S = LIMITS.window_s
WAITING_MAX = 100  # Fights whose Event is not written yet.
UPDATES = WakeCause("event", "committed updates")
NUMBERS = frozenset({bool, int, float})
_encode = msgspec.json.Encoder(order="sorted").encode


class FieldFights:
    """An UpdateObserver. Nothing is written while nothing is wrong."""

    def __init__(
        self,
        writer: HousekeepingWriter,
        clock: Clock,
        log: Log,
        kind_of: Callable[[str], Kind | None],
        *,
        server: str = "",
    ) -> None:
        """`server`: an id of this server, where others write to the same store; '': it is alone."""
        self.detector = FightDetector(several_servers=bool(server))
        self.recreations = RecreationDetector()
        self._writer = writer  # Its writes name a recorded decision.
        self._clock = clock
        self._log = log
        self._kind_of = kind_of
        self._server = server
        self._named: list[Fight] = []  # Without an Event yet.
        self._news = asyncio.Event()

    def wants(self, resource: str) -> bool:
        return resource not in NEVER_WATCHED

    def updated(self, update: ObjectUpdate) -> None:
        about = FightObject(update.resource, update.namespace, update.name, update.uid)
        writer = writer_label(update.actor, update.user, update.user_agent)
        now_ns = self._clock.now_ns()
        for path, before, after in update.changes:
            if not is_watched(update.resource, path):
                continue
            values = comparable(before), comparable(after)
            change = FieldChange(about, sys.intern(path), *values, writer, now_ns, update.owned)
            self._found(self.detector.changed(change))

    def created(self, life: ObjectLife) -> None:
        self.recreations.created(self._lifetime(life))

    def deleted(self, life: ObjectLife) -> None:
        self._found(self.recreations.deleted(self._lifetime(life)))

    def _lifetime(self, life: ObjectLife) -> Lifetime:
        about = FightObject(life.resource, life.namespace, life.name, life.uid)
        writer = writer_label(life.actor, life.user, life.user_agent)
        return Lifetime(about, writer, self._clock.now_ns(), life.owner, life.generate_name)

    def _found(self, fight: Fight | None) -> None:
        if fight is not None and len(self._named) < WAITING_MAX:
            self._named.append(fight)
            self._news.set()

    async def run(self) -> None:
        """Reports for ever. A report that fails is made again with the next one. Also without news: another
        server, or this one before it restarted, may have reported a fight that nobody sees any more."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._news.wait()
            self._news.clear()
            if await self._report():
                asyncio.get_running_loop().call_later(EVERY_S, self._news.set)

    async def _report(self) -> bool:
        """Whether a fight still goes on, or a report is due."""
        now_ns = self._clock.now_ns()
        fights = (*self.detector.active(now_ns), *self.recreations.active(now_ns))
        try:
            while self._named:
                await self._write_event(self._named[0])
                self._named.pop(0)
            await self._write_conditions(fights)
        except ApiError as error:
            self._log.warn("fight not reported", error=error.message)
            return True
        return bool(fights)

    async def _write_event(self, fight: Fight) -> None:
        kind = self._kind_of(fight.object.resource)
        if kind is None:
            return
        self._log.warn("fight", form=fight.form, object=f"{fight.object.namespace}/{fight.object.name}",
                       field=fight.field, writers=list(fight.writers), period_s=fight.period_s)  # fmt: skip
        event = event_of(fight, kind, event_name(fight), timestamp(self._clock.now_ns()))
        path = f"/api/v1/namespaces/{metadata(event)['namespace']}/events"
        about = fight.object
        subject = Subject(about.resource, about.namespace, about.name, about.uid)
        with ignored(409):  # Another API server named it first; or its namespace is going away.
            await self._writer.report(path, event, subject, cause=UPDATES, why=event["message"])

    async def _write_conditions(self, fights: Sequence[Fight]) -> None:
        now_ns = self._clock.now_ns()
        now = timestamp(now_ns)
        current = await self._writer.read(f"{SIGNALS}/{NAME}")
        before, listed = conditions_of(current or {}), listed_fights(fights)
        if self._server:
            said = read(ComponentSignals, current or {}).status.fights
            listed = shared_list(listed, said, server=self._server, now_ns=now_ns)
        after, objects = fight_conditions(before, listed, now), as_objects(listed)
        if after == before and objects == (lookup(current, "status", "fights") or []):
            return
        why = "; ".join(condition["message"] for condition in after if condition["status"] == "True")
        status = {"observedAt": now, "conditions": after, "fights": objects}
        await self._write_signals(current, status, why or "no fight goes on")

    async def _write_signals(self, current: Obj | None, status: Obj, why: str) -> None:
        subject = Subject(RESOURCE, "", NAME, uid_of(current or {}))
        if current is None:
            head = {"apiVersion": "fathom.dev/v1alpha1", "kind": "ComponentSignals"}
            body = {**head, "metadata": {"name": NAME}}
            with ignored(409):
                await self._writer.write("POST", SIGNALS, subject, cause=UPDATES, why=why, body=body)
        await self._writer.write(
            "PATCH",
            f"{SIGNALS}/{NAME}/status",
            subject,
            cause=UPDATES,
            why=why,
            body={"status": status, **_unchanged(current)},
            content_type=MERGE_PATCH,
        )


def _unchanged(current: Obj | None) -> Obj:
    """Refuses the write where another server has written since: its fights would be lost."""
    version = None if current is None else metadata(current).get("resourceVersion")
    return {} if version is None else {"metadata": {"resourceVersion": version}}


def event_name(fight: Fight) -> str:
    """The same in every API server, for ten minutes: so each fight has one Event."""
    text = "/".join((fight.object.uid, fight.field, fight.form, str(fight.since_ns // 600_000_000_000)))
    return f"{fight.object.name[:200]}.{zlib.crc32(text.encode()):08x}"


def comparable(value: Any) -> object:
    """Numbers as they are; of anything else only a hash, because it may be secret or large."""
    kind = type(value)
    if kind is str:
        return (hash(value),)
    if kind in NUMBERS or value is None:
        return value
    return "absent" if value is ABSENT else (hash(_encode(value)),)
