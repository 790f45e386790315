"""Finished: all containers have ended, or the node rejected the pod. Only Succeeded is as wanted."""

from __future__ import annotations

from fathom.explain.why import commands
from fathom.explain.why.answer import Change, Explanation
from fathom.explain.why.answering import answer
from fathom.explain.why.case import PodCase
from fathom.explain.why.troubles import trouble_of
from fathom.model.objects import lookup
from fathom.model.reasons import is_rejection

STAGE = "finished"
DEADLINE = "DeadlineExceeded"


def explain(case: PodCase) -> Explanation | None:
    phase = lookup(case.pod, "status", "phase")
    if phase == "Succeeded":
        cause = "all its containers ended with code 0" + _when(case)
        return answer(case, STAGE, "has finished", cause, as_wanted=True)
    if phase != "Failed":
        return None
    reason = str(lookup(case.pod, "status", "reason") or "")
    message = str(lookup(case.pod, "status", "message") or "")
    if is_rejection(reason):
        return _rejected(case, reason, message)
    if reason:
        cause = f"{reason}: {message}".removesuffix(": ")
        return answer(case, STAGE, "has failed", cause, change=_longer(case, reason))
    troubles = [
        trouble for container in case.containers if (trouble := trouble_of(container, case)) is not None
    ]
    first = min(troubles, key=lambda trouble: trouble.severity, default=None)
    if first is None:
        return answer(case, STAGE, "has failed", message or "no data about its containers' end")
    return answer(case, STAGE, "has failed", f"{first.cause}{_when(case)}", change=first.change)


def _longer(case: PodCase, reason: str) -> Change | None:
    deadline_s = lookup(case.pod, "spec", "activeDeadlineSeconds")
    if reason != DEADLINE or not isinstance(deadline_s, int):
        return None
    operation = commands.set_field(case, ("spec", "activeDeadlineSeconds"), 2 * deadline_s)
    return Change(
        f"raise activeDeadlineSeconds above {deadline_s}, for example to {2 * deadline_s}",
        commands.spec_change(case, [operation]),
        commands.owner_text(case),
    )


def _rejected(case: PodCase, reason: str, message: str) -> Explanation:
    change = Change(
        "delete the pod, and let the scheduler choose a node",
        commands.kubectl("delete", "pod", case.key.name, namespace=case.key.namespace),
        commands.owner_text(case),
    )
    return answer(
        case, STAGE, "has failed", f"node {case.node} rejected it ({reason}): {message}", change=change
    )


def _when(case: PodCase) -> str:
    times = [str(container.ended.get("finishedAt") or "") for container in case.containers]
    return f", at {max(times)}" if any(times) else ""
