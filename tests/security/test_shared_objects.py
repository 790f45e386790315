"""Objects that every request looks at: however many and long a tenant makes them, others are served soon."""

from __future__ import annotations

from pathlib import Path

from tests.api.cpu import process_cpu_s
from tests.api.harness import JANE, Api, tell
from tests.security.costs import TRIES

from fathom.model.body import Body
from fathom.model.objects import Obj
from fathom.store.memory import MemoryStore
from fathom.store.protocol import Put

RBAC = "rbac.authorization.k8s.io"
CPU_S_MAX = 1.0


def stored(resource: str, kind: str, name: str, **fields: object) -> Put:
    obj: Obj = {"kind": kind, "apiVersion": f"{RBAC}/v1", "metadata": {"namespace": "default", "name": name}}
    obj["metadata"]["uid"] = name
    return Put(f"/registry/{resource}.{RBAC}/default/{name}", Body({**obj, **fields}))


def test_a_user_bound_very_often_to_a_long_role_is_judged_quickly(tmp_path: Path) -> None:
    """Three thousand bindings of a role with four thousand rules are twelve million, but one role."""
    rules = [{"verbs": ["get"], "apiGroups": ["x"], "resources": [f"r{at}"]} for at in range(4_000)]
    subject = {"kind": "User", "name": "jane", "apiGroup": RBAC}
    ref = {"kind": "Role", "name": "long", "apiGroup": RBAC}

    async def story(api: Api) -> None:
        store = api.core.store
        await store.commit((), [stored("roles", "Role", "long", rules=rules)])
        await store.commit(
            (),
            [
                stored("rolebindings", "RoleBinding", f"b{at}", subjects=[subject], roleRef=ref)
                for at in range(3_000)
            ],
        )
        await api.core.wait_for(await store.revision())
        spent = []
        for number in range(TRIES):
            started = process_cpu_s()
            refused = await api.get(f"/api/v1/namespaces/default/secrets?limit={number}", token=JANE)
            spent.append(process_cpu_s() - started)
            assert refused.status == 403
            await api.post(
                f"/apis/{RBAC}/v1/namespaces/default/roles",
                {"metadata": {"name": f"new{number}"}, "rules": []},
            )
        assert min(spent) < CPU_S_MAX

    tell(story, tmp_path, store=MemoryStore())


def test_a_refusal_names_few_of_very_many_roles_that_are_not_there(tmp_path: Path) -> None:
    subject = {"kind": "User", "name": "jane", "apiGroup": RBAC}

    async def story(api: Api) -> None:
        writes = [
            stored(
                "rolebindings",
                "RoleBinding",
                f"b{at}",
                subjects=[subject],
                roleRef={"kind": "Role", "name": f"gone-{at}", "apiGroup": RBAC},
            )
            for at in range(1_000)
        ]
        store = api.core.store
        await store.commit((), writes)
        await api.core.wait_for(await store.revision())
        refused = await api.get("/api/v1/namespaces/default/secrets", token=JANE)
        assert refused.status == 403
        assert refused.obj["message"].endswith("and 990 more]")
        assert len(refused.obj["message"]) < 2_000

    tell(story, tmp_path, store=MemoryStore())


def test_a_role_of_more_rules_than_anybody_needs_is_refused(tmp_path: Path) -> None:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}

    async def story(api: Api) -> None:
        role = {"metadata": {"name": "endless"}, "rules": [rule] * 5_001}
        refused = await api.post(f"/apis/{RBAC}/v1/namespaces/default/roles", role)
        assert (refused.status, refused.causes) == (422, [("rules", "FieldValueTooMany")])

    tell(story, tmp_path)


def test_quotas_that_name_very_many_resources_in_all_let_nothing_more_in(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        where = "/api/v1/namespaces/default/resourcequotas"
        for number in range(11):
            hard = {f"count/x{at}.example.com": "1" for at in range(1_000)}
            made = await api.post(where, {"metadata": {"name": f"q{number}"}, "spec": {"hard": hard}})
            assert made.status == (201 if number <= 10 else 403)
        refused = await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        assert (refused.status, "quotas of the namespace" in refused.obj["message"]) == (403, True)
        assert (await api.delete(f"{where}/q0")).status == 200
        assert (
            await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
        ).status == 201

    tell(story, tmp_path)
