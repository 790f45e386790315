"""The record of a delete has the revision of another object that has the name now."""

from __future__ import annotations

from fathom.control.commit import Commit
from fathom.sim.zoo import rewrite

ROOM = "record"

rewrite(
    Commit._send,
    (
        "            revision = 0  # It was deleted, and another object has its name: this is the "
        "other one's.\n"
    ),
    "            pass\n",
)
