"""The text of `fathom replay`: what was reproduced, and the first request or decision that was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fathom.terminal import visible

if TYPE_CHECKING:
    from fathom.record.decision_comparison import ChangedDecision, DecisionSummary
    from fathom.record.replay import Divergence, ReplayResult
    from fathom.record.tape import TapedRequest
    from fathom.sim.continuation import Continuation

CHANGES_SHOWN = 40
# What no request and no decision shows.
WORTH_A_LINE = frozenset({"code", "timers"})


def told(result: ReplayResult) -> str:
    counts = (
        f"{result.inputs:,} inputs, {result.asks:,} requests ({result.writes:,} writes) "
        f"in {result.seconds:,.1f} s of {result.birth.entry}"
    )
    end = f", up to input {result.up_to.input:,} at {result.up_to.time}, where the tape ends"
    counts += end if result.matched and not result.complete else ""
    lines = [f"reproduced: {counts}" if result.matched else f"NOT reproduced after {counts}"]
    if result.first_divergence is not None:
        lines += _difference(result.first_divergence)
    if result.unrecorded:
        lines.append(f"note: the recording ends before the last {result.unrecorded} requests")
    lines += [f"note: {note}" for note in result.notes]
    if result.matched and not result.complete:
        lines.append(
            "note: the tape ends before its process: that kept running, was killed, or the tape was cut"
        )
    return "\n".join(map(visible, lines))


def _difference(divergence: Divergence) -> list[str]:
    after = divergence.after
    detail = f" ({after.what})" if after.what else ""
    if divergence.live is None and divergence.replayed is None and divergence.decision is not None:
        lines = [divergence.why]
    else:
        lines = _requests(divergence)
    lines.append(f"  after input {after.index}, {after.kind}{detail}, at {after.time}")
    return [*lines, *_decision(divergence.decision, "live:   ", "replay: ")]


def _requests(divergence: Divergence) -> list[str]:
    return [
        f"request {divergence.ask}: {divergence.why}" if divergence.ask else divergence.why,
        *_request("  live:   ", divergence.live),
        *_request("  replay: ", divergence.replayed),
    ]


def _decision(changed: ChangedDecision | None, live: str, replayed: str) -> list[str]:
    if changed is None:
        return []
    named = changed.live or changed.replayed
    assert named is not None
    fields = f" ({', '.join(changed.fields)})" if changed.fields else ""
    return [
        f"decision {changed.number} of {named.controller}, about {named.object}{fields}",
        f"  {live}{_decided(changed.live)}",
        f"  {replayed}{_decided(changed.replayed)}",
    ]


def _decided(decision: DecisionSummary | None) -> str:
    if decision is None:
        return "no other decision is known"
    parts = [decision.verdict, f"on {decision.node}" if decision.node else "", decision.message]
    return ", ".join(part for part in (*parts, *decision.actions[:1]) if part)


def patched_text(result: ReplayResult, patch: str) -> str:
    """What a patch changes first, and no more."""
    divergence = result.first_divergence
    if divergence is None:
        return visible(
            f"with {patch}: no decision and no request on the tape changes "
            f"({result.decisions:,} decisions, {result.asks:,} requests)"
        )
    lines = [
        f"with {patch}, the first change is after input {divergence.after.index} at {divergence.after.time}"
    ]
    if divergence.about in WORTH_A_LINE:
        lines.append(f"  {divergence.why}")
    lines += _decision(divergence.decision, "without: ", "with:    ")
    if divergence.live is not None or divergence.replayed is not None:
        lines += [*_request("  request without: ", divergence.live)]
        lines += [*_request("  request with:    ", divergence.replayed)]
    lines.append("what follows is not known: the tape has the answers to what was sent without the patch")
    return "\n".join(map(visible, lines))


def continuation_text(continuation: Continuation, source: str) -> str:
    before, after = continuation.before, continuation.after
    shown = continuation.changes[:CHANGES_SHOWN]
    hidden = len(continuation.changes) - len(shown) + continuation.more_changes
    lines = [
        f"continued for {continuation.seconds:g} s in a simulated copy, "
        f"seed {continuation.seed}, from {source}",
        f"  pods {before.pods} to {after.pods}, bound {before.bound} to {after.bound}, "
        f"running {before.running} to {after.running}, ready {before.ready} to {after.ready}",
        *(f"  {change.at_s:9.3f} s  {change.object}: {change.what}" for change in shown),
    ]
    if hidden:
        lines.append(f"  and {hidden:,} more changes: --json lists them")
    if not continuation.changes:
        lines.append("  nothing changed but heartbeats")
    return "\n".join(map(visible, lines))


def _request(label: str, request: TapedRequest | None) -> list[str]:
    if request is None:
        return [f"{label}nothing"]
    line = (
        f"{label}{request.method} {request.target}, {request.body_bytes} bytes, checksum {request.checksum}"
    )
    details = [*(request.headers or ()), *([request.body] if request.body else [])]
    return [line, *(f"            {detail}" for detail in details)]
