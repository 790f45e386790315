"""Fights and oscillation, found in the stream of committed writes.

    two writers    two actors change one field back and forth, each undoing the other's change
    oscillation    one field goes A-B-A-B, or a number goes up and down again and again

The detector keeps the last changes of each field and judges them with every new one. It names what it sees
and does nothing about it. Some changes are no fight, however often they change:

- Times, generations and messages: they change with every write of what they belong to.
- A status that one actor reports: it shows what happens, and the cause is in a field that somebody decides.
  During a rolling update `readyReplicas` goes 9, 10, 9, 10.
- Leases and Events, which are written to be renewed.
- What one actor writes to an object that it controls follows from the owner: it takes twice as many turns.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import msgspec

FightForm = Literal["TwoWriters", "Oscillation"]

# Renewed, counted up, or computed from other objects again and again by one writer.
NEVER_WATCHED = frozenset(
    {
        "endpoints",
        "endpointslices.discovery.k8s.io",
        "events",
        "events.events.k8s.io",
        "leases.coordination.k8s.io",
    }
)
_SERVER_SET = ("metadata.generation", "metadata.resourceVersion", "metadata.managedFields",
               "metadata.deletion")  # fmt: skip
# Of a condition, its status tells; of an object, the value that was observed.
_ACCOMPANYING = frozenset({"message", "reason", "observedGeneration"})
# Items of a list without a key move when one before them comes or goes.
_by_index = re.compile(r"\[\d+\]").search


class FightLimits(msgspec.Struct, frozen=True):
    """One set for every field."""

    # How often a value must come back, or a number must turn: A-B-A-B-A is three times. Twice happens when
    # somebody tries a change, takes it back and makes it again.
    turns_min: int = 3
    # Two actors that take turns are named without values that come back: each writes something new.
    alternations_min: int = 6
    # An object that another one controls follows from its owner, where the cause is named: a rollout that is
    # begun, taken back and begun again scales a ReplicaSet up, down and up.
    owned_turns_min: int = 6
    # Changes this far apart belong together. A cycle of 15 s is named after 30 s; an autoscaler, which acts
    # every 15 s and may take two steps up and one down, after 75 s.
    window_s: float = 90.0
    # A fight is over after this long without a change, or three cycles.
    quiet_s: float = 60.0
    fields_max: int = 32_768  # Those changed longest ago are dropped first. About 300 bytes each.
    changes_max: int = 12  # Of one field.
    fights_max: int = 256  # At the same time.


LIMITS = FightLimits()
CYCLES = (2, 3, 4)  # Lengths of cycles looked for: A-B-A-B, A-B-C-A-B-C.
# Of a change that another API server made: this one sees only that the value is another than it was.
UNSEEN = "a client of another API server"


class FightObject(msgspec.Struct, frozen=True, gc=False):
    resource: str  # 'deployments.apps'
    namespace: str
    name: str
    uid: str


class FieldChange(msgspec.Struct, frozen=True, gc=False):
    """One field, changed by one committed write. Values are compared only: a hash will do."""

    object: FightObject
    field: str
    before: Any
    after: Any
    writer: str
    time_ns: int
    owned: bool = False  # The object is controlled by another one.


class Fight(msgspec.Struct, frozen=True, rename="camel"):
    form: FightForm
    object: FightObject
    field: str
    writers: tuple[str, ...]  # In the order of their last changes.
    period_s: float  # Of one cycle: A-B-A.
    since_ns: int
    last_ns: int
    changes: int  # So far.

    @property
    def key(self) -> tuple[str, str]:
        return (self.object.uid, self.field)


class _Change(msgspec.Struct, frozen=True, gc=False):
    time_ns: int
    writer: str
    value: object


class _Track(msgspec.Struct):
    """The last changes of one field, oldest first."""

    before: object  # The value before the first of them.
    changes: list[_Change]


def _made(change: FieldChange) -> _Change:
    return _Change(change.time_ns, change.writer, change.after)


class FightDetector:
    def __init__(self, limits: FightLimits = LIMITS, *, several_servers: bool = False) -> None:
        self._limits = limits
        self._several_servers = several_servers  # Others may change a field between two changes seen here.
        # By UID and field; the last changed at the end. A plain dict finds its first key slowly, once many
        # before it were deleted.
        self._tracks: OrderedDict[tuple[str, str], _Track | FieldChange] = OrderedDict()
        self._fights: dict[tuple[str, str], Fight] = {}

    def changed(self, change: FieldChange) -> Fight | None:
        """The fight that this change makes visible, if it was not named before."""
        if not is_watched(change.object.resource, change.field):
            return None
        key = (change.object.uid, change.field)
        known = self._tracks.pop(key, None)
        if known is None:
            self._tracks[key] = change  # Most fields change once: no more is made of it than needed.
            if len(self._tracks) > self._limits.fields_max:
                self._tracks.popitem(last=False)
            return None
        track = self._tracks[key] = self._longer(known, change)
        return self._judged(key, track, change)

    def _judged(self, key: tuple[str, str], track: _Track, change: FieldChange) -> Fight | None:
        seen = judge(track.changes, track.before, change, self._limits)
        if seen is None:
            return None
        known = self._fights.pop(key, None)
        fight = _fight(seen, change, known)
        if known is None and len(self._fights) >= self._limits.fights_max:
            return None
        self._fights[key] = fight
        return fight if known is None or known.form != fight.form else None

    def _longer(self, known: _Track | FieldChange, change: FieldChange) -> _Track:
        track = known if isinstance(known, _Track) else _Track(known.before, [_made(known)])
        changes = track.changes
        if change.time_ns - changes[-1].time_ns > self._limits.window_s * 1e9:
            return _Track(change.before, [_made(change)])
        if self._several_servers and is_desired(change.field) and changes[-1].value != change.before:
            changes.append(_Change(change.time_ns, UNSEEN, change.before))
        changes.append(_made(change))
        while len(changes) > self._limits.changes_max:
            track.before = changes.pop(0).value
        return track

    def active(self, now_ns: int) -> tuple[Fight, ...]:
        """The fights that go on, oldest first. Those that are over are forgotten."""
        for key, fight in list(self._fights.items()):
            if now_ns - fight.last_ns > 1e9 * max(self._limits.quiet_s, 3 * fight.period_s):
                del self._fights[key]
        return tuple(sorted(self._fights.values(), key=lambda fight: (fight.since_ns, fight.key)))

    def __len__(self) -> int:
        """How many fields it remembers."""
        return len(self._tracks)


@lru_cache(maxsize=1 << 12)
def is_watched(resource: str, field: str) -> bool:
    if resource in NEVER_WATCHED or field.startswith(_SERVER_SET):
        return False
    if is_desired(field):
        return True
    last = field.rpartition(".")[2]
    if _by_index(field) is not None or last in _ACCOMPANYING:
        return False
    return not last.endswith(("Time", "Timestamp", "At"))


def is_desired(field: str) -> bool:
    """Whether the field says what somebody wants. Anything else reports."""
    return not field.startswith("status")


class _Seen(msgspec.Struct, frozen=True):
    """What the changes of one field amount to."""

    form: FightForm
    writers: tuple[str, ...]
    period_s: float
    since_ns: int
    changes: int


class _Cycle(msgspec.Struct, frozen=True):
    length: float  # In changes.
    turns: int  # Values that came back, or turns of a number.
    changes: int  # How many of the last changes belong to it.


def judge(
    changes: Sequence[_Change], before: object, change: FieldChange, limits: FightLimits = LIMITS
) -> _Seen | None:
    if len(changes) <= limits.turns_min:
        return None
    recent = [change for change in changes if changes[-1].time_ns - change.time_ns <= limits.window_s * 1e9]
    values = [before if len(recent) == len(changes) else changes[-len(recent) - 1].value]
    values += [change.value for change in recent]
    alternations, cycle = _alternations(recent), _cycle(values)
    turned = cycle.turns >= limits.turns_min
    if alternations >= limits.turns_min and turned:
        return _seen("TwoWriters", recent[-max(alternations + 1, cycle.changes) :], cycle.length)
    if alternations >= limits.alternations_min:
        return _seen("TwoWriters", recent[-alternations - 1 :], 2.0)
    least = limits.owned_turns_min if change.owned else limits.turns_min
    if cycle.turns >= least and is_desired(change.field):
        return _seen("Oscillation", recent[-cycle.changes :], cycle.length)
    return None


def _seen(form: FightForm, changes: Sequence[_Change], length: float) -> _Seen:
    writers = tuple(dict.fromkeys(change.writer for change in reversed(changes)))
    span_s = (changes[-1].time_ns - changes[0].time_ns) / 1e9
    period_s = round(span_s / (len(changes) - 1) * length, 3)
    return _Seen(form, writers, period_s, changes[0].time_ns, len(changes))


def _alternations(changes: Sequence[_Change]) -> int:
    """How many of the last changes, one after the other, undo or replace the change of another writer."""
    count = 0
    for at in range(len(changes) - 1, 0, -1):
        if changes[at].writer == changes[at - 1].writer:
            break
        count += 1
    return count


def _cycle(values: Sequence[object]) -> _Cycle:
    """The cycle at the end of these values: of values that come back, or of numbers that turn."""
    cycles = [_repeats(values, length) for length in CYCLES]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) == len(values):
        cycles.append(_reversals(numbers))
    return max(cycles, key=lambda cycle: cycle.turns)


def _repeats(values: Sequence[object], length: int) -> _Cycle:
    turns = 0
    for at in range(len(values) - 1, length - 1, -1):
        if values[at] != values[at - length]:
            break
        turns += 1
    return _Cycle(length, turns, turns + length - 1)


def _reversals(numbers: Sequence[float]) -> _Cycle:
    rises = [later > earlier for earlier, later in pairwise(numbers)]
    turns = sum(rise != next_rise for rise, next_rise in pairwise(rises))
    return _Cycle(2 * (len(rises) - 1) / turns if turns else 0.0, turns, len(rises))


def _fight(seen: _Seen, change: FieldChange, known: Fight | None) -> Fight:
    """What was named stays as it was named: a report that changes with each write would itself be a fight."""
    if known is not None and known.form in {seen.form, "TwoWriters"}:
        return msgspec.structs.replace(known, last_ns=change.time_ns, changes=known.changes + 1)
    return Fight(
        form=seen.form,
        object=change.object,
        field=change.field,
        writers=seen.writers,
        period_s=seen.period_s,
        since_ns=seen.since_ns if known is None else known.since_ns,
        last_ns=change.time_ns,
        changes=seen.changes,
    )
