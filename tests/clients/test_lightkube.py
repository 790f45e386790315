"""lightkube over TLS, the blocking client and the async one: typed and generic objects, watches, patches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from lightkube import ApiError, AsyncClient, Client, KubeConfig, codecs, operators
from lightkube.core.exceptions import ConditionError, ObjectDeleted
from lightkube.generic_resource import (
    create_resources_from_crd,
    get_generic_resource,
    load_in_cluster_generic_resources,
)
from lightkube.models.apps_v1 import DeploymentStatus
from lightkube.models.autoscaling_v1 import ScaleSpec
from lightkube.models.core_v1 import PodCondition, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apiextensions_v1 import CustomResourceDefinition
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import ConfigMap, Namespace, Node, Pod
from lightkube.types import CascadeType, PatchType
from tests.clients import objects
from tests.clients.kubectl import eventually
from tests.clients.meanwhile import meanwhile
from tests.clients.running import Server

CRD = CustomResourceDefinition


def configuration(server: Server) -> Any:
    return KubeConfig.from_file(str(server.kubeconfig)).get()


@pytest.fixture(params=["lazy", "eager"])
def kube(server: Server, namespace: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    lazy = request.param == "lazy"
    with Client(configuration(server), namespace=namespace, field_manager="tests", lazy=lazy) as made:
        yield made


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Any:
    return ConfigMap(metadata=ObjectMeta(name=name, labels=labels), data=data)


def names(listed: Any) -> list[str]:
    return [one.metadata.name for one in listed]


def refusal(call: Any, *arguments: Any, **options: Any) -> Any:
    """The Status that a refused call raises."""
    with pytest.raises(ApiError) as raised:
        call(*arguments, **options)
    return raised.value.status


def test_objects_are_created_read_replaced_and_deleted(kube: Any) -> None:
    made = kube.create(config_map("a", x="1"))
    read = kube.get(ConfigMap, "a")
    assert (read.metadata.uid, read.data) == (made.metadata.uid, {"x": "1"})
    read.data["x"] = "2"
    assert kube.replace(read).data == {"x": "2"}
    stale = refusal(kube.replace, made)
    assert (stale.code, stale.reason) == (409, "Conflict")
    kube.delete(ConfigMap, "a", cascade=CascadeType.BACKGROUND)
    missing = refusal(kube.get, ConfigMap, "a")
    assert (missing.code, missing.reason, missing.details.name) == (404, "NotFound", "a")


def test_lists_in_chunks_by_labels_and_fields(kube: Any, namespace: str) -> None:
    for number in range(5):
        kube.create(config_map(f"m{number}", {"odd": str(number % 2)}))
    assert names(kube.list(ConfigMap, chunk_size=2)) == [f"m{number}" for number in range(5)]
    assert names(kube.list(ConfigMap, labels={"odd": "1"})) == ["m1", "m3"]
    assert names(kube.list(ConfigMap, labels={"odd": operators.not_in(["0"])})) == ["m1", "m3"]
    assert names(kube.list(ConfigMap, fields={"metadata.name": "m2"})) == ["m2"]
    everywhere = kube.list(ConfigMap, namespace="*", fields={"metadata.namespace": namespace})
    assert len(list(everywhere)) == 5
    kube.deletecollection(ConfigMap)
    assert names(kube.list(ConfigMap)) == []


@pytest.mark.parametrize(
    ("kind", "patch", "data"),
    [
        (PatchType.MERGE, {"data": {"x": None, "y": "2"}}, {"y": "2"}),
        (PatchType.STRATEGIC, {"data": {"y": "2"}}, {"x": "1", "y": "2"}),
        (PatchType.JSON, [{"op": "replace", "path": "/data/x", "value": "3"}], {"x": "3"}),
    ],
)
def test_each_type_of_patch(kube: Any, kind: Any, patch: Any, data: dict[str, str]) -> None:
    kube.create(config_map("a", x="1"))
    assert kube.patch(ConfigMap, "a", patch, patch_type=kind).data == data


def test_labels_and_annotations_are_set_and_taken_away(kube: Any) -> None:
    kube.create(config_map("a", {"old": "1"}))
    kube.set(ConfigMap, "a", labels={"new": "1", "old": None}, annotations={"note": "x"})
    meta = kube.get(ConfigMap, "a").metadata
    assert (meta.labels, meta.annotations) == ({"new": "1"}, {"note": "x"})


def test_what_is_applied_is_created_changed_and_taken_away(kube: Any) -> None:
    assert kube.apply(config_map("a", x="1", y="1")).data == {"x": "1", "y": "1"}
    assert kube.apply(config_map("a", x="2")).data == {"x": "2"}
    deployment = codecs.from_dict(objects.deployment("web"))
    assert kube.apply(deployment).spec.replicas == deployment.spec.replicas
    meta = ObjectMeta(name="web", namespace=kube.namespace)
    status = Deployment.Status(metadata=meta, spec=deployment.spec, status=DeploymentStatus(replicas=2))
    assert kube.apply(status).status.replicas == 2


def test_what_others_applied_is_a_conflict_unless_forced(kube: Any) -> None:
    kube.apply(config_map("a", x="1"), field_manager="other")
    told = refusal(kube.apply, config_map("a", x="2"))
    assert (told.code, told.reason) == (409, "Conflict")
    assert told.message == 'Apply failed with 1 conflict: conflict with "other": .data.x'
    assert kube.apply(config_map("a", x="2"), force=True).data == {"x": "2"}


def test_a_status_is_replaced_behind_its_subresource(kube: Any) -> None:
    made = kube.create(codecs.from_dict(objects.deployment("web")))
    told = DeploymentStatus(observedGeneration=1, replicas=2)
    assert (
        kube.replace(Deployment.Status(metadata=made.metadata, spec=made.spec, status=told)).status.replicas
        == 2
    )
    patched = kube.patch(Deployment.Status, "web", {"status": {"readyReplicas": 1}})
    assert (patched.status.replicas, patched.status.readyReplicas) == (2, 1)
    assert kube.get(Deployment, "web").metadata.generation == 1


def test_a_deployment_is_scaled(kube: Any) -> None:
    kube.create(codecs.from_dict(objects.deployment("web")))
    scale = kube.get(Deployment.Scale, "web")
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=web")
    patch = Deployment.Scale(metadata=ObjectMeta(name="web"), spec=ScaleSpec(replicas=5))
    kube.patch(Deployment.Scale, "web", patch)
    assert kube.get(Deployment, "web").spec.replicas == 5
    scale = kube.get(Deployment.Scale, "web")
    scale.spec.replicas = 3
    kube.replace(scale)
    assert kube.get(Deployment, "web").spec.replicas == 3


def test_watches_tell_of_every_change(kube: Any) -> None:
    kube.create(config_map("a"))
    seen = []
    for event, obj in kube.watch(ConfigMap, server_timeout=20):
        seen.append((event, obj.metadata.name))
        if len(seen) == 1:
            kube.set(ConfigMap, "a", labels={"x": "1"})
            kube.create(config_map("b"))
            kube.delete(ConfigMap, "a")
        if event == "DELETED":
            break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_watch_goes_on_by_itself_when_the_server_ends_it(kube: Any) -> None:
    """It resumes from the last revision it saw: nothing comes twice, nothing is missed."""
    kube.create(config_map("a"))
    late = threading.Timer(1.5, lambda: kube.create(config_map("b")))
    late.start()
    seen = []
    for _, obj in kube.watch(ConfigMap, server_timeout=1):
        seen.append(obj.metadata.name)
        if seen[-1] == "b":
            break
    late.join()
    assert seen == ["a", "b"]


def report(kube: Any, name: str, **conditions: str) -> None:
    listed = [
        PodCondition(type=kind, status=status, message="told so") for kind, status in conditions.items()
    ]
    status = Pod.Status(metadata=ObjectMeta(name=name), status=PodStatus(conditions=listed))
    kube.patch(Pod.Status, name, status, patch_type=PatchType.MERGE)


def test_conditions_are_waited_for(kube: Any) -> None:
    for name in ("good", "bad", "gone"):
        kube.create(codecs.from_dict(objects.pod(name)))
    with meanwhile(lambda: report(kube, "good", Ready="True")):
        assert kube.wait(Pod, "good", for_conditions=["Ready"]).metadata.name == "good"
    refused = pytest.raises(ConditionError, match="told so")
    with meanwhile(lambda: report(kube, "bad", Ready="False", Failed="True")), refused:
        kube.wait(Pod, "bad", for_conditions=["Ready"], raise_for_conditions=["Failed"])
    with meanwhile(lambda: kube.delete(Pod, "gone", grace_period=0)), pytest.raises(ObjectDeleted):
        kube.wait(Pod, "gone", for_conditions=["Ready"])


def test_a_dry_run_changes_nothing(kube: Any) -> None:
    assert kube.create(config_map("a"), dry_run=True).metadata.uid
    assert names(kube.list(ConfigMap)) == []


def test_objects_of_no_namespace_and_files_of_many(kube: Any, namespace: str) -> None:
    assert kube.get(Namespace, namespace).status.phase == "Active"
    written = codecs.dump_all_yaml([config_map("a", x="1"), codecs.from_dict(objects.deployment("web"))])
    for obj in codecs.load_all_yaml(written):
        kube.create(obj)
    assert kube.get(Deployment, "web").spec.template.spec.containers[0].image == "nginx:1.27"
    assert isinstance(names(kube.list(Node)), list)


def test_times_are_times(kube: Any) -> None:
    kube.create(
        codecs.from_dict({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}})
    )
    lease = kube.get(Lease, "l")
    renewed = {"spec": {"renewTime": "2024-05-01T12:00:00.123456Z", "leaseDurationSeconds": 15}}
    patched = kube.patch(Lease, "l", renewed)
    assert (patched.spec.renewTime.microsecond, patched.spec.leaseDurationSeconds) == (123456, 15)
    assert lease.metadata.creationTimestamp.tzinfo is not None


def definition(group: str) -> Any:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    return codecs.from_dict(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [version],
            },
        }
    )


def test_generic_resources_from_their_definitions(kube: Any, namespace: str) -> None:
    group = f"{namespace[-20:].strip('-')}.lightkube.example.com"
    kube.create(definition(group))
    name = f"widgets.{group}"
    kube.wait(CRD, name, for_conditions=["Established"])
    create_resources_from_crd(kube.get(CRD, name))
    load_in_cluster_generic_resources(kube)
    widget = get_generic_resource(f"{group}/v1", "Widget")
    made = kube.create(widget(metadata={"name": "a"}, spec={"size": 1}))
    assert (made.metadata.generation, made["spec"]) == (1, {"size": 1})
    kube.patch(widget.Status, "a", {"status": {"size": 2}}, patch_type=PatchType.MERGE)
    kube.patch(widget.Scale, "a", {"spec": {"replicas": 3}}, patch_type=PatchType.MERGE)
    read = kube.get(widget, "a")
    assert (read.spec, read.status) == ({"size": 3}, {"size": 2})
    refused = refusal(kube.patch, widget, "a", {"spec": {"size": 4}}, patch_type=PatchType.STRATEGIC)
    assert refused.code == 415
    assert names(kube.list(widget)) == ["a"]
    kube.delete(widget, "a")
    kube.delete(CRD, name)
    eventually(lambda: name not in names(kube.list(CRD)))


# Async


def told(server: Server, namespace: str, story: Any) -> None:
    async def main() -> None:
        kube = AsyncClient(configuration(server), namespace=namespace)
        try:
            await asyncio.wait_for(story(kube), 30)
        finally:
            await kube.close()

    asyncio.run(main())


def test_the_async_client_does_the_same(server: Server, namespace: str) -> None:
    async def story(kube: Any) -> None:
        await asyncio.gather(*(kube.create(config_map(f"m{n}", x=str(n))) for n in range(10)))
        assert len([one async for one in kube.list(ConfigMap, chunk_size=3)]) == 10
        read = await kube.get(ConfigMap, "m3")
        read.data = {"x": "changed"}
        assert (await kube.replace(read)).data == {"x": "changed"}
        assert (await kube.patch(ConfigMap, "m4", {"data": {"y": "1"}})).data == {"x": "4", "y": "1"}
        with pytest.raises(ApiError) as raised:
            await kube.create(config_map("m1"))
        assert raised.value.status.reason == "AlreadyExists"
        assert (await kube.apply(config_map("m10", x="1"), field_manager="tests")).data == {"x": "1"}
        await kube.deletecollection(ConfigMap)
        assert [one async for one in kube.list(ConfigMap)] == []

    told(server, namespace, story)


def test_async_watches_and_waits(server: Server, namespace: str) -> None:
    async def story(kube: Any) -> None:
        await kube.create(codecs.from_dict(objects.pod("a")))
        waiting = asyncio.create_task(kube.wait(Pod, "a", for_conditions=["Ready"]))
        seen: list[str] = []
        async for event, obj in kube.watch(Pod):
            seen.append(event)
            if event == "ADDED":
                ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
                await kube.patch(Pod.Status, "a", ready)
            elif event == "MODIFIED" and obj.status.conditions:
                await kube.delete(Pod, "a", grace_period=0)
            elif event == "DELETED":
                break
        assert (await waiting).metadata.name == "a"
        assert (seen[0], seen[-1]) == ("ADDED", "DELETED")

    told(server, namespace, story)
