"""Page 2 as data and as lines, without a terminal."""

from __future__ import annotations

from typing import Any

import pytest
from tests.top.builders import HOSTILE, SHOWN, ago, counts, explanation, pod, progress, seen

from fathom.cli.ask.top.command import subject_of
from fathom.cli.ask.top.lines import Subject, cells, plain
from fathom.cli.ask.top.now_lines import WIDE
from fathom.cli.ask.top.questions import breakers_in
from fathom.cli.ask.top.seen import BreakerSeen
from fathom.cli.ask.top.workload_lines import HISTORY, workload_lines
from fathom.cli.ask.top.workload_view import (
    CHANGE_CAUSE,
    REVISION,
    GenerationItem,
    PodItem,
    RevisionItem,
    WorkloadAnswers,
    WorkloadView,
    owned_sets,
    workload_view,
)
from fathom.cli.problem import Problem
from fathom.model.objects import Obj

WEB = Subject("deployment", "shop", "web")
DEPLOYMENT: Obj = {"metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"}}
HELP = "kubectl -n shop scale deployment/web --replicas=1"


def replica_set(revision: int, *, replicas: int = 0, cause: str = "", image: str = "web:1") -> Obj:
    return {
        "metadata": {
            "name": f"web-{revision}",
            "uid": f"uid-{revision}",
            "creationTimestamp": ago(3600 * (9 - revision)),
            "ownerReferences": [{"uid": "uid-web", "controller": True}],
            "annotations": {REVISION: str(revision), CHANGE_CAUSE: cause},
        },
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}},
        "status": {"readyReplicas": replicas},
    }


def rolling() -> WorkloadView:
    waiting = {"reason": "image", "count": 1, "message": "no such image"}
    status: dict[str, Any] = {
        "current": {**counts(8, 3, 2, 2, 2, 2, 1, 1, 1), "pendingReasons": [waiting]},
        "previous": counts(7, 3, *[2] * 7),
    }
    cluster = seen(
        pods=(
            pod("web-2-b", on="node-1", owner_uid="uid-2"),
            pod("web-1-a", owner_uid="uid-1"),
            pod("other"),
        ),
        progress=(progress("web", **status), progress("web", kind="Job", current=counts(1, 1, *[1] * 7))),
    )
    answers = WorkloadAnswers(
        explanation=explanation(change={"command": HELP, "what": "fewer"}, details=[]),
        obj=DEPLOYMENT,
        replica_sets=(
            replica_set(1, replicas=2),
            replica_set(2, replicas=1, cause="new image", image="web:2"),
        ),
        timeline=("1  12:00  somebody  does something",),
    )
    return workload_view(WEB, cluster, answers)


def test_both_generations_have_their_counts_of_every_stage() -> None:
    view = rolling()
    names = ("admitted", "queued", "scheduled", "bound", "starting", "ready", "serving")
    assert view.current == GenerationItem(
        8, 3, dict(zip(names, (2, 2, 2, 2, 1, 1, 1), strict=True)), ("1 waits for image: no such image",)
    )
    assert view.previous == GenerationItem(7, 3, dict.fromkeys(names, 2))
    lines = plain(workload_lines(view, 60))
    at = lines.index("STAGES")
    assert lines[at + 1 : at + 10] == [
        "             generation 8 (new)    generation 7 (before)",
        "  admitted   ████████░░░░ 2/3      ████████░░░░ 2/3",
        "  queued     ████████░░░░ 2/3      ████████░░░░ 2/3",
        "  scheduled  ████████░░░░ 2/3      ████████░░░░ 2/3",
        "  bound      ████████░░░░ 2/3      ████████░░░░ 2/3",
        "  starting   ████░░░░░░░░ 1/3      ████████░░░░ 2/3",
        "  ready      ████░░░░░░░░ 1/3      ████████░░░░ 2/3",
        "  serving    ████░░░░░░░░ 1/3      ████████░░░░ 2/3",
        "  generation 8: 1 waits for image: no such image",
    ]


def test_pods_are_those_of_its_replica_sets_with_their_revision() -> None:
    assert rolling().pods == (
        PodItem("web-1-a", "1", "1/1", "Running", "2", "-", "90s"),
        PodItem("web-2-b", "2", "1/1", "Running", "2", "node-1", "90s"),
    )


def test_the_rollout_history_has_the_newest_revision_first() -> None:
    view = rolling()
    assert view.history == (
        RevisionItem(2, "web-2", 1, 1, "7h", ("web:2",), "new image", current=True),
        RevisionItem(1, "web-1", 2, 2, "8h", ("web:1",)),
    )
    lines = plain(workload_lines(view, WIDE))
    at = lines.index("ROLLOUT HISTORY 2")
    assert lines[at + 1 : at + 4] == [
        "  REVISION     READY  AGE  IMAGES  CHANGE-CAUSE",
        "  2 (current)  1/1    7h   web:2   new image",
        "  1            2/2    8h   web:1   -",
    ]


def test_why_comes_first_with_the_command_that_helps_then_what_else_to_type() -> None:
    view = rolling()
    assert view.commands == (
        "fathom why deployment/web -n shop -o wide",
        "fathom timeline deployment/web -n shop --since 10m",
        "fathom status deployment/web -n shop",
        "fathom rollout status deployment/web -n shop",
        "fathom rollout undo deployment/web -n shop --to-revision=1",
        "fathom describe deployment/web -n shop",
    )
    lines = workload_lines(view, WIDE)
    assert plain(lines)[:3] == [
        "WHY",
        "  Deployment shop/web is not ready",
        f"  $ {view.helps}",
    ]
    assert view.helps.removeprefix("kubectl").removeprefix("fathom") == HELP.removeprefix("kubectl")
    assert lines[2].command == view.helps


def test_a_name_with_quotes_cannot_end_a_command() -> None:
    view = workload_view(Subject("pod", "shop", "a'; rm -rf x"), seen(), WorkloadAnswers())
    assert view.commands[0] == """fathom why pod/'a'"'"'; rm -rf x' -n shop -o wide"""


def test_what_is_not_known_yet_and_what_is_refused_is_said() -> None:
    answers = WorkloadAnswers(notes={HISTORY: "not allowed to list replicasets"})
    lines = plain(workload_lines(workload_view(WEB, seen(), answers), 80))
    assert "  not allowed to list replicasets" in lines
    assert "  nothing is counted for this object" in lines


def test_every_line_fits_every_width_and_hostile_text_is_text() -> None:
    cluster = seen(
        pods=(pod("web-1-a", owner_uid="uid-1"),), progress=(progress("web", current=counts(1, 1, *[0] * 7)),)
    )
    answers = WorkloadAnswers(
        explanation=explanation(HOSTILE, change={"command": f"echo {HOSTILE * 9}"}),
        obj=DEPLOYMENT,
        replica_sets=(replica_set(1, cause=HOSTILE, image=HOSTILE),),
        timeline=(HOSTILE * 3,),
    )
    view = workload_view(WEB, cluster, answers)
    for width in (40, 60, 80, 200):
        lines = plain(workload_lines(view, width))
        assert [text for text in lines if cells(text) > width] == []
        assert not {"\x1b", "\x07", "\u202e", "\r", "\n"} & set("".join(lines))
    assert f"  {SHOWN}" in plain(workload_lines(view, WIDE))


def test_replica_sets_of_another_deployment_are_left_out() -> None:
    other = {"metadata": {"ownerReferences": [{"uid": "uid-other", "controller": True}]}}
    mine = replica_set(1)
    assert owned_sets(DEPLOYMENT, [other, mine]) == (mine,)


def test_breakers_are_read_from_a_page_of_metrics() -> None:
    page = (
        'fathom_breaker_state{component="scheduler",state="closed"} 0\n'
        'fathom_breaker_state{component="scheduler",state="open"} 1\n'
        'fathom_breaker_state{state="closed"} 1\n'
    )
    assert breakers_in(page, "deciders") == [
        BreakerSeen("scheduler", "deciders", "open"),
        BreakerSeen("deciders", "deciders", "closed"),
    ]


@pytest.mark.parametrize("text", ["web", "deployment/", "/web", "a/b/c"])
def test_an_object_that_is_not_kind_and_name_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="KIND/NAME"):
        subject_of(text, "shop")


def test_nodes_have_no_namespace() -> None:
    assert subject_of("Node/node-1", "shop") == Subject("node", "", "node-1")
    assert subject_of("deploy/web", "shop") == Subject("deploy", "shop", "web")
