"""The trust that a node has lost by failed pod starts, as recorded in its annotation.

A controller writes it, the scheduler and `fathom why` read it: so it survives restarts, is the same for every
scheduler, and can be seen and reset with kubectl.
"""

from __future__ import annotations

import msgspec

from fathom.model.objects import Obj, lookup

ANNOTATION = "fathom.dev/trust-lost"
FULL = 100  # All trust is lost.


class LostTrust(msgspec.Struct, frozen=True):
    points: int = 0
    at_ns: int = 0
    why: str = ""


def lost_of(node: Obj) -> LostTrust:
    note = str(lookup(node, "metadata", "annotations", ANNOTATION) or "{}")
    try:
        return msgspec.json.decode(note, type=LostTrust)
    except msgspec.DecodeError:
        return LostTrust()
