"""No stale leader's write commits."""

from __future__ import annotations

from pathlib import Path

from tests.api.harness import Answer, Api, config_map, tell

from fathom.api.admission.attempt import WriteAttempt
from fathom.api.admission.fences import LeaseFence
from fathom.kube.definitions.registry import Registry
from fathom.model.objects import Key, Obj
from fathom.model.user import User
from fathom.model.view import Seen

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MAPS = "/api/v1/namespaces/default/configmaps"


def lease(holder: str) -> Obj:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    return {"metadata": {"name": "leader"}, "spec": spec}


async def take(api: Api, holder: str) -> str:
    """Become the holder; the fence to show."""
    answer = await api.put(f"{LEASES}/leader", lease(holder))
    assert answer.status in {200, 201}
    return f"default/leader/{answer.obj['metadata']['annotations']['fathom.dev/epoch']}"


async def write(api: Api, name: str, fence: str) -> Answer:
    return await api.post(MAPS, config_map(name), headers={"fathom-fence": fence})


def test_a_write_behind_a_lost_fence_is_refused(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        first = await take(api, "a")
        assert (await write(api, "by-a", first)).status == 201
        second = await take(api, "b")
        late = await write(api, "too-late", first)
        assert (late.status, late.reason, late.causes) == (409, "Conflict", [("", "Fenced")])
        assert (await api.get(f"{MAPS}/too-late")).status == 404
        assert (await write(api, "by-b", second)).status == 201

    tell(story, tmp_path)


def test_renewing_does_not_move_the_fence(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        fence = await take(api, "a")
        renewed = lease("a")
        renewed["spec"]["renewTime"] = "2026-01-01T00:00:05.000000Z"
        await api.put(f"{LEASES}/leader", renewed)
        assert (await write(api, "x", fence)).status == 201

    tell(story, tmp_path)


def test_a_lease_made_anew_continues_the_epochs(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        first = await take(api, "a")
        await api.delete(f"{LEASES}/leader")
        second = await take(api, "a")
        assert first != second
        assert (await write(api, "x", first)).status == 409

    tell(story, tmp_path)


def test_updates_patches_status_and_deletes_are_fenced_too(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        stale = {"fathom-fence": await take(api, "a")}
        await take(api, "b")
        await api.post(MAPS, config_map("m"))
        put = await api.put(f"{MAPS}/m", config_map("m", x="1"), headers=stale)
        merge = {"content-type": "application/merge-patch+json", **stale}
        patch = await api.call("PATCH", f"{MAPS}/m", {"data": {"y": "1"}}, headers=merge)
        delete = await api.delete(f"{MAPS}/m", headers=stale)
        assert [put.status, patch.status, delete.status] == [409, 409, 409]

    tell(story, tmp_path)


def test_a_fence_that_cannot_be_read_is_a_bad_request(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for fence in ("x", "a/b", "a/b/c", "a/b/-1", "a/b/1/2"):
            assert (await write(api, "x", fence)).status == 400
        assert (await write(api, "x", "default/nobody/1")).status == 409

    tell(story, tmp_path)


def test_the_fence_itself_is_not_in_the_api(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await take(api, "a")
        assert (await api.get("/apis/fathom.dev/v1alpha1/fences")).status == 404

    tell(story, tmp_path)


def test_a_renewal_keeps_the_epoch_though_the_view_of_the_fence_is_behind() -> None:
    """1. The lease changes hands through another server. 2. This one, which has not heard of it, is asked to
    renew: it reads the lease from the store, but the fence from its view."""

    class Behind:
        def get(self, resource: str, key: Key) -> Seen | None:
            return Seen({"epoch": 3, "holder": "a"}, 70)

        def list(self, resource: str, namespace: str | None = None) -> list[Seen]:
            return []

        def revision(self, resource: str) -> int:
            return 70

    held = {**lease("b"), "metadata": {"name": "leader", "annotations": {"fathom.dev/epoch": "4"}}}
    kind = next(one for one in Registry.builtin().kinds() if one.resource == "leases.coordination.k8s.io")
    attempt = WriteAttempt("UPDATE", kind, "default", "leader", lease("b"), held, User("b", ()))
    renewed = LeaseFence().mutate(attempt, Behind())
    assert renewed == held
    assert LeaseFence().charge(attempt, Behind()) == ()
