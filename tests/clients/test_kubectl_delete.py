"""`kubectl delete`: one, many, gently, at once; what depends on the deleted follows, blocks or stays."""

from __future__ import annotations

import pytest
from tests.clients.kubectl import Kubectl, eventually, manifest
from tests.clients.objects import Obj, config_map, deployment, owned, pod, replica_set
from tests.clients.running import Server

pytestmark = pytest.mark.kubectl

HELD = "example.com/held"


def held(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "finalizers": [HELD]}}


def release(kubectl: Kubectl, what: str) -> None:
    kubectl.ok(f"patch {what} --type=merge -p", '{"metadata":{"finalizers":null}}')


def exists(kubectl: Kubectl, what: str) -> bool:
    return bool(kubectl.ok(f"get {what} --ignore-not-found -o name"))


@pytest.fixture
def family(kubectl: Kubectl) -> Kubectl:
    """A deployment, its replica set, and that one's pod."""
    kubectl.create(deployment("web"))
    kubectl.create(replica_set("web", owner=kubectl.json("get deploy web")))
    kubectl.create(owned(pod("web"), kubectl.json("get rs web")))
    return kubectl


def test_by_name_by_label_all_and_from_a_file(kubectl: Kubectl) -> None:
    labels = {"l": "1"}
    objs = [config_map(name, labels=labels) for name in ("a", "b", "c", "d")]
    kubectl.create(*objs, config_map("e"), config_map("f"))
    assert kubectl.ok("delete cm a") == 'configmap "a" deleted\n'
    assert kubectl.ok("delete cm/b") == 'configmap "b" deleted\n'
    assert kubectl.ok("delete cm -l l=1") == 'configmap "c" deleted\nconfigmap "d" deleted\n'
    assert kubectl.ok("delete -f -", stdin=manifest(config_map("e"))) == 'configmap "e" deleted\n'
    assert kubectl.ok("delete cm --all") == 'configmap "f" deleted\n'
    done = kubectl.run("delete cm --all")
    assert (done.code, done.out, done.err) == (0, "No resources found\n", "")


def test_several_kinds_and_field_selectors(kubectl: Kubectl) -> None:
    kubectl.create(config_map("a"), pod("a"), pod("b"))
    assert kubectl.ok("delete pod --field-selector=metadata.name=b") == 'pod "b" deleted\n'
    assert kubectl.ok("delete cm,pod --all") == 'configmap "a" deleted\npod "a" deleted\n'
    kubectl.create(config_map("a"), pod("a"))
    assert kubectl.ok("delete cm/a pod/a -o name") == "configmap/a\npod/a\n"


def test_what_is_not_there(kubectl: Kubectl) -> None:
    assert kubectl.fails("delete cm none") == 'Error from server (NotFound): configmaps "none" not found'
    assert kubectl.ok("delete cm none --ignore-not-found") == ""
    kubectl.create(config_map("a"))
    done = kubectl.run("delete cm a none")
    assert (done.code, done.out) == (1, 'configmap "a" deleted\n')


def test_a_dry_run_deletes_nothing(kubectl: Kubectl) -> None:
    kubectl.create(config_map("a"))
    assert kubectl.ok("delete cm a --dry-run=server") == 'configmap "a" deleted (server dry run)\n'
    assert exists(kubectl, "cm a")


def test_a_finalizer_holds_until_it_is_taken_away(kubectl: Kubectl) -> None:
    kubectl.create(held(config_map("c")))
    with kubectl.started("delete cm c") as deleting:
        deleting.until('configmap "c" deleted')
        meta = kubectl.json("get cm c")["metadata"]
        assert (meta["finalizers"], meta["deletionGracePeriodSeconds"]) == ([HELD], 0)
        assert meta["deletionTimestamp"]
        assert deleting.running
        said = kubectl.fails(
            "patch cm c --type=merge -p", '{"metadata":{"finalizers":["example.com/other"]}}'
        )
        assert said == (
            'The ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if '
            'the object is being deleted, found new finalizers []string{"example.com/other"}'
        )
        release(kubectl, "cm c")
        assert deleting.ended().code == 0
    assert not exists(kubectl, "cm c")


def test_deleting_with_a_timeout_gives_up(kubectl: Kubectl) -> None:
    kubectl.create(held(config_map("c")))
    done = kubectl.run("delete cm c --timeout=1s")
    assert (done.code, done.out) == (1, 'configmap "c" deleted\n')
    assert done.err.endswith("error: timed out waiting for the condition on configmaps/c\n")
    release(kubectl, "cm c")


def test_background_the_dependents_follow(family: Kubectl) -> None:
    assert family.ok("delete deploy web") == 'deployment.apps "web" deleted\n'
    family.ok("wait rs/web pod/web --for=delete --timeout=20s")
    assert not exists(family, "rs,pod")


def test_foreground_the_owner_waits_for_its_dependents(family: Kubectl) -> None:
    family.ok("patch pod web --type=merge -p", f'{{"metadata":{{"finalizers":["{HELD}"]}}}}')
    with family.started("delete deploy web --cascade=foreground") as deleting:
        eventually(lambda: family.value("get pod web", ".metadata.deletionTimestamp"))
        meta = family.json("get deploy web")["metadata"]
        assert (meta["finalizers"], bool(meta["deletionTimestamp"])) == (["foregroundDeletion"], True)
        assert exists(family, "rs web")
        assert deleting.running
        release(family, "pod web")
        assert deleting.ended().code == 0
    assert not exists(family, "deploy,rs,pod")


def test_orphan_the_dependents_stay_and_forget(family: Kubectl) -> None:
    assert family.ok("delete deploy web --cascade=orphan") == 'deployment.apps "web" deleted\n'
    assert not exists(family, "deploy web")
    assert "ownerReferences" not in family.json("get rs web")["metadata"]
    assert len(family.json("get pod web")["metadata"]["ownerReferences"]) == 1


def test_a_bound_pod_is_given_time(kubectl: Kubectl, server: Server, namespace: str) -> None:
    gentle = pod("p", node="somewhere")
    gentle["spec"]["terminationGracePeriodSeconds"] = 40
    kubectl.create(gentle)
    assert kubectl.ok("delete pod p --wait=false") == 'pod "p" deleted\n'
    assert kubectl.value("get pod p", ".metadata.deletionGracePeriodSeconds") == "40"
    kubectl.ok("delete pod p --grace-period=5 --wait=false")
    assert kubectl.value("get pod p", ".metadata.deletionGracePeriodSeconds") == "5"
    # The node's agent says that it is gone.
    path = f"/api/v1/namespaces/{namespace}/pods/p?gracePeriodSeconds=0"
    with kubectl.started("wait pod/p --for=delete --timeout=20s") as waiting:
        server.request("DELETE", path)
        assert waiting.ended().code == 0


def test_by_force_a_pod_is_gone_at_once(kubectl: Kubectl) -> None:
    stuck = pod("p", node="somewhere")
    stuck["spec"]["terminationGracePeriodSeconds"] = 600
    kubectl.create(stuck)
    done = kubectl.run("delete pod p --force")
    assert (done.code, done.out) == (0, 'pod "p" force deleted\n')
    assert done.err == (
        "Warning: Immediate deletion does not wait for confirmation that the running resource has been "
        "terminated. The resource may continue to run on the cluster indefinitely.\n"
    )
    kubectl.create(stuck)
    kubectl.run("delete pod p --grace-period=0 --force")
    assert not exists(kubectl, "pod p")
    kubectl.create(stuck)
    assert kubectl.ok("delete pod p --now --wait=false") == 'pod "p" deleted\n'
    assert kubectl.value("get pod p", ".metadata.deletionGracePeriodSeconds") == "1"


def test_an_unbound_pod_waits_for_nobody(kubectl: Kubectl) -> None:
    waiting = pod("p")
    waiting["spec"]["terminationGracePeriodSeconds"] = 600
    kubectl.create(waiting)
    assert kubectl.ok("delete pod p") == 'pod "p" deleted\n'
    assert not exists(kubectl, "pod p")


def test_a_namespace_goes_with_all_that_is_in_it(family: Kubectl, cluster: Kubectl, namespace: str) -> None:
    family.create(config_map("c"), held(config_map("h")))
    with cluster.started(f"delete ns {namespace}") as deleting:
        eventually(lambda: family.value("get cm h", ".metadata.deletionTimestamp"))
        refused = family.fails("create -f -", stdin=manifest(config_map("late")))
        assert refused == (
            'Error from server (Forbidden): error when creating "STDIN": configmaps "late" is forbidden: '
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        conditions = ".status.conditions[?(@.status=='True')].type"
        eventually(lambda: "NamespaceFinalizersRemaining" in cluster.value(f"get ns {namespace}", conditions))
        assert cluster.rows(f"get ns {namespace}")[0]["STATUS"] == "Terminating"
        release(family, "cm h")
        done = deleting.ended()
    assert (done.code, done.out) == (0, f'namespace "{namespace}" deleted\n')
    assert not exists(cluster, f"ns {namespace}")
    assert not exists(family, "deploy,rs,pod,cm,sa")


def test_namespaces_that_must_stay(cluster: Kubectl) -> None:
    assert cluster.fails("delete ns default") == (
        'Error from server (Forbidden): namespaces "default" is forbidden: this namespace may not be deleted'
    )
