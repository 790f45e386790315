"""What a node may ask and write."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.auth.cluster import Cluster, node, pod, target, user

from fathom.api.auth.authorize import Authorizer
from fathom.api.auth.node_writes import restrict_node
from fathom.api.request import RequestTarget
from fathom.model.accounts import NODES
from fathom.model.errors import ApiError
from fathom.model.mirror import MIRROR
from fathom.model.objects import Obj, with_metadata

N1 = user("system:node:n1", NODES)
LEASE = "coordination.k8s.io"


def web(on: str = "n1", **spec: Any) -> Obj:
    return pod("web", on=on, **spec)


def allowed(cluster: Cluster, asked: RequestTarget) -> bool:
    return Authorizer(cluster).authorize(N1, asked).allowed


@pytest.mark.parametrize(
    "asked",
    [
        target("get", "nodes", namespace="", name="n1"),
        target("patch", "nodes/status", namespace="", name="n1"),
        target("watch", "pods", namespace=""),
        target("watch", "services", namespace=""),
        target("list", "endpointslices", group="discovery.k8s.io", namespace=""),
        target("create", "events"),
        target("patch", "pods/status", name="web"),
        target("delete", "pods", name="web"),
        target("update", "leases", group=LEASE, namespace="kube-node-lease", name="n1"),
        target("create", "leases", group=LEASE, namespace="kube-node-lease"),
    ],
)
def test_a_node_may_do_its_work_without_any_binding(asked: RequestTarget) -> None:
    assert allowed(Cluster(), asked)


@pytest.mark.parametrize(
    "asked",
    [
        target("update", "leases", group=LEASE, namespace="kube-node-lease", name="n2"),
        target("update", "leases", group=LEASE, namespace="default", name="n1"),
        target("list", "leases", group=LEASE, namespace="kube-node-lease"),
        target("delete", "nodes", namespace="", name="n1"),
        target("update", "pods", name="web"),
        target("create", "deployments", group="apps"),
        target("list", "secrets", namespace=""),
        target("get", "secrets", name="unrelated"),
        target("create", "serviceaccounts/token", name="unrelated"),
        target("get", "clusterroles", group="rbac.authorization.k8s.io", namespace="", name="x"),
        target("get", "/metrics"),
    ],
)
def test_a_node_may_not_do_what_is_not_its_work(asked: RequestTarget) -> None:
    assert not allowed(Cluster(web()), asked)


REFERRING: dict[str, tuple[str, dict[str, Any]]] = {
    "a secret volume": ("secrets", {"volumes": [{"name": "v", "secret": {"secretName": "x"}}]}),
    "a pull secret": ("secrets", {"imagePullSecrets": [{"name": "x"}]}),
    "a secret variable": (
        "secrets",
        {"containers": [{"env": [{"name": "V", "valueFrom": {"secretKeyRef": {"name": "x"}}}]}]},
    ),
    "secrets of an init container": (
        "secrets",
        {"initContainers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]},
    ),
    "a storage driver's secret": ("secrets", {"volumes": [{"csi": {"nodePublishSecretRef": {"name": "x"}}}]}),
    "a projected config map": (
        "configmaps",
        {"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "x"}}]}}]},
    ),
    "a config map volume": ("configmaps", {"volumes": [{"name": "v", "configMap": {"name": "x"}}]}),
    "config map variables": ("configmaps", {"containers": [{"envFrom": [{"configMapRef": {"name": "x"}}]}]}),
    "a claim": ("persistentvolumeclaims", {"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}),
}


@pytest.mark.parametrize("how", REFERRING)
def test_a_node_sees_what_a_pod_bound_to_it_refers_to(how: str) -> None:
    plural, spec = REFERRING[how]
    asked = target("get", plural, name="x")
    assert allowed(Cluster(web(**spec)), asked)
    assert not allowed(Cluster(web(on="n2", **spec)), asked)
    assert not allowed(Cluster(web(**spec)), target("get", plural, name="y"))
    assert not allowed(Cluster(web(**spec)), target("get", plural, name="x", namespace="other"))
    assert not allowed(Cluster({**web(**spec), "status": {"phase": "Failed"}}), asked)


def test_a_node_loses_sight_of_a_secret_with_the_last_pod_that_needs_it() -> None:
    needs: dict[str, Any] = {"imagePullSecrets": [{"name": "x"}]}
    first, second = web(**needs), pod("second", on="n1", **needs)
    cluster = Cluster(first, second)
    judge, asked = Authorizer(cluster), target("get", "secrets", name="x")
    assert judge.authorize(N1, asked).allowed
    cluster.remove(second)
    assert judge.authorize(N1, asked).allowed
    cluster.remove(first)
    assert not judge.authorize(N1, asked).allowed


def test_a_pod_that_was_seen_before_is_asked_first_and_no_list_is_made() -> None:
    cluster = Cluster(web(imagePullSecrets=[{"name": "x"}]))
    judge = Authorizer(cluster)
    assert judge.authorize(N1, target("get", "secrets", name="x")).allowed
    lists = cluster.lists
    assert judge.authorize(N1, target("get", "secrets", name="x")).allowed
    assert cluster.lists == lists


def test_a_volume_is_open_to_a_node_through_the_claim_of_its_pod() -> None:
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {"claimRef": {"namespace": "default", "name": "data"}},
    }
    asked = target("get", "persistentvolumes", namespace="", name="pv")
    mounting = web(volumes=[{"persistentVolumeClaim": {"claimName": "data"}}])
    assert allowed(Cluster(volume, mounting), asked)
    assert not allowed(Cluster(volume, web()), asked)
    assert not allowed(Cluster(mounting), asked)


def test_a_node_may_ask_for_tokens_of_the_accounts_of_its_pods() -> None:
    asked = target("create", "serviceaccounts/token", name="bot")
    assert allowed(Cluster(web(serviceAccountName="bot")), asked)
    assert not allowed(Cluster(web(on="n2", serviceAccountName="bot")), asked)


@pytest.mark.parametrize("name", ["system:node:", "n1", "system:serviceaccount:x:y"])
def test_the_group_alone_does_not_make_a_node(name: str) -> None:
    judge = Authorizer(Cluster())
    assert not judge.authorize(user(name, NODES), target("list", "pods")).allowed
    assert not judge.authorize(user("system:node:n1"), target("list", "pods")).allowed


# Writes.


def refused(asked: RequestTarget, obj: Obj | None, old: Obj | None = None, *others: Obj) -> str | None:
    try:
        restrict_node(N1, asked, obj, old, Cluster(node("n1"), *others))
    except ApiError as error:
        return error.message if error.code == 403 else f"not a refusal: {error.code}"
    return None


NODE = target("update", "nodes", namespace="", name="n1")


def test_others_than_nodes_are_not_restricted() -> None:
    restrict_node(user("jane"), target("delete", "pods", name="web"), None, web(on="n2"), Cluster())


def test_a_node_that_does_not_say_which_is_refused() -> None:
    with pytest.raises(ApiError, match='could not determine node from user "system:node:"'):
        restrict_node(user("system:node:", NODES), NODE, node("n1"), node("n1"), Cluster())


def test_a_node_writes_only_its_own_node() -> None:
    assert refused(NODE, node("n1", podCIDR="x"), node("n1")) is None
    assert refused(target("update", "nodes", namespace="", name="n2"), node("n2"), node("n2")) == (
        'nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"'
    )
    assert refused(target("create", "nodes", namespace=""), node("n1")) is None
    assert refused(target("create", "nodes", namespace=""), node("n2")) is not None


@pytest.mark.parametrize(
    "label",
    [
        "node-restriction.kubernetes.io/team",
        "a.node-restriction.kubernetes.io/team",
        "node-role.kubernetes.io/control-plane",
        "example.k8s.io/x",
    ],
)
def test_a_node_does_not_label_itself_into_a_better_place(label: str) -> None:
    with_label = with_metadata(node("n1"), labels={label: "x"})
    assert (
        refused(NODE, with_label, node("n1"))
        == f'nodes "n1" is forbidden: is not allowed to modify labels: {label}'
    )
    assert refused(NODE, node("n1"), with_label) is not None  # Nor out of a worse one.
    assert refused(NODE, with_label, with_label) is None
    assert refused(target("create", "nodes", namespace=""), with_label) == (
        f'nodes "n1" is forbidden: is not allowed to set the following labels: {label}'
    )


@pytest.mark.parametrize(
    "label",
    [
        "zone",
        "example.com/x",
        "kubernetes.io/hostname",
        "node.kubernetes.io/x",
        "topology.kubernetes.io/zone",
    ],
)
def test_a_node_may_describe_itself(label: str) -> None:
    assert refused(NODE, with_metadata(node("n1"), labels={label: "x"}), node("n1")) is None


def test_a_node_keeps_its_taints_and_owners() -> None:
    tainted = node("n1", taints=[{"key": "x", "effect": "NoSchedule"}])
    assert (
        refused(NODE, node("n1"), tainted)
        == 'nodes "n1" is forbidden: node "n1" is not allowed to modify taints'
    )
    owned = with_metadata(node("n1"), ownerReferences=[{"name": "x"}])
    assert refused(NODE, owned, node("n1")) is not None


def test_a_node_reports_only_on_pods_bound_to_it() -> None:
    status = target("patch", "pods/status", name="web")
    assert refused(status, {**web(), "status": {"phase": "Running"}}, web()) is None
    assert refused(status, web(on="n2"), web(on="n2")) == (
        'pods "web" is forbidden: node "n1" can only update pod status '
        "for pods with spec.nodeName set to itself"
    )
    assert refused(status, with_metadata(web(), labels={"a": "b"}), web()) == (
        'pods "web" is forbidden: node "n1" cannot update labels through pod status'
    )


def test_a_node_deletes_and_evicts_only_pods_bound_to_it() -> None:
    delete, evict = target("delete", "pods", name="web"), target("create", "pods/eviction", name="web")
    assert refused(delete, None, web()) is None
    assert refused(delete, None, web(on="n2")) is not None
    assert refused(evict, {}, None, web()) is None
    assert refused(evict, {}, None, web(on="n2")) is not None
    assert refused(evict, {}, None) is not None


def mirror(**changes: Any) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}
    meta = {"annotations": {MIRROR: "hash"}, "ownerReferences": [owner]}
    return with_metadata(web(**changes), **meta)


def test_a_node_creates_only_mirror_pods_of_its_own() -> None:
    create = target("create", "pods")
    assert refused(create, mirror()) is None
    assert refused(create, web()) == (
        'pods "web" is forbidden: pod does not have "kubernetes.io/config.mirror" annotation, '
        'node "n1" can only create mirror pods'
    )
    assert refused(create, with_metadata(mirror(), ownerReferences=None)) is not None
    assert refused(create, mirror(on="n2")) is not None
    assert refused(create, mirror(serviceAccountName="bot")) is not None
    assert refused(create, mirror(imagePullSecrets=[{"name": "x"}])) == (
        'pods "web" is forbidden: node "n1" can not create pods that reference secrets'
    )


@pytest.mark.parametrize("what", ["pods", "pods/ephemeralcontainers", "pods/binding"])
def test_a_node_does_not_change_pods_in_other_ways(what: str) -> None:
    assert refused(target("update", what, name="web"), web(), web()) is not None


def test_a_node_renews_only_its_own_lease() -> None:
    own = {"kind": "Lease", "metadata": {"name": "n1", "namespace": "kube-node-lease"}}
    create = target("create", "leases", group=LEASE, namespace="kube-node-lease")
    assert refused(create, own) is None
    assert refused(create, with_metadata(own, name="n2")) is not None
    assert refused(target("update", "leases", group=LEASE, name="n1"), own, own) is not None


def test_a_node_gets_tokens_only_for_pods_that_run_on_it() -> None:
    create = target("create", "serviceaccounts/token", name="bot")

    def bound(uid: str = "pod-uid", kind: str = "Pod") -> Obj:
        return {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": "web", "uid": uid}}}

    assert refused(create, bound(), None, web()) is None
    assert refused(create, bound(), None, web(on="n2")) is not None
    assert refused(create, bound("other"), None, web()) is not None
    assert refused(create, bound(""), None, web()) is not None
    assert refused(create, bound(kind="Secret"), None, web()) is not None
    assert refused(create, {"spec": {}}, None, web()) is not None
    assert refused(create, {}, None, web()) is not None
