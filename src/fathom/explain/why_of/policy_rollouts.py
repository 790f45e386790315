"""Why a PolicyRollout does not go on: which gate holds it, which observers are missing, why it went back."""

from __future__ import annotations

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef
from fathom.explain.why.answer import NOBODY, CauseGroup, Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble, answered
from fathom.explain.why_of.control_plane import (
    CONTROLLERS,
    OPERATOR,
    SCHEDULER,
    part_trouble,
    processes_of,
    restart,
)
from fathom.explain.why_of.lookups import (
    POLICIES,
    ExplainPod,
    ref,
)
from fathom.kinds.policy_rollout import Observer, PolicyRollout
from fathom.kinds.shape import read
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj
from fathom.schedule.policy_rollout.plan import (
    CANARY,
    COMPLETE,
    DEFAULT_STEPS,
    REGRESSED,
    ROLLED_BACK,
    SIGNALS_TOO_OLD,
    TROUBLE,
)

CONTROLLER = "policy-rollouts"


class MissingObserver(msgspec.Struct, frozen=True):
    """A component whose caches have not reached the step's activation."""

    component: str
    reached: int | None  # None: it has not reported.
    wanted: int

    @property
    def text(self) -> str:
        if self.reached is None:
            return f"{self.component} has not reported; it must reach revision {self.wanted}"
        return f"{self.component} has reached revision {self.reached} of {self.wanted}"


def explain_policy_rollout(
    evidence: Evidence, obj: Obj, explain_pod: ExplainPod | None = None
) -> Explanation:
    rollout = read(PolicyRollout, obj)
    trouble = _trouble(evidence, obj, rollout)
    return answered(
        evidence,
        obj,
        trouble,
        stage="policy-rollouts",
        verdict=_verdict(rollout, trouble),
        controller=CONTROLLER,
    )


def _verdict(rollout: PolicyRollout, trouble: SubjectTrouble | None) -> str:
    status, spec = rollout.status, rollout.spec
    steps = len(spec.steps or DEFAULT_STEPS)
    at = f"at step {status.step + 1} of {steps}, {status.percent} %" if status.phase == CANARY else ""
    if trouble is not None:
        return f"{trouble.verdict} {at}".rstrip()
    if status.phase == COMPLETE:
        return f"is complete: {status.active} is active"
    return f"goes on {at}: each step lasts as long as it says"


def missing_observers(rollout: PolicyRollout) -> list[MissingObserver]:
    """The components that the gate names and that have not reached the activation, the last one first."""
    status, missing = rollout.status, []
    for name in rollout.spec.gates.observed_by:
        named = [observer for observer in status.observed_by if is_component(observer.controller, name)]
        behind = [observer for observer in named if observer.revision < status.activation_revision]
        if not named:
            missing.append(MissingObserver(name, None, status.activation_revision))
        missing += [
            MissingObserver(observer.controller, observer.revision, status.activation_revision)
            for observer in sorted(behind, key=_by_revision)
        ]
    return missing if status.activation_revision else []


def _by_revision(observer: Observer) -> tuple[int, str]:
    return observer.revision, observer.controller


def is_component(controller: str, name: str) -> bool:
    """Whether the controller is the named component, or one of several schedulers named after it."""
    return controller == name or controller.startswith((f"{name}/", f"{name}-"))


def _trouble(evidence: Evidence, obj: Obj, rollout: PolicyRollout) -> SubjectTrouble | None:
    phase = rollout.status.phase
    condition = find_condition(conditions_of(obj), "Progressing") or {}
    message = str(condition.get("message") or "")
    trouble = part_trouble(evidence, CONTROLLERS)
    if phase == COMPLETE and rollout.status.observed_generation == rollout.metadata.generation:
        return None
    if phase == ROLLED_BACK:
        return _rolled_back(evidence, rollout, message)
    if trouble:
        return SubjectTrouble("is not run", trouble, restart(trouble, CONTROLLERS))
    if phase != CANARY:
        return _not_begun(evidence, rollout, message)
    if rollout.spec.paused:
        return _paused(rollout)
    missing = missing_observers(rollout)
    if missing:
        return _unobserved(evidence, missing)
    return _held(evidence, rollout, condition)


def _policy(evidence: Evidence, name: str) -> tuple[ObjectRef, ...]:
    policy = evidence.objects.get(POLICIES, Key("", name)) if name else None
    return () if policy is None else (ref(POLICIES, policy),)


def _not_begun(evidence: Evidence, rollout: PolicyRollout, message: str) -> SubjectTrouble:
    policy = rollout.spec.to
    if not _policy(evidence, policy):
        change = Change(
            f"create SchedulingPolicy {policy}", f"kubectl apply -f {word(policy)}.yaml", OPERATOR
        )
        return SubjectTrouble("has not begun", f"there is no SchedulingPolicy {policy}", change)
    return SubjectTrouble("has not begun", message or "its controller has not observed it yet")


def _rolled_back(evidence: Evidence, rollout: PolicyRollout, message: str) -> SubjectTrouble:
    active = rollout.status.active or "the built-in policy"
    change = Change(
        f"correct {rollout.spec.to} as a new SchedulingPolicy, and roll that out",
        f"kubectl get schedulingpolicy {word(rollout.spec.to)} -o yaml",
        OPERATOR,
    )
    related = (*_policy(evidence, rollout.spec.to), *_policy(evidence, rollout.status.active))
    why = message or "no reason is on record"
    return SubjectTrouble(f"was rolled back to {active}", why, change, related=related)


def _paused(rollout: PolicyRollout) -> SubjectTrouble:
    name = rollout.metadata.name
    command = f"""kubectl patch policyrollout {word(name)} --type=merge -p '{{"spec":{{"paused":false}}}}'"""
    change = Change("resume it", command, OPERATOR)
    return SubjectTrouble("is paused", "spec.paused is true", change, kind="intended")


def _unobserved(evidence: Evidence, missing: list[MissingObserver]) -> SubjectTrouble:
    groups = tuple(CauseGroup("observedBy", 1, (each.component,), each.text) for each in missing)
    first = missing[0]
    trouble = part_trouble(evidence, SCHEDULER)
    cause = "; ".join(each.text for each in missing) + (f": {trouble}" if trouble else "")
    if trouble:
        return SubjectTrouble("is held by the gate observedBy", cause, restart(trouble, SCHEDULER), groups)
    runs = any(
        is_component(process.process, first.component) for process in processes_of(evidence, SCHEDULER)
    )
    if first.reached is None and not runs and evidence.processes:
        change = Change(
            f"start {first.component}, or take it out of spec.gates.observedBy",
            f"fathom serve {SCHEDULER}",
            OPERATOR,
        )
        return SubjectTrouble("is held by the gate observedBy", cause, change, groups)
    change = Change("wait until its caches have caught up, or check its connection", "", NOBODY)
    return SubjectTrouble("is held by the gate observedBy", cause, change, groups)


def _held(evidence: Evidence, rollout: PolicyRollout, condition: Obj) -> SubjectTrouble | None:
    """What the controller's condition says; a step that only lasts is as wanted."""
    reason, why = condition.get("reason"), str(condition.get("message") or "")
    related = _policy(evidence, rollout.spec.to)
    name = rollout.metadata.name
    if reason == SIGNALS_TOO_OLD:
        change = Change(
            "wait until the controllers' caches have caught up, or check their connection", "", NOBODY
        )
        return SubjectTrouble("is held by the gate signalsMaxAge", why, change)
    if reason == REGRESSED:
        command = f"kubectl delete policyrollout {word(name)}"
        change = Change(f"give up the rollout of {rollout.spec.to}", command, OPERATOR)
        return SubjectTrouble("is held by the gate noPendingRegression", why, change, related=related)
    if reason == TROUBLE:
        change = Change("remove that trouble first", "fathom why")
        return SubjectTrouble("is held by trouble elsewhere", why, change)
    return None
