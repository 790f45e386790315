"""The result of a reconcile pass: when to look again, or what failed.

The loop alone decides what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from fathom.control.commit import AppliedPlan

# failed     it was tried, and counts as an attempt
# held       the view is not fresh enough: nothing was tried
# not sent   the breaker is open, or the lease may be lost: nothing was tried
Blame = Literal["failed", "held", "not sent"]


class Failure(msgspec.Struct, frozen=True):
    reason: str  # One word in CamelCase, for a condition: Conflict, Forbidden, BehindRevision.
    message: str
    blame: Blame = "failed"
    retry_after_s: float = 0.0  # The delay that the server asked for.
    lacks: tuple[str, ...] = ()  # Held: the kinds that are not fresh enough.
    answer: str = ""  # The server's message, where it refused.
    causes: tuple[str, ...] = ()  # And the causes that it named.
    decision: str = ""  # The recorded decision that could not be carried out.


class ReconcileResult(msgspec.Struct, frozen=True):
    after_s: float | None = None  # None: when something changes.
    why: str = ""  # What the timer is for.
    failure: Failure | None = None
    # It may wait for a time of day: the pass comes at once if the wall clock is set. False: for a duration.
    by_clock: bool = True

    @classmethod
    def never(cls) -> ReconcileResult:
        """Look again only when something changes."""
        return cls()

    @classmethod
    def in_s(cls, seconds: float, why: str = "") -> ReconcileResult:
        return cls(seconds, why)

    @classmethod
    def failed(cls, reason: str, message: str = "") -> ReconcileResult:
        """Retry with a backoff, and report the reason in a condition."""
        return cls(failure=Failure(reason, message))

    @classmethod
    def after(
        cls, applied: AppliedPlan, *, in_s: float | None = None, why: str = "", by_clock: bool = True
    ) -> ReconcileResult:
        """The result that follows from an applied plan; if it succeeded, look again after `in_s`."""
        if applied.failure is not None:
            return cls(failure=applied.failure)
        return cls(in_s, why, by_clock=by_clock)
