"""What a SchedulerOverride does: who honours it, who declined it, and until when."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.explain.evidence import Evidence, ObjectRef, Recorded, revision_of
from fathom.explain.why.answer import NOBODY, CauseGroup, Change, Explanation
from fathom.explain.why.commands import word
from fathom.explain.why_of.answering import SubjectTrouble, explained
from fathom.explain.why_of.control_plane import OPERATOR, processes_of
from fathom.explain.why_of.lookups import NODES, OVERRIDES, ExplainPod, last_writer, ref, title
from fathom.kinds.override_changes import (
    AUTOSCALER,
    DEPLOYMENT_CONTROLLER,
    INFRASTRUCTURE_TARGETS,
    OVERRIDE_CONTROLLER,
    REPAIR_CONTROLLER,
    SCHEDULER,
    affected_controllers,
)
from fathom.kinds.override_status import DEGRADED
from fathom.kinds.scheduler_override import (
    SchedulerOverride,
    approval_given,
    changes_of,
    expiry_ns,
    named,
    override_active,
)
from fathom.kinds.shape import read
from fathom.model.objects import Key, Obj, key_of, labels_of, uid_of
from fathom.model.resource_names import DEPLOYMENTS, JOBS, REPLICA_SETS
from fathom.model.times import timestamp
from fathom.model.well_known import POOL_LABEL, ZONE_LABEL

# Who carries changes out, by the table's names -> the beginning of its name in decisions, and the part of the
# control plane that it runs in. The others are the API server itself, in the commit of each write.
RUN_IN = {
    SCHEDULER: ("scheduler", "scheduler"),
    AUTOSCALER: ("autoscaling", "controllers"),
    DEPLOYMENT_CONTROLLER: ("deployments", "controllers"),
    REPAIR_CONTROLLER: ("repair", "controllers"),
    OVERRIDE_CONTROLLER: ("override", "controllers"),
}
WORKLOADS = {"deployment": DEPLOYMENTS, "replicaset": REPLICA_SETS, "job": JOBS}
HONORING, DECLINED = "Honoring", "Declined"


class ControllerState(msgspec.Struct, frozen=True):
    """How far one controller has come with the override."""

    controller: str
    state: str  # 'Honoring', 'Declined', 'cited', 'observed', 'behind', 'no data'
    message: str = ""


def explain_override(evidence: Evidence, obj: Obj, explain_pod: ExplainPod | None = None) -> Explanation:
    override = read(SchedulerOverride, obj)
    states = controller_states(evidence, obj, override)
    trouble = _trouble(evidence, obj, override, states)
    citing = _citing(evidence, obj)
    return explained(
        evidence,
        name=title(OVERRIDES, key_of(obj)),
        stage="overrides",
        verdict=_verdict(evidence, obj, override, states, trouble),
        as_wanted=trouble is None,
        cause="" if trouble is None else trouble.cause,
        change=None if trouble is None else trouble.change,
        causes=_groups(states),
        related=_targets(evidence, override),
        decisions=citing[-3:],
    )


def _verdict(
    evidence: Evidence,
    obj: Obj,
    override: SchedulerOverride,
    states: list[ControllerState],
    trouble: SubjectTrouble | None,
) -> str:
    if trouble is not None:
        return trouble.verdict
    writer = last_writer(evidence, obj, OVERRIDES, "spec")
    author = override.status.author or (writer.user if writer is not None else "")
    by = f" by {author}" if author else ""
    honoured = [state.controller for state in states if state.state in {HONORING, "cited", "observed"}]
    seen = f", honoured by {', '.join(honoured)}" if honoured else ", who honours it: no data"
    return f"is active until {timestamp(expiry_ns(override) or 0)}{by}{seen}"


def controller_states(evidence: Evidence, obj: Obj, override: SchedulerOverride) -> list[ControllerState]:
    """Of each controller that should carry it out: its acknowledgement, else what records and caches show."""
    acknowledged = {each.controller: each for each in override.status.acknowledgements}
    states = [ControllerState(each.controller, each.state, each.reason) for each in acknowledged.values()]
    for controller in affected_controllers(changes_of(override)):
        if controller not in acknowledged:
            states.append(_unacknowledged(evidence, obj, controller))
    return states


def _unacknowledged(evidence: Evidence, obj: Obj, controller: str) -> ControllerState:
    if controller not in RUN_IN:
        return ControllerState(controller, HONORING, "the API server checks it in the commit of each write")
    prefix, part = RUN_IN[controller]
    cited = [recorded.kept.decision for recorded in _citing(evidence, obj)]
    decision = next((each for each in cited if each.controller.startswith(prefix)), None)
    if decision is not None:
        return ControllerState(controller, "cited", f"decision {decision.id} considered it")
    return _by_cache(evidence, obj, controller, part)


def _by_cache(evidence: Evidence, obj: Obj, controller: str, part: str) -> ControllerState:
    """Inferred: whoever has it in the cache honours it from the next decision on."""
    seen = [process.caches.get("SchedulerOverride") for process in processes_of(evidence, part)]
    revisions = [max(versions.revision, versions.applied) for versions in seen if versions is not None]
    if not revisions:
        return ControllerState(controller, "no data", "no process told how far its cache is")
    wanted = revision_of(obj)
    if min(revisions) >= wanted:
        return ControllerState(
            controller, "observed", f"inferred: its cache has reached revision {min(revisions)}"
        )
    return ControllerState(controller, "behind", f"its cache is at revision {min(revisions)} of {wanted}")


def _citing(evidence: Evidence, obj: Obj) -> list[Recorded]:
    uid, key = uid_of(obj), key_of(obj)
    return [
        recorded
        for recorded in evidence.decisions
        if any(
            each.uid == uid if each.uid else (each.namespace or key.namespace, each.name) == key
            for each in recorded.kept.decision.overrides
        )
    ]


def _groups(states: Iterable[ControllerState]) -> tuple[CauseGroup, ...]:
    return tuple(CauseGroup(state.state, 1, (state.controller,), state.message) for state in states)


def _unapproved(override: SchedulerOverride, now_ns: int) -> SubjectTrouble | None:
    """It waits for a second person, or was refused, and its time is not over."""
    ends_ns, asked = expiry_ns(override), override.status.approval
    if asked is None or approval_given(override) or ends_ns is None or now_ns >= ends_ns:
        return None
    if asked.approved is False:
        cause = f"{asked.approver} refused it at {asked.approved_at}"
        return SubjectTrouble("was refused", cause, Change("create another", "", override.status.author))
    namespace, name = override.metadata.key
    cause = f"nobody has approved this spec: it is not in force, and lapses at {timestamp(ends_ns)}"
    who = f"somebody other than {', '.join(asked.requested_by)} who may approve overrides in {namespace}"
    command = f"fathom override approve {word(name)} -n {word(namespace)}"
    change = Change("approve it", command, who)
    return SubjectTrouble("waits for approval", cause, change, kind="passing")


def _trouble(
    evidence: Evidence, obj: Obj, override: SchedulerOverride, states: list[ControllerState]
) -> SubjectTrouble | None:
    namespace, name = key_of(obj)
    expires_ns = expiry_ns(override)
    if (unapproved := _unapproved(override, evidence.now_ns)) is not None:
        return unapproved
    if override.status.residue:
        return _residue_trouble(override)
    if not override_active(override, evidence.now_ns):
        ended = "it has no valid expiry" if expires_ns is None else f"it ended at {timestamp(expires_ns)}"
        command = f"kubectl delete scheduleroverride {word(name)} -n {word(namespace)}"
        change = Change(
            "delete it, or create a new one", command, f"whoever may delete overrides in {namespace}"
        )
        return SubjectTrouble("is not active", ended, change, kind="intended")
    if not _targets(evidence, override) and not _is_place(evidence, override):
        change = Change("create an override with an existing target", "", override.status.author or OPERATOR)
        return SubjectTrouble(
            "applies to nothing", f"there is no {override.spec.target} in {namespace}", change
        )
    if (degraded := _degraded(override)) is not None:
        return degraded
    declined = [state for state in states if state.state == DECLINED]
    if declined:
        cause = "; ".join(f"{state.controller}: {state.message}" for state in declined)
        return SubjectTrouble("was declined", cause)
    behind = [state for state in states if state.state == "behind"]
    if behind:
        cause = "; ".join(f"{state.controller}: {state.message}" for state in behind)
        change = Change("wait until its caches have caught up, or check its connection", "", NOBODY)
        return SubjectTrouble("is not honoured yet", cause, change)
    return None


def _degraded(override: SchedulerOverride) -> SubjectTrouble | None:
    """Somebody has acknowledged it, and may not run any more."""
    conditions = [
        each for each in override.status.conditions if each.type == DEGRADED and each.status == "True"
    ]
    if not conditions:
        return None
    change = Change("start what has stopped; until then not all of it is carried out", "", OPERATOR)
    return SubjectTrouble("is degraded", conditions[0].message, change)


def _residue_trouble(override: SchedulerOverride) -> SubjectTrouble:
    left = override.status.residue
    cause = "; ".join(f"{each.object}: {each.message}" for each in left[:3])
    first = f"end what is left, beginning with {left[0].object}"
    return SubjectTrouble("has ended, and effects of it are left", cause, Change(first, "", OPERATOR))


def _targets(evidence: Evidence, override: SchedulerOverride) -> tuple[ObjectRef, ...]:
    """The objects that it is about."""
    target = named(override.spec.target)
    if target is None:
        return ()
    if target.kind == "node":
        node = evidence.objects.get(NODES, Key("", target.name)) if evidence.may_read_nodes else None
        return () if node is None else (ref(NODES, node),)
    resources = WORKLOADS.values() if target.kind == "workload" else [WORKLOADS.get(target.kind, "")]
    key = Key(override.metadata.namespace, target.name)
    workloads = [(resource, evidence.objects.get(resource, key)) for resource in resources]
    return tuple(ref(resource, obj) for resource, obj in workloads if obj is not None)


def _is_place(evidence: Evidence, override: SchedulerOverride) -> bool:
    """Whether it is about a zone or pool that has nodes, or the user may not see nodes."""
    target = named(override.spec.target)
    if target is None or target.kind not in INFRASTRUCTURE_TARGETS:
        return False
    if not evidence.may_read_nodes:
        return True
    label = {"zone": ZONE_LABEL, "pool": POOL_LABEL}.get(target.kind, "")
    return any(labels_of(node).get(label) == target.name for node in evidence.objects.list(NODES))
