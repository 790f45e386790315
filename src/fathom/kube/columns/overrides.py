"""Table columns of SchedulerOverrides: the same as `fathom override list` has."""

from __future__ import annotations

from fathom.kinds.override_summary import ack_text, changes_text, remaining, state_of
from fathom.kinds.scheduler_override import SchedulerOverride
from fathom.kinds.shape import read
from fathom.model.objects import Obj

_UNREADABLE = "<invalid>"  # Stored before its schema was as it is.


def override_changes(obj: Obj, now_ns: int) -> str:
    override = _override(obj)
    return _UNREADABLE if override is None else changes_text(override)


def override_expires(obj: Obj, now_ns: int) -> str:
    override = _override(obj)
    return _UNREADABLE if override is None else remaining(override, now_ns)


def override_acks(obj: Obj, now_ns: int) -> str:
    override = _override(obj)
    return _UNREADABLE if override is None else ack_text(override)


def override_state(obj: Obj, now_ns: int) -> str:
    override = _override(obj)
    return _UNREADABLE if override is None else state_of(override, now_ns)


def _override(obj: Obj) -> SchedulerOverride | None:
    try:
        return read(SchedulerOverride, obj)
    except ValueError:
        return None
