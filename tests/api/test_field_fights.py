"""The API server names fights over fields, in an Event and in a condition, and does nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.api.harness import ADMIN, JANE, Api, config_map, deployment, tell

from fathom.model.media_types import MERGE_PATCH
from fathom.model.objects import Obj

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SIGNALS = "/apis/fathom.dev/v1alpha1/componentsignals/field-fights"
ROLES = "/apis/rbac.authorization.k8s.io/v1"


async def let_jane_write(api: Api) -> None:
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    role = {"metadata": {"name": "all"}, "rules": [rule]}
    assert (await api.post(f"{ROLES}/clusterroles", role)).status == 201
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}
    reference = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "all"}
    binding = {"metadata": {"name": "jane"}, "subjects": [subject], "roleRef": reference}
    assert (await api.post(f"{ROLES}/clusterrolebindings", binding)).status == 201


async def write(api: Api, mode: str, *, token: str = ADMIN, actor: str = "") -> int:
    headers = {"content-type": MERGE_PATCH, "user-agent": "kubectl/v1.30", "fathom-actor": actor}
    change = {"data": {"mode": mode}}
    return (await api.call("PATCH", f"{MAPS}/settings", change, token=token, headers=headers)).status


async def events(api: Api) -> list[Obj]:
    listed = (await api.get("/api/v1/namespaces/default/events")).obj["items"]
    return [event for event in listed if event["reason"] in {"FieldHasTwoWriters", "FieldOscillates"}]


def test_two_users_who_undo_each_other_get_an_event_and_a_condition(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await let_jane_write(api)
        await api.post(MAPS, config_map("settings", mode="start"))
        for turn in range(6):
            mode, token = (("a", ADMIN), ("b", JANE))[turn % 2]
            assert await write(api, mode, token=token) == 200

        async def named() -> bool:
            return bool(await events(api)) and (await api.get(SIGNALS)).status == 200

        await api.eventually(named)
        [event] = await events(api)
        assert event["involvedObject"]["kind"] == "ConfigMap"
        assert event["involvedObject"]["fieldPath"] == "data[mode]"
        assert "admin (kubectl)" in event["message"]
        assert "jane (kubectl)" in event["message"]

        async def told() -> bool:
            return bool((await api.get(SIGNALS)).obj["status"].get("conditions"))

        await api.eventually(told)
        [condition] = (await api.get(SIGNALS)).obj["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("TwoWriters", "True")
        assert condition["message"].startswith("configmaps default/settings: data[mode] is changed back")
        assert (await api.get(f"{MAPS}/settings")).obj["data"] == {"mode": "b"}, "it acts on nothing"

    tell(story, tmp_path)


def test_an_object_that_two_users_delete_and_create_in_turn_is_named(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await let_jane_write(api)
        for _ in range(4):
            assert (await api.post(MAPS, config_map("settings"), token=ADMIN)).status == 201
            dry = await api.delete(f"{MAPS}/settings?dryRun=All", token=JANE)
            assert dry.status == 200, dry.obj
            assert (await api.delete(f"{MAPS}/settings", token=JANE)).status == 200

        async def named() -> bool:
            return bool(await events(api))

        await api.eventually(named)
        [event] = await events(api)
        assert event["involvedObject"]["name"] == "settings"
        assert event["message"].startswith("the object is deleted and created again in turn by jane")
        assert "admin" in event["message"]

    tell(story, tmp_path)


def test_who_ends_a_deletion_that_another_began_did_not_want_it(tmp_path: Path) -> None:
    """As an agent does with a pod: alone, neither the creator nor the finisher is a rival."""

    async def story(api: Api) -> None:
        await let_jane_write(api)
        for _ in range(5):
            held = {**config_map("settings"), "metadata": {"name": "settings", "finalizers": ["a.io/b"]}}
            assert (await api.post(MAPS, held)).status == 201
            assert (await api.delete(f"{MAPS}/settings")).status == 200
            assert (await api.delete(f"{MAPS}/settings", token=JANE)).status == 200
            freed = {"metadata": {"finalizers": None}}
            assert (await api.patch(f"{MAPS}/settings", freed, token=JANE)).status == 200
        assert api.parts.fights.recreations.active(0) == ()

    tell(story, tmp_path)


def test_a_secret_value_is_never_kept_or_told(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        path = "/api/v1/namespaces/default/secrets"
        await api.post(path, {"metadata": {"name": "key"}, "data": {"token": "b25l"}})
        for turn in range(6):
            await api.patch(f"{path}/key", {"data": {"token": ("b25l", "dHdv")[turn % 2]}})

        async def named() -> bool:
            return bool(await events(api))

        await api.eventually(named)
        kept = str(vars(api.parts.fights.detector)) + str(await events(api))
        assert "b25l" not in kept
        assert "dHdv" not in kept

    tell(story, tmp_path)


def test_a_scale_subresource_and_a_patch_are_writes_of_the_same_field(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await let_jane_write(api)
        await api.post(DEPLOYMENTS, deployment("web", 1))
        for turn in range(6):
            path, token = (("web/scale", ADMIN), ("web", JANE))[turn % 2]
            change = {"spec": {"replicas": (5, 2)[turn % 2]}}
            assert (await api.patch(f"{DEPLOYMENTS}/{path}", change, token=token)).status == 200

        async def named() -> bool:
            return bool(await events(api))

        await api.eventually(named)
        [event] = await events(api)
        assert event["involvedObject"]["fieldPath"] == "spec.replicas"

    tell(story, tmp_path)


def test_work_that_goes_one_way_is_not_named(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(DEPLOYMENTS, deployment("web", 1))
        for replicas in (2, 4, 8, 8, 6, 3):
            await api.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": replicas}})
            for ready in (0, 1, 0, 1):
                status = {"status": {"replicas": 1, "readyReplicas": ready}}
                await api.patch(f"{DEPLOYMENTS}/web/status", status)
        assert len(api.parts.fights.detector) > 0
        assert api.parts.fights.detector.active(0) == ()
        assert (await api.get(SIGNALS)).status == 404

    tell(story, tmp_path)


def test_only_accounts_of_fathom_are_believed_when_they_name_an_actor(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(MAPS, config_map("settings", mode="start"))
        for turn in range(6):
            assert await write(api, f"{turn % 2}", actor="controllers/deployments") == 200

        async def named() -> bool:
            return bool(await events(api))

        await api.eventually(named)
        [event] = await events(api)
        assert "written by admin (kubectl)" in event["message"]

    tell(story, tmp_path)
