"""What a reservation is for, read off its pod: its identity and its name. The scheduler names reservations by
it; the API server tells by it which one is a pod's own.
"""

from __future__ import annotations

import hashlib

import msgspec

from fathom.model.objects import Obj, key_of, metadata, uid_of
from fathom.model.own.capacity import GENERATION, SLOT

PREEMPT = "preempt"


class Intent(msgspec.Struct, frozen=True):
    """What a reservation is for: its identity."""

    workload: str
    uid: str
    slot: int = 0
    generation: int = 0

    @property
    def text(self) -> str:
        return f"{self.uid}/{self.slot}/{self.generation}/{PREEMPT}"


def intent_of(pod: Obj) -> Intent:
    meta = metadata(pod)
    owner = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), None)
    notes = meta.get("annotations") or {}
    slot = str(notes.get(SLOT) or "")
    if owner is None or not slot.isdecimal():
        return Intent(key_of(pod).name, uid_of(pod))
    generation = str(notes.get(GENERATION) or "")
    number = int(generation) if generation.isdecimal() else 0
    return Intent(str(owner.get("name")), str(owner.get("uid")), int(slot), number)


def reservation_name(intent: Intent) -> str:
    return f"{intent.workload[:200]}-{intent.slot}-{hashlib.sha256(intent.text.encode()).hexdigest()[:10]}"
