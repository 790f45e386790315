"""OverrideReviews: the server makes them, and somebody other than the author closes them."""

from __future__ import annotations

import msgspec

from fathom.api.admission.approvers import APPROVAL, check_approver
from fathom.api.admission.attempt import CREATE, DELETE, UPDATE, WriteAttempt, refused
from fathom.api.admission.plugin import Plugin
from fathom.kinds.override_review import OVERRIDE_REVIEWS, OverrideReview, is_open
from fathom.kinds.scheduler_override import OVERRIDES, SchedulerOverride, override_active
from fathom.kinds.shape import read
from fathom.model.accounts import HOUSEKEEPING
from fathom.model.declared import Reads
from fathom.model.objects import Key, lookup
from fathom.model.view import View
from fathom.seams.outside import Clock


class OverrideReviews(Plugin):
    name = "OverrideReviews"
    resources = frozenset({OVERRIDE_REVIEWS})
    operations = frozenset({CREATE, UPDATE, DELETE})
    subresources = frozenset({"", APPROVAL})
    trusted = True
    reads = (Reads("SchedulerOverride"),)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def validate(self, attempt: WriteAttempt, view: View) -> None:
        by_server = attempt.user.name == HOUSEKEEPING and not attempt.user.impersonator
        if attempt.operation == CREATE and not by_server:
            raise refused(attempt, "only the API server makes reviews, with the override that they are about")
        if attempt.operation == DELETE and is_open(attempt.old or {}) and not by_server:
            # The server removes it with its namespace.
            raise refused(attempt, "the review is open: somebody other than the author must close it first")
        if attempt.subresource == APPROVAL:
            self._check_approval(attempt, view)

    def _check_approval(self, attempt: WriteAttempt, view: View) -> None:
        review = read(OverrideReview, attempt.old or {})
        check_approver(attempt, (review.spec.author,), "their own use of break-glass")
        if not is_open(attempt.old or {}):
            raise refused(attempt, f"the review was closed by {review.status.approver}")
        if lookup(attempt.obj, "status", "approved") is True and self._is_active(review, view):
            raise refused(attempt, "the override is still active: end it, then review what was done")

    def _is_active(self, review: OverrideReview, view: View) -> bool:
        about = review.spec.override
        seen = view.get(OVERRIDES, Key(review.metadata.namespace, about.name))
        try:
            override = None if seen is None else read(SchedulerOverride, seen.obj)
        except msgspec.ValidationError:
            return False
        if override is None or override.metadata.uid != about.uid:
            return False
        return override_active(override, self._clock.now_ns())
