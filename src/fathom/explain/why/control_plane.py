"""Where fathom itself is the cause that a pod waits, or is not replaced: it says so before anything else.

nobody leads the scheduler, it does not answer, its breaker is open, its view is stale: pods get no node
the brake on node actions, a paused repair: pods of a lost node are not replaced
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from fathom.controllers.node_health.brake import MANY_SILENT
from fathom.controllers.node_health.plan import HELD, SPARED
from fathom.explain.evidence import ObjectRef, ProcessState
from fathom.explain.why import commands
from fathom.explain.why.answer import NOBODY, Change, Freshness
from fathom.explain.why.case import PodCase, override_refs
from fathom.explain.why.commands import word
from fathom.explain.why.records import freshness, schedulers
from fathom.kinds.scheduler_override import SchedulerOverride, override_active
from fathom.kinds.shape import read
from fathom.model.accounts import SYSTEM_NAMESPACE
from fathom.model.brake import BRAKE, limits_of
from fathom.model.conditions import conditions_of, find_condition
from fathom.model.objects import Key, Obj, key_of, lookup
from fathom.model.resource_names import LEASES
from fathom.model.times import SECOND_NS, moment_ns
from fathom.schedule.decide.remedies import OPERATOR

OVERRIDES = "scheduleroverrides.fathom.dev"
DEFAULT_SCHEDULERS = (
    "default-scheduler",
    "fathom",
)  # Names that one scheduler takes, and records as 'scheduler'.
# Views are known to be current every second or two: one that is older and lacks a change is not merely late.
STALE_MS = 3000
LEASE_S = 15.0  # Of a Lease that does not say how long it lasts.
KUBE_SCHEDULER = Key("kube-system", "kube-scheduler")  # The lease of Kubernetes' own.
SHARD = re.compile(r"-\d+of\d+$")


class OwnTrouble(msgspec.Struct, frozen=True):
    """What is wrong with fathom, and the change that ends it."""

    cause: str
    change: Change | None = None
    next_trigger: str = ""
    related: tuple[ObjectRef, ...] = ()


# The scheduler.


def scheduler_trouble(case: PodCase) -> OwnTrouble | None:
    """Why no scheduler decides about the pod, whatever it would decide."""
    leases = _leases(case)
    processes = schedulers(case.evidence)
    if leases and all(_is_free(lease, case.evidence.now_ns) for lease in leases):
        return _nobody_leads(leases, case.evidence.now_ns)
    open_breaker = next(
        (process for process in processes if process.breaker and process.leads is not False), None
    )
    if open_breaker is not None:
        cause = f"the scheduler ({open_breaker.process}) sends no requests: {open_breaker.breaker}"
        return OwnTrouble(cause, next_trigger="the scheduler's breaker closes")
    looked_at = bool(
        case.evidence.attached and case.condition("PodScheduled")
    )  # By a scheduler unknown to us.
    if (
        not leases
        and not looked_at
        and not case.decisions
        and not any(_takes(process, case) for process in processes)
    ):
        return _no_scheduler(case)
    return None


def silent_scheduler(case: PodCase) -> OwnTrouble | None:
    """For a pod that fits a node and is not decided: no scheduler answers."""
    processes = schedulers(case.evidence)
    if not processes or any(process.answered for process in processes):
        return None
    names = ", ".join(process.process for process in processes)
    change = Change("restart the scheduler", "fathom serve scheduler", OPERATOR)
    return OwnTrouble(f"the scheduler ({names}) does not answer", change, "the scheduler answers")


def _takes(process: ProcessState, case: PodCase) -> bool:
    names = process.state.get("schedulerNames") or DEFAULT_SCHEDULERS
    return scheduler_name(case) in names


def scheduler_name(case: PodCase) -> str:
    return str(lookup(case.pod, "spec", "schedulerName") or DEFAULT_SCHEDULERS[0])


def _leases(case: PodCase) -> list[Obj]:
    """The leases of the schedulers that take the pod: one, or one per shard."""
    name, objects = scheduler_name(case), case.evidence.objects
    wanted = {"scheduler" if name in DEFAULT_SCHEDULERS else f"scheduler-{name}"}
    if name == DEFAULT_SCHEDULERS[1]:
        wanted.add(f"scheduler-{name}")  # One that takes only the pods that name it.
    leases = [
        lease
        for lease in objects.list(LEASES, SYSTEM_NAMESPACE)
        if SHARD.sub("", key_of(lease).name) in wanted
    ]
    other = objects.get(LEASES, KUBE_SCHEDULER) if name == DEFAULT_SCHEDULERS[0] and not leases else None
    return leases if other is None else [other]


def _is_free(lease: Obj, now_ns: int) -> bool:
    lasts_s = float(lookup(lease, "spec", "leaseDurationSeconds") or LEASE_S)
    return not lookup(lease, "spec", "holderIdentity") or _age_s(lease, now_ns) > lasts_s


def _age_s(lease: Obj, now_ns: int) -> float:
    renewed_ns = moment_ns(lookup(lease, "spec", "renewTime")) or 0
    return (now_ns - renewed_ns) / SECOND_NS


def _nobody_leads(leases: list[Obj], now_ns: int) -> OwnTrouble:
    newest = min(leases, key=lambda lease: _age_s(lease, now_ns))
    name, age_s = "/".join(key_of(newest)), round(_age_s(newest, now_ns))
    holder = lookup(newest, "spec", "holderIdentity")
    last = f"lease {name} was last renewed {age_s} s ago" + (
        f" by {holder}" if holder else " and was given up"
    )
    change = Change("start a scheduler", "fathom serve scheduler", OPERATOR)
    return OwnTrouble(f"nobody leads the scheduler: {last}", change, f"a scheduler takes lease {name}")


def _no_scheduler(case: PodCase) -> OwnTrouble:
    name = scheduler_name(case)
    if case.evidence.attached:
        # Which command starts it there is not known to us.
        cause = f"no scheduler named {name!r} holds a lease that can be read, and none has looked at the pod"
        return OwnTrouble(
            cause, Change(f"start a scheduler named {name}", "", OPERATOR), f"scheduler {name!r} starts"
        )
    change = Change(
        f"start a scheduler named {name}", f"fathom serve scheduler --name={word(name)}", OPERATOR
    )
    cause = f"no scheduler named {name!r} has a lease in {SYSTEM_NAMESPACE} or a decision on record"
    return OwnTrouble(cause, change, f"scheduler {name!r} starts")


def stale_view(case: PodCase, reads: Iterable[str]) -> OwnTrouble | None:
    """For a pod that fits a node now and did not in the scheduler's view: the kind whose changes it lacked.
    `reads`: the kinds that the rules read which rejected the pod."""
    wanted, answered = set(reads), any(process.answered for process in schedulers(case.evidence))
    behind = [
        seen
        for seen in _caches(case)
        if seen.is_behind and seen.age_ms >= STALE_MS and (not wanted or seen.kind in wanted)
    ]
    if not behind:
        return None
    worst = max(behind, key=lambda seen: (seen.latest - seen.applied, seen.kind))
    inferred = "" if answered else " (inferred from its last decision)"
    cause = (
        f"the scheduler's view of {worst.kind} is stale{inferred}: it has revision {worst.applied} and heard"
        f" nothing for {worst.age_ms} ms, the latest change is {worst.latest}"
    )
    change = Change(
        "wait until the scheduler's watch catches up; if it does not, restart the scheduler",
        "",
        OPERATOR,
    )
    return OwnTrouble(cause, change, f"the scheduler hears of revision {worst.latest} of {worst.kind}")


def _caches(case: PodCase) -> tuple[Freshness, ...]:
    """What the scheduler has applied by now; where it does not answer, what its last decision used."""
    now = {
        kind: seen
        for process in schedulers(case.evidence)
        if process.answered and process.leads is not False
        for kind, seen in process.caches.items()
    }
    used = freshness(case)
    return tuple(
        msgspec.structs.replace(
            entry,
            used=now[entry.kind].revision,
            applied=max(now[entry.kind].revision, now[entry.kind].applied),
            age_ms=now[entry.kind].age_ms,
        )
        if entry.kind in now
        else entry
        for entry in used
    )


def view_age_ms(case: PodCase) -> int:
    """The age of the oldest cache that the scheduler decides from; 0 where it does not say."""
    ages = [
        seen.age_ms
        for process in schedulers(case.evidence)
        if process.answered and process.leads is not False
        for seen in process.caches.values()
    ]
    return max(ages, default=0)


# Nodes.


def replacement_trouble(case: PodCase) -> OwnTrouble | None:
    """Why fathom does not replace a pod of a node that is lost."""
    held = find_condition(conditions_of(case.node_object or {}), HELD) or {}
    message = str(held.get("message") or "")
    if held.get("status") == "True" and held.get("reason") == SPARED:
        return OwnTrouble(message)
    if held.get("status") == "True":
        return OwnTrouble(f"the brake on node actions holds: {message}", _release(case, held))
    name = next(iter(_paused_repairs(case)), "")
    if name:
        namespace, _, override = name.partition("/")
        command = f"kubectl -n {word(namespace)} delete scheduleroverride {word(override)}"
        change = Change(f"end override {name}", command, OPERATOR)
        related = override_refs(case.evidence, (name,))
        return OwnTrouble(f"override {name} pauses repair", change, related=related)
    return None


def _release(case: PodCase, held: Obj) -> Change:
    """The limits are in a ConfigMap, which need not exist."""
    config = case.evidence.objects.get("configmaps", BRAKE)
    if limits_of((config or {}).get("data") or {})[0].engaged:
        return Change("release the brake", _brake_command(config, {"engaged": "false"}), OPERATOR)
    if held.get("reason") == MANY_SILENT:
        command = _brake_command(config, {"share_percent": "100"})
        return Change("if the nodes are really lost, let the brake act on all of them", command, OPERATOR)
    return Change("wait: the brake lets pods of a few nodes go at a time", "", NOBODY)


def _brake_command(config: Obj | None, limits: Obj) -> str:
    if config is not None:
        return commands.merge_patch("configmap", BRAKE.name, {"data": limits}, namespace=BRAKE.namespace)
    meta = {"namespace": BRAKE.namespace, "name": BRAKE.name}
    return commands.applied({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": limits})


def _paused_repairs(case: PodCase) -> Iterable[str]:
    workloads = {case.key.name, *(key_of(owner).name for _, owner in case.owners)}
    for obj in case.evidence.objects.list(OVERRIDES, case.key.namespace):
        try:
            override = read(SchedulerOverride, obj)
        except msgspec.ValidationError:
            continue
        target = override.spec.target.partition("/")[2]
        if (
            override.spec.changes.pause_repair
            and target in workloads
            and override_active(override, case.evidence.now_ns)
        ):
            yield "/".join(key_of(obj))
