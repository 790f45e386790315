"""A runbook's delete deletes another object that has been made under the name since."""

from __future__ import annotations

from fathom.sim.zoo import rewrite
from fathom.steer.actions import Actions

ROOM = "steer"

rewrite(
    Actions._is_gone,
    "            return uid_of(current) != meant.uid\n",
    "            return False\n",
)
