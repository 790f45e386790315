"""Objects that two actors delete and create in turn, found in the stream of committed writes.

Each new object has another UID, so no field of it ever changes back: the fight is over whether it exists.

    created by A ──> deleted by B ──> created by A ──> deleted by B ──> created by A ──> deleted by B: named

Objects are told apart by kind, namespace and name; those that another one controls by their owner, since the
replacement may have another name; and those with a generated name by its first part. A deletion counts if
another actor than the creator made it, soon after the creation, and if the creation followed the last
deletion that counted. So what is no fight does not count: a drain, which deletes old pods; many pods deleted
at once; a controller that deletes what it has created itself.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from fathom.explain.coupling.fights import LIMITS, NEVER_WATCHED, Fight, FightLimits, FightObject

SAME_NAME, SAME_OWNER = "metadata.uid", "metadata.name"  # What is new in each object.
CREATED_MAX = 16_384  # Objects remembered; those created longest ago are dropped first. About 200 bytes each.
CHAINS_MAX = 4_096

Group = tuple[str, str, str]


class Lifetime(msgspec.Struct, frozen=True, gc=False):
    """An object that was created, or that somebody began to delete."""

    object: FightObject
    writer: str
    time_ns: int
    owner: str = ""  # UID of the object that controls it.
    generate_name: str = ""

    @property
    def group(self) -> Group:
        """What its replacement has in common with it."""
        about = self.object
        if self.owner:
            return about.resource, self.owner, self.generate_name
        if self.generate_name:
            return about.resource, f"{about.namespace}/", self.generate_name
        return about.resource, about.namespace, about.name

    @property
    def field(self) -> str:
        return SAME_OWNER if self.owner or self.generate_name else SAME_NAME


class _Creation(msgspec.Struct, frozen=True, gc=False):
    writer: str
    time_ns: int


class _Chain(msgspec.Struct, gc=False):
    """Deletions that count, one after the other."""

    first_ns: int
    last_ns: int
    count: int


class RecreationDetector:
    def __init__(self, limits: FightLimits = LIMITS) -> None:
        self._limits = limits
        self._created: OrderedDict[str, _Creation] = OrderedDict()  # By UID; the newest at the end.
        self._chains: OrderedDict[Group, _Chain] = OrderedDict()  # The last changed at the end.
        self._fights: dict[Group, Fight] = {}

    def created(self, birth: Lifetime) -> None:
        if birth.object.resource in NEVER_WATCHED:
            return
        self._created[birth.object.uid] = _Creation(birth.writer, birth.time_ns)
        self._forget(birth.time_ns)

    def _forget(self, now_ns: int) -> None:
        """Objects that are too old to count. Each is dropped once, so a creation pays for one on average."""
        while len(self._created) > 1:
            uid, creation = next(iter(self._created.items()))
            if len(self._created) <= CREATED_MAX and not self._is_long_ago(creation.time_ns, now_ns):
                return
            del self._created[uid]

    def deleted(self, end: Lifetime) -> Fight | None:
        """The fight that this deletion makes visible, if it was not named before."""
        creation = self._created.pop(end.object.uid, None)
        if creation is None or creation.writer == end.writer:
            return None
        if self._is_long_ago(creation.time_ns, end.time_ns):
            return None
        key = end.group
        chain = self._chains.pop(key, None)
        if chain is None or self._is_long_ago(chain.last_ns, end.time_ns):
            chain = _Chain(end.time_ns, end.time_ns, 1)
        elif creation.time_ns > chain.last_ns:
            chain = _Chain(chain.first_ns, end.time_ns, chain.count + 1)
        self._chains[key] = chain
        if len(self._chains) > CHAINS_MAX:
            self._chains.popitem(last=False)
        return self._judged(key, chain, end, creation.writer)

    def _judged(self, key: Group, chain: _Chain, end: Lifetime, creator: str) -> Fight | None:
        if chain.count < self._limits.turns_min:
            return None
        known = self._fights.get(key)
        if known is not None:  # What was named stays as it was named.
            changes = known.changes + 2
            self._fights[key] = msgspec.structs.replace(known, last_ns=end.time_ns, changes=changes)
            return None
        if len(self._fights) >= self._limits.fights_max:
            return None
        fight = self._fights[key] = Fight(
            form="TwoWriters",
            object=end.object,
            field=end.field,
            writers=(end.writer, creator),
            period_s=round((chain.last_ns - chain.first_ns) / 1e9 / (chain.count - 1), 3),
            since_ns=chain.first_ns,
            last_ns=end.time_ns,
            changes=2 * chain.count,
        )
        return fight

    def _is_long_ago(self, then_ns: int, now_ns: int) -> bool:
        return now_ns - then_ns > self._limits.window_s * 1e9

    def active(self, now_ns: int) -> tuple[Fight, ...]:
        """The fights that go on. Those that are over are forgotten."""
        for key, fight in list(self._fights.items()):
            if now_ns - fight.last_ns > 1e9 * max(self._limits.quiet_s, 3 * fight.period_s):
                del self._fights[key]
        return tuple(self._fights.values())

    def __len__(self) -> int:
        """How many objects and chains it remembers."""
        return len(self._created) + len(self._chains)
