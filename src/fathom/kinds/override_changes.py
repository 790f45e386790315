"""The changes that a SchedulerOverride can make: one table.

Validation, `kubectl explain`, docs, permissions, acknowledgements and previews follow from its rows. A new
change is a row here, a field of `scheduler_override.Changes`, and the code of who enforces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

HOUR_NS = 3600 * 1_000_000_000

WORKLOAD_TARGETS = ("workload", "deployment", "replicaset", "job")
INFRASTRUCTURE_TARGETS = ("node", "zone", "pool")
TARGETS = (*WORKLOAD_TARGETS, *INFRASTRUCTURE_TARGETS)
SCOPES = ("region", "zone", "node", "pool")
EVERYWHERE = "cluster"  # The scope that says so; in objects of old, an absent scope means the same.

# Who carries changes out, by the names that `status.affectedControllers` has.
SCHEDULER, AUTOSCALER, QUOTA_CONTROLLER = "scheduler", "autoscaler", "quota-controller"
DEPLOYMENT_CONTROLLER, REPAIR_CONTROLLER = "deployment-controller", "repair-controller"
OVERRIDE_CONTROLLER, AUTHORIZER = "override-controller", "authorizer"
# The API server, in the commit of each write: these honour an override from its own commit on.
AT_THE_WRITE = frozenset({QUOTA_CONTROLLER, AUTHORIZER})

# Verbs that the ClusterRole `admin` has. Those of changes to nodes, and break-glass, are not among them.
ADMIN_VERBS = ("approve-repairs", "constrain", "grant", "pause", "shift-traffic")

LOW, HIGH = "low", "high"

# How several overrides of one target combine. EXCLUSIVE: two that differ contradict each other, and the later
# one is refused.
ALL_HOLD, UNITED, LARGEST, EXCLUSIVE = "all hold", "united", "largest", "exclusive"

# What the end undoes: all by itself, by an action of the override controller, or nothing.
BY_ITSELF, BY_ACTION, STAYS = "by itself", "by action", "stays"


class ControlClass(msgspec.Struct, frozen=True):
    name: str
    targets: tuple[str, ...]
    hours_max: int  # Long enough for an incident, short enough that it does not last into the next week.


PAUSE = ControlClass("pause", WORKLOAD_TARGETS, 24)
PAUSE_ANYWHERE = ControlClass("pause", TARGETS, 24)
PLACEMENT = ControlClass("placement", WORKLOAD_TARGETS, 7 * 24)
QUOTA = ControlClass("quota", WORKLOAD_TARGETS, 24)
CORDON = ControlClass("cordon", INFRASTRUCTURE_TARGETS, 7 * 24)
REPAIR = ControlClass("repair", WORKLOAD_TARGETS, 4)
TRAFFIC = ControlClass("traffic", WORKLOAD_TARGETS, 24)
BREAK_GLASS = ControlClass("break-glass", WORKLOAD_TARGETS, 1)


class ChangeRule(msgspec.Struct, frozen=True):
    control_class: ControlClass
    verb: str  # What its author needs on scheduleroverrides, beside create or update.
    enforced_by: tuple[str, ...]
    about: str  # What it does, for people.
    merge: str = ALL_HOLD
    risk: str = LOW  # HIGH needs the approval of a second person, where SteeringLimits ask for it.
    undone: str = BY_ITSELF

    @property
    def lasts_ns_max(self) -> int:
        return self.control_class.hours_max * HOUR_NS

    @property
    def explained(self) -> str:
        """The row in one line."""
        targets = ", ".join(f"{kind}/" for kind in self.control_class.targets)
        limits = f"Targets: {targets}. At most {self.control_class.hours_max}h. Verb: {self.verb}."
        return f"{self.about} {limits} Carried out by: {', '.join(self.enforced_by)}."


def _avoid(what: str) -> ChangeRule:
    about = f"New pods of the target are not placed {what}."
    return ChangeRule(PLACEMENT, "constrain", (SCHEDULER,), about, merge=UNITED)


# By the field of `spec.changes`.
CHANGES: dict[str, ChangeRule] = {
    "pauseAutoscaler": ChangeRule(
        PAUSE, "pause", (AUTOSCALER,), "The autoscaler changes the target's replicas in neither direction."
    ),
    "pauseRollout": ChangeRule(
        PAUSE, "pause", (DEPLOYMENT_CONTROLLER,), "The Deployment's rollout does not go on."
    ),
    "pauseRepair": ChangeRule(
        PAUSE_ANYWHERE,
        "pause",
        (REPAIR_CONTROLLER,),
        "Repair acts on none of the target's objects; it still proposes.",
    ),
    "pauseExpansion": ChangeRule(
        PAUSE,
        "pause",
        (AUTOSCALER, QUOTA_CONTROLLER),
        "The target does not grow: it is not scaled up, and gets no pod more than it has.",
    ),
    "avoidZones": _avoid("in these zones"),
    "avoidNodes": _avoid("on these nodes"),
    "avoidNodeClasses": _avoid("on nodes of these classes"),
    "avoidPools": _avoid("on nodes of these pools"),
    "avoidTopology": _avoid("on nodes that have these labels"),
    "allowReservedCapacityClass": ChangeRule(
        QUOTA,
        "grant",
        (SCHEDULER, QUOTA_CONTROLLER),
        "Pods of the target may use the reserved capacity of this class.",
        merge=EXCLUSIVE,
        undone=STAYS,
    ),
    "reservedReplicas": ChangeRule(
        QUOTA,
        "grant",
        (SCHEDULER, QUOTA_CONTROLLER),
        "How many pods may use that class.",
        merge=EXCLUSIVE,
        undone=STAYS,
    ),
    "raisePriority": ChangeRule(
        QUOTA,
        "grant",
        (SCHEDULER,),
        "Waiting pods of the target are queued with at least this priority. They preempt nobody for it.",
        merge=LARGEST,
    ),
    "cordon": ChangeRule(CORDON, "cordon", (SCHEDULER,), "No new pod is placed on the target's nodes."),
    "drain": ChangeRule(
        CORDON,
        "drain",
        (SCHEDULER, OVERRIDE_CONTROLLER),
        "As cordon, and pods on the target's nodes are evicted, as disruption budgets allow.",
        risk=HIGH,
        undone=STAYS,
    ),
    "approveRepairs": ChangeRule(
        REPAIR,
        "approve-repairs",
        (REPAIR_CONTROLLER,),
        "These RepairProposals about the target are approved.",
        merge=UNITED,
        risk=HIGH,
        undone=STAYS,
    ),
    "trafficWeights": ChangeRule(
        TRAFFIC,
        "shift-traffic",
        (OVERRIDE_CONTROLLER,),
        "The target's traffic is spread over regions or pools by these weights.",
        merge=EXCLUSIVE,
        risk=HIGH,
        undone=BY_ACTION,
    ),
    "breakGlassRole": ChangeRule(
        BREAK_GLASS,
        "break-glass",
        (AUTHORIZER,),
        "The author of the override has the permissions of this ClusterRole in the namespace.",
        merge=EXCLUSIVE,
        risk=HIGH,
    ),
}


class Named(msgspec.Struct, frozen=True):
    """'workload/risk-api', parsed."""

    kind: str
    name: str


def named(text: str) -> Named | None:
    kind, slash, name = text.partition("/")
    return Named(kind, name) if slash and kind and name else None


_ORDER = (
    SCHEDULER,
    AUTOSCALER,
    QUOTA_CONTROLLER,
    DEPLOYMENT_CONTROLLER,
    REPAIR_CONTROLLER,
    OVERRIDE_CONTROLLER,
    AUTHORIZER,
)


def affected_controllers(changes: Iterable[str]) -> tuple[str, ...]:
    """Who must honour these changes, each once, those that place and scale first."""
    enforcers = {name for change in changes if change in CHANGES for name in CHANGES[change].enforced_by}
    return tuple(name for name in _ORDER if name in enforcers)


def effective_changes(changes: Mapping[str, object]) -> tuple[str, ...]:
    """Names of the changes that are not false or empty, in the order of the table."""
    return tuple(name for name in CHANGES if _says_something(changes.get(name)))


def _says_something(value: object) -> bool:
    if isinstance(value, dict):
        return any(_says_something(inner) for inner in value.values())
    if isinstance(value, bool | str | list | tuple):
        return bool(value)
    return value is not None
