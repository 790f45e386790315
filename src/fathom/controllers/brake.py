"""One brake on what is done to nodes, per zone and over all: on taking pods out of service as well as on
evicting them. Pure.

When many nodes fall silent at once, the likelier cause is ours: a partition, a server that is down, a clock.
So beyond a share of a zone nothing more is done, nor at once when there are fewer again; and what is done is
done a few nodes at a time. The limits are in the ConfigMap `fathom-system/node-brake`, which people may
change; what is held back, and why, stands in the conditions of the node concerned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fathom.controllers.evidence import SECOND_NS, State

MINUTE_NS = 60 * SECOND_NS


class BrakeLimits(msgspec.Struct, frozen=True):
    share_percent: int = 55  # Of a zone's nodes; kube-controller-manager's unhealthy-zone-threshold.
    small_zone: int = 2  # In zones of at most so many nodes the share says nothing.
    flips_per_minute: int = 20  # Nodes whose pods are taken out of service, per zone.
    evictions_per_minute: int = 6  # Nodes whose pods are replaced, per zone; 0.1/s as in Kubernetes.
    global_factor: int = 3  # Over all zones together, so many times that.
    engaged: bool = False  # By hand: nothing at all is done.


class Stand(msgspec.Struct, frozen=True):
    """One node as the brake counts it."""

    name: str
    zone: str
    assessed: State  # What the evidence says, whether or not it was acted on.
    flipped_ns: int | None = None  # When its pods were taken out of service, if they are.
    evicted_ns: int | None = None


class Permit(msgspec.Struct, frozen=True):
    allowed: State  # The strongest reaction that may be taken now.
    why: str = ""  # What holds the rest back.
    many: bool = False  # So many are silent at once that it may be we who are deaf.


def limits_of(data: Mapping[str, str]) -> tuple[BrakeLimits, str]:
    """From a ConfigMap. What cannot be read leaves its default in force, and is said."""
    found: dict[str, int | bool] = {}
    known = {field.name for field in msgspec.structs.fields(BrakeLimits)}
    wrong = [f"{name} is no limit of the brake" for name in sorted(set(data) - known)]
    for field in msgspec.structs.fields(BrakeLimits):
        text = data.get(field.name)
        if text is None:
            continue
        if field.type is bool and text.lower() in {"true", "false"}:
            found[field.name] = text.lower() == "true"
        elif field.type is bool:
            wrong.append(f"{field.name}={text!r} is neither true nor false")
        elif text.isdigit():
            found[field.name] = int(text)
        else:
            wrong.append(f"{field.name}={text!r} is no number")
    return BrakeLimits(**found), "; ".join(wrong)  # type: ignore[arg-type]  # Typed by the fields themselves.


def permit(stand: Stand, others: Iterable[Stand], *, now_ns: int, limits: BrakeLimits) -> Permit:
    """How far one may go with this node, given how all stand (itself included or not)."""
    if stand.assessed <= State.SUSPECT:
        return Permit(stand.assessed)
    if limits.engaged:
        return Permit(State.SUSPECT, "the brake is engaged by hand")
    everybody = [each for each in others if each.name != stand.name] + [stand]
    zone = [each for each in everybody if each.zone == stand.zone]
    here = f"zone {stand.zone}" if stand.zone else "the nodes without a zone"
    rates = ((here, zone, 1), ("all zones", everybody, limits.global_factor))
    if held := _too_many(here, zone, limits) or _too_many("all zones", everybody, limits):
        return Permit(State.SUSPECT, held, many=True)
    for where, nodes, factor in rates:
        flipped = _lately((each.flipped_ns for each in nodes), now_ns)
        if stand.flipped_ns is None and flipped >= limits.flips_per_minute * factor:
            why = f"{flipped} nodes of {where} were taken out of service within a minute"
            return Permit(State.SUSPECT, why)
    for where, nodes, factor in rates if stand.assessed == State.LOST and stand.evicted_ns is None else ():
        evicted = _lately((each.evicted_ns for each in nodes), now_ns)
        if evicted >= limits.evictions_per_minute * factor:
            return Permit(State.UNREACHABLE, f"{evicted} nodes of {where} were emptied within a minute")
    return Permit(stand.assessed)


def eased(allowed: Permit, *, many_ns: int | None, now_ns: int, wait_s: float) -> Permit:
    """When the first of many are heard again, the others are about to be: their silence counts as before only
    when they had as long as a lease lasts. `many_ns`: when the brake last held this node for being one of
    many."""
    is_over = many_ns is None or now_ns - many_ns >= wait_s * SECOND_NS
    if is_over or allowed.many or allowed.allowed <= State.SUSPECT:
        return allowed
    return Permit(State.SUSPECT, "many were silent until just now: it may be heard again as they are")


def _too_many(where: str, nodes: list[Stand], limits: BrakeLimits) -> str:
    silent = sum(each.assessed >= State.UNREACHABLE for each in nodes)
    if len(nodes) <= limits.small_zone or silent * 100 < limits.share_percent * len(nodes):
        return ""
    return f"{silent} of {len(nodes)} nodes of {where} are silent at once: that fits our own blindness better"


def _lately(times: Iterable[int | None], now_ns: int) -> int:
    since_ns = now_ns - MINUTE_NS
    return sum(at_ns is not None and at_ns > since_ns for at_ns in times)
