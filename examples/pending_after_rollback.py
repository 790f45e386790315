"""Replicas stay pending after a rollback: which commands show why.

    .venv/bin/python examples/pending_after_rollback.py [--seed N]

The story runs on a real cluster in a temporary directory (its nodes are simulated). Names and numbers are
drawn from the seed. A scheduling policy is rolled out and rolled back. A workload is scaled up, and its new
replica waits for a quota; an autoscaler adds another one. The quota is raised, but the scheduler does not
learn of it, because a proxy holds back its watch of quotas. A user with a role in one namespace asks, from
another directory, what is wrong. Then the watch goes on, and the replicas run.

Exits with 0 if every answer was as it should be, with 1 if one was not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_cluster import Answer, Cluster, Obj, User, WrongAnswer, expect, has_condition, until

OWN = "/apis/fathom.dev/v1alpha1"


# What is drawn.


@dataclass(frozen=True)
class Draw:
    seed: int
    workload: str
    namespace: str
    tenant: str
    user: str
    zones: tuple[str, str, str]  # The quota is for the last one.
    nodes: int
    cpu_milli: int  # Of each replica.
    replicas_per_zone: int  # That the quota allows in its zone.
    policies: tuple[str, str]

    @property
    def replicas(self) -> int:
        """The zone with the quota is full, and each other zone has one pod more: by the spread constraint,
        the next pod can only go to the zone with the quota."""
        return 3 * self.replicas_per_zone + 2

    @property
    def reason(self) -> str:
        return f"quota/{self.tenant}-{self.zones[2]}"

    def quota(self, replicas: int) -> Obj:
        resources = {"cpu": f"{replicas * self.cpu_milli}m"}
        return {"limits": [{"zone": self.zones[2], "resources": resources}]}


def draw(seed: int) -> Draw:
    rng = random.Random(seed)
    area = rng.choice(("risk", "shop", "mail", "maps", "bank"))
    tenant = f"{area}-{rng.randrange(100)}"
    zones = [f"{rng.choice(('north', 'south', 'east'))}-{letter}" for letter in rng.sample("abcdefgh", 3)]
    version = rng.randrange(1, 50)
    return Draw(
        seed=seed,
        workload=f"{area}-{rng.choice(('api', 'web', 'worker'))}-{rng.randrange(1000)}",
        namespace=f"{tenant}-{rng.choice(('prod', 'test'))}",
        tenant=tenant,
        user=f"{rng.choice(('alice', 'bob', 'carol'))}-{rng.randrange(100)}",
        zones=(zones[0], zones[1], zones[2]),
        nodes=rng.choice((3, 6)),
        cpu_milli=rng.choice((50, 100, 150, 200)),
        replicas_per_zone=rng.randrange(1, 4),
        policies=(f"policy-v{version}", f"policy-v{version + 1}"),
    )


# The story.


class Story:
    def __init__(self, cluster: Cluster, drawn: Draw, user: User, show: Callable[[str], None]) -> None:
        self._cluster, self._drawn, self._user, self._show = cluster, drawn, user, show
        self._deployments = f"/apis/apps/v1/namespaces/{drawn.namespace}/deployments"
        self._quota = f"{OWN}/tenantquotas/{drawn.tenant}"

    def run(self) -> None:
        self._workload_runs()
        self._policy_is_rolled_back()
        pod = self._replica_waits()
        self._autoscaler_adds_replicas()
        self._cluster.proxy.hold()
        revision = self._quota_is_raised()
        self._ask_status(pod, revision)
        self._ask_why(pod)
        self._cluster.proxy.release()
        self._until(lambda: self._is_ready(pod), f"pod {pod} runs, after the scheduler's watch goes on")
        self._ask_timeline(pod)

    def _workload_runs(self) -> None:
        drawn = self._drawn
        self._show(f"{drawn.workload} runs with {drawn.replicas} replicas; {drawn.zones[2]} is full by quota")
        quota = drawn.quota(drawn.replicas_per_zone)
        self._cluster.create(f"{OWN}/tenantquotas", "TenantQuota", drawn.tenant, quota)
        self._deploy(drawn.workload, drawn.replicas, spread_over_zones(drawn.workload))
        self._until(lambda: self._ready(drawn.workload) == drawn.replicas, "all replicas are ready")

    def _policy_is_rolled_back(self) -> None:
        """The new policy lets zones differ by one pod only. One zone is cordoned, so a pod waits."""
        drawn, before, after = self._drawn, *self._drawn.policies
        self._show(f"policy {after} is rolled out, makes a pod wait, and is rolled back to {before}")
        self._cluster.create(f"{OWN}/schedulingpolicies", "SchedulingPolicy", before, {})
        self._cluster.create(f"{OWN}/schedulingpolicies", "SchedulingPolicy", after, {"maxZoneSkew": 1})
        rollout = {
            "from": before,
            "to": after,
            "scope": {"tenants": [drawn.tenant]},
            "steps": [{"percent": 100, "hold": "10m"}],
        }
        self._cluster.create(f"{OWN}/policyrollouts", "PolicyRollout", f"to-{after}", rollout)
        self._until(lambda: self._phase() == "Canary", "the rollout begins")
        self._cordon(True)
        self._deploy("batch", 3, {})
        self._until(lambda: self._phase() == "RolledBack", "the policy is rolled back")
        self._until(lambda: self._ready("batch") == 3, "under the old policy, the waiting pod runs")
        self._cluster.request("DELETE", f"{self._deployments}/batch")
        self._cordon(False)

    def _replica_waits(self) -> str:
        drawn = self._drawn
        self._show(f"{drawn.workload} is scaled to {drawn.replicas + 1}: the new replica waits for the quota")
        self._cluster.patch(
            f"{self._deployments}/{drawn.workload}", {"spec": {"replicas": drawn.replicas + 1}}
        )
        pod = str(self._until(self._waiting, "the scheduler reports that a replica is unschedulable")[0])
        self._until(lambda: self._has_event(pod, "FailedScheduling"), "the Event FailedScheduling is there")
        return pod

    def _autoscaler_adds_replicas(self) -> None:
        drawn = self._drawn
        self._show(f"an autoscaler wants at least {drawn.replicas + 2} replicas, and adds one that waits too")
        target = {"type": "Utilization", "averageUtilization": 50}
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": drawn.workload},
            "minReplicas": drawn.replicas + 2,
            "maxReplicas": 2 * drawn.replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        }
        path = f"/apis/autoscaling/v2/namespaces/{drawn.namespace}/horizontalpodautoscalers"
        self._cluster.create(path, "HorizontalPodAutoscaler", drawn.workload, spec, "autoscaling/v2")
        self._until(lambda: len(self._waiting()) == 2, "two replicas are unschedulable")
        held = f"{path}/{drawn.workload}"
        self._until(
            lambda: "HeldByQuota" in json.dumps(self._cluster.request("GET", held).get("status", {})),
            "the autoscaler reports that the quota holds replicas",
        )

    def _quota_is_raised(self) -> int:
        self._show("the quota is raised, and the scheduler's watch of quotas is held")
        raised = self._cluster.patch(self._quota, {"spec": self._drawn.quota(100)})
        return int(raised["metadata"]["resourceVersion"])

    # The questions.

    def _ask_status(self, pod: str, quota_revision: int) -> None:
        drawn, subject = self._drawn, f"deployment/{self._drawn.workload}"
        self._show(f"$ fathom status {subject}\n{self._user.fathom('status', subject).out}")
        answer = self._user.fathom("status", subject, "-o", "json")
        status = answer.document
        expect(answer.code == 1, "status exits with 1 while replicas are pending", answer.code)
        workload = self._cluster.request("GET", f"{self._deployments}/{drawn.workload}")
        generation = workload["metadata"]["generation"]
        expect(status["generation"]["value"] == generation, f"generation {generation}", status["generation"])
        rollback = status["rollbackObserved"]
        expect(rollback["value"] is True, "the scheduler has observed the rollback", rollback)
        pending = status["pendingReplicas"]
        expect(pod in pending["value"] and len(pending["value"]) == 2, f"{pod} and another", pending)
        expect(status["lastReason"]["value"] == drawn.reason, drawn.reason, status["lastReason"])
        used, latest = (status[field]["TenantQuota"] for field in ("cacheRevision", "latestRevision"))
        expect(used["value"] < quota_revision, f"the cache is before revision {quota_revision}", used)
        expect(latest["value"] >= quota_revision, f"the newest quota is at {quota_revision} or later", latest)
        autoscaler = status["autoscalerReason"]
        expect("HeldByQuota" in str(autoscaler["value"]), "the autoscaler is held by the quota", autoscaler)
        repair = status["repairCondition"]
        expect(
            repair["value"]
            and (repair["value"]["type"], repair["value"]["status"]) == ("RepairComplete", "True"),
            "RepairComplete=True",
            repair,
        )
        expect(repair["value"]["observedGeneration"] == generation, f"of generation {generation}", repair)

    def _ask_why(self, pod: str) -> None:
        """The scheduler's state says that its view is old once it has received nothing for a while."""

        def ask() -> Answer:
            return self._user.fathom("why", f"pod/{pod}")

        self._until(lambda: "TenantQuota is stale" in ask().out.partition("\n")[0], "why says what is stale")
        answer = ask()
        self._show(f"$ fathom why pod/{pod}\n{answer.out}")
        expect(answer.code == 1, "why exits with 1 while the pod waits", answer.code)
        expect(self._drawn.reason in answer.out, f"why names {self._drawn.reason}", answer.out)
        expect("node-" not in answer.out, "a user of one namespace sees no names of nodes", answer.out)

    def _ask_timeline(self, pod: str) -> None:
        answer = self._user.fathom("timeline", f"pod/{pod}")
        self._show(f"$ fathom timeline pod/{pod}\n{answer.out}")
        document = self._user.fathom("timeline", f"pod/{pod}", "-o", "json").document
        entries = in_this_order(document["entries"], self._expected_entries(pod))
        raised, received, chosen = (entries[name]["id"] for name in ("quota raised", "received", "chosen"))
        edges = [(edge["cause"], edge["effect"]) for edge in document["edges"]]
        expect((raised, received) in edges, "the cache received the quota because it was raised", edges)
        expect((received, chosen) in edges, "a node was chosen because the cache had the new quota", edges)

    def _expected_entries(self, pod: str) -> dict[str, tuple[str, ...]]:
        """By name: words of the entry."""
        drawn = self._drawn
        deployment, pod_words = f"deployment {drawn.workload}", f"pod {pod}"
        return {
            "desired replicas increase": ("fathom-admin", "sets spec.replicas of", deployment),
            "the controller scales": ("deployments", f"scale to {drawn.replicas + 1}"),
            "created": ("replicasets", "creates", pod_words),
            "caches read": ("scheduler", "reads its caches for", pod_words, "TenantQuota at revision"),
            "zones rejected": ("rule PodTopologySpread", "rejects", pod_words),
            "quota rejects": ("rule TenantQuota", "rejects", pod_words, drawn.reason),
            "no node": ("scheduler", "finds no node for", pod_words),
            "reported": ("reports the Event FailedScheduling of", pod_words, drawn.reason),
            "autoscaler decides": ("autoscaling", f"{drawn.replicas + 1} -> {drawn.replicas + 2}"),
            "autoscaler raises": ("autoscaling", "sets spec.replicas of", deployment),
            "quota raised": ("fathom-admin", "sets spec.limits", f"tenantquota {drawn.tenant}"),
            "received": ("scheduler", "receives revision", f"tenantquota {drawn.tenant}", "in its cache"),
            "chosen": ("scheduler", "chooses", pod_words),
            "bound": ("scheduler", "binds", pod_words),
        }

    # The state of the cluster.

    def _until(self, check: Callable[[], Any], what: str) -> Any:
        return until(check, what, self._cluster.logs)

    def _deploy(self, app: str, replicas: int, spec: Obj) -> None:
        cpu = self._drawn.cpu_milli
        container: Obj = {"name": "main", "image": "app:1"}
        if spec:
            container["resources"] = {"requests": {"cpu": f"{cpu}m"}}
        template = {
            "metadata": {
                "labels": {"app": app},
                "annotations": {"fathom.dev/simulated": json.dumps({"cpu_milli": cpu})},
            },
            "spec": {"containers": [container], **spec},
        }
        wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template}
        self._cluster.create(self._deployments, "Deployment", app, wanted, "apps/v1")

    def _cordon(self, cordoned: bool) -> None:
        for node in self._cluster.request("GET", "/api/v1/nodes")["items"]:
            if node["metadata"]["labels"]["topology.kubernetes.io/zone"] == self._drawn.zones[2]:
                path = f"/api/v1/nodes/{node['metadata']['name']}"
                self._cluster.patch(path, {"spec": {"unschedulable": cordoned or None}})

    def _phase(self) -> str:
        rollout = self._cluster.request("GET", f"{OWN}/policyrollouts/to-{self._drawn.policies[1]}")
        return str(rollout.get("status", {}).get("phase", ""))

    def _ready(self, app: str) -> int:
        return sum(has_condition(pod, "Ready") for pod in self._cluster.pods(self._drawn.namespace, app))

    def _waiting(self) -> list[str]:
        """Replicas that the scheduler has reported, oldest first."""
        pods = self._cluster.pods(self._drawn.namespace, self._drawn.workload)
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName") and reported(pod)]
        waiting.sort(key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        return [pod["metadata"]["name"] for pod in waiting]

    def _has_event(self, pod: str, reason: str) -> bool:
        events = self._cluster.request("GET", f"/api/v1/namespaces/{self._drawn.namespace}/events")["items"]
        return any((event["involvedObject"]["name"], event["reason"]) == (pod, reason) for event in events)

    def _is_ready(self, name: str) -> bool:
        path = f"/api/v1/namespaces/{self._drawn.namespace}/pods/{name}"
        return has_condition(self._cluster.request("GET", path), "Ready")


def in_this_order(entries: list[Obj], expected: dict[str, tuple[str, ...]]) -> dict[str, Obj]:
    """The entries that have these words, each after the one before."""
    texts = [f"{entry['actor']} {entry['text']}" for entry in entries]
    chosen: dict[str, Obj] = {}
    start = 0
    for name, words in expected.items():
        fitting = [index for index in range(start, len(texts)) if all(word in texts[index] for word in words)]
        expect(fitting, f"{name}: an entry with {words}, after entry {start}", "\n".join(texts))
        chosen[name] = entries[fitting[0]]
        start = fitting[0] + 1
    return chosen


def reported(pod: Obj) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def spread_over_zones(app: str) -> Obj:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"topologySpreadConstraints": [constraint]}


@contextlib.contextmanager
def started(drawn: Draw) -> Iterator[tuple[Cluster, User]]:
    with tempfile.TemporaryDirectory(prefix="fathom-example-") as name:
        cluster = Cluster(Path(name) / "cluster", nodes=drawn.nodes, zones=drawn.zones)
        (Path(name) / "cluster").mkdir()
        try:
            cluster.start()
            labels = {"fathom.dev/tenant": drawn.tenant}
            cluster.request(
                "POST", "/api/v1/namespaces", {"metadata": {"name": drawn.namespace, "labels": labels}}
            )
            yield cluster, User(cluster, drawn.user, drawn.namespace, Path(name) / "elsewhere")
        finally:
            cluster.stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    seed = parser.parse_args().seed
    drawn = draw(seed)
    print(f"seed {seed}: {drawn}", flush=True)
    try:
        with started(drawn) as (cluster, user):
            Story(cluster, drawn, user, lambda text: print(f"\n{text}", flush=True)).run()
    except WrongAnswer as error:
        print(f"seed {seed}: {error}", file=sys.stderr)
        return 1
    print(f"seed {seed}: as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
