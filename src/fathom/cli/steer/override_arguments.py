"""Checks of what a user typed for `fathom override`, before the server is asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fathom.cli.problem import Problem
from fathom.kinds.override_summary import remaining, waits_for_approval
from fathom.kinds.scheduler_override import SchedulerOverride, expiry_ns
from fathom.model.times import SECOND_NS, duration_ns


def check_later(override: SchedulerOverride, lasts: str, now_ns: int) -> None:
    """Raises Problem if the override would end earlier than it does now: that is no extension."""
    ends_ns, lasts_ns = expiry_ns(override), duration_ns(lasts)
    if waits_for_approval(override) or ends_ns is None or lasts_ns is None or now_ns >= ends_ns:
        return  # The server knows what to say.
    if now_ns + lasts_ns < ends_ns:
        left = remaining(override, now_ns)
        raise Problem(
            f"--for {lasts} would end it earlier: it ends in {left}, and --for counts from now; give a longer"
            " time, or end it when it is no longer needed with `fathom override end`"
        )


def other_spelling(lasts: str, before: str) -> str:
    """A duration that starts the clock again although it is the same as before: 45m, then 2700s."""
    lasts_ns = duration_ns(lasts)
    if lasts != before or lasts_ns is None:
        return lasts
    seconds = f"{lasts_ns // SECOND_NS}s"
    return seconds if seconds != before else f"{lasts_ns // 1_000_000}ms"


def checked_duration(text: str, option: str) -> str:
    """Raises Problem."""
    lasts_ns = duration_ns(text)
    if lasts_ns is None or lasts_ns <= 0:
        raise Problem(f"{option} must be a duration such as 30s, 45m or 1h30m, not {text!r}")
    return text


def missing_flags(flags: Iterable[tuple[str, object]]) -> None:
    """Raises Problem if one of them has no value."""
    names = [name for name, value in flags if not value]
    if names:
        raise Problem(f"an override needs {', '.join(names)}; or give a whole object with -f")
