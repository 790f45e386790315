"""Fights in words, for an Event and for conditions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from fathom.explain.coupling.fights import Fight, FightForm
from fathom.explain.coupling.recreations import SAME_NAME, SAME_OWNER
from fathom.kinds.component_signals import FieldFight
from fathom.kube.definitions.kind import Kind
from fathom.model.conditions import set_condition
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, moment_ns, timestamp

SOURCE = "fathom-field-fights"
SHOWN_MAX = 10  # In the message of a condition.
LISTED_MAX = 100  # In a status.
# A server says again every 20 s what it sees; what it has not said for a minute, it sees no longer.
SAY_AGAIN_S, SEEN_S_MAX = 20.0, 60.0
SHARED = "default"  # As in Kubernetes, the namespace of Events about cluster-scoped objects.
FORMS: tuple[FightForm, ...] = ("TwoWriters", "Oscillation")
REASONS = {"TwoWriters": "FieldHasTwoWriters", "Oscillation": "FieldOscillates"}

RECREATED = {
    SAME_NAME: "the object is deleted and created again",
    SAME_OWNER: "the object and its replacements of other names are deleted and created",
}


def fight_line(fight: Fight) -> str:
    """What happens to which field."""
    if fight.form == "TwoWriters":
        writers = " and ".join(fight.writers)
        if fight.field in RECREATED:
            return f"{RECREATED[fight.field]} in turn by {writers}, every {fight.period_s:g} s"
        return f"{fight.field} is changed back and forth by {writers}, every {fight.period_s:g} s"
    writers = ", ".join(fight.writers)
    return f"{fight.field} oscillates with a period of {fight.period_s:g} s, written by {writers}"


def object_line(fight: FieldFight) -> str:
    name = "/".join(part for part in (fight.namespace, fight.name) if part)
    return f"{fight.resource} {name}: {fight.text}"


def listed_fights(fights: Iterable[Fight]) -> tuple[FieldFight, ...]:
    """As the status of the ComponentSignals lists them."""
    return tuple(
        FieldFight(
            form=fight.form,
            resource=fight.object.resource,
            namespace=fight.object.namespace,
            name=fight.object.name,
            field=fight.field,
            writers=fight.writers,
            text=f"{fight_line(fight)}, since {timestamp(fight.since_ns)}",
        )
        for fight in islice(fights, LISTED_MAX)
    )


def as_objects(fights: tuple[FieldFight, ...]) -> list[Obj]:
    """As they are stored, to be written and compared."""
    objects: list[Obj] = msgspec.json.decode(msgspec.json.encode(fights))
    return objects


def shared_list(
    own: Iterable[FieldFight], before: Iterable[FieldFight], *, server: str, now_ns: int
) -> tuple[FieldFight, ...]:
    """Where several API servers share a store, and each sees only the writes that it served: the fights that
    this one sees, and those that others saw lately. Of a fight that several see, the entry of the first
    stays: servers that replaced each other's would be a fight themselves."""
    before = tuple(before)
    listed = {
        _identity(fight): fight
        for fight in before
        if fight.seen_by != server and _age_s(fight, now_ns) < SEEN_S_MAX
    }
    said = {_identity(fight): fight for fight in before if fight.seen_by == server}
    for fight in own:
        listed.setdefault(_identity(fight), _dated(fight, said.get(_identity(fight)), server, now_ns))
    return tuple(listed[identity] for identity in sorted(listed))[:LISTED_MAX]


def _identity(fight: FieldFight) -> tuple[str, ...]:
    return (fight.resource, fight.namespace, fight.name, fight.field, fight.form)


def _dated(fight: FieldFight, said: FieldFight | None, server: str, now_ns: int) -> FieldFight:
    """With the time of the last entry, as long as it is recent: else every look would write."""
    if said is not None and _age_s(said, now_ns) < SAY_AGAIN_S:
        return msgspec.structs.replace(fight, seen_by=server, seen_at=said.seen_at)
    return msgspec.structs.replace(fight, seen_by=server, seen_at=timestamp(now_ns))


def _age_s(fight: FieldFight, now_ns: int) -> float:
    seen_ns = moment_ns(fight.seen_at)
    return float("inf") if seen_ns is None else abs(now_ns - seen_ns) / SECOND_NS


def fight_conditions(before: list[Obj], fights: Iterable[FieldFight], now: str) -> list[Obj]:
    """The conditions with both forms up to date; the same ones if nothing is new. Without any fight so far
    there is no condition."""
    fights = tuple(fights)
    for form in FORMS:
        lines = [object_line(fight) for fight in fights if fight.form == form]
        known = any(condition.get("type") == form for condition in before)
        if lines:
            more = f"; and {len(lines) - SHOWN_MAX} more" if len(lines) > SHOWN_MAX else ""
            message = "; ".join(lines[:SHOWN_MAX]) + more
            before = set_condition(
                before, type=form, status="True", reason=REASONS[form], message=message, now=now
            )
        elif known:
            before = set_condition(before, type=form, status="False", reason="NoFight", message="", now=now)
    return before


def event_of(fight: Fight, kind: Kind, name: str, now: str) -> Obj:
    namespace = fight.object.namespace
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace or SHARED},
        "involvedObject": {
            "apiVersion": f"{kind.group}/{kind.version}" if kind.group else kind.version,
            "kind": kind.kind,
            **({"namespace": namespace} if namespace else {}),
            "name": fight.object.name,
            "uid": fight.object.uid,
            "fieldPath": fight.field,
        },
        "type": "Warning",
        "reason": REASONS[fight.form],
        "message": fight_line(fight),
        "source": {"component": SOURCE},
        "reportingComponent": SOURCE,
        "reportingInstance": "",
        "firstTimestamp": timestamp(fight.since_ns),
        "lastTimestamp": now,
        "count": 1,
    }
