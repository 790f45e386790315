"""A delete that was decided about one state of an object is sent without its revision: it deletes whatever
the object has become."""

from __future__ import annotations

from fathom.control.commit import _sent
from fathom.sim.zoo import rewrite

ROOM = "control"

rewrite(
    _sent,
    'revision=at.revision if as_read else "",',
    'revision="",',
)
