"""How a PolicyRollout goes on: begin, widen the canary step by step, finish, or go back. Pure.

    Pending ──> Canary: percent of the first step ──gates hold, its time is over──> next step … ──> Complete
                   └── pods wait because of it ──> RolledBack: the earlier policy is active again

A step begins with its own write; the revision of that write is the activation. A gate that cannot be judged
(signals too old, a scheduler's caches not there yet) holds the step: it neither passes nor fails. That time
does not count towards the step: a step whose failure could not have been seen has not been tried.
"""

from __future__ import annotations

import msgspec

from fathom.kinds.policy_rollout import Observer, PolicyRollout, PolicyRolloutStatus, Step
from fathom.kinds.scheduling_policy import BUILT_IN
from fathom.model.times import SECOND_NS, duration_ns, moment_ns, timestamp

PENDING, CANARY, COMPLETE, ROLLED_BACK = "Pending", "Canary", "Complete", "RolledBack"
# Phases that change which policy is active: schedulers acknowledge the revision at which they do.
ACTIVATED = frozenset({CANARY, COMPLETE, ROLLED_BACK})

# For a rollout without steps: a tenth first.
DEFAULT_STEPS = (Step(percent=10, hold="1m"), Step(percent=50, hold="1m"))
# How long a step was judged is written to the status once a minute at most, and ten times in a step.
WRITTEN_DOWN_S, WRITTEN_DOWN_SHARE = 60.0, 10
UNBOUNDED_NS = 2**62  # Signals may be of any age.


# What holds a step: reasons of the condition Progressing of a rollout that is not at its end.
SIGNALS_TOO_OLD, NOT_OBSERVED = "SignalsTooOld", "NotObserved"  # Gates that cannot be judged yet.
REGRESSED, TROUBLE = "PendingRegression", "TroubleElsewhere"


class Share(msgspec.Struct, frozen=True):
    """Pods in the scope under one policy, and how many of them wait because of it: the other policy would
    let them on a node."""

    pods: int = 0
    waiting: int = 0


class Signals(msgspec.Struct, frozen=True):
    """The signals that the gates judge, and their age."""

    now_ns: int
    age_s: float  # Of the oldest view that the counts come from.
    canary: Share = Share()
    base: Share = Share()
    policy_exists: bool = True
    trouble: str = ""  # Present trouble of the control plane or of Services.
    baked_ns: int | None = None  # How long all gates could be judged in this step; None: all of it.


class Next(msgspec.Struct, frozen=True):
    """The status to write (None: unchanged), when to reconcile again, and why, for people."""

    status: PolicyRolloutStatus | None
    after_s: float
    why: str
    baked_seconds: int | None = None  # To be written though the status is otherwise unchanged.
    regressed: bool = False  # Pods wait because of the new policy.
    held: str = ""  # What holds the step: SIGNALS_TOO_OLD, …; the reason of the condition Progressing.
    cause: str = ""  # Why it is held or was rolled back: `why` without the verb.

    @property
    def message(self) -> str:
        """Of the condition Progressing, whose reason says that the rollout is held or was rolled back."""
        return self.cause or self.why


class HeldStep(msgspec.Struct, frozen=True):
    reason: str
    cause: str


def plan_rollout(rollout: PolicyRollout, signals: Signals) -> Next:
    status = rollout.status
    if status.observed_generation != rollout.metadata.generation:
        return _begin(rollout, signals)
    if status.phase in ACTIVATED and not status.activation_revision:
        # The write that began the step, or ended the rollout, has at least this revision.
        revision = int(rollout.metadata.resource_version or 0)
        activated = msgspec.structs.replace(status, activation_revision=revision)
        part = f"step {status.step}" if status.phase == CANARY else f"policy {status.active or BUILT_IN}"
        return Next(activated, 0.1, f"{part} is active from revision {revision}")
    if status.phase != CANARY:
        return Next(None, 0.0, _ended(rollout))
    return _go_on(rollout, signals)


def _ended(rollout: PolicyRollout) -> str:
    """Of a rollout that has ended, who has not observed that yet: until then it decides by the earlier
    policy."""
    phase = rollout.status.phase
    if phase not in ACTIVATED:
        return f"{phase or 'not begun'}: nothing to do"
    late = _unobserved(rollout)
    return f"{phase}: {late or 'every scheduler has observed it'}"


def _begin(rollout: PolicyRollout, signals: Signals) -> Next:
    generation = rollout.metadata.generation
    spec = rollout.spec
    if not signals.policy_exists:
        waiting = msgspec.structs.replace(
            rollout.status,
            phase=rollout.status.phase or PENDING,
            active=rollout.status.active or spec.from_,
            observed_generation=0,
        )
        changed = waiting != rollout.status
        return Next(waiting if changed else None, 5.0, f"there is no SchedulingPolicy {spec.to}")
    return Next(_at_step(rollout, 0, signals.now_ns, generation), 0.1, f"starting with policy {spec.to}")


def _at_step(rollout: PolicyRollout, step: int, now_ns: int, generation: int) -> PolicyRolloutStatus:
    steps = rollout.spec.steps or DEFAULT_STEPS
    last = step >= len(steps)
    spec = rollout.spec
    # The rest keeps the policy that was active before, also when the spec changed in the middle.
    base = spec.from_ or (rollout.status.active if rollout.status.active != spec.to else "")
    return msgspec.structs.replace(
        rollout.status,
        phase=COMPLETE if last else CANARY,
        active=spec.to if last else base,
        canary="" if last else spec.to,
        percent=0 if last else steps[step].percent,
        step=step,
        activation_revision=0,
        step_started_at=timestamp(now_ns),
        baked_seconds=0,
        observed_generation=generation,
    )


def _go_on(rollout: PolicyRollout, signals: Signals) -> Next:
    if rollout.spec.paused:
        return Next(None, 5.0, "paused")
    unmet = unmet_gate(rollout, signals)
    if unmet is not None:
        written = _to_write_down(rollout, signals, every_s=1.0)
        return msgspec.structs.replace(_held(unmet, 1.0), baked_seconds=written)
    regressed = regression(rollout, signals)
    if regressed and rollout.spec.automatic_rollback:
        why = f"rolled back: {regressed}"
        return Next(rolled_back(rollout, signals.now_ns), 0.1, why, regressed=True, cause=regressed)
    if regressed:
        return msgspec.structs.replace(_held(HeldStep(REGRESSED, regressed), 5.0), regressed=True)
    if signals.trouble:
        return _held(HeldStep(TROUBLE, signals.trouble), 5.0)
    hold_s, left_s = _hold_ns(rollout) / SECOND_NS, _left_s(rollout, signals)
    if left_s > 0:
        why = f"step {rollout.status.step} lasts {_step(rollout).hold}"
        every_s = max(WRITTEN_DOWN_S, hold_s / WRITTEN_DOWN_SHARE)
        return Next(None, left_s, why, _to_write_down(rollout, signals, every_s=every_s))
    status = _at_step(rollout, rollout.status.step + 1, signals.now_ns, rollout.metadata.generation)
    return Next(status, 0.1, f"all gates passed; next: {status.phase} {status.percent} %")


def _held(step: HeldStep, after_s: float) -> Next:
    return Next(None, after_s, f"held: {step.cause}", held=step.reason, cause=step.cause)


def unmet_gate(rollout: PolicyRollout, signals: Signals) -> HeldStep | None:
    """Why this step cannot be judged yet; None if it can."""
    gates = rollout.spec.gates
    allowed_ns = duration_ns(gates.signals_max_age)
    if allowed_ns is not None and signals.age_s * SECOND_NS > allowed_ns:
        return HeldStep(SIGNALS_TOO_OLD, f"the signals are older than {gates.signals_max_age}")
    late = _unobserved(rollout)
    return HeldStep(NOT_OBSERVED, late) if late else None


def _unobserved(rollout: PolicyRollout) -> str:
    """Which scheduler has not reached the activation yet; '' if all that the gate names have."""
    status = rollout.status
    for name in rollout.spec.gates.observed_by:
        named = [observer for observer in status.observed_by if _is(observer.controller, name)]
        # The one furthest behind: while one of several decides from an older view, the step is not active
        # everywhere.
        worst = min(
            named,
            key=lambda observer: (observer.revision, observer.controller),
            default=Observer(controller=name),
        )
        if worst.revision < status.activation_revision:
            wanted = status.activation_revision
            return f"the caches of {worst.controller} have not reached revision {wanted}"
    return ""


def regression(rollout: PolicyRollout, signals: Signals) -> str:
    """Why the step failed: of the canary's pods, a larger share waits because of their policy than of the
    other pods because of theirs; '' if not."""
    if not rollout.spec.gates.no_pending_regression or not signals.canary.waiting:
        return ""
    canary, base = signals.canary, signals.base
    if canary.waiting * max(base.pods, 1) <= base.waiting * max(canary.pods, 1) and base.pods:
        return ""
    return (
        f"{canary.waiting} of {canary.pods} pods are unschedulable because of {rollout.status.canary},"
        f" {base.waiting} of {base.pods} because of {rollout.status.active or 'the built-in policy'}"
    )


def rolled_back(rollout: PolicyRollout, now_ns: int) -> PolicyRolloutStatus:
    return msgspec.structs.replace(
        rollout.status,
        phase=ROLLED_BACK,
        canary="",
        percent=0,
        activation_revision=0,
        step_started_at=timestamp(now_ns),
    )


def _step(rollout: PolicyRollout) -> Step:
    return (rollout.spec.steps or DEFAULT_STEPS)[rollout.status.step]


def _hold_ns(rollout: PolicyRollout) -> int:
    return duration_ns(_step(rollout).hold) or 0


def _left_s(rollout: PolicyRollout, signals: Signals) -> float:
    baked_ns = signals.baked_ns
    if baked_ns is None:
        baked_ns = signals.now_ns - (moment_ns(rollout.status.step_started_at) or signals.now_ns)
    return max(0.0, (_hold_ns(rollout) - baked_ns) / SECOND_NS)


# How long a step has been judged.


class Bake(msgspec.Struct, frozen=True):
    """One step as one process has judged it. The next process starts from the time in the status."""

    step: tuple[int, int, str]  # Generation, index, start time: identifies the step.
    baked_ns: int
    looked_ns: int  # Monotonic.
    fresh_until_ns: int  # Until then the signals are fresh; later time does not count.


def bake(before: Bake | None, rollout: PolicyRollout, signals: Signals, *, monotonic_ns: int) -> Bake:
    """Judge the step again, and add the time since the last call for which its signals were fresh."""
    status = rollout.status
    step = (status.observed_generation, status.step, status.step_started_at)
    fresh_until_ns = monotonic_ns + _fresh_for_ns(rollout, signals)
    if before is None or before.step != step:
        return Bake(step, status.baked_seconds * SECOND_NS, monotonic_ns, fresh_until_ns)
    counts_ns = max(0, min(monotonic_ns, before.fresh_until_ns) - before.looked_ns)
    return Bake(step, before.baked_ns + counts_ns, monotonic_ns, fresh_until_ns)


def _fresh_for_ns(rollout: PolicyRollout, signals: Signals) -> int:
    """How long the signals stay fresh; 0 if a gate cannot be judged."""
    if unmet_gate(rollout, signals) is not None:
        return 0
    allowed_ns = duration_ns(rollout.spec.gates.signals_max_age)
    return UNBOUNDED_NS if allowed_ns is None else max(0, allowed_ns - round(signals.age_s * SECOND_NS))


def _to_write_down(rollout: PolicyRollout, signals: Signals, *, every_s: float) -> int | None:
    """The seconds to write, so that a new leader need not start over; None if it is too soon to write."""
    baked = (signals.baked_ns or 0) // SECOND_NS
    return baked if baked - rollout.status.baked_seconds >= every_s else None


def _is(controller: str, name: str) -> bool:
    """Whether the controller is the named component, or one of several schedulers named after it."""
    return controller == name or controller.startswith((f"{name}/", f"{name}-"))
