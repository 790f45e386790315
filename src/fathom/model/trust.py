"""Trust that a node has lost by starts that failed there, as its annotation has it.

A controller keeps the account, the scheduler and `fathom why` read it: so it survives restarts, is the same
for every scheduler, and can be seen and forgiven with kubectl.
"""

from __future__ import annotations

import msgspec

from fathom.model.objects import Obj, lookup

ANNOTATION = "fathom.dev/trust-lost"
FULL = 100  # All of it.


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
