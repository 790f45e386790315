"""People of the tests, by static token, and what they may do: a viewer reads, an operator also steers."""

from __future__ import annotations

from tests.cluster.living import Cluster

VIEWER = "a-token-of-the-viewer-0123456789"
OPERATOR = "a-token-of-the-operator-0123456789"
NOBODY = "a-token-of-nobody-special-0123456789"
HOSTILE = "a-token-of-a-hostile-name-0123456789"
HOSTILE_NAME = "<img src=x onerror=document.title='owned'><b>bold</b>"
TOKENS = f"""
{VIEWER},vera,1001
{OPERATOR},oscar,1002
{NOBODY},nina,1003
{HOSTILE},{HOSTILE_NAME},1004
"""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


def allow_people(cluster: Cluster) -> None:
    """A viewer has Kubernetes' role `view` everywhere, and reads what Now shows of the cluster itself."""
    reads = {"verbs": ["get", "list", "watch"]}
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], **reads},
        {"apiGroups": ["fathom.dev"], "resources": ["componentsignals"], **reads},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], **reads},
    ]
    cluster.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "page-cluster"}, "rules": rules})
    bound = {"view": ["vera"], "page-cluster": ["vera", "oscar"], "admin": ["oscar", HOSTILE_NAME]}
    for role, users in bound.items():
        subjects = [{"kind": "User", "name": user, "apiGroup": GROUP} for user in users]
        body = {
            "metadata": {"name": f"page-{role}"},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": subjects,
        }
        cluster.ask("POST", f"{RBAC}/clusterrolebindings", body)
