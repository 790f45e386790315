"""The eight links of a decision's path on a live cluster, in lists of decisions and in timelines: for the
scheduler's decision about a pod, and for those of controllers."""

from __future__ import annotations

import msgspec
import pytest
from tests.cluster.living import Cluster, deployment, until
from tests.decision_links import Document, assert_in_timeline, whole_decisions

# Who decides, and the kind that it writes when it acts.
CASES = [("scheduler", "pods"), ("deployments", "replicasets.apps"), ("replicasets", "pods")]
OWN = "/apis/fathom.dev/v1alpha1/namespaces"


def listed(cluster: Cluster, namespace: str) -> list[Document]:
    """The namespace's; and each pod's, for which its agent is asked too."""
    path = f"{OWN}/{namespace}/decisions?limit=5000"
    pods = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    about = "spec.subject.resource=pods,spec.subject.name="
    paths = [path, *(f"{path}&fieldSelector={about}{pod['metadata']['name']}" for pod in pods)]
    return [decision for each in paths for decision in cluster.ask("GET", each)["items"]]


def timeline(cluster: Cluster, decision: Document) -> Document:
    """With every entry: a decision that led to nothing but an Event is left out otherwise."""
    subject = decision["spec"]["subject"]
    asked = {"kind": subject["resource"].partition(".")[0], "name": subject["name"]}
    question = {
        "apiVersion": "fathom.dev/v1alpha1",
        "kind": "Timeline",
        "spec": {"subject": asked, "fold": False},
    }
    shown: Document = cluster.ask("POST", f"{OWN}/{subject['namespace']}/timelines", question)["status"]
    return shown


@pytest.mark.live
def test_all_eight_links_are_there_for_a_schedulers_and_for_controllers_decisions(
    cluster: Cluster, namespace: str
) -> None:
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("paths", 2))

    def whole() -> list[list[Document]]:
        decisions = listed(cluster, namespace)
        return [whole_decisions(decisions, controller, resource) for controller, resource in CASES]

    until(lambda: all(whole()), lambda: msgspec.json.encode(listed(cluster, namespace)).decode()[-20_000:])
    decisions = listed(cluster, namespace)
    for controller, resource in CASES:
        decision = whole_decisions(decisions, controller, resource)[0]
        assert_in_timeline(decision, resource, timeline(cluster, decision), decisions)
