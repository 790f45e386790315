"""A real cluster sends its spans to a real collector: a pod's life is one trace, from create to Ready."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.living import Cluster, deployment, until
from tests.cluster.programs import pod
from tests.traces.records import Collector, ReceivedSpan, collecting

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
DECISIONS = "/apis/fathom.dev/v1alpha1/namespaces/default/decisions"
REPLICAS = 2
# The steps of a pod's life, in order: which service tells of them, and by which span.
STEPS = (
    ("fathom-api-server", "create pods"),
    ("fathom-scheduler", "scheduler bind"),
    ("fathom-api-server", "create pods/binding"),
    ("fathom-agent", "agent start"),
    ("fathom-agent", "agent probe"),
    ("fathom-api-server", "patch pods/status"),
)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra `traces`")
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("traces"), "--nodes", "2", "--traces", collector.url)
    try:
        cluster.start()
        yield cluster
        cluster.stop()
    finally:
        cluster.end()


def test_a_pods_life_is_one_trace_across_all_processes(cluster: Cluster, collector: Collector) -> None:
    cluster.ask("POST", DEPLOYMENTS, deployment("web", REPLICAS))
    for created in cluster.until_ready("web", REPLICAS):
        life = whole_life(collector, created["metadata"]["uid"])
        check_tree(life)
        check_order(life)
        check_decisions(cluster, life)
        check_owner(collector, life, owner=created["metadata"]["ownerReferences"][0]["uid"])


def test_the_trace_of_a_pod_that_waits_does_not_end_at_the_queue(
    cluster: Cluster, collector: Collector
) -> None:
    """It asks for a node with a label that one gets later."""
    waiting = pod("waits", labels={"app": "waits"}, nodeSelector={"disk": "fast"})
    created = cluster.ask("POST", PODS, waiting)
    uid = created["metadata"]["uid"]
    until(
        lambda: any(span.name == "scheduler unschedulable" for span in collector.of_trace(uid)),
        lambda: str(collector.of_trace(uid)),
    )
    cluster.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {"disk": "fast"}}})
    cluster.until_ready("waits", 1)
    life = whole_life(collector, uid)
    refused, bound = (
        first(life, "fathom-scheduler", f"scheduler {verdict}") for verdict in ("unschedulable", "bind")
    )
    assert "node affinity" in refused.attributes["fathom.message"]
    assert (refused.attributes["fathom.attempt"], bound.attributes["fathom.attempt"]) == (1, 2)
    assert bound.attributes["fathom.cause"].startswith("event nodes node-2")
    assert refused.end_ns < bound.end_ns < first(life, *STEPS[3]).end_ns


def test_tapes_that_were_recorded_with_traces_on_replay_without_them(
    cluster: Cluster, collector: Collector
) -> None:
    cluster.ask("POST", DEPLOYMENTS, deployment("taped", 1))
    cluster.until_ready("taped", 1)
    for process in ("scheduler", "controllers"):
        words = [sys.executable, "-m", "fathom.cli", "replay", str(cluster.data / "tapes" / process)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def whole_life(collector: Collector, uid: str) -> list[ReceivedSpan]:
    life: list[ReceivedSpan] = []

    def is_there() -> bool:
        life[:] = collector.of_trace(uid)
        return is_complete(life)

    until(is_there, lambda: "\n".join(map(str, life)))
    return life


def is_complete(life: list[ReceivedSpan]) -> bool:
    """Whether the pod is ready in its trace, and no process still holds back a span of it."""
    ids = {span.id for span in life}
    is_ready = any(span.attributes.get("fathom.pod.ready") for span in life)
    return is_ready and all(span.parent in ids for span in life if span.parent)


def check_tree(life: list[ReceivedSpan]) -> None:
    ids = [span.id for span in life]
    assert len(set(ids)) == len(ids), life
    [root] = [span for span in life if not span.parent]
    assert (root.service, root.name) == ("fathom-api-server", "pods")
    assert {span.service for span in life} >= {
        "fathom-api-server", "fathom-controllers", "fathom-scheduler", "fathom-agent",
    }  # fmt: skip


def check_order(life: list[ReceivedSpan]) -> None:
    """Each step ends after the one before it, and the binding caused the start of the container."""
    ends = [first(life, service, name).end_ns for service, name in STEPS[:-1]]
    ready = next(span for span in by_end(life) if span.attributes.get("fathom.pod.ready"))
    assert ready.name == STEPS[-1][1]
    assert [*ends, ready.end_ns] == sorted([*ends, ready.end_ns])
    start, bind = first(life, *STEPS[3]), first(life, *STEPS[2])
    assert start.parent == bind.id
    scheduled = first(life, *STEPS[1])
    assert scheduled.parent == first(life, *STEPS[0]).id
    queued_ms = (scheduled.end_ns - scheduled.start_ns) / 1e6
    assert queued_ms == pytest.approx(scheduled.attributes["fathom.queued_ms"], abs=0.1)


def check_decisions(cluster: Cluster, life: list[ReceivedSpan]) -> None:
    """What each span says of a decision, the decision's own record says too."""
    named = [span for span in life if "fathom.decision" in span.attributes]
    assert len(named) > 5
    for span in named:
        decision = asked(cluster, span.attributes["fathom.decision"])
        if "fathom.verdict" in span.attributes:
            assert span.attributes["fathom.verdict"] == decision["spec"]["verdict"]
            assert span.attributes["fathom.uid"] == decision["spec"]["subject"]["uid"]


def asked(cluster: Cluster, id_: str) -> dict[str, Any]:
    answer: dict[str, Any] = cluster.ask("GET", f"{DECISIONS}/{id_}")
    return answer


def check_owner(collector: Collector, life: list[ReceivedSpan], *, owner: str) -> None:
    """The root links to the decision to create the pod, which is in the trace of the ReplicaSet."""
    [root] = [span for span in life if not span.parent]
    [(trace, span_id)] = root.links
    assert trace == owner.replace("-", "")
    [decided] = [span for span in collector.of_trace(owner) if span.id == span_id]
    assert decided.name.startswith("replicasets create")


def first(life: list[ReceivedSpan], service: str, name: str) -> ReceivedSpan:
    return next(span for span in by_end(life) if (span.service, span.name) == (service, name))


def by_end(life: list[ReceivedSpan]) -> list[ReceivedSpan]:
    return sorted(life, key=lambda span: span.end_ns)


@pytest.mark.full
def test_a_collector_that_is_gone_stops_nothing(cluster: Cluster, collector: Collector) -> None:
    """It answers 503 for a while, and a scheduler is killed meanwhile: pods become ready, and later spans
    arrive."""
    collector.status = 503
    cluster.ask("POST", DEPLOYMENTS, deployment("early", 1))
    cluster.until_ready("early", 1)
    os.kill(cluster.parts()["deciders"], signal.SIGKILL)
    collector.status = 200
    cluster.ask("POST", DEPLOYMENTS, deployment("late", 1))
    [late] = cluster.until_ready("late", 1)
    check_tree(whole_life(collector, late["metadata"]["uid"]))
