"""Creating, updating, patching: what a client may rely on."""

from __future__ import annotations

import asyncio
import copy
from pathlib import Path

from tests.api.harness import JANE, Api, config_map, deployment, pod, tell
from tests.kube.definitions.bodies import WIDGETS

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def test_a_created_object_has_what_the_server_adds(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.post(MAPS, config_map("a", x="1"))
        meta = answer.obj["metadata"]
        assert (answer.status, answer.obj["data"], meta["namespace"]) == (201, {"x": "1"}, "default")
        assert meta["uid"]
        assert meta["creationTimestamp"].endswith("Z")
        assert int(meta["resourceVersion"]) > 1
        assert (await api.get(f"{MAPS}/a")).obj == answer.obj

    tell(story, tmp_path)


def test_a_second_object_of_the_same_name_is_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        answer = await api.post(MAPS, config_map("a"))
        assert (answer.status, answer.reason) == (409, "AlreadyExists")
        assert answer.obj["message"] == 'configmaps "a" already exists'

    tell(story, tmp_path)


def test_generated_names_are_new_each_time(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        body = {"metadata": {"generateName": "a-"}}
        names = {(await api.post(MAPS, body)).obj["metadata"]["name"] for _ in range(20)}
        assert len(names) == 20
        assert all(name.startswith("a-") and len(name) == 7 for name in names)

    tell(story, tmp_path)


def test_a_name_is_required(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.post(MAPS, {"metadata": {}})
        assert (answer.status, answer.causes) == (422, [("metadata.name", "FieldValueRequired")])

    tell(story, tmp_path)


def test_an_object_of_another_namespace_is_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        body = config_map("a")
        body["metadata"]["namespace"] = "kube-system"
        assert (await api.post(MAPS, body)).status == 400

    tell(story, tmp_path)


def test_nothing_is_created_in_a_namespace_that_is_not_there(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))
        assert (answer.status, answer.obj["message"]) == (404, 'namespaces "nowhere" not found')

    tell(story, tmp_path)


def test_an_update_needs_the_newest_revision(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        first = (await api.post(MAPS, config_map("a", x="1"))).obj
        second = await api.put(f"{MAPS}/a", {**first, "data": {"x": "2"}})
        stale = await api.put(f"{MAPS}/a", {**first, "data": {"x": "3"}})
        assert (second.status, stale.status, stale.reason) == (200, 409, "Conflict")
        assert (await api.get(f"{MAPS}/a")).obj["data"] == {"x": "2"}

    tell(story, tmp_path)


def test_an_update_without_a_revision_is_unconditional(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a", x="1"))
        assert (await api.put(f"{MAPS}/a", config_map("a", x="2"))).obj["data"] == {"x": "2"}

    tell(story, tmp_path)


def test_an_update_that_changes_nothing_keeps_the_revision(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        first = (await api.post(MAPS, config_map("a", x="1"))).obj
        assert (await api.put(f"{MAPS}/a", first)).obj == first

    tell(story, tmp_path)


def test_an_update_of_another_uid_is_a_conflict(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        body = config_map("a")
        body["metadata"]["uid"] = "someone-else"
        assert (await api.put(f"{MAPS}/a", body)).status == 409

    tell(story, tmp_path)


def test_an_update_of_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.put(f"{MAPS}/a", config_map("a"))).status == 404

    tell(story, tmp_path)


def test_concurrent_patches_all_take_effect(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        # As many as may be under way before one of them has to lose five races in a row.
        patches = [api.patch(f"{MAPS}/a", {"data": {f"k{i}": "v"}}) for i in range(4)]
        statuses = [answer.status for answer in await asyncio.gather(*patches)]
        assert statuses == [200] * 4
        assert sorted((await api.get(f"{MAPS}/a")).obj["data"]) == [f"k{i}" for i in range(4)]

    tell(story, tmp_path)


def test_only_a_change_of_the_spec_raises_the_generation(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment("web"))
        path = f"{DEPLOYMENTS}/web"
        labelled = await api.patch(path, {"metadata": {"labels": {"a": "b"}}})
        observed = await api.patch(f"{path}/status", {"status": {"replicas": 3}})
        scaled = await api.patch(path, {"spec": {"replicas": 5}})
        generations = [answer.obj["metadata"]["generation"] for answer in (labelled, observed, scaled)]
        assert generations == [1, 1, 2]

    tell(story, tmp_path)


def test_a_status_that_is_no_subresource_raises_the_generation_as_any_other_field(tmp_path: Path) -> None:
    definition = copy.deepcopy(WIDGETS)
    for version in definition["spec"]["versions"]:
        del version["subresources"]
    widgets = "/apis/example.com/v1/namespaces/default/widgets"

    async def story(api: Api) -> None:
        await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
        made = await api.post(widgets, {**widget, "spec": {"size": 1}})
        observed = await api.patch(f"{widgets}/a", {"status": {"size": 3}})
        labelled = await api.patch(f"{widgets}/a", {"metadata": {"labels": {"a": "b"}}})
        generations = [answer.obj["metadata"]["generation"] for answer in (made, observed, labelled)]
        assert generations == [1, 2, 2]

    tell(story, tmp_path)


def test_a_report_that_says_nothing_new_leaves_the_status_as_it_was(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment("web"))
        path = f"{DEPLOYMENTS}/web"
        before = await api.patch(f"{path}/status", {"status": {"replicas": 2}})
        for said in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"replicas": 7}}, {}):
            after = await api.patch(f"{path}/status", said)
            assert (after.status, after.obj) == (200, before.obj)
        wrong = await api.patch(f"{path}/status", {"spec": {"replicas": "many"}})
        assert wrong.status in {400, 422}

    tell(story, tmp_path)


def test_status_and_spec_are_written_through_their_own_doors(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        body = {**deployment("web"), "status": {"replicas": 9}}
        created = await api.post(DEPLOYMENTS, body)
        assert "replicas" not in (created.obj.get("status") or {})
        path = f"{DEPLOYMENTS}/web"
        patched = await api.patch(f"{path}/status", {"spec": {"replicas": 7}, "status": {"replicas": 2}})
        assert (patched.obj["spec"]["replicas"], patched.obj["status"]["replicas"]) == (1, 2)
        back = await api.patch(path, {"status": {"replicas": 8}})
        assert back.obj["status"]["replicas"] == 2

    tell(story, tmp_path)


def test_the_scale_of_a_deployment_is_its_replicas(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment("web", replicas=2))
        path = f"{DEPLOYMENTS}/web/scale"
        scale = (await api.get(path)).obj
        assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 2}, "app=web")
        await api.put(path, {**scale, "spec": {"replicas": 4}})
        await api.patch(path, {"spec": {"replicas": 5}})
        assert (await api.get(f"{DEPLOYMENTS}/web")).obj["spec"]["replicas"] == 5
        stale = await api.put(path, {**scale, "spec": {"replicas": 1}})
        negative = await api.patch(path, {"spec": {"replicas": -1}})
        assert (stale.status, negative.status) == (409, 422)

    tell(story, tmp_path)


def test_a_dry_run_answers_as_if_and_changes_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        dry = await api.post(f"{MAPS}?dryRun=All", config_map("a"))
        assert (dry.status, (await api.get(f"{MAPS}/a")).status) == (201, 404)
        await api.post(MAPS, config_map("a", x="1"))
        assert (await api.post(f"{MAPS}?dryRun=All", config_map("a"))).status == 409
        patched = await api.patch(f"{MAPS}/a?dryRun=All", {"data": {"x": "2"}})
        assert (patched.obj["data"], (await api.get(f"{MAPS}/a")).obj["data"]) == ({"x": "2"}, {"x": "1"})
        assert (await api.delete(f"{MAPS}/a?dryRun=All")).status == 200
        assert (await api.get(f"{MAPS}/a")).status == 200
        assert (await api.post(f"{MAPS}?dryRun=Some", config_map("b"))).status == 422

    tell(story, tmp_path)


def test_unknown_fields_are_refused_warned_about_or_ignored(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        body = {**config_map("a"), "dtaa": {}}
        strict = await api.post(f"{MAPS}?fieldValidation=Strict", body)
        assert strict.status == 400
        assert 'unknown field "dtaa"' in strict.obj["message"]
        warned = await api.post(MAPS, body)
        assert (warned.status, warned.headers["warning"]) == (201, '299 - "unknown field \\"dtaa\\""')
        assert "dtaa" not in warned.obj
        body["metadata"]["name"] = "b"
        assert "warning" not in (await api.post(f"{MAPS}?fieldValidation=Ignore", body)).headers

    tell(story, tmp_path)


def test_a_pod_is_bound_once(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}})
        await api.post(PODS, pod("p"))
        target = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"annotations": {"d": "1"}}}
        assert (await api.post(f"{PODS}/p/binding", target)).status == 201
        again = await api.post(f"{PODS}/p/binding", {"target": {"name": "n2"}})
        bound = (await api.get(f"{PODS}/p")).obj
        assert (again.status, bound["spec"]["nodeName"]) == (409, "n1")
        assert bound["metadata"]["annotations"] == {"d": "1", "fathom.dev/account": "default//"}
        stages = [condition["type"] for condition in bound["status"]["conditions"]]
        assert stages == ["Admitted", "PodScheduled", "Bound"]

    tell(story, tmp_path)


def test_a_user_without_rights_is_told_which_ones_are_missing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        answer = await api.get(MAPS, token=JANE)
        assert (answer.status, answer.obj["message"]) == (
            403,
            'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" '
            'in the namespace "default"',
        )

    tell(story, tmp_path)


def test_nobody_gets_in_but_to_health_and_version(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        statuses = [(await api.get(p, token="")).status for p in ("/healthz", "/readyz", "/version")]
        closed = [(await api.get(p, token="")).status for p in ("/api", "/metrics", MAPS, "/openapi/v3")]
        assert (statuses, closed) == ([200] * 3, [401] * 4)

    tell(story, tmp_path)
