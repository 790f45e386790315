"""What spans are made of, besides decisions and their outcomes: writes of an API server, and what a node's
host did for a pod. Recorded only where traces are on; see `traces/`."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from fathom.model.audit import AuditEntry
from fathom.model.decision import Decision, Outcome


class TracedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """One write that an API server committed."""

    entry: AuditEntry
    began_ns: int  # The server's wall clock.
    ended_ns: int
    traceparent: str = ""  # The W3C trace context that the client sent.
    owner: str = ""  # The UID of the object's controller; only of a new object.
    ready: bool | None = None  # Of a pod, after this write; None: it is no pod, or has changed since.


class TracedRuntimeCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call to the runtime of a node: it admitted a pod, started a container, probed it."""

    call: Literal["admit", "start", "probe"]
    node: str
    uid: str  # Of the pod.
    began_ns: int  # The node's wall clock.
    ended_ns: int
    container: str = ""
    attempt: int = 0
    revision: int = 0  # Of the pod that the agent acted on; 0: not known.
    probe: str = ""  # 'httpGet /healthz'
    error: str = ""


TracedRecord = Decision | Outcome | TracedWrite | TracedRuntimeCall


class SpanSink(Protocol):
    """Takes the records that spans are made of. Never blocks and never raises: full means dropped."""

    def add(self, record: TracedRecord) -> None: ...
