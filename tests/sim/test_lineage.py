"""Which wounds there are, when two can be in one run, and in which order a search tries them."""

from __future__ import annotations

import msgspec
import pytest
from tests.sim.tickets import tickets

from fathom.seams.seam import Ask
from fathom.sim.scenarios import SCENARIOS
from fathom.sim.search.lineage import Search, few_of, in_turn, told
from fathom.sim.search.lineage_faults import OFTEN, SELDOM, LineageFault, lineage_faults, target_of
from fathom.sim.search.lineage_sites import WatchSite, WriteSite, hearers
from fathom.sim.world.fault_menu import Menu
from fathom.sim.world.faults import AnyFault, CrashAtWrite, Happening, HoldWatch, LoseReply

MENU = Menu(processes=("manager-1", "manager-2", "agent"), kinds=("/pods",), happenings=("blink",))
BY_ALL = {"pods": frozenset({"manager-", "agent"}), "services": frozenset({"manager-"})}
CREATE = WriteSite(
    process="manager-1",
    server="api-1",
    at_s=3.0,
    method="POST",
    path="/api/v1/namespaces/default/pods",
    resource="pods",
    changed=("pods",),
)
PATCH = WriteSite(
    process="agent",
    server="api-1",
    at_s=4.0,
    method="PATCH",
    path="/apis/apps/v1/namespaces/default/replicasets/web/status",
    resource="replicasets.apps",
)


def named(name: str, struck: WriteSite | WatchSite = CREATE, menu: Menu = MENU) -> list[tuple[AnyFault, ...]]:
    return [wound.faults for wound in lineage_faults(struck, menu, BY_ALL) if wound.name == name]


def test_a_wound_strikes_whoever_of_several_comes_by() -> None:
    assert target_of("manager-2", MENU) == "manager-*"
    assert target_of("agent", MENU) == "agent"
    site = "POST /api/v1/namespaces/default/pods"
    assert named("dies") == [(CrashAtWrite(at_s=2.999, target="manager-*", match=site, for_s=1.0),)]


@pytest.mark.parametrize(
    ("target", "process", "meant"),
    [
        ("*", "manager-1", True),
        ("manager-*", "manager-2", True),
        ("manager-*", "agent", False),
        ("manager-1", "manager-1", True),
        ("manager-1", "manager-10", False),
    ],
)
def test_a_fault_is_for_one_process_for_those_of_its_kind_or_for_all(
    target: str, process: str, meant: bool
) -> None:
    assert LoseReply(at_s=0.0, target=target).concerns(process, Ask("POST", "/api")) == meant


def test_a_wound_at_a_patch_is_for_whichever_object_is_next() -> None:
    site = "PATCH /apis/apps/v1/namespaces/default/replicasets/"
    assert named("silent", PATCH) == [(LoseReply(at_s=3.999, target="agent", match=site),)]


@pytest.mark.parametrize(
    ("path", "site"),
    [
        ("/api/v1/nodes/n1/status", "PATCH /api/v1/nodes/"),
        ("/api/v1/namespaces/web", "PATCH /api/v1/namespaces/"),
        ("/api/v1/namespaces/web/pods/p1", "PATCH /api/v1/namespaces/web/pods/"),
        ("/containers/p1", "PATCH /containers/p1"),
    ],
)
def test_a_site_is_the_path_without_the_name(path: str, site: str) -> None:
    struck = msgspec.structs.replace(PATCH, path=path)
    assert named("silent", struck) == [(LoseReply(at_s=3.999, target="agent", match=site),)]


def test_who_follows_the_dead_has_not_heard_of_the_kinds_that_the_story_singles_out() -> None:
    site = "POST /api/v1/namespaces/default/pods"
    gone = CrashAtWrite(at_s=2.999, target="manager-*", match=site, for_s=8.0)
    deaf = HoldWatch(at_s=2.999, target="manager-*", match="/pods", for_s=8.0)
    assert named("gone, the next one deaf") == [(gone, deaf)]
    other = HoldWatch(at_s=2.999, target="manager-2", match="/pods", for_s=8.0)
    assert named("happening, the next one deaf") == [(other, Happening(at_s=3.499, name="blink"))]


def test_those_who_do_something_else_may_not_hear_of_a_write() -> None:
    assert named("others deaf") == [(HoldWatch(at_s=2.999, target="agent", match="/pods", for_s=8.0),)]


def test_what_a_story_cannot_have_is_no_wound() -> None:
    menu = Menu(processes=("manager-1",), without=("crash-at-write", "lose-reply", "happening"))
    kinds = {fault.kind for wound in lineage_faults(CREATE, menu, BY_ALL) for fault in wound.faults}
    assert kinds.isdisjoint(menu.without)
    assert {"hold-watch", "slow-request", "commit-unknown"} <= kinds


def test_news_of_what_the_story_does_not_single_out_is_left_alone() -> None:
    assert lineage_faults(WatchSite("manager-1", "api-1", 2.0, "services"), MENU, BY_ALL) == []
    assert lineage_faults(WatchSite("manager-1", "api-1", 2.0, "pods"), MENU, BY_ALL) != []


def test_who_hears_of_what_follows_from_the_news() -> None:
    news = (WatchSite("manager-1", "api-1", 1.0, "pods"), WatchSite("manager-2", "api-1", 2.0, "pods"))
    assert hearers((*news, CREATE, WatchSite("agent", "api-1", 3.0, "nodes"))) == {
        "pods": frozenset({"manager-"}),
        "nodes": frozenset({"agent"}),
    }


def wound(at_s: float, *, for_s: float = 0.0) -> LineageFault:
    return LineageFault("deaf", OFTEN, (HoldWatch(at_s=at_s, for_s=for_s),))


def test_two_wounds_of_one_site_are_apart_and_two_that_last_are_further() -> None:
    assert [wound(3.0).apart_from(wound(at_s)) for at_s in (1.4, 2.0, 4.0, 4.5)] == [True, False, False, True]
    lasting = wound(3.0, for_s=8.0)
    assert [lasting.apart_from(wound(at_s, for_s=8.0)) for at_s in (8.0, 9.0)] == [False, True]
    assert LineageFault("happening", SELDOM, (Happening(at_s=0.0),)).lasts
    elsewhere = LineageFault("reply", OFTEN, (LoseReply(at_s=3.0),), site=("agent", "POST", "/api/v1/pods"))
    assert lasting.apart_from(elsewhere)


def test_another_moment_is_struck_in_each_turn() -> None:
    moments = [wound(float(number)) for number in range(16)]
    assert [next(in_turn(moments, turn)).at_s for turn in range(8)] == [0, 8, 12, 4, 15, 2, 10, 6]
    assert [each.at_s for each in in_turn(moments[:2], 1)] == [1, 0]


@pytest.mark.parametrize("count", [*range(1, 20), 100, 1001])
def test_moments_that_never_have_a_turn_need_not_be_kept(count: int) -> None:
    moments = [wound(float(number)) for number in range(count)]
    kept = few_of(moments)
    assert len(kept) <= 8
    for turn in range(8):
        assert next(in_turn(kept, turn)) == next(in_turn(moments, turn))


def test_a_search_begins_with_a_good_run_and_ends_when_each_wound_has_had_its_turns() -> None:
    search = Search(tickets, ("1", "2"))
    (good,) = search.next(4)
    assert good.faults == ()
    held, supports = told(tickets, good)
    assert held.violation is None
    search.learn(good, supports)
    plans = [plan for _ in range(100) for plan in search.next(4)]
    assert {plan.seed for plan in plans} == {"1", "2"}
    assert {fault.kind for plan in plans for fault in plan.faults} >= {"lose-reply", "crash-at-write", "skew"}
    assert search.next(4) == []


def test_heartbeats_are_struck_where_there_is_nothing_else() -> None:
    search = Search(tickets, ("1",))
    (good,) = search.next(4)
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    beat = WriteSite("clerk", "api-1", 1.0, "POST", path, "leases.coordination.k8s.io")
    search.learn(good, [beat])
    assert [path in str(plan.faults) for plan in search.next(2)] == [True, True]


def test_a_story_that_scripts_its_faults_is_told_as_it_is() -> None:
    scenario = SCENARIOS["stale-policy-canary"]
    search = Search(scenario, ("1", "2"))
    plans = search.next(4)
    assert [(plan.seed, plan.faults) for plan in plans] == [
        ("1", scenario.scripted),
        ("2", scenario.scripted),
    ]
    search.learn(plans[0], [CREATE])
    assert search.next(4) == []


def test_a_story_whose_menu_is_empty_gets_no_faults() -> None:
    search = Search(SCENARIOS["two-writers"], ("1",))
    (plan,) = search.next(4)
    assert plan.faults == ()
    search.learn(plan, [CREATE])
    assert search.next(4) == []


def test_nothing_is_struck_once_the_world_is_healed() -> None:
    scenario = SCENARIOS["shared-counter"]
    _, supports = told(scenario, Search(scenario, ("1",)).next(1)[0])
    assert 0 < max(support.at_s for support in supports) < 20  # It heals then.
