"""`fathom up` runs real work and heals itself: real processes, real signals, one machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.cluster.living import Cluster, deployment, service, until

from fathom.model.objects import Obj
from fathom.model.times import SECOND_NS, moment_ns

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/fathom-system/leases"
SERVICES = "/api/v1/namespaces/default/services"


def run(cluster: Cluster, app: str, replicas: int, *, lingers_s: int = 0) -> None:
    cluster.ask("POST", DEPLOYMENTS, deployment(app, replicas, lingers_s=lingers_s))
    cluster.ask("POST", SERVICES, service(app))
    cluster.until_ready(app, replicas)
    # A ready pod is not yet behind its Service: the endpoints and the gateway hear of it a moment later.
    until(lambda: _answers(cluster, app), lambda: f"the service does not answer: {cluster.told()}")


def remove(cluster: Cluster, app: str) -> None:
    cluster.ask("DELETE", f"{DEPLOYMENTS}/{app}")
    cluster.ask("DELETE", f"{SERVICES}/{app}")
    until(lambda: not cluster.pods(app), lambda: str(cluster.pods(app)))


def reached(cluster: Cluster, app: str) -> tuple[str, str, int]:
    """Who answers: pod, word, process."""
    pod, word, pid = cluster.fetch(app).split()
    return pod, word, int(pid)


def everybody(cluster: Cluster, app: str, count: int) -> dict[str, int]:
    """Pod -> process, of all that the gateway sends connections to."""
    found: dict[str, int] = {}

    def ask() -> bool:
        try:
            pod, _, pid = reached(cluster, app)
        except OSError:
            return False
        found[pod] = pid
        return len(found) == count

    until(ask, lambda: f"only {found} answer")
    return found


@pytest.mark.full
def test_nodes_are_spread_over_the_zones_that_were_asked_for(cluster: Cluster) -> None:
    nodes = cluster.ask("GET", "/api/v1/nodes")["items"]
    zones = {
        node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes
    }
    assert zones == {"node-1": "a", "node-2": "b", "node-3": "a"}


def test_a_deployment_serves_through_its_service_and_leaves_nothing_behind(cluster: Cluster) -> None:
    run(cluster, "web", 3)
    pids = everybody(cluster, "web", 3).values()
    assert len({pod["status"]["podIP"] for pod in cluster.ready("web")}) == 3
    log = cluster.ask(
        "GET", f"/api/v1/namespaces/default/pods/{cluster.pods('web')[0]['metadata']['name']}/log"
    )
    assert log.startswith("listening\n")
    until(
        lambda: _progress(cluster, "web").get("serving") == 3,
        lambda: f"progress: {_progress(cluster, 'web')}",
    )
    remove(cluster, "web")
    until(lambda: not any(_lives(pid) for pid in pids), lambda: "its processes live on")


def test_a_new_template_replaces_every_pod_while_the_service_answers(cluster: Cluster) -> None:
    # Without time to hear of it, connections that just came to a pod end with it: as anywhere.
    run(cluster, "roll", 3, lingers_s=3)
    spec = deployment("roll", 3, word="two", lingers_s=3)["spec"]
    cluster.patch(f"{DEPLOYMENTS}/roll", {"spec": {"template": spec["template"]}})
    words = []

    def rolled() -> bool:
        words.append(reached(cluster, "roll")[1])
        status = cluster.ask("GET", f"{DEPLOYMENTS}/roll")["status"]
        done = status.get("observedGeneration") == 2 and status.get("updatedReplicas") == 3
        return bool(done and status.get("replicas") == 3 and status.get("availableReplicas") == 3)

    until(rolled, lambda: str(cluster.ask("GET", f"{DEPLOYMENTS}/roll")["status"]))
    cluster.until_ready("roll", 3)
    assert set(words) <= {"one", "two"}
    assert reached(cluster, "roll")[1] == "two"
    remove(cluster, "roll")


def test_a_process_that_is_killed_is_started_again_in_its_pod(cluster: Cluster) -> None:
    run(cluster, "crash", 1)
    pod, _, pid = reached(cluster, "crash")
    os.kill(pid, signal.SIGKILL)
    until(lambda: _answers(cluster, "crash") not in {None, (pod, pid)}, lambda: "nobody took over")
    assert [each["metadata"]["name"] for each in cluster.pods("crash")] == [pod]
    (status,) = cluster.pods("crash")[0]["status"]["containerStatuses"]
    assert status["restartCount"] == 1
    assert status["lastState"]["terminated"]["exitCode"] == 137
    remove(cluster, "crash")


def test_parts_that_are_killed_come_back_and_nothing_is_done_twice(cluster: Cluster) -> None:
    run(cluster, "heal", 3)
    before = everybody(cluster, "heal", 3)
    for part, pid in cluster.parts().items():
        os.kill(pid, signal.SIGKILL)
        until(
            lambda part=part, pid=pid: cluster.parts().get(part, pid) != pid,  # type: ignore[misc]  # For this turn.
            cluster.told,
        )
    until(lambda: _scaled(cluster, "heal", 4), cluster.told)
    cluster.until_ready("heal", 4)
    after = everybody(cluster, "heal", 4)
    assert {pod: pid for pod, pid in after.items() if pod in before} == before
    remove(cluster, "heal")


def test_deciders_that_are_killed_lead_again_before_their_leases_run_out(cluster: Cluster) -> None:
    """The process that is started in their place knows that they are dead."""
    before = {name: lease(cluster, name) for name in ("scheduler", "controllers")}
    os.kill(cluster.parts()["deciders"], signal.SIGKILL)
    for name, old in before.items():
        until(
            lambda name=name, old=old: lease(cluster, name)["holderIdentity"] != old["holderIdentity"],  # type: ignore[misc]  # For this turn.
            cluster.told,
        )
        new = lease(cluster, name)
        waited_ns = (moment_ns(new["acquireTime"]) or 0) - (moment_ns(old["renewTime"]) or 0)
        assert waited_ns < old["leaseDurationSeconds"] * SECOND_NS, (old, new)


def lease(cluster: Cluster, name: str) -> Obj:
    found: Obj = cluster.ask("GET", f"{LEASES}/{name}")["spec"]
    return found


def test_a_drained_node_is_empty_and_the_workload_whole(cluster: Cluster) -> None:
    run(cluster, "move", 3)
    cluster.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}})
    for pod in cluster.pods("move"):
        if pod["spec"]["nodeName"] == "node-1":
            meta = {"name": pod["metadata"]["name"], "namespace": "default"}
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
            cluster.ask("POST", f"/api/v1/namespaces/default/pods/{meta['name']}/eviction", body)
    cluster.until_ready("move", 3)
    assert {pod["spec"]["nodeName"] for pod in cluster.pods("move")} <= {"node-2", "node-3"}
    cluster.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": None}})
    remove(cluster, "move")


def test_a_control_plane_that_is_killed_as_a_whole_goes_on_where_it_was(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "--nodes", "2")
    try:
        cluster.start()
        run(cluster, "web", 2)
        before = everybody(cluster, "web", 2)
        cluster.kill()
        assert all(_lives(pid) for pid in before.values()), "pods died with the control plane"
        cluster.start()
        cluster.until_ready("web", 2)
        assert everybody(cluster, "web", 2) == before
        remove(cluster, "web")
        cluster.stop()
    finally:
        cluster.end()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _answers(cluster: Cluster, app: str) -> tuple[str, int] | None:
    try:
        pod, _, pid = reached(cluster, app)
    except (OSError, ValueError):
        return None
    return pod, pid


def _scaled(cluster: Cluster, app: str, replicas: int) -> bool:
    """The API server may have been killed a moment ago."""
    try:
        cluster.patch(f"{DEPLOYMENTS}/{app}", {"spec": {"replicas": replicas}})
    except (OSError, AssertionError):
        return False
    return True


def _progress(cluster: Cluster, app: str) -> dict[str, int]:
    found = cluster.ask("GET", "/apis/fathom.dev/v1alpha1/namespaces/default/workloadprogresses")["items"]
    mine = [each for each in found if each["spec"]["workload"]["name"] == app]
    return dict(mine[0].get("status", {}).get("current", {})) if mine else {}
