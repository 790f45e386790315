"""A status is written without the revision that it was computed from: lists of conditions undo what others
wrote meanwhile."""

from __future__ import annotations

from fathom.control.commit import _sent
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    _sent,
    (
        "        case WriteStatus(target=at, status=status):\n"
        '            guard = {"uid": at.uid, **({"resourceVersion": at.revision} if at.revision else '
        "{})}"
    ),
    ('        case WriteStatus(target=at, status=status):\n            guard = {"uid": at.uid}'),
)
