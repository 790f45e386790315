"""Writes Events about what controllers did, for `kubectl describe`.

Best effort: nothing waits for them, and when too many are queued the oldest are dropped. A repeated Event
raises the count of the first one instead of creating another.

A controller that reports Events has an attribute `event_reports`: a pure function from an `EventChange` to
`EventReport`, several of them, or None.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

import msgspec

from fathom.cache.snapshot import Snapshot
from fathom.client.api import Api
from fathom.client.outcomes import Committed, Outcome
from fathom.control.decision_log import reporting
from fathom.control.plan import Action
from fathom.control.watches import EVENT, WatchedKind
from fathom.model.objects import Obj, key_of, metadata, uid_of
from fathom.model.times import timestamp
from fathom.seams.outside import Clock, Ids

NORMAL, WARNING = "Normal", "Warning"
# A load that a small server hardly notices. A burst is the Events of one rollout.
PER_S, BURST = 20.0, 100.0
WAITING_MAX, KNOWN_MAX = 500, 2000
REPEAT_S = 20.0  # The count of a repeated Event is raised at most this often.
MESSAGE_MAX = 1000
SHARED = "default"  # As in Kubernetes, the namespace of Events about cluster-scoped objects.


class EventChange(msgspec.Struct, frozen=True):
    """One action of a plan, and its outcome."""

    subject: Obj  # The object that the plan is about, as it was seen.
    before: Snapshot  # The snapshot that the plan was made from.
    action: Action
    outcome: Outcome
    why: str = ""  # The plan's `why`; the next is its `because`.
    because: str = ""
    decision: str = ""  # The id under which the plan is on record.


class EventReport(msgspec.Struct, frozen=True):
    kind: WatchedKind
    about: Obj
    reason: str
    message: str
    type: str = NORMAL
    decision: str = ""  # Set by the process that reports it; a repeated Event keeps the first one's.

    @property
    def identity(self) -> tuple[str, ...]:
        return (uid_of(self.about), self.reason, self.message)


class WrittenEvent(msgspec.Struct):
    namespace: str
    name: str
    count: int
    at_s: float
    decision: str


class EventWriter:
    def __init__(self, api: Api, *, clock: Clock, ids: Ids) -> None:
        self._api = api
        self._clock = clock
        self._ids = ids
        self._waiting: deque[tuple[str, str, EventReport]] = deque(maxlen=WAITING_MAX)  # Source, time, Event.
        self._known: OrderedDict[tuple[str, ...], WrittenEvent] = OrderedDict()
        self._has_waiting = asyncio.Event()

    def tell(self, source: str, report: EventReport) -> None:
        self._waiting.append((source, timestamp(self._clock.now_ns()), report))
        self._has_waiting.set()

    async def run(self) -> None:
        """Runs for ever."""
        while True:
            await self._has_waiting.wait()
            self._has_waiting.clear()
            burst = BURST
            while self._waiting:
                await self._write(*self._waiting.popleft())
                burst -= 1.0
                if burst < 0:
                    await asyncio.sleep(1.0 / PER_S)

    async def _write(self, source: str, now: str, report: EventReport) -> None:
        now_s = asyncio.get_running_loop().time()
        previous = self._known.get(report.identity)
        if previous is None:
            await self._write_first(source, now, report, now_s)
            return
        previous.count += 1
        if now_s - previous.at_s < REPEAT_S:
            return
        previous.at_s = now_s
        patch = {"count": previous.count, "lastTimestamp": now}
        api = self._api.with_decision(previous.decision)
        await api.patch(EVENT.resource, previous.namespace, previous.name, patch)

    async def _write_first(self, source: str, now: str, report: EventReport, now_s: float) -> None:
        name = f"{key_of(report.about).name[:200]}.{self._ids.uid().replace('-', '')[:16]}"
        event = reporting(event_of(source, now, report, name), report.decision)
        namespace = metadata(event)["namespace"]
        outcome = await self._api.with_decision(report.decision).create(EVENT.resource, namespace, event)
        if isinstance(outcome, Committed):
            self._known[report.identity] = WrittenEvent(namespace, name, 1, now_s, report.decision)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)


def event_of(source: str, now: str, report: EventReport, name: str) -> Obj:
    key = key_of(report.about)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": key.namespace or SHARED},
        "involvedObject": {
            "apiVersion": report.kind.api_version,
            "kind": report.kind.name,
            **({"namespace": key.namespace} if key.namespace else {}),
            "name": key.name,
            "uid": uid_of(report.about),
            "resourceVersion": str(metadata(report.about).get("resourceVersion") or ""),
        },
        "type": report.type,
        "reason": report.reason,
        "message": report.message[:MESSAGE_MAX],
        "source": {"component": source},
        "reportingComponent": source,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
