"""The cluster as it was at a revision or a time: from the store while it remembers, then from tapes.

at ──> revision and time: the audit log ties them together; where it does not go back, tapes do
   ──> the objects: the store, or what lists and watches on the tapes of deciding processes contained
"""

from __future__ import annotations

import asyncio

import msgspec

from fathom.api.agent_connections import Agents
from fathom.api.core import Core
from fathom.ask.objects import CachedObjects
from fathom.ask.processes import registered_processes
from fathom.ask.tapes import TapedObjects, TapesAnswer, ask_tapes
from fathom.explain.evidence import Gap, HeldObjects, Objects
from fathom.model.audit import AuditEntry
from fathom.model.errors import bad_request, expired
from fathom.model.times import duration_ns, micro_timestamp, moment_ns
from fathom.record.audit_index import AuditIndex
from fathom.record.past_objects import Moment, TapeState
from fathom.store.protocol import Compacted, FutureRevision

STORE, TAPE = "store", "tape"


class PastMoment(msgspec.Struct, frozen=True):
    revision: int
    time_ns: int


class PastState(msgspec.Struct, frozen=True):
    """The objects of a moment, and where they come from."""

    moment: PastMoment
    objects: Objects
    source: str  # STORE or TAPE.
    tapes: tuple[str, ...] = ()  # 'scheduler'
    gaps: tuple[Gap, ...] = ()


class WantedMoment(msgspec.Struct, frozen=True):
    """A moment as it was asked for: by its revision, or by its time."""

    text: str
    revision: int = 0
    time_ns: int = 0


def wanted_moment(at: str, *, now_ns: int) -> WantedMoment:
    """`at`: a revision, an RFC 3339 time, or a duration before now ('10m'). Raises 400."""
    if at.isdecimal():
        return WantedMoment(at, revision=int(at))
    before_ns = duration_ns(at)
    time_ns = moment_ns(at) if before_ns is None else now_ns - before_ns
    if time_ns is None:
        raise bad_request(f"spec.at must be a revision, an RFC 3339 time or a duration, not {at!r}")
    if time_ns > now_ns:
        raise bad_request(f"spec.at: {at} has not come yet")
    return WantedMoment(at, time_ns=max(1, time_ns))


class Past:
    def __init__(self, core: Core, agents: Agents, audit: AuditIndex | None) -> None:
        self._core = core
        self._agents = agents
        self._audit = audit

    async def state(self, wanted: WantedMoment) -> PastState:
        """Raises 400 for the future, 410 where neither the store nor a tape goes back that far."""
        if wanted.revision > self._core.cache.reached:
            newest = f"the newest is {self._core.cache.reached}"
            raise bad_request(f"spec.at: revision {wanted.revision} does not exist yet; {newest}")
        revision, time_ns = await self._by_audit(wanted)
        if not revision:
            revision = await self._revision_by_tapes(wanted)
        floor = 0
        if time_ns:
            try:
                objects = await objects_at(self._core, revision)
                return PastState(PastMoment(revision, time_ns), objects, STORE)
            except Compacted as error:
                floor = error.floor
        return await self._by_tapes(wanted, PastMoment(revision, time_ns), floor)

    async def _by_audit(self, wanted: WantedMoment) -> tuple[int, int]:
        """Revision and time; 0 for what the audit log does not tell."""
        if self._audit is None:
            return wanted.revision, wanted.time_ns
        entry = await asyncio.to_thread(_last_write, self._audit, wanted)
        if entry is None:
            return wanted.revision, wanted.time_ns
        return wanted.revision or entry.revision, wanted.time_ns or moment_ns(entry.time) or 0

    async def _revision_by_tapes(self, wanted: WantedMoment) -> int:
        """Raises 410 where no tape has the time."""
        answer = await self._ask(time_ns=wanted.time_ns)
        revision = max((state.moment.revision for state in answer.states if state.moment), default=0)
        if not revision:
            raise expired(_forgotten(wanted.text, "the audit log does not go back to", answer))
        return revision

    async def _by_tapes(self, wanted: WantedMoment, moment: PastMoment, floor: int) -> PastState:
        """`floor`: the oldest revision that the store remembers; 0 where it may remember this one."""
        answer = await self._ask(revision=moment.revision)
        states = [state for state in answer.states if state.moment is not None]
        if not states:
            why = "the store has forgotten" if floor else "the audit log does not go back to"
            raise expired(_forgotten(f"revision {moment.revision}", why, answer))
        time_ns = moment.time_ns or min(state.moment.time_ns for state in states if state.moment)
        moment = PastMoment(moment.revision, time_ns)
        if not floor:  # The tapes were needed for the time alone.
            try:
                return PastState(moment, await objects_at(self._core, moment.revision), STORE)
            except Compacted:
                pass
        objects = TapedObjects(states, moment.revision)
        return PastState(moment, objects, TAPE, objects.tapes, answer.gaps)

    async def _ask(self, *, revision: int = 0, time_ns: int = 0) -> TapesAnswer:
        processes = registered_processes(CachedObjects(self._core.cache))
        return await ask_tapes(self._agents, processes, revision=revision, time_ns=time_ns)


def _forgotten(what: str, why: str, answer: TapesAnswer) -> str:
    """Why there is no data, and how far back there is some."""
    ends = [(state.oldest, state) for state in answer.states if state.oldest is not None]
    oldest = min(ends, key=lambda end: end[0].revision, default=None)
    reach = "no tape has any state" if oldest is None else f"the oldest is {_oldest(*oldest)}"
    silent = "".join(f"; no data from the {gap.source}: {gap.why}" for gap in answer.gaps)
    return f"no data: {why} {what}, and no tape contains it; {reach}{silent}"


def _oldest(moment: Moment, state: TapeState) -> str:
    time = micro_timestamp(moment.time_ns)
    return f"the tape of {state.tape}, from revision {moment.revision} at {time}"


def _last_write(audit: AuditIndex, wanted: WantedMoment) -> AuditEntry | None:
    """The last write up to the revision or the time."""

    def is_after(entry: AuditEntry) -> bool:
        if wanted.revision:
            return entry.revision > wanted.revision
        return (moment_ns(entry.time) or 0) > wanted.time_ns

    return audit.last_write(is_after)


async def objects_at(core: Core, revision: int) -> HeldObjects:
    """All objects as they were, from the store. Raises Compacted."""
    listed = {}
    for kind in core.registry.kinds():
        if kind.virtual or kind.stored_as or not kind.plural:
            continue
        try:
            page = await core.store.range(kind.prefix, revision=revision)
        except FutureRevision as error:
            raise bad_request(f"spec.at: the newest revision is {error.current}") from None
        if page.entries:
            listed[kind.resource] = [entry.body.obj_at(entry.revision) for entry in page.entries]
    return HeldObjects(listed, revision=revision)
