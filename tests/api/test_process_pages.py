"""Which process a path means, whose objects say so, and who may write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.api.harness import JANE, Api, tell
from tests.security.people import CONTROLLERS, GATEWAY, SCHEDULER, introduce

from fathom.endpoint.publish import Published, slice_of
from fathom.model.objects import Obj
from fathom.model.user import User

SYSTEM = "fathom-system"


def slices(namespace: str = SYSTEM) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


def published(process: str, *parts: str, where: str = "here", certificate: str = "none") -> Obj:
    """At a port where nobody listens."""
    return slice_of(
        Published(
            process=process, parts=parts, where=where, address="127.0.0.1", port=1, certificate=certificate
        )
    )


def test_a_process_is_found_by_its_name_its_parts_and_its_objects_name(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        obj = published("deciders", "scheduler", "controllers")
        name = obj["metadata"]["name"].removeprefix("metrics.")
        assert (await api.post(slices(), obj)).status == 201
        for path in (f"/metrics/{name}", "/metrics/deciders", "/metrics/scheduler", "/healthz/controllers"):
            answer = await api.get(path)
            assert (answer.status, "cannot connect to agents" in answer.obj["message"]) == (503, True), path
        for path in ("/metrics/gateway", "/metrics/scheduler/more", "/metrics/slis", "/readyz/nobody"):
            assert (await api.get(path)).status == 404, path
        assert (await api.get("/readyz/store")).obj == b"ok"
        assert (await api.post("/metrics/scheduler", {})).status == 405

    tell(story, tmp_path)


def test_of_several_with_one_name_the_answer_says_how_each_is_called(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        names = []
        for where in ("one machine", "another"):
            obj = published("scheduler", "scheduler", where=where)
            names.append(obj["metadata"]["name"].removeprefix("metrics."))
            await api.post(slices(), obj)
        answer = await api.get("/metrics/scheduler")
        assert answer.status == 400
        assert all(f"/metrics/{name}" in answer.obj["message"] for name in names)
        assert (await api.get(f"/metrics/{names[0]}")).status == 503

    tell(story, tmp_path)


def test_an_object_of_another_namespace_or_name_says_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        stranger = published("scheduler", "scheduler")
        stranger["metadata"]["namespace"] = "default"
        assert (await api.post(slices("default"), stranger)).status == 201
        of_a_service = published("scheduler", "scheduler")
        of_a_service["metadata"]["name"] = "web-1"
        assert (await api.post(slices(), of_a_service)).status == 201
        assert (await api.get("/metrics/scheduler")).status == 404

    tell(story, tmp_path)


def test_who_may_not_read_metrics_may_read_none_of_a_process(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(slices(), published("gateway", "gateway"))
        for path in ("/metrics/gateway", "/healthz/gateway", "/api/v1/nodes/n/proxy/metrics"):
            assert (await api.get(path, token=JANE)).status == 403, path
            assert (await api.get(path, token="")).status in {401, 403}, path

    tell(story, tmp_path)


@pytest.mark.parametrize("who", [SCHEDULER, CONTROLLERS, GATEWAY])
def test_our_own_accounts_publish_without_a_lease_and_only_that(who: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(who, ("system:authenticated",)))
        obj = published("scheduler", "scheduler")
        path = f"{slices()}/{obj['metadata']['name']}"
        assert (await api.post(slices(), obj, token=who)).status == 201
        assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}}, token=who)).status == 200
        assert (await api.get(path, token=who)).status == 200
        assert (await api.delete(path, token=who)).status in ({403} if who != CONTROLLERS else {200})
        elsewhere = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
        assert (await api.post(slices("default"), elsewhere, token=who)).status == 403

    tell(story, tmp_path)


@pytest.mark.parametrize("who", [SCHEDULER, CONTROLLERS])
def test_a_slice_of_a_service_is_still_behind_the_fence(who: str, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        introduce(api, User(who, ("system:authenticated",)))
        obj = published("scheduler", "scheduler")
        obj["metadata"]["name"] = "metrics-1"
        answer = await api.post(slices(), obj, token=who)
        assert (answer.status, "must hold the lease" in answer.obj["message"]) == (403, True)

    tell(story, tmp_path)
