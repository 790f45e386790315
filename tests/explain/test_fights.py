"""Two writers of one field, and values that swing, are named; ordinary work is not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.explain.coupling.fights import UNSEEN, FieldChange, Fight, FightDetector, FightLimits, FightObject

WEB = FightObject("deployments.apps", "default", "web", "uid-1")
SECOND_NS = 10**9
START_NS = 1_800_000_000 * SECOND_NS

# Writer, seconds since the start, new value.
Step = tuple[str, float, object]


def fed(
    steps: Sequence[Step], *, field: str = "spec.replicas", before: object = 1, owned: bool = False
) -> list[tuple[float, Fight]]:
    """What the detector names, and when."""
    detector, named = FightDetector(), []
    for writer, at_s, value in steps:
        time_ns = START_NS + round(at_s * SECOND_NS)
        fight = detector.changed(FieldChange(WEB, field, before, value, writer, time_ns, owned))
        before = value
        if fight is not None:
            named.append((at_s, fight))
    return named


def turns(writers: tuple[str, ...], values: tuple[object, ...], step_s: float, count: int) -> list[Step]:
    return [(writers[n % len(writers)], n * step_s, values[n % len(values)]) for n in range(count)]


def test_two_writers_that_undo_each_other_are_named_with_field_writers_and_period() -> None:
    [(at_s, fight)] = fed(turns(("autoscaler", "alice"), (5, 3), 2.0, 8), before=3)
    assert at_s == 6.0
    assert (fight.form, fight.object, fight.field) == ("TwoWriters", WEB, "spec.replicas")
    assert set(fight.writers) == {"autoscaler", "alice"}
    assert fight.period_s == 4.0


def test_one_writer_whose_value_comes_back_again_and_again_oscillates() -> None:
    [(at_s, fight)] = fed(turns(("autoscaler",), (5, 3), 15.0, 8), before=3)
    assert (at_s, fight.form, fight.writers, fight.period_s) == (45.0, "Oscillation", ("autoscaler",), 30.0)


def test_a_number_that_swings_without_coming_back_to_the_same_value_oscillates() -> None:
    swings = [("autoscaler", 15.0 * n, value) for n, value in enumerate((7, 2, 8, 3, 9))]
    [(at_s, fight)] = fed(swings, before=3)
    assert (at_s, fight.form) == (45.0, "Oscillation")


def test_three_writers_in_turn_are_named() -> None:
    [(_, fight)] = fed(turns(("a", "b", "c"), ("x", "y", "z"), 3.0, 9), field="data[mode]", before="w")
    assert (fight.form, set(fight.writers)) == ("TwoWriters", {"a", "b", "c"})


def test_two_writers_that_write_something_new_each_time_are_named_later() -> None:
    steps: list[Step] = [(("a", "b")[n % 2], 2.0 * n, f"value {n}") for n in range(8)]
    [(at_s, fight)] = fed(steps, field="metadata.annotations[seen]", before="none")
    assert (at_s, fight.form) == (12.0, "TwoWriters")


def test_a_status_that_two_actors_write_in_turn_is_a_fight() -> None:
    steps = turns(("agent/node-1", "controllers/nodes"), ("True", "False"), 2.0, 6)
    [(_, fight)] = fed(steps, field="status.conditions[type=Ready].status", before="False")
    assert fight.form == "TwoWriters"


def test_a_change_by_another_api_server_is_seen_from_the_value_that_it_left() -> None:
    detector = FightDetector(several_servers=True)
    named = [
        detector.changed(FieldChange(WEB, "data[mode]", "theirs", "ours", "a", START_NS + n * 4 * SECOND_NS))
        for n in range(5)
    ]
    fight = next(fight for fight in named if fight is not None)
    assert (fight.form, set(fight.writers)) == ("TwoWriters", {"a", UNSEEN})


ORDINARY: dict[str, tuple[str, list[Step]]] = {
    "a workload is scaled up and down once": (
        "spec.replicas",
        [("alice", 5.0 * n, value) for n, value in enumerate((2, 4, 8, 16, 8, 4, 2))],
    ),
    "a change is taken back and made again": ("data[mode]", turns(("alice",), ("x", "y"), 5.0, 3)),
    "a rolling update replaces pods one by one": (
        "status.readyReplicas",
        turns(("controllers/deployments",), (9, 10), 1.0, 40),
    ),
    "an agent sends heartbeats": (
        "status.conditions[type=Ready].lastHeartbeatTime",
        [("agent/node-1", 10.0 * n, f"t{n}") for n in range(30)],
    ),
    "two writers change the spec, and the generation grows": (
        "metadata.generation",
        [(("alice", "autoscaler")[n % 2], 2.0 * n, 2 + n) for n in range(20)],
    ),
    "a status says the same in other words": (
        "status.conditions[type=Progressing].message",
        turns(("a", "b"), ("one", "other"), 1.0, 20),
    ),
    "a field goes back and forth over hours": ("spec.paused", turns(("alice",), (True, False), 3600.0, 12)),
    "two actors share a list, each its own item": (
        "status.pending[0].count",
        turns(("a", "b"), (1, 2), 1.0, 20),
    ),
}


@pytest.mark.parametrize("story", ORDINARY)
def test_ordinary_work_is_no_fight(story: str) -> None:
    field, steps = ORDINARY[story]
    assert fed(steps, field=field, before=0) == []


def test_leases_and_events_are_written_to_be_renewed() -> None:
    lease = FightObject("leases.coordination.k8s.io", "fathom-system", "scheduler", "uid-2")
    detector = FightDetector()
    for n in range(20):
        holders = ("a", "b") if n % 2 else ("b", "a")
        change = FieldChange(lease, "spec.holderIdentity", *holders, f"scheduler-{n % 2}", START_NS + n)
        assert detector.changed(change) is None


def test_an_owned_object_takes_twice_as_many_turns() -> None:
    steps = turns(("controllers/deployments",), (4, 0), 10.0, 12)
    [(at_s, fight)] = fed(steps, before=0, owned=True)
    assert (at_s, fight.form) == (60.0, "Oscillation")


def test_a_fight_is_named_once_and_is_over_after_a_quiet_time() -> None:
    detector = FightDetector()
    for n in range(20):
        before, after = ((3, 5), (5, 3))[n % 2]
        time_ns = START_NS + n * 2 * SECOND_NS
        detector.changed(FieldChange(WEB, "spec.replicas", before, after, ("a", "b")[n % 2], time_ns))
    last_ns = START_NS + 38 * SECOND_NS
    [fight] = detector.active(last_ns + 50 * SECOND_NS)
    assert (fight.changes, fight.last_ns) == (20, last_ns)
    assert detector.active(last_ns + 61 * SECOND_NS) == ()


def test_memory_is_bounded_and_a_fight_survives_a_flood_of_other_writes() -> None:
    detector = FightDetector(FightLimits(fields_max=100))
    named = []
    for n in range(1000):
        other = FightObject("pods", "default", f"pod-{n}", f"uid-{n}")
        time_ns = START_NS + n * SECOND_NS // 10
        detector.changed(FieldChange(other, "metadata.labels[app]", "a", f"{n}", "x", time_ns))
        if n % 50 == 0:
            values = ("a", "b") if n % 100 else ("b", "a")
            fight = detector.changed(FieldChange(WEB, "data[mode]", *values, f"w{n % 100}", time_ns))
            named += [fight] if fight is not None else []
    assert len(detector) <= 100
    assert len(named) == 1


FIELDS = (
    "spec.replicas",
    "spec.template.spec.containers[name=main].image",
    "metadata.labels[team]",
    "metadata.annotations[owner]",
    "metadata.finalizers[example.com/x]",
    "data[mode]",
    "spec.unschedulable",
    "spec.taints[key=maintenance]",
    "status.conditions[type=Ready].status",
    "status.phase",
    "status.loadBalancer.ingress",
)


def drawn(rng: random.Random) -> tuple[str, bool, list[Step], float]:
    """A fight or an oscillation at random, with the noise of real processes: its field, whether it is a
    fight, its changes, and its period."""
    field, period_s = rng.choice(FIELDS), rng.uniform(1.0, 15.0)
    fight = field.startswith("status") or rng.random() < 0.5
    numbers = field == "spec.replicas" and rng.random() < 0.5
    writers = ("controllers/a", "alice (kubectl)") if fight else ("controllers/a",)
    share = rng.uniform(0.2, 0.8)  # When, within a cycle, the second value comes.
    steps: list[Step] = []
    for n in range(int(2 * 60 / period_s) + 2):
        at_s = (n // 2) * period_s + (share * period_s if n % 2 else 0.0) + rng.uniform(0, 0.05 * period_s)
        value: object = ("one", "other")[n % 2]
        if numbers:
            value = (rng.randrange(1, 4), rng.randrange(6, 9))[n % 2]
        steps.append((writers[n % len(writers)], at_s, value))
    return field, fight, steps, period_s


@pytest.mark.parametrize("seed", range(50))
def test_fights_and_oscillations_drawn_at_random_are_all_named_within_a_minute(seed: int) -> None:
    field, fight, steps, period_s = drawn(random.Random(seed))
    named = fed(steps, field=field, before="before")
    assert named, f"{field} with a period of {period_s:.1f} s is not named"
    at_s, first = named[0]
    assert at_s <= 60.0
    assert first.form == ("TwoWriters" if fight else "Oscillation")
    assert set(first.writers) == {writer for writer, _, _ in steps}
    assert first.period_s == pytest.approx(period_s, rel=0.35)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.1, 20.0), st.integers(0, 3)), max_size=40),
    st.sampled_from(FIELDS),
)
@settings(max_examples=200, deadline=None)
def test_whatever_is_named_has_changed_at_least_four_times(
    changes: list[tuple[str, float, int]], field: str
) -> None:
    now_s, steps = 0.0, []
    for writer, pause_s, value in changes:
        now_s += pause_s
        steps.append((writer, now_s, value))
    for _, fight in fed(steps, field=field):
        assert fight.changes >= 4
        assert set(fight.writers) <= {"a", "b"}
        assert (fight.form == "Oscillation") <= (not field.startswith("status"))
        assert 0 < fight.period_s <= 90.0
