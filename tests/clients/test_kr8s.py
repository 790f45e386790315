"""kr8s over TLS, blocking and async: objects that know their cluster, waits, watches, classes on the fly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import kr8s
import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import ConfigMap as AsyncConfigMap
from kr8s.asyncio.objects import Pod as AsyncPod
from kr8s.objects import (
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    Job,
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    Secret,
    Service,
    new_class,
    object_from_spec,
)
from tests.clients import objects
from tests.clients.kubectl import eventually
from tests.clients.meanwhile import meanwhile
from tests.clients.running import Server

# It does not know the newest release yet, and says so each time.
pytestmark = pytest.mark.filterwarnings("ignore:Kubernetes version")

READY = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]


@pytest.fixture
def api(server: Server, namespace: str) -> Any:
    return kr8s.api(kubeconfig=str(server.kubeconfig), namespace=namespace)


@pytest.fixture
def made(api: Any) -> Callable[..., Any]:
    """Objects, created."""

    def make(of: Any, spec: Any) -> Any:
        obj = of(spec, api=api)
        obj.create()
        return obj

    return make


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    with pytest.raises(kr8s.ServerError) as raised:
        call(*arguments, **options)
    return raised.value.response.json()


def test_an_object_is_created_read_patched_and_deleted(api: Any, made: Any) -> None:
    obj = made(ConfigMap, objects.config_map("a", x="1"))
    assert obj.metadata.uid
    again = ConfigMap.get("a", api=api)
    assert (again.data.x, again == obj) == ("1", True)
    again.patch({"data": {"y": "2"}})
    obj.refresh()
    assert obj.data == {"x": "1", "y": "2"}
    obj.patch([{"op": "remove", "path": "/data/x"}], type="json")
    assert obj.data == {"y": "2"}
    obj.delete()
    obj.wait("delete", timeout=10)
    assert not obj.exists()
    with pytest.raises(kr8s.NotFoundError):
        ConfigMap.get("a", api=api, timeout=1)


def test_objects_are_found_by_labels_fields_and_names(api: Any, made: Any, namespace: str) -> None:
    for name, labels in (("a", {"tier": "web"}), ("b", {"tier": "db"}), ("c", {})):
        made(Pod, objects.pod(name, labels=labels))

    def found(**options: Any) -> list[str]:
        return [pod.name for pod in api.get("pods", **options)]

    assert found() == ["a", "b", "c"]
    assert found(label_selector={"tier": "web"}) == ["a"]
    assert found(label_selector="tier in (web,db)") == ["a", "b"]
    assert found(field_selector={"metadata.name": "c"}) == ["c"]
    assert [pod.name for pod in api.get("pods", "b")] == ["b"]
    assert [pod.name for pod in Pod.list(api=api, namespace=namespace)] == ["a", "b", "c"]
    everywhere = api.get("po", namespace=kr8s.ALL, field_selector=f"metadata.namespace={namespace}")
    assert len(list(everywhere)) == 3
    assert [obj.name for obj in api.get("deploy.apps")] == []


def test_labels_and_annotations_come_and_go(made: Any) -> None:
    obj = made(ConfigMap, objects.config_map("a", labels={"old": "1"}))
    obj.label({"new": "2"})
    obj.label(third="3")
    obj.annotate({"note": "x"})
    obj.remove_label("old")
    assert (obj.labels, obj.annotations) == ({"new": "2", "third": "3"}, {"note": "x"})


def test_a_deployment_is_scaled_until_it_says_so(api: Any, made: Any) -> None:
    web = made(Deployment, objects.deployment("web", replicas=2))
    with meanwhile(lambda: report_scaled(api, "web")):
        web.scale(5)
    assert (web.replicas, web.spec.replicas) == (5, 5)
    assert not web.ready()
    web.patch({"status": {"readyReplicas": 5, "observedGeneration": 2}}, subresource="status")
    assert web.ready()


def report_scaled(api: Any, name: str) -> None:
    found = Deployment.get(name, api=api)
    found.patch({"status": {"replicas": found.spec.replicas}}, subresource="status")


def report(api: Any, name: str, **status: Any) -> None:
    Pod.get(name, api=api).patch({"status": status}, subresource="status")


def test_a_pod_is_waited_for_until_it_is_ready(api: Any, made: Any) -> None:
    pod = made(Pod, objects.pod("a"))
    assert not pod.ready()
    with meanwhile(lambda: report(api, "a", phase="Running", conditions=READY)):
        pod.wait("condition=Ready", timeout=10)
    assert pod.ready()
    with meanwhile(lambda: report(api, "a", phase="Succeeded")):
        pod.wait("jsonpath='{.status.phase}'=Succeeded", timeout=10)
    with pytest.raises(TimeoutError):
        pod.wait("condition=Never", timeout=0.3)


def test_a_job_is_waited_for_whichever_way_it_ends(api: Any, made: Any) -> None:
    template = {"spec": {**objects.pod("x")["spec"], "restartPolicy": "Never"}}
    job = made(Job, {"metadata": {"name": "work"}, "spec": {"template": template}})
    failed = {
        "conditions": [
            {"type": "FailureTarget", "status": "True"},
            {"type": "Failed", "status": "True"},
        ],
        "startTime": "2024-05-01T12:00:00Z",
    }
    with meanwhile(lambda: Job.get("work", api=api).patch({"status": failed}, subresource="status")):
        job.wait(["condition=Complete", "condition=Failed"], timeout=10)
    assert job.status.conditions[-1].type == "Failed"


def test_watches_tell_of_every_change(api: Any, made: Any, namespace: str) -> None:
    obj = made(ConfigMap, objects.config_map("a"))
    seen = []
    for event, found in api.watch("configmaps", namespace=namespace):
        seen.append((event, found.name))
        if len(seen) == 1:
            obj.label(x="1")
            made(ConfigMap, objects.config_map("b"))
            obj.delete()
        if event == "DELETED":
            break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_owners_take_their_children_with_them(api: Any, made: Any) -> None:
    owner = made(ReplicaSet, objects.replica_set("owner", replicas=0))
    child = made(Pod, objects.pod("child"))
    owner.adopt(child)
    assert child.metadata.ownerReferences[0].uid == owner.metadata.uid
    owner.delete(propagation_policy="Background")
    eventually(lambda: not child.exists())


def test_a_service_finds_its_pods(api: Any, made: Any) -> None:
    made(Pod, objects.pod("a", labels={"app": "web"}))
    service = made(Service, objects.service("web"))
    assert not service.ready()
    report(api, "a", phase="Running", conditions=READY)
    assert [pod.name for pod in service.ready_pods()] == ["a"]


def test_a_node_is_cordoned_and_tainted(api: Any, node_name: str) -> None:
    node = Node.get(node_name, api=api)
    node.cordon()
    assert node.unschedulable
    node.uncordon()
    assert not node.unschedulable
    node.taint("dedicated", "db", effect="NoSchedule")
    assert {"key": "dedicated", "value": "db", "effect": "NoSchedule"} in node.taints


def test_tables_are_asked_for_as_kubectl_does(api: Any, made: Any) -> None:
    made(Pod, objects.pod("a"))
    [table] = api.get("pods", as_object=kr8s.objects.Table)
    assert [column["name"] for column in table.column_definitions][:3] == ["Name", "Ready", "Status"]
    assert table.rows[0]["cells"][:3] == ["a", "0/1", "Pending"]


def test_what_the_cluster_is(api: Any) -> None:
    assert api.version()["gitVersion"].startswith("v1.")
    listed = {(one["name"], one["version"]) for one in api.api_resources()}
    assert {("pods", "v1"), ("deployments", "apps/v1"), ("leases", "coordination.k8s.io/v1")} <= listed
    assert {"v1", "apps/v1", "batch/v1"} <= set(api.api_versions())
    assert api.whoami() == "fathom-admin"
    assert "default" in [one.name for one in Namespace.list(api=api)]


def test_refusals_carry_the_status(api: Any, made: Any) -> None:
    made(Secret, {"metadata": {"name": "a"}, "stringData": {"x": "1"}})
    told = refusal(made, Secret, {"metadata": {"name": "a"}})
    assert (told["code"], told["reason"], told["details"]) == (
        409,
        "AlreadyExists",
        {"name": "a", "kind": "secrets"},
    )
    broken = objects.deployment("web")
    del broken["spec"]["template"]["metadata"]
    told = refusal(made, Deployment, broken)
    assert [cause["field"] for cause in told["details"]["causes"]] == ["spec.template.metadata.labels"]


def definition(group: str) -> Any:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version],
        },
    }


def test_custom_kinds_become_classes(api: Any, made: Any) -> None:
    group = "kr8s.example.com"
    crd = made(CustomResourceDefinition, definition(group))
    crd.wait("condition=Established", timeout=10)
    widget_class = new_class(kind="Widget", version=f"{group}/v1", namespaced=True, asyncio=False)
    widget = made(widget_class, {"metadata": {"name": "a"}, "spec": {"size": 1}})
    widget.patch({"spec": {"size": 2}})
    widget.patch({"status": {"phase": "Done"}}, subresource="status")
    assert (widget.spec.size, widget.status.phase, widget.metadata.generation) == (2, "Done", 2)
    assert [one.name for one in api.get(f"widgets.{group}")] == ["a"]
    spec = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {}}
    object_from_spec(spec, api=api, allow_unknown_type=True).create()
    assert sorted(one.name for one in widget_class.list(api=api)) == ["a", "b"]
    widget.delete()
    crd.delete()
    eventually(lambda: not crd.exists())


# Async


def told(server: Server, namespace: str, story: Callable[[Any], Any]) -> None:
    async def main() -> None:
        api = await kr8s.asyncio.api(kubeconfig=str(server.kubeconfig), namespace=namespace)
        await asyncio.wait_for(story(api), 30)

    asyncio.run(main())


def test_the_async_api_does_the_same(server: Server, namespace: str) -> None:
    async def story(api: Any) -> None:
        made = [await AsyncConfigMap(objects.config_map(f"m{n}", x=str(n)), api=api) for n in range(5)]
        await asyncio.gather(*(one.create() for one in made))
        assert len([one async for one in api.get("configmaps")]) == 5
        await made[0].patch({"data": {"x": "changed"}})
        read = await AsyncConfigMap.get("m0", api=api)
        assert read.data.x == "changed"
        await asyncio.gather(*(one.label(seen="yes") for one in made))
        assert len([one async for one in api.get("configmaps", label_selector="seen=yes")]) == 5
        await made[0].delete()
        await made[0].wait("delete", timeout=10)
        assert not await made[0].exists()

    told(server, namespace, story)


def test_async_waits_and_watches(server: Server, namespace: str) -> None:
    async def story(api: Any) -> None:
        pod = await AsyncPod(objects.pod("a"), api=api)
        await pod.create()
        waiting = asyncio.create_task(pod.wait("condition=Ready", timeout=20))
        events = []
        async for event, found in api.watch("pods", namespace=namespace):
            events.append(event)
            if event == "ADDED":
                await found.patch({"status": {"conditions": READY}}, subresource="status")
            else:
                break
        await waiting
        assert (events, await pod.ready()) == (["ADDED", "MODIFIED"], True)

    told(server, namespace, story)
