"""A custom kind with several versions: one stored, each shown with the fields that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api.harness import Api, tell

from fathom.model.media_types import APPLY_PATCH, MERGE_PATCH
from fathom.model.objects import Obj

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "/apis/example.dev"


def version(name: str, *fields: str, **more: Any) -> Obj:
    spec = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": False, "schema": schema, **more}


def definition(*versions: Obj) -> Obj:
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    spec = {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": list(versions)}
    return {"metadata": {"name": "things.example.dev"}, "spec": spec}


NEW = version("v1", "a", "b", storage=True)
OLD = version("v1beta1", "a", deprecated=True)


def things(version: str, name: str = "") -> str:
    return f"{GROUP}/{version}/namespaces/default/things" + (f"/{name}" if name else "")


def thing(version: str, name: str = "t", **spec: str) -> Obj:
    head = {"apiVersion": f"example.dev/{version}", "kind": "Thing"}
    return {**head, "metadata": {"name": name}, "spec": spec}


def shown(obj: Obj) -> tuple[str, Obj]:
    return obj["apiVersion"].rpartition("/")[2], obj["spec"]


def test_an_object_is_shown_in_every_version(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        assert (await api.post(DEFINITIONS, definition(OLD, NEW))).status == 201
        made = await api.post(things("v1beta1"), thing("v1beta1", a="1"))
        assert shown(made.obj) == ("v1beta1", {"a": "1"})
        headers = {"content-type": MERGE_PATCH}
        changed = await api.call("PATCH", things("v1", "t"), {"spec": {"b": "2"}}, headers=headers)
        assert shown(changed.obj) == ("v1", {"a": "1", "b": "2"})
        for name, spec in (("v1", {"a": "1", "b": "2"}), ("v1beta1", {"a": "1"})):
            assert shown((await api.get(things(name, "t"))).obj) == (name, spec)
            (listed,) = (await api.get(things(name))).obj["items"]
            assert shown(listed) == (name, spec)
            watch = await api.watch(f"{things(name)}?watch=true&resourceVersion=0")
            event = await watch.next()
            assert event is not None
            assert shown(event["object"]) == (name, spec)
            watch.close()

    tell(story, tmp_path)


def test_who_writes_an_old_version_removes_what_it_does_not_have(tmp_path: Path) -> None:
    """As in Kubernetes, where nobody converts."""

    async def story(api: Api) -> None:
        await api.post(DEFINITIONS, definition(OLD, NEW))
        await api.post(things("v1"), thing("v1", a="1", b="2"))
        read = await api.get(things("v1beta1", "t"))
        await api.call("PUT", things("v1beta1", "t"), {**read.obj, "spec": {"a": "2"}})
        assert shown((await api.get(things("v1", "t"))).obj) == ("v1", {"a": "2"})

    tell(story, tmp_path)


def test_an_apply_of_another_version_owns_its_fields(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEFINITIONS, definition(OLD, NEW))
        headers = {"content-type": APPLY_PATCH}
        for name, by in (("v1", "one"), ("v1beta1", "two")):
            path = f"{things(name, 't')}?fieldManager={by}"
            applied = await api.call("PATCH", path, thing(name, a="1"), headers=headers)
            assert applied.status < 300, applied.obj
        entries = (await api.get(things("v1", "t"))).obj["metadata"]["managedFields"]
        assert [entry["apiVersion"] for entry in entries] == ["example.dev/v1", "example.dev/v1beta1"]

    tell(story, tmp_path)


def test_discovery_prefers_the_newest_stable_version(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEFINITIONS, definition(OLD, NEW, version("v2", served=False)))
        group = (await api.get(GROUP)).obj
        assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]
        assert group["preferredVersion"]["version"] == "v1"
        assert (await api.get(things("v2"))).status == 404
        old = await api.get(things("v1beta1"))
        assert "example.dev/v1beta1 Thing is deprecated" in str(old.headers)

    tell(story, tmp_path)


def test_what_was_stored_before_the_storage_version_changed_is_read(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEFINITIONS, definition({**OLD, "storage": True}))
        await api.post(things("v1beta1"), thing("v1beta1", a="1"))
        current = (await api.get(f"{DEFINITIONS}/things.example.dev")).obj
        current["spec"]["versions"] = definition(OLD, NEW)["spec"]["versions"]
        changed = await api.call("PUT", f"{DEFINITIONS}/things.example.dev", current)
        assert changed.obj["status"]["storedVersions"] == ["v1beta1", "v1"]
        assert shown((await api.get(things("v1", "t"))).obj) == ("v1", {"a": "1"})
        changed.obj["spec"]["versions"] = [NEW]
        refused = await api.call("PUT", f"{DEFINITIONS}/things.example.dev", changed.obj)
        assert refused.causes == [("status.storedVersions[0]", "FieldValueInvalid")]

    tell(story, tmp_path)
