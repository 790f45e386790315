"""The parts of a running cluster, each with the rights of its own account, are refused nothing."""

from __future__ import annotations

import re

from tests.cluster.living import Cluster, deployment, service, until

DEFAULT = "/namespaces/default"
APPS = f"/apis/apps/v1{DEFAULT}"
OWN = "/apis/fathom.dev/v1alpha1"
SELECTOR = {"matchLabels": {"app": "rights"}}
SAMPLE = re.compile(r"apiserver_request_total\{(.*)\} (\S+)")


def refused(cluster: Cluster) -> dict[str, float]:
    """How many requests were, by their labels, since the server began."""
    samples = SAMPLE.findall(cluster.ask("GET", "/metrics"))
    assert samples
    return {labels: float(count) for labels, count in samples if re.search(r'code="40[13]"', labels)}


def beside(kind: str, api: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "rights"}, "spec": spec}


def test_nothing_that_our_own_processes_do_is_forbidden(cluster: Cluster) -> None:
    """One of each: what the scheduler, every controller, the gateway and the agents write for it."""
    before = refused(cluster)  # Other tests of this cluster may have had something refused on purpose.
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "rights"}
    quick = {
        "containers": [{"name": "main", "image": "program", "command": ["true"]}],
        "restartPolicy": "Never",
    }
    objects = {
        f"{APPS}/deployments": deployment("rights", 2),
        f"/api/v1{DEFAULT}/services": service("rights"),
        f"/apis/policy/v1{DEFAULT}/poddisruptionbudgets": beside(
            "PodDisruptionBudget", "policy/v1", minAvailable=1, selector=SELECTOR
        ),
        f"/apis/autoscaling/v2{DEFAULT}/horizontalpodautoscalers": beside(
            "HorizontalPodAutoscaler", "autoscaling/v2", scaleTargetRef=target, minReplicas=3, maxReplicas=3
        ),
        f"/apis/batch/v1{DEFAULT}/jobs": beside(
            "Job", "batch/v1", ttlSecondsAfterFinished=0, template={"spec": quick}
        ),
        f"{OWN}{DEFAULT}/trafficroutes": beside(
            "TrafficRoute", "fathom.dev/v1alpha1", service="rights", routes=[{"zone": "a", "weight": 1}]
        ),
        f"{OWN}/schedulingpolicies": beside("SchedulingPolicy", "fathom.dev/v1alpha1", maxZoneSkew=5),
        f"{OWN}/policyrollouts": beside("PolicyRollout", "fathom.dev/v1alpha1", to="rights"),
    }
    for path, obj in objects.items():
        cluster.ask("POST", path, obj)
    cluster.until_ready("rights", 3)
    jobs = f"/apis/batch/v1{DEFAULT}/jobs"
    until(lambda: not cluster.ask("GET", jobs)["items"], lambda: str(cluster.ask("GET", jobs)))
    status = f"{OWN}{DEFAULT}/trafficroutes/rights"
    until(lambda: cluster.ask("GET", status).get("status", {}).get("observedBy"), cluster.told)
    rollout = f"{OWN}/policyrollouts/rights"
    until(lambda: cluster.ask("GET", rollout).get("status", {}).get("phase"), cluster.told)
    pod = cluster.pods("rights")[0]["metadata"]["name"]
    cluster.ask("DELETE", f"/api/v1{DEFAULT}/pods/{pod}")
    until(lambda: pod not in [one["metadata"]["name"] for one in cluster.ready("rights")], cluster.told)
    cluster.until_ready("rights", 3)
    for path in objects:
        if not path.endswith("/jobs"):
            cluster.ask("DELETE", f"{path}/rights")
    until(lambda: not cluster.pods("rights"), cluster.told)
    assert refused(cluster) == before
