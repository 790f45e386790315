"""The world finds known bugs when they are put back: soon, by the right invariant, with few faults."""

from __future__ import annotations

import pytest
from tests.deep import all_but
from tests.sim.putting_back import ZOO, in_a_child

from fathom.sim.scenarios import SCENARIOS
from fathom.sim.search.patches import Bug, bugs
from fathom.sim.world.scenario import plan_of, sweep, tell

pytestmark = pytest.mark.live

# Seeds that are tried, of the bugs whose stories are this file's; it takes but a few of them.
SEEDS = {
    "acknowledged-before-observed": 40,
    "anothers-cordon-cleared": 3,
    "approval-survives-an-edit": 3,
    "binder-deaf-to-a-cordon": 3,
    "bookmark-ahead": 4,
    "bound-while-going": 2,
    "change-wakes-nobody": 2,
    "cleanup-on-edge": 10,
    "collected-by-name": 40,
    "conflict-not-retried": 4,
    "deaf-informer": 60,
    "deletes-by-name": 10,
    "eviction-not-charged": 4,
    "going-still-counted": 4,
    "growth-judged-too-early": 12,
    "id-dropped": 2,
    "joined-by-name": 10,
    "marker-before-work": 60,
    "namespace-gone-too-soon": 40,
    "new-leader-trusts-an-old-view": 2,
    "orphan-runs-on": 4,
    "override-never-ends": 10,
    "own-clock-for-expiry": 3,
    "precondition-ignored": 40,
    "quota-released-twice": 10,
    "quota-recorded-as-it-was": 10,
    "random-child-name": 40,
    "refused-stays-assumed": 4,
    "relist-steps-back": 80,
    "relist-without-deletes": 80,
    "reload-hides-a-gap": 4,
    "repair-races-a-bind": 2,
    "repair-takes-what-waits": 4,
    "report-undoes-anothers": 4,
    "residue-sought-by-name": 3,
    "resumes-from-last-item": 20,
    "scope-ignored": 4,
    "second-reservation": 2,
    "seen-without-newest": 4,
    "status-of-old-spec": 20,
    "step-repeated-after-unknown": 40,
    "taint-outlives-the-silence": 3,
    "the-dead-adopt": 6,
    "undeclared-writer": 2,
    "unknown-use-is-none": 2,
    "wake-lost-in-hand": 20,
}
# Those that take seconds of CPU to find.
SLOW = {
    "acknowledged-before-observed", "deaf-informer", "going-still-counted", "growth-judged-too-early",
    "joined-by-name", "marker-before-work", "refused-stays-assumed", "relist-steps-back",
    "status-of-old-spec",
}  # fmt: skip
# Those that are found only now and then.
RARE = {
    "expectations-expire": 200,
    "late-answer-rolls-back": 200,
    "lease-released-early": 200,
    "own-writes-unseen": 200,
    "stale-next-leader": 200,
}
OR = {
    # The decision to use the ended override may be seen before the placement.
    "override-never-ends": "no decision rests on an override that has ended",
    # Who goes back to an older list is told of the dead in it before the list is taken: either shows it.
    "relist-steps-back": "no ADDED for a dead UID",
    # Under the newer number, what was counted before it is not on record: that may show first.
    "status-of-old-spec": "progress counts pods of the generation it names",
    # A pod that is made twice is one too many, whether or not the first still has its slot.
    "random-child-name": "children ≤ desired + surge",
    # Who adopts while the owner is just leaving is in its way.
    "the-dead-adopt": "only objects without owners are garbage-collected",
    # It writes a list without naming what it has read: that shows first, whether or not it undoes something.
    "report-undoes-anothers": "a list of conditions is written only as it was read",
}
BUGS = {bug.name: bug for bug in bugs(ZOO)}


def hunted(bug: Bug, seeds: int) -> str:
    """The invariant that is broken first; '' if none is."""
    for seed in range(seeds):
        for name in bug.scenarios:
            result = tell(SCENARIOS[name], plan_of(SCENARIOS[name], str(seed)))
            sweep()
            if result.violation is not None:
                return result.violation.invariant
    return ""


@pytest.mark.parametrize("name", all_but(sorted(SEEDS), SLOW))
def test_a_bug_that_is_put_back_is_found(name: str) -> None:
    bug = BUGS[name]
    found = in_a_child(bug.file.stem, hunted, bug, SEEDS[name])
    assert found in {bug.breaks, OR.get(name, bug.breaks)}


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(RARE))
def test_a_bug_that_shows_seldom_is_found_too(name: str) -> None:
    bug = BUGS[name]
    assert in_a_child(bug.file.stem, hunted, bug, RARE[name]) == bug.breaks


@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: str(bug.name))
def test_every_bug_says_what_it_is_where_it_lives_and_what_it_breaks(bug: Bug) -> None:
    assert bug.about
    assert bug.breaks
    assert [name for name in bug.scenarios if name not in SCENARIOS] == []
