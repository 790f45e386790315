"""`fathom override preview`: its text, and what `create --from-preview` refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fathom.cli.api_server import JSON, Answer
from fathom.cli.ask.explanations import ApiServer
from fathom.cli.problem import Problem
from fathom.cli.steer.preview_check import check_preview
from fathom.cli.steer.preview_text import preview_lines
from fathom.kinds.preview_answer import (
    FORK,
    WHAT_IF,
    Counts,
    Difference,
    Futures,
    Moved,
    NotModelled,
    Outcome,
    PodWhatIf,
    Preview,
    Refusal,
    Spread,
    Touched,
    tried_hash,
)

HASH = "00112233aabbccdd"


def outcome(seed: str, a: int, b: int, *, pending: int = 0) -> Outcome:
    target = Counts(bound={"a": a, "b": b}, ready=a + b, pending=pending)
    cluster = Counts(bound={"a": a + 5, "b": b + 5}, ready=a + b + 10, pending=pending)
    return Outcome(seed=seed, cluster=cluster, target=target, replicas={"shop/Deployment/web": 4})


def preview(**changes: Any) -> Preview:
    moved = Difference(
        of="target", what="bound", zone="a", without=Spread(2, 2), with_=Spread(1, 1), change=Spread(-1, -1)
    )
    without, with_ = (
        (outcome("1", 2, 2), outcome("2", 2, 2)),
        (outcome("1", 1, 3), outcome("2", 1, 2, pending=1)),
    )
    fields: dict[str, Any] = {
        "token": f"7-{HASH}",
        "revision": 7,
        "hash": HASH,
        "method": FORK,
        "minutes": 10,
        "seeds": ("1", "2"),
        "now": outcome("", 1, 1),
        "without": without,
        "with_": with_,
        "difference": (moved,),
        "seconds": 600.0,
        "after_the_end": Futures(905.0, without, without, ()),
        "not_modelled": (NotModelled("gateway", "…"), NotModelled("images", "…")),
        "touched": (Touched("Deployment", "shop", "web", 3), Touched("Node", "", "node-1")),
    }
    return Preview(**{**fields, **changes})


def lines(shown: Preview) -> list[str]:
    return preview_lines(shown, name="shop/tried", target="workload/web", file="o.yaml")


def test_both_futures_are_shown_side_by_side_with_their_spread() -> None:
    assert lines(preview()) == [
        "The override shop/tried, tried in 2 forks of the cluster at revision 7, for 10 minutes of virtual "
        "time.",
        "",
        "                  now  without it  with it     difference",
        "workload/web",
        "  in zone a         1           2        1             -1",
        "  in zone b         1           2     2..3          0..+1",
        "  ready             2           4     3..4          -1..0",
        "  without a node    0           0     0..1          0..+1",
        "  evicted           0           0        0  no difference",
        "",
        "5 minutes later, after its end, both futures are alike in all counts.",
        "",
        "Not in the fork: gateway, images (-o json says more).",
        "It rests on: Deployment shop/web, Node node-1.",
        "",
        f"Token: 7-{HASH}",
        "Create it, if nothing that this rests on has moved:  "
        f"fathom override create -f o.yaml --from-preview 7-{HASH}",
    ]


def test_an_override_without_effect_is_said_to_have_none() -> None:
    alike = (outcome("1", 2, 2),)
    shown = lines(preview(without=alike, with_=alike, difference=(), seeds=("1",)))
    assert "It changes none of these counts." in shown
    assert shown[0].startswith("The override shop/tried, tried in 1 fork of the cluster")


def test_other_pods_and_workloads_are_shown_where_they_differ() -> None:
    crowded = Outcome(
        seed="1",
        cluster=Counts(bound={"a": 6, "b": 8}, ready=14),
        target=Counts(bound={"a": 1, "b": 3}, ready=4),
        replicas={"shop/Deployment/web": 4, "shop/Deployment/db": 2},
    )
    before = outcome("1", 2, 2)
    shown = lines(preview(without=(before,), with_=(crowded,), seeds=("1",)))
    start, end = shown.index("workloads") - 2, shown.index("workloads") + 2
    assert [line.split() for line in shown[start + 1 : end]] == [
        ["evicted", "0", "0", "0", "no", "difference"],
        ["workloads"],
        ["shop/Deployment/db", "replicas", "0", "0", "2", "+2"],
    ]


def test_a_what_if_says_that_no_fork_was_run_and_why() -> None:
    pods = (PodWhatIf("shop/web-1", "it fits node-1", "no node would take it"),)
    shown = lines(preview(method=WHAT_IF, reason="you may not", what_if=pods))
    assert shown[:5] == [
        "What the scheduler would decide with the override shop/tried, at revision 7.",
        "No fork was run: you may not.",
        "",
        "pod shop/web-1",
        "  now      it fits node-1",
    ]


def test_what_the_server_would_refuse_is_one_line() -> None:
    assert lines(preview(refused=Refusal(403, "Forbidden", "jane may not"))) == [
        "The API server would refuse the override shop/tried: jane may not"
    ]


OVERRIDE: Answer = {"metadata": {"name": "tried", "namespace": "shop"}, "spec": {"target": "workload/web"}}


class KeepsPreview(ApiServer):
    """An API server that answers every request with this."""

    def __init__(self, status: int, answer: Answer) -> None:
        self.answer = (status, answer)
        self.asked: list[str] = []

    def request(
        self, method: str, path: str, body: Answer | None = None, *, media: str = JSON, accept: str = JSON
    ) -> tuple[int, Answer]:
        self.asked.append(f"{method} {path}")
        return self.answer


def kept(**changes: Any) -> Answer:
    return {"status": msgspec.to_builtins(preview(**changes))}


def test_a_preview_that_holds_is_accepted() -> None:
    token = f"7-{tried_hash(OVERRIDE)}"
    server = KeepsPreview(200, kept())
    check_preview(server, "shop", OVERRIDE, token)
    assert server.asked == [f"GET /apis/fathom.dev/v1alpha1/namespaces/shop/overridepreviews/{token}"]


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (404, {}, "the API server does not have the preview {token} any more: preview again"),
        (
            200,
            kept(moved=(Moved("Deployment", "shop", "web", "it is gone"),)),
            "the preview {token} no longer holds: Deployment shop/web: it is gone: preview again",
        ),
        (200, kept(refused=Refusal(403, "Forbidden", "no")), "the preview {token} was refused: no"),
    ],
)
def test_a_preview_that_does_not_hold_is_refused_with_exit_code_1(
    status: int, answer: Answer, message: str
) -> None:
    token = f"7-{tried_hash(OVERRIDE)}"
    with pytest.raises(Problem) as refused:
        check_preview(KeepsPreview(status, answer), "shop", OVERRIDE, token)
    assert (str(refused.value), refused.value.exit_code) == (message.format(token=token), 1)


def test_the_token_of_another_override_is_refused_without_asking() -> None:
    server = KeepsPreview(200, kept())
    with pytest.raises(Problem, match="is of another override: preview this one"):
        check_preview(server, "shop", OVERRIDE, f"7-{HASH}")
    assert server.asked == []
