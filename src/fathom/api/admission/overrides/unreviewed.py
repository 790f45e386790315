"""A new use of break-glass by somebody whose earlier uses nobody has reviewed.

It waits for nobody: it is for the night in which nobody else answers. The review is what it costs, so it must
come before the uses add up to permissions without an end: a few open reviews are warned of and noted in the
audit log, more are refused, and so is a use after one that is disputed or overdue.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.api.admission.attempt import WriteAttempt, refused
from fathom.kinds.override_review import (
    OVERRIDE_REVIEWS,
    REVIEW_DUE_HOURS,
    OverrideReview,
    is_disputed,
    is_open,
    is_overdue,
)
from fathom.kinds.shape import read
from fathom.model.view import View

# Four hours of a night at most, as each lasts for an hour at most. As many as extensions of other overrides.
UNREVIEWED_MAX = 3
CLOSE = "`fathom override review NAME -n NAMESPACE --close`"


def check_reviewed(attempt: WriteAttempt, view: View, *, now_ns: int) -> None:
    """Raises ApiError."""
    author = attempt.user.name
    reviews = _open_reviews(author, view)
    if not reviews:
        return
    names = [_name(review) for review in reviews]
    attempt.note("unreviewed-break-glass", ", ".join(names))
    for review in reviews:
        if why := _blocks(review, now_ns):
            about = f"the review {_name(review)} of {author}'s use of break-glass"
            raise refused(attempt, f"{about} {why}: somebody else must close it first, with {CLOSE}")
    has = f"{author} has {len(names)} {'use' if len(names) == 1 else 'uses'} of break-glass that nobody has"
    has += f" reviewed ({', '.join(names)})"
    if len(names) >= UNREVIEWED_MAX:
        raise refused(attempt, f"{has}: somebody else must close one first, with {CLOSE}")
    attempt.warn(f"{has}: ask somebody to review {'it' if len(names) == 1 else 'them'}")


def _open_reviews(author: str, view: View) -> Sequence[OverrideReview]:
    """In all namespaces: each is permission for the same person."""
    objs = (seen.obj for seen in view.list(OVERRIDE_REVIEWS))
    reviews = [read(OverrideReview, obj) for obj in objs if is_open(obj)]
    own = (review for review in reviews if review.spec.author == author)
    return sorted(own, key=lambda review: (review.spec.starts_at, _name(review)))


def _blocks(review: OverrideReview, now_ns: int) -> str:
    if is_disputed(review):
        return "is disputed"
    if is_overdue(review, now_ns):
        return f"is overdue: it was due {REVIEW_DUE_HOURS} hours after its end"
    return ""


def _name(review: OverrideReview) -> str:
    return f"{review.metadata.namespace}/{review.metadata.name}"
