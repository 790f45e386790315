"""Remedies for room: host ports, resources on nodes and within quotas, volumes."""

from __future__ import annotations

from collections.abc import Iterator

from fathom.schedule.decide.context import Allowed
from fathom.schedule.decide.filters.ports import clashes
from fathom.schedule.decide.filters.quota import QuotaLayer
from fathom.schedule.decide.filters.resources import promised_to_others
from fathom.schedule.decide.remedy_text import (
    OPERATOR,
    OWNER,
    TRIED_MAX,
    if_any,
    nodes_text,
    one_of,
    shown,
)
from fathom.schedule.decide.rows import Reasons, Rows
from fathom.schedule.decide.shape import PODS
from fathom.schedule.decide.trial import BUILD, GRANT, ROOM, WISH, Effect, Remedy, Trial

FIT, QUOTA, PORTS = "NodeResourcesFit", "TenantQuota", "NodePorts"
# A change of the pod's own spec that gives up what it asks for comes after one that keeps it.
GIVES_UP = 100_000


# Host ports.


def ports(trial: Trial) -> Iterator[Remedy]:
    """Free the ports on the node where the fewest pods hold them; or do without a host port."""
    effect = Effect(lifts=(PORTS,))
    rows = trial.opened_by(effect)
    wanted = ", ".join(f"{port.port}/{port.protocol}" for port in trial.shape.ports)
    ranked = sorted((len(holders), row, holders) for row, holders in _holders(trial, rows))
    if ranked:
        count, row, holders = ranked[0]
        ways = sum(other == count for other, _, _ in ranked)
        text = f"free host port {wanted} on {one_of(rows)}"
        yield Remedy(
            PORTS, text, OPERATOR, 1, GRANT, node=trial.table.names[row],
            about=tuple(holders), count=max(1, count), ways=ways, effect=effect,
        )  # fmt: skip
    for port in trial.shape.ports:
        without = Effect({"ports": tuple(other for other in trial.shape.ports if other != port)})
        number = f"{port.port}/{port.protocol}"
        text = f"drop host port {number} from the pod"
        about = ("hostPort", str(port.port), port.protocol)
        yield from if_any(
            PORTS, trial.opened_by(without), text, OWNER,
            effort=WISH, effect=without, amount=GIVES_UP, about=about,
        )  # fmt: skip


def _holders(trial: Trial, rows: Rows) -> Iterator[tuple[int, list[str]]]:
    """For each node: the pods that have one of the ports."""
    for row in rows.numbers():
        yield (
            int(row),
            sorted(
                "/".join(placed.view.key)
                for placed in trial.table.pods_on[row].values()
                if any(
                    port.protocol == wanted.protocol
                    and port.port == wanted.port
                    and clashes(wanted, (port.address,))
                    for port in placed.view.shape.ports
                    for wanted in trial.shape.ports
                )
            ),
        )


# Resources.

Short = list[tuple[str, int, int]]  # (resource, requested, most that it may request)


def resources(trial: Trial) -> Iterator[Remedy]:
    """Request no more than a node has free and the quota leaves: of the nodes that lack the same resources
    the nearest. Or use room that is promised to another pod."""
    yield from _without_promises(trial)
    nearest: dict[tuple[str, ...], tuple[tuple[int, int], int, Short]] = {}
    for row, short in _shortages(trial, trial.opened(without=(FIT, QUOTA))):
        names = tuple(name for name, _, _ in short)
        ranked = _rank(short), row, short
        if short:
            nearest[names] = min(nearest.get(names, ranked), ranked)
    for rank, row, short in sorted(nearest.values())[:TRIED_MAX]:
        yield _requesting_less(trial, row, short, amount=rank[1])


def _requesting_less(trial: Trial, row: int, short: Short, *, amount: int) -> Remedy:
    lacking = " and ".join(_lack(resource, requested - free) for resource, requested, free in short)
    asks = ", ".join(
        f"{shown(resource, requested)} {resource} requested, {shown(resource, free)} free"
        for resource, requested, free in short
    )
    lowered = dict(trial.shape.requests) | {name: free for name, _, free in short}
    enough = all(free > 0 and name != PODS for name, _, free in short)
    effect = Effect({"requests": tuple(lowered.items())}) if enough else Effect(lifts=(FIT, QUOTA))
    name, fits = trial.table.names[row], bool(_has(trial, FIT) and not _lacks(trial, row))
    return Remedy(
        QUOTA if fits or not _has(trial, FIT) else FIT,
        f"{'the quota for' if fits else 'node'} {name} lacks {lacking} ({asks})",
        OPERATOR, 1, ROOM if enough else BUILD, amount,
        node=name, short=tuple(short), count=len(short), effect=effect,
    )  # fmt: skip


def _lacks(trial: Trial, row: int) -> bool:
    """Whether the node itself lacks room, whatever the quota says."""
    return not len(trial.on(row).by(FIT).opened())


def _rank(short: Short) -> tuple[int, int]:
    return len(short), sum(1000 * (requested - free) // max(requested, 1) for _, requested, free in short)


def _shortages(trial: Trial, rows: Rows) -> Iterator[tuple[int, Short]]:
    """For each node: the resources that the pod requests too much of, on the node or within its quota."""
    table, promised = trial.table, promised_to_others(trial.shape, rows, trial.world)
    over = _over_quota(trial, rows)
    for at, row in enumerate(rows.numbers()):
        short = []
        if over.get(row, {}).get(PODS):
            continue  # To request less does not help.
        for name, requested in trial.shape.requests:
            column = table.resources[name]
            free = requested
            if _has(trial, FIT):
                free = int(table.allocatable[row, column] - table.tally.requested[row, column])
                free -= 0 if promised is None else int(promised[at, column])
            most = min(free, requested - over.get(row, {}).get(name, 0))
            if requested > most:
                short.append((name, requested, max(most, 0)))
        yield row, short


def _has(trial: Trial, rule: str) -> bool:
    return any(enabled.name == rule for enabled in trial.rules.filters)


def _over_quota(trial: Trial, rows: Rows) -> dict[int, dict[str, int]]:
    """For each node: by how much the pod would exceed its tenant's quota there, by resource."""
    quota = trial.world.quota
    if quota is None or not quota.limits or not _has(trial, QUOTA):
        return {}
    layer = QuotaLayer(trial.shape, Rows(trial.table), trial.world, quota, Reasons())
    by_domain: dict[int, dict[str, int]] = {}
    over: dict[int, dict[str, int]] = {}
    for row in rows.numbers():
        domain = int(layer.domains[row])
        if domain not in by_domain:
            amounts = by_domain[domain] = {}
            for _, name, amount in layer.short_at(domain):
                amounts[name] = max(amounts.get(name, 0), amount)
        over[row] = by_domain[domain]
    return over


def _without_promises(trial: Trial) -> Iterator[Remedy]:
    """Unused room that is not for this pod: kept by a class, or held for another pod."""
    for reserved_class in trial.table.reserved[:TRIED_MAX]:
        if reserved_class.kept and not trial.shape.capacity_class:
            effect = Effect(world={"allowed": (*trial.world.allowed, Allowed("", reserved_class.name))})
            rows = trial.opened_by(effect)
            text = (
                f"allow capacity class {reserved_class.name} by an override"
                f" (opens {nodes_text(len(rows))} with room kept for the class)"
            )
            yield from if_any(
                FIT, rows, text, OPERATOR, effort=GRANT, effect=effect, about=(reserved_class.name,)
            )
    if trial.table.claims_on:
        effect = Effect({"priority": 2**31})  # Above every claim.
        rows = trial.opened_by(effect)
        text = f"room on {one_of(rows)} is held for a nominated pod or by a Reservation: wait until it ends"
        yield from if_any(FIT, rows, text, OPERATOR, effort=ROOM, effect=effect, amount=10**9)


def _lack(resource: str, missing: int) -> str:
    return "a place for one more pod" if resource == PODS else f"{shown(resource, missing)} {resource}"


# Volumes.


def volumes(trial: Trial) -> Iterator[Remedy]:
    effect = Effect(lifts=("VolumeBinding",))
    rows = trial.opened_by(effect)
    claims = ", ".join(trial.shape.claims)
    text = f"bind claim {claims} to a volume that {one_of(rows)} reaches"
    if trial.shape.devices:
        text = "remove its resourceClaims, or name a scheduler that allocates devices (schedulerName)"
    yield from if_any(
        "VolumeBinding", rows, text, OPERATOR, effort=ROOM, effect=effect, about=trial.shape.claims
    )
