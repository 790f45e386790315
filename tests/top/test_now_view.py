"""Page 1 as data and as lines, without a terminal."""

from __future__ import annotations

import msgspec
from tests.top.builders import (
    HOSTILE,
    NOW_NS,
    SHOWN,
    ago,
    counts,
    explanation,
    lease,
    node,
    pod,
    progress,
    seen,
)

from fathom.cli.ask.top import seen as what
from fathom.cli.ask.top.lines import Subject, cells, plain
from fathom.cli.ask.top.now_lines import WIDE, head_line, now_lines
from fathom.cli.ask.top.now_view import (
    BrakeState,
    FightItem,
    LeaderItem,
    NodeItem,
    OverrideItem,
    SignalItem,
    StuckItem,
    WorkloadItem,
    ZoneItem,
    now_view,
)
from fathom.cli.ask.top.seen import BreakerSeen, ClusterSeen, LeaseSeen
from fathom.kinds.shape import API_VERSION
from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS

COMMAND = "fathom scale deployment/web --replicas=1 -n shop"


def shown(cluster: ClusterSeen, width: int = WIDE) -> list[str]:
    return plain(now_lines(now_view(cluster), width))


def override(name: str, *, expires_s: float, acknowledged: tuple[str, ...] = ()) -> Obj:
    acks = [
        {"controller": each, "state": "Honoring", "observedGeneration": 1, "time": ago(5)}
        for each in acknowledged
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "SchedulerOverride",
        "metadata": {"namespace": "shop", "name": name, "generation": 1, "creationTimestamp": ago(60)},
        "spec": {
            "target": "deployment/web",
            "scope": "everywhere",
            "changes": {"pauseAutoscaler": True},
            "reason": "an incident",
            "expiresAfter": "10m",
        },
        "status": {
            "author": "jane",
            "expiresAt": ago(-expires_s),
            "affectedControllers": ["autoscaler"],
            "acknowledgements": acks,
        },
    }


def test_what_is_stuck_keeps_the_order_of_why_with_its_sentence_and_command() -> None:
    first = explanation("web is not ready", change={"command": COMMAND, "what": "fewer replicas"})
    second = {
        **explanation("node-1 is cordoned", kind="intended"),
        "subject": {"resource": "nodes", "name": "n"},
    }
    view = now_view(seen(stuck=(first, second)))
    assert view.stuck == (
        StuckItem("deployments.apps", "shop", "web", "web is not ready", COMMAND),
        StuckItem("nodes", "", "n", "node-1 is cordoned", "", "intended"),
    )
    lines = now_lines(view, WIDE)
    assert plain(lines)[:4] == [
        "STUCK 2",
        "  ✗ web is not ready",
        f"    $ {COMMAND}",
        "  · node-1 is cordoned",
    ]
    assert [line.subject for line in lines if line.starts] == [
        Subject("deployment", "shop", "web"),
        Subject("node", "", "n"),
    ]


def test_of_very_many_the_worst_are_shown_and_the_rest_is_counted() -> None:
    view = now_view(seen(stuck=tuple(explanation(f"pod {number} waits") for number in range(60))))
    lines = plain(now_lines(view, 80))
    assert (lines[0], lines[50:52]) == (
        "STUCK 60",
        ["  ✗ pod 49 waits", "  and 10 more: / shows those that contain a text"],
    )
    assert plain(now_lines(view, WIDE))[60] == "  ✗ pod 59 waits"
    assert plain(now_lines(view, 80, matching="pod 59"))[:2] == ["STUCK 1", "  ✗ pod 59 waits"]


def test_nodes_are_a_map_of_zones_with_what_their_pods_request() -> None:
    cordoned, lost = node("node-10", unschedulable=True), node("node-3", zone="b", ready=False)
    done = pod("done", on="node-2", phase="Succeeded")
    view = now_view(seen(nodes=(cordoned, node("node-2"), lost), pods=(pod("web", on="node-2"), done)))
    assert view.zones == (
        ZoneItem(
            "a",
            (
                NodeItem("node-2", "Ready", 25, 12, 1),
                NodeItem("node-10", "Ready,SchedulingDisabled", 0, 0, 0),
            ),
        ),
        ZoneItem("b", (NodeItem("node-3", "NotReady", 0, 0, 0),)),
    )
    assert [text for text in plain(now_lines(view, WIDE)) if "node" in text or "ready" in text] == [
        "  a: 2 of 2 ready",
        "    node-2  ██░░░░ cpu 25% mem 12% 1 pod",
        "    node-10 ░░░░░░ cpu  0% mem  0% 0 pods Ready,SchedulingDisabled",
        "  b: 0 of 1 ready",
        "    node-3 ░░░░░░ cpu  0% mem  0% 0 pods NotReady",
    ]


def test_a_zone_of_many_nodes_has_a_character_for_each_and_names_those_that_are_not_ready() -> None:
    nodes = tuple(node(f"node-{number}", ready=number != 7) for number in range(40))
    view = now_view(seen(nodes=nodes, pods=(pod("web", on="node-0", cpu="3"),)))
    lines = plain(now_lines(view, 80))
    at = lines.index("  a: 39 of 40 ready")
    assert lines[at + 1 : at + 3] == [f"    ▇{'▁' * 6}!{'▁' * 32}", "    node-7 (NotReady)"]


def test_without_the_pods_of_all_namespaces_no_load_is_claimed() -> None:
    notes = {what.ALL_PODS: f"not allowed to list {what.ALL_PODS}"}
    cluster = seen(nodes=(node("node-1"),), pods=(pod("web", on="node-1"),), notes=notes)
    assert now_view(cluster).zones[0].nodes == (NodeItem("node-1", "Ready", None, None, None),)
    assert "  load is not known: not allowed to list pods of all namespaces" in shown(cluster)


def test_what_may_not_be_read_is_said_where_it_would_be_and_the_rest_is_shown() -> None:
    notes = {what.NODES: "not allowed to list nodes", what.LEASES: f"not allowed to list {what.LEASES}"}
    cluster = seen(stuck=(explanation(),), notes=notes)
    assert shown(cluster)[:10] == [
        "STUCK 1",
        "  ✗ Deployment shop/web is not ready",
        "",
        "NODES 0",
        "  not allowed to list nodes",
        "",
        "CONTROL PLANE",
        "  not allowed to list leases in fathom-system",
        "  brake: no data: the controllers have not shown it yet",
        "",
    ]


def test_a_lease_that_was_not_renewed_for_longer_than_it_lasts_has_no_leader() -> None:
    leases = (
        LeaseSeen(lease("a", "one"), NOW_NS - 14 * SECOND_NS),
        LeaseSeen(lease("b", "two", renewed_s=20), NOW_NS - 16 * SECOND_NS),
        LeaseSeen(lease("c", ""), NOW_NS),
        LeaseSeen(lease("d", "four", renewed_s=600, epoch="x"), NOW_NS),
    )
    assert now_view(seen(leases=leases)).leaders == (
        LeaderItem("a", "one", 3, "leads"),
        LeaderItem("b", "two", 3, "not renewed for 20s"),
        LeaderItem("c", "", 3, "nobody leads"),
        LeaderItem("d", "four", 0, "not renewed for 10m"),
    )


def test_while_the_server_does_not_answer_no_lease_is_called_expired() -> None:
    leases = (LeaseSeen(lease("a", "one", renewed_s=61), NOW_NS - 61 * SECOND_NS),)
    cluster = seen(leases=leases, lost_since_ns=NOW_NS - 60 * SECOND_NS, lost_why="it does not answer")
    view = now_view(cluster)
    assert view.leaders == (LeaderItem("a", "one", 3, "leads"),)
    assert (view.lost_since, view.lost_why) == ("2026-11-17T11:59:00Z", "it does not answer")


def test_the_brake_and_open_breakers_are_shown() -> None:
    data = {"engaged": "true", "holds": "true", "zones": "a: holds since T", "held": "n: since T: silent"}
    breakers = (BreakerSeen("scheduler", "deciders", "open"), BreakerSeen("gateway", "gateway", "closed"))
    cluster = seen(brake={"data": data}, breakers=breakers)
    assert now_view(cluster).brake == BrakeState(
        engaged=True, holds=True, zones=("a: holds since T",), nodes=("n: since T: silent",)
    )
    at = shown(cluster).index("CONTROL PLANE")
    assert shown(cluster)[at + 1 : at + 6] == [
        "  brake: ENGAGED by hand: no reaction to silent nodes",
        "  brake: a: holds since T",
        "  brake: n: since T: silent",
        "  breaker of scheduler in deciders: open",
        "  breakers closed: gateway",
    ]
    assert head_line(now_view(cluster), 80).text == "0 stuck  nodes 0/0  brake ENGAGED  1 breakers OPEN"


def test_active_overrides_have_a_countdown_and_who_has_not_acknowledged_them() -> None:
    later = override("later", expires_s=95, acknowledged=("autoscaler",))
    over = override("over", expires_s=-1)
    cluster = seen(overrides=(later, override("soon", expires_s=30), over))
    assert now_view(cluster).overrides == (
        OverrideItem("shop", "soon", "deployment/web", "pauseAutoscaler", "jane", "30s", "0/1",
                     ("autoscaler",), (), "Observed 0/1"),
        OverrideItem("shop", "later", "deployment/web", "pauseAutoscaler", "jane", "95s", "1/1", (), (),
                     "Active"),
    )  # fmt: skip
    at = shown(cluster).index("OVERRIDES 2")
    assert shown(cluster)[at + 1 : at + 3] == [
        "  shop/soon: pauseAutoscaler for deployment/web, by jane",
        "    ends in 30s, Observed 0/1, acknowledged 0/1, waits for autoscaler",
    ]
    assert now_view(msgspec.structs.replace(cluster, namespace="other")).overrides == ()


def test_an_override_that_an_assistant_asked_for_says_so() -> None:
    asked = override("asked", expires_s=95)
    asked["spec"]["requestedThrough"] = "assistant probe via fathom mcp"
    asker = "by jane, through assistant probe via fathom mcp"
    assert f"  shop/asked: pauseAutoscaler for deployment/web, {asker}" in shown(seen(overrides=(asked,)))


def test_fights_and_signals_of_components_are_shown() -> None:
    text = "spec.replicas goes back and forth"
    about = {"resource": "deployments.apps", "namespace": "shop", "name": "web"}
    fight = {"form": "TwoWriters", **about, "field": "spec.replicas", "writers": ["a", "b"], "text": text}
    fights = {"metadata": {"name": "field-fights"}, "status": {"fights": [fight]}}
    signals = [{"name": "request-timeout", "message": "3 requests"}]
    trouble = {"metadata": {"name": "scheduler"}, "status": {"signals": signals}}
    view = now_view(seen(signals=(fights, trouble)))
    assert view.fights == (
        FightItem("TwoWriters", "deployments.apps", "shop", "web", "spec.replicas goes back and forth"),
    )
    assert view.signals == (SignalItem("scheduler", "request-timeout", "3 requests"),)
    lines = plain(now_lines(view, WIDE))
    assert "  deployments shop/web: spec.replicas goes back and forth" in lines
    assert "  scheduler reports request-timeout: 3 requests" in lines


def test_workloads_are_listed_with_what_they_wait_for() -> None:
    waiting = {**counts(2, 3, 3, 3, 1, 1, 1, 1, 1), "pendingReasons": [{"reason": "quota/x", "count": 2}]}
    cluster = seen(
        progress=(progress("web", current=waiting), progress("api", current=counts(1, 2, *[2] * 7)))
    )
    view = now_view(cluster)
    assert view.workloads == (
        WorkloadItem("Deployment", "shop", "api", 2, 2, 2, "", ""),
        WorkloadItem("Deployment", "shop", "web", 3, 1, 1, "quota/x", ""),
    )
    assert plain(now_lines(view, WIDE))[-2:] == [
        "  shop  deployment/api  2/2 ready  2 serving",
        "  shop  deployment/web  1/3 ready  1 serving  quota/x",
    ]
    assert plain(now_lines(view, WIDE, matching="WEB"))[-2:] == [
        "WORKLOADS 1",
        "  shop  deployment/web  1/3 ready  1 serving  quota/x",
    ]


def test_every_line_fits_every_width_and_two_columns_say_the_same() -> None:
    long = "a sentence of many words " * 12 + "and-one-word-that-is-longer-than-any-line-" * 4
    cluster = seen(
        stuck=(explanation(long, change={"command": COMMAND * 5}),),
        nodes=tuple(node(f"名前-{number}") for number in range(9)),
        leases=(LeaseSeen(lease("scheduler", "holder-" * 12), NOW_NS),),
        progress=(progress("web" * 20, current=counts(1, 1, *[0] * 7)),),
    )
    for width in (40, 60, 80, 139, 140, 200):
        lines = shown(cluster, width)
        assert [text for text in lines if cells(text) > width] == []
        assert any("STUCK 1" in text for text in lines)
        assert any("CONTROL PLANE" in text for text in lines)


def test_hostile_text_is_shown_as_text() -> None:
    trouble = {"metadata": {"name": "s"}, "status": {"signals": [{"name": "n", "message": HOSTILE}]}}
    cluster = seen(
        stuck=(explanation(HOSTILE, change={"command": f"echo {HOSTILE}"}),),
        signals=(trouble,),
        leases=(LeaseSeen(lease("a", HOSTILE), NOW_NS),),
    )
    text = "\n".join(shown(cluster))
    assert text.count(SHOWN) == 4
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(text)


def test_the_view_is_a_document() -> None:
    view = now_view(seen(namespace="shop", nodes=(node("node-1"),)))
    document = msgspec.json.decode(msgspec.json.encode(view))
    assert document["zones"] == [
        {
            "name": "a",
            "nodes": [
                {
                    "name": "node-1", "state": "Ready", "cpuPercent": 0, "memoryPercent": 0, "pods": 0,
                    "held": "",
                }
            ],
        }
    ]  # fmt: skip
    assert (document["namespace"], document["lostSince"]) == ("shop", "")
