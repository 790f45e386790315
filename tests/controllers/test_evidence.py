"""What may be concluded about a node from what was heard of it, and how far the brake lets one go."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fathom.controllers.node_health.brake import BrakeLimits, BrakeState, Permit, eased, limits_of, permit
from fathom.controllers.node_health.evidence import (
    Assessment,
    Evidence,
    HeartbeatTimes,
    NodeReport,
    NodeState,
    Verdict,
    assess,
    next_limit_s,
)
from fathom.model.times import SECOND_NS

NOW = 10_000 * SECOND_NS


def heard(lease_s: float, status_s: float, *reports: NodeReport) -> HeartbeatTimes:
    return HeartbeatTimes(NOW - int(lease_s * SECOND_NS), NOW - int(status_s * SECOND_NS), reports)


@pytest.mark.parametrize(
    ("lease_s", "status_s", "state"),
    [
        (0, 0, NodeState.HEALTHY),
        (11, 11, NodeState.HEALTHY),  # One renewal is late.
        (25, 25, NodeState.SUSPECT),
        (0, 4000, NodeState.SUSPECT),  # A lease that is renewed proves that the agent lives.
        (45, 45, NodeState.UNREACHABLE),
        (80, 45, NodeState.UNREACHABLE),  # One agent writes both: one source.
        (299, 299, NodeState.UNREACHABLE),  # However long, not before five minutes.
        (300, 300, NodeState.LOST),
        (300, 10, NodeState.SUSPECT),  # Any sign of the agent is a sign of life.
    ],
)
def test_silence_counts_by_its_length_and_by_who_is_silent(
    lease_s: float, status_s: float, state: NodeState
) -> None:
    assert assess(heard(lease_s, status_s), now_ns=NOW).state == state


@pytest.mark.parametrize(
    ("silent_s", "connection", "gateway", "state", "spared"),
    [
        # Nobody else can tell: silence alone.
        (45, None, None, NodeState.UNREACHABLE, False),
        (299, None, None, NodeState.UNREACHABLE, False),
        (300, None, None, NodeState.LOST, False),
        # Another path agrees: sooner, but not at once.
        (0, "gone", None, NodeState.SUSPECT, False),
        (45, "gone", "gone", NodeState.UNREACHABLE, False),
        (74, "gone", None, NodeState.UNREACHABLE, False),
        (75, "gone", None, NodeState.LOST, False),
        (75, None, "gone", NodeState.LOST, False),
        # The machine answers, its agent does not: pods may still run there.
        (299, "unsure", None, NodeState.UNREACHABLE, False),
        (300, "unsure", None, NodeState.LOST, False),
        (75, "unsure", "gone", NodeState.LOST, False),
        # Another path has seen it alive: nobody leaves, for however long.
        (45, "alive", None, NodeState.UNREACHABLE, True),
        (4000, None, "alive", NodeState.UNREACHABLE, True),
        (4000, "gone", "alive", NodeState.UNREACHABLE, True),
        (4000, "alive", "gone", NodeState.UNREACHABLE, True),
        (4000, "unsure", "alive", NodeState.UNREACHABLE, True),
        (30, "gone", "alive", NodeState.SUSPECT, False),
    ],
)
def test_sources_amount_to_what_the_rules_say(
    silent_s: float, connection: Verdict | None, gateway: Verdict | None, state: NodeState, spared: bool
) -> None:
    said = (("connection", connection), ("gateway", gateway))
    reports = [NodeReport(signal, verdict, "…") for signal, verdict in said if verdict is not None]
    found = assess(heard(silent_s, silent_s, *reports), now_ns=NOW)
    assert (found.state, bool(found.spared)) == (state, spared)


def test_who_was_lost_and_is_seen_alive_by_another_path_is_spared() -> None:
    alive = NodeReport("gateway", "alive", "the gateway reaches pods there")
    found = assess(HeartbeatTimes(0, 0, (alive,), before=NodeState.LOST), now_ns=NOW)
    assert (found.state, found.spared) == (NodeState.UNREACHABLE, "the gateway reaches pods there")


@pytest.mark.parametrize("silent_s", [80, 299])
def test_lease_and_status_are_one_source_because_one_agent_writes_both(silent_s: float) -> None:
    assert assess(heard(silent_s, silent_s), now_ns=NOW).state == NodeState.UNREACHABLE


def test_an_operators_word_is_enough() -> None:
    found = assess(heard(0, 0, NodeReport("operator", "gone", "the rack burnt")), now_ns=NOW)
    assert found == Assessment(NodeState.LOST, (Evidence("operator", "the rack burnt"),))


def test_the_evidence_is_told_strongest_first() -> None:
    found = assess(heard(45, 80, NodeReport("operator", "gone", "gone")), now_ns=NOW)
    assert found.message == ("gone; its lease was not renewed for 45 s; its status was not renewed for 80 s")


def test_only_a_renewal_that_was_heard_makes_a_node_better() -> None:
    """A new leader, and one that was blind, begin with a time of grace: it must not raise the dead."""
    grace = HeartbeatTimes(NOW, NOW, before=NodeState.LOST)
    assert assess(grace, now_ns=NOW).state == NodeState.LOST
    long_ago = HeartbeatTimes(NOW, NOW, renewed_ns=NOW - 30 * SECOND_NS, before=NodeState.UNREACHABLE)
    assert assess(long_ago, now_ns=NOW).state == NodeState.UNREACHABLE
    heard_now = HeartbeatTimes(NOW, NOW, renewed_ns=NOW, before=NodeState.LOST)
    assert assess(heard_now, now_ns=NOW).state == NodeState.HEALTHY


# The brake.


def stands(zone: str, healthy: int, lost: int) -> list[BrakeState]:
    return [
        BrakeState(f"{zone}{index}", zone, NodeState.LOST if index < lost else NodeState.HEALTHY)
        for index in range(healthy + lost)
    ]


def test_one_of_many_may_be_replaced() -> None:
    everybody = stands("a", 9, 1)
    assert permit(everybody[0], everybody, now_ns=NOW, limits=BrakeLimits()) == Permit(NodeState.LOST)


def test_a_zone_that_falls_silent_as_a_whole_is_left_alone() -> None:
    everybody = stands("a", 0, 10) + stands("b", 90, 0)
    held = permit(everybody[0], everybody, now_ns=NOW, limits=BrakeLimits())
    assert held == Permit(
        NodeState.SUSPECT,
        "10 of 10 nodes in zone a are silent at once: the controller may be cut off itself",
        many=True,
    )


def test_when_the_first_of_many_are_heard_the_others_have_time_to_be() -> None:
    held_ns, gone = NOW - 5 * SECOND_NS, Permit(NodeState.LOST)
    waits = eased(gone, many_ns=held_ns, now_ns=NOW, wait_s=40.0)
    assert waits == Permit(
        NodeState.SUSPECT, "many nodes were silent until just now: this one may recover too"
    )
    assert eased(gone, many_ns=held_ns, now_ns=held_ns + 40 * SECOND_NS, wait_s=40.0) == gone
    assert eased(gone, many_ns=None, now_ns=NOW, wait_s=40.0) == gone


def test_many_small_zones_that_fall_silent_together_are_left_alone() -> None:
    everybody = [stand for zone in "abc" for stand in stands(zone, 0, 1)]
    held = permit(everybody[0], everybody, now_ns=NOW, limits=BrakeLimits())
    assert held.allowed == NodeState.SUSPECT
    assert "3 of 3 nodes in all zones" in held.why


def test_only_some_are_emptied_within_a_minute() -> None:
    done = [
        BrakeState(f"d{n}", "a", NodeState.LOST, flipped_ns=NOW - n, evicted_ns=NOW - n) for n in range(6)
    ]
    healthy, next_one = stands("a", 90, 0), BrakeState("next", "a", NodeState.LOST, flipped_ns=NOW)
    held = permit(next_one, [*done, *healthy], now_ns=NOW, limits=BrakeLimits())
    assert held == Permit(
        NodeState.UNREACHABLE, "6 nodes in zone a were emptied of pods within a minute, which is the limit"
    )
    later = permit(next_one, [*done, *healthy], now_ns=NOW + 61 * SECOND_NS, limits=BrakeLimits())
    assert later == Permit(NodeState.LOST)


def test_taking_out_of_service_is_braked_too() -> None:
    done = [BrakeState(f"d{n}", "a", NodeState.UNREACHABLE, flipped_ns=NOW - n) for n in range(20)]
    new = BrakeState("new", "a", NodeState.UNREACHABLE)
    held = permit(new, [*done, *stands("a", 80, 0)], now_ns=NOW, limits=BrakeLimits())
    assert held == Permit(
        NodeState.SUSPECT, "20 nodes in zone a were taken out of service within a minute, which is the limit"
    )


def test_what_was_done_already_is_not_undone_by_the_brake() -> None:
    done = [
        BrakeState(f"d{n}", "a", NodeState.LOST, flipped_ns=NOW - n, evicted_ns=NOW - n) for n in range(6)
    ]
    assert permit(done[0], [*done, *stands("a", 90, 0)], now_ns=NOW, limits=BrakeLimits()) == Permit(
        NodeState.LOST
    )


def test_a_hand_on_the_brake_holds_everything() -> None:
    held = permit(stands("a", 9, 1)[0], [], now_ns=NOW, limits=BrakeLimits(engaged=True))
    assert held == Permit(NodeState.SUSPECT, "the brake is engaged by hand")


def test_limits_come_from_a_config_map_and_nonsense_is_told() -> None:
    limits, wrong = limits_of({"evictions_per_minute": "2", "engaged": "true", "share_percent": "lots"})
    assert limits == BrakeLimits(evictions_per_minute=2, engaged=True)
    assert wrong == "share_percent='lots' must be a whole number of at most 9 digits"


def test_a_brake_engaged_in_other_letters_is_engaged_and_what_is_no_limit_is_told() -> None:
    limits, wrong = limits_of({"engaged": "True", "evictions": "2"})
    assert limits == BrakeLimits(engaged=True)
    assert wrong == "evictions is not a limit of the brake"
    assert limits_of({"engaged": "yes"})[1] == "engaged='yes' must be true or false"


ONE_AT_A_TIME = BrakeLimits(flips_per_minute=1)


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    silent=st.sets(st.tuples(st.integers(0, 2), st.integers(0, 7)), max_size=8),
    limits=st.builds(
        BrakeLimits,
        share_percent=st.integers(1, 101),
        small_zone=st.integers(0, 3),
        flips_per_minute=st.integers(1, 3),
        evictions_per_minute=st.integers(1, 2),
        global_factor=st.integers(1, 2),
    ),
    order=st.randoms(use_true_random=False),
    spread=st.integers(0, 10),
)
@example(sizes=[3], silent={(0, 0), (0, 1)}, limits=BrakeLimits(), order=random.Random(1), spread=10)
@example(
    sizes=[6],
    silent={(0, 1), (0, 2)},
    limits=BrakeLimits(flips_per_minute=1),
    order=random.Random(2),
    spread=0,
)
@settings(deadline=None, max_examples=60)
def test_nodes_that_are_silent_since_the_same_time_end_alike_in_whatever_order_they_are_looked_at(
    sizes: list[int], silent: set[tuple[int, int]], limits: BrakeLimits, order: Any, spread: int
) -> None:
    """All fall silent within ten seconds, and are looked at again and again, one at a time, in any order."""
    names = [(f"{zone}{n}", str(zone)) for zone, size in enumerate(sizes) for n in range(size)]
    since = {f"{zone}{n}": (n * 3 % (spread + 1)) * SECOND_NS for zone, n in sorted(silent)}
    known = {name: BrakeState(name, zone, NodeState.HEALTHY) for name, zone in names}
    most: dict[str, NodeState] = {}
    for second in range(0, 500, 10):
        now_ns = 10**15 + second * SECOND_NS
        for name, zone in order.sample(names, len(names)):
            views = [_seen(known[each], since.get(each), now_ns) for each, _ in names]
            mine = next(each for each in views if each.name == name)
            allowed = permit(mine, views, now_ns=now_ns, limits=limits).allowed
            most[name] = max(most.get(name, NodeState.HEALTHY), allowed)
            done = known[name]
            known[name] = BrakeState(
                name,
                zone,
                allowed,
                flipped_ns=(done.flipped_ns or now_ns) if allowed >= NodeState.UNREACHABLE else None,
                evicted_ns=(done.evicted_ns or now_ns) if allowed >= NodeState.LOST else None,
            )
    for zone in {zone for _, zone in names}:
        there = [name for name, each in names if each == zone and name in since]
        assert len({most[name] for name in there}) <= 1, {name: most[name] for name in there}


def _seen(stand: BrakeState, since_ns: int | None, now_ns: int) -> BrakeState:
    """As evidence has it after so long a silence."""
    silent_ns = None if since_ns is None else 10**15 + since_ns
    silent_s = 0.0 if silent_ns is None else (now_ns - silent_ns) / SECOND_NS
    state = (
        NodeState.LOST if silent_s >= 75 else NodeState.UNREACHABLE if silent_s >= 40 else NodeState.HEALTHY
    )
    return BrakeState(
        stand.name,
        stand.zone,
        state if silent_s >= 40 else NodeState.SUSPECT if silent_s >= 20 else NodeState.HEALTHY,
        stand.flipped_ns,
        stand.evicted_ns,
        silent_ns if silent_s >= 20 else None,
    )


@pytest.mark.parametrize(
    ("lease_s", "status_s", "next_s"),
    [
        (0, 0, 20.0),
        (19.9996, 0, 0.001),  # Rounded up: a look that comes too early would find nothing.
        (20, 10, 10.0),
        (45, 45, 30.0),
        (299, 299, 1.0),
        (0, 4000, 20.0),
        (4000, 4000, math.inf),
    ],
)
def test_a_silent_node_is_looked_at_when_its_silence_counts(
    lease_s: float, status_s: float, next_s: float
) -> None:
    assert next_limit_s(heard(lease_s, status_s), now_ns=NOW) == next_s
