"""Signals are evidence, not truth: which of them may decide what about a node. Pure.

    Healthy ──> Suspect: nothing new is placed there
            ──> Unreachable: its pods are taken out of service, those who do not tolerate it go in time
            ──> Lost: its pods are replaced

One late heartbeat never gets beyond Suspect. Lost takes two independent sources, an operator's word, or long
silence. Silence is counted on our own clock, from when *we* last heard, and only while we could hear: neither
a node's clock that is wrong nor a watch of ours that stalled makes a node look dead.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

SECOND_NS = 1_000_000_000


class State(IntEnum):
    HEALTHY = 0
    SUSPECT = 1
    UNREACHABLE = 2
    LOST = 3

    @property
    def word(self) -> str:
        return self.name.capitalize()


class Signal(msgspec.Struct, frozen=True):
    name: str
    alone: State  # The strongest reaction that it may bring about by itself.
    source: bool  # Whether it is one of the independent sources of which Lost takes two.
    about: str


# The order is that of the messages. What is about ourselves, or about one pod, decides nothing about a node.
SIGNALS: tuple[Signal, ...] = (
    Signal("operator", State.LOST, True, "somebody says that the machine is gone"),
    Signal("lease", State.UNREACHABLE, True, "the node's Lease is not renewed"),
    Signal("status", State.SUSPECT, True, "the node's status is not renewed"),
    Signal("connection", State.SUSPECT, True, "the API server does not reach the agent"),
    Signal("gateway", State.SUSPECT, True, "the gateway does not reach any pod there"),
    Signal("readiness", State.HEALTHY, False, "a pod's probe fails: that pod is taken out of service"),
    Signal("request-timeout", State.HEALTHY, False, "says as much about us: the outcome is read"),
    Signal("watch-disconnect", State.HEALTHY, False, "says that we are blind: reactions are held"),
    Signal("queue-age", State.HEALTHY, False, "says that we are slow"),
    Signal("bind-conflicts", State.HEALTHY, False, "says that our view is old"),
    Signal("controller-errors", State.HEALTHY, False, "opens our breaker"),
    Signal("observed-generation", State.HEALTHY, False, "says which controller is behind"),
    Signal("slo-burn", State.HEALTHY, False, "stops rollouts, moves nobody"),
)
_BY_NAME = {signal.name: signal for signal in SIGNALS}


class Limits(msgspec.Struct, frozen=True):
    """When silence is evidence."""

    suspect_s: float = 20.0  # Two renewals of ten seconds were missed: one may be late.
    unreachable_s: float = 40.0  # The Lease's own duration, as kubelets ask for it.
    status_s: float = 75.0  # Agents renew it every thirty: two were missed.
    silent_s: float = 300.0  # So long alone is enough.


class Heard(msgspec.Struct, frozen=True):
    """When we last heard of a node, on our clock; or since when we could have."""

    lease_ns: int
    status_ns: int
    reported: tuple[tuple[str, str], ...] = ()  # What others say, as (signal, words).
    renewed_ns: int | None = None  # When we really heard a renewal; None: never, since we began to listen.
    before: State = State.HEALTHY  # What was made of it until now.


class Evidence(msgspec.Struct, frozen=True):
    signal: str
    words: str


def plain(evidence: Evidence) -> str:
    """What stays true as time goes by. An operator's words are the operator's."""
    about = _BY_NAME[evidence.signal].about
    return f"{about}: {evidence.words}" if evidence.signal == "operator" else about


class Assessment(msgspec.Struct, frozen=True):
    state: State
    evidence: tuple[Evidence, ...] = ()

    @property
    def message(self) -> str:
        return "; ".join(each.words for each in self.evidence)


def assess(heard: Heard, *, now_ns: int, limits: Limits = Limits()) -> Assessment:  # noqa: B008  # Frozen.
    """What all that was heard amounts to."""
    lease_s, status_s = (now_ns - heard.lease_ns) / SECOND_NS, (now_ns - heard.status_ns) / SECOND_NS
    evidence = []
    if lease_s >= limits.suspect_s:
        evidence.append(Evidence("lease", f"its lease was not renewed for {lease_s:.0f} s"))
    if status_s >= limits.status_s:
        evidence.append(Evidence("status", f"its status was not renewed for {status_s:.0f} s"))
    evidence += [Evidence(signal, words) for signal, words in heard.reported if signal in _BY_NAME]
    evidence.sort(key=lambda each: [*_BY_NAME].index(each.signal))
    state = _state(evidence, lease_s, limits)
    return Assessment(
        state if _is_alive(heard, now_ns, limits) else max(state, heard.before), tuple(evidence)
    )


def _is_alive(heard: Heard, now_ns: int, limits: Limits) -> bool:
    """Only a renewal that we heard makes a node better. A time of grace (we have just begun to listen, or
    were blind) keeps it from getting worse, which is something else."""
    return heard.renewed_ns is not None and now_ns - heard.renewed_ns < limits.suspect_s * SECOND_NS


def _state(evidence: list[Evidence], lease_s: float, limits: Limits) -> State:
    """A lease that is renewed proves that the agent lives: nothing but an operator's word outweighs it."""
    signals = [_BY_NAME[each.signal] for each in evidence]
    if any(signal.name == "operator" for signal in signals):
        return State.LOST
    strongest = max((signal.alone for signal in signals), default=State.HEALTHY)
    if lease_s < limits.unreachable_s:
        return min(strongest, State.SUSPECT)
    sources = {signal.name for signal in signals if signal.source}
    if len(sources) >= 2 or lease_s >= limits.silent_s:
        return State.LOST
    return strongest
