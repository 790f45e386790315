"""How objects go: at once, when nothing holds them, and with their dependents."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.api.harness import Api, config_map, pod, tell

from fathom.record.audit_reading import read_entries

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"


def test_an_object_that_nothing_holds_goes_at_once(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        created = (await api.post(MAPS, config_map("a"))).obj
        answer = await api.delete(f"{MAPS}/a")
        assert (answer.status, answer.obj["status"], answer.obj["details"]) == (
            200,
            "Success",
            {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
        )
        assert (await api.get(f"{MAPS}/a")).status == 404

    tell(story, tmp_path)


def test_a_finalizer_holds_an_object_until_it_is_taken_away(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        body = config_map("a")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await api.post(MAPS, body)
        held = await api.delete(f"{MAPS}/a")
        assert held.status == 200
        assert held.obj["metadata"]["deletionTimestamp"]
        again = await api.delete(f"{MAPS}/a")
        assert again.obj["metadata"]["resourceVersion"] == held.obj["metadata"]["resourceVersion"]
        added = await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/hold", "x.com/y"]}})
        assert added.status == 422
        await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}})
        assert (await api.get(f"{MAPS}/a")).status == 404

    tell(story, tmp_path)


def test_preconditions_guard_against_a_namesake(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        created = (await api.post(MAPS, config_map("a"))).obj["metadata"]
        wrong = await api.delete(f"{MAPS}/a", {"preconditions": {"uid": "other"}})
        stale = await api.delete(f"{MAPS}/a", {"preconditions": {"resourceVersion": "1"}})
        right = await api.delete(f"{MAPS}/a", {"preconditions": {"uid": created["uid"]}})
        assert (wrong.status, stale.status, right.status) == (409, 409, 200)

    tell(story, tmp_path)


def test_a_pod_on_a_node_waits_for_its_agent(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}})
        await api.post(PODS, pod("p"))
        await api.post(f"{PODS}/p/binding", {"target": {"name": "n1"}})
        marked = (await api.delete(f"{PODS}/p")).obj["metadata"]
        assert marked["deletionGracePeriodSeconds"] == 30
        hurried = (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})).obj["metadata"]
        assert hurried["deletionGracePeriodSeconds"] == 5
        await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert (await api.get(f"{PODS}/p")).status == 404

    tell(story, tmp_path)


def test_a_collection_is_deleted_by_its_selection(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for name in ("a", "b", "c"):
            body = config_map(name)
            body["metadata"]["labels"] = {"keep": str(name == "b").lower()}
            await api.post(MAPS, body)
        deleted = await api.delete(f"{MAPS}?labelSelector=keep%3Dfalse")
        assert [item["metadata"]["name"] for item in deleted.obj["items"]] == ["a", "c"]
        assert (await api.get(f"{MAPS}/b")).status == 200

    tell(story, tmp_path)


def test_bad_options_are_refused_and_nothing_is_deleted(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("a"))
        bad: list[Any] = [
            {"propagationPolicy": "Sideways"},
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            {"gracePeriodSeconds": "soon"},
            {"dryRun": ["Maybe"]},
            b"{",
        ]
        for body in bad:
            assert (await api.delete(f"{MAPS}/a", body)).status in {400, 422}
        assert (await api.get(f"{MAPS}/a")).status == 200

    tell(story, tmp_path)


async def _family(api: Api) -> None:
    """A parent, a child that blocks it, and a grandchild."""
    parent = (await api.post(MAPS, config_map("parent"))).obj["metadata"]
    child = await api.post(MAPS, _owned("child", "parent", parent["uid"]))
    await api.post(MAPS, _owned("grandchild", "child", child.obj["metadata"]["uid"]))


def _owned(name: str, owner: str, uid: str) -> dict[str, Any]:
    body = config_map(name)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid}
    body["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
    return body


async def _left(api: Api) -> list[str]:
    items = (await api.get(MAPS)).obj["items"]
    return [item["metadata"]["name"] for item in items]


def test_in_the_background_dependents_follow(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _family(api)
        await api.delete(f"{MAPS}/parent", {"propagationPolicy": "Background"})
        assert (await api.get(f"{MAPS}/parent")).status == 404

        async def gone() -> bool:
            return await _left(api) == []

        await api.eventually(gone)

    tell(story, tmp_path)


def test_in_the_foreground_dependents_go_first(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _family(api)
        watching = await api.watch(
            f"{MAPS}?resourceVersion={(await api.get(MAPS)).obj['metadata']['resourceVersion']}"
        )
        await api.delete(f"{MAPS}/parent", {"propagationPolicy": "Foreground"})

        async def gone() -> bool:
            return await _left(api) == []

        await api.eventually(gone)
        order: list[str] = []
        while len(order) < 3:
            event = await watching.next()
            assert event is not None
            if event["type"] == "DELETED":
                order.append(event["object"]["metadata"]["name"])
        assert order == ["grandchild", "child", "parent"]

    tell(story, tmp_path)


def test_orphans_live_on_without_their_owner(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _family(api)
        await api.delete(f"{MAPS}/parent", {"propagationPolicy": "Orphan"})

        async def orphaned() -> bool:
            return await _left(api) == ["child", "grandchild"]

        await api.eventually(orphaned)
        child = (await api.get(f"{MAPS}/child")).obj["metadata"]
        assert not child.get("ownerReferences")

    tell(story, tmp_path)


def test_an_object_made_with_an_owner_that_never_was_is_collected(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, _owned("stray", "nobody", "no-such-uid"))

        async def gone() -> bool:
            return await _left(api) == []

        await api.eventually(gone)

    tell(story, tmp_path)


def test_of_a_family_that_is_well_nobody_is_asked_anything(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await _family(api)
        await asyncio.sleep(0.05)  # For what its making set off.
        before = api.parts.server._count
        for value in "abc":
            await api.patch(f"{MAPS}/child", {"data": {"x": value}})
            await asyncio.sleep(0.02)
        assert api.parts.server._count - before == 3

    tell(story, tmp_path)


def test_a_namespace_takes_its_contents_with_it(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
        await api.post("/api/v1/namespaces/a/configmaps", config_map("x"))
        held = config_map("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await api.post("/api/v1/namespaces/a/configmaps", held)
        answer = await api.delete("/api/v1/namespaces/a")
        assert answer.obj["status"]["phase"] == "Terminating"
        refused = await api.post("/api/v1/namespaces/a/configmaps", config_map("y"))
        assert (refused.status, refused.reason) == (403, "Forbidden")

        async def says_what_holds_it() -> bool:
            found = (await api.get("/api/v1/namespaces/a")).obj
            return any("example.com/hold" in c["message"] for c in found["status"].get("conditions", ()))

        await api.eventually(says_what_holds_it)
        await api.patch("/api/v1/namespaces/a/configmaps/held", {"metadata": {"finalizers": None}})

        async def gone() -> bool:
            return (await api.get("/api/v1/namespaces/a")).status == 404

        await api.eventually(gone)

    tell(story, tmp_path)


def test_a_new_namespace_gets_its_default_service_account(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})

        async def there() -> bool:
            return (await api.get("/api/v1/namespaces/a/serviceaccounts/default")).status == 200

        await api.eventually(there)

    tell(story, tmp_path)


def test_a_collection_leaves_an_audit_entry_for_each_object(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for name in ("a", "b"):
            await api.post(MAPS, config_map(name))
        answer = await api.delete(MAPS)
        api.audit.flush()
        entries = [entry for entry in read_entries(tmp_path / "audit") if entry.verb == "deletecollection"]
        assert [(entry.name, entry.wrote) for entry in entries] == [("a", True), ("b", True)]
        assert {entry.request for entry in entries} == {answer.headers["audit-id"]}

    tell(story, tmp_path)


def test_kinds_that_clients_read_as_themselves_are_answered_whole(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path = "/api/v1/namespaces/default/persistentvolumeclaims"
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await api.post(path, {"metadata": {"name": "c"}, "spec": spec})
        gone = (await api.delete(f"{path}/c")).obj
        assert (gone["kind"], gone["metadata"]["name"]) == ("PersistentVolumeClaim", "c")

    tell(story, tmp_path)
