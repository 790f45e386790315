"""The checker of raw objects sees each rule broken."""

from __future__ import annotations

from typing import Any

import pytest
from tests.attach.raw_rules import amount, broken_rules
from tests.attach.test_many_pods_live import HOST, ZONE, made_node

Obj = dict[str, Any]
OWN = {"matchLabels": {"app": "a"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = [made_node(number) for number in range(1, 7)]  # No. 4 has no ssd; zones b, c, a, b, c, a.


def pod(name: str, node: str, **spec: Any) -> Obj:
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    whole = {"containers": [container], **spec, "nodeName": node}
    return {"metadata": {"name": name, "labels": {"app": "a"}}, "spec": whole}


def twice(**spec: Any) -> list[Obj]:
    return [pod("one", "node-1", **spec), pod("two", "node-1", **spec)]


ANTI = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": OWN}]}}
TOGETHER = {"podAffinity": {REQUIRED: [{"topologyKey": ZONE, "labelSelector": OWN}]}}
ONLY_A = {"key": ZONE, "operator": "In", "values": ["a"]}
IN_A = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [ONLY_A]}]}}}
SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "labelSelector": OWN}]
PORT = [{"name": "c", "resources": {"requests": {}}, "ports": [{"hostPort": 80}]}]


@pytest.mark.parametrize(
    ("pods", "words"),
    [
        ([pod(f"p{number}", "node-1") for number in range(9)], "of cpu"),
        (twice(containers=PORT), "port 80 is taken 2 times"),
        ([pod("one", "node-4", nodeSelector={"disk": "ssd"})], "nodeSelector"),
        ([pod("one", "node-1", affinity=IN_A)], "node affinity"),
        (twice(affinity=ANTI), "must not be beside two"),
        ([pod("one", "node-1", affinity=TOGETHER), pod("two", "node-2")], "beside none"),
        (twice(topologySpreadConstraints=SPREAD), "at most 1 apart"),
    ],
)
def test_a_broken_rule_is_named(pods: list[Obj], words: str) -> None:
    assert any(words in text for text in broken_rules(NODES, pods))


def test_a_taint_that_is_not_tolerated_is_named() -> None:
    nodes = [made_node(0)]
    assert broken_rules(nodes, [pod("one", "node-0")]) == ["one on node-0: taint gpu is not tolerated"]
    tolerant = pod("one", "node-0", tolerations=[{"key": "gpu", "operator": "Exists"}])
    assert broken_rules(nodes, [tolerant]) == []


def test_pods_that_keep_the_rules_are_let_pass() -> None:
    apart = [pod(f"p{number}", f"node-{number}", affinity=ANTI) for number in range(1, 4)]
    assert broken_rules(NODES, apart) == []
    even = [pod(f"p{number}", f"node-{number}", topologySpreadConstraints=SPREAD) for number in range(1, 7)]
    assert broken_rules(NODES, even) == []
    together = [pod("one", "node-1", affinity=TOGETHER), pod("two", "node-4", affinity=TOGETHER)]
    assert broken_rules(NODES, together) == []


def test_amounts_are_read_in_thousandths() -> None:
    assert [amount(text) for text in ("250m", "4", "1Ki")] == [250, 4_000, 1_024_000]
