"""The brake on reactions to silent nodes, per zone and over all. Pure.

It limits taking pods out of service as well as evicting them. When many nodes fall silent at once, the
likelier cause is ours: a partition, a server that is down, a clock. So beyond a share of a zone nothing more
is done, and reactions do not resume at once when fewer are silent; and they are limited to a few nodes at a
time, the longest-silent first. Nodes that fall silent together are treated alike: the first is judged a few
seconds before the next have been silent for as long, so nodes that are about to be unreachable count too. The
limits are in the ConfigMap `fathom-system/node-brake`, which people may change; what is held back, and why,
is in the conditions of the node concerned, and for all nodes in the ConfigMap `node-brake-status` beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fathom.controllers.node_health.evidence import NodeState
from fathom.model.brake import BrakeLimits, limits_of
from fathom.model.times import SECOND_NS

__all__ = ["BrakeLimits", "BrakeState", "Permit", "eased", "limits_of", "permit"]

MINUTE_NS = 60 * SECOND_NS
# Reasons of the condition Held, and of the Event.
MANY_SILENT, BRAKE_HOLDS = "ManySilent", "BrakeHolds"
MANY = "too many nodes in its zone or in all zones are silent at once: the controller may be cut off itself"


class BrakeState(msgspec.Struct, frozen=True):
    """One node as the brake counts it."""

    name: str
    zone: str
    assessed: NodeState  # By the evidence, whether or not it was acted on.
    flipped_ns: int | None = None  # When its pods were taken out of service, if they are.
    evicted_ns: int | None = None
    silent_ns: int | None = None  # Since when it is silent, if it is: long enough to be suspect at least.

    @property
    def rank(self) -> tuple[int, str]:
        """The order of reactions: the longest-silent node first."""
        return self.silent_ns or 0, self.name


class Permit(msgspec.Struct, frozen=True):
    allowed: NodeState  # The strongest reaction that may be taken now.
    why: str = ""  # What holds the rest back.
    many: bool = False  # So many nodes are silent at once that our own connection may be the cause.

    @property
    def said(self) -> str:
        """For a condition: without numbers that change whenever another node does."""
        return MANY if self.many else self.why

    @property
    def reason(self) -> str:
        return MANY_SILENT if self.many else BRAKE_HOLDS


def permit(node: BrakeState, states: Iterable[BrakeState], *, now_ns: int, limits: BrakeLimits) -> Permit:
    """The strongest reaction allowed for this node, given the state of all (itself included or not)."""
    if node.assessed <= NodeState.SUSPECT:
        return Permit(node.assessed)
    if limits.engaged:
        return Permit(NodeState.SUSPECT, "the brake is engaged by hand")
    all_nodes = [each for each in states if each.name != node.name] + [node]
    zone = [each for each in all_nodes if each.zone == node.zone]
    zone_text = f"in zone {node.zone}" if node.zone else "without a zone"
    is_new = node.flipped_ns is None  # Other nodes that are a little late do not undo a reaction.
    too_many = _too_many(zone_text, zone, limits, late=is_new) or _too_many(
        "in all zones", all_nodes, limits, late=is_new
    )
    if too_many:
        return Permit(NodeState.SUSPECT, too_many, many=True)
    turns = _in_turn(all_nodes, limits)
    rates = ((zone_text, zone, 1), ("in all zones", all_nodes, limits.global_factor))
    for where, nodes, factor in rates if node.flipped_ns is None else ():
        flipped = _lately((each.flipped_ns for each in nodes), now_ns)
        before = _before(node, (each for each in turns if each.flipped_ns is None), nodes)
        if flipped + before >= limits.flips_per_minute * factor:
            return Permit(NodeState.SUSPECT, _limit(flipped, before, where, "taken out of service"))
    for where, nodes, factor in rates if node.assessed == NodeState.LOST and node.evicted_ns is None else ():
        evicted = _lately((each.evicted_ns for each in nodes), now_ns)
        lost = (each for each in turns if each.assessed == NodeState.LOST and each.evicted_ns is None)
        before = _before(node, lost, nodes)
        if evicted + before >= limits.evictions_per_minute * factor:
            return Permit(NodeState.UNREACHABLE, _limit(evicted, before, where, "emptied of pods"))
    return Permit(node.assessed)


def _in_turn(nodes: Sequence[BrakeState], limits: BrakeLimits) -> list[BrakeState]:
    """Nodes that need a reaction, except in zones that are held: no other node waits for those."""
    by_zone: dict[str, list[BrakeState]] = {}
    for each in nodes:
        by_zone.setdefault(each.zone, []).append(each)
    held_zones = {zone for zone, members in by_zone.items() if _too_many(zone, members, limits, late=True)}
    return [each for each in nodes if each.assessed >= NodeState.UNREACHABLE and each.zone not in held_zones]


def _before(node: BrakeState, waiting: Iterable[BrakeState], nodes: Sequence[BrakeState]) -> int:
    """How many of these nodes wait and come first: the order in which nodes are looked at does not matter."""
    names = {each.name for each in nodes}
    return sum(each.rank < node.rank and each.name in names for each in waiting)


def _limit(done: int, before: int, where: str, action: str) -> str:
    if not before:
        return f"{done} nodes {where} were {action} within a minute, which is the limit"
    return f"nodes {where} that have been silent for longer are {action} first"


def eased(allowed: Permit, *, many_ns: int | None, now_ns: int, wait_s: float) -> Permit:
    """When the first of many nodes recover, the others are about to: their silence counts as before only
    after they had the duration of a lease. `many_ns`: when the brake last held this node for being one of
    many."""
    is_over = many_ns is None or now_ns - many_ns >= wait_s * SECOND_NS
    if is_over or allowed.many or allowed.allowed <= NodeState.SUSPECT:
        return allowed
    return Permit(NodeState.SUSPECT, "many nodes were silent until just now: this one may recover too")


def _too_many(where: str, nodes: Sequence[BrakeState], limits: BrakeLimits, *, late: bool) -> str:
    """`late`: whether nodes that are about to be unreachable count."""
    silent = sum(
        each.assessed >= NodeState.UNREACHABLE or (late and each.silent_ns is not None) for each in nodes
    )
    if len(nodes) <= limits.small_zone or silent * 100 < limits.share_percent * len(nodes):
        return ""
    return f"{silent} of {len(nodes)} nodes {where} are silent at once: the controller may be cut off itself"


def _lately(times: Iterable[int | None], now_ns: int) -> int:
    since_ns = now_ns - MINUTE_NS
    return sum(at_ns is not None and at_ns > since_ns for at_ns in times)
