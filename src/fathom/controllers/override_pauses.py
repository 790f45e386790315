"""Whether an override that is in force pauses something about a workload."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fathom.control.watches import own
from fathom.kinds import scheduler_override
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, expiry_ns, named, override_active
from fathom.kinds.shape import read
from fathom.model.decision import Considered, considered
from fathom.model.objects import Key, Obj, key_of

OVERRIDE = own(scheduler_override.DEFINITION)


class WorkloadPause(msgspec.Struct, frozen=True):
    override: str  # Its name.
    until_ns: int
    considered: tuple[Considered, ...] = ()  # All overrides that pause the workload now.


def paused(overrides: Iterable[Obj], kind: str, key: Key, *fields: str, now_ns: int) -> WorkloadPause | None:
    """The override that pauses one of these (`pause_rollout`, …) for the workload, the longest-lasting one if
    several do. An unreadable override pauses nothing."""
    pauses = [
        WorkloadPause(key_of(obj).name, expiry_ns(override) or 0, (considered(OVERRIDES, obj),))
        for obj in overrides
        if (override := _read(obj)) is not None
        and any(getattr(override.spec.changes, field) for field in fields)
        and _is_about(override, kind, key)
        and override_active(override, now_ns)
    ]
    longest = max(pauses, key=lambda pause: (pause.until_ns, pause.override), default=None)
    if longest is None:
        return None
    every = tuple(override for pause in pauses for override in pause.considered)
    return msgspec.structs.replace(longest, considered=every)


def as_decisive(considered: tuple[Considered, ...], name: str) -> tuple[Considered, ...]:
    """The overrides, of which the named one made the decision what it is."""
    return tuple(msgspec.structs.replace(override, decisive=override.name == name) for override in considered)


def _read(obj: Obj) -> SchedulerOverride | None:
    try:
        return read(SchedulerOverride, obj)
    except msgspec.ValidationError:
        return None


def _is_about(override: SchedulerOverride, kind: str, key: Key) -> bool:
    about = named(override.spec.target)
    if about is None or override.metadata.namespace != key.namespace:
        return False
    return about.kind in {"workload", kind.lower()} and about.name == key.name


def workload_of(obj: Obj) -> Key | None:
    """The workload that an override is about, if it is about one."""
    override = _read(obj)
    about = None if override is None else named(override.spec.target)
    if about is None or about.kind in {"node", "zone", "pool"}:
        return None
    return Key(key_of(obj).namespace, about.name)
