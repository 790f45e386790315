"""Evidence about a node: the signals, and the rules that turn them into a state. Pure.

    Healthy ──> Suspect: no new pods are placed there
            ──> Unreachable: its pods are taken out of service; those that do not tolerate it go in time
            ──> Lost: its pods are replaced

Signals are evidence, not truth. One late heartbeat never gets a node beyond Suspect. A node's lease and its
status are one source: one agent writes both. Other sources are other paths: a connection from the API server
to the node, the gateway's connections to its pods, an operator's declaration. `RULES` says what they amount
to together; the first rule that fits counts. A node that another path sees alive is spared: no pod is evicted
there and none is taken out of service.

Silence is counted on our own monotonic clock, from when *we* last saw a heartbeat, and only while we could
see one: neither a wrong clock nor a stalled watch of ours makes a node look dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from math import ceil, inf
from typing import Literal

import msgspec

from fathom.model.times import SECOND_NS

MILLISECOND_NS = 1_000_000


class NodeState(IntEnum):
    HEALTHY = 0
    SUSPECT = 1
    UNREACHABLE = 2
    LOST = 3

    @property
    def word(self) -> str:
        return self.name.capitalize()


Source = Literal["agent", "connection", "gateway", "operator", ""]
Verdict = Literal["gone", "alive", "unsure"]


class NodeSignal(msgspec.Struct, frozen=True):
    """One row of the table. A new row names the code that produces it and is exercised by
    `tests/controllers/test_signals.py`."""

    name: str
    source: Source  # Lost takes two sources. '': it is about this process or a pod, not about a node.
    producer: str  # module:name
    decides: str
    about: str


# In the order of the messages.
SIGNALS: tuple[NodeSignal, ...] = (
    NodeSignal(
        "operator",
        "operator",
        "fathom.controllers.node_health.controller:operators_word",
        "Lost, at once",
        "an operator declared the machine gone",
    ),
    NodeSignal(
        "lease",
        "agent",
        "fathom.agent.heartbeat:Heartbeat",
        "Suspect after 20 s, Unreachable after 40 s, Lost after 300 s",
        "the node's Lease is not renewed",
    ),
    NodeSignal(
        "status",
        "agent",
        "fathom.agent.heartbeat:Heartbeat",
        "Suspect after 75 s: one agent writes it and the Lease",
        "the node's status is not renewed",
    ),
    NodeSignal(
        "connection",
        "connection",
        "fathom.controllers.node_health.api_connections:Connections",
        "if the agent is silent too: Lost after 75 s; after an answer no pod is evicted",
        "the API server does not reach the node",
    ),
    NodeSignal(
        "gateway",
        "gateway",
        "fathom.gateway.controller:Gateway",
        "if the agent is silent too: Lost after 75 s; if a pod is reached, no pod is evicted",
        "the gateway does not reach any pod there",
    ),
    NodeSignal(
        "readiness",
        "",
        "fathom.agent.probing:Prober",
        "takes that pod out of service, or restarts its container",
        "a pod's probe fails",
    ),
    NodeSignal(
        "request-timeout",
        "",
        "fathom.control.health:ProcessHealth",
        "holds reactions to nodes: this process may be the cause",
        "requests of this process are not answered",
    ),
    NodeSignal(
        "watch-disconnect",
        "",
        "fathom.control.health:ProcessHealth",
        "holds reactions to nodes: this process does not see them",
        "watches of this process break or are silent",
    ),
    NodeSignal(
        "controller-errors",
        "",
        "fathom.control.health:ProcessHealth",
        "holds reactions to nodes; opens the breaker",
        "reconcile passes of this process fail",
    ),
    NodeSignal(
        "queue-age",
        "",
        "fathom.schedule.loop.queue_signals:QueueSignals",
        "holds a PolicyRollout while the scheduler is slow",
        "pods wait long for their first attempt",
    ),
    NodeSignal(
        "bind-conflicts",
        "",
        "fathom.schedule.loop.queue_signals:QueueSignals",
        "holds a PolicyRollout; the node concerned is skipped until the caches catch up",
        "bindings are refused again and again: the scheduler's view is old",
    ),
    NodeSignal(
        "observed-generation",
        "",
        "fathom.controllers.observed_generation:GenerationBehind",
        "says in WorkloadProgress which controller is behind",
        "a controller has not observed the newest generation",
    ),
    NodeSignal(
        "slo-burn",
        "",
        "fathom.gateway.budget:ErrorBudget",
        "holds a PolicyRollout; moves no pod",
        "connections to a Service fail",
    ),
)
_BY_NAME = {signal.name: signal for signal in SIGNALS}
_ORDER = {signal.name: index for index, signal in enumerate(SIGNALS)}


class EvidenceLimits(msgspec.Struct, frozen=True):
    """How long a silence must be to count as evidence."""

    suspect_s: float = 20.0  # Two renewals of ten seconds were missed: one may be late.
    unreachable_s: float = 40.0  # The Lease's own duration, as kubelets ask for it.
    confirmed_s: float = 75.0  # When another source agrees. Two statuses of thirty seconds were missed too.
    silent_s: float = 300.0  # So long, silence alone is enough: what pods tolerate by default.


class NodeReport(msgspec.Struct, frozen=True):
    """What another source reports about a node."""

    signal: str
    verdict: Verdict
    words: str


class HeartbeatTimes(msgspec.Struct, frozen=True):
    """When we last saw heartbeats of a node, on our monotonic clock; or since when we could have."""

    lease_ns: int
    status_ns: int
    reports: tuple[NodeReport, ...] = ()
    renewed_ns: int | None = None  # When we really saw a renewal; None: never, since we began to watch.
    before: NodeState = NodeState.HEALTHY  # Its state until now.


class Evidence(msgspec.Struct, frozen=True):
    signal: str
    words: str


def plain(evidence: Evidence) -> str:
    """The evidence without elapsed times, so that it stays true. An operator's message is kept as written."""
    about = _BY_NAME[evidence.signal].about
    return f"{about}: {evidence.words}" if evidence.signal == "operator" else about


class Assessment(msgspec.Struct, frozen=True):
    state: NodeState
    evidence: tuple[Evidence, ...] = ()
    spared: str = ""  # Why it is spared: another source sees it alive. It is Unreachable, and no pod leaves.

    @property
    def message(self) -> str:
        return "; ".join([*(each.words for each in self.evidence), *([self.spared] if self.spared else [])])

    @property
    def confirmed(self) -> bool:
        """Whether more than one source says so, or an operator: else it is silence alone, and pods stay for
        as long as they tolerate that."""
        sources = {_BY_NAME[each.signal].source for each in self.evidence}
        return "operator" in sources or len(sources) >= 2


class NodeFacts(msgspec.Struct, frozen=True):
    """The inputs of the rules."""

    silent_s: float  # Since the agent's last heartbeat, lease or status.
    lease_s: float
    status_s: float
    gone: int  # Other sources that say that it is gone.
    alive: bool  # Another source has seen it alive.
    declared: bool  # An operator says that it is gone.


class EvidenceRule(msgspec.Struct, frozen=True):
    state: NodeState
    when: Callable[[NodeFacts, EvidenceLimits], bool]
    about: str


# The first rule that fits counts.
RULES: tuple[EvidenceRule, ...] = (
    EvidenceRule(NodeState.LOST, lambda f, _: f.declared, "an operator declared it gone"),
    EvidenceRule(
        NodeState.LOST,
        lambda f, limits: f.silent_s >= limits.silent_s and not f.alive,
        "long silence, and no other source sees it alive",
    ),
    EvidenceRule(
        NodeState.LOST,
        lambda f, limits: f.silent_s >= limits.confirmed_s and f.gone >= 1 and not f.alive,
        "silence, and another source agrees",
    ),
    EvidenceRule(NodeState.UNREACHABLE, lambda f, limits: f.silent_s >= limits.unreachable_s, "silence"),
    EvidenceRule(NodeState.SUSPECT, lambda f, limits: f.lease_s >= limits.suspect_s, "a late heartbeat"),
    EvidenceRule(
        NodeState.SUSPECT,
        lambda f, limits: f.status_s >= limits.confirmed_s,
        "the agent renews its lease but not its status",
    ),
    EvidenceRule(
        NodeState.SUSPECT,
        lambda f, _: f.gone >= 1,
        "only another source says that it is gone: heartbeats arrive",
    ),
    EvidenceRule(NodeState.HEALTHY, lambda f, limits: True, "heartbeats arrive"),
)


def assess(heard: HeartbeatTimes, *, now_ns: int, limits: EvidenceLimits = EvidenceLimits()) -> Assessment:  # noqa: B008  # Frozen.
    """The state that follows from all evidence."""
    lease_s, status_s = (now_ns - heard.lease_ns) / SECOND_NS, (now_ns - heard.status_ns) / SECOND_NS
    alive = [report for report in heard.reports if report.verdict == "alive"]
    gone = [report for report in heard.reports if report.verdict == "gone"]
    facts = NodeFacts(
        silent_s=min(lease_s, status_s),
        lease_s=lease_s,
        status_s=status_s,
        gone=sum(report.signal != "operator" for report in gone),
        alive=bool(alive),
        declared=any(report.signal == "operator" for report in gone),
    )
    state = next(rule.state for rule in RULES if rule.when(facts, limits))
    if not _is_alive(heard, now_ns, limits):
        # A node that another path sees alive is not Lost, whatever its state was before.
        state = max(state, min(heard.before, NodeState.UNREACHABLE) if alive else heard.before)
    spared = alive[0].words if alive and state == NodeState.UNREACHABLE else ""
    return Assessment(state, _evidence(lease_s, status_s, gone, limits), spared)


def next_limit_s(heard: HeartbeatTimes, *, now_ns: int, limits: EvidenceLimits = EvidenceLimits()) -> float:  # noqa: B008  # Frozen.
    """When silence may change the assessment next, rounded up to milliseconds; infinite if it cannot."""
    silences_ns = (now_ns - heard.lease_ns, now_ns - heard.status_ns)
    limits_s = (limits.suspect_s, limits.unreachable_s, limits.confirmed_s, limits.silent_s)
    limits_ns = [round(limit_s * SECOND_NS) for limit_s in limits_s]
    later_ns = [limit - silence for silence in silences_ns for limit in limits_ns if limit > silence]
    return ceil(min(later_ns) / MILLISECOND_NS) / 1000 if later_ns else inf


def _evidence(
    lease_s: float, status_s: float, gone: Sequence[NodeReport], limits: EvidenceLimits
) -> tuple[Evidence, ...]:
    evidence = [Evidence(report.signal, report.words) for report in gone]
    if lease_s >= limits.suspect_s:
        evidence.append(Evidence("lease", f"its lease was not renewed for {lease_s:.0f} s"))
    if status_s >= limits.confirmed_s:
        evidence.append(Evidence("status", f"its status was not renewed for {status_s:.0f} s"))
    return tuple(sorted(evidence, key=lambda each: _ORDER[each.signal]))


def _is_alive(heard: HeartbeatTimes, now_ns: int, limits: EvidenceLimits) -> bool:
    """Only a renewal that we saw improves a node's state. A grace period (we have just begun to watch, or our
    view was stale) only keeps it from getting worse."""
    return heard.renewed_ns is not None and now_ns - heard.renewed_ns < limits.suspect_s * SECOND_NS
