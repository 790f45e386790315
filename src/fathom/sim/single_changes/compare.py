"""What `why` proposes against what the trials have found.

The order of "smaller": fewer fields changed; then the kind of change (`candidates.Kind`); then, for requests,
the share that the pod gives up. Two changes of the same size are both fine if the answer says that its change
is one of several, or lists the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from fathom.explain.questions import why
from fathom.explain.why.answer import NOBODY, Change, Explanation
from fathom.model.quantity import parse
from fathom.sim.fork import ForkFailed, end, fork, run_for
from fathom.sim.single_changes.candidates import Kind
from fathom.sim.single_changes.random_cluster import POD, REST_S, WaitingPod
from fathom.sim.single_changes.trials import Helpful, helpful_changes, try_changes
from fathom.sim.single_changes.typed import ApiChange, NotMade, read_command
from fathom.sim.world_evidence import RecordedDecisions, world_evidence

# A change that takes no command: pods are evicted for it, or a view becomes fresh.
BY_ITSELF_S, PROPOSAL_S = 120.0, 60.0
# Shares of requests are compared to this: an answer rounds to whole bytes and millis.
SHARE_OFF = 0.002


class Compared(msgspec.Struct, frozen=True):
    seed: int
    summary: str
    command: str
    stage: str
    proposed: int  # How many fields the proposal changes; 0: no change that can be typed is proposed.
    admitted: bool  # The proposal, made in a fork, gave the pod a node.
    helpful: tuple[str, ...]  # All single changes that did, the smallest first.
    problems: tuple[str, ...]

    @property
    def has_single(self) -> bool:
        return any(not text.startswith(Kind.OTHER_PODS.name) for text in self.helpful)


def compared(waiting: WaitingPod, answer: Explanation | None = None) -> Compared:
    """`answer`: instead of what `why` says."""
    answer = answer or ask(waiting)
    helpful = sorted(helpful_changes(waiting), key=lambda each: each.size)
    proposal = _steps(answer.change)
    admitted, problem = _admits(waiting, answer, proposal)
    problems = [problem] if problem else []
    problems += _smaller(answer, proposal, [each for each in helpful if each.kind < Kind.OTHER_PODS])
    return Compared(
        waiting.seed,
        answer.summary,
        answer.change.command if answer.change is not None else "",
        answer.stage,
        _count(proposal),
        admitted,
        tuple(map(_text, helpful)),
        tuple(problems),
    )


def ask(waiting: WaitingPod) -> Explanation:
    """As an administrator would ask, when the cluster is at rest."""
    world = fork(waiting.state, "0", checkers=[RecordedDecisions()])
    try:
        run_for(world, REST_S)
        return why(world_evidence(world, "pods", POD))
    finally:
        end(world)


def _steps(change: Change | None) -> list[ApiChange]:
    """Empty: nothing that one can type."""
    if change is None:
        return []
    try:
        return read_command(change.command)
    except NotMade:
        return []


def _count(steps: Sequence[ApiChange]) -> int:
    return sum(step.count for step in steps)


def _admits(waiting: WaitingPod, answer: Explanation, proposal: Sequence[ApiChange]) -> tuple[bool, str]:
    change = answer.change
    if change is None:
        return False, "no change is proposed"
    waits = change.who == NOBODY
    if not proposal and not waits:
        return False, f"the command cannot be read: {change.command}" if change.command else ""
    try:
        bound = try_changes(waiting.state, proposal, within_s=BY_ITSELF_S if waits else PROPOSAL_S).bound
    except (NotMade, ForkFailed) as error:
        return False, f"the proposed change cannot be made: {error}"
    return bound, "" if bound else "the proposed change does not admit the pod"


def _smaller(answer: Explanation, proposal: Sequence[ApiChange], helpful: Sequence[Helpful]) -> Iterator[str]:
    """Single changes that admit the pod and are smaller than the proposed one, or as small and not told."""
    if answer.change is not None and answer.change.who == NOBODY:
        return
    if _count(proposal) != 1:
        if helpful:
            yield f"a single change admits the pod: {_text(helpful[0])}"
        return
    (step,) = proposal
    own = _as_helpful(answer, step, helpful)
    listed = {field for change in answer.changes for each in _steps(change) for field in each.fields}
    assert answer.change is not None
    for other in helpful:
        if other.change.fields == step.fields:
            if other.share < own.share - SHARE_OFF or _amount(other.change) != _amount(step):
                yield f"less of the same is enough: {_text(other)}"
        elif _is_smaller(other, own):
            yield f"a smaller change admits the pod: {_text(other)}"
        elif not _is_smaller(own, other) and answer.change.one_of < 2 and not other.change.fields & listed:
            yield f"a change of the same size is not told: {_text(other)}"


def _is_smaller(one: Helpful, other: Helpful) -> bool:
    return (one.kind, one.share) < (other.kind, other.share - SHARE_OFF)


def _as_helpful(answer: Explanation, step: ApiChange, helpful: Sequence[Helpful]) -> Helpful:
    """The proposal as the brute force classifies it."""
    same = next((each for each in helpful if each.change.fields == step.fields), None)
    return same or Helpful(_kind(answer, step), step, 0.0)


def _kind(answer: Explanation, step: ApiChange) -> Kind:
    """Of a change that the brute force does not try, or counts as one of other pods."""
    if step.verb == "delete":
        return Kind.GRANT if "(NodePorts)" in answer.cause else Kind.SPEC
    return Kind.ROOM  # A claim with its volume, a policy with its rollout.


def _amount(change: ApiChange) -> object:
    """In one unit: '1', '1000m' and 1000 thousandths are the same."""
    return [_plain(operation.get("value")) for operation in change.operations]


def _plain(value: object) -> object:
    try:
        return parse(str(value)).nano
    except ValueError:
        return ""


def _text(helpful: Helpful) -> str:
    change = helpful.change
    if not change.operations:
        return f"{helpful.kind.name} {change.verb} {change.resource.plural} {'/'.join(change.key)}"
    operations = " ".join(
        f"{operation['op']} {operation['path']} {operation.get('value', '')}".strip()
        for operation in change.operations
    )
    return f"{helpful.kind.name} {change.resource.plural} {'/'.join(change.key)}: {operations}"
