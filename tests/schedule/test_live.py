"""A real server and a real scheduler: each rejection names its rule, count and nodes; what is freed wakes
exactly those it can help."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.running import Server, running

pytestmark = pytest.mark.live

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OWN = "/apis/fathom.dev/v1alpha1"
Obj = dict[str, Any]


class Cluster:
    def __init__(self, server: Server, process: subprocess.Popen[bytes]) -> None:
        self.server, self.process = server, process
        self._others = 0  # Pods that were made to be decided.

    def create(self, path: str, obj: Obj) -> Obj:
        made: Obj = self.server.request("POST", path, obj)
        return made

    def namespace(self, name: str, **labels: str) -> str:
        self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        return name

    def pod(self, namespace: str, name: str, **given: Any) -> Obj:
        return self.create(f"/api/v1/namespaces/{namespace}/pods", pod(name, **given))

    def get(self, namespace: str, name: str) -> Obj:
        found: Obj = self.server.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        return found

    def delete(self, namespace: str, name: str) -> None:
        self.server.request(
            "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0}
        )

    def bound(self, namespace: str, name: str) -> str:
        return str(until(lambda: self.get(namespace, name)["spec"].get("nodeName")))

    def waits(self, namespace: str, name: str) -> str:
        """What its condition says."""
        return str(until(lambda: _message(self.get(namespace, name))))

    def why(self, namespace: str, name: str) -> tuple[int, Obj]:
        code, text = self.fathom("why", f"pod/{name}", "-n", namespace, "-o", "json")
        return code, json.loads(text)

    def decisions(self, namespace: str, name: str) -> list[Obj]:
        _, text = self.fathom("decisions", f"pods/{name}", "-n", namespace, "-o", "json")
        return [one["decision"] for one in json.loads(text)]

    def decide_another(self) -> Obj:
        """A pod that fits nowhere is decided after all that came before it. Returns its decision."""
        if not self._others:
            self.namespace("others")
        self._others += 1
        name = f"p{self._others}"
        self.pod("others", name, nodeSelector={"nowhere": "none"})
        self.waits("others", name)
        (decision,) = self.decisions("others", name)
        return decision

    def until_scheduler_saw(self, made: Obj) -> None:
        """Kinds come over watches of their own, so what was made first may be heard last."""
        revision = int(made["metadata"]["resourceVersion"])
        until(lambda: self.decide_another()["seen"][made["kind"]]["revision"] >= revision, seconds=60)

    def fathom(self, *words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "fathom.cli", *words, "--kubeconfig", str(self.server.kubeconfig)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return ran.returncode, ran.stdout or ran.stderr

    def rejected(self, namespace: str, name: str) -> dict[str, list[str]]:
        """Rule -> nodes, as `why` groups them; the record and the answer now must agree."""
        message = self.waits(namespace, name)
        code, found = self.why(namespace, name)
        assert (code, found["asWanted"], found["stage"]) == (1, False, "unschedulable"), found
        assert found["verdict"] == "is not scheduled"
        assert (found["now"]["differs"], found["now"]["answer"]) == (False, message), found
        recorded, cited = self.decisions(namespace, name)[-1], found["decisions"][-1]
        assert (cited["id"], cited["verdict"]) == (recorded["id"], "unschedulable")
        groups = {one["reason"].partition(":")[0]: one["nodes"] for one in found["groups"]}
        counts = {rule: len(nodes) for rule, nodes in groups.items()}
        assert {one["reason"].partition(":")[0]: one["count"] for one in found["groups"]} == counts
        assert {one["rule"]: one["nodes"] for one in found["rejected"]} == counts
        said = {one["reason"].partition(": ")[2]: one["count"] for one in found["groups"]}
        assert said == recorded["filters"]
        assert {one["node"]: one["reason"] for one in found["nodes"] if not one["fits"]} == {
            node: one["reason"] for one in found["groups"] for node in one["nodes"]
        }
        return groups


def _message(obj: Obj) -> str:
    conditions = obj["status"].get("conditions") or ()
    return next(
        (
            str(one.get("message"))
            for one in conditions
            if one["type"] == "PodScheduled" and one["status"] == "False" and one["reason"] == "Unschedulable"
        ),
        "",
    )


def until(look: Callable[[], Any], seconds: float = 15.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)
    return found


def node(name: str, zone: str, **spec: Any) -> Obj:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {HOST: name, ZONE: zone}},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str, *, cpu: str = "10m", ports: tuple[int, ...] = (), labels: Obj | None = None, **spec: Any
) -> Obj:
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": cpu}},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"containers": [container], **spec}}


ALL = ["a", "b", "c", "tainted"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("live")
    with running(directory) as server:
        process = start(server, directory / "scheduler.log")
        found = Cluster(server, process)
        for name in "abc":
            found.create("/api/v1/nodes", node(name, f"zone-{name}"))
        taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
        found.create("/api/v1/nodes", node("tainted", "zone-t", taints=[taint]))
        try:
            yield found
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            assert "Traceback" not in (directory / "scheduler.log").read_text()


def start(server: Server, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fathom.cli", "serve", "scheduler"]
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "--kubeconfig", str(server.kubeconfig)], stdout=output, stderr=output
        )


def test_a_pod_that_fits_is_bound_and_its_decision_says_where_and_why(cluster: Cluster) -> None:
    space = cluster.namespace("fits")
    cluster.pod(space, "small", cpu="100m")
    where = cluster.bound(space, "small")
    code, found = cluster.why(space, "small")
    assert (code, found["stage"]) == (1, "not-ready")  # No agent has begun to start it.
    assert found["cause"] == f"the agent of {where} has not begun to start it"
    report_ready(cluster, space, "small")
    code, found = cluster.why(space, "small")
    assert (code, found["asWanted"], found["stage"], found["verdict"]) == (0, True, "placed", "is ready")
    assert found["cause"].startswith(f"it runs on {where}, the best of 3 nodes that fit, with ")
    assert found["groups"] == [
        {
            "reason": "TaintToleration: node(s) had untolerated taint {dedicated: x}",
            "count": 1,
            "nodes": ["tainted"],
            "recorded": True,
        }
    ]
    (decision,) = cluster.decisions(space, "small")
    annotations = cluster.get(space, "small")["metadata"]["annotations"]
    assert annotations["fathom.dev/decision"] == decision["id"]
    assert (decision["verdict"], decision["node"], decision["epoch"]) == ("bind", where, 1)
    (cited,) = found["decisions"]
    assert (cited["id"], cited["verdict"], cited["node"]) == (decision["id"], "bind", where)


def report_ready(cluster: Cluster, namespace: str, name: str) -> None:
    """As the agent of its node would."""
    running_since = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    main = {"name": "main", "image": "pause", "imageID": "", "ready": True, "restartCount": 0}
    status = {
        "phase": "Running",
        "conditions": [
            *cluster.get(namespace, name)["status"]["conditions"],
            {"type": "Ready", "status": "True"},
        ],
        "containerStatuses": [{**main, "state": running_since}],
    }
    cluster.server.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": status})


def test_resources(cluster: Cluster) -> None:
    space = cluster.namespace("resources")
    cluster.pod(space, "big", cpu="9")
    assert cluster.rejected(space, "big") == {
        "NodeResourcesFit": ["a", "b", "c"],
        "TaintToleration": ["tainted"],
    }
    message = cluster.waits(space, "big")
    assert message.startswith("0/4 nodes are available: ")
    assert "3 Insufficient cpu" in message
    _, found = cluster.why(space, "big")
    assert found["cause"] == "3 of 4 nodes have too little free cpu (NodeResourcesFit)"
    assert found["change"]["what"].startswith("lower cpu of container main to ")
    assert found["change"]["who"] == "the pod's owner"
    assert "/requests/cpu" in found["change"]["command"]
    assert found["change"]["what"] in found["summary"]


def test_taints(cluster: Cluster) -> None:
    space = cluster.namespace("taints")
    cluster.pod(space, "p", nodeSelector={HOST: "tainted"})
    assert cluster.rejected(space, "p") == {"TaintToleration": ["tainted"], "NodeAffinity": ["a", "b", "c"]}
    _, found = cluster.why(space, "p")
    assert found["cause"] == "1 of 4 nodes had untolerated taint {dedicated: x} (TaintToleration)"
    assert [one["what"] for one in (found["change"], *found["changes"])] == [
        "tolerate the taint dedicated=x:NoSchedule",
        f"drop {HOST}=tainted from the nodeSelector",
    ]


def test_affinity(cluster: Cluster) -> None:
    space = cluster.namespace("affinity")
    cluster.pod(space, "p", nodeSelector={"disk": "fast"})
    assert cluster.rejected(space, "p") == {"NodeAffinity": ["a", "b", "c"], "TaintToleration": ["tainted"]}


def test_ports(cluster: Cluster) -> None:
    space = cluster.namespace("ports")
    cluster.pod(space, "first", ports=(8099,), nodeSelector={HOST: "a"})
    assert cluster.bound(space, "first") == "a"
    cluster.pod(space, "second", ports=(8099,), nodeSelector={HOST: "a"})
    found = cluster.rejected(space, "second")
    assert found == {"NodePorts": ["a"], "NodeAffinity": ["b", "c"], "TaintToleration": ["tainted"]}


def test_topology(cluster: Cluster) -> None:
    space = cluster.namespace("topology")
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
        "nodeAffinityPolicy": "Ignore",
    }
    for name in ("first", "second"):
        cluster.pod(
            space, name, labels={"app": "s"}, nodeSelector={HOST: "a"}, topologySpreadConstraints=[spread]
        )
        if name == "first":
            assert cluster.bound(space, name) == "a"
    found = cluster.rejected(space, "second")
    assert found == {"PodTopologySpread": ["a"], "NodeAffinity": ["b", "c"], "TaintToleration": ["tainted"]}


def test_gates(cluster: Cluster) -> None:
    space = cluster.namespace("gates")
    cluster.pod(space, "p", schedulingGates=[{"name": "example.dev/wait"}])
    code, found = until(lambda: _recorded(cluster.why(space, "p")))
    assert (code, found["stage"], found["decisions"][-1]["verdict"]) == (1, "gated", "gated")
    assert (found["asWanted"], found["cause"]) == (False, "it has a scheduling gate")
    assert found["change"]["what"] == "remove the scheduling gate example.dev/wait"
    assert found["change"]["who"] == "whoever set the gate"
    path = f"/api/v1/namespaces/{space}/pods/p"
    cluster.server.patch(path, {"spec": {"schedulingGates": None}})
    assert cluster.bound(space, "p") in "abc"


def _recorded(answer: tuple[int, Obj]) -> tuple[int, Obj] | None:
    return answer if answer[1]["decisions"] else None


@pytest.mark.full
def test_policy(cluster: Cluster) -> None:
    space = cluster.namespace("policy")
    policy_made = cluster.create(
        f"{OWN}/schedulingpolicies", _own("SchedulingPolicy", "narrow-v1", {"maxZoneSkew": 1})
    )
    rollout = {"from": "narrow-v1", "to": "narrow-v2", "scope": {"namespaces": [space]}}
    rollout_made = cluster.create(f"{OWN}/policyrollouts", _own("PolicyRollout", "narrow", rollout))
    template = {**pod("web", labels={"app": "w"}), "metadata": {"labels": {"app": "w"}}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    made = cluster.create(
        f"/apis/apps/v1/namespaces/{space}/replicasets", {"metadata": {"name": "web"}, "spec": spec}
    )
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    cluster.until_scheduler_saw(rollout_made)
    cluster.until_scheduler_saw(policy_made)
    for name in ("first", "second", "third", "fourth"):
        obj = pod(name, labels={"app": "w"})
        obj["metadata"]["ownerReferences"] = [owner]
        cluster.create(f"/api/v1/namespaces/{space}/pods", obj)
        if name != "fourth":
            cluster.bound(space, name)
    # The tainted zone has none, so no other may have two.
    found = cluster.rejected(space, "fourth")
    assert found == {"MaxZoneSkew": ["a", "b", "c"], "TaintToleration": ["tainted"]}
    (decision,) = cluster.decisions(space, "fourth")
    assert [(one["resource"], one["name"], one["decisive"]) for one in decision["policies"]] == [
        ("schedulingpolicies.fathom.dev", "narrow-v1", True),
        ("policyrollouts.fathom.dev", "narrow", False),
    ]
    _, answer = cluster.why(space, "fourth")
    assert answer["cause"].startswith("policy/narrow-v1: ")
    assert answer["cause"].endswith("(MaxZoneSkew)")
    assert answer["rejected"][0]["rule"] == "MaxZoneSkew"
    revision = policy_made["metadata"]["resourceVersion"]
    assert answer["decisions"][-1]["considered"] == [
        f"policy narrow-v1 at {revision}, decisive",
        f"rollout narrow at {rollout_made['metadata']['resourceVersion']}",
    ]


def test_overrides(cluster: Cluster) -> None:
    space = cluster.namespace("overrides")
    spec = {
        "target": "workload/p",
        "scope": "cluster",
        "reason": "zones are sick",
        "expiresAfter": "10m",
        "changes": {"avoidZones": ["zone-a", "zone-b", "zone-c"]},
    }
    made = cluster.create(
        f"{OWN}/namespaces/{space}/scheduleroverrides", _own("SchedulerOverride", "away", spec)
    )
    cluster.until_scheduler_saw(made)
    cluster.pod(space, "p")
    assert cluster.rejected(space, "p") == {"Override": ["a", "b", "c"], "TaintToleration": ["tainted"]}
    _, found = cluster.why(space, "p")
    assert found["cause"].startswith("override/overrides/away: ")
    assert found["cause"].endswith("(Override)")
    assert found["rejected"][0]["rule"] == "Override"
    assert found["change"]["what"] == "end override overrides/away"
    assert made["kind"] == "SchedulerOverride"
    cluster.server.request("DELETE", f"{OWN}/namespaces/{space}/scheduleroverrides/away")
    assert cluster.bound(space, "p") in "abc"
    assert woken_by(cluster.decisions(space, "p")[-1]) == (
        "OverrideChanged", "scheduleroverrides.fathom.dev", "away"
    )  # fmt: skip


def woken_by(decision: Obj) -> tuple[str, str, str]:
    """What happened, and to which object."""
    cause = decision["cause"]
    return cause["event"], cause["resource"], cause["name"]


def _own(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "fathom.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.full
def test_a_freed_quota_wakes_as_many_as_it_can_help(cluster: Cluster) -> None:
    space = cluster.namespace("quota")
    limits = {"limits": [{"resources": {"cpu": "20m"}}]}
    made = cluster.create(f"{OWN}/tenantquotas", _own("TenantQuota", space, limits))
    cluster.until_scheduler_saw(made)
    for name in ("p1", "p2"):
        cluster.pod(space, name)
        cluster.bound(space, name)
    for name in ("p3", "p4"):
        cluster.pod(space, name)
        assert cluster.rejected(space, name) == {
            "TenantQuota": ["a", "b", "c"],
            "TaintToleration": ["tainted"],
        }
    _, found = cluster.why(space, "p3")
    assert found["cause"] == "quota/quota has no room left, on 3 of 4 nodes (TenantQuota)"
    assert found["change"]["what"] == "raise cpu of quota/quota from 20m to 30m"
    assert found["change"]["who"] == "whoever grants the tenant's quota"
    assert (found["change"]["nodes"], found["change"]["oneOf"]) == (3, 1)
    assert found["change"]["what"] not in [one["what"] for one in found["changes"]]  # One limit, three zones.
    cluster.delete(space, "p1")
    cluster.bound(space, "p3")
    assert woken_by(cluster.decisions(space, "p3")[-1])[1:] == ("pods", "p1")
    cluster.decide_another()
    assert len(cluster.decisions(space, "p4")) == 1
    raised = {"spec": {"limits": [{"resources": {"cpu": "30m"}}]}}
    cluster.server.patch(f"{OWN}/tenantquotas/{space}", raised)
    cluster.bound(space, "p4")
    assert woken_by(cluster.decisions(space, "p4")[-1]) == (
        "QuotaChanged", "tenantquotas.fathom.dev", "quota"
    )  # fmt: skip


@pytest.mark.full
def test_a_freed_node_wakes_exactly_those_it_can_help(cluster: Cluster) -> None:
    space = cluster.namespace("freed")
    cluster.create("/api/v1/nodes", node("d", "zone-d"))
    cluster.pod(space, "filler", cpu="3900m", nodeSelector={HOST: "d"})
    assert cluster.bound(space, "filler") == "d"
    cluster.pod(space, "helped", cpu="3", nodeSelector={HOST: "d"})
    cluster.pod(space, "too-big", cpu="7", nodeSelector={HOST: "d"})
    cluster.pod(space, "elsewhere", cpu="7", nodeSelector={HOST: "b"})
    for name in ("helped", "too-big", "elsewhere"):
        cluster.waits(space, name)
    cluster.delete(space, "filler")
    assert cluster.bound(space, "helped") == "d"
    types = {one["type"] for one in cluster.get(space, "helped")["status"]["conditions"]}
    assert types == {"Admitted", "PodScheduled", "Bound"}  # Nothing is left of its waiting.
    assert woken_by(cluster.decisions(space, "helped")[-1])[1:] == ("pods", "filler")
    cluster.decide_another()
    assert [len(cluster.decisions(space, name)) for name in ("helped", "too-big", "elsewhere")] == [2, 1, 1]


def test_a_pod_that_is_relabelled_wakes_those_who_kept_away_from_it(cluster: Cluster) -> None:
    space = cluster.namespace("relabelled")
    apart = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "noisy"}}}
    cluster.pod(space, "noisy", labels={"app": "noisy"}, nodeSelector={HOST: "a"})
    assert cluster.bound(space, "noisy") == "a"
    cluster.pod(
        space,
        "shy",
        nodeSelector={HOST: "a"},
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
    )
    cluster.waits(space, "shy")
    cluster.server.patch(f"/api/v1/namespaces/{space}/pods/noisy", {"metadata": {"labels": {"app": "calm"}}})
    assert cluster.bound(space, "shy") == "a"
    assert woken_by(cluster.decisions(space, "shy")[-1]) == ("NeighbourChanged", "pods", "noisy")


def test_room_that_a_class_keeps_is_opened_by_an_override(cluster: Cluster) -> None:
    space = cluster.namespace("kept")
    cluster.create("/api/v1/nodes", node("k", "zone-k"))
    kept = _own("CapacityClass", "kept", {"nodeSelector": {HOST: "k"}, "resources": {"cpu": "3"}})
    cluster.create(f"{OWN}/capacityclasses", kept)
    cluster.pod(space, "p", cpu="2", nodeSelector={HOST: "k"})
    cluster.waits(space, "p")
    _, found = cluster.why(space, "p")
    assert found["cause"].startswith("1 of ")
    assert found["cause"].endswith(" nodes have too little free cpu (NodeResourcesFit)")
    assert found["rejected"][0]["rule"] == "NodeResourcesFit"
    assert found["change"]["what"] == "allow capacity class kept to workload p by an override"
    spec = {
        "target": "workload/p",
        "scope": "cluster",
        "reason": "recovery",
        "expiresAfter": "10m",
        "changes": {"allowReservedCapacityClass": "kept"},
    }
    cluster.create(f"{OWN}/namespaces/{space}/scheduleroverrides", _own("SchedulerOverride", "open", spec))
    assert cluster.bound(space, "p") == "k"
    assert woken_by(cluster.decisions(space, "p")[-1]) == (
        "OverrideChanged", "scheduleroverrides.fathom.dev", "open"
    )  # fmt: skip


def test_a_pod_that_is_gone_is_told_from_the_record(cluster: Cluster) -> None:
    space = cluster.namespace("gone")
    cluster.pod(space, "p", nodeSelector={HOST: "b"})
    assert cluster.bound(space, "p") == "b"
    cluster.delete(space, "p")
    code, found = until(lambda: _gone(cluster.why(space, "p")))
    assert (code, found["asWanted"], found["verdict"]) == (1, False, "no longer exists")
    assert found["summary"].startswith(f"pod {space}/p no longer exists: deleted by fathom-admin at ")
    (cited,) = found["decisions"]
    assert (cited["verdict"], cited["node"], cited["attempt"]) == ("bind", "b", 1)
    code, text = cluster.fathom("why", "pod/never", "-n", space)
    assert (code, text) == (
        1,  # The answer is no: nothing went wrong with the question.
        f"fathom: error: there is no pod {space}/never, and nothing is on record about one\n",
    )


def _gone(answer: tuple[int, Obj]) -> tuple[int, Obj] | None:
    return answer if answer[1]["stage"] == "gone" else None


def test_decisions_as_json_have_all_their_fields(cluster: Cluster) -> None:
    space = cluster.namespace("fields")
    cluster.pod(space, "p")
    cluster.bound(space, "p")
    code, text = cluster.fathom("decisions", "Pod/p", "-n", space, "-o", "json", "--limit", "1")
    (only,) = json.loads(text)
    assert (code, set(only)) == (0, {"decision", "outcomes"})
    assert {"attempt", "filters", "victims", "overrides", "quotas", "message"} <= set(only["decision"])
    assert only["decision"]["attempt"] == 1
    assert cluster.fathom("decisions", "--limit", "0")[0] != 0


def test_a_pod_of_higher_priority_makes_room_and_says_whose(cluster: Cluster) -> None:
    space = cluster.namespace("preempts")
    cluster.create("/api/v1/nodes", node("e", "zone-e"))
    for name, value in (("low", -5), ("high", 1000)):
        made = {"metadata": {"name": name}, "value": value}
        cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", made)
    low = {"priorityClassName": "low", "terminationGracePeriodSeconds": 0, "nodeSelector": {HOST: "e"}}
    for name in ("victim", "bystander"):
        cluster.pod(space, name, cpu="3" if name == "victim" else "500m", **low)
        assert cluster.bound(space, name) == "e"
    cluster.pod(space, "vip", cpu="3", priorityClassName="high", nodeSelector={HOST: "e"})
    assert cluster.bound(space, "vip") == "e"
    assert cluster.get(space, "bystander")["spec"]["nodeName"] == "e"
    first, *_, last = cluster.decisions(space, "vip")
    assert (first["verdict"], first["node"], last["verdict"]) == ("preempt", "e", "bind")
    (victim,) = first["victims"]
    assert victim == "preempts/victim: preempted on e to make room for preempts/vip (priority 1000)"
    assert woken_by(last)[1:] == ("pods", "victim")


def test_what_victims_leave_is_reserved_until_the_pod_is_bound(cluster: Cluster) -> None:
    space = cluster.namespace("reserves")
    cluster.create("/api/v1/nodes", node("f", "zone-f"))
    cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "top"}, "value": 900})
    cluster.pod(space, "victim", cpu="3", nodeSelector={HOST: "f"})
    assert cluster.bound(space, "victim") == "f"
    cluster.pod(space, "vip", cpu="3", priorityClassName="top", nodeSelector={HOST: "f"})
    path = f"/apis/fathom.dev/v1alpha1/namespaces/{space}/reservations"
    (held,) = until(lambda: cluster.server.request("GET", path)["items"])
    assert (held["spec"]["nodeName"], held["spec"]["awaits"][0]["name"]) == ("f", "victim")
    assert held["metadata"]["annotations"]["fathom.dev/pod"] == "vip"
    assert not cluster.get(space, "vip")["spec"].get("nodeName")  # Nobody has ended the victim yet.
    (said,) = (
        one
        for one in cluster.get(space, "victim")["status"]["conditions"]
        if one["type"] == "DisruptionTarget"
    )
    assert (said["status"], said["reason"]) == ("True", "PreemptionByScheduler")
    _, found = cluster.why(space, "vip")
    assert (found["stage"], found["asWanted"]) == ("preempting", False)
    assert found["cause"] == "reserves/victim is being evicted from f for it"
    assert found["rejected"][0]["rule"] == "NodeResourcesFit"
    assert found["change"] == {
        "what": "wait for the eviction to end",
        "command": "",
        "who": "nobody has to act",
        "nodes": 1,
        "oneOf": 1,
    }
    cluster.delete(space, "victim")
    assert cluster.bound(space, "vip") == "f"
    assert (
        cluster.get(space, "vip")["metadata"]["annotations"]["fathom.dev/reservation"]
        == held["metadata"]["name"]
    )
    assert [one["status"]["phase"] for one in cluster.server.request("GET", path)["items"]] == ["Bound"]
