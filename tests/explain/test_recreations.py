"""Objects that two actors delete and create in turn are named; drains, rollouts and restarts are not."""

from __future__ import annotations

import random

import pytest

from fathom.explain.coupling import recreations
from fathom.explain.coupling.fight_texts import fight_line
from fathom.explain.coupling.fights import LIMITS, Fight, FightObject
from fathom.explain.coupling.recreations import Lifetime, RecreationDetector

SECOND_NS = 10**9
START_NS = 1_800_000_000 * SECOND_NS


class Cluster:
    """Creates and deletes objects of one kind; every object has another UID."""

    def __init__(self) -> None:
        self.detector = RecreationDetector()
        self.named: list[tuple[float, Fight]] = []
        self._count = 0

    def create(self, by: str, at_s: float, name: str = "web", **more: str) -> FightObject:
        self._count += 1
        obj = FightObject("configmaps", "default", name, f"uid-{self._count}")
        self.detector.created(Lifetime(obj, by, START_NS + round(at_s * SECOND_NS), **more))
        return obj

    def delete(self, obj: FightObject, by: str, at_s: float, **more: str) -> None:
        fight = self.detector.deleted(Lifetime(obj, by, START_NS + round(at_s * SECOND_NS), **more))
        if fight is not None:
            self.named.append((at_s, fight))


@pytest.mark.parametrize("seed", range(50))
def test_two_actors_that_delete_and_create_in_turn_are_named_within_a_minute(seed: int) -> None:
    """By name, by owner with new names, by a generated name: with a period of 1 to 20 seconds."""
    draw = random.Random(seed)
    period_s, life = draw.uniform(1, 20), draw.uniform(0.1, 0.9)
    kind = draw.choice(("name", "owner", "generated"))
    more = {"name": {}, "owner": {"owner": "uid-owner"}, "generated": {"generate_name": "web-"}}[kind]
    cluster = Cluster()
    for turn in range(8):
        name = "web" if kind == "name" else f"web-{draw.getrandbits(20):x}"
        jitter_s = draw.uniform(-0.05, 0.05) * period_s
        obj = cluster.create("controllers/keeper", turn * period_s + jitter_s, name, **more)
        cluster.delete(obj, "alice", (turn + life) * period_s + jitter_s, **more)
    [(at_s, fight)] = cluster.named
    assert at_s <= 60
    assert (fight.form, set(fight.writers)) == ("TwoWriters", {"alice", "controllers/keeper"})
    assert fight.period_s == pytest.approx(period_s, rel=0.25)
    assert fight.field == ("metadata.uid" if kind == "name" else "metadata.name")
    assert fight_line(fight).endswith(f"in turn by alice and controllers/keeper, every {fight.period_s:g} s")


def test_a_fight_that_goes_on_is_named_once_and_is_over_a_minute_after_the_last_deletion() -> None:
    cluster = Cluster()
    for turn in range(20):
        cluster.delete(cluster.create("keeper", 4.0 * turn), "alice", 4.0 * turn + 2)
    assert len(cluster.named) == 1
    last_ns = START_NS + 78 * SECOND_NS
    assert len(cluster.detector.active(last_ns + 50 * SECOND_NS)) == 1
    assert cluster.detector.active(last_ns + 61 * SECOND_NS) == ()


def test_an_actor_that_deletes_what_it_created_fights_nobody() -> None:
    cluster = Cluster()
    for turn in range(20):
        cluster.delete(cluster.create("replicasets", 4.0 * turn), "replicasets", 4.0 * turn + 2)
    assert cluster.named == []


def test_a_drain_deletes_old_pods_and_their_replacements_live_on() -> None:
    cluster = Cluster()
    old = [cluster.create("replicasets", 0, f"web-{n}", owner="rs") for n in range(20)]
    for n, pod in enumerate(old):
        cluster.delete(pod, "alice", 300.0 + n, owner="rs")
        cluster.create("replicasets", 300.5 + n, f"web-{n}-again", owner="rs")
    assert cluster.named == []


def test_many_young_pods_deleted_at_once_are_one_deletion() -> None:
    cluster = Cluster()
    for at_s in (0.0, 20.0):
        pods = [cluster.create("replicasets", at_s, f"web-{n}", owner="rs") for n in range(10)]
        for n, pod in enumerate(pods):
            cluster.delete(pod, "alice", at_s + 10 + n / 10, owner="rs")
    assert cluster.named == [], "twice is no fight"


def test_objects_that_differ_in_name_and_have_nothing_in_common_are_told_apart() -> None:
    cluster = Cluster()
    for turn in range(10):
        cluster.delete(cluster.create("keeper", 2.0 * turn, f"web-{turn}"), "alice", 2.0 * turn + 1)
    assert cluster.named == []


def test_deletions_far_apart_do_not_belong_together() -> None:
    cluster = Cluster()
    for turn in range(6):
        cluster.delete(cluster.create("keeper", 200.0 * turn), "alice", 200.0 * turn + 5)
    assert cluster.named == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recreations, "CREATED_MAX", 100)
    monkeypatch.setattr(recreations, "CHAINS_MAX", 50)
    cluster = Cluster()
    for n in range(2000):
        pod = cluster.create("keeper", n / 1000, f"web-{n}")
        if n % 2:
            cluster.delete(pod, "alice", n / 1000)
    assert len(cluster.detector) <= 150
    cluster.create("keeper", 2 + LIMITS.window_s)
    assert len(cluster.detector) <= 51, "what is too old to count is forgotten"


def test_leases_and_events_are_not_watched() -> None:
    detector = RecreationDetector()
    detector.created(Lifetime(FightObject("events", "default", "a", "u-1"), "x", START_NS))
    assert len(detector) == 0
