"""Remedies for topology: spread constraints, a policy's zone skew, pods that are near or not."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fathom.schedule.decide.filters.podaffinity import together
from fathom.schedule.decide.filters.spread import ZoneSkew, skew_of, zone_spread, zones_concerned
from fathom.schedule.decide.node_columns import MISSING
from fathom.schedule.decide.node_table import NodeTable
from fathom.schedule.decide.pod_groups import matches
from fathom.schedule.decide.pods import PodView
from fathom.schedule.decide.remedy_text import NAMED_MAX, OPERATOR, OWNER, TRIED_MAX, if_any, one_of
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PodShape, Spread
from fathom.schedule.decide.trial import ROOM, WISH, Effect, Remedy, Trial
from fathom.schedule.decide.verdicts import FITS

RULE = "InterPodAffinity"
# A change that gives up what the pod asks for comes after one that keeps it.
GIVES_UP = 100_000


def spread(trial: Trial) -> Iterator[Remedy]:
    rule, hard = "PodTopologySpread", [constraint for constraint in trial.shape.spreads if constraint.hard]
    offered = [remedy for constraint in hard[:TRIED_MAX] for remedy in _less_even(trial, constraint)]
    yield from offered
    if len(hard) > 1 and not offered:
        effect = Effect({"spreads": ()})
        keys = " and ".join(dict.fromkeys(constraint.topology_key for constraint in hard))
        text = f"relax the spread over {keys}"
        rows = trial.opened_by(effect)
        yield from if_any(rule, rows, text, OWNER, effort=WISH, effect=effect, amount=10**6)


def _less_even(trial: Trial, constraint: Spread) -> Iterator[Remedy]:
    """Raise maxSkew as far as is needed; for nodes without the label, drop the constraint."""
    others = tuple(other for other in trial.shape.spreads if other != constraint)
    effect = Effect({"spreads": others})
    rows = trial.opened_by(effect)
    if not len(rows):
        return
    skew = skew_of(constraint, trial.shape, Rows(trial.table))
    most = _skew_needed(constraint, skew, rows)
    if most:
        raised = tuple(
            msgspec.structs.replace(constraint, max_skew=most) if other == constraint else other
            for other in trial.shape.spreads
        )
        effect = Effect({"spreads": raised})
        rows = trial.opened_by(effect)
    text = _relaxed(constraint, skew, most, rows, f"maxSkew over {constraint.topology_key}")
    about = (constraint.topology_key, str(constraint.max_skew), str(most))
    yield from if_any(
        "PodTopologySpread", rows, text, OWNER, effort=WISH, effect=effect, amount=most, about=about
    )


def zone_skew(trial: Trial) -> Iterator[Remedy]:
    rows = trial.opened(without=("MaxZoneSkew",))
    constraint, policy = zone_spread(trial.shape, trial.world), trial.world.policy
    if constraint is None or not len(rows):
        return
    everywhere = Rows(trial.table)
    skew = skew_of(constraint, trial.shape, everywhere, only=zones_concerned(everywhere, trial.world))
    most = _skew_needed(constraint, skew, rows)
    effect = Effect(world={"policy": msgspec.structs.replace(policy, max_zone_skew=most)})
    rows = trial.opened_by(effect)
    text = _relaxed(constraint, skew, most, rows, f"maxZoneSkew of policy {policy.name}")
    about = (policy.name, str(policy.max_zone_skew), str(most))
    yield Remedy("MaxZoneSkew", text, OPERATOR, len(rows), ROOM, most, about=about, effect=effect)


def _skew_needed(constraint: Spread, skew: ZoneSkew, rows: Rows) -> int:
    """The skew that the constraint would have to allow for the nearest row. 0: the rows lack its label."""
    values = [value for value in rows.labels(constraint.topology_key) if value is not None]
    return min((skew.counts.get(value, 0) + skew.own - skew.least for value in values), default=0)


def _relaxed(constraint: Spread, skew: ZoneSkew, most: int, rows: Rows, limit: str) -> str:
    """The change as text. `limit` names what would have to be raised."""
    if not most:
        return f"label {one_of(rows)} with {constraint.topology_key}"
    if len(skew.counts) < constraint.min_domains:
        lacking = constraint.min_domains - len(skew.counts)
        alternative = f"add nodes in {lacking} more domains (there are {len(skew.counts)})"
    else:
        fewest = sorted(value for value, count in skew.counts.items() if count == skew.least)
        alternative = f"open a node in {' or '.join(fewest[:NAMED_MAX])}, which has the fewest such pods"
    return f"raise {limit} from {constraint.max_skew} to {most}, or {alternative}"


def neighbours(trial: Trial) -> Iterator[Remedy]:
    yield from _without_affinity(trial)
    near = _with_company(trial, trial.opened(without=(RULE,)))
    row, blockers = _fewest(trial, near) if near else (0, [])
    if blockers and _keeps_company(trial, row, frozenset(blockers)):
        named = ", ".join(blockers[:NAMED_MAX])
        more = f" and {len(blockers) - NAMED_MAX} more" if len(blockers) > NAMED_MAX else ""
        name = trial.table.names[row]
        text = f"move {named}{more} out of the topology domain of {name}"
        yield Remedy(
            RULE, text, OPERATOR, 1, WISH, len(blockers), node=name, about=tuple(blockers),
            count=len(blockers), effect=Effect(lifts=(RULE,)),
        )  # fmt: skip
    yield from _without_anti_affinity(trial)


def _without_affinity(trial: Trial) -> Iterator[Remedy]:
    terms = trial.shape.affinity
    offered: list[Remedy] = []
    for index in range(min(len(terms), TRIED_MAX)):
        effect = Effect({"affinity": (*terms[:index], *terms[index + 1 :])})
        offered += _dropped(trial, effect, ("podAffinity", str(index)))
    yield from offered
    if len(terms) > 1 and not offered:
        yield from _dropped(trial, Effect({"affinity": ()}), ("podAffinity",))


def _dropped(trial: Trial, effect: Effect, about: tuple[str, ...]) -> Iterator[Remedy]:
    rows = trial.opened_by(effect)
    text = f"place a pod that its pod affinity selects near {one_of(rows)}"
    yield from if_any(RULE, rows, text, OWNER, effort=WISH, effect=effect, about=about)


def _without_anti_affinity(trial: Trial) -> Iterator[Remedy]:
    terms = trial.shape.anti_affinity
    offered: list[Remedy] = []
    for index, term in enumerate(terms[:TRIED_MAX]):
        effect = Effect({"anti_affinity": (*terms[:index], *terms[index + 1 :])})
        text = f"drop the pod's anti-affinity over {term.topology_key}"
        offered += if_any(
            RULE, trial.opened_by(effect), text, OWNER, effort=WISH, effect=effect, amount=GIVES_UP,
            about=("podAntiAffinity", str(index)),
        )  # fmt: skip
    yield from offered
    if len(terms) > 1 and not offered:
        effect = Effect({"anti_affinity": ()})
        yield from if_any(
            RULE, trial.opened_by(effect), "drop the pod's anti-affinity", OWNER, effort=WISH,
            effect=effect, amount=GIVES_UP, about=("podAntiAffinity",),
        )  # fmt: skip


def _with_company(trial: Trial, rows: Rows) -> list[int]:
    """The rows where the pod's own affinity is met."""
    layers = together(trial.shape, Rows(trial.table), Reasons())
    return [
        row for row in rows.numbers() if all(layer.codes[int(layer.domains[row])] == FITS for layer in layers)
    ]


def _keeps_company(trial: Trial, row: int, leaving: frozenset[str]) -> bool:
    """Whether the pod's own affinity is still met at the row when these pods have left."""
    table = trial.table
    for term in trial.shape.affinity:
        ids = table.label_column(term.topology_key).ids
        staying = (
            placed.view
            for placed in table.placed.values()
            if placed.row >= 0 and ids[placed.row] == ids[row] and "/".join(placed.view.key) not in leaving
        )
        if not any(
            matches(term, view.shape.namespace, dict(view.shape.labels), table.namespaces) for view in staying
        ):
            return False
    return True


def _fewest(trial: Trial, rows: list[int]) -> tuple[int, list[str]]:
    """The row with the fewest pods in its domains that conflict, by anti-affinity of either side."""
    table = trial.table
    near: dict[tuple[str, int], dict[str, None]] = {}  # By label and domain.
    for placed in table.placed.values():
        for key in _repelling(trial.shape, placed.view, table) if placed.row >= 0 else ():
            domain = int(table.label_column(key).ids[placed.row])
            near.setdefault((key, domain), {})["/".join(placed.view.key)] = None
    keys = sorted({key for key, _ in near})
    ranked = []
    for row in rows:
        at = [(key, int(table.label_column(key).ids[row])) for key in keys]
        names = sorted({name for place in at if place[1] != MISSING for name in near.get(place, ())})
        if names:
            ranked.append((len(names), row, names))
    _, row, names = min(ranked, default=(0, rows[0], []))
    return row, names


def _repelling(shape: PodShape, pod: PodView, table: NodeTable) -> Iterator[str]:
    """The topology labels over which anti-affinity keeps the two pods apart."""
    ours = (shape.namespace, dict(shape.labels))
    theirs = (pod.shape.namespace, dict(pod.shape.labels))
    for term in shape.anti_affinity:
        if matches(term, *theirs, table.namespaces):
            yield term.topology_key
    for term in pod.shape.anti_affinity:
        if matches(term, *ours, table.namespaces):
            yield term.topology_key
