"""What holds for any operator, whatever it manages. Messages tell its author what is wrong and what to do."""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fathom.model.objects import Obj, is_deleting, metadata
from fathom.seams.seam import Ask
from fathom.sim.checkers.at_rest import AtRest, Objects
from fathom.sim.checkers.fights import NoFightIsNamed
from fathom.sim.checkers.objects import NothingIsOrphaned, ObjectsKeepTheirIdentity
from fathom.sim.world.invariants import Checker, Finding, Found, Seen

if TYPE_CHECKING:
    from fathom.sim.world.network import Exchange
    from fathom.sim.world.process import VirtualMachine
    from fathom.sim.world.world import World

# Owner, resource, and the object's part in what its owner wants: its name or generateName, and its labels.
Role = tuple[str, str, str, tuple[tuple[str, str], ...]]

REQUESTS_PER_MINUTE_MAX = 60  # At rest; an operator that watches sends a few, even with many kinds.
# One that looks at every kind each half minute sends more, but each request two or three times.
SAME_PER_MINUTE_MAX = 6
SECRET_LENGTH_MIN = 6  # Shorter values occur in texts by chance.
# Started again ten seconds after each end, a program that cannot go on ends six times in a minute.
ENDINGS_S, ENDINGS_MAX = 60.0, 4
COLLECTOR = "garbage-collector"
TO_DO_COLLECTED = (
    "the owner that the object names is gone, and the operator makes it again from what it remembers, while "
    "its watch is silent for example. Read the owner again before creating something for it."
)
TO_DO_FIGHT = (
    "let one of them decide each field. If both are the operator, they act on different states of the object."
)
NO_OWNER = "the operator"  # As the owner of what it made without ownerReferences.
# '-7f3k9' and '-550e8400-e29b-…' at the end of a name: parts that no two runs would have in common.
RANDOM_ENDING = re.compile(
    r"(-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|-(?=[a-z]*[0-9])(?=[0-9]*[a-z])[a-z0-9]{4,}|-[0-9]{6,})$"
)


def for_any_operator(calm: Mapping[Role, int] | None = None) -> list[Checker]:
    """`calm`: how many objects of each role there are without faults; without it nothing counts as twice."""
    return [
        ObjectsKeepTheirIdentity(),
        NothingIsOrphaned(),
        NothingIsMadeTwice(calm),
        FinalizersAreRemoved(),
        StatusIsOfTheSpec(),
        StaysUp(),
        NoHotLoop(),
        NoUpdateFight(),
        NoSecretInEvents(),
    ]


def roles_of(objects: Objects, unowned: Collection[str] = ()) -> dict[Role, list[str]]:
    """The objects that have an owner, by their role. `unowned`: paths of others to count, as the operator's
    own."""
    roles: dict[Role, list[str]] = {}
    for path, obj in objects.items():
        owners = [f"{owner['kind']} {owner['name']}" for owner in metadata(obj).get("ownerReferences") or ()]
        for owner in owners or ([NO_OWNER] if path in unowned else []):
            roles.setdefault(_role(path.partition("/")[0], obj, owner), []).append(path)
    return roles


def _role(resource: str, obj: Obj, owner: str) -> Role:
    meta = metadata(obj)
    labels = meta.get("labels") or {}
    return (owner, resource, _lasting_name(meta), tuple(sorted(labels.items())))


def _lasting_name(meta: Obj) -> str:
    """What is the same whenever an object of this role is made: nothing that is generated."""
    return str(meta.get("generateName") or RANDOM_ENDING.sub("-", str(meta["name"])))


class NothingIsMadeTwice(AtRest):
    """At rest an owner has no more objects of a role than in a run without faults."""

    name = "nothing is made twice for one intent"

    def __init__(self, calm: Mapping[Role, int] | None) -> None:
        self._calm = calm
        self.counted: Counter[Role] = Counter()
        self.unowned: set[str] = set()  # Objects without owners that count as the operator's own.

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        roles = roles_of(objects, self.unowned)
        self.counted = Counter({role: len(paths) for role, paths in roles.items()})
        if self._calm is None:
            return
        for role, paths in roles.items():
            usual = self._calm.get(role, 0)
            if 0 < usual < len(paths):
                yield Finding(_twice(role, len(paths), usual), tuple(paths))


def _twice(role: Role, count: int, usual: int) -> str:
    owner, resource, name, _ = role
    return (
        f"{owner} has {count} {resource} of the name {name}…; without faults it has {usual}. "
        "The operator created again what it had created: it did not learn of the first create, or handled"
        " one object twice.\n"
        f"What to do: name the object after its owner ({name.rstrip('-')}-0) instead of using generateName, "
        "so that a second create is refused with 409 AlreadyExists, and take that answer as success."
    )


class WhatIsWantedIsThere(AtRest):
    """At rest an owner has as many objects of each role as in a run without faults. A simulated test says
    itself what it wants to find; a program that is only watched (`fathom.chaos`) does not."""

    name = "converges after the faults stop"
    patience_s = 120.0

    def __init__(self, calm: Mapping[Role, int]) -> None:
        self._calm = calm
        self.unowned: set[str] = set()

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        roles = roles_of(objects, self.unowned)
        for role, usual in self._calm.items():
            count = len(roles.get(role, ()))
            if count < usual:
                yield Finding(_missing(role, count, usual), tuple(roles.get(role, ())))


def _missing(role: Role, count: int, usual: int) -> str:
    owner, resource, name, _ = role
    return (
        f"{owner} has {count} {resource} of the name {name}; without faults it has {usual}. "
        "All faults are over, and nothing changes any more.\n"
        "What to do: repeat what failed, list again after a watch ends, and compare what is there with what "
        "is wanted, instead of acting on events alone."
    )


class FinalizersAreRemoved(AtRest):
    name = "what was deleted goes away: finalizers are removed"
    patience_s = 120.0

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        for path, obj in objects.items():
            if is_deleting(obj):
                held = ", ".join(metadata(obj).get("finalizers") or ()) or "nothing"
                since = metadata(obj)["deletionTimestamp"]
                yield Finding(
                    f"{path} was deleted at {since} and is still there, held by {held}."
                    "\nWhat to do: the deletion handler must also succeed when what it removes is gone.",
                    (path,),
                )


class StatusIsOfTheSpec(AtRest):
    """At rest a status that names a generation names the current one."""

    name = "a status names the generation it observed"
    patience_s = 120.0

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        for path, obj in objects.items():
            generation = metadata(obj).get("generation")
            claimed = _claims(obj.get("status"))
            old = [claim for claim in claimed if isinstance(claim, int) and claim != generation]
            if generation is not None and old:
                yield Finding(
                    f"{path} is at generation {generation}, but its status is of generation {old[0]}."
                    "\nWhat to do: handle every change of the spec, and write observedGeneration with it.",
                    (path,),
                )


def _claims(status: Any) -> list[Any]:
    if not isinstance(status, dict):
        return []
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    return [
        status.get("observedGeneration"),
        *(condition.get("observedGeneration") for condition in listed if isinstance(condition, dict)),
    ]


class NoHotLoop(AtRest):
    """At rest an operator sends few requests, or none of them often. Writes that change something keep the
    world from its rest; this finds reads, and writes that change nothing."""

    name = "no hot loop: an operator with nothing to do is quiet"

    def __init__(self) -> None:
        self._sent: dict[str, deque[float]] = {}  # Process -> when.
        self._same: dict[tuple[str, str], deque[float]] = {}  # Process, and method and path -> when.

    def begin(self, world: World) -> None:
        self._world = world
        world.engine.listeners.append(self)

    def arrived(self, exchange: Exchange) -> None:
        if exchange.process.machines:  # A program's; those of the cluster renew leases.
            self.sent(exchange.process.name, exchange.ask, self._world.now_s)

    def sent(self, who: str, ask: Ask, at_s: float) -> None:
        what = f"{ask.method} {ask.target.partition('?')[0]}"
        self._sent.setdefault(who, deque(maxlen=REQUESTS_PER_MINUTE_MAX + 1)).append(at_s)
        self._same.setdefault((who, what), deque(maxlen=SAME_PER_MINUTE_MAX + 1)).append(at_s)

    def forget(self) -> None:
        """What was sent so far had a reason."""
        self._sent.clear()
        self._same.clear()

    def answered(self, exchange: Exchange, status: int, body: Any) -> None: ...

    def at_rest(self, objects: Objects, now_s: float) -> Iterable[str | Finding]:
        for who, sent in self._sent.items():
            often = [what for (of, what), times in self._same.items() if of == who and _full(times, now_s)]
            if often and _full(sent, now_s):
                yield (
                    f"{who} sent over {REQUESTS_PER_MINUTE_MAX} requests in the last minute, though nothing "
                    f"changed; most often {self._most_often(who, often)}."
                    "\nWhat to do: wait for a watch event, or longer between tries."
                )

    def _most_often(self, who: str, often: list[str]) -> str:
        """The one whose last requests came in the shortest time."""
        times = {what: self._same[who, what] for what in often}
        return min(often, key=lambda what: times[what][-1] - times[what][0])


def _full(times: deque[float], now_s: float) -> bool:
    """As many as it keeps, and more than that is too many, all of them in the last minute."""
    return len(times) == times.maxlen and times[0] > now_s - 60


class StaysUp(Checker):
    """When all faults are over, a program does not end again and again."""

    name = "the operator stays up"

    def settled(self, world: World) -> Iterable[str | Finding]:
        for process in world.engine.processes.values():
            ended = [machine for machine in process.machines if machine.ending]
            lately = [machine for machine in ended if machine.ended_s > world.now_s - ENDINGS_S]
            if len(lately) > ENDINGS_MAX:
                yield _ends(process.name, ended)


def _ends(name: str, ended: Sequence[VirtualMachine]) -> str:
    words = "".join(f"\n  {line}" for line in ended[-1].last_lines)
    return (
        f"{name} ended {len(ended)} times, the last time {_how(ended[-1].ending)}."
        f"{' It said last:' if words else ''}{words}"
        "\nWhat to do: it may need a variable, a file or an argument (env=…, args=…), or an object that the "
        "test did not apply. A program that is meant to end is started with restart=False."
    )


def _how(ending: str) -> str:
    return ending.removeprefix("ends").strip() or "without an error"


class NoUpdateFight(NoFightIsNamed):
    name = "no update fight: two writers do not undo each other's changes"

    def commit(self, change: Seen) -> Found:
        found = super().commit(change)
        if found is None:
            return None
        to_do = TO_DO_COLLECTED if COLLECTOR in str(found) else TO_DO_FIGHT
        return f"{found}\nWhat to do: {to_do}"


class NoSecretInEvents(Checker):
    name = "no secret in Events"
    resources = frozenset({"secrets", "events", "events.events.k8s.io"})

    def __init__(self) -> None:
        self._values: dict[str, str] = {}  # Value -> the Secret that has it.

    def commit(self, change: Seen) -> Found:
        if change.new is None:
            return None
        if change.resource == "secrets":
            self._values |= dict.fromkeys(_values(change.new), change.path)
            return None
        text = f"{change.new.get('message', '')} {change.new.get('note', '')}"
        for value, secret in self._values.items():
            if value in text:
                return (
                    f"{change.by} wrote an Event whose message contains a value of {secret}.\nWhat to do: "
                    "keep values of Secrets out of log messages and errors: kopf posts those as Events."
                )
        return None


def _values(secret: Obj) -> list[str]:
    values = []
    for value in (secret.get("data") or {}).values():
        try:
            text = base64.b64decode(str(value)).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
        if len(text) >= SECRET_LENGTH_MIN:
            values.append(text)
    return values
