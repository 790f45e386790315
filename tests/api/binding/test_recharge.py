"""Pods that an override let into a class, moved to the ordinary account of their tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api.binding.cluster import NODES, OWN, PODS, assert_kept, batch, book, item, node, own, pod
from tests.api.harness import Answer, Api, tell
from tests.security.people import introduce, lead

from fathom.api.ledger.accounts import NODE_BOOKS, TENANT_BOOKS
from fathom.model.accounts import CONTROLLERS
from fathom.model.objects import Obj
from fathom.model.user import User

OVERRIDES = f"{OWN}/namespaces/default/scheduleroverrides"


async def lent(api: Api, *, resources: Obj | None = None) -> str:
    """A pod on reserved capacity by an override; the override's UID. `resources`: what the class keeps of the
    node; None: all of it."""
    await api.post(NODES, node("r1", zone="a", labels={"pool": "recovery"}))
    kept = {} if resources is None else {"resources": resources}
    spec = {"nodeSelector": {"pool": "recovery"}, "tenants": [], **kept}
    await api.post(f"{OWN}/capacityclasses", own("CapacityClass", "recovery", spec))
    await api.post(PODS, pod("p", cpu="1"))
    changes = {"allowReservedCapacityClass": "recovery"}
    spec = {
        "target": "workload/p",
        "scope": "cluster",
        "reason": "recovery",
        "expiresAfter": "30m",
        "changes": changes,
    }
    made = (await api.post(OVERRIDES, own("SchedulerOverride", "recovery", spec))).obj
    into = {"fathom.dev/capacity-class": "recovery"}
    results = await batch(api, item("p", "r1", annotations=into, overrides=["recovery"]))
    assert [one.get("check") for one in results] == [None]
    return str(made["metadata"]["uid"])


async def recharge(api: Api, account: str, **how: Any) -> Answer:
    headers = {"content-type": "application/merge-patch+json", **how.pop("headers", {})}
    change = {"metadata": {"annotations": {"fathom.dev/account": account}}}
    return await api.call("PATCH", f"{PODS}/p", change, headers=headers, **how)


async def controllers(api: Api) -> dict[str, Any]:
    introduce(api, User(CONTROLLERS))
    return {"token": CONTROLLERS, "headers": await lead(api, CONTROLLERS, "fathom-system/controllers")}


def account_in(answer: Answer) -> str:
    return str(answer.obj["metadata"]["annotations"]["fathom.dev/account"])


def test_the_controllers_move_a_pod_to_the_ordinary_account_in_one_commit(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        uid = await lent(api, resources={"cpu": "1"})
        assert book(api, TENANT_BOOKS, "default")["overrides"] == {uid: 1}
        moved = await recharge(api, "default/a/", **await controllers(api))
        assert (moved.status, account_in(moved)) == (200, "default/a/")
        counts = {"cpu": 1000, "pods": 1}
        assert book(api, TENANT_BOOKS, "default") == {"used": {"a/": counts}}
        assert book(api, NODE_BOOKS, "r1") == {"requested": counts}
        assert_kept(api)

    tell(story, tmp_path)


def test_nobody_else_changes_an_account_and_nobody_to_another_tenant(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        uid = await lent(api, resources={"cpu": "1"})
        own_account = f"default/a/recovery/{uid}"
        assert account_in(await recharge(api, "default/a/")) == own_account
        by_controllers = await controllers(api)
        assert account_in(await recharge(api, "other/a/", **by_controllers)) == own_account
        assert account_in(await recharge(api, "default/b/", **by_controllers)) == own_account
        assert_kept(api)

    tell(story, tmp_path)


def test_a_pod_on_a_reserved_node_or_beyond_its_quota_stays_on_the_overrides_account(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await lent(api)
        how = await controllers(api)
        refused = await recharge(api, "default/a/", **how)
        assert refused.status == 403
        assert refused.obj["message"].endswith("its node is reserved for capacity class recovery")
        await api.delete(f"{OWN}/capacityclasses/recovery")
        limits = {"limits": [{"capacityClass": "", "resources": {"cpu": "500m"}}]}
        await api.post(f"{OWN}/tenantquotas", own("TenantQuota", "default", limits))
        refused = await recharge(api, "default/a/", **how)
        assert refused.status == 403
        assert "1000m more do not fit" in refused.obj["message"]
        assert_kept(api)

    tell(story, tmp_path)
