"""What a list shows of an override: its changes, who acknowledged it, its state, how long it still lasts.

The command line, `kubectl get` and explanations take it from here, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fathom.kinds.override_changes import CHANGES, SCHEDULER, affected_controllers
from fathom.kinds.override_status import REPAIR_COMPLETE
from fathom.kinds.scheduler_override import Acknowledgement, SchedulerOverride, expiry_ns
from fathom.kinds.shape import Condition
from fathom.model.times import SECOND_NS, human_duration

HONORING, DECLINED = "Honoring", "Declined"

# States, beside 'Observed 2/3'.
WAITS_FOR_APPROVAL, REFUSED, LAPSED = "Waiting for approval", "Refused", "Lapsed"
ACTIVE, NO_MATCH, DEGRADED = "Active", "NoMatch", "Degraded"
ENDING, ENDED, RESIDUE = "Ending", "Ended", "Residue"

DEGRADED_CONDITION = "Degraded"


class AckCounts(msgspec.Struct, frozen=True):
    """The affected controllers, by what they say of this generation of the override."""

    honoring: tuple[str, ...]
    declined: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def total(self) -> int:
        return len(self.honoring) + len(self.declined) + len(self.missing)

    def __str__(self) -> str:
        return f"{len(self.honoring)}/{self.total}"


def set_changes(override: SchedulerOverride) -> dict[str, Any]:
    """The changes that it makes, with their values, in the order of the table."""
    values: Mapping[str, Any] = msgspec.to_builtins(override.spec.changes)
    return {name: values[name] for name in CHANGES if name in values and values[name] not in ((), [], {}, "")}


def changes_text(override: SchedulerOverride) -> str:
    return ",".join(set_changes(override))


def ack_counts(override: SchedulerOverride) -> AckCounts:
    affected = override.status.affected_controllers or affected_controllers(set_changes(override))
    states = {name: _state_of(override, name) for name in affected}
    return AckCounts(
        tuple(name for name in affected if states[name] == HONORING),
        tuple(name for name in affected if states[name] == DECLINED),
        tuple(name for name in affected if states[name] not in {HONORING, DECLINED}),
    )


def acknowledgements_of(override: SchedulerOverride, controller: str) -> list[Acknowledgement]:
    """Those of the controller; of several schedulers, each has its own: scheduler-0of2."""
    several = (f"{controller}-", f"{controller}/") if controller == SCHEDULER else ()
    return [
        each
        for each in override.status.acknowledgements
        if each.controller == controller or (several and each.controller.startswith(several))
    ]


def _state_of(override: SchedulerOverride, controller: str) -> str:
    """What all of a controller's processes say; '' while one is missing. An acknowledgement of an earlier
    generation does not count: it was about another spec."""
    entries = acknowledgements_of(override, controller)
    states = {each.state for each in entries}
    behind = any(each.observed_generation < override.metadata.generation for each in entries)
    if not entries or behind or not states <= {HONORING, DECLINED}:
        return ""
    return DECLINED if DECLINED in states else HONORING


def ack_text(override: SchedulerOverride) -> str:
    """'2/3'; '-' for one that is being deleted: nobody acknowledges that."""
    return "-" if override.metadata.deletion_timestamp else str(ack_counts(override))


def waits_for_approval(override: SchedulerOverride) -> bool:
    approval = override.status.approval
    return approval is not None and approval.required and approval.approved is None


def state_of(override: SchedulerOverride, now_ns: int) -> str:
    if override.status.residue:
        return RESIDUE
    if override.metadata.deletion_timestamp:
        return ENDING
    approval, ends_ns = override.status.approval, expiry_ns(override)
    is_over = ends_ns is not None and ends_ns <= now_ns
    if approval is not None and approval.approved is False:
        return REFUSED
    if waits_for_approval(override):
        return LAPSED if is_over else WAITS_FOR_APPROVAL
    return ENDED if is_over else _state_in_force(override)


def _state_in_force(override: SchedulerOverride) -> str:
    acks = ack_counts(override)
    if any(each.type == DEGRADED_CONDITION and each.status == "True" for each in override.status.conditions):
        return DEGRADED
    if acks.declined:
        return DECLINED
    if acks.missing:
        return f"Observed {acks}"
    changes = override.status.changes
    return NO_MATCH if changes and all(each.state == NO_MATCH for each in changes) else ACTIVE


def proof_of(override: SchedulerOverride) -> Condition | None:
    """What the override controller says of this generation's end; None if it has said nothing."""
    return next(
        (
            each
            for each in override.status.conditions
            if each.type == REPAIR_COMPLETE and each.observed_generation >= override.metadata.generation
        ),
        None,
    )


def remaining(override: SchedulerOverride, now_ns: int) -> str:
    """'31m'; 'ended' after its end or deletion, and '-' while the end is unknown, as before an approval."""
    ends_ns = expiry_ns(override)
    if override.metadata.deletion_timestamp:
        return "ended"
    if waits_for_approval(override) or ends_ns is None:
        return "-"
    return human_duration((ends_ns - now_ns) / SECOND_NS) if now_ns < ends_ns else "ended"
