"""Binding many pods: one answer each, few transactions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.api.binding.cluster import BATCHES, NODES, PODS, assert_kept, batch, bind, book, item, node, pod
from tests.api.harness import JANE, Api, tell
from tests.api.test_fences import take

from fathom.api.ledger.accounts import NODE_BOOKS
from fathom.record.audit_reading import read_entries


async def _pods(api: Api, count: int) -> None:
    for number in range(count):
        assert (await api.post(PODS, pod(f"p{number}"))).status == 201


def test_answers_come_in_the_order_of_the_asks(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await _pods(api, 2)
        results = await batch(
            api, item("p0", "n1"), item("nobody", "n1"), item("p1", "n9"), item("p1", "n1"), item("p1", "n1")
        )
        assert [(one["name"], one["status"], one.get("check")) for one in results] == [
            ("p0", "Bound", None),
            ("nobody", "Refused", "PodGone"),
            ("p1", "Refused", "NodeGone"),
            ("p1", "Bound", None),
            ("p1", "Refused", "PodBound"),
        ]
        assert_kept(api)

    tell(story, tmp_path)


def test_a_batch_is_few_commits_and_never_fills_a_node_over_its_limit(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        for name in ("n1", "n2"):
            await api.post(NODES, node(name))
        await _pods(api, 100)
        before = api.core.cache.reached
        results = await batch(api, *(item(f"p{number}", f"n{1 + number % 2}") for number in range(100)))
        bound = [one for one in results if one["status"] == "Bound"]
        assert (len(bound), {one.get("check") for one in results}) == (80, {None, "NodeFull"})
        assert api.core.cache.reached == before + 1
        assert book(api, NODE_BOOKS, "n1")["requested"] == {"cpu": 4000, "pods": 40}
        assert_kept(api)

    tell(story, tmp_path)


def test_single_binds_that_come_together_share_commits(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await _pods(api, 30)
        before = api.core.cache.reached
        answers = await asyncio.gather(*(bind(api, f"p{number}", "n1") for number in range(30)))
        assert {answer.status for answer in answers} == {201}
        assert api.core.cache.reached - before < 10
        assert_kept(api)

    tell(story, tmp_path)


def test_each_bind_has_its_own_audit_entry(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await _pods(api, 2)
        await batch(api, item("p0", "n1"), item("p1", "n1"), item("p2", "n1"))
        api.audit.flush()
        entries = [one for one in read_entries(tmp_path / "audit") if one.subresource == "binding"]
        assert [(entry.resource, entry.name, entry.code) for entry in entries] == [
            ("pods", "p0", 200),
            ("pods", "p1", 200),
        ]

    tell(story, tmp_path)


def test_who_may_not_bind_in_a_namespace_may_not_do_so_by_batch(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        rules = [{"apiGroups": ["fathom.dev"], "resources": ["bindingbatches"], "verbs": ["create"]}]
        role = {
            "kind": "ClusterRole",
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "batcher"},
            "rules": rules,
        }
        await api.post(f"{rbac}/clusterroles", role)
        binding = {
            "kind": "ClusterRoleBinding",
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": "batcher"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "batcher"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
        }
        await api.post(f"{rbac}/clusterrolebindings", binding)
        answer = await api.post(BATCHES, {"items": [item("p", "n")]}, token=JANE)
        assert answer.status == 403
        assert "pods/binding" in answer.obj["message"]

    tell(story, tmp_path)


def test_who_has_lost_its_lease_binds_nothing(tmp_path: Path) -> None:
    async def story(api: Api) -> None:
        await api.post(NODES, node("n1"))
        await _pods(api, 2)
        first = await take(api, "a")
        [bound] = await batch(api, item("p0", "n1"), headers={"fathom-fence": first})
        assert bound["status"] == "Bound"
        await take(api, "b")
        [late] = await batch(api, item("p1", "n1"), headers={"fathom-fence": first})
        assert (late["status"], late["check"]) == ("Refused", "FenceLost")
        alone = await bind(api, "p1", "n1", headers={"fathom-fence": first})
        assert (alone.status, alone.causes) == (409, [("", "FenceLost")])
        assert_kept(api)

    tell(story, tmp_path)
