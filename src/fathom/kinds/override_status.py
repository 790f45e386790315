"""What processes say of a SchedulerOverride: who has observed it, and whether it has ended. Pure.

An acknowledgement says that the acknowledger's own cache has this generation, so that whatever it decides
from now on honours it. It is valid for one leader term: the next leader's cache may be older.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.kinds.override_changes import (
    AT_THE_WRITE,
    OVERRIDE_CONTROLLER,
    SCHEDULER,
    affected_controllers,
)
from fathom.kinds.scheduler_override import Acknowledgement, SchedulerOverride, changes_of, expiry_ns
from fathom.model.conditions import conditions_of, find_condition, set_condition
from fathom.model.objects import Obj

HONORING, DECLINED = "Honoring", "Declined"
FINALIZER = "fathom.dev/override"  # Held until nothing of the override is left.
# On what an override changed, beside USED_OVERRIDES on pods: NAMESPACE/NAME@UID.
MADE_BY = "fathom.dev/override"
BREAK_GLASS = "fathom.dev/break-glass"  # On roles, bindings and tokens made under it: the override's UID.
CONTROLLERS_LEASE = "controllers"  # Of the process that autoscaler, deployments and repair run in.
# Conditions.
OBSERVED, EFFECTIVE = "SchedulerOverrideObserved", "Effective"
DEGRADED, STOPPED = "Degraded", "AcknowledgerStopped"  # The condition, and its reason.
REPAIR_COMPLETE = "RepairComplete"  # True: it is proven that nothing is left of the override.


class Acknowledger(msgspec.Struct, frozen=True):
    controller: str  # As in `affectedControllers`; one of several schedulers has its suffix: scheduler-0of2.
    epoch: int = 0  # Of its leader term; 0 without a lease.
    declines: str = ""  # Why it does not honour the override; '': it does.


def reference(override: SchedulerOverride) -> str:
    """NAMESPACE/NAME@UID, as effects of the override carry it."""
    meta = override.metadata
    return f"{meta.namespace}/{meta.name}@{meta.uid}"


def is_marked(text: object, uid: str) -> bool:
    """Whether an annotation names the override with this UID, among others perhaps."""
    listed = text.split(",") if isinstance(text, str) else []
    return bool(uid) and any(entry.strip().partition("@")[2] == uid for entry in listed)


def has_ended(override: SchedulerOverride, now_ns: int) -> bool:
    """Deleted or expired. One that waits for its approval is not active, and has not ended."""
    expires_ns = expiry_ns(override)
    return bool(override.metadata.deletion_timestamp) or (expires_ns is not None and now_ns >= expires_ns)


def affected_by(override: SchedulerOverride) -> tuple[str, ...]:
    return affected_controllers(changes_of(override))


def is_controller(acknowledger: str, name: str) -> bool:
    """Whether the acknowledger is the named controller, or one of several schedulers."""
    several = name == SCHEDULER and acknowledger.startswith((f"{name}-", f"{name}/"))
    return acknowledger == name or several


def lease_name(controller: str) -> str:
    """The lease in fathom-system whose holder acknowledges for this controller; '': the API server does."""
    if controller in AT_THE_WRITE:
        return ""
    return controller if is_controller(controller, SCHEDULER) else CONTROLLERS_LEASE


def acknowledged(
    obj: Obj, acknowledgers: Iterable[Acknowledger], *, cache_revision: int, now: str, now_ns: int
) -> list[Obj] | None:
    """The acknowledgements of the override, with those of these acknowledgers. None: nothing is new.

    The caller writes them at the revision that it read: of two concurrent writers one tries again, and
    neither loses the other's entry."""
    override = msgspec.convert(obj, SchedulerOverride, strict=False)
    if has_ended(override, now_ns):
        return None
    generation, affected = override.metadata.generation, affected_by(override)
    entries = {entry.controller: entry for entry in override.status.acknowledgements}
    before = dict(entries)
    for each in acknowledgers:
        current = entries.get(each.controller)
        concerned = any(is_controller(each.controller, name) for name in affected)
        if concerned and (current is None or not _is_current(current, each, generation)):
            entries[each.controller] = Acknowledgement(
                controller=each.controller,
                state=DECLINED if each.declines else HONORING,
                reason=each.declines,
                observed_generation=generation,
                cache_revision=cache_revision,
                epoch=each.epoch,
                time=now,
            )
    if entries == before:
        return None
    return [msgspec.to_builtins(entry) for entry in entries.values()]


def _is_current(entry: Acknowledgement, by: Acknowledger, generation: int) -> bool:
    return (
        entry.observed_generation >= generation
        and entry.epoch == by.epoch
        and entry.reason == by.declines
        and bool(entry.state)
    )


class Observers(msgspec.Struct, frozen=True):
    """How far the affected controllers are."""

    waiting: tuple[str, ...] = ()  # Have not observed this generation.
    lost: tuple[str, ...] = ()  # Have stopped: their lease is not renewed.
    declined: dict[str, str] = {}  # Controller -> why.

    @property
    def observed(self) -> bool:
        return not self.waiting


class ComponentLease(msgspec.Struct, frozen=True):
    """A lease in fathom-system, as this process has followed it."""

    name: str
    epoch: int = 0
    held: bool = True  # False: it has no holder, or was not renewed for longer than it lasts.


def observers(
    override: SchedulerOverride, affected: Iterable[str], leases: Iterable[ComponentLease]
) -> Observers:
    by_name = {lease.name: lease for lease in leases}
    waiting: list[str] = []
    lost: list[str] = []
    declined: dict[str, str] = {}
    for name in affected:
        entries = [
            entry for entry in override.status.acknowledgements if is_controller(entry.controller, name)
        ]
        waiting += _waiting(override, name, entries, by_name)
        lost += _lost(name, entries, by_name)
        reasons = [entry.reason for entry in entries if entry.state == DECLINED]
        declined |= {name: reasons[0]} if reasons else {}
    return Observers(tuple(dict.fromkeys(waiting)), tuple(dict.fromkeys(lost)), declined)


def _waiting(
    override: SchedulerOverride, name: str, entries: list[Acknowledgement], leases: dict[str, ComponentLease]
) -> list[str]:
    """Who has not observed this generation: acknowledgers of an older one or an earlier term, schedulers that
    hold a lease and have not acknowledged at all, and the controller itself if nobody has acknowledged."""
    behind = [
        entry.controller
        for entry in entries
        if entry.observed_generation < override.metadata.generation or _is_of_earlier_term(entry, leases)
    ]
    known = {entry.controller for entry in entries}
    silent = [
        lease.name
        for lease in leases.values()
        if name == SCHEDULER and lease.held and is_controller(lease.name, name) and lease.name not in known
    ]
    return [*behind, *silent] if entries or silent else [name]


def _is_of_earlier_term(entry: Acknowledgement, leases: dict[str, ComponentLease]) -> bool:
    lease = leases.get(lease_name(entry.controller))
    return lease is not None and lease.held and 0 < entry.epoch < lease.epoch


def _lost(name: str, entries: list[Acknowledgement], leases: dict[str, ComponentLease]) -> list[str]:
    if name in AT_THE_WRITE or name == OVERRIDE_CONTROLLER:
        return []  # The API server; and whoever asks.
    asked = [entry.controller for entry in entries] or [name]
    lease_of_each = [(who, leases.get(lease_name(who))) for who in asked]
    return [who for who, lease in lease_of_each if lease is not None and not lease.held]


def stopped_message(names: Iterable[str]) -> str:
    return f"{', '.join(names)} does not renew its lease: it may have stopped"


def degraded_without_controllers(obj: Obj, *, now: str, now_ns: int) -> list[Obj] | None:
    """The conditions of an override while the process of the controllers has stopped, which writes them
    otherwise; None: they say so already, or the override has ended."""
    override = msgspec.convert(obj, SchedulerOverride, strict=False)
    stopped = [name for name in affected_by(override) if lease_name(name) == CONTROLLERS_LEASE]
    return _degraded(obj, override, stopped, now=now, now_ns=now_ns)


def degraded_without_anybody(obj: Obj, *, now: str, now_ns: int) -> list[Obj] | None:
    """The same where nobody runs but the API server."""
    override = msgspec.convert(obj, SchedulerOverride, strict=False)
    stopped = [name for name in affected_by(override) if name not in AT_THE_WRITE]
    return _degraded(obj, override, stopped, now=now, now_ns=now_ns)


def _degraded(
    obj: Obj, override: SchedulerOverride, stopped: list[str], *, now: str, now_ns: int
) -> list[Obj] | None:
    degraded = find_condition(conditions_of(obj), DEGRADED) or {}
    if has_ended(override, now_ns) or degraded.get("status") == "True":
        return None
    return set_condition(
        conditions_of(obj),
        type=DEGRADED,
        status="True",
        reason=STOPPED,
        message=stopped_message(stopped or [OVERRIDE_CONTROLLER]),
        observed_generation=override.metadata.generation,
        now=now,
    )
