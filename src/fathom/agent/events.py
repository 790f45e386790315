"""Events about pods, for `kubectl describe`.

Best effort: Events are written while the API server answers; a repeated Event increases the count of the
first one. Events that cannot be written in time are dropped.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

import msgspec

from fathom.agent.settings import AgentSettings
from fathom.client.api import Api
from fathom.client.outcomes import Committed
from fathom.control.decision_log import DecisionLog, reporting, subject_of
from fathom.control.watches import EVENT, POD
from fathom.model.cause import WakeCause
from fathom.model.objects import Obj, key_of, metadata, uid_of
from fathom.model.times import timestamp
from fathom.seams.outside import Clock, Ids

WAITING_MAX = 500
KNOWN_MAX = 2000
REPEAT_S = 20.0  # The count of an Event is not written more often.


class WrittenPodEvent(msgspec.Struct):
    namespace: str
    name: str
    count: int
    at_s: float
    decision: str


class PodEvent(msgspec.Struct, frozen=True):
    pod: Obj
    container: str
    type: str
    reason: str
    message: str
    now: str

    @property
    def what(self) -> tuple[str, ...]:
        return (uid_of(self.pod), self.container, self.reason, self.message)


class Events:
    def __init__(
        self, settings: AgentSettings, api: Api, *, clock: Clock, ids: Ids, decisions: DecisionLog
    ) -> None:
        self._settings = settings
        self._api = api
        self._clock = clock
        self._ids = ids
        self._decisions = decisions
        self._waiting: deque[PodEvent] = deque(maxlen=WAITING_MAX)
        self._known: OrderedDict[tuple[str, ...], WrittenPodEvent] = OrderedDict()
        self._some = asyncio.Event()

    def report(self, pod: Obj, container: str, type_: str, reason: str, message: str) -> None:
        now = timestamp(self._clock.now_ns())
        self._waiting.append(PodEvent(pod, container, type_, reason, message[:1000], now))
        self._some.set()

    async def run(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                await self._write(self._waiting.popleft())

    async def _write(self, event: PodEvent) -> None:
        now_s = asyncio.get_running_loop().time()
        written = self._known.get(event.what)
        if written is None:
            await self._create(event, now_s)
            return
        written.count += 1
        if now_s - written.at_s < REPEAT_S:
            return
        written.at_s = now_s
        patch = {"count": written.count, "lastTimestamp": event.now}
        api = self._api.with_decision(written.decision)
        await api.patch(EVENT.resource, written.namespace, written.name, patch)

    async def _create(self, event: PodEvent, now_s: float) -> None:
        key = key_of(event.pod)
        name = f"{key.name[:200]}.{self._ids.uid().replace('-', '')[:16]}"
        path = f"spec.containers{{{event.container}}}" if event.container else ""
        obj: Obj = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": "Pod", "namespace": key.namespace, "name": key.name,
                "uid": uid_of(event.pod), "resourceVersion": metadata(event.pod).get("resourceVersion", ""),
                **({"fieldPath": path} if path else {}),
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": "fathom-agent", "host": self._settings.node},
            "reportingComponent": "fathom-agent",
            "reportingInstance": self._settings.node,
            "firstTimestamp": event.now,
            "lastTimestamp": event.now,
            "count": 1,
        }  # fmt: skip
        id_ = self._decided(event)
        api = self._api.with_decision(id_)
        outcome = await api.create(EVENT.resource, key.namespace, reporting(obj, id_))
        if isinstance(outcome, Committed):
            self._known[event.what] = WrittenPodEvent(key.namespace, name, 1, now_s, id_)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)

    def _decided(self, event: PodEvent) -> str:
        """What the agent did with a container is on record nowhere else: an Event may expire, or be lost."""
        subject = subject_of(POD.resource, event.pod)
        revision = int(metadata(event.pod).get("resourceVersion") or 0)
        cause = WakeCause("event", "", subject.resource, subject.namespace, subject.name, revision)
        return self._decisions.decided("report", subject, cause=cause, why=f"{event.reason}: {event.message}")
