"""Answers about workloads, pods and nodes name the overrides that are active for them, once."""

from __future__ import annotations

from typing import Any

from tests.explain.evidence_of import at, deployment, evidence, obj, pod, replica_set

from fathom.cli.ask.explanation_text import explanation_lines
from fathom.explain.questions import STATUS, answer, why
from fathom.explain.status import StatusView
from fathom.explain.why.answer import ActiveOverride
from fathom.explain.why_of.active_overrides import active_overrides
from fathom.model.body import decode_json, encode_json
from fathom.model.objects import Obj


def override(name: str, target: str, *, ends_s: float = 1860, namespace: str = "shop", **changes: Any) -> Obj:
    spec = {"target": target, "scope": "cluster", "reason": "r", "expiresAfter": "45m", "changes": changes}
    status = {"author": "alice", "expiresAt": at(ends_s)}
    return obj("SchedulerOverride", name, namespace=namespace, spec=spec, status=status)


FREEZE = override("freeze", "workload/web", pauseAutoscaler=True, avoidZones=["c"])
SHOWN = ActiveOverride("shop", "freeze", "alice", at(1860), "31m", ("pauseAutoscaler", "avoidZones"))


def test_a_workload_its_replica_sets_and_their_pods_have_the_override_of_the_workload() -> None:
    web = deployment()
    newest = replica_set(web)
    child = pod("web-1-0", newest, labels={"pod-template-hash": "1"})
    for subject in (web, newest, child):
        assert active_overrides(evidence(subject, FREEZE, web, newest)) == (SHOWN,)


def test_overrides_that_ended_or_are_of_others_are_not_named() -> None:
    others = [
        override("over", "workload/web", ends_s=-1, pauseAutoscaler=True),
        override("of-db", "workload/db", pauseAutoscaler=True),
        override("of-job", "job/web", pauseAutoscaler=True),
        override("elsewhere", "workload/web", namespace="team", pauseAutoscaler=True),
        obj("SchedulerOverride", "broken", spec={"target": 3}),
    ]
    assert active_overrides(evidence(deployment(), *others)) == ()


def test_a_node_has_the_override_that_cordons_it() -> None:
    node = obj("Node", "n1", namespace="", metadata={"labels": {"topology.kubernetes.io/zone": "a"}})
    cordon = override("power", "zone/a", namespace="fathom-system", cordon=True)
    other = override("other", "zone/b", namespace="fathom-system", cordon=True)
    assert [each.name for each in active_overrides(evidence(node, cordon, other))] == ["power"]


def test_why_and_status_have_one_line_about_it() -> None:
    web = deployment(0)
    explanation = why(evidence(web, FREEZE))
    document = decode_json(encode_json(explanation))
    line = "override freeze (by alice, ends in 31m) is active for this workload: pauseAutoscaler, avoidZones"
    assert [each.strip() for each in explanation_lines(document)].count(line) == 1
    status = answer(evidence(web, FREEZE), view=STATUS)
    assert isinstance(status, StatusView)
    assert status.active_overrides == (SHOWN,)


def test_an_answer_whose_cause_is_the_override_does_not_name_it_twice() -> None:
    web = deployment()
    paused = override("freeze", "workload/web", pauseRollout=True)
    other = override("zones", "workload/web", avoidZones=["c"])
    explanation = why(evidence(web, paused, other))
    assert "the override freeze pauses its rollout" in explanation.summary
    assert [each.name for each in explanation.active_overrides] == ["zones"]
