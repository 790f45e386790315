"""The lesson's override on a running cluster: where pods go while it is in force, and what nobody may do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.living import Cluster, Obj, until
from tests.cluster.programs import deployment, own, pod

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

OVERRIDES = "/apis/fathom.dev/v1alpha1/namespaces/default/scheduleroverrides"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
ZONES = {"node-1": "eu-west-a", "node-2": "eu-west-b", "node-3": "eu-west-c"}
LESSON = own(
    "SchedulerOverride",
    "risk-api-eu-west-recovery",
    target="workload/risk-api",
    scope="region/eu-west",
    reason="recovery-capacity",
    expiresAfter="45m",
    changes={
        "pauseAutoscaler": True,
        "avoidZones": ["eu-west-a"],
        "allowReservedCapacityClass": "recovery",
    },
)


@pytest.fixture(scope="module")
def regional(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("regional")
    zones = ",".join(ZONES.values())
    made = Cluster(directory, "--nodes", "3", "--zones", zones, "--driver", "simulated")
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.end()


def refused(cluster: Cluster, method: str, path: str, body: Any, media: str = "application/json") -> str:
    with pytest.raises(AssertionError) as caught:
        cluster.ask(method, path, body, media)
    return str(caught.value)


def placed(cluster: Cluster) -> dict[str, str]:
    """Pod -> zone."""
    pods = [each for each in cluster.pods("risk-api") if not each["metadata"].get("deletionTimestamp")]
    return {each["metadata"]["name"]: ZONES[each["spec"]["nodeName"]] for each in pods}


def scaled(cluster: Cluster, replicas: int) -> None:
    cluster.patch(f"{DEPLOYMENTS}/risk-api", {"spec": {"replicas": replicas}})
    cluster.until_ready("risk-api", replicas)


def test_the_lessons_override_does_something_as_it_stands(regional: Cluster) -> None:
    nodes: list[Obj] = regional.ask("GET", "/api/v1/nodes")["items"]
    regions = {each["metadata"]["labels"]["topology.kubernetes.io/region"] for each in nodes}
    assert regions == {"eu-west"}
    regional.patch("/api/v1/nodes/node-3", {"metadata": {"labels": {"tier": "recovery"}}})
    recovery = own("CapacityClass", "recovery", nodeSelector={"tier": "recovery"}, tenants=[])
    regional.ask("POST", "/apis/fathom.dev/v1alpha1/capacityclasses", recovery)
    regional.ask("POST", DEPLOYMENTS, deployment("risk-api", replicas=4))
    regional.until_ready("risk-api", 4)
    before = placed(regional)
    assert set(before.values()) == {"eu-west-a", "eu-west-b"}, "the third node is reserved"

    regional.ask("POST", OVERRIDES, LESSON)
    scaled(regional, 10)
    new = {name: zone for name, zone in placed(regional).items() if name not in before}
    assert set(new.values()) == {"eu-west-b", "eu-west-c"}, "new pods avoid a zone, and use the class"
    _no_foreign_binding(regional)

    regional.ask("DELETE", f"{OVERRIDES}/{LESSON['metadata']['name']}")
    there = set(placed(regional))
    scaled(regional, 16)
    zones = {zone for name, zone in placed(regional).items() if name not in there}
    assert "eu-west-a" in zones
    assert "eu-west-c" not in zones


def _no_foreign_binding(cluster: Cluster) -> None:
    """Another scheduler, that knows nothing of overrides. A ReplicaSet lets go of a pod that it does not
    select: whoever binds it only then may."""
    owner = cluster.pods("risk-api")[0]["metadata"]["ownerReferences"]
    for number in range(20):
        stray = pod(f"stray-{number}", schedulerName="another")
        stray["metadata"]["ownerReferences"] = owner
        cluster.ask("POST", PODS, stray)
        path, answer = f"{PODS}/stray-{number}", ""
        try:
            cluster.ask("POST", f"{path}/binding", {"target": {"kind": "Node", "name": "node-1"}})
        except AssertionError as error:
            answer = str(error)
        still_owned = cluster.ask("GET", path)["metadata"].get("ownerReferences")
        cluster.ask("DELETE", path, {"gracePeriodSeconds": 0})
        if answer:
            assert " 409 " in answer
            assert "keeps the pod's workload off it" in answer
            return
        assert not still_owned
    pytest.fail("every pod was let go before it could be bound")


def test_a_paused_workload_is_repaired_and_does_not_grow(regional: Cluster) -> None:
    regional.ask("POST", DEPLOYMENTS, deployment("calm", replicas=2))
    regional.until_ready("calm", 2)
    changes = {"pauseExpansion": True}
    spec: Obj = {"target": "deployment/calm", "scope": "region/eu-west", "reason": "calm", "changes": changes}
    regional.ask("POST", OVERRIDES, own("SchedulerOverride", "calm", expiresAfter="30m", **spec))
    grow = {"spec": {"replicas": 3}}
    answer = refused(regional, "PATCH", f"{DEPLOYMENTS}/calm/scale", grow, "application/merge-patch+json")
    assert " 403 " in answer
    assert re.search(r"override default/calm pauses expansion until \S+: it would grow from 2 to 3", answer)
    lost = regional.pods("calm")[0]["metadata"]
    regional.ask("DELETE", f"{PODS}/{lost['name']}", {"gracePeriodSeconds": 0})
    until(lambda: lost["uid"] not in {each["metadata"]["uid"] for each in regional.pods("calm")}, str)
    regional.until_ready("calm", 2)
    regional.ask("DELETE", f"{OVERRIDES}/calm")
    regional.patch(f"{DEPLOYMENTS}/calm", grow)
    regional.until_ready("calm", 3)
