"""Server-side apply: who applies a field owns it, and nobody changes it unasked.

`kube_apiserver_applies.json` is what kube-apiserver 1.37 answered to a random sequence of applies and
patches by several programs: the objects, their owners, the conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import JANE, Answer, Api, config_map, tell

from fathom.model.body import decode_json, encode_json
from fathom.model.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH
from fathom.model.objects import Obj, metadata

MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RECORDED = Path(__file__).parent / "kube_apiserver_applies.json"


async def apply(api: Api, path: str, by: str, obj: Obj, *, force: bool = False, **options: Any) -> Answer:
    query = f"fieldManager={by}" + ("&force=true" if force else "")
    return await api.call("PATCH", f"{path}?{query}", obj, headers={"content-type": APPLY_PATCH}, **options)


async def merge(api: Api, path: str, by: str, body: Any, media: str = MERGE_PATCH) -> Answer:
    return await api.call("PATCH", f"{path}?fieldManager={by}", body, headers={"content-type": media})


def a_map(name: str = "a", **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, **data)}


def owners(obj: Obj) -> dict[str, Any]:
    entries = metadata(obj).get("managedFields") or ()
    return {f"{entry['manager']} {entry['operation']}": entry["fieldsV1"] for entry in entries}


def conflicts(answer: Answer) -> list[list[str]]:
    return sorted([cause["field"], cause["message"]] for cause in answer.obj["details"]["causes"])


def as_recorded(obj: Obj) -> Obj:
    meta, pod = metadata(obj), obj["spec"]["template"]["spec"]
    containers = [
        [
            each["name"],
            each["image"],
            [[entry["name"], entry.get("value", "")] for entry in each.get("env", [])],
            [[port["containerPort"], port["protocol"]] for port in each.get("ports", [])],
            each.get("args", []),
            each.get("resources", {}),
        ]
        for each in pod["containers"]
    ]
    return {
        "labels": meta.get("labels", {}),
        "annotations": meta.get("annotations", {}),
        "finalizers": meta.get("finalizers", []),
        "containers": containers,
        "volumes": [volume["name"] for volume in pod.get("volumes", [])],
        "nodeSelector": pod.get("nodeSelector", {}),
        "replicas": obj["spec"]["replicas"],
        "owners": owners(obj),
    }


def test_objects_owners_and_conflicts_are_those_of_kube_apiserver(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path = f"{DEPLOYMENTS}/d"
        for number, step in enumerate(decode_json(RECORDED.read_bytes())):
            if "apply" in step:
                answer = await apply(api, path, step["by"], step["apply"], force=step["force"])
            else:
                answer = await merge(api, path, step["by"], step["merge"])
            assert answer.status == step["code"], (number, answer.obj)
            if "object" in step:
                assert as_recorded(answer.obj) == step["object"], number
            else:
                assert conflicts(answer) == step["conflicts"], number

    tell(story, tmp_path)


def test_what_is_not_there_is_created_and_the_same_again_changes_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        first = await apply(api, f"{MAPS}/a", "one", a_map(x="1"))
        assert first.status == 201
        assert owners(first.obj) == {"one Apply": {"f:data": {"f:x": {}}}}
        again = await apply(api, f"{MAPS}/a", "one", a_map(x="1"))
        assert (again.status, again.obj) == (200, first.obj)

    tell(story, tmp_path)


def test_yaml_is_read(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n"
        headers = {"content-type": APPLY_PATCH}
        made = await api.call("PATCH", f"{MAPS}/a?fieldManager=one", text, headers=headers)
        assert (made.status, made.obj["data"]) == (201, {"x": "1"})

    tell(story, tmp_path)


def test_another_owners_field_is_a_conflict_unless_forced(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await apply(api, f"{MAPS}/a", "one", a_map(x="1", y="1"))
        refused = await apply(api, f"{MAPS}/a", "two", a_map(x="2"))
        assert (refused.status, refused.reason) == (409, "Conflict")
        assert refused.obj["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.x'
        assert refused.causes == [(".data.x", "FieldManagerConflict")]
        forced = await apply(api, f"{MAPS}/a", "two", a_map(x="2"), force=True)
        assert forced.obj["data"] == {"x": "2", "y": "1"}
        assert owners(forced.obj) == {
            "one Apply": {"f:data": {"f:y": {}}},
            "two Apply": {"f:data": {"f:x": {}}},
        }

    tell(story, tmp_path)


def test_a_field_that_is_applied_no_more_goes_unless_another_owns_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await apply(api, f"{MAPS}/a", "one", a_map(x="1", y="1", z="1"))
        await apply(api, f"{MAPS}/a", "two", a_map(y="1"))
        left = await apply(api, f"{MAPS}/a", "one", a_map(z="1"))
        assert left.obj["data"] == {"y": "1", "z": "1"}

    tell(story, tmp_path)


def test_who_updates_a_field_owns_it_from_then_on(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await apply(api, f"{MAPS}/a", "one", a_map(x="1", y="1"))
        changed = await merge(api, f"{MAPS}/a", "hand", {"data": {"x": "2"}})
        assert owners(changed.obj) == {
            "one Apply": {"f:data": {"f:y": {}}},
            "hand Update": {"f:data": {"f:x": {}}},
        }
        refused = await apply(api, f"{MAPS}/a", "one", a_map(x="1", y="1"))
        assert (
            refused.obj["message"] == 'Apply failed with 1 conflict: conflict with "hand" using v1: .data.x'
        )

    tell(story, tmp_path)


def test_what_was_there_before_the_first_apply_has_an_owner(tmp_path: Path) -> None:
    """Objects that nobody applies have no managedFields, and cost nothing."""

    async def story(api: Api) -> None:
        made = await api.post(MAPS, config_map("a", x="1"))
        assert "managedFields" not in made.obj["metadata"]
        refused = await apply(api, f"{MAPS}/a", "one", a_map(x="2"))
        assert conflicts(refused) == [[".data.x", 'conflict with "before-first-apply" using v1']]
        shared = await apply(api, f"{MAPS}/a", "one", a_map(x="1"))
        assert sorted(owners(shared.obj)) == ["before-first-apply Update", "one Apply"]

    tell(story, tmp_path)


def test_kubectl_goes_on_where_it_applied_without_the_server(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        obj = config_map("a", x="1", y="1")
        last = encode_json(a_map(x="1")).decode()
        obj["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": last}
        await api.post(MAPS, obj)
        changed = await apply(api, f"{MAPS}/a", "kubectl", a_map(x="2"))
        assert (changed.status, changed.obj["data"]) == (200, {"x": "2", "y": "1"})
        assert (await apply(api, f"{MAPS}/a", "kubectl", a_map(y="2"))).status == 409

    tell(story, tmp_path)


def test_a_status_is_applied_to_its_own_address(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        (first, *_) = decode_json(RECORDED.read_bytes())
        wanted = {**first["apply"], "status": {"replicas": 9}}
        made = await apply(api, f"{DEPLOYMENTS}/d", "one", wanted)
        assert "replicas" not in made.obj["status"]
        wanted["spec"] = {"replicas": 7}
        told = await apply(api, f"{DEPLOYMENTS}/d/status", "two", wanted)
        assert (told.obj["status"]["replicas"], told.obj["spec"]["replicas"]) == (
            9,
            made.obj["spec"]["replicas"],
        )
        entry = metadata(told.obj)["managedFields"][-1]
        assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {"f:replicas": {}}})
        missing = {**wanted, "metadata": {"name": "nobody"}}
        assert (await apply(api, f"{DEPLOYMENTS}/nobody/status", "two", missing)).status == 404

    tell(story, tmp_path)


def test_owners_can_be_cleared_and_are_kept_by_who_does_not_know_them(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        made = await apply(api, f"{MAPS}/a", "one", a_map(x="1"))
        plain = {**made.obj, "metadata": {"name": "a"}, "data": {"x": "1", "y": "1"}}
        put = await api.call("PUT", f"{MAPS}/a?fieldManager=two", plain)
        assert list(owners(put.obj)) == ["one Apply", "two Update"]
        nonsense = [{"op": "add", "path": "/metadata/managedFields", "value": [{"manager": "x"}]}]
        assert owners((await merge(api, f"{MAPS}/a", "x", nonsense, JSON_PATCH)).obj) == owners(put.obj)
        reset = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
        assert owners((await merge(api, f"{MAPS}/a", "x", reset, JSON_PATCH)).obj) == {}

    tell(story, tmp_path)


@pytest.mark.parametrize(
    ("query", "changes", "code", "message"),
    [
        ("", {}, 422, "fieldManager: Required value: is required for apply patch"),
        ("fieldManager=x", {"metadata": {}}, 400, "(a based on URL) was undeterminable"),
        ("fieldManager=x", {"metadata": {"name": "b"}}, 400, "does not match the name on the URL (a)"),
        ("fieldManager=x", {"kind": ""}, 400, "invalid object type: /v1, Kind="),
        ("fieldManager=x", {"foo": 1}, 400, 'unknown field "foo"'),
        ("fieldManager=x", {"data": 1}, 400, "cannot"),
        ("fieldManager=x", {"metadata": {"name": "a", "uid": "u"}}, 409, "no existing object was found"),
        (
            "fieldManager=x",
            {"metadata": {"name": "a", "managedFields": [{"manager": "y"}]}},
            400,
            "metadata.managedFields must be nil",
        ),
    ],
)
def test_what_cannot_be_applied_is_refused_and_changes_nothing(
    query: str, changes: Obj, code: int, message: str, tmp_path: Path
) -> None:
    async def story(api: Api) -> None:
        headers = {"content-type": APPLY_PATCH}
        answer = await api.call("PATCH", f"{MAPS}/a?{query}", {**a_map(), **changes}, headers=headers)
        assert (answer.status, message in answer.obj["message"]) == (code, True), answer.obj
        assert (await api.get(f"{MAPS}/a")).status == 404

    tell(story, tmp_path)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"\xff\xfe", b"a: &a [*a]", b'{"a":' * 3000 + b"1" + b"}" * 3000]
)
def test_nonsense_is_the_callers_fault(body: bytes, tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await apply(api, f"{MAPS}/a", "one", a_map(x="1"))
        headers = {"content-type": APPLY_PATCH}
        for name in ("a", "b"):
            answer = await api.call("PATCH", f"{MAPS}/{name}?fieldManager=x", body, headers=headers)
            assert answer.status == 400, answer.obj

    tell(story, tmp_path)


def test_who_may_only_patch_creates_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"]}]
        await api.post(f"{ROLES}/clusterroles", {"metadata": {"name": "patcher"}, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "patcher"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
        binding = {"metadata": {"name": "jane"}, "roleRef": role, "subjects": [subject]}
        assert (await api.post(f"{ROLES}/clusterrolebindings", binding)).status == 201
        refused = await apply(api, f"{MAPS}/a", "one", a_map(x="1"), token=JANE)
        assert (refused.status, "cannot create resource" in refused.obj["message"]) == (403, True)
        await apply(api, f"{MAPS}/a", "one", a_map(x="1"))
        assert (await apply(api, f"{MAPS}/a", "two", a_map(y="1"), token=JANE)).status == 200

    tell(story, tmp_path)


def test_only_an_apply_can_be_forced(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        headers = {"content-type": MERGE_PATCH}
        answer = await api.call("PATCH", f"{MAPS}/a?force=true", {}, headers=headers)
        assert answer.causes == [("force", "FieldValueForbidden")]

    tell(story, tmp_path)


def test_a_dry_run_stores_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        headers = {"content-type": APPLY_PATCH}
        answer = await api.call("PATCH", f"{MAPS}/a?fieldManager=x&dryRun=All", a_map(x="1"), headers=headers)
        assert (answer.status, answer.obj["data"]) == (201, {"x": "1"})
        assert (await api.get(f"{MAPS}/a")).status == 404

    tell(story, tmp_path)
