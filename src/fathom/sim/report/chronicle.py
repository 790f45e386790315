"""Chronicle: the events of a run and their causes, recorded for timelines and for lineage search.

    InputReceived ──> RequestSent ──> CommitSeen ──> LogLine (a reply, a watch chunk) ──> InputReceived ──> …

Every event names its cause, so that timelines show causes as edges and exploration can find what an outcome
depended on. It costs about as much again as the run, so most runs are not chronicled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fathom.control.commit import DECISION_HEADER
from fathom.model.audit import AuditEntry
from fathom.model.body import decode_json
from fathom.model.decision import Decision, Outcome, Table
from fathom.seams.seam import Ask, Input
from fathom.sim.world.faults import AnyFault
from fathom.sim.world.network import Exchange
from fathom.store.protocol import Change

if TYPE_CHECKING:
    from fathom.sim.world.process import SimProcess
    from fathom.sim.world.store_link import Committer

NOBODY = -1  # As a cause: the event has none.


class ChronicleEvent(msgspec.Struct, frozen=True, kw_only=True, gc=False):  # In no cycle: never traversed.
    id: int
    at_ns: int
    process: str
    incarnation: int
    cause: int = NOBODY


class InputReceived(ChronicleEvent, frozen=True):
    """A process got an input."""

    kind: int
    number: int


class RequestSent(ChronicleEvent, frozen=True):
    number: int
    method: str
    target: str
    server: str
    body: Any = None
    decision: str = ""  # The decision that it names.


class CommitSeen(ChronicleEvent, frozen=True):
    """A commit. `process` sent the request, or is the API server for its own commits."""

    revision: int
    changes: tuple[Change, ...]


class LogLine(ChronicleEvent, frozen=True):
    """A server sent an answer, or a chunk of one, to the process."""

    kind: Input
    number: int
    status: int
    resource: str
    revision: int  # The revision of its content; 0 where that is unknown.
    covers: bool  # It covers all objects of the kind up to that revision, not only one.


class FaultTookEffect(ChronicleEvent, frozen=True):
    """A fault took effect; `what` says how. Its cause is the event that it affected."""

    fault: AnyFault
    what: str


class ProcessChanged(ChronicleEvent, frozen=True):
    what: str  # 'starts', 'dies', 'is paused', …


class DecisionMade(ChronicleEvent, frozen=True):
    decision: Decision


class Concluded(ChronicleEvent, frozen=True):
    outcome: Outcome


class Audited(ChronicleEvent, frozen=True):
    entry: AuditEntry


class Chronicle:
    def __init__(self) -> None:
        self.events: list[ChronicleEvent] = []
        self.commits: dict[int, int] = {}  # Revision -> its event.
        self._current = NOBODY  # The input that is being handled.
        self._follows = NOBODY  # The cause of the next input.
        self._recorded: set[tuple[AnyFault, str, str]] = set()

    # Called by the engine and the network.

    def follows(self, event: int) -> None:
        self._follows = event

    @property
    def following(self) -> int:
        """The cause of the next input."""
        return self._follows

    def input(self, process: SimProcess, kind: int, number: int) -> None:
        self._current = self._add(InputReceived, process, self._follows, kind=kind, number=number)

    def asked(self, process: SimProcess, number: int, ask: Ask) -> int:
        return self._add(
            RequestSent,
            process,
            self._current,
            number=number,
            method=ask.method,
            target=ask.target,
            server=process.server,
            body=ask.body or None,
            decision=dict(ask.headers).get(DECISION_HEADER, ""),
        )

    def committed(self, by: Committer, changes: tuple[Change, ...], revision: int) -> None:
        exchange = by.exchange
        process, cause = (by.server, NOBODY) if exchange is None else (exchange.process, exchange.event)
        event = self._add(CommitSeen, process, cause, revision=revision, changes=changes)
        self.commits[revision] = event
        if exchange is not None:
            exchange.event = event

    def said(self, exchange: Exchange, kind: Input, status: int, payload: Any) -> int:
        revision, covers = revision_of(payload), kind is Input.CHUNK or is_list(payload)
        cause = self.commits.get(revision, NOBODY) if kind is Input.CHUNK else exchange.event
        return self._add(
            LogLine,
            exchange.process,
            cause,
            kind=kind,
            number=exchange.number,
            status=status,
            resource=resource_of(exchange.ask.target),
            revision=revision,
            covers=covers,
        )

    def fault_took_effect(self, process: SimProcess, fault: AnyFault, what: str, cause: int = NOBODY) -> None:
        """Recorded once for each fault, process and effect, however often the fault takes effect."""
        if (fault, process.name, what) not in self._recorded:
            self._recorded.add((fault, process.name, what))
            self._add(FaultTookEffect, process, cause, fault=fault, what=what)

    def process_changed(self, process: SimProcess, what: str) -> None:
        self._add(ProcessChanged, process, NOBODY, what=what)

    def world(self, now_ns: int, what: str) -> None:
        """Record an event that belongs to no process."""
        self.events.append(
            ProcessChanged(id=len(self.events), at_ns=now_ns, process="", incarnation=0, what=what)
        )

    def audited(self, process: SimProcess, entry: AuditEntry) -> None:
        self._add(Audited, process, NOBODY, entry=entry)

    def journal(self, process: SimProcess) -> _Journal:
        return _Journal(self, process)

    def _add(self, make: type[ChronicleEvent], process: SimProcess, cause: int, /, **fields: Any) -> int:
        number = len(self.events)
        self.events.append(
            make(
                id=number,
                at_ns=process.world.now_ns,
                process=process.name,
                incarnation=process.incarnation,
                cause=cause,
                **fields,
            )
        )
        return number

    # Reading.

    def past_of(self, event: int) -> list[ChronicleEvent]:
        """The chain of causes, nearest first, beginning with the event itself."""
        chain = []
        while event != NOBODY:
            chain.append(self.events[event])
            event = self.events[event].cause
        return chain


class _Journal:
    """Records the decisions that a process writes to its journal."""

    def __init__(self, chronicle: Chronicle, process: SimProcess) -> None:
        self._chronicle = chronicle
        self._process = process

    def decided(self, decision: Decision) -> None:
        chronicle = self._chronicle
        chronicle._add(DecisionMade, self._process, chronicle._current, decision=decision)

    def concluded(self, outcome: Outcome) -> None:
        chronicle = self._chronicle
        chronicle._add(Concluded, self._process, chronicle._current, outcome=outcome)

    def tabled(self, table: Table) -> None:
        """Ignored: a table is a detail of a decision."""


def resource_of(target: str) -> str:
    """'/apis/apps/v1/namespaces/default/replicasets/web?…' -> 'replicasets.apps'; '' for no resource."""
    parts = target.partition("?")[0].strip("/").split("/")
    if parts[0] == "api":
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = f".{parts[1]}", parts[3:]
    else:
        return ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return f"{rest[0]}{group}" if rest else ""


def revision_of(payload: Any) -> int:
    """Of an object, of a list, or of the last event in a watch chunk; 0 where there is none."""
    if isinstance(payload, bytes):
        lines = payload.splitlines()
        try:
            payload = decode_json(lines[-1]) if lines else None
        except msgspec.DecodeError:
            return 0
        if isinstance(payload, dict) and set(payload) == {"type", "object"}:
            payload = payload["object"]
    elif isinstance(payload, list):
        payload = payload[-1][1] if payload else None
    meta = payload.get("metadata") if isinstance(payload, dict) else None
    text = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return int(text) if isinstance(text, str) and text.isdigit() else 0


def is_list(payload: Any) -> bool:
    if isinstance(payload, bytes):
        return b'"items":[' in payload[:400]
    return isinstance(payload, dict) and "items" in payload
